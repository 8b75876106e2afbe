/* The target that is compiled for, with the machine that schedules are chosen for: a machine file's, what was measured
 * here once, or what is usual for the target. */
#ifndef TENON_KERNELS_MACHINE_H
#define TENON_KERNELS_MACHINE_H

#include "base/linked.h"
#include "target/target.h"
#include "tenon/compile.h"
#include "tenon/runtime.h"

/* TN_INVALID_ARGUMENT for an unknown target and for a bad file: what the options `target`, `machine` and `no_measure`
 * say.
 *
 * This machine is measured when nobody did so before, and what was found is kept in the default folder of the
 * cache, under the CPU's identity, whatever the options say about the cache: code is the same with it and without.
 * Without such a folder nothing is measured. `from` (may be NULL) gets where the
 * numbers come from, in words. */
TN_MUST_USE tn_status *tn__kernels_machine_target(const tn_compile_options *options, tn__target *out, char from[512]);
/* Are the numbers of that target measured on this machine, and none of them usual for want of a measurement? */
TN__LINKED TN_MUST_USE bool tn__kernels_machine_is_measured(const tn_compile_options *options);
/* As tn__target_known_limits(), for the tuner, which is a library of its own. */
TN__LINKED tn_machine_limits tn__kernels_machine_limits(const tn__target *target, int threads);

#endif
