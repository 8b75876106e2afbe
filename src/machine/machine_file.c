#include "machine/machine_file.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define AT(field) .at = offsetof(tn__machine, field), .bytes = sizeof(((tn__machine *)0)->field)
#define KB 1024.0
#define STEP 2

const tn__machine_row tn__machine_rows[] = {
    {"l1_bytes", "bytes", "L1 data cache", AT(l1_bytes), false, 4 * KB, 4 * KB *KB, 0},
    {"l2_bytes", "bytes", "L2 cache of a core", AT(l2_bytes), false, 16 * KB, 1024 * KB *KB, 0},
    {"l3_bytes", "bytes", "L3 cache of a group of cores", AT(l3_bytes), false, 64 * KB, 4096 * KB *KB, 0},
    {"fma_ports", "ports", "that multiply and add", AT(core.fma_ports), false, 1, 16, 1},
    {"fma_bytes", "bytes/cycle", "multiplied and added over all ports", AT(core.fma_bytes), false, 4, 1024, 1},
    {"fma_latency", "cycles", "from operands to result", AT(core.fma_latency), false, 1, 64, 1},
    {"load_ports", "ports", "that load", AT(core.load_ports), false, 1, 16, 1},
    {"load_bytes", "bytes/cycle", "loaded from L1", AT(core.load_bytes), false, 4, 1024, 1},
    {"store_bytes", "bytes/cycle", "stored to L1", AT(core.store_bytes), false, 4, 1024, 1},
    {"shuffle_bytes", "bytes/cycle", "rearranged within vectors", AT(core.shuffle_bytes), false, 4, 1024, 0},
    {"issue", "1/cycle", "instructions started", AT(core.issue), false, 1, 64, 0},
    {"l2_rate", "bytes/cycle", "read from L2", AT(core.l2_bytes), false, 1, 1024, STEP},
    {"l3_rate", "bytes/cycle", "read from L3", AT(core.l3_bytes), false, 1, 1024, STEP},
    {"memory_rate", "bytes/cycle", "read from memory by one core", AT(core.memory_bytes), false, 1, 1024, STEP},
    {"megahertz", "MHz", "clock of a busy core", AT(core.megahertz), false, 1, 100000, STEP},
    {"fill", "share", "of a cache that holds what is used", AT(costs.fill), true, 0.01, 1, 0},
    {"shared_fill", "share", "of the last cache", AT(costs.shared_fill), true, 0.01, 1, 0},
    {"unhidden", "share", "of smaller costs beside the largest", AT(costs.unhidden), true, 0, 1, 0},
    {"crowded", "share", "of other ports beside the busiest", AT(costs.crowded), true, 0, 1, 0},
    {"fewer", "share", "of the cycles to start instructions", AT(costs.fewer), true, 0, 1, 0},
    {"loop_entry", "cycles", "to set up a loop", AT(costs.loop_entry), true, 0, 1e6, 0},
    {"mispredicted", "cycles", "to leave a long loop", AT(costs.mispredicted), true, 0, 1e6, 0},
    {"fork", "cycles", "to start the threads and wait for the last", AT(costs.fork), true, 0, 1e9, STEP},
    {"chunk", "cycles", "to hand a thread a piece of work", AT(costs.chunk), true, 0, 1e9, 0},
    {"l2_wait", "cycles", "until a line comes from L2", AT(costs.l2_wait), true, 0, 1e6, 0},
    {"l3_wait", "cycles", "until a line comes from L3", AT(costs.l3_wait), true, 0, 1e6, 0},
    {"page_miss", "cycles", "of a page beyond the first TLB", AT(costs.page_miss), true, 0, 1e6, 0},
    {"page_walk", "cycles", "of a page beyond the second TLB", AT(costs.page_walk), true, 0, 1e6, 0},
    {"broadcast", "cycles", "of a load port for an element into all lanes", AT(costs.broadcast), true, 0, 100, 0},
    {"half_broadcast", "multiply-adds", "that such a load displaces in half vectors", AT(costs.half_broadcast), true, 0,
     100, 0},
    {"line_bytes", "bytes", "of a cache's line", AT(costs.line_bytes), false, 16, 1024, 0},
    {"l1_sets", "sets", "of lines in L1", AT(costs.l1_sets), false, 1, TN__MOST_L1_SETS, 1},
    {"page_bytes", "bytes", "of a page", AT(costs.page_bytes), false, 1024, 1024 * KB, 1},
    {"l1_pages", "pages", "in the first TLB", AT(costs.l1_pages), false, 1, 1 << 20, STEP},
    {"pages", "pages", "in the second TLB", AT(costs.pages), false, 1, 1 << 20, STEP},
    {"streams", "pages", "that prefetchers follow stores to", AT(costs.streams), false, 1, 1024, 0},
    {"counted_trips", "turns", "of a loop that are predicted to its end", AT(costs.counted_trips), false, 0, 1 << 20,
     0},
    {"memory_cores", "cores", "that memory serves at the full rate of each", AT(costs.memory_cores), false, 1, 1024, 0},
    {0}};

const tn__machine_row *tn__machine_row_named(const char *name) {
  for (const tn__machine_row *row = tn__machine_rows; row->name; row++)
    if (strcmp(row->name, name) == 0) return row;
  return NULL;
}

double tn__machine_get(const tn__machine *machine, const tn__machine_row *row) {
  const char *at = (const char *)machine + row->at;
  if (row->real) return *(const double *)(const void *)at;
  return row->bytes == sizeof(int) ? *(const int *)(const void *)at : (double)*(const int64_t *)(const void *)at;
}

void tn__machine_set(tn__machine *machine, const tn__machine_row *row, double value) {
  char *at = (char *)machine + row->at;
  if (row->real)
    *(double *)(void *)at = value;
  else if (row->bytes == sizeof(int))
    *(int *)(void *)at = (int)(value + 0.5);
  else
    *(int64_t *)(void *)at = (int64_t)(value + 0.5);
}

void tn__machine_print(const tn__machine *machine, tn__arch arch, tn__strbuf *out) {
  tn__strbuf_printf(out, "tenon machine 1\narch %s\n", tn__arch_name(arch));
  for (const tn__machine_row *row = tn__machine_rows; row->name; row++) {
    double value = tn__machine_get(machine, row);
    tn__strbuf_printf(out, "%-24s ", row->name);
    if (row->real)
      tn__strbuf_f64(out, value);
    else
      tn__strbuf_printf(out, "%lld", (long long)value);
    tn__strbuf_printf(out, "  # %s: %s\n", row->unit, row->help);
  }
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

enum { LONGEST_LINE = 256, MOST_ROWS = 128 };

typedef struct reading {
  const char *name;
  int line;
  tn__arch arch;
  tn__machine *machine;
  bool begun;
  locale_t locale;     /* "C", whatever the program's own is */
  int seen[MOST_ROWS]; /* the line of each row */
} reading;

/* The words of a line, up to a comment, four at the most; returns how many. */
TN_MUST_USE static int words_of(char *line, char *words[4]) {
  char *comment = strchr(line, '#'), *rest = NULL;
  int count = 0;
  if (comment) *comment = 0;
  for (char *word = strtok_r(line, " \t\r", &rest); word && count < 4; word = strtok_r(NULL, " \t\r", &rest))
    words[count++] = word;
  return count;
}

static tn_status *read_number(reading *r, const char *name, const char *value) {
  const tn__machine_row *row = tn__machine_row_named(name);
  if (!row)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "%s:%d: a machine has no number \"%s\"; `tenon machine` prints those that there are",
                            r->name, r->line, name);
  int *seen = &r->seen[row - tn__machine_rows];
  if (*seen)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s:%d: %s is in line %d already", r->name, r->line, name, *seen);
  *seen = r->line;
  char *end;
  errno = 0;
  double number = strtod_l(value, &end, r->locale);
  bool digits = isdigit((unsigned char)value[0]) || value[0] == '.';
  if (!digits || value[1] == 'x' || value[1] == 'X' || *end || errno || !(number >= row->low && number <= row->high))
    return tn_status_create(TN_INVALID_ARGUMENT, "%s:%d: %s (%s) is a number from %g to %g, not \"%s\"", r->name,
                            r->line, name, row->unit, row->low, row->high, value);
  if (!row->real && number != (double)(int64_t)number)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s:%d: %s (%s) is a whole number, not \"%s\"", r->name, r->line, name,
                            row->unit, value);
  tn__machine_set(r->machine, row, number);
  return NULL;
}

static tn_status *read_line(reading *r, char *line) {
  char *words[4];
  int count = words_of(line, words);
  if (count == 0) return NULL;
  if (!r->begun) {
    r->begun = count == 3 && !strcmp(words[0], "tenon") && !strcmp(words[1], "machine") && !strcmp(words[2], "1");
    if (r->begun) return NULL;
    return tn_status_create(TN_INVALID_ARGUMENT, "%s:%d: this is no machine file: one begins with \"tenon machine 1\"",
                            r->name, r->line);
  }
  if (count != 2)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s:%d: a line is a name and a number, as in \"l2_bytes 1048576\"",
                            r->name, r->line);
  if (strcmp(words[0], "arch") != 0) return read_number(r, words[0], words[1]);
  if (strcmp(words[1], tn__arch_name(r->arch)) == 0) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "%s:%d: the machine's arch is %s, and code is made for %s", r->name,
                          r->line, words[1], tn__arch_name(r->arch));
}

/* What numbers must be to each other. */
static tn_status *check_together(const reading *r) {
  const tn__machine *m = r->machine;
  if (m->l1_bytes > m->l2_bytes || m->l2_bytes > m->l3_bytes)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "%s: caches grow from level to level, not from l1_bytes %lld to l2_bytes %lld to l3_bytes "
                            "%lld; what the file leaves out is the target's",
                            r->name, (long long)m->l1_bytes, (long long)m->l2_bytes, (long long)m->l3_bytes);
  if (m->core.load_bytes < m->core.load_ports || m->core.fma_bytes < m->core.fma_ports)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "%s: each port does at least one byte a cycle: load_bytes and "
                            "fma_bytes are of all ports together",
                            r->name);
  return NULL;
}

static tn_status *read_lines(reading *r, const char *text, size_t length) {
  for (size_t at = 0; at < length;) {
    const char *end = memchr(text + at, '\n', length - at);
    size_t size = end ? (size_t)(end - text) - at : length - at;
    char line[LONGEST_LINE + 1];
    r->line++;
    if (size > LONGEST_LINE || memchr(text + at, 0, size))
      return tn_status_create(TN_INVALID_ARGUMENT, "%s:%d: this is no machine file: lines are text of at most %d bytes",
                              r->name, r->line, LONGEST_LINE);
    memcpy(line, text + at, size);
    line[size] = 0;
    TN_RETURN_IF_ERROR(read_line(r, line));
    at += size + 1;
  }
  if (!r->begun) return tn_status_create(TN_INVALID_ARGUMENT, "%s: this is no machine file: it is empty", r->name);
  return check_together(r);
}

tn_status *tn__machine_read(const char *name, const char *text, size_t length, tn__arch arch, tn__machine *machine) {
  tn__machine read = *machine;
  reading r = {.name = name, .arch = arch, .machine = &read, .locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
  if (!r.locale) return tn_status_create(TN_OUT_OF_MEMORY, "%s: no memory to read numbers", name);
  tn_status *status = read_lines(&r, text, length);
  freelocale(r.locale);
  if (!status) *machine = read;
  return status;
}
