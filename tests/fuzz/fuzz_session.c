/* Session calls in any order with any arguments, over a few executables compiled at the start: open sizes,
 * data-dependent sizes, a loop, sequences, optional values, strings. Each call succeeds or returns an error. No call
 * accesses memory outside its arguments, which end at inaccessible pages.
 *
 * Input: a byte that chooses the executable; then for each call a byte that chooses it, and its arguments. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "guarded.h"
#include "tenon/compile.h"
#include "tenon/runtime.h"

enum { MOST_CALLS = 24, BUFFERS = 6, MOST_ELEMENTS = 1 << 12, MOST_TENSORS = 4 };

static const char *const models[] = {"add_bcast.onnx",
                                     "nonzero_example.onnx",
                                     "loop11.onnx",
                                     "sequence_model1.onnx",
                                     "string_concat.onnx",
                                     "optional_get_element_optional_tensor.onnx",
                                     "sequence_insert_at_front.onnx",
                                     "attention_4d_with_past_and_present.onnx",
                                     "if.onnx"};
enum { MODELS = sizeof(models) / sizeof(models[0]) + 1 };

static const char open_graph[] =
    "graph \"open\" {\n"
    "  input x: f32[n, 4]\n"
    "  input y: f32[n, 4]\n"
    "  a: f32[n, 4] = add(x, y)\n"
    "  b: f32[n, 4] = tanh(a)\n"
    "  output \"a\" = a\n"
    "  output \"b\" = b\n"
    "}\n";

static tn_executable *executables[MODELS];

static void must(tn_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", tn_status_message(status));
  abort();
}

static tn_executable *compiled(unsigned which) {
  char path[1024];
  tn_module *module;
  const tn_compile_options options = {.size = sizeof(options), .target = "native", .no_cache = true};
  if (executables[which] != NULL) return executables[which];
  if (which + 1 == MODELS) {
    must(tn_compile("open.tng", open_graph, sizeof(open_graph) - 1, &options, &module));
  } else {
    snprintf(path, sizeof(path), "%s/%s", TN_FUZZ_MODELS, models[which]);
    must(tn_compile(path, NULL, 0, &options, &module));
  }
  must(tn_module_load(module, NULL, &executables[which]));
  tn_module_release(module);
  return executables[which];
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

typedef struct dice {
  const uint8_t *at, *end;
} dice;

static unsigned roll(dice *d, unsigned sides) { return d->at < d->end ? *d->at++ % sides : 0; }

/* Tensors live as long as the session, because persistent bindings are read later. */
typedef struct tensors {
  DLTensor list[64];
  int64_t shapes[64][TN_MAX_RANK], strides[64][TN_MAX_RANK];
  tn_string strings[MOST_ELEMENTS];
  int count;
} tensors;

static tensors made;

static int64_t interesting(dice *d, int64_t usual) {
  static const int64_t rare[] = {-1, INT64_MAX, INT64_MIN, (int64_t)1 << 32, 1 << 20, 1000};
  unsigned value = roll(d, 64);
  return value < 40 ? usual : value < 58 ? value - 40 : rare[value - 58];
}

/* Makes a tensor that the value accepts, or a wrong one. Small tensors have memory for their shape and strides. */
static const DLTensor *make_tensor(dice *d, const tn_value_info *info) {
  static const DLDataType types[] = {{kDLFloat, 32, 1},         {kDLInt, 64, 1},   {kDLUInt, 8, 1},  {kDLBool, 8, 1},
                                     {kDLOpaqueHandle, 128, 1}, {kDLFloat, 32, 4}, {kDLFloat, 7, 1}, {250, 64, 1}};
  if (made.count == 64 || roll(d, 16) == 15) return NULL;
  DLTensor *t = &made.list[made.count];
  int64_t *shape = made.shapes[made.count], *strides = made.strides[made.count++];
  int rank = info == NULL || info->rank < 0 ? 1 : info->rank;
  *t = (DLTensor){.device = {kDLCPU, 0}, .shape = shape, .ndim = rank};
  t->dtype = info == NULL ? types[0] : tn_dtype_to_dl(info->dtype);
  if (roll(d, 16) == 1) t->dtype = types[roll(d, 8)];
  if (roll(d, 16) == 1) t->ndim = (int)roll(d, 20) - 1;
  if (roll(d, 32) == 1) t->device = (DLDevice){(DLDeviceType)roll(d, 16), (int)roll(d, 4) - 1};
  unsigned side = roll(d, 4);
  for (int i = 0; i < t->ndim && i < TN_MAX_RANK; i++) {
    int64_t size = info == NULL || i >= info->rank || info->dims[i]->size < 0 ? (int64_t)side : info->dims[i]->size;
    shape[i] = roll(d, 8) == 1 ? interesting(d, size) : size;
  }
  if (roll(d, 16) == 1) t->shape = NULL;
  int64_t count = t->ndim >= 0 && t->ndim <= TN_MAX_RANK ? tn_element_count(t->ndim, shape) : -1, least = 0, most = 0;
  if (t->shape == NULL || count < 0 || count > MOST_ELEMENTS) return t; /* it must not be accessed */
  if (roll(d, 4) == 1) {
    int64_t step = 1;
    t->strides = strides;
    for (int i = t->ndim - 1; i >= 0; i--) {
      strides[i] = roll(d, 4) == 1 ? (int64_t)roll(d, 7) - 3 : step;
      int64_t reach = strides[i] * (shape[i] - 1);
      if (count > 0 && reach < 0) least += reach;
      if (count > 0 && reach > 0) most += reach;
      step *= shape[i];
    }
  } else {
    most = count - 1;
  }
  size_t element = (size_t)(t->dtype.bits + 7) / 8 * t->dtype.lanes,
         bytes = count == 0 ? 0 : (size_t)(most - least + 1) * element;
  if (bytes > 1 << 20) return t;
  if (tn_dtype_of_dl(t->dtype) == TN_STRING) {
    if (most - least >= MOST_ELEMENTS) return t;
    for (int64_t i = 0; i <= most - least; i++) made.strings[i] = (tn_string){"words", (size_t)i % 6};
    t->data = made.strings - least;
    t->byte_offset = 0;
    return t;
  }
  uint8_t *data = guarded_alloc(bytes, roll(d, 8) == 1 ? 1 : element == 0 ? 1 : element & (~element + 1));
  if (data == NULL) return t;
  unsigned fill = roll(d, 4), first = element > 2 && t->dtype.code == kDLFloat ? 2 : 0;
  for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(fill == 3 ? 255 : i % element == first ? fill : 0);
  t->data = data;
  t->byte_offset = (uint64_t)(-least * (int64_t)element);
  if (t->byte_offset != 0 && roll(d, 2) == 0) {
    t->data = data + t->byte_offset;
    t->byte_offset = 0;
  }
  return t;
}

static const char *make_name(dice *d, const tn_value_info *info) {
  static const char *const names[] = {NULL, "", "x", "main", "\x1b[2J", "a name that is not there"};
  unsigned which = roll(d, 16);
  return which < 10 ? (info == NULL ? NULL : info->name) : names[which - 10];
}

static const char *make_function(dice *d) {
  static const char *const names[] = {"", "main", "none"};
  unsigned which = roll(d, 16);
  return which < 13 ? NULL : names[which - 13];
}

/* Makes an index that is usually valid. */
static int make_index(dice *d, int count) {
  unsigned which = roll(d, 16);
  return which < 12 && count > 0 ? (int)which % count : which == 15 ? INT32_MAX : (int)which - 13;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

typedef struct call {
  dice *d;
  tn_executable *exe;
  tn_session *session;
  const char *function;
  int inputs, outputs;
} call;

static tn_status *bind_one(const call *c, bool output) {
  int index = make_index(c->d, output ? c->outputs : c->inputs);
  const tn_value_info *info =
      output ? tn_executable_output(c->exe, NULL, index) : tn_executable_input(c->exe, NULL, index);
  tn_binding binding = (tn_binding)roll(c->d, 5);
  const DLTensor *tensor = make_tensor(c->d, info);
  if (roll(c->d, 2) == 0)
    return output ? tn_session_set_output_at(c->session, c->function, index, tensor, binding)
                  : tn_session_set_input_at(c->session, c->function, index, tensor, binding);
  const char *name = make_name(c->d, info);
  return output ? tn_session_set_output(c->session, c->function, name, tensor, binding)
                : tn_session_set_input(c->session, c->function, name, tensor, binding);
}

static int make_list(const call *c, bool output, DLTensor *list) {
  int count = output ? c->outputs : c->inputs;
  if (count > MOST_TENSORS) count = MOST_TENSORS;
  for (int i = 0; i < count; i++) {
    const DLTensor *t =
        make_tensor(c->d, output ? tn_executable_output(c->exe, NULL, i) : tn_executable_input(c->exe, NULL, i));
    list[i] = t == NULL ? (DLTensor){.ndim = 0} : *t;
  }
  return roll(c->d, 8) == 1 ? count - 1 : count;
}

static tn_status *bind_many(const call *c, bool output) {
  DLTensor list[MOST_TENSORS];
  const char *names[MOST_TENSORS];
  int count = make_list(c, output, list);
  bool named = roll(c->d, 2) == 1;
  for (int i = 0; i < count; i++)
    names[i] = make_name(c->d, output ? tn_executable_output(c->exe, NULL, i) : tn_executable_input(c->exe, NULL, i));
  return output ? tn_session_set_outputs(c->session, c->function, named ? names : NULL, list, count, TN_BIND_NEXT)
                : tn_session_set_inputs(c->session, c->function, named ? names : NULL, list, count, TN_BIND_NEXT);
}

/* Reads results, which are memory of the session or of a binding. */
static tn_status *read_output(const call *c) {
  DLTensor out, *copy = NULL;
  int count = 0, index = make_index(c->d, c->outputs);
  TN_RETURN_IF_ERROR(tn_session_get_output_count(c->session, c->function, index, &count));
  for (int i = -1; i <= count; i++) tn_status_free(tn_session_get_output_item(c->session, c->function, index, i, &out));
  TN_RETURN_IF_ERROR(tn_session_get_output(c->session, c->function, index, &out));
  tn_dtype dtype = tn_dtype_of_dl(out.dtype);
  require(dtype != TN_DTYPE_INVALID && tn_element_count(out.ndim, out.shape) >= 0);
  if (dtype == TN_STRING || tn_element_count(out.ndim, out.shape) > MOST_ELEMENTS) return NULL;
  tn_tensor *tensor;
  TN_RETURN_IF_ERROR(tn_tensor_create(dtype, out.ndim, out.shape, NULL, &tensor));
  copy = tn_tensor_dl(tensor);
  tn_tensor_copy(&out, copy);
  tn_tensor_release(tensor);
  return NULL;
}

static tn_status *set_list(const call *c) {
  DLTensor list[MOST_TENSORS];
  int index = make_index(c->d, c->inputs), count = (int)roll(c->d, MOST_TENSORS + 2) - 1;
  const tn_value_info *info = tn_executable_input(c->exe, NULL, index);
  for (int i = 0; i < MOST_TENSORS; i++) {
    const DLTensor *t = make_tensor(c->d, info);
    list[i] = t == NULL ? (DLTensor){.ndim = 0} : *t;
  }
  return tn_session_set_input_list(c->session, c->function, index, roll(c->d, 8) == 1 ? NULL : list,
                                   count > MOST_TENSORS ? MOST_TENSORS : count);
}

static tn_status *set_memory(const call *c, bool bytes) {
  size_t size = roll(c->d, 4) == 0 ? 0 : (size_t)roll(c->d, 256) * 16;
  void *memory = roll(c->d, 8) == 1 ? NULL : guarded_alloc(size, roll(c->d, 8) == 1 ? 1 : 64);
  int index = make_index(c->d, c->outputs);
  return bytes ? tn_session_set_output_bytes(c->session, c->function, index, memory, memory == NULL ? 0 : size)
               : tn_session_set_output_list(c->session, c->function, index, memory, memory == NULL ? 0 : size);
}

static tn_status *invoke_with(const call *c, bool outputs) {
  DLTensor in[MOST_TENSORS], out[MOST_TENSORS];
  int inputs = make_list(c, false, in), count = make_list(c, true, out);
  if (!outputs) return tn_session_invoke_stateful(c->session, c->function, in, inputs);
  for (int i = 0; i < count; i++)
    if (roll(c->d, 2) == 0) out[i].data = NULL;
  return tn_session_invoke_with_outputs(c->session, c->function, in, inputs, out, roll(c->d, 4) == 1 ? 0 : count);
}

static tn_status *infer(const call *c) {
  int64_t in[MOST_TENSORS][TN_MAX_RANK], (*out)[TN_MAX_RANK];
  const int64_t *shapes[MOST_TENSORS];
  if (c->inputs > MOST_TENSORS) return NULL;
  for (int i = 0; i < c->inputs; i++) {
    for (int k = 0; k < TN_MAX_RANK; k++) in[i][k] = interesting(c->d, 2);
    shapes[i] = roll(c->d, 16) == 1 ? NULL : in[i];
  }
  out = calloc((size_t)c->outputs + 1, sizeof(*out));
  tn_status *status = tn_function_infer_shapes(c->exe, c->function, shapes, out);
  free(out);
  return status;
}

/* Binds a result again, usually as an input of the same function. */
static tn_status *feed_back(const call *c) {
  DLTensor out;
  TN_RETURN_IF_ERROR(tn_session_get_output(c->session, c->function, make_index(c->d, c->outputs), &out));
  return tn_session_set_input_at(c->session, c->function, make_index(c->d, c->inputs), &out, (tn_binding)roll(c->d, 4));
}

static tn_status *start(const call *c) {
  tn_status *status = tn_session_start(c->session, c->function);
  if (status != NULL) return status;
  tn_status_free(bind_one(c, false)); /* rejected while the call is in flight */
  if (roll(c->d, 2) == 1) tn_session_cancel(c->session);
  return tn_session_wait(c->session);
}

static tn_status *profile(const call *c) {
  tn_profile *p;
  const tn_profile_kernel *const *rows;
  TN_RETURN_IF_ERROR(tn_session_start_profile(c->session, &p));
  tn_status *status = tn_session_invoke(c->session, c->function);
  require(tn_profile_kernels(p, &rows) >= 0);
  tn_profile_release(p);
  return status;
}

static tn_status *make_call(const call *c) {
  switch (roll(c->d, 16)) {
    case 0:
    case 1: return bind_one(c, false);
    case 2: return bind_one(c, true);
    case 3: return bind_many(c, false);
    case 4: return bind_many(c, true);
    case 5: return tn_session_invoke(c->session, c->function);
    case 6: return read_output(c);
    case 7: return set_list(c);
    case 8: return set_memory(c, false);
    case 9: return set_memory(c, true);
    case 10: return invoke_with(c, true);
    case 11: return invoke_with(c, false);
    case 12: return infer(c);
    case 13: return feed_back(c);
    case 14: return roll(c->d, 2) == 0 ? start(c) : profile(c);
    default: tn_session_cancel(c->session); return NULL;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dice d = {data, data + size};
  call c = {.d = &d, .exe = compiled(roll(&d, MODELS))};
  if (size == 0 || size > 1024) return 0;
  const tn_session_options options = {.size = sizeof(options), .allocator = &guarded_allocator, .threads = 1};
  guarded_memory.limit = (size_t)32 << 20;
  must(tn_session_create(c.exe, &options, &c.session));
  c.inputs = tn_executable_input_count(c.exe, NULL);
  c.outputs = tn_executable_output_count(c.exe, NULL);
  made.count = 0;
  for (int i = 0; i < MOST_CALLS && d.at < d.end; i++) {
    c.function = make_function(&d);
    tn_status *status = make_call(&c);
    require(tn_status_code_of(status) != TN_INTERNAL);
    require(status == NULL || tn_status_message(status)[0] != '\0');
    tn_status_free(status);
  }
  tn_session_release(c.session);
  require(guarded_sweep(0)); /* the bytes around each block are unchanged */
  return 0;
}
