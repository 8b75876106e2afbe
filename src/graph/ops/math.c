/* Random bits and determinants. */
#include <string.h>

#include "base/hash.h"
#include "graph/internal.h"

/* ---- random_bits ------------------------------------------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) of a counter, so that every element stands alone. */

static void infer_random_bits(tn__graph *graph, tn__node *node) {
  const tn__attr *shape = tn__node_attr(node, "shape");
  tn__g_set_output(graph, node, 0, TN_U64, shape->count, shape->exprs, NULL);
}

static const tn__expr *u64(tn__ir *ir, uint64_t value) { return tn__ir_int(ir, TN_U64, (int64_t)value); }

static const tn__expr *shifted_xor(tn__ir *ir, const tn__expr *a, int bits) {
  return tn__ir_binary(ir, TN__EXPR_XOR, a, tn__ir_binary(ir, TN__EXPR_SHR, a, u64(ir, (uint64_t)bits)));
}

static void declare_random_bits(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                                const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *sizes[TN__MAX_RANK];
  for (int i = 0; i < axes.count; i++) sizes[i] = tn__lower_expr(lower, node->outputs[0]->dims[i]);
  const tn__expr *flat = tn__ir_flatten(ir, sizes, axes.index, axes.count);
  const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
  uint64_t start = tn__hash_mix((uint64_t)tn__node_int(node, "seed", 0), (uint64_t)tn__node_int(node, "stream", 0));
  const tn__expr *z = tn__ir_add(ir, tn__ir_mul(ir, tn__ir_cast(ir, TN_U64, flat), u64(ir, golden)), u64(ir, start));
  z = tn__ir_mul(ir, shifted_xor(ir, z, 30), u64(ir, UINT64_C(0xbf58476d1ce4e5b9)));
  z = tn__ir_mul(ir, shifted_xor(ir, z, 27), u64(ir, UINT64_C(0x94d049bb133111eb)));
  outputs[0] = tn__te_compute(tn__lower_te(lower), tn__lower_name(lower, "random_bits"), &axes, shifted_xor(ir, z, 31));
}

/* ---- determinant: Gaussian elimination with partial pivoting, in f64 --------------------------------------------- */

static void infer_determinant(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  tn__g_require_float(graph, node, 0);
  tn__g_set_output(graph, node, 0, a->dtype, a->rank - 2, a->dims, NULL);
}

typedef struct elimination {
  tn__ir *ir;
  const tn__buffer *work, *result, *pivot;
  tn__nest batch;
  const tn__expr *size;
} elimination;

static const tn__expr *const *place(const elimination *e, const tn__expr *row, const tn__expr *column,
                                    const tn__expr **at) {
  for (int i = 0; i < e->batch.count; i++) at[i] = e->batch.index[i];
  at[e->batch.count] = row;
  at[e->batch.count + 1] = column;
  return at;
}

static const tn__expr *at_place(const elimination *e, const tn__expr *row, const tn__expr *column) {
  const tn__expr *at[TN__MAX_RANK];
  return tn__ir_load(e->ir, e->work, place(e, row, column, at));
}

static const tn__stmt *set_place(const elimination *e, const tn__expr *row, const tn__expr *column,
                                 const tn__expr *value) {
  const tn__expr *at[TN__MAX_RANK];
  return tn__ir_store(e->ir, e->work, place(e, row, column, at), value);
}

static const tn__stmt *scale_result(const elimination *e, const tn__expr *factor) {
  return tn__ir_store(e->ir, e->result, e->batch.index,
                      tn__ir_mul(e->ir, tn__ir_load(e->ir, e->result, e->batch.index), factor));
}

/* A loop variable over [first, size). */
static const tn__var *from(const elimination *e, const char *name, const tn__expr *first) {
  return tn__var_create(e->ir, name, TN_I64, first, tn__ir_sub(e->ir, e->size, first));
}

/* Step k: the row with the greatest element of column k comes up, and what is below is cleared. */
static const tn__stmt *eliminate(const elimination *e, const tn__expr *k) {
  tn__ir *ir = e->ir;
  const tn__expr *zero = tn__ir_index(ir, 0), *next = tn__ir_add_i(ir, k, 1);
  const tn__expr *pivot = tn__ir_load(ir, e->pivot, &zero);
  const tn__var *i = from(e, "i", next), *row = from(e, "r", next), *j = from(e, "j", k), *column = from(e, "c", k);
  const tn__expr *greater = tn__ir_lt(ir, tn__ir_call1(ir, TN__CALL_ABS, at_place(e, pivot, k)),
                                      tn__ir_call1(ir, TN__CALL_ABS, at_place(e, i->self, k)));
  const tn__stmt *search =
      tn__ir_for(ir, i, TN__LOOP_SERIAL, tn__ir_if(ir, greater, tn__ir_store(ir, e->pivot, &zero, i->self), NULL));
  const tn__var *kept = tn__var_create(ir, "kept", TN_F64, NULL, NULL),
                *factor = tn__var_create(ir, "factor", TN_F64, NULL, NULL);
  const tn__stmt *swap =
      tn__ir_seq2(ir, set_place(e, k, j->self, at_place(e, pivot, j->self)), set_place(e, pivot, j->self, kept->self));
  swap = tn__ir_for(ir, j, TN__LOOP_SERIAL, tn__ir_let(ir, kept, at_place(e, k, j->self), swap));
  swap = tn__ir_if(ir, tn__ir_ne(ir, pivot, k), tn__ir_seq2(ir, swap, scale_result(e, tn__ir_float(ir, TN_F64, -1))),
                   NULL);
  const tn__expr *value =
      tn__ir_sub(ir, at_place(e, row->self, column->self), tn__ir_mul(ir, factor->self, at_place(e, k, column->self)));
  const tn__stmt *clear = tn__ir_for(ir, column, TN__LOOP_SERIAL, set_place(e, row->self, column->self, value));
  clear = tn__ir_let(ir, factor, tn__ir_div(ir, at_place(e, row->self, k), at_place(e, k, k)), clear);
  clear = tn__ir_if(ir, tn__ir_ne(ir, at_place(e, k, k), tn__ir_float(ir, TN_F64, 0)),
                    tn__ir_for(ir, row, TN__LOOP_SERIAL, clear), NULL);
  const tn__stmt *items[] = {tn__ir_store(ir, e->pivot, &zero, k), search, swap, scale_result(e, at_place(e, k, k)),
                             clear};
  return tn__ir_seq(ir, items, 5);
}

static void declare_determinant(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                                const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__buffer *a = inputs[0];
  const tn__expr *one = tn__ir_index(ir, 1);
  const char *name = tn__lower_name(lower, "determinant");
  const tn__buffer *work = tn__te_extern_tensor(te, tn__lower_name(lower, "rows"), TN_F64, a->rank, a->shape);
  const tn__buffer *result = tn__te_extern_tensor(te, name, TN_F64, a->rank - 2, a->shape);
  const tn__buffer *pivot = tn__buffer_create(ir, "pivot", TN_I64, TN__SCOPE_STACK, 1, &one);
  elimination e = {.ir = ir,
                   .work = work,
                   .result = result,
                   .pivot = pivot,
                   .batch = tn__nest_create(ir, "b", a->rank - 2, a->shape),
                   .size = a->shape[a->rank - 1]};
  tn__nest copy = tn__nest_create(ir, "p", a->rank, a->shape);
  const tn__var *k = from(&e, "k", tn__ir_index(ir, 0));
  const tn__stmt *start = tn__ir_store(ir, e.result, e.batch.index, tn__ir_float(ir, TN_F64, 1));
  const tn__stmt *body = tn__ir_seq2(ir, start, tn__ir_for(ir, k, TN__LOOP_SERIAL, eliminate(&e, k->self)));
  const tn__stmt *fill = tn__nest_loops(
      ir, &copy, tn__ir_store(ir, e.work, copy.index, tn__ir_cast(ir, TN_F64, tn__ir_load(ir, a, copy.index))));
  body = tn__ir_seq2(ir, fill, tn__nest_loops(ir, &e.batch, body));
  const tn__buffer *writes[2] = {e.work, e.result};
  tn__te_extern(te, name, &a, 1, writes, 2, tn__ir_alloc_stmt(ir, e.pivot, body));
  outputs[0] = tn__lower_convert(lower, e.result, a->dtype);
}

static const tn__op rows[] = {
    {.name = "random_bits",
     .min_inputs = 0,
     .max_inputs = 0,
     .operands = "",
     .op_class = TN__CLASS_INJECTIVE,
     .lowering = TN__LOWER_DECLARE,
     .infer = infer_random_bits,
     .declare = declare_random_bits,
     .attributes = "shape!:exprs seed:int stream:int",
     .doc = "64 random bits an element, decided by `seed`, `stream` and the element's position."},
    {.name = "determinant",
     .min_inputs = 1,
     .max_inputs = 1,
     .operands = "x[*b,n,n]",
     .op_class = TN__CLASS_OPAQUE,
     .lowering = TN__LOWER_DECLARE,
     .infer = infer_determinant,
     .declare = declare_determinant,
     .doc = "Of the matrices in the last two dimensions."},
};

const tn__op_family tn__ops_math = {rows, sizeof(rows) / sizeof(rows[0])};
