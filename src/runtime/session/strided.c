/* Inputs of any strides: how such tensors are handed to the function for them. */
#include "base/alloc.h"
#include "runtime/session/session.h"

const tn__function *tn__bind_strided_choice(const tn_executable *exe, const tn__function *f, const tn__bound *inputs) {
  for (uint32_t i = 0; i < f->input_count && f->strided >= 0; i++)
    if (f->inputs[i].info.strided && inputs[i].set && tn__bind_is_in_place(&f->inputs[i], &inputs[i].tensor) &&
        !tn__tensor_is_dense(&inputs[i].tensor))
      return &exe->functions[f->strided];
  return f;
}

/* In unsigned numbers, which wrap around: what does not fit is no tensor in memory. */
tn__strided_memory tn__strided_memory_of(const DLTensor *tensor) {
  tn__strided_memory memory = {.data = tn__rt_data_of(tensor)};
  if (tn_element_count(tensor->ndim, tensor->shape) == 0) return memory;
  uint64_t below = 0, above = 0, dense = 1;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    int64_t stride = tensor->strides != NULL ? tensor->strides[i] : (int64_t)dense;
    uint64_t reach = (uint64_t)(tensor->shape[i] - 1) * (uint64_t)stride;
    *(stride < 0 ? &below : &above) += reach;
    dense *= (uint64_t)tensor->shape[i];
  }
  memory.origin = (int64_t)(0 - below);
  memory.span = (int64_t)(above - below + 1);
  memory.data -= (uint64_t)memory.origin * tn_dtype_size(tn_dtype_of_dl(tensor->dtype));
  return memory;
}

/* Kernels follow strides without checks, so no element may lie outside the memory that they get. */
tn_status *tn__bind_strided_check(const tn__function_value *value, const DLTensor *tensor) {
  tn__strided_memory memory = tn__strided_memory_of(tensor);
  int64_t low = memory.origin, high = low, dense = 1;
  bool overflow = false;
  if (tn_element_count(tensor->ndim, tensor->shape) == 0) return NULL;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    int64_t stride = tensor->strides != NULL ? tensor->strides[i] : dense, reach;
    int64_t *end = stride < 0 ? &low : &high;
    overflow = overflow || tn__mul_overflow_i64(tensor->shape[i] - 1, stride, &reach) ||
               tn__add_overflow_i64(*end, reach, end) || tn__mul_overflow_i64(dense, tensor->shape[i], &dense);
  }
  if (!overflow && low >= 0 && high < memory.span) return NULL;
  char shape[256], strides[256] = "";
  tn__rt_format_shape(tensor->shape, tensor->ndim, shape, sizeof(shape));
  if (tensor->strides != NULL) tn__rt_format_shape(tensor->strides, tensor->ndim, strides, sizeof(strides));
  return tn_status_create(
      TN_OUT_OF_RANGE,
      "input \"%s\": the tensor of shape %s has strides %s, which lead outside of its memory of %lld "
      "elements",
      value->info.name, shape, strides, (long long)memory.span);
}

void tn__bind_strided_place(tn__frame *frame, const tn__function *f, uint32_t index, const DLTensor *tensor,
                            int64_t *numbers) {
  uint32_t extra = f->input_count;
  for (uint32_t i = 0; i < index; i++) extra += f->inputs[i].info.strided ? 2 : 0;
  tn__strided_memory memory = tn__strided_memory_of(tensor);
  int64_t dense = 1, count = tensor->ndim + 1;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    numbers[i] = tensor->strides != NULL ? tensor->strides[i] : dense;
    dense = (int64_t)((uint64_t)dense * (uint64_t)tensor->shape[i]);
  }
  numbers[tensor->ndim] = memory.origin;
  tn__frame_set_input(frame, extra, memory.data, &memory.span);
  tn__frame_set_input(frame, extra + 1, numbers, &count);
}
