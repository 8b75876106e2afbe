/* Inside of the ir context: nodes as they lie in memory, and interning. For the files of this room only. */
#ifndef TENON_IR_CONTEXT_H
#define TENON_IR_CONTEXT_H

#include "ir/stmt.h"

/* What occurs inside of an expression, by id, ascending. Shared between nodes wherever it is the same: asking a deep
 * expression with many shared parts costs no walk. */
typedef struct tn__id_set {
  int count;
  uint32_t ids[];
} tn__id_set;

/* Every expression is the first member of one of these, so that what was found out about it once is found again. */
typedef struct tn__node {
  tn__expr expr;
  const tn__id_set *vars, *buffers; /* NULL: none */
  uint64_t var_mask;                /* bit (id % 64) of every variable read inside: a quick "does not occur" */
  tn__interval interval;
  const tn__expr *memo; /* of the rewrite numbered `memo_epoch` */
  uint64_t memo_epoch, visit_epoch;
  uint32_t number; /* of creation within the context, from 0 */
  uint32_t depth;  /* of the tree; leaves have 0 */
  uint32_t size;   /* of the tree, shared parts counted each time; UINT32_MAX: that or more */
  bool has_interval;
  bool has_likely;
  bool is_data; /* an i64 that may come from anywhere (loads, casts of floats): arithmetic on it may wrap around */
} tn__node;

typedef struct tn__spare_set {
  struct tn__spare_set *next;
} tn__spare_set;

enum { TN__SET_SIZES = 32 };

struct tn__ir {
  tn__arena *arena;
  const tn__expr **slots; /* open addressing, a power of two of them */
  uint32_t slot_count, node_count;
  uint32_t next_var, next_buffer;
  uint64_t next_epoch;
  tn__spare_set *spare_sets[TN__SET_SIZES]; /* memory of sets that were cleared; each twice as large as the last */
};

static inline tn__node *tn__node_of(const tn__expr *e) {
  union {
    const tn__expr *in;
    tn__node *out;
  } cast = {.in = e};
  return cast.out;
}

static inline uint64_t tn__var_bit(const tn__var *var) { return UINT64_C(1) << (var->id % 64); }

/* The node of this kind, type, value and arguments: found or made. `args` is copied. Does not simplify. */
const tn__expr *tn__ir_intern(tn__ir *ir, const tn__expr *proto);
const tn__expr *tn__ir_intern_op(tn__ir *ir, tn__expr_kind kind, tn_dtype dtype, const tn__expr *const *args,
                                 int count);
const tn__expr *tn__ir_intern2(tn__ir *ir, tn__expr_kind kind, tn_dtype dtype, const tn__expr *a, const tn__expr *b);
/* x to the power of y by a product, a quotient or a root; NULL for most y. */
const tn__expr *tn__ir_small_power(tn__ir *ir, const tn__expr *x, const tn__expr *y);
/* The node if it exists already, otherwise NULL. */
const tn__expr *tn__ir_find2(tn__ir *ir, tn__expr_kind kind, tn_dtype dtype, const tn__expr *a, const tn__expr *b);

/* May order relations of `e` be concluded from its parts? Not when it may wrap around. */
bool tn__ir_is_orderly(tn__ir *ir, const tn__expr *e);

_Noreturn void tn__ir_defect(const tn__ir *ir, const char *format, ...) TN_PRINTF(2, 3);

/* Floor division. */
int64_t tn__ir_floordiv_i64(int64_t a, int64_t b); /* b != 0; INT64_MIN / -1 wraps around */
int64_t tn__ir_floormod_i64(int64_t a, int64_t b);
static inline int64_t tn__ir_wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t tn__ir_wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* Statements, those in unrolled loops counted as often as they will be expanded; saturates. */
int64_t tn__stmt_weight(const tn__stmt *s);
/* Does the expression call an elementary function, exp to erf, some thirty instructions or more? Looks at what is not
 * in the set yet. */
bool tn__ir_has_function(tn__expr_set *seen, const tn__expr *e);

typedef TN__VEC(const tn__expr *) tn__expr_vec;
/* The likely() conditions that stand in a statement, each once, in order of first sight. */
tn__expr_vec tn__ir_likely_in(tn__ir *ir, const tn__stmt *s);

#endif
