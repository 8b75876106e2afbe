/* Texts of targets: what `--target` takes. docs/targets.md is the manual.
 *
 * A text is a first word and attributes: "cpu -mcpu=x86-64-v4 -cores=2". Kinds and attributes are rows of tables:
 * text.c has the kinds' and the presets, cpu.c and gpu.c the attributes'. */
#ifndef TENON_TARGET_TEXT_TEXT_H
#define TENON_TARGET_TEXT_TEXT_H

#include "base/linked.h"
#include "target/target.h"

/* A kind, a preset or a CPU, and attributes: "cpu -mcpu=x86-64-v4 -cores=2", "opencl -device=0", "cuda -arch=sm_90",
 * "nvidia-h100 -device=1". Values with blanks stand in quotes: -host="cpu -mcpu=haswell".
 *
 * "native" (or NULL): this machine. "x86-64", "x86-64-v2", "-v3", "-v4", "aarch64": baselines with typical caches.
 * "haswell", "znver4", ...: CPUs as their rows of cpus.c have them. Each may be followed by "+feature" or "-feature"
 * items ("x86-64-v3+avx512f"), read from left to right: adding brings what the feature implies, taking away takes what
 * implies it. "cpu" alone is "native", and "gpu,warp=64" is "gpu -warp=64".
 * What is unknown is TN_INVALID_ARGUMENT and lists what is known. */
TN__LINKED TN_MUST_USE tn_status *tn__target_parse(const char *text, tn__target *out);
/* Everything that was said, in the order of the tables: reads back as an equal target. */
void tn__target_print(const tn__target *target, char text[TN__TARGET_TEXT]);
/* The same kind and the same of everything that a text can say, whatever words said it; and the same machine. */
bool tn__target_equal(const tn__target *a, const tn__target *b);
uint64_t tn__target_key(const tn__target *target); /* equal for equal targets */
/* Was the attribute said whose value is at this offset of tn__target? */
bool tn__target_says(const tn__target *target, size_t at);
/* To schedule for unless the caller says so: what the text says, or what this process may use; else one. */
int tn__target_threads(const tn__target *target);

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* The type of devices of that name; -1: none. */
int tn__target_type_find(const char *name, size_t length);
void tn__target_type_names(char *text, size_t size); /* "cpu, gpu, opencl, cuda, island" */

enum { TN__TARGET_EVERY_KIND = -1 };
const char *tn__target_kind_help(tn__target_kind kind);
const char *tn__target_name_at(int index); /* CPUs, then presets; NULL behind the last */
/* Name, values ("1 to 128"; of words "") and meaning of attribute `index` of a kind alone, or of every kind; false
 * behind the last. */
TN_MUST_USE bool tn__target_attribute_at(int kind, int index, char name[32], char values[64], const char **help);

#endif
