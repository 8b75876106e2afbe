/* usage: replay_schedules [--threads N] [--target TARGET] MODEL.onnx...
 *
 * Schedules every kernel of each model, prints the trace, replays it on the kernel's declaration, and wants the same
 * trace and, byte for byte, the same loop IR. Says how many kernels there were. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "schedule/rules/choose.h"
#include "unit/schedule_run.h"

typedef struct job {
  const char *path;
  tn_compile_options options;
  int kernels, steps;
} job;

static void replay(tn__compilation *c, tn__unit *unit, job *j) {
  tn__driver *driver = &c->driver;
  tn__schedule *again;
  unit->arena.escape = driver->arena->escape;
  const tn__schedule *s = tn__plan_kernel(&unit->choice, driver->chooser)->schedule;
  const char *trace = schedule_text(s, false), *function = schedule_text(s, true);
  tn_status *status = tn__sched_trace_replay(unit->te, &driver->target, trace, &again);
  if (status != NULL) tn__throw(driver->arena->escape, tn_status_prefix(status, "kernel %s", unit->name));
  if (strcmp(trace, schedule_text(again, false)) != 0)
    tn__throwf(driver->arena->escape, TN_INTERNAL, "kernel %s: replay gives another trace", unit->name);
  if (strcmp(function, schedule_text(again, true)) != 0)
    tn__throwf(driver->arena->escape, TN_INTERNAL, "kernel %s: replay gives other loops", unit->name);
  for (const char *line = strchr(trace, '\n'); line != NULL; line = strchr(line + 1, '\n')) j->steps++;
  j->steps -= 2; /* the head, which was skipped, has a line's end, and so has the last line */
  j->kernels++;
}

static void replay_model(tn__arena *arena, void *user) {
  job *j = user;
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__driver_init(&c->driver, arena, &j->options);
  tn__compilation_front(c, j->path, NULL, 0);
  for (int i = 0; i < c->unit_count; i++)
    if (c->units[i].same_as == i) replay(c, &c->units[i], j);
}

int main(int argc, char **argv) {
  job j = {.options = {.size = sizeof(tn_compile_options), .no_cache = true}};
  int models = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      j.options.run_threads = atoi(argv[++i]);
      continue;
    }
    if (strcmp(argv[i], "--target") == 0 && i + 1 < argc) {
      j.options.target = argv[++i];
      continue;
    }
    j.path = argv[i];
    j.kernels = j.steps = 0;
    tn_status *status = tn__with_arena(NULL, replay_model, &j);
    if (status != NULL) {
      fprintf(stderr, "%s: %s\n", argv[i], tn_status_message(status));
      return 1;
    }
    printf("%s: %d kernels, %d steps replayed\n", argv[i], j.kernels, j.steps);
    if (j.kernels == 0 || j.steps == 0) return 1;
    models++;
  }
  return models > 0 ? 0 : 2;
}
