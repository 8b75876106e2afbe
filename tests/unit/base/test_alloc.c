#include "base/alloc.h"

#include "unit/check.h"
#include "unit/failing_allocator.h"

static void zeroes_and_aligns(void **state) {
  static const size_t aligns[] = {0, 1, 16, 64, 4096};
  for (size_t i = 0; i < sizeof(aligns) / sizeof(aligns[0]); i++) {
    failing_allocator counting;
    failing_allocator_init(&counting, -1);
    const tn_allocator *allocators[] = {NULL, &counting.allocator};
    for (int j = 0; j < 2; j++) {
      void *p;
      check_ok(tn__alloc(allocators[j], 7, 9, aligns[i], &p));
      size_t align = aligns[i] == 0 ? 16 : aligns[i];
      assert_int_equal((uintptr_t)p % align, 0);
      for (int k = 0; k < 63; k++) assert_int_equal(((char *)p)[k], 0);
      tn__free(allocators[j], p, 63, aligns[i]);
    }
    assert_int_equal(counting.live_bytes, 0);
    assert_int_equal(counting.live_count, 0);
  }
}

static void nothing_is_a_size_too(void **state) {
  failing_allocator counting;
  failing_allocator_init(&counting, -1);
  void *a, *b;
  check_ok(tn__alloc(&counting.allocator, 0, 8, 0, &a));
  check_ok(tn__alloc(&counting.allocator, 8, 0, 0, &b));
  assert_non_null(a);
  assert_ptr_not_equal(a, b);
  b = tn__realloc(&counting.allocator, b, 0, 100, 0);
  tn__free(&counting.allocator, a, 0, 0);
  tn__free(&counting.allocator, b, 100, 0);
  tn__free(&counting.allocator, NULL, 100, 0);
  assert_int_equal(counting.live_bytes, 0);
  assert_int_equal(counting.live_count, 0);
}

static void growing_keeps_the_contents(void **state) {
  for (size_t align = 16; align <= 256; align *= 16) {
    void *p;
    check_ok(tn__alloc(NULL, 4, 1, align, &p));
    memcpy(p, "abc", 4);
    p = tn__realloc(NULL, p, 4, 100000, align);
    assert_string_equal(p, "abc");
    assert_int_equal((uintptr_t)p % align, 0);
    p = tn__realloc(NULL, p, 100000, 2, align);
    assert_memory_equal(p, "ab", 2);
    tn__free(NULL, p, 2, align);
  }
}

static void overflow_and_failure_are_statuses(void **state) {
  void *p = &p;
  check_fails(tn__alloc(NULL, SIZE_MAX / 2, 3, 0, &p), TN_OUT_OF_MEMORY,
              "out of memory: 9223372036854775807 elements of 3 bytes do not fit into the address space");
  assert_null(p);
  failing_allocator failing;
  failing_allocator_init(&failing, 0);
  p = &p;
  check_fails(tn__alloc(&failing.allocator, 5, 3, 0, &p), TN_OUT_OF_MEMORY, "out of memory: 15 bytes were asked for");
  assert_null(p);
}

static void checked_arithmetic(void **state) {
  int64_t x;
  assert_false(tn__mul_overflow_i64(INT64_C(1) << 31, INT64_C(1) << 31, &x));
  assert_true(x == INT64_C(1) << 62);
  assert_true(tn__mul_overflow_i64(INT64_C(1) << 32, INT64_C(1) << 31, &x));
  assert_true(tn__mul_overflow_i64(INT64_MIN, -1, &x));
  assert_false(tn__add_overflow_i64(INT64_MAX, -1, &x));
  assert_true(x == INT64_MAX - 1);
  assert_true(tn__add_overflow_i64(INT64_MAX, 1, &x));
  assert_true(tn__add_overflow_i64(INT64_MIN, -1, &x));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zeroes_and_aligns),          cmocka_unit_test(nothing_is_a_size_too),
      cmocka_unit_test(growing_keeps_the_contents), cmocka_unit_test(overflow_and_failure_are_statuses),
      cmocka_unit_test(checked_arithmetic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
