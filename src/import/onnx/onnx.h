/* ONNX models (opsets 6 to 28 of the default domain, ai.onnx.ml where a row says so) to graphs. */
#ifndef TENON_IMPORT_ONNX_ONNX_H
#define TENON_IMPORT_ONNX_ONNX_H

#include "base/hash.h"
#include "graph/graph.h"

typedef struct tn__onnx_options {
  const tn__dim_binding *dims;
  int dim_count;
  tn_log_sink log;
  /* When not NULL, set to true by dimension when the model has it; else one that it lacks is an error. */
  bool *dims_used;
  /* When not NULL, gets what names of the model have become, of functions none; a name for each time that something was
   * made of it, as in rounds of a loop. */
  tn__named_values *named;
  bool fold_defaults; /* inputs with initializers become constants */
} tn__onnx_options;

/* A model file in memory, checked (wire depth, lengths) and decoded; owns maps of external data until its arena is
 * released. */
typedef struct tn__onnx_model tn__onnx_model;

/* `path` names the model in messages and locates external data (refused outside its folder, symbolic links included);
 * `data` may be NULL to read the file, else it is the model's bytes, which must outlive the result. Throws on the
 * arena's escape. */
tn__onnx_model *tn__onnx_open(tn__arena *arena, const char *path, const void *data, size_t size);
/* SHA-256 over the model's bytes and all external data it refers to. */
tn__digest tn__onnx_digest(const tn__onnx_model *model, int threads); /* the same for any number */
/* Bytes of the model's structure: of its file without the numbers and strings of tensors, of which a thousandth counts,
 * as it does of external data. */
uint64_t tn__onnx_structure(const tn__onnx_model *model);
/* Gives the pages of the model's files back to the system until they are read again: for when weights were copied. */
void tn__onnx_forget_pages(const tn__onnx_model *model);
/* Builds the graph. Constants point into the model's memory. All unsupported operators are named in one error
 * (TN_UNSUPPORTED). */
tn__graph *tn__onnx_import(tn__onnx_model *model, tn__ir *ir, const tn__onnx_options *options);

typedef struct tn__onnx_op_use { /* for `tenon inspect` */
  const char *domain, *name;
  int since_version, count;
  bool supported;
  const char *why; /* when not */
} tn__onnx_op_use;
TN_MUST_USE int tn__onnx_op_uses(tn__onnx_model *model, const tn__onnx_op_use **out);
/* Every operator that the importer knows of in its newest operator set, by domain and name; `count` is 0. */
TN_MUST_USE int tn__onnx_known_ops(tn__arena *arena, const tn__onnx_op_use **out);
int64_t tn__onnx_opset(const tn__onnx_model *model, const char *domain); /* 0 when not imported */

/* An ONNX TensorProto file (".pb"): dtype, shape and dense data, aligned to its elements. */
typedef struct tn__onnx_tensor {
  const char *name;
  tn_dtype dtype;
  int bits; /* of integers narrower than 8 bits, which are given as 8 bits wide, of dtype; 0: of the dtype's own */
  int rank;
  int64_t shape[TN__MAX_RANK];
  const void *data; /* at any address when it is part of a mapped file */
  size_t size;
} tn__onnx_tensor;
tn__onnx_tensor tn__onnx_read_tensor(tn__arena *arena, const char *path);
/* An ONNX SequenceProto file, or an OptionalProto: its tensors in order. Returns how many, -1 for an optional without
 * value. Throws on the arena's escape. */
TN_MUST_USE int tn__onnx_read_list(tn__arena *arena, const char *path, bool optional, const tn__onnx_tensor **out);

#endif
