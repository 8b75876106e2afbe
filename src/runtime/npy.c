/* .npy files (NumPy's documentation, "numpy.lib.format"): six magic bytes, a version, the length of a header, a Python
 * dictionary as text, then the elements. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
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
static bool take_text(cursor *c, char *out, size_t size) {
  skip_spaces(c);
  if (c->at >= c->end || (*c->at != '\'' && *c->at != '"')) return false;
  char quote = *c->at++;
  size_t n = 0;
  while (c->at < c->end && *c->at != quote && n + 1 < size) out[n++] = *c->at++;
  out[n] = '\0';
  return take(c, quote);
}

static bool take_number(cursor *c, int64_t *out) {
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

tn_status *tn_tensor_read_npy_memory(const char *name, const void *data, size_t size, const tn_allocator *allocator,
                                     tn_tensor **out) {
  *out = NULL;
  npy_header header = {0};
  size_t body;
  TN_RETURN_IF_ERROR(read_header(name, data, size, &header, &body));
  int64_t count = tn_element_count(header.rank, header.shape), bytes;
  if (count < 0 || tn__mul_overflow_i64(count, (int64_t)tn_dtype_size(header.dtype), &bytes) ||
      (uint64_t)bytes > size - body) {
    char shape[256];
    tn__format_shape(header.shape, header.rank, shape, sizeof(shape));
    return tn_status_create(TN_DATA_LOSS, "%s: %s%s needs more than the %zu bytes that follow its header", name,
                            tn_dtype_name(header.dtype), shape, size - body);
  }
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
  *out = NULL;
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
  if (tensor->ndim < 0 || tensor->ndim > TN_MAX_RANK || tn_element_count(tensor->ndim, tensor->shape) < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: a tensor of rank %d and that shape cannot be written", path,
                            tensor->ndim);
  if (tensor->device.device_type != kDLCPU)
    return tn_status_create(TN_UNSUPPORTED, "%s: the tensor is on a device of type %d, not on the CPU", path,
                            (int)tensor->device.device_type);
  return NULL;
}

/* The magic, version, length and dictionary, padded so that the elements start at a multiple of 64. Returns its size.
 */
static size_t write_header(const DLTensor *tensor, tn_dtype dtype, char *out, size_t size) {
  const char *descr = "";
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

tn_status *tn_tensor_write_npy(const DLTensor *tensor, const char *path) {
  tn_dtype dtype = tn_dtype_of_dl(tensor->dtype);
  TN_RETURN_IF_ERROR(check_writable(tensor, path, dtype));
  char header[1024]; /* 16 dimensions of at most 19 digits, and some */
  size_t header_size = write_header(tensor, dtype, header, sizeof(header));
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
