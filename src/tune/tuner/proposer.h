/* Learning and proposing beside the measuring: a thread that has the searches of all tasks, and the model that they
 * share, takes up results as they arrive, and keeps a few proposals of each task ready, so that nobody waits while a
 * model learns or a generation is ranked.
 *
 * Without a thread all is done in the call that asks for it, in an order that depends on the calls alone: so it is on a
 * simulator's clock, where a seed gives the same each time.
 *
 * From tn__proposer_start() until tn__proposer_finish() the searches, their spaces and the model are the proposer's: of
 * proposals the caller reads what does not change, all but `median`. One thread, the tuner's, calls these functions. */
#ifndef TENON_TUNE_TUNER_PROPOSER_H
#define TENON_TUNE_TUNER_PROPOSER_H

#include "tune/search/search.h"

typedef struct tn__proposer tn__proposer;

typedef struct tn__proposer_words {
  tn__search *const *searches; /* of each task; the list is copied */
  int count;
  /* Called in the thread when proposals are there that were missing. NULL: there is no thread. */
  void (*ready)(void *user);
  void *user;
  const int *cores; /* that the thread may use, for this call; none: any */
  int core_count;
} tn__proposer_words;

TN_MUST_USE tn_status *tn__proposer_start(const tn__proposer_words *words, tn__proposer **out);
/* Takes up what was told, and ends the thread. Searches are the caller's again. */
TN_MUST_USE tn_status *tn__proposer_finish(tn__proposer *proposer);
void tn__proposer_release(tn__proposer *proposer); /* ends the thread; NULL is fine */

/* May tn__proposer_next() have something now, or soon? */
typedef enum tn__proposer_state { TN__PROPOSER_READY, TN__PROPOSER_WORKING, TN__PROPOSER_EXHAUSTED } tn__proposer_state;
tn__proposer_state tn__proposer_state_of(const tn__proposer *proposer, int task);
/* The next proposal of a task; NULL: it is being made, or there is none any more, as the state tells. What went wrong
 * in the thread is told here. */
TN_MUST_USE tn_status *tn__proposer_next(tn__proposer *proposer, int task, const tn__proposal **out);
/* As tn__search_tell(). */
TN_MUST_USE tn_status *tn__proposer_tell(tn__proposer *p, int index, int proposal, double median);
double tn__proposer_promise(const tn__proposer *proposer,
                            int task);                     /* as tn__search_promise(), when it was last known */
double tn__proposer_seconds(const tn__proposer *proposer); /* of a core that the thread has taken */

#endif
