/* The two ends of a 3x3 convolution of stride 1 by Winograd's minimal filtering, in the form of Lavin and Gray, "Fast
 * algorithms for convolutional neural networks" (2016): F(m x m, 3 x 3), m being 2 or 4. An image is cut into tiles of
 * m + 2 by m + 2 pixels that overlap by two; each is transformed, multiplied with the transformed weights, a matrix of
 * channels for each of its (m + 2)^2 positions (a dot_general with as many batches), and transformed back into m by m
 * pixels. That takes (m + 2)^2 multiplications where the sums of products take 9 m^2.
 *
 * The transforms are separable: rows first, then columns. An element is chosen by its position in the tile; schedules
 * unroll these positions, and what neighbours share is then computed once (src/schedule/rules/transform.c). */
#include "base/invariant.h"
#include "graph/internal.h"

enum { WIDEST = 6 };

/* ---- the transforms ---------------------------------------------------------------------------------------------- */

static const tn__expr *times(tn__ir *ir, double factor, const tn__expr *a) {
  return tn__ir_mul(ir, tn__ir_constant(ir, a->dtype, factor), a);
}

/* Position `index` of a vector that is given by its elements. */
static const tn__expr *chosen(tn__ir *ir, const tn__expr *index, const tn__expr *const *elements, int count) {
  const tn__expr *value = elements[count - 1];
  for (int i = count - 2; i >= 0; i--)
    value = tn__ir_select(ir, tn__ir_eq(ir, index, tn__ir_index(ir, i)), elements[i], value);
  return value;
}

/* The transform of m + 2 pixels in a line, written so that factors of opposite sign share their terms. */
static const tn__expr *transformed_in(tn__ir *ir, int m, const tn__expr *index, const tn__expr *const *d) {
  if (m == 2) {
    const tn__expr *rows[] = {tn__ir_sub(ir, d[0], d[2]), tn__ir_add(ir, d[1], d[2]), tn__ir_sub(ir, d[2], d[1]),
                              tn__ir_sub(ir, d[1], d[3])};
    return chosen(ir, index, rows, 4);
  }
  TN__INVARIANT(m == 4); /* inference admits no other tile */
  const tn__expr *even = tn__ir_sub(ir, d[4], times(ir, 4, d[2])), *odd = tn__ir_sub(ir, d[3], times(ir, 4, d[1]));
  const tn__expr *near = tn__ir_sub(ir, d[4], d[2]), *twice = times(ir, 2, tn__ir_sub(ir, d[3], d[1]));
  const tn__expr *rows[] = {tn__ir_add(ir, times(ir, 4, d[0]), tn__ir_sub(ir, d[4], times(ir, 5, d[2]))),
                            tn__ir_add(ir, even, odd),
                            tn__ir_sub(ir, even, odd),
                            tn__ir_add(ir, near, twice),
                            tn__ir_sub(ir, near, twice),
                            tn__ir_add(ir, times(ir, 4, d[1]), tn__ir_sub(ir, d[5], times(ir, 5, d[3])))};
  return chosen(ir, index, rows, 6);
}

/* And of m + 2 products back to m pixels. */
static const tn__expr *transformed_out(tn__ir *ir, int m, const tn__expr *index, const tn__expr *const *p) {
  const tn__expr *sum = tn__ir_add(ir, p[1], p[2]), *difference = tn__ir_sub(ir, p[1], p[2]);
  if (m == 2) {
    const tn__expr *rows[] = {tn__ir_add(ir, p[0], sum), tn__ir_sub(ir, difference, p[3])};
    return chosen(ir, index, rows, 2);
  }
  TN__INVARIANT(m == 4); /* inference admits no other tile */
  const tn__expr *far_sum = tn__ir_add(ir, p[3], p[4]), *far_difference = tn__ir_sub(ir, p[3], p[4]);
  const tn__expr *rows[] = {tn__ir_add(ir, tn__ir_add(ir, p[0], sum), far_sum),
                            tn__ir_add(ir, difference, times(ir, 2, far_difference)),
                            tn__ir_add(ir, sum, times(ir, 4, far_sum)),
                            tn__ir_add(ir, tn__ir_add(ir, difference, times(ir, 8, far_difference)), p[5])};
  return chosen(ir, index, rows, 4);
}

/* ---- winograd_input ---------------------------------------------------------------------------------------------- */

static void infer_input(tn__graph *graph, tn__node *node) {
  tn__g_require_float(graph, node, 0);
  const tn__value *image = node->inputs[0];
  int64_t tile = tn__node_int(node, "tile", 0);
  if (tile != 2 && tile != 4) tn__node_fail(graph, node, "tile %lld is neither 2 nor 4", (long long)tile);
  const int64_t *low = tn__g_require_ints(graph, node, "low", 2), *tiles = tn__g_require_ints(graph, node, "tiles", 2);
  for (int i = 0; i < 2; i++) {
    int64_t size = tn__g_dim_const(image, 1 + i);
    bool holds =
        low[i] >= 0 && tiles[i] > 0 && tiles[i] <= INT32_MAX && size >= 0 && tiles[i] * tile + 2 >= size + low[i];
    if (!holds)
      tn__node_fail(graph, node, "%lld tiles of %lld with %lld in front do not hold spatial dimension %d of %s",
                    (long long)tiles[i], (long long)tile, (long long)low[i], i, tn__value_type_text(graph, image));
  }
  const tn__expr *side = tn__ir_index(graph->ir, tile + 2);
  const tn__expr *dims[] = {
      side, side, image->dims[0], tn__ir_index(graph->ir, tiles[0]), tn__ir_index(graph->ir, tiles[1]), image->dims[3]};
  tn__g_set_output(graph, node, 0, image->dtype, 6, dims, NULL);
}

static void declare_input(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                          const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  int m = (int)tn__node_int(node, "tile", 0), side = m + 2;
  const int64_t *low = tn__node_attr(node, "low")->ints, *tiles = tn__node_attr(node, "tiles")->ints;
  const tn__expr *zero = tn__ir_index(ir, 0), *before[4] = {zero, zero, zero, zero},
                 *behind[4] = {zero, zero, zero, zero};
  for (int i = 0; i < 2; i++) {
    before[1 + i] = tn__ir_index(ir, low[i]);
    behind[1 + i] = tn__ir_index(ir, tiles[i] * m + 2 - low[i] - tn__g_dim_const(node->inputs[0], 1 + i));
  }
  const tn__buffer *image =
      tn__lower_pad(lower, inputs[0], tn__ir_constant(ir, inputs[0]->dtype, 0), before, behind, NULL);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *const *at = axes.index, *line[WIDEST] = {NULL};
  for (int r = 0; r < side; r++) {
    const tn__expr *pixel[] = {at[2], tn__ir_add_i(ir, tn__ir_mul_i(ir, at[3], m), r),
                               tn__ir_add(ir, tn__ir_mul_i(ir, at[4], m), at[1]), at[5]};
    line[r] = tn__ir_load(ir, image, pixel);
  }
  const tn__buffer *rows = tn__te_compute(te, tn__lower_name(lower, "rows"), &axes, transformed_in(ir, m, at[0], line));
  axes = tn__lower_axes(lower, node->outputs[0]);
  for (int s = 0; s < side; s++) {
    const tn__expr *place[] = {axes.index[0], tn__ir_index(ir, s), axes.index[2],
                               axes.index[3], axes.index[4],       axes.index[5]};
    line[s] = tn__ir_load(ir, rows, place);
  }
  outputs[0] =
      tn__te_compute(te, tn__lower_name(lower, "winograd_input"), &axes, transformed_in(ir, m, axes.index[1], line));
}

/* ---- winograd_output --------------------------------------------------------------------------------------------- */

static void infer_output(tn__graph *graph, tn__node *node) {
  tn__g_require_float(graph, node, 0);
  const tn__value *products = node->inputs[0];
  int64_t side = tn__g_dim_const(products, 0), tile = side - 2;
  if (side != 4 && side != 6)
    tn__node_fail(graph, node, "operand 0 must have 4 by 4 or 6 by 6 positions, but is %s",
                  tn__value_type_text(graph, products));
  const int64_t *size = tn__g_require_ints(graph, node, "size", 2);
  for (int i = 0; i < 2; i++)
    if (size[i] < 1 || tn__g_dim_const(products, 3 + i) < 1 || size[i] > tn__g_dim_const(products, 3 + i) * tile)
      tn__node_fail(graph, node, "the tiles of %s do not give %lld pixels in spatial dimension %d",
                    tn__value_type_text(graph, products), (long long)size[i], i);
  const tn__expr *dims[] = {products->dims[2], tn__ir_index(graph->ir, size[0]), tn__ir_index(graph->ir, size[1]),
                            products->dims[5]};
  tn__g_set_output(graph, node, 0, products->dtype, 4, dims, NULL);
}

static void declare_output(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                           const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  int side = (int)tn__g_dim_const(node->inputs[0], 0), m = side - 2;
  const tn__expr *dims[6], *line[WIDEST] = {NULL};
  tn__lower_dims(lower, node->inputs[0], dims);
  dims[0] = tn__ir_index(ir, m);
  tn__te_axes axes = tn__te_axes_create(te, "i", 6, dims);
  const tn__expr *const *at = axes.index;
  for (int r = 0; r < side; r++) {
    const tn__expr *place[] = {tn__ir_index(ir, r), at[1], at[2], at[3], at[4], at[5]};
    line[r] = tn__ir_load(ir, inputs[0], place);
  }
  const tn__buffer *rows =
      tn__te_compute(te, tn__lower_name(lower, "rows"), &axes, transformed_out(ir, m, at[0], line));
  axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *y = axes.index[1], *x = axes.index[2];
  for (int s = 0; s < side; s++) {
    const tn__expr *place[] = {tn__ir_mod_i(ir, y, m), tn__ir_index(ir, s),    axes.index[0],
                               tn__ir_div_i(ir, y, m), tn__ir_div_i(ir, x, m), axes.index[3]};
    line[s] = tn__ir_load(ir, rows, place);
  }
  outputs[0] = tn__te_compute(te, tn__lower_name(lower, "winograd_output"), &axes,
                              transformed_out(ir, m, tn__ir_mod_i(ir, x, m), line));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static const tn__op rows[] = {
    {.name = "winograd_input",
     .min_inputs = 1,
     .max_inputs = 1,
     .operands = "image[n,h,w,c]",
     .op_class = TN__CLASS_OPAQUE,
     .lowering = TN__LOWER_DECLARE,
     .infer = infer_input,
     .declare = declare_input,
     .attributes = "tile:int low:ints tiles:ints",
     .doc =
         "Transformed tiles of a channels-last image for a 3x3 convolution: [tile + 2, tile + 2, batch, tiles, tiles, "
         "channels]."},
    {.name = "winograd_output",
     .min_inputs = 1,
     .max_inputs = 1,
     .operands = "products[s,s,n,_,_,c]",
     .op_class = TN__CLASS_CONTRACTION,
     .lowering = TN__LOWER_DECLARE,
     .infer = infer_output,
     .declare = declare_output,
     .attributes = "size:ints",
     .doc = "The channels-last image of the size given that products of transformed tiles stand for."},
};

const tn__op_family tn__ops_winograd = {rows, sizeof(rows) / sizeof(rows[0])};
