/* Quantised numbers: composites (ops/composite.c) that importers make and that the pass `raise` finds, of integers that
 * stand for (integer - zero point) * scale. What kernels compute is chosen by the pass `quantized`
 * (passes/quantized.c), which puts sums of products of bytes in their place, or their bodies. */
#include <string.h>

#include "graph/build/build.h"
#include "graph/internal.h"

static tn__value *binary(tn__graph *g, const char *op, tn__value *a, tn__value *b) { return tn__g_binary(g, op, a, b); }

/* ---- there and back ---------------------------------------------------------------------------------------------- */

static void infer_dequantize(tn__graph *graph, tn__node *node) {
  const tn__value *x = node->inputs[0];
  tn__g_require_int(graph, node, 0);
  tn__g_require_float(graph, node, 1);
  if (node->input_count > 2) tn__g_require_dtype(graph, node, 2, TN_I32);
  tn__g_set_output(graph, node, 0, node->inputs[1]->dtype, x->rank, x->dims, NULL);
}

static void expand_dequantize(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn__value *whole = tn__g_convert(g, inputs[0], TN_I32);
  if (node->input_count > 2) whole = binary(g, "subtract", whole, inputs[2]);
  outputs[0] = binary(g, "multiply", tn__g_convert(g, whole, inputs[1]->dtype), inputs[1]);
}

/* How many bits of the result's type are used. */
static int bits_of(const tn__node *node, tn_dtype dtype) {
  return (int)tn__node_int(node, "bits", tn__dtype_bits(dtype));
}

static void infer_quantize(tn__graph *graph, tn__node *node) {
  const tn__value *x = node->inputs[0];
  tn_dtype dtype = tn__g_require_dtype_attr(graph, node);
  tn__g_require_float(graph, node, 0);
  for (int i = 1; i < node->input_count; i++) tn__g_require_same_dtype(graph, node, 0, i);
  if (!tn__dtype_is_int(dtype) || tn__dtype_bits(dtype) > 16)
    tn__node_fail(graph, node, "the result can't be of type %s", tn_dtype_name(dtype));
  if (bits_of(node, dtype) < 1 || bits_of(node, dtype) > tn__dtype_bits(dtype))
    tn__node_fail(graph, node, "%s has no %d bits", tn_dtype_name(dtype), bits_of(node, dtype));
  const char *how = tn__node_string(node, "scale", "divide");
  if (strcmp(how, "divide") != 0 && strcmp(how, "multiply") != 0)
    tn__node_fail(graph, node, "scale \"%s\" is neither divide nor multiply", how);
  tn__g_set_output(graph, node, 0, dtype, x->rank, x->dims, NULL);
}

static void expand_quantize(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn_dtype dtype = tn_dtype_parse(tn__node_string(node, "dtype", ""));
  bool is_signed = tn__dtype_is_signed(dtype);
  int bits = bits_of(node, dtype);
  double low = is_signed ? -(double)((int64_t)1 << (bits - 1)) : 0;
  double high = (double)((int64_t)1 << (bits - (is_signed ? 1 : 0))) - 1;
  tn__value *steps = binary(g, tn__node_string(node, "scale", "divide"), inputs[0], inputs[1]);
  steps = tn__g_unary(g, "round_nearest_even", steps);
  if (node->input_count > 2) steps = binary(g, "add", steps, inputs[2]);
  outputs[0] = tn__g_convert(g, tn__g_clamp(g, steps, low, high), dtype);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Zero points broadcast to what they belong to. */
static void require_spreads(tn__graph *graph, const tn__node *node, int zero, int operand) {
  const tn__value *own = zero < node->input_count ? node->inputs[zero] : NULL, *to = node->inputs[operand];
  if (own == NULL) return;
  tn__g_require_int(graph, node, zero);
  if (own->rank > to->rank)
    tn__node_fail(graph, node, "operand %d has %d dimensions, operand %d only %d", zero, own->rank, operand, to->rank);
  for (int i = 0; i < own->rank; i++) {
    if (tn__ir_is_int_value(own->dims[i], 1)) continue;
    const char *what = tn__arena_printf(graph->arena, "operand %d", zero);
    tn__g_same_dim(graph, node, to->dims[to->rank - own->rank + i], own->dims[i], what, i);
  }
}

static void infer_matmul(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0], *b = node->inputs[1];
  tn__value batch_a = *a, batch_b = *b, *const batches[2] = {&batch_a, &batch_b};
  const tn__expr *dims[TN__MAX_RANK];
  int rank;
  for (int i = 0; i < 2; i++) {
    tn__g_require_int(graph, node, i);
    require_spreads(graph, node, 2 + i, i);
  }
  batch_a.rank -= 2;
  batch_b.rank -= 2;
  tn__g_broadcast_shape(graph, batches, 2, &rank, dims);
  dims[rank] = a->dims[a->rank - 2];
  dims[rank + 1] = b->dims[b->rank - 1];
  tn__g_set_output(graph, node, 0, TN_I32, rank + 2, dims, NULL);
}

static tn__value *without_zero(tn__graph *g, const tn__node *node, tn__value *const *inputs, int operand) {
  tn__value *whole = tn__g_convert(g, inputs[operand], TN_I32);
  tn__value *zero = 2 + operand < node->input_count ? inputs[2 + operand] : NULL;
  return zero == NULL ? whole : binary(g, "subtract", whole, tn__g_convert(g, zero, TN_I32));
}

static void expand_matmul(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn__value *a = without_zero(g, node, inputs, 0), *b = without_zero(g, node, inputs, 1);
  outputs[0] = tn__g_matmul(g, a, b, TN_I32);
}

static void infer_convolution(tn__graph *graph, tn__node *node) {
  for (int i = 0; i < 2; i++) {
    tn__g_require_int(graph, node, i);
    require_spreads(graph, node, 2 + i, i);
  }
  if (strcmp(tn__node_string(node, "dtype", ""), tn_dtype_name(TN_I32)) != 0)
    tn__node_fail(graph, node, "dtype \"%s\" is not i32", tn__node_string(node, "dtype", ""));
  if (tn__node_int(node, "channels_last", 0) != 0) tn__node_fail(graph, node, "channels must come first");
  tn__g_infer_convolution(graph, node);
  if (node->input_count < 5 || node->inputs[4] == NULL) return;
  tn__g_require_dtype(graph, node, 4, TN_I32);
  tn__g_require_rank(graph, node, 4, 1);
  tn__g_same_dim(graph, node, node->outputs[0]->dims[1], node->inputs[4]->dims[0], "operand 4", 0);
}

/* Is the zero point one that bytes of that type have? It may have been turned into a wider type. */
static bool is_byte_zero(const tn__value *zero, tn_dtype dtype) {
  const int64_t least = dtype == TN_U8 ? 0 : -128;
  while (zero != NULL && zero->dtype != dtype && zero->producer != NULL &&
         (tn__node_is_view(zero->producer) || tn__g_is_op(zero->producer, "convert") ||
          tn__op_has(zero->producer, TN__FACT_REPEATS)))
    zero = zero->producer->inputs[0];
  if (zero == NULL || zero->dtype == dtype) return true;
  int64_t count = 1;
  for (int i = 0; i < zero->rank && !zero->splat; i++) count = tn__ir_bound_mul(count, tn__g_dim_const(zero, i));
  if (zero->data == NULL || !tn__dtype_is_int(zero->dtype)) return false;
  for (int64_t i = 0; i < count; i++) {
    int64_t element = tn__load_i64(zero->dtype, zero->data, i);
    if (element < least || element > least + 255) return false;
  }
  return true;
}

/* Are all sums of a convolution of bytes, without their zero points, numbers that f32 has, and those on the way as
 * well? They are then whatever the order, and processors multiply floats several times as fast as integers of 32 bits.
 */
static bool is_exact_in_floats(const tn__node *node) {
  enum { EXACT = 1 << 24, LARGEST_PRODUCT = 255 * 255 };
  const tn__value *weights = node->inputs[1];
  int64_t terms = 1;
  if (tn__node_int(node, "pad_value", 0) != 0) return false;
  for (int i = 0; i < 2; i++) {
    const tn__value *zero = 2 + i < node->input_count ? node->inputs[2 + i] : NULL;
    if (!tn__g_is_byte(node->inputs[i]->dtype) || !is_byte_zero(zero, node->inputs[i]->dtype)) return false;
  }
  for (int i = 1; i < weights->rank; i++) {
    int64_t extent = tn__g_dim_const(weights, i);
    if (extent < 1) return false;
    terms = tn__ir_bound_mul(terms, extent);
  }
  return terms <= EXACT / LARGEST_PRODUCT;
}

static void expand_convolution(tn__graph *g, const tn__node *node, tn__value *const *inputs, tn__value **outputs) {
  tn__value *whole[2];
  bool floats = is_exact_in_floats(node);
  for (int i = 0; i < 2; i++) {
    whole[i] = without_zero(g, node, inputs, i);
    if (floats) whole[i] = tn__g_convert(g, whole[i], TN_F32);
  }
  tn__attr *attrs = TN__NEW_ARRAY(g->arena, node->attr_count + 2, tn__attr);
  int count = 0;
  for (int i = 0; i < node->attr_count; i++)
    if (!floats || strcmp(node->attrs[i].name, "dtype") != 0) attrs[count++] = node->attrs[i];
  if (floats) attrs[count++] = tn__attr_string(g, "dtype", tn_dtype_name(TN_F32));
  if (floats) attrs[count++] = tn__attr_int(g, "whole", 1);
  tn__value *sum = tn__node_create(g, tn__op_find("convolution"), whole, 2, attrs, count, NULL, 0)->outputs[0];
  const tn__attr back[2] = {tn__attr_string(g, "dtype", tn_dtype_name(TN_I32)), tn__attr_int(g, "whole", 1)};
  if (floats) sum = tn__node_create(g, tn__op_find("convert"), &sum, 1, back, 2, NULL, 0)->outputs[0];
  outputs[0] = sum;
  if (node->input_count < 5 || inputs[4] == NULL) return;
  const int64_t channel = 1;
  outputs[0] = binary(g, "add", sum, tn__g_broadcast_in_dim(g, inputs[4], sum->rank, sum->dims, &channel));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

#define TN__ROW(op_name, least, most, names, class, suffix, ...) \
  {.name = op_name,                                              \
   .facts = TN__FACT_WHOLE,                                      \
   .min_inputs = least,                                          \
   .max_inputs = most,                                           \
   .operands = names,                                            \
   .op_class = class,                                            \
   .lowering = TN__LOWER_DECLARE,                                \
   .infer = infer_##suffix,                                      \
   .expand = expand_##suffix,                                    \
   .doc = __VA_ARGS__}

static const tn__op rows[] = {
    TN__ROW("dequantize", 2, 3, "x[*s] scale[*s] zero[*s]?", TN__CLASS_ELEMENTWISE, dequantize,
            "(x - zero) * scale, of integers."),
    TN__ROW("quantize", 2, 3, "x[*s] scale[*s] zero[*s]?", TN__CLASS_ELEMENTWISE, quantize,
            "x / scale, or with `scale` multiply x * scale, to the nearest integer, plus zero, within the range of "
            "`dtype`, or of its `bits`.",
            .attributes = "dtype:string bits:int scale:string"),
    TN__ROW("quantized_matmul", 2, 4, "a[*p,m,k] b[*q,k,n] a_zero? b_zero?", TN__CLASS_CONTRACTION, matmul,
            "Sums of (a - a_zero) (b - b_zero) as i32, modulo 2^32, as NumPy's matmul."),
    TN__ROW("quantized_convolution", 2, 5, "x w x_zero? w_zero? bias?", TN__CLASS_CONTRACTION, convolution,
            "The convolution of x - x_zero with w - w_zero, channels first, plus a bias for each channel, as i32, "
            "modulo 2^32.",
            .attributes = "strides:ints lhs_dilation:ints rhs_dilation:ints low:exprs high:exprs feature_groups:int "
                          "flip:int channels_last:int dtype:string pad_value:int"),
};

const tn__op_family tn__ops_quantized = {rows, sizeof(rows) / sizeof(rows[0])};
