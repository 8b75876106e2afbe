/* Kernels of <tenon/te.h> as an executable of the virtual machine, one function each, to be run in this process. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "codegen/backend.h"
#include "declarations/handle.h"
#include "driver/module.h"
#include "ir/passes.h"
#include "program/scalars.h"

typedef struct job {
  tn_schedule *const *schedules;
  int count;
  const tn_allocator *allocator;
  tn_module *module;
} job;

typedef struct emitter {
  tn__arena *arena;
  tn__exe_func *func;
  tn__scalars scalars;
  tn__ir *ir;
  const tn__te *te;
  const tn__func *func_of_te; /* its inputs may be packed ones */
} emitter;

/* Evaluates an expression over dimensions, for messages. */
static const char *value_of(emitter *e, const tn__expr *expr) {
  int64_t n;
  if (tn__ir_as_int(expr, &n)) return tn__arena_printf(e->arena, "%lld", (long long)n);
  return tn__arena_printf(e->arena, "%c%d%c", TN__SCALAR_MARK, tn__scalars_register(&e->scalars, expr),
                          TN__SCALAR_MARK);
}

/* Lists the dimensions in an expression with their values: "M is 3, N is 4". */
static const char *values_in(emitter *e, const tn__expr *condition) {
  const char *text = "";
  for (int i = 0; i < tn__te_dim_count(e->te); i++) {
    const tn__var *dim = tn__te_dim_at(e->te, i);
    if (!tn__expr_uses_var(condition, dim)) continue;
    text = tn__arena_printf(e->arena, "%s%s%s is %s", text, text[0] != '\0' ? ", " : "", dim->name,
                            value_of(e, dim->self));
  }
  return text;
}

static const char *message_of(emitter *e, const tn__expr *condition, const tn__te_about *about) {
  const char *kernel = tn__te_name(e->te), *values = values_in(e, condition);
  if (about->tensor == NULL)
    return tn__arena_printf(e->arena, "cannot call %s: its dimensions do not fit each other: %s", kernel, values);
  const char *name = about->tensor->name, *size = value_of(e, about->tensor->shape[about->dim]);
  if (about->index == NULL)
    return tn__arena_printf(e->arena, "cannot call %s: dimension %d of \"%s\" would be %s, and must be at least 1: %s",
                            kernel, about->dim, name, size, values);
  return tn__arena_printf(e->arena,
                          "cannot call %s: it reads \"%s\" at index %s of dimension %d, which is %s: %s; pass tensors "
                          "whose dimensions fit",
                          kernel, name, value_of(e, about->index), about->dim, size, values);
}

static void check(emitter *e, const tn__expr *condition, const tn__te_about *about) {
  if (tn__ir_is_true(condition)) return;
  tn__exe_emit_assert(e->func, tn__scalars_register(&e->scalars, condition), message_of(e, condition, about));
}

/* Dimensions are symbols of the first input that has them by themselves; a shape such as 2*N gets a symbol of its own,
 * which must be equal. */
static void bind_dims(emitter *e) {
  for (int i = 0; i < tn__te_input_count(e->te); i++) {
    const tn__buffer *b = e->func_of_te->params[i];
    for (int d = 0; d < b->rank; d++)
      if (b->shape[d]->kind == TN__EXPR_VAR && !tn__scalars_knows(&e->scalars, b->shape[d]))
        tn__scalars_bind(&e->scalars, b->shape[d], tn__exe_symbol(e->func, b->shape[d]->value.var->name));
  }
  for (int i = 0; i < tn__te_dim_count(e->te); i++) {
    const tn__var *dim = tn__te_dim_at(e->te, i);
    if (!tn__scalars_knows(&e->scalars, dim->self))
      tn__throwf(e->arena->escape, TN_UNSUPPORTED, "%s: the dimension %s follows from no input's shape: fix it",
                 tn__te_name(e->te), dim->name);
  }
}

static void declare_inputs(emitter *e, int *reads) {
  int own = tn__te_input_count(e->te);
  tn__operand(*dims)[TN_MAX_RANK] = tn__arena_alloc_array(e->arena, (size_t)own, sizeof(*dims));
  for (int i = 0; i < own; i++) {
    const tn__buffer *b = e->func_of_te->params[i];
    for (int d = 0; d < b->rank; d++) {
      const tn__expr *size = b->shape[d];
      if (tn__ir_is_int(size))
        dims[i][d] = tn__prog_operand_const(size->value.i);
      else if (size->kind == TN__EXPR_VAR)
        dims[i][d] = tn__prog_operand_scalar(tn__scalars_register(&e->scalars, size));
      else
        dims[i][d] = tn__prog_operand_scalar(tn__exe_symbol(e->func, tn__arena_printf(e->arena, "%s.%d", b->name, d)));
    }
    int index = tn__exe_input(e->func, b->name, b->dtype, b->rank, dims[i]);
    reads[i] =
        tn__exe_register(e->func, b->dtype, b->rank, dims[i], TN__STORAGE_INPUT, index, tn__prog_operand_const(0));
  }
  for (int i = 0; i < own; i++) {
    const tn__buffer *b = e->func_of_te->params[i];
    for (int d = 0; d < b->rank; d++) {
      if (tn__ir_is_int(b->shape[d]) || b->shape[d]->kind == TN__EXPR_VAR) continue;
      int size = tn__scalars_register(&e->scalars, b->shape[d]);
      tn__exe_emit_assert(
          e->func, tn__exe_emit_scalar_op(e->func, TN__SCALAR_EQ, size, (int)dims[i][d].value),
          tn__arena_printf(e->arena, "dimension %d of \"%s\" is %c%d%c, and its kernel computes it to be %s", d,
                           b->name, TN__SCALAR_MARK, (int)dims[i][d].value, TN__SCALAR_MARK, value_of(e, b->shape[d])));
    }
  }
}

static void check_dims(emitter *e) {
  const tn__expr *const *conditions;
  const tn__te_about *about;
  for (int i = 0; i < tn__te_dim_count(e->te); i++) {
    const tn__var *dim = tn__te_dim_at(e->te, i);
    int most = tn__exe_emit_const(e->func, INT64_C(1) << 48);
    int least = tn__exe_emit_const(e->func, dim->min->value.i), size = tn__scalars_register(&e->scalars, dim->self);
    tn__exe_emit_assert(e->func, tn__exe_emit_scalar_op(e->func, TN__SCALAR_LE, least, size),
                        tn__arena_printf(e->arena, "the dimension %s is %s, and its kernel allows no less than %lld",
                                         dim->name, value_of(e, dim->self), (long long)dim->min->value.i));
    tn__exe_emit_assert(e->func, tn__exe_emit_scalar_op(e->func, TN__SCALAR_LE, size, most),
                        tn__arena_printf(e->arena, "the dimension %s is %s, and a kernel allows no more than 2^48",
                                         dim->name, value_of(e, dim->self)));
  }
  int count = tn__te_conditions_about(e->te, &conditions, &about);
  for (int i = 0; i < count; i++)
    if (!tn__te_is_size_condition(conditions[i])) check(e, conditions[i], &about[i]);
}

static void emit_function(emitter *e, int kernel, const tn__kernel_info *info) {
  int inputs = tn__te_input_count(e->te), outputs = tn__te_output_count(e->te), dims = tn__te_dim_count(e->te);
  int *reads = TN__NEW_ARRAY(e->arena, inputs, int), *writes = TN__NEW_ARRAY(e->arena, outputs + 1, int);
  int *scalars = TN__NEW_ARRAY(e->arena, dims, int), write_count = 0;
  bind_dims(e);
  declare_inputs(e, reads);
  check_dims(e);
  for (int i = 0; i < outputs; i++) {
    const tn__buffer *b = tn__te_output_at(e->te, i);
    tn__operand shape[TN_MAX_RANK];
    for (int d = 0; d < b->rank; d++) shape[d] = tn__scalars_operand(&e->scalars, b->shape[d]);
    int index = tn__exe_output(e->func, b->name, b->dtype, b->rank, shape);
    writes[write_count++] =
        tn__exe_register(e->func, b->dtype, b->rank, shape, TN__STORAGE_OUTPUT, index, tn__prog_operand_const(0));
  }
  const tn__expr *bytes = info->workspace_expr;
  if (bytes == NULL) bytes = tn__ir_index(e->ir, info->workspace_bytes);
  tn__operand size = tn__scalars_operand(&e->scalars, bytes);
  for (int i = 0; i < dims; i++) scalars[i] = tn__scalars_register(&e->scalars, tn__te_dim_at(e->te, i)->self);
  tn__exe_arena(e->func, size);
  if (!tn__ir_is_int_value(bytes, 0))
    writes[write_count++] = tn__exe_register(e->func, TN_U8, 1, &size, TN__STORAGE_ARENA, 0, tn__prog_operand_const(0));
  tn__exe_emit_kernel(e->func, kernel, reads, inputs, writes, write_count, scalars, dims);
  tn__exe_emit(e->func, TN__OP_RETURN, NULL, 0);
}

void tn__decl_work(const tn__te *te, double *flops, double *bytes) {
  int64_t n;
  int inputs = tn__te_input_count(te);
  *flops = tn__ir_as_int(tn__te_flops(te), &n) ? (double)n : -1;
  *bytes = 0;
  for (int i = 0; i < inputs + tn__te_output_count(te); i++) {
    const tn__buffer *b = i < inputs ? tn__te_input_at(te, i) : tn__te_output_at(te, i - inputs);
    double size = (double)tn_dtype_size(b->dtype);
    for (int d = 0; d < b->rank; d++) {
      if (!tn__ir_as_int(b->shape[d], &n)) {
        *bytes = -1;
        return;
      }
      size *= (double)n;
    }
    *bytes += size;
  }
}

/* Those who bind tensors say themselves how these lie. */
static void check_dense(const job *j, tn__escape *escape) {
  for (int s = 0; s < j->count; s++) {
    const tn__te *te = j->schedules[s]->unit.te;
    bool says = false;
    for (int i = 0; i < tn__te_input_count(te); i++) says |= tn__te_input_at(te, i)->strides != NULL;
    for (int i = 0; i < tn__te_output_count(te); i++)
      says |= tn__te_output_at(te, i)->strides != NULL || tn__te_over(te, i) >= 0;
    if (says)
      tn__throwf(escape, TN_INVALID_ARGUMENT,
                 "kernel %s: its declaration says how tensors lie in memory, and in a module that is for the caller; "
                 "schedule it with tn_schedule_options.dense",
                 tn__te_name(te));
  }
}

static void module_body(tn__arena *arena, void *user) {
  job *j = user;
  check_dense(j, arena->escape);
  const tn__target *target = &j->schedules[0]->target;
  tn__te_item *items;
  int count = tn__decl_items(arena, j->schedules, j->count, &items);
  tn__ir **irs = TN__NEW_ARRAY(arena, count, tn__ir *);
  const tn__func **funcs = TN__NEW_ARRAY(arena, count, const tn__func *);
  for (int i = 0; i < count; i++) {
    irs[i] = items[i].ir;
    funcs[i] = items[i].func;
  }
  const tn__backend *backend = tn__backend_of(arena->escape, target);
  tn__codegen_module module = {.irs = irs, .funcs = funcs, .count = count, .target = target};
  tn__code object = backend->compile(arena, &module, TN__EMIT_OBJECT);
  tn__image image = backend->link(arena, &object, 1);
  tn__exe *exe = tn__exe_create(arena, target, tn__arena_printf(arena, "tenon %s", tn_version()));
  tn__exe_image(exe, image.data, image.size);
  tn__strbuf traces;
  tn__strbuf_init(&traces, arena->allocator);
  for (int i = 0; i < count; i++) {
    emitter e = {.arena = arena, .ir = irs[i], .te = items[i].te, .func_of_te = funcs[i]};
    const char *name = tn__te_name(e.te);
    tn__kernel_info info = backend->measure(e.ir, funcs[i]);
    const tn__image_symbol *symbol = NULL;
    for (int k = 0; k < image.symbol_count; k++)
      if (strcmp(image.symbols[k].name, name) == 0) symbol = &image.symbols[k];
    if (symbol == NULL) tn__throwf(arena->escape, TN_INTERNAL, "the image lacks kernel \"%s\"", name);
    bool workspace = info.workspace_expr != NULL || info.workspace_bytes > 0;
    int buffers = tn__te_input_count(e.te) + tn__te_output_count(e.te) + workspace;
    double flops, bytes;
    tn__decl_work(e.te, &flops, &bytes);
    int kernel = tn__exe_kernel(exe, name, symbol->offset, symbol->size, buffers, tn__te_dim_count(e.te), flops, bytes);
    e.func = tn__exe_function(exe, name);
    tn__scalars_init(&e.scalars, arena, e.func);
    emit_function(&e, kernel, &info);
    if (items[i].schedule == NULL) continue;
    tn__strbuf_printf(&traces, "# %s\n", name);
    tn__sched_trace_print(items[i].schedule->schedule, &traces);
  }
  const char *text = tn__arena_take(arena, &traces);
  tn__exe_text(exe, "schedules", text, strlen(text));
  tn_compile_options options = {.size = sizeof(options), .allocator = j->allocator};
  tn__driver driver = {.arena = arena, .options = &options};
  tn__pieces pieces = tn__exe_pieces(exe);
  tn__check(arena->escape, tn__driver_module_create(&driver, &pieces, NULL, (tn__bytes){0}, &j->module));
}

tn_status *tn_te_module(tn_schedule *const *schedules, int count, const tn_allocator *allocator, tn_module **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED_EACH("schedules", schedules, "count", count);
  if (count == 0) return tn_status_create(TN_INVALID_ARGUMENT, "an executable has at least one function");
  job j = {.schedules = schedules, .count = count, .allocator = allocator};
  TN_RETURN_IF_ERROR(tn__with_arena(allocator, module_body, &j));
  *out = j.module;
  return NULL;
}
