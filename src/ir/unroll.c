#include "ir/context.h"
#include "ir/passes.h"

enum { MAX_STATEMENTS = 1 << 16 };

static const tn__stmt *unroll(tn__ir *ir, const tn__stmt *s, void *user) {
  int64_t extent;
  if (s->kind != TN__STMT_FOR || s->as.loop.kind != TN__LOOP_UNROLLED) return NULL;
  const tn__var *var = s->as.loop.var;
  int64_t most = s->as.loop.pragmas.value[TN__PRAGMA_UNROLL_LIMIT];
  if (most == 0 || most > MAX_STATEMENTS) most = MAX_STATEMENTS;
  if (!tn__as_int(var->extent, &extent) || tn__bound_mul(extent, tn__stmt_weight(s->as.loop.body)) > most)
    return tn__for(ir, var, TN__LOOP_SERIAL, s->as.loop.body); /* a wish, not a promise */
  if (extent <= 0) return tn__seq(ir, NULL, 0);
  const tn__stmt **items = TN__NEW_ARRAY(ir->arena, extent, const tn__stmt *);
  for (int64_t i = 0; i < extent; i++) {
    const tn__expr *value = tn__add_i(ir, var->min, i);
    items[i] = tn__stmt_substitute(ir, s->as.loop.body, &var, &value, 1);
  }
  return tn__seq(ir, items, (int)extent);
}

tn__func *tn__unroll_loops(tn__ir *ir, const tn__func *func) {
  return tn__func_with_body(ir, func, tn__stmt_rewrite(ir, func->body, unroll, NULL, NULL));
}
