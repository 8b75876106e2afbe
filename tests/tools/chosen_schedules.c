/* usage: chosen_schedules KERNELS.te...
 *
 * Prints which schedules are chosen for the kernels on the machines of files in the current folder:
 * for each its rule, its decisions, and the start of a digest of its trace, which tells when the same decisions lead to
 * other steps. tools/schedules.py compares that. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "machine/machine_file.h"
#include "schedule/rules/choose.h"
#include "target/text/text.h"
#include "te/text.h"

/* Machines of files, not this one, so that the choice is the same everywhere. */
static const struct machine {
  const char *target, *file;
  tn__schedule_options options;
} machines[] = {
    {"x86-64-v3", "v3.machine", {.threads = 1}},
    {"x86-64-v3", "v3.machine", {.threads = 8, .results_read = true}},
    {"x86-64-v4", "v4.machine", {.threads = 1, .results_read = true}},
    {"x86-64-v4", "v4.machine", {.threads = 16}},
    {"sapphirerapids", "sapphirerapids.machine", {.threads = 1, .results_read = true}},
};

typedef struct job {
  const char *path;
} job;

static void read_machine(tn__arena *arena, const struct machine *m, tn__target *target) {
  tn__file_map map;
  tn__check(arena->escape, tn__target_parse(m->target, target));
  tn__machine machine = target->cpu.row;
  tn__check(arena->escape, tn__file_map_open(m->file, &map));
  tn_status *status = tn__machine_read(m->file, (const char *)map.data, map.size, target->cpu.arch, &machine);
  tn__file_map_close(&map);
  tn__check(arena->escape, status);
  tn__target_use(target, &machine);
}

static void print_plan(const tn__te *te, const struct machine *m) {
  tn__target target;
  tn__arena *arena = tn__ir_arena(tn__te_ir(te));
  read_machine(arena, m, &target);
  tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &m->options);
  const tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
  tn__strbuf text;
  tn__sha256 h;
  char hex[65];
  tn__strbuf_init(&text, NULL);
  tn__sched_trace_print(plan->schedule, &text);
  tn__sha256_init(&h);
  const char *steps = strchr(tn__strbuf_text(&text), '\n'); /* behind the digest of the declaration */
  tn__sha256_update_string(&h, steps != NULL ? steps : "");
  tn__digest digest = tn__sha256_final(&h);
  tn__digest_hex(&digest, hex);
  tn__strbuf_release(&text);
  tn__strbuf_init(&text, NULL);
  tn__plan_print_decisions(plan, &text);
  printf("  %s, %d thread%s%s: %s%s%s; steps %.8s\n", m->target, m->options.threads, m->options.threads > 1 ? "s" : "",
         m->options.results_read ? ", read" : "", plan->rule, text.length > 0 ? ": " : "", tn__strbuf_text(&text), hex);
  tn__strbuf_release(&text);
}

static void print_all(tn__arena *arena, void *user) {
  const job *j = user;
  tn__file_map map;
  tn__te_source *source;
  tn__check(arena->escape, tn__file_map_open(j->path, &map));
  const char *text = tn__arena_strndup(arena, (const char *)map.data, map.size);
  tn__file_map_close(&map);
  tn__check(arena->escape, tn__te_parse(arena, j->path, text, strlen(text), &source));
  for (int i = 0; i < tn__te_kernel_count(source); i++) {
    tn__te *te;
    for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++) {
      tn__check(arena->escape, tn__te_declare(source, i, NULL, 0, tn__ir_create(arena), &te));
      if (m == 0) printf("%s\n", tn__te_name(te));
      print_plan(te, &machines[m]);
    }
  }
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    job j = {argv[i]};
    tn_status *status = tn__with_arena(NULL, print_all, &j);
    if (status == NULL) continue;
    fprintf(stderr, "chosen_schedules: %s\n", tn_status_message(status));
    tn_status_free(status);
    return 1;
  }
  return argc > 1 ? 0 : 2;
}
