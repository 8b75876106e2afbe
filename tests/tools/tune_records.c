/* Writes tuning records: what a process leaves behind that is killed is the test of tests/python/test_tune_database.py.
 *
 * usage: tune_records DATABASE FIRST COUNT [TASK]
 *
 * Records FIRST to FIRST + COUNT - 1 of task TASK (0), each in a transaction of its own: first it says on standard
 * output that it begins, and when the record was acknowledged its number on a line. What is known is passed over, as a
 * tuner does, with a "-" in front of the number. Every third failed. Errors go to standard error, and the result is
 * 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/database.h"

static int report(tn_status *status) {
  if (status == NULL) return 0;
  fprintf(stderr, "%s\n", tn_status_message(status));
  tn_status_free(status);
  return 1;
}

static void say(const char *text) {
  size_t length = strlen(text);
  if (write(STDOUT_FILENO, text, length) != (ssize_t)length) _exit(1); /* at once: no buffer that dies with it */
}

static tn_status *write_one(tn_database *db, const char *task, long number) {
  static char trace[4096]; /* of the size of real ones, so that records fill pages */
  char decisions[64], line[64];
  bool known, failed = number % 3 == 2;
  size_t used = (size_t)snprintf(trace, sizeof(trace), "trace 1 %016lx\n", (unsigned long)number);
  for (int i = 0; i < 20; i++)
    used += (size_t)snprintf(trace + used, sizeof(trace) - used, "split \"C.i%d\" 0 %ld\n", i, number);
  snprintf(trace + used, sizeof(trace) - used, "end\n");
  snprintf(decisions, sizeof(decisions), "rows %ld", number);
  const tn_record record = {.size = sizeof(record),
                            .task = task,
                            .machine = "a machine",
                            .rule = "contraction",
                            .decisions = decisions,
                            .trace = trace,
                            .origin = TN_ORIGIN_SEARCH,
                            .error = failed ? TN_TRIAL_RUN_TIME : TN_TRIAL_OK,
                            .message = failed ? "signal 11" : "",
                            .median = failed ? 0 : 1e-6 * (double)(number + 1),
                            .calls = 10,
                            .verified = !failed};
  tn_status *status = tn_database_has(db, &record, &known, NULL);
  if (status == NULL && !known) status = tn_database_add(db, &record, false, NULL);
  if (status != NULL) return status;
  snprintf(line, sizeof(line), "%s%ld\n", known ? "-" : "", number);
  say(line);
  return NULL;
}

int main(int argc, char **argv) {
  tn_database *db;
  char hash[TN_TASK_HASH_BYTES], declaration[64];
  if (argc < 4) return 2;
  long first = atol(argv[2]), count = atol(argv[3]);
  snprintf(declaration, sizeof(declaration), "kernel number_%ld", argc > 4 ? atol(argv[4]) : 0);
  const tn_tune_task task = {
      .size = sizeof(task), .name = "written", .declaration = declaration, .target = "x86-64-v3", .threads = 1};
  say("begins\n");
  if (report(tn_database_open(argv[1], NULL, &db))) return 1;
  tn_status *status = tn_database_add_task(db, &task, hash);
  for (long i = 0; i < count && status == NULL; i++) status = write_one(db, hash, first + i);
  tn_database_release(db);
  return report(status);
}
