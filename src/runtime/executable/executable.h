/* A loaded executable: tables checked and decoded, code mapped. Immutable once loaded, so threads share it freely;
 * devices that are open (opened.h) have a lock. */
#ifndef TENON_RUNTIME_EXECUTABLE_EXECUTABLE_H
#define TENON_RUNTIME_EXECUTABLE_EXECUTABLE_H

#include "base/file.h"
#include "base/linked.h"
#include "runtime/device.h"
#include "runtime/format/format.h"
#include "runtime/region.h"
#include "runtime/tensor.h"
#include "target/target.h"
#include "tenon/kernel_abi.h"
#include "tenon/runtime.h"

/* ---- decoded tables --------------------------------------------------------------------------------------------- */

typedef struct tn__kernel_entry {
  tn_kernel_summary about;
  tn_kernel call;
  uint64_t offset; /* in the code */
  uint32_t buffer_count, scalar_count;
  uint32_t device; /* number in the executable's devices */
} tn__kernel_entry;

typedef struct tn__constant_entry {
  const char *name;
  tn_dtype dtype;
  int rank;
  const int64_t *dims;
  const void *data; /* in the host's memory */
  uint64_t size;
  uint32_t device; /* whose kernels read it: it is copied there, once, unless that is the host itself */
} tn__constant_entry;

typedef struct tn__register {
  tn_dtype dtype;
  int rank;
  tn__container container;
  bool any_rank; /* a list whose tensors differ in rank; `rank` is 0 */
  uint32_t list; /* number of a list of the frame's own, for DYNAMIC and OUTPUT registers that hold one */
  tn__storage storage;
  uint32_t index; /* as in the file */
  uint32_t root;  /* the register whose memory this is: itself unless a VIEW */
  const tn__operand *dims;
  uint32_t first_dim;   /* of the frame's dimensions */
  uint32_t device;      /* number in the executable's devices; 0 is the host */
  tn__operand offset;   /* ARENA */
  int64_t static_bytes; /* -1 when a dimension is symbolic */
  bool early;           /* its dimensions are known when the prologue is done */
  bool writable;
} tn__register;

typedef struct tn__instruction {
  uint32_t op;              /* tn__opcode */
  uint32_t callee;          /* k, f, b, m: as it stands. c: index of the instruction to go on at */
  uint32_t a, b, c, d;      /* other operands that are not in groups, in the order of the table */
  int64_t immediate;        /* l, h */
  tn_kernel kernel;         /* NULL: of a device that is not the host */
  const uint32_t *operands; /* KERNEL: roots of reads and writes, then scalars. CALL, BUILTIN: registers */
  uint32_t read_count, write_count, scalar_count;
  bool has_late_views;   /* KERNEL: an operand is a view whose size the layout does not check */
  bool may_make_nothing; /* KERNEL: all results may be empty */
  uint32_t word;         /* offset in the code, for messages and the disassembler */
} tn__instruction;

typedef struct tn__function_value {
  tn_value_info info;
  uint32_t reg;
  int alias; /* outputs: the input whose buffer may be given, or -1 */
  int grows; /* the axis of which the first `valid` elements count, the register's dimension being a constant; or -1 */
  tn__operand valid;
  int constant;      /* inputs: the default's constant, or -1 */
  DLTensor fallback; /* the same, for `info` */
  bool away;         /* its memory is not the host's: a caller's tensor is there, or is copied there and from there */
  uint8_t *binds;    /* inputs: per dimension 1 where a symbol is named first, which gives it its value */
} tn__function_value;

typedef struct tn__function {
  const char *name;
  int index;
  uint32_t scalar_count, input_count, output_count, register_count, dim_count, list_count;
  uint32_t growing_inputs;
  bool inner;                                 /* callers of the executable cannot name it (inner.c) */
  bool by_strides;                            /* it is the `strided` function of another */
  int outer;                                  /* for an inner function, the first function that uses it; -1: none */
  uint32_t strided_inputs;                    /* those that `strided` reads with any strides */
  int strided;                                /* the function for inputs of any strides, or -1 */
  uint32_t instruction_count, prologue_count; /* the first instruction after the prologue */
  uint32_t widest_call;                       /* buffers of the widest KERNEL */
  uint32_t most_scalars;                      /* scalars of the KERNEL with the most */
  tn__function_value *inputs, *outputs;
  tn__register *registers;
  tn__instruction *instructions;
  const char **scalar_names; /* NULL for those without */
  uint8_t *signature_scalar; /* 1 for scalars that input dimensions bind */
  tn__operand arena;         /* on the host */
  const tn__operand *arenas; /* on device i > 0: arenas[i - 1]; NULL: there are none */
  bool symbolic_layout;      /* a dimension, an offset or the arena is symbolic */
  bool has_away;             /* an input or output is `away` */
  bool prologue_loads;       /* the prologue reads elements of inputs, so equal shapes do not make equal scalars */
  const uint32_t *code;      /* in the file */
  uint32_t first_event;      /* its events are these and those behind, of the executable's */
  uint32_t event_count;
  uint32_t code_words, origin_count;
  const tn__origin_record *origins; /* in the file */
} tn__function;

/* The input or output that the register is or shares memory with; NULL: none. */
static inline const tn__function_value *tn__function_value_in(const tn__function *f, uint32_t number) {
  const tn__register *root = &f->registers[f->registers[number].root];
  if (root->storage == TN__STORAGE_INPUT) return &f->inputs[root->index];
  return root->storage == TN__STORAGE_OUTPUT ? &f->outputs[root->index] : NULL;
}

/* A dimension of an input or output as the caller sees it. */
static inline const tn__operand *tn__function_value_dim(const tn__function *f, const tn__function_value *value,
                                                        int dim) {
  return dim == value->grows ? &value->valid : &f->registers[value->reg].dims[dim];
}

/* Bytes of the arena on a device. */
static inline tn__operand tn__function_arena(const tn__function *f, uint32_t device) {
  const tn__operand none = {0};
  return device == 0 ? f->arena : f->arenas != NULL ? f->arenas[device - 1] : none;
}

typedef struct tn__text_entry {
  const char *name;
  const char *data;
  size_t size;
} tn__text_entry;

typedef struct tn__jit_entry tn__jit_entry;
typedef struct tn__values tn__values;               /* values.h */
typedef struct tn__opened_shared tn__opened_shared; /* opened.h */
typedef struct tn__opened_limit tn__opened_limit;   /* opened.h */

struct tn_executable {
  tn__region region;
  tn_log_sink log;
  /* the file, and how it is held */
  const uint8_t *file;
  size_t file_size;
  tn__file_map map;  /* from a path */
  void *copy;        /* from memory: an anonymous mapping of file_size bytes */
  tn__device device; /* that the code is loaded on; without a driver when it is not */
  tn__device_code code;
  /* sections, by tn__section_kind up to LAST; NULL for those that are not there */
  const tn__file_section *sections[TN__SECTION_LAST + 1];
  const uint8_t *constant_data; /* of the section, or of a file of their own */
  uint64_t constant_bytes;
  tn__file_map constants_map;
  const char *constants_file;    /* where that is; NULL: the constants are in the executable */
  const struct tn__apart *apart; /* constants and kernels that are in no file; NULL: all are in one */
  bool verify_only;              /* nothing is made executable, and any machine will do */
  const char *strings;
  size_t strings_size;
  const uint8_t *string_data; /* of constants that are strings; NULL: there are none */
  uint64_t string_bytes;
  const tn__values *values; /* NULL: there are tensors of numbers alone */
  const uint8_t *image;     /* executable */
  size_t image_size;
  const char *producer;
  const char **targets;              /* of the devices */
  DLDevice *devices;                 /* the first is the host, cpu:0 to callers */
  int32_t host_id;                   /* its number among the program's devices */
  tn__opened_limit *limits;          /* of memory, by device, those that are one having the first's; NULL: none */
  const tn__device_driver **drivers; /* NULL: of source, in a file that is only looked into */
  /* A device that has other memories than global is there once more for each, behind its own: `homes` says which one
   * that is, of its own itself, and has the device's code, kernels and queue. */
  uint32_t *homes;
  tn__memory_scope *scopes; /* that the device has; global where another took its place that lacks it */
  tn__bytes *sources;       /* of devices that compile source; of no bytes: native code */
  tn__kernel_entry *kernels;
  tn__constant_entry *constants;
  tn__function *functions;
  uint32_t *entries; /* indices of the functions that callers can name; the first is 0 */
  tn__text_entry *texts;
  uint32_t kernel_count, constant_count, function_count, entry_count, text_count, device_count;
  bool is_divided;      /* there are devices that are not the host itself */
  bool has_events;      /* and their work is ordered by events: they have queues; else the host waits for each step */
  uint32_t event_count; /* of all functions */
  tn__opened_shared *shared; /* what its sessions share of devices that are not the host; NULL: there are none */
  tn__jit_entry *jit;        /* registration with GDB */
  tn_executable_summary summary;
};

/* What is on a device: the arenas of all functions, symbolic ones not counted, and constants that are read there. */
typedef struct tn__device_bytes {
  int64_t workspace;
  uint64_t constants;
} tn__device_bytes;
TN__LINKED tn__device_bytes tn__executable_device_bytes(const tn_executable *executable, uint32_t device);

/* NULL and a status when there is no such function; a NULL name is the first. */
TN_MUST_USE tn_status *tn__executable_function(const tn_executable *executable, const char *name,
                                               const tn__function **out);
/* What the instruction at this word was made of; NULL when the file does not say. */
TN__LINKED const char *tn__function_origin(const tn_executable *executable, const tn__function *function,
                                           uint32_t word);
/* The status of an instruction that failed, with what it was made of before it. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__exe_at_origin(const tn_executable *executable, const tn__function *function,
                                                       const tn__instruction *in, tn_status *status);
/* The status of an ASSERT that failed. `known`: per scalar, whether it has its value; NULL: all have. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__exe_assert_failed(const tn_executable *executable,
                                                           const tn__function *function, const tn__instruction *in,
                                                           const int64_t *scalars, const uint8_t *known);
/* The tables of an executable for any machine; nothing in it can be run. `data` is aligned to 64 and stays. */
TN__LINKED TN_MUST_USE tn_status *tn__executable_look_into(const void *data, size_t size, tn_executable **out);
/* ---- steps of loading ------------------------------------------------------------------------------------------- */

TN_MUST_USE TN_NEVER_NULL tn_status *tn__load_corrupt(const char *format, ...) TN_PRINTF(1, 2);
/* A table of `count` records of `size` bytes at `offset` of a section of `section_size` bytes, with `known` bytes per
 * record understood here. */
TN_MUST_USE tn_status *tn__load_check_table(const char *what, uint64_t section_size, uint64_t offset, uint64_t count,
                                            uint64_t size, uint64_t known);
TN_MUST_USE tn_status *tn__load_check_string(const tn_executable *executable, uint32_t offset, const char *what,
                                             const char **out);

/* Header, hashes, signature, strings, texts; refuses a CPU that lacks features. Then the constants are found
 * (`path`: the executable's, or NULL), */
TN_MUST_USE tn_status *tn__load_sections(tn_executable *executable, const tn_load_options *options);
TN_MUST_USE tn_status *tn__load_constants(tn_executable *executable, const char *path, const tn_load_options *options);
/* the image is mapped, */
/* then the kernels and constants. */
TN_MUST_USE tn_status *tn__load_tables(tn_executable *executable);
/* Decodes and verifies all functions. */
TN_MUST_USE tn_status *tn__load_functions(tn_executable *executable);
/* Decodes and checks the code of one function whose registers are ready. */
TN_MUST_USE tn_status *tn__load_decode(tn_executable *executable, tn__function *function);
/* Every read follows an assignment on every path; outputs are written by every RETURN. */
TN_MUST_USE tn_status *tn__verify_flow(tn_executable *executable, const tn__function *function);

/* Of one element type, rank and dimensions, symbolic ones by name? */
bool tn__exe_same_registers(const tn__register *a, const tn__register *b);
static inline bool tn__load_same_device(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}
/* The first of the executable's devices that are this one, by the program's numbers; where none is cpu:0, the host is.
 * device_count: it has none. */
uint32_t tn__load_find_device(const tn_executable *executable, DLDevice device, tn__memory_scope scope);
/* Where it has none: NOT_FOUND, which lists those that it has. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__load_no_device(const tn_executable *executable);
/* "island:1", up to `end`: false when it is none. */
TN_MUST_USE bool tn__load_read_device(const char *text, const char *end, DLDevice *out);
/* The same with a scope of memory behind it or none: "island:0/texture". */
TN_MUST_USE bool tn__load_read_memory(const char *text, const char *end, DLDevice *out, tn__memory_scope *scope);
/* The options' devices in the place of the file's. */
TN_MUST_USE tn_status *tn__load_map_devices(tn_executable *executable, const tn_load_options *options);
/* The options' limits of memory, when the devices are mapped. */
TN_MUST_USE tn_status *tn__load_limits(tn_executable *executable, const tn_load_options *options);

/* The function for inputs of any strides takes and gives what this one does. */
TN_MUST_USE tn_status *tn__verify_strided(const tn_executable *executable, const tn__function *function);
/* Finds the inner functions; `marked`: the file marks them. Rejects calls of functions for strided inputs, because
 * only a session passes them valid strides. */
TN_MUST_USE tn_status *tn__load_find_inner(tn_executable *executable, bool marked);
/* Inputs whose memory an output may take are not read when that has been written. */
TN_MUST_USE tn_status *tn__verify_aliases(const tn_executable *executable, const tn__function *function);

/* ---- names for perf and GDB ------------------------------------------------------------------------------------- */

void tn__debug_write_perf_map(const tn_executable *executable);
/* Tells GDB the kernels' names and places; NULL when there is no memory for it, which is not an error. */
tn__jit_entry *tn__debug_register(const tn_executable *executable);
void tn__debug_unregister(const tn_executable *executable, tn__jit_entry *entry);

#endif
