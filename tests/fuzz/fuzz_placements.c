/* Placements: each line is an argument of --place ("encoder.*=island:0", "auto") or, after a '%', of --memory
 * ("island:0=2MiB"). A line that begins with '@' makes the rest a JSON file. A small graph is placed by these: each
 * of its values gets a device, or there is an error. */
#include <string.h>

#include "fuzz/files.h"
#include "graph/place/place.h"
#include "graph/text.h"

static const char graph_text[] =
    "graph \"fuzz\" {\n"
    "  input x: f32[n, 8]\n"
    "  input rounds: i64[]\n"
    "  a: f32[n, 8] = tanh(x)\n"
    "  b: f32[n, 8] = abs(a)\n"
    "  c: f32[n, 8] = add(a, b)\n"
    "  const zero: i64[] = 0\n"
    "  i: i64[], s: f32[n, 8] = while(zero, c)\n"
    "    graph \"condition\" {\n"
    "      input i: i64[]\n"
    "      input s: f32[n, 8]\n"
    "      const four: i64[] = 4\n"
    "      more: bool[] = compare(i, four) {direction=\"LT\"}\n"
    "      output \"more\" = more\n"
    "    }\n"
    "    graph \"body\" {\n"
    "      input i: i64[]\n"
    "      input s: f32[n, 8]\n"
    "      const one: i64[] = 1\n"
    "      j: i64[] = add(i, one)\n"
    "      t: f32[n, 8] = multiply(s, s)\n"
    "      output \"next0\" = j\n"
    "      output \"next1\" = t\n"
    "    }\n"
    "  output \"y\" = s\n"
    "  output \"z\" = c\n"
    "}\n";

static void read_lines(tn__compile_config *config, const fuzz_input *in, tn__place_rules *rules,
                       tn__place_budgets *budgets) {
  const char *at = (const char *)in->data, *end = at + in->size;
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (stop == NULL) stop = end;
    const char *line = tn__arena_strndup(config->cache.arena, at, (size_t)(stop - at));
    at = stop < end ? stop + 1 : end;
    if (line[0] == '%') {
      tn__place_budget_read(config, line + 1, budgets);
    } else if (line[0] == '@') {
      const char *path = fuzz_write("placement.json", at, (size_t)(end - at));
      tn__place_rules_read(config, tn__arena_printf(config->cache.arena, "@%s", path), true, rules);
      return;
    } else {
      tn__place_rules_read(config, line, false, rules);
    }
  }
}

static void run(tn__escape *escape, void *user) {
  fuzz_input *in = user;
  in->arena.escape = escape;
  tn__graph *graph;
  tn__place_rules rules = {0};
  tn__place_budgets budgets = {0};
  tn__compile_config *config = tn__compile_config_create(
      &in->arena, "cpu -mcpu=x86-64-v3 -cores=2;island -mcpu=x86-64-v3 -cores=1;opencl", NULL);
  read_lines(config, in, &rules, &budgets);
  must(tn__graph_read(tn__ir_create(&in->arena), "fuzz", graph_text, sizeof(graph_text) - 1, NULL, &graph));
  const tn__place_options options = {.config = config,
                                     .rules = rules.list.data,
                                     .rule_count = rules.list.count,
                                     .tells = true,
                                     .automatic = rules.automatic,
                                     .budgets = &budgets};
  (void)tn__graph_place(graph, &options);
  for (int i = 0; i < rules.list.count; i++)
    if (rules.list.data[i].matched == 0) (void)tn__place_nearest(graph, rules.list.data[i].pattern);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__place_explain(graph, &options, 0, &text);
  tn__strbuf_release(&text);
  must(tn__graph_verify(graph));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_reader(data, size, run);
  return 0;
}
