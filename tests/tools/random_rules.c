/* random_rules: generates graphs that match the rules and passes of src/graph/passes, optimises each, and compares its
 * outputs with those of the original graph. The loop IR's interpreter computes both.
 *
 *   random_rules [--seed S] [--count N] [--least L] [--show]
 *
 * Every rule must have been applied at least L times, and every pass must have changed as many graphs. A graph whose
 * outputs differ is printed, with the first pass after which they do. --show prints how often each rule and pass was
 * applied. Exit status: 0; 1 for a wrong graph or a rule that was applied too rarely; 2 for misuse. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build/build.h"
#include "graph/passes/rewrite.h"
#include "tools/graph_opt.h"
#include "tools/random_rules.h"

enum { MOST_NAMES = 160 };

typedef struct seen {
  const char *name;
  int count;
} seen;

typedef struct campaign {
  uint64_t seed;
  int count, least, seen_count, wrong, refused;
  bool show;
  seen seen[MOST_NAMES];
  char *text; /* the graph after the last pass */
} campaign;

typedef struct attempt {
  campaign *c;
  tn__arena arena;
  uint64_t seed;
  int stop;             /* number of passes to run; -1: all */
  double *out, *before; /* outputs, allocated with malloc */
  int64_t out_count, before_count;
  char *drawn; /* text of the original graph */
} attempt;

static void note(campaign *c, const char *name) {
  int i = 0;
  while (i < c->seen_count && strcmp(c->seen[i].name, name) != 0) i++;
  if (i == c->seen_count && i < MOST_NAMES) c->seen[c->seen_count++] = (seen){name, 0};
  if (i < MOST_NAMES) c->seen[i].count++;
}

static char *text_of(const tn__graph *graph) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__graph_print(graph, &text);
  char *copy = strdup(tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return copy;
}

static void fired(void *user, const char *rule) { note(user, rule); }

static void after(void *user, const char *pass, const tn__graph *graph, double seconds) {
  campaign *c = user;
  char *text = text_of(graph);
  (void)seconds;
  if (strcmp(text, c->text) != 0) note(c, pass);
  free(c->text);
  c->text = text;
}

static double *outputs_of(tn__graph *graph, int64_t *count) {
  static const graph_opt none;
  const double *all = graph_run_all(graph, &none, count);
  double *copy = malloc(((size_t)*count + 1) * sizeof *copy);
  if (copy != NULL && *count > 0) memcpy(copy, all, (size_t)*count * sizeof *copy);
  return copy;
}

static void run(tn__escape *escape, void *user) {
  attempt *a = user;
  a->arena.escape = escape;
  tn__graph *graph = tn__graph_create(tn__ir_create(&a->arena), "random");
  draw_graph(graph, a->seed);
  tn__check(escape, tn__graph_verify(graph));
  if (a->before == NULL) {
    a->drawn = text_of(graph);
    a->before = outputs_of(graph, &a->before_count);
  }
  graph_opt kept = {.winograd = a->seed % 2 == 0 ? 2 : 4};
  tn__optimize_options options = {.evaluator = {graph_opt_evaluate, NULL},
                                  .operand_layout = graph_opt_layout,
                                  .winograd_tile = graph_opt_tile,
                                  .winograd_user = &kept};
  if (a->stop < 0) {
    options.after = after, options.after_user = a->c;
    options.fired = fired, options.fired_user = a->c;
    free(a->c->text);
    a->c->text = text_of(graph);
    if (a->seed % 4 == 0) { /* nothing is dead after the other passes */
      bool known = tn__graph_run_pass(graph, "dce", &options);
      if (!known) tn__throwf(escape, TN_INTERNAL, "there is no pass dce");
      after(a->c, "dce", graph, 0);
    }
    tn__graph_optimize(graph, &options);
  }
  for (int i = 0; i < a->stop; i++) {
    bool known = tn__graph_run_pass(graph, tn__graph_pass_name(i), &options);
    if (!known) tn__throwf(escape, TN_INTERNAL, "there is no pass %d", i);
  }
  tn__check(escape, tn__graph_verify(graph));
  a->out = outputs_of(graph, &a->out_count);
}

/* The tolerance follows the largest output, because cancelling sums keep the rounding errors of their terms. */
static bool agrees(const attempt *a, int64_t *at) {
  double most = 1;
  if (a->out_count != a->before_count) return *at = -1, false;
  for (int64_t i = 0; i < a->before_count; i++)
    if (isfinite(a->before[i])) most = fmax(most, fabs(a->before[i]));
  for (*at = 0; *at < a->before_count; ++*at) {
    double want = a->before[*at], got = a->out[*at];
    if (got != want && !(isnan(got) && isnan(want)) && !(fabs(got - want) <= 2e-5 * most)) return false;
  }
  return true;
}

static tn_status *run_once(attempt *a, int stop) {
  tn__escape escape;
  a->stop = stop;
  free(a->out);
  a->out = NULL;
  tn__arena_init(&a->arena, NULL, &escape);
  tn_status *status = tn__protect(&escape, run, a);
  tn__arena_release(&a->arena);
  return status;
}

static void report(attempt *a, int64_t at) {
  printf("seed %llu: ", (unsigned long long)a->seed);
  if (at < 0)
    printf("%lld elements, not %lld", (long long)a->out_count, (long long)a->before_count);
  else
    printf("element %lld of the outputs is %.9g, not %.9g", (long long)at, a->out[at], a->before[at]);
  for (int i = 1; tn__graph_pass_name(i - 1) != NULL; i++) {
    tn_status *status = run_once(a, i);
    bool same = status == NULL && agrees(a, &at);
    tn_status_free(status);
    if (same) continue;
    printf(", first behind pass %d, %s", i, tn__graph_pass_name(i - 1));
    break;
  }
  printf("\n%s\n", a->drawn);
}

static void run_seed(campaign *c, uint64_t seed) {
  attempt a = {.c = c, .seed = seed};
  int64_t at = 0;
  tn_status *status = run_once(&a, -1);
  if (status != NULL) {
    printf("seed %llu: %s\n%s\n", (unsigned long long)seed, tn_status_message(status), a.drawn ? a.drawn : "");
    c->refused++;
  } else if (!agrees(&a, &at)) {
    report(&a, at);
    c->wrong++;
  }
  tn_status_free(status);
  free(a.out);
  free(a.before);
  free(a.drawn);
}

static int too_seldom(const campaign *c, const char *kind, const char *name) {
  int count = 0;
  for (int i = 0; i < c->seen_count; i++)
    if (strcmp(c->seen[i].name, name) == 0) count = c->seen[i].count;
  if (c->show) printf("%7d %s %s\n", count, kind, name);
  if (count >= c->least) return 0;
  printf("%s %s was applied %d times, not %d\n", kind, name, count, c->least);
  return 1;
}

static int count_seldom(const campaign *c) {
  static const tn__rule_set *const sets[] = {&tn__rules_shape, &tn__rules_arithmetic, &tn__rules_product,
                                             &tn__rules_raise};
  int seldom = 0;
  for (size_t s = 0; s < sizeof sets / sizeof *sets; s++)
    for (int r = 0; r < sets[s]->count; r++) seldom += too_seldom(c, "rule", sets[s]->rules[r].name);
  const char *name;
  for (int i = 0; (name = tn__graph_pass_name(i)) != NULL; i++) {
    bool again = false;
    for (int j = 0; j < i; j++) again |= strcmp(tn__graph_pass_name(j), name) == 0;
    if (!again) seldom += too_seldom(c, "pass", name);
  }
  return seldom;
}

int main(int argc, char **argv) {
  campaign c = {.count = 1, .seed = 1};
  for (int i = 1; i < argc; i++) {
    bool more = i + 1 < argc;
    if (strcmp(argv[i], "--seed") == 0 && more)
      c.seed = strtoull(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--count") == 0 && more)
      c.count = atoi(argv[++i]);
    else if (strcmp(argv[i], "--least") == 0 && more)
      c.least = atoi(argv[++i]);
    else if (strcmp(argv[i], "--show") == 0)
      c.show = true;
    else
      return fprintf(stderr, "usage: random_rules [--seed S] [--count N] [--least L] [--show]\n"), 2;
  }
  for (int i = 0; i < c.count; i++) run_seed(&c, c.seed + (uint64_t)i);
  int seldom = count_seldom(&c);
  printf("%d graphs from seed %llu: %d wrong, %d refused, %d rules and passes too seldom\n", c.count,
         (unsigned long long)c.seed, c.wrong, c.refused, seldom);
  free(c.text);
  return c.wrong + c.refused + seldom > 0;
}
