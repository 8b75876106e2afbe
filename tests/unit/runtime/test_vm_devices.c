/* Programs whose values are on several devices: islands, whose memory nobody else may touch, so that each test that
 * passes has copied what it had to. Kernels are C functions of the test. */
#include "runtime/format/format.h"
#include "runtime/island/island.h"
#include "unit/trampoline.h"

#define DIM(n) ((tn__operand){0, 0, n})
#define SYM(s) ((tn__operand){1, 0, s})
enum { MOST_ISLANDS = 8, MOST_VALUES = 40, WORDS = 16, PROGRAMS = 300 };
static const tn__operand nowhere = {0, 0, 0};

/* z[i] = 3 x[i] + y[i], of i64; `n` elements. */
static int32_t mix(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const int64_t *x = buffers[0], *y = buffers[1];
  int64_t *z = buffers[2];
  for (int64_t i = 0; i < scalars[0]; i++) {
    if (x[i] == -1) return TN_KERNEL_BAD_VALUE;
    z[i] = (int64_t)(3 * (uint64_t)x[i] + (uint64_t)y[i]);
  }
  return TN_KERNEL_OK;
}

typedef struct program {
  test_exe t;
  tn__exe_func *f;
  int devices[MOST_ISLANDS + 1], kernels[MOST_ISLANDS + 1], device_count; /* the first is the host */
  int n;                                                                  /* the scalar with the size */
} program;

static void begin(program *p, int islands) {
  tn__target target;
  check_ok(tn__target_parse("native", &target));
  test_exe_init(&p->t, "native");
  p->device_count = islands + 1;
  for (int i = 0; i < p->device_count; i++) {
    p->devices[i] = i == 0 ? 0 : tn__exe_device(p->t.exe, kDLExtDev, 7 * i, &target);
    char name[16];
    snprintf(name, sizeof name, "mix%d", i);
    p->kernels[i] = test_exe_kernel(&p->t, name, mix, 3, 1);
    tn__exe_kernel_on(p->t.exe, p->devices[i], p->kernels[i]);
  }
  p->f = tn__exe_function(p->t.exe, "main");
  p->n = tn__exe_symbol(p->f, "n");
}

static int place(program *p, int device, tn__storage storage, int index, tn__operand offset) {
  tn__operand dims[1] = {SYM(p->n)};
  int reg = tn__exe_register(p->f, TN_I64, 1, dims, storage, index, offset);
  tn__exe_register_on(p->f, p->devices[device], reg);
  return reg;
}

static void emit_mix(program *p, int device, int x, int y, int z) {
  const int reads[] = {x, y};
  tn__exe_emit_kernel(p->f, p->kernels[device], reads, 2, &z, 1, &p->n, 1);
}

static void emit_copy(program *p, int to, int from) {
  tn__exe_emit(p->f, TN__OP_COPY, (const uint32_t[]){(uint32_t)to, (uint32_t)from}, 2);
}

static tn_status *run(program *p, int64_t n, int64_t *x, int64_t *y) {
  tn_executable *exe;
  tn_session *session = test_exe_open(&p->t, &exe);
  int64_t shape[1] = {n};
  DLTensor in = test_tensor(TN_I64, 1, shape, x), out = test_tensor(TN_I64, 1, shape, y);
  check_ok(tn_session_set_input(session, NULL, "x", &in, TN_BIND_PERSISTENT_IN_PLACE));
  check_ok(tn_session_set_output(session, NULL, "y", &out, TN_BIND_PERSISTENT_IN_PLACE));
  tn_status *status = NULL;
  for (int i = 0; i < 2 && status == NULL; i++)
    status = tn_session_invoke(session, NULL); /* the second reuses the first's */
  test_exe_close(&p->t, exe, session);
  return status;
}

/* ---- random programs --------------------------------------------------------------------------------------------- */

static uint64_t random_state;
static int below(int n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int)((random_state >> 33) % (uint64_t)n);
}

typedef struct drawn {
  int reg[MOST_VALUES][MOST_ISLANDS + 1]; /* of the value on the device, or -1 */
  int home[MOST_VALUES];
  int64_t is[MOST_VALUES][WORDS];
  int count;
} drawn;

/* The value on the device: where it is, or a copy, made once. */
static int on(program *p, drawn *d, int v, int device) {
  if (d->reg[v][device] >= 0) return d->reg[v][device];
  bool dynamic = below(2);
  int to = place(p, device, dynamic ? TN__STORAGE_DYNAMIC : TN__STORAGE_ARENA, 0,
                 dynamic ? nowhere : DIM((v * (MOST_ISLANDS + 1) + device) * 128));
  if (dynamic) tn__exe_emit(p->f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)to}, 1);
  emit_copy(p, to, d->reg[v][d->home[v]]);
  return d->reg[v][device] = to;
}

static int add(drawn *d, int device, int reg) {
  memset(d->reg[d->count], 0xff, sizeof d->reg[0]);
  d->reg[d->count][device] = reg;
  d->home[d->count] = device;
  return d->count++;
}

static void run_drawn(uint64_t seed) {
  static drawn d;
  static const int64_t hundreds[WORDS] = {100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100};
  program p;
  random_state = seed;
  memset(&d, 0, sizeof d);
  begin(&p, 1 + below(MOST_ISLANDS));
  tn__operand dims[1] = {SYM(p.n)}, whole[1] = {DIM(WORDS)};
  tn__exe_input(p.f, "x", TN_I64, 1, dims);
  tn__exe_output(p.f, "y", TN_I64, 1, dims);
  for (int i = 0; i < p.device_count; i++)
    tn__exe_arena_on(p.f, p.devices[i], DIM(MOST_VALUES * (MOST_ISLANDS + 1) * 128));
  int x = add(&d, 0, place(&p, 0, TN__STORAGE_INPUT, 0, nowhere));
  int64_t in[WORDS], out[WORDS], n = WORDS; /* constants have all of them */
  for (int i = 0; i < WORDS; i++) in[i] = d.is[x][i] = below(1000);
  int device = below(p.device_count);
  int constant = tn__exe_constant_on(p.t.exe, p.devices[device], "hundreds", TN_I64, 1, (int64_t[]){WORDS}, hundreds,
                                     sizeof hundreds);
  int reg = tn__exe_register(p.f, TN_I64, 1, whole, TN__STORAGE_CONSTANT, constant, nowhere);
  tn__exe_register_on(p.f, p.devices[device], reg);
  memcpy(d.is[add(&d, device, reg)], hundreds, sizeof hundreds);
  int operations = 1 + below(MOST_VALUES - 3);
  for (int i = 0; i < operations; i++) {
    int a = below(d.count), b = below(d.count);
    device = below(p.device_count);
    int left = on(&p, &d, a, device), right = on(&p, &d, b, device);
    int z = place(&p, device, TN__STORAGE_ARENA, 0, DIM((d.count * (MOST_ISLANDS + 1) + device) * 128));
    emit_mix(&p, device, left, right, z);
    int made = add(&d, device, z);
    for (int k = 0; k < WORDS; k++) d.is[made][k] = (int64_t)(3 * (uint64_t)d.is[a][k] + (uint64_t)d.is[b][k]);
  }
  int y = place(&p, 0, TN__STORAGE_OUTPUT, 0, nowhere);
  emit_copy(&p, y, d.reg[d.count - 1][d.home[d.count - 1]]);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  check_ok(run(&p, n, in, out));
  assert_memory_equal(out, d.is[d.count - 1], sizeof out);
}

static void test_any_placement_gives_the_same(void **state) {
  for (uint64_t seed = 1; seed <= PROGRAMS; seed++) run_drawn(seed);
}

/* ---- single things ----------------------------------------------------------------------------------------------- */

static void begin_with_values(program *p, int islands, int *x, int *y) {
  begin(p, islands);
  tn__operand dims[1] = {SYM(p->n)};
  tn__exe_input(p->f, "x", TN_I64, 1, dims);
  tn__exe_output(p->f, "y", TN_I64, 1, dims);
  *x = place(p, 0, TN__STORAGE_INPUT, 0, nowhere);
  *y = place(p, 0, TN__STORAGE_OUTPUT, 0, nowhere);
}

/* Larger than a piece of a copy, and a size that is known at run time only. */
static void test_large_values_between_islands(void **state) {
  enum { N = 300007 };
  program p;
  int x, y;
  begin_with_values(&p, 2, &x, &y);
  int a = place(&p, 1, TN__STORAGE_DYNAMIC, 0, nowhere), b = place(&p, 2, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_emit(p.f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)a}, 1);
  tn__exe_emit(p.f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)b}, 1);
  emit_copy(&p, a, x);
  emit_copy(&p, b, a);
  emit_copy(&p, y, b);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  int64_t *in = malloc(N * sizeof *in), *out = calloc(N, sizeof *out);
  for (int i = 0; i < N; i++) in[i] = (int64_t)i * i;
  check_ok(run(&p, N, in, out));
  assert_memory_equal(in, out, N * sizeof *in);
  free(in);
  free(out);
}

/* An arena may have no bytes, and a value no elements, so that there is no memory where it is. */
static void test_values_without_elements(void **state) {
  for (int64_t n = 0; n < 3; n++) {
    program p;
    int x, y;
    int64_t in[3] = {1, 2, 3}, out[3] = {7, 7, 7};
    begin_with_values(&p, 1, &x, &y);
    int line = tn__exe_emit_const(p.f, 64);
    int bytes = tn__exe_emit_scalar_op(p.f, TN__SCALAR_MUL, p.n, line);
    tn__exe_arena_on(p.f, p.devices[1], SYM(bytes));
    int a = place(&p, 1, TN__STORAGE_ARENA, 0, DIM(0));
    emit_copy(&p, a, x);
    emit_mix(&p, 1, a, a, a);
    emit_copy(&p, y, a);
    tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
    check_ok(run(&p, n, in, out));
    for (int i = 0; i < 3; i++) assert_int_equal(out[i], i < n ? 4 * in[i] : 7);
  }
}

static void test_a_kernel_that_fails_on_an_island(void **state) {
  program p;
  int x, y;
  int64_t in[2] = {5, -1}, out[2];
  begin_with_values(&p, 1, &x, &y);
  int a = place(&p, 1, TN__STORAGE_DYNAMIC, 0, nowhere), b = place(&p, 1, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_emit(p.f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)a}, 1);
  tn__exe_emit(p.f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)b}, 1);
  emit_copy(&p, a, x);
  emit_mix(&p, 1, a, a, b);
  emit_copy(&p, y, b);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  check_fails(run(&p, 2, in, out), TN_OUT_OF_RANGE, "kernel \"mix1\": a value that the operator does not allow");
}

/* ---- memories of one device -------------------------------------------------------------------------------------- */

static int memory_of(program *p, int island) {
  tn__target target;
  check_ok(tn__target_parse("native", &target));
  return tn__exe_device_memory(p->t.exe, kDLExtDev, 7 * island, &target, TN__MEMORY_TEXTURE);
}

/* A kernel reads and writes both memories of its island, and copies go from each to each. */
static void test_two_memories_of_an_island(void **state) {
  program p;
  int x, y;
  int64_t in[3] = {1, 2, 3}, out[3] = {7, 7, 7};
  begin_with_values(&p, 2, &x, &y);
  int texture[3] = {0, memory_of(&p, 1), memory_of(&p, 2)}, at[3][2];
  for (int i = 1; i <= 2; i++) {
    tn__exe_arena_on(p.f, p.devices[i], DIM(128));
    tn__exe_arena_on(p.f, texture[i], DIM(128));
    at[i][0] = place(&p, i, TN__STORAGE_ARENA, 0, DIM(0));
    at[i][1] = place(&p, i, TN__STORAGE_ARENA, 0, DIM(0));
    tn__exe_register_on(p.f, texture[i], at[i][1]);
  }
  emit_copy(&p, at[1][1], x);                    /* x */
  emit_copy(&p, at[1][0], at[1][1]);             /* within an island */
  emit_mix(&p, 1, at[1][0], at[1][1], at[1][1]); /* 4 x */
  emit_copy(&p, at[2][1], at[1][1]);             /* from memory to memory of two */
  emit_mix(&p, 2, at[2][1], at[2][1], at[2][0]); /* 16 x */
  emit_copy(&p, at[1][1], at[2][0]);
  emit_copy(&p, y, at[1][1]);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  check_ok(run(&p, 3, in, out));
  for (int i = 0; i < 3; i++) assert_int_equal(out[i], 16 * in[i]);
}

/* ---- what cannot be ---------------------------------------------------------------------------------------------- */

static void strings_on_an_island(program *p, int x, int y) {
  tn__operand dims[1] = {SYM(p->n)};
  tn__exe_input(p->f, "s", TN_STRING, 1, dims);
  tn__exe_register_on(p->f, 1, tn__exe_register(p->f, TN_STRING, 1, dims, TN__STORAGE_INPUT, 1, nowhere));
}
static void argument_elsewhere(program *p, int x, int y) {
  int a = place(p, 1, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_emit(p->f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)a}, 1);
  emit_copy(p, a, x);
  tn__exe_emit_call(p->f, tn__exe_function_index(p->f), &a, 1, &y, 1);
}
static void result_elsewhere(program *p, int x, int y) {
  int a = place(p, 1, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_emit_call(p->f, tn__exe_function_index(p->f), &x, 1, &a, 1);
}
static void alias_elsewhere(program *p, int x, int y) {
  tn__exe_alias(p->f, 0, 0);
  tn__exe_register_on(p->f, 1, x);
}
static void growing_elsewhere(program *p, int x, int y) {
  tn__operand dims[1] = {DIM(8)};
  int n = tn__exe_symbol(p->f, "m");
  int past = tn__exe_input(p->f, "past", TN_I64, 1, dims);
  tn__exe_extent(p->f, false, past, 0, SYM(n));
  tn__exe_register_on(p->f, 1, tn__exe_register(p->f, TN_I64, 1, dims, TN__STORAGE_INPUT, past, nowhere));
}
static void kernel_elsewhere(program *p, int x, int y) { emit_mix(p, 1, x, x, y); }
static void view_elsewhere(program *p, int x, int y) { place(p, 1, TN__STORAGE_VIEW, x, nowhere); }
static void load_elsewhere(program *p, int x, int y) {
  int a = place(p, 1, TN__STORAGE_DYNAMIC, 0, nowhere), s = tn__exe_scalar(p->f);
  tn__exe_emit(p->f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)a}, 1);
  tn__exe_emit(p->f, TN__OP_SCALAR_LOAD, (const uint32_t[]){(uint32_t)s, (uint32_t)a, 0}, 3);
}
static void fill_elsewhere(program *p, int x, int y) {
  int a = place(p, 1, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_emit(p->f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)a}, 1);
  tn__exe_emit_builtin(p->f, TN__BUILTIN_FILL_ZERO, NULL, 0, &a, 1, NULL, 0);
}
static void constant_elsewhere(program *p, int x, int y) {
  static const int64_t seven = 7;
  tn__operand dims[1] = {DIM(1)};
  int c = tn__exe_constant(p->t.exe, "seven", TN_I64, 1, (int64_t[]){1}, &seven, sizeof seven);
  tn__exe_register_on(p->f, 1, tn__exe_register(p->f, TN_I64, 1, dims, TN__STORAGE_CONSTANT, c, nowhere));
}
static void move_elsewhere(program *p, int x, int y) {
  int a = place(p, 1, TN__STORAGE_DYNAMIC, 0, nowhere), b = place(p, 0, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_emit(p->f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)a}, 1);
  tn__exe_emit(p->f, TN__OP_MOVE, (const uint32_t[]){(uint32_t)b, (uint32_t)a}, 2);
}
static void kernel_of_a_memory(program *p, int x, int y) {
  tn__exe_kernel_on(p->t.exe, memory_of(p, 1), p->kernels[1]);
}
static void view_in_another_memory(program *p, int x, int y) {
  int texture = memory_of(p, 1), a = place(p, 1, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_register_on(p->f, texture, place(p, 1, TN__STORAGE_VIEW, a, nowhere));
}
static void move_to_another_memory(program *p, int x, int y) {
  int a = place(p, 1, TN__STORAGE_DYNAMIC, 0, nowhere), b = place(p, 1, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_register_on(p->f, memory_of(p, 1), b);
  tn__exe_emit(p->f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)a}, 1);
  tn__exe_emit(p->f, TN__OP_MOVE, (const uint32_t[]){(uint32_t)b, (uint32_t)a}, 2);
}
static void kernel_of_another_islands_memory(program *p, int x, int y) {
  int a = place(p, 1, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__target target;
  check_ok(tn__target_parse("native", &target));
  tn__exe_register_on(p->f, tn__exe_device_memory(p->t.exe, kDLExtDev, 9, &target, TN__MEMORY_TEXTURE), a);
  tn__exe_emit(p->f, TN__OP_ALLOC, (const uint32_t[]){(uint32_t)a}, 1);
  emit_mix(p, 1, a, a, a);
}
static void no_arena(program *p, int x, int y) {
  tn__operand dims[1] = {DIM(8)};
  tn__exe_register_on(p->f, 1, tn__exe_register(p->f, TN_I64, 1, dims, TN__STORAGE_ARENA, 0, DIM(0)));
}

static void test_what_cannot_be(void **state) {
  static const struct {
    void (*add)(program *p, int x, int y);
    const char *words;
  } cases[] = {
      {strings_on_an_island,
       "the executable is damaged: function \"main\": register 2 is an input of strings on device 1"},
      {argument_elsewhere,
       "the executable is damaged: function \"main\", code word 11, CALL: the argument for \"x\" is on device 1, and "
       "function \"main\" has it on device 0"},
      {result_elsewhere,
       "the executable is damaged: function \"main\", code word 0, CALL: the argument for \"y\" is on device 1, and "
       "function \"main\" has it on device 0"},
      {alias_elsewhere,
       "the executable is damaged: function \"main\": output \"y\" aliases input \"x\", which is on another device"},
      {growing_elsewhere, "the executable is damaged: function \"main\": \"past\" grows, and is on device 1"},
      {kernel_elsewhere,
       "the executable is damaged: function \"main\", code word 0, KERNEL: kernel \"mix1\" is of device "
       "1, and register 0 is on device 0"},
      {view_elsewhere,
       "the executable is damaged: function \"main\": register 2 on device 1 is a view of register 0 on device 0"},
      {load_elsewhere,
       "the executable is damaged: function \"main\", code word 3, SCALAR_LOAD: register 2 is on device 1, "
       "not on the host"},
      {fill_elsewhere,
       "the executable is damaged: function \"main\", code word 3, BUILTIN: register 2 is on device 1, not "
       "on the host"},
      {constant_elsewhere,
       "the executable is damaged: function \"main\": register 2 is on device 1 and its constant "
       "\"seven\" on device 0"},
      {move_elsewhere,
       "the executable is damaged: function \"main\", code word 3, MOVE: registers 3 and 2 are not two DYNAMIC ones of "
       "one type and device"},
      {kernel_of_a_memory, "the executable is damaged: kernel \"mix1\" is for device 2, which is a memory of device 1"},
      {view_in_another_memory,
       "the executable is damaged: function \"main\": register 3 on device 2 is a view of register 2 on device 1"},
      {move_to_another_memory,
       "the executable is damaged: function \"main\", code word 3, MOVE: registers 3 and 2 are not two DYNAMIC ones of "
       "one type and device"},
      {kernel_of_another_islands_memory,
       "the executable is damaged: function \"main\", code word 3, KERNEL: kernel \"mix1\" is of device 1, and "
       "register "
       "2 is on device 3"},
      {no_arena,
       "the executable is damaged: function \"main\": register 2 (64 bytes at 0) does not fit into the arena of 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    program p;
    int x, y;
    tn_executable *exe;
    begin_with_values(&p, 1, &x, &y);
    cases[i].add(&p, x, y);
    emit_copy(&p, y, x);
    tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
    tn__bytes bytes = test_exe_finish(&p.t);
    check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS, cases[i].words);
    test_exe_release(&p.t);
  }
}

/* A table of devices costs no more than it has records. */
static void test_too_many_devices(void **state) {
  program p;
  int x, y;
  tn_executable *exe;
  tn__target target;
  check_ok(tn__target_parse("native", &target));
  begin_with_values(&p, 0, &x, &y);
  for (int i = 0; i < TN__MOST_DEVICES; i++) tn__exe_device(p.t.exe, kDLExtDev, i, &target);
  emit_copy(&p, y, x);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&p.t);
  check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS,
              "the executable is damaged: it names 1025 devices, more than 1024");
  test_exe_release(&p.t);
}

/* A scope that the runtime knows, and the device has not. */
static void test_memories_that_are_not_there(void **state) {
  program p;
  int x, y;
  tn__target target;
  tn_executable *exe;
  check_ok(tn__target_parse("native", &target));
  begin_with_values(&p, 1, &x, &y);
  tn__exe_device_memory(p.t.exe, kDLExtDev, 7, &target, TN__MEMORY_TILE);
  emit_copy(&p, y, x);
  tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&p.t);
  check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_UNSUPPORTED,
              "the executable wants the memory \"tile\" of island:7, which has global and texture");
  /* Where another device takes the place, the program is as it is in global memory. */
  const char *map = "island:7=cpu:0";
  tn_load_options options = {.size = sizeof options, .device_map = &map, .device_map_count = 1};
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, &options, &exe));
  tn_executable_release(exe);
  test_exe_release(&p.t);
}

static void test_devices_that_are_not_there(void **state) {
  static const struct {
    int type, id;
    tn_status_code code;
    const char *words;
  } cases[] = {
      {7 /* DLPack's Vulkan */, 0, TN_UNSUPPORTED,
       "the executable wants a device of type 7, which this runtime does not know"},
      {kDLExtDev, 256, TN_NOT_FOUND,
       "the executable is for island:256: there is no island with number 256: the numbers go from 0 to 255"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    program p;
    int x, y;
    tn__target target;
    tn_executable *exe = NULL;
    tn_session *session = NULL;
    begin_with_values(&p, 0, &x, &y);
    check_ok(tn__target_parse("native", &target));
    tn__exe_device(p.t.exe, cases[i].type, cases[i].id, &target);
    emit_copy(&p, y, x);
    tn__exe_emit(p.f, TN__OP_RETURN, NULL, 0);
    tn__bytes bytes = test_exe_finish(&p.t);
    tn_status *status = tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe);
    if (status == NULL) status = tn_session_create(exe, NULL, &session);
    check_fails(status, cases[i].code, cases[i].words);
    tn_executable_release(exe);
    test_exe_release(&p.t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_without_elements),
      cmocka_unit_test(test_any_placement_gives_the_same),
      cmocka_unit_test(test_large_values_between_islands),
      cmocka_unit_test(test_a_kernel_that_fails_on_an_island),
      cmocka_unit_test(test_what_cannot_be),
      cmocka_unit_test(test_two_memories_of_an_island),
      cmocka_unit_test(test_memories_that_are_not_there),
      cmocka_unit_test(test_devices_that_are_not_there),
      cmocka_unit_test(test_too_many_devices),
  };
  return cmocka_run_group_tests_name("vm_devices", tests, NULL, NULL);
}
