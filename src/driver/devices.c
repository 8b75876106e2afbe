/* Where the values of a compilation live: the options' devices and placements, the plan, and what is told of it. */
#include "driver/devices.h"

#include <string.h>

#include "base/log.h"

struct tn__driver_devices {
  tn__compile_config *config;
  tn__place_rule *rules;
  int *matched; /* by rule, in all graphs */
  int rule_count;
  bool several;    /* not everything is on one device */
  tn__strbuf told; /* the plan, for --explain-devices */
};

static tn__driver_devices *read_devices(tn__arena *arena, const tn_compile_options *o) {
  tn__driver_devices *d = TN__NEW(arena, tn__driver_devices);
  d->config = tn__compile_config_create(arena, o->target, o->host);
  d->rules = TN__NEW_ARRAY(arena, o->place_count, tn__place_rule);
  d->matched = TN__NEW_ARRAY(arena, o->place_count, int);
  d->rule_count = o->place_count;
  for (int i = 0; i < o->place_count; i++) d->rules[i] = tn__place_rule_read(d->config, o->place[i]);
  return d;
}

const char *tn__driver_target_text(tn__arena *arena, const char *targets) {
  if (targets == NULL || strchr(targets, ';') == NULL) return targets;
  const char *text = tn__arena_strndup(arena, targets, strcspn(targets, ";"));
  return text;
}

const tn__target *tn__driver_check_devices(tn__arena *arena, const tn_compile_options *o) {
  return read_devices(arena, o)->config->primitive->target;
}

void tn__driver_devices_init(tn__driver *driver) {
  const tn_compile_options *o = driver->options;
  driver->devices = read_devices(driver->arena, o);
  const tn__compile_config *config = driver->devices->config;
  for (int i = 0; i < config->warnings.count; i++) tn__log(o->log, TN_LOG_WARNING, "%s", config->warnings.data[i]);
}

/* What the runtime has: this machine's CPU, and islands, whose code is the same. */
static bool can_run(const tn__compile_config *config, const tn__virtual_device *device) {
  const tn__target *target = device->target, *first = config->primitive->target;
  return device == config->primitive ||
         (target->kind == TN__TARGET_ISLAND && strcmp(target->name, first->name) == 0 &&
          strcmp(device->memory_scope, TN__SCOPE_NAME_GLOBAL) == 0 && config->host == config->primitive);
}

static void refuse_others(tn__driver *driver, const tn__value *elsewhere) {
  tn__arena *arena = driver->arena;
  tn__compile_config *config = driver->devices->config;
  const char *origin = elsewhere->producer != NULL ? elsewhere->producer->origin : NULL;
  tn__throwf(arena->escape, TN_UNSUPPORTED,
             "%s%s\"%s\" is placed on %s, and programs of this version run on one CPU, here %s, and on islands of its "
             "target: place everything there, or compile the parts as models of their own",
             origin != NULL ? origin : "", origin != NULL ? ": " : "", elsewhere->name,
             tn__virtual_device_text(arena, elsewhere->device), tn__virtual_device_text(arena, config->primitive));
}

/* A value that is where nothing runs, in the graph or a body; NULL: there is none. */
static const tn__value *find_elsewhere(const tn__compile_config *config, const tn__graph *graph) {
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    for (int k = 0; k < n->output_count; k++)
      if (n->outputs[k]->device != NULL && !can_run(config, n->outputs[k]->device)) return n->outputs[k];
    for (int k = 0; k < n->graph_count; k++) {
      const tn__value *inside = find_elsewhere(config, n->graphs[k]);
      if (inside != NULL) return inside;
    }
  }
  for (int i = 0; i < tn__graph_input_count(graph); i++) {
    const tn__value *v = tn__graph_input_at(graph, i);
    if (v->device != NULL && !can_run(config, v->device)) return v;
  }
  return NULL;
}

static void tell(tn__driver *driver, const char *name, tn__graph *graph, const tn__place_options *options,
                 const tn__place_result *result) {
  tn__strbuf *told = &driver->devices->told;
  tn__strbuf_printf(told, "%s: %d cop%s, %d constant%s more, %d cop%s moved out of loops\n", name, result->copies,
                    result->copies == 1 ? "y" : "ies", result->constants, tn__plural(result->constants),
                    result->hoisted, result->hoisted == 1 ? "y" : "ies");
  tn__place_explain(graph, options, 2, told);
}

static bool place_one(tn__driver *driver, const char *name, tn__graph *graph) {
  tn__driver_devices *d = driver->devices;
  tn__place_options options = {d->config, d->rules, d->rule_count};
  double start = tn__now();
  tn__place_result result = tn__graph_place(graph, &options);
  tn__driver_time(driver, "graph.place", tn__now() - start);
  for (int i = 0; i < d->rule_count; i++) d->matched[i] += d->rules[i].matched;
  if (driver->options->devices != NULL) tell(driver, name, graph, &options, &result);
  return result.elsewhere != NULL;
}

static void warn_unmatched(tn__driver *driver, tn__graph *const *graphs, int count) {
  const tn__driver_devices *d = driver->devices;
  for (int i = 0; i < d->rule_count; i++) {
    if (d->matched[i] > 0) continue;
    const char *near = NULL;
    for (int g = 0; g < count && near == NULL; g++) near = tn__place_nearest(graphs[g], d->rules[i].pattern);
    tn__log(driver->options->log, TN_LOG_WARNING, "the placement \"%s\" fits no node%s%s%s", d->rules[i].text,
            near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "");
  }
}

bool tn__driver_warned_of_places(const tn__driver *driver) {
  const tn__driver_devices *d = driver->devices;
  for (int i = 0; i < d->rule_count; i++)
    if (d->matched[i] == 0) return true;
  return false;
}

void tn__driver_place(tn__driver *driver, const char *const *names, tn__graph *const *graphs, int count) {
  tn__driver_devices *d = driver->devices;
  tn__strbuf_init(&d->told, driver->arena->allocator);
  if (driver->options->devices != NULL) tn__compile_config_print(d->config, &d->told);
  for (int i = 0; i < count; i++) {
    if (place_one(driver, names[i], graphs[i])) d->several = true;
  }
  warn_unmatched(driver, graphs, count);
  const char *told = tn__arena_take(driver->arena, &d->told);
  if (driver->options->devices != NULL) driver->options->devices(driver->options->user, told);
  for (int i = 0; i < count && d->several; i++) {
    const tn__value *elsewhere = find_elsewhere(d->config, graphs[i]);
    if (elsewhere != NULL) refuse_others(driver, elsewhere);
  }
}

void tn__driver_place_again(tn__driver *driver, tn__graph *const *graphs, int count) {
  tn__driver_devices *d = driver->devices;
  tn__place_options options = {.config = d->config};
  for (int i = 0; i < count && d->several; i++) tn__graph_place(graphs[i], &options);
}
