/* raise: composites that a model spells out in core operators are made one node again, once and here, so that no later
 * pass has to find them. A rule looks at the last node of a pattern. Where models spell a composite in several ways
 * that round differently, the composite's attributes say which (`divide`, `scale`): results are the same to the bit.
 * Two things are taken for equal that may differ in the last bits: where GELU is multiplied by a half, which is exact
 * short of denormals, and x / sqrt(2) and x * sqrt(1 / 2). */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/passes/rewrite.h"

/* ---- what patterns are made of ---------------------------------------------------------------------------------- */

/* The number as the value's type has it, or a neighbour of that, as whoever wrote it down may have rounded it; one that
 * every type has (1, 0.5) is meant as it is. What was written in fewer digits is another number. */
static bool is_about(const tn__value *v, double number) {
  double element, step = v->dtype == TN_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
  if (!tn__pass_splat_number(v, &element)) return false;
  if ((double)(float)number == number) return element == number;
  return fabs(element - number) <= 1.5 * step * fabs(number);
}

/* The producer of a value that only one node reads. */
static const tn__node *made_by(tn__rewriter *r, const tn__value *v, const char *op) {
  return tn__pass_uses_of(r, v) == 1 ? tn__pass_producer_of(v, op) : NULL;
}

/* `v` op number: the other operand. */
static tn__value *with_number(tn__rewriter *r, const tn__value *v, const char *op, double number) {
  const tn__node *n = made_by(r, v, op);
  return n != NULL && is_about(n->inputs[1], number) ? n->inputs[0] : NULL;
}

/* A number for each row, spread over the row: the tensor of these numbers, of which each dimension is that of `like` or
 * 1, in its place. */
static tn__value *spread_over(const tn__value *v, const tn__value *like) {
  const tn__node *spread = tn__pass_producer_of(v, "broadcast_in_dim");
  if (spread == NULL || !tn__pass_same_shape(v, like) || spread->inputs[0]->rank != like->rank) return NULL;
  return spread->inputs[0];
}

/* The reduction that makes `v`, with its dimensions kept, of `x`. */
static const tn__node *reduction_of(const tn__value *v, const char *kind, const tn__value *x) {
  const tn__node *n = tn__pass_producer_of(v, "reduce");
  if (n == NULL || n->inputs[0] != x || strcmp(tn__node_string(n, "kind", ""), kind) != 0) return NULL;
  return tn__node_int(n, "keep_dims", 0) != 0 ? n : NULL;
}

static bool same_axes(const tn__node *a, const tn__node *b) {
  const tn__attr *x = tn__node_attr(a, "axes"), *y = tn__node_attr(b, "axes");
  return x->count == y->count && memcmp(x->ints, y->ints, (size_t)x->count * sizeof *x->ints) == 0;
}

/* What composites compute in as it is: others would be widened. */
static bool is_wide(const tn__value *v) { return v->dtype == TN_F32 || v->dtype == TN_F64; }

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

/* e^(x - greatest of the row) and what stands for the sum of the row: x and the axis, or NULL. */
static tn__value *softmax_operand(tn__rewriter *r, const tn__value *e, const tn__value *sum, int *axis) {
  const tn__node *exponential = tn__pass_producer_of(e, "exponential");
  const tn__node *shifted = exponential == NULL ? NULL : made_by(r, exponential->inputs[0], "subtract");
  const tn__node *total = reduction_of(sum, "sum", e);
  if (shifted == NULL || total == NULL || !is_wide(e) || tn__pass_uses_of(r, e) != 2 || tn__pass_uses_of(r, sum) != 1)
    return NULL;
  tn__value *x = shifted->inputs[0], *most = spread_over(shifted->inputs[1], x);
  const tn__node *greatest = most == NULL ? NULL : reduction_of(most, "max", x);
  if (greatest == NULL || tn__pass_uses_of(r, most) != 1 || tn__pass_uses_of(r, shifted->inputs[1]) != 1) return NULL;
  if (!same_axes(greatest, total) || tn__node_attr(total, "axes")->count != 1) return NULL;
  *axis = (int)tn__node_attr(total, "axes")->ints[0];
  return x;
}

static tn__value *softmax_by_division(tn__rewriter *r, tn__node *node) {
  tn__value *e = node->inputs[0];
  const tn__value *sum = spread_over(node->inputs[1], e);
  int axis = 0;
  tn__value *x = sum == NULL || tn__pass_uses_of(r, node->inputs[1]) != 1 ? NULL : softmax_operand(r, e, sum, &axis);
  return x == NULL ? NULL : tn__g_softmax(r->graph, x, axis, TN__SOFTMAX_DIVIDE);
}

static tn__value *softmax_by_reciprocal(tn__rewriter *r, tn__node *node) {
  for (int i = 0; i < 2; i++) {
    tn__value *e = node->inputs[i];
    const tn__value *factor = spread_over(node->inputs[1 - i], e);
    const tn__node *one = factor == NULL ? NULL : made_by(r, factor, "divide");
    int axis = 0;
    double number;
    if (one == NULL || !tn__pass_splat_number(one->inputs[0], &number) || number != 1) continue;
    tn__value *x = softmax_operand(r, e, one->inputs[1], &axis);
    if (x != NULL) return tn__g_softmax(r->graph, x, axis, TN__SOFTMAX_PLAIN);
  }
  return NULL;
}

/* (x - greatest) - log(sum of e^(x - greatest)) */
static tn__value *log_softmax(tn__rewriter *r, tn__node *node) {
  tn__value *shifted = node->inputs[0];
  const tn__value *spread = spread_over(node->inputs[1], shifted);
  const tn__node *log = spread == NULL ? NULL : made_by(r, spread, "log");
  const tn__node *sub = tn__pass_producer_of(shifted, "subtract");
  const tn__node *sum = log == NULL ? NULL : made_by(r, log->inputs[0], "reduce");
  const tn__node *e = sum == NULL ? NULL : made_by(r, sum->inputs[0], "exponential");
  if (e == NULL || sub == NULL || e->inputs[0] != shifted || tn__pass_uses_of(r, shifted) != 2 || !is_wide(shifted))
    return NULL;
  tn__value *x = sub->inputs[0], *most = spread_over(sub->inputs[1], x);
  const tn__node *greatest = most == NULL ? NULL : reduction_of(most, "max", x);
  if (greatest == NULL || reduction_of(log->inputs[0], "sum", sum->inputs[0]) == NULL) return NULL;
  if (!same_axes(greatest, sum) || tn__node_attr(sum, "axes")->count != 1) return NULL;
  return tn__g_log_softmax(r->graph, x, (int)tn__node_attr(sum, "axes")->ints[0]);
}

/* ---- GELU -------------------------------------------------------------------------------------------------------- */

enum { FACTORS = 3 };

/* The three factors of a product. */
TN_MUST_USE static bool factors_of(tn__rewriter *r, const tn__node *product, tn__value *out[FACTORS]) {
  for (int i = 0; i < 2; i++) {
    const tn__node *inner = made_by(r, product->inputs[i], "multiply");
    if (inner == NULL) continue;
    out[0] = product->inputs[1 - i];
    out[1] = inner->inputs[0];
    out[2] = inner->inputs[1];
    return true;
  }
  return false;
}

static bool is_error_function(tn__rewriter *r, const tn__value *phi, const tn__value *x) {
  const tn__node *erf = made_by(r, phi, "erf");
  if (erf == NULL) return false;
  return with_number(r, erf->inputs[0], "multiply", sqrt(0.5)) == x ||
         with_number(r, erf->inputs[0], "divide", sqrt(2)) == x;
}

static bool is_cube(tn__rewriter *r, const tn__value *v, const tn__value *x) {
  if (with_number(r, v, "power", 3) == x) return true;
  const tn__node *product = made_by(r, v, "multiply");
  for (int i = 0; product != NULL && i < 2; i++) {
    const tn__node *square = made_by(r, product->inputs[i], "multiply");
    if (product->inputs[1 - i] == x && square != NULL && square->inputs[0] == x && square->inputs[1] == x) return true;
  }
  return false;
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static bool is_tanh(tn__rewriter *r, const tn__value *phi, const tn__value *x) {
  const tn__node *tanh = made_by(r, phi, "tanh");
  const tn__value *inner = tanh == NULL ? NULL : with_number(r, tanh->inputs[0], "multiply", sqrt(2 / M_PI));
  const tn__node *sum = inner == NULL ? NULL : made_by(r, inner, "add");
  for (int i = 0; sum != NULL && i < 2; i++) {
    const tn__value *cube = with_number(r, sum->inputs[1 - i], "multiply", TN__GELU_CUBE);
    if (sum->inputs[i] == x && cube != NULL && is_cube(r, cube, x)) return true;
  }
  return false;
}

/* x, a half, and one more than what says the kind, in any order. */
static tn__value *gelu(tn__rewriter *r, tn__node *node) {
  tn__value *factors[FACTORS];
  if (!is_wide(node->outputs[0]) || !factors_of(r, node, factors)) return NULL;
  for (int half = 0; half < FACTORS; half++) {
    if (!is_about(factors[half], 0.5)) continue;
    for (int i = 0; i < 2; i++) {
      tn__value *x = factors[(half + 1 + i) % FACTORS], *rest = factors[(half + 2 - i) % FACTORS];
      const tn__value *phi = with_number(r, rest, "add", 1);
      if (phi == NULL || !tn__pass_same_type(x, node->outputs[0])) continue;
      if (is_error_function(r, phi, x)) return tn__g_gelu(r->graph, x, false);
      if (is_tanh(r, phi, x)) return tn__g_gelu(r->graph, x, true);
    }
  }
  return NULL;
}

/* ---- normalisations ---------------------------------------------------------------------------------------------- */

/* The mean along rows: what it is of, and the reduction; NULL: none. */
static tn__value *mean_operand(tn__rewriter *r, const tn__value *v, const tn__node **reduction) {
  const tn__node *divide = tn__pass_producer_of(v, "divide");
  double size;
  if (divide == NULL || tn__pass_uses_of(r, divide->inputs[0]) != 1) return NULL;
  const tn__node *sum = tn__pass_producer_of(divide->inputs[0], "reduce");
  if (sum == NULL || reduction_of(divide->inputs[0], "sum", sum->inputs[0]) == NULL) return NULL;
  const tn__attr *axes = tn__node_attr(sum, "axes");
  double expected = 1;
  for (int i = 0; i < axes->count; i++) {
    int64_t dim = tn__g_dim_const(sum->inputs[0], (int)axes->ints[i]);
    if (dim < 0) return NULL;
    expected *= (double)dim;
  }
  if (!tn__pass_splat_number(divide->inputs[1], &size) || size != expected) return NULL;
  *reduction = sum;
  return sum->inputs[0];
}

/* x by the root of the mean of the squares of its rows: x, or NULL. `scale` is what x is multiplied or divided by. */
static tn__value *scaled_operand(tn__rewriter *r, const tn__node *node, int operand, tn__norm_scale *how,
                                 double *epsilon, const tn__node **reduction) {
  tn__value *x = node->inputs[operand];
  const tn__value *spread = node->inputs[1 - operand], *factor = spread_over(spread, x), *variance = NULL;
  if (factor == NULL || tn__pass_uses_of(r, spread) != 1 || !is_wide(x) || !tn__pass_same_type(x, node->outputs[0]))
    return NULL;
  const tn__node *root = made_by(r, factor, "sqrt"), *one = made_by(r, factor, "divide");
  if (tn__g_is_op(node, "divide")) {
    *how = TN__NORM_DIVIDE;
  } else if (one != NULL && is_about(one->inputs[0], 1)) {
    root = made_by(r, one->inputs[1], "sqrt");
    *how = TN__NORM_RECIPROCAL;
  } else {
    root = made_by(r, factor, "rsqrt");
    *how = TN__NORM_RSQRT;
  }
  const tn__node *sum = root == NULL ? NULL : made_by(r, root->inputs[0], "add");
  if (sum == NULL || !tn__pass_splat_number(sum->inputs[1], epsilon) || tn__pass_uses_of(r, sum->inputs[0]) != 1)
    return NULL;
  variance = mean_operand(r, sum->inputs[0], reduction);
  const tn__node *square = variance == NULL ? NULL : made_by(r, variance, "multiply");
  return square != NULL && square->inputs[0] == x && square->inputs[1] == x ? x : NULL;
}

static tn__value *norm(tn__rewriter *r, tn__node *node) {
  for (int i = 0; i < (tn__g_is_op(node, "divide") ? 1 : 2); i++) {
    tn__norm_scale how = TN__NORM_RSQRT;
    const tn__node *reduction = NULL, *mean = NULL;
    double epsilon = 0;
    tn__value *x = scaled_operand(r, node, i, &how, &epsilon, &reduction);
    if (x == NULL) continue;
    const tn__attr *axes = tn__node_attr(reduction, "axes");
    const tn__node *centered = tn__pass_producer_of(x, "subtract"); /* three reads: squared, and scaled */
    const tn__value *middle =
        centered != NULL && tn__pass_uses_of(r, x) == 3 ? spread_over(centered->inputs[1], centered->inputs[0]) : NULL;
    bool alone = middle != NULL && tn__pass_uses_of(r, middle) == 1 && tn__pass_uses_of(r, centered->inputs[1]) == 1;
    tn__value *from = alone ? mean_operand(r, middle, &mean) : NULL;
    if (from != NULL && from == centered->inputs[0] && same_axes(mean, reduction))
      return tn__g_layer_norm(r->graph, from, axes->ints, axes->count, epsilon, how);
    return tn__g_rms_norm(r->graph, x, axes->ints, axes->count, epsilon, how);
  }
  return NULL;
}

/* ---- products of dequantised values ------------------------------------------------------------------------------ */

/* As many products of two numbers of nine bits (bytes without their zero points) fit 31 bits. */
enum { MOST_PRODUCTS = 33025 };

/* What stands for (bytes - zero) * scale, in f32: the operands, zero and scale as scalars, or as vectors along `axis`
 * (-1: none). */
typedef struct dequantized {
  tn__value *bytes, *scale, *zero; /* zero NULL: 0 */
} dequantized;

TN_MUST_USE static bool find_dequantized(tn__rewriter *r, const tn__value *v, int axis, dequantized *out) {
  const tn__node *node = tn__pass_producer_of(v, "dequantize");
  if (node == NULL || !tn__g_is_byte(node->inputs[0]->dtype) || v->dtype != TN_F32) return false;
  *out = (dequantized){.bytes = node->inputs[0], .scale = tn__pass_along(r->graph, node->inputs[1], axis)};
  if (node->input_count > 2) out->zero = tn__pass_along(r->graph, node->inputs[2], axis);
  return out->scale != NULL && (node->input_count < 3 || out->zero != NULL);
}

/* The left operand with one scale, the right one constant and with one or one for each column, dimension `columns`, and
 * no more terms of a sum than cannot overflow. */
static bool are_dequantized(tn__rewriter *r, const tn__node *node, int columns, int64_t depth, dequantized *a,
                            dequantized *b) {
  return depth >= 1 && depth <= MOST_PRODUCTS && node->outputs[0]->dtype == TN_F32 &&
         find_dequantized(r, node->inputs[0], -1, a) && find_dequantized(r, node->inputs[1], columns, b) &&
         tn__pass_is_precomputable(b->bytes);
}

/* The sum times both scales, those of columns along `axis`. */
static tn__value *scaled_sum(tn__graph *graph, tn__value *sum, const dequantized *a, const dequantized *b, int axis) {
  const int64_t at = axis;
  tn__value *scale = tn__g_binary(graph, "multiply", a->scale, b->scale);
  scale = tn__g_broadcast_in_dim(graph, scale, sum->rank, sum->dims, &at);
  return tn__g_binary(graph, "multiply", tn__g_convert(graph, sum, TN_F32), scale);
}

static tn__value *quantized_matmul(tn__rewriter *r, tn__node *node) {
  static const int64_t swap[2] = {1, 0};
  const tn__value *lhs = node->inputs[0], *rhs = node->inputs[1];
  const tn__attr *batch = tn__node_attr(node, "lhs_batch"), *contract = tn__node_attr(node, "lhs_contract");
  if (lhs->rank < 2 || rhs->rank != 2 || tn__node_reads_layout(node) || (batch != NULL && batch->count > 0))
    return NULL;
  if (contract == NULL || contract->count != 1 || contract->ints[0] != lhs->rank - 1) return NULL;
  int depth = (int)tn__node_attr(node, "rhs_contract")->ints[0];
  dequantized a, b;
  if (!are_dequantized(r, node, 1 - depth, tn__g_dim_const(rhs, depth), &a, &b)) return NULL;
  tn__value *right = depth == 1 ? tn__pass_permuted(r->graph, b.bytes, swap) : b.bytes;
  tn__value *sum = tn__g_quantized_matmul(r->graph, a.bytes, a.zero, right, b.zero);
  return scaled_sum(r->graph, sum, &a, &b, sum->rank - 1);
}

static tn__value *quantized_convolution(tn__rewriter *r, tn__node *node) {
  const tn__value *w = node->inputs[1];
  if (tn__node_reads_layout(node)) return NULL;
  const tn__conv_spec spec = tn__g_conv_spec_of(node);
  if (spec.channels_last || spec.flip || spec.pad_value != 0) return NULL;
  for (int i = 0; i < spec.spatial; i++)
    if (spec.lhs_dilation[i] != 1) return NULL;
  int64_t depth = 1;
  for (int i = 1; i < w->rank && depth >= 0 && depth <= MOST_PRODUCTS; i++) {
    int64_t size = tn__g_dim_const(w, i);
    depth = size < 0 ? -1 : depth * size;
  }
  dequantized a, b;
  if (!are_dequantized(r, node, 0, depth, &a, &b)) return NULL;
  if (!tn__g_convolution_takes_bytes(a.bytes, b.bytes, b.zero, &spec)) return NULL;
  tn__value *zero = b.zero;
  if (zero != NULL && zero->rank == 1) {
    const tn__expr *dims[TN__MAX_RANK];
    for (int i = 0; i < w->rank; i++) dims[i] = i == 0 ? zero->dims[0] : tn__ir_index(tn__graph_ir(r->graph), 1);
    zero = tn__g_reshape(r->graph, zero, w->rank, dims);
  }
  tn__value *sum = tn__g_quantized_convolution(r->graph, a.bytes, a.zero, b.bytes, zero, NULL, &spec);
  return scaled_sum(r->graph, sum, &a, &b, 1);
}

static const tn__rewrite_rule rules[] = {
    {"softmax, divided", "divide", softmax_by_division},
    {"softmax, times the reciprocal", "multiply", softmax_by_reciprocal},
    {"logarithm of softmax", "subtract", log_softmax},
    {"GELU", "multiply", gelu},
    {"normalisation, divided", "divide", norm},
    {"normalisation, multiplied", "multiply", norm},
    {"product of dequantised matrices", "dot_general", quantized_matmul},
    {"convolution of dequantised values", "convolution", quantized_convolution},
};

const tn__rule_set tn__rules_raise = {rules, sizeof rules / sizeof *rules};

void tn__pass_raise(tn__graph *graph, const tn__optimize_options *options) {
  tn__rewriter rewriter;
  tn__rewriter_init(&rewriter, graph, options);
  tn__pass_rewrite(&rewriter, &tn__rules_raise, 1);
}
