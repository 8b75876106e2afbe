/* Losses: negative log likelihood, with softmax before it or not. */
#include <string.h>

#include "import/onnx/ops_more.h"

/* -weight[t] * x[n, t, ...] at each target, and its reduction. `x` are log probabilities [N, C, d...], `target` [N,
 * d...]. */
static tn__value *loss_of(tn__onode *n, tn__value *x, tn__value *target, tn__value *weight) {
  tn__value *classes = tn__g_convert(n->g, target, TN_I64), *ignored = NULL;
  if (tn__on_attr(n, "ignore_index") != NULL) {
    tn__value *index = tn__g_scalar_i64(n->g, TN_I64, tn__on_int(n, "ignore_index", 0));
    ignored = tn__g_compare(n->g, TN__CMP_EQ, classes, index);
    classes = tn__g_select(n->g, ignored, tn__g_scalar_i64(n->g, TN_I64, 0), classes);
  }
  static const int64_t axis = 1;
  tn__value *picked =
      tn__on_squeeze(n, tn__g_take_along_axis(n->g, x, tn__on_unsqueeze(n, classes, &axis, 1), 1), &axis, 1);
  tn__value *share = weight != NULL ? tn__g_take(n->g, tn__g_convert(n->g, weight, x->dtype), classes, 0) : NULL;
  tn__value *zero = tn__g_scalar(n->g, x->dtype, 0), *one = tn__g_scalar(n->g, x->dtype, 1);
  if (ignored != NULL) share = tn__g_select(n->g, ignored, zero, share != NULL ? share : one);
  tn__value *loss = tn__on_unary(n, "negate", picked);
  if (ignored != NULL)
    loss = tn__g_select(n->g, ignored, zero, loss); /* whatever stands there: infinity times 0 is NaN */
  if (share != NULL) loss = tn__on_mul(n, loss, share);
  const char *reduction = tn__on_string(n, "reduction", "mean");
  if (strcmp(reduction, "none") == 0) return loss;
  int64_t axes[TN__MAX_RANK];
  for (int i = 0; i < loss->rank; i++) axes[i] = i;
  tn__value *sum = tn__g_reduce(n->g, TN__REDUCE_SUM, loss, axes, loss->rank, false);
  if (strcmp(reduction, "sum") == 0) return sum;
  if (strcmp(reduction, "mean") != 0) tn__on_fail(n, "reduction \"%s\" is none of none, mean and sum", reduction);
  if (share != NULL) {
    share = tn__g_broadcast_to(n->g, share, loss->rank, loss->dims);
    return tn__on_div(n, sum, tn__g_reduce(n->g, TN__REDUCE_SUM, share, axes, loss->rank, false));
  }
  return tn__g_mean(n->g, loss, axes, loss->rank, false);
}

void tn__onnx_nll_loss(tn__onode *n) {
  tn__value *x = tn__on_widen(n, n->in[0]);
  n->out[0] = tn__g_convert(n->g, loss_of(n, x, n->in[1], n->in[2]), n->in[0]->dtype);
}

void tn__onnx_softmax_loss(tn__onode *n) {
  tn__value *x = tn__g_log_softmax(n->g, tn__on_widen(n, n->in[0]), 1);
  n->out[0] = tn__g_convert(n->g, loss_of(n, x, n->in[1], n->in[2]), n->in[0]->dtype);
  if (n->output_count > 1) n->out[1] = tn__g_convert(n->g, x, n->in[0]->dtype);
}
