/* What the blocks of views do, as the features of the cost function. */
#include "schedule/outline/outline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Positions of unrolled loops whose addresses are compared; beyond them each counts as another one. */
enum { MOST_COMPARED = 64 };

/* Tensors of a declaration that are told apart. */
enum { MOST_TENSORS = 32 };

/* Bytes of the narrowest vectors, and what a register takes that starts from an identity. */
enum { NARROWEST = 16 };
#define INITIALISED 0.25

/* Values that registers hold along a loop, beside results and addresses. */
enum { MOST_HELD = 12 };

/* Bytes of vectors that TN__RULE_BUSY_CYCLES is for. */
#define BUSY_BYTES 32.0

/* Bytes of the narrowest elements that there are instructions to gather. */
enum { NARROWEST_GATHERED = 4 };

/* Cycles until what was stored can be read again. */
enum { STORED_AND_READ = 5 };

static double greater(double a, double b) { return a > b ? a : b; }

/* Loops of a block by what the code generator makes of them: `serial` ones are gone through, those that are unrolled
 * below the last of these stand in its body, and the vector is one of them. */
typedef struct shape {
  const tn__outline_view *v;
  int innermost; /* the last loop that is gone through; -1: none */
  int vector;    /* -1: none */
  double lanes, executions, copies;
} shape;

static shape shape_of(const tn__outline_view *v) {
  shape s = {.v = v, .innermost = -1, .vector = -1, .lanes = 1, .executions = 1, .copies = 1};
  for (int l = 0; l < v->loop_count; l++) {
    if (v->loops[l].kind == TN__LOOP_VECTORIZED)
      s.vector = l;
    else if (v->loops[l].kind != TN__LOOP_UNROLLED && v->loops[l].extent > 1)
      s.innermost = l;
  }
  for (int l = 0; l < v->loop_count; l++) {
    if (l == s.vector)
      s.lanes = (double)v->loops[l].extent;
    else if (l <= s.innermost)
      s.executions *= v->loops[l].trips;
    else
      s.copies *= (double)v->loops[l].extent;
  }
  return s;
}

/* In how many of the executions something is done that stands still along the innermost loops: the compiler does it in
 * front of these, but where sums that are in memory are added to in between, for which registers are too few. */
static double share_moving(const shape *s, uint32_t along) {
  double share = 1;
  if (s->v->role == TN__OUTLINE_REDUCE && !s->v->near) return 1;
  for (int l = s->innermost; l >= 0 && !(along >> l & 1); l--)
    if (s->v->loops[l].kind != TN__LOOP_UNROLLED) share /= (double)s->v->loops[l].extent;
  return share;
}

static uint32_t moves_along(const tn__outline_view *v, const tn__outline_view_access *a) {
  uint32_t along = 0;
  for (int l = 0; l < v->loop_count; l++)
    if (a->stride[l] != 0 || a->far[l] != 0 || a->scattered) along |= 1u << l;
  return along;
}

/* Where iteration i of a loop lies from its first. */
static int64_t moved(const tn__outline_view_access *a, int l, int64_t i) {
  if (a->panel[l] == 0) return i * a->stride[l];
  return i / a->panel[l] * a->far[l] + i % a->panel[l] * a->stride[l];
}

/* Different addresses of an access over the loops that are unrolled. */
static double addresses(const shape *s, const tn__outline_view_access *a) {
  int64_t seen[MOST_COMPARED];
  int count = 1;
  double all = 1;
  seen[0] = 0;
  for (int l = s->innermost + 1; l < s->v->loop_count; l++) {
    if (l == s->vector || (a->stride[l] == 0 && a->far[l] == 0)) continue;
    int64_t extent = s->v->loops[l].extent;
    all *= (double)extent;
    if (all > MOST_COMPARED || a->scattered) return all;
    int before = count;
    for (int64_t i = 1; i < extent; i++)
      for (int k = 0; k < before; k++) {
        int64_t address = seen[k] + moved(a, l, i);
        int at = 0;
        while (at < count && seen[at] != address) at++;
        if (at == count) seen[count++] = address;
      }
  }
  return count;
}

/* The part of vectors that lie across two cache lines: rows that are no multiple of a line make all vectors of most
 * rows do so. */
static double crossing(const tn__target *target, const shape *s, const tn__outline_view_access *a, double bytes) {
  int line = target->cpu.machine.costs.line_bytes;
  bool aligned = true;
  for (int l = 0; l < s->v->loop_count; l++)
    aligned &= l == s->vector || s->v->loops[l].extent == 1 ||
               (a->stride[l] % (int64_t)bytes == 0 && a->far[l] % (int64_t)bytes == 0);
  return aligned ? 0 : bytes / line > 1 ? 1 : bytes / line;
}

/* What no instruction gathers is loaded and put into its lane one by one. */
static void add_gather(const tn__outline_view_access *a, double elements, tn__operations *ops) {
  ops->gathers += elements;
  if (a->element >= NARROWEST_GATHERED) return;
  ops->shuffles += elements;
  ops->other += elements;
}

/* Elements of a vector that are loaded by themselves: where nothing moves within panels that divide it, as at
 * `x / 8 * 8`, one for each of these, which goes into all lanes of its panel. */
static double apart_in_vector(double lanes, int64_t stride, int64_t panel) {
  bool divided = panel > 1 && stride == 0 && fmod(lanes, (double)panel) == 0;
  return divided ? lanes / (double)panel : lanes;
}

/* Adds what an access takes in one execution to `ops`. */
static void add_access(const tn__target *target, const shape *s, const tn__outline_view_access *a, int width,
                       tn__operations *ops) {
  double times = addresses(s, a);
  if (times <= MOST_HELD) times *= share_moving(s, moves_along(s->v, a)); /* more are loaded again in each turn */
  int64_t stride = s->vector >= 0 ? a->stride[s->vector] : 0, panel = s->vector >= 0 ? a->panel[s->vector] : 0;
  double bytes = s->lanes * (double)a->element, pieces = ceil(bytes / width);
  double each = pieces * (1 + crossing(target, s, a, bytes < width ? bytes : width));
  bool repeats = panel > 0 && stride == 0 && a->far[s->vector] == a->element; /* x / 2: each lane several times */
  if (s->vector < 0 || (stride == 0 && panel == 0 && !a->scattered)) {
    *(a->store ? &ops->stores : &ops->loads) += times;
  } else if (stride == a->element && panel == 0 && !a->scattered) {
    *(a->store ? &ops->stores : &ops->loads) += times * each;
  } else if (a->store) { /* each lane is taken out and stored alone */
    ops->stores += times * s->lanes;
    ops->shuffles += times * s->lanes;
    ops->other += times * s->lanes;
  } else if (repeats) {
    ops->loads += times * each;
    ops->shuffles += times * pieces;
  } else {
    double loads = a->scattered || panel > 0 ? 0 : tn__nest_shuffled(a->element, stride, s->lanes);
    if (loads > 0) {
      ops->loads += times * loads * each;
      ops->shuffles += times * (loads - 1) * pieces;
    } else {
      add_gather(a, times * apart_in_vector(s->lanes, stride, panel), ops);
    }
  }
}

static void count_works(const shape *s, double pieces, tn__operations *ops) {
  for (int w = 0; w < s->v->work_count; w++) {
    const tn__outline_work *work = &s->v->works[w];
    double times = share_moving(s, work->along);
    for (int l = s->innermost + 1; l < s->v->loop_count; l++)
      if (l != s->vector && work->along >> l & 1) times *= (double)s->v->loops[l].extent;
    if (s->vector >= 0 && work->along >> s->vector & 1) times *= pieces;
    ops->fma += times * work->weight;
    ops->busy += times * work->busy * ops->vector_bytes / BUSY_BYTES;
  }
}

/* Registers of results: those of all copies, along loops that don't reduce. */
static double results_at_hand(const shape *s, int width) {
  double values = 1, registers = 0;
  for (int l = s->innermost + 1; l < s->v->loop_count; l++)
    if (l != s->vector && !s->v->loops[l].reduces) values *= (double)s->v->loops[l].extent;
  for (int r = 0; r < s->v->results; r++) registers += values * ceil(s->lanes * (double)s->v->bytes[r] / width);
  return registers;
}

/* A block and what one execution of its straight piece does. */
typedef struct piece {
  shape s;
  int own; /* the first loop that is not there for others, too */
  tn__operations ops;
  double results; /* registers */
} piece;

static void find_piece(const tn__outline_view *v, const tn__target *target, int width, int first, piece *out) {
  shape s = shape_of(v);
  bool reduces = v->role == TN__OUTLINE_REDUCE || v->role == TN__OUTLINE_COMBINE;
  double widest = 1, turns = 1;
  for (int r = 0; r < v->results; r++) widest = greater(widest, (double)v->bytes[r]);
  if (s.lanes * widest < width) width = s.lanes * widest > NARROWEST ? (int)(s.lanes * widest) : NARROWEST;
  bool own = s.innermost >= first;
  tn__operations ops = {.vector_bytes = width, .other = own ? TN__RULE_TURN : 0};
  double pieces = ceil(s.lanes * widest / width), results = results_at_hand(&s, width);
  for (int l = s.innermost + 1; l < v->loop_count; l++)
    if (v->loops[l].reduces && l != s.vector) turns *= (double)v->loops[l].extent;
  if (v->role == TN__OUTLINE_COMBINE) { /* the first goes in by itself; the others come out of a wider vector */
    double each = (turns - 1) * s.copies / turns * pieces;
    ops.fma = each * v->combining.all;
    ops.shuffles = each * v->results;
  } else {
    count_works(&s, pieces, &ops);
    if (v->role == TN__OUTLINE_INIT) ops.fma += INITIALISED * results;
    if (v->combining.keeps_nan > 0) {
      double each = results / v->results; /* what is in memory has no other register beside it */
      ops.fma += v->combining.keeps_nan * turns * each * tn__cost_keeping_nan(target, v->near ? each : INFINITY, turns);
    }
  }
  for (int a = 0; a < v->access_count; a++) {
    add_access(target, &s, &v->access[a], width, &ops);
    if (v->role == TN__OUTLINE_REDUCE && v->access[a].store) { /* what there is so far is read, too */
      tn__outline_view_access load = v->access[a];
      load.store = false;
      add_access(target, &s, &load, width, &ops);
    }
  }
  if (v->turned) ops.shuffles += TN__RULE_TURN_SHUFFLES * s.copies * pieces;
  bool again = s.innermost >= 0 && v->loops[s.innermost].reduces;
  if (reduces && (again || turns > 1)) ops.chain = turns * v->combining.chain * target->cpu.machine.core.fma_latency;
  if (reduces && again && !v->near) ops.chain += STORED_AND_READ;
  *out = (piece){s, first, ops, results};
}

/* Instructions until the same results are complete, of all blocks: between them a core finds those of the next ones,
 * and what waits in one result does not keep it from these. */
static double instructions_of_results(const piece *pieces, int count) {
  double all = 0, groups = 1;
  for (int b = 0; b < count; b++) {
    const tn__outline_view *v = pieces[b].s.v;
    const tn__operations *o = &pieces[b].ops;
    double own = 1;
    all += pieces[b].s.executions * (o->fma + o->loads + o->stores + o->shuffles + 2 * o->gathers + o->other);
    for (int l = 0; l <= pieces[b].s.innermost && v->role == TN__OUTLINE_REDUCE; l++)
      if (!v->loops[l].reduces) own *= (double)v->loops[l].extent;
    groups = greater(groups, own);
  }
  return all / groups;
}

static void add_loops(const piece *p, const tn__target *target, tn__sketch_features *f) {
  const tn__outline_view *v = p->s.v;
  double entries = 1, hidden = TN__RULE_ENTRY_HIDDEN * target->cpu.machine.costs.loop_entry;
  for (int l = 0; l <= p->s.innermost; l++) {
    double trips = v->loops[l].trips;
    if (l >= p->own && v->loops[l].kind != TN__LOOP_UNROLLED && v->loops[l].extent > 1) {
      tn__cost_loop(f, target, entries, trips);
      f->work_cycles -= entries * hidden;
    }
    entries *= trips;
  }
}

static void add_blocks(const tn__outline_views *views, const tn__target *target, int width, tn__sketch_features *f) {
  piece pieces[TN__OUTLINE_BLOCKS];
  for (int b = 0; b < views->count; b++) {
    const tn__outline_view *v = &views->view[b];
    find_piece(v, target, width, v->role == TN__OUTLINE_REDUCE ? 0 : v->shared, &pieces[b]);
  }
  double beside = greater(1, TN__RULE_LOOK_AHEAD / instructions_of_results(pieces, views->count));
  for (int b = 0; b < views->count; b++) {
    const tn__outline_view *v = &views->view[b];
    pieces[b].ops.chain /= beside;
    tn__cost_phase(f, target, &pieces[b].ops, pieces[b].s.executions);
    add_loops(&pieces[b], target, f);
    int needed = (int)pieces[b].results + 2;
    if (v->role == TN__OUTLINE_REDUCE && needed > f->registers) f->registers = needed;
  }
}

/* ---- what comes from memory -------------------------------------------------------------------------------------- */

static bool append_access(tn__nest *nest, const tn__outline_view_access *from, const tn__outline_view *own,
                          const tn__outline_view *main) {
  if (nest->access_count == TN__NEST_ACCESSES) return false;
  tn__nest_access *to = &nest->access[nest->access_count++];
  *to = (tn__nest_access){.element = from->element,
                          .bytes = from->bytes,
                          .store = from->store,
                          .scattered = from->scattered,
                          .again = from->again};
  to->straddles = true;
  int at = own->shared; /* loops below are copies of those around the reduction that don't reduce, in order */
  for (int l = 0; l < main->loop_count; l++) {
    int loop = l;
    if (own != main && l >= own->shared) {
      if (main->loops[l].reduces) continue;
      while (at < own->loop_count && own->loops[at].reduces) at++;
      if (at == own->loop_count) break;
      loop = at++;
    }
    to->along[l].stride = llabs(from->stride[loop]);
    to->along[l].panel = from->panel[loop];
    to->along[l].far = llabs(from->far[loop]);
    to->spread[l] = from->spread[loop];
    to->along[l].places = from->places[loop];
  }
  return true;
}

/* Do few pieces go on where they ended, as the innermost loop around them says? Then they are long walks. */
static bool goes_on(const tn__nest_access *a, int around, int64_t run, double pieces) {
  while (around >= 0 && a->along[around].stride == 0) around--;
  return around >= 0 && a->along[around].stride <= run && pieces <= TN__RULE_STREAMS;
}

/* What a nest reads and writes comes in pieces: each has so much of what stays in L2. Sets the share that comes in
 * short ones, at a part of the rate of long ones, and what work does not hide: the first lines of a piece come before
 * anything fetches ahead. */
static void find_pieces(const tn__target *target, const tn__schedule_options *options, const tn__nest *nest,
                        tn__sketch_features *f) {
  const tn__costs *costs = &target->cpu.machine.costs;
  double room = costs->fill * (double)options->cache_bytes, all = 0, pieces = 0, late = 0, total;
  int64_t range[TN__NEST_AXES], line = costs->line_bytes;
  int depth = 0; /* loops around what stays in L2 */
  for (int l = 0; l < nest->axis_count; l++) range[l] = nest->extent[l];
  while (true) {
    if (depth > 0) range[depth - 1] = 1;
    total = 0;
    for (int a = 0; a < nest->access_count; a++)
      if (!nest->access[a].again) total += tn__nest_footprint(target, &nest->access[a], range);
    if (total <= room || depth == nest->axis_count) break;
    depth++;
  }
  if (depth == 0) return;
  for (int a = 0; a < nest->access_count; a++) {
    const tn__nest_access *access = &nest->access[a];
    if (access->again) continue;
    double bytes = tn__nest_footprint(target, access, nest->extent);
    int64_t run = tn__nest_piece(target, access, range);
    double lines = ceil((double)run / (double)line);
    all += bytes;
    if (access->scattered || run >= tn__nest_piece(target, access, nest->extent)) continue;
    if (goes_on(access, depth - 1, run, tn__nest_footprint(target, access, range) / (lines * (double)line))) continue;
    if (lines <= TN__RULE_PIECE_LINES) pieces += bytes;
    late += bytes * TN__RULE_PIECE_LINES / (lines + TN__RULE_PIECE_LINES - 1);
  }
  if (all == 0) return;
  f->pieces = pieces / all;
  f->exposed = costs->unhidden + (1 - costs->unhidden) * late / all;
}

static const tn__outline_view *main_of(const tn__outline_views *views) {
  const tn__outline_view *main = &views->view[0];
  double most = -1;
  for (int b = 0; b < views->count; b++) {
    const tn__outline_view *v = &views->view[b];
    double points = 1;
    if (v->role != TN__OUTLINE_REDUCE) continue;
    for (int l = 0; l < v->loop_count; l++) points *= (double)v->loops[l].extent;
    if (points > most) most = points, main = v;
  }
  return main;
}

/* Iterations of the outermost loops that threads share. */
static int64_t chunks_of(const tn__outline_view *v) {
  int64_t chunks = 1;
  for (int l = 0; l < v->loop_count && v->loops[l].kind == TN__LOOP_PARALLEL; l++) chunks *= v->loops[l].extent;
  return chunks;
}

void tn__outline_features(const tn__outline_views *views, const tn__target *target, const tn__schedule_options *options,
                          tn__nest *nest, tn__sketch_features *f) {
  const tn__outline_view *main = main_of(views);
  nest->axis_count = main->loop_count;
  nest->access_count = 0;
  f->loop_count = 0;
  for (int l = 0; l < main->loop_count; l++) {
    nest->extent[l] = main->loops[l].extent;
    nest->open[l] = false;
    f->loops[f->loop_count++] = (tn__nest_loop){l, main->loops[l].extent, 1};
  }
  add_blocks(views, target, options->vector_bytes, f);
  for (int a = 0; a < main->access_count; a++) append_access(nest, &main->access[a], main, main);
  for (int b = 0; b < views->count; b++) {
    const tn__outline_view *v = &views->view[b];
    if (v == main || v->role == TN__OUTLINE_INIT) continue;
    for (int a = 0; a < v->access_count; a++) append_access(nest, &v->access[a], v, main);
  }
  tn__nest_finish(nest);
  find_pieces(target, options, nest, f);
  f->chunks = chunks_of(main);
}

/* ---- several stages ---------------------------------------------------------------------------------------------- */

/* Loops that are around both blocks. */
static int common(const tn__outline_views *views, int a, int b) {
  int least = TN__NEST_AXES;
  for (int i = (a < b ? a : b) + 1; i <= (a < b ? b : a); i++)
    if (views->view[i].with_last < least) least = views->view[i].with_last;
  return least;
}

/* The blocks from `first` on that make the results of one reduction: what starts, adds and combines them, and their
 * copy. Or one map. */
static int end_of_run(const tn__outline_views *views, int first) {
  bool reduces = false;
  for (int b = first; b < views->count; b++) {
    tn__outline_role role = views->view[b].role, next = role;
    for (int n = b; next == TN__OUTLINE_INIT && n < views->count; n++) next = views->view[n].role;
    if (reduces && next == TN__OUTLINE_REDUCE) return b;
    if (role == TN__OUTLINE_COPY && reduces && common(views, b - 1, b) == 0) return b;
    if (role == TN__OUTLINE_COPY) return b + 1;
    reduces |= role == TN__OUTLINE_REDUCE;
  }
  return views->count;
}

static void nest_of(const tn__outline_view *v, tn__nest *nest) {
  nest->axis_count = v->loop_count;
  nest->access_count = 0;
  for (int l = 0; l < v->loop_count; l++) {
    nest->extent[l] = v->loops[l].extent;
    nest->open[l] = false;
  }
  for (int a = 0; a < v->access_count && v->role != TN__OUTLINE_INIT; a++) append_access(nest, &v->access[a], v, v);
  tn__nest_finish(nest);
}

/* Accesses of a block that count: an initialisation leaves its results in registers, or near. */
static int accesses_of(const tn__outline_view *v) { return v->role == TN__OUTLINE_INIT ? 0 : v->access_count; }

/* Bytes of each access inside of the first loops. */
static void measure(const tn__target *target, const tn__nest *nest, tn__outline_touched *out) {
  int64_t range[TN__NEST_AXES];
  for (int d = 0; d < TN__OUTLINE_DEPTHS; d++) {
    for (int l = 0; l < nest->axis_count; l++) range[l] = l < d ? 1 : nest->extent[l];
    for (int a = 0; a < nest->access_count; a++)
      out->bytes[d][a] = nest->access[a].again ? 0 : tn__nest_footprint(target, &nest->access[a], range);
  }
}

/* ---- what is known already --------------------------------------------------------------------------------------- */

static void mix(uint64_t key[2], uint64_t value) {
  key[0] = (key[0] ^ value) * UINT64_C(0x9e3779b97f4a7c15);
  key[0] ^= key[0] >> 32;
  key[1] = (key[1] + value) * UINT64_C(0xbf58476d1ce4e5b9);
  key[1] ^= key[1] >> 29;
}

static void mix_number(uint64_t key[2], double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  mix(key, bits);
}

static void mix_access(uint64_t key[2], const tn__outline_view *v, const tn__outline_view_access *a) {
  mix(key, (uint64_t)a->element);
  mix(key, (uint64_t)a->bytes);
  mix(key, (uint64_t)a->store | (uint64_t)a->scattered << 1 | (uint64_t)a->again << 2);
  for (int l = 0; l < v->loop_count; l++) {
    mix(key, (uint64_t)a->stride[l]);
    mix(key, (uint64_t)a->panel[l]);
    mix(key, (uint64_t)a->far[l]);
    mix(key, (uint64_t)a->spread[l]);
    mix(key, (uint64_t)a->places[l]);
  }
}

/* Of all that a block's piece and what it touches follow from but the target, which is the same for all that a room
 * is used for. Keys of 128 bits are taken for what they were made of. */
static void find_key(const tn__outline_view *v, const tn__schedule_options *options, int own, uint64_t key[2]) {
  key[0] = 0, key[1] = 1;
  mix(key, (uint64_t)options->vector_bytes | (uint64_t)options->threads << 32);
  mix(key, (uint64_t)options->cache_bytes | (uint64_t)options->registers << 48);
  mix(key, (uint64_t)v->role | (uint64_t)v->near << 8 | (uint64_t)v->turned << 9 | (uint64_t)own << 16);
  mix(key, (uint64_t)v->results | (uint64_t)v->loop_count << 16 | (uint64_t)v->access_count << 32);
  for (int r = 0; r < v->results; r++) mix(key, (uint64_t)v->bytes[r]);
  mix_number(key, v->combining.all);
  mix_number(key, v->combining.chain);
  mix_number(key, v->combining.keeps_nan);
  for (int l = 0; l < v->loop_count; l++) {
    mix(key, (uint64_t)v->loops[l].extent);
    mix(key, (uint64_t)v->loops[l].kind | (uint64_t)v->loops[l].reduces << 8);
    mix_number(key, v->loops[l].trips);
  }
  for (int a = 0; a < v->access_count; a++) mix_access(key, v, &v->access[a]);
  for (int w = 0; w < v->work_count; w++) {
    mix(key, v->works[w].along);
    mix_number(key, v->works[w].weight);
    mix_number(key, v->works[w].busy);
  }
}

static bool same_key(const uint64_t a[2], const uint64_t b[2]) { return a[0] == b[0] && a[1] == b[1]; }

/* What block b touches, from before or measured now. */
static void find_touched(tn__outline_work_room *room, int b, const tn__target *target) {
  tn__outline_known *known = &room->known[room->key[b][0] % TN__OUTLINE_KNOWN];
  if (!same_key(known->key, room->key[b])) {
    tn__nest nest;
    nest_of(&room->views.view[b], &nest);
    measure(target, &nest, &known->touched);
    memcpy(known->key, room->key[b], sizeof known->key);
  }
  room->touched[b] = known->touched;
}

/* ---- one block among others -------------------------------------------------------------------------------------- */

static bool touches(const tn__outline_view *v, int tensor) {
  for (int a = 0; a < v->access_count && v->role != TN__OUTLINE_INIT; a++)
    if (v->access[a].tensor == tensor) return true;
  return false;
}

/* What other blocks touch inside of the first `depth` loops around block b, which they are under, too: each tensor of
 * the declaration once, and none that b touches itself. */
static double touched_beside(const tn__outline_work_room *room, int b, int depth) {
  const tn__outline_views *views = &room->views;
  double most[MOST_TENSORS] = {0}, all = 0;
  for (int c = 0; c < views->count; c++) {
    const tn__outline_view *v = &views->view[c];
    if (c == b || common(views, b, c) < depth) continue;
    for (int a = 0; a < accesses_of(v); a++) {
      int tensor = v->access[a].tensor;
      double bytes = room->touched[c].bytes[depth < TN__OUTLINE_DEPTHS ? depth : TN__OUTLINE_DEPTHS - 1][a];
      if (tensor >= 0 && touches(&views->view[b], tensor)) continue;
      if (tensor < 0 || tensor >= MOST_TENSORS)
        all += bytes;
      else if (bytes > most[tensor])
        most[tensor] = bytes;
    }
  }
  for (int t = 0; t < MOST_TENSORS; t++) all += most[t];
  return all;
}

/* The nearest cache in which the access finds what a block before left of the tensor, with all that is touched in the
 * innermost loop around both. */
static int held_in(const tn__outline_work_room *room, const tn__target *target, const tn__schedule_options *options,
                   int b, int tensor, const double *beside) {
  const tn__machine *machine = &target->cpu.machine;
  const double rooms[] = {machine->costs.fill * (double)machine->l1_bytes,
                          machine->costs.fill * (double)options->cache_bytes,
                          machine->costs.shared_fill * (double)machine->l3_bytes};
  const tn__outline_views *views = &room->views;
  for (int c = b - 1; c >= 0 && tensor >= 0; c--) {
    if (!touches(&views->view[c], tensor)) continue;
    int depth = common(views, c, b), at = depth < TN__OUTLINE_DEPTHS ? depth : TN__OUTLINE_DEPTHS - 1;
    double all = beside[depth];
    for (int a = 0; a < accesses_of(&views->view[b]); a++) all += room->touched[b].bytes[at][a];
    for (int l = 0; l < 3; l++)
      if (all <= rooms[l]) return l + 1;
    return 0;
  }
  return 0;
}

static void add_cost(tn__cost *all, const tn__cost *one) {
  all->cycles += one->cycles;
  all->work += one->work;
  all->overhead += one->overhead;
  for (int l = 0; l < 3; l++) {
    all->bytes[l] += one->bytes[l];
    all->level[l] += one->level[l];
    if (one->footprint[l] > all->footprint[l]) all->footprint[l] = one->footprint[l];
  }
  if (one->registers > all->registers) all->registers = one->registers;
}

static void weigh_block(tn__outline_work_room *room, int b, piece *p, const tn__target *target,
                        const tn__schedule_options *options, tn__cost *out) {
  const tn__outline_view *v = p->s.v;
  tn__sketch_features f = {.loop_count = v->loop_count};
  double beside[TN__NEST_LOOPS + 1] = {0};
  int around = b > 0 ? v->with_last : 0, held[TN__NEST_ACCESSES] = {0};
  uint64_t key[2] = {room->key[b][0], room->key[b][1]};
  if (b + 1 < room->views.count && room->views.view[b + 1].with_last > around)
    around = room->views.view[b + 1].with_last;
  for (int d = 0; d <= around; d++) beside[d] = touched_beside(room, b, d);
  for (int d = 0; d <= around; d++) mix_number(key, beside[d]);
  for (int a = 0; a < accesses_of(v); a++) {
    held[a] = held_in(room, target, options, b, v->access[a].tensor, beside);
    mix(key, (uint64_t)held[a]);
  }
  mix(key, (uint64_t)around);
  mix_number(key, p->ops.chain);
  tn__outline_known_cost *known = &room->costs[key[0] % TN__OUTLINE_KNOWN];
  room->weighed++;
  room->found += same_key(known->key, key);
  if (!same_key(known->key, key)) {
    tn__nest nest;
    nest_of(v, &nest);
    for (int l = 0; l < v->loop_count; l++) f.loops[l] = (tn__nest_loop){l, v->loops[l].extent, 1};
    f.beside = beside;
    f.chunks = chunks_of(v);
    for (int a = 0; a < nest.access_count; a++) nest.access[a].held = held[a];
    find_pieces(target, options, &nest, &f);
    tn__cost_phase(&f, target, &p->ops, p->s.executions);
    add_loops(p, target, &f);
    if (v->role == TN__OUTLINE_REDUCE) f.registers = (int)p->results + 2;
    tn__cost_of(target, options, &nest, &f, &known->cost);
    memcpy(known->key, key, sizeof known->key);
  }
  *out = known->cost;
}

double tn__outline_weigh(tn__outline_work_room *room, const tn__target *target, const tn__schedule_options *options,
                         tn__cost *out) {
  const tn__outline_views *views = &room->views;
  tn__cost unused = {0}, *all = out != NULL ? out : &unused;
  piece pieces[TN__OUTLINE_BLOCKS];
  *all = (tn__cost){.balance = 1};
  for (int b = 0; b < views->count; b++) {
    const tn__outline_view *v = &views->view[b];
    int own = b > 0 ? v->with_last : 0;
    find_key(v, options, own, room->key[b]);
    find_touched(room, b, target);
    find_piece(v, target, options->vector_bytes, own, &pieces[b]);
  }
  for (int first = 0, end; first < views->count; first = end) {
    end = end_of_run(views, first);
    double ahead = greater(1, TN__RULE_LOOK_AHEAD / instructions_of_results(&pieces[first], end - first));
    for (int b = first; b < end; b++) {
      tn__cost one;
      pieces[b].ops.chain /= ahead;
      weigh_block(room, b, &pieces[b], target, options, &one);
      add_cost(all, &one);
    }
  }
  double work = all->work;
  for (int l = 0; l < 3; l++)
    if (all->level[l] > work) work = all->level[l], all->bound = (tn__bound)(TN__BOUND_L2 + l);
  all->seconds = all->cycles / (1e6 * target->cpu.machine.core.megahertz);
  return all->cycles;
}
