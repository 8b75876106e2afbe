/* What sessions call of values that are not tensors of numbers (runtime/executable/values.h). */
#ifndef TENON_RUNTIME_SESSION_VALUES_H
#define TENON_RUNTIME_SESSION_VALUES_H

#include "runtime/executable/values.h"
#include "runtime/session/session.h"

typedef struct tn__session_values {
  /* ---- what a function's state keeps in `values` ---- */
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
  /* Of an output that is a list or of strings: its part of tn__bind_make_way(). */
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
} tn__session_values;

#endif
