/* Transposed convolutions as convolutions of the phases of their results: the same results as with zeros between the
 * elements of the image, in one to five dimensions, and which convolutions stay as they are. */
#include "graph/passes/rewrite.h"
#include "unit/pass_check.h"

typedef struct problem {
  int spatial;
  int64_t size[5], window[5], step[5], stride[5], dilation[5], low[5], high[5]; /* size -2: open */
  int64_t groups;
  bool flip;
} problem;

static uint64_t roll(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static bool is_spread(const tn__graph *g) {
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *node = tn__graph_node_at(g, i);
    const tn__attr *step = tn__node_attr(node, "lhs_dilation");
    for (int d = 0; step != NULL && d < step->count; d++)
      if (step->ints[d] != 1) return true;
  }
  return false;
}

static void build(tn__graph *g, const problem *p) {
  enum { IN = 2, OUT = 3 };
  int64_t image[7] = {-1}, window[7];
  tn__conv_spec spec = {.spatial = p->spatial, .feature_groups = p->groups, .flip = p->flip, .channels_last = true};
  for (int i = 0; i < p->spatial; i++) {
    image[1 + i] = p->size[i];
    window[i] = p->window[i];
    spec.strides[i] = p->stride[i] > 0 ? p->stride[i] : 1;
    spec.lhs_dilation[i] = p->step[i];
    spec.rhs_dilation[i] = p->dilation[i] > 0 ? p->dilation[i] : 1;
    spec.low[i] = tn__ir_index(tn__graph_ir(g), p->low[i]);
    spec.high[i] = tn__ir_index(tn__graph_ir(g), p->high[i]);
  }
  image[1 + p->spatial] = IN * p->groups;
  window[p->spatial] = IN;
  window[p->spatial + 1] = OUT * p->groups;
  tn__value *x = input_of(g, "x", TN_F32, p->spatial + 2, image);
  tn__value *y = tn__g_convolution(g, x, constant_of(g, TN_F32, p->spatial + 2, window), &spec, TN_F32);
  tn__graph_output(g, "y", tn__g_binary_s(g, "maximum", y, -0.5));
}

/* Builds it, and checks that the pass keeps the results; returns the number of convolutions, 0 while zeros are left. */
static int convolutions_of(const problem *p) {
  void *state;
  graph_set_up(&state);
  build(graph_of(&state), p);
  CHECK_PASSES(&state, 1e-5, tn__pass_phases);
  int count = is_spread(graph_of(&state)) ? 0 : count_ops(graph_of(&state), "convolution");
  graph_tear_down(&state);
  return count;
}

static void results_stay_the_same(void **state) {
  (void)state;
  uint64_t seed = 7;
  int tried = 0, ones = 0, open = 0;
  while (tried < 300) {
    problem p = {.spatial = 1 + (int)(roll(&seed) % 3), .groups = 1, .flip = roll(&seed) % 2 == 0};
    bool fits = true, spread = false;
    for (int i = 0; i < p.spatial; i++) {
      p.size[i] = 1 + (int64_t)(roll(&seed) % 5);
      p.window[i] = 1 + (int64_t)(roll(&seed) % 5);
      p.step[i] = 1 + (int64_t)(roll(&seed) % 4);
      p.low[i] = (int64_t)(roll(&seed) % 8) - 2;
      p.high[i] = (int64_t)(roll(&seed) % 8) - 2;
      int64_t known = i == 0 && roll(&seed) % 4 == 0 ? 3 : p.size[i];
      fits = fits && (known - 1) * p.step[i] + 1 + p.low[i] + p.high[i] >= p.window[i];
      spread = spread || p.step[i] > 1;
      if (known == 3 && known != p.size[i]) p.size[i] = -2; /* check_passes_sized takes 3 for it */
    }
    if (!fits || !spread) continue;
    if (convolutions_of(&p) == 0) fail_msg("zeros are left in attempt %d", tried);
    tried++;
    ones += p.size[0] == 1;
    open += p.size[0] == -2;
  }
  assert_in_range(ones, 10, 200);
  assert_in_range(open, 10, 200);
}

/* Taps, phases and channels are as many dimensions as a tensor has at the most. */
static void results_stay_the_same_in_five_dimensions(void **state) {
  (void)state;
  problem p = {.spatial = 5,
               .size = {2, 1, 2, 1, 2},
               .window = {3, 2, 2, 3, 1},
               .step = {2, 2, 1, 2, 2},
               .low = {1, 1, 0, 2, 0},
               .high = {1, 1, 0, 2, 1},
               .groups = 1,
               .flip = true};
  assert_in_range(convolutions_of(&p), 1, 32);
}

static void short_windows_are_convolved_apart_when_zeros_are_many(void **state) {
  (void)state;
  problem p = {.spatial = 2,
               .size = {4, 5},
               .window = {3, 3},
               .step = {2, 2},
               .low = {1, 1},
               .high = {2, 2},
               .groups = 1,
               .flip = true};
  assert_int_equal(convolutions_of(&p), 4); /* windows of 1x1, 1x2, 2x1 and 2x2 */
  p.window[0] = p.window[1] = 4;
  assert_int_equal(convolutions_of(&p), 1);
  p.size[0] = p.size[1] = 9, p.window[0] = p.window[1] = 15;
  assert_int_equal(convolutions_of(&p), 1); /* 256 for 225 */
  p.window[0] = 3, p.window[1] = 4;
  assert_int_equal(convolutions_of(&p), 2);
}

static void others_stay(void **state) {
  (void)state;
  const problem plain = {.spatial = 1, .size = {5}, .window = {3}, .step = {2}, .low = {2}, .high = {2}, .groups = 1};
  problem p = plain;
  assert_int_equal(convolutions_of(&p), 2);
  p.stride[0] = 2;
  assert_int_equal(convolutions_of(&p), 0);
  p = plain;
  p.dilation[0] = 2;
  assert_int_equal(convolutions_of(&p), 0);
  p = plain;
  p.groups = 2;
  assert_int_equal(convolutions_of(&p), 0);
  p = plain;
  p.step[0] = 1;
  assert_int_equal(convolutions_of(&p), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_stay_the_same),
      cmocka_unit_test(results_stay_the_same_in_five_dimensions),
      cmocka_unit_test(short_windows_are_convolved_apart_when_zeros_are_many),
      cmocka_unit_test(others_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
