/* 3x3 convolutions of stride 1 by Winograd's algorithm, where the driver's cost function chooses it: the image in tiles
 * and transformed, a product with the transformed weights for each position in a tile, and back (ops/winograd.c). The
 * weights are constants, so that the driver transforms them once, when it compiles. */
#include "graph/passes/rewrite.h"

enum { POSITIONS = 36, WINDOW = 9 };

/* ---- which convolutions ------------------------------------------------------------------------------------------ */

/* Not negative and known. */
TN_MUST_USE static bool is_padding(const tn__attr *attr, int64_t *out) {
  for (int i = 0; i < 2; i++)
    if (!tn__ir_as_int(attr->exprs[i], &out[i]) || out[i] < 0) return false;
  return true;
}

static bool all_ones(const tn__node *node, const char *name) {
  const tn__attr *attr = tn__node_attr(node, name);
  for (int i = 0; i < attr->count; i++)
    if (attr->ints[i] != 1) return false;
  return true;
}

TN_MUST_USE static bool fits(const tn__node *node, int64_t low[2], int64_t high[2]) {
  if (!tn__g_is_op(node, "convolution")) return false;
  const tn__value *image = node->inputs[0], *weights = node->inputs[1], *result = node->outputs[0];
  const void *element;
  if (tn__node_int(node, "channels_last", 0) == 0 || result->rank != 4 || tn__node_reads_layout(node) ||
      tn__node_int(node, "feature_groups", 1) != 1 || tn__node_int(node, "flip", 0) != 0 ||
      tn__node_int(node, "whole", 0) != 0)
    return false;
  if (image->dtype != TN_F32 || weights->dtype != TN_F32 || result->dtype != TN_F32) return false;
  if (tn__g_dim_const(weights, 0) != 3 || tn__g_dim_const(weights, 1) != 3) return false;
  if (!all_ones(node, "strides") || !all_ones(node, "lhs_dilation") || !all_ones(node, "rhs_dilation")) return false;
  if (!is_padding(tn__node_attr(node, "low"), low) || !is_padding(tn__node_attr(node, "high"), high)) return false;
  if (tn__pass_element_total(image) <= 0 || tn__pass_element_total(result) <= 0 || tn__pass_element_total(weights) <= 0)
    return false;
  return tn__pass_is_precomputable(weights) && !tn__pass_splat_element(weights, &element);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* The transform of both dimensions of a 3x3 window at once, [positions, 9]. */
static tn__value *weight_transform(tn__graph *graph, int side) {
  static const double two[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  static const double four[6][3] = {{1.0 / 4, 0, 0},
                                    {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                    {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                    {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                    {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                    {0, 0, 1}};
  const double(*line)[3] = side == 4 ? two : four;
  float both[POSITIONS * WINDOW];
  for (int p = 0; p < side * side; p++)
    for (int w = 0; w < WINDOW; w++) both[p * WINDOW + w] = (float)(line[p / side][w / 3] * line[p % side][w % 3]);
  size_t bytes = sizeof(float) * (size_t)(side * side * WINDOW);
  const void *data = tn__arena_copy(tn__graph_arena(graph), both, bytes);
  return tn__g_constant_value(graph, TN_F32, 2, (int64_t[]){side * side, WINDOW}, data, false);
}

/* [3, 3, in, out] to [positions, in, out]. */
static tn__value *transformed_weights(tn__graph *graph, tn__value *weights, int side) {
  tn__ir *ir = tn__graph_ir(graph);
  const int64_t last = 1, first = 0;
  const tn__expr *window = tn__ir_index(ir, WINDOW), *positions = tn__ir_index(ir, side * side);
  const tn__expr *matrix[] = {window, tn__ir_mul(ir, weights->dims[2], weights->dims[3])};
  const tn__expr *dims[] = {positions, weights->dims[2], weights->dims[3]};
  tn__value *windows = tn__g_reshape(graph, weights, 2, matrix);
  tn__value *transformed =
      tn__g_dot_general(graph, weight_transform(graph, side), windows, NULL, NULL, 0, &last, &first, 1, TN_F32);
  return tn__g_reshape(graph, transformed, 3, dims);
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static tn__value *in_tiles(tn__graph *graph, const tn__node *node, int64_t tile, const int64_t low[2]) {
  tn__ir *ir = tn__graph_ir(graph);
  const tn__value *result = node->outputs[0];
  int64_t tiles[2], size[2];
  for (int i = 0; i < 2; i++) {
    size[i] = tn__g_dim_const(result, 1 + i);
    tiles[i] = (size[i] + tile - 1) / tile;
  }
  tn__value *image = tn__g_winograd_input(graph, node->inputs[0], tile, low, tiles);
  tn__value *weights = transformed_weights(graph, node->inputs[1], (int)tile + 2);
  int64_t count = tn__g_dim_const(result, 0) * tiles[0] * tiles[1];
  const tn__expr *matrices[] = {weights->dims[0], tn__ir_index(ir, count), image->dims[5]};
  const int64_t batch = 0, left = 2, right = 1;
  tn__value *products = tn__g_dot_general(graph, tn__g_reshape(graph, image, 3, matrices), weights, &batch, &batch, 1,
                                          &left, &right, 1, TN_F32);
  const tn__expr *dims[6];
  for (int i = 0; i < 5; i++) dims[i] = image->dims[i];
  dims[5] = result->dims[3];
  return tn__g_winograd_output(graph, tn__g_reshape(graph, products, 6, dims), size);
}

static tn__value *by_tiles(tn__rewriter *rewriter, tn__node *node) {
  const tn__optimize_options *options = rewriter->options;
  const tn__value *result = node->outputs[0];
  int64_t low[2], high[2];
  if (!fits(node, low, high) || tn__pass_is_precomputable(node->inputs[0]) || !tn__pass_is_for_cpu(options, node))
    return NULL;
  const tn__winograd_sizes sizes = {.batch = tn__g_dim_const(result, 0),
                                    .height = tn__g_dim_const(result, 1),
                                    .width = tn__g_dim_const(result, 2),
                                    .in = tn__g_dim_const(node->inputs[1], 2),
                                    .out = tn__g_dim_const(result, 3)};
  const tn__site site = {
      .kind = "winograd",
      .text = tn__arena_printf(tn__graph_arena(rewriter->graph),
                               "%lld images of %lld x %lld pixels, %lld channels to %lld, padding %lld %lld %lld %lld",
                               (long long)sizes.batch, (long long)sizes.height, (long long)sizes.width,
                               (long long)sizes.in, (long long)sizes.out, (long long)low[0], (long long)low[1],
                               (long long)high[0], (long long)high[1]),
      .usual = options->winograd_tile(options->winograd_user, &sizes),
      .choices = {0, 2, 4},
      .choice_count = 3};
  int tile = tn__pass_decide(options, &site);
  return tile == 0 ? NULL : in_tiles(rewriter->graph, node, tile, low);
}

void tn__pass_winograd(tn__graph *graph, const tn__optimize_options *options) {
  if (options->winograd_tile != NULL) tn__pass_replace(graph, options, by_tiles);
}
