/* Files of what models have learned from: they come back as they were, and what is damaged is refused whole. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tune/search/samples.h"
#include "unit/check.h"

static const char *const path = "samples.model";

static void add(tn__cost_model *model, uint64_t key, int number) {
  tn__model_sample s = {.task = tn__model_task(model, key), .error = 0.01f * (float)(number % 100)};
  for (int i = 0; i < TN__MODEL_FEATURES; i++) s.row.cheap[i] = (float)(number + i);
  for (int i = 0; i < TN__FEATURES; i++) s.row.loops[i] = (float)(number * i);
  check_ok(tn__model_add(model, &s));
}

static void write_some(int count) {
  tn__cost_model *model;
  check_ok(tn__model_create(&model));
  for (int i = 0; i < count; i++) add(model, i % 3 == 0 ? 77 : 88, i);
  check_ok(tn__model_write(model, "this", path));
  tn__model_release(model);
}

static size_t read_file(char *into, size_t room) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(into, 1, room, file);
  fclose(file);
  return size;
}

static void write_file(const char *data, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
}

static void test_comes_back(void **state) {
  tn__cost_model *model, *expected;
  write_some(20);
  check_ok(tn__model_create(&model));
  check_ok(tn__model_create(&expected));
  check_ok(tn__model_read(model, "this", path));
  assert_int_equal(tn__model_samples(model), 20);
  assert_int_equal(tn__model_tasks(model), 2);
  for (int i = 0; i < 20; i++) {
    const tn__model_sample *s = tn__model_sample_at(model, i);
    add(expected, i % 3 == 0 ? 77 : 88, i);
    assert_memory_equal(&s->row, &tn__model_sample_at(expected, i)->row, sizeof s->row);
    assert_float_equal(s->error, tn__model_sample_at(expected, i)->error, 0);
    assert_int_equal(tn__model_task_key(model, s->task), i % 3 == 0 ? 77 : 88);
  }
  check_ok(tn__model_learn(model));
  assert_true(tn__model_knows(model));
  tn__model_release(model);
  tn__model_release(expected);
}

static void test_own_samples_come_first(void **state) {
  tn__cost_model *model;
  write_some(21);
  check_ok(tn__model_create(&model));
  add(model, 77, 1000); /* this task tells its own */
  check_ok(tn__model_read(model, "this", path));
  assert_int_equal(tn__model_samples(model), 1 + 14);
  tn__model_release(model);
}

static void test_no_more_than_so_many(void **state) {
  tn__cost_model *model;
  write_some(TN__MODEL_MOST_SAMPLES + 10);
  check_ok(tn__model_create(&model));
  check_ok(tn__model_read(model, "this", path));
  assert_int_equal(tn__model_samples(model), TN__MODEL_MOST_SAMPLES);
  assert_float_equal(tn__model_sample_at(model, 0)->row.cheap[0], 10, 0); /* the newest */
  tn__model_release(model);
}

static void refuse(tn__cost_model *model, tn_status_code code) {
  tn_status *status = tn__model_read(model, "this", path);
  assert_non_null(status);
  assert_int_equal(tn_status_code_of(status), code);
  assert_int_equal(tn__model_samples(model), 0);
  tn_status_free(status);
}

static void test_what_is_none(void **state) {
  static char whole[32768], damaged[32768];
  tn__cost_model *model;
  write_some(20);
  size_t size = read_file(whole, sizeof whole);
  assert_true(size < sizeof whole);
  check_ok(tn__model_create(&model));
  check_fails(tn__model_read(model, "that", path), TN_FAILED_PRECONDITION,
              "samples.model: the samples are of another version or machine");
  for (size_t cut = 0; cut < size; cut += 97) {
    write_file(whole, cut);
    refuse(model, TN_DATA_LOSS);
  }
  for (size_t at = 0; at < size; at += 61) {
    memcpy(damaged, whole, size);
    damaged[at] = (char)(damaged[at] ^ 0x41);
    write_file(damaged, size);
    tn_status *status = tn__model_read(model, "this", path);
    assert_non_null(status);
    tn_status_free(status);
    assert_int_equal(tn__model_samples(model), 0);
  }
  memcpy(damaged, whole, size);
  damaged[strlen("tenon model ")] = '9';
  write_file(damaged, size);
  refuse(model, TN_FAILED_PRECONDITION);
  write_file("", 0);
  refuse(model, TN_DATA_LOSS);
  unlink(path);
  refuse(model, TN_NOT_FOUND);
  mkdir(path, 0755);
  tn_status *status = tn__model_write(model, "this", path);
  assert_non_null(status);
  tn_status_free(status);
  rmdir(path);
  tn__model_release(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_comes_back),
      cmocka_unit_test(test_own_samples_come_first),
      cmocka_unit_test(test_no_more_than_so_many),
      cmocka_unit_test(test_what_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
