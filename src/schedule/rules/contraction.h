/* Products, convolutions and their like, for the rule of contractions (contraction.c): what is found in a declaration
 * (contraction_find.c, contraction_term.c), and what a choice of tiles costs (contraction_cost.c). */
#ifndef TENON_SCHEDULE_RULES_CONTRACTION_H
#define TENON_SCHEDULE_RULES_CONTRACTION_H

#include "schedule/rules/rules.h"

enum { TN__TERM_LOADS = 8 };

typedef struct tn__contraction {
  tn__schedule *s;
  tn__ir *ir;
  const tn__te *te;
  const tn__te_stage *sum;
  const tn__schedule_options *options;
  const tn__expr *left, *right; /* loads; right is contiguous along the columns */
  /* The term is more than a product of two loads: what the sum's block stores, and all loads in that. `left` and
   * `right` are those of them that are the only ones on their side, of what moves with columns and what does not. */
  bool general, was_general; /* now; as it was declared, before parts of it became operands */
  const tn__expr *value, *loads[TN__TERM_LOADS];
  int load_count;
  bool depthwise;        /* the column moves both operands, and both are contiguous along it */
  int column, row;       /* axes of the sum; row is -1 when there is none */
  int more_rows;         /* an axis outside of a short row axis whose rows join a tile; -1: none */
  int64_t group;         /* columns of one group when the left operand depends on column / group; 0: it does not */
  int64_t rows, columns; /* extents; -1 when symbolic */
  int known_column, known_left; /* what opening the sketch found; -1: it is being opened */
  bool known_depthwise;
  bool later[2];     /* the map that makes the left (right) operand is not computed before the tiles */
  int64_t panel;     /* width of a packed operand's panels, 0: not packed */
  const char *block; /* that multiplies: the sum, or what makes its partial sums */
} tn__contraction;

/* Their places in a sketch's values. */
enum {
  TN__TILE_LANES,
  TN__TILE_VECTORS,
  TN__TILE_ROWS,
  TN__TILE_MORE_ROWS,
  TN__TILE_UNROLL,
  TN__TILE_COLUMNS_AT,
  TN__TILE_BLOCK,
  TN__TILE_SHARED,
  TN__TILE_LEFT,
  TN__TILE_RIGHT,
  TN__TILE_AHEAD,
  TN__TILE_EPILOGUE,
  TN__TILE_DEPTH,    /* steps of one axis of the reduction in a block of it; 0: not blocked */
  TN__TILE_DEPTH_AT, /* how many of the other outer loops stand around the loop over those blocks */
  TN__TILE_PANELS    /* operands that are copied before the tiles, into panels as wide, or as high, as these:
                        TN__PANELS_RIGHT | TN__PANELS_LEFT */
};

/* Where an operand comes from. A map that makes it is computed before the tiles, an input is read as it lies
 * (TN__PLACE_BEFORE); the same with rows that don't share sets of a cache, which for an input is a copy
 * (TN__PLACE_APART); the map is computed at each use (TN__PLACE_INLINE); or the part that is used in an iteration of
 * outer loop d is computed or copied there, into private memory (TN__PLACE_AT + d). Epilogues are computed from
 * registers behind each tile (TN__EPILOGUE_TILE), in a nest of their own behind all of them (TN__EPILOGUE_AFTER), or
 * behind the tiles of an iteration of outer loop d (TN__EPILOGUE_AT + d). What the next column tile takes of the right
 * operand is fetched ahead once, spread over the row tiles, where that pays (TN__AHEAD_SPREAD), or step by step in each
 * of them (TN__AHEAD_STEPS). */
enum { TN__PLACE_BEFORE, TN__PLACE_APART, TN__PLACE_INLINE, TN__PLACE_AT };
enum { TN__AHEAD_SPREAD, TN__AHEAD_STEPS };
enum { TN__PANELS_RIGHT = 1, TN__PANELS_LEFT = 2 };
enum { TN__EPILOGUE_TILE, TN__EPILOGUE_AFTER, TN__EPILOGUE_AT };

/* What there is to know for putting an operand elsewhere. */
typedef struct tn__contraction_operand {
  bool exists, is_map, pads; /* pads: it only puts a constant around another tensor */
  bool sized, bounded;       /* it has a size, shape is known; parts of it have, step, in elements, is known, too */
  int rank, dim;             /* the dimension that the rows move; -1: none has one behind it */
  int element;               /* bytes */
  double work;               /* operations for one element */
  /* By the dimensions of a copy, which are the tensor's own in the order in which it lies in memory. */
  int order[TN__MAX_RANK];
  int64_t shape[TN__MAX_RANK], step[TN__MAX_RANK][TN__NEST_AXES];
} tn__contraction_operand;

/* What a term of the sum takes that is no product of two loads: operations and loads that do [1] or do not [0] differ
 * from row to row, and from column to column. */
typedef struct tn__contraction_term {
  double work[2][2], loads[2][2];
  bool keeps_nan; /* minima or maxima of floats */
} tn__contraction_term;

/* What the rule found: a plan that is applied to a fresh schedule each time. */
typedef struct tn__contraction_space {
  tn__nest nest;
  int column, row, more_rows, spatial, reduce;
  int left;                                  /* of the operands of the product, which is the left one */
  int deep;                                  /* the axis of the reduction that may be blocked; -1: none */
  int64_t columns, rows, more, group, panel; /* extents; open ones as the nest takes them */
  bool depthwise, general, has_right, large, any_open;
  tn__contraction_term term; /* where it is general */
  bool moves_right[TN__NEST_AXES];
  int left_element, right_element, element;
  int64_t row_stride, more_stride;   /* bytes of the left operand */
  int64_t right_stride, right_steps; /* bytes from one step of the sum to the next in the right one, and how many */
  int64_t left_stride, left_steps;   /* the same of a left one whose rows lie side by side; 0: it is no such */
  double epilogue, epilogue_loads;   /* operations and loads of one element besides those of the sum */
  bool streams;      /* the left operand of a depthwise sum is computed within the loop over column tiles */
  bool has_epilogue; /* that may be computed elsewhere */
  bool apart_in_sum; /* neighbouring columns are apart in the sum's tensor: its tile has a layout of its own */
  bool casts[2];     /* the left or right operand is widened where it is read; a copy holds what the cast gives */
  bool turned;       /* rows, not columns, lie side by side in the output: tiles are transposed on their way there */
  tn__contraction_operand operand[2];
  /* The left operand is another tensor with a constant around it, read in place: borders are cut off, and interiors
   * have no conditions. The window's axes that move an unrolled row are unrolled too, so that conditions are known at
   * the borders: those along the row axis, and along `more rows`. */
  bool in_place, taps[2][TN__NEST_AXES];
  int64_t pieces; /* into which the loops around a tile are cut at the most */
} tn__contraction_space;

/* The loops around the tiles, from the outside; `tail`: the last iteration's tile is smaller. */
typedef struct tn__outer_loop {
  int axis;
  int64_t trips, step;
  bool tail;
} tn__outer_loop;

typedef struct tn__outer_loops {
  tn__outer_loop loop[TN__NEST_LOOPS];
  int count;
  int column_tiles, block; /* places of the loop over column tiles, and of the inner part of a split loop (-1: none) */
  int depth;               /* and of the one over blocks of the reduction (-1: none) */
} tn__outer_loops;

/* Is the stage a sum of products of two loads? */
bool tn__contraction_sums_products(const tn__te_stage *stage);
/* Is the stage a reduction whose terms read tensors that meet, as the rows of one meet the columns of another in a
 * product, whatever is done with them? */
bool tn__contraction_reuses(tn__ir *ir, const tn__te_stage *stage);
/* The only reduction, of one of these kinds; everything else are maps. NULL otherwise. */
const tn__te_stage *tn__contraction_find(const tn__te *te);
/* Finds the loads of `value`, which the sum's block stores. */
void tn__contraction_read_term(tn__contraction *c, const tn__expr *value);
/* Does something on the left (0) or right (1) side of the term move with the axis? */
bool tn__contraction_moves(const tn__contraction *c, int side, int axis);
/* Parts of the term that take work and do not differ from column to column, or from row to row, become tensors, where
 * many of these meet them. Were there any? */
bool tn__contraction_hoist(tn__contraction *c);
void tn__contraction_count(const tn__contraction *c, tn__contraction_term *out);
/* Everything that comes before the tiles: producers, a transposed operand, the roles. `seen` is the sum as it reads
 * now. */
void tn__contraction_prepare(tn__contraction *c, tn__te_stage *seen);
/* The map, a block of its own, that makes the left (0) or right (1) operand; NULL: there is none. */
const tn__te_stage *tn__contraction_map(const tn__contraction *c, int side);
/* Fills in what is known of both operands. */
void tn__contraction_see_operands(const tn__contraction *c, const tn__te_stage *sum, tn__contraction_space *p);
/* Fills in what is known of a left operand that only pads another tensor; false when it does more, or extents are
 * open. */
bool tn__contraction_pads_in_place(const tn__contraction *c, const tn__te_stage *sum, tn__contraction_space *p);
/* Does the block read the sum element by element, each axis in a dimension of its own? */
bool tn__contraction_is_epilogue(const tn__snode *block, const tn__buffer *sum);

/* Is this axis of the reduction unrolled with the rows of a tile? */
bool tn__contraction_is_tap(const tn__contraction_space *p, const int64_t *v, int axis);
/* The first of the innermost axes that are taps, which depthwise sums run through for one row after the other, so that
 * what one row has loaded is still there for the next; the number of axes when there is none. */
int tn__contraction_taps_from(const tn__contraction_space *p, const int64_t *v);
/* The loops around the tiles; false when the values don't go together. */
TN_MUST_USE bool tn__contraction_loops(const tn__contraction_space *p, const int64_t *v, tn__outer_loops *out);
/* Do threads share the blocks of the reduction, so that each block has partial sums of its own? Otherwise they are
 * added to the result one after the other. */
bool tn__contraction_shares_blocks(const tn__outer_loops *outer, const int64_t *v);
/* How many steps of an axis a tile goes through at a time. */
int64_t tn__contraction_steps(const tn__contraction_space *p, const int64_t *v, int axis);
/* A rule's `features` (rules.h), with a tn__contraction_space as the sketch's data. */
const tn__nest *tn__contraction_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f);
/* Can the left (0) or right (1) operand be copied into panels? Its last dimension is that of the tiles' rows or
 * columns, which lie side by side. */
bool tn__contraction_has_panels(const tn__contraction_space *p, int side);
/* Is it? */
bool tn__contraction_in_panels(const int64_t *v, int side);
/* Do the steps of the sum wait for a left operand whose rows lie side by side, and whose steps meet in few sets or many
 * pages? Then what a tile of rows takes of it may be copied, if it is little enough. */
bool tn__contraction_left_waits(const tn__contraction_space *p, const tn__sketch *k);
/* With TN__AHEAD_SPREAD: does fetching ahead pay, and is there something to be fetched? */
bool tn__contraction_spreads(const tn__sketch *k, const int64_t *v);

#endif
