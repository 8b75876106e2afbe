#include "machine/fork.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/relax.h"

enum { FEWEST = 100, MOST = 1000 }; /* fewest and most loops that all threads reach in time */
#define LONGEST_WAIT 200e-6         /* seconds; a longer wait means that a thread has no processor */
#define LONGEST 0.1                 /* seconds; enough for a busy machine to run all threads at once now and then */

typedef struct meeting {
  int32_t threads;
  _Atomic int32_t come;
  _Atomic bool in_vain;
} meeting;

/* Nobody leaves before all have come, so that none takes the piece of another and the loop lasts until the last thread
 * has started. */
static int32_t meet(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  meeting *m = closure;
  double start = tn__now();
  atomic_fetch_add(&m->come, (int32_t)(end - begin));
  for (uint32_t turn = 1; atomic_load(&m->come) < m->threads && !atomic_load(&m->in_vain); turn++) {
    tn__relax();
    if (turn % 64 == 0 && tn__now() - start > LONGEST_WAIT) atomic_store(&m->in_vain, true);
  }
  return TN_KERNEL_OK;
}

static int by_length(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

double tn__machine_fork(const tn_kernel_env *env) {
  double seconds[MOST], begun = tn__now();
  int met = 0;
  if (env->thread_count <= 1) return 0;
  while (met < MOST && tn__now() - begun < LONGEST) {
    meeting m = {.threads = env->thread_count};
    double start = tn__now();
    env->parallel_for(env, meet, &m, m.threads);
    seconds[met] = tn__now() - start;
    if (!atomic_load(&m.in_vain) && seconds[met] < LONGEST_WAIT) met++;
  }
  if (met < FEWEST) return 0;
  qsort(seconds, (size_t)met, sizeof seconds[0], by_length);
  return seconds[met / 4];
}
