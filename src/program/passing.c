/* Where functions take and give their values. Each is passed where it lives, so that what a loop changes in each round
 * stays on its device. Where the two sides of a call, or what a value is to its function and to whoever calls that, do
 * not agree, however the plan of devices came about, it is the host's, and copied on its way. */
#include <string.h>

#include "base/invariant.h"
#include "program/builder.h"
#include "target/devices/device.h"
#include "tenon/dlpack.h"

/* The scope is one that there is: the plan's devices are made of texts that were read. */
static tn__memory_scope scope_of(const tn__virtual_device *d) {
  int scope = d->memory_scope == NULL ? TN__MEMORY_GLOBAL : tn__memory_scope_find(d->memory_scope);
  TN__INVARIANT(scope >= 0);
  return (tn__memory_scope)scope;
}

static bool is_elsewhere(const tn__builder *b, const tn__value *v) {
  const tn__virtual_device *d = v->device, *host = b->driver->host;
  if (b->program->constants_apart) return false; /* those run here, once */
  if (d == NULL || host == NULL || v->holds != TN__HOLDS_TENSOR) return false;
  return d->device_type != host->device_type || d->device_id != host->device_id;
}

int tn__prog_home_of(tn__builder *b, const tn__value *v) {
  const tn__virtual_device *d = v->device;
  if (!is_elsewhere(b, v) || d->device_type == kDLCPU) return 0;
  return tn__exe_device_memory(b->exe, d->device_type, d->device_id, d->target, scope_of(d));
}

int tn__prog_maker_of(tn__builder *b, const tn__value *v) {
  const tn__virtual_device *d = v->device;
  return is_elsewhere(b, v) ? tn__exe_device(b->exe, d->device_type, d->device_id, d->target) : 0;
}

bool tn__prog_while_keeps(const tn__node *node, int k) {
  const tn__graph *body = node->graphs[1];
  return tn__graph_output_at(body, k) == tn__graph_input_at(body, k);
}

typedef struct agreement { /* of values that are to be in one place */
  int device, count;
  bool differ;
} agreement;

/* Elements that sizes are made of are read by the host. */
static bool is_read_by_host(const tn__graph *graph, const tn__value *v) {
  for (int i = 0; i < tn__graph_symbol_count(graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(graph, i);
    if (symbol->source == TN__SYMBOL_ELEMENT && symbol->value == v) return true;
  }
  return false;
}

static void agree(tn__builder *b, agreement *a, const tn__graph *graph, const tn__value *v) {
  int device = is_read_by_host(graph, v) ? 0 : tn__prog_home_of(b, v);
  if (a->count++ > 0 && a->device != device) a->differ = true;
  a->device = device;
}

static int agreed(const agreement *a) { return a->differ ? 0 : a->device; }

static bool is_loop(const tn__node *node) { return tn__op_has(node, TN__FACT_LOOPS); }

int tn__prog_variable_device(tn__builder *b, const tn__node *loop, int k) {
  agreement a = {0};
  for (int i = 0; i < 2; i++) agree(b, &a, loop->graphs[i], tn__graph_input_at(loop->graphs[i], k));
  if (!tn__prog_while_keeps(loop, k)) agree(b, &a, loop->graphs[1], tn__graph_output_at(loop->graphs[1], k));
  return agreed(&a);
}

int tn__prog_result_device(tn__builder *b, const tn__node *node, int k) {
  agreement a = {0};
  for (int i = 0; i < node->graph_count; i++) agree(b, &a, node->graphs[i], tn__graph_output_at(node->graphs[i], k));
  return agreed(&a);
}

/* The variable that result `k` of a round is: those that are kept, and lists, are none. */
static int variable_of(const tn__node *loop, int k) {
  int variable = 0;
  for (;; variable++) {
    bool list = tn__graph_output_at(loop->graphs[1], variable)->holds != TN__HOLDS_TENSOR;
    if (!list && !tn__prog_while_keeps(loop, variable) && k-- == 0) return variable;
  }
}

int tn__prog_argument_device(tn__builder *b, const tn__node *node, int body, int k) {
  agreement a = {0};
  if (is_loop(node)) return tn__prog_variable_device(b, node, k);
  agree(b, &a, node->graphs[body], tn__graph_input_at(node->graphs[body], k));
  return agreed(&a);
}

static int device_of_body(tn__builder *b, bool output, int k) {
  const tn__node *caller = b->function->caller;
  int body = b->function->body;
  if (!output) return tn__prog_argument_device(b, caller, body, k);
  if (!is_loop(caller)) return tn__prog_result_device(b, caller, k);
  return body == 0 ? 0 : tn__prog_variable_device(b, caller, variable_of(caller, k)); /* the host asks what goes on */
}

static bool takes_strided(const tn__builder *b, const tn__program_function *f) {
  for (int i = 0; i < b->program->function_count; i++) {
    const tn__program_function *other = &b->program->functions[i];
    if (other->may_be_strided != NULL && (other == f || &b->program->functions[other->strided] == f)) return true;
  }
  return false;
}

/* What an entry takes and gives by itself. An output that may take an input's memory is where that is. */
static void agree_on_value(tn__builder *b, agreement *a, const tn__program_function *f, bool output, int k) {
  agree(b, a, f->graph, output ? f->outputs[k] : f->inputs[k]);
  for (int i = 0; f->aliases != NULL && i < f->output_count; i++) {
    if (f->aliases[i] < 0 || (output ? i : f->aliases[i]) != k) continue;
    agree(b, a, f->graph, output ? f->inputs[f->aliases[i]] : f->outputs[i]);
  }
  a->differ |= takes_strided(b, f); /* whose memory is another input's */
}

static bool is_case(const tn__dispatch *d, const char *name) {
  bool found = strcmp(d->otherwise, name) == 0;
  for (int i = 0; i < d->case_count && !found; i++) found = strcmp(d->cases[i].function, name) == 0;
  return found;
}

bool tn__prog_is_chosen(const tn__program *p, const tn__program_function *f) {
  for (int i = 0; i < p->function_count; i++)
    if (p->functions[i].dispatch != NULL && is_case(p->functions[i].dispatch, f->name)) return true;
  return false;
}

/* The function that chooses this one by sizes, or is it; NULL: none. */
static const tn__program_function *chooser_of(const tn__builder *b, const tn__program_function *f) {
  if (f->dispatch != NULL) return f;
  for (int i = 0; i < b->program->function_count; i++) {
    const tn__program_function *other = &b->program->functions[i];
    if (other->dispatch != NULL && is_case(other->dispatch, f->name)) return other;
  }
  return NULL;
}

/* All functions that one of sizes chooses from are alike. */
static int device_of_entry(tn__builder *b, const tn__program_function *f, bool output, int k) {
  const tn__program_function *chooser = chooser_of(b, f);
  agreement a = {0};
  if (chooser == NULL) agree_on_value(b, &a, f, output, k);
  for (int i = 0; chooser != NULL && i < b->program->function_count; i++)
    if (is_case(chooser->dispatch, b->program->functions[i].name))
      agree_on_value(b, &a, &b->program->functions[i], output, k);
  return agreed(&a);
}

int tn__prog_given_device(tn__builder *b, bool output, int k) {
  return b->function->caller != NULL ? device_of_body(b, output, k) : device_of_entry(b, b->function, output, k);
}
