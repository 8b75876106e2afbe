/* The fingerprint of a machine, as a line of text. Times measured on one machine are not used on another. */
#ifndef TENON_MACHINE_IDENTITY_H
#define TENON_MACHINE_IDENTITY_H

#include <stddef.h>

#include "base/linked.h"

enum { TN__MACHINE_IDENTITY_BYTES = 128 };

/* Maker, family, model and stepping of the CPU, its threads, clock and data caches, and the hypervisor:
 * "GenuineIntel 6.143.8, 2 threads, 2.6 GHz, L1 48 KiB, L2 2048 KiB, L3 105 MiB, KVMKVMKVM". Machines that differ in
 * one of these have different lines; unknown fields are omitted. The line of a machine never changes: the clock is
 * the rounded nominal frequency, not the current one. Files are read below `root`; "" is this machine. */
TN__LINKED void tn__machine_identity(const char *root, char text[TN__MACHINE_IDENTITY_BYTES]);

#endif
