/* Strings, as the machine holds them. An element of a tensor of TN_STRING is a 64-bit reference to a record: a u64
 * length, the bytes, and zeros up to a multiple of 8. So tensors of strings are dense tensors like all others: kernels
 * gather, slice, join and select them as integers, registers, views, lists and MOVE need to know nothing about them,
 * and only builtins look at the bytes.
 *
 * A reference is the record's offset in the session's heap of the function that was invoked, or, with TN__STRING_CONST,
 * in the executable's section of string data; 0 is the empty string. The heap is one block that grows by doubling and
 * is emptied, not freed, when an invoke begins: what the inputs say is copied in, results are appended, nothing is
 * taken out in between. Two heaps take turns, so that the inputs of an invoke may be the results of the one before.
 * Records are never changed, so two elements may share one.
 *
 * Whatever a reference says is checked each time it is followed: bits that a damaged or hostile file makes up, or that
 * are left from an earlier run, end in an error or in another string of the same session, never outside of the two
 * memories. That is why no verifier follows strings through code.
 *
 * (ONNX Runtime keeps a std::string per element, which each operator that moves elements must construct and destroy one
 * by one; TVM's Relax has string objects beside tensors, not in them.) */
#ifndef TENON_RUNTIME_VALUES_STRINGS_H
#define TENON_RUNTIME_VALUES_STRINGS_H

#include "runtime/vm/vm.h"

struct tn__strings {
  const uint8_t *constants; /* the executable's section */
  uint64_t constant_bytes;
  tn__block heap;
  uint64_t used;
};

void tn__strings_release(const tn_allocator *allocator, tn__strings *strings);
void tn__strings_clear(tn__strings *strings); /* keeps the memory */
/* What a reference says. The bytes stay where they are until the next tn__strings_reserve. */
TN_MUST_USE tn_status *tn__string_at(const tn__strings *strings, uint64_t reference, tn_string *out);
/* Room for records of `bytes` bytes together in `count` strings, so that adding those moves nothing. */
TN_MUST_USE tn_status *tn__strings_reserve(const tn_allocator *allocator, tn__strings *strings, uint64_t count,
                                           uint64_t bytes);
/* A new record of `length` bytes and where they go. It moves nothing, and fails where no room was reserved: a hostile
 * file can let references change between their being measured and being followed. */
TN_MUST_USE tn_status *tn__strings_append(tn__strings *strings, uint64_t length, uint64_t *reference, char **bytes);
/* The same with its contents, which must not lie in the heap, and making room. */
TN_MUST_USE tn_status *tn__strings_add(const tn_allocator *allocator, tn__strings *strings, tn_string text,
                                       uint64_t *reference);
/* The file's string data are records without a gap from start to end, and its constants refer to those alone. */
TN_MUST_USE tn_status *tn__strings_check(const tn_executable *executable);

/* ---- at the boundary: tensors of tn_string ----------------------------------------------------------------------- */

/* Copies the strings of a tensor, of any strides, and writes its references, dense. A string without data, or of a
 * length that no memory has, is refused, naming `what` ("input \"x\""). */
TN_MUST_USE tn_status *tn__strings_take_in(const tn_allocator *allocator, tn__strings *strings, const char *what,
                                           const DLTensor *tensor, uint64_t *references);
/* Does one of a tensor's strings lie in the heap? */
bool tn__strings_hold(const tn__strings *strings, const DLTensor *tensor);
/* `count` references as strings whose bytes are the heap's and the file's. */
TN_MUST_USE tn_status *tn__strings_show(const tn__strings *strings, const uint64_t *references, int64_t count,
                                        tn_string *out);
/* ---- builtins ---------------------------------------------------------------------------------------------------- */

typedef struct tn__operand_tensor { /* of a builtin */
  const tn__register *r;
  const int64_t *dims;
  int64_t count;
  void *data; /* dense; of strings: references */
} tn__operand_tensor;
TN_MUST_USE tn_status *tn__values_operand_at(tn__frame *frame, uint32_t number, tn__operand_tensor *out);
/* The two operands must have as many elements. */
TN_MUST_USE tn_status *tn__values_same_count(const tn__operand_tensor *a, const tn__operand_tensor *b);

/* Runs a builtin that is about strings or tables of them. */
TN_MUST_USE tn_status *tn__string_builtin(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
/* Numbers as text and back (number_text.c). */
TN_MUST_USE tn_status *tn__string_from(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
TN_MUST_USE tn_status *tn__string_to(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
/* Lookups (table.c). */
TN_MUST_USE tn_status *tn__table_find(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
TN_MUST_USE tn_status *tn__table_grams(tn__vm *vm, tn__frame *frame, const tn__instruction *in);

/* ASCII's white space, whatever the locale. */
static inline bool tn__values_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

#endif
