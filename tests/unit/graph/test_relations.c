/* What the sizes of operands must be to each other: the language in which rows of the tables say it, and the words with
 * which models that break it are refused, by the compiler where sizes are known and by the executable where not. */
#include "graph/relations.h"
#include "unit/compile_onnx.h"
#include "unit/graph_check.h"

/* ---- the language ------------------------------------------------------------------------------------------------ */

static void reads_relations(void **state) {
  static const struct {
    const char *text;
    int least, most; /* least -1: no relations */
  } cases[] = {
      {"", 0, 0},
      {"x", 1, 1},
      {"x[]", 1, 1},
      {"x y?", 1, 2},
      {"x[*s] y[*s]...", 1, -1},
      {"part...", 0, -1},
      {"x[t,b,4*h] r[h,4*h] lengths[b]?", 2, 3},
      {"x[]|[1]|[c,2*(c+1)] : c >= 1, c % $group=1 == 0, #k <= c", 1, 1},
      {"x[", -1, 0},
      {"x[a,]", -1, 0},
      {"x[a] :", -1, 0},
      {"x[a] : a", -1, 0},
      {"x[a] : a >= 1 2", -1, 0},
      {"x... y", -1, 0},
      {"4", -1, 0},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    int least = 0, most = 0;
    bool read = tn__relations_parse(cases[i].text, &least, &most);
    if (read != (cases[i].least >= 0)) fail_msg("\"%s\" is%s read", cases[i].text, read ? "" : " not");
    if (!read) continue;
    assert_int_equal(least, cases[i].least);
    assert_int_equal(most, cases[i].most);
  }
}

static bool attribute(const void *user, const char *name, int64_t *value) {
  *value = 3;
  return strcmp(name, "given") == 0;
}

typedef struct shape {
  int rank;
  int64_t dims[4]; /* negative: a symbol, as input_of makes it */
} shape;

typedef struct language_case {
  const char *relations;
  shape operands[4]; /* rank -1: absent */
  int count;
  const char *refused, *checked; /* at once, by the run; NULL: nothing */
} language_case;

static const language_case *current;

static void relate_current(tn__graph *g) {
  tn__value *operands[4];
  for (int i = 0; i < current->count; i++) {
    const shape *s = &current->operands[i];
    operands[i] =
        s->rank < 0 ? NULL : input_of(g, tn__arena_printf(tn__graph_arena(g), "in%d", i), TN_I64, s->rank, s->dims);
  }
  const tn__relating r = {.graph = g,
                          .name = "op",
                          .word = "operand",
                          .operands = operands,
                          .count = current->count,
                          .attribute = attribute};
  tn__relate(&r, current->relations);
}

static void checks_relations(void **state) {
  static const language_case cases[] = {
      {"x[a,b] y[b,a]", {{2, {2, 3}}, {2, {3, 2}}}, 2, NULL, NULL},
      {"x[a,b] y[b,a]",
       {{2, {2, 3}}, {2, {3, 5}}},
       2,
       "op: dimension 1 of operand 1 (y) is 5, but must be equal to 2, dimension 0 of operand 0 (x)",
       NULL},
      {"x[a,b] y[b,a]",
       {{2, {2, -1}}, {2, {-2, 2}}},
       2,
       NULL,
       "op: dimension 0 of operand 1 (y) is n2 = n2, but must be equal to n1 = n1, dimension 1 of operand 0 (x)"},
      {"x[a] y[a]", {{1, {4}}, {0}}, 2, "op: operand 1 (y) must have 1 dimension, but is i64[]", NULL},
      {"x[a] y[a]?", {{1, {4}}, {-1}}, 2, NULL, NULL},
      {"x[a] y[a]?", {{1, {4}}}, 1, NULL, NULL},
      {"x[a] y[a]", {{1, {4}}, {-1}}, 2, "op: operand 1 (y) is missing", NULL},
      {"x[a] y[a]", {{1, {4}}}, 1, "op: operand 1 (y) is missing", NULL},
      /* a name is known wherever it stands */
      {"x[2*h] y[h]",
       {{1, {6}}, {1, {4}}},
       2,
       "op: dimension 0 of operand 0 (x) is 6, but must be equal to 8, 2*h",
       NULL},
      {"x[h/2+1] y[h]", {{1, {3}}, {1, {5}}}, 2, NULL, NULL},
      {"x[h/$given] y[h%$given] z[h] w[$other=7]",
       {{1, {2}}, {1, {7}}, {1, {7}}, {1, {7}}},
       4,
       "op: dimension 0 of operand 1 (y) is 7, but must be equal to 1, h%$given",
       NULL},
      {"x[$other]", {{1, {7}}}, 1, NULL, NULL},
      /* groups */
      {"x[*s] y[*s]", {{2, {2, 3}}, {2, {2, 3}}}, 2, NULL, NULL},
      {"x[*s] y[*s]",
       {{2, {2, 3}}, {2, {2, 4}}},
       2,
       "op: dimension 1 of operand 1 (y) is 4, but must be equal to 3, dimension 1 of operand 0 (x)",
       NULL},
      {"x[*s] y[*s]", {{2, {2, 3}}, {1, {3}}}, 2, "op: operand 1 (y) must have 2 dimensions, but is i64[3]", NULL},
      {"x[n,c,*d] t[n,*d]",
       {{3, {2, 5, 3}}, {2, {2, 4}}},
       2,
       "op: dimension 1 of operand 1 (t) is 4, but must be equal to 3, dimension 2 of operand 0 (x)",
       NULL},
      {"x[*b,n,n]", {{1, {3}}}, 1, "op: operand 0 (x) must have at least 2 dimensions, but is i64[3]", NULL},
      {"x[*b,n,n]",
       {{3, {2, 3, 4}}},
       1,
       "op: dimension 2 of operand 0 (x) is 4, but must be equal to 3, dimension 1 of operand 0 (x)",
       NULL},
      {"x[*s]...",
       {{1, {2}}, {1, {2}}, {1, {3}}},
       3,
       "op: dimension 0 of operand 2 (x) is 3, but must be equal to 2, dimension 0 of operand 0 (x)",
       NULL},
      /* several shapes */
      {"x[c] z[]|[1]|[c]", {{1, {4}}, {0}}, 2, NULL, NULL},
      {"x[c] z[]|[1]|[c]", {{1, {4}}, {1, {1}}}, 2, NULL, NULL},
      {"x[c] z[]|[1]|[c]", {{1, {4}}, {1, {4}}}, 2, NULL, NULL},
      {"x[c] z[]|[1]|[c]",
       {{1, {4}}, {1, {3}}},
       2,
       "op: dimension 0 of operand 1 (z) is 3, but must be equal to 4, dimension 0 of operand 0 (x)",
       NULL},
      {"x[c] z[]|[1]|[c]",
       {{1, {4}}, {2, {1, 4}}},
       2,
       "op: operand 1 (z) must have 0 or 1 dimension, but is i64[1, 4]",
       NULL},
      /* conditions */
      {"x[_,k] : k >= 4", {{2, {9, 3}}}, 1, "op: dimension 1 of operand 0 (x) is 3, but must be at least 4", NULL},
      {"x[k] y[n] : k <= n",
       {{1, {-1}}, {1, {3}}},
       2,
       NULL,
       "op: dimension 0 of operand 0 (x) is n1 = n1, but must be at most 3, dimension 0 of operand 1 (y)"},
      {"x[k] y[n] : k+1 < n",
       {{1, {2}}, {1, {3}}},
       2,
       "op: k+1 is 3, but must be less than 3, dimension 0 of operand 1 (y)",
       NULL},
      {"x[] : #x > 0", {{0}}, 1, NULL, "op: #x is in0_e0, but must be greater than 0"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    current = &cases[i];
    void *own = NULL;
    graph_set_up(&own);
    tn__graph *g = graph_of(&own);
    throwing t = {g, relate_current};
    tn__escape escape;
    tn_status *status = tn__protect(&escape, run_throwing, &t);
    if (current->refused != NULL) {
      check_fails(status, TN_INVALID_ARGUMENT, current->refused);
    } else {
      check_ok(status);
      assert_int_equal(tn__graph_check_count(g), current->checked != NULL ? 1 : 0);
    }
    if (current->refused == NULL && current->checked != NULL) {
      tn__strbuf text;
      tn__strbuf_init(&text, NULL);
      tn__graph_check_text(g, tn__graph_check_at(g, 0), NULL, NULL, &text);
      assert_string_equal(tn__strbuf_text(&text), current->checked);
      tn__strbuf_release(&text);
    }
    graph_tear_down(&own);
  }
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct model_case {
  const char *op, *attributes;   /* "axis=1,layout=1" */
  const char *declared, *actual; /* "f:t,b,3;i:2": types and dimensions of the inputs; an empty one is absent */
  const char *text;              /* of the error; NULL: it runs */
} model_case;

enum { MOST_INPUTS = 8, BYTES = 1 << 14 };

/* Calls for each input of the text. */
static void each_input(const char *text, void (*use)(void *user, int index, char type, const char *dims), void *user) {
  for (int i = 0; *text != '\0'; i++) {
    char dims[64] = "";
    size_t length = strcspn(text, ";");
    if (length > 0) {
      assert_true(length < sizeof(dims));
      memcpy(dims, text + 2, length - 2);
      use(user, i, text[0], dims);
    }
    text += length + (text[length] == ';');
  }
}

static void add_input(void *user, int index, char type, const char *dims) {
  char name[16];
  snprintf(name, sizeof(name), "in%d", index);
  onnx_input(user, name,
             type == 'f'   ? ONNX_FLOAT
             : type == 'b' ? ONNX_BOOL
             : type == 'u' ? ONNX_UINT8
             : type == 'n' ? ONNX_INT32
                           : ONNX_INT64,
             dims);
}

static void name_input(void *user, int index, char type, const char *dims) {
  char *names = user;
  size_t length = strlen(names);
  int commas = 0;
  for (const char *c = names; *c != '\0'; c++) commas += *c == ',';
  for (; commas < index; commas++) names[length++] = ','; /* absent ones have no name */
  snprintf(names + length, 16, "in%d", index);
}

static pb model_of(const model_case *c) {
  pb graph = {0}, info = {0};
  char names[128] = "";
  pb_text(&graph, 2, "g");
  each_input(c->declared, add_input, &graph);
  each_input(c->declared, name_input, names);
  pb node = onnx_node_begin(c->op, "n", names, "out");
  for (const char *at = c->attributes; *at != '\0';) {
    char name[32];
    size_t length = strcspn(at, "=");
    assert_true(length < sizeof(name));
    memcpy(name, at, length);
    name[length] = '\0';
    at += length + 1;
    if (*at >= 'a' && *at <= 'z') { /* a text */
      char text[32];
      length = strcspn(at, ",");
      assert_true(length < sizeof(text));
      memcpy(text, at, length);
      text[length] = '\0';
      onnx_attr_text(&node, name, text);
      at += length + (at[length] == ',');
      continue;
    }
    char *end;
    long long values[4] = {strtoll(at, &end, 10)};
    int count = 1;
    while (*end == ' ' && count < 4) values[count++] = strtoll(end + 1, &end, 10);
    const int64_t ints[4] = {values[0], values[1], values[2], values[3]};
    if (count > 1)
      onnx_attr_ints(&node, name, ints, count);
    else
      onnx_attr_int(&node, name, values[0]);
    at = *end == ',' ? end + 1 : end;
  }
  pb_message(&graph, 1, &node);
  pb_text(&info, 1, "out");
  pb_message(&graph, 12, &info);
  return onnx_model(27, &graph);
}

static _Alignas(64) char inputs[MOST_INPUTS][BYTES]; /* zeros, and true */

static void bind_input(void *user, int index, char type, const char *dims) {
  char name[8];
  int64_t sizes[8], bytes = 8;
  int rank = 0;
  for (const char *d = dims; *d != '\0';) {
    char *end;
    sizes[rank] = strtoll(d, &end, 10);
    bytes *= sizes[rank++];
    d = *end == ',' ? end + 1 : end;
  }
  assert_true(bytes <= BYTES);
  snprintf(name, sizeof(name), "in%d", index);
  memset(inputs[index], type == 'b', BYTES);
  tn_dtype dtype = type == 'f' ? TN_F32 : type == 'b' ? TN_BOOL : type == 'u' ? TN_U8 : type == 'n' ? TN_I32 : TN_I64;
  const DLTensor bound = tensor_of(dtype, rank, sizes, inputs[index]);
  check_ok(tn_session_set_input(user, NULL, name, &bound, TN_BIND_NEXT));
}

static void refuses_models(const model_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const model_case *c = &cases[i];
    pb model = model_of(c);
    tn_module *module;
    tn_compile_options options = plain();
    tn_status *status = tn_compile("m.onnx", model.data, model.size, &options, &module);
    pb_free(&model);
    char text[400];
    snprintf(text, sizeof(text), "m.onnx: node \"n\" (%s, opset 27): %s", c->op, c->text != NULL ? c->text : "");
    if (c->actual == NULL) {
      check_fails(status, TN_INVALID_ARGUMENT, text);
      continue;
    }
    check_ok(status);
    tn_executable *exe = load_module(module);
    tn_session *session = open_session(exe, NULL);
    each_input(c->actual, bind_input, session);
    status = tn_session_invoke(session, NULL);
    if (c->text == NULL)
      check_ok(status);
    else
      check_fails(status, TN_INVALID_ARGUMENT, text + strlen("m.onnx: "));
    tn_session_release(session);
    tn_executable_release(exe);
  }
}

/* What addresses memory by another operand's size. */
static void refuses_operands_of_other_sizes(void **state) {
  static const model_case cases[] = {
      {"Compress", "axis=0", "f:4,8;b:6", NULL,
       "the length of the condition is 6, but must be at most 4, dimension 0 of what is chosen from"},
      {"Compress", "axis=0", "f:n,8;b:k", "f:4,8;b:6",
       "the length of the condition is k = 6, but must be at most n = 4, dimension 0 of what is chosen from"},
      {"Compress", "axis=0", "f:n,8;b:k", "f:4,8;b:3", NULL},
      {"Compress", "", "f:n,2;b:k", "f:4,2;b:9",
       "the length of the condition is k = 9, but must be at most 8, dimension 0 of what is chosen from"},
      {"NonMaxSuppression", "", "f:1,5,3;f:1,2,5", NULL, "dimension 2 of input 0 (boxes) is 3, but must be equal to 4"},
      {"NonMaxSuppression", "", "f:1,5,k;f:1,2,5", "f:1,5,3;f:1,2,5",
       "dimension 2 of input 0 (boxes) is k = 3, but must be equal to 4"},
      {"NonMaxSuppression", "", "f:n,m,4;f:b,2,s", "f:1,5,4;f:1,2,6",
       "dimension 2 of input 1 (scores) is s = 6, but must be equal to m = 5, dimension 1 of input 0 (boxes)"},
      {"RoiAlign", "", "f:1,2,3,3;f:r,4;i:s", "f:1,2,3,3;f:2,4;i:1",
       "dimension 0 of input 2 (batch_indices) is s = 1, but must be equal to r = 2, dimension 0 of input 1 (rois)"},
      {"MaxUnpool", "kernel_shape=2 2,strides=2 2", "f:1,1,2,2;i:1,1,n,2", "f:1,1,2,2;i:1,1,1,2",
       "dimension 2 of input 1 (I) is n = 1, but must be equal to 2, dimension 2 of input 0 (X)"},
      {"NegativeLogLikelihoodLoss", "", "f:n,5;i:m", "f:3,5;i:2",
       "dimension 0 of input 1 (target) is m = 2, but must be equal to n = 3, dimension 0 of input 0 (input)"},
      {"NegativeLogLikelihoodLoss", "", "f:3,5;i:3;f:4", NULL,
       "dimension 0 of input 2 (weight) is 4, but must be equal to 5, dimension 1 of input 0 (input)"},
      {"ReverseSequence", "time_axis=0,batch_axis=1", "f:4,b;i:l", "f:4,3;i:2",
       "dimension 0 of input 1 \"in1\" is l = 2, but must be equal to b = 3, dimension 1 of input 0 \"in0\""},
      {"TensorScatter", "axis=1", "f:2,5,3;f:2,2,k", "f:2,5,3;f:2,2,2",
       "dimension 2 of input 1 \"in1\" is k = 2, but must be equal to 3, dimension 2 of input 0 \"in0\""},
      {"OneHot", "", "i:3;i:;i:3", NULL, "dimension 0 of input 2 (values) is 3, but must be equal to 2"},
  };
  refuses_models(cases, sizeof(cases) / sizeof(*cases));
}

#define LSTM "f:t,b,2;f:1,12,2;f:1,12,3;f:1,24"
#define LSTM_RUN "f:4,2,2;f:1,12,2;f:1,12,3;f:1,24"
#define GRU "f:t,b,2;f:1,9,2;f:1,9,3;f:1,18"
#define GRU_RUN "f:4,2,2;f:1,9,2;f:1,9,3;f:1,18"
#define RNN "f:t,b,2;f:1,3,2;f:1,3,3;f:1,6"
#define RNN_RUN "f:4,2,2;f:1,3,2;f:1,3,3;f:1,6"

static void refuses_states_of_other_sizes(void **state) {
  static const model_case cases[] = {
      {"LSTM", "hidden_size=3", LSTM ";n:s;f:1,h,3;f:1,c,3;f:1,p", LSTM_RUN ";n:2;f:1,2,3;f:1,2,3;f:1,9", NULL},
      {"LSTM", "hidden_size=3", LSTM ";n:s;f:1,h,3;f:1,c,3;f:1,p", LSTM_RUN ";n:5;f:1,2,3;f:1,2,3;f:1,9",
       "dimension 0 of input 4 (sequence_lens) is s = 5, but must be equal to b = 2, dimension 1 of input 0 (X)"},
      {"LSTM", "hidden_size=3", LSTM ";n:s;f:1,h,3;f:1,c,3;f:1,p", LSTM_RUN ";n:2;f:1,1,3;f:1,2,3;f:1,9",
       "dimension 1 of input 5 (initial_h) is h = 1, but must be equal to b = 2, dimension 1 of input 0 (X)"},
      {"LSTM", "hidden_size=3", LSTM ";n:s;f:1,h,3;f:1,c,3;f:1,p", LSTM_RUN ";n:2;f:1,2,3;f:1,0,3;f:1,9",
       "dimension 1 of input 6 (initial_c) is c = 0, but must be equal to b = 2, dimension 1 of input 0 (X)"},
      {"LSTM", "hidden_size=3", LSTM ";n:s;f:1,h,3;f:1,c,3;f:1,p", LSTM_RUN ";n:2;f:1,2,3;f:1,2,3;f:1,8",
       "dimension 1 of input 7 (P) is p = 8, but must be equal to 9, 3*h"},
      {"LSTM", "hidden_size=3", "f:4,2,2;f:1,12,2;f:1,12,3;f:1,23", NULL,
       "dimension 1 of input 3 (B) is 23, but must be equal to 24, 8*h"},
      {"LSTM", "hidden_size=3", "f:4,2,2;f:1,12,2;f:1,12,3;f:24", NULL,
       "input 3 \"in3\" (B of LSTM) has 1 dimension, expected 2"},
      {"LSTM", "hidden_size=3", "f:4,2,2;f:1,12,2;f:1,12,3;;;f:1,5,3", NULL,
       "dimension 1 of input 5 (initial_h) is 5, but must be equal to 2, dimension 1 of input 0 (X)"},
      {"LSTM", "hidden_size=3", "f:4,2,2;f:1,12,2;f:1,12,3;;;;f:1,2,4", NULL,
       "dimension 2 of input 6 (initial_c) is 4, but must be equal to 3, dimension 2 of input 2 (R)"},
      {"LSTM", "hidden_size=4", "f:4,2,2;f:1,12,2;f:1,12,3", NULL,
       "dimension 2 of input 2 (R) is 3, but must be equal to 4, $hidden_size"},
      {"LSTM", "hidden_size=3,layout=1", "f:2,4,2;f:1,12,2;f:1,12,3;;;f:3,1,3", NULL,
       "dimension 0 of input 5 (initial_h) is 3, but must be equal to 2, dimension 0 of input 0 (X)"},
      {"GRU", "hidden_size=3", GRU ";n:s;f:1,h,3", GRU_RUN ";n:2;f:1,2,3", NULL},
      {"GRU", "hidden_size=3", GRU ";n:s;f:1,h,3", GRU_RUN ";n:1;f:1,2,3",
       "dimension 0 of input 4 (sequence_lens) is s = 1, but must be equal to b = 2, dimension 1 of input 0 (X)"},
      {"GRU", "hidden_size=3", GRU ";n:s;f:1,h,3", GRU_RUN ";n:2;f:1,6,3",
       "dimension 1 of input 5 (initial_h) is h = 6, but must be equal to b = 2, dimension 1 of input 0 (X)"},
      {"GRU", "hidden_size=3", "f:4,2,2;f:1,9,2;f:2,9,3", NULL,
       "dimension 0 of input 2 (R) is 2, but must be equal to 1, dimension 0 of input 1 (W)"},
      {"RNN", "hidden_size=3", RNN ";n:s;f:1,h,3", RNN_RUN ";n:2;f:1,2,3", NULL},
      {"RNN", "hidden_size=3", RNN ";n:s;f:1,h,3", RNN_RUN ";n:3;f:1,2,3",
       "dimension 0 of input 4 (sequence_lens) is s = 3, but must be equal to b = 2, dimension 1 of input 0 (X)"},
      {"RNN", "hidden_size=3", RNN ";n:s;f:1,h,3", RNN_RUN ";n:2;f:1,1,3",
       "dimension 1 of input 5 (initial_h) is h = 1, but must be equal to b = 2, dimension 1 of input 0 (X)"},
  };
  refuses_models(cases, sizeof(cases) / sizeof(*cases));
}

/* What would stretch where it must not, so that the result is not what ONNX says. */
static void refuses_channels_of_other_sizes(void **state) {
  static const model_case cases[] = {
      {"Conv", "", "f:1,2,4,4;f:3,2,1,1;f:2", NULL,
       "dimension 0 of input 2 (B) is 2, but must be equal to 3, dimension 0 of input 1 (W)"},
      {"Conv", "", "f:1,2,4,4;f:3,2,1,1;f:k", "f:1,2,4,4;f:3,2,1,1;f:1",
       "dimension 0 of input 2 (B) is k = 1, but must be equal to 3, dimension 0 of input 1 (W)"},
      {"InstanceNormalization", "", "f:1,1,4;f:3;f:1", NULL,
       "dimension 0 of input 1 (scale) is 3, but must be equal to 1, dimension 1 of input 0 (input)"},
      {"BatchNormalization", "", "f:n,c,4;f:s;f:c;f:c;f:c", "f:1,2,4;f:3;f:2;f:2;f:2",
       "dimension 0 of input 1 (scale) is s = 3, but must be equal to c = 2, dimension 1 of input 0 (X)"},
      {"GroupNormalization", "num_groups=2", "f:1,4,3;f:2;f:4", NULL,
       "dimension 0 of input 1 \"in1\" is 2, but must be equal to 4"},
      {"QuantizeLinear", "axis=0", "f:1,3;f:2", NULL,
       "dimension 0 of input 1 \"in1\" is 2, but must be equal to 1, dimension 0 of input 0 \"in0\""},
      {"Attention", "", "f:2,1,3,4;f:2,1,5,4;f:2,1,5,4;;;;i:1", NULL,
       "dimension 0 of input 6 (nonpad_kv_seqlen) is 1, but must be equal to 2, dimension 0 of input 0 (Q)"},
      {"CausalConvWithState", "", "f:1,2,5;f:2,1,3;;f:1,2,4", NULL,
       "dimension 2 of input 3 (past_state) is 4, but must be equal to 2, k-1"},
      {"DeformConv", "", "f:1,1,4,4;f:1,1,2,2;f:1,8,4,3", NULL,
       "dimension 2 of input 2 \"in2\" is 4, but must be equal to 3, how many windows there are"},
      {"Conv", "kernel_shape=2 2", "f:1,1,4,4;f:1,1,k,2", "f:1,1,4,4;f:1,1,1,2",
       "dimension 2 of input 1 \"in1\" is k = 1, but must be equal to 2, as kernel_shape says"},
      {"MatMulInteger", "", "u:1,4;u:4,2;u:3", NULL,
       "dimension 0 of input 2 (a_zero_point) is 3, but must be equal to 1, dimension 0 of input 0 (A)"},
      {"Attention", "", "f:1,1,3,4;f:1,1,5,4;f:1,1,5,4;f:2,1,3,5", NULL,
       "dimension 0 of what its operands make is 2, but must be equal to 1, as of the scores"},
      {"RotaryEmbedding", "", "f:1,2,3,4;f:2,3,2;f:2,3,2", NULL,
       "dimension 0 of what its operands make is 2, but must be equal to 1, as of input 0 (X)"},
      {"Einsum", "equation=iij->ij", "f:3,n,2", "f:3,4,2",
       "dimension 1 of input 0 is n = 4, but must be equal to 3, dimension 0, which has the same label"},
      {"GridSample", "", "f:2,1,3,3;f:1,2,2,2", NULL,
       "dimension 0 of input 1 (grid) is 1, but must be equal to 2, dimension 0 of input 0 (X)"},
  };
  refuses_models(cases, sizeof(cases) / sizeof(*cases));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reads_relations), cmocka_unit_test(checks_relations),
                                     cmocka_unit_test(refuses_operands_of_other_sizes),
                                     cmocka_unit_test(refuses_states_of_other_sizes),
                                     cmocka_unit_test(refuses_channels_of_other_sizes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
