/* The entry of a fuzz target, named tn_fuzz_one() by a macro of the build, with a limit on the CPU time of each
 * input. Unlike libFuzzer's -timeout, the limit is independent of the load of the machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_SECONDS = 25 };

int tn_fuzz_one(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const double start = cpu_seconds();
  const int result = tn_fuzz_one(data, size);
  const double took = cpu_seconds() - start;
  if (took > MOST_SECONDS) {
    fprintf(stderr, "one input took %.1f s of CPU time, more than %d\n", took, (int)MOST_SECONDS);
    abort();
  }
  return result;
}
