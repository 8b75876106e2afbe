/* Algebra on single elements. Floating-point rules keep every result bit for bit unless docs/numerics.md says
 * otherwise: x + 0.0 stays, since it turns -0.0 into 0.0, but x + -0.0, x - 0.0 and x * 1.0 go. */
#include <math.h>
#include <string.h>

#include "graph/passes/rewrite.h"

/* ---- neutral operands --------------------------------------------------------------------------- */

/* Is the value this number everywhere (with this sign, when it is 0 and of a floating type)? */
static bool is_number(const tn__value *value, double number) {
  double element;
  if (!tn__pass_splat_number(value, &element) || element != number) return false;
  return !tn__dtype_is_float(value->dtype) || signbit(element) == signbit(number);
}

/* The operand takes the place of the result, unless their shapes are written differently. */
static tn__value *operand(const tn__node *node, int index) {
  return tn__pass_same_type(node->inputs[index], node->outputs[0]) ? node->inputs[index] : NULL;
}

static tn__value *add_nothing(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  return is_number(node->inputs[1], tn__dtype_is_float(node->inputs[1]->dtype) ? -0.0 : 0.0) ? operand(node, 0) : NULL;
}

static tn__value *subtract_nothing(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  return is_number(node->inputs[1], 0.0) ? operand(node, 0) : NULL;
}

static tn__value *times_one(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  return is_number(node->inputs[1], 1.0) ? operand(node, 0) : NULL;
}

/* Integers only: a floating-point x may be NaN or infinite. */
static tn__value *times_nothing(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  return tn__dtype_is_int(node->inputs[1]->dtype) && is_number(node->inputs[1], 0.0) ? operand(node, 1) : NULL;
}

static tn__value *same_operands(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  return node->inputs[0] == node->inputs[1] ? operand(node, 0) : NULL;
}

static bool depends_on_nothing(const tn__value *value) {
  if (tn__pass_is_constant(value)) return true;
  const tn__node *node = tn__pass_producer_of(value, "broadcast_in_dim");
  return node != NULL && tn__pass_is_constant(node->inputs[0]);
}

/* Constants stand on the right, so that the rules look there only. */
static tn__value *constant_right(tn__rewriter *rewriter, tn__node *node) {
  if (!depends_on_nothing(node->inputs[0]) || depends_on_nothing(node->inputs[1])) return NULL;
  tn__value *inputs[2] = {node->inputs[1], node->inputs[0]};
  return operand(node, 0) == NULL || operand(node, 1) == NULL
             ? NULL
             : tn__pass_node_again(rewriter->graph, node, inputs, NULL, 0);
}

/* ---- signs and conversions ---------------------------------------------------------------------- */

/* f(f(x)) = x: negate, not. */
static tn__value *twice(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], node->op->name);
  return inner == NULL ? NULL : inner->inputs[0];
}

/* f(f(x)) = f(x): abs, floor and their like. */
static tn__value *once(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  return tn__pass_producer_of(node->inputs[0], node->op->name) == NULL ? NULL : node->inputs[0];
}

/* a + (-b) becomes a - b, unless b is constant: "product minus constant columns" turns that difference into this
 * sum, so the two rules would alternate. */
static tn__value *add_negative(tn__rewriter *rewriter, tn__node *node) {
  for (int i = 0; i < 2; i++) {
    const tn__node *negate = tn__pass_producer_of(node->inputs[i], "negate");
    if (negate != NULL && !tn__pass_is_precomputable(negate->inputs[0]))
      return tn__g_binary(rewriter->graph, "subtract", node->inputs[1 - i], negate->inputs[0]);
  }
  return NULL;
}

static tn__value *subtract_negative(tn__rewriter *rewriter, tn__node *node) {
  const tn__node *negate = tn__pass_producer_of(node->inputs[1], "negate");
  return negate == NULL ? NULL : tn__g_binary(rewriter->graph, "add", node->inputs[0], negate->inputs[0]);
}

/* Does every value of `from` have its own in `to`? */
static bool is_lossless(tn_dtype from, tn_dtype to) {
  int bits = tn__dtype_bits(from), wide = tn__dtype_bits(to);
  if (from == to || from == TN_BOOL) return true;
  if (to == TN_BOOL) return false;
  if (tn__dtype_is_float(from)) return (to == TN_F64) || (to == TN_F32 && bits == 16);
  if (tn__dtype_is_float(to)) return to == TN_F64 ? bits <= 32 : to == TN_F32 ? bits <= 16 : to == TN_F16 && bits <= 8;
  if (tn__dtype_is_signed(from)) return tn__dtype_is_signed(to) && wide >= bits;
  return tn__dtype_is_signed(to) ? wide > bits : wide >= bits;
}

static tn__value *convert_nothing(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  return node->inputs[0]->dtype == node->outputs[0]->dtype ? node->inputs[0] : NULL;
}

/* From an integer by way of floats to an integer: too large ones become the target's greatest, where a conversion
 * without them would leave away digits. */
static bool saturates(tn_dtype from, tn_dtype between, tn_dtype to) {
  return tn__dtype_is_int(from) && tn__dtype_is_float(between) && tn__dtype_is_int(to) && !is_lossless(from, to);
}

static tn__value *convert_convert(tn__rewriter *rewriter, tn__node *node) {
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "convert");
  if (inner == NULL) return NULL;
  tn_dtype from = inner->inputs[0]->dtype, between = node->inputs[0]->dtype, to = node->outputs[0]->dtype;
  bool back = from == to && tn__node_int(inner, "whole", 0) != 0;
  if (!back && (!is_lossless(from, between) || saturates(from, between, to))) return NULL;
  return tn__g_convert(rewriter->graph, inner->inputs[0], to);
}

/* ---- powers, selections ------------------------------------------------------------------------- */

/* x^1, x^2 and x^3; the last rounds twice, which 16-bit types would feel. */
static tn__value *small_power(tn__rewriter *rewriter, tn__node *node) {
  tn__value *x = node->inputs[0];
  double exponent;
  if (!tn__pass_splat_number(node->inputs[1], &exponent) || operand(node, 0) == NULL) return NULL;
  if (exponent == 1) return x;
  if (exponent != 2 && exponent != 3) return NULL;
  if (!tn__dtype_is_float(x->dtype) || (exponent == 3 && tn__dtype_bits(x->dtype) < 32)) return NULL;
  tn__value *square = tn__g_binary(rewriter->graph, "multiply", x, x);
  return exponent == 2 ? square : tn__g_binary(rewriter->graph, "multiply", square, x);
}

static tn__value *select_known(tn__rewriter *rewriter, tn__node *node) {
  double condition;
  (void)rewriter;
  if (node->inputs[1] == node->inputs[2]) return operand(node, 1);
  if (!tn__pass_splat_number(node->inputs[0], &condition)) return NULL;
  return operand(node, condition != 0 ? 1 : 2);
}

static tn__value *select_not(tn__rewriter *rewriter, tn__node *node) {
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "not");
  if (inner == NULL) return NULL;
  tn__value *inputs[3] = {inner->inputs[0], node->inputs[2], node->inputs[1]};
  return tn__pass_node_again(rewriter->graph, node, inputs, NULL, 0);
}

/* ---- broadcasts sink ---------------------------------------------------------------------------- */

static bool same_broadcast(const tn__node *a, const tn__node *b) {
  const tn__attr *x = tn__node_attr(a, "axes"), *y = tn__node_attr(b, "axes");
  if (x->count != y->count || !tn__pass_same_shape(a->inputs[0], b->inputs[0])) return false;
  return x->count == 0 || memcmp(x->ints, y->ints, (size_t)x->count * sizeof *x->ints) == 0;
}

/* f(broadcast(x), broadcast(y)) is broadcast(f(x, y)): one computation for each element of the small operands. A splat
 * or a broadcast scalar beside them counts as any broadcast. */
static tn__value *broadcast_operands(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  const tn__node *broadcast = NULL;
  tn__value *inputs[3];
  if (node->input_count > 3) return NULL;
  for (int i = 0; i < node->input_count; i++) {
    const tn__node *own = tn__pass_producer_of(node->inputs[i], "broadcast_in_dim");
    if (own == NULL && !(tn__pass_is_constant(node->inputs[i]) && node->inputs[i]->splat)) return NULL;
    if (own == NULL || own->inputs[0]->rank == 0) continue;
    if (broadcast != NULL && !same_broadcast(broadcast, own)) return NULL;
    broadcast = own;
  }
  if (broadcast == NULL || !tn__pass_same_shape(broadcast->outputs[0], node->outputs[0])) return NULL;
  const tn__value *small = broadcast->inputs[0];
  for (int i = 0; i < node->input_count; i++) {
    const tn__node *own = tn__pass_producer_of(node->inputs[i], "broadcast_in_dim");
    if (own != NULL && own->inputs[0]->rank > 0) {
      inputs[i] = own->inputs[0];
      continue;
    }
    tn__value *scalar = tn__pass_along(graph, node->inputs[i], -1);
    if (scalar == NULL) return NULL;
    inputs[i] = tn__g_broadcast_to(graph, scalar, small->rank, small->dims);
  }
  tn__value *result = tn__pass_node_again(graph, node, inputs, NULL, 0);
  return tn__g_broadcast_in_dim(graph, result, node->outputs[0]->rank, node->outputs[0]->dims,
                                tn__node_attr(broadcast, "axes")->ints);
}

static const tn__rewrite_rule rules[] = {
    {"x + 0", "add", add_nothing},
    {"x - 0", "subtract", subtract_nothing},
    {"x * 1", "multiply", times_one},
    {"x / 1", "divide", times_one},
    {"x * 0", "multiply", times_nothing},
    {"c + x", "add", constant_right},
    {"c * x", "multiply", constant_right},
    {"max(c, x)", "maximum", constant_right},
    {"min(c, x)", "minimum", constant_right},
    {"max(x, x)", "maximum", same_operands},
    {"min(x, x)", "minimum", same_operands},
    {"x and x", "and", same_operands},
    {"x or x", "or", same_operands},
    {"--x", "negate", twice},
    {"not not x", "not", twice},
    {"abs(abs(x))", "abs", once},
    {"floor(floor(x))", "floor", once},
    {"ceil(ceil(x))", "ceil", once},
    {"x + -y", "add", add_negative},
    {"x - -y", "subtract", subtract_negative},
    {"convert to the same type", "convert", convert_nothing},
    {"convert of convert", "convert", convert_convert},
    {"small powers", "power", small_power},
    {"select with a known condition", "select", select_known},
    {"select with a negated condition", "select", select_not},
    {"operator over broadcasts", NULL, broadcast_operands},
};

const tn__rule_set tn__rules_arithmetic = {rules, sizeof rules / sizeof *rules};
