/* Builders of sums of products of 8-bit integers with zero points: (a - a_zero) (b - b_zero).
 *
 * What is multiplied are the bytes as they are, a's as u8 and b's as i8, which is what processors have instructions
 * for. An operand of the other kind is moved by 128 to get there, and its zero point with it. Then
 *
 *   sum (a - a_zero)(b - b_zero) = sum a b - a_zero sum b - b_zero sum (a - a_zero)
 *
 * where sums of constant weights are constants, and the last term is not there where b_zero is zero. In i32, modulo
 * 2^32 as any other order of the same sum. */
#include <string.h>

#include "graph/build/build.h"
#include "graph/internal.h"

static tn__value *binary(tn__graph *g, const char *op, tn__value *a, tn__value *b) { return tn__g_binary(g, op, a, b); }

bool tn__g_is_byte(tn_dtype dtype) { return dtype == TN_U8 || dtype == TN_I8; }

/* Are all elements known, and the same? Looks through reshapes. */
TN_MUST_USE static bool all_are(const tn__value *v, int64_t *element) {
  while (v->data == NULL) {
    if (v->producer == NULL || !tn__node_is_view(v->producer) || v->producer->inputs[0]->dtype != v->dtype)
      return false;
    v = v->producer->inputs[0];
  }
  int64_t count = v->splat ? 1 : tn__g_dim_const(v, 0);
  for (int i = 1; i < v->rank && !v->splat; i++) count *= tn__g_dim_const(v, i);
  if (v->rank == 0) count = 1;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = tn__load_i64(v->dtype, v->data, i);
    if (i > 0 && at != *element) return false;
    *element = at;
  }
  return count > 0;
}

/* An operand as it is multiplied. */
typedef struct bytes {
  tn__value *value; /* u8 or i8 */
  tn__value *zero;  /* i32; NULL: it is 0 */
} bytes;

/* `value` as u8 (else i8), and its zero point (NULL: 0) as an i32 that goes with that. */
static bytes bytes_of(tn__graph *g, tn__value *value, tn__value *zero, bool as_unsigned) {
  bytes b = {value, NULL};
  int64_t shift = 0, known = 0;
  if ((value->dtype == TN_U8) != as_unsigned) {
    tn_dtype dtype = as_unsigned ? TN_U8 : TN_I8;
    shift = as_unsigned ? 128 : -128;
    b.value = tn__g_convert(g, value, dtype); /* it wraps */
    b.value = binary(g, "xor", b.value, tn__g_scalar_i64(g, dtype, shift));
  }
  if ((zero == NULL || all_are(zero, &known)) && known + shift == 0) return b;
  b.zero = zero == NULL || all_are(zero, &known) ? tn__g_scalar_i64(g, TN_I32, known + shift) : NULL;
  if (b.zero != NULL) return b;
  /* One after the other: the order in which arguments are made is the compiler's. */
  b.zero = tn__g_convert(g, zero, TN_I32);
  b.zero = binary(g, "add", b.zero, tn__g_scalar_i64(g, TN_I32, shift));
  return b;
}

/* sum + bias - a_zero * columns; everything but the sum may be a constant. `bias` may be NULL. */
static tn__value *corrected(tn__graph *g, tn__value *sum, tn__value *a_zero, tn__value *columns, tn__value *bias) {
  if (a_zero != NULL) {
    tn__value *moved = binary(g, "multiply", a_zero, columns);
    bias = bias == NULL ? tn__g_unary(g, "negate", moved) : binary(g, "subtract", bias, moved);
  }
  return bias == NULL ? sum : binary(g, "add", sum, bias);
}

tn__value *tn__g_matmul_bytes(tn__graph *g, tn__value *a, tn__value *a_zero, tn__value *b, tn__value *b_zero) {
  bytes x = bytes_of(g, a, a_zero, true), w = bytes_of(g, b, b_zero, false);
  tn__value *sum = tn__g_matmul(g, x.value, w.value, TN_I32), *columns = NULL;
  int64_t depth = b->rank - 2;
  if (x.zero != NULL) columns = tn__g_reduce(g, TN__REDUCE_SUM, tn__g_convert(g, w.value, TN_I32), &depth, 1, true);
  sum = corrected(g, sum, x.zero, columns, NULL);
  if (w.zero == NULL) return sum;
  tn__value *rows = tn__g_convert(g, x.value, TN_I32);
  if (x.zero != NULL) rows = binary(g, "subtract", rows, x.zero);
  depth = a->rank - 1;
  rows = tn__g_reduce(g, TN__REDUCE_SUM, rows, &depth, 1, true);
  return binary(g, "subtract", sum, binary(g, "multiply", rows, w.zero));
}

/* Sums of x over the channels of each window: [N, 1, spatial...]. */
static tn__value *window_sums(tn__graph *g, const bytes *x, const tn__value *w, const tn__conv_spec *spec) {
  const int64_t channels = 1;
  int64_t window[TN__MAX_RANK], strides[TN__MAX_RANK], dilations[TN__MAX_RANK];
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK];
  tn__value *rows = tn__g_convert(g, x->value, TN_I32);
  if (x->zero != NULL) rows = binary(g, "subtract", rows, x->zero);
  rows = tn__g_reduce(g, TN__REDUCE_SUM, rows, &channels, 1, true);
  for (int i = 0; i < spec->spatial + 2; i++) {
    bool slides = i >= 2;
    window[i] = slides ? tn__g_dim_const(w, i) : 1;
    strides[i] = slides ? spec->strides[i - 2] : 1;
    dilations[i] = slides ? spec->rhs_dilation[i - 2] : 1;
    low[i] = slides ? spec->low[i - 2] : tn__ir_index(g->ir, 0);
    high[i] = slides ? spec->high[i - 2] : low[0];
  }
  return tn__g_reduce_window(g, TN__REDUCE_SUM, rows, window, strides, dilations, low, high);
}

/* Puts x's zero point, which only the run knows, around the image. */
static tn__value *padded(tn__graph *g, const bytes *x, tn__conv_spec *spec) {
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK], *zero = tn__ir_index(g->ir, 0);
  for (int i = 0; i < x->value->rank; i++) {
    low[i] = i < 2 ? zero : spec->low[i - 2];
    high[i] = i < 2 ? zero : spec->high[i - 2];
  }
  for (int i = 0; i < spec->spatial; i++) spec->low[i] = spec->high[i] = zero;
  tn__value *fill = tn__g_convert(g, tn__g_reshape(g, x->zero, 0, NULL), TN_U8);
  return tn__g_pad(g, x->value, fill, low, high, NULL);
}

tn__value *tn__g_convolution_bytes(tn__graph *g, tn__value *x, tn__value *x_zero, tn__value *w, tn__value *w_zero,
                                   tn__value *bias, const tn__conv_spec *spec) {
  bytes image = bytes_of(g, x, x_zero, true), weights = bytes_of(g, w, w_zero, false);
  tn__conv_spec own = *spec;
  tn__value *from = image.value, *columns = NULL;
  if (image.zero != NULL) {
    if (!all_are(image.zero, &own.pad_value)) from = padded(g, &image, &own);
    int64_t axes[TN__MAX_RANK];
    const tn__expr *dims[TN__MAX_RANK];
    for (int i = 0; i < w->rank; i++) dims[i] = i == 1 ? w->dims[0] : tn__ir_index(g->ir, 1);
    for (int i = 1; i < w->rank; i++) axes[i - 1] = i;
    columns = tn__g_reduce(g, TN__REDUCE_SUM, tn__g_convert(g, weights.value, TN_I32), axes, w->rank - 1, false);
    columns = tn__g_reshape(g, columns, w->rank, dims);
  }
  tn__value *sum = tn__g_convolution(g, from, weights.value, &own, TN_I32);
  sum = corrected(g, sum, image.zero, columns, bias);
  if (weights.zero == NULL) return sum;
  return binary(g, "subtract", sum, binary(g, "multiply", window_sums(g, &image, w, spec), weights.zero));
}

bool tn__g_convolution_takes_bytes(const tn__value *x, const tn__value *w, const tn__value *w_zero,
                                   const tn__conv_spec *spec) {
  enum { QUAD = 4 };
  int64_t channels = tn__g_dim_const(w, 1), known;
  if (!tn__g_is_byte(x->dtype) || !tn__g_is_byte(w->dtype) || channels < 1) return false;
  if (spec->feature_groups == 1) return true;
  bool zero = w->dtype == TN_I8 && (w_zero == NULL || (all_are(w_zero, &known) && known == 0));
  return zero && channels % QUAD == 0;
}
