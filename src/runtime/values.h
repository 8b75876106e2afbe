/* Values that are not tensors of numbers: sequences, optional values, strings, and lookups in tables of them. The
 * machine and sessions pass them on by what stands here; what they are is known to src/runtime/values alone, which may
 * be left out of a build (-DTENON_VALUES=OFF).
 *
 * An executable without such values has no table of these functions (executable->values is NULL), and nothing of them
 * is called. One with them has it, or is refused as it is loaded. */
#ifndef TENON_RUNTIME_VALUES_H
#define TENON_RUNTIME_VALUES_H

#include "runtime/session.h"

struct tn__values {
  /* ---- executables ---- */
  /* Are the strings of the file, and those that its constants refer to, there? */
  tn_status *(*check)(const tn_executable *executable);

  /* ---- the machine ---- */
  size_t list_size; /* bytes of a tn__list, of which a frame has some: zeroed at first */
  void (*release_lists)(tn__vm *vm, tn__frame *frame);
  /* COPY and MOVE of lists; builtins that are about lists or strings */
  tn_status *(*copy)(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
  tn_status *(*move)(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
  tn_status *(*run)(tn__vm *vm, tn__frame *frame, const tn__instruction *in);

  /* ---- sessions: what a function's state keeps in `values` ---- */
  tn_status *(*create)(tn_session *session, const tn__function *function, tn__function_state *state);
  /* Of a state whose creation may have failed. */
  void (*release)(tn_session *session, const tn__function *function, tn__function_state *state);
  /* Around an invoke: before anything of it; when it failed; when it succeeded. */
  void (*begin)(tn_session *session, const tn__function *function, tn__function_state *state);
  void (*undo)(tn__function_state *state);
  tn_status *(*finish)(tn_session *session, tn__function_state *state);
  /* An input that is a list, in the frame's register `number`. */
  tn_status *(*place_list)(tn_session *session, const tn__function *function, tn__function_state *state, uint32_t index,
                           uint32_t number);
  /* An input that is a tensor of strings, into `references`, one for each. */
  tn_status *(*place_strings)(tn_session *session, const tn__function *function, tn__function_state *state,
                              uint32_t index, const tn__bound *slot, uint64_t *references);
  /* The list that an output for which memory is bound is made in. */
  void *(*output_list)(tn__function_state *state, uint32_t index);
  /* Of an output that is a list or of strings: its part of tn__rt_make_way(). */
  tn_status *(*make_way)(const tn__bindings *bindings, uint32_t output);
  /* Writes a result of strings to what is bound for it; all results that are lists to the memory that is. */
  tn_status *(*give_strings)(tn_session *session, tn__function_state *state, uint32_t index, const DLTensor *result,
                             const tn__bound *slot);
  tn_status *(*give_lists)(tn_session *session, const tn__function *function, tn__function_state *state);
  /* Makes the result, references, one of tn_string; valid until the next invoke. */
  tn_status *(*show)(tn_session *session, tn__function_state *state, int index, DLTensor *result);

  /* ---- the public functions over lists; `index` is one ---- */
  tn_status *(*set_input)(tn_session *session, const tn__function *function, int index, const DLTensor *tensors,
                          int count);
  tn_status *(*get_count)(tn__function_state *state, int index, int *count);
  tn_status *(*get_item)(tn_session *session, tn__function_state *state, int index, int item, DLTensor *out);
};

/* What this build has: NULL without src/runtime/values. */
const tn__values *tn__values_built(void);
/* Gives the executable, whose functions are decoded, its table when it needs one. */
TN_MUST_USE tn_status *tn__values_find(tn_executable *executable);

/* The list of a frame's own that a register has. */
static inline void *tn__frame_list(const tn__vm *vm, const tn__frame *frame, const tn__register *r) {
  return (char *)frame->lists + r->list * vm->exe->values->list_size;
}

#endif
