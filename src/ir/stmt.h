/* Loop nests: the statements that kernels are made of, and the function that holds them.
 *
 * Statements are immutable too (not hash-consed); passes and schedule primitives build new trees that share what did
 * not change. Before `lower_blocks` a function's computations stand in BLOCKs that state what they read and write (the
 * idea of TensorIR, Feng et al., ASPLOS 2023); after it there are none. The text form of everything here is in
 * docs/ir.md. */
#ifndef TENON_IR_STMT_H
#define TENON_IR_STMT_H

#include "base/strbuf.h"
#include "ir/expr.h"

typedef enum tn__stmt_kind {
  TN__STMT_FOR,
  TN__STMT_STORE,
  TN__STMT_SEQ,
  TN__STMT_IF,
  TN__STMT_LET,
  TN__STMT_ALLOC,
  TN__STMT_WHILE,    /* imperative loop IR only: the condition is evaluated before each round, it may load */
  TN__STMT_FAIL,     /* the kernel returns this tn_kernel_result */
  TN__STMT_PREFETCH, /* a hint that the element will be read soon; no access, so it may lie outside of the buffer */
  TN__STMT_TENSOR,   /* one instruction on small tensors, and the loops that say what it does */
  TN__STMT_BARRIER,  /* the threads of a block wait for each other here */
  TN__STMT_BLOCK
} tn__stmt_kind;

typedef enum tn__loop_kind {
  TN__LOOP_SERIAL,
  TN__LOOP_PARALLEL,   /* iterations are independent and may run in any order in several threads; not inside another
                          parallel loop */
  TN__LOOP_VECTORIZED, /* constant extent; iterations are independent; becomes SIMD lanes; innermost loops only */
  TN__LOOP_UNROLLED,   /* constant extent; expanded by the unroll pass */
  /* Loops over the blocks of a GPU's launch and over the threads of a block: iterations are independent between
     barriers, of which blocks have none; threads have a constant extent. What comes behind a loop sees all that it did.
     See threads.h. */
  TN__LOOP_BLOCK_X,
  TN__LOOP_BLOCK_Y,
  TN__LOOP_BLOCK_Z,
  TN__LOOP_THREAD_X,
  TN__LOOP_THREAD_Y,
  TN__LOOP_THREAD_Z,
  TN__LOOP_KIND_COUNT
} tn__loop_kind;

static inline bool tn__ir_loop_is_block(tn__loop_kind kind) {
  return kind >= TN__LOOP_BLOCK_X && kind <= TN__LOOP_BLOCK_Z;
}
static inline bool tn__ir_loop_is_thread(tn__loop_kind kind) {
  return kind >= TN__LOOP_THREAD_X && kind <= TN__LOOP_THREAD_Z;
}
/* Over blocks or over threads? */
static inline bool tn__ir_loop_is_bound(tn__loop_kind kind) {
  return tn__ir_loop_is_block(kind) || tn__ir_loop_is_thread(kind);
}

/* What a schedule asks of the passes for one loop: by key, 0 where it asks nothing. */
typedef enum tn__loop_pragma {
  TN__PRAGMA_UNROLL_LIMIT, /* an unrolled loop stays a loop when it would become more statements than that */
  TN__PRAGMA_WHOLE,        /* 1: partition_loops leaves the loop in one piece */
  TN__PRAGMA_COUNT
} tn__loop_pragma;

typedef struct tn__loop_pragmas {
  int32_t value[TN__PRAGMA_COUNT];
} tn__loop_pragmas;

/* Instructions on small tensors; ir/tensor.c has a row for each. */
typedef enum tn__tensor_op {
  TN__TENSOR_DPBF16PS, /* c[i:16] += a[p:2] * b[i:16, p:2]: bf16 pairs into f32 */
  TN__TENSOR_DPBUSD,   /* c[i:16] += a[p:4] * b[i:16, p:4]: u8 by i8 into i32 */
  /* c[i, j] += a[i, k] * b[k, j] by all threads of a warp, operands with any strides */
  TN__TENSOR_MMA_F16,   /* 16, 8, 16: f16 into f32 */
  TN__TENSOR_MMA_BF16,  /* 16, 8, 16: bf16 into f32 */
  TN__TENSOR_MMA_I8_I8, /* 16, 8, 32: bytes into i32 */
  TN__TENSOR_MMA_I8_U8,
  TN__TENSOR_MMA_U8_I8,
  TN__TENSOR_MMA_U8_U8,
  TN__TENSOR_MMA_F64, /* 8, 8, 4: f64 */
  TN__TENSOR_COUNT
} tn__tensor_op;

typedef enum tn__axis_kind { TN__AXIS_SPATIAL, TN__AXIS_REDUCE, TN__AXIS_SCAN /* must run in order */ } tn__axis_kind;

typedef struct tn__stmt tn__stmt;

typedef struct tn__region { /* part of a buffer, in terms of the block's axes: [min, min + extent) in each dimension */
  const tn__buffer *buffer;
  const tn__expr *const *min;
  const tn__expr *const *extent;
} tn__region;

typedef struct tn__block_axis {
  const tn__var *var; /* its min and extent are the domain of the axis */
  tn__axis_kind kind;
  const tn__expr *binding; /* the value in terms of the loops around the block */
} tn__block_axis;

typedef struct tn__block {
  const char *name; /* unique in the function: how schedules speak of it */
  int axis_count, read_count, write_count;
  const tn__block_axis *axes;
  const tn__region *reads, *writes;
  const tn__expr *predicate; /* bool over the loops: does this instance exist? true when splits divide */
  const tn__stmt *init;      /* run when every reduce axis is at its minimum, before body; NULL without reduction */
  const tn__stmt *body;      /* in terms of the axes */
} tn__block;

typedef struct tn__access {
  const tn__buffer *buffer;
  const tn__expr *const *indices;
} tn__access;

struct tn__stmt {
  tn__stmt_kind kind;
  union {
    struct {
      const tn__var *var; /* var->min and var->extent are the loop's bounds */
      tn__loop_kind kind;
      tn__loop_pragmas pragmas;
      const tn__stmt *body;
    } loop;
    struct {
      const tn__buffer *buffer;
      const tn__expr *const *indices;
      const tn__expr *value;
      bool streams; /* a hint: the element will not be read soon, so it need not stay in the caches */
    } store;
    struct {
      const tn__stmt *const *items;
      int count;
    } seq; /* empty: does nothing */
    struct {
      const tn__expr *condition;
      const tn__stmt *then_body, *else_body; /* else_body may be NULL */
    } branch;
    struct {
      const tn__var *var;
      const tn__expr *value;
      const tn__stmt *body;
    } let;
    struct {
      const tn__buffer *buffer; /* contents undefined at the start */
      const tn__stmt *body;
    } alloc;
    struct {
      const tn__expr *condition;
      const tn__stmt *body;
    } repeat; /* WHILE */
    struct {
      int code;
    } fail;
    struct {
      const tn__buffer *buffer;
      const tn__expr *const *indices;
      bool far; /* into L2, not L1 */
    } prefetch;
    struct {
      tn__tensor_op op;
      const tn__access *operands; /* their first elements; the first is read and written, the others are read */
      const tn__stmt *body; /* loops that do the same; code generators take them where the instruction is missing */
    } tensor;
    const tn__block *block;
  } as;
};

typedef struct tn__func {
  const char *name; /* a C identifier */
  int input_count, output_count, scalar_count;
  const tn__buffer *const *params; /* inputs, then outputs; no two outputs alias, an output may alias an input only
                                      where the caller knows that each element is read before or as it is written */
  const tn__var *const *scalars;   /* symbolic dimensions, i64 */
  const tn__stmt *body;
} tn__func;

/* ---- construction ------------------------------------------------------------------------------------------------ */
const tn__stmt *tn__ir_for(tn__ir *ir, const tn__var *var, tn__loop_kind kind, const tn__stmt *body);
/* A loop with the kind and pragmas of `like`. */
const tn__stmt *tn__ir_for_like(tn__ir *ir, const tn__stmt *like, const tn__var *var, const tn__stmt *body);
const tn__stmt *tn__ir_for_with(tn__ir *ir, const tn__var *var, tn__loop_kind kind, const tn__loop_pragmas *pragmas,
                                const tn__stmt *body);
const tn__stmt *tn__ir_store(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices,
                             const tn__expr *value);
/* The same with the hints of `like`, a store too. */
const tn__stmt *tn__ir_store_like(tn__ir *ir, const tn__stmt *like, const tn__buffer *buffer,
                                  const tn__expr *const *indices, const tn__expr *value);
/* Every store to the buffer in `s` streams. */
const tn__stmt *tn__stmt_stream(tn__ir *ir, const tn__stmt *s, const tn__buffer *buffer);
const tn__stmt *tn__ir_seq(tn__ir *ir, const tn__stmt *const *items, int count); /* flattens; one item is itself */
const tn__stmt *tn__ir_seq2(tn__ir *ir, const tn__stmt *a, const tn__stmt *b);
const tn__stmt *tn__ir_if(tn__ir *ir, const tn__expr *condition, const tn__stmt *then_body,
                          const tn__stmt *else_body); /* folds constants */
const tn__stmt *tn__ir_let(tn__ir *ir, const tn__var *var, const tn__expr *value, const tn__stmt *body);
const tn__stmt *tn__ir_alloc_stmt(tn__ir *ir, const tn__buffer *buffer, const tn__stmt *body);
const tn__stmt *tn__ir_while(tn__ir *ir, const tn__expr *condition, const tn__stmt *body);
const tn__stmt *tn__ir_fail(tn__ir *ir, int code);
const tn__stmt *tn__ir_prefetch_stmt(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices, bool far);
const tn__stmt *tn__ir_barrier(tn__ir *ir);
/* tn__ir_tensor_operand_count(op) operands of the types that the row says. */
const tn__stmt *tn__ir_tensor_stmt(tn__ir *ir, tn__tensor_op op, const tn__access *operands, const tn__stmt *body);
const tn__stmt *tn__block_stmt(tn__ir *ir, const tn__block *block); /* copies the struct, not its arrays */
tn__func *tn__func_create(tn__ir *ir, const char *name, const tn__buffer *const *inputs, int input_count,
                          const tn__buffer *const *outputs, int output_count, const tn__var *const *scalars,
                          int scalar_count, const tn__stmt *body);

/* The same function with another body. */
tn__func *tn__func_with_body(tn__ir *ir, const tn__func *func, const tn__stmt *body);
/* A copy of a function in another context (or the same one), with variables and buffers made anew in the order of the
 * text. */
tn__func *tn__func_import(tn__ir *ir, const tn__func *func);

/* ---- instructions on small tensors ------------------------------------------------------------------------------- */
const char *tn__ir_tensor_name(tn__tensor_op op);
int tn__ir_tensor_find(const char *name); /* -1 when there is none of this name */
int tn__ir_tensor_operand_count(tn__tensor_op op);
tn_dtype tn__ir_tensor_operand_dtype(tn__tensor_op op, int operand);

/* ---- walking and rewriting --------------------------------------------------------------------------------------- */
/* Pre-order over statements; return false from `enter` to skip the children. Expressions are not entered. */
void tn__stmt_walk(const tn__stmt *s, bool (*enter)(const tn__stmt *s, void *user), void *user);
/* Calls `fn` on every expression that stands in the statement (bounds, indices, values, conditions, bindings,
 * regions). */
void tn__stmt_walk_exprs(const tn__stmt *s, void (*fn)(const tn__expr *e, void *user), void *user);
/* Rebuilds bottom-up. `on_stmt` gets a node whose children were rewritten and returns a replacement or NULL to keep it;
 * `on_expr` (may be NULL) rewrites each whole expression. Loop variables whose bounds change are replaced by new ones
 * throughout. */
typedef const tn__stmt *(*tn__stmt_rewriter)(tn__ir *ir, const tn__stmt *s, void *user);
typedef const tn__expr *(*tn__whole_expr_rewriter)(tn__ir *ir, const tn__expr *e, void *user);
const tn__stmt *tn__stmt_rewrite(tn__ir *ir, const tn__stmt *s, tn__stmt_rewriter on_stmt,
                                 tn__whole_expr_rewriter on_expr, void *user);
const tn__stmt *tn__stmt_substitute(tn__ir *ir, const tn__stmt *s, const tn__var *const *vars,
                                    const tn__expr *const *values, int count);
/* Replaces every access to `from` by one to `to`; `map` (may be NULL: same indices) rewrites the indices, `to`->rank of
 * them. */
typedef void (*tn__index_map)(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user);
const tn__stmt *tn__stmt_replace_buffer(tn__ir *ir, const tn__stmt *s, const tn__buffer *from, const tn__buffer *to,
                                        tn__index_map map, void *user);

/* ---- text (docs/ir.md); print then parse gives the same function, print again the same text ---------------------- */
void tn__expr_print(const tn__expr *e, tn__strbuf *out);
/* The beginning of it, for messages: what is shared is printed again and again, so the whole can be of any length. */
void tn__expr_print_short(const tn__expr *e, tn__strbuf *out);
void tn__func_print(const tn__func *func, tn__strbuf *out);
/* Errors name line and column: "ir:3:14: expected ')' after the arguments of exp". `name` is the file's for messages.
 * Untrusted text: nesting and sizes are bounded. */
TN_MUST_USE tn_status *tn__func_parse(tn__ir *ir, const char *name, const char *text, size_t length, tn__func **out);

/* ---- verifier ---------------------------------------------------------------------------------------------------- */
/* Checks: types; every variable bound by an enclosing loop, let, axis or scalar; every buffer a parameter or allocated
 * around its use; no store to an input; vectorised and unrolled extents constant; no parallel inside parallel; blocks
 * around threads, each axis once on a path; barriers where all threads come by; register buffers' shapes constant;
 * block reads and writes cover their bodies' accesses; names unique. NULL when all is well. */
TN_MUST_USE tn_status *tn__func_verify(tn__ir *ir, const tn__func *func);

/* ---- interpreter: the oracle ------------------------------------------------------------------------------------- */
/* Runs a function (with or without blocks) on dense buffers: inputs, then outputs. Loops are flattened to a register
 * bytecode first. Values of f16, bf16 and f32 are held and rounded as their type says after each operation, except that
 * with `wide` accumulation in reduction blocks (f16, bf16, f32) is carried in f64 and rounded once. Index errors and
 * integer division by zero give the kernel's result as TN_OUT_OF_RANGE; so does any access outside of a buffer, always
 * checked. Two threads or blocks that touch an element of which one writes it, with nothing that orders them, end it
 * with TN_INTERNAL. */
typedef struct tn__interpret_options {
  bool wide;
  int64_t max_operations; /* 0: no limit; otherwise TN_CANCELLED when exceeded */
} tn__interpret_options;
TN_MUST_USE tn_status *tn__ir_interpret(tn__ir *ir, const tn__func *func, void *const *buffers, const int64_t *scalars,
                                        const tn__interpret_options *options);

#endif
