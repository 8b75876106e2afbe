/* Schedules: steps that transform a lowered declaration without changing what it computes.
 *
 * Every primitive checks its legality and throws TN_INVALID_ARGUMENT saying why it refuses; on success it records
 * itself, so the schedule always knows its trace. A trace prints as text (one step a line), parses, replays on the same
 * declaration and refuses another (it starts with the declaration's structural hash). Default rules and tuners only
 * ever go through these primitives.
 *
 * Blocks are named; loops are named too: the lowering names them "<block>.<axis>", split gives "<loop>.0", "<loop>.1"
 * ... (outermost first), fuse "<a>+<b>". A step names what it touches, so that a trace can be read. */
#ifndef TENON_SCHEDULE_SCHEDULE_H
#define TENON_SCHEDULE_SCHEDULE_H

#include "target/target.h"
#include "te/te.h"

typedef struct tn__schedule tn__schedule;

tn__schedule *tn__schedule_of(const tn__te *te,
                              const tn__target *target); /* the unscheduled lowering, an empty trace */
const tn__func *tn__schedule_func(const tn__schedule *s);
const tn__te *tn__schedule_te(const tn__schedule *s);

/* ---- primitives -------------------------------------------------------------------------------------------------- */
/* Splits into factors.count loops, outermost first; at most one factor is 0, "whatever is left" (rounded up; a
 * predicate guards the rest unless it divides). Names of the new loops: "<loop>.0", ... */
void tn__split(tn__schedule *s, const char *loop, const int64_t *factors, int count);
void tn__fuse(tn__schedule *s, const char *outer,
              const char *inner); /* perfectly nested neighbours -> "<outer>+<inner>" */
void tn__reorder(tn__schedule *s, const char *const *loops,
                 int count); /* these take each other's places in this order */
void tn__parallel(tn__schedule *s, const char *loop);
void tn__vectorize(tn__schedule *s, const char *loop);
void tn__unroll(tn__schedule *s, const char *loop);
/* Moves the producer block under `loop` of its consumers, computing just the region needed there. */
void tn__compute_at(tn__schedule *s, const char *block, const char *loop);
/* Moves a consumer (an epilogue) under `loop` of its producer, after it: all that the loop's body needs is complete
 * there. */
void tn__reverse_compute_at(tn__schedule *s, const char *block, const char *loop);
void tn__inline(tn__schedule *s, const char *block);         /* an element-wise producer into all of its consumers */
void tn__reverse_inline(tn__schedule *s, const char *block); /* an element-wise consumer into its only producer */
/* The block's output goes to a new buffer of `scope` first and a new block "<block>.write" copies it out. */
void tn__cache_write(tn__schedule *s, const char *block, int write_index, tn__scope scope);
void tn__cache_read(tn__schedule *s, const char *block, int read_index,
                    tn__scope scope); /* new block "<block>.read<i>" */
/* The same with the copy's dimensions in another order: its dimension d is dimension order[d] of the tensor. Returns
 * the new block's name. */
const char *tn__cache_read_in_order(tn__schedule *s, const char *block, int read_index, tn__scope scope,
                                    const int *order, int rank);
/* Splits the reduction over `loop` of a reorderable combiner: block "<block>.rf" reduces per value of loop, `block`
 * combines. */
void tn__rfactor(tn__schedule *s, const char *loop);
/* The reduction's initialisation becomes a block of its own, "<block>.init", just outside of `loop`. */
void tn__decompose_reduction(tn__schedule *s, const char *block, const char *loop);
void tn__set_scope(tn__schedule *s, const char *block, int write_index, tn__scope scope);

/* Loops around a block, outermost first, into names (at most `capacity`); returns how many there are. */
int tn__loops_of(const tn__schedule *s, const char *block, const char **names, int capacity);

/* ---- traces ------------------------------------------------------------------------------------------------------ */
void tn__trace_print(const tn__schedule *s, tn__strbuf *out);
/* Applies a printed trace to an unscheduled declaration. Untrusted text. Errors name the line: "trace:4: ...". */
TN_MUST_USE tn_status *tn__trace_replay(const tn__te *te, const tn__target *target, const char *text,
                                        tn__schedule **out);

/* ---- rules ------------------------------------------------------------------------------------------------------- */
typedef struct tn__schedule_options {
  int threads;      /* 0: the target's cores */
  int vector_bytes; /* 0: the target's */
} tn__schedule_options;

/* Chooses a rule by the class of the computation and applies it: never fails on a valid declaration (falls back to the
 * plain nest). */
tn__schedule *tn__schedule_default(const tn__te *te, const tn__target *target, const tn__schedule_options *options);
/* The width in elements to which the driver packs a constant right operand's output channels: [n / width][k
 * ...][width]. */
int tn__schedule_pack_width(const tn__target *target, tn_dtype dtype, int64_t columns);

#endif
