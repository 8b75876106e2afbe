/* A session's own state, shared between binding (bind.c) and invoking (session.c). */
#ifndef TENON_RUNTIME_SESSION_SESSION_H
#define TENON_RUNTIME_SESSION_SESSION_H

#include <stdatomic.h>

#include "runtime/extent.h"
#include "runtime/vm/vm.h"

typedef struct tn__bound {
  bool set, persistent;
  DLTensor tensor; /* its shape and strides point into this struct */
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
  tn__extent memory; /* where its elements lie */
  char *bytes;       /* outputs of strings: where their bytes are wanted; NULL: in the session's memory */
  size_t capacity;
  const void *references; /* defaults of strings: the constant's elements; NULL: the elements are in `tensor` */
} tn__bound;

/* A tensor's dimensions and strides, for those that are not a register's own. */
typedef struct tn__view {
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
} tn__view;

typedef struct tn__value_state tn__value_state; /* values/state.h */
typedef struct tn__flight tn__flight;           /* flight.c */

typedef struct tn__function_state {
  tn__bound *inputs, *outputs;           /* by the set_ calls */
  tn__bound *call_inputs, *call_outputs; /* of invoke_with_outputs */
  tn__block *input_copies, *output_copies;
  tn__block *spares; /* by output: a second memory for what is made in the session's own, when that is bound */
  int64_t (*strides)[TN_MAX_RANK + 1]; /* by input: of those that may have any, for the function that reads them */
  /* Of what is away: its memory there when the caller's is the host's; results on the host that nobody bound. */
  tn__block *inputs_away, *outputs_away, *results_away;
  tn__view *rooms;         /* by output: of those that grow, the bound tensor's buffer */
  tn__view *results;       /* by output: of those that grow, the result */
  tn__value_state *values; /* of an executable that has such */
  tn__frame *frame;        /* of the last invoke: it holds the results */
  bool has_results;
  /* The last invoke succeeded, everything is bound persistently, and no binding has changed since: everything in the
   * frame is as the next invoke needs it. */
  bool settled;
} tn__function_state;

struct tn_session {
  tn_allocator copy;
  const tn_allocator *allocator;
  const tn_executable *exe;
  tn_thread_pool *own_pool;
  tn__vm vm;
  tn__function_state *functions;
  tn_profile *profile;   /* that records, or NULL */
  atomic_bool busy;      /* a function of the session is running, or it is in flight */
  tn__flight *flight;    /* NULL: never started */
  atomic_bool in_flight; /* started, and nobody waits for it yet */
};

/* Around every public function of a session but those that any thread may call: refuses (TN_FAILED_PRECONDITION)
 * when another one runs, in another thread or around the callback that this one is called from, or an invoke is in
 * flight. */
static inline bool tn__session_is_entered(tn_session *session) {
  return !atomic_exchange_explicit(&session->busy, true, memory_order_acquire);
}
TN_MUST_USE TN_NEVER_NULL tn_status *tn__session_in_use(const tn_session *session);
/* Passes `status` on. */
TN_MUST_USE static inline tn_status *tn__session_leave(tn_session *session, tn_status *status) {
  atomic_store_explicit(&session->busy, false, memory_order_release);
  return status;
}
/* `call` is made while the session is this caller's alone; its status, or that of a session in use. */
#define TN__IN_SESSION(session, call) \
  (tn__session_is_entered(session) ? tn__session_leave((session), (call)) : tn__session_in_use(session))

/* Checks a tensor against a function's input or output by itself, and tells where it lies; the rest is checked by the
 * invoke. */
TN_MUST_USE tn_status *tn__bind_check(const tn__function *function, int index, bool output, const DLTensor *tensor,
                                      tn_binding binding, tn__extent *memory);
/* Copies what the slot needs of the tensor, which was checked; NULL unbinds. */
void tn__bind_keep(tn__bound *slot, const DLTensor *tensor, tn_binding binding, const tn__extent *memory);
/* Binds the defaults of unbound inputs persistently. */
void tn__bind_defaults(const tn_executable *executable, const tn__function *function, tn__bound *inputs);
/* Returns whether the tensor selects the input's default, in calls that pass a tensor for every input. */
static inline bool tn__bind_is_default(const tn__function_value *value, const DLTensor *tensor) {
  return value->info.fallback != NULL && tensor->data == NULL && tensor->ndim == 0;
}
/* Of two failures the first is told. */
static inline tn_status *tn__session_first_of(tn_status *a, tn_status *b) {
  if (a == NULL) return b;
  tn_status_free(b);
  return a;
}
/* "function "f" takes 2 inputs, and the call gives 1" */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__bind_wrong_count(const tn__function *function, const char *what,
                                                          uint32_t takes, int gives);

/* Of a tensor of an input's or output's type: the buffer's dimensions and the strides of the tensor in it. Those of
 * values that do not grow are the tensor's own, dense. */
void tn__view_of_buffer(const tn__function_value *value, const int64_t *shape, tn__view *out);
/* The bytes that the tensor's buffer has, or would have. */
int64_t tn__bind_buffer_bytes(const tn__function_value *value, const DLTensor *tensor);
/* Is the tensor in the memory of the device that the value is on, other than the host? */
static inline bool tn__bind_is_away(const tn__function_value *value, const DLTensor *tensor) {
  DLDevice there = tn__tensor_device(tensor);
  return value->away && tensor->data != NULL && there.device_type == value->info.device.device_type &&
         there.device_id == value->info.device.device_id;
}
/* Can kernels use the tensor's memory as it is: dense, or in its buffer when it grows, or of any strides when the value
 * may have them; aligned as the value wants it, and not NULL? Of what is away:
 * can it be copied there as it is? */
bool tn__bind_is_in_place(const tn__function_value *value, const DLTensor *tensor);
/* Does it lie as kernels want it, wherever? */
bool tn__bind_lies_in_buffer(const tn__function_value *value, const DLTensor *tensor);

/* ---- memory that is bound, and memory that an invoke writes (sharing.c) ---- */

/* The bound tensors of an invoke: of the set_ calls, or of the call itself. */
typedef struct tn__bindings {
  const tn__function *f;
  tn__function_state *state;
  const tn__bound *inputs, *outputs;
  const tn__values *values; /* the executable's */
} tn__bindings;

static inline bool tn__bind_is_list(const tn__function_value *value) { return value->info.kind != TN_VALUE_TENSOR; }
static inline bool tn__bind_is_of_strings(const tn__function_value *value) { return value->info.dtype == TN_STRING; }
/* What the caller bound for an output: a sequence's memory is bound for calls of every kind. */
static inline const tn__bound *tn__bind_output_slot(const tn__bindings *bindings, uint32_t index) {
  return tn__bind_is_list(&bindings->f->outputs[index]) ? &bindings->state->outputs[index] : &bindings->outputs[index];
}
/* Bound outputs share no memory with inputs or with each other, wherever the invoke itself would write them. */
TN_MUST_USE tn_status *tn__bind_check_sharing(const tn__bindings *bindings);
/* Results of earlier invokes may be bound: what this one makes in the session's own memory goes elsewhere then, and
 * every bound tensor keeps its memory. The frame is taken, and lists have the memory that is lent to them. */
TN_MUST_USE tn_status *tn__bind_make_way(const tn__bindings *bindings);

/* Of an output: memory that this invoke will write or replace. Trades places with the spare one when it is bound. */
TN_MUST_USE tn_status *tn__bind_free_block(const tn__bindings *bindings, uint32_t output, tn__block *block);

/* ---- inputs of any strides (strided.c) ---- */

/* The function to run for what is bound: the one for inputs of any strides when one of these is not dense. */
const tn__function *tn__bind_strided_choice(const tn_executable *executable, const tn__function *function,
                                            const tn__bound *inputs);
typedef struct tn__strided_memory {
  char *data;
  int64_t span, origin; /* in elements: from the first to the last in memory, and where in it the tensor begins */
} tn__strided_memory;
tn__strided_memory tn__strided_memory_of(const DLTensor *tensor);
/* Rejects a tensor whose strides leave that memory. */
TN_MUST_USE tn_status *tn__bind_strided_check(const tn__function_value *value, const DLTensor *tensor);
/* Gives the frame, of the function for `function`'s inputs of any strides, the memory and the strides of input
 * `index`; the latter go to `numbers`, which the frame keeps. */
void tn__bind_strided_place(tn__frame *frame, const tn__function *function, uint32_t index, const DLTensor *tensor,
                            int64_t *numbers);

/* Tells a profile how long an invoke took. */
void tn__session_profile_invoke(tn_profile *profile, uint64_t start, uint64_t end);

static inline bool tn__bind_is_aligned(const void *data, int alignment) {
  return (uintptr_t)data % (uintptr_t)alignment == 0;
}

#endif
