/* Files of tuned schedules: the best traces that a tuner found, as text (docs/tuning-records.md). A compilation replays
 * those of its target and number of threads on the declarations that they are of, and chooses the others. */
#ifndef TENON_KERNELS_TUNED_H
#define TENON_KERNELS_TUNED_H

#include "graph/passes/passes.h"
#include "schedule/sketch/plan.h"

/* What is known to be better than the estimate for a site of a graph (graph/passes): a line
 * `variant winograd 0123456789abcdef 4` of the file. */
typedef struct tn__variant {
  const char *kind; /* also one that this version knows nothing of */
  const char *digest;
  int choice;
} tn__variant;

/* What a file says, for one target and number of threads. */
typedef struct tn__tuned {
  const tn__chooser *chooser;
  const tn__variant *variants;
  int variant_count;
} tn__tuned;

/* The choice for the site; its usual one where none of them is about it. */
int tn__kernels_variant(const tn__variant *variants, int count, const tn__site *site);

/* Of the file, or of `text`, which is what it holds where that is not NULL: its variants, and a chooser in the
 * arena that proposes its traces for the target and so many threads first, and then what `otherwise` does. Warns
 * when there is nothing for them, and of each that is refused. Throws what is wrong with the file, with its line. */
tn__tuned tn__kernels_tuned(tn__arena *arena, const char *path, const char *text, const tn__target *target, int threads,
                            const tn__chooser *otherwise, const tn_log_sink *log);

#endif
