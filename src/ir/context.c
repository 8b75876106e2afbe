#include "ir/context.h"

#include <string.h>

#include "base/hash.h"
#include "ir/scalar.h"

enum { FIRST_SLOTS = 256 };

tn__ir *tn__ir_create(tn__arena *arena) {
  tn__ir *ir = TN__NEW(arena, tn__ir);
  ir->arena = arena;
  ir->slot_count = FIRST_SLOTS;
  ir->slots = TN__NEW_ARRAY(arena, FIRST_SLOTS, const tn__expr *);
  ir->next_epoch = 1;
  return ir;
}

tn__arena *tn__ir_arena(const tn__ir *ir) { return ir->arena; }

void tn__ir_defect(const tn__ir *ir, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_INTERNAL, format, args);
  va_end(args);
  tn__throw(ir->arena->escape, status);
}

/* The bits that tell leaves apart; arguments are hashed besides. */
static uint64_t value_bits(const tn__expr *e) {
  switch (e->kind) {
    case TN__EXPR_INT: return (uint64_t)e->value.i;
    case TN__EXPR_FLOAT: {
      uint64_t bits;
      memcpy(&bits, &e->value.f, sizeof(bits));
      return bits;
    }
    case TN__EXPR_VAR: return e->value.var->id;
    case TN__EXPR_LOAD: return e->value.buffer->id;
    case TN__EXPR_CALL: return (uint64_t)e->intrinsic;
    default: return 0;
  }
}

static uint64_t hash_of(const tn__expr *e) {
  uint64_t h = tn__hash_mix((uint64_t)e->kind << 32 | (uint64_t)e->dtype, value_bits(e));
  for (int i = 0; i < e->arg_count; i++) h = tn__hash_mix(h, e->args[i]->hash);
  return h;
}

static bool same(const tn__expr *a, const tn__expr *b) {
  if (a->hash != b->hash || a->kind != b->kind || a->dtype != b->dtype || a->arg_count != b->arg_count ||
      value_bits(a) != value_bits(b))
    return false;
  for (int i = 0; i < a->arg_count; i++)
    if (a->args[i] != b->args[i]) return false;
  return true;
}

static void grow(tn__ir *ir) {
  uint32_t count = ir->slot_count * 2;
  const tn__expr **slots = TN__NEW_ARRAY(ir->arena, count, const tn__expr *);
  for (uint32_t i = 0; i < ir->slot_count; i++) {
    if (ir->slots[i] == NULL) continue;
    uint32_t at = (uint32_t)ir->slots[i]->hash & (count - 1);
    while (slots[at] != NULL) at = (at + 1) & (count - 1);
    slots[at] = ir->slots[i];
  }
  ir->slots = slots;
  ir->slot_count = count;
}

/* Where `proto` (with its hash set) stands or would stand. */
static uint32_t probe(const tn__ir *ir, const tn__expr *proto) {
  uint32_t at = (uint32_t)proto->hash & (ir->slot_count - 1);
  while (ir->slots[at] != NULL && !same(ir->slots[at], proto)) at = (at + 1) & (ir->slot_count - 1);
  return at;
}

static const tn__id_set *one_id(tn__ir *ir, uint32_t id) {
  tn__id_set *set = tn__arena_alloc(ir->arena, sizeof(*set) + sizeof(uint32_t));
  set->count = 1;
  set->ids[0] = id;
  return set;
}

static bool has_id(const tn__id_set *set, uint32_t id) {
  int low = 0, high = set == NULL ? 0 : set->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (set->ids[middle] == id) return true;
    if (set->ids[middle] < id)
      low = middle + 1;
    else
      high = middle;
  }
  return false;
}

static const tn__id_set *united(tn__ir *ir, const tn__id_set *a, const tn__id_set *b) {
  if (b == NULL || a == b) return a;
  if (a == NULL) return b;
  int extra = 0;
  for (int i = 0; i < b->count; i++) extra += !has_id(a, b->ids[i]);
  if (extra == 0) return a;
  if (a->count + extra == b->count) return b;
  tn__id_set *set = tn__arena_alloc(ir->arena, sizeof(*set) + (size_t)(a->count + extra) * sizeof(uint32_t));
  int i = 0, j = 0;
  while (i < a->count || j < b->count) {
    bool both = i < a->count && j < b->count && a->ids[i] == b->ids[j];
    bool first = j == b->count || (i < a->count && a->ids[i] <= b->ids[j]);
    set->ids[set->count++] = first ? a->ids[i++] : b->ids[j++];
    j += both;
  }
  return set;
}

static void learn(tn__ir *ir, tn__node *node) {
  const tn__expr *e = &node->expr;
  node->size = 1;
  for (int i = 0; i < e->arg_count; i++) {
    const tn__node *arg = tn__node_of(e->args[i]);
    node->var_mask |= arg->var_mask;
    node->has_likely |= arg->has_likely;
    node->is_data |= arg->is_data;
    if (arg->depth >= node->depth) node->depth = arg->depth + 1;
    node->size = arg->size > UINT32_MAX - node->size ? UINT32_MAX : node->size + arg->size;
    node->vars = united(ir, node->vars, arg->vars);
    node->buffers = united(ir, node->buffers, arg->buffers);
  }
  if (e->kind == TN__EXPR_VAR) {
    node->var_mask = tn__var_bit(e->value.var);
    node->vars = one_id(ir, e->value.var->id);
  }
  if (e->kind == TN__EXPR_CALL && e->intrinsic == TN__CALL_LIKELY) node->has_likely = true;
  if (e->kind == TN__EXPR_LOAD && !has_id(node->buffers, e->value.buffer->id))
    node->buffers = united(ir, one_id(ir, e->value.buffer->id), node->buffers);
  if (e->kind == TN__EXPR_LOAD || e->kind == TN__EXPR_BITCAST || e->dtype != TN_I64)
    node->is_data = e->dtype == TN_I64;
  else if (e->kind == TN__EXPR_CAST)
    node->is_data = tn__dtype_is_float(e->args[0]->dtype) || e->args[0]->dtype == TN_U64;
}

const tn__expr *tn__ir_intern(tn__ir *ir, const tn__expr *proto) {
  tn__expr e = *proto;
  e.hash = hash_of(&e);
  tn__work_step(ir->arena, 1);
  uint32_t at = probe(ir, &e);
  if (ir->slots[at] != NULL) return ir->slots[at];
  size_t args_size = (size_t)e.arg_count * sizeof(const tn__expr *);
  tn__node *node = tn__arena_alloc(ir->arena, sizeof(tn__node) + args_size);
  const tn__expr **args = (const tn__expr **)(void *)(node + 1);
  if (e.arg_count > 0) memcpy(args, e.args, args_size);
  node->expr = e;
  node->expr.args = args;
  node->number = ir->node_count;
  learn(ir, node);
  ir->slots[at] = &node->expr;
  if (++ir->node_count * 2 > ir->slot_count) grow(ir);
  return &node->expr;
}

const tn__expr *tn__ir_intern_op(tn__ir *ir, tn__expr_kind kind, tn_dtype dtype, const tn__expr *const *args,
                                 int count) {
  return tn__ir_intern(ir, &(tn__expr){.kind = kind, .dtype = dtype, .arg_count = count, .args = args});
}

const tn__expr *tn__ir_intern2(tn__ir *ir, tn__expr_kind kind, tn_dtype dtype, const tn__expr *a, const tn__expr *b) {
  const tn__expr *args[2] = {a, b};
  return tn__ir_intern_op(ir, kind, dtype, args, 2);
}

const tn__expr *tn__ir_find2(tn__ir *ir, tn__expr_kind kind, tn_dtype dtype, const tn__expr *a, const tn__expr *b) {
  const tn__expr *args[2] = {a, b};
  tn__expr e = {.kind = kind, .dtype = dtype, .arg_count = 2, .args = args};
  e.hash = hash_of(&e);
  return ir->slots[probe(ir, &e)];
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

const tn__expr *tn__ir_int(tn__ir *ir, tn_dtype dtype, int64_t value) {
  if (tn__dtype_is_float(dtype)) tn__ir_defect(ir, "an integer constant of type %s", tn_dtype_name(dtype));
  return tn__ir_intern(ir, &(tn__expr){.kind = TN__EXPR_INT, .dtype = dtype, .value.i = tn__scalar_wrap(dtype, value)});
}

const tn__expr *tn__ir_index(tn__ir *ir, int64_t value) { return tn__ir_int(ir, TN_I64, value); }
const tn__expr *tn__ir_bool(tn__ir *ir, bool value) { return tn__ir_int(ir, TN_BOOL, value); }

const tn__expr *tn__ir_float(tn__ir *ir, tn_dtype dtype, double value) {
  if (!tn__dtype_is_float(dtype)) tn__ir_defect(ir, "a floating constant of type %s", tn_dtype_name(dtype));
  double rounded = tn__scalar_round(dtype, value);
  if (rounded != rounded) rounded = (double)__builtin_nanf(""); /* one NaN, so that equal constants are one node */
  return tn__ir_intern(ir, &(tn__expr){.kind = TN__EXPR_FLOAT, .dtype = dtype, .value.f = rounded});
}

const tn__expr *tn__ir_constant(tn__ir *ir, tn_dtype dtype, double value) {
  if (tn__dtype_is_float(dtype)) return tn__ir_float(ir, dtype, value);
  return tn__ir_int(ir, dtype, tn__scalar_cast(dtype, TN_F64, (tn__scalar){.f = value}).i);
}

const tn__expr *tn__ir_lowest(tn__ir *ir, tn_dtype dtype) {
  if (tn__dtype_is_float(dtype)) return tn__ir_float(ir, dtype, -__builtin_inf());
  return tn__ir_int(ir, dtype, tn__ir_dtype_interval(dtype).min);
}

const tn__expr *tn__ir_highest(tn__ir *ir, tn_dtype dtype) {
  if (tn__dtype_is_float(dtype)) return tn__ir_float(ir, dtype, __builtin_inf());
  return tn__ir_int(ir, dtype, dtype == TN_U64 ? -1 : tn__ir_dtype_interval(dtype).max);
}

tn__var *tn__var_create(tn__ir *ir, const char *name, tn_dtype dtype, const tn__expr *min, const tn__expr *extent) {
  tn__var *var = TN__NEW(ir->arena, tn__var);
  *var = (tn__var){
      .name = tn__arena_strdup(ir->arena, name), .dtype = dtype, .id = ir->next_var++, .min = min, .extent = extent};
  var->self = tn__ir_intern(ir, &(tn__expr){.kind = TN__EXPR_VAR, .dtype = dtype, .value.var = var});
  return var;
}

tn__buffer *tn__buffer_create(tn__ir *ir, const char *name, tn_dtype dtype, tn__scope scope, int rank,
                              const tn__expr *const *shape) {
  tn__buffer *buffer = TN__NEW(ir->arena, tn__buffer);
  *buffer = (tn__buffer){.name = tn__arena_strdup(ir->arena, name),
                         .dtype = dtype,
                         .scope = scope,
                         .rank = rank,
                         .id = ir->next_buffer++,
                         .shape = tn__arena_copy(ir->arena, shape, (size_t)rank * sizeof(*shape))};
  for (int i = 0; i < rank; i++)
    if (shape[i]->dtype != TN_I64)
      tn__ir_defect(ir, "buffer %s: dimension %d has type %s", name, i, tn_dtype_name(shape[i]->dtype));
  return buffer;
}

void tn__buffer_set_strides(tn__ir *ir, tn__buffer *buffer, const tn__expr *const *strides) {
  size_t size = (size_t)buffer->rank * sizeof(*strides);
  buffer->strides = strides == NULL ? NULL : tn__arena_copy(ir->arena, strides, size);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

bool tn__ir_is_true(const tn__expr *e) { return e->dtype == TN_BOOL && tn__ir_is_int_value(e, 1); }
bool tn__ir_is_false(const tn__expr *e) { return e->dtype == TN_BOOL && tn__ir_is_int_value(e, 0); }

bool tn__ir_is_float_extremum(const tn__expr *e) {
  return (e->kind == TN__EXPR_MIN || e->kind == TN__EXPR_MAX) && tn__dtype_is_float(e->dtype);
}

bool tn__ir_as_int(const tn__expr *e, int64_t *out) {
  if (e->kind != TN__EXPR_INT) return false;
  *out = e->value.i;
  return true;
}

int64_t tn__ir_int_or(const tn__expr *e, int64_t otherwise) {
  int64_t value;
  return e != NULL && tn__ir_as_int(e, &value) ? value : otherwise;
}

static int order_u64(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

int tn__expr_compare(const tn__expr *a, const tn__expr *b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->dtype != b->dtype) return a->dtype < b->dtype ? -1 : 1;
  if (a->kind == TN__EXPR_INT) return a->value.i < b->value.i ? -1 : a->value.i > b->value.i;
  int order = order_u64(value_bits(a), value_bits(b));
  if (order != 0) return order;
  if (a->arg_count != b->arg_count) return a->arg_count < b->arg_count ? -1 : 1;
  for (int i = 0; i < a->arg_count && order == 0; i++) order = tn__expr_compare(a->args[i], b->args[i]);
  return order;
}

bool tn__expr_uses_var(const tn__expr *e, const tn__var *var) {
  const tn__node *node = tn__node_of(e);
  return (node->var_mask & tn__var_bit(var)) != 0 && has_id(node->vars, var->id);
}

static const uint32_t *ids_of(const tn__id_set *set, int *count) {
  *count = set == NULL ? 0 : set->count;
  return set == NULL ? NULL : set->ids;
}

const uint32_t *tn__expr_vars(const tn__expr *e, int *count) { return ids_of(tn__node_of(e)->vars, count); }

const uint32_t *tn__expr_buffers(const tn__expr *e, int *count) { return ids_of(tn__node_of(e)->buffers, count); }

bool tn__expr_uses_buffer(const tn__expr *e, const tn__buffer *buffer) {
  return has_id(tn__node_of(e)->buffers, buffer->id);
}

uint32_t tn__expr_size(const tn__expr *e) { return tn__node_of(e)->size; }

int tn__expr_depth(const tn__expr *e) { return (int)tn__node_of(e)->depth; }
bool tn__expr_has_load(const tn__expr *e) { return tn__node_of(e)->buffers != NULL; }
