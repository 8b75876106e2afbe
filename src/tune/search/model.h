/* The learned part of what a candidate is predicted to take: boosted trees (XGBoost: Chen and Guestrin, KDD 2016) of
 * what measured times were over what the static cost function said, in logarithms. Without samples it says 0, so that
 * the static cost function is what a search begins with; what it learns of one task it applies to others of the target.
 *
 * One thread at a time uses a model. */
#ifndef TENON_TUNE_SEARCH_MODEL_H
#define TENON_TUNE_SEARCH_MODEL_H

#include "tune/search/space.h"

enum { TN__MODEL_FEATURES = 40, TN__MODEL_LEAST_SAMPLES = 16 /* before it learns anything */ };

typedef struct tn__model_sample {
  float features[TN__MODEL_FEATURES];
  float error; /* the logarithm of measured over predicted seconds */
} tn__model_sample;

typedef struct tn__cost_model tn__cost_model;

TN_MUST_USE tn_status *tn__model_create(tn__cost_model **out);
void tn__model_release(tn__cost_model *model); /* NULL is fine */
/* What a model reads of a point. */
void tn__model_features(const tn__space *space, const tn__space_point *point, const tn__space_cost *cost,
                        float features[TN__MODEL_FEATURES]);
/* Adds what was measured; nothing is learned before tn__model_learn. */
TN_MUST_USE tn_status *tn__model_add(tn__cost_model *model, const tn__model_sample *sample);
int tn__model_samples(const tn__cost_model *model);
/* Learns from all samples anew, when there are enough new ones to be worth it. */
TN_MUST_USE tn_status *tn__model_learn(tn__cost_model *model);
/* The logarithm of measured over predicted for each of `count` rows of features. */
TN_MUST_USE tn_status *tn__model_predict(const tn__cost_model *model, const float *features, int count, float *out);

#endif
