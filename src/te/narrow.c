/* Integers in the narrowest types that hold them. Declarations widen before they compute, so that nothing wraps around:
 *
 *   O[y, x] = u8((77 * i32(R[y, x]) + 150 * i32(G[y, x]) + 29 * i32(B[y, x]) + 128) / 256)
 *
 * fits u16 at every step, and a vector has twice as many of these as of i32. What is exact modulo a power of two, sums
 * and products, is computed in the type that is wanted; what is not, quotients, minima and comparisons, in the
 * narrowest type that holds all that it looks at. Intermediate tensors whose elements fit a narrower type are of that
 * type. Clamped sums and differences, means and absolute differences take forms that need no wider type at all; code
 * generators know instructions for them. All is exact. */
#include "base/invariant.h"
#include "te/internal.h"

enum { MOST_NODES = 1024 }; /* of an expression that is looked at: walks have no memo */

typedef struct narrowed {
  const tn__buffer *buffer;
  tn__interval range;
} narrowed;

typedef struct stand_in {
  const tn__expr *load; /* of a tensor that became narrower */
  const tn__var *var;   /* what stands for it while ranges are asked for */
} stand_in;

typedef struct narrowing {
  tn__te *te;
  tn__ir *ir;
  tn__map tensors; /* by name: those that became narrower */
  tn__map pinned;  /* by name: those that statements or bounds read */
  TN__VEC(stand_in) stand_ins;
  bool changed;
} narrowing;

static const tn__expr *in_type(narrowing *n, const tn__expr *e, tn_dtype type);
static const tn__expr *improved(narrowing *n, const tn__expr *e);

static int bits_of(const tn__expr *e) { return tn__dtype_bits(e->dtype); }

/* An integer of at most 32 bits: those of 64 are positions. */
static bool is_value(const tn__expr *e) { return tn__dtype_is_int(e->dtype) && bits_of(e) <= 32; }

static bool fits(tn__interval range, tn_dtype type) {
  tn__interval whole = tn__ir_dtype_interval(type);
  return range.min >= whole.min && range.max <= whole.max;
}

static tn__interval hull(tn__interval a, tn__interval b) {
  return (tn__interval){a.min < b.min ? a.min : b.min, a.max > b.max ? a.max : b.max};
}

static tn__interval range_of(const narrowing *n, const tn__expr *e) { return tn__interval_of(n->ir, e); }

/* The narrowest type of at least so many bits; `otherwise` where it is not narrower than that one. */
static tn_dtype type_for(tn__interval range, int least, tn_dtype otherwise) {
  static const tn_dtype types[] = {TN_U8, TN_I8, TN_U16, TN_I16};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    int bits = tn__dtype_bits(types[i]);
    if (bits >= least && bits < tn__dtype_bits(otherwise) && fits(range, types[i])) return types[i];
  }
  return otherwise;
}

static tn_dtype unsigned_of(tn_dtype type) {
  return tn__dtype_bits(type) == 8 ? TN_U8 : tn__dtype_bits(type) == 16 ? TN_U16 : TN_U32;
}

static bool is_ring(const tn__expr *e) {
  return e->kind == TN__EXPR_ADD || e->kind == TN__EXPR_SUB || e->kind == TN__EXPR_MUL ||
         (e->kind == TN__EXPR_CALL && e->intrinsic == TN__CALL_NEG);
}

static bool is_bits(const tn__expr *e) {
  return e->kind == TN__EXPR_AND || e->kind == TN__EXPR_OR || e->kind == TN__EXPR_XOR || e->kind == TN__EXPR_NOT;
}

/* Those whose result depends on whole numbers, not on their last bits alone. */
static bool is_exact(const tn__expr *e) {
  return (e->kind >= TN__EXPR_DIV && e->kind <= TN__EXPR_MAX) ||
         (e->kind == TN__EXPR_SHR && tn__ir_is_int(e->args[1])) ||
         (e->kind == TN__EXPR_CALL && e->intrinsic == TN__CALL_ABS);
}

/* Is all that `e` is computed from narrower than it? A wide element has to be loaded, and takes its lanes, anyway. */
static bool widens(const tn__expr *e, int bits) {
  if (e->kind == TN__EXPR_INT) return true;
  if (e->kind == TN__EXPR_CAST) {
    const tn__expr *from = e->args[0];
    if (from->dtype == TN_BOOL) return true;
    if (!tn__dtype_is_int(from->dtype)) return false;
    return bits_of(from) < bits || (bits_of(from) == bits && widens(from, bits));
  }
  if (!is_ring(e) && !is_bits(e) && !is_exact(e) && e->kind != TN__EXPR_SELECT) return false;
  for (int i = e->kind == TN__EXPR_SELECT; i < e->arg_count; i++)
    if (!widens(e->args[i], bits)) return false;
  return true;
}

/* Vectors of bytes have no products. */
static int least_bits(const tn__expr *e) {
  int least = e->kind == TN__EXPR_MUL || e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD ? 16 : 8;
  if (!is_ring(e) && !is_bits(e) && !is_exact(e) && e->kind != TN__EXPR_SELECT) return 8;
  for (int i = 0; i < e->arg_count && least < 16; i++) least = least_bits(e->args[i]);
  return least;
}

/* ---- forms of their own ------------------------------------------------------------------------------------------ */

/* The narrow type that holds both and is not wide enough for `result`, where a plain operation would do. */
TN_MUST_USE static bool type_of_pair(const narrowing *n, const tn__expr *a, const tn__expr *b, tn__interval result,
                                     bool positive, tn_dtype *type) {
  const tn__interval both = hull(range_of(n, a), range_of(n, b));
  if (positive && both.min < 0) return false;
  *type = type_for(both, 8, a->dtype);
  return *type != a->dtype && !fits(result, *type);
}

static const tn__expr *pair_op(narrowing *n, tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(n->ir, kind, a, b);
}

/* min(a + b, most) is a + min(b, most - a), where `most` is the greatest number of the type. */
static const tn__expr *saturated_sum(narrowing *n, const tn__expr *e) {
  if (e->kind != TN__EXPR_MIN) return NULL;
  const tn__expr *sum = e->args[0], *most = e->args[1];
  tn_dtype type;
  TN__INVARIANT(sum != NULL && most != NULL);
  if (!tn__ir_is_int(most)) return NULL;
  if (sum->kind == TN__EXPR_MAX && tn__ir_is_int(sum->args[1]) &&
      range_of(n, sum->args[0]).min >= sum->args[1]->value.i)
    sum = sum->args[0];
  if (sum->kind != TN__EXPR_ADD) return NULL;
  if (!type_of_pair(n, sum->args[0], sum->args[1], range_of(n, sum), true, &type)) return NULL;
  if (most->value.i != tn__ir_dtype_interval(type).max) return NULL;
  const tn__expr *a = in_type(n, sum->args[0], type);
  const tn__expr *b = in_type(n, sum->args[1], type);
  const tn__expr *room = tn__ir_sub(n->ir, tn__ir_int(n->ir, type, most->value.i), a);
  return tn__ir_add(n->ir, a, tn__ir_min(n->ir, b, room));
}

/* max(a - b, 0) is max(a, b) - b. */
static const tn__expr *saturated_difference(narrowing *n, const tn__expr *e) {
  if (e->kind != TN__EXPR_MAX) return NULL;
  const tn__expr *difference = e->args[0], *zero = e->args[1];
  tn_dtype type;
  TN__INVARIANT(difference != NULL && zero != NULL);
  if (!tn__ir_is_int_value(zero, 0) || difference->kind != TN__EXPR_SUB) return NULL;
  if (!tn__dtype_is_signed(e->dtype)) return NULL; /* the difference would have wrapped around */
  if (!type_of_pair(n, difference->args[0], difference->args[1], range_of(n, difference), true, &type)) return NULL;
  const tn__expr *a = in_type(n, difference->args[0], type);
  const tn__expr *b = in_type(n, difference->args[1], type);
  return tn__ir_sub(n->ir, tn__ir_max(n->ir, a, b), b);
}

/* |a - b| is max(a, b) - min(a, b), a number without sign. */
static const tn__expr *absolute_difference(narrowing *n, const tn__expr *e) {
  tn_dtype type;
  if (e->kind != TN__EXPR_CALL || e->intrinsic != TN__CALL_ABS || e->args[0]->kind != TN__EXPR_SUB) return NULL;
  const tn__expr *difference = e->args[0];
  if (!tn__dtype_is_signed(e->dtype)) return NULL; /* the difference would have wrapped around */
  if (!type_of_pair(n, difference->args[0], difference->args[1], range_of(n, difference), false, &type)) return NULL;
  const tn__expr *a = in_type(n, difference->args[0], type);
  const tn__expr *b = in_type(n, difference->args[1], type);
  const tn__expr *greater = tn__ir_max(n->ir, a, b);
  const tn__expr *less = tn__ir_min(n->ir, a, b);
  return tn__ir_cast(n->ir, unsigned_of(type), tn__ir_sub(n->ir, greater, less));
}

/* The two that are added up in `e`, perhaps with 1. */
TN_MUST_USE static bool is_sum_of_two(const tn__expr *e, const tn__expr **a, const tn__expr **b, bool *one) {
  *one = false;
  if (e->kind != TN__EXPR_ADD) return false;
  for (int side = 0; side < 2; side++) {
    const tn__expr *inner = e->args[side], *other = e->args[1 - side];
    if (inner->kind != TN__EXPR_ADD) continue;
    for (int i = 0; i < 3; i++) {
      const tn__expr *three[] = {inner->args[0], inner->args[1], other};
      if (!tn__ir_is_int_value(three[i], 1)) continue;
      *one = true;
      *a = three[i == 0 ? 1 : 0];
      *b = three[i == 2 ? 1 : 2];
      return true;
    }
  }
  *a = e->args[0];
  *b = e->args[1];
  return true;
}

/* (a + b) / 2 is (a & b) + (a ^ b) / 2, and (a + b + 1) / 2 is (a | b) - (a ^ b) / 2. */
static const tn__expr *mean(narrowing *n, const tn__expr *e) {
  const tn__expr *a, *b;
  tn_dtype type;
  bool up, halves = (e->kind == TN__EXPR_DIV && tn__ir_is_int_value(e->args[1], 2)) ||
                    (e->kind == TN__EXPR_SHR && tn__ir_is_int_value(e->args[1], 1));
  if (!halves || !is_sum_of_two(e->args[0], &a, &b, &up)) return NULL;
  if (tn__ir_is_int(a) || tn__ir_is_int(b)) return NULL;
  if (!type_of_pair(n, a, b, range_of(n, e->args[0]), false, &type)) return NULL;
  a = in_type(n, a, type);
  b = in_type(n, b, type);
  const tn__expr *same = pair_op(n, up ? TN__EXPR_OR : TN__EXPR_AND, a, b);
  const tn__expr *different = pair_op(n, TN__EXPR_XOR, a, b);
  different = pair_op(n, TN__EXPR_SHR, different, tn__ir_int(n->ir, type, 1));
  return pair_op(n, up ? TN__EXPR_SUB : TN__EXPR_ADD, same, different);
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

/* Where the ranges of its sides decide it. */
static const tn__expr *decided(const narrowing *n, const tn__expr *e) {
  if (e->kind != TN__EXPR_MIN && e->kind != TN__EXPR_MAX) return NULL;
  tn__interval a = range_of(n, e->args[0]), b = range_of(n, e->args[1]);
  int greater = a.min >= b.max ? 0 : b.min >= a.max ? 1 : -1;
  return greater < 0 ? NULL : e->args[e->kind == TN__EXPR_MAX ? greater : 1 - greater];
}

static const tn__expr *exact(narrowing *n, const tn__expr *e, tn_dtype type) {
  const tn__expr *one = decided(n, e), *args[2];
  if (one != NULL) return in_type(n, one, type);
  const tn__expr *(*const forms[])(narrowing *, const tn__expr *) = {saturated_sum, saturated_difference,
                                                                     absolute_difference, mean};
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    const tn__expr *found = forms[i](n, e);
    if (found != NULL) return tn__ir_cast(n->ir, type, found);
  }
  tn__interval range = range_of(n, e);
  for (int i = 0; i < e->arg_count; i++) range = hull(range, range_of(n, e->args[i]));
  tn_dtype own = type_for(range, least_bits(e), e->dtype);
  for (int i = 0; i < e->arg_count; i++) args[i] = in_type(n, e->args[i], own);
  if (e->kind == TN__EXPR_SHR && e->args[1]->value.i >= tn__dtype_bits(own)) return tn__ir_cast(n->ir, type, e);
  const tn__expr *result = e->kind == TN__EXPR_CALL ? tn__ir_call1(n->ir, e->intrinsic, args[0])
                                                    : tn__ir_binary(n->ir, e->kind, args[0], args[1]);
  return tn__ir_cast(n->ir, type, result);
}

/* `e`, an integer, in a type that is no wider than its own: equal modulo the type's numbers. */
static const tn__expr *in_type(narrowing *n, const tn__expr *e, tn_dtype type) {
  const tn__expr *args[2] = {NULL};
  if (e->kind == TN__EXPR_INT) return tn__ir_int(n->ir, type, e->value.i);
  if (e->kind == TN__EXPR_CAST) {
    const tn__expr *from = e->args[0];
    if (!tn__dtype_is_int(from->dtype) && from->dtype != TN_BOOL) return tn__ir_cast(n->ir, type, improved(n, e));
    if (is_value(from) && bits_of(from) >= tn__dtype_bits(type)) return in_type(n, from, type);
    return tn__ir_cast(n->ir, type, improved(n, from));
  }
  if (e->kind == TN__EXPR_SELECT) {
    const tn__expr *condition = improved(n, e->args[0]);
    args[0] = in_type(n, e->args[1], type);
    args[1] = in_type(n, e->args[2], type);
    return tn__ir_select(n->ir, condition, args[0], args[1]);
  }
  if (is_exact(e)) return exact(n, e, type);
  if (!is_ring(e) && !is_bits(e)) return tn__ir_cast(n->ir, type, improved(n, e));
  for (int i = 0; i < e->arg_count; i++) args[i] = in_type(n, e->args[i], type);
  if (e->kind == TN__EXPR_NOT) return tn__ir_not(n->ir, args[0]);
  if (e->kind == TN__EXPR_CALL) return tn__ir_call1(n->ir, e->intrinsic, args[0]);
  return tn__ir_binary(n->ir, e->kind, args[0], args[1]);
}

/* A number that is made narrower, of what is narrow itself. */
static bool narrows(const tn__expr *e) {
  return e->kind == TN__EXPR_CAST && is_value(e) && is_value(e->args[0]) && bits_of(e) < bits_of(e->args[0]) &&
         widens(e->args[0], bits_of(e->args[0]));
}

static const tn__expr *compared(narrowing *n, const tn__expr *e) {
  const tn__expr *a = e->args[0], *b = e->args[1];
  if (!is_value(a) || !widens(a, bits_of(a)) || !widens(b, bits_of(b))) return NULL;
  int least = least_bits(a) > least_bits(b) ? least_bits(a) : least_bits(b);
  tn_dtype type = type_for(hull(range_of(n, a), range_of(n, b)), least, a->dtype);
  if (type == a->dtype) return NULL;
  const tn__expr *left = in_type(n, a, type);
  const tn__expr *right = in_type(n, b, type);
  return tn__ir_binary(n->ir, e->kind, left, right);
}

/* `e` itself, in its own type. */
static const tn__expr *improved(narrowing *n, const tn__expr *e) {
  if (e->arg_count == 0 || e->arg_count > 3 || e->kind == TN__EXPR_LOAD || e->dtype == TN_I64) return e;
  if (narrows(e)) {
    const tn__expr *from = e->args[0];
    int least = least_bits(from);
    if (least > bits_of(e) && least < bits_of(from)) return tn__ir_cast(n->ir, e->dtype, in_type(n, from, TN_U16));
    return in_type(n, from, e->dtype);
  }
  if (e->kind >= TN__EXPR_EQ && e->kind <= TN__EXPR_LE) {
    const tn__expr *result = compared(n, e);
    if (result != NULL) return result;
  }
  const tn__expr *args[3] = {NULL};
  bool changed = false;
  for (int i = 0; i < e->arg_count; i++) {
    args[i] = improved(n, e->args[i]);
    changed |= args[i] != e->args[i];
  }
  return changed ? tn__expr_with_args(n->ir, e, args) : e;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static const tn__expr *with_loads(narrowing *n, const tn__expr *e) {
  for (int i = n->stand_ins.count - 1; i >= 0; i--) { /* what stands in the index of another one came before it */
    const stand_in *s = &n->stand_ins.data[i];
    e = tn__ir_substitute(n->ir, e, &s->var, &s->load, 1);
  }
  return e;
}

/* Variables of a known range for loads of tensors that became narrower. */
static const tn__expr *stand_in_for(tn__ir *ir, const tn__expr *e, void *user) {
  narrowing *n = user;
  if (e->kind != TN__EXPR_LOAD) return NULL;
  const narrowed *tensor = tn__map_get(&n->tensors, e->value.buffer->name);
  if (tensor == NULL) return NULL;
  const tn__expr *load = tn__ir_load(ir, tensor->buffer, e->args);
  const tn__var *var = NULL;
  for (int i = 0; i < n->stand_ins.count && var == NULL; i++)
    if (n->stand_ins.data[i].load == load) var = n->stand_ins.data[i].var;
  if (var == NULL) {
    const tn__interval range = tensor->range;
    const tn__expr *least = tn__ir_index(ir, range.min), *extent = tn__ir_index(ir, range.max - range.min + 1);
    var = tn__var_create(ir, "element", load->dtype, least, extent);
    tn__vec_push(n->te->arena, &n->stand_ins, ((stand_in){load, var}));
  }
  return tn__ir_cast(ir, e->dtype, var->self);
}

static bool is_large(const tn__expr *e) { return tn__expr_size(e) > MOST_NODES; }

static const tn__expr *narrow_expr(narrowing *n, const tn__expr *e) {
  if (e == NULL) return NULL;
  n->stand_ins.count = 0;
  const tn__expr *seen = tn__expr_rewrite(n->ir, e, stand_in_for, n);
  const tn__expr *result = with_loads(n, is_large(seen) ? seen : improved(n, seen));
  n->changed |= result != e;
  return result;
}

/* What all terms of a sum add up to, at the most; false where their number is open. */
static bool sum_range(const tn__te_stage *stage, tn__interval *range) {
  int64_t count = 1, extent;
  for (int i = 0; i < stage->reduce_axes.count; i++) {
    if (!tn__ir_as_int(stage->reduce_axes.var[i]->extent, &extent)) return false;
    count = tn__ir_bound_mul(count, extent);
  }
  range->min = range->min > 0 ? 0 : tn__ir_bound_mul(range->min, count);
  range->max = range->max < 0 ? 0 : tn__ir_bound_mul(range->max, count);
  return true;
}

/* The type that the stage's only tensor could have, with the range of its elements; its own otherwise. */
static tn_dtype tensor_type(const narrowing *n, const tn__te_stage *stage, const tn__expr *value, narrowed *out) {
  tn_dtype own = stage->tensors[0]->dtype;
  if (stage->tensor_count != 1 || !is_value(value) || is_large(value) || !widens(value, bits_of(value))) return own;
  if (stage->tensors[0]->scope == TN__SCOPE_PARAM || tn__map_has(&n->pinned, stage->tensors[0]->name)) return own;
  out->range = range_of(n, value);
  if (stage->kind == TN__TE_REDUCE) {
    const tn__te_combiner *c = stage->combiner;
    bool sum = c->result[0]->kind == TN__EXPR_ADD && tn__ir_is_int_value(c->identity[0], 0);
    if (!sum || !c->reorderable || !sum_range(stage, &out->range)) return own;
  } else if (stage->kind != TN__TE_COMPUTE) {
    return own;
  }
  return type_for(out->range, 8, own);
}

static void narrow_tensor(narrowing *n, tn__te_stage *stage, const tn__expr *value, tn_dtype type, narrowed *tensor) {
  const tn__buffer *old = stage->tensors[0];
  tn__buffer *buffer = tn__buffer_create(n->ir, old->name, type, old->scope, old->rank, old->shape);
  tensor->buffer = stage->tensors[0] = buffer;
  stage->values[0] = with_loads(n, in_type(n, value, type));
  if (stage->kind == TN__TE_REDUCE) stage->combiner = tn__te_combiner_of(n->te, TN__TE_SUM, type);
  tn__map_set(&n->tensors, buffer->name, tensor);
  n->changed = true;
}

static void narrow_stage(narrowing *n, tn__te_stage *stage) {
  if (stage->kind == TN__TE_EXTERN) return;
  if (stage->values[0] != NULL) {
    narrowed *tensor = TN__NEW(n->te->arena, narrowed);
    n->stand_ins.count = 0;
    const tn__expr *value = tn__expr_rewrite(n->ir, stage->values[0], stand_in_for, n);
    tn_dtype type = tensor_type(n, stage, value, tensor);
    if (type != stage->tensors[0]->dtype) {
      narrow_tensor(n, stage, value, type, tensor);
      return;
    }
  }
  for (int t = 0; t < stage->tensor_count; t++) {
    stage->values[t] = narrow_expr(n, stage->values[t]);
    stage->first[t] = narrow_expr(n, stage->first[t]);
  }
  for (int d = 0; d < stage->axes.count && stage->kind == TN__TE_ACCUMULATE; d++)
    stage->into[d] = narrow_expr(n, stage->into[d]);
}

/* Elements of less than 32 bits are what there is to gain from. */
static bool is_narrow(tn_dtype type) { return tn__dtype_is_int(type) && tn__dtype_bits(type) < 32; }

static bool has_narrow_data(const tn__te *te) {
  for (int i = 0; i < te->inputs.count; i++)
    if (is_narrow(te->inputs.data[i]->dtype)) return true;
  for (int s = 0; s < te->stages.count; s++)
    for (int t = 0; t < te->stages.data[s]->tensor_count; t++)
      if (is_narrow(te->stages.data[s]->tensors[t]->dtype)) return true;
  return false;
}

static void pin(const tn__expr *e, void *user) {
  narrowing *n = user;
  if (e->kind == TN__EXPR_LOAD) tn__map_set(&n->pinned, e->value.buffer->name, n);
}

static void pin_what_stays(narrowing *n, const tn__te_stage *stage) {
  for (int i = 0; i < stage->extern_read_count; i++) tn__map_set(&n->pinned, stage->extern_reads[i]->name, n);
  for (int i = 0; i < stage->reduce_axes.count; i++) tn__te_visit(n->ir, stage->reduce_axes.var[i]->extent, pin, n);
}

const tn__te *tn__te_narrow(const tn__te *te) {
  if (!has_narrow_data(te)) return te;
  narrowing n = {.te = tn__te_copy(te, te->ir), .ir = te->ir};
  tn__map_init(&n.tensors, te->arena);
  tn__map_init(&n.pinned, te->arena);
  for (int s = 0; s < n.te->stages.count; s++) pin_what_stays(&n, n.te->stages.data[s]);
  for (int s = 0; s < n.te->stages.count; s++) narrow_stage(&n, n.te->stages.data[s]);
  return n.changed ? n.te : te;
}
