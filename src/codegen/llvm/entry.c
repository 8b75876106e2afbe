/* Plain C functions around kernels: what a C program calls, with typed parameters and nothing to set up. They check the
 * dimensions, find working memory, make an environment and call the kernel. */
#include <stddef.h>
#include <string.h>

#include "codegen/llvm/emit.h"

enum { STACK_LIMIT = 16 << 10, MAX_DIMENSION_BITS = 48 };

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

/* Aligned working memory; `*block` is what must be freed, or NULL when it is on the stack. */
static LLVMValueRef take_workspace(tn__cg *cg, tn__kernel_info info, LLVMValueRef *block) {
  LLVMBuilderRef at = cg->builder;
  *block = NULL;
  if (info.workspace_expr == NULL && info.workspace_bytes <= STACK_LIMIT)
    return tn__cg_alloca(cg, cg->i8, info.workspace_bytes, TN_KERNEL_ALIGNMENT);
  LLVMValueRef bytes =
      info.workspace_expr != NULL ? tn__cg_scalar(cg, info.workspace_expr) : tn__cg_int(cg->i64, info.workspace_bytes);
  bytes = LLVMBuildAdd(at, bytes, tn__cg_int(cg->i64, TN_KERNEL_ALIGNMENT), "");
  LLVMTypeRef type = LLVMFunctionType(cg->ptr, &cg->i64, 1, 0);
  *block = LLVMBuildCall2(at, type, library_function(cg, "malloc", type), &bytes, 1, "");
  tn__cg_return_if(cg, LLVMBuildIsNull(at, *block, ""), tn__cg_int(cg->i32, TN_KERNEL_NO_MEMORY));
  LLVMValueRef address = LLVMBuildPtrToInt(at, *block, cg->i64, "");
  LLVMValueRef misaligned = LLVMBuildAnd(at, address, tn__cg_int(cg->i64, TN_KERNEL_ALIGNMENT - 1), "");
  LLVMValueRef skip = LLVMBuildSub(at, tn__cg_int(cg->i64, TN_KERNEL_ALIGNMENT), misaligned, "");
  return LLVMBuildGEP2(at, cg->i8, *block, &skip, 1, "");
}

static LLVMTypeRef entry_type(tn__cg *cg, const tn__func *func, const tn__c_entry *entry) {
  int params = func->input_count + func->output_count, count = 0;
  LLVMTypeRef *types = TN__NEW_ARRAY(cg->arena, 1 + func->scalar_count + params, LLVMTypeRef);
  if (entry->takes_env) types[count++] = cg->ptr;
  for (int i = 0; i < func->scalar_count; i++) types[count++] = cg->i64;
  for (int i = 0; i < params; i++)
    types[count++] = tn__c_entry_by_value(func, i) ? tn__cg_memory_type(cg, func->params[i]->dtype) : cg->ptr;
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

/* Their least values, which the expressions take for granted, and a greatest one, so that sums and products of few of
 * them cannot overflow. */
static void check_scalars(tn__cg *cg, const tn__func *func, const tn__c_entry *entry) {
  LLVMValueRef bad = tn__cg_int(cg->i32, TN_KERNEL_BAD_DIMENSION);
  for (int i = 0; i < func->scalar_count; i++) {
    LLVMValueRef v = LLVMGetParam(cg->frame->function, (unsigned)(i + entry->takes_env));
    int64_t least = INT64_MIN;
    if (func->scalars[i]->min != NULL) (void)tn__ir_as_int(func->scalars[i]->min, &least);
    tn__cg_return_if(cg, LLVMBuildICmp(cg->builder, LLVMIntSLT, v, tn__cg_int(cg->i64, least), ""), bad);
    LLVMValueRef greatest = tn__cg_int(cg->i64, INT64_C(1) << MAX_DIMENSION_BITS);
    tn__cg_return_if(cg, LLVMBuildICmp(cg->builder, LLVMIntSGT, v, greatest, ""), bad);
  }
  for (int i = 0; i < entry->check_count; i++)
    tn__cg_return_if(cg, LLVMBuildNot(cg->builder, tn__cg_scalar(cg, entry->checks[i]), ""), bad);
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
  for (int i = 0; i < func->scalar_count; i++) {
    LLVMValueRef v = LLVMGetParam(frame->function, arg++);
    tn__cg_bind_value(cg, func->scalars[i], (tn__cg_value){.v = v, .lanes = 1});
    LLVMBuildStore(at, v, offset_pointer(cg, scalars, 8 * i));
  }
  for (int i = 0; i < params; i++) {
    LLVMValueRef v = LLVMGetParam(frame->function, arg++);
    if (tn__c_entry_by_value(func, i)) {
      LLVMValueRef slot = tn__cg_alloca(cg, LLVMTypeOf(v), 1, TN_KERNEL_ALIGNMENT);
      LLVMBuildStore(at, v, slot);
      v = slot;
    }
    LLVMBuildStore(at, v, offset_pointer(cg, buffers, 8 * i));
  }
  check_scalars(cg, func, entry);
  tn__kernel_info info = tn__cg_kernel_workspace(ir, func);
  LLVMValueRef block = NULL;
  if (info.workspace_expr != NULL || info.workspace_bytes > 0)
    LLVMBuildStore(at, take_workspace(cg, info, &block), offset_pointer(cg, buffers, 8 * params));
  LLVMValueRef result = call_kernel(cg, kernel, entry, buffers, scalars);
  if (block != NULL) {
    LLVMTypeRef type = LLVMFunctionType(cg->void_type, &cg->ptr, 1, 0);
    LLVMBuildCall2(at, type, library_function(cg, "free", type), &block, 1, "");
  }
  LLVMBuildRet(at, result);
  tn__cg_frame_leave(cg);
  cg->func = NULL;
}
