/* Two branches, of which a run chooses one. */
#include "graph/build/control.h"

#include "graph/build/list.h"

/* Sequences and optional values become lists of one type: of any ranks, when those of the branches differ. */
static void match_lists(tn__graph *g, tn__branch *a, tn__branch *b, int k) {
  tn__value **one = &a->results[k], **other = &b->results[k];
  tn_dtype dtype = TN_DTYPE_INVALID, other_dtype = TN_DTYPE_INVALID;
  int rank = TN__ANY_RANK, other_rank = TN__ANY_RANK, ranks;
  tn__value_holds holds = tn__g_is_list(*one)     ? (*one)->holds
                          : tn__g_is_list(*other) ? (*other)->holds
                                                  : TN__HOLDS_SEQUENCE;
  bool absent = tn__g_is_absent(*one) || tn__g_is_absent(*other);
  if (absent && holds == TN__HOLDS_SEQUENCE)
    holds = tn__g_is_container(*one) && tn__g_is_container(*other) ? TN__HOLDS_OPTIONAL_SEQUENCE : TN__HOLDS_OPTIONAL;
  bool typed = tn__g_list_type(*one, &dtype, &rank), other_typed = tn__g_list_type(*other, &other_dtype, &other_rank);
  if (!typed && (other_typed || tn__g_is_absent(*one))) dtype = other_dtype, rank = other_rank;
  if (!other_typed && (typed || tn__g_is_absent(*other))) other_dtype = dtype, other_rank = rank;
  if (dtype != other_dtype)
    tn__graph_fail(g, TN_INVALID_ARGUMENT, "result %d is a sequence of %s in one branch, and of %s in the other", k,
                   tn_dtype_name(dtype), tn_dtype_name(other_dtype));
  if (rank != other_rank) rank = TN__ANY_RANK;
  ranks = tn__g_meet_ranks(tn__g_ranks(*one), tn__g_ranks(*other));
  *one = tn__g_list(a->body->g, *one, dtype, rank, holds);
  *other = tn__g_list(b->body->g, *other, dtype, rank, holds);
  (*one)->likely_ranks = (*other)->likely_ranks = ranks;
}

static void match_results(tn__graph *g, tn__branch *a, tn__branch *b, int k) {
  tn__value **one = &a->results[k], **other = &b->results[k];
  if (*one == NULL || *other == NULL) tn__graph_fail(g, TN_INVALID_ARGUMENT, "a branch leaves result %d out", k);
  if ((*one)->narrow > 0 || (*other)->narrow > 0)
    tn__graph_fail(g, TN_UNSUPPORTED, "result %d is %s in a branch that only a run chooses", k,
                   tn__g_narrow_name((*one)->narrow > 0 ? *one : *other));
  if (tn__g_is_container(*one) || tn__g_is_container(*other)) {
    match_lists(g, a, b, k);
    return;
  }
  if ((*one)->dtype != (*other)->dtype)
    tn__graph_fail(g, TN_INVALID_ARGUMENT, "result %d is %s in one branch and %s in the other", k,
                   tn_dtype_name((*one)->dtype), tn_dtype_name((*other)->dtype));
}

tn__node *tn__branch_choose(tn__graph *g, tn__value *condition, tn__branch *a, tn__branch *b, int count) {
  for (int i = a->body->operands.count; i < b->body->operands.count; i++)
    tn__body_capture(a->body, b->body->operands.data[i]);
  for (int k = 0; k < count; k++) {
    const char *name = tn__arena_printf(tn__graph_arena(g), "result%d", k);
    if (a->results[k] == NULL) continue;
    match_results(g, a, b, k);
    tn__graph_output(a->body->g, name, a->results[k]);
    tn__graph_output(b->body->g, name, b->results[k]);
  }
  tn__node *node = tn__g_if(g, condition, a->body->g, b->body->g, b->body->operands.data, b->body->operands.count);
  for (int k = 0, at = 0; k < count; k++)
    if (a->results[k] != NULL) node->outputs[at++]->likely_ranks = a->results[k]->likely_ranks;
  return node;
}

/* ---- both, or one of them ---------------------------------------------------------------------------------------- */

static void make_side(tn__branches *b, bool yes) {
  tn__branch *side = &b->sides[yes];
  side->body = tn__body_create(b->g, b->around, yes ? "then" : "else");
  side->results = TN__NEW_ARRAY(tn__graph_arena(b->g), b->count, tn__value *);
  const tn__body *other = yes ? NULL : b->sides[1].body;
  for (int i = 0; other != NULL && i < other->operands.count; i++)
    tn__body_capture(side->body, other->operands.data[i]);
  b->make(side->body, yes, side->results, b->user);
}

static int differs_in_rank(const tn__branches *b) {
  for (int k = 0; k < b->count; k++) {
    const tn__value *one = b->sides[1].results[k], *other = b->sides[0].results[k];
    if (!tn__g_is_container(one) && !tn__g_is_container(other) && one->rank != other->rank) return k;
  }
  return -1;
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

int tn__branches_make(tn__branches *b, tn__value **results) {
  tn__arena *arena = tn__graph_arena(b->g);
  make_side(b, true);
  make_side(b, false);
  int differs = differs_in_rank(b);
  if (differs >= 0) return differs;
  tn__node *node = tn__branch_choose(b->g, b->condition, &b->sides[1], &b->sides[0], b->count);
  for (int k = 0; k < b->count; k++) results[k] = node->outputs[k];
  if (!is_cheap(b->sides[1].body->g) || !is_cheap(b->sides[0].body->g) || !sizes_agree(b->g, node)) return -1;
  tn__value **one = TN__NEW_ARRAY(arena, b->count, tn__value *), **other = TN__NEW_ARRAY(arena, b->count, tn__value *);
  node->dead = true;
  b->make(NULL, true, one, b->user);
  b->make(NULL, false, other, b->user);
  for (int k = 0; k < b->count; k++) results[k] = tn__g_select(b->g, b->condition, one[k], other[k]);
  return -1;
}
