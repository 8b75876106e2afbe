/* What every function must keep to, at every stage of its lowering. */
#include <ctype.h>
#include <string.h>

#include "base/map.h"
#include "ir/context.h"
#include "ir/stmt.h"
#include "ir/text.h"

enum { MAX_STACK_BYTES = 64 << 10 };

typedef struct verifier {
  tn__ir *ir;
  tn__arena *arena;
  const tn__func *func;
  bool *var_bound;     /* by id */
  bool *buffer_known;  /* by id */
  bool *buffer_inside; /* by id: allocated inside of the innermost block */
  uint32_t var_count, buffer_count;
  TN__VEC(const tn__block *) blocks; /* around the statement */
  tn__map block_names;
  bool in_parallel, in_vectorized, in_tensor;
  const char *vectorized;
  bool *var_varies;                 /* by id: differs from thread to thread */
  bool *buffer_is_input;            /* by id */
  TN__VEC(const tn__stmt *) bound;  /* loops over blocks and threads around the statement */
  int threads;                      /* how many of them are over threads */
  const char *diverges;             /* what may not bring all threads to the statement; NULL: nothing */
  const tn__buffer *shared, *local; /* the innermost allocated around the statement */
} verifier;

_Noreturn static void broken(const verifier *v, const char *format, ...) TN_PRINTF(2, 3);
static void broken(const verifier *v, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_INTERNAL, format, args);
  va_end(args);
  tn__throw(v->arena->escape, tn_status_prefix(status, "function %s", v->func->name));
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

/* The leaf of `e` that is not known; found only after the sets said that there is one. */
static const tn__expr *stranger(const verifier *v, const tn__expr *e) {
  if (e->kind == TN__EXPR_VAR) return v->var_bound[e->value.var->id] ? NULL : e;
  const tn__expr *found = NULL;
  for (int i = 0; i < e->arg_count && found == NULL; i++) found = stranger(v, e->args[i]);
  if (found == NULL && e->kind == TN__EXPR_LOAD && !v->buffer_known[e->value.buffer->id]) found = e;
  return found;
}

static bool all_known(const tn__id_set *set, const bool *known, uint32_t count) {
  for (int i = 0; set != NULL && i < set->count; i++)
    if (set->ids[i] >= count || !known[set->ids[i]]) return false;
  return true;
}

static void check_in_block(verifier *v, const tn__block *b, const tn__buffer *buffer, const tn__expr *const *indices,
                           bool store);

/* Loads inside of blocks, each node once: `epoch` marks them. */
static void check_loads(verifier *v, const tn__expr *e, uint64_t epoch) {
  tn__node *node = tn__node_of(e);
  if (node->buffers == NULL || node->visit_epoch == epoch) return;
  node->visit_epoch = epoch;
  if (e->kind == TN__EXPR_LOAD)
    for (int i = 0; i < v->blocks.count; i++) check_in_block(v, v->blocks.data[i], e->value.buffer, e->args, false);
  for (int i = 0; i < e->arg_count; i++) check_loads(v, e->args[i], epoch);
}

static void check_expr(verifier *v, const tn__expr *e, const char *what, const char *name) {
  const tn__node *node = tn__node_of(e);
  if (!all_known(node->vars, v->var_bound, v->var_count) ||
      !all_known(node->buffers, v->buffer_known, v->buffer_count)) {
    const tn__expr *leaf = stranger(v, e);
    if (leaf == NULL) broken(v, "%s %s belongs to another context", what, name);
    if (leaf->kind == TN__EXPR_VAR)
      broken(v, "%s %s reads the variable %s, which is not bound there", what, name, leaf->value.var->name);
    broken(v, "%s %s reads the buffer %s, which is not allocated there", what, name, leaf->value.buffer->name);
  }
  if (v->blocks.count > 0) check_loads(v, e, v->ir->next_epoch++);
}

/* Has the expression one value for all threads of a block, whenever they ask? */
static bool is_uniform(const verifier *v, const tn__expr *e) {
  const tn__id_set *vars = tn__node_of(e)->vars, *buffers = tn__node_of(e)->buffers;
  for (int i = 0; vars != NULL && i < vars->count; i++)
    if (v->var_varies[vars->ids[i]]) return false;
  return buffers == NULL || all_known(buffers, v->buffer_is_input, v->buffer_count);
}

static void check_exprs(verifier *v, const tn__expr *const *exprs, int count, const char *what, const char *name) {
  for (int i = 0; i < count; i++) check_expr(v, exprs[i], what, name);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Is the access certainly outside of the region? What cannot be decided is taken to be inside. */
static bool is_outside(verifier *v, const tn__region *r, const tn__expr *const *indices) {
  for (int i = 0; i < r->buffer->rank; i++) {
    const tn__expr *end = tn__ir_add(v->ir, r->min[i], r->extent[i]);
    if (tn__ir_is_false(tn__ir_le(v->ir, r->min[i], indices[i])) || tn__ir_is_false(tn__ir_lt(v->ir, indices[i], end)))
      return true;
  }
  return false;
}

static void check_in_block(verifier *v, const tn__block *b, const tn__buffer *buffer, const tn__expr *const *indices,
                           bool store) {
  if (v->buffer_inside[buffer->id]) return;
  bool stated = false;
  for (int i = 0; i < b->read_count + b->write_count; i++) {
    bool is_read = i < b->read_count;
    const tn__region *r = is_read ? &b->reads[i] : &b->writes[i - b->read_count];
    if (r->buffer != buffer || (store && is_read)) continue;
    stated = true;
    if (!is_outside(v, r, indices)) return;
  }
  const char *verb = store ? "writes" : "reads";
  if (stated) broken(v, "block \"%s\" %s %s outside of the region that it states", b->name, verb, buffer->name);
  broken(v, "block \"%s\" %s %s without stating it", b->name, verb, buffer->name);
}

static void check_stmt(verifier *v, const tn__stmt *s);

static void bind_var(verifier *v, const tn__var *var, const char *what) {
  if (var->min != NULL) check_expr(v, var->min, what, var->name);
  if (var->extent != NULL) check_expr(v, var->extent, what, var->name);
  if (var->id >= v->var_count) broken(v, "%s %s belongs to another context", what, var->name);
  if (v->var_bound[var->id]) broken(v, "%s %s is bound a second time inside of its own scope", what, var->name);
  v->var_bound[var->id] = true;
}

static void check_regions(verifier *v, const tn__block *b, const tn__region *regions, int count) {
  for (int i = 0; i < count; i++) {
    const tn__buffer *buffer = regions[i].buffer;
    if (buffer->id >= v->buffer_count || !v->buffer_known[buffer->id])
      broken(v, "block \"%s\" states a region of %s, which is not allocated there", b->name, buffer->name);
    check_exprs(v, regions[i].min, buffer->rank, "region of", buffer->name);
    check_exprs(v, regions[i].extent, buffer->rank, "region of", buffer->name);
  }
}

static void check_block(verifier *v, const tn__block *b) {
  if (tn__map_has(&v->block_names, b->name)) broken(v, "two blocks are called \"%s\"", b->name);
  tn__map_set(&v->block_names, b->name, v);
  check_expr(v, b->predicate, "the predicate of block", b->name);
  for (int i = 0; i < b->axis_count; i++) {
    const tn__block_axis *axis = &b->axes[i];
    if (axis->var->min == NULL || axis->var->extent == NULL)
      broken(v, "axis %s of block \"%s\" has no domain", axis->var->name, b->name);
    check_expr(v, axis->binding, "the binding of axis", axis->var->name);
  }
  for (int i = 0; i < b->axis_count; i++) bind_var(v, b->axes[i].var, "axis");
  check_regions(v, b, b->reads, b->read_count);
  check_regions(v, b, b->writes, b->write_count);
  bool *outer = v->buffer_inside;
  v->buffer_inside = TN__NEW_ARRAY(v->arena, v->buffer_count, bool);
  tn__vec_push(v->arena, &v->blocks, b);
  if (b->init != NULL) check_stmt(v, b->init);
  check_stmt(v, b->body);
  v->blocks.count--;
  v->buffer_inside = outer;
  for (int i = 0; i < b->axis_count; i++) v->var_bound[b->axes[i].var->id] = false;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* What the loops and allocations around a loop over blocks or threads must be. */
static void check_bound(verifier *v, const tn__stmt *s) {
  const char *name = s->as.loop.var->name, *axis = tn__loop_kind_name(s->as.loop.kind);
  bool over_threads = tn__ir_loop_is_thread(s->as.loop.kind);
  if (v->in_parallel) broken(v, "loop %s over %s is inside of a parallel loop", name, axis);
  for (int i = 0; i < v->bound.count; i++) {
    const tn__stmt *outer = v->bound.data[i];
    if (outer->as.loop.kind == s->as.loop.kind)
      broken(v, "loop %s over %s is inside of loop %s over the same", name, axis, outer->as.loop.var->name);
    if (!over_threads && tn__ir_loop_is_thread(outer->as.loop.kind))
      broken(v, "loop %s over %s is inside of loop %s over threads; blocks stand around threads", name, axis,
             outer->as.loop.var->name);
  }
  if (over_threads && !tn__ir_is_int(s->as.loop.var->extent))
    broken(v, "loop %s over %s has no constant extent", name, axis);
  if (!over_threads && v->shared != NULL)
    broken(v, "loop %s over %s is inside of the allocation of %s, which one block has", name, axis, v->shared->name);
  if (over_threads && v->local != NULL)
    broken(v, "loop %s over %s is inside of the allocation of %s, which one thread has", name, axis, v->local->name);
}

/* Runs what stands inside of something that may not bring all threads to it. */
static void check_diverging(verifier *v, const char *why, const tn__stmt *s) {
  const char *outer = v->diverges;
  if (why != NULL && v->threads > 0) v->diverges = why;
  check_stmt(v, s);
  v->diverges = outer;
}

static const char *diverges_if(const verifier *v, const tn__expr *e, const char *why) {
  return is_uniform(v, e) ? NULL : why;
}

static void check_for(verifier *v, const tn__stmt *s) {
  const tn__var *var = s->as.loop.var;
  tn__loop_kind kind = s->as.loop.kind;
  bool parallel = v->in_parallel, vectorized = v->in_vectorized, over_threads = tn__ir_loop_is_thread(kind);
  if (v->in_vectorized) broken(v, "loop %s is inside of the vectorized loop %s", var->name, v->vectorized);
  if (kind == TN__LOOP_PARALLEL && v->bound.count > 0)
    broken(v, "parallel loop %s is inside of loop %s over %s", var->name, v->bound.data[0]->as.loop.var->name,
           tn__loop_kind_name(v->bound.data[0]->as.loop.kind));
  if (tn__ir_loop_is_bound(kind)) check_bound(v, s);
  if (kind == TN__LOOP_PARALLEL && v->in_parallel)
    broken(v, "parallel loop %s is inside of a parallel loop", var->name);
  if ((kind == TN__LOOP_VECTORIZED || kind == TN__LOOP_UNROLLED) && !tn__ir_is_int(var->extent))
    broken(v, "%s loop %s has no constant extent", kind == TN__LOOP_VECTORIZED ? "vectorized" : "unrolled", var->name);
  bind_var(v, var, "loop");
  bool uniform = is_uniform(v, var->min) && is_uniform(v, var->extent);
  v->var_varies[var->id] = over_threads || (v->threads > 0 && !uniform);
  if (tn__ir_loop_is_bound(kind)) tn__vec_push(v->arena, &v->bound, s);
  v->threads += over_threads;
  v->in_parallel |= kind == TN__LOOP_PARALLEL;
  if (kind == TN__LOOP_VECTORIZED) {
    v->in_vectorized = true;
    v->vectorized = var->name;
  }
  check_diverging(v, uniform ? NULL : "a loop whose bounds depend on the thread", s->as.loop.body);
  v->in_parallel = parallel;
  v->in_vectorized = vectorized;
  v->threads -= over_threads;
  if (tn__ir_loop_is_bound(kind)) v->bound.count--;
  v->var_bound[var->id] = false;
}

static bool is_input(const verifier *v, const tn__buffer *buffer) {
  for (int i = 0; i < v->func->input_count; i++)
    if (v->func->params[i] == buffer) return true;
  return false;
}

static void check_known(const verifier *v, const char *what, const tn__buffer *buffer) {
  if (buffer->id >= v->buffer_count || !v->buffer_known[buffer->id])
    broken(v, "%s %s, which is not allocated there", what, buffer->name);
}

static void check_prefetch(verifier *v, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.prefetch.buffer;
  check_known(v, "a prefetch of", buffer);
  if (v->in_vectorized) broken(v, "a prefetch is inside of the vectorized loop %s", v->vectorized);
  check_exprs(v, s->as.prefetch.indices, buffer->rank, "an index of the prefetch of", buffer->name);
}

static void check_tensor(verifier *v, const tn__stmt *s) {
  const char *name = tn__ir_tensor_name(s->as.tensor.op);
  if (v->in_vectorized) broken(v, "tensor \"%s\" is inside of the vectorized loop %s", name, v->vectorized);
  for (int i = 0; i < tn__ir_tensor_operand_count(s->as.tensor.op); i++) {
    const tn__access *operand = &s->as.tensor.operands[i];
    check_known(v, "a tensor operand in", operand->buffer);
    check_exprs(v, operand->indices, operand->buffer->rank, "an index of a tensor operand in", operand->buffer->name);
  }
  bool in_tensor = v->in_tensor;
  v->in_tensor = true;
  check_stmt(v, s->as.tensor.body);
  v->in_tensor = in_tensor;
}

static void check_store(verifier *v, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.store.buffer;
  check_known(v, "a store to", buffer);
  if (is_input(v, buffer)) broken(v, "a store to the input %s", buffer->name);
  if (s->as.store.streams && buffer->scope != TN__SCOPE_PARAM && buffer->scope != TN__SCOPE_WORKSPACE)
    broken(v, "a store that streams to %s, which is private", buffer->name);
  check_exprs(v, s->as.store.indices, buffer->rank, "an index of the store to", buffer->name);
  check_expr(v, s->as.store.value, "the value of the store to", buffer->name);
  for (int i = 0; i < v->blocks.count; i++) check_in_block(v, v->blocks.data[i], buffer, s->as.store.indices, true);
}

static void know_buffer(verifier *v, const tn__buffer *buffer, const char *what) {
  check_exprs(v, buffer->shape, buffer->rank, "the shape of", buffer->name);
  if (buffer->id >= v->buffer_count) broken(v, "%s %s belongs to another context", what, buffer->name);
  if (v->buffer_known[buffer->id]) broken(v, "%s %s appears a second time inside of its own scope", what, buffer->name);
  v->buffer_known[buffer->id] = true;
}

static void check_alloc(verifier *v, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.alloc.buffer, *shared = v->shared, *local = v->local;
  know_buffer(v, buffer, "buffer");
  if (buffer->scope == TN__SCOPE_SHARED && v->threads > 0)
    broken(v, "%s, which threads share, is allocated inside of a loop over them", buffer->name);
  if (buffer->scope == TN__SCOPE_LOCAL && v->threads == 0)
    broken(v, "%s, which one thread has, is allocated outside of loops over threads", buffer->name);
  if (buffer->scope == TN__SCOPE_SHARED) v->shared = buffer;
  if (buffer->scope == TN__SCOPE_LOCAL) v->local = buffer;
  if (buffer->scope != TN__SCOPE_WORKSPACE) {
    int64_t bytes = (int64_t)tn_dtype_size(buffer->dtype), dim;
    for (int i = 0; i < buffer->rank; i++) {
      if (!tn__ir_as_int(buffer->shape[i], &dim))
        broken(v, "dimension %d of %s is not constant, as its scope wants it", i, buffer->name);
      bytes = dim < 0 ? INT64_MAX : tn__ir_bound_mul(bytes, dim);
    }
    if (bytes > MAX_STACK_BYTES && buffer->scope != TN__SCOPE_SHARED) /* a target says how much is shared */
      broken(v, "%s has %lld bytes; its scope allows %d", buffer->name, (long long)bytes, (int)MAX_STACK_BYTES);
  }
  v->buffer_inside[buffer->id] = true;
  check_stmt(v, s->as.alloc.body);
  v->buffer_inside[buffer->id] = false;
  v->buffer_known[buffer->id] = false;
  v->shared = shared;
  v->local = local;
}

static void check_barrier(const verifier *v) {
  if (v->threads == 0) broken(v, "a barrier is outside of loops over threads");
  if (v->blocks.count > 0) broken(v, "a barrier is inside of block \"%s\"", v->blocks.data[v->blocks.count - 1]->name);
  if (v->in_tensor) broken(v, "a barrier is inside of an instruction");
  if (v->in_vectorized) broken(v, "a barrier is inside of the vectorized loop %s", v->vectorized);
  if (v->diverges != NULL) broken(v, "a barrier is inside of %s, so that not all may come by", v->diverges);
}

#define CONDITION "a condition that depends on the thread"

static void check_stmt(verifier *v, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR: check_for(v, s); break;
    case TN__STMT_STORE: check_store(v, s); break;
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++) check_stmt(v, s->as.seq.items[i]);
      break;
    case TN__STMT_IF:
      check_expr(v, s->as.branch.condition, "a", "condition");
      check_diverging(v, diverges_if(v, s->as.branch.condition, CONDITION), s->as.branch.then_body);
      if (s->as.branch.else_body != NULL)
        check_diverging(v, diverges_if(v, s->as.branch.condition, CONDITION), s->as.branch.else_body);
      break;
    case TN__STMT_LET:
      check_expr(v, s->as.let.value, "the value of", s->as.let.var->name);
      bind_var(v, s->as.let.var, "variable");
      v->var_varies[s->as.let.var->id] = v->threads > 0 && !is_uniform(v, s->as.let.value);
      check_stmt(v, s->as.let.body);
      v->var_bound[s->as.let.var->id] = false;
      break;
    case TN__STMT_ALLOC: check_alloc(v, s); break;
    case TN__STMT_WHILE:
      if (v->in_vectorized) broken(v, "a while loop is inside of the vectorized loop %s", v->vectorized);
      check_expr(v, s->as.repeat.condition, "the condition of", "while");
      check_diverging(v, diverges_if(v, s->as.repeat.condition, CONDITION), s->as.repeat.body);
      break;
    case TN__STMT_FAIL:
      if (s->as.fail.code <= 0) broken(v, "fail with the code %d", s->as.fail.code);
      break;
    case TN__STMT_PREFETCH: check_prefetch(v, s); break;
    case TN__STMT_BARRIER: check_barrier(v); break;
    case TN__STMT_TENSOR: check_tensor(v, s); break;
    case TN__STMT_BLOCK: check_block(v, s->as.block); break;
  }
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static void check_name(verifier *v) {
  const char *name = v->func->name;
  bool good = isalpha((unsigned char)name[0]) || name[0] == '_';
  for (int i = 0; name[i] != '\0'; i++) good = good && (isalnum((unsigned char)name[i]) || name[i] == '_');
  if (!good) broken(v, "its name is no C identifier");
}

static void check_func(verifier *v) {
  const tn__func *func = v->func;
  check_name(v);
  for (int i = 0; i < func->scalar_count; i++) {
    if (func->scalars[i]->dtype != TN_I64) broken(v, "the symbolic dimension %s is not i64", func->scalars[i]->name);
    bind_var(v, func->scalars[i], "symbolic dimension");
  }
  for (int i = 0; i < func->input_count; i++)
    if (func->params[i]->id < v->buffer_count) v->buffer_is_input[func->params[i]->id] = true;
  for (int i = 0; i < func->input_count + func->output_count; i++) know_buffer(v, func->params[i], "parameter");
  check_stmt(v, func->body);
}

typedef struct job {
  tn__arena arena;
  tn__ir *ir;
  const tn__func *func;
} job;

static void run(tn__escape *escape, void *user) {
  job *j = user;
  j->arena.escape = escape;
  verifier v = {.ir = j->ir, .arena = &j->arena, .func = j->func};
  v.var_count = j->ir->next_var;
  v.buffer_count = j->ir->next_buffer;
  v.var_bound = TN__NEW_ARRAY(v.arena, v.var_count, bool);
  v.buffer_known = TN__NEW_ARRAY(v.arena, v.buffer_count, bool);
  v.var_varies = TN__NEW_ARRAY(v.arena, v.var_count, bool);
  v.buffer_is_input = TN__NEW_ARRAY(v.arena, v.buffer_count, bool);
  v.buffer_inside = TN__NEW_ARRAY(v.arena, v.buffer_count, bool);
  tn__map_init(&v.block_names, v.arena);
  check_func(&v);
}

tn_status *tn__func_verify(tn__ir *ir, const tn__func *func) {
  job j = {.ir = ir, .func = func};
  tn__escape escape, *outer = ir->arena->escape;
  tn__arena_init(&j.arena, ir->arena->allocator, &escape);
  ir->arena->escape = &escape;
  tn_status *status = tn__protect(&escape, run, &j);
  ir->arena->escape = outer;
  tn__arena_release(&j.arena);
  return status;
}
