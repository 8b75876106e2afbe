/* Inside of the generator of C's family: what its files share. */
#ifndef TENON_CODEGEN_C_EMIT_H
#define TENON_CODEGEN_C_EMIT_H

#include "base/dtype.h"
#include "codegen/c/source.h"
#include "codegen/workspace.h"
#include "tenon/kernel_abi.h"

/* What the dialects say differently. */
typedef struct tn__cc_dialect {
  const char *name; /* "c99", "cuda", "opencl": as paragraphs of support.txt are marked */
  bool launches;    /* nests are kernels of their own, whose blocks and threads are those of a launch */
  bool offsets;     /* buffers of kernels are an allocation and where they begin in it, in bytes */
  bool plain_long;  /* "long" has 64 bits, and "long long" is no type */
  bool matrices;    /* warps multiply them, and threads copy 16 bytes at a time */
  const char *head; /* what texts begin with, where there are launches */
  void (*append_vectors)(tn__strbuf *out); /* and where loops are written in vectors; NULL: they are not */
} tn__cc_dialect;

extern const tn__cc_dialect tn__cc_c99, tn__cc_cuda, tn__cc_opencl;

/* An expression of the statement at hand: how often it is used there, and the C variable that holds it. */
typedef struct tn__cc_use {
  const tn__expr *e;
  const char *name; /* NULL: none */
  int uses;
} tn__cc_use;

/* What can be named where text is being written: a variable or a buffer. */
typedef struct tn__cc_bound {
  const tn__var *var;
  const tn__buffer *buffer;
} tn__cc_bound;

/* An element that a loop adds up in, in a variable meanwhile. */
typedef struct tn__cc_kept {
  const tn__buffer *buffer;
  const tn__expr *place;
  const char *name;
} tn__cc_kept;

typedef struct tn__cc {
  tn__arena *arena;
  tn__ir *ir;
  const tn__cc_dialect *dialect;
  const tn__func *func;
  tn__strbuf *out;    /* where statements go: the kernel, or a task */
  tn__strbuf *before; /* functions in front of the kernel */
  int indent;
  TN__VEC(const char *) var_names, buffer_names; /* by id */
  TN__VEC(tn__cc_bound) bound;
  int names, temps, tasks; /* made so far, of the function */
  tn__cc_use *uses;        /* of the statement: open addressing */
  int use_slots, use_count;
  TN__VEC(const tn__expr *) held; /* what has variables, in order */
  int plain;                      /* above 0: no variables can be made, since the text may not be evaluated */
  const tn__var *lane;            /* of the vectorised loop around; NULL: none */
  int lanes;                      /* of the loop around that is written in vectors; 0: there is none */
  const tn__var *wide;            /* its variable, and what that is in the first lane */
  const tn__expr *wide_first;
  TN__VEC(const tn__var *) varying;      /* lets around that are vectors */
  unsigned active;                       /* a bit for each lane in which the condition around holds */
  bool vector_failed;                    /* it cannot be written in vectors */
  bool has_vectors;                      /* a loop so far was */
  int depth;                             /* of serial loops around in the function */
  tn__launch *launch;                    /* of the nest at hand; NULL: there are none */
  const tn__cg_layout *layout;           /* where there are launches */
  bool on_cpu;                           /* a launch's blocks have one thread, on a core */
  const tn__stmt *grid_loop;             /* the parallel loop that a launch's blocks are; NULL: none */
  tn__strbuf *shared;                    /* declarations of what threads share, which stand in front of all else */
  TN__VEC(const tn__buffer *) own;       /* that each thread has for itself */
  TN__VEC(const tn__buffer *) fragments; /* of these, those that are parts of a warp's matrices */
  const tn__cc_kept *kept;               /* NULL: none */
  bool apart;           /* what comes behind the statement has nothing to do with it: threads need not wait */
  bool asynchronous;    /* copies may take their time */
  int64_t most_shared;  /* bytes that threads of a block may share */
  unsigned thread_axes; /* of loops over threads around: 1, 2 and 4 */
  bool fails;           /* the nest at hand may end with a result other than TN_KERNEL_OK */
} tn__cc;

_Noreturn void tn__cc_fail(const tn__cc *cc, const char *format, ...) TN_PRINTF(2, 3);

/* ---- emit_type.c: names and types -------------------------------------------------------------------------------- */
const char *tn__cc_value_type(tn_dtype dtype);  /* what a value has: 16-bit floats are floats, bool is int */
const char *tn__cc_memory_type(tn_dtype dtype); /* what an element has */
const char *tn__cc_suffix(tn_dtype dtype);      /* of functions in support.txt: "f32", "i64" */
const char *tn__cc_bind_var(tn__cc *cc, const tn__var *var);
const char *tn__cc_bind_buffer(tn__cc *cc, const tn__buffer *buffer);
const char *tn__cc_var_name(tn__cc *cc, const tn__var *var);
const char *tn__cc_buffer_name(tn__cc *cc, const tn__buffer *buffer);
const char *tn__cc_integer(tn__cc *cc, tn_dtype dtype, int64_t value);
const char *tn__cc_float(tn__cc *cc, tn_dtype dtype, double value);
/* An element as it is in memory to a value, and back. */
const char *tn__cc_loaded(tn__cc *cc, tn_dtype dtype, const char *element);
const char *tn__cc_stored(tn__cc *cc, tn_dtype dtype, const char *value);
const char *tn__cc_cast(tn__cc *cc, tn_dtype from, tn_dtype to, const char *value);
const char *tn__cc_bitcast(tn__cc *cc, tn_dtype from, tn_dtype to, const char *value);
/* A text that grows and is released with the arena, also when something is thrown before it is taken. */
tn__strbuf *tn__cc_text(tn__arena *arena);
/* A line of text, indented. */
void tn__cc_line(tn__cc *cc, const char *format, ...) TN_PRINTF(2, 3);
void tn__cc_open(tn__cc *cc, const char *format, ...) TN_PRINTF(2, 3); /* the same, followed by "{" */
void tn__cc_open_if(tn__cc *cc, const char *condition); /* "if (condition) {", without doubled parentheses */
void tn__cc_close(tn__cc *cc);                          /* "}" */
#define TN__CC_TEXT(cc, ...) tn__arena_printf((cc)->arena, __VA_ARGS__)

/* ---- emit_expr.c ------------------------------------------------------------------------------------------------- */
/* Expressions of one statement: counts what they share, then each gets its text, behind lines that hold shared parts.
 * Texts can be put into any expression. */
void tn__cc_begin(tn__cc *cc);
void tn__cc_count(tn__cc *cc, const tn__expr *e);
const char *tn__cc_expr(tn__cc *cc, const tn__expr *e);
/* begin, count and the text of a single one. */
const char *tn__cc_whole(tn__cc *cc, const tn__expr *e);
/* A variable with that value, in front of the statement. */
const char *tn__cc_named(tn__cc *cc, const char *type, const char *value);
/* a * b + c in one rounding where that is an instruction: by the shape of the expression alone (docs/numerics.md). The
 * product; NULL: nothing of the kind. */
const tn__expr *tn__cc_contracted(const tn__expr *e);
void tn__cc_forget_from(tn__cc *cc, int held);          /* variables of `held` from there on: their scope ends */
bool tn__cc_is_index(const tn__expr *e);                /* a sum of indices, which does not overflow */
bool tn__cc_is_harmless(tn__cc *cc, const tn__expr *e); /* it may be evaluated in vain */
/* The place of an element in its buffer. */
const tn__expr *tn__cc_place(const tn__cc *cc, const tn__buffer *buffer, const tn__expr *const *indices);
bool tn__cc_is_narrow(const tn__cc *cc, const tn__expr *e);
const char *tn__cc_type_of(const tn__cc *cc, const tn__expr *e); /* in C: narrow indices are shorter */
/* The end of the kernel with a result, as a statement. */
const char *tn__cc_failing(tn__cc *cc, int code);

/* ---- emit_vector.c ----------------------------------------------------------------------------------------------- */
/* Writes a vectorised loop in vectors; false: nothing was written, and a plain loop has to do. */
bool tn__cc_vector_loop(tn__cc *cc, const tn__stmt *s);
/* Of such a loop: a statement that is another in vectors; false: it is what it is elsewhere. */
bool tn__cc_vector_stmt(tn__cc *cc, const tn__stmt *s);
bool tn__cc_varies(const tn__cc *cc, const tn__expr *e); /* is it a vector there? */
const char *tn__cc_vector_text(tn__cc *cc, const tn__expr *e);
const char *tn__cc_vector_var(tn__cc *cc, const tn__var *var);
const char *tn__cc_vector_type(const tn__cc *cc, tn_dtype dtype);
const tn__expr *tn__cc_first_place(const tn__cc *cc, const tn__expr *place);

/* ---- emit_call.c ------------------------------------------------------------------------------------------------- */
const char *tn__cc_call(tn__cc *cc, const tn__expr *e, const char *const *args);

/* ---- emit_stmt.c, emit_func.c, entry.c --------------------------------------------------------------------------- */
void tn__cc_stmt(tn__cc *cc, const tn__stmt *s);
/* Declares memory that the threads of a block share. */
const char *tn__cc_share(tn__cc *cc, const tn__buffer *buffer);
enum { TN__CC_SHARED_STEP = 16 };                      /* how it is aligned, at the most */
void tn__cc_plain_loop(tn__cc *cc, const tn__stmt *s); /* one number after the other */
void tn__cc_func(tn__cc *cc, const tn__c_entry *entry);
bool tn__cc_is_apart(const tn__cc *cc, int param); /* from all others that are written */
tn__kernel_info tn__cc_measure(tn__ir *ir, const tn__func *func);

/* ---- emit_launch.c: functions for GPUs --------------------------------------------------------------------------- */
/* A module's text; `launches`, one for each function, may be NULL. */
tn__code tn__cc_launched(tn__arena *arena, const tn__cc_dialect *dialect, const tn__codegen_module *module,
                         tn__launches *launches);

/* ---- nests.c ----------------------------------------------------------------------------------------------------- */
bool tn__cc_has_blocks(const tn__stmt *s); /* or a parallel loop */
bool tn__cc_uses(const tn__stmt *s, const tn__buffer *buffer);
/* Passes for devices that are CPUs, behind the others. */
tn__func *tn__cc_settle_nests(tn__ir *ir, const tn__func *func);

/* ---- unit.c ------------------------------------------------------------------------------------------------------ */
tn__source tn__cc_unit(tn__arena *arena, const tn__cc_dialect *dialect, uint32_t language,
                       const tn__codegen_module *module);
/* Of a text that there is, and its launches, one list for each function. */
tn__source tn__cc_unit_of(tn__arena *arena, uint32_t language, const tn__codegen_module *module, tn__code text,
                          const tn__launches *launches);

/* ---- emit_thread.c, emit_private.c ------------------------------------------------------------------------------- */
int tn__cc_threads(const tn__launch *launch); /* of a block */
/* The condition that holds for one thread of those that differ in axes that no loop around is bound to; NULL: there is
 * one thread only. */
const char *tn__cc_one_thread(const tn__cc *cc);
/* Do two statements touch nothing that the other one writes? */
bool tn__cc_are_apart(const tn__cc *cc, const tn__stmt *a, const tn__stmt *b);
/* Does the loop, in a thread of a GPU, write one element alone, and read no other of that tensor? */
TN_MUST_USE bool tn__cc_keeps(const tn__cc *cc, const tn__stmt *loop, tn__cc_kept *out);
/* An allocation outside of loops over threads as one that each thread has a part of; NULL: they share it. */
const tn__stmt *tn__cc_private(tn__cc *cc, const tn__stmt *s);
void tn__cc_wait(tn__cc *cc); /* outside of loops over threads: all come by */
void tn__cc_entry(tn__cc *cc, const tn__c_entry *entry);

/* ---- emit_matrix.c, emit_copy.c, emit_stages.c: of CUDA ---------------------------------------------------------- */
/* An allocation of a block's sums of products of matrices as one of what each thread has of them; NULL: it is not. */
const tn__stmt *tn__cc_fragments(tn__cc *cc, const tn__stmt *s);
bool tn__cc_is_fragment(const tn__cc *cc, const tn__buffer *buffer);
/* Writes an instruction on matrices with the loops around it that step through their tiles; false: nothing was
 * written. */
bool tn__cc_matrix_product(tn__cc *cc, const tn__stmt *s);
/* Writes a vectorised loop that copies as one copy, where that can be at run time; false: nothing was written. */
bool tn__cc_copy(tn__cc *cc, const tn__stmt *s);
bool tn__cc_is_copy(const tn__cc *cc, const tn__stmt *s);
/* Writes a loop that copies into shared memory, and computes with it, in stages; false: nothing was written. */
bool tn__cc_stages(tn__cc *cc, const tn__stmt *s);

/* ---- support.c --------------------------------------------------------------------------------------------------- */
/* What `out` begins with, the paragraphs of support.txt that the text needs, and the text. */
tn__code tn__cc_finish(tn__arena *arena, const tn__cc_dialect *dialect, const char *text, tn__strbuf *out);
bool tn__cc_takes(const tn__target *target); /* rows' `takes`: compilers of C know what their machine can */

#endif
