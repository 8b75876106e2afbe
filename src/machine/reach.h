/* How far caches and TLBs of a core reach, measured by loads that wait for each other. */
#ifndef TENON_MACHINE_REACH_H
#define TENON_MACHINE_REACH_H

#include "target/target.h"

typedef struct tn__machine_reach {
  int64_t page_bytes; /* as the operating system says */
  int pages_tried;    /* at the most */
  /* 0: there is no step in how long loads take. */
  int l1_pages, pages; /* that the first and the second TLB hold */
  int l1_ways;         /* lines of one set of L1 */
} tn__machine_reach;

/* The last of `count` that grow behind which no load is as short as `most` cycles; 0: there is no step, as the last is
 * within, or none is. More places never take shorter loads, so what a later point shows is true of those before. */
int tn__machine_last_within(const int *count, const double *cycles, int points, double most);
/* `clock`: cycles a second. Some hundredths of a second. TN_OUT_OF_MEMORY. */
TN_MUST_USE tn_status *tn__machine_reach_of(double clock, tn__machine_reach *out);

#endif
