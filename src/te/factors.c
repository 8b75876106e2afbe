/* Products that are computed together and have factors in common:
 *
 *   x * r * r * r,  y * r * r * r      become      x * f,  y * f      with f = r * r * r
 *   q * x / d,      q * y / d          become      x * f,  y * f      with f = q / d
 *
 * Rounding differs by the order of factors only, and by a reciprocal where a divisor is shared. */
#include "base/dtype.h"
#include "te/internal.h"

enum { MOST_FACTORS = 16, MOST_PRODUCTS = 4, MOST_DEPTH = 8 };

typedef struct factor {
  const tn__expr *of;
  bool divides, common;
} factor;

typedef struct product {
  factor factors[MOST_FACTORS];
  int count; /* -1: too many */
} product;

/* Is that a factor of the expression, at a depth of products in products of at most so many? */
static bool is_made_of(const tn__expr *e, bool divides, const factor *wanted, int depth) {
  if (e == wanted->of && divides == wanted->divides) return true;
  if (depth == 0 || (e->kind != TN__EXPR_MUL && e->kind != TN__EXPR_DIV)) return false;
  bool second = e->kind == TN__EXPR_DIV ? !divides : divides;
  return is_made_of(e->args[0], divides, wanted, depth - 1) || is_made_of(e->args[1], second, wanted, depth - 1);
}

/* What others have as a whole is one factor: something else may read it, too. */
static void flatten(product *p, const factor *e, const tn__expr *const *others, int count) {
  bool all = true;
  if (p->count < 0) return;
  for (int i = 0; i < count && all; i++) all = is_made_of(others[i], false, e, MOST_DEPTH);
  if (!all && (e->of->kind == TN__EXPR_MUL || e->of->kind == TN__EXPR_DIV)) {
    bool is_quotient = e->of->kind == TN__EXPR_DIV;
    flatten(p, &(factor){.of = e->of->args[0], .divides = e->divides}, others, count);
    flatten(p, &(factor){.of = e->of->args[1], .divides = e->divides != is_quotient}, others, count);
  } else if (p->count == MOST_FACTORS) {
    p->count = -1;
  } else {
    p->factors[p->count++] = *e;
  }
}

/* The product has the factor, as often as the others do. */
static factor *find_factor(product *p, const factor *wanted) {
  for (int i = 0; i < p->count; i++) {
    factor *f = &p->factors[i];
    if (f->of == wanted->of && f->divides == wanted->divides && !f->common) return f;
  }
  return NULL;
}

/* Marks what all have; returns whether it is worth it: two factors, or a quotient. */
static bool mark_common(product *products, int count) {
  int common = 0;
  for (int i = 0; i < products[0].count; i++) {
    factor *first = &products[0].factors[i], *same[MOST_PRODUCTS] = {first};
    bool all = true;
    for (int p = 1; p < count && all; p++) all = (same[p] = find_factor(&products[p], first)) != NULL;
    for (int p = 0; p < count && all; p++) same[p]->common = true;
    if (all) common += first->divides ? 2 : 1;
  }
  return common >= 2;
}

/* Of the factors that are common, or of the others; NULL where there are none. */
static const tn__expr *multiplied(tn__ir *ir, const product *p, bool common) {
  const tn__expr *parts[2] = {NULL, NULL}; /* numerator, divisor */
  for (int i = 0; i < p->count; i++) {
    const factor *f = &p->factors[i];
    if (f->common != common) continue;
    const tn__expr **part = &parts[f->divides];
    *part = *part == NULL ? f->of : tn__ir_mul(ir, *part, f->of);
  }
  if (parts[1] == NULL) return parts[0];
  if (parts[0] == NULL) parts[0] = tn__ir_constant(ir, parts[1]->dtype, 1);
  return tn__ir_div(ir, parts[0], parts[1]);
}

void tn__te_share_factors(tn__ir *ir, const tn__expr **terms, int count) {
  product products[MOST_PRODUCTS] = {{.count = 0}};
  if (count < 2 || count > MOST_PRODUCTS) return;
  for (int t = 0; t < count; t++) {
    if (terms[t]->dtype != terms[0]->dtype || (terms[t]->dtype != TN_F32 && terms[t]->dtype != TN_F64)) return;
    flatten(&products[t], &(factor){.of = terms[t]}, terms, count);
    if (products[t].count < 0) return;
  }
  if (!mark_common(products, count)) return;
  const tn__expr *shared = multiplied(ir, &products[0], true);
  for (int t = 0; t < count; t++) {
    const tn__expr *rest = multiplied(ir, &products[t], false);
    terms[t] = rest == NULL ? shared : tn__ir_mul(ir, rest, shared);
  }
}
