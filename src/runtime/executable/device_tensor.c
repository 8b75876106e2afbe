/* Tensors of callers on an executable's devices, and copies between them and the host. */
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/strbuf.h"
#include "runtime/executable/opened.h"

/* ---- where ------------------------------------------------------------------------------------------------------- */

static bool is_host(DLDevice device) { return device.device_type == kDLCPU && device.device_id == 0; }

static tn_status *not_there(const tn_executable *exe, const char *what, DLDevice device) {
  char text[48];
  tn__strbuf there;
  tn__strbuf_init(&there, NULL);
  tn__strbuf_append(&there, "cpu:0");
  for (uint32_t i = 0; i < exe->device_count; i++)
    if (!is_host(exe->devices[i])) tn__strbuf_printf(&there, ", %s", tn__rt_device_text(exe->devices[i], text));
  tn_status *status = tn_status_create(TN_INVALID_ARGUMENT, "%s is on %s, and the executable runs on %s", what,
                                       tn__rt_device_text(device, text), tn__strbuf_text(&there));
  tn__strbuf_release(&there);
  return status;
}

/* The number of the device, or -1: its memory is the host's. */
static tn_status *find_device(const tn_executable *exe, const char *what, DLDevice device, int *out) {
  *out = -1;
  if (is_host(device)) return NULL;
  for (uint32_t i = 0; i < exe->device_count; i++) {
    if (!tn__load_same_device(exe->devices[i], device)) continue;
    if (exe->drivers[i] != NULL && !exe->drivers[i]->inline_host) *out = (int)i;
    return NULL;
  }
  return not_there(exe, what, device);
}

static tn_status *check_runs(const tn_executable *exe) {
  if (!exe->verify_only) return NULL;
  return tn_status_create(TN_FAILED_PRECONDITION,
                          "the executable was loaded to be inspected only (tn_load_options.inspect_only), and its "
                          "devices are not opened: load it without that");
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

typedef struct device_tensor {
  DLManagedTensorVersioned managed; /* whose `manager_ctx` is this */
  tn_allocator copy;
  const tn_allocator *allocator;
  const tn_executable *exe; /* NULL: of the host */
  tn__opened *devices;
  tn__opened_device *device;
  tn__opened_tensor tensor; /* the device memory; without a device, host memory */
  int64_t shape[TN_MAX_RANK];
} device_tensor;

static void release(device_tensor *t) {
  const tn_executable *exe = t->exe;
  if (t->device != NULL) tn__opened_tensor_give_back(t->devices, t->device, &t->tensor);
  if (t->device == NULL) tn__free(t->allocator, t->tensor.memory, t->tensor.bytes, TN_KERNEL_ALIGNMENT);
  if (t->devices != NULL) tn__opened_give_back(t->devices);
  tn_allocator copy = t->copy;
  tn__free(t->allocator == NULL ? NULL : &copy, t, sizeof *t, 0);
  if (exe != NULL) tn_executable_release((tn_executable *)(uintptr_t)exe); /* what it keeps of it */
}

static void delete_tensor(DLManagedTensorVersioned *managed) { release(managed->manager_ctx); }

static tn_status *take_memory(const tn_executable *exe, device_tensor *t, int number) {
  if (number < 0) return tn__alloc(t->allocator, t->tensor.bytes, 1, TN_KERNEL_ALIGNMENT, &t->tensor.memory);
  TN_RETURN_IF_ERROR(tn__opened_take(exe, &t->devices));
  tn__opened_keep(exe);
  t->exe = exe;
  tn__opened_device *device = tn__opened_at(t->devices, (uint32_t)number);
  TN_RETURN_IF_ERROR(tn__opened_tensor_take(t->devices, device, t->tensor.bytes, &t->tensor));
  t->device = device;
  return NULL;
}

static tn_status *measure(tn_dtype dtype, int rank, const int64_t *shape, size_t *bytes) {
  char text[512];
  int64_t size;
  if (tn_dtype_size(dtype) == 0 || dtype == TN_STRING)
    return tn_status_create(TN_INVALID_ARGUMENT, "a tensor on a device has elements of a type of numbers, not %d",
                            (int)dtype);
  if (rank < 0 || rank > TN_MAX_RANK || (rank > 0 && shape == NULL))
    return tn_status_create(TN_INVALID_ARGUMENT, "a tensor of rank %d%s: it can be 0 to %d", rank,
                            rank > 0 && shape == NULL ? " without a shape" : "", TN_MAX_RANK);
  int64_t count = tn_element_count(rank, shape);
  if (count >= 0 && !tn__mul_overflow_i64(count, (int64_t)tn_dtype_size(dtype), &size)) {
    *bytes = size < TN_KERNEL_ALIGNMENT ? TN_KERNEL_ALIGNMENT : (size_t)size;
    return NULL;
  }
  tn__rt_format_shape(shape, rank, text, sizeof text);
  return tn_status_create(TN_INVALID_ARGUMENT, "a tensor of shape %s: a dimension is negative or the size overflows",
                          text);
}

tn_status *tn_device_tensor_create(const tn_executable *exe, DLDevice device, tn_dtype dtype, int rank,
                                   const int64_t *shape, DLManagedTensorVersioned **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("executable", exe);
  TN__NEED_LIST("shape", shape, "rank", rank);
  void *memory;
  int number;
  size_t bytes;
  TN_RETURN_IF_ERROR(check_runs(exe));
  if ((int)device.device_type == 0 && device.device_id == 0) device = (DLDevice){kDLCPU, 0};
  TN_RETURN_IF_ERROR(find_device(exe, "the tensor to be made", device, &number));
  TN_RETURN_IF_ERROR(measure(dtype, rank, shape, &bytes));
  TN_RETURN_IF_ERROR(tn__alloc(exe->region.allocator, 1, sizeof(device_tensor), 0, &memory));
  device_tensor *t = memory;
  if (exe->region.allocator != NULL) t->copy = *exe->region.allocator, t->allocator = &t->copy;
  t->tensor.bytes = bytes;
  tn_status *status = take_memory(exe, t, number);
  if (status != NULL) {
    release(t);
    return status;
  }
  for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
  t->managed = (DLManagedTensorVersioned){.version = {1, 0},
                                          .manager_ctx = t,
                                          .deleter = delete_tensor,
                                          .dl_tensor = {.data = t->tensor.memory,
                                                        .device = number < 0 ? (DLDevice){kDLCPU, 0} : device,
                                                        .ndim = rank,
                                                        .dtype = tn_dtype_to_dl(dtype),
                                                        .shape = t->shape}};
  *out = &t->managed;
  return NULL;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

typedef struct end { /* of a copy */
  const char *what;
  const DLTensor *tensor;
  int number; /* of the device; -1: the host */
  char *data;
  tn__stream stream; /* without a device: not open */
} end;

static tn_status *find_end(const tn_executable *exe, const char *what, const DLTensor *tensor, end *out) {
  *out = (end){.what = what, .tensor = tensor, .number = -1, .data = tn__rt_data_of(tensor)};
  TN_RETURN_IF_ERROR(find_device(exe, what, tn__tensor_device(tensor), &out->number));
  if (tensor->ndim < 0 || tensor->ndim > TN_MAX_RANK || (tensor->ndim > 0 && tensor->shape == NULL))
    return tn_status_create(TN_INVALID_ARGUMENT, "%s has rank %d, or no shape", what, tensor->ndim);
  if (tn_element_count(tensor->ndim, tensor->shape) < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s has a shape that is negative or overflows", what);
  if (tensor->data == NULL && tn_element_count(tensor->ndim, tensor->shape) > 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s has no data", what);
  return NULL;
}

static tn_status *check_alike(const end *from, const end *to) {
  const DLTensor *a = from->tensor, *b = to->tensor;
  tn_dtype dtype = tn_dtype_of_dl(a->dtype);
  bool same = a->ndim == b->ndim && dtype == tn_dtype_of_dl(b->dtype) && dtype != TN_DTYPE_INVALID;
  for (int i = 0; same && i < a->ndim; i++) same = a->shape[i] == b->shape[i];
  if (!same || dtype == TN_STRING)
    return tn_status_create(TN_INVALID_ARGUMENT, "a copy is between tensors of one type of numbers and one shape");
  bool apart = from->number >= 0 || to->number >= 0;
  if (apart && !(tn__tensor_is_dense(a) && tn__tensor_is_dense(b)))
    return tn_status_create(TN_INVALID_ARGUMENT, "a copy to or from a device is between dense, row-major tensors");
  return NULL;
}

static tn_status *open_end(tn__opened *devices, end *e, size_t bytes) {
  if (e->number < 0) return NULL;
  tn__opened_device *device = tn__opened_at(devices, (uint32_t)e->number);
  TN_RETURN_IF_ERROR(tn__opened_check_held(devices, device, e->what, e->data, bytes));
  e->stream = (tn__stream){.device = &device->device, .allocator = devices->exe->region.allocator};
  tn_status *status = device->device.driver->open_stream(&e->stream);
  if (status != NULL) e->stream.device = NULL;
  return status;
}

static void close_end(end *e) {
  if (e->stream.device != NULL) e->stream.device->driver->close_stream(&e->stream);
}

static tn_status *move_bytes(end *e, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  return e->stream.device->driver->copy(&e->stream, kind, to, from, bytes);
}

static tn_status *copy_through_host(tn__opened *devices, end *from, end *to, size_t bytes) {
  const tn_allocator *allocator = devices->exe->region.allocator;
  void *between;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, TN__COPY_PIECE, 1, 0, &between));
  tn_status *status = tn__device_copy_between(&to->stream, to->data, &from->stream, from->data, bytes, between);
  tn__free(allocator, between, TN__COPY_PIECE, 0);
  return status;
}

static tn_status *copy_with(tn__opened *devices, end *from, end *to) {
  size_t bytes = (size_t)tn_element_count(from->tensor->ndim, from->tensor->shape) *
                 tn_dtype_size(tn_dtype_of_dl(from->tensor->dtype));
  TN_RETURN_IF_ERROR(open_end(devices, from, bytes));
  TN_RETURN_IF_ERROR(open_end(devices, to, bytes));
  if (bytes == 0) return NULL;
  if (from->number < 0) return move_bytes(to, TN__COPY_IN, to->data, from->data, bytes);
  if (to->number < 0) return move_bytes(from, TN__COPY_OUT, to->data, from->data, bytes);
  if (from->stream.device == to->stream.device) return move_bytes(to, TN__COPY_WITHIN, to->data, from->data, bytes);
  return copy_through_host(devices, from, to, bytes);
}

tn_status *tn_device_tensor_copy(const tn_executable *exe, const DLTensor *from, const DLTensor *to) {
  TN__NEED("executable", exe);
  TN__NEED("from", from);
  TN__NEED("to", to);
  end source, target;
  tn__opened *devices;
  TN_RETURN_IF_ERROR(check_runs(exe));
  TN_RETURN_IF_ERROR(find_end(exe, "the tensor to copy from", from, &source));
  TN_RETURN_IF_ERROR(find_end(exe, "the tensor to copy to", to, &target));
  TN_RETURN_IF_ERROR(check_alike(&source, &target));
  if (source.number < 0 && target.number < 0) {
    tn_tensor_copy(from, to);
    return NULL;
  }
  TN_RETURN_IF_ERROR(tn__opened_take(exe, &devices));
  tn_status *status = copy_with(devices, &source, &target);
  close_end(&source);
  close_end(&target);
  if (status != NULL) tn__opened_failed(devices, status);
  tn__opened_give_back(devices);
  return status;
}
