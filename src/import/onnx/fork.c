/* Forks (graph/build/fork.c), as ONNX has what follows: the nodes behind an operator, to the end of its scope or of
 * scopes around it that it is inlined in (a function's, a branch's that is known). */
#include "import/onnx/body.h"

typedef struct follower {
  tn__onode *n;
  const tn__ofork *fork;
  tn__fork_case *now; /* that is being followed */
} follower;

/* A model's output has the number of dimensions that it is declared with. */
static void require_declared(const tn__onode *n, const tn__oscope *scope, tn__value *const *results) {
  for (int k = 0; k < scope->result_count; k++) {
    int declared = tn__onnx_result_rank(n, scope, k);
    if (results[k] == NULL || tn__g_is_container(results[k]) || declared < 0 || declared == results[k]->rank) continue;
    tn__on_fail(n, "output \"%s\" would have %d dimension%s and is declared with %d", scope->results[k],
                results[k]->rank, tn__plural(results[k]->rank), declared);
  }
}

static void import_case(tn__escape *escape, void *arg) {
  const follower *f = arg;
  tn__fork_case *c = f->now;
  tn__onode *inside = tn__onnx_enter(f->n, c->branch.body);
  inside->out = TN__NEW_ARRAY(inside->arena, inside->output_count + TN__ONODE_MIN_INPUTS, tn__value *);
  tn__orest rest = f->fork->make(inside, c->yes, f->fork->user);
  rest = tn__onnx_import_rest(inside, c->most, c->levels, rest);
  c->branch.results = rest.results;
  c->reached = rest.levels;
  if (rest.results != NULL) require_declared(inside, tn__onnx_level(f->n, rest.levels), rest.results);
}

static tn_status *follow(tn__fork_case *c, void *user) {
  follower *f = user;
  f->now = c;
  tn_status *status = tn__onnx_try(tn__onode_model(f->n), f->n->arena, import_case, f);
  tn__onnx_leave(f->n, c->branch.body);
  return status;
}

static int result_count(int levels, void *user) { return tn__onnx_level(((follower *)user)->n, levels)->result_count; }

static const char *result_name(int levels, int result, void *user) {
  return tn__onnx_level(((follower *)user)->n, levels)->results[result];
}

tn__orest tn__onnx_fork(tn__onode *n, const tn__ofork *fork) {
  follower f = {.n = n, .fork = fork};
  const tn__fork spec = {.g = n->g,
                         .around = tn__onnx_body(n),
                         .forks = tn__onode_forks(n),
                         .condition = fork->condition,
                         .cases = {fork->cases[0], fork->cases[1]},
                         .most_levels = tn__onnx_levels(n),
                         .follow = follow,
                         .result_count = result_count,
                         .result_name = result_name,
                         .user = &f};
  tn__forked forked = tn__fork_make(&spec);
  if (forked.results == NULL) return fork->make(n, forked.yes, fork->user);
  return (tn__orest){forked.results, forked.levels};
}
