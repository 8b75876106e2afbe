/* The graph as text, for people: one line a node.
 *
 *   graph "main" {
 *     input x: f32[n, 3]
 *     dot_general4: f32[n, 5] = dot_general(x, c2) {lhs_contract=[1], rhs_contract=[0]}
 *     output "y" = dot_general4
 *   } */
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "graph/internal.h"

static void print_dims(int rank, const tn__expr *const *dims, tn__strbuf *out) {
  tn__strbuf_char(out, '[');
  for (int i = 0; i < rank; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    if (dims[i] == NULL)
      tn__strbuf_char(out, '?');
    else
      tn__expr_print_short(dims[i], out);
  }
  tn__strbuf_char(out, ']');
}

static void print_type(const tn__value *value, tn__strbuf *out) {
  static const char *const holds[] = {"", "sequence ", "optional ", "optional sequence "};
  tn__strbuf_append(out, holds[value->holds]);
  if (value->holds != TN__HOLDS_TENSOR) {
    tn__strbuf_append(out, tn_dtype_name(value->dtype));
    for (int i = 0; i < value->item_rank; i++) tn__strbuf_append(out, i == 0 ? "[?" : ", ?");
    tn__strbuf_append(out, value->item_rank == 0 ? "[]" : value->item_rank == TN__ANY_RANK ? "[...]" : "]");
    return;
  }
  tn__strbuf_append(out, tn_dtype_name(value->dtype));
  print_dims(value->rank, value->dims, out);
}

static const char *take_text(const tn__graph *graph, tn__strbuf *buf) {
  tn_status *status = tn__strbuf_status(buf);
  if (status != NULL) {
    tn__strbuf_release(buf);
    tn__throw(graph->arena->escape, status);
  }
  const char *text = tn__arena_strdup(graph->arena, tn__strbuf_text(buf));
  tn__strbuf_release(buf);
  return text;
}

const char *tn__value_type_text(const tn__graph *graph, const tn__value *value) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, graph->arena->allocator);
  print_type(value, &buf);
  return take_text(graph, &buf);
}

const char *tn__expr_text(const tn__graph *graph, const tn__expr *e) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, graph->arena->allocator);
  tn__expr_print_short(e, &buf);
  return take_text(graph, &buf);
}

/* ---- texts of checks --------------------------------------------------------------------------------------------- */

/* A size in a text is its number in graph->sizes between two of these. */
enum { SIZE_MARK = 1 };

const char *tn__size_text(tn__graph *graph, const tn__expr *e) {
  if (tn__is_int(e)) return tn__expr_text(graph, e);
  tn__vec_push(graph->arena, &graph->sizes, e);
  const char *name = e->kind == TN__EXPR_VAR ? e->value.var->name : "";
  return tn__arena_printf(graph->arena, "%s%s%c%d%c", name, name[0] == '\0' ? "" : " = ", SIZE_MARK,
                          graph->sizes.count - 1, SIZE_MARK);
}

void tn__graph_check_text(const tn__graph *graph, const tn__check_at_run *check,
                          void (*put)(void *user, const tn__expr *size, tn__strbuf *out), void *user, tn__strbuf *out) {
  for (const char *at = check->text; *at != '\0';) {
    char *end = NULL;
    long index = *at == SIZE_MARK ? strtol(at + 1, &end, 10) : -1;
    if (index < 0 || index >= graph->sizes.count || *end != SIZE_MARK) {
      tn__strbuf_char(out, *at++);
      continue;
    }
    const tn__expr *size = graph->sizes.data[index];
    if (put == NULL)
      tn__expr_print_short(size, out);
    else
      put(user, size, out);
    at = end + 1;
  }
}

/* A string up to its first NUL, quoted; long ones are cut off. */
static void print_string(const tn__text *text, tn__strbuf *out) {
  enum { MOST = 40 };
  char shown[MOST + 4] = "";
  size_t length = text == NULL ? 0 : text->length < MOST ? (size_t)text->length : MOST;
  if (length > 0) memcpy(shown, text->bytes, length);
  if (length == MOST) memcpy(shown + MOST, "...", 4);
  tn__strbuf_json_string(out, shown);
}

/* A constant prints its contents when they are one element or a few. */
static void print_constant(const tn__value *value, tn__strbuf *out) {
  enum { FEW = 8 };
  int count = value->splat ? 1 : value->rank > 1 ? -1 : tn__element_count(value->rank, value->dims);
  tn__strbuf_append(out, value->splat ? "splat(" : "constant(");
  if (count < 0 || count > FEW) {
    tn__strbuf_append(out, "...");
  } else {
    for (int i = 0; i < count; i++) {
      if (i > 0) tn__strbuf_append(out, ", ");
      if (value->dtype == TN_STRING)
        print_string(((const tn__text *const *)value->data)[i], out);
      else if (tn__dtype_is_float(value->dtype))
        tn__strbuf_f64(out, tn__load_f64(value->dtype, value->data, i));
      else
        tn__strbuf_printf(out, "%lld", (long long)tn__load_i64(value->dtype, value->data, i));
    }
  }
  tn__strbuf_append(out, "): ");
  print_type(value, out);
}

static void print_operand(const tn__value *value, tn__strbuf *out) {
  if (value == NULL)
    tn__strbuf_char(out, '_');
  else if (value->data != NULL)
    print_constant(value, out);
  else
    tn__strbuf_append(out, value->name);
}

static void print_attr(const tn__attr *attr, tn__strbuf *out) {
  tn__strbuf_printf(out, "%s=", attr->name);
  if (attr->kind == TN__ATTR_STRING) {
    tn__strbuf_json_string(out, attr->string);
    return;
  }
  bool list = attr->count != 1;
  if (list) tn__strbuf_char(out, '[');
  for (int i = 0; i < attr->count; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    if (attr->kind == TN__ATTR_INTS)
      tn__strbuf_printf(out, "%lld", (long long)attr->ints[i]);
    else if (attr->kind == TN__ATTR_FLOATS)
      tn__strbuf_f64(out, attr->floats[i]);
    else
      tn__expr_print_short(attr->exprs[i], out);
  }
  if (list) tn__strbuf_char(out, ']');
}

static void print_extent(tn__extent extent, tn__strbuf *out) {
  if (extent.valid == NULL) return;
  tn__strbuf_printf(out, " of which dimension %d counts to ", extent.axis);
  tn__expr_print_short(extent.valid, out);
}

static void print_graph(const tn__graph *graph, int indent, tn__strbuf *out);

static void print_node(const tn__node *node, int indent, tn__strbuf *out) {
  tn__strbuf_printf(out, "%*s", indent, "");
  for (int i = 0; i < node->output_count; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    tn__strbuf_printf(out, "%s: ", node->outputs[i]->name);
    print_type(node->outputs[i], out);
  }
  tn__strbuf_printf(out, " = %s(", node->op->name);
  for (int i = 0; i < node->input_count; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    print_operand(node->inputs[i], out);
  }
  tn__strbuf_char(out, ')');
  if (node->attr_count > 0) {
    tn__strbuf_append(out, " {");
    for (int i = 0; i < node->attr_count; i++) {
      if (i > 0) tn__strbuf_append(out, ", ");
      print_attr(&node->attrs[i], out);
    }
    tn__strbuf_char(out, '}');
  }
  if (node->origin != NULL) tn__strbuf_printf(out, " // %s", node->origin);
  tn__strbuf_char(out, '\n');
  for (int i = 0; i < node->graph_count; i++) print_graph(node->graphs[i], indent + 2, out);
}

static void print_graph(const tn__graph *graph, int indent, tn__strbuf *out) {
  tn__strbuf_printf(out, "%*sgraph ", indent, "");
  tn__strbuf_json_string(out, graph->name);
  tn__strbuf_append(out, " {\n");
  for (int i = 0; i < graph->inputs.count; i++) {
    tn__strbuf_printf(out, "%*sinput %s: ", indent + 2, "", graph->inputs.data[i]->name);
    print_type(graph->inputs.data[i], out);
    print_extent(graph->inputs.data[i]->extent, out);
    tn__strbuf_char(out, '\n');
  }
  for (int i = 0; i < graph->symbols.count; i++) {
    const tn__symbol *symbol = graph->symbols.data[i];
    tn__strbuf_printf(out, "%*ssymbol %s = %s %d of %s\n", indent + 2, "", symbol->var->name,
                      symbol->source == TN__SYMBOL_INPUT_DIM ? "dimension" : "element", symbol->index,
                      symbol->value->name);
  }
  for (int i = 0; i < graph->checks.count; i++) {
    tn__strbuf_printf(out, "%*scheck ", indent + 2, "");
    tn__expr_print_short(graph->checks.data[i].condition, out);
    tn__strbuf_char(out, '\n');
  }
  for (int i = 0; i < graph->nodes.count; i++) print_node(graph->nodes.data[i], indent + 2, out);
  for (int i = 0; i < graph->outputs.count; i++) {
    tn__strbuf_printf(out, "%*soutput ", indent + 2, "");
    tn__strbuf_json_string(out, graph->outputs.data[i].name);
    tn__strbuf_append(out, " = ");
    print_operand(graph->outputs.data[i].value, out);
    print_extent(graph->outputs.data[i].extent, out);
    tn__strbuf_char(out, '\n');
  }
  tn__strbuf_printf(out, "%*s}\n", indent, "");
}

void tn__graph_print(const tn__graph *graph, tn__strbuf *out) { print_graph(graph, 0, out); }
