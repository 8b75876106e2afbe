/* The memory that a tensor's elements lie in, whatever its strides: whether two tensors share any of it, and whether
 * two elements of one do. */
#ifndef TENON_RUNTIME_EXTENT_H
#define TENON_RUNTIME_EXTENT_H

#include "runtime/tensor.h"

typedef struct tn__extent_dim {
  uint64_t stride, last; /* in bytes; the greatest index */
} tn__extent_dim;

/* Pieces of equal size: piece (i0, i1, ...) begins at low + i0 * dims[0].stride + i1 * dims[1].stride + ... */
typedef struct tn__extent {
  uintptr_t low;  /* the first byte of all */
  uint64_t bytes; /* from there to the last one; 0: there is no element */
  uint64_t piece; /* bytes that lie together: an element, or as many as follow each other without a gap */
  int rank;       /* 0: all bytes are one piece */
  tn__extent_dim dims[TN_MAX_RANK]; /* by stride, the smallest first; none is 0 */
} tn__extent;

/* Of a tensor of an element type, rank and shape that were checked. False: its strides or its offset lead out of what
 * an address can reach. */
TN_MUST_USE bool tn__extent_of(const DLTensor *tensor, tn__extent *out);
/* Without the dimensions that there are not. */
void tn__extent_copy(const tn__extent *from, tn__extent *to);
/* Of `size` bytes, or as many as there are addresses; none when `data` is NULL. */
tn__extent tn__extent_of_bytes(const void *data, uint64_t size);

/* Do the two have a byte in common? Tensors that interleave without sharing an element, as the even and the odd columns
 * of an array, do not. Found exactly by a search of so many steps at the most; what is undecided then counts as shared.
 * Strides that come of slices, transposes and reversals of arrays take a few steps for each dimension. */
enum { TN__EXTENT_STEPS = 1 << 14 };
bool tn__rt_extents_share(const tn__extent *a, const tn__extent *b);
/* Do two different elements have a byte in common? As exactly. Strides of 0 are not looked at. */
bool tn__extent_folds(const tn__extent *a);

#endif
