#include "tune_cli/db_print.h"

#include <stdio.h>
#include <time.h>

#include "base/shown.h"

enum { SHORT_HASH = 12 };

/* "12.3 us", "-" for none. */
static const char *time_text(double seconds, char *out, size_t size) {
  if (seconds <= 0)
    snprintf(out, size, "-");
  else if (seconds < 1e-3)
    snprintf(out, size, "%.4g us", 1e6 * seconds);
  else if (seconds < 1)
    snprintf(out, size, "%.4g ms", 1e3 * seconds);
  else
    snprintf(out, size, "%.4g s", seconds);
  return out;
}

/* In UTC, to the second. */
static const char *when_text(double when, char *out, size_t size) {
  struct tm parts;
  time_t seconds = (time_t)when;
  if (when <= 0 || when > 253402300799.0 || !gmtime_r(&seconds, &parts) ||
      strftime(out, size, "%Y-%m-%d %H:%M:%S", &parts) == 0)
    snprintf(out, size, "-");
  return out;
}

static int64_t failed_of(const tn_task_records *task) { return task->records - task->errors[TN_TRIAL_OK]; }

void tune_db_task_heading(tn__strbuf *out) {
  tn__strbuf_printf(out, "%-12s  %7s  %6s  %10s  %-19s  %-10s  %7s  %s\n", "task", "records", "failed", "best",
                    "last measured (UTC)", "target", "threads", "name");
}

void tune_db_put_task(tn__strbuf *out, const tn_task_records *task) {
  char best[32], last[32];
  tn__strbuf_printf(out, "%-.*s  %7lld  %6lld  %10s  %-19s  %-10s  %7d  ", SHORT_HASH, task->hash,
                    (long long)task->records, (long long)failed_of(task), time_text(task->best, best, sizeof best),
                    when_text(task->last, last, sizeof last), task->kernel->target, task->kernel->threads);
  tn__strbuf_shown(out, task->kernel->name);
  tn__strbuf_char(out, '\n');
}

void tune_db_json_task(tn__strbuf *out, const tn_task_records *task) {
  const tn_tune_task *k = task->kernel;
  tn__strbuf_append(out, "{\"task\": ");
  tn__strbuf_json_string(out, task->hash);
  tn__strbuf_json_text(out, "name", k->name);
  tn__strbuf_json_text(out, "target", k->target);
  tn__strbuf_printf(out, ", \"threads\": %d, \"results_read\": %s, \"dims\": {", k->threads,
                    k->results_read ? "true" : "false");
  for (int i = 0; i < k->dim_count; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    tn__strbuf_json_string(out, k->dims[i]);
    tn__strbuf_printf(out, ": %lld", (long long)k->sizes[i]);
  }
  tn__strbuf_printf(out, "}, \"records\": %lld, \"measurements\": %lld, \"newer\": %lld, \"errors\": {",
                    (long long)task->records, (long long)task->measurements, (long long)task->newer);
  bool first = true;
  for (int e = 0; e < TN_TRIAL_ERRORS; e++) {
    if (task->errors[e] == 0) continue;
    tn__strbuf_printf(out, "%s\"%s\": %lld", first ? "" : ", ", tn_trial_error_name((tn_trial_error)e),
                      (long long)task->errors[e]);
    first = false;
  }
  tn__strbuf_char(out, '}');
  tn__strbuf_json_f64(out, "best", task->best);
  tn__strbuf_json_f64(out, "first", task->first);
  tn__strbuf_json_f64(out, "last", task->last);
  tn__strbuf_char(out, '}');
}

void tune_db_record_heading(tn__strbuf *out) {
  tn__strbuf_printf(out, "%7s  %-12s  %10s  %6s  %-14s  %-8s  %-10s  %-19s  %s\n", "record", "task", "median", "spread",
                    "ended", "verified", "origin", "measured (UTC)", "schedule");
}

static void put_schedule(tn__strbuf *out, const tn_record *record) {
  if (!record->rule[0]) {
    tn__strbuf_append(out, "(a trace)");
    return;
  }
  tn__strbuf_shown(out, record->rule);
  if (record->decisions[0]) tn__strbuf_append(out, ": ");
  tn__strbuf_shown(out, record->decisions);
}

void tune_db_put_record(tn__strbuf *out, const tn_record *record) {
  char median[32], when[32], spread[32] = "-";
  if (record->error == TN_TRIAL_OK) snprintf(spread, sizeof spread, "%.1f %%", 100 * record->spread);
  tn__strbuf_printf(out, "%7lld  %-.*s  %10s  %6s  %-14s  %-8s  %-10s  %-19s  ", (long long)record->id, SHORT_HASH,
                    record->task, time_text(record->median, median, sizeof median), spread,
                    tn_trial_error_name(record->error), record->verified ? "yes" : "no",
                    tn_record_origin_name(record->origin), when_text(record->when, when, sizeof when));
  put_schedule(out, record);
  tn__strbuf_char(out, '\n');
}

static const char *const verdicts[] = {
    [TN_VERDICT_NONE] = "none", [TN_VERDICT_BETTER] = "better", [TN_VERDICT_NOT_BETTER] = "not better"};

void tune_db_json_record(tn__strbuf *out, const tn_record *record) {
  const struct {
    const char *key, *text;
  } texts[] = {{"task", record->task},
               {"name", record->kernel->name},
               {"target", record->kernel->target},
               {"machine", record->machine},
               {"rule", record->rule},
               {"decisions", record->decisions},
               {"trace", record->trace},
               {"origin", tn_record_origin_name(record->origin)},
               {"verdict", verdicts[record->verdict <= TN_VERDICT_NOT_BETTER ? record->verdict : TN_VERDICT_NONE]},
               {"error", tn_trial_error_name(record->error)},
               {"message", record->message},
               {"tenon", record->tenon}};
  tn__strbuf_printf(out, "{\"id\": %lld, \"format\": %d, \"schedule_version\": %d, \"verified\": %s, \"proven\": %s",
                    (long long)record->id, record->format, record->schedule_version,
                    record->verified ? "true" : "false", record->proven ? "true" : "false");
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) tn__strbuf_json_text(out, texts[i].key, texts[i].text);
  tn__strbuf_json_f64(out, "median", record->median);
  tn__strbuf_json_f64(out, "best", record->best);
  tn__strbuf_json_f64(out, "spread", record->spread);
  tn__strbuf_json_f64(out, "build_seconds", record->build_seconds);
  tn__strbuf_json_f64(out, "run_seconds", record->run_seconds);
  tn__strbuf_json_f64(out, "predicted", record->predicted);
  tn__strbuf_json_f64(out, "ratio", record->ratio);
  tn__strbuf_json_f64(out, "when", record->when);
  tn__strbuf_printf(out, ", \"calls\": %lld, \"measurements\": %lld}", (long long)record->calls,
                    (long long)record->measurements);
}

static void put_line(tn__strbuf *out, const char *key, const char *text) {
  tn__strbuf_printf(out, "%-10s", key);
  tn__strbuf_shown(out, text);
  tn__strbuf_char(out, '\n');
}

/* The lines of a text as they are: what commands a terminal is shown. */
static void put_lines(tn__strbuf *out, const char *text) {
  char shown[TN__SHOWN_CHAR];
  bool begin = true;
  for (const char *at = text; *at;) {
    if (begin) tn__strbuf_append(out, "  ");
    begin = *at == '\n';
    if (begin) {
      tn__strbuf_char(out, *at++);
      continue;
    }
    at += tn__shown_char(at, shown);
    tn__strbuf_append(out, shown);
  }
  if (!begin) tn__strbuf_char(out, '\n');
}

static void describe_best(tn__strbuf *out, const tn_record *best) {
  char text[64];
  tn__strbuf_printf(out, "\nbest      %s", time_text(best->median, text, sizeof text));
  tn__strbuf_printf(out, ", spread %.1f %%, measured %lld time%s, %s, by tenon ", 100 * best->spread,
                    (long long)best->measurements, tn__plural(best->measurements),
                    when_text(best->when, text, sizeof text));
  tn__strbuf_shown(out, best->tenon);
  tn__strbuf_char(out, '\n');
  put_line(out, "machine", best->machine);
  if (!best->proven)
    put_line(out, "proven", "no: it comes from another file, and was not measured here yet");
  else if (best->verdict == TN_VERDICT_NONE)
    put_line(out, "verdict", "none: it was not compared with the static choice yet");
  else
    tn__strbuf_printf(out, "verdict   %s: %.3f of the static choice's time\n",
                      best->verdict == TN_VERDICT_BETTER ? "better" : "not better", best->ratio);
  tn__strbuf_printf(out, "%-10s", "schedule");
  put_schedule(out, best);
  tn__strbuf_char(out, '\n');
  put_lines(out, best->trace);
}

void tune_db_describe(tn__strbuf *out, const tn_task_records *task, const tn_record *best) {
  const tn_tune_task *k = task->kernel;
  put_line(out, "task", task->hash);
  put_line(out, "name", k->name);
  tn__strbuf_printf(out, "%-10s%s, %d thread%s%s\n", "target", k->target, k->threads, tn__plural(k->threads),
                    k->results_read ? ", results read soon" : "");
  for (int i = 0; i < k->dim_count; i++) {
    tn__strbuf_printf(out, "%-10s", i == 0 ? "sizes" : "");
    tn__strbuf_shown(out, k->dims[i]);
    tn__strbuf_printf(out, " = %lld\n", (long long)k->sizes[i]);
  }
  tn__strbuf_printf(out, "%-10s%lld, with %lld measurement%s\n", "records", (long long)task->records,
                    (long long)task->measurements, tn__plural(task->measurements));
  for (int e = 0; e < TN_TRIAL_ERRORS; e++)
    if (task->errors[e] > 0)
      tn__strbuf_printf(out, "%-10s%6lld  %s\n", "", (long long)task->errors[e],
                        tn_trial_error_name((tn_trial_error)e));
  tn__strbuf_append(out, "\n");
  put_lines(out, k->declaration);
  if (best)
    describe_best(out, best);
  else
    tn__strbuf_append(out, "\nbest      none was verified yet\n");
}
