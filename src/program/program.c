/* Builds the VM function of a compiled graph. Steps are the groups that have kernels, in order. */
#include "program/builder.h"

#include <string.h>

#include "target/devices/device.h"

/* ---- values and steps -------------------------------------------------------------------------------------------- */

static void use_value(tn__builder *b, tn__value *v, int at) {
  tn__place *root = tn__prog_root_of(b, v);
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
    tn__prog_share_kept(b, n);
  }
  for (int j = 0; j < s->input_count; j++)
    if (s->inputs[j] != NULL) use_value(b, s->inputs[j], b->step_count);
  for (int j = 0; j < s->output_count; j++) {
    tn__place *out = tn__prog_root_of(b, s->outputs[j]);
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
    if (tn__prog_shares_memory(b, g)) {
      tn__place *view = tn__place_of(b, g->nodes[0]->outputs[0]);
      view->root = (int)tn__prog_root_of(b, g->nodes[0]->inputs[0])->value->id;
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

/* Graph inputs: their symbolic dimensions are plain symbols (the importer makes them so) and bind the scalar
 * registers. */
static void declare_extent(tn__builder *b, const tn__value *v, int input) {
  const tn__expr *valid = v->extent.valid;
  if (!valid) return;
  tn__prog_refuse_to_grow(b, v, "input", b->function->input_names[input]);
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
      at->reg = tn__builder_register(b, v, TN__STORAGE_INPUT, at->index, tn__prog_operand_const(0));
      continue;
    }
    at->index = tn__exe_input(b->func, p->input_names[i], v->dtype, v->rank, dims);
    at->reg = tn__builder_register(b, v, TN__STORAGE_INPUT, at->index, tn__prog_operand_const(0));
    declare_extent(b, v, at->index);
    if (v->fallback && !p->caller) tn__exe_default(b->func, at->index, tn__prog_constant(b, v->fallback, 0));
    if (p->dispatch == NULL && tn__prog_device_of(b, v) != tn__prog_given_device(b, false, i)) {
      at->kind = TN__PLACE_DYNAMIC;
      at->given = at->reg;
      at->reg = -1;
    }
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

static bool shape_known(tn__builder *b, const tn__value *v) {
  for (int i = 0; i < v->rank; i++)
    if (!tn__builder_knows(b, v->dims[i])) return false;
  return true;
}

/* Elements of graph inputs and constants, and of views of them, are known from the start. */
static void load_given_elements(tn__builder *b) {
  for (int i = 0; i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (symbol->source != TN__SYMBOL_ELEMENT || !b->places[symbol->value->id].value) continue;
    tn__place_kind kind = tn__prog_root_of(b, symbol->value)->kind;
    if ((kind != TN__PLACE_INPUT && kind != TN__PLACE_CONSTANT) || tn__prog_device_of(b, symbol->value) > 0) continue;
    tn__prog_register_of(b, symbol->value);
    load_symbol(b, symbol);
  }
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

/* Symbols read from a result become known after the step that makes it. */
static void load_elements(tn__builder *b, const tn__step *s) {
  for (int i = 0; i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (symbol->source != TN__SYMBOL_ELEMENT) continue;
    for (int o = 0; o < s->output_count; o++)
      if (tn__prog_root_of(b, s->outputs[o]) == tn__prog_root_of(b, symbol->value)) {
        tn__prog_register_of(b, symbol->value);
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
  return tn__arena_take(b->arena, &text);
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

/* Sizes of a kernel's workspace and grids are over the dimensions of its own declaration, which units of equal code
 * share: what is known of them here holds for this call only. */
static tn__scalars scalars_of_call(tn__builder *b, const tn__unit *u, bool full) {
  tn__scalars of_call;
  tn__scalars_init(&of_call, b->arena, b->func);
  for (int i = 0; i < u->scalar_count; i++) {
    const tn__expr *size = u->scalars[i]->self;
    for (int j = 0; full && j < b->growing_count; j++)
      if (b->growing[j].var == u->scalars[i]) size = b->growing[j].full;
    tn__scalars_bind(&of_call, u->workspace_dims[i]->self, tn__scalars_register(&b->scalars, size));
  }
  return of_call;
}

static tn__operand workspace_with(tn__builder *b, const tn__unit *u, bool full) {
  tn__scalars of_call = scalars_of_call(b, u, full);
  return tn__scalars_operand(&of_call, u->workspace_expr);
}

/* As arena_at_capacity does. */
static tn__operand symbolic_workspace(tn__builder *b, const tn__unit *u) {
  tn__operand bytes = workspace_with(b, u, false);
  if (b->growing_count == 0 || !bytes.symbolic) return bytes;
  tn__operand full = workspace_with(b, u, true);
  int most = tn__exe_emit_const(b->func, TN__MOST_BYTES_AHEAD);
  int all = full.symbolic ? (int)full.value : tn__exe_emit_const(b->func, full.value);
  int ahead = tn__exe_emit_scalar_op(b->func, TN__SCALAR_MIN, all, most);
  return tn__prog_operand_scalar(tn__exe_emit_scalar_op(b->func, TN__SCALAR_MAX, (int)bytes.value, ahead));
}

static int memory_of_unit(tn__builder *b, const tn__unit *u) {
  return u->output_count > 0 ? tn__exe_device_home(b->exe, tn__prog_device_of(b, u->outputs[0])) : 0;
}

static int workspace_register(tn__builder *b, const tn__step *s) {
  const tn__unit *u = s->unit;
  if (u->workspace_expr) {
    tn__operand bytes = symbolic_workspace(b, u);
    int reg = tn__exe_register(b->func, TN_U8, 1, &bytes, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
    tn__exe_register_on(b->func, memory_of_unit(b, u), reg);
    tn__prog_emit_word(b, TN__OP_ALLOC, reg);
    return reg;
  }
  tn__operand bytes = tn__prog_operand_const(u->workspace_bytes);
  tn__operand offset = tn__prog_operand_const(b->items.data[s->workspace_item].offset);
  int reg = tn__exe_register(b->func, TN_U8, 1, &bytes, TN__STORAGE_ARENA, 0, offset);
  tn__exe_register_on(b->func, b->items.data[s->workspace_item].device, reg);
  return reg;
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

/* A scatter in place finds its operand in its result: nothing moves when the caller bound both to one buffer. */
static void prepare_in_place(tn__builder *b, const tn__value *v, int reg) {
  if (v->producer && tn__node_int(v->producer, "in_place", 0))
    tn__prog_emit_copy(b, reg, tn__prog_register_of(b, v->producer->inputs[0]));
}

static void emit_kernel(tn__builder *b, const tn__step *s) {
  const tn__unit *u = s->unit;
  int kernel = b->kernel_index[u - b->program->units];
  const tn__source_kernel_use *source = b->extents[kernel];
  int *reads = TN__NEW_ARRAY(b->arena, u->input_count, int);
  int scalar_count = u->scalar_count + u->native_scalar_count; /* it has one kind of them or the other */
  int extents = source != NULL ? source->extents.count : 0;
  int *scalars = TN__NEW_ARRAY(b->arena, scalar_count + extents, int);
  int *writes = TN__NEW_ARRAY(b->arena, u->output_count + 1, int), write_count = 0; /* the last may be the workspace */
  for (int i = 0; i < u->native_scalar_count; i++) scalars[i] = tn__exe_emit_const(b->func, u->native_scalars[i]);
  for (int i = 0; i < u->scalar_count; i++) scalars[i] = tn__scalars_register(&b->scalars, u->scalars[i]->self);
  for (int i = 0; i < u->input_count; i++) reads[i] = tn__prog_register_of(b, u->inputs[i]);
  for (int i = 0; i < u->output_count; i++) writes[write_count++] = tn__prog_destination_of(b, u->outputs[i], true);
  for (int i = 0; i < u->output_count; i++) prepare_in_place(b, u->outputs[i], writes[i]);
  if (u->workspace_bytes > 0 || u->workspace_expr) writes[write_count++] = workspace_register(b, s);
  if (extents > 0) {
    tn__scalars of_call = scalars_of_call(b, u, false);
    for (int i = 0; i < extents; i++)
      scalars[scalar_count + i] = tn__scalars_register(&of_call, source->extents.data[i]);
  }
  tn__exe_emit_kernel(b->func, kernel, reads, u->input_count, writes, write_count, scalars, scalar_count + extents);
}

static void emit_step(tn__builder *b, const tn__step *s) {
  tn__exe_origin(b->func, s->unit ? group_origin(b->arena, s->group) : s->node->origin);
  if (s->unit)
    emit_kernel(b, s);
  else
    tn__prog_emit_node(b, s->node);
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
  int to = tn__builder_register(b, v, TN__STORAGE_OUTPUT, index, tn__prog_operand_const(0));
  uint32_t words[] = {(uint32_t)to, (uint32_t)tn__prog_register_of(b, v)};
  tn__exe_emit(b->func, TN__OP_COPY, words, 2);
}

/* The input that the output passes through, or -1. */
static int passed_through(tn__builder *b, int output) {
  const tn__place *root = tn__prog_root_of(b, b->function->outputs[output]);
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
    tn__prog_declare_output_extent(b, i);
    if (p->aliases && p->aliases[i] >= 0) tn__exe_alias(b->func, i, p->aliases[i]);
    if (direct[i]) continue;
    registers[i] = tn__builder_register(b, v, TN__STORAGE_OUTPUT, i, tn__prog_operand_const(0));
    if (!tn__place_of(b, v)->early) tn__prog_emit_word(b, TN__OP_ALLOC, registers[i]);
  }
  for (int through = 1; through >= 0; through--)
    for (int i = 0; i < p->output_count; i++)
      if (!direct[i] && p->outputs[i]->holds == TN__HOLDS_TENSOR && (passed_through(b, i) >= 0) == (through == 1))
        tn__prog_emit_copy(b, registers[i], tn__prog_register_of(b, p->outputs[i]));
  tn__prog_emit_updates(b);
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
  tn__place_constants(b);
  load_given_elements(b);
  b->checked = TN__NEW_ARRAY(b->arena, tn__graph_check_count(b->graph), bool);
  emit_checks(b);
  if (p->dispatch) {
    tn__prog_emit_dispatch(b);
    return;
  }
  find_early_shapes(b);
  tn__prog_find_full_sizes(b);
  bool *direct = TN__NEW_ARRAY(b->arena, p->output_count, bool);
  tn__place_outputs(b, direct);
  tn__place_memory(b);
  tn__prog_emit_arena(b);
  tn__prog_send_inputs(b);
  for (b->at = 0; b->at < b->step_count; b->at++) emit_step(b, &b->steps[b->at]);
  emit_outputs(b, direct);
}

/* ---- the executable ---------------------------------------------------------------------------------------------- */

/* Distinct kernels of the program: units of equal code on one device. Units of the bodies are in the same list, so
 * equal kernels are stored once; one on two devices is two kernels of the same code. */
typedef struct kernels {
  const tn__unit **first; /* by kernel: a unit of it */
  int *device, count;
  int *of_unit;
} kernels;

static kernels find_kernels(tn__builder *b) {
  const tn__program *p = b->program;
  kernels k = {.first = TN__NEW_ARRAY(b->arena, p->unit_count, const tn__unit *),
               .device = TN__NEW_ARRAY(b->arena, p->unit_count, int),
               .of_unit = TN__NEW_ARRAY(b->arena, p->unit_count, int)};
  for (int i = 0; i < p->unit_count; i++) {
    const tn__unit *u = &p->units[i];
    int found = -1, device = u->output_count > 0 ? tn__prog_maker_of(b, u->outputs[0]) : 0;
    for (int j = 0; j < k.count && found < 0; j++)
      if (memcmp(&k.first[j]->key, &u->key, sizeof u->key) == 0 && k.device[j] == device) found = j;
    if (found < 0) {
      k.first[k.count] = u;
      k.device[k.count] = device;
      found = k.count++;
    }
    k.of_unit[i] = found;
  }
  return k;
}

/* The kernel whose code this one has: itself, or an earlier one for another device. */
static int code_of(const kernels *k, int kernel) {
  int first = 0;
  while (memcmp(&k->first[first]->key, &k->first[kernel]->key, sizeof k->first[first]->key) != 0) first++;
  return first;
}

typedef struct placed {
  uint64_t offset, size;
  bool found;
} placed;

/* Objects for one target become an image, which follows on what there is at the start of a page. */
static void link_image(tn__builder *b, const kernels *k, const tn__maker *maker, const tn__backend *backend,
                       placed *places) {
  tn__code *objects = TN__NEW_ARRAY(b->arena, k->count, tn__code);
  int count = 0;
  for (int i = 0; i < k->count; i++)
    if (k->first[i]->maker == maker && k->first[i]->object.size > 0 && code_of(k, i) == i)
      objects[count++] = k->first[i]->object;
  if (count == 0) return;
  tn__image image = backend->link(b->arena, objects, count);
  uint64_t base = tn__exe_image(b->exe, image.data, image.size);
  for (int i = 0; i < k->count; i++)
    for (int j = 0; j < image.symbol_count && k->first[code_of(k, i)]->maker == maker; j++)
      if (strcmp(image.symbols[j].name, k->first[i]->name) == 0)
        places[i] = (placed){base + image.symbols[j].offset, image.symbols[j].size, true};
}

/* Sources for one target become one text, and every device of that target has it; the host's is there in any case, and
 * says that the code is source. */
static void write_source(tn__builder *b, const kernels *k, const tn__maker *maker, const tn__backend *backend,
                         placed *places) {
  tn__ir **irs = TN__NEW_ARRAY(b->arena, k->count, tn__ir *);
  const tn__func **funcs = TN__NEW_ARRAY(b->arena, k->count, const tn__func *);
  int *number = TN__NEW_ARRAY(b->arena, k->count, int), count = 0;
  for (int i = 0; i < k->count; i++) {
    const tn__unit *u = k->first[i];
    if (u->maker != maker || u->func == NULL) continue;
    int first = code_of(k, i);
    number[i] = first < i ? number[first] : count;
    if (first == i) irs[count] = u->func_ir, funcs[count++] = u->func;
  }
  if (count == 0 && maker != NULL) return;
  const tn__target *target = maker != NULL ? &maker->target : &b->driver->target;
  tn__codegen_module module = {.irs = irs, .funcs = funcs, .count = count, .target = target};
  tn__source source = backend->unit(b->arena, &module);
  if (maker == NULL) tn__exe_source(b->exe, 0, source.data, source.size);
  for (int i = 0; i < k->count; i++) {
    if (k->first[i]->maker != maker || k->first[i]->func == NULL) continue;
    places[i] = (placed){source.kernels[number[i]].offset, 0, true};
    b->extents[i] = &source.kernels[number[i]];
    tn__exe_source(b->exe, k->device[i], source.data, source.size);
  }
}

static void add_kernels(tn__builder *b) {
  const tn__driver *driver = b->driver;
  kernels k = find_kernels(b);
  placed *places = TN__NEW_ARRAY(b->arena, k.count, placed);
  b->extents = TN__NEW_ARRAY(b->arena, k.count, const tn__source_kernel_use *);
  for (int i = -1; i < driver->makers.count; i++) {
    const tn__maker *maker = i < 0 ? NULL : driver->makers.data[i];
    const tn__backend *backend = maker != NULL ? maker->backend : driver->backend;
    if (backend->unit != NULL)
      write_source(b, &k, maker, backend, places);
    else
      link_image(b, &k, maker, backend, places);
  }
  tn_kernel *natives = TN__NEW_ARRAY(b->arena, k.count, tn_kernel);
  for (int i = 0; i < k.count; i++) {
    const tn__unit *u = k.first[i];
    natives[i] = u->native;
    if (!u->native && !places[i].found)
      tn__throwf(b->arena->escape, TN_INTERNAL, "the image lacks kernel \"%s\"", u->name);
    bool workspace = u->workspace_bytes > 0 || u->workspace_expr;
    int scalars = u->scalar_count + u->native_scalar_count + (b->extents[i] ? b->extents[i]->extents.count : 0);
    int index = tn__exe_kernel(b->exe, u->name, places[i].offset, places[i].size,
                               u->input_count + u->output_count + workspace, scalars, u->flops, u->bytes);
    tn__exe_kernel_on(b->exe, k.device[i], index);
  }
  b->stats.apart.kernels = natives;
  b->kernel_index = k.of_unit;
}

/* Bodies of branches and loops, and functions specialised for a size, are inner functions. */
static void mark_inner(const tn__builder *b) {
  const tn__program *p = b->program;
  for (int i = 0; i < p->function_count; i++)
    if (p->functions[i].caller != NULL || tn__prog_is_chosen(p, &p->functions[i])) tn__exe_inner(b->funcs[i]);
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
  if (driver->host != NULL) tn__exe_host(b.exe, driver->host->device_id);
  b.funcs = TN__NEW_ARRAY(b.arena, program->function_count, tn__exe_func *);
  for (int i = 0; i < program->function_count; i++) b.funcs[i] = tn__exe_function(b.exe, program->functions[i].name);
  mark_inner(&b);
  add_kernels(&b);
  for (int i = 0; i < program->function_count; i++) build_function(&b, &program->functions[i], b.funcs[i]);
  for (int i = 0; i < text_count; i++) tn__exe_text(b.exe, text_names[i], texts[i], strlen(texts[i]));
  if (program->constants_apart) b.stats.apart.constants = tn__exe_leave_constants(b.exe);
  if (stats) *stats = b.stats;
  return tn__exe_pieces(b.exe);
}
