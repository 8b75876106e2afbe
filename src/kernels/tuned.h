/* Files of tuned schedules: the best traces that a tuner found, as text (docs/tuning-records.md). A compilation replays
 * those of its target and number of threads on the declarations that they are of, and chooses the others. */
#ifndef TENON_KERNELS_TUNED_H
#define TENON_KERNELS_TUNED_H

#include "schedule/sketch/plan.h"

/* Of the file, or of `text`, which is what it holds where that is not NULL: a chooser in the arena that proposes its
 * traces for the target and so many threads first, and then what `otherwise` does. Warns when there are none for them,
 * and of each that is refused. Throws what is wrong with the file, with its line. */
const tn__chooser *tn__kernels_tuned(tn__arena *arena, const char *path, const char *text, const tn__target *target,
                                     int threads, const tn__chooser *otherwise, const tn_log_sink *log);

#endif
