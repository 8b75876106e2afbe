/* Buffers with room to grow: present = concatenate(past, new) becomes a write of the new elements behind those of the
 * past, in a buffer that is as long as either will ever be, when the caller declares that the two share memory. */
#include <string.h>

#include "graph/build/build.h"
#include "graph/grow/grow.h"
#include "graph/internal.h"

static const tn__node *growth_of(const tn__graph *graph, int output, const tn__value *input) {
  const tn__node *node = graph->outputs.data[output].value->producer;
  if (!tn__g_is_op(node, "concatenate") || node->input_count < 2) return NULL;
  return node->inputs[0] == input ? node : NULL;
}

int tn__graph_growing_axis(const tn__graph *graph, int output, const tn__value *input) {
  const tn__node *node = growth_of(graph, output, input);
  int axis = node == NULL ? -1 : (int)tn__node_int(node, "axis", -1);
  return axis >= 0 && input->dims[axis]->kind == TN__EXPR_VAR ? axis : -1;
}

/* The first `valid` elements of the buffer along the axis. */
static tn__value *valid_part(tn__graph *graph, tn__value *buffer, int axis, const tn__expr *valid) {
  const tn__expr *starts[TN__MAX_RANK], *limits[TN__MAX_RANK];
  int64_t strides[TN__MAX_RANK];
  for (int i = 0; i < buffer->rank; i++) {
    starts[i] = tn__ir_index(graph->ir, 0);
    limits[i] = i == axis ? valid : buffer->dims[i];
    strides[i] = 1;
  }
  return tn__g_slice(graph, buffer, starts, limits, strides);
}

/* The input as a buffer; all its readers get its valid part. */
static void open_input(tn__graph *graph, tn__value *input, int axis, int64_t capacity) {
  const tn__expr *past = input->dims[axis];
  const tn__expr **dims = tn__arena_copy(graph->arena, input->dims, (size_t)input->rank * sizeof(*dims));
  dims[axis] = tn__ir_index(graph->ir, capacity);
  input->dims = dims;
  input->extent = (tn__extent){past, axis};
  tn__value *part = valid_part(graph, input, axis, past);
  tn__graph_replace_uses(graph, input, part);
  tn__node_set_input(graph, part->producer, 0, input);
  tn__graph_move_symbols(graph, part, input);
}

/* A part of the valid part is a part of the buffer. */
static void read_buffer(tn__graph *graph, tn__value *part) {
  const tn__node *valid = part->producer;
  const tn__attr *own_starts = tn__node_attr(valid, "starts");
  for (int i = 0, count = graph->nodes.count; i < count; i++) {
    const tn__node *node = graph->nodes.data[i];
    if (node->dead || !tn__g_is_op(node, "slice") || node->inputs[0] != part) continue;
    const tn__attr *starts = tn__node_attr(node, "starts"), *limits = tn__node_attr(node, "limits");
    const tn__expr *from[TN__MAX_RANK], *to[TN__MAX_RANK];
    for (int d = 0; d < part->rank; d++) {
      from[d] = tn__ir_add(graph->ir, own_starts->exprs[d], starts->exprs[d]);
      to[d] = tn__ir_add(graph->ir, own_starts->exprs[d], limits->exprs[d]);
    }
    tn__value *direct = tn__g_slice(graph, valid->inputs[0], from, to, tn__node_attr(node, "strides")->ints);
    tn__graph_replace_uses(graph, node->outputs[0], direct);
  }
}

bool tn__graph_grow(tn__graph *graph, int output, tn__value *input, int64_t capacity) {
  int axis = tn__graph_growing_axis(graph, output, input);
  if (axis < 0) return false;
  const tn__node *node = growth_of(graph, output, input);
  tn__value *present = node->outputs[0];
  const tn__expr *past = input->dims[axis], *total = present->dims[axis];
  const char *before = graph->origin;
  graph->origin = node->origin;
  open_input(graph, input, axis, capacity);
  tn__value *fresh = node->input_count == 2 ? node->inputs[1]
                                            : tn__g_concatenate(graph, node->inputs + 1, node->input_count - 1, axis);
  tn__value *buffer = tn__g_append(graph, input, fresh, axis, past);
  tn__value *valid = valid_part(graph, buffer, axis, total);
  tn__graph_replace_uses(graph, present, valid);
  read_buffer(graph, valid);
  tn__graph_set_output(graph, output, buffer);
  graph->outputs.data[output].extent = (tn__extent){total, axis};
  graph->origin = before;
  tn__graph_sweep(graph);
  return true;
}

bool tn__graph_is_valid_part(const tn__node *node) {
  if (!tn__g_is_op(node, "slice")) return false;
  const tn__value *buffer = node->inputs[0];
  bool grown = tn__g_is_op(buffer->producer, "append");
  if (!grown && buffer->extent.valid == NULL) return false;
  const tn__attr *starts = tn__node_attr(node, "starts"), *strides = tn__node_attr(node, "strides");
  for (int i = 0; i < buffer->rank; i++)
    if (!tn__ir_is_int(starts->exprs[i]) || strides->ints[i] != 1) return false;
  return true;
}
