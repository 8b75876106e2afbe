/* Programs on several devices in queues: random ones that use memory again and again, also in functions that are called
 * in loops, against the same steps one after the other; that devices do work at the same time; and what fails. Kernels
 * are C functions of the test, so that ThreadSanitizer sees what an event that is missing does. */
#include <stdatomic.h>
#include <unistd.h>

#include "runtime/executable/executable.h"
#include "runtime/format/format.h"
#include "runtime/island/island.h"
#include "unit/trampoline.h"

#define DIM(n) ((tn__operand){0, 0, n})
#define SYM(s) ((tn__operand){1, 0, s})
enum { MOST_DEVICES = 5, CELLS = 8, WORDS = 16, STEP_WORDS = 8, PROGRAMS = 200, MEMORY = 16, BYTES = WORDS * 8 };
static const tn__operand nowhere = {0, 0, 0};

static uint64_t random_state;
static int below(int n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int)((random_state >> 33) % (uint64_t)n);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* z[i] = 3 x[i] + y[i] + 1; now and then it takes its time. */
static int32_t mix(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const int64_t *x = buffers[0], *y = buffers[1];
  int64_t *z = buffers[2];
  if (env != NULL && (x[0] & 15) == 3) usleep(100);
  for (int i = 0; i < WORDS; i++) z[i] = (int64_t)(3 * (uint64_t)x[i] + (uint64_t)y[i] + 1);
  return TN_KERNEL_OK;
}

/* Returns once two callers wait in it. */
static atomic_int met;
static void meets(void) {
  atomic_fetch_add(&met, 1);
  while (atomic_load(&met) < 2) usleep(100);
}

static int32_t meet(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  meets();
  return mix(NULL, buffers, scalars);
}

static tn_status *meeting_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  meets();
  return tn__device_island_concurrent.copy(stream, kind, to, from, bytes);
}

static int32_t slow_mix(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  usleep(3000);
  return mix(NULL, buffers, scalars);
}

static int32_t fail_on_21(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const int64_t *x = buffers[0];
  if (x[1] == 21) return TN_KERNEL_INDEX_OUT_OF_RANGE;
  return mix(env, buffers, scalars);
}

static tn_status *slow_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  usleep(50000);
  return tn__device_island_concurrent.copy(stream, kind, to, from, bytes);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* A place in a device's memory: in its arena, at eight words that it may share with its neighbours, or a block. */
typedef struct cell {
  int reg;
  int64_t *is; /* what it holds when all has happened in order */
} cell;

typedef struct function {
  tn__exe_func *f;
  cell cells[MOST_DEVICES][CELLS];
  int64_t arenas[MOST_DEVICES][MEMORY * STEP_WORDS + WORDS], blocks[MOST_DEVICES][2][WORDS];
  struct {
    int kind, device, from, x, y, z;
  } steps[200];
  int step_count;
} function;

typedef struct program {
  test_exe t;
  int devices[MOST_DEVICES], mix[MOST_DEVICES], meet[MOST_DEVICES], failing[MOST_DEVICES], device_count;
} program;

static void begin(program *p, int islands) {
  tn__target target;
  check_ok(tn__target_parse("native", &target));
  test_exe_init(&p->t, "native");
  p->device_count = islands + 1;
  for (int i = 0; i < p->device_count; i++) {
    p->devices[i] = i == 0 ? 0 : tn__exe_device(p->t.exe, kDLExtDev, i, &target);
    char name[16];
    snprintf(name, sizeof name, "mix%d", i);
    tn__exe_kernel_on(p->t.exe, p->devices[i], p->mix[i] = test_exe_kernel(&p->t, name, mix, 3, 0));
    snprintf(name, sizeof name, "meet%d", i);
    tn__exe_kernel_on(p->t.exe, p->devices[i], p->meet[i] = test_exe_kernel(&p->t, name, meet, 3, 0));
    snprintf(name, sizeof name, "fail%d", i);
    tn__exe_kernel_on(p->t.exe, p->devices[i], p->failing[i] = test_exe_kernel(&p->t, name, fail_on_21, 3, 0));
  }
}

static void emit(tn__exe_func *f, tn__opcode op, int a, int b) {
  tn__exe_emit(f, op, (const uint32_t[]){(uint32_t)a, (uint32_t)b}, op == TN__OP_ALLOC ? 1 : 2);
}

static int place(const program *p, tn__exe_func *f, int device, tn__storage storage, int index, tn__operand offset) {
  const tn__operand dims[1] = {DIM(WORDS)};
  int reg = tn__exe_register(f, TN_I64, 1, dims, storage, index, offset);
  tn__exe_register_on(f, p->devices[device], reg);
  if (storage == TN__STORAGE_DYNAMIC) emit(f, TN__OP_ALLOC, reg, 0);
  return reg;
}

static void emit_kernel(tn__exe_func *f, int kernel, int x, int y, int z) {
  tn__exe_emit_kernel(f, kernel, (const int[]){x, y}, 2, &z, 1, NULL, 0);
}

/* Six places of an arena that overlap, one at a scalar, and a block. */
static void make_cells(const program *p, function *g) {
  for (int d = 0; d < p->device_count; d++) {
    int behind = tn__exe_emit_const(g->f, (MEMORY - 2) * STEP_WORDS * 8);
    for (int c = 0; c < CELLS; c++) {
      int at = c < 6 ? below(MEMORY - 4) * STEP_WORDS : (MEMORY - 2) * STEP_WORDS;
      g->cells[d][c].is = c < 7 ? g->arenas[d] + at : g->blocks[d][0];
      if (c < 7) g->cells[d][c].reg = place(p, g->f, d, TN__STORAGE_ARENA, 0, c < 6 ? DIM(at * 8) : SYM(behind));
    }
    tn__exe_arena_on(g->f, p->devices[d], DIM(MEMORY * STEP_WORDS * 8));
  }
  for (int d = 0; d < p->device_count; d++) g->cells[d][7].reg = place(p, g->f, d, TN__STORAGE_DYNAMIC, 0, nowhere);
}

/* All cells from `from`, then kernels and copies between any of them. */
static void make_steps(const program *p, function *g, int from, int count) {
  for (int d = 0; d < p->device_count; d++)
    for (int c = 0; c < CELLS; c++) emit(g->f, TN__OP_COPY, g->cells[d][c].reg, from);
  g->step_count = count;
  for (int i = 0; i < count; i++) {
    int d = below(p->device_count), x = below(CELLS), y = below(CELLS), z = below(CELLS),
        other = below(p->device_count);
    bool copies = below(3) == 0;
    g->steps[i].kind = copies, g->steps[i].device = d, g->steps[i].from = other;
    g->steps[i].x = x, g->steps[i].y = y, g->steps[i].z = z;
    if (copies)
      emit(g->f, TN__OP_COPY, g->cells[d][z].reg, g->cells[other][x].reg);
    else
      emit_kernel(g->f, p->mix[d], g->cells[d][x].reg, g->cells[d][y].reg, g->cells[d][z].reg);
  }
}

static void do_steps(const program *p, function *g, const int64_t *from) {
  for (int d = 0; d < p->device_count; d++)
    for (int c = 0; c < CELLS; c++) memcpy(g->cells[d][c].is, from, BYTES);
  for (int i = 0; i < g->step_count; i++) {
    const int64_t *x = g->cells[g->steps[i].kind ? g->steps[i].from : g->steps[i].device][g->steps[i].x].is;
    const int64_t *y = g->cells[g->steps[i].device][g->steps[i].y].is;
    int64_t *z = g->cells[g->steps[i].device][g->steps[i].z].is;
    if (g->steps[i].kind)
      memmove(z, x, BYTES);
    else
      mix(NULL, (void *[]){(void *)(uintptr_t)x, (void *)(uintptr_t)y, z}, NULL);
  }
}

/* ---- random programs --------------------------------------------------------------------------------------------- */

static const tn_load_options turns = {.size = sizeof turns},
                             concurrent = {.size = sizeof concurrent, .concurrent_islands = true};

static tn_session *load(tn__bytes bytes, const tn_load_options *options, tn_executable **exe) {
  tn_session *session;
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, options, exe));
  check_ok(tn_session_create(*exe, NULL, &session));
  return session;
}

static tn_status *invoke(tn_session *session, int64_t *x, int64_t *y) {
  int64_t shape[1] = {WORDS};
  DLTensor in = test_tensor(TN_I64, 1, shape, x), out = test_tensor(TN_I64, 1, shape, y);
  return tn_session_invoke_with_outputs(session, NULL, &in, 1, &out, 1);
}

/* rounds times variable = body(variable), which trade places */
static void emit_loop(program *p, function *main, const function *body, int variable, int device, int rounds) {
  tn__exe_func *f = main->f;
  int next = place(p, f, device, TN__STORAGE_DYNAMIC, 0, nowhere), i = tn__exe_emit_const(f, 0);
  int one = tn__exe_emit_const(f, 1), end = tn__exe_emit_const(f, rounds);
  uint32_t head = tn__exe_here(f);
  int more = tn__exe_emit_scalar_op(f, TN__SCALAR_LT, i, end);
  uint32_t out = tn__exe_emit(f, TN__OP_JUMP_IF_ZERO, (const uint32_t[]){(uint32_t)more, 0}, 2);
  tn__exe_emit_call(f, tn__exe_function_index(body->f), &variable, 1, &next, 1);
  emit(f, TN__OP_MOVE, variable, next);
  tn__exe_emit(f, TN__OP_SCALAR_OP, (const uint32_t[]){(uint32_t)i, (uint32_t)i, (uint32_t)one, TN__SCALAR_ADD}, 4);
  tn__exe_emit(f, TN__OP_JUMP, &head, 1);
  tn__exe_patch(f, out, 1, tn__exe_here(f));
}

static void run_drawn(uint64_t seed) {
  static function main, body;
  program p;
  const tn__operand dims[1] = {DIM(WORDS)};
  random_state = seed;
  memset(&main, 0, sizeof main);
  memset(&body, 0, sizeof body);
  begin(&p, 1 + below(MOST_DEVICES - 1));
  main.f = tn__exe_function(p.t.exe, "main");
  body.f = tn__exe_function(p.t.exe, "body");
  tn__exe_func *const both[] = {main.f, body.f};
  for (int i = 0; i < 2; i++) {
    tn__exe_input(both[i], "x", TN_I64, 1, dims);
    tn__exe_output(both[i], "y", TN_I64, 1, dims);
  }
  int rounds = below(6), where[3] = {below(p.device_count), below(p.device_count), below(p.device_count)};
  /* Where the input is, what the loop changes, and the output. */
  int passed[3] = {below(p.device_count), below(p.device_count), below(p.device_count)};
  make_cells(&p, &body);
  make_steps(&p, &body, place(&p, body.f, passed[1], TN__STORAGE_INPUT, 0, nowhere), 5 + below(40));
  emit(body.f, TN__OP_COPY, place(&p, body.f, passed[1], TN__STORAGE_OUTPUT, 0, nowhere), body.cells[where[0]][0].reg);
  tn__exe_emit(body.f, TN__OP_RETURN, NULL, 0);

  make_cells(&p, &main);
  make_steps(&p, &main, place(&p, main.f, passed[0], TN__STORAGE_INPUT, 0, nowhere), 5 + below(40));
  int variable = place(&p, main.f, passed[1], TN__STORAGE_DYNAMIC, 0, nowhere);
  emit(main.f, TN__OP_COPY, variable, main.cells[where[1]][1].reg);
  emit_loop(&p, &main, &body, variable, passed[1], rounds);
  emit(main.f, TN__OP_COPY, main.cells[where[2]][2].reg, variable);
  emit_kernel(main.f, p.mix[where[2]], main.cells[where[2]][2].reg, main.cells[where[2]][3].reg,
              main.cells[where[2]][7].reg);
  emit(main.f, TN__OP_COPY, place(&p, main.f, passed[2], TN__STORAGE_OUTPUT, 0, nowhere), main.cells[where[2]][7].reg);
  tn__exe_emit(main.f, TN__OP_RETURN, NULL, 0);

  tn__bytes bytes = test_exe_finish(&p.t);
  const char *const map = "island:1=cpu:0"; /* the host takes the place of one of several */
  const tn_load_options partly = {
      .size = sizeof partly, .concurrent_islands = true, .device_map = &map, .device_map_count = 1};
  const tn_load_options *const options[] = {&turns, &concurrent, &partly};
  for (int o = 0; o < 3; o++) {
    tn_executable *exe;
    tn_session *session = load(bytes, options[o], &exe);
    for (int run = 0; run < 3; run++) {
      int64_t x[WORDS], y[WORDS], state[WORDS];
      for (int i = 0; i < WORDS; i++) x[i] = below(1000);
      do_steps(&p, &main, x);
      memcpy(state, main.cells[where[1]][1].is, BYTES);
      for (int i = 0; i < rounds; i++) {
        do_steps(&p, &body, state);
        memcpy(state, body.cells[where[0]][0].is, BYTES);
      }
      memcpy(main.cells[where[2]][2].is, state, BYTES);
      const cell *cells = main.cells[where[2]];
      mix(NULL, (void *[]){cells[2].is, cells[3].is, cells[7].is}, NULL);
      check_ok(invoke(session, x, y));
      assert_memory_equal(y, cells[7].is, BYTES);
    }
    tn_session_release(session);
    tn_executable_release(exe);
  }
  test_exe_release(&p.t);
}

static void test_memory_that_is_used_again(void **state) {
  for (uint64_t seed = 1; seed <= PROGRAMS; seed++) run_drawn(seed);
}

/* A function that two devices work in is called again before the second has read what the first gives it: the memory of
 * a variable is written by the next round but one, and awaits that. */
static void test_variables_that_are_read_late(void **state) {
  enum { ROUNDS = 6 };
  program p;
  const tn__operand dims[1] = {DIM(WORDS)};
  begin(&p, 2);
  tn__exe_func *f = tn__exe_function(p.t.exe, "main"), *body = tn__exe_function(p.t.exe, "body");
  tn__exe_input(f, "x", TN_I64, 1, dims);
  tn__exe_output(f, "y", TN_I64, 1, dims);
  for (int i = 0; i < 2; i++) {
    tn__exe_input(body, i == 0 ? "fast" : "slow", TN_I64, 1, dims);
    tn__exe_output(body, i == 0 ? "next_fast" : "next_slow", TN_I64, 1, dims);
  }
  int slow = test_exe_kernel(&p.t, "slow", slow_mix, 3, 0);
  tn__exe_kernel_on(p.t.exe, p.devices[2], slow);
  int taken[2], given[2], now[2], next[2];
  for (int i = 0; i < 2; i++) taken[i] = place(&p, body, 1 + i, TN__STORAGE_INPUT, i, nowhere);
  for (int i = 0; i < 2; i++) given[i] = place(&p, body, 1 + i, TN__STORAGE_OUTPUT, i, nowhere);
  int a = place(&p, body, 2, TN__STORAGE_DYNAMIC, 0, nowhere), b = place(&p, body, 2, TN__STORAGE_DYNAMIC, 0, nowhere);
  emit_kernel(body, p.mix[1], taken[0], taken[0], given[0]);
  emit_kernel(body, slow, taken[1], taken[1], a);
  emit(body, TN__OP_COPY, b, taken[0]);
  emit_kernel(body, p.mix[2], a, b, given[1]);
  tn__exe_emit(body, TN__OP_RETURN, NULL, 0);
  int x = place(&p, f, 0, TN__STORAGE_INPUT, 0, nowhere), y = place(&p, f, 2, TN__STORAGE_OUTPUT, 0, nowhere);
  for (int i = 0; i < 2; i++) now[i] = place(&p, f, 1 + i, TN__STORAGE_DYNAMIC, 0, nowhere);
  for (int i = 0; i < 2; i++) next[i] = place(&p, f, 1 + i, TN__STORAGE_DYNAMIC, 0, nowhere);
  for (int i = 0; i < 2; i++) emit(f, TN__OP_COPY, now[i], x);
  for (int r = 0; r < ROUNDS; r++) {
    tn__exe_emit_call(f, tn__exe_function_index(body), now, 2, next, 2);
    for (int i = 0; i < 2; i++) emit(f, TN__OP_MOVE, now[i], next[i]);
  }
  emit(f, TN__OP_COPY, y, now[1]);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe;
  tn_session *session = load(test_exe_finish(&p.t), &concurrent, &exe);
  int64_t in[WORDS], out[WORDS], fast[WORDS], sums[WORDS], twice[WORDS];
  for (int i = 0; i < WORDS; i++) in[i] = fast[i] = sums[i] = i;
  for (int r = 0; r < ROUNDS; r++) {
    mix(NULL, (void *[]){sums, sums, twice}, NULL);
    mix(NULL, (void *[]){twice, fast, sums}, NULL);
    mix(NULL, (void *[]){fast, fast, fast}, NULL);
  }
  for (int run = 0; run < 3; run++) {
    check_ok(invoke(session, in, out));
    assert_memory_equal(out, sums, BYTES);
  }
  test_exe_close(&p.t, exe, session);
}

/* ---- at the same time -------------------------------------------------------------------------------------------- */

static tn__exe_func *begin_main(program *p, int islands, int *x, int *y) {
  const tn__operand dims[1] = {DIM(WORDS)};
  begin(p, islands);
  tn__exe_func *f = tn__exe_function(p->t.exe, "main");
  tn__exe_input(f, "x", TN_I64, 1, dims);
  tn__exe_output(f, "y", TN_I64, 1, dims);
  *x = place(p, f, 0, TN__STORAGE_INPUT, 0, nowhere);
  *y = place(p, f, 0, TN__STORAGE_OUTPUT, 0, nowhere);
  return f;
}

/* Each of two kernels goes on when the other one runs: on two islands, or on an island and the host. */
static void run_meeting(bool with_host) {
  program p;
  int x, y;
  int64_t in[WORDS] = {1, 2}, out[WORDS];
  tn__exe_func *f = begin_main(&p, 2, &x, &y);
  int a = place(&p, f, 1, TN__STORAGE_DYNAMIC, 0, nowhere), b = place(&p, f, 2, TN__STORAGE_DYNAMIC, 0, nowhere);
  int c = place(&p, f, 0, TN__STORAGE_DYNAMIC, 0, nowhere), d = place(&p, f, 0, TN__STORAGE_DYNAMIC, 0, nowhere);
  emit(f, TN__OP_COPY, a, x);
  emit(f, TN__OP_COPY, b, x);
  emit_kernel(f, p.meet[1], a, a, a);
  if (with_host)
    emit_kernel(f, p.meet[0], x, x, d);
  else
    emit_kernel(f, p.meet[2], b, b, b);
  emit(f, TN__OP_COPY, c, a);
  if (!with_host) emit(f, TN__OP_COPY, d, b);
  emit_kernel(f, p.mix[0], c, d, y);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe;
  tn_session *session = load(test_exe_finish(&p.t), &concurrent, &exe);
  atomic_store(&met, 0);
  check_ok(invoke(session, in, out));
  assert_int_equal(out[0], 3 * (4 * 1 + 1) + (4 * 1 + 1) + 1);
  assert_int_equal(out[1], 3 * (4 * 2 + 1) + (4 * 2 + 1) + 1);
  test_exe_close(&p.t, exe, session);
}

static void test_devices_work_at_the_same_time(void **state) {
  run_meeting(false);
  run_meeting(true);
}

/* A copy to an island goes on when a kernel runs, and the kernel when the copy is made: one of another island, or of
 * the host. */
static void run_meeting_with_copy(bool with_host) {
  program p;
  int x, y;
  int64_t in[WORDS] = {1, 2}, out[WORDS];
  tn__exe_func *f = begin_main(&p, 2, &x, &y);
  int a = place(&p, f, 1, TN__STORAGE_DYNAMIC, 0, nowhere), b = place(&p, f, 2, TN__STORAGE_DYNAMIC, 0, nowhere);
  int c = place(&p, f, 0, TN__STORAGE_DYNAMIC, 0, nowhere), d = place(&p, f, 0, TN__STORAGE_DYNAMIC, 0, nowhere);
  emit(f, TN__OP_COPY, a, x);
  if (!with_host) emit_kernel(f, p.meet[1], a, a, a);
  emit(f, TN__OP_COPY, b, x);
  if (with_host)
    emit_kernel(f, p.meet[0], x, x, c);
  else
    emit(f, TN__OP_COPY, c, a);
  emit(f, TN__OP_COPY, d, b);
  emit_kernel(f, p.mix[0], c, d, y);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe;
  tn_session *session;
  tn__bytes bytes = test_exe_finish(&p.t);
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, &concurrent, &exe));
  tn__device_driver meeting = tn__device_island_concurrent;
  meeting.copy = meeting_copy;
  exe->drivers[2] = &meeting;
  check_ok(tn_session_create(exe, NULL, &session));
  atomic_store(&met, 0);
  check_ok(invoke(session, in, out));
  assert_int_equal(out[0], 3 * (4 * 1 + 1) + 1 + 1);
  assert_int_equal(out[1], 3 * (4 * 2 + 1) + 2 + 1);
  test_exe_close(&p.t, exe, session);
}

static void test_copies_overlap_with_kernels(void **state) {
  run_meeting_with_copy(false);
  run_meeting_with_copy(true);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* A kernel on an island fails in the third round of a loop, in a function that a function calls. What is said is
 * what is said when all of it runs on the host. */
static void test_failures_say_what_they_say_on_the_host(void **state) {
  static const char *const map[] = {"island:1=cpu:0", "island:2=cpu:0"};
  const tn_load_options mapped = {.size = sizeof mapped, .device_map = map, .device_map_count = 2};
  const tn_load_options *const options[] = {&turns, &concurrent, &mapped};
  const tn__operand dims[1] = {DIM(WORDS)};
  static function main, body;
  program p;
  int x, y;
  main.f = begin_main(&p, 2, &x, &y);
  body.f = tn__exe_function(p.t.exe, "body");
  tn__exe_input(body.f, "x", TN_I64, 1, dims);
  tn__exe_output(body.f, "y", TN_I64, 1, dims);
  int variable = place(&p, main.f, 0, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_origin(main.f, "node \"loop\"");
  emit(main.f, TN__OP_COPY, variable, x);
  emit_loop(&p, &main, &body, variable, 0, 5);
  emit(main.f, TN__OP_COPY, y, variable);
  tn__exe_emit(main.f, TN__OP_RETURN, NULL, 0);
  int a = place(&p, body.f, 1, TN__STORAGE_DYNAMIC, 0, nowhere),
      b = place(&p, body.f, 2, TN__STORAGE_DYNAMIC, 0, nowhere);
  int from = place(&p, body.f, 0, TN__STORAGE_INPUT, 0, nowhere),
      to = place(&p, body.f, 0, TN__STORAGE_OUTPUT, 0, nowhere);
  emit(body.f, TN__OP_COPY, a, from);
  tn__exe_origin(body.f, "node \"inner\"");
  emit_kernel(body.f, p.failing[1], a, a, a);
  tn__exe_origin(body.f, "node \"copy\"");
  emit(body.f, TN__OP_COPY, b, a);
  emit_kernel(body.f, p.mix[2], b, b, b);
  emit(body.f, TN__OP_COPY, to, a);
  tn__exe_emit(body.f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&p.t);
  for (int o = 0; o < 3; o++) {
    tn_executable *exe;
    tn_session *session = load(bytes, options[o], &exe);
    for (int again = 0; again < 3; again++) { /* z = 4 x + 1 */
      int64_t in[WORDS] = {0}, out[WORDS];
      in[1] = 1; /* then 5, then 21 */
      check_fails(invoke(session, in, out), TN_OUT_OF_RANGE,
                  "node \"loop\": node \"inner\": kernel \"fail1\": index out of range: its indices must be in [-n, n) "
                  "where they pick from n elements");
      in[1] = -1;
      check_ok(invoke(session, in, out));
      assert_int_equal(out[1], -683);
    }
    tn_session_release(session);
    tn_executable_release(exe);
  }
  test_exe_release(&p.t);
}

/* A device whose launches return before their results are known tells which kernels it may have been. */
static void test_a_failure_that_is_told_late(void **state) {
  tn__device_driver late = tn__device_island_concurrent;
  late.synchronous = false;
  program p;
  int x, y;
  tn__exe_func *f = begin_main(&p, 2, &x, &y);
  int a = place(&p, f, 1, TN__STORAGE_DYNAMIC, 0, nowhere), b = place(&p, f, 2, TN__STORAGE_DYNAMIC, 0, nowhere);
  emit(f, TN__OP_COPY, a, x);
  emit(f, TN__OP_COPY, b, a);
  tn__exe_origin(f, "node \"first\"");
  emit_kernel(f, p.mix[2], b, b, b);
  tn__exe_origin(f, "node \"second\"");
  emit_kernel(f, p.failing[2], b, b, b);
  tn__exe_origin(f, "node \"third\"");
  emit_kernel(f, p.meet[2], b, b, b);
  tn__exe_origin(f, NULL);
  emit(f, TN__OP_COPY, y, b);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe;
  tn__bytes bytes = test_exe_finish(&p.t);
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, &concurrent, &exe));
  tn__device_driver slow = tn__device_island_concurrent;
  slow.copy = slow_copy; /* so that the kernels are in the queue when what they need is there */
  exe->drivers[1] = &slow, exe->drivers[2] = &late;
  tn_session *session;
  check_ok(tn_session_create(exe, NULL, &session));
  int64_t in[WORDS] = {0}, out[WORDS];
  in[1] = 5; /* then 21 */
  check_fails(
      invoke(session, in, out), TN_OUT_OF_RANGE,
      "node \"third\": one of the kernels from \"mix2\" on, of which this is the last: kernel \"meet2\": index out "
      "of range: its indices must be in [-n, n) where they pick from n elements");
  in[1] = 1;
  atomic_store(&met, 2);
  check_ok(invoke(session, in, out));
  test_exe_close(&p.t, exe, session);
}

/* ---- what is written --------------------------------------------------------------------------------------------- */

static int count(const char *text, const char *what) {
  int found = 0;
  for (const char *at = text; (at = strstr(at, what)) != NULL; at++) found++;
  return found;
}

/* What is in order anyway has no event. */
static void test_events_that_are_not_needed(void **state) {
  program p;
  int x, y;
  tn__exe_func *f = begin_main(&p, 3, &x, &y);
  int a = place(&p, f, 1, TN__STORAGE_DYNAMIC, 0, nowhere), b = place(&p, f, 2, TN__STORAGE_DYNAMIC, 0, nowhere);
  int c = place(&p, f, 3, TN__STORAGE_DYNAMIC, 0, nowhere), h = place(&p, f, 0, TN__STORAGE_DYNAMIC, 0, nowhere);
  emit(f, TN__OP_COPY, a, x);
  emit_kernel(f, p.mix[1], a, a, a);
  emit(f, TN__OP_COPY, b, a); /* waits for a */
  emit_kernel(f, p.mix[2], b, b, b);
  emit(f, TN__OP_COPY, c, b); /* waits for b */
  emit(f, TN__OP_COPY, c, a); /* which waited for a */
  emit(f, TN__OP_COPY, h, c);
  emit_kernel(f, p.mix[0], h, h, y); /* waits for h */
  emit_kernel(f, p.mix[1], a, a, a); /* as the host has waited for all of them */
  emit(f, TN__OP_COPY, b, x);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&p.t);
  tn_executable *exe;
  char *text;
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  check_ok(tn_executable_disassemble(exe, &text));
  assert_int_equal(count(text, " RECORD "), 3);
  assert_int_equal(count(text, " AWAIT "), 2);
  assert_int_equal(count(text, " HOST_AWAIT "), 1);
  assert_int_equal(count(text, "dynamic, on device 1\n"), 1);
  assert_int_equal(count(text, "dynamic\n"), 1); /* the host's */
  free(text);
  tn_executable_release(exe);
  test_exe_release(&p.t);
}

static void test_events_that_cannot_be(void **state) {
  static const struct {
    tn__opcode op;
    uint32_t a, b;
    const char *words;
  } cases[] = {
      {TN__OP_RECORD, 0, 0, "the executable is damaged: function \"main\", code word 0, RECORD: device 0 of 2"},
      {TN__OP_AWAIT, 2, 0, "the executable is damaged: function \"main\", code word 0, AWAIT: device 2 of 2"},
      {TN__OP_RECORD, 1, 5, "the executable is damaged: function \"main\", code word 0, RECORD: event 5 of 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    program p;
    int x, y;
    tn_executable *exe;
    tn__exe_func *f = begin_main(&p, 1, &x, &y);
    tn__exe_emit(f, cases[i].op, (const uint32_t[]){cases[i].a, cases[i].b}, 2);
    emit(f, TN__OP_COPY, y, x);
    tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
    tn__bytes bytes = test_exe_finish(&p.t);
    check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS, cases[i].words);
    test_exe_release(&p.t);
  }
}

/* Its record may say anything of what it takes: no instruction gives it that. */
static void test_kernels_that_nothing_calls(void **state) {
  program p;
  int x, y;
  int64_t in[WORDS] = {1, 2}, out[WORDS];
  tn__exe_func *f = begin_main(&p, 1, &x, &y);
  tn__exe_kernel_on(p.t.exe, p.devices[1], test_exe_kernel(&p.t, "endless", mix, -1, 0));
  int a = place(&p, f, 1, TN__STORAGE_DYNAMIC, 0, nowhere);
  emit(f, TN__OP_COPY, a, x);
  emit_kernel(f, p.mix[1], a, a, a);
  emit(f, TN__OP_COPY, y, a);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe;
  tn_session *session = load(test_exe_finish(&p.t), &turns, &exe);
  check_ok(invoke(session, in, out));
  assert_int_equal(out[0], 3 * 1 + 1 + 1);
  assert_int_equal(out[1], 3 * 2 + 2 + 1);
  test_exe_close(&p.t, exe, session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_that_is_used_again),
      cmocka_unit_test(test_variables_that_are_read_late),
      cmocka_unit_test(test_devices_work_at_the_same_time),
      cmocka_unit_test(test_copies_overlap_with_kernels),
      cmocka_unit_test(test_failures_say_what_they_say_on_the_host),
      cmocka_unit_test(test_a_failure_that_is_told_late),
      cmocka_unit_test(test_events_that_are_not_needed),
      cmocka_unit_test(test_events_that_cannot_be),
      cmocka_unit_test(test_kernels_that_nothing_calls),
  };
  return cmocka_run_group_tests_name("vm_queues", tests, NULL, NULL);
}
