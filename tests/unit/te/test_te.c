#include "te/te.h"
#include "base/strbuf.h"
#include "unit/check.h"

typedef struct fixture {
  tn__arena arena;
  tn__ir *ir;
  void (*body)(tn__ir *ir);
} fixture;

static void run_body(tn__escape *escape, void *arg) {
  fixture *f = arg;
  tn__arena_init(&f->arena, NULL, escape);
  f->ir = tn__ir_create(&f->arena);
  f->body(f->ir);
}

static tn_status *run(void (*body)(tn__ir *ir)) {
  fixture f = {.body = body};
  tn__escape escape;
  tn_status *status = tn__protect(&escape, run_body, &f);
  tn__arena_release(&f.arena);
  return status;
}

/* relu(A * B) with an open number of rows. */
static tn__te *matmul(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "matmul");
  const tn__expr *m = tn__te_dim(te, "M", 1)->self, *n = tn__ir_index(ir, 3), *k = tn__ir_index(ir, 4);
  const tn__buffer *a = tn__te_input(te, "A", TN_F32, 2, (const tn__expr *[]){m, k});
  const tn__buffer *b = tn__te_input(te, "B", TN_F32, 2, (const tn__expr *[]){k, n});
  tn__te_axes axes = tn__te_axes_create(te, "i", 2, (const tn__expr *[]){m, n});
  tn__te_axes reduce = tn__te_axes_create(te, "k", 1, &k);
  const tn__expr *left = tn__ir_load(ir, a, (const tn__expr *[]){axes.index[0], reduce.index[0]});
  const tn__expr *right = tn__ir_load(ir, b, (const tn__expr *[]){reduce.index[0], axes.index[1]});
  const tn__buffer *c = tn__te_reduce(te, "C", &axes, &reduce, TN__TE_SUM, tn__ir_mul(ir, left, right));
  tn__te_axes out = tn__te_axes_create(te, "i", 2, (const tn__expr *[]){m, n});
  const tn__expr *value = tn__ir_max(ir, tn__ir_load(ir, c, out.index), tn__ir_constant(ir, TN_F32, 0));
  tn__te_output(te, tn__te_compute(te, "D", &out, value));
  return te;
}

static void print_matmul(tn__ir *ir) {
  tn__te *te = matmul(ir);
  check_ok(tn__te_verify(te));
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__te_print(te, &text);
  assert_string_equal(tn__strbuf_text(&text),
                      "kernel matmul[M](A: f32[M, 4], B: f32[4, 3]) -> D: f32[M, 3] {\n"
                      "  C: f32[i0: M, i1: 3] = sum(k0: 4) A[i0, k0]*B[k0, i1]\n"
                      "  D: f32[i0: M, i1: 3] = max(C[i0, i1], 0.0f32)\n"
                      "}\n");
  tn__strbuf_release(&text);
}

static void prints(void **state) { check_ok(run(print_matmul)); }

static void count_flops(tn__ir *ir) {
  tn__te *te = matmul(ir);
  assert_ptr_equal(tn__te_flops(te), tn__ir_mul_i(ir, tn__te_dim_at(te, 0)->self, 2 * 3 * 4 + 3));
}

static void counts_flops(void **state) { check_ok(run(count_flops)); }

static void unbound_axis(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "bad");
  const tn__expr *n = tn__ir_index(ir, 4);
  tn__te_axes axes = tn__te_axes_create(te, "i", 1, &n), other = tn__te_axes_create(te, "j", 1, &n);
  const tn__buffer *a = tn__te_input(te, "A", TN_F32, 1, &n);
  tn__te_output(te, tn__te_compute(te, "B", &axes, tn__ir_load(ir, a, other.index)));
  check_fails(tn__te_verify(te), TN_INVALID_ARGUMENT,
              "te bad: stage B: reads j0, which is neither an axis of the stage nor a dimension");
}

static void outside(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "bad");
  const tn__expr *n = tn__ir_index(ir, 4);
  tn__te_axes axes = tn__te_axes_create(te, "i", 1, &n);
  const tn__buffer *a = tn__te_input(te, "A", TN_F32, 1, &n);
  const tn__expr *index = tn__ir_add_i(ir, axes.index[0], 4);
  tn__te_output(te, tn__te_compute(te, "B", &axes, tn__ir_load(ir, a, &index)));
  check_fails(tn__te_verify(te), TN_INVALID_ARGUMENT,
              "te bad: stage B: index 0 of A lies outside of the tensor everywhere");
}

static void no_output(tn__ir *ir) {
  check_fails(tn__te_verify(tn__te_create(ir, "empty")), TN_INVALID_ARGUMENT, "te empty: has no output");
}

static void verifies(void **state) {
  check_ok(run(unbound_axis));
  check_ok(run(outside));
  check_ok(run(no_output));
}

static void output_twice(tn__ir *ir) {
  tn__te *te = matmul(ir);
  tn__te_output(te, tn__te_output_at(te, 0));
}

static void output_of_input(tn__ir *ir) {
  tn__te *te = matmul(ir);
  tn__te_output(te, tn__te_input_at(te, 0));
}

static void refuses_outputs(void **state) {
  check_fails(run(output_twice), TN_INVALID_ARGUMENT, "te matmul: stage D: the tensor is an output already");
  check_fails(run(output_of_input), TN_INVALID_ARGUMENT,
              "te matmul: stage A: only a tensor that a stage defines can be an output");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(prints), cmocka_unit_test(counts_flops),
                                     cmocka_unit_test(verifies), cmocka_unit_test(refuses_outputs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
