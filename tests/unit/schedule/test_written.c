/* Schedules that people write: what is printed reads back to the same steps, every statement says what its primitive
 * does, and whatever is wrong is told with its place. */
#include "base/file.h"
#include "schedule/rules/choose.h"
#include "schedule/written/written.h"
#include "target/text/text.h"
#include "te/text.h"
#include "tenon/te.h"
#include "unit/check.h"
#include "unit/schedule_check.h"
#include "unit/schedule_oracle.h"

/* ---- round trips ------------------------------------------------------------------------------------------------- */

static tn_status *written_text(const tn__schedule *s, const char *on, const char **out) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__written_print(s, on, &text);
  tn_status *status = tn__strbuf_status(&text);
  if (status == NULL) *out = tn__arena_strdup(tn__ir_arena(tn__te_ir(tn__schedule_te(s))), tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return status;
}

/* Printed, read and taken again: the same trace. */
static tn_status *check_round_trip(const tn__schedule *s, const pair *p, void *user) {
  const tn__te *te = tn__schedule_te(s);
  const char *text = "", *trace = schedule_text(s, false);
  tn__arena *arena = tn__ir_arena(tn__te_ir(te));
  TN_RETURN_IF_ERROR(written_text(s, s->target->name, &text));
  const tn__written *written;
  TN_RETURN_IF_ERROR(tn__written_parse(arena, "t", text, strlen(text), 1, &written));
  tn__rules none = {0};
  tn__plan_unit unit = {.rules = &none, .te = te, .target = s->target};
  TN_RETURN_IF_ERROR(tn__schedule_options_fill(NULL, s->target, &unit.options));
  const tn__written_use use = {.block = tn__written_need(arena->escape, written, tn__te_name(te), s->target)};
  const tn__chooser chooser = tn__written_chooser(&use);
  const tn__plan *plan = tn__plan_kernel(&unit, &chooser);
  if (strcmp(trace, schedule_text(plan->schedule, false)) != 0)
    return tn_status_create(TN_INTERNAL, "%s\nis printed as\n%s\nwhich is\n%s", trace, text,
                            schedule_text(plan->schedule, false));
  return NULL;
}

static void random_schedules_read_back(void **state) {
  tally t = {{0}};
  for (int i = 0; i < 700; i++) {
    dice d = {.state = UINT64_C(77) + (uint64_t)i * 7919};
    tn_status *status = oracle_pair(&d, 8 + roll(&d, 16), &no_wish, &t, check_round_trip, NULL);
    if (status != NULL) fail_msg("pair %d: %s", i, tn_status_message(status));
  }
  for (int i = 0; i < PRIMITIVES; i++)
    if (t.accepted[i] == 0) print_message("not drawn: %s\n", primitives[i].name);
}

/* The same with the rest chosen computes what the declaration says. */
static tn_status *check_rest(const tn__schedule *s, const pair *p, void *user) {
  const tn__te *te = tn__schedule_te(s);
  tn__arena *arena = tn__ir_arena(tn__te_ir(te));
  const char *text = "";
  TN_RETURN_IF_ERROR(written_text(s, NULL, &text));
  text = tn__arena_printf(arena, "%.*s  choose the rest\n}\n", (int)(strrchr(text, '}') - text), text);
  const tn__written *written;
  TN_RETURN_IF_ERROR(tn__written_parse(arena, "t", text, strlen(text), 1, &written));
  tn__plan_unit unit = tn__rule_plan_unit_of(te, s->target, &(tn__schedule_options){.threads = 2});
  unit.te = te; /* as it was drawn */
  const tn__written_use use = {.block = tn__written_need(arena->escape, written, tn__te_name(te), s->target)};
  const tn__chooser chooser = tn__written_chooser(&use);
  tn_status *status = check_pair(tn__plan_kernel(&unit, &chooser)->schedule, p, user);
  return status == NULL ? NULL : tn_status_prefix(status, "%s", text);
}

static void the_rest_of_random_schedules_is_right(void **state) {
  tally t = {{0}};
  for (int i = 0; i < 600; i++) {
    dice d = {.state = UINT64_C(123) + (uint64_t)i * 104729};
    tn_status *status = oracle_pair(&d, roll(&d, 12), &no_wish, &t, check_rest, NULL);
    if (status != NULL) fail_msg("pair %d: %s", i, tn_status_message(status));
  }
}

static void read_chosen(tn__arena *arena, void *user) {
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4"};
  tn__file_map map;
  tn__te_source *source;
  tn__check(arena->escape, tn__file_map_open(TN_TEST_ROOT "/tests/schedules/kernels.te", &map));
  tn_status *status = tn__te_parse(arena, "kernels.te", (const char *)map.data, map.size, &source);
  tn__file_map_close(&map);
  tn__check(arena->escape, status);
  for (int k = 0; k < tn__te_kernel_count(source); k++)
    for (int t = 0; t < 2; t++) {
      tn__te *te;
      tn__target target;
      tn__check(arena->escape, tn__te_declare(source, k, NULL, 0, tn__ir_create(arena), &te));
      tn__check(arena->escape, tn__target_parse(targets[t], &target));
      tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &(tn__schedule_options){.threads = 1 + 15 * t});
      tn__check(arena->escape, check_round_trip(tn__plan_kernel(&unit, &tn__chooser_static)->schedule, NULL, NULL));
    }
}

static void chosen_schedules_read_back(void **state) { check_ok(tn__with_arena(NULL, read_chosen, NULL)); }

/* ---- statements -------------------------------------------------------------------------------------------------- */

#define GEMM                                                      \
  "kernel gemm(A: f32[M, 96], B: f32[96, N]) -> C: f32[M, N] {\n" \
  "  P[i, j] = sum(k: 96) A[i, k] * B[k, j]\n"                    \
  "  C[i, j] = max(P[i, j], 0)\n"                                 \
  "}\n"
#define GEMM_LINES 4

/* The trace's steps, or the error. Dimensions are fixed; N is open when `n` is 0. */
static tn_status *steps_of(const char *te_text, const char *schedule, int64_t n, bool no_schedule, char **steps) {
  tn_te *te;
  tn_schedule *s;
  char *trace;
  const tn_dim_setting dims[] = {{"M", 64}, {"N", n}};
  *steps = NULL;
  TN_RETURN_IF_ERROR(tn_te_parse("k.te", te_text, strlen(te_text), NULL, dims, n > 0 ? 2 : 1, NULL, &te));
  const tn_schedule_options options = {
      .size = sizeof options, .threads = 1, .schedule = schedule, .schedule_name = "s", .no_schedule = no_schedule};
  tn_status *status = tn_schedule_create(te, "x86-64-v4", &options, &s);
  tn_te_release(te);
  if (status != NULL) return status;
  status = tn_schedule_trace(s, &trace);
  tn_schedule_release(s);
  if (status != NULL) return status;
  *steps = strdup(strchr(trace, '\n') + 1);
  free(trace);
  return NULL;
}

static void check_steps(const char *schedule, int64_t n, const char *expected) {
  char *steps;
  check_ok(steps_of(GEMM, schedule, n, false, &steps));
  assert_string_equal(steps, expected);
  free(steps);
}

static void statements_are_primitives(void **state) {
  check_steps(
      "schedule for gemm { // names, conditions, sizes\n"
      "  let rows = min(14, M)\n"
      "  split P.i by rows as io, ii; split P.j by 2 * vector as jo, ji\n"
      "  reorder io, jo, k, ii, ji\n"
      "  if known(N) && N >= 64 { vectorize ji } else { vectorize ii }\n"
      "  if !known(N) || N < 64 { unroll ji } else if extent(k) == 96 { unroll ii }\n"
      "  compute C at end of jo\n"
      "}\n",
      128,
      "split \"P.i\" 0 14\nsplit \"P.j\" 0 32\nreorder \"P.i.0\" \"P.j.0\" \"P.k\" \"P.i.1\" \"P.j.1\"\n"
      "vectorize \"P.j.1\"\nunroll \"P.i.1\"\nreverse_compute_at \"C\" \"P.j.0\"\nend\n");
  check_steps(
      "for gemm on aarch64 { parallel P.i }\n"
      "for gemm on x86-64-v3, x86-64-v4 {\n"
      "  tile P.i, P.j by 8, 16 as a, b, c, d\n"
      "  fuse a, b as ab\n"
      "  split ab exactly 128, 4\n"
      "  split C.j by rest, 4\n"
      "  scope P stack\n"
      "  cache A for P in stack\n"
      "  memory A global\n"
      "}\n",
      128,
      "tile \"P.i\" \"P.j\" 8 16\nfuse \"P.i.0\" \"P.j.0\"\nsplit \"P.i.0+P.j.0\" 128 4\nsplit \"C.j\" 0 4\n"
      "set_scope \"P\" 0 2\ncache_read \"P\" 1 2\nset_memory \"A\" 0\nend\n");
}

/* "Fix the tile, choose the rest": what is not said is what makes a tile fast. */
static void names_do_not_explode(void **state) {
  char *steps, text[4096] = "for gemm { split P.i by 1 as a0, b0; fuse a0, b0 as f0\n";
  for (int i = 1; i < 40; i++) {
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "split f%d by 1 as a%d, b%d; fuse a%d, b%d as f%d\n", i - 1, i, i, i, i, i);
  }
  strcat(text, "}");
  check_fails(steps_of(GEMM, text, 128, false, &steps), TN_INVALID_ARGUMENT,
              "s:6:26: error: the name of a new loop would have 507 characters; at most 255 are allowed\n"
              "    6 | split f4 by 1 as a5, b5; fuse a5, b5 as f5\n      |                          ^");
}

static void the_rest_is_chosen(void **state) {
  check_steps(
      "for gemm {\n"
      "  split P.i by 8 as io, ii; split P.j by 2 * vector as jo, ji\n"
      "  reorder io, jo, k, ii, ji\n"
      "  compute C at end of jo\n"
      "  choose the rest\n"
      "}\n",
      128,
      "split \"P.i\" 0 8\nsplit \"P.j\" 0 32\nreorder \"P.i.0\" \"P.j.0\" \"P.k\" \"P.i.1\" \"P.j.1\"\n"
      "reverse_compute_at \"C\" \"P.j.0\"\nset_scope \"P\" 0 2\nsplit \"P.j.1\" 0 16\nunroll \"P.j.1.0\"\n"
      "vectorize \"P.j.1.1\"\nunroll \"P.i.1\"\ndecompose_reduction \"P\" \"P.k\"\nsplit \"C.j.1\" 0 16\n"
      "unroll \"C.j.1.0\"\nvectorize \"C.j.1.1\"\nunroll \"C.i.1\"\nend\n");
}

/* Sizes that are left open are chosen, the same ones each time, also for open dimensions; a name stands for one. */
static void open_sizes_are_chosen(void **state) {
  static const char text[] =
      "for gemm {\n"
      "  let rows = ?\n"
      "  split P.i by rows as io, ii; split P.j by ?, vector as jo, jm, ji\n"
      "  reorder jo, io, k, ii, jm, ji\n"
      "  unroll ii, jm; vectorize ji; split C.i by rows\n"
      "  choose the rest\n"
      "}\n";
  for (int open = 0; open < 2; open++) {
    char *steps, *again;
    int rows, vectors, same;
    check_ok(steps_of(GEMM, text, open ? 0 : 128, false, &steps));
    check_ok(steps_of(GEMM, text, open ? 0 : 128, false, &again));
    assert_string_equal(steps, again);
    assert_int_equal(sscanf(steps, "split \"P.i\" 0 %d split \"P.j\" 0 %d 16", &rows, &vectors), 2);
    assert_int_equal(sscanf(strstr(steps, "split \"C.i\""), "split \"C.i\" 0 %d", &same), 1);
    assert_int_equal(rows, same);
    /* A tile that keeps the ports busy, and fits the registers. */
    if (rows * vectors < 12 || rows * vectors > 30) fail_msg("a tile of %d rows and %d vectors", rows, vectors);
    free(steps);
    free(again);
  }
  check_steps("for gemm { if ? > 600 { unroll P.k } }", 128, "end\n");
}

static void blocks_stand_with_their_kernels(void **state) {
  static const char text[] = GEMM
      "schedule for gemm on aarch64 { parallel P.i }\n"
      "schedule for gemm { unroll P.k }\n"
      "schedule for gemm { unroll P.j }\n"
      "kernel copy(X: f32[M], Z: f32[N]) -> Y: f32[M] { Y[i] = X[i] }\n"
      "schedule for copy { }\n"
      "kernel gemm2(A: f32[M, N]) -> C: f32[M, N] { C[i, j] = A[i, j] }\n";
  char *steps, *chosen;
  tn_te **tes;
  int count;
  check_ok(tn_te_parse_all("k.te", text, strlen(text), "gemm", NULL, 0, &tes, &count));
  tn_schedule *s;
  check_ok(tn_schedule_create(tes[0], "x86-64-v4", NULL, &s));
  check_ok(tn_schedule_text(s, &steps));
  assert_string_equal(steps, "schedule for gemm on x86-64-v4 {\n  unroll P.k\n}\n");
  free(steps);
  tn_schedule_release(s);
  check_ok(tn_schedule_create(tes[0], "x86-64-v4",
                              &(tn_schedule_options){.size = sizeof(tn_schedule_options), .no_schedule = true}, &s));
  check_ok(tn_schedule_text(s, &chosen));
  assert_null(strstr(chosen, "unroll P.k"));
  free(chosen);
  tn_schedule_release(s);
  tn_te_list_release(tes, count);
  /* Places are those of the file, whatever stands before. */
  static const char wrong[] = GEMM "  schedule for gemm {\n    unroll Q }\n";
  check_ok(tn_te_parse("k.te", wrong, strlen(wrong), NULL, NULL, 0, NULL, tes = &(tn_te *){NULL}));
  check_fails(tn_schedule_create(tes[0], "x86-64-v4", NULL, &s), TN_INVALID_ARGUMENT,
              "k.te:6:12: error: there is no loop Q\n    6 |     unroll Q }\n      |            ^\n"
              "the loops are, by block: P: P.i, P.j, P.k; C: C.i, C.j");
  tn_te_release(tes[0]);
  static const char unknown[] = GEMM "schedule for gem { unroll P.k }\n",
                    open[] = GEMM "schedule for gemm { unroll P.k\n";
  tn_te *te;
  check_fails(tn_te_parse("k.te", unknown, strlen(unknown), NULL, NULL, 0, NULL, &te), TN_INVALID_ARGUMENT,
              "k.te:5:14: error: there is no kernel gem for this schedule\n    5 | schedule for gem { unroll P.k }\n"
              "      |              ^");
  check_fails(tn_te_parse("k.te", open, strlen(open), NULL, NULL, 0, NULL, &te), TN_INVALID_ARGUMENT,
              "k.te:6:1: error: expected '}' at the end of the schedule, not the end of the text\n    6 | \n      | ^");
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

#define LOOPS "the loops are, by block: P: P.i, P.j, P.k; C: C.i, C.j"

static void errors_have_places(void **state) {
  static const struct {
    const char *text, *line, *behind;
  } wrong[] = {
      {"", "s:1:1: there is no schedule in this text", NULL},
      {"for gemm {", "s:1:11: expected '}' at the end of the schedule, not the end of the text", NULL},
      {"{}", "s:1:1: expected 'schedule for KERNEL', not '{'", NULL},
      {"schedule gemm {}", "s:1:10: expected 'for' behind 'schedule', not 'gemm'", NULL},
      {"for gemm on {}", "s:1:13: expected a target, as in 'on x86-64-v4', not '{'", NULL},
      {"for gemm { split P.i by }", "s:1:25: expected a number or a name, not '}'", NULL},
      {"for gemm { split P.i 4 }", "s:1:22: expected 'by' or 'exactly', not '4'", NULL},
      {"for gemm { compute P to root }", "s:1:22: expected 'at', not 'to'", NULL},
      {"for gemm { compute P at 3 }", "s:1:25: expected 'end' or 'root' or a loop, not '3'", NULL},
      {"for gemm { cache P for }", "s:1:24: expected a block, not '}'", NULL},
      {"for gemm { split P.i by ?; unroll P.q }", "s:1:35: there is no loop P.q",
       "the loops are, by block: P: P.i.0, P.i.1, P.j, P.k; C: C.i, C.j"},
      {"for gemm { choose the rest with rows ? }",
       "s:1:38: '?' is a size of a statement; a decision that is not said is chosen", NULL},
      {"for gemm { tile i, j by max(?, ?), ?; let a = ? + ? + ? + ? + ? + ? }",
       "s:1:67: more than 8 sizes to choose: name one by `let` where it stands for several", NULL},
      {"for gemm { split \"a\\b\" by 2 }",
       "s:1:18: this can be no name: it has characters that are not printed, '\"' or '\\'", NULL},
      {"for gemm { split P.x by 4 }", "s:1:18: there is no loop P.x", LOOPS},
      {"for gemm { reorder i, k }", "s:1:20: i may be P.i or C.i: say which", LOOPS},
      {"for gemm { split P.i by 4 as a }", "s:1:30: split makes 2 loops, and 'as' names 1",
       "the loops are, by block: P: P.i.0, P.i.1, P.j, P.k; C: C.i, C.j"},
      {"for gemm { split P.i by 4 as C.i, b }", "s:1:30: the name C.i is taken already",
       "the loops are, by block: P: P.i.0, P.i.1, P.j, P.k; C: C.i, C.j"},
      {"for gemm { split P.i by 0 }", "s:1:25: a size is at least 1", NULL},
      {"for gemm { split P.i by 1 - 2 }", "s:1:27: the number -1 is out of range: 0 to 2147483647", NULL},
      {"for gemm { unroll P.k; vectorize P.k }", "s:1:34: vectorize of \"P.k\": the loop is not serial any more",
       LOOPS},
      {"for gemm { scope P heap }", "s:1:20: there is no scope heap",
       "the scopes are: workspace, stack, register, shared"},
      {"for gemm { scope Q stack }", "s:1:18: there is no block Q, nor one that writes it", "the blocks are: P, C"},
      {"for gemm { inline Q }", "s:1:19: there is no block Q", "the blocks are: P, C"},
      {"for gemm { cache C for P in stack }", "s:1:18: P does not read C", "P reads: P, A, B"},
      {"for gemm { constant D }", "s:1:21: there is no tensor D", "the tensors are: A, B, P, C"},
      {"for gemm { split P.i by K }", "s:1:25: there is no size K",
       "sizes are dimensions of the kernel, what `let` names, and vector, vector_bytes, registers, threads, l1, l2, "
       "l3"},
      {"for gemm { if N > 3 { } }", "s:1:15: the dimension N is open: fix it, or ask known(N) before", NULL},
      {"for gemm { if 1 / 0 { } }", "s:1:17: / is for numbers from 0 on and one above 0 behind it", NULL},
      {"for gemm { if f(1) { } }", "s:1:15: there is no function f",
       "functions are: min(a, b), max(a, b), ceildiv(a, b), extent(LOOP), lanes(TYPE), known(DIMENSION)"},
      {"for gemm { choose the rest; unroll P.k }",
       "s:1:29: 'choose the rest' is the last statement: nothing is left to say", NULL},
      {"for gemm { choose the best }", "s:1:23: expected 'rest' behind 'choose the', not 'best'", NULL},
      {"for gemm { unroll P.k; choose the rest with rows 8 }",
       "s:1:45: decisions are of a rule that chooses everything: there can be no other statements", NULL},
      {"for gemm { choose the rest with rows 9000 }",
       "s:1:33: rows cannot be 9000 here; it can be: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, "
       "13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30",
       NULL},
      {"for gemm { store P over input 99 }", "s:1:12: store_over of \"P\": there is no tensor 99, it reads 3", LOOPS},
      {"for gemm { split P.i by 5000000000 }", "s:1:25: the number 5000000000 is out of range: 0 to 2147483647", NULL},
      {"for gemm { parallel P.i; scope P stack; choose the rest }",
       "s:1:5: P cannot be kept private: dimension 1 has no constant bound where it is used", LOOPS},
      {"for gemm { memory P global }", "s:1:12: set_memory: there is no input or output \"P\"", LOOPS},
      {"for gemm { memory A texture }",
       "s:1:12: set_memory of \"A\": the target has no memory \"texture\": it has global", LOOPS},
      {"for gemm { memory A moon }", "s:1:21: there is no memory moon", "the target has global"},
      {"for gemm { memory A }", "s:1:21: expected a memory of the device (global, texture, ...), not '}'", NULL},
      {"for gemm { wibble P }",
       "s:1:12: expected a statement, not 'wibble'; statements begin with split, tile, fuse, reorder, parallel, "
       "vectorize, unroll, bind, pragma, compute, inline, hoist, cache, scope, memory, rfactor, privatize, peel, "
       "initialize, prefetch, stream, align, fold, slide, store, constant, layout, tensorize, transpose; let, if, "
       "choose",
       NULL},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char *steps, first[2048];
    tn_status *status = steps_of(GEMM, wrong[i].text, 0, false, &steps);
    if (status == NULL) fail_msg("nothing is wrong with %s", wrong[i].text);
    const char *message = tn_status_message(status), *words = strchr(wrong[i].line, ' ');
    snprintf(first, sizeof first, "%.*s error:%s", (int)(words - wrong[i].line), wrong[i].line, words);
    if (strncmp(message, first, strlen(first)) != 0 || message[strlen(first)] != '\n')
      fail_msg("%s\n  gives %s\n", wrong[i].text, message);
    const char *mark = strstr(message, "^");
    if (mark == NULL || (wrong[i].behind == NULL ? mark[1] != 0 : strcmp(mark + 2, wrong[i].behind) != 0))
      fail_msg("%s\n  has behind it: %s\n", wrong[i].text, mark == NULL ? "" : mark + 1);
    tn_status_free(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chosen_schedules_read_back),
      cmocka_unit_test(random_schedules_read_back),
      cmocka_unit_test(statements_are_primitives),
      cmocka_unit_test(blocks_stand_with_their_kernels),
      cmocka_unit_test(errors_have_places),
      cmocka_unit_test(the_rest_is_chosen),
      cmocka_unit_test(open_sizes_are_chosen),
      cmocka_unit_test(names_do_not_explode),
      cmocka_unit_test(the_rest_of_random_schedules_is_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
