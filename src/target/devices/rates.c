#include "target/devices/rates.h"

#include "base/alloc.h"
#include "tenon/dlpack.h"

#define NANOSECOND 1e-9
#define MEGABYTE 1e6

/* Discrete GPUs of the middle, on 16 lanes of PCIe 4. */
static const tn__device_rates usual_gpu = {
    .operations = 1e13, .serial = 2e8, .memory = 5e11, .link = 1.6e10, .link_wait = 1e-5, .launch = 5e-6};

static tn__device_rates rates_of_cpu(const tn__target *target) {
  enum { FLOAT_BYTES = 4, OPERATIONS = 2 }; /* a multiplication and an addition */
  const tn__machine *m = &target->cpu.machine;
  double clock = m->core.megahertz * MEGABYTE, cores = tn__target_threads(target);
  double readers = cores < m->costs.memory_cores ? cores : m->costs.memory_cores;
  tn__device_rates r = {.operations = clock * m->core.fma_bytes / FLOAT_BYTES * OPERATIONS * cores,
                        .serial = clock,
                        .memory = clock * m->core.memory_bytes * (readers > 1 ? readers : 1),
                        .launch = 1e-7};
  if (cores > 1) r.launch += m->costs.fork / clock;
  if (target->kind == TN__TARGET_ISLAND) r.link = r.memory / 2, r.link_wait = 1e-6; /* read here and written there */
  if (target->kind == TN__TARGET_OPENCL) r.link = r.memory / 2, r.link_wait = 5e-6, r.launch = 1e-5;
  return r;
}

tn__device_rates tn__device_rates_of(const tn__target *target) {
  const tn__target_rates *said = &target->rates;
  tn__device_rates r = tn__target_is_cpu(target) ? rates_of_cpu(target) : usual_gpu;
  if (said->gflops > 0) r.operations = (double)said->gflops / NANOSECOND;
  if (said->memory_rate > 0) r.memory = (double)said->memory_rate * MEGABYTE;
  if (said->link_rate > 0) r.link = (double)said->link_rate * MEGABYTE;
  if (said->link_wait > 0) r.link_wait = (double)said->link_wait * NANOSECOND;
  if (said->launch > 0) r.launch = (double)said->launch * NANOSECOND;
  return r;
}

/* The memory of a CPU beside the host is the host's. */
static double way_to_host(const tn__virtual_device *device, double bytes) {
  if (device->device_type == kDLCPU) return 0;
  tn__device_rates r = tn__device_rates_of(device->target);
  return r.link_wait + bytes / (r.link > 0 ? r.link : r.memory / 2);
}

double tn__device_copy_seconds(const tn__compile_config *config, const tn__virtual_device *from,
                               const tn__virtual_device *to, double bytes) {
  double seconds = 0;
  if (from == to) return 0;
  if (from != config->host) seconds += way_to_host(from, bytes);
  if (to != config->host) seconds += way_to_host(to, bytes);
  return seconds;
}

const char *tn__device_lacks_type(const tn__target *target, tn_dtype dtype) {
  if (dtype == TN_STRING && !tn__target_may_host(target)) return "no strings";
  if (dtype == TN_F64 && target->kind == TN__TARGET_OPENCL && !target->gpu.fp64)
    return "no numbers of type f64 (-fp64=1 says that it has)";
  return NULL;
}
