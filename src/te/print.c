/* The .te text form; docs/te.md describes it. */
#include <stdio.h>

#include "te/internal.h"

static void print_shape(const tn__buffer *buffer, tn__strbuf *out) {
  tn__strbuf_printf(out, "%s[", tn_dtype_name(buffer->dtype));
  for (int d = 0; d < buffer->rank; d++) {
    if (d > 0) tn__strbuf_append(out, ", ");
    tn__expr_print(buffer->shape[d], out);
  }
  tn__strbuf_char(out, ']');
}

static void print_axes(const tn__te_axes *axes, tn__strbuf *out) {
  for (int i = 0; i < axes->count; i++) {
    tn__strbuf_printf(out, "%s%s < ", i > 0 ? ", " : "", axes->var[i]->name);
    tn__expr_print(axes->var[i]->extent, out);
  }
}

static void print_exprs(const tn__expr *const *list, int count, tn__strbuf *out) {
  for (int i = 0; i < count; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    tn__expr_print(list[i], out);
  }
}

static void print_combiner(const tn__te_combiner *c, tn__strbuf *out) {
  tn__strbuf_append(out, c->reorderable ? "reduce((" : "reduce_in_order((");
  for (int i = 0; i < 2 * c->count; i++) {
    const tn__var *var = i < c->count ? c->lhs[i] : c->rhs[i - c->count];
    tn__strbuf_printf(out, "%s%s", i == 0 ? "" : ", ", var->name);
  }
  tn__strbuf_append(out, ") -> (");
  print_exprs(c->result, c->count, out);
  tn__strbuf_append(out, "), from (");
  print_exprs(c->identity, c->count, out);
  tn__strbuf_append(out, "))");
}

static void print_extern(const tn__te_stage *stage, tn__strbuf *out) {
  tn__strbuf_printf(out, "  extern %s(", stage->name);
  for (int i = 0; i < stage->extern_read_count; i++)
    tn__strbuf_printf(out, "%s%s", i > 0 ? ", " : "", stage->extern_reads[i]->name);
  tn__strbuf_append(out, ") -> ");
  for (int t = 0; t < stage->tensor_count; t++) {
    tn__strbuf_printf(out, "%s%s: ", t > 0 ? ", " : "", stage->tensors[t]->name);
    print_shape(stage->tensors[t], out);
  }
  tn__strbuf_append(out, " {\n");
  tn__stmt_print(stage->body, out);
  tn__strbuf_append(out, "  }\n");
}

static void print_stage(const tn__te_stage *stage, tn__strbuf *out) {
  if (stage->kind == TN__TE_EXTERN) {
    print_extern(stage, out);
    return;
  }
  tn__strbuf_append(out, "  ");
  for (int t = 0; t < stage->tensor_count; t++)
    tn__strbuf_printf(out, "%s%s: %s", t > 0 ? ", " : "", stage->tensors[t]->name,
                      tn_dtype_name(stage->tensors[t]->dtype));
  tn__strbuf_append(out, " [");
  print_axes(&stage->axes, out);
  tn__strbuf_append(out, "] = ");
  if (stage->kind == TN__TE_REDUCE) {
    print_combiner(stage->combiner, out);
    tn__strbuf_append(out, " over [");
    print_axes(&stage->reduce_axes, out);
    tn__strbuf_append(out, "] of ");
  } else if (stage->kind == TN__TE_SCAN) {
    tn__strbuf_printf(out, "scan(%s, first %lld: ", stage->axes.var[stage->scan_axis]->name,
                      (long long)stage->scan_depth);
    if (stage->scan_depth > 0) print_exprs(stage->first, stage->tensor_count, out);
    tn__strbuf_append(out, ") then ");
  }
  print_exprs(stage->values, stage->tensor_count, out);
  tn__strbuf_char(out, '\n');
}

void tn__te_print(const tn__te *te, tn__strbuf *out) {
  tn__strbuf_printf(out, "te %s {\n", te->name);
  for (int i = 0; i < te->dims.count; i++) {
    tn__strbuf_printf(out, "  dim %s >= ", te->dims.data[i]->name);
    tn__expr_print(te->dims.data[i]->min, out);
    tn__strbuf_char(out, '\n');
  }
  for (int i = 0; i < te->inputs.count; i++) {
    tn__strbuf_printf(out, "  input %s: ", te->inputs.data[i]->name);
    print_shape(te->inputs.data[i], out);
    tn__strbuf_char(out, '\n');
  }
  for (int i = 0; i < te->stages.count; i++) print_stage(te->stages.data[i], out);
  tn__strbuf_append(out, "  output ");
  for (int i = 0; i < te->outputs.count; i++)
    tn__strbuf_printf(out, "%s%s", i > 0 ? ", " : "", te->outputs.data[i]->name);
  tn__strbuf_append(out, "\n}\n");
}
