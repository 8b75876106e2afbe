/* The devices of an executable, open: once for all sessions on it, with its code loaded and its constants there. The
 * first session opens them, and they stay open until the executable is released, however sessions come and go. What a
 * session has of its own are streams (runtime/device.h) and the memory that it takes.
 *
 * Devices that are the host itself are not among them: a session's memory there is its allocator's, and code and
 * constants are where the file is mapped. There constants stay also for devices that can read the host's memory. Of
 * several numbers that are one device, by a map of devices, the first opens it for all, and what each of them has of a
 * constant is there once.
 *
 * Failure. All of them are open, or none. When a driver failed in a way that its device may not outlive (a device that
 * is gone), whoever met that says so: sessions that are there keep what they have, and the next one opens all anew.
 *
 * Memory. What is given back is kept for whoever wants as much next, of all sessions, up to a quarter of what there is,
 * and up to 256 MiB of what is the host's. When a device has no more, or the executable may have no more of it
 * (tn_load_options.memory), what is kept goes back to it, once, and only then is it out of memory. Where there is a
 * limit, somebody who wants less gets none of it: what fits into the limit does so whatever ran before. Devices that
 * take turns keep nothing: programs are checked on them, and what was there before is not to be read by luck.
 *
 * Threads. All functions may be called from several threads at once. A lock of the executable's is held while devices
 * open and memory comes and goes. */
#ifndef TENON_RUNTIME_EXECUTABLE_OPENED_H
#define TENON_RUNTIME_EXECUTABLE_OPENED_H

#include <stdatomic.h>

#include "runtime/executable/executable.h"

/* What all sessions on an executable have of a device, and may have, in bytes; `most` 0: what there is. */
struct tn__opened_limit {
  uint64_t most;
  atomic_uint_fast64_t used;
};

typedef struct tn__opened_spare {
  void *memory;
  size_t bytes;
} tn__opened_spare;

/* Of one device, in bytes, what is kept for later. */
typedef struct tn__opened_memory {
  size_t spare, most_spare;
  tn__opened_spare spares[32];
  uint32_t spare_count;
} tn__opened_memory;

/* Device memory allocated for a caller's tensor. */
typedef struct tn__opened_tensor {
  struct tn__opened_tensor *next;
  void *memory;
  size_t bytes;
} tn__opened_tensor;

typedef struct tn__opened_device {
  tn__opened_tensor *tensors; /* tensors held by callers; the executable's lock guards the list */
  tn__device device;          /* without a driver: not open, or an alias of `number` */
  bool is_memory;             /* a second memory of an earlier device, which opens and closes it */
  tn__device_code code;
  tn__opened_memory memory;
  uint32_t number; /* of that one, mostly its own */
} tn__opened_device;

typedef struct tn__opened_constant {
  void *memory;     /* NULL: it is read in the host's memory, by the host */
  size_t bytes;     /* of the device's own memory; 0: it is the host's, lent to the device, or another constant's */
  bool is_anothers; /* of a number that is the same device, whose memory it is */
} tn__opened_constant;

typedef struct tn__opened {
  const tn_executable *exe;
  uint32_t users;                 /* sessions */
  atomic_bool failed;             /* no session more is to use them */
  pthread_mutex_t turn;           /* of devices that take turns */
  bool takes_turns;               /* there are such */
  tn__opened_device *list;        /* by number */
  tn__opened_constant *constants; /* by number: where they are on their devices */
} tn__opened;

/* `exe` runs on several devices. */
TN_MUST_USE tn_status *tn__opened_take(const tn_executable *exe, tn__opened **out);
void tn__opened_give_back(tn__opened *devices);
/* A driver's function gave the status, which is not NULL. */
void tn__opened_failed(tn__opened *devices, const tn_status *status);

/* The device with the number, open; NULL: it is the host. */
static inline tn__opened_device *tn__opened_at(tn__opened *devices, uint32_t number) {
  tn__opened_device *d = &devices->list[devices->list[number].number];
  return d->device.driver == NULL ? NULL : d;
}

/* `bytes` bytes at least, and `most` at most; *bytes becomes what it is. */
TN_MUST_USE tn_status *tn__opened_memory_take(tn__opened *devices, tn__opened_device *device, size_t *bytes,
                                              size_t most, void **out);
/* All streams have done what they were asked to do with it. */
void tn__opened_memory_give_back(tn__opened *devices, tn__opened_device *device, void *memory, size_t bytes);

/* Allocates at least `bytes` bytes for a caller, until tn__opened_tensor_give_back(). Fills in `tensor`, which is
 * linked into a list and must not move. */
TN_MUST_USE tn_status *tn__opened_tensor_take(tn__opened *devices, tn__opened_device *device, size_t bytes,
                                              tn__opened_tensor *tensor);
void tn__opened_tensor_give_back(tn__opened *devices, tn__opened_device *device, tn__opened_tensor *tensor);

/* Checks that the bytes of `what`, such as "input "x"", which a caller passes as the device's, lie in one allocation
 * there. Memory from outside this executable is checked only if the driver tracks it. */
TN_MUST_USE tn_status *tn__opened_check_held(const tn__opened *devices, const tn__opened_device *device,
                                             const char *what, const void *address, size_t bytes);

/* Memory of a device, of whoever's, within the executable's limit: allocate and free of its driver. */
TN_MUST_USE tn_status *tn__opened_allocate(const tn_executable *exe, uint32_t number, tn__device *device, size_t bytes,
                                           void **out);
void tn__opened_free(const tn_executable *exe, uint32_t number, tn__device *device, void *memory, size_t bytes);

/* Of an executable's life: what sessions share, without a device that is open. */
TN_MUST_USE tn_status *tn__opened_shared_create(tn_executable *exe);
void tn__opened_shared_release(const tn_executable *exe);
/* Tensors on its devices keep an executable that its owner has released: each leaves it once, as the owner does. True:
 * that was the last. */
void tn__opened_keep(const tn_executable *exe);
TN_MUST_USE bool tn__opened_leave(const tn_executable *exe);

#endif
