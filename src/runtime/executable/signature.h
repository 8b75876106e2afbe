#ifndef TENON_RUNTIME_EXECUTABLE_SIGNATURE_H
#define TENON_RUNTIME_EXECUTABLE_SIGNATURE_H

#include "base/hash.h"
#include "base/linked.h"

/* The HMAC-SHA-256 that a signature holds, of an executable whose header and section table are sound. */
TN__LINKED void tn__executable_signature(const uint8_t *file, const void *key, size_t key_size, tn__digest *out);

#endif
