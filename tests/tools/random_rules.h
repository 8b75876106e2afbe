/* Random graphs for random_rules.c: a pool of small tensors of whole numbers, and steps that each add one value.
 * Steps are single operators, as a context for rules, and idioms, which are the patterns of one or a few rules over
 * operands from the pool. Each value records its largest magnitude and whether it is exact, so that no sum overflows
 * and no discontinuous step (floor, a comparison) reads a rounded value. The same seed generates the same graph. */
#ifndef TENON_TESTS_TOOLS_RANDOM_RULES_H
#define TENON_TESTS_TOOLS_RANDOM_RULES_H

#include <math.h>
#include <string.h>

#include "graph/build/build.h"
#include "graph/passes/rewrite.h"

enum { MOST_VALUES = 96, MOST_RANK = 4, MOST_ELEMENTS = 4096 };

typedef struct entry {
  tn__value *v;
  double most; /* the largest magnitude */
  bool exact;
} entry;

typedef struct drawing {
  tn__graph *g;
  tn__ir *ir;
  uint64_t state;
  entry pool[MOST_VALUES];
  int count, inputs;
} drawing;

/* ---- numbers and choices ----------------------------------------------------------------------------------------- */

static int below(drawing *d, int limit) {
  d->state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = d->state;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (int)((z ^ (z >> 31)) % (uint64_t)limit);
}

static bool chance(drawing *d, int percent) { return below(d, 100) < percent; }

static int64_t size(drawing *d) {
  static const int64_t sizes[] = {1, 1, 2, 3, 4, 5};
  return sizes[below(d, sizeof sizes / sizeof *sizes)];
}

static const tn__expr *dim(drawing *d, int64_t value) { return tn__ir_index(d->ir, value); }

static void shuffle(drawing *d, int64_t *numbers, int count) {
  for (int i = count - 1; i > 0; i--) {
    int j = below(d, i + 1);
    int64_t kept = numbers[i];
    numbers[i] = numbers[j];
    numbers[j] = kept;
  }
}

static void permutation(drawing *d, int rank, int64_t *out) {
  for (int i = 0; i < rank; i++) out[i] = i;
  shuffle(d, out, rank);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static tn__value *put(drawing *d, tn__value *v, double most, bool exact) {
  bool is_number = v->dtype != TN_BOOL && v->held == NULL && v->rank <= MOST_RANK;
  if (d->count < MOST_VALUES && is_number) d->pool[d->count++] = (entry){v, most, exact};
  return v;
}

/* An input; negative sizes are open. Float inputs are whole numbers from -1 to 1, made by `floor` (graph_opt.h fills
 * rounded inputs that way). */
static tn__value *input(drawing *d, tn_dtype dtype, int rank, const int64_t *shape) {
  const tn__expr *dims[TN__MAX_RANK];
  const char *name = tn__arena_printf(tn__graph_arena(d->g), "x%d", d->inputs++);
  for (int i = 0; i < rank; i++) dims[i] = shape[i] < 0 ? NULL : dim(d, shape[i]);
  tn__value *v = tn__graph_input(d->g, name, dtype, rank, dims);
  for (int i = 0; i < rank; i++)
    if (shape[i] < 0) tn__graph_input_symbol(d->g, tn__arena_printf(tn__graph_arena(d->g), "%s_%d", name, i), v, i);
  if (!tn__dtype_is_float(dtype)) return put(d, v, 1, true);
  v = tn__g_unary(d->g, "floor", tn__g_binary_s(d->g, "multiply", v, 3));
  return put(d, v, 3, true);
}

static tn__value *fresh(drawing *d, tn_dtype dtype, int rank) {
  int64_t shape[MOST_RANK];
  for (int i = 0; i < rank; i++) shape[i] = size(d);
  if (rank > 0 && chance(d, 12)) shape[below(d, rank)] = -1;
  return input(d, dtype, rank, shape);
}

static int64_t total(const tn__value *v) {
  int64_t all = tn__pass_element_total(v);
  return all < 0 ? 3 * 125 : all; /* assume three elements in an open dimension */
}

static bool is_fixed(const tn__value *v) { return tn__pass_element_total(v) > 0; }

/* Returns a value of the pool, usually a recent one; NULL dtype: any. */
static entry *pick(drawing *d, tn_dtype dtype, int least_rank, int most_rank) {
  for (int tries = 0; tries < 12 && d->count > 0; tries++) {
    int at = chance(d, 60) ? d->count - 1 - below(d, d->count < 4 ? d->count : 4) : below(d, d->count);
    entry *e = &d->pool[at];
    if ((dtype != TN_DTYPE_INVALID && e->v->dtype != dtype) || e->v->rank < least_rank || e->v->rank > most_rank)
      continue;
    return e;
  }
  int rank = least_rank + below(d, most_rank - least_rank + 1);
  fresh(d, dtype == TN_DTYPE_INVALID ? TN_F32 : dtype, rank);
  return &d->pool[d->count - 1];
}

static entry any(drawing *d) { return *pick(d, TN_DTYPE_INVALID, 0, MOST_RANK); }
static entry floats(drawing *d, int least, int most) { return *pick(d, TN_F32, least, most); }

/* Returns a value with known sizes. */
static entry fixed(drawing *d, int least, int most) {
  for (int tries = 0; tries < 8; tries++) {
    entry e = floats(d, least, most);
    if (is_fixed(e.v)) return e;
  }
  int64_t shape[MOST_RANK];
  for (int i = 0; i < least; i++) shape[i] = 1 + below(d, 4);
  tn__value *v = input(d, TN_F32, least, shape);
  return (entry){v, 3, true};
}

static const void *elements(drawing *d, tn_dtype dtype, int64_t count, int least, int most) {
  void *data = tn__arena_alloc_array(tn__graph_arena(d->g), (size_t)count + 1, tn_dtype_size(dtype));
  for (int64_t i = 0; i < count; i++) tn__store_f64(dtype, data, i, least + below(d, most - least + 1));
  return data;
}

static tn__value *constant(drawing *d, tn_dtype dtype, int rank, const int64_t *shape) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  return tn__g_constant_value(d->g, dtype, rank, shape, elements(d, dtype, count, -2, 2), false);
}

/* Returns a scalar, often one that rules match. */
static tn__value *number(drawing *d, tn_dtype dtype) {
  static const double numbers[] = {0, 1, -1, 2, 0.5, -0.0, 3};
  double n = numbers[below(d, sizeof numbers / sizeof *numbers)];
  return tn__g_scalar(d->g, dtype, tn__dtype_is_float(dtype) ? n : rint(n));
}

/* Returns a second operand for `v`: a broadcast scalar, or a vector along its last dimension. */
static tn__value *beside(drawing *d, const tn__value *v, bool positive) {
  int64_t shape[TN__MAX_RANK], last = v->rank - 1;
  bool known = tn__g_shape_const(v, shape);
  tn__value *n = positive ? tn__g_scalar(d->g, v->dtype, 1 << below(d, 3)) : number(d, v->dtype);
  if (!known || v->rank == 0 || chance(d, 50)) return tn__g_broadcast_to(d->g, n, v->rank, v->dims);
  const void *data = elements(d, v->dtype, shape[last], positive ? 1 : -2, 2);
  tn__value *vector = tn__g_constant_value(d->g, v->dtype, 1, &shape[last], data, false);
  return tn__g_broadcast_in_dim(d->g, vector, v->rank, v->dims, &last);
}

static bool fits(const tn__value *a, const tn__value *b) {
  for (int i = 1; i <= a->rank && i <= b->rank; i++) {
    const tn__expr *x = a->dims[a->rank - i], *y = b->dims[b->rank - i];
    if (x != y && !tn__pass_is_unit(x) && !tn__pass_is_unit(y)) return false;
  }
  return true;
}

/* ---- single operators -------------------------------------------------------------------------------------------- */

static void combine(drawing *d) {
  static const char *const ops[] = {"add", "subtract", "multiply", "maximum", "minimum"};
  entry a = any(d), b = a;
  for (int i = 0; i < 8; i++) {
    b = *pick(d, a.v->dtype, 0, MOST_RANK);
    if (fits(a.v, b.v)) break;
  }
  if (!fits(a.v, b.v)) b = a;
  const char *op = ops[below(d, 5)];
  double most = op[0] == 'm' && op[1] == 'u' ? a.most * b.most : a.most + b.most;
  if (most > 1e4) return;
  put(d, tn__g_binary(d->g, op, a.v, b.v), most, a.exact && b.exact);
}

static void with_constant(drawing *d) {
  static const char *const ops[] = {"add", "subtract", "multiply", "maximum", "minimum", "divide"};
  entry a = any(d);
  int which = below(d, tn__dtype_is_float(a.v->dtype) ? 6 : 5);
  tn__value *c = beside(d, a.v, which == 5);
  if (a.most > 3e3) return;
  bool turned = which != 5 && chance(d, 40);
  put(d, tn__g_binary(d->g, ops[which], turned ? c : a.v, turned ? a.v : c), 3 * a.most + 3, a.exact && which != 5);
}

static void stretch(drawing *d) {
  entry a = any(d);
  const tn__expr *dims[MOST_RANK];
  int64_t axes[MOST_RANK], all = 1;
  int rank = a.v->rank + below(d, MOST_RANK - a.v->rank + 1), next = 0;
  for (int i = 0; i < rank; i++) {
    bool own = next < a.v->rank && (rank - i == a.v->rank - next || chance(d, 60));
    if (own) axes[next] = i;
    dims[i] = own && !tn__pass_is_unit(a.v->dims[next]) ? a.v->dims[next] : dim(d, 1 + below(d, 4));
    next += own;
    all *= 5;
  }
  if (total(a.v) * all > 16 * MOST_ELEMENTS) return;
  put(d, tn__g_broadcast_in_dim(d->g, a.v, rank, dims, axes), a.most, a.exact);
}

static void turn(drawing *d) {
  entry a = *pick(d, TN_DTYPE_INVALID, 2, MOST_RANK);
  int64_t order[MOST_RANK];
  permutation(d, a.v->rank, order);
  put(d, tn__g_transpose(d->g, a.v, order), a.most, a.exact);
}

static const tn__expr *elements_of(const drawing *d, const tn__expr *const *dims, int rank) {
  const tn__expr *all = tn__ir_index(d->ir, 1);
  for (int i = 0; i < rank; i++) all = tn__ir_mul(d->ir, all, dims[i]);
  return all;
}

/* Writes the dimensions with some joined or split, or with dimensions of 1 inserted. */
static int other_shape(drawing *d, const tn__value *v, const tn__expr **out) {
  int rank = 0;
  for (int i = 0; i < v->rank && rank < MOST_RANK; i++) {
    int64_t n = tn__g_dim_const(v, i);
    if (rank > 0 && chance(d, 35))
      out[rank - 1] = tn__ir_mul(d->ir, out[rank - 1], v->dims[i]);
    else if (n == 4 && rank + 1 < MOST_RANK && chance(d, 60))
      out[rank] = dim(d, 2), out[rank + 1] = dim(d, 2), rank += 2;
    else
      out[rank++] = v->dims[i];
    if (rank < MOST_RANK && chance(d, 20) && i + 1 == v->rank) out[rank++] = dim(d, 1);
  }
  return elements_of(d, out, rank) == elements_of(d, v->dims, v->rank) ? rank : -1;
}

static void reshape(drawing *d) {
  entry a = any(d);
  const tn__expr *dims[TN__MAX_RANK];
  int rank = other_shape(d, a.v, dims);
  if (rank >= 0) put(d, tn__g_reshape(d->g, a.v, rank, dims), a.most, a.exact);
}

static void reduce(drawing *d) {
  static const tn__reduce_kind kinds[] = {TN__REDUCE_SUM, TN__REDUCE_MAX, TN__REDUCE_MIN};
  entry a = *pick(d, TN_DTYPE_INVALID, 1, MOST_RANK);
  int64_t axes[MOST_RANK];
  int count = 0, kind = below(d, 3);
  for (int i = 0; i < a.v->rank; i++)
    if (chance(d, tn__pass_is_unit(a.v->dims[i]) ? 60 : 25)) axes[count++] = i;
  if (count == 0) axes[count++] = below(d, a.v->rank);
  double most = kind == 0 ? a.most * (double)total(a.v) : a.most;
  if (most < 1e4) put(d, tn__g_reduce(d->g, kinds[kind], a.v, axes, count, chance(d, 50)), most, a.exact);
}

static void one_operand(drawing *d) {
  static const char *const ops[] = {"negate", "abs", "floor", "ceil", "tanh"};
  entry a = any(d);
  int which = below(d, tn__dtype_is_float(a.v->dtype) ? 5 : 2);
  if (!a.exact && (which == 2 || which == 3)) return;
  put(d, tn__g_unary(d->g, ops[which], a.v), a.most + 1, a.exact && which < 4);
}

static void window(drawing *d) {
  entry a = fixed(d, 2, MOST_RANK);
  int64_t ones[MOST_RANK], sizes[MOST_RANK];
  const tn__expr *none[MOST_RANK];
  for (int i = 0; i < a.v->rank; i++) {
    ones[i] = sizes[i] = 1, none[i] = dim(d, 0);
    if (chance(d, 30) && tn__g_dim_const(a.v, i) >= 2) sizes[i] = 2;
  }
  tn__reduce_kind kind = chance(d, 50) ? TN__REDUCE_MAX : TN__REDUCE_SUM;
  if (a.most > 500) return;
  put(d, tn__g_reduce_window(d->g, kind, a.v, sizes, ones, ones, none, none), 16 * a.most, a.exact);
}

static void join(drawing *d) {
  entry a = *pick(d, TN_DTYPE_INVALID, 1, MOST_RANK);
  int axis = below(d, a.v->rank), count = 1 + below(d, 3);
  int64_t shape[TN__MAX_RANK];
  tn__value *parts[4] = {a.v, a.v, a.v, a.v};
  if (total(a.v) > 512) return;
  if (tn__g_shape_const(a.v, shape) && chance(d, 40)) { /* with an operand without elements */
    shape[axis] = 0;
    parts[count++] = tn__g_constant_value(d->g, a.v->dtype, a.v->rank, shape, elements(d, a.v->dtype, 1, 0, 0), false);
  }
  const tn__attr attr = tn__attr_int(d->g, "axis", axis);
  put(d, tn__g_node(d->g, "concatenate", parts, count, &attr, 1)->outputs[0], a.most, a.exact);
}

static void choose(drawing *d) {
  entry a = *pick(d, TN_F32, 0, MOST_RANK), b = *pick(d, TN_F32, 0, MOST_RANK);
  if (!a.exact || !b.exact || !fits(a.v, b.v)) return;
  tn__value *c = tn__g_compare(d->g, (tn__compare)below(d, 6), a.v, b.v);
  if (chance(d, 40)) c = tn__g_unary(d->g, "not", c);
  if (chance(d, 20)) c = tn__g_unary(d->g, "not", tn__g_unary(d->g, "not", c));
  if (chance(d, 30)) c = tn__g_node(d->g, chance(d, 50) ? "and" : "or", (tn__value *[]){c, c}, 2, NULL, 0)->outputs[0];
  put(d, tn__g_select(d->g, c, a.v, chance(d, 20) ? a.v : b.v), fmax(a.most, b.most), true);
}

/* ---- idioms of shape.c's and arithmetic.c's rules ---------------------------------------------------------------- */

static tn__value *same_type(drawing *d, const char *op, tn__value *v, const tn__attr *attrs, int count) {
  return tn__g_node(d->g, op, &v, 1, attrs, count)->outputs[0];
}

/* Operators without effect. */
static void nothing(drawing *d) {
  entry a = *pick(d, TN_DTYPE_INVALID, 1, MOST_RANK);
  tn__value *v = a.v;
  int64_t order[TN__MAX_RANK], ones[TN__MAX_RANK], zeros[TN__MAX_RANK] = {0}, units[TN__MAX_RANK];
  const tn__expr *none[TN__MAX_RANK];
  int unit_count = 0;
  for (int i = 0; i < v->rank; i++) {
    order[i] = i, ones[i] = 1, none[i] = dim(d, 0);
    if (tn__pass_is_unit(v->dims[i])) units[unit_count++] = i;
  }
  const tn__attr shape = tn__attr_exprs(d->g, "shape", v->dims, v->rank),
                 axes = tn__attr_ints(d->g, "axes", order, v->rank);
  const tn__attr spread[] = {shape, axes}, same = tn__attr_ints(d->g, "permutation", order, v->rank);
  const tn__attr slice[] = {tn__attr_exprs(d->g, "starts", none, v->rank),
                            tn__attr_exprs(d->g, "limits", v->dims, v->rank),
                            tn__attr_ints(d->g, "strides", ones, v->rank)};
  const tn__attr pad[] = {tn__attr_exprs(d->g, "low", none, v->rank), tn__attr_exprs(d->g, "high", none, v->rank),
                          tn__attr_ints(d->g, "interior", zeros, v->rank)};
  const tn__attr type = tn__attr_string(d->g, "dtype", tn_dtype_name(v->dtype));
  switch (below(d, 10)) {
    case 0: v = same_type(d, "reshape", v, &shape, 1); break;
    case 1: v = same_type(d, "transpose", v, &same, 1); break;
    case 2: v = same_type(d, "broadcast_in_dim", v, spread, 2); break;
    case 3: v = same_type(d, "slice", v, slice, 3); break;
    case 4: v = tn__g_node(d->g, "pad", (tn__value *[]){v, number(d, v->dtype)}, 2, pad, 3)->outputs[0]; break;
    case 5: v = same_type(d, "convert", v, &type, 1); break;
    case 6: v = tn__g_reverse(d->g, v, units, unit_count); break;
    case 7: v = tn__g_binary_s(d->g, "subtract", v, 0); break;
    case 8: v = tn__g_binary_s(d->g, chance(d, 50) ? "multiply" : "divide", v, 1); break;
    default: v = tn__g_binary_s(d->g, "add", v, tn__dtype_is_float(v->dtype) ? -0.0 : 0);
  }
  put(d, v, a.most, a.exact);
}

/* Two data movements in sequence. */
static void move_twice(drawing *d) {
  entry a = *pick(d, TN_DTYPE_INVALID, 2, MOST_RANK);
  int64_t order[TN__MAX_RANK];
  const tn__expr *dims[TN__MAX_RANK];
  permutation(d, a.v->rank, order);
  tn__value *v = a.v;
  if (chance(d, 70)) v = tn__g_transpose(d->g, v, order);
  int rank = other_shape(d, v, dims);
  if (rank >= 2 && chance(d, 60)) v = tn__g_reshape(d->g, v, rank, dims);
  rank = other_shape(d, v, dims);
  if (rank >= 2 && chance(d, 20)) v = tn__g_reshape(d->g, v, rank, dims);
  permutation(d, v->rank, order);
  put(d, tn__g_transpose(d->g, v, order), a.most, a.exact);
}

static void spread_and_move(drawing *d) {
  entry a = *pick(d, TN_DTYPE_INVALID, 0, 2);
  const tn__expr *dims[TN__MAX_RANK];
  int64_t order[TN__MAX_RANK], axes[2] = {1, 2};
  for (int i = 0; i <= a.v->rank; i++) dims[i] = i == 0 ? dim(d, 2 + below(d, 3)) : a.v->dims[i - 1];
  tn__value *v = tn__g_broadcast_in_dim(d->g, a.v, a.v->rank + 1, dims, axes);
  int rank = v->rank;
  if (chance(d, 50)) {
    permutation(d, rank, order);
    v = tn__g_transpose(d->g, v, order);
  } else if ((rank = other_shape(d, v, dims)) >= 0) {
    v = tn__g_reshape(d->g, v, rank, dims);
  }
  if (v->rank < MOST_RANK && chance(d, 50)) {
    for (int i = 0; i < v->rank; i++) dims[i + 1] = v->dims[i], order[i] = i + 1;
    dims[0] = dim(d, 2);
    v = tn__g_broadcast_in_dim(d->g, v, v->rank + 1, dims, order);
  }
  put(d, v, a.most, a.exact);
}

/* A broadcast of a reshape that adds dimensions of 1. */
static void spread_units(drawing *d) {
  entry a = *pick(d, TN_DTYPE_INVALID, 1, 2);
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < a.v->rank; i++) dims[i] = a.v->dims[i];
  dims[a.v->rank] = dim(d, 1);
  tn__value *v = tn__g_reshape(d->g, a.v, a.v->rank + 1, dims);
  dims[a.v->rank] = dim(d, 3);
  put(d, tn__g_broadcast_to(d->g, v, v->rank, dims), a.most, a.exact);
}

static void known_values(drawing *d) {
  int64_t shape[3] = {1 + below(d, 3), 1 + below(d, 3), 1 + below(d, 3)}, order[3];
  const tn__expr *dims[TN__MAX_RANK] = {dim(d, shape[0]), dim(d, shape[1]), dim(d, shape[2])};
  permutation(d, 3, order);
  entry a = floats(d, 0, 3);
  if (chance(d, 50) || !is_fixed(a.v)) {
    tn__value *v = tn__g_iota(d->g, chance(d, 70) ? TN_F32 : TN_I64, 3, dims, below(d, 3));
    if (chance(d, 60)) { /* with an open size, so that it does not fold */
      const tn__value *open = input(d, TN_F32, 3, (int64_t[]){2, 1 + below(d, 3), -1});
      v = tn__g_iota(d->g, TN_F32, 3, open->dims, below(d, 3));
    }
    put(d, tn__g_transpose(d->g, v, order), 5, true);
    return;
  }
  tn__value *c = constant(d, TN_F32, 3, shape);
  const tn__expr *all = dim(d, shape[0] * shape[1] * shape[2]);
  put(d, tn__g_reshape(d->g, c, 1, &all), 2, true);
}

static void scatter(drawing *d) {
  int64_t shape[3] = {2 + below(d, 3), 2 + below(d, 3), 1 + below(d, 3)}, order[3], turned[3], back[3];
  tn__value *x = input(d, TN_F32, 3, shape);
  permutation(d, 3, order);
  for (int i = 0; i < 3; i++) turned[i] = shape[order[i]];
  tn__value *into = tn__g_transpose(d->g, x, order), *result;
  const char *how = chance(d, 50) ? "none" : "add";
  bool tuples = chance(d, 50);
  int axis = tuples ? 0 : below(d, 3);
  int64_t count = turned[axis], rows[2] = {count, 1};
  turned[axis] = count;
  tn__value *updates = input(d, TN_F32, 3, turned);
  int64_t *places = tn__arena_alloc_array(tn__graph_arena(d->g), (size_t)count, sizeof *places);
  for (int64_t i = 0; i < count; i++) places[i] = i;
  shuffle(d, places, (int)count); /* distinct positions, because the order of updates is unspecified */
  tn__value *at = tn__g_constant_value(d->g, TN_I64, 2, rows, places, false);
  if (tuples) {
    result = tn__g_scatter_nd(d->g, into, at, updates, how);
  } else {
    const tn__expr *dims[3] = {dim(d, 1), dim(d, 1), dim(d, 1)};
    dims[axis] = dim(d, count);
    at = tn__g_broadcast_to(d->g, tn__g_reshape(d->g, at, 3, dims), 3, updates->dims);
    result = tn__g_scatter_elements(d->g, into, at, updates, axis, how);
  }
  tn__pass_inverse(order, 3, back);
  put(d, chance(d, 50) ? tn__g_transpose(d->g, result, back) : result, 6, true);
}

static void nested(drawing *d) {
  entry a = *pick(d, TN_F32, 1, 3);
  int axis = below(d, a.v->rank);
  if (total(a.v) > 256) return;
  tn__value *inner = tn__g_concatenate(d->g, (tn__value *[]){a.v, a.v}, 2, axis);
  put(d, tn__g_concatenate(d->g, (tn__value *[]){a.v, inner, a.v}, 3, axis), a.most, a.exact);
}

/* Pairs of operators that rules merge into one or none. */
static void pairs(drawing *d) {
  static const char *const twice[] = {"negate", "abs", "floor", "ceil"};
  entry a = floats(d, 0, MOST_RANK), b = a;
  tn__value *v = a.v;
  double most = a.most;
  int which = below(d, 8);
  switch (which) {
    case 0:
    case 1: {
      const char *op = twice[below(d, a.exact ? 4 : 2)];
      v = tn__g_unary(d->g, op, tn__g_unary(d->g, op, v));
      break;
    }
    case 2:
    case 3: {
      for (int i = 0; i < 6 && (i == 0 || !fits(a.v, b.v)); i++) b = floats(d, 0, MOST_RANK);
      if (!fits(a.v, b.v)) return;
      tn__value *minus = tn__g_unary(d->g, "negate", b.v);
      bool first = which == 2 && chance(d, 50);
      v = tn__g_binary(d->g, which == 2 ? "add" : "subtract", first ? minus : v, first ? v : minus);
      most = a.most + b.most;
      break;
    }
    case 4:
      if (a.most > 20) return;
      most = a.most * a.most * a.most;
      v = tn__g_binary_s(d->g, "power", v, 1 + below(d, 3));
      break;
    case 5:
      if (!a.exact || a.most > 100) return;
      v = tn__g_convert(d->g, tn__g_convert(d->g, v, chance(d, 50) ? TN_F64 : TN_I32), TN_F32);
      break;
    case 6: v = tn__g_binary(d->g, chance(d, 50) ? "maximum" : "minimum", v, v); break;
    default: {
      tn__value *known = tn__g_broadcast_to(d->g, tn__g_scalar(d->g, TN_BOOL, below(d, 2)), v->rank, v->dims);
      v = tn__g_select(d->g, known, v, tn__g_unary(d->g, "negate", v));
    }
  }
  put(d, v, most, a.exact && b.exact && which != 4);
}

/* Integer multiplication by zero, and round trips through another type. */
static void integers(drawing *d) {
  entry a = *pick(d, TN_I32, 0, 3);
  tn__value *v = a.v;
  switch (below(d, 3)) {
    case 0: v = tn__g_binary_s(d->g, "multiply", v, 0); break;
    case 1: v = tn__g_binary_s(d->g, "add", v, 0); break;
    default: v = tn__g_convert(d->g, tn__g_convert(d->g, v, TN_I64), TN_I32);
  }
  put(d, tn__g_convert(d->g, put(d, v, a.most, true), TN_F32), a.most, true);
}

/* The same operator over broadcasts, including scalars. */
static void over_broadcasts(drawing *d) {
  static const char *const ops[] = {"add", "multiply", "maximum"};
  entry a = floats(d, 1, 2);
  const tn__expr *dims[TN__MAX_RANK] = {dim(d, 3)};
  int64_t axes[2] = {1, 2};
  for (int i = 0; i < a.v->rank; i++) dims[i + 1] = a.v->dims[i];
  tn__value *wide = tn__g_broadcast_in_dim(d->g, a.v, a.v->rank + 1, dims, axes), *other;
  double most = a.most;
  if (chance(d, 60)) {
    entry s = floats(d, 0, 0);
    most = fmax(most, s.most);
    other = tn__g_broadcast_in_dim(d->g, s.v, wide->rank, dims, NULL);
  } else {
    other = tn__g_broadcast_in_dim(d->g, tn__g_binary_s(d->g, "add", a.v, 1), wide->rank, dims, axes);
  }
  if (most > 60) return;
  put(d, tn__g_binary(d->g, ops[below(d, 3)], wide, other), most * (most + 1) + 1, a.exact);
}

/* ---- idioms of product.c's rules and of passes over products ----------------------------------------------------- */

static tn__value *matrix(drawing *d, int64_t rows, int64_t columns) {
  return constant(d, TN_F32, 2, (int64_t[]){rows, columns});
}

/* x [..., k] times a matrix, or a batch of products with transposed or repeated operands. */
static tn__value *product(drawing *d, double *most) {
  int64_t k = 1 + below(d, 5), n = 1 + below(d, 12),
          shape[3] = {chance(d, 20) ? -1 : 1 + below(d, 4), 1 + below(d, 4), k};
  int lead = below(d, 3);
  tn__value *x = input(d, TN_F32, lead + 1, shape + 2 - lead), *w = matrix(d, k, n);
  const int64_t left = lead, right = 0, swap[2] = {1, 0};
  *most = 3.0 * 2 * (double)k;
  if (lead == 1 && chance(d, 40)) { /* read through a transpose */
    const int64_t turned[2] = {k, 1 + below(d, 4)};
    x = tn__g_transpose(d->g, input(d, TN_F32, 2, turned), swap);
  }
  if (chance(d, 30)) w = tn__g_transpose(d->g, matrix(d, n, k), swap);
  return tn__g_dot_general(d->g, x, w, NULL, NULL, 0, &left, &right, 1, TN_F32);
}

static tn__value *along(drawing *d, const tn__value *like, int axis, bool positive) {
  int64_t count = tn__g_dim_const(like, axis), at = axis;
  const void *data = elements(d, TN_F32, count, positive ? 1 : -2, positive ? 4 : 2);
  tn__value *vector = tn__g_constant_value(d->g, TN_F32, 1, &count, data, false);
  return tn__g_broadcast_in_dim(d->g, vector, like->rank, like->dims, &at);
}

/* Constant operators after a product or convolution whose columns are dimension `axis`. */
static void behind(drawing *d, tn__value *y, int axis, double most) {
  bool shared = chance(d, 15);
  if (shared) put(d, y, most, true);
  for (int steps = 1 + below(d, 3); steps > 0; steps--) {
    int which = below(d, 6);
    tn__value *scalar = tn__g_broadcast_to(d->g, tn__g_scalar(d->g, TN_F32, 1 + below(d, 5)), y->rank, y->dims);
    switch (which) {
      case 0: y = tn__g_binary(d->g, "multiply", y, along(d, y, axis, false)); break;
      case 1: y = tn__g_binary(d->g, "divide", y, along(d, y, axis, true)); break;
      case 2: y = tn__g_binary(d->g, "divide", y, scalar); break;
      case 3: y = tn__g_binary(d->g, "add", y, along(d, y, axis, false)); break;
      case 4: y = tn__g_binary(d->g, "subtract", y, along(d, y, axis, false)); break;
      default: {
        tn__value *zero = tn__g_broadcast_to(d->g, tn__g_scalar(d->g, TN_F32, 0), y->rank, y->dims);
        y = tn__g_binary(d->g, "divide", tn__g_binary(d->g, "maximum", y, zero), scalar);
      }
    }
    most = 2 * most + 2;
  }
  put(d, y, most, false);
}

static void products(drawing *d) {
  double most;
  tn__value *y = product(d, &most);
  if (chance(d, 80))
    behind(d, y, y->rank - 1, most);
  else
    put(d, y, most, true);
}

/* Scores: both operands are inputs, so that a divisor cannot be folded into weights. */
static void scores(drawing *d) {
  int64_t m = 1 + below(d, 4), k = 1 + below(d, 4), n = 1 + below(d, 4), b = 1 + below(d, 3);
  const int64_t batch = 0, contract[2] = {2, 1}, turned[3] = {1, 0, 2}, swap[3] = {0, 2, 1};
  tn__value *x = tn__g_transpose(d->g, input(d, TN_F32, 3, (int64_t[]){m, b, k}), turned);
  tn__value *y = chance(d, 50) ? input(d, TN_F32, 3, (int64_t[]){b, k, n})
                               : tn__g_transpose(d->g, input(d, TN_F32, 3, (int64_t[]){b, n, k}), swap);
  tn__value *s = tn__g_dot_general(d->g, x, y, &batch, &batch, 1, &contract[0], &contract[1], 1, TN_F32);
  double most = 9.0 * (double)k;
  if (chance(d, 60)) s = tn__g_binary_s(d->g, "divide", s, 1 + below(d, 5));
  put(d, s, most, false);
}

typedef struct image {
  int64_t channels, filters, sizes[2], window[2], groups;
} image;

static tn__conv_spec spec_of(drawing *d, const image *i) {
  tn__conv_spec spec = {.spatial = 2, .feature_groups = i->groups};
  for (int s = 0; s < 2; s++) {
    spec.strides[s] = spec.lhs_dilation[s] = spec.rhs_dilation[s] = 1;
    spec.low[s] = spec.high[s] = dim(d, i->window[s] / 2);
  }
  return spec;
}

static tn__value *weights_of(drawing *d, const image *i) {
  return constant(d, TN_F32, 4, (int64_t[]){i->filters, i->channels / i->groups, i->window[0], i->window[1]});
}

/* Convolutions: with a separate pad, dilated beyond the image, of one element, transposed, and 3x3 in tiles. */
static void convolution(drawing *d) {
  int kind = below(d, 6);
  int64_t side = 2 + below(d, 4);
  image i = {
      .channels = 2, .filters = 1 + below(d, 4), .sizes = {side, 2 + below(d, 4)}, .window = {3, 3}, .groups = 1};
  if (kind == 3) i.window[0] = i.window[1] = 1, i.sizes[0] = i.sizes[1] = chance(d, 60) ? 6 : 3;
  if (kind == 4) i.window[0] = 1 + below(d, 3), i.window[1] = 2;
  if (kind == 0 && chance(d, 30)) i.groups = 2, i.filters = 4;
  tn__conv_spec spec = spec_of(d, &i);
  tn__value *x = input(d, TN_F32, 4, (int64_t[]){1 + below(d, 2), i.channels, i.sizes[0], i.sizes[1]});
  if (kind == 1) { /* with a separate pad */
    const tn__expr *low[4] = {dim(d, 0), dim(d, 0), dim(d, below(d, 3)), dim(d, 1)};
    const tn__expr *high[4] = {dim(d, 0), dim(d, 0), dim(d, 1), dim(d, below(d, 3))};
    x = tn__g_pad(d->g, x, tn__g_scalar(d->g, TN_F32, chance(d, 85) ? 0 : 1), low, high, NULL);
  }
  if (kind == 2)
    for (int s = 0; s < 2; s++) spec.rhs_dilation[s] = 5, spec.low[s] = spec.high[s] = dim(d, 5);
  if (kind == 4)
    for (int s = 0; s < 2; s++) {
      spec.lhs_dilation[s] = 2 + below(d, 2);
      spec.low[s] = spec.high[s] = dim(d, below(d, (int)i.window[s] + 1));
    }
  tn__value *y = tn__g_convolution(d->g, x, weights_of(d, &i), &spec, TN_F32);
  double most = 6.0 * (double)(i.channels * i.window[0] * i.window[1]);
  if (chance(d, 60) && is_fixed(y))
    behind(d, y, 1, most);
  else
    put(d, y, most, false); /* tiling rounds */
}

/* A dilated window over many rows; rows near the edges overlap only some taps. */
static void strips(drawing *d) {
  image i = {.channels = 64, .filters = 1, .sizes = {14 + below(d, 2), 32}, .window = {3, 3}, .groups = 1};
  tn__conv_spec spec = spec_of(d, &i);
  spec.rhs_dilation[0] = 6 + below(d, 2);
  spec.low[0] = spec.high[0] = dim(d, spec.rhs_dilation[0]);
  tn__value *x = input(d, TN_F32, 4, (int64_t[]){1, i.channels, i.sizes[0], i.sizes[1]});
  tn__value *y = tn__g_convolution(d->g, x, weights_of(d, &i), &spec, TN_F32);
  tn__graph_output(d->g, tn__arena_printf(tn__graph_arena(d->g), "strips%d", d->inputs), y);
}

/* Softmax between two products: as a composite with transposes before it, or as single operators. */
static void attention(drawing *d) {
  const int64_t rows = chance(d, 30) ? 1 + below(d, 7) : 8 + below(d, 2), keys = 3 + below(d, 3),
                heads = 1 + below(d, 2), k = 2;
  const int64_t q_shape[4] = {1, heads, rows, k}, k_shape[4] = {1, heads, keys, k}, order[4] = {0, 2, 1, 3};
  const int64_t q_turned[4] = {1, rows, heads, k}, k_turned[4] = {1, keys, heads, k}, swap[4] = {0, 1, 3, 2};
  bool turned = chance(d, 70), whole = chance(d, 70);
  tn__value *q = turned ? tn__g_transpose(d->g, input(d, TN_F32, 4, q_turned), order) : input(d, TN_F32, 4, q_shape);
  tn__value *key = turned ? tn__g_transpose(d->g, input(d, TN_F32, 4, k_turned), order) : input(d, TN_F32, 4, k_shape);
  tn__value *v = turned ? tn__g_transpose(d->g, input(d, TN_F32, 4, k_turned), order) : input(d, TN_F32, 4, k_shape);
  if (whole) {
    const tn__attention_spec spec = {.q = q, .k = key, .v = v, .heads = heads, .groups = heads};
    put(d, tn__g_attention(d->g, &spec, NULL), 3, false);
    return;
  }
  tn__value *s = tn__g_matmul(d->g, q, tn__g_transpose(d->g, key, swap), TN_F32);
  put(d, tn__g_matmul(d->g, tn__g_softmax(d->g, s, 3, TN__SOFTMAX_DIVIDE), v, TN_F32), 3, false);
}

/* ---- idioms of raise.c's rules ----------------------------------------------------------------------------------- */

static tn__value *reduced(drawing *d, tn__reduce_kind kind, tn__value *v, int64_t axis) {
  return tn__g_reduce(d->g, kind, v, &axis, 1, true);
}

static tn__value *spread_like(drawing *d, tn__value *v, const tn__value *like) {
  return tn__g_broadcast_to(d->g, v, like->rank, like->dims);
}

static void softmax(drawing *d) {
  tn__value *x = fixed(d, 1, 3).v;
  int64_t axis = below(d, x->rank);
  if (tn__pass_is_unit(x->dims[axis])) return;
  tn__value *most = spread_like(d, reduced(d, TN__REDUCE_MAX, x, axis), x);
  tn__value *shifted = tn__g_binary(d->g, "subtract", x, most), *e = tn__g_unary(d->g, "exponential", shifted);
  tn__value *sum = reduced(d, TN__REDUCE_SUM, e, axis), *y;
  switch (below(d, 3)) {
    case 0: y = tn__g_binary(d->g, "divide", e, spread_like(d, sum, x)); break;
    case 1: {
      tn__value *one = tn__g_full(d->g, TN_F32, 1, sum->rank, sum->dims);
      y = tn__g_binary(d->g, "multiply", e, spread_like(d, tn__g_binary(d->g, "divide", one, sum), x));
      break;
    }
    default: y = tn__g_binary(d->g, "subtract", shifted, spread_like(d, tn__g_unary(d->g, "log", sum), x));
  }
  put(d, y, 100, false);
}

static void gelu(drawing *d) {
  tn__value *x = floats(d, 0, 3).v, *phi;
  if (chance(d, 50)) {
    phi = tn__g_unary(d->g, "erf", tn__g_binary_s(d->g, chance(d, 50) ? "divide" : "multiply", x, 1));
    phi = tn__g_unary(
        d->g, "erf",
        chance(d, 50) ? tn__g_binary_s(d->g, "divide", x, sqrt(2)) : tn__g_binary_s(d->g, "multiply", x, sqrt(0.5)));
  } else {
    tn__value *cube = tn__g_binary_s(d->g, "power", x, 3);
    tn__value *sum = tn__g_binary(d->g, "add", x, tn__g_binary_s(d->g, "multiply", cube, TN__GELU_CUBE));
    phi = tn__g_unary(d->g, "tanh", tn__g_binary_s(d->g, "multiply", sum, sqrt(2 / M_PI)));
  }
  tn__value *half = tn__g_binary_s(d->g, "multiply", x, 0.5);
  put(d, tn__g_binary(d->g, "multiply", half, tn__g_binary_s(d->g, "add", phi, 1)), 100, false);
}

static void normalised(drawing *d) {
  tn__value *x = fixed(d, 1, 3).v;
  int64_t axis = x->rank - 1;
  if (tn__pass_is_unit(x->dims[axis])) return;
  if (chance(d, 60)) {
    tn__value *mean =
        tn__g_binary_s(d->g, "divide", reduced(d, TN__REDUCE_SUM, x, axis), (double)tn__g_dim_const(x, x->rank - 1));
    x = tn__g_binary(d->g, "subtract", x, spread_like(d, mean, x));
  }
  tn__value *square = tn__g_binary(d->g, "multiply", x, x);
  tn__value *v =
      tn__g_binary_s(d->g, "divide", reduced(d, TN__REDUCE_SUM, square, axis), (double)tn__g_dim_const(x, x->rank - 1));
  v = tn__g_binary_s(d->g, "add", v, 0.5);
  int how = below(d, 3);
  tn__value *root = tn__g_unary(d->g, how == 0 ? "rsqrt" : "sqrt", v);
  if (how == 1) root = tn__g_binary(d->g, "divide", tn__g_full(d->g, TN_F32, 1, root->rank, root->dims), root);
  put(d, tn__g_binary(d->g, how == 2 ? "divide" : "multiply", x, spread_like(d, root, x)), 100, false);
}

/* (bytes - zero) * scale */
static tn__value *dequantized(drawing *d, tn__value *bytes, bool zero) {
  tn__value *scale = tn__g_full(d->g, TN_F32, 0.5, bytes->rank, bytes->dims);
  tn__value *none = zero ? tn__g_full(d->g, TN_I32, 1, bytes->rank, bytes->dims) : NULL;
  return tn__g_dequantize(d->g, bytes, scale, none);
}

static void quantized(drawing *d) {
  tn_dtype left = chance(d, 70) ? TN_U8 : TN_I8;
  if (chance(d, 55)) {
    int64_t k = 1 + below(d, 9), n = 1 + below(d, 9), shape[2] = {1 + below(d, 4), k};
    tn__value *x = dequantized(d, input(d, left, 2, shape), chance(d, 50));
    tn__value *w = dequantized(d, constant(d, TN_I8, 2, (int64_t[]){k, n}), chance(d, 30));
    put(d, tn__g_matmul(d->g, x, w, TN_F32), 100, true);
    return;
  }
  image i = {.channels = 4, .filters = 1 + below(d, 4), .sizes = {3, 4}, .window = {2, 2}, .groups = 1};
  const tn__conv_spec spec = spec_of(d, &i);
  tn__value *x = dequantized(d, input(d, left, 4, (int64_t[]){1, 4, 3, 4}), chance(d, 50));
  tn__value *w = constant(d, TN_I8, 4, (int64_t[]){i.filters, 4, 2, 2});
  put(d, tn__g_convolution(d->g, x, dequantized(d, w, false), &spec, TN_F32), 100, true);
}

/* A constant operand whose layout changes twice. */
static void laid_out(drawing *d) {
  int64_t k = 2 + below(d, 5), n = 3 + below(d, 9);
  const int64_t left = 1, right = 0;
  tn__operand_use use = {.dtype = TN_F32, .rank = 2, .order = {0, 1}, .columns = n};
  const tn__layout turned = {.rank = 2, .parts = {{1, 1, 0}, {0, 1, 0}}}, panels = tn__layout_panels(&use, 4);
  tn__value *x = input(d, TN_F32, 2, (int64_t[]){1 + below(d, 3), k}), *w = input(d, TN_F32, 2, (int64_t[]){k, n});
  w = tn__g_relayout(d->g, tn__g_relayout(d->g, w, &turned), &panels);
  put(d, tn__g_dot_general(d->g, x, w, NULL, NULL, 0, &left, &right, 1, TN_F32), 9 * (double)k, true);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

typedef struct step {
  void (*draw)(drawing *d);
  int weight;
} step;

static const step steps[] = {
    {combine, 8},         {with_constant, 10},  {stretch, 7},      {turn, 4},       {reshape, 5},     {reduce, 4},
    {one_operand, 4},     {window, 3},          {join, 3},         {choose, 7},     {nothing, 10},    {move_twice, 7},
    {spread_and_move, 4}, {spread_units, 2},    {known_values, 4}, {scatter, 3},    {nested, 2},      {pairs, 11},
    {integers, 2},        {over_broadcasts, 4}, {products, 7},     {scores, 3},     {convolution, 7}, {strips, 2},
    {attention, 2},       {softmax, 4},         {gelu, 3},         {normalised, 4}, {quantized, 3},   {laid_out, 2}};

/* Makes nearly every value without readers an output, and a few others. */
static void add_outputs(drawing *d) {
  int values, named = 0;
  const int *uses = tn__graph_use_counts(d->g, &values);
  for (int i = 0; i < d->count; i++) {
    tn__value *v = d->pool[i].v;
    bool node = v->producer != NULL && total(v) <= 16 * MOST_ELEMENTS;
    if (!node || chance(d, uses[v->id] > 0 ? 95 : 5)) continue;
    tn__graph_output(d->g, tn__arena_printf(tn__graph_arena(d->g), "y%d", named++), v);
  }
}

static void draw_graph(tn__graph *graph, uint64_t seed) {
  drawing d = {.g = graph, .ir = tn__graph_ir(graph), .state = seed * UINT64_C(0x2545f4914f6cdd1d)};
  int all = 0;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) all += steps[i].weight;
  for (int count = 4 + below(&d, 10); count > 0; count--) {
    int at = 0;
    for (int left = below(&d, all) - steps[0].weight; left >= 0; left -= steps[at].weight) at++;
    steps[at].draw(&d);
  }
  add_outputs(&d);
}

#endif
