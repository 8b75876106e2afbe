/* How long other work keeps threads that could run from running. */
#ifndef TENON_MACHINE_WAITING_H
#define TENON_MACHINE_WAITING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tn__waiting {
  double now;        /* seconds */
  uint64_t delayed;  /* nanoseconds that the calling thread waited for a processor */
  uint64_t stolen;   /* hundredths of a second that other virtual machines had of all processors */
  long switches;     /* of this process's threads against their will */
  bool knows_delays; /* the system counts them */
} tn__waiting;

tn__waiting tn__waiting_now(void);
/* The share of the time since then, 0 to 1. Where the system counts no delays, each switch against a thread's will is
 * taken for 4 ms. */
double tn__waiting_since(const tn__waiting *before);

#endif
