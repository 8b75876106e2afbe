/* The protobuf wire format, checked without recursion before protobuf-c decodes it (which recurses without a limit and
 * copies every byte). */
#include <stdarg.h>
#include <string.h>

#include "base/sanitize.h"
#include "import/onnx/internal.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { FIELD_RAW_DATA = 9, FIELD_RAW_OFFSET = 1000, FIELD_RAW_SIZE = 1001, LENGTH_BYTES = 5 };

typedef struct frame { /* a message that has begun and not ended */
  const ProtobufCMessageDescriptor *type;
  size_t end;       /* in the input */
  size_t length_at; /* in the output: LENGTH_BYTES are kept free there */
  uint32_t seen;    /* fields that may occur once, by index */
  int graphs;       /* that it is in */
} frame;

typedef struct checker {
  tn__arena *arena;
  const uint8_t *data;
  size_t position;
  uint8_t *out;
  size_t length, capacity;
  int messages;
  int depth;
  frame stack[TN__WIRE_MAX_DEPTH];
} checker;

static _Noreturn void corrupt(const checker *c, const char *format, ...) TN_PRINTF(2, 3);
static _Noreturn void corrupt(const checker *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_DATA_LOSS, format, args);
  va_end(args);
  tn__throw(c->arena->escape, tn_status_prefix(status, "truncated or corrupt at byte %zu", c->position));
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static uint8_t *reserve(checker *c, size_t size) {
  if (c->capacity - c->length < size) {
    size_t grown = c->capacity * 2 + size + 4096;
    uint8_t *fresh = tn__arena_alloc(c->arena, grown);
    if (c->length > 0) memcpy(fresh, c->out, c->length);
    c->out = fresh;
    c->capacity = grown;
  }
  c->length += size;
  return c->out + c->length - size;
}

static void emit_bytes(checker *c, const uint8_t *data, size_t size) {
  if (size > 0) memcpy(reserve(c, size), data, size);
}

/* A varint of a fixed number of bytes: longer than it needs to be, which protobuf allows, so that it can be filled in
 * later. */
static void put_varint(uint8_t *at, int bytes, uint64_t value) {
  for (int i = 0; i < bytes; i++, value >>= 7) at[i] = (uint8_t)((value & 0x7f) | (i + 1 < bytes ? 0x80 : 0));
}

static void emit_tag(checker *c, uint32_t field, int wire) {
  put_varint(reserve(c, LENGTH_BYTES), LENGTH_BYTES, (uint64_t)field << 3 | (uint64_t)wire);
}

static void emit_fixed64(checker *c, uint32_t field, uint64_t value) {
  emit_tag(c, field, WIRE_64);
  uint8_t *at = reserve(c, 8);
  for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> (8 * i));
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

static uint64_t read_varint(checker *c, size_t end, const char *what) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (c->position >= end) corrupt(c, "%s ends too early", what);
    uint8_t byte = c->data[c->position++];
    if (shift == 63 && byte > 1) corrupt(c, "%s has more than 64 bits", what);
    value |= (uint64_t)(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  corrupt(c, "%s has more than 10 bytes", what);
}

static void skip_bytes(checker *c, size_t end, uint64_t size, const char *message, uint32_t field) {
  if (size > end - c->position)
    corrupt(c, "field %u of %s says %llu bytes, and %zu are left", field, message, (unsigned long long)size,
            end - c->position);
  c->position += (size_t)size;
}

static void skip_value(checker *c, const frame *f, uint32_t field, int wire) {
  const char *message = f->type->short_name;
  switch (wire) {
    case WIRE_VARINT: read_varint(c, f->end, "a number"); break;
    case WIRE_64: skip_bytes(c, f->end, 8, message, field); break;
    case WIRE_32: skip_bytes(c, f->end, 4, message, field); break;
    case WIRE_BYTES: skip_bytes(c, f->end, read_varint(c, f->end, "a length"), message, field); break;
    default: corrupt(c, "field %u of %s has wire type %d, which protobuf 3 does not write", field, message, wire);
  }
}

static int wire_of(ProtobufCType type) {
  switch (type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return WIRE_32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    default: return WIRE_VARINT;
  }
}

static void check_packed(checker *c, size_t start, size_t size, int wire, const char *name) {
  if (wire == WIRE_VARINT) {
    size_t end = start + size, after = c->position;
    c->position = start;
    while (c->position < end) read_varint(c, end, "a number of a list");
    c->position = after;
  } else if (size % (wire == WIRE_32 ? 4 : 8) != 0) {
    corrupt(c, "the list \"%s\" does not end with its last number", name);
  }
}

static void count_message(checker *c) {
  if (++c->messages > TN__WIRE_MAX_MESSAGES)
    tn__throwf(c->arena->escape, TN_UNSUPPORTED, "holds more than %d protobuf messages and strings",
               TN__WIRE_MAX_MESSAGES);
}

static void push(checker *c, const ProtobufCFieldDescriptor *field, uint64_t size) {
  const frame *outer = &c->stack[c->depth - 1];
  if (size > outer->end - c->position)
    corrupt(c, "field %u of %s says %llu bytes, and %zu are left", field->id, outer->type->short_name,
            (unsigned long long)size, outer->end - c->position);
  const ProtobufCMessageDescriptor *type = field->descriptor;
  int graphs = outer->graphs + (type == &onnx__graph_proto__descriptor);
  if (c->depth == TN__WIRE_MAX_DEPTH)
    tn__throwf(c->arena->escape, TN_UNSUPPORTED, "messages are nested more than %d deep at byte %zu",
               TN__WIRE_MAX_DEPTH, c->position);
  if (graphs > TN__WIRE_MAX_GRAPHS)
    tn__throwf(c->arena->escape, TN_UNSUPPORTED, "graphs are nested more than %d deep at byte %zu", TN__WIRE_MAX_GRAPHS,
               c->position);
  emit_tag(c, field->id, WIRE_BYTES);
  reserve(c, LENGTH_BYTES);
  c->stack[c->depth++] =
      (frame){.type = type, .end = c->position + (size_t)size, .length_at = c->length - LENGTH_BYTES, .graphs = graphs};
}

static void take_bytes(checker *c, frame *f, const ProtobufCFieldDescriptor *field, size_t tag_at) {
  uint64_t size = read_varint(c, f->end, "a length");
  if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
    count_message(c);
    push(c, field, size);
    return;
  }
  size_t start = c->position;
  skip_bytes(c, f->end, size, f->type->short_name, field->id);
  if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES) {
    count_message(c);
    if (field->type == PROTOBUF_C_TYPE_STRING && memchr(c->data + start, 0, (size_t)size) != NULL)
      corrupt(c, "the text \"%s\" of %s has a zero byte in it", field->name, f->type->short_name);
    bool raw = f->type == &onnx__tensor_proto__descriptor && field->id == FIELD_RAW_DATA;
    if (raw && size > TN__WIRE_KEEP_RAW) {
      emit_fixed64(c, FIELD_RAW_OFFSET, start);
      emit_fixed64(c, FIELD_RAW_SIZE, size);
      return;
    }
  } else {
    check_packed(c, start, (size_t)size, wire_of(field->type), field->name);
  }
  emit_bytes(c, c->data + tag_at, c->position - tag_at);
}

static void take_field(checker *c) {
  frame *f = &c->stack[c->depth - 1];
  size_t tag_at = c->position;
  uint64_t tag = read_varint(c, f->end, "a tag");
  int wire = (int)(tag & 7);
  if (tag >> 3 == 0 || tag >> 32 != 0) corrupt(c, "%s has a field with an impossible number", f->type->short_name);
  uint32_t number = (uint32_t)(tag >> 3);
  const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(f->type, number);
  if (field == NULL || number >= FIELD_RAW_OFFSET) {
    skip_value(c, f, number, wire);
    return;
  }
  bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
  int expected = wire_of(field->type);
  bool packed = repeated && wire == WIRE_BYTES && expected != WIRE_BYTES;
  if (wire != expected && !packed)
    corrupt(c, "field \"%s\" of %s has wire type %d, expected %d", field->name, f->type->short_name, wire, expected);
  if (!repeated) {
    /* protobuf merges a message that occurs twice, at a cost that grows with the square of how often. */
    uint32_t bit = 1u << (uint32_t)(field - f->type->fields);
    if ((f->seen & bit) != 0) corrupt(c, "field \"%s\" of %s occurs twice", field->name, f->type->short_name);
    f->seen |= bit;
  }
  if (wire == WIRE_BYTES) {
    take_bytes(c, f, field, tag_at);
  } else {
    skip_value(c, f, number, wire);
    emit_bytes(c, c->data + tag_at, c->position - tag_at);
  }
}

static void check(checker *c, const ProtobufCMessageDescriptor *root, size_t size) {
  c->stack[0] = (frame){.type = root, .end = size};
  c->depth = 1;
  while (c->depth > 0) {
    const frame *f = &c->stack[c->depth - 1];
    if (c->position < f->end) {
      take_field(c);
      continue;
    }
    if (c->depth > 1) {
      size_t length = c->length - f->length_at - LENGTH_BYTES;
      if (length > INT32_MAX)
        tn__throwf(c->arena->escape, TN_UNSUPPORTED, "a message of 2 GiB or more cannot be decoded");
      put_varint(c->out + f->length_at, LENGTH_BYTES, length);
    }
    c->depth--;
  }
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* The arena throws when memory is short: it leaves protobuf-c by a jump, which owns nothing but what it got here. */
static void *decode_alloc(void *arena, size_t size) {
  void *memory = tn__arena_alloc(arena, size);
  TN__INITIALIZED(memory, size); /* protobuf-c writes it */
  return memory;
}
static void decode_free(void *arena, void *pointer) {}

ProtobufCMessage *tn__onnx_decode_wire(tn__arena *arena, const ProtobufCMessageDescriptor *root, const uint8_t *data,
                                       size_t size) {
  checker *c = TN__NEW(arena, checker);
  c->arena = arena;
  c->data = data;
  check(c, root, size);
  ProtobufCAllocator allocator = {.alloc = decode_alloc, .free = decode_free, .allocator_data = arena};
  ProtobufCMessage *message = protobuf_c_message_unpack(root, &allocator, c->length, c->out == NULL ? data : c->out);
  if (message == NULL)
    tn__throwf(arena->escape, TN_DATA_LOSS, "corrupt: protobuf-c cannot decode %s", root->short_name);
  return message;
}
