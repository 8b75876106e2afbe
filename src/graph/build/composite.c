/* Builders of composites, whose meaning stands in their rows (ops/composite.c). */
#include <string.h>

#include "graph/build/build.h"

tn__value *tn__g_softmax(tn__graph *g, tn__value *a, int axis, int flags) {
  tn__attr attrs[3];
  int count = 0;
  attrs[count++] = tn__attr_int(g, "axes", axis);
  if (flags & TN__SOFTMAX_DIVIDE) attrs[count++] = tn__attr_int(g, "divide", 1);
  if (flags & TN__SOFTMAX_EMPTY) attrs[count++] = tn__attr_int(g, "empty", 1);
  return tn__g_node(g, "softmax", &a, 1, attrs, count)->outputs[0];
}

tn__value *tn__g_log_softmax(tn__graph *g, tn__value *a, int axis) {
  const tn__attr axes = tn__attr_int(g, "axes", axis);
  return tn__g_node(g, "log_softmax", &a, 1, &axes, 1)->outputs[0];
}

tn__value *tn__g_gelu(tn__graph *g, tn__value *a, bool by_tanh) {
  const tn__attr tanh = tn__attr_string(g, "approximate", "tanh");
  return tn__g_node(g, "gelu", &a, 1, &tanh, by_tanh ? 1 : 0)->outputs[0];
}

static const char *const norm_scales[] = {"rsqrt", "reciprocal", "divide"};

bool tn__norm_scale_parse(const char *text, tn__norm_scale *out) {
  for (int i = 0; i < 3; i++) {
    if (strcmp(text, norm_scales[i]) != 0) continue;
    *out = (tn__norm_scale)i;
    return true;
  }
  return false;
}

static const tn__node *norm(tn__graph *g, const char *op, tn__value *a, const int64_t *axes, int axis_count,
                            double epsilon, tn__norm_scale scale, bool statistics) {
  tn__attr attrs[4] = {tn__attr_ints(g, "axes", axes, axis_count), tn__attr_float(g, "epsilon", epsilon)};
  int count = 2;
  if (scale != TN__NORM_RSQRT) attrs[count++] = tn__attr_string(g, "scale", norm_scales[scale]);
  if (statistics) attrs[count++] = tn__attr_int(g, "statistics", 1);
  return tn__g_node(g, op, &a, 1, attrs, count);
}

tn__value *tn__g_layer_norm(tn__graph *g, tn__value *a, const int64_t *axes, int count, double epsilon,
                            tn__norm_scale scale) {
  return norm(g, "layer_norm", a, axes, count, epsilon, scale, false)->outputs[0];
}

tn__value *tn__g_layer_norm_with_statistics(tn__graph *g, tn__value *a, const int64_t *axes, int count, double epsilon,
                                            tn__value **mean, tn__value **inverse) {
  const tn__node *node = norm(g, "layer_norm", a, axes, count, epsilon, TN__NORM_RSQRT, true);
  *mean = node->outputs[1];
  *inverse = node->outputs[2];
  return node->outputs[0];
}

tn__value *tn__g_rms_norm(tn__graph *g, tn__value *a, const int64_t *axes, int count, double epsilon,
                          tn__norm_scale scale) {
  return norm(g, "rms_norm", a, axes, count, epsilon, scale, false)->outputs[0];
}
