#include "program/scalars.h"

void tn__scalars_init(tn__scalars *scalars, tn__arena *arena, tn__exe_func *func) {
  *scalars = (tn__scalars){.arena = arena, .func = func, .capacity = 64};
  scalars->keys = TN__NEW_ARRAY(arena, scalars->capacity, const tn__expr *);
  scalars->registers = TN__NEW_ARRAY(arena, scalars->capacity, int);
}

/* The slot of `e`, or the empty one where it belongs. Slots are ordered by structural hash, so nothing depends on
 * addresses. */
static int slot_of(const tn__scalars *s, const tn__expr *e) {
  int mask = s->capacity - 1, i = (int)(e->hash & (uint64_t)mask);
  while (s->keys[i] && s->keys[i] != e) i = (i + 1) & mask;
  return i;
}

void tn__scalars_bind(tn__scalars *s, const tn__expr *e, int reg) {
  if (s->count * 2 >= s->capacity) {
    tn__scalars bigger = {.arena = s->arena, .func = s->func, .capacity = s->capacity * 2};
    bigger.keys = TN__NEW_ARRAY(s->arena, bigger.capacity, const tn__expr *);
    bigger.registers = TN__NEW_ARRAY(s->arena, bigger.capacity, int);
    for (int i = 0; i < s->capacity; i++)
      if (s->keys[i]) tn__scalars_bind(&bigger, s->keys[i], s->registers[i]);
    *s = bigger;
  }
  int i = slot_of(s, e);
  if (!s->keys[i]) s->count++;
  s->keys[i] = e;
  s->registers[i] = reg;
}

bool tn__scalars_knows(const tn__scalars *s, const tn__expr *e) { return s->keys[slot_of(s, e)] != NULL; }

static tn__scalar_op scalar_op_of(const tn__scalars *s, const tn__expr *e) {
  switch (e->kind) {
    case TN__EXPR_ADD: return TN__SCALAR_ADD;
    case TN__EXPR_SUB: return TN__SCALAR_SUB;
    case TN__EXPR_MUL: return TN__SCALAR_MUL;
    case TN__EXPR_DIV: return TN__SCALAR_FLOORDIV;
    case TN__EXPR_MOD: return TN__SCALAR_FLOORMOD;
    case TN__EXPR_MIN: return TN__SCALAR_MIN;
    case TN__EXPR_MAX: return TN__SCALAR_MAX;
    case TN__EXPR_EQ: return TN__SCALAR_EQ;
    case TN__EXPR_NE: return TN__SCALAR_NE;
    case TN__EXPR_LT: return TN__SCALAR_LT;
    case TN__EXPR_LE: return TN__SCALAR_LE;
    case TN__EXPR_AND: return TN__SCALAR_AND;
    case TN__EXPR_OR: return TN__SCALAR_OR;
    case TN__EXPR_XOR: return TN__SCALAR_XOR;
    default:
      tn__throwf(s->arena->escape, TN_INTERNAL,
                 "a dimension uses an operation (kind %d) that the virtual machine does not have", (int)e->kind);
  }
}

int tn__scalars_register(tn__scalars *s, const tn__expr *e) {
  int slot = slot_of(s, e);
  if (s->keys[slot]) return s->registers[slot];
  int reg;
  if (e->kind == TN__EXPR_INT) {
    reg = tn__exe_emit_const(s->func, e->value.i);
  } else if (e->kind == TN__EXPR_VAR) {
    tn__throwf(s->arena->escape, TN_INTERNAL, "dimension \"%s\" is used before it is known", e->value.var->name);
  } else if (e->kind == TN__EXPR_SELECT) {
    int c = tn__scalars_register(s, e->args[0]), a = tn__scalars_register(s, e->args[1]);
    int b = tn__scalars_register(s, e->args[2]);
    reg = tn__exe_scalar(s->func);
    uint32_t words[] = {(uint32_t)reg, (uint32_t)c, (uint32_t)a, (uint32_t)b};
    tn__exe_emit(s->func, TN__OP_SCALAR_SELECT, words, 4);
  } else if (e->kind == TN__EXPR_NOT) {
    int a = tn__scalars_register(s, e->args[0]), zero = tn__exe_emit_const(s->func, 0);
    reg = tn__exe_emit_scalar_op(s->func, TN__SCALAR_EQ, a, zero);
  } else if (e->kind == TN__EXPR_CAST || (e->kind == TN__EXPR_CALL && e->intrinsic == TN__CALL_LIKELY)) {
    reg = tn__scalars_register(s, e->args[0]); /* integers and bool are all i64 in the machine */
  } else {
    tn__scalar_op op = scalar_op_of(s, e);
    reg = tn__scalars_register(s, e->args[0]);
    for (int i = 1; i < e->arg_count; i++)
      reg = tn__exe_emit_scalar_op(s->func, op, reg, tn__scalars_register(s, e->args[i]));
  }
  tn__scalars_bind(s, e, reg);
  return reg;
}

tn__operand tn__scalars_operand(tn__scalars *s, const tn__expr *e) {
  return e->kind == TN__EXPR_INT ? tn__prog_operand_const(e->value.i)
                                 : tn__prog_operand_scalar(tn__scalars_register(s, e));
}
