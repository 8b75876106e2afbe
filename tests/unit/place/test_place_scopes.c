/* Scopes of memory: of buffers, across calls, branches and loops to whoever makes and reads them, and not of
 * operators. */
#include <stdio.h>

#include "graph/passes/passes.h"
#include "unit/place_check.h"

#define ISLAND "x86-64-v3; island -mcpu=x86-64-v3"

#define CALL(parameter, result)     \
  "graph \"main\" {\n"              \
  "  input x: f32[4]\n"             \
  "  a: f32[4] = abs(x)\n"          \
  "  r: f32[4] = call(a)\n"         \
  "    graph \"f\" {\n"             \
  "      input b: f32[4]" parameter \
  "\n"                              \
  "      t: f32[4]" result          \
  " = abs(b)\n"                     \
  "      output \"r\" = t\n"        \
  "    }\n"                         \
  "  y: f32[4] = negate(r)\n"       \
  "  output \"y\" = y\n"            \
  "}\n"

static void a_parameters_scope_is_its_argument_s(void **state) {
  check_placed_case(&(placed_case){.graph = CALL(" on \"island/texture\"", ""),
                                   .targets = ISLAND,
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0/texture abs                a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "island:0     negate             y\n"});
}

static void a_results_scope_is_its_readers(void **state) {
  check_placed_case(&(placed_case){.graph = CALL("", " on \"island/shared\""),
                                   .targets = ISLAND,
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0     abs                a\n"
                                           "island:0/shared call               r\n"
                                           "  island:0     input              b\n"
                                           "  island:0/shared abs                t\n"
                                           "island:0     negate             y\n"});
}

/* Where copies are allowed, since operators are placed by name, it is no other: a buffer needs none on its device. */
static void patterns_do_not_part_buffers(void **state) {
  check_placed_case(&(placed_case){.graph = CALL(" on \"island/texture\"", ""),
                                   .targets = ISLAND,
                                   .place = {"a=island:0", "y=island:0", "t=island"},
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0/texture abs                a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "island:0     negate             y\n"});
  /* From another device it comes by a copy, into that memory. */
  check_placed_case(&(placed_case){.graph = CALL(" on \"island/texture\"", ""),
                                   .targets = ISLAND,
                                   .place = {"a=cpu", "y=cpu"},
                                   .quiet = true,
                                   .want = "cpu:0        input              x\n"
                                           "cpu:0        abs                a\n"
                                           "island:0/texture device_copy        a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "cpu:0        device_copy        r\n"
                                           "cpu:0        negate             y\n"});
  /* A pattern may say the scope, of what the operator makes. */
  check_placed_case(&(placed_case){.graph = CALL("", ""),
                                   .targets = ISLAND,
                                   .place = {"t=island/tile", "a=island", "y=island"},
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0     abs                a\n"
                                           "island:0/tile call               r\n"
                                           "  island:0     input              b\n"
                                           "  island:0/tile abs                t\n"
                                           "island:0     negate             y\n"});
}

static void the_state_of_a_loop_is_one_buffer(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input n: i64[]\n"
                                            "  input x: f32[4]\n"
                                            "  const z: i64[] = 0\n"
                                            "  p: f32[4] = abs(x)\n"
                                            "  i: i64[], m: i64[], s: f32[4] = while(z, n, p)\n"
                                            "    graph \"condition\" {\n"
                                            "      input a: i64[]\n"
                                            "      input b: i64[]\n"
                                            "      input c: f32[4]\n"
                                            "      more: bool[] = compare(a, b) {direction=\"LT\"}\n"
                                            "      output \"more\" = more\n"
                                            "    }\n"
                                            "    graph \"body\" {\n"
                                            "      input a: i64[]\n"
                                            "      input b: i64[]\n"
                                            "      input c: f32[4] on \"island:0/texture\"\n"
                                            "      const one: i64[] = 1\n"
                                            "      next: i64[] = add(a, one)\n"
                                            "      u: f32[4] = negate(c)\n"
                                            "      t: f32[4] = abs(u)\n"
                                            "      output \"a\" = next\n"
                                            "      output \"b\" = b\n"
                                            "      output \"c\" = t\n"
                                            "    }\n"
                                            "  y: f32[4] = negate(s)\n"
                                            "  output \"y\" = y\n"
                                            "}\n",
                                   .targets = ISLAND,
                                   .quiet = true,
                                   .want = "cpu:0        input              n\n"
                                           "island:0     input              x\n"
                                           "island:0/texture abs                p\n"
                                           "cpu:0        while              i\n"
                                           "  cpu:0        input              a\n"
                                           "  cpu:0        input              b\n"
                                           "  island:0/texture input              c\n"
                                           "  cpu:0        compare            more\n"
                                           "  cpu:0        input              a\n"
                                           "  cpu:0        input              b\n"
                                           "  island:0/texture input              c\n"
                                           "  cpu:0        add                next\n"
                                           "  island:0     negate             u\n"
                                           "  island:0/texture abs                t\n"
                                           "island:0     negate             y\n"});
}

static const char two_calls[] =
    "graph \"main\" {\n"
    "  input x: f32[4]\n"
    "  a: f32[4] = abs(x)\n"
    "%s"
    "  r: f32[4] = call(%s)\n"
    "    graph \"f\" {\n"
    "      input b: f32[4] on \"island/texture\"\n"
    "      t: f32[4] = abs(b)\n"
    "      output \"r\" = t\n"
    "    }\n"
    "  s: f32[4] = call(a)\n"
    "    graph \"g\" {\n"
    "      input c: f32[4] on \"island/shared\"\n"
    "      u: f32[4] = abs(c)\n"
    "      output \"s\" = u\n"
    "    }\n"
    "  y: f32[4] = add(r, s)\n"
    "  output \"y\" = y\n"
    "}\n";

static void two_scopes_of_one_buffer_contradict(void **state) {
  char text[1024];
  snprintf(text, sizeof text, two_calls, "", "a");
  check_placed_case(
      &(placed_case){.graph = text,
                     .targets = ISLAND,
                     .want = "scopes of memory contradict: \"b\" is in texture (said where it is made), and \"c\" in "
                             "shared (said where it is made), and they are one buffer: say the same of both, or put "
                             "device_copy between them",
                     .code = TN_INVALID_ARGUMENT});
  /* With a copy between them each has its own, on one device. */
  snprintf(text, sizeof text, two_calls, "  k: f32[4] = device_copy(a) {to=\"island:0/texture\"}\n", "k");
  check_placed_case(&(placed_case){.graph = text,
                                   .targets = ISLAND,
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0/shared abs                a\n"
                                           "island:0/texture device_copy        a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "island:0     call               s\n"
                                           "  island:0/shared input              c\n"
                                           "  island:0     abs                u\n"
                                           "island:0     add                y\n"});
  /* So has what may be copied by itself, as the operator that makes it is placed by name: by the scopes' names, and not
   * by the order of the calls. */
  snprintf(text, sizeof text, two_calls, "", "a");
  check_placed_case(&(placed_case){.graph = text,
                                   .targets = ISLAND,
                                   .place = {"a=island:0"},
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0/shared abs                a\n"
                                           "island:0/texture device_copy        a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "island:0     call               s\n"
                                           "  island:0/shared input              c\n"
                                           "  island:0     abs                u\n"
                                           "island:0     add                y\n"});
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

#define VIEWS(of, view)            \
  "graph \"main\" {\n"             \
  "  input x: f32[4]\n"            \
  "  a: f32[4]" of                 \
  " = abs(x)\n"                    \
  "  b: f32[2, 2]" view            \
  " = reshape(a) {shape=(2, 2)}\n" \
  "  y: f32[2, 2] = negate(b)\n"   \
  "  output \"y\" = y\n"           \
  "}\n"

static void a_view_is_its_operands_memory(void **state) {
  static const char both[] =
      "island:0     input              x\n"
      "island:0/texture abs                a\n"
      "island:0/texture reshape            b\n"
      "island:0     negate             y\n";
  placed_case c = {.targets = ISLAND, .place = {"a=island", "b=island", "y=island"}, .quiet = true, .want = both};
  c.graph = VIEWS("", " on \"island/texture\"");
  check_placed_case(&c);
  c.graph = VIEWS(" on \"island/texture\"", "");
  check_placed_case(&c);
  /* Two are two: the program copies. */
  c.graph = VIEWS(" on \"island/texture\"", " on \"island/tile\"");
  c.want =
      "island:0     input              x\n"
      "island:0/texture abs                a\n"
      "island:0/tile reshape            b\n"
      "island:0     negate             y\n";
  check_placed_case(&c);
}

/* ---- what kernels choose ----------------------------------------------------------------------------------------- */

typedef struct chosen_case {
  const char *graph, *place;
  const char *values[2], *memories[2]; /* which kernel's argument is to be where */
  const char *want;                    /* devices of values that are elsewhere than global, by name */
} chosen_case;

static void for_each_value(tn__graph *graph, void (*visit)(void *user, tn__value *value), void *user) {
  for (int i = 0; i < tn__graph_input_count(graph); i++) visit(user, tn__graph_input_at(graph, i));
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    for (int k = 0; k < n->output_count; k++) visit(user, n->outputs[k]);
    for (int k = 0; k < n->input_count; k++)
      if (n->inputs[k] != NULL && n->inputs[k]->data != NULL) visit(user, n->inputs[k]);
    for (int g = 0; g < n->graph_count; g++) for_each_value(n->graphs[g], visit, user);
  }
}

static void choose(void *user, tn__value *value) {
  static const tn__memory_choice texture = {"texture", "of_texture"}, tile = {"tile", "of_tile"};
  const chosen_case *c = user;
  for (int i = 0; i < 2; i++)
    if (c->values[i] != NULL && strcmp(c->values[i], value->name) == 0)
      value->choice = strcmp(c->memories[i], "tile") == 0 ? &tile : &texture;
}

static void tell(void *user, tn__value *value) {
  if (strchr(value->device->text, '/') != NULL)
    tn__strbuf_printf(user, "%s %s\n", value->name, strchr(value->device->text, '/') + 1);
}

static void run_chosen_case(tn__arena *arena, void *user) {
  const chosen_case *c = user;
  tn__place_rules rules = {0};
  tn__graph *graph = read_placed_graph(arena, c->graph);
  tn__place_options options = {.config = tn__compile_config_create(arena, ISLAND, NULL)};
  tn__place_rules_read(options.config, c->place, false, &rules);
  options.rules = rules.list.data, options.rule_count = rules.list.count;
  tn__graph_place(graph, &options);
  for_each_value(graph, choose, user);
  int nodes = tn__graph_node_count(graph);
  tn__place_options bare = {.config = options.config};
  for (int time = 0; time < 3; time++) { /* the same each time, and no node more or less */
    tn__strbuf told;
    tn__graph_place(graph, &bare);
    tn__strbuf_init(&told, NULL);
    for_each_value(graph, tell, &told);
    assert_string_equal(tn__strbuf_text(&told), c->want);
    tn__strbuf_release(&told);
    assert_int_equal(tn__graph_node_count(graph), nodes);
  }
}

static void check_chosen_case(const chosen_case *c) {
  chosen_case copy = *c;
  check_ok(tn__with_arena(NULL, run_chosen_case, &copy));
}

static void a_kernels_choice_goes_on_as_what_is_said(void **state) {
  /* In a function, and so for its caller's kernel; through a view. */
  check_chosen_case(&(chosen_case){.graph = CALL("", ""),
                                   .place = "*=island",
                                   .values = {"b"},
                                   .memories = {"texture"},
                                   .want = "a texture\nb texture\n"});
  check_chosen_case(&(chosen_case){.graph = VIEWS("", ""),
                                   .place = "*=island",
                                   .values = {"b"},
                                   .memories = {"texture"},
                                   .want = "a texture\nb texture\n"});
  /* Of two choices about one buffer the first by name counts, whoever made it; what was said counts before. */
  check_chosen_case(&(chosen_case){.graph = CALL("", ""),
                                   .place = "*=island",
                                   .values = {"a", "b"},
                                   .memories = {"tile", "texture"},
                                   .want = "a texture\nb texture\n"});
  check_chosen_case(&(chosen_case){.graph = CALL(" on \"island/tile\"", ""),
                                   .place = "*=island",
                                   .values = {"a"},
                                   .memories = {"texture"},
                                   .want = "a tile\nb tile\n"});
  /* A constant lies where its kernel wants it. */
  check_chosen_case(&(chosen_case){.graph = "graph \"main\" {\n"
                                            "  input x: f32[4]\n"
                                            "  const w: f32[4] = [1, 2, 3, 4]\n"
                                            "  a: f32[4] = add(x, w)\n"
                                            "  y: f32[4] = multiply(a, w)\n"
                                            "  output \"y\" = y\n"
                                            "}\n",
                                   .place = "*=island",
                                   .values = {"w"},
                                   .memories = {"texture"},
                                   .want = "w texture\nw texture\n"});
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

typedef struct passed_case {
  const char *graph, *want;
} passed_case;

static void run_passed_case(tn__arena *arena, void *user) {
  const passed_case *c = user;
  tn__graph *graph = read_placed_graph(arena, c->graph);
  tn__place_options options = {.config = tn__compile_config_create(arena, ISLAND, NULL)};
  const tn__optimize_options passes = {0};
  tn__strbuf text;
  tn__graph_place(graph, &options);
  tn__graph_optimize(graph, &passes);
  tn__graph_place(graph, &options);
  check_ok(tn__graph_verify(graph));
  tn__strbuf_init(&text, NULL);
  tn__place_explain(graph, &options, 0, &text);
  assert_string_equal(without_brackets(arena, tn__strbuf_text(&text)), c->want);
  tn__strbuf_release(&text);
}

static void check_passed_case(const char *graph, const char *want) {
  passed_case c = {graph, want};
  check_ok(tn__with_arena(NULL, run_passed_case, &c));
}

/* Equal operators whose results lie in two memories are two, and one where they lie in one. */
static void equal_operators_in_two_memories(void **state) {
  check_passed_case(
      "graph \"main\" {\n"
      "  input x: f32[4] on \"island\"\n"
      "  a: f32[4] on \"island/texture\" = abs(x)\n"
      "  b: f32[4] on \"island\" = abs(x)\n"
      "  c: f32[4] on \"island/texture\" = abs(x)\n"
      "  s: f32[4] = subtract(a, b)\n"
      "  y: f32[4] = multiply(s, c)\n"
      "  output \"y\" = y\n"
      "}\n",
      "island:0     input              x\n"
      "island:0/texture abs                a\n"
      "island:0     abs                b\n"
      "island:0     subtract           s\n"
      "island:0     multiply           y\n");
}

/* What does nothing to its operand brings it to the other memory. */
static void nothing_but_another_memory(void **state) {
  check_passed_case(
      "graph \"main\" {\n"
      "  input x: f32[4] on \"island\"\n"
      "  const one: f32[4] = 1\n"
      "  a: f32[4] on \"island/texture\" = multiply(x, one)\n"
      "  y: f32[4] = abs(a)\n"
      "  output \"y\" = y\n"
      "}\n",
      "island:0     input              x\n"
      "island:0/texture device_copy        x\n"
      "island:0     abs                y\n");
  /* In one memory it goes. */
  check_passed_case(
      "graph \"main\" {\n"
      "  input x: f32[4] on \"island/texture\"\n"
      "  const one: f32[4] = 1\n"
      "  a: f32[4] on \"island/texture\" = multiply(x, one)\n"
      "  y: f32[4] = abs(a)\n"
      "  output \"y\" = y\n"
      "}\n",
      "island:0/texture input              x\n"
      "island:0     abs                y\n");
}

/* What takes the place of a value lies where that did. */
static void what_is_made_anew_stays(void **state) {
  check_passed_case(
      "graph \"main\" {\n"
      "  input x: f32[4] on \"island\"\n"
      "  n: f32[4] on \"island\" = negate(x)\n"
      "  a: f32[2, 2] on \"island/tile\" = reshape(n) {shape=(2, 2)}\n"
      "  b: f32[4, 1] on \"island/texture\" = reshape(a) {shape=(4, 1)}\n"
      "  y: f32[4, 1] = abs(b)\n"
      "  output \"y\" = y\n"
      "}\n",
      "island:0     input              x\n"
      "island:0/tile negate             n\n"
      "island:0/texture reshape            reshape4\n"
      "island:0     abs                y\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_parameters_scope_is_its_argument_s),
      cmocka_unit_test(a_results_scope_is_its_readers),
      cmocka_unit_test(patterns_do_not_part_buffers),
      cmocka_unit_test(the_state_of_a_loop_is_one_buffer),
      cmocka_unit_test(two_scopes_of_one_buffer_contradict),
      cmocka_unit_test(a_view_is_its_operands_memory),
      cmocka_unit_test(a_kernels_choice_goes_on_as_what_is_said),
      cmocka_unit_test(equal_operators_in_two_memories),
      cmocka_unit_test(nothing_but_another_memory),
      cmocka_unit_test(what_is_made_anew_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
