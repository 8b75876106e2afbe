/* From measurements of a machine that other work may disturb to numbers that are the same each time. */
#ifndef TENON_MACHINE_SETTLE_H
#define TENON_MACHINE_SETTLE_H

#include "base/strbuf.h"
#include "machine/machine_file.h"

enum { TN__MOST_MACHINE_ROWS = 64 };

/* One measurement of everything, by the index of tn__machine_rows. */
typedef struct tn__machine_reading {
  double value[TN__MOST_MACHINE_ROWS]; /* 0: it saw nothing */
  char why[TN__MOST_MACHINE_ROWS][96]; /* then: for what reason, if this machine has a reason */
  double waited;                       /* the share of its time in which other work kept the threads from running */
  bool disturbed;                      /* something was not seen because of other work */
} tn__machine_reading;

/* Where measurements come from: the machine's clock, or a simulation. TN_OUT_OF_MEMORY. */
typedef struct tn__machine_meter {
  void *user;
  tn_status *(*read)(void *user, tn__machine_reading *out);
} tn__machine_meter;

/* Reads two to four times, without those in which threads waited for a processor, until the best two readings of each
 * number differ by 15 % at the most. Each number that is measured becomes a number of its band; what is not steady
 * stays as it is, which is usual, and makes the whole `disturbed`. `notes` gets a line for each number: "# measured:
 * NAME 33.1, spread 2 %, taken as 48" or "# usual: NAME, as REASON". */
TN_MUST_USE tn_status *tn__machine_settle(const tn__machine_meter *meter, tn__machine *machine, tn__strbuf *notes,
                                          bool *disturbed);

/* The number that stands for `value`: with a `step` of 1 the nearest whole number, at least 1; else `usual` when both
 * are within a factor of `step`, or the next one of a grid around it that is. Noise of a measurement is small beside
 * these bands, and the usual number is in the middle of one. */
double tn__machine_band(double value, double usual, double step);

#endif
