/* What the VM asks of devices for a small program on the host and two others: pinned call by call, with the null device
 * in their place; what sessions share of them; and what becomes of a session whose device is gone in the middle. */
#include "unit/failing_allocator.h"
#include "unit/null_device.h"
#include "unit/trampoline.h"

#include "runtime/executable/opened.h"
#include "runtime/format/format.h"
#include "tenon/compile.h"

#define DIM(n) ((tn__operand){0, 0, n})
#define SYM(s) ((tn__operand){1, 0, s})
enum { FIRST = 2, SECOND = 5, N = 3 };
static const tn__operand nowhere = {0, 0, 0};

static int32_t never(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  fail_msg("the null device runs no kernels");
  return TN_KERNEL_OK;
}

typedef struct program {
  test_exe t;
  tn_executable *exe;
  tn__device_driver driver;
} program;

static int place(tn__exe_func *f, test_exe *t, int device, int symbol, tn__storage storage, int64_t offset) {
  tn__operand dims[1] = {SYM(symbol)};
  int reg = tn__exe_register(f, TN_I64, 1, dims, storage, 0, storage == TN__STORAGE_ARENA ? DIM(offset) : nowhere);
  tn__exe_register_on(f, device, reg);
  return reg;
}

static void copy(tn__exe_func *f, int to, int from) {
  tn__exe_emit(f, TN__OP_COPY, (const uint32_t[]){(uint32_t)to, (uint32_t)from}, 2);
}

/* y = second(first(x, x), constant), with x and y on the host. */
static void make(program *p, const tn_allocator *allocator) {
  tn__target target;
  test_exe *t = &p->t;
  check_ok(tn__target_parse("native", &target));
  test_exe_init(t, "native");
  int device[2], kernel[2];
  for (int i = 0; i < 2; i++) {
    device[i] = tn__exe_device(t->exe, kDLExtDev, i == 0 ? FIRST : SECOND, &target);
    kernel[i] = test_exe_kernel(t, i == 0 ? "first" : "second", never, 3, 1);
    tn__exe_kernel_on(t->exe, device[i], kernel[i]);
  }
  tn__exe_func *f = tn__exe_function(t->exe, "main");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[1] = {SYM(n)}, whole[1] = {DIM(N)};
  tn__exe_input(f, "x", TN_I64, 1, dims);
  tn__exe_output(f, "y", TN_I64, 1, dims);
  for (int i = 0; i < 2; i++) tn__exe_arena_on(f, device[i], DIM(256));
  int constant = tn__exe_constant_on(t->exe, device[1], "c", TN_I64, 1, (int64_t[]){N}, (int64_t[]){1, 2, 3}, 24);
  int c = tn__exe_register(f, TN_I64, 1, whole, TN__STORAGE_CONSTANT, constant, nowhere);
  tn__exe_register_on(f, device[1], c);
  int x = place(f, t, 0, n, TN__STORAGE_INPUT, 0), y = place(f, t, 0, n, TN__STORAGE_OUTPUT, 0);
  int a = place(f, t, device[0], n, TN__STORAGE_ARENA, 0), b = place(f, t, device[0], n, TN__STORAGE_ARENA, 64);
  int d = place(f, t, device[1], n, TN__STORAGE_ARENA, 64), e = place(f, t, device[1], n, TN__STORAGE_ARENA, 128);
  copy(f, a, x);
  tn__exe_emit_kernel(f, kernel[0], (const int[]){a, a}, 2, &b, 1, &n, 1);
  copy(f, d, b);
  tn__exe_emit_kernel(f, kernel[1], (const int[]){d, c}, 2, &e, 1, &n, 1);
  copy(f, y, e);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(t);
  tn_load_options options = {.size = sizeof options, .allocator = allocator};
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, &options, &p->exe));
  p->driver = null_driver(kDLExtDev);
  for (uint32_t i = 1; i < p->exe->device_count; i++) p->exe->drivers[i] = &p->driver;
}

static void release(program *p) {
  tn_executable_release(p->exe);
  test_exe_release(&p->t);
}

static tn_status *open_session(const program *p, const tn_allocator *allocator, tn_session **out) {
  tn_session_options options = {.size = sizeof options, .allocator = allocator, .threads = 1};
  return tn_session_create(p->exe, &options, out);
}

static tn_status *invoke(tn_session *session, int64_t *x, int64_t *y) {
  int64_t shape[1] = {N};
  DLTensor in = test_tensor(TN_I64, 1, shape, x), out = test_tensor(TN_I64, 1, shape, y);
  check_ok(tn_session_set_input(session, NULL, "x", &in, TN_BIND_PERSISTENT_IN_PLACE));
  check_ok(tn_session_set_output(session, NULL, "y", &out, TN_BIND_PERSISTENT_IN_PLACE));
  return tn_session_invoke(session, NULL);
}

/* The record without its waits: when the VM asks for results is its own affair. */
static void check_record(int device, const char *expected) {
  static char text[NULL_TEXT];
  size_t length = 0;
  for (const char *line = null_records[device].text; *line != '\0';) {
    size_t size = strcspn(line, "\n") + 1;
    if (strncmp(line, "wait\n", 5) != 0) memcpy(text + length, line, size), length += size;
    line += size;
  }
  text[length] = '\0';
  assert_string_equal(text, expected);
}

static void check_invoke(tn_session *session) {
  int64_t x[N] = {1, 2, 3}, y[N] = {9, 9, 9};
  check_ok(invoke(session, x, y));
  for (int i = 0; i < N; i++) assert_int_equal(y[i], 0);
}

static void test_what_is_asked(void **state) {
  program p;
  tn_session *session;
  null_forget();
  make(&p, NULL);
  check_record(FIRST, ""); /* nothing is opened before it is needed */
  check_ok(open_session(&p, NULL, &session));
  check_record(FIRST, "open\nstream\n");
  check_record(SECOND, "open\nstream\nallocate a0 24\ncopy in a0+0 24\nend\nstream\n"); /* the constant, once */
  check_invoke(session);
  check_invoke(session); /* the memory is there */
  tn_session_release(session);
  check_record(FIRST,
               "open\nstream\n"
               "allocate a0 256\n"
               "copy in a0+0 24\nlaunch 0 (a0+0 a0+0 a0+64 | 3)\ncopy out a0+64 24\n"
               "copy in a0+0 24\nlaunch 0 (a0+0 a0+0 a0+64 | 3)\ncopy out a0+64 24\n"
               "end\n");
  release(&p);
  assert_non_null(strstr(null_records[FIRST].text, "end\nfree a0\nclose\n"));
  check_record(SECOND,
               "open\n"
               "stream\nallocate a0 24\ncopy in a0+0 24\nend\n"
               "stream\n"
               "allocate a1 256\n"
               "copy in a1+64 24\nlaunch 16 (a1+64 a0+0 a1+128 | 3)\ncopy out a1+128 24\n"
               "copy in a1+64 24\nlaunch 16 (a1+64 a0+0 a1+128 | 3)\ncopy out a1+128 24\n"
               "end\n"
               "free a0\nfree a1\n"
               "close\n");
  null_check_closed();
}

static int count_of(int device, const char *words) {
  int count = 0;
  for (const char *at = null_records[device].text; (at = strstr(at, words)) != NULL; at++) count++;
  return count;
}

/* Sessions have one open device and one copy of the constant between them, also when they come and go; and the memory
 * of those that went is for the next. */
static void test_sessions_share(void **state) {
  program p;
  tn_session *sessions[3];
  null_forget();
  make(&p, NULL);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 3; i++) {
      check_ok(open_session(&p, NULL, &sessions[i]));
      check_invoke(sessions[i]);
    }
    for (int i = 0; i < 3; i++) check_invoke(sessions[i]);
    for (int i = 0; i < 3; i++) tn_session_release(sessions[i]);
  }
  for (int device = FIRST; device <= SECOND; device += SECOND - FIRST) {
    assert_int_equal(count_of(device, "open\n"), 1);
    assert_int_equal(count_of(device, "allocate"), device == FIRST ? 3 : 3 + 1);
    assert_int_equal(count_of(device, "stream\n"), device == FIRST ? 9 : 9 + 1);
    assert_int_equal(count_of(device, "free"), 0);
  }
  assert_int_equal(count_of(SECOND, "copy in a0+0"), 1);
  release(&p);
  null_check_closed();
}

enum { THREADS = 2, ROUNDS = 20 };
static pthread_barrier_t all_threads;
static void *run_in_thread(void *own) {
  const program *p = own;
  for (int i = 0; i < ROUNDS; i++) {
    tn_session *session;
    int64_t x[N] = {1, 2, 3}, y[N] = {9, 9, 9};
    pthread_barrier_wait(&all_threads);
    tn_status *status = open_session(p, NULL, &session);
    for (int k = 0; k < 3 && status == NULL; k++) status = invoke(session, x, y);
    if (status == NULL && i % 2 == 0) { /* in flight */
      status = tn_session_start(session, NULL);
      if (status == NULL) status = tn_session_wait(session);
    }
    tn_session_release(session);
    bool good = status == NULL && y[0] == 0;
    tn_status_free(status);
    if (!good) return NULL;
  }
  return own;
}

/* Two threads each make sessions, run them and give them up, at once. */
static void test_sessions_in_threads(void **state) {
  program p;
  pthread_t threads[THREADS];
  void *good;
  null_forget();
  make(&p, NULL);
  pthread_barrier_init(&all_threads, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_in_thread, &p), 0);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], &good), 0);
    assert_non_null(good);
  }
  pthread_barrier_destroy(&all_threads);
  assert_int_equal(count_of(SECOND, "open\n"), 1);
  assert_int_equal(count_of(SECOND, "copy in a0+0"), 1);
  assert_true(count_of(FIRST, "allocate") <= THREADS);
  release(&p);
  null_check_closed();
}

/* What one session gave up is the next one's. */
static void test_a_device_without_memory(void **state) {
  program p;
  tn_session *first, *second;
  int64_t x[N] = {1, 2, 3}, y[N];
  null_forget();
  make(&p, NULL);
  check_ok(open_session(&p, NULL, &first));
  check_ok(open_session(&p, NULL, &second));
  check_invoke(first);
  null_most_live = 1;
  check_fails(invoke(second, x, y), TN_OUT_OF_MEMORY, "out of memory: null:2 has none for 256 bytes");
  tn_session_release(first);
  check_invoke(second);
  tn_session_release(second);
  release(&p);
  null_check_closed();
}

/* Memory is kept for whoever wants about as much. When a device has no more, all that is kept goes back to it, once;
 * then it is out of memory. */
static void test_memory_that_is_kept(void **state) {
  program p;
  tn__opened *devices;
  void *memory[3], *again, *more;
  null_forget();
  make(&p, NULL);
  check_ok(tn__opened_take(p.exe, &devices));
  tn__opened_device *d = tn__opened_at(devices, 1);
  static const size_t sizes[] = {1000, 3000, 5000}, wanted[] = {900, 2500, 4999};
  for (int i = 0; i < 3; i++) check_ok(tn__opened_memory_take(devices, d, &(size_t){sizes[i]}, SIZE_MAX, &memory[i]));
  for (int i = 0; i < 3; i++) tn__opened_memory_give_back(devices, d, memory[i], sizes[i]);
  for (int i = 0; i < 3; i++) { /* the smallest that does */
    size_t bytes = wanted[i];
    check_ok(tn__opened_memory_take(devices, d, &bytes, SIZE_MAX, &again));
    assert_ptr_equal(again, memory[i]);
    assert_int_equal(bytes, sizes[i]);
    tn__opened_memory_give_back(devices, d, again, bytes);
  }
  size_t small = 100, limited = 4999;
  check_ok(tn__opened_memory_take(devices, d, &small, SIZE_MAX, &again)); /* none of them: it would be a waste */
  check_ok(tn__opened_memory_take(devices, d, &limited, 4999, &more));    /* nor what is above a limit */
  assert_int_equal(small, 100);
  assert_int_equal(limited, 4999);
  assert_int_equal(null_records[FIRST].live, 5);
  null_most_live = 5;
  size_t bytes = 40000;
  tn__opened_memory_give_back(devices, d, more, limited);
  check_ok(tn__opened_memory_take(devices, d, &bytes, SIZE_MAX, &more));
  assert_int_equal(null_records[FIRST].live, 2);
  assert_int_equal(count_of(FIRST, "free"), 4);
  null_most_live = 2;
  tn__opened_memory_give_back(devices, d, again, small);
  null_most_live = 1;
  check_fails(tn__opened_memory_take(devices, d, &bytes, SIZE_MAX, &again), TN_OUT_OF_MEMORY,
              "out of memory: null:2 has none for 40000 bytes");
  assert_int_equal(null_records[FIRST].live, 1);
  tn__opened_memory_give_back(devices, d, more, 40000);
  tn__opened_give_back(devices);
  check_ok(tn__opened_take(p.exe, &devices)); /* to be out of memory is no failure of the device */
  assert_int_equal(count_of(FIRST, "open\n"), 1);
  tn__opened_give_back(devices);
  release(&p);
  null_check_closed();
}

/* What is kept is bounded: by a quarter of the device's memory, and by 256 MiB where it does not tell, or it is the
 * host's. */
static void test_how_much_is_kept(void **state) {
  enum { BLOCKS = 18, BLOCK = 16 << 20 };
  static const struct {
    size_t memory;
    bool shares;
    int kept;
  } cases[] = {{0, false, 16},
               {(size_t)8 << 30, true, 16},
               {(size_t)8 << 30, false, BLOCKS},
               {(size_t)256 << 20, false, 4},
               {(size_t)256 << 20, true, 4}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    program p;
    tn__opened *devices;
    void *memory[BLOCKS];
    null_forget();
    null_memory_bytes = cases[i].memory, null_shares_memory = cases[i].shares;
    make(&p, NULL);
    check_ok(tn__opened_take(p.exe, &devices));
    tn__opened_device *d = tn__opened_at(devices, 1);
    for (int k = 0; k < BLOCKS; k++) check_ok(tn__opened_memory_take(devices, d, &(size_t){BLOCK}, BLOCK, &memory[k]));
    for (int k = 0; k < BLOCKS; k++) tn__opened_memory_give_back(devices, d, memory[k], BLOCK);
    assert_int_equal(null_records[FIRST].live, cases[i].kept);
    tn__opened_give_back(devices);
    release(&p);
    null_check_closed();
  }
  null_forget();
}

/* A device is gone from one call on, and that is each call once: the session tells it, at its creation or at an invoke,
 * does not hang, and loses nothing; and when it is back, sessions that come later know nothing of it. */
static void test_a_device_that_disappears(void **state) {
  int at = 0;
  for (bool failed = true; failed; at++) {
    program p;
    failing_allocator allocator;
    tn_session *session = NULL, *later;
    int64_t x[N] = {1, 2, 3}, y[N];
    null_forget();
    failing_allocator_init(&allocator, -1);
    make(&p, &allocator.allocator);
    null_gone_at = at;
    tn_status *status = open_session(&p, &allocator.allocator, &session);
    for (int i = 0; i < 2 && status == NULL; i++) status = invoke(session, x, y);
    failed = status != NULL;
    if (failed) {
      assert_int_equal(tn_status_code_of(status), TN_FAILED_PRECONDITION);
      assert_non_null(strstr(tn_status_message(status), " is gone"));
      tn_status_free(status);
      if (session == NULL) null_check_closed(); /* nothing is half open */
      if (session != NULL) {                    /* it stays away, for all */
        status = tn_session_invoke(session, NULL);
        assert_non_null(status);
        tn_status_free(status);
      }
      status = open_session(&p, &allocator.allocator, &later);
      assert_int_equal(tn_status_code_of(status), TN_FAILED_PRECONDITION);
      tn_status_free(status);
      null_gone_at = -1; /* and back again, it serves */
      if (session != NULL) check_ok(invoke(session, x, y));
    }
    null_gone_at = -1;
    check_ok(open_session(&p, &allocator.allocator, &later));
    check_invoke(later);
    if (failed && session != NULL) assert_int_equal(null_records[FIRST].open, 2); /* anew, beside what was there */
    tn_session_release(session);
    tn_session_release(later);
    assert_int_equal(null_records[FIRST].open, 1);
    assert_int_equal(null_records[SECOND].open, 1);
    release(&p);
    null_check_closed();
    assert_int_equal(allocator.live_count, 0);
  }
  assert_true(at > 15);
}

/* While no session is there a device goes and comes back: the streams that the next session wants cannot be had of what
 * was open, and it opens all anew. */
static tn_status *stream_of_what_was_opened_again(tn__stream *stream) {
  if (count_of(FIRST, "open\n") < 2) return tn_status_create(TN_INTERNAL, "the context is lost");
  return null_open_stream(stream);
}

static void test_a_device_that_came_back(void **state) {
  program p;
  tn_session *session;
  null_forget();
  make(&p, NULL);
  check_ok(open_session(&p, NULL, &session));
  tn_session_release(session);
  p.driver.open_stream = stream_of_what_was_opened_again;
  check_ok(open_session(&p, NULL, &session));
  check_invoke(session);
  tn_session_release(session);
  assert_int_equal(count_of(SECOND, "open\n"), 2);
  assert_int_equal(count_of(SECOND, "close\n"), 1);
  release(&p);
  null_check_closed();
}

/* Each allocation of the host's fails once, at the first session on the executable and at one beside another. */
static void test_no_memory_of_the_host(void **state) {
  for (int beside = 0; beside < 2; beside++)
    for (int at = 0;; at++) {
      program p;
      failing_allocator allocator, own;
      tn_session *session, *other = NULL;
      null_forget();
      failing_allocator_init(&allocator, -1);
      failing_allocator_init(&own, -1);
      make(&p, &allocator.allocator);
      if (beside) check_ok(open_session(&p, NULL, &other));
      allocator.fail_at = allocator.calls + at;
      own.fail_at = beside ? at : -1;
      tn_status *status = open_session(&p, beside ? &own.allocator : &allocator.allocator, &session);
      bool failed = status != NULL;
      if (failed) {
        assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
        tn_status_free(status);
        assert_int_equal(null_records[FIRST].open, null_records[SECOND].open); /* all or none */
        assert_int_equal(null_records[FIRST].streams, beside);
        allocator.fail_at = own.fail_at = -1;
        check_ok(open_session(&p, NULL, &session)); /* the next one knows nothing of it */
      }
      allocator.fail_at = own.fail_at = -1;
      check_invoke(session);
      assert_int_equal(null_records[SECOND].open, 1);
      tn_session_release(session);
      tn_session_release(other);
      release(&p);
      null_check_closed();
      assert_int_equal(allocator.live_count, 0);
      assert_int_equal(own.live_count, 0);
      if (failed) continue;
      assert_true(at > 10);
      break;
    }
}

/* A function that calls another one from many places, one that calls that, and what fails in the last call. */
enum { CALLS = 20 };
static int launches_left;
static tn_status *last_launch_fails(tn__stream *stream, const tn__device_launch *launch) {
  if (--launches_left == 0) return tn_status_create(TN_INTERNAL, "the device has had enough");
  return null_launch(stream, launch);
}

static void test_many_calls(void **state) {
  program p;
  tn_session *session;
  tn__target target;
  null_forget();
  test_exe *t = &p.t;
  check_ok(tn__target_parse("native", &target));
  test_exe_init(t, "native");
  int device = tn__exe_device(t->exe, kDLExtDev, FIRST, &target), kernel = test_exe_kernel(t, "tired", never, 2, 1);
  tn__exe_kernel_on(t->exe, device, kernel);
  tn__exe_func *functions[3];
  for (int k = 0; k < 3; k++) {
    static const char *const names[] = {"main", "caller", "inner"};
    tn__exe_func *f = functions[k] = tn__exe_function(t->exe, names[k]);
    int n = tn__exe_symbol(f, "n");
    tn__operand dims[1] = {SYM(n)};
    tn__exe_input(f, "x", TN_I64, 1, dims);
    tn__exe_output(f, "y", TN_I64, 1, dims);
    int x = place(f, t, 0, n, TN__STORAGE_INPUT, 0), y = place(f, t, 0, n, TN__STORAGE_OUTPUT, 0);
    if (k < 2) {
      for (int i = 0; i < CALLS / (k == 0 ? 2 : 1); i++) tn__exe_emit_call(f, k + 1, &x, 1, &y, 1);
    } else {
      tn__exe_arena_on(f, device, DIM(256));
      int a = place(f, t, device, n, TN__STORAGE_ARENA, 0), b = place(f, t, device, n, TN__STORAGE_ARENA, 64);
      copy(f, a, x);
      tn__exe_emit_kernel(f, kernel, &a, 1, &b, 1, &n, 1);
      copy(f, y, b);
    }
    tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  }
  tn__bytes bytes = test_exe_finish(t);
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &p.exe));
  p.driver = null_driver(kDLExtDev);
  p.driver.launch = last_launch_fails;
  p.exe->drivers[1] = &p.driver;
  check_ok(open_session(&p, NULL, &session));
  for (int round = 0; round < 3; round++) {
    int64_t x[N] = {1, 2, 3}, y[N];
    null_records[FIRST].length = 0; /* what it writes down would be too much */
    launches_left = round == 1 ? CALLS / 2 * CALLS : -1;
    tn_status *status = invoke(session, x, y);
    if (round == 1) {
      assert_int_equal(tn_status_code_of(status), TN_INTERNAL);
      assert_non_null(strstr(tn_status_message(status), "the device has had enough"));
      tn_status_free(status);
    } else {
      check_ok(status);
    }
  }
  tn_session_release(session);
  release(&p);
  null_check_closed();
}

/* A branch whose arms are on two devices: each reads a value of the host's, and both read `both`, on the first. */
static const char branch[] =
    "graph \"main\" {\n  input c: bool[]\n  input x: f32[3]\n  input z: f32[3]\n  input b: f32[3]\n"
    "  hx: f32[3] = abs(x)\n  hz: f32[3] = abs(z)\n  hb: f32[3] = abs(b)\n  y: f32[3] = if(c, hx, hz, hb)\n"
    "    graph \"then\" {\n      input p: f32[3]\n      input q: f32[3]\n      input both: f32[3]\n"
    "      t: f32[3] = multiply(p, both)\n      output \"r\" = t\n    }\n"
    "    graph \"else\" {\n      input p: f32[3]\n      input q: f32[3]\n      input both: f32[3]\n"
    "      e: f32[3] = negate(q)\n      f: f32[3] = negate(both)\n      g: f32[3] = add(e, e)\n"
    "      h: f32[3] = add(f, g)\n      output \"r\" = h\n    }\n"
    "  output \"y\" = y\n}\n";

/* The arm that does not run costs its device nothing: neither copies nor launches. */
static void test_an_arm_that_does_not_run(void **state) {
  const char *const place[] = {"t=island:2", "f=island:2", "e=island:5", "g=island:5", "h*=cpu:0"};
  tn_compile_options options = {.size = sizeof options,
                                .target = "native;island -device=2;island -device=5",
                                .host = "native",
                                .no_cache = true,
                                .compile_threads = 1, /* ThreadSanitizer knows nothing of what LLVM locks */
                                .place = place,
                                .place_count = 5};
  tn_module *module;
  tn_executable *exe;
  tn_session *session;
  null_forget();
  check_ok(tn_compile("branch.tng", branch, sizeof branch - 1, &options, &module));
  check_ok(tn_module_load(module, NULL, &exe));
  tn_module_release(module);
  tn__device_driver driver = null_driver(kDLExtDev);
  for (uint32_t i = 1; i < exe->device_count; i++) exe->drivers[i] = &driver;
  check_ok(tn_session_create(exe, NULL, &session));
  bool c;
  float values[3][N] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, y[N];
  int64_t shape[1] = {N};
  DLTensor in[4] = {test_tensor(TN_BOOL, 0, NULL, &c)}, out = test_tensor(TN_F32, 1, shape, y);
  for (int i = 0; i < 3; i++) in[i + 1] = test_tensor(TN_F32, 1, shape, values[i]);
  check_ok(tn_session_set_inputs(session, NULL, NULL, in, 4, TN_BIND_PERSISTENT_IN_PLACE));
  check_ok(tn_session_set_output(session, NULL, "y", &out, TN_BIND_PERSISTENT_IN_PLACE));
  for (int round = 0; round < 4; round++) {
    c = round % 2 == 0;
    for (int i = 0; i < NULL_DEVICES; i++) null_records[i].length = 0, null_records[i].text[0] = '\0';
    check_ok(tn_session_invoke(session, NULL));
    assert_int_equal(count_of(FIRST, "copy in"), c ? 2 : 1); /* p, and what both arms read */
    assert_int_equal(count_of(FIRST, "launch"), 1);
    assert_int_equal(count_of(SECOND, "copy in"), !c);
    assert_int_equal(count_of(SECOND, "launch"), !c);
  }
  tn_session_release(session);
  tn_executable_release(exe);
  null_check_closed();
}

/* The driver does not track memory, so the executable checks callers' tensors by its own list. Other memory is not
 * checked. */
static void test_extents_of_callers_tensors(void **state) {
  static const char text[] = "graph \"g\" {\n  input x: f32[n]\n  y: f32[n] = negate(x)\n  output \"y\" = y\n}\n";
  const char *const place[] = {"y=island:2"};
  tn_compile_options options = {.size = sizeof options,
                                .target = "native;island -device=2",
                                .host = "native",
                                .no_cache = true,
                                .compile_threads = 1,
                                .place = place,
                                .place_count = 1};
  tn_module *module;
  tn_executable *exe;
  tn_session *session;
  null_forget();
  check_ok(tn_compile("g.tng", text, sizeof text - 1, &options, &module));
  check_ok(tn_module_load(module, NULL, &exe));
  tn_module_release(module);
  tn__device_driver driver = null_driver(kDLExtDev);
  for (uint32_t i = 1; i < exe->device_count; i++) exe->drivers[i] = &driver;
  check_ok(tn_session_create(exe, NULL, &session));
  int64_t shape[1] = {1000};
  DLManagedTensorVersioned *tensors[3];
  for (int i = 0; i < 3; i++) check_ok(tn_device_tensor_create(exe, exe->devices[1], TN_F32, 1, shape, &tensors[i]));
  tensors[0]->deleter(tensors[0]); /* remove from the middle of the list as well as from its end */
  for (int64_t n = 999; n < 1002; n++)
    for (int i = 1; i < 3; i++) {
      shape[0] = n;
      DLTensor bound = tensors[i]->dl_tensor;
      bound.shape = shape;
      check_ok(tn_session_set_input(session, NULL, "x", &bound, TN_BIND_NEXT));
      tn_status *status = tn_session_invoke(session, NULL);
      if (n <= 1000)
        check_ok(status);
      else
        check_fails(status, TN_INVALID_ARGUMENT,
                    "input \"x\": the tensor has 4004 bytes on island:2, and the memory that it begins in ends before: "
                    "make it as large as its shape says");
    }
  static float foreign[1];
  DLTensor bound = tensors[1]->dl_tensor;
  shape[0] = 1, bound.shape = shape, bound.data = foreign;
  check_ok(tn_session_set_input(session, NULL, "x", &bound, TN_BIND_NEXT));
  check_ok(tn_session_invoke(session, NULL));
  for (int i = 1; i < 3; i++) tensors[i]->deleter(tensors[i]);
  tn_session_release(session);
  tn_executable_release(exe);
  null_check_closed();
}

static void test_a_kernel_that_fails(void **state) {
  program p;
  tn_session *session;
  int64_t x[N] = {1, 2, 3}, y[N];
  null_forget();
  make(&p, NULL);
  check_ok(open_session(&p, NULL, &session));
  null_result = TN_KERNEL_INDEX_OUT_OF_RANGE;
  tn_status *status = invoke(session, x, y);
  assert_int_equal(tn_status_code_of(status), TN_OUT_OF_RANGE);
  assert_non_null(strstr(tn_status_message(status), "first"));
  tn_status_free(status);
  assert_null(strstr(null_records[SECOND].text, "launch")); /* nothing computes on what was never made */
  tn_session_release(session);
  release(&p);
  null_check_closed();
}

/* Rooflines are of the device that runs a kernel. */
static void test_limits_of_devices(void **state) {
  program p;
  tn_session *session;
  tn_profile *profile;
  tn_machine_limits limits;
  const char *bound;
  null_forget();
  make(&p, NULL);
  check_ok(open_session(&p, NULL, &session));
  check_ok(tn_session_start_profile(session, &profile));
  check_invoke(session);
  assert_true(tn_profile_device_limits(profile, "first", &limits)); /* whose driver says nothing */
  assert_int_equal(limits.size, 0);
  assert_true(tn_machine_roofline(&limits, 1e9, 1e9, &bound) < 0);
  null_tells_nature = true;
  assert_true(tn_profile_device_limits(profile, "second", &limits));
  assert_string_equal(limits.target, "null:5");
  assert_float_equal(tn_machine_roofline(&limits, 1.28e12, 1, &bound), 1, 1e-9);
  assert_string_equal(bound, "arithmetic");
  assert_float_equal(tn_machine_roofline(&limits, 1, 1e11, &bound), 1, 1e-9);
  assert_string_equal(bound, "memory");
  null_tells_nature = false;
  assert_false(tn_profile_device_limits(profile, "copy", &limits)); /* the host's */
  tn_profile_release(profile);
  tn_session_release(session);
  release(&p);
}

static int count_copies(int device) {
  int count = 0;
  for (const char *at = null_records[device].text; (at = strstr(at, "copy in")) != NULL; at++) count++;
  return count;
}

/* A program has a constant for each device that reads it. Where two are one by a map it goes there once, and so it
 * counts for what a session may have. */
static void test_constants_of_devices_that_are_one(void **state) {
  static const char *const map[] = {"island:5=island:2"};
  static const int64_t numbers[3][N] = {{1, 2, 3}, {1, 2, 4}, {1, 2}}; /* "d" is "a" once more */
  tn__target target;
  test_exe t;
  check_ok(tn__target_parse("native", &target));
  test_exe_init(&t, "native");
  const int first = tn__exe_device(t.exe, kDLExtDev, FIRST, &target),
            second = tn__exe_device(t.exe, kDLExtDev, SECOND, &target);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  for (int i = 0; i < 4; i++) {
    const tn__operand whole[1] = {DIM(N)};
    const int device = i < 2 ? first : second;
    int constant = tn__exe_constant_on(t.exe, device, (const char *[]){"a", "b", "c", "d"}[i], TN_I64, 1,
                                       (int64_t[]){i == 2 ? N - 1 : N}, numbers[i == 3 ? 0 : i], i == 2 ? 16 : 24);
    if (i == 2) continue;
    tn__exe_register_on(f, device, tn__exe_register(f, TN_I64, 1, whole, TN__STORAGE_CONSTANT, constant, nowhere));
  }
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&t);
  for (int mapped = 0; mapped < 2; mapped++) {
    const tn_load_options options = {.size = sizeof options, .device_map = map, .device_map_count = mapped};
    const tn_memory_setting just = {"island:2", mapped ? 24 + 24 + 16 : 24 + 24};
    const tn_session_options limited = {.size = sizeof limited, .memory = &just, .memory_count = 1, .threads = 1};
    tn_executable *exe;
    tn_session *session;
    null_forget();
    tn__device_driver driver = null_driver(kDLExtDev);
    check_ok(tn_executable_load_memory(bytes.data, bytes.size, &options, &exe));
    for (uint32_t i = 1; i < exe->device_count; i++) exe->drivers[i] = &driver;
    check_ok(tn_session_create(exe, &limited, &session));
    assert_int_equal(count_copies(FIRST), mapped ? 3 : 2);
    assert_int_equal(count_copies(SECOND), mapped ? 0 : 2);
    assert_int_equal(null_records[FIRST].live, mapped ? 3 : 2);
    check_ok(tn_session_invoke(session, NULL));
    tn_session_release(session);
    tn_executable_release(exe);
    assert_int_equal(null_records[FIRST].live, 0);
    null_check_closed();
  }
  test_exe_release(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_asked),
      cmocka_unit_test(test_sessions_share),
      cmocka_unit_test(test_sessions_in_threads),
      cmocka_unit_test(test_a_device_without_memory),
      cmocka_unit_test(test_memory_that_is_kept),
      cmocka_unit_test(test_how_much_is_kept),
      cmocka_unit_test(test_a_device_that_disappears),
      cmocka_unit_test(test_a_device_that_came_back),
      cmocka_unit_test(test_no_memory_of_the_host),
      cmocka_unit_test(test_many_calls),
      cmocka_unit_test(test_an_arm_that_does_not_run),
      cmocka_unit_test(test_extents_of_callers_tensors),
      cmocka_unit_test(test_a_kernel_that_fails),
      cmocka_unit_test(test_limits_of_devices),
      cmocka_unit_test(test_constants_of_devices_that_are_one),
  };
  return cmocka_run_group_tests_name("null device", tests, NULL, NULL);
}
