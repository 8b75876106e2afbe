/* Results whose number of dimensions only a run tells. Values of the graph have one each, so what follows on them is
 * read once for either case: to the end of its scope or, when that has results of one rank or another and stands in a
 * scope that goes on with them, on to the end of that one. */
#include <string.h>

#include "graph/build/control.h"
#include "graph/build/list.h"

/* Each fork whose cases both go on doubles what follows. */
enum { MOST_FORKS = 5, LOOK_AHEAD = 128 };

static bool is_tensor(const tn__value *v) { return !tn__g_is_container(v); }

/* The text without the place that it starts with, where that is the fork's own. */
static const char *without_origin(const tn__graph *g, const char *text) {
  const char *origin = tn__graph_origin(g);
  size_t length = origin == NULL ? 0 : strlen(origin);
  bool own = length > 0 && strncmp(text, origin, length) == 0 && strncmp(text + length, ": ", 2) == 0;
  return tn__arena_strdup(tn__graph_arena(g), own ? text + length + 2 : text);
}

/* NULL when what follows suits the case, else why not. What has nothing to do with the case is thrown. */
static const char *follow_case(const tn__fork *f, tn__fork_case *c, const tn__branch *other) {
  f->forks->stopped = false;
  c->branch.body = tn__body_create(f->g, f->around, c->yes ? "then" : "else");
  for (int i = 0; other != NULL && i < other->body->operands.count; i++)
    tn__body_capture(c->branch.body, other->body->operands.data[i]);
  tn_status *status = f->follow(c, f->user);
  if (status == NULL) return NULL;
  tn_status_code code = tn_status_code_of(status);
  bool of_case = (code == TN_INVALID_ARGUMENT || code == TN_UNSUPPORTED) && !f->forks->too_many;
  if (!of_case) tn__throw(tn__graph_arena(f->g)->escape, status);
  const char *why_not = f->forks->stopped ? NULL : without_origin(f->g, tn_status_message(status));
  tn_status_free(status);
  return why_not;
}

/* Which cases does what follows suit, as far as `most` nodes show? */
static void follow_both(const tn__fork *f, int most, int levels, tn__fork_case *cases, const char **why_not) {
  bool looks = f->forks->looks;
  f->forks->looks = most == LOOK_AHEAD;
  for (int i = 1; i >= 0; i--) {
    cases[i] = (tn__fork_case){.yes = i == 1, .most = most, .levels = levels};
    why_not[i] = follow_case(f, &cases[i], i == 0 && why_not[1] == NULL ? &cases[1].branch : NULL);
  }
  f->forks->looks = looks;
}

/* The first result whose ranks differ, or -1. */
static int differs(const tn__fork *f, int levels, const tn__fork_case *cases) {
  for (int k = 0; k < f->result_count(levels, f->user); k++) {
    const tn__value *one = cases[1].branch.results[k], *other = cases[0].branch.results[k];
    if (one != NULL && is_tensor(one) && is_tensor(other) && one->rank != other->rank) return k;
  }
  return -1;
}

static tn__forked choose(const tn__fork *f, tn__fork_case *cases, int levels) {
  tn__branch *a = &cases[1].branch, *b = &cases[0].branch;
  int count = f->result_count(levels, f->user), k = differs(f, levels, cases);
  if (k >= 0)
    tn__graph_fail(f->g, TN_UNSUPPORTED,
                   "%s, or %s, and \"%s\" has %d or %d for it: results must have one number of dimensions, and the "
                   "model may declare it",
                   f->cases[1], f->cases[0], f->result_name(levels, k, f->user), a->results[k]->rank,
                   b->results[k]->rank);
  tn__node *node = tn__branch_choose(f->g, f->condition, a, b, count);
  node->origin = NULL; /* what fails in it is not in the operator, but behind it, and says where */
  tn__forked forked = {TN__NEW_ARRAY(tn__graph_arena(f->g), count, tn__value *), levels, false};
  for (int i = 0, at = 0; i < count; i++)
    if (a->results[i] != NULL) forked.results[i] = node->outputs[at++];
  return forked;
}

/* The one case that what follows suits goes on in this graph, and a run makes sure of it. */
static tn__forked go_on(const tn__fork *f, bool yes, const char *why_not) {
  tn__ir *ir = tn__graph_ir(f->g);
  int count;
  const tn__expr *condition = tn__graph_elements(f->g, f->condition, &count)[0];
  tn__graph_assume(f->g, tn__ir_eq(ir, condition, tn__ir_index(ir, yes)), "%s, and what follows does not suit that: %s",
                   f->cases[!yes], why_not);
  return (tn__forked){.yes = yes};
}

static _Noreturn void fail_too_many(const tn__fork *f) {
  f->forks->too_many = true;
  tn__graph_fail(f->g, TN_UNSUPPORTED,
                 "is one operator too many whose result's number of dimensions only a run tells: %d of them may "
                 "follow each other",
                 MOST_FORKS);
}

tn__forked tn__fork_make(const tn__fork *f) {
  tn__forks *forks = f->forks;
  tn__fork_case cases[2];
  const char *why_not[2] = {NULL, NULL};
  if (forks->looks) { /* to follow_case(), for which this is the end of what it looks at */
    forks->stopped = true;
    tn__graph_fail(f->g, TN_UNSUPPORTED, "%s, or %s", f->cases[1], f->cases[0]);
  }
  for (int levels = 0;;) {
    follow_both(f, LOOK_AHEAD, levels, cases, why_not);
    if (why_not[0] == NULL && why_not[1] == NULL) {
      if (forks->depth == MOST_FORKS) fail_too_many(f);
      forks->depth++;
      follow_both(f, INT32_MAX, levels, cases, why_not);
      forks->depth--;
    }
    if (why_not[0] != NULL || why_not[1] != NULL) break;
    int reached = cases[0].reached > cases[1].reached ? cases[0].reached : cases[1].reached;
    if (reached == levels && (levels == f->most_levels || differs(f, levels, cases) < 0))
      return choose(f, cases, levels);
    levels = reached > levels ? reached : levels + 1;
  }
  if (why_not[0] != NULL && why_not[1] != NULL)
    tn__graph_fail(f->g, TN_UNSUPPORTED, "%s, or %s, and what follows suits neither: %s; %s", f->cases[1], f->cases[0],
                   why_not[1], why_not[0]);
  return go_on(f, why_not[1] == NULL, why_not[why_not[0] == NULL]);
}
