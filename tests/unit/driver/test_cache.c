/* The compile cache through the public API: its bound, and what a hit leaves out. tests/python/test_cache.py has the
 * rest. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "unit/check.h"

#include "tenon/compile.h"
#include "unit/onnx_build.h"

typedef struct folder {
  char path[64];
} folder;

static void make_folder(folder *f) {
  snprintf(f->path, sizeof f->path, "/tmp/tenon-cache-XXXXXX");
  assert_non_null(mkdtemp(f->path));
}

/* Bytes of the folder's files, which are removed as well if that is wanted. */
static uint64_t sweep(const folder *f, bool remove_files) {
  uint64_t total = 0;
  DIR *directory = opendir(f->path);
  assert_non_null(directory);
  for (const struct dirent *e = readdir(directory); e; e = readdir(directory)) {
    struct stat info;
    assert_int_equal(fstatat(dirfd(directory), e->d_name, &info, 0), 0);
    if (!S_ISREG(info.st_mode)) continue;
    total += (uint64_t)info.st_size;
    if (remove_files) assert_int_equal(unlinkat(dirfd(directory), e->d_name, 0), 0);
  }
  closedir(directory);
  return total;
}

static void remove_folder(const folder *f) {
  sweep(f, true);
  assert_int_equal(rmdir(f->path), 0);
}

static void count_step(void *user, const char *phase, int done, int total) { ++*(int *)user; }

/* Compiles y = relu(x + variant); says whether it came from the cache. */
static bool compile(const folder *f, int variant, uint64_t limit, int *steps) {
  float bias[8];
  for (int i = 0; i < 8; i++) bias[i] = (float)(variant + i);
  pb graph = {0};
  onnx_node(&graph, "Add", "add", "x,b", "s");
  onnx_node(&graph, "Relu", "relu", "s", "y");
  onnx_raw(&graph, "b", ONNX_FLOAT, (int64_t[]){8}, 1, bias, sizeof bias);
  char dims[16];
  snprintf(dims, sizeof dims, "%d,8", variant + 1); /* kernels of their own */
  onnx_input(&graph, "x", ONNX_FLOAT, dims);
  onnx_output(&graph, "y", ONNX_FLOAT, dims);
  pb model = onnx_model(17, &graph);
  tn_compile_options options = {.size = sizeof options,
                                .cache_directory = f->path,
                                .cache_limit_bytes = limit,
                                .run_threads = 1,
                                .progress = steps ? count_step : NULL,
                                .user = steps};
  tn_module *module;
  check_ok(tn_compile("m.onnx", model.data, model.size, &options, &module));
  bool from_cache = tn_module_from_cache(module);
  const tn_phase_time *const *times;
  int count = tn_module_times(module, &times);
  if (from_cache) {
    assert_int_equal(count, 2);
    assert_string_equal(times[0]->name, "open");
    assert_string_equal(times[1]->name, "cache");
  } else {
    assert_true(count > 5);
  }
  tn_module_release(module);
  pb_free(&model);
  return from_cache;
}

static void a_hit_imports_and_compiles_nothing(void **state) {
  folder f;
  make_folder(&f);
  int steps = 0;
  assert_false(compile(&f, 1, 0, &steps));
  assert_true(steps > 0);
  steps = 0;
  assert_true(compile(&f, 1, 0, &steps));
  assert_int_equal(steps, 0);
  remove_folder(&f);
}

static void the_folder_stays_below_its_limit(void **state) {
  folder f;
  make_folder(&f);
  compile(&f, 0, 0, NULL);
  uint64_t one = sweep(&f, false), limit = 5 * one / 2;
  assert_true(one > 0);
  assert_false(compile(&f, 1, limit, NULL));
  for (int variant = 2; variant < 7; variant++) {
    assert_true(compile(&f, 0, limit, NULL)); /* used again and again, so it stays */
    assert_false(compile(&f, variant, limit, NULL));
    assert_true(sweep(&f, false) <= limit);
    assert_true(sweep(&f, false) > limit / 4);
    assert_true(compile(&f, variant, limit, NULL));
  }
  assert_false(compile(&f, 1, limit, NULL)); /* the least recently used went */
  remove_folder(&f);
}

static void what_would_push_out_everything_else_is_not_stored(void **state) {
  folder f;
  make_folder(&f);
  assert_false(compile(&f, 1, 64, NULL));
  assert_int_equal(sweep(&f, false), 0);
  remove_folder(&f);
}

/* A process that is killed leaves its temporary files behind. */
static void what_was_left_behind_is_removed(void **state) {
  folder f;
  make_folder(&f);
  char old[128], new[128];
  snprintf(old, sizeof old, "%s/exe-0123.tmp-0123456789abcdef", f.path);
  snprintf(new, sizeof new, "%s/obj-0123.tmp-0123456789abcdef", f.path);
  const char *const paths[] = {old, new};
  for (int i = 0; i < 2; i++) {
    FILE *file = fopen(paths[i], "w");
    assert_non_null(file);
    fclose(file);
  }
  struct timespec times[2] = {{.tv_sec = time(NULL) - 7200}, {.tv_sec = time(NULL) - 7200}}; /* clock: an entry's age */
  assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
  assert_false(compile(&f, 1, 1 << 30, NULL));
  assert_int_not_equal(access(old, F_OK), 0);
  assert_int_equal(access(new, F_OK), 0); /* somebody may be writing to it */
  remove_folder(&f);
}

static void foreign_files_are_left_alone(void **state) {
  folder f;
  make_folder(&f);
  char path[96];
  snprintf(path, sizeof path, "%s/notes.txt", f.path);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("mine", file);
  fclose(file);
  for (int variant = 0; variant < 4; variant++) compile(&f, variant, 20000, NULL);
  assert_int_equal(access(path, F_OK), 0);
  remove_folder(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_hit_imports_and_compiles_nothing),
                                     cmocka_unit_test(the_folder_stays_below_its_limit),
                                     cmocka_unit_test(what_was_left_behind_is_removed),
                                     cmocka_unit_test(what_would_push_out_everything_else_is_not_stored),
                                     cmocka_unit_test(foreign_files_are_left_alone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
