/* Two branches that a run chooses from: their results are brought to one type. */
#include "import/onnx/body.h"

/* Sequences and optional values become lists of one type: of any ranks, when those of the branches differ. */
static void match_lists(tn__onode *n, tn__obranch *a, tn__obranch *b, int k) {
  tn__value **one = &a->results[k], **other = &b->results[k];
  tn_dtype dtype = TN_DTYPE_INVALID, other_dtype = TN_DTYPE_INVALID;
  int rank = TN__ANY_RANK, other_rank = TN__ANY_RANK, ranks;
  tn__value_holds holds = tn__onnx_is_list(*one)     ? (*one)->holds
                          : tn__onnx_is_list(*other) ? (*other)->holds
                                                     : TN__HOLDS_SEQUENCE;
  bool absent = tn__onnx_is_absent(*one) || tn__onnx_is_absent(*other);
  if (absent && holds == TN__HOLDS_SEQUENCE)
    holds =
        tn__onnx_is_container(*one) && tn__onnx_is_container(*other) ? TN__HOLDS_OPTIONAL_SEQUENCE : TN__HOLDS_OPTIONAL;
  bool typed = tn__onnx_list_type(*one, &dtype, &rank),
       other_typed = tn__onnx_list_type(*other, &other_dtype, &other_rank);
  if (!typed && (other_typed || tn__onnx_is_absent(*one))) dtype = other_dtype, rank = other_rank;
  if (!other_typed && (typed || tn__onnx_is_absent(*other))) other_dtype = dtype, other_rank = rank;
  if (dtype != other_dtype)
    tn__on_fail(n, "result %d is a sequence of %s in one branch, and of %s in the other", k, tn_dtype_name(dtype),
                tn_dtype_name(other_dtype));
  if (rank != other_rank) rank = TN__ANY_RANK;
  ranks = tn__onnx_meet_ranks(tn__onnx_ranks(*one), tn__onnx_ranks(*other));
  *one = tn__onnx_list(a->inside, *one, dtype, rank, holds);
  *other = tn__onnx_list(b->inside, *other, dtype, rank, holds);
  (*one)->likely_ranks = (*other)->likely_ranks = ranks;
}

static void match_results(tn__onode *n, tn__obranch *a, tn__obranch *b, int k) {
  tn__value **one = &a->results[k], **other = &b->results[k];
  if (*one == NULL || *other == NULL) tn__on_fail(n, "a branch leaves result %d out", k);
  if ((*one)->narrow > 0 || (*other)->narrow > 0)
    tn__on_unsupported(n, "result %d is %s in a branch that only a run chooses", k,
                       tn__onnx_narrow_name((*one)->narrow > 0 ? *one : *other));
  if (tn__onnx_is_container(*one) || tn__onnx_is_container(*other)) {
    match_lists(n, a, b, k);
    return;
  }
  if ((*one)->dtype != (*other)->dtype)
    tn__on_fail(n, "result %d is %s in one branch and %s in the other", k, tn_dtype_name((*one)->dtype),
                tn_dtype_name((*other)->dtype));
}

tn__node *tn__onnx_choose(tn__onode *n, tn__value *condition, tn__obranch *a, tn__obranch *b, int count) {
  for (int i = a->body->operands.count; i < b->body->operands.count; i++)
    tn__body_capture(a->body, b->body->operands.data[i]);
  for (int k = 0; k < count; k++) {
    const char *name = tn__arena_printf(n->arena, "result%d", k);
    if (a->results[k] == NULL) continue;
    match_results(n, a, b, k);
    tn__graph_output(a->body->g, name, a->results[k]);
    tn__graph_output(b->body->g, name, b->results[k]);
  }
  tn__node *node = tn__g_if(n->g, condition, a->body->g, b->body->g, b->body->operands.data, b->body->operands.count);
  for (int k = 0, at = 0; k < count; k++)
    if (a->results[k] != NULL) node->outputs[at++]->likely_ranks = a->results[k]->likely_ranks;
  return node;
}
