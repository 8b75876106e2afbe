/* Inner functions: bodies of branches and loops, functions specialised for a size, and those that read strided
 * inputs. They rely on checks of their callers, so callers of the executable cannot name them. */
#include "base/alloc.h"
#include "runtime/executable/executable.h"

/* Records that `outer` uses function number `inner`. In files that do not mark inner functions, this makes it one. */
static void use(tn_executable *exe, uint32_t inner, const tn__function *outer, bool marked) {
  tn__function *f = &exe->functions[inner];
  if (f == outer || inner == 0) return;
  f->inner |= !marked;
  if (f->outer < 0) f->outer = outer->index;
}

static tn_status *use_callees(tn_executable *exe, const tn__function *f, bool marked) {
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    if (in->op != TN__OP_CALL) continue;
    if (exe->functions[in->callee].by_strides)
      return tn__load_corrupt(
          "function \"%s\", code word %u, CALL: function \"%s\" is for inputs of any strides, and "
          "only a session calls it",
          f->name, in->word, exe->functions[in->callee].name);
    use(exe, in->callee, f, marked);
  }
  return NULL;
}

tn_status *tn__load_find_inner(tn_executable *exe, bool marked) {
  for (uint32_t i = 0; i < exe->function_count; i++) {
    exe->functions[i].outer = -1;
    exe->functions[i].inner = exe->functions[i].inner && marked;
  }
  for (uint32_t i = 0; i < exe->function_count; i++)
    if (exe->functions[i].strided >= 0) exe->functions[exe->functions[i].strided].by_strides = true;
  for (uint32_t i = 0; i < exe->function_count; i++) {
    const tn__function *f = &exe->functions[i];
    if (f->strided >= 0) use(exe, (uint32_t)f->strided, f, marked);
    if (f->by_strides && marked && !f->inner)
      return tn__load_corrupt("function \"%s\" is for inputs of any strides and not marked as inner", f->name);
    TN_RETURN_IF_ERROR(use_callees(exe, f, marked));
  }
  if (exe->functions[0].inner || exe->functions[0].by_strides)
    return tn__load_corrupt("its first function, \"%s\", is an inner one", exe->functions[0].name);
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, exe->function_count, sizeof(uint32_t), &exe->entries));
  for (uint32_t i = 0; i < exe->function_count; i++)
    if (!exe->functions[i].inner) exe->entries[exe->entry_count++] = i;
  return NULL;
}
