/* Accumulations: terms that say themselves which element they go into. Their order is that of the loops, so each
 * element's terms are combined in the order of the declaration. */
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

static void several_terms(tn__schedule *s, const tn__te_stage *stage, const char *loop) {
  const tn__expr *extent = tn__sched_find(s, loop, false)->var->extent;
  int64_t terms;
  if (tn__expr_has_load(extent) || (tn__ir_as_int(extent, &terms) && terms < 2 * TERMS_IN_A_TURN)) return;
  tn__sched_split(s, loop, (const int64_t[]){0, TERMS_IN_A_TURN}, 2);
  tn__sched_unroll(s, tn__reduce_last_loop(s, stage->name));
}

/* First values in the nest of the terms: along axes that these have to themselves. */
static void schedule_first_values(tn__schedule *s, const tn__te_stage *stage, tn__snode *first,
                                  const tn__schedule_options *options) {
  tn__snode *terms = tn__sched_find(s, stage->name, true);
  if (tn__sched_root_nest(s, first) != tn__sched_root_nest(s, terms)) {
    if (stage->tensor_count == 1) tn__rule_nest(s, first->name, options);
  } else if (!tn__sched_is_under(terms, first->parent)) {
    vectorize_rows(s, stage, first->name, options);
  }
}

void tn__rule_accumulate(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options) {
  tn__snode *first = first_values(s, stage);
  if (first != NULL) schedule_first_values(s, stage, first, options);
  const char *loop = tn__reduce_last_loop(s, stage->name);
  if (loop == NULL) return;
  if (tn__sched_drives(tn__sched_find(s, loop, false), tn__sched_find(s, stage->name, true), TN__AXIS_SPATIAL))
    vectorize_rows(s, stage, stage->name, options);
  else
    several_terms(s, stage, loop);
}
