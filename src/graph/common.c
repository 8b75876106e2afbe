/* Helpers for writing operators: checks for infer, dimension arithmetic, stages that several operators use. */
#include <string.h>

#include "graph/internal.h"
#include "tenon/kernel_abi.h"

/* ---- checks ------------------------------------------------------------------------------------------------------ */

void tn__g_require_rank(const tn__graph *graph, const tn__node *node, int input, int rank) {
  const tn__value *value = node->inputs[input];
  if (tn__g_tensor_rank(value) != rank)
    tn__node_fail(graph, node, "operand %d must have %d dimensions, but is %s", input, rank,
                  tn__value_type_text(graph, value));
}

void tn__g_require_dtype(const tn__graph *graph, const tn__node *node, int input, tn_dtype dtype) {
  const tn__value *value = node->inputs[input];
  if (value->dtype != dtype)
    tn__node_fail(graph, node, "operand %d must be of type %s, but is %s", input, tn_dtype_name(dtype),
                  tn__value_type_text(graph, value));
}

void tn__g_require_same_dtype(const tn__graph *graph, const tn__node *node, int first, int second) {
  const tn__value *a = node->inputs[first], *b = node->inputs[second];
  if (a->dtype != b->dtype)
    tn__node_fail(graph, node, "operands %d and %d must have the same type, but are %s and %s", first, second,
                  tn_dtype_name(a->dtype), tn_dtype_name(b->dtype));
}

void tn__g_require_int(const tn__graph *graph, const tn__node *node, int input) {
  const tn__value *value = node->inputs[input];
  if (!tn__dtype_is_int(value->dtype))
    tn__node_fail(graph, node, "operand %d must be of an integer type, but is %s", input,
                  tn__value_type_text(graph, value));
}

void tn__g_require_float(const tn__graph *graph, const tn__node *node, int input) {
  const tn__value *value = node->inputs[input];
  if (!tn__dtype_is_float(value->dtype))
    tn__node_fail(graph, node, "operand %d must be of a floating type, but is %s", input,
                  tn__value_type_text(graph, value));
}

int tn__g_require_axis(const tn__graph *graph, const tn__node *node, const char *name, int rank) {
  int64_t axis = tn__node_int(node, name, -1);
  if (axis < 0 || axis >= rank)
    tn__node_fail(graph, node, "%s %lld is not a dimension of a tensor with %d", name, (long long)axis, rank);
  return (int)axis;
}

const int64_t *tn__g_require_ints(const tn__graph *graph, const tn__node *node, const char *name, int count) {
  const tn__attr *attr = tn__node_attr(node, name);
  if (attr == NULL || attr->kind != TN__ATTR_INTS || attr->count != count)
    tn__node_fail(graph, node, "attribute %s must be %d integers", name, count);
  return attr->ints;
}

const tn__expr *const *tn__g_require_exprs(const tn__graph *graph, const tn__node *node, const char *name, int count) {
  const tn__attr *attr = tn__node_attr(node, name);
  if (attr == NULL || attr->kind != TN__ATTR_EXPRS || attr->count != count)
    tn__node_fail(graph, node, "attribute %s must be %d dimensions", name, count);
  return attr->exprs;
}

const tn__expr *tn__g_same_dim(tn__graph *graph, const tn__node *node, const tn__expr *a, const tn__expr *b,
                               const char *what, int axis) {
  if (a == b) return a;
  const tn__expr *equal = tn__ir_eq(graph->ir, a, b);
  if (tn__ir_is_false(equal) || (tn__ir_is_int(a) && tn__ir_is_int(b)))
    tn__node_fail(graph, node, "dimension %d of %s is %s, but must be %s", axis, what, tn__g_expr_text(graph, b),
                  tn__g_expr_text(graph, a));
  tn__graph_assume(graph, equal, "%s: dimension %d of %s is %s and must be equal to %s", node->op->name, axis, what,
                   tn__g_size_text(graph, b), tn__g_size_text(graph, a));
  return tn__ir_is_int(b) ? b : a;
}

tn_dtype tn__g_require_dtype_attr(const tn__graph *graph, const tn__node *node) {
  const char *name = tn__node_string(node, "dtype", "");
  tn_dtype dtype = tn_dtype_parse(name);
  if (dtype == TN_DTYPE_INVALID) tn__node_fail(graph, node, "dtype \"%s\" is unknown", name);
  return dtype;
}

/* ---- dimensions -------------------------------------------------------------------------------------------------- */

const tn__expr *tn__g_not_negative(tn__ir *ir, const tn__expr *a) { return tn__ir_max(ir, a, tn__ir_index(ir, 0)); }

const tn__expr *tn__g_dim_product(tn__ir *ir, const tn__expr *const *dims, int count) {
  const tn__expr *product = tn__ir_index(ir, 1);
  for (int i = 0; i < count; i++) product = tn__ir_mul(ir, product, dims[i]);
  return product;
}

enum { MAX_FACTORS = 32 };

/* The factors of a product that are not constants; the constant ones are multiplied into *constant. */
TN_MUST_USE static int factors_of(const tn__expr *e, const tn__expr **out, int count, int64_t *constant) {
  if (count < 0 || count == MAX_FACTORS) return -1;
  if (tn__ir_is_int(e)) {
    if (__builtin_mul_overflow(*constant, e->value.i, constant)) return -1;
    return count;
  }
  if (e->kind != TN__EXPR_MUL) {
    out[count] = e;
    return count + 1;
  }
  return factors_of(e->args[1], out, factors_of(e->args[0], out, count, constant), constant);
}

const tn__expr *tn__g_dim_divide(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  if (tn__ir_is_int_value(b, 1)) return a;
  if (a == b) return tn__ir_index(ir, 1);
  if (a->kind == TN__EXPR_ADD) /* each term on its own, when all of them divide */
    return tn__ir_is_int(b) ? tn__ir_div(ir, a, b)
                            : tn__ir_add(ir, tn__g_dim_divide(ir, a->args[0], b), tn__g_dim_divide(ir, a->args[1], b));
  const tn__expr *above[MAX_FACTORS], *below[MAX_FACTORS];
  int64_t above_constant = 1, below_constant = 1;
  int n = factors_of(a, above, 0, &above_constant), m = factors_of(b, below, 0, &below_constant);
  if (n < 0 || m < 0 || below_constant == 0) return tn__ir_div(ir, a, b);
  int left = 0;
  for (int j = 0; j < m; j++) {
    int i = 0;
    while (i < n && above[i] != below[j]) i++;
    if (i < n)
      above[i] = above[--n];
    else
      below[left++] = below[j];
  }
  const tn__expr *over = tn__ir_mul_i(ir, tn__g_dim_product(ir, above, n), above_constant);
  if (left == 0) return tn__ir_div(ir, over, tn__ir_index(ir, below_constant));
  return tn__ir_div(ir, over, tn__ir_mul_i(ir, tn__g_dim_product(ir, below, left), below_constant));
}

const tn__expr *tn__g_padded_dim(tn__ir *ir, const tn__expr *dim, const tn__expr *low, const tn__expr *high,
                                 int64_t interior) {
  const tn__expr *size = dim;
  if (interior > 0)
    size = tn__ir_add(ir, dim, tn__ir_mul_i(ir, tn__g_not_negative(ir, tn__ir_add_i(ir, dim, -1)), interior));
  return tn__ir_add(ir, size, tn__ir_add(ir, low, high));
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

tn_dtype tn__g_accumulator_of(tn_dtype dtype) { return dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype; }

const tn__buffer *tn__lower_convert(tn__lower_context *lower, const tn__buffer *buffer, tn_dtype dtype) {
  if (buffer->dtype == dtype) return buffer;
  tn__te *te = tn__lower_te(lower);
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__te_axes_create(te, "i", buffer->rank, buffer->shape);
  const tn__expr *value = tn__ir_cast(ir, dtype, tn__ir_load(ir, buffer, axes.index));
  return tn__te_compute(te, tn__lower_name(lower, "convert"), &axes, value);
}

const tn__buffer *tn__lower_copy(tn__lower_context *lower, const tn__buffer *buffer, const char *name) {
  tn__te *te = tn__lower_te(lower);
  tn__te_axes axes = tn__te_axes_create(te, "i", buffer->rank, buffer->shape);
  return tn__te_compute(te, tn__lower_name(lower, name), &axes, tn__ir_load(tn__lower_ir(lower), buffer, axes.index));
}

const tn__buffer *tn__lower_pad(tn__lower_context *lower, const tn__buffer *buffer, const tn__expr *fill,
                                const tn__expr *const *low, const tn__expr *const *high, const int64_t *interior) {
  tn__te *te = tn__lower_te(lower);
  tn__ir *ir = tn__lower_ir(lower);
  const tn__expr *dims[TN__MAX_RANK], *index[TN__MAX_RANK];
  bool nothing = true;
  for (int i = 0; i < buffer->rank; i++) {
    int64_t gap = interior == NULL ? 0 : interior[i];
    dims[i] = tn__g_padded_dim(ir, buffer->shape[i], low[i], high[i], gap);
    nothing = nothing && gap == 0 && tn__ir_is_int_value(low[i], 0) && tn__ir_is_int_value(high[i], 0);
  }
  if (nothing) return buffer;
  tn__te_axes axes = tn__te_axes_create(te, "i", buffer->rank, dims);
  const tn__expr *inside = tn__ir_bool(ir, true);
  for (int i = 0; i < buffer->rank; i++) {
    int64_t step = interior == NULL ? 1 : interior[i] + 1;
    const tn__expr *position = tn__ir_sub(ir, axes.index[i], low[i]);
    index[i] = tn__ir_div_i(ir, position, step);
    if (step != 1)
      inside = tn__ir_and(ir, inside, tn__ir_eq(ir, tn__ir_mod_i(ir, position, step), tn__ir_index(ir, 0)));
    if (step != 1 || !tn__ir_is_int_value(low[i], 0))
      inside = tn__ir_and(ir, inside, tn__ir_le(ir, tn__ir_index(ir, 0), position));
    if (step != 1 || !tn__ir_is_int_value(low[i], 0) || !tn__ir_is_int_value(high[i], 0))
      inside = tn__ir_and(ir, inside, tn__ir_lt(ir, index[i], buffer->shape[i]));
  }
  const tn__expr *value = tn__ir_select(ir, inside, tn__ir_load(ir, buffer, index), fill);
  return tn__te_compute(te, tn__lower_name(lower, "pad"), &axes, value);
}

/* ---- extern stages ----------------------------------------------------------------------------------------------- */

tn__nest tn__nest_create(tn__ir *ir, const char *prefix, int count, const tn__expr *const *extents) {
  tn__nest nest = {.count = count};
  for (int i = 0; i < count; i++) {
    const char *name = tn__arena_printf(tn__ir_arena(ir), "%s%d", prefix, i);
    nest.var[i] = tn__var_create(ir, name, TN_I64, tn__ir_index(ir, 0), extents[i]);
    nest.index[i] = nest.var[i]->self;
  }
  return nest;
}

const tn__stmt *tn__nest_loops(tn__ir *ir, const tn__nest *nest, const tn__stmt *body) {
  for (int i = nest->count - 1; i >= 0; i--) body = tn__ir_for(ir, nest->var[i], TN__LOOP_SERIAL, body);
  return body;
}

/* `lanes` elements of the run from `first` on. */
static const tn__stmt *vector_of(tn__ir *ir, const char *prefix, tn__nest *nest, int outer,
                                 const tn__expr *const *extents, const tn__expr *first, int64_t lanes,
                                 tn__nest_body *body, const void *user) {
  const tn__var *lane = tn__var_create(ir, tn__arena_printf(tn__ir_arena(ir), "%s.lane", prefix), TN_I64,
                                       tn__ir_index(ir, 0), tn__ir_index(ir, lanes));
  const tn__expr *place = tn__ir_add(ir, first, lane->self);
  for (int d = nest->count - 1; d > outer; d--) {
    nest->index[d] = tn__ir_mod(ir, place, extents[d]);
    place = tn__ir_div(ir, place, extents[d]);
  }
  nest->index[outer] = place;
  return tn__ir_for(ir, lane, TN__LOOP_VECTORIZED, body(ir, nest->index, user));
}

const tn__stmt *tn__nest_vectors(tn__ir *ir, const char *prefix, int count, const tn__expr *const *extents,
                                 const tn__expr *const *shape, tn__nest_body *body, const void *user) {
  enum { LANES = 32 };
  tn__nest nest = tn__nest_create(ir, prefix, count, extents);
  int outer = count;
  int64_t run = 1, extent;
  while (outer > 0 && tn__ir_as_int(extents[outer - 1], &extent) && extent > 0 && run < INT32_MAX / extent &&
         (outer == count || extents[outer] == shape[outer]))
    run *= extent, outer--;
  if (run < 4) return tn__nest_loops(ir, &nest, body(ir, nest.index, user));
  const tn__var *chunk = tn__var_create(ir, tn__arena_printf(tn__ir_arena(ir), "%s.chunk", prefix), TN_I64,
                                        tn__ir_index(ir, 0), tn__ir_index(ir, run / LANES));
  const tn__stmt *items[2];
  int item_count = 0;
  if (run >= LANES)
    items[item_count++] = tn__ir_for(
        ir, chunk, TN__LOOP_SERIAL,
        vector_of(ir, prefix, &nest, outer, extents, tn__ir_mul_i(ir, chunk->self, LANES), LANES, body, user));
  if (run % LANES != 0)
    items[item_count++] =
        vector_of(ir, prefix, &nest, outer, extents, tn__ir_index(ir, run / LANES * LANES), run % LANES, body, user);
  nest.count = outer;
  return tn__nest_loops(ir, &nest, tn__ir_seq(ir, items, item_count));
}

const tn__expr *tn__g_wrap_index(tn__ir *ir, const tn__expr *index, const tn__expr *size) {
  return tn__ir_select(ir, tn__ir_lt(ir, index, tn__ir_index(ir, 0)), tn__ir_add(ir, index, size), index);
}

const tn__stmt *tn__g_check_index(tn__ir *ir, const tn__expr *index, const tn__expr *size) {
  const tn__expr *below = tn__ir_lt(ir, tn__ir_add(ir, index, size), tn__ir_index(ir, 0));
  const tn__expr *outside = tn__ir_or(ir, below, tn__ir_le(ir, size, index));
  /* What is added to the greatest index wraps. Sizes above 0 make it less than 0, which is refused; 0 does not. */
  outside = tn__ir_or(ir, outside, tn__ir_lt(ir, size, tn__ir_index(ir, 1)));
  return tn__ir_if(ir, outside, tn__ir_fail(ir, TN_KERNEL_INDEX_OUT_OF_RANGE), NULL);
}

const tn__var *tn__g_let_var(tn__ir *ir, const char *name) { return tn__var_create(ir, name, TN_I64, NULL, NULL); }
