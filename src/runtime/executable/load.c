/* From bytes to tables: the header, the hashes, and every table but the functions. Nothing in the file is believed:
 * each offset, count and string is checked before it is used. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "runtime/executable/apart.h"
#include "runtime/executable/bytes.h"
#include "runtime/executable/executable.h"
#include "runtime/executable/signature.h"
#include "runtime/format/source_unit.h"
#include "runtime/plugin/plugin.h"

_Static_assert(sizeof(tn__region) % 8 == 0 && sizeof(tn__file_header) == 64 && sizeof(tn__file_section) == 56,
               "the file format has no padding");

static const char *section_name(uint32_t kind) {
  static const char *const names[] = {"",      "strings",     "devices",        "functions", "kernels",
                                      "image", "constants",   "constant table", "producer",  "signature",
                                      "link",  "string data", "sources"};
  return kind <= TN__SECTION_LAST ? names[kind] : kind == TN__SECTION_TEXT ? "text" : "unknown";
}

tn_status *tn__load_corrupt(const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_DATA_LOSS, format, args);
  va_end(args);
  return tn_status_prefix(status, "the executable is damaged");
}

/* A key vouches for the hash of the constants, so it is worth something only when they have that hash. */
static bool verifies_constants(const tn_load_options *options) {
  return options->verify_constants || options->key != NULL;
}

/* ---- header and sections ---------------------------------------------------------------------------------------- */

static tn_status *check_header(const uint8_t *file, size_t size, const tn__file_header *header) {
  if (size < sizeof(*header)) {
    size_t known = size < 8 ? size : 8;
    if (size == 0 || memcmp(file, TN__FILE_MAGIC, known) != 0)
      return tn_status_create(TN_DATA_LOSS, "not a Tenon executable: it does not start with a .tnx header");
    return tn__load_corrupt("it ends after %zu bytes, inside of its header", size);
  }
  if (memcmp(header->magic, TN__FILE_MAGIC, sizeof(header->magic)) != 0)
    return tn_status_create(TN_DATA_LOSS, "not a Tenon executable: it does not start with a .tnx header");
  if (header->major != TN__FILE_MAJOR)
    return tn_status_create(
        TN_UNSUPPORTED,
        "the executable has format version %u.%u and this Tenon (%s) reads %u.x: compile the model anew, "
        "or use the Tenon that goes with it",
        header->major, header->minor, tn_version(), TN__FILE_MAJOR);
  if (header->file_size > size)
    return tn__load_corrupt("it is truncated: %zu of %llu bytes are there", size,
                            (unsigned long long)header->file_size);
  if (header->file_size < size)
    return tn__load_corrupt("%llu bytes follow after its end", (unsigned long long)(size - header->file_size));
  if (header->header_size < sizeof(*header) || header->header_size % 8 != 0 || header->header_size > size)
    return tn__load_corrupt("its header says that it has %u bytes", header->header_size);
  return tn__load_check_table("sections", size, header->header_size, header->section_count, header->section_record_size,
                              sizeof(tn__file_section));
}

tn_status *tn__load_check_table(const char *what, uint64_t section_size, uint64_t offset, uint64_t count, uint64_t size,
                                uint64_t known) {
  if (size < known || size % 4 != 0 || (known % 8 == 0 && size % 8 != 0))
    return tn__load_corrupt("the records of its %s have %llu bytes, which should be %llu", what,
                            (unsigned long long)size, (unsigned long long)known);
  /* count and size are 32-bit in the file, so the product fits */
  if (offset % 8 != 0 || offset > section_size || count > UINT32_MAX || size > UINT32_MAX ||
      count * size > section_size - offset)
    return tn__load_corrupt("its %s (%llu of %llu bytes at %llu) do not fit into %llu bytes", what,
                            (unsigned long long)count, (unsigned long long)size, (unsigned long long)offset,
                            (unsigned long long)section_size);
  return NULL;
}

static tn_status *check_content_hash(const uint8_t *file, const tn__file_header *header) {
  tn__file_header blank = *header;
  memset(blank.content_hash, 0, sizeof(blank.content_hash));
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update(&hasher, &blank, sizeof(blank));
  tn__sha256_update(&hasher, file + sizeof(blank), header->header_size - sizeof(blank));
  tn__sha256_update(&hasher, file + header->header_size, (size_t)header->section_count * header->section_record_size);
  tn__digest digest = tn__sha256_final(&hasher);
  if (memcmp(digest.bytes, header->content_hash, sizeof(digest.bytes)) == 0) return NULL;
  return tn__load_corrupt("its header or section table was changed after it was written (the hash differs)");
}

static tn_status *check_place(size_t file_size, const tn__file_section *section) {
  uint64_t align = section->kind == TN__SECTION_IMAGE || section->kind == TN__SECTION_CONSTANTS ? TN__FILE_PAGE : 8;
  if (section->offset % align == 0 && section->offset <= file_size && section->size <= file_size - section->offset)
    return NULL;
  return tn__load_corrupt("its section of %s (%llu bytes at %llu) does not fit into %zu bytes",
                          section_name(section->kind), (unsigned long long)section->size,
                          (unsigned long long)section->offset, file_size);
}

static tn_status *check_hash(const uint8_t *file, const tn__file_section *section) {
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update(&hasher, file + section->offset, section->size);
  tn__digest digest = tn__sha256_final(&hasher);
  if (memcmp(digest.bytes, section->hash, sizeof(digest.bytes)) == 0) return NULL;
  return tn__load_corrupt("its section of %s was changed after it was written (the hash differs)",
                          section_name(section->kind));
}

/* No hash covers what lies between sections, so nothing may hide there. */
static tn_status *check_padding(const uint8_t *file, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; i++)
    if (file[i] != 0)
      return tn__load_corrupt("byte %llu lies between its sections and is not zero", (unsigned long long)i);
  return NULL;
}

static tn_status *find_sections(tn_executable *exe, const tn__file_header *header, bool verify_constants) {
  const uint8_t *table = exe->file + header->header_size;
  uint64_t end = header->header_size + (uint64_t)header->section_count * header->section_record_size;
  for (uint32_t i = 0; i < header->section_count; i++) {
    const tn__file_section *section = (const void *)(table + (size_t)i * header->section_record_size);
    if (section->offset < end)
      return tn__load_corrupt("its section of %s at %llu begins before what precedes it has ended",
                              section_name(section->kind), (unsigned long long)section->offset);
    TN_RETURN_IF_ERROR(check_place(exe->file_size, section));
    TN_RETURN_IF_ERROR(check_padding(exe->file, end, section->offset));
    end = section->offset + section->size;
    if (section->kind != TN__SECTION_CONSTANTS || verify_constants) TN_RETURN_IF_ERROR(check_hash(exe->file, section));
    if (section->kind == TN__SECTION_TEXT) exe->text_count++;
    if (section->kind == 0 || section->kind > TN__SECTION_LAST) continue;
    if (exe->sections[section->kind] != NULL)
      return tn__load_corrupt("it has two sections of %s", section_name(section->kind));
    exe->sections[section->kind] = section;
  }
  TN_RETURN_IF_ERROR(check_padding(exe->file, end, exe->file_size));
  for (uint32_t kind = 1; kind <= TN__SECTION_PRODUCER; kind++) {
    bool elsewhere = kind == TN__SECTION_CONSTANTS && exe->sections[TN__SECTION_LINK] != NULL;
    if (exe->sections[kind] == NULL && !elsewhere)
      return tn__load_corrupt("it has no section of %s", section_name(kind));
  }
  return NULL;
}

/* What a key vouches for: the header, and the record of every section but the signature, with the section's kind, name,
 * place and hash. */
void tn__executable_signature(const uint8_t *file, const void *key, size_t key_size, tn__digest *out) {
  tn__file_header header;
  memcpy(&header, file, sizeof(header));
  memset(header.content_hash, 0, sizeof(header.content_hash));
  tn__sha256 hasher;
  tn__hmac_begin(&hasher, key, key_size);
  tn__sha256_update(&hasher, &header, sizeof(header));
  tn__sha256_update(&hasher, file + sizeof(header), header.header_size - sizeof(header));
  for (uint32_t i = 0; i < header.section_count; i++) {
    const tn__file_section *section =
        (const void *)(file + header.header_size + (size_t)i * header.section_record_size);
    if (section->kind != TN__SECTION_SIGNATURE) tn__sha256_update(&hasher, section, header.section_record_size);
  }
  *out = tn__hmac_end(&hasher, key, key_size);
}

static uint64_t align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

/* No key vouches for the signature's own record, so nothing in it may be chosen: it has no name, fields of later
 * versions are zero, and it follows on the section before it as the writer places it. */
static bool signature_is_in_place(const uint8_t *file, const tn__file_section *signature) {
  const tn__file_header *header = (const void *)file;
  const uint8_t *record = (const uint8_t *)signature, *first = file + header->header_size;
  const tn__file_section *before = record == first ? NULL : (const void *)(record - header->section_record_size);
  uint64_t end = header->header_size + (uint64_t)header->section_count * header->section_record_size;
  if (before != NULL) end = before->offset + before->size;
  if (before != NULL && before->kind == TN__SECTION_IMAGE) end = align_up(end, TN__FILE_PAGE);
  for (size_t i = sizeof(*signature); i < header->section_record_size; i++)
    if (record[i] != 0) return false;
  return signature->name == TN__NO_STRING && signature->offset == align_up(end, TN__FILE_ALIGN);
}

static tn_status *check_signature(const tn_executable *exe, const tn_load_options *options) {
  if (options->key == NULL) return NULL;
  static const uint8_t none[TN__SIGNATURE_SIZE];
  const tn__file_section *section = exe->sections[TN__SECTION_SIGNATURE];
  const uint8_t *signature = section == NULL ? none : exe->file + section->offset;
  if (section != NULL && section->size != TN__SIGNATURE_SIZE)
    return tn__load_corrupt("its signature has %llu bytes", (unsigned long long)section->size);
  if (section != NULL && !signature_is_in_place(exe->file, section))
    return tn__load_corrupt("its signature is named, or not where the section before it ends");
  if (memcmp(signature, none, sizeof(none)) == 0)
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "the executable is not signed, and a key was given to check it with");
  tn__digest wanted;
  tn__executable_signature(exe->file, options->key, options->key_size, &wanted);
  if (tn__digest_equal(wanted.bytes, signature)) return NULL;
  return tn_status_create(TN_DATA_LOSS, "the executable's signature does not belong to this key and these contents");
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

static tn_status *check_constants_file(const tn_executable *exe, const tn__link_record *link, bool verify) {
  const tn__file_map *map = &exe->constants_map;
  const tn__constants_header *header = (const void *)map->data;
  if (map->size < TN__FILE_PAGE || memcmp(header->magic, TN__CONSTANTS_MAGIC, sizeof(header->magic)) != 0)
    return tn_status_create(TN_DATA_LOSS, "not a file of constants: it does not start with such a header");
  for (size_t i = sizeof(*header); i < TN__FILE_PAGE; i++)
    if (map->data[i] != 0) return tn_status_create(TN_DATA_LOSS, "byte %zu lies behind its header and is not zero", i);
  if (header->size != map->size - TN__FILE_PAGE)
    return tn_status_create(TN_DATA_LOSS, "it is truncated or grew: %zu bytes are there, and its header says %llu",
                            map->size - TN__FILE_PAGE, (unsigned long long)header->size);
  bool same = link->size == header->size && memcmp(link->hash, header->hash, sizeof(link->hash)) == 0;
  if (same && verify) {
    tn__sha256 hasher;
    tn__sha256_init(&hasher);
    tn__sha256_update(&hasher, map->data + TN__FILE_PAGE, header->size);
    tn__digest digest = tn__sha256_final(&hasher);
    if (memcmp(digest.bytes, link->hash, sizeof(link->hash)) != 0)
      return tn_status_create(TN_DATA_LOSS, "its constants were changed after they were written (the hash differs)");
  }
  if (same) return NULL;
  char want[65], have[65];
  tn__digest digests[2];
  memcpy(digests[0].bytes, link->hash, sizeof(link->hash));
  memcpy(digests[1].bytes, header->hash, sizeof(header->hash));
  tn__digest_hex(&digests[0], want);
  tn__digest_hex(&digests[1], have);
  return tn_status_create(TN_DATA_LOSS,
                          "its constants have the hash %.16s and the executable was compiled with %.16s: they do not "
                          "belong together",
                          have, want);
}

/* Accepts only a plain file name, not a path: the file lies beside the executable. */
static bool is_plain_name(const tn__link_record *link) {
  const char *name = (const char *)(link + 1);
  bool dots = (link->name == 1 || link->name == 2) && memcmp(name, "..", link->name) == 0;
  return link->name > 0 && !dots && memchr(name, '/', link->name) == NULL && memchr(name, '\0', link->name) == NULL;
}

/* The folder of `path` and the name in the link, in a region block. */
static tn_status *constants_path(tn_executable *exe, const char *path, const tn__link_record *link, char **out) {
  const char *name = (const char *)(link + 1), *slash = path == NULL ? NULL : strrchr(path, '/');
  size_t folder = slash == NULL ? 0 : (size_t)(slash - path) + 1;
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, 1, folder + link->name + 1, out));
  if (folder > 0) memcpy(*out, path, folder);
  memcpy(*out + folder, name, link->name);
  return NULL;
}

tn_status *tn__executable_constants_beside(tn_executable *exe, const char *path, const char **out) {
  const tn__file_section *where = exe->sections[TN__SECTION_LINK];
  char *beside = NULL;
  if (exe->sections[TN__SECTION_CONSTANTS] == NULL)
    TN_RETURN_IF_ERROR(constants_path(exe, path, (const void *)(exe->file + where->offset), &beside));
  *out = beside;
  return NULL;
}

tn_status *tn__load_constants(tn_executable *exe, const char *path, const tn_load_options *options) {
  const tn__file_section *own = exe->sections[TN__SECTION_CONSTANTS], *where = exe->sections[TN__SECTION_LINK];
  if (own != NULL) {
    exe->constant_data = exe->file + own->offset, exe->constant_bytes = own->size;
    return NULL;
  }
  const tn__link_record *link = (const void *)(exe->file + where->offset);
  if (where->size < sizeof(*link) || link->name > where->size - sizeof(*link))
    return tn__load_corrupt("its link to a file of constants has %llu bytes", (unsigned long long)where->size);
  if (!is_plain_name(link)) return tn__load_corrupt("its link to a file of constants leads to another folder");
  const char *file = options->constants_path;
  char *kept;
  if (file == NULL) {
    TN_RETURN_IF_ERROR(constants_path(exe, path, link, &kept));
  } else {
    TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, 1, strlen(file) + 1, &kept));
    memcpy(kept, file, strlen(file));
  }
  file = exe->constants_file = kept;
  TN_RETURN_IF_ERROR(
      tn_status_prefix(tn__file_map_open(file, &exe->constants_map), "the constants are in a file of their own"));
  TN_RETURN_IF_ERROR(tn_status_prefix(check_constants_file(exe, link, verifies_constants(options)), "%s", file));
  exe->constant_data = exe->constants_map.data + TN__FILE_PAGE, exe->constant_bytes = link->size;
  return NULL;
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

tn_status *tn__load_check_string(const tn_executable *exe, uint32_t offset, const char *what, const char **out) {
  if (offset >= exe->strings_size)
    return tn__load_corrupt("the text of %s is at %u, outside of its strings", what, offset);
  *out = exe->strings + offset;
  return NULL;
}

static const uint8_t *section_data(const tn_executable *exe, uint32_t kind) {
  return exe->file + exe->sections[kind]->offset;
}

/* The header of a table whose records follow it at once. */
static tn_status *open_table(const tn_executable *exe, uint32_t kind, size_t known, tn__table_header *header,
                             const uint8_t **records) {
  uint64_t size = exe->sections[kind]->size;
  const char *name = section_name(kind);
  if (size < sizeof(*header))
    return tn__load_corrupt("its section of %s has %llu bytes", name, (unsigned long long)size);
  memcpy(header, section_data(exe, kind), sizeof(*header));
  *records = section_data(exe, kind) + sizeof(*header);
  return tn__load_check_table(name, size, sizeof(*header), header->count, header->record_size, known);
}

static tn_status *load_strings(tn_executable *exe) {
  exe->strings = (const char *)section_data(exe, TN__SECTION_STRINGS);
  exe->strings_size = exe->sections[TN__SECTION_STRINGS]->size;
  if (exe->strings_size == 0 || exe->strings_size > UINT32_MAX || exe->strings[0] != '\0' ||
      exe->strings[exe->strings_size - 1] != '\0')
    return tn__load_corrupt("its strings do not begin and end with a zero byte");
  uint64_t size = exe->sections[TN__SECTION_PRODUCER]->size;
  char *producer;
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, 1, size + 1, &producer));
  memcpy(producer, section_data(exe, TN__SECTION_PRODUCER), size);
  exe->producer = producer;
  return NULL;
}

static tn_status *load_texts(tn_executable *exe, const tn__file_header *header) {
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, exe->text_count, sizeof(tn__text_entry), &exe->texts));
  const uint8_t *table = exe->file + header->header_size;
  uint32_t n = 0;
  for (uint32_t i = 0; i < header->section_count; i++) {
    const tn__file_section *section = (const void *)(table + (size_t)i * header->section_record_size);
    if (section->kind != TN__SECTION_TEXT) continue;
    tn__text_entry *text = &exe->texts[n++];
    TN_RETURN_IF_ERROR(tn__load_check_string(exe, section->name, "a text section", &text->name));
    text->data = (const char *)exe->file + section->offset;
    text->size = section->size;
  }
  return NULL;
}

/* `have`: what this machine grants of the features that any of the devices needs. */
static tn_status *check_cpu(const tn__device_record *device, tn__features have, const char *target) {
  tn__arch host = tn__host_arch();
  if (device->arch != (uint32_t)host)
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "the executable was compiled for %s and this machine is %s: compile it for this "
                            "one, or run it there",
                            target, tn__arch_name(host));
  char missing[256];
  if (!tn__target_missing(host, device->features, have, missing, sizeof(missing))) return NULL;
  return tn_status_create(
      TN_FAILED_PRECONDITION,
      "the executable was compiled for %s and this CPU lacks %s: compile it for this machine's features", target,
      missing);
}

/* The driver of a device; NULL: the runtime has none. */
static const tn__device_driver *find_driver(DLDeviceType type) {
  static const tn__device_driver *const drivers[] = {&tn__device_cpu, &tn__device_island};
  for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
    if (type == drivers[i]->type) return drivers[i];
  return NULL;
}

/* The unit of a device's kernels, where they are source. */
static tn_status *load_source(tn_executable *exe, uint32_t number, const tn__device_record *record, size_t known) {
  if (known < sizeof(*record) || record->source_size == 0) return NULL;
  const tn__file_section *section = exe->sections[TN__SECTION_SOURCES];
  if (section == NULL || record->source % 8 != 0 || record->source > section->size ||
      record->source_size > section->size - record->source)
    return tn__load_corrupt("the sources of device %u are outside of their section", number);
  exe->sources[number] = (tn__bytes){exe->file + section->offset + record->source, record->source_size};
  return tn_status_prefix(tn__source_unit_check(exe->sources[number].data, exe->sources[number].size),
                          "the executable is damaged: device %u", number);
}

/* One that takes another's place has its memory in global where it lacks the other's scope: it shows what a program
 * computes. */
static tn_status *check_scope(const tn_executable *exe, uint32_t number, const tn__device_record *record) {
  const tn__device_driver *driver = exe->drivers[number];
  const DLDevice *device = &exe->devices[number];
  char list[128];
  if (driver == NULL || tn__device_has_scope(driver, exe->scopes[number])) return NULL;
  if ((int32_t)device->device_type != record->device_type || device->device_id != record->device_id) {
    exe->scopes[number] = TN__MEMORY_GLOBAL;
    return NULL;
  }
  tn__memory_scope_list(driver->scopes | 1u << TN__MEMORY_GLOBAL, list, sizeof list);
  return tn_status_create(TN_UNSUPPORTED, "the executable wants the memory \"%s\" of %s:%d, which has %s",
                          tn__memory_scope_name(exe->scopes[number]), tn__rt_device_name(device->device_type),
                          device->device_id, list);
}

static tn_status *find_driver_of(tn_executable *exe, const tn_load_options *options, uint32_t number,
                                 const tn__device_record *record) {
  DLDevice *device = &exe->devices[number];
  const tn__device_driver *own = exe->drivers[number] = find_driver(device->device_type);
  if (options->concurrent_islands && own == &tn__device_island) exe->drivers[number] = &tn__device_island_concurrent;
  const char *name = tn__rt_device_name(device->device_type);
  if (number == 0 && own != &tn__device_cpu) return tn__load_corrupt("its first device is not the CPU");
  if (own != NULL && exe->sources[number].size > 0) {
    const tn__source_unit *unit = exe->sources[number].data;
    if (own != &tn__device_cpu || unit->language != TN__SOURCE_C99)
      return tn__load_corrupt("it has sources for %s:%d, whose code is native", name, device->device_id);
    if (!exe->verify_only)
      return tn_status_create(TN_UNSUPPORTED,
                              "the kernels for %s:%d are C99, which a compiler of C has to translate: `tenon compile "
                              "--target c99 --emit c` writes the model as a C file and a header; to run it here, "
                              "compile it for this machine",
                              name, device->device_id);
  }
  if (own == NULL && name == NULL)
    return tn_status_create(TN_UNSUPPORTED,
                            "the executable wants a device of type %d, which this runtime does not know",
                            record->device_type);
  if (exe->verify_only || own != NULL) return NULL;
  return tn_status_prefix(tn__plugin_driver(device->device_type, name, &exe->drivers[number]),
                          "the executable is for %s:%d", name, device->device_id);
}

static tn_status *load_device(tn_executable *exe, const tn_load_options *options, uint32_t number,
                              const tn__device_record *record) {
  TN_RETURN_IF_ERROR(find_driver_of(exe, options, number, record));
  return check_scope(exe, number, record);
}

/* Which device it is, and the first of its memories, which is global and has its code. */
static tn_status *find_home(tn_executable *exe, uint32_t number, const tn__device_record *record) {
  const char *scope;
  exe->devices[number] = (DLDevice){(DLDeviceType)record->device_type, record->device_id};
  TN_RETURN_IF_ERROR(tn__load_check_string(exe, record->memory_scope, "a device's memory scope", &scope));
  int found = scope[0] == '\0' ? TN__MEMORY_GLOBAL : tn__memory_scope_find(scope);
  if (found < 0)
    return tn_status_create(
        TN_UNSUPPORTED, "the executable wants the memory \"%s\" of a device, which this runtime does not know", scope);
  exe->scopes[number] = (tn__memory_scope)found;
  exe->homes[number] = number;
  for (uint32_t k = 0; k < number; k++) {
    if (!tn__load_same_device(exe->devices[k], exe->devices[number])) continue;
    if (exe->scopes[k] == exe->scopes[number]) return tn__load_corrupt("devices %u and %u are one", k, number);
    if (exe->scopes[k] == TN__MEMORY_GLOBAL) exe->homes[number] = k;
  }
  if ((exe->homes[number] == number) == (found == TN__MEMORY_GLOBAL)) return NULL;
  return tn__load_corrupt("device %u is the memory \"%s\" of one that does not come before it", number, scope);
}

static tn_status *load_devices(tn_executable *exe, const tn_load_options *options) {
  tn__table_header header;
  const uint8_t *records;
  TN_RETURN_IF_ERROR(open_table(exe, TN__SECTION_DEVICES, TN__DEVICE_RECORD_1_0, &header, &records));
  if (header.count == 0) return tn__load_corrupt("it names no device");
  if (header.count > TN__MOST_DEVICES)
    return tn__load_corrupt("it names %u devices, more than %d", header.count, TN__MOST_DEVICES);
  exe->device_count = header.count;
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, header.count, sizeof(DLDevice), &exe->devices));
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, header.count, sizeof(exe->drivers[0]), &exe->drivers));
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, header.count, sizeof(exe->sources[0]), &exe->sources));
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, header.count, sizeof(exe->targets[0]), &exe->targets));
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, header.count, sizeof(exe->homes[0]), &exe->homes));
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, header.count, sizeof(exe->scopes[0]), &exe->scopes));
  for (uint32_t i = 0; i < header.count; i++)
    TN_RETURN_IF_ERROR(find_home(exe, i, (const void *)(records + (size_t)i * header.record_size)));
  TN_RETURN_IF_ERROR(tn__load_map_devices(exe, options));
  tn__features needed = 0;
  for (uint32_t i = 0; i < header.count; i++)
    needed |= ((const tn__device_record *)(const void *)(records + (size_t)i * header.record_size))->features;
  tn__features have = exe->verify_only ? 0 : tn__host_granted(needed); /* once: asking takes long on virtual machines */
  exe->host_id = exe->devices[0].device_id;
  exe->devices[0].device_id = 0; /* whatever its number among the devices of the compilation: callers' tensors say 0 */
  TN_RETURN_IF_ERROR(tn__load_limits(exe, options));
  for (uint32_t i = 0; i < header.count; i++) {
    const tn__device_record *record = (const void *)(records + (size_t)i * header.record_size);
    const char *target;
    TN_RETURN_IF_ERROR(tn__load_check_string(exe, record->target, "a device's target", &target));
    TN_RETURN_IF_ERROR(load_source(exe, i, record, header.record_size));
    TN_RETURN_IF_ERROR(load_device(exe, options, i, record));
    if (!exe->verify_only && find_driver(exe->devices[i].device_type))
      TN_RETURN_IF_ERROR(check_cpu(record, have, target));
    exe->targets[i] = target;
  }
  return NULL;
}

static tn_status *check_source_kernel(const tn_executable *exe, const tn__kernel_record *record, const char *name) {
  const tn__bytes *source = &exe->sources[record->device];
  const tn__source_kernel *kernel = source->size == 0 ? NULL : tn__source_unit_kernel(source->data, record->offset);
  if (kernel == NULL || record->buffer_count != kernel->buffer_count + kernel->has_workspace ||
      record->scalar_count != kernel->scalar_count)
    return tn__load_corrupt("kernel \"%s\" is not what the sources of its device have at %llu", name,
                            (unsigned long long)record->offset);
  return NULL;
}

static tn_status *load_kernels(tn_executable *exe) {
  tn__table_header header;
  const uint8_t *records;
  TN_RETURN_IF_ERROR(open_table(exe, TN__SECTION_KERNELS, sizeof(tn__kernel_record), &header, &records));
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, header.count, sizeof(tn__kernel_entry), &exe->kernels));
  exe->kernel_count = header.count;
  for (uint32_t i = 0; i < header.count; i++) {
    const tn__kernel_record *record = (const void *)(records + (size_t)i * header.record_size);
    tn__kernel_entry *kernel = &exe->kernels[i];
    TN_RETURN_IF_ERROR(tn__load_check_string(exe, record->name, "a kernel", &kernel->about.name));
    tn_kernel apart = exe->apart == NULL || exe->apart->kernels == NULL ? NULL : exe->apart->kernels[i];
    if (record->device >= exe->device_count)
      return tn__load_corrupt("kernel \"%s\" is for device %u of %u", kernel->about.name, record->device,
                              exe->device_count);
    if (exe->homes[record->device] != record->device)
      return tn__load_corrupt("kernel \"%s\" is for device %u, which is a memory of device %u", kernel->about.name,
                              record->device, exe->homes[record->device]);
    bool source =
        find_driver(exe->devices[record->device].device_type) == NULL || exe->sources[record->device].size > 0;
    if (source) TN_RETURN_IF_ERROR(check_source_kernel(exe, record, kernel->about.name));
    if (apart == NULL && !source &&
        (record->size == 0 || record->offset > exe->image_size || record->size > exe->image_size - record->offset))
      return tn__load_corrupt("kernel \"%s\" is at %llu with %llu bytes in an image of %zu", kernel->about.name,
                              (unsigned long long)record->offset, (unsigned long long)record->size, exe->image_size);
    /* ISO C has no conversion from data to function pointers; POSIX has. */
    const uint8_t *entry = exe->image + record->offset;
    if (!source)
      memcpy(&kernel->call, apart == NULL ? (const void *)&entry : (const void *)&apart, sizeof(kernel->call));
    kernel->offset = record->offset;
    kernel->device = record->device;
    kernel->buffer_count = record->buffer_count, kernel->scalar_count = record->scalar_count;
    kernel->about.code_bytes = record->size;
    kernel->about.flops = record->flops, kernel->about.bytes = record->bytes;
  }
  return NULL;
}

static tn_status *load_constant(tn_executable *exe, const tn__constant_record *record, const void *place,
                                tn__constant_entry *constant) {
  const tn__file_section *table = exe->sections[TN__SECTION_CONSTANT_TABLE];
  TN_RETURN_IF_ERROR(tn__load_check_string(exe, record->name, "a constant", &constant->name));
  size_t element = tn__dtype_stored((tn_dtype)record->dtype);
  if (element == 0 || record->rank > TN_MAX_RANK || record->device >= exe->device_count)
    return tn__load_corrupt("constant \"%s\" has type %u, rank %u and device %u", constant->name, record->dtype,
                            record->rank, record->device);
  TN_RETURN_IF_ERROR(tn__load_check_table("constant's dimensions", table->size, record->dims, record->rank, 8, 8));
  constant->device = record->device;
  if (record->device != 0 && record->dtype == TN_STRING)
    return tn__load_corrupt("constant \"%s\" is of strings, and not on the host", constant->name);
  constant->dtype = (tn_dtype)record->dtype;
  constant->rank = (int)record->rank;
  constant->dims = (const int64_t *)(const void *)(exe->file + table->offset + record->dims);
  int64_t count = tn_element_count(constant->rank, constant->dims), bytes;
  if (count < 0 || tn__mul_overflow_i64(count, (int64_t)element, &bytes) || (uint64_t)bytes != record->size)
    return tn__load_corrupt("constant \"%s\" has %llu bytes, which its shape does not have", constant->name,
                            (unsigned long long)record->size);
  constant->size = record->size;
  if (place != NULL) {
    constant->data = place;
    return NULL;
  }
  if (record->offset % TN__FILE_ALIGN != 0 || record->offset > exe->constant_bytes ||
      record->size > exe->constant_bytes - record->offset)
    return tn__load_corrupt("constant \"%s\" (%llu bytes at %llu) does not fit into %llu bytes", constant->name,
                            (unsigned long long)record->size, (unsigned long long)record->offset,
                            (unsigned long long)exe->constant_bytes);
  constant->data = exe->constant_data + record->offset;
  return NULL;
}

static void load_string_data(tn_executable *exe) {
  const tn__file_section *section = exe->sections[TN__SECTION_STRING_DATA];
  if (section == NULL) return;
  exe->string_data = exe->file + section->offset, exe->string_bytes = section->size;
}

static tn_status *load_constants(tn_executable *exe) {
  tn__table_header header;
  const uint8_t *records;
  TN_RETURN_IF_ERROR(open_table(exe, TN__SECTION_CONSTANT_TABLE, sizeof(tn__constant_record), &header, &records));
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, header.count, sizeof(tn__constant_entry), &exe->constants));
  exe->constant_count = header.count;
  for (uint32_t i = 0; i < header.count; i++) {
    const void *record = records + (size_t)i * header.record_size;
    const void *place = exe->apart == NULL ? NULL : exe->apart->constants[i];
    TN_RETURN_IF_ERROR(load_constant(exe, record, place, &exe->constants[i]));
  }
  return NULL;
}

tn_status *tn__load_sections(tn_executable *exe, const tn_load_options *options) {
  const tn__file_header *header = (const void *)exe->file;
  TN_RETURN_IF_ERROR(check_header(exe->file, exe->file_size, header));
  TN_RETURN_IF_ERROR(check_content_hash(exe->file, header));
  TN_RETURN_IF_ERROR(find_sections(exe, header, verifies_constants(options)));
  TN_RETURN_IF_ERROR(check_signature(exe, options));
  TN_RETURN_IF_ERROR(load_strings(exe));
  TN_RETURN_IF_ERROR(load_texts(exe, header));
  return load_devices(exe, options);
}

tn_status *tn__load_tables(tn_executable *exe) {
  TN_RETURN_IF_ERROR(load_kernels(exe));
  load_string_data(exe);
  return load_constants(exe);
}
