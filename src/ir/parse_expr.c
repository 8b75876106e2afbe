#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/context.h"
#include "ir/parse.h"
#include "ir/scalar.h"

static const tn__expr *parse_level(tn__parser *p, int precedence);

void tn__ir_parse_enter(tn__parser *p) {
  if (++p->nesting > TN__PARSE_MAX_NESTING)
    tn__lexer_fail(&p->lex, &p->lex.token, "nested more than %d levels deep", TN__PARSE_MAX_NESTING);
}

const tn__parse_name *tn__ir_parse_find(const tn__parser *p, const tn__token *name) {
  for (int i = p->names.count - 1; i >= 0; i--) {
    const tn__parse_name *n = &p->names.data[i];
    if (n->length == name->length && memcmp(n->text, name->text, name->length) == 0) return n;
  }
  return NULL;
}

/* In an imperative stage: its head says what it reads and what it writes. */
static void check_use(const tn__parser *p, const tn__parse_name *n, const tn__token *t, bool writes) {
  if (n->use == TN__PARSE_READ_ONLY && writes)
    tn__lexer_fail(&p->lex, t,
                   "%.*s may only be read here: an imperative stage writes the tensors behind its '->' and what it "
                   "allocates",
                   (int)t->length, t->text);
  if (n->use == TN__PARSE_NOT_LISTED)
    tn__lexer_fail(&p->lex, t, "%.*s is not among the tensors in parentheses, which an imperative stage reads",
                   (int)t->length, t->text);
}

static const tn__buffer *buffer_named(tn__parser *p, bool writes) {
  tn__token t = tn__lexer_name(&p->lex, "a buffer");
  const tn__parse_name *n = tn__ir_parse_find(p, &t);
  if (n == NULL || n->buffer == NULL)
    tn__lexer_fail(&p->lex, &t, n == NULL ? "there is no buffer %.*s here" : "%.*s is a variable, not a buffer",
                   (int)t.length, t.text);
  check_use(p, n, &t, writes);
  return n->buffer;
}

const tn__buffer *tn__ir_parse_buffer(tn__parser *p) { return buffer_named(p, false); }

const tn__buffer *tn__ir_parse_written(tn__parser *p) { return buffer_named(p, true); }

/* Canonical forms can be deeper than the text was nested: sums lean to the left. */
static const tn__expr *bounded(tn__parser *p, const tn__token *at, const tn__expr *e) {
  if (tn__node_of(e)->depth > TN__PARSE_MAX_DEPTH)
    tn__lexer_fail(&p->lex, at, "an expression of more than %d levels", TN__PARSE_MAX_DEPTH);
  return e;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* ( expr, expr, ... ), exactly `count` of them. */
static void parse_args(tn__parser *p, const char *name, const tn__expr **args, int count) {
  char where[64];
  snprintf(where, sizeof(where), "after %s", name);
  tn__lexer_expect(&p->lex, "(", where);
  for (int i = 0; i < count; i++) {
    snprintf(where, sizeof(where), "before argument %d of %s", i + 1, name);
    if (i > 0) tn__lexer_expect(&p->lex, ",", where);
    args[i] = parse_level(p, 0);
  }
  snprintf(where, sizeof(where), "after the argument%s of %s", tn__plural(count), name);
  tn__lexer_expect(&p->lex, ")", where);
}

static void check_same(tn__parser *p, const tn__token *at, const char *name, const tn__expr *a, const tn__expr *b) {
  if (a->dtype != b->dtype)
    tn__lexer_fail(&p->lex, at, "the operands of %s are of type %s and %s; they must agree", name,
                   tn_dtype_name(a->dtype), tn_dtype_name(b->dtype));
}

static const tn__expr *parse_extreme(tn__parser *p, const tn__token *at, tn__expr_kind kind) {
  const tn__expr *args[2];
  const char *name = kind == TN__EXPR_MIN ? "min" : "max";
  parse_args(p, name, args, 2);
  check_same(p, at, name, args[0], args[1]);
  return tn__ir_binary(p->ir, kind, args[0], args[1]);
}

static const tn__expr *parse_select(tn__parser *p, const tn__token *at) {
  const tn__expr *args[3];
  parse_args(p, "select", args, 3);
  if (args[0]->dtype != TN_BOOL)
    tn__lexer_fail(&p->lex, at, "the condition of select is of type %s, not bool", tn_dtype_name(args[0]->dtype));
  check_same(p, at, "select", args[1], args[2]);
  return tn__ir_select(p->ir, args[0], args[1], args[2]);
}

static tn_dtype take_dtype(tn__parser *p, const char *where) {
  tn__token t = p->lex.token;
  tn_dtype dtype = t.kind == TN__TOKEN_NAME ? tn__ir_dtype_find(t.text, t.length) : TN_DTYPE_INVALID;
  if (dtype == TN_DTYPE_INVALID) tn__lexer_fail(&p->lex, &t, "expected a type %s", where);
  tn__lexer_advance(&p->lex);
  return dtype;
}

static const tn__expr *parse_bitcast(tn__parser *p, const tn__token *at) {
  tn__lexer_expect(&p->lex, "(", "after bitcast");
  tn_dtype dtype = take_dtype(p, "as the first argument of bitcast");
  tn__lexer_expect(&p->lex, ",", "before argument 2 of bitcast");
  const tn__expr *a = parse_level(p, 0);
  tn__lexer_expect(&p->lex, ")", "after the arguments of bitcast");
  if (tn_dtype_size(dtype) != tn_dtype_size(a->dtype))
    tn__lexer_fail(&p->lex, at, "bitcast from %s to %s: their sizes differ", tn_dtype_name(a->dtype),
                   tn_dtype_name(dtype));
  return tn__ir_bitcast(p->ir, dtype, a);
}

static const tn__expr *parse_intrinsic(tn__parser *p, const tn__token *at, tn__intrinsic intrinsic) {
  const tn__intrinsic_row *row = tn__intrinsic_of(intrinsic);
  const tn__expr *args[3];
  parse_args(p, row->name, args, row->arity);
  for (int i = 0; i < row->arity; i++) {
    check_same(p, at, row->name, args[0], args[i]);
    if (!tn__intrinsic_takes(row, args[i]->dtype))
      tn__lexer_fail(&p->lex, at, "%s does not take %s", row->name, tn_dtype_name(args[i]->dtype));
  }
  return tn__ir_call(p->ir, intrinsic, row->to_bool ? TN_BOOL : args[0]->dtype, args, row->arity);
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */

const tn__expr *const *tn__ir_parse_indices(tn__parser *p, const tn__buffer *buffer, const tn__token *at) {
  const tn__expr **indices = TN__NEW_ARRAY(p->arena, buffer->rank, const tn__expr *);
  tn__lexer_expect(&p->lex, "[", "after a buffer's name");
  int count = 0;
  while (!tn__lexer_is(&p->lex, "]")) {
    if (count > 0) tn__lexer_expect(&p->lex, ",", "between indices");
    if (count == buffer->rank) break;
    indices[count++] = tn__ir_parse_index(p, "an index");
  }
  if (count != buffer->rank || !tn__lexer_is(&p->lex, "]"))
    tn__lexer_fail(&p->lex, at, "%s has %d dimension%s: that many indices are needed", buffer->name, buffer->rank,
                   tn__plural(buffer->rank));
  tn__lexer_advance(&p->lex);
  return indices;
}

static const tn__expr *parse_word(tn__parser *p) {
  tn__token t = p->lex.token;
  tn_dtype dtype = tn__ir_dtype_find(t.text, t.length);
  int intrinsic = tn__intrinsic_find(t.text, t.length);
  tn__ir *ir = p->ir;
  if (dtype != TN_DTYPE_INVALID) {
    const tn__expr *a;
    tn__lexer_advance(&p->lex);
    parse_args(p, tn_dtype_name(dtype), &a, 1);
    return tn__ir_cast(ir, dtype, a);
  }
  if (intrinsic >= 0) {
    tn__lexer_advance(&p->lex);
    return parse_intrinsic(p, &t, (tn__intrinsic)intrinsic);
  }
  if (tn__lexer_take(&p->lex, "true")) return tn__ir_bool(ir, true);
  if (tn__lexer_take(&p->lex, "false")) return tn__ir_bool(ir, false);
  if (tn__lexer_take(&p->lex, "inf")) return tn__ir_float(ir, TN_F64, HUGE_VAL);
  if (tn__lexer_take(&p->lex, "nan")) return tn__ir_float(ir, TN_F64, (double)NAN);
  if (tn__lexer_take(&p->lex, "min")) return parse_extreme(p, &t, TN__EXPR_MIN);
  if (tn__lexer_take(&p->lex, "max")) return parse_extreme(p, &t, TN__EXPR_MAX);
  if (tn__lexer_take(&p->lex, "select")) return parse_select(p, &t);
  if (tn__lexer_take(&p->lex, "bitcast")) return parse_bitcast(p, &t);
  t = tn__lexer_name(&p->lex, "a variable or buffer");
  const tn__parse_name *n = tn__ir_parse_find(p, &t);
  if (n == NULL) {
    const tn__expr *e = p->outside != NULL ? p->outside(p->user, &t) : NULL;
    if (e == NULL) tn__lexer_fail(&p->lex, &t, "nothing here is called %.*s", (int)t.length, t.text);
    return e;
  }
  if (n->expr != NULL) return n->expr;
  if (n->var != NULL) return n->var->self;
  check_use(p, n, &t, false);
  return tn__ir_load(ir, n->buffer, tn__ir_parse_indices(p, n->buffer, &t));
}

static const tn__expr *parse_unary(tn__parser *p) {
  tn__token t = p->lex.token;
  const tn__expr *e;
  tn__ir_parse_enter(p);
  if (tn__lexer_take(&p->lex, "-")) {
    tn__token number = p->lex.token;
    if (number.kind == TN__TOKEN_NUMBER) {
      e = tn__lexer_number(&p->lex, &number, true);
      tn__lexer_advance(&p->lex);
    } else {
      e = parse_unary(p);
      if (e->dtype == TN_BOOL) tn__lexer_fail(&p->lex, &t, "- does not take bool");
      e = tn__ir_call1(p->ir, TN__CALL_NEG, e);
    }
  } else if (tn__lexer_take(&p->lex, "!")) {
    e = parse_unary(p);
    if (tn__dtype_is_float(e->dtype)) tn__lexer_fail(&p->lex, &t, "! does not take %s", tn_dtype_name(e->dtype));
    e = tn__ir_not(p->ir, e);
  } else if (tn__lexer_take(&p->lex, "(")) {
    e = parse_level(p, 0);
    tn__lexer_expect(&p->lex, ")", "after the expression in parentheses");
  } else if (t.kind == TN__TOKEN_NUMBER) {
    e = tn__lexer_number(&p->lex, &t, false);
    tn__lexer_advance(&p->lex);
  } else if (t.kind == TN__TOKEN_NAME) {
    e = parse_word(p);
  } else {
    tn__lexer_fail(&p->lex, &t, "expected an expression");
  }
  p->nesting--;
  return bounded(p, &t, e);
}

static const tn__expr *combine(tn__parser *p, const tn__token *at, const tn__operator_row *op, const tn__expr *a,
                               const tn__expr *b) {
  check_same(p, at, op->text, a, b);
  bool logical = op->precedence <= TN__PRECEDENCE_AND;
  bool bitwise = op->kind == TN__EXPR_AND || op->kind == TN__EXPR_OR;
  if (!tn__ir_binary_takes(op->kind, a->dtype) || (bitwise && logical != (a->dtype == TN_BOOL)))
    tn__lexer_fail(&p->lex, at, "%s does not take %s", op->text, tn_dtype_name(a->dtype));
  return tn__ir_binary(p->ir, op->kind, op->swapped ? b : a, op->swapped ? a : b);
}

/* Operators that bind at least as tightly as `precedence`. */
static const tn__expr *parse_level(tn__parser *p, int precedence) {
  const tn__expr *e = parse_unary(p);
  int compared = 0;
  for (;;) {
    tn__token t = p->lex.token;
    const tn__operator_row *op = t.kind == TN__TOKEN_SIGN ? tn__ir_operator_at(t.text, t.length) : NULL;
    if (op == NULL || strlen(op->text) != t.length || op->precedence < precedence) return e;
    if (op->precedence == TN__PRECEDENCE_COMPARISON && compared++ > 0)
      tn__lexer_fail(&p->lex, &t, "comparisons do not chain: use && between them");
    tn__lexer_advance(&p->lex);
    tn__ir_parse_enter(p);
    const tn__expr *right = parse_level(p, op->precedence + 1);
    p->nesting--;
    e = bounded(p, &t, combine(p, &t, op, e, right));
  }
}

const tn__expr *tn__ir_parse_expr(tn__parser *p) { return parse_level(p, 0); }

static const tn__expr *typed(tn__parser *p, tn_dtype dtype, const char *what) {
  tn__token t = p->lex.token;
  const tn__expr *e = parse_level(p, 0);
  if (e->dtype != dtype)
    tn__lexer_fail(&p->lex, &t, "%s must be of type %s, not %s", what, tn_dtype_name(dtype), tn_dtype_name(e->dtype));
  return e;
}

const tn__expr *tn__ir_parse_index(tn__parser *p, const char *what) { return typed(p, TN_I64, what); }
const tn__expr *tn__ir_parse_condition(tn__parser *p, const char *what) { return typed(p, TN_BOOL, what); }
