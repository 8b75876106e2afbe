/* Caches of keys and values in one tensor: past is a stack of them along one dimension, each is taken out of it and
 * gets new elements behind it, and present stacks the results: GPT-2's [2, batch, heads, length, width]. That is one
 * concatenation of past with the stack of all new elements, of which the longer caches are taken. */
#include <string.h>

#include "graph/build/build.h"
#include "graph/grow/grow.h"
#include "graph/internal.h"

typedef struct cache {
  tn__value *whole;           /* as present stacks it, without the dimension of the stack */
  tn__value *made;            /* what the concatenation makes: the same, or its operand when it is transposed */
  const int64_t *permutation; /* of the transpose from `made` to `whole`; NULL: there is none */
  tn__value *fresh;           /* the new elements, laid out like `made` */
  int axis;                   /* of `whole` along which it grows */
} cache;

static bool is_op(const tn__value *v, const char *name) { return tn__g_is_op(v->producer, name); }

static const int64_t *permutation_of(const tn__value *v) {
  return is_op(v, "transpose") ? tn__node_attr(v->producer, "permutation")->ints : NULL;
}

/* Is `v` tensor `index` of the stack `past` along dimension `stack`, without that dimension? */
static bool is_member(const tn__value *v, const tn__value *past, int stack, int64_t index) {
  int64_t at;
  if (is_op(v, "take")) {
    const tn__node *node = v->producer;
    const tn__value *position = node->inputs[1];
    if (node->inputs[0] != past || tn__node_int(node, "axis", -1) != stack || position->rank != 0) return false;
    if (position->data != NULL)
      at = tn__load_i64(position->dtype, position->data, 0);
    else if (position->elements == NULL || !tn__ir_as_int(position->elements[0], &at))
      return false;
    return at == index || at + tn__g_dim_const(past, stack) == index;
  }
  if (!is_op(v, "reshape") || !is_op(v->producer->inputs[0], "slice") || v->rank != past->rank - 1) return false;
  const tn__node *slice = v->producer->inputs[0]->producer;
  const tn__value *part = slice->outputs[0];
  const tn__attr *starts = tn__node_attr(slice, "starts"), *strides = tn__node_attr(slice, "strides");
  if (slice->inputs[0] != past || !tn__ir_is_int_value(part->dims[stack], 1)) return false;
  for (int i = 0, to = 0; i < past->rank; i++) {
    if (strides->ints[i] != 1 || !tn__ir_is_int_value(starts->exprs[i], i == stack ? index : 0)) return false;
    if (i != stack && (part->dims[i] != past->dims[i] || v->dims[to++] != past->dims[i])) return false;
  }
  return true;
}

/* transpose(transpose(x)) = x? NULL is the identity. */
static bool cancel(const int64_t *outer, const int64_t *inner, int rank) {
  for (int i = 0; i < rank; i++) {
    int64_t middle = outer == NULL ? i : outer[i];
    if ((inner == NULL ? middle : inner[middle]) != i) return false;
  }
  return true;
}

/* Is `whole` member `index` of the past with new elements behind it? */
TN_MUST_USE static bool find_cache(tn__graph *graph, tn__value *whole, const tn__value *past, int stack, int64_t index,
                                   cache *out) {
  *out = (cache){.whole = whole, .made = whole, .permutation = permutation_of(whole)};
  if (out->permutation != NULL) out->made = whole->producer->inputs[0];
  if (!is_op(out->made, "concatenate") || out->made->producer->input_count < 2) return false;
  const tn__node *node = out->made->producer;
  int axis = (int)tn__node_int(node, "axis", -1);
  const tn__value *old = node->inputs[0];
  const int64_t *inner = permutation_of(old);
  if (inner != NULL) old = old->producer->inputs[0];
  if (!cancel(out->permutation, inner, whole->rank) || !is_member(old, past, stack, index)) return false;
  for (out->axis = 0; out->permutation != NULL && out->permutation[out->axis] != axis;) out->axis++;
  if (out->permutation == NULL) out->axis = axis;
  out->fresh = node->input_count == 2 ? node->inputs[1]
                                      : tn__g_concatenate(graph, node->inputs + 1, node->input_count - 1, axis);
  return true;
}

/* Are new elements made of a whole cache, as those of another layer's can be? Then they do not come first. */
static bool depends(tn__graph *graph, const cache *caches, int count) {
  int value_count;
  tn__graph_use_counts(graph, &value_count);
  bool *seen = TN__NEW_ARRAY(graph->arena, value_count, bool);
  TN__VEC(const tn__value *) waiting = {0};
  for (int i = 0; i < count; i++) tn__vec_push(graph->arena, &waiting, caches[i].fresh);
  while (waiting.count > 0) {
    const tn__value *v = waiting.data[--waiting.count];
    if (seen[v->id]) continue;
    seen[v->id] = true;
    for (int i = 0; i < count; i++)
      if (v == caches[i].made || v == caches[i].whole) return true;
    for (int i = 0; v->producer != NULL && i < v->producer->input_count; i++)
      if (v->producer->inputs[i] != NULL) tn__vec_push(graph->arena, &waiting, v->producer->inputs[i]);
  }
  return false;
}

static tn__value *with_stack(tn__graph *graph, tn__value *v, int stack) {
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0, from = 0; i <= v->rank; i++) dims[i] = i == stack ? tn__ir_index(graph->ir, 1) : v->dims[from++];
  return tn__g_reshape(graph, v, v->rank + 1, dims);
}

static tn__value *member(tn__graph *graph, tn__value *all, int stack, int64_t index, const tn__value *like) {
  const tn__expr *starts[TN__MAX_RANK], *limits[TN__MAX_RANK];
  int64_t strides[TN__MAX_RANK];
  for (int i = 0; i < all->rank; i++) {
    starts[i] = tn__ir_index(graph->ir, i == stack ? index : 0);
    limits[i] = i == stack ? tn__ir_index(graph->ir, index + 1) : all->dims[i];
    strides[i] = 1;
  }
  return tn__g_reshape(graph, tn__g_slice(graph, all, starts, limits, strides), like->rank, like->dims);
}

/* Those who read the caches read them in the stack. */
static void read_stack(tn__graph *graph, const cache *c, tn__value *all, int stack, int64_t index) {
  tn__value *part = member(graph, all, stack, index, c->whole);
  tn__graph_replace_uses(graph, c->whole, part);
  if (c->permutation == NULL) return;
  int64_t inverse[TN__MAX_RANK];
  for (int i = 0; i < c->whole->rank; i++) inverse[c->permutation[i]] = i;
  tn__graph_replace_uses(graph, c->made, tn__g_transpose(graph, part, inverse));
}

bool tn__graph_join_stack(tn__graph *graph, int output, tn__value *past) {
  tn__value *present = graph->outputs.data[output].value;
  if (!is_op(present, "concatenate") || present->rank != past->rank) return false;
  const tn__node *node = present->producer;
  int stack = (int)tn__node_int(node, "axis", -1), count = node->input_count;
  if (tn__g_dim_const(past, stack) != count || count < 2) return false;
  cache *caches = TN__NEW_ARRAY(graph->arena, count, cache);
  tn__value **fresh = TN__NEW_ARRAY(graph->arena, count, tn__value *);
  const char *before = graph->origin;
  graph->origin = node->origin;
  bool found = true;
  for (int i = 0; i < count && found; i++) {
    const tn__value *layer = node->inputs[i];
    tn__value *whole = is_op(layer, "reshape") ? layer->producer->inputs[0] : NULL;
    found = whole != NULL && whole->rank == past->rank - 1 && tn__ir_is_int_value(layer->dims[stack], 1) &&
            find_cache(graph, whole, past, stack, i, &caches[i]) && caches[i].axis == caches[0].axis;
    for (int d = 0; found && d < whole->rank; d++) found = layer->dims[d < stack ? d : d + 1] == whole->dims[d];
  }
  found = found && !depends(graph, caches, count);
  if (found) {
    for (int i = 0; i < count; i++) {
      const cache *c = &caches[i];
      tn__value *own = c->permutation == NULL ? c->fresh : tn__g_transpose(graph, c->fresh, c->permutation);
      fresh[i] = with_stack(graph, own, stack);
    }
    int axis = caches[0].axis + (caches[0].axis >= stack ? 1 : 0);
    tn__value *both[] = {past, tn__g_concatenate(graph, fresh, count, stack)};
    tn__value *all = tn__g_concatenate(graph, both, 2, axis);
    tn__graph_replace_uses(graph, present, all);
    for (int i = 0; i < count; i++) read_stack(graph, &caches[i], all, stack, i);
  }
  graph->origin = before;
  tn__graph_sweep(graph);
  return found;
}
