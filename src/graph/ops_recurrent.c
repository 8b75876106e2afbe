/* The recurrence of RNN, GRU and LSTM layers, as ONNX defines them, in one imperative stage. The products with the
 * input do not depend on the state, so they come in ready (operand 0, biases included); what is left is one
 * matrix-vector product a step and the cell. */
#include <string.h>

#include "base/invariant.h"
#include "graph/internal.h"

enum { IN_X, IN_R, IN_BIAS, IN_H, IN_C, IN_PEEPHOLES, IN_LENGTHS, IN_COUNT };
enum { LANES = 16 };

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
  tn__require_float(graph, node, IN_X);
  tn__require_rank(graph, node, IN_X, 3);
  tn__require_rank(graph, node, IN_R, 2);
  int64_t hidden = tn__dim_const(r, 0);
  if (hidden < 1 || tn__dim_const(r, 1) != gates * hidden || tn__dim_const(x, 2) != gates * hidden)
    tn__node_fail(graph, node, "%s and %s are not the operands of %d gates", tn__value_type_text(graph, x),
                  tn__value_type_text(graph, r), gates);
  static const int ranks[IN_COUNT] = {3, 2, 1, 2, 2, 1, 1};
  for (int i = 0; i < IN_COUNT; i++) {
    const tn__value *own = operand(node, i);
    if (own == NULL) continue;
    tn__require_rank(graph, node, i, ranks[i]);
    if (i == IN_LENGTHS)
      tn__require_int(graph, node, i);
    else
      tn__require_same_dtype(graph, node, IN_X, i);
  }
  const tn__expr *y[3] = {x->dims[0], x->dims[1], r->dims[0]};
  tn__set_output(graph, node, 0, x->dtype, 3, y, NULL);
  tn__set_output(graph, node, 1, x->dtype, 2, y + 1, NULL);
  if (gates == 4) tn__set_output(graph, node, 2, x->dtype, 2, y + 1, NULL);
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

static const tn__expr *number(const cell *s, double value) { return tn__float(s->ir, s->wide, value); }
static const tn__expr *sum(const cell *s, const tn__expr *a, const tn__expr *b) { return tn__add(s->ir, a, b); }
static const tn__expr *scaled(const cell *s, const tn__expr *a, const tn__expr *b) { return tn__mul(s->ir, a, b); }
static const tn__expr *call(const cell *s, tn__intrinsic f, const tn__expr *a) { return tn__call1(s->ir, f, a); }

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
  size_t length = at == NULL ? 0 : strcspn(at, ",");
  return length == strlen(name) && memcmp(at, name, length) == 0;
}

/* Activation `index` of a; names and default parameters are ONNX's. */
static const tn__expr *activate(const cell *s, int index, const tn__expr *a) {
  tn__ir *ir = s->ir;
  double clip = tn__node_float(s->node, "clip", 0);
  if (clip > 0) a = tn__min(ir, tn__max(ir, a, number(s, -clip)), number(s, clip));
  const tn__expr *zero = number(s, 0), *one = number(s, 1), *negative = tn__lt(ir, a, zero);
  if (activation_is(s, index, "Tanh")) return call(s, TN__CALL_TANH, a);
  if (activation_is(s, index, "Relu")) return tn__max(ir, a, zero);
  if (activation_is(s, index, "Sigmoid"))
    return tn__div(ir, one, sum(s, one, call(s, TN__CALL_EXP, call(s, TN__CALL_NEG, a))));
  if (activation_is(s, index, "Softsign")) return tn__div(ir, a, sum(s, one, call(s, TN__CALL_ABS, a)));
  if (activation_is(s, index, "Softplus")) {
    const tn__expr *tail =
        call(s, TN__CALL_LOG1P, call(s, TN__CALL_EXP, call(s, TN__CALL_NEG, call(s, TN__CALL_ABS, a))));
    return sum(s, tn__max(ir, a, zero), tail);
  }
  const tn__expr *linear = scaled(s, number(s, parameter(s, "alphas", index, 1)), a);
  if (activation_is(s, index, "Affine")) return sum(s, linear, number(s, parameter(s, "betas", index, 0)));
  if (activation_is(s, index, "LeakyRelu"))
    return tn__select(ir, negative, scaled(s, number(s, parameter(s, "alphas", index, 0.01)), a), a);
  if (activation_is(s, index, "ThresholdedRelu"))
    return tn__select(ir, tn__lt(ir, number(s, parameter(s, "alphas", index, 1)), a), a, zero);
  if (activation_is(s, index, "ScaledTanh")) {
    const tn__expr *inner = scaled(s, number(s, parameter(s, "betas", index, 1)), a);
    return scaled(s, number(s, parameter(s, "alphas", index, 1)), call(s, TN__CALL_TANH, inner));
  }
  if (activation_is(s, index, "HardSigmoid")) {
    const tn__expr *line = sum(s, scaled(s, number(s, parameter(s, "alphas", index, 0.2)), a),
                               number(s, parameter(s, "betas", index, 0.5)));
    return tn__min(ir, tn__max(ir, line, zero), one);
  }
  if (activation_is(s, index, "Elu"))
    return tn__select(ir, negative, scaled(s, number(s, parameter(s, "alphas", index, 1)), call(s, TN__CALL_EXPM1, a)),
                      a);
  tn__throwf(tn__ir_arena(ir)->escape, TN_UNSUPPORTED, "%s%srecurrence: the activations \"%s\" are not all known",
             s->node->origin == NULL ? "" : s->node->origin, s->node->origin == NULL ? "" : ": ",
             tn__node_string(s->node, "activations", ""));
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static const tn__expr *load1(const cell *s, const tn__buffer *buffer, const tn__expr *i) {
  return tn__cast(s->ir, s->wide, tn__load(s->ir, buffer, &i));
}

static const tn__expr *load2(const cell *s, const tn__buffer *buffer, const tn__expr *i, const tn__expr *j) {
  return tn__cast(s->ir, s->wide, tn__load(s->ir, buffer, (const tn__expr *[]){i, j}));
}

static const tn__stmt *store2(const cell *s, const tn__buffer *buffer, const tn__expr *i, const tn__expr *j,
                              const tn__expr *value) {
  return tn__store(s->ir, buffer, (const tn__expr *[]){i, j}, tn__cast(s->ir, buffer->dtype, value));
}

static const tn__expr *input_at(const cell *s, const tn__expr *column) {
  return tn__cast(s->ir, s->wide, tn__load(s->ir, s->x, (const tn__expr *[]){s->time, s->batch, column}));
}

/* A loop over [0, extent) columns around the statement that `body` makes of a column; in vectors where the extent
 * allows. */
static const tn__stmt *over_columns(const cell *s, int64_t first, int64_t extent,
                                    const tn__stmt *(*body)(const cell *s, const tn__expr *column, const void *user),
                                    const void *user) {
  tn__ir *ir = s->ir;
  bool vectors = extent % LANES == 0;
  const tn__expr *outer_extent = tn__index(ir, vectors ? extent / LANES : extent), *zero = tn__index(ir, 0);
  const tn__var *outer = tn__var_create(ir, "j", TN_I64, zero, outer_extent);
  const tn__expr *column = tn__add_i(ir, outer->self, first);
  if (!vectors) return tn__for(ir, outer, TN__LOOP_SERIAL, body(s, column, user));
  const tn__var *lane = tn__var_create(ir, "v", TN_I64, zero, tn__index(ir, LANES));
  column = tn__add_i(ir, tn__add(ir, tn__mul_i(ir, outer->self, LANES), lane->self), first);
  return tn__for(ir, outer, TN__LOOP_SERIAL, tn__for(ir, lane, TN__LOOP_VECTORIZED, body(s, column, user)));
}

typedef struct product {
  const tn__expr *k;     /* position in the state */
  const tn__expr *state; /* its value there */
} product;

static const tn__stmt *start_column(const cell *s, const tn__expr *column, const void *user) {
  const bool *with_input = user;
  const tn__expr *value = *with_input ? input_at(s, column) : number(s, 0);
  if (s->bias != NULL) value = sum(s, value, load1(s, s->bias, column));
  return store2(s, s->pre, s->batch, column, value);
}

static const tn__stmt *add_column(const cell *s, const tn__expr *column, const void *user) {
  const product *p = user;
  const tn__expr *term = scaled(s, p->state, load2(s, s->r, p->k, column));
  return store2(s, s->pre, s->batch, column, sum(s, load2(s, s->pre, s->batch, column), term));
}

/* pre[batch, first .. first + count) = (the input +) the bias + state * R. `factor` (may be NULL) multiplies the state.
 */
static const tn__stmt *project(const cell *s, int64_t first, int64_t count, bool with_input, const tn__buffer *factor,
                               int64_t factor_first) {
  tn__ir *ir = s->ir;
  const tn__var *k = tn__var_create(ir, "k", TN_I64, tn__index(ir, 0), tn__index(ir, s->hidden));
  const tn__var *value = tn__var_create(ir, "state", s->wide, NULL, NULL);
  const tn__expr *state = load2(s, s->h, s->batch, k->self);
  if (factor != NULL) state = scaled(s, state, load2(s, factor, s->batch, tn__add_i(ir, k->self, factor_first)));
  const product p = {k->self, value->self};
  const tn__stmt *rounds =
      tn__for(ir, k, TN__LOOP_SERIAL, tn__let(ir, value, state, over_columns(s, first, count, add_column, &p)));
  return tn__seq2(ir, over_columns(s, first, count, start_column, &with_input), rounds);
}

static const tn__expr *pre_at(const cell *s, int gate, const tn__expr *j) {
  return load2(s, s->pre, s->batch, tn__add_i(s->ir, j, gate * s->hidden));
}

static const tn__stmt *set_pre(const cell *s, int gate, const tn__expr *j, const tn__expr *value) {
  return store2(s, s->pre, s->batch, tn__add_i(s->ir, j, gate * s->hidden), value);
}

/* The new state of position j, kept and written out. */
static const tn__stmt *set_state(const cell *s, const tn__expr *j, const tn__expr *value) {
  const tn__var *var = tn__var_create(s->ir, "h", s->wide, NULL, NULL);
  const tn__expr *at[3] = {s->time, s->batch, j};
  const tn__stmt *out = tn__store(s->ir, s->y, at, tn__cast(s->ir, s->dtype, var->self));
  return tn__let(s->ir, var, value, tn__seq2(s->ir, store2(s, s->h, s->batch, j, var->self), out));
}

static const tn__stmt *rnn_cell(const cell *s, const tn__expr *j) {
  return set_state(s, j, activate(s, 0, pre_at(s, 0, j)));
}

/* Gates: input, output, forget, cell. */
static const tn__stmt *lstm_cell(const cell *s, const tn__expr *j) {
  tn__ir *ir = s->ir;
  const tn__var *in = tn__var_create(ir, "i", s->wide, NULL, NULL), *c = tn__var_create(ir, "c", s->wide, NULL, NULL);
  const tn__expr *old = load2(s, s->c, s->batch, j), *pre_in = pre_at(s, 0, j), *pre_out = pre_at(s, 1, j),
                 *pre_forget = pre_at(s, 2, j);
  if (s->peepholes != NULL) {
    pre_in = sum(s, pre_in, scaled(s, load1(s, s->peepholes, j), old));
    pre_out = sum(s, pre_out, scaled(s, load1(s, s->peepholes, tn__add_i(ir, j, s->hidden)), c->self));
    pre_forget = sum(s, pre_forget, scaled(s, load1(s, s->peepholes, tn__add_i(ir, j, 2 * s->hidden)), old));
  }
  const tn__expr *forget =
      tn__node_int(s->node, "input_forget", 0) != 0 ? tn__sub(ir, number(s, 1), in->self) : activate(s, 0, pre_forget);
  const tn__expr *next = sum(s, scaled(s, forget, old), scaled(s, in->self, activate(s, 1, pre_at(s, 3, j))));
  const tn__stmt *out = set_state(s, j, scaled(s, activate(s, 0, pre_out), activate(s, 2, c->self)));
  const tn__stmt *body = tn__let(ir, c, next, tn__seq2(ir, store2(s, s->c, s->batch, j, c->self), out));
  return tn__let(ir, in, activate(s, 0, pre_in), body);
}

/* Gates: update, reset, hidden. The reset gate is done for the whole state before the hidden one reads it. */
static const tn__stmt *gru_reset(const cell *s, const tn__expr *j) {
  return set_pre(s, 1, j, activate(s, 0, pre_at(s, 1, j)));
}

static const tn__stmt *gru_cell(const cell *s, const tn__expr *j) {
  tn__ir *ir = s->ir;
  const tn__var *z = tn__var_create(ir, "z", s->wide, NULL, NULL);
  const tn__expr *hidden = pre_at(s, 2, j);
  if (tn__node_int(s->node, "linear_before_reset", 0) != 0)
    hidden = sum(s, input_at(s, tn__add_i(ir, j, 2 * s->hidden)), scaled(s, pre_at(s, 1, j), hidden));
  const tn__expr *fresh = scaled(s, tn__sub(ir, number(s, 1), z->self), activate(s, 1, hidden));
  const tn__expr *value = sum(s, fresh, scaled(s, z->self, load2(s, s->h, s->batch, j)));
  return tn__let(ir, z, activate(s, 0, pre_at(s, 0, j)), set_state(s, j, value));
}

static const tn__stmt *over_hidden(const cell *s, const tn__stmt *(*body)(const cell *s, const tn__expr *j)) {
  const tn__var *j = tn__var_create(s->ir, "j", TN_I64, tn__index(s->ir, 0), tn__index(s->ir, s->hidden));
  return tn__for(s->ir, j, TN__LOOP_SERIAL, body(s, j->self));
}

static const tn__stmt *step(const cell *s) {
  tn__ir *ir = s->ir;
  int64_t n = s->hidden;
  if (s->gates != 3)
    return tn__seq2(ir, project(s, 0, s->gates * n, true, NULL, 0),
                    over_hidden(s, s->gates == 4 ? lstm_cell : rnn_cell));
  bool linear = tn__node_int(s->node, "linear_before_reset", 0) != 0;
  const tn__stmt *gates = project(s, 0, 2 * n, true, NULL, 0), *reset = over_hidden(s, gru_reset);
  const tn__stmt *hidden = linear ? project(s, 2 * n, n, false, NULL, 0) : project(s, 2 * n, n, true, s->pre, n);
  const tn__stmt *items[] = {gates, reset, hidden, over_hidden(s, gru_cell)};
  return tn__seq(ir, items, 4);
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

static const tn__stmt *fill(const cell *s, const tn__buffer *to, const tn__buffer *from) {
  tn__ir *ir = s->ir;
  tn__nest nest = tn__nest_create(ir, "p", to->rank, to->shape);
  const tn__expr *value = from == NULL ? tn__constant(ir, to->dtype, 0) : tn__load(ir, from, nest.index);
  return tn__nest_loops(ir, &nest, tn__store(ir, to, nest.index, value));
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
            .wide = tn__accumulator_of(in[IN_X]->dtype),
            .gates = gate_count(node),
            .x = in[IN_X],
            .r = in[IN_R],
            .bias = in[IN_BIAS],
            .h0 = in[IN_H],
            .c0 = in[IN_C],
            .peepholes = in[IN_PEEPHOLES],
            .lengths = in[IN_LENGTHS]};
  s.hidden = tn__dim_const(node->inputs[IN_R], 0);
  const tn__expr *y[3] = {s.x->shape[0], s.x->shape[1], tn__index(ir, s.hidden)}, *pre[2] = {y[1], s.x->shape[2]};
  const char *name = tn__lower_name(lower, "recurrence");
  s.y = tn__te_extern_tensor(te, name, s.dtype, 3, y);
  s.h = tn__te_extern_tensor(te, tn__lower_name(lower, "state"), s.dtype, 2, y + 1);
  s.c = s.gates == 4 ? tn__te_extern_tensor(te, tn__lower_name(lower, "cells"), s.dtype, 2, y + 1) : NULL;
  s.pre = tn__te_extern_tensor(te, tn__lower_name(lower, "gates"), s.wide, 2, pre);
  tn__nest nest = tn__nest_create(ir, "t", 2, y);
  const tn__var *length = tn__let_var(ir, "length");
  s.batch = nest.index[1];
  s.time = nest.index[0];
  if (tn__node_int(node, "reverse", 0) != 0) s.time = tn__sub(ir, tn__add_i(ir, length->self, -1), s.time);
  const tn__expr *own_length = y[0];
  if (s.lengths != NULL) { /* clamped, because it addresses the input */
    own_length = tn__cast(ir, TN_I64, tn__load(ir, s.lengths, &s.batch));
    own_length = tn__max(ir, tn__min(ir, own_length, y[0]), tn__index(ir, 0));
  }
  const tn__stmt *body =
      tn__let(ir, length, own_length, tn__if(ir, tn__lt(ir, nest.index[0], length->self), step(&s), NULL));
  const tn__stmt *items[4] = {fill(&s, s.h, s.h0), s.c != NULL ? fill(&s, s.c, s.c0) : tn__seq(ir, NULL, 0),
                              fill(&s, s.y, NULL), tn__nest_loops(ir, &nest, body)};
  const tn__buffer *reads[IN_COUNT], *writes[4] = {s.y, s.h, s.pre, s.c};
  int read_count = 0;
  for (int i = 0; i < IN_COUNT; i++)
    if (in[i] != NULL) reads[read_count++] = in[i];
  tn__te_extern(te, name, reads, read_count, writes, s.c != NULL ? 4 : 3, tn__seq(ir, items, 4));
  outputs[0] = s.y;
  outputs[1] = s.h;
  if (s.c != NULL) outputs[2] = s.c;
}

static const tn__op rows[] = {
    {.name = "recurrence",
     .min_inputs = 2,
     .max_inputs = IN_COUNT,
     .op_class = TN__CLASS_OPAQUE,
     .lowering = TN__LOWER_DECLARE,
     .infer = infer_recurrence,
     .declare = declare_recurrence,
     .doc = "The steps of an rnn, gru or lstm (`kind`) over inputs that were multiplied with their weights already."},
};

const tn__op_family tn__ops_recurrent = {rows, sizeof(rows) / sizeof(rows[0])};
