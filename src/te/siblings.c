/* Reductions of the same rows that read the same elements. Each would pass over memory again:
 *
 *   a[i] = sum(k) X[i, k]                becomes      a[i], b[i] = both(k) (X[i, k], X[i, k] * Y[i, k])
 *   b[i] = sum(k) X[i, k] * Y[i, k]
 *
 * with a combiner that does what each of theirs does. The sums and the maxima of a tensor, its moments, the squares and
 * products of two vectors are such. Not those whose terms meet others of the same element, as in products of matrices
 * and in windows: these are tiled, each as it is best. But work that all of them have in common, as sums with a
 * distance in them have, is done once whatever they read (coordinates.c). Reductions whose bounds data give, the same
 * for both, walk over the same terms, whatever they read there. */
#include "base/dtype.h"
#include "te/internal.h"

enum { MOST_TENSORS = 4 };

bool tn__te_same_extents(const tn__te_axes *a, const tn__te_axes *b) {
  if (a->count != b->count) return false;
  for (int i = 0; i < a->count; i++)
    if (a->var[i]->extent != b->var[i]->extent || a->var[i]->min != b->var[i]->min) return false;
  return true;
}

/* Each element's terms are its own: not those of an accumulation that goes elsewhere. */
static bool can_join(const tn__te_stage *stage) {
  if (stage->kind != TN__TE_REDUCE && stage->kind != TN__TE_ACCUMULATE) return false;
  if (stage->step_of != NULL || !stage->combiner->reorderable || stage->hint != TN__TE_ANYWHERE) return false;
  for (int a = 0; a < stage->axes.count; a++)
    if (!tn__te_keeps_axis(stage, a)) return false;
  return stage->reduce_axes.count > 0;
}

/* The axes of `b`, and those of `a` in their place. */
typedef struct exchange {
  const tn__var *from[2 * TN__MAX_RANK];
  const tn__expr *to[2 * TN__MAX_RANK];
  int count;
} exchange;

static void add_axes(exchange *x, const tn__te_axes *a, const tn__te_axes *b) {
  for (int i = 0; i < a->count; i++) {
    x->from[x->count] = b->var[i];
    x->to[x->count++] = a->index[i];
  }
}

/* Do data, or elements, say how long the reduction is, and the same for both? What they have in common is the walk. */
static bool share_bounds(tn__ir *ir, const tn__te_stage *a, const tn__te_stage *b) {
  exchange x = {.count = 0};
  bool ragged = false;
  if (a->kind != b->kind || a->reduce_axes.count != b->reduce_axes.count) return false;
  add_axes(&x, &a->axes, &b->axes);
  add_axes(&x, &a->reduce_axes, &b->reduce_axes);
  for (int r = 0; r < a->reduce_axes.count; r++) {
    const tn__var *own = a->reduce_axes.var[r], *other = b->reduce_axes.var[r];
    ragged |= tn__te_is_ragged(own);
    if (own->min != other->min) return false;
    if (own->extent != tn__ir_substitute(ir, other->extent, x.from, x.to, x.count)) return false;
  }
  return ragged;
}

/* What `b` computes, in terms of the axes of `a`. */
static void terms_over(tn__ir *ir, const tn__te_stage *a, const tn__te_stage *b, const tn__expr **out) {
  exchange x = {.count = 0};
  add_axes(&x, &a->axes, &b->axes);
  add_axes(&x, &a->reduce_axes, &b->reduce_axes);
  for (int t = 0; t < b->tensor_count; t++) out[t] = tn__ir_substitute(ir, b->values[t], x.from, x.to, x.count);
}

/* Looks for a load that moves with every axis of the stage, each in a dimension of its own. */
typedef struct search {
  const tn__te_stage *stage;
  const tn__expr *wanted; /* this one; NULL: any, which `found` becomes if `other` has it, too */
  const tn__expr *const *other;
  int other_count;
  tn__ir *ir;
  bool found;
} search;

static void see_wanted(const tn__expr *e, void *user) {
  search *s = user;
  s->found |= e == s->wanted;
}

static void see_load(const tn__expr *e, void *user) {
  search *s = user;
  if (s->found || e->kind != TN__EXPR_LOAD || !tn__te_is_of_all_axes(s->stage, -1, e)) return;
  search in_other = {.wanted = e};
  for (int t = 0; t < s->other_count; t++) tn__te_visit(s->ir, s->other[t], see_wanted, &in_other);
  s->found = in_other.found;
}

/* Do both read an element of their own, or have so much work in common? */
static bool share_terms(const tn__te *te, const tn__te_stage *a, const tn__te_stage *b) {
  const tn__expr *terms[MOST_TENSORS];
  terms_over(te->ir, a, b, terms);
  search s = {.stage = a, .other = terms, .other_count = b->tensor_count, .ir = te->ir};
  for (int t = 0; t < a->tensor_count; t++) tn__te_visit(te->ir, a->values[t], see_load, &s);
  if (s.found) return true;
  return tn__te_shared_work(te, a, a->values, a->tensor_count, terms, b->tensor_count) >= TN__TE_WORTH_SHARING;
}

static bool are_siblings(const tn__te *te, const tn__te_stage *a, const tn__te_stage *b) {
  if (!can_join(a) || !can_join(b) || a->tensor_count + b->tensor_count > MOST_TENSORS) return false;
  if (!tn__te_same_extents(&a->axes, &b->axes)) return false;
  bool ragged = share_bounds(te->ir, a, b);
  if (!ragged && (a->kind != b->kind || !tn__te_same_extents(&a->reduce_axes, &b->reduce_axes))) return false;
  size_t size = tn_dtype_size(a->tensors[0]->dtype); /* as many to a vector */
  for (int t = 0; t < a->tensor_count; t++)
    if (tn_dtype_size(a->tensors[t]->dtype) != size) return false;
  for (int t = 0; t < b->tensor_count; t++)
    if (tn_dtype_size(b->tensors[t]->dtype) != size) return false;
  return ragged || (a->kind == TN__TE_REDUCE && share_terms(te, a, b));
}

/* Stages that read tensors of another. */
typedef struct reading {
  const tn__te_stage *of;
  bool found;
} reading;

static void see_tensor(const tn__buffer *tensor, void *user) {
  reading *r = user;
  for (int t = 0; t < r->of->tensor_count; t++) r->found |= r->of->tensors[t] == tensor;
}

bool tn__te_reads_of(const tn__te *te, const tn__te_stage *stage, const tn__te_stage *of) {
  reading r = {.of = of};
  tn__te_reads(te, stage, see_tensor, &r);
  return r.found;
}

/* Where both may be: at the place of the first, if the second needs nothing from between, or of the second, if nothing
 * between needs the first; -1: neither. */
static int place_of_both(const tn__te *te, int first, int second) {
  bool early = true, late = true;
  for (int s = first; s < second; s++) early &= !tn__te_reads_of(te, te->stages.data[second], te->stages.data[s]);
  for (int s = first + 1; s <= second; s++) late &= !tn__te_reads_of(te, te->stages.data[s], te->stages.data[first]);
  return early ? first : late ? second : -1;
}

/* A name that the declaration does not have: a schedule that says it speaks of this stage. */
static void name_both(tn__te *te, tn__te_stage *a, const tn__te_stage *b) {
  a->name = tn__arena_printf(te->arena, "%s+%s", a->name, b->name);
}

/* What an element of `b` starts from, in terms of the axes of `a`. */
static const tn__expr *first_over(tn__ir *ir, const tn__te_stage *a, const tn__te_stage *b, int tensor) {
  exchange x = {.count = 0};
  add_axes(&x, &a->axes, &b->axes);
  return tn__ir_substitute(ir, b->first[tensor], x.from, x.to, x.count);
}

static void join(tn__te *te, int first, int second, int place) {
  tn__te_stage *a = te->stages.data[first], *b = te->stages.data[second];
  const tn__expr *terms[MOST_TENSORS];
  tn__te_combiner *both = TN__NEW(te->arena, tn__te_combiner);
  terms_over(te->ir, a, b, terms);
  both->reorderable = true;
  tn__te_add_combiner(te->ir, both, a->combiner);
  tn__te_add_combiner(te->ir, both, b->combiner);
  for (int t = 0; t < b->tensor_count; t++) {
    if (b->first[t] != NULL) a->first[a->tensor_count] = first_over(te->ir, a, b, t);
    a->values[a->tensor_count] = terms[t];
    a->tensors[a->tensor_count++] = b->tensors[t];
  }
  tn__te_share_factors(te->ir, a->values, a->tensor_count);
  a->combiner = both;
  name_both(te, a, b);
  for (int s = first; s < place; s++) te->stages.data[s] = te->stages.data[s + 1];
  te->stages.data[place] = a;
  int gone = place == first ? second : second - 1;
  for (int s = gone; s + 1 < te->stages.count; s++) te->stages.data[s] = te->stages.data[s + 1];
  te->stages.count--;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* Operations of all elements of a map of several tensors. */
enum { MOST_OPERATIONS = 256 };

/* Nothing is left to decide but what goes into one loop: every stage is a map that makes outputs. */
static bool has_output_maps_only(const tn__te *te) {
  for (int s = 0; s < te->stages.count; s++) {
    const tn__te_stage *stage = te->stages.data[s];
    if (stage->kind != TN__TE_COMPUTE || stage->axes.count == 0 || stage->hint != TN__TE_ANYWHERE) return false;
    for (int t = 0; t < stage->tensor_count; t++)
      if (!tn__te_is_output(te, stage->tensors[t])) return false;
  }
  return te->stages.count > 1;
}

typedef struct own_elements {
  const tn__te_stage *stage;
  bool reads; /* something was replaced */
} own_elements;

/* What the stage makes at its own position, in the place of a load of it. */
static const tn__expr *replace_own(tn__ir *ir, const tn__expr *e, void *user) {
  own_elements *own = user;
  (void)ir;
  if (e->kind != TN__EXPR_LOAD) return NULL;
  for (int t = 0; t < own->stage->tensor_count; t++) {
    bool same = e->value.buffer == own->stage->tensors[t];
    for (int d = 0; d < e->arg_count && same; d++) same = e->args[d] == own->stage->axes.index[d];
    if (!same) continue;
    own->reads = true;
    return own->stage->values[t];
  }
  return NULL;
}

static bool uses_tensors(const tn__expr *e, const tn__te_stage *of) {
  for (int t = 0; t < of->tensor_count; t++)
    if (tn__expr_uses_buffer(e, of->tensors[t])) return true;
  return false;
}

static void count_operation(const tn__expr *e, void *user) {
  int *count = user;
  *count += e->arg_count > 0;
}

/* The elements of `b` in terms of the axes of `a` and of what `a` reads; false when they are no siblings. */
TN_MUST_USE static bool map_terms(const tn__te *te, const tn__te_stage *a, const tn__te_stage *b,
                                  const tn__expr **out) {
  own_elements own = {.stage = a};
  int operations = 0;
  size_t size = tn_dtype_size(a->tensors[0]->dtype);
  if (a->tensor_count + b->tensor_count > MOST_TENSORS || !tn__te_same_extents(&a->axes, &b->axes)) return false;
  terms_over(te->ir, a, b, out);
  search s = {.stage = a, .other = out, .other_count = b->tensor_count, .ir = te->ir};
  for (int t = 0; t < a->tensor_count; t++) {
    tn__te_visit(te->ir, a->values[t], see_load, &s);
    tn__te_visit(te->ir, a->values[t], count_operation, &operations);
    if (tn_dtype_size(a->tensors[t]->dtype) != size) return false;
  }
  for (int t = 0; t < b->tensor_count; t++) {
    out[t] = tn__expr_rewrite(te->ir, out[t], replace_own, &own);
    tn__te_visit(te->ir, out[t], count_operation, &operations);
    if (tn_dtype_size(b->tensors[t]->dtype) != size || uses_tensors(out[t], a)) return false;
  }
  return (s.found || own.reads) && operations <= MOST_OPERATIONS;
}

/* Maps in one loop: each to the first that takes it, as long as nothing in between needs what it makes. */
static const tn__te *join_maps(const tn__te *te) {
  tn__te *copy = NULL;
  const tn__expr *terms[MOST_TENSORS];
  if (!has_output_maps_only(te)) return te;
  for (int at = 0; at + 1 < te->stages.count; at++) {
    while (at + 1 < te->stages.count && map_terms(te, te->stages.data[at], te->stages.data[at + 1], terms)) {
      if (copy == NULL) te = copy = tn__te_copy(te, te->ir);
      tn__te_stage *a = copy->stages.data[at], *b = copy->stages.data[at + 1];
      if (!map_terms(te, a, b, terms)) break;
      for (int t = 0; t < b->tensor_count; t++) {
        a->values[a->tensor_count] = terms[t];
        a->tensors[a->tensor_count++] = b->tensors[t];
      }
      name_both(copy, a, b);
      for (int s = at + 1; s + 1 < copy->stages.count; s++) copy->stages.data[s] = copy->stages.data[s + 1];
      copy->stages.count--;
    }
  }
  return te;
}

static const tn__te *join_reductions(const tn__te *te) {
  enum { FARTHEST = 16 }; /* stages apart: there may be thousands */
  tn__te *copy = NULL;
  for (int a = 0; a < te->stages.count; a++) {
    for (int b = a + 1; b < te->stages.count && b <= a + FARTHEST; b++) {
      int place = are_siblings(te, te->stages.data[a], te->stages.data[b]) ? place_of_both(te, a, b) : -1;
      if (place < 0) continue;
      if (copy == NULL) te = copy = tn__te_copy(te, te->ir);
      join(copy, a, b, place);
      b = a; /* again, with what is there now */
    }
  }
  return te;
}

const tn__te *tn__te_siblings(const tn__te *te) { return join_maps(join_reductions(te)); }
