/* How fast devices are that drivers know and targets do not say (docs/devices.md, "By predicted time"). */
#ifndef TENON_DRIVER_NATURE_H
#define TENON_DRIVER_NATURE_H

#include "target/devices/config.h"

/* The targets of a configuration as a text with semicolons, where devices of OpenCL and CUDA that say nothing of their
 * rates have those that their drivers tell here; `*told` gets a line for each such device, of what its rates are. In
 * the configuration's arena. */
const char *tn__driver_told_targets(const tn__compile_config *config, const char **told);

#endif
