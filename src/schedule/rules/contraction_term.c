/* Terms of reductions that are more than a product of two tensors: minima of sums, distances, products of three, masks
 * and choices, numbers that are scaled first. What makes such a reduction fit for tiles in registers is what it reads,
 * not what it does with it: some of it stands still while a row's neighbour goes by, some while a column's does. */
#include "schedule/rules/contraction.h"

/* Loads of a term, and the operations in it: what takes more has enough to do with each element that it reads. */
enum { MOST_OPERATIONS = 64 };

typedef struct reading {
  const tn__buffer *own; /* what is accumulated */
  const tn__expr **loads;
  int count; /* one more than there may be where there are too many */
} reading;

static void see_load(const tn__expr *e, void *user) {
  reading *r = user;
  if (e->kind != TN__EXPR_LOAD || e->value.buffer == r->own || r->count > TN__TERM_LOADS) return;
  if (r->count < TN__TERM_LOADS) r->loads[r->count] = e;
  r->count++;
}

TN_MUST_USE static int read_loads(tn__ir *ir, const tn__expr *value, const tn__buffer *own, const tn__expr **loads) {
  reading r = {.own = own, .loads = loads};
  tn__te_visit(ir, value, see_load, &r);
  return r.count;
}

/* Does the load stand still along some axis of the reduction? */
static bool is_hoisted(const tn__expr *load, const tn__te_axes *reduce) {
  for (int a = 0; a < reduce->count; a++)
    if (!tn__ir_is_int_value(reduce->var[a]->extent, 1) && !tn__expr_uses_var(load, reduce->var[a])) return true;
  return false;
}

/* Is there a load that moves with axis `a` and not with `b`, another the other way round, and none that moves with both
 * all along the reduction? */
static bool meet(const tn__te_stage *stage, const tn__expr *const *loads, int count, int a, int b) {
  bool only_a = false, only_b = false;
  for (int i = 0; i < count; i++) {
    bool with_a = tn__expr_uses_var(loads[i], stage->axes.var[a]),
         with_b = tn__expr_uses_var(loads[i], stage->axes.var[b]);
    only_a |= with_a && !with_b;
    only_b |= with_b && !with_a;
    if (with_a && with_b && !is_hoisted(loads[i], &stage->reduce_axes)) return false;
  }
  return only_a && only_b;
}

bool tn__contraction_reuses(tn__ir *ir, const tn__te_stage *stage) {
  const tn__expr *loads[TN__TERM_LOADS];
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->reduce_axes.count == 0) return false;
  int count = read_loads(ir, stage->values[0], NULL, loads);
  if (count < 2 || count > TN__TERM_LOADS || tn__rule_cost(ir, stage->values[0]) > MOST_OPERATIONS) return false;
  for (int a = 0; a < stage->axes.count; a++)
    for (int b = 0; b < a; b++)
      if (!tn__ir_is_int_value(stage->axes.var[a]->extent, 1) && !tn__ir_is_int_value(stage->axes.var[b]->extent, 1) &&
          meet(stage, loads, count, a, b))
        return true;
  return false;
}

void tn__contraction_read_term(tn__contraction *c, const tn__expr *value) {
  c->value = value;
  c->load_count = read_loads(c->ir, value, c->sum->tensors[0], c->loads);
  if (c->load_count > TN__TERM_LOADS) tn__sched_refuse(c->s, "contraction: it reads too much");
}

bool tn__contraction_moves(const tn__contraction *c, int side, int axis) {
  const tn__var *var = c->sum->axes.var[axis], *column = c->sum->axes.var[c->column];
  if (!c->general) {
    const tn__expr *operand = side == 0 ? c->left : c->right;
    return operand != NULL && tn__expr_uses_var(operand, var);
  }
  for (int i = 0; i < c->load_count; i++)
    if (tn__expr_uses_var(c->loads[i], column) == (side == 1) && tn__expr_uses_var(c->loads[i], var)) return true;
  return false;
}

/* ---- parts that are computed before ------------------------------------------------------------------------------ */

/* Does an index depend on two axes, as in a window, so that a tensor over the axes would repeat what is read? */
static void see_window(const tn__expr *e, void *user) {
  reading *r = user;
  for (int d = 0; e->kind == TN__EXPR_LOAD && d < e->arg_count; d++)
    r->count += e->args[d]->kind != TN__EXPR_VAR && e->args[d]->kind != TN__EXPR_INT;
}

/* Is the part worth a tensor: has it something to compute, for a row that many columns meet, or the other way round? */
static bool is_worth_a_tensor(const tn__contraction *c, const tn__expr *part) {
  enum { MANY = 32 };
  reading windows = {0};
  if (tn__rule_cost(c->ir, part) == 0) return false;
  bool row = tn__expr_uses_var(part, c->sum->axes.var[c->row]);
  bool column = tn__expr_uses_var(part, c->sum->axes.var[c->column]);
  int64_t meeting = row ? c->columns : c->rows;
  tn__te_visit(c->ir, part, see_window, &windows);
  return row != column && windows.count == 0 && (meeting < 0 || meeting >= MANY);
}

/* Which of the axes that the part depends on is to be innermost: the columns, or the last one. */
static int last_of(const tn__contraction *c, const tn__expr *part) {
  const tn__te_axes *axes = &c->sum->axes, *reduce = &c->sum->reduce_axes;
  int count = 0, columns = -1;
  for (int a = 0; a < axes->count + reduce->count; a++) {
    const tn__var *var = a < axes->count ? axes->var[a] : reduce->var[a - axes->count];
    if (!tn__expr_uses_var(part, var)) continue;
    if (a == c->column) columns = count;
    count++;
  }
  return columns >= 0 ? columns : count - 1;
}

bool tn__contraction_hoist(tn__contraction *c) {
  enum { MOST_PARTS = 8 };
  int parts = 0;
  for (int index = 0; parts < MOST_PARTS; index++) {
    const tn__expr *part = tn__sched_hoistable(tn__sched_find(c->s, c->sum->name, true), index);
    if (part == NULL) break;
    if (!is_worth_a_tensor(c, part)) continue;
    tn__rule_nest(c->s, tn__sched_hoist(c->s, c->sum->name, index, last_of(c, part)), c->options);
    parts++;
    index = -1;
  }
  return parts > 0;
}

/* ---- what it takes ----------------------------------------------------------------------------------------------- */

typedef struct counting {
  const tn__contraction *c;
  tn__contraction_term *out;
  int left; /* nodes that may be looked at: shared ones are seen more than once */
} counting;

/* Rows, columns: does the expression differ from one to the next? */
static void count_node(counting *n, const tn__expr *e) {
  const tn__contraction *c = n->c;
  if (n->left-- <= 0 || e->kind == TN__EXPR_INT || e->kind == TN__EXPR_FLOAT || e->kind == TN__EXPR_VAR) return;
  bool own = e->kind == TN__EXPR_LOAD && e->value.buffer == c->sum->tensors[0];
  bool row = (c->row >= 0 && tn__expr_uses_var(e, c->sum->axes.var[c->row])) ||
             (c->more_rows >= 0 && tn__expr_uses_var(e, c->sum->axes.var[c->more_rows]));
  bool column = tn__expr_uses_var(e, c->sum->axes.var[c->column]);
  if (e->kind == TN__EXPR_LOAD) {
    if (!own) n->out->loads[row][column]++;
    return;
  }
  int64_t cost = tn__rule_cost_of_node(e);
  if (e->kind == TN__EXPR_CAST && tn_dtype_size(e->dtype) != tn_dtype_size(e->args[0]->dtype)) cost = 1;
  n->out->work[row][column] += (double)cost;
  for (int i = 0; i < e->arg_count; i++) count_node(n, e->args[i]);
}

void tn__contraction_count(const tn__contraction *c, tn__contraction_term *out) {
  *out = (tn__contraction_term){0};
  counting n = {.c = c, .out = out, .left = 16 * MOST_OPERATIONS};
  const tn__expr *value = c->value;
  count_node(&n, value);
  out->keeps_nan = tn__ir_is_float_extremum(value);
  bool fused = value->kind == TN__EXPR_ADD && tn__dtype_is_float(value->dtype) &&
               (value->args[0]->kind == TN__EXPR_MUL || value->args[1]->kind == TN__EXPR_MUL);
  if (fused && out->work[1][1] > 1) out->work[1][1]--;
}
