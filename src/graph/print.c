/* The graph as text (docs/graph.md):
 *
 *   graph "main" {
 *     input x: f32[n, 3]
 *     const c2: f32[3, 1] = [1.0, 2.0, 3.0]
 *     dot_general4: f32[n, 1] = dot_general(x, c2) {lhs_contract=[1], rhs_contract=[0]}
 *     output "y" = dot_general4
 *   } */
#include <math.h>
#include <string.h>

#include "base/base64.h"
#include "base/shown.h"
#include "base/utf8.h"
#include "graph/internal.h"
#include "graph/text.h"
#include "graph/words.h"
#include "ir/text.h"

typedef struct printer {
  const tn__graph *graph;
  tn__strbuf *out;
  tn__printer *exprs; /* with names for the graph's symbols; NULL: they have their own, and expressions are cut off */
  bool in_full;       /* constants, whatever their size */
  bool *printed;      /* constants, by value */
  int indent;
} printer;

/* ---- names and strings ------------------------------------------------------------------------------------------- */

static void print_bytes(const char *bytes, size_t length, tn__strbuf *out) {
  const char *at = bytes, *end = bytes + length;
  tn__strbuf_char(out, '"');
  while (at < end) {
    const char *next = at;
    uint32_t code = tn__utf8_next(&next, end);
    if (code == '"' || code == '\\')
      tn__strbuf_printf(out, "\\%c", (int)code);
    else if (code == '\n' || code == '\t')
      tn__strbuf_append(out, code == '\n' ? "\\n" : "\\t");
    else if (code == TN__NOT_UTF8 || tn__is_unseen(code))
      for (const char *byte = at; byte < next; byte++)
        tn__strbuf_printf(out, "\\x%02x", (unsigned)(unsigned char)*byte);
    else
      tn__strbuf_append_n(out, at, (size_t)(next - at));
    at = next;
  }
  tn__strbuf_char(out, '"');
}

static void print_string(const char *text, tn__strbuf *out) { print_bytes(text, strlen(text), out); }

static bool is_name(const char *text) {
  bool first = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || *text == '_';
  if (!first || strcmp(text, "_") == 0) return false;
  while (*text != '\0' && tn__ir_text_is_name_char(*text)) text++;
  return *text == '\0';
}

static void print_name(const char *name, tn__strbuf *out) {
  if (is_name(name))
    tn__strbuf_append(out, name);
  else
    print_string(name, out);
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static void print_expr(const printer *p, const tn__expr *e) { tn__g_print_expr(e, p->exprs, p->out); }

static void print_type(const printer *p, const tn__value *value) {
  tn__value_print_type(value, p->exprs, p->out);
  if (value->place == NULL) return;
  tn__strbuf_append(p->out, " on ");
  print_string(value->place, p->out);
}

static void print_origin(const char *origin, tn__strbuf *out) {
  if (origin == NULL) return;
  tn__strbuf_append(out, " from ");
  print_string(origin, out);
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

/* check n == m, "dimension 1 is ", n, " and must be ", m */
static void print_check(const printer *p, const tn__check_at_run *check) {
  tn__strbuf_printf(p->out, "%*scheck ", p->indent, "");
  print_expr(p, check->condition);
  const char *at = check->text, *begin = at;
  do {
    const char *end = at;
    const tn__expr *size = tn__g_size_at(p->graph, &at);
    if (size == NULL && *at != '\0') {
      at++;
      continue;
    }
    if (end > begin || begin == check->text) {
      tn__strbuf_append(p->out, ", ");
      print_bytes(begin, (size_t)(end - begin), p->out);
    }
    begin = at;
    if (size == NULL) break;
    tn__strbuf_append(p->out, ", ");
    print_expr(p, size);
  } while (true);
  print_origin(check->origin, p->out);
  tn__strbuf_char(p->out, '\n');
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

static void print_element(const tn__value *value, int64_t i, tn__strbuf *out) {
  if (value->dtype == TN_STRING) {
    const tn__text *text = ((const tn__text *const *)value->data)[i];
    print_bytes(text == NULL ? "" : text->bytes, text == NULL ? 0 : (size_t)text->length, out);
  } else if (tn__dtype_is_float(value->dtype)) {
    double number = tn__load_f64(value->dtype, value->data, i);
    bool finite = number - number == 0;
    tn__strbuf_f64(out, finite ? tn__ir_shortest_float(value->dtype, number) : number);
  } else if (value->dtype == TN_BOOL) {
    tn__strbuf_append(out, tn__load_i64(TN_BOOL, value->data, i) ? "true" : "false");
  } else if (value->dtype == TN_U64) {
    tn__strbuf_printf(out, "%llu", (unsigned long long)tn__load_i64(TN_U64, value->data, i));
  } else {
    tn__strbuf_printf(out, "%lld", (long long)tn__load_i64(value->dtype, value->data, i));
  }
}

/* Does each element's text say all of its bits? That of a NaN may not. */
static bool is_exact(const tn__value *value, int64_t count) {
  size_t size = tn__dtype_stored(value->dtype);
  char bits[16];
  for (int64_t i = 0; i < count && value->dtype != TN_STRING; i++) {
    if (tn__dtype_is_float(value->dtype)) {
      double number = tn__load_f64(value->dtype, value->data, i);
      tn__store_f64(value->dtype, bits, 0, number == number ? number : (double)NAN);
    } else {
      tn__store_i64(value->dtype, bits, 0, tn__load_i64(value->dtype, value->data, i));
    }
    if (memcmp(bits, (const char *)value->data + (size_t)i * size, size) != 0) return false;
  }
  return true;
}

static void print_data(const printer *p, const tn__value *value, int64_t count) {
  enum { BYTES_A_LINE = 72 };
  size_t size = (size_t)count * tn__dtype_stored(value->dtype);
  tn__strbuf_append(p->out, "data");
  for (size_t i = 0; i < size; i += BYTES_A_LINE) {
    tn__strbuf_printf(p->out, size > BYTES_A_LINE ? "\n%*s\"" : " \"", p->indent + 2, "");
    tn__base64_append(p->out, (const char *)value->data + i, size - i < BYTES_A_LINE ? size - i : BYTES_A_LINE);
    tn__strbuf_char(p->out, '"');
  }
}

static void print_contents(const printer *p, const tn__value *value) {
  int64_t count = value->splat ? 1 : tn__g_constant_count(value);
  if (count > TN__MOST_LISTED && !p->in_full) {
    tn__strbuf_append(p->out, "elided");
    return;
  }
  if (value->dtype != TN_STRING && (count > TN__MOST_LISTED || !is_exact(value, count))) {
    if (value->splat && value->rank > 0) tn__strbuf_append(p->out, "splat ");
    print_data(p, value, count);
    return;
  }
  if (!value->splat) tn__strbuf_char(p->out, '[');
  for (int64_t i = 0; i < count; i++) {
    if (i > 0) tn__strbuf_append(p->out, ", ");
    print_element(value, i, p->out);
  }
  if (!value->splat) tn__strbuf_char(p->out, ']');
}

/* Before what reads it first. */
static void print_constant(const printer *p, const tn__value *value) {
  if (value == NULL || value->data == NULL || p->printed[value->id]) return;
  p->printed[value->id] = true;
  tn__strbuf_printf(p->out, "%*sconst ", p->indent, "");
  print_name(value->name, p->out);
  tn__strbuf_append(p->out, ": ");
  print_type(p, value);
  tn__strbuf_append(p->out, " = ");
  print_contents(p, value);
  tn__strbuf_char(p->out, '\n');
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void print_attr(const printer *p, const tn__attr *attr) {
  tn__strbuf *out = p->out;
  print_name(attr->name, out);
  tn__strbuf_char(out, '=');
  if (attr->kind == TN__ATTR_STRING) {
    print_string(attr->string, out);
    return;
  }
  bool exprs = attr->kind == TN__ATTR_EXPRS, list = exprs || attr->count != 1;
  if (list) tn__strbuf_char(out, exprs ? '(' : '[');
  for (int i = 0; i < attr->count; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    if (attr->kind == TN__ATTR_INTS)
      tn__strbuf_printf(out, "%lld", (long long)attr->ints[i]);
    else if (attr->kind == TN__ATTR_FLOATS)
      tn__strbuf_f64(out, attr->floats[i]);
    else
      print_expr(p, attr->exprs[i]);
  }
  if (list) tn__strbuf_char(out, exprs ? ')' : ']');
}

static void print_extent(const printer *p, tn__extent extent) {
  if (extent.valid == NULL) return;
  tn__strbuf_append(p->out, " valid ");
  print_expr(p, extent.valid);
  tn__strbuf_printf(p->out, " along %d", extent.axis);
}

static void print_graph(const printer *outer, const tn__graph *graph, int indent, bool own_symbols);

/* The driver has computed it: its results are constants. */
static bool is_computed(const tn__node *node) {
  bool computed = node->output_count > 0;
  for (int i = 0; i < node->output_count && computed; i++) computed = node->outputs[i]->data != NULL;
  return computed;
}

static void print_node(const printer *p, const tn__node *node) {
  tn__strbuf *out = p->out;
  if (node->dead || is_computed(node)) return;
  for (int i = 0; i < node->input_count; i++) print_constant(p, node->inputs[i]);
  tn__strbuf_printf(out, "%*s", p->indent, "");
  for (int i = 0; i < node->output_count; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    print_name(node->outputs[i]->name, out);
    tn__strbuf_append(out, ": ");
    print_type(p, node->outputs[i]);
  }
  tn__strbuf_printf(out, "%s= %s(", node->output_count > 0 ? " " : "", node->op->name);
  for (int i = 0; i < node->input_count; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    if (node->inputs[i] == NULL)
      tn__strbuf_char(out, '_');
    else
      print_name(node->inputs[i]->name, out);
  }
  tn__strbuf_char(out, ')');
  if (node->attr_count > 0) {
    tn__strbuf_append(out, " {");
    for (int i = 0; i < node->attr_count; i++) {
      if (i > 0) tn__strbuf_append(out, ", ");
      print_attr(p, &node->attrs[i]);
    }
    tn__strbuf_char(out, '}');
  }
  print_origin(node->origin, out);
  tn__strbuf_char(out, '\n');
  for (int i = 0; i < node->graph_count; i++)
    print_graph(p, node->graphs[i], p->indent + 2, tn__composite_body(node) == NULL);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static bool has_usual_range(const tn__symbol *symbol) {
  const tn__var *var = symbol->var;
  bool dimension = symbol->source == TN__SYMBOL_INPUT_DIM;
  return var->extent == NULL && (dimension ? var->min != NULL && tn__ir_is_int_value(var->min, 0) : var->min == NULL);
}

static void print_symbol(const printer *p, const tn__symbol *symbol) {
  const tn__var *var = symbol->var;
  const char *name = tn__printer_bind(p->exprs, var, var->name);
  tn__strbuf_printf(p->out, "%*ssymbol %s", p->indent, "", name);
  if (strcmp(name, var->name) != 0) {
    tn__strbuf_char(p->out, ' ');
    print_string(var->name, p->out);
  }
  if (!has_usual_range(symbol)) tn__printer_range(p->exprs, var);
  tn__strbuf_printf(p->out, " = %s %d of ", symbol->source == TN__SYMBOL_INPUT_DIM ? "dimension" : "element",
                    symbol->index);
  print_name(symbol->value->name, p->out);
  tn__strbuf_char(p->out, '\n');
}

/* Are all symbols in it among the first `count`? */
static bool uses_only(const tn__graph *graph, const tn__expr *e, int count) {
  int vars;
  const uint32_t *ids = tn__expr_vars(e, &vars);
  for (int i = 0; i < vars; i++)
    if (count == 0 || ids[i] > graph->symbols.data[count - 1]->var->id) return false;
  return true;
}

/* How many symbols, from the first on, the inputs' types introduce by naming them, in this order; -1 when the types say
 * more than that, and every symbol is written. */
static int introduced_by_inputs(const printer *p) {
  const tn__graph *graph = p->graph;
  int count = 0, mark = tn__printer_mark(p->exprs);
  bool plain = true;
  for (int i = 0; i < graph->inputs.count && plain; i++) {
    const tn__value *input = graph->inputs.data[i];
    for (int j = 0; j < input->rank && plain; j++) {
      const tn__symbol *next = count < graph->symbols.count ? graph->symbols.data[count] : NULL;
      if (next != NULL && next->var->self == input->dims[j] && next->source == TN__SYMBOL_INPUT_DIM &&
          next->value == input && next->index == j && has_usual_range(next) &&
          strcmp(tn__printer_bind(p->exprs, next->var, next->var->name), next->var->name) == 0)
        count++;
      else
        plain = uses_only(graph, input->dims[j], count);
    }
    plain = plain && (input->extent.valid == NULL || uses_only(graph, input->extent.valid, count));
  }
  tn__printer_reset(p->exprs, mark);
  return plain ? count : -1;
}

static void print_input(const printer *p, const tn__value *input) {
  print_constant(p, input->fallback);
  tn__strbuf_printf(p->out, "%*sinput ", p->indent, "");
  print_name(input->name, p->out);
  tn__strbuf_append(p->out, ": ");
  print_type(p, input);
  print_extent(p, input->extent);
  if (input->fallback != NULL) {
    tn__strbuf_append(p->out, " default ");
    print_name(input->fallback->name, p->out);
  }
  tn__strbuf_char(p->out, '\n');
}

static void print_output(const printer *p, const tn__graph_result *output) {
  print_constant(p, output->value);
  tn__strbuf_printf(p->out, "%*soutput ", p->indent, "");
  print_string(output->name, p->out);
  tn__strbuf_append(p->out, " = ");
  print_name(output->value->name, p->out);
  print_extent(p, output->extent);
  tn__strbuf_char(p->out, '\n');
}

static void print_graph(const printer *outer, const tn__graph *graph, int indent, bool own_symbols) {
  tn__strbuf *out = outer->out;
  printer p = {.graph = graph, .out = out, .in_full = outer->in_full, .indent = indent + 2};
  p.exprs = own_symbols ? tn__printer_create(graph->arena, out) : outer->exprs;
  p.printed = TN__NEW_ARRAY(graph->arena, graph->values.count, bool);
  tn__strbuf_printf(out, "%*sgraph ", indent, "");
  print_string(graph->name, out);
  tn__strbuf_append(out, " {\n");
  int introduced = introduced_by_inputs(&p);
  for (int i = 0; i < graph->symbols.count && introduced < 0; i++) print_symbol(&p, graph->symbols.data[i]);
  for (int i = 0; i < introduced; i++)
    tn__printer_bind(p.exprs, graph->symbols.data[i]->var, graph->symbols.data[i]->var->name);
  for (int i = 0; i < graph->inputs.count; i++) print_input(&p, graph->inputs.data[i]);
  for (int i = introduced; i < graph->symbols.count && introduced >= 0; i++) print_symbol(&p, graph->symbols.data[i]);
  for (int i = 0; i < graph->checks.count; i++) print_check(&p, &graph->checks.data[i]);
  for (int i = 0; i < graph->nodes.count; i++) print_node(&p, graph->nodes.data[i]);
  for (int i = 0; i < graph->outputs.count; i++) print_output(&p, &graph->outputs.data[i]);
  tn__strbuf_printf(out, "%*s}\n", indent, "");
}

void tn__graph_print(const tn__graph *graph, tn__strbuf *out) { print_graph(&(printer){.out = out}, graph, 0, true); }

void tn__graph_write(const tn__graph *graph, tn__strbuf *out) {
  print_graph(&(printer){.out = out, .in_full = true}, graph, 0, true);
}
