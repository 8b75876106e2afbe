/* Random declarations for the oracle of schedules, each from a few numbers that a shrinker can make smaller. */
#ifndef TENON_TESTS_UNIT_SCHEDULE_RECIPES_H
#define TENON_TESTS_UNIT_SCHEDULE_RECIPES_H

#include <stdio.h>

#include "unit/schedule_run.h"

/* Numbers from a seed, or from bytes while there are some (then all are 0). */
typedef struct dice {
  uint64_t state;
  const uint8_t *data;
  size_t size;
} dice;

static inline int roll(dice *d, int sides) {
  if (d->data != NULL) {
    if (d->size == 0) return 0;
    d->size--;
    return *d->data++ % sides;
  }
  d->state = d->state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (int)((d->state >> 33) % (uint64_t)sides);
}

typedef struct recipe {
  int kind; /* row of recipe_kinds */
  tn_dtype dtype;
  int dims[3];   /* from 1 on */
  int stride;    /* from 1 on */
  int variant;   /* bits; what they mean depends on the kind */
  bool open;     /* the first dimension is symbolic, where the kind can have that */
  uint32_t seed; /* of the inputs */
} recipe;

typedef struct making {
  tn__te *te;
  tn__ir *ir;
  const recipe *r;
  tn_dtype dtype;
  const tn__expr *dims[3];
} making;

static inline const tn__expr *load_at(making *m, const tn__buffer *b, const tn__expr *i, const tn__expr *j,
                                      const tn__expr *k) {
  const tn__expr *indices[] = {i, j, k};
  return tn__ir_load(m->ir, b, indices);
}

static inline tn__te_axes make_axes(making *m, const char *prefix, int rank, const tn__expr *a, const tn__expr *b,
                                    const tn__expr *c) {
  return tn__te_axes_create(m->te, prefix, rank, (const tn__expr *[]){a, b, c});
}

static inline const tn__buffer *make_input(making *m, const char *name, tn_dtype dtype, int rank, const tn__expr *a,
                                           const tn__expr *b, const tn__expr *c) {
  return tn__te_input(m->te, name, dtype, rank, (const tn__expr *[]){a, b, c});
}

static inline const tn__expr *number_of(making *m, double value) { return tn__ir_constant(m->ir, m->dtype, value); }
static inline const tn__expr *size_of(making *m, int64_t value) { return tn__ir_index(m->ir, value); }

/* output[...] = max(from, 0) + 1, and `from` itself when the variant says so. */
static inline void finish_with_map(making *m, const tn__buffer *from, bool both) {
  tn__te_axes y = tn__te_axes_create(m->te, "i", from->rank, from->shape);
  const tn__expr *zero = tn__ir_constant(m->ir, from->dtype, 0), *one = tn__ir_constant(m->ir, from->dtype, 1);
  const tn__expr *value = tn__ir_add(m->ir, tn__ir_max(m->ir, tn__ir_load(m->ir, from, y.index), zero), one);
  tn__te_output(m->te, tn__te_compute(m->te, "last", &y, value));
  if (both) tn__te_output(m->te, from);
}

/* C = A * B, then a bias along the columns. The variant turns operands and the result. */
static inline void make_product(making *m) {
  tn__ir *ir = m->ir;
  bool turn_a = m->r->variant & 1, turn_b = m->r->variant & 2, turn_c = m->r->variant & 4;
  const tn__expr *rows = m->dims[0], *columns = m->dims[1], *depth = m->dims[2];
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, turn_a ? depth : rows, turn_a ? rows : depth, NULL);
  const tn__buffer *b = make_input(m, "B", m->dtype, 2, turn_b ? columns : depth, turn_b ? depth : columns, NULL);
  const tn__buffer *bias = make_input(m, "bias", m->dtype, 1, columns, NULL, NULL);
  const tn__expr *first = turn_c ? columns : rows, *second = turn_c ? rows : columns;
  tn__te_axes x = make_axes(m, "i", 2, first, second, NULL), r = make_axes(m, "k", 1, depth, NULL, NULL);
  const tn__expr *i = x.index[turn_c], *j = x.index[!turn_c], *k = r.index[0];
  const tn__expr *left = load_at(m, a, turn_a ? k : i, turn_a ? i : k, NULL),
                 *right = load_at(m, b, turn_b ? j : k, turn_b ? k : j, NULL);
  const tn__buffer *c = tn__te_reduce(m->te, "C", &x, &r, TN__TE_SUM, tn__ir_mul(ir, left, right));
  tn__te_axes y = make_axes(m, "i", 2, first, second, NULL);
  const tn__expr *sum = tn__ir_add(ir, tn__ir_load(ir, c, y.index), load_at(m, bias, y.index[!turn_c], NULL, NULL));
  tn__te_output(m->te, tn__te_compute(m->te, "D", &y, sum));
}

/* Two neighbourhoods of a map, at a stride. */
static inline void make_stencil(making *m) {
  tn__ir *ir = m->ir;
  const recipe *r = m->r;
  const tn__expr *rows = size_of(m, (int64_t)(r->dims[0] - 1) * r->stride + 2), *columns = size_of(m, r->dims[1] + 2);
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, rows, columns, NULL);
  tn__te_axes x = make_axes(m, "i", 2, rows, columns, NULL);
  const tn__buffer *p = tn__te_compute(m->te, "P", &x, tn__ir_mul(ir, tn__ir_load(ir, a, x.index), number_of(m, 3)));
  const tn__expr *d0 = size_of(m, r->dims[0]), *d1 = size_of(m, r->dims[1]);
  tn__te_axes y = make_axes(m, "i", 2, d0, d1, NULL);
  const tn__expr *i = tn__ir_mul_i(ir, y.index[0], r->stride), *j = y.index[1];
  const tn__expr *here = load_at(m, p, i, j, NULL),
                 *there = load_at(m, p, tn__ir_add_i(ir, i, 1), tn__ir_add_i(ir, j, 2), NULL);
  const tn__buffer *q = tn__te_compute(m->te, "Q", &y, tn__ir_add(ir, here, there));
  tn__te_axes z = make_axes(m, "i", 2, d0, d1, NULL);
  const tn__expr *again = load_at(m, p, z.index[0], tn__ir_add_i(ir, z.index[1], 1), NULL);
  tn__te_output(m->te, tn__te_compute(m->te, "R", &z, tn__ir_sub(ir, tn__ir_load(ir, q, z.index), again)));
  if (r->variant & 1) tn__te_output(m->te, q);
}

/* What softmax does to rows, in whole numbers. */
static inline void make_rows(making *m) {
  tn__ir *ir = m->ir;
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, m->dims[0], m->dims[1], NULL);
  tn__te_axes r = make_axes(m, "i", 1, m->dims[0], NULL, NULL), k = make_axes(m, "k", 1, m->dims[1], NULL, NULL);
  const tn__buffer *top = tn__te_reduce(m->te, "top", &r, &k, TN__TE_MAX, load_at(m, a, r.index[0], k.index[0], NULL));
  tn__te_axes x = make_axes(m, "i", 2, m->dims[0], m->dims[1], NULL);
  const tn__expr *shifted = tn__ir_sub(ir, tn__ir_load(ir, a, x.index), load_at(m, top, x.index[0], NULL, NULL));
  const tn__buffer *e = tn__te_compute(m->te, "e", &x, tn__ir_mul(ir, shifted, number_of(m, 2)));
  tn__te_axes r2 = make_axes(m, "i", 1, m->dims[0], NULL, NULL), k2 = make_axes(m, "k", 1, m->dims[1], NULL, NULL);
  const tn__buffer *sum =
      tn__te_reduce(m->te, "sum", &r2, &k2, TN__TE_SUM, load_at(m, e, r2.index[0], k2.index[0], NULL));
  tn__te_axes y = make_axes(m, "i", 2, m->dims[0], m->dims[1], NULL);
  const tn__expr *value = tn__ir_add(ir, tn__ir_load(ir, e, y.index), load_at(m, sum, y.index[0], NULL, NULL));
  tn__te_output(m->te, tn__te_compute(m->te, "out", &y, value));
  if (m->r->variant & 1) tn__te_output(m->te, sum);
}

/* A padded convolution over rows and columns, 3 x 2 with a stride, channels last. */
static inline void make_convolution(making *m) {
  tn__ir *ir = m->ir;
  const recipe *r = m->r;
  int64_t high = (int64_t)(r->dims[0] - 1) * r->stride + 1, wide = r->dims[1];
  const tn__expr *channels = size_of(m, 2), *out = m->dims[2], *zero = size_of(m, 0);
  const tn__buffer *a = make_input(m, "A", m->dtype, 3, size_of(m, high), size_of(m, wide), channels);
  const tn__expr *weights_shape[] = {size_of(m, 3), size_of(m, 2), channels, out};
  const tn__buffer *w = tn__te_input(m->te, "W", m->dtype, 4, weights_shape);
  tn__te_axes p = make_axes(m, "p", 3, size_of(m, high + 2), size_of(m, wide + 1), channels);
  const tn__expr *i = tn__ir_add_i(ir, p.index[0], -1), *j = p.index[1];
  const tn__expr *inside = tn__ir_and(ir, tn__ir_le(ir, zero, i), tn__ir_lt(ir, i, size_of(m, high)));
  inside = tn__ir_and(ir, inside, tn__ir_lt(ir, j, size_of(m, wide)));
  const tn__buffer *pad =
      tn__te_compute(m->te, "pad", &p, tn__ir_select(ir, inside, load_at(m, a, i, j, p.index[2]), number_of(m, 0)));
  tn__te_axes x = make_axes(m, "o", 3, size_of(m, r->dims[0]), size_of(m, wide), out);
  tn__te_axes k = make_axes(m, "k", 3, size_of(m, 3), size_of(m, 2), channels);
  const tn__expr *row = tn__ir_add(ir, tn__ir_mul_i(ir, x.index[0], r->stride), k.index[0]);
  const tn__expr *read = load_at(m, pad, row, tn__ir_add(ir, x.index[1], k.index[1]), k.index[2]);
  const tn__expr *weights[] = {k.index[0], k.index[1], k.index[2], x.index[2]};
  const tn__buffer *c =
      tn__te_reduce(m->te, "C", &x, &k, TN__TE_SUM, tn__ir_mul(ir, read, tn__ir_load(ir, w, weights)));
  finish_with_map(m, c, r->variant & 1);
}

/* The place of the greatest or least element of each row, and the element. */
static inline void make_argmax(making *m) {
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, m->dims[0], m->dims[1], NULL), *out[2];
  tn__te_axes x = make_axes(m, "i", 1, m->dims[0], NULL, NULL), r = make_axes(m, "k", 1, m->dims[1], NULL, NULL);
  const tn__expr *terms[] = {load_at(m, a, x.index[0], r.index[0], NULL), r.index[0]};
  const tn__te_combiner *combiner =
      tn__te_arg_combiner(m->te, m->dtype, TN_I64, (m->r->variant & 1) != 0, (m->r->variant & 2) != 0);
  tn__te_reduce_with(m->te, "top", &x, &r, combiner, terms, out);
  finish_with_map(m, out[0], false);
  tn__te_output(m->te, out[1]);
}

/* Running values of two tensors down the rows, the second from its neighbour of the row before. */
static inline void make_scan(making *m) {
  tn__ir *ir = m->ir;
  if (tn__ir_is_int_value(m->dims[0], 1)) m->dims[0] = size_of(m, 2); /* so that there is a row before */
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, m->dims[0], m->dims[1], NULL), *state[2];
  tn__te_axes x = make_axes(m, "i", 2, m->dims[0], m->dims[1], NULL),
              s = make_axes(m, "i", 2, m->dims[0], m->dims[1], NULL);
  const tn__buffer *p = tn__te_compute(m->te, "P", &x, tn__ir_sub(ir, tn__ir_load(ir, a, x.index), number_of(m, 1)));
  tn_dtype dtypes[] = {m->dtype, m->dtype};
  tn__te_scan_declare(m->te, "S", &s, dtypes, 2, state);
  const tn__expr *here = tn__ir_load(ir, p, s.index), *first[] = {here, here};
  const tn__expr *before = tn__ir_add_i(ir, s.index[0], -1), *last = tn__ir_add_i(ir, m->dims[1], -1);
  const tn__expr *side = m->r->variant & 1 ? s.index[1] : tn__ir_min(ir, tn__ir_add_i(ir, s.index[1], 1), last);
  const tn__expr *update[] = {tn__ir_add(ir, load_at(m, state[0], before, s.index[1], NULL), here),
                              tn__ir_max(ir, load_at(m, state[1], before, side, NULL), here)};
  tn__te_scan_define(m->te, &s, 0, 1, first, update, state, 2);
  finish_with_map(m, state[0], false);
  tn__te_output(m->te, state[1]);
}

/* A scan along either of two axes, forwards or backwards, that reads up to `stride` steps back, of one tensor or two;
 * only the last step is read, together with sums, or all of it. */
static inline void make_steps(making *m) {
  tn__ir *ir = m->ir;
  int axis = m->r->variant & 1, count = m->r->variant & 2 ? 2 : 1, back = m->r->stride;
  int64_t steps;
  if (tn__ir_as_int(m->dims[axis], &steps) && steps <= back) m->dims[axis] = size_of(m, back + 1);
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, m->dims[0], m->dims[1], NULL), *state[2];
  tn__te_axes s = make_axes(m, "i", 2, m->dims[0], m->dims[1], NULL);
  tn__te_scan_declare(m->te, "S", &s, (const tn_dtype[]){m->dtype, m->dtype}, count, state);
  const tn__expr *here = tn__ir_load(ir, a, s.index), *indices[2] = {s.index[0], s.index[1]};
  int step = m->r->variant & 8 ? 1 : -1;
  indices[axis] = tn__ir_add_i(ir, s.index[axis], step * back);
  const tn__expr *far = tn__ir_load(ir, state[0], indices), *past = tn__ir_load(ir, a, indices);
  indices[axis] = tn__ir_add_i(ir, s.index[axis], step);
  const tn__expr *near = tn__ir_load(ir, state[count - 1], indices);
  const tn__expr *first[] = {here, number_of(m, 2)};
  const tn__expr *update[] = {tn__ir_sub(ir, tn__ir_max(ir, near, here), tn__ir_min(ir, far, past)),
                              tn__ir_add(ir, tn__ir_min(ir, far, near), here)};
  tn__te_scan_define(m->te, &s, axis, back, first, update, state, count);
  if (step > 0) tn__te_scan_turn(m->te, state[0]);
  const tn__expr *other = m->dims[1 - axis];
  tn__te_axes x = make_axes(m, "i", 1, other, NULL, NULL), r = make_axes(m, "k", 1, m->dims[axis], NULL, NULL);
  indices[1 - axis] = x.index[0];
  indices[axis] = r.index[0];
  const tn__buffer *sums = tn__te_reduce(m->te, "sums", &x, &r, TN__TE_MAX, tn__ir_load(ir, a, indices));
  tn__te_axes y = make_axes(m, "i", 1, other, NULL, NULL);
  const tn__expr *value = tn__ir_load(ir, sums, y.index);
  indices[1 - axis] = y.index[0];
  indices[axis] = step > 0 ? size_of(m, 0) : tn__ir_add_i(ir, m->dims[axis], -1);
  for (int t = 0; t < count; t++) value = tn__ir_sub(ir, tn__ir_load(ir, state[t], indices), value);
  finish_with_map(m, tn__te_compute(m->te, "D", &y, value), false);
  if (m->r->variant & 4) tn__te_output(m->te, state[0]);
}

/* The axes of a tensor of a scan's steps. */
static inline tn__te_axes step_axes(const tn__te_axes *scan, const tn__te_axes *own) {
  tn__te_axes axes = {.count = 1 + own->count, .var = {scan->var[0]}, .index = {scan->index[0]}};
  for (int i = 0; i < own->count; i++) {
    axes.var[1 + i] = own->var[i];
    axes.index[1 + i] = own->index[i];
  }
  return axes;
}

/* A scan whose steps reduce what the steps before gave: products with a matrix (variant 8: what all earlier steps gave
 * at one place), of rows on their own (`stride` of them), forwards or backwards, of one tensor or two, through a map of
 * the step; two reductions where there are two tensors. */
static inline void make_recurrence(making *m) {
  tn__ir *ir = m->ir;
  int step = m->r->variant & 1 ? 1 : -1, count = m->r->variant & 2 ? 2 : 1;
  const tn__expr *batch = size_of(m, m->r->stride), *width = m->dims[1], *end = tn__ir_add_i(ir, m->dims[0], -1);
  const tn__buffer *a = make_input(m, "A", m->dtype, 3, m->dims[0], batch, width), *state[2], *sums[2];
  const tn__buffer *w = make_input(m, "W", m->dtype, 2, width, width, NULL);
  tn__te_axes s = make_axes(m, "i", 3, m->dims[0], batch, width), y = make_axes(m, "m", 2, batch, width, NULL);
  tn__te_scan_declare(m->te, "S", &s, (const tn_dtype[]){m->dtype, m->dtype}, count, state);
  tn__te_axes mapped = step_axes(&s, &y);
  const tn__expr *next = tn__ir_add_i(ir, s.index[0], step);
  const tn__expr *before = load_at(m, state[count - 1], next, y.index[0], y.index[1]);
  const tn__expr *smaller = tn__ir_min(ir, before, tn__ir_load(ir, a, mapped.index));
  const tn__buffer *map = tn__te_compute(m->te, "map", &mapped, smaller);
  tn__te_put_in_step(m->te, map, state[0]);
  for (int t = 0; t < count; t++) {
    tn__te_axes x = make_axes(m, "j", 2, batch, width, NULL), in_step = step_axes(&s, &x);
    const tn__expr *steps = step < 0 ? s.index[0] : tn__ir_sub(ir, end, s.index[0]), *term;
    bool all = (m->r->variant & 8) && t == 0;
    tn__te_axes k = make_axes(m, "k", 1, all ? steps : width, NULL, NULL);
    const tn__expr *place = step < 0 ? k.index[0] : tn__ir_sub(ir, end, k.index[0]);
    if (all)
      term = load_at(m, state[0], place, x.index[0], x.index[1]);
    else if (m->r->variant & 4)
      term = load_at(m, map, s.index[0], x.index[0], k.index[0]);
    else
      term = load_at(m, state[t], next, x.index[0], k.index[0]);
    if (!all)
      term =
          tn__ir_mul(ir, term, load_at(m, w, t == 0 ? x.index[1] : k.index[0], t == 0 ? k.index[0] : x.index[1], NULL));
    sums[t] = tn__te_reduce(m->te, t == 0 ? "P" : "Q", &in_step, &k, TN__TE_SUM, term);
    tn__te_put_in_step(m->te, sums[t], state[0]);
  }
  const tn__expr *here = tn__ir_load(ir, a, s.index), *first[] = {here, number_of(m, 2)}, *update[2];
  for (int t = 0; t < count; t++) {
    const tn__expr *sum = load_at(m, sums[t], s.index[0], s.index[1], s.index[2]);
    if (t == 1) sum = tn__ir_add(ir, sum, load_at(m, map, s.index[0], s.index[1], s.index[2]));
    update[t] = tn__ir_add(ir, tn__ir_min(ir, tn__ir_max(ir, sum, number_of(m, 0)), number_of(m, 5)), here);
  }
  tn__te_scan_define(m->te, &s, 0, 1, first, update, state, count);
  if (step > 0) tn__te_scan_turn(m->te, state[0]);
  tn__te_axes d = make_axes(m, "i", 3, m->dims[0], batch, width);
  const tn__buffer *out =
      tn__te_compute(m->te, "D", &d, tn__ir_sub(ir, tn__ir_load(ir, state[count - 1], d.index), number_of(m, 1)));
  finish_with_map(m, out, false);
  if (m->r->variant & 2) tn__te_output(m->te, state[0]);
}

/* Windows of 3 x 2 with a stride through any reducer. */
static inline void make_pool(making *m) {
  static const tn__te_reducer reducers[] = {TN__TE_MAX, TN__TE_SUM, TN__TE_PROD, TN__TE_MIN};
  tn__ir *ir = m->ir;
  const recipe *r = m->r;
  const tn__expr *rows = size_of(m, (int64_t)(r->dims[0] - 1) * r->stride + 3), *columns = size_of(m, r->dims[1] + 1);
  const tn__buffer *a = make_input(m, "A", m->dtype, 3, rows, columns, m->dims[2]);
  tn__te_axes x = make_axes(m, "o", 3, size_of(m, r->dims[0]), size_of(m, r->dims[1]), m->dims[2]);
  tn__te_axes k = make_axes(m, "k", 2, size_of(m, 3), size_of(m, 2), NULL);
  const tn__expr *i = tn__ir_add(ir, tn__ir_mul_i(ir, x.index[0], r->stride), k.index[0]);
  const tn__expr *term = load_at(m, a, i, tn__ir_add(ir, x.index[1], k.index[1]), x.index[2]);
  finish_with_map(m, tn__te_reduce(m->te, "M", &x, &k, reducers[r->variant & 3], term), r->stride == 1);
}

/* A combiner of its own: sums and greatest squares together, or one that must be applied in order. */
static inline void make_combined(making *m) {
  tn__ir *ir = m->ir;
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, m->dims[0], m->dims[1], NULL), *out[2];
  tn__te_axes x = make_axes(m, "i", 1, m->dims[0], NULL, NULL), k = make_axes(m, "k", 1, m->dims[1], NULL, NULL);
  const tn__expr *element = load_at(m, a, x.index[0], k.index[0], NULL);
  const tn__expr *terms[] = {element, tn__ir_mul(ir, element, element)};
  tn__te_combiner *c = TN__NEW(tn__ir_arena(ir), tn__te_combiner);
  bool in_order = m->r->variant & 1;
  c->count = in_order ? 1 : 2;
  for (int i = 0; i < c->count; i++) {
    c->lhs[i] = tn__var_create(ir, i == 0 ? "a" : "b", m->dtype, NULL, NULL);
    c->rhs[i] = tn__var_create(ir, i == 0 ? "x" : "y", m->dtype, NULL, NULL);
    c->identity[i] = number_of(m, 0);
  }
  const tn__expr *kept = in_order ? tn__ir_mul(ir, c->lhs[0]->self, number_of(m, 2)) : c->lhs[0]->self;
  c->result[0] = tn__ir_add(ir, kept, c->rhs[0]->self);
  if (!in_order) c->result[1] = tn__ir_max(ir, c->lhs[1]->self, c->rhs[1]->self);
  c->reorderable = !in_order;
  tn__te_reduce_with(m->te, "both", &x, &k, c, terms, out);
  finish_with_map(m, out[0], in_order);
  if (!in_order) tn__te_output(m->te, out[1]);
}

/* Two dot products of narrow numbers, as instructions take them, and their sum. */
static inline void make_dots(making *m) {
  tn__ir *ir = m->ir;
  bool bytes = m->r->variant & 1;
  tn_dtype sum = bytes ? TN_I32 : TN_F32, left = bytes ? TN_U8 : TN_BF16, right = bytes ? TN_I8 : TN_BF16;
  const tn__expr *lanes = size_of(m, m->r->variant & 4 ? 32 : 16), *depth = size_of(m, bytes ? 4 : 2);
  const tn__expr *groups = size_of(m, m->r->variant & 2 ? 3 : 1);
  const tn__buffer *dots[2];
  for (int i = 0; i < 2; i++) {
    const tn__buffer *a = make_input(m, i == 0 ? "A" : "E", left, 3, m->dims[0], groups, depth);
    const tn__buffer *b = make_input(m, i == 0 ? "B" : "F", right, 3, groups, lanes, depth);
    tn__te_axes x = make_axes(m, "i", 2, m->dims[0], lanes, NULL), k = make_axes(m, "k", 2, groups, depth, NULL);
    const tn__expr *l = tn__ir_cast(ir, sum, load_at(m, a, x.index[0], k.index[0], k.index[1]));
    const tn__expr *r = tn__ir_cast(ir, sum, load_at(m, b, k.index[0], x.index[1], k.index[1]));
    dots[i] = tn__te_reduce(m->te, i == 0 ? "C" : "G", &x, &k, TN__TE_SUM, tn__ir_mul(ir, l, r));
  }
  tn__te_axes y = make_axes(m, "i", 2, m->dims[0], lanes, NULL);
  const tn__expr *value = tn__ir_sub(ir, tn__ir_load(ir, dots[0], y.index), tn__ir_load(ir, dots[1], y.index));
  const tn__buffer *d = tn__te_compute(m->te, "D", &y, value), *steps;
  finish_with_map(m, d, false);
  /* Greatest differences so far along the lanes, of which the last are wanted. */
  tn__te_axes s = make_axes(m, "i", 2, m->dims[0], lanes, NULL), z = make_axes(m, "i", 1, m->dims[0], NULL, NULL);
  tn__te_scan_declare(m->te, "S", &s, &sum, 1, &steps);
  const tn__expr *here = tn__ir_load(ir, d, s.index);
  const tn__expr *next = tn__ir_max(ir, load_at(m, steps, s.index[0], tn__ir_add_i(ir, s.index[1], -1), NULL), here);
  tn__te_scan_define(m->te, &s, 1, 1, &here, &next, &steps, 1);
  const tn__expr *last = load_at(m, steps, z.index[0], tn__ir_add_i(ir, lanes, -1), NULL);
  tn__te_output(m->te, tn__te_compute(m->te, "greatest", &z, last));
}

/* The same beside windows over windows of a map's rows: what slides, and what becomes instructions or scans. */
static inline void make_windows(making *m) {
  tn__ir *ir = m->ir;
  const recipe *r = m->r;
  int64_t high = r->dims[0], stride = r->stride;
  const tn__expr *rows = size_of(m, high * stride + 3), *columns = m->dims[2];
  make_dots(m);
  const tn__buffer *in = make_input(m, "in", m->dtype, 2, rows, columns, NULL);
  tn__te_axes x = make_axes(m, "i", 2, rows, columns, NULL);
  const tn__buffer *p = tn__te_compute(m->te, "P", &x, tn__ir_mul(ir, tn__ir_load(ir, in, x.index), number_of(m, 3)));
  tn__te_axes y = make_axes(m, "i", 2, size_of(m, high + 1), columns, NULL),
              z = make_axes(m, "i", 2, size_of(m, high), columns, NULL);
  const tn__expr *i = tn__ir_mul_i(ir, y.index[0], stride), *j = y.index[1], *sum = load_at(m, p, i, j, NULL);
  for (int w = 1; w < 3; w++) sum = tn__ir_add(ir, sum, load_at(m, p, tn__ir_add_i(ir, i, w), j, NULL));
  const tn__buffer *q = tn__te_compute(m->te, "Q", &y, sum);
  const tn__expr *next = load_at(m, q, tn__ir_add_i(ir, z.index[0], 1), z.index[1], NULL);
  tn__te_output(m->te, tn__te_compute(m->te, "R", &z, tn__ir_sub(ir, tn__ir_load(ir, q, z.index), next)));
}

/* A batched product with the right operand along the reduction, and its transpose. */
static inline void make_transposed(making *m) {
  tn__ir *ir = m->ir;
  const tn__expr *k_extent = size_of(m, 3);
  const tn__buffer *a = make_input(m, "A", m->dtype, 3, m->dims[0], m->dims[1], k_extent);
  const tn__buffer *b = make_input(m, "B", m->dtype, 3, m->dims[0], m->dims[2], k_extent);
  tn__te_axes x = make_axes(m, "i", 3, m->dims[0], m->dims[1], m->dims[2]),
              k = make_axes(m, "k", 1, k_extent, NULL, NULL);
  const tn__expr *left = load_at(m, a, x.index[0], x.index[1], k.index[0]);
  const tn__expr *right = load_at(m, b, x.index[0], x.index[2], k.index[0]);
  const tn__buffer *c = tn__te_reduce(m->te, "C", &x, &k, TN__TE_SUM, tn__ir_mul(ir, left, right));
  tn__te_axes y = make_axes(m, "i", 3, m->dims[2], m->dims[0], m->dims[1]);
  const tn__expr *turned = load_at(m, c, y.index[1], y.index[2], y.index[0]);
  tn__te_output(m->te, tn__te_compute(m->te, "T", &y, tn__ir_add(ir, turned, number_of(m, 1))));
}

/* Rows picked by an index tensor, then their sums and how much each element differs from them. */
static inline void make_gather(making *m) {
  tn__ir *ir = m->ir;
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, m->dims[1], m->dims[2], NULL);
  const tn__buffer *which = make_input(m, "which", TN_I32, 1, m->dims[0], NULL, NULL);
  tn__te_axes x = make_axes(m, "i", 2, m->dims[0], m->dims[2], NULL);
  const tn__expr *row = tn__ir_cast(ir, TN_I64, load_at(m, which, x.index[0], NULL, NULL));
  row = tn__ir_max(ir, tn__ir_min(ir, row, tn__ir_add_i(ir, m->dims[1], -1)), size_of(m, 0));
  const tn__buffer *g = tn__te_compute(m->te, "G", &x, load_at(m, a, row, x.index[1], NULL));
  tn__te_axes r = make_axes(m, "i", 1, m->dims[0], NULL, NULL), k = make_axes(m, "k", 1, m->dims[2], NULL, NULL);
  const tn__buffer *sum = tn__te_reduce(m->te, "sum", &r, &k, TN__TE_SUM, load_at(m, g, r.index[0], k.index[0], NULL));
  tn__te_axes y = make_axes(m, "i", 2, m->dims[0], m->dims[2], NULL);
  const tn__expr *value = tn__ir_sub(ir, tn__ir_load(ir, g, y.index), load_at(m, sum, y.index[0], NULL, NULL));
  tn__te_output(m->te, tn__te_compute(m->te, "out", &y, value));
}

/* Is any (are all) of a row's elements below its first one? In bool. */
static inline void make_logic(making *m) {
  tn__ir *ir = m->ir;
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, m->dims[0], m->dims[1], NULL);
  const tn__buffer *mask = make_input(m, "mask", TN_BOOL, 2, m->dims[0], m->dims[1], NULL);
  tn__te_axes x = make_axes(m, "i", 2, m->dims[0], m->dims[1], NULL);
  const tn__expr *less = tn__ir_lt(ir, tn__ir_load(ir, a, x.index), load_at(m, a, x.index[0], size_of(m, 0), NULL));
  const tn__buffer *p = tn__te_compute(m->te, "less", &x, tn__ir_and(ir, tn__ir_load(ir, mask, x.index), less));
  tn__te_axes r = make_axes(m, "i", 1, m->dims[0], NULL, NULL), k = make_axes(m, "k", 1, m->dims[1], NULL, NULL);
  tn__te_reducer reducer = m->r->variant & 1 ? TN__TE_ANY : TN__TE_ALL;
  const tn__buffer *found = tn__te_reduce(m->te, "found", &r, &k, reducer, load_at(m, p, r.index[0], k.index[0], NULL));
  tn__te_axes y = make_axes(m, "i", 2, m->dims[0], m->dims[1], NULL);
  const tn__expr *value =
      tn__ir_select(ir, load_at(m, found, y.index[0], NULL, NULL), tn__ir_load(ir, a, y.index), number_of(m, 1));
  tn__te_output(m->te, tn__te_compute(m->te, "out", &y, value));
  if (m->r->variant & 2) tn__te_output(m->te, found);
}

/* A map that reads one tensor turned and, with a border around it, another; then one that turns it back. */
static inline void make_turned(making *m) {
  tn__ir *ir = m->ir;
  const tn__buffer *a = make_input(m, "A", m->dtype, 3, m->dims[1], m->dims[0], m->dims[2]);
  const tn__buffer *b = make_input(m, "B", m->dtype, 2, m->dims[1], m->dims[2], NULL);
  tn__te_axes x = make_axes(m, "i", 3, m->dims[0], m->dims[2], m->dims[1]);
  const tn__expr *value = load_at(m, a, x.index[2], x.index[0], x.index[1]);
  if (m->r->variant & 1) {
    const tn__expr *before = tn__ir_add_i(ir, x.index[1], -1);
    const tn__expr *inside = tn__ir_le(ir, size_of(m, 0), before);
    value = tn__ir_add(ir, value, tn__ir_select(ir, inside, load_at(m, b, x.index[2], before, NULL), number_of(m, 1)));
  }
  const tn__buffer *p = tn__te_compute(m->te, "P", &x, value);
  tn__te_axes y = make_axes(m, "i", 3, m->dims[0], m->dims[1], m->dims[2]);
  const tn__expr *back = load_at(m, p, y.index[0], y.index[2], y.index[1]);
  if (m->r->variant & 2) back = tn__ir_sub(ir, back, load_at(m, a, y.index[1], y.index[0], y.index[2]));
  tn__te_output(m->te, tn__te_compute(m->te, "Q", &y, back));
}

/* A combiner that must be applied in order: twice what there is, plus the term. */
static inline const tn__te_combiner *doubling(making *m) {
  tn__te_combiner *c = TN__NEW(tn__ir_arena(m->ir), tn__te_combiner);
  c->count = 1;
  c->lhs[0] = tn__var_create(m->ir, "a", m->dtype, NULL, NULL);
  c->rhs[0] = tn__var_create(m->ir, "x", m->dtype, NULL, NULL);
  c->identity[0] = number_of(m, 0);
  c->result[0] = tn__ir_add(m->ir, tn__ir_mul(m->ir, c->lhs[0]->self, number_of(m, 2)), c->rhs[0]->self);
  return c;
}

/* Reductions whose terms are no products, of tensors that meet as those of a product do, or two of them. The stride
 * says which way round the left operand and the result are. */
static inline void make_meeting(making *m) {
  static const tn__te_reducer reducers[] = {TN__TE_SUM, TN__TE_MIN, TN__TE_MAX, TN__TE_SUM,
                                            TN__TE_SUM, TN__TE_SUM, TN__TE_ANY, TN__TE_SUM};
  tn__ir *ir = m->ir;
  int variant = m->r->variant;
  bool turn_a = m->r->stride == 2, turn_c = m->r->stride == 3;
  const tn__expr *rows = m->dims[0], *columns = m->dims[1], *depth = m->dims[2];
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, turn_a ? depth : rows, turn_a ? rows : depth, NULL);
  const tn__buffer *b = variant == 0 ? make_input(m, "B", m->dtype, 2, columns, depth, NULL)
                                     : make_input(m, "B", m->dtype, 2, depth, columns, NULL);
  const tn__buffer *w = make_input(m, "w", m->dtype, 1, depth, NULL, NULL), *sums[2] = {NULL, NULL};
  for (int i = 0; i < (variant == 5 ? 2 : 1); i++) {
    tn__te_axes x = make_axes(m, "i", 2, turn_c ? columns : rows, turn_c ? rows : columns, NULL),
                k = make_axes(m, "k", 1, depth, NULL, NULL);
    const tn__expr *row = x.index[turn_c], *column = x.index[!turn_c], *at = k.index[0];
    const tn__expr *left = load_at(m, a, turn_a ? at : row, turn_a ? row : at, NULL);
    const tn__expr *right = load_at(m, b, variant == 0 ? column : at, variant == 0 ? at : column, NULL);
    const tn__expr *weight = load_at(m, w, at, NULL, NULL), *term = tn__ir_mul(ir, left, right);
    if (variant == 0) term = tn__ir_sub(ir, tn__ir_max(ir, left, right), tn__ir_min(ir, left, right));
    if (variant == 1) term = tn__ir_add(ir, left, right);
    if (variant == 3) term = tn__ir_mul(ir, tn__ir_mul(ir, left, weight), right);
    if (variant == 4) term = tn__ir_mul(ir, tn__ir_select(ir, tn__ir_le(ir, at, row), left, number_of(m, 0)), right);
    if (variant == 5) term = tn__ir_sub(ir, term, tn__ir_mul(ir, i == 0 ? left : weight, right));
    if (variant == 6) term = tn__ir_lt(ir, left, right);
    if (variant == 7)
      tn__te_reduce_with(m->te, "C", &x, &k, doubling(m), &term, sums);
    else
      sums[i] = tn__te_reduce(m->te, i == 0 ? "C" : "D", &x, &k, reducers[variant], term);
  }
  if (variant == 5) tn__te_output(m->te, sums[1]);
  if (variant == 6)
    tn__te_output(m->te, sums[0]);
  else
    finish_with_map(m, sums[0], false);
}

/* Terms that go where an index tensor says, some of them nowhere: whole rows, or one by one; what they go into starts
 * from another tensor or from nothing. */
static inline void make_accumulation(making *m) {
  tn__ir *ir = m->ir;
  bool rows = m->r->variant & 1, from = m->r->variant & 2;
  const tn__expr *width = rows ? m->dims[2] : size_of(m, 3), *into[2], *last;
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, m->dims[0], width, NULL), *out;
  const tn__buffer *which = make_input(m, "which", TN_I32, 2, m->dims[0], width, NULL);
  const tn__buffer *start = make_input(m, "start", m->dtype, 2, m->dims[1], m->dims[2], NULL);
  tn__te_axes p = make_axes(m, "i", 2, m->dims[0], width, NULL);
  const tn__buffer *less = tn__te_compute(m->te, "P", &p, tn__ir_sub(ir, tn__ir_load(ir, a, p.index), number_of(m, 1)));
  tn__te_axes x = make_axes(m, "o", rows ? 2 : 1, m->dims[1], m->dims[2], NULL);
  tn__te_axes k = make_axes(m, "k", rows ? 1 : 2, m->dims[0], width, NULL);
  last = rows ? x.index[1] : k.index[1];
  into[0] = tn__ir_cast(ir, TN_I64, load_at(m, which, k.index[0], rows ? size_of(m, 0) : last, NULL));
  into[1] = last;
  const tn__expr *term = load_at(m, less, k.index[0], last, NULL);
  const tn__expr *first = load_at(m, start, x.index[0], rows ? last : size_of(m, 0), NULL);
  const tn__te_combiner *c = tn__te_combiner_of(m->te, m->r->variant & 4 ? TN__TE_MAX : TN__TE_SUM, m->dtype);
  tn__te_accumulate_as(m->te, (const char *[]){"G"}, &x, &k, c, &term, into, from ? &first : NULL, &out);
  finish_with_map(m, out, m->r->stride == 1);
}

/* As many terms as the row, or what data make of it, says: for each row, or for each element of it. */
static inline void make_ragged(making *m) {
  tn__ir *ir = m->ir;
  bool triangle = m->r->variant & 1, rows = m->r->variant & 2;
  const tn__buffer *a = make_input(m, "A", m->dtype, 2, m->dims[1], m->dims[2], NULL), *out;
  const tn__buffer *n = make_input(m, "n", TN_I64, 1, m->dims[0], NULL, NULL);
  tn__te_axes p = make_axes(m, "i", 1, m->dims[0], NULL, NULL), k = {.count = 1};
  const tn__expr *doubled = tn__ir_mul_i(ir, tn__ir_load(ir, n, p.index), 2), *zero = size_of(m, 0);
  if (m->r->variant & 4) n = tn__te_compute(m->te, "P", &p, doubled);
  tn__te_axes x = make_axes(m, "o", rows ? 2 : 1, m->dims[0], m->dims[2], NULL);
  const tn__expr *extent = tn__ir_max(ir, load_at(m, n, x.index[0], NULL, NULL), zero);
  if (triangle) extent = tn__ir_add_i(ir, x.index[0], m->r->stride - 1);
  k.var[0] = tn__var_create(ir, "k", TN_I64, zero, extent);
  k.index[0] = k.var[0]->self;
  const tn__expr *last = tn__ir_add_i(ir, m->dims[1], -1);
  const tn__expr *row = tn__ir_min(ir, tn__ir_add(ir, k.index[0], x.index[0]), last);
  const tn__expr *start = load_at(m, n, x.index[0], NULL, NULL), *column = tn__ir_add(ir, k.index[0], start);
  column = tn__ir_min(ir, tn__ir_max(ir, column, zero), tn__ir_add_i(ir, m->dims[2], -1)); /* it may begin anywhere */
  if (m->r->variant & 8) row = tn__ir_min(ir, x.index[0], last);
  const tn__expr *term = load_at(m, a, row, m->r->variant & 8 ? column : rows ? x.index[1] : zero, NULL);
  out = tn__te_reduce(m->te, "R", &x, &k, m->r->stride == 2 ? TN__TE_MAX : TN__TE_SUM, term);
  finish_with_map(m, out, m->r->stride == 1);
}

typedef struct recipe_kind {
  const char *name;
  void (*make)(making *m);
  bool can_open; /* may the first dimension be symbolic? */
} recipe_kind;

static const recipe_kind recipe_kinds[] = {
    {"product", make_product, true},  {"stencil", make_stencil, false},
    {"rows", make_rows, true},        {"convolution", make_convolution, false},
    {"argmax", make_argmax, true},    {"scan", make_scan, true},
    {"pool", make_pool, false},       {"combined", make_combined, true},
    {"dots", make_dots, true},        {"transposed", make_transposed, true},
    {"gather", make_gather, true},    {"logic", make_logic, true},
    {"turned", make_turned, true},    {"meeting", make_meeting, true},
    {"steps", make_steps, true},      {"accumulation", make_accumulation, true},
    {"ragged", make_ragged, true},    {"recurrence", make_recurrence, true},
    {"windows", make_windows, false},
};
enum { RECIPE_KINDS = sizeof(recipe_kinds) / sizeof(recipe_kinds[0]) };

static inline int recipe_kind_of(const char *name) {
  int kind = 0;
  while (strcmp(recipe_kinds[kind].name, name) != 0) kind++;
  return kind;
}

static const tn_dtype recipe_dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16, TN_I8,  TN_I16,
                                         TN_I32, TN_I64, TN_U8,  TN_U16,  TN_U32, TN_U64};
enum { RECIPE_DTYPES = sizeof(recipe_dtypes) / sizeof(recipe_dtypes[0]) };

static inline recipe draw_recipe(dice *d) {
  recipe r = {.kind = roll(d, RECIPE_KINDS), .dtype = recipe_dtypes[roll(d, RECIPE_DTYPES)]};
  for (int i = 0; i < 3; i++) r.dims[i] = roll(d, 4) == 0 ? 1 + roll(d, 19) : 1 + roll(d, 8);
  r.stride = 1 + roll(d, 3);
  r.variant = roll(d, 8);
  if (r.kind == recipe_kind_of("steps") || r.kind == recipe_kind_of("recurrence")) r.variant |= 8 * roll(d, 2);
  r.open = recipe_kinds[r.kind].can_open && roll(d, 4) == 0;
  r.seed = (uint32_t)roll(d, 256);
  return r;
}

static inline tn__te *make_recipe(tn__ir *ir, const recipe *r) {
  making m = {.te = tn__te_create(ir, recipe_kinds[r->kind].name), .ir = ir, .r = r, .dtype = r->dtype};
  for (int i = 0; i < 3; i++) m.dims[i] = tn__ir_index(ir, r->dims[i]);
  if (r->open) m.dims[0] = tn__te_dim(m.te, "N", 1)->self;
  recipe_kinds[r->kind].make(&m);
  return m.te;
}

static inline void print_recipe(const recipe *r, FILE *out) {
  fprintf(out, "%s of %s, %d x %d x %d, stride %d, variant %d%s, inputs from %u\n", recipe_kinds[r->kind].name,
          tn_dtype_name(r->dtype), r->dims[0], r->dims[1], r->dims[2], r->stride, r->variant, r->open ? ", open" : "",
          r->seed);
}

#endif
