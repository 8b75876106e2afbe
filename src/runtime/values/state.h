/* What a session keeps of a function's lists and strings. */
#ifndef TENON_RUNTIME_VALUES_STATE_H
#define TENON_RUNTIME_VALUES_STATE_H

#include "runtime/session/values.h"
#include "runtime/values/list.h"
#include "runtime/values/strings.h"

typedef struct tn__shown_strings { /* a result as callers see it, made when it is asked for */
  tn__block strings;
  bool ready;
  const char *given; /* of a sequence: the caller's memory, when it is there; else NULL */
} tn__shown_strings;

struct tn__value_state {
  /* Of inputs and outputs that are sequences or optional; a bound output's slot in the function's state holds its
   * memory as bytes. */
  tn__list *input_lists, *output_lists;
  /* By input: of lists of strings, what the caller gave; `input_lists` has it copied into `strings` by each invoke. */
  tn__list *given_lists;
  tn__strings *given_strings;
  tn__strings strings;      /* of the last invoke */
  tn__strings spare;        /* of the one before: invokes take turns, as results may be the next one's inputs */
  tn__shown_strings *shown; /* by output */
};

/* ---- boundary.c: what callers give and get ---- */
TN_MUST_USE tn_status *tn__values_set_input(tn_session *session, const tn__function *function, int index,
                                            const DLTensor *tensors, int count);
TN_MUST_USE tn_status *tn__values_get_count(tn__function_state *state, int index, int *count);
TN_MUST_USE tn_status *tn__values_get_item(tn_session *session, tn__function_state *state, int index, int item,
                                           DLTensor *out);
TN_MUST_USE tn_status *tn__values_show(tn_session *session, tn__function_state *state, int index, DLTensor *result);
/* All strings of a list, which end in the caller's memory if they fit; else `needed` is what they take, INT64_MAX when
 * it cannot be counted. */
TN_MUST_USE tn_status *tn__values_settle_strings(tn_session *session, tn__function_state *state, int index,
                                                 const tn__list *list, bool *fits, int64_t *needed);

#endif
