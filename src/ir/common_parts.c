/* What both sides of a branch need. */
#include "ir/expr.h"

enum { LARGE_PART = 256 }; /* operations; smaller ones may be made twice */

typedef struct common {
  tn__expr_set needed, seen;
  void (*make)(void *user, const tn__expr *part);
  void *user;
} common;

/* What is chosen may not be needed; the condition is. */
static int needed_args(const tn__expr *e) {
  bool chooses =
      e->kind == TN__EXPR_SELECT || (e->dtype == TN_BOOL && (e->kind == TN__EXPR_AND || e->kind == TN__EXPR_OR));
  return chooses ? 1 : e->arg_count;
}

static void add_needed(common *c, const tn__expr *e) {
  if (tn__expr_size(e) <= LARGE_PART || !tn__expr_set_add(&c->needed, e)) return;
  for (int i = 0; i < needed_args(e); i++) add_needed(c, e->args[i]);
}

static void make_needed(common *c, const tn__expr *e) {
  if (tn__expr_size(e) <= LARGE_PART || !tn__expr_set_add(&c->seen, e)) return;
  if (tn__expr_set_has(&c->needed, e)) {
    c->make(c->user, e);
    return;
  }
  for (int i = 0; i < needed_args(e); i++) make_needed(c, e->args[i]);
}

void tn__expr_common_parts(tn__ir *ir, const tn__expr *a, const tn__expr *b,
                           void (*make)(void *user, const tn__expr *part), void *user) {
  common c = {.needed = {.ir = ir}, .seen = {.ir = ir}, .make = make, .user = user};
  if (tn__expr_size(a) <= LARGE_PART || tn__expr_size(b) <= LARGE_PART) return;
  add_needed(&c, a);
  make_needed(&c, b);
  tn__expr_set_clear(&c.needed);
  tn__expr_set_clear(&c.seen);
}
