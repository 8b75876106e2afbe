/* quantized: composites of quantised numbers (graph/ops/quantized.c), which no pass has touched so far, become what is
 * computed. Products and convolutions of bytes become sums of products of the bytes as they are, which processors have
 * instructions for, and of what zero points add to that (graph/build/bytes.c). Wherever that does not hold, and for
 * what stands before and behind products, the body takes the composite's place, so that the simplifier moves scales
 * together and fusion makes epilogues. */
#include "graph/passes/rewrite.h"

static tn__value *body_of(tn__rewriter *r, const tn__node *node) {
  tn__value *body;
  node->op->expand(r->graph, node, node->inputs, &body);
  return body;
}

static tn__value *inlined(tn__rewriter *r, tn__node *node) { return body_of(r, node); }

/* An optional operand, which may be left out at the end as well. */
static tn__value *operand_of(const tn__node *node, int index) {
  return index < node->input_count ? node->inputs[index] : NULL;
}

static bool has_bytes(const tn__node *node) {
  return tn__g_is_byte(node->inputs[0]->dtype) && tn__g_is_byte(node->inputs[1]->dtype);
}

/* May the zero point leave the sum over dimension `axis` of an operand of that rank? */
static bool stands_still(const tn__value *zero, int axis, int rank) {
  int own = zero == NULL ? -1 : axis - (rank - zero->rank);
  return own < 0 || tn__pass_is_unit(zero->dims[own]);
}

static tn__value *matmul(tn__rewriter *r, tn__node *node) {
  tn__value *a = node->inputs[0], *b = node->inputs[1];
  tn__value *a_zero = operand_of(node, 2), *b_zero = operand_of(node, 3);
  bool takes =
      has_bytes(node) && stands_still(a_zero, a->rank - 1, a->rank) && stands_still(b_zero, b->rank - 2, b->rank);
  return takes ? tn__g_matmul_bytes(r->graph, a, a_zero, b, b_zero) : body_of(r, node);
}

/* What belongs to filters, dimension 0 of the weights or a vector, at the channels of the result. */
static tn__value *at_channels(tn__graph *graph, tn__value *v, int rank) {
  const tn__expr *dims[TN__MAX_RANK];
  if (v == NULL || v->rank == 0) return v;
  for (int i = 0; i < rank; i++) dims[i] = i == 1 ? v->dims[0] : tn__ir_index(tn__graph_ir(graph), 1);
  return tn__g_reshape(graph, v, rank, dims);
}

/* One number, or one for each filter. */
static bool is_of_filters(const tn__value *zero, int rank) {
  if (zero == NULL || zero->rank == 0) return true;
  for (int i = 1; i < zero->rank; i++)
    if (!tn__pass_is_unit(zero->dims[i])) return false;
  return zero->rank == rank;
}

static tn__value *convolution(tn__rewriter *r, tn__node *node) {
  tn__value *x = node->inputs[0], *w = node->inputs[1];
  tn__value *x_zero = operand_of(node, 2), *w_zero = operand_of(node, 3);
  const tn__conv_spec spec = tn__g_conv_spec_of(node);
  bool plain = !spec.flip && spec.pad_value == 0 && has_bytes(node) && is_of_filters(w_zero, w->rank) &&
               (x_zero == NULL || tn__pass_element_total(x_zero) == 1);
  for (int i = 0; i < spec.spatial; i++) plain = plain && spec.lhs_dilation[i] == 1;
  if (!plain || !tn__g_convolution_takes_bytes(x, w, w_zero, &spec)) return body_of(r, node);
  w_zero = at_channels(r->graph, w_zero, x->rank);
  tn__value *bias = at_channels(r->graph, operand_of(node, 4), x->rank);
  return tn__g_convolution_bytes(r->graph, x, x_zero, w, w_zero, bias, &spec);
}

static const tn__rewrite_rule rules[] = {
    {"quantised product", "quantized_matmul", matmul},
    {"quantised convolution", "quantized_convolution", convolution},
    {"quantised numbers", "quantize", inlined},
    {"dequantised numbers", "dequantize", inlined},
};

void tn__pass_quantized(tn__graph *graph, const tn__optimize_options *options) {
  const tn__rule_set set = {rules, sizeof rules / sizeof *rules};
  tn__rewriter rewriter;
  tn__rewriter_init(&rewriter, graph, options);
  tn__pass_rewrite(&rewriter, &set, 1);
}
