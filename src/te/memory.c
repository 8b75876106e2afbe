/* Where the tensors of the caller lie: strides, and outputs in the memory of inputs. What a declaration computes does
 * not depend on it. */
#include <string.h>

#include "base/copy.h"
#include "te/internal.h"

void tn__te_set_strides(tn__te *te, const tn__buffer *output, const tn__expr *const *strides) {
  for (int i = 0; i < te->tensors.count; i++)
    if (te->tensors.data[i] == output) tn__buffer_set_strides(te->ir, te->tensors.data[i], strides);
}

void tn__te_put_over(tn__te *te, int output, int input) { te->over.data[output] = input; }

int tn__te_over(const tn__te *te, int output) { return te->over.data[output]; }

/* ---- conditions -------------------------------------------------------------------------------------------------- */

enum { MOST_FACTORS = 8 };

typedef struct product {
  int64_t number;
  int count;
  const tn__expr *factors[MOST_FACTORS];
} product;

static void multiply(product *p, const tn__expr *e) {
  int64_t n;
  if (e->kind == TN__EXPR_MUL) {
    multiply(p, e->args[0]);
    multiply(p, e->args[1]);
  } else if (tn__ir_as_int(e, &n)) {
    p->number = tn__ir_bound_mul(p->number, n);
  } else if (p->count < MOST_FACTORS) {
    p->factors[p->count++] = e;
  }
}

/* Is `b` a product of `a` and something else? */
static bool divides(const tn__expr *a, const tn__expr *b) {
  product x = {.number = 1}, y = {.number = 1};
  multiply(&x, a);
  multiply(&y, b);
  if (x.count == MOST_FACTORS || x.number < 1 || y.number % x.number != 0) return false;
  for (int i = 0; i < x.count; i++) {
    int at = 0;
    while (at < y.count && y.factors[at] != x.factors[i]) at++;
    if (at == y.count) return false;
    y.factors[at] = NULL;
  }
  return true;
}

/* Dimensions from the innermost outwards: by strides, as far as these can be compared, and by their order. */
static void sort_dims(tn__ir *ir, const tn__buffer *buffer, int *dims) {
  int count = 0;
  for (int d = buffer->rank - 1; d >= 0; d--) {
    int at = count++;
    for (; at > 0; at--) {
      const tn__expr *own = buffer->strides[d], *other = buffer->strides[dims[at - 1]];
      if (divides(other, own) || !(divides(own, other) || tn__ir_prove(ir, tn__ir_lt(ir, own, other)))) break;
      dims[at] = dims[at - 1];
    }
    dims[at] = d;
  }
}

int tn__te_stride_conditions(tn__ir *ir, const tn__buffer *buffer, bool written, const tn__expr **out) {
  const tn__expr *one = tn__ir_index(ir, 1), *most = tn__ir_index(ir, INT64_C(1) << 48), *span = tn__ir_index(ir, 0);
  int dims[TN__MAX_RANK], count = 0;
  if (buffer->strides == NULL) return 0;
  for (int d = 0; d < buffer->rank; d++) {
    const tn__expr *stride = buffer->strides[d];
    out[count++] = tn__ir_le(ir, tn__ir_index(ir, written ? 1 : 0), stride);
    /* Of stride and extent, neither of which is more than 2^48, so that their product does not wrap around. */
    const tn__expr *steps = tn__ir_max(ir, stride, one), *rows = tn__ir_max(ir, buffer->shape[d], one);
    out[count++] = tn__ir_le(ir, rows, tn__ir_div(ir, most, steps));
  }
  if (!written) return count;
  sort_dims(ir, buffer, dims);
  for (int i = 0; i < buffer->rank; i++) {
    const tn__expr *stride = buffer->strides[dims[i]], *rows = tn__ir_sub(ir, buffer->shape[dims[i]], one);
    if (i > 0 && !tn__ir_is_int_value(buffer->shape[dims[i]], 1)) out[count++] = tn__ir_lt(ir, span, stride);
    span = tn__ir_add(ir, span, tn__ir_mul(ir, rows, stride));
  }
  return count;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

const tn__te *tn__te_lying_like(const tn__te *te, const tn__te *like) {
  bool differs = false;
  for (int i = 0; i < te->outputs.count; i++)
    differs |= (te->outputs.data[i]->strides == NULL) != (like->outputs.data[i]->strides == NULL) ||
               te->over.data[i] != like->over.data[i];
  if (te == like || !differs) return te;
  tn__te *copy = tn__te_create(te->ir, te->name);
  copy->unchecked = te->unchecked;
  tn__importer *m = tn__importer_create(te->ir);
  const tn__expr **dims = TN__NEW_ARRAY(te->arena, te->dims.count, const tn__expr *);
  for (int i = 0; i < te->dims.count; i++) {
    const tn__var *dim = tn__ir_import_var(m, te->dims.data[i]);
    tn__vec_push(te->arena, &copy->dims, dim);
    dims[i] = dim->self;
  }
  for (int i = 0; i < te->outputs.count; i++) {
    const tn__buffer *from = like->outputs.data[i];
    const tn__expr **strides = TN__NEW_ARRAY(te->arena, from->rank, const tn__expr *);
    for (int d = 0; from->strides != NULL && d < from->rank; d++)
      strides[d] = tn__ir_substitute(te->ir, from->strides[d], like->dims.data, dims, like->dims.count);
    tn__ir_import_with_strides(m, te->outputs.data[i], from->strides != NULL ? strides : NULL);
  }
  tn__te_copy_rest(m, copy, te);
  tn__copy(copy->over.data, like->over.data, (size_t)like->over.count * sizeof(like->over.data[0]));
  return copy;
}

typedef struct dim_search {
  const tn__var *dim;
  bool found;
} dim_search;

static void look(const tn__expr *e, void *user) {
  dim_search *f = user;
  f->found |= e != NULL && tn__expr_uses_var(e, f->dim);
}

static bool stage_uses(const tn__te_stage *stage, const tn__var *dim) {
  dim_search f = {.dim = dim};
  for (int t = 0; t < stage->tensor_count; t++) {
    for (int d = 0; d < stage->tensors[t]->rank; d++) look(stage->tensors[t]->shape[d], &f);
    look(stage->values[t], &f);
    look(stage->first[t], &f);
  }
  for (int i = 0; i < stage->reduce_axes.count; i++) look(stage->reduce_axes.var[i]->extent, &f);
  for (int d = 0; d < stage->axes.count; d++) look(stage->into[d], &f);
  if (stage->body != NULL) tn__stmt_walk_exprs(stage->body, look, &f);
  return f.found;
}

static bool only_strides_use(const tn__te *te, const tn__var *dim) {
  for (int i = 0; i < te->inputs.count; i++)
    for (int d = 0; d < te->inputs.data[i]->rank; d++)
      if (tn__expr_uses_var(te->inputs.data[i]->shape[d], dim)) return false;
  for (int s = 0; s < te->stages.count; s++)
    if (stage_uses(te->stages.data[s], dim)) return false;
  for (int k = 0; k < te->inputs.count + te->outputs.count; k++) {
    const tn__buffer *b = k < te->inputs.count ? te->inputs.data[k] : te->outputs.data[k - te->inputs.count];
    for (int d = 0; b->strides != NULL && d < b->rank; d++)
      if (tn__expr_uses_var(b->strides[d], dim)) return true;
  }
  return false;
}

tn__te *tn__te_dense_copy(const tn__te *te, tn__ir *ir) {
  tn__te *copy = tn__te_create(ir, te->name);
  copy->unchecked = te->unchecked;
  tn__importer *m = tn__importer_create(ir);
  for (int i = 0; i < te->dims.count; i++) {
    const tn__var *dim = tn__ir_import_var(m, te->dims.data[i]);
    if (!only_strides_use(te, te->dims.data[i])) tn__vec_push(copy->arena, &copy->dims, dim);
  }
  for (int i = 0; i < te->inputs.count; i++) tn__ir_import_with_strides(m, te->inputs.data[i], NULL);
  for (int i = 0; i < te->outputs.count; i++) tn__ir_import_with_strides(m, te->outputs.data[i], NULL);
  tn__te_copy_rest(m, copy, te);
  for (int i = 0; i < copy->over.count; i++) copy->over.data[i] = -1;
  return copy;
}

static const tn__expr *read_copy(tn__ir *ir, const tn__expr *e, void *user) {
  const tn__buffer *const *pair = user;
  return e->kind == TN__EXPR_LOAD && e->value.buffer == pair[0] ? tn__ir_load(ir, pair[1], e->args) : NULL;
}

const char *tn__te_private_name(const tn__te *te, int input) {
  return tn__arena_printf(te->arena, "%s.copy", te->inputs.data[input]->name);
}

tn__te *tn__te_with_private(const tn__te *te, int input) {
  tn__te *copy = tn__te_copy(te, te->ir);
  const tn__buffer *from = copy->inputs.data[input];
  int count = copy->stages.count;
  tn__te_axes axes = tn__te_axes_create(copy, "i", from->rank, from->shape);
  const tn__expr *element = tn__ir_load(te->ir, from, axes.index);
  const tn__buffer *own = tn__te_compute(copy, tn__te_private_name(te, input), &axes, element);
  const tn__buffer *pair[] = {from, own};
  copy->stages.data[count]->hint = TN__TE_STORED;
  for (int s = 0; s < count; s++) tn__te_rewrite_stage(copy, copy->stages.data[s], read_copy, pair);
  tn__te_move_before(copy, 0, 1);
  return copy;
}
