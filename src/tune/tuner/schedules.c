#include "tune/tuner/schedules.h"

#include "base/shown.h"
#include "tenon/database.h"

int tn__tuner_print_schedules(const tn__tuner *tuner, const char *machine, bool simulated, tn__strbuf *out) {
  int count = 0;
  tn__strbuf_append(out, "tenon schedules 1\n");
  if (simulated) tn__strbuf_append(out, "# simulated: nothing was timed, and no schedule here is known to be faster\n");
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
    tn__strbuf_printf(out, " tenon %s", tn_version());
    if (!simulated) {
      tn__strbuf_append(out, " machine ");
      tn__strbuf_shown(out, machine);
    }
    tn__strbuf_printf(out, "\ntask %s\n%s%s", hash, task->results_read ? "results read\n" : "", best->trace);
    count++;
  }
  return count;
}
