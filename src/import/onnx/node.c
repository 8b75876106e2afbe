/* What operators ask of their node: attributes, operands whose contents are known, shapes; and small compositions that
 * many of them use. */
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/message.h"
#include "import/onnx/internal.h"

static _Noreturn void fail_as(const tn__onode *n, tn_status_code code, const char *format, va_list args) {
  tn_status *status = tn_status_create_v(code, format, args);
  const char *origin = tn__graph_origin(n->g);
  if (origin != NULL) status = tn_status_prefix(status, "%s", origin);
  tn__throw(n->arena->escape, status);
}

void tn__on_fail(const tn__onode *n, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail_as(n, TN_INVALID_ARGUMENT, format, args);
}

void tn__on_unsupported(const tn__onode *n, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail_as(n, TN_UNSUPPORTED, format, args);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static const Onnx__AttributeProto *find_in(Onnx__AttributeProto *const *list, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (list[i]->name != NULL && strcmp(list[i]->name, name) == 0) return list[i];
  return NULL;
}

const Onnx__AttributeProto *tn__on_attr(const tn__onode *n, const char *name) {
  const Onnx__AttributeProto *a = find_in(n->proto->attribute, n->proto->n_attribute, name);
  while (a != NULL && a->ref_attr_name != NULL && a->ref_attr_name[0] != '\0') {
    const tn__onode *caller = n->scope->caller;
    const Onnx__FunctionProto *function = n->scope->function;
    if (caller == NULL)
      tn__on_fail(n, "attribute \"%s\" refers to attribute \"%s\" of a function, and the node is in none", name,
                  a->ref_attr_name);
    name = a->ref_attr_name;
    a = find_in(caller->proto->attribute, caller->proto->n_attribute, name);
    if (a == NULL) return find_in(function->attribute_proto, function->n_attribute_proto, name);
    n = caller;
  }
  return a;
}

int64_t tn__on_int(const tn__onode *n, const char *name, int64_t otherwise) {
  const Onnx__AttributeProto *a = tn__on_attr(n, name);
  if (a == NULL) return otherwise;
  return a->i;
}

double tn__on_float(const tn__onode *n, const char *name, double otherwise) {
  const Onnx__AttributeProto *a = tn__on_attr(n, name);
  if (a == NULL) return otherwise;
  return a->f;
}

const char *tn__on_string(const tn__onode *n, const char *name, const char *otherwise) {
  const Onnx__AttributeProto *a = tn__on_attr(n, name);
  if (a == NULL) return otherwise;
  return tn__arena_strndup(n->arena, a->s.data == NULL ? "" : (const char *)a->s.data, a->s.len);
}

const int64_t *tn__on_ints(const tn__onode *n, const char *name, int *count) {
  static const int64_t none[1] = {0};
  const Onnx__AttributeProto *a = tn__on_attr(n, name);
  *count = 0;
  if (a == NULL) return NULL;
  if (a->n_ints > INT32_MAX) tn__on_fail(n, "attribute \"%s\" is too long", name);
  *count = (int)a->n_ints;
  return a->n_ints == 0 ? none : a->ints;
}

const float *tn__on_floats(const tn__onode *n, const char *name, int *count) {
  static const float none[1] = {0};
  const Onnx__AttributeProto *a = tn__on_attr(n, name);
  *count = 0;
  if (a == NULL) return NULL;
  if (a->n_floats > INT32_MAX) tn__on_fail(n, "attribute \"%s\" is too long", name);
  *count = (int)a->n_floats;
  return a->n_floats == 0 ? none : a->floats;
}

const char *const *tn__on_strings(const tn__onode *n, const char *name, int *count) {
  const Onnx__AttributeProto *a = tn__on_attr(n, name);
  *count = 0;
  if (a == NULL) return NULL;
  if (a->n_strings > INT32_MAX) tn__on_fail(n, "attribute \"%s\" is too long", name);
  const char **out = TN__NEW_ARRAY(n->arena, a->n_strings, const char *);
  for (size_t i = 0; i < a->n_strings; i++) {
    const char *text = a->strings[i].data == NULL ? "" : (const char *)a->strings[i].data;
    out[i] = tn__arena_strndup(n->arena, text, a->strings[i].len);
  }
  *count = (int)a->n_strings;
  return out;
}

const tn__text *tn__on_text(const tn__onode *n, const char *name) {
  const Onnx__AttributeProto *a = tn__on_attr(n, name);
  if (a == NULL) return NULL;
  return tn__text_create(n->arena, a->s.data, a->s.len);
}

const tn__text *const *tn__on_texts(const tn__onode *n, const char *name, int *count) {
  const Onnx__AttributeProto *a = tn__on_attr(n, name);
  *count = 0;
  if (a == NULL) return NULL;
  if (a->n_strings >= INT32_MAX) tn__on_fail(n, "attribute \"%s\" is too long", name);
  const tn__text **out = TN__NEW_ARRAY(n->arena, a->n_strings + 1, const tn__text *);
  for (size_t i = 0; i < a->n_strings; i++) out[i] = tn__text_create(n->arena, a->strings[i].data, a->strings[i].len);
  *count = (int)a->n_strings;
  return out;
}

const Onnx__GraphProto *tn__on_graph(const tn__onode *n, const char *name) { return tn__on_attr(n, name)->g; }

const int64_t *tn__on_ints_n(const tn__onode *n, const char *name, int count, int64_t otherwise) {
  int given;
  const int64_t *values = tn__on_ints(n, name, &given);
  if (values != NULL && given > 0) {
    if (given != count) tn__on_fail(n, "attribute \"%s\" has %d entries, expected %d", name, given, count);
    return values;
  }
  int64_t *filled = TN__NEW_ARRAY(n->arena, count, int64_t);
  for (int i = 0; i < count; i++) filled[i] = otherwise;
  return filled;
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static const char *operand_text(const tn__onode *n, int input) {
  return input < (int)n->proto->n_input ? tn__shown_text(n->arena, "input %d \"%s\"", input, n->proto->input[input])
                                        : tn__arena_printf(n->arena, "input %d", input);
}

/* Suggests --fold-defaults if an operand that must be a constant is an input with a default. */
static const char *folding_advice(const tn__onode *n, int input) {
  return n->in[input] != NULL && n->in[input]->fallback != NULL
             ? "; it is an input with a default: --fold-defaults makes that a constant"
             : "";
}

static void require_int(const tn__onode *n, int input) {
  const tn__value *v = n->in[input];
  if (v == NULL) tn__on_fail(n, "input %d is missing", input);
  if (!tn__dtype_is_int(v->dtype) && v->dtype != TN_BOOL)
    tn__on_fail(n, "%s is %s, expected integers", operand_text(n, input), tn_dtype_name(v->dtype));
}

const tn__expr *const *tn__on_elements(tn__onode *n, int input, int *count) {
  require_int(n, input);
  const tn__expr *const *elements = tn__graph_elements(n->g, n->in[input], count);
  if (elements == NULL)
    tn__on_unsupported(
        n, "%s must have a constant number of elements, at most %d, because the shape of the result depends on it%s",
        operand_text(n, input), TN__MAX_ELEMENTS, folding_advice(n, input));
  return elements;
}

const tn__expr *tn__on_element(tn__onode *n, int input) {
  int count;
  const tn__expr *const *elements = tn__on_elements(n, input, &count);
  if (count != 1) tn__on_fail(n, "%s has %d elements, expected 1", operand_text(n, input), count);
  return elements[0];
}

static int64_t constant_count(const tn__value *v) {
  int64_t shape[TN__MAX_RANK], count = 1;
  if (!tn__g_shape_const(v, shape)) return -1;
  for (int i = 0; i < v->rank; i++) count *= shape[i];
  return count;
}

bool tn__on_known_ints(const tn__onode *n, int input, const int64_t **out, int *count) {
  enum { MOST = 1 << 16 };
  const tn__value *v = n->in[input];
  if (v == NULL) return false;
  require_int(n, input);
  int64_t size = constant_count(v);
  if (size < 0 || size > MOST || (v->data == NULL && v->elements == NULL && size > 0)) return false;
  int64_t *values = TN__NEW_ARRAY(n->arena, size, int64_t);
  for (int64_t i = 0; i < size; i++) {
    if (v->data != NULL)
      values[i] = tn__load_i64(v->dtype, v->data, v->splat ? 0 : i);
    else if (!tn__ir_as_int(v->elements[i], &values[i]))
      return false;
  }
  *out = values;
  *count = (int)size;
  return true;
}

bool tn__on_known_floats(const tn__onode *n, int input, const double **out, int *count) {
  enum { MOST = 1 << 16 };
  const tn__value *v = n->in[input];
  if (v == NULL) return false;
  int64_t size = constant_count(v);
  if (size < 0 || size > MOST || (v->data == NULL && v->elements == NULL && size > 0)) return false;
  double *values = TN__NEW_ARRAY(n->arena, size, double);
  for (int64_t i = 0; i < size; i++) {
    int64_t integer;
    if (v->data != NULL)
      values[i] = tn__load_f64(v->dtype, v->data, v->splat ? 0 : i);
    else if (v->elements[i]->kind == TN__EXPR_FLOAT)
      values[i] = v->elements[i]->value.f;
    else if (tn__ir_as_int(v->elements[i], &integer))
      values[i] = (double)integer;
    else
      return false;
  }
  *out = values;
  *count = (int)size;
  return true;
}

const int64_t *tn__on_ints_operand(tn__onode *n, int input, int *count, const char *why) {
  const int64_t *values;
  if (!tn__on_known_ints(n, input, &values, count))
    tn__on_unsupported(n, "%s must be a constant, because %s%s", operand_text(n, input), why, folding_advice(n, input));
  return values;
}

const int64_t *tn__on_ints_either(tn__onode *n, const char *name, int64_t since, int input, int *count,
                                  const char *why) {
  *count = 0;
  if (n->version < since) return tn__on_ints(n, name, count);
  return n->in[input] == NULL ? NULL : tn__on_ints_operand(n, input, count, why);
}

void tn__on_require_shape(const tn__onode *n, const tn__value *y, const tn__value *x, const char *what) {
  if (y->rank != x->rank) tn__on_fail(n, "its operands make %d dimensions of %s, which has %d", y->rank, what, x->rank);
  for (int i = 0; i < x->rank; i++)
    tn__relate_sizes(n->g, tn__arena_printf(n->arena, "dimension %d of what its operands make", i), y->dims[i],
                     "==", tn__arena_printf(n->arena, "as of %s", what), x->dims[i]);
}

void tn__on_require_near(const tn__onode *n, const tn__expr *e, int bits, const char *what) {
  tn__ir *ir = n->ir;
  const tn__expr *most = tn__ir_index(ir, (int64_t)1 << bits), *least = tn__ir_index(ir, -((int64_t)1 << bits));
  const tn__expr *near = tn__ir_and(ir, tn__ir_le(ir, least, e), tn__ir_le(ir, e, most));
  if (tn__ir_is_false(near))
    tn__on_fail(n, "%s is %lld, and must be within 2^%d of 0", what, (long long)e->value.i, bits);
  if (tn__ir_is_int(e)) return;
  tn__graph_assume(n->g, near, "%s is %s, and must be within 2^%d of 0", what, tn__g_size_text(n->g, e), bits);
}

void tn__on_require_count(const tn__onode *n, const tn__expr *e, const char *what) {
  tn__graph_assume(n->g, tn__ir_le(n->ir, tn__ir_index(n->ir, 0), e), "%s is %s, and must not be negative", what,
                   tn__g_size_text(n->g, e));
}

void tn__on_require_counts(tn__onode *n, int input, const tn__expr *most, const char *what) {
  const int64_t *known;
  int count;
  if (tn__on_known_ints(n, input, &known, &count)) {
    for (int i = 0; i < count; i++) {
      const char *text = tn__arena_printf(n->arena, "element %d of %s", i, operand_text(n, input));
      tn__on_require_count(n, tn__ir_index(n->ir, known[i]), text);
      tn__relate_sizes(n->g, text, tn__ir_index(n->ir, known[i]), "<=", what, most);
    }
    return;
  }
  tn__value *numbers = tn__g_convert(n->g, n->in[input], TN_I64);
  const char *least = tn__arena_printf(n->arena, "the least of %s", operand_text(n, input)),
             *greatest = tn__arena_printf(n->arena, "the greatest of %s", operand_text(n, input));
  const int64_t axis = 0;
  tn__value *low = tn__g_reduce(n->g, TN__REDUCE_MIN, numbers, &axis, 1, false);
  tn__value *high = tn__g_reduce(n->g, TN__REDUCE_MAX, numbers, &axis, 1, false);
  tn__on_require_count(n, tn__graph_elements(n->g, low, &count)[0], least);
  tn__relate_sizes(n->g, greatest, tn__graph_elements(n->g, high, &count)[0], "<=", what, most);
}

const tn__expr *tn__on_size_at_run(const tn__onode *n, tn__value *number, const char *text) {
  int count;
  const tn__expr *size = tn__graph_elements(n->g, number, &count)[0], *zero = tn__ir_index(n->ir, 0);
  tn__graph_assume(n->g, tn__ir_le(n->ir, zero, size), "%s", text);
  return tn__ir_max(n->ir, size, zero);
}

TN_MUST_USE static bool node_attribute(const void *user, const char *name, int64_t *value) {
  if (tn__on_attr(user, name) == NULL) return false;
  *value = tn__on_int(user, name, 0);
  return true;
}

void tn__on_relate(const tn__onode *n, const char *relations) {
  const tn__relating r = {.graph = n->g,
                          .name = "",
                          .word = "input",
                          .operands = n->in,
                          .count = n->input_count,
                          .attribute = node_attribute,
                          .user = n};
  tn__relate(&r, relations);
}

void tn__on_require_size(const tn__onode *n, int input, int axis, const tn__expr *size, const char *what) {
  const char *left = tn__arena_printf(n->arena, "dimension %d of %s", axis, operand_text(n, input));
  tn__relate_sizes(n->g, left, n->in[input]->dims[axis], "==", what, size);
}

void tn__on_require_same(const tn__onode *n, int input, int axis, int other, int other_axis) {
  const char *what = tn__arena_printf(n->arena, "dimension %d of %s", other_axis, operand_text(n, other));
  tn__on_require_size(n, input, axis, n->in[other]->dims[other_axis], what);
}

int64_t tn__on_axis(const tn__onode *n, int64_t axis, int rank) { return tn__g_axis(n->g, axis, rank); }

const int64_t *tn__on_axes(const tn__onode *n, const int64_t *axes, int count, int rank) {
  bool seen[TN__MAX_RANK] = {false};
  int64_t *out = TN__NEW_ARRAY(n->arena, count, int64_t);
  if (rank > TN__MAX_RANK)
    tn__on_unsupported(n, "makes a tensor with %d dimensions; at most %d are supported", rank, TN__MAX_RANK);
  for (int i = 0; i < count; i++) {
    out[i] = tn__on_axis(n, axes[i], rank);
    if (seen[out[i]]) tn__on_fail(n, "axis %lld is given twice", (long long)axes[i]);
    seen[out[i]] = true;
  }
  return out;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

const tn__expr *tn__on_index(const tn__onode *n, int64_t value) { return tn__ir_index(n->ir, value); }

const tn__expr **tn__on_dims(const tn__onode *n, const tn__value *value) {
  const tn__expr **dims = TN__NEW_ARRAY(n->arena, TN__MAX_RANK + 1, const tn__expr *);
  for (int i = 0; i < value->rank; i++) dims[i] = value->dims[i];
  return dims;
}

void tn__on_check_count(const tn__onode *n, const tn__expr *const *dims, int count) {
  int64_t known = 1, size;
  bool over = false;
  const char *text = "";
  for (int i = 0; i < count; i++) {
    if (!tn__ir_as_int(dims[i], &size)) continue;
    if (size == 0) return;
    over = over || tn__mul_overflow_i64(known, size, &known);
    text = tn__arena_printf(n->arena, "%s%s%lld", text, text[0] == '\0' ? "" : ", ", (long long)size);
  }
  if (over) tn__on_fail(n, "dimensions of %s multiply to more elements than can be counted", text);
}

const tn__expr *tn__on_product(const tn__onode *n, const tn__expr *const *dims, int count) {
  tn__on_check_count(n, dims, count);
  const tn__expr *product = tn__ir_index(n->ir, 1);
  for (int i = 0; i < count; i++) product = tn__ir_mul(n->ir, product, dims[i]);
  return product;
}

int64_t tn__on_dim_known(const tn__onode *n, int input, int axis, const char *what) {
  int64_t size = tn__g_dim_const(n->in[input], axis);
  if (size < 0)
    tn__on_unsupported(n, "%s (dimension %d of %s) must be a constant%s", what, axis, operand_text(n, input),
                       folding_advice(n, input));
  return size;
}

tn__value *tn__on_scalar(const tn__onode *n, double value, const tn__value *like) {
  return tn__g_scalar(n->g, like->dtype, value);
}
bool tn__on_is_float(const tn__value *a) { return tn__dtype_is_float(a->dtype); }

tn__value *tn__on_widen(const tn__onode *n, tn__value *a) {
  return a->dtype == TN_F16 || a->dtype == TN_BF16 ? tn__g_convert(n->g, a, TN_F32) : a;
}

tn__value *tn__on_reshape(const tn__onode *n, tn__value *a, int rank, const tn__expr *const *dims) {
  if (rank == a->rank && (rank == 0 || memcmp(dims, a->dims, (size_t)rank * sizeof(*dims)) == 0)) return a;
  return tn__g_reshape(n->g, a, rank, dims);
}

tn__value *tn__on_at_axis(const tn__onode *n, tn__value *a, int axis, int rank) {
  const tn__expr *dims[TN__MAX_RANK];
  if (a->rank != 1) tn__on_fail(n, "a per-channel operand has %d dimensions, expected 1", a->rank);
  for (int i = 0; i < rank; i++) dims[i] = i == axis ? a->dims[0] : tn__ir_index(n->ir, 1);
  return tn__on_reshape(n, a, rank, dims);
}

tn__value *tn__on_squeeze(const tn__onode *n, tn__value *a, const int64_t *axes, int count) {
  const tn__expr *dims[TN__MAX_RANK];
  bool drop[TN__MAX_RANK] = {false};
  int rank = 0;
  for (int i = 0; i < count; i++) drop[axes[i]] = true;
  for (int i = 0; i < a->rank; i++) {
    if (!drop[i])
      dims[rank++] = a->dims[i];
    else
      tn__graph_assume(n->g, tn__ir_eq(n->ir, a->dims[i], tn__ir_index(n->ir, 1)),
                       "dimension %d, which is squeezed, must be 1", i);
  }
  return tn__on_reshape(n, a, rank, dims);
}

tn__value *tn__on_unsqueeze(const tn__onode *n, tn__value *a, const int64_t *axes, int count) {
  return tn__g_unsqueeze(n->g, a, axes, count);
}

tn__value *tn__on_slice_axis(const tn__onode *n, tn__value *a, int axis, const tn__expr *low, const tn__expr *high) {
  const tn__expr *starts[TN__MAX_RANK];
  const tn__expr **limits = tn__on_dims(n, a);
  int64_t strides[TN__MAX_RANK];
  for (int i = 0; i < a->rank; i++) {
    starts[i] = tn__ir_index(n->ir, 0);
    strides[i] = 1;
  }
  if (tn__ir_is_int_value(low, 0) && high == a->dims[axis]) return a;
  starts[axis] = low;
  limits[axis] = high;
  return tn__g_slice(n->g, a, starts, limits, strides);
}

tn__value *tn__on_transpose(const tn__onode *n, tn__value *a, const int64_t *permutation) {
  for (int i = 0; i < a->rank; i++)
    if (permutation[i] != i) return tn__g_transpose(n->g, a, permutation);
  return a;
}
