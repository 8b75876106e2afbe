/* The executable file (.tnx) and its bytecode. All integers little-endian; every offset and count is checked at load.
 *
 * File: tn__file_header, then tn__file_section[section_count], then the sections at offsets that are multiples of their alignment (64; native
 * code and constants 4096, so that they can be mapped). Readers skip sections they don't know. A greater `major` is refused; a
 * greater `minor` only adds sections or fields at the end of section records with a stated record size.
 *
 * Destination passing: every value of a function is a tensor register whose storage was decided when it was compiled. A result is
 * written where it is wanted: registers of storage OUTPUT are the caller's buffers. */
#ifndef TENON_RUNTIME_FORMAT_H
#define TENON_RUNTIME_FORMAT_H

#include <stdint.h>

#define TN__FILE_MAGIC "\x7fTNX\r\n\x1a\n"
#define TN__FILE_MAJOR 1
#define TN__FILE_MINOR 0

typedef struct tn__file_header {
  char magic[8];
  uint16_t major, minor;
  uint32_t section_count;
  uint64_t file_size;
  uint8_t content_hash[32]; /* SHA-256 over the section table and every section but constants (those carry their own) */
} tn__file_header;

typedef enum tn__section_kind {
  TN__SECTION_STRINGS = 1,   /* NUL-terminated UTF-8, referred to by offset; starts with an empty string */
  TN__SECTION_DEVICES = 2,   /* virtual devices: device type, id, target string, required features, memory scope */
  TN__SECTION_FUNCTIONS = 3, /* signatures, registers and bytecode of each function */
  TN__SECTION_KERNELS = 4,   /* descriptors: name, offset in the image, buffer and scalar counts, flops, bytes */
  TN__SECTION_IMAGE = 5,     /* native code, mapped read+execute */
  TN__SECTION_CONSTANTS = 6, /* data, mapped read-only */
  TN__SECTION_CONSTANT_TABLE = 7,
  TN__SECTION_TEXT = 64      /* optional named texts: schedules, graph, sources */
} tn__section_kind;

typedef struct tn__file_section {
  uint32_t kind;
  uint32_t name; /* offset in STRINGS; for TEXT */
  uint64_t offset, size;
  uint8_t hash[32]; /* SHA-256 of the section */
} tn__file_section;

typedef enum tn__storage {
  TN__STORAGE_INPUT,    /* the caller's input number `index` */
  TN__STORAGE_OUTPUT,   /* the caller's output number `index`, or the session's own buffer when not bound */
  TN__STORAGE_CONSTANT, /* constant number `index` */
  TN__STORAGE_ARENA,    /* `offset` bytes into the function's arena: a constant, or the value of a scalar register */
  TN__STORAGE_DYNAMIC,  /* allocated by the ALLOC instruction when its shape is known; kept and reused by later invokes */
  TN__STORAGE_VIEW      /* the memory of register `index` with another shape of the same size, or dtype of the same width */
} tn__storage;

/* A number that is a constant (symbolic = 0) or in a scalar register. */
typedef struct tn__operand {
  uint32_t symbolic; /* 1: `value` is a scalar register */
  uint32_t reserved;
  int64_t value;
} tn__operand;

/* Instructions: a uint32 word opcode, a uint32 word with the number of operand words that follow, then the words. Operand letters:
 *   r tensor register read    w tensor register written   s scalar read     d scalar written    k kernel   f function  c code offset
 *   b builtin  m string (message)  i immediate  l/h low and high half of an i64  * count of the group that follows (R, W, S: tensor reads, writes, scalars)
 * This table makes decoder, verifier, disassembler and docs/vm.md. */
#define TN__INSTRUCTIONS(X)                                                                                             \
  X(RETURN, "", "leaves the function")                                                                                  \
  X(SCALAR_CONST, "dlh", "d = constant")                                                                                \
  X(SCALAR_OP, "dssi", "d = s op s: op i is a tn__scalar_op; floor division; division by zero fails")                   \
  X(SCALAR_SHAPE, "dri", "d = dimension i of r")                                                                        \
  X(SCALAR_LOAD, "dri", "d = element i (flat) of r, an integer or bool tensor")                                         \
  X(SCALAR_SELECT, "dsss", "d = s != 0 ? s : s")                                                                        \
  X(ASSERT, "sm", "fails with message m when s == 0")                                                                   \
  X(ALLOC, "w", "storage for w, DYNAMIC or OUTPUT, whose dimensions are known now")                                     \
  X(KERNEL, "k*RWS", "runs kernel k on reads, writes and scalars; writes may include one workspace register")           \
  X(COPY, "wr", "copies the elements of r to w, same dtype and element count")                                          \
  X(JUMP, "c", "goes on at word c of the code")                                                                         \
  X(JUMP_IF_ZERO, "sc", "goes on at word c when s == 0")                                                                \
  X(CALL, "f*RW", "calls function f with reads as inputs and writes as outputs")                                        \
  X(BUILTIN, "b*RWS", "calls builtin b")                                                                                \
  X(MOVE, "wr", "w, DYNAMIC, takes over r's memory and shape; r, DYNAMIC, is left empty")

typedef enum tn__scalar_op {
  TN__SCALAR_ADD, TN__SCALAR_SUB, TN__SCALAR_MUL, TN__SCALAR_FLOORDIV, TN__SCALAR_FLOORMOD, TN__SCALAR_MIN, TN__SCALAR_MAX,
  TN__SCALAR_EQ, TN__SCALAR_NE, TN__SCALAR_LT, TN__SCALAR_LE, TN__SCALAR_AND, TN__SCALAR_OR, TN__SCALAR_XOR
} tn__scalar_op;

typedef enum tn__opcode {
#define X(name, operands, text) TN__OP_##name,
  TN__INSTRUCTIONS(X)
#undef X
  TN__OP_COUNT
} tn__opcode;

#endif
