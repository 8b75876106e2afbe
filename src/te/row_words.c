/* Sums along rows of narrow integers, several terms at a time. A declaration widens before it adds up,
 *
 *   s[i] = sum(k) i32(A[i, k]) * i32(B[i, k])
 *
 * and a vector has as many sums as of the wide type. Targets multiply and add neighbours in one instruction: four
 * products of bytes, two of 16 bits (dot4, dot2), or eight bytes (sum8). So neighbouring terms become words where they
 * lie side by side, which is a load and no work, and sums are of words; what is left behind the last whole word is
 * added at the end. Terms may be computed, as |a - b| is: what counts is that what is multiplied, or added up, fits
 * the narrow type. A product of bytes of one kind has the highest bits of one side inverted, which moves its numbers by
 * 128, and 128 times the other side is taken off again. All is exact modulo the type's numbers. */
#include "te/internal.h"

enum {
  LEAST_TERMS = 128, /* in a row: a few vectors of words */
  LEAST_USES = 16,   /* of each element, where words in memory and tiles of sums are better */
  MOST_NODES = 64,   /* of a term, which is written out for each element of a word */
  MOST_ELEMENTS = 8  /* of a word */
};

/* What a word's terms are added up by. */
typedef struct way {
  tn__intrinsic call;
  tn_dtype sums, element[2];
  int count;         /* of elements */
  int turned;        /* the side whose highest bits are inverted; -1: none */
  bool alone;        /* one side only: the other one is ones */
  int64_t magnitude; /* no term is larger: so many times the number of terms must fit sums that are widened behind */
} way;

typedef struct row_sum {
  const tn__te_stage *stage;
  const tn__expr *sides[2];
  way way;
  int axis; /* the last one of the reduction */
  int64_t length;
} row_sum;

/* ---- which sums -------------------------------------------------------------------------------------------------- */

static bool fits(tn__interval range, int64_t min, int64_t max) { return range.min >= min && range.max <= max; }

/* The value without what only widens it. */
static const tn__expr *narrowest(tn__ir *ir, const tn__expr *e) {
  while (e->kind == TN__EXPR_CAST && (tn__dtype_is_int(e->args[0]->dtype) || e->args[0]->dtype == TN_BOOL)) {
    tn__interval whole = tn__ir_dtype_interval(e->dtype), range = tn__interval_of(ir, e->args[0]);
    bool all =
        tn__dtype_bits(e->dtype) == 64 ? tn__dtype_bits(e->args[0]->dtype) < 64 : fits(range, whole.min, whole.max);
    if (!all || (e->dtype == TN_U64 && range.min < 0)) break;
    e = e->args[0];
  }
  return e;
}

typedef struct reading {
  tn__ir *ir;
  const tn__var *along, *across; /* the reduction's last axis, and that of neighbouring results; NULL: there is none */
  bool fits, moves;
} reading;

/* Elements along the axis lie side by side and are narrow, and neighbouring results do not. */
static void see_load(const tn__expr *e, void *user) {
  reading *r = user;
  if (e->kind != TN__EXPR_LOAD) return;
  int last = e->arg_count - 1;
  int64_t step;
  for (int d = 0; d <= last; d++) {
    r->fits &= !tn__expr_has_load(e->args[d]);
    if (!tn__expr_uses_var(e->args[d], r->along)) continue;
    bool narrow = (tn__dtype_is_int(e->dtype) && tn__dtype_bits(e->dtype) <= 16) || e->dtype == TN_BOOL;
    r->fits &= d == last && narrow && tn__ir_stride_in(r->ir, e->args[d], r->along, &step) && step == 1;
    r->moves = true;
  }
  if (r->across == NULL || last < 0 || !tn__expr_uses_var(e->args[last], r->across)) return;
  r->fits &= tn__ir_stride_in(r->ir, e->args[last], r->across, &step) && step != 1 && step != -1;
}

typedef struct counting {
  double bytes;
} counting;

static void count_elements(const tn__expr *e, void *user) {
  counting *c = user;
  if (e->kind == TN__EXPR_LOAD) c->bytes += tn__ir_elements_estimate(e->value.buffer);
}

/* Do the terms meet each element so often that other schedules keep them in registers? */
static bool meets_often(tn__ir *ir, const tn__te_stage *stage) {
  counting c = {0};
  double terms = 1;
  tn__te_visit(ir, stage->values[0], count_elements, &c);
  for (int a = 0; a < stage->axes.count; a++) terms *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  for (int r = 0; r < stage->reduce_axes.count; r++) terms *= tn__ir_extent_estimate(stage->reduce_axes.var[r]->extent);
  return terms >= LEAST_USES * c.bytes;
}

static bool is_row_sum(tn__ir *ir, const tn__te_stage *stage, row_sum *sum) {
  if (stage->kind != TN__TE_REDUCE || stage->step_of != NULL || !tn__te_is_sum(stage)) return false;
  const tn__expr *term = stage->values[0];
  if (!tn__dtype_is_int(term->dtype) || tn__dtype_bits(term->dtype) < 32 || tn__expr_size(term) > MOST_NODES)
    return false;
  sum->stage = stage;
  sum->axis = stage->reduce_axes.count - 1;
  reading r = {.ir = ir, .along = stage->reduce_axes.var[sum->axis], .fits = true};
  if (r.along->min != NULL && !tn__ir_is_int_value(r.along->min, 0)) return false;
  if (!tn__ir_as_int(r.along->extent, &sum->length) || sum->length < LEAST_TERMS) return false;
  for (int a = 0; a < stage->axes.count; a++)
    if (!tn__ir_is_int_value(stage->axes.var[a]->extent, 1)) r.across = stage->axes.var[a];
  for (int a = 0; a < stage->reduce_axes.count; a++)
    if (tn__te_is_ragged(stage->reduce_axes.var[a])) return false;
  tn__te_visit(ir, term, see_load, &r);
  return r.fits && r.moves && !meets_often(ir, stage);
}

/* ---- which words ------------------------------------------------------------------------------------------------- */

/* How both sides of a product, or terms by themselves, are taken together; false: not at all. */
TN_MUST_USE static bool way_of(tn__ir *ir, const row_sum *sum, bool alone, bool bytes, way *w) {
  tn__interval a = tn__interval_of(ir, sum->sides[0]), b = alone ? a : tn__interval_of(ir, sum->sides[1]);
  bool small[2] = {fits(a, 0, UINT8_MAX), fits(b, 0, UINT8_MAX)}; /* as bytes without a sign */
  bool even[2] = {fits(a, INT8_MIN, INT8_MAX), fits(b, INT8_MIN, INT8_MAX)};
  if (alone && small[0]) {
    *w = (way){TN__CALL_SUM8, TN_I64, {TN_U8, TN_U8}, 8, -1, true, 0};
  } else if (bytes && alone && even[0]) {
    *w = (way){TN__CALL_DOT4, TN_I32, {TN_U8, TN_I8}, 4, -1, true, INT8_MAX + 1};
  } else if (bytes && !alone && (small[0] || even[0]) && (small[1] || even[1])) {
    int first = small[0] && even[1] ? 0 : small[1] && even[0] ? 1 : -1;
    *w = (way){TN__CALL_DOT4, TN_I32, {TN_U8, TN_I8}, 4, -1, false, UINT8_MAX * UINT8_MAX};
    if (first < 0) w->turned = small[0] ? 1 : 0;
    if (first == 1) *w = (way){w->call, w->sums, {TN_I8, TN_U8}, w->count, -1, false, w->magnitude};
  } else if (fits(a, INT16_MIN, INT16_MAX) && fits(b, INT16_MIN, INT16_MAX)) {
    int64_t most = -(int64_t)INT16_MIN;
    *w = (way){TN__CALL_DOT2, TN_I32, {TN_I16, TN_I16}, 2, -1, alone, alone ? most : most * most};
  } else {
    return false;
  }
  double terms = 1;
  for (int r = 0; r < sum->stage->reduce_axes.count; r++)
    terms *= tn__ir_extent_estimate(sum->stage->reduce_axes.var[r]->extent);
  /* Sums of 32 bits that were declared to be wider must not wrap around. */
  bool widens = tn__dtype_bits(w->sums) < tn__dtype_bits(sum->stage->values[0]->dtype);
  for (int r = 0; r < sum->stage->reduce_axes.count && widens; r++)
    if (!tn__ir_is_int(sum->stage->reduce_axes.var[r]->extent)) return false;
  if (widens && terms * (double)w->magnitude > INT32_MAX) return false;
  return sum->length % w->count == 0 || sum->stage->reduce_axes.count == 1;
}

TN_MUST_USE static bool find_row_sum(tn__ir *ir, const tn__te_stage *stage, bool bytes, row_sum *sum) {
  *sum = (row_sum){.stage = NULL};
  if (!is_row_sum(ir, stage, sum)) return false;
  const tn__expr *term = narrowest(ir, stage->values[0]);
  sum->sides[0] = term;
  if (way_of(ir, sum, true, bytes, &sum->way) && (sum->way.call == TN__CALL_SUM8 || term->kind != TN__EXPR_MUL))
    return true;
  if (term->kind != TN__EXPR_MUL) return false;
  for (int i = 0; i < 2; i++) sum->sides[i] = narrowest(ir, term->args[i]);
  /* The product itself must not have wrapped around in a type that is narrower than the sum's. */
  tn__interval whole = tn__ir_dtype_interval(term->dtype), a = tn__interval_of(ir, sum->sides[0]);
  tn__interval b = tn__interval_of(ir, sum->sides[1]), range = tn__interval_of(ir, term);
  bool wraps = tn__dtype_bits(term->dtype) < 64 && term != stage->values[0] && !fits(range, whole.min, whole.max);
  if (wraps || !fits(a, INT16_MIN, INT16_MAX) || !fits(b, INT16_MIN, INT16_MAX)) return false;
  return way_of(ir, sum, false, bytes, &sum->way);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const tn__expr *at(tn__ir *ir, const row_sum *sum, const tn__expr *e, const tn__expr *position) {
  return tn__ir_substitute(ir, e, &sum->stage->reduce_axes.var[sum->axis], &position, 1);
}

/* The elements from `position` on as a word, the first one lowest. */
static const tn__expr *word_of(tn__ir *ir, const row_sum *sum, int side, const tn__expr *position) {
  int count = sum->way.count, bits = (sum->way.call == TN__CALL_SUM8 ? 64 : 32) / count;
  tn_dtype type = count == 8 ? TN_I64 : TN_I32, element = bits == 8 ? TN_U8 : TN_U16;
  const tn__expr *word = NULL;
  for (int i = 0; i < count; i++) {
    const tn__expr *e = at(ir, sum, sum->sides[side], tn__ir_add_i(ir, position, i));
    e = tn__ir_cast(ir, type, tn__ir_cast(ir, element, e));
    if (i > 0) e = tn__ir_binary(ir, TN__EXPR_SHL, e, tn__ir_int(ir, type, (int64_t)i * bits));
    word = word == NULL ? e : tn__ir_binary(ir, TN__EXPR_OR, word, e);
  }
  return word;
}

static const tn__expr *term_of_words(tn__ir *ir, const row_sum *sum, const tn__expr *position) {
  const way *w = &sum->way;
  const tn__expr *word = word_of(ir, sum, 0, position);
  if (w->call == TN__CALL_SUM8) return tn__ir_call1(ir, w->call, word);
  const tn__expr *ones = tn__ir_int(ir, TN_I32, w->call == TN__CALL_DOT4 ? 0x01010101 : 0x00010001);
  if (w->alone) return tn__ir_call2(ir, w->call, ones, word);
  const tn__expr *other = word_of(ir, sum, 1, position);
  if (w->element[0] == TN_I8) return tn__ir_call2(ir, w->call, other, word);
  if (w->turned < 0) return tn__ir_call2(ir, w->call, word, other);
  const tn__expr *highest = tn__ir_int(ir, TN_I32, INT64_C(-0x7f7f7f80)), *all, *moved;
  if (w->turned == 0) { /* (a + 128) * b - 128 * b */
    all = tn__ir_call2(ir, w->call, tn__ir_binary(ir, TN__EXPR_XOR, word, highest), other);
    moved = tn__ir_call2(ir, w->call, highest, other);
  } else { /* a * (b - 128) - a * -128 */
    all = tn__ir_call2(ir, w->call, word, tn__ir_binary(ir, TN__EXPR_XOR, other, highest));
    moved = tn__ir_call2(ir, w->call, word, highest);
  }
  return tn__ir_sub(ir, all, moved);
}

static void use_words(tn__te *te, tn__te_stage *stage, const row_sum *sum) {
  tn__ir *ir = te->ir;
  tn_dtype type = stage->values[0]->dtype;
  const tn__var *axis = sum->stage->reduce_axes.var[sum->axis];
  int64_t words = sum->length / sum->way.count, rest = sum->length % sum->way.count;
  tn__te_axes reduce = sum->stage->reduce_axes;
  axis = tn__var_create(ir, axis->name, TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, words));
  reduce.var[sum->axis] = axis;
  reduce.index[sum->axis] = axis->self;
  const tn__expr *term = term_of_words(ir, sum, tn__ir_mul_i(ir, axis->self, sum->way.count));
  if (rest == 0 && type == sum->way.sums) {
    stage->values[0] = term;
    stage->reduce_axes = reduce;
    return;
  }
  const tn__te_combiner *combiner = tn__te_combiner_of(te, TN__TE_SUM, sum->way.sums);
  const tn__expr *value = tn__ir_cast(ir, type, tn__te_add_sum(te, sum->stage, &reduce, "words", combiner, term, NULL));
  for (int64_t i = sum->length - rest; i < sum->length; i++)
    value = tn__ir_add(ir, value, at(ir, sum, sum->stage->values[0], tn__ir_index(ir, i)));
  stage->kind = TN__TE_COMPUTE;
  stage->values[0] = value;
  stage->reduce_axes.count = 0;
  stage->combiner = NULL;
}

const tn__te *tn__te_row_words(const tn__te *te, bool bytes) {
  const tn__te *now = te;
  tn__te *copy = NULL;
  for (int s = 0; s < now->stages.count; s++) {
    row_sum sum;
    if (!find_row_sum(te->ir, now->stages.data[s], bytes, &sum)) continue;
    if (copy == NULL) now = copy = tn__te_copy(te, te->ir);
    tn__te_stage *stage = copy->stages.data[s];
    const tn__te_stage whole = *stage;
    if (!find_row_sum(te->ir, &whole, bytes, &sum)) continue; /* in terms of the copy */
    int before = copy->stages.count;
    use_words(copy, stage, &sum);
    int added = copy->stages.count - before;
    tn__te_move_before(copy, s, added);
    s += added;
  }
  return now;
}
