/* Attention as one composite: its body, from the product of queries and keys to that of weights and values, is built in
 * the graph, so that sizes are held to each other there, and then enclosed. Where heads share keys and values, a
 * dimension of their own goes through the heads of a group, along which these repeat: kernels read them where they
 * are. */
#include <math.h>

#include "graph/build/build.h"
#include "graph/build/outline.h"
#include "graph/relations.h"

typedef struct builder {
  tn__graph *g;
  tn__ir *ir;
  const tn__attention_spec *spec;
  bool grouped;         /* heads are two dimensions: groups, and the heads of one */
  tn__value *q, *k, *v; /* with heads in dimensions of their own, before the rows, */
  bool turns[3];        /* or behind them, to be turned */
} builder;

static bool is_flat(const tn__value *x) { return x->rank == 3; }

/* [batch, heads, ...] with heads in groups; a value that does not go through heads gets a dimension of 1 more, and one of
 * fewer dimensions stays. */
static tn__value *by_groups(const builder *b, tn__value *x) {
  const tn__expr *dims[TN__MAX_RANK];
  int at = x == NULL ? -1 : x->rank - 3, rank = 0;
  if (!b->grouped || at < 0) return x;
  bool all = tn__g_dim_const(x, at) != 1;
  for (int i = 0; i < x->rank; i++) {
    if (i == at) dims[rank++] = tn__ir_index(b->ir, all ? b->spec->groups : 1);
    dims[rank++] = i == at && all ? tn__ir_div_i(b->ir, x->dims[i], b->spec->groups) : x->dims[i];
  }
  return tn__g_reshape(b->g, x, rank, dims);
}

/* [batch, rows, heads * size] with `first` and, when that is not 0, `second` heads in dimensions of their own. */
static tn__value *split(const builder *b, tn__value *x, int64_t first, int64_t second) {
  const tn__expr *dims[5] = {x->dims[0], x->dims[1], tn__ir_index(b->ir, first)};
  int rank = 3;
  if (second != 0) dims[rank++] = tn__ir_index(b->ir, second);
  dims[rank++] = tn__ir_div_i(b->ir, x->dims[2], first * (second == 0 ? 1 : second));
  return tn__g_reshape(b->g, x, rank, dims);
}

/* Can every operand be cut into groups? */
static bool has_groups(const tn__attention_spec *s) {
  if (s->groups < 1 || s->heads <= s->groups || s->heads % s->groups != 0) return false;
  const tn__value *masks[] = {s->bias, s->visible};
  for (int i = 0; i < 2; i++) {
    int64_t own = masks[i] == NULL || masks[i]->rank < 3 ? 1 : tn__g_dim_const(masks[i], masks[i]->rank - 3);
    if (own != 1 && own != s->heads) return false;
  }
  return true;
}

/* Heads, which are `count` dimensions behind the rows, before them. */
static tn__value *turned(const builder *b, tn__value *x, int count) {
  static const int64_t one[] = {0, 2, 1, 3}, two[] = {0, 2, 3, 1, 4};
  return tn__g_transpose(b->g, x, count == 1 ? one : two);
}

/* Keys or values as often in memory as heads need them: where only a run tells how many there are, or masks that heads
 * do not go through in groups. */
static tn__value *repeated(const builder *b, tn__value *x) {
  const tn__expr *heads = is_flat(b->spec->q) ? tn__ir_index(b->ir, b->spec->heads) : b->spec->q->dims[1];
  if (x->dims[1] == heads) return x;
  const tn__expr *group = tn__ir_div(b->ir, heads, x->dims[1]);
  const tn__expr *wide[] = {x->dims[0], x->dims[1], group, x->dims[2], x->dims[3]};
  const tn__expr *dims[] = {x->dims[0], heads, x->dims[2], x->dims[3]};
  tn__graph_assume(b->g, tn__ir_eq(b->ir, tn__ir_mod(b->ir, heads, x->dims[1]), tn__ir_index(b->ir, 0)),
                   "the heads of Q must be a multiple of those of K and V");
  return tn__g_reshape(b->g, tn__g_broadcast_in_dim(b->g, x, 5, wide, (const int64_t[]){0, 1, 3, 4}), 4, dims);
}

static tn__value *keys_or_values(const builder *b, tn__value *x, bool *turns) {
  bool as_given = b->grouped || (is_flat(x) && b->spec->heads == b->spec->groups), flat = is_flat(x);
  *turns = flat && as_given;
  if (flat) x = split(b, x, b->spec->groups, 0);
  if (as_given) return x;
  return repeated(b, flat ? turned(b, x, 1) : x);
}

static void split_heads(builder *b) {
  const tn__attention_spec *s = b->spec;
  b->grouped = has_groups(s);
  b->turns[0] = is_flat(s->q);
  if (!b->turns[0])
    b->q = by_groups(b, s->q);
  else
    b->q = b->grouped ? split(b, s->q, s->groups, s->heads / s->groups) : split(b, s->q, s->heads, 0);
  b->k = keys_or_values(b, s->k, &b->turns[1]);
  b->v = keys_or_values(b, s->v, &b->turns[2]);
}

/* ---- the body ---------------------------------------------------------------------------------------------------- */

/* Keys or values for each head. */
static tn__value *for_heads(const builder *b, tn__value *x, bool turns, const tn__value *q) {
  if (turns) x = turned(b, x, 1);
  if (!b->grouped) return x;
  const tn__expr *dims[] = {x->dims[0], x->dims[1], q->dims[2], x->dims[2], x->dims[3]};
  return tn__g_broadcast_in_dim(b->g, x, 5, dims, (const int64_t[]){0, 1, 3, 4});
}

static tn__value *capped(const builder *b, tn__value *scores) {
  if (b->spec->cap <= 0) return scores;
  tn__value *shrunk = tn__g_binary_s(b->g, "divide", scores, b->spec->cap);
  return tn__g_binary_s(b->g, "multiply", tn__g_unary(b->g, "tanh", shrunk), b->spec->cap);
}

/* A bias that was to fit has not stretched the scores. */
static void require_scores(const builder *b, const tn__value *sum, const tn__value *scores) {
  if (sum->rank != scores->rank)
    tn__graph_fail(b->g, TN_INVALID_ARGUMENT, "its operands make %d dimensions of the scores, which has %d",
                   sum->rank - b->grouped, scores->rank - b->grouped);
  for (int i = 0; i < scores->rank; i++)
    tn__relate_sizes(b->g,
                     tn__arena_printf(tn__graph_arena(b->g), "dimension %d of what its operands make",
                                      b->grouped && i > 1 ? i - 1 : i),
                     sum->dims[i], "==", "as of the scores", scores->dims[i]);
}

static tn__value *masked(const builder *b, tn__value *scores, tn__value *bias, tn__value *visible) {
  tn__graph *g = b->g;
  tn__value *least = tn__g_scalar(g, scores->dtype, -INFINITY);
  if (bias != NULL && bias->dtype == TN_BOOL) bias = tn__g_select(g, bias, tn__g_scalar(g, scores->dtype, 0), least);
  if (bias != NULL) {
    tn__value *sum = tn__g_binary(g, "add", scores, bias);
    require_scores(b, sum, scores);
    scores = sum;
  }
  return visible == NULL ? scores : tn__g_select(g, visible, scores, least);
}

static tn__value *build_body(const builder *b, tn__value *bias, tn__value *visible, tn__value *stages[4]) {
  static const int64_t batch[] = {0, 1, 2};
  tn__graph *g = b->g;
  tn__value *q = b->turns[0] ? turned(b, b->q, b->grouped ? 2 : 1) : b->q;
  tn__value *k = for_heads(b, b->k, b->turns[1], q), *v = for_heads(b, b->v, b->turns[2], q);
  const int64_t last = q->rank - 1, rows = q->rank - 2;
  int flags = bias == NULL && visible == NULL ? TN__SOFTMAX_PLAIN : TN__SOFTMAX_DIVIDE | TN__SOFTMAX_EMPTY;
  stages[0] = tn__g_dot_general(g, q, k, batch, batch, q->rank - 2, &last, &last, 1, q->dtype);
  stages[1] = capped(b, stages[0]); /* before the mask, so that masked keys stay masked */
  stages[2] = masked(b, stages[1], bias, visible);
  stages[3] = tn__g_softmax(g, stages[2], q->rank - 1, flags);
  return tn__g_dot_general(g, stages[3], v, batch, batch, q->rank - 2, &last, &rows, 1, q->dtype);
}

/* ---- what it gives ----------------------------------------------------------------------------------------------- */

/* [batch, heads, rows, columns], whether or not heads are in groups. */
static tn__value *by_heads(const builder *b, tn__value *x) {
  if (!b->grouped) return x;
  const tn__expr *dims[] = {x->dims[0], tn__ir_index(b->ir, b->spec->heads), x->dims[3], x->dims[4]};
  return tn__g_reshape(b->g, x, 4, dims);
}

/* [batch, rows, heads * columns] */
static tn__value *join_heads(const builder *b, tn__value *x) {
  x = by_heads(b, x);
  x = tn__g_transpose(b->g, x, (const int64_t[]){0, 2, 1, 3});
  const tn__expr *dims[] = {x->dims[0], x->dims[1], tn__ir_mul(b->ir, x->dims[2], x->dims[3])};
  return tn__g_reshape(b->g, x, 3, dims);
}

tn__value *tn__g_attention(tn__graph *g, const tn__attention_spec *spec, tn__value **stages) {
  builder b = {.g = g, .ir = tn__graph_ir(g), .spec = spec};
  split_heads(&b);
  tn__value *bias = by_groups(&b, spec->bias), *visible = by_groups(&b, spec->visible), *made[4];
  int first = tn__graph_node_count(g);
  tn__value *result = build_body(&b, bias, visible, made);
  if (stages == NULL) result = tn__g_enclose(g, "attention", first, result);
  for (int i = 0; stages != NULL && i < 4; i++) stages[i] = by_heads(&b, made[i]);
  return is_flat(spec->q) ? join_heads(&b, result) : by_heads(&b, result);
}
