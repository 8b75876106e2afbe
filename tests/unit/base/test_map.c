#include "base/map.h"

#include "unit/check.h"
#include "unit/failing_allocator.h"

enum { KEYS = 5000 };

static void fill(tn__map *map) {
  for (int i = 0; i < KEYS; i++) {
    char *key = tn__arena_printf(map->arena, "key%d", i);
    assert_null(tn__map_set(map, key, key));
  }
}

static void finds_what_was_set(void **state) {
  tn__arena arena;
  tn__escape escape;
  tn__arena_init(&arena, NULL, &escape);
  tn__map map;
  tn__map_init(&map, &arena);
  assert_null(tn__map_get(&map, "anything"));
  assert_false(tn__map_has(&map, ""));
  fill(&map);
  assert_int_equal(map.count, KEYS);
  for (int i = 0; i < KEYS; i++) {
    char key[16];
    snprintf(key, sizeof(key), "key%d", i);
    assert_string_equal(tn__map_get(&map, key), key);
    assert_string_equal(map.entries[i].key, key); /* the order of insertion */
  }
  assert_false(tn__map_has(&map, "key5000"));
  tn__arena_release(&arena);
}

static void replaces_in_place(void **state) {
  tn__arena arena;
  tn__escape escape;
  tn__arena_init(&arena, NULL, &escape);
  tn__map map;
  tn__map_init(&map, &arena);
  int one = 1, two = 2;
  assert_null(tn__map_set(&map, "a", &one));
  assert_null(tn__map_set(&map, "b", NULL));
  assert_ptr_equal(tn__map_set(&map, "a", &two), &one);
  assert_ptr_equal(tn__map_get(&map, "a"), &two);
  assert_true(tn__map_has(&map, "b")); /* a NULL value is not an absent key */
  assert_null(tn__map_get(&map, "b"));
  assert_int_equal(map.count, 2);
  assert_string_equal(map.entries[0].key, "a");
  tn__arena_release(&arena);
}

static void fill_body(tn__escape *esc, void *arg) {
  tn__map *map = arg;
  map->arena->escape = esc;
  fill(map);
}

/* After a refused allocation the map still holds what it held. */
static void survives_every_failed_allocation(void **state) {
  for (int fail_at = 0;; fail_at++) {
    failing_allocator memory;
    failing_allocator_init(&memory, fail_at);
    tn__arena arena;
    tn__escape escape;
    tn__arena_init(&arena, &memory.allocator, &escape);
    tn__map map;
    tn__map_init(&map, &arena);
    tn_status *status = tn__protect(&escape, fill_body, &map);
    for (int i = 0; i < map.count; i++) assert_ptr_equal(tn__map_get(&map, map.entries[i].key), map.entries[i].value);
    tn__arena_release(&arena);
    assert_int_equal(memory.live_count, 0);
    if (status == NULL) {
      assert_true(fail_at > 5);
      return;
    }
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    tn_status_free(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_what_was_set),
      cmocka_unit_test(replaces_in_place),
      cmocka_unit_test(survives_every_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
