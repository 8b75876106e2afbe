/* Bodies that are decided at run time: graphs of their own. What they use of the graph around them becomes an operand:
 * constants are constants inside, too; other values are inputs, whose sizes keep the relations that they have
 * outside. */
#include "graph/build/body.h"

#include <string.h>

tn__body *tn__body_create(tn__graph *outer, tn__body *parent, const char *name) {
  tn__arena *arena = tn__graph_arena(outer);
  tn__body *b = TN__NEW(arena, tn__body);
  *b = (tn__body){.arena = arena, .parent = parent, .outer = outer, .g = tn__graph_create(tn__graph_ir(outer), name)};
  tn__graph_set_origin(b->g, tn__graph_origin(outer));
  return b;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static const tn__expr *inner_size(const tn__body *b, const tn__expr *outer) {
  for (int i = 0; i < b->sizes.count; i++)
    if (b->sizes.data[i].outer == outer) return b->sizes.data[i].inner;
  return NULL;
}

static bool has_symbol(const tn__body *b, const char *name) {
  for (int i = 0; i < tn__graph_symbol_count(b->g); i++)
    if (strcmp(tn__graph_symbol_at(b->g, i)->var->name, name) == 0) return true;
  return false;
}

/* What a new symbol of the body is called: as outside (NULL: it has no name there), or by its dimension. Symbols of one
 * name would be one, and in loops inside of loops a name of outside may be that of a dimension here. */
static const char *symbol_name(const tn__body *b, const char *outside, const tn__value *input, int axis) {
  if (outside != NULL && !has_symbol(b, outside)) return outside;
  const char *name = tn__arena_printf(b->arena, "%s_d%d", input->name, axis);
  while (has_symbol(b, name)) name = tn__arena_printf(b->arena, "%s_", name);
  return name;
}

/* The symbol for a size of the outer graph, made at this dimension of an input when it is the first to have it. */
static void set_size(tn__body *b, tn__value *input, int axis, const tn__expr *outer) {
  for (int i = 0; i < b->sizes.count; i++)
    if (b->sizes.data[i].outer == outer) {
      tn__graph_input_symbol(b->g, b->sizes.data[i].name, input, axis);
      return;
    }
  const char *name = symbol_name(b, outer->kind == TN__EXPR_VAR ? outer->value.var->name : NULL, input, axis);
  tn__body_size size = {outer, tn__graph_input_symbol(b->g, name, input, axis), name};
  tn__vec_push(b->arena, &b->sizes, size);
}

tn__value *tn__body_input(tn__body *b, const tn__value *like, const bool *varies) {
  const tn__expr *dims[TN__MAX_RANK];
  const char *name = tn__arena_printf(b->arena, "arg%d", tn__graph_input_count(b->g));
  for (int i = 0; i < like->rank; i++)
    dims[i] = tn__ir_is_int(like->dims[i]) && !(varies != NULL && varies[i]) ? like->dims[i] : NULL;
  tn__value *input = tn__graph_input(b->g, name, like->dtype, like->rank, dims);
  input->holds = like->holds;
  input->item_rank = like->item_rank;
  input->likely_ranks = like->likely_ranks;
  input->narrow = like->narrow;
  for (int i = 0; i < like->rank; i++) {
    if (dims[i] != NULL) continue;
    if (varies != NULL && varies[i])
      tn__graph_input_symbol(b->g, symbol_name(b, NULL, input, i), input, i);
    else
      set_size(b, input, i, like->dims[i]);
  }
  return input;
}

/* ---- captured values --------------------------------------------------------------------------------------------- */

static void find_symbol(tn__body *b, const tn__expr *var);

/* An expression of the outer graph in terms of the body's symbols; NULL when there are none for it. */
static const tn__expr *inner_expr(tn__body *b, const tn__expr *e) {
  const tn__expr *args[4];
  if (e->kind == TN__EXPR_INT) return e;
  const tn__expr *known = inner_size(b, e);
  if (known != NULL) return known;
  if (e->kind == TN__EXPR_VAR) {
    find_symbol(b, e);
    return inner_size(b, e);
  }
  if (e->arg_count == 0 || e->arg_count > 4) return NULL;
  for (int i = 0; i < e->arg_count; i++) {
    args[i] = inner_expr(b, e->args[i]);
    if (args[i] == NULL) return NULL;
  }
  return tn__expr_with_args(tn__graph_ir(b->g), e, args);
}

/* Captures the value that the symbol is a dimension of. */
static void find_symbol(tn__body *b, const tn__expr *var) {
  for (int i = 0; i < tn__graph_symbol_count(b->outer); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->outer, i);
    if (symbol->var != var->value.var || symbol->source != TN__SYMBOL_INPUT_DIM) continue;
    if (symbol->value->rank > symbol->index && symbol->value->dims[symbol->index] == var)
      tn__body_capture(b, symbol->value);
    return;
  }
}

/* What is known of a small integer tensor's contents stays known. */
static void keep_elements(tn__body *b, const tn__value *outer, tn__value *inner) {
  int count = 1;
  if (outer->elements == NULL || outer->rank > 1) return;
  if (outer->rank == 1) count = (int)tn__g_dim_const(outer, 0);
  if (count < 0) return;
  const tn__expr **elements = TN__NEW_ARRAY(b->arena, count, const tn__expr *);
  for (int i = 0; i < count; i++) {
    elements[i] = inner_expr(b, outer->elements[i]);
    if (elements[i] == NULL) return;
  }
  inner->elements = elements;
}

const tn__expr *tn__body_outside(const tn__body *b, const tn__expr *size) {
  const tn__var **vars = TN__NEW_ARRAY(b->arena, b->sizes.count, const tn__var *);
  const tn__expr **values = TN__NEW_ARRAY(b->arena, b->sizes.count, const tn__expr *);
  for (int i = 0; i < b->sizes.count; i++) {
    vars[i] = b->sizes.data[i].inner->value.var;
    values[i] = b->sizes.data[i].outer;
  }
  for (int i = 0; i < tn__graph_symbol_count(b->g); i++) {
    const tn__var *var = tn__graph_symbol_at(b->g, i)->var;
    bool known = !tn__expr_uses_var(size, var);
    for (int k = 0; k < b->sizes.count && !known; k++) known = vars[k] == var;
    if (!known) return NULL;
  }
  return tn__ir_substitute(tn__graph_ir(b->g), size, vars, values, b->sizes.count);
}

static bool constant_elements(const tn__value *v) {
  if (v->elements == NULL || v->rank > 1 || (v->rank == 1 && tn__g_dim_const(v, 0) < 0)) return false;
  for (int64_t i = 0; i < (v->rank == 1 ? tn__g_dim_const(v, 0) : 1); i++)
    if (!tn__ir_is_int(v->elements[i])) return false;
  return true;
}

tn__value *tn__body_capture(tn__body *b, tn__value *v) {
  for (int i = 0; i < b->captures.count; i++)
    if (b->captures.data[i].outer == v) return b->captures.data[i].inner;
  tn__capture capture = {.outer = v};
  int64_t shape[TN__MAX_RANK];
  if (v->data != NULL && tn__g_shape_const(v, shape)) {
    capture.inner = tn__g_constant_value(b->g, v->dtype, v->rank, shape, v->data, v->splat);
  } else if (constant_elements(v)) {
    int count = v->rank == 1 ? (int)tn__g_dim_const(v, 0) : 1;
    capture.inner = tn__g_from_elements(b->g, v->dtype, v->elements, count, v->rank);
  } else {
    capture.inner = tn__body_input(b, v, NULL);
    tn__vec_push(b->arena, &b->operands, v);
    tn__vec_push(b->arena, &b->inputs, capture.inner);
  }
  capture.inner->narrow = v->narrow;
  tn__vec_push(b->arena, &b->captures, capture);
  if (v->data == NULL) keep_elements(b, v, capture.inner);
  return capture.inner;
}
