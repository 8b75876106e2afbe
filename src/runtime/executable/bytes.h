/* The bytes of an executable's file, for those that change it (inspect/strip.c). */
#ifndef TENON_RUNTIME_EXECUTABLE_BYTES_H
#define TENON_RUNTIME_EXECUTABLE_BYTES_H

#include "base/linked.h"
#include "tenon/runtime.h"

/* A caller's struct, NULL or of whatever version, as this version has it; what it says of a key holds together. */
TN__LINKED TN_MUST_USE tn_status *tn__load_options_read(const tn_load_options *options, tn_load_options *out);
/* Opens a file to look at its bytes: all of it is verified, with the constants, and nothing can be run. */
TN__LINKED TN_MUST_USE tn_status *tn__executable_open(const char *path, const tn_load_options *options,
                                                      tn_executable **out);
/* They live as long as the executable. */
TN__LINKED const void *tn__executable_bytes(const tn_executable *executable);
/* Where an executable like this one in the file `path` looks for its constants: the file, in memory that lives as long
 * as the executable; NULL when it has them inside. */
TN__LINKED TN_MUST_USE tn_status *tn__executable_constants_beside(tn_executable *executable, const char *path,
                                                                  const char **out);

#endif
