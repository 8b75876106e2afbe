/* RE2's syntax (https://github.com/google/re2/wiki/Syntax) to the program of text/regex.h: a tree, then code, in which
 * counted repetitions are written out. What has no meaning without captures (greedy or not, names of groups) is read
 * and forgotten. Classes by Unicode property (\pL) and \C are not supported; back references and look-around are no
 * part of RE2. */
#include "import/onnx/regex_compile.h"

#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/utf8.h"
#include "text/regex.h"
#include "text/unicode.h"

enum { LAST_CODE = 0x10ffff, MOST_REPEATS = 1000, MOST_CODE = 1 << 16, MOST_DEPTH = 200 };

typedef struct range {
  int64_t low, high;
} range;
typedef TN__VEC(range) range_vec;

typedef enum node_kind { NODE_EMPTY, NODE_CLASS, NODE_ASSERT, NODE_BOTH, NODE_EITHER, NODE_REPEAT } node_kind;

typedef struct node node;
struct node {
  node_kind kind;
  range_vec ranges;  /* CLASS: rising */
  int64_t assertion; /* ASSERT */
  int min, max;      /* REPEAT; max -1: any number */
  const node *left, *right;
};

typedef struct flags {
  bool ignore_case, lines, dot_all;
} flags;

typedef struct parser {
  tn__arena *arena;
  const char *origin, *pattern, *at, *end;
  flags now;
  int depth;
  range_vec cases; /* pairs of code points that differ in case only */
  TN__VEC(int64_t) code, ranges;
} parser;

static _Noreturn void fail(const parser *p, tn_status_code code, const char *why) {
  tn__throwf(p->arena->escape, code, "%s%sthe pattern \"%s\" at byte %d: %s", p->origin == NULL ? "" : p->origin,
             p->origin == NULL ? "" : ": ", p->pattern, (int)(p->at - p->pattern), why);
}
static _Noreturn void wrong(const parser *p, const char *why) { fail(p, TN_INVALID_ARGUMENT, why); }

static bool done(const parser *p) { return p->at >= p->end; }
static bool next_is(const parser *p, const char *text) {
  size_t length = strlen(text);
  return (size_t)(p->end - p->at) >= length && memcmp(p->at, text, length) == 0;
}
static bool take(parser *p, const char *text) {
  if (!next_is(p, text)) return false;
  p->at += strlen(text);
  return true;
}

static int64_t take_code(parser *p) {
  const char *start = p->at;
  if (done(p)) wrong(p, "it ends where a character is expected");
  uint32_t code = tn__utf8_next(&p->at, p->end);
  if (code != TN__NOT_UTF8) return (int64_t)code;
  p->at = start;
  wrong(p, "it is not UTF-8");
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

static void add_range(parser *p, range_vec *to, int64_t low, int64_t high) {
  range r = {low, high};
  tn__vec_push(p->arena, to, r);
}

static int compare_ranges(const void *a, const void *b) {
  const range *x = a, *y = b;
  return (x->low > y->low) - (x->low < y->low);
}

/* Rising, without overlaps or neighbours. */
static void tidy(range_vec *ranges) {
  int kept = 0;
  if (ranges->count > 0) qsort(ranges->data, (size_t)ranges->count, sizeof(range), compare_ranges);
  for (int i = 0; i < ranges->count; i++) {
    range *last = kept > 0 ? &ranges->data[kept - 1] : NULL;
    if (last != NULL && ranges->data[i].low <= last->high + 1) {
      if (ranges->data[i].high > last->high) last->high = ranges->data[i].high;
    } else {
      ranges->data[kept++] = ranges->data[i];
    }
  }
  ranges->count = kept;
}

static void negate(parser *p, range_vec *ranges) {
  range_vec rest = {0};
  int64_t from = 0;
  tidy(ranges);
  for (int i = 0; i < ranges->count; i++) {
    if (ranges->data[i].low > from) add_range(p, &rest, from, ranges->data[i].low - 1);
    from = ranges->data[i].high + 1;
  }
  if (from <= LAST_CODE) add_range(p, &rest, from, LAST_CODE);
  *ranges = rest;
}

static bool holds(const range_vec *ranges, int count, int64_t code) {
  for (int i = 0; i < count; i++)
    if (ranges->data[i].low <= code && code <= ranges->data[i].high) return true;
  return false;
}

static void find_cases(parser *p) {
  enum { BEYOND_CASES = 0x20000 };
  for (uint32_t i = 0; i < BEYOND_CASES; i++) {
    if (tn__text_to_lower(i) != i) add_range(p, &p->cases, i, tn__text_to_lower(i));
    if (tn__text_to_upper(i) != i) add_range(p, &p->cases, i, tn__text_to_upper(i));
  }
}

/* What differs from a member in case only is one, too. Two rounds reach all of an orbit such as k, K and the Kelvin
 * sign. */
static void add_cases(parser *p, range_vec *ranges) {
  if (p->cases.count == 0) find_cases(p);
  for (int round = 0; round < 2; round++) {
    tidy(ranges);
    int count = ranges->count;
    for (int i = 0; i < p->cases.count; i++) {
      range pair = p->cases.data[i];
      bool has = holds(ranges, count, pair.low), has_other = holds(ranges, count, pair.high);
      if (has && !has_other) add_range(p, ranges, pair.high, pair.high);
      if (has_other && !has) add_range(p, ranges, pair.low, pair.low);
    }
  }
}

static node *node_create(const parser *p, node_kind kind, const node *left, const node *right) {
  node *n = TN__NEW(p->arena, node);
  n->kind = kind, n->left = left, n->right = right;
  return n;
}

static const node *class_node(parser *p, range_vec ranges, bool negated) {
  node *n = node_create(p, NODE_CLASS, NULL, NULL);
  if (p->now.ignore_case) add_cases(p, &ranges);
  if (negated)
    negate(p, &ranges);
  else
    tidy(&ranges);
  n->ranges = ranges;
  return n;
}

static const node *assertion(const parser *p, tn__regex_assertion which) {
  node *n = node_create(p, NODE_ASSERT, NULL, NULL);
  n->assertion = which;
  return n;
}

static void add_pairs(parser *p, range_vec *to, const char *pairs) {
  for (; *pairs != '\0'; pairs += 2) add_range(p, to, pairs[0], pairs[1]);
}

/* Named classes, of ASCII as in RE2. What differs in case only belongs to the class before its opposite is taken. */
static void add_named(parser *p, range_vec *to, range_vec own, bool negated) {
  if (p->now.ignore_case) add_cases(p, &own);
  if (negated) negate(p, &own);
  for (int i = 0; i < own.count; i++) add_range(p, to, own.data[i].low, own.data[i].high);
}

/* \d, \w, \s and their opposites, behind the backslash. */
static bool take_perl_class(parser *p, range_vec *to) {
  static const struct {
    char letter;
    const char *pairs;
  } rows[] = {{'d', "09"}, {'w', "09AZaz__"}, {'s', "\t\n\f\r  "}};
  if (done(p)) return false;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    if ((*p->at | 0x20) != rows[i].letter || (*p->at & 0x40) == 0) continue;
    range_vec own = {0};
    add_pairs(p, &own, rows[i].pairs);
    add_named(p, to, own, (*p->at++ & 0x20) == 0);
    return true;
  }
  return false;
}

/* [:alpha:], [:^alpha:] inside of brackets. */
static bool take_posix_class(parser *p, range_vec *to) {
  static const struct {
    const char *name, *pairs;
  } rows[] = {{"alnum:]", "09AZaz"},  {"alpha:]", "AZaz"},     {"ascii:]", NULL},     {"blank:]", "\t\t  "},
              {"cntrl:]", NULL},      {"digit:]", "09"},       {"graph:]", "!~"},     {"lower:]", "az"},
              {"print:]", " ~"},      {"punct:]", "!/:@[`{~"}, {"space:]", "\t\r  "}, {"upper:]", "AZ"},
              {"word:]", "09AZaz__"}, {"xdigit:]", "09AFaf"}};
  const char *start = p->at;
  if (!take(p, "[:")) return false;
  bool negated = take(p, "^");
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    if (!take(p, rows[i].name)) continue;
    range_vec own = {0};
    if (rows[i].pairs != NULL) add_pairs(p, &own, rows[i].pairs);
    if (rows[i].name[0] == 'a' && rows[i].pairs == NULL) add_range(p, &own, 0, 127);
    if (rows[i].name[0] == 'c') add_range(p, &own, 0, 31), add_range(p, &own, 127, 127);
    add_named(p, to, own, negated);
    return true;
  }
  p->at = start;
  return false;
}

static int digit_of(char c, int base) {
  int digit = c >= '0' && c <= '9'   ? c - '0'
              : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                     : base;
  return digit < base ? digit : -1;
}

/* At most `most` digits. */
static int64_t take_number(parser *p, int base, int most) {
  int64_t value = 0;
  int count = 0;
  for (; !done(p) && count < most && digit_of(*p->at, base) >= 0; count++)
    value = value * base + digit_of(*p->at++, base);
  if (count == 0 || value > LAST_CODE) wrong(p, "it needs a number here");
  return value;
}

/* The character that an escape stands for, behind the backslash. */
static int64_t take_escape(parser *p) {
  static const char letters[] = "aftnrv", meanings[] = "\a\f\t\n\r\v";
  if (done(p)) wrong(p, "it ends with a backslash");
  const char *letter = strchr(letters, *p->at);
  if (letter != NULL && *p->at != '\0') {
    p->at++;
    return meanings[letter - letters];
  }
  if (take(p, "x{")) {
    int64_t code = take_number(p, 16, 8);
    if (!take(p, "}")) wrong(p, "\\x{ has no }");
    return code;
  }
  if (take(p, "x")) {
    if (p->end - p->at < 2 || digit_of(p->at[1], 16) < 0) wrong(p, "\\x needs two hexadecimal digits");
    return take_number(p, 16, 2);
  }
  bool octal = *p->at == '0' || (*p->at >= '1' && *p->at <= '7' && p->end - p->at > 1 && digit_of(p->at[1], 8) >= 0);
  if (octal) return take_number(p, 8, 3);
  if (*p->at == 'p' || *p->at == 'P') fail(p, TN_UNSUPPORTED, "classes by Unicode property are not supported");
  if (*p->at == 'C') fail(p, TN_UNSUPPORTED, "\\C, any byte, is not supported");
  bool word = digit_of(*p->at, 10) >= 0 || (*p->at >= 'a' && *p->at <= 'z') || (*p->at >= 'A' && *p->at <= 'Z');
  if (word) wrong(p, "no such escape in RE2's syntax");
  return take_code(p);
}

static int64_t take_class_code(parser *p) { return take(p, "\\") ? take_escape(p) : take_code(p); }

/* Behind the opening bracket. */
static const node *take_brackets(parser *p) {
  range_vec ranges = {0};
  bool negated = take(p, "^"), first = true;
  for (; first || !take(p, "]"); first = false) {
    if (done(p)) wrong(p, "[ has no ]");
    if (take_posix_class(p, &ranges)) continue;
    if (next_is(p, "\\")) {
      p->at++;
      if (take_perl_class(p, &ranges)) continue;
      p->at--;
    }
    int64_t low = take_class_code(p), high = low;
    if (next_is(p, "-") && !next_is(p, "-]")) {
      p->at++;
      if (done(p)) wrong(p, "[ has no ]");
      high = take_class_code(p);
    }
    if (high < low) wrong(p, "a range ends before it begins");
    add_range(p, &ranges, low, high);
  }
  return class_node(p, ranges, negated);
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static const node *take_alternatives(parser *p);

/* Behind "(?", flags up to ")" or ":"; whether a group follows. */
static bool take_flags(parser *p) {
  bool on = true;
  for (;;) {
    if (done(p)) wrong(p, "( has no )");
    char c = *p->at++;
    switch (c) {
      case 'i': p->now.ignore_case = on; break;
      case 'm': p->now.lines = on; break;
      case 's': p->now.dot_all = on; break;
      case 'U': break;
      case '-':
        if (!on) wrong(p, "two - in one list of flags");
        on = false;
        break;
      case ':': return true;
      case ')': return false;
      default: p->at--; wrong(p, "no such group in RE2's syntax");
    }
  }
}

static void skip_name(parser *p) {
  const char *start = p->at;
  while (!done(p) && *p->at != '>') p->at++;
  if (p->at == start || !take(p, ">")) wrong(p, "a group's name has no end");
}

/* Behind "("; NULL for flags alone, which are nothing that could be repeated. */
static const node *take_group(parser *p) {
  flags outer = p->now;
  if (p->depth++ >= MOST_DEPTH) fail(p, TN_UNSUPPORTED, "groups are nested too deeply");
  if (take(p, "?P<") || (next_is(p, "?<") && !next_is(p, "?<=") && !next_is(p, "?<!") && take(p, "?<"))) {
    skip_name(p);
  } else if (take(p, "?") && !take_flags(p)) {
    p->depth--;
    return NULL; /* the flags hold to the end of the group around */
  }
  const node *inside = take_alternatives(p);
  if (!take(p, ")")) wrong(p, "( has no )");
  p->now = outer;
  p->depth--;
  return inside;
}

static const node *one_code(parser *p, int64_t code) {
  range_vec ranges = {0};
  add_range(p, &ranges, code, code);
  return class_node(p, ranges, false);
}

static const node *take_backslash(parser *p) {
  range_vec ranges = {0};
  if (take(p, "A")) return assertion(p, TN__REGEX_TEXT_START);
  if (take(p, "z")) return assertion(p, TN__REGEX_TEXT_END);
  if (take(p, "b")) return assertion(p, TN__REGEX_WORD_BOUNDARY);
  if (take(p, "B")) return assertion(p, TN__REGEX_NO_WORD_BOUNDARY);
  if (take_perl_class(p, &ranges)) return class_node(p, ranges, false);
  return one_code(p, take_escape(p));
}

static const node *take_atom(parser *p) {
  range_vec ranges = {0};
  if (take(p, "(")) return take_group(p);
  if (take(p, "[")) return take_brackets(p);
  if (take(p, "\\")) return take_backslash(p);
  if (take(p, "^")) return assertion(p, p->now.lines ? TN__REGEX_LINE_START : TN__REGEX_TEXT_START);
  if (take(p, "$")) return assertion(p, p->now.lines ? TN__REGEX_LINE_END : TN__REGEX_TEXT_END);
  if (!take(p, ".")) return one_code(p, take_code(p));
  if (!p->now.dot_all) add_range(p, &ranges, '\n', '\n');
  negate(p, &ranges);
  node *any = node_create(p, NODE_CLASS, NULL, NULL);
  any->ranges = ranges;
  return any;
}

/* {2}, {2,} or {2,5}; anything else there is text. */
TN_MUST_USE static bool take_counts(parser *p, int *min, int *max) {
  const char *start = p->at;
  bool plain = take(p, "{") && !done(p) && digit_of(*p->at, 10) >= 0;
  if (plain) {
    *min = *max = (int)take_number(p, 10, 6);
    if (take(p, ",")) *max = !done(p) && digit_of(*p->at, 10) >= 0 ? (int)take_number(p, 10, 6) : -1;
    plain = take(p, "}");
  }
  if (!plain) p->at = start;
  if (plain && (*min > MOST_REPEATS || *max > MOST_REPEATS || (*max >= 0 && *max < *min)))
    wrong(p, "repetitions are counted up to 1000, the least number first");
  return plain;
}

TN_MUST_USE static bool take_repetition(parser *p, int *min, int *max) {
  *min = 0, *max = -1;
  bool found = take(p, "*");
  if (!found && (found = take(p, "+"))) *min = 1;
  if (!found && (found = take(p, "?"))) *max = 1;
  if (!found) found = take_counts(p, min, max);
  if (found) take(p, "?"); /* as few as possible: the same when all of the text is matched */
  return found;
}

/* The atoms of a sequence: only the last one can be repeated, and only once. */
typedef struct sequence {
  const node *all;  /* before the last one */
  const node *last; /* NULL: none yet */
  bool repeated;    /* is the last one */
} sequence;

static void push_atom(const parser *p, sequence *s, const node *atom) {
  if (s->last != NULL) s->all = node_create(p, NODE_BOTH, s->all, s->last);
  s->last = atom;
  s->repeated = false;
}

/* Behind \Q, up to \E: characters as they are. */
static void take_quoted(parser *p, sequence *s) {
  while (!done(p) && !take(p, "\\E")) push_atom(p, s, one_code(p, take_code(p)));
}

static const node *take_sequence(parser *p) {
  sequence s = {.all = node_create(p, NODE_EMPTY, NULL, NULL)};
  int min, max;
  while (!done(p) && !next_is(p, "|") && !next_is(p, ")")) {
    const char *start = p->at;
    if (take_repetition(p, &min, &max)) {
      if (s.repeated) wrong(p, "two repetitions follow each other");
      if (s.last == NULL) p->at = start, wrong(p, "nothing is there to be repeated");
      node *repeat = node_create(p, NODE_REPEAT, s.last, NULL);
      repeat->min = min, repeat->max = max;
      s.last = repeat;
      s.repeated = true;
    } else if (take(p, "\\Q")) {
      take_quoted(p, &s);
    } else {
      const node *atom = take_atom(p);
      if (atom != NULL) push_atom(p, &s, atom);
    }
  }
  return s.last == NULL ? s.all : node_create(p, NODE_BOTH, s.all, s.last);
}

static const node *take_alternatives(parser *p) {
  const node *all = take_sequence(p);
  while (take(p, "|")) all = node_create(p, NODE_EITHER, all, take_sequence(p));
  return all;
}

/* ---- code -------------------------------------------------------------------------------------------------------- */

static int here(const parser *p) { return p->code.count / 3; }

static int emit(parser *p, tn__regex_op op, int64_t a, int64_t b) {
  if (here(p) >= MOST_CODE) fail(p, TN_UNSUPPORTED, "it is too large: its repetitions are written out");
  tn__vec_push(p->arena, &p->code, (int64_t)op);
  tn__vec_push(p->arena, &p->code, a);
  tn__vec_push(p->arena, &p->code, b);
  return here(p) - 1;
}

static void emit_node(parser *p, const node *n);

static void emit_repeat(parser *p, const node *n) {
  int start = here(p);
  for (int i = 0; i < n->min && (i == 0 || here(p) > start); i++) emit_node(p, n->left); /* nothing is not repeated */
  if (n->max < 0) {
    int split = emit(p, TN__REGEX_SPLIT, 0, 0);
    emit_node(p, n->left);
    emit(p, TN__REGEX_JUMP, split, 0);
    p->code.data[3 * split + 1] = split + 1, p->code.data[3 * split + 2] = here(p);
    return;
  }
  int rest = n->max - n->min, *splits = TN__NEW_ARRAY(p->arena, rest, int);
  for (int i = 0; i < rest; i++) {
    splits[i] = emit(p, TN__REGEX_SPLIT, 0, 0);
    emit_node(p, n->left);
  }
  for (int i = 0; i < rest; i++)
    p->code.data[3 * splits[i] + 1] = splits[i] + 1, p->code.data[3 * splits[i] + 2] = here(p);
}

/* Alternatives lean to the left, like sequences: only they are walked in a loop. */
static void emit_either(parser *p, const node *n) {
  TN__VEC(const node *) parts = {0};
  TN__VEC(int) jumps = {0};
  for (; n->kind == NODE_EITHER; n = n->left) tn__vec_push(p->arena, &parts, n->right);
  tn__vec_push(p->arena, &parts, n);
  for (int i = parts.count - 1; i >= 0; i--) {
    int split = i > 0 ? emit(p, TN__REGEX_SPLIT, 0, 0) : -1;
    emit_node(p, parts.data[i]);
    if (i == 0) break;
    tn__vec_push(p->arena, &jumps, emit(p, TN__REGEX_JUMP, 0, 0));
    p->code.data[3 * split + 1] = split + 1, p->code.data[3 * split + 2] = here(p);
  }
  for (int i = 0; i < jumps.count; i++) p->code.data[3 * jumps.data[i] + 1] = here(p);
}

static void emit_class(parser *p, const node *n) {
  int first = p->ranges.count / 2;
  for (int i = 0; i < n->ranges.count; i++) {
    tn__vec_push(p->arena, &p->ranges, n->ranges.data[i].low);
    tn__vec_push(p->arena, &p->ranges, n->ranges.data[i].high);
  }
  emit(p, TN__REGEX_CLASS, first, n->ranges.count);
}

static void emit_both(parser *p, const node *n) {
  TN__VEC(const node *) parts = {0};
  for (; n->kind == NODE_BOTH; n = n->left) tn__vec_push(p->arena, &parts, n->right);
  emit_node(p, n);
  while (parts.count > 0) emit_node(p, parts.data[--parts.count]);
}

static void emit_node(parser *p, const node *n) {
  switch (n->kind) {
    case NODE_EMPTY: return;
    case NODE_CLASS: emit_class(p, n); return;
    case NODE_ASSERT: emit(p, TN__REGEX_ASSERT, n->assertion, 0); return;
    case NODE_BOTH: emit_both(p, n); return;
    case NODE_EITHER: emit_either(p, n); return;
    case NODE_REPEAT: emit_repeat(p, n); return;
  }
}

const int64_t *tn__onnx_compile_regex(tn__arena *arena, const char *origin, const char *pattern, size_t length,
                                      int *count) {
  parser p = {.arena = arena, .origin = origin};
  p.pattern = p.at = tn__arena_strndup(arena, pattern, length);
  p.end = p.at + length;
  const node *all = take_alternatives(&p);
  if (!done(&p)) wrong(&p, ") has no (");
  emit_node(&p, all);
  emit(&p, TN__REGEX_MATCH, 0, 0);
  int64_t *words = TN__NEW_ARRAY(arena, 1 + p.code.count + p.ranges.count, int64_t);
  words[0] = here(&p);
  tn__copy(words + 1, p.code.data, (size_t)p.code.count * sizeof(int64_t));
  if (p.ranges.count > 0) memcpy(words + 1 + p.code.count, p.ranges.data, (size_t)p.ranges.count * sizeof(int64_t));
  *count = 1 + p.code.count + p.ranges.count;
  return words;
}
