/* The static cost function: what a loop nest costs on a target, from closed expressions over its tiling. No loop IR is
 * built and nothing is known of particular shapes or models.
 *
 * A rule describes the computation once, as a *nest*: axes, and accesses with a stride along each axis. For one choice
 * of its decisions it then states *features*: the loops from the outermost to the innermost, and what the innermost
 * part executes. tn__cost_of() turns these into cycles:
 *
 *   work    for each phase (the tile's reduction, its epilogue, a tail ...) the busiest of arithmetic ports, load
 *           ports, store ports, shuffle port, issue, and the latency of the longest chain; summed over phases, with the
 *           overhead of loops
 *   levels  for each cache the bytes that come into it, over what that level delivers. An access is fetched again by
 *           every iteration of a loop whose body does not fit, unless it stands still there (the working sets of Low et
 *           al., "Analytical modeling is enough for high-performance BLIS", 2016, for any nest)
 *   share   the part that the slowest thread has, and what it costs to start the others
 *
 * The result is the largest of work and levels, plus a part of the others, as they overlap well but not wholly. */
#ifndef TENON_SCHEDULE_SKETCH_COST_H
#define TENON_SCHEDULE_SKETCH_COST_H

#include "schedule/schedule.h"

enum { TN__NEST_AXES = 24, TN__NEST_ACCESSES = 12, TN__NEST_LOOPS = 40 };

/* Bytes from one step of an axis to the next; with panels, `stride` within a panel of `panel` steps and `far` from one
 * panel to the next (packed operands, groups of channels). */
typedef struct tn__nest_stride {
  int64_t stride, panel, far; /* panel 0: none */
  int64_t places;             /* data choose among so many, however many steps there are; 0: each step has its own */
} tn__nest_stride;

typedef struct tn__nest_access {
  const tn__buffer *buffer; /* NULL: nobody told */
  int64_t element, bytes;   /* of an element, and of all of the tensor; 0: nobody told */
  bool store, scattered; /* scattered: no stride is known, each element counts as a cache line, up to all there are */
  tn__nest_stride along[TN__NEST_AXES];
  /* Accesses of one tensor that lie a few steps apart, as those of a stencil do, touch the same lines: the first of
   * them covers `spread` steps more along each axis, and the others count as work only. */
  int64_t spread[TN__NEST_AXES];
  bool again;
  int held;                     /* found in this cache, 1 for L1: it brings nothing into it from beyond; 0: in none */
  bool straddles;               /* runs that start anywhere in a line count what they touch of two */
  bool near;                    /* the tensor is on the stack or in registers */
  uint8_t order[TN__NEST_AXES]; /* axes that move the access, by rising stride */
  int moving;
} tn__nest_access;

typedef struct tn__nest {
  int axis_count, access_count;
  int64_t extent[TN__NEST_AXES]; /* open dimensions: TN__OPEN_EXTENT */
  bool open[TN__NEST_AXES];
  tn__nest_access access[TN__NEST_ACCESSES];
} tn__nest;

/* `trips` iterations that move `step` steps along `axis`. */
typedef struct tn__nest_loop {
  int axis;
  int64_t trips, step;
} tn__nest_loop;

/* What one execution of a straight piece of code does; instructions are of `vector_bytes`. */
typedef struct tn__operations {
  int vector_bytes;
  double fma; /* and other arithmetic */
  double loads, stores, shuffles, gathers /* elements */, other;
  double chain; /* cycles of latency from one execution to the next */
  double busy;  /* cycles of the unit that divides */
} tn__operations;

typedef struct tn__sketch_features {
  tn__nest_loop loops[TN__NEST_LOOPS]; /* outermost first */
  int loop_count;
  const double *beside;                                     /* bytes that others touch inside of so many loops, a
                                                               number for each of 0..loop_count; NULL: nothing */
  int8_t copied[TN__NEST_ACCESSES];                         /* 0: no; else inside of so many loops and one less the
                                                               access finds a copy, whose elements lie close together */
  double pieces;                                            /* share of what comes from beyond L2 that comes in pieces
                                                               of few lines, which nothing fetches ahead */
  int registers;                                            /* live vectors at the most */
  double work_cycles;                                       /* phases added up by tn__cost_phase */
  double fma, loads, stores, shuffles, gathers, iterations; /* of the whole nest, on one thread */
  double useful, spent; /* lanes of results computed, and lanes that ran for them: tails are the difference */
  int64_t chunks;       /* parallel iterations; 1: serial */
  double exposed;       /* share of what comes from beyond L2 that other work does not hide; 0: the usual one */
  double extra_cycles;  /* of other passes over memory */
  double stored_bytes;  /* of all outputs */
  double unseen_bytes;  /* of outputs that the nest does not write */
  bool streams;         /* outputs are stored non-temporally */
  double extra_bytes;
} tn__sketch_features;

typedef enum tn__bound { TN__BOUND_WORK, TN__BOUND_L1, TN__BOUND_L2, TN__BOUND_L3, TN__BOUND_MEMORY } tn__bound;

typedef struct tn__cost {
  double cycles, seconds; /* of the whole kernel on `threads` threads; seconds at the target's usual clock */
  double work;            /* cycles of one thread if data were always there */
  double bytes[3];        /* that come into the first, second, third level */
  double level[3];        /* cycles for that */
  double footprint[3];    /* bytes that the deepest loops that fit each level touch */
  double overhead;        /* fork and join, other passes */
  double balance;         /* share of the work that the slowest thread has */
  double tail;            /* share of the lanes that run for nothing */
  int registers;
  tn__bound bound; /* TN__BOUND_L2: what comes from the second level bounds it, and so on */
} tn__cost;

/* The accesses of a block, over the axes of the block in their order. */
void tn__nest_of_block(tn__schedule *s, const char *block, tn__nest *out);
/* Orders each access' axes; call it after the strides were filled in by hand. */
void tn__nest_finish(tn__nest *nest);
/* Bytes (in whole cache lines) of the access when axis a covers ranges[a] steps. */
double tn__nest_footprint(const tn__target *target, const tn__nest_access *access, const int64_t *ranges);
/* Bytes that lie in one piece, of the same. */
int64_t tn__nest_piece(const tn__target *target, const tn__nest_access *access, const int64_t *ranges);

/* The part of accesses by vectors of `bytes` along `axis` that lie across two cache lines and count twice; vectors
 * wider than a load port are several accesses. */
double tn__nest_crossing(const tn__target *target, const tn__nest_access *access, int axis_count, int axis,
                         int64_t bytes);
/* How many vectors the code generator loads and puts in order (emit_memory.c) for one whose lanes lie `stride` bytes
 * apart; 0: it gathers. */
double tn__nest_shuffled(int64_t element, int64_t stride, double lanes);

/* Loads of vectors that one of an element into all lanes is worth: it takes a port like any other load, while a vector
 * may take several, one after the other. */
double tn__cost_broadcast(const tn__target *target, int vector_bytes);
/* Operations that it takes, beside the minimum or maximum itself, to keep NaN in each of so many vectors of results
 * that take up that many terms in one piece of code: the code generator tests terms in pairs, where there are two. */
double tn__cost_keeping_nan(const tn__target *target, double registers, double terms);
/* Cycles of one execution; the same in `f` for `times` executions. */
double tn__sketch_operation_cycles(const tn__target *target, const tn__operations *ops);
void tn__cost_phase(tn__sketch_features *f, const tn__target *target, const tn__operations *ops, double times);
/* Loop overhead: `entries` times a loop of `trips` iterations is run through. */
void tn__cost_loop(tn__sketch_features *f, const tn__target *target, double entries, double trips);

/* Cycles; INFINITY when the registers don't suffice by far. `out` may be NULL. */
double tn__cost_of(const tn__target *target, const tn__schedule_options *options, const tn__nest *nest,
                   const tn__sketch_features *f, tn__cost *out);
const char *tn__bound_name(tn__bound bound); /* "arithmetic", "L2", "L3", "memory" */

#endif
