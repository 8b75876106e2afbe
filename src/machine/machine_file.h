/* Machine files: what a machine's caches and cores do, as text. One line for each number, "name value", in any order;
 * what a file leaves out is as the target's row of the table has it; "#" begins a comment.
 *
 *   tenon machine 1
 *   arch x86-64
 *   l2_bytes 1048576
 *   fma_bytes 64
 *
 * The same file gives the same schedules everywhere, and so the same bytes. */
#ifndef TENON_MACHINE_MACHINE_FILE_H
#define TENON_MACHINE_MACHINE_FILE_H

#include "base/linked.h"
#include "base/strbuf.h"
#include "target/target.h"

/* A number of a machine. */
typedef struct tn__machine_row {
  const char *name, *unit, *help;
  size_t at, bytes; /* in tn__machine */
  bool real;        /* a double; else an int or int64_t, by its bytes */
  double low, high; /* what it can be */
  double step; /* measurements within this factor of the usual value round to it; 1: whole numbers; 0: not measured */
} tn__machine_row;

extern const tn__machine_row tn__machine_rows[];                           /* ends with a NULL name */
TN__LINKED const tn__machine_row *tn__machine_row_named(const char *name); /* NULL: there is none */
TN__LINKED double tn__machine_get(const tn__machine *machine, const tn__machine_row *row);
TN__LINKED void tn__machine_set(tn__machine *machine, const tn__machine_row *row,
                                double value); /* integers are rounded */

/* Reads a file's text, which may be anything, for a target of `arch`, onto what the table has. `name` is the file's.
 * TN_INVALID_ARGUMENT: "NAME:3: ..." */
TN__LINKED TN_MUST_USE tn_status *tn__machine_read(const char *name, const char *text, size_t length, tn__arch arch,
                                                   tn__machine *machine);
/* All of it, with units and meanings; what reading it gives is the same machine. */
TN__LINKED void tn__machine_print(const tn__machine *machine, tn__arch arch, tn__strbuf *out);

#endif
