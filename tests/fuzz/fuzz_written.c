/* User-written schedules. The first byte chooses a declaration; the rest is a text of blocks or, after a '+', the
 * statements of one block for that declaration. An accepted schedule verifies, prints as a block with the same
 * steps, and computes the same results as the declaration; an error names its location. */
#include "fuzz/fuzz.h"
#include "schedule/rules/choose.h"
#include "schedule/written/written.h"
#include "unit/schedule_oracle.h"

/* Returns whether the interpreter can run the function quickly. */
static bool is_small(const tn__schedule *s) {
  tn__snodes blocks = {0};
  tn__sched_blocks(tn__sched_mutable(s), s->root, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    int64_t times = 1, extent;
    for (const tn__snode *n = blocks.data[i]->parent; n->var != NULL; n = n->parent) {
      if (!tn__ir_as_int(n->var->extent, &extent)) extent = OPEN_DIM;
      if (extent < 1 || extent > 10000 || times > 10000) return false;
      times *= extent;
    }
  }
  return blocks.count < 20;
}

static tn_status *check_small(const tn__schedule *s, const pair *p, void *user) {
  if (tn__stmt_weight(tn__schedule_func(s)->body) > MOST_STATEMENTS) return NULL;
  return check_pair(s, p, user);
}

/* Returns the plan for the block, all of whose statements must apply. */
static const tn__plan *apply(tn__ir *ir, const tn__te *te, const tn__target *target, const tn__written_block *block) {
  tn__rules none = {0};
  tn__plan_unit unit = {.rules = &none, .te = te, .target = target};
  tn__check(tn__ir_arena(ir)->escape, tn__schedule_options_fill(NULL, target, &unit.options));
  const tn__written_use use = {.block = block};
  const tn__chooser chooser = tn__written_chooser(&use);
  return tn__plan_kernel(&unit, &chooser);
}

static void check_plan(tn__ir *ir, const tn__target *target, const tn__plan *plan, const recipe *r) {
  tn__arena *arena = tn__ir_arena(ir);
  tn__strbuf text;
  const tn__written *written;
  pair p = {.r = *r};
  if (!is_small(plan->schedule)) return;
  attempt a = {.s = plan->schedule, .p = &p, .check = check_small};
  tn_status *status = attempted(&a, attempt_check);
  if (tn_status_code_of(status) == TN_INVALID_ARGUMENT) { /* some invalid steps are detected only at the end */
    tn_status_free(status);
    return;
  }
  require(status == NULL);
  const char *trace = schedule_text(plan->schedule, false);
  tn__strbuf_init(&text, NULL);
  tn__written_print(plan->schedule, NULL, &text);
  status = tn__written_parse(arena, "printed", tn__strbuf_text(&text), text.length, 1, &written);
  require(status == NULL);
  tn__te *te = make_recipe(ir, r);
  const tn__plan *again = apply(ir, te, target, tn__written_need(arena->escape, written, tn__te_name(te), target));
  require(strcmp(trace, schedule_text(again->schedule, false)) == 0);
  tn__strbuf_release(&text);
}

static void run(tn__escape *escape, void *user) {
  fuzz_input *in = user;
  in->arena.escape = escape;
  in->arena.work = TN__NEW(&in->arena, tn__work); /* lives until the arena is released */
  *in->arena.work = (tn__work){.most = 1 << 24, .of = "a schedule"};
  const char *text = tn__arena_strndup(&in->arena, (const char *)in->data + 1, in->size - 1);
  tn__ir *ir = tn__ir_create(&in->arena);
  tn__target target;
  const tn__written *written;
  recipe r = {.kind = in->data[0] % 10u, .dtype = TN_F32, .dims = {3, 5, 4}, .stride = 1, .variant = 2};
  oracle_target(&target);
  tn__te *te = make_recipe(ir, &r);
  if (text[0] == '+') text = tn__arena_printf(&in->arena, "schedule for %s {\n%s\n}\n", tn__te_name(te), text + 1);
  tn__check(escape, tn__written_parse(&in->arena, "fuzz", text, strlen(text), 1, &written));
  const tn__written_block *block = tn__written_find(written, tn__te_name(te), &target);
  if (block != NULL) check_plan(ir, &target, apply(ir, te, &target, block), &r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 0 && size <= 4096) fuzz_reader(data, size, run);
  return 0;
}
