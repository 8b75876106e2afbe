/* Copies of functions with everything made anew, in the order in which the text form names it. */
#include "ir/context.h"
#include "ir/print.h"

/* The copy of a node, if made since the binding `round`. */
typedef struct copied {
  const tn__expr *of, *copy; /* of NULL: a free slot */
  uint32_t round;
} copied;

struct tn__importer {
  tn__ir *ir;
  TN__VEC(const tn__var *) old_vars;
  TN__VEC(const tn__var *) new_vars;
  TN__VEC(const tn__buffer *) old_buffers;
  TN__VEC(const tn__buffer *) new_buffers;
  TN__VEC(const tn__buffer *) params;
  TN__VEC(const tn__buffer *) strided; /* whose copies get the strides of the next list, expressions of the new ir */
  TN__VEC(const tn__expr *const *) strides;
  copied *copies; /* by the old node: open addressing by its hash. Whoever takes a small part of a large context pays
                   * for the part. */
  size_t copy_capacity, copy_count;
  uint32_t round;
};

static const tn__var *var_of(tn__importer *m, const tn__var *var) {
  for (int i = m->old_vars.count - 1; i >= 0; i--)
    if (m->old_vars.data[i] == var) return m->new_vars.data[i];
  tn__ir_defect(m->ir, "variable %s is not bound", var->name);
}

static const tn__buffer *buffer_of(tn__importer *m, const tn__buffer *buffer) {
  for (int i = m->old_buffers.count - 1; i >= 0; i--)
    if (m->old_buffers.data[i] == buffer) return m->new_buffers.data[i];
  tn__ir_defect(m->ir, "buffer %s is not allocated", buffer->name);
}

static copied *slot_of(const tn__importer *m, const tn__expr *e) {
  size_t at = e->hash & (m->copy_capacity - 1);
  while (m->copies[at].of != NULL && m->copies[at].of != e) at = (at + 1) & (m->copy_capacity - 1);
  return &m->copies[at];
}

static void reserve_copy(tn__importer *m) {
  if (m->copy_count * 2 < m->copy_capacity) return;
  const copied *old = m->copies;
  const size_t count = m->copy_capacity;
  m->copy_capacity = count == 0 ? 64 : 2 * count;
  m->copies = TN__NEW_ARRAY(m->ir->arena, m->copy_capacity, copied);
  for (size_t i = 0; i < count; i++)
    if (old[i].of != NULL) *slot_of(m, old[i].of) = old[i];
}

static const tn__expr *copy_of(tn__importer *m, const tn__expr *e) {
  const tn__expr *few[4];
  const tn__expr **args = e->arg_count <= 4 ? few : TN__NEW_ARRAY(m->ir->arena, e->arg_count, const tn__expr *);
  for (int i = 0; i < e->arg_count; i++) args[i] = tn__ir_import_expr(m, e->args[i]);
  switch (e->kind) {
    case TN__EXPR_INT: return tn__ir_int(m->ir, e->dtype, e->value.i);
    case TN__EXPR_FLOAT: return tn__ir_float(m->ir, e->dtype, e->value.f);
    case TN__EXPR_VAR: return var_of(m, e->value.var)->self;
    case TN__EXPR_LOAD: return tn__ir_load(m->ir, buffer_of(m, e->value.buffer), args);
    default: return tn__expr_with_args(m->ir, e, args);
  }
}

const tn__expr *tn__ir_import_expr(tn__importer *m, const tn__expr *e) {
  reserve_copy(m);
  const copied *found = slot_of(m, e);
  if (found->of != NULL && found->round == m->round) return found->copy;
  const tn__expr *copy = copy_of(m, e);
  reserve_copy(m); /* its arguments took slots */
  copied *slot = slot_of(m, e);
  m->copy_count += slot->of == NULL;
  *slot = (copied){e, copy, m->round};
  return copy;
}

static const tn__expr *const *import_exprs(tn__importer *m, const tn__expr *const *exprs, int count) {
  const tn__expr **out = TN__NEW_ARRAY(m->ir->arena, count, const tn__expr *);
  for (int i = 0; i < count; i++) out[i] = tn__ir_import_expr(m, exprs[i]);
  return out;
}

const tn__var *tn__ir_import_var(tn__importer *m, const tn__var *var) {
  const tn__expr *min = var->min == NULL ? NULL : tn__ir_import_expr(m, var->min);
  const tn__expr *extent = var->extent == NULL ? NULL : tn__ir_import_expr(m, var->extent);
  const tn__var *fresh = tn__var_create(m->ir, var->name, var->dtype, min, extent);
  tn__vec_push(m->ir->arena, &m->old_vars, var);
  tn__vec_push(m->ir->arena, &m->new_vars, fresh);
  m->round++;
  return fresh;
}

void tn__ir_import_as_param(tn__importer *m, const tn__buffer *buffer) {
  tn__vec_push(m->ir->arena, &m->params, buffer);
}

const tn__buffer *tn__ir_import_buffer(tn__importer *m, const tn__buffer *buffer) {
  tn__scope scope = buffer->scope;
  for (int i = 0; i < m->params.count; i++)
    if (m->params.data[i] == buffer) scope = TN__SCOPE_PARAM;
  tn__buffer *fresh = tn__buffer_create(m->ir, buffer->name, buffer->dtype, scope, buffer->rank,
                                        import_exprs(m, buffer->shape, buffer->rank));
  const tn__expr *const *strides = buffer->strides == NULL ? NULL : import_exprs(m, buffer->strides, buffer->rank);
  for (int i = 0; i < m->strided.count; i++)
    if (m->strided.data[i] == buffer) strides = m->strides.data[i];
  tn__buffer_set_strides(m->ir, fresh, strides);
  tn__vec_push(m->ir->arena, &m->old_buffers, buffer);
  tn__vec_push(m->ir->arena, &m->new_buffers, fresh);
  m->round++;
  return fresh;
}

void tn__ir_import_with_strides(tn__importer *m, const tn__buffer *buffer, const tn__expr *const *strides) {
  tn__vec_push(m->ir->arena, &m->strided, buffer);
  tn__vec_push(m->ir->arena, &m->strides, strides);
}

static const tn__region *import_regions(tn__importer *m, const tn__region *regions, int count) {
  tn__region *out = TN__NEW_ARRAY(m->ir->arena, count, tn__region);
  for (int i = 0; i < count; i++)
    out[i] = (tn__region){.buffer = buffer_of(m, regions[i].buffer),
                          .min = import_exprs(m, regions[i].min, regions[i].buffer->rank),
                          .extent = import_exprs(m, regions[i].extent, regions[i].buffer->rank)};
  return out;
}

static const tn__stmt *import_block(tn__importer *m, const tn__block *old) {
  tn__block b = *old;
  tn__block_axis *axes = TN__NEW_ARRAY(m->ir->arena, old->axis_count, tn__block_axis);
  b.name = tn__arena_strdup(m->ir->arena, old->name);
  b.predicate = tn__ir_import_expr(m, old->predicate);
  for (int i = 0; i < old->axis_count; i++) axes[i].binding = tn__ir_import_expr(m, old->axes[i].binding);
  for (int i = 0; i < old->axis_count; i++) {
    axes[i].kind = old->axes[i].kind;
    axes[i].var = tn__ir_import_var(m, old->axes[i].var);
  }
  b.axes = axes;
  b.reads = import_regions(m, old->reads, old->read_count);
  b.writes = import_regions(m, old->writes, old->write_count);
  b.init = old->init == NULL ? NULL : tn__ir_import_stmt(m, old->init);
  b.body = tn__ir_import_stmt(m, old->body);
  return tn__block_stmt(m->ir, &b);
}

static const tn__stmt *import_kind(tn__importer *m, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR: {
      const tn__var *var = tn__ir_import_var(m, s->as.loop.var);
      return tn__ir_for_like(m->ir, s, var, tn__ir_import_stmt(m, s->as.loop.body));
    }
    case TN__STMT_STORE:
      return tn__ir_store_like(m->ir, s, buffer_of(m, s->as.store.buffer),
                               import_exprs(m, s->as.store.indices, s->as.store.buffer->rank),
                               tn__ir_import_expr(m, s->as.store.value));
    case TN__STMT_SEQ: {
      const tn__stmt **items = TN__NEW_ARRAY(m->ir->arena, s->as.seq.count, const tn__stmt *);
      for (int i = 0; i < s->as.seq.count; i++) items[i] = tn__ir_import_stmt(m, s->as.seq.items[i]);
      return tn__ir_seq(m->ir, items, s->as.seq.count);
    }
    case TN__STMT_IF: {
      const tn__expr *condition = tn__ir_import_expr(m, s->as.branch.condition);
      const tn__stmt *a = tn__ir_import_stmt(m, s->as.branch.then_body);
      return tn__ir_if(m->ir, condition, a,
                       s->as.branch.else_body ? tn__ir_import_stmt(m, s->as.branch.else_body) : NULL);
    }
    case TN__STMT_LET: {
      const tn__expr *value = tn__ir_import_expr(m, s->as.let.value);
      const tn__var *var = tn__ir_import_var(m, s->as.let.var);
      return tn__ir_let(m->ir, var, value, tn__ir_import_stmt(m, s->as.let.body));
    }
    case TN__STMT_ALLOC: {
      const tn__buffer *buffer = tn__ir_import_buffer(m, s->as.alloc.buffer);
      return tn__ir_alloc_stmt(m->ir, buffer, tn__ir_import_stmt(m, s->as.alloc.body));
    }
    case TN__STMT_WHILE: {
      const tn__expr *condition = tn__ir_import_expr(m, s->as.repeat.condition);
      return tn__ir_while(m->ir, condition, tn__ir_import_stmt(m, s->as.repeat.body));
    }
    case TN__STMT_FAIL: return tn__ir_fail(m->ir, s->as.fail.code);
    case TN__STMT_BARRIER: return tn__ir_barrier(m->ir);
    case TN__STMT_PREFETCH: {
      const tn__buffer *buffer = s->as.prefetch.buffer;
      return tn__ir_prefetch_stmt(m->ir, buffer_of(m, buffer), import_exprs(m, s->as.prefetch.indices, buffer->rank),
                                  s->as.prefetch.far);
    }
    case TN__STMT_TENSOR: {
      int count = tn__ir_tensor_operand_count(s->as.tensor.op);
      tn__access *operands = TN__NEW_ARRAY(m->ir->arena, count, tn__access);
      for (int i = 0; i < count; i++) {
        const tn__access *old = &s->as.tensor.operands[i];
        operands[i].buffer = buffer_of(m, old->buffer);
        operands[i].indices = import_exprs(m, old->indices, old->buffer->rank);
      }
      return tn__ir_tensor_stmt(m->ir, s->as.tensor.op, operands, tn__ir_import_stmt(m, s->as.tensor.body));
    }
    case TN__STMT_BLOCK: return import_block(m, s->as.block);
  }
  tn__ir_defect(m->ir, "a statement of kind %d", (int)s->kind);
}

const tn__stmt *tn__ir_import_stmt(tn__importer *m, const tn__stmt *s) {
  int vars = m->old_vars.count, buffers = m->old_buffers.count;
  const tn__stmt *result = import_kind(m, s);
  if (m->old_vars.count != vars || m->old_buffers.count != buffers) m->round++;
  m->old_vars.count = m->new_vars.count = vars;
  m->old_buffers.count = m->new_buffers.count = buffers;
  return result;
}

tn__importer *tn__importer_create(tn__ir *ir) {
  tn__importer *m = TN__NEW(ir->arena, tn__importer);
  m->ir = ir;
  m->round = 1;
  return m;
}

const tn__buffer *tn__ir_imported_buffer(tn__importer *m, const tn__buffer *buffer) { return buffer_of(m, buffer); }

tn__func *tn__func_import(tn__ir *ir, const tn__func *func) {
  tn__importer m = {.ir = ir, .round = 1};
  const tn__var **scalars = TN__NEW_ARRAY(ir->arena, func->scalar_count, const tn__var *);
  const tn__buffer **params = TN__NEW_ARRAY(ir->arena, func->input_count + func->output_count, const tn__buffer *);
  for (int i = 0; i < func->scalar_count; i++) scalars[i] = tn__ir_import_var(&m, func->scalars[i]);
  for (int i = 0; i < func->input_count + func->output_count; i++)
    params[i] = tn__ir_import_buffer(&m, func->params[i]);
  return tn__func_create(ir, func->name, params, func->input_count, params + func->input_count, func->output_count,
                         scalars, func->scalar_count, tn__ir_import_stmt(&m, func->body));
}
