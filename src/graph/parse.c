/* The text form back into a graph (docs/graph.md has the grammar). Every error names its line and column. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "graph/internal.h"
#include "graph/text.h"
#include "ir/parse.h"
#include "ir/scalar.h"

enum {
  MOST_NAMED = 1 << 16, /* symbols, which are looked for one by one */
  MOST_AHEAD = 256      /* tokens that tell what comes: there may be many places to ask at */
};

typedef struct scope scope;

typedef struct reader {
  tn__parser parser; /* the lexer, and the symbols that expressions may name */
  tn__ir *ir;
  tn__arena *arena;
  const tn__graph_read_options *options;
  bool *dim_used; /* by dimension of the options */
  bool making;    /* what throws is the graph, which does not know the place */
  tn__token making_at;
  tn__errors errors;
  tn__map broken; /* names in statements that were not understood: what is said of them follows from that */
} reader;

/* The symbols of a value, which may be declared before it. */
typedef struct owner {
  TN__VEC(tn__symbol *) symbols;
} owner;

/* A graph that is being read. */
struct scope {
  reader *r;
  tn__graph *graph;
  bool outermost;
  tn__map values; /* by the name that the text gives them */
  tn__map owners; /* by the value's name */
  int declared;   /* symbols, when the first node comes; -1: none has come */
};

typedef struct written_type {
  tn__token at;
  tn__value_holds holds;
  tn_dtype dtype;
  int rank, item_rank;
  const tn__expr *dims[TN__MAX_RANK];
  tn__held held; /* rank -1: none */
  const tn__expr *held_dims[TN__MAX_RANK];
  const char *place; /* NULL: none is said */
} written_type;

#define FAIL(s, at, ...) tn__lexer_fail(&(s)->r->parser.lex, at, __VA_ARGS__)

static tn__lexer *lexer_of(const scope *s) { return &s->r->parser.lex; }

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static int hex_value(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* The bytes of a string token, with a NUL behind them. */
static char *take_bytes(scope *s, const char *what, size_t *length) {
  tn__token t = lexer_of(s)->token;
  if (t.kind != TN__TOKEN_STRING) FAIL(s, &t, "expected %s in quotes", what);
  char *out = tn__arena_alloc(s->r->arena, t.length);
  *length = 0;
  for (size_t i = 1; i + 1 < t.length; i++) {
    char c = t.text[i];
    if (c == '\\') {
      c = t.text[++i];
      int high = c == 'x' && i + 3 < t.length ? hex_value(t.text[i + 1]) : -1;
      int low = high >= 0 ? hex_value(t.text[i + 2]) : -1;
      if (c == 'x' && low < 0) FAIL(s, &t, "\\x is followed by two digits of a byte, as in \\x0a");
      if (c == 'x') {
        c = (char)(high << 4 | low);
        i += 2;
      } else if (c == 'n' || c == 't') {
        c = c == 'n' ? '\n' : '\t';
      } else if (c != '"' && c != '\\') {
        FAIL(s, &t, "the escapes of a string are \\\", \\\\, \\n, \\t and \\x with two digits");
      }
    }
    out[(*length)++] = c;
  }
  tn__lexer_advance(lexer_of(s));
  return out;
}

static const char *take_string(scope *s, const char *what) {
  tn__token t = lexer_of(s)->token;
  size_t length;
  const char *text = take_bytes(s, what, &length);
  if (strlen(text) != length) FAIL(s, &t, "a zero byte in %s", what);
  return text;
}

/* A name as it is, or in quotes. */
static const char *take_name(scope *s, const char *what) {
  tn__token t = lexer_of(s)->token;
  if (t.kind == TN__TOKEN_STRING) return take_string(s, what);
  if (t.kind != TN__TOKEN_NAME) FAIL(s, &t, "expected %s", what);
  if (t.length == 1 && t.text[0] == '_') FAIL(s, &t, "_ stands for an operand that is absent; it names nothing");
  tn__lexer_advance(lexer_of(s));
  return tn__arena_strndup(s->r->arena, t.text, t.length);
}

static bool is_number(const tn__token *t) { return t->kind == TN__TOKEN_NUMBER; }

/* A whole number of type i64. */
static int64_t take_int(scope *s, const char *what) {
  tn__lexer *lex = lexer_of(s);
  tn__token at = lex->token;
  bool negative = tn__lexer_take(lex, "-");
  tn__token t = lex->token;
  const tn__expr *number = is_number(&t) ? tn__lexer_number(lex, &t, negative) : NULL;
  int64_t value;
  if (number == NULL || number->dtype != TN_I64 || !tn__ir_as_int(number, &value))
    FAIL(s, &at, "expected %s, a whole number", what);
  tn__lexer_advance(lex);
  return value;
}

static int take_index(scope *s, const char *what) {
  tn__token at = lexer_of(s)->token;
  int64_t value = take_int(s, what);
  if (value < 0 || value > INT32_MAX) FAIL(s, &at, "expected %s, a whole number from 0 on", what);
  return (int)value;
}

/* A number that may have a fraction; inf and nan are some. */
static double take_double(scope *s, const char *what) {
  tn__lexer *lex = lexer_of(s);
  tn__token at = lex->token;
  bool negative = tn__lexer_take(lex, "-");
  double value = 0;
  tn__token t = lex->token;
  if (is_number(&t)) {
    const tn__expr *number = tn__lexer_number(lex, &t, negative);
    if (number->kind == TN__EXPR_FLOAT && number->dtype == TN_F64)
      value = number->value.f;
    else if (number->dtype == TN_I64)
      value = (double)number->value.i;
    else
      FAIL(s, &at, "expected %s, a number without a type", what);
  } else if (tn__lexer_is(lex, "inf")) {
    value = negative ? -HUGE_VAL : HUGE_VAL;
  } else if (tn__lexer_is(lex, "nan")) {
    value = (double)NAN;
  } else {
    FAIL(s, &at, "expected %s, a number", what);
  }
  tn__lexer_advance(lex);
  return value;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static tn__value *take_value(scope *s, const char *what) {
  tn__token at = lexer_of(s)->token;
  const char *name = take_name(s, what);
  tn__value *value = tn__map_get(&s->values, name);
  if (value == NULL && tn__map_has(&s->r->broken, name)) tn__errors_follow(&s->r->errors, s->r->arena);
  if (value == NULL) FAIL(s, &at, "nothing before this place is called %s", name);
  return value;
}

static const char *take_new_name(scope *s, const char *what) {
  tn__token at = lexer_of(s)->token;
  const char *name = take_name(s, what);
  if (tn__map_has(&s->values, name)) FAIL(s, &at, "the name %s is taken already", name);
  return name;
}

/* Is a symbol that was declared before the value one that a run can read? */
static void check_source(scope *s, const tn__token *at, const tn__symbol *symbol, const tn__value *value) {
  bool control = value->producer != NULL && value->producer->op->lowering != TN__LOWER_DECLARE;
  bool dimension = symbol->source == TN__SYMBOL_INPUT_DIM;
  if (value->data != NULL) FAIL(s, at, "%s is a constant: symbols are read from what a run tells", value->name);
  if (value->holds != TN__HOLDS_TENSOR)
    FAIL(s, at, "%s is no tensor, and symbol %s is read from it", value->name, symbol->var->name);
  if (dimension && value->producer != NULL && !control)
    FAIL(s, at, "%s is made by %s, whose sizes are known before it runs: symbol %s cannot be one of them", value->name,
         value->producer->op->name, symbol->var->name);
  if (dimension && symbol->index >= value->rank)
    FAIL(s, at, "%s has no dimension %d for symbol %s", value->name, symbol->index, symbol->var->name);
  if (dimension) return;
  int count = tn__g_element_count(value->rank, value->dims);
  if (!tn__dtype_is_int(value->dtype) && value->dtype != TN_BOOL)
    FAIL(s, at, "%s is of type %s: symbols are elements of integers", value->name, tn_dtype_name(value->dtype));
  if (symbol->index >= count)
    FAIL(s, at, "%s has no element %d for symbol %s that could be read as a size: it may have up to %d", value->name,
         symbol->index, symbol->var->name, TN__MAX_ELEMENTS);
}

/* The elements that are symbols are so from now on, when all others are known. */
static void set_elements(scope *s, tn__value *value, const owner *o) {
  int count = tn__g_element_count(value->rank, value->dims), known = 0;
  const tn__expr **elements = TN__NEW_ARRAY(s->r->arena, count < 0 ? 0 : count, const tn__expr *);
  for (int i = 0; i < count && value->elements != NULL; i++) elements[i] = value->elements[i];
  bool any = false;
  for (int i = 0; i < o->symbols.count; i++) {
    if (o->symbols.data[i]->source != TN__SYMBOL_ELEMENT) continue;
    elements[o->symbols.data[i]->index] = o->symbols.data[i]->var->self;
    any = true;
  }
  while (known < count && elements[known] != NULL) known++;
  if (any) value->elements = known == count ? elements : NULL;
}

/* Gives a value, or one more symbol of it, what is read from it. */
static void attach(scope *s, const tn__token *at, tn__value *value) {
  const owner *o = tn__map_get(&s->owners, value->name);
  if (o == NULL) return;
  for (int i = 0; i < o->symbols.count; i++) {
    check_source(s, at, o->symbols.data[i], value);
    tn__symbol_set_value(s->graph, o->symbols.data[i], value);
  }
  set_elements(s, value, o);
}

static void define(scope *s, const tn__token *at, const char *name, tn__value *value) {
  tn__map_set(&s->values, name, value);
  attach(s, at, value);
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

static const tn__expr *bound_dim(scope *s, const char *name) {
  const tn__graph_read_options *o = s->r->options;
  for (int i = 0; i < o->dim_count && s->outermost; i++) {
    if (strcmp(o->dims[i].name, name) != 0) continue;
    s->r->dim_used[i] = true;
    return tn__ir_index(s->r->ir, o->dims[i].size);
  }
  return NULL;
}

/* `t` is what the text calls the symbol. */
static const tn__expr *declare_symbol(scope *s, const tn__token *t, const char *name, const tn__expr *min,
                                      const tn__expr *extent, tn__symbol_source source, const char *value, int index) {
  reader *r = s->r;
  tn__parse_name n = {.text = t->text, .length = t->length};
  if (source == TN__SYMBOL_INPUT_DIM) n.expr = bound_dim(s, name);
  if (r->parser.names.count == MOST_NAMED) FAIL(s, t, "more than %d symbols", MOST_NAMED);
  if (n.expr == NULL) {
    const tn__var *var = tn__var_create(r->ir, tn__arena_strdup(r->arena, name), TN_I64, min, extent);
    tn__symbol *symbol = tn__symbol_promise(s->graph, var, source, value, index);
    if (symbol == NULL)
      FAIL(s, t, "there is a symbol for %s %d of %s already", source == TN__SYMBOL_INPUT_DIM ? "dimension" : "element",
           index, value);
    owner *o = tn__map_get(&s->owners, value);
    if (o == NULL) tn__map_set(&s->owners, value, o = TN__NEW(r->arena, owner));
    tn__vec_push(r->arena, &o->symbols, symbol);
    if (source == TN__SYMBOL_INPUT_DIM && !tn__map_has(&s->graph->dim_names, var->name))
      tn__map_set(&s->graph->dim_names, var->name, symbol);
    n.expr = var->self;
  }
  tn__vec_push(r->arena, &r->parser.names, n);
  return n.expr;
}

/* symbol n "batch size" in [0, +64) = dimension 0 of x */
static void read_symbol(scope *s) {
  tn__lexer *lex = lexer_of(s);
  if (s->declared >= 0) FAIL(s, &lex->token, "symbols stand before the nodes");
  tn__token t = tn__lexer_name(lex, "a symbol");
  if (tn__ir_parse_find(&s->r->parser, &t) != NULL)
    FAIL(s, &t, "the symbol %.*s is there already", (int)t.length, t.text);
  const char *name = lex->token.kind == TN__TOKEN_STRING ? take_string(s, "the name of the symbol")
                                                         : tn__arena_strndup(s->r->arena, t.text, t.length);
  bool ranged = tn__lexer_is(lex, "in");
  const tn__expr *min = NULL, *extent = NULL;
  if (ranged) tn__ir_parse_range(&s->r->parser, &min, &extent);
  tn__lexer_expect(lex, "=", "before what the symbol is read from");
  bool dimension = tn__lexer_take(lex, "dimension");
  if (!dimension) tn__lexer_expect(lex, "element", "or 'dimension', which the symbol is");
  if (dimension && !ranged) min = tn__ir_index(s->r->ir, 0);
  int index = take_index(s, "its number");
  tn__lexer_expect(lex, "of", "after the number");
  const char *value = take_name(s, "the value that the symbol is read from");
  declare_symbol(s, &t, name, min, extent, dimension ? TN__SYMBOL_INPUT_DIM : TN__SYMBOL_ELEMENT, value, index);
  if (tn__map_has(&s->values, value)) attach(s, &t, tn__map_get(&s->values, value));
}

/* Throws when the expression has a symbol that is read from what comes later: `own` are the node's results. */
static void check_symbols(scope *s, const tn__token *at, const tn__expr *e) {
  int count;
  const uint32_t *vars = tn__expr_vars(e, &count);
  for (int i = 0; i < count; i++) {
    const tn__symbol *symbol = tn__graph_symbol_of(s->graph, vars[i]);
    if (symbol != NULL && symbol->value == NULL)
      FAIL(s, at, "symbol %s is read from what comes later", symbol->var->name);
  }
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Is the next token a name that stands there alone? */
static bool is_lone_name(const scope *s) {
  tn__lexer ahead = *lexer_of(s);
  if (ahead.token.kind != TN__TOKEN_NAME) return false;
  tn__lexer_advance(&ahead);
  return tn__lexer_is(&ahead, ",") || tn__lexer_is(&ahead, "]");
}

/* `input`: the name of one, whose dimensions may introduce symbols; else NULL. */
static const tn__expr *read_dim(scope *s, const char *input, int axis) {
  tn__token t = lexer_of(s)->token;
  bool fresh = input != NULL && is_lone_name(s) && tn__ir_parse_find(&s->r->parser, &t) == NULL;
  if (!fresh) return tn__ir_parse_index(&s->r->parser, "a dimension");
  t = tn__lexer_name(lexer_of(s), "a dimension");
  const char *name = tn__arena_strndup(s->r->arena, t.text, t.length);
  return declare_symbol(s, &t, name, tn__ir_index(s->r->ir, 0), NULL, TN__SYMBOL_INPUT_DIM, input, axis);
}

/* of [768, 768] in {1/16, 0, 1%16}, or of i8[768, 768] in {1/16, 0/4, 1%16 | 0%4}, if it stands there */
static void read_held(scope *s, written_type *type) {
  tn__lexer *lex = lexer_of(s);
  type->held.rank = -1;
  if (type->holds != TN__HOLDS_TENSOR || !tn__lexer_take(lex, "of")) return;
  type->held.rank = 0;
  type->held.dtype = type->dtype;
  if (lex->token.kind == TN__TOKEN_NAME) {
    type->held.dtype = tn__ir_dtype_find(lex->token.text, lex->token.length);
    if (type->held.dtype == TN_DTYPE_INVALID) FAIL(s, &lex->token, "expected the type of what is held, such as i8");
    tn__lexer_advance(lex);
  }
  tn__lexer_expect(lex, "[", "before the dimensions of what is held");
  while (!tn__lexer_take(lex, "]")) {
    if (type->held.rank > 0) tn__lexer_expect(lex, ",", "between dimensions");
    if (type->held.rank == TN__MAX_RANK) FAIL(s, &lex->token, "more than %d dimensions", TN__MAX_RANK);
    type->held_dims[type->held.rank++] = read_dim(s, NULL, 0);
  }
  tn__lexer_expect(lex, "in", "before the layout");
  tn__lexer_expect(lex, "{", "before the parts of the layout");
  tn__layout *layout = &type->held.layout;
  while (!tn__lexer_take(lex, "}")) {
    if (layout->rank > 0) tn__lexer_expect(lex, ",", "between parts of the layout");
    if (layout->rank == TN__MAX_RANK) FAIL(s, &lex->token, "more than %d parts", TN__MAX_RANK);
    tn__layout_part *part = &layout->parts[layout->rank++];
    *part = (tn__layout_part){.dim = take_index(s, "a dimension"), .divisor = 1};
    if (tn__lexer_take(lex, "/")) part->divisor = take_int(s, "a divisor");
    if (tn__lexer_take(lex, "%")) part->modulus = take_int(s, "a modulus");
    if (!tn__lexer_take(lex, "|")) continue;
    layout->word.dim = take_index(s, "a dimension");
    tn__lexer_expect(lex, "%", "before the number of elements in a word");
    layout->word.count = take_int(s, "a number of elements");
    tn__lexer_expect(lex, "}", "after the words of the layout");
    return;
  }
}

/* f32[n, 3], sequence f32[?, ?], optional sequence i64[*], f32[48, 768, 16] of [768, 768] in {1/16, 0, 1%16} */
static written_type read_type(scope *s, const char *input) {
  tn__lexer *lex = lexer_of(s);
  written_type type = {.at = lex->token};
  bool optional = tn__lexer_take(lex, "optional"), sequence = tn__lexer_take(lex, "sequence");
  type.holds = optional && sequence ? TN__HOLDS_OPTIONAL_SEQUENCE
               : optional           ? TN__HOLDS_OPTIONAL
               : sequence           ? TN__HOLDS_SEQUENCE
                                    : TN__HOLDS_TENSOR;
  tn__token t = lex->token;
  type.dtype = t.kind != TN__TOKEN_NAME      ? TN_DTYPE_INVALID
               : tn__lexer_is(lex, "string") ? TN_STRING
                                             : tn__ir_dtype_find(t.text, t.length);
  if (type.dtype == TN_DTYPE_INVALID) FAIL(s, &t, "expected a type, such as f32[2, n]");
  tn__lexer_advance(lex);
  tn__lexer_expect(lex, "[", "before the dimensions");
  bool tensor = type.holds == TN__HOLDS_TENSOR, any = !tensor && tn__lexer_take(lex, "*");
  int rank = 0;
  while (!any && !tn__lexer_is(lex, "]")) {
    if (rank > 0) tn__lexer_expect(lex, ",", "between dimensions");
    if (rank == TN__MAX_RANK) FAIL(s, &lex->token, "more than %d dimensions", TN__MAX_RANK);
    if (tensor)
      type.dims[rank] = read_dim(s, input, rank);
    else
      tn__lexer_expect(lex, "?", "for a dimension of each tensor of a list");
    rank++;
  }
  tn__lexer_expect(lex, "]", "after the dimensions");
  type.rank = tensor ? rank : 0;
  type.item_rank = tensor ? 0 : any ? TN__ANY_RANK : rank;
  read_held(s, &type);
  tn__lexer ahead = *lex; /* a result may have this name */
  if (tn__lexer_take(&ahead, "on") && ahead.token.kind == TN__TOKEN_STRING && tn__lexer_take(lex, "on"))
    type.place = take_string(s, "a device in quotes, such as \"cpu:0\"");
  return type;
}

static tn__held held_of(const written_type *type) {
  return (tn__held){type->held.dtype, type->held.rank, type->held_dims, type->held.layout};
}

static const char *type_text(const scope *s, const written_type *type) {
  const tn__held held = held_of(type);
  tn__value like = {.holds = type->holds,
                    .item_rank = type->item_rank,
                    .dtype = type->dtype,
                    .rank = type->rank,
                    .dims = type->dims,
                    .held = held.rank < 0 ? NULL : &held};
  return tn__value_type_text(s->graph, &like);
}

/* May dimension `axis` be written as `dim`: is it so, or does a check say so? */
static bool may_be(const scope *s, const tn__value *value, int axis, const tn__expr *dim) {
  tn__ir *ir = s->r->ir;
  const tn__symbol *symbol = dim->kind == TN__EXPR_VAR ? tn__graph_symbol_of(s->graph, dim->value.var->id) : NULL;
  if (symbol != NULL && symbol->source == TN__SYMBOL_INPUT_DIM && symbol->value == value && symbol->index == axis)
    return true;
  const tn__expr *equal = tn__ir_eq(ir, value->dims[axis], dim);
  if (tn__ir_is_true(equal)) return true;
  for (int i = 0; i < s->graph->checks.count; i++)
    if (s->graph->checks.data[i].condition == equal) return true;
  return !tn__ir_is_false(equal) && tn__ir_prove(ir, equal);
}

/* What is inferred must be what is written, of whose ways to say the same the text's one stays. */
static void check_type(scope *s, tn__value *value, const written_type *type) {
  bool same = value->holds == type->holds && value->dtype == type->dtype && value->rank == type->rank &&
              (value->holds == TN__HOLDS_TENSOR || value->item_rank == type->item_rank);
  const tn__held held = held_of(type);
  same = same && tn__held_equal(value->held, held.rank < 0 ? NULL : &held);
  bool alike = true;
  for (int i = 0; i < value->rank && same; i++) {
    if (value->dims[i] == type->dims[i]) continue;
    same = may_be(s, value, i, type->dims[i]);
    alike = false;
  }
  if (!same)
    FAIL(s, &type->at, "%s is %s here, but %s makes %s", value->name, type_text(s, type), value->producer->op->name,
         tn__value_type_text(s->graph, value));
  for (int i = 0; i < value->rank; i++) check_symbols(s, &type->at, type->dims[i]);
  if (!alike) value->dims = tn__arena_copy(s->r->arena, type->dims, (size_t)type->rank * sizeof(*type->dims));
}

/* ---- inputs, outputs and checks ---------------------------------------------------------------------------------- */

static tn__extent read_extent(scope *s, const tn__value *value) {
  tn__lexer *lex = lexer_of(s);
  tn__extent extent = {0};
  if (!tn__lexer_take(lex, "valid")) return extent;
  extent.valid = tn__ir_parse_index(&s->r->parser, "the number of valid elements");
  tn__lexer_expect(lex, "along", "before the dimension that they are counted along");
  tn__token at = lex->token;
  extent.axis = take_index(s, "the dimension that they are counted along");
  if (extent.axis >= value->rank) FAIL(s, &at, "%s has no dimension %d", value->name, extent.axis);
  return extent;
}

/* Takes the word when it begins a statement: names of values are the same words. */
static bool take_keyword(scope *s, const char *word) {
  tn__lexer *lex = lexer_of(s);
  if (!tn__lexer_is(lex, word)) return false;
  tn__lexer ahead = *lex;
  tn__lexer_advance(&ahead);
  if (tn__lexer_is(&ahead, ":") || tn__lexer_is(&ahead, ",") || tn__lexer_is(&ahead, "=")) return false;
  tn__lexer_advance(lex);
  return true;
}

/* If --dim fixes other sizes than the default's, the input has no default. */
static void read_default(scope *s, tn__value *input) {
  tn__token at = lexer_of(s)->token;
  tn__value *fallback = take_value(s, "the constant that is the default");
  if (fallback->data == NULL || fallback->held != NULL || input->holds != TN__HOLDS_TENSOR ||
      fallback->dtype != input->dtype || fallback->rank != input->rank)
    FAIL(s, &at, "the default of %s is a constant of its type, which stands before it", input->name);
  bool fits = true;
  for (int i = 0; i < input->rank && fits; i++)
    fits = input->dims[i]->kind == TN__EXPR_VAR || input->dims[i] == fallback->dims[i];
  if (!fits && s->r->options->dim_count == 0)
    FAIL(s, &at, "the default %s of %s has other sizes", fallback->name, input->name);
  if (fits) input->fallback = fallback;
}

/* input x: f32[n, 3] default c0 */
static void read_input(scope *s) {
  tn__token at = lexer_of(s)->token;
  if (s->declared >= 0) FAIL(s, &at, "inputs stand before the nodes");
  const char *name = take_new_name(s, "the name of an input");
  tn__lexer_expect(lexer_of(s), ":", "after the name of the input");
  written_type type = read_type(s, name);
  if (type.held.rank >= 0) FAIL(s, &type.at, "an input is stored in row-major order, and not in a layout");
  s->r->making = true;
  s->r->making_at = at;
  tn__value *input = tn__graph_input(s->graph, name, type.dtype, type.rank, type.dims);
  s->r->making = false;
  input->holds = type.holds;
  input->place = type.place;
  input->item_rank = type.item_rank;
  define(s, &at, name, input);
  input->extent = read_extent(s, input);
  if (take_keyword(s, "default")) read_default(s, input);
}

/* output "y" = add4 */
static void read_output(scope *s) {
  tn__token at = lexer_of(s)->token;
  const char *name = take_string(s, "the name of an output");
  tn__lexer_expect(lexer_of(s), "=", "after the name of the output");
  tn__value *value = take_value(s, "the value that is the output");
  if (value->held != NULL) FAIL(s, &at, "a result is stored in row-major order, and not in a layout");
  s->r->making = true;
  s->r->making_at = at;
  tn__graph_output(s->graph, name, value);
  s->r->making = false;
  s->graph->outputs.data[s->graph->outputs.count - 1].extent = read_extent(s, value);
}

static const char *read_origin(scope *s) {
  return tn__lexer_take(lexer_of(s), "from") ? take_string(s, "the origin") : NULL;
}

/* check n == m, "dimension 0 is ", n, " and must be ", m from "node 5" */
static void read_check(scope *s) {
  tn__arena *arena = s->r->arena;
  tn__token at = lexer_of(s)->token;
  tn__check_at_run check = {.condition = tn__ir_parse_condition(&s->r->parser, "what is checked")};
  tn__lexer_expect(lexer_of(s), ",", "before the text that says what is wrong");
  TN__VEC(char) text = {0};
  do {
    bool string = lexer_of(s)->token.kind == TN__TOKEN_STRING;
    const char *part = string ? take_string(s, "the text")
                              : tn__g_size_mark(s->graph, tn__ir_parse_index(&s->r->parser, "a size in the text"));
    for (; *part != '\0'; part++) tn__vec_push(arena, &text, *part);
  } while (tn__lexer_take(lexer_of(s), ","));
  tn__vec_push(arena, &text, '\0');
  check.text = text.data;
  check.origin = read_origin(s);
  if (tn__ir_is_false(check.condition)) {
    tn__strbuf words;
    tn__strbuf_init(&words, arena->allocator);
    tn__graph_check_text(s->graph, &check, NULL, NULL, &words);
    FAIL(s, &at, "%s", tn__arena_take(arena, &words));
  }
  if (!tn__ir_is_true(check.condition)) tn__vec_push(arena, &s->graph->checks, check);
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

typedef struct contents {
  tn_dtype dtype;
  TN__VEC(uint64_t) elements; /* each in the first bytes of its own */
} contents;

static uint64_t take_integer(scope *s, tn_dtype dtype) {
  tn__lexer *lex = lexer_of(s);
  tn__token at = lex->token;
  uint64_t element = 0;
  if (dtype == TN_BOOL) {
    element = tn__lexer_is(lex, "true");
    if (element == 0 && !tn__lexer_is(lex, "false")) FAIL(s, &at, "expected true or false");
    tn__lexer_advance(lex);
    return element;
  }
  bool negative = tn__lexer_take(lex, "-");
  tn__token t = lex->token;
  char text[32] = "";
  bool digits = is_number(&t) && t.length < sizeof text;
  for (size_t i = 0; i < t.length && digits; i++) digits = t.text[i] >= '0' && t.text[i] <= '9';
  if (digits) memcpy(text, t.text, t.length);
  errno = 0;
  unsigned long long magnitude = strtoull(text, NULL, 10);
  int bits = tn__dtype_bits(dtype);
  uint64_t most = UINT64_MAX >> (64 - bits);
  if (tn__dtype_is_signed(dtype))
    most = (most >> 1) + (negative ? 1 : 0);
  else if (negative)
    most = 0;
  if (!digits || errno == ERANGE || magnitude > most)
    FAIL(s, &at, "expected a number of type %s", tn_dtype_name(dtype));
  tn__lexer_advance(lex);
  tn__store_i64(dtype, &element, 0, (int64_t)(negative ? 0 - (uint64_t)magnitude : (uint64_t)magnitude));
  return element;
}

static void take_element(scope *s, contents *c) {
  uint64_t element = 0;
  if (c->dtype == TN_STRING) {
    size_t length;
    const char *bytes = take_bytes(s, "a string", &length);
    const tn__text *text = tn__text_create(s->r->arena, bytes, length);
    memcpy(&element, &text, sizeof(const tn__text *)); /* a string is a reference to its text */
  } else if (tn__dtype_is_float(c->dtype)) {
    tn__token at = lexer_of(s)->token;
    double value = take_double(s, "an element");
    tn__store_f64(c->dtype, &element, 0, value);
    if (isinf(tn__load_f64(c->dtype, &element, 0)) && !isinf(value))
      FAIL(s, &at, "the number does not fit into %s", tn_dtype_name(c->dtype));
  } else {
    element = take_integer(s, c->dtype);
  }
  tn__vec_push(s->r->arena, &c->elements, element);
}

/* Strings of base64, one after the other. */
static const void *read_data(scope *s, size_t size) {
  tn__lexer *lex = lexer_of(s), ahead = *lex;
  tn__token at = lex->token;
  size_t room = 0, total = 0, length;
  for (; ahead.token.kind == TN__TOKEN_STRING; tn__lexer_advance(&ahead)) room += ahead.token.length / 4 * 3;
  if (at.kind != TN__TOKEN_STRING) FAIL(s, &at, "expected bytes as base64 in quotes");
  char *bytes = tn__arena_alloc(s->r->arena, room);
  for (tn__token t = at; t.kind == TN__TOKEN_STRING; t = lex->token) {
    if (!tn__base64_decode(t.text + 1, t.length - 2, bytes + total, &length)) FAIL(s, &t, "this is not base64");
    total += length;
    tn__lexer_advance(lex);
  }
  if (total != size) FAIL(s, &at, "%zu bytes for a constant of %zu", total, size);
  return bytes;
}

/* The elements, packed. */
static const void *read_elements(scope *s, tn_dtype dtype, int64_t count, bool list) {
  tn__token at = lexer_of(s)->token;
  contents c = {.dtype = dtype};
  if (list) tn__lexer_expect(lexer_of(s), "[", "before the elements");
  while (list ? !tn__lexer_is(lexer_of(s), "]") : c.elements.count == 0) {
    if (c.elements.count > 0) tn__lexer_expect(lexer_of(s), ",", "between elements");
    take_element(s, &c);
  }
  if (list) tn__lexer_advance(lexer_of(s));
  if (c.elements.count != count)
    FAIL(s, &at, "%d element%s for a constant of %lld", c.elements.count, tn__plural(c.elements.count),
         (long long)count);
  size_t size = tn__dtype_stored(dtype);
  char *data = tn__arena_alloc_array(s->r->arena, (size_t)count, size);
  for (int64_t i = 0; i < count; i++) memcpy(data + (size_t)i * size, &c.elements.data[i], size);
  return data;
}

/* const c2: f32[3] = [1.0, 2.0, 3.0], with one number for all, with bytes */
static void read_constant(scope *s) {
  tn__lexer *lex = lexer_of(s);
  tn__token at = lex->token;
  const char *name = take_new_name(s, "the name of a constant");
  tn__lexer_expect(lex, ":", "after the name of the constant");
  written_type type = read_type(s, NULL);
  int64_t shape[TN__MAX_RANK], count = 1;
  bool fits = type.holds == TN__HOLDS_TENSOR;
  for (int i = 0; i < type.rank && fits; i++)
    fits = tn__ir_as_int(type.dims[i], &shape[i]) && shape[i] >= 0 && !__builtin_mul_overflow(count, shape[i], &count);
  if (!fits || count > INT64_MAX / 16)
    FAIL(s, &type.at, "a constant is a tensor whose sizes are numbers, not %s", type_text(s, &type));
  tn__lexer_expect(lex, "=", "before what the constant holds");
  tn__token first = lex->token;
  if (tn__lexer_is(lex, "elided"))
    FAIL(s, &first, "what %s holds is left out of a text for people: `tenon compile --emit graph` writes all", name);
  bool splat = tn__lexer_take(lex, "splat"), list = tn__lexer_is(lex, "[");
  const void *data;
  if (type.dtype != TN_STRING && tn__lexer_take(lex, "data")) {
    splat = splat || type.rank == 0;
    data = read_data(s, (size_t)(splat ? 1 : count) * tn__dtype_stored(type.dtype));
  } else {
    splat = !list || type.rank == 0;
    data = read_elements(s, type.dtype, splat ? 1 : count, list);
  }
  s->r->making = true;
  s->r->making_at = at;
  tn__value *value = tn__g_constant_value(s->graph, type.dtype, type.rank, shape, data, splat);
  tn__value_set_name(s->graph, value, name);
  s->r->making = false;
  if (type.held.rank >= 0) {
    const tn__held held = held_of(&type);
    tn__value_hold(s->graph, value, &held);
    if (!tn__value_is_held(s->graph, value))
      FAIL(s, &type.at, "the sizes, the tensor and its layout do not belong together in %s", type_text(s, &type));
  }
  value->place = type.place;
  define(s, &at, name, value);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

typedef struct result_list {
  TN__VEC(const char *) names;
  TN__VEC(written_type) types; /* without a data type: not written */
} result_list;

typedef TN__VEC(tn__attr) attr_vec;

/* [0, 1] or [0.5] */
static tn__attr read_numbers(scope *s, const char *name, bool list) {
  tn__lexer *lex = lexer_of(s);
  TN__VEC(int64_t) ints = {0};
  TN__VEC(double) floats = {0};
  if (list) tn__lexer_advance(lex);
  while (list ? !tn__lexer_is(lex, "]") : ints.count + floats.count == 0) {
    if (ints.count + floats.count > 0) tn__lexer_expect(lex, ",", "between numbers");
    tn__lexer ahead = *lex;
    (void)tn__lexer_take(&ahead, "-");
    bool whole = is_number(&ahead.token) && tn__lexer_number(&ahead, &ahead.token, false)->dtype == TN_I64;
    bool first = ints.count + floats.count == 0;
    if (!first && whole != (ints.count > 0))
      FAIL(s, &lex->token, "numbers of an attribute are all whole (1) or all floating (1.0)");
    if (whole) {
      int64_t value = take_int(s, "a number");
      tn__vec_push(s->r->arena, &ints, value);
    } else {
      double value = take_double(s, "a number");
      tn__vec_push(s->r->arena, &floats, value);
    }
  }
  if (list) tn__lexer_advance(lex);
  if (floats.count == 0) return tn__attr_ints(s->graph, name, ints.data, ints.count);
  return (tn__attr){.name = name, .kind = TN__ATTR_FLOATS, .count = floats.count, .floats = floats.data};
}

/* (n, 3) */
static tn__attr read_exprs(scope *s, const char *name) {
  tn__lexer *lex = lexer_of(s);
  TN__VEC(const tn__expr *) exprs = {0};
  tn__lexer_advance(lex);
  while (!tn__lexer_is(lex, ")")) {
    if (exprs.count > 0) tn__lexer_expect(lex, ",", "between sizes");
    tn__token at = lex->token;
    const tn__expr *e = tn__ir_parse_index(&s->r->parser, "a size");
    check_symbols(s, &at, e);
    tn__vec_push(s->r->arena, &exprs, e);
  }
  tn__lexer_advance(lex);
  return tn__attr_exprs(s->graph, name, exprs.data, exprs.count);
}

/* {axis=1, pads=(n, 0), mode="linear"} */
static void read_attrs(scope *s, attr_vec *attrs) {
  tn__lexer *lex = lexer_of(s);
  while (!tn__lexer_is(lex, "}")) {
    if (attrs->count > 0) tn__lexer_expect(lex, ",", "between attributes");
    tn__token at = lex->token;
    const char *name = take_name(s, "the name of an attribute");
    for (int i = 0; i < attrs->count; i++)
      if (strcmp(attrs->data[i].name, name) == 0) FAIL(s, &at, "the attribute %s is there twice", name);
    tn__lexer_expect(lex, "=", "after the name of the attribute");
    tn__attr attr;
    if (lex->token.kind == TN__TOKEN_STRING)
      attr = tn__attr_string(s->graph, name, take_string(s, "a string"));
    else if (tn__lexer_is(lex, "("))
      attr = read_exprs(s, name);
    else
      attr = read_numbers(s, name, tn__lexer_is(lex, "["));
    tn__vec_push(s->r->arena, attrs, attr);
  }
  tn__lexer_advance(lex);
}

static void read_results(scope *s, result_list *out) {
  tn__lexer *lex = lexer_of(s);
  while (!tn__lexer_is(lex, "=")) {
    if (out->names.count > 0) tn__lexer_expect(lex, ",", "or '=' after a result");
    tn__token at = lex->token;
    const char *name = take_new_name(s, "the name of a result, or what begins a line of a graph");
    for (int i = 0; i < out->names.count; i++)
      if (strcmp(out->names.data[i], name) == 0) FAIL(s, &at, "the name %s is taken already", name);
    written_type type = {.at = at};
    if (tn__lexer_take(lex, ":")) type = read_type(s, NULL);
    tn__vec_push(s->r->arena, &out->names, name);
    tn__vec_push(s->r->arena, &out->types, type);
  }
  tn__lexer_advance(lex);
}

static const tn__op *read_op(scope *s, tn__token *at) {
  *at = lexer_of(s)->token;
  const char *name = take_name(s, "the name of an operator");
  const tn__op *op = tn__op_find(name);
  if (op == NULL) FAIL(s, at, "there is no operator %s; docs/operators.md lists them", name);
  return op;
}

typedef enum graph_kind { GRAPH_OUTERMOST, GRAPH_BODY, GRAPH_CARRIED } graph_kind;
static tn__graph *read_graph(reader *r, graph_kind kind);

/* The results of a node have their names and, where they are written, their types. */
static void define_results(scope *s, const tn__token *at, tn__node *node, const result_list *results) {
  if (node->output_count != results->names.count)
    FAIL(s, at, "%s makes %d result%s, and %d %s named", node->op->name, node->output_count,
         tn__plural(node->output_count), results->names.count, results->names.count == 1 ? "is" : "are");
  for (int i = 0; i < node->output_count; i++)
    define(s, &results->types.data[i].at, results->names.data[i], node->outputs[i]);
  for (int i = 0; i < node->output_count; i++)
    if (results->types.data[i].dtype != TN_DTYPE_INVALID) {
      check_type(s, node->outputs[i], &results->types.data[i]);
      node->outputs[i]->place = results->types.data[i].place;
    }
  const tn__attr *elements = tn__node_attr(node, "elements");
  if (tn__g_is_op(node, "from_elements") && elements != NULL && elements->count == 1)
    tn__graph_keep_long_dim(s->graph, elements->exprs[0], node->outputs[0]);
}

/* dot_general4: f32[n, 5] = dot_general(x, c2) {lhs_contract=[1], rhs_contract=[0]} from "node 3" */
static void read_node(scope *s) {
  tn__lexer *lex = lexer_of(s);
  tn__arena *arena = s->r->arena;
  result_list results = {0};
  attr_vec attrs = {0};
  TN__VEC(tn__value *) inputs = {0};
  TN__VEC(tn__graph *) graphs = {0};
  tn__token at;
  if (s->declared < 0) s->declared = s->graph->symbols.count;
  read_results(s, &results);
  const tn__op *op = read_op(s, &at);
  tn__lexer_expect(lex, "(", "before the operands");
  while (!tn__lexer_is(lex, ")")) {
    if (inputs.count > 0) tn__lexer_expect(lex, ",", "between operands");
    tn__token absent = lex->token;
    tn__value *value = tn__lexer_take(lex, "_") ? NULL : take_value(s, "an operand");
    if (value == NULL && op->max_inputs < 0) FAIL(s, &absent, "no operand of %s may be absent", op->name);
    tn__vec_push(arena, &inputs, value);
  }
  tn__lexer_advance(lex);
  if (tn__lexer_take(lex, "{")) read_attrs(s, &attrs);
  const char *origin = read_origin(s);
  while (tn__lexer_is(lex, "graph")) {
    bool carries = (op->facts & TN__FACT_BODY) != 0;
    if (op->lowering != TN__LOWER_CONTROL && !carries) FAIL(s, &lex->token, "%s has no bodies", op->name);
    tn__graph *body = read_graph(s->r, carries ? GRAPH_CARRIED : GRAPH_BODY);
    tn__vec_push(arena, &graphs, body);
  }
  tn__graph_set_origin(s->graph, origin);
  s->r->making = true;
  s->r->making_at = at;
  tn__node *node = tn__node_create_named(s->graph, op, inputs.data, inputs.count, attrs.data, attrs.count, graphs.data,
                                         graphs.count, results.names.data, results.names.count);
  s->r->making = false;
  define_results(s, &at, node, &results);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static void read_statement(scope *s) {
  tn__work_step(s->r->arena, 1);
  if (take_keyword(s, "input"))
    read_input(s);
  else if (take_keyword(s, "symbol"))
    read_symbol(s);
  else if (take_keyword(s, "check"))
    read_check(s);
  else if (take_keyword(s, "const"))
    read_constant(s);
  else if (take_keyword(s, "output"))
    read_output(s);
  else
    read_node(s);
}

static void check_promises(scope *s, const tn__token *end) {
  for (int i = 0; i < s->graph->symbols.count; i++) {
    const tn__symbol *symbol = s->graph->symbols.data[i];
    if (symbol->value == NULL)
      FAIL(s, end, "the graph ends, and nothing makes what symbol %s is read from", symbol->var->name);
  }
}

/* ---- going on after an error ------------------------------------------------------------------------------------- */

/* In an expression: a symbol that was not understood. */
static const tn__expr *broken_symbol(void *user, const tn__token *name) {
  reader *r = user;
  if (tn__map_has(&r->broken, tn__arena_strndup(r->arena, name->text, name->length)))
    tn__errors_follow(&r->errors, r->arena);
  return NULL;
}

/* Does a statement begin at the next token: with its word, with a result and its type, or with results up to '='? */
static bool statement_comes(const tn__lexer *lex) {
  static const char *const words[] = {"input", "symbol", "check", "const", "output"};
  tn__lexer ahead = *lex;
  bool word = false;
  if (lex->token.kind != TN__TOKEN_NAME && lex->token.kind != TN__TOKEN_STRING) return false;
  for (int i = 0; i < 5; i++) word = word || tn__lexer_is(lex, words[i]);
  tn__lexer_advance(&ahead);
  if (word || tn__lexer_is(&ahead, ":")) return true;
  for (int seen = 0; seen < MOST_AHEAD && tn__lexer_take(&ahead, ","); seen++)
    if (ahead.token.kind == TN__TOKEN_NAME || ahead.token.kind == TN__TOKEN_STRING) tn__lexer_advance(&ahead);
  return tn__lexer_is(&ahead, "=");
}

/* From the beginning of a statement that is not understood, over its bodies, to where the next one begins, on a line of
 * its own, or the graph ends. What it would have named, which is what stands before its '=', is known as broken. */
static void skip_statement(scope *s, const tn__lexer *begin) {
  tn__lexer *lex = lexer_of(s);
  const char *reached = lex->token.text;
  int open = 0;
  bool names = true;
  if (lex->token.kind == TN__TOKEN_END) return;
  *lex = *begin;
  lex->lenient = true;
  while (lex->token.kind != TN__TOKEN_END && (open > 0 || !tn__lexer_is(lex, "}"))) {
    const tn__token *t = &lex->token;
    bool past = t->text >= reached && t->text > begin->token.text, quoted = t->kind == TN__TOKEN_STRING;
    if (open == 0 && past && tn__lexer_begins_line(lex) && statement_comes(lex)) break;
    names = names && !tn__lexer_is(lex, "=");
    if (names && (t->kind == TN__TOKEN_NAME || (quoted && t->length >= 2))) {
      const char *name = tn__arena_strndup(s->r->arena, t->text + quoted, t->length - 2 * (size_t)quoted);
      if (!tn__map_has(&s->values, name)) tn__map_set(&s->r->broken, name, s);
    }
    open += tn__lexer_is(lex, "{") - tn__lexer_is(lex, "}");
    tn__lexer_advance(lex);
  }
  lex->lenient = false;
}

/* What the graph refuses is an error at the place of what it was asked to make. */
static void read_placed(tn__escape *escape, void *user) {
  scope *s = user;
  s->r->arena->escape = escape;
  read_statement(s);
}

static void read_part(void *user) {
  scope *s = user;
  reader *r = s->r;
  tn__escape escape, *outer = r->arena->escape;
  tn_status *status = tn__protect(&escape, read_placed, s);
  r->arena->escape = outer;
  if (status == NULL) return;
  if (!r->making || tn_status_code_of(status) != TN_INVALID_ARGUMENT) tn__throw(outer, status);
  tn__place place = {r->making_at.text, r->making_at.line, r->making_at.column};
  r->making = false;
  tn__errors_throw(&r->errors, r->arena, &place, status);
}

static tn__graph *read_graph(reader *r, graph_kind kind) {
  tn__parser *p = &r->parser;
  scope *s = TN__NEW(r->arena, scope);
  tn__parser outer = *p; /* a body sees no names from outside, but a composite's the symbols */
  int errors = r->errors.list.count;
  if (kind != GRAPH_CARRIED) memset(&p->names, 0, sizeof p->names);
  *s = (scope){.r = r, .outermost = kind == GRAPH_OUTERMOST, .declared = -1};
  tn__map_init(&s->values, r->arena);
  tn__map_init(&s->owners, r->arena);
  tn__ir_parse_enter(p);
  tn__lexer_expect(&p->lex, "graph", "at the start");
  s->graph = tn__graph_create(r->ir, take_string(s, "the name of the graph"));
  tn__lexer_expect(&p->lex, "{", "after the name of the graph");
  while (!tn__lexer_is(&p->lex, "}")) {
    bool ends = p->lex.token.kind == TN__TOKEN_END;
    if (ends && r->errors.list.count > errors) tn__errors_follow(&r->errors, r->arena);
    if (ends) tn__lexer_expect(&p->lex, "}", "at the end of the graph");
    tn__parser before = *p;
    if (tn__errors_attempt(&r->errors, r->arena, read_part, s)) continue;
    tn__lexer reached = p->lex;
    *p = before;
    p->lex = reached;
    skip_statement(s, &before.lex);
  }
  tn__token end = p->lex.token;
  tn__lexer_advance(&p->lex);
  if (r->errors.list.count > errors) tn__errors_follow(&r->errors, r->arena);
  check_promises(s, &end);
  if (s->declared >= 0) tn__graph_drop_symbols(s->graph, s->declared);
  tn__graph_set_origin(s->graph, NULL);
  p->nesting--;
  p->names.data = outer.names.data;
  p->names.count = outer.names.count;
  p->names.capacity = outer.names.capacity;
  return s->graph;
}

static void check_bindings(const reader *r) {
  const tn__graph_read_options *o = r->options;
  for (int i = 0; i < o->dim_count; i++)
    if (o->dims_used != NULL)
      o->dims_used[i] |= r->dim_used[i];
    else if (!r->dim_used[i])
      tn__throwf(r->arena->escape, TN_INVALID_ARGUMENT, "no dimension of an input is named \"%s\"", o->dims[i].name);
}

typedef struct job {
  reader reader;
  const char *name, *text;
  size_t length;
  tn__graph *graph;
} job;

static void run(locale_t locale, void *user) {
  job *j = user;
  reader *r = &j->reader;
  r->dim_used = TN__NEW_ARRAY(r->arena, r->options->dim_count, bool);
  r->parser = (tn__parser){.ir = r->ir, .arena = r->arena, .outside = broken_symbol, .user = r};
  r->errors = (tn__errors){.arena = r->arena, .name = j->name, .text = j->text, .end = j->text + j->length};
  tn__map_init(&r->broken, r->arena);
  tn__lexer_open(&r->parser.lex, r->ir, j->name, j->text, j->length, locale);
  r->parser.lex.errors = &r->errors;
  tn__lexer_advance(&r->parser.lex);
  tn__graph *graph = read_graph(r, GRAPH_OUTERMOST);
  tn__token end = r->parser.lex.token;
  if (end.kind != TN__TOKEN_END) tn__lexer_fail(&r->parser.lex, &end, "text after the end of the graph");
  check_bindings(r);
  tn__check(r->arena->escape, tn__graph_verify(graph));
  j->graph = graph;
}

tn_status *tn__graph_read(tn__ir *ir, const char *name, const char *text, size_t length,
                          const tn__graph_read_options *options, tn__graph **out) {
  static const tn__graph_read_options none;
  *out = NULL;
  tn__arena *arena = tn__ir_arena(ir);
  job j = {.reader = {.ir = ir, .arena = arena, .options = options != NULL ? options : &none},
           .name = name,
           .text = text,
           .length = length};
  tn_status *status = tn__lexer_read(arena, name, run, &j);
  if (status != NULL && j.reader.making) status = tn__lexer_place(&j.reader.parser.lex, &j.reader.making_at, status);
  status = tn__errors_status(&j.reader.errors, status);
  if (status == NULL) *out = j.graph;
  return status;
}

uint64_t tn__graph_text_structure(const char *text, size_t length) {
  enum { SHORT = 64, WEIGHT = 1000 };
  uint64_t strings = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] != '"') continue;
    size_t begin = ++i;
    while (i < length && text[i] != '"' && text[i] != '\n') i += text[i] == '\\' && i + 1 < length ? 2 : 1;
    if (i - begin > SHORT) strings += i - begin;
  }
  return length - strings + strings / WEIGHT;
}
