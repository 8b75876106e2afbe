/* Loop IR to source text of C's family, for compilers that are not here: one emitter, and a dialect for each language.
 *
 * Input is what tn__ir_lower_for_codegen() returns: no blocks, no unrolled loops. The rows that the driver sees are
 * tn__backend_c99 and its like (codegen/backend.h). */
#ifndef TENON_CODEGEN_C_SOURCE_H
#define TENON_CODEGEN_C_SOURCE_H

#include "codegen/backend.h"

/* C99 that needs nothing but <stdint.h>: kernels, or functions around them where the module has entries. */
tn__code tn__codegen_c99(tn__arena *arena, const tn__codegen_module *module);

#endif
