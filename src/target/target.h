/* What kernels are compiled for: instruction set, vector width, caches, cores. Also which of it this machine has. */
#ifndef TENON_TARGET_TARGET_H
#define TENON_TARGET_TARGET_H

#include "tenon/base.h"

typedef enum tn__arch { TN__ARCH_X86_64, TN__ARCH_AARCH64 } tn__arch;

/* Features that Tenon's generated code depends on, as bits; the names are LLVM's (one table in target.c: bit, LLVM name, arch, how
 * cpuid or the auxiliary vector tells). */
typedef uint64_t tn__features;

typedef struct tn__target {
  char name[64]; /* canonical text: reads back as the same target: "x86-64-v3", "aarch64", or "x86-64-v4+avx512bf16,..." */
  tn__arch arch;
  tn__features features;
  int vector_bytes;     /* 16, 32 or 64: the width kernels use */
  int vector_registers; /* 16 or 32 */
  int64_t l1_bytes, l2_bytes, l3_bytes; /* data caches of one core; l3 is the share of one core group */
  int cores;
} tn__target;

/* "native" (or NULL): this machine. "x86-64", "x86-64-v2", "-v3", "-v4", "aarch64": baselines with typical caches; each may be followed
 * by "+feature" or "-feature" items ("x86-64-v3+avx512f"). Unknown names are TN_INVALID_ARGUMENT and list what is known. */
TN_MUST_USE tn_status *tn__target_parse(const char *text, tn__target *out);
/* Features of `needed` that `have` lacks, as "avx512f, avx512vl" into `text` (truncated with "..." if it does not fit); false if none. */
bool tn__target_missing(tn__arch arch, tn__features needed, tn__features have, char *text, size_t size);
/* LLVM's spelling of triple, cpu and features ("+avx2,+fma"); the strings are NUL-terminated in the caller's arrays. */
void tn__target_llvm(const tn__target *target, char triple[64], char cpu[32], char features[1024]);
tn__features tn__host_features(void); /* 0 on an unknown architecture */
tn__arch tn__host_arch(void);
/* Threads to use by default: cores of the affinity mask, limited by the cgroup's CPU quota (v1 and v2), at least 1. */
int tn__default_thread_count(void);

/* Where a value lives and for what it is compiled (TVM's VirtualDevice): device type and id are DLPack's. Partly known while planning;
 * -1, NULL mean unknown. */
typedef struct tn__virtual_device {
  int device_type; /* kDLCPU = 1 */
  int device_id;
  const tn__target *target;
  const char *memory_scope; /* "" is the default memory */
} tn__virtual_device;

#endif
