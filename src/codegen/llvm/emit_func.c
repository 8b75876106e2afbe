/* One function of the loop IR: its parameters, workspace and aliasing facts. */
#include <string.h>

#include "codegen/llvm/emit.h"
#include "codegen/workspace.h"

/* ---- workspace --------------------------------------------------------------------------------------------------- */

tn__kernel_info tn__cg_kernel_workspace(tn__ir *ir, const tn__func *func) {
  tn__kernel_info info = {0};
  const tn__expr *total = tn__cg_layout_of(ir, func)->total;
  if (!tn__ir_as_int(total, &info.workspace_bytes)) info.workspace_expr = total;
  return info;
}

/* ---- aliasing ---------------------------------------------------------------------------------------------------- */

typedef TN__VEC(tn__cg_storage *) storages;

/* The caller may let an output take the place of an input of the same size in bytes, and tensors that are not in use at
 * the same time may share the workspace; everything else is apart. Nothing is said of tensors that no statement uses
 * both of: nobody would ask, and in a row of thousands the lists would be as long for each. */
static bool may_overlap(tn__cg *cg, const tn__cg_layout *layout, const tn__buffer *a, bool a_is_input,
                        const tn__buffer *b, bool b_is_input) {
  if (a == b) return true;
  if (a->scope == TN__SCOPE_WORKSPACE && b->scope == TN__SCOPE_WORKSPACE) {
    const tn__cg_place *first = tn__cg_place_of(layout, a), *second = tn__cg_place_of(layout, b);
    return !tn__cg_places_meet(first, second) || tn__cg_places_share(first, second);
  }
  if (a->scope != TN__SCOPE_PARAM || b->scope != TN__SCOPE_PARAM || a_is_input == b_is_input)
    return a_is_input && b_is_input && a->scope == b->scope;
  return tn__cg_bytes_of(cg->ir, a) == tn__cg_bytes_of(cg->ir, b);
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
static void set_scopes(tn__cg *cg, const tn__cg_layout *layout, storages *all) {
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
      if (!may_overlap(cg, layout, storage->buffer, is_input(cg, storage->buffer), other, is_input(cg, other)))
        apart[count++] = scopes[j];
    }
    storage->scope = LLVMMetadataAsValue(cg->context, LLVMMDNodeInContext2(cg->context, &scopes[i], 1));
    if (count > 0) storage->noalias = LLVMMetadataAsValue(cg->context, LLVMMDNodeInContext2(cg->context, apart, count));
  }
}

/* ---- the function ------------------------------------------------------------------------------------------------ */

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
  const tn__cg_layout *layout = tn__cg_layout_of(cg->ir, func);
  bool none = tn__ir_is_int_value(layout->total, 0);
  LLVMValueRef base = none ? LLVMConstNull(cg->ptr) : buffer_pointer(cg, buffers, count);
  for (int i = 0; i < layout->places.count; i++) {
    tn__cg_storage *storage = TN__NEW(cg->arena, tn__cg_storage);
    LLVMValueRef offset = tn__cg_scalar(cg, layout->places.data[i].offset);
    *storage = (tn__cg_storage){.buffer = layout->places.data[i].buffer, .alignment = TN_KERNEL_ALIGNMENT};
    storage->base = LLVMBuildGEP2(cg->builder, cg->i8, base, &offset, 1, "");
    tn__vec_push(cg->arena, &all, storage);
    tn__cg_bind_storage(cg, storage);
  }
  set_scopes(cg, layout, &all);
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
  tn__cg_take_groups_apart(cg);
  tn__cg_frame_leave(cg);
  cg->func = NULL;
}
