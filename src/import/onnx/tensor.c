/* TensorProto to dense data: raw or typed fields, in the model or beside it, and sparse tensors. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/below.h"
#include "base/copy.h"
#include "base/file.h"
#include "import/onnx/internal.h"

/* By TensorProto.DataType. */
static const struct {
  const char *name;
  tn_dtype dtype;
} types[] = {
    {"undefined", TN_DTYPE_INVALID},
    {"float", TN_F32},
    {"uint8", TN_U8},
    {"int8", TN_I8},
    {"uint16", TN_U16},
    {"int16", TN_I16},
    {"int32", TN_I32},
    {"int64", TN_I64},
    {"string", TN_STRING},
    {"bool", TN_BOOL},
    {"float16", TN_F16},
    {"double", TN_F64},
    {"uint32", TN_U32},
    {"uint64", TN_U64},
    {"complex64", TN_DTYPE_INVALID},
    {"complex128", TN_DTYPE_INVALID},
    {"bfloat16", TN_BF16},
    {"float8e4m3fn", TN_DTYPE_INVALID},
    {"float8e4m3fnuz", TN_DTYPE_INVALID},
    {"float8e5m2", TN_DTYPE_INVALID},
    {"float8e5m2fnuz", TN_DTYPE_INVALID},
    {"uint4", TN_DTYPE_INVALID},
    {"int4", TN_DTYPE_INVALID},
    {"float4e2m1", TN_DTYPE_INVALID},
    {"float8e8m0", TN_DTYPE_INVALID},
    {"uint2", TN_DTYPE_INVALID},
    {"int2", TN_DTYPE_INVALID},
    {"float6e2m3", TN_DTYPE_INVALID},
    {"float6e3m2", TN_DTYPE_INVALID},
};
enum { TYPE_COUNT = sizeof(types) / sizeof(*types), LOCATION_EXTERNAL = 1 };

tn_dtype tn__onnx_dtype(int32_t data_type) {
  return data_type < 0 || data_type >= TYPE_COUNT ? TN_DTYPE_INVALID : types[data_type].dtype;
}
const char *tn__onnx_dtype_name(int32_t data_type) {
  return data_type < 0 || data_type >= TYPE_COUNT ? "unknown" : types[data_type].name;
}

int32_t tn__onnx_element(tn_dtype dtype, int narrow) {
  for (int32_t i = 0; i < TYPE_COUNT; i++) {
    tn_dtype own = types[i].dtype;
    int bits = tn__onnx_narrow(i, &own);
    if (own == dtype && bits == narrow) return i;
  }
  return 0;
}

int tn__onnx_narrow(int32_t data_type, tn_dtype *dtype) {
  const char *name = tn__onnx_dtype_name(data_type);
  bool is_unsigned = name[0] == 'u';
  int bits = strcmp(name + is_unsigned, "int4") == 0 ? 4 : strcmp(name + is_unsigned, "int2") == 0 ? 2 : 0;
  if (bits > 0) *dtype = is_unsigned ? TN_U8 : TN_I8;
  return bits;
}
typedef struct source { /* where a tensor's bytes are */
  const uint8_t *data;
  size_t size;
} source;

/* ---- external data ----------------------------------------------------------------------------------------------- */

static const char *external_entry(const Onnx__TensorProto *tensor, const char *key) {
  for (size_t i = 0; i < tensor->n_external_data; i++) {
    const Onnx__StringStringEntryProto *entry = tensor->external_data[i];
    if (entry->key != NULL && strcmp(entry->key, key) == 0) return entry->value;
  }
  return NULL;
}

/* A decimal number; `otherwise` when it is not given. */
static uint64_t external_number(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *key,
                                const char *what, uint64_t otherwise) {
  const char *text = external_entry(tensor, key);
  if (text == NULL) return otherwise;
  char *end = NULL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
    tn__throwf(model->arena->escape, TN_INVALID_ARGUMENT,
               "%s: the %s \"%s\" of its external data is not a number of bytes", what, key, text);
  return value;
}

static void check_location(tn__onnx_model *model, const char *location, const char *what) {
  tn__escape *escape = model->arena->escape;
  if (location == NULL || location[0] == '\0')
    tn__throwf(escape, TN_INVALID_ARGUMENT, "%s: its external data has no location", what);
  if (location[0] == '/')
    tn__throwf(escape, TN_INVALID_ARGUMENT,
               "%s: its external data \"%s\" is an absolute path; it must lie in the model's folder", what, location);
  for (const char *part = location; part != NULL; part = strchr(part, '/')) {
    part += *part == '/';
    if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
      tn__throwf(escape, TN_INVALID_ARGUMENT, "%s: its external data \"%s\" leaves the model's folder", what, location);
  }
}

static void close_map(void *map) { tn__file_map_close(map); }

static const tn__file_map *map_external(tn__onnx_model *model, const char *location, const char *what) {
  tn__arena *arena = model->arena;
  char file[PATH_MAX];
  tn__below below = tn__path_below(model->folder, location, file);
  if (below == TN__BELOW_FAILED && (errno == ENOENT || errno == ENOTDIR))
    tn__throwf(arena->escape, TN_NOT_FOUND, "%s: its external data \"%s\" is not in the model's folder", what,
               location);
  if (below == TN__BELOW_FAILED)
    tn__throwf(arena->escape, TN_IO, "%s: its external data \"%s\" cannot be read: %s", what, location,
               strerror(errno));
  if (below == TN__BELOW_OUTSIDE)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
               "%s: its external data \"%s\" is a symbolic link out of the model's folder", what, location);
  tn__file_map *map = TN__NEW(arena, tn__file_map);
  tn_status *status = tn__file_map_open(file, map);
  if (status != NULL) tn__throw(arena->escape, tn_status_prefix(status, "%s: its external data", what));
  tn__arena_defer(arena, close_map, map);
  return map;
}

const tn__file_map *tn__onnx_external(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *what) {
  const char *location = external_entry(tensor, "location");
  check_location(model, location, what);
  tn__file_map *map = tn__map_get(&model->externals, location);
  if (map != NULL) return map;
  const tn__file_map *fresh = map_external(model, location, what);
  tn__map_set(&model->externals, location, (void *)(uintptr_t)fresh);
  return fresh;
}

static source external_source(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *what, size_t needed) {
  const tn__file_map *map = tn__onnx_external(model, tensor, what);
  uint64_t offset = external_number(model, tensor, "offset", what, 0);
  uint64_t rest = offset <= map->size ? map->size - offset : 0;
  uint64_t size = external_number(model, tensor, "length", what, needed);
  if (offset > map->size || size > rest)
    tn__throwf(model->arena->escape, TN_DATA_LOSS,
               "%s: its external data \"%s\" has %zu bytes; %" PRIu64 " at offset %" PRIu64 " are beyond its end", what,
               external_entry(tensor, "location"), map->size, size, offset);
  return (source){map->data + offset, (size_t)size};
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static const char *shape_text(tn__arena *arena, const int64_t *dims, size_t rank) {
  const char *text = "";
  for (size_t i = 0; i < rank && i < 16; i++)
    text = tn__arena_printf(arena, "%s%s%" PRId64, text, i > 0 ? ", " : "", dims[i]);
  return tn__arena_printf(arena, "[%s%s]", text, rank > 16 ? ", ..." : "");
}

/* Number of elements; throws when the shape makes no sense. */
static int64_t check_shape(tn__onnx_model *model, const int64_t *dims, size_t rank, const char *what, size_t element) {
  tn__escape *escape = model->arena->escape;
  if (rank > TN__MAX_RANK)
    tn__throwf(escape, TN_UNSUPPORTED, "%s: has %zu dimensions; at most %d are supported", what, rank, TN__MAX_RANK);
  int64_t count = 1, bytes;
  bool empty = false;
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] < 0)
      tn__throwf(escape, TN_INVALID_ARGUMENT, "%s: dimension %zu of its shape %s is negative", what, i,
                 shape_text(model->arena, dims, rank));
    empty = empty || dims[i] == 0;
  }
  if (empty) return 0;
  for (size_t i = 0; i < rank; i++)
    if (tn__mul_overflow_i64(count, dims[i], &count))
      tn__throwf(escape, TN_INVALID_ARGUMENT, "%s: its shape %s has more elements than can be counted", what,
                 shape_text(model->arena, dims, rank));
  if (tn__mul_overflow_i64(count, (int64_t)element, &bytes))
    tn__throwf(escape, TN_INVALID_ARGUMENT, "%s: its shape %s has more bytes than can be counted", what,
               shape_text(model->arena, dims, rank));
  return count;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static source raw_source(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *what, bool *given) {
  *given = true;
  if (tensor->has_raw_offset) {
    if (tensor->raw_offset > model->size || tensor->raw_size > model->size - tensor->raw_offset)
      tn__throwf(model->arena->escape, TN_INTERNAL, "%s: its data lies outside of the file", what);
    return (source){model->data + tensor->raw_offset, (size_t)tensor->raw_size};
  }
  if (tensor->has_raw_data) return (source){tensor->raw_data.data, tensor->raw_data.len};
  *given = false;
  return (source){0};
}

/* Typed fields: which one holds a type's elements, and how many there are. */
static size_t typed_count(const Onnx__TensorProto *t, tn_dtype dtype) {
  switch (dtype) {
    case TN_F32: return t->n_float_data;
    case TN_F64: return t->n_double_data;
    case TN_I64: return t->n_int64_data;
    case TN_U32:
    case TN_U64: return t->n_uint64_data;
    default: return t->n_int32_data;
  }
}

static void store_typed(const Onnx__TensorProto *t, tn_dtype dtype, void *out, size_t i) {
  switch (dtype) {
    case TN_F32: ((float *)out)[i] = t->float_data[i]; break;
    case TN_F64: ((double *)out)[i] = t->double_data[i]; break;
    case TN_I64: ((int64_t *)out)[i] = t->int64_data[i]; break;
    case TN_U32: ((uint32_t *)out)[i] = (uint32_t)t->uint64_data[i]; break;
    case TN_U64: ((uint64_t *)out)[i] = t->uint64_data[i]; break;
    case TN_I32: ((int32_t *)out)[i] = t->int32_data[i]; break;
    case TN_BOOL: ((uint8_t *)out)[i] = t->int32_data[i] != 0; break;
    default: /* 8 and 16 bits wide: the bits of 16-bit floats, the values of integers */
      if (tn_dtype_size(dtype) == 1)
        ((uint8_t *)out)[i] = (uint8_t)t->int32_data[i];
      else
        ((uint16_t *)out)[i] = (uint16_t)t->int32_data[i];
  }
}

/* A copy when the bytes are not aligned to their elements, or are bools other than 0 and 1. */
static const void *usable(tn__onnx_model *model, source s, tn_dtype dtype) {
  if (dtype != TN_BOOL) return s.data;
  uint8_t *copy = tn__arena_alloc(model->arena, s.size);
  for (size_t i = 0; i < s.size; i++) copy[i] = s.data[i] != 0;
  return copy;
}

/* One text per element, as constants of a graph have them. */
static void read_strings(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *what, int64_t count,
                         tn__onnx_tensor *out) {
  if (tensor->data_location == LOCATION_EXTERNAL || tensor->has_raw_data || tensor->has_raw_offset)
    tn__throwf(model->arena->escape, TN_INVALID_ARGUMENT, "%s: strings are given one by one, not as raw data", what);
  if (tensor->n_string_data != (size_t)count)
    tn__throwf(model->arena->escape, TN_DATA_LOSS, "%s: has %zu strings, its shape %s needs %" PRId64, what,
               tensor->n_string_data, shape_text(model->arena, tensor->dims, tensor->n_dims), count);
  const tn__text **texts = TN__NEW_ARRAY(model->arena, count + 1, const tn__text *);
  for (int64_t i = 0; i < count; i++)
    texts[i] = tn__text_create(model->arena, tensor->string_data[i].data, tensor->string_data[i].len);
  out->data = texts;
}

/* Integers of 2 or 4 bits lie in bytes from the lowest bits on, each byte an element of the typed field; here each gets
 * a byte. */
static void read_narrow(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *what, int64_t count,
                        tn__onnx_tensor *out) {
  int bits = out->bits, in_byte = 8 / bits;
  size_t packed = (size_t)count / (size_t)in_byte + ((size_t)count % (size_t)in_byte != 0);
  bool raw = true;
  source s = tensor->data_location == LOCATION_EXTERNAL ? external_source(model, tensor, what, packed)
                                                        : raw_source(model, tensor, what, &raw);
  size_t given = raw ? s.size : tensor->n_int32_data;
  if (given != packed)
    tn__throwf(model->arena->escape, TN_DATA_LOSS, "%s: has %zu bytes of data, its type %s%s needs %zu", what, given,
               tn__onnx_dtype_name(tensor->data_type), shape_text(model->arena, tensor->dims, tensor->n_dims), packed);
  uint8_t *data = tn__arena_alloc(model->arena, out->size + 1);
  for (int64_t i = 0; i < count; i++) {
    uint8_t byte = raw ? s.data[i / in_byte] : (uint8_t)tensor->int32_data[i / in_byte];
    int value = byte >> (i % in_byte * bits) & ((1 << bits) - 1);
    if (out->dtype == TN_I8 && value >> (bits - 1) != 0) value -= 1 << bits;
    data[i] = (uint8_t)value;
  }
  out->data = data;
}

void tn__onnx_tensor_read(tn__onnx_model *model, const Onnx__TensorProto *tensor, const char *what,
                          tn__onnx_tensor *out) {
  tn__escape *escape = model->arena->escape;
  tn_dtype dtype = tn__onnx_dtype(tensor->data_type);
  int bits = tn__onnx_narrow(tensor->data_type, &dtype);
  if (dtype == TN_DTYPE_INVALID)
    tn__throwf(escape, TN_UNSUPPORTED, "%s: element type %s (%d) is not supported", what,
               tn__onnx_dtype_name(tensor->data_type), tensor->data_type);
  size_t element = tn__dtype_stored(dtype);
  int64_t count = check_shape(model, tensor->dims, tensor->n_dims, what, element);
  *out = (tn__onnx_tensor){.name = tensor->name == NULL ? "" : tensor->name,
                           .dtype = dtype,
                           .bits = bits,
                           .rank = (int)tensor->n_dims,
                           .size = (size_t)count * element};
  if (tensor->n_dims > 0) memcpy(out->shape, tensor->dims, tensor->n_dims * sizeof(int64_t));
  if (bits > 0) {
    read_narrow(model, tensor, what, count, out);
    return;
  }
  if (dtype == TN_STRING) {
    read_strings(model, tensor, what, count, out);
    return;
  }
  bool raw = true;
  source s = tensor->data_location == LOCATION_EXTERNAL ? external_source(model, tensor, what, out->size)
                                                        : raw_source(model, tensor, what, &raw);
  if (raw) {
    if (s.size != out->size)
      tn__throwf(escape, TN_DATA_LOSS, "%s: has %zu bytes of data, its type %s%s needs %zu", what, s.size,
                 tn_dtype_name(dtype), shape_text(model->arena, tensor->dims, tensor->n_dims), out->size);
    out->data = usable(model, s, dtype);
    return;
  }
  size_t given = typed_count(tensor, dtype);
  if (given != (size_t)count)
    tn__throwf(escape, TN_DATA_LOSS, "%s: has %zu elements of data, its type %s%s needs %" PRId64, what, given,
               tn_dtype_name(dtype), shape_text(model->arena, tensor->dims, tensor->n_dims), count);
  if (dtype == TN_F32) {
    out->data = count > 0 ? (void *)tensor->float_data : tn__arena_alloc(model->arena, 1);
    return;
  }
  void *data = tn__arena_alloc(model->arena, out->size);
  for (size_t i = 0; i < given; i++) store_typed(tensor, dtype, data, i);
  out->data = data;
}

void tn__onnx_sparse_read(tn__onnx_model *model, const Onnx__SparseTensorProto *sparse, const char *what,
                          tn__onnx_tensor *out) {
  tn__escape *escape = model->arena->escape;
  enum { MOST_BYTES = 1 << 30 };
  if (sparse->values == NULL || sparse->indices == NULL)
    tn__throwf(escape, TN_INVALID_ARGUMENT, "%s: lacks its values or indices", what);
  tn__onnx_tensor values, indices;
  tn__onnx_tensor_read(model, sparse->values, what, &values);
  tn__onnx_tensor_read(model, sparse->indices, what, &indices);
  if (values.bits > 0)
    tn__throwf(escape, TN_UNSUPPORTED, "%s: sparse tensors of %s are not supported", what,
               tn__onnx_dtype_name(sparse->values->data_type));
  size_t element = tn__dtype_stored(values.dtype), rank = sparse->n_dims;
  int64_t count = check_shape(model, sparse->dims, rank, what, element);
  if (count > MOST_BYTES / (int64_t)element)
    tn__throwf(escape, TN_UNSUPPORTED, "%s: would be more than 1 GiB when dense", what);
  bool flat = indices.rank == 1;
  if (values.rank != 1 || indices.dtype != TN_I64 || indices.rank < 1 || indices.rank > 2 ||
      indices.shape[0] != values.shape[0] || (!flat && indices.shape[1] != (int64_t)rank))
    tn__throwf(escape, TN_INVALID_ARGUMENT, "%s: its values and indices do not fit each other", what);
  char *data = tn__arena_alloc(model->arena, (size_t)count * element);
  for (int64_t i = 0; i < values.shape[0]; i++) {
    int64_t at = flat ? tn__load_i64(TN_I64, indices.data, i) : 0;
    bool inside = !flat || (at >= 0 && at < count);
    for (size_t d = 0; d < (flat ? 0 : rank); d++) {
      int64_t index = tn__load_i64(TN_I64, indices.data, i * (int64_t)rank + (int64_t)d);
      inside = inside && index >= 0 && index < sparse->dims[d];
      at = inside ? at * sparse->dims[d] + index : 0;
    }
    if (!inside || count == 0)
      tn__throwf(escape, TN_INVALID_ARGUMENT, "%s: index %" PRId64 " lies outside of its shape", what, i);
    tn__copy(data + (size_t)at * element, (const char *)values.data + (size_t)i * element, element);
  }
  *out = (tn__onnx_tensor){
      .name = values.name, .dtype = values.dtype, .rank = (int)rank, .data = data, .size = (size_t)count * element};
  if (rank > 0) memcpy(out->shape, sparse->dims, rank * sizeof(int64_t));
}
