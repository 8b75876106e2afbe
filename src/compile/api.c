/* The public entry points of <tenon/compile.h> that make executables. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "compile/driver.h"

struct tn_module {
  const tn_allocator *allocator;
  tn_allocator allocator_copy;
  const void *data; /* of `memory` or `map` */
  size_t size;
  void *memory;
  tn__file_map map; /* of the cache's entry */
  tn_phase_time *times;
  char *names; /* of the phases, one after another */
  size_t names_size;
  int time_count;
  bool from_cache;
};

typedef struct compile_call {
  const char *path;
  const void *data;
  size_t size;
  tn_compile_options options;
  tn_module *module; /* out of tn_compile */
  const char *stage; /* of tn_compile_emit */
  tn__strbuf *text;
} compile_call;

/* ---- modules
 * -------------------------------------------------------------------------------------------------------------------
 */

void tn_module_release(tn_module *module) {
  if (!module) return;
  const tn_allocator *a = module->allocator;
  tn__free(a, module->memory, module->size, 64);
  tn__file_map_close(&module->map);
  tn__free(a, module->times, sizeof(tn_phase_time) * (size_t)module->time_count, 0);
  tn__free(a, module->names, module->names_size, 0);
  tn_allocator copy = module->allocator_copy;
  tn__free(a ? &copy : NULL, module, sizeof *module, 0);
}

const void *tn_module_data(const tn_module *module, size_t *size) {
  *size = module->size;
  return module->data;
}

tn_status *tn_module_save(const tn_module *module, const char *path) {
  tn__bytes piece = {module->data, module->size};
  return tn__file_write_atomic(path, &piece, 1, 0644);
}

tn_status *tn_module_load(const tn_module *module, const tn_load_options *options, tn_executable **out) {
  return tn_executable_load_memory(module->data, module->size, options, out);
}

int tn_module_times(const tn_module *module, const tn_phase_time **out) {
  *out = module->times;
  return module->time_count;
}

bool tn_module_from_cache(const tn_module *module) { return module->from_cache; }

static tn_status *copy_times(tn_module *m, const tn__driver *driver) {
  size_t bytes = 0;
  for (int i = 0; i < driver->times.count; i++) bytes += strlen(driver->times.data[i].name) + 1;
  void *times, *names;
  TN_RETURN_IF_ERROR(tn__alloc(m->allocator, (size_t)driver->times.count, sizeof(tn_phase_time), 0, &times));
  m->times = times;
  m->time_count = driver->times.count;
  TN_RETURN_IF_ERROR(tn__alloc(m->allocator, bytes, 1, 0, &names));
  m->names = names;
  m->names_size = bytes;
  char *at = m->names;
  for (int i = 0; i < m->time_count; i++) {
    size_t length = strlen(driver->times.data[i].name) + 1;
    m->times[i] = (tn_phase_time){at, driver->times.data[i].seconds};
    memcpy(at, driver->times.data[i].name, length);
    at += length;
  }
  return NULL;
}

static tn_status *join_executable(tn_module *m, const tn__pieces *executable) {
  TN_RETURN_IF_ERROR(tn__alloc(m->allocator, executable->size, 1, 64, &m->memory));
  tn__pieces_join(executable, m->memory);
  m->data = m->memory;
  m->size = executable->size;
  return NULL;
}

/* Of the pieces, or of the cache's entry, which it takes over. */
static tn_status *make_module(const tn__driver *driver, const tn__pieces *executable, tn__file_map *map,
                              tn__bytes entry, tn_module **out) {
  const tn_allocator *allocator = driver->options->allocator;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, 1, sizeof(tn_module), 0, &memory));
  tn_module *m = memory;
  if (allocator) {
    m->allocator_copy = *allocator;
    m->allocator = &m->allocator_copy;
  }
  tn_status *status = NULL;
  if (map) {
    m->map = *map;
    *map = (tn__file_map){0};
    m->data = entry.data;
    m->size = entry.size;
    m->from_cache = true;
  } else {
    status = join_executable(m, executable);
  }
  if (!status) status = copy_times(m, driver);
  if (status) {
    tn_module_release(m);
    return status;
  }
  *out = m;
  return NULL;
}

static void close_map(void *map) { tn__file_map_close(map); }

/* ---- compiling
 * -------------------------------------------------------------------------------------------------------------------
 */

/* Everything that the executable depends on. */
static tn__digest executable_key(const tn__driver *driver, const tn__onnx_model *model) {
  const tn_compile_options *o = driver->options;
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__build_identity(&h);
  tn__digest model_digest = tn__onnx_digest(model);
  tn__sha256_update(&h, model_digest.bytes, sizeof model_digest.bytes);
  tn__sha256_update_string(&h, driver->target.name);
  tn__sha256_update_u64(&h, (uint64_t)driver->schedule.threads);
  tn__sha256_update_u64(&h, (uint64_t)driver->schedule.vector_bytes);
  tn__sha256_update_u64(&h, (uint64_t)o->dim_count);
  for (int i = 0; i < o->dim_count; i++) {
    tn__sha256_update_string(&h, o->dims[i].name);
    tn__sha256_update_u64(&h, (uint64_t)o->dims[i].size);
  }
  return tn__sha256_final(&h);
}

static void compile_body(tn__arena *arena, void *user) {
  compile_call *call = user;
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__driver *driver = &c->driver;
  tn__driver_init(driver, arena, &call->options);
  double start = tn__now();
  c->model = tn__onnx_open(arena, call->path, call->data, call->size);
  tn__driver_time(driver, "open", tn__now() - start);
  bool cached = driver->cache && !call->options.print_after;
  tn__digest key = {0};
  start = tn__now();
  if (cached) {
    key = executable_key(driver, c->model);
    tn__onnx_forget_pages(c->model);
    tn__file_map *map = TN__NEW(arena, tn__file_map);
    tn__bytes entry;
    tn__arena_defer(arena, close_map, map);
    if (tn__cache_map(driver->cache, "exe", &key, map, &entry)) {
      tn__driver_time(driver, "cache", tn__now() - start);
      tn__check(arena->escape, make_module(driver, NULL, map, entry, &call->module));
      return;
    }
  }
  tn__compilation_front(c, call->path, call->data, call->size);
  tn__compilation_back(c);
  if (cached) tn__cache_put(driver->cache, arena, "exe", &key, &c->executable);
  tn__check(arena->escape, make_module(driver, &c->executable, NULL, (tn__bytes){0}, &call->module));
}

tn_status *tn_compile(const char *path, const void *data, size_t size, const tn_compile_options *options,
                      tn_module **out) {
  *out = NULL;
  if (!path) return tn_status_create(TN_INVALID_ARGUMENT, "the model needs a path, if only for messages");
  compile_call call = {.path = path, .data = data, .size = size, .options = tn__options_of(options)};
  TN_RETURN_IF_ERROR(tn__with_arena(call.options.allocator, compile_body, &call));
  *out = call.module;
  return NULL;
}

/* ---- stages
 * -----------------------------------------------------------------------------------------------------------------------
 */

static const char *const stages[] = {"graph", "te", "schedule", "tir", "llvm", "asm", "obj"};

static void emit_body(tn__arena *arena, void *user) {
  compile_call *call = user;
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  call->options.no_cache = true;
  tn__driver_init(&c->driver, arena, &call->options);
  tn__compilation_front(c, call->path, call->data, call->size);
  if (strcmp(call->stage, "graph") == 0) {
    tn__graph_print(c->graph, call->text);
  } else {
    tn__units_emit(&c->driver, c->units, c->unit_count, call->stage, call->text);
  }
  tn__check(arena->escape, tn__strbuf_status(call->text));
}

tn_status *tn_compile_emit(const char *path, const void *data, size_t size, const tn_compile_options *options,
                           const char *stage, char **out, size_t *out_size) {
  *out = NULL;
  *out_size = 0;
  bool known = false;
  for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) known |= stage && strcmp(stages[i], stage) == 0;
  if (!known)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "there is no stage \"%s\": use graph, te, schedule, tir, llvm, asm or obj",
                            stage ? stage : "");
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  compile_call call = {
      .path = path, .data = data, .size = size, .options = tn__options_of(options), .stage = stage, .text = &text};
  tn_status *status = tn__with_arena(call.options.allocator, emit_body, &call);
  if (!status) {
    *out = malloc(text.length + 1);
    if (*out) {
      memcpy(*out, tn__strbuf_text(&text), text.length + 1);
      *out_size = text.length;
    } else {
      status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %zu bytes of text", text.length);
    }
  }
  tn__strbuf_release(&text);
  return status;
}
