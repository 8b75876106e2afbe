/* Reading the options structs of the public headers. Each begins with `size_t size`, which its caller sets to the
 * sizeof of its own header's struct; later versions only append fields. So an older caller's struct is a prefix of the
 * one known here, and a newer one's has a tail that is not known. */
#ifndef TENON_BASE_OPTIONS_H
#define TENON_BASE_OPTIONS_H

#include "tenon/base.h"

/* Copies what `given` says (NULL: nothing) to `*out`, which is `known` bytes long; the rest is zero, but for the size,
 * which is `known`. Refused (TN_INVALID_ARGUMENT) are a size of 0, with which every field would be lost in silence,
 * sizes that no version of the struct can have, and anything but zeros in a tail that is not known: the caller asks for
 * something that would not be done. `type` is the struct's name. */
TN_MUST_USE tn_status *tn__options_read(const char *type, const void *given, size_t known, void *out);
#define TN__OPTIONS_READ(type, given, out) \
  tn__options_read(#type, 1 ? (given) : (const type *)NULL, sizeof(type), 1 ? (out) : (type *)NULL)

/* A list of options, `count_name` elements at `list_name`: refused are a count below zero, and elements at NULL. */
TN_MUST_USE tn_status *tn__options_check_list(const char *type, const char *list_name, const void *list,
                                              const char *count_name, int64_t count);

#endif
