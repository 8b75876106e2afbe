/* The bytecode of an executable: the instructions, their operands, the scalar operators and the builtins, a row each.
 *
 * The rows make the decoder, the verifier's walk over operands, the disassembler, the plan of emitted C and the table
 * in docs/vm.md. What an instruction does is a case of the machine (vm.c) and one of emitted C (emit_c/code.c);
 * the arithmetic that both do is in work.h and list_work.h, whose text emitted C brings along. So an instruction is a
 * row here and a case in each of the two. */
#ifndef TENON_RUNTIME_FORMAT_INSTRUCTIONS_H
#define TENON_RUNTIME_FORMAT_INSTRUCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/linked.h"

#define TN__MAX_CALL_DEPTH 64 /* of functions that call each other */

/* What a word of operands is: a letter and what it says. */
#define TN__OPERANDS(X)                           \
  X(r, "tensor register read")                    \
  X(w, "tensor register written")                 \
  X(q, "register that is asked for its shape")    \
  X(a, "register that gets memory")               \
  X(t, "register read that loses its memory")     \
  X(n, "register written that takes over memory") \
  X(s, "scalar read")                             \
  X(d, "scalar written")                          \
  X(k, "kernel")                                  \
  X(f, "function")                                \
  X(c, "word of the code")                        \
  X(b, "builtin")                                 \
  X(m, "message (a string)")                      \
  X(i, "number")                                  \
  X(l, "low half of a 64-bit number")             \
  X(h, "high half of it")                         \
  X(o, "scalar operator")                         \
  X(v, "device")                                  \
  X(e, "event")

enum {                   /* of instructions */
       TN__AT_ENTRY = 1, /* may stand in the prologue, when its registers are known as the function is entered */
       TN__ON_LISTS = 2, /* its registers may hold lists */
       TN__ENDS = 4      /* what stands behind it is reached by jumps alone */
};

/* Instructions: a uint32 word opcode, a uint32 word with the number of operand words that follow, then the words.
 * Name, operands, traits, what it does. Operands are letters of TN__OPERANDS, one word each, at most four of a, d,
 * e, i, n, o, q, r, s, t, v and w. A * stands for one count word for each capital that follows it; then come the
 * groups, that many words each: R tensor reads, W tensor writes, S scalar reads. */
#define TN__INSTRUCTIONS(X)                                                                                \
  X(RETURN, "", TN__ENDS, "leaves the function")                                                           \
  X(SCALAR_CONST, "dlh", TN__AT_ENTRY, "d = constant")                                                     \
  X(SCALAR_OP, "dsso", TN__AT_ENTRY, "d = s op s; floor division; overflow wraps; division by zero fails") \
  X(SCALAR_SHAPE, "dqi", TN__AT_ENTRY, "d = dimension i of q")                                             \
  X(SCALAR_LOAD, "dri", TN__AT_ENTRY,                                                                      \
    "d = element i (flat) of r, an integer or bool tensor; fails when there is none")                      \
  X(SCALAR_SELECT, "dsss", TN__AT_ENTRY, "d = s != 0 ? s : s")                                             \
  X(ASSERT, "sm", TN__AT_ENTRY, "fails with message m when s == 0")                                        \
  X(ALLOC, "a", 0, "storage for a, DYNAMIC or OUTPUT, whose dimensions are known now")                     \
  X(KERNEL, "k*RWS", 0, "runs kernel k on reads, writes and scalars; the last write may be a workspace")   \
  X(COPY, "wr", TN__ON_LISTS, "copies the elements of r to w, same dtype and element count")               \
  X(JUMP, "c", TN__ENDS, "goes on at word c of the code")                                                  \
  X(JUMP_IF_ZERO, "sc", 0, "goes on at word c when s == 0")                                                \
  X(CALL, "f*RW", TN__ON_LISTS,                                                                            \
    "calls function f with reads as inputs and writes as outputs; a write without memory takes f's")       \
  X(BUILTIN, "b*RWS", TN__ON_LISTS, "calls builtin b")                                                     \
  X(MOVE, "nt", TN__ON_LISTS, "n, DYNAMIC, takes over t's memory and shape; t, DYNAMIC, is left empty")    \
  X(RECORD, "ve", 0, "event e is reached when device v has done what it was given so far")                 \
  X(AWAIT, "ve", 0, "device v goes on when event e is reached, as it was recorded last")                   \
  X(HOST_AWAIT, "e", 0, "goes on when event e is reached; fails when a device has failed")

/* Name, text, the function of work.h that does it, whether the right operand must not be zero. */
#define TN__SCALAR_OPS(X)                 \
  X(ADD, "+", add, false)                 \
  X(SUB, "-", sub, false)                 \
  X(MUL, "*", mul, false)                 \
  X(FLOORDIV, "floordiv", floordiv, true) \
  X(FLOORMOD, "floormod", floormod, true) \
  X(MIN, "min", min, false)               \
  X(MAX, "max", max, false)               \
  X(EQ, "==", eq, false)                  \
  X(NE, "!=", ne, false)                  \
  X(LT, "<", lt, false)                   \
  X(LE, "<=", le, false)                  \
  X(AND, "&", and, false)                 \
  X(OR, "|", or, false)                   \
  X(XOR, "^", xor, false)

typedef enum tn__scalar_op {
#define X(name, text, function, divides) TN__SCALAR_##name,
  TN__SCALAR_OPS(X)
#undef X
      TN__SCALAR_OP_COUNT
} tn__scalar_op;

typedef enum tn__opcode {
#define X(name, operands, traits, text) TN__OP_##name,
  TN__INSTRUCTIONS(X)
#undef X
      TN__OP_COUNT
} tn__opcode;

/* In a message of ASSERT the number of a scalar register between two of these stands for its value (since 1.1). */
#define TN__SCALAR_MARK '\1'

typedef enum tn__about { /* what a builtin works on; STRINGS: on tables, too */
                         TN__ABOUT_TENSORS,
                         TN__ABOUT_LISTS,
                         TN__ABOUT_STRINGS
} tn__about;

/* Builtins: work that is not a kernel. Name, what it is about, name in texts, reads, writes, scalars, what it does.
 * Rows are only ever appended. Reads and writes, one letter each: t any tensor, l a list, e a tensor of the list's type
 * and rank (any, when the list has any), j one of its type and its rank or one more (of a list that has one rank), n
 * one i64, b one bool, z i64 of any shape, B bools of any shape, x and X strings, y a tensor of the first read's type.
 * A write e, j or X in a register without memory brings it, as CALL does. Positions count from the end when they are
 * negative; the largest number stands for the end itself.
 */
#define TN__BUILTINS(X)                                                                                                \
  X(FILL_ZERO, TN__ABOUT_TENSORS, "fill_zero", "", "t", 0, "sets every byte of the write to zero")                     \
  X(LIST_CLEAR, TN__ABOUT_LISTS, "list_clear", "", "l", 1, "empties the list; an optional without value when s == 0")  \
  X(LIST_INSERT, TN__ABOUT_LISTS, "list_insert", "le", "l", 1, "the list read, with the tensor at position s")         \
  X(LIST_ERASE, TN__ABOUT_LISTS, "list_erase", "l", "l", 1, "the list read, without the tensor at position s")         \
  X(LIST_AT, TN__ABOUT_LISTS, "list_at", "l", "e", 1, "the tensor at position s")                                      \
  X(LIST_LENGTH, TN__ABOUT_LISTS, "list_length", "l", "n", 0, "the number of tensors; fails when the list is absent")  \
  X(LIST_PRESENT, TN__ABOUT_LISTS, "list_present", "l", "b", 0, "whether an optional has a value")                     \
  X(LIST_JOIN, TN__ABOUT_LISTS, "list_join", "l", "j", 1,                                                              \
    "the tensors one after another along axis s; along a new one there when "                                          \
    "the write has one dimension more")                                                                                \
  X(LIST_SPLIT, TN__ABOUT_LISTS, "list_split", "jz", "l", 1,                                                           \
    "pieces along axis s as long as the second read says; without the "                                                \
    "axis when the list's tensors have one dimension less")                                                            \
  X(STRING_CONCAT, TN__ABOUT_STRINGS, "string_concat", "xx", "x", 0,                                                   \
    "each string of the first with that of the second behind it")                                                      \
  X(STRING_EQUAL, TN__ABOUT_STRINGS, "string_equal", "xx", "B", 0, "whether the two have the same bytes")              \
  X(STRING_SPLIT, TN__ABOUT_STRINGS, "string_split", "xx", "Xz", 1,                                                    \
    "pieces between delimiters (the second read; an empty one: white space), s cuts at most when s >= 0, padded with " \
    "empty strings, and the number of pieces")                                                                         \
  X(STRING_NORMALIZE, TN__ABOUT_STRINGS, "string_normalize", "xx", "X", 2,                                             \
    "the strings that are none of the second read (in the same case when the second s != 0), in lower (s == 1) or "    \
    "upper (s == 2) case")                                                                                             \
  X(STRING_MATCH, TN__ABOUT_STRINGS, "string_match", "xz", "B", 0,                                                     \
    "whether the program of a regular expression (regex.h) matches")                                                   \
  X(STRING_FROM, TN__ABOUT_STRINGS, "string_from", "t", "x", 0, "numbers as text")                                     \
  X(STRING_TO, TN__ABOUT_STRINGS, "string_to", "x", "t", 0, "text as numbers; fails when it is none")                  \
  X(TABLE_FIND, TN__ABOUT_STRINGS, "table_find", "ty", "z", 0,                                                         \
    "the position in the second read, which is sorted (strings by bytes), or its length")                              \
  X(TABLE_GRAMS, TN__ABOUT_STRINGS, "table_grams", "tyzz", "z", 3,                                                     \
    "how often the n-grams of a pool (second read; where those of each length begin; the column of each) occur in "    \
    "each "                                                                                                            \
    "row; s: the shortest, the longest, the most skips")

typedef enum tn__builtin {
#define X(name, about, text, reads, writes, scalars, doc) TN__BUILTIN_##name,
  TN__BUILTINS(X)
#undef X
      TN__BUILTIN_COUNT
} tn__builtin;

/* The prologue of a function is the longest run of instructions from its first word that consists of SCALAR_CONST,
 * SCALAR_OP, SCALAR_SHAPE (of inputs and constants), SCALAR_LOAD (of inputs and constants), SCALAR_SELECT and ASSERT,
 * and that no jump leads into. When it is done, the arena is laid out once for this call. Therefore:
 *  - scalars that the signature binds, and those that size or place an ARENA register or the arena, are assigned by the
 *    prologue or by the signature and nowhere else;
 *  - dimensions that are found later belong to DYNAMIC registers, to OUTPUT registers that are ALLOCated, and to their
 * VIEWs. tn_function_infer_shapes runs the prologue without the values of inputs: what a SCALAR_LOAD of an input taints
 * is not known. */

/* ---- the rows, without pointers: a library has nothing to relocate in them --------------------------------------- */

typedef struct tn__instruction_row {
  char name[16], operands[8];
  unsigned traits;
} tn__instruction_row;
TN__LINKED const tn__instruction_row *tn__instruction_find(uint32_t opcode); /* NULL when unknown, as the others */
/* Does it assign a scalar? That is its first operand then. */
TN__LINKED bool tn__instruction_assigns_scalar(uint32_t opcode);
/* Does it jump? */
TN__LINKED bool tn__instruction_jumps(uint32_t opcode);

typedef struct tn__scalar_op_row {
  char text[10], function[10];
  bool divides;
} tn__scalar_op_row;
TN__LINKED const tn__scalar_op_row *tn__scalar_op_find(uint32_t op);

typedef struct tn__builtin_row {
  char name[20];
  tn__about about;
  char reads[6], writes[4]; /* a letter each, see TN__BUILTINS */
  uint32_t scalars;
} tn__builtin_row;
TN__LINKED const tn__builtin_row *tn__builtin_find(uint32_t builtin);

/* ---- operands of an instruction in the code ---------------------------------------------------------------------- */

typedef struct tn__code_uses { /* what is still to come */
  const char *letters;
  const uint32_t *words, *counts; /* counts: NULL before the groups */
  uint32_t index;
} tn__code_uses;

typedef struct tn__code_use {
  char letter;  /* a small one in groups, too */
  bool grouped; /* one of a group: the `index`-th of `count` */
  uint32_t index, count;
  uint32_t word;
} tn__code_use;

/* `code`: of the instruction, from its opcode on; it has the operands that its row and its counts speak of. */
TN__LINKED tn__code_uses tn__code_uses_of(const uint32_t *code);
/* The operands in the order in which they stand; false: there is none left. */
TN__LINKED TN_MUST_USE bool tn__code_uses_next(tn__code_uses *uses, tn__code_use *out);

#endif
