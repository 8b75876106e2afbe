/* Opening and importing ONNX models: what right ones become, and the words for each kind of wrong one. */
#include "unit/check.h"

#include "base/arena.h"
#include "import/onnx/onnx.h"
#include "unit/failing_allocator.h"
#include "unit/onnx_build.h"

typedef struct attempt {
  const pb *model;
  const tn__onnx_options *options;
  tn__arena arena;
  tn__graph *graph;
} attempt;

static void import_body(tn__escape *escape, void *arg) {
  attempt *a = arg;
  tn__onnx_model *model =
      tn__onnx_open(&a->arena, "m.onnx", a->model->data == NULL ? (const void *)"" : a->model->data, a->model->size);
  tn__ir *ir = tn__ir_create(&a->arena);
  a->graph = tn__onnx_import(model, ir, a->options);
  tn__check(escape, tn__graph_verify(a->graph));
}

static tn_status *import(attempt *a, const pb *model) {
  tn__escape escape;
  a->model = model;
  tn__arena_init(&a->arena, NULL, &escape);
  tn_status *status = tn__protect(&escape, import_body, a);
  a->arena.escape = NULL;
  return status;
}

static void expect_fail(pb model, tn_status_code code, const char *text) {
  attempt a = {0};
  check_fails(import(&a, &model), code, text);
  tn__arena_release(&a.arena);
  pb_free(&model);
}

/* x [2, 3] and y around the nodes that the test adds. */
static pb graph_xy(void) {
  pb graph = {0};
  pb_text(&graph, 2, "g");
  onnx_input(&graph, "x", ONNX_FLOAT, "2,3");
  return graph;
}
static pb finish(pb graph) {
  onnx_output(&graph, "y", ONNX_FLOAT, "");
  return onnx_model(17, &graph);
}
/* Without a declared type for the output. */
static pb finish_open(pb graph) {
  pb info = {0};
  pb_text(&info, 1, "y");
  pb_message(&graph, 12, &info);
  return onnx_model(17, &graph);
}

static pb matmul_relu(void) {
  static const int64_t dims[] = {3, 40};
  float weights[120];
  for (int i = 0; i < 120; i++) weights[i] = (float)i;
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "rows,3");
  onnx_raw(&graph, "w", ONNX_FLOAT, dims, 2, weights, sizeof(weights));
  onnx_node(&graph, "MatMul", "product", "x,w", "h");
  onnx_node(&graph, "Relu", "", "h", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "rows,40");
  return onnx_model(17, &graph);
}

static void imports_a_model(void **state) {
  pb model = matmul_relu();
  attempt a = {0};
  check_ok(import(&a, &model));
  assert_int_equal(tn__graph_input_count(a.graph), 1);
  assert_int_equal(tn__graph_output_count(a.graph), 1);
  assert_string_equal(tn__graph_output_name(a.graph, 0), "y");
  const tn__value *y = tn__graph_output_at(a.graph, 0);
  assert_int_equal(y->dtype, TN_F32);
  assert_int_equal(y->rank, 2);
  assert_true(y->dims[0] == tn__graph_input_at(a.graph, 0)->dims[0]);
  assert_int_equal(tn__g_dim_const(y, 0), -1);
  assert_int_equal(tn__g_dim_const(y, 1), 40);
  tn__arena_release(&a.arena);
  pb_free(&model);
}

static void keeps_large_data_in_place(void **state) {
  pb model = matmul_relu();
  attempt a = {0};
  check_ok(import(&a, &model));
  bool inside = false, right = false;
  for (int i = 0; i < tn__graph_node_count(a.graph); i++) {
    const tn__node *node = tn__graph_node_at(a.graph, i);
    for (int k = 0; k < node->input_count; k++) {
      const tn__value *v = node->inputs[k];
      if (v->data == NULL || v->rank != 2 || tn__g_dim_const(v, 1) != 40) continue;
      const uint8_t *data = v->data;
      inside = data >= model.data && data < model.data + model.size;
      right = tn__load_f64(TN_F32, data, 119) == 119;
    }
  }
  assert_true(right);
  assert_true(inside);
  tn__arena_release(&a.arena);
  pb_free(&model);
}

static void binds_dimensions(void **state) {
  pb model = matmul_relu();
  const tn__dim_binding rows = {"rows", 7}, other = {"columns", 7};
  tn__onnx_options options = {.dims = &rows, .dim_count = 1};
  attempt a = {.options = &options};
  check_ok(import(&a, &model));
  assert_int_equal(tn__g_dim_const(tn__graph_output_at(a.graph, 0), 0), 7);
  tn__arena_release(&a.arena);
  options.dims = &other;
  check_fails(import(&a, &model), TN_INVALID_ARGUMENT, "m.onnx: no dimension of an input is named \"columns\"");
  tn__arena_release(&a.arena);
  pb_free(&model);
}

/* ---- bytes that are no model ------------------------------------------------------------------------------------- */

static void refuses_truncated_files(void **state) {
  pb model = matmul_relu();
  for (size_t size = 0; size < model.size; size++) {
    pb part = {.data = model.data, .size = size};
    attempt a = {0};
    tn_status *status = import(&a, &part);
    assert_non_null(status);
    tn_status_code code = tn_status_code_of(status);
    assert_true(code == TN_DATA_LOSS || code == TN_INVALID_ARGUMENT);
    tn_status_free(status);
    tn__arena_release(&a.arena);
  }
  pb_free(&model);
  pb cut = matmul_relu();
  cut.size = 100;
  expect_fail(cut, TN_DATA_LOSS,
              "m.onnx: truncated or corrupt at byte 9: field 7 of ModelProto says 587 bytes, and 91 are left");
}

static void refuses_what_is_not_protobuf(void **state) {
  pb text = {0}, wire = {0}, number = {0}, twice = {0}, zero = {0};
  for (const char *c =
           "\x7f"
           "ELF";
       *c != '\0'; c++)
    pb_byte(&text, (unsigned char)*c);
  expect_fail(text, TN_DATA_LOSS,
              "m.onnx: truncated or corrupt at byte 1: field 15 of ModelProto has wire type 7, which protobuf 3 does "
              "not write");
  pb_int(&wire, 7, 1);
  expect_fail(wire, TN_DATA_LOSS,
              "m.onnx: truncated or corrupt at byte 1: field \"graph\" of ModelProto has wire type 0, expected 2");
  pb_varint(&number, 8);
  for (int i = 0; i < 11; i++) pb_byte(&number, 0xff);
  expect_fail(number, TN_DATA_LOSS, "m.onnx: truncated or corrupt at byte 11: a number has more than 64 bits");
  for (int i = 0; i < 2; i++) {
    pb graph = {0};
    pb_message(&twice, 7, &graph);
  }
  expect_fail(twice, TN_DATA_LOSS,
              "m.onnx: truncated or corrupt at byte 3: field \"graph\" of ModelProto occurs twice");
  pb_bytes(&zero, 2, "a\0b", 3);
  expect_fail(zero, TN_DATA_LOSS,
              "m.onnx: truncated or corrupt at byte 5: the text \"producer_name\" of ModelProto has a zero byte in it");
  expect_fail((pb){0}, TN_DATA_LOSS, "m.onnx: is not an ONNX model: it is empty");
}

/* A graph inside of a node's attribute inside of a graph ... */
static pb nested_graphs(int depth) {
  pb graph = {0};
  for (int i = 0; i < depth; i++) {
    pb node = onnx_node_begin("If", "", "c", "y"), outer = {0};
    onnx_attr_graph(&node, "then_branch", &graph);
    pb_message(&outer, 1, &node);
    graph = outer;
  }
  return onnx_model(17, &graph);
}

static void refuses_deep_nesting(void **state) {
  expect_fail(nested_graphs(4000), TN_UNSUPPORTED, "m.onnx: graphs are nested more than 16 deep at byte 570");
  pb type = onnx_tensor_type(ONNX_FLOAT, "1");
  for (int i = 0; i < 100; i++) {
    pb sequence = {0}, outer = {0};
    pb_message(&sequence, 1, &type);
    pb_message(&outer, 4, &sequence);
    type = outer;
  }
  pb graph = graph_xy(), info = {0};
  pb_text(&info, 1, "s");
  pb_message(&info, 2, &type);
  pb_message(&graph, 11, &info);
  expect_fail(finish(graph), TN_UNSUPPORTED, "m.onnx: messages are nested more than 64 deep at byte 225");
}

/* ---- operator sets and operators --------------------------------------------------------------------------------- */

static void refuses_unknown_operator_sets(void **state) {
  pb graph = graph_xy(), future = {0}, none = {0};
  onnx_node(&graph, "Relu", "", "x", "y");
  pb_int(&future, 1, 8);
  onnx_import(&future, 8, "", 99);
  pb_bytes(&future, 7, graph.data, graph.size);
  expect_fail(future, TN_UNSUPPORTED, "m.onnx: uses operator set 99 of ONNX; 6 to 28 are supported");
  pb_int(&none, 1, 8);
  pb_message(&none, 7, &graph);
  expect_fail(none, TN_INVALID_ARGUMENT, "m.onnx: does not say which operator sets it uses (opset_import is empty)");
}

static void lists_all_unknown_operators(void **state) {
  pb graph = graph_xy();
  onnx_node(&graph, "Frobnicate", "", "x", "a");
  onnx_node(&graph, "ImageDecoder", "", "a", "b");
  onnx_node(&graph, "Relu", "", "b", "c");
  pb node = onnx_node_begin("FusedThing", "", "c", "y");
  pb_text(&node, 7, "com.example");
  pb_message(&graph, 1, &node);
  node = onnx_node_begin("FlexAttention", "", "c", "z");
  pb_text(&node, 7, "ai.onnx.preview");
  pb_message(&graph, 1, &node);
  expect_fail(
      finish(graph), TN_UNSUPPORTED,
      "m.onnx: 4 operators are not supported: Frobnicate (unknown to ONNX's operator sets 6 to 28), "
      "ImageDecoder (compressed images are not decoded), "
      "ai.onnx.preview:FlexAttention (Tenon does not have it yet), com.example:FusedThing (its domain is unknown)");
}

static void refuses_wrong_nodes(void **state) {
  pb graph = graph_xy();
  onnx_node(&graph, "Add", "sum", "x", "y");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node \"sum\" (Add, opset 17): input 1 (B) is missing; Add needs at least 2");
  graph = graph_xy();
  onnx_node(&graph, "Relu", "", "x,x", "y");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node #0 (Relu, opset 17): has 2 inputs; Relu takes at most 1");
  graph = graph_xy();
  onnx_node(&graph, "Relu", "", "x", "y,z");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node #0 (Relu, opset 17): has 2 outputs; Relu makes at most 1");
  graph = graph_xy();
  pb node = onnx_node_begin("Softmax", "s", "x", "y");
  onnx_attr_float(&node, "axis", 1);
  pb_message(&graph, 1, &node);
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node \"s\" (Softmax, opset 17): attribute \"axis\" is not an integer");
  graph = graph_xy();
  node = onnx_node_begin("Softmax", "s", "x", "y");
  onnx_attr_int(&node, "axis", 5);
  pb_message(&graph, 1, &node);
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node \"s\" (Softmax, opset 17): axis 5 is outside of a tensor with 2 dimensions");
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void refuses_wrong_names(void **state) {
  pb graph = graph_xy();
  onnx_node(&graph, "Add", "a", "x,ghost", "y");
  expect_fail(
      finish(graph), TN_INVALID_ARGUMENT,
      "m.onnx: node \"a\" (Add, opset 17): input 1 \"ghost\" is not produced by any node, initializer or input");
  graph = graph_xy();
  onnx_node(&graph, "Add", "a", "x,b", "y");
  onnx_node(&graph, "Relu", "late", "x", "b");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node \"a\" (Add, opset 17): input 1 \"b\" is used before node \"late\" (Relu) produces it; the "
              "nodes are not in topological "
              "order, or form a cycle");
  graph = graph_xy();
  onnx_node(&graph, "Add", "", "x,y", "b");
  onnx_node(&graph, "Relu", "", "b", "y");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node #0 (Add, opset 17): input 1 \"y\" is used before node #1 (Relu) produces it; the nodes are "
              "not in topological "
              "order, or form a cycle");
  graph = graph_xy();
  onnx_node(&graph, "Add", "", "x,y", "y");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node #0 (Add, opset 17): input 1 \"y\" is used before node #0 (Add) produces it; the nodes are "
              "not in topological "
              "order, or form a cycle");
  graph = graph_xy();
  onnx_node(&graph, "Relu", "", "x", "y");
  onnx_node(&graph, "Tanh", "again", "x", "y");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node \"again\" (Tanh, opset 17): output 0 \"y\" is defined already; every name is defined once");
  graph = graph_xy();
  onnx_input(&graph, "x", ONNX_FLOAT, "2,3");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT, "m.onnx: input \"x\": two inputs have this name");
  graph = graph_xy();
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: output #0: the tensor \"y\" is not produced by any node, initializer or input");
  graph = graph_xy();
  expect_fail(onnx_model(17, &graph), TN_INVALID_ARGUMENT, "m.onnx: the graph has no outputs");
}

/* ---- shapes and types -------------------------------------------------------------------------------------------- */

static void refuses_wrong_shapes(void **state) {
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "2,-3");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT, "m.onnx: input \"x\": dimension 1 is negative (-3)");
  graph = (pb){0};
  onnx_input(&graph, "x", 14, "2");
  expect_fail(finish(graph), TN_UNSUPPORTED, "m.onnx: input \"x\": element type complex64 (14) is not supported");
  graph = (pb){0};
  onnx_input(&graph, "x", ONNX_FLOAT,
             "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
  expect_fail(finish(graph), TN_UNSUPPORTED, "m.onnx: input \"x\": has 40 dimensions; at most 12 are supported");
  graph = (pb){0};
  onnx_input(&graph, "x", ONNX_FLOAT, "4611686018427387904,16");
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: input \"x\": tensor \"x\" would have more bytes than can be addressed");
  static const int64_t three[] = {3}, far[] = {(int64_t)1 << 62, (int64_t)1 << 62, -1},
                       wraps[] = {7, 7905747460161236407, -1};
  static const int64_t *const shapes[] = {far, wraps};
  static const char *const texts[] = {"4611686018427387904, 4611686018427387904", "7, 7905747460161236407"};
  for (int i = 0; i < 2; i++) {
    char text[256];
    graph = graph_xy();
    onnx_raw(&graph, "s", ONNX_INT64, three, 1, shapes[i], 24);
    onnx_node(&graph, "Reshape", "", "x,s", "y");
    snprintf(text, sizeof(text),
             "m.onnx: node #0 (Reshape, opset 17): dimensions of %s multiply to more elements than can be counted",
             texts[i]);
    expect_fail(finish_open(graph), TN_INVALID_ARGUMENT, text);
  }
  graph = graph_xy();
  onnx_node(&graph, "Relu", "", "x", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "2,4");
  expect_fail(onnx_model(17, &graph), TN_INVALID_ARGUMENT,
              "m.onnx: output #0: dimension 1 of the tensor \"y\" is declared as 4, and its node makes 3");
  graph = graph_xy();
  onnx_node(&graph, "Relu", "", "x", "y");
  onnx_output(&graph, "y", ONNX_INT64, "2,3");
  expect_fail(onnx_model(17, &graph), TN_INVALID_ARGUMENT,
              "m.onnx: output #0: the tensor \"y\" is declared as int64, and its node makes f32");
}

static void refuses_inconsistent_operands(void **state) {
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "1,4,8,8");
  onnx_input(&graph, "w", ONNX_FLOAT, "6,3,3,3");
  onnx_node(&graph, "Conv", "conv1", "x,w", "y");
  expect_fail(finish_open(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node \"conv1\" (Conv, opset 17): input 1 \"w\" has 3 channels, expected 4");
  graph = graph_xy();
  onnx_input(&graph, "b", ONNX_FLOAT, "4,5");
  onnx_node(&graph, "MatMul", "", "x,b", "y");
  expect_fail(finish_open(graph), TN_INVALID_ARGUMENT,
              "m.onnx: node #0 (MatMul, opset 17): the last dimension of input 0 is 3, and input 1 has 4 rows");
  graph = graph_xy();
  onnx_input(&graph, "b", ONNX_INT64, "2,3");
  onnx_node(&graph, "Add", "", "x,b", "y");
  expect_fail(
      finish_open(graph), TN_INVALID_ARGUMENT,
      "m.onnx: node #0 (Add, opset 17): input 1 \"b\" (B of Add) is i64, expected f32, the type of input 0 (A)");
}

static void refuses_wrong_initializers(void **state) {
  static const int64_t two[] = {2}, negative[] = {-2}, huge[] = {INT64_MAX / 2, 8};
  static const float data[4] = {1, 2, 3, 4};
  pb graph = graph_xy();
  onnx_raw(&graph, "w", ONNX_FLOAT, two, 1, data, 12);
  expect_fail(finish(graph), TN_DATA_LOSS, "m.onnx: initializer \"w\": has 12 bytes of data, its type f32[2] needs 8");
  graph = graph_xy();
  onnx_raw(&graph, "w", ONNX_FLOAT, negative, 1, data, 8);
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: initializer \"w\": dimension 0 of its shape [-2] is negative");
  graph = graph_xy();
  onnx_raw(&graph, "w", ONNX_FLOAT, huge, 2, data, 8);
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: initializer \"w\": its shape [4611686018427387903, 8] has more elements than can be counted");
  graph = graph_xy();
  onnx_raw(&graph, "w", ONNX_STRING, two, 1, data, 8);
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: initializer \"w\": strings are given one by one, not as raw data");
  graph = graph_xy();
  pb tensor = onnx_tensor_begin("w", ONNX_INT64, two, 1);
  for (int i = 0; i < 3; i++) pb_int(&tensor, 7, i);
  pb_message(&graph, 5, &tensor);
  expect_fail(finish(graph), TN_DATA_LOSS,
              "m.onnx: initializer \"w\": has 3 elements of data, its type i64[2] needs 2");
  graph = graph_xy();
  for (int i = 0; i < 2; i++) onnx_raw(&graph, "w", ONNX_FLOAT, two, 1, data, 8);
  expect_fail(finish(graph), TN_INVALID_ARGUMENT,
              "m.onnx: initializer \"w\" is defined already; every name is defined once");
}

/* ---- functions and branches -------------------------------------------------------------------------------------- */

static pb function_begin(const char *name, const char *inputs, const char *outputs) {
  pb f = {0};
  pb_text(&f, 1, name);
  pb_names(&f, 4, inputs);
  pb_names(&f, 5, outputs);
  onnx_import(&f, 9, "", 17);
  onnx_import(&f, 9, "my", 1);
  pb_text(&f, 10, "my");
  return f;
}
static pb call(const char *name, const char *inputs, const char *outputs) {
  pb node = onnx_node_begin(name, "call", inputs, outputs);
  pb_text(&node, 7, "my");
  return node;
}

static void inlines_functions(void **state) {
  pb graph = graph_xy(), node = call("Scaled", "x", "y"), f = function_begin("Scaled", "a,optional", "b");
  onnx_attr_int(&node, "which", 0);
  pb_message(&graph, 1, &node);
  pb softmax = onnx_node_begin("Softmax", "", "a", "b"), reference = {0};
  pb_text(&reference, 1, "axis");
  pb_text(&reference, 21, "which");
  pb_int(&reference, 20, 2);
  pb_message(&softmax, 5, &reference);
  pb_message(&f, 7, &softmax);
  pb model = finish_open(graph);
  pb_message(&model, 25, &f);
  attempt a = {0};
  check_ok(import(&a, &model));
  assert_int_equal(tn__g_dim_const(tn__graph_output_at(a.graph, 0), 1), 3);
  tn__arena_release(&a.arena);
  pb_free(&model);
}

static void refuses_functions_that_call_themselves(void **state) {
  pb graph = graph_xy(), node = call("F", "x", "y"), f = function_begin("F", "a", "b"), again = call("F", "a", "b");
  pb_message(&graph, 1, &node);
  pb_message(&f, 7, &again);
  pb model = finish_open(graph);
  pb_message(&model, 25, &f);
  expect_fail(model, TN_INVALID_ARGUMENT,
              "m.onnx: function F of node \"call\": node \"call\" (F, my 1): function F calls itself");
}

/* Each function calls the next one twice: what it would expand to grows without bound. */
static void bounds_the_expansion_of_functions(void **state) {
  pb graph = graph_xy(), node = call("F0", "x", "y");
  pb_message(&graph, 1, &node);
  pb model = finish_open(graph);
  for (int i = 0; i < 30; i++) {
    char name[8], next[8];
    snprintf(name, sizeof(name), "F%d", i);
    snprintf(next, sizeof(next), "F%d", i + 1);
    pb f = function_begin(name, "a", "b"), one = call(next, "a", "c"), two = call(next, "c", "b");
    pb_message(&f, 7, &one);
    pb_message(&f, 7, &two);
    pb_message(&model, 25, &f);
  }
  expect_fail(model, TN_UNSUPPORTED, "m.onnx: functions call functions more than 16 deep");
}

static void chooses_branches(void **state) {
  pb graph = graph_xy(), node = onnx_node_begin("If", "", "yes", "y"), then_graph = {0}, else_graph = {0};
  static const uint8_t yes[1] = {1};
  onnx_raw(&graph, "yes", ONNX_BOOL, NULL, 0, yes, 1);
  onnx_node(&then_graph, "Transpose", "", "x", "t");
  onnx_output(&then_graph, "t", ONNX_FLOAT, "3,2");
  onnx_node(&else_graph, "Relu", "", "x", "t");
  onnx_output(&else_graph, "t", ONNX_FLOAT, "2,3");
  onnx_attr_graph(&node, "then_branch", &then_graph);
  onnx_attr_graph(&node, "else_branch", &else_graph);
  pb_message(&graph, 1, &node);
  pb model = finish_open(graph);
  attempt a = {0};
  check_ok(import(&a, &model));
  assert_int_equal(tn__g_dim_const(tn__graph_output_at(a.graph, 0), 0), 3);
  tn__arena_release(&a.arena);
  pb_free(&model);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void survives_every_failing_allocation(void **state) {
  pb model = matmul_relu();
  for (int fail_at = 0;; fail_at++) {
    failing_allocator allocator;
    failing_allocator_init(&allocator, fail_at);
    tn__escape escape;
    attempt a = {.model = &model};
    tn__arena_init(&a.arena, &allocator.allocator, &escape);
    tn_status *status = tn__protect(&escape, import_body, &a);
    tn__arena_release(&a.arena);
    assert_int_equal(allocator.live_count, 0);
    if (status == NULL) {
      assert_true(fail_at > 0);
      break;
    }
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    tn_status_free(status);
  }
  pb_free(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(imports_a_model),
      cmocka_unit_test(keeps_large_data_in_place),
      cmocka_unit_test(binds_dimensions),
      cmocka_unit_test(refuses_truncated_files),
      cmocka_unit_test(refuses_what_is_not_protobuf),
      cmocka_unit_test(refuses_deep_nesting),
      cmocka_unit_test(refuses_unknown_operator_sets),
      cmocka_unit_test(lists_all_unknown_operators),
      cmocka_unit_test(refuses_wrong_nodes),
      cmocka_unit_test(refuses_wrong_names),
      cmocka_unit_test(refuses_wrong_shapes),
      cmocka_unit_test(refuses_inconsistent_operands),
      cmocka_unit_test(refuses_wrong_initializers),
      cmocka_unit_test(inlines_functions),
      cmocka_unit_test(refuses_functions_that_call_themselves),
      cmocka_unit_test(bounds_the_expansion_of_functions),
      cmocka_unit_test(chooses_branches),
      cmocka_unit_test(survives_every_failing_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
