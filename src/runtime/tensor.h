#ifndef TENON_RUNTIME_TENSOR_H
#define TENON_RUNTIME_TENSOR_H

#include "base/linked.h"
#include "tenon/runtime.h"

/* Where its elements begin; NULL when it has no data. */
static inline char *tn__rt_data_of(const DLTensor *tensor) {
  return tensor->data == NULL ? NULL : (char *)tensor->data + tensor->byte_offset;
}

/* Where the tensor says it is; zeros are read as the CPU. */
DLDevice tn__tensor_device(const DLTensor *tensor);
const char *tn__rt_device_name(DLDeviceType type); /* "opencl"; NULL: of a type without one */
/* "cuda:1", or "device 1 of type 9" for types without a name. */
const char *tn__rt_device_text(DLDevice device, char text[48]);
/* Refuses a tensor that is anywhere else than wanted, or on the host when that will do: its pointer means something
 * there only. The message begins "the tensor is on". */
TN_MUST_USE tn_status *tn__tensor_check_device(const DLTensor *tensor, DLDevice wanted, bool or_host);

/* The shape and strides must have passed tn_element_count(). */
bool tn__tensor_is_dense(
    const DLTensor *tensor); /* row-major without gaps; strides of dimensions of size 1 do not matter */
void tn__tensor_copy_dense(const DLTensor *tensor, void *out); /* row-major, whatever the strides */

/* What the first bytes of a .npy file tell. */
typedef struct tn__npy_info {
  size_t body, bytes; /* where the elements begin, and what they take */
  bool is_plain;      /* numbers in row-major order: the bytes are the tensor's */
  tn_dtype dtype;
  int rank;
  int64_t shape[TN_MAX_RANK];
} tn__npy_info;
/* `data`: the first `size` bytes of a file of `total`, the header among them; `name` stands in messages. */
TN__LINKED TN_MUST_USE tn_status *tn__npy_describe(const char *name, const void *data, size_t size, uint64_t total,
                                                   tn__npy_info *out);

/* "[2, 3]" into `text`, cut off with "..." when it does not fit. */
void tn__rt_format_shape(const int64_t *shape, int rank, char *text, size_t size);
/* "[2, seq, 3]"; symbolic dimensions by name, or "?" when they have none; those with a capacity "past<=1024"; "[...]"
 * of TN_ANY_RANK. */
void tn__rt_format_dims(const tn_dim_info *const *dims, int rank, char *text, size_t size);

/* ---- tensors of tn_string ---- */

/* The element at a flat position of a tensor of any strides. */
tn_string *tn__rt_string_element(const DLTensor *tensor, int64_t position);
/* Writes strings into the first elements of a tensor, of any strides: where they are, or, `bytes` not NULL, copied
 * there one after another. */
void tn__rt_string_elements_put(const tn_string *strings, int64_t count, const DLTensor *tensor, char *bytes);
/* All bytes of `count` strings; false when they are more than a size_t counts. */
TN_MUST_USE bool tn__rt_string_elements_bytes(const tn_string *strings, int64_t count, uint64_t *bytes);

#endif
