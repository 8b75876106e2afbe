/* Canonical forms of scalar expressions: what must become equal, what the ranges decide, and what must be left
 * alone. */
#include "unit/ir_check.h"

static const tn__expr *loop_var(tn__ir *ir, const char *name, int64_t extent) {
  return tn__var_create(ir, name, TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, extent))->self;
}

static const tn__expr *dim(tn__ir *ir, const char *name) {
  return tn__var_create(ir, name, TN_I64, tn__ir_index(ir, 0), NULL)->self;
}

static void test_sums_are_ordered(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *i = loop_var(ir, "i", 100), *j = loop_var(ir, "j", 100);
  const tn__expr *a = tn__ir_add(ir, tn__ir_mul_i(ir, i, 3), tn__ir_add_i(ir, j, 5));
  const tn__expr *b =
      tn__ir_add(ir, tn__ir_add(ir, tn__ir_add_i(ir, j, 2), tn__ir_add_i(ir, i, 3)), tn__ir_add(ir, i, i));
  assert_ptr_equal(a, b);
  check_text(a, "i*3 + j + 5");
  assert_true(tn__ir_is_int_value(tn__ir_sub(ir, a, b), 0));
  check_text(tn__ir_sub(ir, i, j), "i - j");
  check_text(tn__ir_mul(ir, tn__ir_add_i(ir, i, 1), tn__ir_sub(ir, j, i)), "-i + j - i*i + i*j");
}

static void test_split_by_range(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *o = loop_var(ir, "o", 10), *i = loop_var(ir, "i", 32);
  const tn__expr *fused = tn__ir_add(ir, tn__ir_mul_i(ir, o, 32), i);
  assert_ptr_equal(tn__ir_div_i(ir, fused, 32), o);
  assert_ptr_equal(tn__ir_mod_i(ir, fused, 32), i);
  check_text(tn__ir_div_i(ir, fused, 64), "o/2");
  check_text(tn__ir_mod_i(ir, fused, 64), "i + o%2*32");
  check_text(tn__ir_div_i(ir, tn__ir_add_i(ir, fused, 7), 32), "o + (i + 7)/32");
  check_text(tn__ir_div_i(ir, fused, 16), "o*2 + i/16");
  check_text(tn__ir_mod_i(ir, fused, 16), "i%16");
}

static void test_quotient_and_remainder_recombine(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *x = loop_var(ir, "x", 100000), *n = dim(ir, "n");
  const tn__expr *q = tn__ir_div_i(ir, x, 7), *r = tn__ir_mod_i(ir, x, 7);
  assert_ptr_equal(tn__ir_add(ir, tn__ir_mul_i(ir, q, 7), r), x);
  assert_ptr_equal(tn__ir_add(ir, tn__ir_mul_i(ir, q, 28), tn__ir_mul_i(ir, r, 4)), tn__ir_mul_i(ir, x, 4));
  assert_ptr_equal(tn__ir_add(ir, tn__ir_mul(ir, tn__ir_div(ir, x, n), n), tn__ir_mod(ir, x, n)), x);
  assert_ptr_equal(tn__ir_sub(ir, x, tn__ir_mul_i(ir, q, 7)), r);
  /* The start of the block that x is in: its range is known then. */
  assert_ptr_equal(tn__ir_sub(ir, x, r), tn__ir_mul_i(ir, q, 7));
  assert_ptr_equal(tn__ir_sub(ir, tn__ir_mul_i(ir, x, 3), tn__ir_mul_i(ir, r, 3)), tn__ir_mul_i(ir, q, 21));
  const tn__expr *y = loop_var(ir, "y", 4096), *other = tn__ir_mod_i(ir, tn__ir_add_i(ir, y, 3), 7);
  const tn__expr *pair = tn__ir_add(ir, tn__ir_sub(ir, y, tn__ir_mod_i(ir, y, 128)), tn__ir_mod_i(ir, y, 64));
  assert_true(tn__ir_is_true(tn__ir_lt(ir, tn__ir_add_i(ir, pair, 64), tn__ir_index(ir, 4096))));
  assert_ptr_equal(tn__ir_add(ir, tn__ir_sub(ir, y, other), other), y);
  check_text(tn__ir_sub(ir, y, other), "(y + 3)/7*7 - 3");
  /* Three levels, as a fused loop over [a, b, c] takes apart and an index puts together. */
  const tn__expr *a = tn__ir_div_i(ir, x, 35), *b = tn__ir_mod_i(ir, tn__ir_div_i(ir, x, 5), 7),
                 *c = tn__ir_mod_i(ir, x, 5);
  assert_ptr_equal(tn__ir_add(ir, tn__ir_add(ir, tn__ir_mul_i(ir, a, 35), tn__ir_mul_i(ir, b, 5)), c), x);
  assert_ptr_equal(tn__ir_add(ir, tn__ir_mul_i(ir, b, 5), c), tn__ir_mod_i(ir, x, 35));
  assert_ptr_equal(tn__ir_div_i(ir, tn__ir_div_i(ir, x, 5), 7), tn__ir_div_i(ir, x, 35));
  assert_ptr_equal(tn__ir_div_i(ir, tn__ir_mod_i(ir, x, 35), 5), b);
  assert_ptr_equal(tn__ir_mod_i(ir, tn__ir_mod_i(ir, x, 35), 5), c);
}

static void test_symbolic_extents(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *n = dim(ir, "n"), *m = dim(ir, "m");
  const tn__expr *i = tn__var_create(ir, "i", TN_I64, tn__ir_index(ir, 0), n)->self;
  const tn__expr *j = tn__var_create(ir, "j", TN_I64, tn__ir_index(ir, 0), m)->self;
  assert_true(tn__ir_is_true(tn__ir_lt(ir, i, n)));
  assert_true(tn__ir_is_true(tn__ir_le(ir, tn__ir_add_i(ir, i, 1), n)));
  assert_false(tn__ir_prove(ir, tn__ir_lt(ir, tn__ir_add_i(ir, i, 1), n)));
  assert_true(tn__ir_is_false(tn__ir_lt(ir, n, i)));
  const tn__expr *fused = tn__ir_add(ir, tn__ir_mul(ir, i, m), j);
  assert_true(tn__ir_prove(ir, tn__ir_lt(ir, fused, tn__ir_mul(ir, n, m))));
  assert_ptr_equal(tn__ir_div(ir, fused, m), i);
  assert_ptr_equal(tn__ir_mod(ir, fused, m), j);
  /* The interior of a loop that was split by 14. */
  const tn__expr *io = tn__var_create(ir, "io", TN_I64, tn__ir_index(ir, 0), tn__ir_div_i(ir, n, 14))->self;
  const tn__expr *ii = loop_var(ir, "ii", 14);
  assert_true(tn__ir_is_true(tn__ir_lt(ir, tn__ir_add(ir, tn__ir_mul_i(ir, io, 14), ii), n)));
  const tn__expr *outside =
      tn__var_create(ir, "io", TN_I64, tn__ir_index(ir, 0), tn__ir_ceildiv(ir, n, tn__ir_index(ir, 14)))->self;
  assert_false(tn__ir_prove(ir, tn__ir_lt(ir, tn__ir_add(ir, tn__ir_mul_i(ir, outside, 14), ii), n)));
  assert_true(tn__ir_is_true(tn__ir_lt(ir, tn__ir_mul_i(ir, outside, 14), n)));
}

static void test_comparisons_have_one_form(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *i = loop_var(ir, "i", 100), *j = loop_var(ir, "j", 100), *n = dim(ir, "n");
  assert_ptr_equal(tn__ir_le(ir, i, tn__ir_add_i(ir, n, -1)), tn__ir_lt(ir, i, n));
  assert_ptr_equal(tn__ir_not(ir, tn__ir_lt(ir, i, n)), tn__ir_le(ir, n, i));
  assert_ptr_equal(tn__ir_eq(ir, i, j), tn__ir_eq(ir, j, i));
  assert_ptr_equal(tn__ir_not(ir, tn__ir_eq(ir, i, j)), tn__ir_ne(ir, j, i));
  check_text(tn__ir_lt(ir, tn__ir_mul_i(ir, i, 4), tn__ir_index(ir, 10)), "i < 3");
  check_text(tn__ir_lt(ir, tn__ir_index(ir, 10), tn__ir_mul_i(ir, i, 4)), "2 < i");
  check_text(tn__ir_eq(ir, tn__ir_mul_i(ir, i, 4), tn__ir_index(ir, 10)), "false");
  check_text(tn__ir_eq(ir, tn__ir_mul_i(ir, i, 4), tn__ir_index(ir, 12)), "i == 3");
  check_text(tn__ir_lt(ir, tn__ir_add(ir, i, tn__ir_index(ir, 7)), tn__ir_add(ir, j, i)), "7 < j");
  assert_true(tn__ir_is_true(tn__ir_lt(ir, i, tn__ir_index(ir, 100))));
  assert_true(tn__ir_is_false(tn__ir_eq(ir, i, tn__ir_index(ir, 100))));
  assert_ptr_equal(tn__ir_min(ir, i, tn__ir_index(ir, 99)), i);
  assert_ptr_equal(tn__ir_max(ir, tn__ir_min(ir, i, n), n), n);
}

/* Numbers at the ends of i64, as the identity of a maximum, wrap around in differences: these decide nothing. */
static void test_extremes_of_the_least_numbers(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *i = loop_var(ir, "i", 100), *three = tn__ir_index(ir, 3);
  const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX};
  for (int k = 0; k < 3; k++) {
    const tn__expr *end = tn__ir_index(ir, ends[k]);
    const tn__expr *a = tn__ir_select(ir, tn__ir_lt(ir, tn__ir_index(ir, 38), i), three, end);
    const tn__expr *b = tn__ir_select(ir, tn__ir_lt(ir, tn__ir_index(ir, 37), i), three, end);
    assert_true(tn__ir_max(ir, a, b) != a && tn__ir_min(ir, a, b) != a);
    assert_true(tn__ir_max(ir, a, b) != b && tn__ir_min(ir, a, b) != b);
  }
}

/* A quotient that multiples of the divisor were taken out of is compared without dividing. */
static void test_comparisons_with_quotients(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *o = loop_var(ir, "o", 86), *i = loop_var(ir, "i", 8), *j = loop_var(ir, "j", 300);
  const tn__expr *x = tn__ir_add(ir, tn__ir_mul_i(ir, o, 8), i), *q = tn__ir_div_i(ir, x, 3);
  check_text(q, "o*2 + (o*2 + i)/3");
  check_text(tn__ir_lt(ir, q, tn__ir_index(ir, 227)), "o*8 + i < 681");
  check_text(tn__ir_lt(ir, tn__ir_index(ir, 2), q), "8 < o*8 + i");
  assert_ptr_equal(tn__ir_le(ir, tn__ir_add_i(ir, q, 5), tn__ir_index(ir, 7)), tn__ir_lt(ir, x, tn__ir_index(ir, 9)));
  /* Nothing is gained where the quotient is of something else. */
  check_text(tn__ir_lt(ir, q, j), "o*2 + (o*2 + i)/3 < j");
}

static void test_loaded_values_may_wrap(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *shape = tn__ir_index(ir, 10), *zero = tn__ir_index(ir, 0);
  const tn__buffer *data = tn__buffer_create(ir, "data", TN_I64, TN__SCOPE_PARAM, 1, &shape);
  const tn__expr *x = tn__ir_load(ir, data, &zero);
  check_text(tn__ir_lt(ir, x, tn__ir_add_i(ir, x, 1)), "data[0] < data[0] + 1");
  check_text(tn__ir_div_i(ir, tn__ir_mul_i(ir, x, 4), 4), "data[0]*4/4");
  check_text(tn__ir_sub(ir, tn__ir_add(ir, x, x), x), "data[0]");
  const tn__expr *bounded = tn__ir_mod_i(ir, x, 8);
  assert_ptr_equal(tn__ir_div_i(ir, tn__ir_mul_i(ir, bounded, 4), 4), bounded);
}

static void test_floats_keep_their_special_values(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *x = tn__var_create(ir, "x", TN_F32, NULL, NULL)->self;
  const tn__expr *zero = tn__ir_float(ir, TN_F32, 0.0), *minus_zero = tn__ir_float(ir, TN_F32, -0.0);
  assert_ptr_not_equal(zero, minus_zero);
  assert_ptr_equal(tn__ir_add(ir, x, minus_zero), x);
  check_text(tn__ir_add(ir, x, zero), "x + 0.0f32");
  check_text(tn__ir_mul(ir, x, zero), "x*0.0f32");
  check_text(tn__ir_sub(ir, x, x), "x - x");
  check_text(tn__ir_eq(ir, x, x), "x == x");
  check_text(tn__ir_not(ir, tn__ir_lt(ir, x, zero)), "!(x < 0.0f32)");
  assert_ptr_equal(tn__ir_mul(ir, x, tn__ir_float(ir, TN_F32, 1.0)), x);
  check_text(tn__ir_add(ir, tn__ir_float(ir, TN_F32, 0.1), tn__ir_float(ir, TN_F32, 0.2)), "0.3f32");
}

static void test_bounds_and_strides(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *n = dim(ir, "n");
  const tn__var *i = tn__var_create(ir, "i", TN_I64, tn__ir_index(ir, 0), n), *j = loop_var(ir, "j", 8)->value.var;
  const tn__var *vars[2] = {i, j};
  const tn__expr *low, *high, *coefficients[2], *rest;
  const tn__expr *e = tn__ir_sub(ir, tn__ir_mul_i(ir, i->self, 4), tn__ir_add_i(ir, j->self, -3));
  assert_true(tn__ir_bounds_over(ir, e, vars, 2, &low, &high));
  check_text(low, "-4");
  check_text(high, "n*4 - 1");
  assert_true(tn__ir_affine_in(ir, e, vars, 2, coefficients, &rest));
  check_text(coefficients[0], "4");
  check_text(coefficients[1], "-1");
  check_text(rest, "3");
  assert_true(tn__ir_affine_in(ir, tn__ir_mul(ir, i->self, n), vars, 2, coefficients, &rest));
  check_text(coefficients[0], "n");
  assert_false(tn__ir_affine_in(ir, tn__ir_mul(ir, i->self, j->self), vars, 2, coefficients, &rest));
  int64_t stride;
  assert_true(tn__ir_stride_in(ir, e, i, &stride));
  assert_int_equal(stride, 4);
  assert_false(tn__ir_stride_in(ir, tn__ir_div_i(ir, i->self, 3), i, &stride));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_sums_are_ordered, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_split_by_range, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_quotient_and_remainder_recombine, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_symbolic_extents, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_comparisons_have_one_form, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_extremes_of_the_least_numbers, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_comparisons_with_quotients, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_loaded_values_may_wrap, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_floats_keep_their_special_values, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_bounds_and_strides, ir_set_up, ir_tear_down),
  };
  return cmocka_run_group_tests_name("ir_expr", tests, NULL, NULL);
}
