/* Ways through calls: which function was called where, for what is said of a kernel or copy that failed later. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/vm/queued.h"

/* Ways are found by their call and the way to it: a table of their numbers, as long again as they may be many. */
static uint32_t *table_of(const tn__vm *vm) { return (uint32_t *)(void *)(vm->paths + vm->path_capacity); }

static uint32_t *find_path(const tn__vm *vm, uint32_t parent, uint32_t call) {
  uint32_t *table = table_of(vm), mask = 2 * vm->path_capacity - 1;
  uint64_t hash = ((uint64_t)parent << 32 | call) * UINT64_C(0x9e3779b97f4a7c15);
  uint32_t at = (uint32_t)(hash >> 32) & mask;
  while (table[at] != 0 && (vm->paths[table[at]].parent != parent || vm->paths[table[at]].call != call))
    at = (at + 1) & mask;
  return &table[at];
}

static size_t paths_bytes(uint32_t capacity) { return capacity * (sizeof(tn__call_path) + 2 * sizeof(uint32_t)); }

tn_status *tn__vm_make_paths(tn__vm *vm, uint32_t capacity) {
  void *memory;
  tn__call_path *old = vm->paths;
  size_t old_bytes = paths_bytes(vm->path_capacity);
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, 1, paths_bytes(capacity), 0, &memory));
  vm->paths = memory;
  vm->path_capacity = capacity;
  for (uint32_t i = 0; i < vm->path_count; i++) {
    vm->paths[i] = old[i];
    if (i > 0) *find_path(vm, old[i].parent, old[i].call) = i;
  }
  tn__free(vm->allocator, old, old_bytes, 0);
  return NULL;
}

void tn__vm_release_paths(tn__vm *vm) {
  tn__free(vm->allocator, vm->paths, paths_bytes(vm->path_capacity), 0);
  vm->paths = NULL;
}

/* The ways of the last invoke are those of the next one of the same function. */
void tn__vm_begin_queues(tn__vm *vm, const tn__function *f) {
  vm->path = 0;
  if (vm->path_count > 0 && vm->paths[0].f == f) return;
  memset(table_of(vm), 0, 2 * vm->path_capacity * sizeof(uint32_t));
  vm->paths[0] = (tn__call_path){.f = f};
  vm->path_count = 1;
}

/* Each way through calls has one number, however often a loop takes it. */
tn_status *tn__vm_enter_call(tn__vm *vm, const tn__instruction *in, const tn__function *callee) {
  if (vm->queues == NULL) return NULL;
  const tn__call_path wanted = {
      .f = callee, .parent = vm->path, .call = (uint32_t)(in - vm->paths[vm->path].f->instructions)};
  uint32_t known = *find_path(vm, wanted.parent, wanted.call);
  if (known == 0) {
    if (vm->path_count == vm->path_capacity) TN_RETURN_IF_ERROR(tn__vm_make_paths(vm, 2 * vm->path_capacity));
    known = vm->path_count++;
    *find_path(vm, wanted.parent, wanted.call) = known;
    vm->paths[known] = wanted;
  }
  vm->path = known;
  return NULL;
}
