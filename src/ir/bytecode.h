/* The interpreter's register code: one linear list of instructions over registers of 8 bytes; loops and conditions are
 * relative jumps. Made by interpret_compile.c, run by interpret.c. */
#ifndef TENON_IR_BYTECODE_H
#define TENON_IR_BYTECODE_H

#include "ir/scalar.h"
#include "ir/stmt.h"

typedef enum tn__op {
  /* a, b -> dst; i64 (and bool for AND and OR) */
  TN__OP_ADD_I64,
  TN__OP_SUB_I64,
  TN__OP_MUL_I64,
  TN__OP_DIV_I64,
  TN__OP_MOD_I64,
  TN__OP_MIN_I64,
  TN__OP_MAX_I64,
  TN__OP_EQ_I64,
  TN__OP_NE_I64,
  TN__OP_LT_I64,
  TN__OP_LE_I64,
  TN__OP_AND_I64,
  TN__OP_OR_I64,
  /* f64, and f32 with rounding */
  TN__OP_ADD_F64,
  TN__OP_SUB_F64,
  TN__OP_MUL_F64,
  TN__OP_DIV_F64,
  TN__OP_ADD_F32,
  TN__OP_SUB_F32,
  TN__OP_MUL_F32,
  TN__OP_DIV_F32,
  TN__OP_EQ_F,
  TN__OP_NE_F,
  TN__OP_LT_F,
  TN__OP_LE_F,
  TN__OP_BINARY, /* any kind (imm) and type */
  TN__OP_NOT,
  TN__OP_CAST,    /* a of type imm -> dst of type dtype */
  TN__OP_BITCAST, /* the same */
  TN__OP_CALL,    /* intrinsic imm on a, b, c of type dtype */
  TN__OP_SELECT,  /* a ? b : c */
  TN__OP_MOVE,
  /* buffer a at the indices operands[b ...]; dst receives, c is stored */
  TN__OP_LOAD,
  TN__OP_LOAD_F32,
  TN__OP_LOAD_I64,
  TN__OP_LOAD_WIDE, /* from the f64 copy, rounded to dtype */
  TN__OP_STORE,
  TN__OP_STORE_F32,
  TN__OP_STORE_I64,
  TN__OP_STORE_WIDE,
  TN__OP_SHAPE, /* buffer a has the dimensions operands[b ...] */
  TN__OP_ALLOC, /* the same, with fresh memory */
  /* control: imm is relative to the instruction */
  TN__OP_JUMP,
  TN__OP_JUMP_UNLESS, /* a is false */
  TN__OP_LOOP,        /* a = b, dst = b + c; jumps when the range is empty */
  TN__OP_NEXT,        /* a + 1; jumps back while it is below b; c: instructions in the round */
  TN__OP_FAIL,        /* with code imm */
  /* blocks and threads, whose accesses are watched for races */
  TN__OP_FORK,   /* a loop over them begins: a = the strand that forks, dst = a number for the loop */
  TN__OP_STRAND, /* an iteration of loop b, which a forked, begins; c is its variable, imm its kind */
  TN__OP_JOIN,   /* all iterations are done; a goes on */
  TN__OP_WATCH,  /* buffer a is about to be read, or written if imm, at the indices operands[b ...] */
  TN__OP_END
} tn__op;

typedef struct tn__insn {
  uint16_t op, dtype;
  int32_t dst, a, b, c, imm;
} tn__insn;

typedef struct tn__code_buffer {
  const tn__buffer *buffer;
  bool wide; /* reductions accumulate into an f64 copy */
  int forks; /* loops over blocks and threads around its allocation */
} tn__code_buffer;

typedef struct tn__code {
  const tn__insn *insns;
  const int32_t *operands;
  const tn__scalar *initial; /* of the registers: constants and scalars in place */
  const int32_t *scalar_registers;
  const tn__code_buffer *buffers; /* parameters first */
  int insn_count, register_count, buffer_count;
} tn__code;

/* Throws TN_INVALID_ARGUMENT for a function that reads unbound variables or buffers. */
tn__code tn__ir_bytecode_compile(tn__ir *ir, tn__arena *arena, const tn__func *func, bool wide);

#endif
