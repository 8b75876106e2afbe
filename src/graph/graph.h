/* The graph: typed tensor operators with symbolic dimensions. Importers build it, passes rewrite it, the driver turns
 * groups of its nodes into declarations.
 *
 * Operators are about sixty, named and meant as in StableHLO wherever it has one; each is a row of table.c.
 * A node is created through tn__node_create (or a builder of build.h), which infers the types and shapes of its results
 * at once, so a graph is never untyped. Broadcasting is explicit (broadcast_in_dim); build.h has helpers that insert
 * it.
 *
 * Dimensions are i64 expressions of the graph's ir context over symbols. A symbol gets its value at run time from a
 * dimension of a graph input, or from an element of an integer tensor (a shape that is data). Small integer tensors
 * (at most TN__MAX_ELEMENTS) also carry their contents in row-major order as expressions when these are known
 * ("elements": of type i64 for integers and bools), so shape arithmetic written with tensors becomes dimension
 * arithmetic. Those of floating tensors are constants. Arithmetic that goes on and on would make expressions without
 * end: beyond TN__MAX_EXPRESSION elements are not known any more, and dimensions become symbols that the run reads.
 *
 * Everything lives in the graph's arena. Node order is creation order; passes keep a topological order. Errors are
 * thrown on the arena's escape; the message starts with the node's origin. */
#ifndef TENON_GRAPH_GRAPH_H
#define TENON_GRAPH_GRAPH_H

#include "te/layout.h"

#define TN__MAX_ELEMENTS 64
#define TN__MAX_EXPRESSION 1024 /* operations of a dimension or an element, those of shared parts counted each time */

typedef struct tn__dim_binding { /* fixes a symbolic dimension of the inputs: --dim NAME=N */
  const char *name;
  int64_t size;
} tn__dim_binding;

typedef struct tn__graph tn__graph;
typedef struct tn__node tn__node;
typedef struct tn__value tn__value;
typedef struct tn__op tn__op;
typedef struct tn__lower_context tn__lower_context;

typedef enum tn__symbol_source {
  TN__SYMBOL_INPUT_DIM, /* dimension `index` of `value`: a graph input, or the result of a control operator (if, while,
                           call) whose size only running it tells */
  TN__SYMBOL_ELEMENT    /* element `index` (flat) of integer tensor `value` */
} tn__symbol_source;

typedef struct tn__symbol {
  const tn__var
      *var; /* min 0 for dimensions; elements are unbounded unless used as a dimension (checked at run time) */
  tn__symbol_source source;
  tn__value *value;
  int index;
} tn__symbol;

/* Something that shape inference had to assume about symbols; the executable checks it before the first kernel that
 * could go wrong and otherwise fails with `text`. */
typedef struct tn__check_at_run {
  const tn__expr *condition; /* bool, over symbols */
  const char *origin;        /* of the node that needs it; may be NULL */
  const char *text; /* "add: dimension 1 of operand 1 must be equal to n"; read it through tn__graph_check_text */
} tn__check_at_run;

/* Of a buffer with room to grow along one dimension (a cache of keys and values): how many elements of it count, the
 * buffer's own size along it being a constant. `valid` NULL: the buffer is full. */
typedef struct tn__extent {
  const tn__expr *valid;
  int axis;
} tn__extent;

/* A string of a constant, in an arena. */
typedef struct tn__text {
  uint64_t length;
  char bytes[];
} tn__text;

typedef enum tn__value_holds { /* in the order of tn_value_kind */
                               TN__HOLDS_TENSOR,
                               TN__HOLDS_SEQUENCE,
                               TN__HOLDS_OPTIONAL, /* a tensor or nothing */
                               TN__HOLDS_OPTIONAL_SEQUENCE
} tn__value_holds;

#define TN__ANY_RANK (-1) /* becomes TN_ANY_RANK and TN__LIST_OF_ANY_RANK */

/* The tensor that a value holds in another layout than row-major. What operators compute is about the tensor, whatever
 * the layout: a product of bytes is one of u8 and i8, with dimension numbers of theirs, also where both are stored as
 * words of four. */
typedef struct tn__held {
  tn_dtype dtype; /* not the value's where its elements are words */
  int rank;
  const tn__expr *const *dims;
  tn__layout layout;
} tn__held;

typedef struct tn__operand_place {
  tn__node *node;
  int input;
} tn__operand_place;

/* In which memory of its device a kernel wants a value. */
typedef struct tn__memory_choice {
  const char *scope, *kernel; /* their names */
} tn__memory_choice;

struct tn__value {
  const char *name; /* unique in the graph */
  /* Of what is not one tensor: `dtype` and `item_rank` are those of all its tensors (TN__ANY_RANK: each has a rank of
   * its own), `rank` is 0, and only operators of ops_sequence.c and bodies take it. */
  tn__value_holds holds;
  int item_rank;
  int narrow;       /* an importer's note on integers of fewer bits than the type has: how many; 0: all */
  int likely_ranks; /* an importer's notes on a list of any rank (ops_sequence.c); 0: none */
  tn_dtype dtype;
  int rank;
  const tn__expr *const *dims;
  /* NULL: the type and the dimensions are the tensor's. Else they are those of what is stored, of a tensor in a layout,
   * which only operators that have TN__FACT_LAYOUTS read. */
  const tn__held *held;
  tn__node *producer; /* NULL for graph inputs and constants */
  int producer_index;
  uint32_t id;
  /* Constants: dense data of the type (of TN_STRING: a `const tn__text *` per element, NULL for the empty string), or
   * of one element when `splat`. NULL when not constant. Not owned: in the arena, or in memory that outlives the graph
   * (a mapped model file, where it is not aligned: read it with tn__load_*). */
  const void *data;
  bool splat;
  /* Contents of small integer tensors: product of dims of them, or NULL when not known. */
  const tn__expr *const *elements; /* i64 whatever the dtype; of bool tensors: 0 or 1 */
  tn__extent extent;               /* graph inputs */
  tn__value *fallback;             /* graph inputs: the default, a constant; NULL: the caller must bind it */
  /* Where it is said to live: "opencl:0"; NULL: nothing is said. A value that is said to live somewhere is not copied
   * on the way to or from there, unless an operator on_device or device_copy says so. */
  const char *place;
  const struct tn__virtual_device *device; /* where planning has put it (graph/place); NULL: there was no planning */
  const char *placed;                      /* why there, in words, when planning was to tell; else NULL */
  bool in_any_memory; /* of the device: nothing was said, so it is in the usual one until a kernel chooses another */
  const struct tn__memory_choice *choice; /* of a kernel, which planning may follow; NULL: any memory will do */
  /* Where it is used; a place where something else is by now counts no more. */
  TN__VEC(tn__operand_place) readers; /* operands of nodes */
  TN__VEC(int) results;               /* outputs of the graph, by number */
  TN__VEC(tn__symbol *) symbols;      /* that are read from it */
};

/* What a model calls a value, which in the graph may have another name, and several of them may be one value. */
typedef struct tn__named_value {
  const char *name;
  tn__graph *graph; /* the model's, or a body */
  tn__value *value; /* NULL: nothing was made of it. A sequence that is known has no type, and is of no graph. */
} tn__named_value;

/* A node of the imported model. The graph can have any number of operators for it, or none. */
typedef struct tn__named_node {
  const char *origin;    /* node "conv1" (Conv, opset 22) */
  const tn__value *made; /* the first result; NULL: the node has no value in the graph */
  bool hands_on;         /* the result is one of the operands */
} tn__named_node;

typedef struct tn__named_values {
  TN__VEC(tn__named_value) list;
  TN__VEC(tn__named_node) nodes;
} tn__named_values;

/* Attributes are uniform, so that printing, comparing and hashing are written once. */
typedef enum tn__attr_kind { TN__ATTR_INTS, TN__ATTR_EXPRS, TN__ATTR_FLOATS, TN__ATTR_STRING } tn__attr_kind;
typedef struct tn__attr {
  const char *name;
  tn__attr_kind kind;
  int count;
  const int64_t *ints;
  const tn__expr *const *exprs;
  const double *floats;
  const char *string;
} tn__attr;

struct tn__node {
  const tn__op *op;
  int input_count, output_count, attr_count, graph_count;
  tn__value **inputs; /* an optional operand that is absent is NULL */
  tn__value **outputs;
  const tn__attr *attrs;
  tn__graph **graphs; /* bodies of control operators: their inputs are block arguments; they capture nothing else */
  const char *origin; /* where it comes from, for messages: node "conv1" (Conv, opset 22) */
  const char *const *names; /* that a text gives its results, `name_count` of them; else they are named by operator */
  int name_count;
  uint32_t id;
  bool dead; /* set by passes; swept by tn__graph_sweep */
};

typedef enum tn__lowering {
  TN__LOWER_DECLARE, /* a compute declaration (or an extern stage of loop IR): `declare`, or a composite's body's */
  TN__LOWER_CONTROL, /* the VM: if, while, call */
  TN__LOWER_BUILTIN  /* the runtime */
} tn__lowering;

typedef enum tn__op_class {                        /* how fusion sees it */
                            TN__CLASS_ELEMENTWISE, /* output element i depends on element i (after broadcast) of each
                                                      operand */
                            TN__CLASS_INJECTIVE,   /* each output element reads at most one element of each operand:
                                                      transpose, reshape, slice, pad, gather ... */
                            TN__CLASS_REDUCTION,   /* reduce, argreduce, reduce_window */
                            TN__CLASS_ROWS,        /* like its operand, and each element depends on its row, all along
                                                      the attribute `axes`: softmax, normalisations */
                            TN__CLASS_CONTRACTION, /* dot_general, convolution: element-wise consumers fuse as
                                                    * epilogues */
                            TN__CLASS_OPAQUE       /* alone in its kernel: sort, extern loops; or no kernel */
} tn__op_class;

/* What passes want to know about an operator: they ask for these and never for its name. */
typedef enum tn__op_fact {
  TN__FACT_CHEAP = 1 << 0,      /* costs nothing where it is read: each kernel that reads it makes it again */
  TN__FACT_REPEATS = 1 << 1,    /* the result is operand 0 over again, along dimensions of size 1 or new ones */
  TN__FACT_REARRANGES = 1 << 2, /* elements of the result are elements of operands, whichever: a tensor of equal
                                 elements stays one when all operands have the same */
  TN__FACT_VIEW = 1 << 3,       /* the result is the memory of operand 0, seen as another type or shape, where layouts
                                 change nothing about the order: tn__node_is_view */
  TN__FACT_REDUCES = 1 << 4,  /* operand 0 along `axes`, which stay as dimensions of 1 with `keep_dims` and go without;
                                 each element is read once, and the results lie as the rest of the dimensions do */
  TN__FACT_UPDATES = 1 << 5,  /* the result is operand 0 with some elements written over, and can be where that was */
  TN__FACT_STRIDED = 1 << 6,  /* finds the elements of its result by strides in memory of any order */
  TN__FACT_COMMUTES = 1 << 7, /* the two operands can change places */
  TN__FACT_LINEAR = 1 << 8,   /* in operand 0: sums of results are the result of sums, but for rounding */
  TN__FACT_PARTIAL = 1 << 9,  /* fails for some operands: may not be computed where its result is not asked for */
  TN__FACT_STRINGS = 1 << 10, /* takes strings too, which it moves as it moves numbers, or is about them */
  TN__FACT_LOOPS = 1 << 11,   /* runs its second body while its first one says so */
  TN__FACT_LAYOUTS = 1 << 12, /* reads its operands in whatever layout their values have */
  TN__FACT_LATE_SIZES = 1 << 13, /* a run may not tell the sizes of its result, which then are those of `empty` */
  TN__FACT_WEIGHTS = 1 << 14,    /* softmax: each row becomes weights, which attention multiplies values by */
  TN__FACT_BODY = 1 << 15,       /* a composite that carries its body along: a graph over the symbols of the node's */
  TN__FACT_WHOLE = 1 << 16,      /* a composite that is not touched before a pass has taken it or put its body there:
                                    not folded, and nothing moves into it */
  TN__FACT_SAYS_PLACE = 1 << 17, /* its operand, or its result, which is the operand, is said to live somewhere */
  TN__FACT_COPIES = 1 << 18      /* its result is the operand in another place */
} tn__op_fact;

/* How a node goes along when the dimensions of its result change places. */
typedef struct tn__op_moves {
  /* Bit i: operand i has as many dimensions as the result (as it would have with `keep_dims`) and changes with it. 0:
   * the node does not go along. */
  unsigned operands;
  const char *per_dim[6]; /* attributes with an entry for each dimension */
  const char *axes;       /* attribute that lists dimensions, NULL: none */
} tn__op_moves;

/* How a product or convolution reads its operands, by the dimensions of their tensors and of its result. */
typedef struct tn__contraction {
  int column, rhs_column; /* of the result and of operand 1: along which its columns run; -1: not one of each */
  int sum[2];             /* of the operands: along which neighbours are multiplied and summed, and may be words of a
                             layout; -1: not one of each */
  int batch_count;
  const int64_t *batch[2]; /* dimensions that both operands and the result have */
  bool by_rows;            /* the result's rows along its last dimension are those of operand 0 times a matrix, which
                              is dimensions `sum` and `rhs_column` of operand 1; the others are 1, and stand before */
} tn__contraction;

struct tn__op {
  const char *name;           /* StableHLO's */
  int min_inputs, max_inputs; /* max -1: any number */
  /* Their names and what their sizes are to each other (relations.h), which infer may then rely on. What depends on
   * attributes is left to infer. */
  const char *operands;
  /* What attributes it may have, "axis:int low:exprs kind:string": int is one integer, maybe with its range
   * ("holds:int[1..3]"), and ints, exprs, float, floats and string are as in tn__attr. Checked before infer, which may
   * rely on it; behind a name, ! says that it must be there. NULL: none. */
  const char *attributes;
  tn__op_class op_class;
  tn__lowering lowering;
  unsigned facts;     /* tn__op_fact */
  tn__op_moves moves; /* of ELEMENTWISE operators all operands move */
  /* CONTRACTION only: what passes that move, pack and scale operands ask; NULL: they leave the operator alone. */
  void (*contraction)(const tn__node *node, tn__contraction *out);
  /* What the result's elements are when those of operand 0 all are `element`: into `out`, false when that takes more
   * than counting. NULL: not known. */
  bool (*of_equal)(const tn__node *node, const void *element, void *out);
  /* Sets dtype, rank, dims (and elements) of the outputs through tn__g_set_output; throws on what is inconsistent
   * beyond `operands`. */
  void (*infer)(tn__graph *graph, tn__node *node);
  /* Adds the stages of the node to `te`: `inputs[i]` are buffers of te's ir context (shapes already converted), absent
   * ones NULL; fills outputs. Symbols of dims: convert with tn__lower_expr. Does not mark outputs. */
  void (*declare)(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                  const tn__buffer **outputs);
  /* ELEMENTWISE only: one element of the result from one of each operand, in any ir context; also how elements are
   * propagated. */
  const tn__expr *(*scalar)(tn__ir *ir, const tn__node *node, const tn__expr *const *args);
  /* Composites (ops/composite.c), which have it in place of `declare` and `scalar`: builds the body over `inputs`,
   * which are like the node's operands, and tells what the results are. `graph` need not be the node's. */
  void (*expand)(tn__graph *graph, const tn__node *node, tn__value *const *inputs, tn__value **outputs);
  const char *doc; /* one sentence */
};

/* ---- graphs ------------------------------------------------------------------------------------------------------ */
tn__graph *tn__graph_create(tn__ir *ir, const char *name); /* symbols and dims live in `ir` */
tn__ir *tn__graph_ir(const tn__graph *graph);
tn__arena *tn__graph_arena(const tn__graph *graph);
const char *tn__graph_name(const tn__graph *graph);
/* A dimension may be NULL, to be set by tn__graph_input_symbol. */
tn__value *tn__graph_input(tn__graph *graph, const char *name, tn_dtype dtype, int rank, const tn__expr *const *dims);
void tn__graph_output(tn__graph *graph, const char *name,
                      tn__value *value); /* the name that callers see; one value may come twice under it */
int tn__graph_input_count(const tn__graph *graph);
tn__value *tn__graph_input_at(const tn__graph *graph, int index);
int tn__graph_output_count(const tn__graph *graph);
tn__value *tn__graph_output_at(const tn__graph *graph, int index);
const char *tn__graph_output_name(const tn__graph *graph, int index);
void tn__graph_set_output(tn__graph *graph, int index, tn__value *value);
tn__extent tn__graph_output_extent(const tn__graph *graph, int index);
int tn__graph_node_count(const tn__graph *graph);
tn__node *tn__graph_node_at(const tn__graph *graph, int index);
int tn__graph_symbol_count(const tn__graph *graph);
const tn__symbol *tn__graph_symbol_at(const tn__graph *graph, int index);
/* The symbol of a variable, by its id; NULL when the graph has none. */
const tn__symbol *tn__graph_symbol_of(const tn__graph *graph, uint32_t var);

/* A named symbolic dimension of an input: the same name gives the same symbol. Sets the input's dimension too. */
const tn__expr *tn__graph_input_symbol(tn__graph *graph, const char *name, tn__value *input, int axis);
/* The elements of a small integer tensor as expressions; makes symbols that are read at run time when they are not
 * known. NULL when the tensor is too large or its size is not constant. */
const tn__expr *const *tn__graph_elements(tn__graph *graph, tn__value *value, int *count);
/* The only element of an i64 tensor as a dimension in [0, limit] (limit NULL: unbounded): for results whose size is
 * data. */
const tn__expr *tn__graph_count_symbol(tn__graph *graph, tn__value *value, const tn__expr *limit);
/* A new symbol: for control operators' results. */
const tn__expr *tn__graph_dim_symbol(tn__graph *graph, tn__value *value, int axis);
/* Throws when the condition is false, does nothing when it is true, else keeps it as a check at run time. */
void tn__graph_assume(tn__graph *graph, const tn__expr *condition, const char *format, ...) TN_PRINTF(3, 4);
/* For the text of tn__graph_assume only: a size that the run will show as a number, with its name when it is a
 * dimension's. */
const char *tn__g_size_text(tn__graph *graph, const tn__expr *e);
int tn__graph_check_count(const tn__graph *graph);
const tn__check_at_run *tn__graph_check_at(const tn__graph *graph, int index);
/* The check's text with what `put` appends for each size in it that is an expression over symbols; NULL: its text. */
void tn__graph_check_text(const tn__graph *graph, const tn__check_at_run *check,
                          void (*put)(void *user, const tn__expr *size, tn__strbuf *out), void *user, tn__strbuf *out);

/* Origin for the nodes created from now on (kept, not copied). */
void tn__graph_set_origin(tn__graph *graph, const char *origin);
const char *tn__graph_origin(const tn__graph *graph);
_Noreturn void tn__graph_fail(const tn__graph *graph, tn_status_code code, const char *format, ...) TN_PRINTF(3, 4);
/* Throws when `what` would make a tensor of more than TN__MAX_RANK dimensions: before they are put into an array. */
void tn__graph_check_rank(const tn__graph *graph, const char *what, int rank);

/* ---- nodes and values -------------------------------------------------------------------------------------------- */
/* `data` is kept, not copied. */
tn__value *tn__g_constant_value(tn__graph *graph, tn_dtype dtype, int rank, const int64_t *shape, const void *data,
                                bool splat);
/* A constant of the type, shape and layout of `like`, whose dimensions are constant. */
tn__value *tn__g_constant_like(tn__graph *graph, const tn__value *like, const void *data, bool splat);
const tn__text *tn__text_create(tn__arena *arena, const void *data, size_t length); /* NULL: the empty string */
/* A constant of strings; copies the pointers. */
tn__value *tn__graph_strings(tn__graph *graph, int rank, const int64_t *shape, const tn__text *const *texts);
/* Copies attributes. The result's first output is node->outputs[0]. */
tn__node *tn__node_create(tn__graph *graph, const tn__op *op, tn__value *const *inputs, int input_count,
                          const tn__attr *attrs, int attr_count, tn__graph *const *graphs, int graph_count);
const tn__op *tn__op_find(const char *name); /* NULL when unknown */
int tn__op_count(void);
const tn__op *tn__op_at(int index);
/* For infer functions. `elements` may be NULL. */
tn__value *tn__g_set_output(tn__graph *graph, tn__node *node, int index, tn_dtype dtype, int rank,
                            const tn__expr *const *dims, const tn__expr *const *elements);

tn__attr tn__attr_ints(tn__graph *graph, const char *name, const int64_t *values, int count);
tn__attr tn__attr_int(tn__graph *graph, const char *name, int64_t value);
tn__attr tn__attr_exprs(tn__graph *graph, const char *name, const tn__expr *const *values, int count);
tn__attr tn__attr_float(tn__graph *graph, const char *name, double value);
tn__attr tn__attr_string(tn__graph *graph, const char *name, const char *value);
const tn__attr *tn__node_attr(const tn__node *node, const char *name); /* NULL when absent */
int64_t tn__node_int(const tn__node *node, const char *name, int64_t otherwise);
double tn__node_float(const tn__node *node, const char *name, double otherwise);
const char *tn__node_string(const tn__node *node, const char *name, const char *otherwise);

/* Is the node there, and an operator of that name? For rules that rewrite just this operator, and nothing else: what
 * several operators have in common is a fact in their rows (tools/check_facts.py). */
bool tn__g_is_op(const tn__node *node, const char *name);
bool tn__op_has(const tn__node *node, tn__op_fact fact);

/* The body that a composite carries along, over the symbols of the node's graph; NULL: it has none, or `expand` makes
 * it. */
const tn__graph *tn__composite_body(const tn__node *node);

/* Is the result the memory of operand 0, so that no kernel makes it? */
bool tn__node_is_view(const tn__node *node);

/* Of the tensor that a value holds, whatever its layout. */
tn_dtype tn__g_tensor_dtype(const tn__value *value);
int tn__g_tensor_rank(const tn__value *value);
const tn__expr *const *tn__g_tensor_dims(const tn__value *value);
/* Are the value's type and dimensions those that its tensor has in its layout? */
bool tn__value_is_held(const tn__graph *graph, const tn__value *value);
/* The value, just made, holds that tensor. */
void tn__value_hold(tn__graph *graph, tn__value *value, const tn__held *held);
/* The same tensor, stored in the same way? NULL: row-major. */
bool tn__held_equal(const tn__held *a, const tn__held *b);
/* Is an operand of the node stored in a layout? Rules that name dimensions of operands as they are stored ask. */
bool tn__node_reads_layout(const tn__node *node);

/* Constant size of a dimension or whole shape; -1 / false when symbolic. */
int64_t tn__g_dim_const(const tn__value *value, int axis);
TN_MUST_USE bool tn__g_shape_const(const tn__value *value, int64_t *shape);

/* ---- rewriting, for passes --------------------------------------------------------------------------------------- */
/* The only way to change an operand of a node. */
void tn__node_set_input(tn__graph *graph, tn__node *node, int index, tn__value *value);
/* In nodes, outputs and symbol sources. What is made to take the place lives where that does (tn__graph_keep_place). */
void tn__graph_replace_uses(tn__graph *graph, tn__value *from, tn__value *to);
/* A new value stands for another: it lives there, in that memory, when planning has said where that is. Constants live
 * where they are read. */
void tn__graph_keep_place(const tn__value *from, tn__value *to);
/* The nodes from number `first` on come right behind `node`: where a body takes the place of a composite, the order of
 * nodes, which stages and so kernels have as well, is that of a model which spells it out. */
void tn__graph_move_behind(tn__graph *graph, int first, const tn__node *node);
/* Drops dead nodes, restores topological order (stable; a node comes after the producers of the tensors that its
 * dimensions' symbols are read from), replaces symbols whose tensor's contents became known, drops symbols and checks
 * without use. */
void tn__graph_sweep(tn__graph *graph);
/* Number of node inputs, graph outputs and symbols that read each value, indexed by value id; in the arena. */
int *tn__graph_use_counts(tn__graph *graph, int *value_count);
/* The text form for people, which leaves out what large constants hold; graph/text.h has the one that reads back. */
void tn__graph_print(const tn__graph *graph, tn__strbuf *out);
TN_MUST_USE tn_status *tn__graph_verify(tn__graph *graph);

/* ---- lowering ---------------------------------------------------------------------------------------------------- */
/* From the graph's ir context to a declaration's own: symbols become the declaration's dims. */
tn__lower_context *tn__lower_create(tn__graph *graph, tn__te *te);
tn__te *tn__lower_te(tn__lower_context *lower);
tn__ir *tn__lower_ir(tn__lower_context *lower);
/* The expression in te's context; each symbol in it becomes (once) a dimension of te. */
const tn__expr *tn__lower_expr(tn__lower_context *lower, const tn__expr *e);
/* The graph symbols that te's dims stand for, in the order of tn__te_dim_at. */
const tn__var *tn__lower_symbol_at(const tn__lower_context *lower, int index);
/* The buffer of a value: an input of te (made on first use), a splat or small constant as a stage, or what bind()
 * set. */
const tn__buffer *tn__lower_value(tn__lower_context *lower, tn__value *value);
void tn__lower_bind(tn__lower_context *lower, tn__value *value, const tn__buffer *buffer);
/* Values that became te inputs, in order. */
int tn__lower_input_count(const tn__lower_context *lower);
tn__value *tn__lower_input_at(const tn__lower_context *lower, int index);
/* Of the nodes, which will be declared in this order, only these outputs are wanted: a composite leaves out results
 * that neither they nor other nodes need. */
void tn__lower_want(tn__lower_context *lower, tn__node *const *nodes, int count, tn__value *const *outputs,
                    int output_count);
/* Declares a node and binds its outputs. */
void tn__lower_node(tn__lower_context *lower, const tn__node *node);

#endif
