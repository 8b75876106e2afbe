/* Text to statements; nothing is looked up yet. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "schedule/written/syntax.h"
#include "target/text/text.h"

typedef struct parser {
  tn__lexer lex;
  tn__arena *arena;
  tn__written *written;
  tn__written_block *block; /* that is being read */
  int depth, stmts;
} parser;

tn_status *tn__written_error(const tn__written *written, const tn__token *at, const tn_status *error) {
  tn__place place = {at->text, at->line, at->column};
  return tn__error_status(written->name, written->text, written->end, &place, error);
}

const char *tn__written_name(tn__arena *arena, const tn__token *t) {
  bool string = t->kind == TN__TOKEN_STRING;
  size_t skipped = string ? 1 : 0, length = t->length - 2 * skipped;
  if ((t->kind != TN__TOKEN_NAME && !string) || length == 0 || length > TN__WRITTEN_NAME) return NULL;
  for (size_t i = 0; i < length; i++)
    if (!isprint((unsigned char)t->text[skipped + i]) || strchr("\"\\", t->text[skipped + i]) != NULL) return NULL;
  return tn__arena_strndup(arena, t->text + skipped, length);
}

static const char *shown(const parser *p, const tn__token *t) {
  if (t->kind == TN__TOKEN_END) return "the end of the text";
  return tn__arena_printf(p->arena, "'%.*s'", t->length > 40 ? 40 : (int)t->length, t->text);
}

static void deeper(parser *p, const tn__token *at) {
  if (++p->depth > TN__WRITTEN_DEPTH) tn__lexer_fail(&p->lex, at, "more than %d levels of nesting", TN__WRITTEN_DEPTH);
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static const tn__written_expr *parse_expr(parser *p);

static tn__written_expr *new_expr(parser *p, tn__written_expr_kind kind, const tn__token *at) {
  tn__written_expr *e = TN__NEW(p->arena, tn__written_expr);
  e->kind = kind;
  e->at = *at;
  return e;
}

static int64_t whole_number(parser *p) {
  tn__token t = p->lex.token;
  const tn__expr *value = t.kind == TN__TOKEN_NUMBER ? tn__lexer_number(&p->lex, &t, false) : NULL;
  if (value == NULL || value->dtype != TN_I64)
    tn__lexer_fail(&p->lex, &t, "expected a whole number, not %s", shown(p, &t));
  tn__lexer_advance(&p->lex);
  return value->value.i;
}

static const tn__written_expr *parse_call(parser *p, const tn__token *at) {
  tn__written_expr *e = new_expr(p, TN__WRITTEN_CALL, at);
  do {
    if (e->arg_count == 2) tn__lexer_fail(&p->lex, &p->lex.token, "a function takes one value or two");
    if (p->lex.token.kind == TN__TOKEN_STRING) { /* the name of a loop */
      e->args[e->arg_count++] = new_expr(p, TN__WRITTEN_NAME_OF, &p->lex.token);
      tn__lexer_advance(&p->lex);
    } else {
      const tn__written_expr *arg = parse_expr(p);
      e->args[e->arg_count++] = arg;
    }
  } while (tn__lexer_take(&p->lex, ","));
  tn__lexer_expect(&p->lex, ")", "after the values of a function");
  return e;
}

static const tn__written_expr *parse_unary(parser *p) {
  tn__token at = p->lex.token;
  if (at.kind == TN__TOKEN_NUMBER) {
    int64_t value = whole_number(p);
    tn__written_expr *e = new_expr(p, TN__WRITTEN_NUMBER, &at);
    e->value = value;
    return e;
  }
  if (tn__lexer_take(&p->lex, "?")) {
    tn__written_expr *e = new_expr(p, TN__WRITTEN_OPEN, &at);
    if (p->block->open_count == TN__WRITTEN_OPENS)
      tn__lexer_fail(&p->lex, &at, "more than %d sizes to choose: name one by `let` where it stands for several",
                     TN__WRITTEN_OPENS);
    e->value = p->block->open_count++;
    return e;
  }
  if (at.kind == TN__TOKEN_NAME) {
    tn__lexer_advance(&p->lex);
    return tn__lexer_take(&p->lex, "(") ? parse_call(p, &at) : new_expr(p, TN__WRITTEN_NAME_OF, &at);
  }
  if (tn__lexer_take(&p->lex, "(")) {
    const tn__written_expr *inside = parse_expr(p);
    tn__lexer_expect(&p->lex, ")", "after an expression in parentheses");
    return inside;
  }
  if (tn__lexer_is(&p->lex, "-") || tn__lexer_is(&p->lex, "!")) {
    tn__lexer_advance(&p->lex);
    deeper(p, &at);
    tn__written_expr *e = new_expr(p, TN__WRITTEN_UNARY, &at);
    e->value = (unsigned char)*at.text;
    e->args[e->arg_count++] = parse_unary(p);
    p->depth--;
    return e;
  }
  tn__lexer_fail(&p->lex, &at, "expected a number or a name, not %s", shown(p, &at));
}

/* The operator that comes next, if it binds tighter than `above`. */
static const tn__operator_row *next_operator(const parser *p, int above) {
  static const char *const known[] = {"||", "&&", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"};
  const tn__operator_row *op = NULL;
  for (size_t i = 0; i < sizeof known / sizeof known[0] && op == NULL; i++)
    if (p->lex.token.kind == TN__TOKEN_SIGN && tn__lexer_is(&p->lex, known[i]))
      op = tn__ir_operator_at(p->lex.token.text, p->lex.token.length);
  return op != NULL && op->precedence > above ? op : NULL;
}

static const tn__written_expr *parse_above(parser *p, int above) {
  deeper(p, &p->lex.token);
  const tn__written_expr *left = parse_unary(p);
  int operators = 0;
  for (const tn__operator_row *op; (op = next_operator(p, above)) != NULL;) {
    tn__token at = p->lex.token;
    if (++operators > TN__WRITTEN_DEPTH) tn__lexer_fail(&p->lex, &at, "more than %d operators", TN__WRITTEN_DEPTH);
    tn__lexer_advance(&p->lex);
    tn__written_expr *e = new_expr(p, TN__WRITTEN_BINARY, &at);
    e->op = op;
    e->args[0] = left;
    e->args[1] = parse_above(p, op->precedence);
    e->arg_count = 2;
    left = e;
  }
  p->depth--;
  return left;
}

static const tn__written_expr *parse_expr(parser *p) { return parse_above(p, 0); }

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* What was expected at the place that the reader came farthest to, with the rows that have the statement's word. */
typedef struct farthest {
  tn__token at;
  const char *expected;
} farthest;

static bool missing(const parser *p, farthest *f, const char *expected) {
  const tn__token *t = &p->lex.token;
  if (f->expected != NULL && t->text < f->at.text) return false;
  bool same = f->expected != NULL && t->text == f->at.text && strcmp(f->expected, expected) != 0;
  f->expected = same ? tn__arena_printf(p->arena, "%s or %s", f->expected, expected) : expected;
  f->at = *t;
  return false;
}

static const char *operand_name(char kind) {
  switch (kind) {
    case 'l':
    case 'L': return "a loop";
    case 'b':
    case 'o': return "a block";
    case 't':
    case 'i': return "a tensor";
    case 's': return "a scope (workspace, stack, register or shared)";
    case 'm': return "a memory of the device (global, texture, ...)";
    default: return "a word";
  }
}

static bool take_name(parser *p, tn__written_operand *o, farthest *f) {
  tn__token t = p->lex.token;
  if (t.kind != TN__TOKEN_NAME && t.kind != TN__TOKEN_STRING) return missing(p, f, operand_name(o->kind));
  size_t length = t.length - (t.kind == TN__TOKEN_STRING ? 2 : 0);
  if (length > TN__WRITTEN_NAME)
    tn__lexer_fail(&p->lex, &t, "a name of %zu characters; at most %d are allowed", length, TN__WRITTEN_NAME);
  if (tn__written_name(p->arena, &t) == NULL)
    tn__lexer_fail(&p->lex, &t, "this can be no name: it has characters that are not printed, '\"' or '\\'");
  tn__lexer_advance(&p->lex);
  tn__vec_push(p->arena, &o->names, t);
  return true;
}

static void take_number(parser *p, tn__written_operand *o) {
  if (o->numbers.count == TN__WRITTEN_NUMBERS)
    tn__lexer_fail(&p->lex, &p->lex.token, "more than %d numbers", TN__WRITTEN_NUMBERS);
  const tn__written_expr *value = parse_expr(p);
  tn__vec_push(p->arena, &o->numbers, value);
}

/* "by" size { "," size } | "exactly" size { "," size }; a size of the former may be "rest". */
static bool take_sizes(parser *p, tn__written_operand *o, farthest *f) {
  o->exactly = tn__lexer_take(&p->lex, "exactly");
  if (!o->exactly && !tn__lexer_take(&p->lex, "by")) return missing(p, f, "'by' or 'exactly'");
  do {
    tn__token at = p->lex.token;
    if (!o->exactly && tn__lexer_take(&p->lex, "rest"))
      tn__vec_push(p->arena, &o->numbers, new_expr(p, TN__WRITTEN_REST, &at));
    else
      take_number(p, o);
  } while (tn__lexer_take(&p->lex, ","));
  return true;
}

/* DIM [ "/" number ] [ "%" number ] { "," ... } as triples. */
static void take_layout(parser *p, tn__written_operand *o) {
  do {
    const char *const signs[] = {NULL, "/", "%"};
    for (int i = 0; i < 3; i++) {
      tn__token at = p->lex.token;
      bool given = i == 0 || tn__lexer_take(&p->lex, signs[i]);
      tn__written_expr *e = new_expr(p, TN__WRITTEN_NUMBER, &at);
      e->value = given ? whole_number(p) : i == 1;
      if (o->numbers.count == TN__WRITTEN_NUMBERS)
        tn__lexer_fail(&p->lex, &at, "more than %d dimensions", TN__MAX_RANK);
      tn__vec_push(p->arena, &o->numbers, e);
    }
  } while (tn__lexer_take(&p->lex, ","));
}

static bool take_operand(parser *p, tn__written_operand *o, farthest *f) {
  o->at = p->lex.token;
  switch (o->kind) {
    case 'n': take_number(p, o); return true;
    case 'N':
      do take_number(p, o);
      while (tn__lexer_take(&p->lex, ","));
      return true;
    case 'f': return take_sizes(p, o, f);
    case 'p': take_layout(p, o); return true;
    case 'i':
      if (!tn__lexer_take(&p->lex, "input")) return take_name(p, o, f);
      take_number(p, o);
      return true;
    case 'o':
      if (!take_name(p, o, f)) return false;
      if (tn__lexer_take(&p->lex, "output")) take_number(p, o);
      return true;
    case 'L':
      do {
        if (o->names.count == TN__MAX_LOOPS)
          tn__lexer_fail(&p->lex, &p->lex.token, "more than %d loops", TN__MAX_LOOPS);
        if (!take_name(p, o, f)) return false;
      } while (tn__lexer_take(&p->lex, ","));
      return true;
    default: return take_name(p, o, f);
  }
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* The next word of a pattern. */
static const char *next_word(parser *p, const char **pattern) {
  while (**pattern == ' ') (*pattern)++;
  const char *start = *pattern;
  while (**pattern != ' ' && **pattern != 0) (*pattern)++;
  return *pattern == start ? NULL : tn__arena_strndup(p->arena, start, (size_t)(*pattern - start));
}

static bool match(parser *p, const tn__written_row *row, tn__written_stmt *s, farthest *f) {
  const char *pattern = row->pattern;
  s->row = row;
  s->operand_count = 0;
  for (const char *word; (word = next_word(p, &pattern)) != NULL;) {
    if (word[0] != '%') {
      if (!tn__lexer_take(&p->lex, word)) return missing(p, f, tn__arena_printf(p->arena, "'%s'", word));
      continue;
    }
    tn__written_operand *o = &s->operands[s->operand_count++];
    *o = (tn__written_operand){.kind = word[1], .slot = word[2] == 0 ? 0 : word[2] - '0'};
    if (!take_operand(p, o, f)) return false;
  }
  return true;
}

static void take_as(parser *p, tn__written_stmt *s) {
  do {
    tn__token t = p->lex.token;
    if (t.kind != TN__TOKEN_NAME || t.length > TN__WRITTEN_NAME)
      tn__lexer_fail(&p->lex, &t, "expected a name for a loop, not %s", shown(p, &t));
    if (s->as.count == 2 * TN__MAX_FACTORS) tn__lexer_fail(&p->lex, &t, "more than %d new loops", 2 * TN__MAX_FACTORS);
    tn__lexer_advance(&p->lex);
    tn__vec_push(p->arena, &s->as, t);
  } while (tn__lexer_take(&p->lex, ","));
}

static void parse_step(parser *p, tn__written_stmt *s) {
  tn__lexer begin = p->lex;
  farthest f = {0};
  for (const tn__written_row *row = tn__written_rows; row->step != NULL; row++) {
    const char *pattern = row->pattern, *word = next_word(p, &pattern);
    p->lex = begin;
    if (!tn__lexer_is(&p->lex, word)) continue;
    if (!match(p, row, s, &f)) continue;
    bool named = row->makes != TN__WRITTEN_NOTHING && row->makes != TN__WRITTEN_BLOCK;
    if (named && tn__lexer_take(&p->lex, "as")) take_as(p, s);
    while (row->makes == TN__WRITTEN_BLOCK && tn__lexer_take(&p->lex, ",")) {
      tn__written_operand *o = &s->operands[0];
      if (o->names.count == TN__MAX_LOOPS) tn__lexer_fail(&p->lex, &p->lex.token, "more than %d loops", TN__MAX_LOOPS);
      if (!take_name(p, o, &f)) tn__lexer_fail(&p->lex, &f.at, "expected a loop, not %s", shown(p, &f.at));
    }
    return;
  }
  if (f.expected == NULL)
    tn__lexer_fail(&p->lex, &begin.token, "expected a statement, not %s; statements begin with %s",
                   shown(p, &begin.token), tn__written_words);
  tn__lexer_fail(&p->lex, &f.at, "expected %s, not %s", f.expected, shown(p, &f.at));
}

/* "choose" "the" "rest" [ "with" decision value { "," decision value } ]; a decision may have several words. */
static void parse_choose(parser *p, tn__written_stmt *s) {
  s->kind = TN__WRITTEN_CHOOSE;
  tn__lexer_expect(&p->lex, "the", "behind 'choose'");
  tn__lexer_expect(&p->lex, "rest", "behind 'choose the'");
  if (!tn__lexer_take(&p->lex, "with")) return;
  do {
    tn__written_decision d = {.at = p->lex.token, .name = ""};
    while (p->lex.token.kind == TN__TOKEN_NAME) {
      const tn__token *t = &p->lex.token;
      if (strlen(d.name) + t->length > TN__WRITTEN_NAME) tn__lexer_fail(&p->lex, &d.at, "this names no decision");
      d.name = tn__arena_printf(p->arena, "%s%s%.*s", d.name, d.name[0] != 0 ? " " : "", (int)t->length, t->text);
      tn__lexer_advance(&p->lex);
    }
    if (d.name[0] == 0)
      tn__lexer_fail(&p->lex, &d.at, "expected a decision and its value, as in 'rows 14', not %s", shown(p, &d.at));
    if (s->decisions.count == TN__MAX_DECISIONS) tn__lexer_fail(&p->lex, &d.at, "more decisions than a rule has");
    d.value = parse_expr(p);
    tn__vec_push(p->arena, &s->decisions, d);
  } while (tn__lexer_take(&p->lex, ","));
}

static void parse_stmts(parser *p, tn__written_stmts *out);

/* "if" condition "{" statements "}" [ "else" ( if | "{" statements "}" ) ] */
static void parse_if(parser *p, tn__written_stmt *s) {
  s->kind = TN__WRITTEN_IF;
  deeper(p, &s->at);
  s->value = parse_expr(p);
  tn__lexer_expect(&p->lex, "{", "behind the condition");
  parse_stmts(p, &s->then);
  if (tn__lexer_take(&p->lex, "else")) {
    tn__token at = p->lex.token;
    if (tn__lexer_take(&p->lex, "if")) {
      tn__written_stmt *inner = TN__NEW(p->arena, tn__written_stmt);
      inner->at = at;
      parse_if(p, inner);
      tn__vec_push(p->arena, &s->otherwise, inner);
    } else {
      tn__lexer_expect(&p->lex, "{", "behind 'else'");
      parse_stmts(p, &s->otherwise);
    }
  }
  p->depth--;
}

/* "let" name "=" value */
static void parse_let(parser *p, tn__written_stmt *s) {
  s->kind = TN__WRITTEN_LET;
  take_as(p, s);
  if (s->as.count != 1) tn__lexer_fail(&p->lex, &s->as.data[1], "'let' names one size");
  tn__lexer_expect(&p->lex, "=", "before the size");
  s->value = parse_expr(p);
}

/* Up to the closing brace. Semicolons may stand behind statements. */
static void parse_stmts(parser *p, tn__written_stmts *out) {
  for (;;) {
    while (tn__lexer_take(&p->lex, ";")) continue;
    if (tn__lexer_take(&p->lex, "}")) return;
    tn__token at = p->lex.token;
    if (at.kind == TN__TOKEN_END) tn__lexer_expect(&p->lex, "}", "at the end of the schedule");
    if (++p->stmts > TN__WRITTEN_STMTS) tn__lexer_fail(&p->lex, &at, "more than %d statements", TN__WRITTEN_STMTS);
    tn__written_stmt *s = TN__NEW(p->arena, tn__written_stmt);
    s->at = at;
    if (tn__lexer_take(&p->lex, "if"))
      parse_if(p, s);
    else if (tn__lexer_take(&p->lex, "let"))
      parse_let(p, s);
    else if (tn__lexer_take(&p->lex, "choose"))
      parse_choose(p, s);
    else
      parse_step(p, s);
    tn__vec_push(p->arena, out, s);
  }
}

/* The text of a target: what stands together without blanks, up to a comma or a brace. */
static tn__token take_target(parser *p) {
  tn__token t = p->lex.token;
  if (t.kind != TN__TOKEN_NAME && t.kind != TN__TOKEN_STRING)
    tn__lexer_fail(&p->lex, &t, "expected a target, as in 'on x86-64-v4', not %s", shown(p, &t));
  tn__lexer_advance(&p->lex);
  if (t.kind == TN__TOKEN_STRING) {
    t.text++;
    t.length -= 2;
  }
  while (t.kind == TN__TOKEN_NAME && p->lex.token.kind != TN__TOKEN_END && p->lex.token.text == t.text + t.length &&
         !tn__lexer_is(&p->lex, ",") && !tn__lexer_is(&p->lex, "{")) {
    t.length += p->lex.token.length;
    tn__lexer_advance(&p->lex);
  }
  return t;
}

/* [ "schedule" ] "for" kernel [ "on" target { "," target } ] "{" statements "}" */
static void parse_block(parser *p) {
  tn__written_block *b = p->block = TN__NEW(p->arena, tn__written_block);
  b->of = p->written;
  if (!tn__lexer_take(&p->lex, "schedule") && !tn__lexer_is(&p->lex, "for"))
    tn__lexer_fail(&p->lex, &p->lex.token, "expected 'schedule for KERNEL', not %s", shown(p, &p->lex.token));
  tn__lexer_expect(&p->lex, "for", "behind 'schedule'");
  b->kernel = p->lex.token;
  b->name = tn__written_name(p->arena, &b->kernel);
  if (b->name == NULL) tn__lexer_fail(&p->lex, &b->kernel, "expected a kernel, not %s", shown(p, &b->kernel));
  tn__lexer_advance(&p->lex);
  if (tn__lexer_take(&p->lex, "on")) do {
      tn__token target = take_target(p);
      tn__target parsed;
      tn_status *unknown = tn__target_parse(tn__arena_strndup(p->arena, target.text, target.length), &parsed);
      if (unknown != NULL) tn__throw(p->arena->escape, tn__lexer_place(&p->lex, &target, unknown));
      tn__vec_push(p->arena, &b->targets, target);
    } while (tn__lexer_take(&p->lex, ","));
  tn__lexer_expect(&p->lex, "{", "before the schedule's statements");
  p->block->stmt_count = -p->stmts;
  parse_stmts(p, &b->stmts);
  p->block->stmt_count += p->stmts;
  tn__vec_push(p->arena, &p->written->blocks, b);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

typedef struct job {
  tn__written *written;
  int line;
} job;

static void run(locale_t locale, void *user) {
  job *j = user;
  tn__written *w = j->written;
  parser p = {.arena = w->arena, .written = w};
  tn__lexer_open(&p.lex, tn__ir_create(w->arena), w->name, w->text, (size_t)(w->end - w->text), locale);
  p.lex.line = j->line;
  tn__lexer_advance(&p.lex);
  while (p.lex.token.kind != TN__TOKEN_END) parse_block(&p);
  if (w->blocks.count == 0) tn__lexer_fail(&p.lex, &p.lex.token, "there is no schedule in this text");
}

tn_status *tn__written_parse(tn__arena *arena, const char *name, const char *text, size_t length, int line,
                             const tn__written **out) {
  *out = NULL;
  if (length > TN__WRITTEN_TEXT)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: %zu bytes of text; at most %d are allowed", name, length,
                            (int)TN__WRITTEN_TEXT);
  tn__written *w = TN__NEW(arena, tn__written);
  char *copy = tn__arena_alloc(arena, length + 1);
  if (length > 0) memcpy(copy, text, length);
  size_t skipped = strncmp(copy, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* how some editors begin a text */
  w->arena = arena;
  w->name = tn__arena_strdup(arena, name);
  w->text = copy + skipped;
  w->end = copy + length;
  job j = {w, line};
  TN_RETURN_IF_ERROR(tn__lexer_read(arena, name, run, &j));
  *out = w;
  return NULL;
}
