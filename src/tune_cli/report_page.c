/* A report as JSON, in the page whose script draws it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report_page.inc.h"
#include "tune_cli/report.h"

enum { MOST_POINTS = 20000 }; /* trials that are drawn, of all tasks; a browser takes longer for more */

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void put_key(tn__strbuf *out, const char *key) { tn__strbuf_printf(out, ", \"%s\": ", key); }

static void put_count(tn__strbuf *out, const char *key, int64_t count) {
  put_key(out, key);
  tn__strbuf_printf(out, "%lld", (long long)count);
}

static void put_truth(tn__strbuf *out, const char *key, bool truth) {
  put_key(out, key);
  tn__strbuf_append(out, truth ? "true" : "false");
}

static double known(double seconds) { return seconds > 0 ? seconds : (double)NAN; }

/* Of a point in a drawing: with as many digits as can be seen. */
static void put_drawn(tn__strbuf *out, double number) {
  char text[32];
  if (!(number > 0)) {
    tn__strbuf_append(out, ",null");
    return;
  }
  snprintf(text, sizeof text, ",%.5g", number);
  tn__strbuf_append(out, text);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* [number, seconds, predicted, best so far, how it is drawn]: 0 as a point, 1 as the static choice, 2 as a failure, 3
 * as one whose result was not compared. One in `apart`, and all that are special. */
static void put_points(tn__strbuf *out, const report_task *task, int apart) {
  bool first = true;
  put_key(out, "points");
  tn__strbuf_char(out, '[');
  for (int i = 0; i < task->trials.count; i++) {
    const report_trial *t = &task->trials.data[i];
    bool last = i + 1 == task->trials.count, is_static = t->origin == TN_ORIGIN_STATIC;
    if (i % apart != 0 && !t->improves && !last && !is_static) continue;
    tn__strbuf_printf(out, "%s[%d", first ? "" : ",", t->number);
    put_drawn(out, t->median);
    put_drawn(out, t->predicted);
    put_drawn(out, t->best);
    tn__strbuf_printf(out, ",%d]", t->error != TN_TRIAL_OK ? 2 : is_static ? 1 : t->verified ? 0 : 3);
    first = false;
  }
  tn__strbuf_char(out, ']');
}

static void put_schedule(tn__strbuf *out, const char *key, const report_schedule *s) {
  put_key(out, key);
  if (!s->there) {
    tn__strbuf_append(out, "null");
    return;
  }
  tn__strbuf_append(out, "{\"rule\": ");
  tn__strbuf_json_string(out, s->rule);
  tn__strbuf_json_text(out, "decisions", s->decisions);
  tn__strbuf_json_text(out, "trace", s->trace);
  tn__strbuf_json_f64(out, "median", s->median);
  tn__strbuf_json_f64(out, "spread", s->spread);
  tn__strbuf_json_f64(out, "predicted", known(s->predicted));
  put_count(out, "measurements", s->measurements);
  tn__strbuf_char(out, '}');
}

/* What the best schedule makes of the machine. A share above 1 is of a roofline that is drawn too low: the machine's
 * numbers are rounded, and its clock may be faster for a while. */
static void put_work(tn__strbuf *out, const report_task *task) {
  const tn__task_work *w = &task->work;
  double seconds = task->best.there && task->best.median > 0 ? task->best.median : (double)NAN;
  double share = w->least > 0 ? w->least / seconds : (double)NAN;
  tn__strbuf_json_f64(out, "gflops", w->flops >= 0 ? 1e-9 * w->flops / seconds : (double)NAN);
  tn__strbuf_json_f64(out, "roofline", share > 1 ? 1 : share);
  put_truth(out, "above", share > 1);
  put_count(out, "candidates", task->candidates);
}

static void put_task(tn__strbuf *out, const report_task *task, int apart) {
  tn__strbuf_append(out, "{\"name\": ");
  tn__strbuf_json_string(out, task->name);
  tn__strbuf_json_text(out, "hash", task->hash);
  tn__strbuf_json_text(out, "target", task->target);
  tn__strbuf_json_text(out, "dims", task->dims);
  tn__strbuf_json_text(out, "declaration", task->declaration);
  put_count(out, "threads", task->threads);
  tn__strbuf_json_f64(out, "weight", task->weight);
  put_count(out, "trials", task->trials.count);
  put_count(out, "failed", task->trials.count - task->timed);
  tn__strbuf_json_f64(out, "correlation", task->accuracy.correlation);
  tn__strbuf_json_f64(out, "recall", task->accuracy.recall);
  put_count(out, "top", task->accuracy.top);
  put_truth(out, "judged", task->judged);
  put_work(out, task);
  tn__strbuf_json_f64(out, "gain", task->gain);
  put_count(out, "forecast_trials", task->forecast_trials);
  put_schedule(out, "static", &task->first);
  put_schedule(out, "best", &task->best);
  put_points(out, task, apart);
  tn__strbuf_char(out, '}');
}

typedef struct step {
  const report_trial *trial;
  int task;
} step;

static int by_time(const void *a, const void *b) {
  const report_trial *x = ((const step *)a)->trial, *y = ((const step *)b)->trial;
  if (x->when != y->when) return x->when < y->when ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* [elapsed, seconds of a run of all tasks], wherever that changes. A task counts with its first time before it had
 * one. */
static void put_latency(tn__strbuf *out, const report *r) {
  TN__VEC(step) steps = {0};
  double *now = TN__NEW_ARRAY(r->arena, r->tasks.count, double), total = 0;
  for (int i = 0; i < r->tasks.count; i++) {
    const report_task *task = &r->tasks.data[i];
    for (int k = 0; k < task->trials.count; k++) {
      const step s = {&task->trials.data[k], i};
      if (!s.trial->improves) continue;
      if (now[i] == 0) total += task->weight * (now[i] = s.trial->median);
      tn__vec_push(r->arena, &steps, s);
    }
  }
  put_key(out, "latency");
  tn__strbuf_char(out, '[');
  if (steps.count > 0) {
    qsort(steps.data, (size_t)steps.count, sizeof(step), by_time);
    tn__strbuf_printf(out, "[0,%.6g]", total);
  }
  for (int i = 0; i < steps.count; i++) {
    const step *s = &steps.data[i];
    double change = r->tasks.data[s->task].weight * (now[s->task] - s->trial->best);
    now[s->task] = s->trial->best;
    total -= change;
    if (change > 0) tn__strbuf_printf(out, ",[%.3f,%.6g]", s->trial->elapsed, total);
  }
  if (steps.count > 0) tn__strbuf_printf(out, ",[%.3f,%.6g]", r->elapsed, total);
  tn__strbuf_char(out, ']');
}

static void put_cause(tn__strbuf *out, const report_cause *cause) {
  tn__strbuf_append(out, "{\"kind\": ");
  tn__strbuf_json_string(out, tn_trial_error_name(cause->error));
  tn__strbuf_json_text(out, "first", cause->first);
  tn__strbuf_json_text(out, "task", cause->task);
  tn__strbuf_json_f64(out, "when", cause->when);
  put_count(out, "count", cause->count);
  put_count(out, "tasks", cause->tasks);
  tn__strbuf_char(out, '}');
}

static void put_times(tn__strbuf *out, const report *r) {
  const double *const bins[] = {r->runner, r->builders};
  static const char *const names[] = {"runner", "builders"};
  tn__strbuf_json_f64(out, "elapsed", r->elapsed);
  tn__strbuf_json_f64(out, "build_seconds", r->build_seconds);
  tn__strbuf_json_f64(out, "run_seconds", r->run_seconds);
  tn__strbuf_json_f64(out, "per_minute", known(r->per_minute));
  for (int i = 0; i < 2; i++) {
    put_key(out, names[i]);
    for (int k = 0; k < REPORT_BINS; k++) tn__strbuf_printf(out, "%c%.3f", k == 0 ? '[' : ',', bins[i][k]);
    tn__strbuf_char(out, ']');
  }
  put_key(out, "sessions");
  for (int i = 0; i < r->sessions.count; i++) {
    const report_session *s = &r->sessions.data[i];
    tn__strbuf_printf(out, "%s[%.3f,%.3f,%.3f,%d]", i == 0 ? "[" : ",", s->elapsed, s->begin, s->end, s->measurements);
  }
  tn__strbuf_char(out, ']');
}

static void put_data(tn__strbuf *out, const report *r) {
  int64_t trials = 0;
  for (int i = 0; i < r->tasks.count; i++) trials += r->tasks.data[i].trials.count;
  int apart = (int)((trials + MOST_POINTS - 1) / MOST_POINTS);
  tn__strbuf_append(out, "{\"tenon\": ");
  tn__strbuf_json_string(out, tn_version());
  tn__strbuf_json_text(out, "database", r->database);
  tn__strbuf_json_text(out, "machine", r->machine);
  put_truth(out, "weighted", r->weighted);
  put_count(out, "trials", trials);
  put_count(out, "apart", apart);
  put_count(out, "newer", r->newer);
  put_count(out, "elsewhere", r->elsewhere);
  tn__strbuf_json_f64(out, "total_static", known(r->total_first));
  tn__strbuf_json_f64(out, "total_best", known(r->total_best));
  tn__strbuf_json_f64(out, "gain", r->gain);
  put_times(out, r);
  put_latency(out, r);
  put_key(out, "untuned");
  tn__strbuf_char(out, '[');
  for (int i = 0; i < r->untuned.count; i++) {
    if (i > 0) tn__strbuf_char(out, ',');
    tn__strbuf_json_string(out, r->untuned.data[i]);
  }
  tn__strbuf_append(out, "],\n\"causes\": [");
  for (int i = 0; i < r->causes.count; i++) {
    if (i > 0) tn__strbuf_append(out, ",\n");
    put_cause(out, &r->causes.data[i]);
  }
  tn__strbuf_printf(out, "], \"more_causes\": %lld,\n\"tasks\": [", (long long)r->more_causes);
  for (int i = 0; i < r->tasks.count; i++) {
    if (i > 0) tn__strbuf_append(out, ",\n");
    put_task(out, &r->tasks.data[i], apart);
  }
  tn__strbuf_append(out, "]}");
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* What would end or change the element that the JSON stands in is only in its strings, where it may be written
 * otherwise. */
static void put_in_page(tn__strbuf *out, const char *json) {
  while (*json != '\0') {
    size_t length = strcspn(json, "<>&");
    tn__strbuf_append_n(out, json, length);
    json += length;
    if (*json != '\0') tn__strbuf_printf(out, "\\u%04x", (unsigned char)*json++);
  }
}

void tune_report_print(const report *r, tn__strbuf *out) {
  static const char mark[] = "@DATA@";
  const char *place = strstr(report_page, mark);
  tn__strbuf json;
  tn__strbuf_init(&json, NULL);
  put_data(&json, r);
  const char *text = tn__arena_take(r->arena, &json);
  tn__strbuf_append_n(out, report_page, (size_t)(place - report_page));
  put_in_page(out, text);
  tn__strbuf_append(out, place + strlen(mark));
}
