/* Control flow in the VM's code. A body is a function: it is called with the operands, and writes into the registers of
 * the node's results, or hands them the memory that it made.
 *
 * An `if` is a jump around two calls. The variables of a `while` live in registers of their own; a round writes the
 * next ones into a second set, which then trade places with the first: nothing is copied from round to round. Variables
 * that the body hands on unchanged stay where they are, and sequences are changed where they are. */
#include <string.h>

#include "program/builder.h"

static bool is_while(const tn__node *node) { return tn__op_has(node, TN__FACT_LOOPS); }

bool tn__prog_needs_own_memory(const tn__node *node) { return is_while(node); }

void tn__prog_share_kept(tn__builder *b, const tn__node *node) {
  for (int k = 0; is_while(node) && k < node->output_count; k++)
    if (tn__prog_while_keeps(node, k))
      tn__place_of(b, node->outputs[k])->root = (int)tn__prog_root_of(b, node->inputs[k])->value->id;
}

static int function_of(const tn__builder *b, const tn__graph *graph) {
  for (int i = 0; i < b->program->function_count; i++)
    if (b->program->functions[i].graph == graph) return i;
  tn__throwf(b->arena->escape, TN_INTERNAL, "graph \"%s\" has no function", tn__graph_name(graph));
}

/* ---- sizes that only running the node tells ---------------------------------------------------------------------- */

static bool is_size_of(const tn__symbol *symbol, const tn__node *node) {
  return symbol->source == TN__SYMBOL_INPUT_DIM && symbol->value->producer == node;
}

/* Scalar registers for them, to be set by read_sizes() when the results are there. */
static void declare_sizes(tn__builder *b, const tn__node *node) {
  for (int i = 0; i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (is_size_of(symbol, node)) tn__scalars_bind(&b->scalars, symbol->var->self, tn__exe_scalar(b->func));
  }
}

static void emit_shape(tn__builder *b, int scalar, int reg, int axis) {
  uint32_t words[] = {(uint32_t)scalar, (uint32_t)reg, (uint32_t)axis};
  tn__exe_emit(b->func, TN__OP_SCALAR_SHAPE, words, 3);
}

/* From the results; before a while's first round, from what its variables start as. */
static void read_sizes(tn__builder *b, const tn__node *node, const int *registers) {
  for (int i = 0; i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (!is_size_of(symbol, node)) continue;
    emit_shape(b, tn__scalars_register(&b->scalars, symbol->var->self), registers[symbol->value->producer_index],
               symbol->index);
  }
}

/* ---- jumps ------------------------------------------------------------------------------------------------------- */

static uint32_t emit_jump_if_zero(tn__builder *b, int scalar) {
  uint32_t words[] = {(uint32_t)scalar, 0};
  return tn__exe_emit(b->func, TN__OP_JUMP_IF_ZERO, words, 2);
}

static uint32_t emit_jump(tn__builder *b, uint32_t to) { return tn__exe_emit(b->func, TN__OP_JUMP, &to, 1); }

static int emit_load(tn__builder *b, int reg, int element) {
  int scalar = tn__exe_scalar(b->func);
  uint32_t words[] = {(uint32_t)scalar, (uint32_t)reg, (uint32_t)element};
  tn__exe_emit(b->func, TN__OP_SCALAR_LOAD, words, 3);
  return scalar;
}

static void emit_two(tn__builder *b, tn__opcode op, int to, int from) {
  uint32_t words[] = {(uint32_t)to, (uint32_t)from};
  tn__exe_emit(b->func, op, words, 2);
}

static void emit_call(tn__builder *b, const tn__graph *body, const int *reads, int read_count, const int *writes,
                      int write_count) {
  int function = tn__exe_function_index(b->funcs[function_of(b, body)]);
  tn__exe_emit_call(b->func, function, reads, read_count, writes, write_count);
}

/* ---- if, call ---------------------------------------------------------------------------------------------------- */

/* An operand as an arm takes it. What is not there already is copied: before the jump where the other arm takes it
 * there, too, else in the arm. */
typedef struct argument {
  int reg, own;
  bool in_arm;
} argument;

/* Registers of all arguments, and the copies that both arms need: the scalars that dimensions are made of are there on
 * both ways. */
static void find_arguments(tn__builder *b, const tn__node *node, int first, argument *const *arms) {
  int arm_count = node->graph_count == 2 ? 2 : 1;
  for (int k = first; k < node->input_count; k++) {
    tn__value *v = node->inputs[k];
    int own = tn__prog_register_of(b, v), home = tn__prog_device_of(b, v), device[2] = {0};
    for (int arm = 0; arm < arm_count; arm++) device[arm] = tn__prog_argument_device(b, node, arm, k - first);
    bool alike = arm_count == 1 || device[0] == device[1];
    for (int arm = 0; arm < arm_count; arm++) {
      argument *a = &arms[arm][k - first];
      *a = (argument){.reg = own, .own = own, .in_arm = device[arm] != home && !alike};
      if (a->in_arm)
        a->reg = tn__prog_variable_on(b, v, device[arm]);
      else if (device[arm] != home)
        a->reg = arm == 0 ? tn__prog_register_on(b, v, device[0]) : arms[0][k - first].reg;
    }
  }
}

static void emit_arm(tn__builder *b, const tn__node *node, int arm, const argument *arguments, int count,
                     const int *writes) {
  int *registers = TN__NEW_ARRAY(b->arena, count, int);
  for (int i = 0; i < count; i++) {
    const argument *a = &arguments[i];
    registers[i] = a->reg;
    if (a->in_arm) tn__prog_emit_word(b, TN__OP_ALLOC, a->reg);
    if (a->in_arm) tn__prog_emit_copy(b, a->reg, a->own);
  }
  emit_call(b, node->graphs[arm], registers, count, writes, node->output_count);
}

static void emit_branches(tn__builder *b, const tn__node *node) {
  bool chooses = node->graph_count == 2;
  int first = chooses ? 1 : 0, count = node->input_count - first;
  int flag = chooses ? tn__prog_register_on(b, node->inputs[0], 0) : -1;
  int *writes = TN__NEW_ARRAY(b->arena, node->output_count, int);
  argument *arms[2] = {TN__NEW_ARRAY(b->arena, count, argument), TN__NEW_ARRAY(b->arena, count, argument)};
  find_arguments(b, node, first, arms);
  int condition = chooses ? emit_load(b, flag, 0) : -1;
  declare_sizes(b, node);
  for (int i = 0; i < node->output_count; i++)
    writes[i] = tn__prog_destination_on(b, node->outputs[i], tn__prog_result_device(b, node, i), false);
  uint32_t to_else = chooses ? emit_jump_if_zero(b, condition) : 0;
  emit_arm(b, node, 0, arms[0], count, writes);
  if (chooses) {
    uint32_t to_end = emit_jump(b, 0);
    tn__exe_patch(b->func, to_else, 1, tn__exe_here(b->func));
    emit_arm(b, node, 1, arms[1], count, writes);
    tn__exe_patch(b->func, to_end, 0, tn__exe_here(b->func));
  }
  read_sizes(b, node, writes);
  for (int i = 0; i < node->output_count; i++)
    tn__prog_send(b, node->outputs[i], tn__prog_result_device(b, node, i), writes[i]);
}

/* ---- while ------------------------------------------------------------------------------------------------------- */

typedef struct loop {
  const tn__node *node;
  int *now;  /* register of each variable */
  int *next; /* what a round makes of it; -1 for those that are kept */
} loop;

/* The symbol of a body that is a size or an element of its input `*k`; NULL when it is of something else. */
static const tn__symbol *symbol_of_input(const tn__graph *body, const tn__expr *var, int *k) {
  for (int i = 0; i < tn__graph_symbol_count(body); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(body, i);
    if (symbol->var != var->value.var) continue;
    for (*k = 0; *k < tn__graph_input_count(body); ++*k)
      if (tn__graph_input_at(body, *k) == symbol->value) return symbol;
  }
  return NULL;
}

static bool is_over_inputs(const tn__graph *body, const tn__expr *e) {
  int k;
  if (e->kind == TN__EXPR_VAR) return symbol_of_input(body, e, &k) != NULL;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_over_inputs(body, e->args[i])) return false;
  return true;
}

bool tn__prog_while_tests_scalars(const tn__node *node) {
  const tn__graph *body = node->graphs[0];
  const tn__value *result = tn__graph_output_at(body, 0);
  return result->elements && tn__graph_check_count(body) == 0 && is_over_inputs(body, result->elements[0]);
}

/* The sizes and elements of variables that an expression of a body is made of, loaded anew. */
static void load_symbols(tn__builder *b, const loop *l, const tn__graph *body, const tn__expr *e, tn__scalars *into) {
  for (int i = 0; e->kind != TN__EXPR_VAR && i < e->arg_count; i++) load_symbols(b, l, body, e->args[i], into);
  if (e->kind != TN__EXPR_VAR || tn__scalars_knows(into, e)) return;
  int k = 0, scalar;
  const tn__symbol *symbol = symbol_of_input(body, e, &k);
  if (!symbol) return;
  if (symbol->source == TN__SYMBOL_ELEMENT) {
    scalar = emit_load(b, l->now[k], symbol->index);
  } else {
    scalar = tn__exe_scalar(b->func);
    emit_shape(b, scalar, l->now[k], symbol->index);
  }
  tn__scalars_bind(into, e, scalar);
}

/* Whether there is another round, as a scalar: computed in place where the condition is integer arithmetic over the
 * variables (a count and a flag, for the most part), else by calling its body. */
static int emit_condition(tn__builder *b, const loop *l) {
  const tn__graph *body = l->node->graphs[0];
  const tn__value *result = tn__graph_output_at(body, 0);
  if (tn__prog_while_tests_scalars(l->node)) {
    const tn__expr *known = result->elements[0];
    tn__scalars scalars; /* of this round: not to be remembered as the function's */
    tn__scalars_init(&scalars, b->arena, b->func);
    load_symbols(b, l, body, known, &scalars);
    return tn__scalars_register(&scalars, known);
  }
  tn__operand one = tn__prog_operand_const(1);
  int flag = tn__exe_register(b->func, TN_BOOL, result->rank, &one, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
  emit_call(b, body, l->now, l->node->input_count, &flag, 1);
  return emit_load(b, flag, 0);
}

static void start_variables(tn__builder *b, loop *l) {
  const tn__node *node = l->node;
  int *operands = TN__NEW_ARRAY(b->arena, node->input_count, int);
  for (int k = 0; k < node->input_count; k++) {
    bool keeps = tn__prog_while_keeps(node, k); /* others are copied in any case */
    operands[k] = keeps ? tn__prog_register_on(b, node->inputs[k], tn__prog_variable_device(b, node, k))
                        : tn__prog_register_of(b, node->inputs[k]);
  }
  declare_sizes(b, node);
  read_sizes(b, node, operands);
  for (int k = 0; k < node->input_count; k++) {
    tn__value *variable = node->outputs[k];
    l->next[k] = -1;
    if (tn__prog_while_keeps(node, k)) {
      l->now[k] = operands[k];
      continue;
    }
    int device = tn__prog_variable_device(b, node, k);
    l->now[k] = tn__prog_destination_on(b, variable, device, true);
    if (variable->holds != TN__HOLDS_TENSOR) { /* the body changes it where it is */
      emit_two(b, tn__prog_list_dies(b, node->inputs[k]) ? TN__OP_MOVE : TN__OP_COPY, l->now[k], operands[k]);
      continue;
    }
    l->next[k] = tn__prog_variable_on(b, variable, device);
    emit_two(b, TN__OP_COPY, l->now[k], operands[k]);
  }
}

static void emit_loop(tn__builder *b, const tn__node *node) {
  loop l = {.node = node,
            .now = TN__NEW_ARRAY(b->arena, node->input_count, int),
            .next = TN__NEW_ARRAY(b->arena, node->input_count, int)};
  start_variables(b, &l);
  uint32_t head = tn__exe_here(b->func);
  uint32_t to_end = emit_jump_if_zero(b, emit_condition(b, &l));
  int *writes = TN__NEW_ARRAY(b->arena, node->input_count, int), count = 0;
  for (int k = 0; k < node->input_count; k++)
    if (l.next[k] >= 0) writes[count++] = l.next[k];
  emit_call(b, node->graphs[1], l.now, node->input_count, writes, count);
  for (int k = 0; k < node->input_count; k++)
    if (l.next[k] >= 0) emit_two(b, TN__OP_MOVE, l.now[k], l.next[k]);
  emit_jump(b, head);
  tn__exe_patch(b->func, to_end, 1, tn__exe_here(b->func));
  read_sizes(b, node, l.now);
  for (int k = 0; k < node->input_count; k++)
    if (l.next[k] >= 0) tn__prog_send(b, node->outputs[k], tn__prog_variable_device(b, node, k), l.now[k]);
}

/* Until the result is there they are what they are when the list is empty, which does not tell them. The prologue must
 * not take that for their value, and ends before a jump. */
static void preset_sizes(tn__builder *b, const tn__node *node) {
  if (b->at == 0) {
    uint32_t jump = emit_jump(b, 0);
    tn__exe_patch(b->func, jump, 0, tn__exe_here(b->func));
  }
  const tn__attr *empty = tn__node_attr(node, "empty");
  for (int i = 0; i < tn__graph_symbol_count(b->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(b->graph, i);
    if (!is_size_of(symbol, node)) continue;
    tn__exe_set_const(b->func, tn__scalars_register(&b->scalars, symbol->var->self),
                      empty == NULL ? 0 : empty->ints[symbol->index]);
  }
}

static void emit_list(tn__builder *b, const tn__node *node) {
  declare_sizes(b, node);
  if (tn__op_has(node, TN__FACT_LATE_SIZES)) preset_sizes(b, node);
  if (!tn__prog_emit_string_node(b, node)) tn__prog_emit_list_node(b, node);
  int result = tn__prog_register_of(b, node->outputs[0]);
  read_sizes(b, node, &result);
}

void tn__prog_emit_node(tn__builder *b, const tn__node *node) {
  if (tn__op_has(node, TN__FACT_COPIES) || tn__node_is_view(node)) /* a view with a step is one to another memory */
    tn__prog_emit_copy(b, tn__prog_destination_of(b, node->outputs[0], true), tn__prog_register_of(b, node->inputs[0]));
  else if (node->op->lowering != TN__LOWER_CONTROL)
    emit_list(b, node);
  else if (is_while(node))
    emit_loop(b, node);
  else
    emit_branches(b, node);
}
