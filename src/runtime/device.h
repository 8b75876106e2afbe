/* Devices: one table of functions a kind, through which the runtime reaches memory, code and kernels. The CPU's is
 * the first; a table has a folder of its own below src/runtime.
 *
 * An open *device* is memory and code; what is done there, launches and copies, is asked for through a *stream*, of
 * which a device has any number. An executable opens each of its devices once (executable/opened.h), and each session
 * has streams of its own.
 *
 * Ownership. Who allocates frees, who loads code unloads it, and who opens a stream closes it, before the device is
 * closed. Memory of a device is known by its address there: kernels get it, offsets may be added to it, and nobody but
 * the table's functions reads or writes through it, unless the device is `inline_host`. Memory and code serve all
 * streams of their device, and none of another's; two devices that are open share nothing, also with one number.
 *
 * Threads. Functions of a device (those that take a tn__device) serve one caller at a time, which may be one thread
 * after the other, and do so while its streams work. A stream serves one caller at a time, too, as a session does;
 * several streams of a device serve as many threads at once. Exceptions: `view`, `holds` and `limits` may be called at
 * any time, and `copy` out of memory that the stream does not write meanwhile also while another thread uses the
 * stream.
 *
 * Order. What is launched and copied on a stream takes place in the order of the calls; `launch` may return before the
 * kernel is done, everything else returns when it is done itself, which is after all that was launched before it on
 * that stream. Between streams there is no order but that: what one has waited for, others find. Memory is freed when
 * no stream has anything to do with it any more.
 *
 * Errors. Statuses, as everywhere. A kernel's own result (TN_KERNEL_...) is no error of the device: `wait` tells it. */
#ifndef TENON_RUNTIME_DEVICE_H
#define TENON_RUNTIME_DEVICE_H

#include <pthread.h>

#include "target/memory.h"
#include "tenon/dlpack.h"
#include "tenon/kernel_abi.h"
#include "tenon/runtime.h"

typedef struct tn__device_driver tn__device_driver;

/* An open device. `state` is its driver's. A copy of it with another scope is the same device, opened and closed once,
 * whose `allocate`, `free` and `limits` are about that memory. Addresses are known to all functions of either. */
typedef struct tn__device {
  const tn__device_driver *driver;
  const tn_allocator *allocator; /* for what the driver keeps in the host's memory; the CPU: all memory */
  int32_t id;                    /* which of its kind */
  tn__memory_scope scope;        /* one that the driver has */
  void *state;
  pthread_mutex_t *turn;  /* devices that have the same one take turns, if they are such that do; NULL: nobody else */
  const tn_log_sink *log; /* for warnings; NULL: nobody listens */
} tn__device;

/* A stream of an open device. `state` is its driver's. */
typedef struct tn__stream {
  tn__device *device;
  const tn_allocator *allocator; /* for what the driver keeps of the stream in the host's memory */
  void *state;
} tn__stream;

/* Code that is loaded: `base` is where its first byte is, and kernels are at offsets from it. */
typedef struct tn__device_code {
  const void *base;
  size_t size;
  void *kept; /* the driver's, NULL: nothing to give back */
} tn__device_code;

typedef enum tn__copy_kind {
  TN__COPY_IN,    /* from the host's memory to the device's */
  TN__COPY_OUT,   /* from the device's to the host's */
  TN__COPY_WITHIN /* from the device's to the device's */
} tn__copy_kind;

typedef struct tn__device_launch {
  const tn__device_code *code;
  uint64_t offset;          /* of the kernel in the code */
  const tn_kernel_env *env; /* the host's; threads of the CPU, cancelling */
  void *const *buffers;   /* the device's addresses; the array itself is the host's, and read before `launch` returns */
  const int64_t *scalars; /* the same */
  uint32_t buffer_count, scalar_count;
} tn__device_launch;

/* What a driver says of how fast its device is, for placements by predicted time; 0: it does not say. */
typedef struct tn__device_nature {
  bool is_cpu;        /* it is the cores of this machine */
  bool shares_memory; /* its memory is the host's */
  int units, lanes;   /* cores, or a GPU's multiprocessors; what one of them multiplies and adds in a cycle, in f32 */
  int megahertz;
  int64_t memory_rate; /* MB/s */
} tn__device_nature;

typedef struct tn__device_limits {
  size_t alignment;     /* of what `allocate` gives, at least TN_KERNEL_ALIGNMENT */
  size_t most_bytes;    /* of one allocation */
  size_t memory_bytes;  /* that there are; 0: not known */
  int threads_of_block; /* at the most; 1: kernels have no blocks of threads */
  size_t shared_bytes;  /* that a block's threads share */
  tn__device_nature nature;
  char about[256]; /* for people: what the device is; "": nothing but its kind is to be said */
} tn__device_limits;

struct tn__device_driver {
  const char *name; /* "cpu" */
  DLDeviceType type;
  unsigned scopes; /* of memory that it allocates in, a bit each; 0: global alone */
  /* Its addresses are the host's, and its kernels are functions that the calling thread may call: then whoever asked
   * once may call and read directly, without `launch`, `wait` and `copy`. */
  bool inline_host;
  bool synchronous; /* `launch` returns when the kernel is done; so it is where the host is the device */
  bool takes_turns; /* kernels and copies of all devices with one `turn` exclude each other */
  tn_status *(*open)(tn__device *device); /* with driver, allocator and id set */
  void (*close)(tn__device *device);
  void (*limits)(const tn__device *device, tn__device_limits *out);
  /* At least one byte; never NULL on success. The contents are undefined. */
  tn_status *(*allocate)(tn__device *device, size_t bytes, void **out);
  void (*free)(tn__device *device, void *memory, size_t bytes); /* NULL is fine */
  /* Memory of the device that is the host's own, where that is, without a copy: bytes at a multiple of
   * TN_KERNEL_ALIGNMENT that nobody writes, the device included, and that stay until `free`. *out NULL: the device or
   * its driver has no use for these. NULL: for none ever. */
  tn_status *(*borrow)(tn__device *device, const void *host, size_t bytes, void **out);
  /* The address of a part of an allocation, for kernels and `copy`. */
  void *(*view)(const tn__device *device, void *memory, size_t offset);
  /* Returns whether kernels may access these bytes, which a caller passes as the device's: whether all are in one
   * allocation. If NULL, this is unknown, and the caller is responsible. Callable from any thread at any time. */
  bool (*holds)(const tn__device *device, const void *address, size_t bytes);
  /* `in_place`: the bytes are pages of the caller's own that stay until the code is unloaded, and may be made
   * executable where they are. On failure there is nothing to unload. */
  tn_status *(*load_code)(tn__device *device, const void *bytes, size_t size, bool in_place, tn__device_code *out);
  void (*unload_code)(tn__device *device, tn__device_code *code); /* of zeros is fine */
  tn_status *(*open_stream)(tn__stream *stream);                  /* with device and allocator set */
  void (*close_stream)(tn__stream *stream);                       /* what was launched on it is done, or given up */
  tn_status *(*copy)(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes);
  tn_status *(*launch)(tn__stream *stream, const tn__device_launch *launch);
  /* Until all is done that was launched on the stream. *result is that of its first kernel since the last `wait` that
   * was not TN_KERNEL_OK, else TN_KERNEL_OK; what was launched behind it may not have run. */
  tn_status *(*wait)(tn__stream *stream, int32_t *result);
};

static inline bool tn__device_has_scope(const tn__device_driver *driver, tn__memory_scope scope) {
  return scope == TN__MEMORY_GLOBAL || (driver->scopes >> scope & 1) != 0;
}

/* From the memory of one open device to that of another, through the host's at `between`, in pieces: it has
 * TN__COPY_PIECE bytes, or `bytes` where that is less. */
enum { TN__COPY_PIECE = 1 << 20 };
TN_MUST_USE tn_status *tn__device_copy_between(tn__stream *to, void *destination, tn__stream *from, const void *source,
                                               size_t bytes, void *between);

/* The tables, each defined in its folder. */
extern const tn__device_driver tn__device_cpu;    /* runtime/cpu */
extern const tn__device_driver tn__device_island; /* runtime/island */
extern const tn__device_driver tn__device_island_concurrent;

#endif
