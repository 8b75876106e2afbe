#include "schedule/sketch/cost.h"
#include "ir/linear.h"

#include <math.h>
#include <stdlib.h>

#include "base/numbers.h"
#include "schedule/internal.h"

/* ---- footprints -------------------------------------------------------------------------------------------------- */

typedef struct extent {
  int64_t stride, count;
} extent;

/* Adds `count` steps of `stride` bytes to a set of `*n` nested runs in order of stride: steps that overlap with the
 * last run lengthen it, others start a new one. */
static void add_run(extent *runs, int *n, int64_t line, int64_t stride, int64_t count) {
  extent *last = &runs[*n - 1];
  if (count <= 1 || stride == 0) return;
  int64_t span = tn__ir_bound_mul(last->stride, last->count);
  if (stride <= span || (*n == 1 && stride < line)) {
    int64_t steps = tn__ir_bound_add(tn__ir_bound_mul(count - 1, stride), last->stride - 1) / last->stride;
    last->count = tn__ir_bound_add(last->count, steps);
  } else {
    runs[(*n)++] = (extent){stride, count};
  }
}

enum { MOST_RUNS = 2 * TN__NEST_AXES + 1 };

/* How many places in a tensor, which data choose, the steps of all axes that choose come to; 0: none chooses. They lie
 * anywhere, so that none overlaps with the next, nor goes on where it ends. */
static int64_t chosen_places(const tn__nest_access *a, const int64_t *ranges) {
  int64_t steps = 1, most = 0;
  for (int i = 0; i < a->moving; i++) {
    int64_t places = a->along[a->order[i]].places;
    if (places == 0) continue;
    steps = tn__ir_bound_mul(steps, ranges[a->order[i]]);
    most = places;
  }
  if (most == 0) return 0;
  return (int64_t)ceil((double)most * (1 - exp(-(double)steps / (double)most))); /* some of them more than once */
}

/* The lines of an access as nested runs; returns how many there are. */
static int runs_of(const tn__target *target, const tn__nest_access *a, const int64_t *ranges, extent runs[MOST_RUNS]) {
  const int line = target->cpu.machine.costs.line_bytes;
  int64_t chosen = chosen_places(a, ranges);
  int n = 1;
  runs[0] = (extent){1, a->element};
  for (int i = 0; i < a->moving; i++) {
    int axis = a->order[i];
    const tn__nest_stride *s = &a->along[axis];
    int64_t range = ranges[axis] + a->spread[axis];
    if (s->places > 0) {
      if (chosen > 1) runs[n++] = (extent){s->stride, chosen};
      chosen = 0; /* of all such axes */
    } else {
      add_run(runs, &n, line, s->stride, s->panel > 0 && range > s->panel ? s->panel : range);
    }
  }
  for (int i = 0; i < a->moving; i++) {
    int axis = a->order[i];
    const tn__nest_stride *s = &a->along[axis];
    if (s->panel > 0) add_run(runs, &n, line, s->far, (ranges[axis] + s->panel - 1) / s->panel);
  }
  return n;
}

double tn__nest_footprint(const tn__target *target, const tn__nest_access *a, const int64_t *ranges) {
  const int line = target->cpu.machine.costs.line_bytes;
  bool chooses = (chosen_places(a, ranges) > 0 || a->scattered) && a->bytes > 0;
  double elements = 1, most = chooses ? ceil((double)a->bytes / line) : INFINITY; /* lines that there are */
  if (a->scattered) {
    for (int i = 0; i < a->moving; i++) elements *= (double)(ranges[a->order[i]] + a->spread[a->order[i]]);
    return fmin(elements, most) * line;
  }
  extent runs[MOST_RUNS];
  int n = runs_of(target, a, ranges, runs);
  double lines = ceil((double)runs[0].count / line);
  for (int i = 1; i < n && a->straddles; i++)
    if (runs[i].stride % line != 0) lines = 1 + (double)(runs[0].count - a->element) / line;
  for (int i = 1; i < n; i++) lines *= (double)runs[i].count;
  return fmin(lines, most) * line;
}

/* Pages lie anywhere in memory, so lines share the sets of L2 as their places within a page do: rows a round number of
 * bytes apart use few of these places, and find that part of the cache alone. Of so many places, how many are not used
 * for each that is, and one. */
static double crowding(const tn__target *target, const tn__nest_access *a, const int64_t *ranges) {
  const int64_t line = target->cpu.machine.costs.line_bytes, page = target->cpu.machine.costs.page_bytes;
  if (a->scattered || a->near) return 1;
  extent runs[MOST_RUNS];
  int n = runs_of(target, a, ranges, runs);
  const int64_t lines = page / line;
  double places = (double)lines, used = ceil((double)runs[0].count / (double)line);
  for (int i = 1; i < n && used < places; i++) {
    int64_t apart = page / tn__common_divisor(page, runs[i].stride);
    used *= (double)(apart < runs[i].count ? apart : runs[i].count);
  }
  return used < places ? places / used : 1;
}

int64_t tn__nest_piece(const tn__target *target, const tn__nest_access *a, const int64_t *ranges) {
  extent runs[TN__NEST_AXES + 1] = {{1, a->element}};
  int n = 1;
  for (int i = 0; i < a->moving; i++) {
    int axis = a->order[i];
    if (a->along[axis].places > 0) break;
    add_run(runs, &n, target->cpu.machine.costs.line_bytes, a->along[axis].stride, ranges[axis] + a->spread[axis]);
  }
  return runs[0].count;
}

double tn__nest_crossing(const tn__target *target, const tn__nest_access *a, int axis_count, int axis, int64_t bytes) {
  const tn__core *core = &target->cpu.machine.core;
  int64_t port = core->load_bytes / core->load_ports;
  if (bytes > port && port > 0) bytes = port;
  int64_t common = bytes;
  for (int x = 0; x < axis_count; x++) {
    if (x != axis) common = tn__common_divisor(common, a->along[x].stride);
    common = tn__common_divisor(common, a->along[x].far);
  }
  return (double)(bytes - common) / target->cpu.machine.costs.line_bytes;
}

double tn__nest_shuffled(int64_t element, int64_t stride, double lanes) {
  int64_t apart = stride / element;
  bool shuffles = stride == apart * element && lanes >= TN__RULE_SHUFFLED_LANES;
  return shuffles && apart > 1 && apart <= TN__RULE_SHUFFLED_STRIDE ? (double)apart : 0;
}

void tn__nest_finish(tn__nest *nest) {
  for (int i = 0; i < nest->access_count; i++) {
    tn__nest_access *a = &nest->access[i];
    a->moving = 0;
    for (int x = 0; x < nest->axis_count; x++) {
      const tn__nest_stride *s = &a->along[x];
      if (s->stride == 0 && s->far == 0) continue;
      int at = a->moving++;
      for (; at > 0 && a->along[a->order[at - 1]].stride > s->stride; at--) a->order[at] = a->order[at - 1];
      a->order[at] = (uint8_t)x;
    }
  }
}

/* ---- from expressions -------------------------------------------------------------------------------------------- */

typedef struct reading {
  tn__schedule *s;
  const tn__block *block;
  tn__nest *nest;
  const tn__buffer *buffer[TN__NEST_ACCESSES];
  int64_t start[TN__NEST_ACCESSES]; /* in bytes, where all axes are 0; INT64_MIN: unknown */
} reading;

/* The position at which `flat` lies when `var` has `value` and all other axes are 0; false when it is not a number. */
TN_MUST_USE static bool position(const reading *r, const tn__expr *flat, const tn__var *var, int64_t value,
                                 int64_t *out) {
  const tn__expr *values[TN__NEST_AXES];
  const tn__var *vars[TN__NEST_AXES];
  int count = r->nest->axis_count;
  for (int i = 0; i < count; i++) {
    vars[i] = r->block->axes[i].var;
    values[i] = tn__ir_index(r->s->ir, vars[i] == var ? value : 0);
  }
  return tn__ir_as_int(tn__ir_substitute(r->s->ir, flat, vars, values, count), out);
}

TN_MUST_USE static bool stride_of(const reading *r, const tn__expr *flat, const tn__var *var, tn__nest_stride *out) {
  *out = (tn__nest_stride){0};
  if (!tn__expr_uses_var(flat, var)) return true;
  if (tn__ir_stride_in(r->s->ir, flat, var, &out->stride)) return true;
  int64_t at[4], divisor = tn__sched_divisor_of(r->s->ir, flat, var);
  if (divisor < 1) return false;
  for (int i = 0; i < 4; i++) {
    const int64_t places[] = {0, 1, divisor, 2 * divisor};
    if (!position(r, flat, var, places[i], &at[i])) return false;
  }
  *out = (tn__nest_stride){at[1] - at[0], divisor, at[2] - at[0]};
  return at[3] - at[2] == out->far;
}

/* Symbols of a flat index, which its strides may depend on. */
typedef struct symbols {
  const reading *r;
  const tn__var *vars[TN__NEST_AXES];
  const tn__expr *values[TN__NEST_AXES];
  int count;
} symbols;

static void see_symbol(const tn__expr *e, void *user) {
  symbols *found = user;
  if (e->kind != TN__EXPR_VAR || found->count == TN__NEST_AXES) return;
  for (int x = 0; x < found->r->nest->axis_count; x++)
    if (found->r->block->axes[x].var == e->value.var) return;
  for (int i = 0; i < found->count; i++)
    if (found->vars[i] == e->value.var) return;
  found->vars[found->count] = e->value.var;
  found->values[found->count++] = tn__ir_index(found->r->s->ir, TN__OPEN_EXTENT);
}

/* The index with every open dimension taken for TN__OPEN_EXTENT, as extents are. */
static const tn__expr *with_extents(const reading *r, const tn__expr *flat) {
  symbols found = {.r = r};
  tn__te_visit(r->s->ir, flat, see_symbol, &found);
  return tn__ir_substitute(r->s->ir, flat, found.vars, found.values, found.count);
}

/* Where the index of one dimension alone is no number of steps along the axis, as that of a row which data choose, the
 * access jumps to another place in that dimension and moves evenly along all other axes. False where that place is in
 * the same lines: the elements are scattered then. */
TN_MUST_USE static bool jump_of(const reading *r, const tn__buffer *buffer, const tn__expr *const *inner,
                                const tn__var *var, tn__nest_stride *out) {
  int64_t row = 1, size, stride, jump = 0;
  *out = (tn__nest_stride){0};
  for (int d = buffer->rank - 1; d >= 0; d--) {
    const tn__expr *index = with_extents(r, inner[d]);
    bool used = tn__expr_uses_var(index, var), even = used && tn__ir_stride_in(r->s->ir, index, var, &stride);
    if (!tn__ir_as_int(buffer->shape[d], &size)) size = TN__OPEN_EXTENT;
    if (even) out->stride += tn__ir_bound_mul(stride, row);
    if (used && !even && jump > 0) return false;
    if (used && !even) {
      jump = row;
      out->places = size;
    }
    row = tn__ir_bound_mul(row, size);
  }
  out->stride += jump;
  return jump * (int64_t)tn_dtype_size(buffer->dtype) >= r->s->target->cpu.machine.costs.line_bytes;
}

static void add_access(reading *r, const tn__buffer *buffer, const tn__expr *const *indices, bool store) {
  tn__nest *nest = r->nest;
  tn__ir *ir = r->s->ir;
  const tn__expr *inner[TN__MAX_RANK];
  if (nest->access_count == TN__NEST_ACCESSES) return; /* what is left out is small change beside twelve others */
  for (int d = 0; d < buffer->rank; d++) inner[d] = tn__ir_interior(ir, indices[d]);
  const tn__expr *flat = with_extents(r, tn__buffer_flatten(ir, buffer, inner));
  int index = nest->access_count++;
  tn__nest_access *a = &nest->access[index];
  *a = (tn__nest_access){.buffer = buffer, .element = (int64_t)tn_dtype_size(buffer->dtype), .store = store};
  a->near = buffer->scope == TN__SCOPE_STACK || buffer->scope == TN__SCOPE_REGISTER;
  double bytes = tn__ir_elements_estimate(buffer) * (double)a->element;
  a->bytes = bytes < 1e15 ? (int64_t)bytes : 0;
  for (int x = 0; x < nest->axis_count; x++) {
    tn__nest_stride *s = &a->along[x];
    const tn__var *var = r->block->axes[x].var;
    if (!stride_of(r, flat, var, s) && !jump_of(r, buffer, inner, var, s)) {
      a->scattered = true;
      *s = (tn__nest_stride){.stride = 1};
    }
    s->stride = llabs(s->stride) * a->element;
    s->far = llabs(s->far) * a->element;
  }
  r->buffer[index] = buffer;
  if (a->scattered || !position(r, flat, NULL, 0, &r->start[index])) r->start[index] = INT64_MIN;
  if (r->start[index] != INT64_MIN) r->start[index] *= a->element;
}

/* ---- accesses that lie near each other --------------------------------------------------------------------------- */

/* Steps along each axis, by falling stride, that are `distance` bytes together; false when it is far along one. */
TN_MUST_USE static bool steps_of(const tn__nest *nest, const tn__nest_access *a, int64_t distance, int64_t *steps) {
  for (int x = 0; x < nest->axis_count; x++) steps[x] = 0;
  for (int i = a->moving - 1; i >= 0; i--) {
    int x = a->order[i];
    int64_t stride = a->along[x].stride;
    if (a->along[x].panel > 0) return false;
    if (stride == 0) continue;
    steps[x] = (int64_t)llround((double)distance / (double)stride);
    distance -= steps[x] * stride;
    if (4 * llabs(steps[x]) > nest->extent[x]) return false;
  }
  return true;
}

static bool moves_alike(const tn__nest *nest, const tn__nest_access *a, const tn__nest_access *b) {
  for (int x = 0; x < nest->axis_count; x++)
    if (a->along[x].stride != b->along[x].stride || a->along[x].panel != b->along[x].panel) return false;
  return !a->store && !b->store && a->element == b->element;
}

static void find_neighbours(const reading *r) {
  tn__nest *nest = r->nest;
  for (int i = 0; i < nest->access_count; i++) {
    tn__nest_access *a = &nest->access[i];
    int64_t low[TN__NEST_AXES] = {0}, high[TN__NEST_AXES] = {0}, steps[TN__NEST_AXES];
    if (a->again || r->start[i] == INT64_MIN) continue;
    for (int k = i + 1; k < nest->access_count; k++) {
      tn__nest_access *b = &nest->access[k];
      if (b->again || r->buffer[k] != r->buffer[i] || r->start[k] == INT64_MIN || !moves_alike(nest, a, b)) continue;
      if (!steps_of(nest, a, r->start[k] - r->start[i], steps)) continue;
      b->again = true;
      for (int x = 0; x < nest->axis_count; x++) {
        if (steps[x] < low[x]) low[x] = steps[x];
        if (steps[x] > high[x]) high[x] = steps[x];
      }
    }
    for (int x = 0; x < nest->axis_count; x++) a->spread[x] = high[x] - low[x];
  }
}

static void see_load(const tn__expr *e, void *user) {
  reading *r = user;
  if (e->kind != TN__EXPR_LOAD) return;
  for (int w = 0; w < r->block->write_count; w++) /* accumulated values are in registers, or stores are counted */
    if (r->block->writes[w].buffer == e->value.buffer) return;
  add_access(r, e->value.buffer, e->args, false);
}

static void see_value(const tn__expr *e, void *user) {
  reading *r = user;
  tn__te_visit(r->s->ir, e, see_load, user);
}

static bool see_store(const tn__stmt *stmt, void *user) {
  reading *r = user;
  if (stmt->kind == TN__STMT_STORE) add_access(r, stmt->as.store.buffer, stmt->as.store.indices, true);
  return true;
}

void tn__nest_of_block(tn__schedule *s, const char *name, tn__nest *out) {
  const tn__snode *block = tn__sched_block(s, "nest", name);
  *out = (tn__nest){.axis_count = block->block.axis_count};
  reading r = {.s = s, .block = &block->block, .nest = out};
  if (out->axis_count > TN__NEST_AXES) tn__sched_refuse(s, "\"%s\" has more than %d axes", name, TN__NEST_AXES);
  for (int x = 0; x < out->axis_count; x++) {
    out->open[x] = !tn__ir_as_int(block->block.axes[x].var->extent, &out->extent[x]);
    if (out->open[x]) out->extent[x] = TN__OPEN_EXTENT;
    if (out->extent[x] < 1) out->extent[x] = 1;
  }
  tn__stmt_walk_exprs(block->block.body, see_value, &r);
  tn__stmt_walk(block->block.body, see_store, &r);
  tn__nest_finish(out);
  find_neighbours(&r);
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static double greater(double a, double b) { return a > b ? a : b; }

/* Instructions of `width` bytes a cycle over ports that together move `bytes`. */
static double rate(int ports, int bytes, int width) {
  double wide = (double)bytes / width;
  return ports > 0 && wide > ports ? ports : wide;
}

double tn__cost_broadcast(const tn__target *target, int vector_bytes) {
  const tn__core *core = &target->cpu.machine.core;
  return target->cpu.machine.costs.broadcast * rate(core->load_ports, core->load_bytes, vector_bytes) /
         core->load_ports;
}

double tn__cost_keeping_nan(const tn__target *target, double registers, double terms) {
  const double test = 1, take_up = 1;
  if (tn__target_can(target, TN__CAN_KEEP_NAN)) return 0;
  if (registers > tn__target_nan_registers(target)) return test + take_up;
  double each = tn__target_can(target, TN__CAN_MASK) ? test : test + take_up; /* a test takes up masks itself */
  return terms > 1 ? each / 2 : each;
}

double tn__sketch_operation_cycles(const tn__target *target, const tn__operations *o) {
  const tn__core *core = &target->cpu.machine.core;
  const tn__costs *costs = &target->cpu.machine.costs;
  int width = o->vector_bytes;
  double arithmetic = o->fma / rate(core->fma_ports, core->fma_bytes, width);
  double loads = o->loads / rate(core->load_ports, core->load_bytes, width) + o->gathers / core->load_ports;
  double stores = o->stores / rate(1, core->store_bytes, width);
  double shuffles = (o->shuffles + o->gathers) / rate(2, core->shuffle_bytes, width);
  /* A load that one instruction uses is part of it. */
  double issue = (o->fma + o->loads + o->stores + o->shuffles + 2 * o->gathers + o->other) / core->issue;
  double largest = greater(greater(greater(arithmetic, loads), greater(stores, shuffles)), greater(issue, o->chain));
  largest = greater(largest, o->busy);
  /* Ports that are all busy get into each other's way; of what is equal, fewer instructions are better. */
  double others =
      arithmetic + loads + stores + shuffles - greater(greater(arithmetic, loads), greater(stores, shuffles));
  return largest + costs->crowded * others + costs->fewer * issue;
}

void tn__cost_phase(tn__sketch_features *f, const tn__target *target, const tn__operations *ops, double times) {
  f->work_cycles += times * tn__sketch_operation_cycles(target, ops);
  f->fma += times * ops->fma;
  f->loads += times * ops->loads;
  f->stores += times * ops->stores;
  f->shuffles += times * ops->shuffles;
  f->gathers += times * ops->gathers;
}

void tn__cost_loop(tn__sketch_features *f, const tn__target *target, double entries, double trips) {
  const tn__costs *costs = &target->cpu.machine.costs;
  f->iterations += entries * trips;
  f->work_cycles += entries * (costs->loop_entry + (trips > costs->counted_trips ? costs->mispredicted : 0));
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What the loops of a nest touch: of the parts inside of loop d at [d], of the whole nest at [0]. `crowded` is the room
 * that the total takes in L2. */
typedef struct footprints {
  double of[TN__NEST_LOOPS + 1][TN__NEST_ACCESSES], total[TN__NEST_LOOPS + 1], crowded[TN__NEST_LOOPS + 1];
} footprints;

/* Bytes of the part that an access moves over, without any between. */
static double packed(const tn__nest_access *a, const int64_t *ranges) {
  double bytes = (double)a->element;
  for (int i = 0; i < a->moving; i++) bytes *= (double)(ranges[a->order[i]] + a->spread[a->order[i]]);
  return bytes;
}

static void measure(const tn__target *target, const tn__nest *nest, const tn__sketch_features *f, footprints *p) {
  int64_t range[TN__NEST_AXES];
  double crowds[TN__NEST_ACCESSES];
  for (int x = 0; x < TN__NEST_AXES; x++) range[x] = 1;
  for (int d = f->loop_count; d >= 0; d--) {
    int axis = -1;
    if (d < f->loop_count) {
      const tn__nest_loop *loop = &f->loops[d];
      axis = loop->axis;
      int64_t covered = (loop->trips - 1) * loop->step + range[axis];
      range[axis] = covered > nest->extent[axis] ? nest->extent[axis] : covered;
    }
    p->total[d] = p->crowded[d] = f->beside != NULL ? f->beside[d] : 0;
    for (int a = 0; a < nest->access_count; a++) {
      const tn__nest_access *access = &nest->access[a];
      if (access->again) continue;
      bool still = axis >= 0 && access->along[axis].stride == 0 && access->along[axis].far == 0;
      bool copied = f->copied[a] > 0 && d >= f->copied[a] - 1;
      p->of[d][a] = still ? p->of[d + 1][a] : tn__nest_footprint(target, access, range);
      if (!still) crowds[a] = copied ? 1 : crowding(target, access, range);
      if (!still && copied && packed(access, range) < p->of[d][a]) p->of[d][a] = packed(access, range);
      p->total[d] += p->of[d][a];
      p->crowded[d] += p->of[d][a] * crowds[a];
    }
  }
}

/* What comes into a cache of `size` bytes, and what the loops that fit it touch. */
static double traffic(const tn__nest *nest, const tn__sketch_features *f, const footprints *p, int level, double size,
                      double *footprint) {
  const double *taken = level == 1 ? p->crowded : p->total;
  int fits = f->loop_count; /* the outermost loop nest that stays in the cache */
  while (fits > 0 && taken[fits - 1] <= size) fits--;
  *footprint = p->total[fits];
  double bytes = 0;
  for (int a = 0; a < nest->access_count; a++) {
    if (nest->access[a].again || (nest->access[a].held > 0 && level >= nest->access[a].held - 1)) continue;
    /* One loop further out the access finds what it left if it stands still there or its window overlaps. */
    double own = fits > 0 ? p->of[fits - 1][a] : p->of[0][a];
    for (int d = 0; d < fits - 1; d++) own *= (double)f->loops[d].trips;
    if (nest->access[a].store && f->streams && f->unseen_bytes < f->stored_bytes) continue; /* an output */
    bytes += nest->access[a].store ? 2 * own : own; /* lines are fetched before they are written, and go back */
  }
  return bytes + (f->streams ? 0 : 2 * f->unseen_bytes);
}

/* What non-temporal stores cost at a level. Whoever reads the results next fetches them from memory, which counts
 * where they would have stayed near: where everything fits, or where another kernel reads what fits alone. */
static double streamed(const tn__target *target, const tn__schedule_options *options, const tn__sketch_features *f,
                       double total, int level) {
  double room = target->cpu.machine.costs.fill * (double)target->cpu.machine.l3_bytes;
  bool stays = f->stored_bytes <= room && (options->results_read || total + f->unseen_bytes <= room);
  return (level == 2 ? f->stored_bytes : 0) + (stays ? (level == 2 ? 1 : 2) * f->stored_bytes : 0);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

const char *tn__bound_name(tn__bound bound) {
  static const char *const names[] = {"arithmetic", "L1", "L2", "L3", "memory"};
  return names[bound];
}

double tn__cost_of(const tn__target *target, const tn__schedule_options *options, const tn__nest *nest,
                   const tn__sketch_features *f, tn__cost *out) {
  const tn__machine *machine = &target->cpu.machine;
  const tn__core *core = &machine->core;
  const tn__costs *costs = &machine->costs;
  tn__cost unused = {0}, *c = out != NULL ? out : &unused;
  *c = (tn__cost){.work = f->work_cycles, .registers = f->registers, .balance = 1};
  if (f->registers > options->registers) {
    c->cycles = c->seconds = INFINITY;
    return INFINITY;
  }
  footprints p;
  measure(target, nest, f, &p);
  const double sizes[3] = {(double)machine->l1_bytes, (double)options->cache_bytes, (double)machine->l3_bytes};
  const int rates[3] = {core->l2_bytes, core->l3_bytes, core->memory_bytes};
  const double shown[4] = {costs->unhidden, costs->unhidden, f->exposed > 0 ? f->exposed : costs->unhidden,
                           f->exposed > 0 ? f->exposed : costs->unhidden};
  double largest = c->work, sum = costs->unhidden * largest;
  for (int l = 0; l < 3; l++) {
    double room = (l == 2 ? costs->shared_fill : costs->fill) * sizes[l];
    c->bytes[l] = traffic(nest, f, &p, l, room, &c->footprint[l]);
    if ((l == 1 ? p.crowded : p.total)[0] + f->unseen_bytes <= room) c->bytes[l] = 0; /* it was there before */
    if (f->streams) c->bytes[l] += streamed(target, options, f, p.total[0], l);
    c->level[l] = c->bytes[l] / rates[l];
    if (l > 0) c->level[l] *= 1 + (TN__RULE_SLOWER_PIECES - 1) * f->pieces;
    sum += shown[l + 1] * c->level[l];
    if (c->level[l] <= largest) continue;
    largest = c->level[l];
    c->bound = (tn__bound)(TN__BOUND_L2 + l);
  }
  double chunks = (double)f->chunks, threads = options->threads;
  if (chunks > 1 && threads > 1) {
    c->balance = ceil(chunks / threads) / chunks;
    c->overhead = costs->fork + costs->chunk * ceil(chunks / threads);
  }
  c->overhead += f->extra_cycles;
  double one = largest + sum - shown[c->bound == TN__BOUND_WORK ? 0 : c->bound - TN__BOUND_L2 + 1] * largest;
  /* What work does not hide does not hide work either. */
  one = greater(one, c->work + sum - shown[0] * c->work);
  c->cycles = one * c->balance + c->overhead;
  c->seconds = c->cycles / (1e6 * core->megahertz);
  c->tail = f->spent > 0 ? 1 - f->useful / f->spent : 0;
  return c->cycles;
}
