/* What follows from the trials: courses, sessions, who was busy when, and what may be expected of more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "tune_cli/report.h"

/* ---- courses ----------------------------------------------------------------------------------------------------- */

static int by_end(const void *a, const void *b) {
  const report_trial *x = a, *y = b;
  if (x->when != y->when) return x->when < y->when ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Numbers trials in the order in which they ended, and finds the best up to each. */
static void follow(report_task *task) {
  double best = 0;
  tn__sort(task->trials.data, (size_t)task->trials.count, sizeof(report_trial), by_end);
  for (int i = 0; i < task->trials.count; i++) {
    report_trial *t = &task->trials.data[i];
    t->number = i + 1;
    t->improves = t->verified && (best == 0 || t->median < best);
    if (t->improves) best = t->median;
    t->best = best;
  }
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static tn__accuracy accuracy_of(tn__arena *arena, const report_task *task) {
  tn__accuracy accuracy;
  double *predicted = TN__NEW_ARRAY(arena, task->trials.count, double);
  double *measured = TN__NEW_ARRAY(arena, task->trials.count, double);
  for (int i = 0; i < task->trials.count; i++) {
    predicted[i] = task->trials.data[i].predicted;
    measured[i] = task->trials.data[i].median;
  }
  tn__check(arena->escape, tn__accuracy_of(predicted, measured, task->trials.count, &accuracy));
  return accuracy;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static int by_span_end(const void *a, const void *b) {
  const report_span *x = a, *y = b;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  if (x->run != y->run) return x->run < y->run ? -1 : 1;
  return x->build < y->build ? -1 : x->build > y->build;
}

/* The session that a measurement which began then is of: one ends where nothing was measured for half a minute. */
static report_session *open_session(report *r, double begin) {
  enum { BREAK = 30 };
  int count = r->sessions.count;
  if (count > 0 && begin <= r->sessions.data[count - 1].end + BREAK) return &r->sessions.data[count - 1];
  if (count > 0) r->elapsed += r->sessions.data[count - 1].end - r->sessions.data[count - 1].begin;
  const report_session fresh = {.begin = begin, .elapsed = r->elapsed};
  tn__vec_push(r->arena, &r->sessions, fresh);
  return &r->sessions.data[count];
}

static void find_sessions(report *r) {
  enum { LEAST_MEASUREMENTS = 4 };
  report_session *last = NULL;
  tn__sort(r->spans.data, (size_t)r->spans.count, sizeof(report_span), by_span_end);
  for (int i = 0; i < r->spans.count; i++) {
    const report_span *s = &r->spans.data[i];
    last = open_session(r, s->end - s->run - s->build);
    last->end = s->end;
    last->measurements += s->build + s->run > 0; /* not those of a comparison */
  }
  if (last == NULL) return;
  r->elapsed += last->end - last->begin;
  if (last->measurements >= LEAST_MEASUREMENTS && last->end - last->begin >= 1)
    r->per_minute = 60 * last->measurements / (last->end - last->begin);
}

static const report_session *session_of(const report *r, double when) {
  int low = 0, high = r->sessions.count - 1; /* the first that ends then or later, or else the last */
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (r->sessions.data[middle].end < when)
      low = middle + 1;
    else
      high = middle;
  }
  return &r->sessions.data[low];
}

static double elapsed_at(const report_session *session, double when) {
  return session->elapsed + fmin(fmax(when - session->begin, 0), session->end - session->begin);
}

/* Adds what lies between two times, of tuning, to each bin. */
static void spread(double bins[REPORT_BINS], double from, double to, double width) {
  int first = (int)fmax(floor(from / width), 0);
  for (int i = first; i < REPORT_BINS && i * width < to; i++)
    bins[i] += fmax(fmin(to, (i + 1) * width) - fmax(from, i * width), 0) / width;
}

static void find_busy(report *r) {
  double width = r->elapsed / REPORT_BINS;
  for (int i = 0; i < r->spans.count; i++) {
    const report_span *s = &r->spans.data[i];
    const report_session *session = session_of(r, s->end);
    double end = elapsed_at(session, s->end), run = elapsed_at(session, s->end - s->run);
    r->build_seconds += s->build;
    r->run_seconds += s->run;
    if (width <= 0) continue;
    spread(r->runner, run, end, width);
    spread(r->builders, elapsed_at(session, s->end - s->run - s->build), run, width);
  }
}

/* ---- what more would bring --------------------------------------------------------------------------------------- */

/* The task's time now over that after half of its trials: what doubling them brought, so that it may be expected of
 * doubling them again. NAN where there are too few. */
static double last_doubling(const report_task *task) {
  enum { LEAST = 8 };
  if (task->trials.count < LEAST || !task->best.there) return NAN;
  double half = task->trials.data[task->trials.count / 2 - 1].best;
  double all = task->trials.data[task->trials.count - 1].best;
  return half > 0 ? all / half : (double)NAN;
}

/* Seconds of a run of all that so many trials more take off. */
static double gain_of(const report_task *task, double doubling, int more) {
  return task->weight * task->best.median * (1 - pow(doubling, log2(1 + (double)more / task->trials.count)));
}

/* Each trial of a minute goes where it is expected to bring most, as the tuner gives them away. */
static void look_ahead(report *r) {
  enum { MOST_TRIALS = 20000 };
  double *doublings = TN__NEW_ARRAY(r->arena, r->tasks.count, double);
  for (int i = 0; i < r->tasks.count; i++) {
    doublings[i] = last_doubling(&r->tasks.data[i]);
    r->tasks.data[i].gain = isnan(doublings[i]) ? (double)NAN : 0;
  }
  int trials = (int)fmin(r->per_minute, MOST_TRIALS);
  for (int n = 0; n < trials; n++) {
    report_task *most = NULL;
    double most_gain = 0;
    for (int i = 0; i < r->tasks.count; i++) {
      report_task *task = &r->tasks.data[i];
      if (isnan(doublings[i])) continue;
      double gain = gain_of(task, doublings[i], task->forecast_trials + 1) - task->gain;
      if (gain > most_gain) most = task, most_gain = gain;
    }
    if (most == NULL) break;
    most->forecast_trials++;
    most->gain += most_gain;
    r->gain += most_gain;
  }
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static double share_of(const report_task *task) {
  return task->weight * (task->first.there ? task->first.median : task->best.median);
}

static int by_share(const void *a, const void *b) {
  const report_task *x = a, *y = b;
  if (share_of(x) != share_of(y)) return share_of(x) > share_of(y) ? -1 : 1;
  int names = strcmp(x->name, y->name);
  return names != 0 ? names : strcmp(x->hash, y->hash);
}

static int by_count(const void *a, const void *b) {
  const report_cause *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  if (x->error != y->error) return x->error < y->error ? -1 : 1;
  return strcmp(x->key, y->key);
}

/* Of all tasks that have a time; before tuning only where all of these have one. */
static void add_up(report *r) {
  bool all = true;
  for (int i = 0; i < r->tasks.count; i++) {
    const report_task *task = &r->tasks.data[i];
    if (!task->best.there) continue;
    r->total_best += task->weight * task->best.median;
    r->total_first += task->weight * task->first.median;
    all &= task->first.there;
  }
  if (!all) r->total_first = 0;
}

void tune_report_sum_up(report *r) {
  find_sessions(r);
  find_busy(r);
  for (int i = 0; i < r->tasks.count; i++) {
    report_task *task = &r->tasks.data[i];
    follow(task);
    task->accuracy = accuracy_of(r->arena, task);
    for (int k = 0; k < task->trials.count; k++) {
      report_trial *t = &task->trials.data[k];
      t->elapsed = elapsed_at(session_of(r, t->when), t->when);
    }
  }
  tn__sort(r->tasks.data, (size_t)r->tasks.count, sizeof r->tasks.data[0], by_share);
  if (r->causes.count > 0) qsort(r->causes.data, (size_t)r->causes.count, sizeof r->causes.data[0], by_count);
  add_up(r);
  look_ahead(r);
}
