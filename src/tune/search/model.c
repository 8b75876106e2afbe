#include "tune/search/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xgboost/c_api.h> /* a system's header: it has functions without prototypes */

#include "base/alloc.h"
#include "base/hash.h"

/* One of what is cheap and one of whole rows: thousands of points are ranked by the first, and the best of them by the
 * second. */
enum { CHEAP, WHOLE, BOOSTERS };
enum { ROW = TN__MODEL_FEATURES + TN__FEATURES };
_Static_assert(sizeof(tn__model_row) == ROW * sizeof(float), "rows lie without gaps");

struct tn__cost_model {
  tn__model_sample *samples;
  int count, capacity;
  uint64_t *keys;                   /* of tasks */
  int tasks;                        /* that there are numbers for */
  int begun_with;                   /* samples that were there before this tuning */
  int learned_from;                 /* samples that the trees know */
  BoosterHandle boosters[BOOSTERS]; /* NULL: none yet */
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
  for (int i = 0; i < BOOSTERS; i++)
    if (model->boosters[i] != NULL) XGBoosterFree(model->boosters[i]);
  free(model->samples);
  free(model->keys);
  tn__free(NULL, model, sizeof *model, 0);
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

static float scaled(double x) { return (float)(x > 0 ? log2(1 + x) : -log2(1 - x)); }

void tn__model_cheap(const tn__space *space, const tn__space_point *point, const tn__space_cost *cost,
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

int tn__model_tasks(const tn__cost_model *model) { return model->tasks; }

uint64_t tn__model_task_key(const tn__cost_model *model, int task) { return model->keys[task]; }

int tn__model_task(tn__cost_model *model, uint64_t key) {
  for (int i = 0; i < model->tasks; i++)
    if (model->keys[i] == key) return i;
  void *grown = realloc(model->keys, (size_t)(model->tasks + 1) * sizeof *model->keys);
  if (grown == NULL) return -1;
  model->keys = grown;
  model->keys[model->tasks] = key;
  return model->tasks++;
}

uint64_t tn__model_key_of(const tn_tune_task *task) {
  uint64_t key = tn__hash_string(tn__hash_string(11, task->declaration), task->target);
  return tn__hash_mix(tn__hash_mix(key, (uint64_t)task->threads), task->results_read);
}

bool tn__model_sample_of(tn__space *space, const tn__space_point *point, double seconds, int task,
                         tn__model_sample *out) {
  const float failed = 2, most = 4; /* a failure is as if it took e^2 times what was predicted */
  tn__space_cost cost = tn__space_weigh(space, point);
  if (!isfinite(cost.cycles) || !(cost.cycles > 0)) return false;
  double clock = 1e6 * space->target.cpu.machine.core.megahertz;
  out->task = task;
  out->error = isfinite(seconds) ? (float)log(seconds * clock / cost.cycles) : failed;
  out->error = fmaxf(fminf(out->error, most), -most);
  tn__model_cheap(space, point, &cost, out->row.cheap);
  return true;
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

const tn__model_sample *tn__model_sample_at(const tn__cost_model *model, int index) { return &model->samples[index]; }

bool tn__model_knows(const tn__cost_model *model) { return model->boosters[WHOLE] != NULL; }

/* ---- trees ------------------------------------------------------------------------------------------------------- */

static tn_status *failed(const char *what) {
  return tn_status_create(TN_INTERNAL, "XGBoost cannot %s: %s", what, XGBGetLastError());
}

static tn_status *boost(BoosterHandle booster, DMatrixHandle rows, int which) {
  const char *const settings[][2] = {
      {"objective", "reg:squarederror"},
      {"base_score", "0"},
      {"nthread", "1"},
      {"verbosity", "0"},
      {"max_depth", "5"},
      {"eta", "0.15"},
      {"min_child_weight", "2"},
      {"subsample", "0.9"},
      {"colsample_bytree", which == WHOLE ? "0.5" : "1"}, /* of many columns that say the same */
      {"seed", "1"}};
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
    if (XGBoosterSetParam(booster, settings[i][0], settings[i][1]) != 0) return failed(settings[i][0]);
  for (int i = 0; i < TREES; i++)
    if (XGBoosterUpdateOneIter(booster, i, rows) != 0) return failed("learn");
  return NULL;
}

static tn_status *matrix_of(const float *features, int count, int width, DMatrixHandle *out) {
  if (XGDMatrixCreateFromMat(features, (bst_ulong)count, (bst_ulong)width, NAN, out) != 0)
    return failed("take the features");
  return NULL;
}

/* Samples of this tuning's tasks count more than those of others. */
static tn_status *weigh(const tn__cost_model *model, DMatrixHandle rows) {
  const float of_others = 0.15f;
  float *weights = malloc((size_t)model->count * sizeof *weights);
  if (weights == NULL)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory to learn from %d samples", model->count);
  for (int i = 0; i < model->count; i++) weights[i] = i < model->begun_with ? of_others : 1;
  int result = XGDMatrixSetFloatInfo(rows, "weight", weights, (bst_ulong)model->count);
  free(weights);
  return result == 0 ? NULL : failed("weigh samples");
}

static tn_status *learn(tn__cost_model *model, int which, const float *features, int width, const float *errors) {
  DMatrixHandle rows;
  BoosterHandle booster = NULL;
  TN_RETURN_IF_ERROR(matrix_of(features, model->count, width, &rows));
  tn_status *status = weigh(model, rows);
  if (status != NULL) {
    XGDMatrixFree(rows);
    return status;
  }
  if (XGDMatrixSetFloatInfo(rows, "label", errors, (bst_ulong)model->count) != 0 ||
      XGBoosterCreate(&rows, 1, &booster) != 0)
    status = failed("begin to learn");
  if (status == NULL) status = boost(booster, rows, which);
  XGDMatrixFree(rows);
  if (status != NULL) {
    if (booster != NULL) XGBoosterFree(booster);
    return status;
  }
  if (model->boosters[which] != NULL) XGBoosterFree(model->boosters[which]);
  model->boosters[which] = booster;
  return NULL;
}

/* Errors relative to the mean of their task. */
static tn_status *center(const tn__cost_model *model, float *errors) {
  size_t tasks = (size_t)model->tasks;
  double *sums = calloc(tasks, sizeof *sums), *counts = calloc(tasks, sizeof *counts);
  bool good = sums != NULL && counts != NULL;
  for (int i = 0; good && i < model->count; i++) {
    sums[model->samples[i].task] += model->samples[i].error;
    counts[model->samples[i].task]++;
  }
  for (int i = 0; good && i < model->count; i++) {
    int task = model->samples[i].task;
    errors[i] = (float)(model->samples[i].error - sums[task] / counts[task]);
  }
  free(sums);
  free(counts);
  return good ? NULL : tn_status_create(TN_OUT_OF_MEMORY, "out of memory to learn from %d samples", model->count);
}

static tn_status *learn_both(tn__cost_model *model, float *features, float *errors) {
  TN_RETURN_IF_ERROR(center(model, errors));
  for (int i = 0; i < model->count; i++)
    memcpy(&features[(size_t)i * TN__MODEL_FEATURES], model->samples[i].row.cheap, sizeof model->samples[i].row.cheap);
  TN_RETURN_IF_ERROR(learn(model, CHEAP, features, TN__MODEL_FEATURES, errors));
  for (int i = 0; i < model->count; i++)
    memcpy(&features[(size_t)i * ROW], &model->samples[i].row, sizeof model->samples[i].row);
  TN_RETURN_IF_ERROR(learn(model, WHOLE, features, ROW, errors));
  model->learned_from = model->count;
  return NULL;
}

void tn__model_begin(tn__cost_model *model) { model->begun_with = model->count; }

tn_status *tn__model_learn(tn__cost_model *model) {
  int fresh = model->count - model->learned_from;
  int own = model->count - model->begun_with;
  /* A tenth of its own; of all a fortieth, as learning takes longer the more there are. */
  if (model->count < TN__MODEL_LEAST_SAMPLES || fresh < 8 || fresh * 10 < own || fresh * 40 < model->count) return NULL;
  float *features = malloc((size_t)model->count * (sizeof(tn__model_row) / sizeof(float)) * sizeof(float));
  float *errors = malloc((size_t)model->count * sizeof(float));
  tn_status *status = NULL;
  if (features == NULL || errors == NULL)
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory to learn from %d samples", model->count);
  else
    status = learn_both(model, features, errors);
  free(features);
  free(errors);
  return status;
}

static tn_status *predict(BoosterHandle booster, const float *features, int count, int width, float *out) {
  memset(out, 0, (size_t)count * sizeof *out);
  if (booster == NULL || count == 0) return NULL;
  DMatrixHandle rows;
  bst_ulong length;
  const float *results;
  TN_RETURN_IF_ERROR(matrix_of(features, count, width, &rows));
  tn_status *status = NULL;
  if (XGBoosterPredict(booster, rows, 0, 0, 0, &length, &results) != 0 || length != (bst_ulong)count)
    status = failed("predict");
  else
    memcpy(out, results, (size_t)count * sizeof *out);
  XGDMatrixFree(rows);
  return status;
}

tn_status *tn__model_predict_cheap(const tn__cost_model *model, const float *cheap, int count, float *out) {
  return predict(model->boosters[CHEAP], cheap, count, TN__MODEL_FEATURES, out);
}

tn_status *tn__model_predict(const tn__cost_model *model, const tn__model_row *rows, int count, float *out) {
  return predict(model->boosters[WHOLE], rows->cheap, count, ROW, out);
}
