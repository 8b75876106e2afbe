/* Runs the register code of bytecode.h. Every access is checked against the buffer's shape. */
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "ir/bytecode.h"
#include "ir/context.h"
#include "ir/text.h"
#include "tenon/kernel_abi.h"

/* One iteration of a loop over blocks or threads, in the tree of what runs side by side. Strand 0 is what stands
 * outside of all of them. */
typedef struct strand {
  int32_t parent; /* the strand that forked it */
  int32_t loop;   /* a number for the run of the loop; two strands of one run have no order */
  int32_t depth;
  tn__loop_kind kind;
  int64_t index;
} strand;

/* The last strands that touched an element; 0: none, or one outside of all loops over blocks and threads. */
typedef struct touch {
  int32_t writer, reader;
} touch;

typedef struct memory {
  void *data;
  double *wide; /* what reductions see in its place */
  int64_t *dims;
  int64_t count; /* elements */
  int rank;
  size_t capacity, wide_capacity; /* bytes of own memory */
  touch *touched;                 /* of each element; NULL: none is */
} memory;

typedef struct machine {
  const tn__code *code;
  const tn__func *func;
  tn__arena *arena;
  tn__scalar *registers;
  memory *memories;
  void *const *params;
  TN__VEC(strand) strands; /* from 0 on */
  int32_t running;         /* the strand that runs */
  int32_t loops;           /* runs of loops over blocks and threads so far */
  int64_t operations_left; /* negative: no limit */
  tn_status *status;
} machine;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static const tn__buffer *buffer_of(const machine *m, int32_t place) { return m->code->buffers[place].buffer; }

static bool fail(machine *m, tn_status *status) {
  m->status = status;
  return false;
}

static bool set_shape(machine *m, const tn__insn *insn) {
  const tn__buffer *buffer = buffer_of(m, insn->a);
  memory *mem = &m->memories[insn->a];
  mem->count = 1;
  mem->touched = NULL;
  for (int i = 0; i < buffer->rank; i++) {
    int64_t dim = m->registers[m->code->operands[insn->b + i]].i;
    if (dim < 0 || __builtin_mul_overflow(mem->count, dim, &mem->count) || mem->count > INT64_MAX / 16)
      return fail(m, tn_status_create(TN_OUT_OF_RANGE, "%s: dimension %d of %s is %lld", m->func->name, i, buffer->name,
                                      (long long)dim));
    mem->dims[i] = dim;
  }
  return true;
}

/* Memory of at least `size` bytes, all ones: NaN, -1 and true, so that what is read before it is written stands out. */
static void *poisoned(machine *m, void *old, size_t *capacity, size_t size) {
  if (size > *capacity || old == NULL) {
    old = tn__arena_alloc(m->arena, size);
    *capacity = size;
  }
  memset(old, 0xff, size);
  return old;
}

static bool allocate(machine *m, const tn__insn *insn) {
  if (!set_shape(m, insn)) return false;
  memory *mem = &m->memories[insn->a];
  if (m->code->buffers[insn->a].wide)
    mem->wide = poisoned(m, mem->wide, &mem->wide_capacity, (size_t)mem->count * sizeof(double));
  else
    mem->data =
        poisoned(m, mem->data, &mem->capacity, (size_t)mem->count * tn_dtype_size(buffer_of(m, insn->a)->dtype));
  return true;
}

static bool bind_parameter(machine *m, const tn__insn *insn) {
  if (!set_shape(m, insn)) return false;
  memory *mem = &m->memories[insn->a];
  mem->data = m->params[insn->a];
  if (!m->code->buffers[insn->a].wide) return true;
  mem->wide = tn__arena_alloc_array(m->arena, (size_t)mem->count, sizeof(double));
  for (int64_t i = 0; i < mem->count; i++) mem->wide[i] = tn__load_f64(buffer_of(m, insn->a)->dtype, mem->data, i);
  return true;
}

static void write_back(const machine *m) {
  for (int i = 0; i < m->code->buffer_count; i++) {
    const memory *mem = &m->memories[i];
    if (mem->wide == NULL || buffer_of(m, i)->scope != TN__SCOPE_PARAM) continue;
    for (int64_t k = 0; k < mem->count; k++) tn__store_f64(buffer_of(m, i)->dtype, mem->data, k, mem->wide[k]);
  }
}

/* ---- races ------------------------------------------------------------------------------------------------------- */

static void fork_loop(machine *m, const tn__insn *insn) {
  if (m->strands.count == 0) tn__vec_push(m->arena, &m->strands, (strand){.kind = TN__LOOP_SERIAL});
  m->registers[insn->a].i = m->running;
  m->registers[insn->dst].i = ++m->loops;
}

static void begin_strand(machine *m, const tn__insn *insn) {
  int32_t parent = (int32_t)m->registers[insn->a].i;
  TN__INVARIANT(m->strands.data != NULL); /* fork_loop came before */
  strand s = {.parent = parent,
              .loop = (int32_t)m->registers[insn->b].i,
              .depth = m->strands.data[parent].depth + 1,
              .kind = (tn__loop_kind)insn->imm,
              .index = m->registers[insn->c].i};
  tn__vec_push(m->arena, &m->strands, s);
  m->running = m->strands.count - 1;
}

/* Do the strands, or those that they came from, belong to one run of a loop? Then these are in *a and *b. */
TN_MUST_USE static bool are_side_by_side(const machine *m, int32_t *a, int32_t *b) {
  const strand *all = m->strands.data;
  TN__INVARIANT(all != NULL); /* there are strands whose accesses are compared */
  while (all[*a].depth > all[*b].depth) *a = all[*a].parent;
  while (all[*b].depth > all[*a].depth) *b = all[*b].parent;
  while (all[*a].loop != all[*b].loop) *a = all[*a].parent, *b = all[*b].parent;
  return *a != *b;
}

static void report_race(machine *m, const tn__insn *insn, int32_t before, bool wrote, int32_t now) {
  const memory *mem = &m->memories[insn->a];
  const strand *a = &m->strands.data[before], *b = &m->strands.data[now];
  const char *kind = tn__loop_kind_name(a->kind), *place = "";
  for (int i = 0; i < mem->rank; i++)
    place = tn__arena_printf(m->arena, "%s%s%lld", place, i > 0 ? ", " : "",
                             (long long)m->registers[m->code->operands[insn->b + i]].i);
  fail(m, tn_status_create(TN_INTERNAL, "%s: %s %lld %s %s[%s], and %s %lld %s it, %s", m->func->name, kind,
                           (long long)a->index, wrote ? "writes" : "reads", buffer_of(m, insn->a)->name, place, kind,
                           (long long)b->index, insn->imm ? "writes" : "reads",
                           tn__ir_loop_is_thread(a->kind) ? "with no barrier between" : "and blocks have no order"));
}

static inline int64_t locate(machine *m, const tn__insn *insn);

/* Watches for races as SP-bags do (Feng and Leiserson, 1997): strands run one after the other here, so an element needs
 * its last writer and one reader. A reader side by side with the one before is not kept: whatever has no order with it
 * has none with the other either. */
static bool watch(machine *m, const tn__insn *insn) {
  int64_t at = locate(m, insn);
  if (at < 0) return false;
  memory *mem = &m->memories[insn->a];
  if (mem->touched == NULL) mem->touched = TN__NEW_ARRAY(m->arena, mem->count, touch);
  touch *t = &mem->touched[at];
  int32_t now = m->running, before = t->writer;
  if (are_side_by_side(m, &before, &now)) {
    report_race(m, insn, before, true, now);
    return false;
  }
  now = m->running, before = t->reader;
  bool no_order = are_side_by_side(m, &before, &now);
  if (no_order && insn->imm) {
    report_race(m, insn, before, false, now);
    return false;
  }
  if (insn->imm)
    t->writer = m->running;
  else if (!no_order)
    t->reader = m->running;
  return true;
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static bool stores(const tn__insn *insn) {
  return insn->op == TN__OP_WATCH ? insn->imm != 0 : insn->op >= TN__OP_STORE;
}

static void report_index(machine *m, const tn__insn *insn, int dimension, int64_t index) {
  fail(m, tn_status_create(TN_OUT_OF_RANGE, "%s: %s of %s: index %d is %lld, outside of [0, %lld)", m->func->name,
                           stores(insn) ? "store" : "load", buffer_of(m, insn->a)->name, dimension, (long long)index,
                           (long long)m->memories[insn->a].dims[dimension]));
}

/* The place of an element, or -1 after an index outside of the buffer. */
static inline int64_t locate(machine *m, const tn__insn *insn) {
  const memory *mem = &m->memories[insn->a];
  const int32_t *operands = m->code->operands + insn->b;
  int64_t at = 0;
  for (int i = 0; i < mem->rank; i++) {
    int64_t index = m->registers[operands[i]].i;
    if ((uint64_t)index >= (uint64_t)mem->dims[i]) {
      report_index(m, insn, i, index);
      return -1;
    }
    at = at * mem->dims[i] + index;
  }
  return at;
}

static bool access_memory(machine *m, const tn__insn *insn) {
  int64_t at = locate(m, insn);
  if (at < 0) return false;
  const memory *mem = &m->memories[insn->a];
  tn__scalar *r = m->registers;
  switch (insn->op) {
    case TN__OP_LOAD_WIDE: r[insn->dst].f = tn__scalar_round((tn_dtype)insn->dtype, mem->wide[at]); break;
    case TN__OP_LOAD: r[insn->dst] = tn__scalar_load((tn_dtype)insn->dtype, mem->data, at); break;
    case TN__OP_STORE_WIDE: mem->wide[at] = r[insn->c].f; break;
    default: tn__scalar_store((tn_dtype)insn->dtype, mem->data, at, r[insn->c]); break;
  }
  return true;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static tn_status *failure(const machine *m, int code) {
  const char *name = m->func->name;
  switch (code) {
    case TN_KERNEL_INDEX_OUT_OF_RANGE: return tn_status_create(TN_OUT_OF_RANGE, "%s: an index is out of range", name);
    case TN_KERNEL_DIVISION_BY_ZERO: return tn_status_create(TN_OUT_OF_RANGE, "%s: integer division by zero", name);
    case TN_KERNEL_BAD_VALUE:
      return tn_status_create(TN_OUT_OF_RANGE, "%s: a value is outside of what the operator allows", name);
    case TN_KERNEL_CANCELLED: return tn_status_create(TN_CANCELLED, "%s: cancelled", name);
    default: return tn_status_create(TN_INTERNAL, "%s: failed with the unknown code %d", name, code);
  }
}

static bool divide(machine *m, const tn__insn *insn) {
  tn__scalar *r = m->registers;
  int64_t a = r[insn->a].i, b = r[insn->b].i;
  if (b == 0) return fail(m, failure(m, TN_KERNEL_DIVISION_BY_ZERO));
  r[insn->dst].i = insn->op == TN__OP_DIV_I64 ? tn__ir_floordiv_i64(a, b) : tn__ir_floormod_i64(a, b);
  return true;
}

/* What is too rare for the loop below. */
static bool step_other(machine *m, const tn__insn *insn) {
  tn__scalar *r = m->registers;
  tn_dtype dtype = (tn_dtype)insn->dtype;
  switch (insn->op) {
    case TN__OP_DIV_I64:
    case TN__OP_MOD_I64: return divide(m, insn);
    case TN__OP_BINARY:
      if (tn__scalar_binary((tn__expr_kind)insn->imm, dtype, r[insn->a], r[insn->b], &r[insn->dst])) return true;
      return fail(m, failure(m, TN_KERNEL_DIVISION_BY_ZERO));
    case TN__OP_NOT: r[insn->dst] = tn__scalar_not(dtype, r[insn->a]); return true;
    case TN__OP_CAST: r[insn->dst] = tn__scalar_cast(dtype, (tn_dtype)insn->imm, r[insn->a]); return true;
    case TN__OP_BITCAST: r[insn->dst] = tn__scalar_bitcast(dtype, (tn_dtype)insn->imm, r[insn->a]); return true;
    case TN__OP_CALL: {
      tn__scalar args[3] = {r[insn->a], r[insn->b], r[insn->c]};
      r[insn->dst] = tn__scalar_call((tn__intrinsic)insn->imm, dtype, args);
      return true;
    }
    case TN__OP_SHAPE: return bind_parameter(m, insn);
    case TN__OP_ALLOC: return allocate(m, insn);
    case TN__OP_FORK: fork_loop(m, insn); return true;
    case TN__OP_STRAND: begin_strand(m, insn); return true;
    case TN__OP_JOIN: m->running = (int32_t)r[insn->a].i; return true;
    case TN__OP_WATCH: return watch(m, insn);
    case TN__OP_FAIL: return fail(m, failure(m, insn->imm));
    default: return fail(m, tn_status_create(TN_INTERNAL, "the interpreter met operation %d", insn->op));
  }
}

/* Counts a round of a loop; false when the limit is passed. */
static bool count_round(machine *m, int64_t operations) {
  if (m->operations_left < 0) return true;
  if (operations < m->operations_left) {
    m->operations_left -= operations;
    return true;
  }
  return fail(m, tn_status_create(TN_CANCELLED, "%s: more operations than allowed", m->func->name));
}

#define BINARY_I(name, value) \
  case TN__OP_##name:         \
    r[p->dst].i = (value);    \
    p++;                      \
    break;
#define BINARY_F(name, value) \
  case TN__OP_##name:         \
    r[p->dst].f = (value);    \
    p++;                      \
    break;

#define ACCESS(name, action)   \
  case TN__OP_##name: {        \
    int64_t at = locate(m, p); \
    if (at < 0) return false;  \
    action;                    \
    p++;                       \
    break;                     \
  }

static bool step_through(machine *m) {
  const tn__insn *p = m->code->insns;
  tn__scalar *r = m->registers;
  for (;;) {
    switch (p->op) {
      BINARY_I(ADD_I64, tn__ir_wrap_add(r[p->a].i, r[p->b].i))
      BINARY_I(SUB_I64, (int64_t)((uint64_t)r[p->a].i - (uint64_t)r[p->b].i))
      BINARY_I(MUL_I64, tn__ir_wrap_mul(r[p->a].i, r[p->b].i))
      BINARY_I(MIN_I64, r[p->b].i < r[p->a].i ? r[p->b].i : r[p->a].i)
      BINARY_I(MAX_I64, r[p->b].i > r[p->a].i ? r[p->b].i : r[p->a].i)
      BINARY_I(EQ_I64, r[p->a].i == r[p->b].i)
      BINARY_I(NE_I64, r[p->a].i != r[p->b].i)
      BINARY_I(LT_I64, r[p->a].i < r[p->b].i)
      BINARY_I(LE_I64, r[p->a].i <= r[p->b].i)
      BINARY_I(AND_I64, r[p->a].i & r[p->b].i)
      BINARY_I(OR_I64, r[p->a].i | r[p->b].i)
      BINARY_F(ADD_F64, r[p->a].f + r[p->b].f)
      BINARY_F(SUB_F64, r[p->a].f - r[p->b].f)
      BINARY_F(MUL_F64, r[p->a].f * r[p->b].f)
      BINARY_F(DIV_F64, r[p->a].f / r[p->b].f)
      BINARY_F(ADD_F32, (double)(float)(r[p->a].f + r[p->b].f))
      BINARY_F(SUB_F32, (double)(float)(r[p->a].f - r[p->b].f))
      BINARY_F(MUL_F32, (double)(float)(r[p->a].f * r[p->b].f))
      BINARY_F(DIV_F32, (double)(float)(r[p->a].f / r[p->b].f))
      BINARY_I(EQ_F, r[p->a].f == r[p->b].f)
      BINARY_I(NE_F, r[p->a].f != r[p->b].f)
      BINARY_I(LT_F, r[p->a].f < r[p->b].f)
      BINARY_I(LE_F, r[p->a].f <= r[p->b].f)
      case TN__OP_MOVE:
        r[p->dst] = r[p->a];
        p++;
        break;
      case TN__OP_SELECT:
        r[p->dst] = r[p->a].i != 0 ? r[p->b] : r[p->c];
        p++;
        break;
        ACCESS(LOAD_F32, r[p->dst].f = (double)((const float *)m->memories[p->a].data)[at])
        ACCESS(LOAD_I64, r[p->dst].i = ((const int64_t *)m->memories[p->a].data)[at])
        ACCESS(STORE_F32, ((float *)m->memories[p->a].data)[at] = (float)r[p->c].f)
        ACCESS(STORE_I64, ((int64_t *)m->memories[p->a].data)[at] = r[p->c].i)
      case TN__OP_LOAD:
      case TN__OP_LOAD_WIDE:
      case TN__OP_STORE:
      case TN__OP_STORE_WIDE:
        if (!access_memory(m, p)) return false;
        p++;
        break;
      case TN__OP_JUMP:
        if (p->imm <= 0 && !count_round(m, 1 - (int64_t)p->imm)) return false;
        p += p->imm;
        break;
      case TN__OP_JUMP_UNLESS: p += r[p->a].i != 0 ? 1 : p->imm; break;
      case TN__OP_LOOP:
        r[p->a].i = r[p->b].i;
        r[p->dst].i = tn__ir_wrap_add(r[p->b].i, r[p->c].i);
        p += r[p->c].i > 0 ? 1 : p->imm;
        break;
      case TN__OP_NEXT:
        if (m->operations_left >= 0 && !count_round(m, p->c)) return false;
        p += ++r[p->a].i < r[p->b].i ? p->imm : 1;
        break;
      case TN__OP_END: return true;
      default:
        if (!step_other(m, p)) return false;
        p++;
        break;
    }
  }
}

/* ---- entry ------------------------------------------------------------------------------------------------------- */

typedef struct job {
  tn__arena arena;
  tn__ir *ir;
  const tn__func *func;
  void *const *buffers;
  const int64_t *scalars;
  const tn__interpret_options *options;
} job;

static void run(tn__escape *escape, void *user) {
  job *j = user;
  j->arena.escape = escape;
  tn__code code = tn__ir_bytecode_compile(j->ir, &j->arena, j->func, j->options != NULL && j->options->wide);
  machine m = {.code = &code, .func = j->func, .arena = &j->arena, .params = j->buffers};
  m.operations_left = j->options != NULL && j->options->max_operations > 0 ? j->options->max_operations : -1;
  m.registers = tn__arena_copy(&j->arena, code.initial, (size_t)code.register_count * sizeof(tn__scalar));
  m.memories = TN__NEW_ARRAY(&j->arena, code.buffer_count, memory);
  for (int i = 0; i < code.buffer_count; i++) {
    m.memories[i].rank = code.buffers[i].buffer->rank;
    m.memories[i].dims = TN__NEW_ARRAY(&j->arena, m.memories[i].rank, int64_t);
  }
  for (int i = 0; i < j->func->scalar_count; i++) m.registers[code.scalar_registers[i]].i = j->scalars[i];
  if (!step_through(&m)) tn__throw(escape, m.status);
  write_back(&m);
}

tn_status *tn__ir_interpret(tn__ir *ir, const tn__func *func, void *const *buffers, const int64_t *scalars,
                            const tn__interpret_options *options) {
  job j = {.ir = ir, .func = func, .buffers = buffers, .scalars = scalars, .options = options};
  tn__escape escape, *outer = ir->arena->escape;
  tn__arena_init(&j.arena, ir->arena->allocator, &escape);
  ir->arena->escape = &escape; /* what the context runs out of is thrown to here too */
  tn_status *status = tn__protect(&escape, run, &j);
  ir->arena->escape = outer;
  tn__arena_release(&j.arena);
  return status;
}
