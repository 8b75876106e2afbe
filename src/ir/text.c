#include "ir/text.h"

#include <ctype.h>
#include <string.h>

#include "ir/scalar.h"

/* Longer signs before the shorter ones that they begin with. */
static const tn__operator_row operators[] = {
    {"||", TN__EXPR_OR, TN__PRECEDENCE_OR, false},         {"&&", TN__EXPR_AND, TN__PRECEDENCE_AND, false},
    {"==", TN__EXPR_EQ, TN__PRECEDENCE_COMPARISON, false}, {"!=", TN__EXPR_NE, TN__PRECEDENCE_COMPARISON, false},
    {"<<", TN__EXPR_SHL, TN__PRECEDENCE_SHIFT, false},     {">>", TN__EXPR_SHR, TN__PRECEDENCE_SHIFT, false},
    {"<=", TN__EXPR_LE, TN__PRECEDENCE_COMPARISON, false}, {">=", TN__EXPR_LE, TN__PRECEDENCE_COMPARISON, true},
    {"<", TN__EXPR_LT, TN__PRECEDENCE_COMPARISON, false},  {">", TN__EXPR_LT, TN__PRECEDENCE_COMPARISON, true},
    {"|", TN__EXPR_OR, TN__PRECEDENCE_BIT_OR, false},      {"^", TN__EXPR_XOR, TN__PRECEDENCE_BIT_XOR, false},
    {"&", TN__EXPR_AND, TN__PRECEDENCE_BIT_AND, false},    {"+", TN__EXPR_ADD, TN__PRECEDENCE_SUM, false},
    {"-", TN__EXPR_SUB, TN__PRECEDENCE_SUM, false},        {"*", TN__EXPR_MUL, TN__PRECEDENCE_PRODUCT, false},
    {"/", TN__EXPR_DIV, TN__PRECEDENCE_PRODUCT, false},    {"%", TN__EXPR_MOD, TN__PRECEDENCE_PRODUCT, false},
};
enum { OPERATOR_COUNT = sizeof(operators) / sizeof(operators[0]) };

static bool is_logical(const tn__operator_row *op) { return op->precedence <= TN__PRECEDENCE_AND; }

const tn__operator_row *tn__ir_operator_of(tn__expr_kind kind, tn_dtype dtype) {
  for (int i = 0; i < OPERATOR_COUNT; i++) {
    const tn__operator_row *op = &operators[i];
    if (op->kind != kind || op->swapped) continue;
    if ((kind == TN__EXPR_AND || kind == TN__EXPR_OR) && is_logical(op) != (dtype == TN_BOOL)) continue;
    return op;
  }
  return NULL;
}

const tn__operator_row *tn__ir_operator_at(const char *text, size_t length) {
  for (int i = 0; i < OPERATOR_COUNT; i++) {
    size_t size = strlen(operators[i].text);
    if (size <= length && memcmp(operators[i].text, text, size) == 0) return &operators[i];
  }
  return NULL;
}

bool tn__ir_text_is_name_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

static int find(const char *const *names, int count, const char *name, size_t length) {
  for (int i = 0; i < count; i++)
    if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) return i;
  return -1;
}

static const char *const loop_kinds[] = {"for",     "parallel", "vectorized", "unrolled", "block.x",
                                         "block.y", "block.z",  "thread.x",   "thread.y", "thread.z"};
static const char *const pragmas[TN__PRAGMA_COUNT] = {
    [TN__PRAGMA_UNROLL_LIMIT] = "unroll_limit", [TN__PRAGMA_WHOLE] = "whole"};
static const int32_t most_of_pragma[TN__PRAGMA_COUNT] = {[TN__PRAGMA_UNROLL_LIMIT] = 65536, [TN__PRAGMA_WHOLE] = 1};
static const char *const axis_kinds[] = {"spatial", "reduce", "scan"};
static const char *const scopes[] = {"param", "workspace", "stack", "register", "shared", "local"};
static const char *const words[] = {
    "func",    "if",     "else", "let",    "alloc",    "while",        "fail",    "block",  "axis",   "reads", "writes",
    "where",   "init",   "in",   "min",    "max",      "select",       "bitcast", "true",   "false",  "inf",   "nan",
    "spatial", "reduce", "scan", "pragma", "prefetch", "prefetch_far", "tensor",  "stream", "barrier"};

const char *tn__loop_pragma_name(tn__loop_pragma pragma) { return pragmas[pragma]; }

int tn__loop_pragma_find(const char *name, size_t length, int32_t *most) {
  int which = find(pragmas, TN__PRAGMA_COUNT, name, length);
  if (which >= 0) *most = most_of_pragma[which];
  return which;
}

const char *tn__loop_kind_name(tn__loop_kind kind) { return loop_kinds[kind]; }
const char *tn__axis_kind_name(tn__axis_kind kind) { return axis_kinds[kind]; }
const char *tn__scope_name(tn__scope scope) { return scopes[scope]; }
int tn__loop_kind_find(const char *name, size_t length) { return find(loop_kinds, TN__LOOP_KIND_COUNT, name, length); }
int tn__axis_kind_find(const char *name, size_t length) { return find(axis_kinds, 3, name, length); }
int tn__scope_find(const char *name, size_t length) { return find(scopes, TN__SCOPE_COUNT, name, length); }

tn_dtype tn__ir_dtype_find(const char *name, size_t length) {
  char text[8];
  if (length == 0 || length >= sizeof(text)) return TN_DTYPE_INVALID;
  memcpy(text, name, length);
  text[length] = '\0';
  tn_dtype dtype = tn_dtype_parse(text);
  return dtype == TN_STRING ? TN_DTYPE_INVALID : dtype; /* kernels know no strings */
}

bool tn__ir_text_is_reserved(const char *name, size_t length) {
  return find(words, sizeof(words) / sizeof(words[0]), name, length) >= 0 || tn__loop_kind_find(name, length) >= 0 ||
         tn__ir_dtype_find(name, length) != TN_DTYPE_INVALID || tn__intrinsic_find(name, length) >= 0;
}
