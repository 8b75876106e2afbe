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

static tn_status *measure_limits(tn_machine_limits *limits, const tn__target *target) {
  tn__reading_rates rates;
  limits->clock_hz = tn__probe_clock();
  limits->flops_per_second = tn__probe_flops(target);
  TN_RETURN_IF_ERROR(tn__probe_reading(&target->cpu.machine, &rates));
  limits->l2_bytes_per_second = rates.l2;
  limits->l3_bytes_per_second = rates.l3;
  limits->memory_bytes_per_second = rates.memory;
  limits->measured = limits->flops_per_second > 0;
  return NULL;
}

tn_machine_limits tn__target_known_limits(const tn__target *target, int threads) {
  tn_machine_limits limits = {.size = sizeof limits,
                              .threads = threads,
                              .l1_bytes = target->cpu.machine.l1_bytes,
                              .l2_bytes = target->cpu.machine.l2_bytes,
                              .l3_bytes = target->cpu.machine.l3_bytes};
  memcpy(limits.target, target->name, sizeof limits.target);
  usual_limits(&limits, target);
  return limits;
}

tn_status *tn__target_limits(const tn__target *target, int threads, tn_machine_limits *out) {
  *out = tn__target_known_limits(target, threads);
  return tn__target_runs_here(target) ? measure_limits(out, target) : NULL;
}
