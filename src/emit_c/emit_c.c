/* A model for programs that want neither a file nor the machine: an ELF object with the kernels and constants, and a
 * header with one C function for each function of the model. header.c writes the header, code.c what it calls. Where
 * kernels are C99, a C file takes the place of the object (source.c).
 *
 * The native code of an executable is position-independent and imports nothing, so the object needs no relocations: two
 * sections and their symbols. */
#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/file.h"
#include "emit_c/emit_c.h"
#include "tenon/compile.h"

/* ---- the object ------------------------------------------------------------------------------------------------- */

enum { NO_SECTION, TEXT, CONSTANTS, SYMBOLS, STRINGS, SECTION_NAMES, STACK, SECTION_COUNT };

typedef struct object {
  tn__strbuf symbols, strings, names;
  Elf64_Shdr sections[SECTION_COUNT];
} object;

static void add_symbol(object *o, const char *name, uint16_t section, unsigned char type, uint64_t at, uint64_t size) {
  Elf64_Sym symbol = {.st_name = (Elf64_Word)o->strings.length,
                      .st_info = ELF64_ST_INFO(STB_GLOBAL, type),
                      .st_other = STV_DEFAULT,
                      .st_shndx = section,
                      .st_value = at,
                      .st_size = size};
  tn__strbuf_append_n(&o->strings, name, strlen(name) + 1);
  tn__strbuf_append_n(&o->symbols, (const char *)&symbol, sizeof symbol);
}

static void add_symbols(object *o, const tn__c_emitter *e) {
  char name[256];
  Elf64_Sym none = {0};
  tn__strbuf_append_n(&o->symbols, (const char *)&none, sizeof none);
  tn__strbuf_append_n(&o->strings, "", 1);
  snprintf(name, sizeof name, "tni_%s_constants", e->name);
  add_symbol(o, name, CONSTANTS, STT_OBJECT, 0, e->exe->constant_bytes);
  for (uint32_t i = 0; i < e->exe->kernel_count; i++) {
    snprintf(name, sizeof name, "tni_%s_kernel_%u", e->name, i);
    uintptr_t entry;
    memcpy(&entry, &e->exe->kernels[i].call, sizeof entry);
    add_symbol(o, name, TEXT, STT_FUNC, entry - (uintptr_t)e->exe->image, e->exe->kernels[i].about.code_bytes);
  }
}

static void set_section(object *o, int index, const char *name, Elf64_Word type, Elf64_Xword flags, uint64_t size,
                        uint64_t align) {
  o->sections[index] = (Elf64_Shdr){.sh_name = (Elf64_Word)o->names.length,
                                    .sh_type = type,
                                    .sh_flags = flags,
                                    .sh_size = size,
                                    .sh_addralign = align};
  tn__strbuf_append_n(&o->names, name, strlen(name) + 1);
}

static tn_status *write_sections(object *o, const tn__c_emitter *e, const char *path,
                                 const tn__file_contents *header_file) {
  static const char zeros[TN__FILE_PAGE];
  tn__strbuf_append_n(&o->names, "", 1);
  set_section(o, TEXT, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, e->exe->image_size, TN__FILE_PAGE);
  set_section(o, CONSTANTS, ".rodata", SHT_PROGBITS, SHF_ALLOC, e->exe->constant_bytes, TN__FILE_ALIGN);
  set_section(o, SYMBOLS, ".symtab", SHT_SYMTAB, 0, o->symbols.length, 8);
  set_section(o, STRINGS, ".strtab", SHT_STRTAB, 0, o->strings.length, 1);
  set_section(o, STACK, ".note.GNU-stack", SHT_PROGBITS, 0, 0, 1);
  set_section(o, SECTION_NAMES, ".shstrtab", SHT_STRTAB, 0, 0, 1);
  o->sections[SECTION_NAMES].sh_size = o->names.length;
  o->sections[SYMBOLS].sh_link = STRINGS, o->sections[SYMBOLS].sh_info = 1;
  o->sections[SYMBOLS].sh_entsize = sizeof(Elf64_Sym);
  const void *data[SECTION_COUNT] = {NULL,
                                     e->exe->image,
                                     e->exe->constant_data,
                                     tn__strbuf_text(&o->symbols),
                                     tn__strbuf_text(&o->strings),
                                     tn__strbuf_text(&o->names),
                                     NULL};
  const tn__device_record *device =
      (const void *)(e->exe->file + e->exe->sections[TN__SECTION_DEVICES]->offset + sizeof(tn__table_header));
  Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_REL,
                       .e_machine = tn__arch_elf_machine((tn__arch)device->arch),
                       .e_version = EV_CURRENT,
                       .e_shoff = sizeof header,
                       .e_ehsize = sizeof header,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = SECTION_COUNT,
                       .e_shstrndx = SECTION_NAMES};
  tn__bytes pieces[2 + 2 * SECTION_COUNT] = {{&header, sizeof header}, {o->sections, sizeof o->sections}};
  uint64_t at = sizeof header + sizeof o->sections;
  int count = 2;
  for (int i = TEXT; i < SECTION_COUNT; i++) {
    uint64_t align = o->sections[i].sh_addralign, gap = (align - at % align) % align;
    pieces[count++] = (tn__bytes){zeros, gap};
    o->sections[i].sh_offset = at + gap;
    if (o->sections[i].sh_size > 0) pieces[count++] = (tn__bytes){data[i], o->sections[i].sh_size};
    at += gap + o->sections[i].sh_size;
  }
  return tn__file_write_pair(&(tn__file_contents){path, pieces, count}, header_file, 0644);
}

/* The object, and the header with it: neither is of use beside an older one of the other. */
static tn_status *write_files(const tn__c_emitter *e, const char *path, const tn__file_contents *header_file) {
  object o = {0};
  tn__strbuf_init(&o.symbols, NULL);
  tn__strbuf_init(&o.strings, NULL);
  tn__strbuf_init(&o.names, NULL);
  add_symbols(&o, e);
  tn_status *status = tn__strbuf_status(&o.symbols);
  if (status == NULL) status = tn__strbuf_status(&o.strings);
  if (status == NULL) status = write_sections(&o, e, path, header_file);
  tn__strbuf_release(&o.symbols);
  tn__strbuf_release(&o.strings);
  tn__strbuf_release(&o.names);
  return status;
}

static tn_status *make_header(tn__c_emitter *e) {
  TN_RETURN_IF_ERROR(tn__c_plan(e));
  TN_RETURN_IF_ERROR(tn__c_write_header(e));
  TN_RETURN_IF_ERROR(tn__strbuf_status(&e->asserts));
  return tn__strbuf_status(e->out);
}

static tn_status *write_source(const tn__c_emitter *e, const char *path, const tn__file_contents *header) {
  const char *slash = strrchr(header->path, '/');
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__c_emitter own = *e;
  own.out = &text;
  tn__c_write_source(&own, slash != NULL ? slash + 1 : header->path);
  tn_status *status = tn__strbuf_status(&text);
  tn__bytes source = {tn__strbuf_text(&text), text.length};
  if (status == NULL) status = tn__file_write_pair(&(tn__file_contents){path, &source, 1}, header, 0644);
  tn__strbuf_release(&text);
  return status;
}

static tn_status *emit(const tn_executable *exe, const char *name, const char *object_path, const char *header_path) {
  char upper[128] = {0};
  for (size_t i = 0; name[i] != '\0' && i + 1 < sizeof upper; i++) upper[i] = (char)toupper((unsigned char)name[i]);
  tn__strbuf text;
  tn__region region;
  tn__strbuf_init(&text, NULL);
  tn__region_init(&region, NULL);
  tn__c_emitter e = {.exe = exe, .name = name, .upper = upper, .out = &text, .region = &region};
  if (exe->sources[0].size > 0) e.source = exe->sources[0].data;
  tn__strbuf_init(&e.asserts, NULL);
  tn_status *status = make_header(&e);
  if (status == NULL) {
    tn__bytes header = {tn__strbuf_text(&text), text.length};
    const tn__file_contents file = {header_path, &header, 1};
    status = e.source != NULL ? write_source(&e, object_path, &file) : write_files(&e, object_path, &file);
  }
  tn__strbuf_release(&e.asserts);
  tn__strbuf_release(&text);
  tn__region_release(&region);
  return status;
}

tn_status *tn_module_is_source(const tn_module *module, bool *out) {
  TN__NEED("module", module);
  TN__NEED("out", out);
  size_t size;
  const void *data = tn_module_data(module, &size);
  tn_executable *exe;
  *out = false;
  TN_RETURN_IF_ERROR(tn__executable_look_into(data, size, &exe));
  *out = exe->sources[0].size > 0;
  tn_executable_release(exe);
  return NULL;
}

tn_status *tn_module_emit_c(const tn_module *module, const char *name, const char *object_path,
                            const char *header_path) {
  TN__NEED("module", module);
  TN__NEED("name", name);
  TN__NEED("object_path", object_path);
  TN__NEED("header_path", header_path);
  if (!tn__is_c_word(name))
    return tn_status_create(TN_INVALID_ARGUMENT, "\"%s\" cannot be a part of C's names: use letters, digits and _",
                            name);
  size_t size;
  const void *data = tn_module_data(module, &size);
  tn_executable *exe;
  TN_RETURN_IF_ERROR(tn__executable_look_into(data, size, &exe));
  tn_status *status = emit(exe, name, object_path, header_path);
  tn_executable_release(exe);
  return status;
}
