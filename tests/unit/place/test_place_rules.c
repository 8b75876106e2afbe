/* What is said of places, and by what an operator is where it is: files of placements, devices that cannot run it, and
 * what is told. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/place/cost.h"
#include "unit/place_check.h"

#define THREE "x86-64-v3; opencl; cuda"

static const char chain[] =
    "graph \"main\" {\n"
    "  input x: f32[4]\n"
    "  a: f32[4] = abs(x)\n"
    "  b: f32[4] = negate(a)\n"
    "  c: f32[4] = abs(b)\n"
    "  output \"y\" = c\n"
    "}\n";

/* ---- files ------------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/tenon-place-XXXXXX", path[64], at_path[80];

static void write_file(const char *text) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) {
    fail_msg("cannot write %s", path);
    return;
  }
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
}

static void files_are_rules_in_their_order(void **state) {
  static const char *const texts[] = {
      "{\"*\": \"cuda:0\",\n \"a\": \"opencl\", \"c\": \"cpu\"}",
      "[{\"*\": \"cuda:0\"},\n\n {\"a\": \"opencl\", \"c\": \"cpu\"}]\n",
      "[ {\"c\":\"opencl\"}, {\"*\" : \"cuda\"}, {}, {\"a\":\"opencl:0\"}, {\"c\":\"cpu:0\"} ]"};
  static const char want[] =
      "opencl:0     input              x  (where it is read)\n"
      "opencl:0     abs                a  (placed by \"a=%s\"; 5 us)\n"
      "cuda:0       device_copy        a  (from opencl:0; 16 bytes, 20 us)\n"
      "cuda:0       negate             b  (placed by \"*=%s\"; 5 us)\n"
      "cpu:0        device_copy        b  (from cuda:0; 16 bytes, 10 us)\n"
      "cpu:0        abs                c  (placed by \"c=%s\"; 103 ns)\n";
  for (int i = 0; i < 3; i++) {
    char text[1024];
    snprintf(text, sizeof text, want, i == 2 ? "opencl:0" : "opencl", i == 2 ? "cuda" : "cuda:0",
             i == 2 ? "cpu:0" : "cpu");
    write_file(texts[i]);
    check_placed_case(&(placed_case){.graph = chain, .targets = THREE, .place = {at_path}, .want = text});
  }
  /* Beside others, the last one counts. */
  write_file("{\"a\": \"opencl\"}");
  check_placed_case(&(placed_case){.graph = chain,
                                   .targets = THREE,
                                   .place = {"*=cuda", at_path, "c=cuda:0"},
                                   .want = "opencl:0     input              x  (where it is read)\n"
                                           "opencl:0     abs                a  (placed by \"a=opencl\"; 5 us)\n"
                                           "cuda:0       device_copy        a  (from opencl:0; 16 bytes, 20 us)\n"
                                           "cuda:0       negate             b  (placed by \"*=cuda\"; 5 us)\n"
                                           "cuda:0       abs                c  (placed by \"c=cuda:0\"; 5 us)\n"});
  write_file("{}");
  check_placed_case(&(placed_case){.graph = chain, .targets = THREE, .place = {at_path}});
}

static void files_are_refused_with_the_line(void **state) {
  static const char like[] =
      "; a placement is an object, or a list of objects, of patterns and devices, as {\"encoder/*\": \"opencl:0\"} is";
  static const struct {
    const char *text, *words;
    bool explains;
  } cases[] = {
      {"", "line 1, column 1: the text ends where a value is expected", false},
      {"{\n\"a\": \"opencl\"\n\"b\": \"cpu\"}", "line 3, column 1: expected a comma or a closing brace", false},
      {"{\n\"a\": \"opencl\",\n \"a\": \"cpu\"}", "line 3, column 5: the name is there twice", false},
      {"{\"a\": \"opencl\"} {}", "line 1, column 17: something follows the value", false},
      {"\n\n\"a=opencl\"", "line 3: the whole is a text", true},
      {"[{},\n\"auto\"]", "line 2: an element of the list is a text", true},
      {"{\"a\":\n 3}", "line 2: the device of \"a\" is a number", true},
      {"[{\"a\": {\"device\": \"cpu\"}}]", "line 1: the device of \"a\" is an object", true},
      {"{\"\": \"cpu\"}", "line 1: a pattern is empty, and no node has such a name", false},
      {"{\"b\": \"cpu\",\n\"a\": \"opncl\"}",
       "line 2: the placement \"a=opncl\": there is no device \"opncl\" among the targets; did you mean \"opencl\"? "
       "there are cpu:0 (x86-64-v3), opencl:0 (opencl), cuda:0 (cuda -arch=sm_80)",
       false},
      {"{\"a\": \"opencl:1\"}",
       "line 1: the placement \"a=opencl:1\": there is no device \"opencl:1\" among the targets: there are cpu:0 "
       "(x86-64-v3), opencl:0 (opencl), cuda:0 (cuda -arch=sm_80)",
       false},
  };
  char text[1024];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bool lacks = strstr(cases[i].words, "there is no device") != NULL;
    write_file(cases[i].text);
    snprintf(text, sizeof text, "%s: %s%s", path, cases[i].words, cases[i].explains ? like : "");
    check_placed_case(&(placed_case){.graph = chain,
                                     .targets = THREE,
                                     .place = {at_path},
                                     .want = text,
                                     .code = lacks ? TN_NOT_FOUND : TN_INVALID_ARGUMENT});
  }
  check_placed_case(
      &(placed_case){.graph = chain,
                     .targets = THREE,
                     .place = {"@"},
                     .want = "the placement \"@\" names no file: behind the @ stands one, as in \"@placement.json\"",
                     .code = TN_INVALID_ARGUMENT});
}

/* Any bytes are read or refused. */
static void read_any(tn__arena *arena, void *user) {
  tn__place_rules rules = {0};
  tn__place_rules_read(tn__compile_config_create(arena, THREE, NULL), at_path, true, &rules);
}

static void files_of_any_bytes(void **state) {
  static const char *const parts[] = {"{", "}", "[", "]", "\"a\"", ":", ",", "\"cpu\"", "\n", "1e9", "\\u0000", "\""};
  uint64_t random = 1;
  int good = 0;
  for (int i = 0; i < 3000; i++) {
    char text[128] = "";
    size_t used = 0;
    for (int k = 0; k < 6; k++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                               parts[(random >> 33) % (sizeof parts / sizeof parts[0])]);
    }
    write_file(i % 50 == 0 ? "[{\"a\":\"cpu\"}]" : text);
    tn_status *status = tn__with_arena(NULL, read_any, NULL);
    good += status == NULL;
    tn_status_free(status);
  }
  assert_true(good >= 60 && good < 3000);
}

/* ---- what devices can run ---------------------------------------------------------------------------------------- */

static const char wide[] =
    "graph \"main\" {\n"
    "  input x: f32[4]\n"
    "  a: f32[4] = abs(x)\n"
    "  w: f64[4] = convert(a) {dtype=\"f64\"}\n"
    "  s: f64[4] = sqrt(w)\n"
    "  n: f32[4] = convert(s) {dtype=\"f32\"}\n"
    "  c: f32[4] = negate(n)\n"
    "  output \"y\" = c\n"
    "}\n";

#define LACKS "no numbers of type f64 (-fp64=1 says that it has)"

static void what_a_device_cannot_run_falls_to_the_next(void **state) {
  /* In the order of targets, not to the host. */
  check_placed_case(
      &(placed_case){.graph = wide,
                     .targets = "opencl; cuda; x86-64-v3",
                     .want = "opencl:0     input              x  (where it is read)\n"
                             "opencl:0     abs                a  (the default; 5 us)\n"
                             "cuda:0       device_copy        a  (from opencl:0; 16 bytes, 20 us)\n"
                             "cuda:0       convert            w  (not on opencl:0, which has " LACKS "; 5 us)\n"
                             "cuda:0       sqrt               s  (not on opencl:0, which has " LACKS "; 5 us)\n"
                             "cuda:0       convert            n  (not on opencl:0, which has " LACKS "; 5 us)\n"
                             "opencl:0     device_copy        n  (from cuda:0; 16 bytes, 20 us)\n"
                             "opencl:0     negate             c  (the default; 5 us)\n"});
  /* One that has them keeps them; so does a second of the same kind. */
  check_placed_case(&(placed_case){.graph = wide,
                                   .targets = "opencl -fp64=1; x86-64-v3",
                                   .want = "opencl:0     input              x  (where it is read)\n"
                                           "opencl:0     abs                a  (the default; 5 us)\n"
                                           "opencl:0     convert            w  (the default; 5 us)\n"
                                           "opencl:0     sqrt               s  (the default; 5 us)\n"
                                           "opencl:0     convert            n  (the default; 5 us)\n"
                                           "opencl:0     negate             c  (the default; 5 us)\n"});
  check_placed_case(&(placed_case){.graph = wide,
                                   .targets = "opencl; x86-64-v3",
                                   .place = {"a=opencl", "c=opencl"},
                                   .want = "opencl:0     input              x  (where it is read)\n"
                                           "opencl:0     abs                a  (placed by \"a=opencl\"; 5 us)\n"
                                           "cpu:0        device_copy        a  (from opencl:0; 16 bytes, 10 us)\n"
                                           "cpu:0        convert            w  (follows what reads it; 104 ns)\n"
                                           "cpu:0        sqrt               s  (follows what reads it; 105 ns)\n"
                                           "cpu:0        convert            n  (not on opencl:0, which has " LACKS
                                           "; 104 ns)\n"
                                           "opencl:0     device_copy        n  (from cpu:0; 16 bytes, 10 us)\n"
                                           "opencl:0     negate             c  (placed by \"c=opencl\"; 5 us)\n"});
}

static void what_was_placed_by_name_is_refused(void **state) {
  static const char words[] =
      "\"s\" is on opencl:0 (placed by \"s=opencl:0\"), which cannot run sqrt: it has " LACKS "; cpu:0, cuda:0 can";
  check_placed_case(
      &(placed_case){.graph = wide, .targets = THREE, .place = {"s=opencl:0"}, .want = words, .code = TN_UNSUPPORTED});
  /* Reports all errors at once. */
  check_placed_case(&(placed_case){
      .graph = wide,
      .targets = "x86-64-v3; opencl",
      .place = {"*=opencl", "s=opencl", "w=opencl"},
      .want = "\"w\" is on opencl:0 (placed by \"w=opencl\"), which cannot run convert: it has " LACKS
              "; cpu:0 can; and \"s\" is on opencl:0 (placed by \"s=opencl\"), which cannot run sqrt: it has " LACKS
              "; cpu:0 can",
      .code = TN_UNSUPPORTED});
  /* By an annotation, with the operator that the model has. */
  check_placed_case(&(placed_case){
      .graph = "graph \"main\" {\n"
               "  input x: f64[4]\n"
               "  a: f64[4] on \"opencl:0\" = abs(x) from \"node \\\"first\\\" (Abs, opset 17)\"\n"
               "  output \"y\" = a\n"
               "}\n",
      .targets = "x86-64-v3; opencl",
      .want = "node \"first\" (Abs, opset 17): \"a\" is on opencl:0 (said where it is made), which cannot run abs: it "
              "has " LACKS "; cpu:0 can",
      .code = TN_UNSUPPORTED});
  /* A type alone means the first of it that can. */
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f64[4]\n"
                                            "  a: f64[4] on \"opencl\" = abs(x)\n"
                                            "  output \"y\" = a\n"
                                            "}\n",
                                   .targets = "x86-64-v3; opencl -device=0; opencl -device=1 -fp64=1",
                                   .want = "opencl:1     input              x  (where it is read)\n"
                                           "opencl:1     abs                a  (said where it is made; 5 us)\n"});
}

/* If the device of a pattern with a '*' cannot run a node, an earlier rule whose device can applies, or else the
 * first capable device. Reports list these nodes, including those of earlier rules. */
static void check_yields(tn__arena *arena, void *user) {
  static const char *const rules[][2] = {{"*=opencl", NULL}, {"s=cuda", "*=opencl"}, {"*=cuda", "*=opencl"}};
  static const char *const devices[][5] = {{"opencl:0", "cpu:0", "cpu:0", "cpu:0", "opencl:0"},
                                           {"opencl:0", "cuda:0", "cuda:0", "cpu:0", "opencl:0"},
                                           {"opencl:0", "cuda:0", "cuda:0", "cuda:0", "opencl:0"}};
  for (int i = 0; i < 3; i++) {
    const placed_case c = {.graph = wide, .targets = THREE, .place = {rules[i][0], rules[i][1]}};
    tn__place_rules read = {0};
    tn__graph *graph = read_placed_graph(arena, wide);
    tn__place_options options = read_placed_options(arena, &c, &read, &(tn__place_budgets){0});
    tn__place_result result = tn__graph_place(graph, &options);
    int at = 0;
    for (int n = 0; n < tn__graph_node_count(graph); n++) {
      const tn__value *made = tn__graph_node_at(graph, n)->outputs[0];
      if (tn__op_has(made->producer, TN__FACT_COPIES)) continue;
      assert_string_equal(tn__virtual_device_text(arena, made->device), devices[i][at++]);
    }
    assert_int_equal(at, 5);
    assert_int_equal(result.yields.count, 3);
    for (int k = 0; k < 3; k++) {
      assert_string_equal(result.yields.data[k].name, ((const char *const[]){"w", "s", "n"})[k]);
      assert_string_equal(result.yields.data[k].lack, LACKS);
      assert_string_equal(result.yields.data[k].rule->text, "*=opencl");
    }
  }
}

static void patterns_yield_to_what_a_device_cannot_run(void **state) {
  check_ok(tn__with_arena(NULL, check_yields, NULL));
}

/* Operators made of the model's node "up", whose positions are f64, between nodes of f32. */
#define OF_UP " from \"node \\\"up\\\" (Resize, opset 18)\"\n"
static const char parted[] =
    "graph \"main\" {\n"
    "  input x: f32[n]\n"
    "  a: f32[n] = abs(x)\n"
    "  i: i64[n] = iota() {dtype=\"i64\", shape=(n), axis=0}" OF_UP "  j: i64[n] = negate(i)" OF_UP
    "  w: f64[n] = convert(j) {dtype=\"f64\"}" OF_UP "  p: i64[n] = convert(w) {dtype=\"i64\"}" OF_UP
    "  t: f32[n] = take(a, p) {axis=0}" OF_UP
    "  c: f32[n] = negate(t)\n"
    "  output \"y\" = c\n"
    "}\n";

/* A node of f32 is placed, whatever the importer made of it: what computes in f64 falls, and what is made for that
 * alone is where that is. */
static void what_is_inside_of_a_node_falls(void **state) {
  check_placed_case(&(placed_case){.graph = parted,
                                   .targets = "x86-64-v3; opencl",
                                   .place = {"*=opencl"},
                                   .want = "opencl:0     input              x  (where it is read)\n"
                                           "opencl:0     abs                a  (placed by \"*=opencl\"; 5 us)\n"
                                           "cpu:0        iota               up  (follows what reads it)\n"
                                           "cpu:0        negate             up  (follows what reads it; 185 ns)\n"
                                           "cpu:0        convert            up  (follows what reads it; 185 ns)\n"
                                           "cpu:0        convert            up  (not on opencl:0, which has " LACKS
                                           "; 185 ns)\n"
                                           "opencl:0     device_copy        up  (from cpu:0; 512 bytes, 10 us)\n"
                                           "opencl:0     take               up  (placed by \"*=opencl\"; 5 us)\n"
                                           "opencl:0     negate             c  (placed by \"*=opencl\"; 5 us)\n"});
  /* With the numbers all of it is there. */
  check_placed_case(&(placed_case){.graph = parted,
                                   .targets = "x86-64-v3; opencl -fp64=1",
                                   .place = {"*=opencl"},
                                   .quiet = true,
                                   .want = "opencl:0     input              x\n"
                                           "opencl:0     abs                a\n"
                                           "opencl:0     iota               up\n"
                                           "opencl:0     negate             up\n"
                                           "opencl:0     convert            up\n"
                                           "opencl:0     convert            up\n"
                                           "opencl:0     take               up\n"
                                           "opencl:0     negate             c\n"});
}

/* By name a node is placed of which the device can run nothing: nothing of it would be where it was said. */
static void a_node_all_of_which_falls_is_refused_by_name(void **state) {
  static const char graph[] =
      "graph \"main\" {\n"
      "  input x: i32[4]\n"
      "  w: f64[4] = convert(x) {dtype=\"f64\"}" OF_UP "  s: f64[4] = sqrt(w)" OF_UP
      "  p: i32[4] = convert(s) {dtype=\"i32\"}" OF_UP
      "  output \"y\" = p\n"
      "}\n";
  check_placed_case(&(placed_case){.graph = graph,
                                   .targets = "x86-64-v3; opencl",
                                   .place = {"up=opencl"},
                                   .want = "node \"up\" (Resize, opset 18): \"w\" is on opencl:0 (placed by "
                                           "\"up=opencl\"), which cannot run convert: it has " LACKS "; cpu:0 can",
                                   .code = TN_UNSUPPORTED});
  check_placed_case(&(placed_case){.graph = graph,
                                   .targets = "x86-64-v3; opencl",
                                   .place = {"*=opencl"},
                                   .quiet = true,
                                   .want = "cpu:0        input              x\n"
                                           "cpu:0        convert            up\n"
                                           "cpu:0        sqrt               up\n"
                                           "cpu:0        convert            up\n"});
}

/* The device is the first target, and nothing runs there: no value is there either. */
static void what_nobody_reads_is_the_hosts(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f64[4]\n"
                                            "  input unread: f32[4]\n"
                                            "  input through: f32[4]\n"
                                            "  a: f64[4] = abs(x)\n"
                                            "  output \"y\" = a\n"
                                            "  output \"z\" = through\n"
                                            "}\n",
                                   .targets = "opencl; x86-64-v3",
                                   .want = "cpu:0        input              x  (where it is read)\n"
                                           "cpu:0        input              unread  (no operator reads it)\n"
                                           "cpu:0        input              through  (no operator reads it)\n"
                                           "cpu:0        abs                a  (not on opencl:0, which has " LACKS
                                           "; 105 ns)\n"});
}

/* What the compiler computes runs nowhere. What an open size is in is not that. */
static void what_is_made_of_constants_is_not_refused(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f32[4]\n"
                                            "  i: f64[4] = iota() {dtype=\"f64\", shape=(4), axis=0}\n"
                                            "  s: f64[4] = sqrt(i)\n"
                                            "  w: f32[4] = convert(s) {dtype=\"f32\"}\n"
                                            "  a: f32[4] = add(x, w)\n"
                                            "  output \"y\" = a\n"
                                            "}\n",
                                   .targets = "x86-64-v3; opencl",
                                   .place = {"*=opencl"},
                                   .quiet = true,
                                   .want = "opencl:0     input              x\n"
                                           "cpu:0        iota               i\n"
                                           "cpu:0        sqrt               s\n"
                                           "cpu:0        convert            w\n"
                                           "opencl:0     device_copy        w\n"
                                           "opencl:0     add                a\n"});
  check_placed_case(&(placed_case){
      .graph = "graph \"main\" {\n"
               "  input x: f32[n]\n"
               "  i: f64[n] = iota() {dtype=\"f64\", shape=(n), axis=0}\n"
               "  output \"y\" = i\n"
               "}\n",
      .targets = "x86-64-v3; opencl",
      .place = {"i=opencl"},
      .want = "\"i\" is on opencl:0 (placed by \"i=opencl\"), which cannot run iota: it has " LACKS "; cpu:0 can",
      .code = TN_UNSUPPORTED});
}

static const char lists[] =
    "graph \"main\" {\n"
    "  input x: f32[4]\n"
    "  a: f32[4] = abs(x)\n"
    "  e: sequence f32[?] = sequence_empty() {dtype=\"f32\", rank=1}\n"
    "  s: sequence f32[?] = sequence_insert(e, a)\n"
    "  output \"y\" = s\n"
    "}\n";

static void lists_are_the_hosts(void **state) {
  /* A pattern for all means kernels; a name means what it names. */
  check_placed_case(&(placed_case){.graph = lists,
                                   .targets = "x86-64-v3; opencl",
                                   .place = {"*=opencl"},
                                   .want = "opencl:0     input              x  (where it is read)\n"
                                           "opencl:0     abs                a  (placed by \"*=opencl\"; 5 us)\n"
                                           "cpu:0        sequence_empty     e  (lists and strings are on the host)\n"
                                           "cpu:0        device_copy        a  (from opencl:0; 16 bytes, 10 us)\n"
                                           "cpu:0        sequence_insert    s  (lists and strings are on the host)\n"});
  check_placed_case(&(placed_case){.graph = lists,
                                   .targets = "x86-64-v3; opencl",
                                   .place = {"s=opencl"},
                                   .want = "\"s\" is on opencl:0 (placed by \"s=opencl\"), which cannot run "
                                           "sequence_insert: it has no lists and strings, which only the host has; "
                                           "cpu:0 can",
                                   .code = TN_UNSUPPORTED});
  check_placed_case(&(placed_case){.graph = lists, .targets = "x86-64-v3; opencl", .place = {"s=cpu"}});
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static void each_rule_is_told(void **state) {
  check_placed_case(
      &(placed_case){.graph = "graph \"main\" {\n"
                              "  input x: f32[1024]\n"
                              "  input z: f32[1024]\n"
                              "  a: f32[1024] = abs(x)\n"
                              "  b: f32[1024] = negate(a)\n"
                              "  o: f32[1024] = on_device(b) {device=\"cuda\", body=0, result=1}\n"
                              "  d: f32[1024] = abs(o)\n"
                              "  e: f32[1024] = add(z, b)\n"
                              "  f: f32[1024] = add(z, d)\n"
                              "  output \"e\" = e\n"
                              "  output \"f\" = f\n"
                              "}\n",
                     .targets = THREE,
                     .place = {"b=opencl"},
                     .want = "opencl:0     input              x  (where it is read)\n"
                             "cpu:0        input              z  (read in several places)\n"
                             "opencl:0     abs                a  (follows what reads it; 5.02 us)\n"
                             "opencl:0     negate             b  (placed by \"b=opencl\"; 5.02 us)\n"
                             "cuda:0       device_copy        b  (from opencl:0; 4096 bytes, 20.5 us)\n"
                             "cuda:0       abs                d  (with \"o\": the result of on_device; 5.02 us)\n"
                             "cpu:0        device_copy        b  (from opencl:0; 4096 bytes, 10.3 us)\n"
                             "cpu:0        add                e  (the default; 1.12 us)\n"
                             "cuda:0       device_copy        z  (from cpu:0; 4096 bytes, 10.3 us)\n"
                             "cuda:0       add                f  (with \"o\": the result of on_device; 5.02 us)\n"});
}

static void times_are_told_in_three_digits(void **state) {
  static const struct {
    double seconds;
    const char *text;
  } cases[] = {{0, "0 ns"},        {1.5e-9, "1.5 ns"}, {9.996e-7, "1 us"}, {1.234e-5, "12.3 us"},
               {1.5e-4, "150 us"}, {0.25, "250 ms"},   {3, "3 s"},         {12345, "12345 s"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tn__strbuf text;
    tn__strbuf_init(&text, NULL);
    tn__place_put_time(&text, cases[i].seconds);
    assert_string_equal(tn__strbuf_text(&text), cases[i].text);
    tn__strbuf_release(&text);
  }
}

/* ---- rates ------------------------------------------------------------------------------------------------------- */

static void weigh_devices(tn__arena *arena, void *user) {
  tn__compile_config *config = tn__compile_config_create(
      arena,
      "x86-64-v3; cuda -gflops=1000 -memory_rate=2000 -link_rate=100 -link_wait=5000 -launch=3000; cuda -device=1",
      NULL);
  const tn__virtual_device *cpu = config->devices.data[0], *one = config->devices.data[1],
                           *two = config->devices.data[2];
  tn__device_rates r = tn__device_rates_of(one->target);
  assert_float_equal(r.operations, 1e12, 1);
  assert_float_equal(r.memory, 2e9, 1);
  assert_float_equal(r.launch, 3e-6, 1e-12);
  double there = tn__device_copy_seconds(config, cpu, one, 1e6), back = tn__device_copy_seconds(config, one, cpu, 1e6);
  double other = tn__device_copy_seconds(config, cpu, two, 1e6);
  assert_float_equal(there, 5e-6 + 1e6 / 1e8, 1e-9);
  assert_float_equal(there, back, 1e-12);
  assert_float_equal(tn__device_copy_seconds(config, one, two, 1e6), there + other, 1e-9); /* through the host */
  assert_true(tn__device_copy_seconds(config, one, one, 1e6) == 0);
  /* More cores and wider vectors are faster. */
  tn__target narrow, wider, more;
  check_ok(tn__target_parse("x86-64-v2", &narrow));
  check_ok(tn__target_parse("x86-64-v3", &wider));
  check_ok(tn__target_parse("x86-64-v3 -cores=8", &more));
  assert_true(tn__device_rates_of(&narrow).operations < tn__device_rates_of(&wider).operations);
  assert_true(tn__device_rates_of(&wider).operations < tn__device_rates_of(&more).operations);
}

static void devices_have_rates(void **state) { check_ok(tn__with_arena(NULL, weigh_devices, NULL)); }

static int make_folder(void **state) {
  if (mkdtemp(folder) == NULL) return -1;
  snprintf(path, sizeof path, "%s/p.json", folder);
  snprintf(at_path, sizeof at_path, "@%s", path);
  return 0;
}

static int drop_folder(void **state) { return unlink(path) + rmdir(folder); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_are_rules_in_their_order),
      cmocka_unit_test(files_are_refused_with_the_line),
      cmocka_unit_test(files_of_any_bytes),
      cmocka_unit_test(what_a_device_cannot_run_falls_to_the_next),
      cmocka_unit_test(what_was_placed_by_name_is_refused),
      cmocka_unit_test(patterns_yield_to_what_a_device_cannot_run),
      cmocka_unit_test(what_nobody_reads_is_the_hosts),
      cmocka_unit_test(what_is_inside_of_a_node_falls),
      cmocka_unit_test(a_node_all_of_which_falls_is_refused_by_name),
      cmocka_unit_test(what_is_made_of_constants_is_not_refused),
      cmocka_unit_test(lists_are_the_hosts),
      cmocka_unit_test(each_rule_is_told),
      cmocka_unit_test(times_are_told_in_three_digits),
      cmocka_unit_test(devices_have_rates),
  };
  return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
