/* Annotations of values by name, as programs give them (tn_compile_options.annotations): where values are then, by
 * which rule, and what is refused. */
#include "tenon/compile.h"

#include "unit/check.h"

#define TARGETS "x86-64-v3; island -mcpu=x86-64-v3; island -mcpu=x86-64-v3 -device=1"
enum { MOST = 4 };

typedef struct annotated_case {
  const char *graph, *place, *memory;
  tn_on_device said[MOST];
  const char *want; /* the lines of the plan, without what is in brackets, unless that has "annotation"; or the error */
  const char *warning;
  tn_status_code code;
} annotated_case;

typedef struct told {
  char plan[4096], warning[1024];
} told;

/* Lines of values, without predicted times. */
static void take_plan(void *user, const char *text) {
  told *t = user;
  char *at = t->plan;
  for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
    const char *end = line + strcspn(line, "\n"), *bracket = strstr(line, "  ("), *rule = strstr(line, "annotation of");
    const char *stop = strstr(line, "; ");
    if (line[0] != ' ' || strchr(line, '-') == line + 20) continue;
    if (bracket == NULL || bracket > end) bracket = end;
    if (rule == NULL || rule > end)
      stop = bracket;
    else if (stop == NULL || stop > end)
      stop = end - 1;
    at += sprintf(at, "%.*s%s\n", (int)(stop - line), line, stop == bracket ? "" : ")");
  }
  *at = '\0';
}

static void take_warning(void *user, tn_log_level level, const char *line) {
  if (level == TN_LOG_WARNING) snprintf(((told *)user)->warning, sizeof(((told *)user)->warning), "%s", line);
}

static tn_status *compile(const annotated_case *c, told *t, tn_module **module) {
  const tn_log_sink log = {take_warning, t};
  tn_compile_options o = {.size = sizeof(o),
                          .target = TARGETS,
                          .no_cache = true,
                          .no_measure = true,
                          .run_threads = 1,
                          .log = &log,
                          .user = t,
                          .devices = take_plan,
                          .place = &c->place,
                          .place_count = c->place != NULL,
                          .annotations = c->said};
  while (o.annotation_count < MOST && c->said[o.annotation_count].value != NULL) o.annotation_count++;
  return tn_compile("test.tng", c->graph, strlen(c->graph), &o, module);
}

static void check_case(const annotated_case *c) {
  told t = {.plan = "", .warning = ""};
  tn_module *module = NULL;
  tn_status *status = compile(c, &t, &module);
  if (c->code != TN_OK) {
    assert_null(module);
    check_fails(status, c->code, c->want);
    return;
  }
  check_ok(status);
  const char *plan = strstr(t.plan, "input");
  assert_non_null(plan);
  while (plan > t.plan && plan[-1] != '\n') plan--;
  assert_string_equal(plan, c->want);
  assert_string_equal(t.warning, c->warning != NULL ? c->warning : "");
  tn_module_release(module);
}

static const char chain[] =
    "graph \"main\" {\n"
    "  input x: f32[4]\n"
    "  a: f32[4] = abs(x)\n"
    "  b: f32[4] = negate(a)\n"
    "  c: f32[4] = sqrt(b)\n"
    "  output \"y\" = c\n"
    "}\n";

/* What the two sides mean is what they mean in a graph's text. */
static void sides_of_a_value(void **state) {
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"b", "island:1", .constrain_body = true}},
                               .want = "  island:1     input              x\n"
                                       "  island:1     abs                a  (with \"b\": the annotation of \"b\")\n"
                                       "  island:1     negate             b  (the annotation of \"b\")\n"
                                       "  cpu:0        device_copy        b\n"
                                       "  cpu:0        sqrt               c\n"});
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"b", "island:1", .constrain_result = true}},
                               .want = "  island:1     input              x\n"
                                       "  island:1     abs                a\n"
                                       "  island:1     negate             b\n"
                                       "  island:1     sqrt               c  (with \"b@island:1\": the annotation of "
                                       "\"b\")\n"});
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"b", "island:1", true, true}},
                               .want = "  island:1     input              x\n"
                                       "  island:1     abs                a  (with \"b\": the annotation of \"b\")\n"
                                       "  island:1     negate             b  (the annotation of \"b\")\n"
                                       "  island:1     sqrt               c  (with \"b\": the annotation of \"b\")\n"});
}

/* An output is what is read in the value's place: with the body alone it comes back to where it would be. */
static void inputs_and_outputs(void **state) {
  check_case(
      &(annotated_case){.graph = chain,
                        .said = {{"x", "island:0", true, true}, {"c", "island:1", false, true}},
                        .want = "  island:0     input              x  (the annotation of \"x\")\n"
                                "  island:0     abs                a  (with \"x@island:0\": the annotation of \"x\")\n"
                                "  island:0     negate             b  (with \"x@island:0\": the annotation of \"x\")\n"
                                "  island:0     sqrt               c  (with \"x@island:0\": the annotation of \"x\")\n"
                                "  island:1     device_copy        c\n"});
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"x", "island:0", .constrain_body = true}},
                               .want = "  island:0     input              x  (the annotation of \"x\")\n"
                                       "  cpu:0        device_copy        x\n"
                                       "  cpu:0        abs                a\n"
                                       "  cpu:0        negate             b\n"
                                       "  cpu:0        sqrt               c\n"});
}

static void one_of_several_results(void **state) {
  static const char graph[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  v: f32[2], i: i64[2] = top_k(x) {axis=0, descending=1, count=(2)}\n"
      "  y: f32[2] = abs(v)\n"
      "  output \"y\" = y\n"
      "}\n";
  check_case(&(annotated_case){.graph = graph,
                               .said = {{"i", "island:0", .constrain_body = true}},
                               .want = "  island:0     input              x\n"
                                       "  island:0     top_k              v  (with \"i\": the annotation of \"i\")\n"
                                       "  island:0     abs                y  (with \"i\": the annotation of \"i\")\n"});
}

static const char loop[] =
    "graph \"main\" {\n"
    "  input n: i64[]\n"
    "  input x: f32[4]\n"
    "  const z: i64[] = 0\n"
    "  i: i64[], m: i64[], s: f32[4] = while(z, n, x)\n"
    "    graph \"condition\" {\n"
    "      input a: i64[]\n"
    "      input b: i64[]\n"
    "      input c: f32[4]\n"
    "      more: bool[] = compare(a, b) {direction=\"LT\"}\n"
    "      output \"more\" = more\n"
    "    }\n"
    "    graph \"body\" {\n"
    "      input a: i64[]\n"
    "      input b: i64[]\n"
    "      input state: f32[4]\n"
    "      const one: i64[] = 1\n"
    "      next: i64[] = add(a, one)\n"
    "      t: f32[4] = abs(state)\n"
    "      output \"a\" = next\n"
    "      output \"b\" = b\n"
    "      output \"c\" = t\n"
    "    }\n"
    "  y: f32[4] = negate(s)\n"
    "  output \"y\" = y\n"
    "}\n";

/* The state of a loop is one value, from the start to what reads the result. */
static void the_state_of_a_loop(void **state) {
  static const char *const names[] = {"state", "t"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    told t = {.plan = "", .warning = ""};
    tn_module *module;
    annotated_case c = {.graph = loop, .said = {{names[i], "island:1", true, true}}};
    check_ok(compile(&c, &t, &module));
    assert_non_null(strstr(t.plan, "  island:1     abs                t  ("));
    assert_non_null(strstr(t.plan, "  island:1     negate             y  ("));
    assert_non_null(strstr(t.plan, "    cpu:0        add                next"));
    tn_module_release(module);
  }
}

/* Everything of one value, whatever says it, must agree; what is said of the two sides of a copy need not. */
static void annotations_contradict(void **state) {
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"b", "island:0", true, true}, {"b", "island:1", false, true}},
                               .code = TN_INVALID_ARGUMENT,
                               .want = "annotations contradict: \"b\" is on island:0, and \"b\" on island:1, and they "
                                       "are one value"});
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"b", "island:0", true, true}, {"c", "cpu", .constrain_body = true}},
                               .code = TN_INVALID_ARGUMENT,
                               .want =
                                   "devices contradict: \"b\" is on island:0 (the annotation of \"b\"), and \"c\" on "
                                   "cpu (the annotation of \"c\"); no copy is allowed on the way \"b\" - "
                                   "\"b@island:0\" - \"c\": place them alike, or put on_device with only its "
                                   "result said between them"});
  check_case(&(annotated_case){.graph = chain,
                               .place = "b=cpu",
                               .said = {{"b", "island:0", .constrain_body = true}},
                               .code = TN_INVALID_ARGUMENT,
                               .want = "devices contradict: \"b\" is on cpu:0 (x86-64-v3) (placed by \"b=cpu\"), and "
                                       "\"b\" on island:0 (the annotation of \"b\"): leave one of the two out"});
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"b", "island:0", .constrain_body = true},
                                        {"b", "cpu:0", .constrain_result = true},
                                        {"b", "island", .constrain_body = true}},
                               .want = "  island:0     input              x\n"
                                       "  island:0     abs                a  (with \"b\": the annotation of \"b\")\n"
                                       "  island:0     negate             b  (the annotation of \"b\")\n"
                                       "  cpu:0        device_copy        b\n"
                                       "  cpu:0        sqrt               c  (with \"b@cpu:0\": the annotation of "
                                       "\"b\")\n"});
}

static void what_is_no_annotation(void **state) {
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"bb", "island:0", .constrain_body = true}},
                               .code = TN_NOT_FOUND,
                               .want = "the annotation of \"bb\": no value has this name: names are those of inputs, "
                                       "initializers and nodes' outputs"});
  check_case(&(annotated_case){.graph = loop,
                               .said = {{"sttae", "island:0", .constrain_body = true}},
                               .code = TN_NOT_FOUND,
                               .want = "the annotation of \"sttae\": no value has this name; did you mean \"state\"?"});
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"b", "island:4", .constrain_body = true}},
                               .code = TN_NOT_FOUND,
                               .want = "the annotation of \"b\": there is no device \"island:4\" among the targets: "
                                       "there are cpu:0 (x86-64-v3), island:0 (x86-64-v3), island:1 (x86-64-v3)"});
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"b", "island:0"}},
                               .code = TN_INVALID_ARGUMENT,
                               .want = "tn_compile_options: annotations[0] says nothing of \"b\": set constrain_body, "
                                       "constrain_result or both"});
  check_case(&(annotated_case){.graph = chain,
                               .said = {{"b", NULL, true, true}},
                               .code = TN_INVALID_ARGUMENT,
                               .want = "tn_compile_options: annotations[0] has no device"});
}

static void lists_and_strings_are_on_the_host(void **state) {
  static const char graph[] =
      "graph \"main\" {\n"
      "  input s: string[2]\n"
      "  input l: sequence f32[?]\n"
      "  input o: optional f32[?]\n"
      "  output \"y\" = s\n"
      "  output \"l\" = l\n"
      "  output \"o\" = o\n"
      "}\n";
  static const struct {
    const char *name, *what;
  } cases[] = {{"s", "strings"}, {"l", "a sequence"}, {"o", "an optional value"}};
  char want[256];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    snprintf(want, sizeof want,
             "the annotation of \"%s\": it is %s, and on island:0: lists and strings are on the host, cpu:0",
             cases[i].name, cases[i].what);
    check_case(&(annotated_case){.graph = graph,
                                 .said = {{cases[i].name, "island:0", .constrain_body = true}},
                                 .code = TN_INVALID_ARGUMENT,
                                 .want = want});
  }
}

static void what_nothing_is_left_of_is_a_warning(void **state) {
  static const char graph[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  const unread: f32[] = 2.0\n"
      "  y: f32[4] = abs(x)\n"
      "  output \"y\" = y\n"
      "}\n";
  check_case(&(annotated_case){.graph = graph,
                               .said = {{"unread", "island:0", true, true}},
                               .warning = "the annotation of \"unread\" has no effect: when the model has been read, "
                                          "nothing of that value is left",
                               .want = "  cpu:0        input              x\n"
                                       "  cpu:0        abs                y\n"});
}

/* Where all is in one place, what says so leaves no trace. */
static void saying_what_is_so_changes_nothing(void **state) {
  tn_module *modules[2];
  size_t sizes[2];
  const void *bytes[2];
  const tn_on_device said[] = {
      {"x", "cpu", true, true}, {"b", "cpu:0", .constrain_body = true}, {"c", "cpu", false, true}};
  for (int i = 0; i < 2; i++) {
    tn_compile_options o = {.size = sizeof o, .target = "x86-64-v3", .no_cache = true, .run_threads = 1};
    o.annotations = said, o.annotation_count = i == 0 ? 0 : 3;
    check_ok(tn_compile("test.tng", chain, strlen(chain), &o, &modules[i]));
    bytes[i] = tn_module_data(modules[i], &sizes[i]);
  }
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(bytes[0], bytes[1], sizes[0]);
  for (int i = 0; i < 2; i++) tn_module_release(modules[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sides_of_a_value),
      cmocka_unit_test(inputs_and_outputs),
      cmocka_unit_test(one_of_several_results),
      cmocka_unit_test(the_state_of_a_loop),
      cmocka_unit_test(annotations_contradict),
      cmocka_unit_test(what_is_no_annotation),
      cmocka_unit_test(lists_and_strings_are_on_the_host),
      cmocka_unit_test(what_nothing_is_left_of_is_a_warning),
      cmocka_unit_test(saying_what_is_so_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
