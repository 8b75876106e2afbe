/* Sums of products that a target's instructions on small matrices compute, as products of matrices that are made of
 * whole tiles:
 *
 *   C[i, j] = sum(k: 70) f32(A[i, k]) * f32(B[k, j])   becomes   L[i, k] = select(i < 130 && k < 70, A[i, k], 0)
 *                                                                R[k, j] = select(k < 70 && j < 150, B[k, j], 0)
 *                                                                T[i, j] = sum(k: 96) f32(L[i, k]) * f32(R[k, j])
 *                                                                C[i, j] = T[i, j]
 *
 * The operands are made in memory that is near, a tile at a time, from wherever the terms read their elements: images
 * of a convolution, too, whose terms of all axes become one row. Zeros fill up the last tiles, so that nobody asks
 * which terms are there. Axes that only one operand has are rows or columns together, those that both have, or none,
 * have a product for each step. Few tiles of many terms have parts of the terms, each a product of its own, whose
 * results are stored and added up. */
#include "base/invariant.h"
#include "te/internal.h"

enum { LEAST_SIDE = 16, LEAST_TERMS = 16 };

typedef struct side {
  const tn__expr *load;
  unsigned axes;         /* of the stage, as bits: rows of the left one, columns of the right one */
  const tn__expr *count; /* of rows or columns */
  bool last;             /* are its elements side by side along the last of them, and not along the terms? */
} side;

typedef struct product {
  const tn__te_stage *stage;
  tn__te_tiling tiling;
  side sides[2];
} product;

static const tn__expr *factor_of(const tn__expr *e) {
  if (e->kind == TN__EXPR_CAST) e = e->args[0];
  return e->kind == TN__EXPR_LOAD ? e : NULL;
}

/* The axes that one operand has alone; 0: there are none, or few steps. Positions are divided by the inner ones' sizes:
 * what is outside of an open one has a product for each step. */
static unsigned axes_alone(const tn__te_stage *stage, const tn__expr *own, const tn__expr *other) {
  double steps = 1;
  unsigned found = 0;
  bool open = false;
  for (int a = stage->axes.count - 1; a >= 0 && !open; a--) {
    const tn__var *var = stage->axes.var[a];
    if (!tn__expr_uses_var(own, var) || tn__expr_uses_var(other, var)) continue;
    steps *= tn__ir_extent_estimate(var->extent);
    found |= 1u << a;
    open = !tn__ir_is_int(var->extent);
  }
  return steps >= LEAST_SIDE ? found : 0;
}

static bool has_axis(const side *s, int axis) { return (s->axes >> axis & 1) != 0; }

static int last_axis(const side *s) {
  int last = TN__MAX_RANK - 1;
  while (!has_axis(s, last)) last--;
  return last;
}

static bool has_even_terms(const tn__te_stage *stage) {
  double terms = 1;
  for (int r = 0; r < stage->reduce_axes.count; r++) {
    const tn__var *axis = stage->reduce_axes.var[r];
    if (tn__te_is_ragged(axis) || (axis->min != NULL && !tn__ir_is_int_value(axis->min, 0))) return false;
    if (r > 0 && !tn__ir_is_int(axis->extent)) return false;
    terms *= tn__ir_extent_estimate(axis->extent);
  }
  return stage->reduce_axes.count > 0 && terms >= LEAST_TERMS;
}

TN_MUST_USE static bool find_product(tn__ir *ir, const tn__te_stage *stage, tn__te_tiling_of *tiling_of,
                                     const void *user, product *p) {
  if (!tn__te_is_sum(stage) || stage->step_of != NULL || stage->hint != TN__TE_ANYWHERE) return false;
  const tn__expr *value = stage->values[0], *factors[2];
  if (value->kind != TN__EXPR_MUL || !has_even_terms(stage)) return false;
  for (int i = 0; i < 2; i++) {
    factors[i] = factor_of(value->args[i]);
    if (factors[i] == NULL) return false;
  }
  const unsigned axes[] = {axes_alone(stage, factors[0], factors[1]), axes_alone(stage, factors[1], factors[0])};
  if (axes[0] == 0 || axes[1] == 0) return false;
  *p = (product){.stage = stage};
  for (int i = 0; i < 2; i++) p->sides[i] = (side){.load = factors[i], .axes = axes[i]};
  if (last_axis(&p->sides[0]) > last_axis(&p->sides[1])) { /* results lie side by side along columns */
    const side left = p->sides[0];
    p->sides[0] = p->sides[1];
    p->sides[1] = left;
  }
  for (int i = 0; i < 2; i++) {
    side *s = &p->sides[i];
    const tn__expr *along = s->load->arg_count > 0 ? s->load->args[s->load->arg_count - 1] : NULL;
    if (along == NULL) return false;
    s->last = tn__expr_uses_var(along, stage->axes.var[last_axis(s)]);
    s->count = tn__ir_index(ir, 1);
    for (int a = 0; a < stage->axes.count; a++)
      if (has_axis(s, a)) s->count = tn__ir_mul(ir, s->count, stage->axes.var[a]->extent);
  }
  return tiling_of(user, value->dtype, p->sides[0].load->dtype, p->sides[1].load->dtype, &p->tiling);
}

/* ---- the stages -------------------------------------------------------------------------------------------------- */

/* As many as whole tiles have: the largest tiles that do not add more than an eighth. */
static const tn__expr *filled_up(tn__ir *ir, const tn__expr *extent, int64_t least, int64_t most) {
  int64_t size;
  if (tn__ir_as_int(extent, &size))
    while (most > least && (size + most - 1) / most * most * 8 > 9 * ((size + least - 1) / least * least)) most /= 2;
  return tn__ir_mul_i(ir, tn__ir_ceildiv(ir, extent, tn__ir_index(ir, most)), most);
}

typedef struct filling {
  tn__te *te;
  int64_t parts; /* of the terms, each a product of its own */
  const product *p;
  const tn__expr *terms, *all_terms; /* how many there are, and with those that fill up */
  const tn__expr *sizes[2];          /* rows and columns, filled up */
} filling;

static const tn__expr *both(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return a == NULL ? b : b == NULL ? a : tn__ir_and(ir, a, b);
}

/* What stands for the axes of the operand alone where one number counts them together. */
TN_MUST_USE static int split_position(tn__ir *ir, const tn__te_stage *stage, const side *s, const tn__expr *position,
                                      const tn__var **from, const tn__expr **to) {
  int count = 0;
  unsigned left = s->axes;
  for (int a = last_axis(s); a >= 0; a--) {
    if (!has_axis(s, a)) continue;
    const tn__var *axis = stage->axes.var[a];
    left &= ~(1u << a);
    from[count] = axis;
    to[count++] = left != 0 ? tn__ir_mod(ir, position, axis->extent) : position;
    if (left != 0) position = tn__ir_div(ir, position, axis->extent);
  }
  return count;
}

static const tn__expr *joined_position(tn__ir *ir, const tn__te_stage *stage, const side *s) {
  const tn__expr *position = tn__ir_index(ir, 0);
  for (int a = 0; a < stage->axes.count; a++) {
    if (!has_axis(s, a)) continue;
    position = tn__ir_add(ir, tn__ir_mul(ir, position, stage->axes.var[a]->extent), stage->axes.index[a]);
  }
  return position;
}

/* The operand's matrices: over the other axes that it has, then rows or columns and terms. */
static const tn__buffer *add_operand(const filling *f, int which) {
  tn__ir *ir = f->te->ir;
  const side *s = &f->p->sides[which];
  const tn__te_stage *stage = f->p->stage;
  const tn__expr *extents[TN__MAX_RANK], *to[2 * TN__MAX_RANK];
  const tn__var *from[2 * TN__MAX_RANK];
  int rank = 0, count = 0;
  for (int a = 0; a < stage->axes.count; a++)
    if (!has_axis(s, a) && tn__expr_uses_var(s->load, stage->axes.var[a])) extents[rank++] = stage->axes.var[a]->extent;
  const bool last = s->last && !f->p->tiling.terms_last;
  extents[rank + last] = f->sizes[which];
  extents[rank + !last] = f->all_terms;
  tn__te_axes axes = tn__te_axes_create(f->te, "a", rank + 2, extents);
  for (int a = 0, at = 0; a < stage->axes.count; a++) {
    if (has_axis(s, a) || !tn__expr_uses_var(s->load, stage->axes.var[a])) continue;
    from[count] = stage->axes.var[a];
    to[count++] = axes.index[at++];
  }
  const tn__expr *position = axes.index[rank + last], *rest = axes.index[rank + !last];
  count += split_position(ir, stage, s, position, from + count, to + count);
  for (int r = stage->reduce_axes.count - 1; r >= 0; r--) {
    const tn__var *axis = stage->reduce_axes.var[r];
    from[count] = axis;
    to[count++] = r > 0 ? tn__ir_mod(ir, rest, axis->extent) : rest;
    if (r > 0) rest = tn__ir_div(ir, rest, axis->extent);
  }
  const tn__expr *value = tn__ir_substitute(ir, s->load, from, to, count), *inside = NULL;
  if (f->sizes[which] != s->count) inside = tn__ir_lt(ir, position, s->count);
  if (f->all_terms != f->terms) inside = both(ir, inside, tn__ir_lt(ir, axes.index[rank + !last], f->terms));
  if (inside != NULL) value = tn__ir_select(ir, inside, value, tn__ir_constant(ir, value->dtype, 0));
  const char *name = tn__arena_printf(f->te->arena, "%s.%s", stage->name, which == 0 ? "left" : "right");
  return tn__te_compute(f->te, name, &axes, value);
}

static bool is_batch(const product *p, int axis) {
  return !has_axis(&p->sides[0], axis) && !has_axis(&p->sides[1], axis);
}

/* Into how many parts the terms fall where tiles are few. */
static int64_t parts_of(const product *p, const tn__expr *terms) {
  enum { SIDE = 64, MOST = 32 };
  const tn__te_stage *stage = p->stage;
  double tiles = 1;
  int64_t count, parts = 1;
  if (!tn__ir_as_int(terms, &count) || p->tiling.blocks == 0 || stage->axes.count + 1 > TN__MAX_RANK) return 1;
  for (int i = 0; i < 2; i++) {
    int64_t size;
    if (!tn__ir_as_int(p->sides[i].count, &size)) return 1;
    const int64_t along = (size + SIDE - 1) / SIDE;
    tiles *= (double)along;
  }
  for (int a = 0; a < stage->axes.count; a++)
    if (is_batch(p, a)) tiles *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  while (parts < MOST && 2 * (double)parts * tiles <= (double)p->tiling.blocks && 2 * parts * p->tiling.part <= count)
    parts *= 2;
  return parts;
}

/* The product's factor: where the operand's axes are those of the tiles. */
static const tn__expr *read_operand(const filling *f, int which, const tn__buffer *operand, const tn__te_axes *tiles,
                                    const tn__expr *term) {
  const side *s = &f->p->sides[which];
  const tn__te_stage *stage = f->p->stage;
  const tn__expr *indices[TN__MAX_RANK];
  int rank = 0, batch = 0;
  for (int a = 0; a < stage->axes.count; a++) {
    if (!is_batch(f->p, a)) continue;
    if (tn__expr_uses_var(s->load, stage->axes.var[a])) indices[rank++] = tiles->index[batch + (f->parts > 1)];
    batch++;
  }
  const bool last = s->last && !f->p->tiling.terms_last;
  indices[rank + last] = tiles->index[batch + which + (f->parts > 1)];
  indices[rank + !last] = term;
  return tn__ir_cast(f->te->ir, stage->values[0]->dtype, tn__ir_load(f->te->ir, operand, indices));
}

/* A sum of the parts, which are stored, takes the place of the stage's. */
static void add_up(tn__te *te, tn__te_stage *stage, const filling *f, const tn__buffer *tiles,
                   const tn__expr **indices) {
  tn__ir *ir = te->ir;
  const product *p = f->p;
  const tn__expr *extents[TN__MAX_RANK];
  int rank = 1;
  extents[0] = tn__ir_index(ir, f->parts);
  for (int a = 0; a < p->stage->axes.count; a++)
    if (is_batch(p, a)) extents[rank++] = p->stage->axes.var[a]->extent;
  for (int i = 0; i < 2; i++) extents[rank++] = p->sides[i].count;
  tn__te_axes axes = tn__te_axes_create(te, "p", rank, extents);
  tn__te_axes parts = tn__te_axes_create(te, "q", 1, extents);
  const char *name = tn__arena_printf(te->arena, "%s.parts", p->stage->name);
  const tn__buffer *stored = tn__te_compute(te, name, &axes, tn__ir_load(ir, tiles, axes.index));
  indices[0] = parts.index[0];
  stage->values[0] = tn__ir_load(ir, stored, indices);
  stage->reduce_axes = parts;
}

static void use_tiles(tn__te *te, tn__te_stage *stage, const product *p) {
  tn__ir *ir = te->ir;
  const tn__te_stage *whole = p->stage;
  filling f = {.te = te, .p = p};
  const tn__expr *extents[TN__MAX_RANK], *indices[TN__MAX_RANK];
  f.terms = tn__ir_index(ir, 1);
  for (int r = 0; r < whole->reduce_axes.count; r++)
    f.terms = tn__ir_mul(ir, f.terms, whole->reduce_axes.var[r]->extent);
  f.parts = parts_of(p, f.terms);
  const int64_t step = f.parts * p->tiling.terms;
  f.all_terms = filled_up(ir, f.terms, step, step);
  int rank = f.parts > 1;
  if (f.parts > 1) extents[0] = tn__ir_index(ir, f.parts);
  for (int i = 0; i < 2; i++) f.sizes[i] = filled_up(ir, p->sides[i].count, p->tiling.least[i], p->tiling.most[i]);
  for (int a = 0; a < whole->axes.count; a++) {
    if (!is_batch(p, a)) continue;
    indices[rank] = whole->axes.index[a];
    extents[rank++] = whole->axes.var[a]->extent;
  }
  for (int i = 0; i < 2; i++) {
    indices[rank + i] = joined_position(ir, whole, &p->sides[i]);
    extents[rank + i] = f.sizes[i];
  }
  const tn__buffer *left = add_operand(&f, 0), *right = add_operand(&f, 1), *tiles;
  const tn__expr *each = tn__ir_div_i(ir, f.all_terms, f.parts);
  tn__te_axes axes = tn__te_axes_create(te, "t", rank + 2, extents), terms = tn__te_axes_create(te, "k", 1, &each);
  const tn__expr *term = terms.index[0];
  if (f.parts > 1) term = tn__ir_add(ir, tn__ir_mul(ir, axes.index[0], each), term);
  const tn__expr *a = read_operand(&f, 0, left, &axes, term), *b = read_operand(&f, 1, right, &axes, term);
  const tn__expr *value = tn__ir_mul(ir, a, b);
  const char *name = tn__arena_printf(te->arena, "%s.tiles", whole->name);
  tn__te_reduce_as(te, &name, &axes, &terms, whole->combiner, &value, &tiles);
  if (f.parts > 1) {
    add_up(te, stage, &f, tiles, indices);
    return;
  }
  stage->kind = TN__TE_COMPUTE;
  stage->values[0] = tn__ir_load(ir, tiles, indices);
  stage->reduce_axes.count = 0;
  stage->combiner = NULL;
}

const tn__te *tn__te_tiles(const tn__te *te, tn__te_tiling_of *tiling_of, const void *user) {
  tn__te *copy;
  product p;
  int found = -1;
  for (int s = 0; s < te->stages.count && found < 0; s++)
    if (find_product(te->ir, te->stages.data[s], tiling_of, user, &p)) found = s;
  if (found < 0) return te;
  copy = tn__te_copy(te, te->ir);
  tn__te_stage *stage = copy->stages.data[found];
  const tn__te_stage whole = *stage;
  bool again = find_product(te->ir, &whole, tiling_of, user, &p); /* in terms of the copy */
  TN__INVARIANT(again);
  int before = copy->stages.count;
  use_tiles(copy, stage, &p);
  tn__te_move_before(copy, found, copy->stages.count - before);
  return copy;
}
