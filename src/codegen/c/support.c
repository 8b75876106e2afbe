/* What emitted text calls: paragraphs of support.txt, as many as it needs, with numbers in the place of tables. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/map.h"
#include "codegen/c/emit.h"
#include "codegen/math_tables.h"
#include "support_text.inc.h"

/* ---- tables ------------------------------------------------------------------------------------------------------ */

typedef struct table {
  const char *name;
  const double *numbers;
  int count;
} table;

#define TABLE(name) {#name, name, (int)(sizeof(name) / sizeof((name)[0]))}
static const table tables[] = {
    TABLE(exp_f32),    TABLE(exp_f64),       TABLE(log_f32),       TABLE(log_f64),       TABLE(log_tail_f64),
    TABLE(sin_f32),    TABLE(cos_f32),       TABLE(sin_f64),       TABLE(cos_f64),       TABLE(atan_f64),
    TABLE(asin_f64),   TABLE(tanh_f32),      TABLE(erf_small_f64), TABLE(erf_large_f64), TABLE(ln2_f32),
    TABLE(ln2_f64),    TABLE(half_pi_f32),   TABLE(half_pi),       TABLE(erf_all_f32),   TABLE(pi_dd),
    TABLE(half_pi_dd), TABLE(quarter_pi_dd), TABLE(two_thirds_dd),
};

static const table *table_named(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
    if (strlen(tables[i].name) == length && memcmp(tables[i].name, name, length) == 0) return &tables[i];
  return NULL;
}

/* ---- paragraphs -------------------------------------------------------------------------------------------------- */

typedef struct paragraph {
  const char *name, *text;
  bool needed;
} paragraph;

typedef struct support {
  tn__arena *arena;
  tn__map by_name;
  TN__VEC(paragraph *) all;
} support;

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Is the word in a list with spaces between? */
static bool lists(const char *list, size_t length, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; p < list + length; p += strcspn(p, " \n") + 1)
    if (strncmp(p, word, n) == 0 && (p[n] == ' ' || p[n] == '\n')) return true;
  return false;
}

/* What a paragraph defines: the word in front of its first parenthesis, bracket or equals sign, or behind "struct". */
static const char *name_in(tn__arena *arena, const char *text) {
  static const char type[] = "typedef struct ";
  if (strncmp(text, type, sizeof(type) - 1) == 0) {
    const char *name = text + sizeof(type) - 1;
    return tn__arena_strndup(arena, name, strcspn(name, " "));
  }
  const char *end = text + strcspn(text, "([="), *start;
  while (end > text && !is_word(end[-1])) end--;
  for (start = end; start > text && is_word(start[-1]);) start--;
  return tn__arena_strndup(arena, start, (size_t)(end - start));
}

static void add(support *s, const char *text) {
  paragraph *p = TN__NEW(s->arena, paragraph);
  p->text = text;
  p->name = name_in(s->arena, text);
  tn__map_set(&s->by_name, p->name, p);
  tn__vec_push(s->arena, &s->all, p);
}

/* The text with a type in the place of $. */
static const char *with_type(support *s, const char *text, size_t length, const char *type, size_t type_length) {
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  for (size_t i = 0; i < length; i++)
    if (text[i] == '$')
      tn__strbuf_append_n(&out, type, type_length);
    else
      tn__strbuf_char(&out, text[i]);
  return tn__arena_take(s->arena, &out);
}

/* The same function of vectors of f32: types and functions that end in "f32" get so many lanes, and what is said
 * between brackets to be another type of 32 bits is one by its bits. */
static const char *with_lanes(support *s, const char *text, const char *lanes) {
  static const struct {
    const char *from, *to;
  } words[] = {{"(tn_i32)(", "tn_as_i32%s("}, {"(tn_u32)(", "tn_as_u32%s("}, {"tn_f32", "tn_f32%s"},
               {"tn_i32", "tn_i32%s"},        {"tn_u32", "tn_u32%s"},        {"const int ", "const tn_i32%s "},
               {"_f32(", "_f32%s("},          {"_i32(", "_i32%s("},          {"TN_POLY(f32", "TN_POLY(f32%s"}};
  enum { COUNT = sizeof(words) / sizeof(words[0]) };
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  while (*text != '\0') {
    int found = 0;
    while (found < COUNT && strncmp(text, words[found].from, strlen(words[found].from)) != 0) found++;
    if (found == COUNT) {
      tn__strbuf_char(&out, *text++);
    } else {
      tn__strbuf_append(&out, tn__arena_printf(s->arena, words[found].to, lanes));
      text += strlen(words[found].from);
    }
  }
  return tn__arena_take(s->arena, &out);
}

static void add_lanes(support *s, const char *text) {
  static const char *const lanes[] = {"x2", "x4", "x8", "x16"};
  for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) add(s, with_lanes(s, text, lanes[i]));
}

static void read_paragraph(support *s, const char *dialect, const char *text, const char *end) {
  static const char each[] = "@for ", vectors[] = "@lanes";
  const char *types = NULL;
  size_t types_length = 0;
  bool lanes = false;
  for (;;) {
    const char *line_end = memchr(text, '\n', (size_t)(end - text));
    bool is_mark = text[0] == '@', is_comment = text[0] == '/' && text[1] == '/';
    if (!is_mark && !is_comment) break;
    if (line_end == NULL || line_end + 1 >= end) return; /* a comment of its own */
    if (is_mark && strncmp(text, each, sizeof(each) - 1) == 0) {
      types = text + sizeof(each) - 1;
      types_length = (size_t)(line_end - types);
    } else if (is_mark && strncmp(text, vectors, sizeof(vectors) - 1) == 0) {
      lanes = strcmp(dialect, "opencl") == 0;
    } else if (is_mark && !lists(text + 1, (size_t)(line_end - text), dialect)) {
      return;
    }
    text = line_end + 1;
  }
  if (types == NULL) {
    const char *whole = tn__arena_strndup(s->arena, text, (size_t)(end - text));
    add(s, whole);
    if (lanes) add_lanes(s, whole);
    return;
  }
  for (const char *p = types; p < types + types_length; p += strcspn(p, " \n") + 1)
    add(s, with_type(s, text, (size_t)(end - text), p, strcspn(p, " \n")));
}

static void read_support(support *s, const char *dialect) {
  const char *p = support_text;
  while (*p != '\0') {
    const char *end = strstr(p, "\n\n");
    if (end == NULL) end = p + strlen(p);
    read_paragraph(s, dialect, p, end);
    for (p = end; *p == '\n';) p++;
  }
}

/* Marks what the text names, and what that names. */
static void need(support *s, const char *text) {
  char word[64];
  for (const char *p = text; *p != '\0';) {
    size_t length = 0;
    while (is_word(p[length])) length++;
    if (length > 3 && length < sizeof(word) && memcmp(p, "tn_", 3) == 0) {
      memcpy(word, p, length);
      word[length] = '\0';
      paragraph *found = tn__map_get(&s->by_name, word);
      if (found != NULL && !found->needed) {
        found->needed = true;
        need(s, found->text);
      }
    }
    p += length > 0 ? length : 1;
  }
}

/* ---- numbers in the place of tables ------------------------------------------------------------------------------ */

static void append_number(tn__strbuf *out, double number, bool narrow) {
  tn__strbuf_printf(out, narrow ? "%af" : "%a", number);
}

/* The arguments of a macro, up to three words; returns what comes behind the parenthesis. */
static const char *read_args(const char *p, const char *args[3], size_t lengths[3]) {
  for (int i = 0; i < 3 && *p != ')'; i++) {
    args[i] = p;
    while (is_word(*p)) p++;
    lengths[i] = (size_t)(p - args[i]);
    while (*p == ',' || *p == ' ') p++;
  }
  return p + 1;
}

/* ((c2 x + c1) x + c0) by calls. */
static void append_polynomial(tn__strbuf *out, const table *t, const char *type, size_t type_length, const char *x,
                              size_t length) {
  const bool narrow = type[1] == '3';
  for (int i = 1; i < t->count; i++) tn__strbuf_printf(out, "tn_muladd_%.*s(", (int)type_length, type);
  append_number(out, t->numbers[t->count - 1], narrow);
  for (int i = t->count - 2; i >= 0; i--) {
    tn__strbuf_printf(out, ", %.*s, ", (int)length, x);
    append_number(out, t->numbers[i], narrow);
    tn__strbuf_char(out, ')');
  }
}

static void append_words(tn__strbuf *out) {
  for (size_t i = 0; i < sizeof(two_over_pi) / sizeof(two_over_pi[0]); i++)
    tn__strbuf_printf(out, "%s0x%016llxull", i > 0 ? ", " : "", (unsigned long long)two_over_pi[i]);
}

/* The macro at `p`; returns what comes behind it, NULL: there is none. */
static const char *append_macro(tn__strbuf *out, const char *p) {
  static const char polynomial[] = "TN_POLY(", constant[] = "TN_C(", words[] = "TN_WORDS(";
  const char *args[3] = {"", "", ""};
  size_t lengths[3] = {0};
  if (strncmp(p, words, sizeof(words) - 1) == 0) {
    append_words(out);
    return strchr(p, ')') + 1;
  }
  bool is_polynomial = strncmp(p, polynomial, sizeof(polynomial) - 1) == 0;
  if (!is_polynomial && strncmp(p, constant, sizeof(constant) - 1) != 0) return NULL;
  p = read_args(strchr(p, '(') + 1, args, lengths);
  bool narrow = args[0][1] == '3';
  const table *t = table_named(args[is_polynomial ? 2 : 1], lengths[is_polynomial ? 2 : 1]);
  TN__INVARIANT(t != NULL);
  if (is_polynomial)
    append_polynomial(out, t, args[0], lengths[0], args[1], lengths[1]);
  else
    append_number(out, t->numbers[atoi(args[2])], narrow);
  return p;
}

static void append_expanded(tn__strbuf *out, const char *text) {
  for (const char *p = text; *p != '\0';) {
    const char *behind = strncmp(p, "TN_", 3) == 0 ? append_macro(out, p) : NULL;
    if (behind == NULL) tn__strbuf_char(out, *p);
    p = behind == NULL ? p + 1 : behind;
  }
  tn__strbuf_char(out, '\n');
}

/* Numbers of 64 bits, "0x1ull", where "long long" is no type. */
static const char *with_plain_long(tn__arena *arena, const char *text) {
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  for (const char *p = text; *p != '\0'; p++)
    if (strncmp(p, "ull", 3) != 0 || p == text || !isxdigit((unsigned char)p[-1]) || is_word(p[3]))
      tn__strbuf_char(&out, *p);
    else
      tn__strbuf_append(&out, "ul"), p += 2;
  return tn__arena_take(arena, &out);
}

/* Polynomials call what no text names before they are there. */
static void need_expanded(support *s, const paragraph *p) {
  tn__strbuf out;
  if (strstr(p->text, "TN_POLY") == NULL) return;
  tn__strbuf_init(&out, NULL);
  append_expanded(&out, p->text);
  need(s, tn__arena_take(s->arena, &out));
}

static void append_support(tn__arena *arena, const tn__cc_dialect *dialect, const char *text, tn__strbuf *out) {
  support s = {.arena = arena};
  tn__map_init(&s.by_name, arena);
  read_support(&s, dialect->name);
  need(&s, text);
  for (int i = s.all.count - 1; i >= 0; i--) /* what is needed stands before what needs it */
    if (s.all.data[i]->needed) need_expanded(&s, s.all.data[i]);
  for (int i = 0; i < s.all.count; i++) {
    if (!s.all.data[i]->needed) continue;
    tn__strbuf expanded;
    tn__strbuf_init(&expanded, NULL);
    append_expanded(&expanded, s.all.data[i]->text);
    const char *code = tn__arena_take(arena, &expanded);
    tn__strbuf_char(out, '\n');
    tn__strbuf_append(out, dialect->plain_long ? with_plain_long(arena, code) : code);
  }
}

tn__code tn__cc_finish(tn__arena *arena, const tn__cc_dialect *dialect, const char *text, tn__strbuf *out) {
  append_support(arena, dialect, text, out);
  tn__strbuf_append(out, text);
  tn__code code = {.size = out->length};
  code.data = tn__arena_take(arena, out);
  return code;
}

bool tn__cc_takes(const tn__target *target) { return true; }
