/* Control flow: bodies are graphs, run by the VM. A body's inputs are block arguments and it captures nothing. */
#include <string.h>

#include "graph/internal.h"

/* Both tensors, or lists of tensors of one rank. */
static bool holds_alike(const tn__value *a, const tn__value *b) {
  return a->holds == b->holds && a->item_rank == b->item_rank;
}

/* The operands must have the types of the body's inputs. Dimensions that are symbols of the body take what the operands
 * have. */
static void match_inputs(const tn__graph *graph, const tn__node *node, int body_index, int first) {
  const tn__graph *body = node->graphs[body_index];
  int count = node->input_count - first;
  if (body->inputs.count != count)
    tn__node_fail(graph, node, "body \"%s\" takes %d operands, not %d", body->name, body->inputs.count, count);
  for (int i = 0; i < count; i++) {
    const tn__value *own = node->inputs[first + i], *want = body->inputs.data[i];
    bool fits = own->dtype == want->dtype && own->rank == want->rank && holds_alike(own, want);
    for (int j = 0; fits && j < own->rank; j++)
      fits = !tn__ir_is_int(want->dims[j]) || !tn__ir_is_int(own->dims[j]) || own->dims[j] == want->dims[j];
    if (!fits)
      tn__node_fail(graph, node, "operand %d is %s, but body \"%s\" takes %s", first + i,
                    tn__value_type_text(graph, own), body->name, tn__value_type_text(graph, want));
  }
}

/* Dimension `axis` of a body's result in terms of the graph around it; NULL when only running the body tells. */
static const tn__expr *outer_dim(tn__graph *graph, const tn__node *node, const tn__graph *body, int first,
                                 const tn__expr *dim) {
  if (tn__ir_is_int(dim)) return dim;
  const tn__var **vars = TN__NEW_ARRAY(graph->arena, body->symbols.count, const tn__var *);
  const tn__expr **values = TN__NEW_ARRAY(graph->arena, body->symbols.count, const tn__expr *);
  int count = 0;
  for (int i = 0; i < body->symbols.count; i++) {
    const tn__symbol *symbol = body->symbols.data[i];
    int k = 0;
    while (k < body->inputs.count && body->inputs.data[k] != symbol->value) k++;
    const tn__value *operand = k < body->inputs.count ? node->inputs[first + k] : NULL;
    const tn__expr *value = NULL;
    if (operand != NULL && symbol->source == TN__SYMBOL_INPUT_DIM) value = operand->dims[symbol->index];
    if (operand != NULL && symbol->source == TN__SYMBOL_ELEMENT && operand->elements != NULL)
      value = operand->elements[symbol->index];
    if (value == NULL) {
      if (tn__expr_uses_var(dim, symbol->var)) return NULL;
      continue;
    }
    vars[count] = symbol->var;
    values[count++] = value;
  }
  return tn__ir_substitute(graph->ir, dim, vars, values, count);
}

static void set_dims(tn__graph *graph, tn__node *node, int k, const tn__value *like, const tn__expr *const *dims,
                     const bool *unknown) {
  tn__value *result = tn__g_set_output(graph, node, k, like->dtype, like->rank, dims, NULL);
  const tn__expr **final = TN__NEW_ARRAY(graph->arena, like->rank, const tn__expr *);
  for (int j = 0; j < like->rank; j++) final[j] = unknown[j] ? tn__graph_dim_symbol(graph, result, j) : dims[j];
  result->dims = final;
  result->holds = like->holds;
  result->item_rank = like->item_rank;
}

/* Sets result k from what each body gives: where they agree that, else a size that the run tells. */
static void set_result(tn__graph *graph, tn__node *node, int k, int first_input) {
  const tn__value *one = node->graphs[0]->outputs.data[k].value;
  const tn__expr *dims[TN__MAX_RANK];
  bool unknown[TN__MAX_RANK] = {false};
  for (int j = 0; j < one->rank; j++) dims[j] = tn__ir_index(graph->ir, 0);
  for (int b = 0; b < node->graph_count; b++) {
    const tn__graph *body = node->graphs[b];
    const tn__value *own = body->outputs.data[k].value;
    if (own->dtype != one->dtype || own->rank != one->rank || !holds_alike(own, one))
      tn__node_fail(graph, node, "result %d is %s in body \"%s\", but %s in body \"%s\"", k,
                    tn__value_type_text(graph, own), body->name, tn__value_type_text(graph, one),
                    node->graphs[0]->name);
    for (int j = 0; j < one->rank; j++) {
      const tn__expr *dim = outer_dim(graph, node, body, first_input, own->dims[j]);
      unknown[j] = unknown[j] || dim == NULL || (b > 0 && dim != dims[j]);
      if (dim != NULL) dims[j] = dim;
    }
  }
  set_dims(graph, node, k, one, dims, unknown);
}

/* Loop variable k. A dimension that the body hands on stays that of the operand; one that it changes is known when the
 * loop has ended, and no round may rely on it. */
static void set_variable(tn__graph *graph, tn__node *node, int k) {
  const tn__graph *body = node->graphs[1];
  const tn__value *start = node->inputs[k], *own = body->inputs.data[k], *next = body->outputs.data[k].value;
  bool unknown[TN__MAX_RANK] = {false};
  if (own->dtype != next->dtype || own->rank != next->rank || !holds_alike(own, next))
    tn__node_fail(graph, node, "operand %d is %s, but the body gives %s for the next round", k,
                  tn__value_type_text(graph, own), tn__value_type_text(graph, next));
  for (int j = 0; j < own->rank; j++) {
    unknown[j] = own->dims[j] != next->dims[j];
    if (unknown[j] && tn__ir_is_int(own->dims[j]))
      tn__node_fail(graph, node, "operand %d is %s, but the body gives %s for the next round", k,
                    tn__value_type_text(graph, own), tn__value_type_text(graph, next));
  }
  set_dims(graph, node, k, start, start->dims, unknown);
}

static void require_graphs(const tn__graph *graph, const tn__node *node, int count) {
  if (node->graph_count != count) tn__node_fail(graph, node, "has %d bodies, not %d", node->graph_count, count);
}

static void infer_if(tn__graph *graph, tn__node *node) {
  require_graphs(graph, node, 2);
  tn__g_require_dtype(graph, node, 0, TN_BOOL);
  if (tn__g_element_count(node->inputs[0]->rank, node->inputs[0]->dims) != 1)
    tn__node_fail(graph, node, "the condition must be one element, but is %s",
                  tn__value_type_text(graph, node->inputs[0]));
  match_inputs(graph, node, 0, 1);
  match_inputs(graph, node, 1, 1);
  int count = node->graphs[0]->outputs.count;
  if (node->graphs[1]->outputs.count != count)
    tn__node_fail(graph, node, "one branch has %d results, the other %d", count, node->graphs[1]->outputs.count);
  for (int k = 0; k < count; k++) set_result(graph, node, k, 1);
}

static void infer_while(tn__graph *graph, tn__node *node) {
  require_graphs(graph, node, 2);
  match_inputs(graph, node, 0, 0);
  match_inputs(graph, node, 1, 0);
  const tn__graph *condition = node->graphs[0], *body = node->graphs[1];
  if (condition->outputs.count != 1 || condition->outputs.data[0].value->dtype != TN_BOOL ||
      tn__g_element_count(condition->outputs.data[0].value->rank, condition->outputs.data[0].value->dims) != 1)
    tn__node_fail(graph, node, "the condition must give one bool");
  if (body->outputs.count != node->input_count)
    tn__node_fail(graph, node, "the body has %d results for %d operands", body->outputs.count, node->input_count);
  for (int k = 0; k < node->input_count; k++) set_variable(graph, node, k);
}

static void infer_call(tn__graph *graph, tn__node *node) {
  require_graphs(graph, node, 1);
  match_inputs(graph, node, 0, 0);
  for (int k = 0; k < node->graphs[0]->outputs.count; k++) set_result(graph, node, k, 0);
}

#define TN__ROW(op_name, how, suffix, text, more) \
  {.name = op_name,                               \
   .min_inputs = 0,                               \
   .max_inputs = -1,                              \
   .operands = "value...",                        \
   .op_class = TN__CLASS_OPAQUE,                  \
   .lowering = how,                               \
   .infer = infer_##suffix,                       \
   .doc = text,                                   \
   .facts = TN__FACT_STRINGS | (more)}

static const tn__op rows[] = {
    TN__ROW("if", TN__LOWER_CONTROL, if,
            "The results of the first body when operand 0 is true, else of the second; both take the other operands.",
            0),
    TN__ROW("while", TN__LOWER_CONTROL, while,
            "Gives the operands to the second body again and again while the first one says true.", TN__FACT_LOOPS),
    TN__ROW("call", TN__LOWER_CONTROL, call, "The results of the body.", 0),
};

const tn__op_family tn__ops_control = {rows, sizeof(rows) / sizeof(rows[0])};
