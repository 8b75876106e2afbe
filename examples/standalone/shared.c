// SPDX-License-Identifier: Apache-2.0
/* The same through the shared library that model_library.c makes. */
#include <stdalign.h>
#include <stdio.h>

int model_run(const void *const *inputs, void *const *outputs, void *workspace);

int main(void) {
  static alignas(64) float x[2][3] = {{1, 1, 1}, {1, 0, -1}}, y[2][2];
  static alignas(64) char workspace[4096]; /* TN_MODEL_MAIN_WORKSPACE is less */
  const void *inputs[] = {x};
  void *outputs[] = {y};
  for (int step = 0; step < 2; step++) {
    int result = model_run(inputs, outputs, workspace);
    if (result != 0) return result;
    for (int row = 0; row < 2; row++) printf("%g %g\n", y[row][0], y[row][1]);
    x[1][2] = 2;
  }
  return 0;
}
