/* What an executable tells about itself, as text: which of it is kept, and how it is put together. Each kernel's part
 * begins with a line that names it, a comment in the language of the text, so that a whole text can be read again. */
#include "kernels/texts.h"
#include "base/nearest.h"

#include <string.h>

static const struct {
  const char *name;
  unsigned texts;
} words[] = {{"schedules", TN__TEXT_SCHEDULES}, /* the kinds, in the order of the file; then words for several */
             {"graph", TN__TEXT_GRAPH},
             {"declarations", TN__TEXT_DECLARATIONS},
             {"loops", TN__TEXT_LOOPS},
             {"all", TN__TEXT_SCHEDULES | TN__TEXT_GRAPH | TN__TEXT_DECLARATIONS | TN__TEXT_LOOPS},
             {"none", 0}};

enum { WORDS = sizeof words / sizeof words[0] };

static int find_word(const char *text, size_t length) {
  for (int i = 0; i < WORDS; i++)
    if (strlen(words[i].name) == length && memcmp(words[i].name, text, length) == 0) return i;
  return -1;
}

unsigned tn__kernels_text_of_name(const char *name) {
  int word = find_word(name, strlen(name));
  return word >= 0 && word < TN__TEXT_KINDS ? words[word].texts : 0;
}

const char *tn__kernels_text_name(int kind) { return words[kind].name; }
unsigned tn__kernels_text_at(int kind) { return words[kind].texts; }

static tn_status *unknown_word(const char *text, size_t length) {
  tn__nearest n = {.name = text, .length = length};
  char advice[TN__ADVICE];
  for (int i = 0; i < WORDS; i++) tn__nearest_consider(&n, words[i].name, strlen(words[i].name));
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "there is no text \"%.*s\" that an executable could keep: there are schedules, graph, "
                          "declarations, loops, all and none%s",
                          (int)(length < 80 ? length : 80), text, tn__nearest_advice(&n, advice));
}

tn_status *tn__kernels_texts_parse(const char *list, unsigned *out) {
  *out = TN__TEXT_SCHEDULES;
  if (list == NULL) return NULL;
  unsigned chosen = 0;
  for (const char *at = list;; at++) {
    size_t length = strcspn(at, ",");
    int word = find_word(at, length);
    if (word < 0) return unknown_word(at, length);
    if (words[word].texts == 0 && length != strlen(list))
      return tn_status_create(TN_INVALID_ARGUMENT, "texts to keep are \"%s\": none does not go with others", list);
    chosen |= words[word].texts;
    at += length;
    if (*at == 0) break;
  }
  *out = chosen;
  return NULL;
}

const char *tn__kernels_text_of_declaration(tn__arena *arena, const tn__te *te, const char *name) {
  tn__strbuf text;
  tn__strbuf_init(&text, arena->allocator);
  tn__te_print_as(te, name, &text);
  return tn__arena_take(arena, &text);
}

const char *tn__kernels_text_of_loops(tn__arena *arena, const tn__func *func) {
  tn__strbuf text;
  tn__strbuf_init(&text, arena->allocator);
  tn__func_print(func, &text);
  return tn__arena_take(arena, &text);
}
