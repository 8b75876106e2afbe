/* ONNX models built in a test, compiled and loaded. */
#ifndef TENON_TESTS_UNIT_COMPILE_ONNX_H
#define TENON_TESTS_UNIT_COMPILE_ONNX_H

#include "tenon/compile.h"
#include "unit/check.h"
#include "unit/onnx_build.h"

static inline DLTensor tensor_of(tn_dtype dtype, int rank, int64_t *shape, void *data) {
  return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = tn_dtype_to_dl(dtype), .shape = shape};
}

static inline tn_compile_options plain(void) {
  return (tn_compile_options){.size = sizeof(tn_compile_options), .no_cache = true, .run_threads = 1};
}

static inline tn_executable *load_module(tn_module *module) {
  tn_executable *exe;
  check_ok(tn_module_load(module, NULL, &exe));
  tn_module_release(module);
  return exe;
}

static inline tn_executable *compile_one(pb model, const tn_compile_options *options) {
  tn_module *module;
  check_ok(tn_compile("model.onnx", model.data, model.size, options, &module));
  pb_free(&model);
  return load_module(module);
}

static inline tn_session *open_session(const tn_executable *exe, const tn_allocator *allocator) {
  tn_session *session;
  tn_session_options options = {.size = sizeof(options), .threads = 1, .allocator = allocator};
  check_ok(tn_session_create(exe, &options, &session));
  return session;
}

#endif
