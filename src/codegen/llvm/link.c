/* The flat image linker: places the sections of ELF64 objects one after another and applies PC-relative relocations.
 * The formats: System V ABI, chapter 4; its x86-64 supplement, section 4.4; "ELF for the Arm 64-bit Architecture",
 * section 5.7. */
#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/map.h"
#include "codegen/llvm/codegen.h"

enum { MAX_IMAGE = 1 << 30 }; /* PC-relative relocations reach twice as far */

typedef struct object {
  int number;
  const uint8_t *data;
  size_t size;
  const Elf64_Shdr *sections;
  int section_count;
  int64_t *placed; /* per section: offset in the image, or -1 */
  const Elf64_Sym *symbols;
  size_t symbol_count;
  const char *strings;
  size_t strings_size;
} object;

typedef struct definition {
  uint64_t offset, size;
} definition;

typedef struct linker {
  tn__arena *arena;
  object *objects;
  int object_count;
  uint16_t machine;
  uint8_t *image;
  size_t size;
  tn__map globals; /* name -> definition */
  TN__VEC(tn__image_symbol) functions;
} linker;

static _Noreturn void refuse(const linker *l, const object *o, const char *what) {
  tn__throwf(l->arena->escape, TN_INTERNAL, "linking object %d: %s", o->number, what);
}

static const void *bytes_at(const linker *l, const object *o, uint64_t offset, uint64_t size) {
  if (offset > o->size || size > o->size - offset) refuse(l, o, "it is truncated");
  return o->data + offset;
}

/* A table of records with 8-byte fields. */
static const void *table_at(const linker *l, const object *o, uint64_t offset, uint64_t size) {
  if (offset % 8 != 0) refuse(l, o, "a table is misaligned");
  return bytes_at(l, o, offset, size);
}

static const char *name_at(const linker *l, const object *o, const char *strings, size_t size, uint32_t offset) {
  if (strings == NULL || offset >= size || memchr(strings + offset, 0, size - offset) == NULL)
    refuse(l, o, "a name lies outside of its string table");
  return strings + offset;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void read_symbols(const linker *l, object *o, const Elf64_Shdr *section) {
  if (o->symbols != NULL) refuse(l, o, "it has two symbol tables");
  if (section->sh_link >= (uint32_t)o->section_count) refuse(l, o, "its symbol table has no names");
  const Elf64_Shdr *names = &o->sections[section->sh_link];
  o->symbols = table_at(l, o, section->sh_offset, section->sh_size);
  o->symbol_count = section->sh_size / sizeof(Elf64_Sym);
  o->strings = bytes_at(l, o, names->sh_offset, names->sh_size);
  o->strings_size = names->sh_size;
}

static void read_object(linker *l, object *o, const tn__code *code) {
  o->size = code->size;
  o->data = tn__arena_copy(l->arena, code->data, code->size); /* aligned, whatever the caller's is */
  const Elf64_Ehdr *header = bytes_at(l, o, 0, sizeof(Elf64_Ehdr));
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_type != ET_REL || header->e_shentsize != sizeof(Elf64_Shdr))
    refuse(l, o, "it is not a little-endian ELF64 relocatable object");
  if (header->e_machine != EM_X86_64 && header->e_machine != EM_AARCH64)
    refuse(l, o, "its machine is neither x86-64 nor AArch64");
  if (l->machine != 0 && l->machine != header->e_machine) refuse(l, o, "its machine is not that of the first object");
  l->machine = header->e_machine;
  o->section_count = header->e_shnum;
  o->sections = table_at(l, o, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr));
  o->placed = TN__NEW_ARRAY(l->arena, o->section_count + 1, int64_t);
  for (int i = 0; i < o->section_count; i++) {
    o->placed[i] = -1;
    if (o->sections[i].sh_type == SHT_SYMTAB) read_symbols(l, o, &o->sections[i]);
  }
}

/* ---- placing ----------------------------------------------------------------------------------------------------- */

static bool is_code(const Elf64_Shdr *section) { return (section->sh_flags & SHF_EXECINSTR) != 0; }

/* Nothing unwinds through a kernel, so tables for that stay behind; so does everything that is not loaded. */
static bool is_loaded(const linker *l, const object *o, const Elf64_Shdr *section) {
  if ((section->sh_flags & SHF_ALLOC) == 0 || section->sh_size == 0 || section->sh_type == SHT_X86_64_UNWIND)
    return false;
  if ((section->sh_flags & SHF_WRITE) != 0) refuse(l, o, "it has writable data, and an image is read-only");
  if (section->sh_type != SHT_PROGBITS) refuse(l, o, "it has a loaded section of an unknown type");
  return true;
}

static void place_sections(linker *l, bool code) {
  for (int i = 0; i < l->object_count; i++) {
    object *o = &l->objects[i];
    for (int k = 0; k < o->section_count; k++) {
      const Elf64_Shdr *section = &o->sections[k];
      if (is_code(section) != code || !is_loaded(l, o, section)) continue;
      uint64_t align = section->sh_addralign == 0 ? 1 : section->sh_addralign;
      if ((align & (align - 1)) != 0 || align > 4096)
        refuse(l, o, "a section's alignment is not a power of two up to a page");
      bytes_at(l, o, section->sh_offset, section->sh_size);
      l->size = (l->size + align - 1) & ~(size_t)(align - 1);
      o->placed[k] = (int64_t)l->size;
      l->size += section->sh_size;
      if (l->size > MAX_IMAGE) refuse(l, o, "the image would be larger than 1 GiB");
    }
  }
}

static void copy_sections(linker *l) {
  l->image = tn__arena_alloc(l->arena, l->size);
  for (int i = 0; i < l->object_count; i++)
    for (int k = 0; k < l->objects[i].section_count; k++)
      if (l->objects[i].placed[k] >= 0)
        tn__copy(l->image + l->objects[i].placed[k], l->objects[i].data + l->objects[i].sections[k].sh_offset,
                 l->objects[i].sections[k].sh_size);
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

static bool is_defined(const object *o, const Elf64_Sym *symbol) {
  return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx < o->section_count && o->placed[symbol->st_shndx] >= 0;
}

static uint64_t place_of(const object *o, const Elf64_Sym *symbol) {
  return (uint64_t)o->placed[symbol->st_shndx] + symbol->st_value;
}

static void collect_globals(linker *l) {
  for (int i = 0; i < l->object_count; i++) {
    const object *o = &l->objects[i];
    for (size_t k = 0; k < o->symbol_count; k++) {
      const Elf64_Sym *symbol = &o->symbols[k];
      if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || !is_defined(o, symbol)) continue;
      const char *name = name_at(l, o, o->strings, o->strings_size, symbol->st_name);
      uint64_t room = o->sections[symbol->st_shndx].sh_size;
      if (symbol->st_value > room || symbol->st_size > room - symbol->st_value)
        refuse(l, o, "a symbol lies outside of its section");
      definition *d = TN__NEW(l->arena, definition);
      *d = (definition){.offset = place_of(o, symbol), .size = symbol->st_size};
      name = tn__arena_strdup(l->arena, name);
      if (tn__map_set(&l->globals, name, d) != NULL)
        tn__throwf(l->arena->escape, TN_INTERNAL, "linking object %d: \"%s\" is defined twice", o->number, name);
      if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) continue;
      tn__image_symbol function = {.name = name, .offset = d->offset, .size = room - symbol->st_value};
      tn__vec_push(l->arena, &l->functions, function);
    }
  }
}

static int by_offset(const void *a, const void *b) {
  const tn__image_symbol *x = a, *y = b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Behind a function come its tasks and helpers: what lies before the next one is its own. */
static void order_functions(linker *l) {
  if (l->functions.count == 0) return;
  tn__image_symbol *functions = l->functions.data;
  qsort(functions, (size_t)l->functions.count, sizeof(*functions), by_offset);
  for (int i = 0; i + 1 < l->functions.count; i++) {
    uint64_t room = functions[i + 1].offset - functions[i].offset;
    if (functions[i].size > room) functions[i].size = room;
  }
}

static uint64_t resolve(const linker *l, const object *o, uint64_t index) {
  if (index >= o->symbol_count) refuse(l, o, "a relocation names no symbol");
  const Elf64_Sym *symbol = &o->symbols[index];
  if (is_defined(o, symbol)) return place_of(o, symbol);
  const char *name = name_at(l, o, o->strings, o->strings_size, symbol->st_name);
  const definition *d = tn__map_get(&l->globals, name);
  if (d == NULL)
    tn__throwf(l->arena->escape, TN_INTERNAL, "linking object %d: \"%s\" is not defined, and an image imports nothing",
               o->number, name);
  return d->offset;
}

/* ---- relocations ------------------------------------------------------------------------------------------------- */

typedef struct fixup {
  const linker *linker;
  const object *object;
  uint8_t *place;
  int64_t from, to; /* offsets in the image: of the place; of the symbol plus addend */
  size_t room;      /* bytes from the place to the section's end */
  uint32_t type;
} fixup;

static void refuse_fixup(const fixup *f, const char *what) {
  tn__throwf(f->linker->arena->escape, TN_INTERNAL,
             "linking object %d: relocation type %" PRIu32 " at offset %" PRId64 " %s", f->object->number, f->type,
             f->from, what);
}

static void put(const fixup *f, int64_t value, size_t size) {
  if (f->room < size) refuse_fixup(f, "lies outside of its section");
  if (size == 4 && (value < INT32_MIN || value > INT32_MAX)) refuse_fixup(f, "does not reach its target");
  memcpy(f->place, &value, size); /* little-endian hosts only, as the targets are */
}

/* Replaces `bits` bits at `shift` of the instruction at the place by the low bits of `value`. */
static void put_field(const fixup *f, int64_t value, int shift, int bits) {
  if (f->room < 4) refuse_fixup(f, "lies outside of its section");
  uint32_t word, mask = (UINT32_C(1) << bits) - 1;
  memcpy(&word, f->place, 4);
  word = (word & ~(mask << shift)) | (((uint32_t)value & mask) << shift);
  memcpy(f->place, &word, 4);
}

/* Wraps around for addends that make no sense; they fail the check of their field. */
static int64_t distance_of(const fixup *f) { return (int64_t)((uint64_t)f->to - (uint64_t)f->from); }

static void fix_x86_64(const fixup *f) {
  switch (f->type) {
    case R_X86_64_PC32:
    case R_X86_64_PLT32: put(f, distance_of(f), 4); return;
    case R_X86_64_PC64: put(f, distance_of(f), 8); return;
    default: refuse_fixup(f, "is not one that an image can hold");
  }
}

static void put_page_offset(const fixup *f, int scale) {
  int64_t low = f->to & 0xfff;
  if ((low & ((1 << scale) - 1)) != 0) refuse_fixup(f, "is misaligned");
  put_field(f, low >> scale, 10, 12);
}

static void fix_aarch64(const fixup *f) {
  int64_t distance = distance_of(f);
  switch (f->type) {
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      if (distance % 4 != 0 || distance < -(1 << 27) || distance >= 1 << 27)
        refuse_fixup(f, "does not reach its target");
      put_field(f, distance / 4, 0, 26);
      return;
    case R_AARCH64_ADR_PREL_PG_HI21: {
      int64_t pages = (f->to >> 12) - (f->from >> 12);
      put_field(f, pages, 29, 2);
      put_field(f, pages >> 2, 5, 19);
      return;
    }
    case R_AARCH64_ADR_PREL_LO21:
      put_field(f, distance, 29, 2);
      put_field(f, distance >> 2, 5, 19);
      return;
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: put_page_offset(f, 0); return;
    case R_AARCH64_LDST16_ABS_LO12_NC: put_page_offset(f, 1); return;
    case R_AARCH64_LDST32_ABS_LO12_NC: put_page_offset(f, 2); return;
    case R_AARCH64_LDST64_ABS_LO12_NC: put_page_offset(f, 3); return;
    case R_AARCH64_LDST128_ABS_LO12_NC: put_page_offset(f, 4); return;
    case R_AARCH64_PREL32: put(f, distance, 4); return;
    case R_AARCH64_PREL64: put(f, distance, 8); return;
    default: refuse_fixup(f, "is not one that an image can hold");
  }
}

static void relocate_section(linker *l, const object *o, const Elf64_Shdr *table) {
  if (table->sh_info >= (uint32_t)o->section_count || o->placed[table->sh_info] < 0) return;
  const Elf64_Shdr *target = &o->sections[table->sh_info];
  if (table->sh_type == SHT_REL) refuse(l, o, "it has relocations without addends");
  const Elf64_Rela *entries = table_at(l, o, table->sh_offset, table->sh_size);
  for (size_t i = 0; i < table->sh_size / sizeof(Elf64_Rela); i++) {
    if (entries[i].r_offset > target->sh_size) refuse(l, o, "a relocation lies outside of its section");
    uint64_t from = (uint64_t)o->placed[table->sh_info] + entries[i].r_offset;
    fixup f = {.linker = l, .object = o, .place = l->image + from, .from = (int64_t)from};
    f.room = target->sh_size - entries[i].r_offset;
    f.to = (int64_t)(resolve(l, o, ELF64_R_SYM(entries[i].r_info)) + (uint64_t)entries[i].r_addend);
    f.type = (uint32_t)ELF64_R_TYPE(entries[i].r_info);
    if (l->machine == EM_X86_64)
      fix_x86_64(&f);
    else
      fix_aarch64(&f);
  }
}

tn__image tn__cg_link_image(tn__arena *arena, const tn__code *objects, int count) {
  linker l = {.arena = arena, .object_count = count, .objects = TN__NEW_ARRAY(arena, count + 1, object)};
  tn__map_init(&l.globals, arena);
  for (int i = 0; i < count; i++) {
    l.objects[i].number = i;
    read_object(&l, &l.objects[i], &objects[i]);
  }
  place_sections(&l, true);
  place_sections(&l, false);
  copy_sections(&l);
  collect_globals(&l);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < l.objects[i].section_count; k++)
      if (l.objects[i].sections[k].sh_type == SHT_RELA || l.objects[i].sections[k].sh_type == SHT_REL)
        relocate_section(&l, &l.objects[i], &l.objects[i].sections[k]);
  order_functions(&l);
  return (tn__image){.data = l.image, .size = l.size, .symbols = l.functions.data, .symbol_count = l.functions.count};
}
