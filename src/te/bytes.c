/* Sums of products of bytes, four at a time, or of 16 bits, two at a time. A declaration multiplies bytes as the
 * numbers that they are,
 *
 *   C[i, j] = sum(k) i32(A[i, k]) * i32(B[k, j])
 *
 * and targets have instructions for four such products in each lane: of bytes without a sign by bytes with one, added
 * up exactly (dot4). So each four elements along the reduction become a word of 32 bits, once, where products meet them
 * often. An operand of the other kind has its highest bit inverted, which moves its numbers by 128: the sum is then
 * wrong by 128 times the sum of the other operand's elements, which is taken off it. Two numbers of 16 bits need none
 * of this (dot2), nor do bytes that become such where targets multiply no bytes. All is exact modulo 2^32. */
#include "base/invariant.h"
#include "te/internal.h"
#include "te/layout.h"

enum {
  LEAST_USES = 16 /* of each element, for a word to be worth making */
};

typedef struct operand {
  const tn__expr *load; /* of a tensor of bytes, or of 16 bits */
  int dim;              /* the one that is summed along */
  bool turned;          /* its highest bits are inverted, since the other kind is wanted */
} operand;

typedef struct product {
  const tn__te_stage *stage;
  operand sides[2]; /* of bytes without a sign, once turned, and of those with one */
  int word;         /* so many elements are taken together, */
  int reduce;       /* along this axis */
  int64_t length;
} product;

/* ---- which sums -------------------------------------------------------------------------------------------------- */

bool tn__te_is_sum(const tn__te_stage *stage) {
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->step_of != NULL) return false;
  const tn__expr *result = stage->combiner->result[0];
  const tn__expr *l = stage->combiner->lhs[0]->self, *r = stage->combiner->rhs[0]->self;
  return stage->combiner->reorderable && result->kind == TN__EXPR_ADD && result->arg_count == 2 &&
         ((result->args[0] == l && result->args[1] == r) || (result->args[0] == r && result->args[1] == l));
}

/* The load of bytes or of i16 that becomes i32 without losing anything; NULL: it is none. */
static const tn__expr *widened_load(const tn__expr *e) {
  if (e->kind != TN__EXPR_CAST || e->dtype != TN_I32) return NULL;
  e = e->args[0];
  while (e->kind == TN__EXPR_CAST && (e->dtype == TN_I16 || (e->dtype == TN_U16 && e->args[0]->dtype == TN_U8)))
    e = e->args[0];
  return e->kind == TN__EXPR_LOAD && (e->dtype == TN_U8 || e->dtype == TN_I8 || e->dtype == TN_I16) ? e : NULL;
}

/* The dimension of which the axis is the index, if nothing else depends on it; -1: there is none. */
static int dim_along(const tn__expr *load, const tn__var *axis) {
  int dim = -1;
  for (int d = 0; d < load->arg_count; d++) {
    if (!tn__expr_uses_var(load->args[d], axis)) continue;
    if (dim >= 0 || load->args[d] != axis->self) return -1;
    dim = d;
  }
  return dim;
}

/* Are all elements of a word along the dimension terms, or zeros behind its end? */
static bool fills_words(const operand *o, int word, int64_t length) {
  int64_t size;
  return length % word == 0 || (tn__ir_as_int(o->load->value.buffer->shape[o->dim], &size) && size == length);
}

/* How many different sums there are of an operand's elements. */
static double sums_of(const tn__te_stage *stage, const tn__expr *load) {
  double count = 1;
  for (int a = 0; a < stage->axes.count; a++)
    if (tn__expr_uses_var(load, stage->axes.var[a])) count *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  return count;
}

/* The axis along which words waste least; of equals, the longest. */
static bool find_axis(product *p) {
  double best = 0;
  for (int r = 0; r < p->stage->reduce_axes.count; r++) {
    const tn__var *axis = p->stage->reduce_axes.var[r];
    operand sides[2] = {p->sides[0], p->sides[1]};
    int64_t length;
    if (axis->min != NULL && !tn__ir_is_int_value(axis->min, 0)) continue;
    if (!tn__ir_as_int(axis->extent, &length) || length < p->word) continue;
    bool fits = true;
    for (int i = 0; i < 2 && fits; i++) {
      sides[i].dim = dim_along(sides[i].load, axis);
      fits = sides[i].dim >= 0 && fills_words(&sides[i], p->word, length);
    }
    int64_t words = (length + p->word - 1) / p->word;
    double used = (double)length / (double)(p->word * words) + (double)length * 1e-9;
    if (!fits || used <= best) continue;
    best = used;
    p->sides[0] = sides[0];
    p->sides[1] = sides[1];
    p->reduce = r;
    p->length = length;
  }
  return best > 0;
}

TN_MUST_USE static bool find_product(const tn__te_stage *stage, bool bytes, product *p) {
  const tn__expr *term = stage->values[0], *loads[2];
  *p = (product){.stage = stage};
  if (!tn__te_is_sum(stage) || term->kind != TN__EXPR_MUL || term->dtype != TN_I32) return false;
  double terms = 1, elements = 0;
  for (int i = 0; i < 2; i++) {
    loads[i] = widened_load(term->args[i]);
    if (loads[i] == NULL) return false;
    elements += tn__ir_elements_estimate(loads[i]->value.buffer);
  }
  for (int a = 0; a < stage->axes.count; a++) terms *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  for (int r = 0; r < stage->reduce_axes.count; r++) terms *= tn__ir_extent_estimate(stage->reduce_axes.var[r]->extent);
  if (terms < LEAST_USES * elements) return false;
  if (!bytes || loads[0]->dtype == TN_I16 || loads[1]->dtype == TN_I16) {
    p->word = 2;
    for (int i = 0; i < 2; i++) p->sides[i] = (operand){.load = loads[i]};
    return find_axis(p);
  }
  p->word = 4;
  /* Of two of one kind, the one that is turned leaves sums of the other: fewer are better. */
  bool same = loads[0]->dtype == loads[1]->dtype, is_signed = loads[0]->dtype == TN_I8;
  int turned = same && sums_of(stage, loads[1]) > sums_of(stage, loads[0]) ? 1 : 0;
  int first = same ? (is_signed ? turned : 1 - turned) : is_signed;
  p->sides[0] = (operand){.load = loads[first], .turned = same && is_signed};
  p->sides[1] = (operand){.load = loads[1 - first], .turned = same && !is_signed};
  return find_axis(p);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* A stage behind all others that makes words of the operand. */
static const tn__buffer *add_words(tn__te *te, const operand *o, int count) {
  const tn__buffer *from = o->load->value.buffer;
  tn__layout layout = {.rank = from->rank, .word = {o->dim, count}};
  for (int d = 0; d < from->rank; d++) layout.parts[d] = (tn__layout_part){d, d == o->dim ? count : 1, 0};
  const char *name = tn__arena_printf(te->arena, "%s.words", from->name);
  const tn__buffer *words = tn__te_in_layout(te, name, from, NULL, from->shape, &layout);
  tn__te_stage *stage = te->stages.data[te->stages.count - 1];
  const tn__expr *highest = tn__ir_int(te->ir, TN_I32, INT64_C(-0x7f7f7f80));
  if (o->turned) stage->values[0] = tn__ir_binary(te->ir, TN__EXPR_XOR, stage->values[0], highest);
  return words;
}

static const tn__expr *read_words(tn__ir *ir, const operand *o, const tn__buffer *words, const tn__expr *position) {
  const tn__expr *indices[TN__MAX_RANK];
  for (int d = 0; d < words->rank; d++) indices[d] = d == o->dim ? position : o->load->args[d];
  return tn__ir_load(ir, words, indices);
}

/* Copies of axes, some of which may be left out, and what they take the place of. */
typedef struct copies {
  tn__te_axes axes;
  const tn__var *from[2 * TN__MAX_RANK];
  const tn__expr *to[2 * TN__MAX_RANK];
  int count;
} copies;

static void copy_axes(tn__ir *ir, copies *c, const tn__te_axes *axes, const tn__expr *used_by) {
  c->axes.count = 0;
  for (int a = 0; a < axes->count; a++) {
    const tn__var *var = axes->var[a];
    if (used_by != NULL && !tn__expr_uses_var(used_by, var)) continue;
    const tn__var *copy = tn__var_create(ir, var->name, TN_I64, var->min, var->extent);
    c->axes.var[c->axes.count] = copy;
    c->axes.index[c->axes.count++] = copy->self;
    c->from[c->count] = var;
    c->to[c->count++] = copy->self;
  }
}

const tn__expr *tn__te_add_sum(tn__te *te, const tn__te_stage *stage, const tn__te_axes *reduce, const char *suffix,
                               const tn__te_combiner *combiner, const tn__expr *term, const tn__expr *used_by) {
  copies c = {.count = 0};
  const tn__expr *indices[TN__MAX_RANK];
  const tn__buffer *tensor;
  int count = 0;
  copy_axes(te->ir, &c, &stage->axes, used_by);
  tn__te_axes axes = c.axes;
  copy_axes(te->ir, &c, reduce, NULL);
  const char *name = tn__arena_printf(te->arena, "%s.%s", stage->name, suffix);
  term = tn__ir_substitute(te->ir, term, c.from, c.to, c.count);
  tn__te_reduce_as(te, &name, &axes, &c.axes, combiner, &term, &tensor);
  for (int a = 0; a < stage->axes.count; a++)
    if (used_by == NULL || tn__expr_uses_var(used_by, stage->axes.var[a])) indices[count++] = stage->axes.index[a];
  return tn__ir_load(te->ir, tensor, indices);
}

static void use_words(tn__te *te, tn__te_stage *stage, const product *p) {
  tn__ir *ir = te->ir;
  const tn__expr *words[2], *plain = NULL;
  tn__te_axes reduce = p->stage->reduce_axes;
  const tn__var *axis = reduce.var[p->reduce];
  axis = tn__var_create(ir, axis->name, TN_I64, tn__ir_index(ir, 0),
                        tn__ir_index(ir, (p->length + p->word - 1) / p->word));
  reduce.var[p->reduce] = axis;
  reduce.index[p->reduce] = axis->self;
  for (int i = 0; i < 2; i++) {
    words[i] = read_words(ir, &p->sides[i], add_words(te, &p->sides[i], p->word), axis->self);
    if (p->sides[1 - i].turned) plain = words[i];
  }
  const tn__expr *term = tn__ir_call2(ir, p->word == 2 ? TN__CALL_DOT2 : TN__CALL_DOT4, words[0], words[1]);
  if (plain == NULL) {
    stage->values[0] = term;
    stage->reduce_axes = reduce;
    return;
  }
  bool left = plain == words[0];
  const tn__expr *ones = tn__ir_int(ir, TN_I32, 0x01010101);
  const tn__expr *numbers = tn__ir_call2(ir, TN__CALL_DOT4, left ? plain : ones, left ? ones : plain);
  const tn__expr *sum = tn__te_add_sum(te, p->stage, &reduce, "sums", p->stage->combiner, numbers, plain);
  const tn__expr *products = tn__te_add_sum(te, p->stage, &reduce, "products", p->stage->combiner, term, NULL);
  const tn__expr *moved = tn__ir_mul(ir, sum, tn__ir_int(ir, TN_I32, left ? 128 : -128));
  stage->kind = TN__TE_COMPUTE;
  stage->values[0] = tn__ir_add(ir, products, moved);
  stage->reduce_axes.count = 0;
  stage->combiner = NULL;
}

const tn__te *tn__te_words(const tn__te *te, bool bytes) {
  const tn__te *now = te;
  tn__te *copy = NULL;
  for (int s = 0; s < now->stages.count; s++) {
    product p;
    if (!find_product(now->stages.data[s], bytes, &p)) continue;
    if (copy == NULL) now = copy = tn__te_copy(te, te->ir);
    tn__te_stage *stage = copy->stages.data[s];
    const tn__te_stage whole = *stage;
    bool again = find_product(&whole, bytes, &p); /* in terms of the copy */
    TN__INVARIANT(again);
    int before = copy->stages.count;
    use_words(copy, stage, &p);
    int added = copy->stages.count - before;
    tn__te_move_before(copy, s, added);
    s += added;
  }
  return now;
}
