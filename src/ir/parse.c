/* The text form back into functions (docs/ir.md has the grammar). Every error names its line and column. */
#include "ir/parse.h"

#include <stdio.h>
#include <string.h>

#include "ir/context.h"

enum { MAX_TEXT = 64 << 20 };

static const tn__stmt *parse_body(tn__parser *p, const char *where);

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void declare(tn__parser *p, const tn__token *name, const tn__var *var, const tn__buffer *buffer) {
  tn__parse_name n = {.text = name->text, .length = name->length, .var = var, .buffer = buffer};
  tn__vec_push(p->arena, &p->names, n);
}

static tn__token new_name(tn__parser *p, const char *what) {
  tn__token t = tn__lexer_name(&p->lex, what);
  if (tn__ir_parse_find(p, &t) != NULL)
    tn__lexer_fail(&p->lex, &t, "the name %.*s is taken already", (int)t.length, t.text);
  return t;
}

static const char *text_of(tn__parser *p, const tn__token *t) {
  return tn__arena_strndup(p->arena, t->text, t->length);
}

typedef struct range {
  const tn__expr *min, *extent; /* NULL: not known */
} range;

/* in [min, +extent) */
static range parse_range(tn__parser *p, bool whole) {
  range r = {NULL, NULL};
  tn__lexer_expect(&p->lex, "in", "before the range");
  tn__lexer_expect(&p->lex, "[", "before the range");
  if (whole || !tn__lexer_take(&p->lex, "?")) r.min = tn__ir_parse_index(p, "the lower bound");
  tn__lexer_expect(&p->lex, ",", "after the lower bound");
  if (whole || !tn__lexer_take(&p->lex, "?")) {
    tn__lexer_expect(&p->lex, "+", "before the extent");
    r.extent = tn__ir_parse_index(p, "the extent");
  }
  tn__lexer_expect(&p->lex, ")", "after the range");
  return r;
}

void tn__ir_parse_range(tn__parser *p, const tn__expr **min, const tn__expr **extent) {
  range r = parse_range(p, false);
  *min = r.min;
  *extent = r.extent;
}

static const tn__var *new_var(tn__parser *p, const tn__token *name, tn_dtype dtype, range r) {
  const tn__var *var = tn__var_create(p->ir, text_of(p, name), dtype, r.min, r.extent);
  declare(p, name, var, NULL);
  return var;
}

static tn_dtype parse_type(tn__parser *p) {
  tn__token t = p->lex.token;
  tn_dtype dtype = t.kind == TN__TOKEN_NAME ? tn__ir_dtype_find(t.text, t.length) : TN_DTYPE_INVALID;
  if (dtype == TN_DTYPE_INVALID) tn__lexer_fail(&p->lex, &t, "expected a type");
  tn__lexer_advance(&p->lex);
  return dtype;
}

typedef struct buffer_head {
  tn__token name;
  tn_dtype dtype;
  const tn__expr *shape[TN__PARSE_MAX_RANK], *strides[TN__PARSE_MAX_RANK];
  int rank;
  bool has_strides;
} buffer_head;

/* [ "strides" "[" stride, ... "]" ]: of parameters. */
static void parse_strides(tn__parser *p, buffer_head *h) {
  tn__token at = p->lex.token;
  if (!tn__lexer_take(&p->lex, "strides")) return;
  h->has_strides = true;
  tn__lexer_expect(&p->lex, "[", "before the strides");
  for (int i = 0; i < h->rank; i++) {
    if (i > 0) tn__lexer_expect(&p->lex, ",", "between strides");
    h->strides[i] = tn__ir_parse_index(p, "a stride");
  }
  if (h->rank == 0) tn__lexer_fail(&p->lex, &at, "a tensor without dimensions has no strides");
  tn__lexer_expect(&p->lex, "]", "behind as many strides as the buffer has dimensions");
}

/* name: type[dimension, ...] */
static void parse_buffer_head(tn__parser *p, buffer_head *h) {
  h->name = new_name(p, "a buffer");
  tn__lexer_expect(&p->lex, ":", "after the buffer's name");
  h->dtype = parse_type(p);
  h->rank = 0;
  tn__lexer_expect(&p->lex, "[", "before the shape");
  while (!tn__lexer_is(&p->lex, "]")) {
    if (h->rank > 0) tn__lexer_expect(&p->lex, ",", "between dimensions");
    if (h->rank == TN__PARSE_MAX_RANK)
      tn__lexer_fail(&p->lex, &p->lex.token, "more than %d dimensions", TN__PARSE_MAX_RANK);
    h->shape[h->rank++] = tn__ir_parse_index(p, "a dimension");
  }
  tn__lexer_advance(&p->lex);
}

static const tn__buffer *new_buffer(tn__parser *p, const buffer_head *h, tn__scope scope) {
  tn__buffer *buffer = tn__buffer_create(p->ir, text_of(p, &h->name), h->dtype, scope, h->rank, h->shape);
  if (h->has_strides) tn__buffer_set_strides(p->ir, buffer, h->strides);
  declare(p, &h->name, NULL, buffer);
  return buffer;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

typedef TN__VEC(tn__block_axis) axis_vec;
typedef TN__VEC(tn__region) region_vec;

static void check_count(tn__parser *p, int count) {
  if (count >= TN__PARSE_MAX_LIST) tn__lexer_fail(&p->lex, &p->lex.token, "more than %d of them", TN__PARSE_MAX_LIST);
}

/* axis name: kind in [min, +extent) = binding */
static tn__block_axis parse_axis(tn__parser *p) {
  tn__token name = new_name(p, "an axis");
  tn__lexer_expect(&p->lex, ":", "after the axis's name");
  tn__token kind = p->lex.token;
  int which = kind.kind == TN__TOKEN_NAME ? tn__axis_kind_find(kind.text, kind.length) : -1;
  if (which < 0) tn__lexer_fail(&p->lex, &kind, "expected spatial, reduce or scan");
  tn__lexer_advance(&p->lex);
  range r = parse_range(p, true);
  tn__lexer_expect(&p->lex, "=", "before the axis's binding");
  const tn__expr *binding = tn__ir_parse_index(p, "the binding of an axis");
  return (tn__block_axis){.kind = (tn__axis_kind)which, .binding = binding, .var = new_var(p, &name, TN_I64, r)};
}

/* buffer[min:+extent, ...], ... */
static void parse_regions(tn__parser *p, region_vec *regions) {
  do {
    check_count(p, regions->count);
    const tn__buffer *buffer = tn__ir_parse_buffer(p);
    const tn__expr **min = TN__NEW_ARRAY(p->arena, buffer->rank, const tn__expr *);
    const tn__expr **extent = TN__NEW_ARRAY(p->arena, buffer->rank, const tn__expr *);
    tn__lexer_expect(&p->lex, "[", "after a buffer's name");
    for (int i = 0; i < buffer->rank; i++) {
      if (i > 0) tn__lexer_expect(&p->lex, ",", "between the dimensions of a region");
      min[i] = tn__ir_parse_index(p, "the start of a region");
      tn__lexer_expect(&p->lex, ":", "after the start of a region");
      tn__lexer_expect(&p->lex, "+", "before the extent of a region");
      extent[i] = tn__ir_parse_index(p, "the extent of a region");
    }
    tn__lexer_expect(&p->lex, "]", "after the dimensions of a region");
    tn__region r = {.buffer = buffer, .min = min, .extent = extent};
    tn__vec_push(p->arena, regions, r);
  } while (tn__lexer_take(&p->lex, ","));
}

static const tn__stmt *parse_block(tn__parser *p) {
  tn__token name = p->lex.token;
  if (name.kind != TN__TOKEN_STRING) tn__lexer_fail(&p->lex, &name, "expected the block's name in quotes");
  tn__block b = {.name = tn__lexer_string(&p->lex, &name), .predicate = tn__ir_bool(p->ir, true)};
  tn__lexer_advance(&p->lex);
  tn__lexer_expect(&p->lex, "{", "after the block's name");
  if (tn__lexer_take(&p->lex, "where")) b.predicate = tn__ir_parse_condition(p, "the predicate of a block");
  axis_vec axes = {0};
  region_vec reads = {0}, writes = {0};
  while (tn__lexer_take(&p->lex, "axis")) {
    check_count(p, axes.count);
    tn__block_axis axis = parse_axis(p);
    tn__vec_push(p->arena, &axes, axis);
  }
  if (tn__lexer_take(&p->lex, "reads")) parse_regions(p, &reads);
  if (tn__lexer_take(&p->lex, "writes")) parse_regions(p, &writes);
  if (tn__lexer_take(&p->lex, "init")) b.init = parse_body(p, "after init");
  b.body = tn__ir_parse_items(p, "at the end of the block");
  b.axes = axes.data;
  b.axis_count = axes.count;
  b.reads = reads.data;
  b.read_count = reads.count;
  b.writes = writes.data;
  b.write_count = writes.count;
  return tn__block_stmt(p->ir, &b);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* A whole number from `least` to `most`. */
static int64_t parse_number(tn__parser *p, int64_t least, int64_t most, const char *what) {
  tn__token t = p->lex.token;
  const tn__expr *number = t.kind == TN__TOKEN_NUMBER ? tn__lexer_number(&p->lex, &t, false) : NULL;
  int64_t value;
  if (number == NULL || number->dtype != TN_I64 || !tn__ir_as_int(number, &value) || value < least || value > most)
    tn__lexer_fail(&p->lex, &t, "expected %s", what);
  tn__lexer_advance(&p->lex);
  return value;
}

static void parse_pragma(tn__parser *p, tn__loop_pragmas *pragmas) {
  tn__token t = p->lex.token;
  int32_t most = 0;
  int which = t.kind == TN__TOKEN_NAME ? tn__loop_pragma_find(t.text, t.length, &most) : -1;
  if (which < 0) tn__lexer_fail(&p->lex, &t, "expected the key of a pragma: " TN__LOOP_PRAGMAS);
  tn__lexer_advance(&p->lex);
  pragmas->value[which] = (int32_t)parse_number(p, 0, most, "the value of a pragma in its range");
}

static const tn__stmt *parse_loop(tn__parser *p, tn__loop_kind kind) {
  tn__token name = new_name(p, "a loop's variable");
  range r = parse_range(p, true);
  tn__loop_pragmas pragmas = {{0}};
  while (tn__lexer_take(&p->lex, "pragma")) parse_pragma(p, &pragmas);
  const tn__var *var = new_var(p, &name, TN_I64, r);
  return tn__ir_for_with(p->ir, var, kind, &pragmas, parse_body(p, "after the loop's range"));
}

static const tn__stmt *parse_if(tn__parser *p) {
  const tn__expr *condition = tn__ir_parse_condition(p, "the condition of if");
  const tn__stmt *then_body = parse_body(p, "after the condition of if"), *else_body = NULL;
  if (tn__lexer_take(&p->lex, "else")) else_body = parse_body(p, "after else");
  return tn__ir_if(p->ir, condition, then_body, else_body);
}

static const tn__stmt *parse_let(tn__parser *p) {
  tn__token name = new_name(p, "a variable");
  tn__lexer_expect(&p->lex, ":", "after the variable's name");
  tn_dtype dtype = parse_type(p);
  range r = {NULL, NULL};
  if (tn__lexer_is(&p->lex, "in")) r = parse_range(p, false);
  tn__lexer_expect(&p->lex, "=", "before the variable's value");
  tn__token at = p->lex.token;
  const tn__expr *value = tn__ir_parse_expr(p);
  if (value->dtype != dtype)
    tn__lexer_fail(&p->lex, &at, "a value of type %s for a variable of type %s", tn_dtype_name(value->dtype),
                   tn_dtype_name(dtype));
  const tn__var *var = new_var(p, &name, dtype, r);
  return tn__ir_let(p->ir, var, value, parse_body(p, "after the variable's value"));
}

static const tn__stmt *parse_alloc(tn__parser *p) {
  buffer_head *head = TN__NEW(p->arena, buffer_head);
  parse_buffer_head(p, head);
  tn__token t = p->lex.token;
  int scope = t.kind == TN__TOKEN_NAME ? tn__scope_find(t.text, t.length) : -1;
  if (scope <= TN__SCOPE_PARAM) tn__lexer_fail(&p->lex, &t, "expected workspace, stack, register, shared or local");
  tn__lexer_advance(&p->lex);
  const tn__buffer *buffer = new_buffer(p, head, (tn__scope)scope);
  return tn__ir_alloc_stmt(p->ir, buffer, parse_body(p, "after the buffer's scope"));
}

static const tn__stmt *parse_fail(tn__parser *p) {
  return tn__ir_fail(p->ir, (int)parse_number(p, 1, INT32_MAX, "a result code, a number from 1 on"));
}

static tn__access parse_access(tn__parser *p, bool writes) {
  tn__token at = p->lex.token;
  const tn__buffer *buffer = writes ? tn__ir_parse_written(p) : tn__ir_parse_buffer(p);
  return (tn__access){.buffer = buffer, .indices = tn__ir_parse_indices(p, buffer, &at)};
}

static const tn__stmt *parse_prefetch(tn__parser *p, bool far) {
  tn__access a = parse_access(p, false);
  return tn__ir_prefetch_stmt(p->ir, a.buffer, a.indices, far);
}

static const tn__stmt *parse_tensor(tn__parser *p) {
  tn__token name = p->lex.token;
  int op = name.kind == TN__TOKEN_STRING ? tn__ir_tensor_find(tn__lexer_string(&p->lex, &name)) : -1;
  if (op < 0) tn__lexer_fail(&p->lex, &name, "expected the name of an instruction in quotes");
  tn__lexer_advance(&p->lex);
  int count = tn__ir_tensor_operand_count((tn__tensor_op)op);
  tn__access *operands = TN__NEW_ARRAY(p->arena, count, tn__access);
  for (int i = 0; i < count; i++) {
    tn__lexer_expect(&p->lex, i == 0 ? "(" : ",", "before an operand");
    tn__token at = p->lex.token;
    operands[i] = parse_access(p, i == 0); /* the first is read and written */
    if (operands[i].buffer->dtype != tn__ir_tensor_operand_dtype((tn__tensor_op)op, i))
      tn__lexer_fail(&p->lex, &at, "operand %d has elements of type %s, not %s", i,
                     tn_dtype_name(operands[i].buffer->dtype),
                     tn_dtype_name(tn__ir_tensor_operand_dtype((tn__tensor_op)op, i)));
  }
  tn__lexer_expect(&p->lex, ")", "after the operands");
  return tn__ir_tensor_stmt(p->ir, (tn__tensor_op)op, operands, parse_body(p, "after the operands"));
}

static const tn__stmt *parse_store(tn__parser *p, bool streams) {
  tn__token at = p->lex.token;
  const tn__buffer *buffer = tn__ir_parse_written(p);
  const tn__expr *const *indices = tn__ir_parse_indices(p, buffer, &at);
  tn__lexer_expect(&p->lex, "=", "after the indices of a store");
  at = p->lex.token;
  const tn__expr *value = tn__ir_parse_expr(p);
  if (value->dtype != buffer->dtype)
    tn__lexer_fail(&p->lex, &at, "a value of type %s into %s, whose elements are %s", tn_dtype_name(value->dtype),
                   buffer->name, tn_dtype_name(buffer->dtype));
  const tn__stmt *store = tn__ir_store(p->ir, buffer, indices, value);
  return streams ? tn__stmt_stream(p->ir, store, buffer) : store;
}

static const tn__stmt *parse_near_prefetch(tn__parser *p) { return parse_prefetch(p, false); }

static const tn__stmt *parse_far_prefetch(tn__parser *p) { return parse_prefetch(p, true); }

static const tn__stmt *parse_barrier(tn__parser *p) { return tn__ir_barrier(p->ir); }

static const tn__stmt *parse_streamed(tn__parser *p) { return parse_store(p, true); }

static const tn__stmt *parse_while(tn__parser *p) {
  const tn__expr *condition = tn__ir_parse_condition(p, "the condition of while");
  return tn__ir_while(p->ir, condition, parse_body(p, "after the condition of while"));
}

/* What begins with a word of its own; loops begin with their kind, and stores with a buffer. */
static const struct {
  const char *word;
  const tn__stmt *(*parse)(tn__parser *p);
} statements[] = {{"if", parse_if},
                  {"let", parse_let},
                  {"alloc", parse_alloc},
                  {"fail", parse_fail},
                  {"barrier", parse_barrier},
                  {"prefetch", parse_near_prefetch},
                  {"prefetch_far", parse_far_prefetch},
                  {"tensor", parse_tensor},
                  {"block", parse_block},
                  {"while", parse_while},
                  {"stream", parse_streamed}};
enum { STATEMENTS = sizeof(statements) / sizeof(*statements) };

static const tn__stmt *parse_stmt(tn__parser *p) {
  tn__token t = p->lex.token;
  int loop = t.kind == TN__TOKEN_NAME ? tn__loop_kind_find(t.text, t.length) : -1;
  if (t.kind != TN__TOKEN_NAME) tn__lexer_fail(&p->lex, &t, "expected a statement");
  if (loop >= 0) {
    tn__lexer_advance(&p->lex);
    return parse_loop(p, (tn__loop_kind)loop);
  }
  for (int i = 0; i < STATEMENTS; i++)
    if (tn__lexer_take(&p->lex, statements[i].word)) return statements[i].parse(p);
  return parse_store(p, false);
}

/* ---- going on after an error ------------------------------------------------------------------------------------- */

enum { MOST_AHEAD = 256 }; /* tokens that tell what comes: there may be many places to ask at */

/* Does a statement begin at the next token: with its word, or as the store that comes up to its '='? */
static bool stmt_comes(const tn__lexer *lex) {
  if (lex->token.kind != TN__TOKEN_NAME) return false;
  if (tn__loop_kind_find(lex->token.text, lex->token.length) >= 0) return true;
  for (int i = 0; i < STATEMENTS; i++)
    if (tn__lexer_is(lex, statements[i].word)) return true;
  tn__lexer ahead = *lex;
  tn__lexer_advance(&ahead);
  if (!tn__lexer_take(&ahead, "[")) return false;
  for (int open = 1, seen = 0; open > 0; tn__lexer_advance(&ahead)) {
    if (ahead.token.kind == TN__TOKEN_END || seen++ == MOST_AHEAD) return false;
    open += tn__lexer_is(&ahead, "[") - tn__lexer_is(&ahead, "]");
  }
  return tn__lexer_is(&ahead, "=");
}

/* From the beginning of a statement that is not understood, over its bodies, to where the next one begins, on a line of
 * its own, or the body around it ends. */
static void skip_stmt(tn__parser *p, const tn__lexer *begin) {
  const char *reached = p->lex.token.text;
  int open = 0;
  if (p->lex.token.kind == TN__TOKEN_END) return;
  p->lex = *begin;
  p->lex.lenient = true;
  while (p->lex.token.kind != TN__TOKEN_END && (open > 0 || !tn__lexer_is(&p->lex, "}"))) {
    bool past = p->lex.token.text >= reached && p->lex.token.text > begin->token.text;
    if (open == 0 && past && tn__lexer_begins_line(&p->lex) && stmt_comes(&p->lex)) break;
    open += tn__lexer_is(&p->lex, "{") - tn__lexer_is(&p->lex, "}");
    tn__lexer_advance(&p->lex);
  }
  p->lex.lenient = false;
}

typedef struct part {
  tn__parser *p;
  const tn__stmt *stmt;
} part;

static void parse_part(void *user) {
  part *t = user;
  tn__ir_parse_enter(t->p);
  t->stmt = parse_stmt(t->p);
}

const tn__stmt *tn__ir_parse_items(tn__parser *p, const char *where) {
  TN__VEC(const tn__stmt *) items = {0};
  int errors = p->lex.errors->list.count;
  while (!tn__lexer_is(&p->lex, "}")) {
    bool ends = p->lex.token.kind == TN__TOKEN_END;
    if (ends && p->lex.errors->list.count > errors) tn__errors_follow(p->lex.errors, tn__ir_arena(p->ir));
    if (ends) tn__lexer_expect(&p->lex, "}", where);
    int visible = p->names.count, nesting = p->nesting;
    tn__lexer begin = p->lex;
    part t = {.p = p};
    bool understood = tn__errors_attempt(p->lex.errors, tn__ir_arena(p->ir), parse_part, &t);
    p->nesting = nesting;
    p->names.count = visible;
    if (understood)
      tn__vec_push(p->arena, &items, t.stmt);
    else
      skip_stmt(p, &begin);
  }
  tn__lexer_advance(&p->lex);
  return tn__ir_seq(p->ir, items.data, items.count);
}

static const tn__stmt *parse_body(tn__parser *p, const char *where) {
  tn__lexer_expect(&p->lex, "{", where);
  return tn__ir_parse_items(p, "at the end of the body");
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

typedef TN__VEC(const tn__buffer *) buffer_vec;
typedef TN__VEC(const tn__var *) var_vec;

static void parse_params(tn__parser *p, buffer_vec *params, const char *what) {
  buffer_head *head = TN__NEW(p->arena, buffer_head);
  char where[64];
  snprintf(where, sizeof(where), "before the %s", what);
  tn__lexer_expect(&p->lex, "(", where);
  int count = 0;
  while (!tn__lexer_is(&p->lex, ")")) {
    if (count++ > 0) tn__lexer_expect(&p->lex, ",", "between parameters");
    check_count(p, params->count);
    parse_buffer_head(p, head);
    parse_strides(p, head);
    tn__vec_push(p->arena, params, new_buffer(p, head, TN__SCOPE_PARAM));
  }
  tn__lexer_advance(&p->lex);
}

static void parse_scalars(tn__parser *p, var_vec *scalars) {
  do {
    check_count(p, scalars->count);
    tn__token name = new_name(p, "a symbolic dimension");
    range r = {tn__ir_index(p->ir, 0), NULL};
    if (tn__lexer_is(&p->lex, "in")) r = parse_range(p, false);
    tn__vec_push(p->arena, scalars, new_var(p, &name, TN_I64, r));
  } while (tn__lexer_take(&p->lex, ","));
  tn__lexer_expect(&p->lex, "]", "after the symbolic dimensions");
}

static tn__func *parse_func(tn__parser *p) {
  tn__lexer_expect(&p->lex, "func", "at the start");
  tn__token name = tn__lexer_name(&p->lex, "the function");
  if (memchr(name.text, '.', name.length) != NULL)
    tn__lexer_fail(&p->lex, &name, "a function's name is a C identifier: no '.' in it");
  var_vec scalars = {0};
  buffer_vec params = {0};
  if (tn__lexer_take(&p->lex, "[")) parse_scalars(p, &scalars);
  parse_params(p, &params, "inputs");
  int inputs = params.count;
  tn__lexer_expect(&p->lex, "->", "after the inputs");
  parse_params(p, &params, "outputs");
  const tn__stmt *body = parse_body(p, "after the outputs");
  if (p->lex.token.kind != TN__TOKEN_END) tn__lexer_fail(&p->lex, &p->lex.token, "text after the end of the function");
  return tn__func_create(p->ir, text_of(p, &name), params.data, inputs, params.data + inputs, params.count - inputs,
                         scalars.data, scalars.count, body);
}

typedef struct job {
  tn__parser parser;
  tn__errors errors;
  tn__func *func;
} job;

static void parse_all(void *user) {
  job *j = user;
  tn__lexer_advance(&j->parser.lex);
  j->func = parse_func(&j->parser);
}

static void run(locale_t locale, void *user) {
  job *j = user;
  j->parser.lex.locale = locale;
  if (!tn__errors_attempt(&j->errors, j->parser.arena, parse_all, j)) j->func = NULL;
}

tn_status *tn__func_parse(tn__ir *ir, const char *name, const char *text, size_t length, tn__func **out) {
  *out = NULL;
  if (length > MAX_TEXT)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: %zu bytes of text; at most %d are allowed", name, length,
                            (int)MAX_TEXT);
  job j = {.parser = {.ir = ir, .arena = ir->arena},
           .errors = {.arena = ir->arena, .name = name, .text = text, .end = text + length}};
  tn__lexer_open(&j.parser.lex, ir, name, text, length, (locale_t)0);
  j.parser.lex.errors = &j.errors;
  tn_status *status = tn__errors_status(&j.errors, tn__lexer_read(ir->arena, name, run, &j));
  if (status == NULL) *out = j.func;
  return status;
}
