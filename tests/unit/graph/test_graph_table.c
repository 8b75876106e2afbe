/* The table of core operators, and docs/operators.md, which "unit_graph graph_table --write" generates from it. */
#include <string.h>

#include "graph/relations.h"
#include "unit/page.h"

#define PAGE TN_TEST_ROOT "/docs/operators.md"

static void rows_are_whole(void **state) {
  assert_null(tn__op_find("nonsense"));
  for (int i = 0; i < tn__op_count(); i++) {
    const tn__op *op = tn__op_at(i);
    assert_ptr_equal(tn__op_find(op->name), op); /* no name stands twice */
    assert_non_null(op->infer);
    assert_non_null(op->doc);
    assert_int_equal(op->lowering == TN__LOWER_DECLARE, (op->declare != NULL) + (op->expand != NULL));
    assert_int_equal(op->op_class == TN__CLASS_ELEMENTWISE && op->expand == NULL, op->scalar != NULL);
    int least = 0, most = 0;
    if (op->operands == NULL || !tn__relations_parse(op->operands, &least, &most))
      fail_msg("%s: these are no relations: %s", op->name, op->operands);
    assert_int_equal(most, op->max_inputs);
    if (least != op->min_inputs) fail_msg("%s: %d operands must be there, not %d", op->name, op->min_inputs, least);
  }
}

static void write_attributes(tn__strbuf *out, const tn__op *op) {
  if (op->attributes != NULL) tn__strbuf_printf(out, "`%s`", op->attributes);
}

/* The relations, whose bars are no borders of the table. */
static void write_operands(tn__strbuf *out, const tn__op *op) {
  if (op->operands[0] == '\0') {
    tn__strbuf_append(out, "none");
    return;
  }
  tn__strbuf_char(out, '`');
  for (const char *c = op->operands; *c != '\0'; c++) {
    if (*c == '|') tn__strbuf_char(out, '\\');
    tn__strbuf_char(out, *c);
  }
  tn__strbuf_char(out, '`');
}

static void write_page(tn__strbuf *out) {
  static const char *const classes[] = {"element-wise", "injective", "reduction", "rows", "contraction", "opaque"};
  static const char *const lowerings[] = {"declared", "VM", "runtime"};
  tn__strbuf_printf(
      out,
      "# Core operators\n\n"
      "The %d operators that graphs are made of, with StableHLO's names and meaning wherever it has one. "
      "The class says how fusion sees\nan operator, the last column but one how it is executed: a composite as the "
      "body of other operators that "
      "its row tells. Written by "
      "`unit_graph graph_table --write` from the table; do not edit.\n[howto-operator.md](howto-operator.md) tells "
      "how to add one, and how operands and attributes are to be read.\n\n"
      "| operator | operands | attributes | class | execution | meaning |\n| --- | --- | --- | --- | --- | --- |\n",
      tn__op_count());
  for (int i = 0; i < tn__op_count(); i++) {
    const tn__op *op = tn__op_at(i);
    tn__strbuf_printf(out, "| `%s` | ", op->name);
    write_operands(out, op);
    tn__strbuf_append(out, " | ");
    write_attributes(out, op);
    tn__strbuf_printf(out, " | %s | %s | %s |\n", classes[op->op_class],
                      op->expand != NULL ? "composite" : lowerings[op->lowering], op->doc);
  }
}

static void page_is_fresh(void **state) { page_check(PAGE, write_page); }

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--write") == 0) return page_write(PAGE, write_page);
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_whole), cmocka_unit_test(page_is_fresh)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
