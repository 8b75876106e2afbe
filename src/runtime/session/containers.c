/* The public functions over sequences and optional values: which one is meant; the rest is src/runtime/values. */
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "runtime/session/values.h"

static tn_status *find_list(tn_session *session, const char *function, int index, bool output, const tn__function **f,
                            const tn_value_info **info) {
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, f));
  uint32_t count = output ? (*f)->output_count : (*f)->input_count;
  const char *what = output ? "output" : "input";
  if (index < 0 || (uint32_t)index >= count)
    return tn_status_create(TN_INVALID_ARGUMENT, "function \"%s\" has %u %ss; there is no number %d", (*f)->name, count,
                            what, index);
  *info = output ? &(*f)->outputs[index].info : &(*f)->inputs[index].info;
  if ((*info)->kind != TN_VALUE_TENSOR) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "%s \"%s\" is a tensor, neither a sequence nor optional", what,
                          (*info)->name);
}

static tn_status *set_input_list(tn_session *session, const char *function, int index, const DLTensor *tensors,
                                 int count) {
  const tn__function *f;
  const tn_value_info *info;
  TN_RETURN_IF_ERROR(find_list(session, function, index, false, &f, &info));
  return session->exe->values->session->set_input(session, f, index, tensors, count);
}

tn_status *tn_session_set_input_list(tn_session *session, const char *function, int index, const DLTensor *tensors,
                                     int count) {
  TN__NEED("session", session);
  TN__NEED_LIST("tensors", tensors, "count", count > 0 ? count : 0); /* a negative count means no value */
  return TN__IN_SESSION(session, set_input_list(session, function, index, tensors, count));
}

static tn_status *set_output_list(tn_session *session, const char *function, int index, void *memory, size_t size) {
  const tn__function *f;
  const tn_value_info *info;
  TN_RETURN_IF_ERROR(find_list(session, function, index, true, &f, &info));
  if (!tn__bind_is_aligned(memory, TN_KERNEL_ALIGNMENT))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "output \"%s\": the memory is aligned to %u bytes; that of a sequence must be to %d",
                            info->name, (unsigned)((uintptr_t)memory & -(uintptr_t)memory), TN_KERNEL_ALIGNMENT);
  if (size > INT64_MAX || size > UINTPTR_MAX - (uintptr_t)memory)
    return tn_status_create(TN_INVALID_ARGUMENT, "output \"%s\": memory of %llu bytes, which is no size", info->name,
                            (unsigned long long)size);
  tn__function_state *state = &session->functions[f->index];
  int64_t bytes = (int64_t)size;
  DLTensor tensor = {.data = memory, .device = {kDLCPU, 0}, .ndim = 1, .dtype = tn_dtype_to_dl(TN_U8), .shape = &bytes};
  tn__extent all = tn__extent_of_bytes(memory, size);
  tn__bind_keep(&state->outputs[index], memory == NULL ? NULL : &tensor, TN_BIND_PERSISTENT, &all);
  state->settled = false;
  return NULL;
}

tn_status *tn_session_set_output_list(tn_session *session, const char *function, int index, void *memory, size_t size) {
  TN__NEED("session", session);
  return TN__IN_SESSION(session, set_output_list(session, function, index, memory, size));
}

static tn_status *find_result(tn_session *session, const char *function, int index, tn__function_state **out) {
  const tn__function *f;
  const tn_value_info *info;
  TN_RETURN_IF_ERROR(find_list(session, function, index, true, &f, &info));
  *out = &session->functions[f->index];
  if ((*out)->has_results) return NULL;
  return tn_status_create(TN_FAILED_PRECONDITION,
                          "function \"%s\" has no results: no invoke of it succeeded yet, or the last one failed",
                          f->name);
}

static tn_status *get_output_count(tn_session *session, const char *function, int index, int *count) {
  tn__function_state *state;
  TN_RETURN_IF_ERROR(find_result(session, function, index, &state));
  return session->exe->values->session->get_count(state, index, count);
}

tn_status *tn_session_get_output_count(tn_session *session, const char *function, int index, int *count) {
  TN__NEED("count", count);
  *count = 0;
  TN__NEED("session", session);
  return TN__IN_SESSION(session, get_output_count(session, function, index, count));
}

static tn_status *get_output_item(tn_session *session, const char *function, int index, int item, DLTensor *out) {
  tn__function_state *state;
  TN_RETURN_IF_ERROR(find_result(session, function, index, &state));
  return session->exe->values->session->get_item(session, state, index, item, out);
}

tn_status *tn_session_get_output_item(tn_session *session, const char *function, int index, int item, DLTensor *out) {
  TN__NEED("out", out);
  TN__NEED("session", session);
  *out = (DLTensor){0};
  return TN__IN_SESSION(session, get_output_item(session, function, index, item, out));
}
