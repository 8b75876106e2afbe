/* Sessions: the caller's tensors are checked and bound here, then the interpreter runs on them. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/vm.h"

typedef struct bound {
  bool set, persistent;
  DLTensor tensor; /* its shape and strides point into this struct */
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
} bound;

typedef struct function_state {
  bound *inputs, *outputs;           /* by the set_ calls */
  bound *call_inputs, *call_outputs; /* of invoke_with_outputs */
  tn__block *input_copies, *output_copies;
  tn__frame *frame; /* of the last invoke: it holds the results */
  bool has_results;
} function_state;

struct tn_session {
  tn_allocator copy;
  const tn_allocator *allocator;
  const tn_executable *exe;
  tn_thread_pool *own_pool;
  tn__vm vm;
  function_state *functions;
};

/* ---- life ------------------------------------------------------------------------------------------------------- */

static tn_status *create_function_state(tn_session *session, const tn__function *f, function_state *state) {
  const struct {
    void *array;
    size_t count, size;
  } wanted[] = {
      {&state->inputs, f->input_count, sizeof(bound)},
      {&state->call_inputs, f->input_count, sizeof(bound)},
      {&state->outputs, f->output_count, sizeof(bound)},
      {&state->call_outputs, f->output_count, sizeof(bound)},
      {&state->input_copies, f->input_count, sizeof(tn__block)},
      {&state->output_copies, f->output_count, sizeof(tn__block)},
  };
  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
    void *memory;
    TN_RETURN_IF_ERROR(tn__alloc(session->allocator, wanted[i].count, wanted[i].size, 0, &memory));
    memcpy(wanted[i].array, &memory, sizeof(memory));
  }
  return NULL;
}

static void release_function_state(tn_session *session, const tn__function *f, function_state *state) {
  const tn_allocator *allocator = session->allocator;
  for (uint32_t i = 0; i < f->input_count && state->input_copies != NULL; i++)
    tn__block_release(allocator, &state->input_copies[i]);
  for (uint32_t i = 0; i < f->output_count && state->output_copies != NULL; i++)
    tn__block_release(allocator, &state->output_copies[i]);
  tn__free(allocator, state->inputs, f->input_count * sizeof(bound), 0);
  tn__free(allocator, state->call_inputs, f->input_count * sizeof(bound), 0);
  tn__free(allocator, state->outputs, f->output_count * sizeof(bound), 0);
  tn__free(allocator, state->call_outputs, f->output_count * sizeof(bound), 0);
  tn__free(allocator, state->input_copies, f->input_count * sizeof(tn__block), 0);
  tn__free(allocator, state->output_copies, f->output_count * sizeof(tn__block), 0);
  tn__frame_give_back(&session->vm, state->frame);
}

static tn_status *set_up(tn_session *session, const tn_session_options *options) {
  const tn_executable *exe = session->exe;
  tn_thread_pool *pool = options->pool;
  if (pool == NULL) {
    tn_thread_pool_options pool_options = {
        .size = sizeof(pool_options), .threads = options->threads, .allocator = session->allocator};
    TN_RETURN_IF_ERROR(tn_thread_pool_create(&pool_options, &session->own_pool));
    pool = session->own_pool;
  }
  TN_RETURN_IF_ERROR(tn__vm_init(&session->vm, exe, session->allocator, pool));
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(session->allocator, exe->function_count, sizeof(function_state), 0, &memory));
  session->functions = memory;
  for (uint32_t i = 0; i < exe->function_count; i++)
    TN_RETURN_IF_ERROR(create_function_state(session, &exe->functions[i], &session->functions[i]));
  return NULL;
}

tn_status *tn_session_create(const tn_executable *exe, const tn_session_options *options, tn_session **out) {
  *out = NULL;
  tn_session_options all = {0};
  if (options != NULL) memcpy(&all, options, options->size < sizeof(all) ? options->size : sizeof(all));
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(all.allocator, 1, sizeof(tn_session), 0, &memory));
  tn_session *session = memory;
  session->exe = exe;
  if (all.allocator != NULL) {
    session->copy = *all.allocator;
    session->allocator = &session->copy;
  }
  tn_status *status = set_up(session, &all);
  if (status != NULL) {
    tn_session_release(session);
    return status;
  }
  *out = session;
  return NULL;
}

void tn_session_release(tn_session *session) {
  if (session == NULL) return;
  for (uint32_t i = 0; i < session->exe->function_count && session->functions != NULL; i++)
    release_function_state(session, &session->exe->functions[i], &session->functions[i]);
  tn__free(session->allocator, session->functions, session->exe->function_count * sizeof(function_state), 0);
  tn__vm_release(&session->vm);
  tn_thread_pool_release(session->own_pool);
  tn_allocator copy = session->copy;
  tn__free(session->allocator == NULL ? NULL : &copy, session, sizeof(*session), 0);
}

/* ---- checks when a tensor is bound ------------------------------------------------------------------------------ */

static tn_status *bad_tensor(const char *what, const tn_value_info *info, const char *format, ...) TN_PRINTF(3, 4);
static tn_status *bad_tensor(const char *what, const tn_value_info *info, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_INVALID_ARGUMENT, format, args);
  va_end(args);
  return tn_status_prefix(status, "%s \"%s\"", what, info->name);
}

static const char *dl_type_name(DLDataType type, char text[64]) {
  tn_dtype dtype = tn_dtype_of_dl(type);
  if (dtype != TN_DTYPE_INVALID) return tn_dtype_name(dtype);
  snprintf(text, 64, "of DLPack type %u with %u bits and %u lanes", type.code, type.bits, type.lanes);
  return text;
}

static tn_status *check_tensor(const char *what, const tn_value_info *info, const DLTensor *tensor, bool output) {
  char have[256], want[256];
  if (tn_dtype_of_dl(tensor->dtype) != info->dtype)
    return bad_tensor(what, info, "the tensor is %s and the executable wants %s", dl_type_name(tensor->dtype, have),
                      tn_dtype_name(info->dtype));
  if (tensor->device.device_type != kDLCPU)
    return bad_tensor(what, info, "the tensor is on a device of type %d and the executable runs on the CPU",
                      (int)tensor->device.device_type);
  if (tensor->ndim != info->rank) {
    tn__format_dims(info->dims, info->rank, want, sizeof(want));
    if (tensor->ndim >= 0 && tensor->ndim <= TN_MAX_RANK)
      tn__format_shape(tensor->shape, tensor->ndim, have, sizeof(have));
    else
      snprintf(have, sizeof(have), "of %d dimensions", tensor->ndim);
    return bad_tensor(what, info, "the tensor has shape %s and the executable wants %s", have, want);
  }
  tn__format_shape(tensor->shape, info->rank, have, sizeof(have));
  bool same = true;
  for (int i = 0; i < info->rank; i++)
    same = same && (info->dims[i].size < 0 || info->dims[i].size == tensor->shape[i]);
  if (!same) {
    tn__format_dims(info->dims, info->rank, want, sizeof(want));
    return bad_tensor(what, info, "the tensor has shape %s and the executable wants %s", have, want);
  }
  int64_t count = tn_element_count(info->rank, tensor->shape), bytes;
  if (count < 0 || tn__mul_overflow_i64(count, (int64_t)tn_dtype_size(info->dtype), &bytes))
    return bad_tensor(what, info, "the tensor's shape %s has a negative dimension or overflows", have);
  if (tensor->data == NULL && count > 0 && !output) return bad_tensor(what, info, "the tensor has no data");
  if (output && !tn__tensor_is_dense(tensor)) {
    tn__format_shape(tensor->strides, info->rank, want, sizeof(want));
    return bad_tensor(what, info, "the tensor of shape %s has strides %s: an output must be dense and row-major", have,
                      want);
  }
  return NULL;
}

static void keep_tensor(bound *slot, const DLTensor *tensor, tn_binding binding) {
  slot->tensor = *tensor;
  for (int i = 0; i < tensor->ndim; i++) {
    slot->shape[i] = tensor->shape[i];
    if (tensor->strides != NULL) slot->strides[i] = tensor->strides[i];
  }
  slot->tensor.shape = slot->shape;
  slot->tensor.strides = tensor->strides == NULL ? NULL : slot->strides;
  slot->persistent = binding == TN_BIND_PERSISTENT;
  slot->set = true;
}

static tn_status *bind_tensor(const char *what, const tn_value_info *info, bound *slot, const DLTensor *tensor,
                              tn_binding binding, bool output) {
  if (tensor == NULL) {
    slot->set = false;
    return NULL;
  }
  TN_RETURN_IF_ERROR(check_tensor(what, info, tensor, output));
  if (output && tensor->data == NULL && tn_element_count(info->rank, tensor->shape) > 0)
    return bad_tensor(what, info, "the tensor has no data");
  keep_tensor(slot, tensor, binding);
  return NULL;
}

static tn_status *bind_at(tn_session *session, const char *function, int index, const DLTensor *tensor,
                          tn_binding binding, bool output) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  const char *what = output ? "output" : "input";
  uint32_t count = output ? f->output_count : f->input_count;
  if (index < 0 || (uint32_t)index >= count)
    return tn_status_create(TN_INVALID_ARGUMENT, "function \"%s\" has %u %ss; there is no number %d", f->name, count,
                            what, index);
  function_state *state = &session->functions[f->index];
  bound *slot = output ? &state->outputs[index] : &state->inputs[index];
  const tn_value_info *info = output ? &f->outputs[index].info : &f->inputs[index].info;
  return bind_tensor(what, info, slot, tensor, binding, output);
}

static tn_status *bind_by_name(tn_session *session, const char *function, const char *name, const DLTensor *tensor,
                               tn_binding binding, bool output) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  uint32_t count = output ? f->output_count : f->input_count;
  const tn__function_value *values = output ? f->outputs : f->inputs;
  char known[512] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(values[i].info.name, name) == 0) return bind_at(session, function, (int)i, tensor, binding, output);
    int n = snprintf(known + used, sizeof(known) - used, "%s\"%s\"", i > 0 ? ", " : "", values[i].info.name);
    if (n > 0 && used + (size_t)n < sizeof(known)) used += (size_t)n;
  }
  return tn_status_create(TN_NOT_FOUND, "function \"%s\" has no %s \"%s\"; it has %s", f->name,
                          output ? "output" : "input", name, count == 0 ? "none" : known);
}

tn_status *tn_session_set_input(tn_session *session, const char *function, const char *name, const DLTensor *tensor,
                                tn_binding binding) {
  return bind_by_name(session, function, name, tensor, binding, false);
}

tn_status *tn_session_set_input_at(tn_session *session, const char *function, int index, const DLTensor *tensor,
                                   tn_binding binding) {
  return bind_at(session, function, index, tensor, binding, false);
}

tn_status *tn_session_set_output(tn_session *session, const char *function, const char *name, const DLTensor *tensor,
                                 tn_binding binding) {
  return bind_by_name(session, function, name, tensor, binding, true);
}

tn_status *tn_session_set_output_at(tn_session *session, const char *function, int index, const DLTensor *tensor,
                                    tn_binding binding) {
  return bind_at(session, function, index, tensor, binding, true);
}

/* ---- an invoke -------------------------------------------------------------------------------------------------- */

static char *data_of(const DLTensor *tensor) {
  return tensor->data == NULL ? NULL : (char *)tensor->data + tensor->byte_offset;
}

static bool aligned(const void *data) { return (uintptr_t)data % TN_KERNEL_ALIGNMENT == 0; }

static int64_t dense_bytes(const DLTensor *tensor) {
  return tn_element_count(tensor->ndim, tensor->shape) * (int64_t)tn_dtype_size(tn_dtype_of_dl(tensor->dtype));
}

/* Gives each input its memory: the caller's when kernels can read it, else a copy. */
static tn_status *place_inputs(tn_session *session, const tn__function *f, function_state *state, const bound *inputs) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    const DLTensor *tensor = &inputs[i].tensor;
    if (!inputs[i].set)
      return tn_status_create(TN_FAILED_PRECONDITION, "input \"%s\" of function \"%s\" is not bound",
                              f->inputs[i].info.name, f->name);
    char *data = data_of(tensor);
    if (data == NULL || !aligned(data) || !tn__tensor_is_dense(tensor)) {
      TN_RETURN_IF_ERROR(tn__block_reserve(session->allocator, &state->input_copies[i], dense_bytes(tensor)));
      data = state->input_copies[i].data;
      tn__tensor_copy_dense(tensor, data);
    }
    tn__frame_set_input(state->frame, i, data, tensor->shape);
  }
  return NULL;
}

static bool overlap(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && (uintptr_t)a < (uintptr_t)b + (uintptr_t)b_bytes &&
         (uintptr_t)b < (uintptr_t)a + (uintptr_t)a_bytes;
}

/* Kernels write an output while inputs and other outputs are still in use. */
static tn_status *check_overlap(const tn__function *f, const tn__frame *frame, const bound *inputs,
                                const bound *outputs, uint32_t index) {
  const char *data = frame->output_data[index];
  int64_t bytes = dense_bytes(&outputs[index].tensor);
  for (uint32_t i = 0; i < f->input_count; i++)
    if (overlap(data, bytes, frame->data[f->inputs[i].reg], dense_bytes(&inputs[i].tensor)))
      return tn_status_create(TN_INVALID_ARGUMENT, "output \"%s\" shares memory with input \"%s\"",
                              f->outputs[index].info.name, f->inputs[i].info.name);
  for (uint32_t i = 0; i < index; i++)
    if (frame->output_data[i] != NULL && overlap(data, bytes, frame->output_data[i], dense_bytes(&outputs[i].tensor)))
      return tn_status_create(TN_INVALID_ARGUMENT, "output \"%s\" shares memory with output \"%s\"",
                              f->outputs[index].info.name, f->outputs[i].info.name);
  return NULL;
}

static tn_status *place_outputs(tn_session *session, const tn__function *f, function_state *state, const bound *inputs,
                                const bound *outputs) {
  tn__frame *frame = state->frame;
  for (uint32_t i = 0; i < f->output_count; i++) {
    frame->output_data[i] = NULL;
    if (!outputs[i].set) continue;
    char *data = data_of(&outputs[i].tensor);
    if (data == NULL || !aligned(data)) {
      TN_RETURN_IF_ERROR(
          tn__block_reserve(session->allocator, &state->output_copies[i], dense_bytes(&outputs[i].tensor)));
      data = state->output_copies[i].data;
    }
    frame->output_data[i] = data;
    frame->output_shapes[i] = outputs[i].tensor.shape;
    TN_RETURN_IF_ERROR(check_overlap(f, frame, inputs, outputs, i));
  }
  return NULL;
}

static void copy_back(const tn__function *f, const function_state *state, const bound *outputs) {
  for (uint32_t i = 0; i < f->output_count; i++) {
    char *data = outputs[i].set ? data_of(&outputs[i].tensor) : NULL;
    if (data != NULL && data != state->frame->output_data[i])
      memcpy(data, state->frame->output_data[i], (size_t)dense_bytes(&outputs[i].tensor));
  }
}

static void drop(bound *slots, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (!slots[i].persistent) slots[i].set = false;
}

static tn_status *invoke(tn_session *session, const tn__function *f, bound *inputs, bound *outputs) {
  function_state *state = &session->functions[f->index];
  state->has_results = false;
  if (state->frame == NULL) TN_RETURN_IF_ERROR(tn__frame_take(&session->vm, f, &state->frame));
  TN_RETURN_IF_ERROR(place_inputs(session, f, state, inputs));
  TN_RETURN_IF_ERROR(place_outputs(session, f, state, inputs, outputs));
  tn__pool_begin(session->vm.pool);
  tn_status *status = tn__vm_run(&session->vm, state->frame, 0);
  tn__pool_end(session->vm.pool);
  if (status != NULL) return status;
  copy_back(f, state, outputs);
  state->has_results = true;
  return NULL;
}

tn_status *tn_session_invoke(tn_session *session, const char *function) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  function_state *state = &session->functions[f->index];
  tn_status *status = invoke(session, f, state->inputs, state->outputs);
  drop(state->inputs, f->input_count);
  drop(state->outputs, f->output_count);
  return status;
}

tn_status *tn_session_invoke_with_outputs(tn_session *session, const char *function, const DLTensor *inputs,
                                          int input_count, const DLTensor *outputs, int output_count) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  if (input_count < 0 || (uint32_t)input_count != f->input_count || output_count < 0 ||
      ((uint32_t)output_count != f->output_count && output_count != 0))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "function \"%s\" takes %u inputs and %u outputs; the call gives %d and %d", f->name,
                            f->input_count, f->output_count, input_count, output_count);
  function_state *state = &session->functions[f->index];
  for (int i = 0; i < input_count; i++)
    TN_RETURN_IF_ERROR(
        bind_tensor("input", &f->inputs[i].info, &state->call_inputs[i], &inputs[i], TN_BIND_NEXT, false));
  for (uint32_t i = 0; i < f->output_count; i++) {
    const DLTensor *tensor = output_count == 0 || outputs[i].data == NULL ? NULL : &outputs[i];
    TN_RETURN_IF_ERROR(bind_tensor("output", &f->outputs[i].info, &state->call_outputs[i], tensor, TN_BIND_NEXT, true));
  }
  return invoke(session, f, state->call_inputs, state->call_outputs);
}

tn_status *tn_session_get_output(tn_session *session, const char *function, int index, DLTensor *out) {
  *out = (DLTensor){0};
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  function_state *state = &session->functions[f->index];
  if (index < 0 || (uint32_t)index >= f->output_count)
    return tn_status_create(TN_INVALID_ARGUMENT, "function \"%s\" has %u outputs; there is no number %d", f->name,
                            f->output_count, index);
  if (!state->has_results)
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "function \"%s\" has no results: no invoke of it succeeded yet, or the last one failed",
                            f->name);
  uint32_t number = f->outputs[index].reg;
  const tn__register *r = &f->registers[number];
  *out = (DLTensor){.data = state->frame->data[number],
                    .device = {kDLCPU, 0},
                    .ndim = r->rank,
                    .dtype = tn_dtype_to_dl(r->dtype),
                    .shape = state->frame->dims + r->first_dim};
  return NULL;
}

void tn_session_set_profile(tn_session *session, tn_profile_callback callback, void *user) {
  session->vm.profile = callback;
  session->vm.profile_user = user;
}
