/* What this machine has: CPU features from cpuid with the operating system's consent (xgetbv), or from the auxiliary
 * vector; caches from sysfs, else cpuid. No LLVM: the runtime asks too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/cpus.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

/* A level that is said to be there; `sets`: 0 where nothing tells. */
static bool set_level(int level, int64_t bytes, int64_t sets, tn__machine *machine) {
  if (bytes <= 0 || level < 1 || level > 3) return false;
  *(level == 1 ? &machine->l1_bytes : level == 2 ? &machine->l2_bytes : &machine->l3_bytes) = bytes;
  if (level == 1 && sets > 0 && sets <= TN__MOST_L1_SETS) machine->costs.l1_sets = (int)sets;
  return true;
}

#if defined(__x86_64__)

enum { EAX, EBX, ECX, EDX };
/* XCR0 bits: which register state the operating system saves (Intel SDM vol. 1, 13.3). */
#define XCR0_AVX 0x6u
#define XCR0_AVX512 0xe6u
#define XCR0_AMX 0x60000u

typedef struct cpuid_row {
  tn__features bit;
  uint32_t leaf, subleaf;
  int reg, position;
  uint32_t xcr0;
} cpuid_row;

/* Rows of one leaf stand together. */
static const cpuid_row cpuid_rows[] = {
    {TN__X86_SSE3, 1, 0, ECX, 0, 0},
    {TN__X86_SSSE3, 1, 0, ECX, 9, 0},
    {TN__X86_FMA, 1, 0, ECX, 12, XCR0_AVX},
    {TN__X86_SSE41, 1, 0, ECX, 19, 0},
    {TN__X86_SSE42, 1, 0, ECX, 20, 0},
    {TN__X86_MOVBE, 1, 0, ECX, 22, 0},
    {TN__X86_POPCNT, 1, 0, ECX, 23, 0},
    {TN__X86_AVX, 1, 0, ECX, 28, XCR0_AVX},
    {TN__X86_F16C, 1, 0, ECX, 29, XCR0_AVX},
    {TN__X86_BMI, 7, 0, EBX, 3, 0},
    {TN__X86_AVX2, 7, 0, EBX, 5, XCR0_AVX},
    {TN__X86_BMI2, 7, 0, EBX, 8, 0},
    {TN__X86_AVX512F, 7, 0, EBX, 16, XCR0_AVX512},
    {TN__X86_AVX512DQ, 7, 0, EBX, 17, XCR0_AVX512},
    {TN__X86_AVX512CD, 7, 0, EBX, 28, XCR0_AVX512},
    {TN__X86_AVX512BW, 7, 0, EBX, 30, XCR0_AVX512},
    {TN__X86_AVX512VL, 7, 0, EBX, 31, XCR0_AVX512},
    {TN__X86_AVX512VBMI, 7, 0, ECX, 1, XCR0_AVX512},
    {TN__X86_AVX512VNNI, 7, 0, ECX, 11, XCR0_AVX512},
    {TN__X86_AVX512VPOPCNTDQ, 7, 0, ECX, 14, XCR0_AVX512},
    {TN__X86_AMX_BF16, 7, 0, EDX, 22, XCR0_AMX},
    {TN__X86_AVX512FP16, 7, 0, EDX, 23, XCR0_AVX512},
    {TN__X86_AMX_TILE, 7, 0, EDX, 24, XCR0_AMX},
    {TN__X86_AMX_INT8, 7, 0, EDX, 25, XCR0_AMX},
    {TN__X86_AVXVNNI, 7, 1, EAX, 4, XCR0_AVX},
    {TN__X86_AVX512BF16, 7, 1, EAX, 5, XCR0_AVX512},
    {TN__X86_LZCNT, 0x80000001u, 0, ECX, 5, 0},
};

static uint32_t read_xcr0(void) {
  uint32_t r[4] = {0};
  if (!__get_cpuid(1, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) || !(r[ECX] & (1u << 27))) return 0; /* no OSXSAVE */
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/* Each leaf is asked for once: in a virtual machine cpuid goes to the hypervisor, and takes as long as thousands of
 * other instructions. */
tn__features tn__host_features(void) {
  tn__features found = 0;
  uint32_t xcr0 = read_xcr0(), r[4] = {0};
  const cpuid_row *before = NULL;
  for (size_t i = 0; i < sizeof(cpuid_rows) / sizeof(cpuid_rows[0]); i++) {
    const cpuid_row *row = &cpuid_rows[i];
    bool same = before != NULL && before->leaf == row->leaf && before->subleaf == row->subleaf;
    if (!same && !__get_cpuid_count(row->leaf, row->subleaf, &r[EAX], &r[EBX], &r[ECX], &r[EDX]))
      memset(r, 0, sizeof(r)); /* there is no such leaf */
    before = row;
    if ((xcr0 & row->xcr0) == row->xcr0 && (r[row->reg] & (1u << row->position))) found |= row->bit;
  }
  return found;
}

tn__arch tn__host_arch(void) { return TN__ARCH_X86_64; }

/* Linux lends the state of the AMX tiles only to processes that ask (arch_prctl(2), ARCH_REQ_XCOMP_PERM, XTILEDATA). */
static bool ask_for_tiles(void) {
#if defined(SYS_arch_prctl)
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
#else
  return false;
#endif
}

tn__features tn__host_granted(tn__features needed) {
  tn__features have = tn__host_features();
  if ((needed & have & TN__X86_AMX_TILE) && !ask_for_tiles())
    have &= ~(TN__X86_AMX_TILE | TN__X86_AMX_BF16 | TN__X86_AMX_INT8);
  return have;
}

/* Deterministic cache parameters: leaf 4 (Intel), or the same layout at leaf 0x8000001d (AMD). */
static bool cpuid_caches(tn__machine *machine) {
  static const uint32_t leaves[2] = {4, 0x8000001du};
  bool found = false;
  for (int which = 0; which < 2 && !found; which++) {
    for (uint32_t i = 0; i < 16; i++) {
      uint32_t a = 0, b = 0, c = 0, d = 0;
      if (!__get_cpuid_count(leaves[which], i, &a, &b, &c, &d) || (a & 31) == 0) break;
      if ((a & 31) == 2) continue; /* instructions */
      int64_t sets = (int64_t)c + 1, way = (int64_t)((b >> 12 & 0x3ff) + 1) * ((b & 0xfff) + 1) * sets;
      set_level((int)(a >> 5 & 7), ((b >> 22) + 1) * way, sets, machine);
      found = true;
    }
  }
  return found;
}

tn__cpu_id tn__host_cpu(void) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  char maker[13] = "";
  if (!__get_cpuid(0, &a, &b, &c, &d)) return (tn__cpu_id){0};
  memcpy(maker, &b, 4), memcpy(maker + 4, &d, 4), memcpy(maker + 8, &c, 4);
  if (!__get_cpuid(1, &a, &b, &c, &d)) return (tn__cpu_id){0};
  return tn__cpu_id_of_leaf(maker, a);
}

#elif defined(__aarch64__)

/* Bits of AT_HWCAP and AT_HWCAP2 (Linux, <asm/hwcap.h>). */
tn__features tn__host_features(void) {
  unsigned long cap = getauxval(AT_HWCAP), cap2 = getauxval(AT_HWCAP2);
  const unsigned long half = (1ul << 9) | (1ul << 10); /* FPHP and ASIMDHP */
  tn__features found = 0;
  if (cap & (1ul << 1)) found |= TN__ARM_NEON;
  if ((cap & half) == half) found |= TN__ARM_FULLFP16;
  if (cap & (1ul << 20)) found |= TN__ARM_DOTPROD;
  if (cap & (1ul << 22)) found |= TN__ARM_SVE;
  if (cap2 & (1ul << 13)) found |= TN__ARM_I8MM;
  if (cap2 & (1ul << 14)) found |= TN__ARM_BF16;
  return found;
}

tn__arch tn__host_arch(void) { return TN__ARCH_AARCH64; }
tn__features tn__host_granted(tn__features needed) { return tn__host_features(); }
static bool cpuid_caches(tn__machine *machine) { return false; }

#else
#error "Tenon runs on x86-64 and AArch64"
#endif

TN_MUST_USE static bool read_line(const char *path, char *line, int size) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  bool ok = fgets(line, size, file) != NULL;
  fclose(file);
  return ok;
}

#if defined(__aarch64__)
tn__cpu_id tn__host_cpu(void) {
  char line[64];
  if (!read_line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", line, sizeof(line)))
    return (tn__cpu_id){0};
  return tn__cpu_id_of_midr(strtoull(line, NULL, 16));
}
#endif

/* "48K", "2048K", "32M" */
static int64_t parse_size(const char *text) {
  char *end;
  long long n = strtoll(text, &end, 10);
  if (n <= 0 || n > 1 << 30) return 0;
  return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

TN_MUST_USE static bool read_of_cache(const char *root, int index, const char *name, char *line, int size) {
  char path[512];
  snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpu0/cache/index%d/%s", root, index, name);
  return read_line(path, line, size);
}

void tn__host_caches(const char *root, tn__machine *machine) {
  bool found = false;
  char line[64];
  for (int i = 0; i < 16 && read_of_cache(root, i, "type", line, sizeof(line)); i++) {
    if (line[0] == 'I') continue; /* Instruction; the others are Data and Unified */
    if (!read_of_cache(root, i, "level", line, sizeof(line))) continue;
    int level = atoi(line);
    if (!read_of_cache(root, i, "size", line, sizeof(line))) continue;
    int64_t bytes = parse_size(line);
    int64_t sets = read_of_cache(root, i, "number_of_sets", line, sizeof(line)) ? atoi(line) : 0;
    found |= set_level(level, bytes, sets, machine);
  }
  if (!found && root[0] == '\0') cpuid_caches(machine);
}
