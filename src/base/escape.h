/* How the compiler side (ir, te, schedule, codegen, graph, import, compile) leaves a deep call: by one jump to the
 * place that asked for the work, which then releases its arenas and returns the status.
 *
 * Compilers allocate at every step and find errors thousands of calls deep; a check after each would drown the code. So
 * arena allocation never returns NULL and an error is thrown with tn__throw(); everything between the throw and
 * tn__protect() must own nothing but arena memory (what it must own otherwise, an LLVM module say, is registered with
 * tn__arena_defer so that the arena's release disposes of it). Lua's luaD_rawrunprotected is the model.
 *
 * The runtime does NOT use this: it returns statuses and checks every allocation. */
#ifndef TENON_BASE_ESCAPE_H
#define TENON_BASE_ESCAPE_H

#include <setjmp.h>

#include "tenon/base.h"

typedef struct tn__escape {
  jmp_buf env;
  tn_status *status;
} tn__escape;

/* Calls `body(esc, arg)`. Returns NULL when it returns, and the thrown status (owned by the caller) when it throws.
 * `esc` need not be initialised and is dead afterwards. One escape belongs to one thread. */
TN_MUST_USE tn_status *tn__protect(tn__escape *esc, void (*body)(tn__escape *esc, void *arg), void *arg);

/* Leaves to the innermost tn__protect() of `esc`; takes ownership of `status`, which must not be NULL. */
_Noreturn void tn__throw(tn__escape *esc, tn_status *status);
_Noreturn void tn__throwf(tn__escape *esc, tn_status_code code, const char *format, ...) TN_PRINTF(3, 4);

/* Throws when `status` is not NULL. */
void tn__check(tn__escape *esc, tn_status *status);

#endif
