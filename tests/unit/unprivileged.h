/* Files that even a test that runs as root may not write to. */
#ifndef TENON_TESTS_UNIT_UNPRIVILEGED_H
#define TENON_TESTS_UNIT_UNPRIVILEGED_H

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit/check.h"

/* Whether permissions of files hold for this thread also when it is root's. */
static inline void obey_permissions(bool obey) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
  assert_int_equal(syscall(SYS_capget, &head, data), 0);
  const uint32_t override = UINT32_C(1) << CAP_DAC_OVERRIDE & data[0].permitted;
  data[0].effective = obey ? data[0].effective & ~override : data[0].effective | override;
  assert_int_equal(syscall(SYS_capset, &head, data), 0);
}

#endif
