/* For tests: kernels as C99, compiled by this machine's C compiler without a warning and called in place. */
#ifndef TENON_TESTS_UNIT_C99_H
#define TENON_TESTS_UNIT_C99_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/c/source.h"
#include "tenon/kernel_abi.h"

#ifndef TN_TEST_CC
#define TN_TEST_CC "cc"
#endif

/* The text in a library, which stays loaded; TENON_TEST_CFLAGS adds to the compiler's options. NULL: why not is on
 * stderr. */
static inline void *c99_load(const char *text, size_t size) {
  char folder[] = "/tmp/tenon-c99-XXXXXX", source[64], library[64], command[1024];
  const char *more = getenv("TENON_TEST_CFLAGS");
  if (mkdtemp(folder) == NULL) return NULL;
  snprintf(source, sizeof source, "%s/k.c", folder);
  snprintf(library, sizeof library, "%s/k.so", folder);
  FILE *file = fopen(source, "wb");
  bool ok = file != NULL && fwrite(text, 1, size, file) == size;
  if (file != NULL) ok &= fclose(file) == 0;
  snprintf(command, sizeof command, "%s -std=c99 -Wall -Werror -O1 %s -fPIC -shared -nostdlib -o %s %s", TN_TEST_CC,
           more != NULL ? more : "", library, source);
  ok = ok && system(command) == 0;
  void *handle = ok ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (ok && handle == NULL) fprintf(stderr, "%s\n", dlerror());
  if (handle == NULL) fprintf(stderr, "in %s, by %s\n", source, command);
  if (handle != NULL) {
    unlink(source);
    unlink(library);
    rmdir(folder);
  }
  return handle;
}

static inline tn_kernel c99_kernel(void *library, const char *name) {
  union {
    void *data;
    tn_kernel code;
  } entry = {.data = library == NULL ? NULL : dlsym(library, name)};
  return entry.code;
}

#endif
