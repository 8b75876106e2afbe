/* Tables of spaces that were measured as a whole: what searches are compared on, in seconds and without a device.
 *
 *   tenon table 1
 *   name min_plus
 *   target x86-64-v4
 *   threads 1
 *   machine "tenon machine 1"            a line of the machine file, as often as it has lines
 *   declaration "kernel ..."             the same
 *   rule contraction
 *   choices 1 2 4                        of each decision of the rule, in their order
 *   point 0 16 2 14 0.000123             a rule's place among those above, its decisions, and seconds; "failed"
 *   static 17                            the point that is the static choice, counted from 0
 *   end
 *
 * A file may be compressed (gzip). Points with equal steps have equal times. */
#ifndef TENON_TUNE_SEARCH_TABLE_H
#define TENON_TUNE_SEARCH_TABLE_H

#include "tune/search/search.h"

typedef struct tn__table tn__table;

/* Writes what a search of all points has found, compressed where the name ends in ".gz". */
TN_MUST_USE tn_status *tn__table_write(tn__space *space, const tn__search *search, const char *path);
TN_MUST_USE tn_status *tn__table_read(const char *path, tn__table **out);
void tn__table_release(tn__table *table); /* NULL is fine */
const tn_tune_task *tn__table_task(const tn__table *table);
/* Opens the task's space, with no more choices than the table's. TN_FAILED_PRECONDITION when its rules are not the
 * table's any more. */
TN_MUST_USE tn_status *tn__table_space(const tn__table *table, tn__space **out);
/* Seconds of a point of that space; INFINITY: it failed; NAN: the table does not have it. */
double tn__table_time(const tn__table *table, const tn__space *space, const tn__space_point *point);
int tn__table_points(const tn__table *table);
double tn__table_seconds(const tn__table *table, int point); /* INFINITY: it failed */
double tn__table_best(const tn__table *table);
double tn__table_static(const tn__table *table); /* NAN: it is none of the points */

#endif
