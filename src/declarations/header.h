/* The C header of built kernels. */
#ifndef TENON_DECLARATIONS_HEADER_H
#define TENON_DECLARATIONS_HEADER_H

#include "codegen/backend.h"
#include "declarations/c_names.h"
#include "declarations/handle.h"

/* `guard` NULL: made from the kernels' names. */
void tn__decl_header(const tn__te_item *items, const tn__kernel_info *infos, int count, bool parallel,
                     const char *guard, tn__strbuf *out);

#endif
