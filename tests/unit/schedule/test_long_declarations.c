/* Declarations of hundreds of stages: choosing a schedule takes steps (base/arena.h) and memory in proportion to their
 * number. Nothing is timed: four times as many stages may take a little more than four times as much. */
#include "codegen/workspace.h"
#include "schedule/rules/choose.h"
#include "target/text/text.h"
#include "unit/te_text_check.h"

/* Sixteen operations: a hundred stages are more than go into one loop. */
#define DEEP(x) "min(max(" x " * 1.5 + 2, 3) * 0.5 - 1, max(" x " - 5, 0) * 0.25 + abs(" x " + 7) * 2) * 3 - 4"

/* What the stage `T<n>`, or the output, is made of, in terms of the tensor before it. */
typedef struct row {
  const char *of, *format; /* the name of the stage, of the one before it, ... */
} row;

static const row rows[] = {
    {"maps", "  %1$s[i: 60, j: 70] = " DEEP("%2$s[i, j]") "\n"},
    {"maps that read an input, too", "  %1$s[i: 60, j: 70] = X[i, j] + " DEEP("%2$s[i, j]") "\n"},
    {"maps with their axes the other way", "  %1$s[i: 70, j: 70] = " DEEP("%2$s[j, i]") "\n"},
    {"stencils", "  %1$s[i: 60, j: 70] = %2$s[i, max(j - 1, 0)] + %2$s[i, min(j + 1, 69)]\n"},
    {"sums of rows", "  R%1$s[i: 60] = sum(k: 70) %2$s[i, k]\n  %1$s[i: 60, j: 70] = %2$s[i, j] - R%1$s[i]\n"},
    {"products", "  %1$s[i: 60, j: 70] = sum(k: 70) %2$s[i, k] * W[k, j]\n"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

typedef struct effort {
  double steps, bytes;
  int64_t workspace;
} effort;

static void plan(tn__te *te, void *user) {
  effort *e = user;
  tn__ir *ir = tn__te_ir(te);
  tn__arena *arena = tn__ir_arena(ir);
  const double steps = (double)arena->steps, bytes = (double)arena->bytes;
  tn__target target;
  tn__escape *escape = arena->escape;
  tn__check(escape, tn__target_parse("x86-64-v3", &target));
  tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, NULL);
  const tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
  const tn__func *func = tn__schedule_func(plan->schedule);
  e->steps = (double)arena->steps - steps;
  e->bytes = (double)arena->bytes - bytes;
  assert_true(tn__ir_as_int(tn__cg_layout_of(ir, func)->total, &e->workspace));
}

static effort effort_of(const row *r, int stages) {
  effort e = {0};
  tn__strbuf text;
  char before[16] = "X", name[16];
  tn__strbuf_init(&text, NULL);
  const int height = strstr(r->format, "i: 70") == NULL ? 60 : 70;
  tn__strbuf_printf(&text, "kernel long(X: f32[%d, 70], W: f32[70, 70]) -> Y: f32[%d, 70] {\n", height, height);
  for (int i = 0; i < stages; i++) {
    snprintf(name, sizeof name, i == stages - 1 ? "Y" : "T%d", i);
    tn__strbuf_printf(&text, r->format, name, before);
    memcpy(before, name, sizeof name);
  }
  tn__strbuf_append(&text, "}\n");
  te_text_job job = {.text = tn__strbuf_text(&text), .then = plan, .user = &e};
  check_ok(te_text_run(&job));
  tn__strbuf_release(&text);
  return e;
}

static void effort_grows_with_the_number_of_stages(void **state) {
  enum { FEW = 200, MORE = 4 };
  for (int i = 0; i < ROWS; i++) {
    const effort few = effort_of(&rows[i], FEW), many = effort_of(&rows[i], FEW * MORE);
    print_message("%s: %.0f steps and %.0f bytes a stage, times %.2f and %.2f\n", rows[i].of, few.steps / FEW,
                  few.bytes / FEW, many.steps / few.steps, many.bytes / few.bytes);
    if (many.steps > 1.2 * MORE * few.steps) fail_msg("%s: %.0f steps, %.0f before", rows[i].of, many.steps, few.steps);
    if (many.bytes > 1.2 * MORE * few.bytes) fail_msg("%s: %.0f bytes, %.0f before", rows[i].of, many.bytes, few.bytes);
    /* Of a row of stages two are alive at a time. */
    assert_true(many.workspace <= 3 * 70 * 70 * 4 + 1024);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(effort_grows_with_the_number_of_stages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
