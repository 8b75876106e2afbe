/* Scopes of memory: of buffers, across calls, branches and loops to whoever makes and reads them, and not of
 * operators. */
#include <stdio.h>

#include "unit/place_check.h"

#define ISLAND "x86-64-v3; island -mcpu=x86-64-v3"

#define CALL(parameter, result)     \
  "graph \"main\" {\n"              \
  "  input x: f32[4]\n"             \
  "  a: f32[4] = abs(x)\n"          \
  "  r: f32[4] = call(a)\n"         \
  "    graph \"f\" {\n"             \
  "      input b: f32[4]" parameter \
  "\n"                              \
  "      t: f32[4]" result          \
  " = abs(b)\n"                     \
  "      output \"r\" = t\n"        \
  "    }\n"                         \
  "  y: f32[4] = negate(r)\n"       \
  "  output \"y\" = y\n"            \
  "}\n"

static void a_parameters_scope_is_its_argument_s(void **state) {
  check_placed_case(&(placed_case){.graph = CALL(" on \"island/texture\"", ""),
                                   .targets = ISLAND,
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0/texture abs                a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "island:0     negate             y\n"});
}

static void a_results_scope_is_its_readers(void **state) {
  check_placed_case(&(placed_case){.graph = CALL("", " on \"island/shared\""),
                                   .targets = ISLAND,
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0     abs                a\n"
                                           "island:0/shared call               r\n"
                                           "  island:0     input              b\n"
                                           "  island:0/shared abs                t\n"
                                           "island:0     negate             y\n"});
}

/* Where copies are allowed, since operators are placed by name, it is no other: a buffer needs none on its device. */
static void patterns_do_not_part_buffers(void **state) {
  check_placed_case(&(placed_case){.graph = CALL(" on \"island/texture\"", ""),
                                   .targets = ISLAND,
                                   .place = {"a=island:0", "y=island:0", "t=island"},
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0/texture abs                a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "island:0     negate             y\n"});
  /* From another device it comes by a copy, into that memory. */
  check_placed_case(&(placed_case){.graph = CALL(" on \"island/texture\"", ""),
                                   .targets = ISLAND,
                                   .place = {"a=cpu", "y=cpu"},
                                   .quiet = true,
                                   .want = "cpu:0        input              x\n"
                                           "cpu:0        abs                a\n"
                                           "island:0/texture device_copy        a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "cpu:0        device_copy        r\n"
                                           "cpu:0        negate             y\n"});
  /* A pattern may say the scope, of what the operator makes. */
  check_placed_case(&(placed_case){.graph = CALL("", ""),
                                   .targets = ISLAND,
                                   .place = {"t=island/tile", "a=island", "y=island"},
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0     abs                a\n"
                                           "island:0/tile call               r\n"
                                           "  island:0     input              b\n"
                                           "  island:0/tile abs                t\n"
                                           "island:0     negate             y\n"});
}

static void the_state_of_a_loop_is_one_buffer(void **state) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input n: i64[]\n"
                                            "  input x: f32[4]\n"
                                            "  const z: i64[] = 0\n"
                                            "  p: f32[4] = abs(x)\n"
                                            "  i: i64[], m: i64[], s: f32[4] = while(z, n, p)\n"
                                            "    graph \"condition\" {\n"
                                            "      input a: i64[]\n"
                                            "      input b: i64[]\n"
                                            "      input c: f32[4]\n"
                                            "      more: bool[] = compare(a, b) {direction=\"LT\"}\n"
                                            "      output \"more\" = more\n"
                                            "    }\n"
                                            "    graph \"body\" {\n"
                                            "      input a: i64[]\n"
                                            "      input b: i64[]\n"
                                            "      input c: f32[4] on \"island:0/texture\"\n"
                                            "      const one: i64[] = 1\n"
                                            "      next: i64[] = add(a, one)\n"
                                            "      u: f32[4] = negate(c)\n"
                                            "      t: f32[4] = abs(u)\n"
                                            "      output \"a\" = next\n"
                                            "      output \"b\" = b\n"
                                            "      output \"c\" = t\n"
                                            "    }\n"
                                            "  y: f32[4] = negate(s)\n"
                                            "  output \"y\" = y\n"
                                            "}\n",
                                   .targets = ISLAND,
                                   .quiet = true,
                                   .want = "cpu:0        input              n\n"
                                           "island:0     input              x\n"
                                           "island:0/texture abs                p\n"
                                           "cpu:0        while              i\n"
                                           "  cpu:0        input              a\n"
                                           "  cpu:0        input              b\n"
                                           "  island:0/texture input              c\n"
                                           "  cpu:0        compare            more\n"
                                           "  cpu:0        input              a\n"
                                           "  cpu:0        input              b\n"
                                           "  island:0/texture input              c\n"
                                           "  cpu:0        add                next\n"
                                           "  island:0     negate             u\n"
                                           "  island:0/texture abs                t\n"
                                           "island:0     negate             y\n"});
}

static const char two_calls[] =
    "graph \"main\" {\n"
    "  input x: f32[4]\n"
    "  a: f32[4] = abs(x)\n"
    "%s"
    "  r: f32[4] = call(%s)\n"
    "    graph \"f\" {\n"
    "      input b: f32[4] on \"island/texture\"\n"
    "      t: f32[4] = abs(b)\n"
    "      output \"r\" = t\n"
    "    }\n"
    "  s: f32[4] = call(a)\n"
    "    graph \"g\" {\n"
    "      input c: f32[4] on \"island/shared\"\n"
    "      u: f32[4] = abs(c)\n"
    "      output \"s\" = u\n"
    "    }\n"
    "  y: f32[4] = add(r, s)\n"
    "  output \"y\" = y\n"
    "}\n";

static void two_scopes_of_one_buffer_contradict(void **state) {
  char text[1024];
  snprintf(text, sizeof text, two_calls, "", "a");
  check_placed_case(
      &(placed_case){.graph = text,
                     .targets = ISLAND,
                     .want = "scopes of memory contradict: \"b\" is in texture (said where it is made), and \"c\" in "
                             "shared (said where it is made), and they are one buffer: say the same of both, or put "
                             "device_copy between them",
                     .code = TN_INVALID_ARGUMENT});
  /* With a copy between them each has its own, on one device. */
  snprintf(text, sizeof text, two_calls, "  k: f32[4] = device_copy(a) {to=\"island:0/texture\"}\n", "k");
  check_placed_case(&(placed_case){.graph = text,
                                   .targets = ISLAND,
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0/shared abs                a\n"
                                           "island:0/texture device_copy        a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "island:0     call               s\n"
                                           "  island:0/shared input              c\n"
                                           "  island:0     abs                u\n"
                                           "island:0     add                y\n"});
  /* So has what may be copied by itself, as the operator that makes it is placed by name: by the scopes' names, and not
   * by the order of the calls. */
  snprintf(text, sizeof text, two_calls, "", "a");
  check_placed_case(&(placed_case){.graph = text,
                                   .targets = ISLAND,
                                   .place = {"a=island:0"},
                                   .quiet = true,
                                   .want = "island:0     input              x\n"
                                           "island:0/shared abs                a\n"
                                           "island:0/texture device_copy        a\n"
                                           "island:0     call               r\n"
                                           "  island:0/texture input              b\n"
                                           "  island:0     abs                t\n"
                                           "island:0     call               s\n"
                                           "  island:0/shared input              c\n"
                                           "  island:0     abs                u\n"
                                           "island:0     add                y\n"});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_parameters_scope_is_its_argument_s), cmocka_unit_test(a_results_scope_is_its_readers),
      cmocka_unit_test(patterns_do_not_part_buffers),         cmocka_unit_test(the_state_of_a_loop_is_one_buffer),
      cmocka_unit_test(two_scopes_of_one_buffer_contradict),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
