#include "machine/measure.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "machine/fork.h"
#include "machine/machine_file.h"
#include "machine/ports.h"
#include "machine/reach.h"
#include "target/cpus.h"
#include "target/probe.h"

void tn__machine_host_name(char *text, size_t size) {
  tn__cpu_id id = tn__host_cpu();
  if (id.maker[0])
    snprintf(text, size, "%s %d.%d.%d", id.maker, id.family, id.model, id.stepping);
  else
    snprintf(text, size, "%s", tn__arch_name(tn__host_arch()));
}

/* No logarithms: the runtime library, which this is in, does without libm. */
double tn__machine_round(double value, double step) {
  if (step <= 1) return value < 1 ? 1 : (double)(int64_t)(value + 0.5);
  double grid = 1;
  while (grid * step <= value) grid *= step;
  while (grid > value) grid /= step;
  return value - grid < grid * step - value ? grid : grid * step;
}

static void take(tn__machine *machine, const char *name, double value) {
  const tn__machine_row *row = tn__machine_row_named(name);
  if (value <= 0) return; /* this build cannot measure it */
  value = tn__machine_round(tn__machine_round(value, row->step), 1);
  tn__machine_set(machine, row, value < row->low ? row->low : value > row->high ? row->high : value);
}

static tn_status *measure_reading(const tn__target *target, double clock, tn__machine *machine) {
  tn__reading_rates rates;
  TN_RETURN_IF_ERROR(tn__probe_reading(&target->cpu.machine, &rates));
  if (rates.l3 > rates.l2) rates.l3 = rates.l2; /* what is farther is not faster: that was noise */
  if (rates.memory > rates.l3) rates.memory = rates.l3;
  take(machine, "l2_rate", rates.l2 / clock);
  take(machine, "l3_rate", rates.l3 / clock);
  take(machine, "memory_rate", rates.memory / clock);
  return NULL;
}

/* Ways that lines of one set show count, if sets come out as caches have them: a power of two. */
static void take_sets(const tn__machine_reach *reach, tn__machine *machine, tn__strbuf *notes) {
  int64_t way = (int64_t)reach->l1_ways * machine->costs.line_bytes;
  int64_t sets = way > 0 && machine->l1_bytes % way == 0 ? machine->l1_bytes / way : 0;
  if (sets > 0 && sets <= TN__MOST_L1_SETS && (sets & (sets - 1)) == 0)
    take(machine, "l1_sets", (double)sets);
  else if (reach->l1_ways > 0)
    tn__strbuf_printf(notes, "# usual: l1_sets, as %d ways, which loads from one set show, do not divide L1\n",
                      reach->l1_ways);
  else
    tn__strbuf_append(notes, "# usual: l1_sets, as loads from one set of L1 show no step\n");
}

static tn_status *measure_reach(double clock, tn__machine *machine, tn__strbuf *notes) {
  tn__machine_reach reach;
  TN_RETURN_IF_ERROR(tn__machine_reach_of(clock, &reach));
  take(machine, "page_bytes", (double)reach.page_bytes);
  take_sets(&reach, machine, notes);
  take(machine, "l1_pages", reach.l1_pages);
  take(machine, "pages", reach.pages);
  if (reach.pages == 0)
    tn__strbuf_printf(notes, "# usual: %spages, as loads from up to %d pages show no %sstep\n",
                      reach.l1_pages == 0 ? "l1_pages and " : "", reach.pages_tried,
                      reach.l1_pages == 0 ? "" : "second ");
  return NULL;
}

static void measure_fork(const tn_kernel_env *env, double clock, tn__machine *machine, tn__strbuf *notes) {
  double seconds = env ? tn__machine_fork(env) : 0;
  take(machine, "fork", seconds * clock);
  if (!env || env->thread_count <= 1)
    tn__strbuf_append(notes, "# usual: fork, as there is one thread\n");
  else if (seconds <= 0)
    tn__strbuf_printf(notes, "# usual: fork, as %d threads seldom ran at the same time\n", (int)env->thread_count);
}

tn_status *tn__machine_measure(const tn__target *target, const tn_kernel_env *env, tn__machine *machine,
                               tn__strbuf *notes) {
  tn__machine found = *machine;
  double clock = tn__probe_clock();
  tn__machine_ports ports = tn__machine_ports_of(target);
  measure_fork(env, clock, &found, notes);
  TN_RETURN_IF_ERROR(measure_reach(clock, &found, notes));
  TN_RETURN_IF_ERROR(measure_reading(target, clock, &found));
  take(&found, "megahertz", clock / 1e6);
  take(&found, "fma_ports", ports.fma / clock);
  take(&found, "fma_bytes", tn__machine_round(ports.wide_fma * 2 / clock, 1) * target->cpu.vector_bytes / 2);
  take(&found, "fma_latency", ports.chained_fma > 0 ? clock / ports.chained_fma : 0);
  take(&found, "load_ports", ports.load / clock);
  take(&found, "load_bytes", tn__machine_round(ports.wide_load * 2 / clock, 1) * target->cpu.vector_bytes / 2);
  take(&found, "store_bytes", tn__machine_round(ports.wide_store * 2 / clock, 1) * target->cpu.vector_bytes / 2);
  if (found.core.load_bytes < found.core.load_ports * 4) found.core.load_bytes = found.core.load_ports * 4;
  if (found.core.fma_bytes < found.core.fma_ports * 4) found.core.fma_bytes = found.core.fma_ports * 4;
  *machine = found;
  return NULL;
}
