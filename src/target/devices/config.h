/* What a compilation is for: the devices that its targets are, the one where operators run unless something else is
 * said, and the host. The rules stand in docs/devices.md; what they came to is printed by `--explain-devices`. */
#ifndef TENON_TARGET_DEVICES_CONFIG_H
#define TENON_TARGET_DEVICES_CONFIG_H

#include "target/devices/device.h"

enum { TN__MOST_TARGETS = 62 }; /* with a host beside them they are bits of a word */

typedef struct tn__compile_config {
  tn__device_cache cache;
  /* By target, in the order given: full, global memory. Ids that nothing says are the least that are left. */
  TN__VEC(const tn__virtual_device *) devices;
  const tn__virtual_device *primitive; /* where operators run that nothing places: the first target's */
  const tn__virtual_device *host;      /* shapes, conditions, lists and strings; the callers' tensors */
  const char *host_rule;               /* by which it was found, in words */
  TN__VEC(const char *) warnings;
} tn__compile_config;

/* `targets`: texts with semicolons between them, NULL: this machine. `host`: a target's text, or NULL. Errors are
 * thrown on the arena's escape: no target, two that are the same or cannot be told apart, hosts that contradict. */
tn__compile_config *tn__compile_config_create(tn__arena *arena, const char *targets, const char *host);
/* The device that a text means: "opencl:0/texture", or with a target's own name "big/texture". A type that several
 * devices have stays open where it names none. TN_NOT_FOUND lists the devices that there are. */
TN_MUST_USE tn_status *tn__compile_config_find(tn__compile_config *config, const char *text,
                                               const tn__virtual_device **out);
/* All fields fixed: of the devices that it may be the default one if it is among them, else the first; NULL: there is
 * none. */
const tn__virtual_device *tn__compile_config_complete(tn__compile_config *config, const tn__virtual_device *device);
/* The place of a full device among those that there are, whatever its scope: the order in which ties are broken. */
int tn__compile_config_rank(const tn__compile_config *config, const tn__virtual_device *device);
/* "cpu:0 (x86-64-v4), opencl:0 (opencl)" */
const char *tn__compile_config_list(tn__compile_config *config);
/* For `--explain-devices`: devices, the default, the host and its rule. */
void tn__compile_config_print(tn__compile_config *config, tn__strbuf *out);

#endif
