#include "machine/measure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "machine/fork.h"
#include "machine/machine_file.h"
#include "machine/ports.h"
#include "machine/reach.h"
#include "machine/settle.h"
#include "machine/waiting.h"
#include "target/cpus.h"
#include "target/probe.h"

void tn__machine_host_name(char *text, size_t size) {
  tn__cpu_id id = tn__host_cpu();
  if (id.maker[0])
    snprintf(text, size, "%s %d.%d.%d", id.maker, id.family, id.model, id.stepping);
  else
    snprintf(text, size, "%s", tn__arch_name(tn__host_arch()));
}

/* ---- one reading ------------------------------------------------------------------------------------------------- */

typedef struct meter {
  const tn__target *target;
  const tn_kernel_env *env;
  const tn__machine *usual;
} meter;

static int index_of(const char *name) { return (int)(tn__machine_row_named(name) - tn__machine_rows); }

static void see(tn__machine_reading *out, const char *name, double value) { out->value[index_of(name)] = value; }

static void see_nothing(tn__machine_reading *out, const char *name, const char *format, ...) TN_PRINTF(3, 4);
static void see_nothing(tn__machine_reading *out, const char *name, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(out->why[index_of(name)], sizeof out->why[0], format, args);
  va_end(args);
}

static tn_status *read_rates(const meter *m, double clock, tn__machine_reading *out) {
  tn__reading_rates rates;
  TN_RETURN_IF_ERROR(tn__probe_reading(m->usual, &rates));
  if (rates.l3 > rates.l2) rates.l3 = rates.l2; /* what is farther is not faster: that was noise */
  if (rates.memory > rates.l3) rates.memory = rates.l3;
  see(out, "l2_rate", rates.l2 / clock);
  see(out, "l3_rate", rates.l3 / clock);
  see(out, "memory_rate", rates.memory / clock);
  return NULL;
}

/* Ways that lines of one set show count, if sets come out as caches have them: a power of two. */
static void read_sets(const meter *m, const tn__machine_reach *reach, tn__machine_reading *out) {
  int64_t way = (int64_t)reach->l1_ways * m->usual->costs.line_bytes;
  int64_t sets = way > 0 && m->usual->l1_bytes % way == 0 ? m->usual->l1_bytes / way : 0;
  if (sets > 0 && sets <= TN__MOST_L1_SETS && (sets & (sets - 1)) == 0)
    see(out, "l1_sets", (double)sets);
  else if (reach->l1_ways > 0)
    see_nothing(out, "l1_sets", "%d ways, which loads from one set show, do not divide L1", reach->l1_ways);
  else
    see_nothing(out, "l1_sets", "loads from one set of L1 show no step");
}

static tn_status *read_reach(const meter *m, double clock, tn__machine_reading *out) {
  tn__machine_reach reach;
  TN_RETURN_IF_ERROR(tn__machine_reach_of(clock, &reach));
  see(out, "page_bytes", (double)reach.page_bytes);
  read_sets(m, &reach, out);
  see(out, "l1_pages", reach.l1_pages);
  see(out, "pages", reach.pages);
  see_nothing(out, "l1_pages", "loads from up to %d pages show no step", reach.pages_tried);
  see_nothing(out, "pages", "loads from up to %d pages show no second step", reach.pages_tried);
  return NULL;
}

static void read_fork(const meter *m, double clock, tn__machine_reading *out) {
  double seconds = m->env ? tn__machine_fork(m->env) : 0;
  see(out, "fork", seconds * clock);
  bool alone = !m->env || m->env->thread_count <= 1;
  out->disturbed |= !alone && seconds <= 0;
  if (alone)
    see_nothing(out, "fork", "there is one thread");
  else
    see_nothing(out, "fork", "%d threads seldom ran at the same time", (int)m->env->thread_count);
}

/* Returns bytes per cycle of whole-vector instructions, for a core that issues a number of half vectors. */
static double bytes_of(const meter *m, double rate, double clock) {
  return rate <= 0 ? 0 : tn__machine_band(rate * 2 / clock, 1, 1) * m->target->cpu.vector_bytes / 2;
}

static tn_status *read_all(void *user, tn__machine_reading *out) {
  const meter *m = user;
  tn__waiting before = tn__waiting_now();
  double clock = tn__probe_clock();
  tn__machine_ports ports = tn__machine_ports_of(m->target);
  read_fork(m, clock, out);
  TN_RETURN_IF_ERROR(read_reach(m, clock, out));
  TN_RETURN_IF_ERROR(read_rates(m, clock, out));
  see(out, "megahertz", clock / 1e6);
  see(out, "fma_ports", ports.fma > 0 ? tn__machine_band(ports.fma / clock, 1, 1) : 0);
  see(out, "fma_bytes", bytes_of(m, ports.wide_fma, clock));
  see(out, "fma_latency", ports.chained_fma > 0 ? clock / ports.chained_fma : 0);
  see(out, "load_ports", ports.load > 0 ? tn__machine_band(ports.load / clock, 1, 1) : 0);
  see(out, "load_bytes", bytes_of(m, ports.wide_load, clock));
  see(out, "store_bytes", bytes_of(m, ports.wide_store, clock));
  out->waited = tn__waiting_since(&before);
  return NULL;
}

tn_status *tn__machine_measure(const tn__target *target, const tn_kernel_env *env, tn__machine *machine,
                               tn__strbuf *notes, bool *disturbed) {
  tn__machine found = *machine;
  meter m = {.target = target, .env = env, .usual = machine};
  TN_RETURN_IF_ERROR(tn__machine_settle(&(tn__machine_meter){&m, read_all}, &found, notes, disturbed));
  *machine = found;
  return NULL;
}
