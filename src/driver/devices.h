/* Where the values of a compilation live (docs/devices.md). */
#ifndef TENON_DRIVER_DEVICES_H
#define TENON_DRIVER_DEVICES_H

#include "graph/place/place.h"
#include "kernels/kernels.h"

typedef struct tn__driver_devices tn__driver_devices;

/* The text of the host's target, as it was given. */
const char *tn__driver_host_text(const tn__driver *driver);
/* When the driver has the host's target: what kernels for the others are made with. */
void tn__driver_devices_makers(tn__driver *driver);
/* The devices of a compilation, as far as what is compiled depends on them. */
void tn__driver_hash_devices(const tn__driver *driver, tn__sha256 *hash);
/* Throws what is wrong with the options' targets, host and placements; the default device's target. */
const tn__target *tn__driver_check_devices(tn__arena *arena, const tn_compile_options *options);
/* Throws the same; are the host's kernels C99? */
bool tn__driver_makes_source(tn__arena *arena, const tn_compile_options *options);
/* Reads the same into the driver, and warns. */
void tn__driver_devices_init(tn__driver *driver);
/* Annotates and plans the graphs, tells the plan, and refuses what this version cannot run. `named`: what the models
 * call their values. */
void tn__driver_place(tn__driver *driver, const tn__named_values *named, const char *const *names,
                      tn__graph *const *graphs, int count);
/* Returns whether placement caused a warning: a pattern without nodes, a node that its device cannot run, or an
 * annotation without effect. The caller then skips the cache, so that the next compilation repeats the warning. */
bool tn__driver_warned_of_places(const tn__driver *driver);
/* Once more behind the passes, for the values that they have made. */
void tn__driver_place_again(tn__driver *driver, tn__graph *const *graphs, int count);
/* Notes on values in which memory of their device kernels want them, of those that were built. False: in none. */
bool tn__driver_take_memories(tn__driver *driver, const tn__unit *units, int count);
/* Behind it: plans with these choices, and tells which of them values follow. */
void tn__driver_place_chosen(tn__driver *driver, tn__graph *const *graphs, int count);

#endif
