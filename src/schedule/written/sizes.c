/* Sizes that a schedule leaves open, by going down from a start along one size at a time. */
#include <math.h>
#include <string.h>

#include "schedule/written/syntax.h"

static const int64_t choices[] = {1,  2,  3,  4,  5,  6,  7,  8,   10,  12,  14,  16,
                                  20, 24, 28, 32, 48, 64, 96, 128, 192, 256, 384, 512};
enum { CHOICES = sizeof(choices) / sizeof(choices[0]), MOST_TRIALS = 400, MOST_STATEMENTS = 20000, LEAST_TRIALS = 8 };

typedef struct descent {
  int count, trials, most;
  tn__written_weigher *weigh;
  void *user;
  double best;
  int64_t *sizes; /* the best so far */
} descent;

static bool try_size(descent *d, int which, int64_t size) {
  int64_t sizes[TN__WRITTEN_OPENS];
  if (d->trials >= d->most) return false;
  d->trials++;
  memcpy(sizes, d->sizes, (size_t)d->count * sizeof(sizes[0]));
  sizes[which] = size;
  double cycles = d->weigh(d->user, sizes);
  if (!(cycles < d->best)) return false;
  d->best = cycles;
  d->sizes[which] = size;
  return true;
}

static void go_down(descent *d) {
  for (bool better = true; better && d->trials < d->most;) {
    better = false;
    for (int i = 0; i < d->count; i++)
      for (int c = 0; c < CHOICES; c++)
        if (choices[c] != d->sizes[i]) better |= try_size(d, i, choices[c]);
  }
}

void tn__written_choose_sizes(const tn__written_block *block, int stages, tn__written_weigher *weigh, void *user,
                              int64_t *open) {
  static const int64_t starts[] = {8, 4, 16, 1};
  descent d = {.count = block->open_count, .weigh = weigh, .user = user, .sizes = open};
  int most = MOST_STATEMENTS / (1 + block->stmt_count + stages);
  d.most = most > MOST_TRIALS ? MOST_TRIALS : most < LEAST_TRIALS ? LEAST_TRIALS : most;
  d.best = (double)INFINITY;
  for (int s = 0; s < 4 && isinf(d.best); s++) {
    for (int i = 0; i < d.count; i++) open[i] = starts[s];
    d.best = d.weigh(user, open);
    go_down(&d);
  }
}
