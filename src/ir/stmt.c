#include "ir/stmt.h"

#include <string.h>

#include "ir/context.h"

/* ---- construction ------------------------------------------------------------------------------------------------ */

static const tn__stmt *make(tn__ir *ir, tn__stmt s) { return tn__arena_copy(ir->arena, &s, sizeof(s)); }

static const tn__expr *const *copy_exprs(tn__ir *ir, const tn__expr *const *exprs, int count) {
  return tn__arena_copy(ir->arena, exprs, (size_t)count * sizeof(*exprs));
}

const tn__stmt *tn__ir_for_with(tn__ir *ir, const tn__var *var, tn__loop_kind kind, const tn__loop_pragmas *pragmas,
                                const tn__stmt *body) {
  if (var->dtype != TN_I64 || var->min == NULL || var->extent == NULL)
    tn__ir_defect(ir, "loop over %s: the variable must be an i64 with min and extent", var->name);
  tn__stmt loop = {.kind = TN__STMT_FOR, .as.loop = {.var = var, .kind = kind, .body = body}};
  if (pragmas != NULL) loop.as.loop.pragmas = *pragmas;
  return make(ir, loop);
}

const tn__stmt *tn__ir_for(tn__ir *ir, const tn__var *var, tn__loop_kind kind, const tn__stmt *body) {
  return tn__ir_for_with(ir, var, kind, NULL, body);
}

const tn__stmt *tn__ir_for_like(tn__ir *ir, const tn__stmt *like, const tn__var *var, const tn__stmt *body) {
  return tn__ir_for_with(ir, var, like->as.loop.kind, &like->as.loop.pragmas, body);
}

static void check_indices(tn__ir *ir, const char *what, const tn__buffer *buffer, const tn__expr *const *indices) {
  for (int i = 0; i < buffer->rank; i++)
    if (indices[i]->dtype != TN_I64)
      tn__ir_defect(ir, "%s %s: index %d has type %s", what, buffer->name, i, tn_dtype_name(indices[i]->dtype));
}

static const tn__stmt *make_store(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices,
                                  const tn__expr *value, bool streams) {
  if (value->dtype != buffer->dtype)
    tn__ir_defect(ir, "store to %s: a value of type %s into elements of type %s", buffer->name,
                  tn_dtype_name(value->dtype), tn_dtype_name(buffer->dtype));
  check_indices(ir, "store to", buffer, indices);
  return make(ir, (tn__stmt){.kind = TN__STMT_STORE,
                             .as.store = {.buffer = buffer,
                                          .indices = copy_exprs(ir, indices, buffer->rank),
                                          .value = value,
                                          .streams = streams}});
}

const tn__stmt *tn__ir_store(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices,
                             const tn__expr *value) {
  return make_store(ir, buffer, indices, value, false);
}

const tn__stmt *tn__ir_store_like(tn__ir *ir, const tn__stmt *like, const tn__buffer *buffer,
                                  const tn__expr *const *indices, const tn__expr *value) {
  return make_store(ir, buffer, indices, value, like->as.store.streams);
}

static const tn__stmt *stream_store(tn__ir *ir, const tn__stmt *s, void *user) {
  if (s->kind != TN__STMT_STORE || s->as.store.buffer != user) return NULL;
  return make_store(ir, s->as.store.buffer, s->as.store.indices, s->as.store.value, true);
}

const tn__stmt *tn__stmt_stream(tn__ir *ir, const tn__stmt *s, const tn__buffer *buffer) {
  union {
    const tn__buffer *in;
    void *out;
  } cast = {.in = buffer};
  return tn__stmt_rewrite(ir, s, stream_store, NULL, cast.out);
}

const tn__stmt *tn__ir_seq(tn__ir *ir, const tn__stmt *const *items, int count) {
  int total = 0;
  for (int i = 0; i < count; i++) total += items[i]->kind == TN__STMT_SEQ ? items[i]->as.seq.count : 1;
  const tn__stmt **flat = TN__NEW_ARRAY(ir->arena, total, const tn__stmt *);
  int at = 0;
  for (int i = 0; i < count; i++) {
    if (items[i]->kind != TN__STMT_SEQ) flat[at++] = items[i];
    for (int j = 0; items[i]->kind == TN__STMT_SEQ && j < items[i]->as.seq.count; j++)
      flat[at++] = items[i]->as.seq.items[j];
  }
  if (total == 1) return flat[0];
  return make(ir, (tn__stmt){.kind = TN__STMT_SEQ, .as.seq = {.items = flat, .count = total}});
}

const tn__stmt *tn__ir_seq2(tn__ir *ir, const tn__stmt *a, const tn__stmt *b) {
  const tn__stmt *items[2] = {a, b};
  return tn__ir_seq(ir, items, 2);
}

const tn__stmt *tn__ir_if(tn__ir *ir, const tn__expr *condition, const tn__stmt *then_body, const tn__stmt *else_body) {
  if (condition->dtype != TN_BOOL) tn__ir_defect(ir, "if on a condition of type %s", tn_dtype_name(condition->dtype));
  if (tn__ir_is_true(condition)) return then_body;
  if (tn__ir_is_false(condition)) return else_body != NULL ? else_body : tn__ir_seq(ir, NULL, 0);
  return make(ir, (tn__stmt){.kind = TN__STMT_IF,
                             .as.branch = {.condition = condition, .then_body = then_body, .else_body = else_body}});
}

const tn__stmt *tn__ir_let(tn__ir *ir, const tn__var *var, const tn__expr *value, const tn__stmt *body) {
  if (var->dtype != value->dtype)
    tn__ir_defect(ir, "let %s: a value of type %s for a variable of type %s", var->name, tn_dtype_name(value->dtype),
                  tn_dtype_name(var->dtype));
  return make(ir, (tn__stmt){.kind = TN__STMT_LET, .as.let = {.var = var, .value = value, .body = body}});
}

const tn__stmt *tn__ir_alloc_stmt(tn__ir *ir, const tn__buffer *buffer, const tn__stmt *body) {
  if (buffer->scope == TN__SCOPE_PARAM) tn__ir_defect(ir, "allocation of the parameter %s", buffer->name);
  return make(ir, (tn__stmt){.kind = TN__STMT_ALLOC, .as.alloc = {.buffer = buffer, .body = body}});
}

const tn__stmt *tn__ir_while(tn__ir *ir, const tn__expr *condition, const tn__stmt *body) {
  if (condition->dtype != TN_BOOL)
    tn__ir_defect(ir, "while on a condition of type %s", tn_dtype_name(condition->dtype));
  return make(ir, (tn__stmt){.kind = TN__STMT_WHILE, .as.repeat = {.condition = condition, .body = body}});
}

const tn__stmt *tn__ir_fail(tn__ir *ir, int code) {
  return make(ir, (tn__stmt){.kind = TN__STMT_FAIL, .as.fail = {.code = code}});
}

const tn__stmt *tn__ir_barrier(tn__ir *ir) { return make(ir, (tn__stmt){.kind = TN__STMT_BARRIER}); }

const tn__stmt *tn__ir_prefetch_stmt(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices, bool far) {
  check_indices(ir, "prefetch of", buffer, indices);
  return make(
      ir, (tn__stmt){.kind = TN__STMT_PREFETCH, .as.prefetch = {buffer, copy_exprs(ir, indices, buffer->rank), far}});
}

const tn__stmt *tn__ir_tensor_stmt(tn__ir *ir, tn__tensor_op op, const tn__access *operands, const tn__stmt *body) {
  int count = tn__ir_tensor_operand_count(op);
  for (int i = 0; i < count; i++) {
    check_indices(ir, "tensor operand", operands[i].buffer, operands[i].indices);
    if (operands[i].buffer->dtype != tn__ir_tensor_operand_dtype(op, i))
      tn__ir_defect(ir, "tensor %s: operand %d has elements of type %s", tn__ir_tensor_name(op), i,
                    tn_dtype_name(operands[i].buffer->dtype));
  }
  const tn__access *copy = tn__arena_copy(ir->arena, operands, (size_t)count * sizeof(*operands));
  return make(ir, (tn__stmt){.kind = TN__STMT_TENSOR, .as.tensor = {.op = op, .operands = copy, .body = body}});
}

const tn__stmt *tn__block_stmt(tn__ir *ir, const tn__block *block) {
  for (int i = 0; i < block->axis_count; i++)
    if (block->axes[i].var->dtype != TN_I64 || block->axes[i].binding->dtype != TN_I64)
      tn__ir_defect(ir, "block %s: axis %d and its binding must be i64", block->name, i);
  if (block->predicate == NULL || block->predicate->dtype != TN_BOOL)
    tn__ir_defect(ir, "block %s: the predicate must be a bool", block->name);
  return make(ir, (tn__stmt){.kind = TN__STMT_BLOCK, .as.block = tn__arena_copy(ir->arena, block, sizeof(*block))});
}

tn__func *tn__func_create(tn__ir *ir, const char *name, const tn__buffer *const *inputs, int input_count,
                          const tn__buffer *const *outputs, int output_count, const tn__var *const *scalars,
                          int scalar_count, const tn__stmt *body) {
  const tn__buffer **params = TN__NEW_ARRAY(ir->arena, input_count + output_count, const tn__buffer *);
  for (int i = 0; i < input_count + output_count; i++) {
    params[i] = i < input_count ? inputs[i] : outputs[i - input_count];
    if (params[i]->scope != TN__SCOPE_PARAM)
      tn__ir_defect(ir, "function %s: parameter %s is not of parameter scope", name, params[i]->name);
  }
  tn__func *func = TN__NEW(ir->arena, tn__func);
  *func = (tn__func){.name = tn__arena_strdup(ir->arena, name),
                     .input_count = input_count,
                     .output_count = output_count,
                     .scalar_count = scalar_count,
                     .params = params,
                     .scalars = tn__arena_copy(ir->arena, scalars, (size_t)scalar_count * sizeof(*scalars)),
                     .body = body};
  return func;
}

tn__func *tn__func_with_body(tn__ir *ir, const tn__func *func, const tn__stmt *body) {
  tn__func *copy = tn__arena_copy(ir->arena, func, sizeof(*func));
  copy->body = body;
  return copy;
}

/* ---- walking ----------------------------------------------------------------------------------------------------- */

typedef const tn__stmt *child_list[2];

/* The statements right below `s`; `few` is room for them. */
static const tn__stmt *const *children(const tn__stmt *s, child_list few, int *count) {
  *count = 0;
  switch (s->kind) {
    case TN__STMT_SEQ: *count = s->as.seq.count; return s->as.seq.items;
    case TN__STMT_FOR: few[(*count)++] = s->as.loop.body; break;
    case TN__STMT_LET: few[(*count)++] = s->as.let.body; break;
    case TN__STMT_ALLOC: few[(*count)++] = s->as.alloc.body; break;
    case TN__STMT_WHILE: few[(*count)++] = s->as.repeat.body; break;
    case TN__STMT_TENSOR: few[(*count)++] = s->as.tensor.body; break;
    case TN__STMT_IF:
      few[(*count)++] = s->as.branch.then_body;
      if (s->as.branch.else_body != NULL) few[(*count)++] = s->as.branch.else_body;
      break;
    case TN__STMT_BLOCK:
      if (s->as.block->init != NULL) few[(*count)++] = s->as.block->init;
      few[(*count)++] = s->as.block->body;
      break;
    case TN__STMT_STORE:
    case TN__STMT_PREFETCH:
    case TN__STMT_BARRIER:
    case TN__STMT_FAIL: break;
  }
  return few;
}

void tn__stmt_walk(const tn__stmt *s, bool (*enter)(const tn__stmt *s, void *user), void *user) {
  if (!enter(s, user)) return;
  child_list few;
  int count;
  const tn__stmt *const *below = children(s, few, &count);
  for (int i = 0; i < count; i++) tn__stmt_walk(below[i], enter, user);
}

typedef struct expr_walk {
  void (*fn)(const tn__expr *e, void *user);
  void *user;
} expr_walk;

static void walk_list(const expr_walk *w, const tn__expr *const *exprs, int count) {
  for (int i = 0; i < count; i++) w->fn(exprs[i], w->user);
}

static void walk_range(const expr_walk *w, const tn__var *var) {
  if (var->min != NULL) w->fn(var->min, w->user);
  if (var->extent != NULL) w->fn(var->extent, w->user);
}

static void walk_regions(const expr_walk *w, const tn__region *regions, int count) {
  for (int i = 0; i < count; i++) {
    walk_list(w, regions[i].min, regions[i].buffer->rank);
    walk_list(w, regions[i].extent, regions[i].buffer->rank);
  }
}

static void walk_block(const expr_walk *w, const tn__block *b) {
  for (int i = 0; i < b->axis_count; i++) {
    walk_range(w, b->axes[i].var);
    w->fn(b->axes[i].binding, w->user);
  }
  w->fn(b->predicate, w->user);
  walk_regions(w, b->reads, b->read_count);
  walk_regions(w, b->writes, b->write_count);
}

static bool walk_own(const tn__stmt *s, void *user) {
  const expr_walk *w = user;
  switch (s->kind) {
    case TN__STMT_FOR: walk_range(w, s->as.loop.var); break;
    case TN__STMT_STORE:
      walk_list(w, s->as.store.indices, s->as.store.buffer->rank);
      w->fn(s->as.store.value, w->user);
      break;
    case TN__STMT_IF: w->fn(s->as.branch.condition, w->user); break;
    case TN__STMT_LET:
      walk_range(w, s->as.let.var);
      w->fn(s->as.let.value, w->user);
      break;
    case TN__STMT_ALLOC: walk_list(w, s->as.alloc.buffer->shape, s->as.alloc.buffer->rank); break;
    case TN__STMT_WHILE: w->fn(s->as.repeat.condition, w->user); break;
    case TN__STMT_BLOCK: walk_block(w, s->as.block); break;
    case TN__STMT_PREFETCH: walk_list(w, s->as.prefetch.indices, s->as.prefetch.buffer->rank); break;
    case TN__STMT_TENSOR:
      for (int i = 0; i < tn__ir_tensor_operand_count(s->as.tensor.op); i++)
        walk_list(w, s->as.tensor.operands[i].indices, s->as.tensor.operands[i].buffer->rank);
      break;
    case TN__STMT_SEQ:
    case TN__STMT_BARRIER:
    case TN__STMT_FAIL: break;
  }
  return true;
}

void tn__stmt_walk_exprs(const tn__stmt *s, void (*fn)(const tn__expr *e, void *user), void *user) {
  expr_walk w = {.fn = fn, .user = user};
  tn__stmt_walk(s, walk_own, &w);
}

int64_t tn__stmt_weight(const tn__stmt *s) {
  int64_t total = 1;
  switch (s->kind) {
    case TN__STMT_FOR: {
      int64_t times = 1;
      if (s->as.loop.kind != TN__LOOP_UNROLLED || !tn__ir_as_int(s->as.loop.var->extent, &times)) times = 1;
      return tn__ir_bound_add(1, tn__ir_bound_mul(times, tn__stmt_weight(s->as.loop.body)));
    }
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++) total = tn__ir_bound_add(total, tn__stmt_weight(s->as.seq.items[i]));
      return total;
    case TN__STMT_IF:
      total = tn__ir_bound_add(total, tn__stmt_weight(s->as.branch.then_body));
      return s->as.branch.else_body == NULL ? total : tn__ir_bound_add(total, tn__stmt_weight(s->as.branch.else_body));
    case TN__STMT_LET: return tn__stmt_weight(s->as.let.body);
    case TN__STMT_ALLOC: return tn__stmt_weight(s->as.alloc.body);
    case TN__STMT_WHILE: return tn__ir_bound_add(1, tn__stmt_weight(s->as.repeat.body));
    case TN__STMT_TENSOR: return tn__ir_bound_add(1, tn__stmt_weight(s->as.tensor.body));
    default: return total;
  }
}

bool tn__ir_has_function(tn__expr_set *seen, const tn__expr *e) {
  if (!tn__expr_set_add(seen, e)) return false;
  if (e->kind == TN__EXPR_CALL && e->intrinsic >= TN__CALL_EXP && e->intrinsic <= TN__CALL_ERF) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (tn__ir_has_function(seen, e->args[i])) return true;
  return false;
}

typedef struct likely_search {
  tn__ir *ir;
  uint64_t epoch;
  tn__expr_vec found;
} likely_search;

static void find_likely(const tn__expr *e, void *user) {
  likely_search *search = user;
  tn__node *node = tn__node_of(e);
  if (!node->has_likely || node->visit_epoch == search->epoch) return;
  node->visit_epoch = search->epoch;
  if (e->kind == TN__EXPR_CALL && e->intrinsic == TN__CALL_LIKELY) tn__vec_push(search->ir->arena, &search->found, e);
  for (int i = 0; i < e->arg_count; i++) find_likely(e->args[i], user);
}

tn__expr_vec tn__ir_likely_in(tn__ir *ir, const tn__stmt *s) {
  likely_search search = {.ir = ir, .epoch = ir->next_epoch++};
  tn__stmt_walk_exprs(s, find_likely, &search);
  return search.found;
}
