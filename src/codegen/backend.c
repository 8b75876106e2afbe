#include "codegen/backend.h"

static const tn__backend *const backends[] = {&tn__backend_llvm};

const tn__backend *tn__backend_of(tn__escape *escape, const tn__target *target) {
  for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
    if (backends[i]->takes(target)) return backends[i];
  tn__throwf(escape, TN_UNSUPPORTED, "there is no code generator for the target %s", target->name);
}
