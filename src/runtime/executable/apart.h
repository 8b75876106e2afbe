/* Executables that the compiler runs itself. */
#ifndef TENON_RUNTIME_EXECUTABLE_APART_H
#define TENON_RUNTIME_EXECUTABLE_APART_H

#include "base/linked.h"
#include "tenon/kernel_abi.h"
#include "tenon/runtime.h"

/* What is in no file but in this process, by index. */
typedef struct tn__apart {
  const void *const *constants; /* their addresses */
  const tn_kernel *kernels;     /* NULL: it is in the image, as are all when there is no list */
} tn__apart;

/* `data` is aligned to 64; it and what is apart stay until the executable is released. */
TN__LINKED TN_MUST_USE tn_status *tn__executable_load_apart(const void *data, size_t size, const tn__apart *apart,
                                                            const tn_allocator *allocator, tn_executable **out);

#endif
