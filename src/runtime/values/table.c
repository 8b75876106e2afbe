/* Lookups in sorted tables, which the compiler made: labels, and the n-grams of a pool. Nothing of the tables is
 * believed but that they are there: an unsound one finds nothing, or something else of the same table. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "runtime/values/strings.h"

/* Elements of one type, of a tensor. */
typedef struct column {
  const tn__strings *strings;
  tn_dtype dtype;
  const void *data;
} column;

static int order_of_texts(tn_string a, tn_string b) {
  uint64_t shared = a.length < b.length ? a.length : b.length;
  int order = shared == 0 ? 0 : memcmp(a.data, b.data, shared);
  return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

/* NaN is equal to itself, and behind all others. */
static int order_of_floats(double a, double b) {
  if (isnan(a) || isnan(b)) return (isnan(a) != 0) - (isnan(b) != 0);
  return (a > b) - (a < b);
}

static tn_status *compare(const column *a, int64_t i, const column *b, int64_t j, int *order) {
  if (a->dtype == TN_STRING) {
    tn_string x, y;
    TN_RETURN_IF_ERROR(tn__string_at(a->strings, ((const uint64_t *)a->data)[i], &x));
    TN_RETURN_IF_ERROR(tn__string_at(b->strings, ((const uint64_t *)b->data)[j], &y));
    *order = order_of_texts(x, y);
  } else if (tn__dtype_is_float(a->dtype)) {
    *order = order_of_floats(tn__load_f64(a->dtype, a->data, i), tn__load_f64(b->dtype, b->data, j));
  } else {
    int64_t x = tn__load_i64(a->dtype, a->data, i), y = tn__load_i64(b->dtype, b->data, j);
    *order = (x > y) - (x < y);
  }
  return NULL;
}

tn_status *tn__table_find(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__operand_tensor x, table, result;
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[0], &x));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[1], &table));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[2], &result));
  TN_RETURN_IF_ERROR(tn__values_same_count(&x, &result));
  column values = {vm->strings, x.r->dtype, x.data}, keys = {vm->strings, table.r->dtype, table.data};
  for (int64_t i = 0; i < x.count; i++) {
    int64_t low = 0, high = table.count;
    int order = 1;
    while (low < high && order != 0) {
      int64_t middle = low + (high - low) / 2;
      TN_RETURN_IF_ERROR(compare(&values, i, &keys, middle, &order));
      if (order > 0)
        low = middle + 1;
      else
        high = middle;
      if (order == 0) low = middle;
    }
    ((int64_t *)result.data)[i] = order == 0 && low < table.count ? low : table.count;
  }
  return NULL;
}

/* ---- n-grams ----------------------------------------------------------------------------------------------------- */

typedef struct grams {
  column x, pool;
  const int64_t *starts, *columns; /* where those of each length begin in the pool; one column for each */
  int64_t lengths, pool_count, column_count, width;
} grams;

/* Those of length n in the pool: the first element, how many, and the number of the first. */
TN_MUST_USE static bool grams_of(const grams *g, int64_t n, int64_t *start, int64_t *count, int64_t *number) {
  *number = *start = *count = 0;
  for (int64_t length = 1; length <= n; length++) {
    if (length > g->lengths) return false;
    *start = g->starts[length - 1];
    int64_t end = length < g->lengths ? g->starts[length] : g->pool_count;
    if (*start < 0 || end < *start || end > g->pool_count) return false;
    *count = (end - *start) / length;
    if (length < n) *number += *count;
  }
  return *number <= g->column_count - *count;
}

/* The n elements of x from `at` on, `step` apart, in the pool: the column, or -1. */
static tn_status *find_gram(const grams *g, int64_t at, int64_t step, int64_t n, int64_t *out) {
  int64_t start, count, number;
  *out = -1;
  if (!grams_of(g, n, &start, &count, &number)) return NULL;
  int64_t low = 0, high = count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    int order = 0;
    for (int64_t k = 0; k < n && order == 0; k++)
      TN_RETURN_IF_ERROR(compare(&g->x, at + k * step, &g->pool, start + middle * n + k, &order));
    if (order == 0) {
      *out = g->columns[number + middle];
      return NULL;
    }
    if (order > 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

/* One row of `size` elements. Single elements are counted once, whatever is skipped. */
static tn_status *count_row(const grams *g, int64_t row, int64_t size, const int64_t limits[3], int64_t *counts) {
  int64_t shortest = limits[0], longest = limits[1];
  for (int64_t step = 1; step <= limits[2] + 1 && step <= size && shortest <= longest; step++) {
    for (int64_t at = 0; at < size; at++) {
      for (int64_t n = shortest; n <= longest && n - 1 <= (size - 1 - at) / step; n++) {
        int64_t found;
        TN_RETURN_IF_ERROR(find_gram(g, row + at, step, n, &found));
        if (found >= 0 && found < g->width) counts[found]++;
      }
    }
    if (shortest == 1) shortest = 2;
  }
  return NULL;
}

tn_status *tn__table_grams(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__operand_tensor x, pool, starts, columns, result;
  tn__operand_tensor *operands[] = {&x, &pool, &starts, &columns, &result};
  int64_t limits[3];
  for (int i = 0; i < 5; i++) TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[i], operands[i]));
  for (int i = 0; i < 3; i++) limits[i] = frame->scalars[in->operands[5 + i]];
  int64_t rows = x.r->rank == 2 ? x.dims[0] : 1, size = rows == 0 ? 0 : x.count / rows;
  int64_t width = rows == 0 ? 0 : result.count / rows;
  bool fits = x.r->rank <= 2 && result.r->rank >= 1 && width * rows == result.count;
  if (!fits || limits[0] < 1 || limits[1] > 1 << 20 || limits[2] < 0 || limits[2] > 1 << 20)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "n-grams are counted in [C] or [N, C], in lengths and skips from 1 on");
  grams g = {.x = {vm->strings, x.r->dtype, x.data},
             .pool = {vm->strings, pool.r->dtype, pool.data},
             .starts = starts.data,
             .columns = columns.data,
             .lengths = starts.count,
             .pool_count = pool.count,
             .column_count = columns.count,
             .width = width};
  if (result.count > 0) memset(result.data, 0, (size_t)result.count * sizeof(int64_t));
  for (int64_t row = 0; row < rows; row++)
    TN_RETURN_IF_ERROR(count_row(&g, row * size, size, limits, (int64_t *)result.data + row * width));
  return NULL;
}
