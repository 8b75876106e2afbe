/* One function of the loop IR: its parameters, workspace and aliasing facts. */
#include <string.h>

#include "codegen/llvm/emit.h"

/* ---- workspace --------------------------------------------------------------------------------------------------- */

typedef struct layout {
  tn__ir *ir;
  const tn__expr *offset; /* where the next buffer goes; behind the last the total */
} layout;

static const tn__expr *bytes_of(tn__ir *ir, const tn__buffer *buffer) {
  const tn__expr *bytes = tn__ir_index(ir, (int64_t)tn_dtype_size(buffer->dtype));
  for (int i = 0; i < buffer->rank; i++) bytes = tn__ir_mul(ir, bytes, buffer->shape[i]);
  return bytes;
}

static bool is_in_workspace(const tn__stmt *s) {
  return s->kind == TN__STMT_ALLOC && s->as.alloc.buffer->scope == TN__SCOPE_WORKSPACE;
}

/* Gives the buffer its place, and tells it. */
static const tn__expr *place(layout *l, const tn__buffer *buffer) {
  const tn__expr *units = tn__ir_ceildiv(l->ir, bytes_of(l->ir, buffer), tn__ir_index(l->ir, TN_KERNEL_ALIGNMENT));
  const tn__expr *offset = l->offset;
  l->offset = tn__ir_add(l->ir, offset, tn__ir_mul_i(l->ir, units, TN_KERNEL_ALIGNMENT));
  return offset;
}

static bool place_stmt(const tn__stmt *s, void *user) {
  if (is_in_workspace(s)) place(user, s->as.alloc.buffer);
  return true;
}

/* Bytes that all buffers in the workspace take. */
static const tn__expr *workspace_bytes(tn__ir *ir, const tn__func *func) {
  layout l = {.ir = ir, .offset = tn__ir_index(ir, 0)};
  tn__stmt_walk(func->body, place_stmt, &l);
  return l.offset;
}

tn__kernel_info tn__cg_kernel_workspace(tn__ir *ir, const tn__func *func) {
  tn__kernel_info info = {0};
  const tn__expr *total = workspace_bytes(ir, func);
  if (!tn__ir_as_int(total, &info.workspace_bytes)) info.workspace_expr = total;
  return info;
}

/* ---- aliasing ---------------------------------------------------------------------------------------------------- */

typedef TN__VEC(tn__cg_storage *) storages;

/* The caller may let an output take the place of an input of the same size in bytes; everything else is apart. */
static bool may_overlap(tn__cg *cg, const tn__buffer *a, bool a_is_input, const tn__buffer *b, bool b_is_input) {
  if (a == b) return true;
  if (a->scope != TN__SCOPE_PARAM || b->scope != TN__SCOPE_PARAM || a_is_input == b_is_input)
    return a_is_input && b_is_input && a->scope == b->scope;
  return bytes_of(cg->ir, a) == bytes_of(cg->ir, b);
}

static bool is_input(const tn__cg *cg, const tn__buffer *buffer) {
  for (int i = 0; i < cg->func->input_count; i++)
    if (cg->func->params[i] == buffer) return true;
  return false;
}

static LLVMMetadataRef distinct_node(tn__cg *cg, const char *name, LLVMMetadataRef domain) {
  /* The C API has no distinct nodes; the name, unique in the module, makes these so. */
  LLVMMetadataRef parts[3] = {LLVMMDStringInContext2(cg->context, name, strlen(name)), domain, NULL};
  return LLVMMDNodeInContext2(cg->context, parts, domain == NULL ? 1 : 2);
}

/* Gives every buffer an alias scope and lists the scopes that it stays clear of. */
static void set_scopes(tn__cg *cg, storages *all) {
  LLVMMetadataRef domain = distinct_node(cg, tn__arena_printf(cg->arena, "%s.domain", cg->func->name), NULL);
  LLVMMetadataRef *scopes = TN__NEW_ARRAY(cg->arena, all->count + 1, LLVMMetadataRef);
  LLVMMetadataRef *apart = TN__NEW_ARRAY(cg->arena, all->count + 1, LLVMMetadataRef);
  for (int i = 0; i < all->count; i++)
    scopes[i] = distinct_node(cg, tn__arena_printf(cg->arena, "%s.%d", cg->func->name, i), domain);
  for (int i = 0; i < all->count; i++) {
    tn__cg_storage *storage = all->data[i];
    size_t count = 0;
    for (int j = 0; j < all->count; j++) {
      const tn__buffer *other = all->data[j]->buffer;
      if (!may_overlap(cg, storage->buffer, is_input(cg, storage->buffer), other, is_input(cg, other)))
        apart[count++] = scopes[j];
    }
    storage->scope = LLVMMetadataAsValue(cg->context, LLVMMDNodeInContext2(cg->context, &scopes[i], 1));
    if (count > 0) storage->noalias = LLVMMetadataAsValue(cg->context, LLVMMDNodeInContext2(cg->context, apart, count));
  }
}

/* ---- the function ------------------------------------------------------------------------------------------------ */

typedef struct workspace_walk {
  tn__cg *cg;
  storages *all;
  LLVMValueRef base;
  layout places;
} workspace_walk;

static bool bind_workspace(const tn__stmt *s, void *user) {
  workspace_walk *walk = user;
  tn__cg *cg = walk->cg;
  if (!is_in_workspace(s)) return true;
  tn__cg_storage *storage = TN__NEW(cg->arena, tn__cg_storage);
  LLVMValueRef offset = tn__cg_scalar(cg, place(&walk->places, s->as.alloc.buffer));
  *storage = (tn__cg_storage){.buffer = s->as.alloc.buffer, .alignment = TN_KERNEL_ALIGNMENT};
  storage->base = LLVMBuildGEP2(cg->builder, cg->i8, walk->base, &offset, 1, "");
  tn__vec_push(cg->arena, walk->all, storage);
  tn__cg_bind_storage(cg, storage);
  return true;
}

static LLVMValueRef buffer_pointer(tn__cg *cg, LLVMValueRef buffers, int index) {
  LLVMValueRef place = tn__cg_int(cg->i64, index);
  return LLVMBuildLoad2(cg->builder, cg->ptr, LLVMBuildGEP2(cg->builder, cg->ptr, buffers, &place, 1, ""), "");
}

static void bind_params(tn__cg *cg, LLVMValueRef function) {
  const tn__func *func = cg->func;
  LLVMValueRef buffers = LLVMGetParam(function, 1), scalars = LLVMGetParam(function, 2);
  int count = func->input_count + func->output_count;
  storages all = {0};
  for (int i = 0; i < func->scalar_count; i++) {
    LLVMValueRef place = tn__cg_int(cg->i64, i);
    LLVMValueRef v =
        LLVMBuildLoad2(cg->builder, cg->i64, LLVMBuildGEP2(cg->builder, cg->i64, scalars, &place, 1, ""), "");
    tn__cg_bind_value(cg, func->scalars[i], (tn__cg_value){.v = v, .lanes = 1});
  }
  for (int i = 0; i < count; i++) {
    tn__cg_storage *storage = TN__NEW(cg->arena, tn__cg_storage);
    *storage = (tn__cg_storage){.buffer = func->params[i], .alignment = (int)tn_dtype_size(func->params[i]->dtype)};
    if (cg->unaligned_inputs && i < func->input_count) storage->alignment = 1;
    storage->base = buffer_pointer(cg, buffers, i);
    tn__vec_push(cg->arena, &all, storage);
    tn__cg_bind_storage(cg, storage);
  }
  /* Buffers without elements need a place all the same, which nobody looks at. */
  bool none = tn__ir_is_int_value(workspace_bytes(cg->ir, func), 0);
  workspace_walk walk = {.cg = cg, .all = &all};
  walk.base = none ? LLVMConstNull(cg->ptr) : buffer_pointer(cg, buffers, count);
  walk.places = (layout){.ir = cg->ir, .offset = tn__ir_index(cg->ir, 0)};
  tn__stmt_walk(func->body, bind_workspace, &walk);
  set_scopes(cg, &all);
}

void tn__cg_func(tn__cg *cg, tn__ir *ir, const tn__func *func) {
  cg->ir = ir;
  cg->func = func;
  cg->task_count = 0;
  LLVMTypeRef params[] = {cg->ptr, cg->ptr, cg->ptr};
  LLVMTypeRef type = LLVMFunctionType(cg->i32, params, 3, 0);
  tn__cg_frame *frame = tn__cg_frame_enter(cg, func->name, type, LLVMExternalLinkage);
  frame->env = LLVMGetParam(frame->function, 0);
  bind_params(cg, frame->function);
  tn__cg_stmt(cg, func->body);
  tn__cg_end_streams(cg);
  LLVMBuildRet(cg->builder, LLVMConstInt(cg->i32, TN_KERNEL_OK, 0));
  tn__cg_frame_leave(cg);
  cg->func = NULL;
}
