/* Writes by a mask of positions: select(iota along an axis == position, new, old) replaces one element along the axis.
 * As a write it touches that one, where the select reads and writes all. */
#include <string.h>

#include "graph/build/build.h"
#include "graph/grow/grow.h"
#include "graph/internal.h"

/* A value as a function of the indices of another one: dimension i runs with dimension axis_of[i] of that, or has the
 * size 1 (-1). */
typedef struct trace {
  tn__value *value;
  int axis_of[TN__MAX_RANK];
} trace;

static bool is_unit(const tn__expr *dim) { return tn__ir_is_int_value(dim, 1); }
static bool is_integer(const tn__value *value) { return tn__dtype_is_int(value->dtype); }

TN_MUST_USE static bool through_broadcast(trace *t) {
  const tn__node *node = t->value->producer;
  const int64_t *axes = tn__node_attr(node, "axes")->ints;
  trace inner = {.value = node->inputs[0]};
  for (int i = 0; i < inner.value->rank; i++) {
    bool unit = is_unit(inner.value->dims[i]);
    if (!unit && inner.value->dims[i] != t->value->dims[axes[i]])
      return false; /* only a run tells whether it stretches */
    inner.axis_of[i] = unit ? -1 : t->axis_of[axes[i]];
  }
  *t = inner;
  return true;
}

/* Dimensions of 1 come and go; the others must be the same. */
TN_MUST_USE static bool through_reshape(trace *t) {
  trace inner = {.value = t->value->producer->inputs[0]};
  int from = 0;
  for (int i = 0; i < inner.value->rank; i++) {
    inner.axis_of[i] = -1;
    if (is_unit(inner.value->dims[i])) continue;
    while (from < t->value->rank && is_unit(t->value->dims[from])) from++;
    if (from == t->value->rank || t->value->dims[from] != inner.value->dims[i]) return false;
    inner.axis_of[i] = t->axis_of[from++];
  }
  while (from < t->value->rank && is_unit(t->value->dims[from])) from++;
  if (from < t->value->rank) return false;
  *t = inner;
  return true;
}

static bool widens(const tn__node *node) {
  const tn__value *a = node->inputs[0], *b = node->outputs[0];
  return is_integer(a) && is_integer(b) && tn_dtype_size(a->dtype) < tn_dtype_size(b->dtype) &&
         tn__dtype_is_signed(b->dtype);
}

static void look_through(trace *t) {
  for (bool more = true; more;) {
    const tn__node *node = t->value->producer;
    if (node == NULL) return;
    bool same = tn__node_is_view(node) && node->inputs[0]->dtype == t->value->dtype;
    more = tn__op_has(node, TN__FACT_REPEATS) ? through_broadcast(t) : same && through_reshape(t);
    if (!more && tn__g_is_op(node, "convert") && widens(node)) t->value = node->inputs[0], more = true;
  }
}

/* The axis whose index the value is; -1: another value. */
static int axis_counted(const trace *t) {
  const tn__value *v = t->value;
  bool wide = is_integer(v) && tn_dtype_size(v->dtype) >= 4; /* narrow ones may wrap */
  if (tn__g_is_op(v->producer, "iota") && wide) return t->axis_of[tn__node_int(v->producer, "axis", 0)];
  int axis = -1;
  int64_t size;
  for (int i = 0; i < v->rank; i++) {
    if (t->axis_of[i] < 0) continue;
    if (axis >= 0 || !tn__ir_as_int(v->dims[i], &size)) return -1;
    axis = t->axis_of[i];
  }
  if (axis < 0 || v->data == NULL || v->splat || !is_integer(v)) return -1;
  for (int64_t i = 0; i < size; i++)
    if (tn__load_i64(v->dtype, v->data, i) != i) return -1;
  return axis;
}

static bool runs_with(const trace *t, int axis) {
  for (int i = 0; i < t->value->rank; i++)
    if (t->axis_of[i] == axis) return true;
  return false;
}

/* The value with the rank of `like`, and dimensions of 1 where it does not run with those of that. */
static tn__value *spread(tn__graph *graph, const trace *t, const tn__value *like) {
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < like->rank; i++) dims[i] = tn__ir_index(graph->ir, 1);
  for (int i = 0; i < t->value->rank; i++)
    if (t->axis_of[i] >= 0) dims[t->axis_of[i]] = t->value->dims[i];
  return tn__g_reshape(graph, t->value, like->rank, dims);
}

static trace trace_of(tn__value *value) {
  trace t = {.value = value};
  for (int i = 0; i < value->rank; i++) t.axis_of[i] = is_unit(value->dims[i]) ? -1 : i;
  look_through(&t);
  return t;
}

/* Finds position and axis of a mask that is true where the index along the axis is the position. */
TN_MUST_USE static int find_position(tn__value *mask, trace *position) {
  trace t = trace_of(mask);
  const tn__node *compare = t.value->producer;
  if (!tn__g_is_op(compare, "compare") || strcmp(tn__node_string(compare, "direction", ""), "EQ") != 0) return -1;
  for (int side = 0; side < 2; side++) {
    trace index = t, other = t;
    index.value = compare->inputs[side], other.value = compare->inputs[1 - side];
    look_through(&index), look_through(&other);
    int axis = axis_counted(&index);
    if (axis < 0 || !is_integer(other.value) || runs_with(&other, axis)) continue;
    *position = other;
    return axis;
  }
  return -1;
}

bool tn__graph_write_by_mask(tn__graph *graph, int output, tn__value *input) {
  tn__value *result = graph->outputs.data[output].value;
  tn__node *node = result->producer;
  if (!tn__g_is_op(node, "select") || node->inputs[2] != input) return false;
  trace position, fresh = trace_of(node->inputs[1]);
  int axis = find_position(node->inputs[0], &position);
  if (axis < 0 || runs_with(&fresh, axis)) return false;
  const char *before = graph->origin;
  graph->origin = node->origin;
  tn__value *at = tn__g_convert(graph, spread(graph, &position, result), TN_I64);
  tn__value *row = tn__g_convert(graph, spread(graph, &fresh, result), input->dtype);
  tn__value *written = tn__g_write_at(graph, input, row, at, axis);
  graph->origin = before;
  tn__graph_replace_uses(graph, result, written);
  return true;
}
