/* Every struct of options of the public headers: its size, as older and newer callers have it, and its lists. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tenon/te.h"
#include "unit/session_models.h"

/* What the calls need besides options. */
typedef struct things {
  tn_module *module;
  tn_executable *exe;
  tn_te *te;
  tn_schedule *schedule;
} things;

static const char model[] = TN_TEST_ROOT "/examples/embed/model.onnx";
static const char declaration[] = "kernel twice(X: f32[4]) -> Y: f32[4] { Y[i] = X[i] * 2 }";

static int make_things(void **state) {
  things *t = calloc(1, sizeof(*t));
  if (t == NULL) return 1;
  tn_compile_options options = {.size = sizeof(options), .no_cache = true, .run_threads = 1};
  check_ok(tn_compile(model, NULL, 0, &options, &t->module));
  check_ok(tn_module_load(t->module, NULL, &t->exe));
  check_ok(tn_te_parse("twice.te", declaration, strlen(declaration), NULL, NULL, 0, NULL, &t->te));
  check_ok(tn_schedule_create(t->te, NULL, NULL, &t->schedule));
  *state = t;
  return 0;
}

static int release_things(void **state) {
  things *t = *state;
  tn_schedule_release(t->schedule);
  tn_te_release(t->te);
  tn_executable_release(t->exe);
  tn_module_release(t->module);
  free(t);
  return 0;
}

/* Some functions get no further than to a file that is not there. */
static const char no_model[] = TN_TEST_ROOT "/no/such.onnx";
static tn_status *but_not_found(tn_status *status) {
  if (tn_status_code_of(status) != TN_NOT_FOUND) return status;
  tn_status_free(status);
  return NULL;
}

/* Each gives `options`, of whatever size, to one function of the library. */
static tn_status *give_pool(const things *t, const void *options) {
  tn_thread_pool *pool;
  tn_status *status = tn_thread_pool_create(options, &pool);
  tn_thread_pool_release(pool);
  return status;
}

static tn_status *give_session(const things *t, const void *options) {
  tn_session *session;
  tn_status *status = tn_session_create(t->exe, options, &session);
  tn_session_release(session);
  return status;
}

static tn_status *give_load(const things *t, const void *options) {
  tn_executable *exe;
  tn_status *status = tn_module_load(t->module, options, &exe);
  tn_executable_release(exe);
  return status;
}

static tn_status *give_file(const things *t, const void *options) {
  tn_executable *exe;
  tn_status *status = tn_executable_load(TN_TEST_ROOT "/no/such.tnx", options, &exe);
  assert_null(exe);
  return but_not_found(status);
}

static tn_status *give_verify(const things *t, const void *options) {
  tn_status *status = tn_executable_verify(TN_TEST_ROOT "/no/such.tnx", options);
  return but_not_found(status);
}

static tn_status *give_strip(const things *t, const void *options) {
  tn_status *status = tn_executable_strip(TN_TEST_ROOT "/no/such.tnx", NULL, options, "/no/such.tnx");
  return but_not_found(status);
}

static tn_status *give_compile(const things *t, const void *options) {
  tn_module *module;
  return but_not_found(tn_compile(no_model, NULL, 0, options, &module));
}

static tn_status *give_emit(const things *t, const void *options) {
  char *text;
  size_t size;
  return but_not_found(tn_compile_emit(no_model, NULL, 0, options, "graph", &text, &size));
}

static tn_status *give_inspect(const things *t, const void *options) {
  char *json;
  return but_not_found(tn_inspect(no_model, options, &json));
}

static tn_status *give_explain(const things *t, const void *options) {
  tn_explanation *explanation;
  return but_not_found(tn_explain(no_model, NULL, 0, options, &explanation));
}

static tn_status *give_checked(const things *t, const void *options) {
  tn_check_result result = {.size = sizeof(result)};
  return but_not_found(tn_check(no_model, NULL, 0, options, NULL, 0, NULL, &result));
}

static tn_status *give_check(const things *t, const void *options) {
  tn_check_result result = {.size = sizeof(result)};
  return but_not_found(tn_check(no_model, NULL, 0, NULL, NULL, 0, options, &result));
}

static tn_status *give_schedule(const things *t, const void *options) {
  tn_schedule *schedule;
  tn_status *status = tn_schedule_create(t->te, NULL, options, &schedule);
  tn_schedule_release(schedule);
  return status;
}

static tn_status *give_te_explain(const things *t, const void *options) {
  tn_explanation *explanation;
  tn_te *one = t->te;
  tn_status *status = tn_te_explain(&one, 1, "aarch64", options, &explanation);
  tn_explanation_release(explanation);
  return status;
}

static tn_status *give_build(const things *t, const void *options) {
  tn_build *build;
  tn_schedule *one = t->schedule;
  tn_status *status = tn_te_build(&one, 1, options, &build);
  tn_build_release(build);
  return status;
}

static tn_status *give_te_emit(const things *t, const void *options) {
  char *text;
  size_t size;
  tn_schedule *one = t->schedule;
  tn_status *status = tn_te_emit(&one, 1, options, "te", &text, &size);
  free(text);
  return status;
}

#define ROW(type, give) {#type, sizeof(type), give}
static const struct row {
  const char *type;
  size_t size;
  tn_status *(*give)(const things *t, const void *options);
} rows[] = {
    ROW(tn_thread_pool_options, give_pool),  ROW(tn_session_options, give_session),
    ROW(tn_load_options, give_load),         ROW(tn_load_options, give_file),
    ROW(tn_load_options, give_verify),       ROW(tn_load_options, give_strip),
    ROW(tn_compile_options, give_compile),   ROW(tn_compile_options, give_emit),
    ROW(tn_compile_options, give_inspect),   ROW(tn_compile_options, give_explain),
    ROW(tn_compile_options, give_checked),   ROW(tn_check_options, give_check),
    ROW(tn_schedule_options, give_schedule), ROW(tn_schedule_options, give_te_explain),
    ROW(tn_build_options, give_build),       ROW(tn_build_options, give_te_emit),
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]), ROOM = 1024 };

static char words[512];

static void sizes_are_checked(void **state) {
  const things *t = *state;
  for (int i = 0; i < ROWS; i++) {
    const struct row *r = &rows[i];
    _Alignas(16) uint8_t bytes[ROOM] = {0};
    size_t size = 0;
    snprintf(words, sizeof(words), "%s: its size is 0, so no field of it counts: set .size = sizeof(%s)", r->type,
             r->type);
    check_fails(r->give(t, bytes), TN_INVALID_ARGUMENT, words);
    /* Any prefix is some older version's, and what it lacks has its default. A newer version's tail may be there as
     * long as nothing is asked of it. */
    const size_t versions[] = {8, 16, r->size / 16 * 8, r->size - 8, r->size, r->size + 8, r->size + 64};
    for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
      size = versions[v];
      memcpy(bytes, &size, sizeof(size));
      check_ok(r->give(t, bytes));
    }
    memcpy(bytes, &size, sizeof(size));
    for (size_t at = r->size; at < size; at++) {
      bytes[at] = 0x40;
      snprintf(words, sizeof(words),
               "%s: byte %zu of %zu is set, and this Tenon (%s) knows %zu: leave the fields zero that are newer than "
               "it, or use the library that goes with the header",
               r->type, at, size, tn_version(), r->size);
      check_fails(r->give(t, bytes), TN_INVALID_ARGUMENT, words);
      bytes[at] = 0;
    }
    static const size_t never[] = {1, 7, 9, 13, 1 << 20, SIZE_MAX, SIZE_MAX - 7};
    for (size_t k = 0; k < sizeof(never) / sizeof(never[0]); k++) {
      memcpy(bytes, &never[k], sizeof(size));
      snprintf(words, sizeof(words),
               "%s: its size is %zu, which is that of no version of it (%zu here): set .size = sizeof(%s)", r->type,
               never[k], r->size, r->type);
      check_fails(r->give(t, bytes), TN_INVALID_ARGUMENT, words);
    }
  }
}

/* What is behind the struct of an older caller is not looked at. */
static void a_prefix_ends_where_it_says(void **state) {
  const things *t = *state;
  for (int i = 0; i < ROWS; i++) {
    uint8_t bytes[ROOM];
    memset(bytes, 0xff, sizeof(bytes));
    size_t size = sizeof(size_t);
    memcpy(bytes, &size, sizeof(size));
    check_ok(rows[i].give(t, bytes));
  }
}

/* The headers have no struct of options that is not in the table above. */
static void all_are_there(void **state) {
  static const char *const headers[] = {"base", "runtime", "compile", "te", "kernel_abi", "dlpack"};
  int found = 0;
  for (size_t h = 0; h < sizeof(headers) / sizeof(headers[0]); h++) {
    char path[512];
    tn__file_map map;
    snprintf(path, sizeof(path), "%s/include/tenon/%s.h", TN_TEST_ROOT, headers[h]);
    check_ok(tn__file_map_open(path, &map));
    char *text = calloc(1, map.size + 1);
    assert_non_null(text);
    memcpy(text, map.data, map.size);
    for (const char *at = text; (at = strstr(at, "typedef struct tn_")) != NULL;) {
      at += strlen("typedef struct ");
      size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_"), tail = strlen("_options");
      if (length <= tail || memcmp(at + length - tail, "_options", tail) != 0) continue;
      bool known = false;
      for (int i = 0; i < ROWS; i++) known |= strlen(rows[i].type) == length && memcmp(rows[i].type, at, length) == 0;
      if (!known) fail_msg("%.*s is not in the table of this test", (int)length, at);
      found++;
    }
    free(text);
    tn__file_map_close(&map);
  }
  assert_int_equal(found, 7);
}

static void keys_come_with_their_size(void **state) {
  const things *t = *state;
  static const char no_key[] =
      "tn_load_options: key is NULL and key_size is 6, so nothing would be checked: give the key, or neither of them";
  static const char no_size[] =
      "tn_load_options: a key is given and key_size is 0, and an empty key is anybody's: set key_size, or leave key "
      "NULL to check no signature";
  tn_load_options forgotten = {.key = "secret", .key_size = 6}; /* the size */
  tn_load_options size_alone = {.size = sizeof(size_alone), .key_size = 6};
  tn_load_options key_alone = {.size = sizeof(key_alone), .key = "secret"};
  tn_load_options both = {.size = sizeof(both), .key = "secret", .key_size = 6};
  for (int i = 0; i < ROWS; i++) {
    if (strcmp(rows[i].type, "tn_load_options") != 0) continue;
    check_fails(rows[i].give(t, &forgotten), TN_INVALID_ARGUMENT,
                "tn_load_options: its size is 0, so no field of it counts: set .size = sizeof(tn_load_options)");
    check_fails(rows[i].give(t, &size_alone), TN_INVALID_ARGUMENT, no_key);
    check_fails(rows[i].give(t, &key_alone), TN_INVALID_ARGUMENT, no_size);
  }
  check_fails(give_load(t, &both), TN_FAILED_PRECONDITION,
              "the executable is not signed, and a key was given to check it with");
}

static void lists_are_there(void **state) {
  const things *t = *state;
  enum { N = sizeof(tn_compile_options) };
  const tn_dim_setting nameless = {NULL, 3};
  const tn_alias_setting half = {"y", NULL}, other_half = {NULL, "x"};
  const char *const none[] = {NULL};
  const struct {
    tn_compile_options options;
    const char *message;
  } bad[] = {
      {{.size = N, .dim_count = 2}, "dims is NULL and dim_count is 2: give the elements, or no number of them"},
      {{.size = N, .dims = &nameless, .dim_count = -1}, "dim_count is -1, which is less than none"},
      {{.size = N, .dims = &nameless, .dim_count = 1}, "dims[0] has no name"},
      {{.size = N, .special_dim_count = 1},
       "special_dims is NULL and special_dim_count is 1: give the elements, or no number of them"},
      {{.size = N, .special_dims = &nameless, .special_dim_count = 1}, "special_dims[0] has no name"},
      {{.size = N, .capacity_count = 1},
       "capacities is NULL and capacity_count is 1: give the elements, or no number of them"},
      {{.size = N, .alias_count = 1}, "aliases is NULL and alias_count is 1: give the elements, or no number of them"},
      {{.size = N, .aliases = &half, .alias_count = 1}, "aliases[0] has no input"},
      {{.size = N, .aliases = &other_half, .alias_count = 1}, "aliases[0] has no output"},
      {{.size = N, .strided_count = 1},
       "strided is NULL and strided_count is 1: give the elements, or no number of them"},
      {{.size = N, .strided = none, .strided_count = 1}, "strided[0] has no name"},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    snprintf(words, sizeof(words), "tn_compile_options: %s", bad[i].message);
    check_fails(give_compile(t, &bad[i].options), TN_INVALID_ARGUMENT, words);
  }
  tn_thread_pool_options pool = {.size = sizeof(pool), .processor_count = 2};
  check_fails(give_pool(t, &pool), TN_INVALID_ARGUMENT,
              "tn_thread_pool_options: processors is NULL and processor_count is 2: give the elements, or no number of "
              "them");
  tn_schedule_options schedule = {.size = sizeof(schedule), .constant_count = 1};
  check_fails(give_schedule(t, &schedule), TN_INVALID_ARGUMENT,
              "tn_schedule_options: constants is NULL and constant_count is 1: give the elements, or no number of "
              "them");
  schedule.constants = none;
  check_fails(give_schedule(t, &schedule), TN_INVALID_ARGUMENT, "tn_schedule_options: constants[0] has no name");
  schedule = (tn_schedule_options){.size = sizeof(schedule), .plain = true, .schedule = ""};
  check_fails(give_schedule(t, &schedule), TN_INVALID_ARGUMENT,
              "tn_schedule_options: plain leaves the declaration's own loops, and a schedule is given beside it");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_checked), cmocka_unit_test(a_prefix_ends_where_it_says),
      cmocka_unit_test(all_are_there),     cmocka_unit_test(keys_come_with_their_size),
      cmocka_unit_test(lists_are_there),
  };
  return cmocka_run_group_tests(tests, make_things, release_things);
}
