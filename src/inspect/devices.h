/* Members about the devices of an executable for several; nothing of one for one alone. */
#ifndef TENON_INSPECT_DEVICES_H
#define TENON_INSPECT_DEVICES_H

#include <tenon/runtime.h>

#include "base/strbuf.h"

/* A comma and "devices": what they are called, their targets, how much source their kernels are, and what
 * is on them. */
void tn__inspect_devices(tn__strbuf *json, const tn_executable *exe);
/* A comma and "device", of a kernel. */
void tn__inspect_kernel_device(tn__strbuf *json, const tn_executable *exe, int kernel);
/* A comma and "device", of an input or output that is not on a CPU. */
void tn__inspect_value_device(tn__strbuf *json, const tn_value_info *value);

#endif
