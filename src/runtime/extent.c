/* Whether strided tensors share memory is the question whether an equation in bounded whole numbers has a solution:
 * for elements (i0, i1, ...) of the one and (j0, j1, ...) of the other, and bytes p and q in them,
 *   a.low + sum(a.stride * i) + p == b.low + sum(b.stride * j) + q.
 * With j counted from the other end every sign is plus, so it is which sums of bounded multiples of some numbers reach
 * a target. That is hard for numbers at will (it is subset sum); a search from the largest number down, which looks at
 * what the smaller ones can reach and at their greatest common divisor, is short for strides as arrays have them. NumPy
 * asks the same of its arrays (numpy.shares_memory). */
#include "runtime/extent.h"

#include <stddef.h>
#include <string.h>

#include "base/dtype.h"

/* ---- extents ---------------------------------------------------------------------------------------------------- */

TN_MUST_USE static bool grow(uint64_t *sum, uint64_t by) { return !__builtin_add_overflow(*sum, by, sum); }

static void add_dim(tn__extent *out, uint64_t stride, uint64_t last) {
  int at = out->rank++;
  for (; at > 0 && out->dims[at - 1].stride > stride; at--) out->dims[at] = out->dims[at - 1];
  out->dims[at] = (tn__extent_dim){stride, last};
}

/* Dimensions that go on where a smaller one ends are one with it, and so are pieces without a gap. */
static void join_dims(tn__extent *out) {
  int kept = 0;
  for (int i = 0; i < out->rank; i++) {
    tn__extent_dim dim = out->dims[i], *below = kept > 0 ? &out->dims[kept - 1] : NULL;
    if (below == NULL && dim.stride == out->piece)
      out->piece *= dim.last + 1;
    else if (below != NULL && dim.stride == below->stride * (below->last + 1))
      below->last = (below->last + 1) * (dim.last + 1) - 1;
    else
      out->dims[kept++] = dim;
  }
  out->rank = kept;
}

/* The dimensions of a tensor that has strides, and how far its elements reach in bytes from the first on, which counts
 * `above` already. */
TN_MUST_USE static bool read_dims(const DLTensor *tensor, uint64_t size, tn__extent *out, uint64_t *below,
                                  uint64_t *above) {
  for (int i = 0; i < tensor->ndim; i++) {
    uint64_t last = (uint64_t)tensor->shape[i] - 1, stride = (uint64_t)tensor->strides[i], reach;
    bool back = tensor->strides[i] < 0;
    if (last == 0 || stride == 0) continue;
    if (__builtin_mul_overflow(back ? 0 - stride : stride, size, &stride)) return false;
    if (__builtin_mul_overflow(stride, last, &reach) || !grow(back ? below : above, reach)) return false;
    add_dim(out, stride, last);
  }
  return true;
}

bool tn__extent_of(const DLTensor *tensor, tn__extent *out) {
  uint64_t size = tn_dtype_size(tn_dtype_of_dl(tensor->dtype)), below = 0, above = size;
  uint64_t first = (uint64_t)(uintptr_t)tensor->data, bytes = 0;
  int64_t count = tn_element_count(tensor->ndim, tensor->shape);
  out->low = 0, out->bytes = 0, out->piece = 0, out->rank = 0; /* not all of it: this is done at every binding */
  if (count <= 0) return count == 0;
  bool dense = tn__tensor_is_dense(tensor); /* as most are */
  bool reached =
      dense ? !__builtin_mul_overflow((uint64_t)count, size, &above) : read_dims(tensor, size, out, &below, &above);
  if (!reached || !grow(&bytes, below) || !grow(&bytes, above) || bytes > INT64_MAX ||
      !grow(&first, tensor->byte_offset) || first < below || first - below > UINTPTR_MAX - bytes)
    return false;
  out->low = (uintptr_t)(first - below);
  out->bytes = bytes;
  out->piece = dense ? above : size;
  join_dims(out);
  return true;
}

void tn__extent_copy(const tn__extent *from, tn__extent *to) {
  memcpy(to, from, offsetof(tn__extent, dims) + (size_t)from->rank * sizeof(tn__extent_dim));
}

tn__extent tn__extent_of_bytes(const void *data, uint64_t size) {
  uint64_t most = UINTPTR_MAX - (uintptr_t)data;
  if (most > INT64_MAX) most = INT64_MAX;
  if (data == NULL) size = 0;
  if (size > most) size = most;
  return (tn__extent){.low = (uintptr_t)data, .bytes = size, .piece = size};
}

/* ---- sums that reach a target ----------------------------------------------------------------------------------- */

typedef struct term {
  uint64_t factor, most; /* factor times 0 to `most` */
  uint64_t reach;        /* the greatest sum of this one and all before it */
  uint64_t divisor;      /* greatest common one of the factors up to here */
} term;

typedef struct sums {
  int count;
  term terms[2 * TN_MAX_RANK + 1]; /* by factor, the smallest first */
  int64_t steps;                   /* that are left */
} sums;

static void add_term(sums *s, uint64_t factor, uint64_t most) {
  int at = s->count;
  if (most == 0) return;
  while (at > 0 && s->terms[at - 1].factor > factor) at--;
  if (at > 0 && s->terms[at - 1].factor == factor) {
    s->terms[at - 1].most += most;
    return;
  }
  for (int i = s->count++; i > at; i--) s->terms[i] = s->terms[i - 1];
  s->terms[at] = (term){.factor = factor, .most = most};
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b != 0) {
    uint64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

static bool search(sums *s, int count, uint64_t target) {
  if (count == 0) return target == 0;
  if (--s->steps < 0) return true; /* undecided */
  const term *top = &s->terms[count - 1];
  if (target > top->reach || target % top->divisor != 0) return false;
  uint64_t below = count > 1 ? s->terms[count - 2].reach : 0, rest = target > below ? target - below : 0;
  uint64_t least = rest / top->factor + (rest % top->factor != 0);
  uint64_t most = target / top->factor < top->most ? target / top->factor : top->most;
  for (uint64_t i = least; i <= most; i++)
    if (search(s, count - 1, target - i * top->factor)) return true;
  return false;
}

/* `s` has its terms. No sum is larger than the extents that they are of, twice an int64_t's range. */
static bool can_reach(sums *s, uint64_t target) {
  for (int i = 0; i < s->count; i++) {
    term *t = &s->terms[i];
    t->reach = t->factor * t->most + (i > 0 ? s->terms[i - 1].reach : 0);
    t->divisor = common_divisor(t->factor, i > 0 ? s->terms[i - 1].divisor : 0);
  }
  s->steps = TN__EXTENT_STEPS;
  return search(s, s->count, target);
}

bool tn__rt_extents_share(const tn__extent *a, const tn__extent *b) {
  if (a->bytes == 0 || b->bytes == 0) return false;
  uint64_t a_end = (uint64_t)a->low + a->bytes, b_end = (uint64_t)b->low + b->bytes;
  if (a->low >= b_end || b->low >= a_end) return false;
  if (a->rank == 0 && b->rank == 0) return true;
  sums s = {0};
  add_term(&s, 1, a->piece + b->piece - 2);
  for (int i = 0; i < a->rank; i++) add_term(&s, a->dims[i].stride, a->dims[i].last);
  for (int i = 0; i < b->rank; i++) add_term(&s, b->dims[i].stride, b->dims[i].last);
  return can_reach(&s, b_end - 1 - a->low);
}

/* Two elements whose indices differ, in dimension `at` and in none of a larger stride: their distance there is 1 to
 * last, in each smaller one -last to last, and that of their bytes -(piece - 1) to piece - 1. */
static bool folds_at(const tn__extent *a, int at) {
  sums s = {0};
  uint64_t target = a->piece - 1;
  add_term(&s, 1, 2 * (a->piece - 1));
  for (int i = 0; i < at; i++) {
    add_term(&s, a->dims[i].stride, 2 * a->dims[i].last);
    target += a->dims[i].stride * a->dims[i].last;
  }
  if (target < a->dims[at].stride) return false;
  add_term(&s, a->dims[at].stride, a->dims[at].last - 1);
  return can_reach(&s, target - a->dims[at].stride);
}

bool tn__extent_folds(const tn__extent *a) {
  for (int at = 0; at < a->rank; at++)
    if (folds_at(a, at)) return true;
  return false;
}
