/* Statements: loops, branches, lets, allocations. */
#include "codegen/llvm/emit.h"

/* ---- what a loop's body stores to is unknown at its start -------------------------------------------------------- */

static bool forget_stored(const tn__stmt *s, void *user) {
  tn__cg *cg = user;
  if (s->kind == TN__STMT_STORE) {
    const tn__cg_binding *binding = tn__cg_find(cg, s->as.store.buffer);
    if (binding != NULL) binding->storage->version = ++cg->frame->version;
  }
  return true;
}

static void forget_stores_in(tn__cg *cg, const tn__stmt *body) { tn__stmt_walk(body, forget_stored, cg); }

/* ---- serial loops ------------------------------------------------------------------------------------------------ */

static void emit_round(tn__cg *cg, const tn__stmt *s, LLVMValueRef index) {
  forget_stores_in(cg, s->as.loop.body);
  int scope = tn__cg_scope_enter(cg);
  cg->frame->depth++;
  tn__cg_bind_value(cg, s->as.loop.var, (tn__cg_value){.v = index, .lanes = 1});
  tn__cg_stmt(cg, s->as.loop.body);
  cg->frame->depth--;
  tn__cg_scope_leave(cg, scope);
}

static void emit_serial(tn__cg *cg, const tn__stmt *s) {
  LLVMBuilderRef at = cg->builder;
  const tn__var *var = s->as.loop.var;
  LLVMTypeRef type = tn__cg_value_type(cg, var->dtype);
  LLVMValueRef min = tn__cg_scalar(cg, var->min), extent = tn__cg_scalar(cg, var->extent);
  LLVMValueRef end = LLVMIsConstant(min) && LLVMIsNull(min) ? extent : LLVMBuildAdd(at, min, extent, "");
  bool runs = tn__interval_of(cg->ir, var->extent).min >= 1;
  tn__cg_range range = {.begin = min, .end = end};
  if (!runs) range.runs = LLVMBuildICmp(at, LLVMIntSGT, extent, tn__cg_int(type, 0), "");
  tn__cg_count(cg, s, range, emit_round);
}

/* ---- vectorised loops -------------------------------------------------------------------------------------------- */

typedef struct vector_check {
  const tn__var *lane;
  bool fits;
} vector_check;

/* Bodies that need control flow per lane run as serial loops. */
static bool see_for_vector(const tn__stmt *s, void *user) {
  vector_check *check = user;
  if (s->kind == TN__STMT_WHILE || s->kind == TN__STMT_TENSOR) check->fits = false;
  if (s->kind == TN__STMT_FOR) {
    const tn__var *var = s->as.loop.var;
    if (s->as.loop.kind != TN__LOOP_SERIAL || tn__expr_uses_var(var->min, check->lane) ||
        tn__expr_uses_var(var->extent, check->lane))
      check->fits = false;
  }
  if (s->kind == TN__STMT_ALLOC && s->as.alloc.buffer->scope != TN__SCOPE_REGISTER) check->fits = false;
  return check->fits;
}

bool tn__cg_vectorizes(const tn__stmt *s, const tn__var *lane_outside, int *lanes) {
  const tn__var *var = s->as.loop.var;
  int64_t extent;
  if (s->as.loop.kind != TN__LOOP_VECTORIZED || lane_outside != NULL || var->dtype != TN_I64) return false;
  if (!tn__ir_as_int(var->extent, &extent) || extent > 1024) return false;
  vector_check check = {.lane = var, .fits = true};
  tn__stmt_walk(s->as.loop.body, see_for_vector, &check);
  if (check.fits) *lanes = (int)extent;
  return check.fits;
}

static void emit_vectorized(tn__cg *cg, const tn__stmt *s) {
  tn__cg_frame *frame = cg->frame;
  const tn__var *var = s->as.loop.var;
  int extent;
  if (!tn__cg_vectorizes(s, frame->lane, &extent) || !tn__cg_runs_as_vector(cg, s)) {
    emit_serial(cg, s);
    return;
  }
  if (extent <= 0) return;
  if (extent == 1) {
    tn__cg_stmt(cg, tn__stmt_substitute(cg->ir, s->as.loop.body, &var, &var->min, 1));
    return;
  }
  LLVMValueRef min = tn__cg_scalar(cg, var->min);
  int scope = tn__cg_scope_enter(cg);
  frame->depth++;
  frame->lane = var;
  frame->lanes = extent;
  LLVMValueRef lanes = tn__cg_iota(cg->i64, frame->lanes, 1);
  if (!LLVMIsConstant(min) || !LLVMIsNull(min))
    lanes = LLVMBuildAdd(cg->builder, tn__cg_broadcast(cg, min, frame->lanes), lanes, "");
  tn__cg_bind_value(cg, var, (tn__cg_value){.v = lanes, .lanes = frame->lanes});
  tn__cg_stmt(cg, s->as.loop.body);
  if (frame->running != NULL) frame->running->running = NULL;
  frame->running = NULL;
  frame->lane = NULL;
  frame->lanes = 1;
  frame->depth--;
  tn__cg_scope_leave(cg, scope);
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

static void emit_scoped(tn__cg *cg, const tn__stmt *s) {
  int scope = tn__cg_scope_enter(cg);
  tn__cg_stmt(cg, s);
  tn__cg_scope_leave(cg, scope);
}

static void emit_if(tn__cg *cg, const tn__stmt *s) {
  const tn__stmt *bodies[2] = {s->as.branch.then_body, s->as.branch.else_body};
  tn__cg_value condition = tn__cg_expr(cg, s->as.branch.condition);
  /* Stores that wait need their values behind the branch, so there is none. */
  if (condition.lanes > 1 || (cg->frame->held != NULL && cg->frame->lanes > 1)) {
    condition = (tn__cg_value){.v = tn__cg_widen(cg, condition, cg->frame->lanes), .lanes = cg->frame->lanes};
    for (int i = 0; i < 2; i++) {
      if (bodies[i] == NULL) continue;
      LLVMValueRef before = tn__cg_mask_push(cg, i == 0 ? condition.v : LLVMBuildNot(cg->builder, condition.v, ""));
      emit_scoped(cg, bodies[i]);
      cg->frame->mask = before;
    }
    return;
  }
  LLVMBasicBlockRef then_block = tn__cg_block(cg, "then"), join = tn__cg_block(cg, "join");
  LLVMBasicBlockRef else_block = bodies[1] == NULL ? join : tn__cg_block(cg, "else");
  LLVMBuildCondBr(cg->builder, condition.v, then_block, else_block);
  for (int i = 0; i < 2; i++) {
    if (bodies[i] == NULL) continue;
    tn__cg_at(cg, i == 0 ? then_block : else_block);
    emit_scoped(cg, bodies[i]);
    LLVMBuildBr(cg->builder, join);
  }
  tn__cg_at(cg, join);
}

static void emit_while(tn__cg *cg, const tn__stmt *s) {
  LLVMBasicBlockRef head = tn__cg_block(cg, "while"), body = tn__cg_block(cg, "round"), done = tn__cg_block(cg, "done");
  LLVMBuildBr(cg->builder, head);
  tn__cg_at(cg, head);
  forget_stores_in(cg, s->as.repeat.body);
  int scope = tn__cg_scope_enter(cg);
  cg->frame->depth++;
  LLVMBuildCondBr(cg->builder, tn__cg_scalar(cg, s->as.repeat.condition), body, done);
  tn__cg_at(cg, body);
  tn__cg_look_each_round(cg, s->as.repeat.body);
  tn__cg_stmt(cg, s->as.repeat.body);
  LLVMBuildBr(cg->builder, head);
  cg->frame->depth--;
  tn__cg_scope_leave(cg, scope);
  tn__cg_at(cg, done);
}

static void emit_fail(tn__cg *cg, const tn__stmt *s) {
  LLVMValueRef code = LLVMConstInt(cg->i32, (unsigned)s->as.fail.code, 0);
  LLVMValueRef condition = cg->frame->mask == NULL ? LLVMConstInt(cg->i1, 1, 0) : tn__cg_any(cg, cg->frame->mask);
  tn__cg_return_if(cg, condition, code);
}

/* ---- lets and allocations ---------------------------------------------------------------------------------------- */

static void emit_let(tn__cg *cg, const tn__stmt *s) {
  const tn__var *var = s->as.let.var;
  const tn__expr *value = s->as.let.value;
  const tn__var *lane = cg->frame->lane;
  /* An index that moves with the lane is put in place, so that the accesses it stands in show their strides. */
  if (lane != NULL && var->dtype == TN_I64 && tn__expr_uses_var(value, lane) && !tn__expr_has_load(value)) {
    tn__cg_stmt(cg, tn__stmt_substitute(cg->ir, s->as.let.body, &var, &value, 1));
    return;
  }
  tn__cg_value bound = tn__cg_expr(cg, value);
  bound.loads = false; /* fixed here: later stores do not change it */
  int scope = tn__cg_scope_enter(cg);
  tn__cg_bind_value(cg, var, bound);
  tn__cg_stmt(cg, s->as.let.body);
  tn__cg_scope_leave(cg, scope);
}

static void emit_alloc(tn__cg *cg, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.alloc.buffer;
  int scope = tn__cg_scope_enter(cg);
  if (buffer->scope == TN__SCOPE_WORKSPACE) {
    if (tn__cg_find(cg, buffer) == NULL) tn__cg_fail(cg, "workspace buffer %s was not laid out", buffer->name);
  } else {
    tn__cg_bind_storage(cg, tn__cg_register_storage(cg, buffer, s->as.alloc.body));
  }
  tn__cg_stmt(cg, s->as.alloc.body);
  tn__cg_scope_leave(cg, scope);
}

void tn__cg_stmt(tn__cg *cg, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_STORE: tn__cg_store(cg, s); return;
    case TN__STMT_SEQ:
      if (tn__cg_is_long(cg, s)) {
        tn__cg_long(cg, s);
        return;
      }
      for (int i = 0, n; i < s->as.seq.count; i += n) {
        n = tn__cg_like_stores(cg, s->as.seq.items + i, s->as.seq.count - i);
        tn__cg_stores(cg, s->as.seq.items + i, n);
      }
      return;
    case TN__STMT_IF: emit_if(cg, s); return;
    case TN__STMT_LET: emit_let(cg, s); return;
    case TN__STMT_ALLOC: emit_alloc(cg, s); return;
    case TN__STMT_WHILE: emit_while(cg, s); return;
    case TN__STMT_FAIL: emit_fail(cg, s); return;
    case TN__STMT_PREFETCH: tn__cg_prefetch(cg, s); return;
    case TN__STMT_TENSOR: tn__cg_tensor(cg, s); return;
    case TN__STMT_FOR: break;
    case TN__STMT_BARRIER: tn__cg_fail(cg, "a barrier is left in the function; a CPU takes it serialized");
    default: tn__cg_fail(cg, "a block is left in the function; lower it first");
  }
  switch (s->as.loop.kind) {
    case TN__LOOP_PARALLEL: tn__cg_parallel(cg, s); return;
    case TN__LOOP_VECTORIZED: emit_vectorized(cg, s); return;
    case TN__LOOP_UNROLLED:
      tn__cg_fail(cg, "loop %s is still marked unrolled; lower the function first", s->as.loop.var->name);
    case TN__LOOP_SERIAL: emit_serial(cg, s); return;
    default:
      tn__cg_fail(cg, "loop %s runs over %s; a CPU takes it serialized", s->as.loop.var->name,
                  tn__ir_loop_is_block(s->as.loop.kind) ? "blocks" : "threads");
  }
}
