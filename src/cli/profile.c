/* tenon run --profile: where the time of the runs went, kernel by kernel. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

const tn_profile_kernel *cli_profile_find(const tn_profile *profile, const char *kernel) {
  const tn_profile_kernel *const *rows;
  int count = tn_profile_kernels(profile, &rows);
  for (int i = 0; i < count; i++)
    if (strcmp(rows[i]->name, kernel) == 0) return rows[i];
  return NULL;
}

static int slowest_first(const void *a, const void *b) {
  const tn_profile_kernel *x = *(const tn_profile_kernel *const *)a, *y = *(const tn_profile_kernel *const *)b;
  return x->total_ns != y->total_ns ? (x->total_ns < y->total_ns ? 1 : -1) : strcmp(x->name, y->name);
}

static void print_rate(double of_one_call, const tn_profile_kernel *k) {
  if (of_one_call >= 0 && k->total_ns > 0)
    printf(" %9.2f", of_one_call * (double)k->calls / (double)k->total_ns);
  else
    printf(" %9s", "-");
}

double cli_profile_least(const tn_profile *profile, const char *kernel, const tn_machine_limits *here, double flops,
                         double bytes, const char **bound) {
  tn_machine_limits there;
  bool elsewhere = profile != NULL && tn_profile_device_limits(profile, kernel, &there);
  return tn_machine_roofline(elsewhere ? &there : here, flops, bytes, bound);
}

/* The share of what its device could do in the time of one call, and what keeps it from doing more. */
static void print_roofline(const tn_profile *profile, const tn_machine_limits *limits, const tn_profile_kernel *k) {
  const char *bound;
  double least = cli_profile_least(profile, k->name, limits, k->flops, k->bytes, &bound);
  if (least >= 0 && k->total_ns > 0) {
    printf(" %7.1f%%  %-10s", 100 * least * 1e9 * (double)k->calls / (double)k->total_ns, bound);
  } else {
    printf(" %8s  %-10s", "-", bound);
  }
}

void cli_profile_print(const tn_profile *profile, const tn_machine_limits *limits) {
  const tn_profile_kernel *const *rows;
  int count = tn_profile_kernels(profile, &rows);
  const tn_profile_totals *totals = tn_profile_sum(profile);
  const tn_profile_kernel **sorted = malloc((size_t)count * sizeof *sorted + 1);
  if (!sorted) return;
  if (count > 0) memcpy(sorted, rows, (size_t)count * sizeof *sorted);
  qsort(sorted, (size_t)count, sizeof *sorted, slowest_first);
  printf("\none of %d thread%s%s: %.1f GFLOP/s; reads GB/s: L2 %.1f, L3 %.1f, memory %.1f\n", limits->threads,
         tn__plural(limits->threads), limits->measured ? ", measured" : ", usually", limits->flops_per_second * 1e-9,
         limits->l2_bytes_per_second * 1e-9, limits->l3_bytes_per_second * 1e-9,
         limits->memory_bytes_per_second * 1e-9);
  printf("%7s %8s %12s %9s %9s %8s  %-10s kernel\n", "share", "calls", "us a call", "GFLOP/s", "GB/s", "roofline",
         "bound by");
  for (int i = 0; i < count; i++) {
    const tn_profile_kernel *k = sorted[i];
    printf("%6.1f%% %8llu %12.2f", 100 * (double)k->total_ns / (double)totals->total_ns, (unsigned long long)k->calls,
           (double)k->total_ns / 1e3 / (double)k->calls);
    print_rate(k->flops, k);
    print_rate(k->bytes, k);
    print_roofline(profile, limits, k);
    putchar(' ');
    cli_put_shown(stdout, k->name);
    putchar('\n');
  }
  free(sorted);
  double rest = (double)totals->total_ns - (double)totals->attributed_ns;
  printf("%6.1f%% %8llu %12.2f %9s %9s %8s  %-10s (outside of kernels, for each run)\n",
         100 * rest / (double)totals->total_ns, (unsigned long long)totals->invokes,
         rest / 1e3 / (double)totals->invokes, "-", "-", "-", "-");
}
