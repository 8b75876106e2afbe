/* slide: a loop computes windows of a tensor, each of which moves on by less than it is long. What the iteration before
 * has made is kept, in a ring outside of the loop, and only what is new is computed (Halide's store_at and
 * compute_at). */
#include "schedule/internal.h"

/* The row of the window at which an instance of the block is: terms of the loops that run over it, and how often the
 * loop and these count in the index. */
typedef struct rows {
  tn__snode *loop[TN__MAX_LOOPS];
  int64_t count[TN__MAX_LOOPS];
  int loops;
  int64_t step; /* of the window in one iteration */
  int64_t size; /* of the window */
} rows;

/* The constant before the variable in an affine expression; false when it is not known. */
TN_MUST_USE static bool slope_of(tn__ir *ir, const tn__expr *e, const tn__var *var, int64_t *slope) {
  const tn__expr *factor, *rest;
  return tn__ir_affine_in(ir, e, &var, 1, &factor, &rest) && tn__ir_as_int(factor, slope);
}

/* Do the loops of the window take all rows from its first to its last? Those that count less fill what is between the
 * steps of those that count more. */
static bool covers(rows *r) {
  bool used[TN__MAX_LOOPS] = {false};
  r->size = 1;
  for (int n = 0; n < r->loops; n++) {
    int next = 0;
    int64_t extent;
    while (used[next]) next++;
    for (int i = next + 1; i < r->loops; i++)
      if (!used[i] && r->count[i] < r->count[next]) next = i;
    if (!tn__ir_as_int(r->loop[next]->var->extent, &extent) || extent < 1 || extent > TN__MOST_WINDOW) return false;
    if (r->count[next] < 1 || r->count[next] > r->size) return false;
    used[next] = true;
    r->size += r->count[next] * (extent - 1);
    if (r->size > TN__MOST_WINDOW) return false;
  }
  return true;
}

/* Which rows the block computes in one iteration, by the binding of the axis that the loop moves. */
static bool find_rows(tn__schedule *s, const tn__expr *binding, const tn__snode *loop, tn__snode *const *inner,
                      int count, rows *r) {
  r->loops = 0;
  if (!slope_of(s->ir, binding, loop->var, &r->step)) return false;
  for (int i = 0; i < count; i++) {
    if (!tn__expr_uses_var(binding, inner[i]->var)) continue;
    if (!slope_of(s->ir, binding, inner[i]->var, &r->count[r->loops])) return false;
    r->loop[r->loops++] = inner[i];
  }
  return covers(r);
}

/* Does the condition hold for a row in the iteration before when it holds in this one? The row is `step` further from
 * the window's first one there. */
static bool held_before(tn__ir *ir, const tn__expr *condition, const tn__snode *loop, const rows *r) {
  int64_t own = 0, each = 0, slope;
  if (condition->kind == TN__EXPR_AND)
    return held_before(ir, condition->args[0], loop, r) && held_before(ir, condition->args[1], loop, r);
  bool moves = tn__expr_uses_var(condition, loop->var);
  for (int i = 0; i < r->loops; i++) moves = moves || tn__expr_uses_var(condition, r->loop[i]->var);
  if (!moves) return true;
  if (condition->kind != TN__EXPR_LT || condition->args[0]->dtype != TN_I64) return false;
  const tn__expr *slack = tn__ir_sub(ir, condition->args[1], condition->args[0]);
  if (!slope_of(ir, slack, loop->var, &own)) return false;
  for (int i = 0; i < r->loops; i++) {
    if (!slope_of(ir, slack, r->loop[i]->var, &slope) || slope % r->count[i] != 0) return false;
    if (i > 0 && slope != each * r->count[i]) return false;
    each = slope / r->count[i];
  }
  return each * r->step >= own;
}

/* Loops that the node is under inside of `loop` must run one iteration after the other, for their memory is outside. */
static bool runs_in_order(const tn__snode *node, const tn__snode *loop) {
  for (const tn__snode *n = node->parent; n != loop; n = n->parent)
    if (n->kind == TN__LOOP_PARALLEL || tn__ir_loop_is_bound(n->kind)) return false;
  return true;
}

static bool is_frozen(const tn__snode *node) {
  for (; node != NULL; node = node->parent)
    if (node->tensor != NULL || node->transposes) return true;
  return false;
}

/* Why those who read the tensor do not find what they need in one window after the other; NULL when they do. */
static const char *cannot_read(tn__schedule *s, const tn__buffer *buffer, const tn__snode *block, const tn__snode *loop,
                               const rows *r) {
  tn__snodes readers = {0};
  tn__sched_readers(s, buffer, &readers);
  for (int i = 0; i < readers.count; i++) {
    const tn__snode *reader = readers.data[i];
    if (reader == block) continue;
    if (!tn__sched_is_under(reader, loop)) return "it is read outside of the loop";
    if (!runs_in_order(reader, loop)) return "loops inside run in parallel";
    if (is_frozen(reader)) return "what reads it was tensorized or transposed";
    for (int k = 0; k < r->loops; k++)
      if (tn__sched_is_under(reader, r->loop[k])) return "it is read before the window is complete";
  }
  return NULL;
}

/* Finds the dimension in which the window moves; a reason when there is not just one, or it moves otherwise. */
static const char *find_window(tn__schedule *s, const tn__snode *block, const tn__snode *loop, const int *axis_of_dim,
                               int rank, rows *r, int *dim) {
  tn__snode *inner[TN__MAX_LOOPS];
  int count = tn__sched_path(s, loop, block, inner);
  if (tn__sched_drives(loop, block, TN__AXIS_REDUCE) || tn__sched_drives(loop, block, TN__AXIS_SCAN))
    return "the loop carries its values on";
  for (int i = 0; i < count; i++)
    if (tn__expr_uses_var(inner[i]->var->extent, loop->var))
      return "its window does not move by a constant, or has gaps";
  *dim = -1;
  for (int a = 0; a < block->block.axis_count; a++) {
    if (!tn__expr_uses_var(block->block.axes[a].binding, loop->var)) continue;
    int moved = -1;
    for (int d = 0; d < rank; d++)
      if (axis_of_dim[d] == a) moved = d;
    if (moved < 0 || *dim >= 0) return "the loop moves it along more than one dimension";
    if (!find_rows(s, block->block.axes[a].binding, loop, inner, count, r))
      return "its window does not move by a constant, or has gaps";
    *dim = moved;
  }
  if (*dim < 0) return "the loop does not move it";
  if (r->step < 1 || r->step >= r->size) return "nothing that an iteration needs was made by the one before";
  return NULL;
}

const char *tn__sched_cannot_slide(tn__schedule *s, const tn__buffer *buffer, const tn__snode *loop,
                                   tn__sched_window *out) {
  tn__snodes writers = {0};
  int axis_of_dim[TN__MAX_RANK];
  rows r;
  tn__sched_writers(s, buffer, &writers);
  if (writers.count != 1 || writers.data[0]->block.write_count != 1 ||
      !tn__sched_identity_write(writers.data[0], axis_of_dim))
    return "one block must write it, and nothing else, axis by axis";
  const tn__snode *block = writers.data[0];
  if (!tn__sched_is_under(block, loop)) return "it is not computed in the loop";
  if (loop->kind != TN__LOOP_SERIAL && loop->kind != TN__LOOP_UNROLLED)
    return "the loop's iterations do not run one after the other";
  if (!runs_in_order(block, loop)) return "loops inside run in parallel";
  if (is_frozen(block)) return "what writes it was tensorized or transposed";
  if (buffer->scope == TN__SCOPE_SHARED) return "it is in shared memory";
  for (int i = 0; i < s->folds.count; i++)
    if (s->folds.data[i].buffer == buffer) return "its storage is folded";
  const char *why = find_window(s, block, loop, axis_of_dim, buffer->rank, &r, &out->dim);
  if (why == NULL) why = cannot_read(s, buffer, block, loop, &r);
  if (why == NULL && !held_before(s->ir, block->block.predicate, loop, &r)) why = "rows of its window are left out";
  if (why != NULL) return why;
  const tn__expr *row = tn__ir_index(s->ir, 0), *first = tn__ir_lt(s->ir, loop->var->self, tn__ir_index(s->ir, 1));
  for (int i = 0; i < r.loops; i++) row = tn__ir_add(s->ir, row, tn__ir_mul_i(s->ir, r.loop[i]->var->self, r.count[i]));
  out->loop = loop;
  out->is_new = tn__ir_or(s->ir, first, tn__ir_le(s->ir, tn__ir_index(s->ir, r.size - r.step), row));
  for (out->rows = 1; out->rows < r.size;) out->rows *= 2;
  return NULL;
}

bool tn__sched_slides(tn__schedule *s, const tn__buffer *buffer, tn__sched_window *out) {
  for (int i = 0; i < s->slides.count; i++)
    if (s->slides.data[i].buffer == buffer)
      return tn__sched_cannot_slide(s, buffer, s->slides.data[i].loop, out) == NULL;
  return false;
}

void tn__sched_slide(tn__schedule *s, const char *name, const char *loop_name) {
  const tn__snode *block = tn__sched_block(s, "slide", name), *loop = tn__sched_loop(s, "slide", loop_name);
  tn__sched_window unused;
  if (block->block.write_count == 0) tn__sched_refuse(s, "slide of \"%s\": it writes nothing", name);
  const tn__buffer *buffer = block->block.writes[0].buffer;
  if (tn__sched_is_param(s, buffer)) tn__sched_refuse(s, "slide of \"%s\": %s is an output", name, buffer->name);
  tn__sched_check_not_bounding(s, "slide", buffer);
  for (int i = 0; i < s->slides.count; i++)
    if (s->slides.data[i].buffer == buffer)
      tn__sched_refuse(s, "slide of \"%s\": %s slides already", name, buffer->name);
  const char *why = tn__sched_cannot_slide(s, buffer, loop, &unused);
  if (why != NULL) tn__sched_refuse(s, "slide of \"%s\" in \"%s\": %s", name, loop_name, why);
  tn__sched_fold slide = {.buffer = buffer, .loop = loop};
  tn__vec_push(s->arena, &s->slides, slide);
  const char *names[] = {name, loop_name};
  tn__sched_record(s, "slide", names, 2, NULL, 0);
}
