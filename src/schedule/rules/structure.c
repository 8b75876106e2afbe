/* The rule "structure": one reduction, with the maps around it, whose loops follow from what it reads. No class of
 * computations: along which axis vectors run, which results are kept beside each other, in which order loops stand and
 * what is written out are decisions, weighed on an outline (outline/outline.h). It competes with rules that take any
 * declaration: where one function says that theirs is slower, its schedule is taken. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/invariant.h"
#include "schedule/outline/outline.h"
#include "schedule/rules/reduce.h"
#include "schedule/rules/structure.h"

/* Places in a sketch's values, in the order in which the beam decides: the axis that vectors run along (from 1 on), the
 * axis of which so many results are computed beside each other (0: none), how many vectors are at hand, the orders
 * of loops by their places in the tables, how much of the innermost loop of the reduction is written out (1: all of
 * the loops that are short), how many of its steps are added to sums in memory at a time (0: sums stay in registers
 * until they are complete), and the axis of results that is gone through in strips of so many of its tiles. */
enum { LANES, ROWS, HEIGHT, VECTORS, ORDER, TERMS, WRITTEN, DEEP, STRIPS, STRIP };

enum {
  MOST_ORDERED = 4,
  MOST_ORDERS = 24,
  FEWEST_RESULTS = 16,
  SHORT_LOOPS = 1,
  MOST_DEEP = 24,
  PIECES = 4,
  SHARED_STRIP = 4
};

typedef struct scratch {
  tn__outline outline;
  tn__outline_views views;
  tn__nest nest;
} scratch;

typedef struct structure {
  const tn__outline_facts *facts;
  int orders, terms; /* how many there are */
  int8_t order[MOST_ORDERS][TN__NEST_AXES], term[MOST_ORDERS][TN__NEST_AXES];
  bool large;
  scratch *scratch; /* of one candidate */
} structure;

/* ---- which declarations ------------------------------------------------------------------------------------------ */

static bool matches(const tn__te *te) {
  int reductions = 0;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_COMPUTE && stage->kind != TN__TE_REDUCE) return false;
    if (stage->kind != TN__TE_REDUCE) continue;
    reductions++;
    if (tn__reduce_volume(&stage->axes, NULL) < FEWEST_RESULTS || stage->reduce_axes.count == 0) return false;
  }
  return reductions == 1;
}

/* A map behind the reduction that is no epilogue, as one that weaves the parts of complex sums, and little beside it.
 */
static const char *map_behind(tn__schedule *s) {
  enum { LITTLE = 32 };
  tn__snodes blocks = {0};
  tn__sched_blocks(s, s->root, &blocks);
  if (blocks.count != 2 || blocks.data[0]->combiner == NULL || blocks.data[1]->combiner != NULL) return NULL;
  if (tn__reduce_epilogue_of(s, blocks.data[0]) != NULL) return NULL;
  const tn__te_stage *reduce = NULL, *map = NULL;
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    if (strcmp(stage->name, blocks.data[0]->name) == 0) reduce = stage;
    if (strcmp(stage->name, blocks.data[1]->name) == 0) map = stage;
  }
  if (reduce == NULL || map == NULL) return NULL;
  const double terms = tn__reduce_volume(&reduce->axes, &reduce->reduce_axes);
  return tn__reduce_volume(&map->axes, NULL) * LITTLE <= terms ? map->name : NULL;
}

const tn__outline_facts *tn__rule_outline_facts(tn__schedule *s) {
  tn__snodes blocks = {0};
  const tn__snode *reduce = NULL;
  tn__reduce_dissolve_maps(s);
  tn__sched_blocks(s, s->root, &blocks);
  for (int i = 0; i < blocks.count; i++)
    if (blocks.data[i]->combiner != NULL) reduce = blocks.data[i];
  if (reduce == NULL) return NULL;
  const char *epilogue = tn__reduce_epilogue_of(s, reduce);
  if (blocks.count != (epilogue != NULL || map_behind(s) != NULL ? 2 : 1)) return NULL;
  return tn__outline_facts_of(s, reduce->name, epilogue, tn__rule_cost_of_node);
}

/* ---- the space --------------------------------------------------------------------------------------------------- */

/* Orders of axes from..from+count-1: all of a few; of more the declared one, and each of them as the last. Axes of one
 * step stay in front. Returns how many. */
TN_MUST_USE static int all_orders(const tn__nest *nest, int from, int count, bool free,
                                  int8_t orders[][TN__NEST_AXES]) {
  int long_axes[TN__NEST_AXES] = {0}, n = 0, at = 0, found = 0;
  int8_t first[TN__NEST_AXES] = {0};
  for (int x = from; x < from + count; x++) {
    if (nest->extent[x] == 1) first[at++] = (int8_t)x;
    if (nest->extent[x] > 1) long_axes[n++] = x;
  }
  int places = 1;
  for (int i = 2; i <= n && n <= MOST_ORDERED; i++) places *= i;
  if (n > MOST_ORDERED) places = n;
  if (!free) places = 1;
  for (int p = 0; p < places; p++, found++) {
    int left[TN__NEST_AXES], rest = n, number = p;
    memcpy(orders[found], first, sizeof first);
    for (int i = 0; i < n; i++) left[i] = long_axes[i];
    for (int i = 0; i < n; i++) {
      int pick = 0;
      if (n <= MOST_ORDERED) {
        int below = 1;
        for (int k = 2; k < rest; k++) below *= k;
        pick = number / below;
        number %= below;
      } else if (p > 0 && i < n - 1 && left[0] == long_axes[p - 1]) {
        pick = 1; /* it comes last */
      }
      orders[found][at + i] = (int8_t)left[pick];
      memmove(&left[pick], &left[pick + 1], (size_t)(--rest - pick) * sizeof left[0]);
    }
  }
  return found;
}

/* Axes along which some tensor is contiguous, and which are long enough for a vector. */
TN_MUST_USE static int axes_for_lanes(const tn__outline_facts *f, int64_t *out) {
  const tn__nest *nest = &f->reduce.nest;
  int count = 0;
  for (int x = 0; x < nest->axis_count && count < TN__MAX_CHOICES; x++) {
    bool contiguous = false;
    if (nest->extent[x] < 4 || (x >= f->spatial && !f->reorderable)) continue;
    for (int a = 0; a < nest->access_count; a++)
      contiguous |= nest->access[a].along[x].stride == nest->access[a].element && !nest->access[a].scattered;
    for (int a = 0; a < f->copy[0].nest.access_count && x < f->spatial; a++)
      contiguous |= f->copy[0].nest.access[a].along[x].stride == f->copy[0].nest.access[a].element;
    if (contiguous) out[count++] = x + 1;
  }
  return count;
}

static void open_structure(tn__sketch *k, tn__schedule *s) {
  static const int64_t vectors[] = {1, 2, 4, 8}, heights[] = {1, 2, 3, 4, 6, 8, 12, 16}, written[] = {0, 1, 2, 4, 8},
                       deep[] = {0, 4, 8, 16}, strip[] = {0, 1, 4, 16, 64};
  int64_t axes[TN__MAX_CHOICES] = {0}, numbers[MOST_ORDERS];
  for (int i = 0; i < tn__te_stage_count(k->te); i++)
    if (tn__reduce_has_few_results(tn__te_ir(k->te), tn__te_stage_at(k->te, i), &k->options))
      tn__sched_refuse(s, "structure: all of a few results are reduced at once");
  structure *d = TN__NEW(s->arena, structure);
  *d = (structure){
      .facts = tn__rule_outline_facts(s), .large = tn__rule_is_large(k->te), .scratch = TN__NEW(s->arena, scratch)};
  const tn__outline_facts *f = d->facts;
  if (f == NULL) tn__sched_refuse(s, "structure: the declaration is more than one reduction");
  if (tn__reduce_chooses_few(s, tn__sched_find(s, f->block, true)))
    tn__sched_refuse(s, "structure: data choose the few terms of \"%s\"", f->block);
  const tn__nest *nest = &f->reduce.nest;
  k->data = d;
  d->orders = all_orders(nest, 0, f->spatial, true, d->order);
  d->terms = all_orders(nest, f->spatial, nest->axis_count - f->spatial, f->reorderable, d->term);
  for (int i = 0; i < MOST_ORDERS; i++) numbers[i] = i;
  int count = axes_for_lanes(f, axes);
  if (count == 0) tn__sched_refuse(s, "structure: nothing is contiguous in what \"%s\" reads", f->block);
  k->decisions[tn__sketch_open(k, "lanes", axes, count)].orders = true;
  int64_t rows[TN__MAX_CHOICES] = {0};
  count = 1;
  for (int x = 0; x < f->spatial && count < TN__MAX_CHOICES; x++)
    if (nest->extent[x] > 1) rows[count++] = x + 1;
  tn__sketch_open(k, "rows", rows, count);
  tn__sketch_open(k, "height", heights, 8);
  k->decisions[tn__sketch_open(k, "vectors", vectors, 4)].orders = true;
  tn__sketch_open(k, "order", numbers, d->orders);
  k->decisions[tn__sketch_open(k, "terms", numbers, d->terms)].orders = true;
  tn__sketch_open(k, "written out", written, 5);
  tn__sketch_open(k, "deep", deep, f->out[0] || f->epilogue != NULL ? 4 : 1);
  tn__sketch_open(k, "strips", rows, count);
  tn__sketch_open(k, "strip", strip, 5);
}

/* ---- one point --------------------------------------------------------------------------------------------------- */

typedef struct point {
  const structure *d;
  const int64_t *v;
  int64_t lanes; /* of a vector */
  bool parallel;
  int64_t pieces; /* that suffice for all threads */
} point;

/* The lanes of vectors along the axis; 0: too few. */
static int64_t lanes_of(const structure *d, const tn__schedule_options *options, int axis) {
  const tn__outline_facts *f = d->facts;
  int64_t widest = f->bytes[0], extent = f->reduce.nest.extent[axis];
  bool along = axis >= f->spatial;
  for (int r = 0; r < f->results && along; r++)
    if (f->bytes[r] > widest) widest = f->bytes[r];
  int64_t lanes = options->vector_bytes / widest;
  while (lanes > 4 && lanes > extent) lanes /= 2;
  return lanes >= (along ? 4 : 2) && lanes <= extent ? lanes : 0;
}

/* Do the decisions go together? What is decided of nothing, as the height of no rows, is as it was. */
static bool is_point(const structure *d, const int64_t *v, int64_t lanes) {
  const tn__outline_facts *f = d->facts;
  const tn__nest *nest = &f->reduce.nest;
  int axis = (int)v[LANES] - 1, rows = (int)v[ROWS] - 1;
  if (lanes == 0 || (v[VECTORS] > 1 && v[VECTORS] * lanes > nest->extent[axis])) return false;
  if (rows == axis || (rows < 0 && v[HEIGHT] > 1) || (rows >= 0 && v[HEIGHT] > nest->extent[rows])) return false;
  if (v[STRIPS] == 0 && v[STRIP] > 0) return false;
  if (axis >= f->spatial) return v[HEIGHT] == 1 && v[WRITTEN] == 0 && v[DEEP] == 0;
  if (v[DEEP] > 0 && (v[WRITTEN] > 0 || v[DEEP] * v[VECTORS] * v[HEIGHT] > MOST_DEEP)) return false;
  return v[VECTORS] == 1 || nest->open[axis] || tn__rule_fills(nest->extent[axis], v[VECTORS] * lanes);
}

/* Writes short loops of the reduction out, from the innermost on; false when there is none. */
static bool write_out(tn__outline *o, const int *loops, int count, int64_t copies) {
  bool any = false;
  for (int i = count - 1; i >= 0; i--) {
    copies *= o->node[loops[i]].extent;
    if (copies > TN__RULE_WINDOW_TERMS) break;
    tn__outline_kind(o, loops[i], TN__LOOP_UNROLLED);
    any = true;
  }
  return any;
}

/* Threads share the outermost loop over results, and the next one where it is too short for all of them. */
static void share_outermost(const point *p, tn__outline *o, const int *loops, int count) {
  const tn__outline_facts *f = p->d->facts;
  if (!p->parallel || count == 0 || o->full) return;
  const tn__outline_node *outer = &o->node[loops[0]];
  if (tn__outline_reduces(f, outer)) return;
  bool fuses = count > 1 && outer->extent > 1 && outer->extent < p->pieces &&
               !tn__outline_reduces(f, &o->node[loops[1]]) && !f->reduce.nest.open[o->node[loops[1]].axis] &&
               outer->first == loops[1] && o->node[loops[1]].next < 0 && o->node[loops[1]].extent > 1;
  if (fuses) tn__outline_fuse(o, loops[0], loops[1]);
  if (outer->extent > 1) tn__outline_kind(o, loops[0], TN__LOOP_PARALLEL);
}

/* The loop over results that is gone through in strips is split: the outer part stands outermost, in `list`. */
TN_MUST_USE static int add_strips(const point *p, tn__outline *o, int *axis, int *list) {
  int along = (int)p->v[STRIPS] - 1, parts[2];
  int64_t strip = p->v[STRIP];
  if (strip == 0 && p->v[DEEP] > 0 && p->d->large) { /* threads share these, as the loops over terms are in them */
    along = (unsigned char)p->d->order[p->v[ORDER]][0];
    strip = SHARED_STRIP;
  }
  if (strip == 0 || o->node[axis[along]].extent <= strip) return 0;
  tn__outline_split(o, axis[along], (int64_t[]){0, strip}, 2, parts);
  list[0] = parts[0];
  axis[along] = parts[1];
  return 1;
}

/* The loops of a tile of results, while it is made. */
typedef struct tile {
  int axis[TN__NEST_AXES]; /* the loop over what is left of each axis */
  int inner[4], inner_count, copies[TN__OUTLINE_RESULTS], copy_count;
} tile;

/* Results go through registers, in vectors of the axis, and several rows of them. */
static void make_tile(const point *p, tn__outline *o, int block, tile *t) {
  const tn__outline_facts *f = p->d->facts;
  int parts[3], path[TN__OUTLINE_NODES], lane_axis = (int)p->v[LANES] - 1;
  int count = tn__outline_path(o, block, path);
  for (int i = 0; i < count && i < TN__NEST_AXES; i++) t->axis[i] = path[i];
  if (f->epilogue != NULL && p->v[DEEP] == 0) {
    t->copies[t->copy_count++] = tn__outline_block(o, TN__OUTLINE_COPY);
    tn__outline_set_scope(o, block, TN__SCOPE_REGISTER);
  }
  for (int r = 0; r < f->results && f->epilogue == NULL && p->v[DEEP] == 0; r++) {
    int copy = tn__outline_cache_write(o, block, r);
    if (copy >= 0) t->copies[t->copy_count++] = copy;
  }
  if (p->v[DEEP] == 0) tn__outline_turn(o, block, lane_axis);
  if (p->v[HEIGHT] > 1) {
    tn__outline_split(o, t->axis[p->v[ROWS] - 1], (int64_t[]){0, p->v[HEIGHT]}, 2, parts);
    t->inner[t->inner_count++] = parts[1];
  }
  int in_lane = p->v[VECTORS] > 1 ? 3 : 2;
  tn__outline_split(o, t->axis[lane_axis],
                    in_lane == 3 ? (int64_t[]){0, p->v[VECTORS], p->lanes} : (int64_t[]){0, p->lanes, 0}, in_lane,
                    parts);
  for (int i = 1; i < in_lane; i++) t->inner[t->inner_count++] = parts[i];
}

/* The innermost loop of the reduction goes so many steps at a time. */
static int split_terms(tn__outline *o, int loop, int64_t steps) {
  int parts[2];
  if (o->node[loop].extent <= steps) return -1;
  tn__outline_split(o, loop, (int64_t[]){0, steps}, 2, parts);
  return parts[1];
}

/* Some steps of the reduction for all results, which are in memory, before the next steps. */
static bool add_in_memory(const point *p, tn__outline *o, int block, tile *t) {
  const structure *d = p->d;
  const tn__outline_facts *f = d->facts;
  const int8_t *order = d->order[p->v[ORDER]], *term = d->term[p->v[TERMS]];
  int list[TN__OUTLINE_NODES] = {0}, n = 0, last = f->reduce.nest.axis_count - f->spatial - 1;
  int steps = split_terms(o, t->axis[term[last]], p->v[DEEP]);
  if (steps < 0) return false;
  n = add_strips(p, o, t->axis, list);
  if (n == 0 && d->large) return false; /* nothing to share */
  int first = n, results = n + last + 1;
  for (int i = 0; i <= last; i++) list[n++] = t->axis[term[i]];
  for (int i = 0; i < f->spatial; i++) list[n++] = t->axis[order[i]];
  list[n++] = steps;
  for (int i = 0; i < t->inner_count; i++) list[n++] = t->inner[i];
  tn__outline_reorder(o, list, n);
  for (int i = results + f->spatial; i < n; i++)
    tn__outline_kind(o, list[i], i == n - 1 ? TN__LOOP_VECTORIZED : TN__LOOP_UNROLLED);
  tn__outline_decompose(o, block, list[first]);
  if (first > 0) share_outermost(p, o, list, 1);
  return true;
}

/* Vectors of the map behind a reduction that stands in a nest of its own. */
static void vectorize_epilogue(const point *p, tn__outline *o) {
  int path[TN__OUTLINE_NODES], parts[2];
  if (p->d->facts->epilogue == NULL || o->full) return;
  int copy = tn__outline_block(o, TN__OUTLINE_COPY), count = tn__outline_path(o, copy, path);
  if (o->node[path[count - 1]].extent < p->lanes) return;
  tn__outline_split(o, path[count - 1], (int64_t[]){0, p->lanes}, 2, parts);
  tn__outline_kind(o, parts[1], TN__LOOP_VECTORIZED);
}

/* Vectors across results: a tile of them stays in registers while the reduction runs. */
static bool build_across(const point *p, tn__outline *o) {
  const structure *d = p->d;
  const tn__outline_facts *f = d->facts;
  const int8_t *order = d->order[p->v[ORDER]], *term = d->term[p->v[TERMS]];
  int list[TN__OUTLINE_NODES] = {0}, n = 0, steps = -1, terms = f->reduce.nest.axis_count - f->spatial;
  int block = tn__outline_block(o, TN__OUTLINE_REDUCE);
  tile t = {.copy_count = 0};
  make_tile(p, o, block, &t);
  if (p->v[DEEP] > 0) {
    if (!add_in_memory(p, o, block, &t)) return false;
    vectorize_epilogue(p, o);
    return true;
  }
  if (p->v[WRITTEN] > SHORT_LOOPS) {
    steps = split_terms(o, t.axis[term[terms - 1]], p->v[WRITTEN]);
    if (steps < 0) return false;
  }
  n = add_strips(p, o, t.axis, list);
  for (int i = 0; i < f->spatial; i++) list[n++] = t.axis[order[i]];
  int around = list[n - 1], reduce = n;
  for (int i = 0; i < terms; i++) list[n++] = t.axis[term[i]];
  if (steps >= 0) list[n++] = steps;
  int first = list[reduce], reduce_count = n - reduce;
  for (int i = 0; i < t.inner_count; i++) list[n++] = t.inner[i];
  tn__outline_reorder(o, list, n);
  int64_t at_hand = p->v[VECTORS] * p->v[HEIGHT];
  if (p->v[WRITTEN] == SHORT_LOOPS && !write_out(o, list + reduce, reduce_count, at_hand)) return false;
  if (steps >= 0) tn__outline_kind(o, steps, TN__LOOP_UNROLLED);
  for (int i = 0; i < t.inner_count; i++)
    tn__outline_kind(o, t.inner[i], i == t.inner_count - 1 ? TN__LOOP_VECTORIZED : TN__LOOP_UNROLLED);
  for (int i = 0; i < t.copy_count; i++) tn__outline_reverse_compute_at(o, t.copies[i], around);
  tn__outline_decompose(o, block, first);
  share_outermost(p, o, list, reduce);
  return true;
}

static void vectorize_last(tn__outline *o, int block, int64_t vectors, int64_t lanes) {
  int path[TN__OUTLINE_NODES], parts[2], count = tn__outline_path(o, block, path), loop = path[count - 1];
  if (vectors > 1) {
    tn__outline_split(o, loop, (int64_t[]){vectors, lanes}, 2, parts);
    tn__outline_kind(o, parts[0], TN__LOOP_UNROLLED);
    loop = parts[1];
  }
  tn__outline_kind(o, loop, TN__LOOP_VECTORIZED);
}

/* Turns lanes of the block's last loop into vectors of partial results, a factor at a time. Returns the block that
 * combines them; *around is the loop around a factor. */
TN_MUST_USE static int factor(tn__outline *o, int block, int64_t vectors, int64_t lanes, int *around) {
  int path[TN__OUTLINE_NODES], parts[2], count = tn__outline_path(o, block, path);
  tn__outline_split(o, path[count - 1], (int64_t[]){0, vectors * lanes}, 2, parts);
  int combine = tn__outline_rfactor(o, block, parts[1]), init = o->count - 1;
  *around = parts[0];
  if (o->full) return combine;
  while (!o->node[init].is_block || o->node[init].role != TN__OUTLINE_INIT) init--; /* the newest */
  vectorize_last(o, block, vectors, lanes);
  vectorize_last(o, init, vectors, lanes);
  return combine;
}

int tn__rule_outline_halves(tn__outline *o, int block, int64_t vectors, int64_t lanes) {
  int path[TN__OUTLINE_NODES], around;
  int combine = factor(o, block, vectors, lanes, &around);
  for (int64_t half = vectors > 1 ? lanes : lanes / 2; half > 1 && !o->full; half /= 2) {
    combine = factor(o, combine, 1, half, &around);
    tn__outline_kind(o, around, TN__LOOP_UNROLLED);
  }
  if (o->full) return combine;
  int count = tn__outline_path(o, combine, path);
  tn__outline_kind(o, path[count - 1], TN__LOOP_UNROLLED);
  return combine;
}

/* Vectors along the reduction: partial results of one element, which are added up by halves behind. */
static void build_along(const point *p, tn__outline *o) {
  const structure *d = p->d;
  const tn__outline_facts *f = d->facts;
  const int8_t *order = d->order[p->v[ORDER]], *term = d->term[p->v[TERMS]];
  int axis[TN__OUTLINE_NODES] = {0}, list[TN__OUTLINE_NODES] = {0}, along = (int)p->v[LANES] - 1;
  int block = tn__outline_block(o, TN__OUTLINE_REDUCE);
  int loops = tn__outline_path(o, block, axis);
  TN__INVARIANT(loops >= f->reduce.nest.axis_count);
  int n = add_strips(p, o, axis, list);
  for (int i = 0; i < f->spatial; i++) list[n++] = axis[order[i]];
  int results = n;
  for (int i = 0; i < f->reduce.nest.axis_count - f->spatial; i++)
    if (term[i] != along) list[n++] = axis[term[i]];
  list[n++] = axis[along];
  tn__outline_reorder(o, list, n);
  tn__rule_outline_halves(o, block, p->v[VECTORS], p->lanes);
  share_outermost(p, o, list, results);
  vectorize_epilogue(p, o);
}

/* The outline of a point, with its steps on the schedule unless that is NULL; false: its decisions don't agree. */
static bool build(const tn__sketch *k, const int64_t *v, tn__outline *o, tn__schedule *s) {
  const structure *d = k->data;
  const tn__outline_facts *f = d->facts;
  point p = {.d = d, .v = v, .parallel = d->large && k->options.threads > 1};
  p.pieces = PIECES * (int64_t)k->options.threads;
  p.lanes = lanes_of(d, &k->options, (int)v[LANES] - 1);
  if (!is_point(d, v, p.lanes)) return false;
  tn__outline_start(o, f, s);
  if (v[LANES] - 1 < f->spatial) return build_across(&p, o) && !o->full;
  build_along(&p, o);
  return !o->full;
}

bool tn__rule_outline_of(const tn__sketch *k, const int64_t *values, tn__outline *out) {
  return build(k, values, out, NULL);
}

static const tn__nest *structure_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  const structure *d = k->data;
  scratch *own = d->scratch;
  if (!build(k, v, &own->outline, NULL) || !tn__outline_views_of(&own->outline, &own->views)) return NULL;
  tn__outline_features(&own->views, k->target, &k->options, &own->nest, f);
  return &own->nest;
}

static void apply_structure(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  const structure *d = k->data;
  tn__reduce_dissolve_maps(s);
  const char *behind = map_behind(s);
  bool built = build(k, v, &d->scratch->outline, s);
  if (!built) tn__sched_refuse(s, "structure: these decisions don't go together");
  if (behind != NULL) tn__rule_nest(s, behind, &k->options);
}

/* The same function on what another rule does. */
static double weigh_structure(const tn__sketch *k, tn__schedule *other, tn__cost *out) {
  const structure *d = k->data;
  scratch *own = d->scratch;
  tn__sketch_features f = {0};
  if (!tn__outline_read(other, d->facts->price, &own->views)) return NAN;
  tn__outline_features(&own->views, k->target, &k->options, &own->nest, &f);
  return tn__cost_of(k->target, &k->options, &own->nest, &f, out);
}

const tn__rule tn__rule_structure = {"structure",     matches,      open_structure,          structure_features,
                                     apply_structure, .beam = true, .weigh = weigh_structure};
