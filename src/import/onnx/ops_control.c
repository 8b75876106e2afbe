/* Control flow that can be resolved while importing: branches chosen by what is known, or by selection among results of
 * one shape; and loops whose number of rounds is known, which are unrolled. */
#include <string.h>

#include "import/onnx/ops.h"

enum { MOST_ROUNDS = 1024 };

/* ---- If -------------------------------------------------------------------------------------------------------------
 */

/* Both branches are computed, and the condition selects. */
static void select_branches(tn__onode *n, const Onnx__GraphProto *then_body, const Onnx__GraphProto *else_body) {
  int count = n->output_count;
  tn__value **a = TN__NEW_ARRAY(n->arena, count, tn__value *), **b = TN__NEW_ARRAY(n->arena, count, tn__value *);
  tn__value *condition = tn__on_reshape(n, n->in[0], 0, NULL);
  tn__onnx_inline_graph(n, then_body, NULL, 0, a, count);
  tn__onnx_inline_graph(n, else_body, NULL, 0, b, count);
  for (int i = 0; i < count; i++) {
    bool sequences = tn__onnx_is_sequence(a[i]) || tn__onnx_is_sequence(b[i]);
    bool same = !sequences && a[i]->rank == b[i]->rank && a[i]->dtype == b[i]->dtype;
    for (int d = 0; same && d < a[i]->rank; d++) same = a[i]->dims[d] == b[i]->dims[d];
    if (!same)
      tn__on_unsupported(
          n, "its condition is known only at run time, and result %d has another type or shape in each branch", i);
    n->out[i] = tn__g_select(n->g, condition, a[i], b[i]);
  }
}

/* A condition that is known now chooses its branch, and the other is not imported. */
void tn__onnx_if(tn__onode *n) {
  if (tn__onnx_is_sequence(n->in[0])) tn__on_fail(n, "its condition is a sequence");
  const int64_t *condition;
  int count;
  const Onnx__GraphProto *then_body = tn__on_graph(n, "then_branch"), *else_body = tn__on_graph(n, "else_branch");
  if (n->in[0]->dtype != TN_BOOL) tn__on_fail(n, "its condition is %s, expected bool", tn_dtype_name(n->in[0]->dtype));
  if (!tn__on_known_ints(n, 0, &condition, &count)) {
    select_branches(n, then_body, else_body);
    return;
  }
  if (count != 1) tn__on_fail(n, "its condition has %d elements, expected 1", count);
  tn__onnx_inline_graph(n, condition[0] != 0 ? then_body : else_body, NULL, 0, n->out, n->output_count);
}

/* ---- loops ----------------------------------------------------------------------------------------------------------
 */

typedef struct pieces { /* of one result that every round adds to */
  TN__VEC(tn__value *) values;
} pieces;

static tn__value *at_position(const tn__onode *n, tn__value *x, int axis, int64_t position) {
  const int64_t axes[1] = {axis};
  return tn__on_squeeze(n, tn__on_slice_axis(n, x, axis, tn__on_index(n, position), tn__on_index(n, position + 1)),
                        axes, 1);
}

static void add_piece(tn__onode *n, pieces *p, tn__value *x, int64_t axis, bool backwards) {
  if (tn__onnx_is_sequence(x)) tn__on_fail(n, "its body makes a sequence where a tensor is collected");
  axis = tn__on_axis(n, axis, x->rank + 1);
  tn__value *piece = tn__on_unsqueeze(n, x, &axis, 1);
  tn__vec_push(n->arena, &p->values, piece);
  for (int i = p->values.count - 1; backwards && i > 0; i--) p->values.data[i] = p->values.data[i - 1];
  if (backwards) p->values.data[0] = piece;
}

static tn__value *join(tn__onode *n, const pieces *p, int64_t axis) {
  if (p->values.count == 0) tn__on_unsupported(n, "makes no rounds, so that the shape of its results is not known");
  int rank = p->values.data[0]->rank;
  if (p->values.count == 1) return p->values.data[0];
  return tn__g_concatenate(n->g, p->values.data, p->values.count, (int)tn__on_axis(n, axis, rank));
}

/* The rounds of a Loop: input `trips`, absent for "until the condition says no". */
static int64_t loop_rounds(tn__onode *n) {
  const int64_t *trips;
  int count;
  if (n->in[0] == NULL) return MOST_ROUNDS + 1;
  if (tn__onnx_is_sequence(n->in[0])) tn__on_fail(n, "input 0 (the number of rounds) is a sequence");
  if (!tn__on_known_ints(n, 0, &trips, &count)) tn__on_unsupported(n, "its number of rounds is known only at run time");
  if (count != 1) tn__on_fail(n, "input 0 (the number of rounds) has %d elements, expected 1", count);
  return trips[0];
}

static bool known_condition(tn__onode *n, const tn__value *condition) {
  int64_t value;
  if (tn__onnx_is_sequence(condition)) tn__on_fail(n, "its condition is a sequence");
  if (condition->dtype != TN_BOOL)
    tn__on_fail(n, "its condition is %s, expected bool", tn_dtype_name(condition->dtype));
  if (condition->elements != NULL && tn__as_int(condition->elements[0], &value)) return value != 0;
  if (condition->data != NULL) return tn__load_i64(TN_BOOL, condition->data, 0) != 0;
  tn__on_unsupported(n, "whether it goes on is known only at run time");
}

void tn__onnx_loop(tn__onode *n) {
  const Onnx__GraphProto *body = tn__on_graph(n, "body");
  int states = n->input_count > 2 ? n->input_count - 2 : 0, results = (int)body->n_output - 1;
  if (results < states || n->output_count > results)
    tn__on_fail(n, "its body makes %d results for %d loop variables and %d outputs", results, states, n->output_count);
  int64_t rounds = loop_rounds(n);
  tn__value **in = TN__NEW_ARRAY(n->arena, states + 2, tn__value *),
            **out = TN__NEW_ARRAY(n->arena, results + 1, tn__value *);
  pieces *lists = TN__NEW_ARRAY(n->arena, results, pieces);
  in[1] = n->in[1] != NULL ? n->in[1] : tn__g_scalar_i64(n->g, TN_BOOL, 1);
  for (int i = 0; i < states; i++) in[i + 2] = n->in[i + 2];
  bool goes_on = known_condition(n, in[1]);
  for (int64_t round = 0; goes_on && round < rounds; round++) {
    if (round == MOST_ROUNDS) tn__on_unsupported(n, "makes more than %d rounds", MOST_ROUNDS);
    in[0] = tn__g_scalar_i64(n->g, TN_I64, round);
    tn__onnx_inline_graph(n, body, in, states + 2, out, results + 1);
    if (round + 1 < rounds) goes_on = known_condition(n, out[0]);
    for (int i = 0; i < states; i++) in[i + 2] = out[i + 1];
    in[1] = out[0];
    for (int i = states; i < results; i++) add_piece(n, &lists[i], out[i + 1], 0, false);
  }
  for (int i = 0; i < n->output_count; i++) n->out[i] = i < states ? in[i + 2] : join(n, &lists[i], 0);
}

typedef struct scan_spec {
  const Onnx__GraphProto *body;
  int states, inputs, outputs; /* state variables, scanned inputs, collected outputs */
  const int64_t *input_axes, *output_axes, *input_backwards, *output_backwards;
} scan_spec;

/* One scan over `values` (states, then scanned inputs); `out` gets the last states and the collected outputs. */
static void scan_once(tn__onode *n, const scan_spec *s, tn__value *const *values, tn__value **out) {
  int64_t rounds = -1;
  tn__value **in = TN__NEW_ARRAY(n->arena, s->states + s->inputs, tn__value *);
  tn__value **made = TN__NEW_ARRAY(n->arena, s->states + s->outputs, tn__value *);
  pieces *lists = TN__NEW_ARRAY(n->arena, s->outputs, pieces);
  memcpy(in, values, (size_t)s->states * sizeof(*in));
  for (int i = 0; i < s->inputs; i++) {
    tn__value *x = values[s->states + i];
    int64_t size = tn__dim_const(x, (int)tn__on_axis(n, s->input_axes[i], x->rank));
    if (size < 0) tn__on_unsupported(n, "the length of scanned input %d is known only at run time", i);
    if (rounds >= 0 && size != rounds)
      tn__on_fail(n, "scanned input %d has %lld steps, and input 0 has %lld", i, (long long)size, (long long)rounds);
    rounds = size;
  }
  if (rounds > MOST_ROUNDS) tn__on_unsupported(n, "makes more than %d rounds", MOST_ROUNDS);
  for (int64_t round = 0; round < rounds; round++) {
    for (int i = 0; i < s->inputs; i++) {
      tn__value *x = values[s->states + i];
      int axis = (int)tn__on_axis(n, s->input_axes[i], x->rank);
      in[s->states + i] = at_position(n, x, axis, s->input_backwards[i] != 0 ? rounds - 1 - round : round);
    }
    tn__onnx_inline_graph(n, s->body, in, s->states + s->inputs, made, s->states + s->outputs);
    memcpy(in, made, (size_t)s->states * sizeof(*in));
    for (int i = 0; i < s->outputs; i++)
      add_piece(n, &lists[i], made[s->states + i], s->output_axes[i], s->output_backwards[i] != 0);
  }
  memcpy(out, in, (size_t)s->states * sizeof(*out));
  for (int i = 0; i < s->outputs; i++) out[s->states + i] = join(n, &lists[i], s->output_axes[i]);
}

/* Opset 8: a batch in front of everything, scanned one by one. */
static void scan_batches(tn__onode *n, const scan_spec *s, tn__value *const *values) {
  int total = s->states + s->outputs, given = s->states + s->inputs;
  if (given == 0 || values[0] == NULL || values[0]->rank == 0) tn__on_fail(n, "has no inputs with a batch");
  int64_t batches = tn__dim_const(values[0], 0);
  if (batches < 1 || batches > MOST_ROUNDS)
    tn__on_unsupported(n, "the number of batches must be a constant from 1 to %d", MOST_ROUNDS);
  tn__value **in = TN__NEW_ARRAY(n->arena, given, tn__value *), **out = TN__NEW_ARRAY(n->arena, total, tn__value *);
  pieces *lists = TN__NEW_ARRAY(n->arena, total, pieces);
  for (int64_t b = 0; b < batches; b++) {
    for (int i = 0; i < given; i++) in[i] = at_position(n, values[i], 0, b);
    scan_once(n, s, in, out);
    for (int i = 0; i < total; i++) add_piece(n, &lists[i], out[i], 0, false);
  }
  for (int i = 0; i < total; i++) n->out[i] = join(n, &lists[i], 0);
}

void tn__onnx_scan(tn__onode *n) {
  bool batched = n->version < 9;
  int first = batched ? 1 : 0;
  int64_t scanned = tn__on_int(n, "num_scan_inputs", 0);
  int given = n->input_count - first;
  if (scanned < 1 || scanned > given)
    tn__on_fail(n, "num_scan_inputs is %lld, and it has %d inputs", (long long)scanned, given);
  if (batched && n->in[0] != NULL) tn__on_unsupported(n, "sequences of different lengths (input 0) are not supported");
  for (int i = first; i < n->input_count; i++)
    if (n->in[i] == NULL) tn__on_fail(n, "input %d is missing", i);
  scan_spec s = {.body = tn__on_graph(n, "body"), .states = given - (int)scanned, .inputs = (int)scanned};
  s.outputs = (int)s.body->n_output - s.states;
  if (s.outputs < 0 || n->output_count > s.states + s.outputs)
    tn__on_fail(n, "its body makes %zu results for %d state variables and %d outputs", s.body->n_output, s.states,
                n->output_count);
  s.input_axes = tn__on_ints_n(n, "scan_input_axes", s.inputs, 0);
  s.output_axes = tn__on_ints_n(n, "scan_output_axes", s.outputs, 0);
  s.input_backwards = tn__on_ints_n(n, batched ? "directions" : "scan_input_directions", s.inputs, 0);
  s.output_backwards = tn__on_ints_n(n, "scan_output_directions", s.outputs, 0);
  tn__value **results = TN__NEW_ARRAY(n->arena, s.states + s.outputs, tn__value *);
  if (batched) {
    if (s.states + s.outputs > n->output_count) tn__on_unsupported(n, "leaves results out");
    scan_batches(n, &s, n->in + first);
    return;
  }
  scan_once(n, &s, n->in, results);
  for (int i = 0; i < n->output_count; i++) n->out[i] = results[i];
}
