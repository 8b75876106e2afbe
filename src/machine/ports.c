#include "machine/ports.h"

#include "base/clock.h"
#include "target/fma_loops.h"

enum { TURNS = 30000, SHORT_ROUNDS = 20 };

/* Instructions a second of a loop of ten of them, the best of several. */
static double rate_of(void (*loop)(int)) {
  double best = 0;
  if (loop == NULL) return 0;
  loop(TURNS);
  for (int round = 0; round < SHORT_ROUNDS; round++) {
    double start = tn__now();
    loop(TURNS);
    double rate = (double)TN__FMA_CHAINS * TURNS / (tn__now() - start);
    if (rate > best) best = rate;
  }
  return best;
}

#if defined(__x86_64__)

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

__attribute__((target("avx2,fma"))) static void chained_128(int turns) {
  __asm__ volatile("vzeroall" ::: TN__FMA_REGISTERS);
  for (int i = 0; i < turns; i++) __asm__ volatile(TEN_CHAINED("xmm")::: TN__FMA_REGISTERS);
}

__attribute__((target("avx2"))) static void load_128(int turns) {
  for (int i = 0; i < turns; i++) __asm__ volatile(LOADS("xmm")::"r"(loaded) : TN__FMA_REGISTERS);
}

__attribute__((target("avx2"))) static void load_256(int turns) {
  for (int i = 0; i < turns; i++) __asm__ volatile(LOADS("ymm")::"r"(loaded) : TN__FMA_REGISTERS);
}

__attribute__((target("avx512f"))) static void load_512(int turns) {
  for (int i = 0; i < turns; i++) __asm__ volatile(LOADS("zmm")::"r"(loaded) : TN__FMA_REGISTERS);
}

__attribute__((target("avx2"))) static void store_256(int turns) {
  _Alignas(64) char stored[640];
  for (int i = 0; i < turns; i++) __asm__ volatile(STORES("ymm")::"r"(stored) : TN__FMA_REGISTERS, "memory");
}

__attribute__((target("avx512f"))) static void store_512(int turns) {
  _Alignas(64) char stored[640];
  for (int i = 0; i < turns; i++) __asm__ volatile(STORES("zmm")::"r"(stored) : TN__FMA_REGISTERS, "memory");
}

/* Loops with vectors of each width. */
static const struct {
  int vector_bytes;
  void (*fma)(int), (*load)(int), (*store)(int);
} wide_loops[] = {{32, tn__fma_256, load_256, store_256}, {64, tn__fma_512, load_512, store_512}};

tn__machine_ports tn__machine_ports_of(const tn__target *target) {
  if (!tn__target_runs_here(target) || !tn__target_can(target, TN__CAN_FMA)) return (tn__machine_ports){0};
  for (size_t i = 0; i < sizeof wide_loops / sizeof wide_loops[0]; i++)
    if (wide_loops[i].vector_bytes == target->cpu.vector_bytes)
      return (tn__machine_ports){.fma = rate_of(tn__fma_128),
                                 .wide_fma = rate_of(wide_loops[i].fma),
                                 .chained_fma = rate_of(chained_128),
                                 .load = rate_of(load_128),
                                 .wide_load = rate_of(wide_loops[i].load),
                                 .wide_store = rate_of(wide_loops[i].store)};
  return (tn__machine_ports){0};
}

#elif defined(__aarch64__)

tn__machine_ports tn__machine_ports_of(const tn__target *target) {
  if (!tn__target_runs_here(target)) return (tn__machine_ports){0};
  double fma = rate_of(tn__fma_128);
  return (tn__machine_ports){.fma = fma, .wide_fma = fma};
}

#endif
