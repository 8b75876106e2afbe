/* Compiles an ONNX model and runs it, all in one process: link libtenon.
 *
 *   cc compile_and_run.c $(pkg-config --cflags --libs tenon) -o compile_and_run
 *   ./compile_and_run model.onnx x.npy y.npy      # a model of one input; its first output goes to y.npy */
#include <stdio.h>
#include <tenon/compile.h>

typedef struct work {
  tn_module *module;
  tn_executable *executable;
  tn_session *session;
  tn_tensor *input;
} work;

static tn_status *prepare(work *w, const char *model, const char *input) {
  tn_compile_options options = {.size = sizeof options}; /* all zero: this machine, the cache on */
  tn_status *status = tn_compile(model, NULL, 0, &options, &w->module);
  if (!status) status = tn_module_load(w->module, NULL, &w->executable);
  if (!status) status = tn_session_create(w->executable, NULL, &w->session);
  if (!status) status = tn_tensor_read_npy(input, NULL, &w->input);
  return status;
}

static tn_status *run(const work *w, const char *output) {
  DLTensor result;
  tn_status *status = tn_session_set_input_at(w->session, NULL, 0, tn_tensor_dl(w->input), TN_BIND_NEXT);
  if (!status) status = tn_session_invoke(w->session, NULL);
  if (!status) status = tn_session_get_output(w->session, NULL, 0, &result);
  if (!status) status = tn_tensor_write_npy(&result, output);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: compile_and_run MODEL.onnx INPUT.npy OUTPUT.npy\n");
    return 2;
  }
  work w = {0};
  tn_status *status = prepare(&w, argv[1], argv[2]);
  if (!status) status = run(&w, argv[3]);
  int failed = status != NULL;
  if (failed) {
    fprintf(stderr, "compile_and_run: %s\n", tn_status_message(status));
  } else {
    printf("%s: %s\n", tn_executable_output(w.executable, NULL, 0)->name, argv[3]);
  }
  tn_status_free(status);
  tn_tensor_release(w.input);
  tn_session_release(w.session);
  tn_executable_release(w.executable);
  tn_module_release(w.module);
  return failed;
}
