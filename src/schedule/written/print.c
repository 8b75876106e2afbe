/* Steps to statements. They are taken once more, one after the other, so that each is printed with the names that there
 * are by then. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "ir/text.h"
#include "schedule/written/syntax.h"

/* A step of a trace, cut into its words. */
typedef struct step {
  const char *name, *names[TN__MAX_LOOPS];
  int64_t numbers[TN__WRITTEN_NUMBERS];
  int name_count, number_count;
} step;

static step cut(tn__arena *arena, const char *line) {
  step s = {0};
  const char *p = line;
  while (*p != 0 && *p != ' ') p++;
  s.name = tn__arena_strndup(arena, line, (size_t)(p - line));
  while (*p == ' ') {
    p++;
    if (*p == '"') {
      const char *end = strchr(p + 1, '"');
      if (end == NULL || s.name_count == TN__MAX_LOOPS) break;
      s.names[s.name_count++] = tn__arena_strndup(arena, p + 1, (size_t)(end - p - 1));
      p = end + 1;
    } else {
      char *end;
      int64_t number = strtoll(p, &end, 10);
      if (s.number_count == TN__WRITTEN_NUMBERS || end == p) break;
      s.numbers[s.number_count++] = number;
      p = end;
    }
  }
  return s;
}

/* Words that stand where a name could: such a name is printed in quotes. */
static bool is_taken(const char *name) {
  static const char *const words[] = {"root", "end", "input", "rest"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strcmp(words[i], name) == 0) return true;
  return false;
}

static void print_name(tn__strbuf *out, const char *name) {
  TN__INVARIANT(name != NULL);
  bool plain = isalpha((unsigned char)name[0]) || name[0] == '_';
  for (const char *p = name; *p != 0; p++) plain &= tn__ir_text_is_name_char(*p);
  tn__strbuf_printf(out, plain && !is_taken(name) ? "%s" : "\"%s\"", name);
}

static void print_sizes(tn__strbuf *out, const step *s) {
  int rest = -1;
  for (int i = 0; i < s->number_count; i++)
    if (s->numbers[i] == 0) rest = i;
  tn__strbuf_append(out, rest < 0 ? "exactly" : "by");
  for (int i = rest == 0 ? 1 : 0, first = i; i < s->number_count; i++) {
    tn__strbuf_append(out, i > first ? ", " : " ");
    if (i == rest)
      tn__strbuf_append(out, "rest");
    else
      tn__strbuf_printf(out, "%" PRId64, s->numbers[i]);
  }
}

static void print_layout(tn__strbuf *out, const step *s) {
  for (int i = 0; i + 2 < s->number_count; i += 3) {
    tn__strbuf_printf(out, "%s%" PRId64, i > 0 ? ", " : "", s->numbers[i]);
    if (s->numbers[i + 1] != 1) tn__strbuf_printf(out, " / %" PRId64, s->numbers[i + 1]);
    if (s->numbers[i + 2] != 0) tn__strbuf_printf(out, " %% %" PRId64, s->numbers[i + 2]);
  }
}

/* By its tensor where that says which one is meant. */
static void print_input(tn__strbuf *out, const tn__schedule *now, const step *s, int64_t index) {
  const tn__snode *block = tn__sched_find(now, s->names[0], true);
  const char *name = NULL;
  int first = 0;
  if (block != NULL && index < block->block.read_count) name = block->block.reads[index].buffer->name;
  while (name != NULL && strcmp(block->block.reads[first].buffer->name, name) != 0) first++;
  if (name != NULL && first == index)
    print_name(out, name);
  else
    tn__strbuf_printf(out, "input %" PRId64, index);
}

static void print_operand(tn__strbuf *out, const tn__schedule *now, const step *s, char kind, int slot) {
  switch (kind) {
    case 'L':
      for (int i = 0; i < s->name_count; i++) {
        if (i > 0) tn__strbuf_append(out, ", ");
        print_name(out, s->names[i]);
      }
      return;
    case 'N':
      for (int i = slot; i < s->number_count; i++)
        tn__strbuf_printf(out, "%s%" PRId64, i > slot ? ", " : "", s->numbers[i]);
      return;
    case 'n': tn__strbuf_printf(out, "%" PRId64, s->numbers[slot]); return;
    case 's': tn__strbuf_append(out, tn__scope_name((tn__scope)s->numbers[slot])); return;
    case 'm': print_name(out, tn__memory_scope_name((tn__memory_scope)s->numbers[slot])); return;
    case 'i': print_input(out, now, s, s->numbers[slot]); return;
    case 'f': print_sizes(out, s); return;
    case 'p': print_layout(out, s); return;
    case 'o':
      print_name(out, s->names[0]);
      if (s->numbers[0] != 0) tn__strbuf_printf(out, " output %" PRId64, s->numbers[0]);
      return;
    default: print_name(out, s->names[slot]);
  }
}

static void print_step(tn__strbuf *out, const tn__schedule *now, const step *s) {
  const tn__written_row *row = tn__written_rows;
  while (row->step != NULL && strcmp(row->step, s->name) != 0) row++;
  if (row->step == NULL) tn__throwf(now->arena->escape, TN_INTERNAL, "the step \"%s\" has no statement", s->name);
  tn__strbuf_append(out, "  ");
  for (const char *p = row->pattern; *p != 0;) {
    if (p[0] == ' ' && p[1] == ',') {
      p++;
    } else if (*p == '%') {
      bool numbered = isdigit((unsigned char)p[2]);
      print_operand(out, now, s, p[1], numbered ? p[2] - '0' : 0);
      p += numbered ? 3 : 2;
    } else {
      tn__strbuf_char(out, *p++);
    }
  }
  tn__strbuf_char(out, '\n');
}

void tn__written_print(const tn__schedule *s, const char *on, tn__strbuf *out) {
  tn__schedule *again = tn__schedule_of(s->te, s->target);
  tn__strbuf_append(out, "schedule for ");
  print_name(out, tn__te_name(s->te));
  tn__strbuf_char(out, ' ');
  const char *quote = on != NULL && strchr(on, ' ') != NULL ? "\"" : "";
  if (on != NULL) tn__strbuf_printf(out, "on %s%s%s ", quote, on, quote);
  tn__strbuf_append(out, "{\n");
  for (int i = 0; i < s->steps.count; i++) {
    step one = cut(s->arena, s->steps.data[i]);
    print_step(out, again, &one);
    tn__sched_trace_step(again, s->steps.data[i]);
  }
  tn__strbuf_append(out, "}\n");
}
