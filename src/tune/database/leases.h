/* Leases: when several tuners share a database, one measures a candidate and the others read its result.
 *
 * A tuner claims a candidate before it measures it, renews its claims periodically, and yields a claim after it has
 * stored the result. The claims of a dead tuner become free when its leases expire. */
#ifndef TENON_TUNE_DATABASE_LEASES_H
#define TENON_TUNE_DATABASE_LEASES_H

#include "tenon/database.h"

typedef struct tn__lease {
  const char *owner;   /* unique to the tuner */
  double now, seconds; /* since 1970, or on a simulator's clock; duration of the lease */
} tn__lease;

typedef enum tn__database_claim_state {
  TN__CLAIM_GRANTED, /* the owner may measure the candidate */
  TN__CLAIM_TAKEN,   /* another tuner is measuring it */
  TN__CLAIM_KNOWN    /* this machine has measured it */
} tn__database_claim_state;

typedef struct tn__database_claimed {
  tn__database_claim_state state;
  double seconds; /* of a measured candidate; INFINITY: it failed */
} tn__database_claimed;

/* Claims a candidate in one transaction. Reads only the identity of the record and its machine. */
TN_MUST_USE tn_status *tn__database_claim(tn_database *db, const tn_record *candidate, const tn__lease *lease,
                                          tn__database_claimed *out);
/* Renews all leases of the owner, and removes expired leases of others. */
TN_MUST_USE tn_status *tn__database_renew(tn_database *db, const tn__lease *lease);
/* Ends the owner's lease of the candidate, or all of its leases for NULL. */
TN_MUST_USE tn_status *tn__database_yield(tn_database *db, const char *owner, const tn_record *candidate);

#endif
