/* Operators of image models that sample at computed places, and the suppression of overlapping boxes. */
#include <math.h>
#include <string.h>

#include "graph/internal.h"
#include "graph/relations.h"
#include "tenon/kernel_abi.h"

/* ---- grid_sample ------------------------------------------------------------------------------------------------- */

static bool attr_is(const tn__node *node, const char *name, const char *value) {
  return strcmp(tn__node_string(node, name, ""), value) == 0;
}

static void require_one_of(const tn__graph *graph, const tn__node *node, const char *name, const char *const *values,
                           int count) {
  for (int i = 0; i < count; i++)
    if (attr_is(node, name, values[i])) return;
  tn__node_fail(graph, node, "%s \"%s\" is unknown", name, tn__node_string(node, name, ""));
}

/* Where channels and the first spatial dimension of an image stand. */
static int channel_dim(const tn__node *node, int rank) {
  return tn__node_int(node, "channels_last", 0) != 0 ? rank - 1 : 1;
}
static int spatial_dim(const tn__node *node) { return tn__node_int(node, "channels_last", 0) != 0 ? 1 : 2; }

static void infer_grid_sample(tn__graph *graph, tn__node *node) {
  static const char *const modes[] = {"nearest", "linear", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                          "reflection"};
  const tn__value *a = node->inputs[0], *grid = node->inputs[1];
  tn__g_require_float(graph, node, 0);
  tn__g_require_float(graph, node, 1);
  require_one_of(graph, node, "mode", modes, 3);
  require_one_of(graph, node, "padding", paddings, 3);
  if (a->rank < 3)
    tn__node_fail(graph, node, "operand 0 must have at least 3 dimensions, but is %s", tn__value_type_text(graph, a));
  tn__g_require_rank(graph, node, 1, a->rank);
  if (tn__g_dim_const(grid, a->rank - 1) != a->rank - 2)
    tn__node_fail(graph, node, "the last dimension of the grid %s must be %d", tn__value_type_text(graph, grid),
                  a->rank - 2);
  const tn__expr *dims[TN__MAX_RANK];
  dims[0] = tn__ir_is_int(grid->dims[0]) ? grid->dims[0] : a->dims[0];
  int channel = channel_dim(node, a->rank), first = spatial_dim(node);
  dims[channel] = a->dims[channel];
  for (int i = 0; i < a->rank - 2; i++) {
    dims[first + i] = grid->dims[1 + i];
    if (attr_is(node, "padding", "zeros")) continue; /* the others always take an element */
    tn__relate_sizes(graph, tn__arena_printf(graph->arena, "grid_sample: dimension %d of operand 0 (x)", first + i),
                     a->dims[first + i], ">=", "", tn__ir_index(graph->ir, 1));
  }
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, dims, NULL);
}

typedef struct sampler {
  tn__ir *ir;
  const tn__node *node;
  tn_dtype dtype; /* of coordinates and weights: f32, or f64 for an f64 grid */
  bool align, zeros, border, reflection;
} sampler;

static const tn__expr *number(const sampler *s, double value) { return tn__ir_float(s->ir, s->dtype, value); }

/* x reflected at both ends of [low, high] until it is inside. */
static const tn__expr *reflect(const sampler *s, const tn__expr *x, const tn__expr *low, const tn__expr *high) {
  tn__ir *ir = s->ir;
  const tn__expr *range = tn__ir_sub(ir, high, low), *twice = tn__ir_add(ir, range, range);
  const tn__expr *t = tn__ir_mod(ir, tn__ir_call1(ir, TN__CALL_ABS, tn__ir_sub(ir, x, low)), twice);
  const tn__expr *back = tn__ir_sub(ir, high, tn__ir_sub(ir, t, range));
  const tn__expr *inside = tn__ir_select(ir, tn__ir_lt(ir, range, t), back, tn__ir_add(ir, low, t));
  return tn__ir_select(ir, tn__ir_le(ir, range, number(s, 0)), low, inside);
}

/* The coordinate of a grid value in elements, moved inside as the padding says. */
static const tn__expr *coordinate(const sampler *s, const tn__expr *value, const tn__expr *size) {
  tn__ir *ir = s->ir;
  const tn__expr *length = tn__ir_cast(ir, s->dtype, size), *one = number(s, 1), *half = number(s, 0.5);
  const tn__expr *n = tn__ir_add(ir, tn__ir_cast(ir, s->dtype, value), one), *last = tn__ir_sub(ir, length, one);
  const tn__expr *x = s->align ? tn__ir_mul(ir, tn__ir_mul(ir, n, half), last)
                               : tn__ir_mul(ir, tn__ir_sub(ir, tn__ir_mul(ir, n, length), one), half);
  if (attr_is(s->node, "mode", "nearest")) x = tn__ir_call1(ir, TN__CALL_ROUND_EVEN, x);
  const tn__expr *low = s->align ? number(s, 0) : number(s, -0.5);
  const tn__expr *high = s->align ? last : tn__ir_sub(ir, length, half);
  const tn__expr *outside = tn__ir_or(ir, tn__ir_lt(ir, x, low), tn__ir_lt(ir, high, x));
  if (s->border) return tn__ir_select(ir, outside, tn__ir_min(ir, tn__ir_max(ir, x, number(s, 0)), last), x);
  return s->reflection ? tn__ir_select(ir, outside, reflect(s, x, low, high), x) : x;
}

/* The element index of tap position `x` (a whole f32), always inside; *valid becomes false where zeros stand. */
static const tn__expr *tap_index(const sampler *s, const tn__expr *x, const tn__expr *size, const tn__expr **valid) {
  tn__ir *ir = s->ir;
  const tn__expr *length = tn__ir_cast(ir, s->dtype, size), *zero = number(s, 0),
                 *last = tn__ir_sub(ir, length, number(s, 1));
  if (s->zeros) *valid = tn__ir_and(ir, *valid, tn__ir_and(ir, tn__ir_le(ir, zero, x), tn__ir_le(ir, x, last)));
  if (s->reflection) {
    const tn__expr *low = s->align ? zero : number(s, -0.5),
                   *high = s->align ? last : tn__ir_sub(ir, length, number(s, 0.5));
    x = tn__ir_select(ir, tn__ir_or(ir, tn__ir_lt(ir, x, low), tn__ir_lt(ir, high, x)), reflect(s, x, low, high), x);
  }
  /* In i64, where the bounds can be proven whatever the coordinate is. */
  const tn__expr *index = tn__ir_cast(ir, TN_I64, tn__ir_min(ir, tn__ir_max(ir, x, zero), last));
  return tn__ir_max(ir, tn__ir_min(ir, index, tn__ir_add_i(ir, size, -1)), tn__ir_index(ir, 0));
}

/* Weight of tap k (0 ...) at `fraction` in [0, 1) behind the coordinate's floor. */
static const tn__expr *tap_weight(const sampler *s, const tn__expr *k, const tn__expr *fraction) {
  tn__ir *ir = s->ir;
  if (attr_is(s->node, "mode", "nearest")) return number(s, 1);
  if (attr_is(s->node, "mode", "linear"))
    return tn__ir_select(ir, tn__ir_eq(ir, k, tn__ir_index(ir, 0)), tn__ir_sub(ir, number(s, 1), fraction), fraction);
  const double a = -0.75; /* Keys' cubic */
  const tn__expr *d = tn__ir_sub(ir, fraction, tn__ir_cast(ir, s->dtype, tn__ir_add_i(ir, k, -1)));
  d = tn__ir_call1(ir, TN__CALL_ABS, d);
  const tn__expr *near = tn__ir_sub(ir, tn__ir_mul(ir, number(s, a + 2), d), number(s, a + 3));
  near = tn__ir_add(ir, tn__ir_mul(ir, tn__ir_mul(ir, near, d), d), number(s, 1));
  const tn__expr *far = tn__ir_sub(ir, tn__ir_mul(ir, number(s, a), d), number(s, 5 * a));
  far = tn__ir_sub(ir, tn__ir_mul(ir, tn__ir_add(ir, tn__ir_mul(ir, far, d), number(s, 8 * a)), d), number(s, 4 * a));
  return tn__ir_select(ir, tn__ir_le(ir, d, number(s, 1)), near, far);
}

static void declare_grid_sample(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                                const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__buffer *a = inputs[0], *grid = inputs[1];
  int spatial = a->rank - 2, channel = channel_dim(node, a->rank), first = spatial_dim(node);
  int64_t taps = attr_is(node, "mode", "nearest") ? 1 : attr_is(node, "mode", "linear") ? 2 : 4;
  sampler s = {.ir = ir,
               .node = node,
               .dtype = inputs[1]->dtype == TN_F64 ? TN_F64 : TN_F32,
               .align = tn__node_int(node, "align_corners", 0) != 0,
               .zeros = attr_is(node, "padding", "zeros"),
               .border = attr_is(node, "padding", "border"),
               .reflection = attr_is(node, "padding", "reflection")};
  /* The grid in elements, its last dimension turned round to a's order. */
  tn__te_axes places = tn__te_axes_create(te, "i", grid->rank, grid->shape);
  const tn__expr *at[TN__MAX_RANK], *value = NULL;
  memcpy(at, places.index, sizeof(at));
  for (int d = spatial - 1; d >= 0; d--) {
    at[grid->rank - 1] = tn__ir_index(ir, spatial - 1 - d);
    const tn__expr *own = coordinate(&s, tn__ir_load(ir, grid, at), a->shape[first + d]);
    value = value == NULL
                ? own
                : tn__ir_select(ir, tn__ir_eq(ir, places.index[grid->rank - 1], tn__ir_index(ir, d)), own, value);
  }
  const tn__buffer *place = tn__te_compute(te, tn__lower_name(lower, "place"), &places, value);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *extents[TN__MAX_RANK], *index[TN__MAX_RANK], *weight = number(&s, 1), *valid = tn__ir_bool(ir, true);
  for (int d = 0; d < spatial; d++) extents[d] = tn__ir_index(ir, taps);
  tn__te_axes reduce = tn__te_axes_create(te, "k", spatial, extents);
  index[0] = at[0] = axes.index[0];
  index[channel] = axes.index[channel];
  for (int d = 0; d < spatial; d++) at[1 + d] = axes.index[first + d];
  for (int d = 0; d < spatial; d++) {
    at[grid->rank - 1] = tn__ir_index(ir, d);
    const tn__expr *x = tn__ir_load(ir, place, at), *base = taps == 1 ? x : tn__ir_call1(ir, TN__CALL_FLOOR, x);
    const tn__expr *step = tn__ir_cast(ir, s.dtype, tn__ir_add_i(ir, reduce.index[d], taps == 4 ? -1 : 0));
    weight = tn__ir_mul(ir, weight, tap_weight(&s, reduce.index[d], tn__ir_sub(ir, x, base)));
    index[first + d] = tap_index(&s, tn__ir_add(ir, base, step), a->shape[first + d], &valid);
  }
  tn_dtype wide = tn__g_accumulator_of(a->dtype);
  const tn__expr *pixel =
      tn__ir_mul(ir, tn__ir_cast(ir, wide, weight), tn__ir_cast(ir, wide, tn__ir_load(ir, a, index)));
  const tn__expr *term = tn__ir_select(ir, valid, pixel, tn__ir_float(ir, wide, 0));
  const tn__buffer *sum = tn__te_reduce(te, tn__lower_name(lower, "grid_sample"), &axes, &reduce, TN__TE_SUM, term);
  outputs[0] = tn__lower_convert(lower, sum, a->dtype);
}

/* ---- col2im ------------------------------------------------------------------------------------------------------ */

/* How many elements of an image dimension a block reaches over, from its first to its last. */
static const tn__expr *block_reach(tn__ir *ir, const tn__node *node, const tn__expr *block, int d) {
  return tn__ir_add_i(ir, tn__ir_mul_i(ir, tn__ir_add_i(ir, block, -1), tn__node_attr(node, "dilations")->ints[d]), 1);
}

static const tn__expr *padded_image(tn__ir *ir, const tn__node *node, const tn__expr *image, int d) {
  return tn__ir_add_i(ir, image, tn__node_attr(node, "low")->ints[d] + tn__node_attr(node, "high")->ints[d]);
}

/* How many blocks of a size lie along an image dimension. */
static const tn__expr *blocks_along(tn__ir *ir, const tn__node *node, const tn__expr *image, const tn__expr *block,
                                    int d) {
  const tn__expr *room = tn__ir_sub(ir, padded_image(ir, node, image, d), block_reach(ir, node, block, d));
  return tn__ir_add_i(ir, tn__ir_div_i(ir, room, tn__node_attr(node, "strides")->ints[d]), 1);
}

/* Some block must lie along each dimension: the numbers of two that are too small may multiply to one that is right. */
static void require_fit(tn__graph *graph, const tn__node *node, const tn__expr *image, const tn__expr *block, int d) {
  const tn__expr *reach = block_reach(graph->ir, node, block, d), *padded = padded_image(graph->ir, node, image, d);
  const tn__expr *most =
      tn__ir_div_i(graph->ir, tn__ir_add_i(graph->ir, padded, -1), tn__node_attr(node, "dilations")->ints[d]);
  tn__graph_assume(graph, tn__ir_le(graph->ir, tn__ir_add_i(graph->ir, block, -1), most), /* reach may wrap around */
                   "%s: a block over %s elements must fit into dimension %d of the image, which has %s with its pads",
                   node->op->name, tn__g_size_text(graph, reach), d, tn__g_size_text(graph, padded));
}

static void infer_col2im(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  tn__ir *ir = graph->ir;
  const tn__attr *image = tn__node_attr(node, "image");
  if (image == NULL || image->kind != TN__ATTR_EXPRS || image->count > 6)
    tn__node_fail(graph, node, "needs the attribute image");
  const tn__expr *const *block = tn__g_require_exprs(graph, node, "block", image->count);
  static const char *const names[] = {"strides", "dilations", "low", "high"};
  for (int i = 0; i < 4; i++) tn__g_require_ints(graph, node, names[i], image->count);
  const tn__expr *dims[TN__MAX_RANK], *columns = tn__ir_index(ir, 1), *rows = columns, *zero = tn__ir_index(ir, 0),
                                      *channels = a->dims[1];
  for (int d = 0; d < image->count; d++) {
    if (tn__node_attr(node, "strides")->ints[d] < 1 || tn__node_attr(node, "dilations")->ints[d] < 1)
      tn__node_fail(graph, node, "strides and dilations must be positive");
    tn__graph_assume(graph, tn__ir_lt(ir, zero, block[d]),
                     "%s: block has %s elements along dimension %d, expected some", node->op->name,
                     tn__g_size_text(graph, block[d]), d);
    tn__graph_assume(graph, tn__ir_le(ir, zero, image->exprs[d]), "%s: image has %s elements along dimension %d",
                     node->op->name, tn__g_size_text(graph, image->exprs[d]), d);
    require_fit(graph, node, image->exprs[d], block[d], d);
    rows = tn__ir_mul(ir, rows, block[d]);
    channels =
        tn__ir_div(ir, channels, tn__ir_is_int(block[d]) ? block[d] : tn__ir_max(ir, block[d], tn__ir_index(ir, 1)));
    columns = tn__ir_mul(ir, columns, blocks_along(ir, node, image->exprs[d], block[d], d));
    dims[2 + d] = tn__g_not_negative(ir, image->exprs[d]);
  }
  tn__g_same_dim(graph, node, columns, a->dims[2], "operand 0", 2);
  dims[0] = a->dims[0];
  dims[1] = channels; /* none where the product of the blocks wraps around */
  tn__graph_assume(graph, tn__ir_eq(ir, tn__ir_mul(ir, dims[1], rows), a->dims[1]),
                   "%s: dimension 1 of %s must be a multiple of %s", node->op->name, tn__value_type_text(graph, a),
                   tn__g_size_text(graph, rows));
  tn__g_set_output(graph, node, 0, a->dtype, 2 + image->count, dims, NULL);
}

/* Each image element sums the block elements that lie over it; of truth values, whether one of them is true. */
static void declare_col2im(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                           const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  int spatial = node->outputs[0]->rank - 2;
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *block[TN__MAX_RANK], *valid = tn__ir_bool(ir, true);
  tn__lower_exprs(lower, tn__node_attr(node, "block")->exprs, spatial, block);
  tn__te_axes reduce = tn__te_axes_create(te, "k", spatial, block);
  const tn__expr *row = axes.index[1], *column = tn__ir_index(ir, 0);
  for (int d = 0; d < spatial; d++) {
    int64_t stride = tn__node_attr(node, "strides")->ints[d];
    const tn__expr *image = tn__lower_expr(lower, node->outputs[0]->dims[2 + d]),
                   *count = blocks_along(ir, node, image, block[d], d);
    const tn__expr *offset = tn__ir_mul_i(ir, reduce.index[d], tn__node_attr(node, "dilations")->ints[d]);
    const tn__expr *t =
        tn__ir_sub(ir, tn__ir_add_i(ir, axes.index[2 + d], tn__node_attr(node, "low")->ints[d]), offset);
    const tn__expr *which = tn__ir_div_i(ir, t, stride);
    valid = tn__ir_and(ir, valid, tn__ir_le(ir, tn__ir_index(ir, 0), t));
    valid = tn__ir_and(ir, valid, tn__ir_eq(ir, tn__ir_mod_i(ir, t, stride), tn__ir_index(ir, 0)));
    valid = tn__ir_and(ir, valid, tn__ir_lt(ir, which, count));
    row = tn__ir_add(ir, tn__ir_mul(ir, row, block[d]), reduce.index[d]);
    column = tn__ir_add(ir, tn__ir_mul(ir, column, count), which);
  }
  tn_dtype wide = tn__g_accumulator_of(inputs[0]->dtype);
  const tn__expr *own =
      tn__ir_cast(ir, wide, tn__ir_load(ir, inputs[0], (const tn__expr *[]){axes.index[0], row, column}));
  const tn__expr *term = tn__ir_select(ir, valid, own, tn__ir_constant(ir, wide, 0));
  const tn__te_reducer reducer = wide == TN_BOOL ? TN__TE_ANY : TN__TE_SUM;
  const tn__buffer *sum = tn__te_reduce(te, tn__lower_name(lower, "col2im"), &axes, &reduce, reducer, term);
  outputs[0] = tn__lower_convert(lower, sum, inputs[0]->dtype);
}

/* ---- non_max_suppression ----------------------------------------------------------------------------------------- */

static void infer_nms(tn__graph *graph, tn__node *node) {
  const tn__value *scores = node->inputs[1];
  tn__ir *ir = graph->ir;
  tn__g_require_same_dtype(graph, node, 0, 1);
  tn__g_require_dtype(graph, node, 2, TN_I64);
  tn__g_require_dtype(graph, node, 3, TN_I64);
  const tn__expr *dims[2] = {tn__g_dim_product(ir, scores->dims, 3), tn__ir_index(ir, 3)};
  tn__g_set_output(graph, node, 0, TN_I64, 2, dims, NULL);
  tn__g_set_output(graph, node, 1, TN_I64, 0, NULL, NULL);
}

typedef struct box {
  const tn__expr *low[2], *high[2], *area;
} box;

static box box_of(tn__ir *ir, const tn__buffer *boxes, const tn__expr *batch, const tn__expr *which, bool centers) {
  const tn__expr *v[4];
  for (int i = 0; i < 4; i++) v[i] = tn__ir_load(ir, boxes, (const tn__expr *[]){batch, which, tn__ir_index(ir, i)});
  box b;
  for (int d = 0; d < 2; d++) {
    if (centers) { /* x, y, width, height */
      const tn__expr *half = tn__ir_mul(ir, v[2 + d], tn__ir_constant(ir, boxes->dtype, 0.5));
      b.low[d] = tn__ir_sub(ir, v[d], half);
      b.high[d] = tn__ir_add(ir, v[d], half);
    } else { /* any two opposite corners */
      b.low[d] = tn__ir_min(ir, v[d], v[2 + d]);
      b.high[d] = tn__ir_max(ir, v[d], v[2 + d]);
    }
  }
  b.area = tn__ir_mul(ir, tn__ir_sub(ir, b.high[0], b.low[0]), tn__ir_sub(ir, b.high[1], b.low[1]));
  return b;
}

/* Is intersection over union greater than the threshold? */
static const tn__expr *overlap(tn__ir *ir, const box *a, const box *b, const tn__expr *threshold) {
  const tn__expr *zero = tn__ir_constant(ir, a->area->dtype, 0), *common[2];
  for (int d = 0; d < 2; d++)
    common[d] = tn__ir_max(
        ir, tn__ir_sub(ir, tn__ir_min(ir, a->high[d], b->high[d]), tn__ir_max(ir, a->low[d], b->low[d])), zero);
  const tn__expr *inter = tn__ir_mul(ir, common[0], common[1]);
  const tn__expr *all = tn__ir_sub(ir, tn__ir_add(ir, a->area, b->area), inter);
  return tn__ir_and(ir, tn__ir_lt(ir, zero, inter), tn__ir_lt(ir, threshold, tn__ir_div(ir, inter, all)));
}

enum { NMS_AT, NMS_KEEP, NMS_COUNT, NMS_CURSORS };
/* A candidate meets so many kept boxes before it looks whether one of them suppresses it; they lie side by side. */
enum { NMS_LANES = 16, NMS_BLOCK = 128, BOX_NUMBERS = 5 };

typedef struct suppression {
  tn__ir *ir;
  const tn__buffer *boxes, *scores, *order, *most, *threshold, *least; /* the last three are scalars, and may be NULL */
  const tn__buffer *selected, *counts, *total;
  const tn__buffer
      *kept; /* by class and number of `box_numbers`: of the boxes kept so far, and then boxes of nothing */
  const tn__buffer *cursors, *hits; /* of one class; of one block, by lane */
  bool centers;
} suppression;

/* The numbers that make a box. */
static void box_numbers(box *b, const tn__expr ***numbers) {
  numbers[0] = &b->low[0], numbers[1] = &b->low[1], numbers[2] = &b->high[0], numbers[3] = &b->high[1];
  numbers[4] = &b->area;
}

/* Stores number `slot` of the kept boxes of a class. */
static const tn__stmt *store_kept(const suppression *s, const tn__expr *which, box *b, const tn__expr *slot) {
  const tn__expr **numbers[BOX_NUMBERS];
  const tn__stmt *all[BOX_NUMBERS];
  box_numbers(b, numbers);
  for (int i = 0; i < BOX_NUMBERS; i++) {
    const tn__expr *at[3] = {which, tn__ir_index(s->ir, i), slot};
    all[i] = tn__ir_store(s->ir, s->kept, at, *numbers[i]);
  }
  return tn__ir_seq(s->ir, all, BOX_NUMBERS);
}

static const tn__stmt *over_lanes(tn__ir *ir, const tn__var *lane, const tn__stmt *body) {
  return tn__ir_for(ir, lane, TN__LOOP_VECTORIZED, body);
}

static const tn__var *lane_of(tn__ir *ir, int64_t lanes) {
  return tn__var_create(ir, "lane", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, lanes));
}

/* Boxes of nothing from a block's first slot on: they meet no other, wherever that is. */
static const tn__stmt *clear_block(const suppression *s, const tn__expr *which, const tn__expr *first) {
  tn__ir *ir = s->ir;
  const tn__var *lane = lane_of(ir, NMS_BLOCK);
  const tn__expr *least = tn__ir_constant(ir, s->boxes->dtype, -INFINITY),
                 *most = tn__ir_constant(ir, s->boxes->dtype, INFINITY);
  box nothing = {.low = {most, most}, .high = {least, least}, .area = tn__ir_constant(ir, s->boxes->dtype, 0)};
  return over_lanes(ir, lane, store_kept(s, which, &nothing, tn__ir_add(ir, first, lane->self)));
}

/* The candidate against the block of kept boxes at the cursor, which moves on; clears NMS_KEEP when one suppresses
 * it. */
static const tn__stmt *compare_block(const suppression *s, const tn__expr *which, const box *candidate,
                                     const tn__expr *const *slot, const tn__expr *threshold) {
  tn__ir *ir = s->ir;
  enum { STEPS = NMS_BLOCK / NMS_LANES };
  const tn__stmt *all[STEPS + 8];
  int count = 0;
  const tn__expr *at = tn__ir_load(ir, s->cursors, &slot[NMS_AT]), *zero = tn__ir_constant(ir, TN_I32, 0);
  for (int step = 0; step < STEPS; step++) {
    const tn__var *lane = lane_of(ir, NMS_LANES);
    const tn__expr **numbers[BOX_NUMBERS], *place = tn__ir_add_i(ir, tn__ir_add(ir, at, lane->self), step * NMS_LANES);
    box other;
    box_numbers(&other, numbers);
    for (int i = 0; i < BOX_NUMBERS; i++)
      *numbers[i] = tn__ir_load(ir, s->kept, (const tn__expr *[]){which, tn__ir_index(ir, i), place});
    const tn__expr *before = step == 0 ? zero : tn__ir_load(ir, s->hits, &lane->self);
    const tn__expr *hit =
        tn__ir_select(ir, overlap(ir, candidate, &other, threshold), tn__ir_constant(ir, TN_I32, 1), before);
    all[count++] = over_lanes(ir, lane, tn__ir_store(ir, s->hits, &lane->self, hit));
  }
  for (int half = NMS_LANES / 2; half > 0; half /= 2) {
    const tn__var *lane = lane_of(ir, half);
    const tn__expr *upper = tn__ir_add_i(ir, lane->self, half);
    const tn__expr *either = tn__ir_max(ir, tn__ir_load(ir, s->hits, &lane->self), tn__ir_load(ir, s->hits, &upper));
    all[count++] = over_lanes(ir, lane, tn__ir_store(ir, s->hits, &lane->self, either));
  }
  const tn__expr *first = tn__ir_index(ir, 0), *any = tn__ir_lt(ir, zero, tn__ir_load(ir, s->hits, &first));
  all[count++] = tn__ir_if(ir, any, tn__ir_store(ir, s->cursors, &slot[NMS_KEEP], first), NULL);
  all[count++] = tn__ir_store(ir, s->cursors, &slot[NMS_AT], tn__ir_add_i(ir, at, NMS_BLOCK));
  return tn__ir_seq(ir, all, count);
}

/* Lets around what `body` made of a box whose numbers are variables. */
static const tn__stmt *with_box(tn__ir *ir, box *b, const tn__var *const *vars, const tn__stmt *body) {
  const tn__expr **numbers[BOX_NUMBERS];
  box_numbers(b, numbers);
  for (int i = BOX_NUMBERS - 1; i >= 0; i--) body = tn__ir_let(ir, vars[i], *numbers[i], body);
  return body;
}

/* What is chosen of class number `which`, all batches counted through, into rows of its own of `selected`: takes its
 * boxes in the order of their scores, and keeps one when no kept one overlaps it too much. */
static const tn__stmt *suppress_class(const suppression *s, const tn__expr *which) {
  tn__ir *ir = s->ir;
  const tn__expr *slot[NMS_CURSORS], *cursor[NMS_CURSORS], *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1);
  for (int i = 0; i < NMS_CURSORS; i++) {
    slot[i] = tn__ir_index(ir, i);
    cursor[i] = tn__ir_load(ir, s->cursors, &slot[i]);
  }
  const tn__expr *batch = tn__ir_div(ir, which, s->scores->shape[1]),
                 *class = tn__ir_mod(ir, which, s->scores->shape[1]);
  const tn__expr *begin = tn__ir_mul(ir, which, s->scores->shape[2]);
  tn__nest ranked = tn__nest_create(ir, "r", 1, &s->scores->shape[2]);
  const tn__var *box_var = tn__g_let_var(ir, "box"), *vars[BOX_NUMBERS];
  box own = box_of(ir, s->boxes, batch, box_var->self, s->centers), candidate;
  const tn__expr **numbers[BOX_NUMBERS];
  box_numbers(&candidate, numbers);
  for (int i = 0; i < BOX_NUMBERS; i++) {
    vars[i] = tn__var_create(ir, "corner", s->boxes->dtype, NULL, NULL);
    *numbers[i] = vars[i]->self;
  }
  const tn__expr *threshold = s->threshold == NULL
                                  ? tn__ir_constant(ir, s->boxes->dtype, 0)
                                  : tn__ir_cast(ir, s->boxes->dtype, tn__ir_load(ir, s->threshold, NULL));
  const tn__expr *more =
      tn__ir_and(ir, tn__ir_lt(ir, cursor[NMS_AT], cursor[NMS_COUNT]), tn__ir_eq(ir, cursor[NMS_KEEP], one));
  const tn__expr *triple[3] = {batch, class, box_var->self};
  const tn__stmt *keep = tn__ir_store(ir, s->cursors, &slot[NMS_COUNT], tn__ir_add_i(ir, cursor[NMS_COUNT], 1));
  for (int i = 2; i >= 0; i--) {
    const tn__expr *row[2] = {tn__ir_add(ir, begin, cursor[NMS_COUNT]), tn__ir_index(ir, i)};
    keep = tn__ir_seq2(ir, tn__ir_store(ir, s->selected, row, triple[i]), keep);
  }
  keep = tn__ir_seq2(ir, store_kept(s, which, &candidate, cursor[NMS_COUNT]), keep);
  const tn__expr *opens = tn__ir_eq(ir, tn__ir_mod_i(ir, cursor[NMS_COUNT], NMS_BLOCK), zero);
  keep = tn__ir_seq2(ir, tn__ir_if(ir, opens, clear_block(s, which, cursor[NMS_COUNT]), NULL), keep);
  const tn__stmt *consider[] = {tn__ir_store(ir, s->cursors, &slot[NMS_AT], zero),
                                tn__ir_store(ir, s->cursors, &slot[NMS_KEEP], one),
                                tn__ir_while(ir, more, compare_block(s, which, &candidate, slot, threshold)),
                                tn__ir_if(ir, tn__ir_eq(ir, cursor[NMS_KEEP], one), keep, NULL)};
  const tn__expr *room = tn__ir_lt(ir, cursor[NMS_COUNT], s->most == NULL ? zero : tn__ir_load(ir, s->most, NULL));
  const tn__expr *score = tn__ir_load(ir, s->scores, (const tn__expr *[]){batch, class, box_var->self});
  if (s->least != NULL)
    room =
        tn__ir_and(ir, room, tn__ir_lt(ir, tn__ir_cast(ir, s->scores->dtype, tn__ir_load(ir, s->least, NULL)), score));
  const tn__stmt *body = tn__ir_if(ir, room, with_box(ir, &own, vars, tn__ir_seq(ir, consider, 4)), NULL);
  const tn__expr *next = tn__ir_load(ir, s->order, (const tn__expr *[]){batch, class, ranked.index[0]});
  next = tn__ir_max(ir, tn__ir_min(ir, next, tn__ir_add_i(ir, s->scores->shape[2], -1)),
                    zero); /* whatever the operand holds */
  body = tn__ir_let(ir, box_var, next, body);
  const tn__stmt *all[] = {tn__ir_store(ir, s->cursors, &slot[NMS_COUNT], zero), tn__nest_loops(ir, &ranked, body),
                           tn__ir_store(ir, s->counts, &which, cursor[NMS_COUNT])};
  return tn__ir_alloc_stmt(ir, s->cursors, tn__ir_alloc_stmt(ir, s->hits, tn__ir_seq(ir, all, 3)));
}

/* Moves what the classes chose together, in their order, and clears the rest. */
static const tn__stmt *gather_classes(const suppression *s, const tn__expr *classes) {
  tn__ir *ir = s->ir;
  const tn__expr *extents[2] = {s->scores->shape[2], tn__ir_index(ir, 3)}, *zero = tn__ir_index(ir, 0);
  const tn__expr *count = tn__ir_load(ir, s->total, NULL);
  tn__nest class = tn__nest_create(ir, "k", 1, &classes), row = tn__nest_create(ir, "m", 1, extents);
  tn__nest part = tn__nest_create(ir, "t", 1, extents + 1), clear = tn__nest_create(ir, "p", 2, s->selected->shape);
  const tn__expr *from[2] = {tn__ir_add(ir, tn__ir_mul(ir, class.index[0], extents[0]), row.index[0]), part.index[0]};
  const tn__expr *to[2] = {count, part.index[0]};
  const tn__stmt *move =
      tn__nest_loops(ir, &part, tn__ir_store(ir, s->selected, to, tn__ir_load(ir, s->selected, from)));
  move = tn__ir_seq2(ir, move, tn__ir_store(ir, s->total, NULL, tn__ir_add_i(ir, count, 1)));
  move = tn__ir_if(ir, tn__ir_lt(ir, row.index[0], tn__ir_load(ir, s->counts, class.index)), move, NULL);
  const tn__stmt *rest =
      tn__ir_if(ir, tn__ir_le(ir, count, clear.index[0]), tn__ir_store(ir, s->selected, clear.index, zero), NULL);
  const tn__stmt *all[] = {tn__ir_store(ir, s->total, NULL, zero),
                           tn__nest_loops(ir, &class, tn__nest_loops(ir, &row, move)),
                           tn__nest_loops(ir, &clear, rest)};
  return tn__ir_seq(ir, all, 3);
}

/* Classes are independent of each other and go side by side. */
static void declare_nms(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                        const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  suppression s = {.ir = ir, .boxes = inputs[0], .scores = inputs[1], .order = inputs[2], .most = inputs[3]};
  s.threshold = inputs[4], s.least = inputs[5];
  s.centers = tn__node_int(node, "center_point_box", 0) != 0;
  const tn__expr *classes = tn__ir_mul(ir, s.scores->shape[0], s.scores->shape[1]);
  const tn__expr *dims[2] = {tn__g_dim_product(ir, s.scores->shape, 3), tn__ir_index(ir, 3)};
  const tn__expr *cursors = tn__ir_index(ir, NMS_CURSORS), *lanes = tn__ir_index(ir, NMS_LANES);
  const char *name = tn__lower_name(lower, "non_max_suppression");
  s.selected = tn__te_extern_tensor(te, name, TN_I64, 2, dims);
  s.total = tn__te_extern_tensor(te, tn__lower_name(lower, "count"), TN_I64, 0, NULL);
  s.counts = tn__buffer_create(ir, "counts", TN_I64, TN__SCOPE_WORKSPACE, 1, &classes);
  s.cursors = tn__buffer_create(ir, "cursors", TN_I64, TN__SCOPE_STACK, 1, &cursors);
  s.hits = tn__buffer_create(ir, "hits", TN_I32, TN__SCOPE_STACK, 1, &lanes);
  const tn__expr *rooms[3] = {classes, tn__ir_index(ir, BOX_NUMBERS), tn__ir_add_i(ir, s.scores->shape[2], NMS_BLOCK)};
  s.kept = tn__buffer_create(ir, "kept", s.boxes->dtype, TN__SCOPE_WORKSPACE, 3, rooms);
  tn__nest nest = tn__nest_create(ir, "j", 1, &classes);
  const tn__stmt *suppress = tn__ir_for(ir, nest.var[0], TN__LOOP_PARALLEL, suppress_class(&s, nest.index[0]));
  const tn__stmt *all = tn__ir_seq2(ir, suppress, gather_classes(&s, classes));
  const tn__buffer *reads[6], *writes[2] = {s.selected, s.total};
  int read_count = 0;
  for (int i = 0; i < node->input_count; i++)
    if (inputs[i] != NULL) reads[read_count++] = inputs[i];
  tn__te_extern(te, name, reads, read_count, writes, 2,
                tn__ir_alloc_stmt(ir, s.counts, tn__ir_alloc_stmt(ir, s.kept, all)));
  outputs[0] = s.selected;
  outputs[1] = s.total;
}

/* ---- roi_align --------------------------------------------------------------------------------------------------- */

static void infer_roi_align(tn__graph *graph, tn__node *node) {
  static const char *const modes[] = {"avg", "max"};
  const tn__value *a = node->inputs[0];
  tn__g_require_float(graph, node, 0);
  tn__g_require_same_dtype(graph, node, 0, 1);
  tn__g_require_int(graph, node, 2);
  require_one_of(graph, node, "mode", modes, 2);
  const int64_t *size = tn__g_require_ints(graph, node, "size", 2);
  if (size[0] < 1 || size[1] < 1) tn__node_fail(graph, node, "the attribute size must be positive");
  const tn__expr *count = node->inputs[2]->dims[0];
  const tn__expr *dims[4] = {tn__ir_is_int(count) ? count : node->inputs[1]->dims[0]};
  int channel = channel_dim(node, 4), first = spatial_dim(node);
  dims[channel] = a->dims[channel];
  for (int d = 0; d < 2; d++) dims[first + d] = tn__ir_index(graph->ir, size[d]);
  tn__g_set_output(graph, node, 0, a->dtype, 4, dims, NULL);
}

/* Pairs are along y and x. */
typedef struct roi {
  const tn__node *node;
  const tn__buffer *a, *result, *sums; /* sums: of one bin, by channel */
  tn_dtype wide;
  int channel, spatial; /* dimensions of the image and of the result */
  bool max;
  const tn__expr *batch, *which; /* of the image, of the region */
  const tn__var *start[2], *bin[2], *samples[2];
  const tn__var *low[2], *high[2], *behind[2]; /* of a sample: rows and columns beside it, how far behind the first */
  tn__nest cells, taps;
} roi;

/* More samples along a bin than any image has rows for: the region is nothing that was found in it. */
enum { MOST_SAMPLES = 1 << 16 };

/* Lets of one region around `body`: where it starts, how large a bin is, how many samples a bin takes. */
static const tn__stmt *with_roi(tn__ir *ir, const tn__buffer *rois, const roi *r, const tn__stmt *body) {
  const tn__node *node = r->node;
  bool half_pixel = tn__node_int(node, "half_pixel", 1) != 0;
  int64_t ratio = tn__node_int(node, "sampling_ratio", 0);
  const tn__expr *scale = tn__ir_float(ir, r->wide, tn__node_float(node, "spatial_scale", 1));
  const tn__expr *offset = tn__ir_float(ir, r->wide, half_pixel ? 0.5 : 0), *one = tn__ir_float(ir, r->wide, 1);
  for (int d = 0; d < 2 && ratio == 0; d++) {
    const tn__expr *many = tn__ir_lt(ir, tn__ir_index(ir, MOST_SAMPLES), r->samples[d]->self);
    body = tn__ir_seq2(ir, tn__ir_if(ir, many, tn__ir_fail(ir, TN_KERNEL_BAD_VALUE), NULL), body);
  }
  for (int d = 1; d >= 0; d--) {
    const tn__expr *ends[2]; /* coordinates are x, y, x, y */
    for (int e = 0; e < 2; e++) {
      const tn__expr *value = tn__ir_load(ir, rois, (const tn__expr *[]){r->which, tn__ir_index(ir, 2 * e + 1 - d)});
      ends[e] = tn__ir_sub(ir, tn__ir_mul(ir, tn__ir_cast(ir, r->wide, value), scale), offset);
    }
    const tn__expr *length = tn__ir_sub(ir, ends[1], ends[0]);
    if (!half_pixel) length = tn__ir_max(ir, length, one);
    const tn__expr *bin =
        tn__ir_div(ir, length, tn__ir_float(ir, r->wide, (double)tn__node_attr(node, "size")->ints[d]));
    const tn__expr *samples =
        ratio > 0 ? tn__ir_index(ir, ratio)
                  : tn__ir_max(ir, tn__ir_cast(ir, TN_I64, tn__ir_call1(ir, TN__CALL_CEIL, bin)), tn__ir_index(ir, 0));
    body = tn__ir_let(ir, r->samples[d], samples, body);
    body = tn__ir_let(ir, r->bin[d], bin, body);
    body = tn__ir_let(ir, r->start[d], ends[0], body);
  }
  return body;
}

/* Where a sample lies along y (d 0) or x: lets around `body`, which runs only when that is inside of the image. */
static const tn__stmt *with_place(const roi *r, tn__ir *ir, int d, const tn__stmt *body, const tn__stmt *outside) {
  const tn__expr *zero = tn__ir_float(ir, r->wide, 0), *length = r->a->shape[r->spatial + d];
  const tn__expr *last = tn__ir_add_i(ir, length, -1), *bin = r->bin[d]->self;
  const tn__expr *step = tn__ir_add(ir, tn__ir_cast(ir, r->wide, r->taps.index[d]), tn__ir_float(ir, r->wide, 0.5));
  step = tn__ir_div(ir, tn__ir_mul(ir, step, bin), tn__ir_cast(ir, r->wide, r->samples[d]->self));
  const tn__expr *corner = tn__ir_mul(ir, tn__ir_cast(ir, r->wide, r->cells.index[d]), bin);
  const tn__var *at = tn__var_create(ir, "at", r->wide, NULL, NULL);
  const tn__expr *x = tn__ir_max(ir, at->self, zero), *low = r->low[d]->self;
  const tn__expr *at_end = tn__ir_le(ir, last, low);
  body = tn__ir_let(ir, r->behind[d], tn__ir_select(ir, at_end, zero, tn__ir_sub(ir, x, tn__ir_cast(ir, r->wide, low))),
                    body);
  body = tn__ir_let(ir, r->high[d], tn__ir_select(ir, at_end, low, tn__ir_add_i(ir, low, 1)), body);
  body = tn__ir_let(ir, r->low[d],
                    tn__ir_max(ir, tn__ir_min(ir, tn__ir_cast(ir, TN_I64, x), last), tn__ir_index(ir, 0)), body);
  const tn__expr *inside = tn__ir_and(ir, tn__ir_le(ir, tn__ir_float(ir, r->wide, -1), at->self),
                                      tn__ir_le(ir, at->self, tn__ir_cast(ir, r->wide, length)));
  inside = tn__ir_and(ir, tn__ir_lt(ir, tn__ir_index(ir, 0), length), inside);
  body = tn__ir_if(ir, inside, body, outside);
  return tn__ir_let(ir, at, tn__ir_add(ir, tn__ir_add(ir, r->start[d]->self, corner), step), body);
}

static const tn__expr *is_first_sample(const roi *r, tn__ir *ir) {
  const tn__expr *zero = tn__ir_index(ir, 0);
  return tn__ir_and(ir, tn__ir_eq(ir, r->taps.index[0], zero), tn__ir_eq(ir, r->taps.index[1], zero));
}

/* Takes what a sample has of one channel up: the sum of its four weighted neighbours, or for max the greatest. */
static const tn__stmt *take_up(tn__ir *ir, const tn__expr *const *channel, const void *user) {
  const roi *r = user;
  const tn__expr *one = tn__ir_float(ir, r->wide, 1), *own = NULL, *at[4] = {r->batch};
  at[r->channel] = channel[0];
  for (int k = 0; k < 4; k++) {
    const tn__expr *weight[2];
    for (int d = 0; d < 2; d++) {
      bool high = d == 0 ? k / 2 == 1 : k % 2 == 1;
      at[r->spatial + d] = high ? r->high[d]->self : r->low[d]->self;
      weight[d] = high ? r->behind[d]->self : tn__ir_sub(ir, one, r->behind[d]->self);
    }
    const tn__expr *pixel = tn__ir_cast(ir, r->wide, tn__ir_load(ir, r->a, at));
    pixel = tn__ir_mul(ir, tn__ir_mul(ir, weight[0], weight[1]), pixel);
    own = own == NULL ? pixel : r->max ? tn__ir_max(ir, own, pixel) : tn__ir_add(ir, own, pixel);
  }
  const tn__expr *so_far = tn__ir_load(ir, r->sums, channel);
  const tn__expr *value = r->max ? tn__ir_select(ir, is_first_sample(r, ir), own, tn__ir_max(ir, so_far, own))
                                 : tn__ir_add(ir, so_far, own);
  return tn__ir_store(ir, r->sums, channel, value);
}

/* A sample outside of the image counts as zero. */
static const tn__stmt *take_zero_up(tn__ir *ir, const tn__expr *const *channel, const void *user) {
  const roi *r = user;
  const tn__expr *so_far = tn__ir_load(ir, r->sums, channel), *zero = tn__ir_float(ir, r->wide, 0);
  const tn__expr *value = tn__ir_select(ir, is_first_sample(r, ir), zero, tn__ir_max(ir, so_far, zero));
  return tn__ir_store(ir, r->sums, channel, value);
}

static const tn__stmt *clear_sum(tn__ir *ir, const tn__expr *const *channel, const void *user) {
  const roi *r = user;
  return tn__ir_store(ir, r->sums, channel, tn__ir_float(ir, r->wide, 0));
}

static const tn__stmt *finish_cell(tn__ir *ir, const tn__expr *const *channel, const void *user) {
  const roi *r = user;
  const tn__expr *count = tn__ir_mul(ir, r->samples[0]->self, r->samples[1]->self), *at[4] = {r->which};
  at[r->channel] = channel[0];
  for (int d = 0; d < 2; d++) at[r->spatial + d] = r->cells.index[d];
  const tn__expr *value = tn__ir_load(ir, r->sums, channel);
  if (!r->max) value = tn__ir_div(ir, value, tn__ir_cast(ir, r->wide, tn__ir_max(ir, count, tn__ir_index(ir, 1))));
  return tn__ir_store(ir, r->result, at, tn__ir_cast(ir, r->a->dtype, value));
}

/* Channels are innermost everywhere, so that places and weights are computed once for all. */
static const tn__stmt *over_channels(const roi *r, tn__ir *ir, tn__nest_body *body) {
  const tn__expr *const *count = &r->a->shape[r->channel];
  return tn__nest_vectors(ir, "c", 1, count, count, body, r);
}

static void declare_roi_align(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                              const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__buffer *a = inputs[0], *rois = inputs[1], *batches = inputs[2];
  const tn__var *batch = tn__g_let_var(ir, "batch");
  const char *name = tn__lower_name(lower, "roi_align");
  const tn__expr *dims[4], *counts[2];
  tn__lower_dims(lower, node->outputs[0], dims);
  roi r = {.node = node,
           .a = a,
           .wide = tn__g_accumulator_of(a->dtype),
           .channel = channel_dim(node, 4),
           .spatial = spatial_dim(node),
           .max = attr_is(node, "mode", "max"),
           .batch = tn__g_wrap_index(ir, batch->self, a->shape[0])};
  for (int d = 0; d < 2; d++) {
    r.start[d] = tn__var_create(ir, "start", r.wide, NULL, NULL);
    r.bin[d] = tn__var_create(ir, "bin", r.wide, NULL, NULL);
    r.behind[d] = tn__var_create(ir, "behind", r.wide, NULL, NULL);
    r.samples[d] = tn__g_let_var(ir, "samples");
    r.low[d] = tn__g_let_var(ir, "low");
    r.high[d] = tn__g_let_var(ir, "high");
    counts[d] = r.samples[d]->self;
  }
  r.result = tn__te_extern_tensor(te, name, a->dtype, 4, dims);
  r.sums = tn__buffer_create(ir, "sums", r.wide, TN__SCOPE_WORKSPACE, 1, &a->shape[r.channel]);
  tn__nest which = tn__nest_create(ir, "r", 1, dims);
  r.which = which.index[0];
  r.cells = tn__nest_create(ir, "j", 2, dims + r.spatial);
  r.taps = tn__nest_create(ir, "s", 2, counts);
  const tn__stmt *outside = r.max ? over_channels(&r, ir, take_zero_up) : NULL;
  const tn__stmt *sample = with_place(&r, ir, 1, over_channels(&r, ir, take_up), outside);
  sample = with_place(&r, ir, 0, sample, outside);
  const tn__stmt *cell[3];
  cell[0] = over_channels(&r, ir, clear_sum);
  cell[1] = tn__nest_loops(ir, &r.taps, sample);
  cell[2] = over_channels(&r, ir, finish_cell);
  const tn__stmt *body = with_roi(ir, rois, &r, tn__nest_loops(ir, &r.cells, tn__ir_seq(ir, cell, 3)));
  body = tn__ir_seq2(ir, tn__g_check_index(ir, batch->self, a->shape[0]), body);
  body = tn__ir_let(ir, batch, tn__ir_cast(ir, TN_I64, tn__ir_load(ir, batches, which.index)), body);
  tn__te_extern(te, name, inputs, 3, &r.result, 1, tn__ir_alloc_stmt(ir, r.sums, tn__nest_loops(ir, &which, body)));
  outputs[0] = r.result;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

#define TN__ROW(least, most, op_name, names, class, suffix, ...) \
  {.name = op_name,                                              \
   .min_inputs = least,                                          \
   .max_inputs = most,                                           \
   .operands = names,                                            \
   .op_class = class,                                            \
   .lowering = TN__LOWER_DECLARE,                                \
   .infer = infer_##suffix,                                      \
   .declare = declare_##suffix,                                  \
   .doc = __VA_ARGS__}

static const tn__op rows[] = {
    TN__ROW(2, 2, "grid_sample", "x[n,_,*i] grid[n,*g,d]", TN__CLASS_REDUCTION, grid_sample,
            "Samples at the normalised coordinates of a grid: nearest, linear or cubic, in any spatial rank.",
            .attributes = "mode:string padding:string align_corners:int channels_last:int"),
    TN__ROW(1, 1, "col2im", "x[n,r,k]", TN__CLASS_REDUCTION, col2im,
            "Adds the columns of sliding blocks up to an image.",
            .attributes = "image:exprs block:exprs strides:ints dilations:ints low:ints high:ints"),
    TN__ROW(
        4, 6, "non_max_suppression", "boxes[n,k,4] scores[n,c,k] order[n,c,k] most[] overlap[]? score[]?",
        TN__CLASS_OPAQUE, nms,
        "Boxes, scores and their order, maximum, overlap and score thresholds: the boxes that are kept, and how many.",
        .attributes = "center_point_box:int"),
    TN__ROW(
        3, 3, "roi_align", "x[_,_,_,_] regions[r,4] batches[r]", TN__CLASS_OPAQUE, roi_align,
        "Regions of a feature map sampled bilinearly to a fixed size.",
        .attributes = "mode:string size:ints sampling_ratio:int half_pixel:int spatial_scale:float channels_last:int"),
};

const tn__op_family tn__ops_vision = {rows, sizeof(rows) / sizeof(rows[0])};
