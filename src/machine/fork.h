/* What it takes to have all threads of a pool at work, measured. */
#ifndef TENON_MACHINE_FORK_H
#define TENON_MACHINE_FORK_H

#include "tenon/kernel_abi.h"

/* Seconds from the start of a parallel loop until all threads are in it, and from then on until its end, while the
 * threads are awake: three in four of many loops take as long or longer, and few of the others much less. 0: the
 * threads seldom met, as there is one, or other work keeps their processors. Up to some tenths of a second. */
double tn__machine_fork(const tn_kernel_env *env);

#endif
