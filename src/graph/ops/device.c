/* Operators about devices: annotations, which planning takes away, and the copies that it puts there. */
#include "graph/internal.h"

static void infer_like(tn__graph *graph, tn__node *node) {
  const tn__value *x = node->inputs[0];
  tn__value *result = tn__g_set_output(graph, node, 0, x->dtype, x->rank, x->dims, x->elements);
  result->holds = x->holds;
  result->item_rank = x->item_rank;
  if (x->held != NULL) tn__value_hold(graph, result, x->held);
}

static void declare_like(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                         const tn__buffer **outputs) {
  outputs[0] = tn__lower_copy(lower, inputs[0], node->op->name);
}

#define TN__ROW(op_name, suffix, ...) TN__DECLARED_ROW(1, 1, op_name, "x", TN__CLASS_OPAQUE, suffix, __VA_ARGS__)

static const tn__op rows[] = {
    TN__ROW(
        "on_device", like,
        "The operand, of which is said where it lives: with `body` the operand, with `result` the result, "
        "on `device`. Between the two there may be a copy, unless both are said. `by` is who says it, for messages.",
        .attributes = "device:string! body:int[0..1] result:int[0..1] by:string",
        .facts = TN__FACT_STRINGS | TN__FACT_SAYS_PLACE),
    TN__ROW("device_copy", like, "The operand, copied to the device `to`.", .attributes = "to:string!",
            .facts = TN__FACT_STRINGS | TN__FACT_COPIES),
};

const tn__op_family tn__ops_device = {rows, sizeof(rows) / sizeof(rows[0])};
