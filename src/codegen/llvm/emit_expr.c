/* Expressions: memoised evaluation, laziness, masks and comparisons with the lane. */
#include "codegen/llvm/arch.h"

/* ---- memo -------------------------------------------------------------------------------------------------------- */

static bool is_current(tn__cg *cg, const tn__expr *e, const tn__cg_binding *binding) {
  if (!binding->value.loads) return true;
  if (e->kind == TN__EXPR_LOAD) {
    bool plain_indices = true;
    for (int i = 0; i < e->arg_count; i++) plain_indices = plain_indices && !tn__expr_has_load(e->args[i]);
    if (plain_indices) return binding->version == tn__cg_storage_of(cg, e->value.buffer)->version;
  }
  return binding->version == cg->frame->version;
}

static const tn__cg_binding *remembered(tn__cg *cg, const tn__expr *e) {
  const tn__cg_binding *binding = tn__cg_find(cg, e);
  return binding != NULL && is_current(cg, e, binding) ? binding : NULL;
}

/* ---- laziness ---------------------------------------------------------------------------------------------------- */

static bool divisor_is_safe(tn__cg *cg, const tn__expr *divisor) {
  tn__interval range = tn__interval_of(cg->ir, divisor);
  return tn__dtype_is_unsigned(divisor->dtype) ? range.min > 0 : range.min > 0 || range.max < 0;
}

static bool load_is_inside(tn__cg *cg, const tn__expr *e) {
  for (int i = 0; i < e->arg_count; i++) {
    if (tn__expr_has_load(e->args[i])) return false;
    if (!tn__ir_prove(cg->ir, tn__ir_le(cg->ir, tn__ir_index(cg->ir, 0), e->args[i])) ||
        !tn__ir_prove(cg->ir, tn__ir_lt(cg->ir, e->args[i], e->value.buffer->shape[i])))
      return false;
  }
  return true;
}

/* Expressions are graphs: what was found harmless is not visited again (a small cache, so that it is cheap where it
 * does not pay). */
typedef struct lazy_walk {
  tn__cg *cg;
  const tn__expr *harmless[64];
} lazy_walk;

static bool may_fail(lazy_walk *walk, const tn__expr *e) {
  if (e->arg_count == 0 && e->kind != TN__EXPR_LOAD) return false;
  const tn__expr **seen = &walk->harmless[e->hash % 64];
  if (*seen == e || remembered(walk->cg, e) != NULL) return false;
  if (e->kind == TN__EXPR_LOAD && e->value.buffer->scope != TN__SCOPE_REGISTER && !load_is_inside(walk->cg, e))
    return true;
  bool divides = (e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && !tn__dtype_is_float(e->dtype);
  if (divides && !divisor_is_safe(walk->cg, e->args[1])) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (may_fail(walk, e->args[i])) return true;
  *seen = e;
  return false;
}

bool tn__cg_needs_lazy(tn__cg *cg, const tn__expr *e) {
  lazy_walk walk = {.cg = cg};
  return may_fail(&walk, e);
}

LLVMValueRef tn__cg_mask_push(tn__cg *cg, LLVMValueRef condition) {
  LLVMValueRef before = cg->frame->mask;
  cg->frame->mask = before == NULL ? condition : LLVMBuildAnd(cg->builder, before, condition, "");
  return before;
}

/* Evaluates `e` where only the lanes in `condition` (a vector) want it. */
static tn__cg_value under_mask(tn__cg *cg, LLVMValueRef condition, const tn__expr *e) {
  LLVMValueRef before = tn__cg_mask_push(cg, condition);
  int scope = tn__cg_scope_enter(cg);
  tn__cg_value value = tn__cg_expr(cg, e);
  tn__cg_scope_leave(cg, scope);
  cg->frame->mask = before;
  return value;
}

/* Evaluates `a` when `condition` (i1) holds and `b` otherwise, by a branch; either may be NULL: then `otherwise` stands
 * for it. */
static tn__cg_value branched(tn__cg *cg, LLVMValueRef condition, const tn__expr *a, const tn__expr *b,
                             LLVMValueRef otherwise) {
  LLVMBasicBlockRef blocks[2] = {tn__cg_block(cg, "then"), tn__cg_block(cg, "else")}, join = tn__cg_block(cg, "join");
  const tn__expr *sides[2] = {a, b};
  tn__cg_value values[2];
  LLVMBuildCondBr(cg->builder, condition, blocks[0], blocks[1]);
  int lanes = 1;
  for (int i = 0; i < 2; i++) {
    tn__cg_at(cg, blocks[i]);
    int scope = tn__cg_scope_enter(cg);
    values[i] = sides[i] != NULL ? tn__cg_expr(cg, sides[i]) : (tn__cg_value){.v = otherwise, .lanes = 1};
    tn__cg_scope_leave(cg, scope);
    blocks[i] = LLVMGetInsertBlock(cg->builder);
    if (values[i].lanes > lanes) lanes = values[i].lanes;
  }
  LLVMValueRef incoming[2];
  for (int i = 0; i < 2; i++) {
    tn__cg_at(cg, blocks[i]);
    incoming[i] = tn__cg_widen(cg, values[i], lanes);
    LLVMBuildBr(cg->builder, join);
  }
  tn__cg_at(cg, join);
  LLVMValueRef phi = LLVMBuildPhi(cg->builder, LLVMTypeOf(incoming[0]), "");
  LLVMAddIncoming(phi, incoming, blocks, 2);
  return (tn__cg_value){.v = phi, .lanes = lanes, .loads = values[0].loads || values[1].loads};
}

static void make_part(void *cg, const tn__expr *part) { tn__cg_expr(cg, part); }

static tn__cg_value emit_select(tn__cg *cg, const tn__expr *e) {
  tn__cg_value condition = tn__cg_expr(cg, e->args[0]);
  bool lazy[2] = {tn__cg_needs_lazy(cg, e->args[1]), tn__cg_needs_lazy(cg, e->args[2])};
  if (lazy[0] || lazy[1]) tn__expr_common_parts(cg->ir, e->args[1], e->args[2], make_part, cg);
  if (condition.lanes == 1 && (lazy[0] || lazy[1])) {
    tn__cg_value value = branched(cg, condition.v, e->args[1], e->args[2], NULL);
    value.loads = value.loads || condition.loads;
    return value;
  }
  tn__cg_value a, b;
  if (lazy[0])
    a = under_mask(cg, condition.v, e->args[1]);
  else
    a = tn__cg_expr(cg, e->args[1]);
  if (lazy[1])
    b = under_mask(cg, LLVMBuildNot(cg->builder, condition.v, ""), e->args[2]);
  else
    b = tn__cg_expr(cg, e->args[2]);
  int lanes = condition.lanes > a.lanes ? condition.lanes : a.lanes > b.lanes ? a.lanes : b.lanes;
  LLVMValueRef va = tn__cg_widen(cg, a, lanes), vb = tn__cg_widen(cg, b, lanes);
  return (tn__cg_value){.v = LLVMBuildSelect(cg->builder, condition.v, va, vb, ""),
                        .lanes = lanes,
                        .loads = condition.loads || a.loads || b.loads};
}

static tn__cg_value emit_logical(tn__cg *cg, const tn__expr *e) {
  bool is_and = e->kind == TN__EXPR_AND;
  tn__cg_value a = tn__cg_expr(cg, e->args[0]);
  tn__cg_value b;
  if (!tn__cg_needs_lazy(cg, e->args[1])) {
    b = tn__cg_expr(cg, e->args[1]);
  } else if (a.lanes == 1) {
    LLVMValueRef known = LLVMConstInt(cg->i1, is_and ? 0 : 1, 0);
    tn__cg_value value = branched(cg, a.v, is_and ? e->args[1] : NULL, is_and ? NULL : e->args[1], known);
    value.loads = value.loads || a.loads;
    return value;
  } else {
    b = under_mask(cg, is_and ? a.v : LLVMBuildNot(cg->builder, a.v, ""), e->args[1]);
  }
  int lanes = a.lanes > b.lanes ? a.lanes : b.lanes;
  LLVMValueRef va = tn__cg_widen(cg, a, lanes), vb = tn__cg_widen(cg, b, lanes);
  /* Inactive lanes of a masked side are arbitrary but defined, so the bitwise operation is right. */
  LLVMValueRef v = is_and ? LLVMBuildAnd(cg->builder, va, vb, "") : LLVMBuildOr(cg->builder, va, vb, "");
  return (tn__cg_value){.v = v, .lanes = lanes, .loads = a.loads || b.loads};
}

/* ---- comparisons of indices with the lane ------------------------------------------------------------------------ */

/* a OP b where b - a = base + step * lane: one comparison of i32 lanes with a clamped scalar, in place of i64
 * vectors. */
TN_MUST_USE static bool emit_lane_compare(tn__cg *cg, const tn__expr *e, tn__cg_value *out) {
  const tn__cg_frame *frame = cg->frame;
  if (frame->lane == NULL || frame->lanes == 1 || e->args[0]->dtype != TN_I64) return false;
  if (e->kind != TN__EXPR_LT && e->kind != TN__EXPR_LE && e->kind != TN__EXPR_EQ && e->kind != TN__EXPR_NE)
    return false;
  const tn__expr *difference = tn__ir_sub(cg->ir, e->args[1], e->args[0]);
  int64_t step;
  if (tn__expr_has_load(difference) || !tn__ir_stride_in(cg->ir, difference, frame->lane, &step)) return false;
  if (step == 0 || step > INT32_MAX / 4096 || step < -(INT32_MAX / 4096) || frame->lanes > 1024) return false;
  const tn__expr *start = tn__ir_substitute(cg->ir, difference, &frame->lane, &frame->lane->min, 1);
  tn__cg_value base = tn__cg_expr(cg, start);
  if (base.lanes != 1) return false;
  int64_t last = -step * (frame->lanes - 1);
  int64_t low = (last < 0 ? last : 0) - 1, high = (last > 0 ? last : 0) + 1;
  tn__interval range = tn__interval_of(cg->ir, start);
  LLVMValueRef clamped = base.v;
  if (range.min < INT32_MIN) clamped = tn__cg_intrinsic2(cg, "llvm.smax", clamped, tn__cg_int(cg->i64, low));
  if (range.max > INT32_MAX) clamped = tn__cg_intrinsic2(cg, "llvm.smin", clamped, tn__cg_int(cg->i64, high));
  clamped = LLVMBuildTrunc(cg->builder, clamped, cg->i32, "");
  static const LLVMIntPredicate predicates[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSGT, LLVMIntSGE};
  LLVMValueRef v =
      LLVMBuildICmp(cg->builder, predicates[e->kind - TN__EXPR_EQ], tn__cg_broadcast(cg, clamped, frame->lanes),
                    tn__cg_iota(cg->i32, frame->lanes, -step), "");
  *out = (tn__cg_value){.v = v, .lanes = frame->lanes};
  return true;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static bool is_product(const tn__expr *e) { return e->kind == TN__EXPR_MUL; }

static bool is_dot(const tn__expr *e) {
  return e->kind == TN__EXPR_CALL && (e->intrinsic == TN__CALL_DOT4 || e->intrinsic == TN__CALL_DOT2);
}

/* a + dot4(b, c), or a + (dot4(b, c) - d): one instruction for the sum of products where there is one. dot2 too. */
TN_MUST_USE static bool emit_dot_sum(tn__cg *cg, const tn__expr *e, tn__cg_value *out) {
  if (e->kind != TN__EXPR_ADD || e->dtype != TN_I32) return false;
  const tn__expr *product = NULL, *other = NULL, *less = NULL;
  for (int i = 0; i < 2 && product == NULL; i++) {
    const tn__expr *side = e->args[i];
    bool differs = side->kind == TN__EXPR_SUB;
    if (!is_dot(differs ? side->args[0] : side)) continue;
    product = differs ? side->args[0] : side;
    less = differs ? side->args[1] : NULL;
    other = e->args[1 - i];
  }
  if (product == NULL) return false;
  tn__cg_value a = tn__cg_expr(cg, product->args[0]), b = tn__cg_expr(cg, product->args[1]);
  tn__cg_value sum = tn__cg_expr(cg, other), minus = {.lanes = 1};
  if (less != NULL) minus = tn__cg_expr(cg, less);
  int lanes = a.lanes > b.lanes ? a.lanes : b.lanes;
  if (sum.lanes > lanes) lanes = sum.lanes;
  if (minus.lanes > lanes) lanes = minus.lanes;
  LLVMValueRef v = tn__cg_widen(cg, sum, lanes);
  v = product->intrinsic == TN__CALL_DOT4 ? tn__cg_dot4(cg, v, &a, &b, lanes) : tn__cg_dot2(cg, v, &a, &b, lanes);
  if (less != NULL) v = LLVMBuildSub(cg->builder, v, tn__cg_widen(cg, minus, lanes), "");
  *out = (tn__cg_value){.v = v, .lanes = lanes, .loads = a.loads || b.loads || sum.loads || minus.loads};
  return true;
}

/* ---- words of several numbers ------------------------------------------------------------------------------------ */

/* The mask of a word for each of its numbers. */
static LLVMValueRef mask_of_numbers(tn__cg *cg, int count) {
  enum { MOST_NUMBERS = 1024 };
  int indices[MOST_NUMBERS], lanes = cg->frame->lanes;
  for (int i = 0; i < count * lanes; i++) indices[i] = i / count;
  return tn__cg_shuffle(cg, cg->frame->mask, tn__cg_undef(LLVMTypeOf(cg->frame->mask)), indices, count * lanes);
}

/* Evaluates expressions of the place in as many lanes as there are numbers. */
static void emit_numbers(tn__cg *cg, const tn__cg_words *p, const tn__expr *const *e, int count, LLVMValueRef *out) {
  tn__cg_frame *frame = cg->frame;
  const tn__cg_frame before = *frame;
  int lanes = p->count * frame->lanes;
  frame->word_mask = NULL;
  if (frame->mask != NULL) frame->mask = frame->word_mask = mask_of_numbers(cg, p->count);
  frame->mask_of_words = before.mask;
  frame->lane = p->place;
  frame->lanes = lanes;
  frame->word = p->count;
  int scope = tn__cg_scope_enter(cg);
  tn__cg_bind_value(cg, p->place, (tn__cg_value){.v = tn__cg_iota(cg->i64, lanes, 1), .lanes = lanes});
  for (int i = 0; i < count; i++) out[i] = tn__cg_widen(cg, tn__cg_expr(cg, e[i]), lanes);
  tn__cg_scope_leave(cg, scope);
  frame->mask = before.mask;
  frame->lane = before.lane;
  frame->lanes = before.lanes;
  frame->word = 0;
}

TN_MUST_USE static bool emit_packed(tn__cg *cg, const tn__expr *e, tn__cg_value *out) {
  tn__cg_words p;
  LLVMValueRef numbers;
  if (!tn__cg_packed(cg, e, &p)) return false;
  emit_numbers(cg, &p, &p.number, 1, &numbers);
  LLVMTypeRef words = tn__cg_lanes_type(tn__cg_value_type(cg, e->dtype), cg->frame->lanes);
  *out =
      (tn__cg_value){.v = LLVMBuildBitCast(cg->builder, numbers, words, ""), .lanes = cg->frame->lanes, .loads = true};
  return true;
}

/* sum8 of |a - b|, where there is an instruction for it. */
TN_MUST_USE static bool emit_sum_of_distances(tn__cg *cg, const tn__expr *e, tn__cg_value *out) {
  tn__cg_words p;
  const tn__expr *sides[2];
  LLVMValueRef v[2];
  if (e->kind != TN__EXPR_CALL || e->intrinsic != TN__CALL_SUM8 || cg->arch->sum_of_distances == NULL) return false;
  if (!tn__cg_packed(cg, e->args[0], &p) || !tn__cg_is_distance(p.number, sides)) return false;
  emit_numbers(cg, &p, sides, 2, v);
  LLVMValueRef sums = cg->arch->sum_of_distances(cg, v[0], v[1], cg->frame->lanes);
  if (sums == NULL) return false;
  *out = (tn__cg_value){.v = sums, .lanes = cg->frame->lanes, .loads = true};
  return true;
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

/* Bits are counted by one instruction, where there is one. */
TN_MUST_USE static bool emit_bit_count(tn__cg *cg, const tn__expr *e, tn__cg_value *out) {
  const tn__expr *counted = tn__cg_counted(e);
  if (counted == NULL) return false;
  *out = tn__cg_expr(cg, counted);
  out->v = tn__cg_intrinsic1(cg, "llvm.ctpop", out->v);
  return true;
}

/* a * b + c in one rounding: decided by the shape of the expression alone, so that every lane, tail and copy of a loop
 * rounds alike. Not when both sides are products: x*x - m*m must stay antisymmetric. */
TN_MUST_USE static bool emit_contracted(tn__cg *cg, const tn__expr *e, tn__cg_value *out) {
  if (!cg->has_fma || (e->kind != TN__EXPR_ADD && e->kind != TN__EXPR_SUB)) return false;
  if (e->dtype != TN_F32 && e->dtype != TN_F64) return false;
  bool left = is_product(e->args[0]), right = is_product(e->args[1]);
  if (left == right) return false;
  const tn__expr *product = e->args[left ? 0 : 1];
  tn__cg_value a = tn__cg_expr(cg, product->args[0]), b = tn__cg_expr(cg, product->args[1]);
  tn__cg_value c = tn__cg_expr(cg, e->args[left ? 1 : 0]);
  int lanes = a.lanes > b.lanes ? a.lanes : b.lanes;
  if (c.lanes > lanes) lanes = c.lanes;
  LLVMValueRef args[3] = {tn__cg_widen(cg, a, lanes), tn__cg_widen(cg, b, lanes), tn__cg_widen(cg, c, lanes)};
  if (e->kind == TN__EXPR_SUB && left) args[2] = LLVMBuildFNeg(cg->builder, args[2], "");
  if (e->kind == TN__EXPR_SUB && right) args[0] = LLVMBuildFNeg(cg->builder, args[0], "");
  LLVMTypeRef type = LLVMTypeOf(args[0]);
  *out = (tn__cg_value){
      .v = tn__cg_intrinsic(cg, "llvm.fma", &type, 1, args, 3), .lanes = lanes, .loads = a.loads || b.loads || c.loads};
  return true;
}

/* Integer division: fails the kernel for a zero divisor in an active lane, and keeps the other lanes from trapping. */
static LLVMValueRef checked_divisor(tn__cg *cg, const tn__expr *divisor, LLVMValueRef b) {
  if (divisor_is_safe(cg, divisor)) return b;
  LLVMTypeRef type = LLVMTypeOf(b);
  LLVMValueRef is_zero = LLVMBuildICmp(cg->builder, LLVMIntEQ, b, tn__cg_int(type, 0), "");
  LLVMValueRef fails = is_zero;
  if (cg->frame->mask != NULL) {
    LLVMValueRef wide = tn__cg_lanes(type) == 1 ? tn__cg_broadcast(cg, is_zero, cg->frame->lanes) : is_zero;
    fails = LLVMBuildAnd(cg->builder, wide, cg->frame->mask, "");
  }
  tn__cg_return_if(cg, tn__cg_any(cg, fails), LLVMConstInt(cg->i32, TN_KERNEL_DIVISION_BY_ZERO, 0));
  if (cg->frame->mask == NULL) return b;
  return LLVMBuildSelect(cg->builder, is_zero, tn__cg_int(type, 1), b, "");
}

static tn__cg_value emit_binary(tn__cg *cg, const tn__expr *e) {
  tn__cg_value a = tn__cg_expr(cg, e->args[0]), b = tn__cg_expr(cg, e->args[1]);
  int lanes = a.lanes > b.lanes ? a.lanes : b.lanes;
  tn_dtype dtype = e->args[0]->dtype;
  tn__cg_value out = {.lanes = lanes, .loads = a.loads || b.loads};
  bool divides = (e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && !tn__dtype_is_float(dtype);
  if (divides) b.v = checked_divisor(cg, e->args[1], b.v);
  LLVMValueRef va = tn__cg_widen(cg, a, lanes), vb = tn__cg_widen(cg, b, lanes);
  if (divides)
    out.v = tn__cg_int_divmod(cg, e, va, vb);
  else if (e->kind >= TN__EXPR_EQ && e->kind <= TN__EXPR_LE)
    out.v = tn__cg_compare(cg, e->kind, dtype, va, vb);
  else
    out.v = tn__cg_arith(cg, e, va, vb);
  return out;
}

static tn__cg_value emit_call(tn__cg *cg, const tn__expr *e) {
  tn__cg_value args[4] = {{0}};
  tn__cg_value out = {.lanes = 1};
  if (e->arg_count > 4) tn__cg_fail(cg, "an intrinsic of %d arguments", e->arg_count);
  for (int i = 0; i < e->arg_count; i++) {
    args[i] = tn__cg_expr(cg, e->args[i]);
    if (args[i].lanes > out.lanes) out.lanes = args[i].lanes;
    out.loads = out.loads || args[i].loads;
  }
  out.v = tn__cg_call(cg, e, args, out.lanes);
  return out;
}

static tn__cg_value emit_leaf(tn__cg *cg, const tn__expr *e) {
  LLVMTypeRef type = tn__cg_value_type(cg, e->dtype);
  if (e->kind == TN__EXPR_INT) return (tn__cg_value){.v = tn__cg_int(type, e->value.i), .lanes = 1};
  if (e->kind == TN__EXPR_FLOAT) return (tn__cg_value){.v = LLVMConstReal(type, e->value.f), .lanes = 1};
  const tn__cg_binding *binding = tn__cg_find(cg, e->value.var);
  if (binding == NULL) tn__cg_fail(cg, "variable %s is not bound", e->value.var->name);
  return binding->value;
}

/* The place that a float says as a float again, its fraction being what is left, need not be wider on the way. */
static tn__cg_value emit_cast(tn__cg *cg, const tn__expr *e) {
  const tn__expr *from = e->args[0], *narrow = NULL;
  double low, high;
  if (from->dtype == TN_I64 && tn__dtype_is_float(e->dtype) && cg->frame->lanes > 1)
    narrow = tn__cg_narrowed(cg->ir, from, &low, &high);
  if (narrow != NULL) from = narrow;
  tn__cg_value a = tn__cg_expr(cg, from);
  a.v = tn__cg_cast(cg, from->dtype, e->dtype, a.v, tn__cg_holds(e->dtype, from));
  return a;
}

static tn__cg_value emit(tn__cg *cg, const tn__expr *e) {
  tn__cg_value out;
  switch (e->kind) {
    case TN__EXPR_SELECT: return emit_select(cg, e);
    case TN__EXPR_AND:
    case TN__EXPR_OR:
      if (e->dtype == TN_BOOL) return emit_logical(cg, e);
      if (emit_bit_count(cg, e, &out) || (e->kind == TN__EXPR_OR && emit_packed(cg, e, &out))) return out;
      return emit_binary(cg, e);
    case TN__EXPR_NOT: {
      tn__cg_value a = tn__cg_expr(cg, e->args[0]);
      a.v = LLVMBuildNot(cg->builder, a.v, "");
      return a;
    }
    case TN__EXPR_CAST: return emit_cast(cg, e);
    case TN__EXPR_BITCAST: {
      tn__cg_value a = tn__cg_expr(cg, e->args[0]);
      a.v = tn__cg_bitcast(cg, e->args[0]->dtype, e->dtype, a.v);
      return a;
    }
    case TN__EXPR_LOAD: return tn__cg_load(cg, e);
    case TN__EXPR_CALL: return emit_sum_of_distances(cg, e, &out) ? out : emit_call(cg, e);
    default:
      if (tn__cg_extremum(cg, e, &out) || tn__cg_quotient(cg, e, &out)) return out;
      if (emit_lane_compare(cg, e, &out) || emit_contracted(cg, e, &out) || emit_dot_sum(cg, e, &out)) return out;
      if (emit_bit_count(cg, e, &out)) return out;
      return emit_binary(cg, e);
  }
}

tn__cg_value tn__cg_expr(tn__cg *cg, const tn__expr *e) {
  if (e->kind == TN__EXPR_INT || e->kind == TN__EXPR_FLOAT || e->kind == TN__EXPR_VAR) return emit_leaf(cg, e);
  const tn__cg_binding *known = remembered(cg, e);
  if (known != NULL) return known->value;
  tn__cg_value value = emit(cg, e);
  uint64_t version = cg->frame->version;
  tn__cg_bind_value(cg, e, value);
  if (e->kind == TN__EXPR_LOAD) {
    bool plain_indices = true;
    for (int i = 0; i < e->arg_count; i++) plain_indices = plain_indices && !tn__expr_has_load(e->args[i]);
    if (plain_indices) version = tn__cg_storage_of(cg, e->value.buffer)->version;
  }
  cg->frame->bindings.data[cg->frame->bindings.count - 1].version = version;
  return value;
}

LLVMValueRef tn__cg_scalar(tn__cg *cg, const tn__expr *e) {
  tn__cg_value value = tn__cg_expr(cg, e);
  if (value.lanes != 1) tn__cg_fail(cg, "a loop bound depends on the lane of a vectorised loop");
  return value.v;
}
