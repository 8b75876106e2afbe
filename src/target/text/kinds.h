/* The kinds of targets as texts have them.
 *
 * A target is made in three steps: words are stored, `words` fills in everything from them, numbers replace what it
 * filled in. So what a text leaves out is what `words` says, and printing asks it again to find out what a text has to
 * say. */
#ifndef TENON_TARGET_TEXT_KINDS_H
#define TENON_TARGET_TEXT_KINDS_H

#include "target/target.h"

typedef enum tn__target_flags {
  TN__ATTRIBUTE_WORD = 1,   /* a char array, in `bytes`; else an int or an int64_t */
  TN__ATTRIBUTE_CODE = 2,   /* changes code: in the target's name */
  TN__ATTRIBUTE_POWER = 4,  /* a power of two */
  TN__ATTRIBUTE_LOWERS = 8, /* no more than what was filled in */
  TN__ATTRIBUTE_SAID = 16   /* printed whenever it was said: that it was means something */
} tn__target_flags;

typedef struct tn__target_attribute {
  const char *name;
  const char *help;
  unsigned flags;
  size_t at, bytes; /* in tn__target */
  int64_t low, high;
} tn__target_attribute;

#define TN__TARGET_AT(field) offsetof(tn__target, field), sizeof(((tn__target *)0)->field)

typedef struct tn__target_kind_row {
  const char *help;
  const tn__target_attribute *attributes; /* beside those of every kind; ends with a NULL name */
  /* Fills everything from the words, which become canonical. `text` is for messages. */
  tn_status *(*words)(const char *text, tn__target *target);
  tn_status *(*check)(const char *text, const tn__target *target); /* once all is set; NULL: nothing to check */
} tn__target_kind_row;

/* What describes GPUs and CPUs; LIMIT is TN__ATTRIBUTE_LOWERS where features say the most. Limits of GPUs are those
 * that OpenCL's and CUDA's devices keep to. */
#define TN__TARGET_CODE_WORD (TN__ATTRIBUTE_WORD | TN__ATTRIBUTE_CODE)
#define TN__TARGET_GPU_NUMBERS                                                                                      \
  {"warp", "threads that execute together", TN__ATTRIBUTE_CODE, TN__TARGET_AT(gpu.warp), 1, 128},                   \
      {"threads", "of a block, at the most", TN__ATTRIBUTE_CODE, TN__TARGET_AT(gpu.threads), 1, 1 << 16},           \
      {"registers", "of 32 bits, for a block", TN__ATTRIBUTE_CODE, TN__TARGET_AT(gpu.registers), 1, 1 << 24},       \
      {"shared_bytes", "that the threads of a block share", TN__ATTRIBUTE_CODE, TN__TARGET_AT(gpu.shared_bytes), 0, \
       1 << 24}
#define TN__TARGET_CPU_WORDS                                                                                           \
  {"mcpu", "a CPU or a level, with +feature and -feature items", TN__TARGET_CODE_WORD, TN__TARGET_AT(cpu.mcpu), 0, 0}, \
      {"mattr", "further items, as +avx512vnni,-fma", TN__TARGET_CODE_WORD, TN__TARGET_AT(mattr), 0, 0}
#define TN__TARGET_CPU_NUMBERS(LIMIT)                                                                          \
  {"cores", "threads to schedule for", TN__ATTRIBUTE_SAID, TN__TARGET_AT(cpu.cores), 1, 1024},                 \
      {"vector_bytes",                                                                                         \
       "width of the vectors that kernels use",                                                                \
       TN__ATTRIBUTE_CODE | TN__ATTRIBUTE_POWER | LIMIT,                                                       \
       TN__TARGET_AT(cpu.vector_bytes),                                                                        \
       16,                                                                                                     \
       64},                                                                                                    \
      {"vector_registers",                                                                                     \
       "vectors that are at hand",                                                                             \
       TN__ATTRIBUTE_CODE | LIMIT,                                                                             \
       TN__TARGET_AT(cpu.vector_registers),                                                                    \
       4,                                                                                                      \
       64},                                                                                                    \
      {"l1_bytes", "data cache of a core", 0, TN__TARGET_AT(cpu.machine.l1_bytes), 1 << 10, (int64_t)1 << 40}, \
      {"l2_bytes", "cache of a core", 0, TN__TARGET_AT(cpu.machine.l2_bytes), 1 << 10, (int64_t)1 << 40},      \
      {"l3_bytes", "cache of a group of cores", 0, TN__TARGET_AT(cpu.machine.l3_bytes), 1 << 10, (int64_t)1 << 40}
#define TN__TARGET_NO_MORE {.name = NULL}

/* cpu.c */
extern const tn__target_attribute tn__target_attributes_cpu[], tn__target_attributes_c99[],
    tn__target_attributes_island[];
TN_MUST_USE tn_status *tn__target_words_cpu(const char *text, tn__target *target);
TN_MUST_USE tn_status *tn__target_words_c99(const char *text, tn__target *target);

/* gpu.c */
extern const tn__target_attribute tn__target_attributes_gpu[], tn__target_attributes_cuda[];

/* opencl.c */
extern const tn__target_attribute tn__target_attributes_opencl[];
TN_MUST_USE tn_status *tn__target_words_opencl(const char *text, tn__target *target);
TN_MUST_USE tn_status *tn__target_check_opencl(const char *text, const tn__target *target);
TN_MUST_USE tn_status *tn__target_words_gpu(const char *text, tn__target *target);
TN_MUST_USE tn_status *tn__target_words_cuda(const char *text, tn__target *target);
TN_MUST_USE tn_status *tn__target_check_gpu(const char *text, const tn__target *target);

#endif
