#include "runtime/executable/values.h"

/* Why the function needs the table; NULL: it does not. */
static const char *reason_of(const tn__function *f) {
  for (uint32_t i = 0; i < f->register_count; i++) {
    if (f->registers[i].container != TN__CONTAINER_TENSOR) return "sequences or optional values";
    if (f->registers[i].dtype == TN_STRING) return "strings";
  }
  for (uint32_t i = 0; i < f->instruction_count; i++)
    if (f->instructions[i].op == TN__OP_BUILTIN &&
        tn__builtin_find(f->instructions[i].callee)->about != TN__ABOUT_TENSORS)
      return "lookups in tables";
  return NULL;
}

tn_status *tn__values_find(tn_executable *exe) {
  const char *reason = exe->string_data == NULL ? NULL : "strings";
  for (uint32_t i = 0; i < exe->constant_count && reason == NULL; i++)
    if (exe->constants[i].dtype == TN_STRING) reason = "strings";
  for (uint32_t i = 0; i < exe->function_count && reason == NULL; i++) reason = reason_of(&exe->functions[i]);
  if (reason == NULL) return NULL;
  exe->values = tn__values_built();
  if (exe->values != NULL) return exe->values->check(exe);
  return tn_status_create(TN_UNSUPPORTED,
                          "the executable has %s, and this libtenon_runtime was built without sequences, optional "
                          "values, strings and tables (-DTENON_VALUES=OFF): use one that has them",
                          reason);
}
