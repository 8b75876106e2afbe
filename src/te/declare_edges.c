/* Elements beyond the edges of a tensor: pad(X[i - 1], v) has a value there, the others find an element inside. */
#include "te/declare.h"
#include "te/internal.h"

typedef struct edge_row {
  const char *name;
  /* The position inside for position `e` along a dimension of `size` elements, at least one; NULL: a value stands for
   * what is outside. */
  const tn__expr *(*inside)(tn__declaring *d, const tn__expr *e, const tn__expr *size);
} edge_row;

/* ---- positions inside -------------------------------------------------------------------------------------------- */

static bool is_between(tn__declaring *d, const tn__expr *low, const tn__expr *e, const tn__expr *high) {
  e = tn__te_at_position(d, e);
  return tn__ir_prove(d->ir, tn__ir_le(d->ir, low, e)) && tn__ir_prove(d->ir, tn__ir_le(d->ir, e, high));
}

static const tn__expr *repeated(tn__declaring *d, const tn__expr *e, const tn__expr *size) {
  const tn__expr *low = tn__ir_max(d->ir, e, tn__ir_index(d->ir, 0));
  return tn__ir_min(d->ir, low, tn__ir_add_i(d->ir, size, -1));
}

/* Where the size is open, and it is shown that the position is at most one turn outside, there is no division. */
static const tn__expr *wrapped(tn__declaring *d, const tn__expr *e, const tn__expr *size) {
  tn__ir *ir = d->ir;
  const tn__expr *zero = tn__ir_index(ir, 0), *last = tn__ir_add_i(ir, tn__ir_mul(ir, size, tn__ir_index(ir, 2)), -1);
  if (!tn__ir_is_int(size) && is_between(d, tn__ir_sub(ir, zero, size), e, last)) {
    const tn__expr *behind = tn__ir_select(ir, tn__ir_lt(ir, e, size), e, tn__ir_sub(ir, e, size));
    return tn__ir_select(ir, tn__ir_le(ir, zero, e), behind, tn__ir_add(ir, e, size));
  }
  return tn__ir_binary(d->ir, TN__EXPR_MOD, e, size);
}

/* Back and forth: the position goes from 0 up to the last one and down again, `repeats` says whether the ends come
 * twice. Where it is shown that it turns at each end at most once, neither a remainder nor its division is needed. */
static const tn__expr *folded(tn__declaring *d, const tn__expr *e, const tn__expr *size, bool repeats) {
  tn__ir *ir = d->ir;
  int64_t end = repeats ? 1 : 0;
  const tn__expr *zero = tn__ir_index(ir, 0),
                 *top = tn__ir_add_i(ir, tn__ir_mul(ir, size, tn__ir_index(ir, 2)), end - 2);
  const tn__expr *furthest = tn__ir_sub(ir, zero, tn__ir_add_i(ir, size, end - 1));
  if (is_between(d, furthest, e, top)) {
    const tn__expr *below = tn__ir_min(ir, e, tn__ir_sub(ir, top, e));
    return tn__ir_max(ir, below, tn__ir_sub(ir, tn__ir_index(ir, -end), e));
  }
  const tn__expr *period = tn__ir_add_i(ir, top, repeats ? 1 : 0);
  const tn__expr *there = tn__ir_binary(ir, TN__EXPR_MOD, e, tn__ir_max(ir, period, tn__ir_index(ir, 1)));
  return tn__ir_min(ir, there, tn__ir_sub(ir, top, there));
}

static const tn__expr *mirrored(tn__declaring *d, const tn__expr *e, const tn__expr *size) {
  return folded(d, e, size, true);
}

static const tn__expr *reflected(tn__declaring *d, const tn__expr *e, const tn__expr *size) {
  return folded(d, e, size, false);
}

static const edge_row edges[] = {
    {"pad", NULL}, {"repeat", repeated}, {"mirror", mirrored}, {"reflect", reflected}, {"wrap", wrapped}};

enum { EDGE_COUNT = sizeof(edges) / sizeof(edges[0]) };

const char *tn__te_edge_word(int index) { return index < EDGE_COUNT ? edges[index].name : NULL; }

const struct edge_row *tn__te_edge_find(const tn__declaring *d, const tn__token *name) {
  if (tn__te_find_function(d, name) != NULL) return NULL;
  for (int i = 0; i < EDGE_COUNT; i++)
    if (tn__te_token_is(name, edges[i].name)) return &edges[i];
  return NULL;
}

/* ---- pad --------------------------------------------------------------------------------------------------------- */

static const tn__expr *padded_at(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices,
                                 const tn__expr *value) {
  const tn__expr *inside = tn__ir_bool(ir, true);
  for (int i = 0; i < buffer->rank; i++) {
    inside = tn__ir_and(ir, inside, tn__ir_le(ir, tn__ir_index(ir, 0), indices[i]));
    inside = tn__ir_and(ir, inside, tn__ir_lt(ir, indices[i], buffer->shape[i]));
  }
  return tn__ir_select(ir, inside, tn__ir_load(ir, buffer, indices), value);
}

/* Margins in several dimensions make a small tensor large: is the padded one still of the size of what it pads? Sizes
 * that are open are large beside their margins. */
static bool is_worth_padding(const tn__buffer *buffer, const tn__expr *const *extents) {
  enum { MOST_GROWTH = 8, SMALL = 4096 };
  double before = 1, after = 1;
  for (int i = 0; i < buffer->rank; i++) {
    int64_t size, extent;
    if (!tn__ir_as_int(buffer->shape[i], &size) || !tn__ir_as_int(extents[i], &extent)) continue;
    before *= (double)size;
    after *= (double)extent;
  }
  return after <= SMALL || after <= MOST_GROWTH * before;
}

/* In the terms of a reduction: all of the padded tensor, as one of its own, so that the terms are as simple as without
 * padding. Where the indices go is needed for that, with a margin that is known; NULL when it is not. */
static const tn__expr *padded_before(tn__declaring *d, const tn__buffer *buffer, const tn__expr *const *indices,
                                     const tn__expr *value) {
  enum { MOST_MARGIN = 64 };
  tn__ir *ir = d->ir;
  const tn__expr *extents[TN__MAX_RANK], *places[TN__MAX_RANK] = {NULL}, *at[TN__MAX_RANK] = {NULL};
  const tn__expr *low[TN__MAX_RANK], *high;
  bool margins = false;
  if (d->reductions == 0 || d->statement == NULL || (value->kind != TN__EXPR_INT && value->kind != TN__EXPR_FLOAT))
    return NULL;
  for (int i = 0; i < d->scan_count; i++)
    if (d->scan_tensors[i] == buffer) return NULL;
  if (tn__te_stage_of(d->te, buffer) != NULL && tn__te_stage_of(d->te, buffer)->step_of != NULL) return NULL;
  for (int i = 0; i < buffer->rank; i++) {
    int64_t before, after;
    if (!tn__ir_bounds_over(ir, indices[i], d->axes.data, d->axes.count, &low[i], &high)) return NULL;
    extents[i] = tn__ir_add_i(ir, tn__ir_sub(ir, high, low[i]), 1);
    if (tn__interval_of(ir, extents[i]).min < 1) return NULL; /* no term may be read, and no tensor be made of it */
    at[i] = tn__ir_sub(ir, indices[i], low[i]);
    if (!tn__ir_as_int(low[i], &before) || !tn__ir_as_int(tn__ir_sub(ir, extents[i], buffer->shape[i]), &after))
      return NULL;
    if (before < -MOST_MARGIN || after > 2 * MOST_MARGIN) return NULL;
    margins |= before < 0 || after + before > 0;
  }
  if (!margins || !is_worth_padding(buffer, extents)) return NULL;
  tn__te_axes axes = tn__te_axes_create(d->te, "p", buffer->rank, extents);
  for (int i = 0; i < buffer->rank; i++) places[i] = tn__ir_add(ir, axes.index[i], low[i]);
  const char *name = tn__arena_printf(d->arena, "%s.pad", d->statement);
  return tn__ir_load(ir, tn__te_compute(d->te, name, &axes, padded_at(ir, buffer, places, value)), at);
}

static const tn__expr *padded(tn__declaring *d, const tn__syn *s, const tn__buffer *buffer,
                              const tn__expr *const *indices) {
  d->guards++;
  const tn__expr *value = tn__te_value(d, s->args[1], buffer->dtype);
  d->guards--;
  tn__te_expect_dtype(d, &s->args[1]->at, value, buffer->dtype, buffer->name);
  const tn__expr *before = padded_before(d, buffer, indices, value);
  return before != NULL ? before : padded_at(d->ir, buffer, indices, value);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

const tn__expr *tn__te_edge_value(tn__declaring *d, const tn__syn *s) {
  const edge_row *edge = tn__te_edge_find(d, &s->at);
  const tn__expr *indices[TN__MAX_RANK] = {NULL}, *zero = tn__ir_index(d->ir, 0);
  bool own = false;
  tn__te_expect_args(d, s, edge->inside == NULL ? 2 : 1);
  const tn__syn *at = s->args[0];
  if (at->kind != TN__SYN_ACCESS)
    tn__te_fail(d, &at->at, "%s takes an element of a tensor%s", edge->name,
                edge->inside == NULL ? " and what stands for those outside of it" : ", such as X[i - 1]");
  const tn__buffer *buffer = tn__te_tensor(d, at, indices);
  tn__te_refuse_open(d, &s->at, tn__te_lookup(d, &at->at),
                     tn__arena_printf(d->arena, "%s needs the edges of %s", edge->name, buffer->name));
  int first = buffer->rank - at->arg_count;
  for (int i = 0; i < at->arg_count; i++) indices[first + i] = tn__te_index(d, at->args[i], "an index");
  if (edge->inside == NULL) return padded(d, s, buffer, indices);
  for (int t = 0; t < d->scan_count; t++) own |= d->scan_tensors[t] == buffer;
  for (int i = first; i < buffer->rank; i++) {
    const tn__expr *size = buffer->shape[i];
    if (own && i == d->scan_dim) continue; /* earlier positions are there, and others must not be read */
    if (is_between(d, zero, indices[i], tn__ir_add_i(d->ir, size, -1))) continue;
    if (tn__interval_of(d->ir, size).min < 1)
      tn__te_fail(d, &s->at, "%s finds an element inside, and %s may have none along dimension %d", edge->name,
                  buffer->name, i);
    indices[i] = edge->inside(d, indices[i], size);
  }
  tn__te_check_access(d, at, buffer, indices);
  return tn__ir_load(d->ir, buffer, indices);
}
