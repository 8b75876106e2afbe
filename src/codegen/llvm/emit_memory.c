/* Loads and stores of buffers in memory: addresses built from loop-invariant parts outwards in, contiguous, broadcast,
 * strided and gathered vectors, masks. */
#include <stdlib.h>

#include "codegen/llvm/arch.h"

static const tn__expr *flat_index(tn__cg *cg, const tn__buffer *buffer, const tn__expr *const *indices) {
  return tn__buffer_flatten(cg->ir, buffer, indices);
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* How deep the innermost variable of an expression stands: sums are added up from the outside in, so that LLVM's
 * loop-invariant code motion finds whole prefixes to hoist. */
static int depth_of(tn__cg *cg, const tn__expr *e) {
  if (e->kind == TN__EXPR_LOAD) return INT32_MAX;
  if (e->kind == TN__EXPR_VAR) {
    const tn__cg_binding *binding = tn__cg_find(cg, e->value.var);
    return binding == NULL ? 0 : binding->depth;
  }
  int depth = 0;
  for (int i = 0; i < e->arg_count; i++) {
    int inner = depth_of(cg, e->args[i]);
    if (inner > depth) depth = inner;
  }
  return depth;
}

typedef struct address_term {
  const tn__expr *e;
  int depth;
} address_term;

enum { MAX_TERMS = 64 };

typedef struct address_terms {
  address_term items[MAX_TERMS];
  int count;
  int64_t constant;
} address_terms;

/* `waiting`: terms that the callers will still add. */
static void collect(tn__cg *cg, const tn__expr *e, int waiting, address_terms *out) {
  if (e->kind == TN__EXPR_INT) {
    out->constant += e->value.i;
  } else if (e->kind == TN__EXPR_ADD && out->count + waiting + 2 <= MAX_TERMS) {
    collect(cg, e->args[0], waiting + 1, out);
    collect(cg, e->args[1], waiting, out);
  } else {
    address_term term = {.e = e, .depth = depth_of(cg, e)};
    int at = out->count++;
    for (; at > 0 && out->items[at - 1].depth > term.depth; at--) out->items[at] = out->items[at - 1];
    out->items[at] = term;
  }
}

static LLVMValueRef offset_pointer(tn__cg *cg, LLVMTypeRef element, LLVMValueRef pointer, LLVMValueRef index) {
  return LLVMBuildGEP2(cg->builder, element, pointer, &index, 1, "");
}

/* The place of element `linear`: a pointer, and what the lanes add to it in elements (NULL: nothing). */
typedef struct place {
  LLVMValueRef pointer, lanes;
} place;

/* What lanes add, in i32 as long as that holds their sum. */
typedef struct narrow_sum {
  LLVMValueRef v;
  double low, high;
} narrow_sum;

static LLVMValueRef sum_of(tn__cg *cg, LLVMValueRef a, LLVMValueRef b) {
  return a == NULL ? b : LLVMBuildAdd(cg->builder, a, b, "");
}

/* Is the term a part of that sum? */
TN_MUST_USE static bool add_narrow(tn__cg *cg, const tn__expr *term, narrow_sum *sum) {
  double low, high;
  if (cg->frame->lanes == 1) return false;
  const tn__expr *narrow = tn__cg_narrowed(cg->ir, term, &low, &high);
  if (narrow == NULL || sum->low + low < INT32_MIN || sum->high + high > INT32_MAX) return false;
  tn__cg_value value = tn__cg_expr(cg, narrow);
  if (value.lanes == 1) return false;
  *sum = (narrow_sum){sum_of(cg, sum->v, value.v), sum->low + low, sum->high + high};
  return true;
}

static place place_of(tn__cg *cg, const tn__cg_storage *storage, const tn__expr *linear) {
  LLVMTypeRef element = tn__cg_memory_type(cg, storage->buffer->dtype);
  address_terms terms = {.count = 0};
  collect(cg, linear, 0, &terms);
  place p = {.pointer = storage->base};
  narrow_sum narrow = {NULL};
  for (int i = 0; i < terms.count;) {
    LLVMValueRef sum = NULL;
    for (int depth = terms.items[i].depth; i < terms.count && terms.items[i].depth == depth; i++) {
      if (add_narrow(cg, terms.items[i].e, &narrow)) continue;
      tn__cg_value value = tn__cg_expr(cg, terms.items[i].e);
      LLVMValueRef *part = value.lanes > 1 ? &p.lanes : &sum;
      *part = sum_of(cg, *part, value.v);
    }
    if (sum != NULL) p.pointer = offset_pointer(cg, element, p.pointer, sum);
  }
  if (terms.constant != 0) p.pointer = offset_pointer(cg, element, p.pointer, tn__cg_int(cg->i64, terms.constant));
  if (narrow.v != NULL) {
    LLVMTypeRef wide = tn__cg_lanes_type(cg->i64, tn__cg_lanes(LLVMTypeOf(narrow.v)));
    p.lanes = sum_of(cg, p.lanes, LLVMBuildSExt(cg->builder, narrow.v, wide, ""));
  }
  return p;
}

/* One pointer, or one per lane where the place depends on the lane. */
static LLVMValueRef address(tn__cg *cg, const tn__cg_storage *storage, const tn__expr *linear) {
  place p = place_of(cg, storage, linear);
  if (p.lanes == NULL) return p.pointer;
  return offset_pointer(cg, tn__cg_memory_type(cg, storage->buffer->dtype), p.pointer, p.lanes);
}

LLVMValueRef tn__cg_address(tn__cg *cg, const tn__buffer *buffer, const tn__expr *const *indices) {
  return address(cg, tn__cg_storage_of(cg, buffer), flat_index(cg, buffer, indices));
}

/* A number that divides `e` whatever its variables are (0: everything divides it), as far as its form shows. */
static int64_t known_divisor(const tn__expr *e) {
  if (e->kind == TN__EXPR_INT) return e->value.i < 0 ? -e->value.i : e->value.i;
  if (e->kind == TN__EXPR_MUL) {
    int64_t product;
    return __builtin_mul_overflow(known_divisor(e->args[0]), known_divisor(e->args[1]), &product) ? 1 : product;
  }
  if (e->kind != TN__EXPR_ADD) return 1;
  int64_t a = known_divisor(e->args[0]), b = known_divisor(e->args[1]);
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* What the place of element `linear` is aligned to where the buffer is to `align` bytes. */
static unsigned alignment_within(const tn__cg_storage *storage, const tn__expr *linear, int64_t align) {
  int64_t size = (int64_t)tn_dtype_size(storage->buffer->dtype), divisor = known_divisor(linear);
  while (align > size && divisor % (align / size) != 0) align /= 2;
  return (unsigned)align;
}

static unsigned alignment_of(const tn__cg_storage *storage, const tn__expr *linear) {
  return alignment_within(storage, linear, storage->alignment);
}

static LLVMValueRef annotate(const tn__cg *cg, const tn__cg_storage *storage, LLVMValueRef access) {
  if (storage->scope != NULL) LLVMSetMetadata(access, cg->alias_scope_kind, storage->scope);
  if (storage->noalias != NULL) LLVMSetMetadata(access, cg->noalias_kind, storage->noalias);
  return access;
}

/* ---- one vector's worth of accesses ------------------------------------------------------------------------------ */

enum { MAX_SHUFFLED = 64 }; /* lanes that shuffles put in order: of a vector of bytes at the most */
/* How far apart lanes are at the most that are taken out of vectors one by one, and those that share groups. */
enum { MOST_SHUFFLED_STRIDE = 4, MOST_WOVEN = 8 };

typedef enum access_shape { UNIFORM, CONTIGUOUS, STRIDED, GATHERED } access_shape;

typedef struct access {
  tn__cg_storage *storage;
  const tn__expr *first; /* element number of lane 0; of every lane when gathered */
  access_shape shape;
  int64_t stride;
} access;

static access classify(tn__cg *cg, const tn__buffer *buffer, const tn__expr *const *indices) {
  const tn__cg_frame *frame = cg->frame;
  access a = {.storage = tn__cg_storage_of(cg, buffer), .first = flat_index(cg, buffer, indices), .shape = UNIFORM};
  if (frame->lane == NULL || !tn__expr_uses_var(a.first, frame->lane)) {
    /* A let may carry the lane in. */
    if (frame->lane != NULL && tn__cg_expr(cg, a.first).lanes > 1) a.shape = GATHERED;
    return a;
  }
  a.shape = GATHERED;
  if (!tn__ir_stride_in(cg->ir, a.first, frame->lane, &a.stride)) return a;
  const tn__expr *start = tn__ir_substitute(cg->ir, a.first, &frame->lane, &frame->lane->min, 1);
  if (tn__cg_expr(cg, start).lanes > 1) return a;
  a.first = start;
  a.shape = a.stride == 0 ? UNIFORM : a.stride == 1 ? CONTIGUOUS : STRIDED;
  return a;
}

static LLVMValueRef const_align(const tn__cg *cg, unsigned align) { return LLVMConstInt(cg->i32, align, 0); }

static LLVMValueRef plain_load(tn__cg *cg, const access *a, LLVMTypeRef type, LLVMValueRef pointer, unsigned align) {
  LLVMValueRef load = LLVMBuildLoad2(cg->builder, type, pointer, "");
  LLVMSetAlignment(load, align);
  return annotate(cg, a->storage, load);
}

static LLVMValueRef masked_load(tn__cg *cg, const access *a, LLVMTypeRef type, LLVMValueRef pointer, unsigned align,
                                LLVMValueRef mask) {
  /* More targets have masks for words than for what they consist of. */
  const tn__cg_frame *frame = cg->frame;
  int word = frame->word > 0 && mask == frame->word_mask ? frame->word : 0;
  int bits = word * 8 * (int)tn_dtype_size(a->storage->buffer->dtype);
  if (bits == 32 || bits == 64) {
    LLVMTypeRef words = tn__cg_lanes_type(bits == 32 ? cg->i32 : cg->i64, frame->lanes / word);
    LLVMTypeRef types[] = {words, cg->ptr};
    LLVMValueRef args[] = {pointer, const_align(cg, align), frame->mask_of_words, LLVMConstNull(words)};
    LLVMValueRef v = annotate(cg, a->storage, tn__cg_intrinsic(cg, "llvm.masked.load", types, 2, args, 4));
    return LLVMBuildBitCast(cg->builder, v, type, "");
  }
  LLVMTypeRef types[] = {type, cg->ptr};
  LLVMValueRef args[] = {pointer, const_align(cg, align), mask, LLVMConstNull(type)};
  return annotate(cg, a->storage, tn__cg_intrinsic(cg, "llvm.masked.load", types, 2, args, 4));
}

static LLVMValueRef all_lanes(tn__cg *cg) {
  return cg->frame->mask != NULL ? cg->frame->mask : tn__cg_int(tn__cg_lanes_type(cg->i1, cg->frame->lanes), 1);
}

/* `v` with its first lane repeated up to `lanes`. */
static LLVMValueRef padded(tn__cg *cg, LLVMValueRef v, int lanes) {
  enum { MAX_PADDED = 2048 };
  int have = tn__cg_lanes(LLVMTypeOf(v)), indices[MAX_PADDED];
  for (int i = 0; i < lanes; i++) indices[i] = i < have ? i : 0;
  return have == lanes ? v : tn__cg_shuffle(cg, v, tn__cg_undef(LLVMTypeOf(v)), indices, lanes);
}

/* Zeros that may be read wherever nothing else may. */
static LLVMValueRef readable(tn__cg *cg) {
  enum { BYTES = 8 }; /* of the largest element */
  static const char name[] = "tn.readable";
  LLVMValueRef zeros = LLVMGetNamedGlobal(cg->module, name);
  if (zeros != NULL) return zeros;
  LLVMTypeRef type = LLVMArrayType2(cg->i8, BYTES);
  zeros = LLVMAddGlobal(cg->module, type, name);
  LLVMSetInitializer(zeros, LLVMConstNull(type));
  LLVMSetAlignment(zeros, BYTES);
  LLVMSetGlobalConstant(zeros, 1);
  LLVMSetLinkage(zeros, LLVMPrivateLinkage);
  return zeros;
}

/* Where no instruction gathers: lanes that a mask leaves out read zeros somewhere else. LLVM would ask about each lane:
 * a branch and two blocks for one load, whose number it takes the square of the time for. NULL: it asks about none. */
static LLVMValueRef lane_by_lane(tn__cg *cg, const access *a, LLVMTypeRef type, LLVMValueRef pointers) {
  bool gathers = tn__target_can(cg->target, TN__CAN_MASK);
  if (gathers || cg->frame->mask == NULL) return NULL;
  LLVMTypeRef element = tn__cg_element(type);
  LLVMValueRef nowhere = readable(cg), v = LLVMGetPoison(type);
  for (int i = 0; i < tn__cg_lanes(type); i++) {
    LLVMValueRef lane = LLVMConstInt(cg->i32, (unsigned)i, 0);
    LLVMValueRef active = LLVMBuildExtractElement(cg->builder, cg->frame->mask, lane, "");
    LLVMValueRef at = LLVMBuildExtractElement(cg->builder, pointers, lane, "");
    at = LLVMBuildSelect(cg->builder, active, at, nowhere, "");
    LLVMValueRef one = plain_load(cg, a, element, at, (unsigned)tn_dtype_size(a->storage->buffer->dtype));
    v = LLVMBuildInsertElement(cg->builder, v, one, lane, "");
  }
  return v;
}

/* LLVM 19 may put a gather's index and result into one register, which x86 refuses, where both are the constant zero:
 * indices of lanes that it adds to fill a register, and results of inactive lanes. So there are no such lanes, and
 * those are not zero. */
static LLVMValueRef gather(tn__cg *cg, const access *a, LLVMTypeRef type, LLVMValueRef pointers) {
  LLVMValueRef one_by_one = lane_by_lane(cg, a, type, pointers);
  if (one_by_one != NULL) return one_by_one;
  int have = tn__cg_lanes(type), lanes = 1;
  while (lanes < have) lanes *= 2;
  LLVMTypeRef element = tn__cg_element(type), wide = tn__cg_lanes_type(element, lanes);
  LLVMValueRef mask = padded(cg, all_lanes(cg), lanes);
  if (lanes > have) {
    LLVMValueRef real = LLVMBuildICmp(cg->builder, LLVMIntSLT, tn__cg_iota(cg->i32, lanes, 1),
                                      tn__cg_int(tn__cg_lanes_type(cg->i32, lanes), have), "");
    mask = LLVMBuildAnd(cg->builder, mask, real, "");
  }
  pointers = padded(cg, pointers, lanes);
  bool is_int = LLVMGetTypeKind(element) == LLVMIntegerTypeKind;
  LLVMValueRef inactive = is_int ? tn__cg_int(wide, 0x55) : tn__cg_float(wide, 0.75);
  LLVMTypeRef types[] = {wide, LLVMTypeOf(pointers)};
  unsigned align = (unsigned)tn_dtype_size(a->storage->buffer->dtype);
  LLVMValueRef args[] = {pointers, const_align(cg, align), mask, inactive};
  LLVMValueRef v = annotate(cg, a->storage, tn__cg_intrinsic(cg, "llvm.masked.gather", types, 2, args, 4));
  return tn__cg_slice(cg, v, 0, have);
}

static LLVMValueRef strided_pointers(tn__cg *cg, const access *a) {
  LLVMTypeRef element = tn__cg_memory_type(cg, a->storage->buffer->dtype);
  LLVMValueRef pointer = address(cg, a->storage, a->first);
  return offset_pointer(cg, element, pointer, tn__cg_iota(cg->i64, cg->frame->lanes, a->stride));
}

/* Which of `count` neighbouring elements active lanes want: `lane[i]` is one that wants element i, -1 where none does.
 */
static LLVMValueRef wanted_elements(tn__cg *cg, const int *lane, int count) {
  int indices[MAX_SHUFFLED], lanes = cg->frame->lanes;
  for (int i = 0; i < count; i++) indices[i] = lane[i] < 0 ? lanes : lane[i];
  LLVMValueRef none = LLVMConstNull(LLVMTypeOf(cg->frame->mask));
  return tn__cg_shuffle(cg, cg->frame->mask, none, indices, count);
}

/* Small strides, forwards or backwards: whole vectors that overlap so that nothing outside of the accessed span is
 * read, of which a mask takes what it wants, then shuffles. */
static LLVMValueRef strided_by_shuffles(tn__cg *cg, const access *a, LLVMTypeRef type) {
  int lanes = cg->frame->lanes, stride = (int)llabs(a->stride), span = (lanes - 1) * stride + 1;
  LLVMTypeRef element = tn__cg_element(type);
  unsigned align = (unsigned)tn_dtype_size(a->storage->buffer->dtype);
  LLVMValueRef pointer = address(cg, a->storage, a->first), result = LLVMGetPoison(type);
  int indices[MAX_SHUFFLED];
  if (a->stride < 0) pointer = offset_pointer(cg, element, pointer, tn__cg_int(cg->i64, 1 - span));
  for (int part = 0; part < stride; part++) {
    int at = part * lanes + lanes <= span ? part * lanes : span - lanes;
    LLVMValueRef from = at == 0 ? pointer : offset_pointer(cg, element, pointer, tn__cg_int(cg->i64, at));
    LLVMValueRef piece;
    if (cg->frame->mask == NULL) {
      piece = plain_load(cg, a, type, from, align);
    } else {
      int lane[MAX_SHUFFLED];
      for (int i = 0; i < lanes; i++) {
        int step = (at + i) / stride;
        lane[i] = (at + i) % stride != 0 ? -1 : a->stride < 0 ? lanes - 1 - step : step;
      }
      piece = masked_load(cg, a, type, from, align, wanted_elements(cg, lane, lanes));
    }
    for (int i = 0; i < lanes; i++) {
      int step = (a->stride < 0 ? lanes - 1 - i : i) * stride; /* of lane i, from the lowest place */
      indices[i] = step / lanes == part ? lanes + step - at : i;
    }
    result = tn__cg_shuffle(cg, result, piece, indices, lanes);
  }
  return result;
}

/* Do the buffer's last dimensions, however many, consist of whole groups of `size` elements? */
static bool has_whole_groups(const tn__buffer *buffer, int64_t size) {
  int64_t row = 1, extent;
  for (int d = buffer->rank - 1; d >= 0 && tn__ir_as_int(buffer->shape[d], &extent) && row < INT32_MAX; d--) {
    row *= extent;
    if (row % size == 0) return true;
  }
  return false;
}

/* The group before was loaded where this is, and has the element. */
TN_MUST_USE static bool is_in_last_group(tn__cg *cg, const access *a, int64_t *member) {
  const tn__cg_groups *last = &a->storage->groups;
  if (last->first == NULL || last->block != LLVMGetInsertBlock(cg->builder) || last->version != a->storage->version)
    return false;
  return tn__ir_as_int(tn__ir_sub(cg->ir, a->first, last->first), member) && *member >= 0 && *member < a->stride;
}

/* Is all inside of the buffer that `lanes` groups would read which begin with the access's first element? */
static bool groups_are_inside(tn__cg *cg, const access *a) {
  tn__ir *ir = cg->ir;
  const tn__expr *end = tn__ir_add_i(ir, a->first, cg->frame->lanes * a->stride), *all = tn__ir_index(ir, 1);
  for (int d = 0; d < a->storage->buffer->rank; d++) all = tn__ir_mul(ir, all, a->storage->buffer->shape[d]);
  return tn__ir_prove(ir, tn__ir_le(ir, tn__ir_index(ir, 0), a->first)) && tn__ir_prove(ir, tn__ir_le(ir, end, all));
}

/* Where the groups begin of which all lanes take one element, and which that is; NULL: they may not be inside. */
static const tn__expr *groups_of(tn__cg *cg, const access *a, int64_t *member) {
  const tn__buffer *buffer = a->storage->buffer;
  const tn__expr *group = a->first;
  *member = 0;
  if (has_whole_groups(buffer, a->stride)) {
    while (*member < a->stride && known_divisor(group) % a->stride != 0)
      group = tn__ir_sub(cg->ir, a->first, tn__ir_index(cg->ir, ++*member));
    return *member == a->stride ? NULL : group;
  }
  if (a->stride > MOST_SHUFFLED_STRIDE) return NULL;
  if (is_in_last_group(cg, a, member)) return a->storage->groups.first;
  *member = 0;
  return groups_are_inside(cg, a) ? group : NULL;
}

/* Elements of groups of two to eight (pixels, pairs): all of each group at once, and a shuffle that takes one of it.
 * LLVM knows how to take such vectors apart, and all members of the groups share the load. So do the elements of a
 * window that moves on by a few, as in pooling. Only where the buffer consists of whole groups, or these are known to
 * be in it, so that nothing outside of it is read; NULL otherwise. */
static LLVMValueRef member_of_groups(tn__cg *cg, const access *a, LLVMTypeRef type) {
  const tn__buffer *buffer = a->storage->buffer;
  int lanes = cg->frame->lanes, indices[MAX_SHUFFLED];
  int64_t member = 0, size = (int64_t)tn_dtype_size(buffer->dtype);
  if (a->stride < 2 || lanes * size < 16 || (lanes & (lanes - 1)) != 0 || buffer->strides != NULL) return NULL;
  const tn__expr *group = groups_of(cg, a, &member);
  if (group == NULL) return NULL;
  LLVMTypeRef whole = tn__cg_lanes_type(tn__cg_element(type), lanes * (int)a->stride);
  tn__cg_groups *last = &a->storage->groups;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(cg->builder);
  bool again = last->first == group && last->block == here && last->version == a->storage->version;
  LLVMValueRef groups = again && LLVMTypeOf(last->v) == whole ? last->v : NULL;
  if (groups == NULL) {
    groups = plain_load(cg, a, whole, address(cg, a->storage, group), alignment_of(a->storage, group));
    tn__cg_note_groups(cg, groups, a->stride);
  }
  *last = (tn__cg_groups){.first = group, .block = here, .version = a->storage->version, .v = groups};
  for (int i = 0; i < lanes; i++) indices[i] = (int)(member + i * a->stride);
  return tn__cg_shuffle(cg, groups, tn__cg_undef(whole), indices, lanes);
}

static LLVMValueRef reversed(tn__cg *cg, LLVMValueRef v) {
  int lanes = tn__cg_lanes(LLVMTypeOf(v)), indices[MAX_SHUFFLED];
  for (int i = 0; i < lanes; i++) indices[i] = lanes - 1 - i;
  return tn__cg_shuffle(cg, v, tn__cg_undef(LLVMTypeOf(v)), indices, lanes);
}

/* The place of the last lane, which is the lowest of a vector that lies backwards. */
static LLVMValueRef last_place(tn__cg *cg, const access *a) {
  LLVMTypeRef element = tn__cg_memory_type(cg, a->storage->buffer->dtype);
  return offset_pointer(cg, element, address(cg, a->storage, a->first), tn__cg_int(cg->i64, 1 - cg->frame->lanes));
}

/* Side by side, the last lane first. */
static bool is_backwards(const tn__cg *cg, const access *a) {
  return a->shape == STRIDED && a->stride == -1 && cg->frame->lanes <= MAX_SHUFFLED;
}

/* One element for all lanes under a mask: read only when a lane is active. */
static LLVMValueRef guarded_uniform(tn__cg *cg, const access *a, LLVMTypeRef type, LLVMValueRef pointer) {
  LLVMBasicBlockRef from = LLVMGetInsertBlock(cg->builder), read = tn__cg_block(cg, "read"),
                    join = tn__cg_block(cg, "join");
  LLVMBuildCondBr(cg->builder, tn__cg_any(cg, cg->frame->mask), read, join);
  tn__cg_at(cg, read);
  LLVMValueRef incoming[] = {LLVMConstNull(type),
                             plain_load(cg, a, type, pointer, (unsigned)tn_dtype_size(a->storage->buffer->dtype))};
  LLVMBuildBr(cg->builder, join);
  tn__cg_at(cg, join);
  LLVMValueRef phi = LLVMBuildPhi(cg->builder, type, "");
  LLVMBasicBlockRef blocks[] = {from, read};
  LLVMAddIncoming(phi, incoming, blocks, 2);
  return phi;
}

/* The elements that active lanes want, where lane i wants number `element[i]`, which may be wanted by several. */
static LLVMValueRef wanted_by_any(tn__cg *cg, const int *element, int count) {
  int lanes = cg->frame->lanes, lane[MAX_SHUFFLED];
  bool taken[MAX_SHUFFLED] = {false};
  LLVMValueRef all = NULL;
  for (int left = lanes; left > 0;) {
    for (int i = 0; i < MAX_SHUFFLED; i++) lane[i] = -1;
    for (int i = 0; i < lanes; i++) {
      if (taken[i] || lane[element[i]] >= 0) continue;
      lane[element[i]] = i;
      taken[i] = true;
      left--;
    }
    LLVMValueRef some = wanted_elements(cg, lane, count);
    all = all == NULL ? some : LLVMBuildOr(cg->builder, all, some, "");
  }
  return all;
}

/* Lanes whose offsets are all known, and close together (a quotient or remainder of the lane): one load and a
 * shuffle. */
static LLVMValueRef known_offsets(tn__cg *cg, const access *a, LLVMTypeRef type, place p) {
  int lanes = cg->frame->lanes, indices[MAX_SHUFFLED];
  int64_t offsets[MAX_SHUFFLED], low = INT64_MAX, high = INT64_MIN;
  if (!LLVMIsConstant(p.lanes) || lanes > MAX_SHUFFLED) return NULL;
  for (int i = 0; i < lanes; i++) {
    LLVMValueRef offset = LLVMGetAggregateElement(p.lanes, (unsigned)i);
    if (offset == NULL || LLVMIsAConstantInt(offset) == NULL) return NULL;
    offsets[i] = LLVMConstIntGetSExtValue(offset);
    if (offsets[i] < low) low = offsets[i];
    if (offsets[i] > high) high = offsets[i];
  }
  LLVMTypeRef element = tn__cg_element(type);
  unsigned align = (unsigned)tn_dtype_size(a->storage->buffer->dtype);
  LLVMValueRef first = low == 0 ? p.pointer : offset_pointer(cg, element, p.pointer, tn__cg_int(cg->i64, low));
  if (low == high) {
    LLVMValueRef one =
        cg->frame->mask != NULL ? guarded_uniform(cg, a, element, first) : plain_load(cg, a, element, first, align);
    return tn__cg_broadcast(cg, one, lanes);
  }
  if (high - low >= lanes) return NULL;
  int span = (int)(high - low + 1);
  for (int i = 0; i < lanes; i++) indices[i] = (int)(offsets[i] - low);
  LLVMTypeRef narrow = tn__cg_lanes_type(element, span);
  LLVMValueRef piece, mask = cg->frame->mask != NULL ? wanted_by_any(cg, indices, span) : NULL;
  if (mask == NULL)
    piece = plain_load(cg, a, narrow, first, align);
  else
    piece = masked_load(cg, a, narrow, first, align, mask);
  return tn__cg_shuffle(cg, piece, tn__cg_undef(LLVMTypeOf(piece)), indices, lanes);
}

/* Is the place an element of a table, at an integer that is read side by side, and little else? */
TN_MUST_USE static bool is_looked_up(tn__cg *cg, const tn__expr *e, int *loads) {
  if (tn__dtype_is_float(e->dtype) || e->kind == TN__EXPR_SELECT) return false;
  if (e->kind == TN__EXPR_VAR) return e->value.var != cg->frame->lane && tn__cg_expr(cg, e).lanes == 1;
  if (e->kind == TN__EXPR_LOAD) {
    access from = classify(cg, e->value.buffer, e->args);
    return from.storage->slots == NULL && from.shape == CONTIGUOUS && ++*loads == 1;
  }
  for (int i = 0; i < e->arg_count; i++)
    if (!is_looked_up(cg, e->args[i], loads)) return false;
  return true;
}

/* Where no instruction gathers, places are taken from memory one by one, too: out of a vector they come slowly. */
static LLVMValueRef looked_up(tn__cg *cg, const access *a, LLVMTypeRef type) {
  enum { MOST_PARTS = 16 };
  tn__cg_frame *frame = cg->frame;
  const tn__var *lane = frame->lane;
  int lanes = frame->lanes, loads = 0;
  bool gathers = tn__target_can(cg->target, TN__CAN_MASK); /* words, but nothing less */
  if (gathers && tn_dtype_size(a->storage->buffer->dtype) >= 4) return NULL;
  if (frame->mask != NULL || frame->word > 0 || lane == NULL || tn__expr_size(a->first) > MOST_PARTS) return NULL;
  if (!is_looked_up(cg, a->first, &loads) || loads != 1) return NULL;
  LLVMTypeRef element = tn__cg_element(type);
  LLVMValueRef v = LLVMGetPoison(type), at[MAX_SHUFFLED];
  if (lanes > MAX_SHUFFLED) return NULL;
  frame->lane = NULL;
  frame->lanes = 1;
  for (int i = 0; i < lanes; i++) {
    const tn__expr *one = tn__ir_add_i(cg->ir, lane->min, i);
    at[i] = address(cg, a->storage, tn__ir_substitute(cg->ir, a->first, &lane, &one, 1));
  }
  frame->lane = lane;
  frame->lanes = lanes;
  for (int i = 0; i < lanes; i++) {
    LLVMValueRef one = plain_load(cg, a, element, at[i], (unsigned)tn_dtype_size(a->storage->buffer->dtype));
    v = LLVMBuildInsertElement(cg->builder, v, one, LLVMConstInt(cg->i32, (unsigned)i, 0), "");
  }
  return v;
}

/* Are all positions that the expression can have, in lanes without meaning, too, inside of the buffer? */
static bool stays_inside(tn__cg *cg, const access *a) {
  double low, high;
  int64_t size = 1, own;
  const tn__buffer *buffer = a->storage->buffer;
  if (buffer->strides != NULL || tn__cg_narrowed(cg->ir, a->first, &low, &high) == NULL) return false;
  for (int d = 0; d < buffer->rank; d++) {
    if (!tn__ir_as_int(buffer->shape[d], &own)) return false;
    size = tn__ir_bound_mul(size, own);
  }
  return low >= 0 && high < (double)size;
}

/* Where no instruction gathers: positions are computed in a vector of 32 bits and go through memory, where each is a
 * load by itself; to take them out of the vector are two instructions each, and a condition for each lane is more. */
static LLVMValueRef through_memory(tn__cg *cg, const access *a, LLVMTypeRef type, place p) {
  tn__cg_frame *frame = cg->frame;
  bool gathers = tn__target_can(cg->target, TN__CAN_MASK);
  if (gathers || frame->lanes > MAX_SHUFFLED || frame->word > 0 || p.lanes == NULL) return NULL;
  if (LLVMIsASExtInst(p.lanes) == NULL || (frame->mask != NULL && !stays_inside(cg, a))) return NULL;
  LLVMValueRef positions = LLVMGetOperand(p.lanes, 0), v = LLVMGetPoison(type);
  LLVMTypeRef narrow = LLVMTypeOf(positions);
  if (tn__cg_element(narrow) != cg->i32 || tn__cg_lanes(narrow) != frame->lanes) return NULL;
  LLVMValueRef slot = tn__cg_alloca(cg, narrow, 1, 0);
  LLVMSetVolatile(LLVMBuildStore(cg->builder, positions, slot), 1);
  for (int i = 0; i < frame->lanes; i++) {
    LLVMValueRef one =
        LLVMBuildLoad2(cg->builder, cg->i32, offset_pointer(cg, cg->i32, slot, tn__cg_int(cg->i64, i)), "");
    LLVMSetVolatile(one, 1);
    LLVMSetAlignment(one, 4);
    one = LLVMBuildSExt(cg->builder, one, cg->i64, "");
    LLVMValueRef pointer = offset_pointer(cg, tn__cg_element(type), p.pointer, one);
    one = plain_load(cg, a, tn__cg_element(type), pointer, (unsigned)tn_dtype_size(a->storage->buffer->dtype));
    v = LLVMBuildInsertElement(cg->builder, v, one, LLVMConstInt(cg->i32, (unsigned)i, 0), "");
  }
  return v;
}

static LLVMValueRef gathered_load(tn__cg *cg, const access *a, LLVMTypeRef type) {
  place p = place_of(cg, a->storage, a->first);
  LLVMValueRef one_by_one = through_memory(cg, a, type, p);
  if (one_by_one == NULL) one_by_one = looked_up(cg, a, type);
  if (one_by_one != NULL) return one_by_one;
  LLVMValueRef v = known_offsets(cg, a, type, p);
  return v != NULL ? v : gather(cg, a, type, offset_pointer(cg, tn__cg_element(type), p.pointer, p.lanes));
}

/* Lanes that lie apart where no instruction gathers: loads at numbers of bytes from the first one, where a vector of
 * pointers would be taken apart. NULL: a mask says which. */
static LLVMValueRef apart(tn__cg *cg, const access *a, LLVMTypeRef type) {
  bool gathers = tn__target_can(cg->target, TN__CAN_MASK);
  if (gathers || cg->frame->mask != NULL || cg->frame->lanes > MAX_SHUFFLED) return NULL;
  LLVMTypeRef element = tn__cg_element(type);
  LLVMValueRef pointer = address(cg, a->storage, a->first), v = LLVMGetPoison(type);
  for (int i = 0; i < cg->frame->lanes; i++) {
    LLVMValueRef at = offset_pointer(cg, element, pointer, tn__cg_int(cg->i64, i * a->stride));
    LLVMValueRef one = plain_load(cg, a, element, at, (unsigned)tn_dtype_size(a->storage->buffer->dtype));
    v = LLVMBuildInsertElement(cg->builder, v, one, LLVMConstInt(cg->i32, (unsigned)i, 0), "");
  }
  return v;
}

static LLVMValueRef load_lanes(tn__cg *cg, const access *a) {
  const tn__cg_frame *frame = cg->frame;
  LLVMTypeRef type = tn__cg_lanes_type(tn__cg_memory_type(cg, a->storage->buffer->dtype), frame->lanes);
  if (a->shape == GATHERED) return gathered_load(cg, a, type);
  unsigned least = (unsigned)tn_dtype_size(a->storage->buffer->dtype);
  if (is_backwards(cg, a) && frame->mask != NULL)
    return reversed(cg, masked_load(cg, a, type, last_place(cg, a), least, reversed(cg, frame->mask)));
  if (is_backwards(cg, a)) return reversed(cg, plain_load(cg, a, type, last_place(cg, a), least));
  if (a->shape == STRIDED) {
    int64_t stride = llabs(a->stride);
    bool shuffles = stride >= 2 && frame->lanes >= 4 && frame->lanes <= MAX_SHUFFLED;
    LLVMValueRef member =
        shuffles && stride <= MOST_WOVEN && frame->mask == NULL ? member_of_groups(cg, a, type) : NULL;
    if (member != NULL) return member;
    if (shuffles && stride <= MOST_SHUFFLED_STRIDE) return strided_by_shuffles(cg, a, type);
    LLVMValueRef one_by_one = apart(cg, a, type);
    return one_by_one != NULL ? one_by_one : gather(cg, a, type, strided_pointers(cg, a));
  }
  LLVMValueRef pointer = address(cg, a->storage, a->first);
  unsigned align = alignment_of(a->storage, a->first);
  if (frame->mask == NULL) return plain_load(cg, a, type, pointer, align);
  return masked_load(cg, a, type, pointer, align, frame->mask);
}

tn__cg_value tn__cg_load(tn__cg *cg, const tn__expr *e) {
  const tn__buffer *buffer = e->value.buffer;
  tn__cg_storage *storage = tn__cg_storage_of(cg, buffer);
  if (storage->slots != NULL) return tn__cg_register_load(cg, storage, flat_index(cg, buffer, e->args));
  access a = classify(cg, buffer, e->args);
  if (a.shape == UNIFORM) {
    LLVMTypeRef type = tn__cg_memory_type(cg, buffer->dtype);
    LLVMValueRef pointer = address(cg, storage, a.first);
    bool guarded = cg->frame->mask != NULL && tn__cg_needs_lazy(cg, e);
    LLVMValueRef v = guarded ? guarded_uniform(cg, &a, type, pointer)
                             : plain_load(cg, &a, type, pointer, alignment_of(storage, a.first));
    return (tn__cg_value){.v = tn__cg_from_memory(cg, buffer->dtype, v), .lanes = 1, .loads = true};
  }
  LLVMValueRef v = load_lanes(cg, &a);
  return (tn__cg_value){.v = tn__cg_from_memory(cg, buffer->dtype, v), .lanes = cg->frame->lanes, .loads = true};
}

/* A store of a vector whose value and place are known: side by side, or with lanes a stride apart. */
typedef struct one_store {
  const tn__cg_storage *storage;
  LLVMValueRef value, pointer;
  unsigned align;
  unsigned align_in_buffer; /* what it would be in a buffer that lies on a multiple of TN_KERNEL_ALIGNMENT */
  bool streams;
  int64_t stride;        /* 0: side by side */
  const tn__expr *first; /* with a stride: the element number of lane 0 */
  LLVMValueRef mask;     /* with a stride: NULL where all lanes are stored */
} one_store;

enum { MOST_HELD = 8 };

typedef struct tn__cg_held {
  one_store stores[MOST_HELD];
  int count;
} tn__cg_held;

static LLVMValueRef plain_store(tn__cg *cg, const one_store *s, unsigned align) {
  LLVMValueRef store = LLVMBuildStore(cg->builder, s->value, s->pointer);
  LLVMSetAlignment(store, align);
  return annotate(cg, s->storage, store);
}

enum { LEAST_STREAMED = 16 };

/* Is the store on a multiple of `*align` bytes, which becomes what it is on then? Where the place in the buffer tells
 * enough, the buffer is asked, with the same answer for all of a loop; else (rows whose length is odd) the place. */
static LLVMValueRef is_aligned(tn__cg *cg, const one_store *s, unsigned *align) {
  bool buffer = s->align_in_buffer >= LEAST_STREAMED;
  if (buffer && s->align_in_buffer < *align) *align = s->align_in_buffer;
  LLVMValueRef number = LLVMBuildPtrToInt(cg->builder, buffer ? s->storage->base : s->pointer, cg->i64, "");
  LLVMValueRef rest = LLVMBuildAnd(cg->builder, number, tn__cg_int(cg->i64, (int64_t)*align - 1), "");
  return LLVMBuildICmp(cg->builder, LLVMIntEQ, rest, tn__cg_int(cg->i64, 0), "");
}

/* LLVM has non-temporal instructions for vectors of 16 bytes and more that lie on a multiple of their size, and cuts
 * larger ones up as far as their alignment wants. Parameters need no more than their type's, so the machine asks. */
static void stream_lanes(tn__cg *cg, const one_store *s) {
  LLVMValueRef one = LLVMConstInt(cg->i32, 1, 0);
  LLVMTypeRef element = tn__cg_element(LLVMTypeOf(s->value));
  unsigned align = s->align;
  int64_t bytes = (int64_t)tn_dtype_size(s->storage->buffer->dtype) * tn__cg_lanes(LLVMTypeOf(s->value)),
          wanted = LEAST_STREAMED;
  if (bytes < LEAST_STREAMED || bytes % LEAST_STREAMED != 0 || element == cg->i1) {
    plain_store(cg, s, align);
    return;
  }
  while (wanted < cg->target->cpu.vector_bytes && bytes % (2 * wanted) == 0) wanted *= 2;
  LLVMBasicBlockRef join = NULL, before = LLVMGetInsertBlock(cg->builder);
  if (align < LEAST_STREAMED) {
    unsigned streamed = (unsigned)wanted;
    LLVMBasicBlockRef aligned = tn__cg_block(cg, "aligned"), other = tn__cg_block(cg, "unaligned");
    join = tn__cg_block(cg, "stored");
    LLVMBuildCondBr(cg->builder, is_aligned(cg, s, &streamed), aligned, other);
    tn__cg_at(cg, other);
    plain_store(cg, s, align);
    LLVMBuildBr(cg->builder, join);
    tn__cg_at(cg, aligned);
    align = streamed;
  }
  LLVMMetadataRef node = LLVMValueAsMetadata(one);
  LLVMSetMetadata(plain_store(cg, s, align), cg->nontemporal_kind,
                  LLVMMetadataAsValue(cg->context, LLVMMDNodeInContext2(cg->context, &node, 1)));
  cg->frame->streams = true;
  if (join == NULL) return;
  LLVMBuildBr(cg->builder, join);
  tn__cg_at(cg, join);
  if (before != cg->frame->join) cg->frame->parted = before;
  cg->frame->join = join;
}

static void store_now(tn__cg *cg, const one_store *s) {
  if (s->streams)
    stream_lanes(cg, s);
  else
    plain_store(cg, s, s->align);
}

static void scatter(tn__cg *cg, const tn__cg_storage *storage, LLVMValueRef value, LLVMValueRef pointers,
                    LLVMValueRef mask) {
  LLVMTypeRef types[] = {LLVMTypeOf(value), LLVMTypeOf(pointers)};
  LLVMValueRef args[] = {value, pointers, const_align(cg, (unsigned)tn_dtype_size(storage->buffer->dtype)), mask};
  annotate(cg, storage, tn__cg_intrinsic(cg, "llvm.masked.scatter", types, 2, args, 4));
}

static void masked_store(tn__cg *cg, const tn__cg_storage *storage, LLVMValueRef value, LLVMValueRef pointer,
                         unsigned align, LLVMValueRef mask) {
  LLVMTypeRef types[] = {LLVMTypeOf(value), cg->ptr};
  LLVMValueRef args[] = {value, pointer, const_align(cg, align), mask};
  annotate(cg, storage, tn__cg_intrinsic(cg, "llvm.masked.store", types, 2, args, 4));
}

/* ---- stores that fill each other's gaps -------------------------------------------------------------------------- */

/* Those from number `i` on, as many as their stride, whose lanes lie between each other's: into `order` by place. */
TN_MUST_USE static int find_woven(tn__cg *cg, const tn__cg_held *held, int i, const one_store **order) {
  const one_store *stores = held->stores + i;
  int64_t stride = stores[0].stride, offsets[MOST_WOVEN], low = 0;
  if (stride < 2 || stride > MOST_WOVEN || i + stride > held->count) return 0;
  for (int64_t p = 0; p < stride; p++) {
    const one_store *s = &stores[p];
    if (s->storage != stores[0].storage || s->stride != stride || (s->mask == NULL) != (stores[0].mask == NULL))
      return 0;
    if (LLVMTypeOf(s->value) != LLVMTypeOf(stores[0].value)) return 0;
    if (!tn__ir_as_int(tn__ir_sub(cg->ir, s->first, stores[0].first), &offsets[p])) return 0;
    if (offsets[p] < low) low = offsets[p];
    order[p] = NULL;
  }
  for (int64_t p = 0; p < stride; p++) {
    if (offsets[p] - low >= stride || order[offsets[p] - low] != NULL) return 0;
    order[offsets[p] - low] = &stores[p];
  }
  return (int)stride;
}

/* The lower or upper half of what two vectors make whose lanes take turns. */
static LLVMValueRef woven_half(tn__cg *cg, LLVMValueRef a, LLVMValueRef b, bool upper) {
  int lanes = tn__cg_lanes(LLVMTypeOf(a)), indices[MAX_SHUFFLED];
  for (int i = 0; i < lanes; i++) indices[i] = (i + (upper ? lanes : 0)) / 2 + (i % 2 == 0 ? 0 : lanes);
  return tn__cg_shuffle(cg, a, b, indices, lanes);
}

/* Vector number `part` of those that `count` vectors make whose lanes take turns, of every `step`-th of the values. Two
 * by two, if possible, as most machines have instructions for that. */
static LLVMValueRef woven(tn__cg *cg, const LLVMValueRef *values, int step, int count, int part) {
  int lanes = tn__cg_lanes(LLVMTypeOf(values[0])), indices[MAX_SHUFFLED];
  if (count == 1) return values[0];
  if (count % 2 == 0 && lanes % 2 == 0) {
    LLVMValueRef even = woven(cg, values, 2 * step, count / 2, part / 2);
    LLVMValueRef odd = woven(cg, values + step, 2 * step, count / 2, part / 2);
    return woven_half(cg, even, odd, part % 2 == 1);
  }
  LLVMValueRef result = LLVMGetPoison(LLVMTypeOf(values[0]));
  for (int p = 0; p < count; p++) {
    for (int i = 0; i < lanes; i++) {
      int element = part * lanes + i;
      indices[i] = element % count == p ? lanes + element / count : i;
    }
    result = tn__cg_shuffle(cg, result, values[p * step], indices, lanes);
  }
  return result;
}

/* The same of values that are all taken out of one vector, of as many lanes as they have together: one shuffle of that.
 * NULL for others. */
static LLVMValueRef rearranged(tn__cg *cg, const LLVMValueRef *values, int count, int part) {
  int lanes = tn__cg_lanes(LLVMTypeOf(values[0])), indices[MAX_SHUFFLED];
  LLVMValueRef from = NULL;
  for (int p = 0; p < count; p++) {
    if (LLVMIsAShuffleVectorInst(values[p]) == NULL) return NULL;
    if (p == 0) from = LLVMGetOperand(values[p], 0);
    if (LLVMGetOperand(values[p], 0) != from || tn__cg_lanes(LLVMTypeOf(from)) != lanes * count) return NULL;
  }
  for (int i = 0; i < lanes; i++) {
    int element = part * lanes + i;
    indices[i] = LLVMGetMaskValue(values[element % count], (unsigned)(element / count));
    if (indices[i] < 0 || indices[i] >= lanes * count) return NULL;
  }
  return tn__cg_shuffle(cg, from, tn__cg_undef(LLVMTypeOf(from)), indices, lanes);
}

/* Whole vectors side by side of `count` stores in order of their place. */
static void store_woven(tn__cg *cg, const one_store *const *order, int count) {
  LLVMValueRef values[MOST_WOVEN], masks[MOST_WOVEN];
  const tn__cg_storage *storage = order[0]->storage;
  int lanes = tn__cg_lanes(LLVMTypeOf(order[0]->value));
  LLVMTypeRef element = tn__cg_memory_type(cg, storage->buffer->dtype);
  for (int p = 0; p < count; p++) values[p] = order[p]->value, masks[p] = order[p]->mask;
  for (int part = 0; part < count; part++) {
    const tn__expr *first = tn__ir_add(cg->ir, order[0]->first, tn__ir_index(cg->ir, (int64_t)part * lanes));
    LLVMValueRef pointer = order[0]->pointer, value = rearranged(cg, values, count, part);
    if (value == NULL) value = woven(cg, values, 1, count, part);
    if (part > 0) pointer = offset_pointer(cg, element, pointer, tn__cg_int(cg->i64, (int64_t)part * lanes));
    one_store store = {.storage = storage,
                       .value = value,
                       .pointer = pointer,
                       .align = alignment_of(storage, first),
                       .align_in_buffer = alignment_within(storage, first, TN_KERNEL_ALIGNMENT),
                       .streams = order[0]->streams};
    if (order[0]->mask == NULL)
      store_now(cg, &store);
    else
      masked_store(cg, storage, value, pointer, store.align, woven(cg, masks, 1, count, part));
  }
}

static void store_held(tn__cg *cg) {
  tn__cg_held *held = cg->frame->held;
  const one_store *order[MOST_WOVEN];
  for (int i = 0, n; held != NULL && i < held->count; i += n) {
    const one_store *s = &held->stores[i];
    n = find_woven(cg, held, i, order);
    if (n > 0) {
      store_woven(cg, order, n);
      continue;
    }
    n = 1;
    if (s->stride == 0) {
      store_now(cg, s);
      continue;
    }
    int lanes = tn__cg_lanes(LLVMTypeOf(s->value));
    LLVMTypeRef element = tn__cg_memory_type(cg, s->storage->buffer->dtype);
    LLVMValueRef pointers = offset_pointer(cg, element, s->pointer, tn__cg_iota(cg->i64, lanes, s->stride));
    LLVMValueRef mask = s->mask != NULL ? s->mask : tn__cg_int(tn__cg_lanes_type(cg->i1, lanes), 1);
    scatter(cg, s->storage, s->value, pointers, mask);
  }
  if (held != NULL) held->count = 0;
}

void tn__cg_end_streams(tn__cg *cg) {
  if (cg->frame->streams && cg->arch->fence) cg->arch->fence(cg); /* other stores' order is kept by the join */
}

static void store_lanes(tn__cg *cg, const access *a, LLVMValueRef value, bool streams) {
  const tn__cg_frame *frame = cg->frame;
  if (a->shape == CONTIGUOUS && frame->mask == NULL) {
    one_store store = {a->storage,
                       value,
                       address(cg, a->storage, a->first),
                       alignment_of(a->storage, a->first),
                       alignment_within(a->storage, a->first, TN_KERNEL_ALIGNMENT),
                       streams};
    if (frame->held != NULL)
      frame->held->stores[frame->held->count++] = store;
    else
      store_now(cg, &store);
    return;
  }
  if (a->shape == STRIDED && a->stride > 1 && frame->held != NULL && frame->lanes <= MAX_SHUFFLED) {
    frame->held->stores[frame->held->count++] = (one_store){.storage = a->storage,
                                                            .value = value,
                                                            .pointer = address(cg, a->storage, a->first),
                                                            .streams = streams,
                                                            .stride = a->stride,
                                                            .first = a->first,
                                                            .mask = frame->mask};
    return;
  }
  store_held(cg); /* may be to the same place */
  unsigned least = (unsigned)tn_dtype_size(a->storage->buffer->dtype);
  if (is_backwards(cg, a) && frame->mask == NULL) {
    one_store store = {
        .storage = a->storage, .value = reversed(cg, value), .pointer = last_place(cg, a), .align = least};
    store_now(cg, &store);
    return;
  }
  if (a->shape == CONTIGUOUS || is_backwards(cg, a)) {
    bool turned = a->shape != CONTIGUOUS;
    LLVMValueRef pointer = turned ? last_place(cg, a) : address(cg, a->storage, a->first);
    LLVMValueRef mask = turned ? reversed(cg, frame->mask) : frame->mask, stored = turned ? reversed(cg, value) : value;
    masked_store(cg, a->storage, stored, pointer, turned ? least : alignment_of(a->storage, a->first), mask);
    return;
  }
  LLVMValueRef pointers = a->shape == STRIDED ? strided_pointers(cg, a) : address(cg, a->storage, a->first);
  if (a->shape == UNIFORM) pointers = tn__cg_broadcast(cg, pointers, frame->lanes);
  scatter(cg, a->storage, value, pointers, all_lanes(cg));
}

void tn__cg_store(tn__cg *cg, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.store.buffer;
  tn__cg_storage *storage = tn__cg_storage_of(cg, buffer);
  if (storage->slots != NULL && tn__cg_register_take(cg, storage, s)) {
    storage->version = ++cg->frame->version;
    return;
  }
  cg->frame->stored = buffer;
  tn__cg_value value = tn__cg_expr(cg, s->as.store.value);
  cg->frame->stored = NULL;
  if (storage->slots != NULL) {
    tn__cg_register_store(cg, storage, flat_index(cg, buffer, s->as.store.indices), value);
  } else {
    access a = classify(cg, buffer, s->as.store.indices);
    bool one = cg->frame->lanes == 1 || (a.shape == UNIFORM && value.lanes == 1 && cg->frame->mask == NULL);
    if (one) {
      unsigned align = alignment_of(storage, a.first);
      one_store store = {.storage = storage,
                         .value = tn__cg_to_memory(cg, buffer->dtype, value.v),
                         .pointer = address(cg, storage, a.first),
                         .align = align};
      store_held(cg);
      store_now(cg, &store);
    } else {
      LLVMValueRef wide = tn__cg_widen(cg, value, cg->frame->lanes);
      store_lanes(cg, &a, tn__cg_to_memory(cg, buffer->dtype, wide), s->as.store.streams);
    }
  }
  if (cg->frame->held == NULL) storage->version = ++cg->frame->version;
}

/* ---- stores side by side ----------------------------------------------------------------------------------------- */

/* The store that a vectorised loop consists of, perhaps under a condition on its lanes; NULL for anything else. */
static const tn__stmt *lone_store(const tn__cg *cg, const tn__stmt *s) {
  int lanes;
  if (s->kind != TN__STMT_FOR || !tn__cg_vectorizes(s, cg->frame->lane, &lanes) || lanes < 2) return NULL;
  const tn__stmt *body = s->as.loop.body;
  if (body->kind == TN__STMT_IF && body->as.branch.else_body == NULL &&
      tn__expr_uses_var(body->as.branch.condition, s->as.loop.var))
    body = body->as.branch.then_body;
  return body->kind == TN__STMT_STORE ? body : NULL;
}

static bool reads(const tn__stmt *loop, const tn__stmt *store, const tn__buffer *buffer) {
  const tn__stmt *body = loop->as.loop.body;
  bool found = tn__expr_uses_buffer(store->as.store.value, buffer);
  if (body != store) found |= tn__expr_uses_buffer(body->as.branch.condition, buffer);
  for (int d = 0; d < store->as.store.buffer->rank; d++)
    found |= tn__expr_uses_buffer(store->as.store.indices[d], buffer);
  return found;
}

int tn__cg_like_stores(tn__cg *cg, const tn__stmt *const *items, int count) {
  const tn__buffer *buffer = NULL;
  int n = 0;
  if (cg->frame->held != NULL || cg->frame->mask != NULL) return 1;
  for (; n < count && n < MOST_HELD; n++) {
    const tn__stmt *store = lone_store(cg, items[n]);
    if (store == NULL || (n > 0 && store->as.store.buffer != buffer)) break;
    buffer = store->as.store.buffer;
    if (tn__cg_storage_of(cg, buffer)->slots != NULL || reads(items[n], store, buffer)) break;
  }
  return n > 0 ? n : 1;
}

void tn__cg_stores(tn__cg *cg, const tn__stmt *const *items, int count) {
  tn__cg_frame *frame = cg->frame;
  if (count < 2) {
    tn__cg_stmt(cg, items[0]);
    return;
  }
  tn__cg_storage *storage = tn__cg_storage_of(cg, lone_store(cg, items[0])->as.store.buffer);
  tn__cg_held held = {.count = 0};
  frame->held = &held;
  for (int i = 0; i < count; i++) tn__cg_stmt(cg, items[i]);
  store_held(cg);
  frame->held = NULL;
  storage->version = ++frame->version;
}
