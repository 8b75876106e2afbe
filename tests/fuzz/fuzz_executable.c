/* The loader and the verifier on any bytes, with the hashes made right so that they are no obstacle. What is accepted
 * is disassembled and asked for shapes; when it has no kernels (native code is the user's trust) and no way back in its
 * code, it runs too. */
#include <stdlib.h>
#include <string.h>

#include "runtime/executable.h"
#include "unit/rehash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_MEMORY = 64 << 20, SIDE = 3 };

/* A budget, because a small file may ask for much memory. */
static void *limited(void *user, void *pointer, size_t old_size, size_t new_size, size_t align) {
  size_t *left = user;
  if (new_size == 0) {
    free(pointer);
    if (pointer != NULL) *left += old_size;
    return NULL;
  }
  if (new_size > *left + old_size) return NULL;
  void *fresh = NULL;
  if (posix_memalign(&fresh, align < sizeof(void *) ? sizeof(void *) : align, new_size) != 0) return NULL;
  if (pointer != NULL) memcpy(fresh, pointer, old_size < new_size ? old_size : new_size);
  free(pointer);
  *left = *left + old_size - new_size;
  return fresh;
}

static bool may_run(const tn_executable *exe) {
  for (uint32_t f = 0; f < exe->function_count; f++)
    for (uint32_t i = 0; i < exe->functions[f].instruction_count; i++) {
      const tn__instruction *in = &exe->functions[f].instructions[i];
      bool jump = in->op == TN__OP_JUMP || in->op == TN__OP_JUMP_IF_ZERO;
      if ((jump && in->callee <= i) || in->op == TN__OP_CALL || in->op == TN__OP_KERNEL) return false;
    }
  return true;
}

/* Inputs with the constant dimensions that they want, and SIDE for each symbol. */
static void run(tn_executable *exe, const tn_allocator *allocator) {
  int inputs = tn_executable_input_count(exe, NULL);
  tn_session *session = NULL;
  tn_session_options options = {.size = sizeof(options), .allocator = allocator, .threads = 1};
  tn_status *status = tn_session_create(exe, &options, &session);
  tn_tensor **tensors = calloc((size_t)inputs + 1, sizeof(*tensors));
  for (int i = 0; i < inputs && status == NULL; i++) {
    const tn_value_info *info = tn_executable_input(exe, NULL, i);
    int64_t shape[TN_MAX_RANK];
    for (int d = 0; d < info->rank; d++) shape[d] = info->dims[d].size < 0 ? SIDE : info->dims[d].size;
    status = tn_tensor_create(info->dtype, info->rank, shape, allocator, &tensors[i]);
    if (status == NULL)
      status = tn_session_set_input_at(session, NULL, i, tn_tensor_dl(tensors[i]), TN_BIND_PERSISTENT);
  }
  for (int round = 0; round < 2 && status == NULL; round++) status = tn_session_invoke(session, NULL);
  tn_status_free(status);
  tn_session_release(session);
  for (int i = 0; i < inputs; i++) tn_tensor_release(tensors[i]);
  free(tensors);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size + 1);
  memcpy(copy, data, size);
  rehash(copy, size);
  size_t left = MOST_MEMORY;
  tn_allocator allocator = {limited, &left};
  tn_load_options options = {.size = sizeof(options), .allocator = &allocator};
  tn_executable *exe;
  tn_status *status = tn_executable_load_memory(copy, size, &options, &exe);
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
