/* What is said of places beside the model: patterns of names, on their own or in a file, and how much memory there is.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/message.h"
#include "base/size.h"
#include "graph/place/place.h"
#include "json/json.h"

static tn_status *rule_of(tn__compile_config *config, const char *pattern, const char *device, tn__place_rule *out) {
  tn__arena *arena = config->cache.arena;
  const tn__virtual_device *found = NULL;
  *out = (tn__place_rule){.text = tn__arena_printf(arena, "%s=%s", pattern, device), .pattern = pattern};
  TN_RETURN_IF_ERROR(
      tn_status_prefix(tn__compile_config_find(config, device, &found), "the placement \"%s\"", out->text));
  out->placed = tn__shown_text(arena, "placed by \"%s\"", out->text);
  tn__virtual_device full = *tn__compile_config_complete(config, found);
  full.memory_scope = found->memory_scope; /* which stays open where it is not said */
  out->device = tn__virtual_device_of(&config->cache, &full);
  out->exact = strchr(pattern, '*') == NULL;
  return NULL;
}

tn__place_rule tn__place_rule_read(tn__compile_config *config, const char *text) {
  tn__arena *arena = config->cache.arena;
  tn__place_rule rule;
  const char *equals = strrchr(text, '=');
  if (equals == NULL || equals == text || equals[1] == '\0')
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
               "the placement \"%s\" is not like PATTERN=DEVICE, as \"encoder/*=opencl:0\" is", text);
  const char *pattern = tn__arena_strndup(arena, text, (size_t)(equals - text));
  tn__check(arena->escape, rule_of(config, pattern, equals + 1, &rule));
  return rule;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef struct placement {
  tn__compile_config *config;
  tn__arena *arena;
  tn__file_map map;
  tn__place_rules *out;
} placement;

_Noreturn static void wrong(const placement *p, const tn__json *value, const char *what) {
  tn__throwf(p->arena->escape, TN_INVALID_ARGUMENT,
             "line %d: %s is %s; a placement is an object, or a list of objects, of patterns and devices, as "
             "{\"encoder/*\": \"opencl:0\"} is",
             value->line, what, tn__json_kind_name(value->kind));
}

static void read_object(const placement *p, const tn__json *object) {
  for (const tn__json *m = object->first; m != NULL; m = m->next) {
    tn__place_rule rule;
    if (m->key[0] == '\0')
      tn__throwf(p->arena->escape, TN_INVALID_ARGUMENT, "line %d: a pattern is empty, and no node has such a name",
                 m->line);
    if (m->kind != TN__JSON_TEXT) wrong(p, m, tn__shown_text(p->arena, "the device of \"%s\"", m->key));
    tn_status *status = rule_of(p->config, m->key, m->text, &rule);
    if (status != NULL) tn__throw(p->arena->escape, tn_status_prefix(status, "line %d", m->line));
    tn__vec_push(p->arena, &p->out->list, rule);
  }
}

static void read_placement(tn__escape *escape, void *user) {
  const placement *p = user;
  const tn__json *all = tn__json_read_text(p->arena, (const char *)p->map.data, p->map.size);
  if (all->kind == TN__JSON_OBJECT) {
    read_object(p, all);
    return;
  }
  if (all->kind != TN__JSON_LIST) wrong(p, all, "the whole");
  for (const tn__json *e = all->first; e != NULL; e = e->next) {
    if (e->kind != TN__JSON_OBJECT) wrong(p, e, "an element of the list");
    read_object(p, e);
  }
}

static void read_file(tn__compile_config *config, const char *path, tn__place_rules *out) {
  placement p = {.config = config, .arena = config->cache.arena, .out = out};
  tn__escape escape, *outer = p.arena->escape;
  tn__check(outer, tn__file_map_open(path, &p.map));
  p.arena->escape = &escape; /* where errors get the name of the file */
  tn_status *status = tn__protect(&escape, read_placement, &p);
  p.arena->escape = outer;
  tn__file_map_close(&p.map);
  if (status != NULL) tn__throw(outer, tn_status_prefix(status, "%s", path));
}

void tn__place_rules_read(tn__compile_config *config, const char *text, bool files, tn__place_rules *out) {
  tn__arena *arena = config->cache.arena;
  if (strcmp(text, "auto") == 0) {
    out->automatic = true;
  } else if (strcmp(text, "@") == 0) {
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
               "the placement \"@\" names no file: behind the @ stands one, as in \"@placement.json\"");
  } else if (text[0] == '@') {
    if (files) read_file(config, text + 1, out);
  } else {
    tn__place_rule rule = tn__place_rule_read(config, text);
    tn__vec_push(arena, &out->list, rule);
  }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void tn__place_budget_read(tn__compile_config *config, const char *text, tn__place_budgets *out) {
  tn__arena *arena = config->cache.arena;
  const char *equals = strrchr(text, '=');
  uint64_t bytes = equals != NULL ? tn__size_read(equals + 1) : 0;
  if (equals == NULL || equals == text || bytes == 0)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
               "the memory \"%s\" is not like DEVICE=SIZE, as \"opencl:0=2GiB\" is, with a size above 0 in bytes, KB, "
               "MB, GB, TB, KiB, MiB, GiB or TiB",
               text);
  const tn__virtual_device *device = NULL;
  const char *name = tn__arena_strndup(arena, text, (size_t)(equals - text));
  tn__check(arena->escape, tn_status_prefix(tn__compile_config_find(config, name, &device), "the memory \"%s\"", text));
  int rank = tn__compile_config_rank(config, tn__compile_config_complete(config, device));
  if (out->bytes[rank] != 0 && out->bytes[rank] != bytes)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "the memory of one device is given twice: \"%s\" and \"%s\"",
               out->text[rank], text);
  out->bytes[rank] = bytes;
  out->text[rank] = text;
  out->any = true;
}
