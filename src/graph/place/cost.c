/* What an operator would take on a device, in round numbers (docs/devices.md, "By predicted time").
 *
 * Roofline of the unfused operator: the larger of its arithmetic and its memory, behind the start of a kernel. Kernels'
 * own cost function needs a schedule, which takes milliseconds for each; here all operators are weighed for all
 * devices, and only what differs between devices counts. Fusion saves the same trips to memory on each of them. */
#include <math.h>

#include "base/dtype.h"
#include "graph/internal.h"
#include "graph/place/cost.h"

/* What an open dimension is taken to be. */
#define USUAL_SIZE 64
/* Arithmetic of an element, by the class: a mixture of additions and exponentials. */
#define MAP_OPERATIONS 4
#define ROW_OPERATIONS 12
/* Steps of a thread for an element of what is done one after the other: sorting, scattering, recurrences. */
#define SERIAL_STEPS 8
/* Of the peak that products reach. */
#define REACHED 0.5

double tn__place_elements(const tn__value *value) {
  double count = 1;
  for (int i = 0; i < value->rank; i++) {
    int64_t size = tn__g_dim_const(value, i);
    count *= size >= 0 ? (double)size : USUAL_SIZE;
  }
  return count;
}

double tn__place_bytes(const tn__value *value) {
  if (value->holds != TN__HOLDS_TENSOR || value->dtype == TN_STRING) return 0;
  double bytes = (double)tn_dtype_size(value->dtype);
  return value->data != NULL && value->splat ? bytes : bytes * tn__place_elements(value);
}

/* Products that are summed to an element of the result. */
static double terms_of(const tn__node *node) {
  const tn__value *a = node->inputs[0], *b = node->input_count > 1 ? node->inputs[1] : NULL;
  tn__contraction c = {.column = -1, .rhs_column = -1};
  double batch = 1;
  if (b == NULL) return 1;
  if (node->op->contraction != NULL) node->op->contraction(node, &c);
  for (int i = 0; i < c.batch_count; i++) {
    int64_t size = tn__g_dim_const(b, (int)c.batch[1][i]);
    batch *= size >= 0 ? (double)size : USUAL_SIZE;
  }
  if (c.rhs_column >= 0 && c.rhs_column < b->rank) {
    int64_t columns = tn__g_dim_const(b, c.rhs_column);
    double terms = tn__place_elements(b) / batch / (columns > 0 ? (double)columns : USUAL_SIZE);
    return terms > 1 ? terms : 1;
  }
  /* Of [m, k] and [k, n] to [m, n] the root is k. */
  double result = tn__place_elements(node->outputs[0]);
  return result > 0 ? sqrt(tn__place_elements(a) * tn__place_elements(b) / result / batch) : 1;
}

bool tn__place_is_known(const tn__node *node) {
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NULL && node->inputs[i]->data == NULL) return false;
  return true;
}

tn__place_work tn__place_work_of(const tn__node *node) {
  tn__place_work work = {0};
  double in = 0, out = 0;
  bool runs = node->output_count > 0 && node->op->lowering == TN__LOWER_DECLARE && !tn__node_is_view(node) &&
              !tn__op_has(node, TN__FACT_COPIES) && !tn__op_has(node, TN__FACT_SAYS_PLACE);
  if (!runs || tn__place_is_known(node)) return work;
  for (int i = 0; i < node->output_count; i++)
    work.bytes += tn__place_bytes(node->outputs[i]), out += tn__place_elements(node->outputs[i]);
  for (int i = 0; i < node->input_count; i++) {
    const tn__value *input = node->inputs[i];
    if (input == NULL) continue;
    double bytes = tn__place_bytes(input), read = out * (double)tn_dtype_size(input->dtype);
    in += tn__place_elements(input);
    work.bytes += node->op->op_class == TN__CLASS_INJECTIVE && read < bytes ? read : bytes; /* rows of a table */
  }
  work.kernel = true;
  switch (node->op->op_class) {
    case TN__CLASS_CONTRACTION: work.operations = 2 * out * terms_of(node) / REACHED; break;
    case TN__CLASS_ROWS: work.operations = ROW_OPERATIONS * out; break;
    case TN__CLASS_REDUCTION: work.operations = in > out ? in : out; break;
    case TN__CLASS_OPAQUE: work.steps = SERIAL_STEPS * (in > out ? in : out); break;
    default: work.operations = MAP_OPERATIONS * out;
  }
  return work;
}

double tn__place_seconds(const tn__device_rates *rates, const tn__place_work *work) {
  double arithmetic = work->operations / rates->operations, memory = work->bytes / rates->memory;
  if (!work->kernel) return 0;
  return rates->launch + work->steps / rates->serial + (arithmetic > memory ? arithmetic : memory);
}

double tn__place_rounds(const tn__node *node, int body) {
  enum { ROUNDS = 10 };
  if (tn__op_has(node, TN__FACT_LOOPS)) return ROUNDS + (body == 0); /* the test once more */
  return node->graph_count == 2 ? 0.5 : 1;
}

/* ---- of a plan --------------------------------------------------------------------------------------------------- */

typedef struct prediction {
  tn__compile_config *config;
  tn__device_rates rates[TN__MOST_TARGETS + 1]; /* by rank */
  tn__place_sums sums;
} prediction;

static int rank_of(const tn__compile_config *config, const tn__value *value) {
  return tn__compile_config_rank(config, value->device);
}

static void add_copy(prediction *p, const tn__virtual_device *from, const tn__virtual_device *to, double bytes,
                     double times) {
  p->sums.copies += times * tn__device_copy_seconds(p->config, from, to, bytes);
  if (from != to) p->sums.bytes += times * bytes;
}

static void add_graph(prediction *p, const tn__graph *graph, double times) {
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    if (tn__op_has(n, TN__FACT_COPIES))
      add_copy(p, n->inputs[0]->device, n->outputs[0]->device, tn__place_bytes(n->inputs[0]), times);
    for (int b = 0; n->op->lowering == TN__LOWER_CONTROL && b < n->graph_count; b++)
      add_graph(p, n->graphs[b], times * tn__place_rounds(n, b));
    tn__place_work work = tn__place_work_of(n);
    if (!work.kernel) continue;
    p->sums.operators += times * tn__place_seconds(&p->rates[rank_of(p->config, n->outputs[0])], &work);
  }
}

bool tn__place_is_output_before(const tn__graph *graph, int index) {
  const tn__value *value = tn__graph_output_at(graph, index);
  for (int i = 0; i < value->results.count; i++)
    if (value->results.data[i] < index && tn__graph_output_at(graph, value->results.data[i]) == value) return true;
  return false;
}

tn__place_sums tn__place_predict(tn__compile_config *config, const tn__graph *graph) {
  prediction p = {.config = config};
  for (int i = 0; i <= config->devices.count; i++)
    p.rates[i] = tn__device_rates_of((i < config->devices.count ? config->devices.data[i] : config->host)->target);
  add_graph(&p, graph, 1);
  for (int i = 0; i < tn__graph_input_count(graph); i++) {
    const tn__value *input = tn__graph_input_at(graph, i);
    if (input->readers.count + input->results.count > 0)
      add_copy(&p, config->host, input->device, tn__place_bytes(input), 1);
  }
  for (int i = 0; i < tn__graph_output_count(graph); i++) {
    const tn__value *output = tn__graph_output_at(graph, i);
    if (!tn__place_is_output_before(graph, i)) add_copy(&p, output->device, config->host, tn__place_bytes(output), 1);
  }
  return p.sums;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct life {
  int last;   /* node that reads it last; the count of nodes: it is an output */
  bool begun; /* its bytes are counted */
} life;

typedef struct measurement {
  tn__compile_config *config;
  tn__place_memory *out;
} measurement;

static void measure_graph(const measurement *m, const tn__graph *graph, const double *around, bool outermost);

static void begin(const measurement *m, const tn__value *value, life *lives, double *alive, bool outermost) {
  /* Tensors of callers on the host are not counted; inputs of a body are counted as operands of its operator. */
  bool others = value->producer == NULL && value->data == NULL && (!outermost || value->device == m->config->host);
  if (lives[value->id].begun || others) return;
  lives[value->id].begun = true;
  if (value->data != NULL)
    m->out->constants[rank_of(m->config, value)] += tn__place_bytes(value);
  else
    alive[rank_of(m->config, value)] += tn__place_bytes(value);
}

static void note_most(const measurement *m, const double *alive) {
  for (int i = 0; i <= m->config->devices.count; i++)
    if (alive[i] > m->out->values[i]) m->out->values[i] = alive[i];
}

static void measure_node(const measurement *m, const tn__node *n, int at, life *lives, double *alive, bool outermost) {
  for (int k = 0; k < n->input_count; k++)
    if (n->inputs[k] != NULL) begin(m, n->inputs[k], lives, alive, outermost);
  for (int k = 0; k < n->output_count; k++) begin(m, n->outputs[k], lives, alive, outermost);
  for (int b = 0; n->op->lowering == TN__LOWER_CONTROL && b < n->graph_count; b++)
    measure_graph(m, n->graphs[b], alive, false);
  note_most(m, alive);
  for (int end = 0; end < 2; end++)
    for (int k = 0; k < (end == 0 ? n->input_count : n->output_count); k++) {
      const tn__value *v = end == 0 ? n->inputs[k] : n->outputs[k];
      if (v == NULL || v->data != NULL || lives[v->id].last > at || !lives[v->id].begun) continue;
      lives[v->id].begun = false; /* read twice by one node it ends once */
      alive[rank_of(m->config, v)] -= tn__place_bytes(v);
    }
}

static void measure_graph(const measurement *m, const tn__graph *graph, const double *around, bool outermost) {
  life *lives = TN__NEW_ARRAY(tn__graph_arena(graph), graph->values.count, life);
  double alive[TN__MOST_TARGETS + 1];
  for (int i = 0; i <= TN__MOST_TARGETS; i++) alive[i] = around[i];
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    for (int k = 0; k < n->input_count; k++)
      if (n->inputs[k] != NULL) lives[n->inputs[k]->id].last = i;
  }
  for (int i = 0; i < tn__graph_output_count(graph); i++)
    lives[tn__graph_output_at(graph, i)->id].last = tn__graph_node_count(graph);
  for (int i = 0; i < tn__graph_node_count(graph); i++)
    measure_node(m, tn__graph_node_at(graph, i), i, lives, alive, outermost);
}

void tn__place_measure(tn__compile_config *config, const tn__graph *graph, tn__place_memory *out) {
  const double nothing[TN__MOST_TARGETS + 1] = {0};
  measurement m = {config, out};
  *out = (tn__place_memory){0};
  measure_graph(&m, graph, nothing, true);
}
