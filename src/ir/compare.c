/* Comparisons, minimum and maximum of i64: decided by ranges where they can be, otherwise in one canonical form; and
 * the prover that also knows symbolic ranges. */
#include "ir/linear.h"

/* ---- the prover -------------------------------------------------------------------------------------------------- */

/* Sums of very many sizes (a concatenation of a hundred detections) are not worth the time: ranges decide them, or
 * nothing. */
enum { MAX_DEPTH = 10, MAX_STEPS = 80, MAX_TERMS = 32, MAX_SCALE = 1 << 24 };

typedef struct proof {
  tn__ir *ir;
  int steps_left;
} proof;

static bool nonnegative(proof *p, const tn__linear *l, int depth);

/* Numbers at the ends of i64, as the identity of a maximum, wrap around when they are added up: they show nothing. */
static bool is_small(int64_t n) {
  const int64_t most = INT64_C(1) << 61;
  return n < most && n > -most;
}

/* l with `atom` replaced by `value`, not below zero either? */
static bool nonnegative_with(proof *p, const tn__linear *l, const tn__expr *atom, int64_t coefficient,
                             const tn__expr *value, int64_t scale, int depth) {
  tn__linear next;
  int64_t number;
  if (tn__ir_as_int(value, &number) && !is_small(tn__ir_bound_mul(number, scale))) return false;
  tn__linear_init(&next);
  tn__linear_add_linear(p->ir, &next, l, 1);
  tn__linear_add_term(p->ir, &next, atom, tn__ir_wrap_mul(coefficient, -1));
  tn__linear_add(p->ir, &next, value, scale);
  tn__linear_recombine(p->ir, &next);
  return nonnegative(p, &next, depth + 1);
}

/* For an integer d: d >= 0 exactly when c * d + c - 1 >= 0, and there the quotient by c has a multiple of c as its
 * factor. */
static bool nonnegative_scaled(proof *p, const tn__linear *l, int64_t c, int depth) {
  tn__linear next;
  tn__linear_init(&next);
  tn__linear_add_linear(p->ir, &next, l, c);
  next.constant = tn__ir_wrap_add(next.constant, c - 1);
  return nonnegative(p, &next, depth + 1);
}

/* Bounds a term that is a minimum, maximum, selection or quotient by its parts. */
static bool eliminate_atom(proof *p, const tn__linear *l, tn__term t, int depth) {
  const tn__expr *const *args = t.atom->args;
  int64_t k = t.coefficient;
  switch (t.atom->kind) {
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: {
      bool either = (t.atom->kind == TN__EXPR_MAX) == (k > 0);
      bool first = nonnegative_with(p, l, t.atom, k, args[0], k, depth);
      if (first == either) return first;
      return nonnegative_with(p, l, t.atom, k, args[1], k, depth);
    }
    case TN__EXPR_SELECT:
      return nonnegative_with(p, l, t.atom, k, args[1], k, depth) &&
             nonnegative_with(p, l, t.atom, k, args[2], k, depth);
    case TN__EXPR_DIV: {
      /* x - c + 1 <= c * (x / c) <= x */
      int64_t c;
      if (!tn__ir_as_int(args[1], &c) || c <= 0 || c > MAX_SCALE) return false;
      if (k % c != 0) return nonnegative_scaled(p, l, c, depth);
      const tn__expr *bound = k < 0 ? args[0] : tn__ir_add_i(p->ir, args[0], 1 - c);
      return nonnegative_with(p, l, t.atom, k, bound, k / c, depth);
    }
    case TN__EXPR_MOD: {
      tn__interval divisor = tn__interval_of(p->ir, args[1]);
      if (k > 0 || divisor.min <= 0 || args[1]->kind == TN__EXPR_INT) return false;
      return nonnegative_with(p, l, t.atom, k, tn__ir_add_i(p->ir, args[1], -1), k, depth);
    }
    default: return false;
  }
}

/* Splits l into var * cofactor + others, looking at plain factors only: `var` inside of other atoms is bounded with
 * them. */
static void cofactor_of(tn__ir *ir, const tn__linear *l, const tn__var *var, tn__linear *cofactor, tn__linear *others) {
  tn__linear_init(cofactor);
  tn__linear_init(others);
  others->constant = l->constant;
  for (int i = 0; i < l->count; i++) {
    const tn__expr *factors[8], *left = NULL;
    int count = tn__ir_factors(l->terms[i].atom, factors, 8), found = 0;
    for (int j = 0; j < count && count <= 8; j++) {
      if (factors[j] == var->self)
        found++;
      else
        left = left == NULL ? factors[j] : tn__ir_intern2(ir, TN__EXPR_MUL, TN_I64, left, factors[j]);
    }
    if (found != 1)
      tn__linear_add_term(ir, others, l->terms[i].atom, l->terms[i].coefficient);
    else if (left == NULL)
      cofactor->constant = tn__ir_wrap_add(cofactor->constant, l->terms[i].coefficient);
    else
      tn__linear_add_term(ir, cofactor, left, l->terms[i].coefficient);
  }
}

/* Replaces the variable by the end of its range that makes l smallest. */
static bool eliminate_var(proof *p, const tn__linear *l, const tn__var *var, int depth) {
  tn__linear cofactor, others;
  cofactor_of(p->ir, l, var, &cofactor, &others);
  tn__interval sign = tn__linear_interval(p->ir, &cofactor);
  const tn__expr *end;
  if (sign.min >= 0 && var->min != NULL)
    end = var->min;
  else if (sign.max <= 0 && var->min != NULL && var->extent != NULL)
    end = tn__ir_add_i(p->ir, tn__ir_add(p->ir, var->min, var->extent), -1);
  else
    return false;
  tn__linear_add(p->ir, &others, tn__ir_mul(p->ir, tn__linear_build(p->ir, &cofactor), end), 1);
  tn__linear_recombine(p->ir, &others);
  return nonnegative(p, &others, depth + 1);
}

static bool has_symbolic_range(const tn__var *var) {
  return (var->min != NULL && var->min->kind != TN__EXPR_INT) ||
         (var->extent != NULL && var->extent->kind != TN__EXPR_INT);
}

/* The youngest variable below `limit` among the factors: bounds only refer to older ones. */
static const tn__var *youngest(const tn__linear *l, uint32_t limit) {
  const tn__var *best = NULL;
  for (int i = 0; i < l->count; i++) {
    const tn__expr *factors[8];
    int count = tn__ir_factors(l->terms[i].atom, factors, 8);
    for (int j = 0; j < count && count <= 8; j++) {
      if (factors[j]->kind != TN__EXPR_VAR) continue;
      const tn__var *var = factors[j]->value.var;
      bool worth = has_symbolic_range(var) || count > 1;
      if (worth && var->id < limit && (best == NULL || var->id > best->id)) best = var;
    }
  }
  return best;
}

static bool nonnegative(proof *p, const tn__linear *l, int depth) {
  tn__work_step(tn__ir_arena(p->ir), (uint64_t)l->count);
  if (!is_small(l->constant)) return false;
  tn__interval range = tn__linear_interval(p->ir, l);
  if (range.min != INT64_MIN && range.min >= 0) return true;
  if (range.max < 0 || depth >= MAX_DEPTH || l->count > MAX_TERMS || --p->steps_left < 0) return false;
  for (int i = 0; i < l->count; i++)
    if (eliminate_atom(p, l, l->terms[i], depth)) return true;
  uint32_t limit = UINT32_MAX;
  for (const tn__var *var; (var = youngest(l, limit)) != NULL; limit = var->id)
    if (eliminate_var(p, l, var, depth)) return true;
  return false;
}

bool tn__linear_nonnegative(tn__ir *ir, const tn__linear *l) {
  proof p = {.ir = ir, .steps_left = MAX_STEPS};
  return nonnegative(&p, l, 0);
}

/* out = b - a */
static void difference(tn__ir *ir, const tn__expr *a, const tn__expr *b, tn__linear *out) {
  tn__linear_init(out);
  tn__linear_add(ir, out, b, 1);
  tn__linear_add(ir, out, a, -1);
  tn__linear_recombine(ir, out);
}

bool tn__ir_proves_le(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  if (!tn__ir_is_orderly(ir, a) || !tn__ir_is_orderly(ir, b)) return a == b;
  tn__linear d;
  difference(ir, a, b, &d);
  return tn__linear_nonnegative(ir, &d);
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

static void negate(tn__linear *l) {
  for (int i = 0; i < l->count; i++) l->terms[i].coefficient = tn__ir_wrap_mul(l->terms[i].coefficient, -1);
  l->constant = tn__ir_wrap_mul(l->constant, -1);
}

/* Divides the coefficients by their common divisor; false when the constant is no multiple of it (then it is rounded up
 * when `up`, as 0 < g * x + c is 0 < x + ceil(c / g)). */
static bool reduce(tn__linear *d, bool up) {
  int64_t g = 0;
  for (int i = 0; i < d->count; i++) {
    int64_t a = d->terms[i].coefficient, b = g;
    if (a == INT64_MIN || a == 0) return true;
    while (b != 0) {
      int64_t r = a % b;
      a = b;
      b = r;
    }
    g = a < 0 ? -a : a;
  }
  if (g <= 1) return true;
  bool divides = d->constant % g == 0;
  if (!divides && !up) return false;
  for (int i = 0; i < d->count; i++) d->terms[i].coefficient /= g;
  d->constant = tn__ir_wrap_mul(tn__ir_floordiv_i64(tn__ir_wrap_mul(d->constant, -1), g), -1);
  return true;
}

/* negative part `kind` positive part: the terms of d on the side where their coefficients are positive. */
static const tn__expr *sided(tn__ir *ir, tn__expr_kind kind, const tn__linear *d, bool find_only) {
  tn__linear left, right;
  tn__linear_init(&left);
  tn__linear_init(&right);
  for (int i = 0; i < d->count; i++) {
    tn__term t = d->terms[i];
    if (t.coefficient < 0)
      tn__linear_add_term(ir, &left, t.atom, tn__ir_wrap_mul(t.coefficient, -1));
    else
      tn__linear_add_term(ir, &right, t.atom, t.coefficient);
  }
  if (left.count == 0)
    left.constant = tn__ir_wrap_mul(d->constant, -1);
  else
    right.constant = d->constant;
  const tn__expr *a = tn__linear_build(ir, &left), *b = tn__linear_build(ir, &right);
  return find_only ? tn__ir_find2(ir, kind, TN_BOOL, a, b) : tn__ir_intern2(ir, kind, TN_BOOL, a, b);
}

static bool always_positive(tn__ir *ir, const tn__linear *d) {
  tn__linear less_one;
  tn__linear_init(&less_one);
  tn__linear_add_linear(ir, &less_one, d, 1);
  less_one.constant = tn__ir_wrap_add(d->constant, -1);
  return tn__linear_nonnegative(ir, &less_one);
}

static bool never_positive(tn__ir *ir, const tn__linear *d) {
  tn__linear minus;
  tn__linear_init(&minus);
  tn__linear_add_linear(ir, &minus, d, -1);
  return tn__linear_nonnegative(ir, &minus);
}

/* The only quotient by a constant among the terms, when its coefficient is 1 or -1 and x has the other atoms too: what
 * x / c is when multiples of c have been taken out of x. -1: there is none. */
static int quotient_among(tn__ir *ir, const tn__linear *d) {
  int found = -1;
  for (int i = 0; i < d->count; i++) {
    if (d->terms[i].atom->kind != TN__EXPR_DIV) continue;
    if (found >= 0 || (d->terms[i].coefficient != 1 && d->terms[i].coefficient != -1)) return -1;
    found = i;
  }
  if (found < 0 || d->count == 1) return found;
  tn__linear x;
  tn__linear_init(&x);
  tn__linear_add(ir, &x, d->terms[found].atom->args[0], 1);
  for (int i = 0; i < d->count; i++)
    if (i != found && tn__linear_coefficient(&x, d->terms[i].atom) == 0) return -1;
  return found;
}

/* 0 < x / c + rest is 0 < x + c * (rest - 1) + 1, and 0 < rest - x / c is 0 < c * rest - x. NULL when d is nothing like
 * that. */
static const tn__expr *compare_quotient(tn__ir *ir, const tn__linear *d) {
  int64_t c, bound;
  int at = quotient_among(ir, d);
  if (at < 0 || !tn__ir_as_int(d->terms[at].atom->args[1], &c) || c <= 0 || c > MAX_SCALE) return NULL;
  if (d->constant == INT64_MIN || __builtin_mul_overflow(d->constant - 1, c, &bound) ||
      __builtin_mul_overflow(d->constant, c, &bound))
    return NULL;
  bool below = d->terms[at].coefficient < 0;
  tn__linear rest, scaled;
  tn__linear_init(&rest);
  tn__linear_init(&scaled);
  tn__linear_add_linear(ir, &rest, d, 1);
  tn__linear_add_term(ir, &rest, d->terms[at].atom, below ? 1 : -1);
  tn__linear_add_linear(ir, &scaled, &rest, below ? c : -c);
  if (!below) scaled.constant = tn__ir_wrap_add(scaled.constant, c);
  const tn__expr *x = d->terms[at].atom->args[0], *limit = tn__linear_build(ir, &scaled);
  return below ? tn__ir_lt(ir, x, limit) : tn__ir_le(ir, limit, x);
}

/* Is 0 < d? */
static const tn__expr *compare_less(tn__ir *ir, tn__linear *d) {
  reduce(d, true);
  const tn__expr *simple = compare_quotient(ir, d);
  if (simple != NULL) return simple;
  const tn__expr *known = sided(ir, TN__EXPR_LT, d, true); /* made before: undecided then, undecided now */
  if (known != NULL) return known;
  if (always_positive(ir, d)) return tn__ir_bool(ir, true);
  if (never_positive(ir, d)) return tn__ir_bool(ir, false);
  return sided(ir, TN__EXPR_LT, d, false);
}

static const tn__expr *compare_equal(tn__ir *ir, tn__expr_kind kind, tn__linear *d) {
  bool equal = kind == TN__EXPR_EQ;
  if (d->count == 0) return tn__ir_bool(ir, (d->constant == 0) == equal);
  if (!reduce(d, false)) return tn__ir_bool(ir, !equal);
  if (d->terms[0].coefficient > 0) negate(d); /* one sign for a == b and b == a: the first term stands on the left */
  const tn__expr *known = sided(ir, kind, d, true);
  if (known != NULL) return known;
  bool apart = always_positive(ir, d);
  if (!apart) {
    negate(d);
    apart = always_positive(ir, d);
    negate(d);
  }
  if (apart) return tn__ir_bool(ir, !equal);
  return sided(ir, kind, d, false);
}

const tn__expr *tn__ir_canonical_compare(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  if (a == b) return tn__ir_bool(ir, kind == TN__EXPR_EQ || kind == TN__EXPR_LE);
  if (!tn__ir_is_orderly(ir, a) || !tn__ir_is_orderly(ir, b)) {
    bool symmetric = kind == TN__EXPR_EQ || kind == TN__EXPR_NE;
    bool swap = symmetric && b->kind != TN__EXPR_INT && (a->kind == TN__EXPR_INT || tn__expr_compare(a, b) > 0);
    return tn__ir_intern2(ir, kind, TN_BOOL, swap ? b : a, swap ? a : b);
  }
  tn__linear d;
  difference(ir, a, b, &d);
  if (kind == TN__EXPR_LE) d.constant = tn__ir_wrap_add(d.constant, 1);
  if (kind == TN__EXPR_LT || kind == TN__EXPR_LE) return compare_less(ir, &d);
  return compare_equal(ir, kind, &d);
}

const tn__expr *tn__ir_canonical_extreme(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  if (a == b) return a;
  if (tn__expr_compare(a, b) > 0) {
    const tn__expr *c = a;
    a = b;
    b = c;
  }
  const tn__expr *known = tn__ir_find2(ir, kind, TN_I64, a, b);
  if (known != NULL) return known;
  bool minimum = kind == TN__EXPR_MIN;
  if (tn__ir_proves_le(ir, a, b)) return minimum ? a : b;
  if (tn__ir_proves_le(ir, b, a)) return minimum ? b : a;
  return tn__ir_intern2(ir, kind, TN_I64, a, b);
}
