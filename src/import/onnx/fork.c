/* Results whose number of dimensions only a run tells. Values of the graph have one each, so what follows on the
 * operator is imported once for either case: to the end of its scope or, when that has results of one rank or another
 * and is inlined in a scope around it (a function's, a branch's that is known), on to the end of that one. */
#include "import/onnx/body.h"

#include <string.h>

/* Each fork whose cases both go on doubles what follows. */
enum { MOST_FORKS = 5, LOOK_AHEAD = 128 };

typedef struct attempt {
  tn__onode *n;
  const tn__ofork *fork;
  bool yes;
  int most, levels; /* nodes; scopes to go out of */
  tn__branch branch;
  tn__onode *inside;
  int reached;             /* the level that the results are those of */
  const tn__branch *other; /* what it captured is captured here first */
} attempt;

static bool is_tensor(const tn__value *v) { return !tn__g_is_container(v); }

/* A model's output has the number of dimensions that it is declared with. */
static void require_declared(const tn__onode *n, const tn__oscope *scope, tn__value *const *results) {
  for (int k = 0; k < scope->result_count; k++) {
    int declared = tn__onnx_result_rank(n, scope, k);
    if (results[k] == NULL || !is_tensor(results[k]) || declared < 0 || declared == results[k]->rank) continue;
    tn__on_fail(n, "output \"%s\" would have %d dimension%s and is declared with %d", scope->results[k],
                results[k]->rank, tn__plural(results[k]->rank), declared);
  }
}

static void run_attempt(tn__escape *escape, void *arg) {
  attempt *a = arg;
  tn__onode *inside = a->inside;
  inside->out = TN__NEW_ARRAY(inside->arena, inside->output_count + TN__ONODE_MIN_INPUTS, tn__value *);
  for (int i = 0; a->other != NULL && i < a->other->body->operands.count; i++)
    tn__body_capture(a->branch.body, a->other->body->operands.data[i]);
  tn__orest rest = a->fork->make(inside, a->yes, a->fork->user);
  rest = tn__onnx_import_rest(inside, a->most, a->levels, rest);
  a->branch.results = rest.results;
  a->reached = rest.levels;
  if (rest.results != NULL) require_declared(inside, tn__onnx_level(a->n, rest.levels), rest.results);
}

/* The text without the place that it starts with, where that is the node's own. */
static const char *without_origin(const tn__onode *n, const char *text) {
  const char *origin = tn__graph_origin(n->g);
  size_t length = origin == NULL ? 0 : strlen(origin);
  bool own = length > 0 && strncmp(text, origin, length) == 0 && strncmp(text + length, ": ", 2) == 0;
  return tn__arena_strdup(n->arena, own ? text + length + 2 : text);
}

/* NULL when the case can be imported, else why not. What has nothing to do with the case is thrown. */
static const char *attempt_case(attempt *a) {
  tn__onode *n = a->n;
  tn__oforks *forks = tn__onode_forks(n);
  forks->stopped = false;
  a->branch.body = tn__body_create(n->g, tn__onnx_body(n), a->yes ? "then" : "else");
  a->inside = tn__onnx_enter(n, a->branch.body);
  tn_status *status = tn__onnx_try(tn__onode_model(n), n->arena, run_attempt, a);
  tn__onnx_leave(n, a->branch.body);
  if (status == NULL) return NULL;
  tn_status_code code = tn_status_code_of(status);
  bool of_case = (code == TN_INVALID_ARGUMENT || code == TN_UNSUPPORTED) && !forks->too_many;
  if (!of_case) tn__throw(n->arena->escape, status);
  const char *why_not = forks->stopped ? NULL : without_origin(n, tn_status_message(status));
  tn_status_free(status);
  return why_not;
}

/* Which cases can be imported, as far as `most` nodes show? */
static void attempt_both(tn__onode *n, const tn__ofork *fork, int most, int levels, attempt *cases,
                         const char **why_not) {
  tn__oforks *forks = tn__onode_forks(n);
  bool looks = forks->looks;
  forks->looks = most == LOOK_AHEAD;
  for (int i = 1; i >= 0; i--) {
    cases[i] = (attempt){.n = n, .fork = fork, .yes = i == 1, .most = most, .levels = levels};
    if (i == 0 && why_not[1] == NULL) cases[i].other = &cases[1].branch;
    why_not[i] = attempt_case(&cases[i]);
  }
  forks->looks = looks;
}

/* The one case that what follows suits goes on in this graph, and a run makes sure of it. */
static tn__orest go_on(tn__onode *n, const tn__ofork *fork, bool yes, const char *why_not) {
  int count;
  const tn__expr *condition = tn__graph_elements(n->g, fork->condition, &count)[0];
  tn__graph_assume(n->g, tn__ir_eq(n->ir, condition, tn__on_index(n, yes)),
                   "%s, and what follows does not suit that: %s", fork->cases[!yes], why_not);
  return fork->make(n, yes, fork->user);
}

static _Noreturn void fail_too_many(tn__onode *n) {
  tn__onode_forks(n)->too_many = true;
  tn__on_unsupported(n,
                     "is one operator too many whose result's number of dimensions only a run tells: %d of them may "
                     "follow each other",
                     MOST_FORKS);
}

/* The first result whose ranks differ, or -1. */
static int differs(const tn__oscope *scope, const attempt *cases) {
  for (int k = 0; k < scope->result_count; k++) {
    const tn__value *one = cases[1].branch.results[k], *other = cases[0].branch.results[k];
    if (one != NULL && is_tensor(one) && is_tensor(other) && one->rank != other->rank) return k;
  }
  return -1;
}

static tn__orest choose(tn__onode *n, const tn__ofork *fork, attempt *cases, int levels) {
  const tn__oscope *scope = tn__onnx_level(n, levels);
  tn__branch *a = &cases[1].branch, *b = &cases[0].branch;
  int count = scope->result_count, k = differs(scope, cases);
  if (k >= 0)
    tn__on_unsupported(n,
                       "%s, or %s, and \"%s\" has %d or %d for it: results must have one number of dimensions, and the "
                       "model may declare it",
                       fork->cases[1], fork->cases[0], scope->results[k], a->results[k]->rank, b->results[k]->rank);
  tn__node *node = tn__branch_choose(n->g, fork->condition, a, b, count);
  node->origin = NULL; /* what fails in it is not in the operator, but behind it, and says where */
  tn__orest rest = {TN__NEW_ARRAY(n->arena, count, tn__value *), levels};
  for (int i = 0, at = 0; i < count; i++)
    if (a->results[i] != NULL) rest.results[i] = node->outputs[at++];
  return rest;
}

tn__orest tn__onnx_fork(tn__onode *n, const tn__ofork *fork) {
  tn__oforks *forks = tn__onode_forks(n);
  attempt cases[2];
  const char *why_not[2] = {NULL, NULL};
  if (forks->looks) { /* to attempt_case(), for which this is the end of what it looks at */
    forks->stopped = true;
    tn__on_unsupported(n, "%s, or %s", fork->cases[1], fork->cases[0]);
  }
  int levels = 0, most_levels = tn__onnx_levels(n);
  for (;;) {
    attempt_both(n, fork, LOOK_AHEAD, levels, cases, why_not);
    if (why_not[0] == NULL && why_not[1] == NULL) {
      if (forks->depth == MOST_FORKS) fail_too_many(n);
      forks->depth++;
      attempt_both(n, fork, INT32_MAX, levels, cases, why_not);
      forks->depth--;
    }
    if (why_not[0] != NULL || why_not[1] != NULL) break;
    int reached = cases[0].reached > cases[1].reached ? cases[0].reached : cases[1].reached;
    if (reached == levels && (levels == most_levels || differs(tn__onnx_level(n, levels), cases) < 0))
      return choose(n, fork, cases, levels);
    levels = reached > levels ? reached : levels + 1;
  }
  if (why_not[0] != NULL && why_not[1] != NULL)
    tn__on_unsupported(n, "%s, or %s, and what follows suits neither: %s; %s", fork->cases[1], fork->cases[0],
                       why_not[1], why_not[0]);
  return go_on(n, fork, why_not[1] == NULL, why_not[why_not[0] == NULL]);
}
