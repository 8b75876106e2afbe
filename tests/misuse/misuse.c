/* Calls the public functions of libtenon_runtime and libtenon with NULL and with nonsensical arguments. */
#include "misuse/misuse.h"

#include <stdarg.h>

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static _Alignas(64) float numbers_of_y[12];
static _Alignas(64) char memory[64];
static int64_t one[1] = {1};
static DLTensor y = {numbers_of_y, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape_of_x, NULL, 0};
static const tn_thread_pool_options one_thread = {.size = sizeof one_thread, .threads = 1};

static tn_executable *executable(void) {
  tn_executable *e;
  need(tn_executable_load(tnx(), NULL, &e));
  return e;
}

static tn_session *session(void) {
  tn_session *s;
  const tn_session_options options = {.size = sizeof options, .threads = 1};
  need(tn_session_create(executable(), &options, &s));
  return s;
}

static tn_session *bound(void) {
  tn_session *s = session();
  need(tn_session_set_input(s, NULL, "x", &x, TN_BIND_PERSISTENT));
  return s;
}

static tn_session *invoked(void) {
  tn_session *s = bound();
  need(tn_session_invoke(s, NULL));
  return s;
}

static tn_profile *profile(void) {
  tn_profile *p;
  tn_session *s = bound();
  need(tn_session_start_profile(s, &p));
  need(tn_session_invoke(s, NULL));
  return p;
}

static tn_module *module(void) {
  tn_module *m;
  need(tn_compile(model(), NULL, 0, &quick, &m));
  return m;
}

static tn_tensor *tensor(void) {
  tn_tensor *t;
  need(tn_tensor_create(TN_F32, 2, shape_of_x, NULL, &t));
  return t;
}

static tn_thread_pool *pool(void) {
  tn_thread_pool *p;
  need(tn_thread_pool_create(&one_thread, &p));
  return p;
}

static tn_explanation *explanation(void) {
  tn_explanation *e;
  need(tn_explain(model(), NULL, 0, &quick, &e));
  return e;
}

static tn_te *te(void) {
  tn_te *t;
  need(tn_te_parse("t.te", text, strlen(text), NULL, NULL, 0, NULL, &t));
  return t;
}

static tn_schedule *schedule(void) {
  tn_schedule *s;
  const tn_schedule_options options = {.size = sizeof options, .no_measure = true};
  need(tn_schedule_create(te(), "x86-64-v2", &options, &s));
  return s;
}

static const char *trace(void) {
  char *t;
  need(tn_schedule_trace(schedule(), &t));
  return t;
}

static tn_build *build(void) {
  tn_build *b;
  tn_schedule *s = schedule();
  need(tn_te_build(&s, 1, NULL, &b));
  return b;
}

static tn_status *a_status(void) { return tn_status_create(TN_IO, "of a test"); }
static const char *npy(void) { return place("x.npy"); }

static char *file_bytes;
static size_t file_size;
static size_t byte_count(void) {
  FILE *f = fopen(tnx(), "rb");
  file_bytes = malloc(1 << 20);
  file_size = f == NULL ? 0 : fread(file_bytes, 1, 1 << 20, f);
  return file_size;
}
static const char *bytes(void) {
  byte_count();
  return file_bytes;
}

/* A single declaration for the arguments of all calls. */
static tn_te *building(void) {
  static tn_te *t;
  if (t == NULL) need(tn_te_create("k", NULL, &t));
  return t;
}
static tn_te_expr *number(void) { return tn_te_int(building(), TN_I64, 4); }
static tn_te_expr *const *numbers(void) {
  static tn_te_expr *list[2];
  for (int i = 0; i < 2; i++) list[i] = number();
  return list;
}
static tn_te_expr *const *axes(void) {
  static tn_te_expr *list[2];
  for (int i = 0; i < 2 && list[i] == NULL; i++) list[i] = tn_te_axis(building(), i == 0 ? "i" : "j", number());
  return list;
}
static tn_te_expr *const *over(void) { return axes() + 1; }
static tn_te_tensor *input(void) { return tn_te_input(building(), "A", TN_F32, 2, numbers()); }
static const tn_te_combiner *combiner(void) {
  static tn_te_combiner c = {.count = 1};
  c.before[0] = tn_te_variable(building(), "a", TN_I64), c.after[0] = tn_te_variable(building(), "b", TN_I64);
  c.results[0] = number(), c.identities[0] = number();
  return &c;
}

static tn_schedule *schedules[1];
static tn_te *tes[1];
static tn_te_tensor *outs[4];
static const char *const two_names[2] = {"P", "Q"};
static const char *const x_name[1] = {"x"}, *const y_name[1] = {"y"};
static const tn_string strings[1] = {{"a", 1}};
static const tn_model_function function = {"main", "g.tng", graph, sizeof graph - 1};
static const tn_machine_limits limits = {.size = sizeof limits, .threads = 1, .flops_per_second = 1};
static const int64_t *const shapes[1] = {shape_of_x};
static int64_t made_shapes[1][TN_MAX_RANK];
static void on_profile(void *user, const char *kernel, uint64_t start, uint64_t end) {}

static tn_status *create_v(const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_IO, format, args);
  va_end(args);
  return status;
}

static tn_status *hand_tn_status_create_v(int null) {
  tn_status_free(create_v(NULL));
  tn_status_free(create_v("%d", 1));
  return NULL;
}

#include "calls.inc"

/* ---- misuse ------------------------------------------------------------------------------------------------------ */

#define WITH(type, name, ...) (&(const type){.size = sizeof(type), __VA_ARGS__})

static void misuse_loading(void) {
  tn_executable *e;
  static const char *const no_text[1] = {NULL};
  REFUSES(tn_executable_load("", NULL, &e), "cannot open");
  REFUSES(tn_executable_load("/", NULL, &e), "/");
  REFUSES(tn_executable_load_memory("abc", 3, NULL, &e), "not a Tenon executable");
  REFUSES(tn_executable_load_memory(NULL, 1000, NULL, &e), "NULL");
  REFUSES(tn_executable_load_memory(NULL, 0, NULL, &e), "not a Tenon executable");
  REFUSES(tn_executable_load(tnx(), WITH(tn_load_options, l, .device_map_count = 2), &e), "device_map");
  REFUSES(tn_executable_load(tnx(), WITH(tn_load_options, l, .device_map_count = -1), &e), "device_map_count");
  REFUSES(tn_executable_load(tnx(), WITH(tn_load_options, l, .device_map = no_text, .device_map_count = 1), &e), "map");
  REFUSES(tn_executable_load(tnx(), WITH(tn_load_options, l, .memory = no_text, .memory_count = 1), &e), "memory");
  REFUSES(tn_executable_load(tnx(), WITH(tn_load_options, l, .memory_count = -1), &e), "memory_count");
  REFUSES(tn_executable_load(tnx(), WITH(tn_load_options, l, .key = "a"), &e), "key_size");
  REFUSES(tn_executable_load(tnx(), WITH(tn_load_options, l, .key_size = 3), &e), "key");
  REFUSES(tn_executable_load(tnx(), WITH(tn_load_options, l, .key = "abc", .key_size = (size_t)-1), &e), "not signed");
  REFUSES(tn_executable_load(tnx(), &(tn_load_options){.size = 0, .verify_constants = true}, &e), "size is 0");
  REFUSES(tn_executable_load(tnx(), &(tn_load_options){.size = 3}, &e), "size is 3");
  REFUSES(tn_executable_verify(place("none.tnx"), NULL), "cannot open");
  REFUSES(tn_executable_strip(tnx(), "nope", NULL, place("o.tnx")), "nope");
  HOLDS(tn_executable_function_name(executable(), -1) == NULL);
  HOLDS(tn_executable_function_name(executable(), 99) == NULL);
  HOLDS(tn_executable_input_count(executable(), "nope") == -1);
  HOLDS(tn_executable_input(executable(), NULL, -1) == NULL);
  HOLDS(tn_executable_output(executable(), "nope", 0) == NULL);
  HOLDS(tn_executable_output_alias(executable(), NULL, 99) == -1);
  HOLDS(tn_executable_input_index(executable(), NULL, "nope") == -1);
  HOLDS(tn_executable_kernel(executable(), 1 << 30) == NULL);
  HOLDS(tn_executable_kernel(executable(), -1) == NULL);
}

static void misuse_sessions(void) {
  tn_session *s;
  DLTensor out, bad;
  static const tn_memory_setting nameless = {NULL, 5};
  static const char *const twice[2] = {"x", "x"}, *const none[2] = {NULL, "y"};
  DLTensor two[2] = {x, x};
  REFUSES(tn_session_create(executable(), &(tn_session_options){.size = 3}, &s), "size is 3");
  REFUSES(tn_session_create(executable(), WITH(tn_session_options, o, .threads = -5), &s), "threads");
  REFUSES(tn_session_create(executable(), WITH(tn_session_options, o, .threads = 1000000), &s), "threads");
  REFUSES(tn_session_create(executable(), WITH(tn_session_options, o, .memory_count = 3), &s), "memory");
  REFUSES(tn_session_create(executable(), WITH(tn_session_options, o, .memory_count = -3), &s), "memory_count");
  REFUSES(tn_session_create(executable(), WITH(tn_session_options, o, .memory = &nameless, .memory_count = 1), &s),
          "memory");
  REFUSES(tn_session_set_input(session(), NULL, "x", &x, 99), "binding");
  REFUSES(tn_session_set_input(session(), NULL, "x", &x, -1), "binding");
  REFUSES(tn_session_set_input_at(session(), NULL, -1, &x, TN_BIND_NEXT), "there is no number -1");
  REFUSES(tn_session_set_input_at(session(), NULL, 1 << 30, &x, TN_BIND_NEXT), "there is no number");
  REFUSES(tn_session_set_output_at(session(), NULL, 99, &y, TN_BIND_NEXT), "there is no number 99");
  REFUSES(tn_session_set_inputs(session(), NULL, NULL, &x, -1, TN_BIND_NEXT), "-1");
  REFUSES(tn_session_set_inputs(session(), NULL, NULL, &x, 0, TN_BIND_NEXT), "takes 1 inputs");
  REFUSES(tn_session_set_inputs(session(), NULL, none, &x, 1, TN_BIND_NEXT), "NULL");
  REFUSES(tn_session_set_inputs(session(), NULL, twice, two, 2, TN_BIND_NEXT), "twice");
  REFUSES(tn_session_set_output_list(session(), NULL, 0, (void *)1, 10), "output \"y\"");
  REFUSES(tn_session_set_input_list(session(), NULL, 0, &x, -7), "neither a sequence");
  REFUSES(tn_session_invoke(session(), ""), "has no function \"\"");
  REFUSES(tn_session_invoke(session(), NULL), "is not bound");
  REFUSES(tn_session_wait(session()), "nothing to wait for");
  REFUSES(tn_session_invoke_with_outputs(session(), NULL, &x, 1, NULL, 2), "NULL");
  REFUSES(tn_session_invoke_with_outputs(session(), NULL, &x, -1, NULL, 0), "-1");
  REFUSES(tn_session_invoke_with_outputs(session(), NULL, &x, 1, &y, -1), "-1");
  REFUSES(tn_session_invoke_stateful(session(), NULL, &x, 1 << 30), "takes 1 inputs");
  REFUSES(tn_session_invoke_stateful(session(), NULL, NULL, 0), "takes 1 inputs");
  REFUSES(tn_session_get_output(session(), NULL, 0, &out), "has no results");
  REFUSES(tn_session_get_output(invoked(), NULL, 1, &out), "there is no number 1");
  REFUSES((s = session(), need(tn_session_set_input(s, NULL, "x", &x, TN_BIND_PERSISTENT)),
           need(tn_session_start(s, NULL)), tn_session_invoke(s, NULL)),
          "in flight");
  bad = x, bad.ndim = -1;
  REFUSES(tn_session_set_input(session(), NULL, "x", &bad, TN_BIND_NEXT), "dimensions");
  bad = x, bad.shape = NULL;
  REFUSES(tn_session_set_input(session(), NULL, "x", &bad, TN_BIND_NEXT), "NULL");
  bad = x, bad.data = NULL;
  REFUSES(tn_session_set_input(session(), NULL, "x", &bad, TN_BIND_NEXT), "no data");
  bad = x, bad.dtype.lanes = 3;
  REFUSES(tn_session_set_input(session(), NULL, "x", &bad, TN_BIND_NEXT), "lanes");
}

static void misuse_tensors(void) {
  static int64_t big[2] = {(int64_t)1 << 40, (int64_t)1 << 40}, negative[2] = {-1, 4};
  static const int processors[2] = {-1, 999999};
  tn_tensor *t;
  tn_thread_pool *p;
  DLManagedTensorVersioned *d;
  tn_machine_limits made = {.size = sizeof made};
  DLTensor bad = x;
  REFUSES(tn_tensor_create(TN_F32, -1, shape_of_x, NULL, &t), "rank -1");
  REFUSES(tn_tensor_create(TN_F32, 17, shape_of_x, NULL, &t), "rank 17");
  REFUSES(tn_tensor_create(TN_F32, 2, big, NULL, &t), "overflows");
  REFUSES(tn_tensor_create(TN_F32, 2, negative, NULL, &t), "negative");
  REFUSES(tn_tensor_create((tn_dtype)99999, 2, shape_of_x, NULL, &t), "unknown type");
  REFUSES(tn_tensor_read_npy("/", NULL, &t), "/");
  REFUSES(tn_tensor_read_npy_memory(NULL, "abc", 3, NULL, &t), "not a .npy");
  bad.ndim = -1;
  REFUSES(tn_tensor_write_npy(&bad, "/dev/null"), "/dev/null");
  bad = x, bad.dtype.lanes = 3;
  REFUSES(tn_tensor_write_npy(&bad, "/dev/null"), "/dev/null");
  bad = x, bad.device.device_type = kDLCUDA;
  REFUSES(tn_tensor_write_npy(&bad, "/dev/null"), "/dev/null");
  bad = x, bad.data = NULL;
  REFUSES(tn_tensor_write_npy(&bad, "/dev/null"), "/dev/null");
  bad = x, bad.shape = NULL;
  REFUSES(tn_tensor_write_npy(&bad, "/dev/null"), "/dev/null");
  REFUSES(tn_device_tensor_create(executable(), (DLDevice){kDLCUDA, 0}, TN_F32, 2, shape_of_x, &d), "runs on cpu:0");
  REFUSES(tn_device_tensor_create(executable(), (DLDevice){99, -1}, TN_F32, 2, shape_of_x, &d), "device");
  REFUSES(tn_device_tensor_create(executable(), (DLDevice){kDLCPU, 0}, TN_F32, -4, shape_of_x, &d), "rank");
  bad = x, bad.shape = NULL;
  REFUSES(tn_device_tensor_copy(executable(), &bad, &y), "no shape");
  REFUSES(tn_thread_pool_create(&(tn_thread_pool_options){.size = sizeof one_thread, .threads = -1}, &p), "threads");
  REFUSES(tn_thread_pool_create(&(tn_thread_pool_options){.size = sizeof one_thread, .threads = 100000}, &p),
          "threads");
  REFUSES(tn_thread_pool_create(&(tn_thread_pool_options){.size = sizeof one_thread, .processor_count = 5}, &p),
          "processors");
  REFUSES(tn_thread_pool_create(
              &(tn_thread_pool_options){.size = sizeof one_thread, .processors = processors, .processor_count = 2}, &p),
          "processor");
  REFUSES(tn_machine_measure(-1, &made), "threads");
  REFUSES(tn_machine_measure(1, &(tn_machine_limits){.size = 0}), "size is 0");
  HOLDS(tn_machine_roofline(&limits, -1, 1, NULL) < 0);
  HOLDS(tn_element_count(2, negative) == -1);
  HOLDS(tn_element_count(2, big) == -1);
}

static void misuse_compiling(void) {
  tn_module *m;
  char *made;
  size_t size;
  int count;
  tn_te *t;
  tn_te **list;
  tn_named_tensor *tensors;
  tn_check_result checked = {.size = sizeof checked};
  static const tn_model_function nothing = {NULL, NULL, NULL, 0},
                                 same[2] = {{"f", "g.tng", graph, 9}, {"f", "g.tng", graph, 9}};
  static const tn_on_device nowhere = {NULL, NULL, false, false};
  static const tn_dim_setting nameless = {NULL, -5}, negative = {"n", -5};
  static const tn_alias_setting no_alias = {NULL, NULL};
  static const char *const no_text[1] = {NULL};
  REFUSES(tn_compile("x", NULL, 0, NULL, &m), "x");
  REFUSES(tn_compile("x", "", 0, NULL, &m), "x");
  REFUSES(tn_compile("x", "abc", 3, NULL, &m), "x");
#define COMPILE(words, ...) \
  REFUSES(tn_compile("g.tng", graph, sizeof graph - 1, WITH(tn_compile_options, o, __VA_ARGS__), &m), words)
  COMPILE("dims", .dim_count = 3);
  COMPILE("dims", .dims = &nameless, .dim_count = 1);
  COMPILE("n", .dims = &negative, .dim_count = 1);
  COMPILE("place", .place_count = 1);
  COMPILE("place", .place = no_text, .place_count = 1);
  COMPILE("annotation_count", .annotation_count = -1);
  COMPILE("annotations", .annotations = &nowhere, .annotation_count = 1);
  COMPILE("aliases", .aliases = &no_alias, .alias_count = 1);
  COMPILE("strided", .strided = no_text, .strided_count = 1);
  COMPILE("memory", .memory = no_text, .memory_count = 1);
  COMPILE("run_threads", .run_threads = -5);
  COMPILE("compile_threads", .compile_threads = -5);
  COMPILE("nothing", .texts = "nothing,such");
  COMPILE("nope", .target = "nope");
  REFUSES(tn_compile("g.tng", graph, sizeof graph - 1, &(tn_compile_options){.size = 5}, &m), "size is 5");
  REFUSES(tn_compile_functions(NULL, 0, NULL, &m), "at least one function");
  REFUSES(tn_compile_functions(NULL, 3, NULL, &m), "NULL");
  REFUSES(tn_compile_functions(&nothing, -3, NULL, &m), "-3");
  REFUSES(tn_compile_functions(&nothing, 1, NULL, &m), "path");
  REFUSES(tn_compile_functions(same, 2, NULL, &m), "two functions are named");
  REFUSES(tn_compile_emit("g.tng", graph, sizeof graph - 1, NULL, "nope", &made, &size), "nope");
  REFUSES(tn_inspect("/", NULL, &made), "/");
  REFUSES(tn_tensors_read("/", NULL, &tensors, &count), "/");
  REFUSES(tn_check("g.tng", graph, sizeof graph - 1, &quick, &x, -1, NULL, &checked), "-1");
  REFUSES(tn_check("g.tng", graph, sizeof graph - 1, &quick, &x, 1, NULL, &(tn_check_result){.size = 0}), "size is 0");
  REFUSES(tn_check("g.tng", graph, sizeof graph - 1, &quick, NULL, 1, NULL, &checked), "NULL");
  REFUSES(tn_check("g.tng", graph, sizeof graph - 1, &quick, &x, 0, NULL, &checked), "");
  REFUSES(tn_module_sign(module(), "", 0), "key");
  REFUSES(tn_module_emit_c(module(), "9 no name", place("n.o"), place("n.h")), "9 no name");
  REFUSES(tn_module_save(module(), "/nowhere/at all"), "/nowhere");
  REFUSES(tn_te_parse("t.te", NULL, 5, NULL, NULL, 0, NULL, &t), "NULL");
  REFUSES(tn_te_parse("t.te", text, strlen(text), NULL, NULL, 3, NULL, &t), "NULL");
  REFUSES(tn_te_parse("t.te", text, strlen(text), NULL, NULL, -3, NULL, &t), "-3");
  REFUSES(tn_te_parse("t.te", text, strlen(text), NULL, &nameless, 1, NULL, &t), "name");
  REFUSES(tn_te_parse_file("/", NULL, NULL, 0, &list, &count), "/");
}

static void misuse_declarations(void) {
  tn_build *b;
  char *made;
  size_t size;
  static tn_schedule *const no_schedule[1] = {NULL};
  static tn_te *const no_te[1] = {NULL};
  tn_schedule *s;
  tn_explanation *e;
  tn_module *m;
  REFUSES(tn_te_build(NULL, 0, NULL, &b), "");
  REFUSES(tn_te_build(schedules, 0, NULL, &b), "");
  REFUSES(tn_te_build(no_schedule, 1, NULL, &b), "NULL");
  REFUSES(tn_te_module(no_schedule, 1, NULL, &m), "NULL");
  REFUSES(tn_te_module(schedules, 0, NULL, &m), "");
  REFUSES(tn_te_emit(no_schedule, 1, NULL, "te", &made, &size), "NULL");
  REFUSES(tn_te_emit(schedules, 1, NULL, "nope", &made, &size), "nope");
  REFUSES(tn_te_explain(no_te, 1, NULL, NULL, &e), "NULL");
  REFUSES(tn_schedule_create(te(), "nope", NULL, &s), "nope");
  REFUSES(tn_schedule_create(building(), "x86-64-v2", NULL, &s), "finish");
  REFUSES(tn_schedule_replay(te(), "x86-64-v2", "nonsense", NULL, &s), "trace");
  REFUSES(tn_schedule_create(te(), "x86-64-v2", WITH(tn_schedule_options, o, .constant_count = 2), &s), "constants");
  REFUSES(tn_schedule_create(te(), "x86-64-v2", WITH(tn_schedule_options, o, .threads = -1), &s), "threads");
  REFUSES((tn_te_axis(building(), NULL, number()), tn_te_finish(building())), "is no name");
  REFUSES((tn_te_axis(building(), "i", NULL), tn_te_finish(building())), "NULL");
  REFUSES((tn_te_op(building(), "+", 2, NULL), tn_te_finish(building())), "NULL");
  REFUSES((tn_te_compute(building(), "C", 2, NULL, number()), tn_te_finish(building())), "NULL");
  REFUSES((tn_te_compute(building(), "C", 99, axes(), NULL), tn_te_finish(building())), "NULL");
  REFUSES((tn_te_compute(building(), "C", -1, axes(), number()), tn_te_finish(building())), "axes");
  REFUSES((tn_te_input(building(), "A", (tn_dtype)77, 2, numbers()), tn_te_finish(building())), "no such element type");
  REFUSES((tn_te_input(building(), "A", TN_F32, 99, NULL), tn_te_finish(building())), "NULL");
  REFUSES((tn_te_output(building(), NULL), tn_te_finish(building())), "NULL");
}

int main(void) {
  begin();
  schedules[0] = schedule();
  tes[0] = te();
  size_t count = sizeof rows / sizeof rows[0];
  int wrong = check_rows(rows, count);
  misuse_loading();
  misuse_sessions();
  misuse_tensors();
  misuse_compiling();
  misuse_declarations();
  return finish(wrong, count);
}
