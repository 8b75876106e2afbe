/* Loops: few rounds that are known are written out, others run. The variables of a while are the number of the round,
 * the number of rounds when there is one, the condition, the states, what the body captures, and a sequence for each
 * result that every round adds to. */
#include <string.h>

#include "graph/build/control.h"
#include "graph/build/list.h"

enum { MOST_ATTEMPTS = 256 };

/* What is not known before the body has been imported: sizes that it changes, and the number of dimensions of the
 * tensors in sequences that start empty. The body is imported until nothing of that is new. */
typedef struct attempt {
  tn__graph *g;
  tn__loop *loop;
  bool (*varies)[TN__MAX_RANK]; /* by state */
  tn__value **starts;           /* the states as operands; NULL for a sequence that is empty and stays so */
  tn__value *zero;
  tn__round round;
  bool *piece_lists;
} attempt;

/* An empty sequence of the importer's, whose tensors' type nothing has told yet. */
static bool still_unknown(const tn__value *state) { return tn__g_is_sequence(state); }

static void declare_variables(attempt *a) {
  tn__body *b = a->round.body;
  const tn__loop *loop = a->loop;
  a->round.index = tn__body_input(b, a->zero, NULL);
  a->round.trips = loop->trips == NULL ? NULL : tn__body_input(b, loop->trips, NULL);
  a->round.condition = tn__body_input(b, loop->condition, NULL);
  for (int k = 0; k < loop->state_count; k++) {
    tn__value *start = a->starts[k];
    a->round.states[k] = still_unknown(start) ? start : tn__body_input(b, start, a->varies[k]);
  }
}

/* A sequence that starts empty has tensors after a round: their type is that of the first. */
static bool learn_type(attempt *a, int k) {
  const tn__value *next = a->round.next[k];
  tn_dtype dtype;
  int rank;
  if (!tn__g_is_sequence(next) && !tn__g_is_list(next))
    tn__graph_fail(a->g, TN_INVALID_ARGUMENT, "loop variable %d is a sequence and becomes a tensor", k);
  if (!tn__g_list_type(next, &dtype, &rank)) return false;
  a->starts[k] = tn__g_list(a->g, a->starts[k], dtype, rank, TN__HOLDS_SEQUENCE);
  a->starts[k]->likely_ranks = tn__g_ranks(next);
  return true;
}

/* A list keeps its type in the next round, or is one of any rank from the start. What a round tells about ranks is
 * known to the body from the start, too: it may take tensors out before it puts some in. */
static bool list_settled(attempt *a, int k) {
  const tn__value *state = a->round.states[k];
  tn__value **next = &a->round.next[k], **start = &a->starts[k];
  tn_dtype dtype;
  int rank;
  bool typed = tn__g_list_type(*next, &dtype, &rank) && !tn__g_is_absent(*next);
  if (typed && dtype != state->dtype)
    tn__graph_fail(a->g, TN_INVALID_ARGUMENT, "loop variable %d holds tensors of %s and becomes one of %s", k,
                   tn_dtype_name(state->dtype), tn_dtype_name(dtype));
  int ranks = tn__g_meet_ranks(tn__g_ranks(state), typed ? tn__g_ranks(*next) : 0);
  bool widens = typed && rank != state->item_rank && state->item_rank != TN__ANY_RANK;
  if (widens) *start = tn__g_list(a->g, *start, dtype, TN__ANY_RANK, state->holds);
  if (widens || (state->item_rank == TN__ANY_RANK && ranks != state->likely_ranks)) {
    (*start)->likely_ranks = ranks;
    return false;
  }
  *next = tn__g_list(a->round.body->g, *next, state->dtype, state->item_rank, state->holds);
  return true;
}

static void require_same_type(const attempt *a, int k) {
  const tn__value *own = a->starts[k], *next = a->round.next[k];
  if (next->narrow > 0) tn__graph_fail(a->g, TN_UNSUPPORTED, "loop variable %d is %s", k, tn__g_narrow_name(next));
  if (own->dtype != next->dtype)
    tn__graph_fail(a->g, TN_INVALID_ARGUMENT, "loop variable %d is %s and becomes %s", k, tn_dtype_name(own->dtype),
                   tn_dtype_name(next->dtype));
  if (own->rank != next->rank)
    tn__graph_fail(a->g, TN_UNSUPPORTED, "loop variable %d has %d dimension%s and gets %d", k, own->rank,
                   tn__plural(own->rank), next->rank);
}

/* Does the body leave state k as it was assumed to be? */
static bool settled(attempt *a, int k) {
  tn__value *state = a->round.states[k], **next = &a->round.next[k];
  bool changed = false;
  if (still_unknown(state)) return !learn_type(a, k);
  if (state->holds != TN__HOLDS_TENSOR) return list_settled(a, k);
  if (tn__g_is_sequence(*next) || (*next)->holds != TN__HOLDS_TENSOR)
    tn__graph_fail(a->g, TN_INVALID_ARGUMENT, "loop variable %d is a tensor and becomes a sequence", k);
  require_same_type(a, k);
  for (int d = 0; d < state->rank; d++) {
    if (a->varies[k][d] || (*next)->dims[d] == state->dims[d]) continue;
    a->varies[k][d] = changed = true;
  }
  return !changed;
}

static void import_round(attempt *a) {
  const tn__loop *loop = a->loop;
  for (int i = 0; i < MOST_ATTEMPTS; i++) {
    a->round.body = tn__body_create(a->g, loop->around, "body");
    a->round.goes_on = NULL;
    declare_variables(a);
    loop->round(&a->round, loop->user);
    bool done = true;
    for (int k = 0; k < loop->state_count; k++) done = settled(a, k) && done;
    if (done) return;
  }
  tn__graph_fail(a->g, TN_UNSUPPORTED, "the shapes of its loop variables do not settle");
}

/* Whether there is another round: over the same variables as the body. */
static tn__graph *make_condition(const attempt *a) {
  const tn__graph *body = a->round.body->g;
  tn__graph *g = tn__graph_create(tn__graph_ir(a->g), "condition");
  tn__value *first[3] = {NULL};
  int count, special = a->round.trips == NULL ? 2 : 3;
  for (int i = 0; i < tn__graph_input_count(body); i++) {
    const tn__value *like = tn__graph_input_at(body, i);
    const tn__expr *dims[TN__MAX_RANK];
    for (int d = 0; d < like->rank; d++) dims[d] = tn__ir_is_int(like->dims[d]) ? like->dims[d] : NULL;
    tn__value *input = tn__graph_input(g, like->name, like->dtype, like->rank, dims);
    input->holds = like->holds;
    input->item_rank = like->item_rank;
    for (int d = 0; d < like->rank; d++)
      if (dims[d] == NULL)
        tn__graph_input_symbol(g, tn__arena_printf(tn__graph_arena(a->g), "%s_d%d", like->name, d), input, d);
    if (i < special) first[i] = input;
  }
  for (int i = 0; i < special; i++) tn__graph_elements(g, first[i], &count);
  tn__value *more = first[special - 1];
  if (special == 3) more = tn__g_binary(g, "and", more, tn__g_compare(g, TN__CMP_LT, first[0], first[1]));
  tn__graph_output(g, "more", more);
  return g;
}

static tn__value *scalar(tn__graph *g, tn__value *v) { return v->rank == 0 ? v : tn__g_reshape(g, v, 0, NULL); }

static tn__value *one_flag(attempt *a, tn__value *value) {
  if (tn__g_is_sequence(value) || value->holds != TN__HOLDS_TENSOR)
    tn__graph_fail(a->g, TN_INVALID_ARGUMENT, "its condition is a sequence");
  if (value->dtype != TN_BOOL)
    tn__graph_fail(a->g, TN_INVALID_ARGUMENT, "its condition is %s, expected bool", tn_dtype_name(value->dtype));
  return scalar(a->round.body->g, value);
}

static void put_output(tn__graph *g, tn__value *value) {
  tn__arena *arena = tn__graph_arena(g);
  tn__graph_output(g, tn__arena_printf(arena, "next%d", tn__graph_output_count(g)), value);
}

/* The variables after the round, in the order of the body's inputs. */
static void put_outputs(attempt *a, tn__value *const *lists) {
  const tn__loop *loop = a->loop;
  tn__graph *g = a->round.body->g;
  put_output(g, tn__g_binary_s(g, "add", a->round.index, 1));
  if (a->round.trips != NULL) put_output(g, a->round.trips);
  tn__value *more = a->round.goes_on == NULL ? a->round.condition : one_flag(a, a->round.goes_on);
  int64_t known;
  if (more->elements != NULL && tn__ir_as_int(more->elements[0], &known) && known != 0) more = a->round.condition;
  if (more->data != NULL && tn__load_i64(TN_BOOL, more->data, 0) != 0) more = a->round.condition;
  put_output(g, more);
  for (int k = 0; k < loop->state_count; k++)
    if (!still_unknown(a->starts[k])) put_output(g, a->round.next[k]);
  for (int i = 0; i < a->round.body->inputs.count; i++) put_output(g, a->round.body->inputs.data[i]);
  for (int p = 0; p < loop->piece_count; p++) put_output(g, lists[p]);
}

/* A sequence for each piece: empty outside, grown by the body. */
static void collect_pieces(attempt *a, tn__value **starts, tn__value **grown) {
  tn__graph *g = a->round.body->g;
  for (int p = 0; p < a->loop->piece_count; p++) {
    tn__value *piece = a->round.pieces[p];
    if (tn__g_is_sequence(piece) || piece->holds != TN__HOLDS_TENSOR)
      tn__graph_fail(a->g, TN_INVALID_ARGUMENT, "its body makes a sequence where a tensor is collected");
    if (piece->narrow > 0)
      tn__graph_fail(a->g, TN_UNSUPPORTED, "its body makes %s where a tensor is collected", tn__g_narrow_name(piece));
    starts[p] = tn__g_sequence_empty(a->g, piece->dtype, piece->rank, TN__HOLDS_SEQUENCE);
    tn__value *list = tn__body_input(a->round.body, starts[p], NULL);
    bool front = a->loop->backwards != NULL && a->loop->backwards[p];
    grown[p] = tn__g_sequence_insert(g, list, piece, front ? tn__g_scalar_i64(g, TN_I64, 0) : NULL);
  }
}

static void run(tn__graph *g, tn__loop *loop, tn__value **lists, const tn__value **types) {
  tn__arena *arena = tn__graph_arena(g);
  attempt a = {.g = g, .loop = loop};
  a.varies = tn__arena_alloc_array(arena, (size_t)loop->state_count + 1, sizeof(*a.varies));
  memset(a.varies, 0, ((size_t)loop->state_count + 1) * sizeof(*a.varies));
  a.starts = TN__NEW_ARRAY(arena, loop->state_count, tn__value *);
  a.round.states = TN__NEW_ARRAY(arena, loop->state_count, tn__value *);
  a.round.next = TN__NEW_ARRAY(arena, loop->state_count, tn__value *);
  a.round.pieces = TN__NEW_ARRAY(arena, loop->piece_count, tn__value *);
  a.zero = tn__g_scalar_i64(g, TN_I64, 0);
  if (loop->condition == NULL) loop->condition = tn__g_scalar_i64(g, TN_BOOL, 1);
  for (int k = 0; k < loop->state_count; k++) {
    tn_dtype dtype;
    int rank;
    a.starts[k] = loop->states[k];
    if (tn__g_is_sequence(a.starts[k]) && tn__g_sequence_type(a.starts[k], &dtype, &rank))
      a.starts[k] = tn__g_list(g, a.starts[k], dtype, rank, TN__HOLDS_SEQUENCE);
  }
  import_round(&a);
  loop->body = a.round.body;
  tn__value **grown = TN__NEW_ARRAY(arena, loop->piece_count, tn__value *);
  collect_pieces(&a, lists, grown);
  put_outputs(&a, grown);
  int count = 0, total = tn__graph_input_count(a.round.body->g), at;
  tn__value **operands = TN__NEW_ARRAY(arena, total, tn__value *);
  operands[count++] = a.zero;
  if (loop->trips != NULL) operands[count++] = loop->trips;
  operands[count++] = loop->condition;
  at = count;
  for (int k = 0; k < loop->state_count; k++)
    if (!still_unknown(a.starts[k])) operands[count++] = a.starts[k];
  for (int i = 0; i < a.round.body->operands.count; i++) operands[count++] = a.round.body->operands.data[i];
  for (int p = 0; p < loop->piece_count; p++) operands[count++] = lists[p];
  tn__node *node = tn__g_while(g, make_condition(&a), a.round.body->g, operands, count);
  for (int k = 0; k < loop->state_count; k++) {
    if (still_unknown(a.starts[k])) continue;
    loop->states[k] = node->outputs[at++];
    loop->states[k]->likely_ranks = a.starts[k]->likely_ranks;
  }
  for (int p = 0; p < loop->piece_count; p++) {
    lists[p] = node->outputs[count - loop->piece_count + p];
    types[p] = a.round.pieces[p];
  }
}

/* The pieces of all rounds along a new axis. Of no rounds, too, the result has the sizes that are known outside, and of
 * the others those that are declared. */
static tn__value *stack(const tn__loop *loop, int piece, tn__value *list, const tn__value *type) {
  const tn__expr *shape[TN__MAX_RANK + 1], *open = tn__ir_index(tn__graph_ir(loop->g), -1);
  int64_t empty[TN__MAX_RANK + 1] = {0};
  int axis = (int)tn__g_axis(loop->g, loop->axes[piece], type->rank + 1);
  for (int i = 0, d = 0; i <= type->rank && i < TN__MAX_RANK; i++) {
    shape[i] = open;
    if (i == axis) continue;
    const tn__expr *size = tn__body_outside(loop->body, type->dims[d]);
    int64_t told = loop->declared == NULL ? -1 : loop->declared(piece, type->rank, d, loop->user);
    if (size != NULL) shape[i] = size;
    if (told > 0) empty[i] = told;
    d++;
  }
  return tn__g_sequence_join(loop->g, list, axis, true, shape, empty);
}

/* ---- rounds that are written out --------------------------------------------------------------------------------- */

/* One integer or bool whose value is known. */
TN_MUST_USE static bool is_known(const tn__value *v, int64_t *value) {
  int64_t shape[TN__MAX_RANK], count = 1;
  if (!tn__g_shape_const(v, shape)) return false;
  for (int d = 0; d < v->rank; d++) count *= shape[d];
  if (count != 1) return false;
  if (v->data == NULL) return v->elements != NULL && tn__ir_as_int(v->elements[0], value);
  *value = tn__load_i64(v->dtype, v->data, 0);
  return true;
}

/* What is constant in each of few rounds of a small body can be folded, and kernels fuse across rounds. */
bool tn__loop_unrolls(const tn__loop *loop, int64_t *rounds) {
  enum { MOST_ROUNDS = 32, MOST_NODES = 256 };
  const tn__value *starts = loop->condition;
  int64_t value = 1;
  if (loop->axes == NULL || loop->trips == NULL || !loop->ends_by_count || !is_known(loop->trips, rounds)) return false;
  if (starts != NULL && (!is_known(starts, &value) || (starts->data != NULL && value == 0))) return false;
  return *rounds > 0 && *rounds <= MOST_ROUNDS && *rounds * loop->cost <= MOST_NODES;
}

typedef struct pieces { /* of one result that every round adds to */
  TN__VEC(tn__value *) values;
} pieces;

static void add_piece(tn__loop *loop, pieces *p, tn__value *x, int k) {
  bool backwards = loop->backwards != NULL && loop->backwards[k];
  if (tn__g_is_sequence(x))
    tn__graph_fail(loop->g, TN_INVALID_ARGUMENT, "its body makes a sequence where a tensor is collected");
  int64_t axis = tn__g_axis(loop->g, loop->axes[k], x->rank + 1);
  tn__value *piece = tn__g_unsqueeze(loop->g, x, &axis, 1);
  tn__vec_push(tn__graph_arena(loop->g), &p->values, piece);
  for (int i = p->values.count - 1; backwards && i > 0; i--) p->values.data[i] = p->values.data[i - 1];
  if (backwards) p->values.data[0] = piece;
}

static tn__value *join(tn__loop *loop, const pieces *p, int k) {
  if (p->values.count == 0) tn__graph_fail(loop->g, TN_INVALID_ARGUMENT, "makes no rounds");
  int rank = p->values.data[0]->rank;
  if (p->values.count == 1) return p->values.data[0];
  return tn__g_concatenate(loop->g, p->values.data, p->values.count, (int)tn__g_axis(loop->g, loop->axes[k], rank));
}

static bool known_condition(tn__graph *g, const tn__value *condition) {
  int64_t value;
  if (tn__g_is_container(condition)) tn__graph_fail(g, TN_INVALID_ARGUMENT, "its condition is a sequence");
  if (condition->dtype != TN_BOOL)
    tn__graph_fail(g, TN_INVALID_ARGUMENT, "its condition is %s, expected bool", tn_dtype_name(condition->dtype));
  if (condition->elements != NULL && tn__ir_as_int(condition->elements[0], &value)) return value != 0;
  return condition->data == NULL || tn__load_i64(TN_BOOL, condition->data, 0) != 0;
}

static void unroll(tn__loop *loop, int64_t rounds, tn__value **results) {
  tn__graph *g = loop->g;
  tn__arena *arena = tn__graph_arena(g);
  tn__round round = {.count = rounds,
                     .condition = loop->condition,
                     .states = TN__NEW_ARRAY(arena, loop->state_count, tn__value *),
                     .next = loop->states,
                     .pieces = TN__NEW_ARRAY(arena, loop->piece_count, tn__value *)};
  pieces *lists = TN__NEW_ARRAY(arena, loop->piece_count, pieces);
  if (round.condition == NULL) round.condition = tn__g_scalar_i64(g, TN_BOOL, 1);
  bool goes_on = known_condition(g, round.condition);
  for (; goes_on && round.number < rounds; round.number++) {
    round.index = tn__g_scalar_i64(g, TN_I64, round.number);
    for (int k = 0; k < loop->state_count; k++) round.states[k] = round.next[k];
    round.goes_on = NULL;
    loop->round(&round, loop->user);
    if (round.goes_on != NULL) {
      if (round.number + 1 < rounds) goes_on = known_condition(g, round.goes_on);
      round.condition = round.goes_on;
    }
    for (int k = 0; k < loop->piece_count; k++) add_piece(loop, &lists[k], round.pieces[k], k);
  }
  for (int k = 0; k < loop->piece_count; k++) results[k] = join(loop, &lists[k], k);
}

void tn__loop_make(tn__loop *loop, tn__value **results) {
  int64_t rounds;
  if (tn__loop_unrolls(loop, &rounds)) {
    unroll(loop, rounds, results);
    return;
  }
  tn__graph *g = loop->g;
  const tn__value **types = TN__NEW_ARRAY(tn__graph_arena(g), loop->piece_count, const tn__value *);
  if (loop->trips != NULL) loop->trips = tn__g_convert(g, scalar(g, loop->trips), TN_I64);
  if (loop->condition != NULL) loop->condition = tn__g_convert(g, scalar(g, loop->condition), TN_BOOL);
  run(g, loop, results, types);
  for (int k = 0; k < loop->piece_count && loop->axes != NULL; k++) results[k] = stack(loop, k, results[k], types[k]);
}
