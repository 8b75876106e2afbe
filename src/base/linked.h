/* What the libraries of one build use of each other beside the public API: libtenon of libtenon_runtime, as it reads
 * and makes executables, whose tables both must see in the same way; libtenon_tune of libtenon, as it looks into the
 * spaces of schedules. These few are exported under the version TENON_PRIVATE_x.y.z, which only a library of the same
 * x.y.z asks for; no header that is installed declares them (docs/abi.md). */
#ifndef TENON_BASE_LINKED_H
#define TENON_BASE_LINKED_H

#include "tenon/base.h"

#define TN__LINKED TN_API

#endif
