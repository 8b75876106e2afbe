#include "machine/measure.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "machine/machine_file.h"
#include "machine/ports.h"
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
  const tn__machine_row *row = tn__machine_rows;
  while (strcmp(row->name, name) != 0) row++;
  if (value <= 0) return; /* this build cannot measure it */
  value = tn__machine_round(value, row->step);
  tn__machine_set(machine, row, value < row->low ? row->low : value > row->high ? row->high : value);
}

/* Half of a cache is surely in it; four times the last one is not, up to 256 MiB. */
static tn_status *measure_reading(const tn__target *target, double clock, tn__machine *machine) {
  int64_t outside =
      4 * target->cpu.machine.l3_bytes < ((int64_t)256 << 20) ? 4 * target->cpu.machine.l3_bytes : (int64_t)256 << 20;
  int64_t in_l3 = target->cpu.machine.l2_bytes + (target->cpu.machine.l3_bytes / 2 - target->cpu.machine.l2_bytes) / 2;
  double l2, l3, memory;
  TN_RETURN_IF_ERROR(tn__probe_read(target->cpu.machine.l2_bytes / 2, &l2));
  TN_RETURN_IF_ERROR(tn__probe_read(in_l3 > target->cpu.machine.l2_bytes ? in_l3 : target->cpu.machine.l2_bytes, &l3));
  TN_RETURN_IF_ERROR(tn__probe_read(outside, &memory));
  if (l3 > l2) l3 = l2; /* what is farther is not faster: that was noise */
  if (memory > l3) memory = l3;
  take(machine, "l2_rate", l2 / clock);
  take(machine, "l3_rate", l3 / clock);
  take(machine, "memory_rate", memory / clock);
  return NULL;
}

tn_status *tn__machine_measure(const tn__target *target, tn__machine *machine) {
  tn__machine found = *machine;
  double clock = tn__probe_clock();
  tn__machine_ports ports = tn__machine_ports_of(target);
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
