/* Products of whole tiles on GPUs, whatever multiplies them: which stages they are, which loops are blocks, and how the
 * threads of a block fetch what a step of the terms needs. */
#include <string.h>

#include "schedule/rules/gpu.h"

const char *tn__rule_gpu_part(tn__schedule *s, const char *loop, int index) {
  return tn__arena_printf(s->arena, "%s.%d", loop, index);
}

/* ---- recognising ------------------------------------------------------------------------------------------------- */

static const tn__te_stage *operand_of(const tn__te *te, const tn__expr *factor) {
  if (factor->kind == TN__EXPR_CAST) factor = factor->args[0];
  if (factor->kind != TN__EXPR_LOAD) return NULL;
  const tn__te_stage *stage = tn__te_stage_of(te, factor->value.buffer);
  bool own = stage != NULL && stage->kind == TN__TE_COMPUTE && stage->tensor_count == 1;
  return own && !tn__te_is_output(te, stage->tensors[0]) ? stage : NULL;
}

bool tn__rule_gpu_find_tiles(const tn__te *te, const tn__target *target, tn__rule_tiles *out) {
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    *out = (tn__rule_tiles){.tiles = stage, .batch = stage->axes.count - 2};
    if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->values[0]->kind != TN__EXPR_MUL) continue;
    if (out->batch < 0 || stage->reduce_axes.count != 1 || tn__te_is_output(te, stage->tensors[0])) continue;
    for (int k = 0; k < 2; k++) {
      out->sides[k] = operand_of(te, stage->values[0]->args[k]);
      const tn__var *own = stage->axes.var[out->batch + k];
      if (out->sides[k] != NULL && !tn__expr_uses_var(stage->values[0]->args[k], own)) out->sides[k] = NULL;
    }
    if (out->sides[0] == NULL || out->sides[1] == NULL || out->sides[0] == out->sides[1]) continue;
    out->row = tn__tensor_intrinsic_product(target, stage->tensors[0]->dtype, out->sides[0]->tensors[0]->dtype,
                                            out->sides[1]->tensors[0]->dtype);
    return true;
  }
  return false;
}

bool tn__rule_gpu_has_tiles(const tn__te *te) {
  static const tn__target none = {.kind = TN__TARGET_GPU};
  tn__rule_tiles m;
  return tn__rule_gpu_find_tiles(te, &none, &m);
}

int tn__rule_gpu_choices(tn__ir *ir, const tn__expr *extent, int64_t least, int64_t most, int64_t *out) {
  int count = 0;
  for (int64_t size = least; size <= most; size *= 2)
    if (tn__ir_is_int_value(tn__ir_mod_i(ir, extent, size), 0)) out[count++] = size;
  if (tn__ir_is_int(extent) || count == 0) return count;
  /* Only of the size that an open one was filled up to is it shown that it ends where that does. */
  out[0] = out[count - 1];
  return 1;
}

/* ---- what reads the results -------------------------------------------------------------------------------------- */

/* The one block beside its own that reads the stage's tensor; NULL: there are others. */
static const tn__snode *only_reader(tn__schedule *s, const tn__te_stage *stage) {
  tn__snodes readers = {0};
  const tn__snode *found = NULL;
  tn__sched_readers(s, stage->tensors[0], &readers);
  for (int i = 0; i < readers.count; i++) {
    if (strcmp(readers.data[i]->name, stage->name) == 0) continue;
    if (found != NULL) return NULL;
    found = readers.data[i];
  }
  return found;
}

/* Maps go into what reads them: into the operands, and the results' copy into an epilogue that has just its axes. */
static void dissolve_maps(tn__schedule *s, const tn__rule_tiles *m) {
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    if (stage->kind != TN__TE_COMPUTE || stage->step_of != NULL || stage->tensor_count != 1) continue;
    if (stage == m->sides[0] || stage == m->sides[1] || tn__te_is_output(s->te, stage->tensors[0])) continue;
    if (tn__expr_uses_buffer(stage->values[0], m->tiles->tensors[0])) {
      const tn__snode *reader = only_reader(s, stage);
      if (reader == NULL || reader->combiner != NULL || reader->block.axis_count != stage->axes.count) continue;
    }
    tn__sched_inline_if_small(s, stage->name);
  }
}

static const tn__expr *load_of(const tn__expr *e, const tn__buffer *buffer) {
  if (e->kind == TN__EXPR_LOAD && e->value.buffer == buffer) return e;
  const tn__expr *found = NULL;
  for (int i = 0; i < e->arg_count && found == NULL; i++) found = load_of(e->args[i], buffer);
  return found;
}

/* Fuses loops that stand next to each other from number `first` on; their common name. */
static const char *fuse_from(tn__schedule *s, const char *block, int first, int count) {
  const char *names[TN__MAX_LOOPS];
  tn__sched_first_loops(s, block, names, first + (count > 1 ? count : 1));
  for (int i = 1; i < count; i++) {
    tn__sched_fuse(s, names[first], names[first + 1]);
    tn__sched_first_loops(s, block, names, first + 1);
  }
  return names[first];
}

/* The reader's loops by what they are of the product: others first, then rows, then columns, each of these fused.
 * Returns how many others there are. */
TN_MUST_USE static int sort_loops(tn__schedule *s, const tn__rule_tiles *m, const tn__snode *reader, const char **row,
                                  const char **column) {
  const char *names[TN__MAX_LOOPS], *order[TN__MAX_LOOPS];
  int all = tn__sched_loops_of(s, reader->name, names, TN__MAX_LOOPS), counts[3] = {0}, at = 0;
  const tn__stmt *body = reader->block.body;
  const tn__expr *load = body->kind == TN__STMT_STORE ? load_of(body->as.store.value, m->tiles->tensors[0]) : NULL;
  if (load == NULL || reader->combiner != NULL || all != reader->block.axis_count)
    tn__sched_refuse(s, "gpu: \"%s\" does not read the product element by element", reader->name);
  for (int which = 0; which < 3; which++)
    for (int i = 0; i < all; i++) {
      const tn__snode *loop = tn__sched_loop(s, "gpu", names[i]);
      bool of[2] = {false, false};
      for (int a = 0; a < reader->block.axis_count; a++)
        for (int k = 0; k < 2; k++)
          of[k] |= tn__expr_uses_var(reader->block.axes[a].binding, loop->var) &&
                   tn__expr_uses_var(load->args[m->batch + k], reader->block.axes[a].var);
      if (which != (of[0] ? 1 : of[1] ? 2 : 0)) continue;
      order[at++] = names[i];
      counts[which]++;
    }
  if (counts[1] == 0 || counts[2] == 0) tn__sched_refuse(s, "gpu: \"%s\" has no rows or columns", reader->name);
  tn__sched_reorder(s, order, all);
  *row = fuse_from(s, reader->name, counts[0], counts[1]);
  *column = fuse_from(s, reader->name, counts[0] + 1, counts[2]);
  return counts[0];
}

void tn__rule_gpu_place_tiles(tn__schedule *s, const tn__rule_tiles *m, int64_t rows, int64_t columns,
                              tn__rule_placed *out) {
  const char *names[TN__MAX_LOOPS], *block = m->tiles->name, *row, *column;
  dissolve_maps(s, m);
  const tn__snode *reader = only_reader(s, m->tiles);
  if (reader == NULL) tn__sched_refuse(s, "gpu: several blocks read the product");
  out->reader = reader->name;
  const int others = sort_loops(s, m, reader, &row, &column);
  tn__sched_split(s, row, (int64_t[]){0, rows}, 2);
  tn__sched_split(s, column, (int64_t[]){0, columns}, 2);
  out->row = tn__rule_gpu_part(s, row, 1);
  out->column = tn__rule_gpu_part(s, column, 1);
  out->tile = tn__rule_gpu_part(s, column, 0);
  tn__sched_reorder(s, (const char *[]){out->tile, out->row}, 2);
  const char *down = tn__rule_gpu_part(s, row, 0);
  if (others > 0 && tn__rule_loop_extent(s, down) < 0) /* a remainder of an open size says too little */
    tn__sched_bind(s, tn__rule_gpu_fuse(s, out->reader, others), "block.z");
  else
    down = tn__rule_gpu_fuse(s, out->reader, others + 1);
  tn__sched_bind(s, down, "block.x");
  tn__sched_bind(s, out->tile, "block.y");
  tn__sched_compute_at(s, block, out->tile);
  tn__sched_set_scope(s, block, 0, TN__SCOPE_STACK);
  int count = tn__rule_gpu_loops_under(s, block, out->tile, names);
  if (count < 3) tn__sched_refuse(s, "gpu: \"%s\" has no rows, columns and terms there", block);
  out->own_row = names[count - 3];
  out->own_column = names[count - 2];
  out->own_terms = names[count - 1];
  if (tn__rule_loop_extent(s, out->own_row) != rows || tn__rule_loop_extent(s, out->own_column) != columns)
    tn__sched_refuse(s, "gpu: \"%s\" has %lld rows and %lld columns there, not whole tiles", block,
                     (long long)tn__rule_loop_extent(s, out->own_row),
                     (long long)tn__rule_loop_extent(s, out->own_column));
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

int tn__rule_gpu_loops_under(tn__schedule *s, const char *block, const char *outer, const char **names) {
  int all = tn__sched_loops_of(s, block, names, TN__MAX_LOOPS), at = 0;
  while (at < all && strcmp(names[at], outer) != 0) at++;
  if (at == all) tn__sched_refuse(s, "gpu: \"%s\" stands elsewhere", block);
  at++;
  for (int i = at; i < all; i++) names[i - at] = names[i];
  return all - at;
}

void tn__rule_gpu_share(tn__schedule *s, const tn__rule_tiles *m, int which, const char *step, const int64_t *threads) {
  enum { VECTOR = 16, BANK_ROWS = 2 };
  const tn__te_stage *side = m->sides[which];
  const char *names[TN__MAX_LOOPS];
  const int size = (int)tn_dtype_size(side->tensors[0]->dtype);
  tn__sched_compute_at(s, side->name, step);
  tn__sched_set_scope(s, side->name, 0, TN__SCOPE_SHARED);
  int count = tn__rule_gpu_loops_under(s, side->name, step, names);
  if (count < 2) tn__sched_refuse(s, "gpu: \"%s\" is no matrix there", side->name);
  int64_t inner = tn__rule_loop_extent(s, names[count - 1]), outer = tn__rule_loop_extent(s, names[count - 2]);
  int64_t lanes = VECTOR / size, all_threads = threads[0] * threads[1] * threads[2];
  if (outer <= 0 || inner <= 0) tn__sched_refuse(s, "gpu: \"%s\" is of no known size there", side->name);
  while (lanes > 1 && (inner % lanes != 0 || inner * outer % (lanes * all_threads) != 0)) lanes /= 2;
  tn__sched_storage_align(s, side->name, 0, side->axes.count - 2, BANK_ROWS * VECTOR / size, VECTOR / size);
  tn__sched_fuse(s, names[count - 2], names[count - 1]);
  count = tn__rule_gpu_loops_under(s, side->name, step, names);
  const char *all = names[count - 1];
  tn__sched_split(s, all, (int64_t[]){0, threads[0], threads[1], threads[2], lanes}, 5);
  tn__sched_bind(s, tn__rule_gpu_part(s, all, 1), "thread.z");
  tn__sched_bind(s, tn__rule_gpu_part(s, all, 2), "thread.y");
  tn__sched_bind(s, tn__rule_gpu_part(s, all, 3), "thread.x");
  if (lanes > 1) tn__sched_vectorize(s, tn__rule_gpu_part(s, all, 4));
}
