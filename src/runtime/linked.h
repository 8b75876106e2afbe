/* What libtenon uses of the runtime beside the public API: it reads and makes executables, whose tables both must see
 * in the same way. libtenon_runtime.so exports these few under the version TENON_PRIVATE_x.y.z, which only a libtenon
 * of the same x.y.z asks for; no header that is installed declares them (docs/abi.md). */
#ifndef TENON_RUNTIME_LINKED_H
#define TENON_RUNTIME_LINKED_H

#include "tenon/base.h"

#define TN__LINKED TN_API

#endif
