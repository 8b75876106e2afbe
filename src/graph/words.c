/* Types and sizes in words, for messages and for the text form. */
#include "graph/words.h"

#include <stdlib.h>

#include "graph/internal.h"

void tn__g_print_expr(const tn__expr *e, tn__printer *exprs, tn__strbuf *out) {
  if (exprs != NULL)
    tn__printer_expr(exprs, e);
  else
    tn__expr_print_short(e, out);
}

void tn__value_print_type(const tn__value *value, tn__printer *exprs, tn__strbuf *out) {
  static const char *const holds[] = {"", "sequence ", "optional ", "optional sequence "};
  tn__strbuf_append(out, holds[value->holds]);
  tn__strbuf_append(out, tn_dtype_name(value->dtype));
  bool tensor = value->holds == TN__HOLDS_TENSOR, any = !tensor && value->item_rank == TN__ANY_RANK;
  tn__strbuf_append(out, any ? "[*" : "[");
  for (int i = 0; i < (tensor ? value->rank : value->item_rank); i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    if (!tensor || value->dims[i] == NULL)
      tn__strbuf_char(out, '?');
    else
      tn__g_print_expr(value->dims[i], exprs, out);
  }
  tn__strbuf_char(out, ']');
  if (value->held == NULL) return;
  tn__strbuf_append(out, " of ");
  if (value->held->dtype != value->dtype) tn__strbuf_append(out, tn_dtype_name(value->held->dtype));
  tn__strbuf_char(out, '[');
  for (int i = 0; i < value->held->rank; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    tn__g_print_expr(value->held->dims[i], exprs, out);
  }
  tn__strbuf_append(out, "] in {");
  tn__layout_print(&value->held->layout, out);
  tn__strbuf_char(out, '}');
}

const char *tn__value_type_text(const tn__graph *graph, const tn__value *value) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, graph->arena->allocator);
  tn__value_print_type(value, NULL, &buf);
  return tn__arena_take(graph->arena, &buf);
}

const char *tn__g_expr_text(const tn__graph *graph, const tn__expr *e) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, graph->arena->allocator);
  tn__expr_print_short(e, &buf);
  return tn__arena_take(graph->arena, &buf);
}

/* ---- texts of checks --------------------------------------------------------------------------------------------- */

/* A size in a text is its number in graph->sizes between two of these. */
enum { SIZE_MARK = 1 };

const char *tn__g_size_mark(tn__graph *graph, const tn__expr *e) {
  tn__vec_push(graph->arena, &graph->sizes, e);
  return tn__arena_printf(graph->arena, "%c%d%c", SIZE_MARK, graph->sizes.count - 1, SIZE_MARK);
}

const char *tn__g_size_text(tn__graph *graph, const tn__expr *e) {
  if (tn__ir_is_int(e)) return tn__g_expr_text(graph, e);
  const tn__symbol *symbol = e->kind == TN__EXPR_VAR ? tn__graph_symbol_of(graph, e->value.var->id) : NULL;
  bool named = e->kind == TN__EXPR_VAR && (symbol == NULL || symbol->source == TN__SYMBOL_INPUT_DIM);
  const char *name = named ? e->value.var->name : ""; /* that of an operand's element says nothing to people */
  return tn__arena_printf(graph->arena, "%s%s%s", name, name[0] == '\0' ? "" : " = ", tn__g_size_mark(graph, e));
}

const tn__expr *tn__g_size_at(const tn__graph *graph, const char **at) {
  char *end = NULL;
  long index = **at == SIZE_MARK ? strtol(*at + 1, &end, 10) : -1;
  if (index < 0 || index >= graph->sizes.count || *end != SIZE_MARK) return NULL;
  *at = end + 1;
  return graph->sizes.data[index];
}

void tn__graph_check_text(const tn__graph *graph, const tn__check_at_run *check,
                          void (*put)(void *user, const tn__expr *size, tn__strbuf *out), void *user, tn__strbuf *out) {
  for (const char *at = check->text; *at != '\0';) {
    const tn__expr *size = tn__g_size_at(graph, &at);
    if (size == NULL)
      tn__strbuf_char(out, *at++);
    else if (put == NULL)
      tn__expr_print_short(size, out);
    else
      put(user, size, out);
  }
}
