#ifndef TENON_IMPORT_ONNX_REGEX_COMPILE_H
#define TENON_IMPORT_ONNX_REGEX_COMPILE_H

#include "base/arena.h"

/* The program of a regular expression, as text/regex.h says, in the arena; throws what is wrong with the pattern and
 * where, after `origin`, which may be NULL. */
const int64_t *tn__onnx_compile_regex(tn__arena *arena, const char *origin, const char *pattern, size_t length,
                                      int *count);

#endif
