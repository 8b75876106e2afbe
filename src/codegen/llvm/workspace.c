#include "codegen/llvm/workspace.h"

#include <stdlib.h>

#include "tenon/kernel_abi.h"

const tn__expr *tn__cg_bytes_of(tn__ir *ir, const tn__buffer *buffer) {
  const tn__expr *bytes = tn__ir_index(ir, (int64_t)tn_dtype_size(buffer->dtype));
  for (int i = 0; i < buffer->rank; i++) bytes = tn__ir_mul(ir, bytes, buffer->shape[i]);
  return bytes;
}

const tn__cg_place *tn__cg_place_of(const tn__cg_layout *layout, const tn__buffer *buffer) {
  for (int i = 0; i < layout->places.count; i++)
    if (layout->places.data[i].buffer == buffer) return &layout->places.data[i];
  return NULL;
}

bool tn__cg_places_share(const tn__cg_place *a, const tn__cg_place *b) {
  return a->start < b->start + b->bytes && b->start < a->start + a->bytes;
}

/* ---- lifetimes --------------------------------------------------------------------------------------------------- */

typedef struct lives {
  tn__ir *ir;
  tn__cg_layout *layout;
  int at; /* number of the statement */
} lives;

static bool add_place(const tn__stmt *s, void *user) {
  lives *l = user;
  tn__cg_place place = {.first = INT32_MAX, .last = -1};
  if (s->kind == TN__STMT_ALLOC && s->as.alloc.buffer->scope == TN__SCOPE_WORKSPACE) {
    place.buffer = s->as.alloc.buffer;
    tn__vec_push(tn__ir_arena(l->ir), &l->layout->places, place);
  }
  return true;
}

static void use(lives *l, const tn__buffer *buffer) {
  if (buffer->scope != TN__SCOPE_WORKSPACE) return;
  for (int i = 0; i < l->layout->places.count; i++) {
    tn__cg_place *p = &l->layout->places.data[i];
    if (p->buffer != buffer) continue;
    if (l->at < p->first) p->first = l->at;
    if (l->at > p->last) p->last = l->at;
  }
}

static void use_expr(const tn__expr *e, void *user) {
  lives *l = user;
  for (int i = 0; i < l->layout->places.count; i++)
    if (tn__expr_uses_buffer(e, l->layout->places.data[i].buffer)) use(l, l->layout->places.data[i].buffer);
}

static bool use_stmt(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_STORE) use(user, s->as.store.buffer);
  if (s->kind == TN__STMT_PREFETCH) use(user, s->as.prefetch.buffer);
  for (int i = 0; s->kind == TN__STMT_TENSOR && i < tn__ir_tensor_operand_count(s->as.tensor.op); i++)
    use(user, s->as.tensor.operands[i].buffer);
  return true;
}

/* Statements that are done one after the other: the function's body, inside of what stands around all of it. */
static void find_lives(lives *l, const tn__func *func) {
  const tn__stmt *s = func->body;
  while (s->kind == TN__STMT_ALLOC || s->kind == TN__STMT_LET)
    s = s->kind == TN__STMT_ALLOC ? s->as.alloc.body : s->as.let.body;
  int count = s->kind == TN__STMT_SEQ ? s->as.seq.count : 1;
  for (l->at = 0; l->at < count; l->at++) {
    const tn__stmt *item = s->kind == TN__STMT_SEQ ? s->as.seq.items[l->at] : s;
    tn__stmt_walk(item, use_stmt, l);
    tn__stmt_walk_exprs(item, use_expr, l);
  }
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static bool live_together(const tn__cg_place *a, const tn__cg_place *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* The lowest place that is free for as long as `p` is in use: 0, or the end of one that is. */
static int64_t lowest_place(tn__cg_place *const *done, int count, const tn__cg_place *p) {
  int64_t best = INT64_MAX;
  for (int i = -1; i < count; i++) {
    tn__cg_place candidate = *p;
    bool free = true;
    candidate.start = i < 0 ? 0 : done[i]->start + done[i]->bytes;
    for (int k = 0; k < count && free; k++)
      free = !live_together(done[k], p) || !tn__cg_places_share(done[k], &candidate);
    if (free && candidate.start < best) best = candidate.start;
  }
  return best;
}

/* Largest first, in the order of allocation among equals. */
static int by_size(const void *x, const void *y) {
  const tn__cg_place *a = *(tn__cg_place *const *)x, *b = *(tn__cg_place *const *)y;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  return a < b ? -1 : a > b;
}

const tn__cg_layout *tn__cg_layout_of(tn__ir *ir, const tn__func *func) {
  tn__arena *arena = tn__ir_arena(ir);
  tn__cg_layout *layout = TN__NEW(arena, tn__cg_layout);
  lives l = {.ir = ir, .layout = layout};
  int64_t end = 0, bytes;
  tn__stmt_walk(func->body, add_place, &l);
  find_lives(&l, func);
  tn__cg_place **fixed = TN__NEW_ARRAY(arena, layout->places.count, tn__cg_place *);
  int count = 0;
  for (int i = 0; i < layout->places.count; i++) {
    tn__cg_place *p = &layout->places.data[i];
    if (!tn__ir_as_int(tn__cg_bytes_of(ir, p->buffer), &bytes)) continue;
    p->bytes = (bytes + TN_KERNEL_ALIGNMENT - 1) / TN_KERNEL_ALIGNMENT * TN_KERNEL_ALIGNMENT;
    fixed[count++] = p;
  }
  qsort(fixed, (size_t)count, sizeof(*fixed), by_size);
  for (int i = 0; i < count; i++) {
    fixed[i]->start = lowest_place(fixed, i, fixed[i]);
    fixed[i]->offset = tn__ir_index(ir, fixed[i]->start);
    if (fixed[i]->start + fixed[i]->bytes > end) end = fixed[i]->start + fixed[i]->bytes;
  }
  layout->total = tn__ir_index(ir, end);
  for (int i = 0; i < layout->places.count; i++) {
    tn__cg_place *p = &layout->places.data[i];
    if (p->offset != NULL) continue;
    const tn__expr *units = tn__ir_ceildiv(ir, tn__cg_bytes_of(ir, p->buffer), tn__ir_index(ir, TN_KERNEL_ALIGNMENT));
    p->offset = layout->total;
    layout->total = tn__ir_add(ir, layout->total, tn__ir_mul_i(ir, units, TN_KERNEL_ALIGNMENT));
  }
  return layout;
}
