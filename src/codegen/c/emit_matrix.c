/* CUDA's instructions on matrices. A warp computes a product together, and each of its threads has a part of every
 * operand in registers, a fragment: of results eight rows of four pairs, as often as an instruction has eight rows.
 * What a block keeps of sums between its loops over threads stays in these registers where all accesses are those of
 * the thread that has the element; operands are loaded as often as the loops around say, not once for each product. */
#include <string.h>

#include "codegen/c/emit.h"

enum { GROUP = 8, PAIRS = 4, PAIR = 2, WARP = 32, MOST_VARS = 64, MOST_CHAIN = 3, MOST_DIMS = 12 };

/* ---- the instructions -------------------------------------------------------------------------------------------- */

typedef struct matrix_row {
  int rows, columns, depth;
  const char *name; /* tn_mma_NAME, of support.txt */
} matrix_row;

static const matrix_row rows[TN__TENSOR_COUNT] = {
    [TN__TENSOR_MMA_F16] = {16, 8, 16, "f16"},     [TN__TENSOR_MMA_BF16] = {16, 8, 16, "bf16"},
    [TN__TENSOR_MMA_I8_I8] = {16, 8, 32, "s8_s8"}, [TN__TENSOR_MMA_I8_U8] = {16, 8, 32, "s8_u8"},
    [TN__TENSOR_MMA_U8_I8] = {16, 8, 32, "u8_s8"}, [TN__TENSOR_MMA_U8_U8] = {16, 8, 32, "u8_u8"},
    [TN__TENSOR_MMA_F64] = {8, 8, 4, "f64"},
};

static const matrix_row *row_of(const tn__cc *cc, const tn__stmt *s) {
  bool can = cc->launch != NULL && cc->dialect->matrices && cc->launch->block[0] == WARP;
  return can && rows[s->as.tensor.op].name != NULL ? &rows[s->as.tensor.op] : NULL;
}

/* ---- sums in registers ------------------------------------------------------------------------------------------- */

typedef struct fragments {
  tn__cc *cc;
  const tn__buffer *buffer;
  const tn__var *vars[MOST_VARS]; /* of loops over threads, and their axes */
  int axis[MOST_VARS], count;
  int64_t sides[2]; /* rows and columns of a warp; 0: not known yet */
  int warps[2];     /* the axis of threads that they move with, 0: none */
  bool used, fits;
} fragments;

static bool is_last(const fragments *f, int dim) { return dim >= f->buffer->rank - 2; }

/* The index without what threads add to it. `expected`: what the thread of a warp adds. */
static const tn__expr *own_index(fragments *f, int dim, const tn__expr *index, bool by_lane) {
  tn__ir *ir = f->cc->ir;
  const tn__expr *zero = tn__ir_index(ir, 0);
  const int which = dim - (f->buffer->rank - 2);
  int64_t side = 0;
  int axis = 0;
  bool lane = false;
  for (int i = 0; i < f->count && f->fits; i++) {
    if (!tn__expr_uses_var(index, f->vars[i])) continue;
    const tn__expr *rest = tn__ir_substitute(ir, index, &f->vars[i], &zero, 1), *self = f->vars[i]->self;
    if (f->axis[i] == 0) {
      const tn__expr *want =
          which == 0 ? tn__ir_div_i(ir, self, PAIRS) : tn__ir_mul_i(ir, tn__ir_mod_i(ir, self, PAIRS), PAIR);
      f->fits = by_lane && tn__ir_sub(ir, index, rest) == want;
      lane = true;
    } else {
      f->fits = axis == 0 && tn__ir_stride_in(ir, index, f->vars[i], &side) && side > 0;
      axis = f->axis[i];
    }
    index = rest;
  }
  if (lane != by_lane) f->fits = false;
  if (!f->fits) return index;
  if (axis == 0 && !tn__ir_as_int(f->buffer->shape[dim], &side)) f->fits = false;
  tn__interval range = tn__interval_of(ir, index);
  const int64_t most = by_lane ? (which == 0 ? 0 : PAIR - 1) : 0;
  tn__interval within = tn__interval_of(ir, tn__ir_mod_i(ir, index, GROUP));
  if (range.min < 0 || range.max >= side || within.max > most || side % GROUP != 0) f->fits = false;
  if (f->sides[which] != 0 && (f->sides[which] != side || f->warps[which] != axis)) f->fits = false;
  f->sides[which] = side;
  f->warps[which] = axis;
  return index;
}

static void see_access(fragments *f, const tn__expr *const *indices, bool by_lane) {
  f->used = true;
  for (int d = 0; d < f->buffer->rank && f->fits; d++) {
    if (is_last(f, d)) {
      own_index(f, d, indices[d], by_lane);
      continue;
    }
    tn__interval range = tn__interval_of(f->cc->ir, indices[d]);
    f->fits = range.min == 0 && range.max == 0;
  }
}

static void see_expr(fragments *f, const tn__expr *e) {
  if (!f->fits || !tn__expr_uses_buffer(e, f->buffer)) return;
  if (e->kind == TN__EXPR_LOAD && e->value.buffer == f->buffer) see_access(f, e->args, true);
  for (int i = 0; i < e->arg_count; i++) see_expr(f, e->args[i]);
}

static void see_loop(fragments *f, const tn__stmt *s) {
  if (!tn__ir_loop_is_thread(s->as.loop.kind)) return;
  for (int i = 0; i < f->count; i++)
    if (f->vars[i] == s->as.loop.var) return;
  f->fits = f->fits && f->count < MOST_VARS && tn__ir_is_int_value(s->as.loop.var->min, 0);
  if (!f->fits) return;
  f->axis[f->count] = (int)s->as.loop.kind - (int)TN__LOOP_THREAD_X;
  f->vars[f->count++] = s->as.loop.var;
}

static bool see_stmt(const tn__stmt *s, void *user) {
  fragments *f = user;
  switch (s->kind) {
    case TN__STMT_FOR: see_loop(f, s); break;
    case TN__STMT_STORE:
      if (s->as.store.buffer == f->buffer) see_access(f, s->as.store.indices, true);
      see_expr(f, s->as.store.value);
      break;
    case TN__STMT_IF: see_expr(f, s->as.branch.condition); break;
    case TN__STMT_LET: f->fits = f->fits && !tn__expr_uses_buffer(s->as.let.value, f->buffer); break;
    case TN__STMT_WHILE: f->fits = false; break;
    case TN__STMT_TENSOR:
      if (s->as.tensor.operands[0].buffer == f->buffer && row_of(f->cc, s) != NULL)
        see_access(f, s->as.tensor.operands[0].indices, false);
      else if (tn__cc_uses(s, f->buffer))
        f->fits = false;
      return false;
    default: break;
  }
  return f->fits;
}

/* Groups of eight rows; and of eight columns one pair. */
static void own_indices(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user) {
  const fragments *f = user;
  const tn__expr *zeros[MOST_VARS];
  const int rank = f->buffer->rank;
  for (int i = 0; i < f->count; i++) zeros[i] = tn__ir_index(ir, 0);
  for (int d = 0; d < rank; d++) out[d] = tn__ir_substitute(ir, indices[d], f->vars, zeros, f->count);
  const tn__expr *column = out[rank - 1], *pair = tn__ir_mul_i(ir, tn__ir_div_i(ir, column, GROUP), PAIR);
  out[rank - 2] = tn__ir_div_i(ir, out[rank - 2], GROUP);
  out[rank - 1] = tn__ir_add(ir, pair, tn__ir_mod_i(ir, column, PAIR));
}

static bool see_tensor(const tn__stmt *s, void *user) {
  fragments *f = user;
  if (s->kind == TN__STMT_TENSOR) f->used |= s->as.tensor.operands[0].buffer == f->buffer && row_of(f->cc, s) != NULL;
  return s->kind != TN__STMT_TENSOR;
}

const tn__stmt *tn__cc_fragments(tn__cc *cc, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.alloc.buffer;
  fragments f = {.cc = cc, .buffer = buffer, .fits = buffer->rank >= 2 && buffer->rank <= MOST_DIMS};
  const tn__expr *shape[MOST_DIMS];
  if (!cc->dialect->matrices || !f.fits) return NULL;
  tn__stmt_walk(s->as.alloc.body, see_tensor, &f);
  if (!f.used) return NULL;
  tn__stmt_walk(s->as.alloc.body, see_stmt, &f);
  for (int a = 1; a < 3; a++) /* warps that differ in another axis would have it together */
    if (cc->launch->block[a] > 1 && f.warps[0] != a && f.warps[1] != a) f.fits = false;
  if (!f.fits) return NULL;
  for (int d = 0; d < buffer->rank - 2; d++) shape[d] = tn__ir_index(cc->ir, 1);
  shape[buffer->rank - 2] = tn__ir_index(cc->ir, f.sides[0] / GROUP);
  shape[buffer->rank - 1] = tn__ir_index(cc->ir, f.sides[1] / PAIRS);
  const tn__buffer *own = tn__buffer_create(cc->ir, buffer->name, buffer->dtype, TN__SCOPE_LOCAL, buffer->rank, shape);
  tn__vec_push(cc->arena, &cc->fragments, own);
  return tn__ir_alloc_stmt(cc->ir, own,
                           tn__stmt_replace_buffer(cc->ir, s->as.alloc.body, buffer, own, own_indices, &f));
}

bool tn__cc_is_fragment(const tn__cc *cc, const tn__buffer *buffer) {
  for (int i = 0; i < cc->fragments.count; i++)
    if (cc->fragments.data[i] == buffer) return true;
  return false;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* A loop around the instruction, and what its operands do along it. */
typedef struct chain_loop {
  const tn__var *var;
  int64_t extent, strides[3];
} chain_loop;

enum { ALONG_ROWS, ALONG_COLUMNS, ALONG_TERMS };

typedef struct chain {
  const tn__stmt *tensor;
  const matrix_row *row;
  chain_loop loops[MOST_CHAIN]; /* by what it moves along; extent 0: there is none */
  const tn__expr *first[3];     /* the place of each operand in the first iteration of all */
  int64_t inner[3];             /* how far apart rows or columns of an operand are, behind that its terms */
  int64_t terms[3];
} chain;

/* What a loop moves along, by the operands that move with it; -1: none of these. */
static int along(const int64_t *strides) {
  bool c = strides[0] != 0, a = strides[1] != 0, b = strides[2] != 0;
  if (c && a && !b) return ALONG_ROWS;
  if (c && b && !a) return ALONG_COLUMNS;
  return !c && a && b ? ALONG_TERMS : -1;
}

TN_MUST_USE static bool strides_of(const tn__cc *cc, const chain *c, const tn__var *var, int64_t *strides) {
  for (int i = 0; i < 3; i++) {
    const tn__access *operand = &c->tensor->as.tensor.operands[i];
    if (!tn__ir_stride_in(cc->ir, tn__cc_place(cc, operand->buffer, operand->indices), var, &strides[i])) return false;
  }
  return true;
}

static const tn__expr *load_in(const tn__expr *e, const tn__buffer *buffer) {
  if (e->kind == TN__EXPR_LOAD) return e->value.buffer == buffer ? e : NULL;
  const tn__expr *found = NULL;
  for (int i = 0; i < e->arg_count && found == NULL; i++) found = load_in(e->args[i], buffer);
  return found;
}

/* How far apart what the instruction takes of its operands lies, by the loops that say what it does. */
static bool find_inner(const tn__cc *cc, chain *c) {
  const tn__stmt *s = c->tensor->as.tensor.body;
  for (; s->kind == TN__STMT_FOR; s = s->as.loop.body) {
    int64_t strides[3] = {0};
    const tn__stmt *store = s;
    while (store->kind == TN__STMT_FOR) store = store->as.loop.body;
    if (store->kind != TN__STMT_STORE) return false;
    for (int i = 1; i < 3; i++) {
      const tn__buffer *buffer = c->tensor->as.tensor.operands[i].buffer;
      const tn__expr *load = load_in(store->as.store.value, buffer);
      if (load == NULL || !tn__ir_stride_in(cc->ir, tn__cc_place(cc, buffer, load->args), s->as.loop.var, &strides[i]))
        return false;
    }
    strides[0] = strides[1] == 0 || strides[2] == 0; /* rows and columns of the instruction have sums of their own */
    int way = along(strides);
    if (way < 0) return false;
    if (way == ALONG_TERMS)
      memcpy(c->terms, strides, sizeof strides);
    else
      c->inner[way + 1] = strides[way + 1];
  }
  return true;
}

TN_MUST_USE static bool find_chain(const tn__cc *cc, const tn__stmt *s, chain *c) {
  const tn__var *vars[MOST_CHAIN];
  const tn__expr *zeros[MOST_CHAIN];
  int count = 0;
  const tn__stmt *inner = s;
  *c = (chain){.tensor = NULL};
  while (inner->kind == TN__STMT_FOR && inner->as.loop.kind == TN__LOOP_SERIAL) inner = inner->as.loop.body;
  if (inner->kind != TN__STMT_TENSOR) return false;
  c->tensor = inner;
  c->row = row_of(cc, inner);
  if (c->row == NULL || (cc->thread_axes & 1) != 0 || !tn__cc_is_fragment(cc, inner->as.tensor.operands[0].buffer))
    return false;
  for (; s->kind == TN__STMT_FOR; s = s->as.loop.body) {
    chain_loop loop = {.var = s->as.loop.var};
    if (!tn__ir_as_int(loop.var->extent, &loop.extent) || !tn__ir_is_int_value(loop.var->min, 0)) return false;
    if (count == MOST_CHAIN || !strides_of(cc, c, loop.var, loop.strides)) return false;
    vars[count] = loop.var;
    zeros[count++] = tn__ir_index(cc->ir, 0);
    if (loop.extent == 1) continue;
    int way = along(loop.strides);
    if (way < 0 || c->loops[way].extent != 0) return false;
    c->loops[way] = loop;
  }
  for (int i = 0; i < 3; i++) {
    const tn__access *operand = &c->tensor->as.tensor.operands[i];
    const tn__expr *place = tn__cc_place(cc, operand->buffer, operand->indices);
    c->first[i] = tn__ir_substitute(cc->ir, place, vars, zeros, count);
    if (c->loops[i].extent == 0) c->loops[i].extent = 1;
  }
  return find_inner(cc, c);
}

/* How operand `i` is loaded: by the instruction that takes rows of 16 bytes from shared memory, as they are or turned,
 * or element by element. */
typedef enum way { BY_ELEMENTS, BY_ROWS, BY_TURNED_ROWS } way;

static bool lies_evenly(const tn__cc *cc, const chain *c, int i, int64_t elements) {
  for (int k = 0; k < MOST_CHAIN; k++)
    if (c->loops[k].strides[i] % elements != 0) return false;
  return tn__ir_is_int_value(tn__ir_mod_i(cc->ir, c->first[i], elements), 0);
}

static way way_of(const tn__cc *cc, const chain *c, int i) {
  enum { ROW = 16 };
  const tn__buffer *buffer = c->tensor->as.tensor.operands[i].buffer;
  const int64_t size = (int64_t)tn_dtype_size(buffer->dtype), elements = ROW / size;
  if (size > 2 || buffer->scope != TN__SCOPE_SHARED || !lies_evenly(cc, c, i, elements)) return BY_ELEMENTS;
  if (c->terms[i] == 1 && c->inner[i] % elements == 0) return BY_ROWS;
  return size == 2 && c->inner[i] == 1 && c->terms[i] % elements == 0 ? BY_TURNED_ROWS : BY_ELEMENTS;
}

/* Loads the fragments of an operand for a step of the terms, `count` of them. */
static void load_operand(tn__cc *cc, const chain *c, int i, const char *name, const char *term) {
  const tn__buffer *buffer = c->tensor->as.tensor.operands[i].buffer;
  const int64_t size = (int64_t)tn_dtype_size(buffer->dtype), count = c->loops[i - 1].extent;
  const bool left = i == 1;
  const char *place = tn__cc_whole(cc, c->first[i]), *kind = left ? "a" : "b";
  const way how = way_of(cc, c, i);
  const int64_t each = left ? (int64_t)c->row->rows * c->row->depth * size / (4 * WARP)
                            : (int64_t)c->row->columns * c->row->depth * size / (4 * WARP);
  if (c->row->depth == 4) /* numbers of 64 bits, one for each thread */
    tn__cc_line(cc, "tn_f64 %s[%lld];", name, (long long)count);
  else
    tn__cc_line(cc, "tn_u32 %s[%lld];", name, (long long)(count * each));
  tn__cc_line(cc, "#pragma unroll");
  const bool pairs = !left && how != BY_ELEMENTS && count % 2 == 0;
  tn__cc_open(cc, "for (tn_i32 i = 0; i < %lld; i += %d)", (long long)count, pairs ? 2 : 1);
  const char *from =
      TN__CC_TEXT(cc, "&%s[%s + i * %lld + %s * %lld]", tn__cc_buffer_name(cc, buffer), place,
                  (long long)c->loops[i - 1].strides[i], term, (long long)c->loops[ALONG_TERMS].strides[i]);
  if (how != BY_ELEMENTS)
    tn__cc_line(cc, "tn_mma_%s_%s%s(%s + i * %lld, %s, %lld);", kind, how == BY_ROWS ? "rows" : "turned",
                pairs ? "_2" : "", name, (long long)each, from,
                (long long)((how == BY_ROWS ? c->inner[i] : c->terms[i]) * size));
  else
    tn__cc_line(cc, "tn_mma_%s_%lld(%s + i * %lld, %s, %lld, %lld);", kind, (long long)size, name,
                (long long)(c->row->depth == 4 ? 1 : each), from, (long long)c->inner[i], (long long)c->terms[i]);
  tn__cc_close(cc);
}

static void emit_chain(tn__cc *cc, const chain *c) {
  const int at = cc->temps++;
  const char *k = TN__CC_TEXT(cc, "k%d", at), *a = TN__CC_TEXT(cc, "a%d", at), *b = TN__CC_TEXT(cc, "b%d", at);
  const tn__buffer *sums = c->tensor->as.tensor.operands[0].buffer;
  const char *place = tn__cc_whole(cc, c->first[0]);
  int64_t group = tn__ir_int_or(sums->shape[sums->rank - 1], 0),
          each[3] = {0, (int64_t)c->row->rows * c->row->depth, (int64_t)c->row->columns * c->row->depth};
  const int64_t rows_here = c->loops[ALONG_ROWS].extent, columns_here = c->loops[ALONG_COLUMNS].extent;
  for (int i = 1; i < 3; i++) {
    const int64_t size = (int64_t)tn_dtype_size(c->tensor->as.tensor.operands[i].buffer->dtype);
    each[i] = c->row->depth == 4 ? 1 : each[i] * size / (4 * WARP);
  }
  tn__cc_line(cc, "#pragma unroll");
  tn__cc_open(cc, "for (tn_i32 %s = 0; %s < %lld; %s++)", k, k, (long long)c->loops[ALONG_TERMS].extent, k);
  load_operand(cc, c, 1, a, k);
  load_operand(cc, c, 2, b, k);
  tn__cc_line(cc, "#pragma unroll");
  tn__cc_open(cc, "for (tn_i32 i = 0; i < %lld; i++)", (long long)rows_here);
  tn__cc_line(cc, "#pragma unroll");
  tn__cc_open(cc, "for (tn_i32 j = 0; j < %lld; j++)", (long long)columns_here);
  tn__cc_line(cc, "tn_mma_%s(&%s[%s + i * %lld + j * %lld], %lld, %s + i * %lld, %s + j * %lld);", c->row->name,
              tn__cc_buffer_name(cc, sums), place, (long long)c->loops[ALONG_ROWS].strides[0],
              (long long)c->loops[ALONG_COLUMNS].strides[0], (long long)group, a, (long long)each[1], b,
              (long long)each[2]);
  tn__cc_close(cc);
  tn__cc_close(cc);
  tn__cc_close(cc);
}

bool tn__cc_matrix_product(tn__cc *cc, const tn__stmt *s) {
  chain c;
  if (!cc->dialect->matrices || !find_chain(cc, s, &c)) return false;
  emit_chain(cc, &c);
  return true;
}
