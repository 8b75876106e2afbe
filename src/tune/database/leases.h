/* Leases: of several tuners of one database, one measures a candidate, and the others take its result.
 *
 * A tuner claims a candidate before it measures it, renews what it has claimed while it lives, and yields a claim when
 * the result is in the database. What the tuner that died had claimed is free when its leases have expired. */
#ifndef TENON_TUNE_DATABASE_LEASES_H
#define TENON_TUNE_DATABASE_LEASES_H

#include "tenon/database.h"

typedef struct tn__lease {
  const char *owner;   /* a text that no other tuner has */
  double now, seconds; /* since 1970, or on a simulator's clock; that the lease lasts */
} tn__lease;

typedef enum tn__database_claim_state {
  TN__CLAIM_GRANTED, /* the owner may measure it */
  TN__CLAIM_TAKEN,   /* another one measures it */
  TN__CLAIM_KNOWN    /* it was measured on this machine */
} tn__database_claim_state;

typedef struct tn__database_claimed {
  tn__database_claim_state state;
  double seconds; /* of one that is known; INFINITY: it failed */
} tn__database_claimed;

/* One transaction. Of the record what tells candidates apart is read, with its machine. */
TN_MUST_USE tn_status *tn__database_claim(tn_database *db, const tn_record *candidate, const tn__lease *lease,
                                          tn__database_claimed *out);
/* All leases of the owner last from now on as long as new ones; those of others that have expired are removed. */
TN_MUST_USE tn_status *tn__database_renew(tn_database *db, const tn__lease *lease);
/* Ends the owner's lease of the candidate; NULL: all of the owner's. */
TN_MUST_USE tn_status *tn__database_yield(tn_database *db, const char *owner, const tn_record *candidate);

#endif
