/* Limits of what a session takes of devices' memory, and what it gives back before it fails. */
#include <pthread.h>

#include "unit/failing_allocator.h"
#include "unit/trampoline.h"

#define DIM(n) ((tn__operand){0, 0, n})
#define SYM(s) ((tn__operand){1, 0, s})
enum { ISLAND = 3, MOST = 64 << 10, LARGE = 40 << 10 };
static const tn__operand nowhere = {0, 0, 0};
#define LIKE \
  "it is like \"island:0=64MiB\", a device with a size above 0 in bytes, KB, MB, GB, TB, KiB, MiB, GiB or TiB"

typedef struct program {
  test_exe t;
  tn__exe_func *f;
  int n, x, y; /* the size, the input, the output */
} program;

static void emit(tn__exe_func *f, tn__opcode op, int a, int b) {
  tn__exe_emit(f, op, (const uint32_t[]){(uint32_t)a, (uint32_t)b}, op == TN__OP_ALLOC ? 1 : 2);
}

static int place(tn__exe_func *f, int device, tn__operand size, tn__storage storage, int index) {
  int reg = tn__exe_register(f, TN_I64, 1, &size, storage, index, nowhere);
  tn__exe_register_on(f, device, reg);
  if (storage == TN__STORAGE_DYNAMIC) emit(f, TN__OP_ALLOC, reg, 0);
  return reg;
}

static int begin_function(tn__exe_func *f, int *x, int *y) {
  int n = tn__exe_symbol(f, "n");
  const tn__operand dims[1] = {SYM(n)};
  tn__exe_input(f, "x", TN_I64, 1, dims);
  tn__exe_output(f, "y", TN_I64, 1, dims);
  *x = place(f, 0, SYM(n), TN__STORAGE_INPUT, 0);
  *y = place(f, 0, SYM(n), TN__STORAGE_OUTPUT, 0);
  return n;
}

static void begin(program *p) {
  tn__target target;
  check_ok(tn__target_parse("native", &target));
  test_exe_init(&p->t, "native");
  tn__exe_device(p->t.exe, kDLExtDev, ISLAND, &target);
  p->f = tn__exe_function(p->t.exe, "main");
  p->n = begin_function(p->f, &p->x, &p->y);
}

/* y = x, by way of a block on `device`. */
static tn__bytes write_by_way_of(program *p, int device) {
  begin(p);
  int a = place(p->f, device, SYM(p->n), TN__STORAGE_DYNAMIC, 0);
  emit(p->f, TN__OP_COPY, a, p->x);
  emit(p->f, TN__OP_COPY, p->y, a);
  tn__exe_emit(p->f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(&p->t);
}

static tn_executable *by_way_of(int device) {
  program p;
  tn_executable *exe;
  tn__bytes bytes = write_by_way_of(&p, device);
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  test_exe_release(&p.t);
  return exe;
}

/* The same, and before it through a function with an arena of LARGE bytes, for which there is no memory beside the
 * block's. */
static tn_executable *through_a_function(int device) {
  program p;
  tn_executable *exe;
  int x, y;
  begin(&p);
  tn__exe_func *f = tn__exe_function(p.t.exe, "by_way_of_an_arena");
  begin_function(f, &x, &y);
  int arena = place(f, device, DIM(LARGE / 8), TN__STORAGE_ARENA, 0);
  tn__exe_arena_on(f, device, DIM(LARGE));
  emit(f, TN__OP_COPY, arena, x);
  emit(f, TN__OP_COPY, y, arena);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  int made = place(p.f, 0, SYM(p.n), TN__STORAGE_ARENA, 0);
  tn__exe_arena(p.f, DIM(LARGE / 8 * 8));
  tn__exe_emit_call(p.f, tn__exe_function_index(f), &p.x, 1, &made, 1);
  int a = place(p.f, device, SYM(p.n), TN__STORAGE_DYNAMIC, 0);
  emit(p.f, TN__OP_COPY, a, made);
  emit(p.f, TN__OP_COPY, p.y, a);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&p.t);
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  test_exe_release(&p.t);
  return exe;
}

static tn_status *invoke_function(tn_session *session, const char *function, int64_t n) {
  static _Thread_local _Alignas(64) int64_t in[100000], out[100000];
  DLTensor x = test_tensor(TN_I64, 1, &n, in), y = test_tensor(TN_I64, 1, &n, out);
  for (int64_t i = 0; i < n; i++) in[i] = i * 3 + n, out[i] = 0;
  tn_status *status = tn_session_invoke_with_outputs(session, function, &x, 1, &y, 1);
  if (status == NULL) assert_memory_equal(in, out, (size_t)n * sizeof(int64_t));
  return status;
}

static tn_status *invoke(tn_session *session, int64_t n) { return invoke_function(session, NULL, n); }

static tn_session *limited(const tn_executable *exe, const char *device, uint64_t bytes) {
  const tn_memory_setting memory = {device, bytes};
  tn_session_options options = {.size = sizeof options, .threads = 1, .memory = &memory, .memory_count = 1};
  tn_session *session;
  check_ok(tn_session_create(exe, &options, &session));
  return session;
}

/* More is refused by name, and the session goes on. */
static void test_a_limit(void **state) {
  static const char *const names[] = {"cpu:0", "island:3"};
  for (int device = 0; device < 2; device++) {
    tn_executable *exe = by_way_of(device);
    tn_session *session = limited(exe, names[device], MOST);
    char words[200];
    snprintf(words, sizeof words,
             "out of memory: the session may have 65536 bytes of %s (tn_session_options.memory), has %d and asks for "
             "80000 more",
             names[device], device == 0 ? 64 : 0); /* of the host there is always an arena */
    for (int i = 0; i < 2; i++) {
      check_ok(invoke(session, 1000));
      check_fails(invoke(session, 10000), TN_OUT_OF_MEMORY, words);
      check_ok(invoke(session, 8000));
    }
    tn_session_release(session);
    session = limited(exe, names[1 - device], MOST); /* of the other one */
    check_ok(invoke(session, 10000));
    tn_session_release(session);
    tn_executable_release(exe);
  }
}

/* What functions keep for their next call makes way. */
static void test_what_is_kept_for_later_is_given_back(void **state) {
  tn_executable *exe = through_a_function(1);
  tn_session *session = limited(exe, "island:3", MOST);
  for (int i = 0; i < 3; i++) check_ok(invoke(session, LARGE / 8));
  tn_session_release(session);
  session = limited(exe, "island:3", LARGE - 64);
  check_fails(invoke(session, LARGE / 8), TN_OUT_OF_MEMORY,
              "out of memory: the session may have 40896 bytes of island:3 (tn_session_options.memory), has 0 and asks "
              "for 40960 more");
  tn_session_release(session);
  tn_executable_release(exe);
}

/* A device that has no more: each allocation fails once, from the first invoke on, and nothing is lost. */
static void test_no_memory(void **state) {
  tn_executable *exe = through_a_function(0);
  int made_way = 0;
  bool failed = true;
  for (int at = 0; failed; at++) {
    failing_allocator allocator;
    failing_allocator_init(&allocator, -1);
    tn_session_options options = {.size = sizeof options, .allocator = &allocator.allocator, .threads = 1};
    tn_session *session;
    check_ok(tn_session_create(exe, &options, &session));
    allocator.fail_at = allocator.calls + at;
    tn_status *status = invoke(session, LARGE / 8);
    if (status != NULL) assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    failed = allocator.calls > allocator.fail_at;
    made_way += status == NULL && failed; /* the block, for which the arena makes way */
    tn_status_free(status);
    check_ok(invoke(session, LARGE / 8));
    tn_session_release(session);
    assert_int_equal(allocator.live_count, 0);
    assert_true(at < 100);
  }
  assert_int_equal(made_way, 1);
  tn_executable_release(exe);
}

static void test_constants_count(void **state) {
  static const int64_t numbers[32] = {1, 2, 3};
  program p;
  tn_executable *exe;
  tn_session *session;
  begin(&p);
  int constant = tn__exe_constant_on(p.t.exe, 1, "numbers", TN_I64, 1, (int64_t[]){32}, numbers, sizeof numbers);
  place(p.f, 1, DIM(32), TN__STORAGE_CONSTANT, constant);
  emit(p.f, TN__OP_COPY, p.y, p.x);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&p.t);
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  tn_memory_setting memory = {"island:3", 255};
  tn_session_options options = {.size = sizeof options, .memory = &memory, .memory_count = 1};
  check_fails(
      tn_session_create(exe, &options, &session), TN_OUT_OF_MEMORY,
      "out of memory: the session may have 255 bytes of island:3 (tn_session_options.memory), has 0 and asks for "
      "256 more");
  memory.bytes = 256;
  check_ok(tn_session_create(exe, &options, &session));
  check_ok(invoke(session, 10));
  tn_session_release(session);
  tn_executable_release(exe);
  test_exe_release(&p.t);
}

/* ---- limits of all sessions -------------------------------------------------------------------------------------- */

static tn_executable *loaded(const tn__bytes *bytes, const char *const *memory, int count) {
  tn_load_options options = {.size = sizeof options, .memory = memory, .memory_count = count};
  tn_executable *exe;
  check_ok(tn_executable_load_memory(bytes->data, bytes->size, &options, &exe));
  return exe;
}

/* Two sessions share what the executable may have, on the host and elsewhere; what one gave up is the other's. */
static void test_a_limit_of_all_sessions(void **state) {
  static const char *const limits[2][2] = {{"cpu:0=96KiB"}, {"island:3=96KiB"}};
  static const char *const names[] = {"cpu:0", "island:3"};
  for (int device = 0; device < 2; device++) {
    program p;
    tn_session *sessions[2];
    char words[200];
    tn__bytes bytes = write_by_way_of(&p, device);
    tn_executable *exe = loaded(&bytes, limits[device], 1);
    for (int i = 0; i < 2; i++) check_ok(tn_session_create(exe, NULL, &sessions[i]));
    check_ok(invoke(sessions[0], 8000));
    snprintf(
        words, sizeof words,
        "out of memory: the program may have 98304 bytes of %s (tn_load_options.memory), has %d and asks for 64000 "
        "more",
        names[device], device == 0 ? 64128 : 64000);
    for (int i = 0; i < 2; i++) check_fails(invoke(sessions[1], 8000), TN_OUT_OF_MEMORY, words);
    check_ok(invoke(sessions[1], 3000));
    tn_session_release(sessions[0]);
    check_ok(invoke(sessions[1], 8000));
    tn_session_release(sessions[1]);
    tn_executable_release(exe);
    test_exe_release(&p.t);
  }
}

/* On an island of those that keep memory: "one" is by way of a block of n, "two" by way of two. */
static tn_executable *by_way_of_more(const char *const *memory, int count) {
  test_exe t;
  tn__target target;
  tn_executable *exe;
  tn_load_options options = {
      .size = sizeof options, .concurrent_islands = true, .memory = memory, .memory_count = count};
  check_ok(tn__target_parse("native", &target));
  test_exe_init(&t, "native");
  tn__exe_device(t.exe, kDLExtDev, ISLAND, &target);
  for (int blocks = 1; blocks <= 2; blocks++) {
    tn__exe_func *f = tn__exe_function(t.exe, blocks == 1 ? "one" : "two");
    int from, y;
    int n = begin_function(f, &from, &y);
    for (int i = 0; i < blocks; i++) {
      int a = place(f, 1, SYM(n), TN__STORAGE_DYNAMIC, 0);
      emit(f, TN__OP_COPY, a, from);
      from = a;
    }
    emit(f, TN__OP_COPY, y, from);
    tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  }
  tn__bytes bytes = test_exe_finish(&t);
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, &options, &exe));
  test_exe_release(&t);
  return exe;
}

/* What fits into a limit fits after others, too, whose memory is kept and is somewhat larger. */
static void test_what_others_left_takes_no_room(void **state) {
  const char *limit = "island:3=64KiB";
  enum { HALF = MOST / 2 / 8, MORE = HALF / 2 * 3 };
  for (int of_all = 0; of_all < 2; of_all++) {
    tn_executable *exe = by_way_of_more(&limit, of_all);
    tn_session *before, *session;
    check_ok(tn_session_create(exe, NULL, &before));
    check_ok(invoke_function(before, of_all ? "one" : "two", MORE));
    tn_session_release(before);
    if (of_all)
      check_ok(tn_session_create(exe, NULL, &session));
    else
      session = limited(exe, "island:3", MOST);
    check_ok(invoke_function(session, "two", HALF));
    tn_session_release(session);
    tn_executable_release(exe);
  }
}

enum { ROUNDS = 5000, SMALL = 1 << 10 };
typedef struct asker {
  const tn_executable *exe;
  int64_t bytes;
  int refused;
} asker;

static void *ask(void *argument) {
  asker *a = argument;
  for (int i = 0; i < ROUNDS; i++) {
    tn_session *session;
    tn_session_options options = {.size = sizeof options, .threads = 1};
    check_ok(tn_session_create(a->exe, &options, &session));
    tn_status *status = invoke(session, a->bytes / 8);
    a->refused += tn_status_code_of(status) == TN_OUT_OF_MEMORY;
    tn_status_free(status);
    tn_session_release(session);
  }
  return NULL;
}

/* What one session is refused takes no room from another that asks for little at the same time. */
static void test_what_is_refused_counts_for_nobody(void **state) {
  const char *limit = "cpu:0=64KiB";
  program p;
  tn_executable *exe;
  begin(&p);
  int a = place(p.f, 0, SYM(p.n), TN__STORAGE_DYNAMIC, 0);
  emit(p.f, TN__OP_COPY, a, p.x);
  emit(p.f, TN__OP_COPY, p.y, a);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&p.t);
  exe = loaded(&bytes, &limit, 1);
  asker askers[2] = {{exe, 2 * (int64_t)MOST, 0}, {exe, SMALL, 0}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(askers[0].refused, ROUNDS);
  assert_int_equal(askers[1].refused, 0);
  tn_executable_release(exe);
  test_exe_release(&p.t);
}

static void test_limits_of_loading_that_are_none(void **state) {
  static const struct {
    const char *memory;
    tn_status_code code;
    const char *words;
  } cases[] = {
      {"island:4=1MB", TN_NOT_FOUND,
       "the memory \"island:4=1MB\": the program does not run on that device; it runs on cpu:0 (the host), "
       "island:3"},
      {"island:3", TN_INVALID_ARGUMENT, "the memory \"island:3\" is none: " LIKE},
      {"island:3=0", TN_INVALID_ARGUMENT, "the memory \"island:3=0\" is none: " LIKE},
      {"moon:3=1KB", TN_INVALID_ARGUMENT, "the memory \"moon:3=1KB\" is none: " LIKE},
      {NULL, TN_INVALID_ARGUMENT, "the memory \"\" is none: " LIKE},
  };
  program p;
  begin(&p);
  emit(p.f, TN__OP_COPY, p.y, p.x);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&p.t);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tn_load_options options = {.size = sizeof options, .memory = &cases[i].memory, .memory_count = 1};
    tn_executable *exe;
    check_fails(tn_executable_load_memory(bytes.data, bytes.size, &options, &exe), cases[i].code, cases[i].words);
  }
  const char *twice[] = {"island:3=1KB", "cpu:0=5GB", "island:3=1KiB"};
  tn_load_options options = {.size = sizeof options, .memory = twice, .memory_count = 3};
  tn_executable *exe;
  check_fails(tn_executable_load_memory(bytes.data, bytes.size, &options, &exe), TN_INVALID_ARGUMENT,
              "the memory \"island:3=1KiB\": the device has another limit already");
  test_exe_release(&p.t);
}

/* A program may have been compiled for a host with number 1 beside another CPU with number 0. Both have one memory,
 * whose limit goes by either number. */
static void test_a_host_of_another_number(void **state) {
  static const char *const names[] = {"cpu:1", "cpu:0"};
  test_exe t;
  tn__target target;
  check_ok(tn__target_parse("native", &target));
  test_exe_init(&t, "native");
  tn__exe_host(t.exe, 1);
  tn__exe_device(t.exe, kDLCPU, 0, &target);
  for (int device = 0; device < 2; device++) {
    int x, y;
    tn__exe_func *f = tn__exe_function(t.exe, device == 0 ? "host" : "other");
    int n = begin_function(f, &x, &y), a = place(f, device, SYM(n), TN__STORAGE_DYNAMIC, 0);
    emit(f, TN__OP_COPY, a, x);
    emit(f, TN__OP_COPY, y, a);
    tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  }
  tn__bytes bytes = test_exe_finish(&t);
  tn_executable *exe = loaded(&bytes, NULL, 0);
  for (int limit = 0; limit < 2; limit++) {
    tn_session *session = limited(exe, names[limit], MOST);
    for (int device = 0; device < 2; device++) {
      tn_status *status = invoke_function(session, device == 0 ? "host" : "other", 10000);
      assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
      assert_non_null(strstr(tn_status_message(status), device == 0 ? "65536 bytes of cpu:1" : "65536 bytes of cpu:0"));
      tn_status_free(status);
    }
    tn_session_release(session);
  }
  tn_executable_release(exe);
  test_exe_release(&t);
}

/* Constants of a CPU with another number than the host's are read where the file has them. */
static void test_constants_of_another_cpu(void **state) {
  enum { COUNT = 1 << 17 };
  static int64_t numbers[COUNT], got[COUNT];
  test_exe t;
  tn__target target;
  tn_executable *exe;
  tn_session *session;
  failing_allocator allocator;
  for (int64_t i = 0; i < COUNT; i++) numbers[i] = i * i;
  check_ok(tn__target_parse("native", &target));
  test_exe_init(&t, "native");
  tn__exe_device(t.exe, kDLCPU, 1, &target);
  const int64_t dims[1] = {COUNT};
  const tn__operand whole[1] = {DIM(COUNT)};
  int constant = tn__exe_constant_on(t.exe, 1, "numbers", TN_I64, 1, dims, numbers, sizeof numbers);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  tn__exe_output(f, "y", TN_I64, 1, whole);
  int c = place(f, 1, DIM(COUNT), TN__STORAGE_CONSTANT, constant);
  int y = place(f, 0, DIM(COUNT), TN__STORAGE_OUTPUT, 0);
  emit(f, TN__OP_COPY, y, c);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&t);
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  failing_allocator_init(&allocator, -1);
  tn_session_options options = {.size = sizeof options, .allocator = &allocator.allocator, .threads = 1};
  check_ok(tn_session_create(exe, &options, &session));
  DLTensor out = test_tensor(TN_I64, 1, (int64_t[]){COUNT}, got);
  check_ok(tn_session_invoke_with_outputs(session, NULL, NULL, 0, &out, 1));
  assert_memory_equal(got, numbers, sizeof numbers);
  assert_true(allocator.peak_bytes < sizeof numbers / 2);
  tn_session_release(session);
  tn_executable_release(exe);
  test_exe_release(&t);
}

#define THERE ": the program does not run on that device; it runs on cpu:0 (the host), island:3"
static void test_limits_that_are_none(void **state) {
  static const struct {
    tn_memory_setting setting;
    tn_status_code code;
    const char *words;
  } cases[] = {
      {{"island:4", 1}, TN_NOT_FOUND, "tn_session_options.memory: \"island:4\"" THERE},
      {{"moon", 1}, TN_NOT_FOUND, "tn_session_options.memory: \"moon\"" THERE},
      {{NULL, 1}, TN_NOT_FOUND, "tn_session_options.memory: \"\"" THERE},
      {{"island:3", 0}, TN_INVALID_ARGUMENT, "tn_session_options.memory: island:3 gets no bytes"},
  };
  tn_executable *exe = by_way_of(1);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tn_session_options options = {.size = sizeof options, .memory = &cases[i].setting, .memory_count = 1};
    tn_session *session;
    check_fails(tn_session_create(exe, &options, &session), cases[i].code, cases[i].words);
    assert_null(session);
  }
  tn_executable_release(exe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_limit),
      cmocka_unit_test(test_what_is_kept_for_later_is_given_back),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_constants_count),
      cmocka_unit_test(test_constants_of_another_cpu),
      cmocka_unit_test(test_limits_that_are_none),
      cmocka_unit_test(test_a_limit_of_all_sessions),
      cmocka_unit_test(test_what_others_left_takes_no_room),
      cmocka_unit_test(test_what_is_refused_counts_for_nobody),
      cmocka_unit_test(test_limits_of_loading_that_are_none),
      cmocka_unit_test(test_a_host_of_another_number),
  };
  return cmocka_run_group_tests_name("vm_memory", tests, NULL, NULL);
}
