#include "tune/tuner/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A kernel of one of the rivals. */
typedef struct kernel {
  tn__rival_kernel words;
  char *trace; /* a copy, which the first build may outlive */
  tn_build_result build;
  void *code;
} kernel;

struct tn__comparison {
  tn__comparison_words words;
  kernel *kernels;        /* kernels; built kernels; finished runs */
  int count, built, runs; /* number of kernels; progress */
  int ended, lost;        /* finished turns; builds and runs whose worker was lost */
  double times[TN__COMPARISON_MOST][TN__COMPARISON_TURNS];
  tn_trial_handle handle;
  int turns[TN__COMPARISON_MOST], faster[TN__COMPARISON_MOST]; /* turns that it was timed in; turns that it won */
  bool failed[TN__COMPARISON_MOST];                            /* and is no longer a rival */
  bool left[TN__COMPARISON_MOST];                              /* it lost too many turns */
  bool building, done, released;
  int inside;
};

static void destroy(tn__comparison *c) {
  for (int i = 0; c->kernels != NULL && i < c->count; i++) {
    free(c->kernels[i].code);
    free(c->kernels[i].trace);
  }
  free(c->kernels);
  tn__free(NULL, c, sizeof *c, 0);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_of(const double *values, int count) {
  double sorted[TN__COMPARISON_TURNS];
  memcpy(sorted, values, (size_t)count * sizeof *values);
  qsort(sorted, (size_t)count, sizeof(double), by_value);
  return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static tn__rival_result judge_rival(const tn__comparison *c, int rival) {
  tn__rival_result out = {.turns = c->turns[rival]};
  double ratios[TN__COMPARISON_TURNS];
  if (c->failed[rival] || out.turns == 0) return (tn__rival_result){.turns = 0};
  for (int i = 0; i < out.turns; i++) ratios[i] = c->times[rival][i] / c->times[0][i];
  out.ratio = median_of(ratios, out.turns);
  out.better = out.ratio < 1 && c->faster[rival] >= TN__COMPARISON_NEEDED;
  out.medians[0] = median_of(c->times[0], out.turns);
  out.medians[1] = median_of(c->times[rival], out.turns);
  return out;
}

static void judge(const tn__comparison *c, tn__comparison_result *out) {
  for (int s = 1; s < c->words.count; s++) {
    const tn__rival_result r = out->rivals[s] = judge_rival(c, s);
    bool sooner = out->best == 0 || r.better > out->better || (r.better == out->better && r.ratio < out->ratio);
    if (r.turns == 0 || !sooner) continue;
    out->best = s;
    out->turns = r.turns;
    out->ratio = r.ratio;
    out->better = r.better;
    memcpy(out->medians, r.medians, sizeof out->medians);
  }
}

/* Ends a turn of all kernels. Rivals that can no longer be shown to be better leave. Returns true if another turn
 * cannot change the result. */
static bool end_turn(tn__comparison *c, int turn) {
  bool open = false;
  for (int s = 1; s < c->words.count; s++) {
    if (c->failed[s] || c->left[s]) continue;
    c->turns[s] = turn + 1;
    c->faster[s] += c->times[s][turn] < c->times[0][turn];
    c->left[s] = turn + 1 - c->faster[s] > TN__COMPARISON_TURNS - TN__COMPARISON_NEEDED;
    open |= !c->left[s] && c->faster[s] < TN__COMPARISON_NEEDED;
  }
  return !open;
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

/* A lost worker is no evidence about the schedule, so the trial is repeated a few times. */
static bool is_lost(tn__comparison *c, tn_trial_error error) {
  enum { MOST_LOST = 6 };
  return error == TN_TRIAL_WORKER_LOST && c->lost++ < MOST_LOST;
}

static void on_built(void *user, const tn_build_input *input, const tn_build_result *result) {
  tn__comparison *c = user;
  c->inside++;
  kernel *k = &c->kernels[c->built];
  if (c->released) {
  } else if (is_lost(c, result->error)) {
    go_on(c);
  } else if (result->error != TN_TRIAL_OK) {
    c->built++;
    fail(c, k->words.rival, result->message);
  } else if ((k->code = malloc(result->code_size + 1)) == NULL) {
    end(c, "out of memory");
  } else {
    if (result->code_size > 0) memcpy(k->code, result->code, result->code_size);
    k->build = *result;
    k->build.code = k->code;
    k->build.message = "";
    k->build.trace = NULL;
    c->built++;
    go_on(c);
  }
  if (--c->inside == 0 && c->released) destroy(c);
}

static void on_run(void *user, const tn_build_input *input, const tn_run_result *result) {
  tn__comparison *c = user;
  c->inside++;
  const tn__rival_kernel *k = &c->kernels[c->runs % c->count].words;
  if (c->released) {
  } else if (is_lost(c, result->error)) {
    go_on(c);
  } else if (result->error != TN_TRIAL_OK) {
    c->runs++;
    fail(c, k->rival, result->message);
  } else {
    c->times[k->rival][c->runs / c->count] += k->calls * result->median;
    c->runs++;
    go_on(c);
  }
  if (--c->inside == 0 && c->released) destroy(c);
}

static bool is_out(const tn__comparison *c, const kernel *k) {
  return c->failed[k->words.rival] || c->left[k->words.rival];
}

/* Skips kernels of rivals that have left. Returns true once all useful turns are finished. */
static bool find_next(tn__comparison *c) {
  while (c->built < c->count && is_out(c, &c->kernels[c->built])) c->built++;
  if (c->built < c->count) return false;
  for (;;) {
    if (c->runs > 0 && c->runs % c->count == 0 && c->ended < c->runs / c->count) {
      int turn = c->ended++;
      if (end_turn(c, turn)) return true;
    }
    if (c->runs == c->count * TN__COMPARISON_TURNS) return true;
    if (!is_out(c, &c->kernels[c->runs % c->count])) return false;
    c->runs++;
  }
}

static void go_on(tn__comparison *c) {
  if (find_next(c)) {
    end(c, NULL);
    return;
  }
  c->building = c->built < c->count;
  const kernel *k = &c->kernels[c->building ? c->built : c->runs % c->count];
  const tn_build_input input = {.task = k->words.task, .schedule = k->trace};
  tn_status *status = c->building ? tn_builder_submit(c->words.builder, &input, on_built, c, &c->handle)
                                  : tn_runner_submit(c->words.runner, &input, &k->build, on_run, c, &c->handle);
  if (status != NULL) end(c, tn_status_message(status));
  tn_status_free(status);
  if (c->building) /* delivers the result of a synchronous builder */
    (void)tn_builder_poll(c->words.builder);
  else
    (void)tn_runner_poll(c->words.runner);
}

static bool add_kernel(tn__comparison *c, const tn__rival_kernel *words) {
  kernel *k = &c->kernels[c->count++];
  *k = (kernel){.words = *words, .trace = strdup(words->trace)};
  return k->trace != NULL;
}

static bool add_kernels(tn__comparison *c, const tn__comparison_words *words) {
  int most = words->kernel_count > 0 ? words->kernel_count : words->count;
  bool good = (c->kernels = calloc((size_t)most, sizeof *c->kernels)) != NULL;
  for (int i = 0; good && words->kernel_count == 0 && i < words->count; i++)
    good = add_kernel(c, &(tn__rival_kernel){.rival = i, .task = words->task, .trace = words->traces[i], .calls = 1});
  for (int i = 0; good && i < words->kernel_count; i++) good = add_kernel(c, &words->kernels[i]);
  return good;
}

tn_status *tn__comparison_start(const tn__comparison_words *words, tn__comparison **out) {
  *out = NULL;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__comparison), 0, &memory));
  tn__comparison *c = memory;
  c->words = *words;
  if (!add_kernels(c, words)) {
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
