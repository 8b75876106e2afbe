/* Loop IR to machine code for CPUs, through LLVM 19's C API: explicit vector code, no reliance on LLVM's optimiser.
 *
 * Input is what tn__lower_for_codegen() returns: no blocks, no unrolled loops. Vectorised loops become vectors: an
 * expression that is affine with stride 1 in the vectorised variable is one vector load, stride 0 a broadcast, else a
 * gather (or per-lane loads); conditions on it become masks. Register buffers become SSA values (one alloca per vector
 * slot, then mem2reg). Parallel loops are outlined into tn_kernel_task functions. Intrinsics are expanded in IR with
 * the error bounds in docs/numerics.md. The object imports nothing.
 *
 * Threads: separate calls may run at once in different threads (each has its own LLVM context). LLVM aborts the process
 * when its own allocations fail: that is the documented limit. */
#ifndef TENON_CODEGEN_LLVM_CODEGEN_H
#define TENON_CODEGEN_LLVM_CODEGEN_H

#include "ir/stmt.h"
#include "target/target.h"

typedef enum tn__emit { TN__EMIT_OBJECT, TN__EMIT_ASSEMBLY, TN__EMIT_LLVM } tn__emit;

typedef struct tn__code {
  const void *data; /* in the arena given; assembly and LLVM text is NUL-terminated */
  size_t size;
} tn__code;

/* Facts that codegen finds out about a kernel. */
typedef struct tn__kernel_info {
  int64_t workspace_bytes; /* constant part of what buffers of TN__SCOPE_WORKSPACE need together; 0: no workspace buffer
                              is passed */
  const tn__expr *workspace_expr; /* when symbolic: bytes over the function's scalars; NULL when constant */
} tn__kernel_info;

/* The workspace that a function asks for: the same layout that tn__codegen_llvm uses. */
tn__kernel_info tn__kernel_workspace(tn__ir *ir, const tn__func *func);

/* Compiles `count` functions (with distinct names, each of its own ir context or a shared one) into one module. Each
 * becomes an exported symbol of type tn_kernel (kernel_abi.h). Throws on `arena`'s escape: TN_INTERNAL with LLVM's
 * words for what LLVM refuses. */
tn__code tn__codegen_llvm(tn__arena *arena, tn__ir *const *irs, const tn__func *const *funcs, int count,
                          const tn__target *target, tn__emit emit);

/* What LLVM knows of a target: making it takes longer than making code of a small kernel. Of one thread at a time, and
 * disposed of with the arena. */
typedef struct tn__codegen_machine tn__codegen_machine;
tn__codegen_machine *tn__codegen_machine_create(tn__arena *arena, const tn__target *target);

typedef struct tn__codegen_options {
  tn__codegen_machine *machine; /* of the same target; NULL: one of its own */
  bool unaligned_inputs;        /* kernels' inputs may lie at any address, whatever their type */
} tn__codegen_options;
tn__code tn__codegen_llvm_with(tn__arena *arena, const tn__codegen_options *options, tn__ir *const *irs,
                               const tn__func *const *funcs, int count, const tn__target *target, tn__emit emit);

/* A plain C function around a kernel, which becomes internal: `int32_t name([const tn_kernel_env *env,] int64_t
 * scalar..., inputs..., outputs...)`. Inputs of rank 0 are values, everything else pointers of any alignment that their
 * type allows. It checks the dimensions, takes working memory (small: the stack; else malloc), and without an
 * environment runs on the calling thread. */
typedef struct tn__c_entry {
  const char *name;
  bool takes_env;                /* NULL at run time: the calling thread */
  const tn__expr *const *checks; /* bool over the scalars: what fails is TN_KERNEL_BAD_DIMENSION */
  int check_count;
} tn__c_entry;
static inline bool tn__c_entry_by_value(const tn__func *func, int param) {
  return param < func->input_count && func->params[param]->rank == 0;
}
tn__code tn__codegen_llvm_entries(tn__arena *arena, tn__ir *const *irs, const tn__func *const *funcs,
                                  const tn__c_entry *entries, int count, const tn__target *target, tn__emit emit);

/* ---- flat images ------------------------------------------------------------------------------------------------- */

/* Relocates objects (ELF64 relocatable, x86-64 or AArch64, little-endian) against each other into one
 * position-independent image that imports nothing: a header-less sequence of bytes to be mapped read+execute at any
 * page boundary. Sections are placed by their alignment; every relocation must be PC-relative and resolvable inside;
 * anything else throws TN_INTERNAL naming the symbol. */
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
tn__image tn__link_image(tn__arena *arena, const tn__code *objects, int count);

#endif
