/* What several operations say and one instruction does: counting bits. And what is known of floats, so that less has to
 * be done to them. */
#include <math.h>

#include "base/invariant.h"
#include "codegen/llvm/emit.h"

/* ---- counting bits ----------------------------------------------------------------------------------------------- */

/* The repeated byte, or a part of one in each, as a constant of the type: 0x33 in u32 is 0x33333333. */
static bool is_mask(const tn__expr *e, uint64_t byte) {
  int64_t value;
  uint64_t all = UINT64_MAX >> (64 - tn__dtype_bits(e->dtype));
  return tn__ir_as_int(e, &value) && ((uint64_t)value & all) == (byte * UINT64_C(0x0101010101010101) & all);
}

/* x of `x & mask`; NULL for anything else. */
static const tn__expr *masked(const tn__expr *e, uint64_t byte) {
  if (e->kind != TN__EXPR_AND) return NULL;
  TN__INVARIANT(e->args[0] != NULL && e->args[1] != NULL);
  for (int i = 0; i < 2; i++)
    if (is_mask(e->args[i], byte)) return e->args[1 - i];
  return NULL;
}

/* x of `x >> bits`. */
static const tn__expr *shifted(const tn__expr *e, int64_t bits) {
  int64_t by;
  TN__INVARIANT(e != NULL);
  return e->kind == TN__EXPR_SHR && tn__ir_as_int(e->args[1], &by) && by == bits ? e->args[0] : NULL;
}

/* x of `(x & mask) + ((x >> bits) & mask)`: each field of so many bits and the one above it added up. */
static const tn__expr *added_fields(const tn__expr *e, int64_t bits, uint64_t byte) {
  if (e->kind != TN__EXPR_ADD) return NULL;
  for (int i = 0; i < 2; i++) {
    const tn__expr *low = masked(e->args[i], byte), *high = masked(e->args[1 - i], byte);
    if (low != NULL && high != NULL && shifted(high, bits) == low) return low;
  }
  return NULL;
}

/* x of what counts the bits of each pair, by a sum or by `x - ((x >> 1) & 0x55)`. */
static const tn__expr *counted_pairs(const tn__expr *e) {
  if (e->kind == TN__EXPR_SUB) {
    const tn__expr *high = masked(e->args[1], 0x55);
    return high != NULL && shifted(high, 1) == e->args[0] ? e->args[0] : NULL;
  }
  return added_fields(e, 1, 0x55);
}

/* x of what counts the bits of each byte, by a sum or by `(b + (b >> 4)) & 0x0f`. */
static const tn__expr *counted_bytes(const tn__expr *e) {
  const tn__expr *sum = masked(e, 0x0f), *fours = sum == NULL ? added_fields(e, 4, 0x0f) : NULL;
  for (int i = 0; sum != NULL && sum->kind == TN__EXPR_ADD && i < 2; i++)
    if (shifted(sum->args[i], 4) == sum->args[1 - i]) fours = sum->args[1 - i];
  const tn__expr *pairs = fours == NULL ? NULL : added_fields(fours, 2, 0x33);
  return pairs == NULL ? NULL : counted_pairs(pairs);
}

/* The counts of bytes; for wider types, added up by a product. */
const tn__expr *tn__cg_counted(const tn__expr *e) {
  if (tn__dtype_is_float(e->dtype) || tn__dtype_is_signed(e->dtype) || e->dtype == TN_BOOL) return NULL;
  int bits = tn__dtype_bits(e->dtype);
  if (bits == 8) return counted_bytes(e);
  const tn__expr *product = shifted(e, bits - 8);
  if (product == NULL || product->kind != TN__EXPR_MUL) return NULL;
  for (int i = 0; i < 2; i++)
    if (is_mask(product->args[i], 0x01)) return counted_bytes(product->args[1 - i]);
  return NULL;
}

/* ---- floats between bounds --------------------------------------------------------------------------------------- */

enum { DEEPEST = 8 };

typedef struct bounds {
  double low, high;
} bounds;

/* Of a float that may be NaN, too. */
static bounds bounds_of(const tn__expr *e, int depth) {
  const bounds any = {-INFINITY, INFINITY};
  if (e->kind == TN__EXPR_FLOAT) return (bounds){e->value.f, e->value.f};
  if (depth == 0 || (e->kind != TN__EXPR_MIN && e->kind != TN__EXPR_MAX && e->kind != TN__EXPR_CALL)) return any;
  bounds a = bounds_of(e->args[0], depth - 1);
  if (e->kind == TN__EXPR_CALL) {
    bool rounds = e->intrinsic == TN__CALL_ROUND_EVEN || e->intrinsic == TN__CALL_FLOOR;
    return rounds ? (bounds){floor(a.low), ceil(a.high)} : any;
  }
  bounds b = bounds_of(e->args[1], depth - 1);
  if (e->kind == TN__EXPR_MIN) return (bounds){fmin(a.low, b.low), fmin(a.high, b.high)};
  return (bounds){fmax(a.low, b.low), fmax(a.high, b.high)};
}

bool tn__cg_holds(tn_dtype to, const tn__expr *e) {
  if (tn__dtype_is_float(to) || !tn__dtype_is_float(e->dtype) || to == TN_BOOL || tn__dtype_bits(to) > 16) return false;
  int bits = tn__dtype_bits(to) - tn__dtype_is_signed(to);
  bounds b = bounds_of(e, DEEPEST);
  return b.low >= (tn__dtype_is_signed(to) ? -ldexp(1, bits) : 0) && b.high <= ldexp(1, bits) - 1;
}

/* ---- places that floats say -------------------------------------------------------------------------------------- */

typedef struct narrowing {
  tn__ir *ir;
  bool pays; /* there is a float that is cast, or an element of data that is clamped */
} narrowing;

/* Are all numbers of the type in i32? */
static bool is_in_i32(tn_dtype type) { return tn__dtype_bits(type) < 32 || type == TN_I32; }

static bool fits_i32(bounds b) { return b.low >= INT32_MIN && b.high <= INT32_MAX; }

static const tn__expr *narrowed(narrowing *n, const tn__expr *e, int depth, bounds *b);

static const tn__expr *clamp(tn__ir *ir, const tn__expr *x, int64_t low, int64_t high) {
  const tn__expr *at_least = tn__ir_max(ir, tn__ir_int(ir, TN_I32, low), x);
  return tn__ir_min(ir, tn__ir_int(ir, TN_I32, high), at_least);
}

/* min(high, max(low, x)) of constants and a float that is cast, or an element of data: a number beyond i32 is beyond
 * them, too. */
static const tn__expr *narrowed_clamp(narrowing *n, const tn__expr *e, bounds *b) {
  const tn__expr *limit[2] = {NULL}, *x = e;
  for (int level = 0; level < 2; level++) {
    bool is_max = x->kind == TN__EXPR_MAX;
    if ((x->kind != TN__EXPR_MIN && !is_max) || limit[is_max] != NULL) return NULL;
    int side = x->args[0]->kind == TN__EXPR_INT ? 0 : 1;
    if (x->args[side]->kind != TN__EXPR_INT) return NULL;
    limit[is_max] = x->args[side];
    x = x->args[1 - side];
  }
  bool is_cast = x->kind == TN__EXPR_CAST && x->args[0]->dtype != TN_BOOL, is_element = x->kind == TN__EXPR_LOAD;
  if (!is_cast && !is_element) return NULL;
  int64_t high = limit[0]->value.i, low = limit[1]->value.i;
  *b = (bounds){(double)(low < high ? low : high), (double)high};
  if (low > high || !fits_i32(*b)) return NULL;
  const tn_dtype from = is_cast ? x->args[0]->dtype : TN_I64;
  n->pays = true;
  if (is_cast && (tn__dtype_is_float(from) || is_in_i32(from)))
    return clamp(n->ir, tn__ir_cast(n->ir, TN_I32, x->args[0]), low, high);
  return tn__ir_cast(n->ir, TN_I32, e);
}

static bounds bounds_of_operation(tn__expr_kind kind, bounds x, bounds y) {
  double products[] = {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
  bounds b = {products[0], products[0]};
  switch (kind) {
    case TN__EXPR_ADD: return (bounds){x.low + y.low, x.high + y.high};
    case TN__EXPR_SUB: return (bounds){x.low - y.high, x.high - y.low};
    case TN__EXPR_MIN: return (bounds){fmin(x.low, y.low), fmin(x.high, y.high)};
    case TN__EXPR_MAX: return (bounds){fmax(x.low, y.low), fmax(x.high, y.high)};
    default: break;
  }
  for (int i = 1; i < 4; i++) b = (bounds){fmin(b.low, products[i]), fmax(b.high, products[i])};
  return b;
}

static const tn__expr *narrowed(narrowing *n, const tn__expr *e, int depth, bounds *b) {
  if (depth == 0 || e->dtype != TN_I64) return NULL;
  const tn__expr *clamp = narrowed_clamp(n, e, b);
  if (clamp != NULL) return clamp;
  if (e->kind == TN__EXPR_INT) {
    *b = (bounds){(double)e->value.i, (double)e->value.i};
    return fits_i32(*b) ? tn__ir_int(n->ir, TN_I32, e->value.i) : NULL;
  }
  if (e->kind == TN__EXPR_CAST) {
    if (!tn__dtype_is_float(e->args[0]->dtype)) return NULL;
    *b = bounds_of(e->args[0], DEEPEST);
    *b = (bounds){fmin(b->low, 0), fmax(b->high, 0)}; /* NaN gives 0 */
    n->pays = true;
    return fits_i32(*b) ? tn__ir_cast(n->ir, TN_I32, e->args[0]) : NULL;
  }
  if (e->kind != TN__EXPR_ADD && e->kind != TN__EXPR_SUB && e->kind != TN__EXPR_MUL && e->kind != TN__EXPR_MIN &&
      e->kind != TN__EXPR_MAX)
    return NULL;
  bounds x, y;
  const tn__expr *left = narrowed(n, e->args[0], depth - 1, &x);
  const tn__expr *right = left == NULL ? NULL : narrowed(n, e->args[1], depth - 1, &y);
  if (right == NULL) return NULL;
  *b = bounds_of_operation(e->kind, x, y);
  return fits_i32(*b) ? tn__ir_binary(n->ir, e->kind, left, right) : NULL;
}

const tn__expr *tn__cg_narrowed(tn__ir *ir, const tn__expr *e, double *low, double *high) {
  narrowing n = {.ir = ir};
  bounds b = {0, 0};
  const tn__expr *found = narrowed(&n, e, DEEPEST, &b);
  *low = b.low;
  *high = b.high;
  return n.pays ? found : NULL;
}
