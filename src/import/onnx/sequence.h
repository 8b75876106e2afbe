/* Sequences. Where everything about them is known they exist only while importing: a list of values, of which nothing
 * is left in the graph. What crosses a branch or a loop, comes from outside, or has positions that are data is a list
 * of the machine. */
#ifndef TENON_IMPORT_ONNX_SEQUENCE_H
#define TENON_IMPORT_ONNX_SEQUENCE_H

#include "graph/build/body.h"
#include "import/onnx/internal.h"

typedef struct tn__onnx_sequence {
  int count;
  tn__value **items;
  tn_dtype dtype;
  bool absent; /* an optional without value */
} tn__onnx_sequence;

/* Sequences of the importer: their length is known, and so is what is in them. `dtype` is that of an empty one. */
tn__value *tn__onnx_sequence_value(const tn__onode *n, tn__value *const *items, int count, tn_dtype dtype);
/* The type of its tensors; false when it is empty, so that the number of dimensions is not known. TN__ANY_RANK: they
 * differ. */
bool tn__onnx_sequence_type(const tn__value *value, tn_dtype *dtype, int *rank);
/* What is known of the ranks of the tensors in a sequence or list, or of a tensor: 0 nothing, TN__RANKS_DIFFER, else 1
 * + the rank of all of them as far as the importer has seen. */
enum { TN__RANKS_DIFFER = -1 };
int tn__onnx_ranks(const tn__value *value);
int tn__onnx_meet_ranks(int a, int b);
/* As a value of the body's graph. */
tn__value *tn__onnx_sequence_inside(const tn__onode *n, tn__body *body, const tn__value *value);
bool tn__onnx_is_sequence(const tn__value *value);
bool tn__onnx_is_absent(const tn__value *value); /* an optional without value, which has no type */
/* Of a sequence, a list or a tensor: the type of the tensors; false of an empty sequence, of which nothing tells it. */
bool tn__onnx_list_type(const tn__value *value, tn_dtype *dtype, int *rank);
static inline bool tn__onnx_is_list(const tn__value *value) {
  return value != NULL && value->dtype != TN_DTYPE_INVALID && value->holds != TN__HOLDS_TENSOR;
}
static inline bool tn__onnx_is_container(const tn__value *value) {
  return tn__onnx_is_sequence(value) || tn__onnx_is_list(value);
}

/* A value as a list of the machine in the graph of `n`. A sequence of the importer is built; an empty one, and a
 * tensor that is to be optional, take the type that is given. */
tn__value *tn__onnx_list(tn__onode *n, tn__value *value, tn_dtype dtype, int rank, tn__value_holds holds);
/* The list with a tensor more. One of another rank than the list's makes it a list of any ranks. */
tn__value *tn__onnx_list_insert(const tn__onode *n, tn__value *list, tn__value *item, tn__value *position);
tn__value *tn__onnx_list_as(const tn__onode *n, tn__value *list, tn__value_holds holds, int rank);

#endif
