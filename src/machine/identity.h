/* Which machine this is, as a line of text: times that were measured on one are not believed on another. */
#ifndef TENON_MACHINE_IDENTITY_H
#define TENON_MACHINE_IDENTITY_H

#include <stddef.h>

#include "base/linked.h"

enum { TN__MACHINE_IDENTITY_BYTES = 128 };

/* Maker, family, model and stepping of the CPU, its threads, clock and data caches, and the hypervisor that it is
 * under: "GenuineIntel 6.143.8, 2 threads, 2.6 GHz, L1 48 KiB, L2 2048 KiB, L3 105 MiB, KVMKVMKVM". Machines that
 * differ in one of these have different lines; what the system does not tell is left out. The same machine has the same
 * line each time: the clock is the one that the system names, rounded, and none that changes. Files are read below
 * `root`; "" is this machine. */
TN__LINKED void tn__machine_identity(const char *root, char text[TN__MACHINE_IDENTITY_BYTES]);

#endif
