/* Opening: the file, its wire, its operator sets and functions, and the external data that it refers to. */
#include <string.h>

#include "base/file.h"
#include "base/message.h"
#include "import/onnx/internal.h"

/* ---- errors with the file's name --------------------------------------------------------------------------------- */

/* What two arenas (the second may be NULL) throw goes to the caller. */
static tn_status *protect(tn__arena *arena, tn__arena *other, void (*body)(tn__escape *escape, void *arg), void *arg) {
  tn__escape inner, *outer = arena->escape, *outer_other = other == NULL ? NULL : other->escape;
  arena->escape = &inner;
  if (other != NULL) other->escape = &inner;
  tn_status *status = tn__protect(&inner, body, arg);
  if (other != NULL) other->escape = outer_other;
  arena->escape = outer;
  return status;
}

void tn__onnx_with_path(const char *path, tn__arena *arena, tn__arena *other,
                        void (*body)(tn__escape *escape, void *arg), void *arg) {
  tn_status *status = protect(arena, other, body, arg);
  if (status != NULL) tn__throw(arena->escape, tn_status_prefix(status, "%s", path));
}

tn_status *tn__onnx_try(const tn__onnx_model *model, tn__arena *arena, void (*body)(tn__escape *escape, void *arg),
                        void *arg) {
  return protect(arena, arena == model->arena ? NULL : model->arena, body, arg);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

const char *tn__onnx_domain(const char *domain) {
  return domain == NULL || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

const char *tn__onnx_function_key(tn__arena *arena, const char *domain, const char *name, const char *overload) {
  return tn__arena_printf(arena, "%s:%s:%s", tn__onnx_domain(domain), name == NULL ? "" : name,
                          overload == NULL ? "" : overload);
}

static void check_imports(tn__onnx_model *model, Onnx__OperatorSetIdProto *const *imports, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (tn__onnx_domain(imports[i]->domain)[0] != '\0') continue;
    if (imports[i]->version < TN__ONNX_OLDEST || imports[i]->version > TN__ONNX_NEWEST)
      tn__throwf(model->arena->escape, TN_UNSUPPORTED, "uses operator set %lld of ONNX; %d to %d are supported",
                 (long long)imports[i]->version, TN__ONNX_OLDEST, TN__ONNX_NEWEST);
  }
}

static void take_functions(tn__onnx_model *model) {
  const Onnx__ModelProto *proto = model->proto;
  for (size_t i = 0; i < proto->n_functions; i++) {
    const Onnx__FunctionProto *f = proto->functions[i];
    const char *key = tn__onnx_function_key(model->arena, f->domain, f->name, f->overload);
    if (tn__map_set(&model->functions, key, proto->functions[i]) != NULL)
      tn__throwf(model->arena->escape, TN_INVALID_ARGUMENT, "function \"%s\" of domain \"%s\" is defined twice",
                 f->name == NULL ? "" : f->name, tn__onnx_domain(f->domain));
    check_imports(model, f->opset_import, f->n_opset_import);
  }
}

/* ---- external data: found, mapped and checked when the model is opened, so that a digest covers it --------------- */

static void visit_graph(tn__onnx_model *model, const Onnx__GraphProto *graph);

/* Integers are counted as the least that one takes. */
static uint64_t tensor_bytes(const Onnx__TensorProto *t) {
  uint64_t raw = t->has_raw_offset ? t->raw_size : t->raw_data.len;
  uint64_t bytes =
      raw + 4 * t->n_float_data + 8 * t->n_double_data + t->n_int32_data + t->n_int64_data + t->n_uint64_data;
  for (size_t i = 0; i < t->n_string_data; i++) bytes += t->string_data[i].len;
  return bytes;
}

static void visit_tensor(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *kind) {
  if (tensor == NULL) return;
  model->tensor_bytes += tensor_bytes(tensor);
  if (tensor->data_location == 0) return;
  tn__onnx_external(model, tensor,
                    tn__shown_text(model->arena, "%s \"%s\"", kind, tensor->name == NULL ? "" : tensor->name));
}

static void visit_nodes(tn__onnx_model *model, Onnx__NodeProto *const *nodes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
      const Onnx__AttributeProto *a = nodes[i]->attribute[k];
      visit_tensor(model, a->t, "tensor attribute");
      for (size_t t = 0; t < a->n_tensors; t++) visit_tensor(model, a->tensors[t], "tensor attribute");
      if (a->g != NULL) visit_graph(model, a->g);
      for (size_t g = 0; g < a->n_graphs; g++) visit_graph(model, a->graphs[g]);
    }
  }
}

/* Recursion is bounded by TN__WIRE_MAX_GRAPHS. */
static void visit_graph(tn__onnx_model *model, const Onnx__GraphProto *graph) {
  for (size_t i = 0; i < graph->n_initializer; i++) visit_tensor(model, graph->initializer[i], "initializer");
  visit_nodes(model, graph->node, graph->n_node);
}

static void open_body(tn__escape *escape, void *arg) {
  tn__onnx_model *model = arg;
  tn__arena *arena = model->arena;
  model->proto =
      (Onnx__ModelProto *)tn__onnx_decode_wire(arena, &onnx__model_proto__descriptor, model->data, model->size);
  if (model->proto->graph == NULL)
    tn__throwf(escape, TN_DATA_LOSS, "is not an ONNX model: it %s", model->size == 0 ? "is empty" : "has no graph");
  if (model->proto->n_opset_import == 0 && model->proto->ir_version >= 3)
    tn__throwf(escape, TN_INVALID_ARGUMENT, "does not say which operator sets it uses (opset_import is empty)");
  check_imports(model, model->proto->opset_import, model->proto->n_opset_import);
  take_functions(model);
  visit_graph(model, model->proto->graph);
  for (size_t i = 0; i < model->proto->n_functions; i++)
    visit_nodes(model, model->proto->functions[i]->node, model->proto->functions[i]->n_node);
}

static void close_map(void *map) { tn__file_map_close(map); }

static tn__file_map *map_file(tn__arena *arena, const char *path) {
  tn__file_map *map = TN__NEW(arena, tn__file_map);
  tn__check(arena->escape, tn__file_map_open(path, map));
  tn__arena_defer(arena, close_map, map);
  return map;
}

static tn__onnx_model *model_create(tn__arena *arena, const char *path, const void *data, size_t size) {
  tn__onnx_model *model = TN__NEW(arena, tn__onnx_model);
  const char *slash = strrchr(path, '/');
  model->arena = arena;
  model->path = tn__arena_strdup(arena, path);
  model->folder = slash == NULL ? "." : slash == path ? "/" : tn__arena_strndup(arena, path, (size_t)(slash - path));
  model->data = data;
  model->size = size;
  tn__map_init(&model->externals, arena);
  tn__map_init(&model->functions, arena);
  return model;
}

tn__onnx_model *tn__onnx_open(tn__arena *arena, const char *path, const void *data, size_t size) {
  const tn__file_map *map = data == NULL ? map_file(arena, path) : NULL;
  tn__onnx_model *model =
      map == NULL ? model_create(arena, path, data, size) : model_create(arena, path, map->data, map->size);
  model->map = map;
  tn__onnx_with_path(path, arena, NULL, open_body, model);
  return model;
}

static void add_bytes(tn__sha256 *hasher, const void *data, size_t size, int threads) {
  tn__digest digest = tn__sha256_tree(data, size, threads);
  tn__sha256_update(hasher, digest.bytes, sizeof digest.bytes);
}

tn__digest tn__onnx_digest(const tn__onnx_model *model, int threads) {
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  add_bytes(&hasher, model->data, model->size, threads);
  for (int i = 0; i < model->externals.count; i++) {
    const tn__file_map *map = model->externals.entries[i].value;
    tn__sha256_update_string(&hasher, model->externals.entries[i].key);
    add_bytes(&hasher, map->data, map->size, threads);
  }
  return tn__sha256_final(&hasher);
}

uint64_t tn__onnx_structure(const tn__onnx_model *model) {
  uint64_t data = model->tensor_bytes < model->size ? model->tensor_bytes : model->size, structure = model->size - data;
  for (int i = 0; i < model->externals.count; i++)
    data += ((const tn__file_map *)model->externals.entries[i].value)->size;
  return structure + data / 1000;
}

void tn__onnx_forget_pages(const tn__onnx_model *model) {
  if (model->map != NULL) tn__file_map_forget(model->map);
  for (int i = 0; i < model->externals.count; i++) tn__file_map_forget(model->externals.entries[i].value);
}

int64_t tn__onnx_opset(const tn__onnx_model *model, const char *domain) {
  for (size_t i = 0; i < model->proto->n_opset_import; i++) {
    const Onnx__OperatorSetIdProto *import = model->proto->opset_import[i];
    if (strcmp(tn__onnx_domain(import->domain), tn__onnx_domain(domain)) == 0) return import->version;
  }
  return 0;
}

/* ---- single tensors ---------------------------------------------------------------------------------------------- */

typedef struct read_request {
  tn__onnx_model *model;
  tn__onnx_tensor tensor;
} read_request;

static void read_one(tn__onnx_model *model, const Onnx__TensorProto *proto, const char *what, tn__onnx_tensor *out) {
  tn__onnx_tensor_read(model, proto, what, out);
  if ((uintptr_t)out->data % tn_dtype_size(out->dtype) != 0)
    out->data = tn__arena_copy(model->arena, out->data, out->size);
}

static void read_body(tn__escape *escape, void *arg) {
  read_request *r = arg;
  const ProtobufCMessage *message =
      tn__onnx_decode_wire(r->model->arena, &onnx__tensor_proto__descriptor, r->model->data, r->model->size);
  const Onnx__TensorProto *proto = (const Onnx__TensorProto *)message;
  read_one(r->model, proto, tn__shown_text(r->model->arena, "tensor \"%s\"", proto->name == NULL ? "" : proto->name),
           &r->tensor);
}

tn__onnx_tensor tn__onnx_read_tensor(tn__arena *arena, const char *path) {
  const tn__file_map *map = map_file(arena, path);
  read_request *r = TN__NEW(arena, read_request);
  r->model = model_create(arena, path, map->data, map->size);
  tn__onnx_with_path(path, arena, NULL, read_body, r);
  return r->tensor;
}

typedef struct list_request {
  tn__onnx_model *model;
  bool optional;
  tn__onnx_tensor *list;
  int count;
} list_request;

static void read_sequence(list_request *r, const Onnx__SequenceProto *proto) {
  if (proto->n_tensor_values == 0 && proto->elem_type > 1)
    tn__throwf(r->model->arena->escape, TN_UNSUPPORTED, "a sequence of what is no tensor (kind %d)", proto->elem_type);
  r->list = TN__NEW_ARRAY(r->model->arena, (int)proto->n_tensor_values, tn__onnx_tensor);
  for (size_t i = 0; i < proto->n_tensor_values; i++)
    read_one(r->model, proto->tensor_values[i], tn__arena_printf(r->model->arena, "tensor %zu of the sequence", i),
             &r->list[r->count++]);
}

static void read_list_body(tn__escape *escape, void *arg) {
  list_request *r = arg;
  tn__onnx_model *model = r->model;
  const ProtobufCMessageDescriptor *type =
      r->optional ? &onnx__optional_proto__descriptor : &onnx__sequence_proto__descriptor;
  const ProtobufCMessage *message = tn__onnx_decode_wire(model->arena, type, model->data, model->size);
  if (!r->optional) {
    read_sequence(r, (const Onnx__SequenceProto *)message);
    return;
  }
  const Onnx__OptionalProto *proto = (const Onnx__OptionalProto *)message;
  if (proto->sequence_value != NULL) {
    read_sequence(r, proto->sequence_value);
  } else if (proto->tensor_value != NULL) {
    r->list = TN__NEW(model->arena, tn__onnx_tensor);
    read_one(model, proto->tensor_value, "the optional's tensor", &r->list[r->count++]);
  } else {
    r->count = -1;
  }
}

int tn__onnx_read_list(tn__arena *arena, const char *path, bool optional, const tn__onnx_tensor **out) {
  const tn__file_map *map = map_file(arena, path);
  list_request *r = TN__NEW(arena, list_request);
  r->model = model_create(arena, path, map->data, map->size);
  r->optional = optional;
  tn__onnx_with_path(path, arena, NULL, read_list_body, r);
  *out = r->list;
  return r->count;
}
