/* Registers of a function: where each value is, made on first use. */
#include "program/builder.h"
#include "target/devices/device.h"
#include "tenon/dlpack.h"

tn__place *tn__place_of(tn__builder *b, tn__value *v) {
  tn__place *p = &b->places[v->id];
  if (!p->value) *p = (tn__place){.value = v, .root = (int)v->id, .first = -1, .last = -1, .reg = -1};
  return p;
}

tn__place *tn__prog_root_of(tn__builder *b, tn__value *v) {
  tn__place *p = tn__place_of(b, v);
  while (p->root != (int)p->value->id) p = &b->places[p->root];
  return p;
}

int tn__prog_device_of(tn__builder *b, const tn__value *v) {
  bool has_own = b->function == NULL || b->function->dispatch == NULL;
  return has_own ? tn__prog_home_of(b, v) : 0;
}

/* Where a register of the storage is for the value. */
static int device_for(tn__builder *b, const tn__value *v, tn__storage storage, int index) {
  bool output = storage == TN__STORAGE_OUTPUT;
  if (output || storage == TN__STORAGE_INPUT) return tn__prog_given_device(b, output, index);
  return tn__prog_device_of(b, v);
}

bool tn__prog_shares_memory(tn__builder *b, const tn__group *g) {
  const tn__node *node = g->nodes[0];
  if (!g->view && !tn__op_has(node, TN__FACT_COPIES)) return false;
  return tn__prog_device_of(b, node->inputs[0]) == tn__prog_device_of(b, node->outputs[0]);
}

void tn__prog_refuse_to_grow(tn__builder *b, const tn__value *v, const char *what, const char *name) {
  if (tn__prog_device_of(b, v) == 0) return;
  tn__throwf(b->arena->escape, TN_UNSUPPORTED,
             "%s \"%s\" grows in its caller's buffer (--capacity), and is placed on %s: place it on the host", what,
             name, tn__virtual_device_text(b->arena, v->device));
}

int tn__builder_register(tn__builder *b, const tn__value *v, tn__storage storage, int index, tn__operand offset) {
  if (v->holds != TN__HOLDS_TENSOR)
    return tn__exe_list(b->func, v->dtype, v->item_rank, (tn__container)v->holds, storage, index);
  tn__operand dims[TN_MAX_RANK];
  for (int i = 0; i < v->rank; i++) dims[i] = tn__scalars_operand(&b->scalars, v->dims[i]);
  int reg = tn__exe_register(b->func, v->dtype, v->rank, dims, storage, index, offset);
  tn__exe_register_on(b->func, device_for(b, v, storage, index), reg);
  return reg;
}

bool tn__builder_knows(tn__builder *b, const tn__expr *e) {
  if (e->kind == TN__EXPR_VAR) return tn__scalars_knows(&b->scalars, e);
  for (int i = 0; i < e->arg_count; i++)
    if (!tn__builder_knows(b, e->args[i])) return false;
  return true;
}

int tn__prog_register_of(tn__builder *b, tn__value *v) {
  tn__place *p = tn__place_of(b, v);
  if (p->reg >= 0) return p->reg;
  tn__place *root = tn__prog_root_of(b, v);
  if (root != p) {
    int of = tn__prog_register_of(b, root->value);
    bool list = v->holds != TN__HOLDS_TENSOR; /* there is one way to look at it */
    p->reg = list ? of : tn__builder_register(b, v, TN__STORAGE_VIEW, of, tn__prog_operand_const(0));
    return p->reg;
  }
  switch (p->kind) {
    case TN__PLACE_STATIC:
      p->reg = tn__builder_register(b, v, TN__STORAGE_ARENA, 0, tn__prog_operand_const(b->items.data[p->index].offset));
      break;
    case TN__PLACE_SLOT:
      p->reg = tn__builder_register(b, v, TN__STORAGE_ARENA, 0, tn__prog_operand_scalar(b->slots.data[p->index].reg));
      break;
    case TN__PLACE_DYNAMIC:
      p->reg = tn__builder_register(b, v, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
      break;
    default: tn__throwf(b->arena->escape, TN_INTERNAL, "value \"%s\" has no storage", v->name);
  }
  return p->reg;
}

void tn__prog_emit_word(tn__builder *b, tn__opcode op, int reg) {
  uint32_t word = (uint32_t)reg;
  tn__exe_emit(b->func, op, &word, 1);
}

/* The program's output number whose buffer this root writes, made into a register once its dimensions are known. */
static int output_register(tn__builder *b, tn__place *root) {
  tn__value *out = b->function->outputs[root->index];
  int reg = tn__builder_register(b, out, TN__STORAGE_OUTPUT, root->index, tn__prog_operand_const(0));
  if (out->holds != TN__HOLDS_TENSOR) return root->reg = reg;
  tn__place *at = tn__place_of(b, out);
  at->reg = reg;
  if (at != root)
    root->reg = tn__builder_register(b, root->value, TN__STORAGE_VIEW, at->reg, tn__prog_operand_const(0));
  return at->reg;
}

int tn__prog_destination_of(tn__builder *b, tn__value *v, bool allocate) {
  tn__place *root = tn__prog_root_of(b, v);
  bool tensor = v->holds == TN__HOLDS_TENSOR;
  if (root->reg < 0 && root->kind == TN__PLACE_OUTPUT) {
    int reg = output_register(b, root);
    if (!root->early && allocate && tensor) tn__prog_emit_word(b, TN__OP_ALLOC, reg);
  } else if (root->reg < 0 && root->kind == TN__PLACE_DYNAMIC) {
    int reg = tn__prog_register_of(b, root->value);
    if (allocate && tensor) tn__prog_emit_word(b, TN__OP_ALLOC, reg);
  }
  return tn__prog_register_of(b, v);
}

void tn__prog_declare_output_extent(tn__builder *b, int output) {
  tn__extent extent = b->function->extents ? b->function->extents[output] : (tn__extent){0};
  if (!extent.valid) return;
  tn__prog_refuse_to_grow(b, b->function->outputs[output], "output", b->function->output_names[output]);
  tn__exe_extent(b->func, true, output, extent.axis, tn__scalars_operand(&b->scalars, extent.valid));
}
