/* Measures how long other work keeps runnable threads from running. */
#ifndef TENON_MACHINE_WAITING_H
#define TENON_MACHINE_WAITING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tn__waiting {
  double now;        /* seconds */
  uint64_t delayed;  /* nanoseconds that the calling thread waited for a processor */
  uint64_t stolen;   /* hundredths of a second, over all processors, used by other virtual machines */
  long switches;     /* involuntary context switches of this process's threads */
  bool knows_delays; /* the system reports `delayed` */
} tn__waiting;

tn__waiting tn__waiting_now(void);
/* Returns the share of the time since `before` spent waiting, 0 to 1. If the system does not report delays, counts
 * each involuntary context switch as 4 ms. */
double tn__waiting_since(const tn__waiting *before);

#endif
