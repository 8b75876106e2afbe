/* SPDX-License-Identifier: Apache-2.0
 *
 * Tenon: the case's ONNX model, compiled as the bench runs, called through a session with everything bound. */
#include "server.h"

#include "tenon/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_INPUTS 8

static struct {
  tn_executable *executable;
  tn_session *session;
  tn_tensor *inputs[MAX_INPUTS];
  int input_count;
  tn_tensor *output;
} state;

static void check(tn_status *status) {
  if (status) {
    bench_fail("%s", tn_status_message(status));
  }
}

static void release(void) {
  tn_session_release(state.session);
  tn_executable_release(state.executable);
  for (int i = 0; i < state.input_count; i++) {
    tn_tensor_release(state.inputs[i]);
  }
  tn_tensor_release(state.output);
  memset(&state, 0, sizeof state);
}

/* Inputs are the files `input0`, `input1` ... of the case. */
static void bind_inputs(const bench_case *given) {
  state.input_count = tn_executable_input_count(state.executable, NULL);
  if (state.input_count > MAX_INPUTS) {
    bench_fail("more than %d inputs", MAX_INPUTS);
  }
  for (int i = 0; i < state.input_count; i++) {
    char key[16];
    snprintf(key, sizeof key, "input%d", i);
    check(tn_tensor_read_npy(bench_text(given, key), NULL, &state.inputs[i]));
    check(tn_session_set_input_at(state.session, NULL, i, tn_tensor_dl(state.inputs[i]), TN_BIND_PERSISTENT));
  }
}

static void bind_output(bench_work *work) {
  const tn_value_info *info = tn_executable_output(state.executable, NULL, 0);
  int64_t shape[TN_MAX_RANK];
  for (int i = 0; i < info->rank; i++) {
    shape[i] = info->dims[i].size;
  }
  check(tn_tensor_create(info->dtype, info->rank, shape, NULL, &state.output));
  check(tn_session_set_output_at(state.session, NULL, 0, tn_tensor_dl(state.output), TN_BIND_PERSISTENT));
  work->output = tn_tensor_dl(state.output)->data;
  work->output_bytes = (size_t)tn_element_count(info->rank, shape) * sizeof(float);
}

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

void engine_prepare(const bench_case *given, int threads, bench_work *work) {
  release();
  tn_compile_options options = {.size = sizeof options, .run_threads = threads, .no_cache = true};
  tn_module *module;
  double start = now_ms();
  check(tn_compile(bench_text(given, "model"), NULL, 0, &options, &module));
  double compiled_ms = now_ms() - start;
  check(tn_module_load(module, NULL, &state.executable));
  tn_module_release(module);
  tn_session_options session = {.size = sizeof session, .threads = threads};
  check(tn_session_create(state.executable, &session, &state.session));
  bind_inputs(given);
  bind_output(work);
  tn_executable_summary summary;
  tn_executable_summarize(state.executable, &summary);
  snprintf(work->note, sizeof work->note, "%d kernels, compiled in %.1f ms", summary.kernel_count, compiled_ms);
}

void engine_run(void) { check(tn_session_invoke(state.session, NULL)); }

void engine_finish_output(void) {}

const char *engine_version(void) { return TENON_VERSION; }
