/* What a declaration says of where its tensors are computed: `inline` in each reader, `store` once. */
#include <string.h>

#include "base/copy.h"
#include "base/invariant.h"
#include "te/internal.h"

enum {
  MOST_OPERATIONS = 1 << 14, /* of a value with what is inlined into it */
  MOST_INLINED = 1 << 20     /* of all values into which something is inlined */
};

void tn__te_set_hint(tn__te *te, const tn__buffer *tensor, tn__te_hint hint) {
  for (int s = te->stages.count - 1; s >= 0; s--)
    for (int t = 0; t < te->stages.data[s]->tensor_count; t++)
      if (te->stages.data[s]->tensors[t] == tensor) {
        te->stages.data[s]->hint = hint;
        return;
      }
}

bool tn__te_has_stored(const tn__te *te) {
  for (int s = 0; s + 1 < te->stages.count; s++)
    if (te->stages.data[s]->hint == TN__TE_STORED) return true;
  return false;
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

typedef struct rewriting {
  tn__expr_rewriter fn;
  void *user;
} rewriting;

static const tn__expr *rewrite_whole(tn__ir *ir, const tn__expr *e, void *user) {
  const rewriting *r = user;
  return tn__expr_rewrite(ir, e, r->fn, r->user);
}

void tn__te_rewrite_stage(tn__te *te, tn__te_stage *stage, tn__expr_rewriter fn, void *user) {
  tn__ir *ir = te->ir;
  rewriting r = {fn, user};
  const tn__var *from[TN__MAX_RANK];
  const tn__expr *to[TN__MAX_RANK];
  int count = 0;
  for (int i = 0; i < stage->reduce_axes.count; i++) {
    const tn__var *axis = stage->reduce_axes.var[i];
    const tn__expr *extent = tn__ir_substitute(ir, axis->extent, from, to, count);
    extent = tn__expr_rewrite(ir, extent, fn, user);
    if (extent == axis->extent) continue;
    from[count] = axis;
    axis = tn__var_create(ir, axis->name, TN_I64, axis->min, extent);
    to[count++] = axis->self;
    stage->reduce_axes.var[i] = axis;
    stage->reduce_axes.index[i] = axis->self;
  }
  for (int t = 0; t < stage->tensor_count && stage->kind != TN__TE_EXTERN; t++) {
    if (stage->first[t] != NULL) stage->first[t] = tn__expr_rewrite(ir, stage->first[t], fn, user);
    if (stage->values[t] == NULL) continue;
    stage->values[t] = tn__ir_substitute(ir, stage->values[t], from, to, count);
    stage->values[t] = tn__expr_rewrite(ir, stage->values[t], fn, user);
  }
  for (int d = 0; d < stage->axes.count && stage->kind == TN__TE_ACCUMULATE; d++)
    stage->into[d] = tn__expr_rewrite(ir, tn__ir_substitute(ir, stage->into[d], from, to, count), fn, user);
  if (stage->kind == TN__TE_EXTERN) stage->body = tn__stmt_rewrite(ir, stage->body, NULL, rewrite_whole, &r);
}

/* ---- inline ------------------------------------------------------------------------------------------------------ */

/* A load of a tensor that is inlined becomes its value there. */
static const tn__expr *value_there(tn__ir *ir, const tn__expr *e, void *user) {
  const tn__te *te = user;
  if (e->kind != TN__EXPR_LOAD) return NULL;
  const tn__te_stage *stage = tn__te_stage_of(te, e->value.buffer);
  if (stage == NULL || stage->hint != TN__TE_INLINED) return NULL;
  return tn__ir_substitute(ir, stage->values[0], stage->axes.var, e->args, stage->axes.count);
}

/* NULL, or what is wrong with a stage, and the stage. Readers come behind what they read. */
static const char *inline_all(tn__te *te, int *at) {
  int64_t all = 0;
  for (int s = 0; s < te->stages.count; s++) {
    tn__te_stage *stage = te->stages.data[s];
    if (stage->kind == TN__TE_EXTERN) continue;
    const tn__te_stage before = *stage;
    tn__te_rewrite_stage(te, stage, value_there, te);
    *at = s;
    for (int t = 0; t < stage->tensor_count; t++)
      if (stage->values[t] != before.values[t]) all += tn__expr_size(stage->values[t]);
    if (all > MOST_INLINED)
      return tn__arena_printf(te->arena,
                              "up to %s more than %d operations are inlined: store a tensor on the way to it",
                              stage->name, MOST_INLINED);
    for (int t = 0; t < stage->tensor_count; t++)
      if (tn__expr_size(stage->values[t]) > MOST_OPERATIONS)
        return tn__arena_printf(te->arena,
                                "%s has more than %d operations once what it reads is inlined: store a tensor on the "
                                "way to it",
                                stage->name, MOST_OPERATIONS);
  }
  return NULL;
}

typedef struct reading {
  const tn__te *te;
  const tn__te_stage *found; /* read, and to be inlined */
} reading;

static void note_inlined(const tn__buffer *tensor, void *user) {
  reading *r = user;
  const tn__te_stage *stage = tn__te_stage_of(r->te, tensor);
  if (stage != NULL && stage->hint == TN__TE_INLINED) r->found = stage;
}

static bool has_hint(const tn__te *te, tn__te_hint hint) {
  for (int s = 0; s < te->stages.count; s++)
    if (te->stages.data[s]->hint == hint) return true;
  return false;
}

void tn__te_check_hints(const tn__te *te, tn__te_refuse *refuse, void *user) {
  int at = 0;
  if (!has_hint(te, TN__TE_INLINED)) return;
  for (int s = 0; s < te->stages.count; s++) {
    reading r = {.te = te};
    if (te->stages.data[s]->kind != TN__TE_EXTERN) continue;
    tn__te_reads(te, te->stages.data[s], note_inlined, &r);
    if (r.found != NULL)
      refuse(
          user, s,
          tn__arena_printf(te->arena, "%s is to be inlined, and an imperative stage takes all of it", r.found->name));
  }
  const char *message = inline_all(tn__te_copy(te, te->ir), &at);
  if (message != NULL) refuse(user, at, message);
}

/* ---- store ------------------------------------------------------------------------------------------------------- */

typedef struct ordering {
  const tn__te *te;
  bool *taken; /* by stage */
  TN__VEC(tn__te_stage *) stages;
  TN__VEC(int) wanted; /* numbers of stages */
} ordering;

static void note_wanted(const tn__buffer *tensor, void *user) {
  ordering *o = user;
  for (int s = 0; s < o->te->stages.count; s++)
    for (int t = 0; t < o->te->stages.data[s]->tensor_count; t++)
      if (o->te->stages.data[s]->tensors[t] == tensor && !o->taken[s]) {
        o->taken[s] = true;
        tn__vec_push(o->te->arena, &o->wanted, s);
      }
}

static void take_in_order(ordering *o, const bool *chosen) {
  for (int s = 0; s < o->te->stages.count; s++)
    if (chosen[s]) tn__vec_push(o->te->arena, &o->stages, o->te->stages.data[s]);
}

/* What a stored tensor needs comes before it, and nothing else that is not stored: that may stay near its readers. */
static void sort_stages(tn__te *te) {
  int count = te->stages.count;
  ordering o = {.te = te, .taken = TN__NEW_ARRAY(te->arena, count, bool)};
  bool *chosen = TN__NEW_ARRAY(te->arena, count, bool);
  for (int s = 0; s < count; s++) {
    if (te->stages.data[s]->hint != TN__TE_STORED || o.taken[s]) continue;
    memset(chosen, 0, (size_t)count * sizeof(bool));
    o.wanted.count = 0;
    o.taken[s] = true;
    tn__vec_push(te->arena, &o.wanted, s);
    for (int i = 0; i < o.wanted.count; i++) {
      chosen[o.wanted.data[i]] = true;
      tn__te_reads(te, te->stages.data[o.wanted.data[i]], note_wanted, &o);
    }
    take_in_order(&o, chosen);
  }
  for (int s = 0; s < count; s++) chosen[s] = !o.taken[s];
  take_in_order(&o, chosen);
  TN__INVARIANT(o.stages.data != NULL && o.stages.count == count); /* each stage was taken once */
  tn__copy(te->stages.data, o.stages.data, (size_t)count * sizeof(te->stages.data[0]));
}

const tn__te *tn__te_settled(const tn__te *te) {
  int at = 0, kept = 0;
  bool inlines = has_hint(te, TN__TE_INLINED), stores = tn__te_has_stored(te) && !tn__te_has_steps(te);
  if (!inlines && !stores) return te;
  tn__te *copy = tn__te_copy(te, te->ir);
  const char *message = inlines ? inline_all(copy, &at) : NULL;
  if (message != NULL) tn__throwf(te->arena->escape, TN_INVALID_ARGUMENT, "te %s: %s", te->name, message);
  for (int s = 0; s < copy->stages.count; s++)
    if (copy->stages.data[s]->hint != TN__TE_INLINED) copy->stages.data[kept++] = copy->stages.data[s];
  copy->stages.count = kept;
  if (stores) sort_stages(copy);
  return copy;
}
