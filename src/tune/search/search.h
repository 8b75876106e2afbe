/* A search in the space of one task: which candidate to measure next, by what was measured so far.
 *
 * It begins with the static choice, what was fast for kernels like this one, and what the static cost function likes
 * next best, and goes on by evolution: of the
 * best that were measured some decisions are changed (mutation) or taken from two of them (crossover), thousands of
 * such points are ranked by the cost function and the learned model, and a part is drawn by chance (epsilon-greedy), so
 * that what both are wrong about is seen, too (Ansor: Zheng et al., OSDI 2020). Points with equal steps are one
 * candidate, and none is proposed twice. */
#ifndef TENON_TUNE_SEARCH_SEARCH_H
#define TENON_TUNE_SEARCH_SEARCH_H

#include "tune/search/model.h"

/* A proposal; it and its texts belong to the search and live as long. */
typedef struct tn__proposal {
  int index;             /* 0: the static choice; then as they were proposed */
  tn__space_point point; /* rule -1: no point, but the static choice's trace */
  const char *rule;
  char *decisions, *trace;
  double predicted; /* seconds; NAN: nobody knows */
  double median;    /* measured seconds; INFINITY: it failed; NAN: not known yet */
  bool seed;        /* it was fast for a kernel like this one */
  tn__model_row row;
} tn__proposal;

typedef enum tn__search_kind {
  TN__SEARCH_EVOLUTION,
  TN__SEARCH_RANDOM, /* every point that can be is as likely: what others are compared with */
  TN__SEARCH_ALL     /* all points in their order */
} tn__search_kind;

typedef struct tn__search tn__search;

/* The model is shared with other searches; NULL: the search learns nothing. Both outlive it. */
TN_MUST_USE tn_status *tn__search_create(tn__space *space, tn__cost_model *model, tn__search_kind kind, uint64_t seed,
                                         tn__search **out);
void tn__search_release(tn__search *search); /* NULL is fine */
/* Nothing with these steps is proposed: they were measured before, and took so many seconds (INFINITY: failed). The
 * rule and decisions may be unknown here (NULL), or not fit any more: then they teach nothing. */
TN_MUST_USE tn_status *tn__search_know(tn__search *search, const char *rule, const char *decisions, const char *trace,
                                       double median);
/* What was fast for a kernel like this one: the nearest point that there is is proposed early on, if it is new. At
 * most TN__SEARCH_SEEDS are taken, as every second one of the first proposals; none when more is known already, and
 * none by a search that is no evolution. */
enum { TN__SEARCH_SEEDS = 8 };
void tn__search_seed(tn__search *search, const char *rule, const char *decisions);
int tn__search_seeds(const tn__search *search); /* that were taken */
/* The next candidate; *out NULL: there is none that was not proposed before. */
TN_MUST_USE tn_status *tn__search_next(tn__search *search, const tn__proposal **out);
/* What came of a proposal: seconds of one call, INFINITY when it failed. */
TN_MUST_USE tn_status *tn__search_tell(tn__search *search, int index, double median);
const tn__proposal *tn__search_best(const tn__search *search); /* measured; NULL: none yet */
const tn__proposal *tn__search_at(const tn__search *search, int index);
int tn__search_count(const tn__search *search); /* proposals */
/* The least that the cost function and the model promise of what is not measured, over the best measured: what is
 * still to be gained. 1 when there is nothing. */
double tn__search_promise(const tn__search *search);

#endif
