/* The table of options: it has every field, and what changes code changes the key of the cache, and nothing else does.
 * */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "driver/module.h"
#include "options/options.h"
#include "target/text/text.h"
#include "unit/check.h"

static const char model[] = TN_TEST_ROOT "/examples/embed/model.onnx";

static const char tuned_path[] = "compile_options.schedules";
/* A file of tuned schedules with one for this machine on one thread. */
static const char *tuned_schedules(void) {
  tn__target here;
  check_ok(tn__target_parse(NULL, &here));
  FILE *file = fopen(tuned_path, "w");
  assert_non_null(file);
  fprintf(file, "tenon schedules 1\ntarget %s threads 1\ntrace 1 0123456789abcdef\nend\n", here.name);
  fclose(file);
  return tuned_path;
}

/* Texts that are understood, by row. */
static const char *text_for(const tn__option_row *row) {
  if (strcmp(row->name, "tuned") == 0) return tuned_schedules();
  static const char *const texts[][2] = {{"target", "x86-64-v2"},
                                         {"host", "x86-64-v2"},
                                         {"texts", "graph"},
                                         {"print_after", "cse"},
                                         {"machine", TN_TEST_ROOT "/tests/machines/narrow.machine"}};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
    if (strcmp(row->name, texts[i][0]) == 0) return texts[i][1];
  if (row->kind != TN__OPTION_PATH) fail_msg("%s: give this test a text for it", row->name);
  return "/tmp/tenon-no-such-folder/file";
}

static void ignore(void) {}
static bool goes_on(void *user) { return false; }

/* Sets the option of a row to something; `which` of several things, which differ from each other. False: no more. */
static bool set(const tn__option_row *row, int which, tn_compile_options *o) {
  static const tn_dim_setting sizes[][2] = {{{"a", 1}, {"b", 2}}, {{"c", 1}, {"b", 2}}, {{"a", 1}, {"b", 3}}};
  static const tn_alias_setting pairs[][2] = {
      {{"a", "x"}, {"b", "y"}}, {{"c", "x"}, {"b", "y"}}, {{"a", "x"}, {"b", "z"}}};
  static const char *const names[][2] = {{"a", "b"}, {"c", "b"}, {"a", "c"}};
  static const char *const places[][2] = {{"a=cpu", "b=cpu"}, {"c=cpu", "b=cpu"}, {"a=cpu", "c=cpu"}};
  static const char *const memories[][2] = {{"cpu=1", "cpu:0=1B"}, {"cpu=2", "cpu:0=2B"}, {"cpu=1", "cpu=1B"}};
  static const tn_on_device said[][2] = {{{"a", "cpu", true, false}, {"b", "cpu", false, true}},
                                         {{"a", "cpu", true, true}, {"b", "cpu", false, true}},
                                         {{"a", "cpu", true, false}, {"b", "cpu:0", false, true}}};
  char *field = (char *)o + row->at;
  const void *list = NULL;
  if (which > 3 || (which > 0 && !row->count_at)) return false;
  switch (row->kind) {
    case TN__OPTION_FLAG: *(bool *)field = true; return true;
    case TN__OPTION_COUNT: *(int *)(void *)field = (int)row->low + 3; return true;
    case TN__OPTION_BYTES: *(uint64_t *)(void *)field = 12345678; return true;
    case TN__OPTION_TEXT:
    case TN__OPTION_PATH:
    case TN__OPTION_FILE:
    case TN__OPTION_WORDS: *(const char **)(void *)field = text_for(row); return true;
    case TN__OPTION_DIMS:
    case TN__OPTION_SIZES: list = sizes[which % 3]; break;
    case TN__OPTION_PAIRS: list = pairs[which % 3]; break;
    case TN__OPTION_ON_DEVICE: list = said[which % 3]; break;
    case TN__OPTION_NAMES:
      list = strcmp(row->name, "place") == 0    ? places[which % 3]
             : strcmp(row->name, "memory") == 0 ? memories[which % 3]
                                                : names[which % 3];
      break;
    case TN__OPTION_CALLER:
      *(void (**)(void))(void *)field = ignore;
      if (strcmp(row->name, "cancelled") == 0) o->cancelled = goes_on;
      return strcmp(row->name, "allocator") != 0;
  }
  *(const void **)(void *)field = list;
  *(int *)(void *)((char *)o + row->count_at) = which < 3 ? 2 : 1;
  return true;
}

typedef struct asking {
  const tn_compile_options *options;
  tn__digest key;
} asking;

static void ask(tn__arena *arena, void *user) {
  asking *a = user;
  tn__driver driver;
  const tn_model_function function = {.name = "main", .path = model};
  tn__driver_init(&driver, arena, a->options);
  tn__model *opened = tn__model_open(arena, model, NULL, 0);
  a->key = tn__driver_executable_key(&driver, &function, 1, &opened);
}

static tn__digest key_of(const tn_compile_options *options) {
  asking a = {options};
  check_ok(tn__with_arena(NULL, ask, &a));
  return a.key;
}

static tn_compile_options usual(void) {
  return (tn_compile_options){.size = sizeof(tn_compile_options), .run_threads = 1, .no_cache = true};
}

static void the_key_has_what_changes_code(void **state) {
  enum { MOST = 256 };
  static tn__digest keys[MOST];
  int count = 0;
  tn_compile_options options = usual();
  keys[count++] = key_of(&options);
  for (const tn__option_row *row = tn__option_rows; row->name; row++) {
    for (int which = 0;; which++) {
      options = usual();
      if (!set(row, which, &options)) break;
      tn__digest key = key_of(&options);
      bool known = false;
      for (int i = 0; i < count; i++) known |= memcmp(&keys[i], &key, sizeof(key)) == 0;
      if (known == ((row->flags & TN__OPTION_CODE) != 0))
        fail_msg("%s (%d): the key %s", row->name, which, known ? "stays" : "changes");
      assert_true(count < MOST);
      if (!known) keys[count++] = key;
    }
  }
}

/* What a row says of itself is true: options that do not change code give the same bytes. */
static void the_rest_leaves_code_alone(void **state) {
  tn_compile_options options = usual();
  tn_module *plain, *other;
  size_t plain_size, size;
  check_ok(tn_compile(model, NULL, 0, &options, &plain));
  const void *bytes = tn_module_data(plain, &plain_size);
  for (const tn__option_row *row = tn__option_rows; row->name; row++) {
    options = usual();
    if ((row->flags & TN__OPTION_CODE) || row->kind == TN__OPTION_CALLER || !set(row, 0, &options)) continue;
    check_ok(tn_compile(model, NULL, 0, &options, &other));
    const void *data = tn_module_data(other, &size);
    if (size != plain_size || memcmp(bytes, data, size) != 0) fail_msg("%s changes what is compiled", row->name);
    tn_module_release(other);
  }
  tn_module_release(plain);
}

static void mark(bool *seen, size_t at, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    assert_true(at + i < sizeof(tn_compile_options));
    assert_false(seen[at + i]); /* two rows for one field */
    seen[at + i] = true;
  }
}

static void every_field_has_a_row(void **state) {
  bool seen[sizeof(tn_compile_options)] = {false};
  mark(seen, offsetof(tn_compile_options, size), sizeof(size_t));
  for (const tn__option_row *row = tn__option_rows; row->name; row++) {
    mark(seen, row->at, row->bytes);
    if (row->count_at) mark(seen, row->count_at, sizeof(int));
    assert_ptr_equal(tn__options_find(row->name), row);
  }
  for (size_t at = 0; at < sizeof(seen);) { /* what is left is padding: less than four bytes, or an int's */
    size_t gap = 0;
    while (at + gap < sizeof(seen) && !seen[at + gap]) gap++;
    if (gap >= sizeof(void *) || (gap > 0 && (at + gap) % sizeof(int) != 0))
      fail_msg("tn_compile_options has a field at %zu without a row in src/options/options.c", at);
    at += gap + 1;
  }
}

static void ranges_are_checked(void **state) {
  tn_module *module;
  tn_compile_options options = usual();
  options.run_threads = -2;
  check_fails(tn_compile(model, NULL, 0, &options, &module), TN_INVALID_ARGUMENT,
              "tn_compile_options: run_threads is -2: it can be 0 to 1024");
  options = usual();
  options.compile_threads = 1025;
  check_fails(tn_compile(model, NULL, 0, &options, &module), TN_INVALID_ARGUMENT,
              "tn_compile_options: compile_threads is 1025: it can be 0 to 1024");
}

/* Ends the compilation when it was asked so many times. */
static bool ends_after(void *user) { return atomic_fetch_sub((atomic_int *)user, 1) <= 1; }

static void a_compilation_ends_when_it_is_cancelled(void **state) {
  tn_compile_options o = {.size = sizeof(o), .no_cache = true, .no_measure = true, .cancelled = ends_after};
  atomic_int left = 1000000;
  tn_module *module = NULL;
  o.user = &left;
  check_ok(tn_compile(model, NULL, 0, &o, &module));
  tn_module_release(module);
  int asked = 1000000 - atomic_load(&left);
  assert_true(asked > 0);
  for (int threads = 1; threads <= 2; threads++) {
    for (int after = 1; after <= asked; after += 1 + asked / 8) {
      o.compile_threads = threads;
      atomic_store(&left, after);
      module = NULL;
      tn_status *status = tn_compile(model, NULL, 0, &o, &module);
      if (tn_status_code_of(status) != TN_CANCELLED || strstr(tn_status_message(status), "cancelled") == NULL)
        fail_msg("asked %d times of %d: %s", after, asked, tn_status_message(status));
      assert_null(module);
      tn_status_free(status);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_key_has_what_changes_code),
      cmocka_unit_test(the_rest_leaves_code_alone),
      cmocka_unit_test(every_field_has_a_row),
      cmocka_unit_test(ranges_are_checked),
      cmocka_unit_test(a_compilation_ends_when_it_is_cancelled),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  remove(tuned_path);
  return failed;
}
