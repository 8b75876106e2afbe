/* Loop IR to machine code for CPUs, through LLVM 19's C API: explicit vector code, no reliance on LLVM's optimiser. The
 * row that the driver sees is tn__backend_llvm (codegen/backend.h); this header is for the tests of its parts.
 *
 * Input is what tn__ir_lower_for_codegen() returns: no blocks, no unrolled loops. Vectorised loops become vectors: an
 * expression that is affine with stride 1 in the vectorised variable is one vector load, stride 0 a broadcast, else a
 * gather (or per-lane loads); conditions on it become masks. Register buffers become SSA values (one alloca per vector
 * slot, then mem2reg). Parallel loops are outlined into tn_kernel_task functions. Intrinsics are expanded in IR with
 * the error bounds in docs/numerics.md. The object imports nothing.
 *
 * Threads: separate calls may run at once in different threads (each has its own LLVM context). LLVM aborts the process
 * when its own allocations fail: that is the documented limit. */
#ifndef TENON_CODEGEN_LLVM_CODEGEN_H
#define TENON_CODEGEN_LLVM_CODEGEN_H

#include "codegen/backend.h"

/* The workspace that a function asks for: the same layout that tn__codegen_llvm uses. */
tn__kernel_info tn__cg_kernel_workspace(tn__ir *ir, const tn__func *func);

/* What LLVM knows of a target: making it takes longer than making code of a small kernel. */
tn__codegen_machine *tn__codegen_machine_create(tn__arena *arena, const tn__target *target);

/* Each function becomes an exported symbol of type tn_kernel (kernel_abi.h), or its entry does. Throws on `arena`'s
 * escape: TN_INTERNAL with LLVM's words for what LLVM refuses. */
tn__code tn__codegen_llvm(tn__arena *arena, const tn__codegen_module *module, tn__emit emit);

/* Relocates objects (ELF64 relocatable, x86-64 or AArch64, little-endian) against each other into one
 * position-independent image that imports nothing: a header-less sequence of bytes to be mapped read+execute at any
 * page boundary. Sections are placed by their alignment; every relocation must be PC-relative and resolvable inside;
 * anything else throws TN_INTERNAL naming the symbol. */
tn__image tn__cg_link_image(tn__arena *arena, const tn__code *objects, int count);

#endif
