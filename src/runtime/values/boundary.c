/* Sequences and optional values at a function's boundary: given tensor by tensor and copied, read tensor by tensor. */
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/strbuf.h"
#include "runtime/values/state.h"

static tn_status *check_item(const tn_value_info *info, const DLTensor *tensor, int item) {
  char have[256] = "of no type that Tenon has";
  tn_dtype dtype = tn_dtype_of_dl(tensor->dtype);
  if (dtype != info->dtype)
    return tn_status_create(TN_INVALID_ARGUMENT, "input \"%s\": tensor %d is %s and the executable wants %s",
                            info->name, item, dtype == TN_DTYPE_INVALID ? have : tn_dtype_name(dtype),
                            tn_dtype_name(info->dtype));
  TN_RETURN_IF_ERROR(tn_status_prefix(tn__tensor_check_device(tensor, info->device, false), "input \"%s\": tensor %d",
                                      info->name, item));
  if (info->rank != TN_ANY_RANK && tensor->ndim != info->rank)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "input \"%s\": tensor %d has %d dimension%s and the executable wants %d", info->name, item,
                            tensor->ndim, tn__plural(tensor->ndim), info->rank);
  if (tensor->ndim < 0 || tensor->ndim > TN_MAX_RANK)
    return tn_status_create(TN_INVALID_ARGUMENT, "input \"%s\": tensor %d has %d dimensions; it can have 0 to %d",
                            info->name, item, tensor->ndim, TN_MAX_RANK);
  if (tensor->ndim > 0 && tensor->shape == NULL)
    return tn_status_create(TN_INVALID_ARGUMENT, "input \"%s\": tensor %d has %d dimension%s and no shape: it is NULL",
                            info->name, item, tensor->ndim, tn__plural(tensor->ndim));
  int64_t count = tn_element_count(tensor->ndim, tensor->shape), bytes;
  if (count < 0 || tn__mul_overflow_i64(count, (int64_t)tn_dtype_size(dtype), &bytes)) {
    tn__rt_format_shape(tensor->shape, tensor->ndim, have, sizeof(have));
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "input \"%s\": tensor %d has the shape %s, with a negative dimension or an overflow",
                            info->name, item, have);
  }
  if (tensor->data == NULL && count > 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "input \"%s\": tensor %d has no data", info->name, item);
  tn__extent memory;
  if (!tn__extent_of(tensor, &memory))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "input \"%s\": tensor %d: its strides or its byte_offset lead out of what an address can "
                            "reach",
                            info->name, item);
  return NULL;
}

static tn_status *check_count(const tn_value_info *info, const DLTensor *tensors, int count) {
  bool optional = info->kind != TN_VALUE_SEQUENCE;
  if (count > 0 && tensors == NULL)
    return tn_status_create(TN_INVALID_ARGUMENT, "input \"%s\": `tensors` is NULL, where %d are given", info->name,
                            count);
  if (count < -1 || (count == -1 && !optional))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "input \"%s\" is a sequence, which cannot be absent or have %d tensors", info->name, count);
  if (info->kind == TN_VALUE_OPTIONAL && count != 1 && count != -1)
    return tn_status_create(TN_INVALID_ARGUMENT, "input \"%s\" is an optional tensor: it is one or absent, not %d",
                            info->name, count);
  return NULL;
}

tn_status *tn__values_set_input(tn_session *session, const tn__function *f, int index, const DLTensor *tensors,
                                int count) {
  const tn_value_info *info = &f->inputs[index].info;
  TN_RETURN_IF_ERROR(check_count(info, tensors, count));
  for (int i = 0; i < count; i++) TN_RETURN_IF_ERROR(check_item(info, &tensors[i], i));
  tn__function_state *state = &session->functions[f->index];
  bool strings = info->dtype == TN_STRING;
  tn__list *list = strings ? &state->values->given_lists[index] : &state->values->input_lists[index];
  tn__strings *texts = &state->values->given_strings[index];
  state->settled = false;
  state->inputs[index].set = false; /* until all of it is there */
  tn__list_clear(list, count < 0);
  tn__strings_clear(texts);
  for (int i = 0; i < count; i++) {
    void *data;
    TN_RETURN_IF_ERROR(tn__list_add(session->allocator, list, tn__dtype_stored(info->dtype), i, tensors[i].ndim,
                                    tensors[i].shape, &data));
    if (strings)
      TN_RETURN_IF_ERROR(
          tn_status_prefix(tn__strings_take_in(session->allocator, texts, "its strings", &tensors[i], data),
                           "input \"%s\": tensor %d", info->name, i));
    else
      tn__tensor_copy_dense(&tensors[i], data);
  }
  state->inputs[index].set = state->inputs[index].persistent = true;
  return NULL;
}

/* The result of the last invoke. */
static const tn__list *result_of(const tn__function_state *state, int index) {
  return state->frame->data[state->frame->f->outputs[index].reg];
}

tn_status *tn__values_get_count(tn__function_state *state, int index, int *count) {
  const tn__list *list = result_of(state, index);
  if (list->count > INT32_MAX)
    return tn_status_create(TN_OUT_OF_RANGE, "output \"%s\" has %lld tensors, too many to be counted by an int",
                            state->frame->f->outputs[index].info.name, (long long)list->count);
  *count = list->absent ? -1 : (int)list->count;
  return NULL;
}

/* ---- strings that callers see ------------------------------------------------------------------------------------ */

tn_status *tn__values_show(tn_session *session, tn__function_state *state, int index, DLTensor *result) {
  tn__shown_strings *shown = &state->values->shown[index];
  int64_t count = tn_element_count(result->ndim, result->shape);
  const uint64_t *references = result->data;
  result->data = NULL;
  if (!shown->ready) {
    TN_RETURN_IF_ERROR(tn__block_reserve(session->allocator, &shown->strings, count * (int64_t)sizeof(tn_string)));
    TN_RETURN_IF_ERROR(tn__strings_show(&state->values->strings, references, count, shown->strings.data));
    shown->ready = true;
  }
  result->data = shown->strings.data;
  return NULL;
}

/* All strings of the list are shown at once, in the places of their references, so that one item's stay when another is
 * asked for. */
static tn_status *show_all(tn_session *session, tn__function_state *state, const tn__list *list, int index) {
  tn__shown_strings *shown = &state->values->shown[index];
  const char *start = list->elements.data;
  for (int64_t i = 0; i < list->count && !shown->ready; i++) {
    const char *references = tn__list_data(list, i);
    if (i == 0)
      TN_RETURN_IF_ERROR(tn__block_reserve(session->allocator, &shown->strings,
                                           list->used / (int64_t)sizeof(uint64_t) * (int64_t)sizeof(tn_string)));
    TN_RETURN_IF_ERROR(
        tn__strings_show(&state->values->strings, (const void *)references,
                         tn_element_count(tn__list_rank(list, i), tn__list_dims(list, i)),
                         (tn_string *)shown->strings.data + (references - start) / (ptrdiff_t)sizeof(uint64_t)));
  }
  shown->ready = true;
  return NULL;
}

static const tn_string *shown_item(const tn__function_state *state, const tn__list *list, int index, int64_t item) {
  ptrdiff_t at = (const char *)tn__list_data(list, item) - (const char *)list->elements.data;
  return (const tn_string *)state->values->shown[index].strings.data + at / (ptrdiff_t)sizeof(uint64_t);
}

/* The bytes of a tensor's array of strings in bound memory; and where it begins there. */
static int64_t array_bytes(const tn__list *list, int64_t item) {
  int64_t count = tn_element_count(tn__list_rank(list, item), tn__list_dims(list, item));
  return (count * (int64_t)sizeof(tn_string) + TN_KERNEL_ALIGNMENT - 1) & -(int64_t)TN_KERNEL_ALIGNMENT;
}

static int64_t array_offset(const tn__list *list, int64_t item) {
  int64_t offset = 0;
  for (int64_t i = 0; i < item; i++) offset += array_bytes(list, i);
  return offset;
}

static int64_t bytes_of_all(const tn__function_state *state, const tn__list *list, int index) {
  int64_t needed = array_offset(list, list->count);
  for (int64_t i = 0; i < list->count; i++) {
    uint64_t own;
    int64_t count = tn_element_count(tn__list_rank(list, i), tn__list_dims(list, i));
    if (!tn__rt_string_elements_bytes(shown_item(state, list, index, i), count, &own) || own > INT64_MAX ||
        tn__add_overflow_i64(needed, (int64_t)own, &needed))
      return INT64_MAX;
  }
  return needed;
}

tn_status *tn__values_settle_strings(tn_session *session, tn__function_state *state, int index, const tn__list *list,
                                     bool *fits, int64_t *needed) {
  const tn__bound *slot = &state->outputs[index];
  TN_RETURN_IF_ERROR(show_all(session, state, list, index));
  *needed = bytes_of_all(state, list, index);
  *fits = *needed <= slot->shape[0];
  if (!*fits) return NULL;
  char *memory = tn__rt_data_of(&slot->tensor), *array = memory, *bytes = memory + array_offset(list, list->count);
  for (int64_t i = 0; i < list->count; i++) {
    const tn_string *strings = shown_item(state, list, index, i);
    int64_t count = tn_element_count(tn__list_rank(list, i), tn__list_dims(list, i));
    uint64_t own;
    DLTensor to = {
        .data = array, .device = {kDLCPU, 0}, .ndim = 1, .dtype = tn_dtype_to_dl(TN_STRING), .shape = &count};
    tn__rt_string_elements_put(strings, count, &to, bytes);
    if (tn__rt_string_elements_bytes(strings, count, &own)) bytes += own;
    array += array_bytes(list, i);
  }
  state->values->shown[index].given = memory;
  return NULL;
}

static tn_status *show_item(tn_session *session, tn__function_state *state, const tn__list *list, int index,
                            int64_t item, const char **data) {
  if (state->values->shown[index].given != NULL) {
    *data = state->values->shown[index].given + array_offset(list, item);
    return NULL;
  }
  TN_RETURN_IF_ERROR(show_all(session, state, list, index));
  *data = (const char *)shown_item(state, list, index, item);
  return NULL;
}

tn_status *tn__values_get_item(tn_session *session, tn__function_state *state, int index, int item, DLTensor *out) {
  const tn__list *list = result_of(state, index);
  const tn_value_info *info = &state->frame->f->outputs[index].info;
  if (item < 0 || item >= list->count)
    return tn_status_create(TN_INVALID_ARGUMENT, "output \"%s\" has %lld tensors; there is no number %d", info->name,
                            (long long)list->count, item);
  const char *data = tn__list_data(list, item);
  if (info->dtype == TN_STRING) TN_RETURN_IF_ERROR(show_item(session, state, list, index, item, &data));
  *out = (DLTensor){.data = (void *)(uintptr_t)data,
                    .device = {kDLCPU, 0},
                    .ndim = tn__list_rank(list, item),
                    .dtype = tn_dtype_to_dl(info->dtype),
                    .shape = (int64_t *)(uintptr_t)tn__list_dims(list, item)};
  return NULL;
}
