/* Builders and runners of a tuner that is deterministic: they take time on a simulator's clock, and a kernel takes what
 * the static cost function says of its schedule, times a factor that the seed and the schedule's steps decide. So a
 * search finds what is worth finding, and all of it is the same each time, on any machine. */
#ifndef TENON_TUNE_TUNER_SIMULATION_H
#define TENON_TUNE_TUNER_SIMULATION_H

#include "tune/tuner/tuner.h"

typedef struct tn__simulation tn__simulation;

TN_MUST_USE tn_status *tn__simulation_create(uint64_t seed, tn__simulation **out);
void tn__simulation_release(tn__simulation *simulated);                    /* with builder and runner. NULL is fine */
void tn__simulation_of(tn__simulation *simulated, const tn__tuner *tuner); /* whose candidates they are */
tn_simulator *tn__simulation_clock(const tn__simulation *simulated);
tn_builder *tn__simulation_builder(const tn__simulation *simulated);
tn_runner *tn__simulation_runner(const tn__simulation *simulated);

#endif
