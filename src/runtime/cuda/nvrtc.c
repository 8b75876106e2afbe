#include "runtime/cuda/nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void *open_library(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so",
                                      "/usr/local/cuda/lib64/libnvrtc.so"};
  const char *own = secure_getenv("TENON_NVRTC");
  if (own != NULL && own[0] != '\0') return dlopen(own, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof names[0] && library == NULL; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  return library;
}

tn_status *tn__cuda_load_nvrtc(tn__cuda_nvrtc *out) {
  static const char *const names[] = {
#define NAME(name, parameters) #name,
      TN__NVRTC_FUNCTIONS(NAME)
#undef NAME
  };
  static const char todo[] = "install NVRTC of CUDA 11.2 or later, or name its libnvrtc.so in TENON_NVRTC";
  void *library = open_library(), *functions[sizeof names / sizeof names[0]];
  if (library == NULL) {
    const char *why = dlerror();
    return tn_status_create(TN_NOT_FOUND, "there is no compiler for its kernels (%s): %s",
                            why == NULL ? "libnvrtc.so" : why, todo);
  }
  const char *missing = NULL;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    functions[i] = dlsym(library, names[i]);
    if (functions[i] == NULL) missing = names[i];
  }
  dlclose(library); /* it stays */
  if (missing != NULL)
    return tn_status_create(TN_FAILED_PRECONDITION, "the compiler for its kernels has no %s: %s", missing, todo);
  _Static_assert(sizeof functions == sizeof *out, "an api is a list of functions");
  memcpy(out, functions, sizeof functions); /* ISO C has no conversion from data to function pointers; POSIX has */
  return NULL;
}
