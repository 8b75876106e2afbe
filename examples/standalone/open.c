// SPDX-License-Identifier: Apache-2.0
/* The same model for any number of rows: the size is an argument, and functions tell what it makes of the workspace and
 * the outputs.
 *
 *   tenon compile ../embed/model.onnx --emit c -o batch */
#include <stdalign.h>
#include <stdio.h>

#include "batch.h"

enum { MOST_ROWS = 4 };

int main(void) {
  static alignas(64) float x[MOST_ROWS][3] = {{1, 1, 1}, {1, 0, -1}, {1, 0, 2}, {0, 1, 0}}, y[MOST_ROWS][2];
  static alignas(64) char workspace[TN_BATCH_MAIN_WORKSPACE + 1];
  const void *inputs[] = {x};
  void *outputs[] = {y};
  for (int64_t rows = 1; rows <= MOST_ROWS; rows += 3) {
    int64_t dims[1][TN_BATCH_MAX_RANK];
    int32_t status = tn_batch_main_output_dims(rows, dims);
    if (status == 0) status = tn_batch_main(rows, inputs, outputs, workspace);
    if (status != 0) {
      fprintf(stderr, "%s: %s\n", tn_batch_place(status), tn_batch_message(status));
      return 1;
    }
    for (int64_t row = 0; row < dims[0][0]; row++) printf("%g %g\n", y[row][0], y[row][1]);
  }
  return tn_batch_main(-1, inputs, outputs, workspace) % 16 == TN_BATCH_BAD_SIZE ? 0 : 1;
}
