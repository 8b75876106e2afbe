/* Names that generated C cannot use. */
#ifndef TENON_DECLARATIONS_C_NAMES_H
#define TENON_DECLARATIONS_C_NAMES_H

#include <stdbool.h>

/* Words of C and C++, and functions that a program has already: no names for kernels that become C functions. */
bool tn__decl_is_taken_in_c(const char *name);

#endif
