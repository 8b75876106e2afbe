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

/* cpu.c */
extern const tn__target_attribute tn__target_attributes_cpu[], tn__target_attributes_c99[];
TN_MUST_USE tn_status *tn__target_words_cpu(const char *text, tn__target *target);
TN_MUST_USE tn_status *tn__target_words_c99(const char *text, tn__target *target);

/* gpu.c */
extern const tn__target_attribute tn__target_attributes_gpu[], tn__target_attributes_opencl[],
    tn__target_attributes_cuda[];
TN_MUST_USE tn_status *tn__target_words_gpu(const char *text, tn__target *target);
TN_MUST_USE tn_status *tn__target_words_cuda(const char *text, tn__target *target);
TN_MUST_USE tn_status *tn__target_check_gpu(const char *text, const tn__target *target);

#endif
