/* Sequences of which everything is known while a graph is built, and lists of the machine. */
#include "graph/build/list.h"

#include <string.h>

/* A value without type stands for a sequence where operands and results are looked up. */
tn__value *tn__g_sequence_known(tn__graph *g, tn__value *const *items, int count, tn_dtype dtype) {
  tn__sequence *s = TN__NEW(tn__graph_arena(g), tn__sequence);
  s->count = count;
  s->dtype = dtype;
  s->items = TN__NEW_ARRAY(tn__graph_arena(g), count, tn__value *);
  if (count > 0) memcpy(s->items, items, (size_t)count * sizeof(*items));
  tn__value *value = TN__NEW(tn__graph_arena(g), tn__value);
  *value = (tn__value){.name = "sequence", .dtype = TN_DTYPE_INVALID, .data = s};
  return value;
}

bool tn__g_is_sequence(const tn__value *value) { return value != NULL && value->dtype == TN_DTYPE_INVALID; }

bool tn__g_sequence_type(const tn__value *value, tn_dtype *dtype, int *rank) {
  const tn__sequence *s = value->data;
  *dtype = s->count > 0 ? s->items[0]->dtype : s->dtype;
  int ranks = tn__g_ranks(value);
  if (s->count > 0) *rank = ranks == TN__RANKS_DIFFER ? TN__ANY_RANK : ranks - 1;
  return s->count > 0;
}

int tn__g_meet_ranks(int a, int b) { return a == 0 ? b : b == 0 || a == b ? a : TN__RANKS_DIFFER; }

int tn__g_ranks(const tn__value *value) {
  int ranks = 0;
  if (tn__g_is_list(value)) return value->item_rank == TN__ANY_RANK ? value->likely_ranks : 1 + value->item_rank;
  if (!tn__g_is_sequence(value)) return 1 + value->rank;
  const tn__sequence *s = value->data;
  for (int i = 0; i < s->count; i++) ranks = tn__g_meet_ranks(ranks, 1 + s->items[i]->rank);
  return ranks;
}

bool tn__g_list_type(const tn__value *value, tn_dtype *dtype, int *rank) {
  if (tn__g_is_sequence(value)) return tn__g_sequence_type(value, dtype, rank);
  *dtype = value->dtype;
  *rank = tn__g_is_list(value) ? value->item_rank : value->rank;
  return true;
}

tn__value *tn__g_sequence_inside(tn__body *body, const tn__value *value) {
  tn__graph *g = body->g;
  const tn__sequence *s = value->data;
  tn__value **items = TN__NEW_ARRAY(tn__graph_arena(g), s->count, tn__value *);
  for (int i = 0; i < s->count; i++) items[i] = tn__body_capture(body, s->items[i]);
  tn__value *inside = tn__g_sequence_known(g, items, s->count, s->dtype);
  ((tn__sequence *)(uintptr_t)inside->data)->absent = s->absent;
  return inside;
}

/* The list with a tensor more. One of another rank than the list's makes it a list of any ranks. */
tn__value *tn__g_list_insert(tn__graph *g, tn__value *list, tn__value *item, tn__value *position) {
  if (list->dtype != item->dtype)
    tn__graph_fail(g, TN_INVALID_ARGUMENT, "tensors of %s and of %s are in one sequence; all must have one type",
                   tn_dtype_name(list->dtype), tn_dtype_name(item->dtype));
  int ranks = tn__g_meet_ranks(tn__g_ranks(list), 1 + item->rank);
  if (list->item_rank != item->rank) list = tn__g_sequence_as(g, list, list->holds, TN__ANY_RANK);
  list = tn__g_sequence_insert(g, list, item, position);
  list->likely_ranks = ranks;
  return list;
}

tn__value *tn__g_list_as(tn__graph *g, tn__value *list, tn__value_holds holds, int rank) {
  int ranks = tn__g_ranks(list);
  list = tn__g_sequence_as(g, list, holds, rank);
  list->likely_ranks = ranks;
  return list;
}

tn__value *tn__g_list(tn__graph *g, tn__value *value, tn_dtype dtype, int rank, tn__value_holds holds) {
  if (tn__g_is_list(value)) return tn__g_list_as(g, value, holds, rank);
  bool sequence = tn__g_is_sequence(value);
  const tn__sequence *s = sequence ? value->data : NULL;
  if (sequence && s->absent) return tn__g_sequence_empty(g, dtype, rank, holds);
  tn__value *list = tn__g_sequence_empty(g, dtype, rank, TN__HOLDS_SEQUENCE);
  for (int i = 0; sequence && i < s->count; i++) list = tn__g_list_insert(g, list, s->items[i], NULL);
  if (!sequence) list = tn__g_list_insert(g, list, value, NULL);
  return tn__g_list_as(g, list, holds, rank);
}

bool tn__g_is_absent(const tn__value *value) {
  return tn__g_is_sequence(value) && ((const tn__sequence *)value->data)->absent;
}

const char *tn__g_narrow_name(const tn__value *value) {
  bool is_signed = value->dtype == TN_I8;
  return value->narrow == 4 ? is_signed ? "int4" : "uint4" : is_signed ? "int2" : "uint2";
}
