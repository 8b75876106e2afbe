/* Frames (LLVM functions under construction) and the scoped bindings in them. */
#include <string.h>

#include "base/hash.h"
#include "codegen/llvm/emit.h"

static uint32_t slot_of(const tn__cg_frame *frame, const void *key) {
  uint32_t mask = frame->table_size - 1;
  uint32_t slot = (uint32_t)tn__hash_mix(0, (uint64_t)(uintptr_t)key) & mask;
  while (frame->table[slot] != 0 && frame->bindings.data[frame->table[slot] - 1].key != key) slot = (slot + 1) & mask;
  return slot;
}

static void rebuild(tn__cg *cg, tn__cg_frame *frame) {
  uint32_t size = 64;
  while (size < 4 * (uint32_t)(frame->bindings.count + 1)) size *= 2;
  frame->table = TN__NEW_ARRAY(cg->arena, size, int);
  frame->table_size = size;
  frame->table_used = 0;
  for (int i = 0; i < frame->bindings.count; i++) {
    uint32_t slot = slot_of(frame, frame->bindings.data[i].key);
    if (frame->table[slot] == 0) frame->table_used++;
    frame->table[slot] = i + 1;
  }
}

tn__cg_frame *tn__cg_frame_enter(tn__cg *cg, const char *name, LLVMTypeRef type, LLVMLinkage linkage) {
  tn__cg_frame *frame = TN__NEW(cg->arena, tn__cg_frame);
  frame->outer = cg->frame;
  frame->lanes = 1;
  frame->watched = frame->outer == NULL || frame->outer->watched;
  frame->function = LLVMAddFunction(cg->module, name, type);
  LLVMSetLinkage(frame->function, linkage);
  frame->entry = LLVMAppendBasicBlockInContext(cg->context, frame->function, "entry");
  rebuild(cg, frame);
  if (frame->outer != NULL) frame->outer->resume = LLVMGetInsertBlock(cg->builder);
  cg->frame = frame;
  tn__cg_at(cg, tn__cg_block(cg, "body"));
  return frame;
}

void tn__cg_frame_leave(tn__cg *cg) {
  tn__cg_frame *frame = cg->frame;
  tn__cg_at(cg, frame->entry);
  LLVMBuildBr(cg->builder, LLVMGetNextBasicBlock(frame->entry));
  cg->frame = frame->outer;
  if (cg->frame != NULL) tn__cg_at(cg, cg->frame->resume);
}

int tn__cg_scope_enter(tn__cg *cg) { return cg->frame->bindings.count; }

void tn__cg_scope_leave(tn__cg *cg, int scope) {
  tn__cg_frame *frame = cg->frame;
  while (frame->bindings.count > scope) {
    const tn__cg_binding *last = &frame->bindings.data[frame->bindings.count - 1];
    uint32_t slot = slot_of(frame, last->key);
    if (last->shadowed >= 0) {
      frame->table[slot] = last->shadowed + 1;
      frame->bindings.count--;
      continue;
    }
    /* Backward-shift deletion keeps probe sequences whole without tombstones. */
    uint32_t mask = frame->table_size - 1, hole = slot, next = (slot + 1) & mask;
    while (frame->table[next] != 0) {
      const void *key = frame->bindings.data[frame->table[next] - 1].key;
      uint32_t home = (uint32_t)tn__hash_mix(0, (uint64_t)(uintptr_t)key) & mask;
      if (((next - home) & mask) >= ((next - hole) & mask)) {
        frame->table[hole] = frame->table[next];
        hole = next;
      }
      next = (next + 1) & mask;
    }
    frame->table[hole] = 0;
    frame->table_used--;
    frame->bindings.count--;
  }
}

static void bind(tn__cg *cg, tn__cg_binding binding) {
  tn__cg_frame *frame = cg->frame;
  if (2 * (frame->table_used + 1) > frame->table_size) rebuild(cg, frame);
  uint32_t slot = slot_of(frame, binding.key);
  binding.shadowed = frame->table[slot] - 1;
  if (frame->table[slot] == 0) frame->table_used++;
  tn__vec_push(cg->arena, &frame->bindings, binding);
  frame->table[slot] = frame->bindings.count;
}

void tn__cg_bind_value(tn__cg *cg, const void *key, tn__cg_value value) {
  bind(cg, (tn__cg_binding){.key = key, .value = value, .version = cg->frame->version, .depth = cg->frame->depth});
}

void tn__cg_bind_storage(tn__cg *cg, tn__cg_storage *storage) {
  bind(cg, (tn__cg_binding){.key = storage->buffer, .storage = storage});
}

const tn__cg_binding *tn__cg_find(const tn__cg *cg, const void *key) {
  const tn__cg_frame *frame = cg->frame;
  int index = frame->table[slot_of(frame, key)];
  return index == 0 ? NULL : &frame->bindings.data[index - 1];
}

tn__cg_storage *tn__cg_storage_of(tn__cg *cg, const tn__buffer *buffer) {
  const tn__cg_binding *binding = tn__cg_find(cg, buffer);
  if (binding == NULL) tn__cg_fail(cg, "buffer %s is used outside of its allocation", buffer->name);
  return binding->storage;
}
