/* What the files of this room share: the graph's insides, and helpers for writing operators. */
#ifndef TENON_GRAPH_INTERNAL_H
#define TENON_GRAPH_INTERNAL_H

#include "base/map.h"
#include "graph/graph.h"

typedef struct tn__graph_result {
  const char *name;
  tn__value *value;
  tn__extent extent;
} tn__graph_result;

/* A dimension whose expression is too long, and the scalar that a run reads it from. */
typedef struct tn__long_dim {
  const tn__expr *size;
  tn__value *scalar;
} tn__long_dim;

struct tn__graph {
  tn__ir *ir;
  tn__arena *arena;
  const char *name, *origin;
  TN__VEC(tn__value *) inputs;
  TN__VEC(tn__graph_result) outputs;
  TN__VEC(tn__node *) nodes;
  TN__VEC(tn__symbol *) symbols;
  TN__VEC(tn__check_at_run) checks;
  TN__VEC(const tn__expr *) sizes; /* that texts of checks refer to by number */
  TN__VEC(tn__value *) values;     /* by id */
  TN__VEC(tn__long_dim) long_dims;
  tn__map value_names, dim_names;
  tn__map output_names; /* number of the first output of each name */
  tn__map promised;     /* symbols that a text declares, by what they are read from */
  uint32_t next_node_id;
};

/* ---- values ------------------------------------------------------------------------------------------------------ */
/* A new value; the name becomes one that is unique. */
tn__value *tn__value_create(tn__graph *graph, const char *name, tn_dtype dtype, int rank, const tn__expr *const *dims);
/* Throws when a tensor of that type and shape is more than can be: `name` is its in messages. */
void tn__value_check_size(const tn__graph *graph, const char *name, tn_dtype dtype, int rank,
                          const tn__expr *const *dims);

/* ---- for the reader of the text form ----------------------------------------------------------------------------- */
/* Constants and results have names of the graph's choice: one that has this name already gives way, and gets that of
 * `value`. */
void tn__value_set_name(tn__graph *graph, tn__value *value, const char *name);
/* A symbol of a value that will be made under this name, and which whoever asks for it then gets. NULL when there is
 * one already. */
tn__symbol *tn__symbol_promise(tn__graph *graph, const tn__var *var, tn__symbol_source source, const char *value,
                               int index);
/* As tn__node_create; the results get these names, which are kept. */
tn__node *tn__node_create_named(tn__graph *graph, const tn__op *op, tn__value *const *inputs, int input_count,
                                const tn__attr *attrs, int attr_count, tn__graph *const *graphs, int graph_count,
                                const char *const *names, int name_count);
/* `scalar` is what a run reads the size from, if it is too long for a dimension. */
void tn__graph_keep_long_dim(tn__graph *graph, const tn__expr *size, tn__value *scalar);
/* The only way to change what a symbol is read from. */
void tn__symbol_set_value(tn__graph *graph, tn__symbol *symbol, tn__value *value);
/* Symbols that are read from `from` are read from `to`. */
void tn__graph_move_symbols(tn__graph *graph, tn__value *from, tn__value *to);
/* The number of a variable's symbol; -1 when the graph has none. */
int tn__symbol_index(const tn__graph *graph, uint32_t var);
/* Drops symbols from number `first` on that nothing uses. */
void tn__graph_drop_symbols(tn__graph *graph, int first);
/* A size as it stands in the text of a check, without a name. */
const char *tn__g_size_mark(tn__graph *graph, const tn__expr *e);
/* How many elements a constant has. */
int64_t tn__g_constant_count(const tn__value *value);

/* ---- rows of the table: each family is one file ------------------------------------------------------------------ */
/* A row whose functions are infer_SUFFIX and declare_SUFFIX; behind the text more fields may follow. */
#define TN__DECLARED_ROW(least, most, op_name, names, class, suffix, text, ...) \
  {.name = op_name,                                                             \
   .min_inputs = least,                                                         \
   .max_inputs = most,                                                          \
   .operands = names,                                                           \
   .op_class = class,                                                           \
   .lowering = TN__LOWER_DECLARE,                                               \
   .infer = infer_##suffix,                                                     \
   .declare = declare_##suffix,                                                 \
   .doc = text,                                                                 \
   __VA_ARGS__}

typedef struct tn__op_family {
  const tn__op *ops;
  int count;
} tn__op_family;
extern const tn__op_family tn__ops_elementwise, tn__ops_shape, tn__ops_reduce, tn__ops_contract, tn__ops_composite,
    tn__ops_quantized, tn__ops_winograd, tn__ops_gather, tn__ops_sort, tn__ops_vision, tn__ops_recurrent, tn__ops_math,
    tn__ops_control, tn__ops_sequence, tn__ops_string, tn__ops_device;

/* ---- for infer --------------------------------------------------------------------------------------------------- */
/* Throws "<origin>: <operator>: <text>". */
_Noreturn void tn__node_fail(const tn__graph *graph, const tn__node *node, const char *format, ...) TN_PRINTF(3, 4);
/* "f32[2, n, 3]", in the arena. */
const char *tn__value_type_text(const tn__graph *graph, const tn__value *value);
const char *tn__g_expr_text(const tn__graph *graph, const tn__expr *e);
void tn__g_require_rank(const tn__graph *graph, const tn__node *node, int input, int rank);
void tn__g_require_dtype(const tn__graph *graph, const tn__node *node, int input, tn_dtype dtype);
void tn__g_require_same_dtype(const tn__graph *graph, const tn__node *node, int first, int second);
void tn__g_require_int(const tn__graph *graph, const tn__node *node, int input);
void tn__g_require_float(const tn__graph *graph, const tn__node *node, int input);
/* The axis attribute `name`, which must be in [0, rank of operand 0). */
int tn__g_require_axis(const tn__graph *graph, const tn__node *node, const char *name, int rank);
/* An INTS or EXPRS attribute of exactly `count` entries. */
const int64_t *tn__g_require_ints(const tn__graph *graph, const tn__node *node, const char *name, int count);
const tn__expr *const *tn__g_require_exprs(const tn__graph *graph, const tn__node *node, const char *name, int count);
/* The type that the attribute dtype names. */
tn_dtype tn__g_require_dtype_attr(const tn__graph *graph, const tn__node *node);
/* The dimension that two equal ones have: throws when they cannot be equal, adds a check at run time when that is
 * unknown. `what` says which they are: "dimension 1 of operand 2". */
const tn__expr *tn__g_same_dim(tn__graph *graph, const tn__node *node, const tn__expr *a, const tn__expr *b,
                               const char *what, int axis);
/* max(a, 0), when it could be negative. */
const tn__expr *tn__g_not_negative(tn__ir *ir, const tn__expr *a);
/* Exact quotient of two products of dimensions: common factors cancel. */
const tn__expr *tn__g_dim_divide(tn__ir *ir, const tn__expr *a, const tn__expr *b);
const tn__expr *tn__g_dim_product(tn__ir *ir, const tn__expr *const *dims, int count);
/* Number of elements that `elements` of a tensor of this shape would have: -1 when symbolic or too many. */
int tn__g_element_count(int rank, const tn__expr *const *dims);
/* Do elements of this type follow i64 arithmetic (i32, i64) or hold only 0 and 1 (bool)? */
bool tn__g_carries_elements(tn_dtype dtype);
/* Known elements of a result that moves those of `a`: the one at position p[0..rank) is a's at flat position
 * offset + sum(p[i] * strides[i]). NULL when they are not known. */
const tn__expr *const *tn__g_moved_elements(tn__graph *graph, const tn__value *a, int rank, const tn__expr *const *dims,
                                            int64_t offset, const int64_t *strides);
/* Row-major strides of a value whose dimensions are constants; false when one is not. */
TN_MUST_USE bool tn__g_element_strides(const tn__value *a, int64_t *strides);
/* Constant elements of a value: into out (TN__MAX_ELEMENTS), returns their number or -1. */
TN_MUST_USE int tn__g_constant_elements(const tn__value *value, int64_t *out);

/* ---- for declare ------------------------------------------------------------------------------------------------- */
/* A stage name that is unique in the declaration: "add", "add_1" ... */
const char *tn__lower_name(tn__lower_context *lower, const char *base);
/* Dimensions of a value in te's context, and axes over them. */
void tn__lower_dims(tn__lower_context *lower, const tn__value *value, const tn__expr **dims);
tn__te_axes tn__lower_axes(tn__lower_context *lower, const tn__value *value);
/* Attribute expressions in te's context. */
void tn__lower_exprs(tn__lower_context *lower, const tn__expr *const *exprs, int count, const tn__expr **out);
/* f32 for the 16-bit floating types, else the type itself. */
tn_dtype tn__g_accumulator_of(tn_dtype dtype);
/* A compute stage that converts `buffer` to dtype; the buffer itself when it has it. */
const tn__buffer *tn__lower_convert(tn__lower_context *lower, const tn__buffer *buffer, tn_dtype dtype);
/* A compute stage that copies `buffer`. */
const tn__buffer *tn__lower_copy(tn__lower_context *lower, const tn__buffer *buffer, const char *name);
/* A stage with low[i] elements of `fill` before, high[i] after and interior[i] between the elements of each dimension
 * (negative crops); the buffer itself when there is nothing to do. */
const tn__buffer *tn__lower_pad(tn__lower_context *lower, const tn__buffer *buffer, const tn__expr *fill,
                                const tn__expr *const *low, const tn__expr *const *high, const int64_t *interior);
/* dims of a padded or dilated dimension. */
const tn__expr *tn__g_padded_dim(tn__ir *ir, const tn__expr *dim, const tn__expr *low, const tn__expr *high,
                                 int64_t interior);
/* The shape of a convolution, from its attributes and first two operands. */
void tn__g_infer_convolution(tn__graph *graph, tn__node *node);

/* ---- for extern stages ------------------------------------------------------------------------------------------- */
/* Loop variables over [0, extents[i]) and the nest of serial loops around `body`. */
typedef struct tn__nest {
  int count;
  const tn__var *var[TN__MAX_RANK];
  const tn__expr *index[TN__MAX_RANK];
} tn__nest;
tn__nest tn__nest_create(tn__ir *ir, const char *prefix, int count, const tn__expr *const *extents);
const tn__stmt *tn__nest_loops(tn__ir *ir, const tn__nest *nest, const tn__stmt *body);
/* The statement that `body` makes of every index, whose order must not matter: serial loops around the widest run of
 * elements that lie side by side in tensors of the `shape`, which goes in vectors. */
typedef const tn__stmt *tn__nest_body(tn__ir *ir, const tn__expr *const *index, const void *user);
const tn__stmt *tn__nest_vectors(tn__ir *ir, const char *prefix, int count, const tn__expr *const *extents,
                                 const tn__expr *const *shape, tn__nest_body *body, const void *user);
/* Where an index in [-size, size) counts from the start; a statement that fails when it is outside. */
const tn__expr *tn__g_wrap_index(tn__ir *ir, const tn__expr *index, const tn__expr *size);
const tn__stmt *tn__g_check_index(tn__ir *ir, const tn__expr *index, const tn__expr *size);
/* An i64 variable for tn__ir_let. */
const tn__var *tn__g_let_var(tn__ir *ir, const char *name);

#endif
