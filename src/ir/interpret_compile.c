/* From statements to register code.
 *
 * Every open loop, condition and let has a region, a list of instructions of its own that is spliced into the one
 * outside when it closes. While it is open, code appended to an outer region lands in front of it: a pure expression
 * goes to the outermost region that knows its variables, which is loop-invariant code motion for free. Values are
 * remembered by node: pure ones as long as their region is open, those that read memory until the next store. */
#include <string.h>

#include "ir/bytecode.h"
#include "ir/context.h"
#include "ir/threads.h"

typedef TN__VEC(tn__insn) insn_vec;

typedef struct region {
  insn_vec code;
  uint64_t instance;
} region;

typedef struct known_value {
  int32_t reg;
  int32_t region;
  uint64_t instance;   /* of the region; 0: nothing known */
  uint64_t generation; /* of memory; 0: does not depend on it */
} known_value;

typedef struct binding {
  const void *entity; /* variable or buffer */
  int32_t where;      /* register or place in the buffer table */
  int32_t region;     /* of a variable */
} binding;

typedef struct compiler {
  tn__ir *ir;
  tn__arena *arena;
  bool wide;
  TN__VEC(region) regions; /* the open ones */
  TN__VEC(tn__scalar) initial;
  TN__VEC(int32_t) operands;
  TN__VEC(tn__code_buffer) buffers;
  TN__VEC(binding) bindings; /* in scope, innermost last */
  known_value *known;        /* by node number * 2 + wide */
  uint8_t *safety;           /* by node number: 1 may be computed anywhere, 2 not */
  uint32_t known_capacity;
  uint64_t next_instance, generation;
  int forks;                  /* loops over blocks and threads around the statement */
  const tn__block *reduction; /* whose body is compiled with wide accumulation */
} compiler;

static int32_t compile(compiler *c, const tn__expr *e, bool wide);
static void compile_stmt(compiler *c, const tn__stmt *s);

/* ---- regions and registers --------------------------------------------------------------------------------------- */

static int32_t new_register(compiler *c) {
  tn__scalar zero = {.i = 0};
  tn__vec_push(c->arena, &c->initial, zero);
  return c->initial.count - 1;
}

static void open_region(compiler *c) {
  region r = {.instance = ++c->next_instance};
  tn__vec_push(c->arena, &c->regions, r);
}

static insn_vec close_region(compiler *c) { return c->regions.data[--c->regions.count].code; }

static int32_t innermost(const compiler *c) { return c->regions.count - 1; }

static void emit_in(compiler *c, int32_t where, tn__insn insn) {
  tn__vec_push(c->arena, &c->regions.data[where].code, insn);
}

static void emit(compiler *c, tn__insn insn) { emit_in(c, innermost(c), insn); }

static void splice(compiler *c, insn_vec code) {
  for (int i = 0; i < code.count; i++) emit(c, code.data[i]);
}

static void memory_changes(compiler *c) { c->generation++; }

/* ---- scope ------------------------------------------------------------------------------------------------------- */

static void bind(compiler *c, const void *entity, int32_t where) {
  binding b = {.entity = entity, .where = where, .region = innermost(c)};
  tn__vec_push(c->arena, &c->bindings, b);
}

static const binding *find(const compiler *c, const void *entity) {
  for (int i = c->bindings.count - 1; i >= 0; i--)
    if (c->bindings.data[i].entity == entity) return &c->bindings.data[i];
  return NULL;
}

static const binding *find_var(compiler *c, const tn__var *var) {
  const binding *b = find(c, var);
  if (b == NULL) tn__throwf(c->arena->escape, TN_INVALID_ARGUMENT, "variable %s is not bound", var->name);
  return b;
}

static int32_t buffer_place(compiler *c, const tn__buffer *buffer) {
  const binding *b = find(c, buffer);
  if (b == NULL)
    tn__throwf(c->arena->escape, TN_INVALID_ARGUMENT, "buffer %s is neither a parameter nor allocated", buffer->name);
  return b->where;
}

/* ---- purity ------------------------------------------------------------------------------------------------------ */

static void reserve_known(compiler *c, uint32_t number) {
  if (number < c->known_capacity) return;
  uint32_t capacity = number < 512 ? 1024 : number * 2;
  known_value *known = TN__NEW_ARRAY(c->arena, capacity * 2, known_value);
  uint8_t *safety = TN__NEW_ARRAY(c->arena, capacity, uint8_t);
  if (c->known_capacity > 0) {
    memcpy(known, c->known, (size_t)c->known_capacity * 2 * sizeof(*known));
    memcpy(safety, c->safety, c->known_capacity);
  }
  c->known = known;
  c->safety = safety;
  c->known_capacity = capacity;
}

/* Can it neither fail nor depend on memory? Then it may be computed where its value is not needed. */
static bool is_safe(compiler *c, const tn__expr *e) {
  uint32_t number = tn__node_of(e)->number;
  reserve_known(c, number);
  if (c->safety[number] != 0) return c->safety[number] == 1;
  bool safe = !tn__expr_has_load(e);
  if ((e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && !tn__dtype_is_float(e->dtype)) {
    tn__interval divisor = tn__interval_of(c->ir, e->args[1]);
    safe = safe && (divisor.min > 0 || divisor.max < 0);
  }
  for (int i = 0; i < e->arg_count && safe; i++) safe = is_safe(c, e->args[i]);
  c->safety[number] = safe ? 1 : 2;
  return safe;
}

/* The outermost region in which all variables of `e` have their values. */
static int32_t home_of(compiler *c, const tn__expr *e) {
  const tn__id_set *vars = tn__node_of(e)->vars;
  int32_t home = 0;
  for (int i = c->bindings.count - 1; i >= 0 && vars != NULL; i--) {
    const binding *b = &c->bindings.data[i];
    if (b->region <= home) continue; /* buffers have -1 */
    const tn__var *var = b->entity;
    for (int j = 0; j < vars->count; j++) {
      if (vars->ids[j] == var->id && find(c, var) == b) home = b->region;
    }
  }
  return home;
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static bool is_narrow_float(tn_dtype dtype) { return dtype == TN_F32 || dtype == TN_F16 || dtype == TN_BF16; }

/* Does the value carry the accumulator of the reduction being compiled? */
static bool carries_accumulator(const compiler *c, const tn__expr *e) {
  if (c->reduction == NULL || !tn__dtype_is_float(e->dtype)) return false;
  for (int i = 0; i < c->reduction->write_count; i++)
    if (tn__expr_uses_buffer(e, c->reduction->writes[i].buffer)) return true;
  return false;
}

static uint16_t binary_op(tn__expr_kind kind, tn_dtype dtype) {
  if (kind >= TN__EXPR_EQ && kind <= TN__EXPR_LE) {
    if (tn__dtype_is_float(dtype)) return (uint16_t)(TN__OP_EQ_F + (kind - TN__EXPR_EQ));
    return dtype == TN_U64 ? TN__OP_BINARY : (uint16_t)(TN__OP_EQ_I64 + (kind - TN__EXPR_EQ));
  }
  if ((kind == TN__EXPR_AND || kind == TN__EXPR_OR) && (dtype == TN_I64 || dtype == TN_BOOL))
    return kind == TN__EXPR_AND ? TN__OP_AND_I64 : TN__OP_OR_I64;
  if (dtype == TN_I64 && kind <= TN__EXPR_MAX) return (uint16_t)(TN__OP_ADD_I64 + (kind - TN__EXPR_ADD));
  if (dtype == TN_F64 && kind <= TN__EXPR_DIV) return (uint16_t)(TN__OP_ADD_F64 + (kind - TN__EXPR_ADD));
  if (dtype == TN_F32 && kind <= TN__EXPR_DIV) return (uint16_t)(TN__OP_ADD_F32 + (kind - TN__EXPR_ADD));
  return TN__OP_BINARY;
}

static void emit_jump(compiler *c, uint16_t op, int32_t a, int32_t distance) {
  emit(c, (tn__insn){.op = op, .a = a, .imm = distance});
}

/* dst = condition ? a : b, evaluating one side. */
static void compile_choice(compiler *c, int32_t dst, int32_t condition, const tn__expr *a, const tn__expr *b,
                           bool wide) {
  open_region(c);
  emit(c, (tn__insn){.op = TN__OP_MOVE, .dst = dst, .a = compile(c, a, wide)});
  insn_vec first = close_region(c);
  open_region(c);
  emit(c, (tn__insn){.op = TN__OP_MOVE, .dst = dst, .a = compile(c, b, wide)});
  insn_vec second = close_region(c);
  emit_jump(c, TN__OP_JUMP_UNLESS, condition, first.count + 2);
  splice(c, first);
  emit_jump(c, TN__OP_JUMP, 0, second.count + 1);
  splice(c, second);
}

static int32_t push_indices(compiler *c, const tn__expr *const *indices, int rank) {
  int32_t few[8], *regs = rank <= 8 ? few : TN__NEW_ARRAY(c->arena, rank, int32_t);
  for (int i = 0; i < rank; i++) regs[i] = compile(c, indices[i], false);
  int32_t start = c->operands.count;
  for (int i = 0; i < rank; i++) tn__vec_push(c->arena, &c->operands, regs[i]);
  return start;
}

/* An access that other blocks or threads may have a part in. */
static void watch(compiler *c, int32_t place, int32_t indices, bool writes) {
  if (c->buffers.data[place].forks < c->forks)
    emit(c, (tn__insn){.op = TN__OP_WATCH, .a = place, .b = indices, .imm = writes});
}

static void compile_load(compiler *c, int32_t dst, const tn__expr *e, bool wide) {
  int32_t place = buffer_place(c, e->value.buffer);
  uint16_t op = e->dtype == TN_F32 ? TN__OP_LOAD_F32 : e->dtype == TN_I64 ? TN__OP_LOAD_I64 : TN__OP_LOAD;
  tn_dtype dtype = e->dtype;
  if (c->buffers.data[place].wide) {
    op = TN__OP_LOAD_WIDE;
    if (wide) dtype = TN_F64;
  }
  int32_t start = push_indices(c, e->args, e->arg_count);
  watch(c, place, start, false);
  emit(c, (tn__insn){.op = op, .dtype = (uint16_t)dtype, .dst = dst, .a = place, .b = start});
}

static int32_t compile_arg(compiler *c, const tn__expr *e, const tn__expr *parent, bool wide) {
  /* A product that is added to the accumulator is not rounded either, as a fused multiply-add does not. */
  bool product = e->kind == TN__EXPR_MUL && (parent->kind == TN__EXPR_ADD || parent->kind == TN__EXPR_SUB);
  if (parent->kind == TN__EXPR_BITCAST) return compile(c, e, false);
  return compile(c, e, wide && (carries_accumulator(c, e) || (product && tn__dtype_is_float(e->dtype))));
}

static void compile_op(compiler *c, int32_t where, int32_t dst, const tn__expr *e, bool wide) {
  tn_dtype dtype = e->arg_count > 0 ? e->args[0]->dtype : e->dtype;
  int32_t regs[3] = {0, 0, 0};
  for (int i = 0; i < e->arg_count; i++) regs[i] = compile_arg(c, e->args[i], e, wide);
  if (wide && is_narrow_float(dtype) && e->kind != TN__EXPR_BITCAST) dtype = TN_F64;
  tn__insn insn = {.dtype = (uint16_t)dtype, .dst = dst, .a = regs[0], .b = regs[1], .c = regs[2]};
  switch (e->kind) {
    case TN__EXPR_NOT: insn.op = TN__OP_NOT; break;
    case TN__EXPR_SELECT: insn.op = TN__OP_SELECT; break;
    case TN__EXPR_CAST:
    case TN__EXPR_BITCAST:
      insn.op = e->kind == TN__EXPR_CAST ? TN__OP_CAST : TN__OP_BITCAST;
      insn.dtype = (uint16_t)(wide && is_narrow_float(e->dtype) ? TN_F64 : e->dtype);
      insn.imm = (int32_t)dtype;
      break;
    case TN__EXPR_CALL:
      insn.op = e->intrinsic == TN__CALL_LIKELY ? TN__OP_MOVE : TN__OP_CALL;
      insn.imm = (int32_t)e->intrinsic;
      break;
    default:
      insn.op = binary_op(e->kind, dtype);
      insn.imm = (int32_t)e->kind;
      break;
  }
  emit_in(c, where, insn);
}

static bool is_lazy(compiler *c, const tn__expr *e) {
  if (e->kind == TN__EXPR_SELECT) return !is_safe(c, e->args[1]) || !is_safe(c, e->args[2]);
  bool logical = (e->kind == TN__EXPR_AND || e->kind == TN__EXPR_OR) && e->dtype == TN_BOOL;
  return logical && !is_safe(c, e->args[1]);
}

static void compile_lazy(compiler *c, int32_t dst, const tn__expr *e, bool wide) {
  int32_t condition = compile(c, e->args[0], false);
  if (e->kind == TN__EXPR_SELECT)
    compile_choice(c, dst, condition, e->args[1], e->args[2], wide);
  else if (e->kind == TN__EXPR_AND)
    compile_choice(c, dst, condition, e->args[1], tn__ir_bool(c->ir, false), false);
  else
    compile_choice(c, dst, condition, tn__ir_bool(c->ir, true), e->args[1], false);
}

static int32_t compile(compiler *c, const tn__expr *e, bool wide) {
  if (e->kind == TN__EXPR_VAR) return find_var(c, e->value.var)->where;
  uint32_t number = tn__node_of(e)->number;
  reserve_known(c, number);
  known_value *k = &c->known[number * 2 + wide];
  bool open = k->instance != 0 && k->region < c->regions.count && c->regions.data[k->region].instance == k->instance;
  if (open && (k->generation == 0 || k->generation == c->generation)) return k->reg;
  int32_t reg = new_register(c);
  bool safe = is_safe(c, e);
  int32_t where = safe ? home_of(c, e) : innermost(c);
  if (e->kind == TN__EXPR_INT)
    c->initial.data[reg].i = e->value.i;
  else if (e->kind == TN__EXPR_FLOAT)
    c->initial.data[reg].f = e->value.f;
  else if (e->kind == TN__EXPR_LOAD)
    compile_load(c, reg, e, wide);
  else if (is_lazy(c, e))
    compile_lazy(c, reg, e, wide);
  else
    compile_op(c, where, reg, e, wide);
  /* The table may have grown below. */
  c->known[number * 2 + wide] = (known_value){
      .reg = reg, .region = where, .instance = c->regions.data[where].instance, .generation = safe ? 0 : c->generation};
  return reg;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static void compile_store(compiler *c, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.store.buffer;
  int32_t place = buffer_place(c, buffer);
  bool wide_buffer = c->buffers.data[place].wide;
  int32_t value = compile(c, s->as.store.value, wide_buffer && carries_accumulator(c, s->as.store.value));
  int32_t start = push_indices(c, s->as.store.indices, buffer->rank);
  uint16_t op = wide_buffer               ? TN__OP_STORE_WIDE
                : buffer->dtype == TN_F32 ? TN__OP_STORE_F32
                : buffer->dtype == TN_I64 ? TN__OP_STORE_I64
                                          : TN__OP_STORE;
  watch(c, place, start, true);
  emit(c, (tn__insn){.op = op, .dtype = (uint16_t)buffer->dtype, .a = place, .b = start, .c = value});
  memory_changes(c);
}

static void compile_if(compiler *c, const tn__expr *condition, const tn__stmt *then_body, const tn__stmt *else_body);

/* Is the variable for terms of the block's sums alone? */
static bool counts_terms(const tn__block *block, const tn__var *var) {
  bool found = false;
  for (int i = 0; i < block->axis_count; i++) {
    if (!tn__expr_uses_var(block->axes[i].binding, var)) continue;
    if (block->axes[i].kind != TN__AXIS_REDUCE) return false;
    found = true;
  }
  return found;
}

/* A block starts its sums with their first term. Sums without terms are started by the loop that has no iterations. */
static void compile_empty_sums(compiler *c, const tn__stmt *loop) {
  int64_t extent;
  const tn__stmt *inner = loop;
  if (tn__ir_as_int(loop->as.loop.var->extent, &extent) && extent > 0) return;
  while (inner->kind == TN__STMT_FOR) inner = inner->as.loop.body;
  const tn__block *block = inner->kind == TN__STMT_BLOCK ? inner->as.block : NULL;
  if (block == NULL || block->init == NULL || !tn__ir_is_true(block->predicate)) return;
  for (const tn__stmt *s = loop; s != inner; s = s->as.loop.body)
    if (!counts_terms(block, s->as.loop.var)) return;
  const tn__var **axes = TN__NEW_ARRAY(c->arena, block->axis_count, const tn__var *);
  const tn__expr **bindings = TN__NEW_ARRAY(c->arena, block->axis_count, const tn__expr *);
  for (int i = 0; i < block->axis_count; i++) axes[i] = block->axes[i].var, bindings[i] = block->axes[i].binding;
  compile_if(c, tn__ir_le(c->ir, loop->as.loop.var->extent, tn__ir_index(c->ir, 0)),
             tn__stmt_substitute(c->ir, block->init, axes, bindings, block->axis_count), NULL);
}

static void compile_for(compiler *c, const tn__stmt *s) {
  const tn__var *var = s->as.loop.var;
  compile_empty_sums(c, s);
  int32_t min = compile(c, var->min, false), extent = compile(c, var->extent, false);
  int32_t reg = new_register(c), end = new_register(c), forker = 0, number = 0;
  int bound = c->bindings.count;
  bool forks = tn__ir_loop_is_bound(s->as.loop.kind);
  memory_changes(c);
  if (forks) {
    forker = new_register(c), number = new_register(c);
    emit(c, (tn__insn){.op = TN__OP_FORK, .a = forker, .dst = number});
  }
  c->forks += forks;
  open_region(c);
  bind(c, var, reg);
  if (forks)
    emit(c, (tn__insn){.op = TN__OP_STRAND, .a = forker, .b = number, .c = reg, .imm = (int32_t)s->as.loop.kind});
  compile_stmt(c, s->as.loop.body);
  c->bindings.count = bound;
  c->forks -= forks;
  insn_vec body = close_region(c);
  memory_changes(c);
  emit(c, (tn__insn){.op = TN__OP_LOOP, .dst = end, .a = reg, .b = min, .c = extent, .imm = body.count + 2});
  splice(c, body);
  emit(c, (tn__insn){.op = TN__OP_NEXT, .a = reg, .b = end, .c = body.count + 1, .imm = -body.count});
  if (forks) emit(c, (tn__insn){.op = TN__OP_JOIN, .a = forker});
}

static insn_vec compile_branch(compiler *c, const tn__stmt *s) {
  open_region(c);
  compile_stmt(c, s);
  return close_region(c);
}

static void compile_if(compiler *c, const tn__expr *condition, const tn__stmt *then_body, const tn__stmt *else_body) {
  int32_t reg = compile(c, condition, false);
  uint64_t before = c->generation;
  insn_vec first = compile_branch(c, then_body);
  /* What was known before the first side holds at the start of the second, even if the first wrote to memory. */
  uint64_t after = c->generation;
  c->generation = before;
  insn_vec second = {0};
  if (else_body != NULL) second = compile_branch(c, else_body);
  bool writes = after != before || c->generation != before;
  if (after > c->generation) c->generation = after;
  if (writes) memory_changes(c);
  emit_jump(c, TN__OP_JUMP_UNLESS, reg, first.count + (else_body != NULL) + 1);
  splice(c, first);
  if (else_body != NULL) emit_jump(c, TN__OP_JUMP, 0, second.count + 1);
  splice(c, second);
}

static void compile_while(compiler *c, const tn__stmt *s) {
  memory_changes(c);
  open_region(c);
  int32_t condition = compile(c, s->as.repeat.condition, false);
  insn_vec body = compile_branch(c, s->as.repeat.body);
  emit_jump(c, TN__OP_JUMP_UNLESS, condition, body.count + 2);
  splice(c, body);
  int32_t back = -c->regions.data[innermost(c)].code.count;
  emit_jump(c, TN__OP_JUMP, 0, back);
  splice(c, close_region(c));
  memory_changes(c);
}

static void compile_shape(compiler *c, uint16_t op, const tn__buffer *buffer, int32_t place) {
  int32_t start = push_indices(c, buffer->shape, buffer->rank);
  emit(c, (tn__insn){.op = op, .a = place, .b = start});
}

static int32_t add_buffer(compiler *c, const tn__buffer *buffer, bool wide) {
  tn__code_buffer b = {.buffer = buffer, .wide = wide, .forks = c->forks};
  tn__vec_push(c->arena, &c->buffers, b);
  binding scope = {.entity = buffer, .where = c->buffers.count - 1, .region = -1};
  tn__vec_push(c->arena, &c->bindings, scope);
  return c->buffers.count - 1;
}

typedef struct accumulator_search {
  const tn__buffer *buffer;
  bool found;
} accumulator_search;

static bool search_accumulator(const tn__stmt *s, void *user) {
  accumulator_search *a = user;
  if (s->kind != TN__STMT_BLOCK) return true;
  bool reduces = false;
  for (int i = 0; i < s->as.block->axis_count; i++) reduces |= s->as.block->axes[i].kind == TN__AXIS_REDUCE;
  for (int i = 0; i < s->as.block->write_count && reduces; i++)
    if (s->as.block->writes[i].buffer == a->buffer) a->found = true;
  return true;
}

/* Is the buffer the accumulator of a reduction in `s`? */
static bool needs_wide(const compiler *c, const tn__buffer *buffer, const tn__stmt *s) {
  accumulator_search a = {.buffer = buffer};
  if (c->wide && is_narrow_float(buffer->dtype)) tn__stmt_walk(s, search_accumulator, &a);
  return a.found;
}

static void compile_alloc(compiler *c, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.alloc.buffer;
  int bound = c->bindings.count;
  int32_t place = add_buffer(c, buffer, needs_wide(c, buffer, s->as.alloc.body));
  compile_shape(c, TN__OP_ALLOC, buffer, place);
  memory_changes(c);
  compile_stmt(c, s->as.alloc.body);
  memory_changes(c); /* another allocation of the same buffer must not see its values */
  c->bindings.count = bound;
}

static void compile_let(compiler *c, const tn__stmt *s) {
  int32_t value = compile(c, s->as.let.value, false);
  int bound = c->bindings.count;
  open_region(c);
  bind(c, s->as.let.var, value);
  compile_stmt(c, s->as.let.body);
  c->bindings.count = bound;
  splice(c, close_region(c));
}

static void compile_block(compiler *c, const tn__stmt *s) {
  const tn__block *block = s->as.block;
  const tn__var **axes = TN__NEW_ARRAY(c->arena, block->axis_count, const tn__var *);
  const tn__expr **bindings = TN__NEW_ARRAY(c->arena, block->axis_count, const tn__expr *);
  const tn__expr *first = tn__ir_bool(c->ir, true);
  bool reduces = false;
  for (int i = 0; i < block->axis_count; i++) {
    axes[i] = block->axes[i].var;
    bindings[i] = block->axes[i].binding;
    if (block->axes[i].kind != TN__AXIS_REDUCE) continue;
    reduces = true;
    first = tn__ir_and(c->ir, first, tn__ir_eq(c->ir, bindings[i], axes[i]->min));
  }
  const tn__stmt *body = tn__stmt_substitute(c->ir, block->body, axes, bindings, block->axis_count);
  if (!tn__ir_is_true(block->predicate)) {
    tn__block inner = *block;
    inner.predicate = tn__ir_bool(c->ir, true);
    compile_if(c, block->predicate, tn__block_stmt(c->ir, &inner), NULL);
    return;
  }
  if (block->init != NULL)
    compile_if(c, first, tn__stmt_substitute(c->ir, block->init, axes, bindings, block->axis_count), NULL);
  const tn__block *outside = c->reduction;
  if (c->wide && reduces) c->reduction = block;
  compile_stmt(c, body);
  c->reduction = outside;
}

static void compile_stmt(compiler *c, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR: compile_for(c, s); break;
    case TN__STMT_STORE: compile_store(c, s); break;
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++) compile_stmt(c, s->as.seq.items[i]);
      break;
    case TN__STMT_IF: compile_if(c, s->as.branch.condition, s->as.branch.then_body, s->as.branch.else_body); break;
    case TN__STMT_LET: compile_let(c, s); break;
    case TN__STMT_ALLOC: compile_alloc(c, s); break;
    case TN__STMT_WHILE: compile_while(c, s); break;
    case TN__STMT_FAIL: emit(c, (tn__insn){.op = TN__OP_FAIL, .imm = s->as.fail.code}); break;
    case TN__STMT_PREFETCH:
    case TN__STMT_BARRIER: break; /* a barrier: split_at_barriers leaves none */
    case TN__STMT_TENSOR: compile_stmt(c, s->as.tensor.body); break;
    case TN__STMT_BLOCK: compile_block(c, s); break;
  }
}

tn__code tn__ir_bytecode_compile(tn__ir *ir, tn__arena *arena, const tn__func *func, bool wide) {
  compiler c = {.ir = ir, .arena = arena, .wide = wide, .generation = 1};
  func = tn__ir_split_at_barriers(ir, func);
  open_region(&c);
  tn__vec_push(arena, &c.operands, 0); /* there is a list, even if nothing has an index */
  int32_t *scalars = TN__NEW_ARRAY(arena, func->scalar_count, int32_t);
  for (int i = 0; i < func->scalar_count; i++) {
    scalars[i] = new_register(&c);
    bind(&c, func->scalars[i], scalars[i]);
  }
  for (int i = 0; i < func->input_count + func->output_count; i++)
    compile_shape(&c, TN__OP_SHAPE, func->params[i],
                  add_buffer(&c, func->params[i], needs_wide(&c, func->params[i], func->body)));
  compile_stmt(&c, func->body);
  emit(&c, (tn__insn){.op = TN__OP_END});
  insn_vec code = close_region(&c);
  return (tn__code){.insns = code.data,
                    .operands = c.operands.data,
                    .initial = c.initial.data,
                    .scalar_registers = scalars,
                    .buffers = c.buffers.data,
                    .insn_count = code.count,
                    .register_count = c.initial.count,
                    .buffer_count = c.buffers.count};
}
