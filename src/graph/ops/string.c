/* Operators on strings, which the machine's builtins do, and lookups in sorted tables, which are about strings for the
 * most part. What only moves strings are the operators that move numbers. */
#include <string.h>

#include "graph/internal.h"

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static const tn__value *require_tensor(const tn__graph *graph, const tn__node *node, int input, tn_dtype dtype) {
  const tn__value *value = node->inputs[input];
  if (value->holds != TN__HOLDS_TENSOR)
    tn__node_fail(graph, node, "operand %d is a sequence, expected a tensor", input);
  if (dtype != TN_DTYPE_INVALID) tn__g_require_dtype(graph, node, input, dtype);
  return value;
}

/* A result with one dimension that only running the node tells. */
static void set_late(tn__graph *graph, tn__node *node, const tn__value *like, int rank, int late) {
  const tn__expr **dims = TN__NEW_ARRAY(graph->arena, rank, const tn__expr *);
  for (int i = 0; i < rank; i++) dims[i] = i == late || i >= like->rank ? tn__ir_index(graph->ir, 0) : like->dims[i];
  tn__value *result = tn__g_set_output(graph, node, 0, TN_STRING, rank, dims, NULL);
  dims[late] = tn__graph_dim_symbol(graph, result, late);
  result->dims = dims;
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

static void infer_concat(tn__graph *graph, tn__node *node) {
  const tn__value *a = require_tensor(graph, node, 0, TN_STRING);
  require_tensor(graph, node, 1, TN_STRING);
  tn__g_set_output(graph, node, 0, TN_STRING, a->rank, a->dims, NULL);
}

static void infer_equal(tn__graph *graph, tn__node *node) {
  const tn__value *a = require_tensor(graph, node, 0, TN_STRING);
  require_tensor(graph, node, 1, TN_STRING);
  tn__g_set_output(graph, node, 0, TN_BOOL, a->rank, a->dims, NULL);
}

static void infer_split(tn__graph *graph, tn__node *node) {
  const tn__value *x = require_tensor(graph, node, 0, TN_STRING);
  require_tensor(graph, node, 1, TN_STRING);
  set_late(graph, node, x, x->rank + 1, x->rank);
  tn__g_set_output(graph, node, 1, TN_I64, x->rank, x->dims, NULL);
}

static void infer_normalize(tn__graph *graph, tn__node *node) {
  const tn__value *x = require_tensor(graph, node, 0, TN_STRING);
  require_tensor(graph, node, 1, TN_STRING);
  set_late(graph, node, x, x->rank, x->rank - 1);
}

static void infer_match(tn__graph *graph, tn__node *node) {
  const tn__value *x = require_tensor(graph, node, 0, TN_STRING);
  require_tensor(graph, node, 1, TN_I64);
  tn__g_set_output(graph, node, 0, TN_BOOL, x->rank, x->dims, NULL);
}

static void infer_from(tn__graph *graph, tn__node *node) {
  const tn__value *x = require_tensor(graph, node, 0, TN_DTYPE_INVALID);
  if (x->dtype == TN_STRING) tn__node_fail(graph, node, "operand 0 is strings, expected numbers");
  tn__g_set_output(graph, node, 0, TN_STRING, x->rank, x->dims, NULL);
}

static void infer_to(tn__graph *graph, tn__node *node) {
  const tn__value *x = require_tensor(graph, node, 0, TN_STRING);
  tn_dtype dtype = tn__g_require_dtype_attr(graph, node);
  if (dtype == TN_STRING) tn__node_fail(graph, node, "makes numbers, not strings");
  tn__g_set_output(graph, node, 0, dtype, x->rank, x->dims, NULL);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void infer_find(tn__graph *graph, tn__node *node) {
  const tn__value *x = require_tensor(graph, node, 0, TN_DTYPE_INVALID);
  require_tensor(graph, node, 1, x->dtype);
  tn__g_set_output(graph, node, 0, TN_I64, x->rank, x->dims, NULL);
}

static void infer_grams(tn__graph *graph, tn__node *node) {
  const tn__value *x = require_tensor(graph, node, 0, TN_DTYPE_INVALID);
  const tn__expr *dims[2] = {x->rank == 2 ? x->dims[0] : NULL};
  require_tensor(graph, node, 1, x->dtype);
  require_tensor(graph, node, 2, TN_I64);
  require_tensor(graph, node, 3, TN_I64);
  int rank = x->rank == 2 ? 2 : 1;
  dims[rank - 1] = tn__ir_index(graph->ir, tn__node_int(node, "width", 0));
  tn__g_set_output(graph, node, 0, TN_I64, rank, dims, NULL);
}

#define TN__ROW(op_name, count, names, suffix, ...) \
  {.name = op_name,                                 \
   .min_inputs = count,                             \
   .max_inputs = count,                             \
   .operands = names,                               \
   .op_class = TN__CLASS_OPAQUE,                    \
   .lowering = TN__LOWER_BUILTIN,                   \
   .facts = TN__FACT_STRINGS,                       \
   .infer = infer_##suffix,                         \
   .doc = __VA_ARGS__}

static const tn__op rows[] = {
    TN__ROW("string_concat", 2, "a[*s] b[*s]", concat, "Each string with that of operand 1 behind it."),
    TN__ROW("string_equal", 2, "a[*s] b[*s]", equal, "Whether two strings have the same bytes."),
    TN__ROW("string_split", 2, "x[*s] delimiter[]", split,
            "The pieces between delimiters (operand 1; white space when it is empty), along a new last axis and padded "
            "with empty strings, and their number; `most` cuts, any number when negative.",
            .attributes = "most:int"),
    TN__ROW("string_normalize", 2, "x[c]|[1,c] words[n]", normalize,
            "The strings without those of operand 1, in `case` 1 (lower) or 2 (upper); one empty string when none "
            "is left.",
            .attributes = "case:int sensitive:int"),
    TN__ROW("string_match", 2, "x[*s] program[n]", match,
            "Whether the program of a regular expression (operand 1) matches all of it."),
    TN__ROW("string_from", 1, "x[*s]", from, "Numbers as text."),
    TN__ROW("string_to", 1, "x[*s]", to, "Text as numbers of type `dtype`; fails when it is none.",
            .attributes = "dtype:string"),
    TN__ROW("table_find", 2, "x[*s] keys[n]", find, "The position in operand 1, which is sorted, or its length."),
    TN__ROW("table_grams", 4, "x[]|[_]|[_,_] pool[n] begins[m] columns[k]", grams,
            "How often each n-gram of a pool (operand 1, operand 2: where those of each length begin) occurs in a row, "
            "in the columns that operand 3 says.",
            .attributes = "shortest:int longest:int skips:int width:int[0..]"),
};

const tn__op_family tn__ops_string = {rows, sizeof(rows) / sizeof(rows[0])};
