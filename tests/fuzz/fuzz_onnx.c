/* The ONNX importer over any bytes: a graph that verifies, or a status. External data is looked for in a folder that
 * does not exist. */
#include "base/arena.h"
#include "import/onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
  const uint8_t *data;
  size_t size;
  tn__arena arena;
} input;

static void import_body(tn__escape *escape, void *arg) {
  input *in = arg;
  tn__onnx_model *model = tn__onnx_open(&in->arena, "/nonexistent/fuzz.onnx", in->data, in->size);
  const tn__onnx_op_use *uses;
  tn__onnx_op_uses(model, &uses);
  tn__graph *graph = tn__onnx_import(model, tn__ir_create(&in->arena), NULL);
  tn_status *status = tn__graph_verify(graph);
  if (status != NULL) __builtin_trap(); /* what the importer builds must be a graph */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn__escape escape;
  input in = {.data = data == NULL ? (const uint8_t *)"" : data, .size = size};
  tn__arena_init(&in.arena, NULL, &escape);
  tn_status_free(tn__protect(&escape, import_body, &in));
  tn__arena_release(&in.arena);
  return 0;
}
