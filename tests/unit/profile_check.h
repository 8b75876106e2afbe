/* What the profile of a session tells, for tests. */
#ifndef TENON_TESTS_UNIT_PROFILE_CHECK_H
#define TENON_TESTS_UNIT_PROFILE_CHECK_H

#include <string.h>

#include "tenon/runtime.h"

/* Copies between devices. */
static inline uint64_t copies_of(const tn_profile *profile) {
  const tn_profile_kernel *const *rows;
  int count = tn_profile_kernels(profile, &rows);
  for (int i = 0; i < count; i++)
    if (strcmp(rows[i]->name, "copy") == 0) return rows[i]->calls;
  return 0;
}

#endif
