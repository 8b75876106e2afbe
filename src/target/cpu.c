/* CPUs as targets: architectures, features, baselines, and their texts. */
#include "target/target.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/invariant.h"
#include "target/cpus.h"

/* ---- tables ----------------------------------------------------------------------------------------------------- */

#define SSE42 (TN__X86_SSE3 | TN__X86_SSSE3 | TN__X86_SSE41 | TN__X86_SSE42)
#define AVX (SSE42 | TN__X86_POPCNT | TN__X86_AVX)
#define AVX2 (AVX | TN__X86_AVX2)
#define AVX512F (AVX2 | TN__X86_FMA | TN__X86_F16C | TN__X86_AVX512F)
#define AVX512BW (AVX512F | TN__X86_AVX512BW)

#define V2 (SSE42 | TN__X86_POPCNT)
#define V3 (AVX2 | TN__X86_FMA | TN__X86_F16C | TN__X86_BMI | TN__X86_BMI2 | TN__X86_LZCNT | TN__X86_MOVBE)
#define V4 (V3 | AVX512BW | TN__X86_AVX512CD | TN__X86_AVX512DQ | TN__X86_AVX512VL)

/* `closure` is the feature itself and all that LLVM's feature of that name implies, as far as it is in the table. */
typedef struct feature_row {
  tn__arch arch;
  tn__features bit;
  const char *name;
  tn__features closure;
} feature_row;

static const feature_row feature_rows[] = {
    {TN__ARCH_X86_64, TN__X86_SSE3, "sse3", TN__X86_SSE3},
    {TN__ARCH_X86_64, TN__X86_SSSE3, "ssse3", TN__X86_SSE3 | TN__X86_SSSE3},
    {TN__ARCH_X86_64, TN__X86_SSE41, "sse4.1", TN__X86_SSE3 | TN__X86_SSSE3 | TN__X86_SSE41},
    {TN__ARCH_X86_64, TN__X86_SSE42, "sse4.2", SSE42},
    {TN__ARCH_X86_64, TN__X86_POPCNT, "popcnt", TN__X86_POPCNT},
    {TN__ARCH_X86_64, TN__X86_AVX, "avx", AVX},
    {TN__ARCH_X86_64, TN__X86_AVX2, "avx2", AVX2},
    {TN__ARCH_X86_64, TN__X86_FMA, "fma", AVX | TN__X86_FMA},
    {TN__ARCH_X86_64, TN__X86_F16C, "f16c", AVX | TN__X86_F16C},
    {TN__ARCH_X86_64, TN__X86_BMI, "bmi", TN__X86_BMI},
    {TN__ARCH_X86_64, TN__X86_BMI2, "bmi2", TN__X86_BMI2},
    {TN__ARCH_X86_64, TN__X86_LZCNT, "lzcnt", TN__X86_LZCNT},
    {TN__ARCH_X86_64, TN__X86_MOVBE, "movbe", TN__X86_MOVBE},
    {TN__ARCH_X86_64, TN__X86_AVX512F, "avx512f", AVX512F},
    {TN__ARCH_X86_64, TN__X86_AVX512BW, "avx512bw", AVX512BW},
    {TN__ARCH_X86_64, TN__X86_AVX512CD, "avx512cd", AVX512F | TN__X86_AVX512CD},
    {TN__ARCH_X86_64, TN__X86_AVX512DQ, "avx512dq", AVX512F | TN__X86_AVX512DQ},
    {TN__ARCH_X86_64, TN__X86_AVX512VL, "avx512vl", AVX512F | TN__X86_AVX512VL},
    {TN__ARCH_X86_64, TN__X86_AVX512BF16, "avx512bf16", AVX512BW | TN__X86_AVX512BF16},
    {TN__ARCH_X86_64, TN__X86_AVX512VBMI, "avx512vbmi", AVX512BW | TN__X86_AVX512VBMI},
    {TN__ARCH_X86_64, TN__X86_AVX512VNNI, "avx512vnni", AVX512F | TN__X86_AVX512VNNI},
    {TN__ARCH_X86_64, TN__X86_AVX512VPOPCNTDQ, "avx512vpopcntdq", AVX512F | TN__X86_AVX512VPOPCNTDQ},
    {TN__ARCH_X86_64, TN__X86_AVXVNNI, "avxvnni", AVX2 | TN__X86_AVXVNNI},
    {TN__ARCH_X86_64, TN__X86_AVX512FP16, "avx512fp16", AVX512BW | TN__X86_AVX512FP16},
    {TN__ARCH_X86_64, TN__X86_AMX_TILE, "amx-tile", TN__X86_AMX_TILE},
    {TN__ARCH_X86_64, TN__X86_AMX_BF16, "amx-bf16", TN__X86_AMX_TILE | TN__X86_AMX_BF16},
    {TN__ARCH_X86_64, TN__X86_AMX_INT8, "amx-int8", TN__X86_AMX_TILE | TN__X86_AMX_INT8},
    {TN__ARCH_AARCH64, TN__ARM_NEON, "neon", TN__ARM_NEON},
    {TN__ARCH_AARCH64, TN__ARM_FULLFP16, "fullfp16", TN__ARM_NEON | TN__ARM_FULLFP16},
    {TN__ARCH_AARCH64, TN__ARM_DOTPROD, "dotprod", TN__ARM_NEON | TN__ARM_DOTPROD},
    {TN__ARCH_AARCH64, TN__ARM_BF16, "bf16", TN__ARM_NEON | TN__ARM_BF16},
    {TN__ARCH_AARCH64, TN__ARM_I8MM, "i8mm", TN__ARM_NEON | TN__ARM_I8MM},
    {TN__ARCH_AARCH64, TN__ARM_SVE, "sve", TN__ARM_NEON | TN__ARM_FULLFP16 | TN__ARM_SVE},
};
enum { FEATURE_COUNT = sizeof(feature_rows) / sizeof(feature_rows[0]) };

/* Baselines, each architecture's largest first. Caches are those of common server cores of that generation. */
typedef struct baseline {
  const char *name;
  tn__arch arch;
  tn__features features;
  int64_t l1_bytes, l2_bytes, l3_bytes;
  const char *llvm_cpu;
} baseline;

static const baseline baselines[] = {
    {"x86-64-v4", TN__ARCH_X86_64, V4, 32 << 10, 1 << 20, 16 << 20, "x86-64-v4"},
    {"x86-64-v3", TN__ARCH_X86_64, V3, 32 << 10, 512 << 10, 8 << 20, "x86-64-v3"},
    {"x86-64-v2", TN__ARCH_X86_64, V2, 32 << 10, 256 << 10, 8 << 20, "x86-64-v2"},
    {"x86-64", TN__ARCH_X86_64, 0, 32 << 10, 256 << 10, 8 << 20, "x86-64"},
    {"aarch64", TN__ARCH_AARCH64, TN__ARM_NEON, 64 << 10, 512 << 10, 8 << 20, "generic"},
};
enum { BASELINE_COUNT = sizeof(baselines) / sizeof(baselines[0]), TYPICAL_CORES = 4 };

static const struct {
  const char *name, *triple;
  uint16_t elf_machine;
} arch_rows[] = {
    [TN__ARCH_X86_64] = {"x86-64", "x86_64-unknown-linux-gnu", EM_X86_64},
    [TN__ARCH_AARCH64] = {"aarch64", "aarch64-unknown-linux-gnu", EM_AARCH64},
};

static bool is_known(tn__arch arch) { return (size_t)arch < sizeof(arch_rows) / sizeof(arch_rows[0]); }
const char *tn__arch_name(tn__arch arch) { return is_known(arch) ? arch_rows[arch].name : "unknown"; }
uint16_t tn__arch_elf_machine(tn__arch arch) { return is_known(arch) ? arch_rows[arch].elf_machine : EM_NONE; }

static const struct {
  tn__ability ability;
  tn__arch arch;
  tn__features features;
} ability_rows[] = {
    {TN__CAN_FMA, TN__ARCH_X86_64, TN__X86_FMA},
    {TN__CAN_FMA, TN__ARCH_AARCH64, TN__ARM_NEON},
    {TN__CAN_CONVERT_HALVES, TN__ARCH_X86_64, TN__X86_F16C},
    {TN__CAN_CONVERT_HALVES, TN__ARCH_AARCH64, TN__ARM_NEON},
    {TN__CAN_ROUND, TN__ARCH_X86_64, TN__X86_SSE41},
    {TN__CAN_ROUND, TN__ARCH_AARCH64, TN__ARM_NEON},
    {TN__CAN_DPBF16PS, TN__ARCH_X86_64, TN__X86_AVX512BF16 | TN__X86_AVX512F},
    {TN__CAN_DPBUSD, TN__ARCH_X86_64, TN__X86_AVX512VNNI | TN__X86_AVX512F},
    {TN__CAN_MASK, TN__ARCH_X86_64, TN__X86_AVX512F | TN__X86_AVX512VL},
    {TN__CAN_KEEP_NAN, TN__ARCH_AARCH64, TN__ARM_NEON},
};

/* What compilers of other languages find by themselves in loops. */
static bool is_found(tn__ability ability) { return ability != TN__CAN_DPBF16PS && ability != TN__CAN_DPBUSD; }

/* Since sm_80, with operands as ptx has them since then. */
static bool gpu_can(const tn__target *target, tn__ability ability) {
  enum { FIRST = 80 };
  return ability == TN__CAN_MMA && target->kind == TN__TARGET_CUDA && target->gpu.warp == 32 &&
         strncmp(target->gpu.arch, "sm_", 3) == 0 && atoi(target->gpu.arch + 3) >= FIRST;
}

bool tn__target_can(const tn__target *target, tn__ability ability) {
  if (tn__target_is_gpu(target)) return gpu_can(target, ability);
  if (!tn__target_is_cpu(target) || (!tn__target_is_own(target) && !is_found(ability))) return false;
  for (size_t i = 0; i < sizeof(ability_rows) / sizeof(ability_rows[0]); i++)
    if (ability_rows[i].ability == ability && ability_rows[i].arch == target->cpu.arch)
      return (ability_rows[i].features & ~target->cpu.features) == 0;
  return false;
}

int tn__target_nan_registers(const tn__target *target) {
  enum { MASKS = 6, VECTORS = 4 }; /* of seven masks, and of sixteen vectors: one for the sum, one for its NaN */
  return tn__target_can(target, TN__CAN_MASK) ? MASKS : VECTORS;
}

bool tn__target_runs_here(const tn__target *target) {
  return tn__target_is_own(target) && target->cpu.arch == tn__host_arch() &&
         (target->cpu.features & ~tn__host_features()) == 0;
}

static const baseline *largest_baseline(tn__arch arch, tn__features features) {
  for (int i = 0; i < BASELINE_COUNT; i++)
    if (baselines[i].arch == arch && (baselines[i].features & ~features) == 0) return &baselines[i];
  return &baselines[BASELINE_COUNT - 1]; /* an AArch64 without NEON, which is not a target: keep NEON */
}

bool tn__target_append(char *buffer, size_t size, const char *a, const char *b) {
  size_t length = strlen(buffer);
  int more = snprintf(buffer + length, size - length, "%s%s", a, b);
  if (more >= 0 && (size_t)more < size - length) return true;
  buffer[length] = '\0';
  return false;
}

void tn__target_list(char *buffer, size_t size, const char *a, const char *b) {
  static const char more[] = "...";
  size_t length = strlen(buffer);
  bool full = length >= sizeof more - 1 && strcmp(buffer + length - (sizeof more - 1), more) == 0;
  if (full || tn__target_append(buffer, size, a, b)) return;
  while (!tn__target_append(buffer, size, more, "") && buffer[0] != '\0') buffer[strlen(buffer) - 1] = '\0';
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* Server cores that have such vectors: two ports for arithmetic, two for loads, as wide as the vectors. The rates of
 * caches are what is sustained, about half of what makers state. */
static tn__core usual_core(const tn__target *target) {
  int width = target->cpu.vector_bytes;
  bool arm = target->cpu.arch == TN__ARCH_AARCH64, wide = width == 64;
  return (tn__core){.fma_ports = 2,
                    .fma_bytes = 2 * width,
                    .fma_latency = 4,
                    .load_ports = arm || wide   ? 2
                                  : width == 32 ? 3
                                                : 2,
                    .load_bytes = 2 * width,
                    .store_bytes = width,
                    .shuffle_bytes = wide ? width : 2 * width,
                    .issue = 4,
                    .l2_bytes = wide          ? 40
                                : width == 32 ? 28
                                              : 20,
                    .l3_bytes = 10,
                    .memory_bytes = 4,
                    .megahertz = 3000};
}

/* A name with its features, then what the target has besides or lacks, without what follows from it. */
static void name_of(const tn__target *target, const char *base, tn__features of_base, char *name, size_t size) {
  tn__features extra = target->cpu.features & ~of_base, lacking = of_base & ~target->cpu.features, implied = 0;
  for (int i = 0; i < FEATURE_COUNT; i++)
    if (feature_rows[i].arch == target->cpu.arch && (extra & feature_rows[i].bit))
      implied |= feature_rows[i].closure & ~feature_rows[i].bit;
  snprintf(name, size, "%s", base);
  for (int sign = 0; sign < 2; sign++)
    for (int i = 0; i < FEATURE_COUNT; i++)
      if (feature_rows[i].arch == target->cpu.arch && ((sign == 0 ? lacking : extra & ~implied) & feature_rows[i].bit))
        tn__target_list(name, size, sign == 0 ? "-" : "+", feature_rows[i].name);
}

void tn__target_name_features(const tn__target *target, char *name, size_t size) {
  const baseline *base = largest_baseline(target->cpu.arch, target->cpu.features);
  name_of(target, base->name, base->features, name, size);
}

static void set_vectors(tn__target *target) {
  bool avx512 = target->cpu.arch == TN__ARCH_X86_64 && (target->cpu.features & TN__X86_AVX512F);
  bool avx = target->cpu.arch == TN__ARCH_X86_64 && (target->cpu.features & TN__X86_AVX);
  target->cpu.vector_bytes = avx512 ? 64 : avx ? 32 : 16;
  target->cpu.vector_registers = avx512 || target->cpu.arch == TN__ARCH_AARCH64 ? 32 : 16;
  target->cpu.machine.core = usual_core(target);
  target->cpu.machine.costs = (tn__costs)TN__USUAL_COSTS;
}

/* "native", the baselines, the CPUs of the table. */
const char *tn__target_cpu_name(int index) {
  if (index == 0) return "native";
  if (index <= BASELINE_COUNT) return baselines[BASELINE_COUNT - index].name;
  const tn__cpu *cpu = tn__cpus;
  for (index -= BASELINE_COUNT + 1; index > 0 && cpu->name[0]; index--) cpu++;
  return cpu->name[0] ? cpu->name : NULL;
}

static tn_status *unknown_feature(const char *text, const char *item, tn__arch arch) {
  char known[512] = "";
  for (int i = 0; i < FEATURE_COUNT; i++)
    if (feature_rows[i].arch == arch) tn__target_list(known, sizeof(known), known[0] ? ", " : "", feature_rows[i].name);
  return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": unknown feature at \"%s\"; %s has %s", text, item,
                          tn__arch_name(arch), known);
}

/* True when `text` starts with `word` and then ends or goes on with another item. */
static bool starts_with_word(const char *text, const char *word) {
  size_t length = strlen(word);
  return strncmp(text, word, length) == 0 && (text[length] == '\0' || text[length] == '+' || text[length] == '-');
}

static const feature_row *find_feature(tn__arch arch, const char *text) {
  const feature_row *best = NULL; /* the longest match, because names may hold a '-' */
  for (int i = 0; i < FEATURE_COUNT; i++)
    if (feature_rows[i].arch == arch && starts_with_word(text, feature_rows[i].name) &&
        (best == NULL || strlen(feature_rows[i].name) > strlen(best->name)))
      best = &feature_rows[i];
  return best;
}

static void remove_feature(tn__target *target, const feature_row *row) {
  for (int i = 0; i < FEATURE_COUNT; i++)
    if (feature_rows[i].arch == target->cpu.arch && (feature_rows[i].closure & row->bit))
      target->cpu.features &= ~feature_rows[i].bit;
}

static tn_status *parse_items(const char *text, const char *items, tn__target *target) {
  while (*items != '\0') {
    const feature_row *row = find_feature(target->cpu.arch, items + 1);
    if (row == NULL) return unknown_feature(text, items, target->cpu.arch);
    if (*items == '+')
      target->cpu.features |= row->closure;
    else
      remove_feature(target, row);
    items += 1 + strlen(row->name);
  }
  if (target->cpu.arch == TN__ARCH_AARCH64 && !(target->cpu.features & TN__ARM_NEON))
    return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": aarch64 without neon is not supported", text);
  return NULL;
}

static void set_caches(tn__machine *machine, const baseline *base) {
  machine->l1_bytes = base->l1_bytes;
  machine->l2_bytes = base->l2_bytes;
  machine->l3_bytes = base->l3_bytes;
}

static void set_native(tn__target *target) {
  target->cpu.arch = tn__host_arch();
  /* A feature counts only with all that it implies: virtual machines may hide any single one. */
  tn__features host = tn__host_features();
  for (int i = 0; i < FEATURE_COUNT; i++)
    if (feature_rows[i].arch == target->cpu.arch && (feature_rows[i].closure & ~host) == 0)
      target->cpu.features |= feature_rows[i].bit;
  const baseline *base = largest_baseline(target->cpu.arch, target->cpu.features);
  set_caches(&target->cpu.machine, base);
  target->cpu.cores = tn__target_default_thread_count();
}

static const baseline *find_baseline(const char *text) {
  for (int i = 0; i < BASELINE_COUNT; i++)
    if (starts_with_word(text, baselines[i].name)) return &baselines[i];
  return NULL;
}

static const tn__cpu *find_cpu(const char *text) {
  const tn__cpu *best = NULL; /* the longest match: "skylake-avx512" is not "skylake" without "avx512" */
  for (const tn__cpu *cpu = tn__cpus; cpu->name[0]; cpu++)
    if (starts_with_word(text, cpu->name) && (best == NULL || strlen(cpu->name) > strlen(best->name))) best = cpu;
  return best;
}

bool tn__target_is_cpu_word(const char *word) {
  return starts_with_word(word, "native") || find_baseline(word) != NULL || find_cpu(word) != NULL;
}

/* Features and caches of a baseline's text, as "x86-64-v4+avx512vnni". */
static tn_status *parse_baseline(const char *text, tn__target *target) {
  const baseline *base = find_baseline(text);
  target->cpu.arch = base->arch;
  target->cpu.features = base->features;
  target->cpu.cores = TYPICAL_CORES;
  set_caches(&target->cpu.machine, base);
  return parse_items(text, text + strlen(base->name), target);
}

tn_status *tn__target_describe_cpu(const char *mcpu, tn__target *target) {
  target->cpu = (tn__cpu_target){0};
  bool native = starts_with_word(mcpu, "native");
  const tn__cpu *cpu = find_cpu(mcpu);
  const char *name = native ? "native" : cpu != NULL ? cpu->name : find_baseline(mcpu)->name;
  if (native)
    set_native(target);
  else
    TN_RETURN_IF_ERROR(parse_baseline(cpu != NULL ? cpu->features : name, target));
  tn__features of_name = target->cpu.features;
  TN_RETURN_IF_ERROR(parse_items(mcpu, mcpu + strlen(name), target));
  set_vectors(target);
  if (cpu != NULL) tn__cpu_use(cpu, target);
  target->cpu.row = target->cpu.machine;
  if (native) {
    /* After the row, so that machines of the same features add in the same order. */
    tn__cpu_id id = tn__host_cpu();
    tn__cpu_use_id(&id, target);
    tn__host_caches("", &target->cpu.machine);
    target->cpu.native = strcmp(mcpu, "native") == 0;
  }
  name_of(target, name, of_name, target->cpu.mcpu, sizeof target->cpu.mcpu);
  return NULL;
}

tn_status *tn__target_native(tn__target *out) {
  *out = (tn__target){.kind = TN__TARGET_CPU, .device = TN__DEVICE_ID_FREE};
  TN_RETURN_IF_ERROR(tn__target_describe_cpu("native", out));
  tn__target_name_features(out, out->name, sizeof out->name);
  return NULL;
}

void tn__target_use(tn__target *target, const tn__machine *machine) {
  target->cpu.machine = *machine;
  target->cpu.measured = true;
}

tn__target tn__target_of_table(const tn__target *target) {
  tn__target table = *target;
  table.cpu.machine = target->cpu.row;
  return table;
}

_Static_assert(sizeof(tn__machine) == 3 * sizeof(int64_t) + sizeof(tn__core) + sizeof(tn__costs) &&
                   sizeof(tn__core) == 12 * sizeof(int) && sizeof(tn__costs) == 15 * sizeof(double) + 8 * sizeof(int),
               "machines are hashed as they lie in memory, so there must be no gaps");

void tn__target_hash(const tn__target *target, tn__sha256 *hash) {
  const tn__cpu_target *cpu = &target->cpu;
  tn__sha256_update_string(hash, target->name);
  if (tn__target_is_gpu(target)) return; /* the name tells everything */
  tn__sha256_update_u64(hash, (uint64_t)cpu->vector_bytes);
  tn__sha256_update_u64(hash, (uint64_t)cpu->vector_registers);
  tn__sha256_update(hash, &cpu->machine, sizeof cpu->machine);
  tn__sha256_update(hash, &cpu->row, sizeof cpu->row);
  tn__sha256_update_u64(hash, cpu->measured);
  if (target->texture_bytes > 0) tn__sha256_update_u64(hash, (uint64_t)target->texture_bytes);
}

bool tn__target_missing(tn__arch arch, tn__features needed, tn__features have, char *text, size_t size) {
  tn__features missing = needed & ~have;
  if (size > 0) text[0] = '\0';
  if (missing == 0 || size == 0) return missing != 0;
  char name[32];
  for (int bit = 0; bit < 64; bit++) {
    if (!(missing & TN__FEATURE(bit))) continue;
    snprintf(name, sizeof(name), "feature %d", bit);
    for (int i = 0; i < FEATURE_COUNT; i++)
      if (feature_rows[i].arch == arch && feature_rows[i].bit == TN__FEATURE(bit))
        snprintf(name, sizeof(name), "%s", feature_rows[i].name);
    tn__target_list(text, size, text[0] ? ", " : "", name);
  }
  return true;
}

void tn__target_llvm(const tn__target *target, char triple[64], char cpu[32], char features[1024]) {
  snprintf(triple, 64, "%s", arch_rows[target->cpu.arch].triple);
  const baseline *base = largest_baseline(target->cpu.arch, target->cpu.features);
  /* The baseline's name chooses LLVM's instruction costs; the features are spelled out whole. */
  snprintf(cpu, 32, "%s", base->llvm_cpu);
  features[0] = '\0';
  bool fits = true;
  for (int i = 0; i < FEATURE_COUNT; i++)
    if (feature_rows[i].arch == target->cpu.arch && (target->cpu.features & feature_rows[i].bit))
      fits &= tn__target_append(features, 1024, features[0] ? ",+" : "+", feature_rows[i].name);
  /* x86-64-v4 brings a preference for 256-bit vectors that is Skylake's, not that of the machines sold since. */
  if (target->cpu.vector_bytes == 64) fits &= tn__target_append(features, 1024, ",-prefer-256-bit", "");
  TN__INVARIANT(fits); /* the names of all features of an architecture are shorter */
}
