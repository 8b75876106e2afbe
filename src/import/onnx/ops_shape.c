/* Operators that rearrange: reshape, transpose, slice, pad, split and the like, and those that make or read shapes. */
#include <math.h>
#include <string.h>

#include "import/onnx/body.h"

/* ---- constants --------------------------------------------------------------------------------------------------- */

void tn__onnx_constant_op(tn__onode *n) {
  const Onnx__AttributeProto *value = tn__on_attr(n, "value"), *sparse = tn__on_attr(n, "sparse_value");
  int count;
  if (value != NULL || sparse != NULL) {
    tn__onnx_tensor t;
    const char *what = tn__graph_origin(n->g);
    if (value != NULL)
      tn__onnx_tensor_read(tn__onode_model(n), value->t, what, &t);
    else
      tn__onnx_sparse_read(tn__onode_model(n), sparse->sparse_tensor, what, &t);
    n->out[0] = tn__onnx_constant(n, &t);
  } else if (tn__on_attr(n, "value_int") != NULL) {
    n->out[0] = tn__g_scalar_i64(n->g, TN_I64, tn__on_int(n, "value_int", 0));
  } else if (tn__on_attr(n, "value_float") != NULL) {
    n->out[0] = tn__g_scalar(n->g, TN_F32, tn__on_float(n, "value_float", 0));
  } else if (tn__on_attr(n, "value_ints") != NULL) {
    const int64_t *ints = tn__on_ints(n, "value_ints", &count);
    n->out[0] = tn__g_i64s(n->g, ints, count);
  } else if (tn__on_attr(n, "value_floats") != NULL) {
    const float *floats = tn__on_floats(n, "value_floats", &count);
    const int64_t shape[1] = {count};
    n->out[0] = tn__g_constant_value(n->g, TN_F32, 1, tn__arena_copy(n->arena, shape, sizeof(shape)), floats, false);
  } else if (tn__on_attr(n, "value_string") != NULL) {
    const tn__text *text = tn__on_text(n, "value_string");
    n->out[0] = tn__graph_strings(n->g, 0, NULL, &text);
  } else if (tn__on_attr(n, "value_strings") != NULL) {
    const tn__text *const *texts = tn__on_texts(n, "value_strings", &count);
    n->out[0] = tn__graph_strings(n->g, 1, &(int64_t){count}, texts);
  } else {
    tn__on_fail(n, "has no value");
  }
}

/* The dimensions that a shape operand states. */
static const tn__expr *const *shape_operand(tn__onode *n, int input, int *rank) {
  const tn__expr *const *dims = tn__on_elements(n, input, rank);
  if (*rank > TN__MAX_RANK)
    tn__on_unsupported(n, "makes a tensor with %d dimensions; at most %d are supported", *rank, TN__MAX_RANK);
  return dims;
}

/* But for the one that is inferred, if any. */
static void require_sizes(tn__onode *n, const tn__expr *const *dims, int rank, int inferred) {
  for (int i = 0; i < rank; i++)
    if (i != inferred) tn__on_require_count(n, dims[i], tn__arena_printf(n->arena, "dimension %d of the new shape", i));
}

void tn__onnx_constant_of_shape(tn__onode *n) {
  int rank;
  const tn__expr *const *dims = shape_operand(n, 0, &rank);
  const Onnx__AttributeProto *a = tn__on_attr(n, "value");
  tn__onnx_tensor t = {.dtype = TN_F32, .data = NULL};
  require_sizes(n, dims, rank, -1);
  if (a != NULL) {
    tn__onnx_tensor_read(tn__onode_model(n), a->t, tn__graph_origin(n->g), &t);
    if (t.dtype == TN_STRING) tn__on_unsupported(n, "fills a tensor with strings");
    if (t.bits > 0) tn__on_unsupported(n, "fills a tensor with integers of %d bits", t.bits);
    if (t.size != tn_dtype_size(t.dtype)) tn__on_fail(n, "attribute \"value\" is not one element");
  }
  if (t.dtype == TN_I64 || t.dtype == TN_U64) {
    int64_t value = t.data == NULL ? 0 : tn__load_i64(t.dtype, t.data, 0);
    n->out[0] = tn__g_broadcast_to(n->g, tn__g_scalar_i64(n->g, t.dtype, value), rank, dims);
  } else {
    n->out[0] = tn__g_full(n->g, t.dtype, t.data == NULL ? 0 : tn__load_f64(t.dtype, t.data, 0), rank, dims);
  }
}

/* ---- shapes as data ---------------------------------------------------------------------------------------------- */

void tn__onnx_shape(tn__onode *n) {
  tn__value *x = n->in[0];
  int64_t start = tn__on_int(n, "start", 0), end = tn__on_int(n, "end", x->rank);
  if (start < 0) start += x->rank;
  if (end < 0) end += x->rank;
  start = start < 0 ? 0 : start > x->rank ? x->rank : start;
  end = end < start ? start : end > x->rank ? x->rank : end;
  n->out[0] = tn__g_from_elements(n->g, TN_I64, x->dims + start, (int)(end - start), 1);
}

void tn__onnx_size(tn__onode *n) {
  const tn__expr *size = tn__on_product(n, n->in[0]->dims, n->in[0]->rank);
  n->out[0] = tn__g_from_elements(n->g, TN_I64, &size, 1, 0);
}

/* ---- reshape ----------------------------------------------------------------------------------------------------- */

/* total / known where factors that occur in both cancel; the rest is divided. */
static const tn__expr *inferred_dim(tn__onode *n, const tn__value *x, const tn__expr *const *dims, int rank, int at) {
  const tn__expr *above[TN__MAX_RANK], *below[TN__MAX_RANK];
  int count = x->rank, below_count = 0;
  for (int i = 0; i < count; i++) above[i] = x->dims[i];
  for (int i = 0; i < rank; i++) {
    int match = -1;
    for (int k = 0; i != at && !tn__ir_is_int(dims[i]) && k < count; k++)
      if (above[k] == dims[i]) match = k;
    if (match >= 0)
      above[match] = above[--count];
    else if (i != at)
      below[below_count++] = dims[i];
  }
  const tn__expr *total = tn__on_product(n, above, count), *row = tn__on_product(n, below, below_count);
  if (tn__ir_is_int_value(row, 0)) tn__on_fail(n, "dimension %d cannot be inferred beside a dimension of size 0", at);
  if (tn__ir_is_int(total) && tn__ir_is_int(row) && total->value.i % row->value.i != 0)
    tn__on_fail(n, "%lld elements do not divide into rows of %lld to infer dimension %d", (long long)total->value.i,
                (long long)row->value.i, at);
  if (tn__ir_is_int_value(total, 0)) return total;
  return tn__ir_div(n->ir, total, row);
}

tn__value *tn__onnx_reshape_to(tn__onode *n, tn__value *x, const tn__expr *const *shape, int rank, bool zero_copies) {
  tn__ir *ir = n->ir;
  const tn__expr *dims[TN__MAX_RANK], *zero = tn__ir_index(ir, 0), *minus = tn__ir_index(ir, -1);
  int infer = -1, unknown = 0;
  for (int i = 0; i < rank; i++) {
    dims[i] = shape[i];
    if (dims[i] == zero && zero_copies) {
      if (i >= x->rank)
        tn__on_fail(n, "the new shape copies dimension %d, which the input with %d dimensions does not have", i,
                    x->rank);
      dims[i] = x->dims[i];
    } else if (dims[i] == minus) {
      if (infer >= 0) tn__on_fail(n, "the new shape has more than one -1");
      infer = i;
    } else if (tn__ir_is_int(dims[i]) && dims[i]->value.i < 0) {
      tn__on_fail(n, "dimension %d of the new shape is %lld", i, (long long)dims[i]->value.i);
    } else if (!tn__ir_is_int(dims[i]) && tn__interval_of(ir, dims[i]).min < 0) {
      unknown++;
      if (zero_copies && i < x->rank) dims[i] = tn__ir_select(ir, tn__ir_eq(ir, dims[i], zero), x->dims[i], dims[i]);
    }
  }
  if (unknown > 0 && infer < 0) { /* any of the numbers that only a run shows may be -1 */
    const tn__expr *total = tn__on_product(n, x->dims, x->rank), *known = tn__ir_index(ir, 1), *rest;
    for (int i = 0; i < rank; i++)
      known = tn__ir_mul(ir, known, tn__ir_select(ir, tn__ir_eq(ir, dims[i], minus), tn__ir_index(ir, 1), dims[i]));
    rest = tn__ir_div(ir, total, tn__ir_max(ir, known, tn__ir_index(ir, 1)));
    for (int i = 0; i < rank; i++)
      if (!tn__ir_is_int(dims[i])) dims[i] = tn__ir_select(ir, tn__ir_eq(ir, dims[i], minus), rest, dims[i]);
  }
  if (infer >= 0) dims[infer] = inferred_dim(n, x, dims, rank, infer);
  require_sizes(n, dims, rank, infer);
  tn__on_check_count(n, dims, rank);
  return tn__on_reshape(n, x, rank, dims);
}

void tn__onnx_reshape(tn__onode *n) {
  int rank;
  const tn__expr *const *shape = shape_operand(n, 1, &rank);
  n->out[0] = tn__onnx_reshape_to(n, n->in[0], shape, rank, tn__on_int(n, "allowzero", 0) == 0);
}

void tn__onnx_flatten(tn__onode *n) {
  tn__value *x = n->in[0];
  int64_t axis = tn__on_int(n, "axis", 1);
  if (axis < -x->rank || axis > x->rank)
    tn__on_fail(n, "axis %lld is outside of a tensor with %d dimensions", (long long)axis, x->rank);
  if (axis < 0) axis += x->rank;
  const tn__expr *dims[2] = {tn__on_product(n, x->dims, (int)axis),
                             tn__on_product(n, x->dims + axis, x->rank - (int)axis)};
  n->out[0] = tn__on_reshape(n, x, 2, dims);
}

/* Squeeze and Unsqueeze whose axes only a run shows. */
static bool axes_at_run(const tn__onode *n) {
  const int64_t *known;
  int count;
  return n->version >= 13 && n->in[1] != NULL && !tn__on_known_ints(n, 1, &known, &count);
}

typedef struct ones {
  int next; /* the dimension that is looked at; those before it are decided */
  bool drop[TN__MAX_RANK];
} ones;

static tn__orest squeeze_from(tn__onode *n, const ones *before);

static tn__orest squeeze_case(tn__onode *n, bool yes, void *user) {
  ones o = *(const ones *)user;
  o.drop[o.next++] = yes;
  return squeeze_from(n, &o);
}

/* Whether a dimension of open size is 1 decides the number of dimensions of the result. */
static tn__orest squeeze_from(tn__onode *n, const ones *before) {
  ones o = *before;
  int64_t axes[TN__MAX_RANK];
  int count = 0;
  tn__value *x = tn__onnx_see(n, n->in[0]);
  for (; o.next < x->rank && tn__g_dim_const(x, o.next) >= 0; o.next++)
    o.drop[o.next] = tn__g_dim_const(x, o.next) == 1;
  if (o.next == x->rank) {
    for (int i = 0; i < x->rank; i++)
      if (o.drop[i]) axes[count++] = i;
    n->out[0] = tn__on_squeeze(n, x, axes, count);
    return (tn__orest){.results = NULL};
  }
  tn__value *size = tn__g_from_elements(n->g, TN_I64, &x->dims[o.next], 1, 0);
  tn__ofork fork = {.condition = tn__g_compare(n->g, TN__CMP_EQ, size, tn__g_scalar_i64(n->g, TN_I64, 1)),
                    .make = squeeze_case,
                    .user = &o};
  for (int i = 0; i < 2; i++)
    fork.cases[i] = tn__arena_printf(n->arena, "dimension %d is %s1", o.next, i == 1 ? "" : "not ");
  return tn__onnx_fork(n, &fork);
}

static void squeeze_ones(tn__onode *n) {
  ones o = {.next = 0};
  tn__orest rest = squeeze_from(n, &o);
  if (rest.results != NULL) tn__onnx_end_scope(n, rest);
}

void tn__onnx_squeeze(tn__onode *n) {
  tn__value *x = n->in[0];
  int count;
  if (axes_at_run(n)) {
    const tn__expr *flags[TN__MAX_RANK], *dims[TN__MAX_RANK];
    tn__onnx_axis_flags(n, 1, x->rank, flags, &count);
    if (count > x->rank) tn__on_fail(n, "squeezes %d dimensions of a tensor with %d", count, x->rank);
    tn__onnx_kept_dims(n, x->dims, flags, x->rank, x->rank - count, dims);
    n->out[0] = tn__on_reshape(n, x, x->rank - count, dims);
    return;
  }
  const int64_t *given =
      tn__on_ints_either(n, "axes", 13, 1, &count, "the number of dimensions of the result depends on it");
  if (given == NULL) {
    squeeze_ones(n);
    return;
  }
  const int64_t *axes = tn__on_axes(n, given, count, x->rank);
  for (int i = 0; i < count; i++)
    if (tn__g_dim_const(x, (int)axes[i]) > 1 || tn__g_dim_const(x, (int)axes[i]) == 0)
      tn__on_fail(n, "dimension %lld is %lld, and only dimensions of size 1 can be squeezed", (long long)axes[i],
                  (long long)tn__g_dim_const(x, (int)axes[i]));
  n->out[0] = tn__on_squeeze(n, x, axes, count);
}

void tn__onnx_unsqueeze(tn__onode *n) {
  tn__value *x = n->in[0];
  int count;
  if (axes_at_run(n)) {
    const tn__expr *flags[TN__MAX_RANK], *dims[TN__MAX_RANK];
    tn__on_elements(n, 1, &count);
    int rank = x->rank + count;
    if (rank > TN__MAX_RANK)
      tn__on_unsupported(n, "makes a tensor with %d dimensions; at most %d are supported", rank, TN__MAX_RANK);
    tn__onnx_axis_flags(n, 1, rank, flags, &count);
    tn__onnx_inserted_dims(n, x->dims, flags, rank, x->rank, dims);
    n->out[0] = tn__on_reshape(n, x, rank, dims);
    return;
  }
  const int64_t *given =
      tn__on_ints_either(n, "axes", 13, 1, &count, "the number of dimensions of the result depends on it");
  if (given == NULL) tn__on_fail(n, "has no axes");
  n->out[0] = tn__on_unsqueeze(n, n->in[0], tn__on_axes(n, given, count, n->in[0]->rank + count), count);
}

void tn__onnx_transpose(tn__onode *n) {
  tn__value *x = n->in[0];
  int count;
  int64_t permutation[TN__MAX_RANK];
  const int64_t *given = tn__on_ints(n, "perm", &count);
  for (int i = 0; i < x->rank; i++) permutation[i] = x->rank - 1 - i;
  if (given != NULL && (count > 0 || x->rank == 0)) {
    if (count != x->rank)
      tn__on_fail(n, "perm has %d entries, and the input %d dimension%s", count, x->rank, tn__plural(x->rank));
    memcpy(permutation, tn__on_axes(n, given, count, x->rank), (size_t)count * sizeof(int64_t));
  }
  n->out[0] = tn__on_transpose(n, x, permutation);
}

void tn__onnx_expand(tn__onode *n) {
  tn__value *x = n->in[0];
  int rank;
  const tn__expr *const *shape = shape_operand(n, 1, &rank);
  int out = rank > x->rank ? rank : x->rank;
  const tn__expr *dims[TN__MAX_RANK], *one = tn__on_index(n, 1), *zero = tn__on_index(n, 0);
  require_sizes(n, shape, rank, -1);
  for (int i = 0; i < out; i++) {
    const tn__expr *a = i < out - x->rank ? one : x->dims[i - (out - x->rank)];
    const tn__expr *b = i < out - rank ? one : shape[i - (out - rank)];
    const tn__expr *stays = tn__ir_eq(n->ir, b, one), *fits = tn__ir_or(n->ir, stays, tn__ir_eq(n->ir, a, b));
    if (a == one || a == b)
      dims[i] = b;
    else if (b == one)
      dims[i] = a;
    else if (tn__ir_is_int(a) && tn__ir_is_int(b))
      tn__on_fail(n, "dimension %d is %lld and cannot be expanded to %lld", i, (long long)a->value.i,
                  (long long)b->value.i);
    else if (tn__ir_is_int(a)) /* not 1: the run's number is 1 or equal to it */
      dims[i] = a;
    else if (tn__ir_is_int(b))
      dims[i] = b;
    else /* the run's number is not negative */
      dims[i] = tn__ir_select(n->ir, stays, a, tn__ir_max(n->ir, b, zero));
    tn__graph_assume(n->g, tn__ir_or(n->ir, fits, tn__ir_eq(n->ir, a, one)),
                     "dimension %d is %s and cannot be expanded to %s", i, tn__g_size_text(n->g, a),
                     tn__g_size_text(n->g, b));
  }
  n->out[0] = tn__g_broadcast_to(n->g, x, out, dims);
}

void tn__onnx_tile(tn__onode *n) {
  tn__value *x = n->in[0];
  int count;
  const tn__expr *const *repeats = tn__on_elements(n, 1, &count);
  if (count != x->rank)
    tn__on_fail(n, "input 1 (repeats) has %d elements, and input 0 %d dimension%s", count, x->rank,
                tn__plural(x->rank));
  for (int i = 0; i < count; i++) {
    const char *what = tn__arena_printf(n->arena, "element %d of input 1 (repeats)", i);
    tn__on_require_near(n, repeats[i], 48, what);
    tn__on_require_count(n, repeats[i], what);
  }
  if (2 * x->rank > TN__MAX_RANK) tn__on_unsupported(n, "tiles more than %d dimensions", TN__MAX_RANK / 2);
  const tn__expr *wide[TN__MAX_RANK], *dims[TN__MAX_RANK];
  int64_t axes[TN__MAX_RANK];
  for (int i = 0; i < x->rank; i++) {
    wide[2 * i] = repeats[i];
    wide[2 * i + 1] = x->dims[i];
    axes[i] = 2 * i + 1;
    dims[i] = tn__ir_mul(n->ir, repeats[i], x->dims[i]);
  }
  n->out[0] = tn__on_reshape(n, tn__g_broadcast_in_dim(n->g, x, 2 * x->rank, wide, axes), x->rank, dims);
}

/* ---- concatenate and split --------------------------------------------------------------------------------------- */

void tn__onnx_concat(tn__onode *n) {
  for (int i = 0; i < n->input_count; i++)
    if (n->in[i]->rank != n->in[0]->rank)
      tn__on_fail(n, "input %d has %d dimension%s, and input 0 has %d", i, n->in[i]->rank, tn__plural(n->in[i]->rank),
                  n->in[0]->rank);
  int axis = (int)tn__on_axis(n, tn__on_int(n, "axis", 1), n->in[0]->rank);
  n->out[0] = n->input_count == 1 ? n->in[0] : tn__g_concatenate(n->g, n->in, n->input_count, axis);
}

/* The sizes of the parts: given, or equal ones, the last smaller from opset 18 on. */
static const tn__expr *const *split_sizes(tn__onode *n, const tn__expr *size, int *count) {
  int parts = n->output_count, given = 0;
  if (n->version >= 13 && n->in[1] != NULL) return tn__on_elements(n, 1, count);
  const int64_t *split = n->version < 13 ? tn__on_ints(n, "split", &given) : NULL;
  int64_t wanted = tn__on_int(n, "num_outputs", parts);
  if (split == NULL && (wanted != parts || parts == 0))
    tn__on_fail(n, "num_outputs is %lld, and the node has %d outputs", (long long)wanted, parts);
  *count = split != NULL ? given : parts;
  const tn__expr **sizes = TN__NEW_ARRAY(n->arena, *count, const tn__expr *);
  const tn__expr *chunk = tn__ir_ceildiv(n->ir, size, tn__on_index(n, *count == 0 ? 1 : *count)), *left = size;
  if (split == NULL && n->version < 18 && tn__ir_is_int(size) && size->value.i % parts != 0)
    tn__on_fail(n, "%lld elements cannot be split into %d equal parts", (long long)size->value.i, parts);
  for (int i = 0; i < *count; i++) {
    sizes[i] = split != NULL ? tn__on_index(n, split[i]) : i + 1 < *count ? tn__ir_min(n->ir, chunk, left) : left;
    left = tn__ir_sub(n->ir, left, sizes[i]);
  }
  return sizes;
}

void tn__onnx_split(tn__onode *n) {
  tn__value *x = n->in[0];
  int axis = (int)tn__on_axis(n, tn__on_int(n, "axis", 0), x->rank), count;
  const tn__expr *const *sizes = split_sizes(n, x->dims[axis], &count);
  if (count != n->output_count) tn__on_fail(n, "splits into %d parts, and has %d outputs", count, n->output_count);
  const tn__expr *low = tn__on_index(n, 0);
  for (int i = 0; i < count; i++) {
    if (tn__ir_is_int(sizes[i]) && sizes[i]->value.i < 0)
      tn__on_fail(n, "part %d has %lld elements", i, (long long)sizes[i]->value.i);
    const tn__expr *high = tn__ir_add(n->ir, low, sizes[i]);
    n->out[i] = tn__on_slice_axis(n, x, axis, low, high);
    low = high;
  }
  if (tn__ir_is_int(low) && tn__ir_is_int(x->dims[axis]) && low != x->dims[axis])
    tn__on_fail(n, "its parts have %lld elements in all, and dimension %d has %lld", (long long)low->value.i, axis,
                (long long)x->dims[axis]->value.i);
  tn__graph_assume(n->g, tn__ir_eq(n->ir, low, x->dims[axis]), "the parts must add up to dimension %d", axis);
}

/* ---- slice ------------------------------------------------------------------------------------------------------- */

static const tn__expr *clamp(tn__ir *ir, const tn__expr *e, const tn__expr *low, const tn__expr *high) {
  return tn__ir_max(ir, low, tn__ir_min(ir, e, high));
}

/* Python's rule: negative positions count from the end, and everything is clamped into the dimension. */
static const tn__expr *slice_bound(tn__onode *n, const tn__expr *at, const tn__expr *size, int64_t low,
                                   int64_t high_offset) {
  tn__ir *ir = n->ir;
  const tn__expr *least = tn__ir_index(ir, low), *most = tn__ir_add_i(ir, size, high_offset);
  if (tn__ir_is_int(at)) {
    /* INT64_MIN and INT64_MAX stand for "the end": keep them out of arithmetic. */
    int64_t v = at->value.i;
    if (v <= -((int64_t)1 << 40)) return least;
    if (v >= (int64_t)1 << 40) return most;
    return clamp(ir, v < 0 ? tn__ir_add_i(ir, size, v) : at, least, most);
  }
  const tn__expr *far = tn__ir_index(ir, (int64_t)1 << 40);
  at = clamp(ir, at, tn__ir_index(ir, -((int64_t)1 << 40)), far);
  return clamp(ir, tn__ir_select(ir, tn__ir_lt(ir, at, tn__ir_index(ir, 0)), tn__ir_add(ir, at, size), at), least,
               most);
}

static int64_t slice_step(tn__onode *n, const tn__expr *step) {
  int64_t value = step->value.i;
  if (value == 0) tn__on_fail(n, "a step is 0");
  if (value < -((int64_t)1 << 40)) return -((int64_t)1 << 40);
  return value > (int64_t)1 << 40 ? (int64_t)1 << 40 : value;
}

/* A step that only a run shows: positions are computed and taken. */
static tn__value *slice_by_index(tn__onode *n, tn__value *x, int axis, const tn__expr *start, const tn__expr *end,
                                 const tn__expr *step) {
  tn__ir *ir = n->ir;
  const tn__expr *size = x->dims[axis], *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1);
  const tn__expr *bounds[2] = {start, end}, *far = tn__ir_index(ir, (int64_t)1 << 40),
                 *near = tn__ir_mul_i(ir, far, -1);
  tn__graph_assume(n->g, tn__ir_ne(ir, step, zero), "a step is 0");
  step = clamp(ir, step, near, far); /* the positions are not checked, so nothing may wrap */
  const tn__expr *up = tn__ir_lt(ir, zero, step);
  for (int i = 0; i < 2; i++) {
    const tn__expr *at = clamp(ir, bounds[i], near, far);
    at = tn__ir_select(ir, tn__ir_lt(ir, at, zero), tn__ir_add(ir, at, size), at);
    bounds[i] = tn__ir_select(ir, up, clamp(ir, at, zero, size),
                              clamp(ir, at, tn__ir_index(ir, -1), tn__ir_add_i(ir, size, -1)));
  }
  const tn__expr *span = tn__ir_sub(ir, bounds[1], bounds[0]);
  span = tn__ir_max(ir, tn__ir_select(ir, up, span, tn__ir_mul_i(ir, span, -1)), zero);
  const tn__expr *stride = tn__ir_max(ir, tn__ir_select(ir, up, step, tn__ir_mul_i(ir, step, -1)), one);
  const tn__expr *count = tn__ir_ceildiv(ir, span, stride);
  tn__value *at = tn__g_from_elements(n->g, TN_I64, &step, 1, 0);
  at = tn__on_mul(n, tn__g_iota(n->g, TN_I64, 1, &count, 0), at);
  at = tn__on_add(n, at, tn__g_from_elements(n->g, TN_I64, &bounds[0], 1, 0));
  return tn__g_take_trusted(n->g, x, at, axis);
}

typedef struct slice_spec {
  const tn__expr *starts[TN__MAX_RANK], *limits[TN__MAX_RANK];
  int64_t strides[TN__MAX_RANK], reversed[TN__MAX_RANK];
  int reversed_count;
} slice_spec;

static void slice_axis(tn__onode *n, slice_spec *s, const tn__value *x, int axis, const tn__expr *start,
                       const tn__expr *end, const tn__expr *step) {
  tn__ir *ir = n->ir;
  const tn__expr *size = x->dims[axis];
  int64_t stride = slice_step(n, step);
  if (stride > 0) {
    s->starts[axis] = slice_bound(n, start, size, 0, 0);
    s->limits[axis] = tn__ir_max(ir, s->starts[axis], slice_bound(n, end, size, 0, 0));
    s->strides[axis] = stride;
    return;
  }
  /* Backwards: positions counted from the end of the reversed dimension. */
  const tn__expr *first = slice_bound(n, start, size, -1, -1), *stop = slice_bound(n, end, size, -1, -1);
  const tn__expr *last = tn__ir_add_i(ir, size, -1);
  s->starts[axis] = tn__ir_max(ir, tn__ir_index(ir, 0), tn__ir_min(ir, tn__ir_sub(ir, last, first), size));
  s->limits[axis] = tn__ir_max(ir, s->starts[axis], tn__ir_sub(ir, last, stop));
  s->strides[axis] = -stride;
  s->reversed[s->reversed_count++] = axis;
}

/* Elements of an operand, or of an attribute in old operator sets; NULL when absent. */
static const tn__expr *const *list_of(tn__onode *n, const char *name, int input, int *count) {
  if (n->version >= 10) return n->in[input] == NULL ? NULL : tn__on_elements(n, input, count);
  const int64_t *ints = tn__on_ints(n, name, count);
  if (ints == NULL) return NULL;
  const tn__expr **list = TN__NEW_ARRAY(n->arena, *count, const tn__expr *);
  for (int i = 0; i < *count; i++) list[i] = tn__on_index(n, ints[i]);
  return list;
}

/* What a dimension's entry is when only a run shows which dimensions are meant. */
static const tn__expr *entry_at_run(tn__onode *n, const tn__expr *const *axes, const tn__expr *const *values, int count,
                                    int axis, int rank, int64_t otherwise) {
  tn__ir *ir = n->ir;
  const tn__expr *entry = tn__ir_index(ir, otherwise);
  for (int k = 0; k < count; k++) {
    const tn__expr *here = tn__ir_or(ir, tn__ir_eq(ir, axes[k], tn__ir_index(ir, axis)),
                                     tn__ir_eq(ir, axes[k], tn__ir_index(ir, axis - rank)));
    entry = tn__ir_select(ir, here, values == NULL ? tn__ir_index(ir, otherwise) : values[k], entry);
  }
  return entry;
}

typedef struct slice_entries { /* by dimension of the input; NULL where nothing is sliced */
  const tn__expr *start[TN__MAX_RANK], *end[TN__MAX_RANK], *step[TN__MAX_RANK];
} slice_entries;

static void read_slice(tn__onode *n, const tn__value *x, slice_entries *e) {
  int count = 0, ends_count = 0, axes_count = 0, steps_count = 0;
  const tn__expr *const *starts = list_of(n, "starts", 1, &count), *const *ends = list_of(n, "ends", 2, &ends_count);
  if (starts == NULL || ends == NULL) tn__on_fail(n, "has no %s", starts == NULL ? "starts" : "ends");
  const tn__expr *const *axes = list_of(n, "axes", 3, &axes_count);
  const tn__expr *const *steps = n->version < 10 || n->in[4] == NULL ? NULL : tn__on_elements(n, 4, &steps_count);
  if (ends_count != count || (axes != NULL && axes_count != count) || (steps != NULL && steps_count != count))
    tn__on_fail(n, "its starts, ends, axes and steps have %d, %d, %d and %d entries", count, ends_count,
                axes == NULL ? count : axes_count, steps == NULL ? count : steps_count);
  if (count > x->rank) tn__on_fail(n, "slices %d dimensions of a tensor with %d", count, x->rank);
  *e = (slice_entries){.start = {NULL}};
  int64_t known[TN__MAX_RANK];
  bool all_known = true;
  for (int i = 0; i < count && axes != NULL; i++) all_known = tn__ir_as_int(axes[i], &known[i]) && all_known;
  if (!all_known) {
    const tn__expr *flags[TN__MAX_RANK];
    tn__onnx_axis_flags(n, 3, x->rank, flags, &count);
    for (int i = 0; i < x->rank; i++) {
      e->start[i] = entry_at_run(n, axes, starts, count, i, x->rank, 0);
      e->end[i] = entry_at_run(n, axes, ends, count, i, x->rank, (int64_t)1 << 40);
      e->step[i] = entry_at_run(n, axes, steps, count, i, x->rank, 1);
    }
    return;
  }
  const int64_t *normal = axes == NULL ? NULL : tn__on_axes(n, known, count, x->rank);
  for (int i = 0; i < count; i++) {
    int axis = normal == NULL ? i : (int)normal[i];
    e->start[axis] = starts[i];
    e->end[axis] = ends[i];
    e->step[axis] = steps == NULL ? tn__on_index(n, 1) : steps[i];
  }
}

void tn__onnx_slice(tn__onode *n) {
  tn__value *x = n->in[0];
  slice_entries e;
  read_slice(n, x, &e);
  slice_spec s = {.reversed_count = 0};
  for (int i = 0; i < x->rank; i++) {
    if (e.step[i] != NULL && !tn__ir_is_int(e.step[i])) {
      x = slice_by_index(n, x, i, e.start[i], e.end[i], e.step[i]);
      e.step[i] = NULL;
    }
    s.starts[i] = tn__on_index(n, 0);
    s.limits[i] = x->dims[i];
    s.strides[i] = 1;
    if (e.step[i] != NULL) slice_axis(n, &s, x, i, e.start[i], e.end[i], e.step[i]);
  }
  if (s.reversed_count > 0) x = tn__g_reverse(n->g, x, s.reversed, s.reversed_count);
  n->out[0] = tn__g_slice(n->g, x, s.starts, s.limits, s.strides);
}

/* ---- pad --------------------------------------------------------------------------------------------------------- */

/* Returns the source positions of a padded dimension: an i64 vector of low + size + high indices. Pads must not be
 * negative. */
static tn__value *pad_positions(tn__onode *n, const char *mode, const tn__expr *size, const tn__expr *low,
                                const tn__expr *high) {
  tn__ir *ir = n->ir;
  const tn__expr *total = tn__ir_add(ir, tn__ir_add(ir, low, size), high), *last = tn__ir_add_i(ir, size, -1);
  tn__value *at = tn__g_from_elements(n->g, TN_I64, &low, 1, 0);
  at = tn__on_sub(n, tn__g_iota(n->g, TN_I64, 1, &total, 0), at);
  tn__value *zero = tn__g_scalar_i64(n->g, TN_I64, 0), *end = tn__g_from_elements(n->g, TN_I64, &last, 1, 0);
  if (strcmp(mode, "edge") == 0) return tn__on_min(n, tn__on_max(n, at, zero), end);
  if (strcmp(mode, "wrap") == 0)
    return tn__g_binary(n->g, "floor_mod", at, tn__g_from_elements(n->g, TN_I64, &size, 1, 0));
  /* reflect: a zigzag of period 2 * (size - 1) */
  const tn__expr *period = tn__ir_max(ir, tn__ir_mul_i(ir, last, 2), tn__ir_index(ir, 1));
  tn__value *phase = tn__g_binary(n->g, "floor_mod", at, tn__g_from_elements(n->g, TN_I64, &period, 1, 0));
  return tn__on_sub(n, end, tn__on_unary(n, "abs", tn__on_sub(n, phase, end)));
}

/* Negative pads crop first; the rest is then wrapped or reflected. */
static tn__value *pad_indices(tn__onode *n, const char *mode, const tn__expr *size, const tn__expr *low,
                              const tn__expr *high) {
  tn__ir *ir = n->ir;
  const tn__expr *zero = tn__on_index(n, 0), *cropped = tn__ir_max(ir, tn__ir_sub(ir, zero, low), zero);
  const tn__expr *left = tn__ir_sub(ir, tn__ir_add(ir, size, tn__ir_min(ir, high, zero)), cropped);
  low = tn__ir_max(ir, low, zero);
  high = tn__ir_max(ir, high, zero);
  const tn__expr *nothing = tn__ir_eq(ir, tn__ir_add(ir, tn__ir_add(ir, low, left), high), zero);
  tn__graph_assume(n->g, tn__ir_or(ir, tn__ir_lt(ir, zero, left), nothing),
                   "%s elements are left of a dimension of %s when it is cropped, and none can be repeated",
                   tn__g_size_text(n->g, left), tn__g_size_text(n->g, size));
  tn__value *at = pad_positions(n, mode, left, low, high);
  return tn__ir_is_int_value(cropped, 0) ? at : tn__on_add(n, at, tn__g_from_elements(n->g, TN_I64, &cropped, 1, 0));
}

static tn__value *pad_by_index(tn__onode *n, const char *mode, tn__value *x, const tn__expr *const *low,
                               const tn__expr *const *high) {
  for (int i = 0; i < x->rank; i++) {
    if (tn__ir_is_int_value(low[i], 0) && tn__ir_is_int_value(high[i], 0)) continue;
    x = tn__g_take(n->g, x, pad_indices(n, mode, x->dims[i], low[i], high[i]), i);
  }
  return x;
}

void tn__onnx_pad(tn__onode *n) {
  tn__value *x = n->in[0], *fill = NULL;
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK];
  int count = 0, axes_count = x->rank;
  const tn__expr *const *pads;
  if (n->version < 11) {
    const int64_t *ints = tn__on_ints(n, "pads", &count);
    const tn__expr **list = TN__NEW_ARRAY(n->arena, count, const tn__expr *);
    for (int i = 0; i < count; i++) list[i] = tn__on_index(n, ints[i]);
    pads = list;
    fill = tn__on_scalar(n, tn__on_float(n, "value", 0), x);
  } else {
    pads = tn__on_elements(n, 1, &count);
    fill = n->in[2] == NULL ? tn__on_scalar(n, 0, x) : tn__on_reshape(n, n->in[2], 0, NULL);
  }
  const tn__expr *const *axes = n->version >= 18 && n->in[3] != NULL ? tn__on_elements(n, 3, &axes_count) : NULL;
  if (count != 2 * axes_count) tn__on_fail(n, "has %d pads for %d dimensions", count, axes_count);
  const tn__expr *flags[TN__MAX_RANK];
  if (axes != NULL) tn__onnx_axis_flags(n, 3, x->rank, flags, &axes_count);
  for (int i = 0; i < TN__MAX_RANK; i++) low[i] = high[i] = tn__on_index(n, 0);
  for (int i = 0; i < x->rank; i++) {
    low[i] = axes == NULL ? pads[i] : entry_at_run(n, axes, pads, axes_count, i, x->rank, 0);
    high[i] = axes == NULL ? pads[axes_count + i] : entry_at_run(n, axes, pads + axes_count, axes_count, i, x->rank, 0);
  }
  for (int i = 0; i < count; i++)
    tn__on_require_near(n, pads[i], 48, tn__arena_printf(n->arena, "element %d of the pads", i));
  const char *mode = tn__on_string(n, "mode", "constant");
  if (strcmp(mode, "constant") == 0)
    n->out[0] = tn__g_pad(n->g, x, fill, low, high, NULL);
  else if (strcmp(mode, "edge") == 0 || strcmp(mode, "reflect") == 0 || strcmp(mode, "wrap") == 0)
    n->out[0] = pad_by_index(n, mode, x, low, high);
  else
    tn__on_fail(n, "mode \"%s\" is none of constant, reflect, edge and wrap", mode);
}

/* Crops and pads to the wanted size; an odd element goes to the end. */
void tn__onnx_center_crop_pad(tn__onode *n) {
  tn__value *x = n->in[0];
  int count, axes_count;
  const tn__expr *const *wanted = tn__on_elements(n, 1, &count);
  const int64_t *axes = tn__on_ints(n, "axes", &axes_count);
  if (axes != NULL) axes = tn__on_axes(n, axes, axes_count, x->rank);
  if (count != (axes != NULL ? axes_count : x->rank))
    tn__on_fail(n, "the wanted shape has %d entries for %d dimensions", count, axes != NULL ? axes_count : x->rank);
  tn__ir *ir = n->ir;
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK], *zero = tn__ir_index(ir, 0);
  for (int i = 0; i < x->rank; i++) low[i] = high[i] = zero;
  for (int i = 0; i < count; i++) {
    int axis = axes == NULL ? i : (int)axes[i];
    const tn__expr *grow = tn__ir_sub(ir, wanted[i], x->dims[axis]), *shrink = tn__ir_sub(ir, x->dims[axis], wanted[i]);
    low[axis] = tn__ir_sub(ir, tn__ir_div_i(ir, tn__ir_max(ir, grow, zero), 2),
                           tn__ir_div_i(ir, tn__ir_max(ir, shrink, zero), 2));
    high[axis] = tn__ir_sub(ir, grow, low[axis]);
  }
  n->out[0] = tn__g_pad(n->g, x, tn__on_scalar(n, 0, x), low, high, NULL);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static int64_t block_size(tn__onode *n) {
  int64_t block = tn__on_int(n, "blocksize", 0);
  if (block < 1 || block > 1 << 20) tn__on_fail(n, "blocksize is %lld", (long long)block);
  return block;
}

void tn__onnx_depth_to_space(tn__onode *n) {
  int64_t b = block_size(n);
  tn__ir *ir = n->ir;
  tn__value *x = n->in[0];
  const tn__expr *eb = tn__ir_index(ir, b), *c = tn__ir_div_i(ir, x->dims[1], b * b);
  bool crd = strcmp(tn__on_string(n, "mode", "DCR"), "CRD") == 0;
  if (tn__ir_is_int(x->dims[1]) && x->dims[1]->value.i % (b * b) != 0)
    tn__on_fail(n, "%lld channels do not divide into blocks of %lld", (long long)x->dims[1]->value.i,
                (long long)(b * b));
  const tn__expr *dcr_dims[] = {x->dims[0], eb, eb, c, x->dims[2], x->dims[3]},
                 *crd_dims[] = {x->dims[0], c, eb, eb, x->dims[2], x->dims[3]};
  static const int64_t dcr_order[] = {0, 3, 4, 1, 5, 2}, crd_order[] = {0, 1, 4, 2, 5, 3};
  const tn__expr *dims[] = {x->dims[0], c, tn__ir_mul_i(ir, x->dims[2], b), tn__ir_mul_i(ir, x->dims[3], b)};
  tn__value *y =
      tn__g_transpose(n->g, tn__g_reshape(n->g, x, 6, crd ? crd_dims : dcr_dims), crd ? crd_order : dcr_order);
  n->out[0] = tn__g_reshape(n->g, y, 4, dims);
}

void tn__onnx_space_to_depth(tn__onode *n) {
  int64_t b = block_size(n);
  tn__ir *ir = n->ir;
  tn__value *x = n->in[0];
  const tn__expr *eb = tn__ir_index(ir, b), *h = tn__ir_div_i(ir, x->dims[2], b), *w = tn__ir_div_i(ir, x->dims[3], b);
  for (int i = 2; i < 4; i++)
    if (tn__ir_is_int(x->dims[i]) && x->dims[i]->value.i % b != 0)
      tn__on_fail(n, "dimension %d does not divide into blocks of %lld", i, (long long)b);
  const tn__expr *split[] = {x->dims[0], x->dims[1], h, eb, w, eb};
  bool crd = strcmp(tn__on_string(n, "mode", "DCR"), "CRD") == 0;
  static const int64_t dcr_order[] = {0, 3, 5, 1, 2, 4}, crd_order[] = {0, 1, 3, 5, 2, 4};
  const tn__expr *dims[] = {x->dims[0], tn__ir_mul_i(ir, x->dims[1], b * b), h, w};
  n->out[0] = tn__g_reshape(n->g, tn__g_transpose(n->g, tn__g_reshape(n->g, x, 6, split), crd ? crd_order : dcr_order),
                            4, dims);
}

/* ---- ranges and triangles ---------------------------------------------------------------------------------------- */

/* start + i * delta for i in [0, max(ceil((limit - start) / delta), 0)). */
void tn__onnx_range(tn__onode *n) {
  tn__ir *ir = n->ir;
  tn__graph *g = n->g;
  tn__value *v[3];
  for (int i = 0; i < 3; i++) v[i] = tn__on_reshape(n, n->in[i], 0, NULL);
  const tn__expr *size;
  if (tn__on_is_float(v[0])) {
    tn__value *wide[3];
    for (int i = 0; i < 3; i++) wide[i] = tn__g_convert(g, v[i], TN_F64);
    const double *a, *b, *d;
    int count;
    if (tn__on_known_floats(n, 0, &a, &count) && tn__on_known_floats(n, 1, &b, &count) &&
        tn__on_known_floats(n, 2, &d, &count)) {
      double steps = ceil((b[0] - a[0]) / d[0]);
      if (!(steps < 1e15)) tn__on_fail(n, "the range has no end");
      size = tn__ir_index(ir, steps > 0 ? (int64_t)steps : 0);
    } else {
      tn__value *steps = tn__on_unary(n, "ceil", tn__on_div(n, tn__on_sub(n, wide[1], wide[0]), wide[2]));
      /* NaN becomes a size that is refused. */
      tn__value *known = tn__on_max(n, steps, tn__on_scalar(n, 0, steps));
      tn__value *refused = tn__on_scalar(n, -1, steps);
      known = tn__g_select(g, tn__on_unary(n, "is_nan", steps), refused, known);
      size = tn__on_size_at_run(n, tn__g_convert(g, known, TN_I64), "the start, the limit or the step is not a number");
    }
  } else {
    const tn__expr *e[3];
    static const char *const names[] = {"input 0 (start)", "input 1 (limit)", "input 2 (delta)"};
    for (int i = 0; i < 3; i++) {
      e[i] = tn__on_element(n, i);
      tn__on_require_near(n, e[i], 61, names[i]);
    }
    if (tn__ir_is_int_value(e[2], 0)) tn__on_fail(n, "the step is 0");
    if (!tn__ir_is_int(e[2])) tn__graph_assume(g, tn__ir_ne(ir, e[2], tn__ir_index(ir, 0)), "the step is 0");
    if (!tn__ir_is_int(e[2]) || e[2]->value.i < 0) {
      /* The number of steps does not change when all three change their sign. */
      const tn__expr *down = tn__ir_lt(ir, e[2], tn__ir_index(ir, 0)), *span = tn__ir_sub(ir, e[1], e[0]);
      span = tn__ir_select(ir, down, tn__ir_mul_i(ir, span, -1), span);
      size = tn__ir_ceildiv(
          ir, tn__ir_max(ir, span, tn__ir_index(ir, 0)),
          tn__ir_max(ir, tn__ir_select(ir, down, tn__ir_mul_i(ir, e[2], -1), e[2]), tn__ir_index(ir, 1)));
    } else {
      size = tn__ir_ceildiv(ir, tn__ir_max(ir, tn__ir_sub(ir, e[1], e[0]), tn__ir_index(ir, 0)), e[2]);
    }
  }
  tn__value *i = tn__g_iota(g, v[0]->dtype, 1, &size, 0);
  n->out[0] = tn__on_add(n, v[0], tn__on_mul(n, i, v[2]));
}

/* column - row, as i64 of the last two dimensions. */
static tn__value *diagonal_number(tn__onode *n, int rank, const tn__expr *const *dims) {
  tn__value *row = tn__g_iota(n->g, TN_I64, rank, dims, rank - 2);
  return tn__on_sub(n, tn__g_iota(n->g, TN_I64, rank, dims, rank - 1), row);
}

void tn__onnx_trilu(tn__onode *n) {
  tn__value *x = n->in[0];
  tn__value *k = n->in[1] == NULL ? tn__g_scalar_i64(n->g, TN_I64, 0) : tn__on_reshape(n, n->in[1], 0, NULL);
  bool upper = tn__on_int(n, "upper", 1) != 0;
  tn__value *keep =
      tn__g_compare(n->g, upper ? TN__CMP_GE : TN__CMP_LE, diagonal_number(n, 2, x->dims + x->rank - 2), k);
  tn__value *zero = x->dtype == TN_BOOL ? tn__g_scalar(n->g, TN_BOOL, 0) : tn__on_scalar(n, 0, x);
  n->out[0] = tn__g_select(n->g, keep, x, zero);
}

void tn__onnx_eye_like(tn__onode *n) {
  int64_t type = tn__on_int(n, "dtype", 0);
  tn_dtype dtype = tn__on_attr(n, "dtype") == NULL ? n->in[0]->dtype : tn__onnx_dtype((int32_t)type);
  if (dtype == TN_DTYPE_INVALID)
    tn__on_unsupported(n, "element type %s is not supported", tn__onnx_dtype_name((int32_t)type));
  tn__value *k = tn__g_scalar_i64(n->g, TN_I64, tn__on_int(n, "k", 0));
  n->out[0] = tn__g_convert(n->g, tn__g_compare(n->g, TN__CMP_EQ, diagonal_number(n, 2, n->in[0]->dims), k), dtype);
}
