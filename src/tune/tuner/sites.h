/* What a model's graph decides by estimates before there are kernels (graph/passes/passes.h: Winograd's algorithm or
 * none, one kernel or several), measured.
 *
 * For each site the model is compiled once more with another choice, as far as kernels. Those that are there with one
 * choice only, on either side, are timed in turns, each as often as a run calls it; the choice whose kernels together
 * are shown to be faster is taken (compare.h). Kernels have the best schedules that the database knows on this machine,
 * and else their static choices.
 *
 * In the database a site is a task whose declaration is a line "site KIND TEXT", and a choice is its candidate, of the
 * rule "variant" with decisions like "winograd 4": verified when it was the better one.
 *
 * One thread, that of the builder's loop. */
#ifndef TENON_TUNE_TUNER_SITES_H
#define TENON_TUNE_TUNER_SITES_H

#include "kernels/tuned.h"
#include "tenon/database.h"
#include "tune/tuner/tasks.h"

/* What came of one alternative. */
typedef struct tn__site_result {
  const tn__site *site;
  int before, choice; /* the choice until now, and the other one */
  bool known;         /* from the database, and not measured now */
  bool better;        /* the other one is taken */
  double ratio;       /* of its time to that before; 0: not measured, since nothing changes or it promises nothing */
  double seconds;     /* of the kernels that differ, with the better choice */
} tn__site_result;

typedef struct tn__sites_words {
  const char *path; /* of the model */
  const tn_compile_options *options;
  tn_builder *builder;
  tn_runner *runner;
  tn_database *database;                                   /* NULL: nothing is known, and nothing kept */
  const char *machine;                                     /* the fingerprint of this one */
  double most_seconds;                                     /* no site is begun later; 0: no limit */
  void (*told)(void *user, const tn__site_result *result); /* may be NULL */
  void *user;
} tn__sites_words;

typedef struct tn__sites tn__sites;

/* Compiles the model; what the words point to outlives the sites. */
TN_MUST_USE tn_status *tn__sites_start(const tn__sites_words *words, tn__sites **out);
bool tn__sites_are_done(const tn__sites *sites);
/* What went wrong; NULL: nothing. Owned by the sites. */
const tn_status *tn__sites_failure(const tn__sites *sites);
void tn__sites_stop(tn__sites *sites); /* what is decided stays */
/* What is decided otherwise than usual; they live as long as the sites. */
TN_MUST_USE int tn__sites_variants(const tn__sites *sites, const tn__variant **out);
int tn__sites_count(const tn__sites *sites); /* sites that were found */
/* The kernels of the model as it is decided; belongs to the sites. */
const tn__task_list *tn__sites_tasks(const tn__sites *sites);
/* For a file of tuned schedules. */
void tn__sites_print(const tn__sites *sites, tn__strbuf *out);
void tn__sites_release(tn__sites *sites); /* NULL is fine */

#endif
