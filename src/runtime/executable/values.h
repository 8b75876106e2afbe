/* Values that are not tensors of numbers: sequences, optional values, strings, and lookups in tables of them. What
 * loads, runs and binds passes them on by tables of functions, one in each of their rooms; what they are is known to
 * src/runtime/values alone, which may be left out of a build (-DTENON_VALUES=OFF).
 *
 * An executable without such values has no tables (executable->values is NULL), and nothing of them is called. One with
 * them has them, or is refused as it is loaded. */
#ifndef TENON_RUNTIME_EXECUTABLE_VALUES_H
#define TENON_RUNTIME_EXECUTABLE_VALUES_H

#include "runtime/executable/executable.h"

struct tn__values {
  /* Are the strings of the file, and those that its constants refer to, there? */
  tn_status *(*check)(const tn_executable *executable);
  const struct tn__vm_values *vm;           /* runtime/vm/values.h */
  const struct tn__session_values *session; /* runtime/session/values.h */
};

/* What this build has: NULL without src/runtime/values. */
const tn__values *tn__values_built(void);
/* Gives the executable, whose functions are decoded, its tables when it needs them. */
TN_MUST_USE tn_status *tn__values_find(tn_executable *executable);

#endif
