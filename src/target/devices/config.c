#include "target/devices/config.h"

#include <string.h>

#include "base/alloc.h"
#include "base/message.h"
#include "base/nearest.h"

/* ---- targets ---------------------------------------------------------------------------------------------------- */

static tn__target read_target(tn__arena *arena, const char *text) {
  tn__target target;
  tn__check(arena->escape, tn__target_parse(text, &target));
  return target;
}

static const char *text_of(tn__arena *arena, const tn__target *target) {
  char text[TN__TARGET_TEXT];
  tn__target_print(target, text);
  return tn__arena_strdup(arena, text);
}

typedef struct list {
  TN__VEC(tn__target) targets;
} list;

static void read_list(tn__arena *arena, const char *texts, list *out) {
  if (texts == NULL) texts = "native";
  const char *all = texts;
  while (true) {
    size_t length = strcspn(texts, ";"), begin = strspn(texts, " ");
    const char *text = tn__arena_strndup(arena, texts, length);
    if (begin >= length && (out->targets.count > 0 || texts[length] == ';'))
      tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
                 "there is no target before or behind a semicolon of \"%s\": targets are listed as in \"cpu; opencl "
                 "-device=0\"",
                 all);
    tn__vec_push(arena, &out->targets, read_target(arena, text + (begin < length ? begin : 0)));
    if (texts[length] == '\0') return;
    texts += length + 1;
  }
}

static bool same_type(const tn__target *a, const tn__target *b) {
  return tn__target_device_type(a) == tn__target_device_type(b);
}

static bool is_taken(const list *l, const tn__target *of, int id) {
  for (int i = 0; i < l->targets.count; i++)
    if (same_type(&l->targets.data[i], of) && l->targets.data[i].device == id) return true;
  return false;
}

/* "cpu -mcpu=x86-64-v3", "opencl" and "opencl": all that were given, for messages. */
static const char *given(tn__arena *arena, const list *l) {
  const char *text = "";
  for (int i = 0; i < l->targets.count; i++)
    text = tn__shown_text(arena, "%s%s\"%s\"", text,
                          i == 0                     ? ""
                          : i + 1 < l->targets.count ? ", "
                                                     : " and ",
                          text_of(arena, &l->targets.data[i]));
  return text;
}

/* Two of a type are told apart by an id or a name of at least one of them. */
static void check_pair(tn__arena *arena, const list *l, const tn__target *a, const tn__target *b) {
  const char *x = text_of(arena, a), *y = text_of(arena, b);
  if (tn__target_equal(a, b))
    tn__throwf(
        arena->escape, TN_INVALID_ARGUMENT,
        "the target \"%s\" is given twice: leave one out, or tell them apart with -device=N or -name=NAME; given "
        "are %s",
        x, given(arena, l));
  if (a->label[0] != '\0' && strcmp(a->label, b->label) == 0)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "the targets \"%s\" and \"%s\" have one name; given are %s", x, y,
               given(arena, l));
  if (!same_type(a, b)) return;
  const char *type = tn__target_type_name(tn__target_device_type(a));
  if (a->device != TN__DEVICE_ID_FREE && a->device == b->device)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "the targets \"%s\" and \"%s\" are both %s:%d; given are %s", x, y,
               type, a->device, given(arena, l));
  bool told =
      a->device != TN__DEVICE_ID_FREE || b->device != TN__DEVICE_ID_FREE || a->label[0] != '\0' || b->label[0] != '\0';
  if (!told)
    tn__throwf(
        arena->escape, TN_INVALID_ARGUMENT,
        "the targets \"%s\" and \"%s\" are both of type %s, and nothing tells them apart: give them -device=N or "
        "-name=NAME; given are %s",
        x, y, type, given(arena, l));
}

static void give_ids(tn__arena *arena, list *l) {
  if (l->targets.count > TN__MOST_TARGETS)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "there are %d targets, and %d are the most", l->targets.count,
               TN__MOST_TARGETS);
  for (int i = 0; i < l->targets.count; i++)
    for (int j = 0; j < i; j++) check_pair(arena, l, &l->targets.data[j], &l->targets.data[i]);
  for (int i = 0; i < l->targets.count; i++) {
    tn__target *t = &l->targets.data[i];
    int id = 0;
    while (t->device == TN__DEVICE_ID_FREE && is_taken(l, t, id)) id++;
    if (t->device == TN__DEVICE_ID_FREE) t->device = id;
  }
}

/* The target says no more which device it is: two devices of one target share it. */
static const tn__virtual_device *device_of(tn__compile_config *config, const tn__target *target) {
  tn__target bare = *target;
  tn__virtual_device fields = {.device_id = target->device, .target = &bare, .memory_scope = TN__SCOPE_NAME_GLOBAL};
  return tn__virtual_device_of(&config->cache, &fields);
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

static const tn__virtual_device *the_only_cpu(const tn__compile_config *config, int *count) {
  const tn__virtual_device *found = NULL;
  *count = 0;
  for (int i = 0; i < config->devices.count; i++)
    if (tn__target_may_host(config->devices.data[i]->target)) {
      if (*count == 0) found = config->devices.data[i];
      ++*count;
    }
  return found;
}

static bool says_rates(const tn__target *t) {
  const tn__target_rates *r = &t->rates;
  return r->gflops + r->memory_rate + r->link_rate + r->link_wait + r->launch > 0;
}

/* A host that is given as a text: one of the devices when it says the same, else a device of its own. */
static const tn__virtual_device *host_of_text(tn__compile_config *config, const list *l, const char *text) {
  tn__arena *arena = config->cache.arena;
  tn__target host = read_target(arena, text);
  if (host.host[0] != '\0')
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "the host \"%s\" has no host of its own", text);
  for (int i = 0; i < l->targets.count; i++) {
    tn__target one = l->targets.data[i], wanted = host;
    one.host[0] = wanted.host[0] = '\0';
    one.given |= wanted.given, wanted.given |= one.given; /* ids are compared as they came out */
    if (wanted.device == TN__DEVICE_ID_FREE) wanted.device = one.device;
    if (!says_rates(&wanted)) wanted.rates = one.rates;
    if (wanted.label[0] == '\0') memcpy(wanted.label, one.label, sizeof wanted.label);
    if (tn__target_equal(&one, &wanted)) return config->devices.data[i];
  }
  if (host.device == TN__DEVICE_ID_FREE)
    for (host.device = 0; is_taken(l, &host, host.device);) host.device++;
  else if (is_taken(l, &host, host.device))
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "the host \"%s\" is %s:%d, and so is another target: there are %s",
               text, tn__target_type_name(tn__target_device_type(&host)), host.device, tn__compile_config_list(config));
  return device_of(config, &host);
}

static void choose_host(tn__compile_config *config, const list *l, const char *explicit_host) {
  tn__arena *arena = config->cache.arena;
  const char *named = NULL, *by = NULL;
  int cpus;
  const tn__virtual_device *cpu = the_only_cpu(config, &cpus);
  for (int i = 0; i < l->targets.count; i++) {
    const tn__target *t = &l->targets.data[i];
    if (explicit_host != NULL || t->host[0] == '\0') continue;
    if (named != NULL && strcmp(named, t->host) != 0)
      tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
                 "the targets name two hosts, \"%s\" and \"%s\": leave one out, or say which with --host", named,
                 t->host);
    named = t->host, by = t->name;
  }
  if (explicit_host != NULL) {
    config->host = host_of_text(config, l, explicit_host);
    config->host_rule = "it was given as the host";
  } else if (named != NULL) {
    config->host = host_of_text(config, l, named);
    config->host_rule = tn__arena_printf(arena, "the target %s names it", by);
  } else if (cpus == 1) {
    config->host = cpu;
    config->host_rule = "it is the only CPU among the targets";
  } else if (cpus > 1) {
    config->host = config->primitive;
    config->host_rule = "it is the default device, and a CPU";
    if (!tn__target_may_host(config->primitive->target))
      tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
                 "several CPUs could be the host, and the default device %s is none: say which with --host, there are "
                 "%s",
                 tn__virtual_device_text(arena, config->primitive), tn__compile_config_list(config));
  } else {
    config->host = host_of_text(config, l, tn__arch_name(tn__host_arch()));
    config->host_rule = "no CPU is among the targets: it is a guess, the CPU of this build";
    tn__vec_push(arena, &config->warnings,
                 tn__arena_printf(arena,
                                  "no CPU is among the targets, and no host is given: the host is taken to be %s, the "
                                  "CPU of this build; say --host=TARGET",
                                  config->host->target->name));
  }
  if (!tn__target_may_host(config->host->target))
    tn__vec_push(arena, &config->warnings,
                 tn__arena_printf(arena, "the host %s is no CPU: shapes, conditions, lists and strings will live there",
                                  tn__virtual_device_text(arena, config->host)));
}

/* A program is loaded by one process, whose CPU is of one architecture. */
static void check_architectures(tn__compile_config *config) {
  tn__arena *arena = config->cache.arena;
  const tn__target *host = config->host->target;
  for (int i = 0; i < config->devices.count; i++) {
    const tn__target *t = config->devices.data[i]->target;
    if (!tn__target_is_own(t) || !tn__target_is_own(host) || t->cpu.arch == host->cpu.arch) continue;
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
               "%s (%s) is %s, and the host %s (%s) is %s: a program loads on machines of one architecture only; "
               "compile once for each, or give both CPUs of one, with -mcpu or --host",
               tn__virtual_device_text(arena, config->devices.data[i]), t->name, tn__arch_name(t->cpu.arch),
               tn__virtual_device_text(arena, config->host), host->name, tn__arch_name(host->cpu.arch));
  }
}

tn__compile_config *tn__compile_config_create(tn__arena *arena, const char *targets, const char *host) {
  tn__compile_config *config = TN__NEW(arena, tn__compile_config);
  list l = {0};
  tn__device_cache_init(&config->cache, arena);
  read_list(arena, targets, &l);
  give_ids(arena, &l);
  for (int i = 0; i < l.targets.count; i++)
    tn__vec_push(arena, &config->devices, device_of(config, &l.targets.data[i]));
  config->primitive = config->devices.data[0];
  choose_host(config, &l, host);
  check_architectures(config);
  return config;
}

/* ---- finding ---------------------------------------------------------------------------------------------------- */

const char *tn__compile_config_list(tn__compile_config *config) {
  tn__arena *arena = config->cache.arena;
  const char *text = "";
  bool host = config->host != NULL && tn__compile_config_rank(config, config->host) == config->devices.count;
  for (int i = 0; i < config->devices.count + host; i++) {
    const tn__virtual_device *d = i < config->devices.count ? config->devices.data[i] : config->host;
    const char *label = d->target->label;
    text = tn__arena_printf(arena, "%s%s%s (%s%s%s)", text, i > 0 ? ", " : "", tn__virtual_device_text(arena, d), label,
                            label[0] != '\0' ? ", " : "", d->target->name);
  }
  return text;
}

int tn__compile_config_rank(const tn__compile_config *config, const tn__virtual_device *device) {
  int i = 0;
  while (i < config->devices.count && (config->devices.data[i]->device_type != device->device_type ||
                                       config->devices.data[i]->device_id != device->device_id))
    i++;
  return i; /* a host that is no target comes last */
}

const tn__virtual_device *tn__compile_config_complete(tn__compile_config *config, const tn__virtual_device *device) {
  const tn__virtual_device *joined;
  tn__virtual_device anywhere = *device;
  anywhere.memory_scope = NULL;
  const tn__virtual_device *wanted = tn__virtual_device_of(&config->cache, &anywhere);
  for (int i = -1; i <= config->devices.count; i++) {
    const tn__virtual_device *d = i < 0                       ? config->primitive
                                  : i < config->devices.count ? config->devices.data[i]
                                                              : config->host;
    if (tn__virtual_device_join(&config->cache, wanted, d, &joined) == TN__DEVICE_AGREES)
      return tn__virtual_device_default(&config->cache, device, d);
  }
  return NULL;
}

static const tn__virtual_device *by_label(tn__compile_config *config, const char *text, size_t length) {
  for (int i = 0; i < config->devices.count; i++) {
    const char *label = config->devices.data[i]->target->label;
    if (label[0] != '\0' && strlen(label) == length && strncmp(label, text, length) == 0)
      return config->devices.data[i];
  }
  return NULL;
}

/* A word that is neither a type nor a name, and what may have been meant. */
static tn_status *unknown_name(tn__compile_config *config, const char *text, size_t length) {
  tn__nearest nearest = {.name = text, .length = length};
  for (int i = 0; i < config->devices.count; i++) {
    const tn__virtual_device *d = config->devices.data[i];
    const char *type = tn__target_type_name(d->device_type);
    if (d->target->label[0] != '\0') tn__nearest_consider(&nearest, d->target->label, strlen(d->target->label));
    tn__nearest_consider(&nearest, type, strlen(type));
  }
  const char *near = nearest.best == NULL ? ":"
                                          : tn__shown_text(config->cache.arena, "; did you mean \"%.*s\"?",
                                                           (int)nearest.best_length, nearest.best);
  return tn_status_create(TN_NOT_FOUND, "there is no device \"%s\" among the targets%s there are %s", text, near,
                          tn__compile_config_list(config));
}

tn_status *tn__compile_config_find(tn__compile_config *config, const char *text, const tn__virtual_device **out) {
  tn__arena *arena = config->cache.arena;
  size_t length = strcspn(text, ":/");
  const tn__virtual_device *named = text[length] == ':' ? NULL : by_label(config, text, length);
  if (named != NULL) {
    const tn__virtual_device *rest;
    TN_RETURN_IF_ERROR(tn__virtual_device_parse(&config->cache, tn__arena_printf(arena, "?%s", text + length), &rest));
    *out = tn__virtual_device_default(&config->cache, rest, named);
    return NULL;
  }
  bool any = length == 1 && text[0] == '?';
  if (!any && tn__target_type_find(text, length) < 0) return unknown_name(config, text, length);
  tn_status *status = tn__virtual_device_parse(&config->cache, text, out);
  if (status != NULL) return status;
  if (tn__compile_config_complete(config, *out) != NULL) return NULL;
  *out = NULL;
  return tn_status_create(TN_NOT_FOUND, "there is no device \"%s\" among the targets: there are %s", text,
                          tn__compile_config_list(config));
}

void tn__compile_config_print(tn__compile_config *config, tn__strbuf *out) {
  tn__arena *arena = config->cache.arena;
  tn__strbuf_append(out, "devices:\n");
  for (int i = 0; i < config->devices.count; i++) {
    const tn__virtual_device *d = config->devices.data[i];
    tn__strbuf_printf(out, "  %-10s %s\n", tn__virtual_device_text(arena, d), text_of(arena, d->target));
  }
  tn__strbuf_printf(out, "operators run on %s unless something else is said: it is the first target\n",
                    tn__virtual_device_text(arena, config->primitive));
  tn__strbuf_printf(out, "the host is %s (%s): %s\n", tn__virtual_device_text(arena, config->host),
                    config->host->target->name, config->host_rule);
}
