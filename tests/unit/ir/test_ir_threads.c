/* Blocks, threads and barriers of the loop IR: what the verifier takes, what the interpreter runs and which races it
 * sees, and that nothing of them is left for a CPU. */
#include <stdio.h>

#include "ir/passes.h"
#include "unit/ir_check.h"

static tn__func *parsed(tn__ir *ir, const char *text) {
  tn__func *func;
  check_ok(tn__func_parse(ir, "test", text, strlen(text), &func));
  return func;
}

#define FUNC(body) "func f(A: f32[8], n: i64[]) -> (C: f32[8]) {\n" body "\n}\n"
#define BLOCKS(body) FUNC("block.x b in [0, +2) {\n alloc S: f32[8] shared {\n" body "\n}\n}")
#define THREADS(body) BLOCKS("thread.x t in [0, +4) {\n" body "\n}")

/* ---- verifier ---------------------------------------------------------------------------------------------------- */

static void test_verifier_takes(void **state) {
  static const char *const texts[] = {
      FUNC("thread.z t in [0, +8) { C[t] = A[t] barrier }"), /* a launch of one block */
      FUNC("for i in [0, +2) { block.y b in [0, +n[]) { thread.x t in [0, +8) { } } }"),
      THREADS("for i in [0, +n[]) { if i < n[] { barrier } }"), /* inputs do not change */
      THREADS("let k: i64 = n[] + b { while k < 3 { if k == 1 { } else { barrier } } }"),
      THREADS("thread.y u in [0, +2) { alloc L: f32[4] local { barrier L[0] = S[t] } }"),
      THREADS("vectorized j in [0, +2) { C[b*4 + t] = A[j] }"),
      BLOCKS("if n[] < 3 { thread.x t in [0, +4) { barrier } }"),
      BLOCKS("alloc T: f32[65536] shared { }"), /* a target says how much is too much */
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
    check_ok(tn__func_verify(ir_of(state), parsed(ir_of(state), texts[i])));
}

static void test_verifier_refuses(void **state) {
  static const struct {
    const char *text, *error;
  } cases[] = {
      {FUNC("thread.x t in [0, +4) { block.x b in [0, +2) { } }"),
       "function f: loop b over block.x is inside of loop t over threads; blocks stand around threads"},
      {THREADS("thread.x u in [0, +4) { }"), "function f: loop u over thread.x is inside of loop t over the same"},
      {BLOCKS("thread.y u in [0, +n[]) { }"), "function f: loop u over thread.y has no constant extent"},
      {THREADS("parallel p in [0, +4) { }"), "function f: parallel loop p is inside of loop b over block.x"},
      {FUNC("parallel p in [0, +4) { block.x b in [0, +2) { } }"),
       "function f: loop b over block.x is inside of a parallel loop"},
      {THREADS("alloc T: f32[4] shared { }"),
       "function f: T, which threads share, is allocated inside of a loop over them"},
      {BLOCKS("block.y c in [0, +2) { }"),
       "function f: loop c over block.y is inside of the allocation of S, which one block has"},
      {BLOCKS("alloc L: f32[4] local { }"),
       "function f: L, which one thread has, is allocated outside of loops over threads"},
      {THREADS("alloc L: f32[4] local { thread.y u in [0, +2) { } }"),
       "function f: loop u over thread.y is inside of the allocation of L, which one thread has"},
      {THREADS("alloc L: f32[16385] local { }"), "function f: L has 65540 bytes; its scope allows 65536"},
      {BLOCKS("alloc T: f32[n[]] shared { }"), "function f: dimension 0 of T is not constant, as its scope wants it"},
      {BLOCKS("barrier"), "function f: a barrier is outside of loops over threads"},
      {THREADS("vectorized j in [0, +4) { barrier }"), "function f: a barrier is inside of the vectorized loop j"},
      {THREADS("block \"a\" { barrier }"), "function f: a barrier is inside of block \"a\""},
      {THREADS("if t < 2 { barrier }"),
       "function f: a barrier is inside of a condition that depends on the thread, so that not all may come by"},
      {THREADS("if n[] < 2 { } else { let k: i64 = t + b { if k < 2 { } else { barrier } } }"),
       "function f: a barrier is inside of a condition that depends on the thread, so that not all may come by"},
      {THREADS("while S[0] < 0.0f32 { barrier }"), /* a thread may come late and see what another one stored */
       "function f: a barrier is inside of a condition that depends on the thread, so that not all may come by"},
      {THREADS("for j in [0, +t) { barrier }"),
       "function f: a barrier is inside of a loop whose bounds depend on the thread, so that not all may come by"},
      {THREADS("for j in [0, +t) { for k in [0, +4) { if k < j { } } barrier }"),
       "function f: a barrier is inside of a loop whose bounds depend on the thread, so that not all may come by"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    check_fails(tn__func_verify(ir_of(state), parsed(ir_of(state), cases[i].text)), TN_INTERNAL, cases[i].error);
}

/* ---- interpreter ------------------------------------------------------------------------------------------------- */

static const float given[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static tn_status *interpreted(tn__ir *ir, const tn__func *func, float *c) {
  float a[8];
  int64_t n = 2;
  memcpy(a, given, sizeof(a));
  void *buffers[] = {a, &n, c};
  return tn__ir_interpret(ir, func, buffers, NULL, NULL);
}

static void test_interpreter_runs(void **state) {
  static const struct {
    const char *text;
    float c[8];
  } cases[] = {
      /* Rounds of sums of neighbours: threads read what others wrote before the barrier, and then write. */
      {THREADS("S[t] = A[b*4 + t] barrier "
               "for r in [0, +n[]) { let next: f32 = S[(t + 1) % 4] { barrier S[t] = S[t] + next } barrier } "
               "C[b*4 + t] = S[t]"),
       {8, 12, 12, 8, 24, 28, 28, 24}},
      /* Private memory lives on over a barrier, and each thread has its own. */
      {THREADS("alloc L: f32[2] local { L[0] = A[b*4 + t] S[t] = L[0] barrier L[1] = S[3 - t] barrier "
               "C[b*4 + t] = L[0]*10.0f32 + L[1] }"),
       {14, 23, 32, 41, 58, 67, 76, 85}},
      /* What stands between loops over threads happens once in the block, and sees all of them. */
      {BLOCKS("thread.x t in [0, +4) { S[t] = A[b*4 + t] } S[4] = S[0] + S[3] "
              "thread.x t in [0, +4) { C[b*4 + t] = S[4] + S[3 - t] }"),
       {9, 8, 7, 6, 21, 20, 19, 18}},
      /* Two axes: a barrier waits for both, the end of an inner loop for those of one thread outside of it. */
      {BLOCKS("thread.y u in [0, +2) { thread.x t in [0, +2) { S[u*2 + t] = A[b*4 + u*2 + t] barrier "
              "C[b*4 + u*2 + t] = S[t*2 + u] } }"),
       {1, 3, 2, 4, 5, 7, 6, 8}},
      {BLOCKS("thread.y u in [0, +2) { thread.x t in [0, +2) { S[u*2 + t] = A[b*4 + u*2 + t] } "
              "thread.x t in [0, +2) { C[b*4 + u*2 + t] = S[u*2 + 1 - t] } }"),
       {2, 1, 4, 3, 6, 5, 8, 7}},
      /* A barrier under a condition that is the same for all. */
      {THREADS("S[t] = A[b*4 + t] if n[] == 2 { barrier C[b*4 + t] = S[3 - t] } else { C[b*4 + t] = S[t] }"),
       {4, 3, 2, 1, 8, 7, 6, 5}},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    tn__ir *ir = ir_of(state);
    const tn__func *func = parsed(ir, cases[i].text);
    float c[8], lowered[8];
    check_ok(tn__func_verify(ir, func));
    check_ok(interpreted(ir, func, c));
    assert_memory_equal(c, cases[i].c, sizeof(c));
    check_ok(interpreted(ir, tn__ir_lower_for_codegen(ir, func, NULL), lowered));
    assert_memory_equal(lowered, cases[i].c, sizeof(c));
  }
}

static void test_interpreter_sees_races(void **state) {
  static const struct {
    const char *text, *error; /* NULL: there is none */
  } cases[] = {
      {THREADS("S[t] = A[t] C[b*4 + t] = S[3 - t]"),
       "f: thread.x 1 reads S[2], and thread.x 2 writes it, with no barrier between"},
      {THREADS("S[t] = A[t] C[b*4 + t] = S[(t + 3) % 4]"),
       "f: thread.x 0 writes S[0], and thread.x 1 reads it, with no barrier between"},
      {THREADS("S[t / 2] = A[t]"), "f: thread.x 0 writes S[0], and thread.x 1 writes it, with no barrier between"},
      {THREADS("S[t] = A[t] barrier S[7] = S[0]"),
       "f: thread.x 0 writes S[7], and thread.x 1 writes it, with no barrier between"},
      /* Only the first reader is kept: it has no order with the writer either. */
      {THREADS("if t < 3 { C[b*4 + t] = S[0] } if t == 3 { S[0] = A[0] }"),
       "f: thread.x 0 reads S[0], and thread.x 3 writes it, with no barrier between"},
      {THREADS("C[t] = A[t]"), "f: block.x 0 writes C[0], and block.x 1 writes it, and blocks have no order"},
      {BLOCKS("C[b] = A[b] S[0] = C[1 - b]"),
       "f: block.x 0 reads C[1], and block.x 1 writes it, and blocks have no order"},
      {BLOCKS("thread.y u in [0, +2) { thread.x t in [0, +2) { S[t] = A[t] } }"),
       "f: thread.y 0 writes S[0], and thread.y 1 writes it, with no barrier between"},
      {FUNC("alloc W: f32[2, 2] workspace { block.x b in [0, +2) { thread.x t in [0, +2) { W[b, 0] = A[b] } } }"),
       "f: thread.x 0 writes W[0, 0], and thread.x 1 writes it, with no barrier between"},
      {THREADS("C[b*4 + t] = A[0] + A[b]"), NULL},
      {FUNC("block.x b in [0, +8) { C[b] = A[b] } block.x b in [0, +4) { C[7 - b] = C[b] }"), NULL},
      {THREADS("for r in [0, +4) { if t == r { S[0] = A[r] } barrier }"), NULL},
      {FUNC("for i in [0, +2) { thread.x t in [0, +4) { C[(t + i) % 8] = A[i] } }"), NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    float c[8];
    const tn__func *func = parsed(ir_of(state), cases[i].text);
    check_ok(tn__func_verify(ir_of(state), func));
    tn_status *status = interpreted(ir_of(state), func, c);
    if (cases[i].error == NULL)
      check_ok(status);
    else
      check_fails(status, TN_INTERNAL, cases[i].error);
  }
}

/* Functions that nobody verified get an error, too. */
static void test_interpreter_refuses_barriers(void **state) {
  static const struct {
    const char *text, *error;
  } cases[] = {
      {BLOCKS("barrier"), "f: a barrier stands outside of loops over threads"},
      {THREADS("if t < 2 { barrier }"), "f: a barrier stands under a condition that depends on the thread"},
      {THREADS("for j in [0, +t) { barrier }"), "f: a barrier stands in a loop whose bounds depend on the thread"},
      {THREADS("alloc L: f32[t] stack { barrier }"),
       "f: a barrier stands in an allocation whose shape depends on the thread"},
      {THREADS("block \"a\" { barrier }"), "f: a barrier stands inside of a computation block or an instruction"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    float c[8];
    check_fails(interpreted(ir_of(state), parsed(ir_of(state), cases[i].text), c), TN_INVALID_ARGUMENT, cases[i].error);
  }
}

/* ---- lowering ---------------------------------------------------------------------------------------------------- */

static bool see_threads(const tn__stmt *s, void *user) {
  bool *found = user;
  *found |= s->kind == TN__STMT_BARRIER || (s->kind == TN__STMT_FOR && tn__ir_loop_is_bound(s->as.loop.kind));
  *found |= s->kind == TN__STMT_ALLOC && s->as.alloc.buffer->scope >= TN__SCOPE_SHARED;
  return true;
}

static void test_nothing_is_left_for_a_cpu(void **state) {
  static const char *const texts[] = {
      THREADS("alloc L: f32[2] local { L[0] = A[t] S[t] = L[0] barrier C[t] = S[3 - t] + L[0] }"),
      FUNC("block.z b in [0, +n[]) { thread.y t in [0, +4) { C[t] = A[t] } }"),
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    bool found = false;
    const tn__func *func = tn__ir_serialize_threads(ir_of(state), parsed(ir_of(state), texts[i]));
    check_ok(tn__func_verify(ir_of(state), func));
    tn__stmt_walk(func->body, see_threads, &found);
    assert_false(found);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_verifier_takes, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_verifier_refuses, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_interpreter_runs, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_interpreter_sees_races, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_interpreter_refuses_barriers, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_nothing_is_left_for_a_cpu, ir_set_up, ir_tear_down),
  };
  return cmocka_run_group_tests_name("ir_threads", tests, NULL, NULL);
}
