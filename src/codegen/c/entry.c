/* Plain C functions around kernels, as codegen/llvm/entry.c makes them: they check the dimensions, find working memory,
 * make an environment and call the kernel. */
#include "codegen/c/emit.h"

enum { STACK_LIMIT = 16 << 10, MAX_DIMENSION_BITS = 48 };

static const char *param_name(tn__cc *cc, int param) { return TN__CC_TEXT(cc, "p%d", param); }

static const char *parameters(tn__cc *cc, const tn__c_entry *entry) {
  const tn__func *func = cc->func;
  const char *text = entry->takes_env ? "const struct tn_kernel_env *env" : "";
  for (int i = 0; i < func->scalar_count; i++)
    text = TN__CC_TEXT(cc, "%s%stn_i64 %s", text, text[0] == '\0' ? "" : ", ", tn__cc_var_name(cc, func->scalars[i]));
  for (int i = 0; i < func->input_count + func->output_count; i++) {
    if (tn__c_entry_over(entry, func, i) >= 0) continue;
    bool input = i < func->input_count, over = false;
    for (int k = func->input_count; k < func->input_count + func->output_count; k++)
      over |= tn__c_entry_over(entry, func, k) == i;
    const char *type = func->params[i]->dtype == TN_BOOL ? "_Bool" : tn__cc_memory_type(func->params[i]->dtype);
    text = TN__CC_TEXT(cc, "%s%s%s%s %s%s", text, text[0] == '\0' ? "" : ", ",
                       input && !over && !tn__c_entry_by_value(func, i) ? "const " : "", type,
                       tn__c_entry_by_value(func, i) ? "" : "*", param_name(cc, i));
  }
  if (entry->takes_workspace)
    text = TN__CC_TEXT(cc, "%s%svoid *block, tn_i64 block_size", text, text[0] == '\0' ? "" : ", ");
  return text[0] == '\0' ? "void" : text;
}

/* Dimensions are numbers of the function's own range, and what the declaration asks of them. */
static void check_dimensions(tn__cc *cc, const tn__c_entry *entry, const char *bad) {
  const tn__func *func = cc->func;
  for (int i = 0; i < func->scalar_count; i++) {
    const char *name = tn__cc_var_name(cc, func->scalars[i]);
    int64_t least = tn__ir_int_or(func->scalars[i]->min, INT64_MIN);
    tn__cc_line(cc, "if (%s < %s || %s > %lldll) return %s;", name, tn__cc_integer(cc, TN_I64, least), name,
                (long long)(INT64_C(1) << MAX_DIMENSION_BITS), bad);
  }
  for (int i = 0; i < entry->check_count; i++)
    tn__cc_line(cc, "if (!%s) return %s;", tn__cc_whole(cc, entry->checks[i]), bad);
}

static void find_memory(tn__cc *cc, const tn__c_entry *entry, const tn__kernel_info *info, int params) {
  bool small = info->workspace_expr == NULL && info->workspace_bytes <= STACK_LIMIT;
  const char *bytes = info->workspace_expr != NULL ? tn__cc_whole(cc, info->workspace_expr)
                                                   : tn__cc_integer(cc, TN_I64, info->workspace_bytes);
  if (entry->takes_workspace) {
    tn__cc_line(cc, "if (block == 0 || block_size < %s + %d) return %d;", bytes, TN_KERNEL_ALIGNMENT,
                TN_KERNEL_NO_MEMORY);
  } else if (small) {
    tn__cc_line(cc, "tn_u64 memory[%lld];", (long long)(info->workspace_bytes + TN_KERNEL_ALIGNMENT) / 8 + 1);
    tn__cc_line(cc, "void *block = memory;");
  } else {
    tn__cc_line(cc, "void *block = TN_MALLOC((size_t)(%s + %d));", bytes, TN_KERNEL_ALIGNMENT);
    tn__cc_line(cc, "if (block == 0) return %d;", TN_KERNEL_NO_MEMORY);
  }
  tn__cc_line(cc, "buffers[%d] = (tn_u8 *)block + (%d - ((uintptr_t)block & %d));", params, TN_KERNEL_ALIGNMENT,
              TN_KERNEL_ALIGNMENT - 1);
}

static void define_size(tn__cc *cc, const tn__c_entry *entry, const tn__kernel_info *info, bool needed) {
  const tn__func *func = cc->func;
  const char *text = func->scalar_count == 0 ? "void" : "";
  for (int i = 0; i < func->scalar_count; i++)
    text = TN__CC_TEXT(cc, "%s%stn_i64 %s", text, i == 0 ? "" : ", ", tn__cc_var_name(cc, func->scalars[i]));
  const char *name = TN__CC_TEXT(cc, TN__C_ENTRY_SIZE_FORMAT, entry->name);
  tn__strbuf_char(cc->out, '\n');
  tn__cc_line(cc, "tn_i64 %s(%s);", name, text);
  tn__cc_open(cc, "tn_i64 %s(%s)", name, text);
  check_dimensions(cc, entry, TN__CC_TEXT(cc, "-%d", TN_KERNEL_BAD_DIMENSION));
  if (!needed)
    tn__cc_line(cc, "return 0;");
  else if (info->workspace_expr == NULL)
    tn__cc_line(cc, "return %lldll;", (long long)info->workspace_bytes + TN_KERNEL_ALIGNMENT);
  else
    tn__cc_line(cc, "return %s + %d;", tn__cc_whole(cc, info->workspace_expr), TN_KERNEL_ALIGNMENT);
  tn__cc_close(cc);
}

void tn__cc_entry(tn__cc *cc, const tn__c_entry *entry) {
  const tn__func *func = cc->func;
  int params = func->input_count + func->output_count;
  tn__kernel_info info = tn__cc_measure(cc->ir, func);
  bool needed = info.workspace_expr != NULL || info.workspace_bytes > 0;
  bool allocates =
      needed && !entry->takes_workspace && (info.workspace_expr != NULL || info.workspace_bytes > STACK_LIMIT);
  cc->indent = 0;
  tn__strbuf_char(cc->out, '\n');
  const char *list = parameters(cc, entry);
  tn__cc_line(cc, "tn_i32 %s(%s);", entry->name, list);
  tn__cc_open(cc, "tn_i32 %s(%s)", entry->name, list);
  tn__cc_line(cc, "const struct tn_kernel_env *const own = &tn_own_env;");
  tn__cc_line(cc, "void *buffers[%d];", params + 1);
  tn__cc_line(cc, "tn_i64 scalars[%d];", func->scalar_count + 1);
  if (entry->takes_workspace) tn__cc_line(cc, "(void)block, (void)block_size;");
  check_dimensions(cc, entry, TN__CC_TEXT(cc, "%d", TN_KERNEL_BAD_DIMENSION));
  for (int i = 0; i < func->scalar_count; i++)
    tn__cc_line(cc, "scalars[%d] = %s;", i, tn__cc_var_name(cc, func->scalars[i]));
  tn__cc_line(cc, "scalars[%d] = 0;", func->scalar_count);
  tn__cc_line(cc, "buffers[%d] = 0;", params);
  for (int i = 0; i < params; i++) {
    int over = tn__c_entry_over(entry, func, i);
    tn__cc_line(cc, "buffers[%d] = (void *)%s%s;", i, tn__c_entry_by_value(func, i) ? "&" : "",
                param_name(cc, over < 0 ? i : over));
  }
  if (needed) find_memory(cc, entry, &info, params);
  tn__cc_line(cc, "%s%s_kernel(%s, buffers, scalars);", allocates ? "const tn_i32 result = " : "return ", func->name,
              entry->takes_env ? "env == 0 ? own : env" : "own");
  if (allocates) {
    tn__cc_line(cc, "TN_FREE(block);");
    tn__cc_line(cc, "return result;");
  }
  tn__cc_close(cc);
  if (entry->takes_workspace) define_size(cc, entry, &info, needed);
}
