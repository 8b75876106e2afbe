/* tn_inspect: facts about models and executables as JSON (docs/inspect.md). */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "driver/driver.h"
#include "inspect/devices.h"

typedef struct inspect_call {
  const char *path;
  tn_compile_options options;
  tn__strbuf *json;
} inspect_call;

static void key(tn__strbuf *json, const char *name) { tn__strbuf_printf(json, "\"%s\": ", name); }

static void string_member(tn__strbuf *json, const char *name, const char *value) {
  key(json, name);
  tn__strbuf_json_string(json, value ? value : "");
}

/* A number, or null when it is not known. */
static void number_member(tn__strbuf *json, const char *name, double value) {
  key(json, name);
  if (value < 0) {
    tn__strbuf_append(json, "null");
  } else {
    tn__strbuf_printf(json, "%.0f", value);
  }
}

/* ---- executables ------------------------------------------------------------------------------------------------- */

static void capacity_member(tn__strbuf *json, const tn_value_info *v) {
  bool any = false;
  for (int d = 0; d < v->rank; d++) any = any || v->dims[d]->capacity > 0;
  for (int d = 0; any && d < v->rank; d++) {
    tn__strbuf_append(json, d ? ", " : ", \"capacity\": [");
    if (v->dims[d]->capacity > 0)
      tn__strbuf_printf(json, "%lld", (long long)v->dims[d]->capacity);
    else
      tn__strbuf_append(json, "null");
  }
  if (any) tn__strbuf_append(json, "]");
}

static void default_member(tn__strbuf *json, const tn_value_info *v) {
  if (v->fallback == NULL) return;
  tn__strbuf_append(json, ", \"default\": [");
  for (int d = 0; d < v->fallback->ndim; d++)
    tn__strbuf_printf(json, "%s%lld", d ? ", " : "", (long long)v->fallback->shape[d]);
  tn__strbuf_append(json, "]");
}

static void signature(tn__strbuf *json, const tn_executable *exe, bool inputs) {
  int count = inputs ? tn_executable_input_count(exe, NULL) : tn_executable_output_count(exe, NULL);
  key(json, inputs ? "inputs" : "outputs");
  tn__strbuf_append(json, "[");
  for (int i = 0; i < count; i++) {
    const tn_value_info *v = inputs ? tn_executable_input(exe, NULL, i) : tn_executable_output(exe, NULL, i);
    tn__strbuf_append(json, i ? ", {" : "{");
    string_member(json, "name", v->name);
    tn__strbuf_append(json, ", ");
    static const char *const kinds[] = {"tensor", "sequence", "optional", "optional sequence"};
    string_member(json, "dtype", tn_dtype_name(v->dtype));
    if (v->kind != TN_VALUE_TENSOR) tn__strbuf_printf(json, ", \"kind\": \"%s\"", kinds[v->kind]);
    tn__strbuf_append(json, v->rank == TN_ANY_RANK ? ", \"shape\": null" : ", \"shape\": [");
    for (int d = 0; d < v->rank; d++) {
      if (d) tn__strbuf_append(json, ", ");
      if (v->dims[d]->size >= 0) {
        tn__strbuf_printf(json, "%lld", (long long)v->dims[d]->size);
      } else {
        tn__strbuf_json_string(json, v->dims[d]->name ? v->dims[d]->name : "?");
      }
    }
    if (v->rank != TN_ANY_RANK) tn__strbuf_append(json, "]");
    capacity_member(json, v);
    if (v->kind == TN_VALUE_TENSOR && v->dtype != TN_STRING)
      tn__strbuf_printf(json, ", \"alignment\": %d", v->alignment);
    if (v->strided) tn__strbuf_append(json, ", \"strided\": true");
    default_member(json, v);
    tn__inspect_value_device(json, v);
    tn__strbuf_append(json, "}");
  }
  tn__strbuf_append(json, "]");
}

static void executable_members(tn__strbuf *json, const tn_executable *exe) {
  const tn_executable_summary *s = tn_executable_summarize(exe);
  signature(json, exe, true);
  tn__strbuf_append(json, ",\n");
  signature(json, exe, false);
  tn__strbuf_append(json, ",\n");
  string_member(json, "target", s->target);
  tn__strbuf_append(json, ", ");
  string_member(json, "producer", s->producer);
  tn__strbuf_printf(json, ",\n\"file_bytes\": %llu, \"code_bytes\": %llu, \"constants\": %d, \"constant_bytes\": %llu",
                    (unsigned long long)s->file_bytes, (unsigned long long)s->code_bytes, s->constant_count,
                    (unsigned long long)s->constant_bytes);
  tn__strbuf_printf(json, ", \"workspace_bytes\": %lld, ", (long long)s->workspace_bytes);
  number_member(json, "peak_bytes", (double)s->peak_bytes);
  tn__inspect_devices(json, exe);
  tn__strbuf_append(json, ",\n\"kernels\": [");
  for (int i = 0; i < s->kernel_count; i++) {
    const tn_kernel_summary *k = tn_executable_kernel(exe, i);
    tn__strbuf_append(json, i ? ",\n {" : "\n {");
    string_member(json, "name", k->name);
    tn__strbuf_append(json, ", ");
    number_member(json, "code_bytes", (double)k->code_bytes);
    tn__strbuf_append(json, ", ");
    number_member(json, "flops", k->flops);
    tn__strbuf_append(json, ", ");
    number_member(json, "bytes", k->bytes);
    tn__inspect_kernel_device(json, exe, i);
    tn__strbuf_append(json, "}");
  }
  tn__strbuf_append(json, "]");
}

static void inspect_executable(tn__arena *arena, inspect_call *call, const void *data, size_t size) {
  tn_executable *exe;
  tn_load_options load = {.size = sizeof load, .allocator = arena->allocator, .inspect_only = true};
  if (data) {
    tn__check(arena->escape, tn_executable_load_memory(data, size, &load, &exe));
  } else {
    tn__check(arena->escape, tn_executable_load(call->path, &load, &exe));
  }
  executable_members(call->json, exe);
  tn_executable_release(exe);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* True when all of the model's operators are supported. */
static bool operator_members(tn__strbuf *json, tn__onnx_model *model) {
  const tn__onnx_op_use *uses;
  int count = tn__onnx_op_uses(model, &uses);
  bool supported = true;
  tn__strbuf_append(json, "\"operators\": [");
  for (int i = 0; i < count; i++) {
    const tn__onnx_op_use *u = &uses[i];
    tn__strbuf_append(json, i ? ",\n {" : "\n {");
    string_member(json, "name", u->name);
    tn__strbuf_append(json, ", ");
    string_member(json, "domain", u->domain && u->domain[0] ? u->domain : "ai.onnx");
    tn__strbuf_printf(json, ", \"since_version\": %d, \"count\": %d, \"supported\": %s", u->since_version, u->count,
                      u->supported ? "true" : "false");
    if (!u->supported) {
      tn__strbuf_append(json, ", ");
      string_member(json, "why", u->why);
    }
    tn__strbuf_append(json, "}");
    supported = supported && u->supported;
  }
  tn__strbuf_append(json, "]");
  return supported;
}

/* What branches and loops cost depends on values: then nobody knows. */
static void cost_members(tn__strbuf *json, const tn__compilation *c) {
  double flops = c->functions.count > 1 ? -1 : 0, bytes = flops, parameters = 0;
  for (int i = 0; i < c->unit_count; i++) {
    const tn__unit *u = &c->units[i];
    flops = flops < 0 || u->flops < 0 ? -1 : flops + u->flops;
    bytes = bytes < 0 || u->bytes < 0 ? -1 : bytes + u->bytes;
    for (int j = 0; j < u->input_count; j++) {
      if (!u->inputs[j]->data) continue;
      double n = 1;
      for (int d = 0; d < u->inputs[j]->rank; d++) n *= (double)tn__g_dim_const(u->inputs[j], d);
      parameters += n;
    }
  }
  number_member(json, "parameters", parameters);
  tn__strbuf_append(json, ", ");
  number_member(json, "flops", flops);
  tn__strbuf_append(json, ", ");
  number_member(json, "bytes_moved", bytes);
  tn__strbuf_printf(json, ",\n\"memory_plan\": {\"planned_bytes\": %lld, \"without_sharing\": %lld, \"in_place\": %d}",
                    (long long)c->stats.arena_bytes, (long long)c->stats.unplanned_bytes, c->stats.in_place);
}

static void inspect_model(tn__arena *arena, inspect_call *call) {
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__driver_init(&c->driver, arena, &call->options);
  c->model = tn__model_open(arena, call->path, NULL, 0);
  string_member(call->json, "kind", c->model->onnx ? "onnx" : "graph");
  tn__strbuf_append(call->json, ",\n");
  if (c->model->onnx) {
    tn__strbuf_printf(call->json, "\"opset\": %lld,\n", (long long)tn__onnx_opset(c->model->onnx, ""));
    if (!operator_members(call->json, c->model->onnx)) return;
    tn__strbuf_append(call->json, ",\n");
  }
  tn__compilation_front(c, call->path, NULL, 0);
  tn__compilation_back(c);
  cost_members(call->json, c);
  tn__strbuf_append(call->json, ",\n");
  tn__bytes file = tn__exe_join(arena, &c->executable);
  inspect_executable(arena, call, file.data, file.size);
  tn__driver_tell_times(&c->driver);
}

static void inspect_body(tn__arena *arena, void *user) {
  inspect_call *call = user;
  tn__file_map map;
  tn__check(arena->escape, tn__file_map_open(call->path, &map));
  size_t length = strlen(call->path);
  bool executable = map.size >= 8 && memcmp(map.data, TN__FILE_MAGIC, 8) == 0;
  executable |= length > 4 && strcmp(call->path + length - 4, ".tnx") == 0; /* if it is none, that is what is wrong */
  tn__file_map_close(&map);
  tn__strbuf_append(call->json, "{");
  string_member(call->json, "file", call->path);
  tn__strbuf_append(call->json, ", ");
  if (executable) {
    string_member(call->json, "kind", "executable");
    tn__strbuf_append(call->json, ",\n");
    inspect_executable(arena, call, NULL, 0);
  } else {
    inspect_model(arena, call);
  }
  tn__strbuf_append(call->json, "}\n");
  tn__check(arena->escape, tn__strbuf_status(call->json));
}

tn_status *tn_inspect(const char *path, const tn_compile_options *options, char **json) {
  TN__NEED("json", json);
  *json = NULL;
  TN__NEED("path", path);
  tn__strbuf text;
  inspect_call call = {.path = path, .json = &text};
  TN_RETURN_IF_ERROR(tn__driver_read_options(options, &call.options));
  tn__strbuf_init(&text, NULL);
  tn_status *status = tn__with_arena(call.options.allocator, inspect_body, &call);
  if (!status) {
    *json = strdup(tn__strbuf_text(&text));
    if (!*json) status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %zu bytes of text", text.length);
  }
  tn__strbuf_release(&text);
  return status;
}
