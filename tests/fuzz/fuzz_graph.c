/* The reader of graphs as text: any bytes give a graph that verifies, or an error. What is read is written, and that
 * text is stable. Operators infer types from whatever attributes and operands the text gives them. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "graph/text.h"

/* The text of a graph that was read reads back as itself. */
static void check_text(tn__arena *arena, const tn__graph *graph) {
  tn__strbuf first, second;
  tn__graph *again;
  tn__strbuf_init(&first, NULL);
  tn__strbuf_init(&second, NULL);
  tn__graph_write(graph, &first);
  tn_status *status =
      tn__graph_read(tn__ir_create(arena), "written", tn__strbuf_text(&first), first.length, NULL, &again);
  if (status == NULL) tn__graph_write(again, &second);
  require(status == NULL && strcmp(tn__strbuf_text(&first), tn__strbuf_text(&second)) == 0);
  tn__strbuf_release(&first);
  tn__strbuf_release(&second);
}

static void run(tn__escape *escape, void *user) {
  fuzz_input *j = user;
  j->arena.escape = escape;
  j->arena.work = TN__NEW(&j->arena, tn__work); /* lives until the arena goes */
  *j->arena.work = (tn__work){.most = 1 << 26, .of = "a graph"};
  tn__graph *graph;
  tn__check(escape, tn__graph_read(tn__ir_create(&j->arena), "fuzz", (const char *)j->data, j->size, NULL, &graph));
  check_text(&j->arena, graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_reader(data, size, run);
  return 0;
}
