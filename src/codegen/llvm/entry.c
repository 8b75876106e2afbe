/* Plain C functions around kernels: what a C program calls, with typed parameters and nothing to set up. They check the
 * dimensions, find working memory, make an environment and call the kernel. */
#include <stddef.h>
#include <string.h>

#include "codegen/llvm/emit.h"

enum { STACK_LIMIT = 16 << 10, MAX_DIMENSION_BITS = 48 };

static bool needs_memory(tn__kernel_info info) { return info.workspace_expr != NULL || info.workspace_bytes > 0; }

static LLVMValueRef offset_pointer(tn__cg *cg, LLVMValueRef base, int64_t bytes) {
  LLVMValueRef offset = tn__cg_int(cg->i64, bytes);
  return LLVMBuildGEP2(cg->builder, cg->i8, base, &offset, 1, "");
}

/* parallel_for of the environment that such a function makes itself: all iterations, here and now. */
static LLVMValueRef serial_for(tn__cg *cg) {
  LLVMTypeRef params[] = {cg->ptr, cg->ptr, cg->ptr, cg->i64};
  LLVMTypeRef type = LLVMFunctionType(cg->i32, params, 4, 0);
  LLVMValueRef function;
  LLVMBasicBlockRef saved;
  if (tn__cg_helper_begin(cg, "tn.serial_for", type, false, &function, &saved)) {
    LLVMValueRef args[] = {LLVMGetParam(function, 0), LLVMGetParam(function, 2), tn__cg_int(cg->i64, 0),
                           LLVMGetParam(function, 3)};
    LLVMBuildRet(cg->builder, LLVMBuildCall2(cg->builder, cg->task_type, LLVMGetParam(function, 1), args, 4, ""));
    tn__cg_helper_end(cg, saved);
  }
  return function;
}

static LLVMValueRef own_environment(tn__cg *cg) {
  LLVMValueRef env = tn__cg_alloca(cg, cg->i64, (int64_t)(sizeof(tn_kernel_env) + 7) / 8, 16);
  LLVMBuildStore(cg->builder, tn__cg_int(cg->i32, TN_KERNEL_ABI_VERSION),
                 offset_pointer(cg, env, offsetof(tn_kernel_env, version)));
  LLVMBuildStore(cg->builder, tn__cg_int(cg->i32, sizeof(tn_kernel_env)),
                 offset_pointer(cg, env, offsetof(tn_kernel_env, size)));
  LLVMBuildStore(cg->builder, serial_for(cg), offset_pointer(cg, env, offsetof(tn_kernel_env, parallel_for)));
  LLVMBuildStore(cg->builder, tn__cg_int(cg->i32, 1), offset_pointer(cg, env, offsetof(tn_kernel_env, thread_count)));
  LLVMBuildStore(cg->builder, tn__cg_int(cg->i32, 0), offset_pointer(cg, env, offsetof(tn_kernel_env, cancel)));
  LLVMBuildStore(cg->builder, LLVMConstNull(cg->ptr), offset_pointer(cg, env, offsetof(tn_kernel_env, user)));
  return env;
}

static LLVMValueRef library_function(tn__cg *cg, const char *name, LLVMTypeRef type) {
  LLVMValueRef function = LLVMGetNamedFunction(cg->module, name);
  return function != NULL ? function : LLVMAddFunction(cg->module, name, type);
}

/* Bytes of a block that holds the working memory wherever the block begins. */
static LLVMValueRef block_size(tn__cg *cg, tn__kernel_info info) {
  LLVMValueRef bytes =
      info.workspace_expr != NULL ? tn__cg_scalar(cg, info.workspace_expr) : tn__cg_int(cg->i64, info.workspace_bytes);
  return LLVMBuildAdd(cg->builder, bytes, tn__cg_int(cg->i64, TN_KERNEL_ALIGNMENT), "");
}

/* The first aligned address behind the block's own. */
static LLVMValueRef aligned_in(tn__cg *cg, LLVMValueRef block) {
  LLVMBuilderRef at = cg->builder;
  LLVMValueRef address = LLVMBuildPtrToInt(at, block, cg->i64, "");
  LLVMValueRef misaligned = LLVMBuildAnd(at, address, tn__cg_int(cg->i64, TN_KERNEL_ALIGNMENT - 1), "");
  LLVMValueRef skip = LLVMBuildSub(at, tn__cg_int(cg->i64, TN_KERNEL_ALIGNMENT), misaligned, "");
  return LLVMBuildGEP2(at, cg->i8, block, &skip, 1, "");
}

/* The caller's block, when it is large enough. */
static LLVMValueRef given_workspace(tn__cg *cg, tn__kernel_info info, LLVMValueRef block, LLVMValueRef size) {
  LLVMBuilderRef at = cg->builder;
  LLVMValueRef small = LLVMBuildICmp(at, LLVMIntSLT, size, block_size(cg, info), "");
  tn__cg_return_if(cg, LLVMBuildOr(at, small, LLVMBuildIsNull(at, block, ""), ""),
                   tn__cg_int(cg->i32, TN_KERNEL_NO_MEMORY));
  return aligned_in(cg, block);
}

/* Aligned working memory; `*block` is what must be freed, or NULL when it is on the stack. */
static LLVMValueRef take_workspace(tn__cg *cg, tn__kernel_info info, LLVMValueRef *block) {
  LLVMBuilderRef at = cg->builder;
  *block = NULL;
  if (info.workspace_expr == NULL && info.workspace_bytes <= STACK_LIMIT)
    return tn__cg_alloca(cg, cg->i8, info.workspace_bytes, TN_KERNEL_ALIGNMENT);
  LLVMValueRef bytes = block_size(cg, info);
  LLVMTypeRef type = LLVMFunctionType(cg->ptr, &cg->i64, 1, 0);
  *block = LLVMBuildCall2(at, type, library_function(cg, "malloc", type), &bytes, 1, "");
  tn__cg_return_if(cg, LLVMBuildIsNull(at, *block, ""), tn__cg_int(cg->i32, TN_KERNEL_NO_MEMORY));
  return aligned_in(cg, *block);
}

static LLVMTypeRef entry_type(tn__cg *cg, const tn__func *func, const tn__c_entry *entry) {
  int params = func->input_count + func->output_count, count = 0;
  LLVMTypeRef *types = TN__NEW_ARRAY(cg->arena, 3 + func->scalar_count + params, LLVMTypeRef);
  if (entry->takes_env) types[count++] = cg->ptr;
  for (int i = 0; i < func->scalar_count; i++) types[count++] = cg->i64;
  for (int i = 0; i < params; i++)
    if (tn__c_entry_over(entry, func, i) < 0)
      types[count++] = tn__c_entry_by_value(func, i) ? tn__cg_memory_type(cg, func->params[i]->dtype) : cg->ptr;
  if (entry->takes_workspace) types[count++] = cg->ptr, types[count++] = cg->i64;
  return LLVMFunctionType(cg->i32, types, (unsigned)count, 0);
}

static LLVMValueRef checked_environment(tn__cg *cg, const tn__c_entry *entry) {
  LLVMValueRef own = own_environment(cg);
  if (!entry->takes_env) return own;
  LLVMValueRef given = LLVMGetParam(cg->frame->function, 0);
  return LLVMBuildSelect(cg->builder, LLVMBuildIsNull(cg->builder, given, ""), own, given, "");
}

static LLVMValueRef call_kernel(tn__cg *cg, LLVMValueRef kernel, const tn__c_entry *entry, LLVMValueRef buffers,
                                LLVMValueRef scalars) {
  LLVMTypeRef params[] = {cg->ptr, cg->ptr, cg->ptr};
  LLVMValueRef args[] = {checked_environment(cg, entry), buffers, scalars};
  return LLVMBuildCall2(cg->builder, LLVMFunctionType(cg->i32, params, 3, 0), kernel, args, 3, "");
}

/* The scalars, the function's arguments from `first` on, are known by name. Returns `bad` for one below its least
 * value, which the expressions take for granted, or above a greatest one, so that sums and products of few of them
 * cannot overflow. */
static void take_scalars(tn__cg *cg, const tn__func *func, const tn__c_entry *entry, unsigned first, LLVMValueRef bad) {
  for (int i = 0; i < func->scalar_count; i++) {
    LLVMValueRef v = LLVMGetParam(cg->frame->function, first + (unsigned)i);
    tn__cg_bind_value(cg, func->scalars[i], (tn__cg_value){.v = v, .lanes = 1});
  }
  for (int i = 0; i < func->scalar_count; i++) {
    LLVMValueRef v = LLVMGetParam(cg->frame->function, first + (unsigned)i);
    int64_t least = tn__ir_int_or(func->scalars[i]->min, INT64_MIN);
    tn__cg_return_if(cg, LLVMBuildICmp(cg->builder, LLVMIntSLT, v, tn__cg_int(cg->i64, least), ""), bad);
    LLVMValueRef greatest = tn__cg_int(cg->i64, INT64_C(1) << MAX_DIMENSION_BITS);
    tn__cg_return_if(cg, LLVMBuildICmp(cg->builder, LLVMIntSGT, v, greatest, ""), bad);
  }
  for (int i = 0; i < entry->check_count; i++)
    tn__cg_return_if(cg, LLVMBuildNot(cg->builder, tn__cg_scalar(cg, entry->checks[i]), ""), bad);
}

/* How much memory the function wants; where a dimension is refused, the function's status below zero. */
static void define_size(tn__cg *cg, tn__ir *ir, const tn__func *func, const tn__c_entry *entry) {
  LLVMTypeRef *types = TN__NEW_ARRAY(cg->arena, func->scalar_count + 1, LLVMTypeRef);
  for (int i = 0; i < func->scalar_count; i++) types[i] = cg->i64;
  LLVMTypeRef type = LLVMFunctionType(cg->i64, types, (unsigned)func->scalar_count, 0);
  const char *name = tn__arena_printf(cg->arena, TN__C_ENTRY_SIZE_FORMAT, entry->name);
  tn__cg_frame_enter(cg, name, type, LLVMExternalLinkage);
  take_scalars(cg, func, entry, 0, tn__cg_int(cg->i64, -TN_KERNEL_BAD_DIMENSION));
  tn__kernel_info info = tn__cg_kernel_workspace(ir, func);
  LLVMBuildRet(cg->builder, needs_memory(info) ? block_size(cg, info) : tn__cg_int(cg->i64, 0));
  tn__cg_frame_leave(cg);
}

void tn__cg_entry(tn__cg *cg, tn__ir *ir, const tn__func *func, const tn__c_entry *entry) {
  LLVMBuilderRef at = cg->builder;
  LLVMValueRef kernel = LLVMGetNamedFunction(cg->module, func->name);
  const char *inner = tn__arena_printf(cg->arena, "%s.kernel", func->name); /* no C identifier: collides with nothing */
  LLVMSetLinkage(kernel, LLVMInternalLinkage);
  LLVMSetValueName2(kernel, inner, strlen(inner));
  cg->ir = ir;
  cg->func = func;
  tn__cg_frame *frame = tn__cg_frame_enter(cg, entry->name, entry_type(cg, func, entry), LLVMExternalLinkage);
  int params = func->input_count + func->output_count;
  unsigned arg = entry->takes_env;
  LLVMValueRef scalars = tn__cg_alloca(cg, cg->i64, func->scalar_count + 1, 16);
  LLVMValueRef buffers = tn__cg_alloca(cg, cg->ptr, params + 1, 16);
  take_scalars(cg, func, entry, arg, tn__cg_int(cg->i32, TN_KERNEL_BAD_DIMENSION));
  for (int i = 0; i < func->scalar_count; i++)
    LLVMBuildStore(at, LLVMGetParam(frame->function, arg++), offset_pointer(cg, scalars, 8 * i));
  unsigned first = arg;
  for (int i = 0; i < params; i++) {
    int over = tn__c_entry_over(entry, func, i);
    LLVMValueRef v = LLVMGetParam(frame->function, over < 0 ? arg++ : first + (unsigned)over);
    if (tn__c_entry_by_value(func, i)) {
      LLVMValueRef slot = tn__cg_alloca(cg, LLVMTypeOf(v), 1, TN_KERNEL_ALIGNMENT);
      LLVMBuildStore(at, v, slot);
      v = slot;
    }
    LLVMBuildStore(at, v, offset_pointer(cg, buffers, 8 * i));
  }
  tn__kernel_info info = tn__cg_kernel_workspace(ir, func);
  LLVMValueRef block = NULL;
  if (needs_memory(info)) {
    LLVMValueRef given = entry->takes_workspace ? LLVMGetParam(frame->function, arg) : NULL;
    LLVMValueRef workspace = given != NULL ? given_workspace(cg, info, given, LLVMGetParam(frame->function, arg + 1))
                                           : take_workspace(cg, info, &block);
    LLVMBuildStore(at, workspace, offset_pointer(cg, buffers, 8 * params));
  }
  LLVMValueRef result = call_kernel(cg, kernel, entry, buffers, scalars);
  if (block != NULL) {
    LLVMTypeRef type = LLVMFunctionType(cg->void_type, &cg->ptr, 1, 0);
    LLVMBuildCall2(at, type, library_function(cg, "free", type), &block, 1, "");
  }
  LLVMBuildRet(at, result);
  tn__cg_frame_leave(cg);
  if (entry->takes_workspace) define_size(cg, ir, func, entry);
  cg->func = NULL;
}
