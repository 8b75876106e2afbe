#include "codegen/backend.h"

static const tn__backend *const backends[] = {&tn__backend_llvm, &tn__backend_c99};

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

const tn__backend *tn__backend_that_emits(tn__escape *escape, const tn__target *target, tn__emit emit,
                                          const char *what) {
  for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
    const tn__backend *row = backends[i];
    if (row->kind == target->kind && (row->emits >> emit & 1) != 0 && row->takes(target)) return row;
  }
  tn__throwf(escape, TN_UNSUPPORTED, "target \"%s\": no code generator makes %s for %s", target->name, what,
             tn__target_kind_name(target->kind));
}
