/* tensorize: a nest that has the structure of an instruction's own declaration becomes that instruction. */
#include <string.h>

#include "schedule/internal.h"

/* ---- the instructions -------------------------------------------------------------------------------------------- */

/* c[i] += sum of widened a[p] * widened b[i, p]: what dot-product instructions compute; c[i, j] += a[i, p] * b[p, j]:
 * what those on matrices do. */
static tn__te *declare_product(tn__ir *ir, const tn__tensor_intrinsic *intrinsic) {
  tn__te *te = tn__te_create(ir, "product");
  const tn__tensor_op op = intrinsic->op;
  const bool matrix = intrinsic->rows > 0;
  const tn__expr *p_extent = tn__ir_index(ir, intrinsic->depth);
  const tn__expr *extents[] = {tn__ir_index(ir, matrix ? intrinsic->rows : intrinsic->columns),
                               tn__ir_index(ir, intrinsic->columns)};
  const tn__expr *a_shape[] = {extents[0], p_extent},
                 *b_shape[] = {matrix ? p_extent : extents[0], matrix ? extents[1] : p_extent};
  const tn__buffer *a =
      tn__te_input(te, "a", tn__ir_tensor_operand_dtype(op, 1), matrix ? 2 : 1, matrix ? a_shape : &p_extent);
  const tn__buffer *b = tn__te_input(te, "b", tn__ir_tensor_operand_dtype(op, 2), 2, b_shape);
  tn__te_axes i = tn__te_axes_create(te, "i", matrix ? 2 : 1, extents), p = tn__te_axes_create(te, "p", 1, &p_extent);
  const tn__expr *a_index[] = {i.index[0], p.index[0]};
  const tn__expr *b_index[] = {matrix ? p.index[0] : i.index[0], matrix ? i.index[1] : p.index[0]};
  tn_dtype wide = tn__ir_tensor_operand_dtype(op, 0);
  const tn__expr *left = tn__ir_cast(ir, wide, tn__ir_load(ir, a, matrix ? a_index : p.index));
  const tn__expr *right = tn__ir_cast(ir, wide, tn__ir_load(ir, b, b_index));
  tn__te_output(te, tn__te_reduce(te, "c", &i, &p, TN__TE_SUM, tn__ir_mul(ir, left, right)));
  return te;
}

static const tn__tensor_intrinsic intrinsics[] = {
    {TN__TENSOR_DPBF16PS, TN__CAN_DPBF16PS, declare_product, 0, 16, 2},
    {TN__TENSOR_DPBUSD, TN__CAN_DPBUSD, declare_product, 0, 16, 4},
    {TN__TENSOR_MMA_F16, TN__CAN_MMA, declare_product, 16, 8, 16},
    {TN__TENSOR_MMA_BF16, TN__CAN_MMA, declare_product, 16, 8, 16},
    {TN__TENSOR_MMA_I8_I8, TN__CAN_MMA, declare_product, 16, 8, 32},
    {TN__TENSOR_MMA_I8_U8, TN__CAN_MMA, declare_product, 16, 8, 32},
    {TN__TENSOR_MMA_U8_I8, TN__CAN_MMA, declare_product, 16, 8, 32},
    {TN__TENSOR_MMA_U8_U8, TN__CAN_MMA, declare_product, 16, 8, 32},
    {TN__TENSOR_MMA_F64, TN__CAN_MMA, declare_product, 8, 8, 4},
};

const tn__tensor_intrinsic *tn__tensor_intrinsic_find(const char *name) {
  int op = tn__ir_tensor_find(name);
  for (size_t i = 0; i < sizeof(intrinsics) / sizeof(intrinsics[0]); i++)
    if ((int)intrinsics[i].op == op) return &intrinsics[i];
  return NULL;
}

const tn__tensor_intrinsic *tn__tensor_intrinsic_product(const tn__target *target, tn_dtype sum, tn_dtype left,
                                                         tn_dtype right) {
  for (size_t i = 0; i < sizeof(intrinsics) / sizeof(intrinsics[0]); i++) {
    const tn__tensor_intrinsic *row = &intrinsics[i];
    if (row->rows > 0 && tn__ir_tensor_operand_dtype(row->op, 0) == sum &&
        tn__ir_tensor_operand_dtype(row->op, 1) == left && tn__ir_tensor_operand_dtype(row->op, 2) == right &&
        tn__target_can(target, row->needs))
      return row;
  }
  return NULL;
}

/* ---- nests ------------------------------------------------------------------------------------------------------- */

enum { MAX_NEST = 4, MAX_OPERANDS = 4 };

typedef struct nest {
  const tn__var *loops[MAX_NEST];
  int64_t extents[MAX_NEST];
  int count;
  const tn__stmt *store; /* the block's body in terms of the loops */
} nest;

/* Takes apart loops around one block; gives why that cannot be done. */
static const char *open_nest(tn__ir *ir, const tn__stmt *s, bool has_init, nest *out) {
  const tn__var *axes[3 * TN__MAX_RANK];
  const tn__expr *bindings[3 * TN__MAX_RANK];
  out->count = 0;
  for (; s->kind == TN__STMT_FOR; s = s->as.loop.body) {
    if (out->count == MAX_NEST) return "there are too many loops";
    if (s->as.loop.kind != TN__LOOP_SERIAL) return "a loop is not serial any more";
    if (!tn__ir_as_int(s->as.loop.var->extent, &out->extents[out->count])) return "a loop has no constant extent";
    out->loops[out->count++] = s->as.loop.var;
  }
  if (s->kind != TN__STMT_BLOCK) return "the loops hold more than one block";
  const tn__block *block = s->as.block;
  if (!tn__ir_is_true(block->predicate)) return "its block is guarded; use factors that divide";
  if (!has_init && block->init != NULL) return "its initialisation is still inside; use decompose_reduction";
  if (block->body->kind != TN__STMT_STORE || block->axis_count > 3 * TN__MAX_RANK) return "its block is not one store";
  for (int i = 0; i < block->axis_count; i++) {
    axes[i] = block->axes[i].var;
    bindings[i] = block->axes[i].binding;
  }
  out->store = tn__stmt_substitute(ir, block->body, axes, bindings, block->axis_count);
  return NULL;
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

typedef struct matching {
  tn__ir *ir;
  const tn__buffer *pattern[MAX_OPERANDS]; /* of the declaration: the result, then its inputs */
  tn__access operand[MAX_OPERANDS];        /* what they were found to be; buffer NULL: not yet */
  int operand_count, loop_count;
  bool any_strides;
  const tn__var *pattern_loops[MAX_NEST], *loops[MAX_NEST]; /* paired */
} matching;

static const tn__expr *flat_index(tn__ir *ir, const tn__access *access) {
  return tn__buffer_flatten(ir, access->buffer, access->indices);
}

/* The same strides along all loops, or along the same ones, and the same first element as elsewhere? */
static bool match_access(matching *m, const tn__access *pattern, const tn__access *access) {
  const tn__expr *want[MAX_NEST], *have[MAX_NEST], *rest, *zeros[MAX_NEST];
  int which = 0;
  while (which < m->operand_count && m->pattern[which] != pattern->buffer) which++;
  if (which == m->operand_count || pattern->buffer->dtype != access->buffer->dtype) return false;
  if (!tn__ir_affine_in(m->ir, flat_index(m->ir, pattern), m->pattern_loops, m->loop_count, want, &rest) ||
      !tn__ir_affine_in(m->ir, flat_index(m->ir, access), m->loops, m->loop_count, have, &rest))
    return false;
  for (int i = 0; i < m->loop_count; i++) {
    if (m->any_strides ? tn__ir_is_int_value(want[i], 0) != tn__ir_is_int_value(have[i], 0) : want[i] != have[i])
      return false;
    zeros[i] = tn__ir_index(m->ir, 0);
  }
  tn__access first = {.buffer = access->buffer};
  const tn__expr **indices = TN__NEW_ARRAY(tn__ir_arena(m->ir), access->buffer->rank, const tn__expr *);
  for (int d = 0; d < access->buffer->rank; d++)
    indices[d] = tn__ir_substitute(m->ir, access->indices[d], m->loops, zeros, m->loop_count);
  first.indices = indices;
  tn__access *known = &m->operand[which];
  for (int d = 0; known->buffer != NULL && d < known->buffer->rank; d++)
    if (known->buffer != first.buffer || known->indices[d] != indices[d]) return false;
  if (known->buffer != NULL && known->buffer != first.buffer) return false;
  *known = first;
  return true;
}

TN_MUST_USE static bool match_expr(matching *m, const tn__expr *pattern, const tn__expr *e) {
  if (pattern->kind != e->kind || pattern->dtype != e->dtype) return false;
  switch (pattern->kind) {
    case TN__EXPR_LOAD: {
      tn__access want = {pattern->value.buffer, pattern->args}, have = {e->value.buffer, e->args};
      return match_access(m, &want, &have);
    }
    case TN__EXPR_INT:
    case TN__EXPR_FLOAT: return pattern == e;
    case TN__EXPR_VAR: return false; /* the value must not depend on where it stands */
    case TN__EXPR_CALL:
      if (pattern->intrinsic != e->intrinsic) return false;
      break;
    case TN__EXPR_ADD:
    case TN__EXPR_MUL: {
      matching before = *m;
      if (match_expr(m, pattern->args[0], e->args[1]) && match_expr(m, pattern->args[1], e->args[0])) return true;
      *m = before;
      break;
    }
    default: break;
  }
  for (int i = 0; i < pattern->arg_count; i++) /* as many as `e` has: the operation is the same */
    if (!match_expr(m, pattern->args[i], e->args[i])) return false;
  return true;
}

/* Pairs the declaration's loops from `at` on with loops of the nest that have their extents, in every way. */
static bool match_loops(matching *m, const nest *pattern, const nest *found, int at, unsigned taken) {
  if (at == pattern->count || at == MAX_NEST) { /* the same: the compiler does not know that count is no more */
    tn__access want = {pattern->store->as.store.buffer, pattern->store->as.store.indices};
    tn__access have = {found->store->as.store.buffer, found->store->as.store.indices};
    memset(m->operand, 0, sizeof(m->operand));
    return match_access(m, &want, &have) && match_expr(m, pattern->store->as.store.value, found->store->as.store.value);
  }
  for (int i = 0; i < found->count; i++) {
    if ((taken >> i & 1) != 0 || found->extents[i] != pattern->extents[at]) continue;
    m->pattern_loops[at] = pattern->loops[at];
    m->loops[at] = found->loops[i];
    if (match_loops(m, pattern, found, at + 1, taken | 1u << i)) return true;
  }
  return false;
}

const tn__stmt *tn__sched_tensor_stmt(tn__schedule *s, const tn__tensor_intrinsic *intrinsic, const tn__stmt *stmt,
                                      const char **why) {
  tn__te *te = intrinsic->declare(s->ir, intrinsic);
  nest pattern, found;
  *why = open_nest(s->ir, stmt, false, &found);
  if (*why != NULL) return NULL;
  *why = open_nest(s->ir, tn__te_lower(te)->body, true, &pattern);
  if (*why != NULL) return NULL;
  matching m = {.ir = s->ir, .loop_count = pattern.count, .operand_count = 1 + tn__te_input_count(te)};
  m.any_strides = intrinsic->rows > 0;
  m.pattern[0] = tn__te_output_at(te, 0);
  for (int i = 1; i < m.operand_count; i++) m.pattern[i] = tn__te_input_at(te, i - 1);
  *why = "the loops have other extents, or compute something else or from elements that lie elsewhere";
  if (found.count != pattern.count || !match_loops(&m, &pattern, &found, 0, 0)) return NULL;
  for (int i = 1; i < m.operand_count; i++)
    if (m.operand[i].buffer == m.operand[0].buffer || (i > 1 && m.operand[i].buffer == m.operand[1].buffer)) {
      *why = i > 1 && m.operand[i].buffer != m.operand[0].buffer ? "both operands are one tensor"
                                                                 : "the result is an operand, too";
      return NULL;
    }
  *why = NULL;
  return tn__ir_tensor_stmt(s->ir, intrinsic->op, m.operand, stmt);
}

/* ---- the primitive ----------------------------------------------------------------------------------------------- */

void tn__sched_tensorize(tn__schedule *s, const char *name, const char *op_name) {
  tn__snode *loop = tn__sched_loop(s, "tensorize", name), *n = loop;
  const tn__tensor_intrinsic *intrinsic = tn__tensor_intrinsic_find(op_name);
  if (intrinsic == NULL) tn__sched_refuse(s, "tensorize of \"%s\": there is no instruction \"%.60s\"", name, op_name);
  if (!tn__target_can(s->target, intrinsic->needs))
    tn__sched_refuse(s, "tensorize of \"%s\": the target %s has no %s", name, s->target->name, op_name);
  for (; !n->is_block; n = n->children.data[0]) {
    tn__sched_check_free(s, "tensorize", n, true);
    if (n->children.count != 1) tn__sched_refuse(s, "tensorize of \"%s\": the loops hold more than one block", name);
  }
  if (n->combiner == NULL || !n->combiner->reorderable)
    tn__sched_refuse(s, "tensorize of \"%s\": block \"%s\" is no reduction that may be reordered", name, n->name);
  const tn__stmt *loops = tn__block_stmt(s->ir, &n->block);
  for (const tn__snode *l = n->parent; l != loop->parent; l = l->parent)
    loops = tn__ir_for(s->ir, l->var, l->kind, loops);
  const char *why;
  if (tn__sched_tensor_stmt(s, intrinsic, loops, &why) == NULL)
    tn__sched_refuse(s, "tensorize of \"%s\" to %s: %s", name, op_name, why);
  loop->tensor = intrinsic;
  const char *names[] = {name, op_name};
  tn__sched_record(s, "tensorize", names, 2, NULL, 0);
}
