/* The text form (docs/ir.md). Names are made unique among what is visible; the order of terms in sums follows the order
 * in which the text introduces variables, so that reading the text gives the same text again. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/context.h"
#include "ir/print.h"
#include "ir/scalar.h"
#include "ir/text.h"

typedef struct naming {
  const void *entity; /* variable or buffer */
  const char *name;
} naming;

struct tn__printer {
  tn__arena *arena; /* for names */
  tn__strbuf *out;
  TN__VEC(naming) names;
  int indent;
  size_t limit; /* stop when `out` is this long; 0: never */
};

typedef tn__printer printer;

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool is_taken(const printer *p, const char *name) {
  for (int i = 0; i < p->names.count; i++)
    if (strcmp(p->names.data[i].name, name) == 0) return true;
  return false;
}

static const char *clean(printer *p, const char *wanted) {
  size_t length = strlen(wanted);
  char *name = tn__arena_alloc(p->arena, length + 3);
  size_t at = 0;
  if (length == 0 || isdigit((unsigned char)wanted[0])) name[at++] = '_';
  for (size_t i = 0; i < length; i++) name[at++] = tn__ir_text_is_name_char(wanted[i]) ? wanted[i] : '_';
  if (name[0] == '.') name[0] = '_';
  if (tn__ir_text_is_reserved(name, at)) name[at] = '_';
  return name;
}

static const char *bind(printer *p, const void *entity, const char *wanted) {
  const char *name = clean(p, wanted), *base = name;
  for (int i = 1; is_taken(p, name); i++) name = tn__arena_printf(p->arena, "%s_%d", base, i);
  naming n = {.entity = entity, .name = name};
  tn__vec_push(p->arena, &p->names, n);
  return name;
}

static const char *name_of(printer *p, const void *entity, const char *wanted) {
  for (int i = p->names.count - 1; i >= 0; i--)
    if (p->names.data[i].entity == entity) return p->names.data[i].name;
  return bind(p, entity, wanted); /* free in a fragment */
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static void print_expr(printer *p, const tn__expr *e, int precedence);

static void print_int(printer *p, const tn__expr *e) {
  if (e->dtype == TN_BOOL)
    tn__strbuf_append(p->out, e->value.i ? "true" : "false");
  else if (e->dtype == TN_U64)
    tn__strbuf_printf(p->out, "%lluu64", (unsigned long long)e->value.i);
  else
    tn__strbuf_printf(p->out, "%lld%s", (long long)e->value.i, e->dtype == TN_I64 ? "" : tn_dtype_name(e->dtype));
}

double tn__ir_shortest_float(tn_dtype dtype, double value) {
  for (int digits = 1; digits <= 9 && dtype != TN_F64; digits++) {
    char text[64];
    snprintf(text, sizeof(text), "%.*g", digits, value);
    double trial = strtod(text, NULL); /* in the same locale */
    if (tn__scalar_round(dtype, trial) == value) return trial;
  }
  return value;
}

static void print_float(printer *p, const tn__expr *e) {
  bool finite = e->value.f - e->value.f == 0;
  if (!finite && e->dtype != TN_F64) tn__strbuf_printf(p->out, "%s(", tn_dtype_name(e->dtype));
  tn__strbuf_f64(p->out, finite ? tn__ir_shortest_float(e->dtype, e->value.f) : e->value.f);
  if (e->dtype != TN_F64) tn__strbuf_append(p->out, finite ? tn_dtype_name(e->dtype) : ")");
}

static void print_list(printer *p, const tn__expr *const *exprs, int count) {
  for (int i = 0; i < count; i++) {
    if (i > 0) tn__strbuf_append(p->out, ", ");
    print_expr(p, exprs[i], 0);
  }
}

/* The negated term when a sum shows it behind a minus sign. */
static bool print_subtracted(printer *p, const tn__expr *e) {
  int64_t c;
  bool constant = tn__ir_as_int(e, &c);
  if (!constant && (e->kind != TN__EXPR_MUL || !tn__ir_as_int(e->args[1], &c))) return false;
  if (c >= 0 || c == INT64_MIN) return false;
  tn__strbuf_append(p->out, " - ");
  if (constant) {
    tn__strbuf_printf(p->out, "%lld", (long long)-c);
    return true;
  }
  print_expr(p, e->args[0], TN__PRECEDENCE_PRODUCT);
  if (c != -1) tn__strbuf_printf(p->out, "*%lld", (long long)-c);
  return true;
}

static void print_binary(printer *p, const tn__expr *e, const tn__operator_row *op, int outer) {
  bool parens = op->precedence < outer;
  bool product = op->precedence == TN__PRECEDENCE_PRODUCT;
  if (parens) tn__strbuf_char(p->out, '(');
  if (e->dtype == TN_I64 && e->kind == TN__EXPR_MUL && tn__ir_is_int_value(e->args[1], -1)) {
    tn__strbuf_char(p->out, '-');
    print_expr(p, e->args[0], TN__PRECEDENCE_UNARY);
  } else {
    print_expr(p, e->args[0], op->precedence + (op->precedence == TN__PRECEDENCE_COMPARISON));
    if (e->dtype != TN_I64 || e->kind != TN__EXPR_ADD || !print_subtracted(p, e->args[1])) {
      tn__strbuf_printf(p->out, product ? "%s" : " %s ", op->text);
      print_expr(p, e->args[1], op->precedence + 1);
    }
  }
  if (parens) tn__strbuf_char(p->out, ')');
}

static void print_call(printer *p, const char *name, const tn__expr *e) {
  tn__strbuf_printf(p->out, "%s(", name);
  print_list(p, e->args, e->arg_count);
  tn__strbuf_char(p->out, ')');
}

static void print_expr(printer *p, const tn__expr *e, int precedence) {
  if (p->limit > 0 && p->out->length >= p->limit) return;
  switch (e->kind) {
    case TN__EXPR_INT: print_int(p, e); return;
    case TN__EXPR_FLOAT: print_float(p, e); return;
    case TN__EXPR_VAR: tn__strbuf_append(p->out, name_of(p, e->value.var, e->value.var->name)); return;
    case TN__EXPR_LOAD:
      tn__strbuf_printf(p->out, "%s[", name_of(p, e->value.buffer, e->value.buffer->name));
      print_list(p, e->args, e->arg_count);
      tn__strbuf_char(p->out, ']');
      return;
    case TN__EXPR_NOT:
      tn__strbuf_char(p->out, '!');
      print_expr(p, e->args[0], TN__PRECEDENCE_UNARY);
      return;
    case TN__EXPR_MIN: print_call(p, "min", e); return;
    case TN__EXPR_MAX: print_call(p, "max", e); return;
    case TN__EXPR_SELECT: print_call(p, "select", e); return;
    case TN__EXPR_CAST: print_call(p, tn_dtype_name(e->dtype), e); return;
    case TN__EXPR_BITCAST:
      tn__strbuf_printf(p->out, "bitcast(%s, ", tn_dtype_name(e->dtype));
      print_list(p, e->args, 1);
      tn__strbuf_char(p->out, ')');
      return;
    case TN__EXPR_CALL: print_call(p, tn__intrinsic_of(e->intrinsic)->name, e); return;
    default: print_binary(p, e, tn__ir_operator_of(e->kind, e->args[0]->dtype), precedence); return;
  }
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static void print_stmt(printer *p, const tn__stmt *s);

static void line(printer *p) {
  for (int i = 0; i < p->indent; i++) tn__strbuf_append(p->out, "  ");
}

static void print_body(printer *p, const tn__stmt *s) {
  tn__strbuf_append(p->out, " {\n");
  p->indent++;
  print_stmt(p, s);
  p->indent--;
  line(p);
  tn__strbuf_char(p->out, '}');
}

static void print_range(printer *p, const tn__var *var) {
  tn__strbuf_append(p->out, " in [");
  if (var->min == NULL)
    tn__strbuf_char(p->out, '?');
  else
    print_expr(p, var->min, 0);
  tn__strbuf_append(p->out, ", ");
  if (var->extent == NULL) {
    tn__strbuf_char(p->out, '?');
  } else {
    tn__strbuf_char(p->out, '+');
    print_expr(p, var->extent, 0);
  }
  tn__strbuf_char(p->out, ')');
}

static void print_regions(printer *p, const char *word, const tn__region *regions, int count) {
  if (count == 0) return;
  line(p);
  tn__strbuf_append(p->out, word);
  for (int i = 0; i < count; i++) {
    const tn__buffer *buffer = regions[i].buffer;
    tn__strbuf_printf(p->out, "%s %s[", i > 0 ? "," : "", name_of(p, buffer, buffer->name));
    for (int d = 0; d < buffer->rank; d++) {
      if (d > 0) tn__strbuf_append(p->out, ", ");
      print_expr(p, regions[i].min[d], 0);
      tn__strbuf_append(p->out, ":+");
      print_expr(p, regions[i].extent[d], 0);
    }
    tn__strbuf_char(p->out, ']');
  }
  tn__strbuf_char(p->out, '\n');
}

static void print_block(printer *p, const tn__block *b) {
  tn__strbuf_append(p->out, "block ");
  tn__strbuf_json_string(p->out, b->name);
  tn__strbuf_append(p->out, " {\n");
  p->indent++;
  if (!tn__ir_is_true(b->predicate)) {
    line(p);
    tn__strbuf_append(p->out, "where ");
    print_expr(p, b->predicate, 0);
    tn__strbuf_char(p->out, '\n');
  }
  for (int i = 0; i < b->axis_count; i++) {
    line(p);
    tn__strbuf_append(p->out, "axis ");
    tn__strbuf_append(p->out, bind(p, b->axes[i].var, b->axes[i].var->name));
    tn__strbuf_printf(p->out, ": %s", tn__axis_kind_name(b->axes[i].kind));
    print_range(p, b->axes[i].var);
    tn__strbuf_append(p->out, " = ");
    print_expr(p, b->axes[i].binding, 0);
    tn__strbuf_char(p->out, '\n');
  }
  print_regions(p, "reads", b->reads, b->read_count);
  print_regions(p, "writes", b->writes, b->write_count);
  if (b->init != NULL) {
    line(p);
    tn__strbuf_append(p->out, "init");
    print_body(p, b->init);
    tn__strbuf_char(p->out, '\n');
  }
  print_stmt(p, b->body);
  p->indent--;
  line(p);
  tn__strbuf_char(p->out, '}');
}

static void print_shape(printer *p, const tn__buffer *buffer) {
  tn__strbuf_printf(p->out, ": %s[", tn_dtype_name(buffer->dtype));
  print_list(p, buffer->shape, buffer->rank);
  tn__strbuf_char(p->out, ']');
  if (buffer->strides == NULL) return;
  tn__strbuf_append(p->out, " strides [");
  print_list(p, buffer->strides, buffer->rank);
  tn__strbuf_char(p->out, ']');
}

static void print_access(printer *p, const tn__buffer *buffer, const tn__expr *const *indices) {
  tn__strbuf_printf(p->out, "%s[", name_of(p, buffer, buffer->name));
  print_list(p, indices, buffer->rank);
  tn__strbuf_char(p->out, ']');
}

static void print_store(printer *p, const tn__stmt *s) {
  if (s->as.store.streams) tn__strbuf_append(p->out, "stream ");
  print_access(p, s->as.store.buffer, s->as.store.indices);
  tn__strbuf_append(p->out, " = ");
  print_expr(p, s->as.store.value, 0);
}

static void print_scoped(printer *p, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR:
      tn__strbuf_printf(p->out, "%s ", tn__loop_kind_name(s->as.loop.kind));
      tn__strbuf_append(p->out, bind(p, s->as.loop.var, s->as.loop.var->name));
      print_range(p, s->as.loop.var);
      for (int i = 0; i < TN__PRAGMA_COUNT; i++)
        if (s->as.loop.pragmas.value[i] != 0)
          tn__strbuf_printf(p->out, " pragma %s %d", tn__loop_pragma_name((tn__loop_pragma)i),
                            (int)s->as.loop.pragmas.value[i]);
      print_body(p, s->as.loop.body);
      break;
    case TN__STMT_STORE: print_store(p, s); break;
    case TN__STMT_IF:
      tn__strbuf_append(p->out, "if ");
      print_expr(p, s->as.branch.condition, 0);
      print_body(p, s->as.branch.then_body);
      if (s->as.branch.else_body == NULL) break;
      tn__strbuf_append(p->out, " else");
      print_body(p, s->as.branch.else_body);
      break;
    case TN__STMT_LET: {
      const tn__var *var = s->as.let.var;
      tn__strbuf_append(p->out, "let ");
      tn__strbuf_append(p->out, bind(p, var, var->name));
      tn__strbuf_printf(p->out, ": %s", tn_dtype_name(var->dtype));
      if (var->min != NULL || var->extent != NULL) print_range(p, var);
      tn__strbuf_append(p->out, " = ");
      print_expr(p, s->as.let.value, 0);
      print_body(p, s->as.let.body);
      break;
    }
    case TN__STMT_ALLOC:
      tn__strbuf_printf(p->out, "alloc %s", bind(p, s->as.alloc.buffer, s->as.alloc.buffer->name));
      print_shape(p, s->as.alloc.buffer);
      tn__strbuf_printf(p->out, " %s", tn__scope_name(s->as.alloc.buffer->scope));
      print_body(p, s->as.alloc.body);
      break;
    case TN__STMT_WHILE:
      tn__strbuf_append(p->out, "while ");
      print_expr(p, s->as.repeat.condition, 0);
      print_body(p, s->as.repeat.body);
      break;
    case TN__STMT_FAIL: tn__strbuf_printf(p->out, "fail %d", s->as.fail.code); break;
    case TN__STMT_BARRIER: tn__strbuf_append(p->out, "barrier"); break;
    case TN__STMT_PREFETCH:
      tn__strbuf_append(p->out, s->as.prefetch.far ? "prefetch_far " : "prefetch ");
      print_access(p, s->as.prefetch.buffer, s->as.prefetch.indices);
      break;
    case TN__STMT_TENSOR:
      tn__strbuf_append(p->out, "tensor ");
      tn__strbuf_json_string(p->out, tn__ir_tensor_name(s->as.tensor.op));
      for (int i = 0; i < tn__ir_tensor_operand_count(s->as.tensor.op); i++) {
        tn__strbuf_append(p->out, i == 0 ? " (" : ", ");
        print_access(p, s->as.tensor.operands[i].buffer, s->as.tensor.operands[i].indices);
      }
      tn__strbuf_char(p->out, ')');
      print_body(p, s->as.tensor.body);
      break;
    case TN__STMT_BLOCK: print_block(p, s->as.block); break;
    case TN__STMT_SEQ: break;
  }
}

static void print_stmt(printer *p, const tn__stmt *s) {
  if (s->kind == TN__STMT_SEQ) {
    for (int i = 0; i < s->as.seq.count; i++) print_stmt(p, s->as.seq.items[i]);
    return;
  }
  int visible = p->names.count;
  line(p);
  print_scoped(p, s);
  tn__strbuf_char(p->out, '\n');
  p->names.count = visible;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static void print_params(printer *p, const tn__buffer *const *params, int count) {
  tn__strbuf_char(p->out, '(');
  for (int i = 0; i < count; i++) {
    if (i > 0) tn__strbuf_append(p->out, ", ");
    tn__strbuf_append(p->out, bind(p, params[i], params[i]->name));
    print_shape(p, params[i]);
  }
  tn__strbuf_char(p->out, ')');
}

static void print_func(printer *p, const tn__func *func) {
  tn__strbuf_printf(p->out, "func %s", func->name);
  for (int i = 0; i < func->scalar_count; i++) {
    const tn__var *var = func->scalars[i];
    tn__strbuf_append(p->out, i == 0 ? "[" : ", ");
    tn__strbuf_append(p->out, bind(p, var, var->name));
    if (var->extent != NULL || var->min == NULL || !tn__ir_is_int_value(var->min, 0)) print_range(p, var);
    if (i + 1 == func->scalar_count) tn__strbuf_char(p->out, ']');
  }
  print_params(p, func->params, func->input_count);
  tn__strbuf_append(p->out, " -> ");
  print_params(p, func->params + func->input_count, func->output_count);
  print_body(p, func->body);
  tn__strbuf_char(p->out, '\n');
}

typedef struct job {
  tn__arena arena;
  tn__strbuf *out;
  const tn__expr *expr;
  const tn__func *func;
  size_t limit;
} job;

static void run(tn__escape *escape, void *user) {
  job *j = user;
  j->arena.escape = escape;
  printer p = {.arena = &j->arena, .out = j->out, .limit = j->limit};
  if (j->expr != NULL) print_expr(&p, j->expr, 0);
  if (j->func != NULL) print_func(&p, tn__func_import(tn__ir_create(&j->arena), j->func));
}

static void print(job *j) {
  tn__escape escape;
  tn__arena_init(&j->arena, j->out->allocator, &escape);
  tn_status *status = tn__protect(&escape, run, j);
  if (status != NULL && tn_status_code_of(status) != TN_OUT_OF_MEMORY)
    tn__strbuf_printf(j->out, "<%s>\n", tn_status_message(status)); /* a broken function is shown as far as it goes */
  if (status != NULL && tn_status_code_of(status) == TN_OUT_OF_MEMORY) j->out->failed = true;
  tn_status_free(status);
  tn__arena_release(&j->arena);
}

void tn__expr_print(const tn__expr *e, tn__strbuf *out) { print(&(job){.out = out, .expr = e}); }
void tn__expr_print_short(const tn__expr *e, tn__strbuf *out) {
  enum { MOST = 200 };
  size_t limit = out->length + MOST;
  print(&(job){.out = out, .expr = e, .limit = limit});
  if (out->length < limit) return;
  out->length = limit;
  tn__strbuf_append(out, "...");
}
void tn__func_print(const tn__func *func, tn__strbuf *out) { print(&(job){.out = out, .func = func}); }

/* ---- in pieces --------------------------------------------------------------------------------------------------- */

tn__printer *tn__printer_create(tn__arena *arena, tn__strbuf *out) {
  tn__printer *p = TN__NEW(arena, tn__printer);
  p->arena = arena;
  p->out = out;
  return p;
}

const char *tn__printer_bind(tn__printer *p, const void *entity, const char *wanted) { return bind(p, entity, wanted); }

const char *tn__printer_name(tn__printer *p, const void *entity, const char *wanted) {
  return name_of(p, entity, wanted);
}

int tn__printer_mark(const tn__printer *p) { return p->names.count; }
void tn__printer_reset(tn__printer *p, int mark) { p->names.count = mark; }
void tn__printer_expr(tn__printer *p, const tn__expr *e) { print_expr(p, e, 0); }
void tn__printer_range(tn__printer *p, const tn__var *var) { print_range(p, var); }

void tn__printer_stmt(tn__printer *p, const tn__stmt *s, int indent) {
  p->indent = indent;
  print_stmt(p, s);
}
