#include "base/dtype.h"

#include <math.h>
#include <string.h>

#include "unit/check.h"

static const tn_dtype all[] = {TN_I8,  TN_I16, TN_I32, TN_I64, TN_U8,   TN_U16, TN_U32,
                               TN_U64, TN_F16, TN_F32, TN_F64, TN_BF16, TN_BOOL};
enum { ALL = sizeof(all) / sizeof(all[0]) };

static void names_and_sizes(void **state) {
  static const char *const names[] = {"i8",  "i16", "i32", "i64", "u8",   "u16", "u32",
                                      "u64", "f16", "f32", "f64", "bf16", "bool"};
  static const size_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 1};
  for (int i = 0; i < ALL; i++) {
    assert_string_equal(tn_dtype_name(all[i]), names[i]);
    assert_int_equal(tn_dtype_parse(names[i]), all[i]);
    assert_int_equal(tn_dtype_size(all[i]), sizes[i]);
  }
  assert_string_equal(tn_dtype_name(TN_DTYPE_INVALID), "invalid");
  assert_int_equal(tn_dtype_parse("invalid"), TN_DTYPE_INVALID);
  assert_int_equal(tn_dtype_parse("f8"), TN_DTYPE_INVALID);
  assert_int_equal(tn_dtype_size(TN_DTYPE_INVALID), 0);
}

static void kinds(void **state) {
  assert_int_equal(tn__dtype_bits(TN_BOOL), 1);
  assert_int_equal(tn__dtype_bits(TN_BF16), 16);
  for (int i = 0; i < ALL; i++) {
    char kind = tn_dtype_name(all[i])[0];
    bool is_bool = all[i] == TN_BOOL;
    assert_int_equal(tn__dtype_is_signed(all[i]), kind == 'i');
    assert_int_equal(tn__dtype_is_unsigned(all[i]), kind == 'u');
    assert_int_equal(tn__dtype_is_int(all[i]), kind == 'i' || kind == 'u');
    assert_int_equal(tn__dtype_is_float(all[i]), kind == 'f' || (kind == 'b' && !is_bool));
  }
  assert_false(tn__dtype_is_int(TN_DTYPE_INVALID));
}

typedef struct narrow_format {
  const char *name;
  uint16_t (*from_f32)(float);
  uint16_t (*from_f64)(double);
  float (*to_f32)(uint16_t);
  uint16_t infinity;
} narrow_format;
static const narrow_format formats[] = {{"f16", tn__f32_to_f16, tn__f64_to_f16, tn__f16_to_f32, 0x7c00},
                                        {"bf16", tn__f32_to_bf16, tn__f64_to_bf16, tn__bf16_to_f32, 0x7f80}};

static void every_pattern_comes_back(void **state) {
  for (int f = 0; f < 2; f++) {
    for (int bits = 0; bits <= 0xffff; bits++) {
      float value = formats[f].to_f32((uint16_t)bits);
      uint16_t by_f32 = formats[f].from_f32(value), by_f64 = formats[f].from_f64((double)value);
      assert_int_equal(by_f32, by_f64);
      if ((bits & 0x7fff) > formats[f].infinity) {
        assert_true(isnan(value));
        assert_true((by_f32 & 0x7fff) > formats[f].infinity);
        assert_int_equal(by_f32 & 0x8000, bits & 0x8000);
      } else {
        assert_int_equal(by_f32, bits);
      }
    }
  }
}

/* Between two neighbours of a format: the midpoint goes to the even one, anything else to the nearer one. */
static void rounds_to_nearest_even(void **state) {
  for (int f = 0; f < 2; f++) {
    for (int bits = 0; bits < formats[f].infinity; bits++) {
      double low = (double)formats[f].to_f32((uint16_t)bits);
      double high = bits + 1 == formats[f].infinity ? low + (low - (double)formats[f].to_f32((uint16_t)(bits - 1)))
                                                    : (double)formats[f].to_f32((uint16_t)(bits + 1));
      double middle = low + (high - low) / 2;
      uint16_t even = (uint16_t)(bits % 2 == 0 ? bits : bits + 1);
      for (int sign = 0; sign < 2; sign++) {
        double s = sign == 0 ? 1.0 : -1.0;
        int top = sign << 15;
        assert_int_equal(formats[f].from_f64(s * middle), top | even);
        assert_int_equal(formats[f].from_f64(s * nextafter(middle, INFINITY)), top | (bits + 1));
        assert_int_equal(formats[f].from_f64(s * nextafter(middle, 0)), top | bits);
      }
    }
    assert_int_equal(formats[f].from_f64(1e300), formats[f].infinity);
    assert_int_equal(formats[f].from_f64(-INFINITY), formats[f].infinity | 0x8000);
    assert_int_equal(formats[f].from_f64(5e-324), 0);
    assert_int_equal(formats[f].from_f64(-5e-324), 0x8000);
  }
}

static void known_values(void **state) {
  assert_int_equal(tn__f32_to_f16(1.0f), 0x3c00);
  assert_int_equal(tn__f32_to_f16(-2.0f), 0xc000);
  assert_int_equal(tn__f32_to_f16(65504.0f), 0x7bff);
  assert_int_equal(tn__f32_to_f16(65519.996f), 0x7bff);
  assert_int_equal(tn__f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(tn__f32_to_f16(0x1p-24f), 0x0001);
  assert_int_equal(tn__f32_to_bf16(1.0f), 0x3f80);
  assert_int_equal(tn__f32_to_bf16(3.0e38f), 0x7f62);
  /* Through f32 this would round twice: first up to the midpoint, then to even. */
  assert_int_equal(tn__f64_to_f16(1.0 + 0x1p-11 + 0x1p-40), 0x3c01);
  assert_int_equal(tn__f64_to_bf16(1.0 + 0x1p-8 - 0x1p-40), 0x3f80);
}

static void elements_load_and_store(void **state) {
  uint64_t cells[4];
  for (int i = 0; i < ALL; i++) {
    memset(cells, 0, sizeof(cells));
    tn__store_i64(all[i], cells, 2, 1);
    assert_int_equal(tn__load_i64(all[i], cells, 2), 1);
    assert_true(tn__load_f64(all[i], cells, 2) == 1.0);
    tn__store_f64(all[i], cells, 2, 0.0);
    assert_int_equal(tn__load_i64(all[i], cells, 2), 0);
    if (all[i] == TN_BOOL) continue;
    tn__store_f64(all[i], cells, 1, 100.0);
    assert_true(tn__load_f64(all[i], cells, 1) == 100.0);
    assert_int_equal(tn__load_i64(all[i], cells, 0), 0);
    assert_int_equal(tn__load_i64(all[i], cells, 2), 0);
  }
}

static void conversions_at_the_borders(void **state) {
  uint64_t cell = 0;
  tn__store_i64(TN_U8, &cell, 0, 300);
  assert_int_equal(tn__load_i64(TN_U8, &cell, 0), 44);
  tn__store_i64(TN_I8, &cell, 0, 200);
  assert_int_equal(tn__load_i64(TN_I8, &cell, 0), -56);
  tn__store_f64(TN_I32, &cell, 0, -3.9);
  assert_int_equal(tn__load_i64(TN_I32, &cell, 0), -3);
  tn__store_f64(TN_I64, &cell, 0, 1e300);
  assert_true(tn__load_i64(TN_I64, &cell, 0) == INT64_MAX);
  tn__store_f64(TN_I64, &cell, 0, (double)NAN);
  assert_true(tn__load_i64(TN_I64, &cell, 0) == 0);
  tn__store_f64(TN_U64, &cell, 0, 0x1.8p63);
  assert_true(cell == UINT64_C(3) << 62);
  assert_true(tn__load_f64(TN_U64, &cell, 0) == 0x1.8p63);
  tn__store_f64(TN_BOOL, &cell, 0, 0.5);
  assert_int_equal(tn__load_i64(TN_BOOL, &cell, 0), 1);
  double big = -0x1p63;
  assert_true(tn__load_i64(TN_F64, &big, 0) == INT64_MIN);
  /* 2^60 + 2^52 + 1 is above the midpoint of two neighbouring bf16 values; as an f64 it would be just that midpoint. */
  uint16_t half = 0;
  tn__store_i64(TN_BF16, &half, 0, (INT64_C(1) << 60) + (INT64_C(1) << 52) + 1);
  assert_int_equal(half, tn__f32_to_bf16(0x1p60f) + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_sizes),
      cmocka_unit_test(kinds),
      cmocka_unit_test(every_pattern_comes_back),
      cmocka_unit_test(rounds_to_nearest_even),
      cmocka_unit_test(known_values),
      cmocka_unit_test(elements_load_and_store),
      cmocka_unit_test(conversions_at_the_borders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
