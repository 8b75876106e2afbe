/* What ONNX's schemas demand of a node, before any function of the importer's sees it: how many operands there are,
 * which kinds of values, which element types, how many dimensions, and which attributes of which types.
 *
 * The table is generated (schemas.inc, tools/gen_onnx_schemas.py), one row for each version of an operator. An
 * operator's function may rely on it: required operands are there, ranks are among those of the table, operands that
 * must share an element type do, attributes are those of the version and hold what their type says. What depends on
 * attributes or on sizes is the function's to check.
 *
 * Wider than ONNX, and why:
 * - An operand takes the types of every later version too, and operands need not share a type when they need not in a
 *   later version: exporters use types (bfloat16 above all) before the operator set that they name has them, and the
 *   meaning does not change.
 * - What onnx_ranks.txt says is wider: a row of one number for a scalar, operands that exporters leave out.
 * - A result that has no name is not made, whether the schema calls it optional or not.
 * - Attributes of old files may lack their `type`. */
#ifndef TENON_IMPORT_ONNX_SCHEMA_H
#define TENON_IMPORT_ONNX_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

struct tn__onode; /* internal.h */
typedef struct tn__onnx_schema tn__onnx_schema;

/* The row that is in force in that version of the operator set; NULL: the operator is not in it. */
const tn__onnx_schema *tn__onnx_schema_find(const char *domain, const char *name, int64_t version);
/* Throws what is wrong with the node; `n->in` and the counts are set, absent operands at the end not counted. */
void tn__onnx_schema_check(const struct tn__onode *n);

#endif
