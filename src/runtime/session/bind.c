/* Binding the caller's tensors: by name or position, one or several at once, each checked by itself before anything is
 * kept. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/dtype.h"
#include "runtime/session/session.h"

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

void tn__view_of_buffer(const tn__function_value *value, const int64_t *shape, tn__view *out) {
  int64_t step = 1;
  for (int i = value->info.rank - 1; i >= 0; i--) {
    out->shape[i] = i == value->grows ? value->info.dims[i]->capacity : shape[i];
    out->strides[i] = step;
    step = (int64_t)((uint64_t)step * (uint64_t)out->shape[i]); /* only an empty tensor's overflow, of no use */
  }
}

int64_t tn__bind_buffer_bytes(const tn__function_value *value, const DLTensor *tensor) {
  tn__view view;
  tn__view_of_buffer(value, tensor->shape, &view);
  return tn_element_count(tensor->ndim, view.shape) * (int64_t)tn__dtype_stored(value->info.dtype);
}

bool tn__bind_lies_in_buffer(const tn__function_value *value, const DLTensor *tensor) {
  if (value->grows < 0 || tensor->shape[value->grows] == value->info.dims[value->grows]->capacity)
    return tn__tensor_is_dense(tensor);
  if (tn_element_count(tensor->ndim, tensor->shape) == 0) return true;
  tn__view want;
  tn__view_of_buffer(value, tensor->shape, &want);
  int64_t dense = 1;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    int64_t stride = tensor->strides != NULL ? tensor->strides[i] : dense;
    if (tensor->shape[i] > 1 && stride != want.strides[i]) return false;
    dense *= tensor->shape[i];
  }
  return true;
}

bool tn__bind_is_in_place(const tn__function_value *value, const DLTensor *tensor) {
  const char *data = tn__rt_data_of(tensor);
  bool strings = value->info.dtype == TN_STRING; /* which are copied: the machine has its own form of them */
  return data != NULL && !strings && tn__bind_is_aligned(data, value->info.alignment) &&
         (value->info.strided || tn__bind_lies_in_buffer(value, tensor));
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

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

static tn_status *wrong_shape(const char *what, const tn_value_info *info, const DLTensor *tensor) {
  char have[256], want[256];
  tn__rt_format_dims(info->dims, info->rank, want, sizeof(want));
  if (tensor->ndim >= 0 && tensor->ndim <= TN_MAX_RANK)
    tn__rt_format_shape(tensor->shape, tensor->ndim, have, sizeof(have));
  else
    snprintf(have, sizeof(have), "of %d dimensions", tensor->ndim);
  return bad_tensor(what, info, "the tensor has shape %s and the executable wants %s", have, want);
}

static tn_status *check_shape(const char *what, const tn_value_info *info, const DLTensor *tensor) {
  int64_t buffer[TN_MAX_RANK], bytes;
  if (tensor->ndim > 0 && tensor->shape == NULL)
    return bad_tensor(what, info, "the tensor has %d dimensions and no shape: it is NULL", tensor->ndim);
  if (tensor->ndim != info->rank) return wrong_shape(what, info, tensor);
  for (int i = 0; i < info->rank; i++) {
    const tn_dim_info *dim = info->dims[i];
    bool fits =
        (dim->size < 0 || dim->size == tensor->shape[i]) && (dim->capacity == 0 || tensor->shape[i] <= dim->capacity);
    if (!fits) return wrong_shape(what, info, tensor);
    buffer[i] = dim->capacity > 0 && tensor->shape[i] >= 0 ? dim->capacity : tensor->shape[i];
  }
  int64_t count = tn_element_count(info->rank, buffer);
  if (count >= 0 && !tn__mul_overflow_i64(count, (int64_t)tn_dtype_size(info->dtype), &bytes)) return NULL;
  char have[256];
  tn__rt_format_shape(tensor->shape, info->rank, have, sizeof(have));
  return bad_tensor(what, info, "the tensor's shape %s has a negative dimension or overflows", have);
}

static tn_status *bad_strides(const char *what, const tn_value_info *info, const DLTensor *tensor, const char *why) {
  char shape[256], strides[256];
  tn__rt_format_shape(tensor->shape, info->rank, shape, sizeof(shape));
  tn__rt_format_shape(tensor->strides, info->rank, strides, sizeof(strides));
  return bad_tensor(what, info, "the tensor of shape %s has strides %s: %s", shape, strides, why);
}

/* Outputs are written: no two of their elements may share memory, and one that is sized by values lies where it
 * lies. */
static tn_status *check_output_strides(const tn_value_info *info, const DLTensor *tensor, const tn__extent *memory,
                                       bool late) {
  if (tn__tensor_is_dense(tensor)) return NULL;
  if (late)
    return bad_strides("output", info, tensor, "an output whose size depends on values must be dense and row-major");
  bool folds = tn__extent_folds(memory);
  for (int i = 0; i < info->rank; i++) folds = folds || (tensor->strides[i] == 0 && tensor->shape[i] > 1);
  return folds ? bad_strides("output", info, tensor, "its elements share memory, so it cannot be written") : NULL;
}

static tn_status *check_reach(const char *what, const tn_value_info *info, const DLTensor *tensor, tn__extent *memory) {
  if (tn__extent_of(tensor, memory)) return NULL;
  if (tensor->strides != NULL)
    return bad_strides(what, info, tensor, "with its byte_offset they lead out of what an address can reach");
  return bad_tensor(what, info, "the tensor's byte_offset %llu leads out of what an address can reach",
                    (unsigned long long)tensor->byte_offset);
}

static tn_status *check_in_place(const char *what, const tn__function_value *value, const DLTensor *tensor) {
  const tn_value_info *info = &value->info;
  if (info->dtype == TN_STRING) return bad_tensor(what, info, "strings are copied, they cannot be used in place");
  if (!tn__bind_lies_in_buffer(value, tensor) && value->grows >= 0) {
    char strides[256];
    tn__view want;
    tn__view_of_buffer(value, tensor->shape, &want);
    tn__rt_format_shape(want.strides, info->rank, strides, sizeof(strides));
    return bad_tensor(what, info, "to be used in place its strides must be %s, those of the buffer that it grows in",
                      strides);
  }
  if (value->grows < 0 && !info->strided && !tn__tensor_is_dense(tensor))
    return bad_strides(what, info, tensor, "to be used in place it must be dense and row-major");
  uintptr_t address = (uintptr_t)tn__rt_data_of(tensor);
  if (tn__bind_is_aligned(tn__rt_data_of(tensor), info->alignment)) return NULL;
  return bad_tensor(what, info, "the tensor's data is aligned to %u bytes; to be used in place it must be to %d",
                    (unsigned)(address & -address), info->alignment);
}

/* Where the value is, or on the host, from and to which it is copied. */
static tn_status *check_device(const char *what, const tn__function_value *value, const DLTensor *tensor) {
  const tn_value_info *info = &value->info;
  tn_status *status = tn__tensor_check_device(tensor, info->device, value->away);
  return status == NULL ? NULL : tn_status_prefix(status, "%s \"%s\"", what, info->name);
}

static tn_status *wrong_device_in_place(const char *what, const tn_value_info *info) {
  char there[48];
  return bad_tensor(what, info, "the tensor is on cpu:0; to be used in place it must be on %s",
                    tn__rt_device_text(info->device, there));
}

tn_status *tn__bind_check(const tn__function *f, int index, bool output, const DLTensor *tensor, tn_binding binding,
                          tn__extent *memory) {
  const char *what = output ? "output" : "input";
  const tn__function_value *value = output ? &f->outputs[index] : &f->inputs[index];
  const tn_value_info *info = &value->info;
  char have[64];
  if ((unsigned)binding > TN_BIND_PERSISTENT_IN_PLACE)
    return bad_tensor(what, info, "there is no binding %d: use one of tn_binding", (int)binding);
  if (info->kind != TN_VALUE_TENSOR)
    return bad_tensor(
        what, info, "it is a sequence or optional, not a tensor%s",
        output ? ": tn_session_set_output_list() binds memory for it" : ": tn_session_set_input_list() gives it");
  if (tn_dtype_of_dl(tensor->dtype) != info->dtype)
    return bad_tensor(what, info, "the tensor is %s and the executable wants %s", dl_type_name(tensor->dtype, have),
                      tn_dtype_name(info->dtype));
  TN_RETURN_IF_ERROR(check_device(what, value, tensor));
  TN_RETURN_IF_ERROR(check_shape(what, info, tensor));
  if (tensor->data == NULL && tn_element_count(info->rank, tensor->shape) > 0)
    return bad_tensor(what, info, "the tensor has no data");
  TN_RETURN_IF_ERROR(check_reach(what, info, tensor, memory));
  if (output) TN_RETURN_IF_ERROR(check_output_strides(info, tensor, memory, !f->registers[value->reg].early));
  bool there = tn__bind_is_away(value, tensor), in_place = (binding & TN_BIND_NEXT_IN_PLACE) != 0;
  if (in_place && value->away && !there) return wrong_device_in_place(what, info);
  return there || in_place ? check_in_place(what, value, tensor) : NULL;
}

void tn__bind_keep(tn__bound *slot, const DLTensor *tensor, tn_binding binding, const tn__extent *memory) {
  slot->set = tensor != NULL;
  if (tensor == NULL) return;
  slot->tensor = *tensor;
  for (int i = 0; i < tensor->ndim; i++) {
    slot->shape[i] = tensor->shape[i];
    if (tensor->strides != NULL) slot->strides[i] = tensor->strides[i];
  }
  slot->tensor.shape = slot->shape;
  slot->tensor.strides = tensor->strides == NULL ? NULL : slot->strides;
  slot->persistent = (binding & TN_BIND_PERSISTENT) != 0;
  tn__extent_copy(memory, &slot->memory);
  slot->bytes = NULL, slot->capacity = 0;
  slot->references = NULL;
}

void tn__bind_defaults(const tn_executable *exe, const tn__function *f, tn__bound *inputs) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    const tn__function_value *value = &f->inputs[i];
    if (inputs[i].set || value->constant < 0) continue;
    tn__extent memory = tn__extent_of_bytes(NULL, 0);
    if (!tn__bind_is_of_strings(value) && !tn__extent_of(&value->fallback, &memory)) continue; /* no constant is such */
    tn__bind_keep(&inputs[i], &value->fallback, TN_BIND_PERSISTENT, &memory);
    if (tn__bind_is_of_strings(value)) inputs[i].references = exe->constants[value->constant].data;
  }
}

/* ---- names and positions ---------------------------------------------------------------------------------------- */

typedef struct side { /* a function's inputs or outputs */
  const tn__function *f;
  tn__function_state *state;
  bool output;
  const char *what;
  uint32_t count;
  const tn__function_value *values;
  tn__bound *slots;
} side;

static tn_status *find_side(tn_session *session, const char *function, bool output, side *out) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  tn__function_state *state = &session->functions[f->index];
  *out = (side){f,
                state,
                output,
                output ? "output" : "input",
                output ? f->output_count : f->input_count,
                output ? f->outputs : f->inputs,
                output ? state->outputs : state->inputs};
  return NULL;
}

static tn_status *no_such_name(const side *s, const char *name) {
  char known[512] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    int n = snprintf(known + used, sizeof(known) - used, "%s\"%s\"", i > 0 ? ", " : "", s->values[i].info.name);
    if (n > 0 && used + (size_t)n < sizeof(known)) used += (size_t)n;
  }
  return tn_status_create(TN_NOT_FOUND, "function \"%s\" has no %s \"%s\"; it has %s", s->f->name, s->what, name,
                          s->count == 0 ? "none" : known);
}

static tn_status *find_name(const side *s, const char *name, int *index) {
  if (name == NULL)
    return tn_status_create(TN_INVALID_ARGUMENT, "function \"%s\": the %s has no name: it is NULL", s->f->name,
                            s->what);
  for (*index = 0; (uint32_t)*index < s->count; ++*index)
    if (strcmp(s->values[*index].info.name, name) == 0) return NULL;
  return no_such_name(s, name);
}

static tn_status *no_such_number(const side *s, int index) {
  return tn_status_create(TN_INVALID_ARGUMENT, "function \"%s\" has %u %ss; there is no number %d", s->f->name,
                          s->count, s->what, index);
}

static tn_status *bind_at(const side *s, int index, const DLTensor *tensor, tn_binding binding) {
  if (index < 0 || (uint32_t)index >= s->count) return no_such_number(s, index);
  tn__extent memory;
  if (tensor != NULL) TN_RETURN_IF_ERROR(tn__bind_check(s->f, index, s->output, tensor, binding, &memory));
  tn__bind_keep(&s->slots[index], tensor, binding, &memory);
  s->state->settled = false;
  return NULL;
}

static tn_status *bind_by_position(tn_session *session, const char *function, int index, const DLTensor *tensor,
                                   tn_binding binding, bool output) {
  side s;
  TN_RETURN_IF_ERROR(find_side(session, function, output, &s));
  return bind_at(&s, index, tensor, binding);
}

static tn_status *bind_by_name(tn_session *session, const char *function, const char *name, const DLTensor *tensor,
                               tn_binding binding, bool output) {
  side s;
  TN_RETURN_IF_ERROR(find_side(session, function, output, &s));
  int index;
  TN_RETURN_IF_ERROR(find_name(&s, name, &index));
  return bind_at(&s, index, tensor, binding);
}

tn_status *tn_session_set_input(tn_session *session, const char *function, const char *name, const DLTensor *tensor,
                                tn_binding binding) {
  TN__NEED("session", session);
  return TN__IN_SESSION(session, bind_by_name(session, function, name, tensor, binding, false));
}

tn_status *tn_session_set_input_at(tn_session *session, const char *function, int index, const DLTensor *tensor,
                                   tn_binding binding) {
  TN__NEED("session", session);
  return TN__IN_SESSION(session, bind_by_position(session, function, index, tensor, binding, false));
}

tn_status *tn_session_set_output(tn_session *session, const char *function, const char *name, const DLTensor *tensor,
                                 tn_binding binding) {
  TN__NEED("session", session);
  return TN__IN_SESSION(session, bind_by_name(session, function, name, tensor, binding, true));
}

tn_status *tn_session_set_output_at(tn_session *session, const char *function, int index, const DLTensor *tensor,
                                    tn_binding binding) {
  TN__NEED("session", session);
  return TN__IN_SESSION(session, bind_by_position(session, function, index, tensor, binding, true));
}

static tn_status *bind_bytes(tn_session *session, const char *function, int index, void *bytes, size_t capacity) {
  side s;
  TN_RETURN_IF_ERROR(find_side(session, function, true, &s));
  if (index < 0 || (uint32_t)index >= s.count) return no_such_number(&s, index);
  const tn_value_info *info = &s.values[index].info;
  if (info->dtype != TN_STRING || info->kind != TN_VALUE_TENSOR)
    return bad_tensor("output", info, "it is no tensor of strings, whose bytes would need memory");
  if (!s.slots[index].set)
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "output \"%s\": its strings are bound before the memory for their bytes", info->name);
  s.slots[index].bytes = bytes, s.slots[index].capacity = bytes == NULL ? 0 : capacity;
  s.state->settled = false;
  return NULL;
}

tn_status *tn_session_set_output_bytes(tn_session *session, const char *function, int index, void *bytes,
                                       size_t capacity) {
  TN__NEED("session", session);
  return TN__IN_SESSION(session, bind_bytes(session, function, index, bytes, capacity));
}

/* ---- several at once -------------------------------------------------------------------------------------------- */

tn_status *tn__bind_wrong_count(const tn__function *f, const char *what, uint32_t takes, int gives) {
  return tn_status_create(TN_INVALID_ARGUMENT, "function \"%s\" takes %u %ss; the call gives %d", f->name, takes, what,
                          gives);
}

/* The position of the i-th tensor, which no earlier one has. */
static tn_status *position_of(const side *s, const char *const *names, int i, int *index) {
  *index = i;
  if (names == NULL) return NULL;
  TN_RETURN_IF_ERROR(find_name(s, names[i], index));
  for (int j = 0; j < i; j++)
    if (strcmp(names[j], names[i]) == 0)
      return tn_status_create(TN_INVALID_ARGUMENT, "%s \"%s\" is given twice in one call, as number %d and %d", s->what,
                              names[i], j, i);
  return NULL;
}

/* A NULL data pointer unbinds an output. */
static bool unbinds(const side *s, int index, const DLTensor *tensor) {
  return s->output ? tensor->data == NULL : tn__bind_is_default(&s->values[index], tensor);
}

static tn_status *bind_all(tn_session *session, const char *function, const char *const *names, const DLTensor *tensors,
                           int count, tn_binding binding, bool output) {
  side s;
  TN_RETURN_IF_ERROR(find_side(session, function, output, &s));
  if (count < 0 || (names == NULL && (uint32_t)count != s.count))
    return tn__bind_wrong_count(s.f, s.what, s.count, count);
  /* Twice over all: nothing is bound unless everything can be. */
  int index;
  tn__extent memory;
  for (int i = 0; i < count; i++) {
    TN_RETURN_IF_ERROR(position_of(&s, names, i, &index));
    if (unbinds(&s, index, &tensors[i])) continue;
    TN_RETURN_IF_ERROR(tn__bind_check(s.f, index, output, &tensors[i], binding, &memory));
  }
  for (int i = 0; i < count; i++) {
    TN_RETURN_IF_ERROR(position_of(&s, names, i, &index));
    bool none = unbinds(&s, index, &tensors[i]) || !tn__extent_of(&tensors[i], &memory);
    tn__bind_keep(&s.slots[index], none ? NULL : &tensors[i], binding, &memory);
  }
  s.state->settled = false;
  return NULL;
}

tn_status *tn_session_set_inputs(tn_session *session, const char *function, const char *const *names,
                                 const DLTensor *tensors, int count, tn_binding binding) {
  TN__NEED("session", session);
  TN__NEED_LIST("tensors", tensors, "count", count);
  return TN__IN_SESSION(session, bind_all(session, function, names, tensors, count, binding, false));
}

tn_status *tn_session_set_outputs(tn_session *session, const char *function, const char *const *names,
                                  const DLTensor *tensors, int count, tn_binding binding) {
  TN__NEED("session", session);
  TN__NEED_LIST("tensors", tensors, "count", count);
  return TN__IN_SESSION(session, bind_all(session, function, names, tensors, count, binding, true));
}
