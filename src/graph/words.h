/* Sizes and types in words: the part of the text form that messages need, too. */
#ifndef TENON_GRAPH_WORDS_H
#define TENON_GRAPH_WORDS_H

#include "graph/graph.h"
#include "ir/print.h"

/* `exprs` has names for symbols; NULL: they have their own, and expressions are cut off. */
void tn__g_print_expr(const tn__expr *e, tn__printer *exprs, tn__strbuf *out);
void tn__value_print_type(const tn__value *value, tn__printer *exprs, tn__strbuf *out);
/* Of a check's text: the size that stands at `*at`, which moves behind it; NULL when none does. */
const tn__expr *tn__g_size_at(const tn__graph *graph, const char **at);

#endif
