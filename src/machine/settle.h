/* Derives reproducible machine parameters from measurements that other work may disturb. */
#ifndef TENON_MACHINE_SETTLE_H
#define TENON_MACHINE_SETTLE_H

#include "base/strbuf.h"
#include "machine/machine_file.h"

enum { TN__MOST_MACHINE_ROWS = 64 };

/* One measurement of all parameters, by the index of tn__machine_rows. */
typedef struct tn__machine_reading {
  double value[TN__MOST_MACHINE_ROWS]; /* 0: the measurement failed */
  char why[TN__MOST_MACHINE_ROWS][96]; /* the reason for a failure, if it is a property of this machine */
  double waited;                       /* the share of the time in which other work kept the threads from running */
  bool disturbed;                      /* a parameter could not be measured because of other work */
} tn__machine_reading;

/* The source of measurements: the machine's clock, or a simulation. Returns TN_OUT_OF_MEMORY. */
typedef struct tn__machine_meter {
  void *user;
  tn_status *(*read)(void *user, tn__machine_reading *out);
} tn__machine_meter;

/* Takes two to four readings, excluding those in which threads waited for a processor, until the best two of each
 * parameter differ by at most 15 %. Rounds each measured parameter to its band. An unsteady parameter keeps its
 * usual value and sets `disturbed`. Appends a line per parameter to `notes`: "# measured: NAME 33.1, spread 2 %,
 * taken as 48" or "# usual: NAME, as REASON". */
TN_MUST_USE tn_status *tn__machine_settle(const tn__machine_meter *meter, tn__machine *machine, tn__strbuf *notes,
                                          bool *disturbed);

/* Rounds `value` to its band. With a `step` of 1: the nearest whole number, at least 1. Otherwise: `usual` if both
 * are within a factor of `step`, else the nearest point of a grid around it. Bands are wide compared with
 * measurement noise, and the usual value is the centre of one. */
double tn__machine_band(double value, double usual, double step);

#endif
