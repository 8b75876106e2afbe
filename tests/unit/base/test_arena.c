#include "base/arena.h"

#include <stdlib.h>

#include "unit/check.h"
#include "unit/failing_allocator.h"

typedef struct work {
  failing_allocator memory;
  tn__arena arena;
  void (*body)(tn__arena *arena);
} work;

static void call_body(tn__escape *esc, void *arg) {
  work *w = arg;
  w->arena.escape = esc;
  w->body(&w->arena);
}

/* Runs `body` with the allocation `fail_at` refused; everything must be given back. Returns what it threw. */
static tn_status *run(void (*body)(tn__arena *arena), int fail_at, int *calls) {
  work w = {.body = body};
  failing_allocator_init(&w.memory, fail_at);
  tn__arena_init(&w.arena, &w.memory.allocator, NULL);
  tn__escape escape;
  tn_status *status = tn__protect(&escape, call_body, &w);
  tn__arena_release(&w.arena);
  assert_int_equal(w.memory.live_bytes, 0);
  assert_int_equal(w.memory.live_count, 0);
  if (calls != NULL) *calls = w.memory.calls;
  return status;
}

static void allocate_many_sizes(tn__arena *arena) {
  unsigned char *pieces[400];
  for (int i = 0; i < 400; i++) {
    size_t size = i % 7 == 0 ? (size_t)i * 1000 : (size_t)i;
    pieces[i] = tn__arena_alloc(arena, size);
    assert_int_equal((uintptr_t)pieces[i] % 16, 0);
    for (size_t k = 0; k < size; k++) assert_int_equal(pieces[i][k], 0);
    memset(pieces[i], i, size);
    if (i > 0) assert_ptr_not_equal(pieces[i], pieces[i - 1]);
  }
  for (int i = 0; i < 400; i++) {
    size_t size = i % 7 == 0 ? (size_t)i * 1000 : (size_t)i;
    for (size_t k = 0; k < size; k++) assert_int_equal(pieces[i][k], i & 0xff);
  }
}

static void pieces_are_zeroed_aligned_and_apart(void **state) { check_ok(run(allocate_many_sizes, -1, NULL)); }

static void every_failed_allocation_is_thrown(void **state) {
  int calls = 0;
  check_ok(run(allocate_many_sizes, -1, &calls));
  assert_true(calls > 5);
  for (int i = 0; i < calls; i++) {
    tn_status *status = run(allocate_many_sizes, i, NULL);
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    assert_non_null(strstr(tn_status_message(status), "out of memory: the compiler asked for "));
    tn_status_free(status);
  }
}

static void text_body(tn__arena *arena) {
  assert_string_equal(tn__arena_printf(arena, "%s=%d", "n", 42), "n=42");
  assert_string_equal(tn__arena_strdup(arena, "word"), "word");
  assert_string_equal(tn__arena_strndup(arena, "word", 2), "wo");
  assert_string_equal(tn__arena_strndup(arena, "word", 100), "word");
  assert_memory_equal(tn__arena_copy(arena, "a\0b", 3), "a\0b", 3);
  assert_non_null(tn__arena_copy(arena, NULL, 0));
}

static void copies_text(void **state) { check_ok(run(text_body, -1, NULL)); }

static void overflow_body(tn__arena *arena) { tn__arena_alloc_array(arena, SIZE_MAX / 4, 8); }
static void huge_body(tn__arena *arena) { tn__arena_alloc(arena, SIZE_MAX - 3); }

static void absurd_sizes_are_thrown(void **state) {
  check_fails(run(overflow_body, -1, NULL), TN_OUT_OF_MEMORY,
              "out of memory: the compiler asked for 18446744073709551615 bytes after 0");
  check_fails(run(huge_body, -1, NULL), TN_OUT_OF_MEMORY,
              "out of memory: the compiler asked for 18446744073709551612 bytes after 0");
}

static void vector_body(tn__arena *arena) {
  TN__VEC(int64_t) v = {0};
  for (int i = 0; i < 10000; i++) tn__vec_push(arena, &v, (int64_t)i * i);
  assert_int_equal(v.count, 10000);
  for (int i = 0; i < 10000; i++) assert_int_equal(v.data[i], (int64_t)i * i);
}

static void vectors_grow(void **state) { check_ok(run(vector_body, -1, NULL)); }

typedef struct trail {
  char text[8];
  int length;
} trail;
typedef struct step {
  trail *trail;
  char letter;
} step;

static void walk(void *object) {
  step *s = object;
  s->trail->text[s->trail->length++] = s->letter;
}

static void deferred_calls_run_last_first_and_once(void **state) {
  tn__arena arena;
  tn__escape escape;
  trail t = {{0}, 0};
  tn__arena_init(&arena, NULL, &escape);
  for (char c = 'a'; c <= 'c'; c++) {
    step *s = TN__NEW(&arena, step);
    *s = (step){&t, c};
    tn__arena_defer(&arena, walk, s);
  }
  tn__arena_release(&arena);
  assert_string_equal(t.text, "cba");
  tn__arena_release(&arena);
  assert_string_equal(t.text, "cba");
  step again = {&t, 'z'};
  tn__arena_defer(&arena, walk, &again); /* an arena may be used again */
  tn__arena_release(&arena);
  assert_string_equal(t.text, "cbaz");
}

static void throws_body(tn__escape *esc, void *arg) {
  if (*(int *)arg == 0) tn__throwf(esc, TN_UNSUPPORTED, "operator \"%s\"", "Fancy");
  if (*(int *)arg == 1) tn__check(esc, tn_status_create(TN_IO, "disk"));
  tn__check(esc, NULL);
  *(int *)arg = 99;
}

static void protect_returns_what_was_thrown(void **state) {
  tn__escape escape;
  int which = 0;
  check_fails(tn__protect(&escape, throws_body, &which), TN_UNSUPPORTED, "operator \"Fancy\"");
  which = 1;
  check_fails(tn__protect(&escape, throws_body, &which), TN_IO, "disk");
  which = 2;
  check_ok(tn__protect(&escape, throws_body, &which));
  assert_int_equal(which, 99);
}

static void take_small_pieces(tn__escape *escape, void *arg) {
  tn__arena *arena = arg;
  arena->escape = escape;
  for (int i = 0; i < 100000; i++) tn__arena_alloc(arena, 16);
}

static void steps_end_at_what_is_allowed(void **state) {
  tn__work all = {.of = "a model of 5 bytes"};
  tn__arena arenas[2];
  tn__escape escape;
  for (int i = 0; i < 2; i++) {
    tn__arena_init(&arenas[i], NULL, &escape);
    arenas[i].work = &all;
  }
  assert_null(tn__protect(&escape, take_small_pieces, &arenas[0])); /* as many as it likes */
  tn__arena_report(&arenas[0]);
  assert_int_equal(all.steps, 100000);
  all.most = 150000;
  tn_status *status = tn__protect(&escape, take_small_pieces, &arenas[1]); /* of both together */
  check_fails(status, TN_UNSUPPORTED,
              "compiling a model of 5 bytes would take more than 150000 steps of work, the most for that size: its "
              "sizes or values depend on each other in too many ways");
  uint64_t before = arenas[0].steps;
  tn__arena_alloc(&arenas[0], (size_t)1 << 26); /* numbers of a tensor are no work */
  assert_true(arenas[0].steps - before < 5000);
  tn__arena_allow(&arenas[1], 100000);
  assert_int_equal(all.most, 250000);
  for (int i = 0; i < 2; i++) tn__arena_release(&arenas[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
      cmocka_unit_test(every_failed_allocation_is_thrown),
      cmocka_unit_test(copies_text),
      cmocka_unit_test(absurd_sizes_are_thrown),
      cmocka_unit_test(vectors_grow),
      cmocka_unit_test(deferred_calls_run_last_first_and_once),
      cmocka_unit_test(protect_returns_what_was_thrown),
      cmocka_unit_test(steps_end_at_what_is_allowed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
