#include "codegen/workspace.h"

#include <stdlib.h>
#include <string.h>

#include "tenon/kernel_abi.h"

const tn__expr *tn__cg_bytes_of(tn__ir *ir, const tn__buffer *buffer) {
  const tn__expr *bytes = tn__ir_index(ir, (int64_t)tn_dtype_size(buffer->dtype));
  for (int i = 0; i < buffer->rank; i++) bytes = tn__ir_mul(ir, bytes, buffer->shape[i]);
  return bytes;
}

static tn__cg_place *place_with_id(const tn__cg_layout *layout, uint32_t id) {
  const int number = id < layout->ids ? layout->of_buffer[id] : -1;
  return number < 0 ? NULL : &layout->places.data[number];
}

const tn__cg_place *tn__cg_place_of(const tn__cg_layout *layout, const tn__buffer *buffer) {
  return place_with_id(layout, buffer->id);
}

bool tn__cg_places_meet(const tn__cg_place *a, const tn__cg_place *b) {
  return a->first <= b->last && b->first <= a->last;
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

static void use(lives *l, uint32_t id) {
  tn__cg_place *p = place_with_id(l->layout, id);
  if (p == NULL) return;
  if (l->at < p->first) p->first = l->at;
  if (l->at > p->last) p->last = l->at;
}

static void use_expr(const tn__expr *e, void *user) {
  int count;
  const uint32_t *ids = tn__expr_buffers(e, &count);
  for (int i = 0; i < count; i++) use(user, ids[i]);
}

static bool use_stmt(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_STORE) use(user, s->as.store.buffer->id);
  if (s->kind == TN__STMT_PREFETCH) use(user, s->as.prefetch.buffer->id);
  for (int i = 0; s->kind == TN__STMT_TENSOR && i < tn__ir_tensor_operand_count(s->as.tensor.op); i++)
    use(user, s->as.tensor.operands[i].buffer->id);
  return true;
}

static void number_places(tn__arena *arena, tn__cg_layout *layout) {
  for (int i = 0; i < layout->places.count; i++) {
    const uint32_t id = layout->places.data[i].buffer->id;
    if (id >= layout->ids) layout->ids = id + 1;
  }
  layout->of_buffer = TN__NEW_ARRAY(arena, layout->ids, int);
  memset(layout->of_buffer, -1, layout->ids * sizeof(int));
  for (int i = 0; i < layout->places.count; i++) layout->of_buffer[layout->places.data[i].buffer->id] = i;
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

/* The lowest place that is free for as long as `p` is in use. Others come by their starts. */
static int64_t lowest_place(tn__cg_place *const *others, int count, const tn__cg_place *p) {
  int64_t start = 0;
  for (int i = 0; i < count && others[i]->start < start + p->bytes; i++) {
    const int64_t end = others[i]->start + others[i]->bytes;
    if (tn__cg_places_meet(others[i], p) && end > start) start = end;
  }
  return start;
}

static void insert_by_start(tn__cg_place **others, int count, tn__cg_place *p) {
  int at = count;
  for (; at > 0 && others[at - 1]->start > p->start; at--) others[at] = others[at - 1];
  others[at] = p;
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
  number_places(arena, layout);
  find_lives(&l, func);
  tn__cg_place **fixed = TN__NEW_ARRAY(arena, layout->places.count, tn__cg_place *);
  tn__cg_place **placed = TN__NEW_ARRAY(arena, layout->places.count, tn__cg_place *);
  int count = 0;
  for (int i = 0; i < layout->places.count; i++) {
    tn__cg_place *p = &layout->places.data[i];
    if (!tn__ir_as_int(tn__cg_bytes_of(ir, p->buffer), &bytes)) continue;
    p->bytes = (bytes + TN_KERNEL_ALIGNMENT - 1) / TN_KERNEL_ALIGNMENT * TN_KERNEL_ALIGNMENT;
    fixed[count++] = p;
  }
  qsort(fixed, (size_t)count, sizeof(*fixed), by_size);
  for (int i = 0; i < count; i++) {
    fixed[i]->start = lowest_place(placed, i, fixed[i]);
    insert_by_start(placed, i, fixed[i]);
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
