#include "tune/tuner/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct tn__comparison {
  tn__comparison_words words;
  tn_build_result builds[TN__COMPARISON_MOST];
  void *code[TN__COMPARISON_MOST];
  char *texts[TN__COMPARISON_MOST]; /* copies of the traces, which the first build may outlive */
  int built, runs;                  /* so far */
  double times[TN__COMPARISON_MOST][TN__COMPARISON_TURNS];
  tn_trial_handle handle;
  bool failed[TN__COMPARISON_MOST]; /* and so no rival any more */
  bool building, done, released;
  int inside;
};

static void destroy(tn__comparison *c) {
  for (int i = 0; i < TN__COMPARISON_MOST; i++) {
    free(c->code[i]);
    free(c->texts[i]);
  }
  tn__free(NULL, c, sizeof *c, 0);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_of(const double *values) {
  double sorted[TN__COMPARISON_TURNS];
  memcpy(sorted, values, sizeof sorted);
  qsort(sorted, TN__COMPARISON_TURNS, sizeof(double), by_value);
  return sorted[TN__COMPARISON_TURNS / 2];
}

static void judge(const tn__comparison *c, tn__comparison_result *out) {
  out->turns = TN__COMPARISON_TURNS;
  out->medians[0] = median_of(c->times[0]);
  for (int s = 1; s < c->words.count; s++) {
    if (c->failed[s]) continue;
    double ratios[TN__COMPARISON_TURNS];
    int faster = 0;
    for (int i = 0; i < TN__COMPARISON_TURNS; i++) {
      ratios[i] = c->times[s][i] / c->times[0][i];
      faster += ratios[i] < 1;
    }
    double ratio = median_of(ratios);
    if (out->best > 0 && ratio >= out->ratio) continue;
    out->best = s;
    out->ratio = ratio;
    out->better = ratio < 1 && faster >= TN__COMPARISON_NEEDED;
    out->medians[1] = median_of(c->times[s]);
  }
}

static void end(tn__comparison *c, const char *message) {
  tn__comparison_result result = {.ratio = 1, .message = message};
  if (message == NULL) judge(c, &result);
  c->done = true;
  if (!c->released) c->words.done(c->words.user, &result);
}

static void go_on(tn__comparison *c);

/* Of a schedule. Without the first there is nothing to compare with, and without any other nothing to compare. */
static void fail(tn__comparison *c, int which, const char *message) {
  int left = 0;
  c->failed[which] = true;
  for (int s = 1; s < c->words.count; s++) left += !c->failed[s];
  if (which == 0 || left == 0)
    end(c, message);
  else
    go_on(c);
}

static void on_built(void *user, const tn_build_input *input, const tn_build_result *result) {
  tn__comparison *c = user;
  c->inside++;
  if (c->released) {
  } else if (result->error != TN_TRIAL_OK) {
    fail(c, c->built++, result->message);
  } else if ((c->code[c->built] = malloc(result->code_size + 1)) == NULL) {
    end(c, "out of memory");
  } else {
    if (result->code_size > 0) memcpy(c->code[c->built], result->code, result->code_size);
    c->builds[c->built] = *result;
    c->builds[c->built].code = c->code[c->built];
    c->builds[c->built].message = "";
    c->builds[c->built].trace = NULL;
    c->built++;
    go_on(c);
  }
  if (--c->inside == 0 && c->released) destroy(c);
}

static void on_run(void *user, const tn_build_input *input, const tn_run_result *result) {
  tn__comparison *c = user;
  c->inside++;
  if (c->released) {
  } else if (result->error != TN_TRIAL_OK) {
    fail(c, c->runs++ % c->words.count, result->message);
  } else {
    c->times[c->runs % c->words.count][c->runs / c->words.count] = result->median;
    c->runs++;
    go_on(c);
  }
  if (--c->inside == 0 && c->released) destroy(c);
}

static void go_on(tn__comparison *c) {
  while (c->built == c->words.count && c->runs < c->words.count * TN__COMPARISON_TURNS &&
         c->failed[c->runs % c->words.count])
    c->runs++;
  if (c->runs == c->words.count * TN__COMPARISON_TURNS) {
    end(c, NULL);
    return;
  }
  c->building = c->built < c->words.count;
  int which = c->building ? c->built : c->runs % c->words.count;
  const tn_build_input input = {.task = c->words.task, .schedule = c->texts[which]};
  tn_status *status = c->building ? tn_builder_submit(c->words.builder, &input, on_built, c, &c->handle)
                                  : tn_runner_submit(c->words.runner, &input, &c->builds[which], on_run, c, &c->handle);
  if (status != NULL) end(c, tn_status_message(status));
  tn_status_free(status);
}

tn_status *tn__comparison_start(const tn__comparison_words *words, tn__comparison **out) {
  *out = NULL;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__comparison), 0, &memory));
  tn__comparison *c = memory;
  c->words = *words;
  for (int i = 0; i < words->count; i++) {
    if ((c->texts[i] = strdup(words->traces[i])) != NULL) continue;
    destroy(c);
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory to compare schedules");
  }
  *out = c;
  c->inside++;
  go_on(c);
  if (--c->inside == 0 && c->released) destroy(c);
  return NULL;
}

void tn__comparison_release(tn__comparison *c) {
  if (c == NULL) return;
  c->inside++;
  c->released = true;
  if (!c->done && c->building) (void)tn_builder_cancel(c->words.builder, c->handle);
  if (!c->done && !c->building) (void)tn_runner_cancel(c->words.runner, c->handle);
  if (--c->inside == 0) destroy(c);
}
