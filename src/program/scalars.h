/* Index expressions to VM scalar code, each distinct expression once. */
#ifndef TENON_PROGRAM_SCALARS_H
#define TENON_PROGRAM_SCALARS_H

#include "ir/expr.h"
#include "program/exe_writer.h"

typedef struct tn__scalars {
  tn__arena *arena;
  tn__exe_func *func;
  const tn__expr **keys; /* open addressing by pointer; expressions are hash-consed */
  int *registers;
  int count, capacity;
} tn__scalars;

void tn__scalars_init(tn__scalars *scalars, tn__arena *arena, tn__exe_func *func);
/* States that `e`, a variable say, is in scalar register `reg`. */
void tn__scalars_bind(tn__scalars *scalars, const tn__expr *e, int reg);
bool tn__scalars_knows(const tn__scalars *scalars, const tn__expr *e);
/* Emits what is not yet there. Throws TN_INTERNAL for a variable that was not bound. */
int tn__scalars_register(tn__scalars *scalars, const tn__expr *e);
tn__operand tn__scalars_operand(tn__scalars *scalars, const tn__expr *e); /* constants stay constants */

#endif
