// SPDX-License-Identifier: Apache-2.0
/* The model as a shared library of one function, for programs that load it. */
#include "model.h"

int model_run(const void *const *inputs, void *const *outputs, void *workspace);
int model_run(const void *const *inputs, void *const *outputs, void *workspace) {
  return tn_model_main(inputs, outputs, workspace);
}
