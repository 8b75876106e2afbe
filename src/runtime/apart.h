/* Executables that the compiler runs itself. */
#ifndef TENON_RUNTIME_APART_H
#define TENON_RUNTIME_APART_H

#include "tenon/runtime.h"

/* Loads one whose constants are in no file but at these addresses, by index. `data` is
 * aligned to 64; it and the constants stay until it is released. */
TN_MUST_USE tn_status *tn__executable_load_apart(const void *data, size_t size, const void *const *constants,
                                                 const tn_allocator *allocator, tn_executable **out);

#endif
