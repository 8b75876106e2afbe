/* Transposing tiles of vectors by shuffles.
 *
 * Write the place of an element as bits: those of its row, then those of its column. At first the row's bits say which
 * vector the element is in, and the column's bits which lane; in the end it is the other way round. Each stage takes
 * two vectors whose numbers differ in one bit and makes two new ones, so that this bit becomes one of the lane's and
 * one of the lane's becomes the vector's: log2 of the side are enough. Which bits are exchanged is chosen so that each
 * shuffle is one instruction where vectors are made of parts of 16 bytes, as on x86: interleaving of elements within
 * the parts first, of the lower halves and of the upper halves (unpack; zip on Arm), and then of whole parts.
 *
 * Tiles that are not square: short rows are joined before to vectors as wide as there are rows, so that all stages work
 * on whole vectors and joining is done by loads; long ones are cut. Sides are padded to powers of two. */
#include "codegen/llvm/emit.h"

enum { MAX_SIDE = 64, PART_BYTES = 16 };

static int power_of_two(int n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
}

static LLVMValueRef resized(tn__cg *cg, LLVMValueRef v, int first, int lanes) {
  int indices[MAX_SIDE], have = tn__cg_lanes(LLVMTypeOf(v));
  if (first == 0 && lanes == have) return v;
  if (have == 1) return tn__cg_broadcast(cg, v, lanes);
  for (int i = 0; i < lanes; i++) indices[i] = first + i < have ? first + i : -1;
  return tn__cg_shuffle(cg, v, tn__cg_undef(LLVMTypeOf(v)), indices, lanes);
}

/* Two vectors out of two: in each group of `group` lanes the lower half of both, or the upper half, interleaved by
 * blocks of `block` lanes. */
static void interleave(tn__cg *cg, LLVMValueRef *a, LLVMValueRef *b, int group, int block) {
  int lanes = tn__cg_lanes(LLVMTypeOf(*a)), indices[2][MAX_SIDE];
  for (int half = 0; half < 2; half++)
    for (int i = 0; i < lanes; i++) {
      int within = i % group, pair = within / (2 * block);
      int from = i - within + half * (group / 2) + pair * block + within % block;
      indices[half][i] = within / block % 2 == 0 ? from : lanes + from;
    }
  LLVMValueRef lower = tn__cg_shuffle(cg, *a, *b, indices[0], lanes),
               upper = tn__cg_shuffle(cg, *a, *b, indices[1], lanes);
  *a = lower;
  *b = upper;
}

/* Two vectors out of two: in each group of lanes the blocks of even number of `a`, then those of `b`; the odd ones. */
static void separate(tn__cg *cg, LLVMValueRef *a, LLVMValueRef *b, int group, int block) {
  int lanes = tn__cg_lanes(LLVMTypeOf(*a)), indices[2][MAX_SIDE];
  for (int odd = 0; odd < 2; odd++)
    for (int i = 0; i < lanes; i++) {
      int within = i % group, half = within / (group / 2), at = within % (group / 2);
      int from = i - within + (2 * (at / block) + odd) * block + at % block;
      indices[odd][i] = half == 0 ? from : lanes + from;
    }
  LLVMValueRef even = tn__cg_shuffle(cg, *a, *b, indices[0], lanes),
               rest = tn__cg_shuffle(cg, *a, *b, indices[1], lanes);
  *a = even;
  *b = rest;
}

/* `side` vectors of `lanes` lanes, a multiple of the side: each group of `side` lanes is a square of its own. */
static void transpose_squares(tn__cg *cg, LLVMValueRef *v, int side, int lanes, int part, LLVMValueRef *columns) {
  int group = part < side ? part : side, stage = 1;
  for (; stage < group; stage *= 2)
    for (int i = 0; i < side; i++)
      if ((i & stage) == 0) interleave(cg, &v[i], &v[i + stage], group, stage);
  for (; stage < side; stage *= 2)
    for (int i = 0; i < side; i++)
      if ((i & stage) == 0) separate(cg, &v[i], &v[i + stage], side, group);
  for (int c = 0; c < side; c++) { /* interleaving took the column's bits from the highest on */
    int at = c / group * group;
    for (int bit = 1, from = group / 2; bit < group; bit *= 2, from /= 2)
      if ((c & bit) != 0) at += from;
    columns[c] = v[at];
  }
}

void tn__cg_transpose(tn__cg *cg, const LLVMValueRef *rows, int row_count, int row_lanes, LLVMValueRef *columns) {
  LLVMTypeRef element = tn__cg_element(LLVMTypeOf(rows[0]));
  int high = power_of_two(row_count), wide = power_of_two(row_lanes), side = high < wide ? high : wide;
  if (high > MAX_SIDE || wide > MAX_SIDE) tn__cg_fail(cg, "a tile to transpose is more than %d wide", MAX_SIDE);
  bool is_bit = element == cg->i1;
  if (is_bit) element = cg->i8;
  unsigned bytes = LLVMGetTypeKind(element) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(element) / 8
                   : element == cg->f64                            ? 8
                                                                   : 4;
  int part = bytes < PART_BYTES ? (int)(PART_BYTES / bytes) : 1;
  for (int first = 0; first < row_lanes; first += side) {
    LLVMValueRef v[MAX_SIDE] = {NULL}, found[MAX_SIDE] = {NULL};
    for (int i = 0; i < high; i++) {
      v[i] = i < row_count ? rows[i] : LLVMGetPoison(LLVMTypeOf(rows[0]));
      if (is_bit) v[i] = LLVMBuildZExt(cg->builder, v[i], tn__cg_like(LLVMTypeOf(v[i]), element), "");
      v[i] = resized(cg, v[i], first, side);
    }
    for (int count = high, lanes = side; count > side; count /= 2, lanes *= 2) /* row i, then row i + side, ... */
      for (int i = 0; i < count / 2; i++) {
        int first_half = i / side * 2 * side + i % side, indices[MAX_SIDE];
        for (int l = 0; l < 2 * lanes; l++) indices[l] = l;
        v[i] = tn__cg_shuffle(cg, v[first_half], v[first_half + side], indices, 2 * lanes);
      }
    if (side > 1)
      transpose_squares(cg, v, side, high, part, found);
    else
      found[0] = v[0];
    for (int c = first; c < row_lanes && c < first + side; c++) {
      columns[c] = tn__cg_slice(cg, found[c - first], 0, row_count);
      if (is_bit) columns[c] = LLVMBuildTrunc(cg->builder, columns[c], tn__cg_like(LLVMTypeOf(columns[c]), cg->i1), "");
    }
  }
}
