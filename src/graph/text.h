/* The text form of graphs that loses nothing (docs/graph.md): what is written reads back as an equal graph, which
 * writes the same text. */
#ifndef TENON_GRAPH_TEXT_H
#define TENON_GRAPH_TEXT_H

#include "graph/graph.h"

/* A constant of more elements is written as bytes, and left out by tn__graph_print. */
enum { TN__MOST_LISTED = 32 };

void tn__graph_write(const tn__graph *graph, tn__strbuf *out);

typedef struct tn__graph_read_options {
  const tn__dim_binding *dims; /* of inputs, which become constants */
  int dim_count;
  bool *dims_used; /* by dimension, set to true when the graph has it; NULL: one that it lacks is an error */
} tn__graph_read_options;

/* `name` begins messages: "model.tng:3:5: ...", then the line and a caret below its place. Everything is made in the
 * context's arena; nothing of the text is kept. Nodes are made as by anybody else, so their types are those that are
 * inferred; what is written must agree. `options` may be NULL. */
TN_MUST_USE tn_status *tn__graph_read(tn__ir *ir, const char *name, const char *text, size_t length,
                                      const tn__graph_read_options *options, tn__graph **out);
/* Bytes of the text's structure: without long strings, of which a thousandth counts. */
uint64_t tn__graph_text_structure(const char *text, size_t length);

#endif
