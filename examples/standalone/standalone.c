// SPDX-License-Identifier: Apache-2.0
/* Runs a model that was compiled to an object and a header: no file to load, no runtime, no allocation.
 *
 *   tenon compile ../embed/model.onnx --dim rows=2 --emit c -o model
 *
 * The model is that of ../embed: y = relu(x * w) with w = [[1, -1], [2, -2], [3, -3]], for two rows here. */
#include <stdalign.h>
#include <stdio.h>

#include "model.h"

int main(void) {
  static alignas(64) float x[2][3] = {{1, 1, 1}, {1, 0, -1}}, y[2][2];
  static alignas(64) char workspace[TN_MODEL_MAIN_WORKSPACE + 1];
  const void *inputs[] = {x};
  void *outputs[] = {y};
  for (int step = 0; step < 2; step++) {
    int result = tn_model_main(inputs, outputs, workspace);
    if (result != 0) return result;
    for (int row = 0; row < 2; row++) printf("%g %g\n", y[row][0], y[row][1]);
    x[1][2] = 2;
  }
  return 0;
}
