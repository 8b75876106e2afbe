/* The meaning of every operation on constants: used by the constructors to fold and by the interpreter to run, so that
 * the two cannot differ. Integers and bool are held in i64: sign-extended, or zero-extended when unsigned (u64: its
 * bits). Floats are held in f64, rounded to their type. */
#ifndef TENON_IR_SCALAR_H
#define TENON_IR_SCALAR_H

#include "ir/expr.h"

typedef union tn__scalar {
  int64_t i;
  double f;
} tn__scalar;

int64_t tn__scalar_wrap(tn_dtype dtype, int64_t value);
double tn__scalar_round(tn_dtype dtype, double value);

/* kind ADD .. SHR on operands of type `dtype`; comparisons give 0 or 1 in `i`. False when it is an integer division by
 * zero. */
TN_MUST_USE bool tn__scalar_binary(tn__expr_kind kind, tn_dtype dtype, tn__scalar a, tn__scalar b, tn__scalar *out);
/* Has the operation a meaning on operands of this type? */
bool tn__ir_binary_takes(tn__expr_kind kind, tn_dtype dtype);
tn__scalar tn__scalar_not(tn_dtype dtype, tn__scalar a);
tn__scalar tn__scalar_cast(tn_dtype to, tn_dtype from, tn__scalar a);
tn__scalar tn__scalar_bitcast(tn_dtype to, tn_dtype from, tn__scalar a);
tn__scalar tn__scalar_load(tn_dtype dtype, const void *data, int64_t index);
void tn__scalar_store(tn_dtype dtype, void *data, int64_t index, tn__scalar value);

/* One row of ir/intrinsic.c. */
typedef struct tn__intrinsic_row {
  const char *name;
  int arity;
  bool floats, integers, bools; /* operand types it takes */
  tn_dtype words;               /* the one type it takes, of which each has several numbers */
  bool to_bool;                 /* the result is bool, otherwise the operands' type */
  /* One of these; the result is not yet wrapped or rounded to its type. */
  double (*unary)(double x);
  double (*binary)(double x, double y);
  tn__scalar (*evaluate)(tn_dtype dtype, const tn__scalar *args);
} tn__intrinsic_row;

const tn__intrinsic_row *tn__intrinsic_of(tn__intrinsic intrinsic);
/* -1 when there is none of this name. */
int tn__intrinsic_find(const char *name, size_t length);
bool tn__intrinsic_takes(const tn__intrinsic_row *row, tn_dtype dtype);
tn__scalar tn__scalar_call(tn__intrinsic intrinsic, tn_dtype dtype, const tn__scalar *args);

#endif
