/* usage: graph_text MODEL...
 *
 * Imports each ONNX model, writes the graph as text, reads the text and writes what was read: the two texts must be
 * equal. Does the same with the optimised graph. Prints a line for each model: "ok", or what is wrong. */
#include <stdio.h>
#include <string.h>

#include "driver/driver.h"
#include "graph/text.h"

typedef struct job {
  const char *path;
  bool differs;
} job;

/* The first line in which the texts differ. */
static void print_difference(const char *a, const char *b) {
  const char *line_a = a, *line_b = b;
  for (; *a != '\0' && *a == *b; a++, b++)
    if (*a == '\n') line_a = a + 1, line_b = b + 1;
  printf("- %.*s\n+ %.*s\n", (int)strcspn(line_a, "\n"), line_a, (int)strcspn(line_b, "\n"), line_b);
}

static void check_text(job *j, const char *when, const tn__graph *graph) {
  tn__arena *arena = tn__graph_arena(graph);
  tn__strbuf first, second;
  tn__graph *again;
  tn__strbuf_init(&first, NULL);
  tn__strbuf_init(&second, NULL);
  tn__graph_write(graph, &first);
  tn_status *status = tn__graph_read(tn__ir_create(arena), when, tn__strbuf_text(&first), first.length, NULL, &again);
  if (status == NULL) tn__graph_write(again, &second);
  if (status != NULL)
    printf("%s: %s\n", j->path, tn_status_message(status));
  else if (strcmp(tn__strbuf_text(&first), tn__strbuf_text(&second)) != 0) {
    printf("%s: the text of the %s graph is not what is read\n", j->path, when);
    print_difference(tn__strbuf_text(&first), tn__strbuf_text(&second));
    status = tn_status_create(TN_INTERNAL, "differs");
  }
  j->differs |= status != NULL;
  tn_status_free(status);
  tn__strbuf_release(&first);
  tn__strbuf_release(&second);
}

static void run(tn__arena *arena, void *user) {
  job *j = user;
  tn__onnx_model *model = tn__onnx_open(arena, j->path, NULL, 0);
  check_text(j, "imported", tn__onnx_import(model, tn__ir_create(arena), NULL));
  tn_compile_options options;
  tn__check(arena->escape, tn__driver_read_options(NULL, &options));
  options.no_cache = true;
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__driver_init(&c->driver, arena, &options);
  tn__compilation_open(c, j->path, NULL, 0);
  tn__compilation_optimize(c);
  check_text(j, "optimised", c->graph);
}

int main(int argc, char **argv) {
  bool wrong = argc < 2;
  for (int i = 1; i < argc; i++) {
    job j = {.path = argv[i]};
    tn_status *status = tn__with_arena(NULL, run, &j);
    if (status != NULL)
      printf("%s: %s\n", argv[i], tn_status_message(status));
    else if (!j.differs)
      printf("%s: ok\n", argv[i]);
    wrong |= j.differs;
    tn_status_free(status);
    fflush(stdout);
  }
  return wrong;
}
