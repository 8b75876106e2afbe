/* What a core of this machine does, measured, and who the machine is. */
#ifndef TENON_MACHINE_MEASURE_H
#define TENON_MACHINE_MEASURE_H

#include "base/linked.h"
#include "base/strbuf.h"
#include "target/target.h"
#include "tenon/kernel_abi.h"

/* Maker, family, model and stepping of the CPU, as its registers tell: "AuthenticAMD 25.17.1"; "aarch64" where there is
 * no more to know. */
TN__LINKED void tn__machine_host_name(char *text, size_t size);
/* Measures ports, widths, latency, the clock, the rates of caches and memory, ways and TLBs on the calling thread, and
 * with the threads of `env` what it takes to start them, in some tenths of a second; `target` is this machine's. Each
 * is the best of several, so that other work disturbs little, and rounded to its row's step, so that two measurements
 * mostly agree. What is not measured stays as it is; what should have been and shows nothing does, too, and has a line
 * in `notes`, "# usual: NAMES, as REASON". TN_OUT_OF_MEMORY. */
TN_MUST_USE tn_status *tn__machine_measure(const tn__target *target, const tn_kernel_env *env, tn__machine *machine,
                                           tn__strbuf *notes);
/* A value on the geometric grid of `step`; with 1, the nearest whole number, at least 1. */
double tn__machine_round(double value, double step);

#endif
