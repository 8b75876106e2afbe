/* What operators would take on devices: the model of `--place auto` and of what `--explain-devices` tells. */
#ifndef TENON_GRAPH_PLACE_COST_H
#define TENON_GRAPH_PLACE_COST_H

#include "graph/graph.h"
#include "target/devices/rates.h"

typedef struct tn__place_work {
  double operations; /* of all elements together, in f32 */
  double steps;      /* of one thread, one after the other */
  double bytes;      /* read and written */
  bool kernel;       /* a kernel is started for it: not for views, and not for what the machine does itself */
} tn__place_work;

/* Open dimensions count as 64. */
double tn__place_elements(const tn__value *value);
double tn__place_bytes(const tn__value *value); /* of its tensor; lists and strings have none */
tn__place_work tn__place_work_of(const tn__node *node);
bool tn__place_is_known(const tn__node *node); /* it reads constants alone, and is computed before */
double tn__place_seconds(const tn__device_rates *rates, const tn__place_work *work);

/* How often a body runs for each time that its operator does: rounds of a loop 10 times, either side of a branch every
 * second time. */
double tn__place_rounds(const tn__node *node, int body);

/* What a graph whose values have devices takes: one thing after the other. */
typedef struct tn__place_sums {
  double operators, copies; /* seconds */
  double bytes;             /* that are copied, between operators and from and to callers, who are with the host */
} tn__place_sums;
tn__place_sums tn__place_predict(tn__compile_config *config, const tn__graph *graph);

/* Is the value an output of a smaller number, too? It is copied to callers once. */
bool tn__place_is_output_before(const tn__graph *graph, int index);

/* Bytes of values and constants of a graph on each device, by rank. Values: the peak of live bytes; a body
 * contributes its own peak. Tensors of callers on the host are not counted. Operands of a body are counted at its
 * operator. */
typedef struct tn__place_memory {
  double constants[TN__MOST_TARGETS + 1], values[TN__MOST_TARGETS + 1];
} tn__place_memory;
void tn__place_measure(tn__compile_config *config, const tn__graph *graph, tn__place_memory *out);

#endif
