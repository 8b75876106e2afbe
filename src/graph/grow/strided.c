/* Inputs whose memory may lie with any strides. A graph for those has the memory itself as an input, of one dimension
 * and as many elements as lie between the first and the last, and reads the tensor out of it by strides that are
 * numbers of the run. That reading is a map like others: it becomes part of the maps and rows that need the tensor, and
 * a kernel of its own, the copy that is left, in front of products and whatever else wants its operands in order. */
#include <string.h>

#include "graph/build/build.h"
#include "graph/grow/grow.h"
#include "graph/internal.h"

static bool gives_sizes(const tn__graph *graph, const tn__value *input) {
  for (int i = 0; i < graph->symbols.count; i++)
    if (graph->symbols.data[i]->value == input && graph->symbols.data[i]->source == TN__SYMBOL_ELEMENT) return true;
  return false;
}

bool tn__graph_read_strided(tn__graph *graph, tn__value *input) {
  if (gives_sizes(graph, input)) return false;
  const tn__expr *unknown = NULL, *count = tn__ir_index(graph->ir, input->rank + 1);
  const char *memory_name = tn__arena_printf(graph->arena, "%s@memory", input->name);
  const char *strides_name = tn__arena_printf(graph->arena, "%s@strides", input->name);
  tn__value *memory = tn__graph_input(graph, memory_name, input->dtype, 1, &unknown);
  tn__graph_input_symbol(graph, tn__arena_printf(graph->arena, "%s@span", input->name), memory, 0);
  tn__value *strides = tn__graph_input(graph, strides_name, TN_I64, 1, &count);
  int known;
  const tn__expr *const *numbers = tn__graph_elements(graph, strides, &known);
  tn__value *tensor = tn__g_strided(graph, memory, input->rank, input->dims, numbers, numbers[input->rank]);
  tn__graph_replace_uses(graph, input, tensor);
  tn__graph_move_symbols(graph, tensor, input);
  tn__graph_sweep(graph);
  return true;
}
