/* The operators of sequences and optional values. */
#include <string.h>

#include "import/onnx/body.h"

int tn__onnx_rank_of_item(const tn__onode *n, const tn__value *list, int output) {
  if (list->item_rank != TN__ANY_RANK) return list->item_rank;
  int declared = tn__onnx_declared_rank(n, output), ranks = list->likely_ranks;
  return declared >= 0 ? declared : ranks > 0 ? ranks - 1 : -1;
}

static const tn__sequence *sequence(const tn__onode *n, int input) { return n->in[input]->data; }

/* Must the operator run, rather than be done now? `at` is the operand that holds a position, or -1. */
static bool runs(const tn__onode *n, int at) {
  const int64_t *known;
  int count;
  if (tn__g_is_list(n->in[0])) return true;
  if (at < 0 || n->in[at] == NULL || tn__g_is_sequence(n->in[at]) || tn__g_is_list(n->in[at])) return false;
  return tn__g_is_sequence(n->in[0]) && !tn__on_known_ints(n, at, &known, &count);
}

/* Operand 0 as a list of the machine; `item` (may be NULL) tells the type of an empty one. */
static tn__value *as_list(tn__onode *n, const tn__value *item) {
  tn_dtype dtype;
  int rank;
  if (!tn__g_list_type(n->in[0], &dtype, &rank)) {
    if (item == NULL) tn__on_fail(n, "the sequence is empty");
    dtype = item->dtype, rank = item->rank;
  }
  tn__value_holds holds = tn__g_is_list(n->in[0]) ? n->in[0]->holds : TN__HOLDS_SEQUENCE;
  return tn__g_list(n->g, n->in[0], dtype, rank, holds);
}

/* A tensor of the list, which becomes output 0. */
static tn__value *take(tn__onode *n, tn__value *list, tn__value *position) {
  int rank = tn__onnx_rank_of_item(n, list, 0);
  if (rank < 0)
    tn__on_unsupported(n,
                       "the tensors of the sequence may differ in their number of dimensions, and the model does not "
                       "declare that of output 0 (\"%s\")",
                       n->proto->output[0]);
  return tn__g_sequence_at(n->g, list, position, rank);
}

/* A position that is data. */
static tn__value *run_position(tn__onode *n, int input) {
  if (n->in[input] == NULL) return NULL;
  return tn__on_reshape(n, n->in[input], 0, NULL);
}

/* The position that operand `input` states, from the end when negative; `count` positions are allowed. */
static int position(tn__onode *n, int input, int length, int count) {
  const int64_t *known;
  int given;
  known = tn__on_ints_operand(n, input, &given, "positions in sequences must be known");
  if (given != 1) tn__on_fail(n, "input %d (position) has %d elements, expected 1", input, given);
  int64_t at = known[0] < 0 ? known[0] + length : known[0];
  if (at < 0 || at >= count)
    tn__on_fail(n, "position %lld is outside of a sequence of %d", (long long)known[0], length);
  return (int)at;
}

void tn__onnx_sequence_construct(tn__onode *n) {
  tn_dtype dtype = n->input_count > 0 ? n->in[0]->dtype : tn__onnx_dtype((int32_t)tn__on_int(n, "dtype", 1));
  n->out[0] = tn__g_sequence_known(n->g, n->in, n->input_count, dtype);
}

void tn__onnx_sequence_at(tn__onode *n) {
  if (runs(n, 1)) {
    tn__value *at = run_position(n, 1);
    n->out[0] = take(n, as_list(n, NULL), at);
    return;
  }
  const tn__sequence *s = sequence(n, 0);
  n->out[0] = s->items[position(n, 1, s->count, s->count)];
}

void tn__onnx_sequence_length(tn__onode *n) {
  n->out[0] =
      runs(n, -1) ? tn__g_sequence_length(n->g, n->in[0]) : tn__g_scalar_i64(n->g, TN_I64, sequence(n, 0)->count);
}

void tn__onnx_sequence_insert(tn__onode *n) {
  enum { MOST_ITEMS = 1 << 16 };
  if (runs(n, 2)) {
    tn__value *at = run_position(n, 2);
    n->out[0] = tn__g_list_insert(n->g, as_list(n, n->in[1]), n->in[1], at);
    return;
  }
  const tn__sequence *s = sequence(n, 0);
  if (s->count >= MOST_ITEMS) tn__on_unsupported(n, "makes a sequence of more than %d tensors", MOST_ITEMS);
  int at = n->in[2] == NULL ? s->count : position(n, 2, s->count, s->count + 1);
  tn__value **items = TN__NEW_ARRAY(n->arena, s->count + 1, tn__value *);
  for (int i = 0; i <= s->count; i++) items[i] = i < at ? s->items[i] : i == at ? n->in[1] : s->items[i - 1];
  n->out[0] = tn__g_sequence_known(n->g, items, s->count + 1, s->dtype);
}

void tn__onnx_sequence_erase(tn__onode *n) {
  if (runs(n, 1)) {
    tn__value *list = as_list(n, NULL);
    n->out[0] = tn__g_sequence_erase(n->g, list, run_position(n, 1));
    n->out[0]->likely_ranks = tn__g_ranks(list);
    return;
  }
  const tn__sequence *s = sequence(n, 0);
  if (s->count == 0) tn__on_fail(n, "nothing can be erased from an empty sequence");
  int at = n->in[1] == NULL ? s->count - 1 : position(n, 1, s->count, s->count);
  tn__value **items = TN__NEW_ARRAY(n->arena, s->count, tn__value *);
  for (int i = 0, to = 0; i < s->count; i++)
    if (i != at) items[to++] = s->items[i];
  n->out[0] = tn__g_sequence_known(n->g, items, s->count - 1, s->dtype);
}

void tn__onnx_concat_from_sequence(tn__onode *n) {
  bool fresh = tn__on_int(n, "new_axis", 0) != 0;
  if (runs(n, -1)) {
    tn__value *list = as_list(n, NULL);
    int declared = tn__onnx_declared_rank(n, 0), rank = list->item_rank;
    if (rank == TN__ANY_RANK) rank = declared >= 0 ? declared - (fresh ? 1 : 0) : tn__g_ranks(list) - 1;
    if (rank < 0)
      tn__on_unsupported(n,
                         "the tensors of the sequence may differ in their number of dimensions, and the model does not "
                         "declare that of output 0 (\"%s\")",
                         n->proto->output[0]);
    int64_t at = tn__on_axis(n, tn__on_int(n, "axis", 0), rank + (fresh ? 1 : 0));
    n->out[0] = tn__g_sequence_join(n->g, tn__g_list_as(n->g, list, list->holds, rank), (int)at, fresh, NULL, NULL);
    return;
  }
  const tn__sequence *s = sequence(n, 0);
  if (s->count == 0) tn__on_fail(n, "an empty sequence cannot be concatenated");
  int rank = s->items[0]->rank + (fresh ? 1 : 0);
  const int64_t axis = tn__on_axis(n, tn__on_int(n, "axis", 0), rank);
  tn__value **items = TN__NEW_ARRAY(n->arena, s->count, tn__value *);
  for (int i = 0; i < s->count; i++) {
    if (s->items[i]->rank != s->items[0]->rank || s->items[i]->dtype != s->items[0]->dtype)
      tn__on_fail(n, "tensor %d of the sequence has another type or number of dimensions than tensor 0", i);
    items[i] = fresh ? tn__on_unsqueeze(n, s->items[i], &axis, 1) : s->items[i];
  }
  n->out[0] = s->count == 1 ? items[0] : tn__g_concatenate(n->g, items, s->count, (int)axis);
}

/* The lengths of the pieces, when they are data or the length of the whole is. */
static tn__value *piece_lengths(tn__onode *n, const tn__expr *total) {
  if (n->in[1] != NULL && n->in[1]->rank > 0) return tn__g_convert(n->g, n->in[1], TN_I64);
  const tn__expr *one = tn__on_index(n, 1), *size = n->in[1] == NULL ? one : tn__on_element(n, 1);
  tn__graph_assume(n->g, tn__ir_le(n->ir, one, size), "the length of a piece must be at least 1");
  const tn__expr *pieces = tn__ir_div(n->ir, tn__ir_sub(n->ir, tn__ir_add(n->ir, total, size), one), size);
  tn__value *start = tn__g_iota(n->g, TN_I64, 1, &pieces, 0), *whole = tn__g_from_elements(n->g, TN_I64, &total, 1, 0);
  tn__value *length = tn__g_from_elements(n->g, TN_I64, &size, 1, 0);
  return tn__on_min(n, length, tn__on_sub(n, whole, tn__on_mul(n, start, length)));
}

static bool splits_late(const tn__onode *n, int axis) {
  const int64_t *known;
  int count;
  return tn__g_dim_const(n->in[0], axis) < 0 || (n->in[1] != NULL && !tn__on_known_ints(n, 1, &known, &count));
}

/* Pieces of given sizes, of one size (the last may be smaller), or single elements. */
void tn__onnx_split_to_sequence(tn__onode *n) {
  enum { MOST_ITEMS = 1 << 12 };
  tn__value *x = n->in[0];
  const int64_t *sizes = NULL;
  int given = 0;
  const int64_t axis = tn__on_axis(n, tn__on_int(n, "axis", 0), x->rank);
  bool single = n->in[1] == NULL, keep = !single || tn__on_int(n, "keepdims", 1) != 0;
  if (splits_late(n, (int)axis)) {
    n->out[0] = tn__g_sequence_split(n->g, x, piece_lengths(n, x->dims[axis]), (int)axis, keep);
    return;
  }
  int64_t total = tn__on_dim_known(n, 0, (int)axis, "the length that is split");
  if (!single) sizes = tn__on_ints_operand(n, 1, &given, "the number of pieces depends on it");
  bool one_size = single || n->in[1]->rank == 0;
  int64_t size = single ? 1 : one_size ? sizes[0] : 0;
  if (one_size && size < 1) tn__on_fail(n, "splits into pieces of %lld", (long long)size);
  int64_t count = one_size ? (total + size - 1) / size : given;
  if (count > MOST_ITEMS) tn__on_unsupported(n, "splits into more than %d pieces", MOST_ITEMS);
  tn__value **items = TN__NEW_ARRAY(n->arena, count, tn__value *);
  int64_t low = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t own = one_size ? size : sizes[i], high = own < 0 || own > total - low ? total : low + own;
    if (!one_size && (own < 0 || own > total - low))
      tn__on_fail(n, "its pieces do not add up to %lld elements", (long long)total);
    items[i] = tn__on_slice_axis(n, x, (int)axis, tn__on_index(n, low), tn__on_index(n, high));
    if (!keep) items[i] = tn__on_squeeze(n, items[i], &axis, 1);
    low = high;
  }
  if (low != total) tn__on_fail(n, "its pieces do not add up to %lld elements", (long long)total);
  n->out[0] = tn__g_sequence_known(n->g, items, (int)count, x->dtype);
}

typedef struct map_rounds {
  tn__onode *n;
  const Onnx__GraphProto *body;
} map_rounds;

static void map_round(tn__round *round, void *user) {
  const map_rounds *map = user;
  tn__onode *n = map->n, *inside = tn__onnx_enter(n, round->body);
  tn__value **in = TN__NEW_ARRAY(n->arena, n->input_count, tn__value *);
  for (int k = 0; k < n->input_count; k++) {
    in[k] = tn__body_capture(round->body, n->in[k]);
    if (!tn__g_is_list(n->in[k])) continue;
    int rank = tn__onnx_rank_of_item(n, n->in[k], -1);
    if (rank < 0) rank = tn__onnx_info_rank(map->body->input[k]);
    if (rank < 0)
      tn__on_unsupported(n,
                         "the tensors of input %d may differ in their number of dimensions, and the body does not "
                         "declare that of \"%s\"",
                         k, map->body->input[k]->name);
    in[k] = tn__g_sequence_at(round->body->g, in[k], round->index, rank);
  }
  tn__onnx_inline_graph(inside, map->body, in, n->input_count, round->pieces, n->output_count);
  tn__onnx_leave(n, round->body);
}

static void run_map(tn__onode *n, const Onnx__GraphProto *body) {
  const tn__expr *length = NULL;
  int count;
  for (int k = 0; k < n->input_count; k++) {
    tn_dtype dtype;
    int rank;
    if (n->in[k] == NULL) tn__on_fail(n, "input %d is missing", k);
    if (tn__g_is_sequence(n->in[k])) {
      if (!tn__g_sequence_type(n->in[k], &dtype, &rank)) tn__on_fail(n, "input %d is an empty sequence", k);
      n->in[k] = tn__g_list(n->g, n->in[k], dtype, rank, TN__HOLDS_SEQUENCE);
    }
    if (!tn__g_is_list(n->in[k])) continue;
    const tn__expr *own = tn__graph_elements(n->g, tn__g_sequence_length(n->g, n->in[k]), &count)[0];
    if (length == NULL)
      length = own;
    else
      tn__graph_assume(n->g, tn__ir_eq(n->ir, own, length), "input %d must have as many tensors as input 0", k);
  }
  map_rounds map = {n, body};
  tn__loop loop = {.g = n->g,
                   .around = tn__onnx_body(n),
                   .trips = tn__g_from_elements(n->g, TN_I64, &length, 1, 0),
                   .piece_count = n->output_count,
                   .round = map_round,
                   .user = &map};
  tn__loop_make(&loop, n->out);
}

/* The body once for each element; tensors among the operands are the same for all. */
void tn__onnx_sequence_map(tn__onode *n) {
  const Onnx__GraphProto *body = tn__on_graph(n, "body");
  for (int k = 0; k < n->input_count; k++) {
    if (!tn__g_is_list(n->in[k])) continue;
    run_map(n, body);
    return;
  }
  int length = sequence(n, 0)->count, inputs = n->input_count, outputs = n->output_count;
  tn__value **in = TN__NEW_ARRAY(n->arena, inputs, tn__value *), **out = TN__NEW_ARRAY(n->arena, outputs, tn__value *);
  tn__value ***made = TN__NEW_ARRAY(n->arena, outputs, tn__value **);
  for (int k = 0; k < outputs; k++) made[k] = TN__NEW_ARRAY(n->arena, length, tn__value *);
  for (int i = 0; i < length; i++) {
    for (int k = 0; k < inputs; k++) {
      if (n->in[k] == NULL) tn__on_fail(n, "input %d is missing", k);
      bool each = tn__g_is_sequence(n->in[k]);
      if (each && sequence(n, k)->count != length)
        tn__on_fail(n, "input %d has %d tensors, and input 0 has %d", k, sequence(n, k)->count, length);
      in[k] = each ? sequence(n, k)->items[i] : n->in[k];
    }
    tn__onnx_inline_graph(n, body, in, inputs, out, outputs);
    for (int k = 0; k < outputs; k++) {
      if (tn__g_is_sequence(out[k])) tn__on_unsupported(n, "makes sequences of sequences");
      made[k][i] = out[k];
    }
  }
  for (int k = 0; k < outputs; k++) n->out[k] = tn__g_sequence_known(n->g, made[k], length, TN_F32);
}

/* ---- optional values --------------------------------------------------------------------------------------------- */

static bool is_optional(const tn__value *v) { return tn__g_is_list(v) && v->holds != TN__HOLDS_SEQUENCE; }

/* What is there stands for itself; what is not gets its type from the branch that has it. */
void tn__onnx_optional(tn__onode *n) {
  n->out[0] = n->in[0];
  if (n->in[0] != NULL) return;
  n->out[0] = tn__g_sequence_known(n->g, NULL, 0, TN_F32);
  tn__sequence *s = (tn__sequence *)(uintptr_t)n->out[0]->data;
  s->absent = true;
}

void tn__onnx_optional_get(tn__onode *n) {
  if (tn__g_is_absent(n->in[0])) tn__on_fail(n, "the optional value is absent");
  n->out[0] = !is_optional(n->in[0]) ? n->in[0]
              : n->in[0]->holds == TN__HOLDS_OPTIONAL
                  ? take(n, n->in[0], NULL)
                  : tn__g_list_as(n->g, n->in[0], TN__HOLDS_SEQUENCE, n->in[0]->item_rank);
}

void tn__onnx_optional_has(tn__onode *n) {
  n->out[0] = is_optional(n->in[0]) ? tn__g_optional_has(n->g, n->in[0])
                                    : tn__g_scalar_i64(n->g, TN_BOOL, n->in[0] != NULL && !tn__g_is_absent(n->in[0]));
}
