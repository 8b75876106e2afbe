/* i64 expressions as linear combinations: the working form of the canonical constructors (canonical.c), of comparisons
 * (compare.c) and of the analyses. */
#ifndef TENON_IR_LINEAR_H
#define TENON_IR_LINEAR_H

#include "ir/context.h"

typedef struct tn__term {
  const tn__expr
      *atom; /* an atom, or a product of atoms: MUL(MUL(a, b), c) in structural order, never with a constant */
  int64_t coefficient; /* never 0 */
} tn__term;

enum { TN__LINEAR_INLINE = 12 };

typedef struct tn__linear {
  tn__term *terms; /* in structural order of their atoms */
  int count, capacity;
  int64_t constant;
  tn__term inline_terms[TN__LINEAR_INLINE];
} tn__linear;

void tn__linear_init(tn__linear *l);
/* l += scale * e */
void tn__linear_add(tn__ir *ir, tn__linear *l, const tn__expr *e, int64_t scale);
void tn__linear_add_term(tn__ir *ir, tn__linear *l, const tn__expr *atom, int64_t coefficient);
void tn__linear_add_linear(tn__ir *ir, tn__linear *l, const tn__linear *other, int64_t scale);
/* The coefficient of `atom`; 0 when absent. */
int64_t tn__linear_coefficient(const tn__linear *l, const tn__expr *atom);
/* The expression, without looking for pairs that recombine. */
const tn__expr *tn__linear_build(tn__ir *ir, const tn__linear *l);
/* (x / c) * c + x % c == x and its relatives. */
void tn__linear_recombine(tn__ir *ir, tn__linear *l);
tn__interval tn__linear_interval(tn__ir *ir, const tn__linear *l);

/* The factors of a product of atoms (an atom: itself). Returns how many there are; at most `capacity` are written. */
TN_MUST_USE int tn__ir_factors(const tn__expr *product, const tn__expr **out, int capacity);

/* i64 arithmetic in canonical form. */
const tn__expr *tn__ir_canonical_add(tn__ir *ir, const tn__expr *a, const tn__expr *b, int64_t scale_b);
const tn__expr *tn__ir_canonical_mul(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_canonical_div(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_canonical_mod(tn__ir *ir, const tn__expr *a, const tn__expr *b);
/* EQ, NE, LT, LE, MIN, MAX of i64. */
const tn__expr *tn__ir_canonical_compare(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_canonical_extreme(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b);

/* Is the combination never negative, by the ranges of its variables (symbolic ones too)? */
bool tn__linear_nonnegative(tn__ir *ir, const tn__linear *l);
/* a <= b? */
bool tn__ir_proves_le(tn__ir *ir, const tn__expr *a, const tn__expr *b);

/* An index as it is away from the ends: loops are cut where clamps hold it and where it wraps around, which happens
 * once or twice. */
const tn__expr *tn__ir_interior(tn__ir *ir, const tn__expr *index);

#endif
