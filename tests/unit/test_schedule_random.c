/* Random traces over small declarations: whatever the primitives accept must compute what the declaration says, and
 * replay to the same trace. TENON_RANDOM_TRACES sets how many are tried. */
#include "unit/schedule_check.h"

typedef struct dice {
  uint64_t state;
} dice;

static int roll(dice *d, int sides) {
  d->state = d->state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (int)((d->state >> 33) % (uint64_t)sides);
}

typedef struct drawing {
  tn__schedule *s;
  dice *dice;
} drawing;

typedef struct names {
  const char *names[64];
  int count;
} names;

static bool note_block(const tn__stmt *s, void *user) {
  names *n = user;
  if (s->kind == TN__STMT_BLOCK && n->count < 64) n->names[n->count++] = s->as.block->name;
  return true;
}

static const char *pick(dice *d, const names *n) { return n->count == 0 ? "none" : n->names[roll(d, n->count)]; }

static names blocks_of(const tn__schedule *s) {
  names n = {0};
  tn__stmt_walk(tn__schedule_func(s)->body, note_block, &n);
  return n;
}

static names some_loops(tn__schedule *s, dice *d) {
  names blocks = blocks_of(s), n = {0};
  n.count = tn__loops_of(s, pick(d, &blocks), n.names, 64);
  return n;
}

static void one_step(tn__schedule *s, dice *d) {
  static const int64_t factors[] = {2, 3, 4, 5, 8};
  static const tn__scope scopes[] = {TN__SCOPE_WORKSPACE, TN__SCOPE_STACK, TN__SCOPE_REGISTER};
  names blocks = blocks_of(s), loops = some_loops(s, d);
  const char *block = pick(d, &blocks);
  int at = loops.count > 1 ? roll(d, loops.count - 1) : 0;
  switch (roll(d, 16)) {
    case 0:
    case 1: {
      int64_t two[] = {0, factors[roll(d, 5)]}, three[] = {factors[roll(d, 2)], 0, factors[roll(d, 3)]};
      if (roll(d, 3) > 0)
        tn__split(s, pick(d, &loops), two, 2);
      else
        tn__split(s, pick(d, &loops), three, 3);
      return;
    }
    case 2:
      if (loops.count > 1) tn__fuse(s, loops.names[at], loops.names[at + 1]);
      return;
    case 3:
    case 4:
      if (loops.count > 1) {
        const char *order[] = {loops.names[at + 1], loops.names[at]};
        tn__reorder(s, order, 2);
      }
      return;
    case 5: tn__parallel(s, pick(d, &loops)); return;
    case 6:
      if (loops.count > 0) tn__vectorize(s, loops.names[loops.count - 1]);
      return;
    case 7: tn__unroll(s, pick(d, &loops)); return;
    case 8: tn__inline(s, block); return;
    case 9: tn__reverse_inline(s, block); return;
    case 10:
    case 11: tn__compute_at(s, block, pick(d, &loops)); return;
    case 12: tn__reverse_compute_at(s, block, pick(d, &loops)); return;
    case 13:
      if (roll(d, 2))
        tn__cache_write(s, block, 0, scopes[roll(d, 2)]);
      else
        tn__cache_read(s, block, roll(d, 3), scopes[roll(d, 2)]);
      return;
    case 14:
      if (roll(d, 2))
        tn__rfactor(s, pick(d, &loops));
      else
        tn__decompose_reduction(s, block, pick(d, &loops));
      return;
    default: tn__set_scope(s, block, 0, scopes[roll(d, 2)]); return;
  }
}

static void step_body(tn__escape *escape, void *arg) {
  drawing *g = arg;
  tn__ir_arena(tn__te_ir(tn__schedule_te(g->s)))->escape = escape;
  one_step(g->s, g->dice);
  tn__schedule_func(g->s);
}

static int accepted_steps, refused_steps;

static const char *printed(const tn__schedule *s) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__trace_print(s, &text);
  const char *copy = tn__arena_strdup(tn__ir_arena(tn__te_ir(tn__schedule_te(s))), tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return copy;
}

static void random_trace(tn__ir *ir, const void *arg) {
  dice d = *(const dice *)arg;
  tn__arena *arena = tn__ir_arena(ir);
  tn__escape *outer = arena->escape;
  tn__target target = test_target("x86-64-v4");
  tn__te *te = declarations[roll(&d, DECLARATION_COUNT)](ir);
  tn__schedule *s = tn__schedule_of(te, &target);
  const char *good = printed(s);
  int steps = 4 + roll(&d, 12);
  for (int i = 0; i < steps; i++) {
    drawing g = {.s = s, .dice = &d};
    tn__escape escape;
    tn_status *status = tn__protect(&escape, step_body, &g);
    arena->escape = outer;
    if (status == NULL) {
      accepted_steps++;
      good = printed(s);
      continue;
    }
    assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
    tn_status_free(status);
    refused_steps++;
    /* A refused step changes nothing; a step that leaves no function (a tensor that cannot be private) is taken back.
     */
    check_ok(tn__trace_replay(te, &target, good, &s));
  }
  check_same(s);
  tn__schedule *again;
  check_ok(tn__trace_replay(te, &target, good, &again));
  assert_string_equal(printed(again), good);
}

static void random_traces(void **state) {
  const char *wanted = getenv("TENON_RANDOM_TRACES"), *first = getenv("TENON_RANDOM_SEED");
  int count = wanted == NULL ? 1000 : atoi(wanted);
  uint64_t seed = first == NULL ? 1 : strtoull(first, NULL, 10);
  for (int i = 0; i < count; i++) {
    dice d = {.state = seed + (uint64_t)i * 7919};
    tn_status *status = in_context(random_trace, &d);
    if (status != NULL) fail_msg("seed %llu: %s", (unsigned long long)d.state, tn_status_message(status));
  }
  /* The test is worth something only while many steps are accepted. */
  assert_true(accepted_steps > 2 * count);
  assert_true(refused_steps > count / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_traces)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
