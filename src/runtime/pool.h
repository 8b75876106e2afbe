/* The thread pool behind a kernel's parallel_for. */
#ifndef TENON_RUNTIME_POOL_H
#define TENON_RUNTIME_POOL_H

#include "base/linked.h"
#include "tenon/kernel_abi.h"
#include "tenon/runtime.h"

/* Around the kernels of one invoke: between the two, workers may spin for the next parallel loop; behind the last end
 * they sleep, some 50 microseconds later when the invoke came as soon after the one before. */
TN__LINKED void tn__pool_begin(tn_thread_pool *pool);
TN__LINKED void tn__pool_end(tn_thread_pool *pool);
/* The environment that kernels get: its parallel_for runs on the pool, which must outlive it. */
tn_kernel_env tn__pool_env(tn_thread_pool *pool);

/* Who runs kernels on a pool and may be told to stop. It stays where it is while they run. */
typedef struct tn__pool_caller {
  tn_thread_pool *pool;
  tn_kernel_env env;    /* what kernels get */
  tn_kernel_env inside; /* what the pieces of their parallel loops get: loops inside of these run where they are */
} tn__pool_caller;
void tn__pool_caller_init(tn__pool_caller *caller, tn_thread_pool *pool);

static inline bool tn__rt_is_cancelled(const tn_kernel_env *env) {
  return __builtin_expect(__atomic_load_n(&env->cancel, __ATOMIC_RELAXED) != 0, 0);
}

/* From any thread: tells the caller's kernels to stop, or no longer to. */
static inline void tn__pool_cancel(tn__pool_caller *caller, bool cancel) {
  __atomic_store_n(&caller->env.cancel, (int32_t)cancel, __ATOMIC_RELAXED);
  __atomic_store_n(&caller->inside.cancel, (int32_t)cancel, __ATOMIC_RELAXED);
}

#endif
