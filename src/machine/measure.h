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
/* Measures ports, widths, latency, the clock, rates of caches and memory, ways and TLBs on the calling thread, and
 * the start cost of the threads of `env`. Takes one or two seconds. `target` is this machine's; `machine` has the
 * usual values. machine/settle.h explains how several measurements are combined, and defines `notes` and
 * `disturbed`. Returns TN_OUT_OF_MEMORY. */
TN_MUST_USE tn_status *tn__machine_measure(const tn__target *target, const tn_kernel_env *env, tn__machine *machine,
                                           tn__strbuf *notes, bool *disturbed);

#endif
