#include "program/exe_writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/map.h"
#include "program/events.h"
#include "tenon/dlpack.h"

typedef struct constant {
  tn__constant_record record;
  const char *name;
  const int64_t *shape;
  const void *data;
  uint64_t hash;
} constant;

typedef struct value {
  const char *name;
  tn_dtype dtype;
  int rank;
  const tn__operand *dims;
  int alias; /* outputs: 1 + input, or 0 */
  tn__container container;
  int grows; /* 1 + the axis, or 0 */
  tn__operand valid;
  uint32_t reg, alignment; /* set when the functions are written */
  bool strided;
  int fallback; /* inputs: 1 + the constant, or 0 */
} value;

typedef struct symbol {
  const char *name;
  int scalar;
} symbol;

typedef struct text {
  const char *name;
  const char *text;
  size_t size;
} text;

typedef struct kernel {
  const char *name;
  tn__kernel_record record;
} kernel;

typedef struct exe_device {
  int type, id;
  const tn__target *target;
  tn__memory_scope scope;
  int home; /* the device in global memory */
  uint64_t source, source_size;
} exe_device;

struct tn__exe_func {
  tn__exe *exe;
  const char *name;
  int index, scalar_count;
  int strided; /* 1 + the function for inputs of any strides, or 0 */
  bool is_inner;
  tn__operand arena;
  TN__VEC(value) inputs;
  TN__VEC(value) outputs;
  TN__VEC(tn__register_record) registers;
  TN__VEC(tn__operand) operands;
  TN__VEC(symbol) symbols;
  TN__VEC(uint32_t) code;
  TN__VEC(tn__origin_record) origins;
  TN__VEC(tn__operand) arenas; /* of device i > 0: i - 1; shorter: zeros */
  int events;                  /* 1 + how many there are; 0: they were not planned */
};

struct tn__exe {
  tn__arena *arena;
  const tn__target *target;
  const char *producer;
  TN__VEC(exe_device) devices; /* the first is the host */
  int host_id;
  TN__VEC(constant) constants;
  TN__VEC(kernel) kernels;
  TN__VEC(text) texts;
  TN__VEC(tn__exe_func *) functions;
  TN__VEC(tn__bytes) images; /* each begins on a page */
  uint64_t image_size;
  TN__VEC(tn__bytes) sources; /* each at a multiple of TN__FILE_ALIGN */
  uint64_t source_size;
  uint64_t constant_bytes;
  bool constants_apart;
  const tn__slab *slab;     /* of constants that stay where they are; NULL: none */
  bool keeps_all;           /* of the slab, byte for byte */
  uint32_t *constant_slots; /* index + 1; open addressing by content */
  uint32_t constant_slot_count;
  tn__map strings; /* text -> offset + 1 as a pointer */
  TN__VEC(char) string_bytes;
  TN__VEC(uint64_t) text_data; /* the section of string data */
  uint32_t *text_slots;        /* place in it + 1; open addressing by content */
  uint32_t text_slot_count, text_count;
};

tn__exe *tn__exe_create(tn__arena *arena, const tn__target *target, const char *producer) {
  tn__exe *exe = TN__NEW(arena, tn__exe);
  exe->arena = arena;
  exe->target = tn__arena_copy(arena, target, sizeof(*target));
  exe->producer = tn__arena_strdup(arena, producer);
  tn__map_init(&exe->strings, arena);
  tn__exe_device(exe, kDLCPU, 0, target);
  return exe;
}

void tn__exe_host(tn__exe *exe, int id) { exe->host_id = id; }

static int find_device(const tn__exe *exe, int type, int id, tn__memory_scope scope) {
  int i = exe->devices.count;
  while (i-- > 0) {
    const exe_device *d = &exe->devices.data[i];
    if (d->type == type && d->id == id && d->scope == scope) break;
  }
  return i;
}

static int add_device(tn__exe *exe, exe_device d, const tn__target *target) {
  d.target = tn__arena_copy(exe->arena, target, sizeof(*target));
  tn__vec_push(exe->arena, &exe->devices, d);
  return exe->devices.count - 1;
}

int tn__exe_device(tn__exe *exe, int type, int id, const tn__target *target) {
  /* The host has its own number where another CPU has 0, and is 0 otherwise: no byte depends on it. */
  if (exe->devices.count > 0 && type == kDLCPU && id != exe->host_id) exe->devices.data[0].id = exe->host_id;
  int found = find_device(exe, type, id, TN__MEMORY_GLOBAL);
  if (found >= 0) return found;
  exe_device d = {.type = type, .id = id, .home = exe->devices.count};
  return add_device(exe, d, target);
}

int tn__exe_device_memory(tn__exe *exe, int type, int id, const tn__target *target, tn__memory_scope scope) {
  int home = tn__exe_device(exe, type, id, target), found = find_device(exe, type, exe->devices.data[home].id, scope);
  if (found >= 0) return found;
  exe_device d = {.type = type, .id = id, .scope = scope, .home = home};
  return add_device(exe, d, target);
}

int tn__exe_device_home(const tn__exe *exe, int device) { return exe->devices.data[device].home; }

static _Noreturn void fail(const tn__exe *exe, const char *what) {
  tn__throwf(exe->arena->escape, TN_INTERNAL, "executable writer: %s", what);
}

/* ---- constants, kernels, texts ---------------------------------------------------------------------------------- */

static uint64_t align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

static bool constants_equal(const constant *a, const constant *b) {
  return a->hash == b->hash && a->record.dtype == b->record.dtype && a->record.rank == b->record.rank &&
         a->record.size == b->record.size && a->record.device == b->record.device &&
         (a->record.rank == 0 || memcmp(a->shape, b->shape, a->record.rank * sizeof(int64_t)) == 0) &&
         (a->record.size == 0 || a->data == b->data || memcmp(a->data, b->data, a->record.size) == 0);
}

/* The slot of an equal constant, or the free one where `wanted` belongs. */
static uint32_t *constant_slot(const tn__exe *exe, const constant *wanted) {
  uint32_t mask = exe->constant_slot_count - 1;
  uint32_t i = (uint32_t)wanted->hash & mask;
  while (exe->constant_slots[i] != 0 && !constants_equal(&exe->constants.data[exe->constant_slots[i] - 1], wanted))
    i = (i + 1) & mask;
  return &exe->constant_slots[i];
}

static void grow_constant_slots(tn__exe *exe) {
  if ((uint64_t)exe->constants.count * 2 < exe->constant_slot_count) return;
  exe->constant_slot_count = exe->constant_slot_count == 0 ? 64 : exe->constant_slot_count * 2;
  exe->constant_slots = TN__NEW_ARRAY(exe->arena, exe->constant_slot_count, uint32_t);
  for (int i = 0; i < exe->constants.count; i++) *constant_slot(exe, &exe->constants.data[i]) = (uint32_t)i + 1;
}

/* ---- strings of constants ---------------------------------------------------------------------------------------- */

static uint64_t text_hash(const char *bytes, size_t length) { return tn__hash_bytes((uint64_t)length, bytes, length); }

/* The slot of an equal string, or the free one where it belongs. */
static uint32_t *text_slot(const tn__exe *exe, const char *bytes, size_t length) {
  uint32_t mask = exe->text_slot_count - 1, i = (uint32_t)text_hash(bytes, length) & mask;
  for (; exe->text_slots[i] != 0; i = (i + 1) & mask) {
    const uint64_t *record = exe->text_data.data + exe->text_slots[i] - 1;
    if (record[0] == length && memcmp(record + 1, bytes, length) == 0) break;
  }
  return &exe->text_slots[i];
}

static void grow_text_slots(tn__exe *exe) {
  if ((uint64_t)exe->text_count * 2 < exe->text_slot_count) return;
  exe->text_slot_count = exe->text_slot_count == 0 ? 64 : exe->text_slot_count * 2;
  exe->text_slots = TN__NEW_ARRAY(exe->arena, exe->text_slot_count, uint32_t);
  for (int at = 0; at < exe->text_data.count;) {
    uint64_t length = exe->text_data.data[at];
    *text_slot(exe, (const char *)(exe->text_data.data + at + 1), length) = (uint32_t)at + 1;
    at += 1 + (int)((length + 7) / 8);
  }
}

uint64_t tn__exe_string(tn__exe *exe, const char *bytes, size_t length) {
  if (length == 0) return 0;
  grow_text_slots(exe);
  uint32_t *slot = text_slot(exe, bytes, length);
  if (*slot == 0) {
    *slot = (uint32_t)exe->text_data.count + 1;
    tn__vec_push(exe->arena, &exe->text_data, length);
    for (size_t i = 0; i < length; i += 8) {
      uint64_t word = 0;
      memcpy(&word, bytes + i, length - i < 8 ? length - i : 8);
      tn__vec_push(exe->arena, &exe->text_data, word);
    }
    exe->text_count++;
  }
  return TN__STRING_CONST | (uint64_t)(*slot - 1) * 8;
}

/* Of large constants some pieces all over: reading megabytes twice takes longer than comparing the few that agree
 * there. */
static uint64_t hash_of(tn_dtype dtype, const void *data, size_t size) {
  enum { WHOLE = 16 << 10, PIECES = 64, PIECE_BYTES = 64 };
  if (size <= WHOLE) return tn__hash_bytes((uint64_t)dtype, data, size);
  uint64_t hash = tn__hash_mix((uint64_t)dtype, size);
  for (size_t i = 0; i < PIECES; i++)
    hash = tn__hash_bytes(hash, (const char *)data + (size - PIECE_BYTES) / (PIECES - 1) * i, PIECE_BYTES);
  return hash;
}

int tn__exe_constant(tn__exe *exe, const char *name, tn_dtype dtype, int rank, const int64_t *shape, const void *data,
                     size_t size) {
  return tn__exe_constant_on(exe, 0, name, dtype, rank, shape, data, size);
}

int tn__exe_constant_on(tn__exe *exe, int device, const char *name, tn_dtype dtype, int rank, const int64_t *shape,
                        const void *data, size_t size) {
  constant c = {.name = tn__arena_strdup(exe->arena, name), .data = data};
  c.shape = tn__arena_copy(exe->arena, shape, (size_t)rank * sizeof(int64_t));
  c.record.dtype = (uint32_t)dtype, c.record.rank = (uint32_t)rank, c.record.size = size;
  c.record.device = (uint32_t)device;
  c.hash = hash_of(dtype, data, size);
  grow_constant_slots(exe);
  uint32_t *slot = constant_slot(exe, &c);
  if (*slot != 0) return (int)*slot - 1;
  tn__vec_push(exe->arena, &exe->constants, c);
  *slot = (uint32_t)exe->constants.count;
  return exe->constants.count - 1;
}

int tn__exe_kernel(tn__exe *exe, const char *name, uint64_t image_offset, uint64_t code_size, int buffer_count,
                   int scalar_count, double flops, double bytes) {
  kernel k = {.name = tn__arena_strdup(exe->arena, name)};
  k.record.buffer_count = (uint32_t)buffer_count, k.record.scalar_count = (uint32_t)scalar_count;
  k.record.offset = image_offset, k.record.size = code_size;
  k.record.flops = flops, k.record.bytes = bytes;
  tn__vec_push(exe->arena, &exe->kernels, k);
  return exe->kernels.count - 1;
}

void tn__exe_kernel_on(tn__exe *exe, int device, int index) {
  exe->kernels.data[index].record.device = (uint32_t)device;
}

uint64_t tn__exe_image(tn__exe *exe, const void *image, size_t size) {
  uint64_t at = align_up(exe->image_size, TN__FILE_PAGE);
  tn__bytes piece = {image, size};
  tn__vec_push(exe->arena, &exe->images, piece);
  exe->image_size = at + size;
  return at;
}

void tn__exe_source(tn__exe *exe, int device, const void *source, size_t size) {
  exe_device *d = &exe->devices.data[device];
  uint64_t at = 0;
  for (int i = 0; i < exe->sources.count; i++) {
    if (exe->sources.data[i].data == source) {
      d->source = at, d->source_size = size;
      return;
    }
    at = align_up(at + exe->sources.data[i].size, TN__FILE_ALIGN);
  }
  tn__bytes piece = {source, size};
  tn__vec_push(exe->arena, &exe->sources, piece);
  d->source = at, d->source_size = size;
  exe->source_size = at + size;
}

void tn__exe_text(tn__exe *exe, const char *name, const char *content, size_t size) {
  text t = {tn__arena_strdup(exe->arena, name), tn__arena_copy(exe->arena, content, size), size};
  tn__vec_push(exe->arena, &exe->texts, t);
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

tn__exe_func *tn__exe_function(tn__exe *exe, const char *name) {
  tn__exe_func *f = TN__NEW(exe->arena, tn__exe_func);
  f->exe = exe, f->name = tn__arena_strdup(exe->arena, name), f->index = exe->functions.count;
  tn__vec_push(exe->arena, &exe->functions, f);
  return f;
}

int tn__exe_function_index(const tn__exe_func *f) { return f->index; }

int tn__exe_scalar(tn__exe_func *f) { return f->scalar_count++; }

int tn__exe_symbol(tn__exe_func *f, const char *name) {
  for (int i = 0; i < f->symbols.count; i++)
    if (strcmp(f->symbols.data[i].name, name) == 0) return f->symbols.data[i].scalar;
  symbol s = {tn__arena_strdup(f->exe->arena, name), tn__exe_scalar(f)};
  tn__vec_push(f->exe->arena, &f->symbols, s);
  return s.scalar;
}

static value make_value(tn__exe_func *f, const char *name, tn_dtype dtype, int rank, const tn__operand *dims) {
  tn__arena *arena = f->exe->arena;
  return (value){.name = tn__arena_strdup(arena, name),
                 .dtype = dtype,
                 .rank = rank,
                 .dims = rank < 0 ? NULL : tn__arena_copy(arena, dims, (size_t)rank * sizeof(tn__operand))};
}

int tn__exe_input(tn__exe_func *f, const char *name, tn_dtype dtype, int rank, const tn__operand *dims) {
  value v = make_value(f, name, dtype, rank, dims);
  tn__vec_push(f->exe->arena, &f->inputs, v);
  return f->inputs.count - 1;
}

int tn__exe_output(tn__exe_func *f, const char *name, tn_dtype dtype, int rank, const tn__operand *dims) {
  value v = make_value(f, name, dtype, rank, dims);
  tn__vec_push(f->exe->arena, &f->outputs, v);
  return f->outputs.count - 1;
}

void tn__exe_alias(tn__exe_func *f, int output, int input) { f->outputs.data[output].alias = input + 1; }

void tn__exe_inner(tn__exe_func *f) { f->is_inner = true; }

void tn__exe_strided(tn__exe_func *f, tn__exe_func *other, int input) {
  f->strided = other->index + 1;
  tn__exe_inner(other);
  f->inputs.data[input].strided = true;
}

void tn__exe_default(tn__exe_func *f, int input, int index) { f->inputs.data[input].fallback = index + 1; }

void tn__exe_extent(tn__exe_func *f, bool output, int index, int axis, tn__operand valid) {
  value *v = output ? &f->outputs.data[index] : &f->inputs.data[index];
  v->grows = axis + 1, v->valid = valid;
}

/* Dimensions NULL: zeros. */
static int add_register(tn__exe_func *f, tn__register_record *r, const tn__operand *dims) {
  r->first_dim = (uint32_t)f->operands.count;
  for (uint32_t i = 0; i < r->rank && r->rank != TN__LIST_OF_ANY_RANK; i++)
    tn__vec_push(f->exe->arena, &f->operands, dims == NULL ? tn__prog_operand_const(0) : dims[i]);
  tn__vec_push(f->exe->arena, &f->registers, *r);
  return f->registers.count - 1;
}

int tn__exe_register(tn__exe_func *f, tn_dtype dtype, int rank, const tn__operand *dims, tn__storage storage, int index,
                     tn__operand offset) {
  tn__register_record r = {.dtype = (uint32_t)dtype,
                           .rank = (uint32_t)rank,
                           .storage = (uint32_t)storage,
                           .index = (uint32_t)index,
                           .offset = offset};
  return add_register(f, &r, dims);
}

int tn__exe_list(tn__exe_func *f, tn_dtype dtype, int rank, tn__container container, tn__storage storage, int index) {
  tn__register_record r = {.dtype = (uint32_t)dtype,
                           .rank = (uint32_t)rank,
                           .storage = (uint32_t)storage,
                           .index = (uint32_t)index,
                           .container = (uint32_t)container};
  return add_register(f, &r, NULL);
}

void tn__exe_holds(tn__exe_func *f, bool output, int index, tn__container container) {
  value *v = output ? &f->outputs.data[index] : &f->inputs.data[index];
  v->container = container;
}

void tn__exe_register_on(tn__exe_func *f, int device, int reg) { f->registers.data[reg].device = (uint32_t)device; }

void tn__exe_arena(tn__exe_func *f, tn__operand bytes) { f->arena = bytes; }

void tn__exe_arena_on(tn__exe_func *f, int device, tn__operand bytes) {
  if (device == 0) f->arena = bytes;
  while (f->arenas.count < device) tn__vec_push(f->exe->arena, &f->arenas, tn__prog_operand_const(0));
  if (device > 0) f->arenas.data[device - 1] = bytes;
}

/* ---- code ------------------------------------------------------------------------------------------------------- */

uint32_t tn__exe_emit(tn__exe_func *f, tn__opcode opcode, const uint32_t *words, int count) {
  uint32_t at = (uint32_t)f->code.count;
  tn__vec_push(f->exe->arena, &f->code, (uint32_t)opcode);
  tn__vec_push(f->exe->arena, &f->code, (uint32_t)count);
  for (int i = 0; i < count; i++) tn__vec_push(f->exe->arena, &f->code, words[i]);
  return at;
}

uint32_t tn__exe_here(const tn__exe_func *f) { return (uint32_t)f->code.count; }

void tn__exe_patch(tn__exe_func *f, uint32_t instruction, int operand, uint32_t word) {
  uint64_t at = (uint64_t)instruction + 2 + (uint64_t)operand;
  if (at >= (uint64_t)f->code.count) fail(f->exe, "a patch is outside of the code");
  f->code.data[at] = word;
}

void tn__exe_set_const(tn__exe_func *f, int scalar, int64_t v) {
  uint32_t words[3] = {(uint32_t)scalar, (uint32_t)((uint64_t)v & 0xffffffffu), (uint32_t)((uint64_t)v >> 32)};
  tn__exe_emit(f, TN__OP_SCALAR_CONST, words, 3);
}

int tn__exe_emit_const(tn__exe_func *f, int64_t v) {
  int d = tn__exe_scalar(f);
  tn__exe_set_const(f, d, v);
  return d;
}

int tn__exe_emit_scalar_op(tn__exe_func *f, tn__scalar_op op, int a, int b) {
  int d = tn__exe_scalar(f);
  uint32_t words[4] = {(uint32_t)d, (uint32_t)a, (uint32_t)b, (uint32_t)op};
  tn__exe_emit(f, TN__OP_SCALAR_OP, words, 4);
  return d;
}

/* The offset of a string in the table, adding it when it is new. */
static uint32_t string_offset(tn__exe *exe, const char *string) {
  if (exe->string_bytes.count == 0) tn__vec_push(exe->arena, &exe->string_bytes, '\0');
  if (string[0] == '\0') return TN__NO_STRING;
  uintptr_t known = (uintptr_t)tn__map_get(&exe->strings, string);
  if (known != 0) return (uint32_t)known - 1;
  uint32_t offset = (uint32_t)exe->string_bytes.count;
  for (const char *p = string;; p++) {
    tn__vec_push(exe->arena, &exe->string_bytes, *p);
    if (*p == '\0') break;
  }
  tn__map_set(&exe->strings, tn__arena_strdup(exe->arena, string), (void *)((uintptr_t)offset + 1));
  return offset;
}

void tn__exe_emit_assert(tn__exe_func *f, int scalar, const char *message) {
  uint32_t words[2] = {(uint32_t)scalar, string_offset(f->exe, message)};
  tn__exe_emit(f, TN__OP_ASSERT, words, 2);
}

void tn__exe_origin(tn__exe_func *f, const char *origin) {
  tn__origin_record record = {(uint32_t)f->code.count, string_offset(f->exe, origin == NULL ? "" : origin)};
  uint32_t before = TN__NO_STRING;
  if (f->origins.count > 0) {
    tn__origin_record *last = &f->origins.data[f->origins.count - 1];
    if (last->word == record.word) {
      *last = record;
      return;
    }
    before = last->origin;
  }
  if (record.origin != before) tn__vec_push(f->exe->arena, &f->origins, record);
}

static void emit_call(tn__exe_func *f, tn__opcode opcode, int callee, const int *const *groups, const int *counts) {
  int total = 4 + counts[0] + counts[1] + counts[2], n = 0;
  uint32_t *words = TN__NEW_ARRAY(f->exe->arena, total, uint32_t);
  words[n++] = (uint32_t)callee;
  for (int g = 0; g < 3; g++) words[n++] = (uint32_t)counts[g];
  for (int g = 0; g < 3; g++)
    for (int i = 0; i < counts[g]; i++) words[n++] = (uint32_t)groups[g][i];
  tn__exe_emit(f, opcode, words, total);
}

void tn__exe_emit_kernel(tn__exe_func *f, int index, const int *reads, int read_count, const int *writes,
                         int write_count, const int *scalars, int scalar_count) {
  emit_call(f, TN__OP_KERNEL, index, (const int *const[3]){reads, writes, scalars},
            (const int[3]){read_count, write_count, scalar_count});
}

void tn__exe_emit_builtin(tn__exe_func *f, int builtin, const int *reads, int read_count, const int *writes,
                          int write_count, const int *scalars, int scalar_count) {
  emit_call(f, TN__OP_BUILTIN, builtin, (const int *const[3]){reads, writes, scalars},
            (const int[3]){read_count, write_count, scalar_count});
}

void tn__exe_emit_call(tn__exe_func *f, int function, const int *reads, int read_count, const int *writes,
                       int write_count) {
  int total = 3 + read_count + write_count, n = 0;
  uint32_t *words = TN__NEW_ARRAY(f->exe->arena, total, uint32_t);
  words[n++] = (uint32_t)function, words[n++] = (uint32_t)read_count, words[n++] = (uint32_t)write_count;
  for (int i = 0; i < read_count; i++) words[n++] = (uint32_t)reads[i];
  for (int i = 0; i < write_count; i++) words[n++] = (uint32_t)writes[i];
  tn__exe_emit(f, TN__OP_CALL, words, total);
}

/* ---- sections --------------------------------------------------------------------------------------------------- */

typedef TN__VEC(char) byte_vec;

static uint64_t put(tn__arena *arena, byte_vec *out, const void *data, size_t size) {
  uint64_t at = (uint64_t)out->count;
  while ((size_t)(out->capacity - out->count) < size)
    out->data = tn__vec_grow(arena, out->data, out->count, &out->capacity, 1);
  if (size > 0) memcpy(out->data + out->count, data, size);
  out->count += (int)size;
  return at;
}

static uint64_t put_aligned(tn__arena *arena, byte_vec *out, const void *data, size_t size) {
  while (out->count % 8 != 0) tn__vec_push(arena, out, '\0');
  return put(arena, out, data, size);
}

static byte_vec devices_section(tn__exe *exe) {
  byte_vec out = {0};
  tn__table_header header = {(uint32_t)exe->devices.count, sizeof(tn__device_record)};
  put(exe->arena, &out, &header, sizeof(header));
  for (int i = 0; i < exe->devices.count; i++) {
    const exe_device *d = &exe->devices.data[i];
    tn__device_record record = {.device_type = d->type,
                                .device_id = d->id,
                                .target = string_offset(exe, d->target->name),
                                .memory_scope = d->scope == TN__MEMORY_GLOBAL
                                                    ? TN__NO_STRING
                                                    : string_offset(exe, tn__memory_scope_name(d->scope)),
                                .source = d->source,
                                .source_size = d->source_size};
    if (tn__target_is_own(d->target)) {
      record.arch = (uint32_t)d->target->cpu.arch;
      record.features = d->target->cpu.features;
    }
    put(exe->arena, &out, &record, sizeof(record));
  }
  return out;
}

static byte_vec kernels_section(tn__exe *exe) {
  byte_vec out = {0};
  tn__table_header header = {(uint32_t)exe->kernels.count, sizeof(tn__kernel_record)};
  put(exe->arena, &out, &header, sizeof(header));
  for (int i = 0; i < exe->kernels.count; i++) {
    tn__kernel_record record = exe->kernels.data[i].record;
    record.name = string_offset(exe, exe->kernels.data[i].name);
    put(exe->arena, &out, &record, sizeof(record));
  }
  return out;
}

static byte_vec constant_table_section(tn__exe *exe) {
  byte_vec out = {0};
  tn__table_header header = {(uint32_t)exe->constants.count, sizeof(tn__constant_record)};
  put(exe->arena, &out, &header, sizeof(header));
  uint64_t dims = sizeof(header) + (uint64_t)exe->constants.count * sizeof(tn__constant_record);
  for (int i = 0; i < exe->constants.count; i++) {
    tn__constant_record record = exe->constants.data[i].record;
    record.name = string_offset(exe, exe->constants.data[i].name);
    record.dims = dims;
    dims += record.rank * sizeof(int64_t);
    put(exe->arena, &out, &record, sizeof(record));
  }
  for (int i = 0; i < exe->constants.count; i++)
    put(exe->arena, &out, exe->constants.data[i].shape, exe->constants.data[i].record.rank * sizeof(int64_t));
  return out;
}

/* The register of an input or output, made when nobody asked for one. */
static uint32_t value_register(tn__exe_func *f, const value *v, tn__storage storage, int index) {
  for (int r = 0; r < f->registers.count; r++) {
    const tn__register_record *reg = &f->registers.data[r];
    if (reg->storage != (uint32_t)storage || reg->index != (uint32_t)index) continue;
    const tn__operand *dims = v->rank > 0 ? f->operands.data + reg->first_dim : NULL;
    bool same = reg->dtype == (uint32_t)v->dtype && reg->rank == (uint32_t)v->rank;
    for (int i = 0; same && i < v->rank; i++)
      same = dims[i].symbolic == v->dims[i].symbolic && dims[i].value == v->dims[i].value;
    if (!same) fail(f->exe, "an input's or output's register differs from its signature");
    return (uint32_t)r;
  }
  if (v->container != TN__CONTAINER_TENSOR)
    return (uint32_t)tn__exe_list(f, v->dtype, v->rank, v->container, storage, index);
  return (uint32_t)tn__exe_register(f, v->dtype, v->rank, v->dims, storage, index, tn__prog_operand_const(0));
}

static void find_registers(tn__exe_func *f) {
  for (int i = 0; i < f->inputs.count; i++)
    f->inputs.data[i].reg = value_register(f, &f->inputs.data[i], TN__STORAGE_INPUT, i);
  for (int i = 0; i < f->outputs.count; i++)
    f->outputs.data[i].reg = value_register(f, &f->outputs.data[i], TN__STORAGE_OUTPUT, i);
}

/* The register's memory is wanted on multiples of `alignment`: false when it is no input's or output's, or these ask
 * for as much. What is out of range is left to the loader, which says where. */
static bool ask_for_alignment(tn__exe_func *f, uint32_t number, uint32_t alignment) {
  if (number >= (uint32_t)f->registers.count) return false;
  const tn__register_record *at = &f->registers.data[number];
  for (; at->storage == TN__STORAGE_VIEW && at->index < number; at = &f->registers.data[number]) number = at->index;
  bool input = at->storage == TN__STORAGE_INPUT;
  if (!input && at->storage != TN__STORAGE_OUTPUT) return false;
  if (at->index >= (uint32_t)(input ? f->inputs.count : f->outputs.count)) return false;
  value *v = input ? &f->inputs.data[at->index] : &f->outputs.data[at->index];
  if (v->alignment >= alignment) return false;
  v->alignment = alignment;
  return true;
}

/* As the functions want it that the code calls. */
static bool ask_for_calls(tn__exe_func *f) {
  bool changed = false;
  const uint32_t *code = f->code.data;
  for (int at = 0; at < f->code.count; at += 2 + (int)code[at + 1]) {
    if (code[at] != TN__OP_CALL || code[at + 2] >= (uint32_t)f->exe->functions.count) continue;
    const tn__exe_func *callee = f->exe->functions.data[code[at + 2]];
    const uint32_t *counts = code + at + 3, *operands = counts + 2;
    for (int i = 0; i < callee->inputs.count && i < (int)counts[0]; i++)
      changed |= ask_for_alignment(f, operands[i], callee->inputs.data[i].alignment);
    for (int i = 0; i < callee->outputs.count && i < (int)counts[1]; i++)
      changed |= ask_for_alignment(f, operands[(int)counts[0] + i], callee->outputs.data[i].alignment);
  }
  return changed;
}

/* What kernels ask of the memory of inputs and outputs: no more than the alignment of the elements that it is seen
 * with, here and in functions that get it. */
static void find_alignments(tn__exe *exe) {
  for (int i = 0; i < exe->functions.count; i++) {
    tn__exe_func *f = exe->functions.data[i];
    find_registers(f);
    for (int r = 0; r < f->registers.count; r++)
      ask_for_alignment(f, (uint32_t)r, (uint32_t)tn__dtype_stored((tn_dtype)f->registers.data[r].dtype));
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < exe->functions.count; i++) changed |= ask_for_calls(exe->functions.data[i]);
  }
}

static bool is_called(const tn__exe *exe, const tn__exe_func *callee) {
  for (int i = 0; i < exe->functions.count; i++) {
    const tn__exe_func *f = exe->functions.data[i];
    for (int at = 0; at < f->code.count; at += 2 + (int)f->code.data[at + 1])
      if (f->code.data[at] == TN__OP_CALL && f->code.data[at + 2] == (uint32_t)callee->index) return true;
  }
  return false;
}

/* Kernels of all CPUs run on the host, where it meets them. */
static uint32_t queue_of(const tn__exe *exe, uint32_t device) {
  return exe->devices.data[device].type == kDLCPU ? 0 : device;
}

/* The code of all functions gets what orders the devices. */
static void plan_events(tn__exe *exe) {
  uint32_t *devices = TN__NEW_ARRAY(exe->arena, exe->kernels.count, uint32_t);
  int *homes = TN__NEW_ARRAY(exe->arena, exe->devices.count, int);
  for (int i = 0; i < exe->kernels.count; i++) devices[i] = queue_of(exe, exe->kernels.data[i].record.device);
  for (int i = 0; i < exe->devices.count; i++) homes[i] = exe->devices.data[i].home;
  for (int i = 0; i < exe->functions.count && exe->devices.count > 1; i++) {
    tn__exe_func *f = exe->functions.data[i];
    int *aliases = TN__NEW_ARRAY(exe->arena, f->outputs.count, int);
    for (int o = 0; o < f->outputs.count; o++) aliases[o] = f->outputs.data[o].alias - 1;
    const tn__event_code code = {.words = f->code.data,
                                 .word_count = f->code.count,
                                 .origins = f->origins.data,
                                 .origin_count = f->origins.count,
                                 .registers = f->registers.data,
                                 .register_count = f->registers.count,
                                 .operands = f->operands.data,
                                 .aliases = aliases,
                                 .kernel_devices = devices,
                                 .kernel_count = exe->kernels.count,
                                 .device_count = exe->devices.count,
                                 .homes = homes,
                                 .is_called = is_called(exe, f)};
    tn__events events = tn__prog_plan_events(exe->arena, &code);
    f->code.count = 0;
    for (int w = 0; w < events.word_count; w++) tn__vec_push(exe->arena, &f->code, events.words[w]);
    f->events = 1 + events.count;
  }
}

static uint64_t put_values(const tn__exe_func *f, byte_vec *out, const value *values, int count) {
  uint64_t at = put_aligned(f->exe->arena, out, NULL, 0);
  for (int i = 0; i < count; i++) {
    tn__value_record record = {.name = string_offset(f->exe, values[i].name),
                               .reg = values[i].reg,
                               .alias = (uint32_t)values[i].alias,
                               .grows = (uint32_t)values[i].grows,
                               .valid = values[i].valid,
                               .alignment = values[i].alignment,
                               .strided = values[i].strided,
                               .fallback = (uint32_t)values[i].fallback};
    put(f->exe->arena, out, &record, sizeof(record));
  }
  return at;
}

static tn__function_record put_function(const tn__exe_func *f, byte_vec *out) {
  tn__arena *arena = f->exe->arena;
  tn__function_record record = {.name = string_offset(f->exe, f->name),
                                .scalar_count = (uint32_t)f->scalar_count,
                                .input_count = (uint32_t)f->inputs.count,
                                .output_count = (uint32_t)f->outputs.count,
                                .symbol_count = (uint32_t)f->symbols.count,
                                .code_words = (uint32_t)f->code.count,
                                .arena = f->arena,
                                .strided = (uint32_t)f->strided,
                                .events = (uint32_t)f->events,
                                .inner = f->is_inner};
  record.inputs = put_values(f, out, f->inputs.data, f->inputs.count);
  record.outputs = put_values(f, out, f->outputs.data, f->outputs.count);
  record.register_count = (uint32_t)f->registers.count;
  record.operand_count = (uint32_t)f->operands.count;
  record.registers =
      put_aligned(arena, out, f->registers.data, (size_t)f->registers.count * sizeof(tn__register_record));
  record.operands = put_aligned(arena, out, f->operands.data, (size_t)f->operands.count * sizeof(tn__operand));
  record.symbols = put_aligned(arena, out, NULL, 0);
  for (int i = 0; i < f->symbols.count; i++) {
    tn__symbol_record s = {string_offset(f->exe, f->symbols.data[i].name), (uint32_t)f->symbols.data[i].scalar};
    put(arena, out, &s, sizeof(s));
  }
  record.code = put_aligned(arena, out, f->code.data, (size_t)f->code.count * sizeof(uint32_t));
  record.origin_count = (uint32_t)f->origins.count;
  record.origins = put_aligned(arena, out, f->origins.data, (size_t)f->origins.count * sizeof(tn__origin_record));
  for (int i = 0; i < f->exe->devices.count - 1 && f->arenas.count > 0; i++) {
    const tn__operand bytes = i < f->arenas.count ? f->arenas.data[i] : tn__prog_operand_const(0);
    uint64_t at = put_aligned(arena, out, &bytes, sizeof(bytes));
    if (i == 0) record.arenas = at;
  }
  return record;
}

static byte_vec functions_section(tn__exe *exe) {
  byte_vec out = {0};
  find_alignments(exe);
  plan_events(exe);
  tn__functions_header header = {(uint32_t)exe->functions.count, sizeof(tn__function_record), sizeof(tn__value_record),
                                 sizeof(tn__register_record),    sizeof(tn__symbol_record),   0};
  put(exe->arena, &out, &header, sizeof(header));
  tn__function_record nothing = {0};
  for (int i = 0; i < exe->functions.count; i++) put(exe->arena, &out, &nothing, sizeof(nothing));
  for (int i = 0; i < exe->functions.count; i++) {
    tn__function_record record = put_function(exe->functions.data[i], &out);
    memcpy(out.data + sizeof(header) + (size_t)i * sizeof(record), &record, sizeof(record));
  }
  return out;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

typedef struct section {
  tn__file_section record;
  const void *data; /* NULL for the constants, which are many */
} section;

static void add_section(tn__exe *exe, section *sections, int *count, tn__section_kind kind, const char *name,
                        const void *data, size_t size) {
  sections[*count].record = (tn__file_section){.kind = (uint32_t)kind, .name = string_offset(exe, name), .size = size};
  sections[(*count)++].data = data;
}

static void place_sections(section *sections, int count, tn__file_header *header) {
  uint64_t at = sizeof(*header) + (uint64_t)count * sizeof(tn__file_section);
  for (int i = 0; i < count; i++) {
    uint32_t kind = sections[i].record.kind;
    bool mapped = kind == TN__SECTION_IMAGE || kind == TN__SECTION_CONSTANTS;
    sections[i].record.offset = align_up(at, mapped ? TN__FILE_PAGE : TN__FILE_ALIGN);
    at = sections[i].record.offset + sections[i].record.size;
    /* Code shares its last page with nothing. */
    if (kind == TN__SECTION_IMAGE) at = align_up(at, TN__FILE_PAGE);
  }
  header->file_size = at;
}

typedef TN__VEC(tn__bytes) piece_vec;

static void add_piece(tn__exe *exe, piece_vec *out, uint64_t *at, const void *data, uint64_t size) {
  if (size == 0) return;
  tn__bytes piece = {data, size};
  tn__vec_push(exe->arena, out, piece);
  *at += size;
}

/* Zeros up to offset `to` of the file. */
static void pad(tn__exe *exe, piece_vec *out, uint64_t *at, uint64_t to) {
  static const char zeros[TN__FILE_PAGE];
  while (*at < to) add_piece(exe, out, at, zeros, to - *at < sizeof zeros ? to - *at : sizeof zeros);
}

static int compare_offsets(const void *a, const void *b) {
  const constant *x = *(const constant *const *)a, *y = *(const constant *const *)b;
  if (x->record.offset != y->record.offset) return x->record.offset < y->record.offset ? -1 : 1;
  return (x->record.size > y->record.size) - (x->record.size < y->record.size); /* empty ones first */
}

static void add_constants(tn__exe *exe, uint64_t start, piece_vec *out, uint64_t *at) {
  int count = exe->constants_apart ? 0 : exe->constants.count;
  const constant **sorted = TN__NEW_ARRAY(exe->arena, count, const constant *);
  for (int i = 0; i < count; i++) sorted[i] = &exe->constants.data[i];
  if (count > 0) qsort(sorted, (size_t)count, sizeof(const constant *), compare_offsets);
  for (int i = 0; i < count; i++) {
    pad(exe, out, at, start + sorted[i]->record.offset);
    add_piece(exe, out, at, sorted[i]->data, sorted[i]->record.size);
  }
}

/* The section's pieces, and its hash. */
static void add_section_pieces(tn__exe *exe, section *s, piece_vec *out, uint64_t *at) {
  uint64_t start = s->record.offset;
  pad(exe, out, at, start);
  int first = out->count;
  if (s->record.kind == TN__SECTION_CONSTANTS) {
    add_constants(exe, start, out, at);
    pad(exe, out, at, start + s->record.size);
  } else if (s->record.kind == TN__SECTION_IMAGE || s->record.kind == TN__SECTION_SOURCES) {
    bool code = s->record.kind == TN__SECTION_IMAGE;
    const tn__bytes *pieces = code ? exe->images.data : exe->sources.data;
    for (int i = 0; i < (code ? exe->images.count : exe->sources.count); i++) {
      pad(exe, out, at, start + align_up(*at - start, code ? TN__FILE_PAGE : TN__FILE_ALIGN));
      add_piece(exe, out, at, pieces[i].data, pieces[i].size);
    }
  } else {
    add_piece(exe, out, at, s->data, s->record.size);
  }
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  uint64_t known = s->record.kind == TN__SECTION_CONSTANTS && exe->keeps_all && exe->slab->hashed ? exe->slab->used : 0;
  if (known > 0) hasher = exe->slab->hash;
  for (int i = first; i < out->count; i++) {
    const tn__bytes *piece = &out->data[i];
    uint64_t skip = piece->size < known ? piece->size : known;
    tn__sha256_update(&hasher, (const char *)piece->data + skip, piece->size - skip);
    known -= skip;
  }
  tn__digest digest = tn__sha256_final(&hasher);
  memcpy(s->record.hash, digest.bytes, sizeof(digest.bytes));
}

void tn__exe_keep_in_place(tn__exe *exe, const tn__slab *slab) { exe->slab = slab; }

/* Constants that are kept in place come first, as they lie, unless that wastes a sixteenth: equal ones may be among
 * them, of which only one is used. */
static void place_constants(tn__exe *exe) {
  const tn__slab *slab = exe->slab;
  uint64_t used = 0, kept = slab == NULL ? 0 : align_up(slab->used, TN__FILE_ALIGN);
  for (int i = 0; i < exe->constants.count; i++)
    if (tn__slab_holds(slab, exe->constants.data[i].data))
      used += align_up(exe->constants.data[i].record.size, TN__FILE_ALIGN);
  bool keep = slab != NULL && kept - kept / 16 <= used;
  uint64_t at = keep ? slab->used : 0;
  exe->keeps_all = kept > 0 && kept == used;
  for (int i = 0; i < exe->constants.count; i++) {
    constant *c = &exe->constants.data[i];
    if (keep && tn__slab_holds(slab, c->data)) {
      c->record.offset = (uint64_t)((const char *)c->data - slab->constants);
      continue;
    }
    c->record.offset = align_up(at, TN__FILE_ALIGN);
    at = c->record.offset + c->record.size;
  }
  exe->constant_bytes = at;
}

const void *const *tn__exe_leave_constants(tn__exe *exe) {
  const void **places = TN__NEW_ARRAY(exe->arena, exe->constants.count, const void *);
  for (int i = 0; i < exe->constants.count; i++) places[i] = exe->constants.data[i].data;
  exe->constants_apart = true;
  return places;
}

tn__pieces tn__exe_pieces(tn__exe *exe) {
  if (!exe->constants_apart) place_constants(exe);
  byte_vec devices = devices_section(exe), kernels = kernels_section(exe), functions = functions_section(exe);
  byte_vec constant_table = constant_table_section(exe);
  section *sections = TN__NEW_ARRAY(exe->arena, 11 + exe->texts.count, section);
  int count = 0;
  add_section(exe, sections, &count, TN__SECTION_DEVICES, "", devices.data, (size_t)devices.count);
  add_section(exe, sections, &count, TN__SECTION_PRODUCER, "", exe->producer, strlen(exe->producer));
  static const uint8_t unsigned_yet[TN__SIGNATURE_SIZE];
  add_section(exe, sections, &count, TN__SECTION_SIGNATURE, "", unsigned_yet, sizeof(unsigned_yet));
  add_section(exe, sections, &count, TN__SECTION_KERNELS, "", kernels.data, (size_t)kernels.count);
  add_section(exe, sections, &count, TN__SECTION_FUNCTIONS, "", functions.data, (size_t)functions.count);
  add_section(exe, sections, &count, TN__SECTION_CONSTANT_TABLE, "", constant_table.data, (size_t)constant_table.count);
  for (int i = 0; i < exe->texts.count; i++)
    add_section(exe, sections, &count, TN__SECTION_TEXT, exe->texts.data[i].name, exe->texts.data[i].text,
                exe->texts.data[i].size);
  if (exe->text_data.count > 0)
    add_section(exe, sections, &count, TN__SECTION_STRING_DATA, "", exe->text_data.data,
                (size_t)exe->text_data.count * sizeof(uint64_t));
  if (exe->source_size > 0) add_section(exe, sections, &count, TN__SECTION_SOURCES, "", NULL, exe->source_size);
  /* After every name is known. */
  add_section(exe, sections, &count, TN__SECTION_STRINGS, "", exe->string_bytes.data, (size_t)exe->string_bytes.count);
  add_section(exe, sections, &count, TN__SECTION_IMAGE, "", NULL, exe->image_size);
  add_section(exe, sections, &count, TN__SECTION_CONSTANTS, "", NULL, exe->constant_bytes);

  tn__file_header header = {.major = TN__FILE_MAJOR,
                            .minor = TN__FILE_MINOR,
                            .header_size = sizeof(tn__file_header),
                            .section_record_size = sizeof(tn__file_section),
                            .section_count = (uint32_t)count};
  memcpy(header.magic, TN__FILE_MAGIC, sizeof(header.magic));
  place_sections(sections, count, &header);
  size_t table_size = (size_t)count * sizeof(tn__file_section);
  tn__file_section *table = tn__arena_alloc(exe->arena, table_size);
  tn__file_header *head = TN__NEW(exe->arena, tn__file_header);
  piece_vec out = {0};
  uint64_t at = 0;
  add_piece(exe, &out, &at, head, sizeof(*head));
  add_piece(exe, &out, &at, table, table_size);
  for (int i = 0; i < count; i++) {
    add_section_pieces(exe, &sections[i], &out, &at);
    table[i] = sections[i].record;
  }
  pad(exe, &out, &at, header.file_size);
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update(&hasher, &header, sizeof(header));
  tn__sha256_update(&hasher, table, table_size);
  tn__digest digest = tn__sha256_final(&hasher);
  memcpy(header.content_hash, digest.bytes, sizeof(digest.bytes));
  *head = header;
  return (tn__pieces){out.data, out.count, header.file_size};
}

tn__bytes tn__exe_join(tn__arena *arena, const tn__pieces *pieces) {
  char *memory = tn__arena_alloc(arena, pieces->size + TN__FILE_ALIGN);
  memory += (TN__FILE_ALIGN - (uintptr_t)memory % TN__FILE_ALIGN) % TN__FILE_ALIGN;
  tn__pieces_join(pieces, memory);
  return (tn__bytes){memory, pieces->size};
}

tn__bytes tn__exe_serialize(tn__exe *exe) {
  tn__pieces pieces = tn__exe_pieces(exe);
  return tn__exe_join(exe->arena, &pieces);
}
