/* Operators declare their attributes: a value of another kind, or an attribute that is unknown, is refused by name, and
 * whatever the graphs of the golden tests and of the fuzz seeds are given in place of an attribute ends in a graph that
 * all passes take, or in an error. */
#include <glob.h>
#include <stdlib.h>

#include "base/file.h"
#include "graph/text.h"
#include "unit/pass_check.h"

enum { MOST_LINES = 400, MOST_TRIES = 2000, TRIES_EACH = 2 };

/* One operator's attribute, and how often it was changed. */
typedef struct tried {
  char name[96];
  int count;
} tried;

typedef struct run {
  const char *text;
  size_t length;
} run;

static void read_and_optimize(tn__escape *escape, void *user) {
  const run *r = user;
  tn__arena arena;
  tn__arena_init(&arena, NULL, escape);
  tn__graph *graph;
  arena.work = TN__NEW(&arena, tn__work);
  *arena.work = (tn__work){.most = 1 << 22, .of = "a graph"};
  tn_status *status = tn__graph_read(tn__ir_create(&arena), "test", r->text, r->length, NULL, &graph);
  if (status == NULL) {
    const tn__optimize_options options = {.evaluator = {NULL, NULL}};
    tn__graph_optimize(graph, &options);
    (void)tn__pass_fuse(graph, NULL);
  }
  tn__arena_release(&arena);
  tn__check(escape, status);
}

/* The error's words, to be freed; NULL: there is none. */
static char *error_of(const char *text, size_t length) {
  tn__escape escape;
  run r = {text, length};
  tn_status *status = tn__protect(&escape, read_and_optimize, &r);
  if (status == NULL) return NULL;
  char *words = strdup(tn_status_message(status));
  tn_status_free(status);
  return words;
}

static void check_error(const char *line, const char *want) {
  char text[512];
  snprintf(text, sizeof text,
           "graph \"m\" {\n  input x: f32[4, 6]\n  input w: f32[6, 3]\n  y = %s\n  output \"y\" = y\n}\n", line);
  char *words = error_of(text, strlen(text));
  if (words == NULL || strstr(words, want) == NULL) fail_msg("%s: %s", line, words == NULL ? "no error" : words);
  free(words);
}

static void other_kinds_are_refused_by_name(void **state) {
  check_error("dot_general(x, w) {lhs_contract=1.0, rhs_contract=0.0}",
              "dot_general: attribute lhs_contract must be integers");
  check_error("reduce(x) {kind=\"sum\", axes=1.0}", "reduce: attribute axes must be integers");
  check_error("reduce(x) {kind=\"sum\"}", "reduce: needs the attribute axes");
  check_error("concatenate(x) {axis=[0, 1]}", "concatenate: attribute axis must be one integer");
  check_error("reshape(x) {shape=[24]}", "reshape: attribute shape must be sizes in parentheses");
  check_error("rms_norm(x) {axes=1, epsilon=1}", "rms_norm: attribute epsilon must be one floating number");
  check_error("recurrence(x, w) {alphas=1}", "recurrence: attribute alphas must be floating numbers");
  check_error("convert(x) {dtype=1}", "convert: attribute dtype must be a string");
  check_error("transpose(x) {axes=[1, 0]}", "transpose: has no attribute axes");
  check_error("add(x, x) {axis=1}", "add: has no attribute axis");
  check_error("sequence_empty() {dtype=\"f32\", rank=1, holds=-1}",
              "sequence_empty: attribute holds is -1, but must be 1 to 3");
}

/* The end of an attribute's value. */
static const char *end_of_value(const char *at, const char *end) {
  int depth = 0;
  for (bool quoted = false; at < end; at++) {
    if (*at == '"') quoted = !quoted;
    if (quoted) continue;
    if (depth == 0 && (*at == ',' || *at == '}')) break;
    depth += (*at == '[' || *at == '(') - (*at == ']' || *at == ')');
  }
  return at;
}

static bool is_tried_enough(tried *all, const char *name) {
  int i = 0;
  while (i < MOST_TRIES - 1 && all[i].count > 0 && strcmp(all[i].name, name) != 0) i++;
  snprintf(all[i].name, sizeof all[i].name, "%s", name);
  return all[i].count++ >= TRIES_EACH;
}

/* Every attribute of the line at `line` in `text` in turn, as something else. */
static int change_line(const char *text, size_t length, const char *line, const char *end, tried *all) {
  static const char *const others[] = {"1", "-1", "1.0", "[]", "[0, 1]", "[0.5, 1.0]", "()", "(1)", "(2, 3)", "\"x\""};
  const char *equals = memmem(line, (size_t)(end - line), " = ", 3), *brace = memchr(line, '{', (size_t)(end - line));
  const char *paren = equals == NULL ? NULL : memchr(equals, '(', (size_t)(end - equals));
  int changes = 0;
  if (brace == NULL || paren == NULL || paren > brace) return 0;
  for (const char *name = brace + 1; name < end && *name != '}';) {
    const char *value = memchr(name, '=', (size_t)(end - name));
    if (value == NULL) break;
    const char *behind = end_of_value(++value, end);
    char key[96];
    snprintf(key, sizeof key, "%.*s %.*s", (int)(paren - equals - 3), equals + 3, (int)(value - name), name);
    for (size_t i = 0; i < sizeof others / sizeof *others && !(i == 0 && is_tried_enough(all, key)); i++, changes++) {
      char *changed = malloc(length + 16);
      int head = (int)(value - text);
      size_t size = (size_t)sprintf(changed, "%.*s%s", head, text, others[i]);
      memcpy(changed + size, behind, length - (size_t)(behind - text));
      free(error_of(changed, size + length - (size_t)(behind - text)));
      free(changed);
    }
    for (name = behind; name < end && (*name == ',' || *name == ' '); name++) continue;
  }
  return changes;
}

static int change_file(const char *path, tried *all) {
  tn__file_map map;
  check_ok(tn__file_map_open(path, &map));
  char *text = malloc(map.size + 1);
  size_t length = 0;
  int changes = 0;
  const char *file = (const char *)map.data;
  for (size_t at = 0; at < map.size;) { /* without what the test is told */
    const char *newline = memchr(file + at, '\n', map.size - at);
    size_t size = newline == NULL ? map.size - at : (size_t)(newline - (file + at)) + 1;
    if (size < 2 || memcmp(file + at, "//", 2) != 0) {
      memcpy(text + length, file + at, size);
      length += size;
    }
    at += size;
  }
  text[length] = '\0';
  const char *line = text;
  for (int i = 0; i < MOST_LINES && *line != '\0'; i++) {
    const char *end = strchrnul(line, '\n');
    changes += change_line(text, length, line, end, all);
    line = *end == '\0' ? end : end + 1;
  }
  free(text);
  tn__file_map_close(&map);
  return changes;
}

static void any_value_ends_in_a_graph_or_an_error(void **state) {
  static const char *const patterns[] = {TN_TEST_ROOT "/tests/golden/graph/*/*.test",
                                         TN_TEST_ROOT "/tests/fuzz/corpus/graph/*.tng"};
  tried *all = calloc(MOST_TRIES, sizeof *all);
  int changes = 0;
  for (int p = 0; p < 2; p++) {
    glob_t files;
    assert_int_equal(glob(patterns[p], 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) changes += change_file(files.gl_pathv[i], all);
    globfree(&files);
  }
  free(all);
  assert_in_range(changes, 1000, 100000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(other_kinds_are_refused_by_name),
      cmocka_unit_test(any_value_ends_in_a_graph_or_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
