/* RNN, GRU and LSTM: one or two directions of the graph's recurrence, and ONNX's layouts around them. */
#include <math.h>
#include <string.h>

#include "import/onnx/ops.h"
#include "import/onnx/ops_more.h"

typedef struct recurrent {
  const char *kind;
  int gates, functions; /* of a direction */
  bool batch_first;
  int directions;
  bool reverse; /* a single direction */
  const char *const *activations;
  const float *alphas, *betas;
  int activation_count, alpha_count, beta_count;
} recurrent;

static bool is_one_of(const char *name, const char *const *list) {
  for (; *list != NULL; list++)
    if (strcmp(*list, name) == 0) return true;
  return false;
}

/* What the inputs' sizes are to each other, for so many gates and directions and either layout. */
static void relate_operands(tn__onode *n, const recurrent *r) {
  const char *x = r->batch_first ? "b,t" : "t,b", *state = r->batch_first ? "b,d" : "d,b";
  const char *cells = r->gates == 4 ? tn__arena_printf(n->arena, " initial_c[%s,h]? P[d,3*h]?", state) : "";
  tn__on_relate(n, tn__arena_printf(n->arena,
                                    "X[%s,i] W[d,%d*h,i] R[d,%d*h,h] B[d,%d*h]? sequence_lens[b]? initial_h[%s,h]?%s : "
                                    "d == %d, h == $hidden_size, h >= 1",
                                    x, r->gates, r->gates, 2 * r->gates, state, cells, r->directions));
}

static void read_attributes(tn__onode *n, recurrent *r) {
  static const struct {
    const char *name, *kind;
    int gates, functions;
  } kinds[] = {{"RNN", "rnn", 1, 1}, {"GRU", "gru", 3, 2}, {"LSTM", "lstm", 4, 3}};
  for (int i = 0; i < 3; i++)
    if (strcmp(kinds[i].name, n->name) == 0)
      *r = (recurrent){.kind = kinds[i].kind, .gates = kinds[i].gates, .functions = kinds[i].functions};
  const char *direction = tn__on_string(n, "direction", "forward");
  r->reverse = strcmp(direction, "reverse") == 0;
  r->directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
  if (!r->reverse && r->directions == 1 && strcmp(direction, "forward") != 0)
    tn__on_fail(n, "direction \"%s\" is none of forward, reverse and bidirectional", direction);
  r->batch_first = n->version >= 14 && tn__on_int(n, "layout", 0) != 0;
  relate_operands(n, r);
  r->activations = tn__on_strings(n, "activations", &r->activation_count);
  r->alphas = tn__on_floats(n, "activation_alpha", &r->alpha_count);
  r->betas = tn__on_floats(n, "activation_beta", &r->beta_count);
  if (r->activations != NULL && r->activation_count != r->functions * r->directions)
    tn__on_fail(n, "activations has %d entries, expected %d", r->activation_count, r->functions * r->directions);
}

/* Which functions of direction `d`, with those of alphas and betas that belong to them: each list has entries only for
 * functions that take one. */
static void choose_activations(tn__onode *n, const recurrent *r, int d, tn__recurrent_spec *spec) {
  static const char *const known[] = {
      "Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
      "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus",  NULL};
  static const char *const with_alpha[] = {"Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid",
                                           "Elu",    NULL};
  static const char *const with_beta[] = {"Affine", "ScaledTanh", "HardSigmoid", NULL};
  const char *text = "";
  int alpha = 0, beta = 0;
  for (int i = 0; i < 3; i++) spec->alphas[i] = spec->betas[i] = NAN;
  spec->activations = strcmp(r->kind, "rnn") == 0   ? "Tanh"
                      : strcmp(r->kind, "gru") == 0 ? "Sigmoid,Tanh"
                                                    : "Sigmoid,Tanh,Tanh";
  if (r->activations == NULL) return;
  for (int i = 0; i < r->functions * (d + 1); i++) {
    const char *name = r->activations[i];
    if (!is_one_of(name, known)) tn__on_unsupported(n, "activation \"%s\" is not supported", name);
    int own = i - r->functions * d;
    if (is_one_of(name, with_alpha) && alpha < r->alpha_count) {
      if (own >= 0) spec->alphas[own] = r->alphas[alpha];
      alpha++;
    }
    if (is_one_of(name, with_beta) && beta < r->beta_count) {
      if (own >= 0) spec->betas[own] = r->betas[beta];
      beta++;
    }
    if (own >= 0) text = tn__arena_printf(n->arena, "%s%s%s", text, own > 0 ? "," : "", name);
  }
  spec->activations = text;
}

/* Direction d of an operand, NULL when it is absent. */
static tn__value *direction_of(tn__onode *n, tn__value *x, int d, int axis) {
  const int64_t axes[1] = {axis};
  if (x == NULL) return NULL;
  return tn__on_squeeze(n, tn__on_slice_axis(n, x, axis, tn__on_index(n, d), tn__on_index(n, d + 1)), axes, 1);
}

static tn__value *swap_first(tn__onode *n, tn__value *x) {
  int64_t order[TN__MAX_RANK];
  for (int i = 0; i < x->rank; i++) order[i] = i;
  order[0] = 1, order[1] = 0;
  return tn__g_transpose(n->g, x, order);
}

/* The directions' results side by side in a new dimension. */
static tn__value *stack(tn__onode *n, tn__value *const *parts, int count, int axis) {
  tn__value *fresh[2];
  const int64_t axes[1] = {axis};
  if (parts[0] == NULL) return NULL;
  for (int i = 0; i < count; i++) fresh[i] = tn__on_unsqueeze(n, parts[i], axes, 1);
  return count == 1 ? fresh[0] : tn__g_concatenate(n->g, fresh, count, axis);
}

void tn__onnx_recurrent(tn__onode *n) {
  recurrent r = {.gates = 0};
  read_attributes(n, &r);
  bool lstm = strcmp(r.kind, "lstm") == 0;
  int state_axis = r.batch_first ? 1 : 0; /* of directions in states */
  tn__value *x = r.batch_first ? swap_first(n, n->in[0]) : n->in[0], *y[2] = {NULL}, *h[2] = {NULL}, *c[2] = {NULL};
  if (n->in[4] != NULL) tn__on_require_counts(n, 4, x->dims[0], "the number of steps");
  for (int d = 0; d < r.directions; d++) {
    tn__recurrent_spec spec = {.kind = r.kind,
                               .x = x,
                               .lengths = n->in[4],
                               .clip = tn__on_float(n, "clip", 0),
                               .reverse = r.reverse || d == 1,
                               .input_forget = tn__on_int(n, "input_forget", 0) != 0,
                               .linear_before_reset = tn__on_int(n, "linear_before_reset", 0) != 0};
    spec.w = direction_of(n, n->in[1], d, 0);
    spec.r = direction_of(n, n->in[2], d, 0);
    spec.bias = direction_of(n, n->in[3], d, 0);
    spec.h = direction_of(n, n->in[5], d, state_axis);
    spec.c = lstm ? direction_of(n, n->in[6], d, state_axis) : NULL;
    spec.peepholes = lstm ? direction_of(n, n->in[7], d, 0) : NULL;
    choose_activations(n, &r, d, &spec);
    tn__recurrent result = tn__g_recurrent(n->g, &spec);
    y[d] = result.y, h[d] = result.h, c[d] = result.c;
  }
  /* y: [time, directions, batch, hidden], or [batch, time, directions, hidden] */
  for (int d = 0; d < r.directions && r.batch_first; d++) y[d] = swap_first(n, y[d]);
  n->out[0] = stack(n, y, r.directions, r.batch_first ? 2 : 1);
  n->out[1] = stack(n, h, r.directions, state_axis);
  if (lstm) n->out[2] = stack(n, c, r.directions, state_axis);
}
