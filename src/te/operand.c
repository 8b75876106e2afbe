#include "te/operand.h"

#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"

typedef TN__VEC(const tn__buffer *) buffers;

static bool is_among(const buffers *list, const tn__buffer *b) {
  for (int i = 0; i < list->count; i++)
    if (list->data[i] == b) return true;
  return false;
}

/* An expression in which the input may be met: the least of `among` for all places where it is. */
typedef struct seen {
  const buffers *of;
  int64_t among, least;
} seen;

static void see_input(const tn__expr *e, void *user) {
  seen *s = user;
  if (e->kind == TN__EXPR_LOAD && is_among(s->of, e->value.buffer) && s->among < s->least) s->least = s->among;
}

static int64_t least_of(tn__ir *ir, const buffers *of, const tn__expr *e, int64_t among) {
  seen s = {of, among, INT64_MAX};
  tn__te_visit(ir, e, see_input, &s);
  return s.least;
}

typedef struct finding {
  tn__ir *ir;
  buffers input;    /* it alone */
  buffers carriers; /* it, and the tensors of integers that are computed of it: what chooses by them chooses by it */
  bool carries;     /* the stage that is looked at reads one */
  tn__te_operand_use *use;
} finding;

static void see_read(const tn__buffer *b, void *user) {
  finding *f = user;
  f->carries |= is_among(&f->carriers, b);
}

static void find_carriers(const tn__te *te, finding *f) {
  tn__arena *arena = tn__ir_arena(f->ir);
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    f->carries = false;
    tn__te_reads(te, stage, see_read, f);
    for (int t = 0; t < stage->tensor_count && f->carries; t++)
      if (!tn__dtype_is_float(stage->tensors[t]->dtype)) tn__vec_push(arena, &f->carriers, stage->tensors[t]);
  }
}

static void see_indices(const finding *f, const tn__buffer *buffer, const tn__expr *const *indices) {
  for (int d = 0; d < buffer->rank; d++) {
    int64_t size = tn__ir_int_or(buffer->shape[d], INT64_MAX);
    int64_t among = least_of(f->ir, &f->carriers, indices[d], size);
    if (among < f->use->among) f->use->among = among;
  }
}

static bool divides(const tn__expr *e) {
  return (e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && !tn__dtype_is_float(e->dtype);
}

static void see(const tn__expr *e, void *user) {
  const finding *f = user;
  if (e->kind == TN__EXPR_LOAD) see_indices(f, e->value.buffer, e->args);
  if (divides(e)) f->use->divides |= least_of(f->ir, &f->input, e->args[1], 0) == 0;
}

tn__te_operand_use tn__te_operand_use_of(const tn__te *te, const tn__buffer *input) {
  tn__te_operand_use use = {.among = INT64_MAX};
  finding f = {.ir = tn__te_ir(te), .use = &use};
  if (tn__dtype_is_float(input->dtype)) return use;
  tn__vec_push(tn__ir_arena(f.ir), &f.input, input);
  tn__vec_push(tn__ir_arena(f.ir), &f.carriers, input);
  find_carriers(te, &f);
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    for (int t = 0; t < stage->tensor_count; t++) {
      if (stage->values[t] != NULL) tn__te_visit(f.ir, stage->values[t], see, &f);
      if (stage->first[t] != NULL) tn__te_visit(f.ir, stage->first[t], see, &f);
    }
    if (stage->kind == TN__TE_ACCUMULATE) see_indices(&f, stage->tensors[0], stage->into);
    for (int a = 0; a < stage->reduce_axes.count; a++)
      use.bounds |= least_of(f.ir, &f.input, stage->reduce_axes.var[a]->extent, 0) == 0;
  }
  return use;
}

static void fill_integers(const tn__te_operand_use *use, tn_dtype dtype, uint64_t seed, size_t count, void *data) {
  enum { TERMS = 4, SMALL = 251 }; /* in a row that data bound; how many integers */
  for (size_t i = 0; i < count; i++) {
    uint64_t draw = tn__hash_mix(seed, i) >> 1;
    uint64_t most = use->among < INT64_MAX && use->among > 0 ? (uint64_t)use->among : SMALL;
    int64_t value = (int64_t)(draw % most);
    if (use->bounds) value = TERMS * (int64_t)i;
    if (use->only != 0 && use->among == INT64_MAX && !use->bounds) value = use->only;
    if (dtype == TN_BOOL) value %= 2;
    if (value == 0 && use->divides) value = 1;
    tn__store_i64(dtype, data, (int64_t)i, value);
  }
}

void tn__te_operand_fill(const tn__te_operand_use *use, tn_dtype dtype, uint64_t seed, size_t count, void *data) {
  enum { EIGHTHS = 17, ZERO = 8, LARGEST = 8 }; /* which of them is 0; bytes */
  if (!tn__dtype_is_float(dtype)) {
    fill_integers(use, dtype, seed, count, data);
    return;
  }
  char values[EIGHTHS * LARGEST];
  size_t size = tn_dtype_size(dtype);
  for (int i = 0; i < EIGHTHS; i++) tn__store_f64(dtype, values, i, (i - ZERO) * 0.125);
  for (size_t i = 0; i < count; i++)
    memcpy((char *)data + i * size, values + (tn__hash_mix(seed, i) >> 1) % EIGHTHS * size, size);
}
