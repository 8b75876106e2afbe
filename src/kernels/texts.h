/* The texts that an executable keeps for people and tools (sections of kind 64, docs/executable-format.md). Nothing at
 * run time needs them. */
#ifndef TENON_KERNELS_TEXTS_H
#define TENON_KERNELS_TEXTS_H

#include "base/strbuf.h"
#include "ir/stmt.h"
#include "te/te.h"

enum {
  TN__TEXT_SCHEDULES = 1,    /* the trace of each kernel's schedule */
  TN__TEXT_GRAPH = 2,        /* the model's functions as they were fused */
  TN__TEXT_DECLARATIONS = 4, /* what each kernel computes, in the language of declarations */
  TN__TEXT_LOOPS = 8,        /* each kernel's loop nest as the code generator got it */
  TN__TEXT_KINDS = 4
};

/* "declarations,loops", "all", "none"; NULL: the schedules alone. What it does not know is TN_INVALID_ARGUMENT. */
TN_MUST_USE tn_status *tn__kernels_texts_parse(const char *list, unsigned *out);
unsigned tn__kernels_text_of_name(const char *name); /* TN__TEXT_..., or 0 */
/* The name and the TN__TEXT_... of a kind, in the order of the file. */
const char *tn__kernels_text_name(int kind);
unsigned tn__kernels_text_at(int kind);
/* Parts of one kernel, in the arena. */
const char *tn__kernels_text_of_declaration(tn__arena *arena, const tn__te *te, const char *name);
const char *tn__kernels_text_of_loops(tn__arena *arena, const tn__func *func);

#endif
