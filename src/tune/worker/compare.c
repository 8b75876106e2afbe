/* Are a kernel's results those of the declaration? Integers must be equal. Floats may be rounded otherwise, in sums
 * whose terms come in another order, in fused operations and in elementary functions (docs/numerics.md): by so many
 * times the type's rounding as there are terms and operations on the way to a result, relative to the largest number
 * among the results, which stands for those that were added up on the way. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "tune/worker/internal.h"

/* ---- how far results may be apart -------------------------------------------------------------------------------- */

static double extent_of(const tn__var *axis) { return axis->extent != NULL ? tn__ir_extent_estimate(axis->extent) : 1; }

static void count_one(const tn__expr *e, void *user) {
  (void)e;
  ++*(double *)user;
}

/* Terms that a result of the stage is a sum of, and operations on each. */
static double steps_of(const tn__te *te, const tn__te_stage *stage) {
  double operations = 0, terms = 1;
  for (int t = 0; t < stage->tensor_count; t++)
    if (stage->values[t] != NULL) tn__te_visit(tn__te_ir(te), stage->values[t], count_one, &operations);
  for (int a = 0; a < stage->reduce_axes.count; a++) terms *= extent_of(stage->reduce_axes.var[a]);
  if (stage->kind == TN__TE_SCAN) terms *= extent_of(stage->axes.var[stage->scan_axis]);
  return terms + operations;
}

double tn__worker_rounding_of(const tn__te *te) {
  double steps = 16;
  for (int i = 0; i < tn__te_stage_count(te); i++) steps += 2 * steps_of(te, tn__te_stage_at(te, i));
  return steps;
}

static double unit_of(tn_dtype dtype) {
  switch (dtype) {
    case TN_F64: return 0x1p-53;
    case TN_F32: return 0x1p-24;
    case TN_F16: return 0x1p-11;
    default: return 0x1p-8; /* bf16 */
  }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

double tn__worker_largest_of(tn_dtype dtype, const void *data, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count && tn__dtype_is_float(dtype); i++) {
    double value = fabs(tn__load_f64(dtype, data, (int64_t)i));
    if (isfinite(value) && value > largest) largest = value;
  }
  return largest;
}

static bool is_near(double a, double b, double most) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b)) return a == b;
  return fabs(a - b) <= most;
}

/* How far elements of an output may be apart. */
static double most_apart(const tn__worker_operands *o, int output, tn_dtype dtype) {
  const double most_relative = 0.1; /* however many terms: a tensor of noise is not right */
  double unit = unit_of(dtype);
  return tn__dtype_is_float(dtype) ? fmin(o->rounding * unit, fmax(most_relative, 4 * unit)) * o->largest[output] : 0;
}

/* The first of `count` elements that is wrong; -1: none is. */
static int64_t first_wrong(tn_dtype dtype, const char *is, const char *right, int64_t count, double most) {
  size_t size = tn_dtype_size(dtype);
  bool floats = tn__dtype_is_float(dtype);
  for (int64_t i = 0; i < count; i++) {
    if (memcmp(is + (size_t)i * size, right + (size_t)i * size, size) == 0) continue;
    if (!floats || !is_near(tn__load_f64(dtype, is, i), tn__load_f64(dtype, right, i), most)) return i;
  }
  return -1;
}

/* The same of all elements of an output: what is equal, as most of it often is, is seen in blocks. */
static int64_t first_wrong_of(const tn__worker_operands *o, int output, tn_dtype dtype, const char *is, size_t count) {
  enum { BLOCK = 1024 };
  const char *right = o->right[output];
  size_t size = tn_dtype_size(dtype);
  double most = most_apart(o, output, dtype);
  for (size_t at = 0; at < count; at += BLOCK) {
    size_t part = count - at < BLOCK ? count - at : BLOCK;
    if (memcmp(is + at * size, right + at * size, part * size) == 0) continue;
    int64_t wrong = first_wrong(dtype, is + at * size, right + at * size, (int64_t)part, most);
    if (wrong >= 0) return (int64_t)at + wrong;
  }
  return -1;
}

/* "3, 0, 17", of the element at this place in memory. */
static void print_place(const tn__buffer *b, int64_t at, char *text, size_t size) {
  int64_t shape[TN__MAX_RANK] = {0}, index[TN__MAX_RANK] = {0};
  size_t used = 0;
  text[0] = 0;
  for (int d = b->rank - 1; d >= 0; d--) {
    shape[d] = tn__ir_int_or(b->shape[d], 0);
    if (b->strides != NULL || shape[d] <= 0) { /* elements do not follow each other */
      snprintf(text, size, "at place %lld", (long long)at);
      return;
    }
    index[d] = at % shape[d];
    at /= shape[d];
  }
  for (int d = 0; d < b->rank && used < size; d++)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", d > 0 ? ", " : "", (long long)index[d]);
}

static void print_value(tn_dtype dtype, const void *data, int64_t at, char *text, size_t size) {
  if (tn__dtype_is_float(dtype) && isnan(tn__load_f64(dtype, data, at)))
    snprintf(text, size, "NaN");
  else if (tn__dtype_is_float(dtype))
    snprintf(text, size, "%.9g", tn__load_f64(dtype, data, at));
  else
    snprintf(text, size, "%lld", (long long)tn__load_i64(dtype, data, at));
}

bool tn__worker_operands_compare(const tn__worker_operands *o, char *words, size_t size) {
  for (int i = 0; i < o->count - o->input_count; i++) {
    const tn__buffer *b = tn__te_output_at(o->te, i);
    const int buffer = o->over[i] >= 0 ? o->over[i] : o->input_count + i;
    const tn__worker_memory *memory = &o->buffers[buffer];
    int64_t at = first_wrong_of(o, i, b->dtype, memory->data, memory->bytes / tn_dtype_size(b->dtype));
    if (at < 0) continue;
    char place[160], is[48], right[48];
    print_place(b, at, place, sizeof place);
    print_value(b->dtype, memory->data, at, is, sizeof is);
    print_value(b->dtype, o->right[i], at, right, sizeof right);
    snprintf(words, size, "%s[%s] is %s, and %s by the declaration", b->name, place, is, right);
    return false;
  }
  return true;
}
