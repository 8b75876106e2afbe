/* Declarations as .te text (docs/te-language.md): everything is stated, nothing left to be found from use. A copy is
 * printed, made in the order of the text: sums come out in that order, so reading the text gives the same text
 * again. */
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "ir/print.h"
#include "te/internal.h"

/* ---- a copy in the order of the text ----------------------------------------------------------------------------- */

/* The first `given` of them are copied already. */
static tn__te_axes copy_axes(tn__importer *m, const tn__te_axes *axes, int given) {
  tn__te_axes copy = {.count = axes->count};
  for (int i = 0; i < given; i++) copy.var[i] = tn__ir_import_expr(m, axes->var[i]->self)->value.var;
  for (int i = given; i < axes->count; i++) copy.var[i] = tn__ir_import_var(m, axes->var[i]);
  for (int i = 0; i < axes->count; i++) copy.index[i] = copy.var[i]->self;
  return copy;
}

static const tn__te_combiner *copy_combiner(tn__importer *m, tn__arena *arena, const tn__te_combiner *from) {
  tn__te_combiner *c = TN__NEW(arena, tn__te_combiner);
  c->count = from->count;
  c->reorderable = from->reorderable;
  for (int i = 0; i < c->count; i++) c->identity[i] = tn__ir_import_expr(m, from->identity[i]);
  for (int i = 0; i < c->count; i++) c->lhs[i] = tn__ir_import_var(m, from->lhs[i]);
  for (int i = 0; i < c->count; i++) c->rhs[i] = tn__ir_import_var(m, from->rhs[i]);
  for (int i = 0; i < c->count; i++) c->result[i] = tn__ir_import_expr(m, from->result[i]);
  return c;
}

/* What of a scan stands in front of its steps. */
static void copy_head(tn__importer *m, const tn__te_stage *from, tn__te_stage *s) {
  for (int t = 0; t < s->tensor_count; t++) s->tensors[t] = tn__ir_import_buffer(m, from->tensors[t]);
  s->axes = copy_axes(m, &from->axes, 0);
  for (int t = 0; t < s->tensor_count; t++)
    if (from->first[t] != NULL) s->first[t] = tn__ir_import_expr(m, from->first[t]);
}

/* `scan`: the copied head of the scan that the stage is, or is in the steps of; NULL otherwise. */
static tn__te_stage *copy_stage(tn__importer *m, tn__arena *arena, const tn__te_stage *from, tn__te_stage *scan) {
  tn__te_stage *s = from->kind == TN__TE_SCAN ? scan : TN__NEW(arena, tn__te_stage);
  TN__INVARIANT(s != NULL && (from->step_of == NULL || scan != NULL)); /* heads are copied in front of steps */
  if (s != scan) *s = *from;
  bool early = from->kind == TN__TE_SCAN || from->kind == TN__TE_EXTERN; /* may occur in their own values */
  if (from->step_of != NULL) s->step_of = scan->tensors[0];
  for (int t = 0; from->kind == TN__TE_EXTERN && t < s->tensor_count; t++)
    s->tensors[t] = tn__ir_import_buffer(m, from->tensors[t]);
  if (s != scan) s->axes = copy_axes(m, &from->axes, from->step_of != NULL ? 1 : 0);
  if (from->combiner != NULL) s->combiner = copy_combiner(m, arena, from->combiner);
  s->reduce_axes = copy_axes(m, &from->reduce_axes, 0);
  for (int t = 0; t < s->tensor_count && from->kind != TN__TE_EXTERN; t++)
    if (from->values[t] != NULL) s->values[t] = tn__ir_import_expr(m, from->values[t]);
  for (int d = 0; d < s->axes.count && from->kind == TN__TE_ACCUMULATE; d++)
    s->into[d] = tn__ir_import_expr(m, from->into[d]);
  for (int t = 0; t < s->tensor_count && from->kind == TN__TE_ACCUMULATE; t++)
    s->first[t] = tn__ir_import_expr(m, from->first[t]);
  if (from->kind == TN__TE_EXTERN && from->body != NULL) s->body = tn__ir_import_stmt(m, from->body);
  for (int t = 0; !early && t < s->tensor_count; t++) s->tensors[t] = tn__ir_import_buffer(m, from->tensors[t]);
  return s;
}

void tn__te_copy_stages(tn__importer *m, tn__te *te, const tn__te *from, int first, int end) {
  tn__te_stage *scan = NULL;
  const tn__te_stage *copied = NULL; /* the scan that `scan` is a copy of */
  for (int i = first; i < end; i++) {
    const tn__te_stage *stage = from->stages.data[i], *its_scan = tn__te_scan_of(from, stage);
    if (its_scan != NULL && its_scan != copied) {
      scan = TN__NEW(te->arena, tn__te_stage);
      *scan = *its_scan;
      copy_head(m, its_scan, scan);
      copied = its_scan;
    }
    tn__te_stage *copy = copy_stage(m, te->arena, stage, scan);
    const tn__buffer **reads = TN__NEW_ARRAY(te->arena, stage->extern_read_count, const tn__buffer *);
    for (int r = 0; r < stage->extern_read_count; r++) reads[r] = tn__ir_imported_buffer(m, stage->extern_reads[r]);
    copy->extern_reads = reads;
    tn__vec_push(te->arena, &te->stages, copy);
  }
}

void tn__te_add_output(tn__te *te, const tn__buffer *tensor, int over) {
  tn__vec_push(te->arena, &te->outputs, tensor);
  tn__vec_push(te->arena, &te->over, over);
}

tn__te *tn__te_copy(const tn__te *from, tn__ir *ir) {
  tn__te *te = tn__te_create(ir, from->name);
  te->unchecked = from->unchecked;
  tn__importer *m = tn__importer_create(ir);
  for (int i = 0; i < from->dims.count; i++)
    tn__vec_push(te->arena, &te->dims, tn__ir_import_var(m, from->dims.data[i]));
  tn__te_copy_rest(m, te, from);
  return te;
}

void tn__te_copy_rest(tn__importer *m, tn__te *te, const tn__te *from) {
  for (int i = 0; i < from->inputs.count; i++)
    tn__vec_push(te->arena, &te->inputs, tn__ir_import_buffer(m, from->inputs.data[i]));
  tn__te_copy_stages(m, te, from, 0, from->stages.count);
  for (int i = 0; i < from->outputs.count; i++)
    tn__te_add_output(te, tn__ir_imported_buffer(m, from->outputs.data[i]), from->over.data[i]);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

typedef struct printing {
  tn__te *te;
  tn__printer *p;
  tn__strbuf *out;
  int combiners; /* printed so far */
  /* Tensors of steps, and what stands for them: without the axis of the scan, which is that of the step. */
  TN__VEC(const tn__buffer *) step_tensors;
  TN__VEC(const tn__buffer *) shown_tensors;
} printing;

static const tn__buffer *shown_tensor(const printing *g, const tn__buffer *tensor) {
  for (int i = 0; i < g->step_tensors.count; i++)
    if (g->step_tensors.data[i] == tensor) return g->shown_tensors.data[i];
  return tensor;
}

static const tn__expr *shown_load(tn__ir *ir, const tn__expr *e, void *user) {
  if (e->kind != TN__EXPR_LOAD) return NULL;
  const tn__buffer *shown = shown_tensor(user, e->value.buffer);
  return shown == e->value.buffer ? NULL : tn__ir_load(ir, shown, e->args + 1);
}

static void print_value(printing *g, const tn__expr *e) {
  tn__printer_expr(g->p, g->step_tensors.count == 0 ? e : tn__expr_rewrite(g->te->ir, e, shown_load, g));
}

static void print_exprs(printing *g, const tn__expr *const *list, int count) {
  if (count > 1) tn__strbuf_char(g->out, '(');
  for (int i = 0; i < count; i++) {
    if (i > 0) tn__strbuf_append(g->out, ", ");
    print_value(g, list[i]);
  }
  if (count > 1) tn__strbuf_char(g->out, ')');
}

static void print_param(printing *g, const tn__buffer *buffer) {
  tn__strbuf_printf(g->out, "%s: %s[", tn__printer_name(g->p, buffer, buffer->name), tn_dtype_name(buffer->dtype));
  for (int d = 0; d < buffer->rank; d++) {
    if (d > 0) tn__strbuf_append(g->out, ", ");
    tn__printer_expr(g->p, buffer->shape[d]);
  }
  tn__strbuf_char(g->out, ']');
}

static void print_strides(printing *g, const tn__buffer *buffer) {
  for (int d = 0; buffer->strides != NULL && d < buffer->rank; d++) {
    tn__strbuf_append(g->out, d == 0 ? " strides [" : ", ");
    tn__printer_expr(g->p, buffer->strides[d]);
  }
  if (buffer->strides != NULL) tn__strbuf_char(g->out, ']');
}

/* From number `first` on. */
static void print_axes(printing *g, const tn__te_axes *axes, int first) {
  for (int i = first; i < axes->count; i++) {
    /* The extent is written before the axis is known. */
    const tn__var *var = axes->var[i];
    tn__strbuf_printf(g->out, "%s%s: ", i > first ? ", " : "", tn__printer_bind(g->p, var, var->name));
    print_value(g, var->extent);
  }
}

/* ---- combiners --------------------------------------------------------------------------------------------------- */

static bool same_combiner(const tn__te_combiner *a, const tn__te_combiner *b, tn__ir *ir) {
  const tn__var *from[8];
  const tn__expr *to[8];
  if (a->count != b->count || a->reorderable != b->reorderable) return false;
  for (int i = 0; i < a->count; i++) {
    if (a->lhs[i]->dtype != b->lhs[i]->dtype || a->identity[i] != b->identity[i]) return false;
    from[i] = b->lhs[i];
    to[i] = a->lhs[i]->self;
    from[a->count + i] = b->rhs[i];
    to[a->count + i] = a->rhs[i]->self;
  }
  for (int i = 0; i < a->count; i++)
    if (tn__ir_substitute(ir, b->result[i], from, to, 2 * a->count) != a->result[i]) return false;
  return true;
}

static const char *simple_name(printing *g, const tn__te_combiner *c) {
  static const char *const names[] = {"sum", "prod", "max", "min", "any", "all"};
  const tn__expr *result = c->result[0];
  tn_dtype dtype = c->lhs[0]->dtype;
  if (c->count != 1 || result->dtype != dtype) return NULL;
  for (int i = 0; i < 6; i++) {
    bool logic = i >= TN__TE_ANY;
    if (logic ? tn__dtype_is_float(dtype) : dtype == TN_BOOL) continue;
    if (same_combiner(c, tn__te_combiner_of(g->te, (tn__te_reducer)i, dtype), g->te->ir)) return names[i];
  }
  return NULL;
}

static const char *arg_name(printing *g, const tn__te_combiner *c) {
  static const char *const names[] = {"argmax", "argmax_last", "argmin", "argmin_last"};
  if (c->count != 2) return NULL;
  tn_dtype value = c->lhs[0]->dtype, index = c->lhs[1]->dtype;
  if (value == TN_BOOL || !tn__dtype_is_signed(index) || tn__dtype_is_float(index)) return NULL;
  for (int i = 0; i < 4; i++)
    if (same_combiner(c, tn__te_arg_combiner(g->te, value, index, i < 2, i % 2 == 1), g->te->ir)) return names[i];
  return NULL;
}

static void print_side(printing *g, const tn__var *const *vars, int count) {
  if (count > 1) tn__strbuf_char(g->out, '(');
  for (int i = 0; i < count; i++)
    tn__strbuf_printf(g->out, "%s%s: %s", i > 0 ? ", " : "", tn__printer_bind(g->p, vars[i], vars[i]->name),
                      tn_dtype_name(vars[i]->dtype));
  if (count > 1) tn__strbuf_char(g->out, ')');
}

static const char *print_combiner(printing *g, const tn__te_combiner *c) {
  const char *name = tn__arena_printf(g->te->arena, "combine%d", g->combiners++);
  int mark = tn__printer_mark(g->p);
  tn__strbuf_printf(g->out, "  combiner %s%s(", c->reorderable ? "" : "in_order ", name);
  print_side(g, c->lhs, c->count);
  tn__strbuf_append(g->out, ", ");
  print_side(g, c->rhs, c->count);
  tn__strbuf_append(g->out, ") = ");
  print_exprs(g, c->result, c->count);
  tn__strbuf_append(g->out, " from ");
  tn__printer_reset(g->p, mark);
  print_exprs(g, c->identity, c->count);
  tn__strbuf_char(g->out, '\n');
  return name;
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static void print_extern(printing *g, const tn__te_stage *stage) {
  const char *name = stage->name;
  for (int t = 0; t < stage->tensor_count; t++) /* the stage may carry the name of one of its tensors */
    if (strcmp(stage->tensors[t]->name, name) == 0) name = tn__printer_name(g->p, stage->tensors[t], name);
  if (name == stage->name) {
    int mark = tn__printer_mark(g->p);
    name = tn__printer_bind(g->p, stage, name);
    tn__printer_reset(g->p, mark);
  }
  tn__strbuf_printf(g->out, "  extern %s(", name);
  for (int i = 0; i < stage->extern_read_count; i++)
    tn__strbuf_printf(g->out, "%s%s", i > 0 ? ", " : "",
                      tn__printer_name(g->p, stage->extern_reads[i], stage->extern_reads[i]->name));
  tn__strbuf_append(g->out, ") -> ");
  for (int t = 0; t < stage->tensor_count; t++) {
    if (t > 0) tn__strbuf_append(g->out, ", ");
    print_param(g, stage->tensors[t]);
  }
  tn__strbuf_append(g->out, " {\n");
  if (stage->body != NULL) tn__printer_stmt(g->p, stage->body, 2);
  tn__strbuf_append(g->out, "  }\n");
}

/* Targets: the first states the axes, the others repeat their names. In a step the scan's axis is not one of them. */
static void print_targets(printing *g, const tn__te_stage *stage) {
  int first = stage->step_of != NULL ? 1 : 0;
  for (int t = 0; t < stage->tensor_count; t++) {
    const tn__buffer *tensor = shown_tensor(g, stage->tensors[t]);
    tn__strbuf_printf(g->out, "%s%s: %s[", t > 0 ? ", " : "", tn__printer_name(g->p, tensor, tensor->name),
                      tn_dtype_name(tensor->dtype));
    if (t == 0)
      print_axes(g, &stage->axes, first);
    else
      for (int i = first; i < stage->axes.count; i++)
        tn__strbuf_printf(g->out, "%s%s", i > first ? ", " : "",
                          tn__printer_name(g->p, stage->axes.var[i], stage->axes.var[i]->name));
    tn__strbuf_char(g->out, ']');
  }
  tn__strbuf_append(g->out, first > 0 && stage->tensor_count > 1 ? ") = " : " = ");
}

static void print_into(printing *g, const tn__te_stage *stage) {
  bool stated = false, computed = false;
  TN__INVARIANT(stage->combiner != NULL); /* of accumulations */
  for (int t = 0; t < stage->tensor_count; t++) stated |= stage->first[t] != stage->combiner->identity[t];
  for (int d = 0; d < stage->axes.count; d++) computed |= !tn__te_keeps_axis(stage, d);
  if (!stated && !computed) return;
  tn__strbuf_append(g->out, " into [");
  for (int d = 0; d < stage->axes.count; d++) {
    if (d > 0) tn__strbuf_append(g->out, ", ");
    print_value(g, stage->into[d]);
  }
  tn__strbuf_char(g->out, ']');
  if (!stated) return;
  tn__strbuf_append(g->out, " from ");
  print_exprs(g, stage->first, stage->tensor_count);
}

/* The name of the stage's combiner, which is printed where it is none of the language's own. */
static const char *reduction_name(printing *g, const tn__te_stage *stage) {
  if (stage->combiner == NULL) return NULL;
  const char *name = simple_name(g, stage->combiner);
  if (name == NULL) name = arg_name(g, stage->combiner);
  return name != NULL ? name : print_combiner(g, stage->combiner);
}

/* A stage that is neither a scan nor imperative. */
static void print_elements(printing *g, const tn__te_stage *stage, const char *reduction) {
  print_targets(g, stage);
  if (reduction != NULL) {
    tn__strbuf_printf(g->out, "%s(", reduction);
    print_axes(g, &stage->reduce_axes, 0);
    tn__strbuf_append(g->out, ") ");
  }
  print_exprs(g, stage->values, stage->tensor_count);
  if (stage->kind == TN__TE_ACCUMULATE) print_into(g, stage);
}

/* `steps`: the stages in front of it that its steps evaluate, with the names of their reductions. */
static void print_scan(printing *g, const tn__te_stage *stage, tn__te_stage *const *steps, int count,
                       const char *const *reductions) {
  print_targets(g, stage);
  const tn__var *axis = stage->axes.var[stage->scan_axis];
  tn__strbuf_printf(g->out, "scan(%s%s", stage->backwards ? "-" : "", tn__printer_name(g->p, axis, axis->name));
  if (stage->scan_depth != 1) tn__strbuf_printf(g->out, ", %lld", (long long)stage->scan_depth);
  tn__strbuf_append(g->out, stage->scan_depth > 0 || count == 0 ? ") " : ")");
  if (stage->scan_depth > 0) {
    print_exprs(g, stage->first, stage->tensor_count);
    tn__strbuf_append(g->out, count > 0 ? " then" : " then ");
  }
  for (int i = 0; i < count; i++) {
    int mark = tn__printer_mark(g->p);
    bool several = steps[i]->tensor_count > 1;
    tn__strbuf_printf(g->out, "%s%s", i == 0 ? "\n    let " : ",\n    ", several ? "(" : "");
    print_elements(g, steps[i], reductions[i]);
    tn__printer_reset(g->p, mark);
  }
  if (count > 0) tn__strbuf_append(g->out, "\n    in ");
  print_exprs(g, stage->values, stage->tensor_count);
}

/* Prints the stage, or the scan whose steps begin with it; returns the number of the next one. */
static int print_stage(printing *g, int number) {
  tn__te_stage *const *stages = g->te->stages.data + number;
  int count = 0;
  while (stages[count]->step_of != NULL) count++;
  const tn__te_stage *stage = stages[count];
  if (stage->kind == TN__TE_EXTERN) {
    print_extern(g, stage);
    return number + 1;
  }
  const char **reductions = TN__NEW_ARRAY(g->te->arena, count + 1, const char *);
  for (int i = 0; i <= count; i++) reductions[i] = reduction_name(g, stages[i]);
  int mark = tn__printer_mark(g->p);
  static const char *const hints[] = {[TN__TE_ANYWHERE] = "", [TN__TE_STORED] = "store ", [TN__TE_INLINED] = "inline "};
  tn__strbuf_printf(g->out, "  %s", hints[stage->hint]);
  if (stage->kind == TN__TE_SCAN)
    print_scan(g, stage, stages, count, reductions);
  else
    print_elements(g, stage, reductions[0]);
  tn__strbuf_char(g->out, '\n');
  tn__printer_reset(g->p, mark);
  return number + count + 1;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static void bind_all(printing *g) {
  const tn__te *te = g->te;
  for (int i = 0; i < te->dims.count; i++) tn__printer_bind(g->p, te->dims.data[i], te->dims.data[i]->name);
  for (int i = 0; i < te->inputs.count; i++) tn__printer_bind(g->p, te->inputs.data[i], te->inputs.data[i]->name);
  for (int s = 0; s < te->stages.count; s++)
    for (int t = 0; t < te->stages.data[s]->tensor_count; t++) {
      const tn__buffer *tensor = te->stages.data[s]->tensors[t];
      if (te->stages.data[s]->step_of != NULL) {
        tn__vec_push(te->arena, &g->step_tensors, tensor);
        tensor =
            tn__buffer_create(te->ir, tensor->name, tensor->dtype, tensor->scope, tensor->rank - 1, tensor->shape + 1);
        tn__vec_push(te->arena, &g->shown_tensors, tensor);
      }
      tn__printer_bind(g->p, tensor, tensor->name);
    }
}

static void print_dim(printing *g, const tn__var *dim) {
  tn__strbuf_append(g->out, tn__printer_name(g->p, dim, dim->name));
  if (tn__ir_is_int_value(dim->min, 1)) return;
  tn__strbuf_append(g->out, " >= ");
  tn__printer_expr(g->p, dim->min);
}

static bool is_empty(const tn__buffer *buffer) {
  for (int d = 0; d < buffer->rank; d++)
    if (tn__ir_is_int_value(buffer->shape[d], 0)) return true;
  return false;
}

/* Extents that are the number 0 are refused unless a kernel says that it may have them. */
static bool has_empty_extents(const tn__te *te) {
  bool found = false;
  for (int i = 0; i < te->inputs.count; i++) found |= is_empty(te->inputs.data[i]);
  for (int s = 0; s < te->stages.count; s++) {
    const tn__te_stage *stage = te->stages.data[s];
    for (int t = 0; t < stage->tensor_count; t++) found |= is_empty(stage->tensors[t]);
    for (int i = 0; i < stage->reduce_axes.count; i++)
      found |= tn__ir_is_int_value(stage->reduce_axes.var[i]->extent, 0);
  }
  return found;
}

static void print_kernel(printing *g) {
  const tn__te *te = g->te;
  int mark = tn__printer_mark(g->p);
  if (te->unchecked) tn__strbuf_append(g->out, "unchecked ");
  tn__strbuf_printf(g->out, "kernel %s", tn__printer_bind(g->p, te, te->name));
  tn__printer_reset(g->p, mark);
  bind_all(g);
  bool empty = has_empty_extents(te);
  for (int i = 0; i < te->dims.count; i++) {
    tn__strbuf_append(g->out, i == 0 ? "[" : ", ");
    print_dim(g, te->dims.data[i]);
    empty &= !tn__ir_is_int_value(te->dims.data[i]->min, 0); /* says so already */
  }
  if (empty) tn__strbuf_append(g->out, te->dims.count > 0 ? ", >= 0" : "[>= 0");
  if (empty || te->dims.count > 0) tn__strbuf_char(g->out, ']');
  tn__strbuf_char(g->out, '(');
  for (int i = 0; i < te->inputs.count; i++) {
    if (i > 0) tn__strbuf_append(g->out, ", ");
    print_param(g, te->inputs.data[i]);
    print_strides(g, te->inputs.data[i]);
  }
  tn__strbuf_append(g->out, te->outputs.count > 1 ? ") -> (" : ") -> ");
  for (int i = 0; i < te->outputs.count; i++) {
    if (i > 0) tn__strbuf_append(g->out, ", ");
    print_param(g, te->outputs.data[i]);
    if (te->over.data[i] >= 0)
      tn__strbuf_printf(
          g->out, " over %s",
          tn__printer_name(g->p, te->inputs.data[te->over.data[i]], te->inputs.data[te->over.data[i]]->name));
    else
      print_strides(g, te->outputs.data[i]);
  }
  tn__strbuf_append(g->out, te->outputs.count > 1 ? ") {\n" : " {\n");
  for (int i = 0; i < te->stages.count;) i = print_stage(g, i);
  tn__strbuf_append(g->out, "}\n");
}

typedef struct job {
  tn__arena arena;
  const tn__te *te;
  const char *name;
  tn__strbuf *out;
} job;

static void run(tn__escape *escape, void *user) {
  job *j = user;
  j->arena.escape = escape;
  printing g = {.out = j->out};
  g.te = tn__te_copy(j->te, tn__ir_create(&j->arena));
  g.te->name = j->name;
  g.p = tn__printer_create(&j->arena, j->out);
  print_kernel(&g);
}

void tn__te_print(const tn__te *te, tn__strbuf *out) { tn__te_print_as(te, te->name, out); }

void tn__te_print_as(const tn__te *te, const char *name, tn__strbuf *out) {
  tn__escape escape;
  job j = {.te = te, .name = name, .out = out};
  tn__arena_init(&j.arena, out->allocator, &escape);
  tn_status *status = tn__protect(&escape, run, &j);
  if (status != NULL && tn_status_code_of(status) != TN_OUT_OF_MEMORY)
    tn__strbuf_printf(out, "<%s>\n", tn_status_message(status)); /* a broken one is shown as far as it goes */
  if (status != NULL && tn_status_code_of(status) == TN_OUT_OF_MEMORY) out->failed = true;
  tn_status_free(status);
  tn__arena_release(&j.arena);
}
