#include "ir/context.h"
#include "ir/passes.h"

enum { MAX_STATEMENTS = 1 << 16 };

/* ---- sums in memory -----------------------------------------------------------------------------------------------
 * y[j] = y[j] + a; y[j] = y[j] + b becomes y[j] = y[j] + a + b, which reads and writes y once. */

enum { MOST_TERMS = 16 };

/* A store, alone or in a vectorised loop, to memory that others see; NULL for anything else. */
static const tn__stmt *store_of(const tn__stmt *s) {
  if (s->kind == TN__STMT_FOR && s->as.loop.kind == TN__LOOP_VECTORIZED) s = s->as.loop.body;
  if (s->kind != TN__STMT_STORE) return NULL;
  tn__scope scope = s->as.store.buffer->scope;
  return scope == TN__SCOPE_PARAM || scope == TN__SCOPE_WORKSPACE ? s : NULL;
}

static bool is_place_of(const tn__expr *e, const tn__stmt *store) {
  if (e->kind != TN__EXPR_LOAD || e->value.buffer != store->as.store.buffer) return false;
  for (int d = 0; d < e->arg_count; d++)
    if (e->args[d] != store->as.store.indices[d]) return false;
  return true;
}

/* Which argument of the stored sum (or maximum ...) is the place that it is stored to, while nothing else in it reads
 * the buffer? -1: none. */
static int own_argument(const tn__stmt *store) {
  const tn__expr *value = store->as.store.value;
  if (value->kind != TN__EXPR_ADD && value->kind != TN__EXPR_MAX && value->kind != TN__EXPR_MIN) return -1;
  for (int i = 0; i < 2; i++)
    if (is_place_of(value->args[i], store) && !tn__expr_uses_buffer(value->args[1 - i], store->as.store.buffer))
      return i;
  return -1;
}

/* Both in one, or NULL when they are not such stores to one place. */
static const tn__stmt *join(tn__ir *ir, const tn__stmt *first, const tn__stmt *second) {
  const tn__stmt *a = store_of(first), *b = store_of(second);
  if (a == NULL || b == NULL || first->kind != second->kind || a->as.store.buffer != b->as.store.buffer) return NULL;
  bool loops = first->kind == TN__STMT_FOR;
  if (loops && first->as.loop.var != second->as.loop.var) return NULL;
  for (int d = 0; d < a->as.store.buffer->rank; d++)
    if (a->as.store.indices[d] != b->as.store.indices[d] || tn__expr_has_load(a->as.store.indices[d])) return NULL;
  const tn__expr *sum = b->as.store.value, *args[2];
  int own = own_argument(b);
  if (own < 0 || a->as.store.value->kind != sum->kind) return NULL;
  args[own] = a->as.store.value;
  args[1 - own] = sum->args[1 - own];
  const tn__stmt *both = tn__ir_store(ir, a->as.store.buffer, a->as.store.indices, tn__expr_with_args(ir, sum, args));
  return loops ? tn__ir_for_with(ir, first->as.loop.var, first->as.loop.kind, &first->as.loop.pragmas, both) : both;
}

/* Joins neighbours; returns how many statements are left. */
TN_MUST_USE static int join_all(tn__ir *ir, const tn__stmt **items, int count) {
  int n = 0, terms = 1;
  for (int i = 0; i < count; i++) {
    const tn__stmt *store = n > 0 && terms < MOST_TERMS ? store_of(items[n - 1]) : NULL;
    const tn__stmt *both = NULL;
    if (store != NULL && (terms > 1 || own_argument(store) >= 0)) both = join(ir, items[n - 1], items[i]);
    terms = both != NULL ? terms + 1 : 1;
    if (both != NULL)
      items[n - 1] = both;
    else
      items[n++] = items[i];
  }
  return n;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static const tn__stmt *unroll(tn__ir *ir, const tn__stmt *s, void *user) {
  int64_t extent;
  if (s->kind != TN__STMT_FOR || s->as.loop.kind != TN__LOOP_UNROLLED) return NULL;
  const tn__var *var = s->as.loop.var;
  int64_t most = s->as.loop.pragmas.value[TN__PRAGMA_UNROLL_LIMIT];
  if (most == 0 || most > MAX_STATEMENTS) most = MAX_STATEMENTS;
  if (!tn__ir_as_int(var->extent, &extent) || tn__ir_bound_mul(extent, tn__stmt_weight(s->as.loop.body)) > most)
    return tn__ir_for(ir, var, TN__LOOP_SERIAL, s->as.loop.body); /* a wish, not a promise */
  if (extent <= 0) return tn__ir_seq(ir, NULL, 0);
  const tn__stmt **items = TN__NEW_ARRAY(ir->arena, extent, const tn__stmt *);
  for (int64_t i = 0; i < extent; i++) {
    const tn__expr *value = tn__ir_add_i(ir, var->min, i);
    items[i] = tn__stmt_substitute(ir, s->as.loop.body, &var, &value, 1);
  }
  return tn__ir_seq(ir, items, join_all(ir, items, (int)extent));
}

tn__func *tn__ir_unroll_loops(tn__ir *ir, const tn__func *func) {
  return tn__func_with_body(ir, func, tn__stmt_rewrite(ir, func->body, unroll, NULL, NULL));
}
