#include "text/regex.h"

#include <string.h>

#include "base/utf8.h"

enum { MOST_INSTRUCTIONS = 1 << 24 };
#define AT_EDGE (UINT32_MAX - 1) /* in place of the code point before the first or behind the last one */

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static bool is_sound(const int64_t *in, int64_t at, int64_t count, int64_t ranges) {
  switch (in[0]) {
    case TN__REGEX_MATCH: return true;
    case TN__REGEX_CLASS:
      return at + 1 < count && in[1] >= 0 && in[2] >= 0 && in[1] <= ranges && in[2] <= ranges - in[1];
    case TN__REGEX_SPLIT: return in[1] >= 0 && in[1] < count && in[2] >= 0 && in[2] < count;
    case TN__REGEX_JUMP: return in[1] >= 0 && in[1] < count;
    case TN__REGEX_ASSERT: return at + 1 < count && in[1] >= 0 && in[1] <= TN__REGEX_NO_WORD_BOUNDARY;
    default: return false;
  }
}

bool tn__regex_open(const int64_t *words, int64_t count, tn__regex *out) {
  if (count < 1 || words[0] < 1 || words[0] > MOST_INSTRUCTIONS || words[0] > (count - 1) / 3) return false;
  int64_t instructions = words[0], rest = count - 1 - 3 * instructions;
  if (rest % 2 != 0) return false;
  for (int64_t i = 0; i < instructions; i++)
    if (!is_sound(words + 1 + 3 * i, i, instructions, rest / 2)) return false;
  *out = (tn__regex){.code = words + 1, .ranges = words + 1 + 3 * instructions, .count = (uint32_t)instructions};
  return true;
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

typedef struct states { /* those that wait for a code point, and the end */
  uint32_t *list;
  uint32_t count;
} states;

typedef struct matcher {
  const tn__regex *regex;
  uint32_t *mark; /* per instruction: the step in which it was reached last */
  uint32_t *pending;
  uint32_t step;
  uint32_t before, after; /* code points around the position */
  bool matched;           /* the end was reached */
} matcher;

int64_t tn__regex_scratch(const tn__regex *regex) { return (int64_t)regex->count * 4 * (int64_t)sizeof(uint32_t); }

static bool is_word(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool holds(const matcher *m, int64_t assertion) {
  bool boundary = is_word(m->before) != is_word(m->after);
  switch ((tn__regex_assertion)assertion) {
    case TN__REGEX_TEXT_START: return m->before == AT_EDGE;
    case TN__REGEX_TEXT_END: return m->after == AT_EDGE;
    case TN__REGEX_LINE_START: return m->before == AT_EDGE || m->before == '\n';
    case TN__REGEX_LINE_END: return m->after == AT_EDGE || m->after == '\n';
    case TN__REGEX_WORD_BOUNDARY: return boundary;
    case TN__REGEX_NO_WORD_BOUNDARY: return !boundary;
  }
  return false;
}

static void reach(matcher *m, uint32_t *pending, int64_t at) {
  if (m->mark[at] == m->step) return;
  m->mark[at] = m->step;
  m->pending[(*pending)++] = (uint32_t)at;
}

/* Everything that instruction `at` leads to without going over a code point. */
static void follow(matcher *m, states *to, uint32_t at) {
  uint32_t pending = 0;
  reach(m, &pending, at);
  while (pending > 0) {
    uint32_t now = m->pending[--pending];
    const int64_t *in = m->regex->code + 3 * (size_t)now;
    switch (in[0]) {
      case TN__REGEX_MATCH: m->matched = m->matched || m->after == AT_EDGE; break;
      case TN__REGEX_CLASS: to->list[to->count++] = now; break;
      case TN__REGEX_SPLIT: reach(m, &pending, in[2]); /* fall through */
      case TN__REGEX_JUMP: reach(m, &pending, in[1]); break;
      default:
        if (holds(m, in[1])) reach(m, &pending, (int64_t)now + 1);
    }
  }
}

static bool in_class(const tn__regex *regex, const int64_t *in, uint32_t code) {
  int64_t low = 0, high = in[2]; /* the ranges rise: the first that ends at or behind the code point */
  const int64_t *ranges = regex->ranges + 2 * in[1];
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (ranges[2 * middle + 1] < (int64_t)code)
      low = middle + 1;
    else
      high = middle;
  }
  return low < in[2] && ranges[2 * low] <= (int64_t)code;
}

static uint32_t next_code(const char **at, const char *end) { return *at < end ? tn__utf8_next(at, end) : AT_EDGE; }

bool tn__regex_matches(const tn__regex *regex, const char *text, size_t length, void *scratch) {
  uint32_t *memory = scratch;
  size_t n = regex->count;
  states now = {memory, 0}, next = {memory + n, 0};
  matcher m = {.regex = regex, .mark = memory + 2 * n, .pending = memory + 3 * n, .step = 1, .before = AT_EDGE};
  memset(m.mark, 0, n * sizeof(uint32_t));
  const char *at = text, *end = text == NULL ? text : text + length;
  m.after = next_code(&at, end);
  follow(&m, &now, 0);
  while (m.after != AT_EDGE && now.count > 0) {
    uint32_t code = m.after;
    if (++m.step == 0) { /* the steps were counted through: marks of old ones must not look new */
      memset(m.mark, 0, n * sizeof(uint32_t));
      m.step = 1;
    }
    m.before = code;
    m.after = next_code(&at, end);
    next.count = 0;
    for (uint32_t i = 0; i < now.count; i++)
      if (in_class(regex, regex->code + 3 * (size_t)now.list[i], code)) follow(&m, &next, now.list[i] + 1);
    states kept = now;
    now = next, next = kept;
  }
  return m.matched && m.after == AT_EDGE;
}
