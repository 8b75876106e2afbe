#include "runtime/queue/queue.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/invariant.h"
#include "runtime/pool.h"

typedef enum command_kind { LAUNCH, COPY, RECORD, AWAIT } command_kind;

typedef struct command {
  command_kind kind;
  uint64_t label, order; /* `order`: how many launches and copies were enqueued before, in all queues */
  /* LAUNCH; the lists are slices of `arguments`. */
  tn__device_launch launch;
  /* COPY */
  int to_device, from_device;
  void *to;
  const void *from;
  size_t bytes;
  /* RECORD, AWAIT: the slot, and how often it was recorded up to here. */
  int slot;
  uint64_t times;
} command;

typedef struct queue {
  tn__queues *all;
  tn__stream *stream; /* NULL: nothing comes here */
  int number;
  pthread_t thread;
  bool started;
  pthread_cond_t changed; /* a command came, or the end */
  command ring[TN__QUEUE_DEPTH];
  uint64_t put, executed;                       /* commands ever */
  bool unsettled;                               /* kernels were launched whose results are not known yet */
  uint64_t first_label, last_label, last_order; /* of the first and last launch whose result is not known */
  void *piece;                                  /* TN__COPY_PIECE of the host, for copies from other devices */
} queue;

/* Of a kernel; lists of either kind are arrays of these, as both are as large. */
typedef union argument {
  void *buffer;
  int64_t scalar;
} argument;
_Static_assert(sizeof(void *) == sizeof(int64_t), "lists of arguments are read as lists of either");

typedef struct slot {
  uint64_t recorded; /* by the host, in its order */
  uint64_t reached;
} slot;

/* `mutex` guards what the threads share. A command is written before it is counted in `put`, and its place is free when
 * it is counted in `executed`; the labels and `last_order` are the thread's own. */
struct tn__queues {
  const tn_allocator *allocator;
  tn_allocator copy;
  pthread_mutex_t mutex;
  pthread_cond_t progress; /* a command is done, a slot is reached */
  queue *queues;
  int count;
  slot *slots;
  int slot_count;
  argument *arguments; /* most_arguments of each place of each ring: buffers, then scalars */
  int most_arguments;
  uint64_t enqueued; /* launches and copies, by the host */
  bool ending;
  uint64_t failed_at; /* the order of what failed; NOTHING_FAILED */
  tn__queue_failure failure;
};

#define NOTHING_FAILED UINT64_MAX

static const tn__device_driver *driver_of(const queue *q) { return q->stream->device->driver; }

/* ---- a device's thread ------------------------------------------------------------------------------------------- */

/* Of all failures the first in the program's order is kept. */
static void fail(queue *q, uint64_t order, uint64_t since, uint64_t label, int32_t kernel, tn_status *status) {
  tn__queues *all = q->all;
  pthread_mutex_lock(&all->mutex);
  if (order < all->failed_at) {
    tn_status *later = all->failed_at == NOTHING_FAILED ? NULL : all->failure.status;
    all->failed_at = order;
    all->failure =
        (tn__queue_failure){.device = q->number, .kernel = kernel, .label = label, .since = since, .status = status};
    status = later;
  }
  pthread_mutex_unlock(&all->mutex);
  tn_status_free(status);
}

static tn_status *copy(const queue *q, const command *c) {
  const tn__device_driver *driver = driver_of(q);
  if (c->bytes == 0) return NULL;
  if (c->from_device == TN__QUEUE_HOST) return driver->copy(q->stream, TN__COPY_IN, c->to, c->from, c->bytes);
  if (c->to_device == TN__QUEUE_HOST) return driver->copy(q->stream, TN__COPY_OUT, c->to, c->from, c->bytes);
  tn__stream *from = q->all->queues[c->from_device].stream;
  if (from->device != q->stream->device)
    return tn__device_copy_between(q->stream, c->to, from, c->from, c->bytes, q->piece);
  return driver->copy(q->stream, TN__COPY_WITHIN, c->to, c->from, c->bytes);
}

/* Waits for what was launched, and takes note of a failure. */
static void settle(queue *q) {
  int32_t result = TN_KERNEL_OK;
  tn_status *status = driver_of(q)->wait(q->stream, &result);
  if (status != NULL || result != TN_KERNEL_OK) fail(q, q->last_order, q->first_label, q->last_label, result, status);
}

static bool is_dropped(tn__queues *all, const command *c) {
  pthread_mutex_lock(&all->mutex);
  bool dropped = all->failed_at < c->order || all->ending;
  pthread_mutex_unlock(&all->mutex);
  return dropped;
}

static bool launch(queue *q, const command *c) {
  if (is_dropped(q->all, c)) return false;
  if (c->launch.env != NULL && tn__rt_is_cancelled(c->launch.env)) {
    fail(q, c->order, c->label, c->label, TN_KERNEL_CANCELLED, NULL);
    return false;
  }
  if (!q->unsettled) q->first_label = c->label;
  q->last_label = c->label, q->last_order = c->order;
  tn_status *status = driver_of(q)->launch(q->stream, &c->launch);
  if (status != NULL) {
    fail(q, c->order, c->label, c->label, TN_KERNEL_OK, status);
    return false;
  }
  if (driver_of(q)->synchronous) settle(q);
  return !driver_of(q)->synchronous;
}

static void reach(tn__queues *all, const command *c) {
  pthread_mutex_lock(&all->mutex);
  if (all->slots[c->slot].reached < c->times) all->slots[c->slot].reached = c->times;
  pthread_cond_broadcast(&all->progress);
  pthread_mutex_unlock(&all->mutex);
}

static void hold(tn__queues *all, const command *c) {
  pthread_mutex_lock(&all->mutex);
  while (all->slots[c->slot].reached < c->times && !all->ending) pthread_cond_wait(&all->progress, &all->mutex);
  pthread_mutex_unlock(&all->mutex);
}

/* Returns whether there are kernels now whose results are not known. What others may see, copies and events, comes
 * behind all results, so that nothing that failed is passed on. */
static bool execute(queue *q, const command *c) {
  bool settles = q->unsettled && (c->kind == COPY || c->kind == RECORD);
  if (settles) settle(q);
  switch (c->kind) {
    case LAUNCH: return launch(q, c) || q->unsettled;
    case COPY:
      if (!is_dropped(q->all, c)) {
        tn_status *status = copy(q, c);
        if (status != NULL) fail(q, c->order, c->label, c->label, TN_KERNEL_OK, status);
      }
      break;
    case RECORD: reach(q->all, c); break;
    case AWAIT: hold(q->all, c); break;
  }
  return q->unsettled && !settles;
}

static void *thread_main(void *own) {
  queue *q = own;
  tn__queues *all = q->all;
  pthread_mutex_lock(&all->mutex);
  while (!all->ending) {
    bool has_command = q->executed < q->put;
    if (!has_command && !q->unsettled) {
      pthread_cond_wait(&q->changed, &all->mutex);
      continue;
    }
    pthread_mutex_unlock(&all->mutex);
    bool unsettled = false;
    if (has_command)
      unsettled = execute(q, &q->ring[q->executed % TN__QUEUE_DEPTH]);
    else
      settle(q); /* nothing else to do */
    pthread_mutex_lock(&all->mutex);
    q->executed += has_command;
    q->unsettled = unsettled;
    pthread_cond_broadcast(&all->progress);
  }
  pthread_mutex_unlock(&all->mutex);
  if (q->unsettled) settle(q);
  return NULL;
}

/* ---- the host's side --------------------------------------------------------------------------------------------- */

/* A free place of the ring, which `put` makes a command. */
static command *place(tn__queues *all, int device) {
  TN__INVARIANT(device >= 0 && device < all->count);
  queue *q = &all->queues[device];
  pthread_mutex_lock(&all->mutex);
  while (q->put - q->executed == TN__QUEUE_DEPTH) pthread_cond_wait(&all->progress, &all->mutex);
  pthread_mutex_unlock(&all->mutex);
  return &q->ring[q->put % TN__QUEUE_DEPTH];
}

static void put(tn__queues *all, int device) {
  queue *q = &all->queues[device];
  pthread_mutex_lock(&all->mutex);
  q->put++;
  pthread_cond_signal(&q->changed);
  pthread_mutex_unlock(&all->mutex);
}

void tn__queue_launch(tn__queues *all, int device, const tn__device_launch *launch, uint64_t label) {
  TN__INVARIANT(launch->buffer_count + launch->scalar_count <= (uint32_t)all->most_arguments);
  command *c = place(all, device);
  size_t at = (size_t)device * TN__QUEUE_DEPTH + all->queues[device].put % TN__QUEUE_DEPTH;
  argument *list = all->arguments + at * (size_t)all->most_arguments;
  *c = (command){.kind = LAUNCH, .label = label, .order = all->enqueued++, .launch = *launch};
  c->launch.buffers = &list[0].buffer;
  c->launch.scalars = &list[launch->buffer_count].scalar;
  for (uint32_t i = 0; i < launch->buffer_count; i++) list[i].buffer = launch->buffers[i];
  for (uint32_t i = 0; i < launch->scalar_count; i++) list[launch->buffer_count + i].scalar = launch->scalars[i];
  put(all, device);
}

void tn__queue_copy(tn__queues *all, int to_device, void *to, int from_device, const void *from, size_t bytes,
                    uint64_t label) {
  int device = to_device != TN__QUEUE_HOST ? to_device : from_device;
  *place(all, device) = (command){.kind = COPY,
                                  .label = label,
                                  .order = all->enqueued++,
                                  .to_device = to_device,
                                  .from_device = from_device,
                                  .to = to,
                                  .from = from,
                                  .bytes = bytes};
  put(all, device);
}

static void put_slot(tn__queues *all, int device, command_kind kind, int number) {
  TN__INVARIANT(number >= 0 && number < all->slot_count);
  *place(all, device) = (command){.kind = kind, .slot = number, .times = all->slots[number].recorded};
  put(all, device);
}

void tn__queue_record(tn__queues *all, int device, int number) {
  TN__INVARIANT(number >= 0 && number < all->slot_count);
  all->slots[number].recorded++;
  put_slot(all, device, RECORD, number);
}

void tn__queue_await(tn__queues *all, int device, int number) { put_slot(all, device, AWAIT, number); }

bool tn__queues_await(tn__queues *all, int number) {
  TN__INVARIANT(number >= 0 && number < all->slot_count);
  const command c = {.slot = number, .times = all->slots[number].recorded};
  hold(all, &c);
  pthread_mutex_lock(&all->mutex);
  bool good = all->failed_at == NOTHING_FAILED;
  pthread_mutex_unlock(&all->mutex);
  return good;
}

static void wait_for_all(tn__queues *all) {
  for (int i = 0; i < all->count; i++) {
    const queue *q = &all->queues[i];
    while (q->executed < q->put || q->unsettled) pthread_cond_wait(&all->progress, &all->mutex);
  }
}

void tn__queues_drain(tn__queues *all) {
  pthread_mutex_lock(&all->mutex);
  wait_for_all(all);
  pthread_mutex_unlock(&all->mutex);
}

bool tn__queues_finish(tn__queues *all, tn__queue_failure *failure) {
  pthread_mutex_lock(&all->mutex);
  wait_for_all(all);
  bool good = all->failed_at == NOTHING_FAILED;
  if (!good) *failure = all->failure;
  all->failed_at = NOTHING_FAILED;
  pthread_mutex_unlock(&all->mutex);
  return good;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static tn_status *allocate(tn__queues *all, const tn__queues_options *options) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(all->allocator, (size_t)options->device_count, sizeof(queue), 0, &memory));
  all->queues = memory;
  all->count = options->device_count;
  TN_RETURN_IF_ERROR(tn__alloc(all->allocator, (size_t)options->slot_count, sizeof(slot), 0, &memory));
  all->slots = memory;
  all->slot_count = options->slot_count;
  TN_RETURN_IF_ERROR(tn__alloc(all->allocator, (size_t)all->count * TN__QUEUE_DEPTH * (size_t)all->most_arguments,
                               sizeof(argument), 0, &memory));
  all->arguments = memory;
  int devices = 0;
  for (int i = 0; i < all->count; i++) {
    queue *q = &all->queues[i];
    *q = (queue){.all = all, .stream = options->streams[i], .number = i};
    devices += q->stream != NULL;
    pthread_cond_init(&q->changed, NULL);
  }
  for (int i = 0; i < all->count && devices > 1; i++) { /* touched by copies alone */
    if (all->queues[i].stream == NULL) continue;
    all->queues[i].piece = tn__realloc(all->allocator, NULL, 0, TN__COPY_PIECE, 0);
    if (all->queues[i].piece == NULL)
      return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for copies between devices");
  }
  return NULL;
}

static tn_status *start(tn__queues *all) {
  sigset_t signals, before; /* signals are for the program's own threads */
  sigfillset(&signals);
  pthread_sigmask(SIG_SETMASK, &signals, &before);
  int error = 0, i = 0;
  for (; error == 0 && i < all->count; i++) {
    queue *q = &all->queues[i];
    if (q->stream == NULL) continue;
    error = pthread_create(&q->thread, NULL, thread_main, q);
    q->started = error == 0;
    char name[16]; /* what the kernel keeps of it */
    snprintf(name, sizeof(name), "tenon-%.4s%u", driver_of(q)->name, (unsigned)q->stream->device->id % 10000);
    if (error == 0) pthread_setname_np(q->thread, name);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error == 0) return NULL;
  return tn_status_create(TN_FAILED_PRECONDITION, "the operating system refused thread %d of %d for devices: %s", i,
                          all->count, strerror(error));
}

tn_status *tn__queues_create(const tn__queues_options *options, tn__queues **out) {
  *out = NULL;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(options->allocator, 1, sizeof(tn__queues), 0, &memory));
  tn__queues *all = memory;
  if (options->allocator != NULL) {
    all->copy = *options->allocator;
    all->allocator = &all->copy;
  }
  all->failed_at = NOTHING_FAILED;
  all->most_arguments = options->most_arguments > 0 ? options->most_arguments : 1;
  pthread_mutex_init(&all->mutex, NULL);
  pthread_cond_init(&all->progress, NULL);
  tn_status *status = allocate(all, options);
  if (status == NULL) status = start(all);
  if (status != NULL) {
    tn__queues_release(all);
    return status;
  }
  *out = all;
  return NULL;
}

void tn__queues_release(tn__queues *all) {
  if (all == NULL) return;
  pthread_mutex_lock(&all->mutex);
  all->ending = true;
  for (int i = 0; i < all->count; i++) pthread_cond_signal(&all->queues[i].changed);
  pthread_cond_broadcast(&all->progress);
  pthread_mutex_unlock(&all->mutex);
  for (int i = 0; i < all->count; i++)
    if (all->queues[i].started) pthread_join(all->queues[i].thread, NULL);
  if (all->failed_at != NOTHING_FAILED) tn_status_free(all->failure.status);
  tn_allocator copy = all->copy;
  const tn_allocator *allocator = all->allocator == NULL ? NULL : &copy;
  for (int i = 0; i < all->count; i++) {
    pthread_cond_destroy(&all->queues[i].changed);
    tn__free(allocator, all->queues[i].piece, TN__COPY_PIECE, 0);
  }
  size_t places = (size_t)all->count * TN__QUEUE_DEPTH * (size_t)all->most_arguments;
  tn__free(allocator, all->arguments, places * sizeof(argument), 0);
  tn__free(allocator, all->slots, (size_t)all->slot_count * sizeof(slot), 0);
  tn__free(allocator, all->queues, (size_t)all->count * sizeof(queue), 0);
  pthread_cond_destroy(&all->progress);
  pthread_mutex_destroy(&all->mutex);
  tn__free(allocator, all, sizeof(*all), 0);
}
