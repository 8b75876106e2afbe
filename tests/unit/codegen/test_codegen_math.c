/* Measures the generated elementary functions against libm in a wider type, and holds them to the bounds that
 * docs/numerics.md states. */
#include "unit/kernel.h"

#include <math.h>

typedef const tn__expr *ex;

typedef struct function_row {
  const char *name;
  tn__intrinsic intrinsic;
  double (*f64)(double);
  long double (*f80)(long double);
} function_row;

static double rsqrt_f64(double x) { return 1.0 / sqrt(x); }
static long double rsqrt_f80(long double x) { return 1.0L / sqrtl(x); }

static const function_row functions[] = {
    {"sqrt", TN__CALL_SQRT, sqrt, sqrtl},     {"rsqrt", TN__CALL_RSQRT, rsqrt_f64, rsqrt_f80},
    {"exp", TN__CALL_EXP, exp, expl},         {"expm1", TN__CALL_EXPM1, expm1, expm1l},
    {"log", TN__CALL_LOG, log, logl},         {"log1p", TN__CALL_LOG1P, log1p, log1pl},
    {"sin", TN__CALL_SIN, sin, sinl},         {"cos", TN__CALL_COS, cos, cosl},
    {"tan", TN__CALL_TAN, tan, tanl},         {"asin", TN__CALL_ASIN, asin, asinl},
    {"acos", TN__CALL_ACOS, acos, acosl},     {"atan", TN__CALL_ATAN, atan, atanl},
    {"sinh", TN__CALL_SINH, sinh, sinhl},     {"cosh", TN__CALL_COSH, cosh, coshl},
    {"tanh", TN__CALL_TANH, tanh, tanhl},     {"asinh", TN__CALL_ASINH, asinh, asinhl},
    {"acosh", TN__CALL_ACOSH, acosh, acoshl}, {"atanh", TN__CALL_ATANH, atanh, atanhl},
    {"erf", TN__CALL_ERF, erf, erfl},
};
static const function_row functions2[] = {{"pow", TN__CALL_POW, NULL, NULL}, {"atan2", TN__CALL_ATAN2, NULL, NULL}};

/* ---- the kernels ------------------------------------------------------------------------------------------------- */

typedef struct sample {
  const function_row *row;
  tn_dtype dtype;
  int64_t count;
  int arity;
  float around;         /* when not 0: the f32 numbers around this one */
  const double *second; /* when not NULL: the second argument, which the compiler knows */
  double least;         /* when not 0: f(max(x[i], least)), so that the compiler knows that it is above zero */
} sample;

/* y[i] = f(x[i]), f(x[i], z[i]) or f(x[i], *second) for a symbolic number of elements, so many lanes at a time. */
static tn_kernel compile_map(kernel_test *t, const sample *s, int lanes) {
  tn__ir *ir = t->ir;
  tn__var *n = tn__var_create(ir, "n", TN_I64, tn__ir_index(ir, 0), NULL);
  const tn__buffer *params[3];
  for (int i = 0; i < 3; i++) params[i] = tn__buffer_create(ir, &"xzy"[i], s -> dtype, TN__SCOPE_PARAM, 1, &n -> self);
  tn__var *block =
      tn__var_create(ir, "i", TN_I64, tn__ir_index(ir, 0), tn__ir_ceildiv(ir, n->self, tn__ir_index(ir, lanes)));
  tn__var *lane = tn__var_create(ir, "v", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, lanes));
  ex i = tn__ir_add(ir, tn__ir_mul_i(ir, block->self, lanes), lane->self), args[2];
  for (int k = 0; k < 2; k++) args[k] = tn__ir_load(ir, params[k], &i);
  if (s->second != NULL) args[1] = tn__ir_float(ir, s->dtype, *s->second);
  if (s->least != 0) args[0] = tn__ir_max(ir, args[0], tn__ir_float(ir, s->dtype, s->least));
  const tn__stmt *body = tn__ir_store(ir, params[2], &i, tn__ir_call(ir, s->row->intrinsic, s->dtype, args, s->arity));
  body = tn__ir_if(ir, tn__ir_lt(ir, i, n->self), body, NULL);
  body = tn__ir_for(ir, block, TN__LOOP_SERIAL, tn__ir_for(ir, lane, TN__LOOP_VECTORIZED, body));
  const tn__var *scalars[] = {n};
  return kernel_compile(t, tn__func_create(ir, "map", params, 2, params + 2, 1, scalars, 1, body));
}

/* ---- the arguments ----------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* A third: every exponent in turn, any fraction; a third: evenly between -20 and 20; a third: around multiples of pi/2
 * and 1. */
static double argument(uint64_t *state, int64_t index, bool wide) {
  uint64_t r = next_random(state);
  if (index % 3 == 0) {
    uint64_t bits = wide ? (r >> 12) | (uint64_t)(index / 3 % 2048) << 52 | (r & 1) << 63
                         : (r & 0x7fffff) | (uint64_t)(index / 3 % 256) << 23 | (r >> 63) << 31;
    union {
      uint64_t u64;
      double f64;
    } d = {.u64 = bits};
    union {
      uint32_t u32;
      float f32;
    } f = {.u32 = (uint32_t)bits};
    return wide ? d.f64 : (double)f.f32;
  }
  double even = (double)(r >> 11) * 0x1p-53, near = (double)(int64_t)(r % 4001 - 2000);
  if (index % 3 == 1) return even * 40 - 20;
  return (index % 2 ? near * 1.5707963267948966 : 1) + (even - 0.5) * (index % 5 == 0 ? 1e-7 : 1e-3);
}

static const double specials[] = {0.0,
                                  -0.0,
                                  1.0,
                                  -1.0,
                                  0.5,
                                  -0.5,
                                  2.0,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  3.0,
                                  -3.0,
                                  0x1p-149,
                                  -0x1p-149,
                                  0x1p-126,
                                  0x1.fffffep127,
                                  -0x1.fffffep127,
                                  1e10,
                                  1e22,
                                  88.7,
                                  -88.0,
                                  103.9,
                                  -103.9,
                                  1e-8,
                                  -1e-8,
                                  17.0,
                                  -17.0,
                                  4.0,
                                  0x1p-1074,
                                  0x1.fffffffffffffp1023,
                                  709.7,
                                  -745.1,
                                  710.4,
                                  1e300,
                                  0x1p-1022,
                                  1e5,
                                  2.5,
                                  -2.5};
enum { SPECIALS = sizeof(specials) / sizeof(specials[0]) };

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* |got - want| in units of the last place that `want` has in the type; 0 for NaN and zeros that agree, infinity for
 * those that do not. */
static double ulps(double got, long double want, bool wide) {
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  if (want == 0) return got == 0 && !signbit(got) == !signbit(want) ? 0 : INFINITY;
  double nearest = wide ? (double)want : (double)(float)want;
  if (isinf(nearest))
    return got == nearest ? 0 : isinf(got) || isnan(got) ? INFINITY : 1; /* the largest finite number is one off */
  int exponent;
  frexpl(want, &exponent);
  int lowest = wide ? -1074 : -149, place = exponent - (wide ? 53 : 24);
  if (isinf(got) || isnan(got)) {
    double largest = wide ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
    return isinf(got) && fabsl(want) >= largest ? 1 : INFINITY;
  }
  return (double)fabsl(((long double)got - want) / ldexpl(1.0L, place < lowest ? lowest : place));
}

typedef struct bounds {
  double f32, f64;
} bounds;

/* The row "| `name` | f32 | f64 |" of the page. */
static bounds documented(const char *name) {
  FILE *page = fopen(TN_TEST_ROOT "/docs/numerics.md", "r");
  assert_non_null(page);
  char line[512], key[64];
  bounds found = {0, 0};
  snprintf(key, sizeof(key), "| `%s` |", name);
  while (fgets(line, sizeof(line), page) != NULL)
    if (strncmp(line, key, strlen(key)) == 0) sscanf(line + strlen(key), "%lf | %lf", &found.f32, &found.f64);
  fclose(page);
  if (found.f32 <= 0 || found.f64 <= 0) fail_msg("docs/numerics.md states no bounds for %s", name);
  return found;
}

static long double reference(const sample *s, double x, double z) {
  bool wide = s->dtype == TN_F64;
  if (s->least != 0 && x < s->least) x = s->least;
  if (s->row->intrinsic == TN__CALL_POW) return wide ? powl(x, z) : (long double)pow(x, z);
  if (s->row->intrinsic == TN__CALL_ATAN2) return wide ? atan2l(x, z) : (long double)atan2(x, z);
  return wide ? s->row->f80(x) : (long double)s->row->f64(x);
}

/* One element at a time gives the same bits as in vectors. */
static void check_lanes(kernel_test *t, const sample *s, void *const *in, const void *out, size_t bytes) {
  void *single = kernel_alloc(bytes);
  tn_kernel kernel = compile_map(t, s, 1);
  int32_t result = kernel_run_anywhere(t, kernel, (void *[]){in[0], in[1], single}, 3, bytes, &s->count, 1);
  assert_int_equal(result, TN_KERNEL_OK);
  size_t size = tn_dtype_size(s->dtype);
  for (int64_t i = 0; i < s->count; i++) {
    double a = s->dtype == TN_F64 ? ((const double *)out)[i] : (double)((const float *)out)[i];
    bool same = memcmp((const char *)out + (size_t)i * size, (const char *)single + (size_t)i * size, size) == 0;
    if (!same && !isnan(a))
      fail_msg("%s: element %d differs between a vector's lane and a scalar", s->row->name, (int)i);
  }
  kernel_free(single, bytes);
}

/* The f32 numbers next to each other around the sample's place. */
static void fill_around(const sample *s, void *const *in) {
  uint32_t middle;
  memcpy(&middle, &s->around, sizeof(middle));
  for (int64_t i = 0; i < s->count; i++) {
    uint32_t bits = middle + (uint32_t)(i - s->count / 2);
    memcpy((float *)in[0] + i, &bits, sizeof(bits));
    ((float *)in[1])[i] = 0;
  }
}

static void fill(const sample *s, void *const *in) {
  if (s->around != 0) {
    fill_around(s, in);
    return;
  }
  bool wide = s->dtype == TN_F64;
  uint64_t state = 42;
  for (int64_t i = 0; i < s->count; i++)
    for (int k = 0; k < 2; k++) {
      int64_t index = k == 0 ? i : i / 3 + i; /* pairs of kinds, not one with itself */
      double x =
          i < SPECIALS * SPECIALS ? specials[k == 0 ? i % SPECIALS : i / SPECIALS] : argument(&state, index, wide);
      if (s->arity == 2 && k == 1 && i % 2 == 0 && s->row->intrinsic == TN__CALL_POW)
        x = x > 50 || x < -50 ? round(fmod(x, 50)) : x;
      if (s->second != NULL && k == 1) x = *s->second;
      if (wide)
        ((double *)in[k])[i] = x;
      else
        ((float *)in[k])[i] = (float)x;
    }
}

static void measure(kernel_test *t, void *user) {
  const sample *s = user;
  bool wide = s->dtype == TN_F64;
  size_t bytes = (size_t)s->count * (wide ? 8 : 4);
  void *in[2] = {kernel_alloc(bytes), kernel_alloc(bytes)}, *out = kernel_alloc(bytes);
  fill(s, in);
  tn_kernel kernel = compile_map(t, s, 16);
  assert_int_equal(kernel_run_anywhere(t, kernel, (void *[]){in[0], in[1], out}, 3, bytes, &s->count, 1), TN_KERNEL_OK);
  check_lanes(t, s, in, out, bytes);
  double worst = 0, at[2] = {0, 0}, gave = 0;
  for (int64_t i = 0; i < s->count; i++) {
    double x = wide ? ((double *)in[0])[i] : (double)((float *)in[0])[i];
    double z = wide ? ((double *)in[1])[i] : (double)((float *)in[1])[i];
    double got = wide ? ((double *)out)[i] : (double)((float *)out)[i];
    double error = ulps(got, reference(s, x, z), wide);
    if (error > worst) {
      worst = error;
      at[0] = x;
      at[1] = z;
      gave = got;
    }
  }
  bounds bound = documented(s->row->name);
  print_message("%-6s %s %.3f ulp at %a, %a (%s)\n", s->row->name, wide ? "f64" : "f32", worst, at[0], at[1],
                t->target.name);
  if (!(worst <= (wide ? bound.f64 : bound.f32)))
    fail_msg("%s of %s: %.3f ulp at (%a, %a), got %a, want %La", s->row->name, tn_dtype_name(s->dtype), worst, at[0],
             at[1], gave, reference(s, at[0], at[1]));
  for (int k = 0; k < 2; k++) kernel_free(in[k], bytes);
  kernel_free(out, bytes);
}

/* Exponents that products and roots answer, and others. */
static const double exponents[] = {1.5,   -1.5,    2.5, -2.5, 3.5,  -3.5, 0.25, 2,   4,   5,  -4,
                                   6,     7,       9,   -7,   15,   10,   16,   -16, 2.4, 13, 0.4166666567325592,
                                   -0.75, 1.0 / 3, 2.2, -3.9, 3.75, 4.25, 0.01};
enum { EXPONENTS = sizeof(exponents) / sizeof(exponents[0]) };

/* Second arguments that the compiler knows. */
static void measure_known(const char *target, tn_dtype dtype) {
  for (size_t i = 0; i < sizeof(functions2) / sizeof(functions2[0]); i++)
    for (size_t k = 0; k < SPECIALS; k++) {
      sample s = {.row = &functions2[i], .dtype = dtype, .count = 1009, .arity = 2, .second = &specials[k]};
      if (dtype == TN_F64 || isnan(specials[k]) || (double)(float)specials[k] == specials[k])
        kernel_with(target, measure, &s);
    }
}

static void measure_exponents(const char *target, tn_dtype dtype) {
  for (size_t k = 0; k < EXPONENTS; k++) {
    double power = dtype == TN_F32 ? (double)(float)exponents[k] : exponents[k];
    sample s = {.row = &functions2[0], .dtype = dtype, .count = 100003, .arity = 2, .second = &power};
    kernel_with(target, measure, &s);
  }
}

static void measure_all(const char *target, tn_dtype dtype, int64_t count) {
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
    kernel_with(target, measure, &(sample){.row = &functions[i], .dtype = dtype, .count = count, .arity = 1});
  for (size_t i = 0; i < sizeof(functions2) / sizeof(functions2[0]); i++)
    kernel_with(target, measure, &(sample){.row = &functions2[i], .dtype = dtype, .count = count, .arity = 2});
}

/* Reciprocal roots of what is known to be above zero: no branch looks for other numbers. */
static void measure_roots(const char *target) {
  static const double least[] = {0x1p-126, 0.01};
  for (int i = 0; i < 2; i++) {
    sample s = {.row = &functions[1], .dtype = TN_F32, .count = 100003, .arity = 1, .least = least[i]};
    kernel_with(target, measure, &s);
    s.dtype = TN_F64;
    kernel_with(target, measure, &s);
  }
}

/* Where `./dev bench numerics` found the largest errors, with and without fused multiply-add. */
static const struct {
  const char *name;
  float x;
} worst_f32[] = {
    {"erf", -0.223778367F},   {"erf", 0.111125767F},    {"tanh", 0.554013729F},     {"tanh", -0.551106989F},
    {"expm1", 0.382271141F},  {"expm1", 0.389603347F},  {"rsqrt", 1.18276583e-38F}, {"exp", -5.8472681F},
    {"exp", -71.0092697F},    {"log", 1.4039501F},      {"sin", 2.47092439e+20F},   {"sin", 1.32303387e+26F},
    {"cos", 2.03778736e+11F}, {"cos", 2.36707902e+30F},
};

static void measure_worst(const char *target) {
  for (size_t i = 0; i < sizeof(worst_f32) / sizeof(worst_f32[0]); i++) {
    sample s = {.dtype = TN_F32, .count = 8191, .arity = 1, .around = worst_f32[i].x};
    for (size_t k = 0; k < sizeof(functions) / sizeof(functions[0]); k++)
      if (strcmp(functions[k].name, worst_f32[i].name) == 0) s.row = &functions[k];
    assert_non_null(s.row);
    kernel_with(target, measure, &s);
  }
}

static void f32_native(void **state) { measure_all(NULL, TN_F32, 300007); }
static void f32_worst(void **state) { measure_worst(NULL); }
static void roots_native(void **state) { measure_roots(NULL); }
static void roots_v3(void **state) {
  if (tn__host_arch() != TN__ARCH_X86_64) skip_because("code for x86-64-v3 does not run here");
  measure_roots("x86-64-v3");
}
static void f64_native(void **state) { measure_all(NULL, TN_F64, 100003); }
static void known_native(void **state) {
  measure_known(NULL, TN_F32);
  measure_known(NULL, TN_F64);
  measure_exponents(NULL, TN_F32);
  measure_exponents(NULL, TN_F64);
}

/* Without fused multiply-add and without instructions that round to integers. */
static void baseline(void **state) {
  if (tn__host_arch() != TN__ARCH_X86_64) skip_because("code for baseline x86-64 does not run here");
  measure_worst("x86-64");
  measure_all("x86-64", TN_F32, 30011);
  measure_all("x86-64", TN_F64, 30011);
  measure_exponents("x86-64", TN_F32);
}

#ifdef TN_TEST_RUNNER
static void emulated_aarch64(void **state) {
  if (tn__host_arch() == TN__ARCH_AARCH64) skip_because("AArch64 needs no emulator here: it was measured natively");
  measure_worst("aarch64");
  measure_all("aarch64", TN_F32, 30011);
  measure_all("aarch64", TN_F64, 30011);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(f32_native),       cmocka_unit_test(f32_worst), cmocka_unit_test(f64_native),
      cmocka_unit_test(known_native),     cmocka_unit_test(baseline),  cmocka_unit_test(roots_native),
      cmocka_unit_test(roots_v3),
#ifdef TN_TEST_RUNNER
      cmocka_unit_test(emulated_aarch64),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
