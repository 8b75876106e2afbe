/* Whole-model comparison for tn_check: compiles a model with a prefix of the graph passes, runs it once, and
 * compares its outputs with those of another prefix. */
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
  double rtol, atol;          /* negative: use the type's tolerance */
} tn__whole;

/* An all-zero tensor selects the default of its input. */
static inline bool tn__whole_leaves_out(const DLTensor *tensor) { return tensor->data == NULL && tensor->ndim == 0; }
/* Binds the inputs of the main function. `values` are its graph inputs. */
void tn__whole_bind(tn__escape *escape, tn_session *session, const tn__whole *model, tn__value *const *values);

/* Compares the compiled model's outputs with those of the imported graph without passes. If they differ, the result
 * names the output and the first pass after which they do. Returns whether they agree. */
TN_MUST_USE bool tn__whole_check(tn__arena *arena, const tn__whole *model, tn_check_result *result);

/* Returns whether `got` agrees with `want` in one tensor. If not, the result has the worst element. */
bool tn__whole_compare(const tn__whole *model, tn_dtype dtype, const void *got, const void *want, int64_t count,
                       tn_check_result *result);

#endif
