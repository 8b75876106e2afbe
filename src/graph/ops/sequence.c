/* Sequences and optional values of tensors, which the machine keeps as lists. Nodes are pure like all others: what
 * changes a list makes another one; the driver lets it take over the memory of one that nobody reads any more. */
#include <string.h>

#include "graph/internal.h"

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static const tn__value *require_list(const tn__graph *graph, const tn__node *node, int input) {
  if (node->inputs[input]->holds == TN__HOLDS_TENSOR)
    tn__node_fail(graph, node, "operand %d is a tensor, expected a sequence", input);
  return node->inputs[input];
}

static void require_tensor(const tn__graph *graph, const tn__node *node, int input) {
  if (node->inputs[input]->holds != TN__HOLDS_TENSOR)
    tn__node_fail(graph, node, "operand %d is a sequence, expected a tensor", input);
}

/* The position, which may be absent: one integer. */
static void require_position(const tn__graph *graph, const tn__node *node, int input) {
  if (input >= node->input_count || node->inputs[input] == NULL) return;
  require_tensor(graph, node, input);
  tn__g_require_int(graph, node, input);
  if (tn__g_element_count(node->inputs[input]->rank, node->inputs[input]->dims) != 1)
    tn__node_fail(graph, node, "the position must be one integer, but is %s",
                  tn__value_type_text(graph, node->inputs[input]));
}

static void set_list(tn__graph *graph, tn__node *node, tn_dtype dtype, int rank, tn__value_holds holds) {
  tn__value *result = tn__g_set_output(graph, node, 0, dtype, 0, NULL, NULL);
  result->holds = holds;
  result->item_rank = rank;
}

/* A tensor whose size only running the node tells. */
static void set_unknown(tn__graph *graph, tn__node *node, tn_dtype dtype, int rank, const tn__attr *shape) {
  const tn__expr *dims[TN__MAX_RANK];
  tn__graph_check_rank(graph, node->op->name, rank);
  const tn__expr **final = TN__NEW_ARRAY(graph->arena, rank, const tn__expr *);
  for (int i = 0; i < rank; i++) dims[i] = tn__ir_index(graph->ir, 0);
  tn__value *result = tn__g_set_output(graph, node, 0, dtype, rank, dims, NULL);
  for (int i = 0; i < rank; i++) {
    bool known = shape != NULL && i < shape->count && !tn__ir_is_int_value(shape->exprs[i], -1);
    final[i] = known ? shape->exprs[i] : tn__graph_dim_symbol(graph, result, i);
  }
  result->dims = final;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static void infer_empty(tn__graph *graph, tn__node *node) {
  set_list(graph, node, tn__g_require_dtype_attr(graph, node), (int)tn__node_int(node, "rank", 0),
           (tn__value_holds)tn__node_int(node, "holds", TN__HOLDS_SEQUENCE));
}

static void infer_insert(tn__graph *graph, tn__node *node) {
  const tn__value *list = require_list(graph, node, 0), *item = node->inputs[1];
  require_tensor(graph, node, 1);
  require_position(graph, node, 2);
  if (item->dtype != list->dtype || (item->rank != list->item_rank && list->item_rank != TN__ANY_RANK))
    tn__node_fail(graph, node, "a tensor %s cannot be put into a sequence of tensors of type %s and rank %d",
                  tn__value_type_text(graph, item), tn_dtype_name(list->dtype), list->item_rank);
  set_list(graph, node, list->dtype, list->item_rank, list->holds);
}

static void infer_erase(tn__graph *graph, tn__node *node) {
  const tn__value *list = require_list(graph, node, 0);
  require_position(graph, node, 1);
  set_list(graph, node, list->dtype, list->item_rank, list->holds);
}

static void infer_at(tn__graph *graph, tn__node *node) {
  const tn__value *list = require_list(graph, node, 0);
  if (list->item_rank == TN__ANY_RANK && tn__node_attr(node, "rank") == NULL)
    tn__node_fail(graph, node, "the rank of a tensor in a sequence of any ranks must be given");
  require_position(graph, node, 1);
  set_unknown(graph, node, list->dtype, (int)tn__node_int(node, "rank", list->item_rank), NULL);
}

static void infer_length(tn__graph *graph, tn__node *node) {
  require_list(graph, node, 0);
  tn__g_set_output(graph, node, 0, TN_I64, 0, NULL, NULL);
}

static void infer_has(tn__graph *graph, tn__node *node) {
  require_list(graph, node, 0);
  tn__g_set_output(graph, node, 0, TN_BOOL, 0, NULL, NULL);
}

static void infer_join(tn__graph *graph, tn__node *node) {
  const tn__value *list = require_list(graph, node, 0);
  if (list->item_rank == TN__ANY_RANK)
    tn__node_fail(graph, node, "a sequence of tensors of any ranks cannot be joined");
  int rank = list->item_rank + (tn__node_int(node, "stack", 0) != 0 ? 1 : 0);
  int64_t axis = tn__node_int(node, "axis", 0);
  if (axis < 0 || axis >= rank)
    tn__node_fail(graph, node, "axis %lld is outside of a tensor with %d dimensions", (long long)axis, rank);
  const tn__attr *empty = tn__node_attr(node, "empty");
  if (empty != NULL) tn__g_require_ints(graph, node, "empty", rank);
  for (int i = 0; empty != NULL && i < rank; i++)
    if (empty->ints[i] < 0)
      tn__node_fail(graph, node, "dimension %d would have %lld elements", i, (long long)empty->ints[i]);
  set_unknown(graph, node, list->dtype, rank, tn__node_attr(node, "shape"));
}

static void infer_split(tn__graph *graph, tn__node *node) {
  require_tensor(graph, node, 0);
  require_tensor(graph, node, 1);
  tn__g_require_dtype(graph, node, 1, TN_I64);
  const tn__value *x = node->inputs[0];
  tn__g_require_axis(graph, node, "axis", x->rank);
  set_list(graph, node, x->dtype, x->rank - (tn__node_int(node, "keep", 1) != 0 ? 0 : 1), TN__HOLDS_SEQUENCE);
}

static void infer_as(tn__graph *graph, tn__node *node) {
  const tn__value *list = require_list(graph, node, 0);
  set_list(graph, node, list->dtype, (int)tn__node_int(node, "rank", list->item_rank),
           (tn__value_holds)tn__node_int(node, "holds", list->holds));
}

#define TN__ROW(op_name, low, high, names, known, suffix, text, more) \
  {.name = op_name,                                                   \
   .min_inputs = low,                                                 \
   .max_inputs = high,                                                \
   .attributes = known,                                               \
   .operands = names,                                                 \
   .op_class = TN__CLASS_OPAQUE,                                      \
   .lowering = TN__LOWER_BUILTIN,                                     \
   .facts = TN__FACT_STRINGS | (more),                                \
   .infer = infer_##suffix,                                           \
   .doc = text}

static const tn__op rows[] = {
    TN__ROW("sequence_empty", 0, 0, "", "dtype:string rank:int[-1..12] holds:int[1..3]", empty,
            "A sequence without tensors, or an optional without value.", 0),
    TN__ROW("sequence_insert", 2, 3, "list item position?", NULL, insert,
            "The sequence with a tensor more, at a position or the end.", 0),
    TN__ROW("sequence_erase", 1, 2, "list position?", NULL, erase,
            "The sequence without the tensor at a position or the last one.", 0),
    TN__ROW("sequence_at", 1, 2, "list position?", "rank:int[0..]", at,
            "The tensor at a position, or the last one; of `rank` dimensions, else it fails.", 0),
    TN__ROW("sequence_length", 1, 1, "list", NULL, length, "The number of tensors.", 0),
    TN__ROW("sequence_join", 1, 1, "list", "axis:int stack:int shape:exprs empty:ints", join,
            "All tensors one after another along `axis`; along a new one with `stack`.", TN__FACT_LATE_SIZES),
    TN__ROW("sequence_split", 2, 2, "x lengths", "axis:int keep:int", split,
            "Pieces along `axis`, as long as operand 1 says.", 0),
    TN__ROW("optional_has", 1, 1, "list", NULL, has, "Whether the optional has a value.", 0),
    TN__ROW(
        "sequence_as", 1, 1, "list", "holds:int[1..3] rank:int[-1..12]", as,
        "The same tensors as a sequence or an optional, or as tensors of any or of one rank; fails when there is no "
        "value, or one has another rank.",
        0),
};

const tn__op_family tn__ops_sequence = {rows, sizeof(rows) / sizeof(rows[0])};
