/* Operators on strings in the VM's code: one builtin each. */
#include "program/builder.h"

enum { MOST_OPERANDS = 4, MOST_SCALARS = 3 };

static const struct {
  const char *op;
  tn__builtin builtin;
  const char *scalars[MOST_SCALARS]; /* attributes that become scalars */
  bool late;                         /* the builtin brings the memory of its first result */
} rows[] = {
    {"string_concat", TN__BUILTIN_STRING_CONCAT, {NULL}, false},
    {"string_equal", TN__BUILTIN_STRING_EQUAL, {NULL}, false},
    {"string_split", TN__BUILTIN_STRING_SPLIT, {"most"}, true},
    {"string_normalize", TN__BUILTIN_STRING_NORMALIZE, {"case", "sensitive"}, true},
    {"string_match", TN__BUILTIN_STRING_MATCH, {NULL}, false},
    {"string_from", TN__BUILTIN_STRING_FROM, {NULL}, false},
    {"string_to", TN__BUILTIN_STRING_TO, {NULL}, false},
    {"table_find", TN__BUILTIN_TABLE_FIND, {NULL}, false},
    {"table_grams", TN__BUILTIN_TABLE_GRAMS, {"shortest", "longest", "skips"}, false},
};

bool tn__prog_emit_string_node(tn__builder *b, const tn__node *node) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    if (!tn__g_is_op(node, rows[i].op)) continue;
    int reads[MOST_OPERANDS], writes[2], scalars[MOST_SCALARS], scalar_count = 0;
    for (int k = 0; k < node->input_count; k++) reads[k] = tn__prog_register_of(b, node->inputs[k]);
    for (int k = 0; k < node->output_count; k++)
      writes[k] = tn__prog_destination_of(b, node->outputs[k], k > 0 || !rows[i].late);
    for (; scalar_count < MOST_SCALARS && rows[i].scalars[scalar_count]; scalar_count++)
      scalars[scalar_count] = tn__exe_emit_const(b->func, tn__node_int(node, rows[i].scalars[scalar_count], 0));
    tn__exe_emit_builtin(b->func, rows[i].builtin, reads, node->input_count, writes, node->output_count, scalars,
                         scalar_count);
    return true;
  }
  return false;
}
