/* What a core of this machine does at the most, measured: a few milliseconds each. Best of several, so that other work
 * on the machine disturbs little. */
#ifndef TENON_TARGET_PROBE_H
#define TENON_TARGET_PROBE_H

#include "target/target.h"

/* Cycles a second while the core is busy. */
double tn__probe_clock(void);
/* float32 operations a second, two for a multiply-add, with vectors of the target's width. 0 when this build has no
 * code for that. */
double tn__probe_flops(const tn__target *target);
/* Bytes a second that are read from a buffer of this size over and over. TN_OUT_OF_MEMORY. */
TN_MUST_USE tn_status *tn__probe_read(int64_t bytes, double *out);

#endif
