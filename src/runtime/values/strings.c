#include "runtime/values/strings.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"

enum { HEAD = 8 }; /* bytes of a record before its text */

#define MOST_BYTES ((uint64_t)1 << 62) /* of one string; what is less can be added up without overflow */

static uint64_t padded(uint64_t bytes) { return (bytes + 7) & ~(uint64_t)7; }

void tn__strings_release(const tn_allocator *allocator, tn__strings *strings) {
  tn__block_release(allocator, &strings->heap);
  strings->used = 0;
}

/* The first bytes stay unused: reference 0 is the empty string. */
void tn__strings_clear(tn__strings *strings) { strings->used = HEAD; }

static tn_status *no_such_string(uint64_t reference) {
  return tn_status_create(TN_OUT_OF_RANGE, "the executable is wrong: %llx is not a string of this function's",
                          (unsigned long long)reference);
}

tn_status *tn__string_at(const tn__strings *s, uint64_t reference, tn_string *out) {
  *out = (tn_string){"", 0};
  if (reference == 0) return NULL;
  bool constant = (reference & TN__STRING_CONST) != 0;
  uint64_t at = reference & ~TN__STRING_CONST, length, size = constant ? s->constant_bytes : s->used;
  const uint8_t *data = constant ? s->constants : s->heap.data;
  if (at % 8 != 0 || size < HEAD || at > size - HEAD) return no_such_string(reference);
  memcpy(&length, data + at, sizeof(length));
  if (length > size - HEAD - at) return no_such_string(reference);
  *out = (tn_string){(const char *)data + at + HEAD, length};
  return NULL;
}

static tn_status *too_many_bytes(void) {
  return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: the strings of one invoke do not fit into memory");
}

tn_status *tn__strings_reserve(const tn_allocator *allocator, tn__strings *s, uint64_t count, uint64_t bytes) {
  if (s->used < HEAD) tn__strings_clear(s);
  if (bytes > MOST_BYTES || count > MOST_BYTES / 32) return too_many_bytes();
  uint64_t want = s->used + bytes + count * (HEAD + 7);
  if (s->heap.data != NULL && want <= s->heap.capacity) return NULL;
  if (want > MOST_BYTES) return too_many_bytes();
  tn__block fresh = {0};
  TN_RETURN_IF_ERROR(tn__block_reserve(allocator, &fresh, (int64_t)(want < 512 ? 1024 : want * 2)));
  if (s->heap.data != NULL) memcpy(fresh.data, s->heap.data, s->used);
  tn__block_release(allocator, &s->heap);
  s->heap = fresh;
  return NULL;
}

tn_status *tn__strings_append(tn__strings *s, uint64_t length, uint64_t *reference, char **bytes) {
  uint64_t at = s->used;
  if (s->heap.data == NULL || length > MOST_BYTES || padded(HEAD + length) > (uint64_t)s->heap.capacity - at)
    return tn_status_create(TN_OUT_OF_RANGE, "the executable is wrong: a string changes while an instruction reads it");
  char *record = (char *)s->heap.data + at;
  memset(record + padded(HEAD + length) - 8, 0, 8);
  memcpy(record, &length, sizeof(length));
  *bytes = record + HEAD;
  s->used += padded(HEAD + length);
  *reference = at;
  return NULL;
}

tn_status *tn__strings_add(const tn_allocator *allocator, tn__strings *s, tn_string text, uint64_t *reference) {
  char *bytes;
  TN_RETURN_IF_ERROR(tn__strings_reserve(allocator, s, 1, text.length));
  TN_RETURN_IF_ERROR(tn__strings_append(s, text.length, reference, &bytes));
  if (text.length > 0) memcpy(bytes, text.data, text.length);
  return NULL;
}

/* Is `data` records without a gap from its start to its end? */
static bool are_sound(const uint8_t *data, uint64_t size) {
  uint64_t at = 0, length;
  while (at < size) {
    if (size - at < HEAD) return false;
    memcpy(&length, data + at, sizeof(length));
    if (length > size - at - HEAD || padded(length) > size - at - HEAD) return false;
    at += HEAD + padded(length);
  }
  return true;
}

/* References of a constant lead to strings of the file, and nowhere else. */
static tn_status *check_references(const tn_executable *exe, const tn__constant_entry *constant) {
  tn__strings strings = {.constants = exe->string_data, .constant_bytes = exe->string_bytes};
  for (uint64_t i = 0; constant->dtype == TN_STRING && i < constant->size / sizeof(uint64_t); i++) {
    uint64_t reference = ((const uint64_t *)constant->data)[i];
    tn_string unused;
    tn_status *status = tn__string_at(&strings, reference, &unused);
    if (status == NULL) continue;
    tn_status_free(status);
    return tn__load_corrupt("element %llu of constant \"%s\" is no string of its string data", (unsigned long long)i,
                            constant->name);
  }
  return NULL;
}

tn_status *tn__strings_check(const tn_executable *exe) {
  if (!are_sound(exe->string_data, exe->string_bytes))
    return tn__load_corrupt("its string data is not one string after another");
  for (uint32_t i = 0; i < exe->constant_count; i++) TN_RETURN_IF_ERROR(check_references(exe, &exe->constants[i]));
  return NULL;
}

/* ---- the boundary ------------------------------------------------------------------------------------------------ */

static tn_status *check_strings(const char *what, const DLTensor *tensor, int64_t count, uint64_t *total) {
  *total = 0;
  for (int64_t i = 0; i < count; i++) {
    tn_string text;
    memcpy(&text, tn__rt_string_element(tensor, i), sizeof(text));
    if (text.data == NULL && text.length > 0)
      return tn_status_create(TN_INVALID_ARGUMENT, "%s: string %lld has %llu bytes and no data", what, (long long)i,
                              (unsigned long long)text.length);
    if (text.length > MOST_BYTES || *total > MOST_BYTES - text.length)
      return tn_status_create(TN_INVALID_ARGUMENT, "%s: string %lld has %llu bytes, and no memory has so many", what,
                              (long long)i, (unsigned long long)text.length);
    *total += text.length;
  }
  return NULL;
}

tn_status *tn__strings_take_in(const tn_allocator *allocator, tn__strings *s, const char *what, const DLTensor *tensor,
                               uint64_t *references) {
  int64_t count = tn_element_count(tensor->ndim, tensor->shape);
  uint64_t total;
  TN_RETURN_IF_ERROR(check_strings(what, tensor, count, &total));
  TN_RETURN_IF_ERROR(tn__strings_reserve(allocator, s, (uint64_t)count, total));
  for (int64_t i = 0; i < count; i++) {
    tn_string text;
    memcpy(&text, tn__rt_string_element(tensor, i), sizeof(text));
    references[i] = 0;
    if (text.length > 0) TN_RETURN_IF_ERROR(tn__strings_add(allocator, s, text, &references[i]));
  }
  return NULL;
}

bool tn__strings_hold(const tn__strings *s, const DLTensor *tensor) {
  int64_t count = s->heap.data == NULL ? 0 : tn_element_count(tensor->ndim, tensor->shape);
  for (int64_t i = 0; i < count; i++) {
    tn_string text;
    memcpy(&text, tn__rt_string_element(tensor, i), sizeof(text));
    if (text.length > 0 && (uintptr_t)text.data - (uintptr_t)s->heap.data < s->heap.capacity) return true;
  }
  return false;
}

tn_status *tn__strings_show(const tn__strings *s, const uint64_t *references, int64_t count, tn_string *out) {
  for (int64_t i = 0; i < count; i++) TN_RETURN_IF_ERROR(tn__string_at(s, references[i], &out[i]));
  return NULL;
}
