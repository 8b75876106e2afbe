/* For tests of what becomes of declarations before a schedule is chosen. */
#ifndef TENON_TESTS_UNIT_TE_SAME_H
#define TENON_TESTS_UNIT_TE_SAME_H

#include "unit/check.h"
#include "unit/schedule_run.h"

/* The plain loops of both declarations must compute the same. */
static inline void check_same_elements(const tn__te *te, const tn__te *other) {
  uint8_t *before, *after;
  size_t size, other_size;
  for (uint64_t seed = 1; seed < 4; seed++) {
    check_ok(outputs_of(te, tn__te_lower(te), NULL, seed, &before, &size));
    check_ok(outputs_of(other, tn__te_lower(other), NULL, seed, &after, &other_size));
    assert_int_equal(size, other_size);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
  }
}

/* A rewritten declaration computes the same as the one that it was made from, whose chosen schedule does, too. */
static inline void check_rewritten(const tn__te *te, const tn__te *made, const tn__target *target) {
  assert_ptr_not_equal(made, te);
  check_ok(tn__te_verify(made));
  check_same_elements(te, made);
  check_ok(compare_results(default_schedule(te, target, NULL), 7));
}

#endif
