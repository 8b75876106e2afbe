/* What an outline needs to know of a declaration: found once, with the schedule as it was lowered. */
#include "schedule/outline/outline.h"

#include "base/dtype.h"

/* ---- operations -------------------------------------------------------------------------------------------------- */

typedef struct counting {
  tn__schedule *s;
  const tn__block *block;
  tn__outline_price *price;
  tn__outline_body *out;
} counting;

static void add_work(tn__outline_body *body, uint32_t along, double weight) {
  int at = 0;
  while (at < body->work_count && body->works[at].along != along) at++;
  if (at == TN__OUTLINE_WORKS) { /* with what differs everywhere */
    at = 0;
    body->works[at].along |= along;
  } else if (at == body->work_count) {
    body->works[body->work_count++] = (tn__outline_work){.along = along};
  }
  body->works[at].weight += weight;
}

static uint32_t axes_of(const counting *c, const tn__expr *e) {
  uint32_t along = 0;
  for (int x = 0; x < c->block->axis_count && x < TN__NEST_AXES; x++)
    if (tn__expr_uses_var(e, c->block->axes[x].var)) along |= 1u << x;
  return along;
}

static void count_node(const tn__expr *e, void *user) {
  const counting *c = user;
  double weight = (double)c->price(e);
  bool addresses = e->dtype == TN_I64 && !tn__expr_has_load(e); /* instructions reckon addresses on the way */
  if (weight == 0 || addresses || e->kind == TN__EXPR_LOAD) return;
  add_work(c->out, axes_of(c, e), weight);
  if ((e->kind != TN__EXPR_ADD && e->kind != TN__EXPR_SUB) || !tn__dtype_is_float(e->dtype)) return;
  const tn__expr *product = e->args[0]->kind == TN__EXPR_MUL ? e->args[0] : e->args[1];
  /* One instruction multiplies and adds. */
  if (product->kind == TN__EXPR_MUL) add_work(c->out, axes_of(c, product), -(double)c->price(product));
}

static void count_value(const tn__expr *e, void *user) {
  const counting *c = user;
  tn__te_visit(c->s->ir, e, count_node, user);
}

void tn__outline_works_of(tn__schedule *s, const tn__block *block, tn__outline_price *price, tn__outline_body *out) {
  counting c = {s, block, price, out};
  out->work_count = 0;
  tn__stmt_walk_exprs(block->body, count_value, &c);
}

void tn__outline_body_of(tn__schedule *s, const char *block, tn__outline_price *price, tn__outline_body *out) {
  tn__nest_of_block(s, block, &out->nest);
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

static void find_combiner(tn__schedule *s, const tn__te_combiner *combiner, tn__outline_facts *f) {
  enum { MOST_WAITING = 8 };
  for (int i = 0; i < combiner->count; i++) {
    dependence d = {.combiner = combiner, .price = f->price};
    tn__te_visit(s->ir, combiner->result[i], count_combining, &d);
    f->combine += d.all;
    if (d.waiting > f->chain) f->chain = d.waiting;
  }
  /* Comparisons beside each other don't wait for each other. */
  if (combiner->count > 1) f->chain /= 2;
  if (f->chain < 1) f->chain = 1;
  if (f->chain > MOST_WAITING) f->chain = MOST_WAITING;
  f->reorderable = combiner->reorderable;
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
    if (nest->access[a].store && seen++ == index) copy->nest.access[copy->nest.access_count++] = nest->access[a];
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

const tn__outline_facts *tn__outline_facts_of(tn__schedule *s, const char *name, const char *epilogue,
                                              tn__outline_price *price) {
  const tn__snode *node = tn__sched_block(s, "outline", name);
  const tn__block *block = &node->block;
  tn__outline_facts *f = TN__NEW(s->arena, tn__outline_facts);
  int dims[TN__MAX_RANK];
  *f = (tn__outline_facts){.block = name, .epilogue = epilogue, .price = price};
  if (node->combiner == NULL || block->axis_count > TN__NEST_AXES - 6 || !tn__sched_identity_write(node, dims))
    return NULL;
  while (f->spatial < block->axis_count && block->axes[f->spatial].kind == TN__AXIS_SPATIAL) f->spatial++;
  f->results = block->write_count;
  for (int d = 0; d < block->writes[0].buffer->rank; d++)
    if (dims[d] != d) return NULL;
  if (block->writes[0].buffer->rank != f->spatial) return NULL;
  for (int r = 0; r < f->results; r++) {
    f->bytes[r] = (int64_t)tn_dtype_size(block->writes[r].buffer->dtype);
    f->out[r] = tn__sched_is_output(s, block->writes[r].buffer);
    if (f->out[r] && epilogue != NULL) return NULL;
  }
  find_combiner(s, node->combiner, f);
  tn__outline_body_of(s, name, price, &f->reduce);
  for (int x = 0; x < f->reduce.nest.axis_count; x++)
    if (f->reduce.nest.open[x]) return NULL;
  if (epilogue != NULL)
    find_epilogue(s, f);
  else
    for (int r = 0; r < f->results; r++) find_copy(f, r);
  for (int i = 0; i < tn__te_input_count(s->te); i++) f->touched += bytes_of(tn__te_input_at(s->te, i));
  for (int i = 0; i < tn__te_output_count(s->te); i++) f->touched += bytes_of(tn__te_output_at(s->te, i));
  return f;
}
