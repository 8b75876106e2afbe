/* Plug-ins for the test of the loader: a driver that has no device, and ones that are of no use, as TRIAL says. */
#include "runtime/plugin/plugin.h"

#define GOOD 0
#define OLD 1
#define NO_ENTRY 2

#ifndef TRIAL
#define TRIAL GOOD
#endif

static tn_status *trial_open(tn__device *device) {
  return tn_status_create(TN_NOT_FOUND, "there is no trial:%d", (int)device->id);
}

static const tn__device_driver driver = {.name = "trial", .type = kDLCUDA, .open = trial_open};

#if TRIAL == NO_ENTRY
TN_API const tn__device_driver *another_function(void);
const tn__device_driver *another_function(void) { return &driver; }
#else
const tn__device_driver *tn_plugin_driver(uint32_t runtime, uint32_t *own) {
  *own = TN__PLUGIN_VERSION + (TRIAL == OLD ? 1 : 0);
  return runtime == *own ? &driver : NULL;
}
#endif
