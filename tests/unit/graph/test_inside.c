/* Core operators stay inside of their buffers: each access of their imperative stages, and each read of the declared
 * ones, with all dimensions open, is shown to be inside by the extents of the loops around it, by conditions, clamps
 * and what nodes have checked, whatever the data are. Those that need more than that stand in a list with their
 * reasons. */
#include "graph/build/outline.h"
#include "te/te.h"
#include "unit/graph_check.h"

/* ---- what is known ----------------------------------------------------------------------------------------------- */

/* A comparison of 64-bit numbers that holds where a statement is. */
typedef struct known {
  const struct known *outer;
  const tn__expr *condition;
} known;

enum { MOST_BOUND = 256, MOST_OPAQUE = 512, MOST_STEPS = 2 };

typedef struct reading {
  tn__ir *ir;
  const char *op;
  const tn__te_stage *stage;
  /* Variables and what they are: of lets their values, with loads replaced by variables of which nothing is known. */
  const tn__var *bound[MOST_BOUND];
  const tn__expr *values[MOST_BOUND];
  int bound_count;
  const tn__var *data[MOST_OPAQUE]; /* those for what came from the stage's operands */
  int data_count;
  int shown, trusted, *reasons; /* how often each reason was needed */
} reading;

static const known *also(const reading *c, const known *outer, const tn__expr *condition, bool opposite) {
  tn__ir *ir = c->ir;
  bool both = condition->dtype == TN_BOOL && condition->kind == (opposite ? TN__EXPR_OR : TN__EXPR_AND);
  if (condition->kind == TN__EXPR_NOT) return also(c, outer, condition->args[0], !opposite);
  if (both) return also(c, also(c, outer, condition->args[0], opposite), condition->args[1], opposite);
  if (condition->kind == TN__EXPR_EQ && condition->args[0]->dtype == TN_I64 && !opposite) {
    outer = also(c, outer, tn__ir_le(ir, condition->args[0], condition->args[1]), false);
    return also(c, outer, tn__ir_le(ir, condition->args[1], condition->args[0]), false);
  }
  if (condition->kind != TN__EXPR_LT && condition->kind != TN__EXPR_LE) return outer;
  if (condition->args[0]->dtype != TN_I64 || tn__expr_has_load(condition)) return outer;
  known *more = tn__arena_alloc(tn__ir_arena(ir), sizeof(*more));
  *more = (known){outer, opposite ? tn__ir_not(ir, condition) : condition};
  return more;
}

/* Is e at least 0, by ranges alone or with what is known added up? */
static bool is_nonnegative(const reading *c, const known *facts, const tn__expr *e, int steps) {
  tn__ir *ir = c->ir;
  if (tn__ir_prove(ir, tn__ir_le(ir, tn__ir_index(ir, 0), e))) return true;
  for (const known *f = facts; f != NULL && steps > 0; f = f->outer) {
    const tn__expr *condition = f->condition;
    if (tn__ir_is_false(condition)) return true;
    if (condition->kind != TN__EXPR_LT && condition->kind != TN__EXPR_LE) continue;
    const tn__expr *over = tn__ir_sub(ir, condition->args[1], condition->args[0]);
    if (condition->kind == TN__EXPR_LT) over = tn__ir_add_i(ir, over, -1);
    if (is_nonnegative(c, f->outer, tn__ir_sub(ir, e, over), steps - 1)) return true;
  }
  return false;
}

/* A part of a position that counts through several dimensions: these have elements when there is one, so the divisor is
 * positive. */
static bool is_split(const tn__expr *e) {
  int64_t divisor;
  if (e->kind != TN__EXPR_DIV && e->kind != TN__EXPR_MOD) return false;
  return e->args[1]->kind == TN__EXPR_VAR || (tn__ir_as_int(e->args[1], &divisor) && divisor > 0);
}

static bool is_above(const reading *c, const known *facts, const tn__expr *e) {
  if (e->kind == TN__EXPR_SELECT)
    return is_above(c, also(c, facts, e->args[0], false), e->args[1]) &&
           is_above(c, also(c, facts, e->args[0], true), e->args[2]);
  if (e->kind == TN__EXPR_MAX) return is_above(c, facts, e->args[0]) || is_above(c, facts, e->args[1]);
  if (e->kind == TN__EXPR_MIN) return is_above(c, facts, e->args[0]) && is_above(c, facts, e->args[1]);
  if (is_split(e) && is_above(c, facts, e->args[0])) return true;
  return is_nonnegative(c, facts, e, MOST_STEPS);
}

static bool is_below(const reading *c, const known *facts, const tn__expr *e, const tn__expr *size) {
  if (e->kind == TN__EXPR_SELECT)
    return is_below(c, also(c, facts, e->args[0], false), e->args[1], size) &&
           is_below(c, also(c, facts, e->args[0], true), e->args[2], size);
  if (e->kind == TN__EXPR_MIN) return is_below(c, facts, e->args[0], size) || is_below(c, facts, e->args[1], size);
  if (e->kind == TN__EXPR_MAX) return is_below(c, facts, e->args[0], size) && is_below(c, facts, e->args[1], size);
  bool inside = false;
  if (is_split(e) && e->kind == TN__EXPR_DIV)
    inside = is_below(c, facts, e->args[0], tn__ir_mul(c->ir, size, e->args[1]));
  else if (is_split(e))
    inside = is_nonnegative(c, facts, tn__ir_sub(c->ir, size, e->args[1]), MOST_STEPS);
  if (inside) return true;
  return is_nonnegative(c, facts, tn__ir_add_i(c->ir, tn__ir_sub(c->ir, size, e), -1), MOST_STEPS);
}

/* ---- values of variables ----------------------------------------------------------------------------------------- */

static bool from_data(const reading *c, const tn__expr *e) {
  for (int i = 0; i < c->data_count; i++)
    if (tn__expr_uses_var(e, c->data[i])) return true;
  return false;
}

/* Loads, and what becomes of floats. */
static const tn__expr *hide(tn__ir *ir, const tn__expr *e, void *user) {
  reading *c = user;
  bool load = e->kind == TN__EXPR_LOAD, rounded = e->kind == TN__EXPR_CAST && tn__dtype_is_float(e->args[0]->dtype);
  if (!load && (!rounded || !tn__dtype_is_int(e->dtype))) return NULL;
  bool data = rounded && from_data(c, e->args[0]);
  for (int i = 0; i < c->stage->extern_read_count && load; i++)
    data = data || c->stage->extern_reads[i] == e->value.buffer;
  const tn__var *var = tn__var_create(ir, load ? "loaded" : "rounded", e->dtype, NULL, NULL);
  assert_true(c->data_count < MOST_OPAQUE);
  if (data) c->data[c->data_count++] = var;
  return var->self;
}

/* The expression without variables of lets, and with variables for what it reads. */
static const tn__expr *resolved(reading *c, const tn__expr *e) {
  e = tn__ir_substitute(c->ir, e, c->bound, c->values, c->bound_count);
  return tn__expr_rewrite(c->ir, e, hide, c);
}

static void bind(reading *c, const tn__var *var, const tn__expr *value) {
  assert_true(c->bound_count < MOST_BOUND);
  c->bound[c->bound_count] = var;
  c->values[c->bound_count++] = value;
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

/* Accesses whose places the stage computed itself, in memory: no operand's contents are in them. */
static const struct {
  const char *op, *buffer, *why;
} trusted[] = {
    {"sort", "sort", "positions of merged runs: cursors between the ends of runs, and what `order` was filled with"},
    {"sort", "in0", "`order` holds 0 .. n - 1 from the start, and merging only moves them"},
    {"sort", "sort_scratch", "merged runs begin and end inside of the dimension"},
    {"sort_rows", "sort_rows", "as for sort"},
    {"sort_rows", "in0", "as for sort; the column goes from 0 up to the number of columns"},
    {"sort_rows", "sort_scratch", "as for sort"},
    {"top_k", "top_k", "places of the heap: below its size where they are followed"},
    {"top_k", "positions", "places of the heap: below its size where they are followed"},
    {"find_true", "find_true", "counts the elements that it has seen"},
    {"determinant", "rows", "the pivot is k or a row of the search's loop"},
    {"non_max_suppression", "kept", "counts kept boxes, one at most for each rank; blocks end in the room behind them"},
    {"non_max_suppression", "non_max_suppression", "counts kept boxes, one at most for each rank"},
    /* declared stages */
    {"broadcast_in_dim", "in0",
     "each dimension is 1, and then index 0 is read, or the result's: checked as one of both"},
    {"reshape", "in0",
     "both shapes have as many elements, which is checked: quotients and remainders of a position in one"},
    {"strided", "in0", "where a caller's tensor lies in its own memory, which the runtime tells"},
    {"col2im", "in0", "rows and columns are products of the blocks' sizes and numbers, which are checked"},
};
enum { TRUSTED = sizeof(trusted) / sizeof(*trusted), FIRST_DECLARED = TRUSTED - 4 };

static void check_access(reading *c, const known *facts, const tn__buffer *buffer, int dim, const tn__expr *index) {
  const tn__expr *e = resolved(c, index), *size = resolved(c, buffer->shape[dim]);
  if (is_above(c, facts, e) && is_below(c, facts, e, size)) {
    c->shown++;
    return;
  }
  for (int i = 0; i < TRUSTED && !from_data(c, e); i++)
    if (strcmp(trusted[i].op, c->op) == 0 && strcmp(trusted[i].buffer, buffer->name) == 0) {
      c->reasons[i]++;
      return;
    }
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_printf(&text, "%s: index %d of %s, ", c->op, dim, buffer->name);
  tn__expr_print_short(e, &text);
  tn__strbuf_append(&text, ", is not shown to be below ");
  tn__expr_print_short(size, &text);
  for (const known *f = facts; f != NULL; f = f->outer) {
    tn__strbuf_append(&text, "; ");
    tn__expr_print_short(f->condition, &text);
  }
  fail_msg("%s", tn__strbuf_text(&text));
}

static void check_expr(reading *c, const known *facts, const tn__expr *e) {
  if (!tn__expr_has_load(e)) return;
  bool logic = e->dtype == TN_BOOL && (e->kind == TN__EXPR_AND || e->kind == TN__EXPR_OR);
  for (int i = 0; i < e->arg_count; i++) {
    const known *here = facts;
    if (i > 0 && (e->kind == TN__EXPR_SELECT || logic)) {
      bool opposite = e->kind == TN__EXPR_OR || (e->kind == TN__EXPR_SELECT && i == 2);
      here = also(c, facts, resolved(c, e->args[0]), opposite);
    }
    check_expr(c, here, e->args[i]);
    if (e->kind == TN__EXPR_LOAD) check_access(c, facts, e->value.buffer, i, e->args[i]);
  }
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static void check_stmt(reading *c, const known *facts, const tn__stmt *s);

static void check_loop(reading *c, const known *facts, const tn__stmt *s) {
  tn__ir *ir = c->ir;
  const tn__var *var = s->as.loop.var;
  const tn__expr *min = resolved(c, var->min), *extent = resolved(c, var->extent);
  check_expr(c, facts, var->min);
  check_expr(c, facts, var->extent);
  bind(c, var, tn__var_create(ir, var->name, TN_I64, min, extent)->self);
  check_stmt(c, also(c, facts, tn__ir_le(ir, tn__ir_index(ir, 1), extent), false), s->as.loop.body);
  c->bound_count--;
}

/* What holds behind a statement that fails otherwise. */
static const known *behind(reading *c, const known *facts, const tn__stmt *s) {
  bool fails =
      s->kind == TN__STMT_IF && s->as.branch.then_body->kind == TN__STMT_FAIL && s->as.branch.else_body == NULL;
  if (fails) return also(c, facts, resolved(c, s->as.branch.condition), true);
  for (int i = 0; s->kind == TN__STMT_SEQ && i < s->as.seq.count; i++) facts = behind(c, facts, s->as.seq.items[i]);
  return facts;
}

static void check_stmt(reading *c, const known *facts, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR: check_loop(c, facts, s); return;
    case TN__STMT_STORE:
      check_expr(c, facts, s->as.store.value);
      for (int d = 0; d < s->as.store.buffer->rank; d++) {
        check_expr(c, facts, s->as.store.indices[d]);
        check_access(c, facts, s->as.store.buffer, d, s->as.store.indices[d]);
      }
      return;
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++) {
        check_stmt(c, facts, s->as.seq.items[i]);
        facts = behind(c, facts, s->as.seq.items[i]);
      }
      return;
    case TN__STMT_IF: {
      check_expr(c, facts, s->as.branch.condition);
      const tn__expr *condition = resolved(c, s->as.branch.condition);
      check_stmt(c, also(c, facts, condition, false), s->as.branch.then_body);
      if (s->as.branch.else_body != NULL) check_stmt(c, also(c, facts, condition, true), s->as.branch.else_body);
      return;
    }
    case TN__STMT_LET:
      check_expr(c, facts, s->as.let.value);
      bind(c, s->as.let.var, resolved(c, s->as.let.value));
      check_stmt(c, facts, s->as.let.body);
      c->bound_count--;
      return;
    case TN__STMT_ALLOC: check_stmt(c, facts, s->as.alloc.body); return;
    case TN__STMT_WHILE:
      check_expr(c, facts, s->as.repeat.condition);
      check_stmt(c, facts, s->as.repeat.body);
      return;
    case TN__STMT_FAIL:
    case TN__STMT_PREFETCH: return;
    default: fail_msg("%s: a statement that imperative stages do not have", c->op);
  }
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static const int64_t open3[] = {-1, -2, -3}, other3[] = {-4, -5, -6}, fresh3[] = {-7, -8, -9};

static tn__value *floats(tn__graph *g, const char *name, int rank, const int64_t *shape) {
  return input_of(g, name, TN_F32, rank, shape);
}
static tn__value *indices(tn__graph *g, const char *name, int rank, const int64_t *shape) {
  return input_of(g, name, TN_I64, rank, shape);
}
static tn__value *open(tn__graph *g) { return floats(g, "x", 3, open3); }

static void make_take(tn__graph *g) { tn__g_take(g, open(g), indices(g, "i", 2, other3), 1); }
static void make_take_along(tn__graph *g) { tn__g_take_along_axis(g, open(g), indices(g, "i", 3, other3), 1); }
static void make_gather_nd(tn__graph *g) {
  tn__g_gather_nd(g, open(g), indices(g, "i", 2, (const int64_t[]){-4, 2}), 0);
}
static void make_scatter_elements(tn__graph *g) {
  tn__g_scatter_elements(g, open(g), indices(g, "i", 3, other3), floats(g, "u", 3, fresh3), 1, "add");
}
static void make_scatter_nd(tn__graph *g) {
  tn__g_scatter_nd(g, open(g), indices(g, "i", 2, (const int64_t[]){-4, 2}), floats(g, "u", 2, fresh3), "none");
}
static void make_write_at(tn__graph *g) {
  tn__g_write_at(g, open(g), floats(g, "u", 3, (const int64_t[]){-1, 1, -3}),
                 indices(g, "i", 3, (const int64_t[]){-1, 1, 1}), 1);
}
static void make_append(tn__graph *g) {
  tn__value *x = open(g);
  tn__value *start = indices(g, "s", 0, NULL);
  int count;
  tn__g_append(g, x, floats(g, "u", 3, fresh3), 1, tn__graph_elements(g, start, &count)[0]);
}
static void make_concatenate(tn__graph *g) {
  tn__value *parts[6];
  for (int i = 0; i < 6; i++) {
    const int64_t shape[3] = {-1 - 3 * i, -2 - 3 * i, -3 - 3 * i};
    parts[i] = floats(g, tn__arena_printf(tn__graph_arena(g), "p%d", i), 3, shape);
  }
  tn__g_concatenate(g, parts, 6, 1);
}
static void make_sort(tn__graph *g) {
  tn__value *values, *order;
  tn__g_sort(g, open(g), 1, true, &values, &order);
}
static void make_top_k(tn__graph *g) {
  tn__value *values, *order, *x = open(g), *k = indices(g, "k", 0, NULL);
  int count;
  tn__g_top_k(g, x, 1, tn__graph_elements(g, k, &count)[0], true, &values, &order);
}
static void make_sort_rows(tn__graph *g) {
  tn__value *x = floats(g, "x", 2, open3);
  tn__g_node(g, "sort_rows", &x, 1, NULL, 0);
}
static void make_find_true(tn__graph *g) { tn__g_find_true(g, input_of(g, "x", TN_BOOL, 1, open3)); }
static void make_determinant(tn__graph *g) { tn__g_determinant(g, open(g)); }
static void make_suppression(tn__graph *g) {
  tn__g_non_max_suppression(g, open(g), floats(g, "s", 3, other3), indices(g, "m", 0, NULL), floats(g, "o", 0, NULL),
                            floats(g, "t", 0, NULL), false);
}
static void make_roi_align(tn__graph *g) {
  const int64_t shape[4] = {-1, -2, -3, -4}, rois[2] = {-5, -6}, batches[1] = {-7};
  for (int i = 0; i < 2; i++) {
    const tn__roi_spec spec = {
        .size = {2, 3}, .sampling_ratio = i, .spatial_scale = 0.5, .half_pixel = i == 0, .max = i == 1};
    const char *names[2][3] = {{"x", "r", "b"}, {"x1", "r1", "b1"}};
    tn__g_roi_align(g, floats(g, names[i][0], 4, shape), floats(g, names[i][1], 2, rois),
                    indices(g, names[i][2], 1, batches), &spec);
  }
}
static void make_recurrence(tn__graph *g) {
  static const struct {
    const char *kind, *activations;
    int64_t gates;
  } kinds[] = {{"lstm", "Sigmoid,Tanh,Tanh", 4}, {"gru", "Sigmoid,Tanh", 3}, {"rnn", "Tanh", 1}};
  for (int i = 0; i < 3; i++) {
    enum { HIDDEN = 37 };
    int64_t symbol = -20 * (i + 1);
    const int64_t gates = kinds[i].gates * HIDDEN, x[3] = {symbol, symbol - 1, gates}, r[2] = {HIDDEN, gates};
    const int64_t h[2] = {symbol - 3, symbol - 4}, c[2] = {symbol - 5, symbol - 6}, bias = symbol - 7,
                  peepholes = symbol - 8, lengths = symbol - 9;
    tn__arena *arena = tn__graph_arena(g);
    tn__value *operands[7] = {floats(g, tn__arena_printf(arena, "x%d", i), 3, x),
                              floats(g, tn__arena_printf(arena, "r%d", i), 2, r),
                              floats(g, tn__arena_printf(arena, "b%d", i), 1, &bias),
                              floats(g, tn__arena_printf(arena, "h%d", i), 2, h),
                              i == 0 ? floats(g, "c", 2, c) : NULL,
                              i == 0 ? floats(g, "p", 1, &peepholes) : NULL,
                              indices(g, tn__arena_printf(arena, "l%d", i), 1, &lengths)};
    const tn__attr attrs[] = {tn__attr_string(g, "kind", kinds[i].kind),
                              tn__attr_string(g, "activations", kinds[i].activations),
                              tn__attr_int(g, "reverse", i != 2), tn__attr_int(g, "linear_before_reset", 1)};
    tn__g_node(g, "recurrence", operands, 7, attrs, 4);
  }
}
static void make_cumulative(tn__graph *g) { tn__g_cumulative(g, TN__REDUCE_SUM, open(g), 1, false, false); }
static void make_winograd(tn__graph *g) {
  tn__g_winograd_input(g, floats(g, "x", 4, (const int64_t[]){-1, 4, 4, -2}), 2, (const int64_t[]){1, 1},
                       (const int64_t[]){3, 3});
}

static const struct {
  const char *op;
  void (*make)(tn__graph *g);
  bool imperative;
} makers[] = {
    {"take", make_take, true},
    {"take_along_axis", make_take_along, true},
    {"gather_nd", make_gather_nd, true},
    {"scatter_elements", make_scatter_elements, true},
    {"scatter_nd", make_scatter_nd, true},
    {"write_at", make_write_at, true},
    {"append", make_append, true},
    {"concatenate", make_concatenate, true},
    {"sort", make_sort, true},
    {"top_k", make_top_k, true},
    {"sort_rows", make_sort_rows, true},
    {"find_true", make_find_true, true},
    {"determinant", make_determinant, true},
    {"non_max_suppression", make_suppression, true},
    {"roi_align", make_roi_align, true},
    {"recurrence", make_recurrence, true},
    {"cumulative", make_cumulative, false},
    {"winograd_input", make_winograd, false},
};
enum { MAKERS = sizeof(makers) / sizeof(*makers) };

/* The checks that the node's graph keeps for the run, as the stage sees them; equal dimensions become one. */
static const known *graph_facts(reading *c, tn__graph *g, tn__lower_context *lower) {
  const known *facts = NULL;
  for (int i = 0; i < tn__graph_check_count(g); i++) {
    const tn__expr *condition = resolved(c, tn__lower_expr(lower, tn__graph_check_at(g, i)->condition));
    bool same = condition->kind == TN__EXPR_EQ && condition->args[0]->kind == TN__EXPR_VAR &&
                condition->args[1]->kind == TN__EXPR_VAR;
    if (same)
      bind(c, condition->args[1]->value.var, condition->args[0]);
    else
      facts = also(c, facts, condition, false);
  }
  return facts;
}

static int check_node(tn__graph *g, const tn__node *node, int *reasons, int *shown) {
  tn__te *te = tn__te_create(tn__ir_create(tn__graph_arena(g)), node->op->name);
  tn__lower_context *lower = tn__lower_create(g, te);
  tn__lower_node(lower, node);
  int stages = 0;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_EXTERN) continue;
    reading *c = tn__arena_alloc(tn__graph_arena(g), sizeof(*c));
    *c = (reading){.ir = tn__te_ir(te), .op = node->op->name, .stage = stage, .reasons = reasons};
    check_stmt(c, graph_facts(c, g, lower), stage->body);
    *shown += c->shown;
    stages++;
  }
  return stages;
}

/* A reason that is not needed must not stand in the list. */
static void check_reasons(const int *reasons, bool declarations) {
  for (int i = 0; i < TRUSTED; i++)
    if ((i >= FIRST_DECLARED) == declarations && reasons[i] == 0)
      fail_msg("%s: %s needs no reason any more", trusted[i].op, trusted[i].buffer);
}

static void stays_inside(void **state) {
  int reasons[TRUSTED] = {0}, shown = 0;
  for (int m = 0; m < MAKERS; m++) {
    void *own = NULL;
    int stages = 0;
    graph_set_up(&own);
    tn__graph *g = graph_of(&own);
    makers[m].make(g);
    for (int i = 0; i < tn__graph_node_count(g); i++)
      if (strcmp(tn__graph_node_at(g, i)->op->name, makers[m].op) == 0)
        stages += check_node(g, tn__graph_node_at(g, i), reasons, &shown);
    if ((stages > 0) != makers[m].imperative) fail_msg("%s has %d imperative stages", makers[m].op, stages);
    graph_tear_down(&own);
  }
  assert_true(shown > 100);
  check_reasons(reasons, false);
}

/* ---- declared stages --------------------------------------------------------------------------------------------- */

static const tn__expr *const *numbers(tn__graph *g, const char *name, int64_t count) {
  int found;
  return tn__graph_elements(g, indices(g, name, 1, &count), &found);
}

static void make_broadcast(tn__graph *g) {
  tn__g_broadcast_in_dim(g, open(g), 4, numbers(g, "s", 4), (const int64_t[]){0, 2, 3});
}
static void make_reshape(tn__graph *g) { tn__g_reshape(g, open(g), 2, numbers(g, "s", 2)); }
static void make_transpose(tn__graph *g) { tn__g_transpose(g, open(g), (const int64_t[]){2, 0, 1}); }
static void make_slice(tn__graph *g) {
  tn__g_slice(g, open(g), numbers(g, "s", 3), numbers(g, "l", 3), (const int64_t[]){1, 2, 3});
}
static void make_pad(tn__graph *g) {
  tn__value *x = open(g), *fill = floats(g, "f", 0, NULL);
  const tn__expr *const *low = numbers(g, "l", 3), *const *high = numbers(g, "h", 3);
  tn__g_pad(g, x, fill, low, high, NULL);
  tn__g_pad(g, x, fill, low, high, (const int64_t[]){1, 0, 2});
}
static void make_few(tn__graph *g) {
  tn__g_concatenate(g, (tn__value *[]){open(g), floats(g, "y", 3, other3), floats(g, "z", 3, fresh3)}, 3, 1);
}
static void make_on_device(tn__graph *g) {
  tn__value *x = open(g);
  const tn__attr there = tn__attr_string(g, "to", "cpu:0");
  const tn__attr said[] = {tn__attr_string(g, "device", "cpu:0"), tn__attr_int(g, "body", 1)};
  tn__value *copied = tn__g_node(g, "device_copy", &x, 1, &there, 1)->outputs[0];
  tn__g_node(g, "on_device", &copied, 1, said, 2);
}
static void make_reverse(tn__graph *g) { tn__g_reverse(g, open(g), (const int64_t[]){0, 2}, 2); }
static void make_relayout(tn__graph *g) {
  tn__layout panels = {.rank = 3, .parts = {{1, 4, 0}, {0, 1, 0}, {1, 1, 4}}};
  tn__value *weights = tn__g_relayout(g, input_of(g, "w", TN_F32, 2, (const int64_t[]){-2, -3}), &panels);
  const int64_t left = 1, right = 0;
  tn__g_dot_general(g, input_of(g, "x", TN_F32, 2, (const int64_t[]){-1, -2}), weights, NULL, NULL, 0, &left, &right, 1,
                    TN_F32);
}
static void make_words(tn__graph *g) {
  tn__layout words = {.rank = 3, .parts = {{2, 4, 0}, {0, 1, 0}, {1, 1, 0}}, .word = {2, 4}};
  tn__g_relayout(g, input_of(g, "x", TN_U8, 3, (const int64_t[]){-1, -2, 4}), &words);
}
static void make_reduce(tn__graph *g) { tn__g_reduce(g, TN__REDUCE_SUM, open(g), (const int64_t[]){0, 2}, 2, false); }
static void make_rows(tn__graph *g) {
  static const int64_t axes[] = {0, 2};
  tn__value *x = open(g);
  tn__g_softmax(g, x, 1, TN__SOFTMAX_DIVIDE | TN__SOFTMAX_EMPTY);
  tn__g_log_softmax(g, x, 0);
  tn__g_layer_norm(g, x, axes, 2, 1e-5, TN__NORM_RSQRT);
  tn__g_rms_norm(g, x, axes, 2, 1e-5, TN__NORM_DIVIDE);
}
static void make_argreduce(tn__graph *g) { tn__g_argreduce(g, open(g), 1, true, false, false, TN_I64); }
static void make_windows(tn__graph *g) {
  static const int64_t window[3] = {1, 3, 2}, strides[3] = {1, 2, 1}, dilations[3] = {1, 1, 2};
  const tn__expr *const *low = numbers(g, "l", 3), *const *high = numbers(g, "h", 3);
  tn__value *x = open(g);
  tn__g_reduce_window(g, TN__REDUCE_MAX, x, window, strides, dilations, low, high);
  tn__g_argreduce_window(g, x, window, strides, dilations, low, high, false, TN_I64);
}
static void make_dot(tn__graph *g) {
  static const int64_t zero = 0, last = 2, first = 1;
  tn__g_dot_general(g, open(g), floats(g, "y", 3, other3), &zero, &zero, 1, &last, &first, 1, TN_F32);
}
static void make_attention(tn__graph *g) {
  static const int64_t zero = 0, last = 2, first = 1;
  tn__value *scores =
      tn__g_dot_general(g, open(g), floats(g, "y", 3, other3), &zero, &zero, 1, &last, &first, 1, TN_F32);
  tn__value *weights = tn__g_softmax(g, scores, 2, TN__SOFTMAX_PLAIN);
  const tn__expr *dims[] = {scores->dims[0], scores->dims[2], tn__ir_index(tn__graph_ir(g), 4)};
  tn__value *values = tn__graph_input(g, "values", TN_F32, 3, dims);
  tn__value *result = tn__g_dot_general(g, weights, values, &zero, &zero, 1, &last, &first, 1, TN_F32);
  tn__node *nodes[] = {scores->producer, weights->producer, result->producer};
  tn__g_outline(g, "attention", nodes, 3);
}
/* Heads in the last dimension, of which two share keys and values. */
static void make_grouped_attention(tn__graph *g) {
  static const int64_t q[3] = {-1, -2, 24}, kv[3] = {-1, -3, 12}, mask[4] = {-1, 4, -2, -3};
  const tn__attention_spec spec = {.q = floats(g, "q", 3, q),
                                   .k = floats(g, "k", 3, kv),
                                   .v = floats(g, "v", 3, kv),
                                   .heads = 4,
                                   .groups = 2,
                                   .bias = floats(g, "b", 4, mask),
                                   .visible = input_of(g, "m", TN_BOOL, 4, mask),
                                   .cap = 20};
  tn__value *stages[4];
  const tn__value *whole = tn__g_attention(g, &spec, NULL), *parts = tn__g_attention(g, &spec, stages);
  int composites = 0;
  for (int i = 0; i < tn__graph_node_count(g); i++)
    composites += tn__g_is_op(tn__graph_node_at(g, i), "attention") && !tn__graph_node_at(g, i)->dead;
  assert_int_equal(composites, 1); /* others read what is in the second */
  assert_int_equal(whole->rank, 3);
  for (int i = 0; i < 3; i++) assert_ptr_equal(whole->dims[i], parts->dims[i]);
  for (int i = 0; i < 4; i++) assert_int_equal(tn__g_dim_const(stages[i], 1), 4);
}
static void make_convolution(tn__graph *g) {
  const tn__expr *const *low = numbers(g, "l", 2), *const *high = numbers(g, "h", 2);
  tn__conv_spec spec = {.spatial = 2, .strides = {1, 2}, .lhs_dilation = {1, 2}, .rhs_dilation = {2, 1}};
  for (int i = 0; i < 2; i++) spec.low[i] = low[i], spec.high[i] = high[i];
  for (int groups = 1; groups <= 2; groups++) {
    const int64_t x[4] = {-1, -2, -3, -4}, w[4] = {groups == 2 ? 6 : -5, -6, -7, -8};
    spec.feature_groups = groups;
    spec.flip = groups == 2;
    tn__g_convolution(g, floats(g, groups == 1 ? "x" : "x2", 4, x), floats(g, groups == 1 ? "w" : "w2", 4, w), &spec,
                      TN_F32);
  }
}
static void make_quantized(tn__graph *g) {
  static const int64_t x[4] = {-1, -2, -3, -4}, w[4] = {-5, -6, -7, -8}, zero[4] = {-5, 1, 1, 1};
  const tn__expr *const *low = numbers(g, "l", 2), *const *high = numbers(g, "h", 2);
  tn__conv_spec spec = {
      .spatial = 2, .strides = {1, 2}, .lhs_dilation = {1, 1}, .rhs_dilation = {2, 1}, .feature_groups = 1};
  for (int i = 0; i < 2; i++) spec.low[i] = low[i], spec.high[i] = high[i];
  tn__value *image = input_of(g, "x", TN_U8, 4, x), *filters = input_of(g, "w", TN_I8, 4, w);
  tn__value *bias = input_of(g, "b", TN_I32, 1, (const int64_t[]){-5});
  tn__value *each = input_of(g, "wz", TN_I8, 4, zero), *one = input_of(g, "xz", TN_U8, 0, zero);
  tn__g_quantized_convolution(g, image, one, filters, each, bias, &spec);
  tn__value *right = input_of(g, "m", TN_I8, 2, (const int64_t[]){-4, -9});
  tn__g_quantized_matmul(g, image, one, right, input_of(g, "mz", TN_I8, 1, (const int64_t[]){-9}));
}
static void make_grid_sample(tn__graph *g) {
  static const char *const modes[] = {"nearest", "linear", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                          "reflection"};
  tn__value *x = floats(g, "x", 4, (const int64_t[]){-1, -2, -3, -4}),
            *grid = floats(g, "g", 4, (const int64_t[]){-5, -6, -7, 2});
  for (int m = 0; m < 3; m++)
    for (int p = 0; p < 3; p++) tn__g_grid_sample(g, x, grid, modes[m], paddings[p], m == 1);
}
static void make_col2im(tn__graph *g) {
  static const int64_t strides[2] = {1, 2}, dilations[2] = {2, 1}, low[2] = {1, 0}, high[2] = {0, 2};
  tn__g_col2im(g, open(g), 2, numbers(g, "i", 2), numbers(g, "b", 2), strides, dilations, low, high);
}
static void make_add(tn__graph *g) {
  tn__g_node(g, "add", (tn__value *[]){open(g), floats(g, "y", 3, other3)}, 2, NULL, 0);
}

static void make_strided(tn__graph *g) {
  tn__g_strided(g, floats(g, "m", 1, open3), 2, numbers(g, "d", 2), numbers(g, "s", 2), numbers(g, "o", 1)[0]);
}
static void make_winograd_output(tn__graph *g) {
  tn__g_winograd_output(g, floats(g, "x", 6, (const int64_t[]){4, 4, -1, 3, 3, -2}), (const int64_t[]){5, 6});
}
static void make_iota(tn__graph *g) {
  tn__g_iota(g, TN_I64, 2, numbers(g, "s", 2), 1);
  tn__g_from_elements(g, TN_I64, numbers(g, "e", 3), 3, 1);
  const tn__attr attr = tn__attr_exprs(g, "shape", numbers(g, "r", 2), 2);
  tn__g_node(g, "random_bits", NULL, 0, &attr, 1);
}

/* Operators that read by declarations alone. */
static const struct {
  const char *ops;
  void (*make)(tn__graph *g);
} declared[] = {
    {"broadcast_in_dim", make_broadcast},
    {"reshape", make_reshape},
    {"transpose", make_transpose},
    {"slice", make_slice},
    {"strided", make_strided},
    {"pad", make_pad},
    {"concatenate", make_few},
    {"reverse", make_reverse},
    {"on_device device_copy", make_on_device},
    {"relayout", make_relayout},
    {"relayout", make_words},
    {"iota from_elements random_bits", make_iota},
    {"reduce", make_reduce},
    {"argreduce", make_argreduce},
    {"softmax log_softmax layer_norm rms_norm", make_rows},
    {"reduce_window argreduce_window", make_windows},
    {"cumulative", make_cumulative},
    {"dot_general", make_dot},
    {"attention", make_attention},
    {"attention", make_grouped_attention},
    {"convolution", make_convolution},
    {"quantized_matmul quantized_convolution", make_quantized},
    {"winograd_input", make_winograd},
    {"winograd_output", make_winograd_output},
    {"grid_sample", make_grid_sample},
    {"col2im", make_col2im},
    {"add", make_add},
};
enum { DECLARED = sizeof(declared) / sizeof(*declared) };

/* Axes from `first` on along dimension `scan`; they have elements when anything is read. */
static const known *axis_facts(reading *c, const known *facts, const tn__te_axes *axes, int scan, int64_t first) {
  tn__ir *ir = c->ir;
  for (int i = 0; i < axes->count; i++) {
    const tn__var *var = axes->var[i];
    const tn__expr *begin = tn__ir_index(ir, i == scan ? first : 0),
                   *extent = tn__ir_sub(ir, resolved(c, var->extent), begin);
    bind(c, var, tn__var_create(ir, var->name, TN_I64, begin, extent)->self);
    facts = also(c, facts, tn__ir_le(ir, tn__ir_index(ir, 1), extent), false);
  }
  return facts;
}

static void check_values(tn__graph *g, const tn__node *node, tn__lower_context *lower, const tn__te_stage *stage,
                         const tn__expr *const *values, int scan, int64_t first, int *reasons, int *shown) {
  reading *c = tn__arena_alloc(tn__graph_arena(g), sizeof(*c));
  *c = (reading){.ir = tn__te_ir(tn__lower_te(lower)), .op = node->op->name, .stage = stage, .reasons = reasons};
  const known *facts = axis_facts(c, graph_facts(c, g, lower), &stage->axes, scan, first);
  facts = axis_facts(c, facts, &stage->reduce_axes, -1, 0);
  for (int t = 0; t < stage->tensor_count; t++) check_expr(c, facts, values[t]);
  *shown += c->shown;
}

static void check_declared(tn__graph *g, const tn__node *node, int *reasons, int *shown) {
  tn__te *te = tn__te_create(tn__ir_create(tn__graph_arena(g)), node->op->name);
  tn__lower_context *lower = tn__lower_create(g, te);
  tn__lower_node(lower, node);
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    bool scan = stage->kind == TN__TE_SCAN;
    if (stage->kind == TN__TE_EXTERN) continue;
    if (scan) check_values(g, node, lower, stage, stage->first, -1, 0, reasons, shown);
    check_values(g, node, lower, stage, stage->values, scan ? stage->scan_axis : -1, stage->scan_depth, reasons, shown);
  }
}

/* But for what reads at indices that an imperative stage has checked. */
static void reads_inside(void **state) {
  int reasons[TRUSTED] = {0}, shown = 0;
  for (int m = 0; m < DECLARED; m++) {
    void *own = NULL;
    graph_set_up(&own);
    tn__graph *g = graph_of(&own);
    declared[m].make(g);
    for (int i = 0; i < tn__graph_node_count(g); i++) check_declared(g, tn__graph_node_at(g, i), reasons, &shown);
    graph_tear_down(&own);
  }
  check_reasons(reasons, true);
  assert_true(shown > 100);
}

/* An operator that is not here would not be looked at; element-wise ones are all declared alike. */
static void looks_at_all(void **state) {
  for (int i = 0; i < tn__op_count(); i++) {
    const tn__op *op = tn__op_at(i);
    bool found = op->op_class == TN__CLASS_ELEMENTWISE || op->lowering != TN__LOWER_DECLARE;
    for (int m = 0; m < MAKERS && !found; m++) found = strcmp(makers[m].op, op->name) == 0;
    for (int m = 0; m < DECLARED && !found; m++) found = strstr(declared[m].ops, op->name) != NULL;
    if (!found) fail_msg("%s is not looked at", op->name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(stays_inside), cmocka_unit_test(reads_inside),
                                     cmocka_unit_test(looks_at_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
