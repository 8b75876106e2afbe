/* Operands that never change, packed beforehand: the declaration is rewritten to read panels of columns, [column /
 * width][the rest][column % width], which the rule of contractions knows, and another one says how to make
 * them. */
#include <string.h>

#include "base/invariant.h"
#include "schedule/internal.h"
#include "te/internal.h"

bool tn__schedule_halves_are_as_fast(const tn__target *target) {
  return target->cpu.machine.core.fma_bytes <= target->cpu.machine.core.fma_ports * target->cpu.vector_bytes / 2;
}

int tn__schedule_pack_width(const tn__target *target, tn_dtype dtype, int64_t columns) {
  tn_dtype wide = dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype;
  int lanes = target->cpu.vector_bytes / (int)tn_dtype_size(wide);
  if (columns <= lanes / 2 && lanes >= 8 && tn__schedule_halves_are_as_fast(target)) return lanes / 2;
  if (columns <= lanes) return lanes;
  /* Two vectors, unless what pads the last panel would be a part of the work that other widths save. */
  const int widths[] = {2 * lanes, 3 * lanes, lanes, 3 * lanes / 2, lanes / 2};
  int count = lanes >= 8 && tn__schedule_halves_are_as_fast(target) ? 5 : 3, best = widths[0];
  for (int i = 1; i < count; i++) {
    int64_t padded = (columns + widths[i] - 1) / widths[i] * widths[i];
    int64_t least = (columns + best - 1) / best * best;
    if (padded * TN__RULE_PADDED_MORE < least * TN__RULE_PADDED_LESS) best = widths[i];
  }
  return best;
}

typedef struct prepacking {
  tn__ir *ir;
  const tn__buffer *from, *to;
  tn__layout layout;
} prepacking;

static _Noreturn void refuse(const tn__te *te, const char *input, const char *why) {
  tn__throwf(te->arena->escape, TN_INVALID_ARGUMENT, "te %s: constant %s: %s", te->name, input, why);
}

static int find_input(const tn__te *te, const char *name) {
  for (int i = 0; i < te->inputs.count; i++)
    if (strcmp(te->inputs.data[i]->name, name) == 0) return i;
  return -1;
}

typedef struct use {
  const tn__buffer *buffer;
  const tn__expr *load; /* the only one */
  int count;
} use;

static void see_load(const tn__expr *e, void *user) {
  use *u = user;
  if (e->kind != TN__EXPR_LOAD || e->value.buffer != u->buffer) return;
  u->load = e;
  u->count++;
}

/* The one sum over products that reads the input, and its load. */
static const tn__te_stage *reader_of(const tn__te *te, const tn__buffer *buffer, const tn__expr **load) {
  const char *one = "packing is for an operand that one sum of products reads, once";
  const tn__te_stage *reader = NULL;
  for (int s = 0; s < te->stages.count; s++) {
    const tn__te_stage *stage = te->stages.data[s];
    for (int r = 0; r < stage->extern_read_count; r++)
      if (stage->extern_reads[r] == buffer) refuse(te, buffer->name, one);
    use u = {.buffer = buffer};
    for (int t = 0; t < stage->tensor_count; t++) {
      if (stage->values[t] != NULL) tn__te_visit(te->ir, stage->values[t], see_load, &u);
      if (stage->first[t] != NULL) tn__te_visit(te->ir, stage->first[t], see_load, &u);
    }
    if (u.count == 0) continue;
    const tn__expr *value = stage->values[0];
    if (u.count > 1 || reader != NULL || stage->kind != TN__TE_REDUCE || stage->axes.count == 0 || value == NULL ||
        value->kind != TN__EXPR_MUL)
      refuse(te, buffer->name, one);
    reader = stage;
    *load = u.load;
  }
  if (reader == NULL) refuse(te, buffer->name, "nothing reads it");
  return reader;
}

/* The dimension of the operand that runs with the columns, the last axis of the result. */
static int column_dim(const tn__te *te, const tn__te_stage *stage, const tn__expr *load) {
  const tn__var *column = stage->axes.var[stage->axes.count - 1];
  int dim = -1, uses = 0;
  for (int d = 0; d < load->arg_count; d++) {
    uses += tn__expr_uses_var(load->args[d], column);
    if (load->args[d] == column->self) dim = d;
  }
  if (dim < 0 || uses != 1)
    refuse(
        te, load->value.buffer->name,
        tn__arena_printf(te->arena, "packing is for the operand that the last axis of the result (%s) is an index of",
                         column->name));
  return dim;
}

bool tn__schedule_operand_layout(const tn__target *target, const tn__operand_use *operand, tn__layout *out) {
  if (operand->rank >= TN__MAX_RANK) return false;
  *out = tn__layout_panels(operand, tn__schedule_pack_width(target, operand->dtype, operand->columns));
  return true;
}

static const tn__expr *read_packed(tn__ir *ir, const tn__expr *e, void *user) {
  const prepacking *p = user;
  const tn__expr *indices[TN__MAX_RANK];
  if (e->kind != TN__EXPR_LOAD || e->value.buffer != p->from) return NULL;
  tn__layout_map(ir, &p->layout, e->args, indices);
  return tn__ir_load(ir, p->to, indices);
}

tn__te *tn__sched_te_prepack(const tn__te *te, const char *input, const tn__target *target, tn__te **packing) {
  tn__te *packed = tn__te_copy(te, te->ir);
  int index = find_input(packed, input);
  if (index < 0) refuse(te, input, "there is no such input");
  const tn__buffer *from = packed->inputs.data[index];
  int64_t size;
  for (int d = 0; d < from->rank; d++)
    if (!tn__ir_as_int(from->shape[d], &size))
      refuse(te, input, tn__arena_printf(te->arena, "dimension %d is open; fix it", d));
  for (int d = 0; from->strides != NULL && d < from->rank; d++)
    if (!tn__ir_as_int(from->strides[d], &size))
      refuse(te, input, tn__arena_printf(te->arena, "the stride of dimension %d is open; fix it", d));
  const tn__expr *load = NULL;
  const tn__te_stage *stage = reader_of(packed, from, &load);
  TN__INVARIANT(load != NULL);
  int dim = column_dim(packed, stage, load);
  tn__operand_use operand = {.dtype = from->dtype, .rank = from->rank, .columns = tn__ir_int_or(from->shape[dim], 0)};
  for (int d = 0, next = 0; d < from->rank; d++)
    if (d != dim) operand.order[next++] = d;
  operand.order[from->rank - 1] = dim;
  prepacking p = {.ir = te->ir, .from = from};
  if (!tn__schedule_operand_layout(target, &operand, &p.layout))
    refuse(te, input, "it has too many dimensions for one more");
  const tn__expr *shape[TN__MAX_RANK];
  tn__layout_shape(te->ir, &p.layout, from->shape, shape);
  p.to = tn__buffer_create(te->ir, tn__arena_printf(te->arena, "%s.packed", input), from->dtype, from->scope,
                           p.layout.rank, shape);
  packed->inputs.data[index] = p.to;
  for (int s = 0; s < packed->stages.count; s++)
    if (packed->stages.data[s] == stage)
      packed->stages.data[s]->values[0] = tn__expr_rewrite(te->ir, stage->values[0], read_packed, &p);
  *packing = tn__sched_layout_packing(te->ir, tn__te_name(te), from, &p.layout);
  return packed;
}
