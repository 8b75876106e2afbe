/* The interpreter: frames, and running a function in one. */
#ifndef TENON_RUNTIME_VM_VM_H
#define TENON_RUNTIME_VM_VM_H

#include "runtime/executable/opened.h"
#include "runtime/pool.h"

/* Memory that only grows, aligned to TN_KERNEL_ALIGNMENT. */
typedef struct tn__block {
  void *data;
  size_t capacity;
} tn__block;

/* What the host has of an input or output that is on another device. */
typedef struct tn__carried {
  void *host;       /* memory of the caller's, from or to which it is copied; NULL: none */
  tn__block *block; /* of outputs: where it goes when it is not in memory that the caller has; NULL: inputs */
} tn__carried;

typedef struct tn__strings tn__strings; /* values/strings.h */

/* One activation of a function; kept and used again by later ones. */
typedef struct tn__frame tn__frame;
struct tn__frame {
  const tn__function *f;
  tn__frame *next; /* in the list of idle frames; of one that runs, that of its caller */
  int64_t *scalars;
  void **data;               /* per register: where its elements are; valid for roots */
  int64_t *dims;             /* of register r from r->first_dim on */
  tn__block *blocks;         /* per register: memory of the frame's own for DYNAMIC and OUTPUT */
  uint32_t *used;            /* per register: `run` when its block holds a value of this run */
  uint32_t run;              /* counts the runs in this frame */
  void *lists;               /* of registers that hold lists; `data` points at them, or at the caller's */
  tn__block *arenas;         /* by device */
  int64_t *laid_out_scalars; /* for which the layout was made */
  bool laid_out;
  /* By input, as the caller sees it: into `dims`, or for those that grow into `grown`, TN_MAX_RANK for each. */
  const int64_t **input_shapes;
  int64_t *grown;
  /* What the caller gives, by output: memory and the shape it is for, or NULL */
  void **output_data;
  const int64_t **output_shapes;
  int64_t *output_capacity; /* bytes, for values that may be of any size up to it; or TN__EXACT_SHAPE */
  tn__carried *carried;     /* by input, then by output; NULL: none is on another device */
  int64_t *output_valid;    /* of those that grow, of which the shape is the buffer's: what must count; or -1 */
};
#define TN__EXACT_SHAPE (-1)

typedef struct tn__queues tn__queues; /* queue/queue.h */

/* A function that is called, by which instruction of which other. The first is the one that is invoked. */
typedef struct tn__call_path {
  const tn__function *f;
  uint32_t parent, call;
} tn__call_path;

/* What a session has of a device's memory, and may have. */
typedef struct tn__vm_memory {
  size_t used, most; /* bytes; `most` 0: what there is */
} tn__vm_memory;

/* A device as a session sees it. */
typedef struct tn__vm_device {
  tn__device host;             /* of one that is the host itself: its memory is the session's allocator's */
  tn__opened_device *shared;   /* else the executable's */
  tn__stream stream;           /* of either; `stream.device` NULL: not open */
  const tn__device_code *code; /* what kernels are at offsets in */
  uint32_t number;             /* of the first of those that are one */
  tn__vm_memory *memory;       /* of the first of those that are one */
} tn__vm_device;

typedef struct tn__vm {
  const tn_executable *exe;
  const tn_allocator *allocator;
  tn__vm_device *devices; /* the executable's; the first is the host */
  uint32_t number;        /* of the first of those that are one */
  tn__vm_memory *memory;  /* per device */
  tn__opened *shared;     /* those that are not the host; NULL: there are none */
  tn__queues *queues;     /* NULL: what a device does is waited for */
  tn__call_path *paths;   /* with queues: those of this invoke, and a table of them */
  uint32_t path_count, path_capacity, path;
  tn_thread_pool *pool;
  tn__pool_caller caller; /* whose environments kernels get; any thread may cancel */
  tn__frame **idle;       /* per function */
  tn__strings *strings;   /* of the invoke that runs */
  tn__block scratch;      /* of the builtin that runs */
  void **buffers;         /* room for the widest kernel call */
  int64_t *scalars;
  tn_profile_callback profile;
  void *profile_user;
} tn__vm;

/* Of the options, the limits of memory. */
TN_MUST_USE tn_status *tn__vm_init(tn__vm *vm, const tn_executable *exe, const tn_allocator *allocator,
                                   tn_thread_pool *pool, const tn_session_options *options);
void tn__vm_release(tn__vm *vm);
TN_MUST_USE tn_status *tn__frame_take(tn__vm *vm, const tn__function *f, tn__frame **out);
void tn__frame_give_back(tn__vm *vm, tn__frame *frame);
/* Gives back the device's memory that idle frames have, and blocks that the frame, which runs, and its callers have
 * and do not need in this run; nobody works. False: there was nothing but `but`. */
bool tn__vm_release_unused(tn__vm *vm, tn__frame *frame, uint32_t device, const tn__block *but);
TN_MUST_USE tn_status *tn__block_reserve(const tn_allocator *allocator, tn__block *block, int64_t bytes);
void tn__block_release(const tn_allocator *allocator, tn__block *block);
/* The same with memory of the device, for values, within the session's limit. */
TN_MUST_USE tn_status *tn__block_reserve_on(const tn__vm *vm, uint32_t device, tn__block *block, int64_t bytes);
void tn__block_release_on(const tn__vm *vm, uint32_t device, tn__block *block);

/* Opens what the session needs of the executable's devices: limits of memory, streams, queues. Also what is open in
 * part is closed. */
TN_MUST_USE tn_status *tn__vm_open_devices(tn__vm *vm, const tn_session_options *options, int most_arguments);
void tn__vm_close_queues(tn__vm *vm);
void tn__vm_close_devices(tn__vm *vm); /* when all memory is given back */

/* Gives input `index` memory and a shape of its rank. When all have theirs, tn__vm_run checks them against each
 * other. */
void tn__frame_set_input(tn__frame *frame, uint32_t index, void *data, const int64_t *shape);
/* Checks the shapes of the inputs and gives the symbols in them their values; the other scalars become 0. */
TN_MUST_USE tn_status *tn__vm_bind_symbols(const tn__function *f, const int64_t *const *shapes, int64_t *scalars);
/* The status of an output that would have more elements than its buffer has room for, or less than none. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__vm_beyond_capacity(const tn__function_value *output, int64_t valid);
/* Runs the frame's function, whose inputs are bound. */
TN_MUST_USE tn_status *tn__vm_run(tn__vm *vm, tn__frame *frame, int depth);
/* Runs it once more with the same memory and shapes as its last run, which succeeded: nothing is checked again. */
TN_MUST_USE tn_status *tn__vm_run_again(tn__vm *vm, tn__frame *frame);

/* The dimensions of a register about to be looked at. */
TN_MUST_USE tn_status *tn__frame_current_dims(tn__frame *frame, uint32_t number, const int64_t **out);
/* Memory for a result of the given dimensions, which its register takes on when its storage lets it; otherwise they
 * must be the register's. */
TN_MUST_USE tn_status *tn__vm_make_result(tn__vm *vm, tn__frame *frame, uint32_t number, const int64_t *dims);

/* SCALAR_CONST, SCALAR_OP, SCALAR_SELECT: what is made of scalars alone. */
TN_MUST_USE tn_status *tn__vm_run_scalar(const tn__instruction *in, int64_t *scalars);

#endif
