/* Queues: what the devices of one session do, each in its order, beside each other and beside the host; and events,
 * points in one queue that others wait for.
 *
 * A program on several devices is enqueued in its own order by one thread, the host. Each device has one queue, with a
 * stream of the device (runtime/device.h) and a thread, which takes what is enqueued there in order. Two queues know
 * nothing of each other but events: `record` marks the point behind everything that its queue has so far, and `await`
 * holds its queue until the point that the slot was recorded for last, in the order of the host's calls, is reached.
 * Slots are numbers, given out by whoever plans the program, and may be recorded again and again, in loops say.
 *
 * Copies. From host to device, and within one: in the device's queue. From one device to another: in the queue of
 * the one that gets them, through memory of the host in pieces; where two queues are of one device, within it. To the
 * host: in the queue of the device. The memory at both ends stays as it is until the copy is done: events say so to
 * other queues, `finish` to the host.
 *
 * Failure. A kernel whose result is not TN_KERNEL_OK, or driver that returns a status, stops the program: all queues
 * drop the kernels and copies that were enqueued behind it, so that nothing computes on what was never made; events
 * are still reached, so that nobody hangs. What was enqueued before it goes on, in every queue, and may fail as
 * well: so of several failures it is always the first in the program's order that `finish` tells, once, as one
 * thread alone would. Then the queues can be used again. Of a driver whose launches return early the last launch
 * before it was asked is told. A kernel whose environment says `cancel` does not begin and fails with
 * TN_KERNEL_CANCELLED.
 *
 * Back-pressure. A queue holds TN__QUEUE_DEPTH commands; enqueueing more waits until one is done. As a slot is
 * recorded before it is awaited, in the host's order, that always ends.
 *
 * Threads. One thread enqueues and finishes. The devices' threads have all signals blocked. The order within a
 * queue, and across queues by events, is also that of memory. The outline is that of CUDA's streams and events. */
#ifndef TENON_RUNTIME_QUEUE_QUEUE_H
#define TENON_RUNTIME_QUEUE_QUEUE_H

#include "runtime/device.h"

enum { TN__QUEUE_DEPTH = 256, TN__QUEUE_HOST = -1 };

typedef struct tn__queues tn__queues;

typedef struct tn__queues_options {
  const tn_allocator *allocator; /* NULL: malloc, realloc and free; used by the host's thread alone */
  tn__stream *const *streams;    /* open, and the queues' own while those live; by device. NULL: no queue */
  int device_count;
  int slot_count;     /* events are 0 to slot_count - 1 */
  int most_arguments; /* buffers and scalars of a kernel together, at most */
} tn__queues_options;

/* What stopped a program. */
typedef struct tn__queue_failure {
  int device;     /* whose queue */
  int32_t kernel; /* a kernel's result, or TN_KERNEL_OK: `status` tells */
  uint64_t label; /* of the launch or copy */
  uint64_t since; /* `label`; of a driver whose launches return early that of the first launch that it may have been */
  tn_status *status; /* the caller's; NULL for a kernel's result */
} tn__queue_failure;

/* Starts a thread for each device. */
TN_MUST_USE tn_status *tn__queues_create(const tn__queues_options *options, tn__queues **out);
/* Drops what has not begun, waits for what has, ends the threads. NULL is fine. The streams stay open. */
void tn__queues_release(tn__queues *queues);

/* Lists are read before it returns; `env` and `code` live until the kernel is done. `label` is told when it fails.
 * More arguments than were said: a bug of the caller (an assertion). */
void tn__queue_launch(tn__queues *queues, int device, const tn__device_launch *launch, uint64_t label);
/* `to_device` and `from_device` are numbers of devices, or TN__QUEUE_HOST, but not both that. */
void tn__queue_copy(tn__queues *queues, int to_device, void *to, int from_device, const void *from, size_t bytes,
                    uint64_t label);
void tn__queue_record(tn__queues *queues, int device, int slot);
/* Nothing to wait for where the slot was never recorded. */
void tn__queue_await(tn__queues *queues, int device, int slot);

/* The host waits for the slot's last point, as `await` does. False: something failed, and what the host is about to
 * read may never have been made. */
TN_MUST_USE bool tn__queues_await(tn__queues *queues, int slot);
/* Waits until all queues are empty and their devices are done; a failure stays for `finish` to tell. */
void tn__queues_drain(tn__queues *queues);
/* The same. True: nothing failed since the last time; else `*failure` says what did, first. */
TN_MUST_USE bool tn__queues_finish(tn__queues *queues, tn__queue_failure *failure);

#endif
