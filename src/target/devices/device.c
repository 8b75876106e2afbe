#include "target/devices/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"

void tn__device_cache_init(tn__device_cache *cache, tn__arena *arena) {
  const tn__virtual_device nothing = {.device_id = TN__DEVICE_ID_FREE};
  *cache = (tn__device_cache){.arena = arena};
  tn__virtual_device_of(cache, &nothing);
}

static const tn__target *target_of(tn__device_cache *cache, const tn__target *target) {
  if (target == NULL) return NULL;
  for (int i = 0; i < cache->targets.count; i++)
    if (cache->targets.data[i] == target) return target;
  for (int i = 0; i < cache->targets.count; i++)
    if (tn__target_equal(cache->targets.data[i], target)) return cache->targets.data[i];
  const tn__target *kept = tn__arena_copy(cache->arena, target, sizeof *target);
  tn__vec_push(cache->arena, &cache->targets, kept);
  return kept;
}

static bool same_scope(const char *a, const char *b) { return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0); }

const tn__virtual_device *tn__virtual_device_of(tn__device_cache *cache, const tn__virtual_device *fields) {
  tn__virtual_device device = *fields;
  device.target = target_of(cache, fields->target);
  if (device.target != NULL) device.device_type = tn__target_device_type(device.target);
  for (int i = 0; i < cache->devices.count; i++) {
    const tn__virtual_device *d = cache->devices.data[i];
    if (d->device_type == device.device_type && d->device_id == device.device_id && d->target == device.target &&
        same_scope(d->memory_scope, device.memory_scope))
      return d;
  }
  if (device.memory_scope != NULL) device.memory_scope = tn__arena_strdup(cache->arena, device.memory_scope);
  device.text = NULL;
  device.text = tn__virtual_device_text(cache->arena, &device);
  const tn__virtual_device *kept = tn__arena_copy(cache->arena, &device, sizeof device);
  tn__vec_push(cache->arena, &cache->devices, kept);
  return kept;
}

const tn__virtual_device *tn__virtual_device_free(const tn__device_cache *cache) { return cache->devices.data[0]; }

bool tn__virtual_device_is_free(const tn__virtual_device *d) {
  return d->device_type == 0 && d->device_id == TN__DEVICE_ID_FREE && d->target == NULL && d->memory_scope == NULL;
}

bool tn__virtual_device_is_full(const tn__virtual_device *d) {
  return d->device_type != 0 && d->device_id != TN__DEVICE_ID_FREE && d->target != NULL && d->memory_scope != NULL;
}

tn__device_field tn__virtual_device_join(tn__device_cache *cache, const tn__virtual_device *a,
                                         const tn__virtual_device *b, const tn__virtual_device **out) {
  *out = a;
  if (a == b) return TN__DEVICE_AGREES;
  *out = NULL;
  if (a->device_type != 0 && b->device_type != 0 && a->device_type != b->device_type) return TN__DEVICE_TYPE;
  if (a->device_id != TN__DEVICE_ID_FREE && b->device_id != TN__DEVICE_ID_FREE && a->device_id != b->device_id)
    return TN__DEVICE_ID;
  if (a->target != NULL && b->target != NULL && a->target != b->target) return TN__DEVICE_TARGET;
  if (a->memory_scope != NULL && b->memory_scope != NULL && !same_scope(a->memory_scope, b->memory_scope))
    return TN__DEVICE_SCOPE;
  *out = tn__virtual_device_default(cache, a, b);
  return TN__DEVICE_AGREES;
}

const tn__virtual_device *tn__virtual_device_default(tn__device_cache *cache, const tn__virtual_device *a,
                                                     const tn__virtual_device *b) {
  tn__virtual_device d = *a;
  if (d.device_type == 0) d.device_type = b->device_type;
  if (d.device_id == TN__DEVICE_ID_FREE) d.device_id = b->device_id;
  if (d.target == NULL && b->target != NULL && b->device_type == d.device_type) d.target = b->target;
  if (d.memory_scope == NULL) d.memory_scope = b->memory_scope;
  return tn__virtual_device_of(cache, &d);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

const char *tn__virtual_device_text(tn__arena *arena, const tn__virtual_device *d) {
  if (d->text != NULL) return d->text;
  const char *type = d->device_type == 0 ? "?" : tn__target_type_name(d->device_type);
  const char *text = type != NULL ? type : tn__arena_printf(arena, "type %d", d->device_type);
  if (d->device_id != TN__DEVICE_ID_FREE) text = tn__arena_printf(arena, "%s:%d", text, d->device_id);
  if (d->memory_scope != NULL && strcmp(d->memory_scope, TN__SCOPE_NAME_GLOBAL) != 0)
    text = tn__arena_printf(arena, "%s/%s", text, d->memory_scope);
  return text;
}

static tn_status *unknown(const char *text, const char *what, const tn__nearest *nearest, const char *known) {
  return tn_status_create(TN_INVALID_ARGUMENT, "device \"%s\": there is no %s \"%.*s\"; %s%.*s%sthere are %s", text,
                          what, (int)nearest->length, nearest->name, nearest->best ? "did you mean \"" : "",
                          (int)nearest->best_length, nearest->best ? nearest->best : "", nearest->best ? "\"? " : "",
                          known);
}

static tn_status *read_type(const char *text, size_t length, int *type) {
  char known[256];
  if (length == 1 && text[0] == '?') return NULL;
  *type = tn__target_type_find(text, length);
  if (*type >= 0) return NULL;
  tn__nearest nearest = {.name = text, .length = length};
  tn__target_type_names(known, sizeof known);
  for (const char *at = known; *at != '\0'; at += strspn(at, ", ")) {
    size_t word = strcspn(at, ",");
    tn__nearest_consider(&nearest, at, word);
    at += word;
  }
  return unknown(text, "type of devices", &nearest, known);
}

static tn_status *read_scope(const char *text, const char *scope, const char **out) {
  char known[256] = "";
  tn__nearest nearest = {.name = scope, .length = strlen(scope)};
  for (int i = 0; i < TN__MEMORY_SCOPES; i++) {
    const char *name = tn__memory_scope_name((tn__memory_scope)i);
    if (strcmp(name, scope) == 0) {
      *out = name;
      return NULL;
    }
    tn__target_list(known, sizeof known, i > 0 ? ", " : "", name);
    tn__nearest_consider(&nearest, name, strlen(name));
  }
  return unknown(text, "scope of memory", &nearest, known);
}

tn_status *tn__virtual_device_parse(tn__device_cache *cache, const char *text, const tn__virtual_device **out) {
  enum { DECIMAL = 10, MOST_DIGITS = 3 };
  tn__virtual_device device = {.device_id = TN__DEVICE_ID_FREE};
  const char *at = text + strcspn(text, ":/");
  *out = NULL;
  TN_RETURN_IF_ERROR(read_type(text, (size_t)(at - text), &device.device_type));
  if (*at == ':') {
    size_t digits = strspn(at + 1, "0123456789");
    device.device_id = digits > 0 && digits <= MOST_DIGITS ? (int)strtol(at + 1, NULL, DECIMAL) : -1;
    if (device.device_id < 0 || device.device_id > TN__TARGET_MOST_ID ||
        (at[1 + digits] != '\0' && at[1 + digits] != '/'))
      return tn_status_create(TN_INVALID_ARGUMENT, "device \"%s\": behind the colon stands a number from 0 to %d", text,
                              TN__TARGET_MOST_ID);
    at += 1 + digits;
  }
  if (*at == '/') TN_RETURN_IF_ERROR(read_scope(text, at + 1, &device.memory_scope));
  *out = tn__virtual_device_of(cache, &device);
  return NULL;
}
