/* What the loops of a candidate do, counted: for each innermost statement of its loop IR how often it runs and in which
 * kinds of loops, what it computes, and of each tensor that it reads or writes how many bytes and lines there are, how
 * they lie and how soon they come again. Ansor (Zheng et al., OSDI 2020) describes candidates to its cost model in this
 * way; what is counted here, and how, is our own.
 *
 *   steps     executions of the statement, those of a vectorised loop together once
 *   strides   in bytes, along each loop around; of an index that is not affine, as one of a fused loop, what it moves
 *             by on the average; what data choose is scattered
 *   unique    bytes, and lines of a cache, that an access touches in all loops together
 *   reuse     how often an element comes again, and the distance: bytes that the statement touches in one iteration of
 *             the innermost loop in which the access stands still; 0 where there is none
 *   traffic   bytes that come into a memory of a given size, with what fits into it used again: from that, and from the
 *             operations, follows the arithmetic intensity that a cache of any size gives
 *
 * A statement is a store or an instruction on small tensors of the function behind lower_blocks: unrolled loops are
 * loops, and tails are not apart. Conditions count as if they held; open sizes are TN__OPEN_EXTENT. The numbers of all
 * statements become one row of fixed length: sums in logarithms, and those of the statement with the most work. The
 * same function gives the same row. */
#ifndef TENON_SCHEDULE_SKETCH_FEATURES_H
#define TENON_SCHEDULE_SKETCH_FEATURES_H

#include "base/linked.h"
#include "schedule/sketch/cost.h"

enum { TN__FEATURES = 97, TN__FEATURE_ACCESSES = 8, TN__FEATURE_SIZES = 7 };

/* What a statement computes, per step. Arithmetic is of values, not of positions, unless its name says so. */
typedef enum tn__feature_operation {
  TN__FEATURE_MULADD, /* a product of floats that is added to something */
  TN__FEATURE_ADD,    /* and subtract, of floats */
  TN__FEATURE_MUL,    /* of floats */
  TN__FEATURE_DIV,    /* and remainders of any type */
  TN__FEATURE_MINMAX,
  TN__FEATURE_CHOICE, /* comparisons, logic and selects */
  TN__FEATURE_CALL,   /* functions */
  TN__FEATURE_CAST,
  TN__FEATURE_INTEGER, /* other arithmetic of integers */
  TN__FEATURE_INDEX,   /* operations of positions that are no sums of loops and constants */
  TN__FEATURE_OPERATIONS
} tn__feature_operation;

/* How an access moves along the statement's vectorised loop. */
typedef enum tn__feature_pattern {
  TN__FEATURE_SCALAR, /* there is none */
  TN__FEATURE_BROADCAST,
  TN__FEATURE_CONTIGUOUS,
  TN__FEATURE_STRIDED,
  TN__FEATURE_SCATTERED,
  TN__FEATURE_PATTERNS
} tn__feature_pattern;

typedef struct tn__loop_access {
  const tn__buffer *buffer;
  bool store;
  tn__feature_pattern pattern;
  int64_t element; /* bytes */
  double bytes;    /* that all steps move; a broadcast moves its element once */
  double unique_bytes, unique_lines;
  double reuse, distance;
  double stride; /* bytes along the innermost serial loop, and 0 without one */
} tn__loop_access;

typedef struct tn__loop_statement {
  const tn__stmt *stmt;
  double trips, steps;              /* iterations of all loops around; the same over `lanes` */
  double parallel, lanes, unrolled; /* iterations of loops of these kinds */
  double serial[4];                 /* of the innermost serial loops, from the inside out; 1: there is none */
  double reduced, independent;      /* of loops that the store stands still in; of unrolled ones that it moves in */
  double operations[TN__FEATURE_OPERATIONS]; /* of one step */
  int access_count;                          /* those beyond TN__FEATURE_ACCESSES are left out; none is of registers */
  tn__loop_access access[TN__FEATURE_ACCESSES];
  double register_accesses;          /* of one step */
  double traffic[TN__FEATURE_SIZES]; /* bytes into memories of tn__feature_size(i) bytes */
} tn__loop_statement;

double tn__feature_size(int i); /* 4 KiB, 16 KiB, ... 16 MiB */

/* Calls `see` with each statement of a function without blocks, in the order of its text. Throws out of memory. */
void tn__features_walk(tn__ir *ir, const tn__func *func, const tn__target *target,
                       void (*see)(const tn__loop_statement *statement, void *user), void *user);
/* The row of a function without blocks. */
void tn__features_of(tn__ir *ir, const tn__func *func, const tn__target *target, float out[TN__FEATURES]);
/* The row of a schedule, which may get no more steps. Throws what lowering throws. */
TN__LINKED void tn__features_of_schedule(const tn__schedule *schedule, const tn__target *target,
                                         float out[TN__FEATURES]);

#endif
