/* Whether loops may write an output over an input. The order of statements and iterations is what counts: within one
 * statement all is read before anything is written. */
#include "declarations/in_place.h"

#include "ir/passes.h"

typedef struct touch { /* one access to either tensor */
  const tn__expr *const *indices;
  bool store;
} touch;

typedef struct search {
  tn__ir *ir;
  tn__arena *arena;
  const tn__buffer *input, *output;
  TN__VEC(touch) touches;
  TN__VEC(const tn__var *) vars; /* of loops that were left */
  bool fine;
} search;

typedef struct marks { /* what was there before a statement */
  int touches, vars;
} marks;

/* Meets every expression once, however often it is shared, and leaves it. */
static const tn__expr *note_load(tn__ir *ir, const tn__expr *e, void *user) {
  search *s = user;
  touch t = {.indices = e->args};
  if (e->kind == TN__EXPR_LOAD && e->value.buffer == s->input) tn__vec_push(s->arena, &s->touches, t);
  return NULL;
}

static void note_expr(search *s, const tn__expr *e) {
  if (e != NULL && tn__expr_has_load(e)) (void)tn__expr_rewrite(s->ir, e, note_load, s);
}

static bool has(const search *s, int from, int to, bool store) {
  for (int i = from; i < to; i++)
    if (s->touches.data[i].store == store) return true;
  return false;
}

/* ---- iterations -------------------------------------------------------------------------------------------------- */

/* The place along dimension `dim`, or, behind the last one, the element's number. */
static const tn__expr *place_of(const search *s, const touch *t, int dim) {
  return dim < s->output->rank ? t->indices[dim] : tn__ir_flatten(s->ir, s->output->shape, t->indices, s->output->rank);
}

typedef struct range {
  const tn__expr *low, *high; /* NULL: no such access */
} range;

TN_MUST_USE static bool widen(const search *s, const marks *m, const touch *t, int dim, range *out) {
  const tn__expr *low, *high;
  int count = s->vars.count - m->vars;
  const tn__var *const *vars = count > 0 ? s->vars.data + m->vars : NULL;
  if (!tn__ir_bounds_over(s->ir, place_of(s, t, dim), vars, count, &low, &high)) return false;
  out->low = out->low == NULL ? low : tn__ir_min(s->ir, out->low, low);
  out->high = out->high == NULL ? high : tn__ir_max(s->ir, out->high, high);
  return true;
}

/* Does an iteration touch, along `dim`, only what lies in front of all that is touched by those behind it? What is
 * written, by those that read; by those that write too, where they run in any order. */
static bool moves_on(const search *s, const marks *m, const tn__var *var, int dim, bool any_order) {
  range reads = {0}, writes = {0};
  for (int i = m->touches; i < s->touches.count; i++)
    if (!widen(s, m, &s->touches.data[i], dim, s->touches.data[i].store ? &writes : &reads)) return false;
  const tn__expr *next = tn__ir_add_i(s->ir, var->self, 1);
  const tn__expr *later_reads = tn__ir_substitute(s->ir, reads.low, &var, &next, 1);
  const tn__expr *later_writes = tn__ir_substitute(s->ir, writes.low, &var, &next, 1);
  if (!tn__ir_prove(s->ir, tn__ir_le(s->ir, reads.low, later_reads)) ||
      !tn__ir_prove(s->ir, tn__ir_lt(s->ir, writes.high, later_reads)))
    return false;
  return !any_order || (tn__ir_prove(s->ir, tn__ir_le(s->ir, writes.low, later_writes)) &&
                        tn__ir_prove(s->ir, tn__ir_lt(s->ir, reads.high, later_writes)));
}

static void check(search *s, const tn__stmt *stmt);

static void check_loop(search *s, const tn__stmt *stmt) {
  marks m = {s->touches.count, s->vars.count};
  const tn__var *var = stmt->as.loop.var;
  tn__loop_kind kind = stmt->as.loop.kind;
  note_expr(s, var->min);
  note_expr(s, var->extent);
  m.touches = s->touches.count;
  check(s, stmt->as.loop.body);
  if (has(s, m.touches, s->touches.count, true) && has(s, m.touches, s->touches.count, false)) {
    bool apart = false, any_order = kind == TN__LOOP_PARALLEL || tn__ir_loop_is_bound(kind);
    for (int d = 0; d <= s->output->rank && s->fine && !apart; d++) apart = moves_on(s, &m, var, d, any_order);
    s->fine &= apart;
  }
  tn__vec_push(s->arena, &s->vars, var);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static void check_seq(search *s, const tn__stmt *stmt) {
  int first = s->touches.count;
  for (int i = 0; i < stmt->as.seq.count; i++) {
    int before = s->touches.count;
    check(s, stmt->as.seq.items[i]);
    s->fine &= !has(s, first, before, true) || !has(s, before, s->touches.count, false);
  }
}

static void check_store(search *s, const tn__stmt *stmt) {
  const tn__buffer *buffer = stmt->as.store.buffer;
  note_expr(s, stmt->as.store.value);
  for (int d = 0; d < buffer->rank; d++) note_expr(s, stmt->as.store.indices[d]);
  if (buffer != s->output) return;
  touch t = {.indices = stmt->as.store.indices, .store = true};
  tn__vec_push(s->arena, &s->touches, t);
}

static void check(search *s, const tn__stmt *stmt) {
  int first = s->touches.count;
  switch (stmt->kind) {
    case TN__STMT_FOR: check_loop(s, stmt); break;
    case TN__STMT_STORE: check_store(s, stmt); break;
    case TN__STMT_SEQ: check_seq(s, stmt); break;
    case TN__STMT_IF: {
      note_expr(s, stmt->as.branch.condition);
      check(s, stmt->as.branch.then_body);
      if (stmt->as.branch.else_body != NULL) check(s, stmt->as.branch.else_body);
      break;
    }
    case TN__STMT_LET:
      note_expr(s, stmt->as.let.value);
      check(s, stmt->as.let.body);
      break;
    case TN__STMT_ALLOC: check(s, stmt->as.alloc.body); break;
    case TN__STMT_WHILE:
      note_expr(s, stmt->as.repeat.condition);
      check(s, stmt->as.repeat.body);
      s->fine &= !has(s, first, s->touches.count, true) || !has(s, first, s->touches.count, false);
      break;
    case TN__STMT_TENSOR: check(s, stmt->as.tensor.body); break;
    default: break;
  }
}

bool tn__decl_may_overwrite(tn__ir *ir, const tn__func *func, const tn__buffer *input, const tn__buffer *output) {
  search s = {.ir = ir, .arena = tn__ir_arena(ir), .input = input, .output = output, .fine = true};
  check(&s, tn__ir_lower_blocks(ir, func)->body);
  return s.fine;
}
