/* Finds what annotations are of, joins those of one value, and makes operators of them. */
#include "graph/place/annotate.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/message.h"
#include "base/nearest.h"
#include "graph/internal.h"

/* A value that an annotation is of. */
typedef struct annotated {
  int graph; /* in the annotator's graphs */
  int annotation;
  tn__value *value;
} annotated;

typedef struct numbered_graph {
  const tn__graph *graph;
  int number;
} numbered_graph;

typedef struct annotator {
  tn__arena *arena;
  tn__compile_config *config;
  tn__place_annotation *annotations;
  const tn__named_values *named;
  TN__VEC(tn__graph *) graphs; /* with their bodies */
  numbered_graph *numbers;     /* of these, by address */
  TN__VEC(annotated) found;
} annotator;

tn__place_annotation tn__place_annotation_read(tn__compile_config *config, const char *name, const char *device,
                                               bool body, bool result) {
  tn__arena *arena = config->cache.arena;
  tn__place_annotation a = {
      .name = name, .by = tn__shown_text(arena, "the annotation of \"%s\"", name), .body = body, .result = result};
  tn__check(arena->escape, tn_status_prefix(tn__compile_config_find(config, device, &a.device), "%s", a.by));
  return a;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

void tn__place_name_values(tn__graph *graph, tn__named_values *out) {
  for (int i = 0; i < graph->values.count; i++) {
    tn__value *value = graph->values.data[i];
    tn__named_value one = {value->name, graph, value};
    tn__vec_push(tn__graph_arena(graph), &out->list, one);
  }
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    for (int g = 0; g < node->graph_count && node->op->lowering == TN__LOWER_CONTROL; g++)
      tn__place_name_values(node->graphs[g], out);
  }
}

/* The nearest name; names are often paths, so else one that this is a part of. */
static const char *near_name(const annotator *a, const char *name) {
  tn__nearest nearest = {.name = name, .length = strlen(name)};
  const char *part = NULL;
  for (int i = 0; i < a->named->list.count; i++) {
    const char *other = a->named->list.data[i].name;
    tn__nearest_consider(&nearest, other, strlen(other));
    if (part == NULL && name[0] != '\0' && strstr(other, name) != NULL) part = other;
  }
  return nearest.best != NULL ? nearest.best : part;
}

_Noreturn static void fail_unknown(const annotator *a, const tn__place_annotation *said) {
  const char *near = near_name(a, said->name);
  tn__throwf(a->arena->escape, TN_NOT_FOUND, "%s: no value has this name%s%s%s", said->by,
             near != NULL ? "; did you mean \"" : ": names are those of inputs, initializers and nodes' outputs",
             near != NULL ? near : "", near != NULL ? "\"?" : "");
}

/* ---- what annotations are of ------------------------------------------------------------------------------------- */

static void add_graph(annotator *a, tn__graph *graph) {
  tn__vec_push(a->arena, &a->graphs, graph);
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    for (int g = 0; g < node->graph_count && node->op->lowering == TN__LOWER_CONTROL; g++)
      add_graph(a, node->graphs[g]);
  }
}

static int by_address(const void *a, const void *b) {
  const numbered_graph *x = a, *y = b;
  return x->graph < y->graph ? -1 : x->graph > y->graph;
}

static void number_graphs(annotator *a) {
  a->numbers = TN__NEW_ARRAY(a->arena, a->graphs.count, numbered_graph);
  for (int i = 0; i < a->graphs.count; i++) a->numbers[i] = (numbered_graph){a->graphs.data[i], i};
  qsort(a->numbers, (size_t)a->graphs.count, sizeof *a->numbers, by_address);
}

/* -1: it is a body of something that was tried and given up. */
static int number_of(const annotator *a, const tn__graph *graph) {
  const numbered_graph wanted = {graph, 0};
  const numbered_graph *found = bsearch(&wanted, a->numbers, (size_t)a->graphs.count, sizeof *a->numbers, by_address);
  return found != NULL ? found->number : -1;
}

static const char *of_the_host(const tn__value *value) {
  if (value->holds == TN__HOLDS_OPTIONAL || value->holds == TN__HOLDS_OPTIONAL_SEQUENCE) return "an optional value";
  if (value->holds == TN__HOLDS_SEQUENCE || value->dtype == TN_DTYPE_INVALID) return "a sequence";
  return value->dtype == TN_STRING ? "strings" : NULL;
}

static void check_host(const annotator *a, const tn__place_annotation *said, const tn__value *value) {
  const char *what = of_the_host(value);
  tn__compile_config *config = a->config;
  if (what == NULL || tn__compile_config_rank(config, tn__compile_config_complete(config, said->device)) ==
                          tn__compile_config_rank(config, config->host))
    return;
  tn__throwf(a->arena->escape, TN_INVALID_ARGUMENT, "%s: it is %s, and on %s: lists and strings are on the host, %s",
             said->by, what, tn__virtual_device_text(a->arena, said->device),
             tn__virtual_device_text(a->arena, config->host));
}

static void find_values(annotator *a, int count) {
  tn__map last; /* by name: one more than the number of its last value */
  int *before = TN__NEW_ARRAY(a->arena, a->named->list.count, int);
  tn__map_init(&last, a->arena);
  for (int i = 0; i < a->named->list.count; i++)
    before[i] = (int)(intptr_t)tn__map_set(&last, a->named->list.data[i].name, (void *)(intptr_t)(i + 1));
  for (int k = 0; k < count; k++) {
    tn__place_annotation *said = &a->annotations[k];
    int at = (int)(intptr_t)tn__map_get(&last, said->name);
    if (at == 0) fail_unknown(a, said);
    for (; at != 0; at = before[at - 1]) {
      const tn__named_value *one = &a->named->list.data[at - 1];
      if (one->value == NULL) continue;
      check_host(a, said, one->value);
      bool known = one->value->dtype == TN_DTYPE_INVALID; /* a sequence, of which nothing is left in the graph */
      annotated found = {number_of(a, one->graph), k, one->value};
      said->has_effect |= known;
      if (!known && found.graph >= 0) tn__vec_push(a->arena, &a->found, found);
    }
  }
}

static int in_order(const void *a, const void *b) {
  const annotated *x = a, *y = b;
  if (x->graph != y->graph) return x->graph - y->graph;
  if (x->value->id != y->value->id) return x->value->id < y->value->id ? -1 : 1;
  return x->annotation - y->annotation;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

/* What is said of one side of a value. */
typedef struct side {
  const tn__place_annotation *by; /* the first that says something; NULL: nothing is said */
  const tn__virtual_device *device;
} side;

static void join(const annotator *a, side *on, const tn__place_annotation *said) {
  const tn__virtual_device *joined = said->device;
  if (on->by != NULL &&
      tn__virtual_device_join(&a->config->cache, on->device, said->device, &joined) != TN__DEVICE_AGREES)
    tn__throwf(a->arena->escape, TN_INVALID_ARGUMENT,
               "annotations contradict: \"%s\" is on %s, and \"%s\" on %s, and they are one value", on->by->name,
               tn__virtual_device_text(a->arena, on->device), said->name,
               tn__virtual_device_text(a->arena, said->device));
  if (on->by == NULL) on->by = said;
  on->device = joined;
}

/* Whoever reads the value reads it through the operator from now on; what is read of it as a size does not. */
static tn__value *put_behind(const annotator *a, tn__graph *graph, tn__value *value, const side *on, bool body,
                             bool result) {
  const tn__attr attrs[] = {tn__attr_string(graph, "device", tn__virtual_device_text(a->arena, on->device)),
                            tn__attr_int(graph, "body", body), tn__attr_int(graph, "result", result),
                            tn__attr_string(graph, "by", on->by->by)};
  const char *origin = tn__graph_origin(graph);
  const char *name = tn__arena_printf(a->arena, "%s@%s", on->by->name, attrs[0].string);
  int readers = value->readers.count, results = value->results.count;
  tn__graph_set_origin(graph, value->producer != NULL ? value->producer->origin : NULL);
  tn__value *behind = tn__node_create_named(graph, tn__op_find("on_device"), &value, 1, attrs, 4, NULL, 0,
                                            tn__arena_copy(a->arena, &name, sizeof name), 1)
                          ->outputs[0];
  tn__graph_set_origin(graph, origin);
  for (int i = 0; i < readers; i++) {
    const tn__operand_place at = value->readers.data[i];
    if (at.node->inputs[at.input] == value) tn__node_set_input(graph, at.node, at.input, behind);
  }
  for (int i = 0; i < results; i++)
    if (tn__graph_output_at(graph, value->results.data[i]) == value)
      tn__graph_set_output(graph, value->results.data[i], behind);
  return behind;
}

/* Nobody may read a value any more when the model has been read; where its operator still makes something else, or it
 * is a caller's, it has a place. */
static bool is_there(const tn__value *value, const int *uses, bool body) {
  bool there = uses[value->id] > 0 || (body && value->producer == NULL && value->data == NULL);
  for (int i = 0; body && value->producer != NULL && i < value->producer->output_count; i++)
    there |= uses[value->producer->outputs[i]->id] > 0;
  return there;
}

/* What `count` annotations say of one value. */
static void annotate_value(const annotator *a, const annotated *found, int count, const int *uses) {
  tn__graph *graph = a->graphs.data[found->graph];
  side body = {0}, result = {0};
  bool tied = false;
  for (int i = 0; i < count; i++) {
    tn__place_annotation *said = &a->annotations[found[i].annotation];
    said->has_effect |= is_there(found->value, uses, said->body);
    if (said->body) join(a, &body, said);
    if (said->result) join(a, &result, said);
    tied |= said->body && said->result;
  }
  for (int i = 0; i < count && tied; i++) join(a, &body, &a->annotations[found[i].annotation]);
  tn__value *value = found->value;
  if (body.by != NULL) value = put_behind(a, graph, value, &body, true, tied);
  if (result.by != NULL && !tied) put_behind(a, graph, value, &result, false, true);
}

void tn__place_annotate(tn__compile_config *config, tn__place_annotation *annotations, int count,
                        const tn__named_values *named, tn__graph *const *graphs, int graph_count) {
  annotator a = {.arena = config->cache.arena, .config = config, .annotations = annotations, .named = named};
  if (count == 0) return;
  for (int i = 0; i < graph_count; i++) add_graph(&a, graphs[i]);
  number_graphs(&a);
  find_values(&a, count);
  if (a.found.count > 0) qsort(a.found.data, (size_t)a.found.count, sizeof *a.found.data, in_order);
  for (int i = 0, next; i < a.found.count; i = next) {
    tn__graph *graph = a.graphs.data[a.found.data[i].graph];
    int values;
    const int *uses = tn__graph_use_counts(graph, &values);
    for (next = i; next < a.found.count && a.found.data[next].graph == a.found.data[i].graph;) {
      int first = next;
      while (next < a.found.count && a.found.data[next].graph == a.found.data[i].graph &&
             a.found.data[next].value == a.found.data[first].value)
        next++;
      annotate_value(&a, &a.found.data[first], next - first, uses);
    }
    tn__graph_sweep(graph);
  }
}
