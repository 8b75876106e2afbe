#include "codegen/backend.h"

static const tn__backend *const backends[] = {&tn__backend_llvm, &tn__backend_c99, &tn__backend_c99_of_cpu,
                                              &tn__backend_opencl, &tn__backend_cuda};

enum { ROWS = sizeof(backends) / sizeof(backends[0]), ANYTHING = -1, A_UNIT = -2 };

/* The first row for the target that makes this; NULL: none does. */
static const tn__backend *find(const tn__target *target, int emit) {
  for (int i = 0; i < ROWS; i++) {
    const tn__backend *row = backends[i];
    bool makes = emit == ANYTHING || (emit == A_UNIT ? row->unit != NULL : (row->emits >> emit & 1) != 0);
    if ((row->kinds >> target->kind & 1) != 0 && makes && row->takes(target)) return row;
  }
  return NULL;
}

static tn_status *found(const tn__target *target, const tn__backend *row) {
  if (row != NULL) return NULL;
  return tn_status_create(TN_UNSUPPORTED, "target \"%s\": no code generator for %s", target->name,
                          tn__target_kind_name(target->kind));
}

tn_status *tn__backend_find(const tn__target *target, const tn__backend **out) {
  *out = find(target, TN__EMIT_OBJECT);
  if (*out == NULL && find(target, ANYTHING) != NULL)
    return tn_status_create(
        TN_UNSUPPORTED,
        "target \"%s\": for %s there is source text alone: `tenon build --emit %s` writes that of "
        "declarations, and %s",
        target->name, tn__target_kind_name(target->kind), tn__target_kind_name(target->kind),
        tn__target_may_host(target) ? "`tenon compile --emit c` that of models" : "the host of a model is a CPU");
  return found(target, *out);
}

tn_status *tn__backend_find_code(const tn__target *target, const tn__backend **out) {
  *out = find(target, A_UNIT);
  return *out != NULL ? NULL : tn__backend_find(target, out);
}

tn_status *tn__backend_find_any(const tn__target *target, const tn__backend **out) {
  *out = find(target, ANYTHING);
  return found(target, *out);
}

const tn__backend *tn__backend_of(tn__escape *escape, const tn__target *target) {
  const tn__backend *backend;
  tn__check(escape, tn__backend_find(target, &backend));
  return backend;
}

/* Each stage is made for some kind. */
static tn__target_kind first_kind_with(tn__emit emit) {
  for (int kind = 0; kind < TN__TARGET_KINDS; kind++)
    for (int i = 0; i < ROWS; i++)
      if ((backends[i]->emits >> emit & 1) != 0 && (backends[i]->kinds >> kind & 1) != 0) return (tn__target_kind)kind;
  return TN__TARGET_CPU;
}

const tn__backend *tn__backend_that_emits(tn__escape *escape, const tn__target *target, tn__emit emit,
                                          const char *what) {
  const tn__backend *row = find(target, (int)emit);
  if (row != NULL) return row;
  if (emit == TN__EMIT_OBJECT) return tn__backend_of(escape, target);
  tn__throwf(escape, TN_UNSUPPORTED, "target \"%s\": no code generator makes %s for %s; one does for %s", target->name,
             what, tn__target_kind_name(target->kind), tn__target_kind_name(first_kind_with(emit)));
}
