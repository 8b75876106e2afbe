/* Statements as text, and the functions that parallel loops become. */
#include "codegen/c/emit.h"

/* What was bound from there on is out of scope. */
static void leave(tn__cc *cc, int bound) { cc->bound.count = bound; }

static void emit_scoped(tn__cc *cc, const tn__stmt *s) {
  int bound = cc->bound.count;
  tn__cc_stmt(cc, s);
  leave(cc, bound);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static bool see_loop(const tn__stmt *s, void *user) {
  bool *found = user;
  if (s->kind == TN__STMT_WHILE || (s->kind == TN__STMT_FOR && s->as.loop.kind != TN__LOOP_VECTORIZED)) *found = true;
  return !*found;
}

static bool has_loop(const tn__stmt *s) {
  bool found = false;
  tn__stmt_walk(s, see_loop, &found);
  return found;
}

typedef struct lanes {
  tn__cc *cc;
  const tn__var *lane;
  bool apart;
} lanes;

static bool see_store(const tn__stmt *s, void *user) {
  lanes *l = user;
  if (s->kind == TN__STMT_STORE &&
      !tn__expr_uses_var(tn__cc_place(l->cc, s->as.store.buffer, s->as.store.indices), l->lane))
    l->apart = false;
  if (s->kind == TN__STMT_FOR || s->kind == TN__STMT_WHILE) l->apart = false;
  return l->apart;
}

/* Are the iterations independent in a way that compilers can be told? A running value is one place for all of them. */
static bool lanes_are_apart(tn__cc *cc, const tn__stmt *s) {
  lanes l = {.cc = cc, .lane = s->as.loop.var, .apart = true};
  tn__stmt_walk(s->as.loop.body, see_store, &l);
  return l.apart;
}

typedef struct looking {
  const tn__cc *cc;
  bool found, warps; /* loops over warps */
} looking;

/* Registers have no numbers that are computed: loops over what a thread has of matrices are written out. */
static bool see_fragment(const tn__stmt *s, void *user) {
  looking *c = user;
  c->found |= s->kind == TN__STMT_STORE && tn__cc_is_fragment(c->cc, s->as.store.buffer);
  c->warps |= s->kind == TN__STMT_FOR && tn__ir_loop_is_thread(s->as.loop.kind) && s->as.loop.kind != TN__LOOP_THREAD_X;
  return true;
}

static void see_fragment_in(const tn__expr *e, void *user) {
  looking *c = user;
  for (int i = 0; i < c->cc->fragments.count && !c->found; i++)
    c->found = tn__expr_uses_buffer(e, c->cc->fragments.data[i]);
}

static bool is_written_out(tn__cc *cc, const tn__stmt *s) {
  looking c = {.cc = cc};
  if (cc->fragments.count == 0 || !tn__ir_is_int(s->as.loop.var->extent)) return false;
  tn__stmt_walk(s->as.loop.body, see_fragment, &c);
  if (!c.found) tn__stmt_walk_exprs(s->as.loop.body, see_fragment_in, &c);
  return c.found && !c.warps;
}

static void emit_loop(tn__cc *cc, const tn__stmt *s) {
  tn__cc_kept *kept = TN__NEW(cc->arena, tn__cc_kept);
  if (cc->kept == NULL && cc->lanes == 0 && tn__cc_keeps(cc, s, kept)) {
    const tn__buffer *buffer = kept->buffer;
    const char *place = tn__cc_whole(cc, kept->place), *name = tn__cc_buffer_name(cc, buffer);
    const char *element = TN__CC_TEXT(cc, "%s[%s]", name, place);
    kept->name = TN__CC_TEXT(cc, "kept%d", cc->temps++);
    tn__cc_line(cc, "%s %s = %s;", tn__cc_value_type(buffer->dtype), kept->name,
                tn__cc_loaded(cc, buffer->dtype, element));
    cc->kept = kept;
    emit_loop(cc, s);
    cc->kept = NULL;
    tn__cc_line(cc, "%s = %s;", element, tn__cc_stored(cc, buffer->dtype, kept->name));
    return;
  }
  bool vector = s->as.loop.kind == TN__LOOP_VECTORIZED && cc->lane == NULL;
  if (vector && (tn__cc_vector_loop(cc, s) || tn__cc_copy(cc, s))) return;
  if (!vector && (tn__cc_matrix_product(cc, s) || tn__cc_stages(cc, s))) return;
  tn__cc_plain_loop(cc, s);
}

void tn__cc_plain_loop(tn__cc *cc, const tn__stmt *s) {
  const tn__var *var = s->as.loop.var;
  bool vector = s->as.loop.kind == TN__LOOP_VECTORIZED && cc->lane == NULL;
  tn__cc_begin(cc);
  tn__cc_count(cc, var->min);
  tn__cc_count(cc, var->extent);
  int bound = cc->bound.count;
  const char *min = tn__cc_expr(cc, var->min), *extent = tn__cc_expr(cc, var->extent);
  const char *name = tn__cc_bind_var(cc, var), *type = tn__cc_type_of(cc, var->self);
  const char *end = tn__ir_is_int_value(var->min, 0) ? extent : TN__CC_TEXT(cc, "%s + %s", min, extent);
  if (!tn__ir_is_int(var->extent)) {
    tn__cc_line(cc, "const %s %s_end = %s;", type, name, end);
    end = TN__CC_TEXT(cc, "%s_end", name);
  }
  if (vector && lanes_are_apart(cc, s)) tn__cc_line(cc, "TN_APART");
  if (is_written_out(cc, s)) tn__cc_line(cc, "#pragma unroll");
  tn__cc_open(cc, "for (%s %s = %s; %s < %s; %s++)", type, name, min, name, end, name);
  if (vector) cc->lane = var;
  cc->depth++;
  if (!vector && cc->depth <= 2 && !cc->dialect->launches && has_loop(s->as.loop.body))
    tn__cc_line(cc, "if (tn_cancelled(env)) %s;", tn__cc_failing(cc, TN_KERNEL_CANCELLED));
  tn__cc_stmt(cc, s->as.loop.body);
  cc->depth--;
  if (vector) cc->lane = NULL;
  tn__cc_close(cc);
  leave(cc, bound);
}

/* ---- parallel loops ---------------------------------------------------------------------------------------------- */

typedef struct captures {
  tn__cc *cc;
  bool *vars, *buffers; /* by id: used in the body */
} captures;

static void see_expr(const tn__expr *e, void *user) {
  captures *c = user;
  int count;
  const uint32_t *ids = tn__expr_vars(e, &count);
  for (int i = 0; i < count; i++)
    if (ids[i] < (uint32_t)c->cc->var_names.count) c->vars[ids[i]] = true;
  ids = tn__expr_buffers(e, &count);
  for (int i = 0; i < count; i++)
    if (ids[i] < (uint32_t)c->cc->buffer_names.count) c->buffers[ids[i]] = true;
}

static void see_buffer(captures *c, const tn__buffer *buffer) {
  if (buffer->id < (uint32_t)c->cc->buffer_names.count) c->buffers[buffer->id] = true;
}

static bool see_stmt(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_STORE) see_buffer(user, s->as.store.buffer);
  return true;
}

/* What places of elements are made of. */
static void see_shapes(captures *c) {
  for (int i = 0; i < c->cc->bound.count; i++) {
    const tn__buffer *buffer = c->cc->bound.data[i].buffer;
    if (buffer == NULL || !c->buffers[buffer->id]) continue;
    for (int d = 0; d < buffer->rank; d++) {
      see_expr(buffer->shape[d], c);
      if (buffer->strides != NULL) see_expr(buffer->strides[d], c);
    }
  }
}

static bool is_captured(const captures *c, const tn__cc_bound *b) {
  return b->var != NULL ? c->vars[b->var->id] : c->buffers[b->buffer->id];
}

static bool is_constant(const tn__cc *cc, const tn__buffer *buffer) {
  for (int i = 0; i < cc->func->input_count; i++)
    if (cc->func->params[i] == buffer) return true;
  return false;
}

/* "const tn_f32 *A_0" or "tn_i64 i_1". */
static const char *declared(tn__cc *cc, const tn__cc_bound *b) {
  if (b->var != NULL) return TN__CC_TEXT(cc, "%s %s", tn__cc_value_type(b->var->dtype), tn__cc_var_name(cc, b->var));
  return TN__CC_TEXT(cc, "%s%s *%s", is_constant(cc, b->buffer) ? "const " : "", tn__cc_memory_type(b->buffer->dtype),
                     tn__cc_buffer_name(cc, b->buffer));
}

static const char *bound_name(tn__cc *cc, const tn__cc_bound *b) {
  return b->var != NULL ? tn__cc_var_name(cc, b->var) : tn__cc_buffer_name(cc, b->buffer);
}

static void emit_task(tn__cc *cc, const tn__stmt *s, const captures *c, const char *task) {
  tn__strbuf *out = cc->out;
  int indent = cc->indent, depth = cc->depth, bound = cc->bound.count;
  cc->out = tn__cc_text(cc->arena);
  cc->indent = 0;
  cc->depth = 0;
  tn__cc_open(cc, "struct %s", task);
  for (int i = 0; i < bound; i++)
    if (is_captured(c, &cc->bound.data[i])) tn__cc_line(cc, "%s;", declared(cc, &cc->bound.data[i]));
  tn__cc_line(cc, "int unused;");
  cc->indent--;
  tn__cc_line(cc, "};\n");
  tn__cc_open(cc, "static tn_i32 %s_run(const struct tn_kernel_env *env, void *closure, tn_i64 begin, tn_i64 end)",
              task);
  tn__cc_line(cc, "const struct %s *const c = (const struct %s *)closure;", task, task);
  tn__cc_line(cc, "(void)env, (void)c;");
  for (int i = 0; i < bound; i++) {
    const tn__cc_bound *b = &cc->bound.data[i];
    if (!is_captured(c, b)) continue;
    tn__cc_line(cc, "%s%s = c->%s;", b->var != NULL ? "const " : "", declared(cc, b), bound_name(cc, b));
    tn__cc_line(cc, "(void)%s;", bound_name(cc, b));
  }
  const tn__var *var = s->as.loop.var;
  const char *min = tn__cc_whole(cc, var->min), *name = tn__cc_bind_var(cc, var);
  tn__cc_open(cc, "for (tn_i64 at = begin; at < end; at++)");
  tn__cc_line(cc, "const tn_i64 %s = at + %s;", name, min);
  tn__cc_line(cc, "(void)%s;", name);
  tn__cc_line(cc, "if (tn_cancelled(env)) return %d;", TN_KERNEL_CANCELLED);
  cc->depth = 1;
  tn__cc_stmt(cc, s->as.loop.body);
  tn__cc_close(cc);
  tn__cc_line(cc, "return 0;");
  tn__cc_close(cc);
  tn__strbuf_char(cc->before, '\n');
  tn__strbuf_append(cc->before, tn__arena_take(cc->arena, cc->out));
  cc->out = out;
  cc->indent = indent;
  cc->depth = depth;
  cc->bound.count = bound;
}

static void emit_parallel(tn__cc *cc, const tn__stmt *s) {
  captures c = {.cc = cc};
  c.vars = TN__NEW_ARRAY(cc->arena, cc->var_names.count + 1, bool);
  c.buffers = TN__NEW_ARRAY(cc->arena, cc->buffer_names.count + 1, bool);
  tn__stmt_walk(s->as.loop.body, see_stmt, &c);
  tn__stmt_walk_exprs(s, see_expr, &c);
  see_shapes(&c);
  const char *task = TN__CC_TEXT(cc, "%s_task%d", cc->func->name, cc->tasks++);
  const char *count = tn__cc_whole(cc, s->as.loop.var->extent);
  tn__cc_line(cc, "struct %s closure;", task);
  tn__cc_line(cc, "const tn_i64 count = %s;", count);
  tn__cc_line(cc, "closure.unused = 0;");
  for (int i = 0; i < cc->bound.count; i++) {
    const tn__cc_bound *b = &cc->bound.data[i];
    if (is_captured(&c, b)) tn__cc_line(cc, "closure.%s = %s;", bound_name(cc, b), bound_name(cc, b));
  }
  emit_task(cc, s, &c, task);
  tn__cc_line(cc, "const tn_i32 result = env->parallel_for(env, %s_run, &closure, count);", task);
  tn__cc_line(cc, "if (result != 0) return result;");
}

/* ---- loops over blocks and threads ------------------------------------------------------------------------------- */

static const char axis_letters[] = "XYZ";

static void emit_bound(tn__cc *cc, const tn__stmt *s) {
  const tn__var *var = s->as.loop.var;
  bool thread = tn__ir_loop_is_thread(s->as.loop.kind);
  int axis = (int)s->as.loop.kind - (int)(thread ? TN__LOOP_THREAD_X : TN__LOOP_BLOCK_X), bound = cc->bound.count;
  unsigned before = cc->thread_axes;
  int64_t extent = 0;
  const char *min = tn__cc_whole(cc, var->min), *name = tn__cc_bind_var(cc, var);
  const char *type = tn__cc_type_of(cc, var->self);
  tn__cc_line(cc, "const %s %s = %s + (%s)TN_%s_%c;", type, name, min, type, thread ? "THREAD" : "BLOCK",
              axis_letters[axis]);
  bool part = thread && tn__ir_as_int(var->extent, &extent) && extent < cc->launch->block[axis];
  if (part) tn__cc_open(cc, "if (TN_THREAD_%c < %lld)", axis_letters[axis], (long long)extent);
  if (thread) cc->thread_axes |= 1u << axis;
  tn__cc_stmt(cc, s->as.loop.body);
  cc->thread_axes = before;
  if (part) tn__cc_close(cc);
  if (thread && !cc->apart) tn__cc_wait(cc);
  cc->bound.count = bound;
}

/* A turn of the parallel loop for each block. */
static void emit_grid(tn__cc *cc, const tn__stmt *s) {
  const tn__var *var = s->as.loop.var;
  int bound = cc->bound.count;
  const char *min = tn__cc_whole(cc, var->min), *name = tn__cc_bind_var(cc, var), *type = tn__cc_type_of(cc, var->self);
  tn__cc_line(cc, "const %s %s = %s + (%s)TN_BLOCK_X;", type, name, min, type);
  tn__cc_stmt(cc, s->as.loop.body);
  cc->bound.count = bound;
}

/* Declarations in front of a loop's head have a block of their own. */
static void emit_for(tn__cc *cc, const tn__stmt *s) {
  switch (s->as.loop.kind) {
    case TN__LOOP_PARALLEL:
      if (cc->grid_loop == s) {
        emit_grid(cc, s);
        return;
      }
      if (cc->dialect->launches) break;
      emit_parallel(cc, s);
      return;
    case TN__LOOP_VECTORIZED:
    case TN__LOOP_SERIAL: break;
    case TN__LOOP_UNROLLED: tn__cc_fail(cc, "loop %s is still marked unrolled", s->as.loop.var->name);
    default: emit_bound(cc, s); return;
  }
  emit_loop(cc, s);
}

static void emit_while(tn__cc *cc, const tn__stmt *s) {
  tn__cc_open(cc, "for (;;)");
  tn__cc_line(cc, "if (!%s) break;", tn__cc_whole(cc, s->as.repeat.condition));
  if (!cc->dialect->launches) tn__cc_line(cc, "if (tn_cancelled(env)) %s;", tn__cc_failing(cc, TN_KERNEL_CANCELLED));
  emit_scoped(cc, s->as.repeat.body);
  tn__cc_close(cc);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

/* Has each thread the buffer for itself? */
static bool is_private(const tn__cc *cc, const tn__buffer *buffer) {
  for (int i = 0; i < cc->own.count; i++)
    if (cc->own.data[i] == buffer) return true;
  return false;
}

static void emit_store(tn__cc *cc, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.store.buffer;
  const tn__expr *at = tn__cc_place(cc, buffer, s->as.store.indices);
  tn__cc_begin(cc);
  tn__cc_count(cc, at);
  tn__cc_count(cc, s->as.store.value);
  const char *place = tn__cc_expr(cc, at), *value = tn__cc_expr(cc, s->as.store.value);
  if (cc->kept != NULL && cc->kept->buffer == buffer) {
    tn__cc_line(cc, "%s = %s;", cc->kept->name, value);
    return;
  }
  const char *one = is_private(cc, buffer) ? NULL : tn__cc_one_thread(cc);
  tn__cc_line(cc, "%s%s%s%s[%s] = %s;", one != NULL ? "if (" : "", one != NULL ? one : "", one != NULL ? ") " : "",
              tn__cc_buffer_name(cc, buffer), place, tn__cc_stored(cc, buffer->dtype, value));
  if (one != NULL) tn__cc_wait(cc);
}

static void emit_if(tn__cc *cc, const tn__stmt *s) {
  tn__cc_open_if(cc, tn__cc_whole(cc, s->as.branch.condition));
  emit_scoped(cc, s->as.branch.then_body);
  if (s->as.branch.else_body != NULL) {
    cc->indent--;
    tn__cc_open(cc, "} else");
    emit_scoped(cc, s->as.branch.else_body);
  }
  tn__cc_close(cc);
}

static void emit_let(tn__cc *cc, const tn__stmt *s) {
  const tn__var *var = s->as.let.var;
  const char *value = tn__cc_whole(cc, s->as.let.value);
  int bound = cc->bound.count;
  const char *name = tn__cc_bind_var(cc, var);
  tn__cc_line(cc, "const %s %s = %s;", tn__cc_type_of(cc, var->self), name, value);
  tn__cc_line(cc, "(void)%s;", name);
  tn__cc_stmt(cc, s->as.let.body);
  leave(cc, bound);
}

static int64_t count_of(tn__cc *cc, const tn__buffer *buffer) {
  int64_t bytes;
  if (!tn__ir_as_int(tn__cg_bytes_of(cc->ir, buffer), &bytes)) tn__cc_fail(cc, "%s has no constant size", buffer->name);
  int64_t count = bytes / (int64_t)tn_dtype_size(buffer->dtype);
  return count < 1 ? 1 : count;
}

const char *tn__cc_share(tn__cc *cc, const tn__buffer *buffer) {
  const int64_t count = count_of(cc, buffer), bytes = count * (int64_t)tn_dtype_size(buffer->dtype);
  const char *name = tn__cc_bind_buffer(cc, buffer);
  tn__strbuf_printf(cc->shared, "  TN_SHARED %s %s[%lld];\n", tn__cc_memory_type(buffer->dtype), name,
                    (long long)count);
  cc->launch->shared_bytes += (bytes + TN__CC_SHARED_STEP - 1) & -TN__CC_SHARED_STEP;
  return name;
}

static void emit_alloc(tn__cc *cc, const tn__stmt *s) {
  bool is_shared = cc->launch != NULL && tn__cc_threads(cc->launch) > 1 && cc->thread_axes == 0 &&
                   s->as.alloc.buffer->scope != TN__SCOPE_WORKSPACE;
  const tn__stmt *own = is_shared ? tn__cc_fragments(cc, s) : NULL;
  if (is_shared && own == NULL) own = tn__cc_private(cc, s);
  if (own != NULL) s = own, is_shared = false;
  const tn__buffer *buffer = s->as.alloc.buffer;
  if (buffer->scope == TN__SCOPE_WORKSPACE) {
    emit_scoped(cc, s->as.alloc.body); /* the workspace has its places already */
    return;
  }
  int bound = cc->bound.count;
  const char *name = is_shared ? tn__cc_share(cc, buffer) : tn__cc_bind_buffer(cc, buffer);
  if (!is_shared)
    tn__cc_line(cc, "TN_ALIGNED %s %s[%lld];", tn__cc_memory_type(buffer->dtype), name,
                (long long)count_of(cc, buffer));
  if (!is_shared) tn__vec_push(cc->arena, &cc->own, buffer);
  tn__cc_line(cc, "(void)%s;", name);
  tn__cc_stmt(cc, s->as.alloc.body);
  if (!is_shared) cc->own.count--;
  leave(cc, bound);
}

/* May threads go on behind loop number `at` of those since they waited? */
static bool need_not_wait(const tn__cc *cc, const tn__stmt *const *items, int at, int count) {
  if (cc->launch == NULL || at + 1 >= count) return false;
  for (int i = 0; i <= at; i++) {
    const tn__stmt *item = items[i];
    if (item->kind != TN__STMT_FOR || !tn__ir_loop_is_thread(item->as.loop.kind)) return false;
    if (!tn__cc_are_apart(cc, item, items[at + 1])) return false;
  }
  return true;
}

void tn__cc_stmt(tn__cc *cc, const tn__stmt *s) {
  tn__work_step(cc->arena, 1);
  if (cc->lanes > 0 && tn__cc_vector_stmt(cc, s)) return;
  switch (s->kind) {
    case TN__STMT_FOR:
      tn__cc_open(cc, "%s", "");
      emit_for(cc, s);
      tn__cc_close(cc);
      return;
    case TN__STMT_STORE:
    case TN__STMT_SEQ:
    case TN__STMT_LET:
    case TN__STMT_ALLOC:
    case TN__STMT_IF: break;
    case TN__STMT_WHILE: emit_while(cc, s); return;
    case TN__STMT_FAIL: tn__cc_line(cc, "%s;", tn__cc_failing(cc, s->as.fail.code)); return;
    case TN__STMT_PREFETCH: return; /* compilers know as much */
    case TN__STMT_TENSOR:
      if (!tn__cc_matrix_product(cc, s)) emit_scoped(cc, s->as.tensor.body);
      return;
    case TN__STMT_BARRIER: tn__cc_line(cc, "TN_WAIT();"); return;
    default: tn__cc_fail(cc, "a block is left in the function; lower it first");
  }
  if (s->kind == TN__STMT_SEQ) {
    for (int i = 0, first = 0; i < s->as.seq.count; i++) {
      cc->apart = need_not_wait(cc, s->as.seq.items + first, i - first, s->as.seq.count - first);
      if (!cc->apart) first = i + 1;
      emit_scoped(cc, s->as.seq.items[i]);
      cc->apart = false;
    }
    return;
  }
  /* Variables of a statement are its own. */
  if (s->kind == TN__STMT_STORE) {
    emit_store(cc, s);
  } else if (s->kind == TN__STMT_IF) {
    emit_if(cc, s);
  } else if (s->kind == TN__STMT_LET) {
    emit_let(cc, s);
  } else {
    emit_alloc(cc, s);
  }
}
