/* tenon run --profile: where the time of the runs went, kernel by kernel. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { MOST_KERNELS = 4096 };

typedef struct entry {
  const char *name; /* the executable's */
  int calls;
  uint64_t nanoseconds, least;
} entry;

struct cli_profile {
  entry entries[MOST_KERNELS];
  int count;
};

static void count_call(void *user, const char *kernel, uint64_t start, uint64_t end) {
  cli_profile *p = user;
  int i = 0;
  while (i < p->count && strcmp(p->entries[i].name, kernel) != 0) i++;
  if (i == MOST_KERNELS) return;
  if (i == p->count) p->entries[p->count++] = (entry){.name = kernel};
  if (p->entries[i].calls++ == 0 || end - start < p->entries[i].least) p->entries[i].least = end - start;
  p->entries[i].nanoseconds += end - start;
}

cli_profile *cli_profile_start(tn_session *session) {
  cli_profile *p = calloc(1, sizeof *p);
  if (p) tn_session_set_profile(session, count_call, p);
  return p;
}

bool cli_profile_find(const cli_profile *p, const char *kernel, int *calls, uint64_t *least, uint64_t *total) {
  for (int i = 0; i < p->count; i++) {
    if (strcmp(p->entries[i].name, kernel) != 0) continue;
    *calls = p->entries[i].calls;
    *least = p->entries[i].least;
    *total = p->entries[i].nanoseconds;
    return true;
  }
  return false;
}

static int slowest_first(const void *a, const void *b) {
  const entry *x = a, *y = b;
  return x->nanoseconds != y->nanoseconds ? (x->nanoseconds < y->nanoseconds ? 1 : -1) : strcmp(x->name, y->name);
}

static double flops_of(const tn_executable *exe, const char *name) {
  tn_executable_summary summary;
  tn_executable_summarize(exe, &summary);
  for (int i = 0; i < summary.kernel_count; i++) {
    tn_kernel_summary k;
    tn_executable_kernel(exe, i, &k);
    if (strcmp(k.name, name) == 0) return k.flops;
  }
  return -1;
}

void cli_profile_finish(cli_profile *p, tn_session *session, const tn_executable *exe) {
  if (!p) return;
  tn_session_set_profile(session, NULL, NULL);
  double total = 0;
  for (int i = 0; i < p->count; i++) total += (double)p->entries[i].nanoseconds;
  qsort(p->entries, (size_t)p->count, sizeof *p->entries, slowest_first);
  printf("\n%7s %8s %12s %10s  kernel\n", "share", "calls", "us a call", "GFLOP/s");
  for (int i = 0; i < p->count; i++) {
    const entry *e = &p->entries[i];
    double flops = flops_of(exe, e->name);
    printf("%6.1f%% %8d %12.2f ", 100 * (double)e->nanoseconds / total, e->calls,
           (double)e->nanoseconds / 1e3 / e->calls);
    if (flops >= 0) {
      printf("%10.2f", flops * e->calls / (double)e->nanoseconds);
    } else {
      printf("%10s", "-");
    }
    printf("  %s\n", e->name);
  }
  free(p);
}
