/* Modules: saving them in one file or two, signing, loading. */
#include "driver/module.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/copy.h"
#include "runtime/executable/signature.h"

void tn_module_release(tn_module *module) {
  if (!module) return;
  const tn_allocator *a = module->allocator;
  tn__free(a, module->memory, module->memory_size, 64);
  tn__file_map_close(&module->map);
  tn__free(a, module->times, sizeof(tn_phase_time) * (size_t)module->time_count, 0);
  tn__free(a, module->time_list, sizeof(tn_phase_time *) * (size_t)module->time_count, 0);
  tn__free(a, module->names, module->names_size, 0);
  tn_allocator copy = module->allocator_copy;
  tn__free(a ? &copy : NULL, module, sizeof *module, 0);
}

const void *tn_module_data(const tn_module *module, size_t *size) {
  if (module == NULL || size == NULL) return NULL;
  *size = module->size;
  return module->data;
}

tn_status *tn_module_save(const tn_module *module, const char *path) {
  TN__NEED("module", module);
  TN__NEED("path", path);
  tn__bytes piece = {module->data, module->size};
  return tn__file_write_atomic(path, &piece, 1, 0644);
}

tn_status *tn_module_load(const tn_module *module, const tn_load_options *options, tn_executable **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("module", module);
  return tn_executable_load_memory(module->data, module->size, options, out);
}

int tn_module_times(const tn_module *module, const tn_phase_time *const **out) {
  if (module == NULL || out == NULL) return 0;
  *out = module->time_list;
  return module->time_count;
}

uint64_t tn_module_steps(const tn_module *module, uint64_t *most) {
  if (most != NULL) *most = module == NULL ? 0 : module->most_steps;
  return module == NULL ? 0 : module->steps;
}

bool tn_module_from_cache(const tn_module *module) {
  if (module == NULL) return false;
  return module->from_cache;
}

static tn_status *copy_times(tn_module *m, const tn__driver *driver) {
  if (driver->work != NULL && !m->from_cache) {
    m->steps = driver->work->steps;
    m->most_steps = driver->work->most;
  }
  tn__driver_tell_times(driver);
  size_t bytes = 0;
  for (int i = 0; i < driver->times.count; i++) bytes += strlen(driver->times.data[i]->name) + 1;
  void *times, *list, *names;
  TN_RETURN_IF_ERROR(tn__alloc(m->allocator, (size_t)driver->times.count, sizeof(tn_phase_time), 0, &times));
  m->times = times;
  m->time_count = driver->times.count;
  TN_RETURN_IF_ERROR(tn__alloc(m->allocator, (size_t)driver->times.count, sizeof(tn_phase_time *), 0, &list));
  m->time_list = list;
  TN_RETURN_IF_ERROR(tn__alloc(m->allocator, bytes, 1, 0, &names));
  m->names = names;
  m->names_size = bytes;
  char *at = m->names;
  for (int i = 0; i < m->time_count; i++) {
    size_t length = strlen(driver->times.data[i]->name) + 1;
    m->times[i] = (tn_phase_time){at, driver->times.data[i]->seconds};
    m->time_list[i] = &m->times[i];
    memcpy(at, driver->times.data[i]->name, length);
    at += length;
  }
  return NULL;
}

/* Memory of its own for an executable, which is written at once and therefore not zeroed. */
static tn_status *alloc_bytes(tn_module *m, size_t size) {
  m->memory = tn__realloc(m->allocator, NULL, 0, size, 64);
  m->memory_size = m->memory == NULL ? 0 : size;
  m->data = m->memory;
  m->size = size;
  if (m->memory != NULL) return NULL;
  return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: an executable of %zu bytes", size);
}

static tn_status *join_executable(tn_module *m, const tn__pieces *executable, tn__slab *slab) {
  m->data = slab == NULL || slab->memory == NULL ? NULL : tn__slab_join(slab, executable);
  if (m->data == NULL) {
    TN_RETURN_IF_ERROR(alloc_bytes(m, executable->size));
    tn__pieces_join(executable, m->memory);
    return NULL;
  }
  m->memory = slab->memory;
  m->memory_size = slab->size;
  m->size = executable->size;
  slab->memory = NULL;
  return NULL;
}

tn_status *tn__driver_module_create(const tn__driver *driver, const tn__pieces *executable, tn__file_map *map,
                                    tn__bytes entry, tn_module **out) {
  const tn_allocator *allocator = driver->options->allocator;
  void *memory;
  if (driver->work != NULL && map == NULL) tn__arena_report(driver->arena); /* throws: before there is a module */
  TN_RETURN_IF_ERROR(tn__alloc(allocator, 1, sizeof(tn_module), 0, &memory));
  tn_module *m = memory;
  if (allocator) {
    m->allocator_copy = *allocator;
    m->allocator = &m->allocator_copy;
  }
  tn_status *status = NULL;
  if (map) {
    m->map = *map;
    *map = (tn__file_map){0};
    m->data = entry.data;
    m->size = entry.size;
    m->from_cache = true;
  } else {
    status = join_executable(m, executable, driver->slab);
  }
  if (!status) status = copy_times(m, driver);
  if (status) {
    tn_module_release(m);
    return status;
  }
  *out = m;
  return NULL;
}

/* ---- changes to the bytes --------------------------------------------------------------------------------------- */

/* The first `size` bytes in memory that the module may write to, with `capacity` altogether. */
static tn_status *own(tn_module *module, size_t size, size_t capacity) {
  if (module->memory != NULL && capacity == module->size) return NULL;
  tn_module old = *module;
  tn_status *status = alloc_bytes(module, capacity);
  if (status != NULL) {
    module->memory = old.memory, module->memory_size = old.memory_size;
    module->data = old.data, module->size = old.size;
    return status;
  }
  tn__copy(module->memory, old.data, size);
  tn__free(module->allocator, old.memory, old.memory_size, 64);
  tn__file_map_close(&module->map);
  return NULL;
}

/* Its bytes, when they are its own. */
static char *own_bytes(const tn_module *module) {
  return module->memory + ((const char *)module->data - module->memory);
}

/* The module's own file: sound, and in the layout that exe_writer.c gives it. */
static tn__file_header *header_of(const tn_module *module) { return (void *)own_bytes(module); }

/* The offset of the section's record in the file, or 0. */
static size_t find_section(const tn_module *module, tn__section_kind kind) {
  const tn__file_header *header = module->data;
  for (uint32_t i = 0; i < header->section_count; i++) {
    size_t at = header->header_size + (size_t)i * header->section_record_size;
    const tn__file_section *section = (const void *)((const char *)module->data + at);
    if (section->kind == (uint32_t)kind) return at;
  }
  return 0;
}

static const tn__file_section *section_at(const tn_module *module, size_t at) {
  return (const void *)((const char *)module->data + at);
}

static tn__file_section *own_section_at(const tn_module *module, size_t at) { return (void *)(own_bytes(module) + at); }

static void hash_section(const tn_module *module, tn__file_section *section) {
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update(&hasher, (const char *)module->data + section->offset, section->size);
  tn__digest digest = tn__sha256_final(&hasher);
  memcpy(section->hash, digest.bytes, sizeof(digest.bytes));
}

static void hash_contents(const tn_module *module) {
  tn__file_header *header = header_of(module);
  memset(header->content_hash, 0, sizeof(header->content_hash));
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update(&hasher, header, header->header_size);
  tn__sha256_update(&hasher, (const char *)module->data + header->header_size,
                    (size_t)header->section_count * header->section_record_size);
  tn__digest digest = tn__sha256_final(&hasher);
  memcpy(header->content_hash, digest.bytes, sizeof(digest.bytes));
}

tn_status *tn_module_sign(tn_module *module, const void *key, size_t key_size) {
  TN__NEED("module", module);
  size_t at = find_section(module, TN__SECTION_SIGNATURE);
  if (at == 0 || key == NULL || key_size == 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "a signature needs a key of at least one byte");
  TN_RETURN_IF_ERROR(own(module, module->size, module->size));
  tn__digest signature;
  tn__executable_signature(module->data, key, key_size, &signature);
  tn__file_section *section = own_section_at(module, at);
  memcpy(own_bytes(module) + section->offset, signature.bytes, sizeof(signature.bytes));
  hash_section(module, section);
  hash_contents(module);
  return NULL;
}

/* The pieces of a file of constants. */
typedef struct constants_file {
  union {
    tn__constants_header header;
    uint8_t page[TN__FILE_PAGE];
  } start;
  tn__bytes pieces[2];
} constants_file;

static void fill_constants(const tn_module *module, const tn__file_section *constants, constants_file *file) {
  memset(&file->start, 0, sizeof(file->start));
  memcpy(file->start.header.magic, TN__CONSTANTS_MAGIC, sizeof(file->start.header.magic));
  file->start.header.size = constants->size;
  memcpy(file->start.header.hash, constants->hash, sizeof(file->start.header.hash));
  file->pieces[0] = (tn__bytes){&file->start, sizeof(file->start)};
  file->pieces[1] = (tn__bytes){(const char *)module->data + constants->offset, constants->size};
}

/* The constants are the file's last section: a link takes their place. */
static tn_status *link_constants(tn_module *module, size_t at, const char *name) {
  tn__file_section old = *section_at(module, at);
  size_t length = strlen(name);
  TN_RETURN_IF_ERROR(own(module, old.offset, old.offset + sizeof(tn__link_record) + length));
  tn__link_record link = {.size = old.size, .name = (uint32_t)length};
  memcpy(link.hash, old.hash, sizeof(link.hash));
  tn__file_section *section = own_section_at(module, at);
  section->kind = TN__SECTION_LINK;
  section->size = sizeof(link) + length;
  memcpy(own_bytes(module) + old.offset, &link, sizeof(link));
  memcpy(own_bytes(module) + old.offset + sizeof(link), name, length);
  header_of(module)->file_size = module->size;
  hash_section(module, section);
  hash_contents(module);
  return NULL;
}

/* The record of the constants that are in the module. */
static tn_status *find_constants(const tn_module *module, size_t *at) {
  *at = find_section(module, TN__SECTION_CONSTANTS);
  if (*at != 0) return NULL;
  return tn_status_create(TN_FAILED_PRECONDITION, "the module's constants are in a file of their own already");
}

static const char *name_of_constants(const char *path, const char *name) {
  const char *slash = strrchr(path, '/');
  return name != NULL ? name : slash == NULL ? path : slash + 1;
}

tn_status *tn_module_split(tn_module *module, const char *constants_path, const char *name) {
  TN__NEED("module", module);
  TN__NEED("constants_path", constants_path);
  size_t at;
  constants_file constants;
  TN_RETURN_IF_ERROR(find_constants(module, &at));
  fill_constants(module, section_at(module, at), &constants);
  TN_RETURN_IF_ERROR(tn__file_write_atomic(constants_path, constants.pieces, 2, 0644));
  return link_constants(module, at, name_of_constants(constants_path, name));
}

tn_status *tn_module_save_split(tn_module *module, const char *path, const char *constants_path, const char *name,
                                const void *key, size_t key_size) {
  TN__NEED("module", module);
  TN__NEED("path", path);
  TN__NEED("constants_path", constants_path);
  size_t at;
  constants_file constants;
  if (path == NULL || constants_path == NULL || tn__same_file(path, constants_path))
    return tn_status_create(TN_INVALID_ARGUMENT, "the executable and its constants need a path each");
  TN_RETURN_IF_ERROR(find_constants(module, &at));
  fill_constants(module, section_at(module, at), &constants);
  tn_module rest = *module; /* what is left; the constants stay in the module until both files are there */
  rest.memory = NULL, rest.memory_size = 0;
  rest.map = (tn__file_map){0};
  tn_status *status = link_constants(&rest, at, name_of_constants(constants_path, name));
  if (status == NULL && key != NULL) status = tn_module_sign(&rest, key, key_size);
  tn__bytes piece = {rest.data, rest.size};
  tn__file_contents first = {constants_path, constants.pieces, 2}, second = {path, &piece, 1};
  if (status == NULL) status = tn__file_write_pair(&first, &second, 0644);
  tn_module old = status == NULL ? *module : rest;
  if (status == NULL) *module = rest;
  tn__free(module->allocator, old.memory, old.memory_size, 64);
  tn__file_map_close(&old.map);
  return status;
}
