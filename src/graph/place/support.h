/* Which devices can run an operator: its kind and the types of its elements against what the target's generator has.
 * What a device cannot run falls to another one (docs/devices.md). */
#ifndef TENON_GRAPH_PLACE_SUPPORT_H
#define TENON_GRAPH_PLACE_SUPPORT_H

#include "graph/graph.h"
#include "target/devices/config.h"

#define TN__EVERY_DEVICE UINT64_MAX

/* Is it about lists or strings, or done by the machine itself, which only the host does? */
bool tn__place_is_of_host(const tn__node *node);
/* Bits of those that can run the node, by rank (config.h); TN__EVERY_DEVICE: all. */
uint64_t tn__place_devices_of(tn__compile_config *config, const tn__node *node);
static inline uint64_t tn__place_bit(const tn__compile_config *config, const tn__virtual_device *device) {
  return UINT64_C(1) << tn__compile_config_rank(config, device);
}
/* In words why the device cannot run it: "no numbers of type f64 (...)"; NULL: it can. */
const char *tn__place_lacks(tn__compile_config *config, const tn__node *node, const tn__virtual_device *device);
/* "cpu:0, cuda:0", in the order of targets; "" without any. */
const char *tn__place_list(tn__compile_config *config, uint64_t devices);
/* The first of some devices, in the order of targets, that agrees with what is known of a place; NULL: none does. The
 * place may be NULL: anywhere. */
const tn__virtual_device *tn__place_first(tn__compile_config *config, uint64_t devices,
                                          const tn__virtual_device *place);

#endif
