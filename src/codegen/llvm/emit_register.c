/* Register buffers: as many SSA values as it takes, each the width of the buffer's vectorised accesses. */
#include "codegen/llvm/emit.h"

enum { MOST_INSIDE = 32 };

enum { MOST_ROWS = 64 }; /* of a tile that is read by columns, and lanes of its rows */

/* What the accesses to one buffer look like. */
typedef struct usage {
  tn__cg *cg;
  const tn__buffer *buffer;
  const tn__var *lane; /* of the vectorised loop around the access */
  int lanes;
  bool in_parallel, fits;
  const tn__var *inside[MOST_INSIDE]; /* variables bound in the buffer's scope */
  int inside_count;
  const tn__expr *guard;      /* of lanes, around the access; NULL: none */
  const tn__expr *all_guards; /* of all accesses, of the first one's lanes */
  const tn__var *guarded_lane;
  bool guards_differ;
  int64_t elements;
  int width;          /* of the widest vectorised access */
  bool takes_extrema; /* of elements and of something else */
  int running_lanes;  /* of vectors of a running value; 0: there is none */
  int checked_width;  /* second walk: do all accesses stay inside of slots of this width? */
} usage;

/* The elements that one access covers: `count` of them, `stride` apart. */
typedef struct span {
  int64_t first, stride;
  int count;
} span;

TN_MUST_USE static bool find_span(tn__cg *cg, const tn__expr *linear, const tn__var *lane, int lanes, span *out) {
  *out = (span){.stride = 1, .count = 1};
  if (lane != NULL && tn__expr_uses_var(linear, lane)) {
    int64_t stride;
    if (!tn__ir_stride_in(cg->ir, linear, lane, &stride) || stride < 0) return false;
    linear = tn__ir_substitute(cg->ir, linear, &lane, &lane->min, 1);
    if (stride > 0) *out = (span){.stride = stride, .count = lanes};
  }
  return tn__ir_as_int(linear, &out->first);
}

/* Is this the same lane of one slot after the other: a column of the tile that they make up? */
static bool is_column(const span *s) { return s->count > 1 && s->stride > 1; }

/* Are all lanes of a slot that an access leaves out left out by all others? Nobody reads them, then. */
static void see_guard(usage *u, const span *s) {
  const tn__expr *guard = u->guard;
  if (guard == NULL || s->count != u->lanes || s->stride != 1 || s->first % s->count != 0 || tn__expr_has_load(guard) ||
      (u->all_guards != NULL && u->lane->min != u->guarded_lane->min)) {
    u->guards_differ = true;
    return;
  }
  for (int i = 0; i < u->inside_count; i++)
    if (u->inside[i] != u->lane && tn__expr_uses_var(guard, u->inside[i])) u->guards_differ = true;
  if (u->all_guards == NULL) {
    u->all_guards = guard;
    u->guarded_lane = u->lane;
    return;
  }
  if (tn__ir_substitute(u->cg->ir, guard, &u->lane, &u->guarded_lane->self, 1) != u->all_guards)
    u->guards_differ = true;
}

static void see_access(usage *u, const tn__expr *const *indices, bool is_store) {
  span s;
  const tn__expr *linear = tn__ir_flatten(u->cg->ir, u->buffer->shape, indices, u->buffer->rank);
  if (u->in_parallel || !find_span(u->cg, linear, u->lane, u->lanes, &s) || s.first < 0) {
    u->fits = false;
    return;
  }
  int64_t width = u->checked_width;
  see_guard(u, &s);
  if (is_column(&s)) {
    if (is_store || s.count > MOST_ROWS || s.first + (s.count - 1) * s.stride >= u->elements) u->fits = false;
    if (width > 0 && (s.stride % width != 0 || width == 1 || width > MOST_ROWS)) u->fits = false;
    return;
  }
  if (is_store && s.count == 1 && u->lanes > 1) u->fits = false; /* several lanes, one element: memory sorts that out */
  if (s.count > u->width) u->width = s.count;
  if (width == 0) return;
  int64_t slots = (u->elements + width - 1) / width, last = (s.first + s.count - 1) / width;
  if (s.first / width != last || last >= slots) u->fits = false;
}

static void see_expr(usage *u, const tn__expr *e) {
  if (!u->fits || !tn__expr_uses_buffer(e, u->buffer)) return;
  if (e->kind == TN__EXPR_LOAD && e->value.buffer == u->buffer) see_access(u, e->args, false);
  for (int i = 0; i < e->arg_count; i++) see_expr(u, e->args[i]);
}

static void see_stmt(usage *u, const tn__stmt *s);

static void see_inside(usage *u, const tn__var *var, const tn__stmt *body) {
  if (u->inside_count == MOST_INSIDE)
    u->guards_differ = true;
  else
    u->inside[u->inside_count++] = var;
  see_stmt(u, body);
  if (u->inside_count > 0 && u->inside[u->inside_count - 1] == var) u->inside_count--;
}

static void see_branch(usage *u, const tn__stmt *s) {
  const tn__expr *outer = u->guard, *condition = s->as.branch.condition;
  see_expr(u, condition);
  if (u->lane != NULL && tn__expr_uses_var(condition, u->lane)) {
    u->guards_differ |= outer != NULL || s->as.branch.else_body != NULL;
    u->guard = condition;
  }
  see_stmt(u, s->as.branch.then_body);
  if (s->as.branch.else_body != NULL) see_stmt(u, s->as.branch.else_body);
  u->guard = outer;
}

static void see_stmt(usage *u, const tn__stmt *s) {
  if (!u->fits) return;
  switch (s->kind) {
    case TN__STMT_FOR: {
      usage outer = *u;
      if (s->as.loop.kind == TN__LOOP_PARALLEL) u->in_parallel = true;
      if (tn__cg_vectorizes(s, u->lane, &u->lanes)) u->lane = s->as.loop.var;
      see_inside(u, s->as.loop.var, s->as.loop.body);
      u->in_parallel = outer.in_parallel;
      u->lane = outer.lane;
      u->lanes = outer.lanes;
      return;
    }
    case TN__STMT_STORE:
      for (int i = 0; i < s->as.store.buffer->rank; i++) see_expr(u, s->as.store.indices[i]);
      see_expr(u, s->as.store.value);
      if (s->as.store.buffer == u->buffer && u->lanes > 1 && tn__cg_is_running(u->cg, s, u->lane)) {
        u->guards_differ = true; /* one element, which the last lane ends with */
        u->running_lanes = u->lanes;
      } else if (s->as.store.buffer == u->buffer) {
        see_access(u, s->as.store.indices, true);
        u->takes_extrema |= tn__cg_taints(u->cg, u->buffer, s->as.store.indices, s->as.store.value);
      }
      return;
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++) see_stmt(u, s->as.seq.items[i]);
      return;
    case TN__STMT_IF: see_branch(u, s); return;
    case TN__STMT_LET:
      see_expr(u, s->as.let.value);
      see_inside(u, s->as.let.var, s->as.let.body);
      return;
    case TN__STMT_ALLOC: see_stmt(u, s->as.alloc.body); return;
    case TN__STMT_TENSOR: /* its operands have addresses */
      for (int i = 0; i < tn__ir_tensor_operand_count(s->as.tensor.op); i++)
        if (s->as.tensor.operands[i].buffer == u->buffer) u->fits = false;
      see_stmt(u, s->as.tensor.body);
      return;
    case TN__STMT_WHILE:
      see_expr(u, s->as.repeat.condition);
      see_stmt(u, s->as.repeat.body);
      return;
    default: return;
  }
}

static int64_t element_count(tn__cg *cg, const tn__buffer *buffer) {
  int64_t count = 1;
  for (int i = 0; i < buffer->rank; i++) {
    int64_t extent;
    if (!tn__ir_as_int(buffer->shape[i], &extent))
      tn__cg_fail(cg, "buffer %s has a symbolic shape but is not in memory", buffer->name);
    if (__builtin_mul_overflow(count, extent, &count)) count = INT64_MAX;
  }
  if (count < 0 || count > 65536) tn__cg_fail(cg, "buffer %s is too large for the stack", buffer->name);
  return count == 0 ? 1 : count;
}

static void put_on_stack(tn__cg *cg, tn__cg_storage *storage, int64_t count) {
  storage->alignment = TN_KERNEL_ALIGNMENT;
  storage->base = tn__cg_alloca(cg, tn__cg_memory_type(cg, storage->buffer->dtype), count, TN_KERNEL_ALIGNMENT);
}

tn__cg_storage *tn__cg_register_storage(tn__cg *cg, const tn__buffer *buffer, const tn__stmt *scope) {
  tn__cg_storage *storage = TN__NEW(cg->arena, tn__cg_storage);
  storage->buffer = buffer;
  int64_t count = element_count(cg, buffer);
  usage u = {.cg = cg, .buffer = buffer, .lanes = 1, .fits = true, .elements = count, .width = 1};
  u.lane = cg->frame->lane;
  u.lanes = cg->frame->lanes;
  if (u.fits) see_stmt(&u, scope);
  u.checked_width = u.width;
  if (u.fits) see_stmt(&u, scope);
  /* Stack buffers become values, too, where that is possible and they are few. */
  int64_t most = buffer->scope == TN__SCOPE_REGISTER ? 4096 : 16;
  if (!u.fits || (count + u.width - 1) / u.width > most) {
    put_on_stack(cg, storage, count);
    return storage;
  }
  storage->slot_lanes = u.width;
  storage->slot_count = (int)((count + u.width - 1) / u.width);
  storage->slots = TN__NEW_ARRAY(cg->arena, storage->slot_count, LLVMValueRef);
  LLVMTypeRef type = tn__cg_lanes_type(tn__cg_value_type(cg, buffer->dtype), u.width);
  for (int i = 0; i < storage->slot_count; i++) {
    storage->slots[i] = tn__cg_alloca(cg, type, 1, 0);
    /* What is stored in part leaves lanes that are computed with and never read. Undefined, they would hold what the
     * register had before, perhaps numbers below the normal range, of which each operation takes a hundred cycles. */
    if (u.width > 1) LLVMBuildStore(cg->builder, LLVMConstNull(type), storage->slots[i]);
  }
  storage->guarded = !u.guards_differ && u.all_guards != NULL;
  if (u.running_lanes > 0 && u.width == 1) tn__cg_running_states(cg, storage, u.running_lanes);
  if (u.takes_extrema) tn__cg_taint_slots(cg, storage, type);
  return storage;
}

static LLVMTypeRef slot_type(tn__cg *cg, const tn__cg_storage *storage) {
  return tn__cg_lanes_type(tn__cg_value_type(cg, storage->buffer->dtype), storage->slot_lanes);
}

static span span_of(tn__cg *cg, const tn__cg_storage *storage, const tn__expr *linear) {
  span s = {0};
  if (!find_span(cg, linear, cg->frame->lane, cg->frame->lanes, &s))
    tn__cg_fail(cg, "an access to register buffer %s has no constant place", storage->buffer->name);
  return s;
}

static LLVMValueRef slot_value(tn__cg *cg, const tn__cg_storage *storage, int slot) {
  LLVMValueRef v = LLVMBuildLoad2(cg->builder, slot_type(cg, storage), storage->slots[slot], "");
  return tn__cg_tainted(cg, storage, slot, v);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* Columns of some slots, as they were in one version of them. */
struct tn__cg_columns {
  LLVMBasicBlockRef block; /* what is made here may be used here, and perhaps nowhere else but where it joins */
  uint64_t version;
  int64_t first_slot, step;
  int count;
  LLVMValueRef column[MOST_ROWS];
};

/* All columns are made at once, when the first of them is asked for. */
static LLVMValueRef column_of(tn__cg *cg, tn__cg_storage *storage, const span *s) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(cg->builder);
  if (here == cg->frame->join) here = cg->frame->parted;
  struct tn__cg_columns *made = storage->columns;
  int64_t slot = s->first / storage->slot_lanes, step = s->stride / storage->slot_lanes;
  if (made == NULL) made = storage->columns = TN__NEW(cg->arena, struct tn__cg_columns);
  if (made->block != here || made->version != storage->version || made->first_slot != slot || made->step != step ||
      made->count != s->count) {
    LLVMValueRef rows[MOST_ROWS];
    for (int i = 0; i < s->count; i++) rows[i] = slot_value(cg, storage, (int)(slot + i * step));
    tn__cg_transpose(cg, rows, s->count, storage->slot_lanes, made->column);
    made->block = here;
    made->version = storage->version;
    made->first_slot = slot;
    made->step = step;
    made->count = s->count;
  }
  return made->column[s->first % storage->slot_lanes];
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

tn__cg_value tn__cg_register_load(tn__cg *cg, tn__cg_storage *storage, const tn__expr *linear) {
  span s = span_of(cg, storage, linear);
  if (storage->running != NULL && s.count == 1 && s.first == storage->running_slot)
    return (tn__cg_value){.v = storage->running, .lanes = cg->frame->lanes, .loads = true};
  if (is_column(&s)) return (tn__cg_value){.v = column_of(cg, storage, &s), .lanes = s.count, .loads = true};
  LLVMValueRef slot = slot_value(cg, storage, (int)(s.first / storage->slot_lanes));
  return (tn__cg_value){
      .v = tn__cg_slice(cg, slot, (int)(s.first % storage->slot_lanes), s.count), .lanes = s.count, .loads = true};
}

void tn__cg_register_store(tn__cg *cg, const tn__cg_storage *storage, const tn__expr *linear, tn__cg_value value) {
  span s = span_of(cg, storage, linear);
  int slot = (int)(s.first / storage->slot_lanes), place = (int)(s.first % storage->slot_lanes);
  LLVMValueRef memory = storage->slots[slot], part = tn__cg_widen(cg, value, s.count);
  LLVMValueRef mask = storage->guarded ? NULL : cg->frame->mask;
  LLVMValueRef before = NULL;
  if (mask != NULL || s.count < storage->slot_lanes) before = slot_value(cg, storage, slot);
  if (mask != NULL) {
    LLVMValueRef condition = s.count == 1 ? tn__cg_any(cg, mask) : mask;
    part = LLVMBuildSelect(cg->builder, condition, part, tn__cg_slice(cg, before, place, s.count), "");
  }
  LLVMValueRef all = before == NULL ? part : tn__cg_splice(cg, before, part, place);
  LLVMBuildStore(cg->builder, all, memory);
  if (storage->states != NULL)
    LLVMBuildStore(cg->builder, tn__cg_broadcast(cg, all, storage->state_lanes), storage->states[slot]);
  tn__cg_taint_clear(cg, storage, slot, all);
}

bool tn__cg_register_take(tn__cg *cg, tn__cg_storage *storage, const tn__stmt *store) {
  const tn__expr *const *indices = store->as.store.indices;
  bool runs = cg->frame->lanes > 1 && tn__cg_is_running(cg, store, cg->frame->lane);
  if (storage->taints == NULL && !runs) return false;
  span s = span_of(cg, storage, tn__buffer_flatten(cg->ir, storage->buffer, indices));
  if (runs) return tn__cg_running_store(cg, storage, store, (int)s.first);
  if (s.count != storage->slot_lanes || s.stride != 1 || s.first % s.count != 0) return false;
  const tn__expr *load = tn__ir_load(cg->ir, storage->buffer, indices);
  return tn__cg_take_extremum(cg, storage, (int)(s.first / s.count), slot_type(cg, storage), load,
                              store->as.store.value);
}
