/* Code generators: one row each, which knows how loop IR becomes code for the targets that it takes. The driver asks
 * for the row of its target and goes through it, so that nothing but a generator's own folder knows what is behind.
 *
 * To add one: a folder below src/codegen with its row, and a line in backend.c.
 *
 * Memory comes from the arenas that are given; what cannot be done is thrown on their escape. Calls with different
 * arenas may run at once in different threads. */
#ifndef TENON_CODEGEN_BACKEND_H
#define TENON_CODEGEN_BACKEND_H

#include "ir/passes.h"
#include "target/target.h"

/* What is made of kernels: an object for `link`, a text to look at, or source for a compiler that is not here. */
typedef enum tn__emit {
  TN__EMIT_OBJECT,
  TN__EMIT_ASSEMBLY,
  TN__EMIT_LLVM,
  TN__EMIT_C99,
  TN__EMIT_OPENCL,
  TN__EMIT_CUDA
} tn__emit;

typedef struct tn__code {
  const void *data; /* in the arena given; texts are NUL-terminated */
  size_t size;
} tn__code;

/* Facts that a code generator finds out about a kernel. */
typedef struct tn__kernel_info {
  int64_t workspace_bytes; /* constant part of what buffers of TN__SCOPE_WORKSPACE need together; 0: no workspace buffer
                              is passed */
  const tn__expr *workspace_expr; /* when symbolic: bytes over the function's scalars; NULL when constant */
} tn__kernel_info;

/* A plain C function around a kernel, which becomes internal: `int32_t name([const tn_kernel_env *env,] int64_t
 * scalar..., inputs..., outputs...[, void *workspace, int64_t workspace_size])`. Inputs of rank 0 are values,
 * everything else pointers of any alignment that their type allows. It checks the dimensions, takes working memory (the
 * caller's, or else small: the stack, large: malloc), and without an environment runs on the calling thread. Where the
 * caller gives the memory, `int64_t name_workspace_size(int64_t scalar...)` says how much is wanted, at any address. */
#define TN__C_ENTRY_SIZE_FORMAT "%s_workspace_size"
typedef struct tn__c_entry {
  const char *name;
  bool takes_env; /* NULL at run time: the calling thread */
  bool takes_workspace;
  const tn__expr *const *checks; /* bool over the scalars: what fails is TN_KERNEL_BAD_DIMENSION */
  int check_count;
  const int *over; /* by output: the input that it takes the memory of, and that has the only argument for both; -1 or
                      NULL: none */
} tn__c_entry;
static inline int tn__c_entry_over(const tn__c_entry *entry, const tn__func *func, int param) {
  return entry->over == NULL || param < func->input_count ? -1 : entry->over[param - func->input_count];
}
static inline bool tn__c_entry_by_value(const tn__func *func, int param) {
  return param < func->input_count && func->params[param]->rank == 0;
}

/* What a generator knows of a target and would have to find out for each module. Of one thread at a time, and disposed
 * of with its arena. */
typedef struct tn__codegen_machine tn__codegen_machine;

/* What one module is made of: `count` functions with distinct names, each of its own ir context or a shared one. */
typedef struct tn__codegen_module {
  tn__ir *const *irs;
  const tn__func *const *funcs; /* as `lower` left them */
  const tn__c_entry *entries;   /* one for each function; NULL: the functions are kernels (kernel_abi.h) */
  int count;
  const tn__target *target;
  tn__codegen_machine *machine; /* of the same target; NULL: one of its own */
  bool unaligned_inputs;        /* kernels' inputs may lie at any address, whatever their type */
} tn__codegen_module;

typedef struct tn__image_symbol {
  const char *name;
  uint64_t offset, size; /* with the parallel tasks and helpers behind it, so that profilers count them in */
} tn__image_symbol;
typedef struct tn__image {
  const uint8_t *data;
  size_t size;
  const tn__image_symbol *symbols; /* the global functions, in order of offset */
  int symbol_count;
} tn__image;

/* A module as a source unit (runtime/format/source_unit.h). */
typedef struct tn__source_kernel_use {
  uint64_t offset; /* of the kernel's record */
  /* Over the function's scalars: whoever launches hands these over behind the scalars, as grids have them. */
  TN__VEC(const tn__expr *) extents;
} tn__source_kernel_use;
typedef struct tn__source {
  const void *data;
  size_t size;
  const tn__source_kernel_use *kernels; /* one for each function */
} tn__source;

typedef struct tn__backend {
  unsigned kinds;                          /* a bit for each tn__target_kind that it is for */
  unsigned emits;                          /* a bit for each tn__emit that `compile` makes */
  bool (*takes)(const tn__target *target); /* one of its kind */
  /* The passes between a schedule and this generator; hooks may be NULL. */
  tn__func *(*lower)(tn__ir *ir, const tn__func *func, const tn__pass_hooks *hooks);
  /* The workspace that a lowered function asks for: the layout that its code has. */
  tn__kernel_info (*measure)(tn__ir *ir, const tn__func *func);
  tn__codegen_machine *(*prepare)(tn__arena *arena, const tn__target *target);
  tn__code (*compile)(tn__arena *arena, const tn__codegen_module *module, tn__emit emit);
  /* Objects against each other into the image that executables hold, which needs nothing from outside. */
  tn__image (*link)(tn__arena *arena, const tn__code *objects, int count);
  /* Where source is what executables hold, instead of objects and `link`; else NULL. */
  tn__source (*unit)(tn__arena *arena, const tn__codegen_module *module);
} tn__backend;

/* The row that makes objects for the target; TN_UNSUPPORTED when none does. */
TN_MUST_USE tn_status *tn__backend_find(const tn__target *target, const tn__backend **out);
/* The same, thrown on the escape. */
const tn__backend *tn__backend_of(tn__escape *escape, const tn__target *target);
/* The row that makes what executables hold for the target: a source unit, or objects. */
TN_MUST_USE tn_status *tn__backend_find_code(const tn__target *target, const tn__backend **out);
/* The first row for the target, whatever it makes: whose passes its functions go through. */
TN_MUST_USE tn_status *tn__backend_find_any(const tn__target *target, const tn__backend **out);
/* The row for the target that makes this; `what` is its name for the message. */
const tn__backend *tn__backend_that_emits(tn__escape *escape, const tn__target *target, tn__emit emit,
                                          const char *what);

/* The rows, each defined in its folder. */
extern const tn__backend tn__backend_llvm;       /* codegen/llvm: CPUs */
extern const tn__backend tn__backend_c99;        /* codegen/c: CPUs that have a compiler of C and no other */
extern const tn__backend tn__backend_c99_of_cpu; /* codegen/c: the same text for CPUs that have machine code, too */
extern const tn__backend tn__backend_opencl;     /* codegen/c: whatever compiles OpenCL C */
extern const tn__backend tn__backend_cuda;       /* codegen/c: NVIDIA's GPUs */

#endif
