/* What the files of the importer share: the decoded model, scopes of names, and what an operator's function sees.
 *
 * An operator is one function, which takes a node and builds core operators from its operands, and one row in
 * ops_table.c. Everything lives in the arena of the graph's ir context; errors are thrown, and their text starts with
 * the node. */
#ifndef TENON_IMPORT_ONNX_INTERNAL_H
#define TENON_IMPORT_ONNX_INTERNAL_H

#include "base/file.h"
#include "base/map.h"
#include "graph/build/build.h"
#include "graph/build/control.h"
#include "graph/build/list.h"
#include "graph/relations.h"
#include "import/onnx/onnx.h"
#include "onnx.pb-c.h"

/* ---- wire.c: the bytes before protobuf-c sees them --------------------------------------------------------------- */
enum {
  TN__WIRE_MAX_DEPTH = 64,         /* messages inside of messages */
  TN__WIRE_MAX_GRAPHS = 16,        /* graphs inside of graphs */
  TN__WIRE_MAX_MESSAGES = 1 << 22, /* and strings, in one file: what bounds the memory that decoding takes */
  TN__WIRE_KEEP_RAW = 128          /* raw_data of more bytes is not copied */
};
/* Checks that `data` is a message of type `root` as protobuf writes it, nested no deeper than the limits above, and
 * decodes it into the arena, without unknown fields; large raw_data becomes raw_offset and raw_size, which point into
 * `data`. */
ProtobufCMessage *tn__onnx_decode_wire(tn__arena *arena, const ProtobufCMessageDescriptor *root, const uint8_t *data,
                                       size_t size);

enum { TN__ONNX_OLDEST = 6, TN__ONNX_NEWEST = 28 }; /* operator sets */

/* ---- load.c, tensor.c -------------------------------------------------------------------------------------------- */
struct tn__onnx_model {
  tn__arena *arena;
  const char *path, *folder;
  const uint8_t *data;
  size_t size;
  Onnx__ModelProto *proto;
  const tn__file_map *map; /* of the model's own file; NULL when the bytes are the caller's */
  tn__map externals;       /* location -> tn__file_map * */
  uint64_t tensor_bytes;   /* of the file */
  tn__map functions;       /* tn__onnx_function_key() -> Onnx__FunctionProto *, the model's own */
};
const char *tn__onnx_function_key(tn__arena *arena, const char *domain, const char *name, const char *overload);
/* "" for the default domain, whichever of its two names is used. */
const char *tn__onnx_domain(const char *domain);
/* TN_DTYPE_INVALID when Tenon has no such type. */
tn_dtype tn__onnx_dtype(int32_t data_type);
/* The type that holds integers of 2 or 4 bits, and how many they have; 0: it is no such type. */
TN_MUST_USE int tn__onnx_narrow(int32_t data_type, tn_dtype *dtype);
/* ONNX's number of the type, of integers of `narrow` bits when that is not 0. */
int32_t tn__onnx_element(tn_dtype dtype, int narrow);
const char *tn__onnx_dtype_name(int32_t data_type); /* ONNX's own: "float16", "string"; never NULL */
/* Maps the file that `tensor` refers to, once per location; `what` names the tensor in messages. */
const tn__file_map *tn__onnx_external(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *what);
/* Type, shape and data; data is in the model's memory, in a mapped file, or in the arena. */
void tn__onnx_tensor_read(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *what,
                          tn__onnx_tensor *out);
void tn__onnx_sparse_read(tn__onnx_model *model, const Onnx__SparseTensorProto *sparse, const char *what,
                          tn__onnx_tensor *out);
/* Calls body(arg) with "path: " put before the text of whatever it throws. `other` is a second arena whose errors are
 * meant, or NULL. */
void tn__onnx_with_path(const char *path, tn__arena *arena, tn__arena *other,
                        void (*body)(tn__escape *escape, void *arg), void *arg);

/* ---- the operators' side ----------------------------------------------------------------------------------------- */
typedef struct tn__importer tn__importer;
typedef struct tn__oscope tn__oscope;
typedef struct tn__onode tn__onode;
typedef void tn__onnx_fn(tn__onode *n);

typedef struct tn__onnx_op {
  const char *domain, *name;
  tn__onnx_fn *fn;      /* NULL: not supported */
  const char *core;     /* for functions that serve several operators: the core operator, or a word for the function */
  const char *why;      /* when not supported */
  uint8_t versions[12]; /* that changed the operator, in order */
  /* What the sizes of its inputs are to each other (graph/relations.h), where that would be lost in the core operators
   * that it becomes, or NULL. What depends on attributes and versions stands in the function. */
  const char *operands;
  /* Integers of 2 or 4 bits are bytes with a note that they are no more (`narrow`). Bit i: the operator looks at the
   * values of input i, which are those of the bytes. */
  unsigned takes_narrow;
  bool passes_narrow; /* it moves input 0 into output 0 without a look at the values: the note goes along */
} tn__onnx_op;

extern const tn__onnx_op tn__onnx_ops[]; /* by domain, then name */
extern const int tn__onnx_op_count;
const tn__onnx_op *tn__onnx_op_find(const char *domain, const char *name);
/* ONNX's own definition of an operator of the default domain; NULL when it has none for that version. `*opset` is what
 * its nodes are written in. */
const Onnx__FunctionProto *tn__onnx_function_body(tn__onnx_model *model, const char *name, int64_t version,
                                                  int64_t *opset);

/* A node that is being imported. */
struct tn__onode {
  tn__importer *importer;
  tn__oscope *scope;
  tn__graph *g;
  tn__ir *ir;
  tn__arena *arena;
  const Onnx__NodeProto *proto;
  const tn__onnx_op *op;
  const char *domain, *name; /* the operator's */
  int64_t version;           /* of the operator set that the node belongs to */
  int input_count, output_count;
  tn__value **in;  /* at least TN__ONODE_MIN_INPUTS, NULL where absent; held to the operator's schema (schema.h) */
  tn__value **out; /* to be set; NULL where the operator does not make an optional output */
};
enum { TN__ONODE_MIN_INPUTS = 16, TN__ONNX_MAX_FUNCTION_DEPTH = 16 };

/* What the nodes behind a node come to: the results of the scope that is `levels` out of the node's, through scopes
 * that were inlined; NULL for those that were there before the node. */
typedef struct tn__orest {
  tn__value **results; /* NULL: nothing */
  int levels;
} tn__orest;

struct tn__oscope {
  tn__importer *importer;
  const tn__oscope *parent; /* whose names are visible; NULL for the main graph and for functions */
  tn__map names;            /* -> tn__value *, or a marker */
  const tn__onode *caller;  /* of the function that this scope is in: its attributes are what ref_attr_name refers to */
  const Onnx__FunctionProto *function;
  const Onnx__GraphProto *graph; /* whose nodes these are; NULL for functions */
  Onnx__OperatorSetIdProto *const *imports;
  size_t import_count;
  Onnx__NodeProto *const *nodes;
  size_t node_count, position;
  int depth;      /* of functions */
  tn__body *body; /* whose graph the names are values of; NULL: the main graph */
  /* What the nodes are for: names that are looked up when all are imported. */
  const char *const *results;
  int result_count;
  tn__onode *inlined; /* the node whose outputs the results become, in the same graph; NULL: not that simple */
  bool is_rest;       /* these are the nodes behind a fork (fork.c) in a scope with these results */
  bool has_ended;     /* by tn__onnx_end_scope: the results are not here, but further out, */
  tn__orest ended;    /* or of a scope that is_rest, these */
};

/* ---- importer.c -------------------------------------------------------------------------------------------------- */
/* Inlines a body: a graph (of If, Loop or Scan; it sees the names around the node) or a function. */
void tn__onnx_inline_graph(tn__onode *n, const Onnx__GraphProto *body, tn__value *const *inputs, int input_count,
                           tn__value **outputs, int output_count);
/* Inlines a body without inputs whose results are what the node makes. */
void tn__onnx_inline_whole(tn__onode *n, const Onnx__GraphProto *body);
void tn__onnx_inline_function(tn__onode *n, const Onnx__FunctionProto *function,
                              const Onnx__OperatorSetIdProto *override_import);
/* How far out `n` may go: how many scopes around it are inlined into the next one. */
int tn__onnx_levels(const tn__onode *n);
/* The scope that is `levels` out. */
const tn__oscope *tn__onnx_level(const tn__onode *n, int levels);
/* Imports what is behind `n`, at most `most` nodes, for the graph that `n` builds into, after the outputs of `n` have
 * got their values, or after what `first` knows already when it has results. It goes on to the scope `levels` out; one
 * further out is given when an operator on the way had to go there. Without results when nodes are left. */
tn__orest tn__onnx_import_rest(tn__onode *n, int most, int levels, tn__orest first);
/* The results are these, and no node behind `n` is to be imported. */
void tn__onnx_end_scope(tn__onode *n, tn__orest rest);
/* The number of dimensions that the model declares for result `index` of the scope, -1 when it does not or may not mean
 * it. */
int tn__onnx_result_rank(const tn__onode *n, const tn__oscope *scope, int index);
/* A value of the graph around the node, seen from the one that is being imported. */
tn__value *tn__onnx_see(const tn__onode *n, tn__value *value);
/* Forks that are being imported. */
tn__forks *tn__onode_forks(const tn__onode *n);
/* load.c: calls body(escape, arg), and returns what it throws. */
TN_MUST_USE tn_status *tn__onnx_try(const tn__onnx_model *model, tn__arena *arena,
                                    void (*body)(tn__escape *escape, void *arg), void *arg);
/* The number of dimensions that the model declares for an output of the node, -1 when it does not. */
int tn__onnx_declared_rank(const tn__onode *n, int output);
int tn__onnx_info_rank(const Onnx__ValueInfoProto *info);              /* of a tensor; -1 when it is not told */
int64_t tn__onnx_info_dim(const Onnx__ValueInfoProto *info, int axis); /* the number; -1 when there is none */
/* A tensor as a constant of the graph. */
tn__value *tn__onnx_constant(tn__onode *n, const tn__onnx_tensor *tensor);
tn__onnx_model *tn__onode_model(const tn__onode *n);

/* ---- node.c: attributes, with references of functions resolved --------------------------------------------------- */
/* The schema of the operator has the type that is asked for. */
_Noreturn void tn__on_fail(const tn__onode *n, const char *format, ...) TN_PRINTF(2, 3); /* TN_INVALID_ARGUMENT */
_Noreturn void tn__on_unsupported(const tn__onode *n, const char *format, ...) TN_PRINTF(2, 3); /* TN_UNSUPPORTED */
const Onnx__AttributeProto *tn__on_attr(const tn__onode *n, const char *name);                  /* NULL when absent */
int64_t tn__on_int(const tn__onode *n, const char *name, int64_t otherwise);
double tn__on_float(const tn__onode *n, const char *name, double otherwise);
const char *tn__on_string(const tn__onode *n, const char *name, const char *otherwise);
const int64_t *tn__on_ints(const tn__onode *n, const char *name, int *count); /* NULL when absent */
const float *tn__on_floats(const tn__onode *n, const char *name, int *count);
const char *const *tn__on_strings(const tn__onode *n, const char *name, int *count); /* NULL when absent */
/* The same as strings of the graph, which may hold NUL: NULL when absent, or for the empty string. */
const tn__text *tn__on_text(const tn__onode *n, const char *name);
const tn__text *const *tn__on_texts(const tn__onode *n, const char *name, int *count); /* NULL when absent */
const Onnx__GraphProto *tn__on_graph(const tn__onode *n, const char *name);            /* never NULL */
/* INTS attribute of exactly `count` entries, or all `otherwise`. */
const int64_t *tn__on_ints_n(const tn__onode *n, const char *name, int count, int64_t otherwise);

/* ---- node.c: operands -------------------------------------------------------------------------------------------- */
/* The contents of a small integer operand as expressions: constants, or symbols read at run time. */
const tn__expr *const *tn__on_elements(tn__onode *n, int input, int *count);
const tn__expr *tn__on_element(tn__onode *n, int input); /* of one that must have just one */
/* Contents that are known now; false when absent or not. */
TN_MUST_USE bool tn__on_known_ints(const tn__onode *n, int input, const int64_t **out, int *count);
TN_MUST_USE bool tn__on_known_floats(const tn__onode *n, int input, const double **out, int *count);
/* Contents that must be known now; `why` ends the message: "the rank of the result depends on it". */
const int64_t *tn__on_ints_operand(tn__onode *n, int input, int *count, const char *why);
/* The attribute `name` in versions before `since`, the operand from then on. NULL when neither is given. Known now. */
const int64_t *tn__on_ints_either(tn__onode *n, const char *name, int64_t since, int input, int *count,
                                  const char *why);
/* Inputs whose sizes are to each other as the text says (graph/relations.h). */
void tn__on_relate(const tn__onode *n, const char *relations);
/* Dimension `axis` of an input must be as large as dimension `other_axis` of another one. */
void tn__on_require_same(const tn__onode *n, int input, int axis, int other, int other_axis);
/* Or as another size, which messages call `what`. */
void tn__on_require_size(const tn__onode *n, int input, int axis, const tn__expr *size, const char *what);
/* `y` must have the shape of `x`, which messages call `what`: an operand that was to fit has not stretched it. */
void tn__on_require_shape(const tn__onode *n, const tn__value *y, const tn__value *x, const char *what);
/* A number of which sizes are computed, which messages call `what`, must be within 2^bits of 0: sums and products of
 * larger ones would wrap around to sizes that look right. */
void tn__on_require_near(const tn__onode *n, const tn__expr *e, int bits, const char *what);
/* A size or a count that an operand states, which messages call `what`, must not be negative. */
void tn__on_require_count(const tn__onode *n, const tn__expr *e, const char *what);
/* Each number of an input must be one of [0, most], which messages call `what`. */
void tn__on_require_counts(tn__onode *n, int input, const tn__expr *most, const char *what);
/* A size that only a run computes, of one element. The run fails with `text` when it is negative. */
const tn__expr *tn__on_size_at_run(const tn__onode *n, tn__value *number, const char *text);
int64_t tn__on_axis(const tn__onode *n, int64_t axis, int rank); /* into [0, rank) */
/* Normalised, distinct, in the arena. */
const int64_t *tn__on_axes(const tn__onode *n, const int64_t *axes, int count, int rank);
const tn__expr *tn__on_index(const tn__onode *n, int64_t value);
/* Dimensions of a value in new memory with room for TN__MAX_RANK, to be changed. */
const tn__expr **tn__on_dims(const tn__onode *n, const tn__value *value);
/* Throws when sizes that are known multiply to more than an integer holds. */
void tn__on_check_count(const tn__onode *n, const tn__expr *const *dims, int count);
const tn__expr *tn__on_product(const tn__onode *n, const tn__expr *const *dims, int count); /* checked like that */
int64_t tn__on_dim_known(const tn__onode *n, int input, int axis,
                         const char *what); /* a dimension that must be a constant */
tn__value *tn__on_scalar(const tn__onode *n, double value, const tn__value *like);
/* Reshapes a to all ones but `size` at `axis`: for per-channel operands. Rank 1 operands only. */
tn__value *tn__on_at_axis(const tn__onode *n, tn__value *a, int axis, int rank);
/* f32 for 16-bit floats: what compositions of several steps are computed in. */
tn__value *tn__on_widen(const tn__onode *n, tn__value *a);
bool tn__on_is_float(const tn__value *a);
/* Reshape by "-1 and 0"-free expressions. */
tn__value *tn__on_reshape(const tn__onode *n, tn__value *a, int rank, const tn__expr *const *dims);
tn__value *tn__on_squeeze(const tn__onode *n, tn__value *a, const int64_t *axes, int count);
tn__value *tn__on_unsqueeze(const tn__onode *n, tn__value *a, const int64_t *axes, int count); /* axes of the result */
/* [low, high) of one axis. */
tn__value *tn__on_slice_axis(const tn__onode *n, tn__value *a, int axis, const tn__expr *low, const tn__expr *high);
tn__value *tn__on_transpose(const tn__onode *n, tn__value *a, const int64_t *permutation);

/* Short names for the arithmetic of compositions. */
static inline tn__value *tn__on_add(const tn__onode *n, tn__value *a, tn__value *b) {
  return tn__g_binary(n->g, "add", a, b);
}
static inline tn__value *tn__on_sub(const tn__onode *n, tn__value *a, tn__value *b) {
  return tn__g_binary(n->g, "subtract", a, b);
}
static inline tn__value *tn__on_mul(const tn__onode *n, tn__value *a, tn__value *b) {
  return tn__g_binary(n->g, "multiply", a, b);
}
static inline tn__value *tn__on_div(const tn__onode *n, tn__value *a, tn__value *b) {
  return tn__g_binary(n->g, "divide", a, b);
}
static inline tn__value *tn__on_max(const tn__onode *n, tn__value *a, tn__value *b) {
  return tn__g_binary(n->g, "maximum", a, b);
}
static inline tn__value *tn__on_min(const tn__onode *n, tn__value *a, tn__value *b) {
  return tn__g_binary(n->g, "minimum", a, b);
}
static inline tn__value *tn__on_unary(const tn__onode *n, const char *op, tn__value *a) {
  return tn__g_unary(n->g, op, a);
}
static inline tn__value *tn__on_mul_s(const tn__onode *n, tn__value *a, double s) {
  return tn__g_binary_s(n->g, "multiply", a, s);
}
static inline tn__value *tn__on_add_s(const tn__onode *n, tn__value *a, double s) {
  return tn__g_binary_s(n->g, "add", a, s);
}

#endif
