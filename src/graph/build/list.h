/* Sequences. Where everything about them is known they exist only while a graph is built: a list of values, of which nothing
 * is left in the graph. What crosses a branch or a loop, comes from outside, or has positions that are data is a list
 * of the machine. */
#ifndef TENON_GRAPH_BUILD_LIST_H
#define TENON_GRAPH_BUILD_LIST_H

#include "graph/build/body.h"

typedef struct tn__sequence {
  int count;
  tn__value **items;
  tn_dtype dtype;
  bool absent; /* an optional without value */
} tn__sequence;

/* A sequence of known length and contents: a value without a type, of no graph. `dtype` is that of an empty one. */
tn__value *tn__g_sequence_known(tn__graph *g, tn__value *const *items, int count, tn_dtype dtype);
/* The type of its tensors; false when it is empty, so that the number of dimensions is not known. TN__ANY_RANK: they
 * differ. */
TN_MUST_USE bool tn__g_sequence_type(const tn__value *value, tn_dtype *dtype, int *rank);
/* What is known of the ranks of the tensors in a sequence or list, or of a tensor: 0 nothing, TN__RANKS_DIFFER, else 1
 * + the rank of all of them as far as has been seen. */
enum { TN__RANKS_DIFFER = -1 };
int tn__g_ranks(const tn__value *value);
int tn__g_meet_ranks(int a, int b);
/* A known sequence as the body sees it. */
tn__value *tn__g_sequence_inside(tn__body *body, const tn__value *value);
bool tn__g_is_sequence(const tn__value *value);
bool tn__g_is_absent(const tn__value *value); /* an optional without value, which has no type */
/* Of a sequence, a list or a tensor: the type of the tensors; false of an empty sequence, of which nothing tells it. */
TN_MUST_USE bool tn__g_list_type(const tn__value *value, tn_dtype *dtype, int *rank);
static inline bool tn__g_is_list(const tn__value *value) {
  return value != NULL && value->dtype != TN_DTYPE_INVALID && value->holds != TN__HOLDS_TENSOR;
}
static inline bool tn__g_is_container(const tn__value *value) {
  return tn__g_is_sequence(value) || tn__g_is_list(value);
}

/* A value as a list of the machine in the graph. A known sequence is built; an empty one, and a tensor that is to be
 * optional, take the type that is given. */
tn__value *tn__g_list(tn__graph *g, tn__value *value, tn_dtype dtype, int rank, tn__value_holds holds);
/* The list with a tensor more. One of another rank than the list's makes it a list of any ranks. */
tn__value *tn__g_list_insert(tn__graph *g, tn__value *list, tn__value *item, tn__value *position);
tn__value *tn__g_list_as(tn__graph *g, tn__value *list, tn__value_holds holds, int rank);
/* Of integers of 2 or 4 bits, which are noted on a value: "int4". */
const char *tn__g_narrow_name(const tn__value *value);

#endif
