/* The rule "rows" computes a chain of stages over the same rows, one row at a time. */
#include <string.h>

#include "schedule/rules/reduce.h"

/* Places in a sketch's values: vectors of partial results at a time, whether the output is stored non-temporally, how
 * many rows are computed together, and whether the next row is fetched while this one is computed. */
enum { VECTORS, STREAM, TOGETHER, AHEAD };

/* Vectors of rows whose ends are computed together: what waits for stores of single elements is seldom then. */
enum { VECTORS_OF_ROWS = 2 };

/* The number of leading axes that all reductions keep: the axes of the rows. */
static int row_axes(const tn__te *te) {
  int rows = -1;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_REDUCE) continue;
    int own = stage->axes.count;
    while (own > 0 && tn__ir_is_int_value(stage->axes.var[own - 1]->extent, 1)) own--;
    if (rows < 0 || own < rows) rows = own;
  }
  return rows;
}

static bool makes_output(const tn__te *te, const tn__te_stage *stage) {
  for (int t = 0; t < stage->tensor_count; t++)
    if (tn__te_is_output(te, stage->tensors[t])) return true;
  return false;
}

/* The stage whose nest all others go into: of those that make an output the one of most axes, the last of these. Other
 * outputs, as means that a gradient wants later, are written row by row. NULL: nobody wants what is made here. */
static const tn__te_stage *last_stage(const tn__te *te) {
  const tn__te_stage *last = NULL;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (makes_output(te, stage) && (last == NULL || stage->axes.count >= last->axes.count)) last = stage;
  }
  return last;
}

static bool matches_rows(const tn__te *te) {
  int reductions = 0, count = tn__te_stage_count(te), rows = row_axes(te);
  const tn__te_stage *last = last_stage(te);
  bool of_pairs = false;
  if (rows < 1 || last == NULL) return false;
  for (int i = 0; i < count; i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_COMPUTE && stage->kind != TN__TE_REDUCE) return false;
    if (stage->kind != TN__TE_REDUCE && !makes_output(te, stage)) continue;
    reductions += stage->kind == TN__TE_REDUCE;
    of_pairs |= stage->kind == TN__TE_REDUCE && tn__reduce_meets_pairs(te, stage);
    if (stage->axes.count < rows || last->axes.count < rows) return false;
    for (int a = 0; a < rows; a++)
      if (stage->axes.var[a]->extent != last->axes.var[a]->extent) return false;
  }
  return reductions > 0 && (reductions > 1 || !of_pairs); /* one pass is enough for pairs, in vectors of rows */
}

/* Bytes of a tensor of the stage in `count` rows; more than TN__RULE_PRIVATE_ROW_BYTES when that is not known or much
 * more. */
static int64_t row_bytes(const tn__te_stage *stage, int tensor, int rows, int64_t count) {
  int64_t bytes = (int64_t)tn_dtype_size(stage->tensors[tensor]->dtype) * count, extent;
  for (int d = rows; d < stage->axes.count; d++) {
    if (!tn__ir_as_int(stage->axes.var[d]->extent, &extent) || extent > TN__RULE_PRIVATE_ROW_BYTES ||
        bytes > TN__RULE_PRIVATE_ROW_BYTES)
      return TN__RULE_PRIVATE_ROW_BYTES + 1;
    bytes *= extent;
  }
  return bytes;
}

static void place_row_tensor(tn__schedule *s, const tn__te_stage *stage, int rows, int64_t count) {
  for (int t = 0; t < stage->tensor_count; t++)
    if (row_bytes(stage, t, rows, count) <= TN__RULE_PRIVATE_ROW_BYTES)
      tn__sched_set_scope(s, stage->name, t, TN__SCOPE_STACK);
}

static void refuse_across(const tn__schedule *s) {
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__snode *block = tn__sched_find(s, tn__te_stage_at(s->te, i)->name, true);
    if (block != NULL && block->combiner != NULL && tn__reduce_runs_across(s, block))
      tn__sched_refuse(s, "rows: \"%s\" does not reduce along what is contiguous", block->name);
  }
}

/* A handful of rows would leave threads without work, and what reduces them to a number each may be cut into parts. */
static void refuse_few(const tn__schedule *s) {
  const tn__te_stage *stage = tn__reduce_stage_to_cut(s->te);
  const tn__te_stage *last = last_stage(s->te);
  if (stage != NULL && tn__reduce_volume(&last->axes, NULL) < TN__FEW_ROWS)
    tn__sched_refuse(s, "rows: there are few of \"%s\", and each is long", stage->name);
}

/* Which of the tensors that a block reads under `loop` comes row by row, so that the next iteration of `outer` can be
 * fetched; -1: none. */
static int read_by_rows(tn__schedule *s, const tn__snode *block, const tn__snode *loop, const tn__snode *outer) {
  for (int r = 0; r < block->block.read_count; r++) {
    const tn__expr *first[TN__MAX_RANK], *extent[TN__MAX_RANK];
    tn__sched_prefetch p = {.block = block, .buffer = block->block.reads[r].buffer, .ahead = outer, .distance = 1};
    if (!tn__sched_is_param(s, p.buffer) || !tn__sched_prefetch_start(s, loop, &p, first, extent)) continue;
    for (int d = 0; d < p.buffer->rank; d++)
      if (tn__expr_uses_var(first[d], outer->var)) return r;
  }
  return -1;
}

/* The innermost loop around a block, below `outer`, that is no vector and not unrolled. */
static const tn__snode *turns_of(const tn__snode *block, const tn__snode *outer) {
  for (const tn__snode *loop = block->parent; loop != outer; loop = loop->parent)
    if (loop->kind == TN__LOOP_SERIAL) return loop;
  return NULL;
}

/* Fetches the next row while this one is computed: where most is to be done, and not where results are stored. */
static void fetch_next_row(tn__schedule *s, const char *row, const char *anchor) {
  tn__snode *outer = tn__sched_find(s, row, false);
  const tn__snode *heaviest = NULL;
  int64_t most = 0;
  tn__snodes blocks = {0};
  tn__sched_blocks(s, outer, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    const tn__snode *block = blocks.data[i], *loop = turns_of(block, outer);
    if (strcmp(block->name, anchor) == 0 || block->block.body->kind != TN__STMT_STORE || loop == NULL) continue;
    int64_t cost = tn__rule_cost(s->ir, block->block.body->as.store.value);
    if (cost > most && read_by_rows(s, block, loop, outer) >= 0) heaviest = block, most = cost;
  }
  if (heaviest == NULL) return;
  const tn__snode *loop = turns_of(heaviest, outer);
  tn__sched_prefetch_ahead(s, heaviest->name, read_by_rows(s, heaviest, loop, outer), loop->name, row, 1);
}

/* How many rows at a time an output that has an element for each of them is computed for, in a vector, behind what
 * makes those rows; 0 where it is little work, or what the rows read would fall out of L1 between one stage and the
 * next. */
static int64_t rows_of_vector(const tn__schedule *s, const tn__te_stage *last, int rows,
                              const tn__schedule_options *options) {
  const tn__te *te = s->te;
  const tn__snode *block = tn__sched_find(s, last->name, true);
  int64_t lanes = options->vector_bytes / (int64_t)tn_dtype_size(last->tensors[0]->dtype), extent;
  double bytes = 0, count = tn__reduce_volume(&last->axes, NULL);
  int stages = 0;
  if (last->kind != TN__TE_COMPUTE || last->axes.count != rows || block->block.body->kind != TN__STMT_STORE) return 0;
  if (!tn__ir_as_int(last->axes.var[rows - 1]->extent, &extent) || extent < VECTORS_OF_ROWS * lanes || lanes < 4)
    return 0;
  if (tn__rule_cost(s->ir, block->block.body->as.store.value) < TN__RULE_ROW_END) return 0;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage == last || tn__sched_find(s, stage->name, true) == NULL) continue;
    stages++;
    for (int t = 0; t < stage->tensor_count; t++)
      if (row_bytes(stage, t, rows, VECTORS_OF_ROWS * lanes) > TN__RULE_PRIVATE_ROW_BYTES) return 0;
  }
  for (int i = 0; i < tn__te_input_count(te); i++) bytes += tn__rule_bytes(tn__te_input_at(te, i));
  return stages == 1 || bytes / count * (double)(VECTORS_OF_ROWS * lanes) <= (double)s->target->cpu.machine.l1_bytes / 2
             ? lanes
             : 0;
}

/* Is the stage left, and does anything read what it makes? */
static bool is_read(tn__schedule *s, const tn__te_stage *stage) {
  tn__snodes readers = {0};
  if (tn__sched_find(s, stage->name, true) == NULL) return false;
  for (int t = 0; t < stage->tensor_count; t++) tn__sched_readers(s, stage->tensors[t], &readers);
  return readers.count > 0;
}

/* Computes all stages under the loop over rows of the last one, each where the others need its row. What only makes an
 * output follows what it reads. */
static void gather(tn__schedule *s, const tn__te_stage *last, const char *row, int rows, int64_t together) {
  const int count = tn__te_stage_count(s->te);
  for (int i = count - 1; i >= 0; i--) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    if (stage == last || !is_read(s, stage)) continue;
    tn__sched_compute_at(s, stage->name, row);
    if (!makes_output(s->te, stage)) place_row_tensor(s, stage, rows, together);
  }
  for (int i = 0; i < count; i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    const tn__snode *block = tn__sched_find(s, stage->name, true);
    if (block != NULL && !tn__sched_is_under(block, tn__sched_find(s, row, false)))
      tn__sched_reverse_compute_at(s, stage->name, row);
  }
}

static void apply_rows(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  const tn__schedule_options *options = &k->options;
  const tn__te *te = s->te;
  const char *anchor = last_stage(te)->name, *loops[TN__MAX_LOOPS];
  tn__reduce_dissolve_maps(s);
  int rows = row_axes(te), count = tn__te_stage_count(te);
  refuse_across(s);
  tn__sched_first_loops(s, anchor, loops, rows);
  const char *row = loops[rows - 1];
  const int64_t lanes = values[AHEAD] ? 0 : rows_of_vector(s, last_stage(te), rows, options);
  const int64_t together = lanes > 0 ? VECTORS_OF_ROWS * lanes : values[TOGETHER];
  if (together > 1) {
    if (lanes > 0) {
      tn__sched_split(s, row, (const int64_t[]){0, together / lanes, lanes}, 3);
      tn__sched_vectorize(s, tn__arena_printf(s->arena, "%s.2", row));
    } else {
      tn__sched_split(s, row, (const int64_t[]){0, together}, 2);
    }
    loops[rows - 1] = row = tn__arena_printf(s->arena, "%s.0", row);
  }
  const char *outermost = loops[0];
  gather(s, last_stage(te), row, rows, together);
  for (int i = 0; i < count; i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (tn__sched_find(s, stage->name, true) == NULL) continue;
    if (stage->kind == TN__TE_REDUCE) {
      const char *turns = tn__rule_reduce_along(s, stage->name, options, values[VECTORS]);
      if (turns != NULL && !values[AHEAD]) tn__sched_unroll(s, turns); /* its turns fetch the next row's lines */
    } else if (lanes == 0 || strcmp(stage->name, anchor) != 0) {
      tn__rule_vectorize_map(s, stage->name, rows, options);
    }
  }
  if (values[STREAM]) tn__rule_stream(s, anchor);
  for (int i = 1; i < rows; i++) {
    if (tn__sched_find(s, outermost, false)->children.count != 1) break;
    tn__sched_fuse(s, outermost, loops[i]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, loops[i]);
    if (i == rows - 1) row = outermost;
  }
  if (values[AHEAD]) fetch_next_row(s, row, anchor);
  if (tn__rule_shares(s, options)) tn__sched_parallel(s, outermost);
}

/* Do `count` rows divide all of them, is there anything else to do than one reduction, and does what is private to them
 * fit its place still? */
static bool fits_together(const tn__te *te, int64_t count) {
  int rows = row_axes(te);
  int64_t extent;
  const tn__te_stage *last = last_stage(te);
  if (count == 1) return true;
  if (last->kind == TN__TE_REDUCE) return false;
  if (!tn__ir_as_int(last->axes.var[rows - 1]->extent, &extent) || extent % count != 0) return false;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    for (int t = 0; t < stage->tensor_count && stage != last; t++)
      if (row_bytes(stage, t, rows, 1) <= TN__RULE_PRIVATE_ROW_BYTES &&
          row_bytes(stage, t, rows, count) > TN__RULE_PRIVATE_ROW_BYTES)
        return false;
  }
  return true;
}

static const tn__nest *row_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  f->streams = v[STREAM] != 0;
  bool alone = last_stage(k->te)->kind == TN__TE_REDUCE; /* the hardware follows it */
  if (!fits_together(k->te, v[TOGETHER]) || (v[AHEAD] != 0 && (alone || v[TOGETHER] > 1))) return NULL;
  const tn__nest *nest = tn__plain_features(k, k->options.vector_bytes, v[VECTORS], v[TOGETHER], f);
  return nest != NULL && tn__plain_next_row(k, v[AHEAD] != 0, f) ? nest : NULL;
}

static void open_rows(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t rows[] = {1, 2}, ahead[] = {0, 1};
  tn__reduce_open(k, scratch);
  tn__rule_open_stream(k);
  tn__sketch_open(k, "rows", rows, 2);
  tn__sketch_open(k, "ahead", ahead, 2);
  tn__reduce_dissolve_maps(scratch);
  refuse_across(scratch);
  tn__reduce_refuse_repeated(scratch, row_axes(k->te), "rows");
  refuse_few(scratch);
  for (int i = 0; i < tn__te_stage_count(k->te); i++)
    if (tn__reduce_has_few_results(tn__te_ir(k->te), tn__te_stage_at(k->te, i), &k->options))
      tn__sched_refuse(scratch, "rows: all of a few results are reduced at once");
}

const tn__rule tn__rule_rows = {"row reduction", matches_rows,   open_rows,        row_features,
                                apply_rows,      .yields = true, .gives_way = true};
