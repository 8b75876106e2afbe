/* usage: run_executable MODEL.tnx FOLDER [INPUT.npy ...]
 *
 * Runs an executable with the runtime library alone, on any architecture: inputs by position; outputs go to
 * FOLDER/0.npy, FOLDER/1.npy, ... */
#include <stdio.h>
#include <tenon/runtime.h>

enum { MAX_INPUTS = 64 };

typedef struct model {
  tn_executable *executable;
  tn_session *session;
  tn_tensor *inputs[MAX_INPUTS];
  int input_count;
} model;

static tn_status *open_model(model *m, const char *path, char **inputs, int input_count) {
  tn_status *status = tn_executable_load(path, NULL, &m->executable);
  if (!status) status = tn_session_create(m->executable, NULL, &m->session);
  for (; !status && m->input_count < input_count; m->input_count++)
    status = tn_tensor_read_npy(inputs[m->input_count], NULL, &m->inputs[m->input_count]);
  return status;
}

/* A persistent binding is made once and serves every invoke; tensors keep their address. */
static tn_status *bind_inputs(const model *m) {
  tn_status *status = NULL;
  for (int i = 0; i < m->input_count && !status; i++)
    status = tn_session_set_input_at(m->session, NULL, i, tn_tensor_dl(m->inputs[i]), TN_BIND_PERSISTENT);
  return status;
}

static tn_status *write_outputs(const model *m, const char *folder) {
  tn_status *status = NULL;
  for (int i = 0; i < tn_executable_output_count(m->executable, NULL) && !status; i++) {
    DLTensor result; /* a view of the session's own memory, valid until the next invoke */
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.npy", folder, i);
    status = tn_session_get_output(m->session, NULL, i, &result);
    if (!status) status = tn_tensor_write_npy(&result, path);
    if (!status) printf("%s: %s\n", tn_executable_output(m->executable, NULL, i)->name, path);
  }
  return status;
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 3 + MAX_INPUTS) {
    fprintf(stderr, "usage: run_executable MODEL.tnx FOLDER [INPUT.npy ...]\n");
    return 2;
  }
  model m = {0};
  tn_status *status = open_model(&m, argv[1], argv + 3, argc - 3);
  if (!status) status = bind_inputs(&m);
  if (!status) status = tn_session_invoke(m.session, NULL);
  if (!status) status = write_outputs(&m, argv[2]);
  int failed = status != NULL;
  if (failed) fprintf(stderr, "run_executable: %s\n", tn_status_message(status));
  tn_status_free(status);
  tn_session_release(m.session);
  for (int i = 0; i < m.input_count; i++) tn_tensor_release(m.inputs[i]);
  tn_executable_release(m.executable);
  return failed;
}
