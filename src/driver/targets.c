/* What there is to compile for: of <tenon/compile.h>. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "codegen/backend.h"
#include "runtime/plugin/plugin.h"
#include "target/text/text.h"
#include "tenon/compile.h"

static bool is_compiled_for(const tn__target *target) {
  const tn__backend *backend;
  tn_status *status = tn__backend_find_any(target, &backend);
  tn_status_free(status);
  return status == NULL;
}

static void add_attributes(tn__strbuf *out, int kind) {
  char name[32], values[64], shown[64];
  const char *help;
  for (int i = 0; tn__target_attribute_at(kind, i, name, values, &help); i++) {
    snprintf(shown, sizeof shown, "-%s=%s", name, values[0] ? "N" : "TEXT");
    tn__strbuf_printf(out, "    %-24s %s%s%s\n", shown, help, values[0] ? ": " : "", values);
  }
}

static void add_kinds(tn__strbuf *out) {
  tn__strbuf_append(out, "kinds, and their attributes:\n");
  for (int k = 0; k < TN__TARGET_KINDS; k++) {
    const char *name = tn__target_kind_name((tn__target_kind)k);
    tn__target usual;
    tn_status *status = tn__target_parse(name, &usual);
    bool compiled = status == NULL && is_compiled_for(&usual);
    tn_status_free(status);
    tn__strbuf_printf(out, "  %-16s %s%s\n", name, tn__target_kind_help((tn__target_kind)k),
                      compiled ? "" : "; there is no code generator for it");
    add_attributes(out, k);
  }
  tn__strbuf_append(out, "  attributes of every kind\n");
  add_attributes(out, TN__TARGET_EVERY_KIND);
}

static void add_presets(tn__strbuf *out) {
  const char *name;
  char text[TN__TARGET_TEXT];
  tn__target target;
  tn__strbuf_append(out, "\npresets, which take the same attributes:\n");
  for (int i = 0; (name = tn__target_name_at(i)) != NULL; i++) {
    tn_status *status = tn__target_parse(name, &target);
    tn_status_free(status);
    if (status != NULL || tn__target_is_native(&target)) continue;
    tn__target_print(&target, text);
    if (strncmp(text, "cpu ", 4) == 0) snprintf(text, sizeof text, "cpu: %s", target.name);
    tn__strbuf_printf(out, "  %-16s %s\n", name, text);
  }
}

static void add_host(tn__strbuf *out, const tn__target *host) {
  char text[TN__TARGET_TEXT], features[1024];
  const tn__cpu_target *cpu = &host->cpu;
  tn__target_print(host, text);
  if (!tn__target_missing(cpu->arch, cpu->features, 0, features, sizeof features)) features[0] = '\0';
  tn__strbuf_printf(out,
                    "\nthis machine:\n"
                    "  %-16s %s, which is %s\n"
                    "    %-16s %s\n"
                    "    %-16s %d\n"
                    "    %-16s %d bytes, %d registers\n"
                    "    %-16s %" PRId64 " KB, %" PRId64 " KB, %" PRId64 " KB\n",
                    "cpu:0", text, host->name, "features", features[0] ? features : "none", "threads", cpu->cores,
                    "vectors", cpu->vector_bytes, cpu->vector_registers, "L1, L2, L3", cpu->machine.l1_bytes >> 10,
                    cpu->machine.l2_bytes >> 10, cpu->machine.l3_bytes >> 10);
}

static void add_device(tn__strbuf *out, const tn__device *device) {
  tn__device_limits limits;
  char name[32];
  device->driver->limits(device, &limits);
  snprintf(name, sizeof name, "%s:%d", device->driver->name, (int)device->id);
  tn__strbuf_printf(out,
                    "  %-16s %s\n"
                    "    %-16s %zu bytes, %zu of one allocation\n"
                    "    %-16s %d of a block, which share %zu bytes\n",
                    name, limits.about, "memory", limits.memory_bytes, limits.most_bytes, "threads",
                    limits.threads_of_block, limits.shared_bytes);
}

static tn_status *open_and_add(tn__strbuf *out, const tn__device_driver *driver, int id) {
  tn__device device = {.driver = driver, .id = id};
  /* cppcheck-suppress returnDanglingLifetime ; a status keeps no pointer into the device */
  TN_RETURN_IF_ERROR(driver->open(&device));
  add_device(out, &device);
  driver->close(&device);
  return NULL;
}

/* Devices whose drivers are plug-ins, up to the first number that there is none of: what they are like, or why one
 * cannot be opened. What is said of two alike is about neither, and ends the list. */
static void add_devices(tn__strbuf *out, DLDeviceType type, const char *name) {
  const tn__device_driver *driver;
  char about[32];
  tn_status *last = NULL, *status = tn__plugin_driver(type, name, &driver);
  bool there = status == NULL;
  if (!there) tn__strbuf_printf(out, "  %-16s none: %s\n", name, tn_status_message(status));
  for (int id = 0; there; id++) {
    status = open_and_add(out, driver, id);
    if (status == NULL) continue;
    there = tn_status_code_of(status) != TN_NOT_FOUND &&
            (last == NULL || strcmp(tn_status_message(last), tn_status_message(status)) != 0);
    snprintf(about, sizeof about, "%s:%d", name, id);
    if (there) tn__strbuf_printf(out, "  %-16s cannot be used: %s\n", about, tn_status_message(status));
    if (!there && id == 0) tn__strbuf_printf(out, "  %-16s none: %s\n", name, tn_status_message(status));
    tn_status_free(last);
    last = status;
    status = NULL;
  }
  tn_status_free(last);
  tn_status_free(status);
}

tn_status *tn_targets_text(char **out) {
  TN__NEED("out", out);
  *out = NULL;
  tn__target host;
  tn__strbuf text;
  TN_RETURN_IF_ERROR(tn__target_parse(NULL, &host));
  tn__strbuf_init(&text, NULL);
  add_kinds(&text);
  add_presets(&text);
  add_host(&text, &host);
  add_devices(&text, kDLOpenCL, "opencl");
  add_devices(&text, kDLCUDA, "cuda");
  tn_status *status = tn__strbuf_status(&text);
  if (status == NULL && (*out = strdup(tn__strbuf_text(&text))) == NULL)
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %zu bytes of text", text.length);
  tn__strbuf_release(&text);
  return status;
}
