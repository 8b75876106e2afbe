/* What drivers know of devices and targets do not say: how fast they are (docs/devices.md, "By predicted time"), and
 * how large blocks of threads may be (docs/targets.md). */
#ifndef TENON_DRIVER_NATURE_H
#define TENON_DRIVER_NATURE_H

#include "target/devices/config.h"

/* The targets of a configuration as a text with semicolons, where devices of OpenCL and CUDA have what their drivers
 * tell here and their texts do not: with `rates`, how fast they are; those of `kernels`, bits by rank, limits of blocks
 * that are less than what is usual for the kind. `*told` gets a line about what was added to each; "" where nothing is.
 * In the configuration's arena. */
const char *tn__driver_told_targets(const tn__compile_config *config, bool rates, uint64_t kernels, const char **told);

#endif
