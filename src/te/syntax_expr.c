/* Expressions of .te text to syntax trees. */
#include <stdio.h>
#include <string.h>

#include "ir/scalar.h"
#include "te/syntax.h"

enum { MAX_NESTING = 200, MAX_DEPTH = 400, MAX_LIST = 64 };

typedef TN__VEC(const tn__syn *) syn_vec;

static const tn__syn *parse_level(tn__syn_parser *p, int precedence);

bool tn__te_token_is(const tn__token *t, const char *text) {
  return t->length == strlen(text) && memcmp(t->text, text, t->length) == 0;
}

const char *tn__syn_reducer(int index) {
  static const char *const words[] = {"sum", "prod",   "max",         "min",    "any",
                                      "all", "argmax", "argmax_last", "argmin", "argmin_last"};
  return index < (int)(sizeof(words) / sizeof(words[0])) ? words[index] : NULL;
}

bool tn__syn_is_reducer(const tn__token *name) {
  const char *word;
  for (int i = 0; (word = tn__syn_reducer(i)) != NULL; i++)
    if (tn__te_token_is(name, word)) return true;
  return false;
}

static void enter(tn__syn_parser *p) {
  if (++p->nesting > MAX_NESTING)
    tn__lexer_fail(&p->lex, &p->lex.token, "nested more than %d levels deep", MAX_NESTING);
}

static tn__syn *new_syn(tn__syn_parser *p, tn__syn_kind kind, const tn__token *at, const tn__syn *const *args,
                        int count) {
  tn__syn *s = TN__NEW(p->arena, tn__syn);
  s->kind = kind;
  s->at = *at;
  s->arg_count = count;
  if (count > 0) s->args = tn__arena_copy(p->arena, args, (size_t)count * sizeof(args[0]));
  for (int i = 0; i < count; i++)
    if (args[i]->depth >= s->depth) s->depth = args[i]->depth + 1;
  if (s->depth > MAX_DEPTH) tn__lexer_fail(&p->lex, at, "an expression of more than %d levels", MAX_DEPTH);
  return s;
}

static void push(tn__syn_parser *p, syn_vec *list, const tn__syn *s) {
  if (list->count == MAX_LIST) tn__lexer_fail(&p->lex, &s->at, "more than %d values", MAX_LIST);
  tn__vec_push(p->arena, list, s);
}

/* expr { "," expr } close */
static void parse_list(tn__syn_parser *p, syn_vec *list, const char *close, const char *where) {
  while (!tn__lexer_is(&p->lex, close)) {
    if (list->count > 0) tn__lexer_expect(&p->lex, ",", where);
    push(p, list, parse_level(p, 0));
  }
  tn__lexer_advance(&p->lex);
}

tn_dtype tn__syn_dtype(tn__syn_parser *p) {
  tn__token t = p->lex.token;
  tn_dtype dtype = t.kind == TN__TOKEN_NAME ? tn__ir_dtype_find(t.text, t.length) : TN_DTYPE_INVALID;
  if (dtype == TN_DTYPE_INVALID) tn__lexer_fail(&p->lex, &t, "expected a type, such as f32 or i64");
  tn__lexer_advance(&p->lex);
  return dtype;
}

/* What stands in the place of an axis: a number is meant to say something of one position. */
static _Noreturn void refuse_index(tn__syn_parser *p, const tn__token *at, const char *close, const char *what) {
  tn__lexer ahead = p->lex;
  tn__lexer_advance(&ahead);
  bool one = at->kind == TN__TOKEN_NUMBER && (tn__lexer_is(&ahead, ",") || tn__lexer_is(&ahead, close));
  tn__lexer_fail(&p->lex, at, "%s are names: an element is given for every position%s%.*s%s", what,
                 one ? "; what is different at one is select(i == " : "", one ? (int)at->length : 0, at->text,
                 one ? ", ..., ...), with a name i for the axis" : "");
}

void tn__syn_axes(tn__syn_parser *p, const char *close, const char *what, const tn__syn_axis **out, int *count) {
  TN__VEC(tn__syn_axis) list = {0};
  while (!tn__lexer_is(&p->lex, close)) {
    if (list.count > 0) tn__lexer_expect(&p->lex, ",", "between axes");
    tn__token at = p->lex.token;
    if (at.kind == TN__TOKEN_NUMBER || tn__lexer_is(&p->lex, "-") || tn__lexer_is(&p->lex, "("))
      refuse_index(p, &at, close, what);
    tn__syn_axis axis = {.name = tn__lexer_name(&p->lex, "an axis")};
    bool stated = tn__lexer_take(&p->lex, ":");
    if (stated && tn__lexer_is(&p->lex, "?") && close[0] != ']')
      tn__lexer_fail(&p->lex, &p->lex.token, "only the extent of a tensor's axis can follow from what is read of it");
    axis.open = stated && tn__lexer_take(&p->lex, "?");
    if (stated && !axis.open) axis.extent = parse_level(p, 0);
    tn__token dots = p->lex.token;
    if (axis.extent != NULL && tn__lexer_take(&p->lex, "..")) {
      axis.end = parse_level(p, 0);
      if (close[0] == ']') tn__lexer_fail(&p->lex, &dots, "axes of a tensor run from 0 on");
    }
    if (!tn__lexer_is(&p->lex, ",") && !tn__lexer_is(&p->lex, close))
      tn__lexer_fail(&p->lex, &p->lex.token, "%s are names: an element is given for every position", what);
    for (int i = 0; i < list.count; i++)
      if (tn__te_token_same(&list.data[i].name, &axis.name))
        tn__lexer_fail(&p->lex, &axis.name, "the axis %.*s is named twice", (int)axis.name.length, axis.name.text);
    if (list.count == TN__MAX_RANK) tn__lexer_fail(&p->lex, &axis.name, "more than %d axes", TN__MAX_RANK);
    tn__vec_push(p->arena, &list, axis);
  }
  tn__lexer_advance(&p->lex);
  *out = list.data;
  *count = list.count;
}

void tn__syn_shape(tn__syn_parser *p, tn__syn_param *param) {
  syn_vec shape = {0};
  parse_list(p, &shape, "]", "between dimensions");
  if (shape.count > TN__MAX_RANK)
    tn__lexer_fail(&p->lex, &param->name, "%.*s has %d dimensions; at most %d are allowed", (int)param->name.length,
                   param->name.text, shape.count, TN__MAX_RANK);
  param->rank = shape.count;
  param->shape = shape.data;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Do the next tokens read NAME SIGN? The lexer stays where it is. */
static bool comes(const tn__syn_parser *p, const char *first, const char *sign) {
  tn__lexer ahead = p->lex;
  if (first != NULL && !tn__lexer_take(&ahead, first)) return false;
  if (ahead.token.kind != TN__TOKEN_NAME) return false;
  tn__lexer_advance(&ahead);
  return tn__lexer_is(&ahead, sign);
}

/* Words of the expression language that are operations and never names of things. */
static bool is_operation(const tn__token *t) {
  static const char *const words[] = {"min", "max", "select"};
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    if (tn__te_token_is(t, words[i])) return true;
  return tn__intrinsic_find(t->text, t->length) >= 0;
}

/* Behind "[": passes over everything up to and with its "]", if it is near. */
static void skip_brackets(tn__lexer *lex) {
  enum { NEAR = 256 };
  for (int open = 1, i = 0; open > 0 && i < NEAR && lex->token.kind != TN__TOKEN_END; tn__lexer_advance(lex), i++) {
    if (tn__lexer_is(lex, "{") || tn__lexer_is(lex, "}")) return;
    open += tn__lexer_is(lex, "[") - tn__lexer_is(lex, "]");
  }
}

bool tn__syn_stmt_comes(const tn__syn_parser *p) {
  tn__lexer ahead = p->lex;
  ahead.lenient = true;
  for (int targets = 0; targets < 4; targets++) {
    if (ahead.token.kind != TN__TOKEN_NAME) return false;
    tn__lexer_advance(&ahead);
    if (tn__lexer_take(&ahead, ":")) tn__lexer_advance(&ahead);
    if (tn__lexer_take(&ahead, "[")) skip_brackets(&ahead);
    if (!tn__lexer_take(&ahead, ",")) break;
  }
  return tn__lexer_is(&ahead, "=");
}

bool tn__syn_word_comes(const tn__syn_parser *p, const char *word) {
  tn__lexer ahead = p->lex;
  ahead.lenient = true;
  return tn__lexer_take(&ahead, word) && ahead.token.kind == TN__TOKEN_NAME;
}

/* "let" and a name, or several in parentheses. */
static bool let_comes(const tn__syn_parser *p) {
  tn__lexer ahead = p->lex;
  ahead.lenient = true;
  return tn__syn_word_comes(p, "let") || (tn__lexer_take(&ahead, "let") && tn__lexer_is(&ahead, "("));
}

bool tn__syn_item_comes(const tn__syn_parser *p) {
  static const char *const words[] = {"kernel", "unchecked", "function", "const", "schedule"};
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    if (tn__syn_word_comes(p, words[i])) return tn__lexer_begins_line(&p->lex);
  return tn__syn_import_comes(p) && tn__lexer_begins_line(&p->lex);
}

bool tn__syn_import_comes(const tn__syn_parser *p) {
  tn__lexer ahead = p->lex;
  ahead.lenient = true;
  return tn__lexer_take(&ahead, "import") && ahead.token.kind == TN__TOKEN_STRING;
}

/* Behind "name(...)", where `ahead` is: is it followed by an expression, as only a reduction is? */
static bool term_comes(const tn__syn_parser *p, const tn__lexer *ahead) {
  tn__syn_parser there = *p;
  there.lex = *ahead;
  if (tn__lexer_begins_line(ahead)) return false; /* rather what comes next */
  if (ahead->token.kind == TN__TOKEN_NUMBER || tn__lexer_is(ahead, "(") || tn__lexer_is(ahead, "!")) return true;
  if (ahead->token.kind != TN__TOKEN_NAME || tn__lexer_is(ahead, "then") || tn__lexer_is(ahead, "from")) return false;
  if (tn__lexer_is(ahead, "in")) return false; /* behind the value of a let */
  return !let_comes(&there) && !tn__syn_word_comes(&there, "extern") && !tn__syn_word_comes(&there, "combiner") &&
         !tn__syn_stmt_comes(&there);
}

/* Behind a name: is "(k: ...) ..." a reduction? Of the words that are no other operation, "(k, l)" is one too, and so
 * it is of others, whose name is then not known, where an expression follows. */
static bool reduction_comes(const tn__syn_parser *p, const tn__token *name) {
  if (!tn__lexer_is(&p->lex, "(")) return false;
  if (comes(p, "(", ":")) return true;
  bool known = tn__syn_is_reducer(name);
  for (int i = 0; i < p->combiners.count; i++) known |= tn__te_token_same(&p->combiners.data[i], name);
  tn__lexer ahead = p->lex;
  ahead.lenient = true;
  tn__lexer_advance(&ahead);
  for (int names = 1;; names++) {
    if (ahead.token.kind != TN__TOKEN_NAME) return false;
    tn__lexer_advance(&ahead);
    if (tn__lexer_is(&ahead, ":")) return known;
    if (tn__lexer_take(&ahead, ")"))
      return known ? names == 1 || !(tn__te_token_is(name, "max") || tn__te_token_is(name, "min"))
                   : !is_operation(name) && term_comes(p, &ahead);
    if (!tn__lexer_take(&ahead, ",")) return false;
  }
}

/* Behind the terms of a reduction: where they go, rather than a tensor of that name? */
static bool into_comes(const tn__syn_parser *p) {
  return comes(p, NULL, "[") && tn__lexer_is(&p->lex, "into") && !tn__syn_stmt_comes(p);
}

static const tn__syn *parse_reduce(tn__syn_parser *p, const tn__token *name) {
  const tn__syn_axis *axes;
  int count;
  tn__lexer_expect(&p->lex, "(", "after the reduction's name");
  tn__syn_axes(p, ")", "the axes of a reduction", &axes, &count);
  if (count == 0) tn__lexer_fail(&p->lex, name, "a reduction over no axis");
  const tn__syn *args[3] = {parse_level(p, 0)};
  int arg_count = 1;
  if (into_comes(p)) {
    syn_vec places = {0};
    tn__token at = p->lex.token;
    tn__lexer_advance(&p->lex);
    tn__lexer_advance(&p->lex);
    parse_list(p, &places, "]", "between indices");
    args[arg_count++] = new_syn(p, TN__SYN_TUPLE, &at, places.data, places.count);
    if (tn__lexer_take(&p->lex, "from")) args[arg_count++] = parse_level(p, 0);
  }
  tn__syn *s = new_syn(p, TN__SYN_REDUCE, name, args, arg_count);
  s->axes = axes;
  s->axis_count = count;
  return s;
}

static const tn__syn *parse_cast(tn__syn_parser *p, const tn__token *at, bool bits) {
  tn_dtype dtype = TN_DTYPE_INVALID;
  if (!bits) dtype = tn__syn_dtype(p);
  tn__lexer_expect(&p->lex, "(", bits ? "after bitcast" : "after a type");
  if (bits) {
    dtype = tn__syn_dtype(p);
    tn__lexer_expect(&p->lex, ",", "before argument 2 of bitcast");
  }
  const tn__syn *arg = parse_level(p, 0);
  tn__lexer_expect(&p->lex, ")", bits ? "after the arguments of bitcast" : "after the value of a conversion");
  tn__syn *s = new_syn(p, TN__SYN_CAST, at, &arg, 1);
  s->dtype = dtype;
  s->bits = bits;
  return s;
}

static const tn__syn *parse_word(tn__syn_parser *p) {
  tn__token t = p->lex.token;
  if (tn__ir_dtype_find(t.text, t.length) != TN_DTYPE_INVALID) return parse_cast(p, &t, false);
  if (tn__lexer_take(&p->lex, "bitcast")) return parse_cast(p, &t, true);
  if (tn__te_token_is(&t, "true") || tn__te_token_is(&t, "false") || tn__te_token_is(&t, "inf") ||
      tn__te_token_is(&t, "nan")) {
    tn__lexer_advance(&p->lex);
    return new_syn(p, TN__SYN_NAME, &t, NULL, 0);
  }
  bool operation = is_operation(&t);
  if (operation)
    tn__lexer_advance(&p->lex);
  else
    t = tn__lexer_name(&p->lex, "a tensor, axis or dimension");
  if (reduction_comes(p, &t)) return parse_reduce(p, &t);
  syn_vec args = {0};
  const tn__syn_axis *dims = NULL;
  int dim_count = 0;
  if (!operation && tn__lexer_is(&p->lex, "[") && comes(p, "[", "=")) { /* kernel[N = 3](...) */
    TN__VEC(tn__syn_axis) list = {0};
    tn__lexer_advance(&p->lex);
    while (!tn__lexer_take(&p->lex, "]")) {
      if (list.count > 0) tn__lexer_expect(&p->lex, ",", "between dimensions");
      tn__syn_axis dim = {.name = tn__lexer_name(&p->lex, "a dimension")};
      tn__lexer_expect(&p->lex, "=", "after the dimension's name");
      dim.extent = parse_level(p, 0);
      tn__vec_push(p->arena, &list, dim);
    }
    dims = list.data;
    dim_count = list.count;
    if (!tn__lexer_is(&p->lex, "(")) tn__lexer_expect(&p->lex, "(", "after the dimensions of a call");
  }
  if (tn__lexer_is(&p->lex, "(")) {
    tn__lexer_advance(&p->lex);
    parse_list(p, &args, ")", "between arguments");
    bool takes_values = tn__te_token_is(&t, "max") || tn__te_token_is(&t, "min");
    if (args.count == 1 && tn__syn_is_reducer(&t) && !takes_values)
      tn__lexer_fail(&p->lex, &t,
                     "behind %.*s stand the axes that it runs over, names as in (k) or (k: n); what it leaves out is a "
                     "select in its term",
                     (int)t.length, t.text);
    tn__syn *s = new_syn(p, TN__SYN_CALL, &t, args.data, args.count);
    s->axes = dims;
    s->axis_count = dim_count;
    return s;
  }
  if (operation) tn__lexer_expect(&p->lex, "(", "after the name of an operation");
  if (!tn__lexer_take(&p->lex, "[")) return new_syn(p, TN__SYN_NAME, &t, NULL, 0);
  parse_list(p, &args, "]", "between indices");
  return new_syn(p, TN__SYN_ACCESS, &t, args.data, args.count);
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */

static const tn__syn *parse_parens(tn__syn_parser *p, const tn__token *at) {
  syn_vec list = {0};
  push(p, &list, parse_level(p, 0));
  if (tn__lexer_take(&p->lex, ")")) return list.data[0];
  while (tn__lexer_take(&p->lex, ",")) push(p, &list, parse_level(p, 0));
  tn__lexer_expect(&p->lex, ")",
                   list.count > 1 ? "after the values in parentheses" : "after the expression in parentheses");
  return new_syn(p, TN__SYN_TUPLE, at, list.data, list.count);
}

static const tn__syn *parse_let_value(tn__syn_parser *p) {
  tn__lexer_expect(&p->lex, "=", "between a name and the value that it stands for");
  return parse_level(p, 0);
}

const tn__syn *tn__syn_let(tn__syn_parser *p, tn__token *name, tn_dtype *dtype) {
  *name = tn__lexer_name(&p->lex, "a value");
  *dtype = TN_DTYPE_INVALID;
  if (tn__lexer_take(&p->lex, ":")) *dtype = tn__syn_dtype(p);
  return parse_let_value(p);
}

enum { MOST_TARGETS = 4 };

/* name [ ":" type ] [ "[" axes "]" ], or several of them in parentheses, all with the axes of the first. Without axes
 * `s` becomes a let, else tensors of a step. */
static void parse_let_targets(tn__syn_parser *p, tn__syn *s) {
  tn__syn_param *targets = TN__NEW_ARRAY(p->arena, MOST_TARGETS, tn__syn_param);
  bool several = tn__lexer_take(&p->lex, "(");
  do {
    if (s->target_count == MOST_TARGETS) tn__lexer_fail(&p->lex, &p->lex.token, "let names at most 4 tensors at once");
    tn__syn_param *target = &targets[s->target_count];
    *target = (tn__syn_param){.name = tn__lexer_name(&p->lex, "a value"), .dtype = TN_DTYPE_INVALID};
    if (tn__lexer_take(&p->lex, ":")) target->dtype = tn__syn_dtype(p);
    const tn__syn_axis *axes = NULL;
    int count = 0;
    bool has_axes = (several && s->target_count > 0) || s->kind == TN__SYN_STEP;
    if (tn__lexer_is(&p->lex, "[") || has_axes || several) {
      tn__lexer_expect(&p->lex, "[", "before the axes of a tensor in a step");
      tn__syn_axes(p, "]", "the indices on the left", &axes, &count);
      s->kind = TN__SYN_STEP;
    }
    bool same = s->target_count == 0 || count == s->axis_count;
    for (int i = 0; same && i < count && s->target_count > 0; i++)
      same = tn__te_token_same(&axes[i].name, &s->axes[i].name);
    if (!same) tn__lexer_fail(&p->lex, &target->name, "the tensors of one statement have the same axes");
    if (s->target_count++ > 0) continue;
    s->axes = axes;
    s->axis_count = count;
  } while (several && tn__lexer_take(&p->lex, ","));
  if (several) tn__lexer_expect(&p->lex, ")", "after the tensors that let names");
  s->targets = targets;
}

/* target "=" value { "," target "=" value } "in" expr, which is everything to the right; behind "let" or ",". Each
 * value may use the names before it. */
static const tn__syn *parse_let(tn__syn_parser *p) {
  tn__syn_axis *named = TN__NEW(p->arena, tn__syn_axis);
  const tn__syn *args[2];
  tn__syn head = {.kind = TN__SYN_LET};
  enter(p);
  parse_let_targets(p, &head);
  args[0] = parse_let_value(p);
  if (tn__lexer_take(&p->lex, ",")) {
    args[1] = parse_let(p);
  } else {
    tn__lexer_expect(&p->lex, "in", "between the values of let and the expression that uses them");
    args[1] = parse_level(p, 0);
  }
  p->nesting--;
  tn__syn *s = new_syn(p, head.kind, &head.targets[0].name, args, 2);
  s->dtype = head.targets[0].dtype;
  named->name = head.targets[0].name;
  s->axes = head.kind == TN__SYN_LET ? named : head.axes;
  s->axis_count = head.kind == TN__SYN_LET ? 1 : head.axis_count;
  s->targets = head.targets;
  s->target_count = head.target_count;
  return s;
}

static const tn__syn *parse_unary(tn__syn_parser *p) {
  tn__token t = p->lex.token;
  const tn__syn *s;
  enter(p);
  if (tn__lexer_take(&p->lex, "-")) {
    tn__token number = p->lex.token;
    if (number.kind == TN__TOKEN_NUMBER) {
      tn__syn *literal = new_syn(p, TN__SYN_NUMBER, &number, NULL, 0);
      literal->negative = true;
      tn__lexer_advance(&p->lex);
      s = literal;
    } else {
      const tn__syn *arg = parse_unary(p);
      s = new_syn(p, TN__SYN_NEGATE, &t, &arg, 1);
    }
  } else if (tn__lexer_take(&p->lex, "!")) {
    const tn__syn *arg = parse_unary(p);
    s = new_syn(p, TN__SYN_NOT, &t, &arg, 1);
  } else if (tn__lexer_take(&p->lex, "(")) {
    s = parse_parens(p, &t);
  } else if (t.kind == TN__TOKEN_NUMBER) {
    s = new_syn(p, TN__SYN_NUMBER, &t, NULL, 0);
    tn__lexer_advance(&p->lex);
  } else if (let_comes(p)) {
    tn__lexer_advance(&p->lex);
    s = parse_let(p);
  } else if (t.kind == TN__TOKEN_NAME && !tn__syn_item_comes(p)) {
    s = parse_word(p);
  } else if (tn__lexer_is(&p->lex, "*")) {
    tn__lexer_fail(&p->lex, &t, "expected an expression, not *; a power is pow(x, y), a square x * x");
  } else {
    tn__lexer_fail(&p->lex, &t, "expected an expression");
  }
  p->nesting--;
  return s;
}

/* Behind its first operand: { op operand }. */
static const tn__syn *parse_comparison(tn__syn_parser *p, const tn__syn *first) {
  syn_vec operands = {0};
  TN__VEC(const tn__operator_row *) ops = {0};
  tn__token at = p->lex.token;
  push(p, &operands, first);
  for (;;) {
    tn__token t = p->lex.token;
    const tn__operator_row *op = t.kind == TN__TOKEN_SIGN ? tn__ir_operator_at(t.text, t.length) : NULL;
    if (op == NULL || op->precedence != TN__PRECEDENCE_COMPARISON) break;
    tn__lexer_advance(&p->lex);
    tn__vec_push(p->arena, &ops, op);
    push(p, &operands, parse_level(p, TN__PRECEDENCE_COMPARISON + 1));
  }
  tn__syn *s = new_syn(p, TN__SYN_COMPARE, &at, operands.data, operands.count);
  s->ops = ops.data;
  return s;
}

/* Operators that bind at least as tightly as `precedence`. */
static const tn__syn *parse_level(tn__syn_parser *p, int precedence) {
  const tn__syn *s = parse_unary(p);
  for (;;) {
    tn__token t = p->lex.token;
    const tn__operator_row *op = t.kind == TN__TOKEN_SIGN ? tn__ir_operator_at(t.text, t.length) : NULL;
    if (tn__lexer_is(&p->lex, "?")) tn__lexer_fail(&p->lex, &t, "a choice is written select(condition, a, b)");
    if (op == NULL || strlen(op->text) != t.length || op->precedence < precedence) return s;
    enter(p);
    if (op->precedence == TN__PRECEDENCE_COMPARISON) {
      s = parse_comparison(p, s);
    } else {
      tn__lexer_advance(&p->lex);
      const tn__syn *args[2] = {s, parse_level(p, op->precedence + 1)};
      tn__syn *binary = new_syn(p, TN__SYN_BINARY, &t, args, 2);
      binary->op = op;
      s = binary;
    }
    p->nesting--;
  }
}

const tn__syn *tn__syn_expr(tn__syn_parser *p) { return parse_level(p, 0); }

/* "scan" "(" [ "-" ] axis [ "," depth ] ")" [ first "then" ] update */
const tn__syn *tn__syn_scan(tn__syn_parser *p) {
  tn__token at = p->lex.token;
  tn__lexer_advance(&p->lex);
  tn__lexer_expect(&p->lex, "(", "after scan");
  tn__syn_axis *axis = TN__NEW(p->arena, tn__syn_axis);
  bool backwards = tn__lexer_take(&p->lex, "-");
  axis->name = tn__lexer_name(&p->lex, "the axis of a scan");
  int64_t depth = 1;
  if (tn__lexer_take(&p->lex, ",")) {
    tn__token number = p->lex.token;
    const tn__expr *value = number.kind == TN__TOKEN_NUMBER ? tn__lexer_number(&p->lex, &number, false) : NULL;
    if (value == NULL || !tn__ir_as_int(value, &depth) || depth > INT32_MAX)
      tn__lexer_fail(&p->lex, &number, "expected how many positions a scan starts with, a number");
    tn__lexer_advance(&p->lex);
  }
  tn__lexer_expect(&p->lex, ")", "after the axis of a scan");
  const tn__syn *args[2];
  int count = 0;
  args[count++] = parse_level(p, 0);
  if (depth > 0) {
    tn__lexer_expect(&p->lex, "then", "between the first values of a scan and those that follow");
    args[count++] = parse_level(p, 0);
  }
  tn__syn *s = new_syn(p, TN__SYN_SCAN, &at, args, count);
  s->axes = axis;
  s->axis_count = 1;
  s->scan_depth = depth;
  s->negative = backwards;
  return s;
}
