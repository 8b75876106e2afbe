/* Opening executables: from a file, which is mapped, or from memory, which is copied; and telling what they hold. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/beside.h"
#include "base/log.h"
#include "base/options.h"
#include "runtime/executable/apart.h"
#include "runtime/executable/bytes.h"
#include "runtime/executable/executable.h"
#include "runtime/executable/opened.h"
#include "runtime/executable/values.h"

/* ---- code ------------------------------------------------------------------------------------------------------- */

static tn_status *load_code(tn_executable *exe, bool in_place) {
  const tn__file_section *section = exe->sections[TN__SECTION_IMAGE];
  exe->image = exe->file + section->offset;
  exe->image_size = section->size;
  if (exe->verify_only) return NULL;
  exe->device = (tn__device){.driver = &tn__device_cpu, .allocator = exe->region.allocator};
  tn_status *status = exe->device.driver->open(&exe->device);
  if (status != NULL) {
    exe->device = (tn__device){0}; /* nothing to close */
    return status;
  }
  TN_RETURN_IF_ERROR(exe->device.driver->load_code(&exe->device, exe->image, exe->image_size, in_place, &exe->code));
  exe->image = exe->code.base;
  return NULL;
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

tn_status *tn__load_options_read(const tn_load_options *options, tn_load_options *out) {
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_load_options, options, out));
  TN_RETURN_IF_ERROR(tn__options_check_list("tn_load_options", "device_map", out->device_map, "device_map_count",
                                            out->device_map_count));
  TN_RETURN_IF_ERROR(
      tn__options_check_list("tn_load_options", "memory", out->memory, "memory_count", out->memory_count));
  if (out->key == NULL && out->key_size != 0)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "tn_load_options: key is NULL and key_size is %zu, so nothing would be checked: give the "
                            "key, or neither of them",
                            out->key_size);
  if (out->key != NULL && out->key_size == 0)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "tn_load_options: a key is given and key_size is 0, and an empty key is anybody's: set "
                            "key_size, or leave key NULL to check no signature");
  return NULL;
}

static tn_status *create(const tn_load_options *options, tn_executable **out) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(options->allocator, 1, sizeof(tn_executable), 0, &memory));
  *out = memory;
  tn__region_init(&(*out)->region, options->allocator);
  if (options->log != NULL) (*out)->log = *options->log;
  return NULL;
}

/* Files may say anything of sizes. */
static void count_in(int64_t *sum, int64_t bytes) {
  if (bytes > 0 && tn__add_overflow_i64(*sum, bytes, sum)) *sum = INT64_MAX;
}

tn__device_bytes tn__executable_device_bytes(const tn_executable *exe, uint32_t device) {
  tn__device_bytes bytes = {0};
  for (uint32_t i = 0; i < exe->function_count; i++) {
    const tn__operand arena = tn__function_arena(&exe->functions[i], device);
    if (!arena.symbolic) count_in(&bytes.workspace, arena.value);
  }
  for (uint32_t i = 0; i < exe->constant_count; i++)
    if (exe->constants[i].device == device) bytes.constants += exe->constants[i].size;
  return bytes;
}

static int64_t all_workspaces(const tn_executable *exe) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < exe->device_count; i++) count_in(&sum, tn__executable_device_bytes(exe, i).workspace);
  return sum;
}

/* On devices of memory of their own constants are once more, and so is what callers bind on the host. */
static int64_t peak_bytes(const tn_executable *exe) {
  enum { REST = 4 << 20 };
  int64_t sum = 0;
  count_in(&sum, (int64_t)exe->constant_bytes);
  count_in(&sum, all_workspaces(exe));
  for (uint32_t i = 1; i < exe->device_count; i++)
    if (exe->devices[i].device_type != kDLCPU) count_in(&sum, (int64_t)tn__executable_device_bytes(exe, i).constants);
  for (uint32_t i = 0; i < exe->function_count; i++) {
    const tn__function *f = &exe->functions[i];
    if (f->symbolic_layout) return -1;
    for (uint32_t o = 0; o < f->output_count; o++)
      for (int times = f->outputs[o].away ? 2 : 1; times > 0; times--)
        count_in(&sum, f->registers[f->outputs[o].reg].static_bytes);
    for (uint32_t k = 0; k < f->input_count; k++)
      if (f->inputs[k].away) count_in(&sum, f->registers[f->inputs[k].reg].static_bytes);
  }
  count_in(&sum, sum / 10);
  count_in(&sum, REST);
  return sum;
}

static tn_executable_summary summarize(const tn_executable *exe) {
  return (tn_executable_summary){.target = exe->targets[0],
                                 .producer = exe->producer,
                                 .constant_bytes = exe->constant_bytes,
                                 .code_bytes = exe->image_size,
                                 .file_bytes = exe->file_size,
                                 .workspace_bytes = all_workspaces(exe),
                                 .peak_bytes = peak_bytes(exe),
                                 .kernel_count = (int)exe->kernel_count,
                                 .constant_count = (int)exe->constant_count};
}

/* The common half: `exe` holds the bytes; `in_place` says that they are a mapping of our own. */
static tn_status *load(tn_executable *exe, const char *path, const tn_load_options *options, bool in_place) {
  TN_RETURN_IF_ERROR(tn__load_sections(exe, options));
  TN_RETURN_IF_ERROR(tn__load_constants(exe, path, options));
  TN_RETURN_IF_ERROR(load_code(exe, in_place && !options->perf_map)); /* perf asks its map for nameless memory alone */
  TN_RETURN_IF_ERROR(tn__load_tables(exe));
  TN_RETURN_IF_ERROR(tn__load_functions(exe));
  TN_RETURN_IF_ERROR(tn__values_find(exe));
  exe->summary = summarize(exe);
  if (exe->verify_only) return NULL;
  if (exe->is_divided) TN_RETURN_IF_ERROR(tn__opened_shared_create(exe));
  if (options->perf_map) tn__debug_write_perf_map(exe);
  if (exe->apart == NULL) exe->jit = tn__debug_register(exe);
  tn__log(&exe->log, TN_LOG_DEBUG, "loaded an executable for %s: %u kernels, %zu bytes", exe->targets[0],
          exe->kernel_count, exe->file_size);
  return NULL;
}

static tn_status *open_file(const char *path, const tn_load_options *options, bool verify_only, tn_executable **out) {
  tn_executable *exe;
  if (path == NULL) return tn_status_create(TN_INVALID_ARGUMENT, "an executable is loaded from a path, which is NULL");
  TN_RETURN_IF_ERROR(create(options, &exe));
  exe->verify_only = verify_only;
  tn_status *status = tn__file_map_open(path, &exe->map);
  if (status == NULL) {
    exe->file = exe->map.data, exe->file_size = exe->map.size;
    status = tn_status_prefix(load(exe, path, options, true), "%s", path);
  }
  if (status != NULL) {
    tn_executable_release(exe);
    return status;
  }
  *out = exe;
  return NULL;
}

tn_status *tn_executable_load(const char *path, const tn_load_options *options, tn_executable **out) {
  TN__NEED("out", out);
  *out = NULL;
  tn_load_options all;
  TN_RETURN_IF_ERROR(tn__load_options_read(options, &all));
  return open_file(path, &all, all.inspect_only, out);
}

tn_status *tn_executable_save(tn_executable *exe, const char *path) {
  TN__NEED("executable", exe);
  const char *wanted;
  tn__bytes piece = {exe->file, exe->file_size};
  if (path == NULL) return tn_status_create(TN_INVALID_ARGUMENT, "an executable is saved to a path, which is NULL");
  if (exe->constants_file != NULL && tn__same_file(path, exe->constants_file))
    return tn_status_create(TN_INVALID_ARGUMENT, "the executable would take the place of its constants in \"%s\"",
                            path);
  TN_RETURN_IF_ERROR(tn__file_write_atomic(path, &piece, 1, 0644));
  TN_RETURN_IF_ERROR(tn__executable_constants_beside(exe, path, &wanted));
  if (wanted != NULL && exe->constants_file != NULL)
    tn__tell_of_constants(&exe->log, path, wanted, exe->constants_file);
  return NULL;
}

tn_status *tn__executable_open(const char *path, const tn_load_options *options, tn_executable **out) {
  *out = NULL;
  tn_load_options all;
  TN_RETURN_IF_ERROR(tn__load_options_read(options, &all));
  all.verify_constants = true;
  return open_file(path, &all, true, out);
}

const void *tn__executable_bytes(const tn_executable *exe) { return exe->file; }

tn_status *tn_executable_verify(const char *path, const tn_load_options *options) {
  tn_executable *exe;
  tn_status *status = tn__executable_open(path, options, &exe);
  tn_executable_release(exe);
  return status;
}

static tn_status *open_memory(const void *data, size_t size, const tn_load_options *options, bool verify_only,
                              const tn__apart *apart, tn_executable **out) {
  tn_executable *exe;
  TN_RETURN_IF_ERROR(create(options, &exe));
  exe->verify_only = verify_only;
  exe->apart = apart;
  tn_status *status = NULL;
  bool borrow = options->borrow_data && (uintptr_t)data % TN__FILE_ALIGN == 0;
  if (!borrow) status = tn__map_copy(data, size, "an executable", &exe->copy);
  if (status == NULL) {
    exe->file = borrow ? data : exe->copy, exe->file_size = size;
    status = load(exe, NULL, options, !borrow);
  }
  if (status != NULL) {
    tn_executable_release(exe);
    return status;
  }
  *out = exe;
  return NULL;
}

tn_status *tn_executable_load_memory(const void *data, size_t size, const tn_load_options *options,
                                     tn_executable **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED_LIST("data", data, "size", size);
  tn_load_options all;
  TN_RETURN_IF_ERROR(tn__load_options_read(options, &all));
  return open_memory(data, size, &all, all.inspect_only, NULL, out);
}

tn_status *tn__executable_load_apart(const void *data, size_t size, const tn__apart *apart,
                                     const tn_allocator *allocator, tn_executable **out) {
  *out = NULL;
  tn_load_options all = {.size = sizeof(all), .allocator = allocator, .borrow_data = true};
  return open_memory(data, size, &all, false, apart, out);
}

tn_status *tn__executable_look_into(const void *data, size_t size, tn_executable **out) {
  *out = NULL;
  tn_load_options all = {.size = sizeof(all), .borrow_data = true};
  return open_memory(data, size, &all, true, NULL, out);
}

void tn_executable_release(tn_executable *exe) {
  if (exe == NULL || (exe->shared != NULL && !tn__opened_leave(exe))) return;
  tn__debug_unregister(exe, exe->jit);
  tn__opened_shared_release(exe);
  if (exe->device.driver != NULL) {
    exe->device.driver->unload_code(&exe->device, &exe->code);
    exe->device.driver->close(&exe->device);
  }
  if (exe->copy != NULL) munmap(exe->copy, exe->file_size == 0 ? 1 : exe->file_size);
  tn__file_map_close(&exe->map);
  tn__file_map_close(&exe->constants_map);
  tn__region_release(&exe->region);
  tn_allocator copy = exe->region.copy;
  tn__free(exe->region.allocator == NULL ? NULL : &copy, exe, sizeof(*exe), 0);
}

/* ---- what it holds ---------------------------------------------------------------------------------------------- */

static const tn__function *find_function(const tn_executable *exe, const char *name) {
  if (name == NULL) return &exe->functions[0];
  for (uint32_t i = 0; i < exe->entry_count; i++)
    if (strcmp(exe->functions[exe->entries[i]].name, name) == 0) return &exe->functions[exe->entries[i]];
  return NULL;
}

static tn_status *no_function(const tn_executable *exe, const char *name, const char *known) {
  for (uint32_t i = 0; i < exe->function_count; i++) {
    const tn__function *f = &exe->functions[i];
    if (!f->inner || strcmp(f->name, name) != 0) continue;
    return tn_status_create(TN_NOT_FOUND,
                            "function \"%s\" cannot be called: it is an inner function, which \"%s\" uses; call one of "
                            "%s",
                            name, f->outer < 0 ? "?" : exe->functions[f->outer].name, known);
  }
  return tn_status_create(TN_NOT_FOUND, "the executable has no function \"%s\"; it has %s", name, known);
}

tn_status *tn__executable_function(const tn_executable *exe, const char *name, const tn__function **out) {
  *out = find_function(exe, name);
  if (*out != NULL) return NULL;
  char known[512] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < exe->entry_count; i++) {
    const char *each = exe->functions[exe->entries[i]].name;
    int n = snprintf(known + used, sizeof(known) - used, "%s\"%s\"", i > 0 ? ", " : "", each);
    if (n > 0 && used + (size_t)n < sizeof(known)) used += (size_t)n;
  }
  return no_function(exe, name, known);
}

int tn_executable_function_count(const tn_executable *exe) {
  if (exe == NULL) return 0;
  return (int)exe->entry_count;
}

const char *tn_executable_function_name(const tn_executable *exe, int index) {
  if (exe == NULL) return NULL;
  return index < 0 || (uint32_t)index >= exe->entry_count ? NULL : exe->functions[exe->entries[index]].name;
}

int tn_executable_input_count(const tn_executable *exe, const char *function) {
  if (exe == NULL) return -1;
  const tn__function *f = find_function(exe, function);
  return f == NULL ? -1 : (int)f->input_count;
}

int tn_executable_output_count(const tn_executable *exe, const char *function) {
  if (exe == NULL) return -1;
  const tn__function *f = find_function(exe, function);
  return f == NULL ? -1 : (int)f->output_count;
}

const tn_value_info *tn_executable_input(const tn_executable *exe, const char *function, int index) {
  if (exe == NULL) return NULL;
  const tn__function *f = find_function(exe, function);
  return f == NULL || index < 0 || (uint32_t)index >= f->input_count ? NULL : &f->inputs[index].info;
}

const tn_value_info *tn_executable_output(const tn_executable *exe, const char *function, int index) {
  if (exe == NULL) return NULL;
  const tn__function *f = find_function(exe, function);
  return f == NULL || index < 0 || (uint32_t)index >= f->output_count ? NULL : &f->outputs[index].info;
}

static int find_value(const tn__function_value *values, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count && name != NULL; i++)
    if (strcmp(values[i].info.name, name) == 0) return (int)i;
  return -1;
}

int tn_executable_output_alias(const tn_executable *exe, const char *function, int index) {
  if (exe == NULL) return -1;
  const tn__function *f = find_function(exe, function);
  return f == NULL || index < 0 || (uint32_t)index >= f->output_count ? -1 : f->outputs[index].alias;
}

int tn_executable_input_index(const tn_executable *exe, const char *function, const char *name) {
  if (exe == NULL) return -1;
  const tn__function *f = find_function(exe, function);
  return f == NULL ? -1 : find_value(f->inputs, f->input_count, name);
}

int tn_executable_output_index(const tn_executable *exe, const char *function, const char *name) {
  if (exe == NULL) return -1;
  const tn__function *f = find_function(exe, function);
  return f == NULL ? -1 : find_value(f->outputs, f->output_count, name);
}

const tn_executable_summary *tn_executable_summarize(const tn_executable *exe) {
  if (exe == NULL) return NULL;
  return &exe->summary;
}

const tn_kernel_summary *tn_executable_kernel(const tn_executable *exe, int index) {
  if (exe == NULL) return NULL;
  return index < 0 || (uint32_t)index >= exe->kernel_count ? NULL : &exe->kernels[index].about;
}

const char *tn_executable_text(const tn_executable *exe, const char *section, size_t *size) {
  if (size == NULL) return NULL;
  *size = 0;
  if (exe == NULL || section == NULL) return NULL;
  for (uint32_t i = 0; i < exe->text_count; i++) {
    if (strcmp(exe->texts[i].name, section) != 0) continue;
    *size = exe->texts[i].size;
    return exe->texts[i].data;
  }
  return NULL;
}
