/* Where the values of a compilation live: the options' devices and placements, the plan, and what is told of it. */
#include "driver/devices.h"

#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/message.h"
#include "driver/nature.h"
#include "graph/place/annotate.h"
#include "graph/place/cost.h"

struct tn__driver_devices {
  tn__compile_config *config;
  tn__place_rules rules;
  int *matched;                      /* by rule, in all graphs */
  int *copies;                       /* planned, by graph */
  const char *const *names;          /* of graphs */
  tn__place_annotation *annotations; /* as many as the options have */
  tn__place_budgets budgets;
  TN__VEC(tn__place_yield) yields; /* of all graphs */
  bool several;                    /* more than one device is used */
  const char *natures;             /* the devices' descriptions by their drivers, one a line */
  tn__strbuf told;                 /* the placement, for --explain-devices */
};

static tn__driver_devices *read_devices_of(tn__arena *arena, const tn_compile_options *o, const char *targets,
                                           bool files) {
  tn__driver_devices *d = TN__NEW(arena, tn__driver_devices);
  d->config = tn__compile_config_create(arena, targets, o->host);
  d->natures = "";
  for (int i = 0; i < o->place_count; i++) tn__place_rules_read(d->config, o->place[i], files, &d->rules);
  for (int i = 0; i < o->memory_count; i++) tn__place_budget_read(d->config, o->memory[i], &d->budgets);
  d->matched = TN__NEW_ARRAY(arena, d->rules.list.count, int);
  d->annotations = TN__NEW_ARRAY(arena, o->annotation_count, tn__place_annotation);
  for (int i = 0; i < o->annotation_count; i++) {
    const tn_on_device *said = &o->annotations[i];
    d->annotations[i] =
        tn__place_annotation_read(d->config, said->value, said->device, said->constrain_body, said->constrain_result);
  }
  return d;
}

static uint64_t bit_of(tn__compile_config *config, const tn__virtual_device *device) {
  const tn__virtual_device *full = tn__compile_config_complete(config, device);
  return full != NULL ? (uint64_t)1 << tn__compile_config_rank(config, full) : 0;
}

/* The devices that there may be kernels for, by what is said beside the model: bits by rank. What a CPU is given it can
 * run; of others something may fall to any device. */
static uint64_t may_have_kernels(tn__driver_devices *d, const tn_compile_options *o) {
  uint64_t devices = bit_of(d->config, d->config->primitive);
  if (d->rules.automatic || !tn__target_may_host(d->config->primitive->target)) return UINT64_MAX;
  for (int i = 0; i < d->rules.list.count; i++) devices |= bit_of(d->config, d->rules.list.data[i].device);
  for (int i = 0; i < o->annotation_count; i++) devices |= bit_of(d->config, d->annotations[i].device);
  return devices;
}

/* Drivers are asked for the limits of devices that there may be kernels for and, where placements are by predicted
 * time, how fast they are, unless nothing of this machine is to be asked. */
static tn__driver_devices *read_devices(tn__arena *arena, const tn_compile_options *o, bool files) {
  tn__driver_devices *d = read_devices_of(arena, o, o->target, files);
  if (!files || o->no_measure) return d;
  const char *told, *targets = tn__driver_told_targets(d->config, d->rules.automatic, may_have_kernels(d, o), &told);
  if (told[0] == '\0') return d;
  d = read_devices_of(arena, o, targets, files);
  d->natures = told;
  return d;
}

const char *tn__driver_host_text(const tn__driver *driver) {
  const tn__compile_config *config = driver->devices->config;
  const char *targets = driver->options->target;
  if (config->host != config->primitive) {
    char text[TN__TARGET_TEXT];
    tn__target_print(config->host->target, text);
    return tn__arena_strdup(driver->arena, text);
  }
  if (targets == NULL || strchr(targets, ';') == NULL) return targets;
  return tn__arena_strndup(driver->arena, targets, strcspn(targets, ";"));
}

const tn__target *tn__driver_check_devices(tn__arena *arena, const tn_compile_options *o) {
  return read_devices(arena, o, false)->config->primitive->target;
}

bool tn__driver_makes_source(tn__arena *arena, const tn_compile_options *o) {
  return read_devices(arena, o, false)->config->host->target->kind == TN__TARGET_C99;
}

void tn__driver_devices_init(tn__driver *driver) {
  const tn_compile_options *o = driver->options;
  driver->devices = read_devices(driver->arena, o, true);
  const tn__compile_config *config = driver->devices->config;
  for (int i = 0; i < config->warnings.count; i++) tn__log(o->log, TN_LOG_WARNING, "%s", config->warnings.data[i]);
}

static tn__digest digest_of(const tn__target *target) {
  tn__sha256 hash;
  tn__sha256_init(&hash);
  tn__target_hash(target, &hash);
  return tn__sha256_final(&hash);
}

/* Is the code for the device that for the host? */
static bool is_as_host(const tn__driver *driver, const tn__virtual_device *device) {
  const tn__target *target = device->target, *host = driver->host->target;
  if (!tn__target_is_own(target)) return false;
  const tn__digest a = digest_of(target), b = digest_of(host); /* as they were given: measured is the host alone */
  if (!tn__digest_equal(a.bytes, b.bytes)) return false;
  return driver->options->run_threads > 0 || tn__target_threads(target) == driver->schedule.threads;
}

static void add_maker(tn__driver *driver, const tn__virtual_device *device) {
  const tn__backend *backend;
  if (device == driver->host || is_as_host(driver, device)) return;
  if (device->target->kind == TN__TARGET_C99) return; /* C calls what is C alone */
  tn_status *status = tn__backend_find_code(device->target, &backend);
  tn_status_free(status);
  if (status != NULL) return; /* said when something is placed there */
  tn__maker wanted = {
      .key = digest_of(device->target), .target = *device->target, .backend = backend, .schedule = driver->schedule};
  if (driver->options->run_threads <= 0) wanted.schedule.threads = tn__target_threads(device->target);
  tn__device_maker made = {device->device_type, device->device_id, NULL};
  for (int i = 0; i < driver->makers.count && made.maker == NULL; i++) {
    const tn__maker *maker = driver->makers.data[i];
    if (tn__digest_equal(maker->key.bytes, wanted.key.bytes) && maker->schedule.threads == wanted.schedule.threads)
      made.maker = maker;
  }
  if (made.maker == NULL) {
    made.maker = tn__arena_copy(driver->arena, &wanted, sizeof wanted);
    tn__vec_push(driver->arena, &driver->makers, made.maker);
  }
  tn__vec_push(driver->arena, &driver->made_by, made);
}

void tn__driver_devices_makers(tn__driver *driver) {
  const tn__compile_config *config = driver->devices->config;
  driver->host = config->host;
  for (int i = 0; i < config->devices.count; i++) add_maker(driver, config->devices.data[i]);
}

static bool is_host(const tn__driver *driver, const tn__virtual_device *device) {
  return device->device_type == driver->host->device_type && device->device_id == driver->host->device_id;
}

/* The scopes of memory in which programs may have values there, a bit each. The host's is where callers' are. */
static unsigned scopes_of(const tn__driver *driver, const tn__virtual_device *device) {
  return is_host(driver, device) ? 1u << TN__MEMORY_GLOBAL : tn__target_memory_scopes(device->device_type);
}

static bool has_scope(const tn__driver *driver, const tn__virtual_device *device) {
  int scope = tn__memory_scope_find(device->memory_scope);
  return scope >= 0 && (scopes_of(driver, device) >> scope & 1) != 0;
}

/* There is code for it, and a driver at run time. */
static bool can_run(const tn__driver *driver, const tn__virtual_device *device) {
  bool has_code = is_host(driver, device) || is_as_host(driver, device) || tn__driver_maker(driver, device) != NULL;
  return has_code && has_scope(driver, device);
}

static void refuse_others(tn__driver *driver, const tn__value *elsewhere) {
  tn__arena *arena = driver->arena;
  tn__compile_config *config = driver->devices->config;
  const tn__virtual_device *device = elsewhere->device;
  const char *origin = elsewhere->producer != NULL ? elsewhere->producer->origin : NULL;
  const char *where =
      tn__shown_text(arena, "%s%s\"%s\" is placed on %s", origin != NULL ? origin : "", origin != NULL ? ": " : "",
                     elsewhere->name, tn__virtual_device_text(arena, device));
  char list[128];
  tn__memory_scope_list(scopes_of(driver, device), list, sizeof list);
  if (!has_scope(driver, device))
    tn__throwf(arena->escape, TN_UNSUPPORTED, "%s, and %s:%d has no memory \"%s\": it has %s", where,
               tn__target_type_name(device->device_type), device->device_id, device->memory_scope, list);
  if (device->target->kind == TN__TARGET_C99)
    tn__throwf(arena->escape, TN_UNSUPPORTED,
               "%s (c99), and a program has C for its host alone, which calls nothing but C; compile for c99 alone, or "
               "place it on %s",
               where, tn__virtual_device_text(arena, config->host));
  tn__throwf(arena->escape, TN_UNSUPPORTED,
             "%s, and programs of this version run on CPUs, islands, OpenCL and CUDA devices: there are %s", where,
             tn__compile_config_list(config));
}

/* A value that is where nothing runs, in the graph or a body; NULL: there is none. */
static const tn__value *find_elsewhere(const tn__driver *driver, const tn__graph *graph) {
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    for (int k = 0; k < n->output_count; k++)
      if (n->outputs[k]->device != NULL && !can_run(driver, n->outputs[k]->device)) return n->outputs[k];
    for (int k = 0; k < n->graph_count; k++) {
      const tn__value *inside = find_elsewhere(driver, n->graphs[k]);
      if (inside != NULL) return inside;
    }
  }
  for (int i = 0; i < tn__graph_input_count(graph); i++) {
    const tn__value *v = tn__graph_input_at(graph, i);
    if (v->device != NULL && !can_run(driver, v->device)) return v;
  }
  return NULL;
}

static void tell(tn__driver *driver, const char *name, tn__graph *graph, const tn__place_options *options,
                 const tn__place_result *result) {
  tn__strbuf *told = &driver->devices->told;
  tn__strbuf_printf(told, "%s: %d cop%s, %d constant%s more, %d cop%s moved out of loops\n", name, result->copies,
                    result->copies == 1 ? "y" : "ies", result->constants, tn__plural(result->constants),
                    result->hoisted, result->hoisted == 1 ? "y" : "ies");
  tn__place_sums sums = tn__place_predict(options->config, graph);
  tn__strbuf_append(told, "predicted: operators ");
  tn__place_put_time(told, sums.operators);
  tn__strbuf_append(told, ", copies ");
  tn__place_put_time(told, sums.copies);
  tn__strbuf_printf(told, " (%.0f bytes)\n", sums.bytes);
  tn__place_explain(graph, options, 2, told);
}

TN_MUST_USE static bool place_one(tn__driver *driver, const char *name, tn__graph *graph, int *copies) {
  tn__driver_devices *d = driver->devices;
  tn__place_options options = {.config = d->config,
                               .rules = d->rules.list.data,
                               .rule_count = d->rules.list.count,
                               .tells = driver->options->devices != NULL,
                               .automatic = d->rules.automatic,
                               .budgets = d->budgets.any ? &d->budgets : NULL};
  double start = tn__now();
  tn__place_result result = tn__graph_place(graph, &options);
  tn__driver_time(driver, "graph.place", tn__now() - start);
  for (int i = 0; i < d->rules.list.count; i++) d->matched[i] += d->rules.list.data[i].matched;
  for (int i = 0; i < result.yields.count; i++) tn__vec_push(driver->arena, &d->yields, result.yields.data[i]);
  if (driver->options->devices != NULL) tell(driver, name, graph, &options, &result);
  *copies = result.copies;
  return result.elsewhere != NULL;
}

/* Returns the reason why a rule placed nothing, to follow the rule's text. Prefers a matching branch or loop over
 * the operators that count its iterations. */
static const char *why_unmatched(tn__driver *driver, const tn__place_rule *rule, const tn__named_values *named,
                                 tn__graph *const *graphs, int count) {
  const tn__node *other = NULL;
  const char *near = NULL;
  bool fits = false;
  size_t length;
  for (int g = 0; g < count; g++) {
    fits |= tn__place_fitting(graphs[g], rule->pattern, true) != NULL;
    if (other == NULL) other = tn__place_fitting(graphs[g], rule->pattern, false);
    if (near == NULL) near = tn__place_nearest(graphs[g], rule->pattern);
  }
  if (fits && (other == NULL || !rule->exact)) return "has no effect: those behind it place all nodes that it fits";
  if (other != NULL) {
    const char *name = tn__place_name_of(other, &length);
    return tn__shown_text(driver->arena,
                          "has no effect: \"%.*s\" is %s, which is where what it reads and makes is; nodes of bodies "
                          "are placed by their own names",
                          (int)length, name, other->op->name);
  }
  const char *vanished = tn__place_vanished(driver->arena, named, rule->pattern);
  if (vanished != NULL) return tn__arena_printf(driver->arena, "has no effect: %s", vanished);
  if (near == NULL) return "fits no node";
  return tn__shown_text(driver->arena, "fits no node; did you mean \"%s\"?", near);
}

static void warn_unmatched(tn__driver *driver, const tn__named_values *named, tn__graph *const *graphs, int count) {
  const tn__driver_devices *d = driver->devices;
  for (int i = 0; i < d->rules.list.count; i++) {
    const tn__place_rule *rule = &d->rules.list.data[i];
    if (d->matched[i] == 0)
      tn__log(driver->options->log, TN_LOG_WARNING, "the placement \"%s\" %s", rule->text,
              why_unmatched(driver, rule, named, graphs, count));
  }
}

/* Lists the nodes of a rule that lack the same feature, as "\"a\", \"b\"", each once, and marks them as reported. */
static const char *nodes_that_yield(const tn__driver *driver, const tn__place_yield *like, bool *told) {
  const tn__driver_devices *d = driver->devices;
  tn__strbuf names;
  tn__map named;
  tn__strbuf_init(&names, driver->arena->allocator);
  tn__map_init(&named, driver->arena);
  for (int i = 0; i < d->yields.count; i++) {
    const tn__place_yield *y = &d->yields.data[i];
    if (y->rule != like->rule || strcmp(y->lack, like->lack) != 0) continue;
    told[i] = true;
    if (!tn__map_has(&named, y->name))
      tn__strbuf_shown_printf(&names, "%s\"%s\"", names.length > 0 ? ", " : "", y->name);
    tn__map_set(&named, y->name, &named);
  }
  return tn__arena_take(driver->arena, &names);
}

/* Reports one message for each pattern and missing feature. */
static void warn_yields(const tn__driver *driver) {
  const tn__driver_devices *d = driver->devices;
  bool *told = TN__NEW_ARRAY(driver->arena, d->yields.count, bool);
  for (int i = 0; i < d->yields.count; i++) {
    const tn__place_yield *y = &d->yields.data[i];
    if (told[i]) continue;
    const char *names = nodes_that_yield(driver, y, told);
    tn__log(driver->options->log, TN_LOG_WARNING, "the placement \"%s\" leaves %s to other devices: %s has %s",
            y->rule->text, names, tn__virtual_device_text(driver->arena, y->rule->device), y->lack);
  }
}

void tn__driver_hash_devices(const tn__driver *driver, tn__sha256 *hash) {
  const tn__compile_config *config = driver->devices->config;
  if (config->devices.count == 1 && config->host == config->primitive) return; /* everything is there */
  tn__sha256_update_u64(hash, (uint64_t)tn__compile_config_rank(config, config->host));
  for (int i = 0; i < config->devices.count; i++) {
    const tn__target *target = config->devices.data[i]->target;
    char text[TN__TARGET_TEXT]; /* which device it is, what it can run, and how fast it is */
    tn__target_print(target, text);
    tn__sha256_update_string(hash, text);
    tn__sha256_update_u64(hash, (uint64_t)config->devices.data[i]->device_id);
    tn__target_hash(target, hash);
  }
  const tn__place_rules *rules = &driver->devices->rules; /* those in files, too */
  for (int i = 0; i < rules->list.count; i++) tn__sha256_update_string(hash, rules->list.data[i].text);
}

bool tn__driver_warned_of_places(const tn__driver *driver) {
  const tn__driver_devices *d = driver->devices;
  if (d->yields.count > 0) return true;
  for (int i = 0; i < d->rules.list.count; i++)
    if (d->matched[i] == 0) return true;
  for (int i = 0; i < driver->options->annotation_count; i++)
    if (!d->annotations[i].has_effect) return true;
  return false;
}

static void annotate(tn__driver *driver, const tn__named_values *named, tn__graph *const *graphs, int count) {
  const tn__driver_devices *d = driver->devices;
  tn__place_annotate(d->config, d->annotations, driver->options->annotation_count, named, graphs, count);
  for (int i = 0; i < driver->options->annotation_count; i++)
    if (!d->annotations[i].has_effect)
      tn__log(driver->options->log, TN_LOG_WARNING,
              "%s has no effect: when the model has been read, nothing of that value is left", d->annotations[i].by);
}

static void release_text(void *text) { tn__strbuf_release(text); }

void tn__driver_place(tn__driver *driver, const tn__named_values *named, const char *const *names,
                      tn__graph *const *graphs, int count) {
  tn__driver_devices *d = driver->devices;
  annotate(driver, named, graphs, count);
  tn__strbuf_init(&d->told, driver->arena->allocator);
  tn__arena_defer(driver->arena, release_text, &d->told); /* also where planning throws */
  if (driver->options->devices != NULL) tn__compile_config_print(d->config, &d->told);
  if (driver->options->devices != NULL) tn__strbuf_append(&d->told, d->natures);
  d->names = names;
  d->copies = TN__NEW_ARRAY(driver->arena, count, int);
  for (int i = 0; i < count; i++) {
    if (place_one(driver, names[i], graphs[i], &d->copies[i])) d->several = true;
  }
  if (d->config->primitive != d->config->host) d->several = true;
  warn_unmatched(driver, named, graphs, count);
  warn_yields(driver);
  const char *told = tn__arena_take(driver->arena, &d->told);
  if (driver->options->devices != NULL) driver->options->devices(driver->options->user, told);
  for (int i = 0; i < count && d->several; i++) {
    const tn__value *elsewhere = find_elsewhere(driver, graphs[i]);
    if (elsewhere != NULL) refuse_others(driver, elsewhere);
  }
}

/* Passes compute what is of constants alone, and drop what nobody reads: where that leaves other copies, it is told. */
static void tell_copies(tn__driver *driver, int graph, int copies) {
  tn__driver_devices *d = driver->devices;
  if (driver->options->devices == NULL || copies == d->copies[graph]) return;
  const char *text = tn__arena_printf(driver->arena, "%s: %d cop%s when passes are done\n", d->names[graph], copies,
                                      copies == 1 ? "y" : "ies");
  driver->options->devices(driver->options->user, text);
  d->copies[graph] = copies;
}

void tn__driver_place_again(tn__driver *driver, tn__graph *const *graphs, int count) {
  tn__driver_devices *d = driver->devices;
  tn__place_options options = {.config = d->config};
  for (int i = 0; i < count && d->several; i++) tell_copies(driver, i, tn__graph_place(graphs[i], &options).copies);
}

static void tell_choices(tn__driver *driver, const char *name, const tn__graph *graph) {
  tn__strbuf lines;
  tn__strbuf_init(&lines, driver->arena->allocator);
  int count = tn__place_explain_choices(graph, 2, &lines);
  const char *text = tn__arena_take(driver->arena, &lines);
  if (count > 0 && driver->options->devices != NULL)
    driver->options->devices(driver->options->user,
                             tn__arena_printf(driver->arena, "%s: kernels chose the memory of %d value%s\n%s", name,
                                              count, tn__plural(count), text));
}

void tn__driver_place_chosen(tn__driver *driver, tn__graph *const *graphs, int count) {
  const tn__driver_devices *d = driver->devices;
  tn__place_options options = {.config = d->config, .tells = driver->options->devices != NULL};
  for (int i = 0; i < count; i++) {
    tn__graph_place(graphs[i], &options);
    if (options.tells) tell_choices(driver, d->names[i], graphs[i]);
  }
}

/* Of two kernels the first counts that is so by the memory's name, as for buffers. */
static bool take_memory(const tn__driver *driver, const tn__unit *unit, tn__value *value, tn__memory_scope memory) {
  if (memory == TN__MEMORY_GLOBAL || value->device == NULL || (scopes_of(driver, value->device) >> memory & 1) == 0)
    return false;
  const tn__memory_choice choice = {tn__memory_scope_name(memory), unit->name};
  if (value->choice == NULL || strcmp(choice.scope, value->choice->scope) < 0)
    value->choice = tn__arena_copy(driver->arena, &choice, sizeof choice);
  return true;
}

bool tn__driver_take_memories(tn__driver *driver, const tn__unit *units, int count) {
  bool any = false;
  for (int i = 0; i < count; i++) {
    const tn__unit *u = &units[i];
    for (int k = 0; u->memories != NULL && k < u->input_count + u->output_count; k++)
      any |= take_memory(driver, u, k < u->input_count ? u->inputs[k] : u->outputs[k - u->input_count], u->memories[k]);
  }
  return any;
}
