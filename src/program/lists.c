/* Sequences and optional values in the VM's code: builtins over list registers. A node whose operand nobody reads any
 * more takes its list over and changes it in place, so that a sequence grown in a loop is never copied. */
#include "program/builder.h"

static void builtin(tn__builder *b, tn__builtin which, const int *reads, int read_count, int write, int scalar) {
  tn__exe_emit_builtin(b->func, which, reads, read_count, &write, 1, &scalar, scalar < 0 ? 0 : 1);
}

/* The position that an operand holds; the end when there is none. */
static int position(tn__builder *b, const tn__node *node, int input) {
  if (input >= node->input_count || node->inputs[input] == NULL) return tn__exe_emit_const(b->func, INT64_MAX);
  int scalar = tn__exe_scalar(b->func);
  uint32_t words[] = {(uint32_t)scalar, (uint32_t)tn__prog_register_of(b, node->inputs[input]), 0};
  tn__exe_emit(b->func, TN__OP_SCALAR_LOAD, words, 3);
  /* The number that stands for the end is no position that a model may give. */
  int end = tn__exe_emit_const(b->func, INT64_MAX);
  tn__exe_emit_assert(b->func, tn__exe_emit_scalar_op(b->func, TN__SCALAR_LT, scalar, end),
                      "position 9223372036854775807 is outside of any sequence");
  return scalar;
}

bool tn__prog_is_updated(const tn__builder *b, const tn__value *input) {
  const tn__program_function *f = b->function;
  for (int i = 0; f->updates && i < f->input_count; i++)
    if (f->inputs[i] == input) return f->updates[i] != NULL && f->updates[i] != input;
  return false;
}

bool tn__prog_list_dies(tn__builder *b, tn__value *list) {
  const tn__place *root = tn__prog_root_of(b, list);
  bool own = root->kind == TN__PLACE_DYNAMIC || (root->kind == TN__PLACE_INPUT && tn__prog_is_updated(b, root->value));
  int reads = 0; /* of this step */
  const tn__step *s = &b->steps[b->at];
  for (int i = 0; i < s->input_count; i++) reads += s->inputs[i] && tn__prog_root_of(b, s->inputs[i]) == root;
  return own && root->last == b->at && reads == 1;
}

/* The register of the result, holding the operand's list: moved where that one is not needed any more, else copied. */
static int take_list(tn__builder *b, const tn__node *node) {
  int from = tn__prog_register_of(b, node->inputs[0]), to = tn__prog_destination_of(b, node->outputs[0], false);
  /* What must have one rank and may have any is looked at by COPY. */
  bool widens = node->outputs[0]->item_rank == TN__ANY_RANK;
  bool moves = (widens || node->inputs[0]->item_rank != TN__ANY_RANK) && tn__prog_list_dies(b, node->inputs[0]);
  uint32_t words[] = {(uint32_t)to, (uint32_t)from};
  tn__exe_emit(b->func, moves ? TN__OP_MOVE : TN__OP_COPY, words, 2);
  return to;
}

/* ---- one function an operator ------------------------------------------------------------------------------------ */

static void emit_empty(tn__builder *b, const tn__node *node) {
  bool there = tn__node_int(node, "holds", TN__HOLDS_SEQUENCE) == TN__HOLDS_SEQUENCE;
  builtin(b, TN__BUILTIN_LIST_CLEAR, NULL, 0, tn__prog_destination_of(b, node->outputs[0], false),
          tn__exe_emit_const(b->func, there));
}

static void emit_insert(tn__builder *b, const tn__node *node) {
  int at = position(b, node, 2), item = tn__prog_register_of(b, node->inputs[1]), list = take_list(b, node);
  builtin(b, TN__BUILTIN_LIST_INSERT, (int[]){list, item}, 2, list, at);
}

static void emit_erase(tn__builder *b, const tn__node *node) {
  int at = position(b, node, 1), list = take_list(b, node);
  builtin(b, TN__BUILTIN_LIST_ERASE, &list, 1, list, at);
}

static void emit_as(tn__builder *b, const tn__node *node) {
  int from = tn__prog_register_of(b, node->inputs[0]);
  /* Its length is asked for the sake of the failure when there is none. */
  int length = tn__exe_register(b->func, TN_I64, 0, NULL, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
  bool needs_value = node->outputs[0]->holds == TN__HOLDS_SEQUENCE;
  if (needs_value) tn__prog_emit_word(b, TN__OP_ALLOC, length);
  if (needs_value) builtin(b, TN__BUILTIN_LIST_LENGTH, &from, 1, length, -1);
  take_list(b, node);
}

static void emit_at(tn__builder *b, const tn__node *node) {
  int from = tn__prog_register_of(b, node->inputs[0]), at = position(b, node, 1);
  builtin(b, TN__BUILTIN_LIST_AT, &from, 1, tn__prog_destination_of(b, node->outputs[0], false), at);
}

static void emit_join(tn__builder *b, const tn__node *node) {
  int from = tn__prog_register_of(b, node->inputs[0]),
      axis = tn__exe_emit_const(b->func, tn__node_int(node, "axis", 0));
  builtin(b, TN__BUILTIN_LIST_JOIN, &from, 1, tn__prog_destination_of(b, node->outputs[0], false), axis);
}

static void emit_split(tn__builder *b, const tn__node *node) {
  int from = tn__prog_register_of(b, node->inputs[0]),
      axis = tn__exe_emit_const(b->func, tn__node_int(node, "axis", 0));
  const int reads[] = {from, tn__prog_register_of(b, node->inputs[1])};
  builtin(b, TN__BUILTIN_LIST_SPLIT, reads, 2, tn__prog_destination_of(b, node->outputs[0], false), axis);
}

static void emit_length(tn__builder *b, const tn__node *node) {
  int from = tn__prog_register_of(b, node->inputs[0]);
  builtin(b, TN__BUILTIN_LIST_LENGTH, &from, 1, tn__prog_destination_of(b, node->outputs[0], true), -1);
}

static void emit_has(tn__builder *b, const tn__node *node) {
  int from = tn__prog_register_of(b, node->inputs[0]);
  builtin(b, TN__BUILTIN_LIST_PRESENT, &from, 1, tn__prog_destination_of(b, node->outputs[0], true), -1);
}

void tn__prog_emit_list_node(tn__builder *b, const tn__node *node) {
  static const struct {
    const char *op;
    void (*emit)(tn__builder *b, const tn__node *node);
  } rows[] = {
      {"sequence_empty", emit_empty}, {"sequence_insert", emit_insert}, {"sequence_erase", emit_erase},
      {"sequence_as", emit_as},       {"sequence_at", emit_at},         {"sequence_join", emit_join},
      {"sequence_split", emit_split}, {"sequence_length", emit_length}, {"optional_has", emit_has},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (tn__g_is_op(node, rows[i].op)) {
      rows[i].emit(b, node);
      return;
    }
  tn__throwf(b->arena->escape, TN_INTERNAL, "operator %s is for the machine, which does not have it", node->op->name);
}

/* The loop variables of a body that are lists are changed where they are: each gets what the next round begins with. */
void tn__prog_emit_updates(tn__builder *b) {
  const tn__program_function *f = b->function;
  int *from = TN__NEW_ARRAY(b->arena, f->input_count, int);
  for (int i = 0; i < f->input_count; i++) {
    tn__value *next = f->updates ? f->updates[i] : NULL;
    from[i] = -1;
    if (!next || next == f->inputs[i]) continue;
    int reg = tn__prog_register_of(b, next);
    bool own = tn__prog_root_of(b, next)->kind == TN__PLACE_DYNAMIC;
    for (int j = 0; j < i; j++) own = own && from[j] != reg;
    from[i] = reg;
    if (own) continue;
    from[i] = tn__builder_register(b, next, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
    uint32_t words[] = {(uint32_t)from[i], (uint32_t)reg};
    tn__exe_emit(b->func, TN__OP_COPY, words, 2);
  }
  for (int i = 0; i < f->input_count; i++) {
    uint32_t words[] = {(uint32_t)tn__prog_register_of(b, f->inputs[i]), (uint32_t)from[i]};
    if (from[i] >= 0) tn__exe_emit(b->func, TN__OP_MOVE, words, 2);
  }
}
