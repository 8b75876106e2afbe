/* Writes small ONNX models as protobuf bytes, right ones and wrong ones, without help from the importer's own code. */
#ifndef TENON_TESTS_UNIT_ONNX_BUILD_H
#define TENON_TESTS_UNIT_ONNX_BUILD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A message that is being written. Its bytes live until pb_free, or until it is put into another. */
typedef struct pb {
  uint8_t *data;
  size_t size, capacity;
} pb;

static inline void pb_byte(pb *m, unsigned byte) {
  if (m->size == m->capacity) {
    m->capacity = m->capacity * 2 + 64;
    m->data = realloc(m->data, m->capacity);
    if (m->data == NULL) abort();
  }
  m->data[m->size++] = (uint8_t)byte;
}
static inline void pb_free(pb *m) {
  free(m->data);
  *m = (pb){0};
}
static inline void pb_varint(pb *m, uint64_t value) {
  for (; value >= 0x80; value >>= 7) pb_byte(m, (unsigned)(value & 0x7f) | 0x80);
  pb_byte(m, (unsigned)value);
}
static inline void pb_bytes(pb *m, int field, const void *data, size_t size) {
  pb_varint(m, (uint64_t)field << 3 | 2);
  pb_varint(m, size);
  for (size_t i = 0; i < size; i++) pb_byte(m, ((const uint8_t *)data)[i]);
}
static inline void pb_int(pb *m, int field, int64_t value) {
  pb_varint(m, (uint64_t)field << 3);
  pb_varint(m, (uint64_t)value);
}
static inline void pb_float(pb *m, int field, float value) {
  pb_varint(m, (uint64_t)field << 3 | 5);
  uint32_t bits;
  memcpy(&bits, &value, 4);
  for (int i = 0; i < 4; i++) pb_byte(m, bits >> (8 * i) & 0xff);
}
static inline void pb_text(pb *m, int field, const char *text) { pb_bytes(m, field, text, strlen(text)); }
/* Puts `inner` in and frees it. */
static inline void pb_message(pb *m, int field, pb *inner) {
  pb_bytes(m, field, inner->data, inner->size);
  pb_free(inner);
}

/* Element types of ONNX. */
enum {
  ONNX_FLOAT = 1,
  ONNX_UINT8 = 2,
  ONNX_INT32 = 6,
  ONNX_INT64 = 7,
  ONNX_STRING = 8,
  ONNX_BOOL = 9,
  ONNX_FLOAT16 = 10,
  ONNX_DOUBLE = 11
};

/* A repeated text field from a comma-separated list; "" is an empty list, "a,,b" has an empty name. */
static inline void pb_names(pb *m, int field, const char *names) {
  if (names[0] == '\0') return;
  for (;;) {
    size_t length = strcspn(names, ",");
    pb_bytes(m, field, names, length);
    if (names[length] == '\0') return;
    names += length + 1;
  }
}

/* "2,n,?": numbers, names, unknown. */
static inline pb onnx_tensor_type(int elem_type, const char *dims) {
  pb shape = {0}, tensor = {0}, type = {0};
  for (const char *d = dims; *d != '\0';) {
    size_t length = strcspn(d, ",");
    pb dim = {0};
    if ((*d >= '0' && *d <= '9') || *d == '-')
      pb_int(&dim, 1, strtoll(d, NULL, 10));
    else if (*d != '?')
      pb_bytes(&dim, 2, d, length);
    pb_message(&shape, 1, &dim);
    d += length + (d[length] == ',');
  }
  pb_int(&tensor, 1, elem_type);
  pb_message(&tensor, 2, &shape);
  pb_message(&type, 1, &tensor);
  return type;
}

/* field 11: input, 12: output */
static inline void onnx_value(pb *graph, int field, const char *name, int elem_type, const char *dims) {
  pb info = {0}, type = onnx_tensor_type(elem_type, dims);
  pb_text(&info, 1, name);
  pb_message(&info, 2, &type);
  pb_message(graph, field, &info);
}
static inline void onnx_input(pb *graph, const char *name, int elem_type, const char *dims) {
  onnx_value(graph, 11, name, elem_type, dims);
}
static inline void onnx_output(pb *graph, const char *name, int elem_type, const char *dims) {
  onnx_value(graph, 12, name, elem_type, dims);
}

static inline pb onnx_node_begin(const char *op, const char *name, const char *inputs, const char *outputs) {
  pb node = {0};
  pb_names(&node, 1, inputs);
  pb_names(&node, 2, outputs);
  if (name[0] != '\0') pb_text(&node, 3, name);
  pb_text(&node, 4, op);
  return node;
}
static inline void onnx_attr_int(pb *node, const char *name, int64_t value) {
  pb a = {0};
  pb_text(&a, 1, name);
  pb_int(&a, 3, value);
  pb_int(&a, 20, 2);
  pb_message(node, 5, &a);
}
static inline void onnx_attr_float(pb *node, const char *name, float value) {
  pb a = {0};
  pb_text(&a, 1, name);
  pb_float(&a, 2, value);
  pb_int(&a, 20, 1);
  pb_message(node, 5, &a);
}
static inline void onnx_attr_text(pb *node, const char *name, const char *value) {
  pb a = {0};
  pb_text(&a, 1, name);
  pb_text(&a, 4, value);
  pb_int(&a, 20, 3);
  pb_message(node, 5, &a);
}
static inline void onnx_attr_ints(pb *node, const char *name, const int64_t *values, int count) {
  pb a = {0};
  pb_text(&a, 1, name);
  for (int i = 0; i < count; i++) pb_int(&a, 8, values[i]);
  pb_int(&a, 20, 7);
  pb_message(node, 5, &a);
}
/* The graph attribute `name`; frees `graph`. */
static inline void onnx_attr_graph(pb *node, const char *name, pb *graph) {
  pb a = {0};
  pb_text(&a, 1, name);
  pb_message(&a, 6, graph);
  pb_int(&a, 20, 5);
  pb_message(node, 5, &a);
}
static inline void onnx_node(pb *graph, const char *op, const char *name, const char *inputs, const char *outputs) {
  pb node = onnx_node_begin(op, name, inputs, outputs);
  pb_message(graph, 1, &node);
}

static inline pb onnx_tensor_begin(const char *name, int data_type, const int64_t *dims, int rank) {
  pb tensor = {0};
  for (int i = 0; i < rank; i++) pb_int(&tensor, 1, dims[i]);
  pb_int(&tensor, 2, data_type);
  if (name[0] != '\0') pb_text(&tensor, 8, name);
  return tensor;
}
/* An initializer with raw data. */
static inline void onnx_raw(pb *graph, const char *name, int data_type, const int64_t *dims, int rank, const void *data,
                            size_t size) {
  pb tensor = onnx_tensor_begin(name, data_type, dims, rank);
  pb_bytes(&tensor, 9, data, size);
  pb_message(graph, 5, &tensor);
}
/* One whose data is `length` bytes at `offset` of file `location`; negative numbers are left out. */
static inline void onnx_external(pb *graph, const char *name, int data_type, const int64_t *dims, int rank,
                                 const char *location, const char *offset, const char *length) {
  pb tensor = onnx_tensor_begin(name, data_type, dims, rank);
  const char *entries[3][2] = {{"location", location}, {"offset", offset}, {"length", length}};
  for (int i = 0; i < 3; i++) {
    if (entries[i][1] == NULL) continue;
    pb entry = {0};
    pb_text(&entry, 1, entries[i][0]);
    pb_text(&entry, 2, entries[i][1]);
    pb_message(&tensor, 13, &entry);
  }
  pb_int(&tensor, 14, 1);
  pb_message(graph, 5, &tensor);
}

static inline void onnx_import(pb *model, int field, const char *domain, int64_t version) {
  pb import = {0};
  if (domain[0] != '\0') pb_text(&import, 1, domain);
  pb_int(&import, 2, version);
  pb_message(model, field, &import);
}
/* Takes the graph; functions may be added to the result with pb_message(&model, 25, &function). */
static inline pb onnx_model(int64_t opset, pb *graph) {
  pb model = {0};
  pb_int(&model, 1, 8);
  onnx_import(&model, 8, "", opset);
  pb_message(&model, 7, graph);
  return model;
}

#endif
