/* Who may touch an island's memory. Nobody, until the gate is open, and again when it is closed.
 *
 * With a protection key of the CPU (Intel's and AMD's PKU, 15 keys of a process) the gate is opened for one thread, by
 * writing a register: every other thread of the process still faults. Without one, and for kernels that use several
 * threads, it is opened for the whole process, by changing the pages' protection. */
#ifndef TENON_RUNTIME_ISLAND_GUARD_H
#define TENON_RUNTIME_ISLAND_GUARD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tn__island_guard {
  char *memory;
  size_t bytes;
  int key; /* 0: there is none */
} tn__island_guard;

/* Memory that is mapped without access, and takes a key where one is free. */
tn__island_guard tn__island_guard_begin(char *memory, size_t bytes);
/* Gives the key back; the memory is unmapped already. */
void tn__island_guard_end(tn__island_guard *guard);
/* The first `used` bytes, for this thread `alone` or for all. False: the system refuses, and the gate is closed. */
bool tn__island_guard_open(const tn__island_guard *guard, size_t used, bool alone);
/* With the same arguments. */
void tn__island_guard_close(const tn__island_guard *guard, size_t used, bool alone);

#endif
