/* <tenon/te.h>: declarations built piece by piece and from text, schedules held in the hand, code run in this
 * process. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/te.h"
#include "unit/check.h"

static const char gemm[] =
    "kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N] {\n"
    "  C[i, j] = sum(k: K) A[i, k] * B[k, j]\n"
    "}\n";

static tn_te *parsed(const char *text, const tn_dim_setting *dims, int count) {
  tn_te *te;
  check_ok(tn_te_parse("t.te", text, strlen(text), NULL, dims, count, NULL, &te));
  return te;
}

static void prints_as(tn_te *te, const char *expected) {
  char *text;
  check_ok(tn_te_print(te, &text));
  assert_string_equal(text, expected);
  free(text);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static tn_te *row_sums(void) {
  tn_te *te;
  check_ok(tn_te_create("row_sums", NULL, &te));
  tn_te_expr *n = tn_te_dim(te, "N", 1), *width = tn_te_int(te, TN_I64, 8), *shape[] = {n, width};
  tn_te_tensor *x = tn_te_input(te, "X", TN_F32, 2, shape);
  tn_te_expr *axes[] = {tn_te_axis(te, "i", n), tn_te_axis(te, "k", width)};
  tn_te_tensor *s = tn_te_reduce(te, "S", "sum", 1, axes, 1, axes + 1, tn_te_read(te, x, 2, axes));
  tn_te_expr *pair[] = {tn_te_read(te, s, 1, axes), tn_te_float(te, TN_F32, 0.5)};
  tn_te_output(te, tn_te_compute(te, "Y", 1, axes, tn_te_op(te, "*", 2, pair)));
  const char *names[] = {"best", "at"};
  tn_te_tensor *arg[2];
  tn_te_arg_reduce(te, names, true, 1, axes, axes[1], tn_te_read(te, x, 2, axes), arg);
  tn_te_output(te, arg[1]);
  return te;
}

static const char row_sums_text[] =
    "kernel row_sums[N](X: f32[N, 8]) -> (Y: f32[N], at: i64[N]) {\n"
    "  S: f32[i: N] = sum(k: 8) X[i, k]\n"
    "  Y: f32[i: N] = S[i]*0.5f32\n"
    "  best: f32[i: N], at: i64[i] = argmax(k: 8) (X[i, k], k)\n"
    "}\n";

static void builds_declarations(void **state) {
  tn_te *te = row_sums();
  check_ok(tn_te_finish(te));
  prints_as(te, row_sums_text);
  tn_te_release(te);
}

static void builds_combiners_and_scans(void **state) {
  tn_te *te;
  check_ok(tn_te_create("more", NULL, &te));
  tn_te_expr *n = tn_te_int(te, TN_I64, 5), *axis = tn_te_axis(te, "t", n);
  tn_te_tensor *x = tn_te_input(te, "X", TN_F64, 1, &n);
  tn_te_expr *element = tn_te_read(te, x, 1, &axis);
  tn_te_combiner c = {.count = 1, .in_order = true};
  c.before[0] = tn_te_variable(te, "a", TN_F64);
  c.after[0] = tn_te_variable(te, "b", TN_F64);
  tn_te_expr *both[] = {c.before[0], c.after[0]};
  c.results[0] = tn_te_op(te, "max", 2, both);
  c.identities[0] = tn_te_float(te, TN_F64, 0);
  const char *name = "greatest";
  tn_te_tensor *greatest;
  tn_te_reduce_with(te, &name, &c, 0, NULL, 1, &axis, &element, &greatest);
  tn_te_output(te, greatest);
  tn_te_tensor *s = tn_te_scan(te, "S", TN_F64, 1, &axis);
  tn_te_expr *back[] = {axis, tn_te_int(te, TN_I64, 1)}, *earlier = tn_te_op(te, "-", 2, back);
  tn_te_expr *sum[] = {tn_te_read(te, s, 1, &earlier), element};
  tn_te_scan_define(te, s, 1, &axis, 0, 1, element, tn_te_op(te, "+", 2, sum));
  tn_te_output(te, s);
  check_ok(tn_te_finish(te));
  prints_as(te,
            "kernel more(X: f64[5]) -> (greatest: f64[], S: f64[5]) {\n"
            "  combiner in_order combine0(a: f64, b: f64) = max(a, b) from 0.0\n"
            "  greatest: f64[] = combine0(t: 5) X[t]\n"
            "  S: f64[t: 5] = scan(t) X[t] then S[t - 1] + X[t]\n"
            "}\n");
  tn_te_release(te);
}

static void first_refusal_is_told(void **state) {
  tn_te *te;
  check_fails(tn_te_create("for", NULL, &te), TN_INVALID_ARGUMENT,
              "te for: \"for\" is no name: letters, digits and _, no word of the language");
  assert_null(te);
  check_ok(tn_te_create("f", NULL, &te));
  tn_te_expr *n = tn_te_dim(te, "N", 1), *pair[] = {n, tn_te_float(te, TN_F32, 1)};
  assert_null(tn_te_op(te, "+", 2, pair));
  assert_null(tn_te_dim(te, "M", 1)); /* after a refusal nothing is made */
  {
    tn_schedule *schedule;
    check_fails(tn_schedule_create(te, NULL, NULL, &schedule), TN_FAILED_PRECONDITION,
                "te f: tn_te_finish() has not accepted the declaration");
  }
  check_fails(tn_te_finish(te), TN_INVALID_ARGUMENT,
              "te f: operation +: the operands of + are of type i64 and f32; i64(...) converts");
  tn_te_release(te);
  check_ok(tn_te_create("g", NULL, &te));
  (void)tn_te_dim(te, "N", 1);
  assert_null(tn_te_dim(te, "N", 1));
  check_fails(tn_te_finish(te), TN_INVALID_ARGUMENT, "te g: the name N is taken already");
  tn_te_release(te);
  te = row_sums();
  check_ok(tn_te_finish(te));
  assert_null(tn_te_dim(te, "M", 1));
  tn_te_release(te);
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static void steps_apply_or_leave_no_trace(void **state) {
  static const tn_dim_setting dims[] = {{"M", 32}, {"N", 48}, {"K", 16}};
  tn_te *te = parsed(gemm, dims, 3);
  tn_schedule_options options = {.size = sizeof options, .plain = true};
  tn_schedule *schedule, *again;
  char *before, *after;
  check_ok(tn_schedule_create(te, "x86-64-v3", &options, &schedule));
  check_ok(tn_schedule_apply(schedule, "split \"C.j\" 0 16"));
  check_ok(tn_schedule_apply(schedule, "parallel \"C.i\""));
  check_ok(tn_schedule_trace(schedule, &before));
  assert_non_null(strstr(before, "\nsplit \"C.j\" 0 16\nparallel \"C.i\"\nend\n"));
  tn_status *status = tn_schedule_apply(schedule, "split \"C.z\" 0 4");
  assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
  assert_non_null(strstr(tn_status_message(status), "C.z"));
  tn_status_free(status);
  check_fails(tn_schedule_apply(schedule, "split \"C.i\" 0 4\nend"), TN_INVALID_ARGUMENT,
              "a step is one line, such as split \"C.i\" 0 16");
  check_ok(tn_schedule_trace(schedule, &after));
  assert_string_equal(before, after);
  free(after);
  check_ok(tn_schedule_replay(te, "x86-64-v3", before, NULL, &again));
  check_ok(tn_schedule_trace(again, &after));
  assert_string_equal(before, after);
  tn_schedule_release(again);
  tn_te *other = parsed(row_sums_text, NULL, 0);
  status = tn_schedule_replay(other, NULL, before, NULL, &again);
  assert_non_null(strstr(tn_status_message(status), "the trace is of another declaration"));
  tn_status_free(status);
  free(before);
  free(after);
  tn_te_release(other);
  tn_schedule_release(schedule);
  tn_te_release(te);
}

/* Every primitive through one call, on the declaration's own loops: the trace has the steps, and replays to itself. */
static const char primed[] =
    "kernel primed(A: f32[32, 16], B: f32[16, 48], b: f32[48]) -> D: f32[32, 48], T: f32[48, 32] {\n"
    "  C[i, j] = sum(k: 16) A[i, k] * B[k, j]\n"
    "  E[i, j] = C[i, j] + b[j]\n"
    "  D[i, j] = max(E[i, j], 0)\n"
    "  T[j, i] = D[i, j]\n"
    "}\n"
    "kernel dots(A: bf16[3, 8], B: bf16[8, 32]) -> D: f32[3, 32] {\n"
    "  C[i, j] = sum(k: 4, p: 2) f32(A[i, 2*k + p]) * f32(B[2*k + p, j])\n"
    "  D[i, j] = C[i, j] * 0.5\n"
    "}\n";

static const struct {
  const char *kernel, *steps[12];
} primitives[] = {
    {"primed", {"split \"C.j\" 0 16", "pragma \"C.j.0\" \"whole\" 1", "unroll \"C.j.1\""}},
    {"primed", {"fuse \"E.i\" \"E.j\"", "parallel \"E.i+E.j\""}},
    {"primed",
     {"reorder \"C.j\" \"C.i\"", "prefetch_ahead \"C\" \"C.k\" \"C.j\" 2 1",
      "prefetch_spread \"C\" \"C.k\" \"C.j\" 2 1", "prefetch \"C\" \"C.i\" 1 4"}},
    {"primed", {"tile \"C.i\" \"C.j\" 4 8", "bind \"C.i.0\" \"block.x\"", "bind \"C.j.0\" \"thread.x\""}},
    {"primed", {"compute_at \"E\" \"D.i\"", "fold_storage \"E\" \"D.i\" 0"}},
    {"primed", {"compute_at \"E\" \"D.i\"", "set_scope \"E\" 0 2", "compute_root \"E\""}},
    {"primed", {"reverse_compute_at \"E\" \"C.i\"", "decompose_reduction \"C\" \"C.k\""}},
    {"primed", {"inline \"E\""}},
    {"primed", {"reverse_inline \"D\""}},
    {"primed", {"cache_write \"C\" 0 1", "cache_read \"C\" 1 1", "cache_read_in_order \"C\" 2 1 1 0"}},
    {"primed", {"split \"C.k\" 0 4", "rfactor \"C.k.1\""}},
    {"primed", {"split \"C.k\" 0 4", "rfactor_at \"C.k.0\" \"C.k.0\""}},
    {"primed", {"storage_align \"C\" 0 0 16 4"}},
    {"primed", {"store_over \"E\" 0"}},
    {"primed",
     {"split \"T.j\" 0 16", "split \"T.i\" 0 16", "reorder \"T.j.0\" \"T.i.0\" \"T.j.1\" \"T.i.1\"",
      "transpose \"T\" \"T.j.1\" \"T.i.1\"", "stream \"T\" 0"}},
    {"dots", {"cache_read_cast \"C\" 1 1"}},
    {"dots",
     {"declare_constant \"B\"", "transform_layout \"B\" 0 2 0 1 1 0 0 1 2", "split \"C.j\" 0 16",
      "reorder \"C.j.0\" \"C.i\" \"C.k\" \"C.j.1\" \"C.p\"", "set_scope \"C\" 0 2", "reverse_compute_at \"D\" \"C.i\"",
      "decompose_reduction \"C\" \"C.k\"", "tensorize \"C.j.1\" \"x86.avx512bf16.dpbf16ps\"",
      "vectorize \"C.init.j.1\"", "parallel \"C.j.0\""}},
};

static void every_primitive_is_a_step(void **state) {
  static const char *const names[] = {"split",
                                      "fuse",
                                      "reorder",
                                      "parallel",
                                      "vectorize",
                                      "unroll",
                                      "compute_at",
                                      "reverse_compute_at",
                                      "inline",
                                      "reverse_inline",
                                      "cache_write",
                                      "cache_read",
                                      "cache_read_in_order",
                                      "cache_read_cast",
                                      "set_scope",
                                      "rfactor",
                                      "rfactor_at",
                                      "decompose_reduction",
                                      "tile",
                                      "compute_root",
                                      "bind",
                                      "pragma",
                                      "prefetch",
                                      "stream",
                                      "prefetch_ahead",
                                      "prefetch_spread",
                                      "storage_align",
                                      "fold_storage",
                                      "store_over",
                                      "declare_constant",
                                      "transform_layout",
                                      "tensorize",
                                      "transpose"};
  enum { NAMES = sizeof(names) / sizeof(names[0]) };
  static const char target[] = "x86-64-v4+avx512bf16";
  tn_schedule_options options = {.size = sizeof options, .plain = true};
  bool seen[NAMES] = {false};
  for (size_t i = 0; i < sizeof(primitives) / sizeof(primitives[0]); i++) {
    tn_te *te;
    tn_schedule *schedule, *again;
    char *trace, *second, *object;
    size_t size;
    check_ok(tn_te_parse("t.te", primed, strlen(primed), primitives[i].kernel, NULL, 0, NULL, &te));
    check_ok(tn_schedule_create(te, target, &options, &schedule));
    for (const char *const *step = primitives[i].steps; *step != NULL; step++) {
      check_ok(tn_schedule_apply(schedule, *step));
      for (int n = 0; n < NAMES; n++)
        seen[n] |= strncmp(*step, names[n], strlen(names[n])) == 0 && (*step)[strlen(names[n])] == ' ';
    }
    check_ok(tn_schedule_trace(schedule, &trace));
    const char *at = trace;
    for (const char *const *step = primitives[i].steps; *step != NULL; step++) {
      at = strstr(at, *step);
      if (at == NULL) fail_msg("%s is not in\n%s", *step, trace);
    }
    check_ok(tn_schedule_replay(te, target, trace, NULL, &again));
    check_ok(tn_schedule_trace(again, &second));
    assert_string_equal(trace, second);
    check_ok(tn_te_emit(&again, 1, NULL, "obj", &object, &size));
    assert_true(size > 0);
    free(object);
    free(trace);
    free(second);
    tn_schedule_release(again);
    tn_schedule_release(schedule);
    tn_te_release(te);
  }
  for (int n = 0; n < NAMES; n++)
    if (!seen[n]) fail_msg("no schedule has a step %s", names[n]);
}

static void options_out_of_range(void **state) {
  static const struct {
    tn_schedule_options options;
    const char *word;
  } bad[] = {
      {{.threads = -1}, "thread"},       {{.threads = 5000}, "thread"},    {{.vector_bytes = 17}, "vector"},
      {{.vector_bytes = 128}, "vector"}, {{.cache_bytes = 5}, "cache"},    {{.registers = 1000}, "register"},
      {{.shared_memory = -4}, "shared"}, {{.search_space = -1}, "search"}, {{.search_space = 2000000}, "search"}};
  tn_te *te = parsed(gemm, NULL, 0);
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    tn_schedule_options options = bad[i].options;
    tn_schedule *schedule;
    options.size = sizeof options;
    tn_status *status = tn_schedule_create(te, "x86-64-v3", &options, &schedule);
    assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
    assert_non_null(strstr(tn_status_message(status), bad[i].word));
    tn_status_free(status);
    assert_null(schedule);
  }
  tn_te_release(te);
}

/* ---- code -------------------------------------------------------------------------------------------------------- */

static tn_schedule *scheduled(const tn_te *te, const char *target) {
  tn_schedule *schedule;
  check_ok(tn_schedule_create(te, target, NULL, &schedule));
  return schedule;
}

static void builds_an_object_and_a_header(void **state) {
  tn_te *te = parsed(gemm, NULL, 0), *other = parsed(row_sums_text, NULL, 0);
  tn_schedule *schedules[] = {scheduled(te, "aarch64"), scheduled(other, "aarch64"), scheduled(te, "x86-64-v3")};
  tn_build *build;
  check_ok(tn_te_build(schedules, 2, NULL, &build));
  size_t size;
  assert_memory_equal(tn_build_object(build, &size),
                      "\x7f"
                      "ELF",
                      4);
  assert_non_null(strstr(tn_build_header(build), "int32_t gemm(\n    int64_t M,\n    int64_t K,\n    int64_t N,\n"));
  assert_non_null(strstr(tn_build_header(build),
                         "int32_t row_sums(int64_t N, const float *TENON_RESTRICT X, "
                         "float *TENON_RESTRICT Y, int64_t *TENON_RESTRICT at);"));
  tn_build_release(build);
  check_fails(tn_te_build(schedules + 1, 2, NULL, &build), TN_INVALID_ARGUMENT,
              "row_sums is scheduled for aarch64 and gemm for x86-64-v3: one object has one target");
  assert_null(build);
  schedules[1] = (tn_schedule_release(schedules[1]), scheduled(te, "aarch64"));
  check_fails(tn_te_build(schedules, 2, NULL, &build), TN_INVALID_ARGUMENT, "two kernels are called gemm");
  for (int i = 0; i < 3; i++) tn_schedule_release(schedules[i]);
  tn_te_release(te);
  tn_te_release(other);
}

static DLTensor view(void *data, DLDataType type, int rank, int64_t *shape) {
  return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = shape};
}

static void runs_in_this_process(void **state) {
  tn_te *te = row_sums();
  check_ok(tn_te_finish(te));
  tn_schedule *schedule = scheduled(te, NULL);
  tn_module *module;
  tn_executable *exe;
  tn_session *session;
  check_ok(tn_te_module(&schedule, 1, NULL, &module));
  check_ok(tn_module_load(module, NULL, &exe));
  check_ok(tn_session_create(exe, NULL, &session));
  float x[3][8];
  for (int i = 0; i < 24; i++) x[i / 8][i % 8] = (float)((i * 5) % 11);
  int64_t shape[] = {3, 8};
  DLTensor input = view(x, tn_dtype_to_dl(TN_F32), 2, shape), y, at;
  check_ok(tn_session_set_input(session, "row_sums", "X", &input, TN_BIND_NEXT));
  check_ok(tn_session_invoke(session, "row_sums"));
  check_ok(tn_session_get_output(session, "row_sums", 0, &y));
  check_ok(tn_session_get_output(session, "row_sums", 1, &at));
  assert_int_equal(y.shape[0], 3);
  for (int i = 0; i < 3; i++) {
    float sum = 0;
    int best = 0;
    for (int k = 0; k < 8; k++) {
      sum += x[i][k];
      if (x[i][k] > x[i][best]) best = k;
    }
    assert_true(fabsf(((const float *)y.data)[i] - sum * 0.5f) < 1e-5f);
    assert_int_equal(((const int64_t *)at.data)[i], best);
  }
  tn_session_release(session);
  tn_executable_release(exe);
  tn_module_release(module);
  tn_schedule_release(schedule);
  tn_te_release(te);
}

/* Runs the only kernel of `text` in this process; the outputs live as long as the session. */
typedef struct te_run {
  tn_te *te;
  tn_schedule *schedule;
  tn_module *module;
  tn_executable *exe;
  tn_session *session;
} te_run;

static void te_run_begin(te_run *r, const char *text) {
  r->te = parsed(text, NULL, 0);
  r->schedule = scheduled(r->te, NULL);
  check_ok(tn_te_module(&r->schedule, 1, NULL, &r->module));
  check_ok(tn_module_load(r->module, NULL, &r->exe));
  check_ok(tn_session_create(r->exe, NULL, &r->session));
}

static void te_run_end(te_run *r) {
  tn_session_release(r->session);
  tn_executable_release(r->exe);
  tn_module_release(r->module);
  tn_schedule_release(r->schedule);
  tn_te_release(r->te);
}

/* Whatever the data say, nothing outside of the tensors is read. */
static void indices_from_data_stay_inside(void **state) {
  te_run r;
  te_run_begin(&r, "kernel pick(T: f32[N], I: i64[M]) -> Y: f32[M] { Y[i] = T[I[i]] }");
  float table[3] = {5, 6, 7};
  int64_t at[5] = {1, -1, 3, INT64_MIN, INT64_MAX}, sizes[] = {3, 5};
  DLTensor t = view(table, tn_dtype_to_dl(TN_F32), 1, sizes), i = view(at, tn_dtype_to_dl(TN_I64), 1, sizes + 1), y;
  check_ok(tn_session_set_input(r.session, "pick", "T", &t, TN_BIND_NEXT));
  check_ok(tn_session_set_input(r.session, "pick", "I", &i, TN_BIND_NEXT));
  check_ok(tn_session_invoke(r.session, "pick"));
  check_ok(tn_session_get_output(r.session, "pick", 0, &y));
  static const float expected[5] = {6, 5, 7, 5, 7};
  assert_memory_equal(y.data, expected, sizeof(expected));
  te_run_end(&r);
}

/* Long functions are made in parts, which see what was computed before and pass failures on. */
static void long_kernels_are_made_in_parts(void **state) {
  enum { STAGES = 70, SIZE = 6 };
  char text[STAGES * 100 + 200], *end = text;
  end += sprintf(end, "kernel chain(X: i64[N, N], D: i64[N]) -> Y: i64[N] {\n  S0[i] = sum(k: N) X[i, k]\n");
  for (int s = 1; s < STAGES; s++) {
    const char *name = s + 1 < STAGES ? "S" : "Y", *divided = s == 40 ? " / D[i]" : "";
    end += sprintf(end, s + 1 < STAGES ? "  %s%d" : "  %s", name, s);
    end += sprintf(end, "[i] = sum(k: N) (X[i, k] + S%d[k]%s) %% 1000\n", s - 1, divided);
  }
  sprintf(end, "}\n");
  te_run r;
  te_run_begin(&r, text);
  int64_t x[SIZE][SIZE], d[SIZE], before[SIZE] = {0}, now[SIZE], shape[] = {SIZE, SIZE};
  for (int i = 0; i < SIZE * SIZE; i++) x[i / SIZE][i % SIZE] = (i * 7) % 23;
  for (int i = 0; i < SIZE; i++) d[i] = i + 1;
  for (int s = 0; s < STAGES; s++) {
    for (int i = 0; i < SIZE; i++) {
      now[i] = 0;
      for (int k = 0; k < SIZE; k++)
        now[i] += s == 0 ? x[i][k] : (x[i][k] + (s == 40 ? before[k] / d[i] : before[k])) % 1000;
    }
    memcpy(before, now, sizeof(now));
  }
  DLTensor given = view(x, tn_dtype_to_dl(TN_I64), 2, shape), by = view(d, tn_dtype_to_dl(TN_I64), 1, shape), y;
  check_ok(tn_session_set_input(r.session, "chain", "X", &given, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_input(r.session, "chain", "D", &by, TN_BIND_PERSISTENT));
  check_ok(tn_session_invoke(r.session, "chain"));
  check_ok(tn_session_get_output(r.session, "chain", 0, &y));
  assert_memory_equal(y.data, now, sizeof(now));
  d[3] = 0;
  tn_status *status = tn_session_invoke(r.session, "chain");
  assert_non_null(status);
  assert_non_null(strstr(tn_status_message(status), "divi"));
  tn_status_free(status);
  te_run_end(&r);
}

/* A constant operand is packed by a function of its own, and the kernel takes what that makes. */
static void constants_are_packed(void **state) {
  enum { M = 3, K = 5, N = 20 };
  tn_dim_setting dims[] = {{"K", K}, {"N", N}};
  tn_te *te = parsed(gemm, dims, 2);
  const char *constants[] = {"B"}, *left[] = {"A"};
  tn_schedule_options options = {.size = sizeof(options), .constants = constants, .constant_count = 1};
  tn_schedule *schedule;
  tn_module *module;
  tn_executable *exe;
  tn_session *session;
  check_ok(tn_schedule_create(te, NULL, &options, &schedule));
  char *trace;
  tn_schedule *again;
  check_ok(tn_schedule_trace(schedule, &trace));
  check_ok(tn_schedule_replay(te, NULL, trace, &options, &again));
  tn_schedule_release(again);
  free(trace);
  check_ok(tn_te_module(&schedule, 1, NULL, &module));
  check_ok(tn_module_load(module, NULL, &exe));
  check_ok(tn_session_create(exe, NULL, &session));
  float a[M][K], b[K][N];
  for (int i = 0; i < M * K; i++) a[i / K][i % K] = (float)(i % 7) - 3;
  for (int i = 0; i < K * N; i++) b[i / N][i % N] = (float)(i % 5) - 2;
  int64_t a_shape[] = {M, K}, b_shape[] = {K, N};
  DLTensor x = view(a, tn_dtype_to_dl(TN_F32), 2, a_shape), w = view(b, tn_dtype_to_dl(TN_F32), 2, b_shape), packed, y;
  check_ok(tn_session_set_input(session, "gemm_pack_B", "B", &w, TN_BIND_NEXT));
  check_ok(tn_session_invoke(session, "gemm_pack_B"));
  check_ok(tn_session_get_output(session, "gemm_pack_B", 0, &packed));
  assert_int_equal(packed.ndim, 3);
  check_ok(tn_session_set_input(session, "gemm", "A", &x, TN_BIND_NEXT));
  check_ok(tn_session_set_input(session, "gemm", "B.packed", &packed, TN_BIND_NEXT));
  check_ok(tn_session_invoke(session, "gemm"));
  check_ok(tn_session_get_output(session, "gemm", 0, &y));
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < K; k++) sum += a[i][k] * b[k][j];
      assert_true(((const float *)y.data)[i * N + j] == sum);
    }
  tn_session_release(session);
  tn_executable_release(exe);
  tn_module_release(module);
  tn_schedule_release(schedule);
  options.constants = left;
  check_fails(tn_schedule_create(te, NULL, &options, &schedule), TN_INVALID_ARGUMENT,
              "te gemm: constant A: dimension 0 is open; fix it");
  tn_te_release(te);
}

static void lists_every_kernel(void **state) {
  static const char text[] =
      "kernel a(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] }\n"
      "kernel b(X: f32[M]) -> Y: f32[M] { Y = a(X) }\n";
  tn_te **list;
  int count;
  tn_dim_setting dims[] = {{"N", 3}};
  check_ok(tn_te_parse_all("t.te", text, strlen(text), NULL, dims, 1, &list, &count));
  assert_int_equal(count, 2);
  assert_string_equal(tn_te_name(list[1]), "b");
  prints_as(list[0], "kernel a(X: f32[3]) -> Y: f32[3] {\n  Y: f32[i: 3] = X[i]\n}\n");
  tn_te_list_release(list, count);
  check_fails(tn_te_parse_all("t.te", text, strlen(text), "b", dims, 1, &list, &count), TN_INVALID_ARGUMENT,
              "t.te: no kernel has a dimension N");
  check_fails(tn_te_parse_all("t.te", text, strlen(text), "c", NULL, 0, &list, &count), TN_NOT_FOUND,
              "t.te: there is no kernel called c");
  tn_dim_setting twice[] = {{"N", 3}, {"N", 4}};
  check_fails(tn_te_parse_all("t.te", text, strlen(text), NULL, twice, 2, &list, &count), TN_INVALID_ARGUMENT,
              "t.te: the dimension N is given twice: 3 and 4");
}

/* A copy of an input that is needed for longer than its memory is left is part of the trace. */
static void outputs_take_the_memory_of_inputs(void **state) {
  static const char text[] =
      "kernel f(X: f32[M, N] strides [ldx, 1]) -> Y: f32[M, N] over X { Y[i, j] = X[M - 1 - i, j] * 2 }\n"
      "kernel g(X: f32[N]) -> Y: f32[N] over X { Y[i] = X[i] * 2 }\n"
      "kernel h(A: f32[M, 64], W: f32[64, 32] strides [40, 1]) -> C: f32[M, 32] { C[i, j] = sum(k) A[i, k] * W[k, j] "
      "}\n";
  tn_te **list;
  tn_module *module;
  int count;
  check_ok(tn_te_parse_all("t.te", text, strlen(text), NULL, NULL, 0, &list, &count));
  tn_schedule *copies = scheduled(list[0], "x86-64-v3"), *again, *other = scheduled(list[1], "x86-64-v3");
  char *trace, *second;
  check_ok(tn_schedule_trace(copies, &trace));
  assert_non_null(strstr(trace, "\"X.copy"));
  check_ok(tn_schedule_replay(list[0], "x86-64-v3", trace, NULL, &again));
  check_ok(tn_schedule_trace(again, &second));
  assert_string_equal(trace, second);
  free(second);
  free(trace);
  tn_build *build;
  check_ok(tn_te_build((tn_schedule *[]){again, other}, 2, NULL, &build));
  assert_non_null(strstr(tn_build_header(build),
                         " *   X: f32[M, N] strides [ldx, 1]\n * and writes\n"
                         " *   Y: f32[M, N] strides [ldx, 1], in the memory of X\n * Needs working memory"));
  assert_non_null(strstr(tn_build_header(build), "int32_t g(int64_t N, float *TENON_RESTRICT X);"));
  tn_build_release(build);
  check_fails(tn_te_module(&copies, 1, NULL, &module), TN_INVALID_ARGUMENT,
              "kernel f: its declaration says how tensors lie in memory, and in a module that is for the caller; "
              "schedule it with tn_schedule_options.dense");
  tn_schedule_release(copies);
  tn_schedule_release(again);
  tn_schedule_release(other);
  tn_schedule_options dense = {.size = sizeof dense, .dense = true};
  check_ok(tn_schedule_create(list[0], NULL, &dense, &copies));
  check_ok(tn_te_module(&copies, 1, NULL, &module));
  tn_module_release(module);
  tn_schedule_release(copies);
  /* A step that needs an element for longer is seen when code is made. */
  tn_schedule_options plain = {.size = sizeof plain, .plain = true};
  check_ok(tn_schedule_create(list[1], "x86-64-v3", &plain, &other));
  check_ok(tn_schedule_apply(other, "split \"Y.i\" 0 8"));
  check_ok(tn_te_build(&other, 1, NULL, &build));
  tn_build_release(build);
  tn_schedule_release(other);
  const char *constants[] = {"W"};
  tn_schedule_options packed = {.size = sizeof packed, .constants = constants, .constant_count = 1};
  check_ok(tn_schedule_create(list[2], "x86-64-v3", &packed, &other));
  check_ok(tn_te_build(&other, 1, NULL, &build));
  assert_non_null(strstr(tn_build_header(build), " *   W: f32[64, 32] strides [40, 1]\n"));
  tn_build_release(build);
  tn_schedule_release(other);
  tn_te_list_release(list, count);
}

/* Reading ends at so many errors; the kernels before them were understood. */
static void errors_behind_a_kernel(void **state) {
  char text[4096], *at = text + sprintf(text, "kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] }\n");
  tn_te **list;
  int count;
  for (int i = 0; i < 40; i++) at += sprintf(at, "const A%d = ?\n", i);
  tn_status *status = tn_te_parse_all("t.te", text, strlen(text), NULL, NULL, 0, &list, &count);
  assert_non_null(strstr(tn_status_message(status), "t.te:2:12: error: expected an expression"));
  assert_non_null(strstr(tn_status_message(status), "more errors follow; these are 20"));
  tn_status_free(status);
  tn_te *te;
  tn_schedule *s;
  /* Loops that are written out, of a long expression. */
  at = text + sprintf(text, "kernel huge(X: f32[51200]) -> Y: f32[51200] {\n  Y[i] = X[i]");
  for (int i = 0; i < 60; i++) at += sprintf(at, " * X[i] + %d", i);
  sprintf(at, "\n}\n");
  check_ok(tn_te_parse("t.te", text, strlen(text), NULL, NULL, 0, NULL, &te));
  tn_schedule_options plain = {.size = sizeof plain, .plain = true};
  check_ok(tn_schedule_create(te, "x86-64-v3", &plain, &s));
  check_ok(tn_schedule_apply(s, "split \"Y.i\" 0 256"));
  check_ok(tn_schedule_apply(s, "unroll \"Y.i.0\""));
  check_ok(tn_schedule_apply(s, "unroll \"Y.i.1\""));
  tn_build *build;
  status = tn_te_build(&s, 1, NULL, &build);
  assert_non_null(strstr(tn_status_message(status), "compiling kernel huge would take more than"));
  tn_status_free(status);
  tn_schedule_release(s);
  tn_te_release(te);
}

/* Some inputs are copied and some are not: the trace knows which. */
static void traces_know_what_is_copied(void **state) {
  static const char text[] =
      "kernel f(A: f32[N], B: f32[N], C: f32[N]) -> (P: f32[N] over A, Q: f32[N] over B, R: f32[N] over C) {\n"
      "  P[i] = A[i] + 1\n  Q[i] = B[N - 1 - i]\n  R[i] = C[i] * 2\n}\n";
  tn_te *te;
  tn_schedule *again;
  char *trace, *second;
  check_ok(tn_te_parse("t.te", text, strlen(text), NULL, NULL, 0, NULL, &te));
  tn_schedule *s = scheduled(te, "x86-64-v3");
  check_ok(tn_schedule_trace(s, &trace));
  assert_non_null(strstr(trace, "\"B.copy"));
  assert_null(strstr(trace, "\"A.copy"));
  assert_null(strstr(trace, "\"C.copy"));
  check_ok(tn_schedule_replay(te, "x86-64-v3", trace, NULL, &again));
  check_ok(tn_schedule_trace(again, &second));
  assert_string_equal(trace, second);
  free(trace);
  free(second);
  tn_schedule_release(s);
  tn_schedule_release(again);
  tn_te_release(te);
  char chain[160000], *at = chain + sprintf(chain, "kernel f(X: f32[N]) -> Y: f32[N] {\n  inline A0[i] = X[i]\n");
  for (int i = 1; i < 3000; i++) at += sprintf(at, "  inline A%d[i] = A%d[i] * 2\n", i, i - 1);
  sprintf(at, "  Y[i] = A2999[i]\n}\n");
  tn_status *status = tn_te_parse("t.te", chain, strlen(chain), NULL, NULL, 0, NULL, &te);
  assert_non_null(strstr(tn_status_message(status), "more than 1048576 operations are inlined: store a tensor on the"));
  tn_status_free(status);
}

static void hints_are_obeyed(void **state) {
  static const char text[] =
      "kernel f(X: f32[N]) -> Y: f32[N] {\n"
      "  store A[i] = X[i] + 1\n  inline B[i] = exp(A[i]) * X[i]\n  C[i] = B[i] * 2\n  Y[i] = C[i] + B[i]\n}\n";
  tn_te *te;
  char *out;
  size_t size;
  check_ok(tn_te_parse("t.te", text, strlen(text), NULL, NULL, 0, NULL, &te));
  tn_schedule *s = scheduled(te, "x86-64-v3");
  check_ok(tn_te_emit(&s, 1, NULL, "tir", &out, &size));
  assert_non_null(strstr(out, "alloc A: f32[N] workspace"));
  assert_null(strstr(out, "alloc B"));
  free(out);
  check_ok(tn_schedule_trace(s, &out));
  assert_non_null(strstr(out, "inline \"C\"")); /* nothing is said of it */
  assert_null(strstr(out, "\"B"));
  free(out);
  tn_schedule_release(s);
  tn_te_release(te);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(builds_declarations),
                                     cmocka_unit_test(builds_combiners_and_scans),
                                     cmocka_unit_test(first_refusal_is_told),
                                     cmocka_unit_test(steps_apply_or_leave_no_trace),
                                     cmocka_unit_test(every_primitive_is_a_step),
                                     cmocka_unit_test(options_out_of_range),
                                     cmocka_unit_test(builds_an_object_and_a_header),
                                     cmocka_unit_test(runs_in_this_process),
                                     cmocka_unit_test(indices_from_data_stay_inside),
                                     cmocka_unit_test(constants_are_packed),
                                     cmocka_unit_test(outputs_take_the_memory_of_inputs),
                                     cmocka_unit_test(traces_know_what_is_copied),
                                     cmocka_unit_test(hints_are_obeyed),
                                     cmocka_unit_test(errors_behind_a_kernel),
                                     cmocka_unit_test(long_kernels_are_made_in_parts),
                                     cmocka_unit_test(lists_every_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
