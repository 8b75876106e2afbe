/* Where values are in memory. Every value gets a root: the value whose memory it shares through views. A root's storage
 * is decided once: the caller's buffer, a constant, a place in the arena, or memory allocated when its size is
 * known. */
#include <string.h>

#include "base/copy.h"
#include "base/invariant.h"
#include "program/builder.h"

static const tn__expr *bytes_of(tn__builder *b, const tn__value *v) {
  const tn__expr *bytes = tn__ir_index(b->ir, (int64_t)tn__dtype_stored(v->dtype));
  for (int i = 0; i < v->rank; i++) bytes = tn__ir_mul(b->ir, bytes, v->dims[i]);
  return bytes;
}

/* Strings of a constant become references to those of the file. */
static const void *string_references(tn__builder *b, const void *texts, int64_t count) {
  const tn__text *const *given = texts;
  uint64_t *references = TN__NEW_ARRAY(b->arena, count, uint64_t);
  for (int64_t i = 0; i < count; i++)
    if (given[i]) references[i] = tn__exe_string(b->exe, given[i]->bytes, (size_t)given[i]->length);
  return references;
}

int tn__prog_constant(tn__builder *b, const tn__value *v, int device) {
  int64_t shape[TN_MAX_RANK], count = 1;
  bool known = tn__g_shape_const(v, shape);
  TN__INVARIANT(known); /* constants always have known sizes */
  for (int d = 0; d < v->rank; d++) count *= shape[d];
  size_t element = tn__dtype_stored(v->dtype), size = (size_t)count * element;
  const void *data = v->data;
  if (v->splat) {
    char *all = tn__arena_alloc(b->arena, size);
    for (int64_t e = 0; e < count; e++) tn__copy(all + (size_t)e * element, v->data, element);
    data = all;
  }
  if (v->dtype == TN_STRING) data = string_references(b, data, count);
  return tn__exe_constant_on(b->exe, device, v->name, v->dtype, v->rank, shape, data, size);
}

void tn__place_constants(tn__builder *b) {
  for (int i = 0; i < b->value_count; i++) {
    tn__place *p = &b->places[i];
    if (!p->value || !p->value->data || p->root != i) continue;
    p->kind = TN__PLACE_CONSTANT;
    p->readonly = true;
    p->index = tn__prog_constant(b, p->value, tn__prog_device_of(b, p->value));
    p->reg = tn__builder_register(b, p->value, TN__STORAGE_CONSTANT, p->index, tn__prog_operand_const(0));
  }
}

/* Does a product in the group read what the group itself computes? Then it may see rows that were written over
 * already. */
static bool feeds_a_contraction(const tn__group *g) {
  for (int i = 0; i < g->node_count; i++) {
    const tn__node *n = g->nodes[i];
    for (int j = 0; n->op->op_class == TN__CLASS_CONTRACTION && j < n->input_count; j++)
      for (int k = 0; k < i; k++)
        if (g->nodes[k] == n->inputs[j]->producer && !tn__op_has(g->nodes[k], TN__FACT_REPEATS)) return true;
  }
  return false;
}

static bool is_map_only(const tn__group *g) {
  for (int i = 0; i < g->node_count; i++) {
    const tn__node *n = g->nodes[i];
    bool map = n->op->op_class == TN__CLASS_ELEMENTWISE || n->op->op_class == TN__CLASS_CONTRACTION ||
               tn__op_has(n, TN__FACT_REPEATS);
    if (!map) return false;
  }
  return g->output_count == 1 && !feeds_a_contraction(g);
}

/* Do the elements of `v` lie where those of `out` do, and is each read at the place that it is for alone? */
static bool is_read_elementwise(const tn__unit *u, const tn__value *v, const tn__value *out) {
  if (v->rank != out->rank || tn__dtype_stored(v->dtype) != tn__dtype_stored(out->dtype)) return false;
  for (int i = 0; i < v->rank; i++)
    if (v->dims[i] != out->dims[i]) return false;
  for (int i = 0; i < u->group->node_count; i++) {
    const tn__node *n = u->group->nodes[i];
    for (int j = 0; j < n->input_count; j++)
      if (n->inputs[j] == v && n->op->op_class != TN__CLASS_ELEMENTWISE) return false;
  }
  return true;
}

/* Is the memory of `v` read by every node of the group element by element, at the place that it writes? It may be read
 * as a view of `v`, or as what another CPU has of it. */
static bool reads_elementwise(tn__builder *b, const tn__unit *u, tn__value *v) {
  const tn__place *root = tn__prog_root_of(b, v);
  bool elementwise = is_read_elementwise(u, v, u->outputs[0]);
  for (int i = 0; i < u->input_count && elementwise; i++)
    if (tn__prog_root_of(b, u->inputs[i]) == root) elementwise = is_read_elementwise(u, u->inputs[i], u->outputs[0]);
  return elementwise;
}

/* Does the step write each element of `out` after it has read that of `v`, and nothing else of `v`? */
static bool reads_before_writing(tn__builder *b, const tn__step *s, tn__value *v, const tn__value *out) {
  if (!s->unit) return false;
  if (out->producer && tn__node_int(out->producer, "in_place", 0) &&
      tn__prog_root_of(b, out->producer->inputs[0]) == tn__prog_root_of(b, v))
    return true;
  return is_map_only(s->group) && s->outputs[0] == out && reads_elementwise(b, s->unit, v);
}

/* May the output, which is the root's memory, be the buffer of the input that it aliases, from the step on that writes
 * it? */
static bool may_alias(tn__builder *b, int output, const tn__place *root) {
  const tn__program_function *p = b->function;
  if (!p->aliases || p->aliases[output] < 0) return true;
  tn__value *input = p->inputs[p->aliases[output]];
  int last = tn__prog_root_of(b, input)->last;
  return last < root->first || (last == root->first && reads_before_writing(b, &b->steps[last], input, root->value));
}

/* Does `e` hold nothing that is known only when the step, or one behind it, has run? */
static bool known_before(tn__builder *b, const tn__expr *e, int step) {
  for (int i = 0; e->kind == TN__EXPR_VAR && i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (symbol->var == e->value.var) return tn__prog_root_of(b, symbol->value)->first < step;
  }
  for (int i = 0; e->kind != TN__EXPR_VAR && i < e->arg_count; i++)
    if (!known_before(b, e->args[i], step)) return false;
  return true;
}

/* A view of the root has its elements in another shape, which the caller's buffer must have when they are written. */
static bool shape_comes_late(tn__builder *b, const tn__value *output, const tn__place *root) {
  for (int d = 0; output != root->value && d < output->rank; d++)
    if (!known_before(b, output->dims[d], root->first)) return true;
  return false;
}

/* The caller's buffers take the roots they can: written by a step, and by shape the same amount of memory. What a node
 * makes in a size that only running it tells must be the output itself, in its shape. */
void tn__place_outputs(tn__builder *b, bool *direct) {
  const tn__program_function *p = b->function;
  for (int i = 0; i < p->output_count; i++) {
    tn__place *root = tn__prog_root_of(b, p->outputs[i]);
    if (root->kind != TN__PLACE_NONE || root->first < 0) continue;
    if (tn__prog_device_of(b, root->value) != tn__prog_given_device(b, true, i)) continue;
    const tn__node *node = b->steps[root->first].node;
    if (node && (tn__prog_needs_own_memory(node) || (!root->early && root->value != p->outputs[i]))) continue;
    if (!may_alias(b, i, root) || shape_comes_late(b, p->outputs[i], root)) continue;
    root->kind = TN__PLACE_OUTPUT;
    root->index = i;
    direct[i] = true;
  }
}

/* May the step write its result over `v`? */
static bool can_overwrite(tn__builder *b, int at, const tn__unit *u, tn__value *v) {
  tn__place *root = tn__prog_root_of(b, v);
  if (root->readonly || root->kind != TN__PLACE_STATIC || root->last != at || root->value != v) return false;
  return reads_elementwise(b, u, v);
}

/* Values of constant size: lifetimes become plan items; a map's result may take over its dying operand's item. */
static void place_static(tn__builder *b, tn__place *p) {
  const tn__step *s = &b->steps[p->first];
  int64_t bytes = tn__ir_int_or(bytes_of(b, p->value), 0);
  b->stats.unplanned_bytes += bytes;
  p->kind = TN__PLACE_STATIC;
  if (s->unit && is_map_only(s->group)) {
    for (int i = 0; i < s->unit->input_count; i++) {
      tn__value *v = s->unit->inputs[i];
      if (!can_overwrite(b, p->first, s->unit, v) || tn__prog_device_of(b, v) != tn__prog_device_of(b, p->value))
        continue;
      p->index = tn__prog_root_of(b, v)->index;
      b->items.data[p->index].last = p->last;
      tn__prog_root_of(b, v)->kind = TN__PLACE_STATIC;
      b->stats.in_place++;
      return;
    }
  }
  tn__plan_item item = {.bytes = bytes, .first = p->first, .last = p->last, .device = tn__prog_device_of(b, p->value)};
  tn__vec_push(b->arena, &b->items, item);
  p->index = b->items.count - 1;
}

static int take_slot(tn__builder *b, const tn__expr *bytes, int device, int first, int last) {
  for (int i = 0; i < b->slots.count; i++) {
    tn__slot *s = &b->slots.data[i];
    if (s->bytes != bytes || s->device != device || s->busy_until >= first) continue;
    s->busy_until = last;
    return i;
  }
  tn__slot s = {.bytes = bytes, .busy_until = last, .device = device, .reg = -1};
  tn__vec_push(b->arena, &b->slots, s);
  return b->slots.count - 1;
}

void tn__place_memory(tn__builder *b) {
  for (int at = 0; at < b->step_count; at++) {
    const tn__step *s = &b->steps[at];
    const tn__unit *u = s->unit;
    for (int i = 0; i < s->output_count; i++) {
      tn__place *p = tn__prog_root_of(b, s->outputs[i]);
      if (p->kind != TN__PLACE_NONE) continue;
      const tn__expr *bytes = bytes_of(b, p->value);
      bool own = s->node && (tn__prog_needs_own_memory(s->node) || p->value->holds != TN__HOLDS_TENSOR);
      if (own || !p->early) { /* nothing is known early of a shape because it has no elements */
        p->kind = TN__PLACE_DYNAMIC;
      } else if (tn__ir_is_int(bytes)) {
        place_static(b, p);
      } else {
        p->kind = TN__PLACE_SLOT;
        p->index = take_slot(b, bytes, tn__prog_device_of(b, p->value), p->first, p->last);
      }
    }
    if (u && u->workspace_bytes > 0 && !u->workspace_expr) {
      tn__plan_item item = {.bytes = u->workspace_bytes,
                            .first = at,
                            .last = at,
                            .device = tn__exe_device_home(b->exe, tn__prog_device_of(b, u->outputs[0]))};
      tn__vec_push(b->arena, &b->items, item);
      b->steps[at].workspace_item = b->items.count - 1;
    }
  }
}

/* What the symbols of inputs that grow are when their outputs are full. */
void tn__prog_find_full_sizes(tn__builder *b) {
  const tn__program_function *f = b->function;
  b->growing = TN__NEW_ARRAY(b->arena, f->output_count, tn__growing);
  b->growing_count = 0;
  for (int i = 0; f->extents && i < f->output_count; i++) {
    tn__extent out = f->extents[i];
    const tn__value *input = out.valid && f->aliases && f->aliases[i] >= 0 ? f->inputs[f->aliases[i]] : NULL;
    if (!input || !input->extent.valid || input->extent.valid->kind != TN__EXPR_VAR) continue;
    const tn__expr *past = input->extent.valid, *fresh = tn__ir_sub(b->ir, out.valid, past);
    bool known = false;
    for (int j = 0; j < b->growing_count; j++) known = known || b->growing[j].var == past->value.var;
    if (known) continue;
    b->growing[b->growing_count++] =
        (tn__growing){past->value.var, tn__ir_sub(b->ir, input->dims[input->extent.axis], fresh)};
  }
}

/* The arena when every buffer that grows is full, as far as that is a reasonable size: so that a loop which fills them
 * step by step allocates in its first step alone. */
static const tn__expr *arena_at_capacity(tn__builder *b, const tn__expr *bytes) {
  const tn__expr *full = bytes;
  for (int i = 0; i < b->growing_count; i++)
    full = tn__ir_substitute(b->ir, full, &b->growing[i].var, &b->growing[i].full, 1);
  return tn__ir_max(b->ir, bytes, tn__ir_min(b->ir, full, tn__ir_index(b->ir, TN__MOST_BYTES_AHEAD)));
}

/* Offsets of slots follow the static part, rounded up to 64 bytes each; computed by the prologue. */
static void emit_arena_of(tn__builder *b, int device) {
  int64_t bytes = tn__prog_plan_memory(b->arena, b->items.data, b->items.count, device);
  b->stats.arena_bytes += bytes;
  const tn__expr *at = tn__ir_index(b->ir, bytes);
  for (int i = 0; i < b->slots.count; i++) {
    tn__slot *s = &b->slots.data[i];
    if (s->device != device) continue;
    s->reg = tn__scalars_register(&b->scalars, at);
    at = tn__ir_add(b->ir, at, tn__ir_mul_i(b->ir, tn__ir_div_i(b->ir, tn__ir_add_i(b->ir, s->bytes, 63), 64), 64));
  }
  if (b->growing_count > 0) at = arena_at_capacity(b, at);
  tn__exe_arena_on(b->func, device, tn__scalars_operand(&b->scalars, at));
}

void tn__prog_emit_arena(tn__builder *b) {
  int last = 0;
  for (int i = 0; i < b->items.count; i++) last = b->items.data[i].device > last ? b->items.data[i].device : last;
  for (int i = 0; i < b->slots.count; i++) last = b->slots.data[i].device > last ? b->slots.data[i].device : last;
  for (int device = 0; device <= last; device++) emit_arena_of(b, device);
}
