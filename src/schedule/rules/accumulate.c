/* Accumulations: terms that say themselves which element they go into, or whose number data say. Each element's terms
 * are combined in the order of the declaration, or in copies of the tensor that are combined in order behind. */
#include <string.h>

#include "schedule/rules/reduce.h"

/* Terms, or vectors of them, that are computed in one turn of the loop: their loads don't wait for the stores of those
 * before. */
#define TERMS_IN_A_TURN 4

/* The nest that gives the elements their first values. */
static tn__snode *first_values(tn__schedule *s, const tn__te_stage *stage) {
  tn__snodes writers = {0};
  tn__sched_writers(s, stage->tensors[0], &writers);
  for (int i = 0; i < writers.count; i++)
    if (writers.data[i]->combiner == NULL) return writers.data[i];
  return NULL;
}

/* Neighbouring elements of a row that one index selects, in vectors along the block's last loop. */
static void vectorize_rows(tn__schedule *s, const tn__te_stage *stage, const char *block,
                           const tn__schedule_options *options) {
  const char *loop = tn__reduce_last_loop(s, block);
  int64_t widest = 1, extent = tn__rule_loop_extent(s, loop);
  for (int t = 0; t < stage->tensor_count; t++) {
    int64_t bytes = (int64_t)tn_dtype_size(stage->tensors[t]->dtype);
    if (bytes > widest) widest = bytes;
  }
  int64_t lanes = options->vector_bytes / widest;
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes < 2) return;
  if (extent == lanes) {
    tn__sched_vectorize(s, loop);
    return;
  }
  int64_t vectors = extent >= TERMS_IN_A_TURN * lanes ? TERMS_IN_A_TURN : 1;
  tn__sched_split(s, loop, (const int64_t[]){0, vectors * lanes}, 2);
  tn__reduce_vectorize_lanes(s, block, vectors, lanes);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* How often the tensor is copied: for terms that follow each other, and for parts of the domain that threads share. */
typedef struct copies {
  int64_t neighbours, parts;
} copies;

/* Writing copies and adding them up must be small beside the terms, as it takes one thread as long as many: results are
 * the same for every number of threads. */
static copies choose_copies(const tn__schedule *s, const tn__te_stage *stage) {
  static const int64_t parts[] = {16, 8, 4};
  copies c = {1, 1};
  double elements = 1, terms = 1, bytes = 0;
  int64_t extent;
  for (int a = 0; a < stage->axes.count; a++) {
    if (!tn__ir_as_int(stage->axes.var[a]->extent, &extent)) return c;
    elements *= (double)extent;
    if (tn__te_keeps_axis(stage, a)) terms *= (double)extent;
  }
  for (int a = 0; a < stage->reduce_axes.count; a++) {
    if (!tn__ir_as_int(stage->reduce_axes.var[a]->extent, &extent)) return c;
    terms *= (double)extent;
  }
  for (int t = 0; t < stage->tensor_count; t++) bytes += elements * (double)tn_dtype_size(stage->tensors[t]->dtype);
  if (!stage->combiner->reorderable) return c;
  double most = terms / TN__RULE_TERMS_PER_COPIED;
  if (TERMS_IN_A_TURN * elements <= most && TERMS_IN_A_TURN * bytes <= (double)s->target->cpu.machine.l1_bytes / 2)
    c.neighbours = TERMS_IN_A_TURN;
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && c.parts == 1; i++)
    if ((double)(parts[i] * c.neighbours) * elements <= most && terms >= (double)(parts[i] * TN__RULE_SHORTEST_PART))
      c.parts = parts[i];
  return c;
}

/* Copies for each iteration of the loop; what writes them and what combines them runs along the tensor's rows. */
static void copy_for(tn__schedule *s, const tn__te_stage *stage, const char *loop,
                     const tn__schedule_options *options) {
  tn__snodes blocks = {0};
  tn__sched_blocks(s, tn__sched_find(s, loop, false), &blocks);
  const char *combining = blocks.data[0]->name;
  tn__sched_privatize(s, loop);
  vectorize_rows(s, stage, tn__arena_printf(s->arena, "%s.init", blocks.data[0]->name), options);
  vectorize_rows(s, stage, combining, options);
}

/* A loop of so many turns that what is computed of their terms stays near: `*near` becomes the one around it, NULL when
 * there is none. Returns the loop over the turns, which may be a part of what it was. */
static const char *turn_near(tn__schedule *s, const char *block, const char *turn, double bytes, const char **near) {
  const char *loops[TN__MAX_LOOPS];
  int64_t extent = tn__rule_loop_extent(s, turn), most = TN__RULE_SCATTERED_TURN;
  *near = NULL;
  while (most > TERMS_IN_A_TURN && (double)(2 * most) * bytes > TN__RULE_PRIVATE_ROW_BYTES) most /= 2;
  if (extent < 0 || extent >= 2 * most) {
    tn__sched_split(s, turn, (const int64_t[]){0, most}, 2);
    *near = tn__arena_printf(s->arena, "%s.0", turn);
    return tn__arena_printf(s->arena, "%s.1", turn);
  }
  int count = tn__sched_loops_of(s, block, loops, TN__MAX_LOOPS);
  for (int i = 1; i < count; i++)
    if (strcmp(loops[i], turn) == 0) *near = loops[i - 1];
  return turn;
}

/* The maps are computed in each iteration of the loop, in vectors. */
static void compute_near(tn__schedule *s, const char *const *maps, int count, const char *loop,
                         const tn__schedule_options *options) {
  tn__snode *path[TN__MAX_LOOPS];
  for (int i = 0; i < count; i++) {
    tn__sched_compute_at(s, maps[i], loop);
    tn__sched_set_scope(s, maps[i], 0, TN__SCOPE_STACK);
    int around = tn__sched_path(s, s->root, tn__sched_find(s, loop, false), path) + 1;
    tn__rule_vectorize_map(s, maps[i], around, options);
  }
}

/* Is the loop short enough to be written out with those inside of it, of which there are `*inner` turns so far? */
TN_MUST_USE static bool is_short(const tn__schedule *s, const char *loop, int64_t *inner) {
  enum { MOST_WRITTEN = 12 };
  int64_t extent = tn__rule_loop_extent(s, loop);
  if (extent < 0 || extent >= 2 * TERMS_IN_A_TURN || extent * *inner > MOST_WRITTEN) return false;
  *inner *= extent > 1 ? extent : 1;
  return true;
}

/* Terms one by one: several in a turn, into copies of their own where that is worth it, and so for parts of the domain.
 * All loops around are of the reduction then. What else is computed of the terms comes in vectors. */
static void schedule_terms(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options) {
  enum { MOST_MAPS = 8 };
  const char *loops[TN__MAX_LOOPS], *maps[MOST_MAPS];
  int count = tn__sched_loops_of(s, stage->name, loops, TN__MAX_LOOPS);
  tn__snode *first = tn__sched_find(s, loops[0], false), *last = tn__sched_find(s, loops[count - 1], false);
  tn__snode *block = tn__sched_find(s, stage->name, true);
  int64_t outer = tn__rule_loop_extent(s, loops[0]), inner;
  bool alone = tn__sched_drives(first, block, TN__AXIS_REDUCE);
  copies c = alone ? choose_copies(s, stage) : (copies){1, 1};
  if (tn__expr_has_load(last->var->extent)) return;
  const char *turn = loops[count - 1];
  int few = 0; /* loops over a few terms, of channels say, that are written out in each turn */
  for (inner = 1; few < count && is_short(s, loops[count - 1 - few], &inner); few++) {
  }
  if (few > 0) {
    if (few == count || !tn__sched_drives(tn__sched_find(s, loops[count - 1 - few], false), block, TN__AXIS_REDUCE))
      return;
    turn = loops[count - 1 - few];
  }
  int map_count = tn__reduce_own_maps(s, block, maps, MOST_MAPS);
  if (c.parts > 1 && outer >= 2 * c.parts * (turn == loops[0] ? TERMS_IN_A_TURN : 1)) {
    tn__sched_split(s, loops[0], (const int64_t[]){0, (outer + c.parts - 1) / c.parts}, 2);
    if (turn == loops[0]) turn = tn__arena_printf(s->arena, "%s.1", turn);
  } else {
    c.parts = 1;
  }
  const char *near = NULL;
  double bytes = 0; /* of what the largest map makes for a turn */
  for (int i = 0; i < map_count; i++) {
    double made = (double)tn_dtype_size(tn__sched_find(s, maps[i], true)->block.writes[0].buffer->dtype);
    if (made > bytes) bytes = made;
  }
  bytes *= (double)inner;
  if (map_count > 0) turn = turn_near(s, stage->name, turn, bytes, &near);
  tn__sched_split(s, turn, (const int64_t[]){0, inner <= 2 * TERMS_IN_A_TURN ? TERMS_IN_A_TURN : 2}, 2);
  turn = tn__arena_printf(s->arena, "%s.1", turn);
  if (c.neighbours > 1) copy_for(s, stage, turn, options);
  if (c.parts > 1) {
    const char *part = tn__arena_printf(s->arena, "%s.0", loops[0]);
    copy_for(s, stage, part, options);
    if (tn__rule_shares(s, options)) tn__sched_parallel(s, part);
  }
  if (near != NULL) compute_near(s, maps, map_count, near, options);
  tn__sched_unroll(s, turn);
  for (int i = 0; i < few; i++) tn__sched_unroll(s, loops[count - 1 - i]);
}

/* Threads share the columns of rows that one index selects: each adds all rows to its own. */
static void share_columns(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options) {
  const char *loops[TN__MAX_LOOPS], *order[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, stage->name, loops, TN__MAX_LOOPS), at = 0, n = 0;
  const tn__snode *block = tn__sched_find(s, stage->name, true);
  while (at < count && !tn__sched_drives(tn__sched_find(s, loops[at], false), block, TN__AXIS_SPATIAL)) at++;
  if (at == 0 || at >= count || !tn__rule_shares(s, options)) return;
  double bytes = (double)tn_dtype_size(stage->tensors[0]->dtype) * (double)tn__rule_loop_extent(s, loops[at]);
  if (bytes < (double)(options->threads * s->target->cpu.machine.costs.line_bytes)) return; /* they would share lines */
  order[n++] = loops[at];
  for (int i = 0; i < at; i++) order[n++] = loops[i];
  tn__sched_reorder(s, order, n);
}

/* First values in the nest of the terms: along axes that these have to themselves. */
static void schedule_first_values(tn__schedule *s, const tn__te_stage *stage, tn__snode *first,
                                  const tn__schedule_options *options) {
  tn__snode *terms = tn__sched_find(s, stage->name, true);
  if (tn__sched_root_nest(s, first) != tn__sched_root_nest(s, terms)) {
    tn__schedule_options own = *options; /* few elements are no work for threads, however many terms there are */
    if (tn__reduce_volume(&stage->axes, NULL) < TN__RULE_SHORTEST_PART) own.threads = 1;
    if (stage->tensor_count == 1) tn__rule_nest(s, first->name, &own);
  } else if (!tn__sched_is_under(terms, first->parent)) {
    vectorize_rows(s, stage, first->name, options);
  }
}

void tn__rule_accumulate(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options) {
  tn__snode *first = first_values(s, stage);
  if (first != NULL) schedule_first_values(s, stage, first, options);
  const char *loop = tn__reduce_last_loop(s, stage->name);
  if (loop == NULL) return;
  if (tn__rule_ragged(s, stage, options)) return;
  if (!tn__sched_drives(tn__sched_find(s, loop, false), tn__sched_find(s, stage->name, true), TN__AXIS_SPATIAL) ||
      tn__reduce_scatters(stage)) {
    schedule_terms(s, stage, options);
    return;
  }
  vectorize_rows(s, stage, stage->name, options);
  share_columns(s, stage, options);
}
