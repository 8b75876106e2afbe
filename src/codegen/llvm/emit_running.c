/* Running values in a vectorised loop (ir/running.h), whose state is a register: each lane is combined with the one
 * before it, then with the one two before it, and so on, and all of them with what the vector before ended with. */
#include "codegen/llvm/emit.h"
#include "ir/running.h"

enum { MOST_LANES = 256 }; /* of a vectorised loop in a schedule */

static bool stands_still(const tn__stmt *s, const tn__var *lane) {
  for (int d = 0; d < s->as.store.buffer->rank; d++)
    if (tn__expr_uses_var(s->as.store.indices[d], lane)) return false;
  return true;
}

/* The store's running value, where its lanes stand beside each other; false where it is none, or not in this loop. */
TN_MUST_USE static bool is_running(tn__cg *cg, const tn__stmt *s, const tn__var *lane, tn__ir_running *out) {
  const tn__buffer *buffer = s->as.store.buffer;
  int64_t stride;
  if (buffer->scope != TN__SCOPE_REGISTER || lane == NULL || !stands_still(s, lane)) return false;
  if (!tn__ir_running_of(cg->ir, s->as.store.value, buffer, out)) return false;
  if (out->before != tn__ir_load(cg->ir, buffer, s->as.store.indices)) return false;
  return out->follows == NULL || (tn__ir_stride_in(cg->ir, out->follows->args[1], lane, &stride) && stride == 1);
}

bool tn__cg_is_running(tn__cg *cg, const tn__stmt *store, const tn__var *lane) {
  tn__ir_running r;
  return is_running(cg, store, lane, &r);
}

typedef struct running_check {
  tn__cg *cg;
  const tn__var *lane;
  bool carries, fits;
} running_check;

static bool see_store(const tn__stmt *s, void *user) {
  running_check *c = user;
  const tn__buffer *buffer = s->kind == TN__STMT_STORE ? s->as.store.buffer : NULL;
  if (buffer == NULL || buffer->scope != TN__SCOPE_REGISTER || !tn__expr_uses_buffer(s->as.store.value, buffer))
    return true;
  if (!stands_still(s, c->lane)) return true;
  c->carries = true;
  const tn__cg_binding *binding = tn__cg_find(c->cg, buffer);
  c->fits &= binding != NULL && binding->storage->slots != NULL && binding->storage->slot_lanes == 1 &&
             tn__cg_is_running(c->cg, s, c->lane);
  return true;
}

bool tn__cg_runs_as_vector(tn__cg *cg, const tn__stmt *loop) {
  running_check c = {.cg = cg, .lane = loop->as.loop.var, .fits = true};
  tn__stmt_walk(loop->as.loop.body, see_store, &c);
  return !c.carries || c.fits;
}

/* Lane l of the result is lane l - by, and of the first ones what changes nothing: zero or one for sums and products,
 * the lane itself for what may be taken twice. */
static LLVMValueRef moved_up(tn__cg *cg, const tn__expr *combine, LLVMValueRef v, int lanes, int by) {
  int indices[MOST_LANES];
  bool counts = combine->kind == TN__EXPR_ADD || combine->kind == TN__EXPR_MUL;
  LLVMTypeRef type = LLVMGetElementType(LLVMTypeOf(v));
  LLVMValueRef other = v;
  if (counts) other = tn__cg_broadcast(cg, LLVMConstInt(type, combine->kind == TN__EXPR_MUL ? 1 : 0, false), lanes);
  for (int i = 0; i < lanes; i++) indices[i] = i >= by ? i - by : counts ? lanes + i : i;
  return tn__cg_shuffle(cg, v, other, indices, lanes);
}

/* What follows a vector takes its last lane in all of its own, which stay in a register of vectors: from one of scalars
 * it would take longer. */
void tn__cg_running_states(tn__cg *cg, tn__cg_storage *storage, int lanes) {
  LLVMTypeRef type = tn__cg_lanes_type(tn__cg_value_type(cg, storage->buffer->dtype), lanes);
  storage->state_lanes = lanes;
  storage->states = TN__NEW_ARRAY(cg->arena, storage->slot_count, LLVMValueRef);
  for (int i = 0; i < storage->slot_count; i++) storage->states[i] = tn__cg_alloca(cg, type, 1, 0);
}

static LLVMValueRef state_before(tn__cg *cg, const tn__cg_storage *storage, int slot, int lanes) {
  LLVMTypeRef type = tn__cg_value_type(cg, storage->buffer->dtype);
  if (storage->states != NULL && storage->state_lanes == lanes)
    return LLVMBuildLoad2(cg->builder, tn__cg_lanes_type(type, lanes), storage->states[slot], "");
  return tn__cg_broadcast(cg, LLVMBuildLoad2(cg->builder, type, storage->slots[slot], ""), lanes);
}

static void keep_state(tn__cg *cg, const tn__cg_storage *storage, int slot, LLVMValueRef all, int lanes) {
  int last[MOST_LANES];
  LLVMValueRef end = LLVMBuildExtractElement(cg->builder, all, tn__cg_int(cg->i32, lanes - 1), "");
  LLVMBuildStore(cg->builder, end, storage->slots[slot]);
  if (storage->states == NULL) return;
  for (int i = 0; i < storage->state_lanes; i++) last[i] = lanes - 1;
  LLVMBuildStore(cg->builder, tn__cg_shuffle(cg, all, all, last, storage->state_lanes), storage->states[slot]);
}

bool tn__cg_running_store(tn__cg *cg, tn__cg_storage *storage, const tn__stmt *s, int slot) {
  tn__ir_running r;
  const tn__cg_frame *frame = cg->frame;
  const int lanes = frame->lanes;
  if (lanes < 2 || lanes > MOST_LANES || !is_running(cg, s, frame->lane, &r)) return false;
  const tn__expr *term = r.term;
  if (r.follows != NULL) term = tn__ir_select(cg->ir, r.follows, term, r.first);
  LLVMValueRef all = tn__cg_widen(cg, tn__cg_expr(cg, term), lanes);
  for (int by = 1; by < lanes; by *= 2) all = tn__cg_arith(cg, r.combine, moved_up(cg, r.combine, all, lanes, by), all);
  LLVMValueRef on = tn__cg_arith(cg, r.combine, state_before(cg, storage, slot, lanes), all);
  if (r.follows != NULL) {
    const tn__var *lane = frame->lane;
    const tn__expr *follows = tn__ir_substitute(cg->ir, r.follows, &lane, &lane->min, 1);
    on = LLVMBuildSelect(cg->builder, tn__cg_scalar(cg, follows), on, all, "");
  }
  keep_state(cg, storage, slot, on, lanes);
  storage->running = on;
  storage->running_slot = slot;
  cg->frame->running = storage;
  return true;
}
