/* What the rules for GPUs share (gpu.c). */
#ifndef TENON_SCHEDULE_RULES_GPU_H
#define TENON_SCHEDULE_RULES_GPU_H

#include "schedule/rules/rules.h"

/* Independent loops of the block go outside of all others; returns how many there are. */
int tn__rule_gpu_free_loops(tn__schedule *s, const char *block, const char **names);
/* Fuses the first `count` loops around the block; their common name. */
const char *tn__rule_gpu_fuse(tn__schedule *s, const char *block, int count);
/* Gives blocks and threads to all blocks that have none, `threads` to a block. */
void tn__rule_gpu_spread(tn__schedule *s, int64_t threads);
/* How much longer so many blocks take than if they kept all of a usual GPU busy. */
double tn__rule_gpu_waves(double blocks);

#endif
