/* Control flow. What becomes of branches and loops is decided where the graph is understood (graph/build/control.h);
 * here stands what ONNX's operators say of them. */
#include <string.h>

#include "base/message.h"
#include "import/onnx/body.h"

/* ---- If ---------------------------------------------------------------------------------------------------------- */

typedef struct branches {
  tn__onode *n;
  const Onnx__GraphProto *graphs[2]; /* else, then */
} branches;

static void import_branch(tn__body *body, bool yes, tn__value **results, void *user) {
  const branches *b = user;
  tn__onode *n = b->n, *inside = body == NULL ? n : tn__onnx_enter(n, body);
  tn__onnx_inline_graph(inside, b->graphs[yes], NULL, 0, results, n->output_count);
  if (body != NULL) tn__onnx_leave(n, body);
}

static tn__orest inline_branch(tn__onode *n, bool yes, void *user) {
  const branches *b = user;
  tn__onnx_inline_graph(n, b->graphs[yes], NULL, 0, n->out, n->output_count);
  return (tn__orest){.results = NULL};
}

/* Result k has another rank in one branch than in the other. */
static void fork_branches(tn__onode *n, const tn__branches *made, int k) {
  tn__ofork fork = {.condition = made->condition, .make = inline_branch, .user = made->user};
  for (int i = 0; i < 2; i++) {
    int rank = made->sides[i].results[k]->rank;
    fork.cases[i] = tn__shown_text(n->arena, "result %d has %d dimension%s (the branch \"%s\")", k, rank,
                                   tn__plural(rank), i == 1 ? "then" : "else");
  }
  tn__orest rest = tn__onnx_fork(n, &fork);
  if (rest.results != NULL) tn__onnx_end_scope(n, rest);
}

static void run_branches(tn__onode *n, const Onnx__GraphProto *then_body, const Onnx__GraphProto *else_body) {
  branches graphs = {n, {else_body, then_body}};
  tn__branches made = {.g = n->g,
                       .around = tn__onnx_body(n),
                       .condition = tn__on_reshape(n, n->in[0], 0, NULL),
                       .count = n->output_count,
                       .make = import_branch,
                       .user = &graphs};
  int differs = tn__branches_make(&made, n->out);
  if (differs >= 0) fork_branches(n, &made, differs);
}

/* A condition that is known now chooses its branch, and the other is not imported. */
void tn__onnx_if(tn__onode *n) {
  const int64_t *condition;
  int count;
  const Onnx__GraphProto *then_body = tn__on_graph(n, "then_branch"), *else_body = tn__on_graph(n, "else_branch");
  if (!tn__on_known_ints(n, 0, &condition, &count)) {
    run_branches(n, then_body, else_body);
    return;
  }
  if (count != 1) tn__on_fail(n, "its condition has %d elements, expected 1", count);
  tn__onnx_inline_whole(n, condition[0] != 0 ? then_body : else_body);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* A body of which a loop makes rounds. */
typedef struct loop_body {
  tn__onode *n;
  const Onnx__GraphProto *graph;
  int states, results; /* results without the condition */
  int pieces;          /* that somebody wants */
} loop_body;

static void loop_round(tn__round *round, void *user) {
  const loop_body *body = user;
  tn__onode *n = body->n, *inside = round->body == NULL ? n : tn__onnx_enter(n, round->body);
  tn__value **in = TN__NEW_ARRAY(n->arena, body->states + 2, tn__value *);
  tn__value **out = TN__NEW_ARRAY(n->arena, body->results + 1, tn__value *);
  in[0] = round->index;
  in[1] = round->condition;
  for (int i = 0; i < body->states; i++) in[i + 2] = round->states[i];
  tn__onnx_inline_graph(inside, body->graph, in, body->states + 2, out, body->results + 1);
  round->goes_on = out[0];
  for (int i = 0; i < body->states; i++) round->next[i] = out[i + 1];
  for (int i = 0; i < body->pieces; i++) round->pieces[i] = out[1 + body->states + i];
  if (round->body != NULL) tn__onnx_leave(n, round->body);
}

static int64_t declared_size(const Onnx__ValueInfoProto *info, int rank, int dim) {
  return tn__onnx_info_rank(info) == rank ? tn__onnx_info_dim(info, dim) : -1;
}

static int64_t declared_by_loop(int piece, int rank, int dim, void *user) {
  const loop_body *body = user; /* the first result is the condition */
  return declared_size(body->graph->output[1 + body->states + piece], rank, dim);
}

static tn__value *one_element(const tn__onode *n, int input, const char *what) {
  tn__value *v = n->in[input];
  if (v == NULL) return NULL;
  int64_t shape[TN__MAX_RANK], count = 1;
  if (tn__g_shape_const(v, shape))
    for (int d = 0; d < v->rank; d++) count *= shape[d];
  if (count != 1) tn__on_fail(n, "input %d (%s) has %lld elements, expected 1", input, what, (long long)count);
  return v;
}

/* Files may leave names out. */
static bool is_called(const char *name, const char *wanted) { return name != NULL && strcmp(name, wanted) == 0; }

/* Does the body hand its condition on, or give a constant? Then the number of rounds alone says when it ends. */
static bool ends_by_count(const Onnx__GraphProto *body) {
  if (body->n_output == 0 || body->n_input < 2) return false;
  const char *name = body->output[0]->name;
  if (name == NULL) return false;
  for (size_t i = body->n_node; i-- > 0;) {
    const Onnx__NodeProto *node = body->node[i];
    if (node->n_output == 0 || strcmp(node->output[0], name) != 0) continue;
    if (is_called(node->op_type, "Constant")) return true;
    if (!is_called(node->op_type, "Identity") || node->n_input != 1) return false;
    name = node->input[0];
  }
  for (size_t i = 0; i < body->n_initializer; i++)
    if (is_called(body->initializer[i]->name, name)) return true;
  return is_called(body->input[1]->name, name);
}

void tn__onnx_loop(tn__onode *n) {
  loop_body body = {.n = n, .graph = tn__on_graph(n, "body"), .states = n->input_count > 2 ? n->input_count - 2 : 0};
  body.results = (int)body.graph->n_output - 1;
  if (body.results < 0) tn__on_fail(n, "its body has no outputs: the first says whether the loop goes on");
  if (body.results < body.states || n->output_count > body.results)
    tn__on_fail(n, "its body makes %d results for %d loop variables and %d outputs", body.results, body.states,
                n->output_count);
  body.pieces = n->output_count > body.states ? n->output_count - body.states : 0;
  tn__value **pieces = TN__NEW_ARRAY(n->arena, body.pieces, tn__value *);
  tn__loop loop = {.g = n->g,
                   .around = tn__onnx_body(n),
                   .trips = one_element(n, 0, "the number of rounds"),
                   .condition = one_element(n, 1, "the condition"),
                   .states = TN__NEW_ARRAY(n->arena, body.states, tn__value *),
                   .state_count = body.states,
                   .piece_count = body.pieces,
                   .axes = TN__NEW_ARRAY(n->arena, body.pieces + 1, int64_t),
                   .ends_by_count = ends_by_count(body.graph),
                   .cost = (int64_t)body.graph->n_node,
                   .round = loop_round,
                   .declared = declared_by_loop,
                   .user = &body};
  int64_t rounds;
  for (int i = 0; i < body.states; i++) {
    loop.states[i] = n->in[i + 2];
    if (loop.states[i] == NULL && !tn__loop_unrolls(&loop, &rounds)) tn__on_fail(n, "input %d is missing", i + 2);
  }
  tn__loop_make(&loop, pieces);
  for (int i = 0; i < n->output_count; i++) n->out[i] = i < body.states ? loop.states[i] : pieces[i - body.states];
}

typedef struct scan_spec {
  const Onnx__GraphProto *body;
  int states, inputs, outputs; /* state variables, scanned inputs, collected outputs */
  const int64_t *input_axes, *output_axes, *input_backwards, *output_backwards;
} scan_spec;

/* For each scanned thing whether it runs backwards. */
static const int64_t *scan_directions(tn__onode *n, const char *name, int count) {
  const int64_t *list = tn__on_ints_n(n, name, count, 0);
  for (int i = 0; i < count; i++)
    if (list[i] != 0 && list[i] != 1)
      tn__on_fail(n, "%s has %lld; a direction is 0, forward, or 1, backward", name, (long long)list[i]);
  return list;
}

typedef struct scan_rounds {
  tn__onode *n;
  const scan_spec *spec;
  tn__value *const *values; /* states, then scanned inputs */
} scan_rounds;

static tn__value *at_position(const tn__onode *n, tn__value *x, int axis, int64_t position) {
  const int64_t axes[1] = {axis};
  return tn__on_squeeze(n, tn__on_slice_axis(n, x, axis, tn__on_index(n, position), tn__on_index(n, position + 1)),
                        axes, 1);
}

/* What scanned input i gives a round: the slice of its number, or from the end. */
static tn__value *scanned(const scan_rounds *rounds, const tn__round *round, const tn__onode *inside, int i) {
  const scan_spec *s = rounds->spec;
  tn__value *x = rounds->values[s->states + i];
  int axis = (int)tn__on_axis(rounds->n, s->input_axes[i], x->rank);
  bool backwards = s->input_backwards[i] != 0;
  if (round->body == NULL)
    return at_position(inside, x, axis, backwards ? round->count - 1 - round->number : round->number);
  tn__value *at = round->index;
  x = tn__body_capture(round->body, x);
  if (backwards) at = tn__on_sub(inside, tn__on_add_s(inside, round->trips, -1), at);
  return tn__g_take_trusted(inside->g, x, at, axis); /* there are as many rounds as slices (scan_length) */
}

static void scan_round(tn__round *round, void *user) {
  const scan_rounds *rounds = user;
  const scan_spec *s = rounds->spec;
  tn__onode *n = rounds->n, *inside = round->body == NULL ? n : tn__onnx_enter(n, round->body);
  tn__value **in = TN__NEW_ARRAY(n->arena, s->states + s->inputs, tn__value *);
  tn__value **made = TN__NEW_ARRAY(n->arena, s->states + s->outputs, tn__value *);
  for (int i = 0; i < s->states; i++) in[i] = round->states[i];
  for (int i = 0; i < s->inputs; i++) in[s->states + i] = scanned(rounds, round, inside, i);
  tn__onnx_inline_graph(inside, s->body, in, s->states + s->inputs, made, s->states + s->outputs);
  for (int i = 0; i < s->states; i++) round->next[i] = made[i];
  for (int i = 0; i < s->outputs; i++) round->pieces[i] = made[s->states + i];
  if (round->body != NULL) tn__onnx_leave(n, round->body);
}

static int64_t declared_by_scan(int piece, int rank, int dim, void *user) {
  const scan_spec *s = ((const scan_rounds *)user)->spec;
  return declared_size(s->body->output[s->states + piece], rank, dim);
}

static const tn__expr *scan_length(tn__onode *n, const scan_spec *s, tn__value *const *values) {
  const tn__expr *length = NULL;
  for (int i = 0; i < s->inputs; i++) {
    const tn__value *x = values[s->states + i];
    const tn__expr *size = x->dims[tn__on_axis(n, s->input_axes[i], x->rank)];
    if (length != NULL && tn__ir_is_int(length) && tn__ir_is_int(size) && length != size)
      tn__on_fail(n, "scanned input %d has %lld steps, and input 0 has %lld", i, (long long)size->value.i,
                  (long long)length->value.i);
    if (length != NULL)
      tn__graph_assume(n->g, tn__ir_eq(n->ir, size, length), "scanned input %d and input 0 must have as many steps", i);
    else
      length = size;
  }
  return length;
}

/* One scan over `values` (states, then scanned inputs); `out` gets the last states and the collected outputs. */
static void scan_once(tn__onode *n, const scan_spec *s, tn__value *const *values, tn__value **out) {
  const tn__expr *length = scan_length(n, s, values);
  scan_rounds all = {n, s, values};
  bool *backwards = TN__NEW_ARRAY(n->arena, s->outputs, bool);
  for (int i = 0; i < s->outputs; i++) backwards[i] = s->output_backwards[i] != 0;
  memcpy(out, values, (size_t)s->states * sizeof(*out));
  tn__loop loop = {.g = n->g,
                   .around = tn__onnx_body(n),
                   .trips = tn__g_from_elements(n->g, TN_I64, &length, 1, 0),
                   .states = out,
                   .state_count = s->states,
                   .piece_count = s->outputs,
                   .axes = s->output_axes,
                   .backwards = backwards,
                   .ends_by_count = true,
                   .cost = (int64_t)s->body->n_node,
                   .round = scan_round,
                   .declared = declared_by_scan,
                   .user = &all};
  tn__loop_make(&loop, out + s->states);
}

/* Opset 8: a batch in front of everything, scanned one by one. */
static void scan_batches(tn__onode *n, const scan_spec *s, tn__value *const *values) {
  enum { MOST_BATCHES = 1024 };
  static const int64_t first = 0;
  int total = s->states + s->outputs, given = s->states + s->inputs;
  if (given == 0 || values[0] == NULL || values[0]->rank == 0) tn__on_fail(n, "has no inputs with a batch");
  int64_t batches = tn__g_dim_const(values[0], 0);
  if (batches < 1 || batches > MOST_BATCHES)
    tn__on_unsupported(n, "the number of batches must be a constant from 1 to %d", MOST_BATCHES);
  tn__value **in = TN__NEW_ARRAY(n->arena, given, tn__value *), **out = TN__NEW_ARRAY(n->arena, total, tn__value *);
  tn__value **made = TN__NEW_ARRAY(n->arena, (size_t)total * (size_t)batches, tn__value *);
  for (int64_t b = 0; b < batches; b++) {
    for (int i = 0; i < given; i++) in[i] = at_position(n, values[i], 0, b);
    scan_once(n, s, in, out);
    for (int i = 0; i < total; i++) made[i * batches + b] = tn__on_unsqueeze(n, out[i], &first, 1);
  }
  for (int i = 0; i < total; i++)
    n->out[i] = batches == 1 ? made[i] : tn__g_concatenate(n->g, made + i * batches, (int)batches, 0);
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
  s.input_backwards = scan_directions(n, batched ? "directions" : "scan_input_directions", s.inputs);
  s.output_backwards = scan_directions(n, "scan_output_directions", s.outputs);
  tn__value **results = TN__NEW_ARRAY(n->arena, s.states + s.outputs, tn__value *);
  if (batched) {
    if (s.states + s.outputs > n->output_count) tn__on_unsupported(n, "leaves results out");
    scan_batches(n, &s, n->in + first);
    return;
  }
  scan_once(n, &s, n->in, results);
  for (int i = 0; i < n->output_count; i++) n->out[i] = results[i];
}
