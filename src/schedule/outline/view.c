/* Views: each block with the loops around it and its accesses along these, of an outline and of a schedule. */
#include "schedule/outline/outline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/linear.h"

/* Adds what an access moves along a loop of `step` steps of an axis in each iteration; panels count where the steps
 * jump over whole ones, or stay in one for some iterations. */
static void add_movement(const tn__nest_stride *along, int64_t step, int l, int64_t extent,
                         tn__outline_view_access *to) {
  int64_t panel = along->panel;
  to->places[l] = along->places;
  if (panel > 0 && step % panel == 0) {
    to->stride[l] += step / panel * along->far;
    return;
  }
  to->stride[l] += tn__ir_bound_mul(step, along->stride);
  if (panel <= 0 || panel % step != 0 || extent * step <= panel) return;
  to->panel[l] = panel / step;
  to->far[l] = along->far;
}

/* The steps along one axis of each loop of a view. */
typedef struct axis_steps {
  int64_t step[TN__NEST_AXES][TN__NEST_AXES]; /* [axis][loop]; 0: it stands still */
} axis_steps;

/* Around how many loops of a view each tensor of the declaration has its room: the same for each of their iterations.
 */
typedef struct rooms {
  int outside[TN__NEST_ACCESSES];
} rooms;

/* Those whose bits are in `without` are left out. */
static void add_accesses(const tn__outline_body *body, uint32_t without, const axis_steps *steps, const rooms *room,
                         tn__outline_view *v) {
  const tn__nest *nest = &body->nest;
  for (int a = 0; a < nest->access_count; a++) {
    const tn__nest_access *from = &nest->access[a];
    if (without >> a & 1) continue;
    tn__outline_view_access *to = &v->access[v->access_count++];
    *to = (tn__outline_view_access){.tensor = body->tensor[a],
                                    .element = from->element,
                                    .bytes = from->bytes,
                                    .store = from->store,
                                    .scattered = from->scattered,
                                    .again = from->again};
    for (int x = 0; x < nest->axis_count; x++) {
      int least = -1;
      for (int l = room->outside[a]; l < v->loop_count; l++) {
        int64_t step = steps->step[x][l];
        if (step == 0) continue;
        add_movement(&from->along[x], step, l, v->loops[l].extent, to);
        if (least < 0 || step <= steps->step[x][least]) least = l;
      }
      if (least >= 0) to->spread[least] += from->spread[x];
    }
  }
}

/* What splits leave beyond the end of an axis is cut off, but for lanes and partial results (`whole`, a bit for each
 * loop), which run for nothing: the outermost loop along the axis counts so much less. */
static void find_trips(tn__outline_view *v, const axis_steps *steps, const int64_t *extents, int axes, uint32_t whole) {
  for (int x = 0; x < axes; x++) {
    int outermost = -1;
    double unit = 1, inside = 1; /* what one iteration of the outermost loop covers */
    for (int l = 0; l < v->loop_count; l++) {
      if (steps->step[x][l] == 0) continue;
      if (outermost < 0 || steps->step[x][l] > steps->step[x][outermost]) outermost = l;
      if (whole >> l & 1) unit *= (double)v->loops[l].extent;
    }
    if (outermost < 0 || whole >> outermost & 1) continue;
    for (int l = 0; l < v->loop_count; l++)
      if (l != outermost) inside += (double)(v->loops[l].extent - 1) * (double)steps->step[x][l];
    double used = ceil((double)extents[x] / unit) * unit, step = (double)steps->step[x][outermost];
    double trips = used > inside ? (used - inside) / step + 1 : 1;
    if (trips < v->loops[outermost].trips) v->loops[outermost].trips = trips;
  }
}

static void add_works(const tn__outline_body *body, const axis_steps *steps, int axes, tn__outline_view *v) {
  v->work_count = body->work_count;
  for (int w = 0; w < body->work_count; w++) {
    v->works[w] = (tn__outline_work){.weight = body->works[w].weight, .busy = body->works[w].busy};
    for (int x = 0; x < axes; x++)
      for (int l = 0; l < v->loop_count && body->works[w].along >> x & 1; l++)
        if (steps->step[x][l] != 0) v->works[w].along |= 1u << l;
  }
}

/* Loops that the view has in common with the reduction's, which is the only one or the first. */
static void find_shared(tn__outline_views *views, const void *(*ids)[TN__NEST_AXES]) {
  int main = 0;
  while (main < views->count - 1 && views->view[main].role != TN__OUTLINE_REDUCE) main++;
  for (int b = 0; b < views->count; b++) {
    tn__outline_view *v = &views->view[b];
    while (v->shared < v->loop_count && v->shared < views->view[main].loop_count &&
           ids[b][v->shared] == ids[main][v->shared])
      v->shared++;
    v->with_last = 0;
    while (b > 0 && v->with_last < v->loop_count && v->with_last < views->view[b - 1].loop_count &&
           ids[b][v->with_last] == ids[b - 1][v->with_last])
      v->with_last++;
  }
}

/* ---- of an outline ----------------------------------------------------------------------------------------------- */

/* Where what the body accesses has its room, with the loops `path` around it. */
static void find_rooms(const tn__outline *o, const tn__outline_body *body, const int *path, int count, rooms *out) {
  for (int a = 0; a < body->nest.access_count; a++) {
    out->outside[a] = 0;
    for (int q = 0; q < o->stage_count; q++)
      for (int l = 0; l < count && o->place[q] > 0 && o->facts[q]->tensor == body->tensor[a]; l++)
        if (path[l] == o->place[q]) out->outside[a] = l + 1;
  }
}

static void add_body(const tn__outline *o, const tn__outline_body *body, uint32_t without, const axis_steps *steps,
                     const int *path, tn__outline_view *v) {
  rooms room;
  find_rooms(o, body, path, v->loop_count, &room);
  add_accesses(body, without, steps, &room, v);
}

static void find_results(const tn__outline_facts *facts, const tn__outline_node *block, tn__outline_view *v) {
  v->combining = (tn__outline_combining){0};
  if (block->role == TN__OUTLINE_REDUCE || block->role == TN__OUTLINE_COMBINE) v->combining = facts->combining;
  v->results = facts->results;
  for (int r = 0; r < facts->results; r++) v->bytes[r] = facts->bytes[r];
  if (block->role != TN__OUTLINE_COPY) return;
  const tn__nest *nest = &facts->copy[block->copy].nest;
  v->results = 1;
  for (int a = 0; a < nest->access_count; a++)
    if (nest->access[a].store) v->bytes[0] = nest->access[a].element;
}

static void view_block(const tn__outline *o, int node, const int *path, tn__outline_view *v, const void **ids) {
  const tn__outline_node *block = &o->node[node];
  const tn__outline_facts *facts = o->facts[block->stage];
  int count = v->loop_count;
  axis_steps steps = {0};
  uint32_t whole = 0;
  v->role = block->role;
  v->near = block->near;
  v->turned = false;
  v->shared = v->access_count = v->work_count = 0;
  find_results(facts, block, v);
  for (int l = 0; l < count; l++) {
    const tn__outline_node *loop = &o->node[path[l]];
    v->loops[l] =
        (tn__outline_view_loop){loop->kind, loop->extent, tn__outline_reduces(facts, loop), (double)loop->extent};
    if (loop->kind == TN__LOOP_VECTORIZED || loop->partial) whole |= 1u << l;
    for (int x = 0; x < facts->reduce.nest.axis_count && loop->axis >= 0; x++)
      if (facts->axis[x] == loop->axis) steps.step[x][l] = loop->step;
    ids[l] = loop;
  }
  const tn__nest *nest = &facts->reduce.nest;
  find_trips(v, &steps, nest->extent, nest->axis_count, whole);
  if (block->role == TN__OUTLINE_COPY) {
    uint32_t results = o->node[o->last[block->stage]].near ? facts->results_read : 0;
    add_body(o, &facts->copy[block->copy], results, &steps, path, v);
    add_works(&facts->copy[block->copy], &steps, facts->spatial, v);
    return;
  }
  uint32_t without = 0; /* what is left are the reduction's own terms, and the results where they are not near */
  for (int a = 0; a < nest->access_count; a++)
    if (nest->access[a].store ? block->near || (node != o->last[block->stage] && block->role != TN__OUTLINE_INIT)
                              : block->role != TN__OUTLINE_REDUCE)
      without |= 1u << a;
  add_body(o, &facts->reduce, without, &steps, path, v);
  if (block->role == TN__OUTLINE_REDUCE) add_works(&facts->reduce, &steps, nest->axis_count, v);
  if (block->role == TN__OUTLINE_COMBINE) {
    v->work_count = 1;
    v->works[0] = (tn__outline_work){.along = (uint32_t)((UINT64_C(1) << count) - 1), .weight = facts->combining.all};
  }
}

TN_MUST_USE static bool view_under(const tn__outline *o, int node, tn__outline_views *out,
                                   const void *ids[TN__OUTLINE_BLOCKS][TN__NEST_AXES]) {
  for (int n = o->node[node].first; n >= 0; n = o->node[n].next) {
    int path[TN__OUTLINE_NODES];
    if (!o->node[n].is_block) {
      if (!view_under(o, n, out, ids)) return false;
      continue;
    }
    int count = tn__outline_path(o, n, path);
    if (out->count == TN__OUTLINE_BLOCKS || count > TN__NEST_AXES) return false;
    tn__outline_view *v = &out->view[out->count];
    v->loop_count = count;
    view_block(o, n, path, v, ids[out->count]);
    out->count++;
  }
  return true;
}

bool tn__outline_views_of(const tn__outline *o, tn__outline_views *out) {
  const void *ids[TN__OUTLINE_BLOCKS][TN__NEST_AXES];
  out->count = 0;
  if (o->full || !view_under(o, 0, out, ids)) return false;
  find_shared(out, ids);
  return true;
}

/* ---- of a schedule ----------------------------------------------------------------------------------------------- */

/* After how many steps of the variable quotients and remainders of it change; 1 in front. Loops that were fused fall
 * apart there. */
typedef struct periods {
  const tn__var *var;
  int count;
  int64_t at[TN__NEST_AXES];
} periods;

/* Of an expression in terms of the variable, the steps after which it changes; 0: it is no quotient. */
static int64_t period_of(const tn__expr *e, const tn__var *var) {
  if (e->kind == TN__EXPR_VAR && e->value.var == var) return 1;
  if (e->kind != TN__EXPR_DIV || !tn__ir_is_int(e->args[1])) return 0;
  return tn__ir_bound_mul(period_of(e->args[0], var), e->args[1]->value.i);
}

static void see_period(const tn__expr *e, void *user) {
  periods *p = user;
  if ((e->kind != TN__EXPR_DIV && e->kind != TN__EXPR_MOD) || !tn__ir_is_int(e->args[1])) return;
  int64_t period = tn__ir_bound_mul(period_of(e->args[0], p->var), e->args[1]->value.i);
  int at = 0;
  while (at < p->count && p->at[at] < period) at++;
  if (period < 1 || p->count == TN__NEST_AXES || (at < p->count && p->at[at] == period)) return;
  memmove(&p->at[at + 1], &p->at[at], (size_t)(p->count++ - at) * sizeof p->at[0]);
  p->at[at] = period;
}

typedef struct reading {
  tn__schedule *s;
  tn__outline_price *price;
  tn__outline_views *out;
  const void *(*ids)[TN__NEST_AXES];
  int path_of[TN__NEST_AXES]; /* which loop of the path each loop of the view is a part of */
  bool told;                  /* all of it so far */
} reading;

TN_MUST_USE static int64_t value_at(const tn__schedule *s, const tn__expr *e, tn__snode *const *path, int count,
                                    const tn__snode *loop, int64_t value, bool *told) {
  const tn__var *vars[TN__MAX_LOOPS];
  const tn__expr *values[TN__MAX_LOOPS];
  int64_t number = 0;
  for (int i = 0; i < count; i++) {
    vars[i] = path[i]->var;
    values[i] = tn__ir_index(s->ir, path[i] == loop ? value : 0);
  }
  *told &= tn__outline_number(s, tn__ir_substitute(s->ir, e, vars, values, count), &number);
  return number;
}

/* Adds a loop of the schedule to the view: as many as it was fused of. */
static void read_loop(reading *r, const tn__snode *node, tn__snode *const *path, int count, int at, tn__outline_view *v,
                      axis_steps *steps, const void **ids) {
  const tn__snode *loop = path[at];
  periods p = {.var = loop->var, .count = 1, .at = {1}};
  int64_t extent;
  if (!tn__outline_number(r->s, loop->var->extent, &extent)) r->told = false;
  if (loop->prefetches.count > 0 || loop->tensor != NULL) r->told = false;
  if (loop->transposes) v->turned = !v->near;
  for (int x = 0; x < node->block.axis_count; x++) tn__te_visit(r->s->ir, node->block.axes[x].binding, see_period, &p);
  for (int i = p.count - 1; i >= 0 && r->told; i--) {
    int64_t end = i + 1 < p.count ? p.at[i + 1] : extent;
    if (v->loop_count == TN__NEST_AXES) r->told = false;
    if (!r->told) return;
    int l = v->loop_count++;
    r->path_of[l] = at;
    v->loops[l] = (tn__outline_view_loop){loop->kind, (end + p.at[i] - 1) / p.at[i], false, 0};
    v->loops[l].trips = (double)v->loops[l].extent;
    ids[l] = i == 0 ? (const void *)loop : (const void *)&loop->children.data[i];
    for (int x = 0; x < node->block.axis_count; x++) {
      const tn__expr *binding = node->block.axes[x].binding;
      if (!tn__expr_uses_var(binding, loop->var)) continue;
      int64_t zero = value_at(r->s, binding, path, count, loop, 0, &r->told);
      steps->step[x][l] = value_at(r->s, binding, path, count, loop, p.at[i], &r->told) - zero;
      if (steps->step[x][l] != 0 && node->block.axes[x].kind == TN__AXIS_REDUCE) v->loops[l].reduces = true;
    }
  }
}

static bool is_near(const tn__buffer *buffer) {
  return buffer->scope == TN__SCOPE_REGISTER || buffer->scope == TN__SCOPE_STACK;
}

/* The loop in which a tensor of the declaration has its room; NULL: it is there as a whole. */
static const tn__snode *room_of(tn__schedule *s, const tn__buffer *buffer) {
  tn__snodes users = {0};
  tn__snode *all = NULL;
  const tn__snode *folded = tn__sched_folded_in(s, buffer);
  if (folded != NULL || buffer->scope != TN__SCOPE_STACK) return folded;
  tn__sched_writers(s, buffer, &users);
  tn__sched_readers(s, buffer, &users);
  for (int i = 0; i < users.count; i++)
    all = all == NULL ? users.data[i]->parent : tn__sched_common_ancestor(all, users.data[i]);
  return all;
}

/* What the body accesses without going to memory for it: registers, and partial results. Sets where the rest has its
 * room. */
static uint32_t read_rooms(const reading *r, const tn__outline_body *body, tn__snode *const *path,
                           const tn__outline_view *v, rooms *out) {
  uint32_t without = 0;
  for (int a = 0; a < body->nest.access_count; a++) {
    const tn__buffer *buffer = body->nest.access[a].buffer;
    out->outside[a] = 0;
    if (buffer->scope == TN__SCOPE_REGISTER || (is_near(buffer) && body->tensor[a] < 0)) without |= 1u << a;
    const tn__snode *room = room_of(r->s, buffer);
    for (int l = 0; l < v->loop_count && room != NULL; l++)
      if (tn__sched_is_under(room, path[r->path_of[l]])) out->outside[a] = l + 1;
  }
  return without;
}

static tn__outline_role role_of(const tn__te *te, const tn__snode *node) {
  bool reads = false, far = false;
  for (int r = 0; r < node->block.read_count; r++) {
    if (tn__sched_writes(node, node->block.reads[r].buffer)) continue;
    reads = true;
    far |= !is_near(node->block.reads[r].buffer) || tn__outline_tensor(te, node->block.reads[r].buffer) >= 0;
  }
  if (node->combiner != NULL && node->block.init == NULL && !reads) return TN__OUTLINE_REDUCE;
  if (node->combiner != NULL) return far || !reads ? TN__OUTLINE_REDUCE : TN__OUTLINE_COMBINE;
  return reads ? TN__OUTLINE_COPY : TN__OUTLINE_INIT;
}

static void read_block(tn__snode *node, void *user) {
  reading *r = user;
  tn__snode *path[TN__MAX_LOOPS];
  tn__outline_views *out = r->out;
  if (!r->told || out->count == TN__OUTLINE_BLOCKS || node->block.axis_count > TN__NEST_AXES ||
      tn__outline_has_words(r->s, &node->block)) {
    r->told = false;
    return;
  }
  tn__outline_view *v = &out->view[out->count];
  int count = tn__sched_path(r->s, r->s->root, node, path);
  axis_steps steps = {0};
  tn__outline_body body = {0};
  *v = (tn__outline_view){.role = role_of(r->s->te, node), .results = node->block.write_count};
  const tn__buffer *made = node->block.writes[0].buffer;
  v->near = made->scope == TN__SCOPE_REGISTER || (is_near(made) && tn__outline_tensor(r->s->te, made) < 0);
  if (v->results > TN__OUTLINE_RESULTS) r->told = false;
  for (int w = 0; w < v->results && r->told; w++)
    v->bytes[w] = (int64_t)tn_dtype_size(node->block.writes[w].buffer->dtype);
  if (v->role == TN__OUTLINE_REDUCE || v->role == TN__OUTLINE_COMBINE)
    tn__outline_combiner_of(r->s, node->combiner, r->price, &v->combining);
  for (int l = 0; l < count; l++) read_loop(r, node, path, count, l, v, &steps, r->ids[out->count]);
  int64_t extents[TN__NEST_AXES];
  uint32_t whole = 0;
  for (int l = 0; l < v->loop_count; l++)
    if (v->loops[l].kind == TN__LOOP_VECTORIZED) whole |= 1u << l;
  for (int x = 0; x < node->block.axis_count && r->told; x++)
    r->told = tn__outline_number(r->s, node->block.axes[x].var->extent, &extents[x]);
  if (!r->told) return;
  find_trips(v, &steps, extents, node->block.axis_count, whole);
  tn__outline_body_of(r->s, node->name, r->price, &body);
  rooms room;
  uint32_t without = read_rooms(r, &body, path, v, &room);
  add_accesses(&body, without, &steps, &room, v);
  add_works(&body, &steps, node->block.axis_count, v);
  out->count++;
}

bool tn__outline_read(tn__schedule *s, tn__outline_price *price, tn__outline_views *out) {
  const void *ids[TN__OUTLINE_BLOCKS][TN__NEST_AXES];
  reading r = {.s = s, .price = price, .out = out, .ids = ids, .told = true};
  out->count = 0;
  /* Folds are rooms, and rows apart are read as if they were not. */
  if (s->slides.count + s->rings.count + s->overs.count > 0) return false;
  tn__sched_each_block(s->root, read_block, &r);
  if (r.told) find_shared(out, ids);
  return r.told && out->count > 0;
}
