/* Models whose operands do not fit: a model of the corpus of `onnx` with other ranks, dimensions, types and numbers of
 * operands, and other attributes. It is refused with a text, or what it becomes runs, on inputs whose open dimensions
 * have sizes of their own, without touching memory that is not its own.
 *
 * The input: two bytes that choose the model, one that chooses the inputs' numbers, and then four for each change:
 * what, which, where, value. */
#include <dirent.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/hash.h"
#include "fuzz/fuzz.h"
#include "guarded.h"
#include "import/onnx/internal.h"
#include "tenon/compile.h"

enum { HEAD = 3, MAX_CHANGES = 16, MAX_ELEMENTS = 1 << 14, MAX_BASE_RANK = 8, INTS = 7 /* AttributeProto.INTS */ };

/* ---- choosing a model -------------------------------------------------------------------------------------------- */

/* The file whose name has the hash next to `choice`: others that join the corpus change little of what inputs mean. */
static bool choose_model(unsigned choice, char *path, size_t path_size) {
  DIR *folder = opendir(TN_FUZZ_MODELS);
  require(folder != NULL);
  unsigned best = 1u << 16;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    size_t length = strlen(entry->d_name);
    if (length < 5 || strcmp(entry->d_name + length - 5, ".onnx") != 0) continue;
    unsigned distance = ((unsigned)tn__hash_string(0, entry->d_name) - choice) & 0xffff;
    if (distance >= best) continue;
    best = distance;
    snprintf(path, path_size, "%s/%s", TN_FUZZ_MODELS, entry->d_name);
  }
  closedir(folder);
  return best < 1u << 16;
}

static void *arena_alloc(void *arena, size_t size) { return tn__arena_alloc(arena, size); }
static void arena_free(void *arena, void *pointer) { (void)arena, (void)pointer; }

/* ---- changing it ------------------------------------------------------------------------------------------------- */

typedef struct change {
  unsigned what, which, where, value;
} change;

static char *copy_text(tn__arena *arena, const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(tn__arena_alloc(arena, size), text, size);
}

/* The array with room for one more element at `index`. Arrays are protobuf-c's: pointers or numbers, and their
 * count. */
static void *make_room(tn__arena *arena, const void *array, size_t *count, size_t index, size_t size) {
  char *fresh = tn__arena_alloc(arena, (*count + 1) * size);
  if (index > 0) memcpy(fresh, array, index * size);
  if (index < *count) memcpy(fresh + (index + 1) * size, (const char *)array + index * size, (*count - index) * size);
  (*count)++;
  return fresh;
}

static void take_out(void *array, size_t *count, size_t index, size_t size) {
  char *items = array;
  memmove(items + index * size, items + (index + 1) * size, (*count - index - 1) * size);
  (*count)--;
}

static int64_t interesting(unsigned value) {
  static const int64_t rare[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, (int64_t)1 << 32, 1000, 65536, -1000};
  return value < 248 ? (int64_t)(value % 16) - 4 : rare[value - 248];
}

static void set_dimension(tn__arena *arena, Onnx__TensorShapeProto__Dimension *dim, const change *c) {
  if (c->value % 12 < 10) {
    dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    dim->dim_value = c->value % 12;
    return;
  }
  char name[32] = "shared";
  if (c->value % 12 == 10) snprintf(name, sizeof name, "s%u_%u", c->which, c->where);
  dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
  dim->dim_param = copy_text(arena, name);
}

static void change_input(tn__arena *arena, Onnx__GraphProto *graph, const change *c) {
  static const int types[] = {1, 2, 3, 6, 7, 9, 10, 11, 12, 13, 16, 8, 5, 4};
  if (graph->n_input == 0) return;
  Onnx__TypeProto *type = graph->input[c->which % graph->n_input]->type;
  if (type == NULL || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return;
  Onnx__TypeProto__Tensor *tensor = type->tensor_type;
  Onnx__TensorShapeProto *shape = tensor->shape;
  if (c->what == 2) {
    tensor->elem_type = types[c->value % (sizeof types / sizeof types[0])];
    for (size_t i = 0; i < graph->n_output; i++) graph->output[i]->type = NULL;
  }
  if (shape == NULL || c->what == 2) return;
  size_t where = shape->n_dim == 0 ? 0 : c->where % shape->n_dim;
  if (c->what == 0 && shape->n_dim > 0) set_dimension(arena, shape->dim[where], c);
  if (c->what != 1) return;
  if (c->value % 2 == 0 && shape->n_dim > 0) {
    take_out(shape->dim, &shape->n_dim, where, sizeof shape->dim[0]);
  } else if (shape->n_dim < MAX_BASE_RANK) {
    Onnx__TensorShapeProto__Dimension *dim = tn__arena_alloc(arena, sizeof *dim);
    onnx__tensor_shape_proto__dimension__init(dim);
    set_dimension(arena, dim, &(change){.which = c->which, .where = c->where, .value = c->value / 2});
    shape->dim = make_room(arena, shape->dim, &shape->n_dim, where, sizeof shape->dim[0]);
    shape->dim[where] = dim;
  }
}

static void change_operands(tn__arena *arena, Onnx__GraphProto *graph, const change *c) {
  if (graph->n_node == 0) return;
  Onnx__NodeProto *node = graph->node[c->which % graph->n_node];
  size_t where = node->n_input == 0 ? 0 : c->where % node->n_input;
  char *other = copy_text(arena, "");
  if (c->value % 4 != 0 && graph->n_input > 0) other = graph->input[c->value / 4 % graph->n_input]->name;
  if (c->what == 3 && node->n_input > 0) node->input[where] = other;
  if (c->what == 4 && c->value % 2 == 0 && node->n_input > 0) node->n_input--;
  if (c->what == 4 && c->value % 2 == 1) {
    node->input = make_room(arena, node->input, &node->n_input, node->n_input, sizeof node->input[0]);
    node->input[node->n_input - 1] = other;
  }
  if (c->what == 5 && c->value % 2 == 0 && node->n_output > 1) node->n_output--;
  if (c->what == 5 && c->value % 2 == 1) {
    node->output = make_room(arena, node->output, &node->n_output, node->n_output, sizeof node->output[0]);
    node->output[node->n_output - 1] = copy_text(arena, "more_outputs");
  }
}

static void change_attribute(tn__arena *arena, Onnx__GraphProto *graph, const change *c) {
  if (graph->n_node == 0) return;
  Onnx__NodeProto *node = graph->node[c->which % graph->n_node];
  if (node->n_attribute == 0) return;
  size_t index = c->where % node->n_attribute;
  Onnx__AttributeProto *attribute = node->attribute[index];
  size_t place = attribute->n_ints == 0 ? 0 : c->where / node->n_attribute % attribute->n_ints;
  if (c->what == 6 && attribute->n_ints > 0)
    attribute->ints[place] = interesting(c->value);
  else if (c->what == 6)
    attribute->i = interesting(c->value), attribute->f = (float)attribute->i;
  if (c->what == 7 && c->value % 2 == 0 && attribute->n_ints > 0)
    take_out(attribute->ints, &attribute->n_ints, place, sizeof attribute->ints[0]);
  if (c->what == 7 && c->value % 2 == 1 && attribute->type == INTS) {
    attribute->ints = make_room(arena, attribute->ints, &attribute->n_ints, place, sizeof attribute->ints[0]);
    attribute->ints[place] = interesting(c->value / 2);
  }
  if (c->what == 8) take_out(node->attribute, &node->n_attribute, index, sizeof node->attribute[0]);
}

/* A constant of another shape, whose elements are small numbers. */
static void change_constant(tn__arena *arena, Onnx__GraphProto *graph, const change *c) {
  if (graph->n_initializer == 0) return;
  Onnx__TensorProto *tensor = graph->initializer[c->which % graph->n_initializer];
  if (tensor->data_type == 8 || tensor->n_external_data > 0) return;
  size_t where = tensor->n_dims == 0 ? 0 : c->where % tensor->n_dims;
  if (c->value % 4 == 0 && tensor->n_dims > 0)
    take_out(tensor->dims, &tensor->n_dims, where, sizeof tensor->dims[0]);
  else if (c->value % 4 == 1 && tensor->n_dims < MAX_BASE_RANK)
    tensor->dims = make_room(arena, tensor->dims, &tensor->n_dims, where, sizeof tensor->dims[0]);
  if (where < tensor->n_dims) tensor->dims[where] = c->value / 4 % 8;
  size_t elements = 1, width = tn_dtype_size(tn__onnx_dtype(tensor->data_type));
  if (width == 0) width = 1;
  for (size_t i = 0; i < tensor->n_dims; i++) elements *= (size_t)tensor->dims[i];
  if (elements > MAX_ELEMENTS) return;
  tn_dtype dtype;
  int bits = tn__onnx_narrow(tensor->data_type, &dtype);
  size_t bytes = bits > 0 ? (elements * (size_t)bits + 7) / 8 : elements * width;
  tensor->n_float_data = tensor->n_int32_data = tensor->n_int64_data = tensor->n_double_data = tensor->n_uint64_data =
      0;
  tensor->has_raw_data = 1;
  tensor->raw_data.len = bytes;
  tensor->raw_data.data = tn__arena_alloc(arena, bytes + 1);
  memset(tensor->raw_data.data, 0, bytes);
  for (size_t i = 0; i * width < bytes; i++) tensor->raw_data.data[i * width] = (uint8_t)(i % 3);
}

static void apply(tn__arena *arena, Onnx__GraphProto *graph, const change *c) {
  if (c->what <= 2) change_input(arena, graph, c);
  if (c->what >= 3 && c->what <= 5) change_operands(arena, graph, c);
  if (c->what >= 6 && c->what <= 8) change_attribute(arena, graph, c);
  if (c->what == 9) change_constant(arena, graph, c);
}

/* ---- running it -------------------------------------------------------------------------------------------------- */

typedef struct run {
  const tn_executable *executable;
  tn_session *session;
  uint64_t seed, state; /* of the numbers; what comes next */
  uint64_t result;      /* a hash of the outputs */
} run;

static uint64_t next_number(run *r) {
  r->state = tn__hash_mix(r->state, 1);
  return r->state;
}

/* Small numbers, as sizes, indices and conditions are; every eighth seed has some from the ends of what the type
 * holds. */
static void fill_element(run *r, tn_dtype dtype, void *element) {
  uint64_t number = next_number(r);
  bool extreme = r->seed % 8 == 7 && number >> 60 == 0;
  int64_t small = extreme ? interesting(248 + (unsigned)(number % 8)) : (int64_t)(number % 5) - 1;
  double real = extreme ? (double)small * 1e300 : (double)small * 0.75;
  float single = (float)real;
  switch (dtype) {
    case TN_BOOL: *(uint8_t *)element = number % 3 != 0; break;
    case TN_F32: memcpy(element, &single, sizeof single); break;
    case TN_F64: memcpy(element, &real, sizeof real); break;
    case TN_F16: memcpy(element, &(uint16_t){(uint16_t)(0x3800 + number % 0x800)}, 2); break;
    case TN_BF16: memcpy(element, &(uint16_t){(uint16_t)(0x3f00 + number % 0x100)}, 2); break;
    case TN_STRING: *(tn_string *)element = (tn_string){"a b,1.5", number % 8}; break;
    default: memcpy(element, &small, tn_dtype_size(dtype)); break;
  }
}

/* False: too large. Equal names are equal sizes. */
static bool make_tensor(run *r, const tn_value_info *info, int rank, int64_t *shape, DLTensor *out) {
  int64_t count = 1;
  for (int d = 0; d < rank; d++) {
    const tn_dim_info *dim = info->rank == rank ? info->dims[d] : NULL;
    bool listed = info->kind != TN_VALUE_TENSOR || dim == NULL;
    shape[d] = !listed && dim->size >= 0 ? dim->size
               : !listed && dim->name    ? (int64_t)(tn__hash_string(r->seed, dim->name) % 6)
                                         : (int64_t)(next_number(r) % 4);
    if (shape[d] > MAX_ELEMENTS || (count *= shape[d]) > MAX_ELEMENTS) return false;
  }
  size_t width = tn_dtype_size(info->dtype);
  uint8_t *data = guarded_alloc((size_t)count * width, (size_t)info->alignment < 16 ? 16 : (size_t)info->alignment);
  if (data == NULL) return false;
  for (int64_t i = 0; i < count; i++) fill_element(r, info->dtype, data + (size_t)i * width);
  guarded_protect(data);
  *out = (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = tn_dtype_to_dl(info->dtype)};
  out->shape = shape;
  return true;
}

static bool bind_input(run *r, int index, tn_status **status) {
  const tn_value_info *info = tn_executable_input(r->executable, NULL, index);
  DLTensor tensors[2];
  int64_t shapes[2][TN_MAX_RANK];
  bool list = info->kind != TN_VALUE_TENSOR, optional = info->kind >= TN_VALUE_OPTIONAL;
  int count = !list ? 1 : info->kind == TN_VALUE_OPTIONAL ? (int)(next_number(r) % 2) : (int)(next_number(r) % 3);
  for (int i = 0; i < count; i++)
    if (!make_tensor(r, info, info->rank < 0 ? 1 : info->rank, shapes[i], &tensors[i])) return false;
  if (optional && count == 0) count = -1;
  *status = list ? tn_session_set_input_list(r->session, NULL, index, tensors, count)
                 : tn_session_set_input_at(r->session, NULL, index, &tensors[0], TN_BIND_PERSISTENT);
  return true;
}

static void hash_outputs(run *r) {
  for (int i = 0; i < tn_executable_output_count(r->executable, NULL); i++) {
    const tn_value_info *info = tn_executable_output(r->executable, NULL, i);
    DLTensor view;
    if (info->kind != TN_VALUE_TENSOR || info->dtype == TN_STRING) continue;
    require(tn_session_get_output(r->session, NULL, i, &view) == NULL);
    int64_t count = tn_element_count(view.ndim, view.shape);
    require(count >= 0 && view.strides == NULL);
    r->result = tn__hash_bytes(r->result, view.shape, (size_t)view.ndim * sizeof(int64_t));
    if (count > 0) r->result = tn__hash_bytes(r->result, view.data, (size_t)count * tn_dtype_size(info->dtype));
  }
}

/* Takes a status, which must say that all is well or why the model or its inputs are refused. */
static void check_refusal(tn_status *status) {
  static const tn_status_code never[] = {TN_INTERNAL, TN_DATA_LOSS, TN_IO, TN_CANCELLED};
  bool wrong = status != NULL && strlen(tn_status_message(status)) < 10;
  for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) wrong = wrong || tn_status_code_of(status) == never[i];
  if (wrong) fprintf(stderr, "%s: %s\n", tn_status_code_name(tn_status_code_of(status)), tn_status_message(status));
  require(!wrong);
  tn_status_free(status);
}

/* The outcome, and in r->result what came out. */
static tn_status_code run_once(run *r, bool at_start, uint8_t fill) {
  guarded_memory.at_start = at_start, guarded_memory.fill = fill, guarded_memory.limit = (size_t)32 << 20;
  r->state = r->seed, r->result = 0;
  tn_session_options options = {.size = sizeof options, .allocator = &guarded_allocator, .threads = 1};
  tn_status *status = tn_session_create(r->executable, &options, &r->session);
  bool fits = true;
  for (int i = 0; i < tn_executable_input_count(r->executable, NULL) && fits && status == NULL; i++)
    fits = bind_input(r, i, &status);
  if (fits && status == NULL) status = tn_session_invoke(r->session, NULL);
  if (fits && status == NULL) hash_outputs(r);
  tn_session_release(r->session);
  require(guarded_sweep(0));
  tn_status_code code = tn_status_code_of(status);
  check_refusal(status);
  return code;
}

/* Fresh memory holds different bytes in the two runs, and must not matter. */
static void run_twice(const tn_module *module, uint64_t seed) {
  tn_executable *executable;
  tn_status *status = tn_module_load(module, NULL, &executable);
  require(status == NULL);
  run first = {.executable = executable, .seed = seed}, second = first;
  tn_status_code code = run_once(&first, false, 0xff);
  require(run_once(&second, true, 0x5a) == code && second.result == first.result);
  tn_executable_release(executable);
}

static bool has_operator(const Onnx__GraphProto *graph, const char *name) {
  for (size_t i = 0; i < graph->n_node; i++)
    if (graph->node[i]->op_type != NULL && strcmp(graph->node[i]->op_type, name) == 0) return true;
  return false;
}

/* Loops are not run: one without end may be what the model asks for. */
static void compile_and_run(const void *data, size_t size, uint64_t seed, bool ends) {
  tn_compile_options options = {.size = sizeof options, .no_cache = true, .run_threads = 1, .compile_threads = 1};
  tn_module *module;
  tn_status *status = tn_compile("fuzz.onnx", data, size, &options, &module);
  if (status == NULL && ends) run_twice(module, seed);
  check_refusal(status);
  tn_module_release(module);
}

static void import_only(tn__escape *escape, void *arg) {
  fuzz_input *in = arg;
  tn__onnx_model *model = tn__onnx_open(&in->arena, "/nonexistent/fuzz.onnx", in->data, in->size);
  tn__graph *graph = tn__onnx_import(model, tn__ir_create(&in->arena), NULL);
  tn_status *status = tn__graph_verify(graph);
  require(status == NULL);
}

static void body(tn__escape *escape, void *arg) {
  fuzz_input *in = arg;
  tn__arena *arena = &in->arena;
  arena->escape = escape;
  char path[4096];
  if (in->size < HEAD || !choose_model(in->data[0] | (unsigned)in->data[1] << 8, path, sizeof path)) return;
  tn__file_map map;
  tn__check(escape, tn__file_map_open(path, &map));
  ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
  Onnx__ModelProto *model = onnx__model_proto__unpack(&allocator, map.size, map.data);
  require(model != NULL && model->graph != NULL);
  tn__file_map_close(&map);
  model->graph->n_value_info = 0;
  for (size_t i = 0; i < model->graph->n_output; i++) {
    Onnx__TypeProto *type = model->graph->output[i]->type;
    if (type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) type->tensor_type->shape = NULL;
  }
  const uint8_t *at = in->data + HEAD;
  for (int i = 0; i < MAX_CHANGES && in->data + in->size - at >= 4; i++, at += 4) {
    change c = {at[0] % 10, at[1], at[2], at[3]};
    apply(arena, model->graph, &c);
  }
  size_t size = onnx__model_proto__get_packed_size(model);
  uint8_t *bytes = tn__arena_alloc(arena, size + 1);
  onnx__model_proto__pack(model, bytes);
  if (in->data[2] % 4 != 0) {
    check_refusal(fuzz_with(bytes, size, import_only));
    return;
  }
  compile_and_run(bytes, size, in->data[2] / 4, !has_operator(model->graph, "Loop"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_status *status = fuzz_with(data, size, body);
  require(status == NULL);
  return 0;
}
