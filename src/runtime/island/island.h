/* Islands: devices that are this machine's CPU, with memory that nobody else may touch. They make a program's copies
 * and order testable at full speed: with eight islands any placement of a program runs on any machine.
 *
 * Checked (`tn__device_island`). An island's memory has no access but while the island works: its kernels, and copies
 * from and to it. Islands with one `turn` work one at a time, so that a kernel that is given the memory of
 * another island, or of one whose copy is missing, is a fault (SIGSEGV) and not luck. The host cannot read it either;
 * with protection keys of the CPU not even while the island works (guard.h).
 *
 * Concurrent (`tn__device_island_concurrent`). The same without protection: islands work at the same time, each in the
 * thread of its queue. The same program gives the same results to the bit.
 *
 * Numbers of islands go from 0 to TN__ISLAND_MOST - 1, and two that are open with one number are two islands. Each has
 * TN__ISLAND_BYTES of address space, of which only what is touched takes memory, and as its second memory, "texture",
 * TN__ISLAND_TEXTURE_BYTES elsewhere, with pages of their own. Kernels read and write both. Launches return when the
 * kernel is done, and what kernels do in parallel runs on the threads of the environment that they get. */
#ifndef TENON_RUNTIME_ISLAND_ISLAND_H
#define TENON_RUNTIME_ISLAND_ISLAND_H

#include "runtime/device.h"

enum { TN__ISLAND_MOST = 256 };
#define TN__ISLAND_BYTES ((size_t)1 << 32)
#define TN__ISLAND_TEXTURE_BYTES ((size_t)1 << 28)

/* The memory of the island that the address lies in; TN__MEMORY_SCOPES: none. */
tn__memory_scope tn__island_scope_of(const tn__device *device, const void *address);

#endif
