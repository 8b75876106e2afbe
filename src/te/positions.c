/* Where the greatest element of each column is. An argmax keeps, of two elements, the better one, and of equal ones the
 * first, whichever of them came from where: lanes along the reduction may so be combined in any order. Where lanes are
 * columns, terms come one after the other, and a new one only has to be better:
 *
 *   v[j], a[j] = argmax(i) X[i, j]    becomes    w[j], b[j] = later(i) (X[i, j], i)      v[j] = w[j]
 *                                                                                        a[j] = max(b[j], 0)
 *
 * with positions in a type as wide as the elements, as many to a vector. Nothing is better than the identity where all
 * elements are equal to it: b is -1 then, and the first one is meant. */
#include "te/internal.h"

typedef struct argreduce {
  const tn__te_stage *stage;
  bool greatest;
  int64_t first, last; /* positions */
} argreduce;

/* Is it the language's own combiner, which takes the first of equal elements? */
static bool is_own(tn__te *scratch, const tn__te_stage *stage, bool greatest) {
  const tn__te_combiner *c = stage->combiner;
  const tn__te_combiner *own =
      tn__te_arg_combiner(scratch, stage->tensors[0]->dtype, stage->tensors[1]->dtype, greatest, false);
  const tn__var *from[] = {own->lhs[0], own->lhs[1], own->rhs[0], own->rhs[1]};
  const tn__expr *to[] = {c->lhs[0]->self, c->lhs[1]->self, c->rhs[0]->self, c->rhs[1]->self};
  for (int i = 0; i < 2; i++) {
    if (own->identity[i] != c->identity[i]) return false;
    if (tn__ir_substitute(scratch->ir, own->result[i], from, to, 4) != c->result[i]) return false;
  }
  return c->reorderable;
}

/* Do positions grow with each term, from a number that is known to another? */
static bool grow(tn__ir *ir, argreduce *a) {
  const tn__te_axes *axes = &a->stage->reduce_axes;
  const tn__expr *position = a->stage->values[1], *zero[TN__MAX_RANK];
  int64_t walked = 0, stride, extent;
  while (position->kind == TN__EXPR_CAST && tn__dtype_is_int(position->dtype)) position = position->args[0];
  if (position->dtype != TN_I64 || axes->count == 0) return false;
  for (int r = axes->count - 1; r >= 0; r--) {
    if (axes->var[r]->min != NULL && !tn__ir_is_int_value(axes->var[r]->min, 0)) return false;
    if (!tn__ir_as_int(axes->var[r]->extent, &extent) || extent < 1 || extent > INT32_MAX) return false;
    if (!tn__ir_stride_in(ir, position, axes->var[r], &stride)) return false;
    if (extent > 1 && (stride <= walked || stride > INT32_MAX)) return false;
    walked += stride * (extent - 1);
    zero[r] = tn__ir_index(ir, 0);
  }
  if (!tn__ir_as_int(tn__ir_substitute(ir, position, axes->var, zero, axes->count), &a->first)) return false;
  a->last = a->first + walked;
  return a->first >= 0 && tn__ir_dtype_interval(a->stage->tensors[1]->dtype).max >= a->last;
}

typedef struct reading {
  tn__ir *ir;
  const tn__var *column;
  bool along, apart; /* neighbours in memory, or not even a number of elements apart */
} reading;

static void see_load(const tn__expr *e, void *user) {
  reading *r = user;
  int64_t stride;
  if (e->kind != TN__EXPR_LOAD) return;
  const tn__expr *flat = tn__buffer_flatten(r->ir, e->value.buffer, e->args);
  if (!tn__ir_stride_in(r->ir, flat, r->column, &stride) || (stride != 0 && stride != 1)) r->apart = true;
  r->along |= stride == 1;
}

/* Are vectors of columns what memory has? */
static bool has_columns(tn__ir *ir, const tn__te_stage *stage, int64_t vector_bytes) {
  int64_t extent, size = (int64_t)tn_dtype_size(stage->tensors[0]->dtype);
  if (stage->axes.count == 0) return false;
  const tn__var *column = stage->axes.var[stage->axes.count - 1];
  if (tn__ir_as_int(column->extent, &extent) && extent * size < vector_bytes) return false;
  reading r = {.ir = ir, .column = column};
  tn__te_visit(ir, stage->values[0], see_load, &r);
  return r.along && !r.apart;
}

TN_MUST_USE static bool find(tn__te *scratch, const tn__te_stage *stage, int64_t vector_bytes, argreduce *a) {
  *a = (argreduce){.stage = stage};
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 2 || stage->combiner->count != 2) return false;
  if (!tn__dtype_is_int(stage->tensors[1]->dtype) || stage->tensors[0]->dtype == TN_BOOL) return false;
  a->greatest = is_own(scratch, stage, true);
  if (!a->greatest && !is_own(scratch, stage, false)) return false;
  return has_columns(scratch->ir, stage, vector_bytes) && grow(scratch->ir, a);
}

static tn_dtype position_type(const argreduce *a) {
  tn_dtype value = a->stage->tensors[0]->dtype;
  size_t size = tn__dtype_is_float(value) && tn_dtype_size(value) < 4 ? 4 : tn_dtype_size(value);
  if (size <= 2 && a->last <= INT16_MAX) return TN_I16;
  return size <= 4 && a->last <= INT32_MAX ? TN_I32 : TN_I64;
}

/* Of terms that come in order: the new one where it is better. A NaN is, but for the NaN that is there. */
static const tn__te_combiner *later(tn__te *te, const argreduce *a, tn_dtype position) {
  tn__ir *ir = te->ir;
  tn_dtype value = a->stage->tensors[0]->dtype;
  tn__te_combiner *c = TN__NEW(te->arena, tn__te_combiner);
  c->count = 2;
  for (int i = 0; i < 2; i++) {
    c->lhs[i] = tn__var_create(ir, i == 0 ? "lhs" : "lhs_index", i == 0 ? value : position, NULL, NULL);
    c->rhs[i] = tn__var_create(ir, i == 0 ? "rhs" : "rhs_index", i == 0 ? value : position, NULL, NULL);
  }
  const tn__expr *l = c->lhs[0]->self, *r = c->rhs[0]->self,
                 *better = a->greatest ? tn__ir_lt(ir, l, r) : tn__ir_lt(ir, r, l);
  if (tn__dtype_is_float(value)) {
    better = tn__ir_not(ir, a->greatest ? tn__ir_le(ir, r, l) : tn__ir_le(ir, l, r));
    better = tn__ir_and(ir, better, tn__ir_eq(ir, l, l));
  }
  for (int i = 0; i < 2; i++) c->result[i] = tn__ir_select(ir, better, c->rhs[i]->self, c->lhs[i]->self);
  c->identity[0] = a->stage->combiner->identity[0];
  c->identity[1] = tn__ir_int(ir, position, -1);
  return c;
}

typedef struct reader {
  const tn__buffer *tensor;
  bool found;
} reader;

static void see_tensor(const tn__buffer *tensor, void *user) {
  reader *r = user;
  r->found |= tensor == r->tensor;
}

static bool is_read(const tn__te *te, const tn__buffer *tensor) {
  reader r = {.tensor = tensor, .found = tn__te_is_output(te, tensor)};
  for (int s = 0; s < te->stages.count && !r.found; s++) tn__te_reads(te, te->stages.data[s], see_tensor, &r);
  return r.found;
}

static void take_in_order(tn__te *te, tn__te_stage *stage, const argreduce *a) {
  tn__ir *ir = te->ir;
  const tn__te_stage *whole = a->stage;
  tn_dtype type = position_type(a);
  const tn__buffer *made[2];
  const tn__expr *read[2], *terms[] = {whole->values[0], tn__ir_cast(ir, type, whole->values[1])};
  const char *names[] = {tn__arena_printf(te->arena, "%s.best", whole->tensors[0]->name),
                         tn__arena_printf(te->arena, "%s.at", whole->tensors[1]->name)};
  tn__te_reduce_as(te, names, &whole->axes, &whole->reduce_axes, later(te, a, type), terms, made);
  *stage = *te->stages.data[--te->stages.count];
  stage->step_of = whole->step_of;
  for (int i = 0; i < 2; i++) read[i] = tn__ir_load(ir, made[i], whole->axes.index);
  if (is_read(te, whole->tensors[0])) tn__te_define(te, &whole->axes, whole->step_of, whole->tensors[0], read[0]);
  const tn__expr *position = tn__ir_max(ir, read[1], tn__ir_int(ir, type, a->first));
  tn__te_define(te, &whole->axes, whole->step_of, whole->tensors[1],
                tn__ir_cast(ir, whole->tensors[1]->dtype, position));
}

const tn__te *tn__te_argmax(const tn__te *te, int64_t vector_bytes) {
  const tn__te *now = te;
  tn__te *copy = NULL;
  tn__te *scratch = tn__te_create(te->ir, te->name);
  for (int s = 0; s < now->stages.count; s++) {
    argreduce a;
    if (!find(scratch, now->stages.data[s], vector_bytes, &a)) continue;
    if (copy == NULL) now = copy = tn__te_copy(te, te->ir);
    const tn__te_stage whole = *copy->stages.data[s];
    a.stage = &whole;
    int before = copy->stages.count;
    take_in_order(copy, copy->stages.data[s], &a);
    int added = copy->stages.count - before;
    tn__te_move_before(copy, s + 1, added);
    s += added;
  }
  return now;
}
