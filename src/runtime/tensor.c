#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/sanitize.h"
#include "runtime/tensor.h"

enum { ALIGNMENT = 64 };

struct tn_tensor {
  DLTensor dl; /* first: tn_tensor_dl() */
  tn_allocator copy;
  const tn_allocator *allocator;
  void *data; /* dl.data is the caller's to change */
  size_t bytes;
  char *text; /* of strings */
  size_t text_bytes;
  int64_t shape[TN_MAX_RANK];
};

int64_t tn_element_count(int rank, const int64_t *shape) {
  int64_t count = 1;
  bool empty = false, overflow = false;
  if (rank > 0 && shape == NULL) return -1;
  for (int i = 0; i < rank; i++) {
    if (shape[i] < 0) return -1;
    if (shape[i] == 0)
      empty = true;
    else if (tn__mul_overflow_i64(count, shape[i], &count))
      overflow = true, count = 1;
  }
  return empty ? 0 : overflow ? -1 : count;
}

tn_dtype tn_dtype_of_dl(DLDataType type) {
  if (type.lanes != 1) return TN_DTYPE_INVALID;
  tn_dtype dtype = (tn_dtype)((unsigned)type.code << 8 | type.bits);
  return tn_dtype_size(dtype) == 0 ? TN_DTYPE_INVALID : dtype;
}

DLDataType tn_dtype_to_dl(tn_dtype dtype) {
  return (DLDataType){(uint8_t)((unsigned)dtype >> 8), (uint8_t)((unsigned)dtype & 0xff), 1};
}

tn_status *tn_tensor_create(tn_dtype dtype, int rank, const int64_t *shape, const tn_allocator *allocator,
                            tn_tensor **out) {
  TN__NEED("out", out);
  *out = NULL;
  size_t element = tn_dtype_size(dtype);
  if (element == 0) return tn_status_create(TN_INVALID_ARGUMENT, "a tensor of the unknown type %d", (int)dtype);
  if (rank < 0 || rank > TN_MAX_RANK)
    return tn_status_create(TN_INVALID_ARGUMENT, "a tensor of rank %d: it can be 0 to %d", rank, TN_MAX_RANK);
  if (rank > 0 && shape == NULL)
    return tn_status_create(TN_INVALID_ARGUMENT, "a tensor of rank %d without a shape: it is NULL", rank);
  int64_t count = tn_element_count(rank, shape), bytes;
  if (count < 0 || tn__mul_overflow_i64(count, (int64_t)element, &bytes)) {
    char text[512];
    tn__rt_format_shape(shape, rank, text, sizeof(text));
    return tn_status_create(TN_INVALID_ARGUMENT, "a tensor of shape %s: a dimension is negative or the size overflows",
                            text);
  }
  void *memory, *data;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, 1, sizeof(tn_tensor), 0, &memory));
  tn_tensor *tensor = memory;
  if (allocator != NULL) {
    tensor->copy = *allocator;
    tensor->allocator = &tensor->copy;
  }
  tn_status *status = tn__alloc(allocator, (size_t)bytes, 1, ALIGNMENT, &data);
  if (status != NULL) {
    tn__free(allocator, tensor, sizeof(*tensor), 0);
    return status;
  }
  TN__INITIALIZED(data, (size_t)bytes); /* kernels write it */
  tensor->data = data, tensor->bytes = (size_t)bytes;
  for (int i = 0; i < rank; i++) tensor->shape[i] = shape[i];
  tensor->dl = (DLTensor){
      .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = tn_dtype_to_dl(dtype), .shape = tensor->shape};
  *out = tensor;
  return NULL;
}

/* ---- tensors of tn_string --------------------------------------------------------------------------------------- */

tn_string *tn__rt_string_element(const DLTensor *tensor, int64_t position) {
  char *data = (char *)tensor->data + tensor->byte_offset;
  int64_t offset = position;
  if (tensor->strides != NULL) {
    offset = 0;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
      offset += position % tensor->shape[i] * tensor->strides[i];
      position /= tensor->shape[i];
    }
  }
  return (tn_string *)(void *)(data + offset * (int64_t)sizeof(tn_string));
}

void tn__rt_string_elements_put(const tn_string *strings, int64_t count, const DLTensor *tensor, char *bytes) {
  for (int64_t i = 0; i < count; i++) {
    tn_string text = strings[i];
    if (bytes != NULL) {
      if (text.length > 0) memcpy(bytes, text.data, text.length);
      text.data = bytes;
      bytes += text.length;
    }
    memcpy(tn__rt_string_element(tensor, i), &text, sizeof(text));
  }
}

bool tn__rt_string_elements_bytes(const tn_string *strings, int64_t count, uint64_t *bytes) {
  *bytes = 0;
  for (int64_t i = 0; i < count; i++) {
    if (strings[i].length > SIZE_MAX - *bytes) return false;
    *bytes += strings[i].length;
  }
  return true;
}

tn_status *tn_tensor_create_strings(int rank, const int64_t *shape, const tn_string *strings,
                                    const tn_allocator *allocator, tn_tensor **out) {
  TN__NEED("out", out);
  *out = NULL;
  uint64_t bytes;
  void *text;
  TN_RETURN_IF_ERROR(tn_tensor_create(TN_STRING, rank, shape, allocator, out));
  tn_tensor *tensor = *out;
  int64_t count = tn_element_count(rank, shape);
  if (count > 0 && strings == NULL) {
    tn_tensor_release(tensor);
    *out = NULL;
    return tn__argument_missing(__func__, "strings");
  }
  bool countable = tn__rt_string_elements_bytes(strings, count, &bytes);
  tn_status *status = countable ? tn__alloc(allocator, 1, (size_t)bytes, 0, &text)
                                : tn_status_create(TN_INVALID_ARGUMENT, "strings of more bytes than can be counted");
  if (status != NULL) {
    tn_tensor_release(tensor);
    *out = NULL;
    return status;
  }
  tensor->text = text, tensor->text_bytes = (size_t)bytes;
  tn__rt_string_elements_put(strings, count, &tensor->dl, tensor->text);
  return NULL;
}

DLTensor *tn_tensor_dl(tn_tensor *tensor) { return tensor == NULL ? NULL : &tensor->dl; }

void tn_tensor_release(tn_tensor *tensor) {
  if (tensor == NULL) return;
  tn_allocator copy = tensor->copy;
  const tn_allocator *allocator = tensor->allocator == NULL ? NULL : &copy;
  tn__free(allocator, tensor->data, tensor->bytes, ALIGNMENT);
  tn__free(allocator, tensor->text, tensor->text_bytes, 0);
  tn__free(allocator, tensor, sizeof(*tensor), 0);
}

/* ---- views ------------------------------------------------------------------------------------------------------ */

bool tn__tensor_is_dense(const DLTensor *tensor) {
  if (tensor->strides == NULL) return true;
  uint64_t expected = 1; /* which wraps around for a tensor that a dimension further out makes empty */
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    if (tensor->shape[i] == 0) return true;
    if (tensor->shape[i] != 1 && tensor->strides[i] != (int64_t)expected) return false;
    expected *= (uint64_t)tensor->shape[i];
  }
  return true;
}

/* Strides in elements. */
static void copy_elements(char *to, int64_t to_stride, const char *from, int64_t from_stride, size_t size,
                          int64_t count) {
  int64_t to_step = to_stride * (int64_t)size, from_step = from_stride * (int64_t)size;
  switch (size) {
    case 1:
      for (int64_t i = 0; i < count; i++) to[i * to_step] = from[i * from_step];
      break;
    case 2:
      for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, 2);
      break;
    case 4:
      for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, 4);
      break;
    case 16:
      for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, 16);
      break;
    default:
      for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, 8);
  }
}

static void copy_row(char *to, int64_t to_stride, const char *from, int64_t from_stride, size_t size, int64_t count) {
  if (to_stride == 1 && from_stride == 1)
    memcpy(to, from, (size_t)count * size);
  else
    copy_elements(to, to_stride, from, from_stride, size, count);
}

static void dense_strides(const DLTensor *tensor, int64_t *strides) {
  int64_t step = 1;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    strides[i] = step;
    step *= tensor->shape[i];
  }
}

const char *tn__rt_device_name(DLDeviceType type) {
  switch (type) {
    case kDLCPU: return "cpu";
    case kDLCUDA: return "cuda";
    case kDLOpenCL: return "opencl";
    case kDLExtDev: return "island";
  }
  return NULL;
}

const char *tn__rt_device_text(DLDevice device, char text[48]) {
  const char *name = tn__rt_device_name(device.device_type);
  if (name == NULL)
    snprintf(text, 48, "device %d of type %d", (int)device.device_id, (int)device.device_type);
  else
    snprintf(text, 48, "%s:%d", name, (int)device.device_id);
  return text;
}

DLDevice tn__tensor_device(const DLTensor *tensor) {
  bool unsaid = (int)tensor->device.device_type == 0 && tensor->device.device_id == 0;
  return unsaid ? (DLDevice){kDLCPU, 0} : tensor->device;
}

static bool same_device(DLDevice a, DLDevice b) { return a.device_type == b.device_type && a.device_id == b.device_id; }

tn_status *tn__tensor_check_device(const DLTensor *tensor, DLDevice wanted, bool or_host) {
  const DLDevice host = {kDLCPU, 0}, device = tn__tensor_device(tensor);
  if (same_device(device, wanted) || (or_host && same_device(device, host))) return NULL;
  if (device.device_type != kDLCPU || device.device_id == 0) {
    char have[48], want[48];
    return tn_status_create(TN_INVALID_ARGUMENT, "the tensor is on %s and must be on %s%s: copy it there first",
                            tn__rt_device_text(device, have), tn__rt_device_text(wanted, want),
                            or_host ? " or cpu:0" : "");
  }
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "the tensor is on the CPU with device_id %d; there is one CPU, number 0: set device_id to 0",
                          (int)device.device_id);
}

void tn_tensor_copy(const DLTensor *from, const DLTensor *to) {
  if (from == NULL || to == NULL) return;
  size_t size = tn_dtype_size(tn_dtype_of_dl(from->dtype));
  int64_t count = tn_element_count(from->ndim, from->shape);
  if (count <= 0) return;
  if (tn__tensor_is_dense(from) && tn__tensor_is_dense(to)) {
    memcpy(tn__rt_data_of(to), tn__rt_data_of(from), (size_t)count * size);
    return;
  }
  int64_t dense[TN_MAX_RANK], index[TN_MAX_RANK] = {0};
  dense_strides(from, dense);
  const int64_t *out = to->strides != NULL ? to->strides : dense, *in = from->strides != NULL ? from->strides : dense;
  int last = from->ndim - 1;
  int64_t inner = from->shape[last];
  for (int64_t done = 0; done < count; done += inner) {
    int64_t from_offset = 0, to_offset = 0;
    for (int i = 0; i < last; i++) from_offset += index[i] * in[i], to_offset += index[i] * out[i];
    copy_row(tn__rt_data_of(to) + to_offset * (int64_t)size, out[last],
             tn__rt_data_of(from) + from_offset * (int64_t)size, in[last], size, inner);
    for (int i = last - 1; i >= 0 && ++index[i] == from->shape[i]; i--) index[i] = 0;
  }
}

void tn__tensor_copy_dense(const DLTensor *tensor, void *out) {
  DLTensor dense = *tensor;
  dense.data = out, dense.byte_offset = 0, dense.strides = NULL;
  tn_tensor_copy(tensor, &dense);
}
