/* Reading .te text (docs/te-language.md): a file of constants, functions, combiners and kernels, each kernel of which
 * becomes a declaration once its dimensions are known or left open. Untrusted text: nesting, sizes and work are
 * bounded. An error names its place and shows the line, "gemm.te:3:14: error: ..." (ir/errors.h); all errors of a text
 * come together, up to 20 of them. */
#ifndef TENON_TE_TEXT_H
#define TENON_TE_TEXT_H

#include "base/linked.h"
#include "te/te.h"

typedef struct tn__te_source tn__te_source;

typedef struct tn__te_dim_value { /* fixes a dimension of a kernel */
  const char *name;
  int64_t value;
} tn__te_dim_value;

/* The source lives in `arena` and keeps nothing of `text`. It is there also when the text has errors: declaring its
 * kernels, to no other end, then finds those of the parts that were understood. */
TN__LINKED TN_MUST_USE tn_status *tn__te_parse(tn__arena *arena, const char *name, const char *text, size_t length,
                                               tn__te_source **out);
/* The same of a text that imports files in `folder` and below; NULL: it stands in no file, and imports nothing. */
TN_MUST_USE tn_status *tn__te_parse_in(tn__arena *arena, const char *folder, const char *name, const char *text,
                                       size_t length, tn__te_source **out);
/* The same of a file, which may import others beside it and below. What cannot be read is an error, too. */
TN_MUST_USE tn_status *tn__te_parse_file(tn__arena *arena, const char *path, tn__te_source **out);
enum { TN__TE_STEPS_PER_BYTE = 2000 };               /* that reading a text may take (base/arena.h) */
bool tn__te_has_errors(const tn__te_source *source); /* did the reader find any, or a declaration since? */
TN__LINKED int tn__te_kernel_count(const tn__te_source *source);
int tn__te_kernel_find(const tn__te_source *source, const char *name); /* -1: there is none */
int tn__te_kernel_dim_count(const tn__te_source *source, int kernel);
const char *tn__te_kernel_dim(const tn__te_source *source, int kernel, int index);

/* The schedules that the text has for a kernel, with blanks for all else, from the line number `*line` on; NULL when it
 * has none. They are not looked into here. */
const char *tn__te_schedules(const tn__te_source *source, int kernel, int *line);

/* The declaration of one kernel in `ir`, verified. Values for dimensions that the kernel does not have are passed over;
 * dimensions without a value stay open. When the text has errors, the status lists all that were found so far, and
 * there is no declaration. */
TN__LINKED TN_MUST_USE tn_status *tn__te_declare(const tn__te_source *source, int kernel, const tn__te_dim_value *dims,
                                                 int dim_count, tn__ir *ir, tn__te **out);

/* An operation of the language by its sign or word on values of `te`: "+", "!", "select", "exp" ...; checks types, and
 * throws. */
const tn__expr *tn__te_operation(tn__te *te, const char *operation, const tn__expr *const *args, int count);
bool tn__te_is_word(const char *name); /* a word of the language, and no name for anything */

#endif
