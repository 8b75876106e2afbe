/* How fast devices are, in round numbers, for placements by predicted time: what a target's text says of it (`-gflops`,
 * `-memory_rate`, `-link_rate`, `-link_wait`, `-launch`), else, of CPUs, what their machine does, and of others what is
 * usual for their kind. They rank devices; no schedule is chosen by them. */
#ifndef TENON_TARGET_DEVICES_RATES_H
#define TENON_TARGET_DEVICES_RATES_H

#include "target/devices/config.h"

typedef struct tn__device_rates {
  double operations; /* in f32 a second, by all of it */
  double serial;     /* by one thread, of what is done element after element */
  double memory;     /* bytes a second */
  double link;       /* bytes a second between the host's memory and its own; 0: it is the host's */
  double link_wait;  /* seconds until a copy begins */
  double launch;     /* seconds to start a kernel */
} tn__device_rates;

tn__device_rates tn__device_rates_of(const tn__target *target);
/* Seconds to copy so many bytes between two devices: through the host's memory when neither is the host. */
double tn__device_copy_seconds(const tn__compile_config *config, const tn__virtual_device *from,
                               const tn__virtual_device *to, double bytes);
/* Why a device has no numbers of a type: "no numbers of type f64 (-fp64=1 says that it has)"; NULL: it has. */
const char *tn__device_lacks_type(const tn__target *target, tn_dtype dtype);

#endif
