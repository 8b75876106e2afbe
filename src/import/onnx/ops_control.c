/* Control flow. */
#include "import/onnx/ops.h"

/* A condition that is known now chooses its branch, and the other is not imported. */
void tn__onnx_if(tn__onode *n) {
  const int64_t *condition;
  int count;
  if (!tn__on_known_ints(n, 0, &condition, &count))
    tn__on_unsupported(
        n,
        "its condition is known only at run time; only branches that are chosen by constants and shapes are supported");
  if (count != 1) tn__on_fail(n, "its condition has %d elements, expected 1", count);
  tn__onnx_inline_graph(n, tn__on_graph(n, condition[0] != 0 ? "then_branch" : "else_branch"), n->out, n->output_count);
}
