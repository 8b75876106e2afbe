/* The recurrence of RNN, GRU and LSTM layers, as ONNX defines them, in one imperative stage. The products with the
 * input do not depend on the state, so they come in ready (operand 0, biases included); what is left is one
 * matrix-vector product a step and the cell. */
#include <string.h>

#include "base/invariant.h"
#include "graph/internal.h"

enum { IN_X, IN_R, IN_BIAS, IN_H, IN_C, IN_PEEPHOLES, IN_LENGTHS, IN_COUNT };
/* MAX_ROWS rows are a tile of MAX_VECTORS / MAX_ROWS vectors. */
enum { LANES = 16, MAX_VECTORS = 8, MAX_ROWS = 4 };
/* Columns of R that are put side by side, of one that no second cache holds with all else, and for how many steps and
 * rows of the batch at the least: each of a few rows reads R once, and as fast where it lies. */
enum {
  PANEL = MAX_VECTORS * LANES,
  FAR_BYTES = 1 << 20,
  STEPS_TO_PACK = 8,
  ROWS_TO_PACK = 2 * MAX_ROWS,
  ROWS_AHEAD = 6
};

static int gate_count(const tn__node *node) {
  const char *kind = tn__node_string(node, "kind", "");
  return strcmp(kind, "lstm") == 0 ? 4 : strcmp(kind, "gru") == 0 ? 3 : strcmp(kind, "rnn") == 0 ? 1 : 0;
}

static const tn__value *operand(const tn__node *node, int index) {
  return index < node->input_count ? node->inputs[index] : NULL;
}

static void infer_recurrence(tn__graph *graph, tn__node *node) {
  const tn__value *x = node->inputs[IN_X], *r = node->inputs[IN_R];
  int gates = gate_count(node);
  if (gates == 0)
    tn__node_fail(graph, node, "kind \"%s\" is not one of lstm, gru, rnn", tn__node_string(node, "kind", ""));
  tn__g_require_float(graph, node, IN_X);
  int64_t hidden = tn__g_dim_const(r, 0);
  if (hidden < 1 || tn__g_dim_const(r, 1) != gates * hidden || tn__g_dim_const(x, 2) != gates * hidden)
    tn__node_fail(graph, node, "%s and %s are not the operands of %d gates", tn__value_type_text(graph, x),
                  tn__value_type_text(graph, r), gates);
  for (int i = 0; i < IN_COUNT; i++) {
    const tn__value *own = operand(node, i);
    if (own == NULL) continue;
    if (i == IN_LENGTHS)
      tn__g_require_int(graph, node, i);
    else
      tn__g_require_same_dtype(graph, node, IN_X, i);
  }
  const tn__expr *y[3] = {x->dims[0], x->dims[1], r->dims[0]};
  tn__g_set_output(graph, node, 0, x->dtype, 3, y, NULL);
  tn__g_set_output(graph, node, 1, x->dtype, 2, y + 1, NULL);
  if (gates == 4) tn__g_set_output(graph, node, 2, x->dtype, 2, y + 1, NULL);
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

typedef struct cell {
  tn__ir *ir;
  const tn__node *node;
  tn_dtype dtype, wide;
  int gates;
  int64_t hidden;
  const tn__buffer *x, *r, *bias, *h0, *c0, *peepholes, *lengths;
  const tn__buffer *y, *h, *c, *pre; /* results, and the gates' inputs [batch, gates * hidden] */
  const tn__expr *time;              /* the position that the step reads and writes */
  const tn__expr *batch;
} cell;

static const tn__expr *number(const cell *s, double value) { return tn__ir_float(s->ir, s->wide, value); }
static const tn__expr *sum(const cell *s, const tn__expr *a, const tn__expr *b) { return tn__ir_add(s->ir, a, b); }
static const tn__expr *scaled(const cell *s, const tn__expr *a, const tn__expr *b) { return tn__ir_mul(s->ir, a, b); }
static const tn__expr *call(const cell *s, tn__intrinsic f, const tn__expr *a) { return tn__ir_call1(s->ir, f, a); }

static double parameter(const cell *s, const char *name, int index, double otherwise) {
  const tn__attr *attr = tn__node_attr(s->node, name);
  return attr != NULL && index < attr->count && attr->floats[index] == attr->floats[index] ? attr->floats[index]
                                                                                           : otherwise;
}

/* Is the index-th name of the attribute activations ("Sigmoid,Tanh,Tanh") this one? */
static bool activation_is(const cell *s, int index, const char *name) {
  const char *at = tn__node_string(s->node, "activations", "");
  for (int i = 0; i < index && at != NULL; i++) {
    at = strchr(at, ',');
    if (at != NULL) at++;
  }
  if (at == NULL) return false;
  size_t length = strcspn(at, ",");
  return length == strlen(name) && memcmp(at, name, length) == 0;
}

/* Activation `index` of a; names and default parameters are ONNX's. */
static const tn__expr *activate_as_is(const cell *s, int index, const tn__expr *a) {
  tn__ir *ir = s->ir;
  const tn__expr *zero = number(s, 0), *one = number(s, 1), *negative = tn__ir_lt(ir, a, zero);
  if (activation_is(s, index, "Tanh")) return call(s, TN__CALL_TANH, a);
  if (activation_is(s, index, "Relu")) return tn__ir_max(ir, a, zero);
  if (activation_is(s, index, "Sigmoid"))
    return tn__ir_div(ir, one, sum(s, one, call(s, TN__CALL_EXP, call(s, TN__CALL_NEG, a))));
  if (activation_is(s, index, "Softsign")) return tn__ir_div(ir, a, sum(s, one, call(s, TN__CALL_ABS, a)));
  if (activation_is(s, index, "Softplus")) {
    const tn__expr *tail =
        call(s, TN__CALL_LOG1P, call(s, TN__CALL_EXP, call(s, TN__CALL_NEG, call(s, TN__CALL_ABS, a))));
    return sum(s, tn__ir_max(ir, a, zero), tail);
  }
  const tn__expr *linear = scaled(s, number(s, parameter(s, "alphas", index, 1)), a);
  if (activation_is(s, index, "Affine")) return sum(s, linear, number(s, parameter(s, "betas", index, 0)));
  if (activation_is(s, index, "LeakyRelu"))
    return tn__ir_select(ir, negative, scaled(s, number(s, parameter(s, "alphas", index, 0.01)), a), a);
  if (activation_is(s, index, "ThresholdedRelu"))
    return tn__ir_select(ir, tn__ir_lt(ir, number(s, parameter(s, "alphas", index, 1)), a), a, zero);
  if (activation_is(s, index, "ScaledTanh")) {
    const tn__expr *inner = scaled(s, number(s, parameter(s, "betas", index, 1)), a);
    return scaled(s, number(s, parameter(s, "alphas", index, 1)), call(s, TN__CALL_TANH, inner));
  }
  if (activation_is(s, index, "HardSigmoid")) {
    const tn__expr *line = sum(s, scaled(s, number(s, parameter(s, "alphas", index, 0.2)), a),
                               number(s, parameter(s, "betas", index, 0.5)));
    return tn__ir_min(ir, tn__ir_max(ir, line, zero), one);
  }
  if (activation_is(s, index, "Elu"))
    return tn__ir_select(ir, negative,
                         scaled(s, number(s, parameter(s, "alphas", index, 1)), call(s, TN__CALL_EXPM1, a)), a);
  tn__throwf(tn__ir_arena(ir)->escape, TN_UNSUPPORTED, "%s%srecurrence: the activations \"%s\" are not all known",
             s->node->origin == NULL ? "" : s->node->origin, s->node->origin == NULL ? "" : ": ",
             tn__node_string(s->node, "activations", ""));
}

/* The same for the sum of a gate, which is clipped first. */
static const tn__expr *activate(const cell *s, int index, const tn__expr *a) {
  double clip = tn__node_float(s->node, "clip", 0);
  if (clip > 0) a = tn__ir_min(s->ir, tn__ir_max(s->ir, a, number(s, -clip)), number(s, clip));
  return activate_as_is(s, index, a);
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

static const tn__expr *load1(const cell *s, const tn__buffer *buffer, const tn__expr *i) {
  return tn__ir_cast(s->ir, s->wide, tn__ir_load(s->ir, buffer, &i));
}

static const tn__expr *load2(const cell *s, const tn__buffer *buffer, const tn__expr *i, const tn__expr *j) {
  return tn__ir_cast(s->ir, s->wide, tn__ir_load(s->ir, buffer, (const tn__expr *[]){i, j}));
}

static const tn__stmt *store2(const cell *s, const tn__buffer *buffer, const tn__expr *i, const tn__expr *j,
                              const tn__expr *value) {
  return tn__ir_store(s->ir, buffer, (const tn__expr *[]){i, j}, tn__ir_cast(s->ir, buffer->dtype, value));
}

static const tn__expr *input_at(const cell *s, const tn__expr *column) {
  return tn__ir_cast(s->ir, s->wide, tn__ir_load(s->ir, s->x, (const tn__expr *[]){s->time, s->batch, column}));
}

/* ---- columns in vectors ------------------------------------------------------------------------------------------ */

/* `lanes` columns from `first` on, one of which is `column` inside of the loop of `lane`. */
typedef struct columns {
  const tn__var *lane;
  const tn__expr *column;
} columns;

static columns columns_from(const cell *s, const tn__expr *first, int64_t lanes) {
  const tn__var *lane = tn__var_create(s->ir, "v", TN_I64, tn__ir_index(s->ir, 0), tn__ir_index(s->ir, lanes));
  return (columns){lane, tn__ir_add(s->ir, first, lane->self)};
}

static const tn__stmt *in_vector(const cell *s, const columns *c, const tn__stmt *body) {
  return tn__ir_for(s->ir, c->lane, TN__LOOP_VECTORIZED, body);
}

/* The statement that `body` makes of each position of the state, in vectors and what is left. */
static const tn__stmt *over_hidden(const cell *s, const tn__stmt *(*body)(const cell *s, const tn__expr *j)) {
  tn__ir *ir = s->ir;
  int64_t whole = s->hidden / LANES, rest = s->hidden % LANES;
  const tn__var *j = tn__var_create(ir, "j", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, whole));
  columns all = columns_from(s, tn__ir_mul_i(ir, j->self, LANES), LANES);
  columns last = columns_from(s, tn__ir_index(ir, whole * LANES), rest);
  const tn__stmt *items[2];
  int count = 0;
  if (whole > 0) items[count++] = tn__ir_for(ir, j, TN__LOOP_SERIAL, in_vector(s, &all, body(s, all.column)));
  if (rest > 0) items[count++] = in_vector(s, &last, body(s, last.column));
  return tn__ir_seq(ir, items, count);
}

/* ---- the state times R ------------------------------------------------------------------------------------------- */

/* What a product covers: `rows` rows of the batch from cell.batch on and columns [first, first + count) of R. The state
 * may be multiplied by columns of `factor` before. `packed`: these columns in panels of PANEL, [panels, hidden, PANEL],
 * or NULL. */
typedef struct product {
  int rows;
  int64_t first, count;
  const tn__buffer *factor;
  int64_t factor_first;
  const tn__buffer *packed;
} product;

/* Does no second cache hold R with all else? */
static bool is_far(const cell *s) {
  return (double)tn_dtype_size(s->dtype) * (double)s->hidden * (double)s->hidden * s->gates >= FAR_BYTES;
}

static const tn__expr *row_of(const cell *s, int row) { return tn__ir_add_i(s->ir, s->batch, row); }

/* The element of R in column `lane` from column `column` of the product on. */
static const tn__expr *weight_at(const cell *s, const product *p, const tn__expr *k, const tn__expr *column,
                                 const tn__expr *lane) {
  tn__ir *ir = s->ir;
  if (p->packed == NULL) return load2(s, s->r, k, tn__ir_add(ir, tn__ir_add_i(ir, column, p->first), lane));
  const tn__expr *at[3] = {tn__ir_div_i(ir, column, PANEL), k, tn__ir_mod_i(ir, column, PANEL)};
  at[2] = tn__ir_add(ir, at[2], lane);
  return tn__ir_cast(ir, s->wide, tn__ir_load(ir, p->packed, at));
}

static int vectors_of(int64_t width) { return (int)((width + LANES - 1) / LANES); }

/* Vector number i of `width` columns from `column` on; the last one has what is left. */
static columns vector_of(const cell *s, const tn__expr *column, int64_t width, int i) {
  int64_t lanes = i + 1 < vectors_of(width) ? LANES : width - (int64_t)i * LANES;
  return columns_from(s, tn__ir_add_i(s->ir, column, (int64_t)i * LANES), lanes);
}

static const tn__stmt *add_terms(const cell *s, const product *p, const tn__buffer *sums, const tn__expr *k,
                                 const tn__expr *column, int64_t width) {
  tn__ir *ir = s->ir;
  const tn__stmt *all[MAX_ROWS + MAX_VECTORS];
  int count = 0, vectors = vectors_of(width);
  /* One row waits for the next pages of a far R, and several have enough to do. */
  bool far = p->packed == NULL && p->rows == 1 && is_far(s);
  const tn__expr *ahead = tn__ir_min(ir, tn__ir_add_i(ir, k, ROWS_AHEAD), tn__ir_index(ir, s->hidden - 1));
  for (int i = 0; i < vectors && far; i++) {
    const tn__expr *at[2] = {ahead, tn__ir_add_i(ir, column, p->first + i * LANES)};
    all[count++] = tn__ir_prefetch_stmt(ir, s->r, at, false);
  }
  for (int row = 0; row < p->rows; row++) {
    const tn__stmt *terms[MAX_VECTORS];
    const tn__var *value = tn__var_create(ir, "state", s->wide, NULL, NULL);
    const tn__expr *state = load2(s, s->h, row_of(s, row), k);
    if (p->factor != NULL)
      state = scaled(s, state, load2(s, p->factor, row_of(s, row), tn__ir_add_i(ir, k, p->factor_first)));
    for (int i = 0; i < vectors; i++) {
      columns c = vector_of(s, column, width, i);
      const tn__expr *at = tn__ir_add_i(ir, c.lane->self, i * LANES), *place = tn__ir_index(ir, row);
      const tn__expr *term = scaled(s, value->self, weight_at(s, p, k, column, at));
      terms[i] = in_vector(s, &c, store2(s, sums, place, at, sum(s, load2(s, sums, place, at), term)));
    }
    all[count++] = tn__ir_let(ir, value, state, tn__ir_seq(ir, terms, vectors));
  }
  return tn__ir_seq(ir, all, count);
}

/* `width` columns from the product's `column` on, whose sums are kept in registers: all their places are constants. */
static const tn__stmt *project_block(const cell *s, const product *p, const tn__expr *column, int64_t width) {
  tn__ir *ir = s->ir;
  int vectors = vectors_of(width);
  const tn__expr *shape[2] = {tn__ir_index(ir, p->rows), tn__ir_index(ir, vectors * LANES)};
  const tn__buffer *sums = tn__buffer_create(ir, "sums", s->wide, TN__SCOPE_STACK, 2, shape);
  const tn__var *k = tn__var_create(ir, "k", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, s->hidden));
  const tn__stmt *start[MAX_ROWS * MAX_VECTORS], *finish[MAX_ROWS * MAX_VECTORS];
  int count = 0;
  for (int row = 0; row < p->rows; row++)
    for (int i = 0; i < vectors; i++) {
      columns c = vector_of(s, column, width, i);
      const tn__expr *at = tn__ir_add_i(ir, c.lane->self, i * LANES), *place = tn__ir_index(ir, row);
      const tn__expr *gate = tn__ir_add_i(ir, c.column, p->first);
      start[count] = in_vector(s, &c, store2(s, sums, place, at, number(s, 0)));
      finish[count++] = in_vector(s, &c, store2(s, s->pre, row_of(s, row), gate, load2(s, sums, place, at)));
    }
  const tn__stmt *items[3] = {tn__ir_seq(ir, start, count),
                              tn__ir_for(ir, k, TN__LOOP_SERIAL, add_terms(s, p, sums, k->self, column, width)),
                              tn__ir_seq(ir, finish, count)};
  return tn__ir_alloc_stmt(ir, sums, tn__ir_seq(ir, items, 3));
}

/* Groups of as many rows as a product has, counted from the first row on. */
typedef struct row_groups {
  const tn__expr *first, *count;
} row_groups;

/* The same columns of groups of rows, one after the other: what they read of R is near then. */
static const tn__stmt *project_groups(const cell *s, const product *p, const row_groups *groups, const tn__expr *column,
                                      int64_t width) {
  tn__ir *ir = s->ir;
  const tn__var *g = tn__var_create(ir, "g", TN_I64, groups->first, groups->count);
  cell group = *s;
  group.batch = tn__ir_mul_i(ir, g->self, p->rows);
  return tn__ir_for(ir, g, TN__LOOP_SERIAL, project_block(&group, p, column, width));
}

/* pre = state * R, for groups of rows and the product's columns, more of them at once the fewer rows there are. */
static const tn__stmt *project_columns(const cell *s, const product *p, const row_groups *groups) {
  tn__ir *ir = s->ir;
  const tn__stmt *items[2];
  int count = 0;
  int64_t width = (int64_t)MAX_VECTORS / p->rows * LANES, blocks = p->count / width, rest = p->count % width;
  const tn__var *j = tn__var_create(ir, "j", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, blocks));
  const tn__expr *column = tn__ir_mul_i(ir, j->self, width), *last = tn__ir_index(ir, blocks * width);
  if (blocks > 0) items[count++] = tn__ir_for(ir, j, TN__LOOP_SERIAL, project_groups(s, p, groups, column, width));
  if (rest > 0) items[count++] = project_groups(s, p, groups, last, rest);
  return tn__ir_seq(ir, items, count);
}

/* Of all rows: several at once, so that each element of R is read once for them, and of what is left half as many, and
 * so on. */
static const tn__stmt *project(const cell *s, const product *covered) {
  tn__ir *ir = s->ir;
  const tn__expr *none = tn__ir_index(ir, 0), *batch = s->x->shape[1];
  const tn__stmt *items[MAX_ROWS];
  row_groups groups = {.first = none};
  int count = 0;
  for (int rows = MAX_ROWS; rows >= 1; rows /= 2) {
    const tn__expr *end = tn__ir_div_i(ir, batch, rows);
    product p = *covered;
    p.rows = rows;
    groups.count = tn__ir_sub(ir, end, groups.first);
    const tn__stmt *all = project_columns(s, &p, &groups);
    items[count++] = tn__ir_if(ir, tn__ir_lt(ir, none, groups.count), all, NULL);
    groups.first = tn__ir_mul_i(ir, end, 2);
  }
  return tn__ir_seq(ir, items, count);
}

/* Row k of a panel, or the `count` columns of it that there are. */
static const tn__stmt *pack_part(const cell *s, const product *p, const tn__expr *k, const tn__expr *panel,
                                 int64_t count) {
  tn__ir *ir = s->ir;
  columns c = columns_from(s, tn__ir_mul_i(ir, panel, PANEL), count);
  const tn__expr *at[3] = {panel, k, c.lane->self}, *from[2] = {k, tn__ir_add_i(ir, c.column, p->first)};
  return in_vector(s, &c, tn__ir_store(ir, p->packed, at, tn__ir_load(ir, s->r, from)));
}

static const tn__stmt *pack(const cell *s, const product *p) {
  tn__ir *ir = s->ir;
  int64_t whole = p->count / PANEL, rest = p->count % PANEL;
  const tn__var *k = tn__var_create(ir, "k", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, s->hidden));
  const tn__var *panel = tn__var_create(ir, "panel", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, whole));
  const tn__stmt *items[2];
  int count = 0;
  if (whole > 0) items[count++] = tn__ir_for(ir, panel, TN__LOOP_SERIAL, pack_part(s, p, k->self, panel->self, PANEL));
  if (rest > 0) items[count++] = pack_part(s, p, k->self, tn__ir_index(ir, whole), rest);
  return tn__ir_for(ir, k, TN__LOOP_SERIAL, tn__ir_seq(ir, items, count));
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

static const tn__expr *pre_at(const cell *s, int gate, const tn__expr *j) {
  return load2(s, s->pre, s->batch, tn__ir_add_i(s->ir, j, gate * s->hidden));
}

static const tn__expr *biased(const cell *s, int gate, const tn__expr *j) {
  const tn__expr *value = pre_at(s, gate, j);
  return s->bias == NULL ? value : sum(s, value, load1(s, s->bias, tn__ir_add_i(s->ir, j, gate * s->hidden)));
}

/* What a gate's activation is taken of. */
static const tn__expr *gate_at(const cell *s, int gate, const tn__expr *j) {
  return sum(s, input_at(s, tn__ir_add_i(s->ir, j, gate * s->hidden)), biased(s, gate, j));
}

/* The new state of position j, kept and written out. */
static const tn__stmt *set_state(const cell *s, const tn__expr *j, const tn__expr *value) {
  const tn__var *var = tn__var_create(s->ir, "h", s->wide, NULL, NULL);
  const tn__expr *at[3] = {s->time, s->batch, j};
  const tn__stmt *out = tn__ir_store(s->ir, s->y, at, tn__ir_cast(s->ir, s->dtype, var->self));
  return tn__ir_let(s->ir, var, value, tn__ir_seq2(s->ir, store2(s, s->h, s->batch, j, var->self), out));
}

static const tn__stmt *rnn_cell(const cell *s, const tn__expr *j) {
  return set_state(s, j, activate(s, 0, gate_at(s, 0, j)));
}

/* Gates: input, output, forget, cell. */
static const tn__stmt *lstm_cell(const cell *s, const tn__expr *j) {
  tn__ir *ir = s->ir;
  TN__INVARIANT(s->c != NULL); /* four gates have cells */
  const tn__var *in = tn__var_create(ir, "i", s->wide, NULL, NULL), *c = tn__var_create(ir, "c", s->wide, NULL, NULL);
  const tn__expr *old = load2(s, s->c, s->batch, j), *pre_in = gate_at(s, 0, j), *pre_out = gate_at(s, 1, j),
                 *pre_forget = gate_at(s, 2, j);
  if (s->peepholes != NULL) {
    pre_in = sum(s, pre_in, scaled(s, load1(s, s->peepholes, j), old));
    pre_out = sum(s, pre_out, scaled(s, load1(s, s->peepholes, tn__ir_add_i(ir, j, s->hidden)), c->self));
    pre_forget = sum(s, pre_forget, scaled(s, load1(s, s->peepholes, tn__ir_add_i(ir, j, 2 * s->hidden)), old));
  }
  const tn__expr *forget = tn__node_int(s->node, "input_forget", 0) != 0 ? tn__ir_sub(ir, number(s, 1), in->self)
                                                                         : activate(s, 0, pre_forget);
  const tn__expr *next = sum(s, scaled(s, forget, old), scaled(s, in->self, activate(s, 1, gate_at(s, 3, j))));
  const tn__stmt *out = set_state(s, j, scaled(s, activate(s, 0, pre_out), activate_as_is(s, 2, c->self)));
  const tn__stmt *body = tn__ir_let(ir, c, next, tn__ir_seq2(ir, store2(s, s->c, s->batch, j, c->self), out));
  return tn__ir_let(ir, in, activate(s, 0, pre_in), body);
}

/* Gates: update, reset, hidden. The reset gate is done for the whole state before the hidden one reads it. */
static const tn__stmt *gru_reset(const cell *s, const tn__expr *j) {
  return store2(s, s->pre, s->batch, tn__ir_add_i(s->ir, j, s->hidden), activate(s, 0, gate_at(s, 1, j)));
}

static const tn__stmt *gru_cell(const cell *s, const tn__expr *j) {
  tn__ir *ir = s->ir;
  const tn__var *z = tn__var_create(ir, "z", s->wide, NULL, NULL);
  const tn__expr *hidden = gate_at(s, 2, j);
  if (tn__node_int(s->node, "linear_before_reset", 0) != 0)
    hidden = sum(s, input_at(s, tn__ir_add_i(ir, j, 2 * s->hidden)), scaled(s, pre_at(s, 1, j), biased(s, 2, j)));
  const tn__expr *fresh = scaled(s, tn__ir_sub(ir, number(s, 1), z->self), activate(s, 1, hidden));
  const tn__expr *value = sum(s, fresh, scaled(s, z->self, load2(s, s->h, s->batch, j)));
  return tn__ir_let(ir, z, activate(s, 0, gate_at(s, 0, j)), set_state(s, j, value));
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

/* `body` for each of the rows that have not ended before this step. */
static const tn__stmt *over_rows(const cell *s, const tn__stmt *(*body)(const cell *s, const tn__expr *j)) {
  tn__ir *ir = s->ir;
  const tn__var *row = tn__var_create(ir, "row", TN_I64, tn__ir_index(ir, 0), s->x->shape[1]);
  const tn__var *length = tn__g_let_var(ir, "length");
  const tn__expr *own_length = s->x->shape[0];
  cell one = *s;
  one.batch = row->self;
  if (s->lengths != NULL) { /* clamped, because it addresses the input */
    own_length = tn__ir_cast(ir, TN_I64, tn__ir_load(ir, s->lengths, &one.batch));
    own_length = tn__ir_max(ir, tn__ir_min(ir, own_length, s->x->shape[0]), tn__ir_index(ir, 0));
  }
  if (tn__node_int(s->node, "reverse", 0) != 0) one.time = tn__ir_sub(ir, tn__ir_add_i(ir, length->self, -1), s->time);
  const tn__stmt *all = tn__ir_if(ir, tn__ir_lt(ir, s->time, length->self), over_hidden(&one, body), NULL);
  return tn__ir_for(ir, row, TN__LOOP_SERIAL, tn__ir_let(ir, length, own_length, all));
}

/* The products of a step: of all gates, or, where the reset gate is done for the whole state before the hidden gate
 * reads it, of the hidden gate alone behind them. */
TN_MUST_USE static int products_of(const cell *s, product *out) {
  int64_t n = s->hidden;
  bool linear = tn__node_int(s->node, "linear_before_reset", 0) != 0;
  out[0] = (product){.count = (s->gates == 3 ? 2 : s->gates) * n};
  out[1] = (product){.first = 2 * n, .count = n, .factor = linear ? NULL : s->pre, .factor_first = linear ? 0 : n};
  return s->gates == 3 ? 2 : 1;
}

/* Products are made of rows that have ended, too, and not looked at. */
static const tn__stmt *step(const cell *s, const product *products) {
  const tn__stmt *items[4];
  items[0] = project(s, &products[0]);
  if (s->gates != 3) return tn__ir_seq2(s->ir, items[0], over_rows(s, s->gates == 4 ? lstm_cell : rnn_cell));
  items[1] = over_rows(s, gru_reset);
  items[2] = project(s, &products[1]);
  items[3] = over_rows(s, gru_cell);
  return tn__ir_seq(s->ir, items, 4);
}

/* All steps. Rows of an R that no near cache holds are pages apart, and come late: where there are steps and
 * rows enough to pay for it, its columns are copied to panels in one piece before. */
static const tn__stmt *steps(const cell *s) {
  tn__ir *ir = s->ir;
  product products[2];
  const tn__stmt *items[3];
  tn__nest nest = tn__nest_create(ir, "t", 1, s->x->shape);
  cell one = *s;
  one.time = nest.index[0];
  int count = products_of(s, products);
  const tn__stmt *plain = tn__nest_loops(ir, &nest, step(&one, products));
  if (!is_far(s)) return plain;
  for (int i = 0; i < count; i++) {
    int64_t panels = (products[i].count + PANEL - 1) / PANEL;
    const tn__expr *shape[3] = {tn__ir_index(ir, panels), tn__ir_index(ir, s->hidden), tn__ir_index(ir, PANEL)};
    products[i].packed = tn__buffer_create(ir, "packed", s->dtype, TN__SCOPE_WORKSPACE, 3, shape);
    items[i] = pack(s, &products[i]);
  }
  tn__nest again = tn__nest_create(ir, "t", 1, s->x->shape);
  one.time = again.index[0];
  items[count] = tn__nest_loops(ir, &again, step(&one, products));
  const tn__stmt *packed = tn__ir_seq(ir, items, count + 1);
  for (int i = 0; i < count; i++) packed = tn__ir_alloc_stmt(ir, products[i].packed, packed);
  const tn__expr *many = tn__ir_le(ir, tn__ir_index(ir, STEPS_TO_PACK), s->x->shape[0]);
  many = tn__ir_and(ir, many, tn__ir_le(ir, tn__ir_index(ir, ROWS_TO_PACK), s->x->shape[1]));
  return tn__ir_if(ir, many, packed, plain);
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

static const tn__stmt *fill(const cell *s, const tn__buffer *to, const tn__buffer *from) {
  tn__ir *ir = s->ir;
  tn__nest nest = tn__nest_create(ir, "p", to->rank, to->shape);
  const tn__expr *value = from == NULL ? tn__ir_constant(ir, to->dtype, 0) : tn__ir_load(ir, from, nest.index);
  return tn__nest_loops(ir, &nest, tn__ir_store(ir, to, nest.index, value));
}

static void declare_recurrence(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                               const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__buffer *in[IN_COUNT] = {NULL};
  for (int i = 0; i < node->input_count; i++) in[i] = inputs[i];
  TN__INVARIANT(in[IN_X] != NULL); /* checked when nodes are made */
  cell s = {.ir = ir,
            .node = node,
            .dtype = in[IN_X]->dtype,
            .wide = tn__g_accumulator_of(in[IN_X]->dtype),
            .gates = gate_count(node),
            .x = in[IN_X],
            .r = in[IN_R],
            .bias = in[IN_BIAS],
            .h0 = in[IN_H],
            .c0 = in[IN_C],
            .peepholes = in[IN_PEEPHOLES],
            .lengths = in[IN_LENGTHS]};
  s.hidden = tn__g_dim_const(node->inputs[IN_R], 0);
  const tn__expr *y[3] = {s.x->shape[0], s.x->shape[1], tn__ir_index(ir, s.hidden)}, *pre[2] = {y[1], s.x->shape[2]};
  const char *name = tn__lower_name(lower, "recurrence");
  s.y = tn__te_extern_tensor(te, name, s.dtype, 3, y);
  s.h = tn__te_extern_tensor(te, tn__lower_name(lower, "state"), s.dtype, 2, y + 1);
  s.c = s.gates == 4 ? tn__te_extern_tensor(te, tn__lower_name(lower, "cells"), s.dtype, 2, y + 1) : NULL;
  s.pre = tn__te_extern_tensor(te, tn__lower_name(lower, "gates"), s.wide, 2, pre);
  const tn__stmt *items[4];
  items[0] = fill(&s, s.h, s.h0);
  items[1] = s.c != NULL ? fill(&s, s.c, s.c0) : tn__ir_seq(ir, NULL, 0);
  items[2] = fill(&s, s.y, NULL);
  items[3] = steps(&s);
  const tn__buffer *reads[IN_COUNT], *writes[4] = {s.y, s.h, s.pre, s.c};
  int read_count = 0;
  for (int i = 0; i < IN_COUNT; i++)
    if (in[i] != NULL) reads[read_count++] = in[i];
  tn__te_extern(te, name, reads, read_count, writes, s.c != NULL ? 4 : 3, tn__ir_seq(ir, items, 4));
  outputs[0] = s.y;
  outputs[1] = s.h;
  if (s.c != NULL) outputs[2] = s.c;
}

static const tn__op rows[] = {
    {.name = "recurrence",
     .min_inputs = 2,
     .max_inputs = IN_COUNT,
     .operands = "x[t,b,g] r[h,g] bias[g]? h0[b,h]? c0[b,h]? peepholes[3*h]? lengths[b]?",
     .op_class = TN__CLASS_OPAQUE,
     .lowering = TN__LOWER_DECLARE,
     .infer = infer_recurrence,
     .declare = declare_recurrence,
     .attributes = "kind:string activations:string alphas:floats betas:floats clip:float reverse:int input_forget:int "
                   "linear_before_reset:int",
     .doc = "The steps of an rnn, gru or lstm (`kind`) over inputs that were multiplied with their weights already."},
};

const tn__op_family tn__ops_recurrent = {rows, sizeof(rows) / sizeof(rows[0])};
