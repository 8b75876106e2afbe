/* The target that is compiled for, with the machine that schedules are chosen for: a machine file's, what was measured
 * here once, or what is usual for the target. */
#ifndef TENON_KERNELS_MACHINE_H
#define TENON_KERNELS_MACHINE_H

#include "target/target.h"
#include "tenon/compile.h"

/* TN_INVALID_ARGUMENT for an unknown target and for a bad file: what the options `target`, `machine`, `no_measure` and
 * those of the cache say. */
TN_MUST_USE tn_status *tn__machine_target(const tn_compile_options *options, tn__target *out);

#endif
