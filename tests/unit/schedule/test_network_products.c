/* The products and convolutions of real networks are scheduled by the rule that is made for them, at its first attempt:
 * an estimate that a primitive then refuses, or a step of the rule that does not fit, would give them to a rule that is
 * several times slower, and nobody would see it but by measuring. Each declaration is as the compiler makes it: images
 * with channels last, weights in panels, padding in front and an epilogue behind. */
#include "ir/context.h"
#include "schedule/rules/choose.h"
#include "unit/schedule_check.h"

typedef enum kind { CONVOLUTION, DEPTHWISE, PRODUCT, BATCH } kind;

/* A convolution: height (and width) of the result, channels in and out, window, stride; padded like torchvision's. A
 * product: rows, depth, columns, how many. */
typedef struct shape {
  kind kind;
  int64_t n[5];
  bool residual;
} shape;

static const shape shapes[] = {
    /* SqueezeNet 1.1 */
    {CONVOLUTION, {111, 3, 64, 3, 2}, false},
    {CONVOLUTION, {55, 64, 16, 1, 1}, false},
    {CONVOLUTION, {55, 16, 64, 1, 1}, false},
    {CONVOLUTION, {55, 16, 64, 3, 1}, false},
    {CONVOLUTION, {55, 128, 16, 1, 1}, false},
    {CONVOLUTION, {27, 128, 32, 1, 1}, false},
    {CONVOLUTION, {27, 32, 128, 1, 1}, false},
    {CONVOLUTION, {27, 32, 128, 3, 1}, false},
    {CONVOLUTION, {27, 256, 32, 1, 1}, false},
    {CONVOLUTION, {13, 256, 48, 1, 1}, false},
    {CONVOLUTION, {13, 48, 192, 1, 1}, false},
    {CONVOLUTION, {13, 48, 192, 3, 1}, false},
    {CONVOLUTION, {13, 384, 48, 1, 1}, false},
    {CONVOLUTION, {13, 384, 64, 1, 1}, false},
    {CONVOLUTION, {13, 64, 256, 1, 1}, false},
    {CONVOLUTION, {13, 64, 256, 3, 1}, false},
    {CONVOLUTION, {13, 512, 64, 1, 1}, false},
    {CONVOLUTION, {13, 512, 1000, 1, 1}, false},
    /* MobileNetV2 */
    {CONVOLUTION, {112, 3, 32, 3, 2}, false},
    {CONVOLUTION, {112, 32, 16, 1, 1}, false},
    {CONVOLUTION, {112, 16, 96, 1, 1}, false},
    {CONVOLUTION, {56, 96, 24, 1, 1}, false},
    {CONVOLUTION, {56, 24, 144, 1, 1}, false},
    {CONVOLUTION, {56, 144, 24, 1, 1}, true},
    {CONVOLUTION, {28, 144, 32, 1, 1}, false},
    {CONVOLUTION, {28, 32, 192, 1, 1}, false},
    {CONVOLUTION, {28, 192, 32, 1, 1}, true},
    {CONVOLUTION, {14, 192, 64, 1, 1}, false},
    {CONVOLUTION, {14, 64, 384, 1, 1}, false},
    {CONVOLUTION, {14, 384, 64, 1, 1}, true},
    {CONVOLUTION, {14, 384, 96, 1, 1}, false},
    {CONVOLUTION, {14, 96, 576, 1, 1}, false},
    {CONVOLUTION, {14, 576, 96, 1, 1}, true},
    {CONVOLUTION, {7, 576, 160, 1, 1}, false},
    {CONVOLUTION, {7, 160, 960, 1, 1}, false},
    {CONVOLUTION, {7, 960, 160, 1, 1}, true},
    {CONVOLUTION, {7, 960, 320, 1, 1}, false},
    {CONVOLUTION, {7, 320, 1280, 1, 1}, false},
    {DEPTHWISE, {112, 32, 32, 3, 1}, false},
    {DEPTHWISE, {56, 96, 96, 3, 2}, false},
    {DEPTHWISE, {56, 144, 144, 3, 1}, false},
    {DEPTHWISE, {28, 144, 144, 3, 2}, false},
    {DEPTHWISE, {28, 192, 192, 3, 1}, false},
    {DEPTHWISE, {14, 192, 192, 3, 2}, false},
    {DEPTHWISE, {14, 384, 384, 3, 1}, false},
    {DEPTHWISE, {14, 576, 576, 3, 1}, false},
    {DEPTHWISE, {7, 576, 576, 3, 2}, false},
    {DEPTHWISE, {7, 960, 960, 3, 1}, false},
    /* ResNet-50 */
    {CONVOLUTION, {112, 3, 64, 7, 2}, false},
    {CONVOLUTION, {56, 64, 64, 1, 1}, false},
    {CONVOLUTION, {56, 64, 64, 3, 1}, false},
    {CONVOLUTION, {56, 64, 256, 1, 1}, true},
    {CONVOLUTION, {56, 256, 64, 1, 1}, false},
    {CONVOLUTION, {56, 256, 128, 1, 1}, false},
    {CONVOLUTION, {28, 128, 128, 3, 2}, false},
    {CONVOLUTION, {28, 128, 512, 1, 1}, true},
    {CONVOLUTION, {28, 256, 512, 1, 2}, false},
    {CONVOLUTION, {28, 512, 128, 1, 1}, false},
    {CONVOLUTION, {28, 128, 128, 3, 1}, false},
    {CONVOLUTION, {28, 512, 256, 1, 1}, false},
    {CONVOLUTION, {14, 256, 256, 3, 2}, false},
    {CONVOLUTION, {14, 256, 1024, 1, 1}, true},
    {CONVOLUTION, {14, 512, 1024, 1, 2}, false},
    {CONVOLUTION, {14, 1024, 256, 1, 1}, false},
    {CONVOLUTION, {14, 256, 256, 3, 1}, false},
    {CONVOLUTION, {14, 1024, 512, 1, 1}, false},
    {CONVOLUTION, {7, 512, 512, 3, 2}, false},
    {CONVOLUTION, {7, 512, 2048, 1, 1}, true},
    {CONVOLUTION, {7, 1024, 2048, 1, 2}, false},
    {CONVOLUTION, {7, 2048, 512, 1, 1}, false},
    {CONVOLUTION, {7, 512, 512, 3, 1}, false},
    {PRODUCT, {1, 2048, 1000, 1}, false},
    {BATCH, {196, 64, 64, 36}, false}, /* what Winograd's algorithm multiplies */
    {BATCH, {49, 128, 128, 36}, false},
    {BATCH, {16, 256, 256, 36}, false},
    {BATCH, {16, 512, 512, 16}, false},
    /* MiniLM-L6 and BERT-base, 128 tokens; scores and weighted values where attention is not one kernel */
    {PRODUCT, {128, 384, 1152, 1}, false},
    {PRODUCT, {128, 384, 384, 1}, true},
    {PRODUCT, {128, 384, 1536, 1}, false},
    {PRODUCT, {128, 1536, 384, 1}, true},
    {BATCH, {128, 32, 128, 12}, false},
    {BATCH, {128, 128, 32, 12}, false},
    {PRODUCT, {128, 768, 2304, 1}, false},
    {PRODUCT, {128, 768, 768, 1}, true},
    {PRODUCT, {128, 768, 3072, 1}, false},
    {PRODUCT, {128, 3072, 768, 1}, true},
    {PRODUCT, {1, 768, 768, 1}, false},
    {BATCH, {128, 64, 128, 12}, false},
    {BATCH, {128, 128, 64, 12}, false},
    /* GPT-2 small, a step */
    {PRODUCT, {1, 768, 2304, 1}, false},
    {PRODUCT, {1, 768, 768, 1}, true},
    {PRODUCT, {1, 768, 3072, 1}, false},
    {PRODUCT, {1, 3072, 768, 1}, true},
    {PRODUCT, {1, 768, 50257, 1}, false},
    {BATCH, {1, 64, 128, 12}, false},
    {BATCH, {1, 128, 64, 12}, false},
};

static const tn__buffer *tensor(tn__te *te, const char *name, int rank, const int64_t *extents) {
  const tn__expr *sizes[TN__MAX_RANK];
  for (int d = 0; d < rank; d++) sizes[d] = tn__ir_index(tn__te_ir(te), extents[d]);
  return tn__te_input(te, name, TN_F32, rank, sizes);
}

#define LIST(...) ((const int64_t[]){__VA_ARGS__})
#define AT(buffer, ...) tn__ir_load(ir, buffer, (const tn__expr *[]){__VA_ARGS__})

/* Bias, a residual if there is one, and a rectifier. */
static void finish(tn__te *te, const tn__buffer *sum, int rank, const int64_t *extents, bool residual) {
  tn__ir *ir = tn__te_ir(te);
  const tn__buffer *bias = tensor(te, "bias", 1, &extents[rank - 1]);
  tn__te_axes y = axes_of(te, "o", rank, extents);
  const tn__expr *value = tn__ir_add(ir, tn__ir_load(ir, sum, y.index), AT(bias, y.index[rank - 1]));
  if (residual) value = tn__ir_add(ir, value, tn__ir_load(ir, tensor(te, "R", rank, extents), y.index));
  tn__te_output(te, tn__te_compute(te, "out", &y, tn__ir_max(ir, value, tn__ir_constant(ir, TN_F32, 0))));
}

static void declare_products(tn__te *te, const shape *s, const tn__target *target) {
  tn__ir *ir = tn__te_ir(te);
  int64_t m = s->n[0], k = s->n[1], n = s->n[2], batch = s->n[3], w = tn__schedule_pack_width(target, TN_F32, n);
  tn__te_axes r = axes_of(te, "k", 1, &k);
  if (s->kind == BATCH) {
    const tn__buffer *a = tensor(te, "A", 3, LIST(batch, m, k)), *b = tensor(te, "B", 3, LIST(batch, k, n));
    tn__te_axes x = axes_of(te, "i", 3, LIST(batch, m, n));
    tn__te_output(te, tn__te_reduce(te, "sum", &x, &r, TN__TE_SUM,
                                    tn__ir_mul(ir, AT(a, x.index[0], x.index[1], r.index[0]),
                                               AT(b, x.index[0], r.index[0], x.index[2]))));
    return;
  }
  const tn__buffer *a = tensor(te, "A", 2, LIST(m, k)), *b = tensor(te, "B", 3, LIST((n + w - 1) / w, k, w));
  tn__te_axes x = axes_of(te, "i", 2, LIST(m, n));
  const tn__expr *panel = AT(b, tn__ir_div_i(ir, x.index[1], w), r.index[0], tn__ir_mod_i(ir, x.index[1], w));
  finish(te, tn__te_reduce(te, "sum", &x, &r, TN__TE_SUM, tn__ir_mul(ir, AT(a, x.index[0], r.index[0]), panel)), 2,
         LIST(m, n), s->residual);
}

/* The image with a margin of zeros. */
static const tn__buffer *padded(tn__te *te, int64_t size, int64_t channels, int64_t margin, int64_t whole) {
  tn__ir *ir = tn__te_ir(te);
  const tn__buffer *x = tensor(te, "X", 3, LIST(size, size, channels));
  tn__te_axes y = axes_of(te, "p", 3, LIST(whole, whole, channels));
  const tn__expr *i = tn__ir_add_i(ir, y.index[0], -margin), *j = tn__ir_add_i(ir, y.index[1], -margin);
  const tn__expr *inside =
      tn__ir_and(ir, tn__ir_le(ir, tn__ir_index(ir, 0), i), tn__ir_lt(ir, i, tn__ir_index(ir, size)));
  inside = tn__ir_and(ir, inside, tn__ir_le(ir, tn__ir_index(ir, 0), j));
  inside = tn__ir_and(ir, inside, tn__ir_lt(ir, j, tn__ir_index(ir, size)));
  return tn__te_compute(te, "padded", &y,
                        tn__ir_select(ir, inside, AT(x, i, j, y.index[2]), tn__ir_constant(ir, TN_F32, 0)));
}

static void declare_convolution(tn__te *te, const shape *s, const tn__target *target) {
  tn__ir *ir = tn__te_ir(te);
  int64_t h = s->n[0], in = s->n[1], out = s->n[2], window = s->n[3], stride = s->n[4], margin = window / 2;
  int64_t whole = (h - 1) * stride + window, panel = tn__schedule_pack_width(target, TN_F32, out);
  const tn__buffer *x =
      margin > 0 ? padded(te, whole - 2 * margin, in, margin, whole) : tensor(te, "X", 3, LIST(whole, whole, in));
  tn__te_axes y = axes_of(te, "i", 3, LIST(h, h, out));
  tn__te_axes r = axes_of(te, "k", s->kind == DEPTHWISE ? 2 : 3, LIST(window, window, in));
  const tn__expr *i = tn__ir_add(ir, tn__ir_mul_i(ir, y.index[0], stride), r.index[0]);
  const tn__expr *j = tn__ir_add(ir, tn__ir_mul_i(ir, y.index[1], stride), r.index[1]), *c = y.index[2], *term;
  if (s->kind == DEPTHWISE) {
    term = tn__ir_mul(ir, AT(x, i, j, c), AT(tensor(te, "F", 3, LIST(window, window, out)), r.index[0], r.index[1], c));
  } else {
    const tn__buffer *f = tensor(te, "F", 5, LIST((out + panel - 1) / panel, window, window, in, panel));
    term =
        tn__ir_mul(ir, AT(x, i, j, r.index[2]),
                   AT(f, tn__ir_div_i(ir, c, panel), r.index[0], r.index[1], r.index[2], tn__ir_mod_i(ir, c, panel)));
  }
  finish(te, tn__te_reduce(te, "sum", &y, &r, TN__TE_SUM, term), 3, LIST(h, h, out), s->residual);
}

typedef struct attempt {
  const shape *shape;
  const char *target;
  int threads;
} attempt;

static void choose(tn__ir *ir, const void *arg) {
  const attempt *a = arg;
  tn__target target = test_target(a->target);
  tn__te *te = tn__te_create(ir, "product");
  if (a->shape->kind == PRODUCT || a->shape->kind == BATCH)
    declare_products(te, a->shape, &target);
  else
    declare_convolution(te, a->shape, &target);
  tn__schedule_options options = {.threads = a->threads};
  tn__plan plan;
  choose_schedule(te, &target, &options, &plan);
  const int64_t *n = a->shape->n;
  const char *rule = plan.sketch == NULL ? "plain nest" : tn__sketch_name(plan.sketch);
  if (plan.refused > 0 || strcmp(rule, "contraction") != 0)
    fail_msg("%s, %d threads: %lld x %lld x %lld (%lld, %lld) is scheduled as \"%s\" after %d refusals", a->target,
             a->threads, (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3], (long long)n[4], rule,
             plan.refused);
}

static void networks_have_their_rule(void **state) {
  static const char *const targets[] = {"x86-64-v4", "x86-64-v3"};
  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
    for (int t = 0; t < 2; t++)
      for (int threads = 1; threads <= 2; threads++) {
        attempt a = {&shapes[i], targets[t], threads};
        check_ok(in_context(choose, &a));
      }
}

/* A picture of three channels with a margin, written as a whole, takes the room that it takes: rows are moved apart
 * only where that is asked for. The two copies differ in nothing else than the room of their lines. */
static void copy_pictures(tn__ir *ir, const void *arg) {
  (void)arg;
  static const shape first = {CONVOLUTION, {112, 3, 64, 7, 2}, false};
  tn__target target = test_target("x86-64-v4");
  tn__te *te = tn__te_create(ir, "product");
  declare_convolution(te, &first, &target);
  tn__schedule_options options = {.threads = 1};
  tn__plan plan;
  choose_schedule(te, &target, &options, &plan);
  double bytes = 229 * 229 * 3 * sizeof(float); /* there, and back, and fetched before it is written */
  assert_true(plan.cost.overhead > bytes / target.cpu.machine.core.memory_bytes);
  assert_true(plan.cost.overhead < 4 * bytes / target.cpu.machine.core.memory_bytes);
}

static void whole_copies_are_as_large_as_they_are(void **state) { check_ok(in_context(copy_pictures, NULL)); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(networks_have_their_rule),
                                     cmocka_unit_test(whole_copies_are_as_large_as_they_are)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
