/* The kinds of targets: what the table in target.c has of each. */
#ifndef TENON_TARGET_KINDS_H
#define TENON_TARGET_KINDS_H

#include "target/target.h"

typedef struct tn__target_kind_row {
  const char *name;
  bool (*takes)(const char *text); /* is this text, of which nothing else is known, of the kind? NULL: any is */
  /* Reads a text that was taken onto the kind's defaults; fills everything but the name. */
  tn_status *(*parse)(const char *text, tn__target *out);
  void (*print)(const tn__target *target, char *name, size_t size); /* the canonical text */
  void (*hash)(const tn__target *target, tn__sha256 *hash);         /* what the name does not tell; NULL: nothing */
} tn__target_kind_row;

/* cpu.c */
TN_MUST_USE tn_status *tn__target_parse_cpu(const char *text, tn__target *out);
void tn__target_print_cpu(const tn__target *target, char *name, size_t size);
void tn__target_hash_cpu(const tn__target *target, tn__sha256 *hash);

/* gpu.c */
bool tn__target_is_gpu(const char *text);
TN_MUST_USE tn_status *tn__target_parse_gpu(const char *text, tn__target *out);
void tn__target_print_gpu(const tn__target *target, char *name, size_t size);

#endif
