/* Nodes by name, and what is told about a plan. */
#include <string.h>

#include "base/nearest.h"
#include "graph/place/place.h"

/* node "conv1" (Conv, opset 17) */
const char *tn__place_name_of(const tn__node *node, size_t *length) {
  static const char before[] = "node \"";
  const char *origin = node->origin, *name = node->output_count > 0 ? node->outputs[0]->name : node->op->name;
  const char *begin = origin != NULL ? strstr(origin, before) : NULL, *end = NULL;
  if (begin != NULL) begin += sizeof before - 1, end = strstr(begin, "\" (");
  *length = end != NULL && end > begin ? (size_t)(end - begin) : strlen(name);
  return end != NULL && end > begin ? begin : name;
}

tn__place_rule tn__place_rule_read(tn__compile_config *config, const char *text) {
  tn__arena *arena = config->cache.arena;
  const char *equals = strrchr(text, '=');
  tn__place_rule rule = {.text = text};
  if (equals == NULL || equals == text || equals[1] == '\0')
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
               "the placement \"%s\" is not like PATTERN=DEVICE, as \"encoder/*=opencl:0\" is", text);
  rule.pattern = tn__arena_strndup(arena, text, (size_t)(equals - text));
  const tn__virtual_device *device = NULL;
  tn__check(arena->escape,
            tn_status_prefix(tn__compile_config_find(config, equals + 1, &device), "the placement \"%s\"", text));
  rule.device = tn__compile_config_complete(config, device);
  return rule;
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

tn__place_rule *tn__place_rule_of(const tn__place_options *options, const tn__node *node) {
  size_t length;
  if (options->rule_count == 0 || node->op->lowering == TN__LOWER_CONTROL || tn__op_has(node, TN__FACT_COPIES) ||
      tn__op_has(node, TN__FACT_SAYS_PLACE))
    return NULL;
  const char *name = tn__place_name_of(node, &length);
  for (int i = options->rule_count; i-- > 0;)
    if (fits(options->rules[i].pattern, name, length)) return &options->rules[i];
  return NULL;
}

/* The name with the fewest changes; names are mostly paths, so also one that the pattern without its stars is part
 * of. */
static void consider(const tn__graph *graph, const char *bare, tn__nearest *nearest, const char **part) {
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    size_t length, wanted = strlen(bare);
    const char *name = tn__place_name_of(node, &length);
    tn__nearest_consider(nearest, name, length);
    if (*part == NULL && wanted > 0 && wanted < length)
      for (size_t at = 0; at + wanted <= length; at++)
        if (strncmp(name + at, bare, wanted) == 0) *part = tn__arena_strndup(tn__graph_arena(graph), name, length);
    for (int g = 0; g < node->graph_count && node->op->lowering == TN__LOWER_CONTROL; g++)
      consider(node->graphs[g], bare, nearest, part);
  }
}

const char *tn__place_nearest(const tn__graph *graph, const char *pattern) {
  tn__arena *arena = tn__graph_arena(graph);
  char *bare = tn__arena_strdup(arena, pattern);
  const char *part = NULL;
  size_t kept = 0;
  for (size_t i = 0; pattern[i] != '\0'; i++)
    if (pattern[i] != '*') bare[kept++] = pattern[i];
  bare[kept] = '\0';
  tn__nearest nearest = {.name = bare, .length = kept};
  consider(graph, bare, &nearest, &part);
  return nearest.best != NULL ? tn__arena_strndup(arena, nearest.best, nearest.best_length) : part;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

static void explain_node(const tn__node *node, const tn__place_options *options, int indent, tn__strbuf *out) {
  tn__arena *arena = options->config->cache.arena;
  size_t length;
  const char *name = tn__place_name_of(node, &length);
  const tn__virtual_device *device = node->output_count > 0 ? node->outputs[0]->device : NULL;
  tn__strbuf_printf(out, "%*s%-12s %-18s ", indent, "", device ? tn__virtual_device_text(arena, device) : "-",
                    node->op->name);
  tn__strbuf_append_n(out, name, length);
  const tn__place_rule *rule = tn__place_rule_of(options, node);
  bool copy = tn__op_has(node, TN__FACT_COPIES);
  if (rule != NULL)
    tn__strbuf_printf(out, "  (placed by \"%s\")", rule->text);
  else if (copy && node->inputs[0]->device != NULL)
    tn__strbuf_printf(out, "  (from %s)", tn__virtual_device_text(arena, node->inputs[0]->device));
  tn__strbuf_char(out, '\n');
}

void tn__place_explain(const tn__graph *graph, const tn__place_options *options, int indent, tn__strbuf *out) {
  tn__arena *arena = options->config->cache.arena;
  for (int i = 0; i < tn__graph_input_count(graph); i++) {
    const tn__value *input = tn__graph_input_at(graph, i);
    tn__strbuf_printf(out, "%*s%-12s %-18s %s\n", indent, "",
                      input->device ? tn__virtual_device_text(arena, input->device) : "-", "input", input->name);
  }
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    explain_node(node, options, indent, out);
    for (int g = 0; node->op->lowering == TN__LOWER_CONTROL && g < node->graph_count; g++)
      tn__place_explain(node->graphs[g], options, indent + 2, out);
  }
}
