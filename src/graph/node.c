/* Nodes: attributes, what a node is held to when it is made, its results. */
#include <string.h>

#include "graph/internal.h"
#include "graph/relations.h"

/* ---- attributes -------------------------------------------------------------------------------------------------- */

tn__attr tn__attr_ints(tn__graph *graph, const char *name, const int64_t *values, int count) {
  return (tn__attr){.name = name,
                    .kind = TN__ATTR_INTS,
                    .count = count,
                    .ints = tn__arena_copy(graph->arena, values, (size_t)count * sizeof(*values))};
}

tn__attr tn__attr_int(tn__graph *graph, const char *name, int64_t value) {
  return tn__attr_ints(graph, name, &value, 1);
}

tn__attr tn__attr_exprs(tn__graph *graph, const char *name, const tn__expr *const *values, int count) {
  return (tn__attr){.name = name,
                    .kind = TN__ATTR_EXPRS,
                    .count = count,
                    .exprs = tn__arena_copy(graph->arena, values, (size_t)count * sizeof(*values))};
}

tn__attr tn__attr_float(tn__graph *graph, const char *name, double value) {
  return (tn__attr){
      .name = name, .kind = TN__ATTR_FLOATS, .count = 1, .floats = tn__arena_copy(graph->arena, &value, sizeof(value))};
}

tn__attr tn__attr_string(tn__graph *graph, const char *name, const char *value) {
  return (tn__attr){.name = name, .kind = TN__ATTR_STRING, .count = 1, .string = tn__arena_strdup(graph->arena, value)};
}

bool tn__node_reads_layout(const tn__node *node) {
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NULL && node->inputs[i]->held != NULL) return true;
  return false;
}

static bool keeps_order(const tn__held *held) {
  return held == NULL || tn__layout_is_row_major(&held->layout, held->dims);
}

bool tn__node_is_view(const tn__node *node) {
  return tn__op_has(node, TN__FACT_VIEW) && keeps_order(node->inputs[0]->held) && keeps_order(node->outputs[0]->held);
}

bool tn__g_is_op(const tn__node *node, const char *name) { return node != NULL && strcmp(node->op->name, name) == 0; }

bool tn__op_has(const tn__node *node, tn__op_fact fact) { return (node->op->facts & fact) != 0; }

const tn__attr *tn__node_attr(const tn__node *node, const char *name) {
  for (int i = 0; i < node->attr_count; i++)
    if (strcmp(node->attrs[i].name, name) == 0) return &node->attrs[i];
  return NULL;
}

int64_t tn__node_int(const tn__node *node, const char *name, int64_t otherwise) {
  const tn__attr *attr = tn__node_attr(node, name);
  return attr != NULL && attr->kind == TN__ATTR_INTS && attr->count == 1 ? attr->ints[0] : otherwise;
}

double tn__node_float(const tn__node *node, const char *name, double otherwise) {
  const tn__attr *attr = tn__node_attr(node, name);
  return attr != NULL && attr->kind == TN__ATTR_FLOATS && attr->count == 1 ? attr->floats[0] : otherwise;
}

const char *tn__node_string(const tn__node *node, const char *name, const char *otherwise) {
  const tn__attr *attr = tn__node_attr(node, name);
  return attr != NULL && attr->kind == TN__ATTR_STRING ? attr->string : otherwise;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static bool has_strings(const tn__node *node) {
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NULL && node->inputs[i]->dtype == TN_STRING) return true;
  return false;
}

TN_MUST_USE static bool node_attribute(const void *user, const char *name, int64_t *value) {
  const tn__attr *attr = tn__node_attr(user, name);
  bool given = attr != NULL && attr->kind == TN__ATTR_INTS && attr->count == 1;
  if (given) *value = attr->ints[0];
  return given;
}

TN_MUST_USE static int64_t take_bound(const char **at) {
  bool negative = **at == '-';
  int64_t bound = 0;
  for (*at += negative; **at >= '0' && **at <= '9'; ++*at) bound = bound * 10 + (**at - '0');
  return negative ? -bound : bound;
}

/* Whether the attribute is of the kind that stands at `*kind`, which is put behind it, with its words. */
TN_MUST_USE static bool is_of_kind(const tn__attr *attr, const char **kind, const char **words) {
  static const struct {
    const char *name, *words;
    tn__attr_kind kind;
    bool one;
  } kinds[] = {{"ints", "integers", TN__ATTR_INTS, false},
               {"int", "one integer", TN__ATTR_INTS, true},
               {"exprs", "sizes in parentheses", TN__ATTR_EXPRS, false},
               {"floats", "floating numbers", TN__ATTR_FLOATS, false},
               {"float", "one floating number", TN__ATTR_FLOATS, true},
               {"string", "a string", TN__ATTR_STRING, true}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    size_t length = strlen(kinds[i].name);
    if (strncmp(*kind, kinds[i].name, length) != 0) continue;
    *kind += length;
    *words = kinds[i].words;
    return attr->kind == kinds[i].kind && (!kinds[i].one || attr->count == 1);
  }
  return false;
}

/* What stands behind the name in an operator's row: "int[1..3]", "!:ints"; NULL: it has no such attribute. */
static const char *declared_attribute(const tn__op *op, const char *name) {
  size_t length = strlen(name);
  for (const char *at = op->attributes; at != NULL; at = strchr(at, ' ')) {
    at += *at == ' ';
    if (strncmp(at, name, length) == 0 && (at[length] == ':' || at[length] == '!')) return at + length;
  }
  return NULL;
}

static void check_attribute(const tn__graph *graph, const tn__node *node, const tn__attr *attr) {
  const char *kind = declared_attribute(node->op, attr->name), *words = "";
  if (kind == NULL) tn__node_fail(graph, node, "has no attribute %s", attr->name);
  kind += *kind == '!';
  kind++;
  if (!is_of_kind(attr, &kind, &words)) tn__node_fail(graph, node, "attribute %s must be %s", attr->name, words);
  if (*kind != '[') return;
  kind++;
  int64_t least = take_bound(&kind), value = attr->ints[0];
  kind += 2;
  int64_t most = *kind == ']' ? INT32_MAX : take_bound(&kind);
  if (value < least || value > most)
    tn__node_fail(graph, node, "attribute %s is %lld, but must be %lld to %lld", attr->name, (long long)value,
                  (long long)least, (long long)most);
}

static void check_attributes(const tn__graph *graph, const tn__node *node) {
  for (int i = 0; i < node->attr_count; i++) check_attribute(graph, node, &node->attrs[i]);
  for (const char *at = node->op->attributes; at != NULL; at = strchr(at, ' ')) {
    at += *at == ' ';
    size_t length = strcspn(at, ":!");
    bool given = at[length] != '!';
    for (int i = 0; i < node->attr_count && !given; i++)
      given = strlen(node->attrs[i].name) == length && memcmp(node->attrs[i].name, at, length) == 0;
    if (!given) tn__node_fail(graph, node, "needs the attribute %.*s", (int)length, at);
  }
}

static void check_relations(tn__graph *graph, const tn__node *node) {
  const tn__relating r = {.graph = graph,
                          .name = node->op->name,
                          .word = "operand",
                          .operands = node->inputs,
                          .count = node->input_count,
                          .attribute = node_attribute,
                          .user = node};
  tn__relate(&r, node->op->operands);
}

/* Strings are moved like numbers, and that is all that operators can do with them, but those that are about them. */
static void check_strings(const tn__graph *graph, const tn__node *node) {
  if (!has_strings(node)) return;
  if (!tn__op_has(node, TN__FACT_STRINGS) || strcmp(tn__node_string(node, "reduction", "none"), "none") != 0)
    tn__graph_fail(graph, TN_UNSUPPORTED, "%s: strings are not supported as operands", node->op->name);
}

/* A layout is for those who read it; to all others, the elements would be in a wrong order. */
static void check_layouts(const tn__graph *graph, const tn__node *node) {
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NULL && node->inputs[i]->held != NULL && !tn__op_has(node, TN__FACT_LAYOUTS))
      tn__graph_fail(graph, TN_INVALID_ARGUMENT, "%s: operand %d is %s, and layouts are not read", node->op->name, i,
                     tn__value_type_text(graph, node->inputs[i]));
}

tn__node *tn__node_create(tn__graph *graph, const tn__op *op, tn__value *const *inputs, int input_count,
                          const tn__attr *attrs, int attr_count, tn__graph *const *graphs, int graph_count) {
  return tn__node_create_named(graph, op, inputs, input_count, attrs, attr_count, graphs, graph_count, NULL, 0);
}

tn__node *tn__node_create_named(tn__graph *graph, const tn__op *op, tn__value *const *inputs, int input_count,
                                const tn__attr *attrs, int attr_count, tn__graph *const *graphs, int graph_count,
                                const char *const *names, int name_count) {
  if (input_count < op->min_inputs || (op->max_inputs >= 0 && input_count > op->max_inputs))
    tn__graph_fail(graph, TN_INVALID_ARGUMENT, "%s: takes %d to %d operands, not %d", op->name, op->min_inputs,
                   op->max_inputs, input_count);
  tn__node *node = TN__NEW(graph->arena, tn__node);
  node->op = op;
  node->origin = graph->origin;
  node->names = names;
  node->name_count = name_count;
  node->id = graph->next_node_id++;
  node->input_count = input_count;
  node->inputs = tn__arena_copy(graph->arena, inputs, (size_t)input_count * sizeof(*inputs));
  node->attr_count = attr_count;
  node->attrs = tn__arena_copy(graph->arena, attrs, (size_t)attr_count * sizeof(*attrs));
  node->graph_count = graph_count;
  if (graph_count > 0) node->graphs = tn__arena_copy(graph->arena, graphs, (size_t)graph_count * sizeof(*graphs));
  check_layouts(graph, node);
  check_attributes(graph, node);
  check_relations(graph, node);
  check_strings(graph, node);
  for (int i = 0; i < input_count; i++) {
    const tn__operand_place place = {node, i};
    if (inputs[i] != NULL) tn__vec_push(graph->arena, &inputs[i]->readers, place);
  }
  op->infer(graph, node);
  tn__vec_push(graph->arena, &graph->nodes, node);
  return node;
}

static bool is_long(const tn__expr *e) { return tn__expr_size(e) > TN__MAX_EXPRESSION; }

void tn__graph_keep_long_dim(tn__graph *graph, const tn__expr *size, tn__value *scalar) {
  tn__long_dim entry = {size, scalar};
  if (is_long(size)) tn__vec_push(graph->arena, &graph->long_dims, entry);
}

/* A symbol for a dimension that is too long: read from a scalar that is computed. Equal ones have the same symbol. */
static const tn__expr *long_dim(tn__graph *graph, const tn__expr *size) {
  tn__value *scalar = NULL;
  for (int i = 0; i < graph->long_dims.count && scalar == NULL; i++)
    if (graph->long_dims.data[i].size == size && !graph->long_dims.data[i].scalar->producer->dead)
      scalar = graph->long_dims.data[i].scalar;
  if (scalar == NULL) {
    const tn__attr attrs[] = {tn__attr_string(graph, "dtype", tn_dtype_name(TN_I64)), tn__attr_int(graph, "rank", 0),
                              tn__attr_exprs(graph, "elements", &size, 1)};
    scalar = tn__node_create(graph, tn__op_find("from_elements"), NULL, 0, attrs, 3, NULL, 0)->outputs[0];
    tn__graph_keep_long_dim(graph, size, scalar);
  }
  tn__interval range = tn__interval_of(graph->ir, size);
  return tn__graph_count_symbol(graph, scalar, range.max == INT64_MAX ? NULL : tn__ir_index(graph->ir, range.max));
}

static bool are_short(const tn__expr *const *exprs, int count) {
  for (int i = 0; i < count; i++)
    if (is_long(exprs[i])) return false;
  return true;
}

tn__value *tn__g_set_output(tn__graph *graph, tn__node *node, int index, tn_dtype dtype, int rank,
                            const tn__expr *const *dims, const tn__expr *const *elements) {
  const tn__expr *short_dims[TN__MAX_RANK];
  if (rank <= TN__MAX_RANK && !are_short(dims, rank)) {
    for (int i = 0; i < rank; i++) short_dims[i] = is_long(dims[i]) ? long_dim(graph, dims[i]) : dims[i];
    dims = short_dims;
  }
  if (index >= node->output_count) {
    tn__value **outputs = TN__NEW_ARRAY(graph->arena, index + 1, tn__value *);
    for (int i = 0; i < node->output_count; i++) outputs[i] = node->outputs[i];
    node->outputs = outputs;
    node->output_count = index + 1;
  }
  tn__value *value = node->outputs[index];
  if (value == NULL) {
    const char *name = index == 0 ? tn__arena_printf(graph->arena, "%s%u", node->op->name, node->id)
                                  : tn__arena_printf(graph->arena, "%s%u_%d", node->op->name, node->id, index);
    value = tn__value_create(graph, name, dtype, rank, dims);
    if (index < node->name_count) tn__value_set_name(graph, value, node->names[index]);
    value->producer = node;
    value->producer_index = index;
    node->outputs[index] = value;
  } else {
    tn__value_check_size(graph, value->name, dtype, rank, dims);
    value->dtype = dtype;
    value->rank = rank;
    value->dims = tn__arena_copy(graph->arena, dims, (size_t)rank * sizeof(*dims));
  }
  int count = tn__g_element_count(rank, dims);
  if (elements != NULL && count >= 0 && are_short(elements, count))
    value->elements = tn__arena_copy(graph->arena, elements, (size_t)count * sizeof(*elements));
  return value;
}

const tn__graph *tn__composite_body(const tn__node *node) {
  return tn__op_has(node, TN__FACT_BODY) ? node->graphs[0] : NULL;
}
