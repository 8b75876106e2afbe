/* The public entry points of <tenon/compile.h> that make executables. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "driver/devices.h"
#include "driver/module.h"
#include "graph/text.h"
#include "options/options.h"

typedef struct compile_call {
  const tn_model_function *functions;
  int function_count;
  tn_compile_options options;
  const tn__chooser *chooser; /* of schedules, out of tn__driver_compile_by */
  tn_module *module;          /* out of tn_compile */
  const char *stage;          /* of tn_compile_emit */
  tn__strbuf *text;
} compile_call;

static void close_map(void *map) { tn__file_map_close(map); }

/* ---- compiling --------------------------------------------------------------------------------------------------- */

tn__digest tn__driver_executable_key(const tn__driver *driver, const tn_model_function *functions, int count,
                                     tn__model *const *models) {
  tn_compile_options resolved = *driver->options;
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__kernels_build_identity(&h);
  for (int i = 0; i < count; i++) {
    tn__digest model_digest = tn__model_digest(models[i], driver->threads);
    tn__sha256_update_string(&h, functions[i].name);
    tn__sha256_update(&h, model_digest.bytes, sizeof model_digest.bytes);
  }
  tn__target constants = tn__driver_constants_target(driver);
  tn__target_hash(&driver->target, &h);
  tn__target_hash(&constants, &h);
  tn__driver_hash_devices(driver, &h);
  tn__chooser_hash(driver->chooser, NULL, &h);
  for (int i = 0; i < driver->variant_count; i++) {
    tn__sha256_update_string(&h, driver->variants[i].kind);
    tn__sha256_update_string(&h, driver->variants[i].digest);
    tn__sha256_update_u64(&h, (uint64_t)driver->variants[i].choice);
  }
  resolved.target = driver->target.name;
  resolved.machine = NULL; /* whose numbers the target has: a file may move */
  resolved.tuned = NULL;   /* whose traces and variants are there */
  resolved.run_threads = driver->schedule.threads;
  tn__options_hash(&resolved, &h);
  return tn__sha256_final(&h);
}

static tn__model **open_models(tn__driver *driver, const compile_call *call) {
  tn__model **models = TN__NEW_ARRAY(driver->arena, call->function_count, tn__model *);
  double start = tn__now();
  uint64_t structure = 0;
  for (int i = 0; i < call->function_count; i++) {
    const tn_model_function *f = &call->functions[i];
    models[i] = tn__model_open(driver->arena, f->path, f->data, f->data_size);
    structure += tn__model_structure(models[i]);
  }
  tn__driver_limit_work(driver, structure);
  tn__driver_time(driver, "open", tn__now() - start);
  return models;
}

static void compile_models(tn__compilation *c, const compile_call *call, tn__model *const *models) {
  const tn_compile_options *o = c->driver.options;
  bool *used = TN__NEW_ARRAY(c->driver.arena, o->dim_count + o->special_dim_count, bool);
  for (int i = 0; i < call->function_count; i++) tn__compilation_add(c, call->functions[i].name, models[i], used);
  tn__compilation_check_dims(c, used);
  tn__compilation_prepare(c);
  tn__compilation_back(c);
}

static void compile_body(tn__arena *arena, void *user) {
  compile_call *call = user;
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__driver *driver = &c->driver;
  tn__driver_init(driver, arena, &call->options);
  if (call->chooser != &tn__chooser_static) tn__driver_choose_by(driver, call->chooser);
  tn__model **models = open_models(driver, call);
  bool cached = driver->cache != NULL;
  tn__digest key = {0};
  double start = tn__now();
  if (cached) {
    key = tn__driver_executable_key(driver, call->functions, call->function_count, models);
    for (int i = 0; i < call->function_count; i++) tn__model_forget_pages(models[i]);
    tn__file_map *map = TN__NEW(arena, tn__file_map);
    tn__bytes entry;
    tn__arena_defer(arena, close_map, map);
    if (tn__cache_map(driver->cache, "exe", &key, map, &entry)) {
      tn__driver_time(driver, "cache", tn__now() - start);
      tn__check(arena->escape, tn__driver_module_create(driver, NULL, map, entry, &call->module));
      return;
    }
  }
  compile_models(c, call, models);
  if (cached && !tn__driver_warned_of_places(driver)) tn__cache_put(driver->cache, arena, "exe", &key, &c->executable);
  tn__check(arena->escape, tn__driver_module_create(driver, &c->executable, NULL, (tn__bytes){0}, &call->module));
}

static tn_status *check_names(const tn_model_function *functions, int count) {
  if (count < 1) return tn_status_create(TN_INVALID_ARGUMENT, "an executable has at least one function");
  for (int i = 0; i < count; i++) {
    if (!functions[i].path)
      return tn_status_create(TN_INVALID_ARGUMENT, "the model needs a path, if only for messages");
    if (!functions[i].name || !functions[i].name[0] || strchr(functions[i].name, '@'))
      return tn_status_create(TN_INVALID_ARGUMENT, "\"%s\" cannot name a function: it is empty or has a '@'",
                              functions[i].name ? functions[i].name : "");
    for (int j = 0; j < i; j++)
      if (strcmp(functions[i].name, functions[j].name) == 0)
        return tn_status_create(TN_INVALID_ARGUMENT, "two functions are named \"%s\"", functions[i].name);
  }
  return NULL;
}

tn_status *tn__driver_compile_by(const tn__chooser *chooser, const tn_model_function *functions, int count,
                                 const tn_compile_options *options, tn_module **out) {
  *out = NULL;
  TN_RETURN_IF_ERROR(check_names(functions, count));
  compile_call call = {.functions = functions, .function_count = count, .chooser = chooser};
  TN_RETURN_IF_ERROR(tn__driver_read_options(options, &call.options));
  TN_RETURN_IF_ERROR(tn__with_arena(call.options.allocator, compile_body, &call));
  *out = call.module;
  return NULL;
}

tn_status *tn_compile_arguments_check(const tn_model_function *functions, int count,
                                      const tn_compile_options *options) {
  TN__NEED_LIST("functions", functions, "count", count);
  tn_compile_options o;
  if (count != 0) TN_RETURN_IF_ERROR(check_names(functions, count));
  TN_RETURN_IF_ERROR(tn__driver_read_options(options, &o));
  return tn__with_arena(o.allocator, tn__driver_check_options, &o);
}

typedef struct source_call {
  tn_compile_options options;
  bool *out;
} source_call;

static void find_source(tn__arena *arena, void *user) {
  const source_call *call = user;
  *call->out = tn__driver_makes_source(arena, &call->options);
}

tn_status *tn_compile_makes_source(const tn_compile_options *options, bool *out) {
  TN__NEED("out", out);
  source_call call = {.out = out};
  *out = false;
  TN_RETURN_IF_ERROR(tn__driver_read_options(options, &call.options));
  return tn__with_arena(call.options.allocator, find_source, &call);
}

tn_status *tn_compile_functions(const tn_model_function *functions, int count, const tn_compile_options *options,
                                tn_module **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED_LIST("functions", functions, "count", count);
  return tn__driver_compile_by(&tn__chooser_static, functions, count, options, out);
}

tn_status *tn_compile(const char *path, const void *data, size_t size, const tn_compile_options *options,
                      tn_module **out) {
  TN__NEED("out", out);
  *out = NULL;
  tn_model_function only = {"main", path, data, size};
  return tn_compile_functions(&only, 1, options, out);
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static const char *const stages[] = {"graph", "te", "schedule", "tir", "llvm", "asm", "obj"};

static void emit_body(tn__arena *arena, void *user) {
  compile_call *call = user;
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  call->options.no_cache = true;
  tn__driver_init(&c->driver, arena, &call->options);
  const tn_model_function *model = call->functions;
  tn__compilation_open(c, model->path, model->data, model->data_size);
  if (strcmp(call->stage, "graph") == 0) {
    tn__compilation_optimize(c);
    tn__graph_write(c->graph, call->text);
  } else {
    tn__compilation_prepare(c);
    tn__units_emit(&c->driver, c->units, c->unit_count, call->stage, call->text);
  }
  tn__check(arena->escape, tn__strbuf_status(call->text));
}

tn_status *tn_compile_emit(const char *path, const void *data, size_t size, const tn_compile_options *options,
                           const char *stage, char **out, size_t *out_size) {
  TN__NEED("out", out);
  TN__NEED("out_size", out_size);
  *out = NULL;
  *out_size = 0;
  TN__NEED("path", path);
  TN__NEED("stage", stage);
  bool known = false;
  for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) known |= stage && strcmp(stages[i], stage) == 0;
  if (!known)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "there is no stage \"%s\": use graph, te, schedule, tir, llvm, asm or obj",
                            stage ? stage : "");
  tn__strbuf text;
  tn_model_function only = {"main", path, data, size};
  compile_call call = {.functions = &only, .function_count = 1, .stage = stage, .text = &text};
  TN_RETURN_IF_ERROR(tn__driver_read_options(options, &call.options));
  tn__strbuf_init(&text, NULL);
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
