/* The pipeline from a scheduled function to code generators. */
#include "ir/passes.h"

#include "base/clock.h"
#include "ir/context.h"

typedef struct pass {
  const char *name;
  tn__func *(*run)(tn__ir *ir, const tn__func *func);
} pass;

static const pass passes[] = {
    {"lower_blocks", tn__ir_lower_blocks},         {"serialize_threads", tn__ir_serialize_threads},
    {"roll_epilogues", tn__ir_roll_epilogues},     {"settle_bounds", tn__ir_settle_bounds},
    {"split_stretched", tn__ir_split_stretched},   {"mark_borders", tn__ir_mark_borders},
    {"partition_loops", tn__ir_partition_loops},   {"unmark_borders", tn__ir_unmark_borders},
    {"specialize_tails", tn__ir_specialize_tails}, {"unroll_loops", tn__ir_unroll_loops},
    {"hoist_conditions", tn__ir_hoist_conditions}, {"remove_dead", tn__ir_remove_dead},
};
enum { PASS_COUNT = sizeof(passes) / sizeof(passes[0]) };

static tn__func *run(tn__ir *ir, const pass *p, const tn__func *func, const tn__pass_hooks *hooks) {
  double start = tn__now();
  tn__func *result = p->run(ir, func);
  if (hooks != NULL && hooks->after != NULL) hooks->after(p->name, result, tn__now() - start, hooks->user);
#ifndef NDEBUG
  tn__check(ir->arena->escape, tn_status_prefix(tn__func_verify(ir, result), "after %s", p->name));
#endif
  return result;
}

const char *tn__ir_pass_name(int index) { return index >= 0 && index < PASS_COUNT ? passes[index].name : NULL; }

tn__func *tn__ir_run_pass(tn__ir *ir, int index, const tn__func *func, const tn__pass_hooks *hooks) {
  return run(ir, &passes[index], func, hooks);
}

tn__func *tn__ir_lower_for_codegen(tn__ir *ir, const tn__func *func, const tn__pass_hooks *hooks) {
  tn__func *result = tn__func_with_body(ir, func, func->body);
  for (int i = 0; i < PASS_COUNT; i++) result = run(ir, &passes[i], result, hooks);
  return result;
}

/* Loops stay whole: copies of a body would be threads that take turns. */
tn__func *tn__ir_lower_for_threads(tn__ir *ir, const tn__func *func, const tn__pass_hooks *hooks) {
  static const pass threads[] = {{"lower_blocks", tn__ir_lower_blocks},
                                 {"unroll_loops", tn__ir_unroll_loops},
                                 {"hoist_conditions", tn__ir_hoist_conditions},
                                 {"remove_dead", tn__ir_remove_dead}};
  tn__func *result = tn__func_with_body(ir, func, func->body);
  for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) result = run(ir, &threads[i], result, hooks);
  return result;
}
