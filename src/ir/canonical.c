/* The canonical form of i64 arithmetic: sums of products, and floor division and remainder split along the known
 * ranges.
 *
 * The rules are those of exact integers; is_orderly() keeps expressions that may wrap around (values loaded from
 * tensors) to the ring operations, which wrapping does not disturb. */
#include "base/numbers.h"
#include "ir/linear.h"

enum { MAX_EXPANDED = 64, MAX_FACTORS = 16 };

bool tn__ir_is_orderly(tn__ir *ir, const tn__expr *e) {
  if (!tn__node_of(e)->is_data) return true;
  tn__interval range = tn__interval_of(ir, e);
  return range.min != INT64_MIN && range.max != INT64_MAX;
}

/* ---- recombination ----------------------------------------------------------------------------------------------- */

/* Does l contain every term of k * x, constant aside? */
static bool contains(tn__ir *ir, const tn__linear *l, const tn__expr *x, int64_t k) {
  tn__linear part;
  tn__linear_init(&part);
  tn__linear_add(ir, &part, x, k);
  for (int i = 0; i < part.count; i++)
    if (tn__linear_coefficient(l, part.terms[i].atom) != part.terms[i].coefficient) return false;
  return part.count > 0;
}

/* atom = x % c with coefficient k: k * c * (x / c) + k * (x % c) == k * x, and the same one level up: with (x / c) % b
 * in place of x / c the sum is k * (x % (b * c)). Where x stands there with the opposite sign, as in the start of the
 * block that x is in: k * (x % c) - k * x == -k * c * (x / c). */
static bool recombine_mod(tn__ir *ir, tn__linear *l, const tn__expr *atom, int64_t k) {
  const tn__expr *x = atom->args[0], *c = atom->args[1];
  const tn__expr *quotient = tn__ir_div(ir, x, c);
  const tn__expr *whole = tn__ir_mul(ir, quotient, tn__ir_mul_i(ir, c, k));
  const tn__expr *replaced = NULL;
  if (contains(ir, l, whole, 1)) {
    replaced = tn__ir_mul_i(ir, x, k);
  } else if (c->kind == TN__EXPR_INT && contains(ir, l, x, tn__ir_wrap_mul(k, -1))) {
    replaced = tn__ir_mul_i(ir, whole, -1);
    whole = tn__ir_mul_i(ir, x, tn__ir_wrap_mul(k, -1));
  } else if (c->kind == TN__EXPR_INT) {
    int64_t step = tn__ir_wrap_mul(k, c->value.i);
    for (int i = 0; i < l->count && replaced == NULL; i++) {
      const tn__expr *other = l->terms[i].atom;
      if (l->terms[i].coefficient != step || other->kind != TN__EXPR_MOD || other->args[0] != quotient) continue;
      if (other->args[1]->kind != TN__EXPR_INT || other->args[1]->value.i <= 0) continue;
      whole = tn__ir_mul_i(ir, other, step);
      replaced = tn__ir_mul_i(ir, tn__ir_mod_i(ir, x, tn__ir_wrap_mul(c->value.i, other->args[1]->value.i)), k);
    }
  }
  if (replaced == NULL) return false;
  tn__linear_add(ir, l, whole, -1);
  tn__linear_add_term(ir, l, atom, tn__ir_wrap_mul(k, -1));
  tn__linear_add(ir, l, replaced, 1);
  return true;
}

/* atom = x / c with coefficient -k * c beside k * x: k * x - k * c * (x / c) == k * (x % c). */
static bool recombine_div(tn__ir *ir, tn__linear *l, const tn__expr *atom, int64_t coefficient) {
  const tn__expr *x = atom->args[0], *c = atom->args[1];
  if (c->kind != TN__EXPR_INT || c->value.i <= 1 || coefficient % c->value.i != 0) return false;
  int64_t k = -(coefficient / c->value.i);
  if (!contains(ir, l, x, k)) return false;
  tn__linear_add(ir, l, x, -k);
  tn__linear_add_term(ir, l, atom, tn__ir_wrap_mul(coefficient, -1));
  tn__linear_add(ir, l, tn__ir_mod(ir, x, c), k);
  return true;
}

void tn__linear_recombine(tn__ir *ir, tn__linear *l) {
  bool again = l->count > 1;
  /* Every step replaces at least two terms by what their x holds; the bound is a belt beside the braces. */
  for (int round = 0; again && round < 64; round++) {
    again = false;
    for (int i = 0; i < l->count && !again; i++) {
      tn__term term = l->terms[i];
      if (term.atom->kind == TN__EXPR_MOD && tn__ir_is_orderly(ir, term.atom->args[0]))
        again = recombine_mod(ir, l, term.atom, term.coefficient);
      else if (term.atom->kind == TN__EXPR_DIV && tn__ir_is_orderly(ir, term.atom->args[0]))
        again = recombine_div(ir, l, term.atom, term.coefficient);
    }
  }
}

static const tn__expr *recombined(tn__ir *ir, tn__linear *l) {
  tn__linear_recombine(ir, l);
  return tn__linear_build(ir, l);
}

/* ---- sums and products ------------------------------------------------------------------------------------------- */

static const tn__expr *add_constant(tn__ir *ir, const tn__expr *a, int64_t c) {
  if (c == 0) return a;
  if (a->kind == TN__EXPR_INT) return tn__ir_index(ir, tn__ir_wrap_add(a->value.i, c));
  if (a->kind == TN__EXPR_ADD && a->args[1]->kind == TN__EXPR_INT)
    return add_constant(ir, a->args[0], tn__ir_wrap_add(a->args[1]->value.i, c));
  return tn__ir_intern2(ir, TN__EXPR_ADD, TN_I64, a, tn__ir_index(ir, c));
}

const tn__expr *tn__ir_canonical_add(tn__ir *ir, const tn__expr *a, const tn__expr *b, int64_t scale_b) {
  if (b->kind == TN__EXPR_INT) return add_constant(ir, a, tn__ir_wrap_mul(b->value.i, scale_b));
  if (a->kind == TN__EXPR_INT && scale_b == 1) return add_constant(ir, b, a->value.i);
  tn__linear sum;
  tn__linear_init(&sum);
  tn__linear_add(ir, &sum, a, 1);
  tn__linear_add(ir, &sum, b, scale_b);
  return recombined(ir, &sum);
}

/* The product of two products of atoms, as a product of atoms. */
static const tn__expr *multiply_atoms(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  const tn__expr *x[MAX_FACTORS], *y[MAX_FACTORS];
  int n = tn__ir_factors(a, x, MAX_FACTORS), m = tn__ir_factors(b, y, MAX_FACTORS);
  if (n > MAX_FACTORS || m > MAX_FACTORS) return tn__ir_intern2(ir, TN__EXPR_MUL, TN_I64, a, b);
  const tn__expr *product = NULL;
  for (int i = 0, j = 0; i < n || j < m;) {
    bool first = j == m || (i < n && tn__expr_compare(x[i], y[j]) <= 0);
    const tn__expr *factor = first ? x[i++] : y[j++];
    product = product == NULL ? factor : tn__ir_intern2(ir, TN__EXPR_MUL, TN_I64, product, factor);
  }
  return product;
}

const tn__expr *tn__ir_canonical_mul(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  if (a->kind == TN__EXPR_INT) {
    const tn__expr *c = a;
    a = b;
    b = c;
  }
  tn__linear result, x, y;
  tn__linear_init(&result);
  if (b->kind == TN__EXPR_INT) {
    if (b->value.i == 1) return a;
    if (b->value.i == 0) return b;
    tn__linear_add(ir, &result, a, b->value.i);
    return tn__linear_build(ir, &result);
  }
  tn__linear_init(&x);
  tn__linear_init(&y);
  tn__linear_add(ir, &x, a, 1);
  tn__linear_add(ir, &y, b, 1);
  if ((x.count + 1) * (y.count + 1) > MAX_EXPANDED) {
    /* Expanding would grow without bound: the sums stay factors. */
    bool swap = tn__expr_compare(a, b) > 0;
    return tn__ir_intern2(ir, TN__EXPR_MUL, TN_I64, swap ? b : a, swap ? a : b);
  }
  for (int i = 0; i < x.count; i++) {
    tn__linear_add_term(ir, &result, x.terms[i].atom, tn__ir_wrap_mul(x.terms[i].coefficient, y.constant));
    for (int j = 0; j < y.count; j++)
      tn__linear_add_term(ir, &result, multiply_atoms(ir, x.terms[i].atom, y.terms[j].atom),
                          tn__ir_wrap_mul(x.terms[i].coefficient, y.terms[j].coefficient));
  }
  for (int j = 0; j < y.count; j++)
    tn__linear_add_term(ir, &result, y.terms[j].atom, tn__ir_wrap_mul(y.terms[j].coefficient, x.constant));
  result.constant = tn__ir_wrap_mul(x.constant, y.constant);
  return recombined(ir, &result);
}

/* ---- floor division and remainder -------------------------------------------------------------------------------- */

typedef struct split {
  tn__linear whole; /* the quotient so far */
  tn__linear rest;  /* what is still to be divided; its constant lies in [0, divisor) */
} split;

/* Takes multiples of c out of l. */
static void split_by(tn__ir *ir, const tn__linear *l, int64_t c, split *out) {
  tn__linear_init(&out->whole);
  tn__linear_init(&out->rest);
  for (int i = 0; i < l->count; i++) {
    tn__linear_add_term(ir, &out->whole, l->terms[i].atom, l->terms[i].coefficient / c);
    tn__linear_add_term(ir, &out->rest, l->terms[i].atom, l->terms[i].coefficient % c);
  }
  out->whole.constant = tn__ir_floordiv_i64(l->constant, c);
  out->rest.constant = tn__ir_floormod_i64(l->constant, c);
}

/* Does the range lie within one block [q * c, (q + 1) * c)? */
TN_MUST_USE static bool one_block(tn__interval range, int64_t c, int64_t *q) {
  if (range.min == INT64_MIN || range.max == INT64_MAX) return false;
  *q = tn__ir_floordiv_i64(range.min, c);
  return *q == tn__ir_floordiv_i64(range.max, c);
}

typedef struct grouping {
  int64_t g;            /* divides c and the coefficients of `multiples` */
  int64_t offset;       /* the small part lies in [offset * g, (offset + 1) * g) */
  tn__linear multiples; /* divided by g */
  tn__linear small;
} grouping;

/* rest == g * multiples + small, with small within one block of g for some g > 1 that divides c: then rest / c is
 * (multiples + offset) / (c / g). The largest such g wins. */
TN_MUST_USE static bool group(tn__ir *ir, const tn__linear *rest, int64_t c, grouping *out) {
  int64_t best = 1;
  for (int i = 0; i < rest->count; i++) {
    int64_t g = tn__common_divisor(c, rest->terms[i].coefficient);
    if (g <= best) continue;
    grouping trial = {.g = g};
    tn__linear_init(&trial.multiples);
    tn__linear_init(&trial.small);
    for (int j = 0; j < rest->count; j++) {
      tn__term t = rest->terms[j];
      if (t.coefficient % g == 0)
        tn__linear_add_term(ir, &trial.multiples, t.atom, t.coefficient / g);
      else
        tn__linear_add_term(ir, &trial.small, t.atom, t.coefficient);
    }
    trial.small.constant = rest->constant;
    if (!one_block(tn__linear_interval(ir, &trial.small), g, &trial.offset)) continue;
    best = g;
    out->g = g;
    out->offset = trial.offset;
    tn__linear_init(&out->multiples);
    tn__linear_init(&out->small);
    tn__linear_add_linear(ir, &out->multiples, &trial.multiples, 1);
    tn__linear_add_linear(ir, &out->small, &trial.small, 1);
  }
  return best > 1;
}

/* rest = x / a + y with one such quotient: (x / a + y) / c == (x + a * y) / (a * c). */
static const tn__expr *merge_quotients(tn__ir *ir, const tn__linear *rest, int64_t c) {
  const tn__expr *inner = NULL;
  for (int i = 0; i < rest->count; i++) {
    const tn__expr *atom = rest->terms[i].atom;
    if (atom->kind != TN__EXPR_DIV || rest->terms[i].coefficient != 1) continue;
    if (inner != NULL) return NULL;
    inner = atom;
  }
  int64_t product;
  if (inner == NULL || inner->args[1]->kind != TN__EXPR_INT || inner->args[1]->value.i <= 0) return NULL;
  int64_t a = inner->args[1]->value.i;
  if (__builtin_mul_overflow(a, c, &product)) return NULL;
  tn__linear numerator;
  tn__linear_init(&numerator);
  tn__linear_add_linear(ir, &numerator, rest, a);
  tn__linear_add_term(ir, &numerator, inner, tn__ir_wrap_mul(a, -1));
  tn__linear_add(ir, &numerator, inner->args[0], 1);
  return tn__ir_div_i(ir, recombined(ir, &numerator), product);
}

/* (x % m) / c == (x / c) % (m / c) when c divides m. */
static const tn__expr *quotient_of_mod(tn__ir *ir, const tn__linear *rest, int64_t c) {
  if (rest->count != 1 || rest->constant != 0 || rest->terms[0].coefficient != 1) return NULL;
  const tn__expr *atom = rest->terms[0].atom;
  if (atom->kind != TN__EXPR_MOD || atom->args[1]->kind != TN__EXPR_INT) return NULL;
  int64_t m = atom->args[1]->value.i;
  if (m <= 0 || m % c != 0) return NULL;
  return tn__ir_mod_i(ir, tn__ir_div_i(ir, atom->args[0], c), m / c);
}

static const tn__expr *div_constant(tn__ir *ir, const tn__expr *a, int64_t c) {
  tn__linear l;
  split s;
  tn__linear_init(&l);
  tn__linear_add(ir, &l, a, 1);
  split_by(ir, &l, c, &s);
  const tn__expr *part = NULL;
  int64_t q;
  grouping g;
  if (one_block(tn__linear_interval(ir, &s.rest), c, &q)) {
    part = tn__ir_index(ir, q);
  } else if (group(ir, &s.rest, c, &g)) {
    g.multiples.constant = g.offset;
    part = tn__ir_div_i(ir, recombined(ir, &g.multiples), c / g.g);
  } else {
    part = quotient_of_mod(ir, &s.rest, c);
    if (part == NULL) part = merge_quotients(ir, &s.rest, c);
    if (part == NULL)
      part = tn__ir_intern2(ir, TN__EXPR_DIV, TN_I64, tn__linear_build(ir, &s.rest), tn__ir_index(ir, c));
  }
  tn__linear_add(ir, &s.whole, part, 1);
  return recombined(ir, &s.whole);
}

/* Terms k * (x % m) with k * m a multiple of c count as k * x. True when there was one. */
static bool unwrap_mods(tn__ir *ir, tn__linear *rest, int64_t c) {
  for (int i = 0; i < rest->count; i++) {
    tn__term t = rest->terms[i];
    int64_t step;
    if (t.atom->kind != TN__EXPR_MOD || t.atom->args[1]->kind != TN__EXPR_INT) continue;
    if (!tn__ir_is_orderly(ir, t.atom->args[0])) continue;
    if (__builtin_mul_overflow(t.coefficient, t.atom->args[1]->value.i, &step) || step % c != 0) continue;
    tn__linear_add_term(ir, rest, t.atom, -t.coefficient);
    tn__linear_add(ir, rest, t.atom->args[0], t.coefficient);
    return true;
  }
  return false;
}

static const tn__expr *mod_constant(tn__ir *ir, const tn__expr *a, int64_t c) {
  tn__linear l;
  split s;
  tn__linear_init(&l);
  tn__linear_add(ir, &l, a, 1);
  split_by(ir, &l, c, &s);
  int64_t q;
  if (one_block(tn__linear_interval(ir, &s.rest), c, &q)) {
    s.rest.constant = tn__ir_wrap_add(s.rest.constant, -tn__ir_wrap_mul(q, c));
    return tn__linear_build(ir, &s.rest);
  }
  if (unwrap_mods(ir, &s.rest, c)) return mod_constant(ir, recombined(ir, &s.rest), c);
  grouping g;
  if (group(ir, &s.rest, c, &g)) {
    g.multiples.constant = g.offset;
    const tn__expr *part = tn__ir_mod_i(ir, recombined(ir, &g.multiples), c / g.g);
    g.small.constant = tn__ir_wrap_add(g.small.constant, -tn__ir_wrap_mul(g.offset, g.g));
    tn__linear_add(ir, &g.small, part, g.g);
    return recombined(ir, &g.small);
  }
  return tn__ir_intern2(ir, TN__EXPR_MOD, TN_I64, tn__linear_build(ir, &s.rest), tn__ir_index(ir, c));
}

/* The product divided by `factors`, when all of them are in it: the product of the others, or NULL for none left. */
TN_MUST_USE static bool remove_factors(tn__ir *ir, const tn__expr *product, const tn__expr *const *factors, int count,
                                       const tn__expr **left) {
  const tn__expr *have[MAX_FACTORS];
  int n = tn__ir_factors(product, have, MAX_FACTORS), taken = 0;
  if (n > MAX_FACTORS) return false;
  *left = NULL;
  for (int i = 0; i < n; i++) {
    if (taken < count && have[i] == factors[taken])
      taken++;
    else
      *left = *left == NULL ? have[i] : tn__ir_intern2(ir, TN__EXPR_MUL, TN_I64, *left, have[i]);
  }
  return taken == count;
}

/* Takes the terms that are multiples of the symbolic product n = k * atoms out of l. */
TN_MUST_USE static bool split_symbolic(tn__ir *ir, const tn__expr *a, const tn__expr *n, split *out) {
  tn__linear l, divisor;
  const tn__expr *factors[MAX_FACTORS];
  tn__linear_init(&l);
  tn__linear_init(&divisor);
  tn__linear_init(&out->whole);
  tn__linear_init(&out->rest);
  tn__linear_add(ir, &l, a, 1);
  tn__linear_add(ir, &divisor, n, 1);
  if (divisor.count != 1 || divisor.constant != 0) return false;
  int64_t k = divisor.terms[0].coefficient;
  int count = tn__ir_factors(divisor.terms[0].atom, factors, MAX_FACTORS);
  if (count > MAX_FACTORS || k <= 0) return false;
  for (int i = 0; i < l.count; i++) {
    const tn__expr *left;
    if (l.terms[i].coefficient % k == 0 && remove_factors(ir, l.terms[i].atom, factors, count, &left)) {
      int64_t quotient = l.terms[i].coefficient / k;
      if (left == NULL)
        out->whole.constant = tn__ir_wrap_add(out->whole.constant, quotient);
      else
        tn__linear_add_term(ir, &out->whole, left, quotient);
    } else {
      tn__linear_add_term(ir, &out->rest, l.terms[i].atom, l.terms[i].coefficient);
    }
  }
  out->rest.constant = l.constant;
  return true;
}

/* a / n or a % n for a divisor that is no constant; it is not zero (a kernel that divides by zero has failed
 * already). */
static const tn__expr *divide_symbolic(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *n) {
  bool quotient = kind == TN__EXPR_DIV;
  if (tn__ir_is_int_value(a, 0)) return a;
  if (a == n) return tn__ir_index(ir, quotient);
  split s;
  if (!tn__ir_is_orderly(ir, a) || !tn__ir_is_orderly(ir, n) || !split_symbolic(ir, a, n, &s)) {
    if (tn__ir_is_orderly(ir, a) && tn__ir_is_orderly(ir, n) && tn__ir_proves_le(ir, tn__ir_index(ir, 0), a) &&
        tn__ir_proves_le(ir, tn__ir_add_i(ir, a, 1), n))
      return quotient ? tn__ir_index(ir, 0) : a;
    return tn__ir_intern2(ir, kind, TN_I64, a, n);
  }
  const tn__expr *rest = tn__linear_build(ir, &s.rest);
  bool small = tn__ir_is_int_value(rest, 0) ||
               (tn__ir_proves_le(ir, tn__ir_index(ir, 0), rest) && tn__ir_proves_le(ir, tn__ir_add_i(ir, rest, 1), n));
  if (!quotient) return small ? rest : tn__ir_intern2(ir, kind, TN_I64, rest, n);
  if (!small) tn__linear_add(ir, &s.whole, tn__ir_intern2(ir, kind, TN_I64, rest, n), 1);
  return recombined(ir, &s.whole);
}

const tn__expr *tn__ir_canonical_div(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  if (b->kind != TN__EXPR_INT) return divide_symbolic(ir, TN__EXPR_DIV, a, b);
  int64_t c = b->value.i;
  if (c == 1) return a;
  if (c == 0 || c == INT64_MIN || !tn__ir_is_orderly(ir, a)) return tn__ir_intern2(ir, TN__EXPR_DIV, TN_I64, a, b);
  if (c < 0) return tn__ir_canonical_div(ir, tn__ir_mul_i(ir, a, -1), tn__ir_index(ir, -c));
  return div_constant(ir, a, c);
}

const tn__expr *tn__ir_canonical_mod(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  if (b->kind != TN__EXPR_INT) return divide_symbolic(ir, TN__EXPR_MOD, a, b);
  int64_t c = b->value.i;
  if (c == 1 || c == -1) return tn__ir_index(ir, 0);
  if (c == 0 || c == INT64_MIN || !tn__ir_is_orderly(ir, a)) return tn__ir_intern2(ir, TN__EXPR_MOD, TN_I64, a, b);
  if (c < 0) return tn__ir_mul_i(ir, tn__ir_canonical_mod(ir, tn__ir_mul_i(ir, a, -1), tn__ir_index(ir, -c)), -1);
  return mod_constant(ir, a, c);
}
