#include "machine/ports.h"

#include <time.h>

enum { CHAINS = 10, TURNS = 30000, SHORT_ROUNDS = 40 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Instructions a second of a loop of ten of them, the best of several. */
static double rate_of(void (*loop)(void)) {
  double best = 0;
  if (loop == NULL) return 0;
  loop();
  for (int round = 0; round < SHORT_ROUNDS; round++) {
    double start = now();
    loop();
    double rate = (double)CHAINS * TURNS / (now() - start);
    if (rate > best) best = rate;
  }
  return best;
}

#if defined(__x86_64__)

#define REGISTERS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"
#define TEN(op, a)                                                                                               \
  op " %%" a "10, %%" a "11, %%" a "0\n" op " %%" a "10, %%" a "11, %%" a "1\n" op " %%" a "10, %%" a "11, %%" a \
     "2\n" op " %%" a "10, %%" a "11, %%" a "3\n" op " %%" a "10, %%" a "11, %%" a "4\n" op " %%" a "10, %%" a   \
     "11, %%" a "5\n" op " %%" a "10, %%" a "11, %%" a "6\n" op " %%" a "10, %%" a "11, %%" a "7\n" op " %%" a   \
     "10, %%" a "11, %%" a "8\n" op " %%" a "10, %%" a "11, %%" a "9\n"

#define CHAINED(a) "vfmadd231ps %%" a "10, %%" a "11, %%" a "0\n"
#define LOADS(a)                                                                                              \
  "vmovups (%0), %%" a "0\nvmovups 64(%0), %%" a "1\nvmovups 128(%0), %%" a "2\nvmovups 192(%0), %%" a        \
  "3\nvmovups 256(%0), %%" a "4\nvmovups 320(%0), %%" a "5\nvmovups 384(%0), %%" a "6\nvmovups 448(%0), %%" a \
  "7\nvmovups 512(%0), %%" a "8\nvmovups 576(%0), %%" a "9\n"
#define STORES(a)                                                                                 \
  "vmovups %%" a "0, (%0)\nvmovups %%" a "1, 64(%0)\nvmovups %%" a "2, 128(%0)\nvmovups %%" a     \
  "3, 192(%0)\n"                                                                                  \
  "vmovups %%" a "4, 256(%0)\nvmovups %%" a "5, 320(%0)\nvmovups %%" a "6, 384(%0)\nvmovups %%" a \
  "7, 448(%0)\n"                                                                                  \
  "vmovups %%" a "8, 512(%0)\nvmovups %%" a "9, 576(%0)\n"
#define TEN_CHAINED(a) \
  CHAINED(a) CHAINED(a) CHAINED(a) CHAINED(a) CHAINED(a) CHAINED(a) CHAINED(a) CHAINED(a) CHAINED(a) CHAINED(a)

static _Alignas(64) const char loaded[640];

__attribute__((target("avx2,fma"))) static void fma_128(void) {
  __asm__ volatile("vzeroall" ::: REGISTERS);
  for (int i = 0; i < TURNS; i++) __asm__ volatile(TEN("vfmadd231ps", "xmm")::: REGISTERS);
}

__attribute__((target("avx2,fma"))) static void fma_256(void) {
  __asm__ volatile("vzeroall" ::: REGISTERS);
  for (int i = 0; i < TURNS; i++) __asm__ volatile(TEN("vfmadd231ps", "ymm")::: REGISTERS);
}

__attribute__((target("avx512f"))) static void fma_512(void) {
  __asm__ volatile("vzeroall" ::: REGISTERS);
  for (int i = 0; i < TURNS; i++) __asm__ volatile(TEN("vfmadd231ps", "zmm")::: REGISTERS);
}

__attribute__((target("avx2,fma"))) static void chained_128(void) {
  __asm__ volatile("vzeroall" ::: REGISTERS);
  for (int i = 0; i < TURNS; i++) __asm__ volatile(TEN_CHAINED("xmm")::: REGISTERS);
}

__attribute__((target("avx2"))) static void load_128(void) {
  for (int i = 0; i < TURNS; i++) __asm__ volatile(LOADS("xmm")::"r"(loaded) : REGISTERS);
}

__attribute__((target("avx2"))) static void load_256(void) {
  for (int i = 0; i < TURNS; i++) __asm__ volatile(LOADS("ymm")::"r"(loaded) : REGISTERS);
}

__attribute__((target("avx512f"))) static void load_512(void) {
  for (int i = 0; i < TURNS; i++) __asm__ volatile(LOADS("zmm")::"r"(loaded) : REGISTERS);
}

__attribute__((target("avx2"))) static void store_256(void) {
  _Alignas(64) char stored[640];
  for (int i = 0; i < TURNS; i++) __asm__ volatile(STORES("ymm")::"r"(stored) : REGISTERS, "memory");
}

__attribute__((target("avx512f"))) static void store_512(void) {
  _Alignas(64) char stored[640];
  for (int i = 0; i < TURNS; i++) __asm__ volatile(STORES("zmm")::"r"(stored) : REGISTERS, "memory");
}

tn__machine_ports tn__machine_ports_of(const tn__target *target) {
  bool fused = target->arch == TN__ARCH_X86_64 && (target->features & TN__X86_FMA) && target->vector_bytes >= 32;
  if (!fused) return (tn__machine_ports){0};
  bool wide = target->vector_bytes == 64;
  return (tn__machine_ports){.fma = rate_of(fma_128),
                             .wide_fma = rate_of(wide ? fma_512 : fma_256),
                             .chained_fma = rate_of(chained_128),
                             .load = rate_of(load_128),
                             .wide_load = rate_of(wide ? load_512 : load_256),
                             .wide_store = rate_of(wide ? store_512 : store_256)};
}

#elif defined(__aarch64__)

static void turn_neon(void) {
  for (int i = 0; i < TURNS; i++)
    __asm__ volatile(
        "fmla v0.4s, v10.4s, v11.4s\nfmla v1.4s, v10.4s, v11.4s\nfmla v2.4s, v10.4s, v11.4s\n"
        "fmla v3.4s, v10.4s, v11.4s\nfmla v4.4s, v10.4s, v11.4s\nfmla v5.4s, v10.4s, v11.4s\n"
        "fmla v6.4s, v10.4s, v11.4s\nfmla v7.4s, v10.4s, v11.4s\nfmla v8.4s, v10.4s, v11.4s\n"
        "fmla v9.4s, v10.4s, v11.4s\n" ::
            : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9");
}

tn__machine_ports tn__machine_ports_of(const tn__target *target) {
  if (target->arch != TN__ARCH_AARCH64) return (tn__machine_ports){0};
  double fma = rate_of(turn_neon);
  return (tn__machine_ports){.fma = fma, .wide_fma = fma};
}

#endif
