/* The file of tuned schedules that a tuner writes, and compilations read (kernels/tuned.c). */
#ifndef TENON_TUNE_TUNER_SCHEDULES_H
#define TENON_TUNE_TUNER_SCHEDULES_H

#include "base/strbuf.h"
#include "tune/tuner/tuner.h"

/* Prints the schedules of tasks whose best is better than the static choice on the machine with this fingerprint.
 * Returns how many. `simulated`: notes that nothing was timed, and omits the machine. */
TN_MUST_USE int tn__tuner_print_schedules(const tn__tuner *tuner, const char *machine, bool simulated, tn__strbuf *out);

#endif
