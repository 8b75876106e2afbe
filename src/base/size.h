/* Sizes as people write them. */
#ifndef TENON_BASE_SIZE_H
#define TENON_BASE_SIZE_H

#include <stdint.h>

/* "2GiB": a number with nothing, B, KB, MB, GB, TB, KiB, MiB, GiB or TiB behind it. 0: it is no size, or none
 * above 0. */
uint64_t tn__size_read(const char *text);

#endif
