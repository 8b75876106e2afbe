/* Long reductions over the same axis to a few results of different shapes, or some of whose results are equal:
 *
 *   N[i, j] = sum(n) A[n, i] * A[n, j]      becomes    R[q] = sum(n) select(q < 1, A[n, 0] * A[n, 0],
 *   r[i] = sum(n) A[n, i] * b[n]                                     select(q < 2, A[n, 0] * A[n, 1], ...))
 *                                                      N[i, j] = R[select(2*i + j < 2, 2*i + j, 2*i + j - 1)]
 *                                                      r[i] = R[i + 3]
 *
 * where N is symmetric. All of R is computed in one pass, each result in a register of its own, so that an element
 * that several results need is loaded once. Where registers don't hold all results, there are several such
 * reductions. Factors of products come in one order, so that products of the same factors are one. Axes of all results
 * along which nothing is shared, of a batch, stay those of R; maps that only these reductions read are written out in
 * their terms, where each position chosen makes them simple. */
#include "base/dtype.h"
#include "te/internal.h"

/* Results, together; stages of a group, and how far apart they are; steps of the long axis, in vectors; passes. */
enum { MOST_RESULTS = 96, MOST_MEMBERS = 8, FARTHEST = 16, LEAST_TURNS = 8, MOST_PASSES = 4, MOST_FACTORS = 8 };
/* Nodes of all terms, and of a map that is written out in them. */
enum { MOST_NODES = 4096, MOST_OF_MAP = 64 };

typedef struct near {
  tn__ir *ir;
  const tn__var *along;
  int64_t most;
  bool moves, apart, refused;
} near;

static void see_stride(const tn__expr *e, void *user) {
  near *n = user;
  int64_t stride;
  if (e->kind != TN__EXPR_LOAD || !tn__expr_uses_var(e, n->along)) return;
  const tn__expr *flat = tn__buffer_flatten(n->ir, e->value.buffer, e->args);
  if (!tn__ir_stride_in(n->ir, flat, n->along, &stride) || stride > n->most || stride < 0) {
    n->refused = true;
    return;
  }
  n->moves |= stride > 0;
  n->apart |= stride > 1;
}

bool tn__te_reads_near(tn__ir *ir, const tn__te_stage *stage, const tn__var *along, int64_t most, bool *apart) {
  near n = {.ir = ir, .along = along, .most = most};
  for (int t = 0; t < stage->tensor_count; t++) tn__te_visit(ir, stage->values[t], see_stride, &n);
  *apart = n.apart;
  return n.moves && !n.refused;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

/* Maps before or among the members, with those written out that they read. */
typedef struct maps {
  const tn__te_stage *stage[2 * FARTHEST + 1];
  const tn__expr *value[2 * FARTHEST + 1];
  int count;
} maps;

typedef struct group {
  const tn__te *te;
  maps maps;                         /* that are written out in terms */
  int64_t most, vector_bytes, apart; /* results at once; of elements in a vector */
  int member[MOST_MEMBERS], members;
  tn__te_stage stage[MOST_MEMBERS]; /* the members, with maps written out */
  int batch;                        /* so many axes at first are no results' */
  int64_t results[MOST_MEMBERS];
  /* Different results, and of each position of each member which one it is. */
  const tn__expr *term[MOST_RESULTS];
  int terms, term_of[MOST_MEMBERS][MOST_RESULTS], passes;
  int place;
} group;

static const tn__te_stage *member_at(const group *g, int m) { return &g->stage[m]; }

/* The value of a map in the place of a load of it. */
static const tn__expr *write_out(tn__ir *ir, const tn__expr *e, void *user) {
  const maps *m = user;
  for (int i = 0; i < m->count && e->kind == TN__EXPR_LOAD; i++)
    if (m->stage[i]->tensors[0] == e->value.buffer)
      return tn__ir_substitute(ir, m->value[i], m->stage[i]->axes.var, e->args, e->arg_count);
  return NULL;
}

static void see_call(const tn__expr *e, void *user) {
  bool *calls = user;
  *calls |= e->kind == TN__EXPR_CALL || e->kind == TN__EXPR_DIV;
}

/* The small maps around a stage, none of which takes functions: these are better computed before. */
static void find_maps(const tn__te *te, int around, maps *out) {
  out->count = 0;
  for (int s = around > FARTHEST ? around - FARTHEST : 0; s < te->stages.count && s <= around + FARTHEST; s++) {
    const tn__te_stage *stage = te->stages.data[s];
    bool calls = false;
    if (stage->kind != TN__TE_COMPUTE || stage->hint != TN__TE_ANYWHERE || stage->step_of != NULL) continue;
    if (stage->tensor_count != 1 || tn__te_is_output(te, stage->tensors[0])) continue;
    const tn__expr *value = tn__expr_rewrite(te->ir, stage->values[0], write_out, out);
    tn__te_visit(te->ir, value, see_call, &calls);
    if (calls || tn__expr_size(value) > MOST_OF_MAP) continue;
    out->stage[out->count] = stage;
    out->value[out->count++] = value;
  }
}

/* The stage with maps written out. */
static tn__te_stage with_maps(group *g, int number) {
  tn__te_stage stage = *g->te->stages.data[number];
  if (stage.kind == TN__TE_REDUCE && stage.tensor_count == 1)
    stage.values[0] = tn__expr_rewrite(g->te->ir, stage.values[0], write_out, &g->maps);
  return stage;
}

/* How many results a reduction has behind `batch` axes that may be one of a group; 0: it may not. */
static int64_t results_of(const tn__te_stage *stage, int batch) {
  int64_t extent, results = 1;
  if (stage->kind != TN__TE_REDUCE || stage->step_of != NULL || stage->hint != TN__TE_ANYWHERE) return 0;
  if (!stage->combiner->reorderable || stage->tensor_count != 1 || stage->reduce_axes.count == 0) return 0;
  for (int r = 0; r < stage->reduce_axes.count; r++) {
    const tn__var *var = stage->reduce_axes.var[r];
    if (!tn__ir_as_int(var->extent, &extent) || extent < 1) return 0;
    if (var->min != NULL && !tn__ir_is_int_value(var->min, 0)) return 0;
  }
  for (int a = batch; a < stage->axes.count; a++) {
    if (!tn__ir_as_int(stage->axes.var[a]->extent, &extent) || extent < 1 || extent > MOST_RESULTS) return 0;
    results *= extent;
    if (results > MOST_RESULTS) return 0;
  }
  return results;
}

/* Is there an axis of the reduction along which vectors of all terms are near? The same is asked of what comes of
 * it when its schedule is chosen. */
static bool has_long_axis(const group *g, const tn__te_stage *const *stages, int count) {
  const int64_t lanes = g->vector_bytes / (int64_t)tn_dtype_size(stages[0]->tensors[0]->dtype);
  for (int r = 0; r < stages[0]->reduce_axes.count; r++) {
    bool all = lanes >= 4, apart;
    int64_t extent;
    for (int i = 0; i < count && all; i++) {
      const tn__var *along = stages[i]->reduce_axes.var[r];
      all = tn__ir_as_int(along->extent, &extent) && extent >= LEAST_TURNS * lanes &&
            tn__te_reads_near(g->te->ir, stages[i], along, g->apart, &apart);
    }
    if (all) return true;
  }
  return false;
}

typedef struct sharing {
  const tn__var *axis;
  bool shared, moves; /* by positions of the axis; something moves with it */
} sharing;

static void see_axis(const tn__expr *e, void *user) {
  sharing *s = user;
  if (e->kind != TN__EXPR_LOAD) return;
  bool moves = tn__expr_uses_var(e, s->axis);
  s->moves |= moves;
  s->shared |= !moves;
}

/* How many of the first axes something that terms read moves with; up to the first along which they share something
 * and all results could be together, unless `shared` ones count. */
static int moving_axes(tn__ir *ir, const tn__te_stage *stage, bool shared) {
  for (int a = 0; a < stage->axes.count; a++) {
    sharing s = {.axis = stage->axes.var[a]};
    for (int t = 0; t < stage->tensor_count; t++) tn__te_visit(ir, stage->values[t], see_axis, &s);
    if (!s.moves || (s.shared && !shared && results_of(stage, a) > 0)) return a;
  }
  return stage->axes.count;
}

/* How many of the first axes are those of a batch by themselves: nothing that terms read is the same for several of
 * their positions, or there are too many positions. */
static int batch_of(tn__ir *ir, const tn__te_stage *stage) { return moving_axes(ir, stage, false); }

static bool same_batch(const group *g, const tn__te_stage *a, const tn__te_stage *b) {
  if (b->axes.count < g->batch || batch_of(g->te->ir, b) < g->batch) return false;
  for (int i = 0; i < g->batch; i++)
    if (a->axes.var[i]->extent != b->axes.var[i]->extent) return false;
  return true;
}

static bool same_combiner(tn__ir *ir, const tn__te_combiner *a, const tn__te_combiner *b) {
  const tn__var *from[] = {b->lhs[0], b->rhs[0]};
  const tn__expr *to[] = {a->lhs[0]->self, a->rhs[0]->self};
  return a->identity[0] == b->identity[0] && a->result[0]->dtype == b->result[0]->dtype &&
         tn__ir_substitute(ir, b->result[0], from, to, 2) == a->result[0];
}

typedef struct common {
  const tn__te_stage *with;
  bool found;
} common;

static void see_buffer(const tn__expr *e, void *user) {
  common *c = user;
  if (e->kind == TN__EXPR_LOAD) c->found |= tn__expr_uses_buffer(c->with->values[0], e->value.buffer);
}

/* The place where all members may be: of the first, if none needs anything from between, or of the last, if nothing
 * between needs one of them; -1: neither. */
static int place_of_all(const group *g) {
  const int first = g->member[0], last = g->member[g->members - 1];
  bool early = true, late = true;
  for (int m = 0; m < g->members; m++) {
    const int at = g->member[m];
    for (int s = first; s < at && early; s++) early = !tn__te_reads_of(g->te, member_at(g, m), g->te->stages.data[s]);
    for (int s = at + 1; s <= last && late; s++) late = !tn__te_reads_of(g->te, g->te->stages.data[s], member_at(g, m));
  }
  return early ? first : late ? last : -1;
}

/* Adds a stage to the group where it fits to those that are there. */
static void add_member(group *g, int number) {
  const tn__te_stage with = with_maps(g, number), *stage = &with, *first = member_at(g, 0);
  const tn__te_stage *both[] = {first, stage};
  int64_t results = results_of(stage, g->batch), before = 0;
  if (results == 0 || g->members == MOST_MEMBERS || stage->tensors[0]->dtype != first->tensors[0]->dtype) return;
  for (int m = 0; m < g->members; m++) before += g->results[m];
  if (before + results > MOST_RESULTS || !tn__te_same_extents(&stage->reduce_axes, &first->reduce_axes)) return;
  if (!same_batch(g, first, stage) || !same_combiner(g->te->ir, first->combiner, stage->combiner) ||
      !has_long_axis(g, both, 2))
    return;
  common c = {.found = false};
  for (int m = 0; m < g->members && !c.found; m++) {
    c.with = member_at(g, m);
    tn__te_visit(g->te->ir, stage->values[0], see_buffer, &c);
  }
  if (!c.found) return;
  g->member[g->members] = number;
  g->stage[g->members] = with;
  g->results[g->members++] = results;
  if (place_of_all(g) < 0) g->members--;
}

/* ---- terms ------------------------------------------------------------------------------------------------------- */

/* The factors of a product; false where they are too many. */
TN_MUST_USE static bool flatten(const tn__expr *e, const tn__expr **factors, int *count) {
  if (e->kind == TN__EXPR_MUL) return flatten(e->args[0], factors, count) && flatten(e->args[1], factors, count);
  if (*count == MOST_FACTORS) return false;
  int at = (*count)++;
  for (; at > 0 && tn__expr_compare(e, factors[at - 1]) < 0; at--) factors[at] = factors[at - 1];
  factors[at] = e;
  return true;
}

/* Products with their factors in order: of equal products there is one. */
static const tn__expr *order_factors(tn__ir *ir, const tn__expr *e, void *user) {
  const tn__expr *factors[MOST_FACTORS];
  int count = 0;
  (void)user;
  if (e->kind != TN__EXPR_MUL || !tn__expr_has_load(e) || !flatten(e, factors, &count)) return NULL;
  const tn__expr *product = factors[0];
  for (int i = 1; i < count; i++) product = tn__ir_mul(ir, product, factors[i]);
  return product;
}

/* The position that has a number among all of the axes behind the batch's, the last one fastest. */
static void position_of(tn__ir *ir, const tn__te_axes *axes, int batch, int64_t number, const tn__expr **at) {
  for (int a = axes->count - 1; a >= batch; a--) {
    int64_t extent = tn__ir_int_or(axes->var[a]->extent, 1);
    at[a] = tn__ir_index(ir, number % extent);
    number /= extent;
  }
}

/* Terms of one member's results, over the axes of the first member's reduction. */
static void collect_terms(group *g, int m) {
  tn__ir *ir = g->te->ir;
  const tn__te_stage *stage = member_at(g, m);
  const tn__te_axes *reduce = &member_at(g, 0)->reduce_axes, *first = &member_at(g, 0)->axes;
  for (int p = 0; p < g->results[m]; p++) {
    const tn__expr *to[2 * TN__MAX_RANK];
    const tn__var *from[2 * TN__MAX_RANK];
    int count = stage->axes.count, q = 0;
    position_of(ir, &stage->axes, g->batch, p, to);
    for (int a = 0; a < count; a++) from[a] = stage->axes.var[a];
    for (int a = 0; a < g->batch; a++) to[a] = first->index[a];
    for (int r = 0; r < reduce->count; r++) {
      from[count] = stage->reduce_axes.var[r];
      to[count++] = reduce->index[r];
    }
    const tn__expr *term = tn__ir_substitute(ir, stage->values[0], from, to, count);
    term = tn__expr_rewrite(ir, term, order_factors, NULL);
    while (q < g->terms && g->term[q] != term) q++;
    if (q == g->terms) g->term[g->terms++] = term;
    g->term_of[m][p] = q;
  }
}

static int64_t passes_for(const group *g, int64_t results) { return (results + g->most - 1) / g->most; }

/* Is it less to do than what the members do for themselves? Where all have one shape they may be tensors of one
 * reduction (siblings.c). */
static bool is_worth_it(const group *g) {
  enum { MOST_TENSORS = 4 };
  int64_t results = 0, passes = 0, nodes = 0;
  bool one_shape = g->members > 1 && g->members <= MOST_TENSORS;
  for (int m = 0; m < g->members; m++) {
    results += g->results[m];
    passes += passes_for(g, g->results[m]);
    one_shape &= tn__te_same_extents(&member_at(g, m)->axes, &member_at(g, 0)->axes);
  }
  for (int q = 0; q < g->terms; q++) nodes += tn__expr_size(g->term[q]);
  if (g->terms < 2 || g->passes > MOST_PASSES || nodes > MOST_NODES || one_shape) return false;
  return g->passes < passes || (g->terms < results && g->passes == passes);
}

static bool find_batched(group *g, int first, int batch) {
  const tn__te *te = g->te;
  g->members = 1;
  g->terms = 0;
  g->member[0] = first;
  g->batch = batch;
  g->results[0] = results_of(&g->stage[0], batch);
  if (g->results[0] == 0 || batch == TN__MAX_RANK) return false;
  for (int s = first + 1; s < te->stages.count && s <= first + FARTHEST; s++) add_member(g, s);
  for (int m = 0; m < g->members; m++) collect_terms(g, m);
  g->passes = (int)passes_for(g, g->terms);
  g->place = place_of_all(g);
  return is_worth_it(g);
}

/* The stage is a member of the group, or a map that its terms have written out. */
static bool is_inside(const group *g, const tn__te_stage *stage) {
  for (int m = 0; m < g->members; m++)
    if (g->stage[m].tensors[0] == stage->tensors[0]) return true;
  for (int i = 0; i < g->maps.count; i++)
    if (g->maps.stage[i] == stage) return true;
  return false;
}

/* Keeps the maps that members read, by way of each other, too; false where something else reads one of them. */
static bool owns_maps(group *g) {
  bool own[2 * FARTHEST + 1] = {false}, all = true;
  int kept = 0;
  for (int i = g->maps.count - 1; i >= 0; i--) {
    for (int m = 0; m < g->members; m++)
      own[i] |= tn__te_reads_of(g->te, g->te->stages.data[g->member[m]], g->maps.stage[i]);
    for (int r = i + 1; r < g->maps.count; r++)
      own[i] |= own[r] && tn__te_reads_of(g->te, g->maps.stage[r], g->maps.stage[i]);
  }
  for (int i = 0; i < g->maps.count; i++) {
    if (!own[i]) continue;
    g->maps.stage[kept] = g->maps.stage[i];
    g->maps.value[kept++] = g->maps.value[i];
  }
  g->maps.count = kept;
  for (int s = 0; s < g->te->stages.count && all && kept > 0; s++) {
    const tn__te_stage *stage = g->te->stages.data[s];
    for (int i = 0; i < kept && all; i++) all = is_inside(g, stage) || !tn__te_reads_of(g->te, stage, g->maps.stage[i]);
  }
  return all;
}

/* What shares nothing along an axis may yet be together with others that do, so smaller batches are tried, too; and
 * larger ones, of which others have more results. */
static bool find_batch(group *g, int first) {
  const tn__te_stage *stage = &g->stage[0];
  if (results_of(stage, stage->axes.count) == 0 || !has_long_axis(g, &stage, 1)) return false;
  const int own = batch_of(g->te->ir, stage), most = moving_axes(g->te->ir, stage, true);
  for (int batch = own; batch >= 0; batch--)
    if (find_batched(g, first, batch)) return true;
  for (int batch = own + 1; batch <= most; batch++)
    if (find_batched(g, first, batch)) return true;
  return false;
}

/* The group of which the stage is the first member: with the maps written out that only its members read, or with none.
 */
TN_MUST_USE static bool find_group(const tn__te *te, int first, const group *limits, group *g) {
  if (results_of(te->stages.data[first], te->stages.data[first]->axes.count) == 0) return false;
  *g = *limits;
  g->te = te;
  find_maps(te, first, &g->maps);
  g->stage[0] = with_maps(g, first);
  if (g->maps.count > 0 && find_batch(g, first) && owns_maps(g)) return true;
  g->maps.count = 0;
  g->stage[0] = *te->stages.data[first];
  return find_batch(g, first);
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

/* The first result of a pass: passes have as many each, or one less. */
static int start_of(const group *g, int pass) { return (int)((int64_t)g->terms * pass / g->passes); }

/* The term that is chosen among those from `low` up to `high` by a position. */
static const tn__expr *choose_term(const group *g, const tn__expr *q, int start, int low, int high) {
  if (high - low == 1) return g->term[low];
  int middle = low + (high - low) / 2;
  const tn__expr *lower = choose_term(g, q, start, low, middle);
  const tn__expr *upper = choose_term(g, q, start, middle, high);
  const tn__expr *is_lower = tn__ir_lt(g->te->ir, q, tn__ir_index(g->te->ir, middle - start));
  return tn__ir_select(g->te->ir, is_lower, lower, upper);
}

/* Of each pass one reduction; gives their tensors. */
static void reduce_together(tn__te *te, const group *g, const tn__te_stage *first, const tn__buffer **made) {
  for (int pass = 0; pass < g->passes; pass++) {
    const int start = start_of(g, pass), end = start_of(g, pass + 1);
    const tn__expr *extents[TN__MAX_RANK] = {NULL};
    for (int a = 0; a < g->batch; a++) extents[a] = first->axes.var[a]->extent;
    extents[g->batch] = tn__ir_index(te->ir, end - start);
    const tn__te_axes axes = tn__te_axes_create(te, "q", g->batch + 1, extents);
    const tn__expr *term = choose_term(g, axes.index[g->batch], start, start, end);
    term = tn__ir_substitute(te->ir, term, first->axes.var, axes.index, g->batch);
    const char *name = tn__arena_printf(te->arena, "%s.together", first->tensors[0]->name);
    for (int i = 2; tn__te_has_name(te, name); i++)
      name = tn__arena_printf(te->arena, "%s.together%d", first->tensors[0]->name, i);
    tn__te_reduce_as(te, &name, &axes, &first->reduce_axes, first->combiner, &term, &made[pass]);
  }
}

/* What was made for position `at` of a member, whose number is one of those from `low` up to `high`. */
static const tn__expr *read_result(const group *g, const tn__buffer *const *made, const int *term_of,
                                   const tn__te_axes *axes, const tn__expr *at, int low, int high) {
  tn__ir *ir = g->te->ir;
  int pass = 0, middle = low + 1;
  while (term_of[low] >= start_of(g, pass + 1)) pass++;
  while (middle < high && term_of[middle] == term_of[low] + middle - low && term_of[middle] < start_of(g, pass + 1))
    middle++;
  const tn__expr *indices[TN__MAX_RANK] = {NULL};
  for (int a = 0; a < g->batch; a++) indices[a] = axes->index[a];
  indices[g->batch] = middle - low == 1 ? tn__ir_index(ir, term_of[low] - start_of(g, pass))
                                        : tn__ir_add_i(ir, at, term_of[low] - start_of(g, pass) - low);
  const tn__expr *own = tn__ir_load(ir, made[pass], indices);
  if (middle == high) return own;
  const tn__expr *others = read_result(g, made, term_of, axes, at, middle, high);
  return tn__ir_select(ir, tn__ir_lt(ir, at, tn__ir_index(ir, middle)), own, others);
}

/* Takes the members away, and the maps that are written out; returns how many of them stood before `place`. */
static int remove_stages(tn__te *te, const group *g, int place) {
  int kept = 0, before = 0;
  for (int s = 0; s < te->stages.count; s++) {
    if (!is_inside(g, te->stages.data[s]))
      te->stages.data[kept++] = te->stages.data[s];
    else if (s < place)
      before++;
  }
  te->stages.count = kept;
  return before;
}

static void put_together(tn__te *te, const group *g) {
  const tn__buffer *made[MOST_PASSES] = {NULL};
  const int place = g->place - remove_stages(te, g, g->place), before = te->stages.count;
  reduce_together(te, g, member_at(g, 0), made);
  for (int m = 0; m < g->members; m++) {
    const tn__te_axes *axes = &member_at(g, m)->axes;
    const tn__expr *at = tn__ir_index(te->ir, 0);
    for (int a = g->batch; a < axes->count; a++) {
      const tn__expr *rows = tn__ir_mul(te->ir, at, axes->var[a]->extent);
      at = tn__ir_add(te->ir, rows, axes->index[a]);
    }
    const tn__expr *value = read_result(g, made, g->term_of[m], axes, at, 0, (int)g->results[m]);
    tn__te_define(te, axes, NULL, member_at(g, m)->tensors[0], value);
  }
  tn__te_move_before(te, place, te->stages.count - before);
}

const tn__te *tn__te_together(const tn__te *te, int64_t most, int64_t vector_bytes, int64_t apart) {
  const group limits = {.most = most, .vector_bytes = vector_bytes, .apart = apart};
  tn__te *copy = NULL;
  group *g = TN__NEW(te->arena, group);
  for (int s = 0; s < te->stages.count; s++) {
    if (!find_group(te, s, &limits, g)) continue;
    if (copy == NULL) {
      te = copy = tn__te_copy(te, te->ir);
      if (!find_group(te, s, &limits, g)) continue;
    }
    put_together(copy, g);
  }
  return te;
}
