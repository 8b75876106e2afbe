/* Quotients by numbers that are known are those of a division, to the last bit: of every fraction for some divisors, of
 * many numbers of all sizes for many divisors, and of all narrow integers. */
#include <math.h>

#include "unit/kernel.h"
#include "unit/schedule_run.h"
#include "unit/te_text_check.h"

enum { FRACTIONS = 1 << 23, NUMBERS = 40009 };

static uint64_t next(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 32;
}

typedef struct division {
  char text[160];
  float by;
  int64_t count;
  const void *from;
  const float *dividends;
} division;

static void compare(kernel_test *t, void *user) {
  const division *d = user;
  tn__te_source *source;
  tn__te *te;
  check_ok(tn__te_parse(&t->arena, "t.te", d->text, strlen(d->text), &source));
  check_ok(tn__te_declare(source, 0, NULL, 0, t->ir, &te));
  tn__schedule *s = default_schedule(te, &t->target, NULL);
  tn_kernel kernel = kernel_compile(t, tn__ir_lower_for_codegen(t->ir, tn__schedule_func(s), NULL));
  size_t bytes = (size_t)d->count * sizeof(float);
  float *out = kernel_alloc(bytes);
  const union {
    const void *in;
    void *out;
  } from = {.in = d->from};
  assert_int_equal(kernel_run(kernel, (void *[]){from.out, out, NULL}, NULL), TN_KERNEL_OK);
  for (int64_t i = 0; i < d->count; i++) {
    float want = d->dividends[i] / d->by;
    if (memcmp(&out[i], &want, sizeof(want)) != 0 && !(isnan(want) && isnan(out[i])))
      fail_msg("%s: %a / %a is %a, not %a", t->target.name, (double)d->dividends[i], (double)d->by, (double)want,
               (double)out[i]);
  }
  kernel_free(out, bytes);
}

static void divide(division *d, const char *type, const char *cast) {
  snprintf(d->text, sizeof(d->text), "kernel f(X: %s[%d]) -> Y: f32[%d] { Y[i] = %s(X[i]) / (%.9g) }", type,
           (int)d->count, (int)d->count, cast, (double)d->by);
  kernel_with(NULL, compare, d);
  if (tn__host_arch() == TN__ARCH_X86_64) kernel_with("x86-64-v3", compare, d);
}

static const float divisors[] = {255, 12.92F, 1.055F, 3, 7, 10, 0.1F, -1e-3F, 0x1.fffffep3F, 0x1.000002p0F};
enum { DIVISORS = sizeof(divisors) / sizeof(divisors[0]) };

static void every_fraction(void **state) {
  float *x = kernel_alloc(FRACTIONS * sizeof(float));
  for (int i = 0; i < FRACTIONS; i++) x[i] = 1 + (float)i * 0x1p-23F;
  for (int k = 0; k < DIVISORS; k++)
    divide(&(division){.by = divisors[k], .count = FRACTIONS, .from = x, .dividends = x}, "f32", "");
  kernel_free(x, FRACTIONS * sizeof(float));
}

static void all_sizes(void **state) {
  static const float special[] = {0, -0.0F, INFINITY, -INFINITY, NAN, 0x1p-149F, -0x1p-126F, 0x1.fffffep127F, 0x1p-40F};
  float *x = kernel_alloc(NUMBERS * sizeof(float));
  uint64_t seed = 3;
  for (int i = 0; i < NUMBERS; i++) {
    uint32_t bits = (uint32_t)next(&seed);
    memcpy(&x[i], &bits, sizeof(bits));
    if (i % 50 < 9) x[i] = special[i % 50];
  }
  for (int k = 0; k < 60; k++) {
    float by = k < DIVISORS ? divisors[k] : ldexpf((float)(1 + next(&seed) % 0xffffff), -(int)(next(&seed) % 36));
    divide(&(division){.by = by, .count = NUMBERS, .from = x, .dividends = x}, "f32", "");
  }
  kernel_free(x, NUMBERS * sizeof(float));
}

static void narrow_integers(void **state) {
  static const char *const types[] = {"u8", "i8", "u16", "i16"};
  for (int t = 0; t < 4; t++) {
    int count = t < 2 ? 256 : 1 << 16, least = t % 2 == 0 ? 0 : -count / 2;
    size_t size = t < 2 ? 1 : 2;
    char *from = kernel_alloc((size_t)count * size);
    float *x = kernel_alloc((size_t)count * sizeof(float));
    for (int i = 0; i < count; i++) {
      int value = least + i;
      memcpy(from + (size_t)i * size, &value, size); /* the low bytes come first */
      x[i] = (float)value;
    }
    for (int k = 0; k < DIVISORS; k++)
      divide(&(division){.by = divisors[k], .count = count, .from = from, .dividends = x}, types[t], "f32");
    kernel_free(from, (size_t)count * size);
    kernel_free(x, (size_t)count * sizeof(float));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_fraction), cmocka_unit_test(all_sizes),
                                     cmocka_unit_test(narrow_integers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
