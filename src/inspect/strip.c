/* Executables without their texts: sections are left out and those behind them move up. Nothing is compiled. */
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/beside.h"
#include "base/file.h"
#include "driver/driver.h"
#include "kernels/texts.h"
#include "runtime/executable/bytes.h"
#include "runtime/executable/signature.h"
#include "runtime/format/format.h"

typedef struct strip_call {
  const char *path, *out_path;
  unsigned texts; /* to keep */
  const tn_load_options *options;
} strip_call;

typedef struct stripped {
  tn__arena *arena;
  const uint8_t *file;
  const tn__file_header *old;
  tn__file_header *header; /* the new one, with the section records behind it */
  uint8_t signature[TN__SIGNATURE_SIZE];
  TN__VEC(tn__bytes) pieces;
  uint64_t at; /* bytes of all pieces so far */
} stripped;

static void release_executable(void *executable) { tn_executable_release(executable); }

static const tn__file_section *old_section(const stripped *s, uint32_t index) {
  return (const void *)(s->file + s->old->header_size + (size_t)index * s->old->section_record_size);
}

static tn__file_section *new_section(const stripped *s, uint32_t index) {
  return (void *)((uint8_t *)s->header + s->old->header_size + (size_t)index * s->old->section_record_size);
}

static const char *name_of(const stripped *s, const tn__file_section *section) {
  for (uint32_t i = 0; i < s->old->section_count; i++)
    if (old_section(s, i)->kind == TN__SECTION_STRINGS)
      return (const char *)s->file + old_section(s, i)->offset + section->name;
  return "";
}

/* Is it a text that nobody wants? Sections of other kinds stay, also those that only a later version knows. */
static bool leaves(const stripped *s, const tn__file_section *section, unsigned texts) {
  return section->kind == TN__SECTION_TEXT && (texts & tn__kernels_text_of_name(name_of(s, section))) == 0;
}

static void add_piece(stripped *s, const void *data, uint64_t size) {
  tn__bytes piece = {data, size};
  if (size > 0) tn__vec_push(s->arena, &s->pieces, piece);
  s->at += size;
}

static void pad(stripped *s, uint64_t alignment) {
  static const uint8_t zeros[TN__FILE_PAGE];
  uint64_t rest = s->at % alignment;
  if (rest > 0) add_piece(s, zeros, alignment - rest);
}

/* What it is sure to want, for a section that this version does not know: what its place had. */
static uint64_t alignment_of(const tn__file_section *section) {
  if (section->kind == TN__SECTION_IMAGE || section->kind == TN__SECTION_CONSTANTS) return TN__FILE_PAGE;
  if (section->kind <= TN__SECTION_LAST || section->kind == TN__SECTION_TEXT) return TN__FILE_ALIGN;
  uint64_t alignment = section->offset & -section->offset;
  return alignment < TN__FILE_PAGE ? alignment : TN__FILE_PAGE;
}

static tn__digest hash_of(const void *data, size_t size) {
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update(&hasher, data, size);
  return tn__sha256_final(&hasher);
}

/* Lays out what stays, with room for another signature; returns its record, or NULL. */
static tn__file_section *keep_sections(stripped *s, unsigned texts) {
  tn__file_section *signature = NULL;
  for (uint32_t i = 0; i < s->old->section_count; i++) {
    const tn__file_section *section = old_section(s, i);
    if (leaves(s, section, texts)) continue;
    tn__file_section *moved = new_section(s, s->header->section_count++);
    memcpy(moved, section, s->old->section_record_size);
    pad(s, alignment_of(section));
    moved->offset = s->at;
    if (section->kind == TN__SECTION_SIGNATURE) {
      signature = moved;
      add_piece(s, s->signature, sizeof s->signature);
    } else {
      add_piece(s, s->file + section->offset, section->size);
    }
    if (section->kind == TN__SECTION_IMAGE) pad(s, TN__FILE_PAGE); /* code shares its last page with nothing */
  }
  return signature;
}

static void sign(stripped *s, tn__file_section *record, const strip_call *call) {
  const tn_load_options *options = call->options;
  static const uint8_t none[TN__SIGNATURE_SIZE];
  const tn__file_section *old = NULL;
  for (uint32_t i = 0; i < s->old->section_count; i++)
    if (old_section(s, i)->kind == TN__SECTION_SIGNATURE) old = old_section(s, i);
  if (record == NULL || old == NULL) return;
  if (options->key == NULL && memcmp(s->file + old->offset, none, sizeof none) != 0)
    tn__throwf(s->arena->escape, TN_FAILED_PRECONDITION,
               "%s: the executable is signed, and what is left of it must be signed again: give the key", call->path);
  if (options->key != NULL) {
    tn__digest signature;
    tn__executable_signature((const uint8_t *)s->header, options->key, options->key_size, &signature);
    memcpy(s->signature, signature.bytes, sizeof s->signature);
  }
  tn__digest hash = hash_of(s->signature, sizeof s->signature);
  memcpy(record->hash, hash.bytes, sizeof record->hash);
}

/* The file with the executable's constants, which was opened to verify them; NULL: they are inside. */
static const char *constants_of(tn__arena *arena, const strip_call *call, tn_executable *exe) {
  const char *file;
  tn__check(arena->escape, tn__executable_constants_beside(exe, call->path, &file));
  if (file != NULL && call->options->constants_path != NULL) file = call->options->constants_path;
  if (file != NULL && tn__same_file(call->out_path, file))
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "the result would take the place of the constants in \"%s\"", file);
  return file;
}

/* In another folder the result finds its constants only when they are brought there. */
static void tell_of_constants(tn__arena *arena, const strip_call *call, tn_executable *exe, const char *constants) {
  const char *wanted;
  tn__check(arena->escape, tn__executable_constants_beside(exe, call->out_path, &wanted));
  if (wanted != NULL) tn__tell_of_constants(call->options->log, call->out_path, wanted, constants);
}

static void strip_body(tn__arena *arena, void *user) {
  const strip_call *call = user;
  tn_executable *exe;
  tn__check(arena->escape, tn__executable_open(call->path, call->options, &exe));
  tn__arena_defer(arena, release_executable, exe);
  const void *file = tn__executable_bytes(exe);
  const char *constants = constants_of(arena, call, exe);
  stripped s = {.arena = arena, .file = file, .old = file};
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s.old->section_count; i++) kept += !leaves(&s, old_section(&s, i), call->texts);
  size_t head = s.old->header_size + (size_t)kept * s.old->section_record_size;
  s.header = tn__arena_alloc(arena, head);
  memcpy(s.header, s.old, s.old->header_size);
  s.header->section_count = 0;
  add_piece(&s, s.header, head);
  tn__file_section *signature = keep_sections(&s, call->texts);
  s.header->file_size = s.at;
  memset(s.header->content_hash, 0, sizeof s.header->content_hash);
  sign(&s, signature, call);
  tn__digest hash = hash_of(s.header, head);
  memcpy(s.header->content_hash, hash.bytes, sizeof s.header->content_hash);
  tn__check(arena->escape, tn__file_write_atomic(call->out_path, s.pieces.data, s.pieces.count, 0644));
  tell_of_constants(arena, call, exe, constants);
}

tn_status *tn_executable_strip(const char *path, const char *texts, const tn_load_options *options,
                               const char *out_path) {
  TN__NEED("path", path);
  TN__NEED("out_path", out_path);
  tn_load_options all;
  TN_RETURN_IF_ERROR(tn__load_options_read(options, &all));
  strip_call call = {.path = path, .out_path = out_path, .options = &all};
  TN_RETURN_IF_ERROR(tn__kernels_texts_parse(texts ? texts : "none", &call.texts));
  return tn__with_arena(all.allocator, strip_body, &call);
}
