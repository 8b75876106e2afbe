/* Maps whose positions are quotients and remainders of an axis, groups of interleaved elements, counts of bits and
 * casts of what was clamped: for every type and odd sizes, chosen schedules must compute what the declaration says,
 * interpreted and compiled. Compiled kernels run on tensors that begin or end at pages without access, so they start at
 * any multiple of their elements' size. */
#include "guarded.h"
#include "schedule/rules/choose.h"
#include "te/text.h"
#include "unit/kernel.h"
#include "unit/schedule_check.h"

enum { WORKSPACE_BYTES = 1 << 20 };

/* Adds up pairs, fours and bytes of bits, and then the bytes. */
#define BITS(type, pairs, fours, bytes, ones, shift)                                                           \
  "(X: " type "[W]) -> Y: " type "[W] { a[i: W] = X[i] - ((X[i] >> 1) & " pairs ")\n b[i: W] = (a[i] & " fours \
  ") + (" fours " & (a[i] >> 2))\n Y[i] = (((b[i] >> 4) + b[i] & " bytes ") * " ones ") >> " shift " }"

/* `T` stands for a type, `H` and `W` for two sizes, and `HW` for their product. */
static const char *const declared[] = {
    /* Elements of two tensors that take turns, the last one alone. */
    "(A: T[W], B: T[W]) -> Y: T[2 * W - 1] { Y[i] = select(i % 2 == 0, A[i / 2], B[i / 2]) }",
    /* Groups of 2, 3 and 4: apart, and woven. */
    "(A: T[H, W, 2]) -> Y: T[H, W] { Y[y, x] = A[y, x, 1] - A[y, x, 0] }",
    "(A: T[H, W, 3]) -> Y: T[H, W] { Y[y, x] = A[y, x, 0] + A[y, x, 1] * 2 - A[y, x, 2] }",
    "(A: T[H, W, 4]) -> Y: T[H, W], Z: T[H, W] { Y[y, x] = A[y, x, 3]\n Z[y, x] = A[y, x, 1] - A[y, x, 2] }",
    "(A: T[3, H, W]) -> Y: T[H, 3 * W] { Y[y, x] = A[x % 3, y, x / 3] }",
    "(A: T[H, W, 3]) -> Y: T[H, W, 3] { Y[y, x, c] = A[y, x, 2 - c] }",
    "(A: T[3 * W + 2]) -> Y: T[W] { Y[x] = A[3 * x + 2] - A[3 * x + 4] }",
    "(A: T[H, 3 * W]) -> Y: T[H, W] { Y[y, x] = select(y < x, A[y, 3 * x + 1], A[y, 3 * x]) }",
    /* Phases of columns that become an image. */
    "(X: T[18, H, W]) -> Y: T[2, 3 * H, 3 * W] { Y[c, y, x] = X[c * 9 + (y % 3) * 3 + x % 3, y / 3, x / 3] }",
    "(X: T[H, W]) -> Y: T[H, 2 * W - 2] { Y[y, x] = select(x % 2 == 0, X[y, x / 2], X[y, x / 2] + X[y, x / 2 + 1]) }",
    "(X: T[H, W]) -> Y: T[2 * H, W] { Y[y, x] = select(y % 2 == 0, X[y / 2, x], X[y / 2, x] - 1) }",
    /* Periods that don't divide each other, that begin in the middle, that are long, and steps back. */
    "(X: T[W], Z: T[4]) -> Y: T[2 * W - 1] { Y[i] = X[(i + 1) / 2] + Z[(i + 2) % 3] }",
    "(X: T[W]) -> Y: T[3 * W] { Y[i] = select(i % 6 == 5, 1, X[(3 * W - 1 - i) / 3]) }",
    "(X: T[W], Z: T[29]) -> Y: T[29 * W] { Y[i] = X[i / 29] - Z[i % 29] }",
    "(X: T[H, W], Z: T[5, 31]) -> Y: T[5 * H, 31 * W] { Y[i, j] = X[i / 5, j / 31] * Z[i % 5, j % 31] }",
    "(X: T[W], Z: T[37]) -> Y: T[W] { Y[i] = X[i] + Z[(i + 5) % 37] }",
    "(X: T[H, W]) -> Y: T[HW] { Y[i] = X[i / W, i % W] }",
    "(X: T[W], Z: T[9]) -> Y: T[3 * W] { Y[i] = X[i / 3] + Z[(i * i) % 9] }",
    /* Bits, and what only looks like counting them. */
    ("(X: u8[W]) -> Y: u8[W] { a[i: W] = X[i] - ((X[i] >> 1) & 85)\n b[i: W] = (a[i] & 51) + ((a[i] >> 2) & 51)\n"
     " Y[i] = (b[i] + (b[i] >> 4)) & 15 }"),
    BITS("u16", "21845u16", "13107u16", "3855u16", "257u16", "8u16"),
    BITS("u32", "1431655765u32", "858993459u32", "252645135u32", "16843009u32", "24u32"),
    BITS("u32", "1431655765u32", "858993459u32", "252645135u32", "16843009u32", "23u32"),
    BITS("u32", "1431655765u32", "858993459u32", "252645134u32", "16843009u32", "24u32"),
    /* Numbers inside and outside of what the integer holds, infinite ones and none. */
    "(X: f32[W], Z: f32[W]) -> Y: i8[W] { Y[i] = i8(clamp(round_even(X[i] * 99 / Z[i]), -128, 127)) }",
    "(X: f32[W], Z: f32[W]) -> Y: u8[W] { Y[i] = u8(round_even(clamp(X[i] * 99 / Z[i], 0, 255))) }",
    "(X: f64[W], Z: f64[W]) -> Y: i16[W] { Y[i] = i16(max(min(X[i] * 9999 / Z[i], 32767), -32768)) }",
    "(X: f32[W], Z: f32[W]) -> Y: i8[W] { Y[i] = i8(clamp(X[i] * 99 / Z[i], -129, 127)) }",
};
enum { DECLARED = sizeof(declared) / sizeof(declared[0]) };

static const char *const types[] = {"u8", "f32", "i16", "f64", "i8", "f16", "i32", "i64"};
static const int sizes[][2] = {{3, 2}, {5, 17}, {2, 43}, {2, 131}, {4, 64}};
enum { TYPES = sizeof(types) / sizeof(types[0]), SIZES = sizeof(sizes) / sizeof(sizes[0]) };

typedef struct drawn {
  int number, type, size;
  const char *target;
} drawn;

static bool is_name(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

/* The caller releases it. */
static tn__strbuf text_of(const drawn *d) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_append(&text, "kernel drawn");
  for (const char *at = declared[d->number]; *at != '\0';) {
    int length = 0, high = sizes[d->size][0], wide = sizes[d->size][1];
    while (is_name(at[length])) length++;
    if (length == 1 && *at == 'T')
      tn__strbuf_append(&text, types[d->type]);
    else if (length == 1 && (*at == 'H' || *at == 'W'))
      tn__strbuf_printf(&text, "%d", *at == 'H' ? high : wide);
    else if (length == 2 && strncmp(at, "HW", 2) == 0)
      tn__strbuf_printf(&text, "%d", high * wide);
    else
      tn__strbuf_printf(&text, "%.*s", length == 0 ? 1 : length, at);
    at += length == 0 ? 1 : length;
  }
  return text;
}

static tn__te *declare(tn__ir *ir, const drawn *d) {
  tn__strbuf text = text_of(d);
  const char *copy = tn__arena_printf(tn__ir_arena(ir), "%s", tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return declare_text(ir, copy);
}

static void interpret(tn__ir *ir, const void *arg) {
  const drawn *d = arg;
  tn__target target = test_target(d->target);
  tn__schedule_options options = {.threads = 1 + d->size % 2};
  check_same(default_schedule(declare(ir, d), &target, &options));
}

static void interpreted_maps(void **state) {
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4", "aarch64"};
  for (int number = 0; number < DECLARED; number++)
    for (int size = 0; size < SIZES; size++) {
      int turn = number * SIZES + size;
      drawn d = {number, turn % TYPES, size, targets[turn % 3]};
      check_ok(in_context(interpret, &d));
    }
}

/* On blocks that begin at a page without access, or end at one. */
static void run_guarded(kernel_test *t, const drawn *d, tn_kernel kernel, const tn__func *func, const uint8_t *want) {
  void *inputs[MOST_BUFFERS] = {0}, *buffers[MOST_BUFFERS] = {NULL};
  const tn__te *te = declare(t->ir, d);
  int count = func->input_count + func->output_count;
  make_inputs(te, 3, inputs);
  for (int i = 0; i < count; i++) {
    const tn__buffer *buffer = func->params[i];
    buffers[i] =
        guarded_place(i < func->input_count ? inputs[i] : NULL, byte_count(buffer), tn_dtype_size(buffer->dtype));
    assert_non_null(buffers[i]);
  }
  buffers[count] = kernel_alloc(WORKSPACE_BYTES);
  assert_int_equal(kernel_run(kernel, buffers, NULL), TN_KERNEL_OK);
  for (int i = func->input_count; i < count; i++) {
    size_t bytes = byte_count(func->params[i]);
    if (memcmp(want, buffers[i], bytes) != 0) fail_msg("other results: %s %s", types[d->type], declared[d->number]);
    want += bytes;
  }
  for (int i = 0; i < func->input_count; i++) free(inputs[i]);
  kernel_free(buffers[count], WORKSPACE_BYTES);
  assert_true(guarded_sweep(0));
}

static void compile_one(kernel_test *t, void *user) {
  const drawn *d = user;
  uint8_t *want;
  size_t size;
  const tn__te *te = declare(t->ir, d);
  check_ok(outputs_of(te, tn__te_lower(te), NULL, 3, &want, &size));
  tn__schedule_options options = {.threads = 1};
  const tn__schedule *s = default_schedule(te, &t->target, &options);
  const tn__func *func = tn__ir_lower_for_codegen(t->ir, tn__schedule_func(s), NULL);
  tn_kernel kernel = kernel_compile(t, func);
  guarded_memory.instruction = declared[d->number];
  for (int at_start = 0; at_start < 2; at_start++) {
    guarded_memory.at_start = at_start;
    run_guarded(t, d, kernel, func, want);
  }
  free(want);
}

static void compiled_maps(void **state) {
  static const char *const targets[] = {NULL, "x86-64-v3", "x86-64"};
  bool is_x86 = tn__host_arch() == TN__ARCH_X86_64;
  guarded_catch_faults();
  for (int number = 0; number < DECLARED; number++)
    for (int turn = 0; turn < TYPES; turn++) {
      drawn d = {number, (number + 3 * turn) % TYPES, (number + turn) % SIZES, NULL};
      if (turn == 0) d.type = 0; /* bytes have groups of their own */
      kernel_with(is_x86 ? targets[turn % 3] : NULL, compile_one, &d);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(interpreted_maps), cmocka_unit_test(compiled_maps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
