/* CUDA's driver, the devices that it knows, and its errors. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "runtime/cuda/cuda.h"

enum { OUT_OF_MEMORY = 2, NO_DEVICE = 100 }; /* of CUresult */

/* ---- errors ------------------------------------------------------------------------------------------------------ */

tn_status *tn__cuda_placed(const tn__device *device, tn_status *status) {
  const tn__cuda *c = device->state;
  return c->name[0] == '\0' ? tn_status_prefix(status, "cuda:%d", (int)device->id)
                            : tn_status_prefix(status, "cuda:%d (%s)", (int)device->id, c->name);
}

static const char *error_name(const tn__cuda_api *cu, tn__cuda_result result) {
  const char *name = NULL;
  return cu->cuGetErrorName(result, &name) == 0 && name != NULL ? name : "an error";
}

tn_status *tn__cuda_failed(const tn__device *device, tn__cuda_result result, const char *what, ...) {
  const tn__cuda *c = device->state;
  char text[256];
  va_list args;
  va_start(args, what);
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  return tn__cuda_placed(device,
                         tn_status_create(result == OUT_OF_MEMORY ? TN_OUT_OF_MEMORY : TN_FAILED_PRECONDITION,
                                          "%s: the driver says %s (%d)", text, error_name(&c->cu, result), result));
}

/* ---- the driver -------------------------------------------------------------------------------------------------- */

tn_status *tn__cuda_load(tn__cuda_api *out) {
  static const char *const names[] = {
#define NAME(name, parameters) #name,
      TN__CUDA_FUNCTIONS(NAME)
#undef NAME
  };
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) {
    const char *why = dlerror();
    return tn_status_create(TN_NOT_FOUND, "there is no driver of NVIDIA's on this machine (%s): install it",
                            why == NULL ? "libcuda.so.1" : why);
  }
  const char *missing = NULL;
  void *functions[sizeof names / sizeof names[0]];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    functions[i] = dlsym(library, names[i]);
    if (functions[i] == NULL) missing = names[i];
  }
  dlclose(library); /* it stays */
  if (missing != NULL)
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "NVIDIA's driver has no %s: install one of CUDA 11 or later (libcuda.so.1)", missing);
  _Static_assert(sizeof functions == sizeof *out, "an api is a list of functions");
  memcpy(out, functions, sizeof functions); /* ISO C has no conversion from data to function pointers; POSIX has */
  return NULL;
}

static tn_status *not_there(const tn__cuda_api *cu, int number, int count) {
  tn__strbuf there;
  tn__strbuf_init(&there, NULL);
  for (int i = 0; i < count; i++) {
    char name[TN__CUDA_NAME] = "?";
    tn__cuda_device device;
    if (cu->cuDeviceGet(&device, i) == 0) (void)cu->cuDeviceGetName(name, sizeof name, device);
    tn__strbuf_printf(&there, "%scuda:%d (%s)", i > 0 ? ", " : "", i, name);
  }
  tn_status *status =
      count > 0 ? tn_status_create(TN_NOT_FOUND,
                                   "there is no cuda:%d; there is %s, which may take its place: --map cuda:%d=cuda:%d "
                                   "(tn_load_options.device_map)",
                                   number, tn__strbuf_text(&there), number, count - 1)
                : tn_status_create(TN_NOT_FOUND, "there is no cuda:%d: NVIDIA's driver knows no device on this machine",
                                   number);
  tn__strbuf_release(&there);
  return status;
}

tn_status *tn__cuda_find(const tn__cuda_api *cu, int number, tn__cuda_device *out) {
  int count = 0;
  tn__cuda_result result = cu->cuInit(0);
  if (result == 0) result = cu->cuDeviceGetCount(&count);
  if (result == NO_DEVICE) result = 0, count = 0;
  if (result == 0 && (number < 0 || number >= count)) return not_there(cu, number, count);
  if (result == 0) result = cu->cuDeviceGet(out, number);
  if (result == 0) return NULL;
  return tn_status_create(TN_FAILED_PRECONDITION, "cuda:%d cannot be used: the driver says %s (%d)", number,
                          error_name(cu, result), result);
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

tn_status *tn__cuda_enter(const tn__device *device) {
  const tn__cuda *c = device->state;
  tn__cuda_result result = c->cu.cuCtxPushCurrent_v2(c->context);
  return result == 0 ? NULL : tn__cuda_failed(device, result, "its context cannot be entered");
}

void tn__cuda_leave(const tn__device *device) {
  const tn__cuda *c = device->state;
  tn__cuda_handle left;
  (void)c->cu.cuCtxPopCurrent_v2(&left);
}
