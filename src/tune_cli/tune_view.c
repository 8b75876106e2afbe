#include "tune_cli/tune_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shown.h"
#include "tenon/database.h"

enum { SHOWN = 12, SECONDS_APART = 10, LEAST_NAME = 12, MOST_NAME = 32 };

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static const char *print_seconds(double seconds, char text[32]) {
  if (!isfinite(seconds))
    snprintf(text, 32, "-");
  else if (seconds < 1e-6)
    snprintf(text, 32, "%.0f ns", 1e9 * seconds);
  else if (seconds < 1e-3)
    snprintf(text, 32, "%.1f us", 1e6 * seconds);
  else if (seconds < 1)
    snprintf(text, 32, "%.2f ms", 1e3 * seconds);
  else if (seconds < 100)
    snprintf(text, 32, "%.1f s", seconds);
  else
    snprintf(text, 32, "%d min %02d s", (int)(seconds / 60), (int)seconds % 60);
  return text;
}

static int64_t failures_of(const tn__tuner_view *v) {
  int64_t count = 0;
  for (int e = TN_TRIAL_OK + 1; e < TN_TRIAL_CANCELLED; e++) count += v->errors[e];
  return count;
}

typedef struct row {
  int task;
  double time; /* of a run of all */
} row;

static int by_time(const void *a, const void *b) {
  const row *x = a, *y = b;
  if (x->time != y->time) return x->time > y->time ? -1 : 1;
  return x->task - y->task;
}

/* The tasks, those that a run spends most in first; freed by the caller, NULL without memory. */
static row *sorted(const tn__tuner *tuner) {
  int count = tn__tuner_task_count(tuner);
  row *rows = malloc((size_t)count * sizeof *rows);
  for (int i = 0; rows != NULL && i < count; i++) {
    tn__tuner_view v = tn__tuner_view_of(tuner, i);
    rows[i] = (row){i, isfinite(v.static_seconds) ? v.item->weight * v.static_seconds : 0};
  }
  if (rows != NULL) qsort(rows, (size_t)count, sizeof *rows, by_time);
  return rows;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void print_head(int name, FILE *out) {
  fprintf(out, "  %-*s %6s %6s %11s %11s %6s %7s %6s\n", name, "kernel", "calls", "share", "static", "best", "gain",
          "trials", "errors");
}

/* What a gain is worth: one that is only the best of many measurements is mostly luck. */
static const char *remark_of(const tn__tuner *tuner, const tn__tuner_view *v) {
  if (v->compared) return v->better ? "" : "  not shown to be faster";
  bool gains = v->best_seconds < v->static_seconds && v->best->index > 0;
  return gains && !v->better && tn__tuner_is_done(tuner) ? "  not compared" : "";
}

/* What a task with this time takes of the roofline is told by `tenon explain`. */
static void print_row(const tn__tuner *tuner, const row *r, int name, FILE *out) {
  char first[32], best[32], gain[32] = "";
  double before, after;
  tn__tuner_view v = tn__tuner_view_of(tuner, r->task);
  tn__tuner_totals(tuner, &before, &after);
  if (isfinite(v.static_seconds) && isfinite(v.best_seconds)) /* in turns, of what is better by that */
    snprintf(gain, sizeof gain, "%.2fx", v.compared && v.better ? 1 / v.ratio : v.static_seconds / v.best_seconds);
  char share[16] = "";
  if (isfinite(before) && before > 0) snprintf(share, sizeof share, "%.0f %%", 100 * r->time / before);
  fprintf(out, "  %-*.*s %6g %6s %11s %11s %6s %7lld %6lld%s\n", name, name, v.item->task.name, v.item->weight, share,
          print_seconds(v.static_seconds, first), print_seconds(v.best_seconds, best), gain, (long long)v.trials,
          (long long)failures_of(&v), remark_of(tuner, &v));
}

/* In one line, or, with another separator, in two. */
static void print_state(const tn__tuner *tuner, const char *separator, FILE *out) {
  char before_text[32], after_text[32], left[32];
  double before, after;
  tn_measure_statistics s = {.size = sizeof s};
  tn__tuner_totals(tuner, &before, &after);
  tn_status_free(tn__tuner_statistics(tuner, &s));
  fprintf(out, "all kernels %s, static %s", print_seconds(after, after_text), print_seconds(before, before_text));
  if (isfinite(before) && after > 0) fprintf(out, " (%.2fx)", before / after);
  fprintf(out, "%s%lld trials, %.0f a minute; builders %.0f %%, runner %.0f %%", separator, (long long)s.ended,
          s.seconds > 0 ? 60 * (double)s.ended / s.seconds : 0, 100 * s.builder_share, 100 * s.runner_share);
  if (tn__tuner_phase_of(tuner) == TN__TUNER_COMPARING)
    fprintf(out, "; comparing");
  else if (!tn__tuner_is_done(tuner) && isfinite(tn__tuner_time_left(tuner)))
    fprintf(out, "; %s left", print_seconds(fmax(ceil(tn__tuner_time_left(tuner)), 1), left));
}

/* ---- while it works ---------------------------------------------------------------------------------------------- */

void tune_view_begin(tune_view *view, bool quiet) {
  *view = (tune_view){.quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1, .last_shown = tn__now()};
}

static void clear(tune_view *view) {
  if (view->lines > 0) fprintf(stderr, "\033[%dA\r\033[J", view->lines);
  view->lines = 0;
}

/* Of kernels' names, with what the terminal leaves for them. */
static int name_width(void) {
  enum { OTHERS = 64 };
  struct winsize size;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return MOST_NAME;
  int left = size.ws_col - OTHERS;
  return left < LEAST_NAME ? LEAST_NAME : left > MOST_NAME ? MOST_NAME : left;
}

static void show_table(tune_view *view, const tn__tuner *tuner) {
  int count = tn__tuner_task_count(tuner), shown = count < SHOWN ? count : SHOWN;
  row *rows = sorted(tuner);
  clear(view);
  if (rows == NULL) return;
  int name = name_width();
  fputs("\033[?7l", stderr); /* lines that are too long are cut: so many are taken back next time */
  print_head(name, stderr);
  for (int i = 0; i < shown; i++) print_row(tuner, &rows[i], name, stderr);
  view->lines = shown + 3;
  if (shown < count) fprintf(stderr, "  and %d more\n", count - shown), view->lines++;
  print_state(tuner, "\n", stderr);
  fputc('\n', stderr);
  if (view->said[0] != 0) fprintf(stderr, "%s\n", view->said), view->lines++;
  fputs("\033[?7h", stderr);
  free(rows);
}

void tune_view_show(tune_view *view, const tn__tuner *tuner) {
  if (view->quiet) return;
  if (view->terminal) {
    show_table(view, tuner);
  } else if (tn__now() - view->last_shown >= SECONDS_APART) {
    view->last_shown = tn__now();
    print_state(tuner, "; ", stderr);
    fputc('\n', stderr);
  }
  fflush(stderr);
}

void tune_view_say(tune_view *view, const char *text) {
  snprintf(view->said, sizeof view->said, "%s", text);
  if (view->quiet || !view->terminal) fprintf(stderr, "tenon: %s\n", text);
}

void tune_view_end(tune_view *view, const tn__tuner *tuner) {
  (void)tuner;
  if (!view->quiet) clear(view);
  fflush(stderr);
}

/* ---- in the end -------------------------------------------------------------------------------------------------- */

static void print_failures(const tn__tuner *tuner, FILE *out) {
  for (int e = TN_TRIAL_OK + 1; e < TN_TRIAL_CANCELLED; e++) {
    int64_t count = 0;
    for (int i = 0; i < tn__tuner_task_count(tuner); i++) count += tn__tuner_view_of(tuner, i).errors[e];
    if (count > 0)
      fprintf(out, "%lld trial%s ended as \"%s\"\n", (long long)count, count == 1 ? "" : "s",
              tn_trial_error_name((tn_trial_error)e));
  }
  for (int i = 0; i < tn__tuner_task_count(tuner); i++) {
    tn__tuner_view v = tn__tuner_view_of(tuner, i);
    if (v.first_error == NULL) continue;
    tn__strbuf text;
    tn__strbuf_init(&text, NULL);
    tn__strbuf_shown(&text, v.first_error);
    fprintf(out, "  first in %s: %.300s\n", v.item->task.name, tn__strbuf_text(&text));
    tn__strbuf_release(&text);
  }
}

void tune_print_result(const tn__tuner *tuner, FILE *out) {
  row *rows = sorted(tuner);
  if (rows == NULL) return;
  print_head(MOST_NAME, out);
  for (int i = 0; i < tn__tuner_task_count(tuner); i++) print_row(tuner, &rows[i], MOST_NAME, out);
  print_state(tuner, "; ", out);
  fputc('\n', out);
  print_failures(tuner, out);
  free(rows);
}

int tune_print_schedules(const tn__tuner *tuner, tn__strbuf *out) {
  int count = 0;
  tn__strbuf_append(out, "tenon schedules 1\n");
  for (int i = 0; i < tn__tuner_task_count(tuner); i++) {
    char hash[TN_TASK_HASH_BYTES];
    tn__tuner_view v = tn__tuner_view_of(tuner, i);
    const tn_tune_task *task = &v.item->task;
    const tn__proposal *best = v.best;
    if (best == NULL || best->index == 0 || !v.better) continue;
    tn_status_free(tn_tune_task_hash(task, hash));
    tn__strbuf_append(out, "\n# ");
    tn__strbuf_shown(out, task->name);
    tn__strbuf_printf(out, "\ntarget %s threads %d median ", task->target, task->threads);
    tn__strbuf_f64(out, best->median);
    tn__strbuf_printf(out, " tenon %s\ntask %s\n%s%s", tn_version(), hash, task->results_read ? "results read\n" : "",
                      best->trace);
    count++;
  }
  return count;
}
