/* SPDX-License-Identifier: Apache-2.0
 *
 * Tenon: the case's ONNX model, compiled as the bench runs, called through a session with everything bound. Tensors are
 * f32 and start at pages, as those of the limits and of the other libraries do. */
#include "server.h"

#include "tenon/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_INPUTS 8

typedef struct bound {
  DLTensor tensor;
  int64_t shape[TN_MAX_RANK];
} bound;

static struct {
  tn_executable *executable;
  tn_session *session;
  bound inputs[MAX_INPUTS], output;
  int input_count;
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
    free(state.inputs[i].tensor.data);
  }
  free(state.output.tensor.data);
  memset(&state, 0, sizeof state);
}

static size_t describe(const tn_value_info *info, bound *out) {
  if (info->dtype != TN_F32) {
    bench_fail("%s is no tensor of f32", info->name);
  }
  for (int i = 0; i < info->rank; i++) {
    out->shape[i] = info->dims[i]->size;
  }
  out->tensor = (DLTensor){.device = {kDLCPU, 0},
                           .ndim = info->rank,
                           .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                           .shape = out->shape};
  return (size_t)tn_element_count(info->rank, out->shape);
}

/* Inputs are the files `input0`, `input1` ... of the case. */
static void bind_inputs(const bench_case *given) {
  state.input_count = tn_executable_input_count(state.executable, NULL);
  if (state.input_count > MAX_INPUTS) {
    bench_fail("more than %d inputs", MAX_INPUTS);
  }
  for (int i = 0; i < state.input_count; i++) {
    bound *input = &state.inputs[i];
    size_t wanted = describe(tn_executable_input(state.executable, NULL, i), input), count;
    char key[16];
    snprintf(key, sizeof key, "input%d", i);
    input->tensor.data = bench_read_f32(bench_text(given, key), &count);
    if (count != wanted) {
      bench_fail("%s has %zu elements; the model wants %zu", key, count, wanted);
    }
    check(tn_session_set_input_at(state.session, NULL, i, &input->tensor, TN_BIND_PERSISTENT));
  }
}

static void bind_output(bench_work *work) {
  size_t count = describe(tn_executable_output(state.executable, NULL, 0), &state.output);
  state.output.tensor.data = bench_floats(count);
  check(tn_session_set_output_at(state.session, NULL, 0, &state.output.tensor, TN_BIND_PERSISTENT));
  work->output = state.output.tensor.data;
  work->output_bytes = count * sizeof(float);
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
  snprintf(work->note, sizeof work->note, "%d kernels, compiled in %.1f ms",
           tn_executable_summarize(state.executable)->kernel_count, compiled_ms);
}

void engine_run(void) { check(tn_session_invoke(state.session, NULL)); }

void engine_finish_output(void) {}

const char *engine_version(void) { return tn_version(); }
