/* The thread pool behind a kernel's parallel_for. */
#ifndef TENON_RUNTIME_POOL_H
#define TENON_RUNTIME_POOL_H

#include "tenon/kernel_abi.h"
#include "tenon/runtime.h"

/* Around the kernels of one invoke: between the two, workers may spin for the next parallel loop; behind the last end
 * they sleep, some 50 microseconds later when the invoke came as soon after the one before. */
void tn__pool_begin(tn_thread_pool *pool);
void tn__pool_end(tn_thread_pool *pool);
/* The environment that kernels get: its parallel_for runs on the pool, which must outlive it. */
tn_kernel_env tn__pool_env(tn_thread_pool *pool);

#endif
