/* Annotations of values by the names that a model has for them (docs/devices.md): each becomes an operator on_device
 * behind the value, and planning does the rest. */
#ifndef TENON_GRAPH_PLACE_ANNOTATE_H
#define TENON_GRAPH_PLACE_ANNOTATE_H

#include "graph/graph.h"
#include "target/devices/config.h"

typedef struct tn__place_annotation {
  const char *name; /* of the value, as the model has it */
  const char *by;   /* the annotation of "NAME" */
  const tn__virtual_device *device;
  bool body, result;
  bool has_effect; /* something is made of the value, or read: set by tn__place_annotate */
} tn__place_annotation;

/* Throws when there is no such device. */
tn__place_annotation tn__place_annotation_read(tn__compile_config *config, const char *name, const char *device,
                                               bool body, bool result);
/* Adds the values of a graph and its bodies under their own names. */
void tn__place_name_values(tn__graph *graph, tn__named_values *out);
/* Puts the operators behind all values that have the names, in the graphs and their bodies. A name that no value has,
 * two annotations of one value that contradict, and lists or strings elsewhere than on the host are thrown. */
void tn__place_annotate(tn__compile_config *config, tn__place_annotation *annotations, int count,
                        const tn__named_values *named, tn__graph *const *graphs, int graph_count);

#endif
