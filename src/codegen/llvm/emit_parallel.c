/* What becomes a function of its own: the bodies of parallel loops, and stretches of very long functions. What it reads
 * from outside travels in a closure on the caller's stack. */
#include <string.h>

#include "codegen/llvm/emit.h"

typedef struct capture {
  const void *key;
  tn__cg_binding binding;
  LLVMValueRef v; /* in the caller */
} capture;

typedef struct captures {
  tn__cg *cg;
  TN__VEC(capture) items;
} captures;

static void see_expr(captures *c, const tn__expr *e);

static void see(captures *c, const void *key, const tn__buffer *buffer) {
  for (int i = 0; i < c->items.count; i++)
    if (c->items.data[i].key == key) return;
  const tn__cg_binding *binding = tn__cg_find(c->cg, key);
  if (binding == NULL) return; /* bound inside of the body */
  capture item = {.key = key, .binding = *binding};
  item.v = binding->storage != NULL ? binding->storage->base : binding->value.v;
  tn__vec_push(c->cg->arena, &c->items, item);
  for (int i = 0; buffer != NULL && i < buffer->rank; i++) {
    see_expr(c, buffer->shape[i]);
    if (buffer->strides != NULL) see_expr(c, buffer->strides[i]);
  }
}

static void see_expr(captures *c, const tn__expr *e) {
  if (e->kind == TN__EXPR_VAR) see(c, e->value.var, NULL);
  if (e->kind == TN__EXPR_LOAD) see(c, e->value.buffer, e->value.buffer);
  for (int i = 0; i < e->arg_count; i++) see_expr(c, e->args[i]);
}

static void see_whole_expr(const tn__expr *e, void *user) { see_expr(user, e); }

static bool see_stmt(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_STORE) see(user, s->as.store.buffer, s->as.store.buffer);
  if (s->kind == TN__STMT_PREFETCH) see(user, s->as.prefetch.buffer, s->as.prefetch.buffer);
  if (s->kind == TN__STMT_ALLOC) {
    const tn__buffer *buffer = s->as.alloc.buffer;
    for (int i = 0; i < buffer->rank; i++) see_expr(user, buffer->shape[i]);
    if (buffer->scope == TN__SCOPE_WORKSPACE) see(user, buffer, buffer);
  }
  return true;
}

static LLVMTypeRef closure_type(tn__cg *cg, const captures *c) {
  LLVMTypeRef *fields = TN__NEW_ARRAY(cg->arena, c->items.count + 1, LLVMTypeRef);
  for (int i = 0; i < c->items.count; i++) fields[i] = LLVMTypeOf(c->items.data[i].v);
  return LLVMStructTypeInContext(cg->context, fields, (unsigned)c->items.count, 0);
}

/* In the task: reads the closure and binds what was captured. */
static void open_closure(tn__cg *cg, const captures *c, LLVMTypeRef type) {
  LLVMValueRef closure = LLVMGetParam(cg->frame->function, 1);
  for (int i = 0; i < c->items.count; i++) {
    const capture *item = &c->items.data[i];
    LLVMValueRef field = LLVMBuildStructGEP2(cg->builder, type, closure, (unsigned)i, "");
    LLVMValueRef v = LLVMBuildLoad2(cg->builder, LLVMTypeOf(item->v), field, "");
    if (item->binding.storage == NULL) {
      tn__cg_bind_value(cg, item->key, (tn__cg_value){.v = v, .lanes = 1});
      continue;
    }
    tn__cg_storage *storage = TN__NEW(cg->arena, tn__cg_storage);
    *storage = *item->binding.storage;
    storage->base = v;
    storage->version = 0;
    tn__cg_bind_storage(cg, storage);
  }
}

static void emit_iteration(tn__cg *cg, const tn__stmt *s, LLVMValueRef index) {
  const tn__var *var = s->as.loop.var;
  LLVMValueRef min = tn__cg_scalar(cg, var->min);
  bool from_zero = LLVMIsConstant(min) && LLVMIsNull(min);
  if (!from_zero) index = LLVMBuildAdd(cg->builder, index, min, "");
  cg->frame->depth = 1;
  tn__cg_bind_value(cg, var, (tn__cg_value){.v = index, .lanes = 1});
  tn__cg_stmt(cg, s->as.loop.body);
}

static LLVMValueRef emit_task(tn__cg *cg, const tn__stmt *s, const captures *c, LLVMTypeRef type) {
  LLVMBuilderRef at = cg->builder;
  char *name = tn__arena_printf(cg->arena, "%s.task%d", cg->func->name, cg->task_count++);
  tn__cg_frame *frame = tn__cg_frame_enter(cg, name, cg->task_type, LLVMInternalLinkage);
  frame->env = LLVMGetParam(frame->function, 0);
  open_closure(cg, c, type);
  (void)tn__cg_scalar(cg, s->as.loop.var->min); /* once, in front */
  tn__cg_range range = {.begin = LLVMGetParam(frame->function, 2), .end = LLVMGetParam(frame->function, 3)};
  range.runs = LLVMBuildICmp(at, LLVMIntSLT, range.begin, range.end, "");
  tn__cg_count(cg, s, range, emit_iteration);
  tn__cg_end_streams(cg);
  LLVMBuildRet(at, LLVMConstInt(cg->i32, TN_KERNEL_OK, 0));
  LLVMValueRef function = frame->function;
  tn__cg_frame_leave(cg);
  return function;
}

static void see_whole_stmt(captures *c, const tn__stmt *s) {
  tn__stmt_walk(s, see_stmt, c);
  tn__stmt_walk_exprs(s, see_whole_expr, c);
}

static LLVMValueRef fill_closure(tn__cg *cg, const captures *c, LLVMTypeRef type) {
  LLVMValueRef closure = tn__cg_alloca(cg, type, 1, 16);
  for (int i = 0; i < c->items.count; i++)
    LLVMBuildStore(cg->builder, c->items.data[i].v, LLVMBuildStructGEP2(cg->builder, type, closure, (unsigned)i, ""));
  return closure;
}

/* Goes on where the called function succeeded, which may have stored to what it captured. */
static void after_call(tn__cg *cg, const captures *c, LLVMValueRef result) {
  LLVMValueRef failed = LLVMBuildICmp(cg->builder, LLVMIntNE, result, tn__cg_int(cg->i32, 0), "");
  tn__cg_return_if(cg, failed, result);
  for (int i = 0; i < c->items.count; i++)
    if (c->items.data[i].binding.storage != NULL) c->items.data[i].binding.storage->version = ++cg->frame->version;
}

void tn__cg_parallel(tn__cg *cg, const tn__stmt *s) {
  LLVMBuilderRef at = cg->builder;
  captures c = {.cg = cg};
  if (cg->frame->lane != NULL) tn__cg_fail(cg, "a parallel loop inside of a vectorised one");
  see_expr(&c, s->as.loop.var->min);
  see_whole_stmt(&c, s->as.loop.body);
  LLVMValueRef count = tn__cg_scalar(cg, s->as.loop.var->extent);
  LLVMTypeRef type = closure_type(cg, &c);
  LLVMValueRef closure = fill_closure(cg, &c, type);
  LLVMValueRef task = emit_task(cg, s, &c, type);
  /* struct tn_kernel_env { u32 version, u32 size, parallel_for, ... } */
  LLVMTypeRef params[] = {cg->ptr, cg->ptr, cg->ptr, cg->i64};
  LLVMTypeRef for_type = LLVMFunctionType(cg->i32, params, 4, 0);
  LLVMValueRef offset = tn__cg_int(cg->i64, (int64_t)offsetof(tn_kernel_env, parallel_for));
  LLVMValueRef field = LLVMBuildGEP2(at, cg->i8, cg->frame->env, &offset, 1, "");
  LLVMValueRef parallel_for = LLVMBuildLoad2(at, cg->ptr, field, "");
  LLVMValueRef args[] = {cg->frame->env, task, closure, count};
  LLVMValueRef result = LLVMBuildCall2(at, for_type, parallel_for, args, 4, "");
  after_call(cg, &c, result);
}

/* ---- parts of long functions ------------------------------------------------------------------------------------- */

enum { PART_LENGTH = 16, MOST_IN_ONE = 32 };

bool tn__cg_is_long(const tn__cg *cg, const tn__stmt *s) {
  return s->as.seq.count > MOST_IN_ONE && cg->frame->outer == NULL && cg->frame->depth == 0 && cg->frame->lane == NULL;
}

static void emit_part(tn__cg *cg, const tn__stmt *const *items, int count) {
  captures c = {.cg = cg};
  bool in_registers = false;
  for (int i = 0; i < count; i++) see_whole_stmt(&c, items[i]);
  for (int i = 0; i < c.items.count; i++) in_registers |= c.items.data[i].v == NULL;
  if (in_registers) { /* those stay inside of one function */
    for (int i = 0; i < count; i++) tn__cg_stmt(cg, items[i]);
    return;
  }
  LLVMTypeRef type = closure_type(cg, &c), params[] = {cg->ptr, cg->ptr};
  LLVMTypeRef function_type = LLVMFunctionType(cg->i32, params, 2, 0);
  LLVMValueRef args[] = {cg->frame->env, fill_closure(cg, &c, type)};
  char *name = tn__arena_printf(cg->arena, "%s.part%d", cg->func->name, cg->task_count++);
  tn__cg_frame *frame = tn__cg_frame_enter(cg, name, function_type, LLVMInternalLinkage);
  LLVMValueRef function = frame->function;
  frame->env = LLVMGetParam(function, 0);
  open_closure(cg, &c, type);
  for (int i = 0; i < count; i++) tn__cg_stmt(cg, items[i]);
  LLVMBuildRet(cg->builder, LLVMConstInt(cg->i32, TN_KERNEL_OK, 0));
  tn__cg_frame_leave(cg);
  after_call(cg, &c, LLVMBuildCall2(cg->builder, function_type, function, args, 2, ""));
}

void tn__cg_long(tn__cg *cg, const tn__stmt *s) {
  for (int i = 0; i < s->as.seq.count; i += PART_LENGTH) {
    int left = s->as.seq.count - i;
    emit_part(cg, s->as.seq.items + i, left < PART_LENGTH ? left : PART_LENGTH);
  }
}
