/* What an outline needs to know of a declaration: found once, with the schedule as it was lowered. */
#include "schedule/outline/outline.h"

#include <string.h>

#include "base/dtype.h"
#include "schedule/heuristics.h"

/* ---- operations -------------------------------------------------------------------------------------------------- */

typedef struct counting {
  tn__schedule *s;
  const tn__block *block;
  tn__outline_price *price;
  tn__outline_body *out;
  tn__expr_set seen; /* results that are reduced together may share work */
} counting;

static void add_work(tn__outline_body *body, uint32_t along, double weight, double busy) {
  int at = 0;
  while (at < body->work_count && body->works[at].along != along) at++;
  if (at == TN__OUTLINE_WORKS) { /* with what differs everywhere */
    at = 0;
    body->works[at].along |= along;
  } else if (at == body->work_count) {
    body->works[body->work_count++] = (tn__outline_work){.along = along};
  }
  body->works[at].weight += weight;
  body->works[at].busy += busy;
}

static uint32_t axes_of(const counting *c, const tn__expr *e) {
  uint32_t along = 0;
  for (int x = 0; x < c->block->axis_count && x < TN__NEST_AXES; x++)
    if (tn__expr_uses_var(e, c->block->axes[x].var)) along |= 1u << x;
  return along;
}

/* Quotients and roots of numbers are one instruction, which keeps its unit busy; cycles for 32 bytes. */
static double busy_of(const tn__expr *e) {
  bool divides = e->kind == TN__EXPR_DIV && tn__dtype_is_float(e->dtype);
  bool roots = e->kind == TN__EXPR_CALL && (e->intrinsic == TN__CALL_SQRT || e->intrinsic == TN__CALL_RSQRT);
  return !divides && !roots ? 0 : e->dtype == TN_F64 ? TN__RULE_BUSY_DOUBLE : TN__RULE_BUSY_CYCLES;
}

static void count_node(const tn__expr *e, void *user) {
  counting *c = user;
  if (!tn__expr_set_add(&c->seen, e)) return;
  double busy = busy_of(e), weight = busy > 0 ? 1 : (double)c->price(e);
  bool addresses = e->dtype == TN_I64 && !tn__expr_has_load(e); /* instructions reckon addresses on the way */
  if (weight == 0 || addresses || e->kind == TN__EXPR_LOAD) return;
  add_work(c->out, axes_of(c, e), weight, busy);
  if ((e->kind != TN__EXPR_ADD && e->kind != TN__EXPR_SUB) || !tn__dtype_is_float(e->dtype)) return;
  const tn__expr *product = e->args[0]->kind == TN__EXPR_MUL ? e->args[0] : e->args[1];
  /* One instruction multiplies and adds. */
  if (product->kind == TN__EXPR_MUL) add_work(c->out, axes_of(c, product), -(double)c->price(product), 0);
}

static void count_value(const tn__expr *e, void *user) {
  counting *c = user;
  tn__te_visit(c->s->ir, e, count_node, c);
}

void tn__outline_works_of(tn__schedule *s, const tn__block *block, tn__outline_price *price, tn__outline_body *out) {
  counting c = {s, block, price, out, {.ir = s->ir}};
  out->work_count = 0;
  tn__stmt_walk_exprs(block->body, count_value, &c);
  tn__expr_set_clear(&c.seen);
}

bool tn__outline_number(const tn__schedule *s, const tn__expr *e, int64_t *out) {
  const tn__var *vars[TN__MAX_RANK];
  const tn__expr *values[TN__MAX_RANK];
  int count = tn__te_dim_count(s->te);
  if (tn__ir_as_int(e, out)) return true;
  if (count > TN__MAX_RANK) return false;
  for (int i = 0; i < count; i++) {
    vars[i] = tn__te_dim_at(s->te, i);
    values[i] = tn__ir_index(s->ir, TN__OPEN_EXTENT);
  }
  return tn__ir_as_int(tn__ir_substitute(s->ir, e, vars, values, count), out);
}

int tn__outline_tensor(const tn__te *te, const tn__buffer *buffer) {
  int count = tn__te_input_count(te), at = count;
  for (int i = 0; i < count; i++)
    if (strcmp(tn__te_input_at(te, i)->name, buffer->name) == 0) return i;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    for (int t = 0; t < stage->tensor_count; t++, at++)
      if (strcmp(stage->tensors[t]->name, buffer->name) == 0) return at;
  }
  return -1;
}

void tn__outline_body_of(tn__schedule *s, const char *block, tn__outline_price *price, tn__outline_body *out) {
  tn__nest_of_block(s, block, &out->nest);
  for (int a = 0; a < out->nest.access_count; a++)
    out->tensor[a] = tn__outline_tensor(s->te, out->nest.access[a].buffer);
  tn__outline_works_of(s, &tn__sched_block(s, "outline", block)->block, price, out);
}

/* ---- the combiner ------------------------------------------------------------------------------------------------ */

typedef struct dependence {
  const tn__te_combiner *combiner;
  tn__outline_price *price;
  double all, waiting;
} dependence;

static void count_combining(const tn__expr *e, void *user) {
  dependence *d = user;
  double cost = (double)d->price(e);
  bool waits = false;
  for (int i = 0; i < d->combiner->count; i++) waits |= tn__expr_uses_var(e, d->combiner->lhs[i]);
  d->all += cost;
  if (waits) d->waiting += cost;
}

void tn__outline_combiner_of(tn__schedule *s, const tn__te_combiner *combiner, tn__outline_price *price,
                             tn__outline_combining *out) {
  enum { MOST_WAITING = 8 };
  *out = (tn__outline_combining){0};
  for (int i = 0; i < combiner->count; i++) {
    dependence d = {.combiner = combiner, .price = price};
    tn__te_visit(s->ir, combiner->result[i], count_combining, &d);
    out->all += d.all;
    if (d.waiting > out->chain) out->chain = d.waiting;
    out->keeps_nan += tn__ir_is_float_extremum(combiner->result[i]) ? 1 : 0;
  }
  /* Comparisons beside each other don't wait for each other. */
  if (combiner->count > 1) out->chain /= 2;
  if (out->chain < 1) out->chain = 1;
  if (out->chain > MOST_WAITING) out->chain = MOST_WAITING;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void see_word(const tn__expr *e, void *user) {
  bool *found = user;
  if (e->kind == TN__EXPR_CALL)
    *found |= e->intrinsic == TN__CALL_DOT4 || e->intrinsic == TN__CALL_DOT2 || e->intrinsic == TN__CALL_SUM8;
}

typedef struct words {
  tn__ir *ir;
  bool found;
} words;

static void see_words(const tn__expr *e, void *user) {
  words *w = user;
  tn__te_visit(w->ir, e, see_word, &w->found);
}

bool tn__outline_has_words(tn__schedule *s, const tn__block *block) {
  words w = {.ir = s->ir};
  tn__stmt_walk_exprs(block->body, see_words, &w);
  return w.found;
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

static double bytes_of(const tn__buffer *buffer) {
  return (double)tn_dtype_size(buffer->dtype) * tn__ir_elements_estimate(buffer);
}

/* A copy of result `index`: what the reduction stores, as it does. */
static void find_copy(tn__outline_facts *f, int index) {
  tn__outline_body *copy = &f->copy[index];
  const tn__nest *nest = &f->reduce.nest;
  int seen = 0;
  *copy = (tn__outline_body){.nest = {.axis_count = f->spatial}};
  for (int x = 0; x < f->spatial; x++) copy->nest.extent[x] = nest->extent[x];
  for (int a = 0; a < nest->access_count; a++)
    if (nest->access[a].store && seen++ == index) {
      copy->tensor[copy->nest.access_count] = f->reduce.tensor[a];
      copy->nest.access[copy->nest.access_count++] = nest->access[a];
    }
}

/* What the epilogue does; the results are put into registers to see which of its accesses are to them. */
static void find_epilogue(tn__schedule *s, tn__outline_facts *f) {
  tn__nest near;
  tn__outline_body_of(s, f->epilogue, f->price, &f->copy[0]);
  for (int r = 0; r < f->results; r++) tn__sched_set_scope(s, f->block, r, TN__SCOPE_REGISTER);
  tn__nest_of_block(s, f->epilogue, &near);
  for (int a = 0; a < near.access_count; a++)
    if (near.access[a].near && !f->copy[0].nest.access[a].near) f->results_read |= 1u << a;
}

/* Facts of the block without what its results become; NULL where it is none that outlines are for. */
static tn__outline_facts *facts_of_block(tn__schedule *s, const char *name, tn__outline_price *price) {
  const tn__snode *node = tn__sched_block(s, "outline", name);
  const tn__block *block = &node->block;
  tn__outline_facts *f = TN__NEW(s->arena, tn__outline_facts);
  int dims[TN__MAX_RANK];
  *f = (tn__outline_facts){.block = name, .price = price, .map = node->combiner == NULL};
  if (block->axis_count > TN__NEST_AXES - 6 || block->write_count > TN__OUTLINE_RESULTS ||
      !tn__sched_identity_write(node, dims) || tn__outline_has_words(s, block))
    return NULL;
  while (f->spatial < block->axis_count && block->axes[f->spatial].kind == TN__AXIS_SPATIAL) f->spatial++;
  f->results = block->write_count;
  for (int d = 0; d < block->writes[0].buffer->rank; d++)
    if (dims[d] != d) return NULL;
  if (block->writes[0].buffer->rank != f->spatial) return NULL;
  for (int r = 0; r < f->results; r++) {
    f->bytes[r] = (int64_t)tn_dtype_size(block->writes[r].buffer->dtype);
    f->out[r] = tn__sched_is_output(s, block->writes[r].buffer);
  }
  f->tensor = f->results == 1 ? tn__outline_tensor(s->te, block->writes[0].buffer) : -1;
  if (!f->map) {
    tn__outline_combiner_of(s, node->combiner, price, &f->combining);
    f->reorderable = node->combiner->reorderable;
  }
  tn__outline_body_of(s, name, price, &f->reduce);
  for (int x = 0; x < f->reduce.nest.axis_count; x++) {
    f->axis[x] = (int16_t)x;
    if (!tn__outline_number(s, block->axes[x].var->extent, &f->reduce.nest.extent[x])) return NULL;
    if (f->reduce.nest.extent[x] < 1) return NULL;
  }
  return f;
}

/* Does another block read the result? */
static bool is_read_behind(tn__schedule *s, const char *name, int result) {
  const tn__snode *block = tn__sched_block(s, "outline", name);
  const tn__buffer *made = block->block.writes[result].buffer;
  tn__snodes users = {0};
  bool read = false;
  tn__sched_users(s, made, &users);
  for (int i = 0; i < users.count; i++) read |= users.data[i] != block && tn__sched_reads(users.data[i], made);
  return read;
}

const tn__outline_facts *tn__outline_facts_of(tn__schedule *s, const char *name, const char *epilogue,
                                              tn__outline_price *price) {
  tn__outline_facts *f = facts_of_block(s, name, price);
  if (f == NULL || f->map) return NULL;
  for (int r = 0; r < f->results; r++)
    if (f->out[r] && epilogue != NULL) return NULL;
  f->epilogue = epilogue;
  if (epilogue != NULL)
    find_epilogue(s, f);
  else
    for (int r = 0; r < f->results; r++) {
      f->out[r] = f->out[r] || is_read_behind(s, name, r);
      find_copy(f, r);
    }
  for (int i = 0; i < tn__te_input_count(s->te); i++) f->touched += bytes_of(tn__te_input_at(s->te, i));
  for (int i = 0; i < tn__te_output_count(s->te); i++) f->touched += bytes_of(tn__te_output_at(s->te, i));
  return f;
}

/* ---- several stages ---------------------------------------------------------------------------------------------- */

tn__outline_facts *tn__outline_stage_facts(tn__schedule *s, const char *block, tn__outline_price *price) {
  tn__outline_facts *f = facts_of_block(s, block, price);
  if (f == NULL || f->results != 1 || f->spatial == 0) return NULL;
  for (int x = 0; x < f->reduce.nest.axis_count; x++)
    if (f->reduce.nest.open[x]) return NULL; /* two that look alike may not be */
  if (f->map && (f->spatial != f->reduce.nest.axis_count || f->tensor < 0)) return NULL;
  f->out[0] = true; /* others want it */
  if (f->map)
    f->copy[0] = f->reduce;
  else
    find_copy(f, 0);
  return f;
}

bool tn__outline_reads(const tn__outline_facts *facts, int tensor) {
  for (int a = 0; a < facts->reduce.nest.access_count; a++)
    if (!facts->reduce.nest.access[a].store && facts->reduce.tensor[a] == tensor) return true;
  return false;
}

/* The axis of the reader that is the index of each read of the tensor in a dimension; -1: there is none. */
static int read_along(const tn__snode *reader, const tn__buffer *tensor, int dim) {
  const tn__block *b = &reader->block;
  int found = -1;
  for (int r = 0; r < b->read_count; r++) {
    if (b->reads[r].buffer != tensor) continue;
    int own = -1;
    for (int x = 0; x < b->axis_count; x++)
      if (b->reads[r].min[dim] == b->axes[x].var->self && tn__ir_is_int_value(b->reads[r].extent[dim], 1)) own = x;
    if (own < 0 || (found >= 0 && own != found)) return -1;
    found = own;
  }
  return found;
}

static void join_axes(tn__outline_facts *const *facts, int count, int from, int to) {
  for (int q = 0; q < count; q++)
    for (int x = 0; x < facts[q]->reduce.nest.axis_count; x++)
      if (facts[q]->axis[x] == from) facts[q]->axis[x] = (int16_t)to;
}

/* No stage has two axes that are one. */
static bool are_apart(tn__outline_facts *const *facts, int count) {
  for (int q = 0; q < count; q++)
    for (int x = 0; x < facts[q]->reduce.nest.axis_count; x++)
      for (int y = 0; y < x; y++)
        if (facts[q]->axis[x] == facts[q]->axis[y]) return false;
  return true;
}

bool tn__outline_join(tn__schedule *s, tn__outline_facts *const *facts, int count) {
  int next = 0;
  for (int q = 0; q < count; q++)
    for (int x = 0; x < facts[q]->reduce.nest.axis_count; x++) facts[q]->axis[x] = (int16_t)next++;
  for (int q = 0; q < count; q++) {
    const tn__buffer *tensor = tn__sched_block(s, "outline", facts[q]->block)->block.writes[0].buffer;
    for (int r = 0; r < count; r++) {
      const tn__snode *reader = tn__sched_block(s, "outline", facts[r]->block);
      if (r == q || !tn__sched_reads(reader, tensor)) continue;
      for (int d = 0; d < facts[q]->spatial; d++) {
        int x = read_along(reader, tensor, d);
        bool same = x >= 0 && facts[r]->reduce.nest.extent[x] == facts[q]->reduce.nest.extent[d];
        if (same)
          join_axes(facts, count, facts[r]->axis[x], facts[q]->axis[d]);
        else
          facts[q]->whole |= 1u << d;
      }
    }
  }
  return are_apart(facts, count);
}
