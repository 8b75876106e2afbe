/* transpose: what a block reads along one loop, while its vectors run along another, is read in vectors of the first
 * into a tile of registers, from which the block takes columns. */
#include "schedule/internal.h"

enum { MAX_TILES = 12 };

/* A part of the block's value that is read along the rows, and the tile that it comes to lie in. */
typedef struct tile {
  const tn__expr *value;
  const tn__buffer *buffer;
  bool guarded; /* it may read what is not there, unless the condition around it holds */
} tile;

typedef struct transposing {
  tn__schedule *s;
  tn__snode *block, *rows, *lanes;   /* loops: along what is contiguous in memory; along the block's vectors */
  tn__snode *path[TN__MAX_LOOPS];    /* loops that tell the block's points apart: the tile's dimensions, `lanes` and */
  int depth;                         /* `rows` last */
  const tn__var *axes[TN__MAX_RANK]; /* of the block, one for each of these loops */
  tile tiles[MAX_TILES];
  int tile_count;
  bool found;          /* something that is read along the rows */
  const tn__var *scan; /* the block's axis that runs in order; NULL: there is none */
  int64_t first;       /* the first position of it that reads what was before */
  bool backwards;      /* its order */
  bool missing;        /* a scan reads under a condition what may not be there */
} transposing;

/* ---- what is read along the rows --------------------------------------------------------------------------------- */

/* What a scan reads of its own is not there yet when the tile is filled. */
static bool is_lengthwise(const transposing *t, const tn__expr *e) {
  tn__ir *ir = t->s->ir;
  if (e->kind != TN__EXPR_LOAD || tn__sched_writes(t->block, e->value.buffer)) return false;
  const tn__expr *flat = tn__buffer_flatten(ir, e->value.buffer, e->args);
  flat = tn__sched_substitute_axes(ir, &t->block->block, flat);
  int64_t along_rows, along_lanes;
  if (!tn__ir_stride_in(ir, flat, t->rows->var, &along_rows) || along_rows != 1) return false;
  return !tn__ir_stride_in(ir, flat, t->lanes->var, &along_lanes) || (along_lanes != 0 && along_lanes != 1);
}

static bool is_inside(tn__ir *ir, const tn__expr *load) {
  for (int d = 0; d < load->arg_count; d++)
    if (!tn__ir_prove(ir, tn__ir_le(ir, tn__ir_index(ir, 0), load->args[d])) ||
        !tn__ir_prove(ir, tn__ir_lt(ir, load->args[d], load->value.buffer->shape[d])))
      return false;
  return true;
}

/* The load that stands for a value. */
static const tn__expr *read_tile(transposing *t, const tn__expr *value, bool guarded) {
  tn__schedule *s = t->s;
  const tn__expr *shape[TN__MAX_RANK], *indices[TN__MAX_RANK];
  int at = 0;
  while (at < t->tile_count && t->tiles[at].value != value) at++;
  if (at == MAX_TILES)
    tn__sched_refuse(s, "transpose of \"%s\": it reads more than %d tiles", t->block->name, MAX_TILES);
  for (int d = 0; d < t->depth; d++) {
    shape[d] = t->path[d]->var->extent;
    indices[d] = t->axes[d]->self;
  }
  if (at == t->tile_count) {
    const char *name = tn__arena_printf(s->arena, "%s.tile%d", t->block->name, t->tile_count++);
    const tn__buffer *buffer = tn__buffer_create(s->ir, name, value->dtype, TN__SCOPE_REGISTER, t->depth, shape);
    t->tiles[at] = (tile){.value = value, .buffer = buffer, .guarded = guarded};
  }
  return tn__ir_load(s->ir, t->tiles[at].buffer, indices);
}

static const tile *tile_of(const transposing *t, const tn__expr *e) {
  for (int i = 0; i < t->tile_count; i++)
    if (e->kind == TN__EXPR_LOAD && e->value.buffer == t->tiles[i].buffer) return &t->tiles[i];
  return NULL;
}

static const tn__expr *restore(tn__ir *ir, const tn__expr *e, void *user) {
  const tile *known = tile_of(user, e);
  return known == NULL ? NULL : known->value;
}

/* In a scan: what is there from the first position on that reads what was before. NULL: it may not be there, either. */
static const tn__expr *behind_start(const transposing *t, const tn__expr *load) {
  tn__ir *ir = t->s->ir;
  if (t->backwards) return NULL;
  const tn__expr *start = tn__ir_index(ir, t->first);
  const tn__var *late =
      tn__var_create(ir, t->scan->name, TN_I64, tn__ir_index(ir, 0), tn__ir_add_i(ir, t->scan->extent, -t->first));
  const tn__expr *position = tn__ir_add(ir, late->self, start);
  if (!is_inside(ir, tn__ir_substitute(ir, load, &t->scan, &position, 1))) return NULL;
  const tn__expr *condition = tn__ir_call1(ir, TN__CALL_LIKELY, tn__ir_le(ir, start, t->scan->self));
  return tn__ir_select(ir, condition, load, tn__ir_constant(ir, load->dtype, 0));
}

/* Tiles for what is read along the rows. What must not be read where a condition fails takes the condition along: then
 * all of the choice lies in the tile. */
static const tn__expr *with_tiles(tn__ir *ir, const tn__expr *e, void *user) {
  transposing *t = user;
  if (is_lengthwise(t, e)) {
    t->found = true;
    if (t->scan == NULL) return read_tile(t, e, !is_inside(ir, e));
    const tn__expr *there = is_inside(ir, e) ? e : behind_start(t, e);
    t->missing |= there == NULL;
    return there == NULL ? NULL : read_tile(t, there, false);
  }
  if (t->scan != NULL) return NULL;
  if (e->kind != TN__EXPR_SELECT && e->kind != TN__EXPR_AND && e->kind != TN__EXPR_OR) return NULL;
  for (int i = 0; i < t->tile_count; i++)
    if (t->tiles[i].guarded && tn__expr_uses_buffer(e, t->tiles[i].buffer)) {
      const tn__expr *whole = e; /* values may have tiles in them in turn */
      for (const tn__expr *before = NULL; whole != before;) {
        before = whole;
        whole = tn__expr_rewrite(ir, whole, restore, t);
      }
      return read_tile(t, whole, true);
    }
  return NULL;
}

/* ---- legality ---------------------------------------------------------------------------------------------------- */

static int64_t check_side(const transposing *t, const tn__snode *loop) {
  int64_t extent = 0;
  tn__sched_check_free(t->s, "transpose", loop, true);
  if (!tn__ir_as_int(loop->var->extent, &extent) || extent < 2 || extent > TN__MOST_TILE_SIDE)
    tn__sched_refuse(t->s, "transpose of \"%s\": the extent of \"%s\" must be a constant of 2 to %d", t->block->name,
                     loop->name, TN__MOST_TILE_SIDE);
  return extent;
}

static void check_block(transposing *t) {
  const tn__snode *block = t->block;
  const tn__schedule *s = t->s;
  if (block->parent != t->lanes || t->lanes->parent != t->rows || t->lanes->children.count != 1 ||
      t->rows->children.count != 1)
    tn__sched_refuse(
        s, "transpose of \"%s\": \"%s\" and \"%s\" are not its two innermost loops, with nothing else in them",
        block->name, t->rows->name, t->lanes->name);
  bool plain = (block->block.body->kind == TN__STMT_STORE || t->scan != NULL) && block->block.axis_count > 0 &&
               block->block.init == NULL && block->combiner == NULL;
  for (int i = 0; i < block->block.axis_count; i++)
    plain &= block->block.axes[i].kind == TN__AXIS_SPATIAL || block->block.axes[i].var == t->scan;
  if (!plain) tn__sched_refuse(s, "transpose of \"%s\": it is not element-wise", block->name);
  for (int w = 0; w < block->block.write_count && t->scan == NULL; w++)
    if (tn__sched_reads(block, block->block.writes[w].buffer))
      tn__sched_refuse(s, "transpose of \"%s\": it reads what it writes", block->name);
  int64_t size = check_side(t, t->rows) * check_side(t, t->lanes);
  if (size * (int64_t)tn_dtype_size(block->block.writes[0].buffer->dtype) > TN__MOST_TILE_BYTES)
    tn__sched_refuse(s, "transpose of \"%s\": a tile is at most %d bytes", block->name, TN__MOST_TILE_BYTES);
  tn__sched_check_independent(t->s, "transpose", t->lanes, false);
}

/* The loops that drive the block, its two sides last and the other way round. */
static void find_path(transposing *t) {
  tn__snode *all[TN__MAX_LOOPS];
  int count = tn__sched_path(t->s, t->s->root, t->block, all);
  t->depth = 0;
  for (int i = 0; i < count - 2; i++)
    if (tn__sched_drives_elements(all[i], t->block)) t->path[t->depth++] = all[i];
  t->path[t->depth++] = t->lanes;
  t->path[t->depth++] = t->rows;
  if (t->depth > TN__MAX_RANK || t->block->block.axis_count + t->depth > 3 * TN__MAX_RANK)
    tn__sched_refuse(t->s, "transpose of \"%s\": it is in more than %d loops", t->block->name, TN__MAX_RANK);
  for (int d = 0; d < t->depth; d++)
    t->axes[d] = tn__var_create(t->s->ir, tn__arena_printf(t->s->arena, "t%d", d), TN_I64, tn__ir_index(t->s->ir, 0),
                                t->path[d]->var->extent);
}

/* ---- changing the tree ------------------------------------------------------------------------------------------- */

/* The block's scan, if it is one. */
static void find_scan(transposing *t) {
  for (int i = 0; i < t->block->block.axis_count; i++)
    if (t->block->block.axes[i].kind == TN__AXIS_SCAN) t->scan = t->block->block.axes[i].var;
  const tn__te_stage *stage = tn__sched_scan_stage(t->s, t->block);
  if (stage == NULL) return;
  t->first = stage->scan_depth;
  t->backwards = stage->backwards;
}

/* Axes for the loops, behind those that the block has: its place in the tile. */
static void add_axes(transposing *t) {
  tn__block *block = &t->block->block;
  tn__block_axis *axes = TN__NEW_ARRAY(t->s->arena, block->axis_count + t->depth, tn__block_axis);
  for (int i = 0; i < block->axis_count; i++) axes[i] = block->axes[i];
  for (int d = 0; d < t->depth; d++)
    axes[block->axis_count + d] =
        (tn__block_axis){.var = t->axes[d], .kind = TN__AXIS_SPATIAL, .binding = t->path[d]->var->self};
  for (int d = 0; d < t->depth; d++)
    if (tn__sched_drives(t->path[d], t->block, TN__AXIS_SCAN)) axes[block->axis_count + d].kind = TN__AXIS_SCAN;
  block->axes = axes;
  block->axis_count += t->depth;
}

/* The nest that fills a tile, in front of the block's: a vector along the rows for each lane. */
static void insert_rows(transposing *t, const tile *filled) {
  tn__schedule *s = t->s;
  const char *name = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rows", t->block->name));
  tn__vec_push(s->arena, &s->buffers, filled->buffer);
  tn__snode *each =
      tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.lane", name), t->lanes->var->extent, TN__LOOP_UNROLLED);
  tn__snode *row =
      tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.row", name), t->rows->var->extent, TN__LOOP_VECTORIZED);
  tn__block block = t->block->block;
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, block.axis_count, tn__block_axis);
  for (int i = 0; i < block.axis_count; i++) {
    axes[i] = block.axes[i];
    axes[i].kind = TN__AXIS_SPATIAL; /* of what a scan reads, any order will do */
  }
  block.axes = axes;
  block.name = name;
  tn__snode *node = tn__sched_new_block(s, &block);
  const tn__expr *indices[TN__MAX_RANK];
  for (int d = 0; d < t->depth; d++) indices[d] = t->axes[d]->self;
  tn__sched_set_body(s, node, NULL, tn__ir_store(s->ir, filled->buffer, indices, filled->value));
  tn__sched_substitute(s, node, (const tn__var *[]){t->lanes->var, t->rows->var},
                       (const tn__expr *[]){each->var->self, row->var->self}, 2);
  node->exact = t->block->exact;
  each->transposes = row->transposes = true;
  tn__sched_append(s, row, node);
  tn__sched_append(s, each, row);
  tn__sched_insert(s, t->rows->parent, tn__sched_index(t->rows), each);
}

static const tn__expr *tiles_in_value(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, with_tiles, user);
}

typedef struct buffer_use {
  const tn__buffer *buffer;
  bool found;
} buffer_use;

static void see_use(const tn__expr *e, void *user) {
  buffer_use *use = user;
  use->found = use->found || tn__expr_uses_buffer(e, use->buffer);
}

static bool uses_buffer(const tn__stmt *body, const tn__buffer *buffer) {
  buffer_use use = {.buffer = buffer};
  tn__stmt_walk_exprs(body, see_use, &use);
  return use.found;
}

void tn__sched_transpose(tn__schedule *s, const char *name, const char *rows, const char *lanes) {
  transposing t = {.s = s};
  t.block = tn__sched_block(s, "transpose", name);
  t.rows = tn__sched_loop(s, "transpose", rows);
  t.lanes = tn__sched_loop(s, "transpose", lanes);
  find_scan(&t);
  check_block(&t);
  find_path(&t);
  const tn__stmt *body = tn__stmt_rewrite(s->ir, t.block->block.body, NULL, tiles_in_value, &t);
  if (!t.found)
    tn__sched_refuse(s, "transpose of \"%s\": it reads nothing that is contiguous along \"%s\" and not along \"%s\"",
                     name, rows, lanes);
  if (t.missing)
    tn__sched_refuse(s, "transpose of \"%s\": the scan reads under a condition what may not be there", name);
  add_axes(&t);
  for (int i = 0; i < t.tile_count; i++)
    if (uses_buffer(body, t.tiles[i].buffer)) insert_rows(&t, &t.tiles[i]);
  tn__sched_set_body(s, t.block, NULL, body);
  t.rows->kind = TN__LOOP_UNROLLED;
  t.lanes->kind = TN__LOOP_VECTORIZED;
  t.rows->transposes = t.lanes->transposes = true;
  const char *names[] = {name, rows, lanes};
  tn__sched_record(s, "transpose", names, 3, NULL, 0);
}

typedef struct scan_reads {
  transposing t;
  int tiles; /* that the scan would read; many when one of them cannot be */
} scan_reads;

static void see_scan_read(const tn__expr *e, void *user) {
  scan_reads *r = user;
  if (is_lengthwise(&r->t, e))
    r->tiles += is_inside(r->t.s->ir, e) || behind_start(&r->t, e) != NULL ? 1 : MAX_TILES + 1;
}

static void see_scan_reads(const tn__expr *e, void *user) {
  scan_reads *r = user;
  tn__te_visit(r->t.s->ir, e, see_scan_read, r);
}

int tn__sched_scan_tiles(tn__schedule *s, tn__snode *block, tn__snode *rows, tn__snode *lanes) {
  scan_reads r = {.t = {.s = s, .block = block, .rows = rows, .lanes = lanes}};
  find_scan(&r.t);
  tn__stmt_walk_exprs(block->block.body, see_scan_reads, &r);
  return r.tiles > MAX_TILES ? -1 : r.tiles;
}
