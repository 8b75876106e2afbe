/* Operators that read or write where integer operands say. Loads in a declaration cannot fail, so the indices are
 * checked and made non-negative by a small imperative stage first; the gathering itself stays an ordinary declaration
 * that fuses like any other. */
#include <stdio.h>
#include <string.h>

#include "graph/internal.h"

/* Are constant indices known to be inside of [-size, size)? Throws when one is known to be outside. */
static bool known_inside(const tn__graph *graph, const tn__node *node, const tn__value *indices, int64_t component,
                         int64_t stride, const tn__expr *size) {
  int64_t shape[TN__MAX_RANK], count = 1, limit;
  if (indices->data == NULL || !tn__ir_as_int(size, &limit) || !tn__g_shape_const(indices, shape)) return false;
  for (int i = 0; i < indices->rank; i++) count *= shape[i];
  for (int64_t i = component; i < count; i += stride) {
    int64_t index = tn__load_i64(indices->dtype, indices->data, indices->splat ? 0 : i);
    if (index >= -limit && index < limit) continue;
    if (graph == NULL) return false;
    tn__node_fail(graph, node, "index %lld is outside of a dimension of %lld", (long long)index, (long long)limit);
  }
  return true;
}

typedef struct checking {
  const tn__buffer *indices, *checked;
  const tn__expr *size;
} checking;

static const tn__stmt *check_element(tn__ir *ir, const tn__expr *const *at, const void *user) {
  const checking *c = user;
  const tn__var *var = tn__g_let_var(ir, "index");
  const tn__stmt *store = tn__ir_store(ir, c->checked, at, tn__g_wrap_index(ir, var->self, c->size));
  const tn__stmt *both = tn__ir_seq2(ir, tn__g_check_index(ir, var->self, c->size), store);
  return tn__ir_let(ir, var, tn__ir_cast(ir, TN_I64, tn__ir_load(ir, c->indices, at)), both);
}

/* The indices as i64 from the start of their dimension. `sizes`: one for all of them, or (components > 0) one for each
 * position in the last dimension. `trusted`: they are known to be inside. */
static const tn__buffer *checked_indices(tn__lower_context *lower, const tn__buffer *indices,
                                         const tn__expr *const *sizes, int components, bool trusted) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const char *name = tn__lower_name(lower, "index");
  if (trusted && components == 0) {
    tn__te_axes axes = tn__te_axes_create(te, "i", indices->rank, indices->shape);
    const tn__expr *index = tn__ir_cast(ir, TN_I64, tn__ir_load(ir, indices, axes.index));
    return tn__te_compute(te, name, &axes, tn__g_wrap_index(ir, index, sizes[0]));
  }
  const tn__buffer *checked = tn__te_extern_tensor(te, name, TN_I64, indices->rank, indices->shape);
  const tn__stmt *body = tn__ir_seq(ir, NULL, 0);
  if (components == 0) {
    const checking c = {indices, checked, sizes[0]};
    body = tn__nest_vectors(ir, "j", indices->rank, indices->shape, indices->shape, check_element, &c);
  } else {
    tn__nest nest = tn__nest_create(ir, "j", indices->rank - 1, indices->shape);
    for (int i = 0; i < components; i++) {
      const checking c = {indices, checked, sizes[i]};
      const tn__expr *at[TN__MAX_RANK];
      memcpy(at, nest.index, sizeof(at));
      at[nest.count] = tn__ir_index(ir, i);
      body = tn__ir_seq2(ir, body, check_element(ir, at, &c));
    }
    body = tn__nest_loops(ir, &nest, body);
  }
  tn__te_extern(te, name, &indices, 1, &checked, 1, body);
  return checked;
}

/* ---- take -------------------------------------------------------------------------------------------------------- */

static void infer_take(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0], *indices = node->inputs[1];
  tn__g_require_int(graph, node, 1);
  int axis = tn__g_require_axis(graph, node, "axis", a->rank), rank = 0;
  known_inside(graph, node, indices, 0, 1, a->dims[axis]);
  const tn__expr *dims[TN__MAX_RANK * 2];
  for (int i = 0; i < axis; i++) dims[rank++] = a->dims[i];
  for (int i = 0; i < indices->rank; i++) dims[rank++] = indices->dims[i];
  for (int i = axis + 1; i < a->rank; i++) dims[rank++] = a->dims[i];
  const tn__expr *elements[TN__MAX_ELEMENTS];
  int64_t at[TN__MAX_ELEMENTS];
  int count = tn__g_constant_elements(indices, at), own = tn__g_element_count(a->rank, a->dims);
  int total = tn__g_element_count(rank, dims);
  int64_t size = tn__g_dim_const(a, axis);
  bool known = a->elements != NULL && count > 0 && own > 0 && total >= 0;
  /* What stands behind the axis is taken whole, for each index, for each row of what stands before it. */
  int rest = known ? tn__g_element_count(a->rank - axis - 1, a->dims + axis + 1) : 1;
  for (int i = 0; known && i < total; i++) {
    int64_t index = at[i / rest % count];
    known = index >= -size && index < size;
    if (known)
      elements[i] = a->elements[(i / rest / count * size + (index < 0 ? index + size : index)) * rest + i % rest];
  }
  tn__g_set_output(graph, node, 0, a->dtype, rank, dims, known ? elements : NULL);
}

static void declare_take(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                         const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__value *a = node->inputs[0], *indices = node->inputs[1];
  int axis = (int)tn__node_int(node, "axis", 0);
  const tn__expr *size = inputs[0]->shape[axis];
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *at[TN__MAX_RANK], *index;
  bool inside = known_inside(NULL, node, indices, 0, 1, a->dims[axis]);
  if (inside && indices->splat) {
    int64_t constant = tn__load_i64(indices->dtype, indices->data, 0);
    index = tn__ir_index(ir, constant < 0 ? constant + tn__g_dim_const(a, axis) : constant);
  } else {
    bool trusted = inside || tn__node_int(node, "trusted", 0) != 0;
    const tn__buffer *checked = checked_indices(lower, inputs[1], &size, 0, trusted);
    index = tn__ir_load(ir, checked, axes.index + axis);
  }
  for (int i = 0; i < axis; i++) at[i] = axes.index[i];
  at[axis] = index;
  for (int i = axis + 1; i < a->rank; i++) at[i] = axes.index[i - 1 + indices->rank];
  outputs[0] = tn__te_compute(te, tn__lower_name(lower, "take"), &axes, tn__ir_load(ir, inputs[0], at));
}

/* ---- take_along_axis --------------------------------------------------------------------------------------------- */

/* The dimensions other than `axis` must not be greater than those of operand 0. */
static void require_within(tn__graph *graph, const tn__node *node, const tn__value *small, int axis) {
  const tn__value *a = node->inputs[0];
  for (int i = 0; i < a->rank; i++) {
    if (i == axis || small->dims[i] == a->dims[i]) continue;
    const tn__expr *within = tn__ir_le(graph->ir, small->dims[i], a->dims[i]);
    if (tn__ir_is_false(within))
      tn__node_fail(graph, node, "dimension %d of the indices %s is greater than that of %s", i,
                    tn__value_type_text(graph, small), tn__value_type_text(graph, a));
    tn__graph_assume(graph, within, "%s: dimension %d of the indices is %s and must not be greater than %s",
                     node->op->name, i, tn__g_size_text(graph, small->dims[i]), tn__g_size_text(graph, a->dims[i]));
  }
}

static void infer_take_along(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0], *indices = node->inputs[1];
  tn__g_require_int(graph, node, 1);
  tn__g_require_rank(graph, node, 1, a->rank);
  int axis = tn__g_require_axis(graph, node, "axis", a->rank);
  known_inside(graph, node, indices, 0, 1, a->dims[axis]);
  require_within(graph, node, indices, axis);
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, indices->dims, NULL);
}

static void declare_take_along(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                               const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  int axis = (int)tn__node_int(node, "axis", 0);
  const tn__expr *size = inputs[0]->shape[axis];
  bool trusted = known_inside(NULL, node, node->inputs[1], 0, 1, node->inputs[0]->dims[axis]) ||
                 tn__node_int(node, "trusted", 0) != 0;
  const tn__buffer *checked = checked_indices(lower, inputs[1], &size, 0, trusted);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *at[TN__MAX_RANK];
  memcpy(at, axes.index, sizeof(at));
  at[axis] = tn__ir_load(ir, checked, axes.index);
  outputs[0] = tn__te_compute(tn__lower_te(lower), tn__lower_name(lower, "take_along_axis"), &axes,
                              tn__ir_load(ir, inputs[0], at));
}

/* ---- gather_nd --------------------------------------------------------------------------------------------------- */

/* How many dimensions one index tuple selects. */
static int tuple_size(const tn__graph *graph, const tn__node *node, int batch) {
  const tn__value *a = node->inputs[0], *indices = node->inputs[1];
  int64_t size = indices->rank > 0 ? tn__g_dim_const(indices, indices->rank - 1) : -1;
  if (size < 0 || size > a->rank - batch)
    tn__node_fail(graph, node, "the last dimension of the indices %s must be a constant of at most %d",
                  tn__value_type_text(graph, indices), a->rank - batch);
  return (int)size;
}

static void infer_gather_nd(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0], *indices = node->inputs[1];
  tn__g_require_int(graph, node, 1);
  int64_t batch = tn__node_int(node, "batch_dims", 0);
  if (batch < 0 || batch >= indices->rank || batch > a->rank)
    tn__node_fail(graph, node, "batch_dims %lld is out of range", (long long)batch);
  int tuple = tuple_size(graph, node, (int)batch), rank = 0;
  const tn__expr *dims[TN__MAX_RANK * 2];
  for (int i = 0; i < indices->rank - 1; i++, rank++)
    dims[rank] =
        i < batch ? tn__g_same_dim(graph, node, a->dims[i], indices->dims[i], "operand 1", i) : indices->dims[i];
  for (int i = (int)batch + tuple; i < a->rank; i++) dims[rank++] = a->dims[i];
  for (int k = 0; k < tuple; k++) known_inside(graph, node, indices, k, tuple, a->dims[batch + k]);
  tn__g_set_output(graph, node, 0, a->dtype, rank, dims, NULL);
}

static void declare_gather_nd(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                              const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  int batch = (int)tn__node_int(node, "batch_dims", 0), lead = node->inputs[1]->rank - 1;
  int tuple = (int)tn__g_dim_const(node->inputs[1], lead);
  const tn__buffer *checked =
      tuple == 0 ? NULL : checked_indices(lower, inputs[1], inputs[0]->shape + batch, tuple, false);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *at[TN__MAX_RANK], *component[TN__MAX_RANK];
  for (int i = 0; i < lead; i++) component[i] = axes.index[i];
  for (int i = 0; i < batch; i++) at[i] = axes.index[i];
  for (int k = 0; k < tuple; k++) {
    component[lead] = tn__ir_index(ir, k);
    at[batch + k] = tn__ir_load(ir, checked, component);
  }
  for (int i = batch + tuple; i < node->inputs[0]->rank; i++) at[i] = axes.index[lead + i - batch - tuple];
  outputs[0] =
      tn__te_compute(tn__lower_te(lower), tn__lower_name(lower, "gather_nd"), &axes, tn__ir_load(ir, inputs[0], at));
}

/* ---- writes: one imperative stage that copies operand 0 and then applies the updates in order ------------------
 * With `in_place` the result's memory holds operand 0 already, and there is no copy. */

static void require_reduction(const tn__graph *graph, const tn__node *node) {
  static const char *const names[] = {"none", "add", "mul", "max", "min"};
  const char *name = tn__node_string(node, "reduction", "none");
  int i = 0;
  while (i < 5 && strcmp(names[i], name) != 0) i++;
  if (i == 5) tn__node_fail(graph, node, "reduction \"%s\" is not one of none, add, mul, max, min", name);
  if (i > 0 && node->inputs[0]->dtype == TN_BOOL)
    tn__node_fail(graph, node, "reduction %s is not defined for bool", name);
}

static const tn__expr *updated(tn__ir *ir, const tn__node *node, const tn__expr *old, const tn__expr *update) {
  const char *name = tn__node_string(node, "reduction", "none");
  if (strcmp(name, "add") == 0) return tn__ir_add(ir, old, update);
  if (strcmp(name, "mul") == 0) return tn__ir_mul(ir, old, update);
  if (strcmp(name, "max") == 0) return tn__ir_max(ir, old, update);
  if (strcmp(name, "min") == 0) return tn__ir_min(ir, old, update);
  return update;
}

typedef struct copying {
  const tn__buffer *from, *to;
} copying;

static const tn__stmt *copy_element(tn__ir *ir, const tn__expr *const *index, const void *user) {
  const copying *c = user;
  return tn__ir_store(ir, c->to, index, tn__ir_load(ir, c->from, index));
}

static const tn__stmt *copy_stmt(tn__ir *ir, const tn__buffer *from, const tn__buffer *to,
                                 const tn__expr *const *extents) {
  const copying c = {from, to};
  return tn__nest_vectors(ir, "c", from->rank, extents, from->shape, copy_element, &c);
}

static void write_stage(tn__lower_context *lower, const tn__node *node, const char *name,
                        const tn__buffer *const *inputs, int count, const tn__buffer *result,
                        const tn__expr *const *copied, const tn__stmt *updates) {
  tn__ir *ir = tn__lower_ir(lower);
  const tn__stmt *body =
      tn__node_int(node, "in_place", 0) ? updates : tn__ir_seq2(ir, copy_stmt(ir, inputs[0], result, copied), updates);
  tn__te_extern(tn__lower_te(lower), name, inputs, count, &result, 1, body);
}

static void infer_scatter_elements(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0], *indices = node->inputs[1];
  tn__g_require_int(graph, node, 1);
  tn__g_require_same_dtype(graph, node, 0, 2);
  tn__g_require_rank(graph, node, 1, a->rank);
  require_reduction(graph, node);
  int axis = tn__g_require_axis(graph, node, "axis", a->rank);
  require_within(graph, node, indices, axis);
  known_inside(graph, node, indices, 0, 1, a->dims[axis]);
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, a->dims, NULL);
}

static void declare_scatter_elements(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                                     const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  const tn__buffer *a = inputs[0];
  int axis = (int)tn__node_int(node, "axis", 0);
  const char *name = tn__lower_name(lower, "scatter_elements");
  const tn__buffer *result = tn__te_extern_tensor(tn__lower_te(lower), name, a->dtype, a->rank, a->shape);
  tn__nest nest = tn__nest_create(ir, "j", inputs[1]->rank, inputs[1]->shape);
  const tn__var *var = tn__g_let_var(ir, "index");
  const tn__expr *at[TN__MAX_RANK];
  memcpy(at, nest.index, sizeof(at));
  at[axis] = tn__g_wrap_index(ir, var->self, a->shape[axis]);
  const tn__expr *value = updated(ir, node, tn__ir_load(ir, result, at), tn__ir_load(ir, inputs[2], nest.index));
  const tn__stmt *body =
      tn__ir_seq2(ir, tn__g_check_index(ir, var->self, a->shape[axis]), tn__ir_store(ir, result, at, value));
  body = tn__ir_let(ir, var, tn__ir_cast(ir, TN_I64, tn__ir_load(ir, inputs[1], nest.index)), body);
  write_stage(lower, node, name, inputs, 3, result, a->shape, tn__nest_loops(ir, &nest, body));
  outputs[0] = result;
}

static void infer_scatter_nd(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0], *indices = node->inputs[1], *updates = node->inputs[2];
  tn__g_require_int(graph, node, 1);
  tn__g_require_same_dtype(graph, node, 0, 2);
  require_reduction(graph, node);
  int tuple = tuple_size(graph, node, 0), lead = indices->rank - 1;
  tn__g_require_rank(graph, node, 2, lead + a->rank - tuple);
  for (int i = 0; i < updates->rank; i++)
    tn__g_same_dim(graph, node, i < lead ? indices->dims[i] : a->dims[tuple + i - lead], updates->dims[i], "operand 2",
                   i);
  for (int k = 0; k < tuple; k++) known_inside(graph, node, indices, k, tuple, a->dims[k]);
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, a->dims, NULL);
}

/* A slice of the updates: where it comes from and goes to. */
typedef struct slices {
  const tn__node *node;
  const tn__buffer *updates, *result;
  const tn__expr *const *from, *const *at; /* the leading indices */
  int lead, tuple;
} slices;

static const tn__stmt *update_element(tn__ir *ir, const tn__expr *const *index, const void *user) {
  const slices *s = user;
  const tn__expr *from[TN__MAX_RANK], *at[TN__MAX_RANK];
  memcpy(from, s->from, (size_t)s->lead * sizeof(*from));
  memcpy(at, s->at, (size_t)s->tuple * sizeof(*at));
  for (int i = 0; i < s->updates->rank - s->lead; i++) from[s->lead + i] = at[s->tuple + i] = index[i];
  const tn__expr *value = updated(ir, s->node, tn__ir_load(ir, s->result, at), tn__ir_load(ir, s->updates, from));
  return tn__ir_store(ir, s->result, at, value);
}

static void declare_scatter_nd(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                               const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  const tn__buffer *a = inputs[0], *indices = inputs[1], *updates = inputs[2];
  int lead = indices->rank - 1, tuple = (int)tn__g_dim_const(node->inputs[1], lead);
  const char *name = tn__lower_name(lower, "scatter_nd");
  const tn__buffer *result = tn__te_extern_tensor(tn__lower_te(lower), name, a->dtype, a->rank, a->shape);
  tn__nest rows = tn__nest_create(ir, "j", lead, updates->shape);
  const tn__var *vars[TN__MAX_RANK];
  const tn__expr *at[TN__MAX_RANK], *component[TN__MAX_RANK];
  for (int k = 0; k < tuple; k++) {
    vars[k] = tn__g_let_var(ir, "index");
    at[k] = tn__g_wrap_index(ir, vars[k]->self, a->shape[k]);
  }
  for (int i = 0; i < lead; i++) component[i] = rows.index[i];
  const slices s = {node, updates, result, rows.index, at, lead, tuple};
  const tn__stmt *body =
      tn__nest_vectors(ir, "s", updates->rank - lead, updates->shape + lead, a->shape + tuple, update_element, &s);
  for (int k = tuple - 1; k >= 0; k--) {
    component[lead] = tn__ir_index(ir, k);
    body = tn__ir_seq2(ir, tn__g_check_index(ir, vars[k]->self, a->shape[k]), body);
    body = tn__ir_let(ir, vars[k], tn__ir_cast(ir, TN_I64, tn__ir_load(ir, indices, component)), body);
  }
  write_stage(lower, node, name, inputs, 3, result, a->shape, tn__nest_loops(ir, &rows, body));
  outputs[0] = result;
}

/* ---- append: as a scatter of one piece that lies where the shapes say -------------------------------------------- */

static void infer_append(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0], *fresh = node->inputs[1];
  tn__g_require_same_dtype(graph, node, 0, 1);
  tn__g_require_rank(graph, node, 1, a->rank);
  int axis = tn__g_require_axis(graph, node, "axis", a->rank);
  const tn__expr *start = tn__g_require_exprs(graph, node, "start", 1)[0];
  for (int i = 0; i < a->rank; i++)
    if (i != axis) tn__g_same_dim(graph, node, a->dims[i], fresh->dims[i], "operand 1", i);
  tn__ir *ir = graph->ir;
  const tn__expr *end = tn__ir_add(ir, start, fresh->dims[axis]);
  tn__graph_assume(graph, tn__ir_le(ir, tn__ir_index(ir, 0), start), "%s: it would start at %s", node->op->name,
                   tn__g_size_text(graph, start));
  tn__graph_assume(graph, tn__ir_le(ir, end, a->dims[axis]), "%s elements along dimension %d do not fit into %s",
                   tn__g_size_text(graph, end), axis, tn__g_size_text(graph, a->dims[axis]));
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, a->dims, NULL);
}

static void declare_append(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                           const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  const tn__buffer *a = inputs[0], *fresh = inputs[1];
  int axis = (int)tn__node_int(node, "axis", 0);
  const tn__expr *start = tn__lower_expr(lower, tn__node_attr(node, "start")->exprs[0]);
  const char *name = tn__lower_name(lower, "append");
  const tn__buffer *result = tn__te_extern_tensor(tn__lower_te(lower), name, a->dtype, a->rank, a->shape);
  tn__nest nest = tn__nest_create(ir, "u", a->rank, fresh->shape);
  const tn__expr *at[TN__MAX_RANK], *past[TN__MAX_RANK];
  memcpy(at, nest.index, sizeof(at));
  memcpy(past, a->shape, (size_t)a->rank * sizeof(*past));
  at[axis] = tn__ir_add(ir, at[axis], start);
  past[axis] = start;
  const tn__stmt *store = tn__ir_store(ir, result, at, tn__ir_load(ir, fresh, nest.index));
  write_stage(lower, node, name, inputs, 2, result, past, tn__nest_loops(ir, &nest, store));
  outputs[0] = result;
}

/* ---- write_at: one element along an axis, at a position that is data --------------------------------------------- */

static void infer_write_at(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  tn__g_require_same_dtype(graph, node, 0, 1);
  tn__g_require_dtype(graph, node, 2, TN_I64);
  int axis = tn__g_require_axis(graph, node, "axis", a->rank);
  for (int k = 1; k <= 2; k++) {
    tn__g_require_rank(graph, node, k, a->rank);
    for (int i = 0; i < a->rank; i++) {
      const tn__expr *dim = node->inputs[k]->dims[i];
      if (!tn__ir_is_int_value(dim, 1) && (i == axis || dim != a->dims[i]))
        tn__node_fail(graph, node, "dimension %d of operand %d, %s, does not fit %s", i, k,
                      tn__value_type_text(graph, node->inputs[k]), tn__value_type_text(graph, a));
    }
  }
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, a->dims, NULL);
}

/* Broadcasts the index of a nest to an operand: 0 in dimensions of size 1. */
static void stretched_index(tn__ir *ir, const tn__buffer *operand, const tn__nest *nest, const tn__expr **index) {
  for (int i = 0; i < nest->count; i++)
    index[i] = tn__ir_is_int_value(operand->shape[i], 1) ? tn__ir_index(ir, 0) : nest->index[i];
}

static bool has_one_element(const tn__buffer *operand) {
  for (int i = 0; i < operand->rank; i++)
    if (!tn__ir_is_int_value(operand->shape[i], 1)) return false;
  return true;
}

static void declare_write_at(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                             const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  const tn__buffer *a = inputs[0], *fresh = inputs[1], *position = inputs[2];
  int axis = (int)tn__node_int(node, "axis", 0);
  const char *name = tn__lower_name(lower, "write_at");
  const tn__buffer *result = tn__te_extern_tensor(tn__lower_te(lower), name, a->dtype, a->rank, a->shape);
  const tn__expr *extents[TN__MAX_RANK], *at[TN__MAX_RANK], *from[TN__MAX_RANK], *where[TN__MAX_RANK];
  memcpy(extents, a->shape, (size_t)a->rank * sizeof(*extents));
  extents[axis] = tn__ir_index(ir, 1);
  tn__nest nest = tn__nest_create(ir, "w", a->rank, extents);
  bool once = has_one_element(position); /* one position for all elements: compute it before the loops */
  stretched_index(ir, position, &nest, where);
  stretched_index(ir, fresh, &nest, from);
  const tn__var *var = tn__g_let_var(ir, "position");
  memcpy(at, nest.index, sizeof(at));
  at[axis] = var->self;
  const tn__expr *inside =
      tn__ir_and(ir, tn__ir_le(ir, tn__ir_index(ir, 0), var->self), tn__ir_lt(ir, var->self, a->shape[axis]));
  const tn__stmt *body = tn__ir_store(ir, result, at, tn__ir_load(ir, fresh, from));
  if (once) body = tn__nest_loops(ir, &nest, body);
  body = tn__ir_let(ir, var, tn__ir_load(ir, position, where), tn__ir_if(ir, inside, body, NULL));
  if (!once) body = tn__nest_loops(ir, &nest, body);
  write_stage(lower, node, name, inputs, 3, result, a->shape, body);
  outputs[0] = result;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

#define TN__ROW(count, op_name, names, class, suffix, ...) \
  TN__DECLARED_ROW(count, count, op_name, names, class, suffix, __VA_ARGS__)

static const tn__op rows[] = {
    TN__ROW(2, "take", "x[*s] indices[*i]", TN__CLASS_INJECTIVE, take,
            "Slices along `axis` at integer indices; negative ones count from the end.", .facts = TN__FACT_STRINGS,
            .moves = {.operands = 1, .axes = "axis"}, .attributes = "axis:int trusted:int"),
    TN__ROW(2, "take_along_axis", "x[*s] indices[*i]", TN__CLASS_INJECTIVE, take_along,
            "Elements at indices along `axis`, one for each position.", .facts = TN__FACT_STRINGS,
            .attributes = "axis:int trusted:int"),
    TN__ROW(2, "gather_nd", "x[*s] indices[*i,k]", TN__CLASS_INJECTIVE, gather_nd,
            "Slices at index tuples, after `batch_dims` common dimensions.", .facts = TN__FACT_STRINGS,
            .attributes = "batch_dims:int trusted:int"),
    TN__ROW(3, "scatter_elements", "x[*s] indices[*i] updates[*i]", TN__CLASS_OPAQUE, scatter_elements,
            "Operand 0 with elements along `axis` replaced by or combined with (`reduction`) the updates, in order.",
            .facts = TN__FACT_UPDATES | TN__FACT_STRINGS, .attributes = "axis:int reduction:string in_place:int"),
    TN__ROW(3, "scatter_nd", "x[*s] indices[*i,k] updates[*u]", TN__CLASS_OPAQUE, scatter_nd,
            "Operand 0 with slices at index tuples replaced by or combined with (`reduction`) the updates, in order.",
            .facts = TN__FACT_UPDATES | TN__FACT_STRINGS, .attributes = "reduction:string in_place:int"),
    TN__ROW(3, "write_at", "x[*s] fresh[*f] position[*p]", TN__CLASS_OPAQUE, write_at,
            "Operand 0 with its element along `axis` at the position in operand 2, if there is one, replaced by "
            "operand 1.",
            .facts = TN__FACT_UPDATES, .attributes = "axis:int in_place:int"),
    TN__ROW(2, "append", "x[*s] fresh[*f]", TN__CLASS_OPAQUE, append,
            "The first `start` elements of operand 0 along `axis`, then operand 1; what lies behind may be anything.",
            .facts = TN__FACT_UPDATES, .attributes = "axis:int start:exprs in_place:int"),
};

const tn__op_family tn__ops_gather = {rows, sizeof(rows) / sizeof(rows[0])};
