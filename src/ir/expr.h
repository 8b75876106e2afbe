/* Scalar expressions: index arithmetic, symbolic dimensions and kernel bodies are all written in this one language.
 *
 * Expressions are immutable and hash-consed in an ir context: two expressions of one context are equal exactly when
 * their pointers are. The constructors put them into canonical form, so there is no "simplify" to forget:
 *  - i64 arithmetic (index arithmetic; assumed not to overflow) becomes a sum of constant * product-of-atoms terms in
 *    structural order plus a constant; floordiv and floormod by constants are split using the known ranges of
 * variables; comparisons and min/max that the ranges decide become constants or one of their sides. Sums over scaled
 *    floordiv/floormod pairs recombine: (x / c) * c + x % c == x.
 *  - every other type is only folded when all operands are constants (with that type's exact rounding and wrap-around)
 * and by rules that hold for every value, NaN, infinities and signed zero included: x * 1, x + (-0.0), select(true, a,
 * b), casts to the own type, double negation of bool; x + 0 and x * 0 for integers. Order is structural, never by
 * address, so that the same construction gives the same text everywhere.
 *
 * A context belongs to one thread at a time; make one per kernel or candidate. Everything lives in its arena. */
#ifndef TENON_IR_EXPR_H
#define TENON_IR_EXPR_H

#include "base/arena.h"
#include "base/dtype.h"
#include "base/linked.h"

typedef enum tn__expr_kind {
  TN__EXPR_INT,   /* any integer type and bool: `value.i`, wrapped to the type */
  TN__EXPR_FLOAT, /* any floating type: `value.f`, rounded to the type */
  TN__EXPR_VAR,
  TN__EXPR_ADD,
  TN__EXPR_SUB,
  TN__EXPR_MUL,
  TN__EXPR_DIV, /* floats: IEEE division; i64 indices and other integers: floor division. A zero integer divisor makes
                   the kernel fail */
  TN__EXPR_MOD, /* integers: remainder with the divisor's sign (floor); floats: fmod with the dividend's sign (C) */
  TN__EXPR_MIN,
  TN__EXPR_MAX, /* floats: NaN when either side is NaN */
  TN__EXPR_EQ,
  TN__EXPR_NE,
  TN__EXPR_LT,
  TN__EXPR_LE, /* bool; a > b is written b < a */
  TN__EXPR_AND,
  TN__EXPR_OR,
  TN__EXPR_NOT, /* bool: logical, lazy in the second operand; integers: bitwise */
  TN__EXPR_XOR,
  TN__EXPR_SHL,
  TN__EXPR_SHR, /* integers; a shift by bits or more gives 0 (SHR of a negative: -1); SHR is arithmetic when signed */
  TN__EXPR_SELECT, /* select(bool, a, b): lazy: the side not chosen is not evaluated, its loads do not happen */
  TN__EXPR_CAST, /* float->int truncates and saturates (NaN gives 0), int->int wraps, ->bool is "!= 0", float narrowing
                    rounds to even */
  TN__EXPR_BITCAST, /* same size */
  TN__EXPR_LOAD,    /* buffer[indices...] */
  TN__EXPR_CALL     /* intrinsic */
} tn__expr_kind;

/* Intrinsics over floating types (f16 and bf16 are computed in f32 and rounded once). One row each in ir/intrinsic.c:
 * name, arity, reference evaluation in C. Stated error bounds of the generated code stand in docs/numerics.md. */
typedef enum tn__intrinsic {
  TN__CALL_ABS,
  TN__CALL_NEG, /* integers too, wrapping */
  TN__CALL_SQRT,
  TN__CALL_RSQRT,
  TN__CALL_EXP,
  TN__CALL_EXPM1,
  TN__CALL_LOG,
  TN__CALL_LOG1P,
  TN__CALL_POW,
  TN__CALL_SIN,
  TN__CALL_COS,
  TN__CALL_TAN,
  TN__CALL_ASIN,
  TN__CALL_ACOS,
  TN__CALL_ATAN,
  TN__CALL_ATAN2,
  TN__CALL_SINH,
  TN__CALL_COSH,
  TN__CALL_TANH,
  TN__CALL_ASINH,
  TN__CALL_ACOSH,
  TN__CALL_ATANH,
  TN__CALL_ERF,
  TN__CALL_FLOOR,
  TN__CALL_CEIL,
  TN__CALL_TRUNC,
  TN__CALL_ROUND_EVEN,
  TN__CALL_FMA, /* fma(a, b, c), one rounding */
  TN__CALL_IS_NAN,
  TN__CALL_IS_INF, /* bool */
  TN__CALL_POPCOUNT,
  TN__CALL_CLZ,    /* integers; clz(0) is the width */
  TN__CALL_DOT4,   /* of two i32: the sum of products of their bytes, a's as u8 and b's as i8 */
  TN__CALL_DOT2,   /* of two i32: the sum of products of their halves, as i16; wraps around */
  TN__CALL_SUM8,   /* of an i64: the sum of its bytes, as u8 */
  TN__CALL_LIKELY, /* bool -> the same bool; marks a bound check that loop partition may remove */
  TN__CALL_COUNT
} tn__intrinsic;

typedef struct tn__ir tn__ir; /* the context */
typedef struct tn__expr tn__expr;
typedef struct tn__var tn__var;
typedef struct tn__buffer tn__buffer;

struct tn__expr {
  tn__expr_kind kind;
  tn_dtype dtype;
  tn__intrinsic intrinsic; /* CALL */
  int arg_count;           /* LOAD: the buffer's rank */
  uint64_t hash;           /* structural */
  union {
    int64_t i;
    double f;
    const tn__var *var;
    const tn__buffer *buffer; /* LOAD */
  } value;
  const tn__expr *const *args;
};

/* A variable: a loop's index, a block's axis, a symbolic dimension or a let. `min` and `extent` state its range [min,
 * min + extent) when they are known (NULL when not); they may be expressions over other variables. A symbolic dimension
 * has min 0 and no extent unless it is known to be bounded. Ranges are promises that the constructors use. */
struct tn__var {
  const char *name; /* for people and text; unique within a printed function after tn__ir_print renames (x, x_1, ...) */
  tn_dtype dtype;
  uint32_t id; /* order of creation within the context; the structural order of variables */
  const tn__expr *min, *extent;
  const tn__expr *self; /* the expression that reads it */
};

typedef enum tn__scope {
  TN__SCOPE_PARAM,     /* the caller's buffer */
  TN__SCOPE_WORKSPACE, /* memory of the kernel's workspace, allocated once per kernel call, shared by its threads */
  TN__SCOPE_STACK,     /* small memory private to the thread and the ALLOC's dynamic extent; constant shape, at most 64
                        * KiB */
  TN__SCOPE_REGISTER,  /* the same, and every access must have constant indices once unrolled loops are expanded, apart
                          from a vectorised index in the last dimension, or, in loads, in another one: becomes SSA
                          values, and columns of them come from shuffles */
  TN__SCOPE_SHARED,    /* memory of a block that its threads share: allocated outside of the loops over threads and
                          inside of those over blocks; constant shape */
  TN__SCOPE_LOCAL, /* private to a thread: allocated inside of all loops over threads; constant shape, at most 64 KiB */
  TN__SCOPE_COUNT
} tn__scope;

/* A dense row-major array. */
struct tn__buffer {
  const char *name;
  tn_dtype dtype;
  tn__scope scope;
  int rank;
  uint32_t id;
  const tn__expr *const *shape; /* i64, rank of them */
  /* Of a parameter that is not dense: how many elements lie between neighbours along each dimension, i64. NULL:
   * row-major without gaps. Only where elements lie is about these: all else goes by the shape. */
  const tn__expr *const *strides;
};

TN__LINKED tn__ir *tn__ir_create(tn__arena *arena); /* lives in the arena */
tn__arena *tn__ir_arena(const tn__ir *ir);

/* ---- leaves ------------------------------------------------------------------------------------------------------ */
const tn__expr *tn__ir_int(tn__ir *ir, tn_dtype dtype, int64_t value);
const tn__expr *tn__ir_index(tn__ir *ir, int64_t value); /* i64 */
const tn__expr *tn__ir_bool(tn__ir *ir, bool value);
const tn__expr *tn__ir_float(tn__ir *ir, tn_dtype dtype, double value);
const tn__expr *tn__ir_constant(tn__ir *ir, tn_dtype dtype, double value); /* of any type; exact for small integers */
/* Extreme values: identities of min and max: -inf/+inf for floats, the smallest/largest for integers, false/true. */
const tn__expr *tn__ir_lowest(tn__ir *ir, tn_dtype dtype);
const tn__expr *tn__ir_highest(tn__ir *ir, tn_dtype dtype);
tn__var *tn__var_create(tn__ir *ir, const char *name, tn_dtype dtype, const tn__expr *min, const tn__expr *extent);
/* shape is copied. */
tn__buffer *tn__buffer_create(tn__ir *ir, const char *name, tn_dtype dtype, tn__scope scope, int rank,
                              const tn__expr *const *shape);
/* Of a parameter; copied, NULL: dense. */
void tn__buffer_set_strides(tn__ir *ir, tn__buffer *buffer, const tn__expr *const *strides);

/* ---- operations; operands must agree in dtype (shifts too); a wrong dtype is a defect and throws TN_INTERNAL ----- */
const tn__expr *tn__ir_binary(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b); /* ADD .. SHR */
const tn__expr *tn__ir_add(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_sub(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_mul(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_div(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_mod(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_min(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_max(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_eq(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_ne(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_lt(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_le(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_and(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_or(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_not(tn__ir *ir, const tn__expr *a);
const tn__expr *tn__ir_select(tn__ir *ir, const tn__expr *condition, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__ir_cast(tn__ir *ir, tn_dtype dtype, const tn__expr *a);
const tn__expr *tn__ir_bitcast(tn__ir *ir, tn_dtype dtype, const tn__expr *a);
const tn__expr *tn__ir_load(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices); /* i64 indices */
/* Where in row-major order the element at these indices is, of dimensions of these sizes. */
const tn__expr *tn__ir_flatten(tn__ir *ir, const tn__expr *const *sizes, const tn__expr *const *indices, int count);
/* How many elements behind the buffer's first one the element at the indices lies. */
const tn__expr *tn__buffer_flatten(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices);
const tn__expr *tn__ir_call(tn__ir *ir, tn__intrinsic intrinsic, tn_dtype dtype, const tn__expr *const *args,
                            int count);
const tn__expr *tn__ir_call1(tn__ir *ir, tn__intrinsic intrinsic,
                             const tn__expr *a); /* result dtype: a's (IS_NAN, IS_INF: bool) */
const tn__expr *tn__ir_call2(tn__ir *ir, tn__intrinsic intrinsic, const tn__expr *a, const tn__expr *b);
/* Index conveniences: a + c, a * c, a / c, a % c with a constant. */
const tn__expr *tn__ir_add_i(tn__ir *ir, const tn__expr *a, int64_t c);
const tn__expr *tn__ir_mul_i(tn__ir *ir, const tn__expr *a, int64_t c);
const tn__expr *tn__ir_div_i(tn__ir *ir, const tn__expr *a, int64_t c);
const tn__expr *tn__ir_mod_i(tn__ir *ir, const tn__expr *a, int64_t c);
const tn__expr *tn__ir_ceildiv(tn__ir *ir, const tn__expr *a, const tn__expr *b); /* (a + b - 1) / b */

/* ---- asking ------------------------------------------------------------------------------------------------------ */
static inline bool tn__ir_is_int(const tn__expr *e) { return e->kind == TN__EXPR_INT; }
static inline bool tn__ir_is_int_value(const tn__expr *e, int64_t v) {
  return e->kind == TN__EXPR_INT && e->value.i == v;
}
bool tn__ir_is_float_extremum(const tn__expr *e); /* a minimum or maximum of floats, which keeps NaN */
bool tn__ir_is_true(const tn__expr *e);
bool tn__ir_is_false(const tn__expr *e);
/* The constant value of an integer expression; false when it is not constant. */
TN_MUST_USE bool tn__ir_as_int(const tn__expr *e, int64_t *out);
int64_t tn__ir_int_or(const tn__expr *e, int64_t otherwise); /* `otherwise`: not constant, or e is NULL */
/* -1, 0, 1 by structure: kind, dtype, values, variables by id, buffers by id, arguments. */
int tn__expr_compare(const tn__expr *a, const tn__expr *b);
/* Does `e` read `var` (also through the indices of loads)? Read any of several? Load from `buffer`? */
bool tn__expr_uses_var(const tn__expr *e, const tn__var *var);
const uint32_t *tn__expr_vars(const tn__expr *e, int *count);    /* ids of all that it reads, ascending */
const uint32_t *tn__expr_buffers(const tn__expr *e, int *count); /* the same of what it loads from */
bool tn__expr_uses_buffer(const tn__expr *e, const tn__buffer *buffer);
bool tn__expr_has_load(const tn__expr *e);
int tn__expr_depth(const tn__expr *e); /* of the tree; leaves have 0 */
/* Nodes of the tree, parts that are shared counted each time: how long its text is. UINT32_MAX: that or more. */
uint32_t tn__expr_size(const tn__expr *e);

/* Expressions that were met. They are graphs, and what is shared may be shared at every level: a walk that does not ask
 * here whether it was at a part before takes as many steps as the tree has nodes. */
typedef struct tn__expr_set {
  tn__ir *ir;
  const tn__expr **slots; /* open addressing by the structural hash */
  size_t capacity, count; /* capacity: 0, or a power of two */
} tn__expr_set;
/* Empties the set. Its memory serves the next one of the context: a declaration of thousands of stages is walked
 * thousands of times. */
void tn__expr_set_clear(tn__expr_set *set);
bool tn__expr_set_add(tn__expr_set *set, const tn__expr *e); /* false: it was in it */
bool tn__expr_set_has(const tn__expr_set *set, const tn__expr *e);
/* Two sides of a branch, as code is made of them: what one computes is not there on the other, so parts of both would
 * be made twice, and in a chain of branches each step would double that. Calls `make` with the large parts that both
 * need whatever happens in them, which come before the branch. */
void tn__expr_common_parts(tn__ir *ir, const tn__expr *a, const tn__expr *b,
                           void (*make)(void *user, const tn__expr *part), void *user);

/* ---- rewriting (memoised; rebuilt through the constructors, so the result is canonical) -------------------------- */
/* Calls `fn` on every node after its arguments were rewritten: returns the replacement, or NULL to keep the (rebuilt)
 * node. */
typedef const tn__expr *(*tn__expr_rewriter)(tn__ir *ir, const tn__expr *e, void *user);
const tn__expr *tn__expr_rewrite(tn__ir *ir, const tn__expr *e, tn__expr_rewriter fn, void *user);
/* The same operation on other arguments; leaves are returned as they are. */
const tn__expr *tn__expr_with_args(tn__ir *ir, const tn__expr *e, const tn__expr *const *args);
/* Replaces variables at once (not one after another). */
const tn__expr *tn__ir_substitute(tn__ir *ir, const tn__expr *e, const tn__var *const *vars,
                                  const tn__expr *const *values, int count);

/* ---- analysis ---------------------------------------------------------------------------------------------------- */
typedef struct tn__interval {
  int64_t min, max; /* inclusive; INT64_MIN / INT64_MAX: unbounded on that side */
} tn__interval;
/* Saturating arithmetic on bounds and sizes; INT64_MIN and INT64_MAX mean "unbounded". */
int64_t tn__ir_bound_add(int64_t a, int64_t b);
int64_t tn__ir_bound_mul(int64_t a, int64_t b);
/* What a type holds; floats and 64 bits: unbounded. */
tn__interval tn__ir_dtype_interval(tn_dtype dtype);
/* Range of an integer or bool expression from the ranges of its variables (recursively through their bounds). */
tn__interval tn__interval_of(tn__ir *ir, const tn__expr *e);
/* An estimate: the value of an index halfway along all loops; open dimensions count as TN__OPEN_EXTENT. NAN: not
 * known. */
double tn__ir_middle(const tn__expr *e);
#define TN__OPEN_EXTENT 120 /* what an open dimension is taken for: not a multiple of most tiles, nor prime */
/* An extent, or TN__OPEN_EXTENT for one that only the run tells. */
double tn__ir_extent_estimate(const tn__expr *extent);
double tn__ir_elements_estimate(const tn__buffer *buffer); /* of the whole tensor */
/* Largest and smallest value of `e` as expressions when the given variables run over their ranges (symbolic extents
 * allowed); e must be monotone in each (affine terms, floordiv by positive constants, min, max of such). False when
 * that can't be shown. */
TN_MUST_USE bool tn__ir_bounds_over(tn__ir *ir, const tn__expr *e, const tn__var *const *vars, int count,
                                    const tn__expr **min_out, const tn__expr **max_out);
/* Is this bool expression always true by the ranges of its variables? (false: unknown or not) */
bool tn__ir_prove(tn__ir *ir, const tn__expr *condition);
/* Writes e as sum(coefficients[i] * vars[i]) + rest, rest free of vars; false when it is not affine in them.
 * Coefficients are integer constants or expressions free of vars (symbolic strides). */
TN_MUST_USE bool tn__ir_affine_in(tn__ir *ir, const tn__expr *e, const tn__var *const *vars, int count,
                                  const tn__expr **coefficients, const tn__expr **rest);
/* d(e)/d(var) when e is affine in var with a constant coefficient; false otherwise. */
TN_MUST_USE bool tn__ir_stride_in(tn__ir *ir, const tn__expr *e, const tn__var *var, int64_t *stride);

#endif
