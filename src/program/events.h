/* Events: what orders the devices of a program. The code of a function says in which order things happen; several
 * devices take what is theirs in that order, each in a queue of its own (runtime/queue), and the host goes on
 * meanwhile. Where one needs what another does, or writes what another still reads, an event stands between the two. */
#ifndef TENON_PROGRAM_EVENTS_H
#define TENON_PROGRAM_EVENTS_H

#include "base/arena.h"
#include "runtime/format/format.h"

/* The code of one function, and what it speaks of. */
typedef struct tn__event_code {
  const uint32_t *words;
  int word_count;
  tn__origin_record *origins; /* their words are changed to those of the new code */
  int origin_count;
  const tn__register_record *registers;
  int register_count;
  const tn__operand *operands;
  const int *aliases; /* by output: the input whose buffer it may have, or -1 */
  const uint32_t *kernel_devices;
  int kernel_count;
  int device_count;
  const int *homes; /* by device: the one whose queue works on its memory, itself or one before it */
  bool is_called;   /* by other functions: then it may run again before devices have done what its last run gave them */
} tn__event_code;

typedef struct tn__events {
  const uint32_t *words; /* the code with events */
  int word_count;
  int count; /* of events */
} tn__events;

/* Puts RECORD, AWAIT and HOST_AWAIT into the code, and leaves out what is in order anyway: in one queue, behind an
 * event that was awaited, or behind one of which that follows.
 *
 * The analysis knows memory as cells: pieces of arenas that no buffer divides, and the blocks of other registers. Of
 * each it follows along all paths which kernels and copies may still write or read it. Of the writer that is the
 * last alone, as it waited for all before it. Arena registers at a constant place and such at a scalar's share no
 * memory, nor do two at different scalars.
 *
 * Calls. A function takes memory of a device as that device's queue has it when the call comes to it: what else may be
 * at it was awaited there, so that in the function all before the call is one more thing that this queue did. It gives
 * memory back alike. So a loop whose variables live on a device needs the host for no round of it. What is the host's
 * is passed with nobody at it.
 *
 * Blocks that a session allocates, frees or lays out anew are not its
 * concern: the machine waits for all devices then. */
tn__events tn__prog_plan_events(tn__arena *arena, const tn__event_code *code);

#endif
