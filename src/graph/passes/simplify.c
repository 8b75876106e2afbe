/* Algebraic simplification: the rules stand in tables, one file for each family. */
#include "graph/passes/rewrite.h"

void tn__pass_simplify(tn__graph *graph, const tn__optimize_options *options) {
  const tn__rule_set sets[] = {tn__rules_shape, tn__rules_arithmetic, tn__rules_product};
  tn__rewriter rewriter;
  tn__rewriter_init(&rewriter, graph, options);
  tn__pass_rewrite(&rewriter, sets, sizeof sets / sizeof *sets);
}
