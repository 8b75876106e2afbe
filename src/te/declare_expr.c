/* Syntax to typed expressions. Types are never converted silently; a literal without a type takes that of what it
 * meets. */
#include <math.h>
#include <stdio.h>

#include "ir/scalar.h"
#include "te/declare.h"

enum { MAX_STEPS = 1 << 20, MAX_DEPTH = 400, MAX_SIZE = 1 << 16 };

void tn__te_step(tn__declaring *d, const tn__token *at) {
  if (++d->steps > MAX_STEPS) tn__te_fail(d, at, "the kernel is too large once its calls and lets are expanded");
}

/* Expanded calls can make deep expressions of shallow ones. */
static const tn__expr *bounded(const tn__declaring *d, const tn__token *at, const tn__expr *e) {
  if (tn__expr_depth(e) > MAX_DEPTH) tn__te_fail(d, at, "an expression of more than %d levels", MAX_DEPTH);
  if (tn__expr_size(e) > MAX_SIZE)
    tn__te_fail(d, at, "an expression of more than %d operations once its functions and lets are expanded", MAX_SIZE);
  return e;
}

void tn__te_expect_dtype(const tn__declaring *d, const tn__token *at, const tn__expr *value, tn_dtype dtype,
                         const char *name) {
  if (value->dtype != dtype)
    tn__te_fail(d, at, "a value of type %s for %s, whose elements are %s; %s(...) converts",
                tn_dtype_name(value->dtype), name, tn_dtype_name(dtype), tn_dtype_name(dtype));
}

/* ---- literals ---------------------------------------------------------------------------------------------------- */

static bool is_special(const tn__token *t) { return tn__te_token_is(t, "inf") || tn__te_token_is(t, "nan"); }

static bool is_typed_number(const tn__token *t) {
  for (size_t i = 0; i < t->length; i++)
    if (strchr("fiub", t->text[i]) != NULL) return true;
  return false;
}

static const tn__syn_const *find_const(const tn__declaring *d, const tn__token *name) {
  for (int i = 0; i < d->source->consts.count; i++)
    if (tn__te_token_same(&d->source->consts.data[i].name, name)) return &d->source->consts.data[i];
  return NULL;
}

bool tn__te_knows(const tn__declaring *d, const tn__token *name) {
  return tn__te_lookup(d, name) != NULL || find_const(d, name) != NULL;
}

/* Constants see those before them, so none depends on itself. */
static void check_const_order(const tn__declaring *d, const tn__syn_const *user, const tn__syn *s) {
  for (int i = 0; i < s->arg_count; i++) check_const_order(d, user, s->args[i]);
  if (s->kind != TN__SYN_NAME && s->kind != TN__SYN_ACCESS) return;
  const tn__syn_const *c = s->kind == TN__SYN_NAME ? find_const(d, &s->at) : NULL;
  bool word = is_special(&s->at) || tn__te_token_is(&s->at, "true") || tn__te_token_is(&s->at, "false");
  if (word && s->kind == TN__SYN_NAME) return;
  if (c == NULL || c >= user)
    tn__te_fail(d, &s->at, "%s is not a constant that stands before %s", tn__te_text_of(d, &s->at),
                tn__te_text_of(d, &user->name));
}

typedef struct literal_facts {
  bool flexible; /* made of literals without a type alone */
  bool fraction; /* and one of them is no whole number */
} literal_facts;

static literal_facts facts_of(tn__declaring *d, const tn__syn *s);

/* Of what stands behind a let: its name is as flexible as its value. */
static literal_facts facts_behind(tn__declaring *d, const tn__syn *s) {
  bool flexible = s->dtype == TN_DTYPE_INVALID && facts_of(d, s->args[0]).flexible;
  tn__meaning n = {.token = s->axes[0].name};
  if (flexible)
    n.syn = s->args[0];
  else
    n.expr = tn__ir_index(d->ir, 0); /* whatever it is, it has a type */
  tn__vec_push(d->arena, &d->names, n);
  literal_facts f = facts_of(d, s->args[1]);
  d->names.count--;
  return f;
}

static literal_facts facts_of(tn__declaring *d, const tn__syn *s) {
  literal_facts f = {false, false};
  tn__te_step(d, &s->at);
  int first = 0;
  switch (s->kind) {
    case TN__SYN_NUMBER:
      f.flexible = !is_typed_number(&s->at);
      f.fraction = f.flexible && (memchr(s->at.text, '.', s->at.length) || memchr(s->at.text, 'e', s->at.length));
      return f;
    case TN__SYN_NAME: {
      const tn__meaning *n = tn__te_lookup(d, &s->at);
      if (n != NULL) return n->syn != NULL ? facts_of(d, n->syn) : f;
      if (is_special(&s->at)) return (literal_facts){true, true};
      const tn__syn_const *c = find_const(d, &s->at);
      if (c == NULL || c->dtype != TN_DTYPE_INVALID) return f;
      check_const_order(d, c, c->value);
      return facts_of(d, c->value);
    }
    case TN__SYN_LET: return facts_behind(d, s);
    case TN__SYN_NEGATE:
    case TN__SYN_BINARY: break;
    case TN__SYN_REDUCE: /* of the language's own, a value of its term's type */
      if (!tn__syn_is_reducer(&s->at) || strncmp(s->at.text, "arg", 3) == 0) return f;
      break;
    case TN__SYN_CALL:
      if (tn__te_token_is(&s->at, "select"))
        first = 1;
      else if (!tn__te_token_is(&s->at, "min") && !tn__te_token_is(&s->at, "max") &&
               tn__intrinsic_find(s->at.text, s->at.length) < 0)
        return f;
      break;
    default: return f;
  }
  f.flexible = s->arg_count > first;
  for (int i = first; i < s->arg_count && f.flexible; i++) {
    literal_facts arg = facts_of(d, s->args[i]);
    f.flexible = arg.flexible;
    f.fraction |= arg.fraction;
  }
  return f;
}

static _Noreturn void fail_to_fit(const tn__declaring *d, const tn__syn *s, tn_dtype want) {
  const char *sign = s->negative ? "-" : "";
  tn__te_fail(d, &s->at, "%s%s does not fit into %s%s%s%s", sign, tn__te_text_of(d, &s->at), tn_dtype_name(want),
              tn__dtype_is_float(want) ? "; the infinite value is " : "", tn__dtype_is_float(want) ? sign : "",
              tn__dtype_is_float(want) ? "inf" : "");
}

static const tn__expr *number(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  const tn__expr *v = tn__lexer_number(&d->lex, &s->at, s->negative);
  if (is_typed_number(&s->at) || want == TN_DTYPE_INVALID || v->dtype == want) return v;
  const char *text = tn__te_text_of(d, &s->at);
  if (want == TN_BOOL) tn__te_fail(d, &s->at, "%s where a bool is wanted; write true or false", text);
  if (v->dtype == TN_F64) {
    if (!tn__dtype_is_float(want)) tn__te_fail(d, &s->at, "%s is no number of type %s", text, tn_dtype_name(want));
    const tn__expr *rounded = tn__ir_float(d->ir, want, v->value.f);
    if (isinf(rounded->value.f)) fail_to_fit(d, s, want);
    return rounded;
  }
  const tn__expr *converted = tn__ir_cast(d->ir, want, v);
  bool fits = tn__dtype_is_float(want) ? !isinf(converted->value.f) : tn__ir_cast(d->ir, TN_I64, converted) == v;
  if (!fits) fail_to_fit(d, s, want);
  return converted;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const tn__expr *const_value(tn__declaring *d, const tn__syn_const *c, tn_dtype want) {
  check_const_order(d, c, c->value);
  int visible = d->visible_from;
  d->visible_from = d->names.count;
  const tn__expr *e = tn__te_value(d, c->value, c->dtype != TN_DTYPE_INVALID ? c->dtype : want);
  d->visible_from = visible;
  if (c->dtype != TN_DTYPE_INVALID) tn__te_expect_dtype(d, &c->value->at, e, c->dtype, tn__te_text_of(d, &c->name));
  return e;
}

static const tn__expr *special(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  if (want == TN_DTYPE_INVALID) want = TN_F64;
  if (!tn__dtype_is_float(want))
    tn__te_fail(d, &s->at, "%s is no number of type %s", tn__te_text_of(d, &s->at), tn_dtype_name(want));
  return tn__ir_float(d->ir, want, tn__te_token_is(&s->at, "inf") ? HUGE_VAL : (double)NAN);
}

static const tn__expr *name(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  if (tn__te_token_is(&s->at, "true") || tn__te_token_is(&s->at, "false"))
    return tn__ir_bool(d->ir, tn__te_token_is(&s->at, "true"));
  if (is_special(&s->at)) return special(d, s, want);
  const char *text = tn__te_text_of(d, &s->at);
  const tn__meaning *n = tn__te_lookup(d, &s->at);
  if (n == NULL) {
    const tn__syn_const *c = find_const(d, &s->at);
    if (c == NULL) tn__te_unknown(d, &s->at, TN__TE_VALUE);
    return const_value(d, c, want);
  }
  if (n->syn != NULL) return tn__te_value(d, n->syn, want); /* a let's name means the same wherever it is visible */
  if (n->expr != NULL) return n->expr;
  int rank = n->buffer->rank - n->in_step;
  if (rank > 0) tn__te_fail(d, &s->at, "%s has %d dimension%s: write which element", text, rank, tn__plural(rank));
  if (n->in_step) return tn__ir_load(d->ir, n->buffer, &d->scan_axis->self);
  tn__te_check_access(d, s, n->buffer, NULL);
  return tn__ir_load(d->ir, n->buffer, NULL);
}

void tn__te_let(tn__declaring *d, const tn__token *name, tn_dtype dtype, const tn__syn *value) {
  tn__meaning n = {.token = *name, .named = true};
  if (dtype == TN_DTYPE_INVALID && facts_of(d, value).flexible) {
    n.syn = value;
  } else {
    n.expr = tn__te_value(d, value, dtype);
    if (dtype != TN_DTYPE_INVALID) tn__te_expect_dtype(d, &value->at, n.expr, dtype, tn__te_text_of(d, name));
  }
  tn__te_bind(d, name, n.expr, NULL);
  d->names.data[d->names.count - 1] = n;
}

const tn__syn *tn__te_behind_lets(tn__declaring *d, const tn__syn *s) {
  for (; s->kind == TN__SYN_LET; s = s->args[1]) tn__te_let(d, &s->axes[0].name, s->dtype, s->args[0]);
  return s;
}

/* let name = value in body: the name means nothing elsewhere. */
static const tn__expr *let(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  int names = d->names.count;
  const tn__expr *e = tn__te_value(d, tn__te_behind_lets(d, s), want);
  d->names.count = names;
  return e;
}

const tn__buffer *tn__te_tensor(tn__declaring *d, const tn__syn *s, const tn__expr **indices) {
  const tn__meaning *n = tn__te_lookup(d, &s->at);
  const char *text = tn__te_text_of(d, &s->at);
  if (n == NULL) tn__te_unknown(d, &s->at, TN__TE_TENSOR);
  if (n->buffer == NULL) tn__te_fail(d, &s->at, "%s is no tensor: it has no elements", text);
  int rank = n->buffer->rank - n->in_step;
  if (rank != s->arg_count)
    tn__te_fail(d, &s->at, "%s has %d dimension%s, not %d", text, rank, tn__plural(rank), s->arg_count);
  if (n->in_step) indices[0] = d->scan_axis->self;
  return n->buffer;
}

static const tn__expr *access(tn__declaring *d, const tn__syn *s) {
  const tn__expr *indices[TN__MAX_RANK];
  const tn__buffer *buffer = tn__te_tensor(d, s, indices);
  int first = buffer->rank - s->arg_count;
  for (int i = 0; i < s->arg_count; i++) indices[first + i] = tn__te_index(d, s->args[i], "an index");
  tn__te_follow_read(d, s, indices + first);
  tn__te_check_access(d, s, buffer, indices);
  return tn__ir_load(d->ir, buffer, indices);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void same_types(const tn__declaring *d, const tn__token *at, const char *what, const tn__expr *a,
                       const tn__expr *b) {
  if (a->dtype != b->dtype)
    tn__te_fail(d, at, "the operands of %s are of type %s and %s; %s(...) converts", what, tn_dtype_name(a->dtype),
                tn_dtype_name(b->dtype), tn_dtype_name(a->dtype));
}

/* Values of operands that must have one type: literals take that of the others. With `lazy`, those behind the first
 * are evaluated under a condition. */
static void operands(tn__declaring *d, const tn__syn *const *args, int count, tn_dtype want, const tn__expr **out,
                     bool lazy) {
  tn_dtype type = TN_DTYPE_INVALID;
  bool all_flexible = true, fraction = false;
  for (int i = 0; i < count; i++) {
    out[i] = NULL;
    literal_facts f = facts_of(d, args[i]);
    fraction |= f.fraction;
    if (f.flexible) continue;
    all_flexible = false;
    d->guards += lazy && i > 0;
    out[i] = tn__te_value(d, args[i], want);
    d->guards -= lazy && i > 0;
    if (type == TN_DTYPE_INVALID) type = out[i]->dtype;
  }
  if (all_flexible) type = want != TN_DTYPE_INVALID ? want : fraction ? TN_F64 : TN_I64;
  for (int i = 0; i < count; i++)
    if (out[i] == NULL) out[i] = tn__te_value(d, args[i], type);
}

/* Integer constants of a declaration are sizes and places: they must not wrap around without a word. A product with a
 * factor wraps when the greatest value, or the factor that is there already, does. */
static bool wraps(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  int64_t x, y, unused;
  if (tn__ir_as_int(a, &x) && tn__ir_as_int(b, &y)) {
    if (kind == TN__EXPR_ADD) return __builtin_add_overflow(x, y, &unused);
    if (kind == TN__EXPR_SUB) return __builtin_sub_overflow(x, y, &unused);
    return kind == TN__EXPR_MUL && __builtin_mul_overflow(x, y, &unused);
  }
  if (kind != TN__EXPR_MUL) return false;
  if (tn__ir_as_int(a, &x)) return wraps(ir, kind, b, a);
  if (!tn__ir_as_int(b, &y)) return false;
  for (int i = 0; a->kind == TN__EXPR_MUL && i < a->arg_count; i++)
    if (tn__ir_as_int(a->args[i], &x) && __builtin_mul_overflow(x, y, &unused)) return true;
  tn__interval range = tn__interval_of(ir, a);
  return range.min != INT64_MIN && range.max != INT64_MAX &&
         (__builtin_mul_overflow(range.min, y, &unused) || __builtin_mul_overflow(range.max, y, &unused));
}

static const tn__expr *combine(tn__declaring *d, const tn__token *at, const tn__operator_row *op, const tn__expr *a,
                               const tn__expr *b) {
  same_types(d, at, op->text, a, b);
  bool logical = op->precedence <= TN__PRECEDENCE_AND;
  bool bitwise = op->kind == TN__EXPR_AND || op->kind == TN__EXPR_OR;
  if (!tn__ir_binary_takes(op->kind, a->dtype) || (bitwise && logical != (a->dtype == TN_BOOL)))
    tn__te_fail(d, at, "%s does not take %s%s", op->text, tn_dtype_name(a->dtype),
                strcmp(op->text, "^") == 0 ? "; a power is pow(x, y), a square x * x" : "");
  if (a->dtype == TN_I64 && wraps(d->ir, op->kind, a, b)) tn__te_fail(d, at, "%s does not fit into i64", op->text);
  bool divides = op->kind == TN__EXPR_DIV || op->kind == TN__EXPR_MOD;
  if (divides && tn__ir_is_int_value(b, 0)) tn__te_fail(d, at, "%s by zero", op->text);
  return tn__ir_binary(d->ir, op->kind, op->swapped ? b : a, op->swapped ? a : b);
}

static const tn__expr *comparison(tn__declaring *d, const tn__syn *s) {
  const tn__expr **values = TN__NEW_ARRAY(d->arena, s->arg_count, const tn__expr *);
  operands(d, s->args, s->arg_count, TN_DTYPE_INVALID, values, false);
  const tn__expr *all = NULL;
  for (int i = 0; i + 1 < s->arg_count; i++) {
    const tn__expr *one = combine(d, &s->at, s->ops[i], values[i], values[i + 1]);
    all = all == NULL ? one : tn__ir_and(d->ir, all, one);
  }
  return all;
}

void tn__te_expect_args(const tn__declaring *d, const tn__syn *s, int count) {
  if (s->arg_count != count)
    tn__te_fail(d, &s->at, "%s takes %d argument%s, not %d", tn__te_text_of(d, &s->at), count, tn__plural(count),
                s->arg_count);
}

static const tn__expr *select(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  tn__te_expect_args(d, s, 3);
  const tn__expr *condition = tn__te_value(d, s->args[0], TN_BOOL), *sides[2];
  if (condition->dtype != TN_BOOL)
    tn__te_fail(d, &s->args[0]->at, "the condition of select is of type %s, not bool", tn_dtype_name(condition->dtype));
  d->guards++;
  operands(d, s->args + 1, 2, want, sides, false);
  d->guards--;
  same_types(d, &s->at, "select", sides[0], sides[1]);
  return tn__ir_select(d->ir, condition, sides[0], sides[1]);
}

static const tn__expr *clamp(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  const tn__expr *args[3];
  tn__te_expect_args(d, s, 3);
  operands(d, s->args, 3, want, args, false);
  for (int i = 1; i < 3; i++) same_types(d, &s->at, "clamp", args[0], args[i]);
  if (!tn__ir_binary_takes(TN__EXPR_MIN, args[0]->dtype))
    tn__te_fail(d, &s->at, "clamp does not take %s", tn_dtype_name(args[0]->dtype));
  return tn__ir_min(d->ir, tn__ir_max(d->ir, args[0], args[1]), args[2]);
}

static const tn__expr *intrinsic(tn__declaring *d, const tn__syn *s, tn__intrinsic which, tn_dtype want) {
  const tn__intrinsic_row *row = tn__intrinsic_of(which);
  const tn__expr *args[3];
  tn__te_expect_args(d, s, row->arity);
  if (row->to_bool) want = TN_DTYPE_INVALID;
  if (row->floats && !row->integers && want == TN_DTYPE_INVALID) { /* exp(1) is exp(1.0) */
    bool flexible = true;
    for (int i = 0; i < row->arity; i++) flexible &= facts_of(d, s->args[i]).flexible;
    if (flexible) want = TN_F64;
  }
  operands(d, s->args, row->arity, want, args, false);
  for (int i = 0; i < row->arity; i++) {
    same_types(d, &s->at, row->name, args[0], args[i]);
    if (!tn__intrinsic_takes(row, args[i]->dtype))
      tn__te_fail(d, &s->at, "%s does not take %s%s", row->name, tn_dtype_name(args[i]->dtype),
                  tn__intrinsic_takes(row, TN_F32) ? "; f32(...) converts" : "");
  }
  return tn__ir_call(d->ir, which, row->to_bool ? TN_BOOL : args[0]->dtype, args, row->arity);
}

static const tn__expr *extreme(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  const tn__expr *args[2];
  tn__te_expect_args(d, s, 2);
  operands(d, s->args, 2, want, args, false);
  tn__expr_kind kind = tn__te_token_is(&s->at, "min") ? TN__EXPR_MIN : TN__EXPR_MAX;
  const char *text = tn__te_text_of(d, &s->at);
  same_types(d, &s->at, text, args[0], args[1]);
  if (!tn__ir_binary_takes(kind, args[0]->dtype))
    tn__te_fail(d, &s->at, "%s does not take %s", text, tn_dtype_name(args[0]->dtype));
  return tn__ir_binary(d->ir, kind, args[0], args[1]);
}

static const tn__expr *function(tn__declaring *d, const tn__syn *s, const tn__syn_function *f, tn_dtype want) {
  tn__te_expect_args(d, s, f->param_count);
  tn__meaning bound[8] = {0};
  for (int i = 0; i < f->param_count; i++) {
    bound[i] = (tn__meaning){.token = f->params[i]};
    if (facts_of(d, s->args[i]).flexible && s->args[i]->kind == TN__SYN_NUMBER)
      bound[i].syn = s->args[i];
    else
      bound[i].expr = tn__te_value(d, s->args[i], want);
  }
  tn__te_enter(d, &f->name, &s->at);
  int names = d->names.count, visible = d->visible_from;
  d->visible_from = names;
  for (int i = 0; i < f->param_count; i++) tn__vec_push(d->arena, &d->names, bound[i]);
  const tn__expr *e = tn__te_value(d, f->value, want);
  d->names.count = names;
  d->visible_from = visible;
  d->stack.count--;
  return e;
}

static const tn__expr *call(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  const tn__syn_function *f = tn__te_find_function(d, &s->at);
  if (f != NULL) return function(d, s, f, want);
  if (tn__te_token_is(&s->at, "select")) return select(d, s, want);
  if (tn__te_edge_find(d, &s->at) != NULL) return tn__te_edge_value(d, s);
  if (tn__te_token_is(&s->at, "clamp")) return clamp(d, s, want);
  if (tn__te_token_is(&s->at, "min") || tn__te_token_is(&s->at, "max")) return extreme(d, s, want);
  int which = tn__intrinsic_find(s->at.text, s->at.length);
  if (which >= 0) return intrinsic(d, s, (tn__intrinsic)which, want);
  const char *text = tn__te_text_of(d, &s->at);
  if (tn__te_find_kernel(d, &s->at) != NULL)
    tn__te_fail(d, &s->at, "%s is a kernel and gives whole tensors: a call stands alone, as in Y = %s(X)", text, text);
  tn__te_unknown(d, &s->at, TN__TE_CALLED);
}

static const tn__expr *cast(tn__declaring *d, const tn__syn *s) {
  const tn__syn *arg = s->args[0];
  bool literal = arg->kind == TN__SYN_NUMBER || arg->kind == TN__SYN_NAME ||
                 (arg->kind == TN__SYN_NEGATE && arg->args[0]->kind == TN__SYN_NAME);
  literal_facts f = literal ? facts_of(d, arg) : (literal_facts){false, false};
  if (!s->bits && f.flexible && (tn__dtype_is_float(s->dtype) || (!f.fraction && s->dtype != TN_BOOL)))
    return tn__te_value(d, arg, s->dtype);
  const tn__expr *e = tn__te_value(d, arg, TN_DTYPE_INVALID);
  if (!s->bits) return tn__ir_cast(d->ir, s->dtype, e);
  if (tn_dtype_size(s->dtype) != tn_dtype_size(e->dtype))
    tn__te_fail(d, &s->at, "bitcast from %s to %s: their sizes differ", tn_dtype_name(e->dtype),
                tn_dtype_name(s->dtype));
  return tn__ir_bitcast(d->ir, s->dtype, e);
}

static const tn__expr *unary(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  const tn__expr *e = tn__te_value(d, s->args[0], want);
  if (s->kind == TN__SYN_NEGATE) {
    if (e->dtype == TN_BOOL) tn__te_fail(d, &s->at, "- does not take bool");
    return tn__ir_call1(d->ir, TN__CALL_NEG, e);
  }
  if (tn__dtype_is_float(e->dtype)) tn__te_fail(d, &s->at, "! does not take %s", tn_dtype_name(e->dtype));
  return tn__ir_not(d->ir, e);
}

static const tn__expr *binary(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  const tn__expr *args[2];
  bool lazy = s->op->precedence <= TN__PRECEDENCE_AND;
  operands(d, s->args, 2, want, args, lazy);
  return combine(d, &s->at, s->op, args[0], args[1]);
}

static const tn__expr *value(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  switch (s->kind) {
    case TN__SYN_NUMBER: return number(d, s, want);
    case TN__SYN_NAME: return name(d, s, want);
    case TN__SYN_ACCESS: return access(d, s);
    case TN__SYN_NEGATE:
    case TN__SYN_NOT: return unary(d, s, want);
    case TN__SYN_BINARY: return binary(d, s, want);
    case TN__SYN_COMPARE: return comparison(d, s);
    case TN__SYN_CALL: return call(d, s, want);
    case TN__SYN_CAST: return cast(d, s);
    case TN__SYN_REDUCE: return tn__te_lift(d, s, want);
    case TN__SYN_LET: return let(d, s, want);
    case TN__SYN_TUPLE: tn__te_fail(d, &s->at, "several values where one is wanted");
    case TN__SYN_STEP:
      tn__te_fail(d, &s->at,
                  "%s is a tensor, which only steps of a scan have for themselves: let stands right behind then, as in "
                  "scan(t) first then let %s[...] = ... in ...",
                  tn__te_text_of(d, &s->at), tn__te_text_of(d, &s->at));
    case TN__SYN_SCAN: break;
  }
  tn__te_fail(d, &s->at, "a scan stands alone on the right side of a statement");
}

const tn__expr *tn__te_value(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  tn__te_step(d, &s->at);
  return bounded(d, &s->at, value(d, s, want));
}

const tn__expr *tn__te_index(tn__declaring *d, const tn__syn *s, const char *what) {
  const tn__expr *e = tn__te_value(d, s, TN_I64);
  if (e->dtype != TN_I64)
    tn__te_fail(d, &s->at, "%s is of type i64, not %s; i64(...) converts", what, tn_dtype_name(e->dtype));
  if (tn__te_is_too_large(d->ir, e))
    tn__te_fail(d, &s->at, "%s has a number in it that is larger than any tensor: 2^48 at most", what);
  return e;
}

static bool varies(const tn__declaring *d, const tn__expr *e) {
  bool found = tn__expr_has_load(e);
  for (int i = 0; i < d->axes.count; i++) found |= tn__expr_uses_var(e, d->axes.data[i]);
  return found;
}

const tn__expr *tn__te_span(tn__declaring *d, const tn__syn *first, const tn__syn *end, const tn__expr **start) {
  const char *what = "the extent of an axis";
  const tn__expr *low = tn__ir_index(d->ir, 0), *high = tn__te_index(d, end, what);
  int64_t n;
  if (first != NULL) low = tn__te_index(d, first, "the start of an axis");
  *start = low;
  if (first == NULL && !varies(d, high)) return tn__te_extent(d, end, what);
  const tn__expr *extent = tn__ir_sub(d->ir, high, low);
  if (varies(d, extent)) {
    bool shown = tn__interval_of(d->ir, extent).min >= 0;
    return shown ? extent : tn__ir_max(d->ir, extent, tn__ir_index(d->ir, 0));
  }
  int least = d->kernel->allows_empty ? 0 : 1;
  if (tn__ir_as_int(extent, &n) && n < least)
    tn__te_fail(d, &end->at, "%s is %lld; it must be at least %d", what, (long long)n, least);
  return extent;
}

const tn__expr *tn__te_extent(tn__declaring *d, const tn__syn *s, const char *what) {
  const tn__expr *e = tn__te_index(d, s, what);
  int64_t n;
  if (tn__expr_has_load(e)) tn__te_fail(d, &s->at, "%s depends on the contents of a tensor", what);
  for (int i = 0; i < d->axes.count; i++)
    if (tn__expr_uses_var(e, d->axes.data[i]))
      tn__te_fail(d, &s->at, "%s depends on the axis %s: extents are the same everywhere", what, d->axes.data[i]->name);
  int least = d->kernel->allows_empty ? 0 : 1;
  if (tn__ir_as_int(e, &n) && n < least)
    tn__te_fail(d, &s->at, "%s is %lld; it must be at least %d", what, (long long)n, least);
  return e;
}
