/* How many instructions of a kind a core of this machine executes, measured: a few milliseconds each. */
#ifndef TENON_MACHINE_PORTS_H
#define TENON_MACHINE_PORTS_H

#include "target/target.h"

/* Instructions a second of a kind; 0: this build has no code for it. Ports are counted by vectors of 16 bytes, and
 * widths by those of the target. */
typedef struct tn__machine_ports {
  double fma, wide_fma, chained_fma, load, wide_load, wide_store;
} tn__machine_ports;
tn__machine_ports tn__machine_ports_of(const tn__target *target);

#endif
