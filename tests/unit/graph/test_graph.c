/* Graphs: inference and its words, symbols and elements, rewriting, printing. */
#include "unit/graph_check.h"

static const tn__expr *ix(tn__graph *g, int64_t value) { return tn__ir_index(tn__graph_ir(g), value); }

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void add_wrong_shapes(tn__graph *g) {
  tn__graph_set_origin(g, "node \"sum\" (Add, opset 14)");
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){2, 3}), *b = input_of(g, "b", TN_F32, 1, (int64_t[]){4});
  tn__g_binary(g, "add", a, b);
}

static void add_wrong_types(tn__graph *g) {
  tn__graph_set_origin(g, "node \"sum\" (Add, opset 14)");
  tn__g_binary(g, "add", tn__g_scalar(g, TN_F32, 1), tn__g_scalar(g, TN_I32, 1));
}

static void matmul_wrong(tn__graph *g) {
  tn__graph_set_origin(g, "node \"fc\" (MatMul, opset 13)");
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){2, 3}), *b = input_of(g, "b", TN_F32, 2, (int64_t[]){4, 5});
  tn__g_matmul(g, a, b, TN_F32);
}

static void conv_wrong(tn__graph *g) {
  tn__value *a = input_of(g, "a", TN_F32, 3, (int64_t[]){1, 3, 4}),
            *b = input_of(g, "b", TN_F32, 3, (int64_t[]){8, 2, 3});
  tn__conv_spec spec = {.spatial = 1, .strides = {1}, .lhs_dilation = {1}, .rhs_dilation = {1}, .feature_groups = 1};
  spec.low[0] = spec.high[0] = ix(g, 0);
  tn__g_convolution(g, a, b, &spec, TN_F32);
}

static void reshape_wrong(tn__graph *g) {
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){2, 3});
  tn__g_reshape(g, a, 1, (const tn__expr *[]){ix(g, 7)});
}

static void slice_wrong(tn__graph *g) {
  tn__value *a = input_of(g, "a", TN_F32, 1, (int64_t[]){3});
  tn__g_slice(g, a, (const tn__expr *[]){ix(g, 1)}, (const tn__expr *[]){ix(g, 4)}, (int64_t[]){1});
}

static void take_wrong(tn__graph *g) {
  tn__g_take(g, input_of(g, "a", TN_F32, 1, (int64_t[]){3}), tn__g_scalar_i64(g, TN_I64, -4), 0);
}

static void float_only(tn__graph *g) { tn__g_unary(g, "sqrt", tn__g_scalar(g, TN_I32, 4)); }

static void too_large(tn__graph *g) {
  tn__g_full(g, TN_F32, 0, 3, (const tn__expr *[]){ix(g, INT64_C(1) << 31), ix(g, INT64_C(1) << 31), ix(g, 8)});
}

static void too_large_beside_nothing(tn__graph *g) {
  tn__g_full(g, TN_F32, 0, 3, (const tn__expr *[]){ix(g, 0), ix(g, INT64_C(1) << 62), ix(g, 2)});
}

static void twice(tn__graph *g) {
  input_of(g, "a", TN_F32, 0, NULL);
  input_of(g, "a", TN_F32, 0, NULL);
}

static void layout_of(tn__graph *g, tn__value **x, const tn__layout *layout) {
  *x = tn__g_relayout(g, input_of(g, "w", TN_F32, 2, (int64_t[]){6, 5}), layout);
}

static const tn__layout panels = {.rank = 3, .parts = {{1, 4, 0}, {0, 1, 0}, {1, 1, 4}}};

static void layout_overlaps(tn__graph *g) {
  tn__value *x;
  layout_of(g, &x, &(tn__layout){.rank = 3, .parts = {{1, 4, 0}, {0, 1, 0}, {1, 1, 5}}});
}

static void layout_of_other_rank(tn__graph *g) {
  tn__value *x;
  layout_of(g, &x, &(tn__layout){.rank = 3, .parts = {{0, 1, 0}, {1, 1, 0}, {2, 1, 0}}});
}

static void layout_not_read(tn__graph *g) {
  tn__value *x;
  layout_of(g, &x, &panels);
  tn__g_unary(g, "negate", x);
}

static const tn__layout words = {.rank = 2, .parts = {{0, 1, 0}, {1, 4, 0}}, .word = {1, 4}};

static void words_of_floats(tn__graph *g) {
  tn__value *x;
  layout_of(g, &x, &words);
}

static void words_that_overlap(tn__graph *g) {
  tn__value *x = input_of(g, "x", TN_U8, 2, (int64_t[]){6, 8});
  tn__g_relayout(g, x, &(tn__layout){.rank = 2, .parts = {{0, 1, 0}, {1, 1, 0}}, .word = {1, 4}});
}

static void words_taken_apart(tn__graph *g) {
  tn__value *x = tn__g_relayout(g, input_of(g, "x", TN_U8, 2, (int64_t[]){6, 8}), &words);
  tn__g_relayout(g, x, &(tn__layout){.rank = 2, .parts = {{0, 1, 0}, {1, 1, 0}}});
}

static void words_on_one_side(tn__graph *g) {
  const int64_t left = 1, right = 0;
  tn__value *x = tn__g_relayout(g, input_of(g, "x", TN_U8, 2, (int64_t[]){6, 8}), &words);
  tn__g_dot_general(g, x, input_of(g, "b", TN_I8, 2, (int64_t[]){8, 2}), NULL, NULL, 0, &left, &right, 1, TN_I32);
}

static void words_along_the_result(tn__graph *g) {
  const int64_t left = 0, right = 0;
  tn__value *x = tn__g_relayout(g, input_of(g, "x", TN_U8, 2, (int64_t[]){6, 8}), &words);
  tn__value *y = tn__g_relayout(g, input_of(g, "y", TN_I8, 2, (int64_t[]){6, 8}), &words);
  tn__g_dot_general(g, x, y, NULL, NULL, 0, &left, &right, 1, TN_I32);
}

static void words_in_floats(tn__graph *g) {
  const int64_t left = 1, right = 1;
  tn__value *x = tn__g_relayout(g, input_of(g, "x", TN_U8, 2, (int64_t[]){6, 8}), &words);
  tn__value *y = tn__g_relayout(g, input_of(g, "y", TN_I8, 2, (int64_t[]){6, 8}), &words);
  tn__g_dot_general(g, x, y, NULL, NULL, 0, &left, &right, 1, TN_F32);
}

static void blocks_under_a_window(tn__graph *g) {
  tn__conv_spec spec = {.spatial = 1, .strides = {1}, .lhs_dilation = {1}, .rhs_dilation = {1}, .feature_groups = 1};
  spec.low[0] = spec.high[0] = ix(g, 0);
  tn__layout layout = {.rank = 4, .parts = {{0, 1, 0}, {1, 1, 0}, {2, 4, 0}, {2, 1, 4}}};
  tn__value *x = tn__g_relayout(g, input_of(g, "x", TN_F32, 3, (int64_t[]){1, 2, 8}), &layout);
  tn__g_convolution(g, x, input_of(g, "w", TN_F32, 3, (int64_t[]){3, 2, 3}), &spec, TN_F32);
}

static void says_what_is_wrong(void **state) {
  static const struct {
    void (*body)(tn__graph *g);
    const char *text;
  } cases[] = {
      {add_wrong_shapes, "node \"sum\" (Add, opset 14): the shapes f32[2, 3] and f32[4] can't be broadcast together"},
      {add_wrong_types,
       "node \"sum\" (Add, opset 14): add: operands 0 and 1 must have the same type, but are f32 and i32"},
      {matmul_wrong, "node \"fc\" (MatMul, opset 13): dot_general: dimension 0 of operand 1 is 4, but must be 3"},
      {conv_wrong, "convolution: operand 0 has 3 channels, but the weights are for 2 in 1 groups"},
      {reshape_wrong, "reshape: f32[2, 3] has 6 elements, the new shape 7"},
      {slice_wrong, "slice: [1, 4) is not within dimension 0 of f32[3]"},
      {take_wrong, "take: index -4 is outside of a dimension of 3"},
      {float_only, "sqrt: is not defined for type i32"},
      {too_large, "tensor \"c1\" would have more bytes than can be addressed"},
      {too_large_beside_nothing, "tensor \"c1\" would have more bytes than can be addressed"},
      {layout_overlaps,
       "relayout: f32[6, 5] cannot have the layout: the parts of dimension 1 leave a gap or never end"},
      {layout_of_other_rank, "relayout: f32[6, 5] cannot have the layout: it has no dimension 2"},
      {layout_not_read, "negate: operand 0 is f32[2, 6, 4] of [6, 5] in {1/4, 0, 1%4}, and layouts are not read"},
      {words_of_floats, "relayout: f32[6, 5] cannot have the layout: words are of four bytes"},
      {words_that_overlap,
       "relayout: u8[6, 8] cannot have the layout: the parts of dimension 1 leave a gap or never end"},
      {words_taken_apart,
       "relayout: i32[6, 2] of u8[6, 8] in {0, 1/4 | 1%4} cannot have the layout: words are not taken apart"},
      {words_on_one_side,
       "dot_general: operand 1 is i8[8, 2]: where one operand is stored in words, operand 0 is of u8, operand 1 of i8, "
       "both in words along the dimensions that are summed over"},
      {words_along_the_result,
       "dot_general: operand 0 is i32[6, 2] of u8[6, 8] in {0, 1/4 | 1%4}: where one operand is stored in words, "
       "operand 0 is of u8, operand 1 of i8, both in words along the dimensions that are summed over"},
      {words_in_floats, "dot_general: sums of words of bytes are of type i32"},
      {blocks_under_a_window,
       "convolution: operand 0 is f32[1, 2, 2, 4] of [1, 2, 8] in {0, 1, 2/4, 2%4}: dimension 2, along which windows "
       "move, is stored in blocks"},
      {twice, "there are two graph inputs named \"a\""},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    graph_fixture *f = *state;
    f->graph = tn__graph_create(f->ir, "test");
    check_throws(state, cases[i].body, TN_INVALID_ARGUMENT, cases[i].text);
  }
}

/* An LSTM's state is often called c0, which is what the first constant is called, too. */
static void inputs_keep_their_names(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *constant = tn__g_scalar_i64(g, TN_I64, 7);
  assert_string_equal(constant->name, "c0");
  tn__value *x = input_of(g, "c0", TN_I64, 0, NULL);
  assert_string_equal(x->name, "c0");
  assert_string_equal(constant->name, "c0_1");
  tn__value *sign = tn__g_unary(g, "sign", x);
  tn__value *y = input_of(g, sign->name, TN_I64, 0, NULL);
  assert_string_not_equal(sign->name, y->name);
  check_ok(tn__graph_verify(g));
}

/* ---- symbols and elements ---------------------------------------------------------------------------------------- */

static void check_elements(const tn__value *value, const char *text) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  int64_t count = 1;
  for (int i = 0; i < value->rank; i++) count *= tn__g_dim_const(value, i);
  assert_non_null(value->elements);
  for (int64_t i = 0; i < count; i++) {
    if (i > 0) tn__strbuf_append(&buf, ", ");
    tn__expr_print(value->elements[i], &buf);
  }
  assert_string_equal(tn__strbuf_text(&buf), text);
  tn__strbuf_release(&buf);
}

/* The shape arithmetic that exporters write: shape, gather, multiply, concatenate, cast. */
static void carries_shapes_as_data(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 3, (int64_t[]){-1, -2, 768});
  tn__value *shape = tn__g_from_elements(g, TN_I64, x->dims, 3, 1);
  check_elements(shape, "n1, n2, 768");
  tn__value *batch = tn__g_take(g, shape, tn__g_scalar_i64(g, TN_I64, 0), 0);
  check_elements(batch, "n1");
  tn__value *last = tn__g_take(g, shape, tn__g_scalar_i64(g, TN_I64, -1), 0);
  tn__value *width = tn__g_binary(g, "divide", last, tn__g_scalar_i64(g, TN_I64, 12));
  check_elements(width, "64");
  tn__value *half = tn__g_binary(g, "divide", tn__g_take(g, shape, tn__g_scalar_i64(g, TN_I64, 1), 0),
                                 tn__g_scalar_i64(g, TN_I64, 2));
  check_elements(half, "n2/2");
  const tn__expr *one = ix(g, 1);
  tn__value *parts[] = {tn__g_reshape(g, batch, 1, &one), tn__g_i64s(g, (int64_t[]){12}, 1),
                        tn__g_reshape(g, width, 1, &one)};
  tn__value *target = tn__g_concatenate(g, parts, 3, 0);
  check_elements(tn__g_convert(g, target, TN_I32), "n1, 12, 64");
  /* Where(shape == -1, 1, shape): dimensions are never -1. */
  tn__value *hole = tn__g_compare(g, TN__CMP_EQ, shape, tn__g_scalar_i64(g, TN_I64, -1));
  check_elements(tn__g_select(g, hole, tn__g_scalar_i64(g, TN_I64, 1), shape), "n1, n2, 768");
  const int64_t axis = 0;
  check_elements(tn__g_reduce(g, TN__REDUCE_PROD, shape, &axis, 1, false), "n1*n2*768");
}

/* Cast(Ceil(13.0 / 2.0)) * n, as exporters write sizes that were floating numbers in between. */
static void known_numbers_survive_floats(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *half = tn__g_binary(g, "divide", tn__g_scalar(g, TN_F32, 13), tn__g_scalar(g, TN_F32, 2));
  tn__value *size = tn__g_convert(g, tn__g_unary(g, "ceil", half), TN_I64);
  check_elements(size, "7");
  check_elements(tn__g_compare(g, TN__CMP_LT, half, tn__g_scalar(g, TN_F32, 6.5)), "0");
  tn__value *x = input_of(g, "x", TN_F32, 1, (int64_t[]){-1});
  tn__value *symbol = tn__g_from_elements(g, TN_I64, x->dims, 1, 0);
  check_elements(tn__g_binary(g, "multiply", symbol, size), "n1*7");
  assert_null(tn__g_unary(g, "ceil", tn__g_convert(g, symbol, TN_F32))->elements); /* only numbers */
}

/* Exporters write the padding of PyTorch's order so: pairs, from the last dimension to the first. */
static void known_elements_survive_matrices(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){-1, -2, -3, -4});
  tn__value *shape = tn__g_from_elements(g, TN_I64, x->dims, 4, 1);
  const tn__expr *pairs[] = {ix(g, 2), ix(g, 2)}, *thrice[] = {ix(g, 2), ix(g, 2), ix(g, 1)}, *flat = ix(g, 4);
  tn__value *matrix = tn__g_reshape(g, shape, 2, pairs);
  const int64_t rows = 0, turn[] = {1, 0}, ones[] = {1, 1};
  tn__value *turned = tn__g_transpose(g, tn__g_reverse(g, matrix, &rows, 1), turn);
  check_elements(tn__g_reshape(g, turned, 1, &flat), "n3, n1, n4, n2");
  const tn__expr *starts[] = {ix(g, 0), ix(g, 1)};
  check_elements(tn__g_slice(g, matrix, starts, pairs, ones), "n2, n4");
  check_elements(tn__g_take(g, matrix, tn__g_i64s(g, (int64_t[]){-1, 0}, 2), 1), "n2, n1, n4, n3");
  check_elements(tn__g_take(g, matrix, tn__g_scalar_i64(g, TN_I64, 1), 0), "n3, n4");
  tn__value *parts[] = {matrix, turned};
  check_elements(tn__g_concatenate(g, parts, 2, 1), "n1, n2, n3, n1, n3, n4, n4, n2");
  const int64_t axes[] = {0, 2};
  tn__value *column = tn__g_slice(g, matrix, starts, pairs, ones);
  check_elements(tn__g_broadcast_in_dim(g, column, 3, thrice, axes), "n2, n2, n4, n4");
}

static void reads_symbols_from_data(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *shape = input_of(g, "shape", TN_I64, 1, (int64_t[]){2});
  int count;
  const tn__expr *const *elements = tn__graph_elements(g, shape, &count);
  assert_int_equal(count, 2);
  tn__value *full = tn__g_full(g, TN_F32, 7, 2, elements);
  check_type(full, "f32[shape_e0, shape_e1]");
  assert_ptr_equal(tn__graph_elements(g, shape, &count), elements);
  const tensor in[] = {{(int64_t[]){1, 3}, {2}}};
  CHECK_RESULT(state, in, full, 7, 7, 7);
}

/* Each element is made of three of the step before: written out, 3^n operations. */
static void reads_what_is_long_from_data(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){-1, -2, -3, -4});
  tn__value *sizes = tn__g_from_elements(g, TN_I64, x->dims, 4, 1);
  int steps = 0, count;
  for (; sizes->elements != NULL && steps < 100; steps++) {
    tn__value *next = tn__g_take(g, sizes, tn__g_i64s(g, (int64_t[]){1, 2, 3, 0}, 4), 0);
    tn__value *greatest = tn__g_binary(g, "maximum", sizes, next);
    sizes = tn__g_binary(g, "add", greatest, next);
  }
  assert_in_range(steps, 3, 20);
  int before = tn__graph_symbol_count(g);
  const tn__expr *const *elements = tn__graph_elements(g, sizes, &count);
  assert_int_equal(tn__graph_symbol_count(g), before + 4);
  for (int i = 0; i < 4; i++) assert_int_equal(tn__expr_size(elements[i]), 1);
}

static const tn__expr *long_size(tn__graph *g, tn__value *x) {
  tn__ir *ir = tn__graph_ir(g);
  const tn__expr *size = x->dims[0];
  for (int i = 0; i < 12; i++)
    size = tn__ir_max(ir, tn__ir_div_i(ir, tn__ir_add(ir, size, x->dims[1]), 3), tn__ir_mod_i(ir, size, 97));
  assert_true(tn__expr_size(size) > TN__MAX_EXPRESSION);
  return size;
}

static void long_dimensions_are_symbols(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){-1, -2});
  const tn__expr *size = long_size(g, x);
  tn__value *a = tn__g_full(g, TN_F32, 1, 1, &size), *b = tn__g_full(g, TN_F32, 2, 1, &size);
  assert_int_equal(a->dims[0]->kind, TN__EXPR_VAR);
  assert_ptr_equal(a->dims[0], b->dims[0]); /* so that both can be added without a check */
  check_type(tn__g_binary(g, "add", a, b), "f32[from_elements1_n]");
  assert_int_equal(tn__graph_check_count(g), 0);
}

static void put_number(void *user, const tn__expr *size, tn__strbuf *out) { tn__strbuf_append(out, "7"); }

static void checks_at_run_what_it_assumes(void **state) {
  tn__graph *g = graph_of(state);
  tn__graph_set_origin(g, "node \"sum\" (Add, opset 14)");
  tn__value *a = input_of(g, "a", TN_F32, 1, (int64_t[]){-1}), *b = input_of(g, "b", TN_F32, 1, (int64_t[]){-2});
  check_type(tn__g_binary(g, "add", a, b), "f32[select(n1 == 1, n2, n1)]");
  check_type(tn__g_binary(g, "add", b, a), "f32[select(n1 == 1, n2, n1)]"); /* the same shape */
  int count = tn__graph_check_count(g);
  tn__g_binary(g, "multiply", a, b);
  assert_int_equal(tn__graph_check_count(g), count); /* the same ones */
  const tn__check_at_run *check = tn__graph_check_at(g, 0);
  assert_string_equal(check->origin, "node \"sum\" (Add, opset 14)");
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__graph_check_text(g, check, put_number, NULL, &text);
  assert_string_equal(tn__strbuf_text(&text),
                      "dimension 0 of operand 0 is n1 = 7, and dimension 0 of operand 1 is n2 = 7: they must be equal, "
                      "or one of them 1");
  tn__strbuf_release(&text);
}

static void stretches_when_the_run_says_so(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 1, (int64_t[]){-1});
  tn__value *wide = tn__g_broadcast_to(g, a, 2, (const tn__expr *[]){ix(g, 2), ix(g, 3)});
  const tensor one[] = {{(float[]){4}, {1}}}, three[] = {{(float[]){4, 5, 6}, {3}}};
  CHECK_RESULT(state, one, wide, 4, 4, 4, 4, 4, 4);
  CHECK_RESULT(state, three, wide, 4, 5, 6, 4, 5, 6);
}

/* ---- rewriting and printing -------------------------------------------------------------------------------------- */

static void check_printed(const tn__graph *g, const char *text) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__graph_print(g, &buf);
  assert_string_equal(tn__strbuf_text(&buf), text);
  tn__strbuf_release(&buf);
}

static void sweeps(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){-1, 3});
  tn__value *a = tn__g_unary(g, "negate", x), *b = tn__g_unary(g, "abs", a);
  tn__graph_output(g, "y", tn__g_binary(g, "add", b, x));
  int count;
  assert_int_equal(tn__graph_use_counts(g, &count)[a->id], 1);
  assert_int_equal(count, 4);
  /* A new node that stands behind its user takes b's place. */
  tn__value *c = tn__g_unary(g, "sign", x);
  tn__graph_replace_uses(g, b, c);
  a->producer->dead = b->producer->dead = true;
  tn__graph_sweep(g);
  check_ok(tn__graph_verify(g));
  check_printed(g,
                "graph \"test\" {\n"
                "  input x: f32[n1, 3]\n"
                "  sign3: f32[n1, 3] = sign(x)\n"
                "  add2: f32[n1, 3] = add(sign3, x)\n"
                "  output \"y\" = add2\n"
                "}\n");
}

static void keeps_layouts(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *w;
  layout_of(g, &w, &panels);
  const int64_t left = 1, right = 0;
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){2, 6});
  tn__graph_output(g, "y", tn__g_dot_general(g, x, w, NULL, NULL, 0, &left, &right, 1, TN_F32));
  check_ok(tn__graph_verify(g));
  check_printed(
      g,
      "graph \"test\" {\n"
      "  input w: f32[6, 5]\n"
      "  input x: f32[2, 6]\n"
      "  relayout0: f32[2, 6, 4] of [6, 5] in {1/4, 0, 1%4} = relayout(w) {parts=[1, 4, 0, 0, 1, 0, 1, 1, 4]}\n"
      "  dot_general1: f32[2, 5] = dot_general(x, relayout0) {lhs_batch=[], rhs_batch=[], lhs_contract=1, "
      "rhs_contract=0, dtype=\"f32\"}\n"
      "  output \"y\" = dot_general1\n"
      "}\n");
  tn__value_hold(g, w, &(tn__held){TN_F32, 2, (const tn__expr *[]){ix(g, 6), ix(g, 9)}, panels});
  check_fails(
      tn__graph_verify(g), TN_INTERNAL,
      "graph \"test\": dot_general reads \"relayout0\", which is f32[2, 6, 4] of [6, 9] in {1/4, 0, 1%4}: these do "
      "not belong together");
  tn__value_hold(g, w, &(tn__held){TN_F32, 2, (const tn__expr *[]){ix(g, 6), ix(g, 5)}, panels});
  tn__graph_output(g, "w", w);
  check_fails(tn__graph_verify(g), TN_INTERNAL,
              "graph \"test\": its result \"w\" is f32[2, 6, 4] of [6, 5] in {1/4, 0, 1%4}: a result has no layout");
}

/* Readers are known by value, so that what replaces one of many values does not look at all nodes. */
static void knows_readers(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 1, (int64_t[]){3}), *y = input_of(g, "y", TN_F32, 1, (int64_t[]){3});
  tn__value *twice = tn__g_binary(g, "add", x, x), *once = tn__g_binary(g, "multiply", twice, x);
  tn__graph_output(g, "z", once);
  tn__graph_replace_uses(g, x, y);
  assert_ptr_equal(twice->producer->inputs[0], y);
  assert_ptr_equal(twice->producer->inputs[1], y);
  assert_ptr_equal(once->producer->inputs[1], y);
  assert_int_equal(x->readers.count, 0);
  tn__node_set_input(g, once->producer, 1, x);
  tn__graph_replace_uses(g, y, twice); /* `once` does not read it any more, though it did */
  assert_ptr_equal(once->producer->inputs[1], x);
  tn__node_set_input(g, twice->producer, 0, x);
  tn__node_set_input(g, twice->producer, 1, x);
  check_ok(tn__graph_verify(g));
  once->producer->inputs[1] = y;
  check_fails(tn__graph_verify(g), TN_INTERNAL, "graph \"test\": an operand was not set by tn__node_set_input");
}

static void resolves_symbols(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_I64, 1, (int64_t[]){2});
  tn__value *shape = tn__g_unary(g, "negate", x);
  int count;
  tn__value *full = tn__g_full(g, TN_F32, 1, 2, tn__graph_elements(g, shape, &count));
  tn__graph_output(g, "y", full);
  assert_int_equal(tn__graph_symbol_count(g), 2);
  tn__graph_replace_uses(g, shape, tn__g_i64s(g, (int64_t[]){2, 5}, 2)); /* as constant folding does */
  shape->producer->dead = true;
  tn__graph_sweep(g);
  assert_int_equal(tn__graph_symbol_count(g), 0);
  check_type(full, "f32[2, 5]");
  check_printed(g,
                "graph \"test\" {\n"
                "  input x: i64[2]\n"
                "  const c2: f32[] = 1.0\n"
                "  broadcast_in_dim1: f32[2, 5] = broadcast_in_dim(c2) {shape=(2, 5), axes=[]}\n"
                "  output \"y\" = broadcast_in_dim1\n"
                "}\n");
}

static void resolves_symbols_of_layouts(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *shape = tn__g_unary(g, "negate", input_of(g, "x", TN_I64, 1, (int64_t[]){2}));
  const tn__layout turned = {.rank = 2, .parts = {{1, 1, 0}, {0, 1, 0}}};
  const int64_t rows = 0;
  int count;
  tn__value *full = tn__g_full(g, TN_F32, 1, 2, tn__graph_elements(g, shape, &count));
  tn__value *stored = tn__g_relayout(g, full, &turned);
  tn__graph_output(g, "y", tn__g_dot_general(g, full, stored, NULL, NULL, 0, &rows, &rows, 1, TN_F32));
  tn__graph_replace_uses(g, shape, tn__g_i64s(g, (int64_t[]){2, 5}, 2));
  shape->producer->dead = true;
  tn__graph_sweep(g);
  check_type(stored, "f32[5, 2] of [2, 5] in {1, 0}");
  check_ok(tn__graph_verify(g));
}

static tn__graph *branch(tn__graph *g, const char *name, int64_t rows) {
  tn__graph *body = tn__graph_create(tn__graph_ir(g), name);
  tn__value *x = input_of(body, "x", TN_F32, 2, (int64_t[]){-1, 3});
  const tn__expr *dims[] = {ix(g, rows), x->dims[0], ix(g, 3)};
  tn__graph_output(body, "y", tn__g_broadcast_to(body, x, 3, dims));
  return body;
}

static void infers_control(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){-7, 3}), *c = input_of(g, "c", TN_BOOL, 0, NULL);
  tn__node *same = tn__g_if(g, c, branch(g, "a", 2), branch(g, "b", 2), &x, 1);
  check_type(same->outputs[0], "f32[2, n7, 3]");
  tn__node *other = tn__g_if(g, c, branch(g, "a", 2), branch(g, "b", 4), &x, 1);
  check_type(other->outputs[0], "f32[if1_d0, n7, 3]");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(says_what_is_wrong),
      TEST(inputs_keep_their_names),
      TEST(carries_shapes_as_data),
      TEST(known_elements_survive_matrices),
      TEST(known_numbers_survive_floats),
      TEST(reads_symbols_from_data),
      TEST(reads_what_is_long_from_data),
      TEST(long_dimensions_are_symbols),
      TEST(checks_at_run_what_it_assumes),
      TEST(stretches_when_the_run_says_so),
      TEST(sweeps),
      TEST(keeps_layouts),
      TEST(knows_readers),
      TEST(resolves_symbols),
      TEST(resolves_symbols_of_layouts),
      TEST(infers_control),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
