/* Epilogues with functions in them become loops over the tile's rows.
 *
 * Accumulators in registers want every row unrolled, and so an epilogue that reads them is unrolled with them: GELU
 * behind a tile of 14 rows of two vectors is its polynomial 28 times, which took LLVM longer than everything else in
 * the kernel. A copy of the tile on the stack, two instructions a vector, lets one row stand for all. */
#include "ir/roll.h"

#include "ir/context.h"
#include "ir/passes.h"

/* ---- the parts --------------------------------------------------------------------------------------------------- */

typedef struct reading {
  const tn__buffer *buffer;
  const tn__expr *load; /* the only one */
  bool several;
} reading;

static const tn__expr *see_load(tn__ir *ir, const tn__expr *e, void *user) {
  reading *r = user;
  if (e->kind != TN__EXPR_LOAD || e->value.buffer != r->buffer) return NULL;
  r->several |= r->load != NULL && r->load != e;
  r->load = e;
  return NULL;
}

/* The store inside of loops that are expanded and conditions, and nothing else; NULL when there is more. */
static const tn__stmt *only_store(const tn__stmt *s) {
  for (;;) {
    if (s->kind == TN__STMT_FOR && (s->as.loop.kind == TN__LOOP_VECTORIZED || s->as.loop.kind == TN__LOOP_UNROLLED))
      s = s->as.loop.body;
    else if (s->kind == TN__STMT_IF && s->as.branch.else_body == NULL)
      s = s->as.branch.then_body;
    else
      return s->kind == TN__STMT_STORE ? s : NULL;
  }
}

/* Are lanes stored apart? Stores of other rows fill their gaps then, and should stay beside each other. */
static bool stores_apart(tn__ir *ir, const tn__stmt *rows, const tn__stmt *store) {
  const tn__buffer *buffer = store->as.store.buffer;
  const tn__expr *flat = tn__buffer_flatten(ir, buffer, store->as.store.indices);
  int64_t stride;
  for (const tn__stmt *s = rows; s != store; s = s->kind == TN__STMT_FOR ? s->as.loop.body : s->as.branch.then_body) {
    if (s->kind != TN__STMT_FOR || s->as.loop.kind != TN__LOOP_VECTORIZED) continue;
    if (tn__ir_stride_in(ir, flat, s->as.loop.var, &stride) && stride > 1) return true;
  }
  return false;
}

static const tn__stmt *exchange(tn__ir *ir, const tn__stmt *s, void *user) {
  return s->kind == TN__STMT_STORE ? user : NULL;
}

bool tn__ir_roll(tn__ir *ir, const tn__stmt *alloc, tn__rolled *out) {
  const tn__buffer *from = alloc->as.alloc.buffer;
  const tn__stmt *body = alloc->as.alloc.body;
  int64_t extent;
  if (from->scope != TN__SCOPE_REGISTER || body->kind != TN__STMT_SEQ) return false;
  int count = body->as.seq.count;
  const tn__stmt *last = body->as.seq.items[count - 1];
  if (last->kind != TN__STMT_FOR || last->as.loop.kind != TN__LOOP_UNROLLED) return false;
  const tn__var *row = last->as.loop.var;
  if (!tn__ir_as_int(row->extent, &extent) || extent < 2 || !tn__ir_is_int_value(row->min, 0)) return false;
  const tn__stmt *store = only_store(last);
  if (store == NULL || store->as.store.buffer == from) return false;
  reading r = {.buffer = from};
  tn__expr_rewrite(ir, store->as.store.value, see_load, &r);
  for (int i = 0; i < store->as.store.buffer->rank; i++)
    if (tn__expr_uses_buffer(store->as.store.indices[i], from)) return false;
  bool copies = r.load == store->as.store.value && store->as.store.buffer->scope == TN__SCOPE_STACK;
  if (r.load == NULL || r.several || copies || stores_apart(ir, last, store)) return false;
  const tn__buffer *tile = tn__buffer_create(ir, tn__arena_printf(ir->arena, "%s.tile", from->name), from->dtype,
                                             TN__SCOPE_STACK, from->rank, from->shape);
  const tn__stmt *copy = tn__ir_store(ir, tile, r.load->args, r.load);
  const tn__stmt **items = TN__NEW_ARRAY(ir->arena, count, const tn__stmt *);
  for (int i = 0; i < count - 1; i++) items[i] = body->as.seq.items[i];
  /* The loops' variables stand for both: neither loop is inside of the other. */
  items[count - 1] = tn__stmt_rewrite(ir, last, exchange, NULL, (void *)(uintptr_t)copy);
  *out = (tn__rolled){.tile = tile,
                      .core = tn__ir_alloc_stmt(ir, from, tn__ir_seq(ir, items, count)),
                      .rows = tn__stmt_replace_buffer(ir, last, from, tile, NULL, NULL)};
  return true;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static const tn__stmt *roll(tn__ir *ir, const tn__stmt *s, void *user) {
  tn__rolled parts;
  tn__expr_set seen = {.ir = ir};
  if (s->kind != TN__STMT_ALLOC || !tn__ir_roll(ir, s, &parts)) return NULL;
  if (!tn__ir_has_function(&seen, only_store(parts.rows)->as.store.value)) return NULL;
  const tn__stmt *rows = tn__ir_for(ir, parts.rows->as.loop.var, TN__LOOP_SERIAL, parts.rows->as.loop.body);
  return tn__ir_alloc_stmt(ir, parts.tile, tn__ir_seq2(ir, parts.core, rows));
}

tn__func *tn__ir_roll_epilogues(tn__ir *ir, const tn__func *func) {
  return tn__func_with_body(ir, func, tn__stmt_rewrite(ir, func->body, roll, NULL, NULL));
}
