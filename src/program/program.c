/* Builds the VM function of a compiled graph.
 *
 * Steps are the groups that have kernels, in order. Every value gets a root: the value whose memory it shares through
 * views. A root's storage is decided once: the caller's buffer, a constant, a place in the arena, or memory allocated
 * when its size is known. */
#include "program/builder.h"

#include <string.h>

enum { MOST_BYTES_AHEAD = 64 << 20 }; /* of the arena for sizes that are still to come */

/* ---- values and steps -------------------------------------------------------------------------------------------- */

tn__place *tn__place_of(tn__builder *b, tn__value *v) {
  tn__place *p = &b->places[v->id];
  if (!p->value) *p = (tn__place){.value = v, .root = (int)v->id, .first = -1, .last = -1, .reg = -1};
  return p;
}

tn__place *tn__root_of(tn__builder *b, tn__value *v) {
  tn__place *p = tn__place_of(b, v);
  while (p->root != (int)p->value->id) p = &b->places[p->root];
  return p;
}

static void use_value(tn__builder *b, tn__value *v, int at) {
  tn__place *root = tn__root_of(b, v);
  if (root->last < at) root->last = at;
}

static void add_step(tn__builder *b, const tn__group *g, int unit) {
  tn__step *s = &b->steps[b->step_count];
  *s = (tn__step){.group = g, .workspace_item = -1};
  if (unit >= 0) {
    const tn__unit *u = s->unit = &b->program->units[unit];
    s->inputs = u->inputs, s->input_count = u->input_count;
    s->outputs = u->outputs, s->output_count = u->output_count;
  } else {
    const tn__node *n = s->node = g->nodes[0];
    s->inputs = n->inputs, s->input_count = n->input_count;
    s->outputs = n->outputs, s->output_count = n->output_count;
    tn__share_kept(b, n);
  }
  for (int j = 0; j < s->input_count; j++)
    if (s->inputs[j] != NULL) use_value(b, s->inputs[j], b->step_count);
  for (int j = 0; j < s->output_count; j++) {
    tn__place *out = tn__root_of(b, s->outputs[j]);
    if (out->value == s->outputs[j]) out->first = b->step_count; /* else a loop variable that is its operand */
    use_value(b, s->outputs[j], b->step_count);
  }
  b->step_count++;
}

static void collect_steps(tn__builder *b) {
  const tn__program_function *p = b->function;
  b->steps = TN__NEW_ARRAY(b->arena, p->groups->count, tn__step);
  for (int i = 0; i < p->groups->count; i++) {
    const tn__group *g = &p->groups->groups[i];
    if (!p->runs[i]) continue;
    if (g->view) {
      tn__place *view = tn__place_of(b, g->nodes[0]->outputs[0]);
      view->root = (int)tn__root_of(b, g->nodes[0]->inputs[0])->value->id;
      continue;
    }
    add_step(b, g, p->unit_of[i]);
  }
  const int end = b->step_count;
  for (int i = 0; i < p->output_count; i++) use_value(b, p->outputs[i], end);
  for (int i = 0; p->updates && i < p->input_count; i++)
    if (p->updates[i]) use_value(b, p->updates[i], end);
  for (int i = 0; i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (symbol->source == TN__SYMBOL_ELEMENT && b->places[symbol->value->id].value) use_value(b, symbol->value, end);
  }
}

/* ---- signature and symbols --------------------------------------------------------------------------------------- */

int tn__builder_register(tn__builder *b, const tn__value *v, tn__storage storage, int index, tn__operand offset) {
  if (v->holds != TN__HOLDS_TENSOR)
    return tn__exe_list(b->func, v->dtype, v->item_rank, (tn__container)v->holds, storage, index);
  tn__operand dims[TN_MAX_RANK];
  for (int i = 0; i < v->rank; i++) dims[i] = tn__scalars_operand(&b->scalars, v->dims[i]);
  return tn__exe_register(b->func, v->dtype, v->rank, dims, storage, index, offset);
}

/* Graph inputs: their symbolic dimensions are plain symbols (the importer makes them so) and bind the scalar
 * registers. */
static void declare_extent(tn__builder *b, const tn__value *v, int input) {
  const tn__expr *valid = v->extent.valid;
  if (!valid) return;
  if (valid->kind == TN__EXPR_VAR)
    tn__scalars_bind(&b->scalars, valid, tn__exe_symbol(b->func, valid->value.var->name));
  tn__exe_extent(b->func, false, input, v->extent.axis, tn__scalars_operand(&b->scalars, valid));
}

static void declare_inputs(tn__builder *b) {
  const tn__program_function *p = b->function;
  for (int i = 0; i < p->input_count; i++) {
    tn__value *v = p->inputs[i];
    tn__operand dims[TN_MAX_RANK] = {0};
    for (int d = 0; d < v->rank; d++) {
      const tn__expr *e = v->dims[d];
      if (e->kind == TN__EXPR_VAR) tn__scalars_bind(&b->scalars, e, tn__exe_symbol(b->func, e->value.var->name));
      dims[d] = tn__scalars_operand(&b->scalars, e);
    }
    tn__place *at = tn__place_of(b, v);
    at->kind = TN__PLACE_INPUT;
    at->readonly = true;
    if (v->holds != TN__HOLDS_TENSOR) {
      at->index = tn__exe_input(b->func, p->input_names[i], v->dtype, v->item_rank, dims);
      tn__exe_holds(b->func, false, at->index, (tn__container)v->holds);
      at->reg = tn__builder_register(b, v, TN__STORAGE_INPUT, at->index, tn__operand_const(0));
      continue;
    }
    at->index = tn__exe_input(b->func, p->input_names[i], v->dtype, v->rank, dims);
    at->reg = tn__exe_register(b->func, v->dtype, v->rank, dims, TN__STORAGE_INPUT, at->index, tn__operand_const(0));
    declare_extent(b, v, at->index);
    if (p->may_be_strided && p->may_be_strided[i]) tn__exe_strided(b->func, b->funcs[p->strided], at->index);
  }
}

static void load_symbol(tn__builder *b, const tn__symbol *symbol) {
  if (tn__scalars_knows(&b->scalars, symbol->var->self)) return;
  int reg = tn__exe_scalar(b->func);
  uint32_t words[] = {(uint32_t)reg, (uint32_t)b->places[symbol->value->id].reg, (uint32_t)symbol->index};
  tn__exe_emit(b->func, TN__OP_SCALAR_LOAD, words, 3);
  tn__scalars_bind(&b->scalars, symbol->var->self, reg);
}

bool tn__builder_knows(tn__builder *b, const tn__expr *e) {
  if (e->kind == TN__EXPR_VAR) return tn__scalars_knows(&b->scalars, e);
  for (int i = 0; i < e->arg_count; i++)
    if (!tn__builder_knows(b, e->args[i])) return false;
  return true;
}

static bool shape_known(tn__builder *b, const tn__value *v) {
  for (int i = 0; i < v->rank; i++)
    if (!tn__builder_knows(b, v->dims[i])) return false;
  return true;
}

static const tn__expr *bytes_of(tn__builder *b, const tn__value *v) {
  const tn__expr *bytes = tn__index(b->ir, (int64_t)tn__dtype_stored(v->dtype));
  for (int i = 0; i < v->rank; i++) bytes = tn__mul(b->ir, bytes, v->dims[i]);
  return bytes;
}

/* ---- storage ----------------------------------------------------------------------------------------------------- */

/* Strings of a constant become references to those of the file. */
static const void *string_references(tn__builder *b, const void *texts, int64_t count) {
  const tn__text *const *given = texts;
  uint64_t *references = TN__NEW_ARRAY(b->arena, count, uint64_t);
  for (int64_t i = 0; i < count; i++)
    if (given[i]) references[i] = tn__exe_string(b->exe, given[i]->bytes, (size_t)given[i]->length);
  return references;
}

static void place_constants(tn__builder *b) {
  for (int i = 0; i < b->value_count; i++) {
    tn__place *p = &b->places[i];
    if (!p->value || !p->value->data || p->root != i) continue;
    const tn__value *v = p->value;
    int64_t shape[TN_MAX_RANK], count = 1;
    tn__shape_const(v, shape);
    for (int d = 0; d < v->rank; d++) count *= shape[d];
    size_t element = tn__dtype_stored(v->dtype), size = (size_t)count * element;
    const void *data = v->data;
    if (v->splat) {
      char *all = tn__arena_alloc(b->arena, size);
      for (int64_t e = 0; e < count; e++) memcpy(all + (size_t)e * element, v->data, element);
      data = all;
    }
    if (v->dtype == TN_STRING) data = string_references(b, data, count);
    p->kind = TN__PLACE_CONSTANT;
    p->readonly = true;
    p->index = tn__exe_constant(b->exe, v->name, v->dtype, v->rank, shape, data, size);
    p->reg = tn__builder_register(b, p->value, TN__STORAGE_CONSTANT, p->index, tn__operand_const(0));
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

/* Is `v` read by every node of the group element by element, at the place that it writes? */
static bool reads_elementwise(const tn__unit *u, const tn__value *v) {
  const tn__value *out = u->outputs[0];
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

/* Does the step write each element of `out` after it has read that of `v`, and nothing else of `v`? */
static bool reads_before_writing(tn__builder *b, const tn__step *s, tn__value *v, const tn__value *out) {
  if (!s->unit) return false;
  if (out->producer && tn__node_int(out->producer, "in_place", 0) &&
      tn__root_of(b, out->producer->inputs[0]) == tn__root_of(b, v))
    return true;
  return is_map_only(s->group) && s->outputs[0] == out && reads_elementwise(s->unit, v);
}

/* May the output, which is the root's memory, be the buffer of the input that it aliases, from the step on that writes
 * it? */
static bool may_alias(tn__builder *b, int output, const tn__place *root) {
  const tn__program_function *p = b->function;
  if (!p->aliases || p->aliases[output] < 0) return true;
  tn__value *input = p->inputs[p->aliases[output]];
  int last = tn__root_of(b, input)->last;
  return last < root->first || (last == root->first && reads_before_writing(b, &b->steps[last], input, root->value));
}

/* Does `e` hold nothing that is known only when the step, or one behind it, has run? */
static bool known_before(tn__builder *b, const tn__expr *e, int step) {
  for (int i = 0; e->kind == TN__EXPR_VAR && i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (symbol->var == e->value.var) return tn__root_of(b, symbol->value)->first < step;
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
static void place_outputs(tn__builder *b, bool *direct) {
  const tn__program_function *p = b->function;
  for (int i = 0; i < p->output_count; i++) {
    tn__place *root = tn__root_of(b, p->outputs[i]);
    if (root->kind != TN__PLACE_NONE || root->first < 0) continue;
    const tn__node *node = b->steps[root->first].node;
    if (node && (tn__needs_own_memory(node) || (!root->early && root->value != p->outputs[i]))) continue;
    if (!may_alias(b, i, root) || shape_comes_late(b, p->outputs[i], root)) continue;
    root->kind = TN__PLACE_OUTPUT;
    root->index = i;
    direct[i] = true;
  }
}

/* May the step write its result over `v`? */
static bool can_overwrite(tn__builder *b, int at, const tn__unit *u, tn__value *v) {
  tn__place *root = tn__root_of(b, v);
  if (root->readonly || root->kind != TN__PLACE_STATIC || root->last != at || root->value != v) return false;
  return reads_elementwise(u, v);
}

/* Values of constant size: lifetimes become plan items; a map's result may take over its dying operand's item. */
static void place_static(tn__builder *b, tn__place *p) {
  const tn__step *s = &b->steps[p->first];
  int64_t bytes = 0;
  tn__as_int(bytes_of(b, p->value), &bytes);
  b->stats.unplanned_bytes += bytes;
  p->kind = TN__PLACE_STATIC;
  if (s->unit && is_map_only(s->group)) {
    for (int i = 0; i < s->unit->input_count; i++) {
      tn__value *v = s->unit->inputs[i];
      if (!can_overwrite(b, p->first, s->unit, v)) continue;
      p->index = tn__root_of(b, v)->index;
      b->items.data[p->index].last = p->last;
      tn__root_of(b, v)->kind = TN__PLACE_STATIC;
      b->stats.in_place++;
      return;
    }
  }
  tn__plan_item item = {.bytes = bytes, .first = p->first, .last = p->last};
  tn__vec_push(b->arena, &b->items, item);
  p->index = b->items.count - 1;
}

static int take_slot(tn__builder *b, const tn__expr *bytes, int first, int last) {
  for (int i = 0; i < b->slots.count; i++) {
    tn__slot *s = &b->slots.data[i];
    if (s->bytes != bytes || s->busy_until >= first) continue;
    s->busy_until = last;
    return i;
  }
  tn__slot s = {.bytes = bytes, .busy_until = last, .reg = -1};
  tn__vec_push(b->arena, &b->slots, s);
  return b->slots.count - 1;
}

static void place_memory(tn__builder *b) {
  for (int at = 0; at < b->step_count; at++) {
    const tn__step *s = &b->steps[at];
    const tn__unit *u = s->unit;
    for (int i = 0; i < s->output_count; i++) {
      tn__place *p = tn__root_of(b, s->outputs[i]);
      if (p->kind != TN__PLACE_NONE) continue;
      const tn__expr *bytes = bytes_of(b, p->value);
      bool own = s->node && (tn__needs_own_memory(s->node) || p->value->holds != TN__HOLDS_TENSOR);
      if (own || !p->early) { /* nothing is known early of a shape because it has no elements */
        p->kind = TN__PLACE_DYNAMIC;
      } else if (tn__is_int(bytes)) {
        place_static(b, p);
      } else {
        p->kind = TN__PLACE_SLOT;
        p->index = take_slot(b, bytes, p->first, p->last);
      }
    }
    if (u && u->workspace_bytes > 0 && !u->workspace_expr) {
      tn__plan_item item = {.bytes = u->workspace_bytes, .first = at, .last = at};
      tn__vec_push(b->arena, &b->items, item);
      b->steps[at].workspace_item = b->items.count - 1;
    }
  }
}

/* What the symbols of inputs that grow are when their outputs are full. */
static void find_full_sizes(tn__builder *b) {
  const tn__program_function *f = b->function;
  b->growing = TN__NEW_ARRAY(b->arena, f->output_count, tn__growing);
  b->growing_count = 0;
  for (int i = 0; f->extents && i < f->output_count; i++) {
    tn__extent out = f->extents[i];
    const tn__value *input = out.valid && f->aliases && f->aliases[i] >= 0 ? f->inputs[f->aliases[i]] : NULL;
    if (!input || !input->extent.valid || input->extent.valid->kind != TN__EXPR_VAR) continue;
    const tn__expr *past = input->extent.valid, *fresh = tn__sub(b->ir, out.valid, past);
    bool known = false;
    for (int j = 0; j < b->growing_count; j++) known = known || b->growing[j].var == past->value.var;
    if (known) continue;
    b->growing[b->growing_count++] =
        (tn__growing){past->value.var, tn__sub(b->ir, input->dims[input->extent.axis], fresh)};
  }
}

/* The arena when every buffer that grows is full, as far as that is a reasonable size: so that a loop which fills them
 * step by step allocates in its first step alone. */
static const tn__expr *arena_at_capacity(tn__builder *b, const tn__expr *bytes) {
  const tn__expr *full = bytes;
  for (int i = 0; i < b->growing_count; i++)
    full = tn__substitute(b->ir, full, &b->growing[i].var, &b->growing[i].full, 1);
  return tn__max(b->ir, bytes, tn__min(b->ir, full, tn__index(b->ir, MOST_BYTES_AHEAD)));
}

/* Offsets of slots follow the static part, rounded up to 64 bytes each; computed by the prologue. */
static void emit_arena(tn__builder *b) {
  b->static_bytes = tn__plan_memory(b->arena, b->items.data, b->items.count);
  b->stats.arena_bytes += b->static_bytes;
  const tn__expr *at = tn__index(b->ir, b->static_bytes);
  for (int i = 0; i < b->slots.count; i++) {
    tn__slot *s = &b->slots.data[i];
    s->reg = tn__scalars_register(&b->scalars, at);
    at = tn__add(b->ir, at, tn__mul_i(b->ir, tn__div_i(b->ir, tn__add_i(b->ir, s->bytes, 63), 64), 64));
  }
  if (b->growing_count > 0) at = arena_at_capacity(b, at);
  tn__exe_arena(b->func, tn__scalars_operand(&b->scalars, at));
}

int tn__register_of(tn__builder *b, tn__value *v) {
  tn__place *p = tn__place_of(b, v);
  if (p->reg >= 0) return p->reg;
  tn__place *root = tn__root_of(b, v);
  if (root != p) {
    int of = tn__register_of(b, root->value);
    bool list = v->holds != TN__HOLDS_TENSOR; /* there is one way to look at it */
    p->reg = list ? of : tn__builder_register(b, v, TN__STORAGE_VIEW, of, tn__operand_const(0));
    return p->reg;
  }
  switch (p->kind) {
    case TN__PLACE_STATIC:
      p->reg = tn__builder_register(b, v, TN__STORAGE_ARENA, 0, tn__operand_const(b->items.data[p->index].offset));
      break;
    case TN__PLACE_SLOT:
      p->reg = tn__builder_register(b, v, TN__STORAGE_ARENA, 0, tn__operand_scalar(b->slots.data[p->index].reg));
      break;
    case TN__PLACE_DYNAMIC: p->reg = tn__builder_register(b, v, TN__STORAGE_DYNAMIC, 0, tn__operand_const(0)); break;
    default: tn__throwf(b->arena->escape, TN_INTERNAL, "value \"%s\" has no storage", v->name);
  }
  return p->reg;
}

/* Elements of graph inputs and constants, and of views of them, are known from the start. */
static void load_given_elements(tn__builder *b) {
  for (int i = 0; i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (symbol->source != TN__SYMBOL_ELEMENT || !b->places[symbol->value->id].value) continue;
    tn__place_kind kind = tn__root_of(b, symbol->value)->kind;
    if (kind != TN__PLACE_INPUT && kind != TN__PLACE_CONSTANT) continue;
    tn__register_of(b, symbol->value);
    load_symbol(b, symbol);
  }
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

void tn__emit_word(tn__builder *b, tn__opcode op, int reg) {
  uint32_t word = (uint32_t)reg;
  tn__exe_emit(b->func, op, &word, 1);
}

/* Symbols read from a result become known after the step that makes it. */
static void load_elements(tn__builder *b, const tn__step *s) {
  for (int i = 0; i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (symbol->source != TN__SYMBOL_ELEMENT) continue;
    for (int o = 0; o < s->output_count; o++)
      if (tn__root_of(b, s->outputs[o]) == tn__root_of(b, symbol->value)) {
        tn__register_of(b, symbol->value);
        load_symbol(b, symbol);
      }
  }
}

/* A size as the machine will print it; as an expression when the condition does not tell all of its symbols. */
static void put_size(void *user, const tn__expr *size, tn__strbuf *out) {
  tn__builder *b = user;
  if (tn__builder_knows(b, size))
    tn__strbuf_printf(out, "%c%d%c", TN__SCALAR_MARK, tn__scalars_register(&b->scalars, size), TN__SCALAR_MARK);
  else
    tn__expr_print_short(size, out);
}

static const char *check_message(tn__builder *b, const tn__check_at_run *check) {
  tn__strbuf text;
  tn__strbuf_init(&text, b->arena->allocator);
  if (check->origin) tn__strbuf_printf(&text, "%s: ", check->origin);
  tn__graph_check_text(b->graph, check, put_size, b, &text);
  tn_status *failed = tn__strbuf_status(&text);
  const char *message = tn__arena_strdup(b->arena, tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  tn__check(b->arena->escape, failed);
  return message;
}

/* What shape inference assumed is checked as soon as the symbols are known, before a kernel relies on it. */
static void emit_checks(tn__builder *b) {
  const tn__graph *g = b->graph;
  for (int i = 0; i < tn__graph_check_count(g); i++) {
    const tn__check_at_run *check = tn__graph_check_at(g, i);
    if (b->checked[i] || !tn__builder_knows(b, check->condition)) continue;
    b->checked[i] = true;
    const char *message = check_message(b, check);
    tn__exe_emit_assert(b->func, tn__scalars_register(&b->scalars, check->condition), message);
  }
}

/* The program's output number whose buffer this root writes, made into a register once its dimensions are known. */
static int output_register(tn__builder *b, tn__place *root) {
  tn__value *out = b->function->outputs[root->index];
  if (out->holds != TN__HOLDS_TENSOR)
    return root->reg = tn__builder_register(b, out, TN__STORAGE_OUTPUT, root->index, tn__operand_const(0));
  tn__operand dims[TN_MAX_RANK];
  for (int i = 0; i < out->rank; i++) dims[i] = tn__scalars_operand(&b->scalars, out->dims[i]);
  int index = root->index;
  tn__place *at = tn__place_of(b, out);
  at->reg = tn__exe_register(b->func, out->dtype, out->rank, dims, TN__STORAGE_OUTPUT, index, tn__operand_const(0));
  if (at != root) root->reg = tn__builder_register(b, root->value, TN__STORAGE_VIEW, at->reg, tn__operand_const(0));
  return at->reg;
}

/* The workspace's size is over the dimensions of the kernel's own declaration, which units of equal code share: what is
 * known of them here holds for this call only. */
static tn__operand workspace_with(tn__builder *b, const tn__unit *u, bool full) {
  tn__scalars of_call;
  tn__scalars_init(&of_call, b->arena, b->func);
  for (int i = 0; i < u->scalar_count; i++) {
    const tn__expr *size = u->scalars[i]->self;
    for (int j = 0; full && j < b->growing_count; j++)
      if (b->growing[j].var == u->scalars[i]) size = b->growing[j].full;
    tn__scalars_bind(&of_call, u->workspace_dims[i]->self, tn__scalars_register(&b->scalars, size));
  }
  return tn__scalars_operand(&of_call, u->workspace_expr);
}

/* As arena_at_capacity does. */
static tn__operand symbolic_workspace(tn__builder *b, const tn__unit *u) {
  tn__operand bytes = workspace_with(b, u, false);
  if (b->growing_count == 0 || !bytes.symbolic) return bytes;
  tn__operand full = workspace_with(b, u, true);
  int most = tn__exe_emit_const(b->func, MOST_BYTES_AHEAD);
  int all = full.symbolic ? (int)full.value : tn__exe_emit_const(b->func, full.value);
  int ahead = tn__exe_emit_scalar_op(b->func, TN__SCALAR_MIN, all, most);
  return tn__operand_scalar(tn__exe_emit_scalar_op(b->func, TN__SCALAR_MAX, (int)bytes.value, ahead));
}

static int workspace_register(tn__builder *b, const tn__step *s) {
  const tn__unit *u = s->unit;
  if (u->workspace_expr) {
    tn__operand bytes = symbolic_workspace(b, u);
    int reg = tn__exe_register(b->func, TN_U8, 1, &bytes, TN__STORAGE_DYNAMIC, 0, tn__operand_const(0));
    tn__emit_word(b, TN__OP_ALLOC, reg);
    return reg;
  }
  tn__operand bytes = tn__operand_const(u->workspace_bytes);
  tn__operand offset = tn__operand_const(b->items.data[s->workspace_item].offset);
  return tn__exe_register(b->func, TN_U8, 1, &bytes, TN__STORAGE_ARENA, 0, offset);
}

/* The nodes of the model that a group is made of, each once: `node "a" (Conv, opset 22), node "b" (Relu, opset 22)`. */
static const char *group_origin(tn__arena *arena, const tn__group *g) {
  enum { MOST = 6 };
  const char *text = NULL;
  int told = 0, more = 0;
  for (int i = 0; i < g->node_count; i++) {
    const char *origin = g->nodes[i]->origin;
    bool known = !origin;
    for (int j = 0; j < i && !known; j++) known = g->nodes[j]->origin && strcmp(g->nodes[j]->origin, origin) == 0;
    if (known) continue;
    if (told++ < MOST)
      text = text ? tn__arena_printf(arena, "%s, %s", text, origin) : origin;
    else
      more++;
  }
  return more ? tn__arena_printf(arena, "%s and %d more", text, more) : text;
}

int tn__destination_of(tn__builder *b, tn__value *v, bool allocate) {
  tn__place *root = tn__root_of(b, v);
  bool tensor = v->holds == TN__HOLDS_TENSOR;
  if (root->reg < 0 && root->kind == TN__PLACE_OUTPUT) {
    int reg = output_register(b, root);
    if (!root->early && allocate && tensor) tn__emit_word(b, TN__OP_ALLOC, reg);
  } else if (root->reg < 0 && root->kind == TN__PLACE_DYNAMIC) {
    int reg = tn__register_of(b, root->value);
    if (allocate && tensor) tn__emit_word(b, TN__OP_ALLOC, reg);
  }
  return tn__register_of(b, v);
}

static void emit_copy(tn__builder *b, int to, int from) {
  uint32_t words[] = {(uint32_t)to, (uint32_t)from};
  tn__exe_emit(b->func, TN__OP_COPY, words, 2);
}

/* A scatter in place finds its operand in its result: nothing moves when the caller bound both to one buffer. */
static void prepare_in_place(tn__builder *b, const tn__value *v, int reg) {
  if (v->producer && tn__node_int(v->producer, "in_place", 0))
    emit_copy(b, reg, tn__register_of(b, v->producer->inputs[0]));
}

static void emit_kernel(tn__builder *b, const tn__step *s) {
  const tn__unit *u = s->unit;
  int *reads = TN__NEW_ARRAY(b->arena, u->input_count, int);
  int scalar_count = u->scalar_count + u->native_scalar_count; /* it has one kind of them or the other */
  int *scalars = TN__NEW_ARRAY(b->arena, scalar_count, int);
  int *writes = TN__NEW_ARRAY(b->arena, u->output_count + 1, int), write_count = 0; /* the last may be the workspace */
  for (int i = 0; i < u->native_scalar_count; i++) scalars[i] = tn__exe_emit_const(b->func, u->native_scalars[i]);
  for (int i = 0; i < u->scalar_count; i++) scalars[i] = tn__scalars_register(&b->scalars, u->scalars[i]->self);
  for (int i = 0; i < u->input_count; i++) reads[i] = tn__register_of(b, u->inputs[i]);
  for (int i = 0; i < u->output_count; i++) writes[write_count++] = tn__destination_of(b, u->outputs[i], true);
  for (int i = 0; i < u->output_count; i++) prepare_in_place(b, u->outputs[i], writes[i]);
  if (u->workspace_bytes > 0 || u->workspace_expr) writes[write_count++] = workspace_register(b, s);
  tn__exe_emit_kernel(b->func, b->kernel_index[u - b->program->units], reads, u->input_count, writes, write_count,
                      scalars, scalar_count);
}

static void emit_step(tn__builder *b, const tn__step *s) {
  tn__exe_origin(b->func, s->unit ? group_origin(b->arena, s->group) : s->node->origin);
  if (s->unit)
    emit_kernel(b, s);
  else
    tn__emit_node(b, s->node);
  load_elements(b, s);
  tn__exe_origin(b->func, NULL);
  emit_checks(b);
}

static void emit_list_output(tn__builder *b, int index, bool direct) {
  static const tn__operand no_dims[TN_MAX_RANK];
  tn__value *v = b->function->outputs[index];
  tn__exe_output(b->func, b->function->output_names[index], v->dtype, v->item_rank, no_dims);
  tn__exe_holds(b->func, true, index, (tn__container)v->holds);
  if (direct) return;
  int to = tn__builder_register(b, v, TN__STORAGE_OUTPUT, index, tn__operand_const(0));
  uint32_t words[] = {(uint32_t)to, (uint32_t)tn__register_of(b, v)};
  tn__exe_emit(b->func, TN__OP_COPY, words, 2);
}

/* The input that the output passes through, or -1. */
static int passed_through(tn__builder *b, int output) {
  const tn__place *root = tn__root_of(b, b->function->outputs[output]);
  return root->kind == TN__PLACE_INPUT ? root->index : -1;
}

/* Inputs that are passed through are read before outputs that may take their memory are written. */
static void check_order(tn__builder *b) {
  const tn__program_function *p = b->function;
  for (int i = 0; p->aliases && i < p->output_count; i++)
    for (int j = i + 1; j < p->output_count; j++)
      if (passed_through(b, i) >= 0 && p->aliases[i] >= 0 && p->aliases[i] != passed_through(b, i) &&
          passed_through(b, j) == p->aliases[i])
        tn__throwf(b->arena->escape, TN_UNSUPPORTED,
                   "output \"%s\" cannot take the memory of input \"%s\", which output \"%s\" passes on",
                   p->output_names[i], p->input_names[p->aliases[i]], p->output_names[j]);
}

void tn__declare_output_extent(tn__builder *b, int output) {
  tn__extent extent = b->function->extents ? b->function->extents[output] : (tn__extent){0};
  if (!extent.valid) return;
  tn__exe_extent(b->func, true, output, extent.axis, tn__scalars_operand(&b->scalars, extent.valid));
}

static void emit_outputs(tn__builder *b, const bool *direct) {
  const tn__program_function *p = b->function;
  int *registers = TN__NEW_ARRAY(b->arena, p->output_count, int);
  check_order(b);
  for (int i = 0; i < p->output_count; i++) {
    tn__value *v = p->outputs[i];
    if (v->holds != TN__HOLDS_TENSOR) {
      emit_list_output(b, i, direct[i]);
      continue;
    }
    tn__operand dims[TN_MAX_RANK];
    for (int d = 0; d < v->rank; d++) dims[d] = tn__scalars_operand(&b->scalars, v->dims[d]);
    tn__exe_output(b->func, p->output_names[i], v->dtype, v->rank, dims);
    tn__declare_output_extent(b, i);
    if (p->aliases && p->aliases[i] >= 0) tn__exe_alias(b->func, i, p->aliases[i]);
    if (direct[i]) continue;
    registers[i] = tn__exe_register(b->func, v->dtype, v->rank, dims, TN__STORAGE_OUTPUT, i, tn__operand_const(0));
    if (!tn__place_of(b, v)->early) tn__emit_word(b, TN__OP_ALLOC, registers[i]);
  }
  for (int through = 1; through >= 0; through--)
    for (int i = 0; i < p->output_count; i++)
      if (!direct[i] && p->outputs[i]->holds == TN__HOLDS_TENSOR && (passed_through(b, i) >= 0) == (through == 1))
        emit_copy(b, registers[i], tn__register_of(b, p->outputs[i]));
  tn__emit_updates(b);
  tn__exe_emit(b->func, TN__OP_RETURN, NULL, 0);
}

/* Shapes that follow from the inputs are computed by the prologue, all of them, so that the machine can lay everything
 * out at once. */
static void find_early_shapes(tn__builder *b) {
  for (int i = 0; i < b->value_count; i++) {
    tn__place *p = &b->places[i];
    if (!p->value || !shape_known(b, p->value)) continue;
    p->early = true;
    for (int d = 0; d < p->value->rank; d++) tn__scalars_operand(&b->scalars, p->value->dims[d]);
  }
  for (int i = 0; b->function->extents && i < b->function->output_count; i++) {
    const tn__expr *valid = b->function->extents[i].valid;
    if (valid && !tn__builder_knows(b, valid))
      tn__throwf(b->arena->escape, TN_UNSUPPORTED,
                 "output \"%s\" grows by a size that only running the model tells: it can have no capacity",
                 b->function->output_names[i]);
    if (valid) tn__scalars_operand(&b->scalars, valid);
  }
}

static void emit_code(tn__builder *b) {
  const tn__program_function *p = b->function;
  declare_inputs(b);
  place_constants(b);
  load_given_elements(b);
  b->checked = TN__NEW_ARRAY(b->arena, tn__graph_check_count(b->graph), bool);
  emit_checks(b);
  if (p->dispatch) {
    tn__emit_dispatch(b);
    return;
  }
  find_early_shapes(b);
  find_full_sizes(b);
  bool *direct = TN__NEW_ARRAY(b->arena, p->output_count, bool);
  place_outputs(b, direct);
  place_memory(b);
  emit_arena(b);
  for (b->at = 0; b->at < b->step_count; b->at++) emit_step(b, &b->steps[b->at]);
  emit_outputs(b, direct);
}

/* ---- the executable ---------------------------------------------------------------------------------------------- */

/* Units of the bodies are in the same list, so equal kernels are stored once. */
static void add_kernels(tn__builder *b) {
  const tn__program *p = b->program;
  tn__code *objects = TN__NEW_ARRAY(b->arena, p->unit_count, tn__code);
  int *kernel = TN__NEW_ARRAY(b->arena, p->unit_count, int), object_count = 0, with_code = 0;
  const tn__unit **first = TN__NEW_ARRAY(b->arena, p->unit_count, const tn__unit *);
  for (int i = 0; i < p->unit_count; i++) {
    const tn__unit *u = &p->units[i];
    int found = -1;
    for (int j = 0; j < object_count && found < 0; j++)
      if (memcmp(&first[j]->key, &u->key, sizeof u->key) == 0) found = j;
    if (found < 0) {
      first[object_count] = u;
      if (u->object.size > 0) objects[with_code++] = u->object;
      found = object_count++;
    }
    kernel[i] = found;
  }
  tn__image image = {0};
  if (with_code > 0) image = b->driver->backend->link(b->arena, objects, with_code);
  tn__exe_image(b->exe, image.data, image.size);
  tn_kernel *natives = TN__NEW_ARRAY(b->arena, object_count, tn_kernel);
  static const tn__image_symbol none;
  for (int i = 0; i < object_count; i++) {
    const tn__unit *u = first[i];
    const tn__image_symbol *symbol = u->native ? &none : NULL;
    natives[i] = u->native;
    for (int j = 0; j < image.symbol_count; j++)
      if (strcmp(image.symbols[j].name, u->name) == 0) symbol = &image.symbols[j];
    if (!symbol) tn__throwf(b->arena->escape, TN_INTERNAL, "the image lacks kernel \"%s\"", u->name);
    bool workspace = u->workspace_bytes > 0 || u->workspace_expr;
    tn__exe_kernel(b->exe, u->name, symbol->offset, symbol->size, u->input_count + u->output_count + workspace,
                   u->scalar_count + u->native_scalar_count, u->flops, u->bytes);
  }
  b->stats.apart.kernels = natives;
  b->kernel_index = kernel;
}

static void build_function(tn__builder *b, const tn__program_function *function, tn__exe_func *func) {
  b->function = function;
  b->graph = function->graph;
  b->ir = tn__graph_ir(function->graph);
  b->func = func;
  b->step_count = 0;
  b->items.count = b->slots.count = 0;
  tn__graph_use_counts(b->graph, &b->value_count);
  b->places = TN__NEW_ARRAY(b->arena, b->value_count, tn__place);
  tn__scalars_init(&b->scalars, b->arena, func);
  for (int i = 0; i < function->input_count; i++) tn__place_of(b, function->inputs[i]);
  collect_steps(b);
  emit_code(b);
}

tn__pieces tn__program_build(tn__driver *driver, const tn__program *program, const char *const *text_names,
                             const char *const *texts, int text_count, tn__program_stats *stats) {
  tn__builder b = {.driver = driver, .arena = driver->arena, .program = program};
  b.exe = tn__exe_create(b.arena, &driver->target, tn__arena_printf(b.arena, "tenon %s", tn_version()));
  if (!program->constants_apart) tn__exe_keep_in_place(b.exe, driver->slab);
  b.funcs = TN__NEW_ARRAY(b.arena, program->function_count, tn__exe_func *);
  for (int i = 0; i < program->function_count; i++) b.funcs[i] = tn__exe_function(b.exe, program->functions[i].name);
  add_kernels(&b);
  for (int i = 0; i < program->function_count; i++) build_function(&b, &program->functions[i], b.funcs[i]);
  for (int i = 0; i < text_count; i++) tn__exe_text(b.exe, text_names[i], texts[i], strlen(texts[i]));
  if (program->constants_apart) b.stats.apart.constants = tn__exe_leave_constants(b.exe);
  if (stats) *stats = b.stats;
  return tn__exe_pieces(b.exe);
}
