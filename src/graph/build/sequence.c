#include "graph/build/build.h"

static tn__value *node(tn__graph *g, const char *op, tn__value *const *inputs, int count, const tn__attr *attrs,
                       int attr_count) {
  return tn__g_node(g, op, inputs, count, attrs, attr_count)->outputs[0];
}

tn__value *tn__g_sequence_empty(tn__graph *g, tn_dtype dtype, int rank, tn__value_holds holds) {
  const tn__attr attrs[] = {tn__attr_string(g, "dtype", tn_dtype_name(dtype)), tn__attr_int(g, "rank", rank),
                            tn__attr_int(g, "holds", (int64_t)holds)};
  return node(g, "sequence_empty", NULL, 0, attrs, 3);
}

tn__value *tn__g_sequence_insert(tn__graph *g, tn__value *list, tn__value *item, tn__value *position) {
  tn__value *inputs[] = {list, item, position};
  return node(g, "sequence_insert", inputs, position == NULL ? 2 : 3, NULL, 0);
}

tn__value *tn__g_sequence_erase(tn__graph *g, tn__value *list, tn__value *position) {
  tn__value *inputs[] = {list, position};
  return node(g, "sequence_erase", inputs, position == NULL ? 1 : 2, NULL, 0);
}

tn__value *tn__g_sequence_at(tn__graph *g, tn__value *list, tn__value *position, int rank) {
  tn__value *inputs[] = {list, position};
  const tn__attr attrs[] = {tn__attr_int(g, "rank", rank)};
  bool any = list->item_rank == TN__ANY_RANK;
  return node(g, "sequence_at", inputs, position == NULL ? 1 : 2, attrs, any ? 1 : 0);
}

tn__value *tn__g_sequence_length(tn__graph *g, tn__value *list) {
  return node(g, "sequence_length", &list, 1, NULL, 0);
}
tn__value *tn__g_optional_has(tn__graph *g, tn__value *list) { return node(g, "optional_has", &list, 1, NULL, 0); }

tn__value *tn__g_sequence_join(tn__graph *g, tn__value *list, int axis, bool stack, const tn__expr *const *shape,
                               const int64_t *empty) {
  int rank = list->item_rank + (stack ? 1 : 0), count = 2;
  tn__attr attrs[4] = {tn__attr_int(g, "axis", axis), tn__attr_int(g, "stack", stack)};
  if (shape != NULL) attrs[count++] = tn__attr_exprs(g, "shape", shape, rank);
  if (empty != NULL) attrs[count++] = tn__attr_ints(g, "empty", empty, rank);
  return node(g, "sequence_join", &list, 1, attrs, count);
}

tn__value *tn__g_sequence_split(tn__graph *g, tn__value *a, tn__value *lengths, int axis, bool keep) {
  tn__value *inputs[] = {a, lengths};
  const tn__attr attrs[] = {tn__attr_int(g, "axis", axis), tn__attr_int(g, "keep", keep)};
  return node(g, "sequence_split", inputs, 2, attrs, 2);
}

tn__value *tn__g_sequence_as(tn__graph *g, tn__value *list, tn__value_holds holds, int rank) {
  if (list->holds == holds && list->item_rank == rank) return list;
  const tn__attr attrs[] = {tn__attr_int(g, "holds", (int64_t)holds), tn__attr_int(g, "rank", rank)};
  return node(g, "sequence_as", &list, 1, attrs, 2);
}
