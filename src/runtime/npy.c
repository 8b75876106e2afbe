/* .npy files (NumPy's documentation, "numpy.lib.format"): six magic bytes, a version, the length of a header, a Python
 * dictionary as text, then the elements. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/file.h"
#include "base/utf8.h"
#include "runtime/tensor.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static const struct {
  const char *text; /* after the byte order */
  tn_dtype dtype;
} descr_rows[] = {
    {"f4", TN_F32}, {"f8", TN_F64}, {"f2", TN_F16}, {"V2", TN_BF16}, {"b1", TN_BOOL}, {"i1", TN_I8},  {"i2", TN_I16},
    {"i4", TN_I32}, {"i8", TN_I64}, {"u1", TN_U8},  {"u2", TN_U16},  {"u4", TN_U32},  {"u8", TN_U64},
};
enum { DESCR_COUNT = sizeof(descr_rows) / sizeof(descr_rows[0]) };

typedef struct npy_header {
  tn_dtype dtype;
  size_t unit, width; /* of strings: bytes of a character and characters of an element */
  bool fortran;
  int rank;
  int64_t shape[TN_MAX_RANK];
} npy_header;

/* ---- the dictionary --------------------------------------------------------------------------------------------- */

/* The text of the header; `end` is never read. */
typedef struct cursor {
  const char *at, *end;
} cursor;

static void skip_spaces(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
}

static bool take(cursor *c, char wanted) {
  skip_spaces(c);
  if (c->at >= c->end || *c->at != wanted) return false;
  c->at++;
  return true;
}

static bool take_word(cursor *c, const char *word) {
  skip_spaces(c);
  size_t length = strlen(word);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
  c->at += length;
  return true;
}

/* A quoted text without escapes, NUL-terminated into `out`. */
TN_MUST_USE static bool take_text(cursor *c, char *out, size_t size) {
  skip_spaces(c);
  if (c->at >= c->end || (*c->at != '\'' && *c->at != '"')) return false;
  char quote = *c->at++;
  size_t n = 0;
  while (c->at < c->end && *c->at != quote && n + 1 < size) out[n++] = *c->at++;
  out[n] = '\0';
  return take(c, quote);
}

TN_MUST_USE static bool take_number(cursor *c, int64_t *out) {
  skip_spaces(c);
  *out = 0;
  const char *begin = c->at;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
    if (tn__mul_overflow_i64(*out, 10, out) || tn__add_overflow_i64(*out, *c->at - '0', out)) return false;
  return c->at > begin;
}

static bool take_shape(cursor *c, npy_header *header) {
  if (!take(c, '(')) return false;
  while (!take(c, ')')) {
    if (header->rank == TN_MAX_RANK || !take_number(c, &header->shape[header->rank])) return false;
    header->rank++;
    if (!take(c, ',')) return take(c, ')');
  }
  return true;
}

static tn_status *parse_descr(const char *name, const char *descr, npy_header *header) {
  for (int i = 0; i < DESCR_COUNT && strlen(descr) == 3; i++) {
    bool little = descr[0] == '<' || descr[0] == '|' || descr[0] == '=';
    if (little && strcmp(descr + 1, descr_rows[i].text) == 0) header->dtype = descr_rows[i].dtype;
  }
  if (header->dtype != TN_DTYPE_INVALID) return NULL;
  cursor digits = {descr + 2, descr + strlen(descr)};
  int64_t width;
  bool ucs4 = strncmp(descr, "<U", 2) == 0 || strncmp(descr, "=U", 2) == 0;
  if ((ucs4 || strncmp(descr, "|S", 2) == 0) && take_number(&digits, &width) && digits.at == digits.end &&
      width < INT32_MAX) {
    header->dtype = TN_STRING;
    header->unit = ucs4 ? 4 : 1, header->width = (size_t)width;
    return NULL;
  }
  return tn_status_create(TN_UNSUPPORTED, "%s: elements of NumPy's type \"%s\" are not supported", name, descr);
}

static tn_status *parse_dictionary(const char *name, cursor c, npy_header *header) {
  bool descr = false, order = false, shape = false, good = take(&c, '{');
  while (good && !take(&c, '}')) {
    char key[32], text[32];
    good = take_text(&c, key, sizeof(key)) && take(&c, ':');
    if (good && strcmp(key, "descr") == 0) {
      good = take_text(&c, text, sizeof(text));
      if (!good) return tn_status_create(TN_UNSUPPORTED, "%s: structured elements are not supported", name);
      TN_RETURN_IF_ERROR(parse_descr(name, text, header));
      descr = true;
    } else if (good && strcmp(key, "fortran_order") == 0) {
      header->fortran = take_word(&c, "True");
      good = header->fortran || take_word(&c, "False");
      order = true;
    } else if (good && strcmp(key, "shape") == 0 && !shape) {
      good = take_shape(&c, header);
      shape = true;
    } else {
      good = false;
    }
    if (good && !take(&c, ',')) {
      good = take(&c, '}');
      break;
    }
  }
  if (good && descr && order && shape) return NULL;
  return tn_status_create(TN_DATA_LOSS, "%s: the header of this .npy file makes no sense", name);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static tn_status *read_header(const char *name, const uint8_t *data, size_t size, npy_header *header, size_t *body) {
  if (size < sizeof(magic) || memcmp(data, magic, sizeof(magic)) != 0)
    return tn_status_create(TN_DATA_LOSS, "%s: not a .npy file", name);
  if (size < 10) return tn_status_create(TN_DATA_LOSS, "%s: this .npy file ends inside of its header", name);
  if (data[6] < 1 || data[6] > 3)
    return tn_status_create(TN_UNSUPPORTED, "%s: .npy version %u.%u is not supported", name, data[6], data[7]);
  size_t prefix = data[6] == 1 ? 10 : 12, length = (size_t)data[8] | (size_t)data[9] << 8;
  if (prefix == 12 && size >= 12) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
  if (size < prefix || length > size - prefix)
    return tn_status_create(TN_DATA_LOSS, "%s: this .npy file ends inside of its header", name);
  *body = prefix + length;
  const char *text = (const char *)data + prefix;
  return parse_dictionary(name, (cursor){text, text + length}, header);
}

/* Fortran order is the transpose of C order with the dimensions reversed. */
static void copy_fortran(const npy_header *header, const void *elements, void *out) {
  int64_t strides[TN_MAX_RANK], shape[TN_MAX_RANK], stride = 1;
  for (int i = 0; i < header->rank; i++) {
    shape[i] = header->shape[i];
    strides[i] = stride;
    stride *= shape[i];
  }
  DLTensor view = {.data = (void *)(uintptr_t)elements,
                   .device = {kDLCPU, 0},
                   .ndim = header->rank,
                   .dtype = tn_dtype_to_dl(header->dtype),
                   .shape = shape,
                   .strides = strides};
  tn__tensor_copy_dense(&view, out);
}

/* ---- strings ---------------------------------------------------------------------------------------------------- */

/* One element as UTF-8 into `out`, which has room for 4 bytes a character: its length, or -1 when it is no text. */
TN_MUST_USE static int64_t read_string(const npy_header *header, const uint8_t *element, char *out) {
  char *to = out;
  size_t width = header->width, unit = header->unit;
  static const uint8_t zero[4];
  while (width > 0 && memcmp(element + (width - 1) * unit, zero, unit) == 0) width--; /* NumPy's padding */
  for (size_t i = 0; i < width; i++) {
    uint32_t code = element[i * unit];
    if (unit == 1) {
      *to++ = (char)code; /* bytes are bytes */
      continue;
    }
    memcpy(&code, element + i * unit, sizeof(code));
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return -1;
    to = tn__utf8_put(to, code);
  }
  return to - out;
}

/* Fills `strings`, whose bytes go to `text`. Fortran order: the first dimension runs fastest. */
static tn_status *read_strings(const char *name, const npy_header *header, const uint8_t *elements, int64_t count,
                               tn_string *strings, char *text) {
  size_t size = header->unit * header->width;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = i, rest = i, stride = count;
    if (header->fortran) {
      at = 0;
      for (int d = header->rank - 1; d >= 0; d--) {
        stride /= header->shape[d];
        at += rest % header->shape[d] * stride;
        rest /= header->shape[d];
      }
    }
    int64_t length = read_string(header, elements + (size_t)at * size, text);
    if (length < 0)
      return tn_status_create(TN_DATA_LOSS, "%s: string %lld holds what is no character", name, (long long)i);
    strings[i] = (tn_string){text, (uint64_t)length};
    text += length;
  }
  return NULL;
}

static tn_status *read_string_tensor(const char *name, const npy_header *header, const uint8_t *elements, int64_t count,
                                     const tn_allocator *allocator, tn_tensor **out) {
  void *strings, *text = NULL;
  size_t text_size = (size_t)count * header->width * 4; /* no overflow: the file has as many characters */
  TN_RETURN_IF_ERROR(tn__alloc(allocator, (size_t)count, sizeof(tn_string), 0, &strings));
  tn_status *status = tn__alloc(allocator, 1, text_size, 0, &text);
  if (status == NULL) status = read_strings(name, header, elements, count, strings, text);
  if (status == NULL) status = tn_tensor_create_strings(header->rank, header->shape, strings, allocator, out);
  tn__free(allocator, text, text == NULL ? 0 : text_size, 0);
  tn__free(allocator, strings, (size_t)count * sizeof(tn_string), 0);
  return status;
}

static size_t element_size(const npy_header *header) {
  return header->dtype == TN_STRING ? header->unit * header->width : tn_dtype_size(header->dtype);
}

/* Reads the header, which stands in the first `size` of `total` bytes, and sees that what it tells of fits in them. */
static tn_status *measure(const char *name, const void *data, size_t size, uint64_t total, npy_header *header,
                          size_t *body, int64_t *bytes) {
  TN_RETURN_IF_ERROR(read_header(name, data, size, header, body));
  int64_t count = tn_element_count(header->rank, header->shape);
  if (count >= 0 && !tn__mul_overflow_i64(count, (int64_t)element_size(header), bytes) &&
      (uint64_t)*bytes <= total - *body)
    return NULL;
  char shape[256];
  tn__rt_format_shape(header->shape, header->rank, shape, sizeof(shape));
  return tn_status_create(TN_DATA_LOSS, "%s: %s%s needs more than the %llu bytes that follow its header", name,
                          tn_dtype_name(header->dtype), shape, (unsigned long long)(total - *body));
}

tn_status *tn__npy_describe(const char *name, const void *data, size_t size, uint64_t total, tn__npy_info *out) {
  npy_header header = {0};
  int64_t bytes;
  *out = (tn__npy_info){0};
  TN_RETURN_IF_ERROR(measure(name, data, size, total, &header, &out->body, &bytes));
  out->bytes = (size_t)bytes;
  out->is_plain = header.dtype != TN_STRING && !header.fortran;
  out->dtype = header.dtype;
  out->rank = header.rank;
  memcpy(out->shape, header.shape, sizeof(out->shape));
  return NULL;
}

tn_status *tn_tensor_read_npy_memory(const char *name, const void *data, size_t size, const tn_allocator *allocator,
                                     tn_tensor **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED_LIST("data", data, "size", size);
  if (name == NULL) name = "npy";
  npy_header header = {0};
  size_t body;
  int64_t bytes;
  TN_RETURN_IF_ERROR(measure(name, data, size, size, &header, &body, &bytes));
  int64_t count = tn_element_count(header.rank, header.shape);
  /* Strings of no characters take nothing of the file: their number is bounded here. */
  if (header.dtype == TN_STRING && (uint64_t)count > size && header.width == 0)
    return tn_status_create(TN_DATA_LOSS, "%s: more empty strings than the file has bytes", name);
  if (header.dtype == TN_STRING)
    return read_string_tensor(name, &header, (const uint8_t *)data + body, count, allocator, out);
  tn_tensor *tensor;
  TN_RETURN_IF_ERROR(
      tn_status_prefix(tn_tensor_create(header.dtype, header.rank, header.shape, allocator, &tensor), "%s", name));
  const uint8_t *elements = (const uint8_t *)data + body;
  if (count > 0 && header.fortran)
    copy_fortran(&header, elements, tn_tensor_dl(tensor)->data);
  else if (count > 0)
    memcpy(tn_tensor_dl(tensor)->data, elements, (size_t)bytes);
  *out = tensor;
  return NULL;
}

tn_status *tn_tensor_read_npy(const char *path, const tn_allocator *allocator, tn_tensor **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("path", path);
  tn__file_map map;
  TN_RETURN_IF_ERROR(tn__file_map_open(path, &map));
  tn_status *status = tn_tensor_read_npy_memory(path, map.data, map.size, allocator, out);
  tn__file_map_close(&map);
  return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static tn_status *check_writable(const DLTensor *tensor, const char *path, tn_dtype dtype) {
  if (dtype == TN_DTYPE_INVALID)
    return tn_status_create(TN_UNSUPPORTED,
                            "%s: a tensor of DLPack type %u with %u bits and %u lanes cannot be written", path,
                            tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes);
  if (tensor->data == NULL && tensor->ndim >= 0 && tn_element_count(tensor->ndim, tensor->shape) > 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: a tensor without data cannot be written: it is NULL", path);
  if (tensor->ndim < 0 || tensor->ndim > TN_MAX_RANK || tn_element_count(tensor->ndim, tensor->shape) < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: a tensor of rank %d and that shape cannot be written", path,
                            tensor->ndim);
  return tn_status_prefix(tn__tensor_check_device(tensor, (DLDevice){kDLCPU, 0}, false), "%s", path);
}

/* The magic, version, length and dictionary, padded so that the elements start at a multiple of 64. Returns its
 * size. */
TN_MUST_USE static size_t write_header(const DLTensor *tensor, tn_dtype dtype, size_t width, char *out, size_t size) {
  char strings[32];
  const char *descr = strings;
  snprintf(strings, sizeof(strings), "U%zu", width);
  for (int i = 0; i < DESCR_COUNT; i++)
    if (descr_rows[i].dtype == dtype) descr = descr_rows[i].text;
  char order = tn_dtype_size(dtype) == 1 ? '|' : '<';
  int n = snprintf(out + 10, size - 10, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, descr);
  for (int i = 0; i < tensor->ndim; i++)
    n += snprintf(out + 10 + n, size - 10 - (size_t)n, i + 1 < tensor->ndim ? "%lld, " : "%lld%s",
                  (long long)tensor->shape[i], tensor->ndim == 1 ? "," : "");
  n += snprintf(out + 10 + n, size - 10 - (size_t)n, "), }");
  size_t total = ((size_t)n + 10 + 1 + 63) / 64 * 64;
  memset(out + 10 + n, ' ', total - 10 - (size_t)n);
  out[total - 1] = '\n';
  memcpy(out, magic, sizeof(magic));
  out[6] = 1, out[7] = 0;
  out[8] = (char)((total - 10) & 0xff), out[9] = (char)((total - 10) >> 8);
  return total;
}

/* The characters of the longest string. */
static tn_status *measure_strings(const char *path, const tn_string *strings, int64_t count, size_t *width) {
  *width = 0;
  for (int64_t i = 0; i < count; i++) {
    const char *at = strings[i].data, *end = at == NULL ? NULL : at + strings[i].length;
    size_t length = 0;
    for (; at < end; length++)
      if (tn__utf8_next(&at, end) == TN__NOT_UTF8)
        return tn_status_create(TN_UNSUPPORTED, "%s: string %lld is not UTF-8, and .npy files hold characters", path,
                                (long long)i);
    if (length > *width) *width = length;
  }
  return NULL;
}

static tn_status *write_strings(const DLTensor *tensor, const char *path) {
  int64_t count = tn_element_count(tensor->ndim, tensor->shape), total;
  const tn_string *strings = (const void *)((const char *)tensor->data + tensor->byte_offset);
  size_t width;
  void *memory;
  if (!tn__tensor_is_dense(tensor))
    return tn_status_create(TN_UNSUPPORTED, "%s: strided strings cannot be written", path);
  TN_RETURN_IF_ERROR(measure_strings(path, strings, count, &width));
  if (tn__mul_overflow_i64(count, (int64_t)width * 4, &total))
    return tn_status_create(TN_OUT_OF_MEMORY, "%s: its strings do not fit into memory", path);
  char header[1024];
  size_t header_size = write_header(tensor, TN_STRING, width, header, sizeof(header));
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, (size_t)total, 0, &memory));
  for (int64_t i = 0; i < count; i++) {
    const char *at = strings[i].data, *end = at == NULL ? NULL : at + strings[i].length;
    uint32_t *element = (uint32_t *)memory + (size_t)i * width;
    while (at < end) *element++ = tn__utf8_next(&at, end);
  }
  tn__bytes pieces[2] = {{header, header_size}, {memory, (size_t)total}};
  tn_status *status = tn__file_write_atomic(path, pieces, total > 0 ? 2 : 1, 0644);
  tn__free(NULL, memory, (size_t)total, 0);
  return status;
}

tn_status *tn_tensor_write_npy(const DLTensor *tensor, const char *path) {
  TN__NEED("tensor", tensor);
  TN__NEED("path", path);
  tn_dtype dtype = tn_dtype_of_dl(tensor->dtype);
  TN_RETURN_IF_ERROR(check_writable(tensor, path, dtype));
  if (dtype == TN_STRING) return write_strings(tensor, path);
  char header[1024]; /* 16 dimensions of at most 19 digits, and some */
  size_t header_size = write_header(tensor, dtype, 0, header, sizeof(header));
  size_t bytes = (size_t)tn_element_count(tensor->ndim, tensor->shape) * tn_dtype_size(dtype);
  const void *elements = (const char *)tensor->data + tensor->byte_offset;
  void *dense = NULL;
  if (bytes > 0 && !tn__tensor_is_dense(tensor)) {
    TN_RETURN_IF_ERROR(tn__alloc(NULL, bytes, 1, 0, &dense));
    tn__tensor_copy_dense(tensor, dense);
    elements = dense;
  }
  tn__bytes pieces[2] = {{header, header_size}, {elements, bytes}};
  tn_status *status = tn__file_write_atomic(path, pieces, bytes > 0 ? 2 : 1, 0644);
  tn__free(NULL, dense, bytes, 0);
  return status;
}
