/* Structs of the caller's that the library fills. Each begins with `size_t size`, which the caller sets to the sizeof
 * of its own header's struct; later versions only append fields. So an older caller's struct is a prefix of the one
 * known here, and a newer one's has a tail that is not known. */
#ifndef TENON_BASE_FILLED_H
#define TENON_BASE_FILLED_H

#include "tenon/base.h"

/* Refuses (TN_INVALID_ARGUMENT) a size of 0, with which nothing would be filled, and sizes that no version of the
 * struct can have; `known` is the size here, and `type` the struct's name. Asked before the work, so that none is
 * lost. */
TN_MUST_USE tn_status *tn__filled_check(const char *type, const void *out, size_t known);
/* Copies `from`, of `known` bytes, but for its size, as far as `*out` reaches; zeros behind. */
void tn__filled_write(void *out, const void *from, size_t known);

/* The same of any struct that begins with its size: with one of 0 "no field of it" `lost`. */
TN_MUST_USE tn_status *tn__sized_check(const char *type, const void *given, size_t known, const char *lost);

#endif
