/* Sequences and optional values. They exist only while importing: a sequence is a list of values whose length is known,
 * and positions in it must be known too, so that nothing is left of them in the graph. */
#include <string.h>

#include "import/onnx/ops.h"

struct tn__onnx_sequence {
  int count;
  tn__value **items;
};

/* A value without type stands for a sequence where operands and results are looked up. */
tn__value *tn__onnx_sequence_value(const tn__onode *n, tn__value *const *items, int count) {
  tn__onnx_sequence *s = TN__NEW(n->arena, tn__onnx_sequence);
  s->count = count;
  s->items = TN__NEW_ARRAY(n->arena, count, tn__value *);
  if (count > 0) memcpy(s->items, items, (size_t)count * sizeof(*items));
  tn__value *value = TN__NEW(n->arena, tn__value);
  *value = (tn__value){.name = "sequence", .dtype = TN_DTYPE_INVALID, .data = s};
  return value;
}

bool tn__onnx_is_sequence(const tn__value *value) { return value != NULL && value->dtype == TN_DTYPE_INVALID; }

static const tn__onnx_sequence *sequence(const tn__onode *n, int input) {
  if (!tn__onnx_is_sequence(n->in[input])) tn__on_fail(n, "input %d is a tensor, expected a sequence", input);
  return n->in[input]->data;
}

static void require_tensor(const tn__onode *n, int input) {
  if (tn__onnx_is_sequence(n->in[input])) tn__on_fail(n, "input %d is a sequence, expected a tensor", input);
}

/* The position that operand `input` states, from the end when negative; `count` positions are allowed. */
static int position(tn__onode *n, int input, int length, int count) {
  const int64_t *known;
  int given;
  require_tensor(n, input);
  known = tn__on_ints_operand(n, input, &given, "positions in sequences must be known");
  if (given != 1) tn__on_fail(n, "input %d (position) has %d elements, expected 1", input, given);
  int64_t at = known[0] < 0 ? known[0] + length : known[0];
  if (at < 0 || at >= count)
    tn__on_fail(n, "position %lld is outside of a sequence of %d", (long long)known[0], length);
  return (int)at;
}

void tn__onnx_sequence_construct(tn__onode *n) {
  for (int i = 0; i < n->input_count; i++) {
    if (n->in[i] == NULL) tn__on_fail(n, "input %d is missing", i);
    require_tensor(n, i);
  }
  n->out[0] = tn__onnx_sequence_value(n, n->in, n->input_count);
}

void tn__onnx_sequence_at(tn__onode *n) {
  const tn__onnx_sequence *s = sequence(n, 0);
  n->out[0] = s->items[position(n, 1, s->count, s->count)];
}

void tn__onnx_sequence_length(tn__onode *n) { n->out[0] = tn__g_scalar_i64(n->g, TN_I64, sequence(n, 0)->count); }

void tn__onnx_sequence_insert(tn__onode *n) {
  enum { MOST_ITEMS = 1 << 16 };
  const tn__onnx_sequence *s = sequence(n, 0);
  require_tensor(n, 1);
  if (s->count >= MOST_ITEMS) tn__on_unsupported(n, "makes a sequence of more than %d tensors", MOST_ITEMS);
  int at = n->in[2] == NULL ? s->count : position(n, 2, s->count, s->count + 1);
  tn__value **items = TN__NEW_ARRAY(n->arena, s->count + 1, tn__value *);
  for (int i = 0; i <= s->count; i++) items[i] = i < at ? s->items[i] : i == at ? n->in[1] : s->items[i - 1];
  n->out[0] = tn__onnx_sequence_value(n, items, s->count + 1);
}

void tn__onnx_sequence_erase(tn__onode *n) {
  const tn__onnx_sequence *s = sequence(n, 0);
  if (s->count == 0) tn__on_fail(n, "nothing can be erased from an empty sequence");
  int at = n->in[1] == NULL ? s->count - 1 : position(n, 1, s->count, s->count);
  tn__value **items = TN__NEW_ARRAY(n->arena, s->count, tn__value *);
  for (int i = 0, to = 0; i < s->count; i++)
    if (i != at) items[to++] = s->items[i];
  n->out[0] = tn__onnx_sequence_value(n, items, s->count - 1);
}

void tn__onnx_concat_from_sequence(tn__onode *n) {
  const tn__onnx_sequence *s = sequence(n, 0);
  if (s->count == 0) tn__on_fail(n, "an empty sequence cannot be concatenated");
  bool fresh = tn__on_int(n, "new_axis", 0) != 0;
  if (tn__on_attr(n, "axis") == NULL) tn__on_fail(n, "attribute \"axis\" is missing");
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

/* Pieces of given sizes, of one size (the last may be smaller), or single elements. */
void tn__onnx_split_to_sequence(tn__onode *n) {
  enum { MOST_ITEMS = 1 << 12 };
  tn__value *x = n->in[0];
  const int64_t *sizes = NULL;
  int given = 0;
  require_tensor(n, 0);
  const int64_t axis = tn__on_axis(n, tn__on_int(n, "axis", 0), x->rank);
  int64_t total = tn__on_dim_known(n, 0, (int)axis, "the length that is split");
  bool single = n->in[1] == NULL, keep = !single || tn__on_int(n, "keepdims", 1) != 0;
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
  n->out[0] = tn__onnx_sequence_value(n, items, (int)count);
}

/* The body once for each element; tensors among the operands are the same for all. */
void tn__onnx_sequence_map(tn__onode *n) {
  const Onnx__GraphProto *body = tn__on_graph(n, "body");
  int length = sequence(n, 0)->count, inputs = n->input_count, outputs = n->output_count;
  tn__value **in = TN__NEW_ARRAY(n->arena, inputs, tn__value *), **out = TN__NEW_ARRAY(n->arena, outputs, tn__value *);
  tn__value ***made = TN__NEW_ARRAY(n->arena, outputs, tn__value **);
  for (int k = 0; k < outputs; k++) made[k] = TN__NEW_ARRAY(n->arena, length, tn__value *);
  for (int i = 0; i < length; i++) {
    for (int k = 0; k < inputs; k++) {
      if (n->in[k] == NULL) tn__on_fail(n, "input %d is missing", k);
      bool each = tn__onnx_is_sequence(n->in[k]);
      if (each && sequence(n, k)->count != length)
        tn__on_fail(n, "input %d has %d tensors, and input 0 has %d", k, sequence(n, k)->count, length);
      in[k] = each ? sequence(n, k)->items[i] : n->in[k];
    }
    tn__onnx_inline_graph(n, body, in, inputs, out, outputs);
    for (int k = 0; k < outputs; k++) {
      if (tn__onnx_is_sequence(out[k])) tn__on_unsupported(n, "makes sequences of sequences");
      made[k][i] = out[k];
    }
  }
  for (int k = 0; k < outputs; k++) n->out[k] = tn__onnx_sequence_value(n, made[k], length);
}

/* ---- optional values: there or not, which is known
 * ---------------------------------------------------------------------- */

void tn__onnx_optional(tn__onode *n) {
  if (n->in[0] == NULL) tn__on_unsupported(n, "an optional value that is absent is not supported");
  n->out[0] = n->in[0];
}

void tn__onnx_optional_get(tn__onode *n) { n->out[0] = n->in[0]; }

void tn__onnx_optional_has(tn__onode *n) { n->out[0] = tn__g_scalar_i64(n->g, TN_BOOL, n->in[0] != NULL); }
