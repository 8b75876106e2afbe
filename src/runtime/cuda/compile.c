/* From CUDA C to an image for the driver: by NVRTC, or from what that made of the same text before. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/source/source.h"

enum { MOST_ARCHITECTURES = 64, OPTION = 64 };

/* The latest architecture that the compiler knows and the device runs; 0: there is none. */
static int choose_architecture(const tn__cuda_nvrtc *n, int device) {
  int list[MOST_ARCHITECTURES], count = 0, best = 0;
  if (n->nvrtcGetNumSupportedArchs(&count) != 0 || count < 1 || count > MOST_ARCHITECTURES ||
      n->nvrtcGetSupportedArchs(list) != 0)
    return 0;
  for (int i = 0; i < count; i++)
    if (list[i] <= device && list[i] > best) best = list[i];
  return best;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static tn_status *refused(const tn__cuda_nvrtc *n, void *program, const char *text) {
  size_t size = 0;
  char *log = NULL;
  if (n->nvrtcGetProgramLogSize(program, &size) == 0 && size > 0) log = calloc(1, size + 1);
  if (log != NULL) (void)n->nvrtcGetProgramLog(program, log);
  tn_status *status = tn__source_refused(text, log == NULL ? "nothing" : log);
  free(log);
  return status;
}

/* The image of what was compiled: code of the architecture, or PTX, which ends with a NUL. */
static tn_status *take_image(const tn__cuda_nvrtc *n, void *program, bool code, void **out, size_t *size) {
  int result = code ? n->nvrtcGetCUBINSize(program, size) : n->nvrtcGetPTXSize(program, size);
  if (result != 0 || *size == 0) return tn_status_create(TN_INTERNAL, "the compiler for its kernels gives no code");
  *out = malloc(*size);
  if (*out == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %zu bytes of its code", *size);
  result = code ? n->nvrtcGetCUBIN(program, *out) : n->nvrtcGetPTX(program, *out);
  if (result == 0) return NULL;
  free(*out);
  *out = NULL;
  return tn_status_create(TN_INTERNAL, "the compiler for its kernels gives no code");
}

static tn_status *compile(const tn__cuda_nvrtc *n, const char *text, const char *architecture, bool code, void **out,
                          size_t *size) {
  const char *options[] = {architecture, TN__SOURCE_CUDA_OPTIONS};
  void *program = NULL;
  if (n->nvrtcCreateProgram(&program, text, "kernels.cu", 0, NULL, NULL) != 0)
    return tn_status_create(TN_OUT_OF_MEMORY, "the compiler for its kernels does not begin");
  tn_status *status = n->nvrtcCompileProgram(program, (int)(sizeof options / sizeof options[0]), options) == 0
                          ? take_image(n, program, code, out, size)
                          : refused(n, program, text);
  n->nvrtcDestroyProgram(&program);
  return status;
}

/* All that the image depends on. */
static tn__digest key_of(const tn__cuda_nvrtc *n, const char *text, const char *architecture) {
  int major = 0, minor = 0;
  tn__sha256 h;
  (void)n->nvrtcVersion(&major, &minor);
  tn__sha256_init(&h);
  tn__sha256_update_string(&h, "a program of CUDA, 1");
  tn__sha256_update_u64(&h, (uint64_t)major * 1000 + (uint64_t)minor);
  tn__sha256_update_string(&h, architecture);
  tn__sha256_update_string(&h, TN__SOURCE_CUDA_OPTIONS);
  tn__sha256_update_string(&h, text);
  return tn__sha256_final(&h);
}

tn_status *tn__cuda_compile(const tn__device *device, const char *text, void **out) {
  const tn__cuda *c = device->state;
  tn__cuda_nvrtc n;
  char architecture[OPTION];
  size_t size;
  *out = NULL;
  TN_RETURN_IF_ERROR(tn__cuda_placed(device, tn__cuda_load_nvrtc(&n)));
  int chosen = choose_architecture(&n, c->architecture);
  if (chosen == 0)
    return tn__cuda_placed(device, tn_status_create(TN_UNSUPPORTED,
                                                    "the compiler for its kernels knows nothing that "
                                                    "sm_%d runs: install another NVRTC",
                                                    c->architecture));
  bool code = chosen == c->architecture;
  snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d", code ? "sm" : "compute", chosen);
  tn__digest key = key_of(&n, text, architecture);
  if (tn__source_kept(&key, out, &size)) return NULL;
  TN_RETURN_IF_ERROR(tn__cuda_placed(device, compile(&n, text, architecture, code, out, &size)));
  tn__source_keep(device, &key, *out, size);
  return NULL;
}
