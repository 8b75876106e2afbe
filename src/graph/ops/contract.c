/* dot_general and convolution. Both speak of the tensors that their operands are, and read them in whatever layouts the
 * values have: elements are found through the layout, whole blocks of columns are computed, and where both operands
 * are stored in words along the reduction, each term is the sum of a word's products. */
#include <string.h>

#include "graph/internal.h"

static tn_dtype result_dtype(const tn__graph *graph, const tn__node *node) {
  const char *name = tn__node_string(node, "dtype", tn_dtype_name(tn__g_tensor_dtype(node->inputs[0])));
  tn_dtype dtype = tn_dtype_parse(name);
  if (dtype == TN_DTYPE_INVALID || dtype == TN_BOOL) tn__node_fail(graph, node, "the result can't be of type %s", name);
  if (node->inputs[0]->dtype == TN_BOOL || node->inputs[1]->dtype == TN_BOOL)
    tn__node_fail(graph, node, "is not defined for bool");
  return dtype;
}

static const tn__held *held_of(const tn__node *node, int side) { return node->inputs[side]->held; }

static tn__layout_word word_of(const tn__node *node, int side) {
  return held_of(node, side) != NULL ? held_of(node, side)->layout.word : (tn__layout_word){0};
}

/* How many steps along the reduction one term takes: the elements of a word. */
static int64_t step_of(const tn__node *node) {
  int64_t count = word_of(node, 0).count;
  return count != 0 ? count : 1;
}

/* Words are of u8 on the left and of i8 on the right, neighbours along dimensions that are summed over together. */
static void check_words(const tn__graph *graph, const tn__node *node, int64_t left, int64_t right) {
  static const tn_dtype dtypes[2] = {TN_U8, TN_I8};
  const int64_t summed[2] = {left, right};
  if (word_of(node, 0).count == 0 && word_of(node, 1).count == 0) return;
  for (int i = 0; i < 2; i++) {
    const tn__value *operand = node->inputs[i];
    if (tn__g_tensor_dtype(operand) != dtypes[i] || word_of(node, i).count == 0 || word_of(node, i).dim != summed[i])
      tn__node_fail(graph, node,
                    "operand %d is %s: where one operand is stored in words, operand 0 is of u8, operand 1 of i8, both "
                    "in words along the dimensions that are summed over",
                    i, tn__value_type_text(graph, operand));
  }
  if (result_dtype(graph, node) != TN_I32) tn__node_fail(graph, node, "sums of words of bytes are of type i32");
}

/* The type that products and sums are carried in: that of the result, at least f32 for floats. */
static const tn__expr *product(tn__ir *ir, const tn__node *node, const tn__expr *a, const tn__expr *b) {
  tn_dtype wide = tn__g_accumulator_of(node->outputs[0]->dtype);
  if (step_of(node) != 1) return tn__ir_call2(ir, TN__CALL_DOT4, a, b);
  return tn__ir_mul(ir, tn__ir_cast(ir, wide, a), tn__ir_cast(ir, wide, b));
}

/* An element of an operand's tensor, or the word that begins with it, where the layout has it. */
static const tn__expr *load_operand(tn__ir *ir, const tn__node *node, int side, const tn__buffer *buffer,
                                    const tn__expr *const *index) {
  const tn__held *held = held_of(node, side);
  const tn__expr *stored[TN__MAX_RANK];
  if (held != NULL) tn__layout_map(ir, &held->layout, index, stored);
  return tn__ir_load(ir, buffer, held != NULL ? stored : index);
}

/* A size along the reduction in steps of a term. */
static const tn__expr *in_steps(tn__ir *ir, const tn__node *node, const tn__expr *size) {
  return tn__ir_ceildiv(ir, size, tn__ir_index(ir, step_of(node)));
}

/* How many columns are computed, which run along dimension `column` of the right operand: all of its last block. */
static const tn__expr *whole_columns(tn__ir *ir, const tn__node *node, int column, const tn__expr *size) {
  const tn__held *held = held_of(node, 1);
  return held != NULL ? tn__layout_whole(ir, &held->layout, column, size) : size;
}

/* Copies the real columns out of a result whose column dimension is rounded up to whole panels. */
static const tn__buffer *take_columns(tn__lower_context *lower, const tn__buffer *padded, const tn__value *result) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__lower_axes(lower, result);
  const tn__expr *value = tn__ir_cast(ir, result->dtype, tn__ir_load(ir, padded, axes.index));
  return tn__te_compute(tn__lower_te(lower), tn__lower_name(lower, "columns"), &axes, value);
}

/* ---- dot_general ------------------------------------------------------------------------------------------------- */

typedef struct dot_shape {
  const int64_t *batch[2], *contract[2];
  int batch_count, contract_count;
  int free_count[2];
  int free[2][TN__MAX_RANK]; /* dimensions that are neither */
} dot_shape;

static void side_of(const tn__graph *graph, const tn__node *node, dot_shape *s, int side) {
  static const char *const names[2][2] = {{"lhs_batch", "lhs_contract"}, {"rhs_batch", "rhs_contract"}};
  int rank = tn__g_tensor_rank(node->inputs[side]);
  const tn__attr *batch = tn__node_attr(node, names[side][0]), *contract = tn__node_attr(node, names[side][1]);
  int batches = batch == NULL ? 0 : batch->count, contracts = contract == NULL ? 0 : contract->count;
  if (graph != NULL && side == 1 && (batches != s->batch_count || contracts != s->contract_count))
    tn__node_fail(graph, node, "both operands must have equally many batch and contracting dimensions");
  s->batch_count = batches;
  s->contract_count = contracts;
  s->batch[side] = batches == 0 ? NULL : batch->ints;
  s->contract[side] = contracts == 0 ? NULL : contract->ints;
  unsigned seen = 0;
  for (int i = 0; i < batches + contracts; i++) {
    int64_t axis = i < batches ? batch->ints[i] : contract->ints[i - batches];
    if (graph != NULL && (axis < 0 || axis >= rank || (seen >> axis & 1) != 0))
      tn__node_fail(graph, node, "dimension %lld of operand %d is out of range or stands twice", (long long)axis, side);
    seen |= 1u << axis;
  }
  s->free_count[side] = 0;
  for (int i = 0; i < rank; i++)
    if ((seen >> i & 1) == 0) s->free[side][s->free_count[side]++] = i;
}

static dot_shape dot_shape_of(const tn__graph *graph, const tn__node *node) {
  dot_shape s = {0};
  side_of(graph, node, &s, 0);
  side_of(graph, node, &s, 1);
  return s;
}

/* Which of the contracting dimensions both operands have in words; -1: none. */
static int pair_in_words(const tn__node *node, const dot_shape *s) {
  for (int i = 0; i < s->contract_count && word_of(node, 0).count != 0; i++)
    if (s->contract[0][i] == word_of(node, 0).dim && s->contract[1][i] == word_of(node, 1).dim) return i;
  return -1;
}

static void infer_dot(tn__graph *graph, tn__node *node) {
  const tn__expr *const *left = tn__g_tensor_dims(node->inputs[0]), *const *right = tn__g_tensor_dims(node->inputs[1]);
  dot_shape s = dot_shape_of(graph, node);
  const tn__expr *dims[TN__MAX_RANK * 2];
  int rank = 0;
  int pair = pair_in_words(node, &s);
  check_words(graph, node, pair < 0 ? -1 : s.contract[0][pair], pair < 0 ? -1 : s.contract[1][pair]);
  for (int i = 0; i < s.batch_count; i++)
    dims[rank++] =
        tn__g_same_dim(graph, node, left[s.batch[0][i]], right[s.batch[1][i]], "operand 1", (int)s.batch[1][i]);
  for (int i = 0; i < s.contract_count; i++)
    tn__g_same_dim(graph, node, left[s.contract[0][i]], right[s.contract[1][i]], "operand 1", (int)s.contract[1][i]);
  for (int i = 0; i < s.free_count[0]; i++) dims[rank++] = left[s.free[0][i]];
  for (int i = 0; i < s.free_count[1]; i++) dims[rank++] = right[s.free[1][i]];
  tn__g_set_output(graph, node, 0, result_dtype(graph, node), rank, dims, NULL);
}

static void declare_dot(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                        const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  dot_shape s = dot_shape_of(NULL, node);
  const tn__value *result = node->outputs[0];
  const tn__expr *dims[TN__MAX_RANK], *extents[TN__MAX_RANK], *index[2][TN__MAX_RANK], *left[TN__MAX_RANK];
  tn__lower_dims(lower, result, dims);
  int last = result->rank - 1, columns = s.free_count[1] - 1;
  const tn__expr *real = last < 0 ? NULL : dims[last];
  if (columns >= 0) dims[last] = whole_columns(ir, node, s.free[1][columns], real);
  bool padded = last >= 0 && dims[last] != real;
  int pair = pair_in_words(node, &s);
  tn__lower_exprs(lower, tn__g_tensor_dims(node->inputs[0]), tn__g_tensor_rank(node->inputs[0]), left);
  for (int i = 0; i < s.contract_count; i++)
    extents[i] = i == pair ? in_steps(ir, node, left[s.contract[0][i]]) : left[s.contract[0][i]];
  tn__te_axes axes = tn__te_axes_create(te, "i", result->rank, dims);
  tn__te_axes reduce = tn__te_axes_create(te, "k", s.contract_count, extents);
  int next = 0;
  for (int i = 0; i < s.batch_count; i++, next++) index[0][s.batch[0][i]] = index[1][s.batch[1][i]] = axes.index[next];
  for (int i = 0; i < s.contract_count; i++)
    index[0][s.contract[0][i]] = index[1][s.contract[1][i]] =
        tn__ir_mul_i(ir, reduce.index[i], i == pair ? step_of(node) : 1);
  for (int i = 0; i < s.free_count[0]; i++) index[0][s.free[0][i]] = axes.index[next++];
  for (int i = 0; i < s.free_count[1]; i++) index[1][s.free[1][i]] = axes.index[next++];
  const tn__expr *term =
      product(ir, node, load_operand(ir, node, 0, inputs[0], index[0]), load_operand(ir, node, 1, inputs[1], index[1]));
  const char *name = tn__lower_name(lower, "dot_general");
  const tn__buffer *sum = s.contract_count == 0 ? tn__te_compute(te, name, &axes, term)
                                                : tn__te_reduce(te, name, &axes, &reduce, TN__TE_SUM, term);
  outputs[0] = padded ? take_columns(lower, sum, result) : tn__lower_convert(lower, sum, result->dtype);
}

/* Columns run along the one dimension of the right operand that is neither, the last one of the result. */
static void dot_contraction(const tn__node *node, tn__contraction *out) {
  const dot_shape s = dot_shape_of(NULL, node);
  bool columns = s.free_count[1] == 1, sums = s.contract_count == 1 && s.contract[0] != NULL && s.contract[1] != NULL;
  *out = (tn__contraction){.column = columns ? node->outputs[0]->rank - 1 : -1,
                           .rhs_column = columns ? s.free[1][0] : -1,
                           .sum = {sums ? (int)s.contract[0][0] : -1, sums ? (int)s.contract[1][0] : -1},
                           .batch_count = s.batch_count,
                           .batch = {s.batch[0], s.batch[1]}};
  out->by_rows = columns && sums && s.batch_count == 0 && out->sum[0] == tn__g_tensor_rank(node->inputs[0]) - 1;
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

typedef struct conv_shape {
  int spatial;
  const int64_t *strides, *lhs_dilation, *rhs_dilation;
  int64_t groups;
  bool flip;
  int channel, first_spatial;             /* dimensions of what lhs holds, and of the result */
  int rhs_in, rhs_out, rhs_first_spatial; /* of the tensor that rhs holds */
} conv_shape;

static conv_shape conv_shape_of(const tn__node *node) {
  int spatial = tn__g_tensor_rank(node->inputs[0]) - 2;
  bool last = tn__node_int(node, "channels_last", 0) != 0;
  conv_shape s = {.spatial = spatial,
                  .strides = tn__node_attr(node, "strides")->ints,
                  .lhs_dilation = tn__node_attr(node, "lhs_dilation")->ints,
                  .rhs_dilation = tn__node_attr(node, "rhs_dilation")->ints,
                  .groups = tn__node_int(node, "feature_groups", 1),
                  .flip = tn__node_int(node, "flip", 0) != 0,
                  .channel = last ? spatial + 1 : 1,
                  .first_spatial = last ? 1 : 2};
  s.rhs_in = last ? spatial : 1;
  s.rhs_out = last ? spatial + 1 : 0;
  s.rhs_first_spatial = last ? 0 : 2;
  return s;
}

/* The result's channels; checks groups. */
static const tn__expr *conv_channels(tn__graph *graph, const tn__node *node, const conv_shape *s) {
  const tn__expr *const *image = tn__g_tensor_dims(node->inputs[0]), *const *weights =
                                                                         tn__g_tensor_dims(node->inputs[1]);
  tn__ir *ir = graph->ir;
  if (s->groups < 1) tn__node_fail(graph, node, "feature_groups %lld is not positive", (long long)s->groups);
  const tn__expr *channels = weights[s->rhs_out];
  const tn__expr *divides = tn__ir_eq(ir, tn__ir_mod_i(ir, channels, s->groups), tn__ir_index(ir, 0));
  if (tn__ir_is_false(divides))
    tn__node_fail(graph, node, "%s output channels do not divide into %lld groups", tn__g_expr_text(graph, channels),
                  (long long)s->groups);
  tn__graph_assume(graph, divides, "%s: %s output channels do not divide into %lld groups", node->op->name,
                   tn__g_size_text(graph, channels), (long long)s->groups);
  const tn__expr *in = tn__ir_mul_i(ir, weights[s->rhs_in], s->groups);
  const tn__expr *equal = tn__ir_eq(ir, image[s->channel], in);
  if (tn__ir_is_false(equal))
    tn__node_fail(graph, node, "operand 0 has %s channels, but the weights are for %s in %lld groups",
                  tn__g_expr_text(graph, image[s->channel]), tn__g_expr_text(graph, in), (long long)s->groups);
  tn__graph_assume(graph, equal, "%s: operand 0 has %s channels and must have %s", node->op->name,
                   tn__g_size_text(graph, image[s->channel]), tn__g_size_text(graph, in));
  return channels;
}

/* Where dimension `dim` of the left operand is stored; -1: not in one piece. */
static int stored_dim(const tn__node *node, int dim) {
  const tn__held *held = held_of(node, 0);
  for (int i = 0; held != NULL && i < held->layout.rank; i++)
    if (held->layout.parts[i].dim == dim)
      return held->layout.parts[i].divisor == 1 && held->layout.parts[i].modulus == 0 ? i : -1;
  return dim;
}

void tn__g_infer_convolution(tn__graph *graph, tn__node *node) {
  const tn__value *lhs = node->inputs[0];
  const tn__expr *const *image = tn__g_tensor_dims(lhs);
  tn__ir *ir = graph->ir;
  int rank = tn__g_tensor_rank(lhs), spatial = rank - 2;
  if (spatial < 0 || spatial > 6)
    tn__node_fail(graph, node, "operand 0 must have 2 to 8 dimensions, but is %s", tn__value_type_text(graph, lhs));
  tn__g_require_rank(graph, node, 1, rank);
  tn__g_require_ints(graph, node, "strides", spatial);
  tn__g_require_ints(graph, node, "lhs_dilation", spatial);
  tn__g_require_ints(graph, node, "rhs_dilation", spatial);
  const tn__expr *const *low = tn__g_require_exprs(graph, node, "low", spatial);
  const tn__expr *const *high = tn__g_require_exprs(graph, node, "high", spatial);
  conv_shape s = conv_shape_of(node);
  const tn__expr *dims[TN__MAX_RANK];
  check_words(graph, node, s.channel, s.rhs_in);
  for (int i = 0; i < spatial; i++)
    if (stored_dim(node, s.first_spatial + i) < 0)
      tn__node_fail(graph, node, "operand 0 is %s: dimension %d, along which windows move, is stored in blocks",
                    tn__value_type_text(graph, lhs), s.first_spatial + i);
  dims[0] = image[0];
  dims[s.channel] = conv_channels(graph, node, &s);
  for (int i = 0; i < spatial; i++) {
    if (s.strides[i] < 1 || s.lhs_dilation[i] < 1 || s.rhs_dilation[i] < 1)
      tn__node_fail(graph, node, "stride and dilations of spatial dimension %d must be positive", i);
    const tn__expr *padded = tn__g_padded_dim(ir, image[s.first_spatial + i], low[i], high[i], s.lhs_dilation[i] - 1);
    const tn__expr *window = tn__g_tensor_dims(node->inputs[1])[s.rhs_first_spatial + i];
    const tn__expr *reach = tn__ir_add_i(ir, tn__ir_mul_i(ir, tn__ir_add_i(ir, window, -1), s.rhs_dilation[i]), 1);
    const tn__expr *fits = tn__ir_le(ir, reach, padded);
    if (tn__ir_is_false(fits))
      tn__node_fail(graph, node,
                    "a window over %s elements does not fit into spatial dimension %d, which has %s with its padding",
                    tn__g_expr_text(graph, reach), i, tn__g_expr_text(graph, padded));
    tn__graph_assume(graph, fits, "%s: a window over %s elements must fit into spatial dimension %d, which has %s",
                     node->op->name, tn__g_size_text(graph, reach), i, tn__g_size_text(graph, padded));
    dims[s.first_spatial + i] = tn__ir_add_i(ir, tn__ir_div_i(ir, tn__ir_sub(ir, padded, reach), s.strides[i]), 1);
  }
  tn__g_set_output(graph, node, 0, result_dtype(graph, node), rank, dims, NULL);
}

/* Pads and dilates the left operand in a stage of its own, so that the loops have no conditions. */
static const tn__buffer *pad_lhs(tn__lower_context *lower, const tn__node *node, const conv_shape *s,
                                 const tn__buffer *lhs) {
  tn__ir *ir = tn__lower_ir(lower);
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK], *before[TN__MAX_RANK], *behind[TN__MAX_RANK];
  int64_t interior[TN__MAX_RANK] = {0};
  for (int i = 0; i < lhs->rank; i++) low[i] = high[i] = tn__ir_index(ir, 0);
  tn__lower_exprs(lower, tn__node_attr(node, "low")->exprs, s->spatial, before);
  tn__lower_exprs(lower, tn__node_attr(node, "high")->exprs, s->spatial, behind);
  for (int i = 0; i < s->spatial; i++) {
    int d = stored_dim(node, s->first_spatial + i);
    low[d] = before[i];
    high[d] = behind[i];
    interior[d] = s->lhs_dilation[i] - 1;
  }
  int64_t fill = tn__node_int(node, "pad_value", 0);
  const tn__expr *constant = step_of(node) != 1
                                 ? tn__ir_int(ir, TN_I32, (int32_t)((uint32_t)(fill & 255) * UINT32_C(0x01010101)))
                                 : tn__ir_constant(ir, lhs->dtype, (double)fill);
  return tn__lower_pad(lower, lhs, constant, low, high, interior);
}

static void declare_convolution(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                                const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  conv_shape s = conv_shape_of(node);
  const tn__value *result = node->outputs[0];
  const tn__buffer *lhs = pad_lhs(lower, node, &s, inputs[0]);
  const tn__expr *dims[TN__MAX_RANK], *extents[TN__MAX_RANK], *a[TN__MAX_RANK], *b[TN__MAX_RANK];
  const tn__expr *weights[TN__MAX_RANK];
  tn__lower_dims(lower, result, dims);
  tn__lower_exprs(lower, tn__g_tensor_dims(node->inputs[1]), tn__g_tensor_rank(node->inputs[1]), weights);
  const tn__expr *real = dims[s.channel];
  dims[s.channel] = whole_columns(ir, node, s.rhs_out, real);
  bool padded = dims[s.channel] != real;
  for (int i = 0; i < s.spatial; i++) extents[i] = weights[s.rhs_first_spatial + i];
  extents[s.spatial] = in_steps(ir, node, weights[s.rhs_in]);
  tn__te_axes axes = tn__te_axes_create(te, "i", result->rank, dims);
  tn__te_axes reduce = tn__te_axes_create(te, "k", s.spatial + 1, extents);
  const tn__expr *column = axes.index[s.channel], *in = tn__ir_mul_i(ir, reduce.index[s.spatial], step_of(node));
  a[0] = axes.index[0];
  a[s.channel] = in;
  if (s.groups > 1) { /* the padding columns of the last panel read a real channel; their results are unused */
    const tn__expr *each = tn__ir_max(ir, tn__ir_div_i(ir, real, s.groups), tn__ir_index(ir, 1));
    const tn__expr *read = padded ? tn__ir_min(ir, column, tn__ir_add_i(ir, real, -1)) : column;
    a[s.channel] = tn__ir_add(ir, tn__ir_mul(ir, tn__ir_div(ir, read, each), weights[s.rhs_in]), in);
  }
  b[s.rhs_in] = in;
  b[s.rhs_out] = column;
  for (int i = 0; i < s.spatial; i++) {
    const tn__expr *k = reduce.index[i];
    a[s.first_spatial + i] = tn__ir_add(ir, tn__ir_mul_i(ir, axes.index[s.first_spatial + i], s.strides[i]),
                                        tn__ir_mul_i(ir, k, s.rhs_dilation[i]));
    b[s.rhs_first_spatial + i] = s.flip ? tn__ir_sub(ir, tn__ir_add_i(ir, extents[i], -1), k) : k;
  }
  const tn__expr *term = product(ir, node, load_operand(ir, node, 0, lhs, a), load_operand(ir, node, 1, inputs[1], b));
  const tn__buffer *sum = tn__te_reduce(te, tn__lower_name(lower, "convolution"), &axes, &reduce, TN__TE_SUM, term);
  outputs[0] = padded ? take_columns(lower, sum, result) : tn__lower_convert(lower, sum, result->dtype);
}

/* Does a window see one element, and is there one for each? */
static bool sees_one(const tn__node *node, const conv_shape *s) {
  bool one = s->groups == 1;
  for (int i = 0; one && i < s->spatial; i++)
    one = tn__ir_is_int_value(tn__g_tensor_dims(node->inputs[1])[s->rhs_first_spatial + i], 1) && s->strides[i] == 1 &&
          s->lhs_dilation[i] == 1 && tn__ir_is_int_value(tn__node_attr(node, "low")->exprs[i], 0) &&
          tn__ir_is_int_value(tn__node_attr(node, "high")->exprs[i], 0);
  return one;
}

/* Sums are also over windows, but neighbours that are summed lie along channels, where these come last. */
static void convolution_contraction(const tn__node *node, tn__contraction *out) {
  const conv_shape s = conv_shape_of(node);
  bool last = s.channel == s.spatial + 1;
  *out = (tn__contraction){.column = s.channel,
                           .rhs_column = s.rhs_out,
                           .sum = {last ? s.channel : -1, last ? s.rhs_in : -1},
                           .by_rows = last && sees_one(node, &s)};
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static const tn__op rows[] = {
    {.name = "dot_general",
     .min_inputs = 2,
     .max_inputs = 2,
     .operands = "lhs[*l] rhs[*r]",
     .op_class = TN__CLASS_CONTRACTION,
     .lowering = TN__LOWER_DECLARE,
     .facts = TN__FACT_LAYOUTS,
     .infer = infer_dot,
     .declare = declare_dot,
     .contraction = dot_contraction,
     .attributes = "lhs_batch:ints rhs_batch:ints lhs_contract:ints rhs_contract:ints dtype:string",
     .doc = "Sums of products over the contracting dimensions; result dimensions are batch, free of lhs, free of rhs. "
            "Operands in words (layouts) are u8 and i8, whose products are summed four at a time."},
    {.name = "convolution",
     .min_inputs = 2,
     .max_inputs = 2,
     .operands = "lhs[*l] rhs[*r]",
     .op_class = TN__CLASS_CONTRACTION,
     .lowering = TN__LOWER_DECLARE,
     .facts = TN__FACT_LAYOUTS,
     .infer = tn__g_infer_convolution,
     .declare = declare_convolution,
     .contraction = convolution_contraction,
     .attributes = "strides:ints lhs_dilation:ints rhs_dilation:ints low:exprs high:exprs feature_groups:int flip:int "
                   "channels_last:int dtype:string pad_value:int whole:int[0..1]",
     .doc =
         "Strided, dilated, grouped convolution of any spatial rank, padded with zeros, or `pad_value` in integers. "
         "`channels_last` stands for StableHLO's dimension numbers: [N, spatial..., C] by [spatial..., I, O] with it, "
         "else [N, C, spatial...] by [O, I, spatial...]. Operands in words are as for dot_general, along channels. "
         "`whole`: of whole numbers, whose sums are exact in whatever order, and must stay so."},
};

const tn__op_family tn__ops_contract = {rows, sizeof(rows) / sizeof(rows[0])};
