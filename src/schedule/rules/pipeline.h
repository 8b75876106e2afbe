/* What the rule "pipeline" knows of a declaration of several stages (pipeline_stages.c), and what it costs to compute
 * groups of them a tile at a time (pipeline_cost.c). The idea of groups that grow by merging, each computed in
 * overlapping tiles of its last stage, is that of Mullapudi et al., "Automatically Scheduling Halide Image Processing
 * Pipelines" (SIGGRAPH 2016); what a stage costs, and what is inlined, comes from the target's ports and caches. */
#ifndef TENON_SCHEDULE_RULES_PIPELINE_H
#define TENON_SCHEDULE_RULES_PIPELINE_H

#include "schedule/rules/rules.h"

/* Stages that are computed together at the most, and the axes of one. */
enum { TN__PIPE_STAGES = 128, TN__PIPE_AXES = 2 * TN__MAX_RANK };

/* Vectors of columns whose steps registers hold; columns of other tiles of maps, at the least, or a divisor near. */
enum { TN__PIPE_COLUMNS = 4, TN__PIPE_LEAST_COLUMNS = 64 };

/* Sizes that are open are taken for TN__PIPE_OPEN everywhere: pipelines are of images and the like, and small ones take
 * little time whatever is done. */
enum { TN__PIPE_OPEN = 1000 };

/* An index that moves with one axis of the stage, `scale` elements a step, or with none (`axis` -1). */
typedef struct tn__pipe_index {
  bool is_simple; /* it is one; others are walked through */
  int axis;
  int64_t scale, offset;
} tn__pipe_index;

/* What a stage reads of one tensor at one point: [min, last] in each dimension, in terms of the stage's axes. */
typedef struct tn__pipe_read {
  int from; /* the stage that makes the tensor; -1: it is an input */
  const tn__buffer *buffer;
  int64_t shape[TN__MAX_RANK];
  const tn__expr *min[TN__MAX_RANK], *last[TN__MAX_RANK];
  tn__pipe_index first_index[TN__MAX_RANK], last_index[TN__MAX_RANK]; /* the same */
} tn__pipe_read;

typedef struct tn__pipe_stage {
  const tn__snode *block;
  const char *name;
  const tn__buffer *buffer; /* the tensor that it makes, or the first of several, which lie alike where it is movable */
  bool movable;             /* it can be computed where its readers are */
  bool is_output;
  int axis_count, spatial; /* axes of the reduction come behind the others */
  const tn__var *axis[TN__PIPE_AXES];
  int64_t extent[TN__PIPE_AXES];
  bool open[TN__PIPE_AXES]; /* the axis is as long as a size that is open */
  int64_t shape[TN__MAX_RANK];
  int axis_of_dim[TN__MAX_RANK]; /* of the tensor; -1: the dimension is 1 */
  int scan_axis, scan_dim;       /* of a scan, whose steps are computed all together; -1: it is none */
  int turned_axis;               /* of a map: what it reads lies along this axis and not along the last; -1: none */
  bool fuses;                    /* the last two axes of a map, pixels and a few channels, are one row of vectors */
  double terms;                  /* that one element reduces; 1 of a map */
  int64_t lanes;                 /* of a vector of the widest type that it computes with */
  double cycles;                 /* for a vector of elements, a term each */
  double added_cycles;           /* of a reduction, with sums that are in a cache and not in registers */
  double register_cycles;        /* where all that stages make is in registers */
  bool has_lanes;                /* a reduction's vectors can run along what is contiguous in its results */
  int read_count;
  const tn__pipe_read *reads;
  TN__VEC(int) readers; /* stages that read the tensor, in order */
} tn__pipe_stage;

typedef struct tn__pipe {
  tn__schedule *s;          /* with small stages inlined */
  const tn__target *target; /* whose costs count */
  int64_t cache_bytes;      /* L2 */
  int parts;                /* that threads want of a group */
  int count;
  tn__pipe_stage *stages; /* in order: what a stage reads stands before it */
} tn__pipe;

/* A tile may be computed a row at a time: each of the others' rows once, in front of the first row that needs it. */
typedef struct tn__pipe_sweep {
  int axis, columns;                                    /* of the last stage: rows follow each other along the first */
  int dim[TN__PIPE_STAGES];                             /* of each other member's tensor, that moves with the rows */
  int64_t step[TN__PIPE_STAGES], rows[TN__PIPE_STAGES]; /* by how much it moves, and how much of it a row needs */
} tn__pipe_sweep;

/* A reduction whose terms may be computed one after the other, each for all of a tile: what only this term needs of
 * other members is made in front of it, and the sums so far stay in a cache. */
typedef struct tn__pipe_terms {
  int sum;                      /* the member that reduces */
  bool inside[TN__PIPE_STAGES]; /* members that are made in its loops over terms */
} tn__pipe_terms;

/* Where the members of a group with scans are: in a cache, or in registers, a few vectors of columns at a time. There
 * all steps are written out, or a loop over them keeps the last ones, where nobody needs more. */
typedef enum tn__pipe_place { TN__PIPE_IN_CACHE, TN__PIPE_WRITTEN_OUT, TN__PIPE_IN_TURNS } tn__pipe_place;

/* Stages that are computed together: tiles of the last one, and what the others make for each. */
typedef struct tn__pipe_group {
  int count;
  int member[TN__PIPE_STAGES]; /* in order; the last one is the only one that others read */
  int64_t tile[TN__PIPE_AXES]; /* along the axes of the last stage; as long as the axis: there is one tile */
  const tn__pipe_sweep *sweep; /* NULL: no rows share anything, or not all members move with them by a constant */
  bool slides;                 /* tiles are computed row by row, and what rows share is kept */
  bool refused;                /* that was tried, and a primitive refused it */
  const tn__pipe_terms *terms; /* a member's terms are computed one after the other; NULL: no member's */
  bool terms_refused, columns_refused; /* that was tried, or tiles of parts of rows were */
  bool registers_refused;              /* members in registers were tried */
  double cycles;
} tn__pipe_group;

/* Inlines what its readers compute as cheaply as they read it. */
void tn__pipe_inline(tn__schedule *s, const tn__target *target);
/* Makes tensors of parts that take work and that many positions share; returns how many. */
int tn__pipe_hoist(tn__schedule *s);
/* Is the block a map that may be inlined, whatever that costs? */
bool tn__pipe_can_inline(tn__schedule *s, const tn__snode *block);
/* The stages that are left in the schedule. */
tn__pipe *tn__pipe_create(tn__schedule *s, const tn__target *target);

/* Is the axis of the last stage one that the other members' elements depend on? Others stay inside of the tiles. */
bool tn__pipe_is_tiled(const tn__pipe *p, const tn__pipe_group *g, int axis);
/* The elements of each member's tensor that a tile needs, by its dimensions: sizes[i] of member i. `terms`: those that
 * are inside, for one term (NULL: for all). */
void tn__pipe_boxes(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile, const tn__pipe_terms *terms,
                    int64_t (*sizes)[TN__MAX_RANK]);
/* Where the members are while such a tile is computed, at once. */
tn__pipe_place tn__pipe_place_of(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile);
/* Cycles of all tiles of the group, with what comes from memory and goes there; INFINITY for what makes no sense.
 * `slides`: tiles are computed row by row, where the group has a sweep. */
double tn__pipe_cycles(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile, bool slides);
/* Do the windows of neighbouring rows of the stage, `size` of which are computed at once, share most of what they read,
 * and is what a row reads too much for L1? Then a few columns at a time go through all rows. */
bool tn__pipe_walks_columns(const tn__pipe *p, const tn__pipe_stage *stage, const int64_t *size);
/* Sizes of tiles worth trying along one axis, in rising order. */
TN_MUST_USE int tn__pipe_sizes(const tn__pipe *p, const tn__pipe_group *g, int axis, int64_t *out);
/* Finds the cheapest tile: g->tile, g->sweep, g->slides, g->terms, g->cycles. */
void tn__pipe_tile(const tn__pipe *p, tn__pipe_group *g);

#endif
