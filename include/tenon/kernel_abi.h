/* The contract between generated code and whoever calls it. Includes nothing but <stdint.h>; stands alone.
 *
 * A kernel is one C function. It reads and writes dense row-major buffers, allocates nothing, calls nothing but the
 * functions of its environment, keeps no state and may run in several threads at once on different buffers. Buffers of
 * inputs and outputs need no more than the alignment of their element type, unless their executable is of a format
 * before 1.5; a workspace is aligned to TN_KERNEL_ALIGNMENT. */
#ifndef TENON_KERNEL_ABI_H
#define TENON_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

#define TN_KERNEL_ABI_VERSION 1u /* of this contract */
#define TN_KERNEL_ALIGNMENT 64   /* of workspaces, in bytes */

/* What a kernel returns. Anything else is a defect. */
typedef enum tn_kernel_result {
  TN_KERNEL_OK = 0,                 /* all was computed */
  TN_KERNEL_INDEX_OUT_OF_RANGE = 1, /* a data-dependent index (gather, scatter, one_hot ...) is outside of its axis */
  TN_KERNEL_DIVISION_BY_ZERO = 2,   /* integer division or remainder by zero */
  TN_KERNEL_BAD_VALUE = 3,          /* an operand's value is outside of what the operator allows */
  TN_KERNEL_CANCELLED = 4,          /* the environment said to stop: its `cancel` */
  /* Of the plain C functions that `tenon build` makes around kernels, not of kernels: */
  TN_KERNEL_NO_MEMORY = 5,    /* no working memory */
  TN_KERNEL_BAD_DIMENSION = 6 /* a dimension is outside of what the kernel allows */
} tn_kernel_result;

typedef struct tn_kernel_env tn_kernel_env; /* what a kernel may call: its caller's threads */

/* The body of a parallel loop: runs iterations [begin, end) and returns a tn_kernel_result. */
typedef int32_t (*tn_kernel_task)(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end);

/* What a kernel may call. NULL in its place: it runs on the calling thread alone. */
struct tn_kernel_env {
  uint32_t version; /* TN_KERNEL_ABI_VERSION */
  uint32_t size;    /* sizeof(tn_kernel_env) of the caller; later versions only append */
  /* Runs `task` over [0, count) in pieces, on this thread and perhaps others, and returns when all are done: 0, or the
   * result of a piece that failed. `closure` is passed through. Pieces are disjoint and cover everything exactly
   * once. */
  int32_t (*parallel_for)(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count);
  int32_t thread_count; /* how many threads parallel_for uses at most; at least 1 */
  /* Anything but 0, from any thread and at any time (atomically): stop. Kernels look at it in long loops, at least once
   * in some 10 ms of work that takes its usual time, and parallel_for does between pieces; what they return is
   * TN_KERNEL_CANCELLED then, and what they have written may be anything. Kernels of executables of before this was
   * here don't look. */
  int32_t cancel;
  void *user; /* the caller's own */
};

/* `buffers`: inputs, then outputs, then one workspace when the kernel's descriptor asks for one. `scalars`: the values
 * of the kernel's symbolic dimensions in the order of its descriptor. Neither is written to. */
typedef int32_t (*tn_kernel)(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars);

#ifdef __cplusplus
}
#endif
#endif
