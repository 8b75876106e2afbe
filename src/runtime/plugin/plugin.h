/* Plug-ins: drivers of devices in libraries of their own, opened when a program is for such a device, so that the
 * runtime needs none of what they do. The plug-in of the driver NAME is the file tenon-NAME.so.
 *
 * Where. Every folder of $TENON_PLUGIN_PATH, in order; then, seen from the library or program that holds the runtime:
 * its own folder, `tenon` in it, and ../lib/tenon, also with what this build installs libraries to in place of lib.
 * The first file that is there is the one; that it cannot be opened is an error.
 *
 * What a plug-in is. A shared library with one function, `tn_plugin_driver`. It is opened RTLD_LOCAL: neither the
 * runtime nor another library sees its names, nor it the runtime's, which a program may hold without exporting
 * anything. It brings what it needs of the runtime's rooms itself, and what crosses the border is data: the table of
 * device.h, and statuses, which any copy of base/status.c may free. That holds for one release and one layout of
 * those, so both sides tell their version, and differing ones are refused.
 *
 * Threads. May be called from several at once; what is opened twice is one, and stays until the process ends: not every
 * library under a driver can be unloaded. */
#ifndef TENON_RUNTIME_PLUGIN_PLUGIN_H
#define TENON_RUNTIME_PLUGIN_PLUGIN_H

#include "base/linked.h"
#include "runtime/device.h"

/* Raised with each change of device.h or of statuses; a new release counts anyway. */
#define TN__PLUGIN_LAYOUT 5
#define TN__PLUGIN_VERSION ((uint32_t)TN_VERSION * 1000u + TN__PLUGIN_LAYOUT)

/* A plug-in's one function. `runtime` is the runtime's TN__PLUGIN_VERSION, and `*own` becomes the plug-in's; NULL when
 * they differ. The driver lives as long as the process. */
TN_API const tn__device_driver *tn_plugin_driver(uint32_t runtime, uint32_t *own);

/* The driver NAME from its plug-in, for devices of `type`. NOT_FOUND when there is no plug-in, FAILED_PRECONDITION when
 * it is of no use here. Whether there is a device says the driver's `open`. */
TN__LINKED TN_MUST_USE tn_status *tn__plugin_driver(DLDeviceType type, const char *name, const tn__device_driver **out);

#endif
