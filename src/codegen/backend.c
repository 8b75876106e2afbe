#include "codegen/backend.h"

static const tn__backend *const backends[] = {&tn__backend_llvm};

tn_status *tn__backend_find(const tn__target *target, const tn__backend **out) {
  for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
    *out = backends[i];
    if (backends[i]->kind == target->kind && backends[i]->takes(target)) return NULL;
  }
  *out = NULL;
  return tn_status_create(TN_UNSUPPORTED, "target \"%s\": no code generator for %s", target->name,
                          tn__target_kind_name(target->kind));
}

const tn__backend *tn__backend_of(tn__escape *escape, const tn__target *target) {
  const tn__backend *backend;
  tn__check(escape, tn__backend_find(target, &backend));
  return backend;
}
