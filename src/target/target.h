/* What kernels are compiled for: a kind of device, and what is known of one of that kind. Also what this machine has.
 *
 * A kind is a row of the table in target.c. Texts of targets are the matter of src/target/text, which the runtime does
 * without. */
#ifndef TENON_TARGET_TARGET_H
#define TENON_TARGET_TARGET_H

#include "base/hash.h"
#include "target/memory.h"
#include "tenon/base.h"

typedef enum tn__arch { TN__ARCH_X86_64, TN__ARCH_AARCH64 } tn__arch;

/* Features that Tenon's generated code depends on, as bits; the names are LLVM's. One table in cpu.c holds for each
 * bit: name, architecture, the features it implies; one in host.c how cpuid or the auxiliary vector tells. Bits of
 * different architectures overlap. They are written into executables: append only. */
typedef uint64_t tn__features;

#define TN__FEATURE(bit) ((tn__features)1 << (bit))
/* x86-64; SSE and SSE2 belong to the architecture */
#define TN__X86_SSE3 TN__FEATURE(0)
#define TN__X86_SSSE3 TN__FEATURE(1)
#define TN__X86_SSE41 TN__FEATURE(2)
#define TN__X86_SSE42 TN__FEATURE(3)
#define TN__X86_POPCNT TN__FEATURE(4)
#define TN__X86_AVX TN__FEATURE(5)
#define TN__X86_AVX2 TN__FEATURE(6)
#define TN__X86_FMA TN__FEATURE(7)
#define TN__X86_F16C TN__FEATURE(8)
#define TN__X86_BMI TN__FEATURE(9)
#define TN__X86_BMI2 TN__FEATURE(10)
#define TN__X86_LZCNT TN__FEATURE(11)
#define TN__X86_MOVBE TN__FEATURE(12)
#define TN__X86_AVX512F TN__FEATURE(13)
#define TN__X86_AVX512BW TN__FEATURE(14)
#define TN__X86_AVX512CD TN__FEATURE(15)
#define TN__X86_AVX512DQ TN__FEATURE(16)
#define TN__X86_AVX512VL TN__FEATURE(17)
#define TN__X86_AVX512BF16 TN__FEATURE(18)
#define TN__X86_AVX512VNNI TN__FEATURE(19)
#define TN__X86_AVX512FP16 TN__FEATURE(20)
#define TN__X86_AMX_TILE TN__FEATURE(21)
#define TN__X86_AMX_BF16 TN__FEATURE(22)
#define TN__X86_AMX_INT8 TN__FEATURE(23)
#define TN__X86_AVXVNNI TN__FEATURE(24)
#define TN__X86_AVX512VPOPCNTDQ TN__FEATURE(25)
#define TN__X86_AVX512VBMI TN__FEATURE(26)
/* AArch64; NEON belongs to every target, as a bit, so that no feature set is empty */
#define TN__ARM_NEON TN__FEATURE(0)
#define TN__ARM_FULLFP16 TN__FEATURE(1)
#define TN__ARM_DOTPROD TN__FEATURE(2)
#define TN__ARM_BF16 TN__FEATURE(3)
#define TN__ARM_I8MM TN__FEATURE(4)
#define TN__ARM_SVE TN__FEATURE(5) /* detected and named; vectors are NEON's */

/* What generated code may want to do in one instruction, by what it is good for and not by its name in an architecture:
 * a table in cpu.c says which features of which architecture bring it. */
typedef enum tn__ability {
  TN__CAN_FMA,            /* fused multiply-adds of vectors */
  TN__CAN_CONVERT_HALVES, /* f16 to f32 and back */
  TN__CAN_ROUND,          /* to whole numbers: floor and its like */
  TN__CAN_DPBF16PS,       /* sixteen sums of two products of bf16 */
  TN__CAN_DPBUSD,         /* sixteen sums of four products of bytes */
  TN__CAN_MASK,           /* a bit for each lane, in registers of their own */
  TN__CAN_KEEP_NAN,       /* minima and maxima that are NaN when an operand is */
  TN__CAN_MMA             /* warps multiply matrices: f16 and bf16 into f32, bytes into i32, f64 */
} tn__ability;

/* What one core does in a cycle, for the cost function of schedules. Rates of vectors are bytes a cycle over all ports
 * of the kind; a port takes one instruction a cycle whatever its width. */
typedef struct tn__core {
  int fma_ports, fma_bytes,
      fma_latency;            /* fused multiply-adds, or a multiplication and an addition, and other arithmetic */
  int load_ports, load_bytes; /* from L1 */
  int store_bytes;
  int shuffle_bytes;
  int issue;                            /* instructions started a cycle */
  int l2_bytes, l3_bytes, memory_bytes; /* bytes a cycle that come nearer from there, read by one core */
  int megahertz;                        /* a usual clock; turns cycles into seconds where nothing is measured */
} tn__core;

/* What keeps a core waiting, and how much of it other work hides. Usual numbers, fitted to kernels that were measured,
 * and the same for every row of the table so far; of this machine the start of threads, the sets of L1 and what pages
 * and TLBs there are are measured. Shares are of 1. */
#define TN__MOST_L1_SETS 4096
typedef struct tn__costs {
  double fill; /* share of a cache that holds what a loop nest touches: other data and uneven sets take the rest */
  double shared_fill;    /* and of the last one, which a core shares with others */
  double unhidden;       /* share of the smaller costs that the largest does not hide */
  double crowded;        /* and of ports that are busy beside the busiest: they get into each other's way */
  double fewer;          /* and of issue: of what is equal, fewer instructions are better */
  double loop_entry;     /* cycles to set up a loop */
  double mispredicted;   /* to leave one of more than `counted_trips` turns */
  double fork;           /* to start the other threads and wait for the last */
  double chunk;          /* to hand a thread one piece of work */
  double l2_wait;        /* until a line comes from L2 that everything waits for */
  double l3_wait;        /* and from L3 */
  double page_miss;      /* of a page that the first TLB does not hold, when others are under way */
  double page_walk;      /* and of one that the second does not hold */
  double broadcast;      /* cycles of a load port for one element that goes into all lanes */
  double half_broadcast; /* multiplications that such a load displaces where vectors of half the width are used */
  int line_bytes;        /* of all caches */
  int l1_sets;           /* of lines, up to TN__MOST_L1_SETS: L1 finds a line in one of them */
  int page_bytes;
  int l1_pages, pages; /* that the first and the second TLB hold */
  int streams;         /* of stores to other pages that prefetchers follow */
  int counted_trips;   /* turns of a loop that the branch predictor counts along */
  int memory_cores;    /* that memory serves as fast as each of them can ask */
} tn__costs;

/* What the cost function and the rules of schedules know of a machine: machine_file.h has a row for each number. */
typedef struct tn__machine {
  int64_t l1_bytes, l2_bytes, l3_bytes; /* data caches of one core; l3 is the share of one core group */
  tn__core core;
  tn__costs costs;
} tn__machine;

/* Of the caches of every architecture that code is made for: what is laid out at compile time goes by it. */
#define TN__LINE_BYTES 64

typedef struct tn__cpu_target {
  tn__arch arch;
  tn__features features;
  int vector_bytes; /* the width kernels use: a power of two, at least 16 */
  int vector_registers;
  int cores;
  tn__machine machine;
  /* What the table has for a target like this. Whatever orders terms of floating point is decided by it, so that
   * answers depend neither on measurements nor on machine files. */
  tn__machine row;
  bool measured;  /* the machine is that of a machine file or a measurement */
  bool native;    /* this machine as it was found: measured where that is done, and with its own number of threads */
  char mcpu[192]; /* what it was made of: "native", "x86-64-v3+avx512f", "haswell-fma" */
} tn__cpu_target;

typedef struct tn__gpu_target {
  int warp;         /* threads that execute together */
  int threads;      /* of a block, at the most */
  int registers;    /* of 32 bits, for a block */
  int shared_bytes; /* of memory that the threads of a block share */
  char arch[16];    /* CUDA: "sm_80"; of others empty */
  int fp64;         /* OpenCL: 1: it has numbers of type f64, which the standard leaves open */
} tn__gpu_target;

/* How fast a device is, as a text says it, for placements by predicted time (target/devices/rates.h); 0: what is usual
 * for its kind. No code depends on it. */
typedef struct tn__target_rates {
  int64_t gflops;      /* operations in f32 a nanosecond */
  int64_t memory_rate; /* of its memory, MB/s */
  int64_t link_rate;   /* between the host's memory and its own, MB/s */
  int64_t link_wait;   /* until a copy begins, ns */
  int64_t launch;      /* to start a kernel, ns */
} tn__target_rates;

typedef enum tn__target_kind {
  TN__TARGET_CPU,    /* this compiler's own code for a CPU */
  TN__TARGET_GPU,    /* some GPU: for schedules, without a generator of its own */
  TN__TARGET_C99,    /* C for any CPU */
  TN__TARGET_OPENCL, /* OpenCL C */
  TN__TARGET_CUDA,   /* CUDA C */
  TN__TARGET_ISLAND, /* a CPU as the first, with memory of its own: a device for tests (runtime/island) */
  TN__TARGET_KINDS   /* how many there are */
} tn__target_kind;

enum {
  TN__DEVICE_ISLAND = 12,   /* DLPack's kDLExtDev */
  TN__DEVICE_OTHER = 255,   /* no type of DLPack's: of targets that are no device's in particular */
  TN__DEVICE_ID_FREE = -1,  /* 0 is an id like any other */
  TN__TARGET_MOST_ID = 255, /* the greatest */
  TN__TARGET_TEXT = 640     /* bytes that hold any target's text */
};

typedef struct tn__target {
  /* What code for it depends on, canonical. CPUs: the largest baseline that the features hold, then the others that no
   * listed one implies, in the table's order, then attributes that change code: "x86-64-v3", "aarch64",
   * "x86-64-v4+avx512bf16+avx512vnni", "x86-64-v4 -vector_bytes=32". Reads back as the same arch, features and vectors;
   * caches and cores of a text are typical ones, not this machine's: whoever caches what depends on them hashes the
   * fields. Others: the kind and the attributes that are not the usual ones, "gpu -warp=64", "cuda -arch=sm_90". */
  char name[256];
  tn__target_kind kind;
  char type[8];       /* of OpenCL's devices: "cpu" where it is one, "" for all others */
  tn__cpu_target cpu; /* one of these: tn__target_is_cpu tells */
  tn__gpu_target gpu;
  char mattr[64]; /* of CPUs, while a text is read: further items of features, "+avx512vnni,-fma" */
  unsigned given; /* attributes that a text said, as bits by their rows */
  int device;     /* which of its type, TN__DEVICE_ID_FREE: not said. No code depends on it. */
  char label[32]; /* a name of its own, which placements may use; "": none */
  char host[256]; /* the text of the target that runs what is no kernel; "": not said */
  tn__target_rates rates;
  int64_t texture_bytes; /* islands: what their kernels may want of the second memory for one tensor; 0: nothing */
} tn__target;

/* Adds everything that code for the target depends on to a hash: the name, and what a name does not tell. */
void tn__target_hash(const tn__target *target, tn__sha256 *hash);
/* This machine, as "native". */
TN_MUST_USE tn_status *tn__target_native(tn__target *out);
/* A CPU by its name or level with items, "haswell-fma", and everything that follows from it; the kind is set.
 * TN_INVALID_ARGUMENT for features that there are not. Of names that tn__target_is_cpu_word takes only. */
TN_MUST_USE tn_status *tn__target_describe_cpu(const char *mcpu, tn__target *target);
bool tn__target_is_cpu_word(const char *word);
const char *tn__target_cpu_name(int index); /* "native", levels, CPUs of the table; NULL behind the last */
/* The canonical text of features: the start of a CPU's name. */
void tn__target_name_features(const tn__target *target, char *name, size_t size);
/* Appends to the NUL-terminated text in `buffer`; false when it does not fit, and then nothing was appended. */
TN_MUST_USE bool tn__target_append(char *buffer, size_t size, const char *a, const char *b);
/* Appends to a list in a message. A full list ends in "..." and ignores further items. */
void tn__target_list(char *buffer, size_t size, const char *a, const char *b);
const char *tn__target_kind_name(tn__target_kind kind); /* "cpu", "gpu", "c99", "opencl", "cuda", "island" */
int tn__target_device_type(const tn__target *target);   /* DLPack's */
/* Is its code this compiler's own for a CPU? */
static inline bool tn__target_is_own(const tn__target *target) {
  return target->kind == TN__TARGET_CPU || target->kind == TN__TARGET_ISLAND;
}
/* Is it described, and scheduled for, as a CPU, whoever makes code for it? */
static inline bool tn__target_is_cpu(const tn__target *target) {
  return tn__target_is_own(target) || target->kind == TN__TARGET_C99 || target->type[0] == 'c';
}
static inline bool tn__target_is_gpu(const tn__target *target) { return !tn__target_is_cpu(target); }
/* A CPU that may also run what is no kernel. */
static inline bool tn__target_may_host(const tn__target *target) {
  return tn__target_is_own(target) || target->kind == TN__TARGET_C99;
}

/* This machine, as it was found: what measures may do so. */
static inline bool tn__target_is_native(const tn__target *target) {
  return tn__target_is_own(target) && target->cpu.native;
}

/* Types of devices, DLPack's, have the name of the first kind of theirs: "cpu", "opencl"; NULL: it has none here. */
const char *tn__target_type_name(int device_type);
/* The scopes of memory in which devices of a type may have values, a bit each. */
unsigned tn__target_memory_scopes(int device_type);

/* ---- CPUs: of targets of theirs only -------------------------------------------------------------------------- */

/* Takes caches and core from a machine file or a measurement. */
void tn__target_use(tn__target *target, const tn__machine *machine);
/* The target as the table has it. */
tn__target tn__target_of_table(const tn__target *target);
/* Features of `needed` that `have` lacks, as "avx512f, avx512vl" into `text` (truncated with "..." if it does not fit);
 * false if none. A bit that this version has no name for is missing, as "feature 40". */
TN_MUST_USE bool tn__target_missing(tn__arch arch, tn__features needed, tn__features have, char *text, size_t size);
/* LLVM's spelling of triple, cpu and features ("+avx2,+fma"); the strings are NUL-terminated in the caller's arrays. */
void tn__target_llvm(const tn__target *target, char triple[64], char cpu[32], char features[1024]);
bool tn__target_can(const tn__target *target, tn__ability ability);
/* Where minima and maxima lose NaN: beside how many vectors that take them up code keeps which lanes are NaN. Others
 * are tested, and what is found is put in, with each term. */
int tn__target_nan_registers(const tn__target *target);
/* Of an architecture, which may be a number from a file that this version does not know: "x86-64", "aarch64", else
 * "unknown". */
const char *tn__arch_name(tn__arch arch);
uint16_t tn__arch_elf_machine(tn__arch arch); /* EM_X86_64 ...; EM_NONE */

/* ---- this machine ----------------------------------------------------------------------------------------------- */

/* What the CPU has and the operating system saves on a task switch; 0 on an unknown architecture. */
tn__features tn__host_features(void);
tn__arch tn__host_arch(void);
/* The features that code which needs `needed` may use here: the kernel is asked for state that it lends only to
 * processes that ask, and what it does not lend is missing. */
tn__features tn__host_granted(tn__features needed);
/* Does this machine execute the target's code? */
bool tn__target_runs_here(const tn__target *target);
/* Sizes of data caches, and the sets of L1, from sysfs below `root` ("" for this machine), else from cpuid; what is not
 * found stays as it is. */
void tn__host_caches(const char *root, tn__machine *machine);
/* Threads to use by default: cores of the affinity mask, limited by the cgroup's CPU quota (v1 and v2), at least 1. */
int tn__target_default_thread_count(void);
/* The tightest CPU quota of this process's cgroup and its parents, in whole CPUs, rounded up; 0: no limit. `root` goes
 * in front of /proc and /sys: "" for this machine. */
int tn__target_cgroup_cpu_limit(const char *root);

#endif
