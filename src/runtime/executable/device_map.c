/* What the options of loading say of devices: those that take the place of others, "island:1=island:0", and limits of
 * memory, "island:0=64MiB". */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "runtime/executable/opened.h"

static const DLDeviceType types[] = {kDLCPU, kDLCUDA, kDLOpenCL, kDLExtDev};
enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]), MOST_ID = 255 };

bool tn__load_read_device(const char *text, const char *end, DLDevice *out) {
  for (int i = 0; i < TYPE_COUNT; i++) {
    const char *name = tn__rt_device_name(types[i]);
    size_t length = strlen(name);
    if ((size_t)(end - text) < length + 2 || strncmp(text, name, length) != 0 || text[length] != ':') continue;
    char *stop;
    long id = text[length + 1] >= '0' && text[length + 1] <= '9' ? strtol(text + length + 1, &stop, 10) : -1;
    if (id < 0 || id > MOST_ID || stop != end) return false;
    *out = (DLDevice){types[i], (int32_t)id};
    return true;
  }
  return false;
}

bool tn__load_read_memory(const char *text, const char *end, DLDevice *out, tn__memory_scope *scope) {
  const char *slash = memchr(text, '/', (size_t)(end - text));
  *scope = TN__MEMORY_GLOBAL;
  if (slash == NULL) return tn__load_read_device(text, end, out);
  while (*scope < TN__MEMORY_SCOPES) {
    const char *name = tn__memory_scope_name(*scope);
    if (strlen(name) == (size_t)(end - slash) - 1 && strncmp(slash + 1, name, strlen(name)) == 0) break;
    ++*scope;
  }
  return *scope < TN__MEMORY_SCOPES && tn__load_read_device(text, slash, out);
}

static tn_status *read_rule(const char *rule, DLDevice *from, DLDevice *to) {
  const char *equal = rule == NULL ? NULL : strchr(rule, '=');
  if (equal == NULL || !tn__load_read_device(rule, equal, from) ||
      !tn__load_read_device(equal + 1, equal + strlen(equal), to))
    return tn_status_create(
        TN_INVALID_ARGUMENT,
        "the map of devices \"%s\" is none: it is like \"island:1=island:0\", of cpu, cuda, opencl and "
        "island with numbers up to %d",
        rule == NULL ? "" : rule, MOST_ID);
  bool same_code = from->device_type == to->device_type ||
                   (from->device_type == kDLExtDev && to->device_type == kDLCPU); /* an island is a CPU */
  if (same_code) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "the map of devices \"%s\": code for %s does not run on %s", rule,
                          tn__rt_device_name(from->device_type), tn__rt_device_name(to->device_type));
}

static const char *named(DLDeviceType type) {
  const char *name = tn__rt_device_name(type);
  return name == NULL ? "device" : name;
}

/* One list of maps often serves programs with different devices, so an unused map is a note, not an error. */
static void note_unused(const tn_executable *exe, const char *rule) {
  tn__strbuf there;
  tn__strbuf_init(&there, NULL);
  for (uint32_t i = 1; i < exe->device_count; i++)
    if (exe->homes[i] == i)
      tn__strbuf_printf(&there, "%s%s:%d", there.length > 0 ? ", " : "", named(exe->devices[i].device_type),
                        (int)exe->devices[i].device_id);
  tn__log(&exe->log, TN_LOG_WARNING,
          "the map of devices \"%s\" has no effect: the executable has no such device beside the host%s%s", rule,
          there.length > 0 ? ", but " : "", tn__strbuf_text(&there));
  tn__strbuf_release(&there);
}

/* A device has one place, so a rule that contradicts an earlier one is an error. *again: an earlier rule is
 * identical. */
static tn_status *check_one_place(const tn_load_options *options, int rule, DLDevice from, DLDevice to, bool *again) {
  DLDevice before, there;
  *again = false;
  for (int i = 0; i < rule; i++) {
    TN_RETURN_IF_ERROR(read_rule(options->device_map[i], &before, &there));
    if (!tn__load_same_device(before, from)) continue;
    if (!tn__load_same_device(there, to))
      return tn_status_create(TN_INVALID_ARGUMENT,
                              "the maps of devices \"%s\" and \"%s\" put one device in two places: leave one of them "
                              "out",
                              options->device_map[i], options->device_map[rule]);
    *again = true;
  }
  return NULL;
}

static tn_status *map_device(const tn_executable *exe, const tn_load_options *options, int rule, DLDevice *mapped) {
  const char *text = options->device_map[rule];
  DLDevice from, to;
  bool found = false, again;
  TN_RETURN_IF_ERROR(read_rule(text, &from, &to));
  TN_RETURN_IF_ERROR(check_one_place(options, rule, from, to, &again));
  if (again) tn__log(&exe->log, TN_LOG_WARNING, "the map of devices \"%s\" is given twice", text);
  if (again) return NULL;
  if (tn__load_same_device(exe->devices[0], from))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "the map of devices \"%s\": %s:%d is the host, which nothing can replace: map the others",
                            text, named(from.device_type), (int)from.device_id);
  for (uint32_t k = 1; k < exe->device_count; k++) {
    if (!tn__load_same_device(exe->devices[k], from)) continue;
    mapped[k] = to;
    found = true;
  }
  if (!found) note_unused(exe, text);
  return NULL;
}

tn_status *tn__load_map_devices(tn_executable *exe, const tn_load_options *options) {
  DLDevice *mapped;
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, exe->device_count, sizeof(DLDevice), &mapped));
  memcpy(mapped, exe->devices, exe->device_count * sizeof(DLDevice));
  for (int i = 0; i < options->device_map_count; i++) TN_RETURN_IF_ERROR(map_device(exe, options, i, mapped));
  exe->devices = mapped;
  return NULL;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

uint32_t tn__load_find_device(const tn_executable *exe, DLDevice device, tn__memory_scope scope) {
  const DLDevice host = {exe->devices[0].device_type, exe->host_id};
  uint32_t i = 1;
  if (tn__load_same_device(host, device) && scope == TN__MEMORY_GLOBAL) return 0;
  while (i < exe->device_count && (!tn__load_same_device(exe->devices[i], device) || exe->scopes[i] != scope)) i++;
  if (i < exe->device_count) return exe->devices[i].device_type == kDLCPU ? 0 : i;
  return scope == TN__MEMORY_GLOBAL && tn__load_same_device(exe->devices[0], device) ? 0 : i;
}

tn_status *tn__load_no_device(const tn_executable *exe) {
  tn__strbuf there;
  tn__strbuf_init(&there, NULL);
  tn__strbuf_printf(&there, "cpu:%d (the host)", (int)exe->host_id);
  for (uint32_t i = 1; i < exe->device_count; i++) /* those that are one by a map once */
    if (tn__load_find_device(exe, exe->devices[i], exe->scopes[i]) == i)
      tn__strbuf_printf(&there, ", %s:%d%s", named(exe->devices[i].device_type), (int)exe->devices[i].device_id,
                        tn__memory_scope_behind(exe->scopes[i]));
  tn_status *status =
      tn_status_create(TN_NOT_FOUND, "the program does not run on that device; it runs on %s", tn__strbuf_text(&there));
  tn__strbuf_release(&there);
  return status;
}

static tn_status *set_limit(const tn_executable *exe, const char *text) {
  const char *equal = text == NULL ? NULL : strchr(text, '=');
  uint64_t bytes = equal == NULL ? 0 : tn__size_read(equal + 1);
  DLDevice device;
  tn__memory_scope scope;
  if (bytes == 0 || !tn__load_read_memory(text, equal, &device, &scope))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "the memory \"%s\" is none: it is like \"island:0=64MiB\", a device with a size above 0 in "
                            "bytes, KB, MB, GB, TB, KiB, MiB, GiB or TiB",
                            text == NULL ? "" : text);
  uint32_t number = tn__load_find_device(exe, device, scope);
  if (number == exe->device_count) return tn_status_prefix(tn__load_no_device(exe), "the memory \"%s\"", text);
  if (exe->limits[number].most != 0 && exe->limits[number].most != bytes)
    return tn_status_create(TN_INVALID_ARGUMENT, "the memory \"%s\": the device has another limit already", text);
  exe->limits[number].most = bytes;
  return NULL;
}

tn_status *tn__load_limits(tn_executable *exe, const tn_load_options *options) {
  if (options->memory_count == 0) return NULL;
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, exe->device_count, sizeof(tn__opened_limit), &exe->limits));
  for (int i = 0; i < options->memory_count; i++) TN_RETURN_IF_ERROR(set_limit(exe, options->memory[i]));
  return NULL;
}
