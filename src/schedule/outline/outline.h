/* Outlines: numeric summaries of the loop nests of one reduction and its epilogue, or of several stages. Both the steps
 * and the cost of a schedule follow from its outline, so a search compares thousands of schedules without applying a
 * primitive.
 *
 *   tn__outline o;
 *   tn__outline_start(&o, facts, NULL);                   // the plain nest; with a schedule, moves apply to it, too
 *   int parts[2];
 *   tn__outline_split(&o, loop, (int64_t[]){0, 16}, 2, parts);
 *   tn__outline_kind(&o, parts[1], TN__LOOP_VECTORIZED);  // moves: each changes the outline as a primitive changes the
 *                                                         // schedule
 *   tn__outline_views_of(&o, &views);                     // each block with its loops and the accesses along them
 *   tn__outline_features(facts, &views, target, options, &nest, &features);
 *   tn__cost_of(target, options, &nest, &features, &cost);
 *
 * The same views come from any schedule of the reduction (tn__outline_read), so one function costs schedules of all
 * rules. tests/unit/schedule/test_outline.c checks that an outline and the schedule after its steps have equal views.
 * Moves check nothing; the primitive rejects an invalid step when it is applied.
 *
 * Facts are allocated in the arena of their schedule. The caller owns outlines and views, which are plain structs.
 * An outline that applies its moves belongs to the thread of its schedule. */
#ifndef TENON_SCHEDULE_OUTLINE_OUTLINE_H
#define TENON_SCHEDULE_OUTLINE_OUTLINE_H

#include "schedule/internal.h"
#include "schedule/sketch/cost.h"

enum {
  TN__OUTLINE_NODES = 192,
  TN__OUTLINE_BLOCKS = 24,
  TN__OUTLINE_WORKS = 16,
  TN__OUTLINE_RESULTS = 4,
  TN__OUTLINE_STAGES = 8
};

/* What a node of an expression costs, in additions. */
typedef int64_t tn__outline_price(const tn__expr *e);

/* Operations that have another value for each position along these axes, a bit each, and quotients and roots among
 * them, which keep their unit busy. */
typedef struct tn__outline_work {
  uint32_t along;
  double weight, busy;
} tn__outline_work;

typedef struct tn__outline_body {
  tn__nest nest;                 /* accesses over the block's axes, those of the reduction last */
  int tensor[TN__NEST_ACCESSES]; /* of each access, as tn__outline_tensor() counts */
  int work_count;
  tn__outline_work works[TN__OUTLINE_WORKS];
} tn__outline_body;

/* What it takes to combine a term with the results. */
typedef struct tn__outline_combining {
  double all, chain; /* operations, and those of them that wait for each other */
  double keeps_nan;  /* results that are minima or maxima of floats */
} tn__outline_combining;

/* What the declaration says of a stage, whatever the schedule is: a reduction, with a map of its results, or a map. */
typedef struct tn__outline_facts {
  const char *block, *epilogue; /* of the reduction, and of the map that its results go through at once, or NULL */
  tn__outline_price *price;
  tn__outline_body reduce;
  int spatial; /* axes in front of the reduction's */
  bool map;    /* copy[0] is what it does, and nothing is reduced */
  /* Stages that go together: which axis of the outline each axis is. Those along which one stage reads the very
   * positions that another makes are one. */
  int16_t axis[TN__NEST_AXES];
  int tensor;     /* that it makes, as tn__outline_tensor() counts; -1: there are several */
  uint32_t whole; /* axes along which some reader needs other positions than its own, a bit each */
  int results, outputs;
  int64_t bytes[TN__OUTLINE_RESULTS]; /* of an element of each result */
  bool out[TN__OUTLINE_RESULTS];      /* it is an output; without an epilogue others are not read */
  tn__outline_combining combining;
  tn__outline_body copy[TN__OUTLINE_RESULTS]; /* what writes results where they go: one for all with an epilogue */
  uint32_t results_read;                      /* accesses of the epilogue to the results, a bit each */
  bool reorderable;
  double touched; /* bytes of all inputs and outputs */
} tn__outline_facts;

typedef enum tn__outline_role {
  TN__OUTLINE_REDUCE,
  TN__OUTLINE_COMBINE, /* adds up partial results */
  TN__OUTLINE_INIT,
  TN__OUTLINE_COPY
} tn__outline_role;

/* Nodes stand in a table; children are linked, in order. Node 0 is the root. */
typedef struct tn__outline_node {
  int16_t parent, first, next; /* -1: none */
  bool is_block;
  /* loops */
  tn__loop_kind kind;
  int16_t axis; /* of the outline; -1: over partial results */
  bool partial; /* each iteration has partial results of its own */
  bool fused;   /* with the loop in it, which has no other beside it; their kind is one, and nothing else moves them */
  int64_t extent, step;
  /* blocks */
  int16_t stage;
  tn__outline_role role;
  bool near;    /* what it writes is on the stack or in registers */
  bool starts;  /* a reduction that starts from its identities in the same nest */
  int16_t copy; /* of facts.copy */
} tn__outline_node;

typedef struct tn__outline {
  int stage_count;
  const tn__outline_facts *facts[TN__OUTLINE_STAGES];
  tn__schedule *s; /* that the moves are applied to as well; NULL: none */
  bool full;       /* a move had no room: this is the outline of no schedule, and later moves do nothing */
  int count;
  int last[TN__OUTLINE_STAGES];  /* the block that completes the results */
  int moved[TN__OUTLINE_STAGES]; /* the loop that the stage's tensor is computed in; 0: none */
  int place[TN__OUTLINE_STAGES]; /* the loop in which it has its room; 0: it is there as a whole */
  tn__outline_node node[TN__OUTLINE_NODES];
} tn__outline;

typedef struct tn__outline_view_loop {
  tn__loop_kind kind;
  int64_t extent;
  bool reduces; /* the block's own results */
  double trips; /* the share of the last iteration that is beyond the axis' end does nothing */
} tn__outline_view_loop;

typedef struct tn__outline_view_access {
  int tensor; /* as tn__outline_tensor() counts; -1: another one */
  int64_t element, bytes;
  bool store, scattered, again;
  /* Bytes from one iteration of each loop to the next; with panels from one in a panel to the next, and from one panel
   * to the next: `x / 2` has panels of two iterations, within which nothing moves. */
  int64_t stride[TN__NEST_AXES], panel[TN__NEST_AXES], far[TN__NEST_AXES];
  int64_t spread[TN__NEST_AXES]; /* as in tn__nest_access */
  int64_t places[TN__NEST_AXES]; /* as in tn__nest_stride */
} tn__outline_view_access;

/* A block with the loops around it, outermost first. Accesses are those of memory: not of registers and the stack. */
typedef struct tn__outline_view {
  tn__outline_role role;
  bool near, turned;      /* turned: vectors are columns of a tile in registers, which another block filled by rows */
  int loop_count, shared; /* the first `shared` loops are around the reduction, too */
  int with_last;          /* the first `with_last` loops are around the block before it, too */
  tn__outline_combining combining; /* as in facts, where it reduces */
  int results;
  int64_t bytes[TN__OUTLINE_RESULTS];
  tn__outline_view_loop loops[TN__NEST_AXES];
  int access_count;
  tn__outline_view_access access[TN__NEST_ACCESSES];
  int work_count;
  tn__outline_work works[TN__OUTLINE_WORKS]; /* along loops */
} tn__outline_view;

typedef struct tn__outline_views {
  int count;
  tn__outline_view view[TN__OUTLINE_BLOCKS];
} tn__outline_views;

/* ---- facts.c ----------------------------------------------------------------------------------------------------- */

/* Of the reduction `block` of an unscheduled declaration, and of the one map that reads its results, element by
 * element, or NULL. NULL when the block is none, is as long as data say or has more axes than there may be. */
const tn__outline_facts *tn__outline_facts_of(tn__schedule *s, const char *block, const char *epilogue,
                                              tn__outline_price *price);
/* Does the stage read the tensor? */
bool tn__outline_reads(const tn__outline_facts *facts, int tensor);
/* The same of any map or reduction, to go together with others. */
tn__outline_facts *tn__outline_stage_facts(tn__schedule *s, const char *block, tn__outline_price *price);
/* Gives the axes of stages that go together their numbers. False where two of one stage would get the same. */
bool tn__outline_join(tn__schedule *s, tn__outline_facts *const *facts, int count);
/* Inputs from 0 on, then the tensors of stages; -1: none of these. */
int tn__outline_tensor(const tn__te *te, const tn__buffer *buffer);
/* Does the block compute with words that hold several numbers? What is read for one is more than accesses tell. */
bool tn__outline_has_words(tn__schedule *s, const tn__block *block);
void tn__outline_combiner_of(tn__schedule *s, const tn__te_combiner *combiner, tn__outline_price *price,
                             tn__outline_combining *out);
/* Operations of a block, by the axes that they differ along; axis x is bit x. */
void tn__outline_works_of(tn__schedule *s, const tn__block *block, tn__outline_price *price, tn__outline_body *out);
/* Accesses and operations of any block. */
void tn__outline_body_of(tn__schedule *s, const char *block, tn__outline_price *price, tn__outline_body *out);

/* ---- outline.c: moves -------------------------------------------------------------------------------------------- */

/* The nests of the declaration. With a schedule, which is as it was when the facts were found, every move is applied to
 * it as well, and may throw. */
void tn__outline_start(tn__outline *o, const tn__outline_facts *facts, tn__schedule *s);
/* The nests of several stages, in the order of the schedule's. */
void tn__outline_start_stages(tn__outline *o, const tn__outline_facts *const *facts, int count, tn__schedule *s);
int tn__outline_block(const tn__outline *o, tn__outline_role role); /* the first of this role; -1: none */
/* The stage's own: that reduces, or what a map does. */
int tn__outline_stage_block(const tn__outline *o, int stage);
/* Does the loop reduce the results of a stage? */
bool tn__outline_reduces(const tn__outline_facts *facts, const tn__outline_node *loop);
/* Loops around the node, outermost first. */
TN_MUST_USE int tn__outline_path(const tn__outline *o, int node, int *out);
/* As the primitives of schedule.h; `parts` gets the loops. */
void tn__outline_split(tn__outline *o, int loop, const int64_t *factors, int count, int *parts);
void tn__outline_reorder(tn__outline *o, const int *loops, int count);
void tn__outline_kind(tn__outline *o, int loop, tn__loop_kind kind); /* parallel, vectorised or unrolled */
/* A loop and the only one in it, of several steps each and along another axis, whose extent is known. Views keep them
 * apart. */
void tn__outline_fuse(tn__outline *o, int outer, int inner);
/* The result goes into registers first; a copy then writes it in a nest of its own. Returns the copy; -1 for a result
 * that nobody wants, which stays there. */
int tn__outline_cache_write(tn__outline *o, int block, int result);
void tn__outline_reverse_compute_at(tn__outline *o, int copy, int loop);
/* A stage's block under a loop around all that reads it, along axes that these have in common with it: what an
 * iteration needs. A reduction whose results are near moves to the copy that writes them. */
void tn__outline_compute_at(tn__outline *o, int block, int loop);
/* The stage's tensor is on the stack, or in room for one iteration of the loop that it was moved to. */
void tn__outline_keep(tn__outline *o, int stage, bool stack);
void tn__outline_decompose(tn__outline *o, int block, int loop);
/* Returns the block that combines; `block` makes partial results, on the stack. */
int tn__outline_rfactor(tn__outline *o, int block, int loop);
/* Turns what the block keeps near so that dimension `dim` is the last, along which vectors run. Views don't tell. */
void tn__outline_turn(tn__outline *o, int block, int dim);
void tn__outline_set_scope(tn__outline *o, int block, tn__scope scope);

/* ---- view.c ------------------------------------------------------------------------------------------------------ */

/* An extent or a place, with every open dimension taken for TN__OPEN_EXTENT. False where data or loops decide. */
TN_MUST_USE bool tn__outline_number(const tn__schedule *s, const tn__expr *e, int64_t *out);

/* False where there are more loops or blocks than views have room for. */
TN_MUST_USE bool tn__outline_views_of(const tn__outline *o, tn__outline_views *out);
/* The same of a schedule of the declaration. False where it holds what views don't tell: prefetches, other tensors in
 * between, loops whose steps are no numbers. */
TN_MUST_USE bool tn__outline_read(tn__schedule *s, tn__outline_price *price, tn__outline_views *out);

enum { TN__OUTLINE_DEPTHS = 5, TN__OUTLINE_KNOWN = 128 };

/* What a block touches inside of so many of its loops: bytes of each access. */
typedef struct tn__outline_touched {
  double bytes[TN__OUTLINE_DEPTHS][TN__NEST_ACCESSES];
} tn__outline_touched;

/* What was found out of a block that looked like this, and what it cost among others. A key is of all that it follows
 * from. */
typedef struct tn__outline_known {
  uint64_t key[2];
  tn__outline_touched touched;
} tn__outline_known;

typedef struct tn__outline_known_cost {
  uint64_t key[2];
  tn__cost cost;
} tn__outline_known_cost;

/* Where several stages are weighed: views of a candidate, and what follows from them. A move changes some blocks, and
 * the others are not weighed again. All zeros at first. */
typedef struct tn__outline_work_room {
  tn__outline_views views;
  uint64_t key[TN__OUTLINE_BLOCKS][2];
  tn__outline_touched touched[TN__OUTLINE_BLOCKS];
  tn__outline_known known[TN__OUTLINE_KNOWN];
  tn__outline_known_cost costs[TN__OUTLINE_KNOWN];
  int64_t found, weighed; /* blocks whose cost was known, and all */
} tn__outline_work_room;

/* ---- weigh.c ----------------------------------------------------------------------------------------------------- */

/* Cycles of the views of several stages, one after the other: what a block finds in a cache follows from what else is
 * touched in the loop that it shares with the one before that touched the same. INFINITY: registers don't suffice. */
double tn__outline_weigh(tn__outline_work_room *room, const tn__target *target, const tn__schedule_options *options,
                         tn__cost *out);
/* The features of tn__cost_of(), and the nest that they are about. */
void tn__outline_features(const tn__outline_views *views, const tn__target *target, const tn__schedule_options *options,
                          tn__nest *nest, tn__sketch_features *f);

#endif
