/* Constant folding. What is folded is decided by counts of elements and operations alone, so the result does not depend
 * on the machine.
 *
 * Three kinds: values whose elements are all known as numbers; operators over splats, whose result is a splat again (or
 * a broadcast scalar when its shape is symbolic), whatever its size; and small nodes over constants, which the
 * evaluator runs. Larger nodes over constants stay: the driver computes them natively, once, when it compiles. */
#include <string.h>

#include "graph/passes/rewrite.h"

enum { MAX_OUTPUT_ELEMENTS = 1 << 16, MAX_OPERATIONS = 1 << 22, MAX_SPLAT_SEARCH = 1 << 12 };

typedef struct folder {
  tn__graph *graph;
  tn__arena *arena;
  const tn__optimize_options *options;
  tn__rewriter rewriter;
} folder;

/* ---- known elements ----------------------------------------------------------------------------- */

static tn__value *from_known_elements(folder *f, const tn__value *value) {
  int64_t shape[TN__MAX_RANK], total = tn__pass_element_total(value);
  if (value->elements == NULL || tn__pass_is_constant(value) || total < 0 || total > TN__MAX_ELEMENTS) return NULL;
  if (!tn__g_shape_const(value, shape)) return NULL;
  size_t size = tn__dtype_stored(value->dtype);
  void *data = tn__arena_alloc_array(f->arena, (size_t)total + 1, size);
  for (int64_t i = 0; i < total; i++) {
    int64_t element;
    if (value->elements[i]->kind == TN__EXPR_FLOAT)
      tn__store_f64(value->dtype, data, i, value->elements[i]->value.f);
    else if (tn__ir_as_int(value->elements[i], &element))
      tn__store_i64(value->dtype, data, i, element);
    else
      return NULL;
  }
  return tn__g_constant_like(f->graph, value, data, false);
}

/* ---- splats ------------------------------------------------------------------------------------- */

/* A tensor like `like` whose elements all are `element`. */
static tn__value *splat_like(folder *f, const tn__value *like, const void *element) {
  int64_t shape[TN__MAX_RANK];
  if (tn__g_shape_const(like, shape)) return tn__g_constant_like(f->graph, like, element, true);
  tn__value *scalar = tn__g_constant_value(f->graph, like->dtype, 0, NULL, element, true);
  return tn__g_broadcast_in_dim(f->graph, scalar, like->rank, like->dims, NULL);
}

/* One element of an element-wise node over splats: the same node over scalars. */
static const void *evaluate_scalar(folder *f, const tn__node *node) {
  tn__value *scalars[4];
  if (node->input_count > 4 || node->output_count != 1) return NULL;
  for (int i = 0; i < node->input_count; i++) {
    const void *element;
    if (node->inputs[i] == NULL || !tn__pass_splat_element(node->inputs[i], &element)) return NULL;
    scalars[i] = tn__g_constant_value(f->graph, node->inputs[i]->dtype, 0, NULL, element, true);
  }
  tn__node *scalar =
      tn__node_create(f->graph, node->op, scalars, node->input_count, node->attrs, node->attr_count, NULL, 0);
  scalar->dead = true;
  void *out[1] = {tn__arena_alloc(f->arena, 16)};
  return f->options->evaluator.evaluate(f->options->evaluator.user, f->graph, scalar, out) ? out[0] : NULL;
}

static const void *common_element(const tn__node *node) {
  const void *first, *other;
  if (node->input_count == 0 || !tn__pass_splat_element(node->inputs[0], &first)) return NULL;
  for (int i = 1; i < node->input_count; i++)
    if (!tn__pass_splat_element(node->inputs[i], &other) ||
        memcmp(first, other, tn__dtype_stored(node->inputs[0]->dtype)) != 0)
      return NULL;
  return first;
}

/* A splat whose shape is symbolic already is what it would become. */
static bool is_broadcast_scalar(const tn__node *node) {
  return tn__op_has(node, TN__FACT_REPEATS) && node->inputs[0]->rank == 0 &&
         tn__pass_element_total(node->outputs[0]) < 0;
}

/* What comes of more equal elements than the evaluator would visit. */
static const void *of_equal(folder *f, const tn__node *node) {
  const void *element;
  int64_t from = tn__pass_element_total(node->inputs[0]), to = tn__pass_element_total(node->outputs[0]);
  if (from <= MAX_OPERATIONS || to <= 0 || !tn__pass_splat_element(node->inputs[0], &element)) return NULL;
  void *out = tn__arena_alloc(f->arena, 16);
  return node->op->of_equal(node, element, out) ? out : NULL;
}

static tn__value *from_splats(folder *f, const tn__node *node) {
  const void *element = NULL;
  if (node->output_count != 1 || is_broadcast_scalar(node)) return NULL;
  if (tn__op_has(node, TN__FACT_REARRANGES))
    element = common_element(node);
  else if (node->op->of_equal != NULL)
    element = of_equal(f, node);
  else if (node->op->op_class == TN__CLASS_ELEMENTWISE && f->options->evaluator.evaluate != NULL)
    element = evaluate_scalar(f, node);
  return element == NULL ? NULL : splat_like(f, node->outputs[0], element);
}

/* ---- small nodes over constants ----------------------------------------------------------------- */

static bool constant_attrs(const tn__node *node) {
  int64_t unused;
  for (int i = 0; i < node->attr_count; i++)
    for (int j = 0; node->attrs[i].kind == TN__ATTR_EXPRS && j < node->attrs[i].count; j++)
      if (!tn__ir_as_int(node->attrs[i].exprs[j], &unused)) return false;
  return true;
}

/* An upper bound, not exact: what a result element reads at most. */
static int64_t reads_per_element(const tn__node *node) {
  int64_t reads = 1;
  switch (node->op->op_class) {
    case TN__CLASS_ELEMENTWISE:
    case TN__CLASS_INJECTIVE: return 1;
    case TN__CLASS_CONTRACTION:
    case TN__CLASS_REDUCTION:
    case TN__CLASS_ROWS:
      for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] != NULL && tn__pass_element_total(node->inputs[i]) > reads)
          reads = tn__pass_element_total(node->inputs[i]);
      break;
    default: return 64; /* sorts, scans */
  }
  int64_t window = 1;
  const tn__attr *attr = tn__node_attr(node, "window");
  for (int i = 0; attr != NULL && attr->kind == TN__ATTR_INTS && i < attr->count; i++) window *= attr->ints[i];
  return attr != NULL && window < reads ? window : reads;
}

static bool small_enough(const tn__node *node) {
  int64_t outputs = 0, inputs = 0;
  for (int i = 0; i < node->output_count; i++) {
    int64_t total = tn__pass_element_total(node->outputs[i]);
    if (total < 0 || total > MAX_OUTPUT_ELEMENTS) return false;
    outputs += total;
  }
  if (outputs > MAX_OUTPUT_ELEMENTS) return false;
  for (int i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NULL) continue;
    int64_t total = tn__pass_element_total(node->inputs[i]);
    inputs = total < 0 || inputs > INT64_MAX - total ? INT64_MAX : inputs + total;
    if (!node->inputs[i]->splat && total > MAX_OPERATIONS) return false; /* the evaluator may copy its operands */
  }
  bool once = tn__op_has(node, TN__FACT_REDUCES) || node->op->op_class == TN__CLASS_ROWS;
  if (once) return inputs <= MAX_OPERATIONS; /* or a few times each */
  return outputs == 0 || reads_per_element(node) <= MAX_OPERATIONS / outputs;
}

/* A broadcast of many elements from few is better left to its readers. */
static bool grows(const tn__node *node) {
  return tn__op_has(node, TN__FACT_REPEATS) &&
         tn__pass_element_total(node->outputs[0]) != tn__pass_element_total(node->inputs[0]);
}

static bool all_equal(const char *data, int64_t count, size_t size) {
  for (int64_t i = 1; i < count; i++)
    if (memcmp(data, data + (size_t)i * size, size) != 0) return false;
  return count > 0;
}

static bool evaluate_node(folder *f, tn__node *node) {
  if (node->op->lowering != TN__LOWER_DECLARE || f->options->evaluator.evaluate == NULL) return false;
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NULL && !tn__pass_is_constant(node->inputs[i])) return false;
  if (!constant_attrs(node) || !small_enough(node) || grows(node)) return false;
  void **out = TN__NEW_ARRAY(f->arena, node->output_count, void *);
  for (int i = 0; i < node->output_count; i++)
    out[i] = tn__arena_alloc_array(f->arena, (size_t)tn__pass_element_total(node->outputs[i]) + 1,
                                   tn__dtype_stored(node->outputs[i]->dtype));
  if (!f->options->evaluator.evaluate(f->options->evaluator.user, f->graph, node, out)) return false;
  for (int i = 0; i < node->output_count; i++) {
    tn__value *old = node->outputs[i];
    bool splat = all_equal(out[i], tn__pass_element_total(old), tn__dtype_stored(old->dtype));
    tn__pass_put_in_place(&f->rewriter, old, tn__g_constant_like(f->graph, old, out[i], splat));
  }
  return true;
}

/* A small dense constant whose elements are all equal is a splat. */
static void recognise_splats(folder *f, tn__node *node) {
  for (int i = 0; i < node->input_count; i++) {
    tn__value *value = node->inputs[i];
    if (value == NULL || !tn__pass_is_constant(value) || value->splat ||
        tn__pass_element_total(value) > MAX_SPLAT_SEARCH)
      continue;
    if (!all_equal(value->data, tn__pass_element_total(value), tn__dtype_stored(value->dtype))) continue;
    tn__graph_replace_uses(f->graph, value, tn__g_constant_like(f->graph, value, value->data, true));
  }
}

static void fold_node(void *user, tn__node *node) {
  folder *f = user;
  recognise_splats(f, node);
  for (int i = 0; i < node->output_count; i++) {
    tn__value *constant = from_known_elements(f, node->outputs[i]);
    if (constant != NULL) tn__pass_put_in_place(&f->rewriter, node->outputs[i], constant);
  }
  if (node->dead || node->op->lowering != TN__LOWER_DECLARE || tn__op_has(node, TN__FACT_WHOLE)) return;
  tn__value *splat = from_splats(f, node);
  if (splat != NULL)
    tn__pass_put_in_place(&f->rewriter, node->outputs[0], splat);
  else
    evaluate_node(f, node);
}

void tn__pass_fold(tn__graph *graph, const tn__optimize_options *options) {
  folder f = {.graph = graph, .arena = tn__graph_arena(graph), .options = options};
  tn__rewriter_init(&f.rewriter, graph, options);
  tn__pass_visit(graph, fold_node, &f);
  tn__graph_sweep(graph);
}
