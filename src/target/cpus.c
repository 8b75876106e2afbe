#include "target/cpus.h"

#include <stdio.h>
#include <string.h>

#define KB ((int64_t)1 << 10)
#define MB ((int64_t)1 << 20)

/* Ports, widths and latencies are of Agner Fog's "Instruction tables" and "The microarchitecture of Intel, AMD and VIA
 * CPUs", of uops.info, and of the makers' guides: Intel's "64 and IA-32 Architectures Optimization Reference Manual",
 * AMD's "Software Optimization Guide" for the families 17h, 19h and 1Ah, Arm's for Neoverse N1 and V1; Apple's cores
 * are as Dougall Johnson's tables have them. The rates of caches and memory are what one core sustains, about half of
 * what makers state. L3 is that which a usual model's group of cores shares.
 *
 * A port that halves wide vectors, as Zen 4's do, counts with the bytes that it does in a cycle. The numbers of a core
 * are in tn__core's order: multiply-adds (ports, bytes, latency), loads (ports, bytes), bytes of stores, of shuffles,
 * instructions started, rates of L2, of L3 and of memory, clock. Costs are the usual ones but for what is named. */
const tn__cpu tn__cpus[] = {
    {"haswell",
     "x86-64-v3",
     32,
     {32 * KB, 256 * KB, 8 * MB, {2, 64, 5, 2, 64, 32, 32, 4, 26, 10, 4, 3400}, TN__USUAL_COSTS}},
    {"skylake",
     "x86-64-v3",
     32,
     {32 * KB, 256 * KB, 8 * MB, {2, 64, 4, 2, 64, 32, 32, 4, 30, 12, 5, 3800}, TN__USUAL_COSTS}},
    {"skylake-avx512",
     "x86-64-v4",
     64,
     {32 * KB, 1 * MB, 22 * MB, {2, 128, 4, 2, 128, 64, 64, 4, 40, 7, 4, 2800}, TN__USUAL_COSTS}},
    {"icelake-server",
     "x86-64-v4+avx512vbmi+avx512vnni+avx512vpopcntdq",
     64,
     {48 * KB, 1280 * KB, 48 * MB, {2, 128, 4, 2, 128, 64, 64, 5, 42, 8, 4, 3000}, TN__USUAL_COSTS}},
    {"sapphirerapids",
     "x86-64-v4+avx512bf16+avx512vbmi+avx512vnni+avx512vpopcntdq+avx512fp16+amx-bf16+amx-int8+avxvnni",
     64,
     {48 * KB, 2 * MB, 60 * MB, {2, 128, 4, 2, 128, 64, 64, 6, 48, 8, 4, 3500}, TN__COSTS(3)}},
    /* its large cores */
    {"alderlake",
     "x86-64-v3+avxvnni",
     32,
     {48 * KB, 1280 * KB, 30 * MB, {2, 64, 4, 3, 96, 64, 64, 6, 40, 12, 6, 4800}, TN__USUAL_COSTS}},
    {"znver2",
     "x86-64-v3",
     32,
     {32 * KB, 512 * KB, 16 * MB, {2, 64, 5, 2, 64, 32, 64, 6, 26, 14, 4, 3300}, TN__USUAL_COSTS}},
    {"znver3",
     "x86-64-v3",
     32,
     {32 * KB, 512 * KB, 32 * MB, {2, 64, 4, 3, 64, 32, 64, 6, 28, 16, 4, 3400}, TN__USUAL_COSTS}},
    {"znver4",
     "x86-64-v4+avx512bf16+avx512vbmi+avx512vnni+avx512vpopcntdq",
     64,
     {32 * KB, 1 * MB, 32 * MB, {2, 64, 4, 2, 64, 32, 64, 6, 30, 18, 4, 3700}, TN__USUAL_COSTS}},
    {"znver5",
     "x86-64-v4+avx512bf16+avx512vbmi+avx512vnni+avx512vpopcntdq+avxvnni",
     64,
     {48 * KB, 1 * MB, 32 * MB, {2, 128, 4, 2, 128, 64, 128, 8, 44, 18, 5, 4000}, TN__USUAL_COSTS}},
    {"neoverse-n1",
     "aarch64+fullfp16+dotprod",
     16,
     {64 * KB, 1 * MB, 32 * MB, {2, 32, 4, 2, 32, 16, 32, 4, 20, 8, 4, 2600}, TN__USUAL_COSTS}},
    /* four ports of 128 bits, which SVE would take in pairs */
    {"neoverse-v1",
     "aarch64+fullfp16+dotprod+bf16+i8mm",
     16,
     {64 * KB, 1 * MB, 32 * MB, {4, 64, 4, 3, 48, 32, 64, 8, 30, 10, 6, 2600}, TN__USUAL_COSTS}},
    /* its large cores: L2 is a quarter of what four of them share, L3 the system's */
    {"apple-m1",
     "aarch64+fullfp16+dotprod",
     16,
     {128 * KB, 3 * MB, 8 * MB, {4, 64, 4, 3, 48, 32, 64, 8, 24, 16, 12, 3200}, TN__USUAL_COSTS}},
    {.name = ""}};

/* ---- which one it is --------------------------------------------------------------------------------------------- */

#define AMD "AuthenticAMD"
#define INTEL "GenuineIntel"
#define FIRST_WITH_TILES "sapphirerapids"
#define ARM "ARM"

/* Models of the same core as the makers' lists and LLVM's have them. Zen 5 of notebooks, which halves 512-bit vectors,
 * is not the znver5 of the table. */
static const struct {
  char maker[13];
  uint8_t family;
  uint16_t first, last; /* models */
  char name[16];
} id_rows[] = {
    {INTEL, 6, 0x3c, 0x3c, "haswell"},        {INTEL, 6, 0x3f, 0x3f, "haswell"},
    {INTEL, 6, 0x45, 0x46, "haswell"},        {INTEL, 6, 0x4e, 0x4e, "skylake"},
    {INTEL, 6, 0x5e, 0x5e, "skylake"},        {INTEL, 6, 0x8e, 0x8e, "skylake"},
    {INTEL, 6, 0x9e, 0x9e, "skylake"},        {INTEL, 6, 0xa5, 0xa6, "skylake"},
    {INTEL, 6, 0x55, 0x55, "skylake-avx512"}, {INTEL, 6, 0x6a, 0x6a, "icelake-server"},
    {INTEL, 6, 0x6c, 0x6c, "icelake-server"}, {INTEL, 6, 0x8f, 0x8f, "sapphirerapids"},
    {INTEL, 6, 0xcf, 0xcf, "sapphirerapids"}, {INTEL, 6, 0x97, 0x97, "alderlake"},
    {INTEL, 6, 0x9a, 0x9a, "alderlake"},      {INTEL, 6, 0xb7, 0xb7, "alderlake"},
    {INTEL, 6, 0xba, 0xba, "alderlake"},      {INTEL, 6, 0xbf, 0xbf, "alderlake"},
    {AMD, 0x17, 0x30, 0xaf, "znver2"},        {AMD, 0x19, 0x00, 0x0f, "znver3"},
    {AMD, 0x19, 0x20, 0x5f, "znver3"},        {AMD, 0x19, 0x10, 0x1f, "znver4"},
    {AMD, 0x19, 0x60, 0x7f, "znver4"},        {AMD, 0x19, 0xa0, 0xaf, "znver4"},
    {AMD, 0x1a, 0x00, 0x1f, "znver5"},        {AMD, 0x1a, 0x40, 0x4f, "znver5"},
    {ARM, 0x41, 0xd0c, 0xd0c, "neoverse-n1"}, {ARM, 0x41, 0xd40, 0xd40, "neoverse-v1"},
    {ARM, 0x61, 0x022, 0x029, "apple-m1"},
};

tn__cpu_id tn__cpu_id_of_leaf(const char maker[13], uint32_t eax) {
  tn__cpu_id id = {.family = (int)(eax >> 8 & 15), .model = (int)(eax >> 4 & 15), .stepping = (int)(eax & 15)};
  snprintf(id.maker, sizeof id.maker, "%.12s", maker);
  if (id.family == 6 || id.family == 15) id.model += (int)(eax >> 16 & 15) << 4;
  if (id.family == 15) id.family += (int)(eax >> 20 & 255);
  return id;
}

tn__cpu_id tn__cpu_id_of_midr(uint64_t midr) {
  return (tn__cpu_id){
      .maker = ARM, .family = (int)(midr >> 24 & 255), .model = (int)(midr >> 4 & 4095), .stepping = (int)(midr & 15)};
}

static const tn__cpu *cpu_named(const char *name) {
  const tn__cpu *cpu = tn__cpus;
  while (cpu->name[0] && strcmp(cpu->name, name) != 0) cpu++;
  return cpu->name[0] ? cpu : NULL;
}

const tn__cpu *tn__cpu_find(const tn__cpu_id *id) {
  for (size_t i = 0; i < sizeof id_rows / sizeof id_rows[0]; i++) {
    if (strcmp(id_rows[i].maker, id->maker) != 0 || id_rows[i].family != id->family) continue;
    if (id->model < id_rows[i].first || id->model > id_rows[i].last) continue;
    return cpu_named(id_rows[i].name);
  }
  return NULL;
}

static int at_most(int value, int most) { return value < most ? value : most; }

void tn__cpu_use(const tn__cpu *cpu, tn__target *target) {
  int width = target->cpu.vector_bytes;
  tn__core core = cpu->machine.core;
  if (width < cpu->vector_bytes) {
    core.fma_bytes = at_most(core.fma_bytes, core.fma_ports * width);
    core.load_bytes = at_most(core.load_bytes, core.load_ports * width);
    core.store_bytes = at_most(core.store_bytes, width);
    core.shuffle_bytes = at_most(core.shuffle_bytes, 2 * width);
  }
  target->cpu.machine = cpu->machine;
  target->cpu.machine.core = core;
}

/* Families by AMD's optimization guides for 17h to 1Ah. Zen 4 takes 512-bit instructions in two halves; it and its
 * forebears fetch 32 bytes a cycle from L2 and share a fast L3. */
static void use_family_of_amd(int family, tn__core *core) {
  core->l3_bytes = 14;
  core->issue = 6;
  if (family >= 0x1a) return;
  core->fma_bytes = 64;
  core->load_bytes = 64;
  core->store_bytes = 32;
  core->shuffle_bytes = 64;
  core->l2_bytes = 26;
}

void tn__cpu_use_id(const tn__cpu_id *id, tn__target *target) {
  const tn__cpu *cpu = tn__cpu_find(id);
  /* Virtual machines may name an older model than the one whose features they lend. */
  bool tiles = target->cpu.arch == TN__ARCH_X86_64 && (target->cpu.features & TN__X86_AMX_TILE);
  if (!cpu && tiles && strcmp(id->maker, INTEL) == 0) cpu = cpu_named(FIRST_WITH_TILES);
  if (cpu && cpu->vector_bytes == target->cpu.vector_bytes)
    tn__cpu_use(cpu, target);
  else if (strcmp(id->maker, AMD) == 0)
    use_family_of_amd(id->family, &target->cpu.machine.core);
}
