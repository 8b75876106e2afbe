/* The words and signs of the text form, shared by printer and parser. */
#ifndef TENON_IR_TEXT_H
#define TENON_IR_TEXT_H

#include "ir/stmt.h"

/* From loosest to tightest. */
enum {
  TN__PRECEDENCE_OR = 1,
  TN__PRECEDENCE_AND,
  TN__PRECEDENCE_COMPARISON, /* does not associate */
  TN__PRECEDENCE_BIT_OR,
  TN__PRECEDENCE_BIT_XOR,
  TN__PRECEDENCE_BIT_AND,
  TN__PRECEDENCE_SHIFT,
  TN__PRECEDENCE_SUM,
  TN__PRECEDENCE_PRODUCT,
  TN__PRECEDENCE_UNARY
};

typedef struct tn__operator_row {
  const char *text;
  tn__expr_kind kind;
  int precedence; /* TN__PRECEDENCE_... */
  bool swapped;   /* a > b is b < a */
} tn__operator_row;

/* How the operation is written on operands of this type (bool: && and ||). */
const tn__operator_row *tn__ir_operator_of(tn__expr_kind kind, tn_dtype dtype);
/* The longest operator that `text` starts with; NULL when there is none. */
const tn__operator_row *tn__ir_operator_at(const char *text, size_t length);

bool tn__ir_text_is_name_char(char c);
/* May a variable or buffer not have this name? */
bool tn__ir_text_is_reserved(const char *name, size_t length);

/* Keys of pragmas, for messages. */
#define TN__LOOP_PRAGMAS "unroll_limit or whole"
const char *tn__loop_pragma_name(tn__loop_pragma pragma);
/* -1 when there is no such key; otherwise *most is its greatest value (the least is 0). */
TN_MUST_USE int tn__loop_pragma_find(const char *name, size_t length, int32_t *most);

const char *tn__loop_kind_name(tn__loop_kind kind); /* as in the text: for, parallel, ... */
const char *tn__axis_kind_name(tn__axis_kind kind);
const char *tn__scope_name(tn__scope scope);
/* Index into the names above, -1 when it is none of them. */
int tn__loop_kind_find(const char *name, size_t length);
int tn__axis_kind_find(const char *name, size_t length);
int tn__scope_find(const char *name, size_t length);
tn_dtype tn__ir_dtype_find(const char *name, size_t length);

#endif
