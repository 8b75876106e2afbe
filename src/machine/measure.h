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
 * with the threads of `env` what it takes to start them, in a second or two; `target` is this machine's, and `machine`
 * has what is usual for it. machine/settle.h says how numbers come of several measurements, and what `notes` and
 * `disturbed` are. TN_OUT_OF_MEMORY. */
TN_MUST_USE tn_status *tn__machine_measure(const tn__target *target, const tn_kernel_env *env, tn__machine *machine,
                                           tn__strbuf *notes, bool *disturbed);

#endif
