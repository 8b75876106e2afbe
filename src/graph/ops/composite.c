/* Composites: what is more than one core operator and is wanted whole, as StableHLO's `composite` is. A row says what
 * the node means by `expand`, which builds its body of core operators. Passes see one node and go by its row: its
 * class, its operands, its attributes. What is declared is the body, so that kernels are those of the core operators.
 *
 * Numerics are those of the body, operator by operator. It is computed in f32 where the operand is of 16 bits, but for
 * element-wise composites, which have one type throughout. */
#include <math.h>
#include <string.h>

#include "base/invariant.h"
#include "graph/build/build.h"
#include "graph/build/outline.h"
#include "graph/internal.h"

static tn__value *binary(tn__graph *g, const char *op, tn__value *a, tn__value *b) { return tn__g_binary(g, op, a, b); }

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* One floating operand; the result is like it. */
static void infer_like(tn__graph *graph, tn__node *node) {
  const tn__value *x = node->inputs[0];
  tn__g_require_float(graph, node, 0);
  tn__g_set_output(graph, node, 0, x->dtype, x->rank, x->dims, NULL);
}

static void require_axes(tn__graph *graph, const tn__node *node) {
  const tn__attr *axes = tn__node_attr(node, "axes");
  int rank = node->inputs[0]->rank;
  for (int i = 0; i < axes->count; i++)
    for (int j = 0; j <= i; j++)
      if (axes->ints[i] < 0 || axes->ints[i] >= rank || (j < i && axes->ints[i] == axes->ints[j]))
        tn__node_fail(graph, node, "axes must be different ones of the %d dimensions of the operand", rank);
}

static void infer_rows(tn__graph *graph, tn__node *node) {
  require_axes(graph, node);
  infer_like(graph, node);
}

static void infer_norm(tn__graph *graph, tn__node *node) {
  tn__norm_scale how;
  if (!tn__norm_scale_parse(tn__node_string(node, "scale", "rsqrt"), &how))
    tn__node_fail(graph, node, "scale \"%s\" is not one of rsqrt, divide and reciprocal",
                  tn__node_string(node, "scale", ""));
  infer_rows(graph, node);
}

/* Are the mean and the inverse of the root results, too? */
static bool has_statistics(const tn__node *node) { return tn__node_int(node, "statistics", 0) != 0; }

static void infer_layer_norm(tn__graph *graph, tn__node *node) {
  const tn__value *x = node->inputs[0];
  infer_norm(graph, node);
  if (!has_statistics(node)) return;
  if (strcmp(tn__node_string(node, "scale", "rsqrt"), "divide") == 0)
    tn__node_fail(graph, node, "statistics are not made where scale is divide");
  const tn__attr *axes = tn__node_attr(node, "axes");
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  for (int i = 0; i < axes->count; i++) dims[axes->ints[i]] = tn__ir_index(graph->ir, 1);
  for (int i = 1; i <= 2; i++) tn__g_set_output(graph, node, i, tn__g_accumulator_of(x->dtype), x->rank, dims, NULL);
}

static void infer_gelu(tn__graph *graph, tn__node *node) {
  const char *approximate = tn__node_string(node, "approximate", "none");
  if (strcmp(approximate, "none") != 0 && strcmp(approximate, "tanh") != 0)
    tn__node_fail(graph, node, "approximate \"%s\" is neither none nor tanh", approximate);
  infer_like(graph, node);
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static tn__value *wide(tn__graph *g, tn__value *x) { return tn__g_convert(g, x, tn__g_accumulator_of(x->dtype)); }

static tn__value *along(tn__graph *g, const tn__node *node, tn__reduce_kind kind, tn__value *x) {
  const tn__attr *axes = tn__node_attr(node, "axes");
  return tn__g_reduce(g, kind, x, axes->ints, axes->count, true);
}

static void expand_softmax(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn__value *x = wide(g, inputs[0]), *most = along(g, node, TN__REDUCE_MAX, x), *none = NULL;
  bool empty = tn__node_int(node, "empty", 0) != 0;
  if (empty) {
    none = tn__g_compare(g, TN__CMP_EQ, most, tn__g_scalar(g, x->dtype, -INFINITY));
    most = tn__g_select(g, none, tn__g_scalar(g, x->dtype, 0), most);
  }
  tn__value *e = tn__g_unary(g, "exponential", binary(g, "subtract", x, most)), *result;
  tn__value *sum = along(g, node, TN__REDUCE_SUM, e), *one = tn__g_scalar(g, sum->dtype, 1);
  if (empty) sum = tn__g_select(g, none, one, sum);
  if (tn__node_int(node, "divide", 0) != 0)
    result = binary(g, "divide", e, sum);
  else /* one division a row; the sum is 1 at the least */
    result = binary(g, "multiply", e, binary(g, "divide", one, sum));
  outputs[0] = tn__g_convert(g, result, inputs[0]->dtype);
}

static void expand_log_softmax(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn__value *x = wide(g, inputs[0]), *shifted = binary(g, "subtract", x, along(g, node, TN__REDUCE_MAX, x));
  tn__value *sum = along(g, node, TN__REDUCE_SUM, tn__g_unary(g, "exponential", shifted));
  outputs[0] = tn__g_convert(g, binary(g, "subtract", shifted, tn__g_unary(g, "log", sum)), inputs[0]->dtype);
}

static void expand_gelu(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn__value *x = inputs[0];
  if (strcmp(tn__node_string(node, "approximate", "none"), "none") == 0) {
    tn__value *phi = tn__g_binary_s(g, "add", tn__g_unary(g, "erf", tn__g_binary_s(g, "multiply", x, sqrt(0.5))), 1);
    outputs[0] = binary(g, "multiply", tn__g_binary_s(g, "multiply", x, 0.5), phi);
    return;
  }
  tn__value *cube = binary(g, "multiply", binary(g, "multiply", x, x), x);
  tn__value *sum = binary(g, "add", x, tn__g_binary_s(g, "multiply", cube, TN__GELU_CUBE));
  tn__value *phi = tn__g_unary(g, "tanh", tn__g_binary_s(g, "multiply", sum, sqrt(2 / M_PI)));
  phi = tn__g_binary_s(g, "add", phi, 1);
  outputs[0] = binary(g, "multiply", tn__g_binary_s(g, "multiply", x, 0.5), phi);
}

/* x by the root of variance + epsilon, which has the size 1 along the rows. *inverse: what x is multiplied by; NULL: it
 * is divided. */
static tn__value *scaled(tn__graph *g, const tn__node *node, tn__value *x, tn__value *variance, tn__value **inverse) {
  tn__norm_scale how = TN__NORM_RSQRT;
  bool known = tn__norm_scale_parse(tn__node_string(node, "scale", "rsqrt"), &how);
  TN__INVARIANT(known); /* checked when the node was created */
  *inverse = NULL;
  variance = tn__g_binary_s(g, "add", variance, tn__node_float(node, "epsilon", 0));
  if (how == TN__NORM_RSQRT) {
    *inverse = tn__g_unary(g, "rsqrt", variance);
  } else {
    tn__value *deviation = tn__g_unary(g, "sqrt", variance);
    if (how == TN__NORM_DIVIDE) return binary(g, "divide", x, deviation);
    *inverse = binary(g, "divide", tn__g_scalar(g, x->dtype, 1), deviation);
  }
  return binary(g, "multiply", x, *inverse);
}

static tn__value *mean(tn__graph *g, const tn__node *node, tn__value *x) {
  const tn__attr *axes = tn__node_attr(node, "axes");
  return tn__g_mean(g, x, axes->ints, axes->count, true);
}

static void expand_layer_norm(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn__value *x = wide(g, inputs[0]), *middle = mean(g, node, x), *centered = binary(g, "subtract", x, middle), *inverse;
  tn__value *variance = mean(g, node, binary(g, "multiply", centered, centered));
  outputs[0] = tn__g_convert(g, scaled(g, node, centered, variance, &inverse), inputs[0]->dtype);
  if (!has_statistics(node)) return;
  outputs[1] = middle;
  outputs[2] = inverse;
}

static void expand_rms_norm(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn__value *x = wide(g, inputs[0]), *inverse;
  tn__value *result = scaled(g, node, x, mean(g, node, binary(g, "multiply", x, x)), &inverse);
  outputs[0] = tn__g_convert(g, result, inputs[0]->dtype);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static void expand_carried(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn__g_copy_body(g, node->graphs[0], inputs, outputs);
}

static void infer_carried(tn__graph *graph, tn__node *node) {
  if (node->graph_count != 1) tn__node_fail(graph, node, "has %d bodies, not 1", node->graph_count);
  const tn__graph *body = node->graphs[0];
  if (body->inputs.count != node->input_count || body->outputs.count != 1)
    tn__node_fail(graph, node, "the body takes %d operands and has %d results, not %d and 1", body->inputs.count,
                  body->outputs.count, node->input_count);
  if (body->symbols.count > 0) tn__node_fail(graph, node, "the body has symbols of its own");
  for (int i = 0; i < body->nodes.count; i++)
    if (body->nodes.data[i]->op->lowering != TN__LOWER_DECLARE)
      tn__node_fail(graph, node, "the body has a node of %s, which no kernel computes", body->nodes.data[i]->op->name);
  for (int i = 0; i < node->input_count; i++) {
    const tn__value *own = body->inputs.data[i], *given = node->inputs[i];
    bool like = given->holds == TN__HOLDS_TENSOR && own->dtype == given->dtype && own->rank == given->rank;
    for (int d = 0; like && d < own->rank; d++) like = own->dims[d] == given->dims[d];
    if (!like)
      tn__node_fail(graph, node, "operand %d is %s, but the body takes %s", i, tn__value_type_text(graph, given),
                    tn__value_type_text(graph, own));
  }
  const tn__value *result = body->outputs.data[0].value;
  tn__g_set_output(graph, node, 0, result->dtype, result->rank, result->dims, NULL);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

#define TN__ROW(op_name, class, known, infer_fn, expand_fn, ...)              \
  {.name = op_name,                                                           \
   .facts = known,                                                            \
   .moves = {.operands = 1, .axes = class == TN__CLASS_ROWS ? "axes" : NULL}, \
   .min_inputs = 1,                                                           \
   .max_inputs = 1,                                                           \
   .operands = "x[*s]",                                                       \
   .op_class = class,                                                         \
   .lowering = TN__LOWER_DECLARE,                                             \
   .infer = infer_fn,                                                         \
   .expand = expand_fn,                                                       \
   .doc = __VA_ARGS__}

static const tn__op rows[] = {
    TN__ROW("softmax", TN__CLASS_ROWS, TN__FACT_WEIGHTS, infer_rows, expand_softmax,
            "e^x over the sum of its row, all elements along `axes`: times the sum's reciprocal, or by the sum with "
            "`divide`. A row of negative infinities gives NaN, or zeros with `empty`.",
            .attributes = "axes!:ints divide:int empty:int"),
    TN__ROW("log_softmax", TN__CLASS_ROWS, 0, infer_rows, expand_log_softmax,
            "x less the greatest of its row less the logarithm of the sum of e to these.", .attributes = "axes!:ints"),
    TN__ROW("gelu", TN__CLASS_ELEMENTWISE, 0, infer_gelu, expand_gelu,
            "x / 2 (erf(x / sqrt 2) + 1), or with `approximate` tanh x / 2 (tanh(sqrt(2 / pi) (x + 0.044715 x^3)) + "
            "1).",
            .attributes = "approximate:string"),
    TN__ROW(
        "layer_norm", TN__CLASS_ROWS, 0, infer_layer_norm, expand_layer_norm,
        "x less the mean of its row, by the root of their variance + `epsilon`: times rsqrt, or as `scale` says by "
        "the root (divide) or times its reciprocal. With `statistics` also the mean and what x is multiplied by, as "
        "it is computed, of the size 1 along the row.",
        .attributes = "axes!:ints epsilon!:float scale:string statistics:int"),
    TN__ROW("rms_norm", TN__CLASS_ROWS, 0, infer_norm, expand_rms_norm,
            "x by the root of the mean of the squares of its row + `epsilon`, as `scale` says.",
            .attributes = "axes!:ints epsilon!:float scale:string"),
    {.name = "attention",
     .min_inputs = 0,
     .max_inputs = -1,
     .operands = "value...",
     .op_class = TN__CLASS_CONTRACTION,
     .lowering = TN__LOWER_DECLARE,
     .facts = TN__FACT_BODY,
     .infer = infer_carried,
     .expand = expand_carried,
     .doc = "softmax(queries keys) values, as its body says: what may happen to scores and weights on the way is the "
            "model's."},
};

const tn__op_family tn__ops_composite = {rows, sizeof(rows) / sizeof(rows[0])};
