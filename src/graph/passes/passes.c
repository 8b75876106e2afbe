#include "graph/passes/passes.h"

#include <string.h>

#include "base/clock.h"

typedef struct pass {
  const char *name;
  void (*run)(tn__graph *graph, const tn__optimize_options *options);
  bool in_composites; /* also on the bodies that composites carry */
} pass;

/* The pipeline. A name that stands twice ("simplify") is the same pass run again on what the ones before it left. */
static const pass pipeline[] = {
    {"inline", tn__pass_inline},
    {"fold", tn__pass_fold},
    {"simplify", tn__pass_simplify, .in_composites = true},
    {"fold", tn__pass_fold},
    {"cse", tn__pass_cse},
    {"dce", tn__pass_dce},
    {"raise", tn__pass_raise},
    {"quantized", tn__pass_quantized},
    {"pointwise", tn__pass_pointwise},
    {"layout", tn__pass_layout},
    {"simplify", tn__pass_simplify, .in_composites = true},
    {"phases", tn__pass_phases},
    {"rows", tn__pass_rows},
    {"simplify", tn__pass_simplify, .in_composites = true},
    {"winograd", tn__pass_winograd},
    {"quads", tn__pass_quads}, /* behind all that moves channels, and before constants are packed */
    {"fold", tn__pass_fold},
    {"pack", tn__pass_pack},
    {"simplify", tn__pass_simplify, .in_composites = true},
    {"cse", tn__pass_cse},
    {"dce", tn__pass_dce},
    {"attention", tn__pass_attention},
};

enum { PASS_COUNT = sizeof pipeline / sizeof *pipeline };

const char *tn__graph_pass_name(int index) { return index >= 0 && index < PASS_COUNT ? pipeline[index].name : NULL; }

/* On the graph and on the bodies of its control operators, and those of its composites when the pass is for them. */
static void run_everywhere(const pass *p, tn__graph *graph, const tn__optimize_options *options) {
  tn__work_step(tn__graph_arena(graph), (uint64_t)tn__graph_node_count(graph));
  p->run(graph, options);
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    bool runs = node->op->lowering == TN__LOWER_CONTROL || (p->in_composites && tn__composite_body(node) != NULL);
    for (int j = 0; runs && j < node->graph_count; j++) run_everywhere(p, node->graphs[j], options);
  }
}

static void check(tn__graph *graph, const char *pass_name) {
#ifndef NDEBUG
  tn_status *status = tn__graph_verify(graph);
  if (status != NULL) tn__throw(tn__graph_arena(graph)->escape, tn_status_prefix(status, "after pass %s", pass_name));
#else
  (void)graph, (void)pass_name;
#endif
}

void tn__graph_optimize(tn__graph *graph, const tn__optimize_options *options) {
  for (int i = 0; i < PASS_COUNT && (!options->limited || i < options->most); i++) {
    double start = tn__now();
    run_everywhere(&pipeline[i], graph, options);
    double seconds = tn__now() - start;
    check(graph, pipeline[i].name);
    if (options->after != NULL) options->after(options->after_user, pipeline[i].name, graph, seconds);
  }
  static const pass last = {"dce", tn__pass_dce};
  if (options->limited) run_everywhere(&last, graph, options);
}

bool tn__graph_run_pass(tn__graph *graph, const char *name, const tn__optimize_options *options) {
  for (int i = 0; i < PASS_COUNT; i++) {
    if (strcmp(pipeline[i].name, name) != 0) continue;
    run_everywhere(&pipeline[i], graph, options);
    tn__check(tn__graph_arena(graph)->escape, tn__graph_verify(graph));
    return true;
  }
  return false;
}
