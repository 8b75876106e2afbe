/* The loader and the verifier on any bytes, with the hashes made right so that they are no obstacle. What is accepted
 * is disassembled and asked for shapes; when it has no kernels (native code is the user's trust) and no way back in its
 * code or its calls, it runs too, also on islands. What is for devices or CPUs that are not there is looked at as
 * `tenon run --verify-only` does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/invariant.h"
#include "fuzz/memory.h"
#include "runtime/executable/executable.h"
#include "unit/rehash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_MEMORY = 64 << 20, SIDE = 3, MOST_CALLS = 4, MOST_ISLANDS = 4 };

/* Calls go to later functions only and are few, so that they end. Devices of plug-ins are not opened: what those hold
 * is not counted. */
static bool may_run(const tn_executable *exe) {
  int calls = 0;
  if (exe->device_count > MOST_ISLANDS) return false;
  for (uint32_t i = 0; i < exe->device_count; i++)
    if (exe->devices[i].device_type != kDLCPU && exe->devices[i].device_type != kDLExtDev) return false;
  for (uint32_t f = 0; f < exe->function_count; f++)
    for (uint32_t i = 0; i < exe->functions[f].instruction_count; i++) {
      const tn__instruction *in = &exe->functions[f].instructions[i];
      bool jump = in->op == TN__OP_JUMP || in->op == TN__OP_JUMP_IF_ZERO, call = in->op == TN__OP_CALL;
      if ((jump && in->callee <= i) || (call && (in->callee <= f || ++calls > MOST_CALLS)) || in->op == TN__OP_KERNEL)
        return false;
    }
  return true;
}

/* A tensor for an input: constant dimensions as wanted, SIDE for each symbol. What grows in a buffer gets its strides,
 * and memory that ends with the last element that counts. */
typedef struct argument {
  DLTensor tensor;
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
  size_t bytes;
} argument;

static bool make_argument(const tn_value_info *info, const tn_allocator *allocator, argument *a) {
  int64_t buffer[TN_MAX_RANK], step = 1, last = 0;
  TN__INVARIANT(info->rank >= 0 && info->rank <= TN_MAX_RANK); /* the loader saw to that */
  for (int d = 0; d < info->rank; d++) {
    a->shape[d] = info->dims[d]->size < 0 ? SIDE : info->dims[d]->size;
    buffer[d] = info->dims[d]->capacity > 0 ? info->dims[d]->capacity : a->shape[d];
  }
  int64_t all = tn_element_count(info->rank, buffer), count = tn_element_count(info->rank, a->shape);
  if (all < 0 || all > MOST_MEMORY || count < 0 || count > all) return false;
  for (int d = info->rank - 1; d >= 0; d--) {
    a->strides[d] = step;
    last += (a->shape[d] - 1) * step;
    step = all == 0 ? 0 : step * buffer[d];
  }
  a->bytes = count == 0 ? 1 : (size_t)(last + 1) * tn_dtype_size(info->dtype);
  a->tensor = (DLTensor){.device = {kDLCPU, 0}, .ndim = info->rank, .dtype = tn_dtype_to_dl(info->dtype)};
  a->tensor.shape = a->shape;
  if (all > 0) a->tensor.strides = a->strides;
  a->tensor.data = allocator->reallocate(allocator->user, NULL, 0, a->bytes, 64);
  if (a->tensor.data != NULL) memset(a->tensor.data, 0, a->bytes);
  return a->tensor.data != NULL;
}

static void run(tn_executable *exe, const tn_allocator *allocator) {
  int inputs = tn_executable_input_count(exe, NULL);
  tn_session *session = NULL;
  char names[MOST_ISLANDS][24];
  tn_memory_setting memory[MOST_ISLANDS];
  for (uint32_t i = 0; i < exe->device_count; i++) {
    snprintf(names[i], sizeof(names[i]), "%s:%d", tn__rt_device_name(exe->devices[i].device_type),
             (int)exe->devices[i].device_id);
    memory[i] = (tn_memory_setting){names[i], MOST_MEMORY};
  }
  tn_session_options options = {.size = sizeof(options),
                                .allocator = allocator,
                                .threads = 1,
                                .memory = memory,
                                .memory_count = (int)exe->device_count};
  tn_status *status = tn_session_create(exe, &options, &session);
  argument *arguments = calloc((size_t)inputs + 1, sizeof(*arguments));
  bool good = status == NULL;
  for (int i = 0; i < inputs && good; i++) {
    const tn_value_info *info = tn_executable_input(exe, NULL, i);
    if (info->kind != TN_VALUE_TENSOR) {
      status = tn_session_set_input_list(session, NULL, i, NULL, 0);
    } else {
      good = make_argument(info, allocator, &arguments[i]);
      if (good) status = tn_session_set_input_at(session, NULL, i, &arguments[i].tensor, TN_BIND_PERSISTENT);
    }
    good = good && status == NULL;
  }
  for (int round = 0; round < 2 && good && status == NULL; round++) status = tn_session_invoke(session, NULL);
  tn_status_free(status);
  tn_session_release(session);
  for (int i = 0; i < inputs; i++)
    if (arguments[i].tensor.data != NULL)
      allocator->reallocate(allocator->user, arguments[i].tensor.data, arguments[i].bytes, 0, 64);
  free(arguments);
}

static void ask_for_shapes(const tn_executable *exe) {
  int inputs = tn_executable_input_count(exe, NULL), outputs = tn_executable_output_count(exe, NULL);
  static const int64_t shape[TN_MAX_RANK] = {SIDE, SIDE, SIDE, SIDE};
  const int64_t **shapes = calloc((size_t)inputs + 1, sizeof(*shapes));
  int64_t(*out)[TN_MAX_RANK] = calloc((size_t)outputs + 1, sizeof(*out));
  for (int i = 0; i < inputs; i++) shapes[i] = shape;
  tn_status_free(tn_function_infer_shapes(exe, NULL, shapes, out));
  free(shapes);
  free(out);
}

static void verify(const uint8_t *data, size_t size) {
  char path[32];
  int file = memfd_create("executable", 0);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  if (file >= 0 && write(file, data, size) == (ssize_t)size) tn_status_free(tn_executable_verify(path, NULL));
  if (file >= 0) close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size + 1);
  memcpy(copy, data, size);
  rehash(copy, size);
  size_t left = MOST_MEMORY;
  tn_allocator allocator = {fuzz_limited, &left};
  tn_load_options options = {.size = sizeof(options), .allocator = &allocator};
  tn_executable *exe;
  tn_status *status = tn_executable_load_memory(copy, size, &options, &exe);
  tn_status_code code = tn_status_code_of(status);
  if (code == TN_NOT_FOUND || code == TN_FAILED_PRECONDITION) verify(copy, size);
  free(copy);
  tn_status_free(status);
  if (exe == NULL) return 0;
  char *text;
  tn_status_free(tn_executable_disassemble(exe, &text));
  free(text);
  ask_for_shapes(exe);
  if (may_run(exe)) run(exe, &allocator);
  tn_executable_release(exe);
  return 0;
}
