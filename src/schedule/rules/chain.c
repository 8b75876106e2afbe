/* The rule "chain": some stages, maps and reductions, of which each reads of the others what has its own position along
 * some axes. Along these the last stage is computed in tiles, and the others in its loop over tiles, or in nests of
 * their own before. It belongs to no class of computations: which maps are inlined, what is computed where, how large
 * tiles are, and along which axis each stage's vectors run are decisions, weighed together on an outline
 * (outline/outline.h). It competes, as "structure" does with single reductions. */
#include <math.h>
#include <string.h>

#include "base/invariant.h"
#include "schedule/outline/outline.h"
#include "schedule/rules/pipeline.h"
#include "schedule/rules/reduce.h"
#include "schedule/rules/structure.h"

/* Of twice as many stages some may be cheap maps, which dissolve. */
enum { MOST_TILED = 3, MOST_STAGES = 6, MOST_DECLARED = 2 * MOST_STAGES, MOST_INLINED = 2, FEWEST_POINTS = 256 };

/* A stage's form is a number: which of up to so many axes vectors run along, the power of two that they are, up to
 * eight, and whether it is written out. */
enum { MOST_LANES = 3, POWERS = 4, FORMS = 2 * POWERS };

/* Which maps are inlined is the first decision; those of the other kinds follow. */
enum { INLINED };

/* What is left when some maps are inlined. */
typedef struct variant {
  int inlined_count, count;
  const char *inlined[MOST_INLINED];
  int number[MOST_STAGES]; /* of each stage in the declaration: where its decisions stand */
  tn__outline_facts *facts[MOST_STAGES];
  bool output[MOST_STAGES];
  int lane_count[MOST_STAGES];
  int lanes[MOST_STAGES][MOST_LANES]; /* axes that vectors of a stage may run along */
} variant;

typedef struct chain {
  int count; /* of stages, with nothing inlined */
  int variant_count;
  variant variants[1 << MOST_INLINED];
  int tiled[MOST_TILED], tiled_count; /* axes of the last stage */
  int tile, place, form;              /* the first decision of each kind */
  tn__outline *outline;               /* of one candidate */
  tn__outline_work_room *room;
  bool large;
} chain;

/* ---- which declarations ------------------------------------------------------------------------------------------ */

static bool matches(const tn__te *te) {
  int reductions = 0, count = tn__te_stage_count(te);
  if (count < 2 || count > MOST_DECLARED) return false;
  for (int i = 0; i < count; i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_COMPUTE && stage->kind != TN__TE_REDUCE) return false;
    if (stage->tensor_count != 1) return false;
    reductions += stage->kind == TN__TE_REDUCE && stage->reduce_axes.count > 0;
  }
  const tn__te_stage *last = tn__te_stage_at(te, count - 1);
  return reductions > 0 && tn__reduce_volume(&last->axes, &last->reduce_axes) >= FEWEST_POINTS;
}

/* Axes along which something that the stage reads or writes is contiguous, and which are long enough for a vector. */
TN_MUST_USE static int axes_for_lanes(const tn__outline_facts *f, int *out) {
  const tn__nest *nest = &f->reduce.nest;
  int count = 0;
  for (int x = nest->axis_count - 1; x >= 0 && count < MOST_LANES; x--) {
    bool contiguous = false;
    if (nest->extent[x] < 4 || (x >= f->spatial && !f->reorderable)) continue;
    for (int a = 0; a < nest->access_count; a++)
      contiguous |= nest->access[a].along[x].stride == nest->access[a].element && !nest->access[a].scattered;
    if (contiguous) out[count++] = x;
  }
  return count;
}

/* Is the access contiguous along results, and another for each term? */
static bool runs_across(const tn__outline_facts *f, const tn__nest_access *a) {
  bool across = false, moves = a->scattered;
  for (int x = 0; x < f->spatial; x++) across |= a->along[x].stride == a->element && f->reduce.nest.extent[x] > 1;
  for (int x = f->spatial; x < f->reduce.nest.axis_count; x++) moves |= a->along[x].stride != 0;
  return across && moves && !a->store;
}

/* Do all reductions run along what is contiguous? These are rows, which the rule "row reduction" is for. */
static bool is_of_rows(const variant *v) {
  for (int i = 0; i < v->count; i++)
    for (int a = 0; a < v->facts[i]->reduce.nest.access_count && !v->facts[i]->map; a++)
      if (runs_across(v->facts[i], &v->facts[i]->reduce.nest.access[a])) return false;
  return true;
}

/* The stages of a schedule that was not touched, with the variant's maps inlined; false when some is none of these. */
static bool find_stages(tn__schedule *s, variant *v) {
  tn__snodes blocks = {0};
  tn__reduce_dissolve_maps(s);
  for (int i = 0; i < v->inlined_count; i++) tn__sched_inline(s, v->inlined[i]);
  tn__sched_blocks(s, s->root, &blocks);
  if (blocks.count < 2 || blocks.count > MOST_STAGES) return false;
  for (int i = 0; i < blocks.count; i++) {
    v->facts[i] = tn__outline_stage_facts(s, blocks.data[i]->name, tn__rule_cost_of_node);
    if (v->facts[i] == NULL) return false;
    v->output[i] = tn__sched_is_output(s, blocks.data[i]->block.writes[0].buffer);
    v->lane_count[i] = axes_for_lanes(v->facts[i], v->lanes[i]);
    if (v->lane_count[i] == 0) return false;
  }
  v->count = blocks.count;
  return tn__outline_join(s, v->facts, v->count);
}

/* The number of the variant's stage in the one with nothing inlined. */
static void number_stages(const variant *first, variant *v) {
  for (int i = 0; i < v->count; i++)
    for (int k = 0; k < first->count; k++)
      if (strcmp(first->facts[k]->block, v->facts[i]->block) == 0) v->number[i] = k;
}

static void find_variants(chain *d, tn__schedule *s) {
  const char *maps[MOST_INLINED];
  int count = 0;
  variant *first = &d->variants[d->variant_count];
  if (!find_stages(s, first)) tn__sched_refuse(s, "chain: not all stages are maps and reductions of known sizes");
  for (int i = 0; i < first->count; i++)
    if (first->facts[i]->whole != 0)
      tn__sched_refuse(s, "chain: \"%s\" is read at other positions, as tiles that overlap are for",
                       first->facts[i]->block);
  if (is_of_rows(first)) tn__sched_refuse(s, "chain: all reductions run along what is contiguous");
  d->count = first->count;
  number_stages(first, first);
  d->variant_count++;
  for (int i = 0; i < first->count && count < MOST_INLINED; i++) {
    const tn__snode *block = tn__sched_find(s, first->facts[i]->block, true);
    if (first->facts[i]->map && tn__pipe_can_inline(s, block)) maps[count++] = first->facts[i]->block;
  }
  for (int mask = 1; mask < 1 << count; mask++) {
    variant *v = &d->variants[d->variant_count];
    *v = (variant){0};
    for (int i = 0; i < count; i++)
      if (mask >> i & 1) v->inlined[v->inlined_count++] = maps[i];
    if (!find_stages(tn__schedule_of(s->te, s->target), v)) continue;
    number_stages(first, v);
    d->variant_count++;
  }
}

/* ---- the space --------------------------------------------------------------------------------------------------- */

/* The axis of the stage that is the outline's axis; -1: none. */
static int own_axis(const tn__outline_facts *f, int axis) {
  for (int x = 0; x < f->spatial; x++)
    if (f->axis[x] == axis) return x;
  return -1;
}

/* Axes of the last stage that others have, too. */
static void find_tiled(chain *d) {
  const variant *v = &d->variants[0];
  const tn__outline_facts *last = v->facts[v->count - 1];
  for (int x = 0; x < last->spatial && d->tiled_count < MOST_TILED; x++) {
    bool common = false;
    for (int i = 0; i < v->count - 1; i++) common |= own_axis(v->facts[i], last->axis[x]) >= 0;
    if (common && last->reduce.nest.extent[x] > 1) d->tiled[d->tiled_count++] = x;
  }
}

static int64_t lanes_of(const tn__outline_facts *f, const tn__schedule_options *options, int axis, int64_t extent) {
  int64_t lanes = options->vector_bytes / f->bytes[0];
  while (lanes > 4 && lanes > extent) lanes /= 2;
  return lanes >= (axis >= f->spatial ? 4 : 2) && lanes <= extent ? lanes : 0;
}

static void open_tile(tn__sketch *k, const tn__outline_facts *last, int axis, const char *name) {
  int64_t sizes[TN__MAX_CHOICES], lanes = k->options.vector_bytes / last->bytes[0];
  int64_t extent = last->reduce.nest.extent[axis];
  int count = 0;
  sizes[count++] = 0;
  sizes[count++] = 1;
  if (extent > 4) sizes[count++] = 4;
  for (int64_t size = lanes; size < extent && size <= 16 * lanes; size *= 2)
    if (size > 4) sizes[count++] = size;
  k->decisions[tn__sketch_open(k, name, sizes, count)].orders = true;
}

static int lane_number(int64_t form) { return (int)(form / FORMS); }
static int64_t vectors_of(int64_t form) { return INT64_C(1) << form % FORMS / 2; }
static bool is_written(int64_t form) { return form % 2 != 0; }

/* The name of one of several decisions of a kind. */
static const char *number_of(const tn__schedule *s, const char *kind, int index) {
  return tn__arena_printf(s->arena, "%s %d", kind, index + 1);
}

/* Rows of a few terms that data choose are the rules' for rows. */
static void refuse_chosen(tn__schedule *s) {
  tn__snodes blocks = {0};
  tn__sched_blocks(s, s->root, &blocks);
  for (int i = 0; i < blocks.count; i++)
    if (blocks.data[i]->combiner != NULL && tn__reduce_chooses_few(s, blocks.data[i]))
      tn__sched_refuse(s, "chain: data choose the few terms of \"%s\"", blocks.data[i]->name);
}

static void open_chain(tn__sketch *k, tn__schedule *s) {
  static const int64_t numbers[1 << MOST_INLINED] = {0, 1, 2, 3}, apart[] = {0, 1};
  chain *d = TN__NEW(s->arena, chain);
  *d = (chain){.large = tn__rule_is_large(k->te),
               .outline = TN__NEW(s->arena, tn__outline),
               .room = TN__NEW(s->arena, tn__outline_work_room)};
  memset(d->room, 0, sizeof *d->room);
  k->data = d;
  refuse_chosen(s);
  find_variants(d, s);
  find_tiled(d);
  const variant *v = &d->variants[0];
  if (d->tiled_count == 0) tn__sched_refuse(s, "chain: the stages have no axis in common");
  TN__INVARIANT(k->decision_count == INLINED);
  k->decisions[tn__sketch_open(k, "inlined", numbers, d->variant_count)].orders = true;
  d->tile = k->decision_count;
  for (int i = 0; i < d->tiled_count; i++) open_tile(k, v->facts[v->count - 1], d->tiled[i], number_of(s, "tile", i));
  d->place = k->decision_count;
  for (int i = 0; i < d->count - 1; i++)
    k->decisions[tn__sketch_open(k, number_of(s, "apart", i), apart, 2)].orders = true;
  d->form = k->decision_count;
  for (int i = 0; i < d->count; i++) {
    int64_t forms[TN__MAX_CHOICES];
    int count = 0;
    for (int f = 0; f < v->lane_count[i] * FORMS; f++)
      if (!v->facts[i]->map || v->facts[i]->spatial > 1 || !is_written(f)) forms[count++] = f;
    k->decisions[tn__sketch_open(k, number_of(s, "form", i), forms, count)].orders = true;
  }
}

/* ---- one point --------------------------------------------------------------------------------------------------- */

/* A candidate while it is made. */
typedef struct point {
  const chain *d;
  const variant *v;
  const tn__schedule_options *options;
  tn__outline *o;
  int outer_count, outer[MOST_TILED], axis[MOST_TILED]; /* loops over tiles, and what they are along */
  int depth[MOST_STAGES];                               /* in how many of these the stage is computed */
  int64_t tile[MOST_TILED];
  int64_t kept; /* bytes on the stack */
  bool parallel;
} point;

/* How a stage is computed. */
typedef struct form {
  int axis; /* that vectors run along */
  bool along;
  bool written; /* short loops of a reduction are written out; a map's loop over vectors is around the others */
  int64_t vectors, lanes, extent;
} form;

/* How much of a stage's axis is computed at once. */
static int64_t extent_of(const point *p, int stage, int x) {
  const tn__outline_facts *f = p->v->facts[stage];
  for (int i = 0; i < p->depth[stage] && x < f->spatial; i++)
    if (p->axis[i] == f->axis[x]) return p->tile[i];
  return f->reduce.nest.extent[x];
}

/* False where the stage has no such form. */
TN_MUST_USE static bool form_of(const point *p, int stage, int64_t value, form *out) {
  const tn__outline_facts *f = p->v->facts[stage];
  if (lane_number(value) >= p->v->lane_count[stage]) return false;
  *out = (form){
      .axis = p->v->lanes[stage][lane_number(value)], .vectors = vectors_of(value), .written = is_written(value)};
  out->along = out->axis >= f->spatial;
  out->extent = extent_of(p, stage, out->axis);
  out->lanes = lanes_of(f, p->options, out->axis, out->extent);
  if (out->lanes == 0 || (out->vectors > 1 && out->vectors * out->lanes > out->extent)) return false;
  if (out->along) return !out->written;
  return tn__rule_fills(out->extent, out->vectors * out->lanes);
}

static void split_lanes(tn__outline *o, int loop, const form *f, int *parts, int *count) {
  *count = f->vectors > 1 ? 3 : 2;
  tn__outline_split(o, loop, *count == 3 ? (int64_t[]){0, f->vectors, f->lanes} : (int64_t[]){0, f->lanes, 0}, *count,
                    parts);
}

static void set_lane_kinds(tn__outline *o, const int *parts, int count) {
  for (int i = 1; i < count; i++)
    tn__outline_kind(o, parts[i], i == count - 1 ? TN__LOOP_VECTORIZED : TN__LOOP_UNROLLED);
}

/* The loop under `depth` others around the block that is along the axis of its stage. */
static int loop_along(const tn__outline *o, int stage, const int *path, int count, int depth, int x) {
  for (int l = depth; l < count; l++)
    if (o->node[path[l]].axis == o->facts[stage]->axis[x]) return path[l];
  return path[count - 1];
}

/* Vectors along one of the loops of a block that writes, the loop over them inside of the others or around them, where
 * parts of a map that only differ from vector to vector are computed once. Returns the loop over vectors. */
static int vectorize_writer(const point *p, int stage, int block, const form *f) {
  tn__outline *o = p->o;
  int path[TN__OUTLINE_NODES], order[TN__OUTLINE_NODES], parts[3], in_lane, n = 0, depth = p->depth[stage];
  int count = tn__outline_path(o, block, path), lane = loop_along(o, stage, path, count, depth, f->axis);
  split_lanes(o, lane, f, parts, &in_lane);
  bool outside = f->written && o->facts[stage]->map;
  if (outside) order[n++] = parts[0];
  for (int l = depth; l < count; l++)
    if (path[l] != lane) order[n++] = path[l];
  if (!outside) order[n++] = parts[0];
  for (int i = 1; i < in_lane; i++) order[n++] = parts[i];
  tn__outline_reorder(o, order, n);
  set_lane_kinds(o, parts, in_lane);
  return parts[0];
}

/* A reduction in registers, under the loop of the copy that writes its results. */
static void reduce_across(const point *p, int stage, int block, int loop, const form *f) {
  tn__outline *o = p->o;
  const tn__outline_facts *facts = o->facts[stage];
  int path[TN__OUTLINE_NODES], order[TN__OUTLINE_NODES], parts[2], n = 0, terms = facts->reduce.nest.axis_count;
  tn__outline_compute_at(o, block, loop);
  if (o->full) return;
  int count = tn__outline_path(o, block, path), from = count - terms;
  int lane = loop_along(o, stage, path, count, from, f->axis), lanes[3] = {lane, lane, lane}, in_lane = 2;
  if (f->vectors > 1) {
    tn__outline_split(o, lane, (int64_t[]){f->vectors, f->lanes}, 2, parts);
    lanes[1] = parts[0];
    lanes[2] = parts[1];
    in_lane = 3;
  }
  for (int l = from; l < from + facts->spatial; l++)
    if (path[l] != lane) order[n++] = path[l];
  int first = n;
  for (int l = from + facts->spatial; l < count; l++) order[n++] = path[l];
  int last = n;
  for (int i = 1; i < in_lane; i++) order[n++] = lanes[i];
  tn__outline_reorder(o, order, n);
  int64_t copies = f->vectors;
  for (int i = last - 1; i >= first && f->written; i--) {
    copies *= o->node[order[i]].extent;
    if (copies > TN__RULE_WINDOW_TERMS) break;
    tn__outline_kind(o, order[i], TN__LOOP_UNROLLED);
  }
  set_lane_kinds(o, lanes, in_lane);
  tn__outline_decompose(o, block, order[first]);
}

/* A reduction in vectors of partial results. */
static void reduce_along(const point *p, int stage, int block, const form *f) {
  tn__outline *o = p->o;
  int path[TN__OUTLINE_NODES], order[TN__OUTLINE_NODES], n = 0, depth = p->depth[stage];
  int count = tn__outline_path(o, block, path), lane = loop_along(o, stage, path, count, depth, f->axis);
  for (int l = depth; l < count; l++)
    if (path[l] != lane) order[n++] = path[l];
  order[n++] = lane;
  tn__outline_reorder(o, order, n);
  tn__rule_outline_halves(o, block, f->vectors, f->lanes);
}

/* How large tiles are, and which stages are computed inside of them. False when the decisions don't go together. */
static bool find_places(const tn__sketch *k, const int64_t *values, point *p) {
  const chain *d = p->d;
  const variant *v = p->v;
  const tn__outline_facts *last = v->facts[v->count - 1];
  bool decided[MOST_STAGES] = {false};
  for (int i = 0; i < d->tiled_count; i++) {
    int64_t size = values[d->tile + i];
    if (size == 0 || size >= last->reduce.nest.extent[d->tiled[i]]) continue;
    p->axis[p->outer_count] = last->axis[d->tiled[i]];
    p->tile[p->outer_count++] = size;
  }
  p->depth[v->count - 1] = p->outer_count;
  for (int i = v->count - 1; i >= 0; i--) {
    decided[v->number[i]] = true;
    if (i == v->count - 1) continue;
    while (p->depth[i] < p->outer_count && own_axis(v->facts[i], p->axis[p->depth[i]]) >= 0) p->depth[i]++;
    for (int r = i + 1; r < v->count; r++)
      if (tn__outline_reads(v->facts[r], v->facts[i]->tensor) && p->depth[r] < p->depth[i]) p->depth[i] = p->depth[r];
    if (v->output[i]) p->depth[i] = 0;
    if (values[d->place + v->number[i]] == 0) continue;
    if (p->depth[i] == 0) return false; /* it is apart anyway */
    p->depth[i] = 0;
  }
  for (int i = 0; i < d->count; i++) { /* what is inlined has no decisions */
    if (decided[i]) continue;
    if (values[d->form + i] != k->decisions[d->form + i].choices[0]) return false;
    if (i < d->count - 1 && values[d->place + i] != 0) return false;
  }
  return true;
}

/* The last stage's loops over tiles, around all others. */
static void tile_last(point *p, int block) {
  tn__outline *o = p->o;
  int path[TN__OUTLINE_NODES], order[TN__OUTLINE_NODES], parts[2], n = 0, stage = o->node[block].stage;
  int count = tn__outline_path(o, block, path);
  for (int i = 0; i < p->outer_count; i++) {
    int at = 0;
    while (o->node[path[at]].axis != p->axis[i]) at++;
    order[n++] = p->outer[i] = path[at];
    if (p->tile[i] == 1) {
      memmove(&path[at], &path[at + 1], (size_t)(--count - at) * sizeof path[0]);
      continue;
    }
    tn__outline_split(o, path[at], (int64_t[]){0, p->tile[i]}, 2, parts);
    path[at] = parts[1];
  }
  for (int l = 0; l < count; l++) order[n++] = path[l];
  if (n > 1 && p->outer_count > 0 && stage >= 0) tn__outline_reorder(o, order, n);
}

/* Moves what writes the stage's tensor into the loop over tiles. */
static void move_inside(point *p, int stage, int writer) {
  const tn__outline_facts *f = p->v->facts[stage];
  int64_t bytes = f->bytes[0];
  for (int x = 0; x < f->spatial; x++) bytes = tn__ir_bound_mul(bytes, extent_of(p, stage, x));
  bool stack = p->kept + bytes <= TN__RULE_PRIVATE_BYTES;
  if (stack) p->kept += bytes;
  tn__outline_compute_at(p->o, writer, p->outer[p->depth[stage] - 1]);
  tn__outline_keep(p->o, stage, stack);
}

static void share_nest(const point *p, int block) {
  int path[TN__OUTLINE_NODES];
  if (!p->parallel || tn__outline_path(p->o, block, path) == 0) return;
  const tn__outline_node *loop = &p->o->node[path[0]];
  if (loop->kind != TN__LOOP_SERIAL || loop->extent == 1) return;
  if (!tn__outline_reduces(p->o->facts[p->o->node[block].stage], loop))
    tn__outline_kind(p->o, path[0], TN__LOOP_PARALLEL);
}

/* The outline of a point, with its steps on the schedule unless that is NULL; false: its decisions don't agree. */
static bool build(const tn__sketch *k, const int64_t *values, tn__outline *o, tn__schedule *s) {
  const chain *d = k->data;
  const variant *v = &d->variants[values[INLINED]];
  point p = {.d = d, .v = v, .options = &k->options, .o = o, .parallel = d->large && k->options.threads > 1};
  form forms[MOST_STAGES];
  if (!find_places(k, values, &p)) return false;
  for (int i = 0; i < v->count; i++)
    if (!form_of(&p, i, values[d->form + v->number[i]], &forms[i])) return false;
  tn__outline_start_stages(o, (const tn__outline_facts *const *)v->facts, v->count, s);
  for (int i = v->count - 1; i >= 0 && !o->full; i--) {
    int block = tn__outline_stage_block(o, i), writer = block;
    bool across = !v->facts[i]->map && !forms[i].along;
    if (across) writer = tn__outline_cache_write(o, block, 0);
    if (o->full) break;
    if (i == v->count - 1) tile_last(&p, writer);
    if (i < v->count - 1 && p.depth[i] > 0) move_inside(&p, i, writer);
    if (o->full) break;
    if (forms[i].along) {
      reduce_along(&p, i, block, &forms[i]);
    } else {
      int loop = vectorize_writer(&p, i, writer, &forms[i]);
      if (across) reduce_across(&p, i, block, loop, &forms[i]);
    }
    if (!o->full && (p.depth[i] == 0 || i == v->count - 1)) share_nest(&p, writer);
  }
  return !o->full;
}

bool tn__rule_chain_outline_of(const tn__sketch *k, const int64_t *values, tn__outline *out) {
  return build(k, values, out, NULL);
}

static const tn__nest *chain_features(const tn__sketch *k, const int64_t *values, tn__sketch_features *f) {
  static const tn__nest nothing = {.axis_count = 0};
  const chain *d = k->data;
  if (!build(k, values, d->outline, NULL) || !tn__outline_views_of(d->outline, &d->room->views)) return NULL;
  f->work_cycles = tn__outline_weigh(d->room, k->target, &k->options, NULL);
  return isfinite(f->work_cycles) ? &nothing : NULL;
}

static void apply_chain(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  const chain *d = k->data;
  const variant *v = &d->variants[values[INLINED]];
  tn__reduce_dissolve_maps(s);
  for (int i = 0; i < v->inlined_count; i++) tn__sched_inline(s, v->inlined[i]);
  bool built = build(k, values, d->outline, s);
  if (!built) tn__sched_refuse(s, "chain: these decisions don't go together");
}

/* The same function on what another rule does. */
static double weigh_chain(const tn__sketch *k, tn__schedule *other, tn__cost *out) {
  const chain *d = k->data;
  if (!tn__outline_read(other, tn__rule_cost_of_node, &d->room->views)) return NAN;
  return tn__outline_weigh(d->room, k->target, &k->options, out);
}

const tn__rule tn__rule_chain = {.name = "chain",
                                 .matches = matches,
                                 .open = open_chain,
                                 .features = chain_features,
                                 .apply = apply_chain,
                                 .beam = true,
                                 .weigh = weigh_chain};
