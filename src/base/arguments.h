/* Checks of arguments of public functions: required pointers that are NULL, and lists that are NULL or negative in
 * length but not empty. tests/misuse calls every public function with such arguments. */
#ifndef TENON_BASE_ARGUMENTS_H
#define TENON_BASE_ARGUMENTS_H

#include "base/options.h"

/* Returns the error "tn_module_save: cannot run: "path" is NULL; pass a pointer to it". */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__argument_missing(const char *function, const char *name);

/* Returns from the calling function, which returns a status, when `pointer` is NULL. `name` is the parameter's name
 * in the public header. */
#define TN__NEED(name, pointer)                                           \
  do {                                                                    \
    if ((pointer) == NULL) return tn__argument_missing(__func__, (name)); \
  } while (0)
/* The same for an array of `count` elements. */
#define TN__NEED_LIST(name, list, count_name, count)                                                               \
  do {                                                                                                             \
    tn_status *tn__list_status = tn__options_check_list(__func__, (name), (list), (count_name), (int64_t)(count)); \
    if (tn__list_status != NULL) return tn__list_status;                                                           \
  } while (0)
/* The same for an array of pointers, each of which must be non-NULL. */
#define TN__NEED_EACH(name, list, count_name, count)                                       \
  do {                                                                                     \
    TN__NEED_LIST(name, list, count_name, count);                                          \
    for (int tn__each = 0; tn__each < (count); tn__each++)                                 \
      if ((list)[tn__each] == NULL) return tn__argument_missing(__func__, (name "[...]")); \
  } while (0)

#endif
