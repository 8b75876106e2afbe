/* Drivers' devices and what they say of themselves, as attributes of targets: so texts, keys of the cache and what is
 * told have it, and whoever writes it into a target elsewhere gets the same placement and the same kernels. */
#include "driver/nature.h"

#include <string.h>

#include "base/alloc.h"
#include "runtime/plugin/plugin.h"
#include "target/devices/rates.h"
#include "target/text/text.h"

enum { MEGA = 1000000, GIGA = 1000000000 };

static bool is_silent(const tn__target *t) {
  const tn__target_rates *r = &t->rates;
  return r->gflops + r->memory_rate + r->link_rate + r->link_wait + r->launch == 0;
}

static bool has_driver(const tn__target *t) {
  return (t->kind == TN__TARGET_OPENCL || t->kind == TN__TARGET_CUDA) && tn__target_is_gpu(t);
}

static int64_t at_least_one(double rate) { return rate < 1 ? 1 : (int64_t)rate; }

/* Work-items of a GPU's schedule take a CPU long: what they hand over to each other goes through memory, and each waits
 * for all. By measurements on PoCL. */
static void use_cpu(tn__target_rates *r, const tn__device_nature *nature, const tn__target *host) {
  enum { ARITHMETIC = 64, MEMORY = 8 };
  tn__target cpu = *host;
  if (nature->units > 0) cpu.cpu.cores = nature->units;
  const tn__device_rates rates = tn__device_rates_of(&cpu);
  r->gflops = at_least_one(rates.operations / GIGA / ARITHMETIC);
  r->memory_rate = at_least_one(rates.memory / MEGA / MEMORY);
  r->link_rate = at_least_one(rates.memory / MEGA / 2); /* read here and written there */
  r->link_wait = 5000;
  r->launch = 10000;
}

static void use_gpu(tn__target_rates *r, const tn__device_nature *nature, const tn__target *host) {
  enum { OPERATIONS = 2 /* a multiplication and an addition */ };
  const double a_microsecond = (double)nature->units * nature->lanes * nature->megahertz * OPERATIONS;
  if (a_microsecond > 0) r->gflops = at_least_one(a_microsecond / 1000);
  if (nature->memory_rate > 0) r->memory_rate = nature->memory_rate;
  if (!nature->shares_memory) return;
  const double memory = tn__device_rates_of(host).memory / MEGA;
  if (nature->memory_rate == 0) r->memory_rate = at_least_one(memory);
  r->link_rate = at_least_one(memory / 2);
}

static tn_status *ask(const tn__target *target, tn__device_limits *out) {
  const char *name = tn__target_type_name(tn__target_device_type(target));
  tn__device device = {.id = target->device};
  TN_RETURN_IF_ERROR(tn__plugin_driver((DLDeviceType)tn__target_device_type(target), name, &device.driver));
  /* cppcheck-suppress returnDanglingLifetime ; a status keeps no pointer into the device */
  TN_RETURN_IF_ERROR(device.driver->open(&device));
  device.driver->limits(&device, out);
  device.driver->close(&device);
  return NULL;
}

/* One line about the device; the target's rates are filled in. */
static const char *tell_rates(tn__arena *arena, tn__target *target, const tn__device_limits *limits,
                              const tn__target *host, const char *device) {
  const tn__device_nature *nature = &limits->nature;
  if (nature->is_cpu) {
    use_cpu(&target->rates, nature, host);
    return tn__arena_printf(arena,
                            "rates of %s are by its driver, those of %d core%s of this machine, which kernels for GPUs "
                            "use badly (opencl -type=cpu gets others): %s\n",
                            device, nature->units, tn__plural(nature->units), limits->about);
  }
  use_gpu(&target->rates, nature, host);
  return tn__arena_printf(arena, "rates of %s are by its driver, %d units at %d MHz: %s\n", device, nature->units,
                          nature->megahertz, limits->about);
}

static bool says_threads(const tn__target *t) { return tn__target_says(t, offsetof(tn__target, gpu.threads)); }
static bool says_shared(const tn__target *t) { return tn__target_says(t, offsetof(tn__target, gpu.shared_bytes)); }

/* The same of limits that are less than what schedules would count on; "" where there are none. */
static const char *tell_limits(tn__arena *arena, tn__target *target, const tn__device_limits *limits,
                               const char *device) {
  tn__gpu_target *gpu = &target->gpu;
  const tn__gpu_target before = *gpu;
  if (!says_threads(target) && limits->threads_of_block > 0 && limits->threads_of_block < gpu->threads)
    gpu->threads = limits->threads_of_block;
  if (!says_shared(target) && limits->shared_bytes < (size_t)gpu->shared_bytes)
    gpu->shared_bytes = (int)limits->shared_bytes;
  if (gpu->threads == before.threads && gpu->shared_bytes == before.shared_bytes) return "";
  if (gpu->warp > gpu->threads) gpu->warp = gpu->threads;
  return tn__arena_printf(arena,
                          "kernels for %s keep to what its driver says of it, %d threads of a block, which share %d "
                          "bytes: %s\n",
                          device, gpu->threads, gpu->shared_bytes, limits->about);
}

static const char *tell(tn__arena *arena, tn__target *target, const char *device, bool rates, bool kernels) {
  tn__device_limits limits;
  tn__target host;
  rates = rates && is_silent(target);
  kernels = kernels && !(says_threads(target) && says_shared(target));
  if (!has_driver(target) || (!rates && !kernels)) return "";
  tn_status *status = tn__target_native(&host);
  if (status == NULL) status = ask(target, &limits);
  if (status != NULL) {
    const char *line =
        tn__arena_printf(arena, "rates of %s are usual for its kind, as its driver says nothing here: %s\n", device,
                         tn_status_message(status));
    tn_status_free(status);
    return rates ? line : "";
  }
  const char *kept = kernels ? tell_limits(arena, target, &limits, device) : "";
  return rates ? tn__arena_printf(arena, "%s%s", kept, tell_rates(arena, target, &limits, &host, device)) : kept;
}

const char *tn__driver_told_targets(const tn__compile_config *config, bool rates, uint64_t kernels, const char **told) {
  tn__arena *arena = config->cache.arena;
  const char *all = "";
  *told = "";
  for (int i = 0; i < config->devices.count; i++) {
    const tn__virtual_device *device = config->devices.data[i];
    tn__target target = *device->target;
    target.device = device->device_id;
    char text[TN__TARGET_TEXT];
    const char *lines = tell(arena, &target, tn__virtual_device_text(arena, device), rates, (kernels >> i & 1) != 0);
    *told = tn__arena_printf(arena, "%s%s", *told, lines);
    tn__target_print(&target, text);
    all = tn__arena_printf(arena, "%s%s%s", all, i > 0 ? "; " : "", text);
  }
  return all;
}
