/* Source units: what generators of text write for devices that compile it is read back, and what is damaged is refused
 * in words of its own. */
#include "codegen/backend.h"
#include "runtime/format/source_unit.h"
#include "target/text/text.h"
#include "te/text.h"
#include "unit/check.h"
#include "unit/schedule_run.h"

enum { MOST_KERNELS = 4 };

typedef struct made {
  const char *target, *limited; /* that schedules, and code if it is another, are for */
  tn__target limits;
  const tn__backend *row;
  void (*look)(const struct made *m);
  tn__source source;
  tn__ir *irs[MOST_KERNELS];
  const tn__func *funcs[MOST_KERNELS];
  int count;
} made;

static const char text[] =
    "kernel plain(A: f32[64, 100]) -> B: f32[64, 100] { B[i, j] = A[i, j] + 1 }\n"
    "kernel open(A: f32[M, N]) -> S: f32[M], B: f32[M, N] {\n"
    "  S[i] = sum(k: N) A[i, k]\n"
    "  B[i, j] = A[i, j] - S[i]\n"
    "}\n"
    "kernel product(A: f32[128, 64], B: f32[64, 128]) -> C: f32[128, 128] { C[i, j] = sum(k: 64) A[i, k] * B[k, j] }\n"
    "kernel total(X: f32[4000000]) -> S: f32 { S = sum(k: 4000000) X[k] }\n";

static void make(tn__arena *arena, void *user) {
  made *m = user;
  tn__te_source *source;
  tn__target target;
  tn__check(arena->escape, tn__target_parse(m->target, &target));
  tn__check(arena->escape, tn__target_parse(m->limited != NULL ? m->limited : m->target, &m->limits));
  tn__check(arena->escape, tn__te_parse(arena, "test", text, strlen(text), &source));
  m->count = tn__te_kernel_count(source);
  for (int i = 0; i < m->count; i++) {
    tn__te *te;
    m->irs[i] = tn__ir_create(arena);
    tn__check(arena->escape, tn__te_declare(source, i, NULL, 0, m->irs[i], &te));
    const tn__schedule *s = default_schedule(te, &target, &(tn__schedule_options){.threads = 2});
    m->funcs[i] = m->row->lower(m->irs[i], tn__schedule_func(s), NULL);
  }
  m->source = m->row->unit(
      arena, &(tn__codegen_module){.irs = m->irs, .funcs = m->funcs, .count = m->count, .target = &m->limits});
  m->look(m);
}

static void look_at(const char *target, const tn__backend *row, void (*look)(const made *m)) {
  made m = {.target = target, .row = row, .look = look};
  check_ok(tn__with_arena(NULL, make, &m));
}

static const tn__source_launch *launches_of(const tn__source_unit *unit, const tn__source_kernel *kernel) {
  return (const tn__source_launch *)(const void *)((const char *)unit + unit->launches) + kernel->first_launch;
}

static void look_inside(const made *m) {
  const tn__source_unit *unit = m->source.data;
  const char *bytes = m->source.data;
  check_ok(tn__source_unit_check(unit, m->source.size));
  assert_int_equal(unit->language, m->row == &tn__backend_cuda ? TN__SOURCE_CUDA : TN__SOURCE_OPENCL);
  assert_int_equal(unit->kernel_count, 4);
  assert_int_equal(strlen(bytes + unit->text), unit->text_size);
  for (int i = 0; i < m->count; i++) {
    const tn__source_kernel *kernel = tn__source_unit_kernel(unit, m->source.kernels[i].offset);
    assert_non_null(kernel);
    assert_int_equal(kernel->buffer_count, m->funcs[i]->input_count + m->funcs[i]->output_count);
    assert_int_equal(kernel->text_scalar_count, m->funcs[i]->scalar_count);
    assert_int_equal(kernel->scalar_count, m->funcs[i]->scalar_count + m->source.kernels[i].extents.count);
    tn__kernel_info info = m->row->measure(m->irs[i], m->funcs[i]);
    assert_int_equal(kernel->has_workspace, info.workspace_bytes > 0);
    for (uint32_t l = 0; l < kernel->launch_count; l++) {
      const tn__source_launch *launch = &launches_of(unit, kernel)[l];
      assert_non_null(strstr(bytes + unit->text, bytes + launch->name));
      for (int a = 0; a < 3; a++) /* extents that no scalar has come behind them */
        if (launch->grid[a].symbolic) assert_in_range(launch->grid[a].value, 0, kernel->scalar_count - 1);
    }
  }
  assert_null(tn__source_unit_kernel(unit, m->source.kernels[0].offset + 1));
  assert_null(tn__source_unit_kernel(unit, m->source.kernels[3].offset + sizeof(tn__source_kernel)));
}

/* Constant grids and blocks stand in the record, open ones behind the scalars, each once. */
static void look_at_gpu(const made *m) {
  const tn__source_unit *unit = m->source.data;
  look_inside(m);
  const tn__source_kernel *plain = tn__source_unit_kernel(unit, m->source.kernels[0].offset);
  const tn__source_launch *launch = launches_of(unit, plain);
  assert_int_equal(plain->launch_count, 1);
  assert_int_equal(plain->has_workspace, 0);
  assert_int_equal(launch->grid[0].value * launch->block[0], 6400);
  const tn__source_kernel *open = tn__source_unit_kernel(unit, m->source.kernels[1].offset);
  assert_int_equal(open->launch_count, 2);
  assert_int_equal(open->text_scalar_count, 2);
  assert_int_equal(open->scalar_count, 4);
  assert_int_equal(launches_of(unit, open)[0].grid[0].symbolic, 1);
  assert_int_equal(launches_of(unit, open)[0].grid[0].value, 2);
  assert_int_equal(launches_of(unit, open)[1].grid[0].value, 3);
  const tn__source_kernel *product = tn__source_unit_kernel(unit, m->source.kernels[2].offset);
  assert_true(launches_of(unit, product)[0].shared_bytes > 0);
  assert_int_equal(launches_of(unit, product)[0].block[0] * launches_of(unit, product)[0].block[1], 256);
  const tn__source_kernel *total = tn__source_unit_kernel(unit, m->source.kernels[3].offset);
  assert_int_equal(total->has_workspace, 1);
}

/* Of a CPU each block is one thread, which has a turn of the parallel loop. */
static void look_at_cpu(const made *m) {
  const tn__source_unit *unit = m->source.data;
  const tn__source_launch *launches = (const void *)((const char *)unit + unit->launches);
  look_inside(m);
  for (uint32_t i = 0; i < unit->launch_count; i++) {
    for (int a = 0; a < 3; a++) assert_int_equal(launches[i].block[a], 1);
    assert_int_equal(launches[i].shared_bytes, 0);
  }
  const tn__source_kernel *total = tn__source_unit_kernel(unit, m->source.kernels[3].offset);
  assert_true(launches_of(unit, total)[0].grid[0].value > 1);
  assert_non_null(strstr((const char *)unit + unit->text, "TN_LOAD(tn_f32x8, 8, TN_GLOBAL, "));
}

static void units_are_read_back(void **state) {
  look_at("opencl -type=cpu -mcpu=x86-64-v3", &tn__backend_opencl, look_at_cpu);
  look_at("cuda", &tn__backend_cuda, look_at_gpu);
  look_at("opencl", &tn__backend_opencl, look_at_gpu);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* Schedules keep to what a block of the target may have, however little that is, and are still parallel. */
static void look_at_limits(const made *m) {
  const tn__source_unit *unit = m->source.data;
  look_inside(m);
  for (uint32_t i = 0; i < unit->kernel_count; i++) {
    const tn__source_kernel *kernel = tn__source_unit_kernel(unit, m->source.kernels[i].offset);
    bool spread = false;
    for (uint32_t l = 0; l < kernel->launch_count; l++) {
      const tn__source_launch *launch = &launches_of(unit, kernel)[l];
      assert_true(launch->block[0] * launch->block[1] * launch->block[2] <= (uint32_t)m->limits.gpu.threads);
      assert_true(launch->shared_bytes <= (uint32_t)m->limits.gpu.shared_bytes);
      spread |= launch->grid[0].symbolic || launch->grid[0].value > 1;
    }
    assert_true(spread);
  }
}

static void schedules_keep_to_limits(void **state) {
  look_at("opencl -threads=128", &tn__backend_opencl, look_at_limits);
  look_at("opencl -threads=32", &tn__backend_opencl, look_at_limits);
  look_at("opencl -warp=1 -threads=5", &tn__backend_opencl, look_at_limits);
  look_at("opencl -shared_bytes=8192", &tn__backend_opencl, look_at_limits);
  look_at("opencl -shared_bytes=2100", &tn__backend_opencl, look_at_limits);
  look_at("opencl -shared_bytes=0", &tn__backend_opencl, look_at_limits);
  look_at("cuda -threads=64 -shared_bytes=6000", &tn__backend_cuda, look_at_limits);
}

/* Of another device's schedule. */
static void refuse(const char *limited, const char *words) {
  made m = {.target = "opencl", .limited = limited, .row = &tn__backend_opencl, .look = look_inside};
  check_fails(tn__with_arena(NULL, make, &m), TN_UNSUPPORTED, words);
}

static void large_kernels_are_refused(void **state) {
  refuse("opencl -threads=128",
         "kernel plain: blocks of its launch plain_k0 have 256 threads, and target \"opencl -threads=128\" has 128 at "
         "the most; schedule it for that target");
  refuse("opencl -shared_bytes=1000",
         "kernel product: blocks of its launch product_k0 share 2560 bytes, and target \"opencl -shared_bytes=1000\" "
         "has 1000 at the most; schedule it for that target");
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

typedef struct damage {
  const char *words;
  size_t at; /* what is overwritten, from the start of `part` */
  enum { OF_UNIT, OF_KERNEL, OF_LAUNCH, OF_END } part;
  int bytes;
  uint64_t value;
} damage;

#define UNIT(field, new_value, message) \
  {message, offsetof(tn__source_unit, field), OF_UNIT, sizeof(((tn__source_unit *)0)->field), new_value}
#define KERNEL(field, new_value, message) \
  {message, offsetof(tn__source_kernel, field), OF_KERNEL, sizeof(((tn__source_kernel *)0)->field), new_value}
#define LAUNCH(field, new_value, message) \
  {message, offsetof(tn__source_launch, field), OF_LAUNCH, sizeof(((tn__source_launch *)0)->field), new_value}

static const damage damages[] = {
    UNIT(magic, 7, "it does not begin as one"),
    UNIT(language, 4, "its language is not known"),
    UNIT(kernel_count, 1 << 30, "its tables are larger than it is"),
    UNIT(launch_count, UINT32_MAX, "its tables are larger than it is"),
    UNIT(kernels, 3, "its tables are larger than it is"),
    UNIT(launches, UINT64_MAX - 7, "its tables are larger than it is"),
    UNIT(names, UINT64_MAX, "its tables are larger than it is"),
    UNIT(text, UINT64_MAX - 1, "its tables are larger than it is"),
    UNIT(text_size, UINT64_MAX, "its tables are larger than it is"),
    UNIT(text_size, 10, "its text does not end where it should"),
    {"its text does not end where it should", (size_t)-5, OF_END, 1, 0},
    LAUNCH(name, 0, "a kernel's name is outside of the names"),
    LAUNCH(name, UINT64_MAX, "a kernel's name is outside of the names"),
    LAUNCH(block[1], 0, "a block without threads"),
    LAUNCH(grid[0].symbolic, 2, "a grid's extent"),
    LAUNCH(grid[0].value, (uint64_t)-1, "a grid's extent"),
    LAUNCH(grid[2].symbolic, 1, "a grid's extent"),
    KERNEL(has_workspace, 2, "a kernel's parameters"),
    KERNEL(text_scalar_count, 9, "a kernel's parameters"),
    KERNEL(buffer_count, UINT32_MAX, "a kernel's parameters"),
    KERNEL(first_launch, 100, "a kernel's launches are outside of the table"),
    KERNEL(launch_count, UINT32_MAX, "a kernel's launches are outside of the table"),
};

static size_t start_of(const tn__source_unit *unit, const damage *d, size_t size) {
  switch (d->part) {
    case OF_KERNEL: return unit->kernels;
    case OF_LAUNCH: return unit->launches;
    case OF_END: return size;
    default: return 0;
  }
}

/* All kernels are the one with the most launches. */
static void look_at_shared_launches(const made *m) {
  char *bytes = malloc(m->source.size);
  memcpy(bytes, m->source.data, m->source.size);
  const tn__source_unit *unit = (const void *)bytes;
  tn__source_kernel *kernels = (void *)(bytes + unit->kernels), most = kernels[0];
  for (uint32_t i = 1; i < unit->kernel_count; i++)
    if (kernels[i].launch_count > most.launch_count) most = kernels[i];
  for (uint32_t i = 0; i < unit->kernel_count; i++) kernels[i] = most;
  check_fails(tn__source_unit_check(bytes, m->source.size), TN_INVALID_ARGUMENT,
              "the source of a device's kernels is damaged: two kernels have one launch");
  free(bytes);
}

static void look_at_damage(const made *m) {
  char words[160];
  for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
    const damage *d = &damages[i];
    char *bytes = malloc(m->source.size);
    memcpy(bytes, m->source.data, m->source.size);
    size_t at = start_of(m->source.data, d, m->source.size) + d->at; /* also from the end */
    memcpy(bytes + at, &d->value, (size_t)d->bytes);
    snprintf(words, sizeof words, "the source of a device's kernels is damaged: %s", d->words);
    check_fails(tn__source_unit_check(bytes, m->source.size), TN_INVALID_ARGUMENT, words);
    free(bytes);
  }
  for (size_t size = 0; size < m->source.size; size += 1 + size / 16) { /* what is cut off */
    char *bytes = malloc(size + 1);
    memcpy(bytes, m->source.data, size);
    tn_status *status = tn__source_unit_check(bytes, size);
    assert_non_null(status);
    tn_status_free(status);
    free(bytes);
  }
}

static void damaged_units_are_refused(void **state) {
  look_at("opencl", &tn__backend_opencl, look_at_damage);
  look_at("opencl", &tn__backend_opencl, look_at_shared_launches);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(units_are_read_back),
      cmocka_unit_test(schedules_keep_to_limits),
      cmocka_unit_test(large_kernels_are_refused),
      cmocka_unit_test(damaged_units_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
