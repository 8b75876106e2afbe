/* usage: without_values MODEL.tnx FLOW.tnx
 * With a runtime that was built without values that are not tensors: runs examples/embed, and is refused an executable
 * that has sequences. */
#include <stdio.h>
#include <string.h>
#include <tenon/runtime.h>

static int failed(const char *what, tn_status *status) {
  fprintf(stderr, "FAILED: %s: %s\n", what, status == NULL ? "nothing was said" : tn_status_message(status));
  return 1;
}

static tn_status *run(const char *path, float *y) {
  float x[3][3] = {{1, 1, 1}, {1, 0, -1}, {0, 0, 0}};
  int64_t shape[] = {3, 3};
  DLTensor input = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = tn_dtype_to_dl(TN_F32), .shape = shape};
  DLTensor output;
  tn_executable *executable = NULL;
  tn_session *session = NULL;
  tn_status *status = tn_executable_load(path, NULL, &executable);
  if (!status) status = tn_session_create(executable, NULL, &session);
  if (!status) status = tn_session_set_input(session, NULL, "x", &input, TN_BIND_PERSISTENT);
  for (int i = 0; i < 2 && !status; i++) status = tn_session_invoke(session, NULL);
  if (!status) status = tn_session_get_output(session, NULL, 0, &output);
  if (!status) memcpy(y, output.data, 6 * sizeof(float));
  tn_session_release(session);
  tn_executable_release(executable);
  return status;
}

int main(int argc, char **argv) {
  static const float expected[6] = {6, 0, 0, 2, 0, 0};
  static const char words[] =
      "the executable has sequences or optional values, and this libtenon_runtime was built without sequences, "
      "optional "
      "values, strings and tables (-DTENON_VALUES=OFF): use one that has them";
  float y[6] = {0};
  if (argc != 3) return 2;
  tn_status *status = run(argv[1], y);
  if (status != NULL || memcmp(y, expected, sizeof(y)) != 0) return failed(argv[1], status);
  tn_load_options options = {.size = sizeof(options), .inspect_only = true}; /* whatever the machine is */
  tn_executable *executable;
  status = tn_executable_load(argv[2], &options, &executable);
  if (status == NULL || tn_status_code_of(status) != TN_UNSUPPORTED || strstr(tn_status_message(status), words) == NULL)
    return failed(argv[2], status);
  tn_status_free(status);
  return 0;
}
