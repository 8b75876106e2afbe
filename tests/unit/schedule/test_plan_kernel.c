/* Choosing schedules: that everybody who asks is told the same, what a chooser may propose, and that caches keep apart
 * what different choosers chose. */
#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/driver.h"
#include "schedule/internal.h"
#include "tenon/te.h"
#include "unit/compile_onnx.h"
#include "unit/schedule_check.h"

/* ---- everybody sees the same ------------------------------------------------------------------------------------- */

/* y = exp(x) * x: the product reads what the exponentials' kernel writes. */
static pb exponentials(void) {
  pb graph = {0};
  onnx_node(&graph, "Exp", "exp", "x", "e");
  onnx_node(&graph, "MatMul", "product", "e,x", "y");
  onnx_input(&graph, "x", ONNX_FLOAT, "1024,1024");
  onnx_output(&graph, "y", ONNX_FLOAT, "1024,1024");
  return onnx_model(17, &graph);
}

static void explained_is_what_is_compiled(void **state) {
  tn_compile_options options = plain();
  options.target = "x86-64-v3";
  pb model = exponentials();
  char *stage;
  size_t size;
  check_ok(tn_compile_emit("m.onnx", model.data, model.size, &options, "schedule", &stage, &size));
  tn_explanation *explanation;
  check_ok(tn_explain("m.onnx", model.data, model.size, &options, &explanation));
  const tn_kernel_plan *const *plans;
  int count = tn_explanation_kernels(explanation, &plans);
  assert_int_equal(count, 2);
  for (int i = 0; i < count; i++) {
    char line[512];
    snprintf(line, sizeof line, "# %s\n# %s: %s; %.0f cycles, bound by %s\n", plans[i]->kernel, plans[i]->rule,
             plans[i]->decisions, plans[i]->cycles, plans[i]->bound);
    if (strstr(stage, line) == NULL) fail_msg("explained:\n%sbut compiled:\n%s", line, stage);
  }
  assert_non_null(strstr(stage, "stream 0")); /* which is no good where nothing reads the result */
  tn_executable *exe = compile_one(model, &options);
  size_t kept;
  const char *traces = tn_executable_text(exe, "schedules", &kept);
  for (const char *line = strtok(stage, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    bool prediction = line[0] == '#' && strstr(line, " cycles, bound by ") != NULL;
    if (!prediction && memmem(traces, kept, line, strlen(line)) == NULL) fail_msg("not kept: %s", line);
  }
  tn_executable_release(exe);
  free(stage);
  tn_explanation_release(explanation);
}

static void explained_declarations_heed_all_options(void **state) {
  static const char text[] =
      "kernel gemm(A: f32[192, 512], B: f32[512, 512]) -> C: f32[192, 512] {\n"
      "  C[i, j] = sum(k) A[i, k] * B[k, j]\n"
      "}\n";
  const char *constants[] = {"B"}, *unknown[] = {"Q"};
  tn_te *te;
  check_ok(tn_te_parse("t.te", text, strlen(text), NULL, NULL, 0, NULL, &te));
  tn_schedule_options options = {.size = sizeof options, .threads = 1};
  tn_explanation *explanation;
  const tn_kernel_plan *const *plans;
  double cycles[2];
  for (int packed = 0; packed < 2; packed++) {
    options.constants = constants;
    options.constant_count = packed;
    check_ok(tn_te_explain(&te, 1, "x86-64-v3", &options, &explanation));
    assert_int_equal(tn_explanation_kernels(explanation, &plans), 1);
    cycles[packed] = plans[0]->cycles;
    tn_explanation_release(explanation);
  }
  assert_true(cycles[1] < cycles[0]);
  options.constants = unknown;
  check_fails(tn_te_explain(&te, 1, "x86-64-v3", &options, &explanation), TN_INVALID_ARGUMENT,
              "te gemm: constant Q: there is no such input");
  options.constant_count = 0;
  options.plain = true;
  check_ok(tn_te_explain(&te, 1, "x86-64-v3", &options, &explanation));
  assert_int_equal(tn_explanation_kernels(explanation, &plans), 1);
  assert_string_equal(plans[0]->rule, "plain nest");
  tn_explanation_release(explanation);
  tn_te_release(te);
}

/* The next best is the cheapest of all other points, when there are few enough to weigh each. */
static void weigh_all_others(tn__ir *ir, const void *arg) {
  const declaration *make = arg;
  tn__target target = test_target("x86-64-v4");
  tn__plan_unit unit = tn__rule_plan_unit_of((*make)(ir), &target, &(tn__schedule_options){.search_space = 1000000});
  const tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
  double least = INFINITY;
  for (int64_t i = 0; i < tn__sketch_points(plan->sketch); i++) {
    int64_t values[TN__MAX_DECISIONS];
    bool same = true, ordered = true;
    tn__sketch_at(plan->sketch, i, values);
    for (int d = 0; d < plan->sketch->decision_count; d++) {
      same &= values[d] == plan->values[d];
      ordered &= values[d] == plan->values[d] || !plan->sketch->decisions[d].orders;
    }
    if (!same && ordered) least = fmin(least, tn__sketch_cost(plan->sketch, values, NULL));
  }
  assert_true(isfinite(least));
  tn__plan_rival rivals[TN__PLAN_RIVALS];
  const int count = tn__plan_rivals(plan, rivals);
  assert_true(count > 0);
  assert_ptr_equal(rivals[0].sketch, plan->sketch);
  assert_memory_not_equal(rivals[0].values, plan->values, sizeof plan->values);
  assert_true(rivals[0].cost.cycles == least && least >= plan->cost.cycles);
  if (count == 2) assert_string_not_equal(tn__sketch_name(rivals[1].sketch), plan->rule);
}

static void the_next_best_is_the_cheapest_other(void **state) {
  static const declaration all[] = {rows, stencil, transposed_product, wide_product};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) check_ok(in_context(weigh_all_others, &all[i]));
}

static void explained_is_what_was_not_taken(void **state) {
  static const char text[] =
      "kernel sums(A: f32[192, 512]) -> S: f32[192] {\n"
      "  S[i] = sum(k) A[i, k] * A[i, k]\n"
      "}\n";
  tn_te *te;
  check_ok(tn_te_parse("t.te", text, strlen(text), NULL, NULL, 0, NULL, &te));
  tn_schedule_options options = {.size = sizeof options, .threads = 1};
  tn_explanation *explanation;
  const tn_kernel_plan *const *plans;
  check_ok(tn_te_explain(&te, 1, "x86-64-v3", &options, &explanation));
  assert_int_equal(tn_explanation_kernels(explanation, &plans), 1);
  assert_int_equal(plans[0]->rival_count, 2);
  const tn_plan_rival *same = &plans[0]->rivals[0], *other = &plans[0]->rivals[1];
  assert_string_equal(same->rule, plans[0]->rule);
  assert_non_null(strstr(same->decisions, " (not "));
  assert_true(same->cycles >= plans[0]->cycles);
  assert_string_not_equal(other->rule, plans[0]->rule);
  assert_null(strstr(other->decisions, " (not "));
  char ratio[64];
  snprintf(ratio, sizeof ratio, "%.2f times the cycles", other->cycles / plans[0]->cycles);
  assert_memory_equal(other->why, ratio, strlen(ratio));
  tn_explanation_release(explanation);
  tn_te_release(te);
}

/* ---- choosers ---------------------------------------------------------------------------------------------------- */

/* From point number `first` of the first rule's sketch on, the first that can be. */
typedef struct numbered {
  int64_t first;
  int *parts; /* counts the parts of sequences that it was asked for; NULL: nobody counts */
} numbered;

static bool propose_numbered(const tn__chooser *chooser, const tn__plan_unit *unit, const tn__candidate *refused,
                             tn__candidate *out) {
  const numbered *n = chooser->data;
  if (n->parts != NULL) *n->parts += unit->part != NULL;
  const tn__sketch *k = refused != NULL ? refused->sketch : tn__plan_sketch(unit, chooser);
  int64_t index = refused != NULL ? refused->weighed : n->first;
  if (k == NULL) return false;
  out->sketch = k;
  do tn__sketch_at(k, index++ % tn__sketch_points(k), out->values);
  while (!isfinite(tn__sketch_cost(k, out->values, NULL)));
  out->weighed = index;
  return true;
}

static void hash_numbered(const tn__chooser *chooser, const tn__plan_unit *unit, tn__sha256 *hash) {
  const numbered *n = chooser->data;
  tn__sha256_update_u64(hash, (uint64_t)n->first);
}

static tn__chooser chooser_of(const numbered *n) {
  return (tn__chooser){.name = "numbered", .propose = propose_numbered, .hash = hash_numbered, .data = n};
}

static void choose_another(tn__ir *ir, const void *arg) {
  const declaration *make = arg;
  tn__target target = test_target("x86-64-v4");
  tn__plan_unit unit = tn__rule_plan_unit_of((*make)(ir), &target, NULL);
  const numbered n = {.first = 5};
  const tn__chooser other = chooser_of(&n);
  const tn__plan *usual = tn__plan_kernel(&unit, &tn__chooser_static), *plan = tn__plan_kernel(&unit, &other);
  assert_string_not_equal(schedule_text(plan->schedule, false), schedule_text(usual->schedule, false));
  assert_string_equal(plan->rule, usual->rule);
  assert_true(plan->cost.cycles >= usual->cost.cycles);
  check_same(plan->schedule);
}

static void a_chooser_may_prefer_another_point(void **state) {
  static const declaration all[] = {wide_product, convolution, rows, transposed_product, attention};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) check_ok(in_context(choose_another, &all[i]));
}

static void choose_parts(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__plan_unit unit = tn__rule_plan_unit_of(network(ir), &target, NULL);
  int parts = 0;
  const numbered n = {.first = 1, .parts = &parts};
  const tn__chooser other = chooser_of(&n);
  const tn__plan *usual = tn__plan_kernel(&unit, &tn__chooser_static), *plan = tn__plan_kernel(&unit, &other);
  assert_string_equal(usual->rule, "sequence");
  assert_true(parts > 1);
  assert_string_not_equal(schedule_text(plan->schedule, false), schedule_text(usual->schedule, false));
  check_same(plan->schedule);
}

static void a_chooser_is_asked_for_the_parts_of_a_sequence(void **state) { check_ok(in_context(choose_parts, NULL)); }

/* Proposes what is no choice; then what the cost function likes, if it may. */
static bool propose_nonsense(const tn__chooser *chooser, const tn__plan_unit *unit, const tn__candidate *refused,
                             tn__candidate *out) {
  const bool *stubborn = chooser->data;
  if (refused != NULL && !*stubborn) return tn__chooser_static.propose(&tn__chooser_static, unit, NULL, out);
  out->sketch = tn__plan_sketch(unit, chooser);
  tn__sketch_at(out->sketch, 0, out->values);
  out->values[0] = 77;
  return true;
}

static void choose_nonsense(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__plan_unit unit = tn__rule_plan_unit_of(wide_product(ir), &target, NULL);
  const bool stubborn = arg != NULL;
  const tn__chooser other = {.name = "nonsense", .propose = propose_nonsense, .data = &stubborn};
  const tn__plan *usual = tn__plan_kernel(&unit, &tn__chooser_static), *plan = tn__plan_kernel(&unit, &other);
  assert_int_equal(usual->refused, 0);
  assert_int_equal(plan->refused, 1);
  assert_string_equal(schedule_text(plan->schedule, false), schedule_text(usual->schedule, false));
}

static void what_is_no_choice_is_refused(void **state) {
  check_ok(in_context(choose_nonsense, NULL));
  check_fails(in_context(choose_nonsense, ""), TN_INTERNAL,
              "chooser \"nonsense\" has proposed 1000 schedules that cannot be");
}

/* ---- recorded traces --------------------------------------------------------------------------------------------- */

static void replay_recorded(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__plan_unit unit = tn__rule_plan_unit_of(wide_product(ir), &target, NULL);
  tn__plan_unit foreign = tn__rule_plan_unit_of(rows(ir), &target, NULL);
  const numbered n = {.first = 5};
  const tn__chooser other = chooser_of(&n);
  const char *trace = schedule_text(tn__plan_kernel(&unit, &other)->schedule, false);
  const char *usual = schedule_text(tn__plan_kernel(&unit, &tn__chooser_static)->schedule, false);
  const char *foreign_trace = schedule_text(tn__plan_kernel(&foreign, &tn__chooser_static)->schedule, false);

  const tn__recorded both = {.traces = (const char *const[]){foreign_trace, trace}, .count = 2};
  tn__chooser recorded = tn__chooser_recorded(&both);
  const tn__plan *plan = tn__plan_kernel(&unit, &recorded);
  assert_string_equal(plan->rule, "recorded trace");
  assert_null(plan->sketch);
  assert_string_equal(schedule_text(plan->schedule, false), trace);
  check_same(plan->schedule);

  /* What is not there, or cannot be any more, is chosen otherwise. */
  char head[40];
  snprintf(head, sizeof head, "%.24s", trace);
  const char *stale = tn__arena_printf(tn__ir_arena(ir), "%s\nvectorize \"nothing\"\nend\n", head);
  const tn__recorded missing = {.traces = &foreign_trace, .count = 1, .otherwise = &tn__chooser_static};
  const tn__recorded old = {.traces = &stale, .count = 1, .otherwise = &tn__chooser_static};
  const tn__recorded none = {.otherwise = &tn__chooser_static};
  const tn__recorded *others[] = {&missing, &old, &none};
  for (int i = 0; i < 3; i++) {
    recorded = tn__chooser_recorded(others[i]);
    plan = tn__plan_kernel(&unit, &recorded);
    assert_int_equal(plan->refused, others[i] == &old);
    assert_string_equal(schedule_text(plan->schedule, false), usual);
  }
  const tn__chooser inner = tn__chooser_recorded(&both);
  const tn__recorded newer = {.traces = &stale, .count = 1, .otherwise = &inner};
  recorded = tn__chooser_recorded(&newer);
  assert_string_equal(schedule_text(tn__plan_kernel(&unit, &recorded)->schedule, false), trace);
  const tn__recorded strict = {.traces = &stale, .count = 1};
  recorded = tn__chooser_recorded(&strict);
  tn__plan_kernel(&unit, &recorded);
}

static void recorded_traces_are_taken(void **state) {
  check_fails(in_context(replay_recorded, NULL), TN_INVALID_ARGUMENT,
              "trace:2: schedule of product: vectorize: there is no loop \"nothing\"");
}

/* A recorded schedule whose blocks share 32 bytes. */
static void replay_shared(tn__ir *ir, const void *arg) {
  const tn__target target = test_target("x86-64-v4");
  const tn__te *te = product(ir);
  const char *trace = schedule_text(tn__schedule_of(te, &target), false);
  trace = tn__arena_printf(tn__ir_arena(ir),
                           "%.*stile \"C.i0\" \"C.i1\" 2 4\nbind \"C.i0.0\" \"block.x\"\n"
                           "reverse_compute_at \"D\" \"C.i1.0\"\nset_scope \"C\" 0 4\nend\n",
                           (int)(strstr(trace, "end\n") - trace), trace);
  const tn__recorded recorded = {.traces = &trace, .count = 1};
  const tn__chooser chooser = tn__chooser_recorded(&recorded);
  const tn__schedule_options options = {.threads = 1, .shared_memory = *(const int *)arg};
  tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &options);
  tn__plan_kernel(&unit, &chooser);
}

static void shared_memory_is_limited(void **state) {
  check_ok(in_context(replay_shared, &(int){0}));
  check_ok(in_context(replay_shared, &(int){32}));
  check_fails(in_context(replay_shared, &(int){31}), TN_INVALID_ARGUMENT,
              "schedule of product: blocks of the nest \"C.i0.0\" need 32 bytes of shared memory, and may have 31");
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static tn__digest key_of(const tn__plan_unit *unit, const tn__chooser *chooser) {
  tn__sha256 h;
  tn__sha256_init(&h);
  const tn__digest text = tn__plan_text(unit);
  tn__plan_hash(unit, chooser, &text, &h);
  return tn__sha256_final(&h);
}

static void tell_apart(tn__ir *ir, const void *arg) {
  const tn__target v4 = test_target("x86-64-v4"), v3 = test_target("x86-64-v3");
  const tn__te *te = wide_product(ir), *packed = packed_product(ir);
  const char *mine = schedule_text(tn__schedule_of(te, &v4), false);
  const char *foreign = schedule_text(tn__schedule_of(packed, &v4), false);
  const tn__schedule_options usual = {.threads = 2};
  const tn__schedule_options options[] = {
      {.threads = 1},
      {.threads = 2, .vector_bytes = 16},
      {.threads = 2, .cache_bytes = 300 << 10},
      {.threads = 2, .registers = 8},
      {.threads = 2, .shared_memory = 1},
      {.threads = 2, .results_read = true},
      {.threads = 2, .search_space = 100},
  };
  enum { OPTIONS = sizeof(options) / sizeof(options[0]) };
  const numbered numbers[] = {{.first = 1}, {.first = 2}};
  const tn__recorded record = {.traces = &mine, .count = 1, .otherwise = &tn__chooser_static};
  const tn__recorded more = {
      .traces = (const char *const[]){foreign, mine}, .count = 2, .otherwise = &tn__chooser_static};
  const tn__recorded none = {.otherwise = &tn__chooser_static}, plainly = {.otherwise = &tn__chooser_plain};
  const tn__chooser choosers[] = {
      tn__chooser_plain,           chooser_of(&numbers[0]),       chooser_of(&numbers[1]),
      tn__chooser_recorded(&none), tn__chooser_recorded(&record), tn__chooser_recorded(&plainly)};
  enum { CHOOSERS = sizeof(choosers) / sizeof(choosers[0]) };
  tn__digest keys[3 + OPTIONS + CHOOSERS];
  int count = 0;
  tn__plan_unit unit = tn__rule_plan_unit_of(te, &v4, &usual);
  keys[count++] = key_of(&unit, &tn__chooser_static);
  for (int i = 0; i < CHOOSERS; i++) keys[count++] = key_of(&unit, &choosers[i]);
  for (int i = 0; i < OPTIONS; i++) {
    tn__plan_unit other = tn__rule_plan_unit_of(te, &v4, &options[i]);
    keys[count++] = key_of(&other, &tn__chooser_static);
  }
  unit = tn__rule_plan_unit_of(packed, &v4, &usual);
  keys[count++] = key_of(&unit, &tn__chooser_static);
  unit = tn__rule_plan_unit_of(te, &v3, &usual);
  keys[count++] = key_of(&unit, &tn__chooser_static);
  for (int i = 0; i < count; i++)
    for (int j = 0; j < i; j++)
      if (memcmp(&keys[i], &keys[j], sizeof keys[i]) == 0) fail_msg("keys %d and %d are equal", j, i);
  /* A record of another kernel is not consulted, so this kernel's entry stays good; a model's may hold both. */
  const tn__chooser with_more = tn__chooser_recorded(&more);
  unit = tn__rule_plan_unit_of(te, &v4, &usual);
  tn__digest again = key_of(&unit, &with_more);
  assert_memory_equal(&again, &keys[5], sizeof again);
  tn__sha256 h[2];
  tn__digest all[2];
  for (int i = 0; i < 2; i++) {
    tn__sha256_init(&h[i]);
    tn__chooser_hash(i ? &with_more : &choosers[4], NULL, &h[i]);
    all[i] = tn__sha256_final(&h[i]);
  }
  assert_memory_not_equal(&all[0], &all[1], sizeof all[0]);
}

static void keys_have_all_that_the_choice_depends_on(void **state) { check_ok(in_context(tell_apart, NULL)); }

static void remove_folder(const char *path) {
  DIR *directory = opendir(path);
  assert_non_null(directory);
  for (const struct dirent *e = readdir(directory); e; e = readdir(directory)) {
    struct stat info;
    assert_int_equal(fstatat(dirfd(directory), e->d_name, &info, 0), 0);
    if (S_ISREG(info.st_mode)) assert_int_equal(unlinkat(dirfd(directory), e->d_name, 0), 0);
  }
  closedir(directory);
  assert_int_equal(rmdir(path), 0);
}

static pb small_product(void) {
  pb graph = {0};
  onnx_node(&graph, "MatMul", "product", "x,w", "p");
  onnx_node(&graph, "Relu", "relu", "p", "y");
  onnx_input(&graph, "x", ONNX_FLOAT, "30,24");
  onnx_input(&graph, "w", ONNX_FLOAT, "24,48");
  onnx_output(&graph, "y", ONNX_FLOAT, "30,48");
  return onnx_model(17, &graph);
}

/* What the kernels' traces are, and what the model computes. */
typedef struct outcome {
  bool from_cache;
  char traces[4096];
  float y[30 * 48];
} outcome;

static outcome compile_by(const tn__chooser *chooser, const char *folder) {
  outcome o = {0};
  float x[30 * 24], w[24 * 48];
  for (int i = 0; i < 30 * 24; i++) x[i] = (float)(i % 7 - 3);
  for (int i = 0; i < 24 * 48; i++) w[i] = (float)(i % 5 - 2);
  pb model = small_product();
  tn_compile_options options = plain();
  options.no_cache = folder == NULL;
  options.cache_directory = folder;
  tn_module *module;
  tn_model_function function = {.name = "main", .path = "m.onnx", .data = model.data, .data_size = model.size};
  check_ok(tn__driver_compile_by(chooser, &function, 1, &options, &module));
  pb_free(&model);
  o.from_cache = tn_module_from_cache(module);
  tn_executable *exe = load_module(module);
  size_t size;
  const char *traces = tn_executable_text(exe, "schedules", &size);
  const char *start = memchr(traces, '\n', size); /* the kernel's name has its key in it */
  assert_non_null(start);
  snprintf(o.traces, sizeof o.traces, "%.*s", (int)(size - (size_t)(start - traces)), start);
  tn_session *session = open_session(exe, NULL);
  DLTensor in[] = {tensor_of(TN_F32, 2, (int64_t[]){30, 24}, x), tensor_of(TN_F32, 2, (int64_t[]){24, 48}, w)};
  DLTensor out = tensor_of(TN_F32, 2, (int64_t[]){30, 48}, o.y);
  check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, &out, 1));
  tn_session_release(session);
  tn_executable_release(exe);
  return o;
}

static void choosers_share_no_cache_entry(void **state) {
  char folder[] = "/tmp/tenon-choosers-XXXXXX";
  assert_non_null(mkdtemp(folder));
  const numbered one = {.first = 1}, two = {.first = 1000};
  const tn__chooser choosers[] = {tn__chooser_static, chooser_of(&one), chooser_of(&two)};
  outcome alone[3];
  for (int i = 0; i < 3; i++) {
    alone[i] = compile_by(&choosers[i], NULL);
    assert_memory_equal(alone[i].y, alone[0].y, sizeof alone[0].y);
    for (int j = 0; j < i; j++) assert_string_not_equal(alone[i].traces, alone[j].traces);
  }
  for (int again = 0; again < 2; again++)
    for (int i = 0; i < 3; i++) {
      const outcome cached = compile_by(&choosers[i], folder);
      assert_int_equal(cached.from_cache, again);
      assert_string_equal(cached.traces, alone[i].traces);
      assert_memory_equal(cached.y, alone[0].y, sizeof alone[0].y);
    }
  remove_folder(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(explained_is_what_is_compiled),
      cmocka_unit_test(explained_declarations_heed_all_options),
      cmocka_unit_test(the_next_best_is_the_cheapest_other),
      cmocka_unit_test(explained_is_what_was_not_taken),
      cmocka_unit_test(a_chooser_may_prefer_another_point),
      cmocka_unit_test(a_chooser_is_asked_for_the_parts_of_a_sequence),
      cmocka_unit_test(what_is_no_choice_is_refused),
      cmocka_unit_test(recorded_traces_are_taken),
      cmocka_unit_test(shared_memory_is_limited),
      cmocka_unit_test(keys_have_all_that_the_choice_depends_on),
      cmocka_unit_test(choosers_share_no_cache_entry),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
