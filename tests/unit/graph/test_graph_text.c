/* Graph to text and back, errors of the reader in their own words. */
#include "graph/text.h"
#include "unit/graph_check.h"

static char *written(const tn__graph *g) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__graph_write(g, &buf);
  check_ok(tn__strbuf_status(&buf));
  char *text = strdup(tn__strbuf_text(&buf));
  tn__strbuf_release(&buf);
  return text;
}

static tn__graph *read_back(void **state, const char *text) {
  graph_fixture *f = *state;
  tn__graph *g;
  check_ok(tn__graph_read(tn__ir_create(&f->arena), "t.tng", text, strlen(text), NULL, &g));
  return g;
}

/* Read and written, the text is `want`. */
static void check_written(void **state, const char *text, const char *want) {
  char *again = written(read_back(state, text));
  assert_string_equal(again, want);
  free(again);
}

static void check_round_trip(void **state, const char *text) { check_written(state, text, text); }

static void check_refused(void **state, const char *text, const char *message) {
  graph_fixture *f = *state;
  tn__graph *g;
  tn_status *status = tn__graph_read(tn__ir_create(&f->arena), "t.tng", text, strlen(text), NULL, &g);
  assert_null(g);
  check_fails(status, TN_INVALID_ARGUMENT, message);
}

#define GRAPH(lines) "graph \"g\" {\n" lines "}\n"

static void every_statement_round_trips(void **state) {
  check_round_trip(state, GRAPH("  input x: f32[n, 3]\n"
                                "  input \"x:0\": i64[2] valid n + 1 along 0\n"
                                "  symbol s in [0, +n + 1) = element 1 of \"x:0\"\n"
                                "  symbol batch_size \"batch size\" = element 0 of \"x:0\"\n"
                                "  check s < n, \"s is \", s, \" and must be less than \", n from \"node \\\"a\\\"\"\n"
                                "  check n != 5, \"\"\n"
                                "  negate3: f32[n, 3] = negate(x) from \"node 5\"\n"
                                "  const c5: f32[] = 0.0\n"
                                "  pad4: f32[n + 1, 5] = pad(negate3, c5) {low=(0, 1), high=(1, 1), interior=[0, 0]}\n"
                                "  output \"y\" = pad4 valid n along 0\n"
                                "  output \"z\" = \"x:0\"\n"));
}

static void layouts_round_trip(void **state) {
  check_round_trip(
      state,
      GRAPH("  input x: f32[n, 2]\n"
            "  input w: f32[2, 5]\n"
            "  relayout2: f32[2, 2, 4] of [2, 5] in {1/4, 0, 1%4} = relayout(w) {parts=[1, 4, 0, 0, 1, 0, 1, 1, 4]}\n"
            "  dot_general3: f32[n, 5] = dot_general(x, relayout2) {lhs_contract=1, rhs_contract=0, dtype=\"f32\"}\n"
            "  output \"y\" = dot_general3\n"));
  check_round_trip(
      state,
      GRAPH(
          "  input x: u8[n, 8]\n"
          "  relayout2: i32[n, 2] of u8[n, 8] in {0, 1/4 | 1%4} = relayout(x) {parts=[0, 1, 0, 1, 4, 0], word=[1, 4]}\n"
          "  const c1: i32[1, 2, 2] of i8[8, 2] in {1/2, 0/4, 1%2 | 0%4} = [1, 2, 3, 4]\n"
          "  dot_general3: i32[n, 2] = dot_general(relayout2, c1) {lhs_contract=1, rhs_contract=0, dtype=\"i32\"}\n"
          "  output \"y\" = dot_general3\n"));
  /* As the driver leaves them. */
  check_round_trip(state,
                   GRAPH("  input x: f32[n, 2]\n"
                         "  const c1: f32[2, 2, 2] of [2, 3] in {1/2, 0, 1%2} = [1.0, 2.0, 4.0, 5.0, 3.0, 0.0, 6.0, "
                         "0.0]\n"
                         "  dot_general2: f32[n, 3] = dot_general(x, c1) {lhs_contract=1, rhs_contract=0, "
                         "dtype=\"f32\"}\n"
                         "  output \"y\" = dot_general2\n"));
}

static void elements_are_exact(void **state) {
  check_round_trip(state, GRAPH("  const a: f16[3] = [0.1, 65500.0, -0.0]\n"
                                "  output \"a\" = a\n"
                                "  const b: f64[2] = [0.1, 5e-324]\n"
                                "  output \"b\" = b\n"
                                "  const c: u64[2] = [0, 18446744073709551615]\n"
                                "  output \"c\" = c\n"
                                "  const d: i8[2] = [-128, 127]\n"
                                "  output \"d\" = d\n"
                                "  const e: bool[2] = [true, false]\n"
                                "  output \"e\" = e\n"
                                "  const f: string[2] = [\"\", \"a\\\"\\\\\\n\\x00\xc3\xa9\\xff\"]\n"
                                "  output \"f\" = f\n"
                                "  const g: f32[] = nan\n"
                                "  output \"g\" = g\n"
                                "  const h: f32[2] = data \"AQDAfwAAgD8=\"\n" /* a NaN with bits of its own */
                                "  output \"h\" = h\n"
                                "  const i: f32[0, 4] = []\n"
                                "  output \"i\" = i\n"
                                "  const j: f32[9] = splat data \"AQDAfw==\"\n"
                                "  output \"j\" = j\n"));
}

static void bodies_round_trip(void **state) {
  check_round_trip(state, GRAPH("  input c: bool[]\n"
                                "  input x: f32[n]\n"
                                "  symbol if1_d0 = dimension 0 of if1\n"
                                "  if1: f32[if1_d0] = if(c, x)\n"
                                "    graph \"then\" {\n"
                                "      input a: f32[n]\n"
                                "      abs0: f32[n] = abs(a)\n"
                                "      output \"r\" = abs0\n"
                                "    }\n"
                                "    graph \"else\" {\n"
                                "      input a: f32[n]\n"
                                "      const c0: f32[2] = 1.0\n"
                                "      output \"r\" = c0\n"
                                "    }\n"
                                "  output \"y\" = if1\n"));
}

/* Their bodies are over the graph's symbols. */
static void composites_round_trip(void **state) {
  check_round_trip(state, GRAPH("  input q: f32[2, n, 8]\n"
                                "  input v: f32[2, n, 8]\n"
                                "  attention0: f32[2, n, 8] = attention(q, v)\n"
                                "    graph \"attention\" {\n"
                                "      input x0: f32[2, n, 8]\n"
                                "      input x1: f32[2, n, 8]\n"
                                "      dot_general0: f32[2, n, n] = dot_general(x0, x0) {lhs_batch=0, rhs_batch=0, "
                                "lhs_contract=2, rhs_contract=2, dtype=\"f32\"}\n"
                                "      softmax1: f32[2, n, n] = softmax(dot_general0) {axes=2}\n"
                                "      dot_general2: f32[2, n, 8] = dot_general(softmax1, x1) {lhs_batch=0, "
                                "rhs_batch=0, lhs_contract=2, rhs_contract=1, dtype=\"f32\"}\n"
                                "      output \"y\" = dot_general2\n"
                                "    }\n"
                                "  output \"y\" = attention0\n"));
}

static void bodies_of_composites_fit(void **state) {
  check_refused(state,
                GRAPH("  input q: f32[2, n]\n"
                      "  y = attention(q)\n"
                      "    graph \"a\" { input x: f32[2, 4] z = abs(x) output \"z\" = z }\n"),
                "t.tng:3:7: error: attention: operand 0 is f32[2, n], but the body takes f32[2, 4]\n"
                "    3 |   y = attention(q)\n"
                "      |       ^");
  check_refused(state,
                GRAPH("  input q: f32[2]\n"
                      "  y = attention(q)\n"
                      "    graph \"a\" { input x: f32[m] z = abs(x) output \"z\" = z }\n"),
                "t.tng:3:7: error: attention: the body has symbols of its own\n"
                "    3 |   y = attention(q)\n"
                "      |       ^");
}

static void lists_round_trip(void **state) {
  check_round_trip(state, GRAPH("  input a: sequence f32[?, ?]\n"
                                "  input b: optional string[]\n"
                                "  input c: optional sequence i64[*]\n"
                                "  sequence_length0: i64[] = sequence_length(a)\n"
                                "  output \"y\" = sequence_length0\n"));
}

/* Types may be left out, words of the language are names, too, and what is written otherwise is put in order. */
static void reads_what_people_write(void **state) {
  check_written(state,
                "graph \"g\" { // as short as can be\n"
                "input input: f32[2, n] input const: f32[2, n]\n"
                "output = add(input, const) output \"y\" = output }",
                GRAPH("  input input: f32[2, n]\n"
                      "  input const: f32[2, n]\n"
                      "  output: f32[2, n] = add(input, const)\n"
                      "  output \"y\" = output\n"));
}

static void fixes_dimensions(void **state) {
  graph_fixture *f = *state;
  const char *text = GRAPH(
      "  input x: f32[n, m]\n"
      "  negate0: f32[n, m] = negate(x)\n"
      "  output \"y\" = negate0\n");
  tn__dim_binding dims[] = {{"n", 4}, {"k", 5}};
  bool used[2] = {false};
  tn__graph *g;
  tn__graph_read_options options = {dims, 2, used};
  check_ok(tn__graph_read(tn__ir_create(&f->arena), "t.tng", text, strlen(text), &options, &g));
  assert_true(used[0] && !used[1]);
  char *again = written(g);
  assert_string_equal(again, GRAPH("  input x: f32[4, m]\n"
                                   "  negate0: f32[4, m] = negate(x)\n"
                                   "  output \"y\" = negate0\n"));
  free(again);
  options.dims_used = NULL;
  tn_status *status = tn__graph_read(tn__ir_create(&f->arena), "t.tng", text, strlen(text), &options, &g);
  check_fails(status, TN_INVALID_ARGUMENT, "no dimension of an input is named \"k\"");
}

static void names_the_place(void **state) {
  check_refused(state, "graph \"g\" {\n  input x: f32[2]\n  y = negat(x)\n}",
                "t.tng:3:7: error: there is no operator negat; docs/operators.md lists them\n"
                "    3 |   y = negat(x)\n"
                "      |       ^");
  /* What the graph says of a node comes with the node's place. */
  check_refused(state, "graph \"g\" {\n  input \"\xc3\xa9\": f32[2]\n  y = add(\"\xc3\xa9\") from \"node 3\"\n}",
                "t.tng:3:7: error: node 3: add: takes 2 to 2 operands, not 1\n"
                "    3 |   y = add(\"\xc3\xa9\") from \"node 3\"\n"
                "      |       ^");
}

static void refuses(void **state) {
#define REFUSED(lines, message) check_refused(state, GRAPH(lines), message)
  REFUSED("  const c: f32[2] of [3] in {0} = 1\n",
          "t.tng:2:12: error: the sizes, the tensor and its layout do not belong together in f32[2] of [3] in {0}\n"
          "    2 |   const c: f32[2] of [3] in {0} = 1\n"
          "      |            ^");
  REFUSED("  const c: f32[2] of [2] in {1} = 1\n",
          "t.tng:2:12: error: the sizes, the tensor and its layout do not belong together in f32[2] of [2] in {1}\n"
          "    2 |   const c: f32[2] of [2] in {1} = 1\n"
          "      |            ^");
  REFUSED("  const c: i32[2] of byte[8] in {0/4 | 0%4} = 1\n",
          "t.tng:2:22: error: expected the type of what is held, such as i8\n"
          "    2 |   const c: i32[2] of byte[8] in {0/4 | 0%4} = 1\n"
          "      |                      ^");
  REFUSED(
      "  const c: i32[2] of f32[8] in {0/4 | 0%4} = 1\n",
      "t.tng:2:12: error: the sizes, the tensor and its layout do not belong together in i32[2] of f32[8] in {0/4 | "
      "0%4}\n"
      "    2 |   const c: i32[2] of f32[8] in {0/4 | 0%4} = 1\n"
      "      |            ^");
  REFUSED("  const c: i32[2] of i8[8] in {0/4 | 0%4, 1} = 1\n",
          "t.tng:2:41: error: expected '}' after the words of the layout, not ','\n"
          "    2 |   const c: i32[2] of i8[8] in {0/4 | 0%4, 1} = 1\n"
          "      |                                         ^");
  REFUSED("  input x: f32[2] of [2] in {0}\n",
          "t.tng:2:12: error: an input is stored in row-major order, and not in a layout\n"
          "    2 |   input x: f32[2] of [2] in {0}\n"
          "      |            ^");
  REFUSED("  const c: f32[2] of [2] in {0} = 1\n  output \"y\" = c\n",
          "t.tng:3:10: error: a result is stored in row-major order, and not in a layout\n"
          "    3 |   output \"y\" = c\n"
          "      |          ^");
  REFUSED("  input w: f32[2, 5]\n  r: f32[5, 2] = relayout(w) {parts=[1, 1, 0, 0, 1, 0]}\n",
          "t.tng:3:6: error: r is f32[5, 2] here, but relayout makes f32[5, 2] of [2, 5] in {1, 0}\n"
          "    3 |   r: f32[5, 2] = relayout(w) {parts=[1, 1, 0, 0, 1, 0]}\n"
          "      |      ^");
  REFUSED("  const c: f32[100] = elided\n",
          "t.tng:2:23: error: what c holds is left out of a text for people: `tenon compile --emit graph` writes all\n"
          "    2 |   const c: f32[100] = elided\n"
          "      |                       ^");
  REFUSED("  input x: f32[n, 3]\n  y: f32[n, 4] = abs(x)\n",
          "t.tng:3:6: error: y is f32[n, 4] here, but abs makes f32[n, 3]\n"
          "    3 |   y: f32[n, 4] = abs(x)\n"
          "      |      ^");
  REFUSED("  input x: f32[n, m]\n  y: f32[m, n] = abs(x)\n",
          "t.tng:3:6: error: y is f32[m, n] here, but abs makes f32[n, m]\n"
          "    3 |   y: f32[m, n] = abs(x)\n"
          "      |      ^");
  REFUSED("  y = abs(x)\n",
          "t.tng:2:11: error: nothing before this place is called x\n"
          "    2 |   y = abs(x)\n"
          "      |           ^");
  REFUSED("  const c: f32[3] = [1, 2]\n",
          "t.tng:2:21: error: 2 elements for a constant of 3\n"
          "    2 |   const c: f32[3] = [1, 2]\n"
          "      |                     ^");
  REFUSED("  const c: u8[] = 256\n",
          "t.tng:2:19: error: expected a number of type u8\n"
          "    2 |   const c: u8[] = 256\n"
          "      |                   ^");
  REFUSED("  const c: f32[2] = data \"AAAA\"\n",
          "t.tng:2:26: error: 3 bytes for a constant of 8\n"
          "    2 |   const c: f32[2] = data \"AAAA\"\n"
          "      |                          ^");
  REFUSED("  const c: f32[2] = data \"AAA\"\n",
          "t.tng:2:26: error: this is not base64\n"
          "    2 |   const c: f32[2] = data \"AAA\"\n"
          "      |                          ^");
  REFUSED("  input x: f32[2]\n  symbol s = element 0 of x\n",
          "t.tng:3:10: error: x is of type f32: symbols are elements of integers\n"
          "    3 |   symbol s = element 0 of x\n"
          "      |          ^");
  REFUSED("  input x: f32[2]\n  symbol s = dimension 0 of y\n  y = abs(x)\n",
          "t.tng:4:3: error: y is made by abs, whose sizes are known before it runs: symbol s cannot be one of them\n"
          "    4 |   y = abs(x)\n"
          "      |   ^");
  REFUSED("  symbol s = dimension 0 of y\n",
          "t.tng:3:1: error: the graph ends, and nothing makes what symbol s is read from\n"
          "    3 | }\n"
          "      | ^");
  REFUSED("  input x: i64[1]\n  symbol s = element 0 of y\n  z = broadcast_in_dim(x) {shape=(s), axes=0}\n",
          "t.tng:4:35: error: symbol s is read from what comes later\n"
          "    4 |   z = broadcast_in_dim(x) {shape=(s), axes=0}\n"
          "      |                                   ^");
  REFUSED("  input x: f32[2]\n  y = reshape(x) {shape=(1, 2 < 3)}\n",
          "t.tng:3:29: error: a size must be of type i64, not bool\n"
          "    3 |   y = reshape(x) {shape=(1, 2 < 3)}\n"
          "      |                             ^");
  REFUSED("  input x: f32[2]\n  a, b = abs(x)\n",
          "t.tng:3:10: error: abs makes 1 result, and 2 are named\n"
          "    3 |   a, b = abs(x)\n"
          "      |          ^");
  REFUSED("  input x: f32[2]\n  x = abs(x)\n",
          "t.tng:3:3: error: the name x is taken already\n"
          "    3 |   x = abs(x)\n"
          "      |   ^");
  REFUSED("  input x: f32[2]\n  check 1 == 2, \"one is \", 1\n",
          "t.tng:3:9: error: one is 1\n"
          "    3 |   check 1 == 2, \"one is \", 1\n"
          "      |         ^");
}

static void weighs_its_structure(void **state) {
  char text[2100] = "graph \"g\" { const c: f32[375] = data \"";
  size_t head = strlen(text);
  memset(text + head, 'A', 2000);
  strcpy(text + head + 2000, "\" }");
  assert_int_equal(tn__graph_text_structure(text, strlen(text)), head + 3 + 2);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(every_statement_round_trips),
      TEST(layouts_round_trip),
      TEST(elements_are_exact),
      TEST(bodies_round_trip),
      TEST(composites_round_trip),
      TEST(bodies_of_composites_fit),
      TEST(lists_round_trip),
      TEST(fixes_dimensions),
      TEST(reads_what_people_write),
      TEST(names_the_place),
      TEST(refuses),
      TEST(weighs_its_structure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
