/* The ONNX importer over any bytes: a graph that verifies, or a status. External data is looked for in a folder that
 * does not exist. */
#include "fuzz/fuzz.h"
#include "import/onnx/onnx.h"

static void import_body(tn__escape *escape, void *arg) {
  fuzz_input *in = arg;
  tn__onnx_model *model = tn__onnx_open(&in->arena, "/nonexistent/fuzz.onnx", in->data, in->size);
  const tn__onnx_op_use *uses;
  int count = tn__onnx_op_uses(model, &uses);
  for (int i = 0; i < count; i++) require(uses[i].name != NULL);
  tn__graph *graph = tn__onnx_import(model, tn__ir_create(&in->arena), NULL);
  tn_status *status = tn__graph_verify(graph);
  require(status == NULL); /* what the importer builds must be a graph */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_status_free(fuzz_with(data, size, import_body));
  return 0;
}
