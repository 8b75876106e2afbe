/* Small declarations and a comparison with the interpreter, shared by the tests of schedules. Values are small whole
 * numbers, so that sums are exact in any order and results must be equal. */
#ifndef TENON_TESTS_UNIT_SCHEDULE_CHECK_H
#define TENON_TESTS_UNIT_SCHEDULE_CHECK_H

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "ir/passes.h"
#include "schedule/schedule.h"
#include "target/text/text.h"
#include "te/te.h"
#include "te/text.h"
#include "unit/check.h"
#include "unit/schedule_run.h"

static inline const tn__expr *at(tn__ir *ir, const tn__buffer *b, int rank, const tn__expr *i, const tn__expr *j,
                                 const tn__expr *k) {
  const tn__expr *indices[] = {i, j, k};
  assert_int_equal(b->rank, rank);
  return tn__ir_load(ir, b, indices);
}

static inline tn__te_axes axes_of(tn__te *te, const char *prefix, int count, const int64_t *extents) {
  const tn__expr *list[4];
  for (int i = 0; i < count; i++) list[i] = tn__ir_index(tn__te_ir(te), extents[i]);
  return tn__te_axes_create(te, prefix, count, list);
}

static inline const tn__buffer *input(tn__te *te, const char *name, int rank, int64_t a, int64_t b, int64_t c) {
  tn__ir *ir = tn__te_ir(te);
  const tn__expr *shape[] = {tn__ir_index(ir, a), tn__ir_index(ir, b), tn__ir_index(ir, c)};
  return tn__te_input(te, name, TN_F32, rank, shape);
}

/* D = relu(A * B) + bias; rows and depth are open where they are 0. */
static inline tn__te *product_of(tn__ir *ir, int64_t m, int64_t n_columns, int64_t depth) {
  tn__te *te = tn__te_create(ir, "product");
  const tn__expr *rows = m > 0 ? tn__ir_index(ir, m) : tn__te_dim(te, "M", 1)->self;
  const tn__expr *n = tn__ir_index(ir, n_columns);
  const tn__expr *k = depth > 0 ? tn__ir_index(ir, depth) : tn__te_dim(te, "K", 1)->self;
  const tn__buffer *a = tn__te_input(te, "A", TN_F32, 2, (const tn__expr *[]){rows, k});
  const tn__buffer *b = tn__te_input(te, "B", TN_F32, 2, (const tn__expr *[]){k, n});
  const tn__buffer *bias = tn__te_input(te, "bias", TN_F32, 1, &n);
  tn__te_axes x = tn__te_axes_create(te, "i", 2, (const tn__expr *[]){rows, n}), r = tn__te_axes_create(te, "k", 1, &k);
  const tn__buffer *c = tn__te_reduce(
      te, "C", &x, &r, TN__TE_SUM,
      tn__ir_mul(ir, at(ir, a, 2, x.index[0], r.index[0], NULL), at(ir, b, 2, r.index[0], x.index[1], NULL)));
  tn__te_axes y = tn__te_axes_create(te, "i", 2, (const tn__expr *[]){rows, n});
  const tn__expr *value = tn__ir_max(ir, tn__ir_load(ir, c, y.index), tn__ir_constant(ir, TN_F32, 0));
  tn__te_output(te, tn__te_compute(te, "D", &y, tn__ir_add(ir, value, at(ir, bias, 1, y.index[1], NULL, NULL))));
  return te;
}
static inline tn__te *product(tn__ir *ir) { return product_of(ir, 7, 9, 5); }
static inline tn__te *open_product(tn__ir *ir) { return product_of(ir, 0, 6, 4); }
static inline tn__te *wide_product(tn__ir *ir) { return product_of(ir, 21, 64, 11); }

/* A matrix times itself times ... times a vector of row sums, `stages` sums in turn: each needs all of the one
 * before. */
static inline tn__te *chain_of(tn__ir *ir, int stages, int64_t side) {
  tn__te *te = tn__te_create(ir, "chain");
  const tn__buffer *x = input(te, "X", 2, side, side, 0), *sum = NULL;
  for (int i = 0; i < stages; i++) {
    tn__te_axes rows = axes_of(te, "i", 1, &side), k = axes_of(te, "k", 1, &side);
    const tn__expr *term = at(ir, x, 2, rows.index[0], k.index[0], NULL);
    if (sum != NULL) term = tn__ir_mul(ir, term, at(ir, sum, 1, k.index[0], NULL, NULL));
    sum = tn__te_reduce(te, tn__arena_printf(tn__ir_arena(ir), "S%d", i), &rows, &k, TN__TE_SUM, term);
  }
  tn__te_output(te, sum);
  return te;
}
static inline tn__te *chain(tn__ir *ir) { return chain_of(ir, 3, 19); }

/* Two layers and a softmax: an operand that is computed, a product with an epilogue, another one, a chain of rows. */
static inline tn__te *network(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "network");
  const tn__buffer *x = input(te, "X", 2, 9, 12, 0), *w = input(te, "W", 2, 12, 21, 0),
                   *v = input(te, "V", 2, 21, 10, 0);
  tn__te_axes a = axes_of(te, "i", 2, (int64_t[]){9, 12}), h = axes_of(te, "i", 2, (int64_t[]){9, 21}),
              y = axes_of(te, "i", 2, (int64_t[]){9, 10}), r = axes_of(te, "i", 1, (int64_t[]){9}),
              k = axes_of(te, "k", 1, (int64_t[]){12}), l = axes_of(te, "k", 1, (int64_t[]){21}),
              m = axes_of(te, "k", 1, (int64_t[]){10});
  const tn__expr *element = tn__ir_load(ir, x, a.index), *zero = tn__ir_constant(ir, TN_F32, 0);
  const tn__buffer *s = tn__te_compute(te, "S", &a, tn__ir_mul(ir, element, element));
  const tn__buffer *p = tn__te_reduce(
      te, "P", &h, &k, TN__TE_SUM,
      tn__ir_mul(ir, at(ir, s, 2, h.index[0], k.index[0], NULL), at(ir, w, 2, k.index[0], h.index[1], NULL)));
  const tn__buffer *q = tn__te_compute(te, "Q", &h, tn__ir_max(ir, tn__ir_load(ir, p, h.index), zero));
  const tn__buffer *o = tn__te_reduce(
      te, "O", &y, &l, TN__TE_SUM,
      tn__ir_mul(ir, at(ir, q, 2, y.index[0], l.index[0], NULL), at(ir, v, 2, l.index[0], y.index[1], NULL)));
  const tn__buffer *top = tn__te_reduce(te, "top", &r, &m, TN__TE_MAX, at(ir, o, 2, r.index[0], m.index[0], NULL));
  tn__te_output(
      te,
      tn__te_compute(te, "Y", &y, tn__ir_sub(ir, tn__ir_load(ir, o, y.index), at(ir, top, 1, y.index[0], NULL, NULL))));
  return te;
}

/* Two maps, the second reads a neighbourhood of the first. */
static inline tn__te *stencil(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "stencil");
  const tn__buffer *a = input(te, "A", 2, 8, 10, 0);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){8, 10});
  const tn__buffer *p =
      tn__te_compute(te, "P", &x, tn__ir_mul(ir, tn__ir_load(ir, a, x.index), tn__ir_constant(ir, TN_F32, 3)));
  tn__te_axes y = axes_of(te, "i", 2, (int64_t[]){7, 8});
  const tn__expr *i = y.index[0], *j = y.index[1];
  const tn__expr *sum =
      tn__ir_add(ir, at(ir, p, 2, i, j, NULL), at(ir, p, 2, tn__ir_add_i(ir, i, 1), tn__ir_add_i(ir, j, 2), NULL));
  const tn__buffer *q = tn__te_compute(te, "Q", &y, sum);
  tn__te_axes z = axes_of(te, "i", 2, (int64_t[]){7, 8});
  tn__te_output(
      te, tn__te_compute(te, "R", &z, tn__ir_sub(ir, tn__ir_load(ir, q, z.index), tn__ir_constant(ir, TN_F32, 1))));
  return te;
}

/* A chain over rows like softmax, in whole numbers. */
static inline tn__te *rows(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "rows");
  const tn__buffer *a = input(te, "A", 2, 6, 37, 0);
  tn__te_axes r = axes_of(te, "i", 1, (int64_t[]){6}), k = axes_of(te, "k", 1, (int64_t[]){37});
  const tn__buffer *top = tn__te_reduce(te, "top", &r, &k, TN__TE_MAX, at(ir, a, 2, r.index[0], k.index[0], NULL));
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){6, 37});
  const tn__expr *shifted = tn__ir_sub(ir, tn__ir_load(ir, a, x.index), at(ir, top, 1, x.index[0], NULL, NULL));
  const tn__buffer *e = tn__te_compute(te, "e", &x, tn__ir_mul(ir, shifted, tn__ir_constant(ir, TN_F32, 2)));
  tn__te_axes r2 = axes_of(te, "i", 1, (int64_t[]){6}), k2 = axes_of(te, "k", 1, (int64_t[]){37});
  const tn__buffer *sum = tn__te_reduce(te, "sum", &r2, &k2, TN__TE_SUM, at(ir, e, 2, r2.index[0], k2.index[0], NULL));
  tn__te_axes y = axes_of(te, "i", 2, (int64_t[]){6, 37});
  const tn__expr *value = tn__ir_add(ir, tn__ir_load(ir, e, y.index), at(ir, sum, 1, y.index[0], NULL, NULL));
  tn__te_output(te, tn__te_compute(te, "out", &y, value));
  return te;
}

/* A padded 3 x 3 convolution with 2 channels in, channels last, stride 1, then relu, channels first if so. */
static inline tn__te *convolution_of(tn__ir *ir, int64_t channels, bool first) {
  tn__te *te = tn__te_create(ir, "convolution");
  const tn__expr *shape[] = {tn__ir_index(ir, 3), tn__ir_index(ir, 3), tn__ir_index(ir, 2), tn__ir_index(ir, channels)};
  const tn__buffer *a = input(te, "A", 3, 6, 7, 2), *w = tn__te_input(te, "W", TN_F32, 4, shape);
  tn__te_axes p = axes_of(te, "p", 3, (int64_t[]){8, 9, 2});
  const tn__expr *i = tn__ir_add_i(ir, p.index[0], -1), *j = tn__ir_add_i(ir, p.index[1], -1),
                 *zero = tn__ir_index(ir, 0);
  const tn__expr *in_i = tn__ir_and(ir, tn__ir_le(ir, zero, i), tn__ir_lt(ir, i, tn__ir_index(ir, 6)));
  const tn__expr *in_j = tn__ir_and(ir, tn__ir_le(ir, zero, j), tn__ir_lt(ir, j, tn__ir_index(ir, 7)));
  const tn__expr *padded =
      tn__ir_select(ir, tn__ir_and(ir, in_i, in_j), at(ir, a, 3, i, j, p.index[2]), tn__ir_constant(ir, TN_F32, 0));
  const tn__buffer *pad = tn__te_compute(te, "pad", &p, padded);
  tn__te_axes x = axes_of(te, "o", 3, (int64_t[]){6, 7, channels}), r = axes_of(te, "k", 3, (int64_t[]){3, 3, 2});
  const tn__expr *weights[] = {r.index[0], r.index[1], r.index[2], x.index[2]};
  const tn__expr *read =
      at(ir, pad, 3, tn__ir_add(ir, x.index[0], r.index[0]), tn__ir_add(ir, x.index[1], r.index[1]), r.index[2]);
  const tn__buffer *c = tn__te_reduce(te, "C", &x, &r, TN__TE_SUM, tn__ir_mul(ir, read, tn__ir_load(ir, w, weights)));
  tn__te_axes y = axes_of(te, "o", 3, first ? (int64_t[]){channels, 6, 7} : (int64_t[]){6, 7, channels});
  const tn__expr *last[] = {y.index[1], y.index[2], y.index[0]};
  const tn__expr *sum = tn__ir_load(ir, c, first ? last : y.index);
  tn__te_output(te, tn__te_compute(te, "D", &y, tn__ir_max(ir, sum, tn__ir_constant(ir, TN_F32, 0))));
  return te;
}

static inline tn__te *convolution(tn__ir *ir) { return convolution_of(ir, 5, false); }
static inline tn__te *convolution_first(tn__ir *ir) { return convolution_of(ir, 20, true); }

/* The greatest element of each row of A, and its place. */
static inline void top_of_rows(tn__te *te, int64_t row_count, int64_t columns, const tn__buffer *out[2]) {
  tn__ir *ir = tn__te_ir(te);
  const tn__buffer *a = input(te, "A", 2, row_count, columns, 0);
  tn__te_axes x = axes_of(te, "i", 1, &row_count), r = axes_of(te, "k", 1, &columns);
  const tn__expr *terms[] = {at(ir, a, 2, x.index[0], r.index[0], NULL), r.index[0]};
  tn__te_reduce_with(te, "top", &x, &r, tn__te_arg_combiner(te, TN_F32, TN_I64, true, false), terms, out);
}

/* The place of the greatest element of each row, and the element plus one. */
static inline tn__te *argmax(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "argmax");
  const tn__buffer *out[2];
  top_of_rows(te, 5, 20, out);
  tn__te_axes y = axes_of(te, "i", 1, (int64_t[]){5});
  tn__te_output(te, tn__te_compute(te, "one_more", &y,
                                   tn__ir_add(ir, tn__ir_load(ir, out[0], y.index), tn__ir_constant(ir, TN_F32, 1))));
  tn__te_output(te, out[1]);
  return te;
}

/* Running sums down the columns, from products. */
static inline tn__te *running(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "running");
  const tn__buffer *a = input(te, "A", 2, 6, 9, 0), *sums;
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){6, 9}), s = axes_of(te, "i", 2, (int64_t[]){6, 9});
  const tn__buffer *p =
      tn__te_compute(te, "P", &x, tn__ir_mul(ir, tn__ir_load(ir, a, x.index), tn__ir_constant(ir, TN_F32, 2)));
  tn_dtype dtype = TN_F32;
  tn__te_scan_declare(te, "S", &s, &dtype, 1, &sums);
  const tn__expr *here = tn__ir_load(ir, p, s.index);
  const tn__expr *before = at(ir, sums, 2, tn__ir_add_i(ir, s.index[0], -1), s.index[1], NULL),
                 *update = tn__ir_add(ir, before, here);
  tn__te_scan_define(te, &s, 0, 1, &here, &update, &sums, 1);
  tn__te_output(te, sums);
  return te;
}

/* Greatest value of 3 x 3 windows with stride 2, channels last. */
static inline tn__te *pool(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "pool");
  const tn__buffer *a = input(te, "A", 3, 9, 7, 6);
  tn__te_axes x = axes_of(te, "o", 3, (int64_t[]){4, 3, 6}), r = axes_of(te, "k", 2, (int64_t[]){3, 3});
  const tn__expr *i = tn__ir_add(ir, tn__ir_mul_i(ir, x.index[0], 2), r.index[0]);
  const tn__expr *j = tn__ir_add(ir, tn__ir_mul_i(ir, x.index[1], 2), r.index[1]);
  tn__te_output(te, tn__te_reduce(te, "M", &x, &r, TN__TE_MAX, at(ir, a, 3, i, j, x.index[2])));
  return te;
}

/* A product whose right operand is one number everywhere; multiplying by 1 goes away altogether. */
static inline tn__te *splat_product_of(tn__ir *ir, double number) {
  tn__te *te = tn__te_create(ir, "splat_product");
  const tn__buffer *a = input(te, "A", 2, 19, 7, 0);
  tn__te_axes w = axes_of(te, "w", 2, (int64_t[]){7, 33});
  const tn__buffer *splat = tn__te_compute(te, "splat", &w, tn__ir_constant(ir, TN_F32, number));
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){19, 33}), r = axes_of(te, "k", 1, (int64_t[]){7});
  const tn__expr *left = at(ir, a, 2, x.index[0], r.index[0], NULL),
                 *right = at(ir, splat, 2, r.index[0], x.index[1], NULL);
  tn__te_output(te, tn__te_reduce(te, "C", &x, &r, TN__TE_SUM, tn__ir_mul(ir, left, right)));
  return te;
}
static inline tn__te *splat_product(tn__ir *ir) { return splat_product_of(ir, 3); }
static inline tn__te *ones_product(tn__ir *ir) { return splat_product_of(ir, 1); }

/* A grouped 1 x 1 convolution over 9 positions: two groups of 3 channels in and 20 out. */
static inline tn__te *grouped(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "grouped");
  const tn__buffer *a = input(te, "A", 2, 9, 6, 0), *w = input(te, "W", 2, 3, 40, 0);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){9, 40}), r = axes_of(te, "k", 1, (int64_t[]){3});
  const tn__expr *channel = tn__ir_add(ir, tn__ir_mul_i(ir, tn__ir_div_i(ir, x.index[1], 20), 3), r.index[0]);
  const tn__expr *term =
      tn__ir_mul(ir, at(ir, a, 2, x.index[0], channel, NULL), at(ir, w, 2, r.index[0], x.index[1], NULL));
  tn__te_output(te, tn__te_reduce(te, "C", &x, &r, TN__TE_SUM, term));
  return te;
}

/* Sums of five neighbours along the contiguous axis, padded, as in local response normalisation. */
static inline tn__te *neighbours(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "neighbours");
  const tn__buffer *a = input(te, "A", 2, 4, 32, 0);
  tn__te_axes p = axes_of(te, "p", 2, (int64_t[]){4, 36}), x = axes_of(te, "i", 2, (int64_t[]){4, 32});
  tn__te_axes r = axes_of(te, "k", 1, (int64_t[]){5});
  const tn__expr *j = tn__ir_add_i(ir, p.index[1], -2), *zero = tn__ir_constant(ir, TN_F32, 0);
  const tn__expr *inside =
      tn__ir_and(ir, tn__ir_le(ir, tn__ir_index(ir, 0), j), tn__ir_lt(ir, j, tn__ir_index(ir, 32)));
  const tn__buffer *pad =
      tn__te_compute(te, "pad", &p, tn__ir_select(ir, inside, at(ir, a, 2, p.index[0], j, NULL), zero));
  const tn__expr *term = at(ir, pad, 2, x.index[0], tn__ir_add(ir, x.index[1], r.index[0]), NULL);
  tn__te_output(te, tn__te_reduce(te, "sum", &x, &r, TN__TE_SUM, term));
  return te;
}

/* One map with two readers at different offsets, which meet in the output. */
static inline tn__te *two_readers(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "two_readers");
  const tn__buffer *a = input(te, "A", 2, 6, 14, 0);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){6, 14}), y = axes_of(te, "i", 2, (int64_t[]){6, 12});
  const tn__buffer *p =
      tn__te_compute(te, "P", &x, tn__ir_add(ir, tn__ir_load(ir, a, x.index), tn__ir_constant(ir, TN_F32, 3)));
  const tn__expr *shifted = at(ir, p, 2, y.index[0], tn__ir_add_i(ir, y.index[1], 2), NULL);
  const tn__buffer *q = tn__te_compute(te, "Q", &y, tn__ir_mul(ir, shifted, tn__ir_constant(ir, TN_F32, 2)));
  tn__te_axes z = axes_of(te, "i", 2, (int64_t[]){6, 12}), r = axes_of(te, "k", 1, (int64_t[]){3});
  const tn__expr *near =
      at(ir, p, 2, z.index[0], tn__ir_add_i(ir, tn__ir_min(ir, z.index[1], tn__ir_index(ir, 10)), 1), NULL);
  const tn__buffer *t =
      tn__te_reduce(te, "T", &z, &r, TN__TE_SUM, tn__ir_mul(ir, near, tn__ir_cast(ir, TN_F32, r.index[0])));
  tn__te_axes w = axes_of(te, "i", 2, (int64_t[]){6, 12});
  const tn__expr *sum = tn__ir_add(ir, tn__ir_load(ir, q, w.index), at(ir, p, 2, w.index[0], w.index[1], NULL));
  tn__te_output(te, tn__te_compute(te, "R", &w, tn__ir_sub(ir, sum, tn__ir_load(ir, t, w.index))));
  return te;
}

/* A scan whose steps read their neighbours along the other axis, and a batch axis that they keep to. */
static inline tn__te *skewed(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "skewed");
  const tn__buffer *a = input(te, "A", 3, 5, 3, 6), *state;
  tn__te_axes x = axes_of(te, "i", 3, (int64_t[]){5, 3, 6});
  tn_dtype dtype = TN_F32;
  tn__te_scan_declare(te, "S", &x, &dtype, 1, &state);
  const tn__expr *here = tn__ir_load(ir, a, x.index), *earlier = tn__ir_add_i(ir, x.index[0], -1),
                 *last = tn__ir_index(ir, 5);
  const tn__expr *next = tn__ir_min(ir, tn__ir_add_i(ir, x.index[2], 1), last);
  const tn__expr *update = tn__ir_add(ir, here, at(ir, state, 3, earlier, x.index[1], next));
  tn__te_scan_define(te, &x, 0, 1, &here, &update, &state, 1);
  tn__te_output(te, state);
  return te;
}

/* A scan whose steps multiply what the step before gave by a matrix, and take it through a map. */
static inline tn__te *recurrent(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "recurrent");
  const tn__buffer *a = input(te, "A", 2, 5, 6, 0), *w = input(te, "W", 2, 6, 6, 0), *state;
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){5, 6}), p = axes_of(te, "i", 2, (int64_t[]){5, 6}), m = p;
  tn__te_axes k = axes_of(te, "k", 1, (int64_t[]){6});
  p.var[0] = m.var[0] = x.var[0];
  p.index[0] = m.index[0] = x.index[0];
  tn_dtype dtype = TN_F32;
  tn__te_scan_declare(te, "S", &x, &dtype, 1, &state);
  const tn__expr *before = at(ir, state, 2, tn__ir_add_i(ir, x.index[0], -1), k.index[0], NULL);
  const tn__expr *weight = at(ir, w, 2, k.index[0], p.index[1], NULL);
  const tn__buffer *sum = tn__te_reduce(te, "P", &p, &k, TN__TE_SUM, tn__ir_mul(ir, before, weight));
  tn__te_put_in_step(te, sum, state);
  const tn__expr *less = tn__ir_min(ir, tn__ir_load(ir, sum, m.index), tn__ir_constant(ir, TN_F32, 5));
  const tn__buffer *map = tn__te_compute(te, "M", &m, less);
  tn__te_put_in_step(te, map, state);
  const tn__expr *here = tn__ir_load(ir, a, x.index), *update = tn__ir_add(ir, here, tn__ir_load(ir, map, x.index));
  tn__te_scan_define(te, &x, 0, 1, &here, &update, &state, 1);
  tn__te_output(te, state);
  return te;
}

/* Sums over the rows of a matrix: neighbouring results are contiguous. */
static inline tn__te *column_sums(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "column_sums");
  const tn__buffer *a = input(te, "A", 2, 11, 40, 0);
  tn__te_axes x = axes_of(te, "i", 1, (int64_t[]){40}), r = axes_of(te, "k", 1, (int64_t[]){11});
  const tn__buffer *sum = tn__te_reduce(te, "sum", &x, &r, TN__TE_SUM, at(ir, a, 2, r.index[0], x.index[0], NULL));
  tn__te_axes y = axes_of(te, "i", 1, (int64_t[]){40});
  tn__te_output(te, tn__te_compute(te, "half", &y,
                                   tn__ir_mul(ir, tn__ir_load(ir, sum, y.index), tn__ir_constant(ir, TN_F32, 0.5))));
  return te;
}

/* Sums over the outer axis that a map repeats along that axis, as normalisation over it does. */
static inline tn__te *repeated_sums(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "repeated_sums");
  const tn__buffer *a = input(te, "A", 2, 11, 40, 0);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){1, 40}), r = axes_of(te, "k", 1, (int64_t[]){11});
  const tn__buffer *sum = tn__te_reduce(te, "sum", &x, &r, TN__TE_SUM, at(ir, a, 2, r.index[0], x.index[1], NULL));
  tn__te_axes y = axes_of(te, "i", 2, (int64_t[]){11, 40});
  const tn__expr *own = tn__ir_load(ir, a, y.index);
  tn__te_output(
      te, tn__te_compute(te, "out", &y, tn__ir_sub(ir, own, at(ir, sum, 2, tn__ir_index(ir, 0), y.index[1], NULL))));
  return te;
}

/* A product whose right operand lies along the reduction, like Q * K^T, for two heads. */
static inline tn__te *transposed_product(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "transposed_product");
  const tn__buffer *a = input(te, "A", 3, 2, 18, 5), *b = input(te, "B", 3, 2, 37, 5);
  tn__te_axes x = axes_of(te, "i", 3, (int64_t[]){2, 18, 37}), r = axes_of(te, "k", 1, (int64_t[]){5});
  const tn__expr *left = at(ir, a, 3, x.index[0], x.index[1], r.index[0]);
  const tn__expr *right = at(ir, b, 3, x.index[0], x.index[2], r.index[0]);
  tn__te_output(te, tn__te_reduce(te, "C", &x, &r, TN__TE_SUM, tn__ir_mul(ir, left, right)));
  return te;
}

/* Both operands have the axis in front that the other product has behind, and the result is turned or has a map behind:
 * the vectors of a tile and those of the output run along different axes. Rows are open where they are 0. */
static inline tn__te *turned_product_of(tn__ir *ir, int64_t m, bool turned, bool biased) {
  tn__te *te = tn__te_create(ir, "turned_product");
  const tn__expr *rows = m > 0 ? tn__ir_index(ir, m) : tn__te_dim(te, "M", 1)->self, *n = tn__ir_index(ir, 37),
                 *k = tn__ir_index(ir, 11);
  const tn__buffer *a = tn__te_input(te, "A", TN_F32, 2, (const tn__expr *[]){turned ? rows : k, turned ? k : rows});
  const tn__buffer *b = tn__te_input(te, "B", TN_F32, 2, (const tn__expr *[]){turned ? k : n, turned ? n : k});
  const tn__buffer *bias = tn__te_input(te, "bias", TN_F32, 1, &n);
  const tn__expr *shape[] = {turned ? n : rows, turned ? rows : n};
  tn__te_axes x = tn__te_axes_create(te, "i", 2, shape), r = tn__te_axes_create(te, "k", 1, &k);
  const tn__expr *i = x.index[turned], *j = x.index[!turned];
  const tn__expr *left = turned ? at(ir, a, 2, i, r.index[0], NULL) : at(ir, a, 2, r.index[0], i, NULL);
  const tn__expr *right = turned ? at(ir, b, 2, r.index[0], j, NULL) : at(ir, b, 2, j, r.index[0], NULL);
  const tn__buffer *c = tn__te_reduce(te, "C", &x, &r, TN__TE_SUM, tn__ir_mul(ir, left, right));
  tn__te_axes y = tn__te_axes_create(te, "i", 2, shape);
  const tn__expr *value = tn__ir_add(ir, tn__ir_load(ir, c, y.index), at(ir, bias, 1, y.index[!turned], NULL, NULL));
  tn__te_output(te, biased ? tn__te_compute(te, "D", &y, value) : c);
  return te;
}
static inline tn__te *turned_product(tn__ir *ir) { return turned_product_of(ir, 23, true, false); }
static inline tn__te *product_of_turned(tn__ir *ir) { return turned_product_of(ir, 23, false, true); }
static inline tn__te *open_turned_product(tn__ir *ir) { return turned_product_of(ir, 0, true, true); }
static inline tn__te *open_product_of_turned(tn__ir *ir) { return turned_product_of(ir, 0, false, false); }

/* A padded product: its columns beyond the result's are computed and dropped. */
static inline tn__te *packed_product(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "packed_product");
  const tn__expr *rows = tn__te_dim(te, "M", 1)->self, *n = tn__ir_index(ir, 64), *k = tn__ir_index(ir, 6);
  const tn__buffer *a = tn__te_input(te, "A", TN_F32, 2, (const tn__expr *[]){rows, k}),
                   *b = input(te, "B", 3, 2, 6, 32);
  tn__te_axes x = tn__te_axes_create(te, "i", 2, (const tn__expr *[]){rows, n}), r = tn__te_axes_create(te, "k", 1, &k);
  const tn__expr *right = at(ir, b, 3, tn__ir_div_i(ir, x.index[1], 32), r.index[0], tn__ir_mod_i(ir, x.index[1], 32));
  const tn__expr *term = tn__ir_mul(ir, at(ir, a, 2, x.index[0], r.index[0], NULL), right);
  const tn__buffer *c = tn__te_reduce(te, "C", &x, &r, TN__TE_SUM, term);
  tn__te_axes y = tn__te_axes_create(te, "i", 2, (const tn__expr *[]){rows, tn__ir_index(ir, 45)});
  tn__te_output(te, tn__te_compute(te, "D", &y, tn__ir_load(ir, c, y.index)));
  return te;
}

/* Dot products over `depth` narrow numbers, as the instructions of tensorize take them, then a map over the sums. */
static inline tn__te *dots_of(tn__ir *ir, tn_dtype left, tn_dtype right, tn_dtype sum, int64_t groups, int64_t depth) {
  tn__te *te = tn__te_create(ir, "dots");
  const tn__expr *m = tn__ir_index(ir, 5), *n = tn__ir_index(ir, 32), *k = tn__ir_index(ir, groups),
                 *p = tn__ir_index(ir, depth);
  const tn__buffer *a = tn__te_input(te, "A", left, 2, (const tn__expr *[]){m, tn__ir_mul(ir, k, p)});
  const tn__buffer *b = tn__te_input(te, "B", right, 2, (const tn__expr *[]){tn__ir_mul(ir, k, p), n});
  tn__te_axes x = tn__te_axes_create(te, "i", 2, (const tn__expr *[]){m, n});
  tn__te_axes r = tn__te_axes_create(te, "k", 2, (const tn__expr *[]){k, p});
  const tn__expr *deep = tn__ir_add(ir, tn__ir_mul(ir, r.index[0], p), r.index[1]);
  const tn__expr *lhs = tn__ir_cast(ir, sum, at(ir, a, 2, x.index[0], deep, NULL));
  const tn__expr *rhs = tn__ir_cast(ir, sum, at(ir, b, 2, deep, x.index[1], NULL));
  const tn__buffer *c = tn__te_reduce(te, "C", &x, &r, TN__TE_SUM, tn__ir_mul(ir, lhs, rhs));
  tn__te_axes y = tn__te_axes_create(te, "i", 2, (const tn__expr *[]){m, n});
  tn__te_output(te,
                tn__te_compute(te, "D", &y, tn__ir_max(ir, tn__ir_load(ir, c, y.index), tn__ir_constant(ir, sum, 0))));
  return te;
}
static inline tn__te *bf16_dots(tn__ir *ir) { return dots_of(ir, TN_BF16, TN_BF16, TN_F32, 3, 2); }
static inline tn__te *int8_dots(tn__ir *ir) { return dots_of(ir, TN_U8, TN_I8, TN_I32, 3, 4); }

/* Filters of 3 rows over 7 by minimal filtering, in two steps: tiles of 2 rows whose places are chosen among, and
 * back. */
static inline tn__te *filtered_tiles(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "tiles");
  const tn__buffer *a = input(te, "A", 2, 10, 18, 0), *b = input(te, "B", 1, 18, 0, 0);
  tn__te_axes r = axes_of(te, "r", 3, (int64_t[]){3, 4, 18}), y = axes_of(te, "y", 2, (int64_t[]){7, 18});
  const tn__expr *line[3], *one = tn__ir_index(ir, 1), *zero = tn__ir_index(ir, 0);
  for (int i = 0; i < 3; i++)
    line[i] = at(ir, a, 2, tn__ir_add_i(ir, tn__ir_mul_i(ir, r.index[1], 2), i), r.index[2], NULL);
  const tn__expr *others = tn__ir_select(ir, tn__ir_eq(ir, r.index[0], one), tn__ir_add(ir, line[1], line[2]), line[2]);
  const tn__expr *first = tn__ir_select(ir, tn__ir_eq(ir, r.index[0], zero), tn__ir_sub(ir, line[0], line[2]), others);
  const tn__buffer *rows = tn__te_compute(te, "R", &r, first);
  for (int i = 0; i < 3; i++)
    line[i] = at(ir, rows, 3, tn__ir_index(ir, i), tn__ir_div_i(ir, y.index[0], 2), y.index[1]);
  const tn__expr *even = tn__ir_eq(ir, tn__ir_mod_i(ir, y.index[0], 2), zero);
  const tn__buffer *back = tn__te_compute(
      te, "S", &y, tn__ir_select(ir, even, tn__ir_add(ir, line[0], line[1]), tn__ir_sub(ir, line[1], line[2])));
  tn__te_axes z = axes_of(te, "z", 2, (int64_t[]){7, 18});
  const tn__expr *sum = tn__ir_add(ir, tn__ir_load(ir, back, z.index), at(ir, b, 1, z.index[1], NULL, NULL));
  tn__te_output(te, tn__te_compute(te, "T", &z, tn__ir_max(ir, sum, tn__ir_constant(ir, TN_F32, 0))));
  return te;
}

/* What attention computes, in whole numbers: rows of a product less their maximum, plus their sum, times values. */
static inline tn__te *attention_of(tn__ir *ir, int64_t rows, int64_t keys, int64_t depth, int64_t columns) {
  tn__te *te = tn__te_create(ir, "attention");
  const tn__buffer *q = input(te, "Q", 3, 2, rows, depth), *k = input(te, "K", 3, 2, keys, depth),
                   *v = input(te, "V", 3, 2, keys, columns), *mask = input(te, "mask", 1, keys, 0, 0);
  tn__te_axes x = axes_of(te, "i", 3, (int64_t[]){2, rows, keys}), r = axes_of(te, "k", 1, (int64_t[]){depth});
  const tn__expr *left = at(ir, q, 3, x.index[0], x.index[1], r.index[0]);
  const tn__expr *right = at(ir, k, 3, x.index[0], x.index[2], r.index[0]);
  const tn__buffer *scores = tn__te_reduce(te, "scores", &x, &r, TN__TE_SUM, tn__ir_mul(ir, left, right));
  tn__te_axes z = axes_of(te, "i", 3, (int64_t[]){2, rows, keys});
  const tn__expr *twice = tn__ir_mul(ir, tn__ir_load(ir, scores, z.index), tn__ir_constant(ir, TN_F32, 2));
  const tn__buffer *masked =
      tn__te_compute(te, "masked", &z, tn__ir_add(ir, twice, at(ir, mask, 1, z.index[2], NULL, NULL)));
  const int64_t row[] = {2, rows, 1}, key = keys;
  tn__te_axes t = axes_of(te, "i", 3, row), tk = axes_of(te, "k", 1, &key);
  const tn__buffer *top =
      tn__te_reduce(te, "top", &t, &tk, TN__TE_MAX, at(ir, masked, 3, t.index[0], t.index[1], tk.index[0]));
  tn__te_axes e = axes_of(te, "i", 3, (int64_t[]){2, rows, keys});
  const tn__expr *less =
      tn__ir_sub(ir, tn__ir_load(ir, masked, e.index), at(ir, top, 3, e.index[0], e.index[1], tn__ir_index(ir, 0)));
  const tn__buffer *power = tn__te_compute(te, "power", &e, tn__ir_mul(ir, less, tn__ir_constant(ir, TN_F32, 3)));
  tn__te_axes u = axes_of(te, "i", 3, row), uk = axes_of(te, "k", 1, &key);
  const tn__buffer *total =
      tn__te_reduce(te, "total", &u, &uk, TN__TE_SUM, at(ir, power, 3, u.index[0], u.index[1], uk.index[0]));
  tn__te_axes w = axes_of(te, "i", 3, (int64_t[]){2, rows, keys});
  const tn__expr *more =
      tn__ir_add(ir, tn__ir_load(ir, power, w.index), at(ir, total, 3, w.index[0], w.index[1], tn__ir_index(ir, 0)));
  const tn__buffer *weights = tn__te_compute(te, "weights", &w, more);
  tn__te_axes y = axes_of(te, "i", 3, (int64_t[]){2, rows, columns}), yk = axes_of(te, "k", 1, &key);
  const tn__expr *weight = at(ir, weights, 3, y.index[0], y.index[1], yk.index[0]);
  const tn__expr *value = at(ir, v, 3, y.index[0], yk.index[0], y.index[2]);
  tn__te_output(te, tn__te_reduce(te, "result", &y, &yk, TN__TE_SUM, tn__ir_mul(ir, weight, value)));
  return te;
}
static inline tn__te *attention(tn__ir *ir) { return attention_of(ir, 13, 21, 5, 9); }
static inline tn__te *wide_attention(tn__ir *ir) { return attention_of(ir, 24, 49, 8, 64); } /* for several threads */

/* Reductions that are no sums of products of two, of tensors that meet as those of a product do. */
typedef enum meeting_kind { DISTANCES, LEAST_SUMS, THREE_FACTORS, TRIANGULAR, COMPLEX, SCALED } meeting_kind;

static inline const tn__expr *meeting_term(tn__ir *ir, meeting_kind kind, const tn__expr *const in[4],
                                           const tn__expr *row, const tn__expr *at) {
  const tn__expr *product = tn__ir_mul(ir, in[0], in[1]);
  switch (kind) {
    case DISTANCES: return tn__ir_call1(ir, TN__CALL_ABS, tn__ir_sub(ir, in[0], in[1]));
    case LEAST_SUMS: return tn__ir_add(ir, in[0], in[1]);
    case THREE_FACTORS: return tn__ir_mul(ir, tn__ir_mul(ir, in[0], in[2]), in[1]);
    case TRIANGULAR:
      return tn__ir_mul(ir, tn__ir_select(ir, tn__ir_le(ir, at, row), in[0], tn__ir_constant(ir, TN_F32, 0)), in[1]);
    case COMPLEX: return tn__ir_sub(ir, product, tn__ir_mul(ir, in[3], in[1]));
    default: return tn__ir_mul(ir, in[0], tn__ir_mul(ir, tn__ir_sub(ir, in[1], in[2]), in[2]));
  }
}

/* Rows are open where they are 0. */
static inline tn__te *meeting_of(tn__ir *ir, meeting_kind kind, int64_t m) {
  tn__te *te = tn__te_create(ir, "meeting");
  const tn__expr *rows = m > 0 ? tn__ir_index(ir, m) : tn__te_dim(te, "M", 1)->self, *n = tn__ir_index(ir, 37),
                 *k = tn__ir_index(ir, 11);
  const tn__expr *left[] = {rows, k}, *right[] = {kind == DISTANCES ? n : k, kind == DISTANCES ? k : n};
  const tn__buffer *a = tn__te_input(te, "A", TN_F32, 2, left), *b = tn__te_input(te, "B", TN_F32, 2, right),
                   *w = tn__te_input(te, "w", TN_F32, 1, &k), *c = tn__te_input(te, "E", TN_F32, 2, left), *sum = NULL;
  for (int i = 0; i < (kind == COMPLEX ? 2 : 1); i++) {
    tn__te_axes x = tn__te_axes_create(te, "i", 2, (const tn__expr *[]){rows, n}),
                r = tn__te_axes_create(te, "k", 1, &k);
    const tn__expr *in[] = {
        at(ir, i == 0 ? a : c, 2, x.index[0], r.index[0], NULL),
        kind == DISTANCES ? at(ir, b, 2, x.index[1], r.index[0], NULL) : at(ir, b, 2, r.index[0], x.index[1], NULL),
        at(ir, w, 1, r.index[0], NULL, NULL), at(ir, i == 0 ? c : a, 2, x.index[0], r.index[0], NULL)};
    sum = tn__te_reduce(te, i == 0 ? "C" : "D", &x, &r, kind == LEAST_SUMS ? TN__TE_MIN : TN__TE_SUM,
                        meeting_term(ir, kind, in, x.index[0], r.index[0]));
    if (i == 0 && kind == COMPLEX) tn__te_output(te, sum);
  }
  tn__te_output(te, sum);
  return te;
}
static inline tn__te *distances(tn__ir *ir) { return meeting_of(ir, DISTANCES, 23); }
static inline tn__te *open_distances(tn__ir *ir) { return meeting_of(ir, DISTANCES, 0); }
static inline tn__te *least_sums(tn__ir *ir) { return meeting_of(ir, LEAST_SUMS, 23); }
static inline tn__te *three_factors(tn__ir *ir) { return meeting_of(ir, THREE_FACTORS, 23); }
static inline tn__te *triangular(tn__ir *ir) { return meeting_of(ir, TRIANGULAR, 23); }
static inline tn__te *open_triangular(tn__ir *ir) { return meeting_of(ir, TRIANGULAR, 0); }
static inline tn__te *complex_product(tn__ir *ir) { return meeting_of(ir, COMPLEX, 23); }
static inline tn__te *scaled_product(tn__ir *ir) { return meeting_of(ir, SCALED, 23); }

/* How the weights of a 3 x 3 convolution change, channels first: what is contiguous has three steps, so that vectors
 * run along the channels of a copy. */
static inline tn__te *weight_gradient(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "weight_gradient");
  const int64_t high = 5, wide = 7, in = 9, out = 13;
  const tn__buffer *x = input(te, "X", 3, in, high + 2, wide + 2), *dy = input(te, "dY", 3, out, high, wide);
  tn__te_axes w = axes_of(te, "w", 4, (int64_t[]){out, in, 3, 3}), k = axes_of(te, "k", 2, (int64_t[]){high, wide});
  const tn__expr *i = tn__ir_add(ir, k.index[0], w.index[2]), *j = tn__ir_add(ir, k.index[1], w.index[3]);
  const tn__expr *image = at(ir, x, 3, w.index[1], i, j), *change = at(ir, dy, 3, w.index[0], k.index[0], k.index[1]);
  tn__te_output(te, tn__te_reduce(te, "dW", &w, &k, TN__TE_SUM, tn__ir_mul(ir, image, change)));
  return te;
}

/* Products whose operands have the batch behind, and whose result has it in front or in the middle. */
static inline tn__te *batch_behind_of(tn__ir *ir, int batch_at) {
  tn__te *te = tn__te_create(ir, "batch_behind");
  const int64_t batch = 5, m = 11, n = 21, depth = 6;
  const tn__buffer *a = input(te, "A", 3, depth, m, batch), *b = input(te, "B", 3, depth, n, batch);
  const int64_t in_front[] = {batch, n, m}, in_middle[] = {m, batch, n};
  tn__te_axes x = axes_of(te, "i", 3, batch_at == 0 ? in_front : in_middle), k = axes_of(te, "k", 1, &depth);
  const tn__expr *one = x.index[batch_at], *row = x.index[batch_at == 0 ? 2 : 0],
                 *column = x.index[batch_at == 0 ? 1 : 2];
  const tn__expr *term = tn__ir_mul(ir, at(ir, a, 3, k.index[0], row, one), at(ir, b, 3, k.index[0], column, one));
  tn__te_output(te, tn__te_reduce(te, "C", &x, &k, TN__TE_SUM, term));
  return te;
}
static inline tn__te *batch_behind(tn__ir *ir) { return batch_behind_of(ir, 0); }
static inline tn__te *batch_in_middle(tn__ir *ir) { return batch_behind_of(ir, 1); }

typedef tn__te *(*declaration)(tn__ir *ir);
/* A depthwise convolution, channels last, as wide as its margin allows. */
typedef struct depthwise_shape {
  int64_t high, wide, channels, window, stride, margin; /* the margin before the image; behind it lie window / 2 */
  bool rectified;                                       /* what is inside of the margin is more than a copy */
  bool first;                                           /* the result is written with its channels first */
} depthwise_shape;

static inline tn__te *depthwise_of(tn__ir *ir, const depthwise_shape *d) {
  tn__te *te = tn__te_create(ir, "depthwise");
  const tn__buffer *a = input(te, "A", 3, d->high, d->wide, d->channels);
  const tn__buffer *w = input(te, "W", 3, d->window, d->window, d->channels);
  int64_t high = d->high + d->margin + d->window / 2, wide = d->wide + d->margin + d->window / 2;
  tn__te_axes p = axes_of(te, "p", 3, (int64_t[]){high, wide, d->channels});
  const tn__expr *i = tn__ir_add_i(ir, p.index[0], -d->margin), *j = tn__ir_add_i(ir, p.index[1], -d->margin);
  const tn__expr *zero = tn__ir_index(ir, 0), *nothing = tn__ir_constant(ir, TN_F32, 0);
  const tn__expr *in_i = tn__ir_and(ir, tn__ir_le(ir, zero, i), tn__ir_lt(ir, i, tn__ir_index(ir, d->high)));
  const tn__expr *in_j = tn__ir_and(ir, tn__ir_le(ir, zero, j), tn__ir_lt(ir, j, tn__ir_index(ir, d->wide)));
  const tn__expr *image = at(ir, a, 3, i, j, p.index[2]);
  if (d->rectified) image = tn__ir_max(ir, image, nothing);
  const tn__buffer *pad = tn__te_compute(te, "pad", &p, tn__ir_select(ir, tn__ir_and(ir, in_i, in_j), image, nothing));
  int64_t stride = d->stride, window = d->window;
  int64_t extents[] = {(high - window) / stride + 1, (wide - window) / stride + 1, d->channels};
  tn__te_axes x = axes_of(te, "i", 3, extents);
  tn__te_axes k = axes_of(te, "k", 2, (int64_t[]){window, window});
  const tn__expr *row = tn__ir_add(ir, tn__ir_mul_i(ir, x.index[0], stride), k.index[0]);
  const tn__expr *column = tn__ir_add(ir, tn__ir_mul_i(ir, x.index[1], stride), k.index[1]);
  const tn__buffer *c = tn__te_reduce(
      te, "C", &x, &k, TN__TE_SUM,
      tn__ir_mul(ir, at(ir, pad, 3, row, column, x.index[2]), at(ir, w, 3, k.index[0], k.index[1], x.index[2])));
  int64_t turned[] = {extents[2], extents[0], extents[1]};
  tn__te_axes y = axes_of(te, "i", 3, d->first ? turned : extents);
  const tn__expr *last[] = {y.index[1], y.index[2], y.index[0]};
  const tn__expr *sum = tn__ir_load(ir, c, d->first ? last : y.index);
  tn__te_output(te, tn__te_compute(te, "D", &y, tn__ir_max(ir, sum, tn__ir_constant(ir, TN_F32, 0))));
  return te;
}

static inline tn__te *depthwise(tn__ir *ir) { /* for several threads */
  return depthwise_of(ir, &(depthwise_shape){27, 31, 40, 3, 1, 1, false});
}

static inline tn__te *strided_depthwise(tn__ir *ir) {
  return depthwise_of(ir, &(depthwise_shape){10, 13, 24, 3, 2, 1, false});
}

/* Borders that are wider than a tile may be, and not the same on both sides. */
static inline tn__te *wide_depthwise(tn__ir *ir) {
  return depthwise_of(ir, &(depthwise_shape){9, 11, 32, 7, 1, 2, false});
}

static inline tn__te *rectified_depthwise(tn__ir *ir) {
  return depthwise_of(ir, &(depthwise_shape){12, 17, 16, 5, 2, 2, true});
}

static inline tn__te *depthwise_first(tn__ir *ir) {
  return depthwise_of(ir, &(depthwise_shape){11, 19, 24, 3, 1, 1, false, true});
}

/* Channels first to channels last, with a bias and a maximum. */
static inline tn__te *turned_map(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "turned");
  const tn__buffer *a = input(te, "A", 3, 2, 21, 35), *bias = input(te, "bias", 1, 21, 0, 0);
  tn__te_axes x = axes_of(te, "i", 3, (int64_t[]){2, 35, 21});
  const tn__expr *value = at(ir, a, 3, x.index[0], x.index[2], x.index[1]);
  value = tn__ir_add(ir, value, at(ir, bias, 1, x.index[2], NULL, NULL));
  tn__te_output(te, tn__te_compute(te, "C", &x, tn__ir_max(ir, value, tn__ir_constant(ir, TN_F32, 0))));
  return te;
}

/* One where the element is the greatest of its row: the greatest itself has no reader but its own reduction. */
static inline tn__te *hardmax(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "hardmax");
  const tn__buffer *out[2];
  top_of_rows(te, 5, 21, out);
  tn__te_axes y = axes_of(te, "i", 2, (int64_t[]){5, 21});
  const tn__expr *is_top = tn__ir_eq(ir, y.index[1], tn__ir_load(ir, out[1], &y.index[0]));
  tn__te_output(te, tn__te_compute(te, "one", &y, tn__ir_cast(ir, TN_F32, is_top)));
  return te;
}

/* How often each number occurs, and the sums of rows that an index selects: enough terms for copies of the tensor and
 * for threads. */
static inline tn__te *occurrences(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "occurrences");
  const tn__expr *n = tn__ir_index(ir, 300001), *one = tn__ir_constant(ir, TN_F32, 1);
  const tn__buffer *x = tn__te_input(te, "X", TN_I32, 1, &n), *out;
  tn__te_axes h = axes_of(te, "h", 1, (int64_t[]){4}), k = tn__te_axes_create(te, "k", 1, &n);
  const tn__expr *into = tn__ir_cast(ir, TN_I64, tn__ir_load(ir, x, k.index));
  const tn__te_combiner *sum = tn__te_combiner_of(te, TN__TE_SUM, TN_F32);
  tn__te_accumulate_as(te, (const char *[]){"H"}, &h, &k, sum, &one, &into, NULL, &out);
  tn__te_output(te, out);
  return te;
}

static inline tn__te *selected_rows(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "selected_rows");
  const tn__expr *n = tn__ir_index(ir, 3001), *into[2];
  const tn__buffer *rows = input(te, "X", 2, 3001, 150, 0), *which = tn__te_input(te, "I", TN_I32, 1, &n), *out;
  tn__te_axes g = axes_of(te, "g", 2, (int64_t[]){5, 150}), k = tn__te_axes_create(te, "k", 1, &n);
  const tn__expr *term = at(ir, rows, 2, k.index[0], g.index[1], NULL);
  into[0] = tn__ir_cast(ir, TN_I64, tn__ir_load(ir, which, k.index));
  into[1] = g.index[1];
  const tn__te_combiner *sum = tn__te_combiner_of(te, TN__TE_SUM, TN_F32);
  tn__te_accumulate_as(te, (const char *[]){"G"}, &g, &k, sum, &term, into, NULL, &out);
  tn__te_output(te, out);
  return te;
}

/* Parts of a long row, which begin where data say, also outside of it, and are as long as data say, or have nothing:
 * `rows` of `all` elements, in which `columns` lie beside each other. */
static inline tn__te *parts_of(tn__ir *ir, int64_t rows, int64_t all, int64_t columns, bool best) {
  tn__te *te = tn__te_create(ir, "segments");
  const tn__expr *n = tn__ir_index(ir, rows), *zero = tn__ir_index(ir, 0), *index[2], *terms[2];
  const tn__buffer *start = tn__te_input(te, "s", TN_I32, 1, &n),
                   *x = input(te, "X", columns > 1 ? 2 : 1, all, columns, 0);
  tn__te_axes i = axes_of(te, "i", columns > 1 ? 2 : 1, (int64_t[]){rows, columns}), k = {.count = 1};
  const tn__expr *first = tn__ir_cast(ir, TN_I64, tn__ir_load(ir, start, i.index));
  const tn__expr *length = tn__ir_sub(ir, tn__ir_mul_i(ir, first, 2), i.index[0]);
  k.var[0] = tn__var_create(ir, "k", TN_I64, zero, tn__ir_max(ir, zero, length));
  k.index[0] = k.var[0]->self;
  index[0] = tn__ir_add(ir, first, k.index[0]);
  index[0] = tn__ir_min(ir, tn__ir_index(ir, all - 1), tn__ir_max(ir, zero, index[0]));
  if (columns > 1) index[1] = i.index[1];
  terms[0] = tn__ir_load(ir, x, index);
  terms[1] = k.index[0];
  const tn__buffer *out[2];
  if (best)
    tn__te_reduce_with(te, "y", &i, &k, tn__te_arg_combiner(te, TN_F32, TN_I64, true, false), terms, out);
  else
    out[0] = tn__te_reduce(te, "y", &i, &k, TN__TE_SUM, terms[0]);
  for (int t = 0; t <= best; t++) tn__te_output(te, out[t]);
  return te;
}
static inline tn__te *segments(tn__ir *ir) { return parts_of(ir, 37, 300, 1, false); }
static inline tn__te *long_segments(tn__ir *ir) { return parts_of(ir, 3, 3000, 1, false); }
static inline tn__te *segment_rows(tn__ir *ir) { return parts_of(ir, 11, 300, 19, false); }
static inline tn__te *best_of_segments(tn__ir *ir) { return parts_of(ir, 37, 300, 1, true); }

/* Products of complex numbers that lie in pairs: other places of a pair, other expressions. */
static inline tn__te *pairs(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "pairs");
  const tn__buffer *a = input(te, "A", 2, 83, 2, 0), *b = input(te, "B", 2, 83, 2, 0);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){83, 2});
  const tn__expr *n = x.index[0], *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1);
  const tn__expr *ar = at(ir, a, 2, n, zero, NULL), *ai = at(ir, a, 2, n, one, NULL);
  const tn__expr *br = at(ir, b, 2, n, zero, NULL), *bi = at(ir, b, 2, n, one, NULL);
  const tn__expr *real = tn__ir_mul(ir, ar, br), *imaginary = tn__ir_mul(ir, ar, bi);
  real = tn__ir_sub(ir, real, tn__ir_mul(ir, ai, bi));
  imaginary = tn__ir_add(ir, imaginary, tn__ir_mul(ir, ai, br));
  const tn__expr *value = tn__ir_select(ir, tn__ir_eq(ir, x.index[1], zero), real, imaginary);
  tn__te_output(te, tn__te_compute(te, "C", &x, value));
  return te;
}

/* Points in rows, each over the square root of its own sum of squares: reductions within groups of three. */
static inline tn__te *unit_points(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "unit_points");
  const tn__buffer *a = input(te, "A", 3, 5, 37, 3);
  tn__te_axes x = axes_of(te, "n", 2, (int64_t[]){5, 37}), k = axes_of(te, "k", 1, (int64_t[]){3});
  const tn__expr *part = at(ir, a, 3, x.index[0], x.index[1], k.index[0]);
  const tn__buffer *sum = tn__te_reduce(te, "s", &x, &k, TN__TE_SUM, tn__ir_mul(ir, part, part));
  tn__te_axes y = axes_of(te, "i", 3, (int64_t[]){5, 37, 3});
  const tn__expr *square = at(ir, sum, 2, y.index[0], y.index[1], NULL);
  const tn__expr *root = tn__ir_call(ir, TN__CALL_SQRT, TN_F32, &square, 1);
  const tn__expr *value = tn__ir_div(ir, at(ir, a, 3, y.index[0], y.index[1], y.index[2]), root);
  tn__te_output(te, tn__te_compute(te, "C", &y, value));
  return te;
}

/* Small vectors by one small matrix, with nothing behind it; the number of vectors is open. */
static inline tn__te *turned_points(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "turned_points");
  const tn__expr *rows = tn__te_dim(te, "M", 1)->self, *four = tn__ir_index(ir, 4), *shape[] = {rows, four};
  const tn__buffer *points = tn__te_input(te, "P", TN_F32, 2, shape), *matrix = input(te, "M", 2, 4, 4, 0);
  tn__te_axes x = tn__te_axes_create(te, "i", 2, shape), k = tn__te_axes_create(te, "k", 1, &four);
  const tn__expr *left = at(ir, matrix, 2, x.index[1], k.index[0], NULL);
  const tn__expr *right = at(ir, points, 2, x.index[0], k.index[0], NULL);
  tn__te_output(te, tn__te_reduce(te, "C", &x, &k, TN__TE_SUM, tn__ir_mul(ir, left, right)));
  return te;
}

/* Rows times the root of what belongs to a column: a function that all rows share. */
static inline tn__te *scaled_columns(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "scaled_columns");
  const tn__buffer *a = input(te, "A", 2, 21, 37, 0), *v = input(te, "v", 1, 37, 0, 0);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){21, 37});
  const tn__expr *square = at(ir, v, 1, x.index[1], NULL, NULL);
  const tn__expr *root = tn__ir_call(ir, TN__CALL_SQRT, TN_F32, &square, 1);
  tn__te_output(te, tn__te_compute(te, "C", &x, tn__ir_div(ir, at(ir, a, 2, x.index[0], x.index[1], NULL), root)));
  return te;
}

/* Sums of columns that are fewer than a vector has lanes, in each of two matrices. */
static inline tn__te *three_columns(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "three_columns");
  const tn__buffer *a = input(te, "A", 3, 2, 151, 3);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){2, 3}), k = axes_of(te, "k", 1, (int64_t[]){151});
  const tn__expr *term = at(ir, a, 3, x.index[0], k.index[0], x.index[1]);
  tn__te_output(te, tn__te_reduce(te, "C", &x, &k, TN__TE_SUM, tn__ir_mul(ir, term, term)));
  return te;
}

/* Sums of whole images, whose rows are odd. */
static inline tn__te *image_sums(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "image_sums");
  const tn__buffer *a = input(te, "A", 3, 5, 13, 11), *b = input(te, "B", 3, 5, 13, 11);
  tn__te_axes x = axes_of(te, "i", 1, (int64_t[]){5}), k = axes_of(te, "k", 2, (int64_t[]){13, 11});
  const tn__expr *left = at(ir, a, 3, x.index[0], k.index[0], k.index[1]);
  const tn__expr *right = at(ir, b, 3, x.index[0], k.index[0], k.index[1]);
  tn__te_output(te, tn__te_reduce(te, "C", &x, &k, TN__TE_SUM, tn__ir_mul(ir, left, right)));
  return te;
}

/* A tall matrix of few columns, turned, by itself: blocks of a reduction whose tile is narrower than its vector. */
static inline tn__te *tall_gram(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "tall_gram");
  const tn__buffer *a = input(te, "A", 2, 1801, 7, 0);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){7, 7}), k = axes_of(te, "k", 1, (int64_t[]){1801});
  const tn__expr *left = at(ir, a, 2, k.index[0], x.index[0], NULL),
                 *right = at(ir, a, 2, k.index[0], x.index[1], NULL);
  tn__te_output(te, tn__te_reduce(te, "C", &x, &k, TN__TE_SUM, tn__ir_mul(ir, left, right)));
  return te;
}

static const declaration declarations[] = {product,
                                           open_product,
                                           stencil,
                                           rows,
                                           convolution,
                                           argmax,
                                           hardmax,
                                           occurrences,
                                           selected_rows,
                                           segments,
                                           long_segments,
                                           segment_rows,
                                           best_of_segments,
                                           running,
                                           pool,
                                           wide_product,
                                           column_sums,
                                           transposed_product,
                                           packed_product,
                                           two_readers,
                                           skewed,
                                           splat_product,
                                           ones_product,
                                           neighbours,
                                           grouped,
                                           bf16_dots,
                                           int8_dots,
                                           filtered_tiles,
                                           depthwise,
                                           strided_depthwise,
                                           turned_map,
                                           wide_depthwise,
                                           rectified_depthwise,
                                           attention,
                                           wide_attention,
                                           repeated_sums,
                                           chain,
                                           network,
                                           turned_product,
                                           product_of_turned,
                                           open_turned_product,
                                           open_product_of_turned,
                                           distances,
                                           open_distances,
                                           least_sums,
                                           three_factors,
                                           triangular,
                                           open_triangular,
                                           complex_product,
                                           scaled_product,
                                           weight_gradient,
                                           batch_behind,
                                           batch_in_middle,
                                           pairs,
                                           scaled_columns,
                                           three_columns,
                                           image_sums,
                                           tall_gram,
                                           unit_points,
                                           turned_points,
                                           depthwise_first,
                                           convolution_first};
#define DECLARATION_COUNT ((int)(sizeof(declarations) / sizeof(declarations[0])))

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* The first kernel of a text; it lives as long as `ir`. */
static inline tn__te *declare_text(tn__ir *ir, const char *text) {
  tn__te_source *source;
  tn__te *te;
  check_ok(tn__te_parse(tn__ir_arena(ir), "t.te", text, strlen(text), &source));
  check_ok(tn__te_declare(source, 0, NULL, 0, ir, &te));
  return te;
}

static inline tn__target test_target(const char *name) {
  tn__target target;
  check_ok(tn__target_parse(name, &target));
  target.cpu.cores = 2;
  return target;
}

static inline void check_same(const tn__schedule *s) {
  tn_status *status = compare_results(s, 1);
  if (status == NULL) return;
  fail_msg("%s:\n%s%s", tn_status_message(status), schedule_text(s, false), schedule_text(s, true));
}

/* Refused as an invalid argument, in these words among others. */
static inline void check_words(tn_status *status, const char *words) {
  if (status == NULL) fail_msg("not refused: %s", words);
  if (strstr(tn_status_message(status), words) == NULL)
    fail_msg("\"%s\" instead of \"%s\"", tn_status_message(status), words);
  assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
  tn_status_free(status);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

typedef struct frame {
  tn__arena arena;
  void (*body)(tn__ir *ir, const void *arg);
  const void *arg;
} frame;

static inline void enter_frame(tn__escape *escape, void *arg) {
  frame *f = arg;
  tn__arena_init(&f->arena, NULL, escape);
  f->body(tn__ir_create(&f->arena), f->arg);
}

/* Calls `body` with a fresh context and gives what it throws. */
static inline tn_status *in_context(void (*body)(tn__ir *ir, const void *arg), const void *arg) {
  frame f = {.body = body, .arg = arg};
  tn__escape escape;
  tn_status *status = tn__protect(&escape, enter_frame, &f);
  tn__arena_release(&f.arena);
  return status;
}

#endif
