/* Layouts: in which order, blocks and words the elements of a tensor lie in memory. The graph says so of values,
 * schedules of tensors, and both have what is constant brought into the order once, before anything runs.
 *
 * A layout is about memory alone: operators name dimensions of the tensor, and a declaration that reads one finds the
 * element [i, j, ...] through tn__layout_map. Three things are said with parts and words:
 *
 *   {1, 0}                 the order of dimensions: [i, j] is stored at [j, i]
 *   {1/16, 0, 1%16}        blocks: panels of 16 columns
 *   {1/16, 0/4, 1%16 | 0%4}  words: four neighbours along dimension 0, bytes, are one i32, which is what is stored and
 *                          what is loaded; a sum over dimension 0 takes them together (dot4)
 *
 * Layouts are plain values of a few hundred bytes and compared by their parts, in one place (tn__layout_equal): there
 * is one for each packed weight, they are compared where nodes are, and a table of them would have to be shared by the
 * contexts of graphs, declarations and schedules. */
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

/* `count` neighbours along dimension `dim` of the tensor are one element of what is stored, the first in its lowest
 * bits; count 0: elements are stored one by one. It is the finest part of its dimension: the next one's divisor is
 * `count`. */
typedef struct tn__layout_word {
  int dim;
  int64_t count;
} tn__layout_word;

typedef struct tn__layout {
  int rank; /* of what is stored */
  tn__layout_part parts[TN__MAX_RANK];
  tn__layout_word word;
} tn__layout;

/* The right operand of a sum of products: its dimensions in the order in which kernels run over them, `lead` ones that
 * the left operand has as well first, and last the one that runs along the result's columns, of which there are
 * `columns`. */
typedef struct tn__operand_use {
  tn_dtype dtype; /* of what is stored: words, if it has some */
  tn__layout_word word;
  int rank, lead;
  int order[TN__MAX_RANK];
  int64_t columns;
} tn__operand_use;

/* Panels of `width` columns: its leading dimensions, the panel, the other dimensions, and the column in its panel. Its
 * rank must leave room for one more. */
tn__layout tn__layout_panels(const tn__operand_use *operand, int64_t width);
bool tn__layout_equal(const tn__layout *a, const tn__layout *b);
/* The type of what is stored of a tensor of that type: four bytes are an i32. TN_DTYPE_INVALID: there are no such
 * words. */
tn_dtype tn__layout_stored(const tn__layout *layout, tn_dtype dtype);
/* Does a tensor of this shape lie in memory as it does in row-major order, with nothing that fills up? */
bool tn__layout_is_row_major(const tn__layout *layout, const tn__expr *const *shape);
/* Why it is none of a tensor of this rank; NULL when it is one. */
const char *tn__layout_fault(tn__arena *arena, const tn__layout *layout, int rank);
/* Indices and shape of what is stored, of those of the tensor. */
void tn__layout_map(tn__ir *ir, const tn__layout *layout, const tn__expr *const *indices, const tn__expr **out);
void tn__layout_shape(tn__ir *ir, const tn__layout *layout, const tn__expr *const *shape, const tn__expr **out);
/* The size of a dimension with what fills up its last block. */
const tn__expr *tn__layout_whole(tn__ir *ir, const tn__layout *layout, int dim, const tn__expr *size);
/* A stage that stores a tensor of this shape in the layout, with zeros in what fills up the last blocks. `from` is
 * where it is, in the layout `held` or, with NULL, row-major. What is in words already stays in these. */
const tn__buffer *tn__te_in_layout(tn__te *te, const char *name, const tn__buffer *from, const tn__layout *held,
                                   const tn__expr *const *shape, const tn__layout *layout);
/* "1/16, 0, 1%16": the parts in order, each a dimension, its divisor and its modulus; "1/16, 0/4, 1%16 | 0%4" with
 * words. */
void tn__layout_print(const tn__layout *layout, tn__strbuf *out);

#endif
