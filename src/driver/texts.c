/* The texts that an executable keeps, put together from what a compilation has. */
#include "driver/driver.h"

static const char *part_of(const tn__unit *u, unsigned text) {
  return text == TN__TEXT_SCHEDULES ? u->trace : text == TN__TEXT_LOOPS ? u->loops : u->declaration;
}

static const char *text_of_kernels(tn__compilation *c, unsigned kind) {
  const char *comment = kind == TN__TEXT_SCHEDULES ? "#" : "//";
  tn__strbuf text;
  tn__strbuf_init(&text, c->driver.arena->allocator);
  for (int i = 0; i < c->unit_count; i++) {
    const tn__unit *u = &c->units[i];
    if (u->same_as == i) tn__strbuf_printf(&text, "%s %s\n%s\n", comment, u->name, part_of(u, kind));
  }
  return tn__arena_take(c->driver.arena, &text);
}

/* Bodies of branches and loops are inside of the graphs that they belong to. */
static const char *text_of_graphs(tn__compilation *c) {
  tn__strbuf text;
  tn__strbuf_init(&text, c->driver.arena->allocator);
  for (int i = 0; i < c->entries.count; i++) {
    const tn__entry *e = &c->entries.data[i];
    if (e->dispatch) continue;
    tn__strbuf_printf(&text, "# %s\n", e->name);
    tn__graph_print(e->graph, &text);
    tn__strbuf_append(&text, "\n");
  }
  return tn__arena_take(c->driver.arena, &text);
}

int tn__driver_texts_gather(tn__compilation *c, const char *names[TN__TEXT_KINDS], const char *texts[TN__TEXT_KINDS]) {
  int count = 0;
  for (int i = 0; i < TN__TEXT_KINDS; i++) {
    if (!(c->driver.texts & tn__kernels_text_at(i))) continue;
    names[count] = tn__kernels_text_name(i);
    texts[count++] =
        tn__kernels_text_at(i) == TN__TEXT_GRAPH ? text_of_graphs(c) : text_of_kernels(c, tn__kernels_text_at(i));
  }
  return count;
}
