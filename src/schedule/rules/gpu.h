/* What the rules for GPUs share (gpu.c, gpu_tiles.c). */
#ifndef TENON_SCHEDULE_RULES_GPU_H
#define TENON_SCHEDULE_RULES_GPU_H

#include "schedule/rules/rules.h"

/* Independent loops of the block go outside of all others; returns how many there are. */
TN_MUST_USE int tn__rule_gpu_free_loops(tn__schedule *s, const char *block, const char **names);
/* Fuses the first `count` loops around the block; their common name. */
const char *tn__rule_gpu_fuse(tn__schedule *s, const char *block, int count);
/* Gives blocks and threads to all blocks that have none, `threads` to a block. */
void tn__rule_gpu_spread(tn__schedule *s, int64_t threads);
/* How much longer so many blocks take than if they kept all of a usual GPU busy. */
double tn__rule_gpu_waves(double blocks);

/* ---- products of whole tiles, as te/tiles.c makes them ----------------------------------------------------------- */

typedef struct tn__rule_tiles {
  const tn__te_stage *tiles;       /* the sum of products */
  const tn__te_stage *sides[2];    /* the maps that make its operands */
  const tn__tensor_intrinsic *row; /* the target's instruction for it; NULL: it has none */
  int batch;                       /* axes in front of rows and columns */
} tn__rule_tiles;

TN_MUST_USE bool tn__rule_gpu_find_tiles(const tn__te *te, const tn__target *target, tn__rule_tiles *out);
bool tn__rule_gpu_has_tiles(const tn__te *te);
/* Powers of two from `least` to `most` of which the extent is a multiple; returns how many. */
TN_MUST_USE int tn__rule_gpu_choices(tn__ir *ir, const tn__expr *extent, int64_t least, int64_t most, int64_t *out);

/* A schedule of tiles: names of loops. `row`, `column` of what reads the results, in a tile; those of the sum itself,
 * where `step` stands around all that one step of the terms needs. */
typedef struct tn__rule_placed {
  const char *reader, *row, *column, *tile; /* tile: the loop that holds all of a block's work */
  const char *own_row, *own_column, *own_terms;
} tn__rule_placed;

/* Gives blocks to tiles of `rows` x `columns` results, and makes the sums of a tile there. */
void tn__rule_gpu_place_tiles(tn__schedule *s, const tn__rule_tiles *m, int64_t rows, int64_t columns,
                              tn__rule_placed *out);
/* What a step needs of an operand is made by all threads of a block, z x y x x, each with elements side by side. */
void tn__rule_gpu_share(tn__schedule *s, const tn__rule_tiles *m, int which, const char *step, const int64_t *threads);
/* The loops of the block that stand under `outer`; returns how many. */
TN_MUST_USE int tn__rule_gpu_loops_under(tn__schedule *s, const char *block, const char *outer, const char **names);
const char *tn__rule_gpu_part(tn__schedule *s, const char *loop, int index); /* "<loop>.<index>" */

#endif
