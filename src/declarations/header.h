/* The C header of built kernels. */
#ifndef TENON_DECLARATIONS_HEADER_H
#define TENON_DECLARATIONS_HEADER_H

#include "codegen/backend.h"
#include "declarations/c_names.h"
#include "declarations/handle.h"

/* What the functions take and the guard are in `options`. */
void tn__decl_header(const tn__te_item *items, const tn__kernel_info *infos, int count, const tn_build_options *options,
                     tn__strbuf *out);

#endif
