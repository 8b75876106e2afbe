/* The limits of a target: see tn_machine_limits in <tenon/runtime.h>. */
#ifndef TENON_TARGET_LIMITS_H
#define TENON_TARGET_LIMITS_H

#include "target/target.h"
#include "tenon/runtime.h"

/* What the target's numbers say, without measuring anything: those of a machine file or of an earlier measurement
 * where the target has them, and else the usual ones. */
tn_machine_limits tn__target_known_limits(const tn__target *target, int threads);
/* Measured when this machine runs the target's code; otherwise what is usual for the target. TN_OUT_OF_MEMORY. */
TN_MUST_USE tn_status *tn__target_limits(const tn__target *target, int threads, tn_machine_limits *out);

#endif
