/* Rebuilding of statement trees. One walk serves every kind of rewriting: it carries the variables and buffers that
 * were replaced on the way (a loop whose bounds change gets a new variable, an allocation whose shape changes a new
 * buffer) and shares what stays the same. */
#include <string.h>

#include "ir/context.h"
#include "ir/stmt.h"

typedef struct rewriting {
  tn__ir *ir;
  tn__stmt_rewriter on_stmt;
  tn__whole_expr_rewriter on_expr;
  void *user;
  TN__VEC(const tn__var *) vars; /* replaced by `values` wherever they are read */
  TN__VEC(const tn__expr *) values;
  TN__VEC(const tn__buffer *) from_buffers;
  TN__VEC(const tn__buffer *) to_buffers;
  tn__index_map map; /* of the first buffer pair; later pairs keep their indices */
  void *map_user;
  bool folded; /* the node became one of its children, which `on_stmt` has seen */
} rewriting;

static const tn__buffer *mapped_buffer(const rewriting *r, const tn__buffer *buffer, bool *has_map) {
  for (int i = r->from_buffers.count - 1; i >= 0; i--) {
    if (r->from_buffers.data[i] != buffer) continue;
    *has_map = i == 0 && r->map != NULL;
    return r->to_buffers.data[i];
  }
  return buffer;
}

static const tn__expr *const *mapped_indices(rewriting *r, const tn__buffer *to, const tn__expr *const *indices) {
  const tn__expr **out = TN__NEW_ARRAY(r->ir->arena, to->rank, const tn__expr *);
  r->map(r->ir, indices, out, r->map_user);
  return out;
}

static const tn__expr *replace_load(tn__ir *ir, const tn__expr *e, void *user) {
  rewriting *r = user;
  if (e->kind != TN__EXPR_LOAD) return NULL;
  bool has_map = false;
  const tn__buffer *to = mapped_buffer(r, e->value.buffer, &has_map);
  if (to == e->value.buffer) return NULL;
  return tn__ir_load(ir, to, has_map ? mapped_indices(r, to, e->args) : e->args);
}

static const tn__expr *rewrite_expr(rewriting *r, const tn__expr *e) {
  if (r->vars.count > 0) e = tn__ir_substitute(r->ir, e, r->vars.data, r->values.data, r->vars.count);
  if (r->from_buffers.count > 0 && tn__expr_has_load(e)) e = tn__expr_rewrite(r->ir, e, replace_load, r);
  const tn__expr *result = r->on_expr == NULL ? NULL : r->on_expr(r->ir, e, r->user);
  return result == NULL ? e : result;
}

static const tn__expr *const *rewrite_exprs(rewriting *r, const tn__expr *const *exprs, int count) {
  const tn__expr **out = NULL;
  for (int i = 0; i < count; i++) {
    const tn__expr *e = rewrite_expr(r, exprs[i]);
    if (e == exprs[i] && out == NULL) continue;
    if (out == NULL) out = tn__arena_copy(r->ir->arena, exprs, (size_t)count * sizeof(*exprs));
    out[i] = e;
  }
  return out == NULL ? exprs : out;
}

/* The variable with rewritten bounds: itself when they stay, otherwise a new one that replaces it from here on. */
static const tn__var *rewrite_var(rewriting *r, const tn__var *var) {
  const tn__expr *min = var->min == NULL ? NULL : rewrite_expr(r, var->min);
  const tn__expr *extent = var->extent == NULL ? NULL : rewrite_expr(r, var->extent);
  if (min == var->min && extent == var->extent) return var;
  const tn__var *fresh = tn__var_create(r->ir, var->name, var->dtype, min, extent);
  tn__vec_push(r->ir->arena, &r->vars, var);
  tn__vec_push(r->ir->arena, &r->values, fresh->self);
  return fresh;
}

static const tn__buffer *rewrite_allocation(rewriting *r, const tn__buffer *buffer) {
  bool has_map = false;
  const tn__buffer *to = mapped_buffer(r, buffer, &has_map);
  if (to != buffer) return to;
  const tn__expr *const *shape = rewrite_exprs(r, buffer->shape, buffer->rank);
  if (shape == buffer->shape) return buffer;
  to = tn__buffer_create(r->ir, buffer->name, buffer->dtype, buffer->scope, buffer->rank, shape);
  if (r->from_buffers.count == 0) { /* keep the first pair free for the one with the map */
    tn__vec_push(r->ir->arena, &r->from_buffers, NULL);
    tn__vec_push(r->ir->arena, &r->to_buffers, NULL);
  }
  tn__vec_push(r->ir->arena, &r->from_buffers, buffer);
  tn__vec_push(r->ir->arena, &r->to_buffers, to);
  return to;
}

static const tn__stmt *rewrite(rewriting *r, const tn__stmt *s);

/* The indices of an access, and its buffer in *buffer. */
static const tn__expr *const *rewrite_access(rewriting *r, const tn__buffer **buffer, const tn__expr *const *indices) {
  bool has_map = false;
  indices = rewrite_exprs(r, indices, (*buffer)->rank);
  *buffer = mapped_buffer(r, *buffer, &has_map);
  return has_map ? mapped_indices(r, *buffer, indices) : indices;
}

static const tn__stmt *rewrite_store(rewriting *r, const tn__stmt *s) {
  const tn__expr *value = rewrite_expr(r, s->as.store.value);
  const tn__buffer *buffer = s->as.store.buffer;
  const tn__expr *const *indices = rewrite_access(r, &buffer, s->as.store.indices);
  if (value == s->as.store.value && indices == s->as.store.indices && buffer == s->as.store.buffer) return s;
  return tn__ir_store_like(r->ir, s, buffer, indices, value);
}

static const tn__stmt *rewrite_seq(rewriting *r, const tn__stmt *s) {
  int count = s->as.seq.count;
  const tn__stmt **items = TN__NEW_ARRAY(r->ir->arena, count, const tn__stmt *);
  bool changed = false;
  for (int i = 0; i < count; i++) {
    items[i] = rewrite(r, s->as.seq.items[i]);
    changed |= items[i] != s->as.seq.items[i];
  }
  if (!changed) return s;
  const tn__stmt *seq = tn__ir_seq(r->ir, items, count);
  r->folded = seq->kind != TN__STMT_SEQ;
  return seq;
}

static const tn__stmt *rewrite_if(rewriting *r, const tn__stmt *s) {
  const tn__expr *condition = rewrite_expr(r, s->as.branch.condition);
  if (condition->kind == TN__EXPR_INT) {
    const tn__stmt *taken = tn__ir_is_true(condition) ? s->as.branch.then_body : s->as.branch.else_body;
    const tn__stmt *result = taken == NULL ? tn__ir_seq(r->ir, NULL, 0) : rewrite(r, taken);
    r->folded = true;
    return result;
  }
  const tn__stmt *a = rewrite(r, s->as.branch.then_body);
  const tn__stmt *b = s->as.branch.else_body == NULL ? NULL : rewrite(r, s->as.branch.else_body);
  if (condition == s->as.branch.condition && a == s->as.branch.then_body && b == s->as.branch.else_body) return s;
  return tn__ir_if(r->ir, condition, a, b);
}

static const tn__region *rewrite_regions(rewriting *r, const tn__region *regions, int count) {
  tn__region *out = tn__arena_copy(r->ir->arena, regions, (size_t)count * sizeof(*regions));
  bool changed = false;
  for (int i = 0; i < count; i++) {
    int rank = regions[i].buffer->rank;
    bool has_map = false;
    out[i].buffer = mapped_buffer(r, regions[i].buffer, &has_map);
    out[i].min = rewrite_exprs(r, regions[i].min, rank);
    out[i].extent = rewrite_exprs(r, regions[i].extent, rank);
    if (has_map) {
      /* Both corners through the map; exact for maps that are monotone in each dimension, as layouts and offsets
       * are. */
      const tn__expr **last = TN__NEW_ARRAY(r->ir->arena, rank, const tn__expr *);
      for (int d = 0; d < rank; d++)
        last[d] = tn__ir_add_i(r->ir, tn__ir_add(r->ir, out[i].min[d], out[i].extent[d]), -1);
      out[i].min = mapped_indices(r, out[i].buffer, out[i].min);
      const tn__expr *const *end = mapped_indices(r, out[i].buffer, last);
      const tn__expr **extent = TN__NEW_ARRAY(r->ir->arena, out[i].buffer->rank, const tn__expr *);
      for (int d = 0; d < out[i].buffer->rank; d++)
        extent[d] = tn__ir_add_i(r->ir, tn__ir_sub(r->ir, end[d], out[i].min[d]), 1);
      out[i].extent = extent;
    }
    changed |= out[i].buffer != regions[i].buffer || out[i].min != regions[i].min || out[i].extent != regions[i].extent;
  }
  return changed ? out : regions;
}

static const tn__stmt *rewrite_block(rewriting *r, const tn__stmt *s) {
  const tn__block *old = s->as.block;
  tn__block b = *old;
  tn__block_axis *axes = tn__arena_copy(r->ir->arena, old->axes, (size_t)old->axis_count * sizeof(*axes));
  /* Bindings and predicate speak of the loops outside, the rest of the axes. */
  b.predicate = rewrite_expr(r, old->predicate);
  bool changed = b.predicate != old->predicate;
  for (int i = 0; i < old->axis_count; i++) {
    axes[i].binding = rewrite_expr(r, old->axes[i].binding);
    changed |= axes[i].binding != old->axes[i].binding;
  }
  for (int i = 0; i < old->axis_count; i++) {
    axes[i].var = rewrite_var(r, old->axes[i].var);
    changed |= axes[i].var != old->axes[i].var;
  }
  b.reads = rewrite_regions(r, old->reads, old->read_count);
  b.writes = rewrite_regions(r, old->writes, old->write_count);
  b.init = old->init == NULL ? NULL : rewrite(r, old->init);
  b.body = rewrite(r, old->body);
  changed |= b.reads != old->reads || b.writes != old->writes || b.init != old->init || b.body != old->body;
  b.axes = axes;
  return changed ? tn__block_stmt(r->ir, &b) : s;
}

static const tn__stmt *rewrite_tensor(rewriting *r, const tn__stmt *s) {
  int count = tn__ir_tensor_operand_count(s->as.tensor.op);
  tn__access *operands =
      tn__arena_copy(r->ir->arena, s->as.tensor.operands, (size_t)count * sizeof(*s->as.tensor.operands));
  bool changed = false;
  for (int i = 0; i < count; i++) {
    const tn__access *old = &s->as.tensor.operands[i];
    operands[i].indices = rewrite_access(r, &operands[i].buffer, old->indices);
    changed |= operands[i].buffer != old->buffer || operands[i].indices != old->indices;
  }
  const tn__stmt *body = rewrite(r, s->as.tensor.body);
  return changed || body != s->as.tensor.body ? tn__ir_tensor_stmt(r->ir, s->as.tensor.op, operands, body) : s;
}

static const tn__stmt *rewrite_children(rewriting *r, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR: {
      const tn__var *var = rewrite_var(r, s->as.loop.var);
      const tn__stmt *body = rewrite(r, s->as.loop.body);
      if (var == s->as.loop.var && body == s->as.loop.body) return s;
      return tn__ir_for_like(r->ir, s, var, body);
    }
    case TN__STMT_STORE: return rewrite_store(r, s);
    case TN__STMT_SEQ: return rewrite_seq(r, s);
    case TN__STMT_IF: return rewrite_if(r, s);
    case TN__STMT_LET: {
      const tn__expr *value = rewrite_expr(r, s->as.let.value);
      const tn__var *var = rewrite_var(r, s->as.let.var);
      const tn__stmt *body = rewrite(r, s->as.let.body);
      if (value == s->as.let.value && var == s->as.let.var && body == s->as.let.body) return s;
      return tn__ir_let(r->ir, var, value, body);
    }
    case TN__STMT_ALLOC: {
      const tn__buffer *buffer = rewrite_allocation(r, s->as.alloc.buffer);
      const tn__stmt *body = rewrite(r, s->as.alloc.body);
      if (buffer == s->as.alloc.buffer && body == s->as.alloc.body) return s;
      r->folded = buffer->scope == TN__SCOPE_PARAM;
      return r->folded ? body : tn__ir_alloc_stmt(r->ir, buffer, body);
    }
    case TN__STMT_WHILE: {
      const tn__expr *condition = rewrite_expr(r, s->as.repeat.condition);
      const tn__stmt *body = rewrite(r, s->as.repeat.body);
      if (condition == s->as.repeat.condition && body == s->as.repeat.body) return s;
      return tn__ir_while(r->ir, condition, body);
    }
    case TN__STMT_PREFETCH: {
      const tn__buffer *buffer = s->as.prefetch.buffer;
      const tn__expr *const *indices = rewrite_access(r, &buffer, s->as.prefetch.indices);
      if (buffer == s->as.prefetch.buffer && indices == s->as.prefetch.indices) return s;
      return tn__ir_prefetch_stmt(r->ir, buffer, indices, s->as.prefetch.far);
    }
    case TN__STMT_TENSOR: return rewrite_tensor(r, s);
    case TN__STMT_BLOCK: return rewrite_block(r, s);
    case TN__STMT_BARRIER:
    case TN__STMT_FAIL: return s;
  }
  return s;
}

static const tn__stmt *rewrite(rewriting *r, const tn__stmt *s) {
  int var_count = r->vars.count, buffer_count = r->from_buffers.count;
  r->folded = false;
  const tn__stmt *kept = rewrite_children(r, s);
  bool folded = r->folded;
  r->folded = false;
  r->vars.count = r->values.count = var_count; /* replacements made inside end here */
  r->from_buffers.count = r->to_buffers.count = buffer_count;
  const tn__stmt *result = folded || r->on_stmt == NULL ? NULL : r->on_stmt(r->ir, kept, r->user);
  return result == NULL ? kept : result;
}

const tn__stmt *tn__stmt_rewrite(tn__ir *ir, const tn__stmt *s, tn__stmt_rewriter on_stmt,
                                 tn__whole_expr_rewriter on_expr, void *user) {
  rewriting r = {.ir = ir, .on_stmt = on_stmt, .on_expr = on_expr, .user = user};
  return rewrite(&r, s);
}

const tn__stmt *tn__stmt_substitute(tn__ir *ir, const tn__stmt *s, const tn__var *const *vars,
                                    const tn__expr *const *values, int count) {
  rewriting r = {.ir = ir};
  for (int i = 0; i < count; i++) {
    tn__vec_push(ir->arena, &r.vars, vars[i]);
    tn__vec_push(ir->arena, &r.values, values[i]);
  }
  return rewrite(&r, s);
}

const tn__stmt *tn__stmt_replace_buffer(tn__ir *ir, const tn__stmt *s, const tn__buffer *from, const tn__buffer *to,
                                        tn__index_map map, void *user) {
  if (from->dtype != to->dtype || (map == NULL && from->rank != to->rank))
    tn__ir_defect(ir, "buffer %s of type %s and rank %d cannot stand for %s of type %s and rank %d", to->name,
                  tn_dtype_name(to->dtype), to->rank, from->name, tn_dtype_name(from->dtype), from->rank);
  rewriting r = {.ir = ir, .map = map, .map_user = user};
  tn__vec_push(ir->arena, &r.from_buffers, from);
  tn__vec_push(ir->arena, &r.to_buffers, to);
  return rewrite(&r, s);
}
