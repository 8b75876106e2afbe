/* Facts of a task on a machine: its work, bounds of its time, and whether its search is complete. */
#ifndef TENON_TUNE_DATABASE_FACTS_H
#define TENON_TUNE_DATABASE_FACTS_H

#include "tenon/database.h"

typedef struct tn__database_facts {
  double flops, bytes; /* of one call; negative: not known */
  double least;        /* seconds that the machine's roofline needs for a call; negative: not known */
  double floor;        /* seconds that every schedule needs, with a margin; 0: the machine is not measured */
  int64_t candidates;  /* of the task's rules, if all are measured; 0: there may be more */
} tn__database_facts;

/* Replaces the facts of a task, by hash, on a machine. TN_NOT_FOUND if the task was not added. */
TN_MUST_USE tn_status *tn__database_put_facts(tn_database *db, const char *task, const char *machine,
                                              const tn__database_facts *facts);
/* `*known` is false if there are no facts. */
TN_MUST_USE tn_status *tn__database_facts_of(const tn_database *db, const char *task, const char *machine,
                                             tn__database_facts *out, bool *known);
/* Rejects a time below the task's floor on the record's machine with TN_INVALID_ARGUMENT. */
TN_MUST_USE tn_status *tn__database_check_floor(const tn_database *db, const tn_record *record);

#endif
