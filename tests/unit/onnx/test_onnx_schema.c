/* What the table of schemas holds a node to, before any function of the importer's sees it: the words for each kind. */
#include "unit/check.h"

#include "base/arena.h"
#include "import/onnx/onnx.h"
#include "import/onnx/schema.h"
#include "unit/onnx_build.h"

enum { MOST_INPUTS = 8, ONNX_BFLOAT16 = 16 };

typedef struct operand {
  const char *name;
  int type;
  const char *dims;
} operand;

typedef struct model_case {
  const char *op;
  int64_t opset;
  operand inputs[MOST_INPUTS]; /* in order; a name of "" is an absent one */
  const char *outputs;
  const char *attribute; /* NAME=INTEGER, or NAME:TEXT */
  const char *second;
  const char *error;   /* behind "m.onnx: node #0 (OP, opset N): "; NULL: it is imported */
  tn_status_code code; /* TN_OK: TN_INVALID_ARGUMENT */
} model_case;

static void add_attribute(pb *node, const char *text) {
  char name[64];
  if (text == NULL) return;
  size_t length = strcspn(text, "=:");
  assert_true(length < sizeof(name));
  memcpy(name, text, length);
  name[length] = '\0';
  if (text[length] == '=')
    onnx_attr_int(node, name, strtoll(text + length + 1, NULL, 10));
  else
    onnx_attr_text(node, name, text + length + 1);
}

static pb build(const model_case *c) {
  pb graph = {0}, node, info = {0};
  char names[256] = "";
  for (int i = 0; i < MOST_INPUTS && c->inputs[i].name != NULL; i++) {
    if (i > 0) strcat(names, ",");
    strcat(names, c->inputs[i].name);
    if (c->inputs[i].name[0] != '\0') onnx_input(&graph, c->inputs[i].name, c->inputs[i].type, c->inputs[i].dims);
  }
  node = onnx_node_begin(c->op, "", names, c->outputs == NULL ? "y" : c->outputs);
  add_attribute(&node, c->attribute);
  add_attribute(&node, c->second);
  pb_message(&graph, 1, &node);
  pb_text(&info, 1, "y");
  pb_message(&graph, 12, &info);
  return onnx_model(c->opset, &graph);
}

typedef struct attempt {
  tn__arena arena;
  pb model;
} attempt;

static void import_body(tn__escape *escape, void *arg) {
  attempt *a = arg;
  tn__onnx_model *model = tn__onnx_open(&a->arena, "m.onnx", a->model.data, a->model.size);
  tn__check(escape, tn__graph_verify(tn__onnx_import(model, tn__ir_create(&a->arena), NULL)));
}

/* Imports the model, and frees it; `text` NULL: it is right. */
static void expect(pb model, tn_status_code code, const char *text) {
  tn__escape escape;
  attempt a = {.model = model};
  tn__arena_init(&a.arena, NULL, &escape);
  tn_status *status = tn__protect(&escape, import_body, &a);
  if (text == NULL)
    check_ok(status);
  else
    check_fails(status, code, text);
  tn__arena_release(&a.arena);
  pb_free(&a.model);
}

static void try(const model_case *c) {
  char text[512];
  if (c->error != NULL)
    snprintf(text, sizeof(text), "m.onnx: node #0 (%s, opset %lld): %s", c->op, (long long)c->opset, c->error);
  expect(build(c), c->code == TN_OK ? TN_INVALID_ARGUMENT : c->code, c->error == NULL ? NULL : text);
}

static void try_all(const model_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++) try(&cases[i]);
}
#define TRY_ALL(cases) try_all(cases, sizeof(cases) / sizeof(*(cases)))

#define F ONNX_FLOAT

/* Each of these brought the importer down, or made it read what was not there. */
static void refuses_ranks_that_nothing_is_defined_for(void **state) {
  const model_case cases[] = {
      {"LSTM",
       22,
       {{"x", F, "3,2,4"}, {"w", F, "1,8,4"}, {"r", F, "1,8,2"}, {"b", F, "1,16,1"}},
       .attribute = "hidden_size=2",
       .error = "input 3 \"b\" (B of LSTM) has 3 dimensions, expected 2"},
      {"LSTM",
       22,
       {{"x", F, "3,2,4"}, {"w", F, "1,8,4"}, {"r", F, "1,8,2"}, {"b", F, "16"}},
       .attribute = "hidden_size=2",
       .error = "input 3 \"b\" (B of LSTM) has 1 dimension, expected 2"},
      {"LSTM",
       22,
       {{"x", F, "3,2,4"}, {"w", F, "1,8,4"}, {"r", F, "1,8,2"}, {""}, {"n", ONNX_INT32, ""}},
       .attribute = "hidden_size=2",
       .error = "input 4 \"n\" (sequence_lens of LSTM) has 0 dimensions, expected 1"},
      {"GRU",
       22,
       {{"x", F, "3,2,4"}, {"w", F, "1,6,4"}, {"r", F, "1,6,2"}, {""}, {""}, {"h", F, "2,2"}},
       .attribute = "hidden_size=2",
       .error = "input 5 \"h\" (initial_h of GRU) has 2 dimensions, expected 3"},
      {"Attention",
       24,
       {{"q", F, "1,2,3,4"}, {"k", F, "1,2,3,4"}, {"v", F, "1,2,3,4"}, {""}, {""}, {""}, {"n", ONNX_INT64, ""}},
       .error = "input 6 \"n\" (nonpad_kv_seqlen of Attention) has 0 dimensions, expected 1"},
      {"Attention",
       24,
       {{"q", F, "1,2,3,4"}, {"k", F, "1,2,12"}, {"v", F, "1,2,3,4"}},
       .error = "input 1 \"k\" (K of Attention) has 3 dimensions, expected 4, as many as input 0 (Q)"},
      {"DeformConv",
       22,
       {{"x", F, "1,1,3,3"}, {"w", F, "1,1,2,2"}, {"o", F, "1,8,2,2"}, {""}, {"m", F, ""}},
       .error = "input 4 \"m\" (mask of DeformConv) has 0 dimensions, expected 4, as many as input 0 (X)"},
      {"LinearAttention",
       27,
       {{"q", F, "1,2,4"}, {"k", F, "1,2,4"}, {"v", F, "1,2,4"}, {""}, {"d", F, "1,2"}, {"b", F, "1,2,1"}},
       .attribute = "q_num_heads=1",
       .second = "kv_num_heads=1",
       .error = "input 4 \"d\" (decay of LinearAttention) has 2 dimensions, expected 3"},
      {"LinearAttention",
       27,
       {{"q", F, "1,2,4"}, {"k", F, "1,2,4"}, {"v", F, "1,2,4"}, {""}, {"d", F, "1,2,4"}, {"b", F, "1,2"}},
       .attribute = "q_num_heads=1",
       .second = "kv_num_heads=1",
       .error = "input 5 \"b\" (beta of LinearAttention) has 2 dimensions, expected 3"},
  };
  TRY_ALL(cases);
}

static void says_which_ranks_there_may_be(void **state) {
  const model_case cases[] = {
      {"MaxPool", 22, {{"x", F, "3,4"}}, .error = "input 0 \"x\" (X of MaxPool) has 2 dimensions, expected at least 3"},
      {"Gemm",
       13,
       {{"a", F, "2,3"}, {"b", F, "3,4"}, {"c", F, "1,2,4"}},
       .error = "input 2 \"c\" (C of Gemm) has 3 dimensions, expected 0 to 2"},
      {"CumSum",
       14,
       {{"x", F, "2,3"}, {"a", ONNX_INT64, "1,1"}},
       .error = "input 1 \"a\" (axis of CumSum) has 2 dimensions, expected 0 or 1"},
      {"PRelu",
       16,
       {{"x", F, "2,3"}, {"s", F, "1,2,3"}},
       .error = "input 1 \"s\" (slope of PRelu) has 3 dimensions, expected at most 2, as many as input 0 (X)"},
      {"NegativeLogLikelihoodLoss",
       22,
       {{"x", F, "2,3"}, {"t", ONNX_INT64, "2,3"}},
       .error =
           "input 1 \"t\" (target of NegativeLogLikelihoodLoss) has 2 dimensions, expected 1, one less than input 0 "
           "(input)"},
      {"QuantizeLinear",
       21,
       {{"x", F, "2,3,4"}, {"s", F, "2,3"}},
       .error =
           "input 1 \"s\" (y_scale of QuantizeLinear) has 2 dimensions, expected 0 or 1 or 3, as many as input 0 (x)"},
      {"CumSum", 14, {{"x", F, "2,3"}, {"a", ONNX_INT64, "1"}}},
  };
  TRY_ALL(cases);
}

#define TWELVE "1,1,1,1,1,1,1,1,1,1,1,1"

static void refuses_results_of_too_many_dimensions(void **state) {
  const model_case one_hot = {"OneHot",
                              11,
                              {{"x", ONNX_INT64, TWELVE}, {"d", ONNX_INT64, ""}, {"v", F, "2"}},
                              .code = TN_UNSUPPORTED,
                              .error = "one_hot: makes a tensor with 13 dimensions; at most 12 are supported"};
  try(&one_hot);
  pb type = onnx_tensor_type(F, TWELVE), sequence = {0}, whole = {0}, input = {0}, graph = {0}, output = {0};
  pb_message(&sequence, 1, &type);
  pb_message(&whole, 4, &sequence);
  pb_text(&input, 1, "s");
  pb_message(&input, 2, &whole);
  pb_message(&graph, 11, &input);
  pb node = onnx_node_begin("ConcatFromSequence", "", "s", "y");
  onnx_attr_int(&node, "axis", 0);
  onnx_attr_int(&node, "new_axis", 1);
  pb_message(&graph, 1, &node);
  pb_text(&output, 1, "y");
  pb_message(&graph, 12, &output);
  expect(onnx_model(17, &graph), TN_UNSUPPORTED,
         "m.onnx: node #0 (ConcatFromSequence, opset 17): sequence_join: makes a tensor with 13 dimensions; at most 12 "
         "are supported");
}

static void refuses_wrong_types(void **state) {
  const model_case cases[] = {
      {"Not", 17, {{"x", F, "2"}}, .error = "input 0 \"x\" (X of Not) is f32, expected bool"},
      {"GatherND",
       13,
       {{"x", F, "2,3"}, {"i", ONNX_INT32, "1,2"}},
       .error = "input 1 \"i\" (indices of GatherND) is i32, expected i64"},
      {"Gather",
       13,
       {{"x", F, "2,3"}, {"i", F, "1"}},
       .error = "input 1 \"i\" (indices of Gather) is f32, expected i32 or i64"},
      {"Max",
       13,
       {{"a", F, "2"}, {"b", F, "2"}, {"c", ONNX_DOUBLE, "2"}},
       .error = "input 2 \"c\" (data_0 of Max) is f64, expected f32, the type of input 0 (data_0)"},
      {"SequenceLength",
       13,
       {{"x", F, "2"}},
       .error = "input 0 \"x\" (input_sequence of SequenceLength) is a tensor, expected a sequence"},
      /* A later version takes it. */
      {"Conv", 11, {{"x", ONNX_BFLOAT16, "1,1,3"}, {"w", ONNX_BFLOAT16, "1,1,2"}}},
  };
  TRY_ALL(cases);
}

static void counts_operands(void **state) {
  const model_case cases[] = {
      {"Clip", 6, {{"x", F, "2"}, {"l", F, ""}}, .error = "has 2 inputs; Clip takes at most 1"},
      {"Where",
       16,
       {{"c", ONNX_BOOL, "2"}, {""}, {"b", F, "2"}},
       .error = "input 1 (X) is missing; Where needs at least 3"},
      {"Concat",
       13,
       {{"a", F, "2"}, {""}, {"b", F, "2"}},
       .attribute = "axis=0",
       .error = "input 1 (inputs) is missing; Concat needs at least 1"},
      {"Attention",
       24,
       {{"q", F, "1,2,3,4"}, {"k", F, "1,2,3,4"}, {"v", F, "1,2,3,4"}, {""}, {"p", F, "1,2,3,4"}},
       .error = "input 5 (past_value) is missing; past keys and past values come together"},
      {"TopK", 24, {{"x", F, "5"}, {"k", ONNX_INT64, "1"}}, .outputs = ",y"}, /* a result that nobody wants */
  };
  TRY_ALL(cases);
}

static void knows_the_attributes_of_each_version(void **state) {
  const model_case cases[] = {
      {"Relu",
       17,
       {{"x", F, "2"}},
       .attribute = "alpha=1",
       .error = "attribute \"alpha\" is unknown to Relu in operator set 17"},
      {"ReduceMax",
       12,
       {{"x", F, "2"}},
       .attribute = "noop_with_empty_axes=0",
       .error = "attribute \"noop_with_empty_axes\" is unknown to ReduceMax in operator set 12; it came with 18"},
      {"Add",
       17,
       {{"a", F, "2"}, {"b", F, "2"}},
       .attribute = "broadcast=1",
       .error = "attribute \"broadcast\" is unknown to Add in operator set 17; it went with 7"},
      {"Concat", 13, {{"a", F, "2"}}, .error = "attribute \"axis\" is missing"},
      {"Cast", 13, {{"a", F, "2"}}, .attribute = "to:FLOAT", .error = "attribute \"to\" is not an integer"},
      {"Relu", 17, {{"x", F, "2"}}, .attribute = "__origin=1"}, /* ONNX leaves such names to tools */
  };
  TRY_ALL(cases);
}

typedef struct known {
  tn__arena arena;
  const tn__onnx_op_use *ops;
  int count;
} known;

static void known_body(tn__escape *escape, void *arg) {
  known *k = arg;
  k->count = tn__onnx_known_ops(&k->arena, &k->ops);
}

static void has_a_row_for_every_operator(void **state) {
  tn__escape escape;
  known k = {0};
  tn__arena_init(&k.arena, NULL, &escape);
  check_ok(tn__protect(&escape, known_body, &k));
  for (int i = 0; i < k.count; i++) {
    const tn__onnx_op_use *op = &k.ops[i];
    if (op->supported && tn__onnx_schema_find(op->domain, op->name, op->since_version) == NULL)
      fail_msg("%s has no schema", op->name);
    assert_null(tn__onnx_schema_find(op->domain, op->name, 0));
  }
  assert_null(tn__onnx_schema_find("", "Frobnicate", 20));
  assert_null(tn__onnx_schema_find("", "Gelu", 19));
  assert_non_null(tn__onnx_schema_find("", "Gelu", 20));
  tn__arena_release(&k.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_ranks_that_nothing_is_defined_for),
      cmocka_unit_test(says_which_ranks_there_may_be),
      cmocka_unit_test(refuses_results_of_too_many_dimensions),
      cmocka_unit_test(refuses_wrong_types),
      cmocka_unit_test(counts_operands),
      cmocka_unit_test(knows_the_attributes_of_each_version),
      cmocka_unit_test(has_a_row_for_every_operator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
