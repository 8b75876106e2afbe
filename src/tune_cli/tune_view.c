#include "tune_cli/tune_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shown.h"

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

/* ---- what is looked at ------------------------------------------------------------------------------------------- */

static tn_tuner_view look(const tn_tuner *tuner) {
  tn_tuner_view v = {.size = sizeof v};
  tn_status_free(tn_tuner_look(tuner, &v));
  return v;
}

static tn_task_view look_at(const tn_tuner *tuner, int task) {
  tn_task_view v = {.size = sizeof v};
  tn_status_free(tn_tuner_look_at(tuner, task, &v));
  return v;
}

static int64_t failures_of(const tn_task_view *v) {
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
static row *sorted(const tn_tuner *tuner, int count) {
  row *rows = malloc((size_t)count * sizeof *rows);
  for (int i = 0; rows != NULL && i < count; i++) {
    tn_task_view v = look_at(tuner, i);
    rows[i] = (row){i, isfinite(v.static_seconds) ? v.weight * v.static_seconds : 0};
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
static const char *remark_of(const tn_tuner_view *all, const tn_task_view *v) {
  if (v->compared) return v->better ? "" : "  not shown to be faster";
  bool gains = v->best_seconds < v->static_seconds && v->best > 0;
  return gains && !v->better && all->phase == TN_TUNER_DONE ? "  not compared" : "";
}

/* What a task with this time takes of the roofline is told by `tenon explain`. */
static void print_row(const tn_tuner *tuner, const tn_tuner_view *all, const row *r, int name, FILE *out) {
  char first[32], best[32], gain[32] = "";
  tn_task_view v = look_at(tuner, r->task);
  if (isfinite(v.static_seconds) && isfinite(v.best_seconds)) /* in turns, of what is better by that */
    snprintf(gain, sizeof gain, "%.2fx", v.compared && v.better ? 1 / v.ratio : v.static_seconds / v.best_seconds);
  char share[16] = "";
  if (isfinite(all->static_seconds) && all->static_seconds > 0)
    snprintf(share, sizeof share, "%.0f %%", 100 * r->time / all->static_seconds);
  fprintf(out, "  %-*.*s %6g %6s %11s %11s %6s %7lld %6lld%s\n", name, name, v.task->name, v.weight, share,
          print_seconds(v.static_seconds, first), print_seconds(v.best_seconds, best), gain, (long long)v.trials,
          (long long)failures_of(&v), remark_of(all, &v));
}

/* In one line, or, with another separator, in two. */
static void print_state(const tn_tuner_view *v, const char *separator, FILE *out) {
  char before_text[32], after_text[32], left[32];
  fprintf(out, "all kernels %s, static %s", print_seconds(v->best_seconds, after_text),
          print_seconds(v->static_seconds, before_text));
  if (isfinite(v->static_seconds) && v->best_seconds > 0) fprintf(out, " (%.2fx)", v->static_seconds / v->best_seconds);
  fprintf(out, ", overhead %.1f %% and %.0f %% beside", 100 * v->overhead, 100 * v->beside);
  fprintf(out, "%s%lld trials, %.0f a minute; builders %.0f %%, runner %.0f %%", separator, (long long)v->trials,
          v->seconds > 0 ? 60 * (double)v->trials / v->seconds : 0, 100 * v->builder_share, 100 * v->runner_share);
  if (v->phase == TN_TUNER_COMPARES)
    fprintf(out, "; comparing");
  else if (v->phase != TN_TUNER_DONE && isfinite(v->left))
    fprintf(out, "; %s left", print_seconds(fmax(ceil(v->left), 1), left));
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

static void show_table(tune_view *view, const tn_tuner *tuner) {
  tn_tuner_view v = look(tuner);
  int count = v.tasks, shown = count < SHOWN ? count : SHOWN;
  row *rows = sorted(tuner, count);
  clear(view);
  if (rows == NULL) return;
  int name = name_width();
  fputs("\033[?7l", stderr); /* lines that are too long are cut: so many are taken back next time */
  print_head(name, stderr);
  for (int i = 0; i < shown; i++) print_row(tuner, &v, &rows[i], name, stderr);
  view->lines = shown + 3;
  if (shown < count) fprintf(stderr, "  and %d more\n", count - shown), view->lines++;
  print_state(&v, "\n", stderr);
  fputc('\n', stderr);
  if (view->said[0] != 0) fprintf(stderr, "%s\n", view->said), view->lines++;
  fputs("\033[?7h", stderr);
  free(rows);
}

/* Once, above all else. */
static void tell_seeds(tune_view *view, const tn_tuner *tuner) {
  tn_tuner_view v = look(tuner);
  if (v.seeds > 0 && !view->told_seeds)
    fprintf(stderr, "tenon: %d kernel%s begin%s with %lld candidate%s that %s fast for similar ones or elsewhere\n",
            v.seeded, v.seeded == 1 ? "" : "s", v.seeded == 1 ? "s" : "", (long long)v.seeds, v.seeds == 1 ? "" : "s",
            v.seeds == 1 ? "was" : "were");
  view->told_seeds = true;
}

void tune_view_show(tune_view *view, const tn_tuner *tuner) {
  if (view->quiet) return;
  tell_seeds(view, tuner);
  if (view->terminal) {
    show_table(view, tuner);
  } else if (tn__now() - view->last_shown >= SECONDS_APART) {
    tn_tuner_view v = look(tuner);
    view->last_shown = tn__now();
    print_state(&v, "; ", stderr);
    fputc('\n', stderr);
  }
  fflush(stderr);
}

void tune_view_say(tune_view *view, const char *text) {
  snprintf(view->said, sizeof view->said, "%s", text);
  if (view->quiet || !view->terminal) fprintf(stderr, "tenon: %s\n", text);
}

void tune_view_end(tune_view *view) {
  if (!view->quiet) clear(view);
  fflush(stderr);
}

/* ---- in the end -------------------------------------------------------------------------------------------------- */

/* How well candidates were predicted: the means over kernels, by their trials. */
static void print_accuracy(const tn_tuner *tuner, int tasks, FILE *out) {
  double correlation = 0, recall = 0, trials = 0;
  for (int i = 0; i < tasks; i++) {
    tn_task_view v = look_at(tuner, i);
    if (isnan(v.correlation)) continue;
    correlation += (double)v.trials * v.correlation;
    recall += (double)v.trials * v.recall;
    trials += (double)v.trials;
  }
  if (trials > 0)
    fprintf(out,
            "predictions: rank correlation %.2f within kernels; %.0f %% of each one's fastest tenth were among as many "
            "that were predicted fastest\n",
            correlation / trials, 100 * recall / trials);
}

static void print_failures(const tn_tuner *tuner, int tasks, FILE *out) {
  for (int e = TN_TRIAL_OK + 1; e < TN_TRIAL_CANCELLED; e++) {
    int64_t count = 0;
    for (int i = 0; i < tasks; i++) count += look_at(tuner, i).errors[e];
    if (count > 0)
      fprintf(out, "%lld trial%s ended as \"%s\"\n", (long long)count, count == 1 ? "" : "s",
              tn_trial_error_name((tn_trial_error)e));
  }
  for (int i = 0; i < tasks; i++) {
    tn_task_view v = look_at(tuner, i);
    if (v.first_error == NULL) continue;
    tn__strbuf text;
    tn__strbuf_init(&text, NULL);
    tn__strbuf_shown(&text, v.first_error);
    fprintf(out, "  first in %s: %.300s\n", v.task->name, tn__strbuf_text(&text));
    tn__strbuf_release(&text);
  }
}

/* Lists kernels that no budget improves. */
static void print_exhausted(const tn_tuner *tuner, int tasks, FILE *out) {
  for (int i = 0; i < tasks; i++) {
    tn_task_view v = look_at(tuner, i);
    if (!v.exhausted) continue;
    if (v.trials <= 1)
      fprintf(out, "%s: nothing to search: no rule has another schedule for it than the static choice\n", v.task->name);
    else
      fprintf(out, "%s: nothing more to search: all %lld candidates that its rules have are measured\n", v.task->name,
              (long long)v.trials);
  }
}

void tune_print_result(const tn_tuner *tuner, FILE *out) {
  tn_tuner_view v = look(tuner);
  row *rows = sorted(tuner, v.tasks);
  if (rows == NULL) return;
  print_head(MOST_NAME, out);
  for (int i = 0; i < v.tasks; i++) print_row(tuner, &v, &rows[i], MOST_NAME, out);
  print_state(&v, "; ", out);
  fputc('\n', out);
  print_exhausted(tuner, v.tasks, out);
  print_accuracy(tuner, v.tasks, out);
  print_failures(tuner, v.tasks, out);
  free(rows);
}
