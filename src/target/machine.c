/* What this machine can do, and what work needs there at the least: of <tenon/runtime.h>. */
#include "base/alloc.h"
#include "base/arguments.h"
#include "base/filled.h"
#include "target/limits.h"

tn_status *tn_machine_measure(int threads, tn_machine_limits *out) {
  TN__NEED("out", out);
  if (threads < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "tn_machine_measure: threads is %d: it can be 0 (the usual) or more",
                            threads);
  tn__target host;
  tn_machine_limits limits;
  TN_RETURN_IF_ERROR(tn__filled_check("tn_machine_limits", out, sizeof limits));
  TN_RETURN_IF_ERROR(tn__target_native(&host));
  TN_RETURN_IF_ERROR(tn__target_limits(&host, threads > 0 ? threads : tn__target_default_thread_count(), &limits));
  tn__filled_write(out, &limits, sizeof limits);
  return NULL;
}

double tn_machine_roofline(const tn_machine_limits *m, double flops, double bytes, const char **bound) {
  const char *ignored;
  if (bound == NULL) bound = &ignored;
  *bound = "-";
  if (m == NULL || m->size == 0 || !(flops >= 0) || !(bytes >= 0)) return -1;
  double threads = m->threads, rate = m->memory_bytes_per_second;
  const char *place = "memory";
  if (bytes <= (double)m->l3_bytes) rate = m->l3_bytes_per_second * threads, place = "L3";
  if (bytes <= (double)m->l2_bytes * threads) rate = m->l2_bytes_per_second * threads, place = "L2";
  double arithmetic = flops / (m->flops_per_second * threads), memory = bytes / rate;
  *bound = arithmetic > memory ? "arithmetic" : place;
  return arithmetic > memory ? arithmetic : memory;
}
