/* The executable file (.tnx); its bytecode is in instructions.h. All integers little-endian; every offset and count is
 * checked at load. docs/executable-format.md and docs/vm.md say the same for people.
 *
 * File: tn__file_header, then section records of header.section_record_size bytes each, then the sections at offsets
 * that are multiples of their alignment (64; native code and constants 4096, so that they can be mapped). Readers skip
 * sections they don't know. A greater `major` is refused; a greater `minor` only adds sections, or fields at the end of
 * records, whose size every table states.
 *
 * Destination passing: every value of a function is a tensor register whose storage was decided when it was compiled. A
 * result is written where it is wanted: registers of storage OUTPUT are the caller's buffers. */
#ifndef TENON_RUNTIME_FORMAT_FORMAT_H
#define TENON_RUNTIME_FORMAT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/format/instructions.h"

#define TN__FILE_MAGIC "\x7fTNX\r\n\x1a\n"
#define TN__FILE_MAJOR 1
#define TN__FILE_MINOR 11
#define TN__FILE_MINOR_INNER 10 /* since this minor version the file marks inner functions */
#define TN__FILE_PAGE 4096      /* alignment of native code and constants in the file */
#define TN__FILE_ALIGN 64       /* of everything else, and of each constant */
#define TN__MOST_DEVICES 1024
#define TN__NO_STRING 0 /* the offset of the empty string */

typedef struct tn__file_header {
  char magic[8];
  uint16_t major, minor;
  uint32_t header_size;         /* sizeof(tn__file_header); the section records follow */
  uint32_t section_record_size; /* sizeof(tn__file_section) */
  uint32_t section_count;
  uint64_t file_size;
  uint8_t content_hash[32]; /* SHA-256 of this header with zeros here and of the section records, which hold the hashes
                               of the sections */
} tn__file_header;

typedef enum tn__section_kind {
  TN__SECTION_STRINGS = 1,        /* NUL-terminated UTF-8, referred to by offset; starts with an empty string */
  TN__SECTION_DEVICES = 2,        /* tn__table_header, then tn__device_record */
  TN__SECTION_FUNCTIONS = 3,      /* tn__functions_header, then tn__function_record, then what they point to */
  TN__SECTION_KERNELS = 4,        /* tn__table_header, then tn__kernel_record */
  TN__SECTION_IMAGE = 5,          /* native code, mapped read+execute */
  TN__SECTION_CONSTANTS = 6,      /* data, mapped read-only; its hash is checked on request only */
  TN__SECTION_CONSTANT_TABLE = 7, /* tn__table_header, then tn__constant_record, then their dimensions */
  TN__SECTION_PRODUCER = 8,       /* text: what made the file, "tenon 0.2.0" */
  TN__SECTION_SIGNATURE = 9,      /* since 1.1, optional: HMAC-SHA-256 with somebody's key, or zeros: tn__sign() */
  TN__SECTION_LINK = 10,          /* since 1.1, instead of CONSTANTS: tn__link_record, then the other file's name */
  TN__SECTION_STRING_DATA =
      11, /* since 1.3, optional: what constants of strings refer to (runtime/values/strings.h): records
                                   of a u64 length and as many bytes, padded with zeros to a multiple of 8 */
  TN__SECTION_SOURCES = 12, /* since 1.7, optional: source units (source_unit.h) of devices that compile source, each at
                               a multiple of TN__FILE_ALIGN */
  TN__SECTION_LAST = TN__SECTION_SOURCES,
  TN__SECTION_TEXT = 64 /* optional named texts: schedules, graph, sources; any number of them */
} tn__section_kind;

typedef struct tn__file_section {
  uint32_t kind;
  uint32_t name; /* offset in STRINGS; for TEXT */
  uint64_t offset, size;
  uint8_t hash[32]; /* SHA-256 of the section */
} tn__file_section;

#define TN__SIGNATURE_SIZE 32
#define TN__STRING_CONST ((uint64_t)1 << 63) /* in an element of TN_STRING: the rest is an offset in STRING_DATA */

/* Constants in a file of their own, which several executables may share. */
typedef struct tn__link_record {
  uint64_t size;    /* of the constants */
  uint8_t hash[32]; /* SHA-256 of them */
  uint32_t name;    /* bytes of the file's name, which follows: relative to the executable's folder */
  uint32_t reserved;
} tn__link_record;

#define TN__CONSTANTS_MAGIC "\x7fTNC\r\n\x1a\n"
typedef struct tn__constants_header { /* the start of such a file; the constants follow at TN__FILE_PAGE */
  char magic[8];
  uint64_t size;
  uint8_t hash[32];
  uint8_t reserved[16];
} tn__constants_header;

typedef struct tn__table_header {
  uint32_t count;
  uint32_t record_size;
} tn__table_header;

typedef struct tn__device_record {
  int32_t device_type, device_id; /* DLPack's; 1, 0: the CPU */
  uint32_t arch;                  /* tn__arch */
  uint32_t target;                /* string: the target's canonical name */
  uint32_t memory_scope;          /* string */
  uint32_t reserved;
  uint64_t features; /* tn__features that the kernels use */
  /* since 1.7 */
  uint64_t source, source_size; /* in SOURCES; of no bytes: the device's kernels are in the image */
} tn__device_record;
#define TN__DEVICE_RECORD_1_0 offsetof(tn__device_record, source)

typedef struct tn__kernel_record {
  uint32_t name; /* string */
  uint32_t buffer_count, scalar_count;
  uint32_t device;
  uint64_t offset, size; /* in the image; of source: the kernel's record in the unit, and 0 */
  double flops, bytes;   /* of one call; negative: it depends on symbolic dimensions */
} tn__kernel_record;

typedef struct tn__constant_record {
  uint32_t name; /* string */
  uint32_t dtype, rank;
  uint32_t device;
  uint64_t dims;         /* offset in this section of `rank` int64_t */
  uint64_t offset, size; /* in CONSTANTS */
} tn__constant_record;

/* ---- functions -------------------------------------------------------------------------------------------------- */

typedef enum tn__storage {
  TN__STORAGE_INPUT,    /* the caller's input number `index`, since 1.8 on any device: CALL passes memory of that, and a
                           session brings there what is bound on the host */
  TN__STORAGE_OUTPUT,   /* the caller's output number `index`, or the session's own buffer when not bound; the same */
  TN__STORAGE_CONSTANT, /* constant number `index` */
  TN__STORAGE_ARENA,    /* `offset` bytes into the function's arena: a constant, or the value of a scalar register */
  TN__STORAGE_DYNAMIC,  /* allocated by the ALLOC instruction when its shape is known; kept and reused by later invokes
                         */
  TN__STORAGE_VIEW /* the memory of register `index` (a lower number) with another shape or dtype of the same size in
                      bytes */
} tn__storage;

/* What is not one tensor lives in INPUT, OUTPUT and DYNAMIC registers, and is touched by CALL, COPY, MOVE and builtins
 * alone. To the machine all of them are lists of tensors; the difference is for people. */
typedef enum tn__container {
  TN__CONTAINER_TENSOR,
  TN__CONTAINER_SEQUENCE,
  TN__CONTAINER_OPTIONAL,         /* a tensor or nothing */
  TN__CONTAINER_OPTIONAL_SEQUENCE /* a sequence or nothing */
} tn__container;

/* A number that is a constant (symbolic = 0) or in a scalar register. */
typedef struct tn__operand {
  uint32_t symbolic; /* 1: `value` is a scalar register */
  uint32_t reserved;
  int64_t value;
} tn__operand;
static inline int64_t tn__operand_value(const tn__operand *operand, const int64_t *scalars) {
  return operand->symbolic ? scalars[operand->value] : operand->value;
}

typedef struct tn__functions_header {
  uint32_t count, record_size;   /* of tn__function_record, which follow */
  uint32_t value_record_size;    /* of tn__value_record */
  uint32_t register_record_size; /* of tn__register_record */
  uint32_t symbol_record_size;   /* of tn__symbol_record */
  uint32_t reserved;
} tn__functions_header;

typedef struct tn__function_record {
  uint32_t name; /* string */
  uint32_t scalar_count;
  uint32_t input_count, output_count, register_count, operand_count, symbol_count, code_words;
  /* offsets in this section, multiples of 8 */
  uint64_t inputs, outputs; /* tn__value_record */
  uint64_t registers;       /* tn__register_record */
  uint64_t operands;        /* tn__operand: the dimensions of all registers */
  uint64_t symbols;         /* tn__symbol_record */
  uint64_t code;            /* uint32_t */
  tn__operand arena;        /* bytes */
  /* since 1.1 */
  uint64_t origins; /* tn__origin_record, by rising word */
  uint32_t origin_count;
  /* since 1.5 (was reserved) */
  /* 1 + the index of the function for inputs of any strides; 0: none. Its inputs are these, followed by two per
   * `strided` input, in order: the memory from the first to the last element, of one dimension that is bound, and
   * i64[rank + 1], the strides in elements and the position of the tensor's first element in that memory. Only the
   * dimensions of the original inputs are used. */
  uint32_t strided;
  /* since 1.6 */
  uint64_t arenas; /* tn__operand: the bytes of the arenas on all devices behind the first; 0: there are none */
  /* since 1.7 */
  uint32_t events; /* 1 + the number of events that the code records and awaits; 0: it has none, and several devices
                      work one after the other */
  /* since 1.10 (was reserved) */
  /* 1: only other functions call it, or sessions for inputs of any strides; callers of the executable cannot. Before
   * 1.10 the loader derives this from the calls (TN__FILE_MINOR_INNER). */
  uint32_t inner;
} tn__function_record;
#define TN__FUNCTION_RECORD_1_0 offsetof(tn__function_record, origins) /* the size of this record in 1.0 */
#define TN__FUNCTION_RECORD_1_1 offsetof(tn__function_record, arenas)
#define TN__FUNCTION_RECORD_1_6 offsetof(tn__function_record, events)

/* What in the model the code from `word` to the next record's was made of, for messages: a string such as
 * `node "conv1" (Conv, opset 22)`. */
typedef struct tn__origin_record {
  uint32_t word;   /* the first of an instruction */
  uint32_t origin; /* string; TN__NO_STRING: of none */
} tn__origin_record;

typedef struct tn__value_record { /* an input or output; its type is its register's */
  uint32_t name;                  /* string */
  uint32_t reg;                   /* the register of storage INPUT / OUTPUT with this index */
  /* since 1.1 */
  uint32_t alias; /* outputs: 1 + the input whose buffer the caller may give for this output, too; 0: none */
  /* since 1.3 (`grows` was reserved) */
  uint32_t grows;    /* 1 + the axis along which only the first `valid` elements count, the register's dimension there,
                        a constant, being the capacity; 0: none */
  tn__operand valid; /* inputs: binds the symbol like a dimension; outputs: known when the prologue is done */
  /* since 1.5 */
  uint32_t alignment; /* bytes that its memory must be aligned to, a power of two; before 1.5: TN_KERNEL_ALIGNMENT */
  uint32_t strided;   /* inputs: 1 when its memory may have any strides; see tn__function_record.strided */
  /* since 1.11 */
  uint32_t fallback; /* inputs of functions that are not inner: 1 + the constant, on the first device, that an unbound
                        input has; 0: it must be bound */
  uint32_t reserved;
} tn__value_record;
#define TN__VALUE_RECORD_1_0 offsetof(tn__value_record, alias)
#define TN__VALUE_RECORD_1_1 offsetof(tn__value_record, valid)
#define TN__VALUE_RECORD_1_3 offsetof(tn__value_record, alignment)
#define TN__VALUE_RECORD_1_5 offsetof(tn__value_record, fallback)

typedef struct tn__register_record {
  uint32_t dtype;
  uint32_t rank;      /* TN__LIST_OF_ANY_RANK, since 1.4: of lists whose tensors differ in rank; without dimensions */
  uint32_t first_dim; /* in operands */
  uint32_t storage;   /* tn__storage */
  uint32_t index;
  uint32_t device;
  tn__operand offset; /* ARENA only */
  uint32_t container; /* tn__container, since 1.2; of the others `dtype` and `rank` are the tensors', and the dimensions
                         are zeros */
  uint32_t reserved;
} tn__register_record;

#define TN__LIST_OF_ANY_RANK UINT32_MAX

typedef struct tn__symbol_record { /* a scalar register's name for people */
  uint32_t name;
  uint32_t scalar;
} tn__symbol_record;

#endif
