/* What a core of this machine does, measured, and who the machine is. */
#ifndef TENON_MACHINE_MEASURE_H
#define TENON_MACHINE_MEASURE_H

#include "target/target.h"

/* Maker, family, model and stepping of the CPU, as its registers tell: "AuthenticAMD 25.17.1"; "aarch64" where there is
 * no more to know. */
void tn__machine_host_name(char *text, size_t size);
/* Measures ports, widths, latency, the clock and the rates of caches and memory on the calling thread, in some tenths
 * of a second; `target` is this machine's. Each is the best of several, so that other work disturbs little, and rounded
 * to its row's step, so that two measurements mostly agree. What is not measured stays as it is. TN_OUT_OF_MEMORY. */
TN_MUST_USE tn_status *tn__machine_measure(const tn__target *target, tn__machine *machine);
/* A value on the geometric grid of `step`; with 1, the nearest whole number, at least 1. */
double tn__machine_round(double value, double step);

#endif
