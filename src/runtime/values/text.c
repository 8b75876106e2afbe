/* Builtins on strings. Those that make strings measure first: room is made once, before any bytes are looked at,
 * because making room moves what is in the heap. */
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "runtime/values/strings.h"
#include "text/regex.h"
#include "text/unicode.h"

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Two tensors of equal size and a third one that is written. */
static tn_status *three_operands(tn__frame *frame, const tn__instruction *in, tn__operand_tensor operands[3]) {
  for (int i = 0; i < 3; i++) TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[i], &operands[i]));
  TN_RETURN_IF_ERROR(tn__values_same_count(&operands[0], &operands[2]));
  return tn__values_same_count(&operands[1], &operands[2]);
}

/* Making the result frees the memory that it had, which no other operand may look into. */
static tn_status *check_apart(const tn__operand_tensor *x, const tn__frame *frame, uint32_t result) {
  if (x->r->root != frame->f->registers[result].root) return NULL;
  return tn_status_create(TN_OUT_OF_RANGE, "the executable is wrong: a builtin on strings reads what it makes");
}

static uint64_t reference(const tn__operand_tensor *tensor, int64_t at) { return ((const uint64_t *)tensor->data)[at]; }

static bool equal(tn_string a, tn_string b) {
  return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

/* ---- joining and comparing --------------------------------------------------------------------------------------- */

static tn_status *concat(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__operand_tensor operands[3];
  tn_string a, b;
  uint64_t bytes = 0;
  TN_RETURN_IF_ERROR(three_operands(frame, in, operands));
  for (int64_t i = 0; i < operands[2].count; i++) {
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(&operands[0], i), &a));
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(&operands[1], i), &b));
    if (a.length + b.length > UINT64_MAX / 4 - bytes) return tn_status_create(TN_OUT_OF_RANGE, "strings are too long");
    bytes += a.length + b.length;
  }
  TN_RETURN_IF_ERROR(tn__strings_reserve(vm->allocator, vm->strings, (uint64_t)operands[2].count, bytes));
  for (int64_t i = 0; i < operands[2].count; i++) {
    uint64_t first = reference(&operands[0], i), second = reference(&operands[1], i);
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, first, &a));
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, second, &b));
    if (a.length > 0 && b.length > 0) {
      char *to;
      TN_RETURN_IF_ERROR(tn__strings_append(vm->strings, a.length + b.length, &first, &to));
      memcpy(to, a.data, a.length);
      memcpy(to + a.length, b.data, b.length);
    }
    ((uint64_t *)operands[2].data)[i] = a.length == 0 ? second : first;
  }
  return NULL;
}

static tn_status *compare(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__operand_tensor operands[3];
  tn_string a, b;
  TN_RETURN_IF_ERROR(three_operands(frame, in, operands));
  for (int64_t i = 0; i < operands[2].count; i++) {
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(&operands[0], i), &a));
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(&operands[1], i), &b));
    ((uint8_t *)operands[2].data)[i] = equal(a, b);
  }
  return NULL;
}

/* ---- splitting --------------------------------------------------------------------------------------------------- */

typedef struct splitter {
  tn_string rest;
  tn_string delimiter; /* empty: white space */
  int64_t cuts;        /* left; negative: any number */
  bool done;
} splitter;

static void skip_space(tn_string *s) {
  while (s->length > 0 && tn__values_is_space(*s->data)) s->data++, s->length--;
}

static splitter split_start(tn_string text, tn_string delimiter, int64_t cuts) {
  splitter s = {.rest = text, .delimiter = delimiter, .cuts = cuts};
  if (delimiter.length > 0) return s;
  skip_space(&s.rest);
  s.done = s.rest.length == 0;
  return s;
}

/* Bytes before the delimiter, `*after` behind it; false when there is none. */
TN_MUST_USE static bool find_cut(const splitter *s, uint64_t *before, uint64_t *after) {
  uint64_t n = s->delimiter.length == 0 ? 1 : s->delimiter.length;
  for (uint64_t i = 0; s->cuts != 0 && i + n <= s->rest.length; i++) {
    bool here = s->delimiter.length == 0 ? tn__values_is_space(s->rest.data[i])
                                         : memcmp(s->rest.data + i, s->delimiter.data, n) == 0;
    if (!here) continue;
    *before = i, *after = i + n;
    return true;
  }
  return false;
}

/* The next piece; false when there is none. As Python's str.split. */
TN_MUST_USE static bool split_next(splitter *s, tn_string *piece) {
  uint64_t before = s->rest.length, after = 0;
  if (s->done) return false;
  bool cut = find_cut(s, &before, &after);
  *piece = (tn_string){s->rest.data, before};
  if (!cut) {
    s->done = true;
    return true;
  }
  s->rest.data += after, s->rest.length -= after;
  if (s->cuts > 0) s->cuts--;
  if (s->delimiter.length == 0) {
    skip_space(&s->rest);
    s->done = s->rest.length == 0;
  }
  return true;
}

static tn_status *delimiter_of(tn__vm *vm, const tn__operand_tensor *operand, tn_string *out) {
  if (operand->count != 1) return tn_status_create(TN_INVALID_ARGUMENT, "the delimiter is not one string");
  return tn__string_at(vm->strings, reference(operand, 0), out);
}

/* Counts the pieces, of each string and the most, and what copying those of the heap takes. */
static tn_status *count_pieces(tn__vm *vm, const tn__operand_tensor *x, const tn__operand_tensor *delimiter,
                               int64_t cuts, int64_t *counts, int64_t *most, uint64_t *bytes) {
  tn_string text, mark, piece;
  *most = 0, *bytes = 0;
  for (int64_t i = 0; i < x->count; i++) {
    TN_RETURN_IF_ERROR(delimiter_of(vm, delimiter, &mark));
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(x, i), &text));
    splitter s = split_start(text, mark, cuts);
    counts[i] = 0;
    while (split_next(&s, &piece)) counts[i]++;
    if (counts[i] > *most) *most = counts[i];
    if (text.length > UINT64_MAX / 4 - *bytes) return tn_status_create(TN_OUT_OF_RANGE, "strings are too long");
    *bytes += text.length;
  }
  return NULL;
}

static tn_status *split(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__operand_tensor x, delimiter, counts, pieces;
  uint32_t result = in->operands[2];
  int64_t cuts = frame->scalars[in->operands[4]], dims[TN_MAX_RANK] = {0}, most;
  uint64_t bytes;
  tn_string text, mark, piece;
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[0], &x));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[1], &delimiter));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[3], &counts));
  TN_RETURN_IF_ERROR(tn__values_same_count(&x, &counts));
  TN_RETURN_IF_ERROR(check_apart(&x, frame, result));
  TN_RETURN_IF_ERROR(check_apart(&delimiter, frame, result));
  if (frame->f->registers[result].rank != x.r->rank + 1)
    return tn_status_create(TN_INVALID_ARGUMENT, "the pieces of a split need one dimension more than the strings");
  TN_RETURN_IF_ERROR(count_pieces(vm, &x, &delimiter, cuts, counts.data, &most, &bytes));
  for (int i = 0; i < x.r->rank; i++) dims[i] = x.dims[i];
  dims[x.r->rank] = most;
  TN_RETURN_IF_ERROR(tn__vm_make_result(vm, frame, result, dims));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, result, &pieces));
  TN_RETURN_IF_ERROR(tn__strings_reserve(vm->allocator, vm->strings, (uint64_t)pieces.count, bytes));
  for (int64_t i = 0; i < x.count; i++) {
    TN_RETURN_IF_ERROR(delimiter_of(vm, &delimiter, &mark));
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(&x, i), &text));
    splitter s = split_start(text, mark, cuts);
    uint64_t *row = (uint64_t *)pieces.data + i * most;
    for (int64_t n = 0; n < most; n++) {
      uint64_t added = 0;
      char *to;
      if (split_next(&s, &piece) && piece.length > 0) {
        TN_RETURN_IF_ERROR(tn__strings_append(vm->strings, piece.length, &added, &to));
        memcpy(to, piece.data, piece.length);
      }
      row[n] = added;
    }
  }
  return NULL;
}

/* ---- normalizing ------------------------------------------------------------------------------------------------- */

enum { KEEP_CASE, LOWER, UPPER };

static uint32_t in_case(uint32_t code, int64_t which) {
  return which == LOWER ? tn__text_to_lower(code) : which == UPPER ? tn__text_to_upper(code) : code;
}

/* Writes the text in another case, at most twice as many bytes (a code point of two bytes can become one of three), and
 * what is not UTF-8 as it is. */
static uint64_t change_case(tn_string text, int64_t which, char *out) {
  const char *at = text.data, *end = at + text.length;
  char *to = out;
  while (at < end) {
    const char *from = at;
    uint32_t code = tn__utf8_next(&at, end);
    if (code == TN__NOT_UTF8)
      *to++ = *from;
    else
      to = tn__utf8_put(to, in_case(code, which));
  }
  return (uint64_t)(to - out);
}

static bool equal_in_case(tn_string a, tn_string b, bool ignore_case) {
  if (!ignore_case) return equal(a, b);
  const char *p = a.data, *q = b.data, *p_end = p + a.length, *q_end = q + b.length;
  while (p < p_end && q < q_end) {
    const char *x = p, *y = q;
    uint32_t c = tn__utf8_next(&p, p_end), d = tn__utf8_next(&q, q_end);
    if ((c == TN__NOT_UTF8 && d == TN__NOT_UTF8) ? *x != *y : tn__text_to_lower(c) != tn__text_to_lower(d))
      return false;
  }
  return p == p_end && q == q_end;
}

static tn_status *is_stopword(const tn__vm *vm, const tn__operand_tensor *words, tn_string text, bool ignore_case,
                              bool *out) {
  tn_string word;
  *out = false;
  for (int64_t i = 0; i < words->count && !*out; i++) {
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(words, i), &word));
    *out = equal_in_case(text, word, ignore_case);
  }
  return NULL;
}

/* How many strings stay, and room for them in another case. */
static tn_status *measure_kept(tn__vm *vm, const tn__operand_tensor *x, const tn__operand_tensor *words,
                               bool ignore_case, int64_t *kept) {
  tn_string text;
  uint64_t bytes = 0;
  *kept = 0;
  for (int64_t i = 0; i < x->count; i++) {
    bool stop;
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(x, i), &text));
    TN_RETURN_IF_ERROR(is_stopword(vm, words, text, ignore_case, &stop));
    if (stop) continue;
    ++*kept;
    if (text.length > UINT64_MAX / 8 - bytes) return tn_status_create(TN_OUT_OF_RANGE, "strings are too long");
    bytes += text.length;
  }
  return tn__strings_reserve(vm->allocator, vm->strings, (uint64_t)*kept, 2 * bytes);
}

/* A string in another case, written twice: how long it becomes is known afterwards. */
static tn_status *add_in_case(tn__strings *strings, tn_string text, int64_t which, uint64_t *out) {
  char *to;
  uint64_t used = strings->used;
  TN_RETURN_IF_ERROR(tn__strings_append(strings, 2 * text.length, out, &to));
  uint64_t length = change_case(text, which, to);
  strings->used = used;
  TN_RETURN_IF_ERROR(tn__strings_append(strings, length, out, &to));
  change_case(text, which, to);
  return NULL;
}

static tn_status *normalize(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__operand_tensor x, words, result;
  int64_t which = frame->scalars[in->operands[3]], dims[TN_MAX_RANK] = {0}, kept, n = 0;
  bool ignore_case = frame->scalars[in->operands[4]] == 0;
  tn_string text;
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[0], &x));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[1], &words));
  int rank = x.r->rank;
  if (rank < 1 || rank > 2 || (rank == 2 && x.dims[0] != 1) || frame->f->registers[in->operands[2]].rank != rank) {
    char shape[256];
    tn__rt_format_shape(x.dims, rank, shape, sizeof(shape));
    return tn_status_create(TN_INVALID_ARGUMENT, "strings of shape %s, where [C] or [1, C] is wanted", shape);
  }
  TN_RETURN_IF_ERROR(check_apart(&x, frame, in->operands[2]));
  TN_RETURN_IF_ERROR(check_apart(&words, frame, in->operands[2]));
  TN_RETURN_IF_ERROR(measure_kept(vm, &x, &words, ignore_case, &kept));
  dims[0] = 1;
  dims[rank - 1] = kept == 0 ? 1 : kept;
  TN_RETURN_IF_ERROR(tn__vm_make_result(vm, frame, in->operands[2], dims));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[2], &result));
  uint64_t *out = result.data;
  if (kept == 0) out[0] = 0; /* the empty string, and not no string */
  for (int64_t i = 0; i < x.count && n < kept; i++) {
    bool stop;
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(&x, i), &text));
    TN_RETURN_IF_ERROR(is_stopword(vm, &words, text, ignore_case, &stop));
    if (stop) continue;
    uint64_t kept_text = reference(&x, i);
    if (which != KEEP_CASE && text.length > 0) TN_RETURN_IF_ERROR(add_in_case(vm->strings, text, which, &kept_text));
    out[n++] = kept_text;
  }
  return NULL;
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

static tn_status *match(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__operand_tensor x, program, result;
  tn__regex regex;
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[0], &x));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[1], &program));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[2], &result));
  TN_RETURN_IF_ERROR(tn__values_same_count(&x, &result));
  if (!tn__regex_open(program.data, program.count, &regex))
    return tn_status_create(TN_OUT_OF_RANGE, "the executable is wrong: the program of a regular expression is unsound");
  TN_RETURN_IF_ERROR(tn__block_reserve(vm->allocator, &vm->scratch, tn__regex_scratch(&regex)));
  for (int64_t i = 0; i < x.count; i++) {
    tn_string text;
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, reference(&x, i), &text));
    ((uint8_t *)result.data)[i] = tn__regex_matches(&regex, text.data, text.length, vm->scratch.data);
  }
  return NULL;
}

tn_status *tn__string_builtin(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  switch ((tn__builtin)in->callee) {
    case TN__BUILTIN_STRING_CONCAT: return concat(vm, frame, in);
    case TN__BUILTIN_STRING_EQUAL: return compare(vm, frame, in);
    case TN__BUILTIN_STRING_SPLIT: return split(vm, frame, in);
    case TN__BUILTIN_STRING_NORMALIZE: return normalize(vm, frame, in);
    case TN__BUILTIN_STRING_MATCH: return match(vm, frame, in);
    case TN__BUILTIN_STRING_FROM: return tn__string_from(vm, frame, in);
    case TN__BUILTIN_STRING_TO: return tn__string_to(vm, frame, in);
    case TN__BUILTIN_TABLE_FIND: return tn__table_find(vm, frame, in);
    case TN__BUILTIN_TABLE_GRAMS: return tn__table_grams(vm, frame, in);
    default: return tn_status_create(TN_INTERNAL, "builtin %u", in->callee);
  }
}
