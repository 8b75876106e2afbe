/* Layouts: in which order and blocks the elements of a tensor lie in memory. The graph says so of values, schedules of
 * tensors, and both have what is constant brought into the order once, before anything runs. */
#ifndef TENON_TE_LAYOUT_H
#define TENON_TE_LAYOUT_H

#include "te/te.h"

/* Dimension i of what is stored is index[part[i].dim] / divisor % modulus of the tensor; modulus 0 takes what is left.
 * The parts of each dimension make it up without gaps: divisors are products of the moduli of finer parts, and the
 * coarsest part has modulus 0. */
typedef struct tn__layout_part {
  int dim;
  int64_t divisor, modulus;
} tn__layout_part;

typedef struct tn__layout {
  int rank; /* of what is stored */
  tn__layout_part parts[TN__MAX_RANK];
} tn__layout;

/* The right operand of a sum of products: its dimensions in the order in which kernels run over them, `lead` ones that
 * the left operand has as well first, and last the one that runs along the result's columns, of which there are
 * `columns`. */
typedef struct tn__operand_use {
  tn_dtype dtype;
  int rank, lead;
  int order[TN__MAX_RANK];
  int64_t columns;
} tn__operand_use;

/* Panels of `width` columns: its leading dimensions, the panel, the other dimensions, and the column in its panel. Its
 * rank must leave room for one more. */
tn__layout tn__layout_panels(const tn__operand_use *operand, int64_t width);
bool tn__layout_equal(const tn__layout *a, const tn__layout *b);
/* Why it is none of a tensor of this rank; NULL when it is one. */
const char *tn__layout_fault(tn__arena *arena, const tn__layout *layout, int rank);
/* Indices and shape of what is stored, of those of the tensor. */
void tn__layout_map(tn__ir *ir, const tn__layout *layout, const tn__expr *const *indices, const tn__expr **out);
void tn__layout_shape(tn__ir *ir, const tn__layout *layout, const tn__expr *const *shape, const tn__expr **out);
/* The size of a dimension with what fills up its last block. */
const tn__expr *tn__layout_whole(tn__ir *ir, const tn__layout *layout, int dim, const tn__expr *size);
/* A stage that stores the tensor in the layout, with zeros in what fills up the last blocks. */
const tn__buffer *tn__te_in_layout(tn__te *te, const char *name, const tn__buffer *tensor, const tn__layout *layout);
/* "1/16, 0, 1%16": the parts in order, each a dimension, its divisor and its modulus. */
void tn__layout_print(const tn__layout *layout, tn__strbuf *out);

#endif
