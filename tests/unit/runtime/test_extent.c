/* Which memory strided tensors lie in, and whether they share it: against looking at every byte, and at the ends of
 * what numbers and addresses can say. */
#include <stdlib.h>
#include <string.h>

#include "runtime/extent.h"
#include "unit/check.h"

enum { MOST_BYTES = 4096, MIDDLE = MOST_BYTES / 2 };

static uint64_t next(uint64_t *seed) {
  return *seed = *seed * 6364136223846793005u + 1442695040888963407u, *seed >> 33;
}

static int below(uint64_t *seed, int end) { return (int)(next(seed) % (uint64_t)end); }

typedef struct strided {
  DLTensor tensor;
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
} strided;

/* Up to four dimensions, whose elements stay within a page of 4096 bytes. */
static void make(strided *s, char *page, uint64_t *seed) {
  static const tn_dtype types[4] = {TN_U8, TN_F16, TN_F32, TN_I64};
  int rank = below(seed, 5);
  *s = (strided){.tensor = {.data = page + MIDDLE - 32 + below(seed, 64),
                            .device = {kDLCPU, 0},
                            .ndim = rank,
                            .dtype = tn_dtype_to_dl(types[below(seed, 4)]),
                            .shape = s->shape,
                            .strides = s->strides}};
  for (int i = 0; i < rank; i++) {
    s->shape[i] = below(seed, 20) == 0 ? 0 : 1 + below(seed, 4);
    s->strides[i] = below(seed, 3) == 0 ? below(seed, 41) - 20 : (1 + below(seed, 4)) * (1 + below(seed, 4));
    if (below(seed, 4) == 0) s->strides[i] = -s->strides[i];
  }
}

/* How often each byte is an element's. */
static void count_bytes(const strided *s, const char *page, uint8_t *counts) {
  int64_t index[TN_MAX_RANK] = {0}, size = (int64_t)tn_dtype_size(tn_dtype_of_dl(s->tensor.dtype));
  memset(counts, 0, MOST_BYTES);
  for (int64_t left = tn_element_count(s->tensor.ndim, s->shape); left > 0; left--) {
    int64_t at = (char *)s->tensor.data - page;
    for (int i = 0; i < s->tensor.ndim; i++) at += index[i] * s->strides[i] * size;
    assert_true(at >= 0 && at + size <= MOST_BYTES);
    for (int64_t i = 0; i < size; i++) counts[at + i]++;
    for (int i = s->tensor.ndim - 1; i >= 0 && ++index[i] == s->shape[i]; i--) index[i] = 0;
  }
}

static void sharing_is_what_the_bytes_say(void **state) {
  static char page[MOST_BYTES];
  static uint8_t mine[MOST_BYTES], theirs[MOST_BYTES];
  uint64_t seed = 13;
  int shared = 0, apart = 0, folded = 0, flat = 0;
  for (int round = 0; round < 20000; round++) {
    strided a, b;
    make(&a, page, &seed), make(&b, page, &seed);
    count_bytes(&a, page, mine), count_bytes(&b, page, theirs);
    tn__extent x, y;
    assert_true(tn__extent_of(&a.tensor, &x) && tn__extent_of(&b.tensor, &y));
    bool common = false, twice = false, zero = false;
    int64_t first = -1, last = -1;
    for (int i = 0; i < MOST_BYTES; i++) {
      common = common || (mine[i] > 0 && theirs[i] > 0);
      twice = twice || mine[i] > 1;
      if (mine[i] > 0) last = i, first = first < 0 ? i : first;
    }
    assert_int_equal(x.bytes, first < 0 ? 0 : last + 1 - first);
    if (first >= 0) assert_ptr_equal((char *)x.low, page + first);
    assert_int_equal(tn__rt_extents_share(&x, &y), common);
    assert_int_equal(tn__rt_extents_share(&y, &x), common);
    for (int i = 0; i < a.tensor.ndim; i++) zero = zero || (a.strides[i] == 0 && a.shape[i] > 1);
    if (!zero) assert_int_equal(tn__extent_folds(&x), twice);
    common ? shared++ : apart++;
    twice ? folded++ : flat++;
  }
  assert_true(shared > 2000 && apart > 500 && folded > 500 && flat > 2000);
}

static DLTensor of_floats(float *data, int rank, int64_t *shape, int64_t *strides) {
  return (DLTensor){.data = data,
                    .device = {kDLCPU, 0},
                    .ndim = rank,
                    .dtype = tn_dtype_to_dl(TN_F32),
                    .shape = shape,
                    .strides = strides};
}

/* Views of large arrays are decided, not given up: an image's channels, tiles, rows backwards. */
static void large_views_are_decided(void **state) {
  float *base = (float *)(uintptr_t)0x100000000; /* nothing is read */
  int64_t shape[4] = {500, 600, 700, 8}, strides[4] = {12 * 6400 * 7000 * 16L, 4 * 7000 * 16, 5 * 16, 2};
  tn__extent even, odd;
  DLTensor a = of_floats(base, 4, shape, strides), b = of_floats(base + 1, 4, shape, strides);
  assert_true(tn__extent_of(&a, &even) && tn__extent_of(&b, &odd));
  assert_false(tn__rt_extents_share(&even, &odd));
  assert_true(tn__rt_extents_share(&even, &even));
  assert_false(tn__extent_folds(&even));
  int64_t back[4] = {strides[0], -strides[1], strides[2], -strides[3]};
  b = of_floats(base + 599 * strides[1] + 7 * strides[3], 4, shape, back);
  assert_true(tn__extent_of(&b, &odd));
  assert_ptr_equal((void *)odd.low, base);
  assert_true(tn__rt_extents_share(&even, &odd));
  b.byte_offset = 3;
  assert_true(tn__extent_of(&b, &odd) && tn__rt_extents_share(&even, &odd));
  b.byte_offset = 4;
  assert_true(tn__extent_of(&b, &odd) && !tn__rt_extents_share(&even, &odd));
}

/* The answer to what would take too long is that memory is shared. */
static void the_search_ends(void **state) {
  int64_t shape[16], strides[16];
  for (int i = 0; i < 16; i++) shape[i] = 3, strides[i] = 2 * (1000003 + 7919L * i * i);
  float *base = (float *)(uintptr_t)0x100000000;
  DLTensor a = of_floats(base, 16, shape, strides);
  tn__extent x, y;
  assert_true(tn__extent_of(&a, &x));
  a.data = base + 1; /* odd places: never an even one */
  assert_true(tn__extent_of(&a, &y));
  assert_true(tn__rt_extents_share(&x, &y));
  assert_true(tn__extent_folds(&x));
}

static void numbers_do_not_wrap(void **state) {
  float value;
  int64_t shape[2] = {3, 4}, strides[2] = {INT64_MAX / 4, 1}, huge[3] = {0, INT64_MAX / 2, 8}, dense[3] = {1, 8, 1};
  tn__extent e;
  DLTensor t = of_floats(&value, 2, shape, strides);
  assert_false(tn__extent_of(&t, &e));
  strides[0] = INT64_MIN;
  assert_false(tn__extent_of(&t, &e));
  strides[0] = INT64_MAX / 16, strides[1] = -strides[0];
  assert_false(tn__extent_of(&t, &e));
  strides[0] = 4, strides[1] = 1;
  t.byte_offset = UINT64_MAX - 8;
  assert_false(tn__extent_of(&t, &e));
  t.byte_offset = 0, t.data = (void *)(uintptr_t)24; /* below the first address */
  strides[0] = -4;
  assert_false(tn__extent_of(&t, &e));
  t.data = (void *)(UINTPTR_MAX - 40), t.strides = NULL; /* beyond the last */
  assert_false(tn__extent_of(&t, &e));
  /* What has no elements lies nowhere, whatever it says. */
  t = of_floats(NULL, 3, huge, dense);
  t.byte_offset = UINT64_MAX, dense[2] = INT64_MIN;
  assert_true(tn__extent_of(&t, &e));
  assert_int_equal(e.bytes, 0);
  assert_false(tn__rt_extents_share(&e, &e));
  dense[2] = 1;
  assert_true(tn__tensor_is_dense(&t));
  e = tn__extent_of_bytes(&value, UINT64_MAX);
  tn__extent other = tn__extent_of_bytes(&value + 1, 1), none = tn__extent_of_bytes(NULL, 8);
  assert_true(tn__rt_extents_share(&e, &other));
  assert_false(tn__rt_extents_share(&e, &none));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sharing_is_what_the_bytes_say),
      cmocka_unit_test(large_views_are_decided),
      cmocka_unit_test(the_search_ends),
      cmocka_unit_test(numbers_do_not_wrap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
