/* What a plan promises, each thing with a test of its own: annotations wherever a value may have one, what contradicts,
 * and what users of other systems report. */
#include <stdio.h>

#include "graph/internal.h"
#include "graph/place/cost.h"
#include "unit/place_check.h"

#define TWO "x86-64-v3; opencl"
#define THREE "x86-64-v3; opencl; cuda"
#define WAY ": place them alike, or put on_device with only its result said between them"

/* ---- annotations ------------------------------------------------------------------------------------------------- */

/* Where the operand's maker, the annotation's reader and a copy between them are, for either side said or not. What
 * reads it is on the default device unless that is said. */
static void fixed_free_and_copied(tn__arena *arena, void *user) {
  static const struct {
    int body, result;
    const char *maker, *reader;
    int copies;
  } cases[] = {{0, 0, "cpu:0", "cpu:0", 0},
               {1, 0, "opencl:0", "cpu:0", 1},
               {0, 1, "opencl:0", "opencl:0", 0}, /* free, it follows what reads it */
               {1, 1, "opencl:0", "opencl:0", 0}};
  for (int i = 0; i < 4; i++) {
    tn__place_options options = {.config = tn__compile_config_create(arena, TWO, NULL)};
    tn__graph *graph =
        read_placed_graph(arena, tn__arena_printf(arena,
                                                  "graph \"main\" {\n"
                                                  "  input x: f32[4]\n"
                                                  "  a: f32[4] = abs(x)\n"
                                                  "  o: f32[4] = on_device(a) {device=\"opencl\", body=%d, result=%d}\n"
                                                  "  b: f32[4] = negate(o)\n"
                                                  "  output \"y\" = b\n"
                                                  "}\n",
                                                  cases[i].body, cases[i].result));
    assert_int_equal(tn__graph_place(graph, &options).copies, cases[i].copies);
    for (int n = 0; n < tn__graph_node_count(graph); n++) {
      const tn__node *node = tn__graph_node_at(graph, n);
      const char *at = tn__virtual_device_text(arena, node->outputs[0]->device);
      if (tn__g_is_op(node, "abs")) assert_string_equal(at, cases[i].maker);
      if (tn__g_is_op(node, "negate")) assert_string_equal(at, cases[i].reader);
      assert_false(tn__g_is_op(node, "on_device"));
    }
  }
}

static void annotations_are_fixed_free_or_copied(void **state) {
  check_ok(tn__with_arena(NULL, fixed_free_and_copied, NULL));
}

static void annotations_on_parameters(void **state) {
  /* Nothing is copied on the way from a parameter that is said to live somewhere. */
  check_placed_case(
      &(placed_case){.graph = "graph \"main\" {\n"
                              "  input x: f32[4] on \"opencl\"\n"
                              "  input z: f32[4]\n"
                              "  a: f32[4] = abs(x)\n"
                              "  b: f32[4] = add(a, z)\n"
                              "  output \"y\" = b\n"
                              "}\n",
                     .targets = TWO,
                     .want = "opencl:0     input              x  (said where it is made)\n"
                             "opencl:0     input              z  (where it is read)\n"
                             "opencl:0     abs                a  (with \"x\": said where it is made; 5 us)\n"
                             "opencl:0     add                b  (with \"x\": said where it is made; 5 us)\n"});
}

static void annotations_on_results(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f32[4]\n"
                                            "  a: f32[4] = abs(x)\n"
                                            "  b: f32[4] on \"opencl\" = negate(a)\n"
                                            "  output \"y\" = b\n"
                                            "}\n",
                                   .targets = TWO,
                                   .want =
                                       "opencl:0     input              x  (where it is read)\n"
                                       "opencl:0     abs                a  (with \"b\": said where it is made; 5 us)\n"
                                       "opencl:0     negate             b  (said where it is made; 5 us)\n"});
}

/* Results of one operator are in one place: what is said of one is said of all. */
static void annotations_on_one_of_several_results(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[8]\n"
      "  v: f32[2]%s, i: i64[2]%s = top_k(x) {axis=0, descending=1, count=(2)}\n"
      "  output \"v\" = v\n"
      "  output \"i\" = i\n"
      "}\n";
  char first[512], second[512], both[512];
  snprintf(first, sizeof first, text, " on \"opencl\"", "");
  snprintf(second, sizeof second, text, "", " on \"opencl\"");
  snprintf(both, sizeof both, text, " on \"opencl\"", " on \"cpu\"");
  check_placed_case(&(placed_case){.graph = first,
                                   .targets = TWO,
                                   .want = "opencl:0     input              x  (where it is read)\n"
                                           "opencl:0     top_k              v  (said where it is made; 5.32 us)\n"});
  check_placed_case(
      &(placed_case){.graph = second,
                     .targets = TWO,
                     .want = "opencl:0     input              x  (where it is read)\n"
                             "opencl:0     top_k              v  (with \"i\": said where it is made; 5.32 us)\n"});
  check_placed_case(
      &(placed_case){.graph = both,
                     .targets = TWO,
                     .want = "devices contradict: \"v\" is on opencl (said where it is made), and \"i\" on cpu "
                             "(said where it is made); no copy is allowed on the way \"v\" - \"i\"" WAY,
                     .code = TN_INVALID_ARGUMENT});
}

#define LOOP(start, condition, body, last)                  \
  "graph \"main\" {\n"                                      \
  "  input n: i64[]\n"                                      \
  "  input x: f32[4]" start                                 \
  "\n"                                                      \
  "  const z: i64[] = 0\n"                                  \
  "  i: i64[], m: i64[], s: f32[4] = while(z, n, x)\n"      \
  "    graph \"condition\" {\n"                             \
  "      input a: i64[]\n"                                  \
  "      input b: i64[]\n"                                  \
  "      input c: f32[4]" condition                         \
  "\n"                                                      \
  "      more: bool[] = compare(a, b) {direction=\"LT\"}\n" \
  "      output \"more\" = more\n"                          \
  "    }\n"                                                 \
  "    graph \"body\" {\n"                                  \
  "      input a: i64[]\n"                                  \
  "      input b: i64[]\n"                                  \
  "      input c: f32[4]\n"                                 \
  "      const one: i64[] = 1\n"                            \
  "      next: i64[] = add(a, one)\n"                       \
  "      t: f32[4]" body                                    \
  " = abs(c)\n"                                             \
  "      output \"a\" = next\n"                             \
  "      output \"b\" = b\n"                                \
  "      output \"c\" = t\n"                                \
  "    }\n"                                                 \
  "  y: f32[4]" last                                        \
  " = negate(s)\n"                                          \
  "  output \"y\" = y\n"                                    \
  "}\n"

#define ON " on \"opencl\""

/* The start, the round's parameter, what a round gives, and what reads the result: one is as good as the other. */
static void annotations_on_the_state_of_loops(void **state) {
  static const char *const texts[] = {LOOP(ON, "", "", ""), LOOP("", ON, "", ""), LOOP("", "", ON, ""),
                                      LOOP("", "", "", ON)};
  for (int i = 0; i < 4; i++) {
    static const char want[] =
        "cpu:0        input              n\n"
        "opencl:0     input              x\n"
        "cpu:0        while              i\n"
        "  cpu:0        input              a\n"
        "  cpu:0        input              b\n"
        "  opencl:0     input              c\n"
        "  cpu:0        compare            more\n"
        "  cpu:0        input              a\n"
        "  cpu:0        input              b\n"
        "  opencl:0     input              c\n"
        "  cpu:0        add                next\n"
        "  opencl:0     abs                t\n"
        "opencl:0     negate             y\n";
    placed_case c = {.graph = texts[i], .targets = TWO, .quiet = true, .want = want};
    check_placed_case(&c);
  }
}

static void states_of_loops_contradict(void **state) {
  check_placed_case(&(placed_case){
      .graph = LOOP("", " on \"cpu\"", ON, ""),
      .targets = TWO,
      .want = "devices contradict: \"t\" is on opencl (said where it is made), and \"c\" on cpu (said where it is "
              "made); no copy is allowed on the way \"t\" - \"s\" - \"c\"" WAY,
      .code = TN_INVALID_ARGUMENT});
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

/* What one arm alone reads is copied in it, once, through branches in branches; what both read is copied before. */
static void copies_are_made_in_the_arm_that_reads_them(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input c: bool[]\n"
                                            "  input x: f32[4]\n"
                                            "  a: f32[4] = abs(x)\n"
                                            "  b: f32[4] = abs(a)\n"
                                            "  y: f32[4] = if(c, c, a, b)\n"
                                            "    graph \"then\" {\n"
                                            "      input d: bool[]\n"
                                            "      input p: f32[4]\n"
                                            "      input q: f32[4]\n"
                                            "      s: f32[4] = if(d, p)\n"
                                            "        graph \"then\" {\n"
                                            "          input i: f32[4]\n"
                                            "          t: f32[4] = add(i, i)\n"
                                            "          u: f32[4] = multiply(t, i)\n"
                                            "          output \"r\" = u\n"
                                            "        }\n"
                                            "        graph \"else\" {\n"
                                            "          input i: f32[4]\n"
                                            "          const k: f32[4] = 1.0\n"
                                            "          v: f32[4] = sqrt(k)\n"
                                            "          output \"r\" = v\n"
                                            "        }\n"
                                            "      w: f32[4] = negate(q)\n"
                                            "      z: f32[4] = add(s, w)\n"
                                            "      output \"r\" = z\n"
                                            "    }\n"
                                            "    graph \"else\" {\n"
                                            "      input d: bool[]\n"
                                            "      input p: f32[4]\n"
                                            "      input q: f32[4]\n"
                                            "      e: f32[4] = negate(q)\n"
                                            "      output \"r\" = e\n"
                                            "    }\n"
                                            "  output \"o\" = y\n"
                                            "}\n",
                                   .targets = THREE,
                                   .place = {"*=cuda:0", "a=cpu", "b=cpu"},
                                   .quiet = true,
                                   .want = "cpu:0        input              c\n"
                                           "cpu:0        input              x\n"
                                           "cpu:0        abs                a\n"
                                           "cpu:0        abs                b\n"
                                           "cuda:0       device_copy        b\n"
                                           "cuda:0       if                 y\n"
                                           "  cpu:0        input              d\n"
                                           "  cpu:0        input              p\n"
                                           "  cuda:0       input              q\n"
                                           "  cuda:0       if                 s\n"
                                           "    cpu:0        input              i\n"
                                           "    cuda:0       device_copy        i\n"
                                           "    cuda:0       add                t\n"
                                           "    cuda:0       multiply           u\n"
                                           "    cpu:0        input              i\n"
                                           "    cuda:0       sqrt               v\n"
                                           "  cuda:0       negate             w\n"
                                           "  cuda:0       add                z\n"
                                           "  cpu:0        input              d\n"
                                           "  cpu:0        input              p\n"
                                           "  cuda:0       input              q\n"
                                           "  cuda:0       negate             e\n"});
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* No operator computes these outputs, so they are not placed on the default device, which would need a copy. */
static void free_outputs_are_where_they_are_made(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f32[4]\n"
                                            "  a: f32[4] = abs(x)\n"
                                            "  s: f32[4] = on_device(a) {device=\"cuda\", body=1, result=0}\n"
                                            "  t: f32[4] = on_device(s) {device=\"cuda\", body=0, result=0}\n"
                                            "  output \"o\" = t\n"
                                            "}\n",
                                   .targets = THREE,
                                   .want = "cuda:0       input              x  (where it is read)\n"
                                           "cuda:0       abs                a  (the operand of on_device; 5 us)\n"});
  /* Operators after it run on the default device, and values passed through from them stay there. */
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f32[4]\n"
                                            "  a: f32[4] = abs(x)\n"
                                            "  s: f32[4] = on_device(a) {device=\"cuda\", body=1, result=0}\n"
                                            "  b: f32[4] = negate(s)\n"
                                            "  output \"o\" = s\n"
                                            "  output \"p\" = b\n"
                                            "}\n",
                                   .targets = THREE,
                                   .quiet = true,
                                   .want = "cuda:0       input              x\n"
                                           "cuda:0       abs                a\n"
                                           "cpu:0        device_copy        a\n"
                                           "cpu:0        negate             b\n"});
}

/* A value passed through a branch stays in place. Of two devices the host is first, then the order of targets
 * decides. Callers' tensors are on the host, whatever the default device. */
static void what_is_handed_on_stays(void **state) {
  static const char graph[] =
      "graph \"main\" {\n"
      "  input c: bool[]\n"
      "  input x: f32[4]\n"
      "  a: f32[4] = abs(x)\n"
      "  b: f32[4] = negate(x)\n"
      "  y: f32[4] = if(c, a, b)\n"
      "    graph \"then\" {\n"
      "      input p: f32[4]\n"
      "      input q: f32[4]\n"
      "      output \"r\" = p\n"
      "    }\n"
      "    graph \"else\" {\n"
      "      input p: f32[4]\n"
      "      input q: f32[4]\n"
      "      output \"r\" = q\n"
      "    }\n"
      "  output \"o\" = y\n"
      "}\n";
  check_placed_case(&(placed_case){.graph = graph,
                                   .targets = THREE,
                                   .place = {"a=cuda", "b=cuda"},
                                   .quiet = true,
                                   .want = "cpu:0        input              c\n"
                                           "cuda:0       input              x\n"
                                           "cuda:0       abs                a\n"
                                           "cuda:0       negate             b\n"
                                           "cuda:0       if                 y\n"
                                           "  cuda:0       input              p\n"
                                           "  cuda:0       input              q\n"
                                           "  cuda:0       input              p\n"
                                           "  cuda:0       input              q\n"});
  check_placed_case(&(placed_case){.graph = graph,
                                   .targets = THREE,
                                   .place = {"a=cuda", "b=opencl"},
                                   .quiet = true,
                                   .want = "cpu:0        input              c\n"
                                           "cpu:0        input              x\n"
                                           "cuda:0       device_copy        x\n"
                                           "cuda:0       abs                a\n"
                                           "opencl:0     device_copy        x\n"
                                           "opencl:0     negate             b\n"
                                           "opencl:0     if                 y\n"
                                           "  cuda:0       input              p\n"
                                           "  opencl:0     input              q\n"
                                           "  opencl:0     device_copy        p\n"
                                           "  cuda:0       input              p\n"
                                           "  opencl:0     input              q\n"});
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f32[4]\n"
                                            "  y: f32[4] = call(x)\n"
                                            "    graph \"f\" {\n"
                                            "      input p: f32[4]\n"
                                            "      output \"r\" = p\n"
                                            "    }\n"
                                            "  z: f32[4] = abs(x)\n"
                                            "  output \"o\" = y\n"
                                            "  output \"z\" = z\n"
                                            "}\n",
                                   .targets = "cuda; x86-64-v3",
                                   .quiet = true,
                                   .want = "cpu:0        input              x\n"
                                           "cpu:0        call               y\n"
                                           "  cpu:0        input              p\n"
                                           "cuda:0       device_copy        x\n"
                                           "cuda:0       abs                z\n"});
}

/* ---- values without readers -------------------------------------------------------------------------------------- */

/* An unread copy in the model serves other readers that need one, or is removed. */
static void copies_that_nobody_reads(void **state) {
  static const char *const order[] = {"  d: f32[4] = device_copy(x) {to=\"opencl:0\"}\n", ""};
  for (int i = 0; i < 2; i++) {
    char graph[1024];
    snprintf(graph, sizeof graph,
             "graph \"main\" {\n"
             "  input x: f32[4]\n"
             "%s"
             "  a: f32[4] = on_device(x) {device=\"opencl:0\", body=0, result=1}\n"
             "  b: f32[4] = negate(a)\n"
             "%s"
             "  k: f32[4] = device_copy(b) {to=\"cuda:0\"}\n"
             "  l: f32[4] = on_device(k) {device=\"cpu:0\", body=0, result=1}\n"
             "  m: f32[4] = device_copy(l) {to=\"opencl:0\"}\n"
             "  e: f32[4] = abs(x)\n"
             "  output \"o\" = b\n"
             "  output \"p\" = e\n"
             "}\n",
             order[i], order[1 - i]);
    check_placed_case(&(placed_case){.graph = graph,
                                     .targets = THREE,
                                     .quiet = true,
                                     .want = "cpu:0        input              x\n"
                                             "opencl:0     device_copy        x\n"
                                             "opencl:0     negate             b\n"
                                             "cpu:0        abs                e\n"});
  }
}

/* ---- contradictions ---------------------------------------------------------------------------------------------- */

/* From a branch that stands in a branch to what reads the outer one. */
static void nested_contradictions_show_the_way(void **state) {
  check_placed_case(&(placed_case){
      .graph = "graph \"main\" {\n"
               "  input c: bool[]\n"
               "  input d: bool[]\n"
               "  input x: f32[4]\n"
               "  r: f32[4] = if(c, d, x)\n"
               "    graph \"then\" {\n"
               "      input e: bool[]\n"
               "      input a: f32[4]\n"
               "      q: f32[4] = if(e, a)\n"
               "        graph \"then\" {\n"
               "          input b: f32[4]\n"
               "          deep: f32[4] on \"cuda\" = abs(b)\n"
               "          output \"q\" = deep\n"
               "        }\n"
               "        graph \"else\" {\n"
               "          input b: f32[4]\n"
               "          other: f32[4] = negate(b)\n"
               "          output \"q\" = other\n"
               "        }\n"
               "      output \"r\" = q\n"
               "    }\n"
               "    graph \"else\" {\n"
               "      input e: bool[]\n"
               "      input a: f32[4]\n"
               "      output \"r\" = a\n"
               "    }\n"
               "  u: f32[4] on \"opencl\" = abs(r)\n"
               "  output \"y\" = u\n"
               "}\n",
      .targets = THREE,
      .want = "devices contradict: \"deep\" is on cuda (said where it is made), and \"u\" on opencl (said where it is "
              "made); no copy is allowed on the way \"deep\" - \"q\" - \"r\" - \"u\"" WAY,
      .code = TN_INVALID_ARGUMENT});
}

static void calls_and_functions_agree(void **state) {
  check_placed_case(&(placed_case){
      .graph = "graph \"main\" {\n"
               "  input x: f32[4]\n"
               "  a: f32[4] = abs(x)\n"
               "  r: f32[4] = call(a)\n"
               "    graph \"f\" {\n"
               "      input b: f32[4] on \"opencl:0\"\n"
               "      t: f32[4] on \"cuda:0\" = abs(b)\n"
               "      output \"r\" = t\n"
               "    }\n"
               "  output \"y\" = r\n"
               "}\n",
      .targets = THREE,
      .want = "devices contradict: \"b\" is on opencl:0 (said where it is made), and \"t\" on cuda:0 (said where it is "
              "made); no copy is allowed on the way \"b\" - \"t\"" WAY,
      .code = TN_INVALID_ARGUMENT});
}

/* A function that is called twice is there twice: each call has places of its own. */
static void calls_are_placed_one_by_one(void **state) {
  check_placed_case(
      &(placed_case){.graph = "graph \"main\" {\n"
                              "  input x: f32[4]\n"
                              "  a: f32[4] = call(x)\n"
                              "    graph \"f\" {\n"
                              "      input b: f32[4]\n"
                              "      t: f32[4] = abs(b)\n"
                              "      output \"r\" = t\n"
                              "    }\n"
                              "  o: f32[4] on \"opencl\" = on_device(a) {device=\"opencl\", body=1, result=1}\n"
                              "  p: f32[4] = on_device(o) {device=\"cpu\", body=0, result=1}\n"
                              "  c: f32[4] = call(p)\n"
                              "    graph \"f\" {\n"
                              "      input b: f32[4]\n"
                              "      t: f32[4] = abs(b)\n"
                              "      output \"r\" = t\n"
                              "    }\n"
                              "  output \"y\" = c\n"
                              "}\n",
                     .targets = TWO,
                     .quiet = true,
                     .want = "opencl:0     input              x\n"
                             "opencl:0     call               a\n"
                             "  opencl:0     input              b\n"
                             "  opencl:0     abs                t\n"
                             "cpu:0        device_copy        a\n"
                             "cpu:0        call               c\n"
                             "  cpu:0        input              b\n"
                             "  cpu:0        abs                t\n"});
}

enum { NAME = 24 };

/* ---- what users of other systems report -------------------------------------------------------------------------- */

/* An input that two devices read is copied to each, and not to the first from the other. */
static void an_input_that_two_devices_share(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f32[4]\n"
                                            "  a: f32[4] = abs(x)\n"
                                            "  b: f32[4] = negate(x)\n"
                                            "  c: f32[4] = sqrt(x)\n"
                                            "  output \"a\" = a\n"
                                            "  output \"b\" = b\n"
                                            "  output \"c\" = c\n"
                                            "}\n",
                                   .targets = THREE,
                                   .place = {"a=opencl", "b=cuda", "c=cuda"},
                                   .quiet = true,
                                   .want = "cpu:0        input              x\n"
                                           "opencl:0     device_copy        x\n"
                                           "opencl:0     abs                a\n"
                                           "cuda:0       device_copy        x\n"
                                           "cuda:0       negate             b\n"
                                           "cuda:0       sqrt               c\n"});
}

/* Each input is brought to where it is read, not all to the first device. */
static void inputs_do_not_all_go_to_the_first_device(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f32[4]\n"
                                            "  input z: f32[4]\n"
                                            "  input w: f32[4]\n"
                                            "  a: f32[4] = abs(x)\n"
                                            "  b: f32[4] = add(a, z)\n"
                                            "  c: f32[4] = add(b, w)\n"
                                            "  output \"c\" = c\n"
                                            "}\n",
                                   .targets = "opencl; opencl -device=1; cuda; x86-64-v3",
                                   .place = {"a=opencl:0", "b=opencl:1", "c=cuda"},
                                   .quiet = true,
                                   .want = "opencl:0     input              x\n"
                                           "opencl:1     input              z\n"
                                           "cuda:0       input              w\n"
                                           "opencl:0     abs                a\n"
                                           "opencl:1     device_copy        a\n"
                                           "opencl:1     add                b\n"
                                           "cuda:0       device_copy        b\n"
                                           "cuda:0       add                c\n"});
}

/* Two stages that are said to be on two devices are: what is between patterns does not pull one to the other, and what
 * is not where it was said is no plan. */
static void a_pipeline_has_all_its_devices(void **state) {
  tn__strbuf text, want;
  tn__strbuf_init(&text, NULL), tn__strbuf_init(&want, NULL);
  tn__strbuf_append(&text, "graph \"main\" {\n  input x: f32[4]\n");
  tn__strbuf_append(&want, "opencl:0     input              x\n");
  for (int i = 0; i < 12; i++) {
    char before[NAME] = "x";
    const char *stage = i < 6 ? "stage1" : "stage2";
    if (i > 0) snprintf(before, sizeof before, "v%d", i - 1);
    tn__strbuf_printf(&text, "  v%d: f32[4] = abs(%s) from \"node \\\"%s/%d\\\" (Abs, opset 1)\"\n", i, before, stage,
                      i);
    if (i == 6) tn__strbuf_append(&want, "opencl:1     device_copy        stage1/5\n");
    tn__strbuf_printf(&want, "opencl:%d     abs                %s/%d\n", i >= 6, stage, i);
  }
  tn__strbuf_append(&text, "  output \"y\" = v11\n}\n");
  check_placed_case(&(placed_case){.graph = tn__strbuf_text(&text),
                                   .targets = "x86-64-v3; opencl; opencl -device=1",
                                   .place = {"stage1/*=opencl:0", "stage2/*=opencl:1"},
                                   .quiet = true,
                                   .want = tn__strbuf_text(&want)});
  tn__strbuf_release(&text), tn__strbuf_release(&want);
}

/* Sizes are computed by the host, which reads them, wherever tensors are: by default, by pattern and by time. */
static void arithmetic_of_sizes_is_the_hosts(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[n]\n"
      "  input s: i64[2]\n"
      "  symbol s_e0 in [0, ?) = element 0 of k\n"
      "  const two: i64[2] = [2, 2]\n"
      "  h: i64[2] = multiply(s, two)\n"
      "  k: i64[2] = add(h, two)\n"
      "  a: f32[n] = abs(x)\n"
      "  b: f32[s_e0, n] = broadcast_in_dim(a) {shape=(s_e0, n), axes=1}\n"
      "  output \"y\" = b\n"
      "}\n";
  static const char want[] =
      "opencl:0     input              x\n"
      "cpu:0        input              s\n"
      "cpu:0        multiply           h\n"
      "cpu:0        add                k\n"
      "opencl:0     abs                a\n"
      "opencl:0     broadcast_in_dim   b\n";
  check_placed_case(&(placed_case){.graph = text, .targets = "opencl; x86-64-v3", .quiet = true, .want = want});
  check_placed_case(
      &(placed_case){.graph = text, .targets = TWO, .place = {"a=opencl", "b=opencl"}, .quiet = true, .want = want});
  /* Patterns with a '*' leave sizes to the host, but not one that names a node. */
  check_placed_case(&(placed_case){.graph = text, .targets = TWO, .place = {"*=opencl"}, .quiet = true, .want = want});
  check_placed_case(&(placed_case){.graph = text,
                                   .targets = TWO,
                                   .place = {"*=opencl", "h=opencl"},
                                   .quiet = true,
                                   .want = "opencl:0     input              x\n"
                                           "opencl:0     input              s\n"
                                           "opencl:0     multiply           h\n"
                                           "cpu:0        device_copy        h\n"
                                           "cpu:0        add                k\n"
                                           "opencl:0     abs                a\n"
                                           "opencl:0     broadcast_in_dim   b\n"});
  check_placed_case(&(placed_case){.graph = text,
                                   .targets = "opencl -launch=1 -link_wait=1; x86-64-v3 -launch=900000",
                                   .place = {"auto"},
                                   .quiet = true,
                                   .want = want});
}

/* A few integers that nobody reads as sizes are data, which patterns place. */
static void small_integers_that_are_data(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input s: i64[2]\n"
                                            "  const two: i64[2] = [2, 2]\n"
                                            "  h: i64[2] = multiply(s, two)\n"
                                            "  output \"y\" = h\n"
                                            "}\n",
                                   .targets = TWO,
                                   .place = {"*=opencl"},
                                   .want = "opencl:0     input              s  (where it is read)\n"
                                           "opencl:0     multiply           h  (placed by \"*=opencl\"; 5 us)\n"});
}

/* Counters and conditions of loops are the host's, wherever a loop's tensors are: no round copies anything. */
static void counters_of_loops_are_the_hosts(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input n: i64[]\n"
      "  input x: f32[4]\n"
      "  const z: i64[] = 0\n"
      "  const go: bool[] = true\n"
      "  i: i64[], m: i64[], g: bool[], s: f32[4] = while(z, n, go, x)\n"
      "    graph \"condition\" {\n"
      "      input a: i64[]\n"
      "      input b: i64[]\n"
      "      input on: bool[]\n"
      "      input c: f32[4]\n"
      "      less: bool[] = compare(a, b) {direction=\"LT\"}\n"
      "      more: bool[] = and(less, on)\n"
      "      output \"more\" = more\n"
      "    }\n"
      "    graph \"body\" {\n"
      "      input a: i64[]\n"
      "      input b: i64[]\n"
      "      input on: bool[]\n"
      "      input c: f32[4]\n"
      "      const one: i64[] = 1\n"
      "      next: i64[] = add(a, one)\n"
      "      t: f32[4] = abs(c)\n"
      "      output \"a\" = next\n"
      "      output \"b\" = b\n"
      "      output \"on\" = on\n"
      "      output \"c\" = t\n"
      "    }\n"
      "  output \"y\" = s\n"
      "}\n";
  static const char want[] =
      "cpu:0        input              n  (where it is read)\n"
      "opencl:0     input              x  (where it is read)\n"
      "cpu:0        while              i  (for sizes and conditions)\n"
      "  cpu:0        input              a  (for sizes and conditions)\n"
      "  cpu:0        input              b  (for sizes and conditions)\n"
      "  cpu:0        input              on  (for sizes and conditions)\n"
      "  opencl:0     input              c  (follows what reads it)\n"
      "  cpu:0        compare            less  (for sizes and conditions; 101 ns)\n"
      "  cpu:0        and                more  (for sizes and conditions; 100 ns)\n"
      "  cpu:0        input              a  (for sizes and conditions)\n"
      "  cpu:0        input              b  (for sizes and conditions)\n"
      "  cpu:0        input              on  (for sizes and conditions)\n"
      "  opencl:0     input              c  (follows what reads it)\n"
      "  cpu:0        add                next  (for sizes and conditions; 102 ns)\n"
      "  opencl:0     abs                t  (placed by \"*=opencl\"; 5 us)\n";
  check_placed_case(&(placed_case){.graph = text, .targets = TWO, .place = {"*=opencl"}, .want = want});
}

/* Of an annotation and a pattern the one that means less counts: a '*' gives way, and a name contradicts. */
static void patterns_give_way_to_annotations(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  a: f32[4] on \"opencl:0/texture\" = negate(x)\n"
      "  b: f32[4] = abs(a)\n"
      "  o: f32[4] = on_device(b) {device=\"cuda\", body=1, result=0}\n"
      "  c: f32[4] = abs(o)\n"
      "  output \"y\" = c\n"
      "}\n";
  static const char want[] =
      "opencl:0     input              x\n"
      "opencl:0/texture negate             a\n"
      "cuda:0       device_copy        a\n"
      "cuda:0       abs                b\n"
      "cpu:0        device_copy        b\n"
      "cpu:0        abs                c\n";
  check_placed_case(&(placed_case){.graph = text, .targets = THREE, .place = {"*=cpu"}, .quiet = true, .want = want});
  check_placed_case(&(placed_case){
      .graph = text, .targets = THREE, .place = {"*=opencl/shared", "c=cpu"}, .quiet = true, .want = want});
  check_placed_case(&(placed_case){.graph = text,
                                   .targets = THREE,
                                   .place = {"a=cpu"},
                                   .code = TN_INVALID_ARGUMENT,
                                   .want =
                                       "devices contradict: \"a\" is on opencl:0 (said where it is made), and \"a\" on "
                                       "cpu:0 (x86-64-v3) (placed by \"a=cpu\"): leave one of the two out"});
}

/* The plan is part of the graph: every build has it, and its text says it (these texts are compared in all of them). */
static void plans_are_in_the_graph(tn__arena *arena, void *user) {
  tn__graph *graph =
      read_placed_graph(arena, "graph \"main\" {\n  input x: f32[4]\n  a: f32[4] = abs(x)\n  output \"y\" = a\n}\n");
  tn__compile_config *config = tn__compile_config_create(arena, TWO, NULL);
  tn__place_rule rule = tn__place_rule_read(config, "a=opencl");
  tn__place_options options = {.config = config, .rules = &rule, .rule_count = 1};
  tn__strbuf text;
  tn__graph_place(graph, &options);
  tn__strbuf_init(&text, NULL);
  tn__graph_write(graph, &text);
  assert_string_equal(tn__strbuf_text(&text),
                      "graph \"main\" {\n"
                      "  input x: f32[4] on \"opencl:0\"\n"
                      "  a: f32[4] on \"opencl:0\" = abs(x)\n"
                      "  output \"y\" = a\n"
                      "}\n");
  tn__strbuf_release(&text);
}

static void every_build_places_alike(void **state) { check_ok(tn__with_arena(NULL, plans_are_in_the_graph, NULL)); }

/* What was given up while the graph was built, as a branch of which both sides are computed, is no part of the plan:
 * it has no devices, is in no sum, and nothing is told of it. */
static void plan_beside_dead_nodes(tn__arena *arena, void *user) {
  tn__graph *graph = read_placed_graph(arena,
                                       "graph \"main\" {\n"
                                       "  input c: bool[]\n"
                                       "  input x: f32[4]\n"
                                       "  a: f32[4] = abs(x)\n"
                                       "  given_up: f32[4] = if(c, x)\n"
                                       "    graph \"then\" {\n"
                                       "      input p: f32[4]\n"
                                       "      q: f32[4] = negate(p)\n"
                                       "      output \"q\" = q\n"
                                       "    }\n"
                                       "    graph \"else\" {\n"
                                       "      input p: f32[4]\n"
                                       "      q: f32[4] = abs(p)\n"
                                       "      output \"q\" = q\n"
                                       "    }\n"
                                       "  output \"y\" = a\n"
                                       "}\n");
  tn__compile_config *config = tn__compile_config_create(arena, TWO, NULL);
  tn__place_rule rule = tn__place_rule_read(config, "a=opencl");
  tn__place_budgets budgets = {0};
  tn__place_budget_read(config, "cpu=1GiB", &budgets);
  tn__place_options options = {.config = config, .rules = &rule, .rule_count = 1, .tells = true, .budgets = &budgets};
  tn__graph_node_at(graph, 1)->dead = true;
  tn__graph_place(graph, &options);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__place_explain(graph, &options, 0, &text);
  assert_string_equal(tn__strbuf_text(&text),
                      "cpu:0        input              c  (no operator reads it)\n"
                      "opencl:0     input              x  (where it is read)\n"
                      "opencl:0     abs                a  (placed by \"a=opencl\"; 5 us)\n");
  tn__strbuf_release(&text);
  assert_true(tn__place_predict(config, graph).operators < 6e-6);
  assert_null(tn__place_fitting(graph, "q", true));
  assert_null(tn__place_nearest(graph, "given_ups"));
}

static void what_was_given_up_is_not_planned(void **state) {
  check_ok(tn__with_arena(NULL, plan_beside_dead_nodes, NULL));
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static uint64_t random_state;
static int below(int n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int)((random_state >> 33) % (uint64_t)n);
}

enum { DEVICES = 8, MOST_NODES = 30 };

/* What a value is when copies are looked through. */
static const tn__value *original(const tn__value *value) {
  while (value->producer != NULL && tn__op_has(value->producer, TN__FACT_COPIES)) value = value->producer->inputs[0];
  return value;
}

/* Straight-line graphs: copies are as many as there are pairs of a value and a device that reads it and does not have
 * it, which are counted here from what operators read. */
static void count_copies(tn__arena *arena, void *user) {
  const char *targets = "x86-64-v3 -device=0", *text = "graph \"main\" {\n  input v0: f32[4]\n  input v1: f32[4]\n";
  for (int i = 1; i < DEVICES; i++) targets = tn__arena_printf(arena, "%s; x86-64-v3 -device=%d", targets, i);
  tn__compile_config *config = tn__compile_config_create(arena, targets, NULL);
  int nodes = 2 + below(MOST_NODES - 2);
  tn__place_rules rules = {0};
  for (int i = 2; i < 2 + nodes; i++) {
    text = tn__arena_printf(arena, "%s  v%d: f32[4] = add(v%d, v%d)\n", text, i, below(i), below(3) ? i - 1 : below(i));
    if (below(2)) tn__place_rules_read(config, tn__arena_printf(arena, "v%d=cpu:%d", i, below(DEVICES)), false, &rules);
  }
  text = tn__arena_printf(arena, "%s  output \"y\" = v%d\n  output \"z\" = v%d\n}\n", text, 1 + nodes, 2 + nodes / 2);
  tn__graph *graph = read_placed_graph(arena, text);
  tn__place_options options = {.config = config, .rules = rules.list.data, .rule_count = rules.list.count};
  tn__place_result result = tn__graph_place(graph, &options);
  struct pair {
    const tn__value *value;
    const tn__virtual_device *device;
  } pairs[4 * MOST_NODES];
  int count = 0;
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    for (int k = 0; k < n->input_count && !tn__op_has(n, TN__FACT_COPIES); k++) {
      struct pair p = {original(n->inputs[k]), n->outputs[0]->device};
      bool seen = p.value->device == p.device;
      for (int j = 0; j < count; j++) seen |= pairs[j].value == p.value && pairs[j].device == p.device;
      if (!seen) pairs[count++] = p;
    }
  }
  assert_int_equal(result.copies, count);
  *(int *)user += count;
}

static void copies_are_as_many_as_foreign_readers(void **state) {
  int copies = 0;
  for (int i = 0; i < 2000; i++) {
    random_state = (uint64_t)i * 2 + 1;
    check_ok(tn__with_arena(NULL, count_copies, &copies));
  }
  assert_true(copies > 2000);
}

/* ---- loops of many variables ------------------------------------------------------------------------------------- */

/* What no round changes leaves the loop, for all variables at once: twice as many take twice as long. */
static void hoist_many(tn__arena *arena, void *user) {
  uint64_t *steps = user;
  int count = (int)*steps;
  tn__strbuf t;
  tn__strbuf_init(&t, arena->allocator);
  tn__strbuf_append(&t, "graph \"main\" {\n  input n: i64[]\n  input x: f32[4]\n  const z: i64[] = 0\n");
  for (int i = 0; i < count; i++) tn__strbuf_printf(&t, "  input w%d: f32[4]\n", i);
  tn__strbuf_append(&t, "  i: i64[], m: i64[], s: f32[4]");
  for (int i = 0; i < count; i++) tn__strbuf_printf(&t, ", r%d: f32[4]", i);
  tn__strbuf_append(&t, " = while(z, n, x");
  for (int i = 0; i < count; i++) tn__strbuf_printf(&t, ", w%d", i);
  tn__strbuf_append(&t, ")\n");
  for (int b = 0; b < 2; b++) {
    tn__strbuf_printf(&t, "    graph \"b%d\" {\n      input a: i64[]\n      input b: i64[]\n      input c: f32[4]\n",
                      b);
    for (int i = 0; i < count; i++) tn__strbuf_printf(&t, "      input k%d: f32[4]\n", i);
    if (b == 0)
      tn__strbuf_append(&t, "      more: bool[] = compare(a, b) {direction=\"LT\"}\n      output \"q\" = more\n");
    if (b == 0) tn__strbuf_append(&t, "    }\n");
  }
  tn__strbuf_append(&t, "      const one: i64[] = 1\n      next: i64[] = add(a, one)\n");
  /* Each is read on both devices. */
  tn__strbuf_append(&t, "      t0: f32[4] = add(c, k0)\n");
  for (int i = 1; i < 2 * count; i++) tn__strbuf_printf(&t, "      t%d: f32[4] = add(t%d, k%d)\n", i, i - 1, i / 2);
  tn__strbuf_append(&t, "      output \"o0\" = next\n      output \"o1\" = b\n");
  tn__strbuf_printf(&t, "      output \"o2\" = t%d\n", 2 * count - 1);
  for (int i = 0; i < count; i++) tn__strbuf_printf(&t, "      output \"p%d\" = k%d\n", i, i);
  tn__strbuf_append(&t, "    }\n  output \"y\" = s\n}\n");
  tn__graph *graph = read_placed_graph(arena, tn__arena_take(arena, &t));
  tn__compile_config *config = tn__compile_config_create(arena, TWO, NULL);
  tn__place_rules rules = {0};
  tn__place_rules_read(config, "t*=cpu", false, &rules);
  for (int i = 1; i < 10; i += 2)
    tn__place_rules_read(config, tn__arena_printf(arena, "t*%d=opencl", i), false, &rules);
  tn__place_options options = {.config = config, .rules = rules.list.data, .rule_count = rules.list.count};
  tn__place_result result = tn__graph_place(graph, &options);
  check_ok(tn__graph_verify(graph));
  assert_int_equal(result.hoisted, count);
  *steps = result.steps;
}

static void loops_of_many_variables(void **state) {
  uint64_t few = 200, many = 400;
  check_ok(tn__with_arena(NULL, hoist_many, &few));
  check_ok(tn__with_arena(NULL, hoist_many, &many));
  assert_true(many < 2 * few + few / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(annotations_are_fixed_free_or_copied),
      cmocka_unit_test(annotations_on_parameters),
      cmocka_unit_test(annotations_on_results),
      cmocka_unit_test(annotations_on_one_of_several_results),
      cmocka_unit_test(annotations_on_the_state_of_loops),
      cmocka_unit_test(states_of_loops_contradict),
      cmocka_unit_test(copies_are_made_in_the_arm_that_reads_them),
      cmocka_unit_test(free_outputs_are_where_they_are_made),
      cmocka_unit_test(what_is_handed_on_stays),
      cmocka_unit_test(copies_that_nobody_reads),
      cmocka_unit_test(nested_contradictions_show_the_way),
      cmocka_unit_test(calls_and_functions_agree),
      cmocka_unit_test(calls_are_placed_one_by_one),
      cmocka_unit_test(an_input_that_two_devices_share),
      cmocka_unit_test(inputs_do_not_all_go_to_the_first_device),
      cmocka_unit_test(a_pipeline_has_all_its_devices),
      cmocka_unit_test(arithmetic_of_sizes_is_the_hosts),
      cmocka_unit_test(small_integers_that_are_data),
      cmocka_unit_test(counters_of_loops_are_the_hosts),
      cmocka_unit_test(patterns_give_way_to_annotations),
      cmocka_unit_test(every_build_places_alike),
      cmocka_unit_test(what_was_given_up_is_not_planned),
      cmocka_unit_test(copies_are_as_many_as_foreign_readers),
      cmocka_unit_test(loops_of_many_variables),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
