#include "graph/passes/rewrite.h"

#include <string.h>

#include "base/copy.h"
#include "base/invariant.h"

/* ---- facts -------------------------------------------------------------------------------------- */

tn__node *tn__pass_producer_of(const tn__value *value, const char *name) {
  return value != NULL && tn__g_is_op(value->producer, name) ? value->producer : NULL;
}

bool tn__pass_same_shape(const tn__value *a, const tn__value *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

bool tn__pass_same_type(const tn__value *a, const tn__value *b) {
  return a->dtype == b->dtype && tn__pass_same_shape(a, b) && tn__held_equal(a->held, b->held);
}

bool tn__pass_is_unit(const tn__expr *dim) { return tn__ir_is_int_value(dim, 1); }

int64_t tn__pass_element_total(const tn__value *value) {
  int64_t total = 1;
  for (int i = 0; i < value->rank; i++) {
    int64_t size = tn__g_dim_const(value, i);
    if (size < 0 || __builtin_mul_overflow(total, size, &total) || total > INT64_C(1) << 62) return -1;
  }
  return total;
}

bool tn__pass_splat_element(const tn__value *value, const void **element) {
  while (value->data == NULL) {
    const tn__node *node = value->producer;
    if (node == NULL || node->input_count != 1 || !tn__op_has(node, TN__FACT_REARRANGES)) return false;
    value = node->inputs[0];
  }
  if (!value->splat && tn__pass_element_total(value) != 1) return false;
  *element = value->data;
  return true;
}

bool tn__pass_splat_number(const tn__value *value, double *number) {
  const void *element;
  if (!tn__pass_splat_element(value, &element)) return false;
  *number = tn__load_f64(value->dtype, element, 0);
  return true;
}

TN_MUST_USE static bool precomputable(const tn__value *value, int *budget) {
  if (value == NULL || value->data != NULL) return true;
  const tn__node *node = value->producer;
  if (node == NULL || node->op->lowering != TN__LOWER_DECLARE || --*budget < 0) return false;
  if (tn__pass_element_total(value) < 0) return false;
  for (int i = 0; i < node->input_count; i++)
    if (!precomputable(node->inputs[i], budget)) return false;
  return true;
}

bool tn__pass_is_precomputable(const tn__value *value) {
  int budget = 48;
  return precomputable(value, &budget);
}

tn__value *tn__pass_along(tn__graph *graph, tn__value *value, int axis) {
  const tn__expr *size = axis < 0 ? NULL : value->dims[axis];
  const void *element;
  if (tn__pass_splat_element(value, &element)) return tn__g_constant_value(graph, value->dtype, 0, NULL, element, true);
  const tn__node *broadcast = tn__pass_producer_of(value, "broadcast_in_dim");
  tn__value *source = broadcast == NULL ? value : broadcast->inputs[0];
  bool varies = false;
  for (int i = 0; i < source->rank; i++) {
    if (tn__pass_is_unit(source->dims[i])) continue;
    int64_t at = broadcast == NULL ? i : tn__node_attr(broadcast, "axes")->ints[i];
    if (at != axis || source->dims[i] != size) return NULL;
    varies = true;
  }
  return tn__g_reshape(graph, source, varies ? 1 : 0, &size);
}

/* ---- permutations ------------------------------------------------------------------------------- */

bool tn__pass_is_identity(const int64_t *permutation, int rank) {
  for (int i = 0; i < rank; i++)
    if (permutation[i] != i) return false;
  return true;
}

void tn__pass_inverse(const int64_t *permutation, int rank, int64_t *out) {
  for (int i = 0; i < rank; i++) out[permutation[i]] = i;
}

void tn__pass_compose(const int64_t *first, const int64_t *second, int rank, int64_t *out) {
  for (int i = 0; i < rank; i++) out[i] = first[second[i]];
}

static bool moves_units_only(const tn__value *value, const int64_t *permutation) {
  int64_t last = -1;
  for (int i = 0; i < value->rank; i++) {
    if (tn__pass_is_unit(value->dims[permutation[i]])) continue;
    if (permutation[i] < last) return false;
    last = permutation[i];
  }
  return true;
}

tn__value *tn__pass_permuted(tn__graph *graph, tn__value *value, const int64_t *permutation) {
  if (tn__pass_is_identity(permutation, value->rank)) return value;
  const tn__expr *dims[TN__MAX_RANK];
  int64_t shape[TN__MAX_RANK], moved[TN__MAX_RANK];
  if (tn__pass_is_constant(value) && value->splat && tn__g_shape_const(value, shape)) {
    for (int i = 0; i < value->rank; i++) moved[i] = shape[permutation[i]];
    return tn__g_constant_value(graph, value->dtype, value->rank, moved, value->data, true);
  }
  for (int i = 0; i < value->rank; i++) dims[i] = value->dims[permutation[i]];
  if (moves_units_only(value, permutation)) return tn__g_reshape(graph, value, value->rank, dims);
  return tn__g_transpose(graph, value, permutation);
}

tn__value *tn__pass_permuted_broadcast(tn__graph *graph, const tn__node *broadcast, const int64_t *permutation) {
  const tn__value *wide = broadcast->outputs[0];
  tn__value *source = broadcast->inputs[0];
  const int64_t *axes = tn__node_attr(broadcast, "axes")->ints;
  int64_t place[TN__MAX_RANK], order[TN__MAX_RANK], sorted[TN__MAX_RANK];
  const tn__expr *dims[TN__MAX_RANK];
  tn__pass_inverse(permutation, wide->rank, place);
  for (int i = 0; i < wide->rank; i++) dims[i] = wide->dims[permutation[i]];
  for (int i = 0; i < source->rank;
       i++) { /* axes must count up: insertion sort of the source's dimensions by their places */
    int k = i;
    for (; k > 0 && sorted[k - 1] > place[axes[i]]; k--) {
      sorted[k] = sorted[k - 1];
      order[k] = order[k - 1];
    }
    sorted[k] = place[axes[i]];
    order[k] = i;
  }
  return tn__g_broadcast_in_dim(graph, tn__pass_permuted(graph, source, order), wide->rank, dims, sorted);
}

tn__value *tn__pass_relayout(tn__graph *graph, tn__value *value, const tn__layout *layout) {
  tn__value *stored = tn__g_relayout(graph, value, layout);
  if (!value->splat) return stored;
  size_t size = tn__dtype_stored(value->dtype), whole = tn__dtype_stored(stored->dtype);
  char *element = tn__arena_alloc(tn__graph_arena(graph), whole);
  for (size_t at = 0; at < whole; at += size) tn__copy(element + at, value->data, size);
  stored->producer->dead = true;
  return tn__g_constant_like(graph, stored, element, true);
}

tn__value *tn__pass_node_again(tn__graph *graph, const tn__node *node, tn__value *const *inputs,
                               const tn__attr *changed, int count) {
  tn__attr *attrs = TN__NEW_ARRAY(tn__graph_arena(graph), node->attr_count, tn__attr);
  for (int i = 0; i < node->attr_count; i++) {
    attrs[i] = node->attrs[i];
    for (int j = 0; j < count; j++)
      if (strcmp(attrs[i].name, changed[j].name) == 0) attrs[i] = changed[j];
  }
  return tn__node_create(graph, node->op, inputs, node->input_count, attrs, node->attr_count, NULL, 0)->outputs[0];
}

/* ---- the engine --------------------------------------------------------------------------------- */

static int *uses_slot(tn__rewriter *rewriter, const tn__value *value) {
  while (rewriter->uses.count <= (int)value->id) tn__vec_push(tn__graph_arena(rewriter->graph), &rewriter->uses, 0);
  return &rewriter->uses.data[value->id];
}

int tn__pass_uses_of(tn__rewriter *rewriter, const tn__value *value) { return *uses_slot(rewriter, value); }

static void count_all(tn__rewriter *rewriter) {
  int count = 0;
  int *uses = tn__graph_use_counts(rewriter->graph, &count);
  rewriter->uses.data = uses;
  rewriter->uses.count = rewriter->uses.capacity = count;
  rewriter->counted = tn__graph_node_count(rewriter->graph);
  rewriter->counted_symbols = tn__graph_symbol_count(rewriter->graph);
}

void tn__rewriter_init(tn__rewriter *rewriter, tn__graph *graph, const tn__optimize_options *options) {
  *rewriter = (tn__rewriter){.graph = graph, .options = options};
  count_all(rewriter);
}

static void count_new_uses(tn__rewriter *rewriter) {
  for (; rewriter->counted < tn__graph_node_count(rewriter->graph); rewriter->counted++) {
    const tn__node *node = tn__graph_node_at(rewriter->graph, rewriter->counted);
    for (int i = 0; !node->dead && i < node->input_count; i++)
      if (node->inputs[i] != NULL) ++*uses_slot(rewriter, node->inputs[i]);
  }
  for (; rewriter->counted_symbols < tn__graph_symbol_count(rewriter->graph); rewriter->counted_symbols++)
    ++*uses_slot(rewriter, tn__graph_symbol_at(rewriter->graph, rewriter->counted_symbols)->value);
}

static bool is_unused(tn__rewriter *rewriter, const tn__node *node) {
  for (int i = 0; i < node->output_count; i++)
    if (tn__pass_uses_of(rewriter, node->outputs[i]) > 0) return false;
  return true;
}

/* Marks the node dead, and with it all that only it has read. */
static void remove_node(tn__rewriter *rewriter, tn__node *node) {
  tn__arena *arena = tn__graph_arena(rewriter->graph);
  TN__VEC(tn__node *) stack = {0};
  tn__vec_push(arena, &stack, node);
  while (stack.count > 0) {
    tn__node *dead = stack.data[--stack.count];
    if (dead->dead) continue;
    dead->dead = true;
    for (int i = 0; i < dead->input_count; i++) {
      if (dead->inputs[i] == NULL) continue;
      --*uses_slot(rewriter, dead->inputs[i]);
      tn__node *producer = dead->inputs[i]->producer;
      if (producer != NULL && is_unused(rewriter, producer)) tn__vec_push(arena, &stack, producer);
    }
  }
}

/* Planned for two memories of a device, two values stay two: then it is a copy that takes the place. */
static tn__value *in_memory_of(tn__rewriter *rewriter, const tn__value *from, tn__value *to) {
  tn__graph *graph = rewriter->graph;
  if (from->device == NULL || to->device == NULL || from->device == to->device || to->data != NULL) return to;
  TN__INVARIANT(from->place != NULL); /* not all is in one place, so the graph says where what is */
  tn__attr attr = tn__attr_string(graph, "to", from->place);
  return tn__node_create(graph, tn__op_find("device_copy"), &to, 1, &attr, 1, NULL, 0)->outputs[0];
}

void tn__pass_put_in_place(tn__rewriter *rewriter, tn__value *from, tn__value *to) {
  if (from != to) to = in_memory_of(rewriter, from, to);
  count_new_uses(rewriter);
  if (from == to) return;
  tn__graph_replace_uses(rewriter->graph, from, to);
  int moved = tn__pass_uses_of(rewriter, from);
  *uses_slot(rewriter, from) = 0;
  *uses_slot(rewriter, to) += moved;
  if (from->producer != NULL && is_unused(rewriter, from->producer)) remove_node(rewriter, from->producer);
}

void tn__pass_visit(tn__graph *graph, void (*visit)(void *user, tn__node *node), void *user) {
  const char *origin = tn__graph_origin(graph);
  int count = tn__graph_node_count(graph);
  for (int i = 0; i < count; i++) {
    tn__node *node = tn__graph_node_at(graph, i);
    tn__graph_set_origin(graph, node->origin);
    if (!node->dead) visit(user, node);
  }
  tn__graph_set_origin(graph, origin);
}

typedef struct replacing {
  tn__rewriter rewriter;
  tn__rule_fn *make;
} replacing;

static void replace(void *user, tn__node *node) {
  replacing *r = user;
  tn__value *value = r->make(&r->rewriter, node);
  if (value != NULL) tn__pass_put_in_place(&r->rewriter, node->outputs[0], value);
}

void tn__pass_replace(tn__graph *graph, const tn__optimize_options *options, tn__rule_fn *make) {
  replacing r = {.make = make};
  tn__rewriter_init(&r.rewriter, graph, options);
  tn__pass_visit(graph, replace, &r);
  tn__graph_sweep(graph);
}

/* What a rule has made before it found that it does not fit. */
static void drop_attempt(tn__rewriter *rewriter) {
  for (int i = rewriter->counted; i < tn__graph_node_count(rewriter->graph); i++)
    tn__graph_node_at(rewriter->graph, i)->dead = true;
}

static bool apply_rules(tn__rewriter *rewriter, tn__node *node, const tn__rule_set *sets, int count) {
  for (int s = 0; s < count; s++)
    for (int r = 0; r < sets[s].count; r++) {
      const tn__rewrite_rule *rule = &sets[s].rules[r];
      bool looks = rule->op == NULL ? node->op->op_class == TN__CLASS_ELEMENTWISE : tn__g_is_op(node, rule->op);
      if (!looks) continue;
      tn__value *value = rule->apply(rewriter, node);
      if (value == NULL || value == node->outputs[0]) {
        drop_attempt(rewriter);
        continue;
      }
      tn__pass_put_in_place(rewriter, node->outputs[0], value);
      const tn__optimize_options *options = rewriter->options;
      if (options->fired != NULL) options->fired(options->fired_user, rule->name);
      return true;
    }
  return false;
}

/* Every rule makes the graph smaller or moves it towards one form, so few rounds are needed; the bound is a guard
 * against a pair of rules that undo each other. */
enum { MAX_ROUNDS = 32 };

void tn__pass_rewrite(tn__rewriter *rewriter, const tn__rule_set *sets, int count) {
  tn__graph *graph = rewriter->graph;
  const char *origin = tn__graph_origin(graph);
  bool changed = true;
  for (int round = 0; changed && round < MAX_ROUNDS; round++) {
    changed = false;
    for (int i = 0; i < tn__graph_node_count(graph); i++) {
      tn__node *node = tn__graph_node_at(graph, i);
      if (node->dead || node->output_count != 1) continue;
      if (is_unused(rewriter, node)) {
        remove_node(rewriter, node);
        continue;
      }
      tn__graph_set_origin(graph, node->origin);
      if (apply_rules(rewriter, node, sets, count)) changed = true;
    }
    tn__graph_sweep(graph);
    count_all(rewriter);
  }
  tn__graph_set_origin(graph, origin);
}
