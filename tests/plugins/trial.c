/* Plug-ins for the test of the loader: drivers that have no device, and ones that are of no use, as TRIAL says. */
#include <stdio.h>

#include "runtime/plugin/plugin.h"

#define GOOD 0
#define OLD 1
#define NO_ENTRY 2
#define OTHER 3

#ifndef TRIAL
#define TRIAL GOOD
#endif

/* The other plug-in and the program have this name, too, for something else. */
TN_API extern const char *tn_trial_whose;
const char *tn_trial_whose = TRIAL == OTHER ? "the other plug-in's" : "the plug-in's";

static void trial_limits(const tn__device *device, tn__device_limits *out) {
  *out = (tn__device_limits){0};
  snprintf(out->about, sizeof out->about, "%s", tn_trial_whose);
}

static tn_status *trial_open(tn__device *device) {
  return tn_status_create(TN_NOT_FOUND, "there is no trial:%d", (int)device->id);
}

static const tn__device_driver driver = {.name = TRIAL == OTHER ? "other" : "trial",
                                         .type = TRIAL == OTHER ? kDLOpenCL : kDLCUDA,
                                         .open = trial_open,
                                         .limits = trial_limits};

#if TRIAL == NO_ENTRY
TN_API const tn__device_driver *another_function(void);
const tn__device_driver *another_function(void) { return &driver; }
#else
const tn__device_driver *tn_plugin_driver(uint32_t runtime, uint32_t *own) {
  *own = TN__PLUGIN_VERSION + (TRIAL == OLD ? 1 : 0);
  return runtime == *own ? &driver : NULL;
}
#endif
