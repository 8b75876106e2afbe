/* What a machine can do at the most. */
#include "target/limits.h"

#include <string.h>

#include "base/alloc.h"
#include "target/probe.h"
#include "tenon/runtime.h"

static void usual_limits(tn_machine_limits *limits, const tn__target *target) {
  const tn__core *core = &target->cpu.machine.core;
  limits->clock_hz = 1e6 * core->megahertz;
  limits->flops_per_second = limits->clock_hz * 2 * core->fma_bytes / 4;
  limits->l2_bytes_per_second = limits->clock_hz * core->l2_bytes;
  limits->l3_bytes_per_second = limits->clock_hz * core->l3_bytes;
  limits->memory_bytes_per_second = limits->clock_hz * core->memory_bytes;
}

/* Half of a cache is surely in it; four times the last one is not, up to 256 MiB. */
static tn_status *measure_limits(tn_machine_limits *limits, const tn__target *target) {
  const tn__machine *machine = &target->cpu.machine;
  limits->clock_hz = tn__probe_clock();
  limits->flops_per_second = tn__probe_flops(target);
  int64_t outside = 4 * machine->l3_bytes < ((int64_t)256 << 20) ? 4 * machine->l3_bytes : (int64_t)256 << 20;
  int64_t in_l3 = machine->l2_bytes + (machine->l3_bytes / 2 - machine->l2_bytes) / 2;
  TN_RETURN_IF_ERROR(tn__probe_read(machine->l2_bytes / 2, &limits->l2_bytes_per_second));
  TN_RETURN_IF_ERROR(
      tn__probe_read(in_l3 > machine->l2_bytes ? in_l3 : machine->l2_bytes, &limits->l3_bytes_per_second));
  TN_RETURN_IF_ERROR(tn__probe_read(outside, &limits->memory_bytes_per_second));
  limits->measured = limits->flops_per_second > 0;
  return NULL;
}

tn_status *tn__target_limits(const tn__target *target, int threads, tn_machine_limits *out) {
  *out = (tn_machine_limits){.size = sizeof *out,
                             .threads = threads,
                             .l1_bytes = target->cpu.machine.l1_bytes,
                             .l2_bytes = target->cpu.machine.l2_bytes,
                             .l3_bytes = target->cpu.machine.l3_bytes};
  memcpy(out->target, target->name, sizeof out->target);
  usual_limits(out, target);
  return tn__target_runs_here(target) ? measure_limits(out, target) : NULL;
}
