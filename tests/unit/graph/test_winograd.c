/* 3x3 convolutions by Winograd's algorithm: compiled kernels against sums of products in f64, which convolutions the
 * pass leaves alone, what its operators refuse, and when the cost function chooses it. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "graph/passes/rewrite.h"
#include "target/text/text.h"
#include "unit/compile_check.h"
#include "unit/graph_check.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

typedef struct problem {
  int64_t tile, batch, height, width, in, out; /* of the image */
  int64_t low[2], high[2];
  bool residual, symbolic;
  int threads;
  float *image, *weights, *bias, *other;
} problem;

static uint64_t roll(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static float *numbers(uint64_t *seed, int64_t count) {
  float *data = malloc((size_t)count * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++) data[i] = (float)((double)roll(seed) / (1u << 30) - 1);
  return data;
}

static int64_t result_size(const problem *p, int i) {
  return (i == 0 ? p->height : p->width) + p->low[i] + p->high[i] - 2;
}

static void fill(problem *p, uint64_t seed) {
  p->image = numbers(&seed, p->batch * p->height * p->width * p->in);
  p->weights = numbers(&seed, 9 * p->in * p->out);
  p->bias = numbers(&seed, p->out);
  p->other = numbers(&seed, p->batch * result_size(p, 0) * result_size(p, 1) * p->out);
}

static void drop(problem *p) {
  free(p->image);
  free(p->weights);
  free(p->bias);
  free(p->other);
}

/* max(convolution + bias (+ other), -0.5) at one place. */
static double exact(const problem *p, int64_t n, int64_t y, int64_t x, int64_t o) {
  double sum = p->bias[o];
  for (int64_t r = 0; r < 3; r++)
    for (int64_t s = 0; s < 3; s++) {
      int64_t row = y + r - p->low[0], column = x + s - p->low[1];
      if (row < 0 || row >= p->height || column < 0 || column >= p->width) continue;
      const float *pixel = p->image + ((n * p->height + row) * p->width + column) * p->in;
      for (int64_t c = 0; c < p->in; c++)
        sum += (double)pixel[c] * (double)p->weights[((r * 3 + s) * p->in + c) * p->out + o];
    }
  if (p->residual) sum += p->other[((n * result_size(p, 0) + y) * result_size(p, 1) + x) * p->out + o];
  return fmax(sum, -0.5);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static int the_tile(void *user, const tn__winograd_sizes *sizes) {
  const problem *p = user;
  assert_int_equal(sizes->batch, p->batch);
  assert_int_equal(sizes->height, result_size(p, 0));
  assert_int_equal(sizes->in, p->in);
  assert_int_equal(sizes->out, p->out);
  return (int)p->tile;
}

static bool on_no_cpu(void *user, const tn__node *node) { return false; }

static int any_tile(void *user, const tn__winograd_sizes *sizes) {
  (void)user, (void)sizes;
  return 2;
}

static int nodes_of(tn__graph *g, const char *op) {
  int count = 0;
  for (int i = 0; i < tn__graph_node_count(g); i++) count += strcmp(tn__graph_node_at(g, i)->op->name, op) == 0;
  return count;
}

static tn__conv_spec plain_spec(tn__graph *g, const problem *p) {
  tn__conv_spec spec = {.spatial = 2,
                        .strides = {1, 1},
                        .lhs_dilation = {1, 1},
                        .rhs_dilation = {1, 1},
                        .feature_groups = 1,
                        .channels_last = true};
  for (int i = 0; i < 2; i++) {
    spec.low[i] = tn__ir_index(tn__graph_ir(g), p->low[i]);
    spec.high[i] = tn__ir_index(tn__graph_ir(g), p->high[i]);
  }
  return spec;
}

static tn__value *channels_last(tn__graph *g, const char *name, int64_t n, int64_t h, int64_t w, int64_t c) {
  tn__ir *ir = tn__graph_ir(g);
  return tn__graph_input(
      g, name, TN_F32, 4,
      (const tn__expr *[]){tn__ir_index(ir, n), tn__ir_index(ir, h), tn__ir_index(ir, w), tn__ir_index(ir, c)});
}

static void build(tn__graph *g, const void *from) {
  problem *p = (problem *)(uintptr_t)from;
  tn__value *image = channels_last(g, "x", p->batch, p->height, p->width, p->in);
  tn__value *weights = tn__g_constant_value(g, TN_F32, 4, (int64_t[]){3, 3, p->in, p->out}, p->weights, false);
  tn__value *bias = tn__g_constant_value(g, TN_F32, 1, &p->out, p->bias, false);
  const tn__conv_spec spec = plain_spec(g, p);
  tn__value *y = tn__g_convolution(g, image, weights, &spec, TN_F32);
  y = tn__g_binary(g, "add", y, tn__g_broadcast_in_dim(g, bias, 4, y->dims, (int64_t[]){3}));
  if (p->residual)
    y = tn__g_binary(g, "add", y, channels_last(g, "r", p->batch, result_size(p, 0), result_size(p, 1), p->out));
  tn__graph_output(g, "y", tn__g_binary_s(g, "maximum", y, -0.5));
  const tn__optimize_options options = {.winograd_tile = the_tile, .winograd_user = p};
  tn__pass_winograd(g, &options);
  assert_int_equal(nodes_of(g, "convolution"), 0);
  assert_int_equal(nodes_of(g, "winograd_input"), 1);
  assert_int_equal(nodes_of(g, "winograd_output"), 1);
}

/* The greatest error, relative to the greatest result. */
static double error_of(problem *p) {
  compile_case k = {.build_from = build, .from = p, .threads = p->threads};
  tn_session *session = compile(&k);
  int64_t image[] = {p->batch, p->height, p->width, p->in};
  int64_t size[] = {p->batch, result_size(p, 0), result_size(p, 1), p->out};
  const DLTensor inputs[] = {f32(p->image, 4, image), f32(p->other, 4, size)};
  DLTensor got;
  check_ok(tn_session_invoke_with_outputs(session, NULL, inputs, p->residual ? 2 : 1, NULL, 0));
  check_ok(tn_session_get_output(session, NULL, 0, &got));
  const float *data = got.data;
  double worst = 0, greatest = 0;
  for (int64_t n = 0; n < size[0]; n++)
    for (int64_t y = 0; y < size[1]; y++)
      for (int64_t x = 0; x < size[2]; x++)
        for (int64_t o = 0; o < size[3]; o++) {
          double want = exact(p, n, y, x, o);
          worst = fmax(worst, fabs(want - (double)*data++));
          greatest = fmax(greatest, fabs(want));
        }
  finish(&k, session);
  return worst / greatest;
}

static void tiles_give_the_convolution(void **state) {
  (void)state;
  uint64_t seed = 3;
  for (int i = 0; i < 24; i++) {
    problem p = {.tile = 2 + 2 * (i % 2), .threads = 1 + i / 2 % 2, .residual = i % 3 == 0};
    p.batch = 1 + (int64_t)(roll(&seed) % 3);
    p.height = 1 + (int64_t)(roll(&seed) % 14);
    p.width = 1 + (int64_t)(roll(&seed) % 14);
    p.in = 1 + (int64_t)(roll(&seed) % 40);
    p.out = 1 + (int64_t)(roll(&seed) % 40);
    for (int d = 0; d < 2; d++) {
      p.low[d] = (int64_t)(roll(&seed) % 3);
      p.high[d] = (int64_t)(roll(&seed) % 3);
      int64_t short_by = 1 - result_size(&p, d);
      if (short_by > 0) p.high[d] += short_by;
    }
    fill(&p, (uint64_t)i);
    double error = error_of(&p), allowed = p.tile == 2 ? 2e-6 : 2e-5;
    if (!(error <= allowed))
      fail_msg("tile %d of %dx%dx%dx%d to %d, padded %d %d %d %d: error %g", (int)p.tile, (int)p.batch, (int)p.height,
               (int)p.width, (int)p.in, (int)p.out, (int)p.low[0], (int)p.low[1], (int)p.high[0], (int)p.high[1],
               error);
    drop(&p);
  }
}

/* The bounds that docs/numerics.md states. */
static void errors_stay_within_the_stated_bounds(void **state) {
  (void)state;
  static const int64_t channels[] = {16, 64, 256};
  for (int i = 0; i < 6; i++) {
    problem p = {.tile = 2 + 2 * (i % 2),
                 .batch = 1,
                 .height = 12,
                 .width = 12,
                 .in = channels[i / 2],
                 .out = 32,
                 .low = {1, 1},
                 .high = {1, 1},
                 .threads = 1 + i / 2 % 2};
    fill(&p, 77 + (uint64_t)i);
    double error = error_of(&p);
    assert_true(error <= (p.tile == 2 ? 2e-6 : 2e-5));
    drop(&p);
  }
}

/* ---- what stays as it is ----------------------------------------------------------------------------------------- */

typedef struct variant {
  const char *what;
  tn_dtype dtype;
  int64_t side, stride, dilation, groups, low;
  bool splat, fed, symbolic, flip, first;
} variant;

static tn__value *weights_of(tn__graph *g, const variant *v, const int64_t *shape) {
  tn__ir *ir = tn__graph_ir(g);
  const tn__expr *dims[4];
  float *data = tn__arena_alloc_array(tn__graph_arena(g), 4096, sizeof *data);
  for (int i = 0; i < 4; i++) dims[i] = tn__ir_index(ir, shape[i]);
  for (int i = 0; i < 4096; i++) data[i] = (float)(i % 7);
  return v->fed ? tn__graph_input(g, "w", v->dtype, 4, dims)
                : tn__g_constant_value(g, v->dtype, 4, shape, data, v->splat);
}

static void others_stay_direct(void **state) {
  static const variant variants[] = {
      {"the one that changes", TN_F32, 3, 1, 1, 1, 1, false, false, false, false, false},
      {"16-bit floats", TN_F16, 3, 1, 1, 1, 1, false, false, false, false, false},
      {"windows of 5", TN_F32, 5, 1, 1, 1, 1, false, false, false, false, false},
      {"strides", TN_F32, 3, 2, 1, 1, 1, false, false, false, false, false},
      {"dilations", TN_F32, 3, 1, 2, 1, 1, false, false, false, false, false},
      {"groups", TN_F32, 3, 1, 1, 2, 1, false, false, false, false, false},
      {"cropped images", TN_F32, 3, 1, 1, 1, -1, false, false, false, false, false},
      {"splats", TN_F32, 3, 1, 1, 1, 1, true, false, false, false, false},
      {"weights that are fed", TN_F32, 3, 1, 1, 1, 1, false, true, false, false, false},
      {"open dimensions", TN_F32, 3, 1, 1, 1, 1, false, false, true, false, false},
      {"reversed windows", TN_F32, 3, 1, 1, 1, 1, false, false, false, true, false},
      {"channels first", TN_F32, 3, 1, 1, 1, 1, false, false, false, false, true},
  };
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    const variant *v = &variants[i];
    graph_fixture *f = *state;
    tn__graph *g = f->graph = tn__graph_create(f->ir, "test");
    const problem p = {.low = {v->low, 1}, .high = {1, 1}};
    tn__conv_spec spec = plain_spec(g, &p);
    spec.strides[1] = v->stride;
    spec.rhs_dilation[0] = v->dilation;
    spec.feature_groups = v->groups;
    spec.flip = v->flip;
    spec.channels_last = !v->first;
    int64_t last[] = {v->symbolic ? -1 : 1, 9, 9, 4}, first[] = {1, 4, 9, 9};
    int64_t rhs_last[] = {v->side, 3, 4 / v->groups, 6}, rhs_first[] = {6, 4, 3, 3};
    tn__value *image = input_of(g, "x", v->dtype, 4, v->first ? first : last);
    tn__value *weights = weights_of(g, v, v->first ? rhs_first : rhs_last);
    tn__graph_output(g, "y", tn__g_convolution(g, image, weights, &spec, v->dtype));
    tn__pass_winograd(g, &(tn__optimize_options){0});
    assert_int_equal(nodes_of(g, "convolution"), 1);
    tn__pass_winograd(g, &(tn__optimize_options){.winograd_tile = any_tile, .is_for_cpu = on_no_cpu});
    assert_int_equal(nodes_of(g, "convolution"), 1);
    tn__pass_winograd(g, &(tn__optimize_options){.winograd_tile = any_tile});
    if (nodes_of(g, "convolution") != (i > 0)) fail_msg("%s: %d convolutions", v->what, nodes_of(g, "convolution"));
  }
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static tn__value *image_of(tn__graph *g, int rank, int64_t side, int64_t tiles) {
  return input_of(g, "x", TN_F32, rank, rank == 4 ? (int64_t[]){1, 9, 9, 4} : (int64_t[]){side, side, 1, tiles, 3, 4});
}

static void odd_tile(tn__graph *g) {
  tn__g_winograd_input(g, image_of(g, 4, 0, 0), 3, (int64_t[]){1, 1}, (int64_t[]){3, 3});
}
static void few_tiles(tn__graph *g) {
  tn__g_winograd_input(g, image_of(g, 4, 0, 0), 4, (int64_t[]){1, 1}, (int64_t[]){3, 1});
}
static void flat_image(tn__graph *g) {
  tn__g_winograd_input(g, image_of(g, 6, 6, 3), 4, (int64_t[]){1, 1}, (int64_t[]){3, 3});
}
static void odd_positions(tn__graph *g) { tn__g_winograd_output(g, image_of(g, 6, 5, 3), (int64_t[]){9, 9}); }
static void large_result(tn__graph *g) { tn__g_winograd_output(g, image_of(g, 6, 6, 2), (int64_t[]){9, 9}); }

static void operators_say_what_is_wrong(void **state) {
  static const struct {
    void (*body)(tn__graph *g);
    const char *text;
  } cases[] = {
      {odd_tile, "winograd_input: tile 3 is neither 2 nor 4"},
      {few_tiles, "winograd_input: 1 tiles of 4 with 1 in front do not hold spatial dimension 1 of f32[1, 9, 9, 4]"},
      {flat_image, "winograd_input: operand 0 (image) must have 4 dimensions, but is f32[6, 6, 1, 3, 3, 4]"},
      {odd_positions, "winograd_output: operand 0 must have 4 by 4 or 6 by 6 positions, but is f32[5, 5, 1, 3, 3, 4]"},
      {large_result, "winograd_output: the tiles of f32[6, 6, 1, 2, 3, 4] do not give 9 pixels in spatial dimension 0"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    graph_fixture *f = *state;
    f->graph = tn__graph_create(f->ir, "test");
    check_throws(state, cases[i].body, TN_INVALID_ARGUMENT, cases[i].text);
  }
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static int chosen(const char *name, int64_t batch, int64_t side, int64_t in, int64_t out) {
  tn__target target;
  check_ok(tn__target_parse(name, &target));
  return tn__schedule_winograd_tile(&target, batch, side, side, in, out);
}

static void it_is_chosen_where_it_pays(void **state) {
  (void)state;
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4", "aarch64"};
  for (int t = 0; t < 3; t++) {
    assert_int_equal(chosen(targets[t], 1, 56, 64, 64), 4);
    assert_int_equal(chosen(targets[t], 1, 28, 128, 128), 4);
    /* Few channels: the transforms cost more than the products save. One pixel: most of each tile is waste. */
    assert_int_equal(chosen(targets[t], 1, 224, 3, 3), 0);
    assert_int_equal(chosen(targets[t], 1, 1, 256, 256), 0);
    /* The last stage of a network: 4 tiles don't pay for weights that are 4 times as large; with many images they
     * do. */
    assert_int_not_equal(chosen(targets[t], 1, 7, 512, 512), 4);
    assert_int_equal(chosen(targets[t], 64, 7, 512, 512), 4);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tiles_give_the_convolution),
      cmocka_unit_test(errors_stay_within_the_stated_bounds),
      cmocka_unit_test_setup_teardown(others_stay_direct, graph_set_up, graph_tear_down),
      cmocka_unit_test_setup_teardown(operators_say_what_is_wrong, graph_set_up, graph_tear_down),
      cmocka_unit_test(it_is_chosen_where_it_pays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
