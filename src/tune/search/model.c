#include "tune/search/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xgboost/c_api.h> /* a system's header: it has functions without prototypes */

#include "base/alloc.h"

struct tn__cost_model {
  tn__model_sample *samples;
  int count, capacity;
  int learned_from;      /* samples that the trees know */
  BoosterHandle booster; /* NULL: none yet */
};

enum { TREES = 60 };

tn_status *tn__model_create(tn__cost_model **out) {
  *out = NULL;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__cost_model), 0, &memory));
  *out = memory;
  return NULL;
}

void tn__model_release(tn__cost_model *model) {
  if (model == NULL) return;
  if (model->booster != NULL) XGBoosterFree(model->booster);
  free(model->samples);
  tn__free(NULL, model, sizeof *model, 0);
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

static float scaled(double x) { return (float)(x > 0 ? log2(1 + x) : -log2(1 - x)); }

void tn__model_features(const tn__space *space, const tn__space_point *point, const tn__space_cost *cost,
                        float f[TN__MODEL_FEATURES]) {
  const tn__cost *c = &cost->parts;
  const tn__sketch *k = space->rules[point->rule].sketch;
  int n = 0, rule = 0;
  /* The same numbers mean the same for every task: a rule's place in the table, its decisions in their order. */
  while (rule < space->unit.rules->count && space->unit.rules->rule[rule] != k->rule) rule++;
  f[n++] = (float)rule;
  f[n++] = scaled(c->cycles);
  f[n++] = scaled(c->work);
  f[n++] = (float)(c->work / c->cycles);
  for (int level = 0; level < 3; level++) {
    f[n++] = (float)(c->level[level] / c->cycles);
    f[n++] = scaled(c->bytes[level]);
    f[n++] = scaled(c->footprint[level]);
  }
  f[n++] = (float)(c->overhead / c->cycles);
  f[n++] = (float)c->balance;
  f[n++] = (float)c->tail;
  f[n++] = (float)c->registers;
  f[n++] = (float)c->bound;
  f[n++] = (float)space->unit.options.threads;
  for (int d = 0; d < TN__MAX_DECISIONS; d++) f[n++] = d < k->decision_count ? scaled((double)point->values[d]) : -1;
  while (n < TN__MODEL_FEATURES) f[n++] = 0;
}

tn_status *tn__model_add(tn__cost_model *model, const tn__model_sample *sample) {
  if (model->count == model->capacity) {
    int capacity = model->capacity > 0 ? 2 * model->capacity : 256;
    void *grown = realloc(model->samples, (size_t)capacity * sizeof *sample);
    if (grown == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %d samples", capacity);
    model->samples = grown;
    model->capacity = capacity;
  }
  model->samples[model->count++] = *sample;
  return NULL;
}

int tn__model_samples(const tn__cost_model *model) { return model->count; }

/* ---- trees ------------------------------------------------------------------------------------------------------- */

static tn_status *failed(const char *what) {
  return tn_status_create(TN_INTERNAL, "XGBoost cannot %s: %s", what, XGBGetLastError());
}

static tn_status *boost(BoosterHandle booster, DMatrixHandle rows) {
  static const char *const settings[][2] = {{"objective", "reg:squarederror"},
                                            {"base_score", "0"},
                                            {"nthread", "1"},
                                            {"verbosity", "0"},
                                            {"max_depth", "5"},
                                            {"eta", "0.15"},
                                            {"min_child_weight", "2"},
                                            {"subsample", "0.9"},
                                            {"seed", "1"}};
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
    if (XGBoosterSetParam(booster, settings[i][0], settings[i][1]) != 0) return failed(settings[i][0]);
  for (int i = 0; i < TREES; i++)
    if (XGBoosterUpdateOneIter(booster, i, rows) != 0) return failed("learn");
  return NULL;
}

static tn_status *matrix_of(const float *features, int count, DMatrixHandle *out) {
  if (XGDMatrixCreateFromMat(features, (bst_ulong)count, TN__MODEL_FEATURES, NAN, out) != 0)
    return failed("take the features");
  return NULL;
}

static tn_status *learn(tn__cost_model *model, float *features, float *errors) {
  DMatrixHandle rows;
  BoosterHandle booster = NULL;
  for (int i = 0; i < model->count; i++) {
    memcpy(&features[(size_t)i * TN__MODEL_FEATURES], model->samples[i].features, sizeof model->samples[i].features);
    errors[i] = model->samples[i].error;
  }
  TN_RETURN_IF_ERROR(matrix_of(features, model->count, &rows));
  tn_status *status = NULL;
  if (XGDMatrixSetFloatInfo(rows, "label", errors, (bst_ulong)model->count) != 0 ||
      XGBoosterCreate(&rows, 1, &booster) != 0)
    status = failed("begin to learn");
  if (status == NULL) status = boost(booster, rows);
  XGDMatrixFree(rows);
  if (status != NULL) {
    if (booster != NULL) XGBoosterFree(booster);
    return status;
  }
  if (model->booster != NULL) XGBoosterFree(model->booster);
  model->booster = booster;
  model->learned_from = model->count;
  return NULL;
}

tn_status *tn__model_learn(tn__cost_model *model) {
  int fresh = model->count - model->learned_from;
  if (model->count < TN__MODEL_LEAST_SAMPLES || fresh < 8 || fresh * 10 < model->count) return NULL;
  float *features = malloc((size_t)model->count * TN__MODEL_FEATURES * sizeof(float));
  float *errors = malloc((size_t)model->count * sizeof(float));
  tn_status *status = NULL;
  if (features == NULL || errors == NULL)
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory to learn from %d samples", model->count);
  else
    status = learn(model, features, errors);
  free(features);
  free(errors);
  return status;
}

tn_status *tn__model_predict(const tn__cost_model *model, const float *features, int count, float *out) {
  memset(out, 0, (size_t)count * sizeof *out);
  if (model->booster == NULL || count == 0) return NULL;
  DMatrixHandle rows;
  bst_ulong length;
  const float *results;
  TN_RETURN_IF_ERROR(matrix_of(features, count, &rows));
  tn_status *status = NULL;
  if (XGBoosterPredict(model->booster, rows, 0, 0, 0, &length, &results) != 0 || length != (bst_ulong)count)
    status = failed("predict");
  else
    memcpy(out, results, (size_t)count * sizeof *out);
  XGDMatrixFree(rows);
  return status;
}
