/* Inputs of kernels from a seed: small whole numbers, whose sums are exact in any order. What makes a bundle and what
 * runs it make the same; needs no other file. Also how results are compared. */
#ifndef TENON_TESTS_CUDA_INPUTS_H
#define TENON_TESTS_CUDA_INPUTS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct element_type {
  const char *name;
  int bytes, span;
} element_type;

static inline const element_type *type_named(const char *name) {
  static const element_type types[] = {{"bool", 1, 1}, {"i8", 1, 4},  {"i16", 2, 4}, {"i32", 4, 4}, {"i64", 8, 4},
                                       {"u8", 1, 4},   {"u16", 2, 4}, {"u32", 4, 4}, {"u64", 8, 4}, {"f16", 2, 2},
                                       {"bf16", 2, 1}, {"f32", 4, 4}, {"f64", 8, 4}};
  for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strcmp(types[i].name, name) == 0) return &types[i];
  return 0;
}

/* Whole numbers up to 4 in size. */
static inline void store_number(const element_type *t, void *data, int64_t at, int number) {
  static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
  int size = number < 0 ? -number : number;
  uint16_t sign = number < 0 ? 0x8000 : 0;
  if (strcmp(t->name, "f32") == 0) {
    ((float *)data)[at] = (float)number;
  } else if (strcmp(t->name, "f64") == 0) {
    ((double *)data)[at] = number;
  } else if (strcmp(t->name, "f16") == 0) {
    ((uint16_t *)data)[at] = halves[size] | sign;
  } else if (strcmp(t->name, "bf16") == 0) {
    float f = (float)number;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    ((uint16_t *)data)[at] = (uint16_t)(bits >> 16);
  } else if (strcmp(t->name, "bool") == 0) {
    ((uint8_t *)data)[at] = number != 0;
  } else {
    int64_t whole = t->name[0] == 'u' ? size : number;
    memcpy((char *)data + at * t->bytes, &whole, (size_t)t->bytes); /* the low bytes come first */
  }
}

static inline void fill_input(const element_type *t, void *data, int64_t count, uint64_t *seed) {
  for (int64_t i = 0; i < count; i++) {
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    store_number(t, data, i, (int)((*seed >> 40) % (uint64_t)(2 * t->span + 1)) - t->span);
  }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static inline double number_at(const element_type *t, const void *data, int64_t at) {
  const char *p = (const char *)data + at * t->bytes;
  uint16_t half;
  uint32_t bits;
  int64_t whole = 0;
  float f;
  double d;
  if (strcmp(t->name, "f64") == 0) return memcpy(&d, p, 8), d;
  if (strcmp(t->name, "f32") == 0) return memcpy(&f, p, 4), (double)f;
  if (t->name[0] == 'b' && t->name[1] == 'f') {
    memcpy(&half, p, 2);
    bits = (uint32_t)half << 16;
    return memcpy(&f, &bits, 4), (double)f;
  }
  if (t->name[0] == 'f') {
    memcpy(&half, p, 2);
    int exponent = half >> 10 & 31, fraction = half & 1023;
    d = exponent == 31  ? (fraction ? NAN : INFINITY)
        : exponent == 0 ? ldexp(fraction, -24)
                        : ldexp(fraction + 1024, exponent - 25);
    return half & 0x8000 ? -d : d;
  }
  memcpy(&whole, p, (size_t)t->bytes);
  return (double)whole;
}

/* Within `tolerance` of floats, relative. */
static inline int is_same(const element_type *t, double got, double want, double tolerance) {
  if (isnan(want)) return isnan(got);
  if (got == want) return 1;
  return strchr(t->name, 'f') != NULL && fabs(got - want) <= tolerance * fmax(fabs(want), 1e-3);
}

#endif
