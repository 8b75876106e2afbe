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
/* Bytes a second that one core reads, one after the other: what L2 holds, what L3 does, and what is in memory alone.
 * TN_OUT_OF_MEMORY. */
typedef struct tn__reading_rates {
  double l2, l3, memory;
} tn__reading_rates;
TN_MUST_USE tn_status *tn__probe_reading(const tn__machine *machine, tn__reading_rates *out);

#endif
