/* Planning of devices: cases one by one, and random graphs with random placements against what must hold of a plan. */
#include "graph/place/place.h"

#include <string.h>

#include "base/clock.h"
#include "graph/build/build.h"
#include "graph/internal.h"
#include "graph/passes/passes.h"
#include "graph/text.h"
#include "unit/check.h"

enum { MOST_RULES = 8 };

typedef struct planning {
  const char *text, *targets, *host, *rules[MOST_RULES];
  const char *want; /* the whole graph, or the error */
  int copies, constants, hoisted;
} planning;

static tn__graph *read_graph(tn__arena *arena, const char *text) {
  tn__graph *graph;
  tn__ir *ir = tn__ir_create(arena);
  check_ok(tn__graph_read(ir, "test.tng", text, strlen(text), NULL, &graph));
  return graph;
}

static const char *text_of(tn__arena *arena, const tn__graph *graph) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__graph_write(graph, &text);
  return tn__arena_take(arena, &text);
}

static tn__place_result plan_graph(tn__arena *arena, tn__graph *graph, tn__compile_config *config,
                                   const char *const *rules) {
  tn__place_options options = {.config = config, .rules = TN__NEW_ARRAY(arena, MOST_RULES, tn__place_rule)};
  for (int i = 0; i < MOST_RULES && rules[i] != NULL; i++)
    options.rules[options.rule_count++] = tn__place_rule_read(config, rules[i]);
  return tn__graph_place(graph, &options);
}

static void run_planning(tn__arena *arena, void *user) {
  const planning *p = user;
  tn__graph *graph = read_graph(arena, p->text);
  tn__compile_config *config = tn__compile_config_create(arena, p->targets, p->host);
  tn__place_result result = plan_graph(arena, graph, config, p->rules);
  check_ok(tn__graph_verify(graph));
  const char *once = text_of(arena, graph);
  assert_string_equal(once, p->want);
  assert_int_equal(result.copies, p->copies);
  assert_int_equal(result.constants, p->constants);
  assert_int_equal(result.hoisted, p->hoisted);
  /* A second planning changes nothing, nor does one of what the text says. */
  tn__place_result again = plan_graph(arena, graph, config, p->rules);
  assert_string_equal(text_of(arena, graph), once);
  assert_int_equal(again.copies, result.copies);
  assert_int_equal(again.constants + again.hoisted, 0);
  static const char *const no_rules[MOST_RULES] = {NULL};
  tn__graph *back = read_graph(arena, once);
  plan_graph(arena, back, config, no_rules);
  if (result.elsewhere != NULL) assert_string_equal(text_of(arena, back), once);
}

static void plans(const planning *p) {
  planning copy = *p;
  check_ok(tn__with_arena(NULL, run_planning, &copy));
}

static void plans_not(const char *targets, const char *text, const char *error) {
  planning p = {.text = text, .targets = targets};
  tn_status *status = tn__with_arena(NULL, run_planning, &p);
  assert_non_null(status);
  assert_string_equal(tn_status_message(status), error);
  tn_status_free(status);
}

#define TWO "x86-64-v3; opencl"
#define THREE "x86-64-v3; opencl; cuda"
#define TWOBACK "opencl; x86-64-v3"

static void one_cpu_stays_as_it_is(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[n, 3]\n"
      "  const c1: f32[] = 0.5\n"
      "  broadcast_in_dim2: f32[n, 3] = broadcast_in_dim(c1) {shape=(n, 3), axes=[]}\n"
      "  add3: f32[n, 3] = add(x, broadcast_in_dim2)\n"
      "  output \"y\" = add3\n"
      "}\n";
  plans(&(planning){.text = text, .targets = "x86-64-v3", .want = text});
  plans(&(planning){.text = text, .targets = TWO, .want = text});
}

static void placed_nodes_get_copies(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  a: f32[4] = negate(x)\n"
      "  b: f32[4] = abs(a)\n"
      "  c: f32[4] = add(a, b)\n"
      "  d: f32[4] = multiply(a, c)\n"
      "  output \"y\" = d\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  a: f32[4] on \"opencl:0\" = negate(x)\n"
      "  b: f32[4] on \"opencl:0\" = abs(a)\n"
      "  c: f32[4] on \"opencl:0\" = add(a, b)\n"
      "  d: f32[4] on \"opencl:0\" = multiply(a, c)\n"
      "  output \"y\" = d\n"
      "}\n";
  plans(&(planning){.text = text,
                    .targets = TWO,
                    .rules = {"b=opencl:0", "c=opencl"},
                    .want = want,
                    .copies = 0,
                    .constants = 0,
                    .hoisted = 0});
}

static void inputs_go_where_they_are_read(void **state) {
  /* Z goes straight to cuda; w, which two devices read, stays with the host. */
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  input z: f32[4]\n"
      "  input w: f32[4]\n"
      "  b: f32[4] = abs(x)\n"
      "  c: f32[4] = add(b, z)\n"
      "  e: f32[4] = abs(w)\n"
      "  f: f32[4] = negate(w)\n"
      "  output \"y\" = c\n"
      "  output \"e\" = e\n"
      "  output \"f\" = f\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  input z: f32[4] on \"cuda:0\"\n"
      "  input w: f32[4] on \"cpu:0\"\n"
      "  b: f32[4] on \"opencl:0\" = abs(x)\n"
      "  device_copy4: f32[4] on \"cuda:0\" = device_copy(b) {to=\"cuda:0\"}\n"
      "  c: f32[4] on \"cuda:0\" = add(device_copy4, z)\n"
      "  device_copy5: f32[4] on \"opencl:0\" = device_copy(w) {to=\"opencl:0\"}\n"
      "  e: f32[4] on \"opencl:0\" = abs(device_copy5)\n"
      "  device_copy6: f32[4] on \"cuda:0\" = device_copy(w) {to=\"cuda:0\"}\n"
      "  f: f32[4] on \"cuda:0\" = negate(device_copy6)\n"
      "  output \"y\" = c\n"
      "  output \"e\" = e\n"
      "  output \"f\" = f\n"
      "}\n";
  plans(&(planning){.text = text,
                    .targets = THREE,
                    .rules = {"b=opencl", "c=cuda", "e=opencl", "f=cuda"},
                    .want = want,
                    .copies = 3,
                    .constants = 0,
                    .hoisted = 0});
}

static void free_values_follow_their_readers(void **state) {
  /* Opencl comes before cuda; what comes behind has no reader, and is on the default device. */
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  a: f32[4] = negate(x)\n"
      "  b: f32[4] = abs(a)\n"
      "  d: f32[4] = abs(b)\n"
      "  e: f32[4] = negate(b)\n"
      "  f: f32[4] = add(d, e)\n"
      "  output \"y\" = f\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  a: f32[4] on \"opencl:0\" = negate(x)\n"
      "  b: f32[4] on \"opencl:0\" = abs(a)\n"
      "  device_copy5: f32[4] on \"cuda:0\" = device_copy(b) {to=\"cuda:0\"}\n"
      "  d: f32[4] on \"cuda:0\" = abs(device_copy5)\n"
      "  e: f32[4] on \"opencl:0\" = negate(b)\n"
      "  device_copy6: f32[4] on \"cpu:0\" = device_copy(d) {to=\"cpu:0\"}\n"
      "  device_copy7: f32[4] on \"cpu:0\" = device_copy(e) {to=\"cpu:0\"}\n"
      "  f: f32[4] on \"cpu:0\" = add(device_copy6, device_copy7)\n"
      "  output \"y\" = f\n"
      "}\n";
  plans(&(planning){.text = text,
                    .targets = THREE,
                    .rules = {"d=cuda", "e=opencl"},
                    .want = want,
                    .copies = 3,
                    .constants = 0,
                    .hoisted = 0});
}

static void constants_are_doubled_and_not_copied(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[2]\n"
      "  const k: f32[2] = [1.0, 2.0]\n"
      "  a: f32[2] = add(x, k)\n"
      "  b: f32[2] = multiply(a, k)\n"
      "  output \"y\" = b\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[2] on \"cpu:0\"\n"
      "  const k: f32[2] on \"cpu:0\" = [1.0, 2.0]\n"
      "  a: f32[2] on \"cpu:0\" = add(x, k)\n"
      "  device_copy2: f32[2] on \"opencl:0\" = device_copy(a) {to=\"opencl:0\"}\n"
      "  const c5: f32[2] on \"opencl:0\" = [1.0, 2.0]\n"
      "  b: f32[2] on \"opencl:0\" = multiply(device_copy2, c5)\n"
      "  output \"y\" = b\n"
      "}\n";
  plans(&(planning){.text = text,
                    .targets = TWO,
                    .rules = {"a=cpu", "b=opencl"},
                    .want = want,
                    .copies = 1,
                    .constants = 1,
                    .hoisted = 0});
}

static void annotations_fix_values(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  a: f32[4] = negate(x)\n"
      "  o: f32[4] = on_device(a) {device=\"opencl\", body=1, result=0}\n"
      "  b: f32[4] = abs(o)\n"
      "  p: f32[4] = on_device(b) {device=\"cpu:0\", body=0, result=1}\n"
      "  c: f32[4] = abs(p)\n"
      "  q: f32[4] = on_device(c) {device=\"cpu\", body=1, result=1}\n"
      "  r: f32[4] = on_device(q) {device=\"opencl\", body=0, result=0}\n"
      "  d: f32[4] = abs(r)\n"
      "  output \"y\" = d\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  a: f32[4] on \"opencl:0\" = negate(x)\n"
      "  device_copy8: f32[4] on \"cpu:0\" = device_copy(a) {to=\"cpu:0\"}\n"
      "  b: f32[4] on \"cpu:0\" = abs(device_copy8)\n"
      "  c: f32[4] on \"cpu:0\" = abs(b)\n"
      "  d: f32[4] on \"cpu:0\" = abs(c)\n"
      "  output \"y\" = d\n"
      "}\n";
  plans(&(planning){.text = text, .targets = TWO, .want = want, .copies = 1, .constants = 0, .hoisted = 0});
}

static void results_can_be_said(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  a: f32[4] = negate(x)\n"
      "  o: f32[4] = on_device(a) {device=\"opencl\", body=0, result=1}\n"
      "  output \"y\" = a\n"
      "  output \"there\" = o\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  a: f32[4] on \"opencl:0\" = negate(x)\n"
      "  output \"y\" = a\n"
      "  output \"there\" = a\n"
      "}\n";
  plans(&(planning){.text = text, .targets = TWO, .want = want, .copies = 0, .constants = 0, .hoisted = 0});
}

static void arms_of_branches_agree(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input c: bool[]\n"
      "  input x: f32[4]\n"
      "  r: f32[4] = if(c, x)\n"
      "    graph \"then\" {\n"
      "      input a: f32[4]\n"
      "      t: f32[4] = abs(a)\n"
      "      output \"r\" = t\n"
      "    }\n"
      "    graph \"else\" {\n"
      "      input a: f32[4]\n"
      "      v: f32[4] = negate(a)\n"
      "      output \"r\" = v\n"
      "    }\n"
      "  u: f32[4] = abs(r)\n"
      "  output \"y\" = u\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input c: bool[] on \"cpu:0\"\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  r: f32[4] on \"opencl:0\" = if(c, x)\n"
      "    graph \"then\" {\n"
      "      input a: f32[4] on \"opencl:0\"\n"
      "      t: f32[4] on \"opencl:0\" = abs(a)\n"
      "      output \"r\" = t\n"
      "    }\n"
      "    graph \"else\" {\n"
      "      input a: f32[4] on \"opencl:0\"\n"
      "      v: f32[4] on \"opencl:0\" = negate(a)\n"
      "      output \"r\" = v\n"
      "    }\n"
      "  u: f32[4] on \"opencl:0\" = abs(r)\n"
      "  output \"y\" = u\n"
      "}\n";
  plans(&(planning){.text = text,
                    .targets = TWO,
                    .rules = {"t=opencl", "u=opencl"},
                    .want = want,
                    .copies = 0,
                    .constants = 0,
                    .hoisted = 0});
}

static void copies_leave_loops(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input n: i64[]\n"
      "  input x: f32[4]\n"
      "  input w: f32[4]\n"
      "  const z: i64[] = 0\n"
      "  q: f32[4] = abs(w)\n"
      "  i: i64[], k: i64[], s: f32[4], m: f32[4] = while(z, n, x, q)\n"
      "    graph \"condition\" {\n"
      "      input a: i64[]\n"
      "      input b: i64[]\n"
      "      input c: f32[4]\n"
      "      input d: f32[4]\n"
      "      more: bool[] = compare(a, b) {direction=\"LT\"}\n"
      "      output \"more\" = more\n"
      "    }\n"
      "    graph \"body\" {\n"
      "      input a: i64[]\n"
      "      input b: i64[]\n"
      "      input c: f32[4]\n"
      "      input d: f32[4]\n"
      "      const one: i64[] = 1\n"
      "      next: i64[] = add(a, one)\n"
      "      t: f32[4] = add(c, d)\n"
      "      u: f32[4] = multiply(t, d)\n"
      "      v: f32[4] = abs(u)\n"
      "      output \"a\" = next\n"
      "      output \"b\" = b\n"
      "      output \"c\" = v\n"
      "      output \"d\" = d\n"
      "    }\n"
      "  output \"y\" = s\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input n: i64[] on \"cpu:0\"\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  input w: f32[4] on \"opencl:0\"\n"
      "  q: f32[4] on \"opencl:0\" = abs(w)\n"
      "  device_copy3: f32[4] on \"cuda:0\" = device_copy(q) {to=\"cuda:0\"}\n"
      "  const z: i64[] on \"cpu:0\" = 0\n"
      "  while2: i64[] on \"cpu:0\", while2_1: i64[] on \"cpu:0\", while2_2: f32[4] on \"opencl:0\", while2_3: f32[4] "
      "on \"opencl:0\", while2_4: f32[4] on \"cuda:0\" = while(z, n, x, q, device_copy3)\n"
      "    graph \"condition\" {\n"
      "      input a: i64[] on \"cpu:0\"\n"
      "      input b: i64[] on \"cpu:0\"\n"
      "      input c: f32[4] on \"opencl:0\"\n"
      "      input d: f32[4] on \"opencl:0\"\n"
      "      input \"d@cuda:0\": f32[4] on \"cuda:0\"\n"
      "      more: bool[] on \"cpu:0\" = compare(a, b) {direction=\"LT\"}\n"
      "      output \"more\" = more\n"
      "    }\n"
      "    graph \"body\" {\n"
      "      input a: i64[] on \"cpu:0\"\n"
      "      input b: i64[] on \"cpu:0\"\n"
      "      input c: f32[4] on \"opencl:0\"\n"
      "      input d: f32[4] on \"opencl:0\"\n"
      "      input \"d@cuda:0\": f32[4] on \"cuda:0\"\n"
      "      const one: i64[] on \"cpu:0\" = 1\n"
      "      next: i64[] on \"cpu:0\" = add(a, one)\n"
      "      t: f32[4] on \"opencl:0\" = add(c, d)\n"
      "      device_copy4: f32[4] on \"cuda:0\" = device_copy(t) {to=\"cuda:0\"}\n"
      "      u: f32[4] on \"cuda:0\" = multiply(device_copy4, \"d@cuda:0\")\n"
      "      device_copy5: f32[4] on \"opencl:0\" = device_copy(u) {to=\"opencl:0\"}\n"
      "      v: f32[4] on \"opencl:0\" = abs(device_copy5)\n"
      "      output \"a\" = next\n"
      "      output \"b\" = b\n"
      "      output \"c\" = v\n"
      "      output \"d\" = d\n"
      "      output \"d@cuda:0\" = \"d@cuda:0\"\n"
      "    }\n"
      "  output \"y\" = while2_2\n"
      "}\n";
  plans(&(planning){.text = text,
                    .targets = THREE,
                    .rules = {"t=opencl", "v=opencl", "u=cuda"},
                    .want = want,
                    .copies = 3,
                    .constants = 0,
                    .hoisted = 1});
}

static void shapes_stay_with_the_host(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[n]\n"
      "  input s: i64[2]\n"
      "  symbol s_e0 in [0, ?) = element 0 of s2\n"
      "  const c: i64[2] = [1, 1]\n"
      "  s2: i64[2] = multiply(s, c)\n"
      "  a: f32[n] = abs(x)\n"
      "  b: f32[s_e0, n] = broadcast_in_dim(a) {shape=(s_e0, n), axes=1}\n"
      "  output \"y\" = b\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[n] on \"opencl:0\"\n"
      "  input s: i64[2] on \"cpu:0\"\n"
      "  symbol s_e0 in [0, ?) = element 0 of s2\n"
      "  const c: i64[2] on \"cpu:0\" = [1, 1]\n"
      "  s2: i64[2] on \"cpu:0\" = multiply(s, c)\n"
      "  a: f32[n] on \"opencl:0\" = abs(x)\n"
      "  b: f32[s_e0, n] on \"opencl:0\" = broadcast_in_dim(a) {shape=(s_e0, n), axes=1}\n"
      "  output \"y\" = b\n"
      "}\n";
  plans(&(planning){.text = text, .targets = TWOBACK, .want = want, .copies = 0, .constants = 0, .hoisted = 0});
}

static void lists_are_on_the_host(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  a: f32[4] = abs(x)\n"
      "  e: sequence f32[?] = sequence_empty() {dtype=\"f32\", rank=1}\n"
      "  s: sequence f32[?] = sequence_insert(e, a)\n"
      "  const i: i64[] = 0\n"
      "  t = sequence_at(s, i)\n"
      "  b = abs(t)\n"
      "  output \"y\" = b\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  symbol t_d0 = dimension 0 of t\n"
      "  a: f32[4] on \"opencl:0\" = abs(x)\n"
      "  e: sequence f32[?] on \"cpu:0\" = sequence_empty() {dtype=\"f32\", rank=1}\n"
      "  device_copy5: f32[4] on \"cpu:0\" = device_copy(a) {to=\"cpu:0\"}\n"
      "  s: sequence f32[?] on \"cpu:0\" = sequence_insert(e, device_copy5)\n"
      "  const i: i64[] on \"cpu:0\" = 0\n"
      "  t: f32[t_d0] on \"cpu:0\" = sequence_at(s, i)\n"
      "  device_copy6: f32[t_d0] on \"opencl:0\" = device_copy(t) {to=\"opencl:0\"}\n"
      "  b: f32[t_d0] on \"opencl:0\" = abs(device_copy6)\n"
      "  output \"y\" = b\n"
      "}\n";
  plans(&(planning){.text = text, .targets = TWOBACK, .want = want, .copies = 2, .constants = 0, .hoisted = 0});
}

static void copies_are_shared_and_chains_collapse(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  a: f32[4] = abs(x)\n"
      "  o: f32[4] = on_device(a) {device=\"cpu\", body=1, result=0}\n"
      "  k: f32[4] = device_copy(a) {to=\"cpu:0\"}\n"
      "  b: f32[4] = abs(k)\n"
      "  l: f32[4] = device_copy(o) {to=\"opencl:0\"}\n"
      "  c: f32[4] = add(l, a)\n"
      "  d: f32[4] = add(b, c)\n"
      "  output \"y\" = d\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[4] on \"cpu:0\"\n"
      "  a: f32[4] on \"cpu:0\" = abs(x)\n"
      "  l: f32[4] on \"opencl:0\" = device_copy(a) {to=\"opencl:0\"}\n"
      "  b: f32[4] on \"opencl:0\" = abs(l)\n"
      "  c: f32[4] on \"opencl:0\" = add(l, l)\n"
      "  device_copy7: f32[4] on \"cpu:0\" = device_copy(b) {to=\"cpu:0\"}\n"
      "  device_copy8: f32[4] on \"cpu:0\" = device_copy(c) {to=\"cpu:0\"}\n"
      "  d: f32[4] on \"cpu:0\" = add(device_copy7, device_copy8)\n"
      "  output \"y\" = d\n"
      "}\n";
  plans(&(planning){.text = text,
                    .targets = TWO,
                    .rules = {"b=opencl", "c=opencl"},
                    .want = want,
                    .copies = 3,
                    .constants = 0,
                    .hoisted = 0});
}

/* Of what went somewhere and came back, where nothing is done with it there, nothing is left. */
static void ways_there_and_back_vanish(void **state) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[4]\n"
      "  a: f32[4] = negate(x)\n"
      "  b: f32[4] = device_copy(a) {to=\"opencl:0\"}\n"
      "  c: f32[4] = device_copy(b) {to=\"cpu:0\"}\n"
      "  y: f32[4] = abs(c)\n"
      "  output \"y\" = y\n"
      "}\n";
  static const char want[] =
      "graph \"main\" {\n"
      "  input x: f32[4] on \"cpu:0\"\n"
      "  a: f32[4] on \"cpu:0\" = negate(x)\n"
      "  y: f32[4] on \"cpu:0\" = abs(a)\n"
      "  output \"y\" = y\n"
      "}\n";
  plans(&(planning){
      .text = text, .targets = TWO, .rules = {"a=cpu"}, .want = want, .copies = 0, .constants = 0, .hoisted = 0});
}

static void contradictions_name_both_ends_and_the_way(void **state) {
  plans_not(
      TWO,
      "graph \"main\" {\n"
      "  input x: f32[4] on \"opencl:0\"\n"
      "  a: f32[4] = negate(x) from \"node \\\"first\\\" (Neg, opset 17)\"\n"
      "  b: f32[4] = abs(a)\n"
      "  c: f32[4] on \"cpu:0\" = abs(b) from \"node \\\"last\\\" (Abs, opset 17)\"\n"
      "  output \"y\" = c\n"
      "}\n",
      "node \"last\" (Abs, opset 17): devices contradict: \"x\" is on opencl:0 (said where it is made), and \"c\" on "
      "cpu:0 (said where it is made); "
      "no copy is allowed on the way \"x\" - \"a\" - \"b\" - \"c\": place them alike, or put on_device with only its "
      "result said between them");
  plans_not(TWO,
            "graph \"main\" {\n"
            "  input x: f32[4]\n"
            "  o: f32[4] = on_device(x) {device=\"opencl\", body=1, result=1}\n"
            "  p: f32[4] = on_device(o) {device=\"cpu\", body=1, result=1}\n"
            "  output \"y\" = p\n"
            "}\n",
            "devices contradict: \"o\" is on opencl (the result of on_device), and \"o\" on cpu (the operand of "
            "on_device): leave "
            "one of the two out");
  /* The two arms of a branch, and a function and its call. */
  plans_not(TWO,
            "graph \"main\" {\n"
            "  input c: bool[]\n"
            "  input x: f32[4]\n"
            "  r: f32[4] = if(c, x)\n"
            "    graph \"then\" {\n"
            "      input a: f32[4]\n"
            "      t: f32[4] on \"cpu:0\" = abs(a)\n"
            "      output \"r\" = t\n"
            "    }\n"
            "    graph \"else\" {\n"
            "      input a: f32[4]\n"
            "      v: f32[4] on \"opencl:0\" = negate(a)\n"
            "      output \"r\" = v\n"
            "    }\n"
            "  output \"y\" = r\n"
            "}\n",
            "devices contradict: \"v\" is on opencl:0 (said where it is made), and \"t\" on cpu:0 (said where it is "
            "made); no copy is allowed on the way \"v\" - \"r\" - \"t\": place them alike, or put on_device with only "
            "its result said between them");
  plans_not(TWO,
            "graph \"main\" {\n"
            "  input x: f32[4] on \"cpu:0\"\n"
            "  r: f32[4] = call(x)\n"
            "    graph \"f\" {\n"
            "      input a: f32[4] on \"opencl:0\"\n"
            "      t: f32[4] = abs(a)\n"
            "      output \"r\" = t\n"
            "    }\n"
            "  output \"y\" = r\n"
            "}\n",
            "devices contradict: \"x\" is on cpu:0 (said where it is made), and \"a\" on opencl:0 (said where it is "
            "made); no copy is allowed on the way \"x\" - \"a\": place them alike, or put on_device with only its "
            "result said between them");
  plans_not(TWO,
            "graph \"main\" {\n"
            "  input x: f32[4] on \"cuda:0\"\n"
            "  output \"y\" = x\n"
            "}\n",
            "there is no device \"cuda:0\" among the targets: there are cpu:0 (x86-64-v3), opencl:0 (opencl)");
}

static void rules_are_checked(void **state) {
  static const char text[] = "graph \"main\" {\n  input x: f32[4]\n  a: f32[4] = abs(x)\n  output \"y\" = a\n}\n";
  static const char *const cases[][2] = {
      {"a", "the placement \"a\" is not like PATTERN=DEVICE, as \"encoder/*=opencl:0\" is"},
      {"=cpu", "the placement \"=cpu\" is not like PATTERN=DEVICE, as \"encoder/*=opencl:0\" is"},
      {"a=", "the placement \"a=\" is not like PATTERN=DEVICE, as \"encoder/*=opencl:0\" is"},
      {"a=opncl",
       "the placement \"a=opncl\": there is no device \"opncl\" among the targets; did you mean \"opencl\"? there "
       "are cpu:0 (x86-64-v3), opencl:0 (opencl)"},
      {"a=opencl:1",
       "the placement \"a=opencl:1\": there is no device \"opencl:1\" among the targets: there are cpu:0 "
       "(x86-64-v3), opencl:0 (opencl)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    planning p = {.text = text, .targets = TWO, .rules = {cases[i][0]}};
    tn_status *status = tn__with_arena(NULL, run_planning, &p);
    assert_non_null(status);
    assert_string_equal(tn_status_message(status), cases[i][1]);
    tn_status_free(status);
  }
}

static void name_things(tn__arena *arena, void *user) {
  tn__graph *graph = read_graph(arena,
                                "graph \"main\" {\n"
                                "  input x: f32[4]\n"
                                "  a: f32[4] = abs(x) from \"node \\\"encoder/layer.0/abs\\\" (Abs, opset 17)\"\n"
                                "  b: f32[4] = abs(a) from \"node \\\"encoder/layer.1/abs\\\" (Abs, opset 17)\"\n"
                                "  plain: f32[4] = abs(b)\n"
                                "  output \"y\" = plain\n"
                                "}\n");
  tn__compile_config *config = tn__compile_config_create(arena, TWO, NULL);
  static const struct {
    const char *rule;
    int matched;
  } cases[] = {{"encoder/*=opencl", 2}, {"*=opencl", 3},          {"*layer.1*=opencl", 1}, {"plain=opencl", 1},
               {"pl*n=opencl", 1},      {"encoder=opencl", 0},    {"*/abs=opencl", 2},     {"**a**s=opencl", 2},
               {"a=opencl", 0},         {"encoder/*/0=opencl", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tn__place_rule rule = tn__place_rule_read(config, cases[i].rule);
    tn__place_options options = {.config = config, .rules = &rule, .rule_count = 1};
    int matched = 0;
    for (int n = 0; n < tn__graph_node_count(graph); n++)
      matched += tn__place_rule_of(&options, tn__graph_node_at(graph, n), NULL) != NULL;
    assert_int_equal(matched, cases[i].matched);
  }
  assert_string_equal(tn__place_nearest(graph, "encoder/layer.2/abs"), "encoder/layer.0/abs");
  assert_string_equal(tn__place_nearest(graph, "layer.1*"), "encoder/layer.1/abs");
  assert_null(tn__place_nearest(graph, "decoder*"));
  assert_string_equal(tn__place_nearest(graph, "encodr/*"), "encoder/layer.0/abs");
  assert_string_equal(tn__place_nearest(graph, "*/laier.1/*"), "encoder/layer.1/abs");
  assert_null(tn__place_nearest(graph, "b*t"));
  /* A branch is where its parts are: no pattern places it. */
  tn__graph *branch = read_graph(arena,
                                 "graph \"main\" {\n  input c: bool[]\n  input x: f32[4]\n"
                                 "  turn: f32[4] = if(c, x)\n"
                                 "    graph \"then\" {\n      input a: f32[4]\n"
                                 "      deep: f32[4] = abs(a)\n      output \"r\" = deep\n    }\n"
                                 "    graph \"else\" {\n      input a: f32[4]\n"
                                 "      output \"r\" = a\n    }\n"
                                 "  output \"y\" = turn\n}\n");
  assert_null(tn__place_nearest(branch, "turns"));
  assert_string_equal(tn__place_nearest(branch, "deeps"), "deep");
  /* The last rule that fits counts. */
  tn__place_rule rules[] = {tn__place_rule_read(config, "*=opencl"), tn__place_rule_read(config, "encoder/*=cpu")};
  tn__place_options options = {.config = config, .rules = rules, .rule_count = 2, .tells = true};
  tn__place_result result = tn__graph_place(graph, &options);
  assert_int_equal(result.copies, 1);
  assert_int_equal(rules[0].matched, 1);
  assert_int_equal(rules[1].matched, 2);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__place_explain(graph, &options, 0, &text);
  assert_string_equal(tn__strbuf_text(&text),
                      "cpu:0        input              x  (where it is read)\n"
                      "cpu:0        abs                encoder/layer.0/abs  (placed by \"encoder/*=cpu\"; 103 ns)\n"
                      "cpu:0        abs                encoder/layer.1/abs  (placed by \"encoder/*=cpu\"; 103 ns)\n"
                      "opencl:0     device_copy        encoder/layer.1/abs  (from cpu:0; 16 bytes, 10 us)\n"
                      "opencl:0     abs                plain  (placed by \"*=opencl\"; 5 us)\n");
  tn__strbuf_release(&text);
}
static void nodes_are_meant_by_name(void **state) { check_ok(tn__with_arena(NULL, name_things, NULL)); }

static tn__value *input_like(tn__graph *g, const char *name) {
  const tn__expr *dims[1] = {tn__ir_index(tn__graph_ir(g), 128)};
  return tn__graph_input(g, name, TN_F32, 1, dims);
}

/* Names of ONNX's exporters are long paths: one letter of 60 is found among 10,000, within the time of a warning. */
static void find_long_names(tn__arena *arena, void *user) {
  enum { NODES = 10000 };
  tn__graph *g = tn__graph_create(tn__ir_create(arena), "long");
  tn__value *a = input_like(g, "x");
  static const char *const parts[] = {"attention/self/query/MatMul", "attention/output/dense/MatMul",
                                      "intermediate/dense/MatMul", "output/LayerNorm/ReduceMean"};
  for (int i = 0; i < NODES; i++) {
    a = tn__g_unary(g, "negate", a);
    a->producer->origin =
        tn__arena_printf(arena, "node \"/bert/encoder/layer.%d/%s\" (Neg, opset 17)", i / 4, parts[i % 4]);
  }
  tn__graph_output(g, "y", a);
  static const char *const cases[][2] = {
      {"/bert/encoder/layer.1234/attention/self/quary/MatMul", "/bert/encoder/layer.1234/attention/self/query/MatMul"},
      {"/bert/encodr/layer.7/output/*", "/bert/encoder/layer.7/output/LayerNorm/ReduceMean"},
      {"encodr/layer.7/output/*", "/bert/encoder/layer.7/output/LayerNorm/ReduceMean"},
      {"*/layer.2499/outptu/LayerNorm/*", "/bert/encoder/layer.2499/output/LayerNorm/ReduceMean"},
      {"layer.12/attention/self/query/MatMul", "/bert/encoder/layer.12/attention/self/query/MatMul"},
      {"/bert/encoder/layer.1234/attention/query/MatMul", "/bert/encoder/layer.1234/attention/self/query/MatMul"},
      {"/gpt/decoder/block.1234/projection/Softmax/of/something/else", NULL}};
  double start = tn__now();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *near = tn__place_nearest(g, cases[i][0]);
    if (cases[i][1] == NULL)
      assert_null(near);
    else
      assert_string_equal(near, cases[i][1]);
  }
  print_message("nearest of 10,000 names: %.1f ms each\n", (tn__now() - start) * 1e3 / 6);
}
static void long_names_are_found(void **state) { check_ok(tn__with_arena(NULL, find_long_names, NULL)); }

/* ---- random graphs ----------------------------------------------------------------------------------------------- */

enum { ISLANDS = 8, MOST_NODES = 40 };

typedef struct random_graph {
  uint64_t state;
  bool control;   /* branches and loops, too */
  bool annotated; /* and on_device, which may contradict */
  bool scoped;    /* and some of it names a scope of memory */
  int nodes;
} random_graph;

static uint32_t draw(random_graph *r, uint32_t count) {
  r->state = r->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(r->state >> 33) % count;
}

static tn__value *pick(random_graph *r, tn__value *const *values, int count) {
  return values[draw(r, (uint32_t)count)];
}

static void build_nodes(random_graph *r, tn__graph *g, tn__value **values, int count, int nodes, int depth);

static const char *draw_scope(random_graph *r) {
  static const char *const scopes[] = {"", "/texture", "/shared"};
  return scopes[r->scoped ? draw(r, 3) : 0];
}

static tn__value *annotate(random_graph *r, tn__graph *g, tn__value *x) {
  tn__arena *arena = tn__graph_arena(g);
  tn__attr attrs[3] = {tn__attr_string(g, "device", tn__arena_printf(arena, "cpu:%d", (int)draw(r, ISLANDS)))};
  if (r->scoped)
    attrs[0] = tn__attr_string(g, "device", tn__arena_printf(arena, "%s%s", attrs[0].string, draw_scope(r)));
  attrs[1] = tn__attr_int(g, "body", (int64_t)draw(r, 2));
  attrs[2] = tn__attr_int(g, "result", (int64_t)draw(r, 2));
  return tn__node_create(g, tn__op_find("on_device"), &x, 1, attrs, 3, NULL, 0)->outputs[0];
}

/* A body over two floats and, for loops, two counters; its results are what comes last. */
static tn__graph *build_body(random_graph *r, tn__graph *outer, bool loop, bool test, int depth) {
  tn__graph *g = tn__graph_create(tn__graph_ir(outer), "body");
  tn__value *counters[2] = {NULL, NULL}, *values[2 + MOST_NODES];
  for (int i = 0; loop && i < 2; i++) counters[i] = tn__graph_input(g, i ? "most" : "i", TN_I64, 0, NULL);
  for (int i = 0; i < 2; i++) values[i] = input_like(g, i ? "q" : "p");
  if (test) {
    tn__graph_output(g, "more", tn__g_compare(g, TN__CMP_LT, counters[0], counters[1]));
    return g;
  }
  int nodes = 1 + (int)draw(r, 5);
  build_nodes(r, g, values, 2, nodes, depth + 1);
  if (loop) {
    tn__value *one = tn__g_scalar_i64(g, TN_I64, 1);
    tn__graph_output(g, "i", tn__g_binary(g, "add", counters[0], one));
    tn__graph_output(g, "most", counters[1]);
  }
  tn__graph_output(g, "a", values[1 + nodes]);
  if (loop) tn__graph_output(g, "b", draw(r, 2) ? values[1] : values[nodes]);
  return g;
}

static tn__value *build_control(random_graph *r, tn__graph *g, tn__value *a, tn__value *b, int depth) {
  tn__value *zero = tn__g_scalar_i64(g, TN_I64, 0), *five = tn__g_scalar_i64(g, TN_I64, 5);
  bool loop = draw(r, 2);
  tn__graph *first = build_body(r, g, loop, loop, depth);
  tn__graph *second = build_body(r, g, loop, false, depth);
  tn__graph *graphs[2] = {first, second};
  if (loop) {
    tn__value *inputs[4] = {zero, five, a, b};
    return tn__node_create(g, tn__op_find("while"), inputs, 4, NULL, 0, graphs, 2)->outputs[2];
  }
  tn__value *condition = tn__g_compare(g, TN__CMP_LT, zero, five);
  tn__value *inputs[3] = {condition, a, b};
  return tn__node_create(g, tn__op_find("if"), inputs, 3, NULL, 0, graphs, 2)->outputs[0];
}

/* values[count ...] become the results of `nodes` operators. */
static void build_nodes(random_graph *r, tn__graph *g, tn__value **values, int count, int nodes, int depth) {
  for (int i = 0; i < nodes; i++) {
    tn__value *a = pick(r, values, count + i), *b = pick(r, values, count + i);
    uint32_t what = draw(r, r->control && depth < 3 ? 8 : 7);
    float *data = TN__NEW(tn__graph_arena(g), float);
    *data = 2;
    const tn__expr *dims[1] = {tn__ir_index(tn__graph_ir(g), 128)};
    tn__value *made = what == 7   ? build_control(r, g, a, b, depth)
                      : what < 3  ? tn__g_binary(g, "add", a, b)
                      : what == 3 ? tn__g_binary(g, "add", a, tn__g_full(g, TN_F32, 3, 1, dims))
                                  : tn__g_unary(g, "negate", a);
    tn__node *node = made->producer;
    node->origin = tn__arena_printf(tn__graph_arena(g), "node \"n%d\" (Op, opset 1)", r->nodes++);
    values[count + i] = r->annotated && draw(r, 6) == 0 ? annotate(r, g, made) : made;
  }
}

static tn__graph *random_of(random_graph *r, tn__arena *arena) {
  tn__graph *g = tn__graph_create(tn__ir_create(arena), "random");
  tn__value *values[4 + MOST_NODES];
  int inputs = 1 + (int)draw(r, 3), nodes = 1 + (int)draw(r, MOST_NODES);
  for (int i = 0; i < inputs; i++) values[i] = input_like(g, tn__arena_printf(arena, "x%d", i));
  build_nodes(r, g, values, inputs, nodes, 0);
  for (int i = 0; i < 3; i++) tn__graph_output(g, tn__arena_printf(arena, "y%d", i), pick(r, values, inputs + nodes));
  return g;
}

static bool is_host_read(const tn__node *node, int operand) {
  return node->op->lowering == TN__LOWER_CONTROL && !tn__op_has(node, TN__FACT_LOOPS) && node->graph_count == 2 &&
         operand == 0;
}

static bool same_place(const tn__virtual_device *a, const tn__virtual_device *b) {
  return a->device_type == b->device_type && a->device_id == b->device_id && a->target == b->target;
}

/* Every operand is where its node is, in whatever memory, but for copies; what bodies take and give is where it is
 * outside, in the same memory. */
static void check_placed(const tn__graph *g, tn__compile_config *config, int *copies) {
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *n = tn__graph_node_at(g, i);
    bool copy = tn__g_is_op(n, "device_copy"), loop = tn__op_has(n, TN__FACT_LOOPS);
    assert_false(tn__g_is_op(n, "on_device"));
    *copies += copy;
    for (int k = 0; k < n->output_count; k++) assert_true(tn__virtual_device_is_full(n->outputs[k]->device));
    for (int k = 0; k < n->input_count; k++) assert_true(tn__virtual_device_is_full(n->inputs[k]->device));
    if (n->op->lowering == TN__LOWER_CONTROL) {
      int first = !loop && n->graph_count == 2;
      if (first) assert_ptr_equal(n->inputs[0]->device, config->host);
      for (int b = 0; b < n->graph_count; b++) {
        for (int k = first; k < n->input_count; k++)
          assert_ptr_equal(tn__graph_input_at(n->graphs[b], k - first)->device, n->inputs[k]->device);
        for (int k = 0; k < tn__graph_output_count(n->graphs[b]); k++)
          assert_ptr_equal(tn__graph_output_at(n->graphs[b], k)->device,
                           loop && b == 0 ? config->host : n->outputs[k]->device);
        check_placed(n->graphs[b], config, copies);
      }
      continue;
    }
    for (int k = 0; k < n->input_count; k++)
      if (copy)
        assert_true(n->inputs[k]->device != n->outputs[0]->device);
      else if (!is_host_read(n, k))
        assert_true(same_place(n->inputs[k]->device, n->outputs[0]->device));
  }
}

/* Distinct pairs of a value and a place that it is read in and is not in, of a graph without control. */
static int foreign_pairs(const tn__graph *g) {
  int pairs = 0;
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *n = tn__graph_node_at(g, i);
    if (!tn__g_is_op(n, "device_copy")) continue;
    bool is_new = true;
    for (int j = 0; j < i; j++) {
      const tn__node *m = tn__graph_node_at(g, j);
      if (tn__g_is_op(m, "device_copy") && m->inputs[0] == n->inputs[0] &&
          m->outputs[0]->device == n->outputs[0]->device)
        is_new = false;
    }
    assert_true(n->outputs[0]->readers.count + n->outputs[0]->results.count > 0);
    pairs += is_new;
  }
  return pairs;
}

static const char *const *random_rules(random_graph *r, tn__arena *arena) {
  const char **rules = TN__NEW_ARRAY(arena, MOST_RULES, const char *);
  int count = (int)draw(r, MOST_RULES - 1);
  for (int i = 0; i < count; i++) {
    int device = (int)draw(r, ISLANDS), node = (int)draw(r, (uint32_t)r->nodes);
    rules[i] = draw(r, 3) == 0 ? tn__arena_printf(arena, "*%d=cpu:%d", node % 10, device)
                               : tn__arena_printf(arena, "n%d=cpu:%d", node, device);
    if (r->scoped) rules[i] = tn__arena_printf(arena, "%s%s", rules[i], draw_scope(r));
  }
  return rules;
}

static tn__compile_config *islands(tn__arena *arena) {
  const char *text = "x86-64-v3 -device=0";
  for (int i = 1; i < ISLANDS; i++) text = tn__arena_printf(arena, "%s; x86-64-v3 -device=%d", text, i);
  return tn__compile_config_create(arena, text, NULL);
}

/* Another order of the nodes in which each still stands behind what it reads. */
static void shuffle(random_graph *r, tn__graph *g) {
  for (int round = 0; round < 3 * g->nodes.count; round++) {
    int i = g->nodes.count < 2 ? 0 : (int)draw(r, (uint32_t)g->nodes.count - 1);
    if (g->nodes.count < 2) break;
    tn__node *a = g->nodes.data[i], *b = g->nodes.data[i + 1];
    bool reads = false;
    for (int k = 0; k < b->input_count; k++) reads |= b->inputs[k] != NULL && b->inputs[k]->producer == a;
    if (!reads) g->nodes.data[i] = b, g->nodes.data[i + 1] = a;
  }
  for (int i = 0; i < g->nodes.count; i++)
    for (int b = 0; b < g->nodes.data[i]->graph_count; b++) shuffle(r, g->nodes.data[i]->graphs[b]);
}

static uint64_t place_of(const tn__value *value) { return tn__hash_string(0, value->device->text); }

/* The devices of the named nodes and of the copies, whatever their order. */
static uint64_t picture(const tn__graph *g) {
  uint64_t sum = 0;
  for (int i = 0; i < tn__graph_input_count(g); i++)
    sum += tn__hash_string(place_of(tn__graph_input_at(g, i)), tn__graph_input_at(g, i)->name);
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *n = tn__graph_node_at(g, i);
    size_t length;
    const char *name = tn__place_name_of(n, &length);
    bool copy = tn__g_is_op(n, "device_copy");
    if (n->origin == NULL && !copy) continue;
    const tn__value *copied = copy ? n->inputs[0] : NULL; /* names of what is made in planning are of its order */
    if (copy)
      name = copied->producer != NULL && copied->producer->origin != NULL ? copied->producer->origin : copied->name;
    uint64_t hash = tn__hash_string(place_of(n->outputs[0]) + (copy ? 100 : 0), name);
    for (int b = 0; b < n->graph_count; b++) hash = hash * 31 + picture(n->graphs[b]);
    sum += hash;
  }
  return sum;
}

/* Passes leave values where they are, and what they make belongs to one place. */
static void optimize_and_plan(tn__arena *arena, tn__graph *graph, tn__compile_config *config) {
  static const char *const no_rules[MOST_RULES] = {NULL};
  const tn__optimize_options options = {0};
  int copies = 0;
  tn__graph_optimize(graph, &options);
  tn__place_result result = plan_graph(arena, graph, config, no_rules);
  check_ok(tn__graph_verify(graph));
  check_placed(graph, config, &copies);
  assert_int_equal(result.copies, copies);
}

static void plan_one(tn__arena *arena, void *user) {
  random_graph *r = user, once = *r, before;
  tn__compile_config *config = islands(arena);
  tn__graph *graph = random_of(r, arena);
  const char *const *rules = random_rules(r, arena);
  before = *r;
  tn__place_result result = plan_graph(arena, graph, config, rules);
  int copies = 0;
  check_ok(tn__graph_verify(graph));
  check_placed(graph, config, &copies);
  assert_int_equal(result.copies, copies);
  if (!once.control) assert_int_equal(copies, foreign_pairs(graph));
  uint64_t plan = picture(graph);
  const char *text = text_of(arena, graph);
  tn__place_result again = plan_graph(arena, graph, config, rules);
  assert_string_equal(text_of(arena, graph), text);
  assert_int_equal(again.copies, copies);
  optimize_and_plan(arena, graph, config);
  /* The same graph, its nodes in another order. */
  tn__graph *other = random_of(&once, arena);
  shuffle(&before, other);
  result = plan_graph(arena, other, config, rules);
  assert_int_equal(result.copies, copies);
  assert_true(picture(other) == plan);
}

static void random_placements_keep_what_must_hold(void **state) {
  int contradictions = 0;
  for (int i = 0; i < 4000; i++) {
    random_graph r = {
        .state = (uint64_t)i * 2 + 1, .control = i % 2 != 0, .annotated = i % 4 > 1, .scoped = i % 16 > 11};
    tn_status *status = tn__with_arena(NULL, plan_one, &r);
    bool refused = r.annotated && status != NULL && strstr(tn_status_message(status), " contradict: ") != NULL;
    if (status != NULL && !refused) fail_msg("graph %d: %s", i, tn_status_message(status));
    contradictions += refused;
    tn_status_free(status);
  }
  assert_true(contradictions > 50 && contradictions < 1950); /* of 2,000 with annotations */
}

/* ---- growth ------------------------------------------------------------------------------------------------------ */

static void plan_chain(tn__arena *arena, void *user) {
  uint64_t *steps = user;
  int nodes = (int)*steps;
  random_graph r = {.state = 7};
  tn__graph *g = tn__graph_create(tn__ir_create(arena), "chain");
  tn__value *a = input_like(g, "x"), *b = a;
  for (int i = 0; i < nodes; i++) {
    tn__value *next = i % 3 == 0 ? tn__g_binary(g, "add", a, b) : tn__g_unary(g, "negate", a);
    next->producer->origin = tn__arena_printf(arena, "node \"n%d\" (Op, opset 1)", i);
    b = draw(&r, 4) == 0 ? a : b;
    a = next;
  }
  tn__graph_output(g, "y", a);
  static const char *const rules[MOST_RULES] = {"*7=cpu:1", "*3=cpu:2", "*11=cpu:3"};
  *steps = plan_graph(arena, g, islands(arena), rules).steps;
}

static void work_grows_with_the_graph(void **state) {
  uint64_t few = 5000, many = 20000;
  check_ok(tn__with_arena(NULL, plan_chain, &few));
  check_ok(tn__with_arena(NULL, plan_chain, &many));
  assert_true(many < 4 * few + few / 4);
  assert_true(many < UINT64_C(20000) * 40);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_cpu_stays_as_it_is),
      cmocka_unit_test(placed_nodes_get_copies),
      cmocka_unit_test(inputs_go_where_they_are_read),
      cmocka_unit_test(free_values_follow_their_readers),
      cmocka_unit_test(constants_are_doubled_and_not_copied),
      cmocka_unit_test(annotations_fix_values),
      cmocka_unit_test(results_can_be_said),
      cmocka_unit_test(arms_of_branches_agree),
      cmocka_unit_test(copies_leave_loops),
      cmocka_unit_test(shapes_stay_with_the_host),
      cmocka_unit_test(lists_are_on_the_host),
      cmocka_unit_test(copies_are_shared_and_chains_collapse),
      cmocka_unit_test(ways_there_and_back_vanish),
      cmocka_unit_test(contradictions_name_both_ends_and_the_way),
      cmocka_unit_test(rules_are_checked),
      cmocka_unit_test(nodes_are_meant_by_name),
      cmocka_unit_test(long_names_are_found),
      cmocka_unit_test(random_placements_keep_what_must_hold),
      cmocka_unit_test(work_grows_with_the_graph),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
