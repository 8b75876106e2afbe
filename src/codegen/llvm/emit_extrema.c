/* Minima and maxima of floats that keep NaN, where an instruction of two operands gives the second whenever either is
 * NaN. Testing an operand of each instruction takes two more. But a whole expression of minima and maxima is NaN when
 * any of what it is of is: so those are tested, in pairs, and what is found is put into the result once. One of them
 * needs no test: where it, and what was made of it, is the second operand of each instruction on the way, a NaN in it
 * stays. In a reduction that is the result so far, and what is found stays beside it until somebody reads it. */
#include <math.h>

#include "codegen/llvm/arch.h"

enum { MOST_NODES = 96 }; /* of an expression; what lies deeper is one of its own */

typedef struct node {
  const tn__expr *e;
  int args[2]; /* -1: no minimum or maximum */
  bool kept;   /* lies on the way of what is the second operand throughout */
  bool made;
  tn__cg_value value;
} node;

typedef struct extremum {
  tn__cg *cg;
  node nodes[MOST_NODES]; /* arguments first */
  int count, begun;       /* `begun`: whose arguments are being added */
  const tn__expr *kept;   /* what is not to be tested, if it is there, or NULL */
  LLVMValueRef kept_value;
  /* One number, and as many as lanes: */
  LLVMValueRef waiting[2]; /* for another, to be tested together */
  LLVMValueRef found[2];   /* i1: is it NaN? */
  LLVMValueRef only;       /* what was tested, if that is all */
  int tested;
  bool loads;
} extremum;

/* ---- the expression ---------------------------------------------------------------------------------------------- */

static bool is_remembered(tn__cg *cg, const tn__expr *e) {
  const tn__cg_binding *binding = tn__cg_find(cg, e);
  return binding != NULL && (!binding->value.loads || binding->version == cg->frame->version);
}

static int add_node(extremum *x, const tn__expr *e, bool root) {
  for (int i = 0; i < x->count; i++)
    if (x->nodes[i].e == e) return i;
  node made = {.e = e, .args = {-1, -1}};
  /* Each that is begun will take room for itself and its second argument. */
  bool goes_on =
      tn__ir_is_float_extremum(e) && x->count + 2 * x->begun + 4 < MOST_NODES && (root || !is_remembered(x->cg, e));
  x->begun += goes_on;
  for (int i = 0; goes_on && i < 2; i++) made.args[i] = add_node(x, e->args[i], false);
  x->begun -= goes_on;
  if (x->count == MOST_NODES) tn__cg_fail(x->cg, "an expression of minima has too many parts");
  x->nodes[x->count] = made;
  return x->count++;
}

static bool may_be_nan(const tn__expr *e) {
  if (e->kind == TN__EXPR_FLOAT) return isnan(e->value.f);
  if (e->kind == TN__EXPR_CAST && !tn__dtype_is_float(e->args[0]->dtype)) return false;
  bool passes = e->kind == TN__EXPR_CAST;
  if (e->kind == TN__EXPR_CALL)
    passes = e->intrinsic == TN__CALL_ABS || e->intrinsic == TN__CALL_NEG || e->intrinsic == TN__CALL_EXP ||
             e->intrinsic == TN__CALL_TANH || e->intrinsic == TN__CALL_FLOOR || e->intrinsic == TN__CALL_ROUND_EVEN;
  return !passes || may_be_nan(e->args[0]);
}

/* Marks the way to `kept`, or else to the last part that may be NaN. */
static void choose_way(extremum *x) {
  bool leads[MOST_NODES] = {false};
  for (int i = 0; i < x->count; i++) {
    const node *n = &x->nodes[i];
    leads[i] = n->e == x->kept || (n->args[0] >= 0 && (leads[n->args[0]] || leads[n->args[1]]));
  }
  for (int i = x->count - 1; i >= 0;) {
    node *n = &x->nodes[i];
    n->kept = true;
    if (n->args[0] < 0) return;
    int side = leads[n->args[0]] ? 0 : 1;
    if (!leads[n->args[side]]) side = may_be_nan(x->nodes[n->args[1]].e) ? 1 : 0;
    i = n->args[side];
  }
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void find(extremum *x, int wide, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef found = LLVMBuildFCmp(x->cg->builder, LLVMRealUNO, a, b, "");
  x->found[wide] = x->found[wide] == NULL ? found : LLVMBuildOr(x->cg->builder, x->found[wide], found, "");
}

static void test(extremum *x, const tn__cg_value *value) {
  int wide = value->lanes > 1;
  x->only = value->v;
  x->tested++;
  if (x->waiting[wide] == NULL) {
    x->waiting[wide] = value->v;
    return;
  }
  find(x, wide, x->waiting[wide], value->v);
  x->waiting[wide] = NULL;
}

/* What was found in each lane, or NULL; nothing waits any more. */
static LLVMValueRef all_found(extremum *x, int lanes) {
  for (int wide = 0; wide < 2; wide++) {
    if (x->waiting[wide] != NULL) find(x, wide, x->waiting[wide], x->waiting[wide]);
    x->waiting[wide] = NULL;
  }
  LLVMValueRef one = x->found[0], all = x->found[1];
  if (one != NULL && lanes > 1) one = tn__cg_broadcast(x->cg, one, lanes);
  if (one == NULL || all == NULL) return one == NULL ? all : one;
  return LLVMBuildOr(x->cg->builder, one, all, "");
}

static bool has_masks(const tn__cg *cg) { return tn__target_can(cg->target, TN__CAN_MASK); }

/* All ones are a NaN: what a comparison gives where there are no registers for masks, and else no number in memory. A
 * load of it under a mask, which is hardly ever set, is from a page that nobody touched: a hundred cycles. */
static LLVMValueRef with_nan(tn__cg *cg, LLVMValueRef v, LLVMValueRef is_nan, LLVMValueRef nan) {
  LLVMBuilderRef at = cg->builder;
  LLVMTypeRef type = LLVMTypeOf(v), bits = tn__cg_like(type, tn__cg_element(type) == cg->f64 ? cg->i64 : cg->i32);
  bool masks = has_masks(cg), one = tn__cg_lanes(type) == 1;
  if (nan != NULL && (one || masks)) return LLVMBuildSelect(at, is_nan, nan, v, "");
  if (one) return LLVMBuildSelect(at, is_nan, tn__cg_float(type, NAN), v, "");
  LLVMValueRef all = LLVMBuildBitCast(at, v, bits, "");
  if (masks)
    all = LLVMBuildSelect(at, is_nan, tn__cg_int(bits, -1), all, "");
  else
    all = LLVMBuildOr(at, all, LLVMBuildSExt(at, is_nan, bits, ""), "");
  return LLVMBuildBitCast(at, all, type, "");
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static LLVMValueRef one_of(tn__cg *cg, bool is_max, LLVMValueRef first, LLVMValueRef second) {
  LLVMRealPredicate better = is_max ? LLVMRealOGT : LLVMRealOLT;
  return LLVMBuildSelect(cg->builder, LLVMBuildFCmp(cg->builder, better, first, second, ""), first, second, "");
}

/* No number is less, or more: the other operand is the result, also where it is NaN. */
static bool is_identity(LLVMValueRef v, bool is_max) {
  return LLVMIsConstant(v) && v == tn__cg_float(LLVMTypeOf(v), is_max ? -INFINITY : INFINITY);
}

static tn__cg_value make(extremum *x, int i) {
  node *n = &x->nodes[i];
  if (n->made) return n->value;
  n->made = true;
  if (n->args[0] < 0) {
    n->value = tn__cg_expr(x->cg, n->e);
    if (n->e == x->kept && n->kept && x->kept_value != NULL) n->value.v = x->kept_value;
    x->loads = x->loads || n->value.loads;
    if (!n->kept && may_be_nan(n->e)) test(x, &n->value);
    return n->value;
  }
  tn__cg_value a = make(x, n->args[0]), b = make(x, n->args[1]);
  int lanes = a.lanes > b.lanes ? a.lanes : b.lanes;
  LLVMValueRef v[2] = {tn__cg_widen(x->cg, a, lanes), tn__cg_widen(x->cg, b, lanes)};
  bool is_max = n->e->kind == TN__EXPR_MAX;
  for (int side = 0; side < 2; side++)
    if (is_identity(v[side], is_max)) return n->value = (tn__cg_value){.v = v[1 - side], .lanes = lanes};
  bool turned = x->nodes[n->args[0]].kept || (!x->nodes[n->args[1]].kept && LLVMIsConstant(v[1]));
  n->value = (tn__cg_value){.v = one_of(x->cg, is_max, v[turned], v[!turned]), .lanes = lanes};
  return n->value;
}

bool tn__cg_extremum(tn__cg *cg, const tn__expr *e, tn__cg_value *out) {
  if (!tn__ir_is_float_extremum(e) || tn__target_can(cg->target, TN__CAN_KEEP_NAN)) return false;
  extremum x = {.cg = cg, .kept = NULL};
  add_node(&x, e, true);
  for (int i = 0; i < x.count && x.kept == NULL; i++) {
    const tn__expr *part = x.nodes[i].e;
    if (part->kind == TN__EXPR_LOAD && part->value.buffer == cg->frame->stored) x.kept = part;
  }
  choose_way(&x);
  *out = make(&x, x.count - 1);
  out->loads = x.loads;
  LLVMValueRef found = all_found(&x, out->lanes), nan = NULL;
  if (x.tested == 1 && LLVMTypeOf(x.only) == LLVMTypeOf(out->v)) nan = x.only;
  if (found != NULL) out->v = with_nan(cg, out->v, found, nan);
  return true;
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */
/* Beside a slot that takes up minima or maxima there is another of what was found: in a register for masks which lanes
 * are still none, so that a comparison takes it up itself; elsewhere NaN, or what is no more than any number. */

struct tn__cg_taint {
  bool masks;
  LLVMValueRef slot;
  /* In this block: what the slot got, if that is a number, and what was tested last, and by itself, since it is tested
   * again together with what comes next. */
  LLVMBasicBlockRef block;
  LLVMValueRef number, before, last;
};

bool tn__cg_taints(tn__cg *cg, const tn__buffer *buffer, const tn__expr *const *indices, const tn__expr *value) {
  if (tn__target_can(cg->target, TN__CAN_KEEP_NAN) || !tn__ir_is_float_extremum(value) ||
      (value->dtype != TN_F32 && value->dtype != TN_F64))
    return false;
  const tn__expr *load = tn__ir_load(cg->ir, buffer, indices);
  extremum x = {.cg = cg};
  add_node(&x, value, true);
  for (int i = 0; i < x.count; i++)
    if (x.nodes[i].e == load) return true;
  return false;
}

static LLVMTypeRef taint_type(tn__cg *cg, bool masks, LLVMTypeRef slot) {
  return masks ? tn__cg_like(slot, cg->i1) : slot;
}

void tn__cg_taint_slots(tn__cg *cg, tn__cg_storage *storage, LLVMTypeRef slot) {
  bool wide = tn__cg_element(slot) == cg->f64, masks = storage->slot_lanes > 1 && has_masks(cg);
  int lanes = cg->target->cpu.vector_bytes / (wide ? 8 : 4);
  int each = (storage->slot_lanes + lanes - 1) / lanes, registers = each * storage->slot_count;
  if (registers > tn__target_nan_registers(cg->target)) return;
  storage->taints = TN__NEW_ARRAY(cg->arena, storage->slot_count, struct tn__cg_taint);
  for (int i = 0; i < storage->slot_count; i++)
    storage->taints[i] =
        (struct tn__cg_taint){.masks = masks, .slot = tn__cg_alloca(cg, taint_type(cg, masks, slot), 1, 0)};
}

/* No NaN in any lane, whatever runs. */
static bool is_known_number(LLVMValueRef v) {
  LLVMTypeRef type = LLVMTypeOf(v);
  bool wide = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
  if (!LLVMIsConstant(v)) return false;
  for (unsigned i = 0; i < (wide ? LLVMGetVectorSize(type) : 1); i++) {
    LLVMValueRef one = wide ? LLVMGetAggregateElement(v, i) : v;
    LLVMBool inexact;
    if (one == NULL || LLVMIsAConstantFP(one) == NULL || isnan(LLVMConstRealGetDouble(one, &inexact))) return false;
  }
  return true;
}

void tn__cg_taint_clear(tn__cg *cg, const tn__cg_storage *storage, int slot, LLVMValueRef v) {
  if (storage->taints == NULL) return;
  struct tn__cg_taint *taint = &storage->taints[slot];
  LLVMTypeRef type = LLVMTypeOf(v);
  taint->last = NULL;
  taint->block = LLVMGetInsertBlock(cg->builder);
  taint->number = is_known_number(v) ? v : NULL;
  LLVMValueRef none = taint->masks ? tn__cg_int(taint_type(cg, true, type), -1) : tn__cg_float(type, -INFINITY);
  if (!taint->masks && !is_known_number(v))
    none = with_nan(cg, none, LLVMBuildFCmp(cg->builder, LLVMRealUNO, v, v, ""), NULL);
  LLVMBuildStore(cg->builder, none, taint->slot);
}

LLVMValueRef tn__cg_tainted(tn__cg *cg, const tn__cg_storage *storage, int slot, LLVMValueRef v) {
  if (storage->taints == NULL) return v;
  const struct tn__cg_taint *taint = &storage->taints[slot];
  LLVMTypeRef type = LLVMTypeOf(v);
  LLVMValueRef t = LLVMBuildLoad2(cg->builder, taint_type(cg, taint->masks, type), taint->slot, "");
  if (!taint->masks) return one_of(cg, true, v, t);
  return with_nan(cg, v, LLVMBuildNot(cg->builder, t, ""), NULL);
}

/* Which lanes are to be tainted becomes a part of the taint that they had. */
static LLVMValueRef taint_with(tn__cg *cg, const struct tn__cg_taint *taint, LLVMValueRef before, LLVMValueRef found) {
  if (!taint->masks) return with_nan(cg, before, found, NULL);
  return LLVMBuildAnd(cg->builder, before, LLVMBuildNot(cg->builder, found, ""), "");
}

static LLVMValueRef taint_by_test(tn__cg *cg, const struct tn__cg_taint *taint, LLVMValueRef before, LLVMValueRef a,
                                  LLVMValueRef b) {
  if (!taint->masks) return with_nan(cg, before, LLVMBuildFCmp(cg->builder, LLVMRealUNO, a, b, ""), NULL);
  return LLVMBuildAnd(cg->builder, before, LLVMBuildFCmp(cg->builder, LLVMRealORD, a, b, ""), "");
}

/* Takes up what the expression found: pairs at once, what is left over by itself, so that it may still find another. */
static void take_up(extremum *x, struct tn__cg_taint *taint, LLVMValueRef before, LLVMValueRef mask) {
  tn__cg *cg = x->cg;
  LLVMValueRef last = x->waiting[1];
  taint->block = LLVMGetInsertBlock(cg->builder);
  taint->last = taint->number = NULL;
  if (mask == NULL) x->waiting[1] = NULL;
  LLVMValueRef found = all_found(x, tn__cg_lanes(LLVMTypeOf(before)));
  if (found != NULL) {
    if (mask != NULL) found = LLVMBuildAnd(cg->builder, mask, found, "");
    before = taint_with(cg, taint, before, found);
  }
  if (mask == NULL && last != NULL) {
    taint->before = before;
    taint->last = last;
    before = taint_by_test(cg, taint, before, last, last);
  }
  LLVMBuildStore(cg->builder, before, taint->slot);
}

bool tn__cg_take_extremum(tn__cg *cg, tn__cg_storage *storage, int slot, LLVMTypeRef type, const tn__expr *load,
                          const tn__expr *value) {
  struct tn__cg_taint *taint = storage->taints == NULL ? NULL : &storage->taints[slot];
  if (taint == NULL || !tn__ir_is_float_extremum(value)) return false;
  bool here = taint->block == LLVMGetInsertBlock(cg->builder);
  LLVMValueRef mask = storage->guarded ? NULL : cg->frame->mask;
  LLVMValueRef raw = here ? taint->number : NULL;
  if (raw == NULL) raw = LLVMBuildLoad2(cg->builder, type, storage->slots[slot], "");
  extremum x = {.cg = cg, .kept = load, .kept_value = raw};
  int root = add_node(&x, value, true), at = 0;
  while (at < x.count && x.nodes[at].e != load) at++;
  if (at == x.count) return false;
  choose_way(&x);
  LLVMValueRef before = LLVMBuildLoad2(cg->builder, taint_type(cg, taint->masks, type), taint->slot, "");
  if (here && taint->last != NULL && mask == NULL) {
    x.waiting[tn__cg_lanes(type) > 1] = taint->last;
    before = taint->before;
  }
  tn__cg_value made = make(&x, root);
  if (tn__cg_lanes(type) == 1) x.waiting[1] = x.waiting[0], x.waiting[0] = NULL;
  LLVMValueRef v = tn__cg_widen(cg, made, tn__cg_lanes(type));
  take_up(&x, taint, before, mask);
  if (mask != NULL) v = LLVMBuildSelect(cg->builder, mask, v, raw, "");
  LLVMBuildStore(cg->builder, v, storage->slots[slot]);
  return true;
}
