/* Pooling. */
#include <string.h>

#include "import/onnx/ops.h"

/* A window over all dimensions of [N, C, spatial...], as the builders take it. */
typedef struct pool {
  int64_t window[TN__MAX_RANK], strides[TN__MAX_RANK], dilations[TN__MAX_RANK];
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK];
  const tn__expr *overhang[TN__ONNX_MAX_SPATIAL]; /* how far the last window of ceil_mode reaches beyond the padding, or
                                                     (negative) stays before its end */
  bool padded, hangs;
  int64_t elements; /* of a window */
} pool;

/* ceil_mode: one window more where the stride leaves a rest, unless it would start in the padding at the end. */
static const tn__expr *ceil_padding(tn__onode *n, const tn__onnx_window *w, int i) {
  tn__ir *ir = n->ir;
  int64_t reach = (w->window[i] - 1) * w->dilations[i] + 1, stride = w->strides[i];
  const tn__expr *begin = tn__ir_add(ir, n->in[0]->dims[i + 2], w->low[i]);
  const tn__expr *last =
      tn__ir_ceildiv(ir, tn__ir_add_i(ir, tn__ir_add(ir, begin, w->high[i]), -reach), tn__ir_index(ir, stride));
  const tn__expr *outside = tn__ir_le(ir, begin, tn__ir_mul_i(ir, last, stride));
  last = tn__ir_select(ir, outside, tn__ir_add_i(ir, last, -1), last);
  return tn__ir_sub(ir, tn__ir_add_i(ir, tn__ir_mul_i(ir, last, stride), reach), begin);
}

static void read_pool(tn__onode *n, pool *p) {
  tn__value *x = n->in[0];
  int spatial = x->rank - 2, given;
  const int64_t *shape = tn__on_ints(n, "kernel_shape", &given);
  if (given != spatial) tn__on_fail(n, "kernel_shape has %d entries, expected %d", given, spatial);
  tn__onnx_window w;
  tn__onnx_window_read(n, spatial, shape, &w);
  const char *mode = tn__on_string(n, "auto_pad", "NOTSET");
  bool ceil_mode = tn__on_int(n, "ceil_mode", 0) != 0 && strncmp(mode, "SAME", 4) != 0;
  *p = (pool){.elements = 1};
  for (int i = 0; i < 2; i++) {
    p->window[i] = p->strides[i] = p->dilations[i] = 1;
    p->low[i] = p->high[i] = tn__on_index(n, 0);
  }
  for (int i = 0; i < spatial; i++) {
    p->window[i + 2] = w.window[i];
    p->strides[i + 2] = w.strides[i];
    p->dilations[i + 2] = w.dilations[i];
    p->low[i + 2] = w.low[i];
    p->high[i + 2] = ceil_mode ? ceil_padding(n, &w, i) : w.high[i];
    p->overhang[i] = tn__ir_sub(n->ir, p->high[i + 2], w.high[i]);
    p->padded = p->padded || !tn__ir_is_int_value(w.low[i], 0) || !tn__ir_is_int_value(w.high[i], 0);
    p->hangs = p->hangs || tn__interval_of(n->ir, p->overhang[i]).max > 0;
    if (__builtin_mul_overflow(p->elements, w.window[i], &p->elements))
      tn__on_fail(n, "the window has more elements than can be counted");
  }
}

static tn__value *reduce_window(tn__onode *n, tn__reduce_kind kind, tn__value *x, const pool *p) {
  return tn__g_reduce_window(n->g, kind, x, p->window, p->strides, p->dilations, p->low, p->high);
}

void tn__onnx_max_pool(tn__onode *n) {
  pool p;
  tn__value *x = n->in[0];
  read_pool(n, &p);
  n->out[0] = reduce_window(n, TN__REDUCE_MAX, x, &p);
  if (n->output_count < 2) return;
  bool column_major = tn__on_int(n, "storage_order", 0) != 0;
  n->out[1] = tn__g_argreduce_window(n->g, x, p.window, p.strides, p.dilations, p.low, p.high, column_major, TN_I64);
}

/* How many elements each window averages over: [1, 1, spatial...]. */
static tn__value *window_counts(tn__onode *n, const tn__value *x, const pool *p, bool include_pad, tn_dtype dtype) {
  tn__ir *ir = n->ir;
  pool counting = *p;
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = i < 2 ? tn__ir_index(ir, 1) : x->dims[i];
  for (int i = 2; include_pad && i < x->rank; i++) {
    dims[i] = tn__ir_add(ir, tn__ir_add(ir, x->dims[i], p->low[i]), tn__ir_sub(ir, p->high[i], p->overhang[i - 2]));
    counting.low[i] = tn__ir_index(ir, 0);
    counting.high[i] = p->overhang[i - 2];
  }
  return reduce_window(n, TN__REDUCE_SUM, tn__g_full(n->g, dtype, 1, x->rank, dims), &counting);
}

void tn__onnx_average_pool(tn__onode *n) {
  pool p;
  read_pool(n, &p);
  tn__value *x = tn__on_widen(n, n->in[0]), *sum = reduce_window(n, TN__REDUCE_SUM, x, &p), *y;
  bool include_pad = tn__on_int(n, "count_include_pad", 0) != 0;
  if (!p.hangs && (include_pad || !p.padded))
    y = tn__on_mul_s(n, sum, 1.0 / (double)p.elements);
  else
    y = tn__on_div(n, sum, window_counts(n, x, &p, include_pad, x->dtype));
  n->out[0] = tn__g_convert(n->g, y, n->in[0]->dtype);
}

/* |x|^p, and its inverse. */
static tn__value *power(tn__onode *n, tn__value *x, int64_t p) {
  x = tn__on_unary(n, "abs", x);
  return p == 1 ? x : p == 2 ? tn__on_mul(n, x, x) : tn__g_binary_s(n->g, "power", x, (double)p);
}
static tn__value *root(tn__onode *n, tn__value *x, int64_t p) {
  return p == 1 ? x : p == 2 ? tn__on_unary(n, "sqrt", x) : tn__g_binary_s(n->g, "power", x, 1.0 / (double)p);
}

static int64_t norm_order(const tn__onode *n) {
  int64_t p = tn__on_int(n, "p", 2);
  if (p < 1) tn__on_fail(n, "p is %lld", (long long)p);
  return p;
}

void tn__onnx_lp_pool(tn__onode *n) {
  pool p;
  int64_t order = norm_order(n);
  read_pool(n, &p);
  tn__value *sum = reduce_window(n, TN__REDUCE_SUM, power(n, tn__on_widen(n, n->in[0]), order), &p);
  n->out[0] = tn__g_convert(n->g, root(n, sum, order), n->in[0]->dtype);
}

void tn__onnx_global_pool(tn__onode *n) {
  tn__value *x = tn__on_widen(n, n->in[0]), *y;
  int64_t axes[TN__MAX_RANK];
  int count = x->rank - 2;
  for (int i = 0; i < count; i++) axes[i] = i + 2;
  if (strcmp(n->name, "GlobalAveragePool") == 0) {
    y = tn__g_mean(n->g, x, axes, count, true);
  } else if (strcmp(n->name, "GlobalMaxPool") == 0) {
    y = tn__g_reduce(n->g, TN__REDUCE_MAX, x, axes, count, true);
  } else {
    int64_t order = norm_order(n);
    y = root(n, tn__g_reduce(n->g, TN__REDUCE_SUM, power(n, x, order), axes, count, true), order);
  }
  n->out[0] = tn__g_convert(n->g, y, n->in[0]->dtype);
}

/* Puts each element where MaxPool found it. A larger output_shape adds zeros at the end of each dimension. */
void tn__onnx_max_unpool(tn__onode *n) {
  tn__ir *ir = n->ir;
  tn__value *x = n->in[0];
  int count;
  const int64_t *shape = tn__on_ints(n, "kernel_shape", &count);
  if (shape == NULL || count != x->rank - 2)
    tn__on_fail(n, "kernel_shape has %d entries, expected %d", count, x->rank - 2);
  tn__onnx_window w;
  tn__onnx_window_read(n, x->rank - 2, shape, &w);
  const tn__expr **dims = tn__on_dims(n, x), *low[TN__MAX_RANK], *high[TN__MAX_RANK];
  for (int i = 0; i < w.spatial; i++)
    dims[i + 2] = tn__ir_sub(
        ir, tn__ir_add_i(ir, tn__ir_mul_i(ir, tn__ir_add_i(ir, x->dims[i + 2], -1), w.strides[i]), w.window[i]),
        tn__ir_add(ir, w.low[i], w.high[i]));
  tn__value *y = tn__g_max_unpool(n->g, x, tn__g_convert(n->g, n->in[1], TN_I64), x->rank, dims);
  if (n->in[2] != NULL) {
    const tn__expr *const *wanted = tn__on_elements(n, 2, &count);
    if (count != x->rank) tn__on_fail(n, "input 2 (output_shape) has %d elements, expected %d", count, x->rank);
    for (int i = 0; i < x->rank; i++) {
      low[i] = tn__ir_index(ir, 0);
      high[i] = tn__ir_sub(ir, wanted[i], dims[i]);
    }
    y = tn__g_pad(n->g, y, tn__on_scalar(n, 0, y), low, high, NULL);
  }
  n->out[0] = y;
}
