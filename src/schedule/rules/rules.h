/* The rules that make sketches. A rule is one file and one row of the table in choose.c: does it fit the declaration,
 * which decisions stay open, what do they cost, how are they applied. The first that fits is used, unless it gives
 * way to the next that fits, or yields to one that competes; "stages" fits everything. */
#ifndef TENON_SCHEDULE_RULES_RULES_H
#define TENON_SCHEDULE_RULES_RULES_H

#include "schedule/internal.h"
#include "schedule/sketch/sketch.h"

extern const tn__rule tn__rule_attention, tn__rule_contraction, tn__rule_transform, tn__rule_transpose, tn__rule_map,
    tn__rule_rows, tn__rule_groups, tn__rule_sequence, tn__rule_pipeline, tn__rule_pipeline_refused, tn__rule_stages,
    tn__rule_structure, tn__rule_chain, tn__rule_gpu, tn__rule_gpu_product,
    tn__rule_gpu_matrix; /* the refused: what rows and sequences refuse after all */

/* Schedules the plain nest around one element-wise block: fuses what is contiguous for all of its accesses, vectorises
 * the innermost loop and runs the outermost in parallel when the declaration is large (nest.c). */
void tn__rule_nest(tn__schedule *s, const char *block, const tn__schedule_options *options);
/* The same in vectors of so many bytes, `unroll` of which are written out (0: as many as are worth it). */
void tn__rule_nest_in(tn__schedule *s, const char *block, const tn__schedule_options *options, int64_t vector_bytes,
                      int64_t unroll);

/* Computes parts of a map that has a nest of its own before it, where they are functions and depend on some of its axes
 * only, so that each would be computed many times (nest.c). */
void tn__rule_hoist_parts(tn__schedule *s, const char *block, const tn__schedule_options *options);

/* Fuses neighbouring loops around the block that are one long walk for all of its accesses; gives the loops that are
 * left, outermost first, and their number (nest.c). */
TN_MUST_USE int tn__rule_fuse(tn__schedule *s, const tn__snode *block, tn__snode **path);

/* Is walking the inner of two loops around the block to its end, and then one step of the outer one, the same as one
 * long walk for all of its accesses (nest.c)? */
bool tn__rule_is_one_walk(const tn__schedule *s, const tn__snode *block, const tn__snode *outer,
                          const tn__snode *inner);

/* Where the map's quotients and remainders start again after a few steps of its innermost loop: vectors of positions
 * that far apart. False where they don't, and the loop stays as it is (nest.c). */
bool tn__rule_vectorize_phases(tn__schedule *s, const char *block, int64_t lanes);

/* Where the map's innermost loops together have a few steps only, and the one around them has `lanes` or more: vectors
 * of `lanes` along that one, and the steps unrolled around them. False where that is not so or gains nothing, and the
 * loops stay as they are (groups.c). */
bool tn__rule_vectorize_groups(tn__schedule *s, const char *block, int64_t lanes);

/* Schedules the plain nest around a block that copies a tensor with other dimensions innermost: in tiles that are
 * transposed in registers. Loop number `contiguous` runs along what the source has contiguous (transpose.c). */
void tn__rule_turn(tn__schedule *s, const char *block, int contiguous, const tn__schedule_options *options);
/* The same of any map with a nest of its own, where most of what it reads lies along another axis than what it writes;
 * false where that is not so. */
bool tn__rule_turn_map(tn__schedule *s, const char *block, const tn__schedule_options *options);
/* The same under `outer` loops that stay as they are, with no threads; false where there is nothing to turn. */
bool tn__rule_turn_inside(tn__schedule *s, const char *block, int outer, int contiguous,
                          const tn__schedule_options *options);

/* Reduces along the last loop in `vectors` vectors of partial results, where its length allows. Returns the loop over
 * these where it has so few turns that they may be written out; NULL otherwise (reduce.c). */
const char *tn__rule_reduce_along(tn__schedule *s, const char *block, const tn__schedule_options *options,
                                  int64_t vectors);
/* Reduces in `vectors` vectors of neighbouring results, where their number allows. True when the only map that reads
 * the results has become part of the nest (reduce.c). */
bool tn__rule_reduce_across(tn__schedule *s, const char *block, const tn__schedule_options *options, int64_t vectors);
/* Vectors along the last loop of a map that has more than `rows` loops (reduce.c). */
void tn__rule_vectorize_map(tn__schedule *s, const char *block, int rows, const tn__schedule_options *options);

/* Schedules the nests of an accumulation (accumulate.c). */
void tn__rule_accumulate(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options);

/* ---- what rules share (rules.c) ---------------------------------------------------------------------------------- */
/* For rules with few decisions: features of the stage with the most points, in vectors along what is contiguous
 * there. */
void tn__plain_open(tn__sketch *k, tn__schedule *scratch);
/* `vectors` of `vector_bytes` at a time: of results, or, where the reduction runs along what is contiguous, of partial
 * results of each of `rows` rows. NULL when they don't fit the extent. */
const tn__nest *tn__plain_features(const tn__sketch *k, int vector_bytes, int64_t vectors, int64_t rows,
                                   tn__sketch_features *f);
/* Into how many pieces the results of a reduction fall that threads may share: along the outermost axis, or, where
 * neighbouring ones are computed in vectors, altogether. */
int64_t tn__plain_pieces(const tn__sketch *k, int64_t vectors);
/* Adds what waiting for the next row costs where rows come from L3, or fetching it; false where fetching
 * is of no use. */
bool tn__plain_next_row(const tn__sketch *k, bool ahead, tn__sketch_features *f);
/* What it costs that a reduction across long rows of a large tensor reads another page in each turn, fetched ahead or
 * not, or to read so many `whole` rows at a time instead (0: none). False for what makes sense there only: prefetches,
 * more than 8 vectors, whole rows of which L1 holds the sums. */
bool tn__plain_pages(const tn__sketch *k, int64_t vectors, bool prefetches, int64_t whole, tn__sketch_features *f);
/* Adds the decision whether outputs are stored non-temporally, 0 or 1; its value belongs into
 * tn__sketch_features.streams. */
void tn__rule_open_stream(tn__sketch *k);
/* Lets the block's stores stream where they can. */
void tn__rule_stream(tn__schedule *s, const char *block);
/* Constant extent of a loop; -1 when symbolic. */
int64_t tn__rule_loop_extent(const tn__schedule *s, const char *loop);
/* Do steps of that size divide the extent, or is the last one, which runs for a part of it, one of several? */
bool tn__rule_fills(int64_t extent, int64_t step);
/* Is the work of the declaration worth waking other threads (some 20 microseconds)? Open dimensions count as large. */
bool tn__rule_is_large(const tn__te *te);
/* Are there threads, and is the work worth waking them? */
bool tn__rule_shares(tn__schedule *s, const tn__schedule_options *options);
/* Operations of a node of an expression alone. */
int64_t tn__rule_cost_of_node(const tn__expr *e);
/* Operations that one element of a value costs, transcendental functions weighted by what they take. */
int64_t tn__rule_cost(tn__ir *ir, const tn__expr *value);
double tn__rule_bytes(const tn__buffer *buffer); /* of all elements; open dimensions count as TN__OPEN_EXTENT */
/* How far an index moves when the variable makes one step, away from where clamps hold it: half an element for `i / 2`;
 * NAN when that is no number. */
double tn__rule_slope(const tn__expr *e, const tn__var *var);

#endif
