/* The functions of an executable: signatures, registers, storage. Their code is decode.c's. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "runtime/executable/executable.h"

enum { MOST_SCALARS = 1 << 24 };

/* ---- registers -------------------------------------------------------------------------------------------------- */

static tn_status *check_operand(const tn__function *f, const tn__operand *operand, const char *what) {
  if (operand->symbolic > 1 || (operand->symbolic && (operand->value < 0 || operand->value >= f->scalar_count)))
    return tn__load_corrupt("function \"%s\": %s is scalar %lld of %u", f->name, what, (long long)operand->value,
                            f->scalar_count);
  if (!operand->symbolic && operand->value < 0)
    return tn__load_corrupt("function \"%s\": %s is %lld", f->name, what, (long long)operand->value);
  return NULL;
}

/* Sets static_bytes from the dimensions; -1 when one is symbolic. */
static tn_status *measure(const tn__function *f, uint32_t number, tn__register *r) {
  int64_t bytes = (int64_t)tn__dtype_stored(r->dtype);
  bool overflow = false, symbolic = false;
  for (int i = 0; i < r->rank; i++) {
    TN_RETURN_IF_ERROR(check_operand(f, &r->dims[i], "a dimension"));
    if (r->dims[i].symbolic)
      symbolic = true;
    else if (r->dims[i].value == 0)
      bytes = 0; /* whatever the others are */
    else
      overflow = overflow || tn__mul_overflow_i64(bytes, r->dims[i].value, &bytes);
  }
  if (overflow && bytes != 0) return tn__load_corrupt("function \"%s\": register %u is too large", f->name, number);
  r->static_bytes = symbolic ? -1 : overflow ? 0 : bytes;
  return NULL;
}

static tn_status *check_constant_register(const tn_executable *exe, const tn__function *f, uint32_t number,
                                          const tn__register *r) {
  if (r->index >= exe->constant_count)
    return tn__load_corrupt("function \"%s\": register %u holds constant %u of %u", f->name, number, r->index,
                            exe->constant_count);
  const tn__constant_entry *constant = &exe->constants[r->index];
  if (constant->device != r->device)
    return tn__load_corrupt("function \"%s\": register %u is on device %u and its constant \"%s\" on device %u",
                            f->name, number, r->device, constant->name, constant->device);
  bool same = constant->dtype == r->dtype && constant->rank == r->rank;
  for (int i = 0; same && i < r->rank; i++) same = !r->dims[i].symbolic && r->dims[i].value == constant->dims[i];
  if (!same)
    return tn__load_corrupt("function \"%s\": register %u and its constant \"%s\" differ in type or shape", f->name,
                            number, constant->name);
  return NULL;
}

static tn_status *check_arena_register(const tn__function *f, uint32_t number, const tn__register *r) {
  TN_RETURN_IF_ERROR(check_operand(f, &r->offset, "an offset"));
  int64_t end;
  if (!r->offset.symbolic && r->offset.value % TN_KERNEL_ALIGNMENT != 0)
    return tn__load_corrupt("function \"%s\": register %u is at arena offset %lld, which is not aligned", f->name,
                            number, (long long)r->offset.value);
  const tn__operand arena = tn__function_arena(f, r->device);
  if (r->offset.symbolic || arena.symbolic || r->static_bytes < 0) return NULL;
  if (tn__add_overflow_i64(r->offset.value, r->static_bytes, &end) || end > arena.value)
    return tn__load_corrupt("function \"%s\": register %u (%lld bytes at %lld) does not fit into the arena of %lld",
                            f->name, number, (long long)r->static_bytes, (long long)r->offset.value,
                            (long long)arena.value);
  return NULL;
}

static tn_status *check_view_register(tn__function *f, uint32_t number, tn__register *r) {
  if (r->index >= number)
    return tn__load_corrupt("function \"%s\": register %u is a view of register %u, which does not come before it",
                            f->name, number, r->index);
  const tn__register *base = &f->registers[r->index];
  if (base->container != TN__CONTAINER_TENSOR)
    return tn__load_corrupt("function \"%s\": register %u is a view of register %u, which holds a list", f->name,
                            number, r->index);
  if (base->device != r->device)
    return tn__load_corrupt("function \"%s\": register %u on device %u is a view of register %u on device %u", f->name,
                            number, r->device, r->index, base->device);
  r->root = base->root;
  r->writable = base->writable;
  const tn__register *root = &f->registers[r->root];
  if (r->static_bytes >= 0 && root->static_bytes >= 0 && r->static_bytes != root->static_bytes)
    return tn__load_corrupt("function \"%s\": register %u is a view of %lld bytes of register %u, which has %lld",
                            f->name, number, (long long)r->static_bytes, r->root, (long long)root->static_bytes);
  return NULL;
}

static tn_status *check_list_register(tn__function *f, uint32_t number, tn__register *r) {
  bool kind = r->storage == TN__STORAGE_INPUT || r->storage == TN__STORAGE_OUTPUT || r->storage == TN__STORAGE_DYNAMIC;
  for (int i = 0; i < r->rank; i++) kind = kind && !r->dims[i].symbolic && r->dims[i].value == 0;
  kind = kind && r->device == 0;
  if (r->container > TN__CONTAINER_OPTIONAL_SEQUENCE || !kind)
    return tn__load_corrupt("function \"%s\": register %u holds a list (%u) with storage %u, or with dimensions",
                            f->name, number, (uint32_t)r->container, (uint32_t)r->storage);
  r->writable = true; /* a function may change its caller's lists: the compiler says where */
  r->static_bytes = 0;
  if (r->storage != TN__STORAGE_INPUT) r->list = f->list_count++;
  return NULL;
}

static tn_status *check_storage(const tn_executable *exe, tn__function *f, uint32_t number, tn__register *r) {
  r->root = number;
  r->writable = r->storage != TN__STORAGE_INPUT && r->storage != TN__STORAGE_CONSTANT;
  switch (r->storage) {
    case TN__STORAGE_INPUT:
    case TN__STORAGE_OUTPUT: {
      bool input = r->storage == TN__STORAGE_INPUT;
      uint32_t count = input ? f->input_count : f->output_count;
      const tn__function_value *values = input ? f->inputs : f->outputs;
      if (r->device != 0 && r->dtype == TN_STRING)
        return tn__load_corrupt("function \"%s\": register %u is an %s of strings on device %u", f->name, number,
                                input ? "input" : "output", r->device);
      if (r->index >= count || values[r->index].reg != number)
        return tn__load_corrupt("function \"%s\": register %u is not that of %s %u", f->name, number,
                                input ? "input" : "output", r->index);
      return NULL;
    }
    case TN__STORAGE_CONSTANT: return check_constant_register(exe, f, number, r);
    case TN__STORAGE_ARENA: return check_arena_register(f, number, r);
    case TN__STORAGE_DYNAMIC: return NULL;
    case TN__STORAGE_VIEW: return check_view_register(f, number, r);
  }
  return tn__load_corrupt("function \"%s\": register %u has the unknown storage %u", f->name, number,
                          (uint32_t)r->storage);
}

static tn_status *load_registers(tn_executable *exe, tn__function *f, const tn__function_record *record,
                                 const uint8_t *section, uint32_t record_size) {
  const tn__operand *operands = (const void *)(section + record->operands);
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, f->register_count, sizeof(tn__register), &f->registers));
  uint64_t dims = 0;
  for (uint32_t i = 0; i < f->register_count; i++) {
    const tn__register_record *in = (const void *)(section + record->registers + (size_t)i * record_size);
    tn__register *r = &f->registers[i];
    bool any_rank = in->rank == TN__LIST_OF_ANY_RANK && record_size >= sizeof(tn__register_record) &&
                    in->container != TN__CONTAINER_TENSOR;
    uint32_t rank = any_rank ? 0 : in->rank;
    if (tn__dtype_stored((tn_dtype)in->dtype) == 0 || rank > TN_MAX_RANK || in->device >= exe->device_count)
      return tn__load_corrupt("function \"%s\": register %u has type %u, rank %u and device %u", f->name, i, in->dtype,
                              in->rank, in->device);
    if (in->first_dim > record->operand_count || rank > record->operand_count - in->first_dim)
      return tn__load_corrupt("function \"%s\": the dimensions of register %u are missing", f->name, i);
    *r = (tn__register){.dtype = (tn_dtype)in->dtype,
                        .rank = (int)rank,
                        .any_rank = any_rank,
                        .storage = (tn__storage)in->storage,
                        .index = in->index,
                        .device = in->device,
                        .dims = operands + in->first_dim,
                        .first_dim = (uint32_t)dims,
                        .offset = in->offset};
    dims += rank;
    TN_RETURN_IF_ERROR(measure(f, i, r));
    TN_RETURN_IF_ERROR(check_storage(exe, f, i, r));
    if (record_size >= sizeof(tn__register_record)) r->container = (tn__container)in->container;
    if (r->container != TN__CONTAINER_TENSOR) TN_RETURN_IF_ERROR(check_list_register(f, i, r));
    const tn__function_value *value = tn__function_value_in(f, i);
    if (value != NULL && (size_t)value->info.alignment < tn__dtype_stored(r->dtype))
      return tn__load_corrupt(
          "function \"%s\": register %u has elements of %zu bytes in \"%s\", which is aligned to %d", f->name, i,
          tn__dtype_stored(r->dtype), value->info.name, value->info.alignment);
    if (r->storage == TN__STORAGE_ARENA && (r->static_bytes < 0 || r->offset.symbolic)) f->symbolic_layout = true;
    if (r->static_bytes < 0) f->symbolic_layout = true;
  }
  if (dims > UINT32_MAX) return tn__load_corrupt("function \"%s\" has too many dimensions", f->name);
  f->dim_count = (uint32_t)dims;
  return NULL;
}

/* ---- signatures ------------------------------------------------------------------------------------------------- */

/* What is kept as 1 + its number, or 0 for none (-1); beyond all numbers stays that. */
static int less_one(uint32_t number) { return number > INT32_MAX ? INT32_MAX : (int)number - 1; }

static tn_status *load_values(tn_executable *exe, tn__function *f, const uint8_t *records, uint32_t record_size,
                              uint32_t count, const char *what, tn__function_value **out) {
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, count, sizeof(tn__function_value), out));
  for (uint32_t i = 0; i < count; i++) {
    const tn__value_record *record = (const void *)(records + (size_t)i * record_size);
    tn__function_value *value = &(*out)[i];
    TN_RETURN_IF_ERROR(tn__load_check_string(exe, record->name, "an input or output", &value->info.name));
    if (record->reg >= f->register_count)
      return tn__load_corrupt("function \"%s\": %s \"%s\" is register %u of %u", f->name, what, value->info.name,
                              record->reg, f->register_count);
    value->reg = record->reg;
    value->alias = record_size < TN__VALUE_RECORD_1_1 ? -1 : less_one(record->alias);
    value->grows = record_size < TN__VALUE_RECORD_1_3 ? -1 : less_one(record->grows);
    if (value->grows >= 0) value->valid = record->valid;
    uint32_t alignment = record_size < TN__VALUE_RECORD_1_5 ? TN_KERNEL_ALIGNMENT : record->alignment;
    if (alignment == 0 || alignment > TN_KERNEL_ALIGNMENT || (alignment & (alignment - 1)) != 0)
      return tn__load_corrupt("function \"%s\": %s \"%s\" is aligned to %u bytes", f->name, what, value->info.name,
                              alignment);
    value->info.alignment = (int)alignment;
    value->info.strided = record_size >= TN__VALUE_RECORD_1_5 && record->strided != 0;
    value->constant = record_size < sizeof(tn__value_record) ? -1 : less_one(record->fallback);
  }
  return NULL;
}

/* The capacity is a constant, which kernels were made for; what counts of it is bound like a dimension, or is one. */
static tn_status *check_growing(const tn__function *f, const tn__function_value *value, const tn__register *r) {
  int axis = value->grows;
  if (r->device != 0)
    return tn__load_corrupt("function \"%s\": \"%s\" grows, and is on device %u", f->name, value->info.name, r->device);
  if (axis >= r->rank || r->container != TN__CONTAINER_TENSOR || r->dims[axis].symbolic)
    return tn__load_corrupt("function \"%s\": \"%s\" grows along dimension %d, which is not a constant of it", f->name,
                            value->info.name, axis);
  TN_RETURN_IF_ERROR(check_operand(f, &value->valid, "what counts of a dimension"));
  if (!value->valid.symbolic && value->valid.value > r->dims[axis].value)
    return tn__load_corrupt("function \"%s\": %lld elements of \"%s\" count, and it has %lld", f->name,
                            (long long)value->valid.value, value->info.name, (long long)r->dims[axis].value);
  return NULL;
}

/* Checks an input's default and makes the caller's view of it. */
static tn_status *load_default(const tn_executable *exe, const tn__function *f, tn__function_value *value,
                               const tn__register *r) {
  const char *name = value->info.name;
  if (value->constant < 0) return NULL;
  if (r->storage != TN__STORAGE_INPUT || r->container != TN__CONTAINER_TENSOR)
    return tn__load_corrupt("function \"%s\": \"%s\" is no input of a tensor, and has a default", f->name, name);
  if ((uint32_t)value->constant >= exe->constant_count)
    return tn__load_corrupt("function \"%s\": the default of input \"%s\" is constant %d of %u", f->name, name,
                            value->constant, exe->constant_count);
  const tn__constant_entry *constant = &exe->constants[value->constant];
  if (constant->device != 0)
    return tn__load_corrupt("function \"%s\": the default of input \"%s\" is on device %u", f->name, name,
                            constant->device);
  bool same = constant->dtype == r->dtype && constant->rank == r->rank;
  for (int i = 0; same && i < r->rank; i++)
    same = i == value->grows ? constant->dims[i] <= r->dims[i].value
                             : r->dims[i].symbolic || r->dims[i].value == constant->dims[i];
  if (!same)
    return tn__load_corrupt("function \"%s\": input \"%s\" and its default \"%s\" differ in type or shape", f->name,
                            name, constant->name);
  void *data = exe->verify_only || r->dtype == TN_STRING ? NULL : (void *)(uintptr_t)constant->data;
  value->fallback = (DLTensor){.data = data,
                               .device = {kDLCPU, 0},
                               .ndim = r->rank,
                               .dtype = tn_dtype_to_dl(r->dtype),
                               .shape = (int64_t *)(uintptr_t)constant->dims};
  value->info.fallback = &value->fallback;
  return NULL;
}

/* After the registers: what the API tells about inputs and outputs. */
static tn_status *describe_values(tn_executable *exe, tn__function *f, tn__function_value *values, uint32_t count,
                                  tn__storage storage) {
  for (uint32_t i = 0; i < count; i++) {
    const tn__register *r = &f->registers[values[i].reg];
    if (r->storage != storage || r->index != i)
      return tn__load_corrupt("function \"%s\": \"%s\" is in register %u, which is not its own", f->name,
                              values[i].info.name, values[i].reg);
    tn_dim_info *dims;
    const tn_dim_info **list;
    TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, (size_t)r->rank, sizeof(tn_dim_info), &dims));
    TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, (size_t)r->rank, sizeof(*list), &list));
    TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, (size_t)r->rank, 1, &values[i].binds));
    if (values[i].grows >= 0) TN_RETURN_IF_ERROR(check_growing(f, &values[i], r));
    TN_RETURN_IF_ERROR(load_default(exe, f, &values[i], r));
    f->symbolic_layout = f->symbolic_layout || (values[i].grows >= 0 && values[i].valid.symbolic);
    f->growing_inputs += values[i].grows >= 0 && storage == TN__STORAGE_INPUT;
    f->strided_inputs += values[i].info.strided;
    for (int d = 0; d < r->rank; d++) {
      const tn__operand *dim = tn__function_value_dim(f, &values[i], d);
      bool symbolic = dim->symbolic;
      list[d] = &dims[d];
      if (r->container != TN__CONTAINER_TENSOR) {
        dims[d] = (tn_dim_info){-1, NULL, 0};
        continue;
      }
      dims[d].size = symbolic ? -1 : dim->value;
      dims[d].name = symbolic ? f->scalar_names[dim->value] : NULL;
      dims[d].capacity = d == values[i].grows ? r->dims[d].value : 0;
      if (!symbolic || storage != TN__STORAGE_INPUT) continue;
      values[i].binds[d] = !f->signature_scalar[dim->value];
      f->signature_scalar[dim->value] = 1;
    }
    values[i].info.dtype = r->dtype, values[i].info.dims = list;
    values[i].info.rank = r->any_rank ? TN_ANY_RANK : r->rank;
    values[i].info.kind = (tn_value_kind)r->container;
    const tn__device_driver *driver = exe->drivers[r->device];
    values[i].away = driver == NULL || !driver->inline_host;
    values[i].info.device = values[i].away ? exe->devices[r->device] : (DLDevice){kDLCPU, 0};
    f->has_away |= values[i].away;
  }
  return NULL;
}

static tn_status *load_symbols(tn_executable *exe, tn__function *f, const uint8_t *records, uint32_t record_size,
                               uint32_t count) {
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, f->scalar_count, sizeof(char *), &f->scalar_names));
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, f->scalar_count, 1, &f->signature_scalar));
  for (uint32_t i = 0; i < count; i++) {
    const tn__symbol_record *record = (const void *)(records + (size_t)i * record_size);
    const char *name;
    TN_RETURN_IF_ERROR(tn__load_check_string(exe, record->name, "a symbol", &name));
    if (record->scalar >= f->scalar_count)
      return tn__load_corrupt("function \"%s\": symbol \"%s\" is scalar %u of %u", f->name, name, record->scalar,
                              f->scalar_count);
    f->scalar_names[record->scalar] = name;
  }
  return NULL;
}

/* `record` may be an older, shorter one. */
static tn_status *load_origins(tn_executable *exe, tn__function *f, const tn__function_record *record,
                               uint32_t record_size) {
  const tn__file_section *where = exe->sections[TN__SECTION_FUNCTIONS];
  if (record_size < TN__FUNCTION_RECORD_1_1) return NULL;
  TN_RETURN_IF_ERROR(tn__load_check_table("origins", where->size, record->origins, record->origin_count,
                                          sizeof(tn__origin_record), sizeof(tn__origin_record)));
  f->origins = (const void *)(exe->file + where->offset + record->origins);
  f->origin_count = record->origin_count;
  for (uint32_t i = 0; i < f->origin_count; i++) {
    const char *text;
    TN_RETURN_IF_ERROR(tn__load_check_string(exe, f->origins[i].origin, "an origin", &text));
    if (i > 0 && f->origins[i].word <= f->origins[i - 1].word)
      return tn__load_corrupt("function \"%s\": origin %u is of word %u and follows that of word %u", f->name, i,
                              f->origins[i].word, f->origins[i - 1].word);
  }
  return NULL;
}

static tn_status *check_function_tables(const tn__functions_header *header, const tn__function_record *record,
                                        const tn__function *f, uint64_t size) {
  TN_RETURN_IF_ERROR(tn__load_check_table("inputs", size, record->inputs, record->input_count,
                                          header->value_record_size, TN__VALUE_RECORD_1_0));
  TN_RETURN_IF_ERROR(tn__load_check_table("outputs", size, record->outputs, record->output_count,
                                          header->value_record_size, TN__VALUE_RECORD_1_0));
  TN_RETURN_IF_ERROR(tn__load_check_table("registers", size, record->registers, record->register_count,
                                          header->register_record_size, offsetof(tn__register_record, container)));
  TN_RETURN_IF_ERROR(tn__load_check_table("operands", size, record->operands, record->operand_count,
                                          sizeof(tn__operand), sizeof(tn__operand)));
  TN_RETURN_IF_ERROR(tn__load_check_table("symbols", size, record->symbols, record->symbol_count,
                                          header->symbol_record_size, sizeof(tn__symbol_record)));
  TN_RETURN_IF_ERROR(tn__load_check_table("code", size, record->code, record->code_words, 4, 4));
  /* The limit keeps a damaged count from asking for gigabytes. Each scalar is assigned somewhere: by an instruction or
   * an input. */
  if (record->scalar_count > MOST_SCALARS ||
      record->scalar_count > (uint64_t)record->code_words + record->operand_count + record->symbol_count)
    return tn__load_corrupt("function \"%s\" has %u scalars, more than its code could use", f->name,
                            record->scalar_count);
  return NULL;
}

/* `record` may be an older, shorter one. */
static tn_status *load_arenas(const tn_executable *exe, tn__function *f, const tn__function_record *record,
                              uint32_t record_size) {
  const tn__file_section *where = exe->sections[TN__SECTION_FUNCTIONS];
  if (record_size < TN__FUNCTION_RECORD_1_6 || record->arenas == 0) return NULL;
  uint32_t count = exe->device_count - 1;
  TN_RETURN_IF_ERROR(
      tn__load_check_table("arenas", where->size, record->arenas, count, sizeof(tn__operand), sizeof(tn__operand)));
  f->arenas = (const void *)(exe->file + where->offset + record->arenas);
  for (uint32_t i = 0; i < count; i++) {
    TN_RETURN_IF_ERROR(check_operand(f, &f->arenas[i], "the size of an arena"));
    f->symbolic_layout = f->symbolic_layout || f->arenas[i].symbolic;
  }
  return NULL;
}

/* `record` may be an older, shorter one: then the devices work one after the other, in all functions. */
static tn_status *load_events(tn_executable *exe, tn__function *f, const tn__function_record *record,
                              uint32_t record_size) {
  uint32_t events = record_size < sizeof(*record) ? 0 : record->events;
  f->first_event = exe->event_count;
  if (events == 0) exe->has_events = false;
  if (events == 0) return NULL;
  f->event_count = events - 1;
  if (f->event_count > f->code_words) /* the code names each of them */
    return tn__load_corrupt("function \"%s\" has %u events and %u words of code", f->name, f->event_count,
                            f->code_words);
  exe->event_count += f->event_count;
  return NULL;
}

static tn_status *load_function(tn_executable *exe, const tn__functions_header *header,
                                const tn__function_record *record, tn__function *f) {
  const tn__file_section *where = exe->sections[TN__SECTION_FUNCTIONS];
  const uint8_t *section = exe->file + where->offset;
  TN_RETURN_IF_ERROR(tn__load_check_string(exe, record->name, "a function", &f->name));
  TN_RETURN_IF_ERROR(check_function_tables(header, record, f, where->size));
  f->scalar_count = record->scalar_count, f->register_count = record->register_count;
  f->input_count = record->input_count, f->output_count = record->output_count;
  f->strided = header->record_size < TN__FUNCTION_RECORD_1_1 ? -1 : less_one(record->strided);
  f->inner = header->record_size >= sizeof(*record) && record->inner != 0;
  f->arena = record->arena;
  f->code = (const void *)(section + record->code), f->code_words = record->code_words;
  TN_RETURN_IF_ERROR(check_operand(f, &f->arena, "the size of the arena"));
  if (f->arena.symbolic) f->symbolic_layout = true;
  TN_RETURN_IF_ERROR(load_arenas(exe, f, record, header->record_size));
  TN_RETURN_IF_ERROR(load_events(exe, f, record, header->record_size));
  TN_RETURN_IF_ERROR(load_symbols(exe, f, section + record->symbols, header->symbol_record_size, record->symbol_count));
  TN_RETURN_IF_ERROR(
      load_values(exe, f, section + record->inputs, header->value_record_size, f->input_count, "input", &f->inputs));
  TN_RETURN_IF_ERROR(load_values(exe, f, section + record->outputs, header->value_record_size, f->output_count,
                                 "output", &f->outputs));
  TN_RETURN_IF_ERROR(load_registers(exe, f, record, section, header->register_record_size));
  TN_RETURN_IF_ERROR(load_origins(exe, f, record, header->record_size));
  TN_RETURN_IF_ERROR(describe_values(exe, f, f->inputs, f->input_count, TN__STORAGE_INPUT));
  return describe_values(exe, f, f->outputs, f->output_count, TN__STORAGE_OUTPUT);
}

tn_status *tn__load_functions(tn_executable *exe) {
  const tn__file_section *where = exe->sections[TN__SECTION_FUNCTIONS];
  const uint8_t *section = exe->file + where->offset;
  if (where->size < sizeof(tn__functions_header))
    return tn__load_corrupt("its section of functions has %llu bytes", (unsigned long long)where->size);
  const tn__functions_header *header = (const void *)section;
  TN_RETURN_IF_ERROR(tn__load_check_table("functions", where->size, sizeof(*header), header->count, header->record_size,
                                          TN__FUNCTION_RECORD_1_0));
  if (header->count == 0) return tn__load_corrupt("it has no function");
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, header->count, sizeof(tn__function), &exe->functions));
  exe->function_count = header->count;
  for (uint32_t i = 0; i < exe->device_count; i++)
    exe->is_divided |= exe->drivers[i] == NULL || !exe->drivers[i]->inline_host;
  exe->has_events = exe->is_divided;
  for (uint32_t i = 0; i < header->count; i++) {
    const tn__function_record *record = (const void *)(section + sizeof(*header) + (size_t)i * header->record_size);
    exe->functions[i].index = (int)i;
    TN_RETURN_IF_ERROR(load_function(exe, header, record, &exe->functions[i]));
  }
  /* Calls are checked against the callee's signature, so every signature comes before any code. */
  for (uint32_t i = 0; i < header->count; i++) {
    TN_RETURN_IF_ERROR(tn__load_decode(exe, &exe->functions[i]));
    TN_RETURN_IF_ERROR(tn__verify_flow(exe, &exe->functions[i]));
    TN_RETURN_IF_ERROR(tn__verify_aliases(exe, &exe->functions[i]));
  }
  for (uint32_t i = 0; i < header->count; i++) TN_RETURN_IF_ERROR(tn__verify_strided(exe, &exe->functions[i]));
  const tn__file_header *file = (const void *)exe->file;
  return tn__load_find_inner(exe,
                             file->minor >= TN__FILE_MINOR_INNER && header->record_size >= sizeof(tn__function_record));
}
