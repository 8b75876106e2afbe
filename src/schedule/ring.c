/* fold_scan: a scan's tensor of which nobody needs more than the last positions along the scan's axis has room for
 * these, each in the place of one that is not read any more: state in registers, or a few rows that stay in a cache. */
#include <string.h>

#include "ir/running.h"
#include "schedule/internal.h"

/* What a scan reads of its own tensor. */
typedef struct own_reads {
  tn__schedule *s;
  const tn__block *block;
  const tn__region *write; /* of the tensor */
  int dim;                 /* along the scan's axis */
  bool backwards;
  int64_t rows; /* that it needs; -1: not known */
} own_reads;

/* An element `rows` back lies where the new one will: it may be read by the very point that replaces it, and only
 * before it does. */
static void see_own_read(const tn__expr *e, void *user) {
  own_reads *o = user;
  int64_t back = 0;
  if (e->kind != TN__EXPR_LOAD || e->value.buffer != o->write->buffer || o->rows < 0) return;
  bool known = tn__ir_as_int(tn__ir_sub(o->s->ir, o->write->min[o->dim], e->args[o->dim]), &back);
  if (o->backwards) back = -back;
  bool same = o->block->write_count == 1;
  for (int d = 0; d < e->arg_count; d++) same &= d == o->dim || e->args[d] == o->write->min[d];
  int64_t rows = same ? back : back + 1;
  if (!known || back < 1)
    o->rows = -1;
  else if (rows > o->rows)
    o->rows = rows;
}

static void see_own_reads(const tn__expr *e, void *user) {
  own_reads *o = user;
  tn__te_visit(o->s->ir, e, see_own_read, o);
}

/* The dimension of the tensor that is the axis of the block's scan; -1: there is none. */
static int scan_dim(const tn__snode *block, const tn__region *write) {
  for (int d = 0; d < write->buffer->rank; d++)
    for (int a = 0; a < block->block.axis_count; a++)
      if (block->block.axes[a].kind == TN__AXIS_SCAN && block->block.axes[a].var->self == write->min[d]) return d;
  return -1;
}

static const tn__region *write_of(const tn__snode *block, const tn__buffer *buffer) {
  const tn__region *write = &block->block.writes[0];
  while (write->buffer != buffer) write++;
  return write;
}

const tn__te_stage *tn__sched_scan_stage(const tn__schedule *s, const tn__snode *block) {
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    if (stage->kind == TN__TE_SCAN && strcmp(stage->name, block->name) == 0) return stage;
  }
  return NULL;
}

static bool runs_backwards(const tn__schedule *s, const tn__snode *block) {
  const tn__te_stage *stage = tn__sched_scan_stage(s, block);
  return stage != NULL && stage->backwards;
}

int64_t tn__sched_scan_rows(tn__schedule *s, const tn__snode *block, const tn__buffer *buffer) {
  own_reads own = {.s = s, .block = &block->block, .write = write_of(block, buffer), .rows = 1};
  own.dim = scan_dim(block, own.write);
  own.backwards = runs_backwards(s, block);
  if (own.dim < 0) return -1;
  tn__stmt_walk_exprs(block->block.body, see_own_reads, &own);
  return own.rows;
}

static bool reaches(tn__ir *ir, const tn__expr *kept, const tn__expr *end, bool backwards) {
  return tn__ir_prove(ir, backwards ? tn__ir_le(ir, kept, end) : tn__ir_le(ir, end, kept));
}

/* Are the positions that the reader needs among the last `rows` that were written when it runs? */
static bool finds_last(tn__schedule *s, const tn__region *write, tn__snode *block, tn__snode *reader, int dim,
                       int64_t rows) {
  tn__ir *ir = s->ir;
  tn__snode *top = tn__sched_common_ancestor(block->parent, reader), *inner[TN__MAX_LOOPS];
  const tn__expr *min[TN__MAX_RANK], *extent[TN__MAX_RANK];
  tn__sched_hull(s, block, write, inner, tn__sched_path(s, top, block, inner), min, extent);
  bool backwards = runs_backwards(s, block);
  const tn__expr *end = backwards ? tn__ir_index(ir, 0) : write->buffer->shape[dim], *written = NULL;
  if (extent[dim] != NULL) written = backwards ? min[dim] : tn__ir_add(ir, min[dim], extent[dim]);
  int count = tn__sched_path(s, top, reader, inner);
  for (int r = 0; r < reader->block.read_count; r++) {
    const tn__region *read = &reader->block.reads[r];
    if (read->buffer != write->buffer) continue;
    tn__sched_hull(s, reader, read, inner, count, min, extent);
    if (extent[dim] == NULL) return false;
    const tn__expr *kept = tn__ir_add_i(ir, min[dim], backwards ? -rows : rows);
    if (backwards) kept = tn__ir_add(ir, kept, extent[dim]);
    if (!reaches(ir, kept, end, backwards) && (written == NULL || !reaches(ir, kept, written, backwards))) return false;
  }
  return true;
}

/* Why `rows` positions of the tensor are not enough; NULL when they are. `*dim` is the dimension that they are of. */
static const char *cannot_fold(tn__schedule *s, const tn__buffer *buffer, int64_t rows, int *dim) {
  tn__snodes writers = {0}, readers = {0};
  int axis_of_dim[TN__MAX_RANK];
  if (tn__sched_is_bounding(s, buffer)) return "loops run as far as it says";
  tn__sched_writers(s, buffer, &writers);
  if (writers.count != 1 || !tn__sched_identity_write(writers.data[0], axis_of_dim))
    return "one block must write it, axis by axis";
  tn__snode *block = writers.data[0];
  const tn__region *write = write_of(block, buffer);
  *dim = scan_dim(block, write);
  if (*dim < 0) return "no dimension of it is a scan's axis";
  int64_t own = tn__sched_scan_rows(s, block, buffer);
  if (own < 0 || own > rows) return "the scan reads positions that are further back, or not known";
  tn__sched_readers(s, buffer, &readers);
  for (int i = 0; i < readers.count; i++)
    if (readers.data[i] != block && !finds_last(s, write, block, readers.data[i], *dim, rows))
      return "others read positions that are further back, or not known";
  return NULL;
}

bool tn__sched_can_fold_scan(tn__schedule *s, const tn__buffer *buffer, int64_t rows) {
  int dim;
  return !tn__sched_is_param(s, buffer) && cannot_fold(s, buffer, rows, &dim) == NULL;
}

int64_t tn__sched_rows_of(tn__schedule *s, const tn__buffer *buffer, int *dim, bool *backwards) {
  tn__sched_window window;
  *backwards = false;
  if (tn__sched_slides(s, buffer, &window)) {
    *dim = window.dim;
    return window.rows;
  }
  for (int i = 0; i < s->rings.count; i++)
    if (s->rings.data[i].buffer == buffer && cannot_fold(s, buffer, s->rings.data[i].rows, dim) == NULL) {
      tn__snodes writers = {0};
      tn__sched_writers(s, buffer, &writers);
      *backwards = runs_backwards(s, writers.data[0]);
      return s->rings.data[i].rows;
    }
  return 0;
}

bool tn__sched_runs_in_vector(tn__schedule *s, const tn__snode *loop, const tn__snode *block) {
  const tn__te_stage *stage = tn__sched_scan_stage(s, block);
  const tn__block *b = &block->block;
  tn__ir_running running;
  int64_t stride = 0;
  int dim;
  bool backwards;
  if (stage == NULL || stage->scan_depth != 1 || stage->backwards || b->write_count != 1 || b->init != NULL ||
      b->body->kind != TN__STMT_STORE || block->parent != loop)
    return false;
  for (int a = 0; a < b->axis_count; a++)
    if (tn__expr_uses_var(b->axes[a].binding, loop->var) &&
        (b->axes[a].kind != TN__AXIS_SCAN || !tn__ir_stride_in(s->ir, b->axes[a].binding, loop->var, &stride)))
      return false;
  const tn__buffer *buffer = b->writes[0].buffer;
  return stride == 1 && buffer->scope == TN__SCOPE_REGISTER && tn__sched_rows_of(s, buffer, &dim, &backwards) == 1 &&
         tn__ir_running_of(s->ir, b->body->as.store.value, buffer, &running);
}

void tn__sched_fold_scan(tn__schedule *s, const char *name, int index, int64_t rows) {
  const tn__snode *block = tn__sched_block(s, "fold_scan", name);
  int dim;
  if (index < 0 || index >= block->block.write_count)
    tn__sched_refuse(s, "fold_scan of \"%s\": there is no tensor %d, it has %d", name, index, block->block.write_count);
  const tn__buffer *buffer = block->block.writes[index].buffer;
  if (tn__sched_is_param(s, buffer)) tn__sched_refuse(s, "fold_scan of \"%s\": %s is an output", name, buffer->name);
  if (rows < 1 || rows > TN__MOST_RING)
    tn__sched_refuse(s, "fold_scan of \"%s\": it keeps 1 to %d positions, not %lld", name, TN__MOST_RING,
                     (long long)rows);
  const char *why = cannot_fold(s, buffer, rows, &dim);
  if (why != NULL)
    tn__sched_refuse(s, "fold_scan of \"%s\": %s cannot keep %lld positions: %s", name, buffer->name, (long long)rows,
                     why);
  for (int i = 0; i < s->rings.count; i++)
    if (s->rings.data[i].buffer == buffer)
      tn__sched_refuse(s, "fold_scan of \"%s\": %s is folded already", name, buffer->name);
  tn__sched_ring ring = {.buffer = buffer, .rows = rows};
  tn__vec_push(s->arena, &s->rings, ring);
  const int64_t numbers[] = {index, rows};
  tn__sched_record(s, "fold_scan", &name, 1, numbers, 2);
}
