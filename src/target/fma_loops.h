/* Loops of multiply-adds, to find out how many a core does. A turn is ten of them, none of which waits for another,
 * which hides a latency of five cycles on two ports. In assembly, so that a build without optimisation measures the
 * same. Registers start at zero. Whoever calls one knows that the machine has the instructions. */
#ifndef TENON_TARGET_FMA_LOOPS_H
#define TENON_TARGET_FMA_LOOPS_H

enum { TN__FMA_CHAINS = 10 };

#if defined(__x86_64__)

#define TN__FMA_REGISTERS \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"
#define TN__FMA_TEN(op, a)                                                                                       \
  op " %%" a "10, %%" a "11, %%" a "0\n" op " %%" a "10, %%" a "11, %%" a "1\n" op " %%" a "10, %%" a "11, %%" a \
     "2\n" op " %%" a "10, %%" a "11, %%" a "3\n" op " %%" a "10, %%" a "11, %%" a "4\n" op " %%" a "10, %%" a   \
     "11, %%" a "5\n" op " %%" a "10, %%" a "11, %%" a "6\n" op " %%" a "10, %%" a "11, %%" a "7\n" op " %%" a   \
     "10, %%" a "11, %%" a "8\n" op " %%" a "10, %%" a "11, %%" a "9\n"

__attribute__((target("avx2,fma"))) static inline void tn__fma_128(int turns) {
  __asm__ volatile("vzeroall" ::: TN__FMA_REGISTERS);
  for (int i = 0; i < turns; i++) __asm__ volatile(TN__FMA_TEN("vfmadd231ps", "xmm")::: TN__FMA_REGISTERS);
}

__attribute__((target("avx2,fma"))) static inline void tn__fma_256(int turns) {
  __asm__ volatile("vzeroall" ::: TN__FMA_REGISTERS);
  for (int i = 0; i < turns; i++) __asm__ volatile(TN__FMA_TEN("vfmadd231ps", "ymm")::: TN__FMA_REGISTERS);
}

__attribute__((target("avx512f"))) static inline void tn__fma_512(int turns) {
  __asm__ volatile("vzeroall" ::: TN__FMA_REGISTERS);
  for (int i = 0; i < turns; i++) __asm__ volatile(TN__FMA_TEN("vfmadd231ps", "zmm")::: TN__FMA_REGISTERS);
}

#elif defined(__aarch64__)

static inline void tn__fma_128(int turns) {
  for (int i = 0; i < turns; i++)
    __asm__ volatile(
        "fmla v0.4s, v10.4s, v11.4s\nfmla v1.4s, v10.4s, v11.4s\nfmla v2.4s, v10.4s, v11.4s\n"
        "fmla v3.4s, v10.4s, v11.4s\nfmla v4.4s, v10.4s, v11.4s\nfmla v5.4s, v10.4s, v11.4s\n"
        "fmla v6.4s, v10.4s, v11.4s\nfmla v7.4s, v10.4s, v11.4s\nfmla v8.4s, v10.4s, v11.4s\n"
        "fmla v9.4s, v10.4s, v11.4s\n" ::
            : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9");
}

#endif

#endif
