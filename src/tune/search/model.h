/* The learned part of what a candidate is predicted to take: boosted trees (XGBoost: Chen and Guestrin, KDD 2016) of
 * what measured times were over what the static cost function said, in logarithms. Without samples it says 0, so that
 * the static cost function is what a search begins with; what it learns of one task it applies to others of the target.
 *
 * One thread at a time uses a model. */
#ifndef TENON_TUNE_SEARCH_MODEL_H
#define TENON_TUNE_SEARCH_MODEL_H

#include "tune/search/space.h"

enum { TN__MODEL_FEATURES = 40, TN__MODEL_LEAST_SAMPLES = 16 /* before it learns anything */ };

/* A point as models read it: the static cost function's parts, the rule and the decisions, which cost next to nothing,
 * and what its loops do, for which it has to be applied. */
typedef struct tn__model_row {
  float cheap[TN__MODEL_FEATURES];
  float loops[TN__FEATURES];
} tn__model_row;

typedef struct tn__model_sample {
  tn__model_row row;
  float error; /* the logarithm of measured over predicted seconds */
  int task;    /* errors are learned relative to the mean of their task: only those of one task are compared */
} tn__model_sample;

typedef struct tn__cost_model tn__cost_model;

TN_MUST_USE tn_status *tn__model_create(tn__cost_model **out);
void tn__model_release(tn__cost_model *model); /* NULL is fine */
/* What a model reads of a point that costs nothing. */
void tn__model_cheap(const tn__space *space, const tn__space_point *point, const tn__space_cost *cost,
                     float out[TN__MODEL_FEATURES]);
/* The number of a task whose samples are added, the same for the same key (tn__model_key_of()). -1: no memory. */
int tn__model_task(tn__cost_model *model, uint64_t key);
uint64_t tn__model_task_key(const tn__cost_model *model, int task);
int tn__model_tasks(const tn__cost_model *model); /* that have numbers */
uint64_t tn__model_key_of(const tn_tune_task *task);
/* What a candidate of a space teaches that took so many seconds, INFINITY: it failed; `row->loops` is filled in. False:
 * nothing, as the cost function knows nothing of it. */
TN_MUST_USE bool tn__model_sample_of(tn__space *space, const tn__space_point *point, double seconds, int task,
                                     tn__model_sample *out);
/* Adds what was measured; nothing is learned before tn__model_learn. */
TN_MUST_USE tn_status *tn__model_add(tn__cost_model *model, const tn__model_sample *sample);
int tn__model_samples(const tn__cost_model *model);
const tn__model_sample *tn__model_sample_at(const tn__cost_model *model, int index);
bool tn__model_knows(const tn__cost_model *model); /* it has learned something */
/* The samples that there are now are of other tasks, or of before: how many new ones are worth learning does not depend
 * on them alone. */
void tn__model_begin(tn__cost_model *model);
/* Learns from all samples anew, when there are enough new ones to be worth it. */
TN_MUST_USE tn_status *tn__model_learn(tn__cost_model *model);
/* The logarithm of measured over predicted, relative to the mean of the task: by `count` rows of what is cheap alone,
 * or by whole ones. */
TN_MUST_USE tn_status *tn__model_predict_cheap(const tn__cost_model *model, const float *cheap, int count, float *out);
TN_MUST_USE tn_status *tn__model_predict(const tn__cost_model *model, const tn__model_row *rows, int count, float *out);

#endif
