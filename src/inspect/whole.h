/* Whole models for tn_check: compiled with some of the passes over graphs, run once, and compared output by output. */
#ifndef TENON_INSPECT_WHOLE_H
#define TENON_INSPECT_WHOLE_H

#include "driver/driver.h"

typedef struct tn__whole {
  const char *path;
  const void *data;
  size_t size;
  const tn_compile_options *options;
  const DLTensor *inputs;
  int input_count;
  const tn_check_list *lists; /* by input, or NULL */
  double rtol, atol;          /* negative: of the type */
} tn__whole;

/* Binds the inputs of the main function, whose values are `values`. */
void tn__whole_bind(tn__escape *escape, tn_session *session, const tn__whole *model, tn__value *const *values);

/* Compares the outputs of the compiled model with those of the graph as it was imported, no pass run. Where they differ
 * the result names the output and the first pass behind which it does. Returns whether they agree. */
TN_MUST_USE bool tn__whole_check(tn__arena *arena, const tn__whole *model, tn_check_result *result);

/* One tensor: whether `got` agrees with `want`; else the worst element in the result. */
bool tn__whole_compare(const tn__whole *model, tn_dtype dtype, const void *got, const void *want, int64_t count,
                       tn_check_result *result);

#endif
