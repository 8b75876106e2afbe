/* Some of a declaration's stages as a declaration of their own. */
#include <string.h>

#include "ir/print.h"
#include "te/internal.h"

typedef struct reading {
  void (*fn)(const tn__buffer *tensor, void *user);
  void *user;
} reading;

static void read_expr(const tn__expr *e, void *user) {
  const reading *r = user;
  if (e->kind == TN__EXPR_LOAD) r->fn(e->value.buffer, r->user);
}

void tn__te_reads(const tn__te *te, const tn__te_stage *stage, void (*fn)(const tn__buffer *tensor, void *user),
                  void *user) {
  reading r = {fn, user};
  for (int t = 0; t < stage->tensor_count && stage->kind != TN__TE_EXTERN; t++) {
    if (stage->first[t] != NULL) tn__te_visit(te->ir, stage->first[t], read_expr, &r);
    if (stage->values[t] != NULL) tn__te_visit(te->ir, stage->values[t], read_expr, &r);
  }
  for (int d = 0; d < stage->axes.count && stage->kind == TN__TE_ACCUMULATE; d++)
    tn__te_visit(te->ir, stage->into[d], read_expr, &r);
  for (int i = 0; i < stage->reduce_axes.count; i++)
    tn__te_visit(te->ir, stage->reduce_axes.var[i]->extent, read_expr, &r);
  for (int i = 0; i < stage->extern_read_count; i++) fn(stage->extern_reads[i], user);
}

struct tn__te_uses {
  const tn__te *te;
  int *first, *last; /* by a tensor's id: stages that read it, the number of stages for an output; -1: none does */
  uint32_t ids;      /* how many of these there are */
  int stage;         /* that is looked at */
};

static void note_use(const tn__buffer *tensor, void *user) {
  tn__te_uses *uses = user;
  if (tensor->id >= uses->ids) return;
  if (uses->first[tensor->id] < 0) uses->first[tensor->id] = uses->stage;
  uses->last[tensor->id] = uses->stage;
}

const tn__te_uses *tn__te_uses_of(const tn__te *te, tn__arena *arena) {
  tn__te_uses *uses = TN__NEW(arena, tn__te_uses);
  uses->te = te;
  for (int s = 0; s < te->stages.count; s++)
    for (int t = 0; t < te->stages.data[s]->tensor_count; t++) {
      const uint32_t id = te->stages.data[s]->tensors[t]->id;
      if (id >= uses->ids) uses->ids = id + 1;
    }
  uses->first = TN__NEW_ARRAY(arena, uses->ids, int);
  uses->last = TN__NEW_ARRAY(arena, uses->ids, int);
  memset(uses->first, -1, uses->ids * sizeof *uses->first);
  memset(uses->last, -1, uses->ids * sizeof *uses->last);
  for (; uses->stage < te->stages.count; uses->stage++) tn__te_reads(te, te->stages.data[uses->stage], note_use, uses);
  for (int i = 0; i < te->outputs.count; i++) note_use(te->outputs.data[i], uses);
  return uses;
}

typedef struct part {
  const tn__te *te;
  int first, end;
  TN__VEC(const tn__buffer *) inputs; /* in order of their use */
} part;

static bool defines(const part *p, const tn__buffer *tensor) {
  for (int s = p->first; s < p->end; s++)
    for (int t = 0; t < p->te->stages.data[s]->tensor_count; t++)
      if (p->te->stages.data[s]->tensors[t] == tensor) return true;
  return false;
}

static void note_input(const tn__buffer *tensor, void *user) {
  part *p = user;
  if (defines(p, tensor)) return;
  for (int i = 0; i < p->inputs.count; i++)
    if (p->inputs.data[i] == tensor) return;
  tn__vec_push(p->te->arena, &p->inputs, tensor);
}

/* Does a stage outside of the part read it, or the caller? */
static bool is_wanted(const tn__te_uses *uses, const part *p, const tn__buffer *tensor) {
  const int first = uses->first[tensor->id], last = uses->last[tensor->id];
  return first >= 0 && (first < p->first || last >= p->end);
}

tn__te *tn__te_part(const tn__te_uses *uses, int first, int count, tn__ir *ir) {
  const tn__te *te = uses->te;
  part p = {.te = te, .first = first, .end = first + count};
  tn__te *out = tn__te_create(ir, te->name);
  out->unchecked = te->unchecked;
  tn__importer *m = tn__importer_create(ir);
  for (int s = p.first; s < p.end; s++) tn__te_reads(te, te->stages.data[s], note_input, &p);
  for (int i = 0; i < te->dims.count; i++) tn__vec_push(out->arena, &out->dims, tn__ir_import_var(m, te->dims.data[i]));
  for (int i = 0; i < p.inputs.count; i++) {
    tn__ir_import_as_param(m, p.inputs.data[i]);
    tn__vec_push(out->arena, &out->inputs, tn__ir_import_buffer(m, p.inputs.data[i]));
  }
  for (int s = p.first; s < p.end; s++)
    for (int t = 0; t < te->stages.data[s]->tensor_count; t++)
      if (is_wanted(uses, &p, te->stages.data[s]->tensors[t]))
        tn__ir_import_as_param(m, te->stages.data[s]->tensors[t]);
  tn__te_copy_stages(m, out, te, p.first, p.end);
  if (count > 0) out->stages.data[count - 1]->hint = TN__TE_ANYWHERE; /* stored: others need it */
  for (int s = p.first; s < p.end; s++)
    for (int t = 0; t < te->stages.data[s]->tensor_count; t++) {
      const tn__buffer *tensor = te->stages.data[s]->tensors[t];
      if (is_wanted(uses, &p, tensor)) tn__te_add_output(out, tn__ir_imported_buffer(m, tensor), -1);
    }
  return out;
}
