/* Control flow: branches chosen by what is known, selected among cheap results of one shape, or run; loops written out
 * when their rounds are known and few, or run. */
#include <string.h>

#include "import/onnx/body.h"

/* ---- If ---------------------------------------------------------------------------------------------------------- */

static void import_branch(tn__onode *n, tn__obranch *b, const Onnx__GraphProto *graph, const char *name,
                          const tn__obranch *other) {
  b->body = tn__onnx_body_begin(n, name);
  b->inside = tn__onnx_inside(n, b->body);
  b->results = TN__NEW_ARRAY(n->arena, n->output_count, tn__value *);
  for (int i = 0; other != NULL && i < other->body->operands.count; i++)
    tn__body_capture(b->body, other->body->operands.data[i]);
  tn__onnx_inline_graph(b->inside, graph, NULL, 0, b->results, n->output_count);
  tn__onnx_body_end(n, b->body);
}

/* Few element-wise nodes that cannot fail cost less than a branch: both are computed. */
static bool is_cheap(const tn__graph *g) {
  enum { FEW = 8 };
  if (tn__graph_node_count(g) > FEW) return false;
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *node = tn__graph_node_at(g, i);
    bool moves = tn__node_is_view(node) || tn__op_has(node, TN__FACT_REPEATS);
    if (tn__op_has(node, TN__FACT_PARTIAL) || (node->op->op_class != TN__CLASS_ELEMENTWISE && !moves)) return false;
  }
  return tn__graph_check_count(g) == 0;
}

static bool sizes_agree(const tn__graph *g, const tn__node *node) {
  for (int k = 0; k < node->output_count; k++) {
    if (node->outputs[k]->holds != TN__HOLDS_TENSOR) return false;
    for (int d = 0; d < node->outputs[k]->rank; d++)
      for (int s = 0; s < tn__graph_symbol_count(g); s++) {
        const tn__symbol *symbol = tn__graph_symbol_at(g, s);
        if (symbol->value == node->outputs[k] && node->outputs[k]->dims[d] == symbol->var->self) return false;
      }
  }
  return true;
}

static void select_branches(tn__onode *n, tn__value *condition, const Onnx__GraphProto *then_body,
                            const Onnx__GraphProto *else_body) {
  int count = n->output_count;
  tn__value **a = TN__NEW_ARRAY(n->arena, count, tn__value *), **b = TN__NEW_ARRAY(n->arena, count, tn__value *);
  tn__onnx_inline_graph(n, then_body, NULL, 0, a, count);
  tn__onnx_inline_graph(n, else_body, NULL, 0, b, count);
  for (int i = 0; i < count; i++) n->out[i] = tn__g_select(n->g, condition, a[i], b[i]);
}

typedef struct branches {
  const Onnx__GraphProto *graphs[2]; /* else, then */
} branches;

static tn__orest inline_branch(tn__onode *n, bool yes, void *user) {
  const branches *b = user;
  tn__onnx_inline_graph(n, b->graphs[yes], NULL, 0, n->out, n->output_count);
  return (tn__orest){.results = NULL};
}

/* The first result that is a tensor of one rank in one branch and of another in the other, or -1. */
static int differs_in_rank(const tn__onode *n, const tn__obranch *a, const tn__obranch *b) {
  for (int k = 0; k < n->output_count; k++)
    if (!tn__onnx_is_container(a->results[k]) && !tn__onnx_is_container(b->results[k]) &&
        a->results[k]->rank != b->results[k]->rank)
      return k;
  return -1;
}

static void fork_branches(tn__onode *n, tn__value *condition, branches *graphs, const tn__obranch *a,
                          const tn__obranch *b, int k) {
  tn__ofork fork = {.condition = condition, .make = inline_branch, .user = graphs};
  const tn__obranch *sides[2] = {b, a};
  for (int i = 0; i < 2; i++)
    fork.cases[i] =
        tn__arena_printf(n->arena, "result %d has %d dimension%s (the branch \"%s\")", k, sides[i]->results[k]->rank,
                         tn__plural(sides[i]->results[k]->rank), i == 1 ? "then" : "else");
  tn__orest rest = tn__onnx_fork(n, &fork);
  if (rest.results != NULL) tn__onnx_end_scope(n, rest);
}

static void run_branches(tn__onode *n, const Onnx__GraphProto *then_body, const Onnx__GraphProto *else_body) {
  tn__obranch a, b;
  branches graphs = {{else_body, then_body}};
  tn__value *condition = tn__on_reshape(n, n->in[0], 0, NULL);
  import_branch(n, &a, then_body, "then", NULL);
  import_branch(n, &b, else_body, "else", &a);
  int differs = differs_in_rank(n, &a, &b);
  if (differs >= 0) {
    fork_branches(n, condition, &graphs, &a, &b, differs);
    return;
  }
  tn__node *node = tn__onnx_choose(n, condition, &a, &b, n->output_count);
  if (is_cheap(a.body->g) && is_cheap(b.body->g) && sizes_agree(n->g, node)) {
    node->dead = true;
    select_branches(n, condition, then_body, else_body);
    return;
  }
  for (int k = 0; k < n->output_count; k++) n->out[k] = node->outputs[k];
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
  if (p->values.count == 0) tn__on_fail(n, "makes no rounds");
  int rank = p->values.data[0]->rank;
  if (p->values.count == 1) return p->values.data[0];
  return tn__g_concatenate(n->g, p->values.data, p->values.count, (int)tn__on_axis(n, axis, rank));
}

typedef struct loop_body {
  const Onnx__GraphProto *graph;
  int states, results; /* results without the condition */
} loop_body;

static void loop_round(tn__oround *round, void *user) {
  const loop_body *body = user;
  tn__arena *arena = round->inside->arena;
  tn__value **in = TN__NEW_ARRAY(arena, body->states + 2, tn__value *);
  tn__value **out = TN__NEW_ARRAY(arena, body->results + 1, tn__value *);
  in[0] = round->index;
  in[1] = round->condition;
  for (int i = 0; i < body->states; i++) in[i + 2] = round->states[i];
  tn__onnx_inline_graph(round->inside, body->graph, in, body->states + 2, out, body->results + 1);
  round->goes_on = out[0];
  for (int i = 0; i < body->states; i++) round->next[i] = out[i + 1];
  for (int i = body->states; i < body->results; i++) round->pieces[i - body->states] = out[i + 1];
}

static tn__value *one_element(tn__onode *n, int input, const char *what, tn_dtype dtype) {
  tn__value *v = n->in[input];
  if (v == NULL) return NULL;
  int64_t shape[TN__MAX_RANK], count = 1;
  if (tn__g_shape_const(v, shape))
    for (int d = 0; d < v->rank; d++) count *= shape[d];
  if (count != 1) tn__on_fail(n, "input %d (%s) has %lld elements, expected 1", input, what, (long long)count);
  return tn__g_convert(n->g, tn__on_reshape(n, v, 0, NULL), dtype);
}

static void run_loop(tn__onode *n, const loop_body *body) {
  int collected = body->results - body->states;
  tn__value **lists = TN__NEW_ARRAY(n->arena, collected, tn__value *);
  const tn__value **types = TN__NEW_ARRAY(n->arena, collected, const tn__value *);
  tn__oloop loop = {.trips = one_element(n, 0, "the number of rounds", TN_I64),
                    .condition = one_element(n, 1, "the condition", TN_BOOL),
                    .states = TN__NEW_ARRAY(n->arena, body->states, tn__value *),
                    .state_count = body->states,
                    .piece_count = collected,
                    .round = loop_round,
                    .user = (void *)(uintptr_t)body};
  for (int i = 0; i < body->states; i++) {
    loop.states[i] = n->in[i + 2];
    if (loop.states[i] == NULL) tn__on_fail(n, "input %d is missing", i + 2);
  }
  tn__onnx_run_loop(n, &loop, lists, types);
  for (int i = 0; i < n->output_count; i++) {
    int piece = i - body->states;
    const Onnx__ValueInfoProto *declared = body->graph->output[i + 1]; /* the first is the condition */
    n->out[i] = piece < 0 ? loop.states[i] : tn__onnx_stack_list(n, &loop, lists[piece], types[piece], declared, 0);
  }
}

/* Does the body hand its condition on, or give a constant? Then the number of rounds alone says when it ends. */
static bool ends_by_count(const Onnx__GraphProto *body) {
  if (body->n_output == 0 || body->n_input < 2) return false;
  const char *name = body->output[0]->name;
  for (size_t i = body->n_node; i-- > 0;) {
    const Onnx__NodeProto *node = body->node[i];
    if (node->n_output == 0 || strcmp(node->output[0], name) != 0) continue;
    if (strcmp(node->op_type, "Constant") == 0) return true;
    if (strcmp(node->op_type, "Identity") != 0 || node->n_input != 1) return false;
    name = node->input[0];
  }
  for (size_t i = 0; i < body->n_initializer; i++)
    if (body->initializer[i]->name != NULL && strcmp(body->initializer[i]->name, name) == 0) return true;
  return strcmp(name, body->input[1]->name) == 0;
}

/* Few rounds of a small body are written out: what is constant in each can be folded, and kernels fuse across
 * rounds. */
static bool is_worth_unrolling(tn__onode *n, const Onnx__GraphProto *body, int64_t *rounds) {
  enum { MOST_ROUNDS = 32, MOST_NODES = 256 };
  const int64_t *trips, *condition;
  int count;
  if (n->in[0] == NULL || !tn__on_known_ints(n, 0, &trips, &count) || count != 1) return false;
  if (n->in[1] != NULL && !tn__on_known_ints(n, 1, &condition, &count)) return false;
  *rounds = trips[0];
  return *rounds > 0 && *rounds <= MOST_ROUNDS && *rounds * (int64_t)body->n_node <= MOST_NODES && ends_by_count(body);
}

static bool known_condition(tn__onode *n, const tn__value *condition) {
  int64_t value;
  if (tn__onnx_is_container(condition)) tn__on_fail(n, "its condition is a sequence");
  if (condition->dtype != TN_BOOL)
    tn__on_fail(n, "its condition is %s, expected bool", tn_dtype_name(condition->dtype));
  if (condition->elements != NULL && tn__ir_as_int(condition->elements[0], &value)) return value != 0;
  return condition->data == NULL || tn__load_i64(TN_BOOL, condition->data, 0) != 0;
}

static void unroll(tn__onode *n, const loop_body *body, int64_t rounds) {
  int states = body->states, results = body->results;
  tn__value **in = TN__NEW_ARRAY(n->arena, states + 2, tn__value *);
  tn__value **out = TN__NEW_ARRAY(n->arena, results + 1, tn__value *);
  pieces *lists = TN__NEW_ARRAY(n->arena, results, pieces);
  in[1] = n->in[1] != NULL ? n->in[1] : tn__g_scalar_i64(n->g, TN_BOOL, 1);
  for (int i = 0; i < states; i++) in[i + 2] = n->in[i + 2];
  bool goes_on = known_condition(n, in[1]);
  for (int64_t round = 0; goes_on && round < rounds; round++) {
    in[0] = tn__g_scalar_i64(n->g, TN_I64, round);
    tn__onnx_inline_graph(n, body->graph, in, states + 2, out, results + 1);
    if (round + 1 < rounds) goes_on = known_condition(n, out[0]);
    for (int i = 0; i < states; i++) in[i + 2] = out[i + 1];
    in[1] = out[0];
    for (int i = states; i < results; i++) add_piece(n, &lists[i], out[i + 1], 0, false);
  }
  for (int i = 0; i < n->output_count; i++) n->out[i] = i < states ? in[i + 2] : join(n, &lists[i], 0);
}

void tn__onnx_loop(tn__onode *n) {
  loop_body body = {.graph = tn__on_graph(n, "body"), .states = n->input_count > 2 ? n->input_count - 2 : 0};
  int64_t rounds;
  body.results = (int)body.graph->n_output - 1;
  if (body.results < 0) tn__on_fail(n, "its body has no outputs: the first says whether the loop goes on");
  if (body.results < body.states || n->output_count > body.results)
    tn__on_fail(n, "its body makes %d results for %d loop variables and %d outputs", body.results, body.states,
                n->output_count);
  bool starts = n->in[1] == NULL || n->in[1]->data == NULL || tn__load_i64(TN_BOOL, n->in[1]->data, 0) != 0;
  if (starts && is_worth_unrolling(n, body.graph, &rounds))
    unroll(n, &body, rounds);
  else
    run_loop(n, &body);
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

static void unroll_scan(tn__onode *n, const scan_spec *s, tn__value *const *values, int64_t rounds, tn__value **out) {
  tn__value **in = TN__NEW_ARRAY(n->arena, s->states + s->inputs, tn__value *);
  tn__value **made = TN__NEW_ARRAY(n->arena, s->states + s->outputs, tn__value *);
  pieces *lists = TN__NEW_ARRAY(n->arena, s->outputs, pieces);
  memcpy(in, values, (size_t)s->states * sizeof(*in));
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

typedef struct scan_rounds {
  const scan_spec *spec;
  tn__value *const *values; /* states, then scanned inputs */
} scan_rounds;

/* Round i takes slice i of each scanned input, or from the end; there are as many rounds as slices (scan_length). */
static void scan_round(tn__oround *round, void *user) {
  const scan_rounds *rounds = user;
  const scan_spec *s = rounds->spec;
  tn__onode *n = round->inside;
  tn__value **in = TN__NEW_ARRAY(n->arena, s->states + s->inputs, tn__value *);
  tn__value **made = TN__NEW_ARRAY(n->arena, s->states + s->outputs, tn__value *);
  for (int i = 0; i < s->states; i++) in[i] = round->states[i];
  for (int i = 0; i < s->inputs; i++) {
    tn__value *x = tn__body_capture(round->body, rounds->values[s->states + i]);
    tn__value *at = round->index;
    if (s->input_backwards[i] != 0) at = tn__on_sub(n, tn__on_add_s(n, round->trips, -1), at);
    in[s->states + i] = tn__g_take_trusted(n->g, x, at, (int)tn__on_axis(n, s->input_axes[i], x->rank));
  }
  tn__onnx_inline_graph(n, s->body, in, s->states + s->inputs, made, s->states + s->outputs);
  for (int i = 0; i < s->states; i++) round->next[i] = made[i];
  for (int i = 0; i < s->outputs; i++) round->pieces[i] = made[s->states + i];
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
  enum { MOST_ROUNDS = 32, MOST_NODES = 256 };
  const tn__expr *length = scan_length(n, s, values);
  int64_t rounds;
  if (tn__ir_as_int(length, &rounds) && rounds > 0 && rounds <= MOST_ROUNDS &&
      rounds * (int64_t)s->body->n_node <= MOST_NODES) {
    unroll_scan(n, s, values, rounds, out);
    return;
  }
  scan_rounds all = {s, values};
  tn__value **lists = TN__NEW_ARRAY(n->arena, s->outputs, tn__value *);
  const tn__value **types = TN__NEW_ARRAY(n->arena, s->outputs, const tn__value *);
  bool *backwards = TN__NEW_ARRAY(n->arena, s->outputs, bool);
  for (int i = 0; i < s->outputs; i++) backwards[i] = s->output_backwards[i] != 0;
  memcpy(out, values, (size_t)s->states * sizeof(*out));
  tn__oloop loop = {.trips = tn__g_from_elements(n->g, TN_I64, &length, 1, 0),
                    .states = out,
                    .state_count = s->states,
                    .piece_count = s->outputs,
                    .backwards = backwards,
                    .round = scan_round,
                    .user = &all};
  tn__onnx_run_loop(n, &loop, lists, types);
  for (int i = 0; i < s->outputs; i++)
    out[s->states + i] = tn__onnx_stack_list(n, &loop, lists[i], types[i], s->body->output[s->states + i],
                                             (int)tn__on_axis(n, s->output_axes[i], types[i]->rank + 1));
}

/* Opset 8: a batch in front of everything, scanned one by one. */
static void scan_batches(tn__onode *n, const scan_spec *s, tn__value *const *values) {
  enum { MOST_BATCHES = 1024 };
  int total = s->states + s->outputs, given = s->states + s->inputs;
  if (given == 0 || values[0] == NULL || values[0]->rank == 0) tn__on_fail(n, "has no inputs with a batch");
  int64_t batches = tn__g_dim_const(values[0], 0);
  if (batches < 1 || batches > MOST_BATCHES)
    tn__on_unsupported(n, "the number of batches must be a constant from 1 to %d", MOST_BATCHES);
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
