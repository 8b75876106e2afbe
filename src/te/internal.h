/* What the files of te share: the declaration behind tn__te. */
#ifndef TENON_TE_INTERNAL_H
#define TENON_TE_INTERNAL_H

#include "base/map.h"
#include "ir/print.h"
#include "te/te.h"

struct tn__te {
  tn__ir *ir;
  tn__arena *arena;
  const char *name;
  bool unchecked; /* indices stay as they are: whoever declared it vouches for them */
  TN__VEC(const tn__var *) dims;
  TN__VEC(const tn__buffer *) inputs;
  TN__VEC(const tn__buffer *) outputs;
  TN__VEC(int) over; /* by output: the input whose memory it takes, or -1 */
  TN__VEC(tn__te_stage *) stages;
  TN__VEC(tn__buffer *) tensors;            /* of all stages, defined or only declared */
  TN__VEC(const tn__buffer *) scan_tensors; /* declared, not yet defined */
  tn__map names;                            /* of tensors, dimensions and stages: who uses which */
};

/* Adds copies of the stages from `first` up to `end`, those in a scan's steps with it; what they read of others was
 * imported before. */
void tn__te_copy_stages(tn__importer *m, tn__te *te, const tn__te *from, int first, int end);

/* The inputs, stages and outputs of `from`; the importer knows its dimensions. */
void tn__te_copy_rest(tn__importer *m, tn__te *te, const tn__te *from);
void tn__te_add_output(tn__te *te, const tn__buffer *tensor, int over);

/* Rewrites all expressions of the stage. */
void tn__te_rewrite_stage(tn__te *te, tn__te_stage *stage, tn__expr_rewriter fn, void *user);

/* Of a tensor, whose size the declaration or the run tells, so that the sizes of all that a kernel keeps add up inside
 * of an i64. */
#define TN__TE_MOST_BYTES 281474976710656.0 /* 2^48 */
#define TN__TE_MOST (INT64_C(1) << 61)      /* sums of a few numbers of this size do not wrap around */
/* A bound of |e|, for dimensions of at most 2^48 and axes over such extents. */
double tn__te_largest(const tn__expr *e);

/* Has one of its axes no steps, whatever the others are? Nothing is read then. */
bool tn__te_is_empty(tn__ir *ir, const tn__te_stage *stage);

/* Are all indices of the stage inside of their tensors for all dimensions, by what stands around them alone? */
bool tn__te_shows_inside(const tn__te *te, int stage);
/* Moves all indices of the stage that nothing shows to be inside to the nearest element. */
void tn__te_move_inside(tn__te *te, int stage);

/* The last `added` stages go in front of number `at`. */
void tn__te_move_before(tn__te *te, int at, int added);

/* A map that defines the tensor in the place of what defined it, behind all stages, also in the steps of a scan
 * (`step_of`), whose axis all of a step's stages share. */
void tn__te_define(tn__te *te, const tn__te_axes *axes, const tn__buffer *step_of, const tn__buffer *tensor,
                   const tn__expr *value);

/* Puts a combiner's tensors behind those of another, with variables of their own. */
void tn__te_add_combiner(tn__ir *ir, tn__te_combiner *out, const tn__te_combiner *c);

/* Does the load move with every axis of the stage but number `except`, each in a dimension of its own?
 * (coordinates.c) */
bool tn__te_is_of_all_axes(const tn__te_stage *stage, int except, const tn__expr *load);

/* Operations on what depends on all axes of the stage's results that are in terms `a` and in `b`, with those of maps
 * that both read; all are in terms of the stage's axes. (coordinates.c) */
int64_t tn__te_shared_work(const tn__te *te, const tn__te_stage *stage, const tn__expr *const *a, int a_count,
                           const tn__expr *const *b, int b_count);

/* Of these, as many are worth it that what has them in common is computed at once: for each further result of one
 * reduction, and for each further reduction. */
enum { TN__TE_WORTH_SHARING = 4 };

/* Rewrites products of floats so that factors which all of them have are multiplied once. (factors.c) */
void tn__te_share_factors(tn__ir *ir, const tn__expr **terms, int count);

/* Do the axes begin and end alike? Does the stage read a tensor of the other? (siblings.c) */
bool tn__te_same_extents(const tn__te_axes *a, const tn__te_axes *b);
bool tn__te_reads_of(const tn__te *te, const tn__te_stage *stage, const tn__te_stage *of);

/* Is it a sum of one tensor, in any order of its terms? (bytes.c) */
bool tn__te_is_sum(const tn__te_stage *stage);
/* A sum of the stage's over axes of its own, behind all others, read at the stage's positions: named after it with the
 * suffix, along those of the stage's axes that `used_by` depends on (NULL: all). */
const tn__expr *tn__te_add_sum(tn__te *te, const tn__te_stage *stage, const tn__te_axes *reduce, const char *suffix,
                               const tn__te_combiner *combiner, const tn__expr *term, const tn__expr *used_by);

/* The positions of a scan's axis that have its first values, or those of all others: `count` from `start` on. */
void tn__te_scan_positions(tn__ir *ir, const tn__expr *extent, int64_t depth, bool backwards, bool first,
                           const tn__expr **start, const tn__expr **count);

/* What stands for a scan's axis where only some of its positions are looked at, and for the axes of reductions whose
 * bounds depend on it. */
typedef struct tn__te_positions {
  int count; /* 0: all positions */
  const tn__var *from[2 * TN__MAX_RANK + 1];
  const tn__expr *to[2 * TN__MAX_RANK + 1];
} tn__te_positions;
/* Those that have the first values of the scan along `axis`, or all others. Returns the variable over them. */
const tn__var *tn__te_positions_enter(tn__ir *ir, const tn__var *axis, const tn__te_stage *scan, bool first,
                                      tn__te_positions *out);
/* Adds what stands for the axis of a reduction; NULL: its bounds don't depend on the scan's. */
const tn__var *tn__te_positions_add(tn__ir *ir, const tn__var *axis, tn__te_positions *positions);
const tn__expr *tn__te_at(tn__ir *ir, const tn__expr *e, const tn__te_positions *positions);

#endif
