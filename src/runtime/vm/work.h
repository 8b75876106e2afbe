/* What instructions compute: scalars, sizes, copies. The machine and emitted C do this the same way, because emitted C
 * has this text: src/emit_c/work_text.cmake puts what follows the include into each header that it makes, with names of
 * its own, so it is C99 and C++ at once.
 *
 * tn__work_NAME is the scalar operator NAME of TN__SCALAR_OPS. */
#ifndef TENON_RUNTIME_VM_WORK_H
#define TENON_RUNTIME_VM_WORK_H

#include <stdint.h>
#include <string.h>

static inline int64_t tn__work_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t tn__work_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t tn__work_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
/* b is not 0. -1 apart, because INT64_MIN / -1 traps. */
static inline int64_t tn__work_floordiv(int64_t a, int64_t b) {
  if (b == -1) return tn__work_sub(0, a);
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
static inline int64_t tn__work_floormod(int64_t a, int64_t b) {
  const int64_t rest = b == -1 ? 0 : a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static inline int64_t tn__work_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tn__work_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t tn__work_eq(int64_t a, int64_t b) { return a == b; }
static inline int64_t tn__work_ne(int64_t a, int64_t b) { return a != b; }
static inline int64_t tn__work_lt(int64_t a, int64_t b) { return a < b; }
static inline int64_t tn__work_le(int64_t a, int64_t b) { return a <= b; }
static inline int64_t tn__work_and(int64_t a, int64_t b) { return a & b; }
static inline int64_t tn__work_or(int64_t a, int64_t b) { return a | b; }
static inline int64_t tn__work_xor(int64_t a, int64_t b) { return a ^ b; }
static inline int64_t tn__work_select(int64_t condition, int64_t a, int64_t b) { return condition != 0 ? a : b; }

/* The bytes of a tensor; -1 when a dimension is negative, -2 when they are too many. */
static inline int64_t tn__work_bytes(const int64_t *dims, int rank, int64_t element) {
  int64_t bytes = element;
  int empty = 0, overflow = 0, i;
  for (i = 0; i < rank; i++) {
    if (dims[i] < 0) return -1;
    if (dims[i] == 0)
      empty = 1;
    else if (bytes > INT64_MAX / dims[i])
      overflow = 1;
    else
      bytes *= dims[i];
  }
  return empty ? 0 : overflow ? -2 : bytes;
}

/* Of a kernel's result: 0 when it has elements, 1 when it has none, and 2 when its other dimensions are also too many
 * to be walked, as a kernel does in its outer loops. A kernel is left out when no result of it is 0 and some is 2;
 * others without elements run, for they may find indices that are out of range. */
static inline int64_t tn__work_emptiness(const int64_t *dims, int rank) {
  int64_t walked = 1;
  int empty = 0, i;
  for (i = 0; i < rank; i++) {
    if (dims[i] <= 0)
      empty = 1;
    else
      walked = walked > INT64_MAX / dims[i] ? INT64_MAX : walked * dims[i];
  }
  return !empty ? 0 : walked > (int64_t)1 << 32 ? 2 : 1;
}

static inline void tn__work_copy(void *to, const void *from, int64_t bytes) {
  if (bytes > 0 && to != from) memmove(to, from, (size_t)bytes);
}

/* Of the bytes, `used` of each row of so many. */
static inline void tn__work_copy_rows(void *to, const void *from, int64_t bytes, int64_t row, int64_t used) {
  int64_t at;
  for (at = 0; row > 0 && used > 0 && at + row <= bytes && to != from; at += row)
    memmove((char *)to + at, (const char *)from + at, (size_t)used);
}

static inline void tn__work_fill_zero(void *to, int64_t bytes) {
  if (bytes > 0) memset(to, 0, (size_t)bytes);
}

#endif
