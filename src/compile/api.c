/* The public entry points of <tenon/compile.h> that make executables. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compile/module.h"

typedef struct compile_call {
  const char *path;
  const void *data;
  size_t size;
  tn_compile_options options;
  tn_module *module; /* out of tn_compile */
  const char *stage; /* of tn_compile_emit */
  tn__strbuf *text;
} compile_call;

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
  tn__target_hash(&driver->target, &h);
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
      tn__check(arena->escape, tn__module_create(driver, NULL, map, entry, &call->module));
      return;
    }
  }
  tn__compilation_front(c, call->path, call->data, call->size);
  tn__compilation_back(c);
  if (cached) tn__cache_put(driver->cache, arena, "exe", &key, &c->executable);
  tn__check(arena->escape, tn__module_create(driver, &c->executable, NULL, (tn__bytes){0}, &call->module));
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
