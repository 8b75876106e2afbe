/* Plans of graphs that are written down: for tests of planning. */
#ifndef TENON_TESTS_PLACE_CHECK_H
#define TENON_TESTS_PLACE_CHECK_H

#include <string.h>

#include "graph/place/place.h"
#include "graph/text.h"
#include "unit/check.h"

enum { MOST_TEXTS = 8 };

typedef struct placed_case {
  const char *graph, *targets, *host;
  const char *place[MOST_TEXTS], *memory[MOST_TEXTS]; /* as the options have them */
  const char *want;                                   /* the explanation, or the error */
  tn_status_code code;                                /* of the error; 0: there is none */
  bool quiet;                                         /* the explanation without its brackets */
} placed_case;

static inline tn__graph *read_placed_graph(tn__arena *arena, const char *text) {
  tn__graph *graph;
  check_ok(tn__graph_read(tn__ir_create(arena), "test.tng", text, strlen(text), NULL, &graph));
  return graph;
}

static inline tn__place_options read_placed_options(tn__arena *arena, const placed_case *c, tn__place_rules *rules,
                                                    tn__place_budgets *budgets) {
  tn__compile_config *config = tn__compile_config_create(arena, c->targets, c->host);
  for (int i = 0; i < MOST_TEXTS && c->place[i] != NULL; i++) tn__place_rules_read(config, c->place[i], true, rules);
  for (int i = 0; i < MOST_TEXTS && c->memory[i] != NULL; i++) tn__place_budget_read(config, c->memory[i], budgets);
  return (tn__place_options){.config = config,
                             .rules = rules->list.data,
                             .rule_count = rules->list.count,
                             .tells = true,
                             .automatic = rules->automatic,
                             .budgets = budgets->any ? budgets : NULL};
}

static inline const char *without_brackets(tn__arena *arena, const char *text) {
  char *out = tn__arena_strdup(arena, text), *at = out;
  for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
    const char *end = line + strcspn(line, "\n"), *bracket = strstr(line, "  (");
    size_t length = (size_t)((bracket != NULL && bracket < end ? bracket : end) - line);
    memmove(at, line, length);
    at[length] = '\n';
    at += length + 1;
  }
  *at = '\0';
  return out;
}

static inline void run_placed_case(tn__arena *arena, void *user) {
  const placed_case *c = user;
  tn__place_rules rules = {0};
  tn__place_budgets budgets = {0};
  tn__graph *graph = read_placed_graph(arena, c->graph);
  tn__place_options options = read_placed_options(arena, c, &rules, &budgets);
  tn__strbuf text, once, again;
  tn__graph_place(graph, &options);
  check_ok(tn__graph_verify(graph));
  tn__strbuf_init(&text, arena->allocator);
  tn__place_explain(graph, &options, 0, &text);
  const char *told = tn__arena_take(arena, &text);
  if (c->want != NULL) assert_string_equal(c->quiet ? without_brackets(arena, told) : told, c->want);
  /* Another planning changes nothing. */
  tn__strbuf_init(&once, arena->allocator), tn__strbuf_init(&again, arena->allocator);
  tn__graph_write(graph, &once);
  tn__graph_place(graph, &options);
  tn__graph_write(graph, &again);
  assert_string_equal(tn__arena_take(arena, &again), tn__arena_take(arena, &once));
}

static inline void check_placed_case(const placed_case *c) {
  placed_case copy = *c;
  tn_status *status = tn__with_arena(NULL, run_placed_case, &copy);
  if (c->code == TN_OK)
    check_ok(status);
  else
    check_fails(status, c->code, c->want);
}

#endif
