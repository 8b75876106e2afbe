/* NVIDIA's run-time compiler: what is used of libnvrtc, whose interface is stable. */
#ifndef TENON_RUNTIME_CUDA_NVRTC_H
#define TENON_RUNTIME_CUDA_NVRTC_H

#include "runtime/cuda/cuda.h"

/* F(name, parameters). All return a result, 0 for success. */
#define TN__NVRTC_FUNCTIONS(F)                                                                                      \
  F(nvrtcVersion, (int *major, int *minor))                                                                         \
  F(nvrtcGetNumSupportedArchs, (int *count))                                                                        \
  F(nvrtcGetSupportedArchs, (int *list))                                                                            \
  F(nvrtcCreateProgram, (void **program, const char *text, const char *name, int count, const char *const *headers, \
                         const char *const *names))                                                                 \
  F(nvrtcCompileProgram, (void *program, int count, const char *const *options))                                    \
  F(nvrtcGetProgramLogSize, (void *program, size_t *size))                                                          \
  F(nvrtcGetProgramLog, (void *program, char *log))                                                                 \
  F(nvrtcGetCUBINSize, (void *program, size_t *size))                                                               \
  F(nvrtcGetCUBIN, (void *program, char *code))                                                                     \
  F(nvrtcGetPTXSize, (void *program, size_t *size))                                                                 \
  F(nvrtcGetPTX, (void *program, char *code))                                                                       \
  F(nvrtcDestroyProgram, (void **program))

typedef struct tn__cuda_nvrtc {
#define TN__NVRTC_MEMBER(name, parameters) int(*name) parameters;
  TN__NVRTC_FUNCTIONS(TN__NVRTC_MEMBER)
#undef TN__NVRTC_MEMBER
} tn__cuda_nvrtc;

/* Opens it: the file that TENON_NVRTC names, else where the loader finds it, else the toolkit's. */
TN_MUST_USE tn_status *tn__cuda_load_nvrtc(tn__cuda_nvrtc *out);

#endif
