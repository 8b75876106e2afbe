/* Nodes by name, and what is told about a plan. */
#include <string.h>

#include "base/message.h"
#include "base/nearest.h"
#include "base/shown.h"
#include "graph/internal.h"
#include "graph/place/cost.h"
#include "graph/place/place.h"

/* What stands between `before` and " (" in the origin. */
static const char *told(const char *origin, const char *before, size_t *length) {
  const char *begin = origin != NULL ? strstr(origin, before) : NULL, *end = NULL;
  if (begin != NULL) begin += strlen(before), end = strstr(begin, before[5] == '"' ? "\" (" : " (");
  if (end == NULL || end == begin) return NULL;
  *length = (size_t)(end - begin);
  return begin;
}

/* Parses 'node "conv1" (Conv, opset 17)' or 'node #12 (Conv, opset 17)'. Returns NULL for other origins. */
static const char *name_in(const char *origin, size_t *length) {
  const char *name = told(origin, "node \"", length);
  if (name != NULL) return name;
  name = told(origin, "node #", length);
  if (name == NULL) return NULL;
  ++*length;
  return name - 1; /* includes the # */
}

const char *tn__place_name_of(const tn__node *node, size_t *length) {
  const char *name = name_in(node->origin, length);
  if (name != NULL) return name;
  name = node->output_count > 0 ? node->outputs[0]->name : node->op->name;
  *length = strlen(name);
  return name;
}

static bool fits(const char *pattern, const char *name, size_t length) {
  size_t p = 0, n = 0, star = SIZE_MAX, from = 0; /* the last star, and what it has taken up to */
  while (n < length) {
    if (pattern[p] == '*')
      star = p++, from = n;
    else if (pattern[p] != '\0' && pattern[p] == name[n])
      p++, n++;
    else if (star != SIZE_MAX)
      p = star + 1, n = ++from;
    else
      return false;
  }
  while (pattern[p] == '*') p++;
  return pattern[p] == '\0';
}

/* Control operators are where their parts are, and copies where they lead. */
static bool is_placed_by_name(const tn__node *node) {
  return node->op->lowering != TN__LOWER_CONTROL && !tn__op_has(node, TN__FACT_COPIES) &&
         !tn__op_has(node, TN__FACT_SAYS_PLACE);
}

tn__place_rule *tn__place_rule_of(const tn__place_options *options, const tn__node *node,
                                  const tn__place_rule *before) {
  size_t length;
  int count = before != NULL ? (int)(before - options->rules) : options->rule_count;
  if (options->rule_count == 0 || !is_placed_by_name(node)) return NULL;
  const char *name = tn__place_name_of(node, &length);
  for (int i = count; i-- > 0;)
    if (fits(options->rules[i].pattern, name, length)) return &options->rules[i];
  return NULL;
}

const tn__node *tn__place_fitting(const tn__graph *graph, const char *pattern, bool by_name) {
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i), *inside;
    size_t length;
    const char *name = tn__place_name_of(node, &length);
    if (is_placed_by_name(node) == by_name && fits(pattern, name, length)) return node;
    for (int g = 0; g < node->graph_count; g++)
      if ((inside = tn__place_fitting(node->graphs[g], pattern, by_name)) != NULL) return inside;
  }
  return NULL;
}

/* Returns why no operator of a node is left, to follow the node's name. */
static const char *fate(tn__arena *arena, const tn__named_node *n) {
  size_t length;
  const tn__value *made = n->made;
  if (made == NULL) return "nothing was imported for it";
  if (made->holds != TN__HOLDS_TENSOR || made->dtype == TN_DTYPE_INVALID)
    return "it is a list whose tensors the compiler knows, so each stands where it is made or read";
  if (made->data != NULL) return "the compiler knows its result: it is a constant";
  const char *name = made->producer != NULL ? name_in(made->producer->origin, &length) : NULL;
  if (n->hands_on && name == NULL) return tn__shown_text(arena, "it hands on \"%s\" as it is", made->name);
  if (name != NULL && strcmp(made->producer->origin, n->origin) != 0)
    return tn__shown_text(arena, "%s what \"%.*s\" makes", n->hands_on ? "it hands on" : "its result is", (int)length,
                          name);
  if (made->producer == NULL) return tn__shown_text(arena, "its result is \"%s\"", made->name);
  return made->elements != NULL ? "its result are sizes, which are read where they are used"
                                : "no operator is left of it";
}

const char *tn__place_vanished(tn__arena *arena, const tn__named_values *named, const char *pattern) {
  for (int i = 0; i < named->nodes.count; i++) {
    const tn__named_node *n = &named->nodes.data[i];
    size_t length;
    const char *name = name_in(n->origin, &length), *op = name != NULL ? strstr(name + length, " (") : NULL;
    if (name == NULL || op == NULL || !fits(pattern, name, length)) continue;
    return tn__shown_text(arena, "\"%.*s\" (%.*s) is no operator any more when the model has been read: %s",
                          (int)length, name, (int)strcspn(op + 2, ",)"), op + 2, fate(arena, n));
  }
  return NULL;
}

/* The name with the fewest changes. */
static void consider(const tn__graph *graph, tn__nearest *nearest) {
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    size_t length;
    const char *name = tn__place_name_of(node, &length);
    if (is_placed_by_name(node)) tn__nearest_consider(nearest, name, length);
    for (int g = 0; g < node->graph_count && node->op->lowering == TN__LOWER_CONTROL; g++)
      consider(node->graphs[g], nearest);
  }
}

/* Names are mostly paths, of which somebody may have written a part. */
const char *tn__place_nearest(const tn__graph *graph, const char *pattern) {
  tn__arena *arena = tn__graph_arena(graph);
  tn__nearest nearest = {0};
  for (int part = 0; part < 2 && nearest.best == NULL; part++) {
    const char *name = part ? tn__arena_printf(arena, "*%s*", pattern) : pattern;
    nearest = (tn__nearest){.name = name, .length = strlen(name), .stars = true};
    consider(graph, &nearest);
  }
  return nearest.best != NULL ? tn__arena_strndup(arena, nearest.best, nearest.best_length) : NULL;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* "12 us" */
void tn__place_put_time(tn__strbuf *out, double seconds) {
  static const char *const units[] = {"s", "ms", "us", "ns"};
  int unit = 0;
  while (unit < 3 && seconds < 0.9995) seconds *= 1e3, unit++;
  if (seconds < 99.95)
    tn__strbuf_printf(out, "%.3g %s", seconds, units[unit]);
  else
    tn__strbuf_printf(out, "%.0f %s", seconds, units[unit]);
}

/* Names come from the model, so escape them. */
static void put_name(tn__strbuf *out, const char *name, size_t length) {
  char shown[TN__SHOWN_CHAR];
  for (size_t at = 0; at < length;) {
    at += tn__shown_char(name + at, shown);
    tn__strbuf_append(out, shown);
  }
}

/* Formats the reason for a placement. It may contain names of the model. */
static void put_why(tn__strbuf *out, const char *why) {
  if (why == NULL) return;
  tn__strbuf_append(out, "  (");
  tn__strbuf_shown(out, why);
  tn__strbuf_char(out, ')');
}

static void put_line(tn__strbuf *out, int indent, const tn__virtual_device *device, const char *what, const char *name,
                     size_t length) {
  tn__strbuf_printf(out, "%*s%-12s %-18s ", indent, "", device != NULL ? device->text : "-", what);
  put_name(out, name, length);
}

/* The rule by which it is there, and what it takes: a copy of so many bytes, or an operator. */
static void explain_node(const tn__node *node, const tn__place_options *options, int indent, tn__strbuf *out) {
  size_t length;
  const char *name = tn__place_name_of(node, &length);
  bool copy = tn__op_has(node, TN__FACT_COPIES);
  if (copy && node->inputs[0]->producer != NULL)
    name = tn__place_name_of(node->inputs[0]->producer, &length); /* of what is copied */
  else if (copy)
    name = node->inputs[0]->name, length = strlen(name);
  const tn__value *result = node->output_count > 0 ? node->outputs[0] : NULL;
  const tn__virtual_device *device = result != NULL ? result->device : NULL;
  put_line(out, indent, device, node->op->name, name, length);
  if (device != NULL && copy && node->inputs[0]->device != NULL) {
    double bytes = tn__place_bytes(node->inputs[0]);
    tn__strbuf_printf(out, "  (from %s; %.0f bytes, ",
                      tn__virtual_device_text(options->config->cache.arena, node->inputs[0]->device), bytes);
    tn__place_put_time(out, tn__device_copy_seconds(options->config, node->inputs[0]->device, device, bytes));
    tn__strbuf_append(out, ")");
  } else if (device != NULL) {
    tn__place_work work = tn__place_work_of(node);
    tn__device_rates rates = tn__device_rates_of(device->target);
    const char *placed = result->placed != NULL ? result->placed : "";
    if (placed[0] != '\0' || work.kernel) tn__strbuf_append(out, "  (");
    tn__strbuf_shown(out, placed);
    if (work.kernel) tn__strbuf_append(out, placed[0] != '\0' ? "; " : "");
    if (work.kernel) tn__place_put_time(out, tn__place_seconds(&rates, &work));
    if (placed[0] != '\0' || work.kernel) tn__strbuf_append(out, ")");
  }
  tn__strbuf_char(out, '\n');
}

void tn__place_explain(const tn__graph *graph, const tn__place_options *options, int indent, tn__strbuf *out) {
  for (int i = 0; i < tn__graph_input_count(graph); i++) {
    const tn__value *input = tn__graph_input_at(graph, i);
    put_line(out, indent, input->device, "input", input->name, strlen(input->name));
    put_why(out, input->placed);
    tn__strbuf_char(out, '\n');
  }
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    explain_node(node, options, indent, out);
    for (int g = 0; node->op->lowering == TN__LOWER_CONTROL && g < node->graph_count; g++)
      tn__place_explain(node->graphs[g], options, indent + 2, out);
  }
}

/* What nothing was said of is in the usual memory but for a choice. */
static bool is_chosen(const tn__value *value) {
  return value->in_any_memory && value->device != NULL &&
         strcmp(value->device->memory_scope, tn__memory_scope_name(TN__MEMORY_GLOBAL)) != 0;
}

int tn__place_explain_choices(const tn__graph *graph, int indent, tn__strbuf *out) {
  int count = 0;
  for (int i = 0; i < graph->values.count; i++) {
    const tn__value *value = graph->values.data[i];
    if (!is_chosen(value)) continue;
    count++;
    tn__strbuf_printf(out, "%*s%-18s ", indent, "", value->device->text);
    tn__strbuf_shown(out, value->name);
    put_why(out, value->placed);
    tn__strbuf_char(out, '\n');
  }
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    for (int g = 0; node->op->lowering == TN__LOWER_CONTROL && g < node->graph_count; g++)
      count += tn__place_explain_choices(node->graphs[g], indent + 2, out);
  }
  return count;
}
