/* From values and nodes of a graph to buffers and stages of a declaration. */
#include <string.h>

#include "graph/internal.h"

typedef struct memo_entry {
  const tn__expr *from, *to;
} memo_entry;

struct tn__lower_context {
  tn__graph *graph;
  tn__te *te;
  tn__ir *ir;
  tn__arena *arena;           /* te's */
  const tn__buffer **buffers; /* by value id */
  int buffer_count;
  const bool *wanted; /* by value id: results of composites to declare; NULL: all */
  TN__VEC(tn__value *) inputs;
  TN__VEC(const tn__var *) symbols; /* the graph's; parallel to dims */
  TN__VEC(const tn__var *) dims;    /* te's */
  memo_entry *memo;                 /* open addressing by the structural hash */
  int memo_count, memo_size;
  tn__map names;
};

tn__lower_context *tn__lower_create(tn__graph *graph, tn__te *te) {
  tn__ir *ir = tn__te_ir(te);
  tn__arena *arena = tn__ir_arena(ir);
  tn__lower_context *lower = TN__NEW(arena, tn__lower_context);
  lower->graph = graph;
  lower->te = te;
  lower->ir = ir;
  lower->arena = arena;
  tn__map_init(&lower->names, arena);
  return lower;
}

tn__te *tn__lower_te(tn__lower_context *lower) { return lower->te; }
tn__ir *tn__lower_ir(tn__lower_context *lower) { return lower->ir; }

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static memo_entry *memo_slot(memo_entry *memo, int size, const tn__expr *e) {
  uint32_t mask = (uint32_t)size - 1, i = (uint32_t)e->hash & mask;
  while (memo[i].from != NULL && memo[i].from != e) i = (i + 1) & mask;
  return &memo[i];
}

static void memo_set(tn__lower_context *lower, const tn__expr *from, const tn__expr *to) {
  if (lower->memo_count * 2 >= lower->memo_size) {
    int size = lower->memo_size == 0 ? 64 : lower->memo_size * 2;
    memo_entry *grown = TN__NEW_ARRAY(lower->arena, size, memo_entry);
    for (int i = 0; i < lower->memo_size; i++)
      if (lower->memo[i].from != NULL) *memo_slot(grown, size, lower->memo[i].from) = lower->memo[i];
    lower->memo = grown;
    lower->memo_size = size;
  }
  *memo_slot(lower->memo, lower->memo_size, from) = (memo_entry){from, to};
  lower->memo_count++;
}

static const tn__expr *lower_symbol(tn__lower_context *lower, const tn__var *var) {
  for (int i = 0; i < lower->symbols.count; i++)
    if (lower->symbols.data[i] == var) return lower->dims.data[i]->self;
  int64_t min = INT64_MIN;
  if (var->min != NULL && !tn__ir_as_int(var->min, &min)) min = INT64_MIN;
  /* By number, not by the model's name: kernels that differ in names of symbols alone are one. */
  const char *name = tn__arena_printf(lower->arena, "n%d", lower->symbols.count);
  const tn__var *dim = tn__te_dim(lower->te, tn__lower_name(lower, name), min);
  tn__vec_push(lower->arena, &lower->symbols, var);
  tn__vec_push(lower->arena, &lower->dims, dim);
  return dim->self;
}

static const tn__expr *lower_leaf(tn__lower_context *lower, const tn__expr *e) {
  switch (e->kind) {
    case TN__EXPR_INT: return tn__ir_int(lower->ir, e->dtype, e->value.i);
    case TN__EXPR_FLOAT: return tn__ir_float(lower->ir, e->dtype, e->value.f);
    case TN__EXPR_VAR: return lower_symbol(lower, e->value.var);
    default: return NULL;
  }
}

const tn__expr *tn__lower_expr(tn__lower_context *lower, const tn__expr *e) {
  if (lower->graph->ir == lower->ir) return e; /* of a composite's body */
  if (lower->memo_size > 0) {
    const memo_entry *known = memo_slot(lower->memo, lower->memo_size, e);
    if (known->from != NULL) return known->to;
  }
  const tn__expr *args[4], *result = lower_leaf(lower, e);
  if (result == NULL) {
    if (e->kind == TN__EXPR_LOAD || e->arg_count > 4)
      tn__graph_fail(lower->graph, TN_INTERNAL, "a dimension is not an expression over symbols");
    for (int i = 0; i < e->arg_count; i++) args[i] = tn__lower_expr(lower, e->args[i]);
    result = tn__expr_with_args(lower->ir, e, args);
  }
  memo_set(lower, e, result);
  return result;
}

void tn__lower_exprs(tn__lower_context *lower, const tn__expr *const *exprs, int count, const tn__expr **out) {
  for (int i = 0; i < count; i++) out[i] = tn__lower_expr(lower, exprs[i]);
}

const tn__var *tn__lower_symbol_at(const tn__lower_context *lower, int index) { return lower->symbols.data[index]; }

/* ---- names, shapes ----------------------------------------------------------------------------------------------- */

/* Names end up in C-like identifiers of the text forms. */
const char *tn__lower_name(tn__lower_context *lower, const char *base) {
  char *name = tn__arena_strdup(lower->arena, base[0] == '\0' ? "v" : base);
  for (char *c = name; *c != '\0'; c++) {
    bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
    if (!letter && (c == name || *c < '0' || *c > '9')) *c = '_';
  }
  const char *unique = name;
  for (int i = 1; tn__map_has(&lower->names, unique); i++) unique = tn__arena_printf(lower->arena, "%s_%d", name, i);
  tn__map_set(&lower->names, unique, lower);
  return unique;
}

void tn__lower_dims(tn__lower_context *lower, const tn__value *value, const tn__expr **dims) {
  tn__lower_exprs(lower, value->dims, value->rank, dims);
}

tn__te_axes tn__lower_axes(tn__lower_context *lower, const tn__value *value) {
  const tn__expr *dims[TN__MAX_RANK];
  tn__lower_dims(lower, value, dims);
  return tn__te_axes_create(lower->te, "i", value->rank, dims);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

void tn__lower_bind(tn__lower_context *lower, tn__value *value, const tn__buffer *buffer) {
  if ((int)value->id >= lower->buffer_count) {
    int count = lower->graph->values.count > (int)value->id ? lower->graph->values.count : (int)value->id + 1;
    const tn__buffer **grown = TN__NEW_ARRAY(lower->arena, count, const tn__buffer *);
    if (lower->buffer_count > 0) memcpy(grown, lower->buffers, (size_t)lower->buffer_count * sizeof(*grown));
    lower->buffers = grown;
    lower->buffer_count = count;
  }
  lower->buffers[value->id] = buffer;
}

/* One repeated element: written into whoever reads it. */
static const tn__buffer *lower_splat(tn__lower_context *lower, const tn__value *value) {
  tn__ir *ir = lower->ir;
  const tn__expr *element = tn__dtype_is_float(value->dtype)
                                ? tn__ir_float(ir, value->dtype, tn__load_f64(value->dtype, value->data, 0))
                                : tn__ir_int(ir, value->dtype, tn__load_i64(value->dtype, value->data, 0));
  tn__te_axes axes = tn__lower_axes(lower, value);
  return tn__te_compute(lower->te, tn__lower_name(lower, "splat"), &axes, element);
}

static bool is_one_element(const tn__value *value) {
  for (int i = 0; i < value->rank; i++)
    if (!tn__ir_is_int_value(value->dims[i], 1)) return false;
  return true;
}

const tn__buffer *tn__lower_value(tn__lower_context *lower, tn__value *value) {
  if ((int)value->id < lower->buffer_count && lower->buffers[value->id] != NULL) return lower->buffers[value->id];
  const tn__buffer *buffer;
  bool strings = value->dtype == TN_STRING; /* references to them, which only the executable's writer makes */
  if (value->data != NULL && !strings && (value->splat || is_one_element(value))) {
    buffer = lower_splat(lower, value);
  } else {
    const tn__expr *dims[TN__MAX_RANK];
    tn__lower_dims(lower, value, dims);
    /* Not the value's own name: equal computations at different places of a model must give equal declarations. */
    const char *name = tn__arena_printf(lower->arena, "in%d", lower->inputs.count);
    buffer = tn__te_input(lower->te, tn__lower_name(lower, name), strings ? TN_U64 : value->dtype, value->rank, dims);
    tn__vec_push(lower->arena, &lower->inputs, value);
  }
  tn__lower_bind(lower, value, buffer);
  return buffer;
}

int tn__lower_input_count(const tn__lower_context *lower) { return lower->inputs.count; }
tn__value *tn__lower_input_at(const tn__lower_context *lower, int index) { return lower->inputs.data[index]; }

static bool is_needed(const tn__node *node, const bool *needed) {
  for (int i = 0; i < node->output_count; i++)
    if (needed[node->outputs[i]->id]) return true;
  return false;
}

/* The nodes of the body that the results depend on, in the order in which they were made. */
static void lower_body(tn__lower_context *lower, const tn__graph *body, tn__value *const *results, int count) {
  bool *needed = TN__NEW_ARRAY(lower->arena, body->values.count, bool);
  for (int i = 0; i < count; i++) needed[results[i]->id] = true;
  for (int i = body->nodes.count - 1; i >= 0; i--) {
    const tn__node *node = body->nodes.data[i];
    for (int j = 0; j < node->input_count; j++)
      if (is_needed(node, needed) && node->inputs[j] != NULL) needed[node->inputs[j]->id] = true;
  }
  for (int i = 0; i < body->nodes.count; i++)
    if (is_needed(body->nodes.data[i], needed)) tn__lower_node(lower, body->nodes.data[i]);
}

static bool is_wanted(const tn__lower_context *lower, const tn__value *value) {
  return lower->wanted == NULL || lower->wanted[value->id];
}

void tn__lower_want(tn__lower_context *lower, tn__node *const *nodes, int count, tn__value *const *outputs,
                    int output_count) {
  bool *wanted = TN__NEW_ARRAY(lower->arena, lower->graph->values.count, bool);
  for (int i = 0; i < output_count; i++) wanted[outputs[i]->id] = true;
  for (int i = count - 1; i >= 0; i--)
    for (int j = 0; j < nodes[i]->input_count && is_needed(nodes[i], wanted); j++)
      if (nodes[i]->inputs[j] != NULL) wanted[nodes[i]->inputs[j]->id] = true;
  lower->wanted = wanted;
}

/* The node with the expressions of its attributes in the declaration's ir context. */
static const tn__node *with_own_attrs(tn__lower_context *lower, const tn__node *node) {
  tn__node *own = tn__arena_copy(lower->arena, node, sizeof *node);
  tn__attr *attrs = TN__NEW_ARRAY(lower->arena, node->attr_count, tn__attr);
  for (int i = 0; i < node->attr_count; i++) {
    attrs[i] = node->attrs[i];
    if (attrs[i].kind != TN__ATTR_EXPRS) continue;
    const tn__expr **exprs = TN__NEW_ARRAY(lower->arena, attrs[i].count, const tn__expr *);
    tn__lower_exprs(lower, attrs[i].exprs, attrs[i].count, exprs);
    attrs[i].exprs = exprs;
  }
  own->attrs = attrs;
  return own;
}

/* Declares the body of a composite: a graph of its own, in the declaration's ir context, whose inputs are the operands'
 * buffers. */
static void lower_composite(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *buffers,
                            const tn__buffer **outputs) {
  tn__lower_context outer = *lower;
  bool carried = tn__composite_body(node) != NULL;
  tn__graph *body = carried ? node->graphs[0] : tn__graph_create(lower->ir, node->op->name);
  tn__value **inputs = TN__NEW_ARRAY(lower->arena, node->input_count, tn__value *);
  for (int i = 0; i < node->input_count; i++) {
    const tn__value *own = node->inputs[i];
    const tn__expr *dims[TN__MAX_RANK];
    if (carried) inputs[i] = body->inputs.data[i];
    if (carried || own == NULL) continue;
    tn__lower_dims(lower, own, dims);
    inputs[i] = tn__graph_input(body, tn__arena_printf(lower->arena, "x%d", i), own->dtype, own->rank, dims);
  }
  tn__value **results = TN__NEW_ARRAY(lower->arena, node->output_count, tn__value *);
  for (int i = 0; carried && i < node->output_count; i++) results[i] = body->outputs.data[i].value;
  if (!carried) {
    tn__graph_set_origin(body, node->origin);
    node->op->expand(body, with_own_attrs(lower, node), inputs, results);
  }
  lower->graph = body;
  lower->wanted = NULL;
  lower->buffers = NULL;
  lower->buffer_count = 0;
  for (int i = 0; i < node->input_count; i++)
    if (inputs[i] != NULL) tn__lower_bind(lower, inputs[i], buffers[i]);
  int count = 0;
  tn__value **wanted = TN__NEW_ARRAY(lower->arena, node->output_count, tn__value *);
  for (int i = 0; i < node->output_count; i++)
    if (is_wanted(&outer, node->outputs[i])) wanted[count++] = results[i];
  lower_body(lower, body, wanted, count);
  for (int i = 0; i < node->output_count; i++)
    if (is_wanted(&outer, node->outputs[i])) outputs[i] = tn__lower_value(lower, results[i]);
  lower->graph = outer.graph;
  lower->wanted = outer.wanted;
  lower->buffers = outer.buffers;
  lower->buffer_count = outer.buffer_count;
}

void tn__lower_node(tn__lower_context *lower, const tn__node *node) {
  if (node->op->declare == NULL && node->op->expand == NULL)
    tn__graph_fail(lower->graph, TN_INTERNAL, "operator %s has no declaration", node->op->name);
  const tn__buffer **inputs = TN__NEW_ARRAY(lower->arena, node->input_count, const tn__buffer *);
  const tn__buffer **outputs = TN__NEW_ARRAY(lower->arena, node->output_count, const tn__buffer *);
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NULL) inputs[i] = tn__lower_value(lower, node->inputs[i]);
  if (node->op->expand != NULL)
    lower_composite(lower, node, inputs, outputs);
  else
    node->op->declare(lower, node, inputs, outputs);
  for (int i = 0; i < node->output_count; i++)
    if (outputs[i] != NULL) tn__lower_bind(lower, node->outputs[i], outputs[i]);
}
