/* Any placement gives the same bits: random graphs with branches, loops, calls and sequences, of one function or of one
 * for each of several sizes, random operators of which are placed on islands, which take turns or work at the same
 * time, and on a second CPU, some of them for the least of the architecture, against the same executable with all of
 * them mapped onto the CPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "target/target.h"
#include "tenon/compile.h"
#include "unit/check.h"
#include "unit/profile_check.h"

enum { MOST_ISLANDS = 8, MOST_NODES = 14, ROWS = 4, COLUMNS = 8, MOST_RULES = 64, RULE_BYTES = 48 };

static int pairs = 200;
static uint64_t random_state;
static int below(int n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int)((random_state >> 33) % (uint64_t)n);
}

/* ---- random graphs and placements -------------------------------------------------------------------------------- */

typedef struct drawn {
  tn__strbuf symbols, text; /* what stands before the nodes, and the nodes */
  char rules[MOST_RULES][RULE_BYTES];
  const char *place[MOST_RULES];
  int rule_count, islands, sequences;
  const char *rows; /* a number, or a dimension of the callers', for ROWS of which there is a function of its own */
  bool automatic;   /* what no rule is about goes by predicted time, to devices that are fast in different ways */
  bool scopes;      /* values are in the islands' second memories, as rules say and kernels choose */
} drawn;

/* Places the node now and then. */
static void maybe_place(drawn *d, const char *name) {
  if (below(2) || d->rule_count == MOST_RULES) return;
  int island = below(d->islands + 1);
  char *rule = d->rules[d->rule_count];
  if (island == 0)
    snprintf(rule, RULE_BYTES, "%s=cpu:%d", name, below(2));
  else
    snprintf(rule, RULE_BYTES, "%s=island:%d%s", name, island - 1, d->scopes && below(3) == 0 ? "/texture" : "");
  d->place[d->rule_count++] = rule;
}

static const char *const unary[] = {"tanh", "negate", "abs", "logistic"};
static const char *const binary[] = {"add", "multiply", "maximum", "subtract"};

static void put_operator(drawn *d, const char *indent, const char *name, const char *a, const char *b) {
  int kind = below(3);
  tn__strbuf *t = &d->text;
  tn__strbuf_printf(t, "%s", indent);
  if (kind == 2) tn__strbuf_printf(t, "const w_%s: f32[8, 8] = %d.25\n%s", name, below(3) - 1, indent);
  tn__strbuf_printf(t, "%s: f32[%s, 8] = ", name, d->rows);
  if (kind == 0)
    tn__strbuf_printf(t, "%s(%s)\n", unary[below(4)], a);
  else if (kind == 1)
    tn__strbuf_printf(t, "%s(%s, %s)\n", binary[below(4)], a, b);
  else
    tn__strbuf_printf(t,
                      "dot_general(%s, w_%s) {lhs_batch=[], rhs_batch=[], lhs_contract=1, rhs_contract=0, "
                      "dtype=\"f32\"}\n",
                      a, name);
  maybe_place(d, name);
}

static void put_inputs(drawn *d, const char *indent, const char *first, const char *second) {
  tn__strbuf_printf(&d->text, "%sinput %s: f32[%s, 8]\n%sinput %s: f32[%s, 8]\n", indent, first, d->rows, indent,
                    second, d->rows);
}

static void put_branch(drawn *d, int v, const char *a, const char *b) {
  tn__strbuf *t = &d->text;
  char name[24];
  tn__strbuf_printf(t, "  v%d: f32[%s, 8] = if(flag, %s, %s)\n", v, d->rows, a, b);
  for (int side = 0; side < 2; side++) {
    tn__strbuf_printf(t, "    graph \"%s\" {\n", side == 0 ? "then" : "else");
    put_inputs(d, "      ", "p", "q");
    snprintf(name, sizeof name, "b%d_%d_0", v, side);
    put_operator(d, "      ", name, "p", "q");
    tn__strbuf_printf(t, "      output \"result0\" = %s\n    }\n", name);
  }
}

/* A call of a function, which may call another one. */
static void put_call(drawn *d, int v, const char *a, const char *b) {
  tn__strbuf *t = &d->text;
  char outer[24], inner[24];
  bool nested = below(2) == 0;
  snprintf(outer, sizeof outer, "f%d_0", v);
  snprintf(inner, sizeof inner, "f%d_1", v);
  tn__strbuf_printf(t, "  v%d: f32[%s, 8] = call(%s, %s)\n    graph \"f%d\" {\n", v, d->rows, a, b, v);
  put_inputs(d, "      ", "p", "q");
  put_operator(d, "      ", outer, "p", "q");
  if (nested) {
    tn__strbuf_printf(t, "      c%d: f32[%s, 8] = call(q, %s)\n        graph \"g%d\" {\n", v, d->rows, outer, v);
    put_inputs(d, "          ", "r", "s");
    put_operator(d, "          ", inner, "r", "s");
    tn__strbuf_printf(t, "          output \"result0\" = %s\n        }\n", inner);
    snprintf(outer, sizeof outer, "c%d", v);
  }
  tn__strbuf_printf(t, "      output \"result0\" = %s\n    }\n", outer);
}

/* A sequence of two values, and one of its tensors, of which only running it tells the sizes. */
static void put_sequence(drawn *d, int v, const char *a, const char *b) {
  char at[24], name[24];
  snprintf(at, sizeof at, "at%d", v);
  snprintf(name, sizeof name, "v%d", v);
  tn__strbuf_printf(&d->symbols,
                    "  symbol at%d_0 = dimension 0 of %s\n  symbol at%d_1 = dimension 1 of %s\n"
                    "  check at%d_0 == %s, \"rows\"\n  check at%d_1 == 8, \"columns\"\n",
                    v, at, v, at, v, d->rows, v);
  tn__strbuf_printf(&d->text,
                    "  e%d: sequence f32[?, ?] = sequence_empty() {dtype=\"f32\", rank=2, holds=1}\n"
                    "  s%d: sequence f32[?, ?] = sequence_insert(e%d, %s)\n"
                    "  t%d: sequence f32[?, ?] = sequence_insert(s%d, %s)\n"
                    "  const p%d: i64[] = %d\n  %s: f32[at%d_0, at%d_1] = sequence_at(t%d, p%d)\n",
                    v, v, v, a, v, v, b, v, below(2), at, v, v, v, v);
  put_operator(d, "  ", name, at, b);
  d->sequences++;
}

/* A loop over two values, the first of which changes. With `collects` it also puts that into a sequence, behind which
 * the second value stands in the end; what comes out is the sequence's first tensor. */
static void put_loop(drawn *d, int v, const char *a, const char *b, bool collects) {
  tn__strbuf *t = &d->text;
  char first[24], second[24];
  const char *rows = d->rows, *list = collects ? "      input l: sequence f32[?, ?]\n" : "";
  snprintf(first, sizeof first, "l%d_0", v);
  snprintf(second, sizeof second, "l%d_1", v);
  if (collects)
    tn__strbuf_printf(t, "  e%d: sequence f32[?, ?] = sequence_empty() {dtype=\"f32\", rank=2, holds=1}\n", v);
  tn__strbuf_printf(t, "  const z%d: i64[] = 0\n  i%d: i64[], r%d: i64[], %s%d: f32[%s, 8], k%d: f32[%s, 8]", v, v, v,
                    collects ? "m" : "v", v, rows, v, rows);
  if (collects) tn__strbuf_printf(t, ", s%d: sequence f32[?, ?]", v);
  tn__strbuf_printf(t, " = while(z%d, rounds, %s, %s", v, a, b);
  if (collects) tn__strbuf_printf(t, ", e%d", v);
  tn__strbuf_append(t, ")\n    graph \"condition\" {\n      input i: i64[]\n      input last: i64[]\n");
  put_inputs(d, "      ", "s", "k");
  tn__strbuf_printf(t,
                    "%s      more%d: bool[] = compare(i, last) {direction=\"LT\"}\n      output \"more\" = more%d\n"
                    "    }\n    graph \"body\" {\n      input i: i64[]\n      input last: i64[]\n",
                    list, v, v);
  put_inputs(d, "      ", "s", "k");
  tn__strbuf_printf(t, "%s      const one: i64[] = 1\n      j%d: i64[] = add(i, one)\n", list, v);
  put_operator(d, "      ", first, "s", "k");
  put_operator(d, "      ", second, first, "k");
  if (collects) tn__strbuf_printf(t, "      g%d: sequence f32[?, ?] = sequence_insert(l, %s)\n", v, first);
  tn__strbuf_printf(t,
                    "      output \"next0\" = j%d\n      output \"next1\" = last\n      output \"next2\" = %s\n"
                    "      output \"next3\" = k\n",
                    v, second);
  if (collects) tn__strbuf_printf(t, "      output \"next4\" = g%d\n", v);
  tn__strbuf_append(t, "    }\n");
  if (!collects) return;
  tn__strbuf_printf(&d->symbols,
                    "  symbol at%d_0 = dimension 0 of at%d\n  symbol at%d_1 = dimension 1 of at%d\n"
                    "  check at%d_0 == %s, \"rows\"\n  check at%d_1 == 8, \"columns\"\n",
                    v, v, v, v, v, rows, v);
  tn__strbuf_printf(t,
                    "  t%d: sequence f32[?, ?] = sequence_insert(s%d, k%d)\n"
                    "  at%d: f32[at%d_0, at%d_1] = sequence_at(t%d, z%d)\n"
                    "  v%d: f32[%s, 8] = subtract(m%d, at%d)\n",
                    v, v, v, v, v, v, v, v, v, rows, v, v);
  snprintf(first, sizeof first, "v%d", v);
  maybe_place(d, first);
  d->sequences++;
}

/* Nodes over two values that are there, the second input v0 and the constant v1 at first; v is what comes of them. */
static void put_nodes(drawn *d, int v) {
  char name[24], a[24], b[24];
  snprintf(name, sizeof name, "v%d", v);
  snprintf(a, sizeof a, "v%d", below(3) ? v - 1 : below(v));
  snprintf(b, sizeof b, "v%d", below(v));
  switch (below(12)) {
    case 0: put_branch(d, v, a, b); break;
    case 1: put_loop(d, v, a, b, false); break;
    case 2: put_loop(d, v, a, b, true); break;
    case 3: put_call(d, v, a, b); break;
    case 4: put_sequence(d, v, a, b); break;
    default: put_operator(d, "  ", name, a, b);
  }
}

static void draw(drawn *d, uint64_t seed) {
  random_state = seed;
  *d = (drawn){.islands = 1 + below(MOST_ISLANDS), .automatic = seed % 4 == 0, .scopes = seed % 2 == 0};
  d->rows = seed % 3 == 0 ? "n" : "4";
  if (d->automatic) d->place[d->rule_count++] = "auto";
  tn__strbuf_init(&d->symbols, NULL);
  tn__strbuf_init(&d->text, NULL);
  tn__strbuf_printf(
      &d->symbols, "graph \"drawn\" {\n  input v0: f32[%s, 8]\n  input flag: bool[]\n  input rounds: i64[]\n", d->rows);
  tn__strbuf_printf(&d->text,
                    "  const c1: f32[8] = 0.75\n  v1: f32[%s, 8] = broadcast_in_dim(c1) {shape=(%s, 8), axes=1}\n",
                    d->rows, d->rows);
  int nodes = 3 + below(MOST_NODES - 3), v = 2;
  for (; v < 2 + nodes; v++) put_nodes(d, v);
  tn__strbuf_printf(&d->text, "  output \"last\" = v%d\n  output \"middle\" = v%d\n}\n", v - 1, 2 + nodes / 2);
  tn__strbuf_append(&d->symbols, tn__strbuf_text(&d->text));
}

static void release(drawn *d) {
  tn__strbuf_release(&d->symbols);
  tn__strbuf_release(&d->text);
}

/* ---- compiling and running --------------------------------------------------------------------------------------- */

static tn_status *compile(const drawn *d, tn_module **module) {
  const char *least = tn__arch_name(tn__host_arch());
  char targets[MOST_ISLANDS * 112 + 64];
  snprintf(targets, sizeof targets, "native -launch=900;cpu -mcpu=%s -device=1", least);
  for (int i = 0; i < d->islands; i++) {
    size_t used = strlen(targets);
    snprintf(targets + used, sizeof targets - used,
             ";island -mcpu=%s -device=%d -launch=%d -link_wait=%d -texture_bytes=%d", i % 3 == 1 ? least : "native", i,
             1 + 100 * (i % 3), 1 + 100 * (i / 3), d->scopes && i % 2 == 0 ? 1 << 16 : 0);
  }
  static const tn_dim_setting special = {"n", ROWS};
  tn_compile_options options = {.size = sizeof options,
                                .target = targets,
                                .host = "native",
                                .special_dims = &special,
                                .special_dim_count = d->rows[0] == 'n',
                                .place = d->place,
                                .place_count = d->rule_count,
                                .run_threads = 1,
                                .no_measure = true};
  return tn_compile("drawn.tng", tn__strbuf_text(&d->symbols), d->symbols.length, &options, module);
}

static void run(const tn_module *module, const tn_load_options *load, int64_t rows, float out[2][ROWS * COLUMNS]) {
  static _Alignas(64) float x[ROWS * COLUMNS];
  static _Alignas(64) uint8_t flag;
  static _Alignas(64) int64_t rounds;
  tn_executable *exe;
  tn_session *session;
  check_ok(tn_module_load(module, load, &exe));
  check_ok(tn_session_create(exe, NULL, &session));
  int64_t shape[2] = {rows, COLUMNS};
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i % 7) / 8 - 0.4f;
  flag = (uint8_t)(random_state >> 40 & 1), rounds = (int64_t)(random_state >> 41 & 3);
  DLTensor inputs[] = {{.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape},
                       {.data = &flag, .device = {kDLCPU, 0}, .dtype = {kDLBool, 8, 1}},
                       {.data = &rounds, .device = {kDLCPU, 0}, .dtype = {kDLInt, 64, 1}}};
  DLTensor outputs[2];
  for (int i = 0; i < 2; i++)
    outputs[i] =
        (DLTensor){.data = out[i], .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  for (int i = 0; i < 2; i++) check_ok(tn_session_invoke_with_outputs(session, NULL, inputs, 3, outputs, 2));
  tn_session_release(session);
  tn_executable_release(exe);
}

static void count_line(void *user, tn_log_level level, const char *line) {
  tn__strbuf *lines = user;
  if (level == TN_LOG_WARNING) tn__strbuf_printf(lines, "%s\n", line);
}

/* Writes maps for the second CPU and all islands, present or not. Returns how many devices the executable has. */
static int map_all(const tn_module *module, const drawn *d, char rules[MOST_ISLANDS + 1][RULE_BYTES],
                   const char **map) {
  tn__strbuf lines;
  const tn_log_sink log = {count_line, &lines};
  tn_executable *exe;
  tn__strbuf_init(&lines, NULL);
  for (int i = -1; i < d->islands; i++) {
    if (i < 0)
      snprintf(rules[i + 1], RULE_BYTES, "cpu:1=cpu:0");
    else
      snprintf(rules[i + 1], RULE_BYTES, "island:%d=cpu:0", i);
    map[i + 1] = rules[i + 1];
  }
  tn_load_options load = {.size = sizeof load, .device_map = map, .device_map_count = d->islands + 1, .log = &log};
  check_ok(tn_module_load(module, &load, &exe));
  tn_executable_release(exe);
  int unused = 0;
  for (const char *at = tn__strbuf_text(&lines); (at = strchr(at, '\n')) != NULL; at++) unused++;
  tn__strbuf_release(&lines);
  return d->islands + 1 - unused;
}

static bool same_bits(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

static void check_same_bits(const tn_module *module, const drawn *d, const tn_load_options *mapped, int64_t rows) {
  static _Alignas(64) float apart[2][ROWS * COLUMNS], beside[2][ROWS * COLUMNS], together[2][ROWS * COLUMNS];
  const tn_load_options turns = {.size = sizeof turns}, concurrent = {.size = sizeof turns, .concurrent_islands = true};
  run(module, &turns, rows, apart);
  run(module, &concurrent, rows, beside);
  run(module, mapped, rows, together);
  if (same_bits(apart, together, sizeof apart) && same_bits(beside, together, sizeof beside)) return;
  print_message("%s\n", tn__strbuf_text(&d->symbols));
  for (int i = 0; i < d->rule_count; i++) print_message("%s\n", d->place[i]);
  fail();
}

static void test_any_placement_same_bits(void **state) {
  int several = 0, sequences = 0;
  for (uint64_t seed = 1; seed <= (uint64_t)pairs; seed++) {
    drawn d;
    tn_module *module;
    draw(&d, seed);
    tn_status *status = compile(&d, &module);
    if (status != NULL) print_message("%s\n", tn__strbuf_text(&d.symbols));
    check_ok(status);
    char rules[MOST_ISLANDS + 1][RULE_BYTES];
    const char *map[MOST_ISLANDS + 1];
    int count = map_all(module, &d, rules, map);
    several += count > 1;
    sequences += d.sequences > 0 && count > 1;
    const tn_load_options mapped = {.size = sizeof mapped, .device_map = map, .device_map_count = d.islands + 1};
    check_same_bits(module, &d, &mapped, ROWS);
    if (d.rows[0] == 'n') check_same_bits(module, &d, &mapped, ROWS - 1);
    tn_module_release(module);
    release(&d);
  }
  print_message("%d of %d programs ran on several devices, %d of them with sequences\n", several, pairs, sequences);
  assert_true(several > pairs / 3);
  assert_true(sequences > pairs / 6);
}

/* ---- callers' buffers -------------------------------------------------------------------------------------------- */

/* Functions for sizes of their own pass on what callers gave, wherever it goes then. */
static void test_sizes_of_their_own(void **state) {
  static const char text[] =
      "graph \"g\" {\n  input x: f32[n]\n  a: f32[n] = tanh(x)\n  b: f32[n] = abs(a)\n  output \"y\" = b\n}\n";
  static const char *const place[] = {"a=island:0", "b=island:1"};
  static const tn_dim_setting sizes[] = {{"n", 4}, {"n", 8}};
  tn_compile_options options = {.size = sizeof options,
                                .target = "native;island;island -device=1",
                                .place = place,
                                .place_count = 2,
                                .special_dims = sizes,
                                .special_dim_count = 2};
  tn_module *module;
  tn_executable *exe;
  tn_session *session;
  check_ok(tn_compile("g.tng", text, sizeof text - 1, &options, &module));
  check_ok(tn_module_load(module, NULL, &exe));
  check_ok(tn_session_create(exe, NULL, &session));
  for (int64_t n = 3; n < 9; n++) {
    static _Alignas(64) float x[8], y[8];
    DLTensor in = {.data = x, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &n}, out = in;
    out.data = y;
    for (int i = 0; i < 8; i++) x[i] = -(float)i / 8;
    check_ok(tn_session_invoke_with_outputs(session, NULL, &in, 1, &out, 1));
    for (int i = 0; i < n; i++) assert_float_equal(y[i], tanhf((float)i / 8), 1e-6);
  }
  tn_session_release(session);
  tn_executable_release(exe);
  tn_module_release(module);
}

static void test_buffers_that_grow_stay_on_the_host(void **state) {
  static const char text[] =
      "graph \"g\" {\n  input past: f32[p, 4]\n  input fresh: f32[1, 4]\n"
      "  present: f32[p + 1, 4] = concatenate(past, fresh) {axis=0}\n"
      "  output \"present\" = present\n}\n";
  static const char *const place[] = {"*=island:0"};
  static const tn_dim_setting capacity = {"p", 16};
  static const tn_alias_setting alias = {"present", "past"};
  tn_compile_options options = {.size = sizeof options,
                                .target = "native;island",
                                .place = place,
                                .place_count = 1,
                                .capacities = &capacity,
                                .capacity_count = 1,
                                .aliases = &alias,
                                .alias_count = 1};
  tn_module *module;
  check_fails(
      tn_compile("g.tng", text, sizeof text - 1, &options, &module), TN_UNSUPPORTED,
      "input \"past\" grows in its caller's buffer (--capacity), and is placed on island:0: place it on the host");
}

static DLTensor matrix(void *data, int64_t *shape) {
  return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
}

/* What another CPU has of an input is the caller's memory, in which an output may be written; but a product reads of it
 * what lies elsewhere than what it writes. */
static void test_outputs_in_inputs_that_two_cpus_read(void **state) {
  enum { SIDE = 64 };
  static const char text[] =
      "graph \"g\" {\n  input x: f32[64, 64]\n  input w: f32[64, 64]\n  a: f32[64, 64] = abs(x)\n"
      "  y: f32[64, 64] = dot_general(x, w) {lhs_batch=[], rhs_batch=[], lhs_contract=1, rhs_contract=0, "
      "dtype=\"f32\"}\n"
      "  output \"a\" = a\n  output \"y\" = y\n}\n";
  static _Alignas(64) float x[SIDE][SIDE], w[SIDE][SIDE], a[SIDE][SIDE];
  static const char *const place[] = {"y=cpu:1"};
  static const tn_alias_setting alias = {"y", "x"};
  tn_compile_options options = {.size = sizeof options,
                                .target = "native;cpu -device=1",
                                .place = place,
                                .place_count = 1,
                                .aliases = &alias,
                                .alias_count = 1};
  int64_t shape[2] = {SIDE, SIDE};
  tn_module *module;
  tn_executable *exe;
  tn_session *session;
  check_ok(tn_compile("g.tng", text, sizeof text - 1, &options, &module));
  check_ok(tn_module_load(module, NULL, &exe));
  check_ok(tn_session_create(exe, NULL, &session));
  for (int i = 0; i < SIDE * SIDE; i++) x[i / SIDE][i % SIDE] = (float)(i % 101 - 50);
  for (int i = 0; i < SIDE; i++) w[i][SIDE - 1 - i] = 1; /* columns in the other order */
  DLTensor inputs[] = {matrix(x, shape), matrix(w, shape)}, outputs[] = {matrix(a, shape), matrix(x, shape)};
  check_ok(tn_session_invoke_with_outputs(session, NULL, inputs, 2, outputs, 2));
  for (int i = 0; i < SIDE * SIDE; i++) {
    int row = i / SIDE, column = i % SIDE;
    float was = (float)(i % 101 - 50), mirrored = (float)((row * SIDE + SIDE - 1 - column) % 101 - 50);
    assert_true(a[row][column] == fabsf(was));
    assert_true(x[row][column] == mirrored);
  }
  tn_session_release(session);
  tn_executable_release(exe);
  tn_module_release(module);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* A loop whose state is changed on an island, and whose condition is the host's. `%s`: what is said of the state. */
static const char loop_text[] =
    "graph \"g\" {\n  input x: f32[4, 8]\n  input rounds: i64[]\n  const zero: i64[] = 0\n"
    "  i: i64[], n: i64[], y: f32[4, 8] = while(zero, rounds, x)\n"
    "    graph \"condition\" {\n      input i: i64[]\n      input n: i64[]\n      input s: f32[4, 8]\n"
    "      more: bool[] = compare(i, n) {direction=\"LT\"}\n      output \"more\" = more\n    }\n"
    "    graph \"body\" {\n      input i: i64[]\n      input n: i64[]\n      input s: f32[4, 8]%s\n"
    "      const one: i64[] = 1\n      j: i64[] = add(i, one)\n      t: f32[4, 8] = tanh(s)\n"
    "      output \"next0\" = j\n      output \"next1\" = n\n      output \"next2\" = t\n    }\n"
    "  output \"y\" = y\n}\n";

/* How many copies, and between devices alone, `rounds` rounds make. */
static uint64_t copies_of_rounds(const tn_executable *exe, int64_t rounds) {
  static _Alignas(64) float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
  int64_t shape[2] = {ROWS, COLUMNS};
  tn_session *session;
  tn_profile *profile;
  check_ok(tn_session_create(exe, NULL, &session));
  check_ok(tn_session_start_profile(session, &profile));
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i % 7) / 8 - 0.4f;
  DLTensor in[] = {{.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape},
                   {.data = &rounds, .device = {kDLCPU, 0}, .dtype = {kDLInt, 64, 1}}};
  DLTensor out = in[0];
  out.data = y;
  check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, &out, 1));
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    float want = x[i];
    for (int64_t r = 0; r < rounds; r++) want = tanhf(want);
    assert_float_equal(y[i], want, 1e-5);
  }
  uint64_t copies = copies_of(profile);
  tn_session_release(session);
  return copies;
}

static void check_state_stays(const char *said, const char *place) {
  char text[sizeof loop_text + 64], *code;
  int length = snprintf(text, sizeof text, loop_text, said);
  tn_compile_options options = {
      .size = sizeof options, .target = "native;island", .place = &place, .place_count = place != NULL};
  tn_module *module;
  tn_executable *exe;
  check_ok(tn_compile("g.tng", text, (size_t)length, &options, &module));
  check_ok(tn_module_load(module, NULL, &exe));
  /* x and y between the host and the island, x to the state, the state to y; the counter to its variable */
  for (int64_t rounds = 0; rounds < 40; rounds = 3 * rounds + 1) assert_int_equal(copies_of_rounds(exe, rounds), 5);
  check_ok(tn_executable_disassemble(exe, &code));
  assert_non_null(strstr(code, "input \"s\", on device 1"));
  assert_non_null(strstr(code, "output \"next2\", on device 1"));
  free(code);
  tn_executable_release(exe);
  tn_module_release(module);
}

static void test_the_state_of_a_loop_stays_on_its_device(void **state) { check_state_stays("", "t=island:0"); }
static void test_annotations_on_the_state_of_a_loop(void **state) { check_state_stays(" on \"island:0\"", NULL); }

/* ---- maps -------------------------------------------------------------------------------------------------------- */

static void test_maps_that_are_none(void **state) {
  static const char text[] = "graph \"g\" {\n  input x: f32[4]\n  y: f32[4] = tanh(x)\n  output \"y\" = y\n}\n";
  static const char *const place[] = {"y=island:3"};
  static const struct {
    const char *map;
    tn_status_code code;
    const char *words, *before; /* another map before it; NULL: none */
  } cases[] = {
      {"island:3", TN_INVALID_ARGUMENT, "the map of devices \"island:3\" is none: it is like \"island:1=island:0\""},
      {"island=cpu:0", TN_INVALID_ARGUMENT, "the map of devices \"island=cpu:0\" is none"},
      {"island:3=moon:1", TN_INVALID_ARGUMENT, "the map of devices \"island:3=moon:1\" is none"},
      {"island:3=island:256", TN_INVALID_ARGUMENT, "with numbers up to 255"},
      {"island:3=island:99999999999999999999", TN_INVALID_ARGUMENT, "with numbers up to 255"},
      {"island:3=cuda:0", TN_INVALID_ARGUMENT,
       "the map of devices \"island:3=cuda:0\": code for island does not run on cuda"},
      {"cpu:0=cpu:1", TN_INVALID_ARGUMENT,
       "the map of devices \"cpu:0=cpu:1\": cpu:0 is the host, which nothing can replace: map the others"},
      {"", TN_INVALID_ARGUMENT, "the map of devices \"\" is none"},
      {NULL, TN_INVALID_ARGUMENT, "the map of devices \"\" is none"},
      {"island:03=cpu:0", TN_INVALID_ARGUMENT,
       "the maps of devices \"island:3=island:1\" and \"island:03=cpu:0\" put one device in two places: leave one of "
       "them out",
       "island:3=island:1"},
  };
  tn_compile_options options = {
      .size = sizeof options, .target = "native;island -device=3", .place = place, .place_count = 1};
  tn_module *module;
  check_ok(tn_compile("g.tng", text, sizeof text - 1, &options, &module));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tn_executable *exe = NULL;
    const char *const maps[2] = {cases[i].before, cases[i].map};
    bool one = cases[i].before == NULL;
    tn_load_options load = {.size = sizeof load, .device_map = one ? maps + 1 : maps, .device_map_count = one ? 1 : 2};
    tn_status *status = tn_module_load(module, &load, &exe);
    assert_non_null(status);
    assert_int_equal(tn_status_code_of(status), cases[i].code);
    if (strstr(tn_status_message(status), cases[i].words) == NULL)
      fail_msg("\"%s\" instead of \"%s\"", tn_status_message(status), cases[i].words);
    tn_status_free(status);
    assert_null(exe);
  }
  tn_module_release(module);
}

/* One list of maps serves many programs with different devices. */
static void test_maps_that_are_not_used(void **state) {
  static const char text[] = "graph \"g\" {\n  input x: f32[4]\n  y: f32[4] = tanh(x)\n  output \"y\" = y\n}\n";
  static const char *const place[] = {"y=island:3"};
  static const char *const maps[] = {"cuda:1=cuda:0", "island:3=cpu:0", "island:1=cpu:0", "island:3=cpu:0"};
  for (int only_host = 0; only_host < 2; only_host++) {
    tn_compile_options options = {
        .size = sizeof options, .target = "native;island -device=3", .place = place, .place_count = only_host ? 0 : 1};
    tn__strbuf lines;
    tn_log_sink log = {count_line, &lines};
    tn_load_options load = {.size = sizeof load, .device_map = maps, .device_map_count = 4, .log = &log};
    tn_module *module;
    tn_executable *exe;
    tn__strbuf_init(&lines, NULL);
    check_ok(tn_compile("g.tng", text, sizeof text - 1, &options, &module));
    check_ok(tn_module_load(module, &load, &exe));
    assert_string_equal(
        tn__strbuf_text(&lines),
        only_host
            ? "the map of devices \"cuda:1=cuda:0\" has no effect: the executable has no such device beside the host\n"
              "the map of devices \"island:3=cpu:0\" has no effect: the executable has no such device beside the host\n"
              "the map of devices \"island:1=cpu:0\" has no effect: the executable has no such device beside the host\n"
              "the map of devices \"island:3=cpu:0\" is given twice\n"
            : "the map of devices \"cuda:1=cuda:0\" has no effect: the executable has no such device beside the host, "
              "but island:3\n"
              "the map of devices \"island:1=cpu:0\" has no effect: the executable has no such device beside the host, "
              "but island:3\n"
              "the map of devices \"island:3=cpu:0\" is given twice\n");
    tn__strbuf_release(&lines);
    tn_executable_release(exe);
    tn_module_release(module);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) pairs = atoi(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_any_placement_same_bits),
      cmocka_unit_test(test_sizes_of_their_own),
      cmocka_unit_test(test_buffers_that_grow_stay_on_the_host),
      cmocka_unit_test(test_outputs_in_inputs_that_two_cpus_read),
      cmocka_unit_test(test_the_state_of_a_loop_stays_on_its_device),
      cmocka_unit_test(test_annotations_on_the_state_of_a_loop),
      cmocka_unit_test(test_maps_that_are_none),
      cmocka_unit_test(test_maps_that_are_not_used),
  };
  return cmocka_run_group_tests_name("place_run", tests, NULL, NULL);
}
