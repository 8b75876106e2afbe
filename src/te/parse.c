/* .te text to syntax: the file, its kernels and their statements. docs/te-language.md has the grammar. */
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "te/syntax.h"

enum { MAX_PARAMS = 1024, MAX_ITEMS = 4096, MAX_STMTS = 1 << 14 };

/* ---- combiners, constants, functions ----------------------------------------------------------------------------- */

/* name: type, or (name: type, ...): one side of a combiner. Returns how many. */
TN_MUST_USE static int parse_side(tn__syn_parser *p, tn__syn_param *out) {
  bool several = tn__lexer_take(&p->lex, "(");
  int count = 0;
  do {
    if (count == 4) tn__lexer_fail(&p->lex, &p->lex.token, "a combiner of more than 4 values");
    out[count].name = tn__lexer_name(&p->lex, "a value of a combiner");
    tn__lexer_expect(&p->lex, ":", "after the value's name");
    out[count++].dtype = tn__syn_dtype(p);
  } while (several && tn__lexer_take(&p->lex, ","));
  if (several) tn__lexer_expect(&p->lex, ")", "after the values of one side");
  return count;
}

/* "combiner" [ "in_order" ] name "(" side "," side ")" "=" values "from" values; behind the first word. */
static tn__syn_combiner parse_combiner(tn__syn_parser *p) {
  tn__syn_combiner c = {.name = tn__lexer_name(&p->lex, "a combiner")};
  if (tn__te_token_is(&c.name, "in_order") && p->lex.token.kind == TN__TOKEN_NAME) {
    c.in_order = true;
    c.name = tn__lexer_name(&p->lex, "a combiner");
  }
  if (tn__syn_is_reducer(&c.name))
    tn__lexer_fail(&p->lex, &c.name, "%.*s is a reduction of the language", (int)c.name.length, c.name.text);
  tn__syn_param right[4];
  tn__lexer_expect(&p->lex, "(", "after the combiner's name");
  c.count = parse_side(p, c.params);
  tn__lexer_expect(&p->lex, ",", "between the two sides of a combiner");
  tn__token at = p->lex.token;
  memset(right, 0, sizeof(right));
  if (parse_side(p, right) != c.count) tn__lexer_fail(&p->lex, &at, "the two sides of a combiner have as many values");
  for (int i = 0; i < c.count; i++) {
    c.params[c.count + i] = right[i];
    if (right[i].dtype != c.params[i].dtype)
      tn__lexer_fail(&p->lex, &right[i].name, "%.*s is of type %s, its counterpart of %s", (int)right[i].name.length,
                     right[i].name.text, tn_dtype_name(right[i].dtype), tn_dtype_name(c.params[i].dtype));
  }
  for (int i = 0; i < 2 * c.count; i++)
    for (int j = 0; j < i; j++)
      if (tn__te_token_same(&c.params[i].name, &c.params[j].name))
        tn__lexer_fail(&p->lex, &c.params[i].name, "the name %.*s is taken already", (int)c.params[i].name.length,
                       c.params[i].name.text);
  tn__lexer_expect(&p->lex, ")", "after the two sides of a combiner");
  tn__lexer_expect(&p->lex, "=", "before the combined values");
  c.result = tn__syn_expr(p);
  tn__lexer_expect(&p->lex, "from", "before the identities of a combiner");
  c.identity = tn__syn_expr(p);
  tn__vec_push(p->arena, &p->combiners, c.name);
  return c;
}

static tn__syn_const parse_const(tn__syn_parser *p) {
  tn__syn_const c = {.name = tn__lexer_name(&p->lex, "a constant"), .dtype = TN_DTYPE_INVALID};
  if (tn__lexer_take(&p->lex, ":")) c.dtype = tn__syn_dtype(p);
  tn__lexer_expect(&p->lex, "=", "before the constant's value");
  c.value = tn__syn_expr(p);
  return c;
}

static tn__syn_function parse_function(tn__syn_parser *p) {
  tn__syn_function f = {.name = tn__lexer_name(&p->lex, "a function")};
  tn__lexer_expect(&p->lex, "(", "after the function's name");
  while (!tn__lexer_take(&p->lex, ")")) {
    if (f.param_count > 0) tn__lexer_expect(&p->lex, ",", "between parameters");
    if (f.param_count == 8) tn__lexer_fail(&p->lex, &p->lex.token, "a function of more than 8 parameters");
    tn__token name = tn__lexer_name(&p->lex, "a parameter");
    for (int i = 0; i < f.param_count; i++)
      if (tn__te_token_same(&f.params[i], &name))
        tn__lexer_fail(&p->lex, &name, "the name %.*s is taken already", (int)name.length, name.text);
    f.params[f.param_count++] = name;
  }
  tn__lexer_expect(&p->lex, "=", "before the function's value");
  f.value = tn__syn_expr(p);
  return f;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* name ":" type [ "[" shape "]" ] */
static tn__syn_param parse_param(tn__syn_parser *p, const char *what) {
  tn__syn_param param = {.name = tn__lexer_name(&p->lex, what)};
  tn__lexer_expect(&p->lex, ":", "after the tensor's name");
  param.dtype = tn__syn_dtype(p);
  if (tn__lexer_take(&p->lex, "[")) tn__syn_shape(p, &param);
  return param;
}

/* Behind a kernel's parameter: [ "strides" "[" strides "]" | "over" name ], how it lies in memory. */
static void parse_memory(tn__syn_parser *p, tn__syn_param *param, bool output) {
  tn__token at = p->lex.token;
  if (tn__lexer_take(&p->lex, "strides")) {
    tn__syn_param strides = {.rank = 0};
    tn__lexer_expect(&p->lex, "[", "before the strides");
    tn__syn_shape(p, &strides);
    if (strides.rank != param->rank)
      tn__lexer_fail(&p->lex, &at, "%.*s has %d dimension%s and %d stride%s: as many as dimensions, in elements",
                     (int)param->name.length, param->name.text, param->rank, tn__plural(param->rank), strides.rank,
                     tn__plural(strides.rank));
    param->strides = strides.shape;
    if (tn__lexer_is(&p->lex, "over"))
      tn__lexer_fail(&p->lex, &at, "%.*s has strides and lies over an input, whose strides it takes: leave one out",
                     (int)param->name.length, param->name.text);
  } else if (tn__lexer_take(&p->lex, "over")) {
    if (!output) tn__lexer_fail(&p->lex, &at, "only an output is written over an input");
    param->over = tn__lexer_name(&p->lex, "an input");
    if (tn__lexer_is(&p->lex, "strides"))
      tn__lexer_fail(&p->lex, &p->lex.token, "%.*s lies over %.*s and has its strides: leave these out",
                     (int)param->name.length, param->name.text, (int)param->over.length, param->over.text);
  }
}

/* Passes over the braces' contents; loop IR has strings, but none with braces that matter to the lexer. */
static void skip_body(tn__syn_parser *p) {
  int open = 1;
  p->lex.lenient = true; /* its errors are found when it is read */
  while (open > 0) {
    if (p->lex.token.kind == TN__TOKEN_END) tn__lexer_expect(&p->lex, "}", "at the end of an imperative stage");
    open += tn__lexer_is(&p->lex, "{") - tn__lexer_is(&p->lex, "}");
    p->lex.lenient = open > 0;
    tn__lexer_advance(&p->lex);
  }
}

/* "extern" name "(" reads ")" "->" params "{" loop IR "}" */
static void parse_extern(tn__syn_parser *p, tn__syn_stmt *s) {
  s->kind = TN__SYN_EXTERN;
  s->extern_name = tn__lexer_name(&p->lex, "an imperative stage");
  TN__VEC(tn__token) reads = {0};
  tn__lexer_expect(&p->lex, "(", "before what an imperative stage reads");
  while (!tn__lexer_take(&p->lex, ")")) {
    if (reads.count > 0) tn__lexer_expect(&p->lex, ",", "between tensors");
    if (reads.count == MAX_PARAMS) tn__lexer_fail(&p->lex, &p->lex.token, "more than %d tensors", MAX_PARAMS);
    tn__token name = tn__lexer_name(&p->lex, "a tensor that is read");
    tn__vec_push(p->arena, &reads, name);
  }
  s->reads = reads.data;
  s->read_count = reads.count;
  tn__lexer_expect(&p->lex, "->", "before what an imperative stage writes");
  do {
    if (s->target_count == 4) tn__lexer_fail(&p->lex, &p->lex.token, "an imperative stage writes 1 to 4 tensors");
    s->targets[s->target_count] = parse_param(p, "a tensor that is written");
    s->target_count++;
  } while (tn__lexer_take(&p->lex, ","));
  tn__lexer_expect(&p->lex, "{", "before the body of an imperative stage");
  s->body = p->lex;
  skip_body(p);
}

/* name [ ":" type ] [ "[" axes "]" ] */
static void parse_target(tn__syn_parser *p, tn__syn_stmt *s) {
  if (s->target_count == 4) tn__lexer_fail(&p->lex, &p->lex.token, "a statement defines at most 4 tensors");
  tn__syn_param *target = &s->targets[s->target_count];
  *target = (tn__syn_param){.name = tn__lexer_name(&p->lex, "a tensor"), .dtype = TN_DTYPE_INVALID};
  bool first = s->target_count++ == 0;
  if (tn__lexer_take(&p->lex, ":")) target->dtype = tn__syn_dtype(p);
  const tn__syn_axis *axes = NULL;
  int count = 0;
  bool has_axes = tn__lexer_take(&p->lex, "[");
  if (has_axes) tn__syn_axes(p, "]", "the indices on the left", &axes, &count);
  if (first) {
    s->has_axes = has_axes;
    s->axes = axes;
    s->axis_count = count;
    return;
  }
  bool same = has_axes == s->has_axes && count == s->axis_count;
  for (int i = 0; same && i < count; i++) same = tn__te_token_same(&axes[i].name, &s->axes[i].name);
  if (!same) tn__lexer_fail(&p->lex, &target->name, "the tensors of one statement have the same axes");
}

/* Behind "let": a name for all statements that follow. */
static void parse_named(tn__syn_parser *p, tn__syn_stmt *s) {
  s->kind = TN__SYN_NAMED;
  s->target_count = 1;
  s->value = tn__syn_let(p, &s->targets[0].name, &s->targets[0].dtype);
}

static void parse_define(tn__syn_parser *p, tn__syn_stmt *s) {
  do parse_target(p, s);
  while (tn__lexer_take(&p->lex, ","));
  tn__lexer_expect(&p->lex, "=", "after what a statement defines");
  s->value = tn__lexer_is(&p->lex, "scan") ? tn__syn_scan(p) : tn__syn_expr(p);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* ">=" and the least value of a dimension. */
static int64_t parse_least(tn__syn_parser *p) {
  tn__lexer_expect(&p->lex, ">=", "before the least value of a dimension");
  bool negative = tn__lexer_take(&p->lex, "-");
  tn__token number = p->lex.token;
  const tn__expr *value = number.kind == TN__TOKEN_NUMBER ? tn__lexer_number(&p->lex, &number, negative) : NULL;
  if (value == NULL || value->dtype != TN_I64 || value->value.i < 0 || value->value.i > INT64_C(1) << 48)
    tn__lexer_fail(&p->lex, &number, "expected the least value of a dimension, a whole number from 0 to 2^48");
  tn__lexer_advance(&p->lex);
  return value->value.i;
}

static void parse_dims(tn__syn_parser *p, tn__syn_kernel *k) {
  bool first = true;
  k->lists_dims = true;
  while (!tn__lexer_take(&p->lex, "]")) {
    if (!first) tn__lexer_expect(&p->lex, ",", "between dimensions");
    first = false;
    if (k->dims.count == MAX_PARAMS) tn__lexer_fail(&p->lex, &p->lex.token, "more than %d dimensions", MAX_PARAMS);
    if (tn__lexer_is(&p->lex, ">=")) { /* of extents that are numbers */
      if (parse_least(p) != 0) tn__lexer_fail(&p->lex, &p->lex.token, "expected >= 0: extents may be 0");
      k->allows_empty = true;
      continue;
    }
    tn__syn_dim dim = {.name = tn__lexer_name(&p->lex, "a dimension"), .min = 1};
    for (int i = 0; i < k->dims.count; i++)
      if (tn__te_token_same(&k->dims.data[i].name, &dim.name))
        tn__lexer_fail(&p->lex, &dim.name, "the dimension %.*s is listed twice", (int)dim.name.length, dim.name.text);
    if (tn__lexer_is(&p->lex, ">=")) dim.min = parse_least(p);
    k->allows_empty |= dim.min == 0;
    tn__vec_push(p->arena, &k->dims, dim);
  }
}

static void add_dims(tn__syn_parser *p, const tn__te_source *source, tn__syn_kernel *k, const tn__syn *s,
                     bool in_strides) {
  for (int i = 0; i < s->arg_count; i++) add_dims(p, source, k, s->args[i], in_strides);
  if (s->kind != TN__SYN_NAME) return;
  for (int i = 0; i < k->dims.count; i++) {
    if (!tn__te_token_same(&k->dims.data[i].name, &s->at)) continue;
    *(in_strides ? &k->dims.data[i].in_strides : &k->dims.data[i].elsewhere) = true;
    return;
  }
  for (int i = 0; i < source->consts.count; i++)
    if (tn__te_token_same(&source->consts.data[i].name, &s->at)) return;
  if (k->lists_dims)
    tn__lexer_fail(&p->lex, &s->at, "%.*s is neither among the dimensions that the kernel lists nor a constant",
                   (int)s->at.length, s->at.text);
  tn__syn_dim dim = {.name = s->at, .min = 1, .in_strides = in_strides, .elsewhere = !in_strides};
  if (k->dims.count == MAX_PARAMS) tn__lexer_fail(&p->lex, &s->at, "more than %d dimensions", MAX_PARAMS);
  tn__vec_push(p->arena, &k->dims, dim);
}

static void add_param(tn__syn_parser *p, const tn__te_source *source, tn__syn_kernel *k, bool output) {
  if (k->inputs.count + k->outputs.count == MAX_PARAMS)
    tn__lexer_fail(&p->lex, &p->lex.token, "more than %d parameters", MAX_PARAMS);
  tn__syn_param param = parse_param(p, output ? "an output" : "a parameter");
  parse_memory(p, &param, output);
  for (int i = 0; i < k->inputs.count + k->outputs.count; i++) {
    const tn__syn_param *other = i < k->inputs.count ? &k->inputs.data[i] : &k->outputs.data[i - k->inputs.count];
    if (tn__te_token_same(&other->name, &param.name))
      tn__lexer_fail(&p->lex, &param.name, "there is a parameter %.*s already", (int)param.name.length,
                     param.name.text);
  }
  for (int i = 0; i < param.rank; i++) add_dims(p, source, k, param.shape[i], false);
  for (int i = 0; i < param.rank && param.strides != NULL; i++) add_dims(p, source, k, param.strides[i], true);
  if (output)
    tn__vec_push(p->arena, &k->outputs, param);
  else
    tn__vec_push(p->arena, &k->inputs, param);
}

static void parse_params(tn__syn_parser *p, const tn__te_source *source, tn__syn_kernel *k) {
  tn__lexer_expect(&p->lex, "(", "before the kernel's parameters");
  while (!tn__lexer_take(&p->lex, ")")) {
    if (k->inputs.count > 0) tn__lexer_expect(&p->lex, ",", "between parameters");
    add_param(p, source, k, false);
  }
  tn__lexer_expect(&p->lex, "->", "before the kernel's outputs");
  bool several = tn__lexer_take(&p->lex, "(");
  do add_param(p, source, k, true);
  while (tn__lexer_take(&p->lex, ","));
  if (several) tn__lexer_expect(&p->lex, ")", "after the kernel's outputs");
}

/* ---- going on after an error ------------------------------------------------------------------------------------- */

/* To where the next statement begins, at the start of a line, or the kernel ends. */
static void skip_stmt(tn__syn_parser *p, const tn__token *begin) {
  int open = 0;
  p->lex.lenient = true;
  if (p->lex.token.text == begin->text) tn__lexer_advance(&p->lex);
  while (p->lex.token.kind != TN__TOKEN_END && !tn__syn_item_comes(p)) {
    if (open == 0 && tn__lexer_is(&p->lex, "}")) break;
    bool word = tn__syn_word_comes(p, "extern") || tn__syn_word_comes(p, "combiner") || tn__syn_word_comes(p, "let") ||
                tn__syn_word_comes(p, "store") || tn__syn_word_comes(p, "inline");
    if (open == 0 && tn__lexer_begins_line(&p->lex) && (word || tn__syn_stmt_comes(p))) break;
    open += tn__lexer_is(&p->lex, "{") - tn__lexer_is(&p->lex, "}");
    tn__lexer_advance(&p->lex);
  }
  p->lex.lenient = false;
  p->nesting = 0;
}

/* To where something else of the file begins; the name of what was not understood is known as such. */
static void skip_item(tn__syn_parser *p, tn__te_source *source, const tn__lexer *begin) {
  tn__lexer ahead = *begin;
  bool moved = p->lex.token.text != begin->token.text;
  ahead.lenient = p->lex.lenient = true;
  while (tn__lexer_take(&ahead, "unchecked") || tn__lexer_take(&ahead, "kernel") || tn__lexer_take(&ahead, "const") ||
         tn__lexer_take(&ahead, "function") || tn__lexer_take(&ahead, "combiner") || tn__lexer_take(&ahead, "in_order"))
    continue;
  if (ahead.token.kind == TN__TOKEN_NAME) tn__vec_push(p->arena, &source->broken, ahead.token);
  while (p->lex.token.kind != TN__TOKEN_END && !(moved && tn__syn_item_comes(p))) {
    moved = true;
    tn__lexer_advance(&p->lex);
  }
  p->lex.lenient = false;
  p->nesting = 0;
}

/* ---- kernels' statements ----------------------------------------------------------------------------------------- */

typedef struct part { /* a statement or a combiner of a kernel */
  tn__syn_parser *p;
  tn__syn_kernel *kernel;
  tn__syn_stmt stmt;
} part;

static void parse_part(void *user) {
  part *t = user;
  tn__syn_parser *p = t->p;
  if (tn__syn_word_comes(p, "combiner")) {
    tn__lexer_advance(&p->lex);
    tn__syn_combiner c = parse_combiner(p);
    tn__vec_push(p->arena, &t->kernel->combiners, c);
    return;
  }
  if (tn__syn_word_comes(p, "extern")) {
    tn__lexer_advance(&p->lex);
    parse_extern(p, &t->stmt);
  } else if (tn__syn_word_comes(p, "let")) {
    tn__lexer_advance(&p->lex);
    parse_named(p, &t->stmt);
  } else {
    bool store = tn__syn_word_comes(p, "store"), inlined = tn__syn_word_comes(p, "inline");
    if (store || inlined) tn__lexer_advance(&p->lex);
    if ((store || inlined) && (tn__syn_word_comes(p, "store") || tn__syn_word_comes(p, "inline")))
      tn__lexer_fail(&p->lex, &p->lex.token, "a stage has one hint: it is stored or inlined");
    t->stmt.hint = store ? TN__TE_STORED : inlined ? TN__TE_INLINED : TN__TE_ANYWHERE;
    parse_define(p, &t->stmt);
  }
  tn__vec_push(p->arena, &t->kernel->stmts, t->stmt);
}

static void parse_stmts(tn__syn_parser *p, tn__syn_kernel *k) {
  tn__lexer_expect(&p->lex, "{", "before the kernel's statements");
  while (!tn__lexer_take(&p->lex, "}")) {
    if (p->lex.token.kind == TN__TOKEN_END || tn__syn_item_comes(p))
      tn__lexer_expect(&p->lex, "}", "at the end of the kernel");
    tn__token at = p->lex.token;
    if (k->stmts.count + k->combiners.count == MAX_STMTS)
      tn__lexer_fail(&p->lex, &at, "more than %d statements in one kernel", MAX_STMTS);
    part t = {.p = p, .kernel = k, .stmt = {.kind = TN__SYN_DEFINE, .at = at}};
    if (tn__errors_attempt(p->lex.errors, p->arena, parse_part, &t)) continue;
    t.stmt.kind = TN__SYN_BROKEN;
    tn__vec_push(p->arena, &k->stmts, t.stmt);
    skip_stmt(p, &at);
  }
}

/* Notes which dimensions are named between `begin` and where the parser is. */
static void see_dims(const tn__syn_parser *p, const tn__lexer *begin, tn__syn_kernel *k) {
  tn__lexer at = *begin;
  at.lenient = true;
  for (; at.token.kind != TN__TOKEN_END && at.token.text < p->lex.token.text; tn__lexer_advance(&at))
    for (int i = 0; i < k->dims.count; i++)
      if (tn__te_token_same(&k->dims.data[i].name, &at.token)) k->dims.data[i].elsewhere = true;
}

static tn__syn_kernel parse_kernel(tn__syn_parser *p, const tn__te_source *source) {
  tn__syn_kernel k = {.name = tn__lexer_name(&p->lex, "a kernel")};
  if (memchr(k.name.text, '.', k.name.length) != NULL)
    tn__lexer_fail(&p->lex, &k.name, "a kernel's name is a C identifier: no '.' in it");
  if (tn__lexer_take(&p->lex, "[")) parse_dims(p, &k);
  parse_params(p, source, &k);
  for (int i = 0; i < k.dims.count; i++)
    for (int j = 0; j < k.inputs.count + k.outputs.count; j++) {
      const tn__syn_param *param = j < k.inputs.count ? &k.inputs.data[j] : &k.outputs.data[j - k.inputs.count];
      if (tn__te_token_same(&k.dims.data[i].name, &param->name))
        tn__lexer_fail(&p->lex, &param->name, "%.*s is a dimension and a parameter", (int)param->name.length,
                       param->name.text);
    }
  const tn__lexer begin = p->lex;
  parse_stmts(p, &k);
  see_dims(p, &begin, &k);
  return k;
}

/* "schedule" "for" name [ "on" targets ] "{" ... "}" */
static tn__syn_schedule parse_schedule(tn__syn_parser *p) {
  tn__syn_schedule s = {.at = p->lex.token};
  tn__lexer_advance(&p->lex);
  tn__lexer_expect(&p->lex, "for", "behind 'schedule'");
  s.kernel = tn__lexer_name(&p->lex, "a kernel");
  p->lex.lenient = true; /* its errors are found when it is read */
  while (p->lex.token.kind != TN__TOKEN_END && !tn__lexer_is(&p->lex, "{")) tn__lexer_advance(&p->lex);
  for (int open = 0; p->lex.token.kind != TN__TOKEN_END;) {
    open += tn__lexer_is(&p->lex, "{") - tn__lexer_is(&p->lex, "}");
    s.end = p->lex.token.text + p->lex.token.length;
    p->lex.lenient = open > 0;
    tn__lexer_advance(&p->lex);
    if (open == 0) return s;
  }
  p->lex.lenient = false;
  tn__lexer_expect(&p->lex, "}", "at the end of the schedule");
  return s;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void check_other(tn__syn_parser *p, const tn__te_source *source, const tn__token *name, const tn__token *other) {
  if (!tn__te_token_same(name, other)) return;
  tn__errors_file file = tn__errors_file_of(source->errors, other->text);
  const char *where = "";
  if (file.text != tn__errors_file_of(source->errors, name->text).text)
    where = tn__arena_printf(p->arena, ": in line %d of %s", other->line, file.name);
  tn__lexer_fail(&p->lex, name, "the name %.*s is taken already%s", (int)name->length, name->text, where);
}

static void check_new(tn__syn_parser *p, const tn__te_source *source, const tn__token *name) {
  for (int i = 0; i < source->consts.count; i++) check_other(p, source, name, &source->consts.data[i].name);
  for (int i = 0; i < source->combiners.count; i++) check_other(p, source, name, &source->combiners.data[i].name);
  for (int i = 0; i < source->functions.count; i++) check_other(p, source, name, &source->functions.data[i].name);
  for (int i = 0; i < source->kernels.count; i++) check_other(p, source, name, &source->kernels.data[i].name);
  for (int i = 0; i < source->imported.count; i++) check_other(p, source, name, &source->imported.data[i].name);
}

typedef struct item {
  tn__syn_parser *p;
  tn__te_source *source;
} item;

static void read_text(tn__syn_parser *p, tn__te_source *source, tn__ir *ir, const char *name, const char *text,
                      size_t length, locale_t locale);

static void parse_import(tn__syn_parser *p, tn__te_source *source) {
  tn__syn_import file;
  if (tn__te_import_begin(p, source, &file)) {
    tn__syn_parser inner = {.arena = p->arena, .combiners = p->combiners};
    read_text(&inner, source, p->lex.ir, file.path, file.text, file.length, p->lex.locale);
    p->combiners = inner.combiners;
    tn__te_import_end(source, &file);
  }
  tn__lexer_advance(&p->lex);
}

static void parse_item(void *user) {
  const item *it = user;
  tn__syn_parser *p = it->p;
  tn__te_source *source = it->source;
  int items = source->consts.count + source->combiners.count + source->functions.count + source->kernels.count +
              source->imported.count + source->schedules.count;
  if (items == MAX_ITEMS) tn__lexer_fail(&p->lex, &p->lex.token, "more than %d things in one file", MAX_ITEMS);
  if (tn__syn_import_comes(p)) {
    tn__lexer_advance(&p->lex);
    parse_import(p, source);
  } else if (tn__lexer_take(&p->lex, "const")) {
    tn__syn_const c = parse_const(p);
    check_new(p, source, &c.name);
    tn__vec_push(p->arena, &source->consts, c);
  } else if (tn__lexer_take(&p->lex, "combiner")) {
    tn__syn_combiner c = parse_combiner(p);
    check_new(p, source, &c.name);
    tn__vec_push(p->arena, &source->combiners, c);
  } else if (tn__lexer_take(&p->lex, "function")) {
    tn__syn_function f = parse_function(p);
    check_new(p, source, &f.name);
    tn__vec_push(p->arena, &source->functions, f);
  } else if (tn__lexer_is(&p->lex, "schedule")) {
    tn__syn_schedule s = parse_schedule(p);
    if (source->depth < 2) tn__vec_push(p->arena, &source->schedules, s); /* those of files that are built */
  } else {
    bool unchecked = tn__lexer_take(&p->lex, "unchecked");
    tn__lexer_expect(&p->lex, "kernel",
                     unchecked ? "behind unchecked" : "or import, const, function, combiner, schedule");
    tn__syn_kernel k = parse_kernel(p, source);
    k.unchecked = unchecked;
    check_new(p, source, &k.name);
    if (source->depth > 1)
      tn__vec_push(p->arena, &source->imported, k);
    else
      tn__vec_push(p->arena, &source->kernels, k);
  }
}

/* Is there such a kernel, understood or not? */
static void check_schedule(tn__te_source *source, const tn__syn_schedule *s) {
  for (int i = 0; i < source->kernels.count; i++)
    if (tn__te_token_same(&source->kernels.data[i].name, &s->kernel)) return;
  for (int i = 0; i < source->broken.count; i++)
    if (tn__te_token_same(&source->broken.data[i], &s->kernel)) return;
  tn__place place = {s->kernel.text, s->kernel.line, s->kernel.column};
  const char *where = "";
  for (int i = 0; i < source->imported.count; i++)
    if (tn__te_token_same(&source->imported.data[i].name, &s->kernel))
      where = ": it is imported, and built where it stands";
  tn__errors_add(source->errors, source->arena, &place,
                 tn__arena_printf(source->arena, "there is no kernel %.*s for this schedule%s", (int)s->kernel.length,
                                  s->kernel.text, where));
}

static void first_token(void *user) { tn__lexer_advance(user); }

static void read_text(tn__syn_parser *p, tn__te_source *source, tn__ir *ir, const char *name, const char *text,
                      size_t length, locale_t locale) {
  const char *wide[] = {"\xff\xfe", "\xfe\xff"}, mark[] = "\xef\xbb\xbf"; /* how some editors begin a text */
  for (int i = 0; i < 2; i++)
    if (strncmp(text, wide[i], 2) == 0)
      tn__throwf(p->arena->escape, TN_INVALID_ARGUMENT, "%s: the text is in UTF-16; save it as UTF-8", name);
  size_t skipped = strncmp(text, mark, 3) == 0 ? 3 : 0;
  tn__errors_file file = {name, text + skipped, text + length};
  if (source->errors == NULL) {
    source->errors = TN__NEW(p->arena, tn__errors);
    *source->errors = (tn__errors){.arena = p->arena, .name = name, .text = file.text, .end = file.end};
  } else {
    tn__vec_push(p->arena, &source->errors->more, file);
  }
  tn__lexer_open(&p->lex, ir, name, text + skipped, length - skipped, locale);
  p->lex.errors = source->errors;
  item it = {p, source};
  if (!tn__errors_attempt(source->errors, p->arena, first_token, &p->lex)) skip_item(p, source, &p->lex);
  while (p->lex.token.kind != TN__TOKEN_END) {
    tn__lexer begin = p->lex;
    int depth = source->depth;
    if (tn__errors_attempt(source->errors, p->arena, parse_item, &it)) continue;
    source->depth = depth;
    skip_item(p, source, &begin);
  }
}

typedef struct job {
  tn__arena *arena;
  const char *name, *text; /* text NULL: in the file called so */
  const char *folder;      /* of imports in a text; NULL: none */
  size_t length;
  tn__te_source *source;
} job;

static void run(locale_t locale, void *user) {
  job *j = user;
  tn__te_source *source = TN__NEW(j->arena, tn__te_source);
  source->arena = j->arena;
  source->name = tn__arena_strdup(j->arena, j->name);
  source->failed = TN__NEW_ARRAY(j->arena, MAX_ITEMS, bool); /* there also when reading ends early */
  const char *text;
  if (j->text != NULL) {
    text = tn__arena_strndup(j->arena, j->text, j->length);
    if (j->folder != NULL) {
      source->folder = tn__arena_strdup(j->arena, j->folder);
      tn__te_enter_file(source, source->folder, j->length);
    }
  } else {
    tn__check(j->arena->escape, tn__te_file_text(j->arena, source->name, &text, &j->length));
    tn__arena_allow(j->arena, TN__TE_STEPS_PER_BYTE * j->length);
    tn__te_enter_file(source, source->name, j->length);
  }
  tn__syn_parser p = {.arena = j->arena};
  j->source = source;
  read_text(&p, source, tn__ir_create(j->arena), source->name, text, j->length, locale);
  for (int i = 0; i < source->schedules.count; i++) check_schedule(source, &source->schedules.data[i]);
  if (source->kernels.count == 0 && source->errors->list.count == 0)
    tn__lexer_fail(&p.lex, &p.lex.token, "there is no kernel in this text");
}

static tn_status *parse(job *j, tn__te_source **out) {
  *out = NULL;
  tn_status *status = tn__lexer_read(j->arena, j->name, run, j);
  if (j->source == NULL || j->source->errors == NULL || (status != NULL && !j->source->errors->pending)) return status;
  *out = j->source;
  return tn__errors_status(j->source->errors, status);
}

tn_status *tn__te_parse(tn__arena *arena, const char *name, const char *text, size_t length, tn__te_source **out) {
  return tn__te_parse_in(arena, NULL, name, text, length, out);
}

tn_status *tn__te_parse_in(tn__arena *arena, const char *folder, const char *name, const char *text, size_t length,
                           tn__te_source **out) {
  *out = NULL;
  if (length > TN__TE_MOST_TEXT)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: %zu bytes of text; at most %d are allowed", name, length,
                            (int)TN__TE_MOST_TEXT);
  job j = {.arena = arena, .name = name, .text = text, .folder = folder, .length = length};
  return parse(&j, out);
}

tn_status *tn__te_parse_file(tn__arena *arena, const char *path, tn__te_source **out) {
  job j = {.arena = arena, .name = path};
  return parse(&j, out);
}

const char *tn__te_schedules(const tn__te_source *source, int kernel, int *line) {
  char *text = NULL;
  const char *start = NULL, *end = NULL;
  for (int i = 0; i < source->schedules.count; i++) {
    const tn__syn_schedule *s = &source->schedules.data[i];
    if (!tn__te_token_same(&s->kernel, &source->kernels.data[kernel].name)) continue;
    if (start == NULL) {
      start = s->at.text - (s->at.column - 1);
      *line = s->at.line;
    }
    end = s->end;
  }
  if (start == NULL) return NULL;
  text = tn__arena_strndup(source->arena, start, (size_t)(end - start));
  for (char *p = text; *p != 0; p++) *p = *p == '\n' ? '\n' : ' ';
  for (int i = 0; i < source->schedules.count; i++) {
    const tn__syn_schedule *s = &source->schedules.data[i];
    if (!tn__te_token_same(&s->kernel, &source->kernels.data[kernel].name)) continue;
    TN__INVARIANT(s->at.text != NULL);
    memcpy(text + (s->at.text - start), s->at.text, (size_t)(s->end - s->at.text));
  }
  return text;
}

bool tn__te_has_errors(const tn__te_source *source) { return source->errors->list.count > 0; }

int tn__te_kernel_count(const tn__te_source *source) { return source->kernels.count; }

int tn__te_kernel_find(const tn__te_source *source, const char *name) {
  for (int i = 0; i < source->kernels.count; i++)
    if (tn__te_token_is(&source->kernels.data[i].name, name)) return i;
  return -1;
}

int tn__te_kernel_dim_count(const tn__te_source *source, int kernel) { return source->kernels.data[kernel].dims.count; }

const char *tn__te_kernel_dim(const tn__te_source *source, int kernel, int index) {
  const tn__token *t = &source->kernels.data[kernel].dims.data[index].name;
  return tn__arena_strndup(source->arena, t->text, t->length);
}
