// SPDX-License-Identifier: Apache-2.0
/* Runs a compiled model inside of a C program, on buffers that are the program's own.
 *
 *   tenon compile model.onnx -o model.tnx && ./embed model.tnx
 *
 * The model is that of make_model.py: y = relu(x * w) with w = [[1, -1], [2, -2], [3, -3]] and any number of rows. */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/runtime.h>

enum { ROWS = 2, WIDTH = 3, OUTPUTS = 2 };

/* Every call may fail, and says why. */
static void check(tn_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "embed: %s\n", tn_status_message(status));
  tn_status_free(status);
  exit(1);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: embed MODEL.tnx\n");
    return 2;
  }
  tn_executable *model;
  check(tn_executable_load(argv[1], NULL, &model));
  tn_session *session;
  tn_session_options options = {.size = sizeof options, .threads = 1};
  check(tn_session_create(model, &options, &session));

  /* Dense and row-major, both are used in place. */
  float x[ROWS][WIDTH] = {{1, 1, 1}, {1, 0, -1}};
  float y[ROWS][OUTPUTS];
  int64_t x_shape[2] = {ROWS, WIDTH}, y_shape[2] = {ROWS, OUTPUTS};
  DLTensor input = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = tn_dtype_to_dl(TN_F32), .shape = x_shape};
  DLTensor output = {.data = y, .device = {kDLCPU, 0}, .ndim = 2, .dtype = tn_dtype_to_dl(TN_F32), .shape = y_shape};
  check(tn_session_set_input(session, NULL, "x", &input, TN_BIND_PERSISTENT));
  check(tn_session_set_output(session, NULL, "y", &output, TN_BIND_PERSISTENT));

  /* Bound once, invoked often: the input may change in between, and no invoke but the first allocates. */
  for (int step = 0; step < 2; step++) {
    check(tn_session_invoke(session, NULL));
    for (int i = 0; i < ROWS; i++) printf("%g %g\n", (double)y[i][0], (double)y[i][1]);
    x[1][2] = 2;
  }

  tn_session_release(session);
  tn_executable_release(model);
  return 0;
}
