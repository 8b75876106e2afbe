#include "ir/linear.h"

#include <string.h>

int64_t tn__ir_floordiv_i64(int64_t a, int64_t b) {
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t tn__ir_floormod_i64(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

void tn__linear_init(tn__linear *l) {
  l->terms = l->inline_terms;
  l->count = 0;
  l->capacity = TN__LINEAR_INLINE;
  l->constant = 0;
}

/* Index of the first term that does not come before `atom`. Sums are mostly built in order: look at the end first. */
static int position(const tn__linear *l, const tn__expr *atom) {
  if (l->count == 0) return 0;
  int last = tn__expr_compare(l->terms[l->count - 1].atom, atom);
  if (last < 0) return l->count;
  int low = 0, high = l->count - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (tn__expr_compare(l->terms[middle].atom, atom) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void tn__linear_add_term(tn__ir *ir, tn__linear *l, const tn__expr *atom, int64_t coefficient) {
  if (coefficient == 0) return;
  tn__work_step(ir->arena, 1);
  int at = position(l, atom);
  if (at < l->count && l->terms[at].atom == atom) {
    int64_t sum = tn__ir_wrap_add(l->terms[at].coefficient, coefficient);
    l->terms[at].coefficient = sum;
    if (sum == 0) {
      l->count--;
      memmove(l->terms + at, l->terms + at + 1, (size_t)(l->count - at) * sizeof(*l->terms));
    }
    return;
  }
  if (l->count == l->capacity) {
    tn__term *grown = TN__NEW_ARRAY(ir->arena, l->capacity * 2, tn__term);
    memcpy(grown, l->terms, (size_t)l->count * sizeof(*grown));
    l->terms = grown;
    l->capacity *= 2;
  }
  memmove(l->terms + at + 1, l->terms + at, (size_t)(l->count - at) * sizeof(*l->terms));
  l->terms[at] = (tn__term){.atom = atom, .coefficient = coefficient};
  l->count++;
}

void tn__linear_add(tn__ir *ir, tn__linear *l, const tn__expr *e, int64_t scale) {
  if (scale == 0) return;
  while (e->kind == TN__EXPR_ADD) { /* a sum leans to the left: the recursion is one deep */
    tn__linear_add(ir, l, e->args[1], scale);
    e = e->args[0];
  }
  if (e->kind == TN__EXPR_INT)
    l->constant = tn__ir_wrap_add(l->constant, tn__ir_wrap_mul(e->value.i, scale));
  else if (e->kind == TN__EXPR_MUL && e->args[1]->kind == TN__EXPR_INT)
    tn__linear_add_term(ir, l, e->args[0], tn__ir_wrap_mul(e->args[1]->value.i, scale));
  else
    tn__linear_add_term(ir, l, e, scale);
}

void tn__linear_add_linear(tn__ir *ir, tn__linear *l, const tn__linear *other, int64_t scale) {
  for (int i = 0; i < other->count; i++)
    tn__linear_add_term(ir, l, other->terms[i].atom, tn__ir_wrap_mul(other->terms[i].coefficient, scale));
  l->constant = tn__ir_wrap_add(l->constant, tn__ir_wrap_mul(other->constant, scale));
}

int64_t tn__linear_coefficient(const tn__linear *l, const tn__expr *atom) {
  if (l->count == 0) return 0;
  int at = position(l, atom);
  return at < l->count && l->terms[at].atom == atom ? l->terms[at].coefficient : 0;
}

static const tn__expr *build_term(tn__ir *ir, tn__term term) {
  if (term.coefficient == 1) return term.atom;
  return tn__ir_intern2(ir, TN__EXPR_MUL, TN_I64, term.atom, tn__ir_index(ir, term.coefficient));
}

const tn__expr *tn__linear_build(tn__ir *ir, const tn__linear *l) {
  if (l->count == 0) return tn__ir_index(ir, l->constant);
  const tn__expr *sum = build_term(ir, l->terms[0]);
  for (int i = 1; i < l->count; i++) sum = tn__ir_intern2(ir, TN__EXPR_ADD, TN_I64, sum, build_term(ir, l->terms[i]));
  if (l->constant != 0) sum = tn__ir_intern2(ir, TN__EXPR_ADD, TN_I64, sum, tn__ir_index(ir, l->constant));
  return sum;
}

tn__interval tn__linear_interval(tn__ir *ir, const tn__linear *l) {
  tn__interval sum = {l->constant, l->constant};
  for (int i = 0; i < l->count; i++) {
    tn__interval x = tn__interval_of(ir, l->terms[i].atom);
    int64_t c = l->terms[i].coefficient;
    int64_t low = tn__ir_bound_mul(c > 0 ? x.min : x.max, c), high = tn__ir_bound_mul(c > 0 ? x.max : x.min, c);
    sum.min = low == INT64_MIN || sum.min == INT64_MIN ? INT64_MIN : tn__ir_bound_add(sum.min, low);
    sum.max = high == INT64_MAX || sum.max == INT64_MAX ? INT64_MAX : tn__ir_bound_add(sum.max, high);
  }
  return sum;
}

int tn__ir_factors(const tn__expr *product, const tn__expr **out, int capacity) {
  int count = 0;
  const tn__expr *e = product;
  for (; e->kind == TN__EXPR_MUL; e = e->args[0]) count++;
  count++;
  e = product;
  for (int i = count - 1; i >= 0; i--) {
    const tn__expr *factor = e->kind == TN__EXPR_MUL ? e->args[1] : e;
    if (i < capacity) out[i] = factor;
    if (e->kind == TN__EXPR_MUL) e = e->args[0];
  }
  return count;
}
