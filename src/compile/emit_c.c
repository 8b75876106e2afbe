/* A model for programs that want neither a file nor the machine: an ELF object with the kernels and constants, and a
 * header with one C function for each function of the model, which calls the kernels one after another.
 *
 * The native code of an executable is position-independent and imports nothing, so the object needs no relocations: two
 * sections and their symbols. */
#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "runtime/executable.h"
#include "tenon/compile.h"

typedef struct emitter {
  const tn_executable *exe;
  const char *name; /* a C identifier */
  tn__strbuf *out;
} emitter;

/* ---- what can be written ---------------------------------------------------------------------------------------- */

static tn_status *refuse(const tn__function *f, const char *why) {
  return tn_status_create(TN_UNSUPPORTED, "function \"%s\" cannot become a C function: %s", f->name, why);
}

static bool all_tensors(const tn__function_value *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (values[i].info.kind != TN_VALUE_TENSOR) return false;
  return true;
}

/* The name of a dimension of an input that has no size, or NULL. */
static const char *open_dimension(const tn__function *f) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    const tn_value_info *info = &f->inputs[i].info;
    for (int d = 0; d < info->rank; d++)
      if (info->dims[d].size < 0) return info->dims[d].name ? info->dims[d].name : "?";
  }
  return NULL;
}

static tn_status *check_function(const tn__function *f) {
  if (!all_tensors(f->inputs, f->input_count) || !all_tensors(f->outputs, f->output_count))
    return refuse(f, "it has inputs or outputs that are no tensors");
  const char *open = open_dimension(f);
  if (f->symbolic_layout && open != NULL)
    return tn_status_create(
        TN_UNSUPPORTED, "function \"%s\" cannot become a C function: its dimension \"%s\" is open; fix it with --dim",
        f->name, open);
  if (f->symbolic_layout) return refuse(f, "it has values whose size only running it tells");
  for (uint32_t i = 0; i < f->register_count; i++) {
    const tn__register *r = &f->registers[i];
    bool plain = r->storage == TN__STORAGE_INPUT || r->storage == TN__STORAGE_OUTPUT ||
                 r->storage == TN__STORAGE_CONSTANT || r->storage == TN__STORAGE_ARENA ||
                 r->storage == TN__STORAGE_VIEW;
    if (!plain || r->static_bytes < 0) return refuse(f, "it has values whose size only running it tells");
  }
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    bool plain = in->op == TN__OP_KERNEL || in->op == TN__OP_COPY || in->op == TN__OP_RETURN ||
                 (in->op == TN__OP_BUILTIN && in->callee == TN__BUILTIN_FILL_ZERO);
    if (!plain || (in->op == TN__OP_KERNEL && in->scalar_count > 0))
      return refuse(f, "it has branches, loops or arithmetic on sizes");
  }
  return NULL;
}

/* ---- the header ------------------------------------------------------------------------------------------------- */

/* "main@seq=1" as a part of an identifier. */
static void append_identifier(tn__strbuf *out, const char *text, bool upper) {
  for (; *text; text++) {
    char c = isalnum((unsigned char)*text) ? *text : '_';
    tn__strbuf_char(out, upper ? (char)toupper((unsigned char)c) : c);
  }
}

static void describe(const emitter *e, const char *what, const tn__function_value *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const tn_value_info *info = &values[i].info;
    tn__strbuf_printf(e->out, " *   %s[%u]: %s[", what, i, tn_dtype_name(info->dtype));
    for (int d = 0; d < info->rank; d++)
      tn__strbuf_printf(e->out, "%s%lld", d > 0 ? ", " : "", (long long)info->dims[d].size);
    tn__strbuf_append(e->out, "] ");
    for (const char *c = info->name; *c; c++) tn__strbuf_char(e->out, *c == '*' || *c == '\n' ? '_' : *c);
    tn__strbuf_append(e->out, "\n");
  }
}

static void append_address(const emitter *e, const tn__function *f, uint32_t number) {
  const tn__register *r = &f->registers[f->registers[number].root];
  switch (r->storage) {
    case TN__STORAGE_INPUT: tn__strbuf_printf(e->out, "(void *)(uintptr_t)inputs[%u]", r->index); return;
    case TN__STORAGE_OUTPUT: tn__strbuf_printf(e->out, "outputs[%u]", r->index); return;
    case TN__STORAGE_CONSTANT:
      tn__strbuf_printf(
          e->out, "(void *)(uintptr_t)(tn_%s_constants + %llu)", e->name,
          (unsigned long long)((const uint8_t *)e->exe->constants[r->index].data - e->exe->constant_data));
      return;
    default: tn__strbuf_printf(e->out, "(char *)workspace + %lld", (long long)r->offset.value);
  }
}

static void append_step(const emitter *e, const tn__function *f, const tn__instruction *in) {
  tn__strbuf *out = e->out;
  if (in->op == TN__OP_KERNEL) {
    tn__strbuf_append(out, "  {\n    void *buffers[] = {");
    for (uint32_t i = 0; i < in->read_count + in->write_count; i++) {
      if (i > 0) tn__strbuf_append(out, ", ");
      append_address(e, f, in->operands[i]);
    }
    tn__strbuf_printf(out,
                      "};\n    int32_t result = tn_%s_kernel_%u(&env, buffers, 0); /* %s */\n"
                      "    if (result != 0) return result;\n  }\n",
                      e->name, in->callee, e->exe->kernels[in->callee].name);
    return;
  }
  if (in->op == TN__OP_RETURN) {
    tn__strbuf_append(out, "  return 0;\n");
    return;
  }
  bool copy = in->op == TN__OP_COPY;
  uint32_t to = copy ? in->a : in->operands[0];
  if (f->registers[to].static_bytes == 0) return;
  tn__strbuf_append(out, copy ? "  memmove(" : "  memset(");
  append_address(e, f, to);
  tn__strbuf_append(out, ", ");
  if (copy)
    append_address(e, f, in->b);
  else
    tn__strbuf_append(out, "0");
  tn__strbuf_printf(out, ", %lld);\n", (long long)f->registers[to].static_bytes);
}

static void append_function(const emitter *e, const tn__function *f) {
  tn__strbuf *out = e->out;
  tn__strbuf_printf(out, "\n/* The function \"%s\":\n", f->name);
  describe(e, "inputs", f->inputs, f->input_count);
  describe(e, "outputs", f->outputs, f->output_count);
  tn__strbuf_append(out, " */\n#define TN_");
  append_identifier(out, e->name, true);
  tn__strbuf_char(out, '_');
  append_identifier(out, f->name, true);
  tn__strbuf_printf(out, "_WORKSPACE %lld\n", (long long)f->static_arena);
  tn__strbuf_printf(out, "static inline int32_t tn_%s_", e->name);
  append_identifier(out, f->name, false);
  tn__strbuf_printf(out,
                    "(const void *const *inputs, void *const *outputs, void *workspace) {\n"
                    "  const tn_%s_env env = {%u, sizeof env, tn_%s_serial, 1, 0, 0};\n"
                    "  (void)inputs, (void)outputs, (void)workspace, (void)env;\n",
                    e->name, TN_KERNEL_ABI_VERSION, e->name);
  for (uint32_t i = 0; i < f->instruction_count; i++) append_step(e, f, &f->instructions[i]);
  tn__strbuf_append(out, "}\n");
}

static void append_prologue(const emitter *e) {
  const char *n = e->name;
  tn__strbuf_printf(
      e->out,
      "/* %s, compiled for %s by %s. Link the object of the same name.\n"
      " *\n"
      " * Every function takes its inputs and outputs in the order below, dense and row-major, and a workspace of\n"
      " * TN_..._WORKSPACE bytes; all of them aligned to 64 bytes. It allocates nothing, runs on the caller's thread,\n"
      " * and may run in several threads at once on different buffers. It returns 0, or what a kernel found wrong: 1\n"
      " * an index out of range, 2 an integer division by zero, 3 a value that an operator does not allow. */\n",
      n, e->exe->target_name, e->exe->producer);
  tn__strbuf_append(e->out, "#ifndef TN_");
  append_identifier(e->out, n, true);
  tn__strbuf_append(e->out, "_H\n#define TN_");
  append_identifier(e->out, n, true);
  tn__strbuf_append(e->out,
                    "_H\n\n#include <stdint.h>\n#include <string.h>\n\n"
                    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  tn__strbuf_printf(
      e->out,
      "typedef struct tn_%s_env tn_%s_env;\n"
      "typedef int32_t (*tn_%s_task)(const tn_%s_env *env, void *closure, int64_t begin, int64_t end);\n"
      "struct tn_%s_env {\n"
      "  uint32_t version, size;\n"
      "  int32_t (*parallel_for)(const tn_%s_env *env, tn_%s_task task, void *closure, int64_t count);\n"
      "  int32_t thread_count, reserved;\n"
      "  void *user;\n"
      "};\n"
      "static inline int32_t tn_%s_serial(const tn_%s_env *env, tn_%s_task task, void *closure, int64_t count) {\n"
      "  return count <= 0 ? 0 : task(env, closure, 0, count);\n"
      "}\n\n"
      "extern const unsigned char tn_%s_constants[];\n",
      n, n, n, n, n, n, n, n, n, n, n);
  for (uint32_t i = 0; i < e->exe->kernel_count; i++)
    tn__strbuf_printf(e->out,
                      "int32_t tn_%s_kernel_%u(const tn_%s_env *env, void *const *buffers, const int64_t *scalars);\n",
                      n, i, n);
}

static tn_status *write_header(const emitter *e, const char *path) {
  append_prologue(e);
  for (uint32_t i = 0; i < e->exe->function_count; i++) {
    TN_RETURN_IF_ERROR(check_function(&e->exe->functions[i]));
    append_function(e, &e->exe->functions[i]);
  }
  tn__strbuf_append(e->out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
  TN_RETURN_IF_ERROR(tn__strbuf_status(e->out));
  tn__bytes piece = {tn__strbuf_text(e->out), e->out->length};
  return tn__file_write_atomic(path, &piece, 1, 0644);
}

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

static void add_symbols(object *o, const emitter *e) {
  char name[256];
  Elf64_Sym none = {0};
  tn__strbuf_append_n(&o->symbols, (const char *)&none, sizeof none);
  tn__strbuf_append_n(&o->strings, "", 1);
  snprintf(name, sizeof name, "tn_%s_constants", e->name);
  add_symbol(o, name, CONSTANTS, STT_OBJECT, 0, e->exe->constant_bytes);
  for (uint32_t i = 0; i < e->exe->kernel_count; i++) {
    snprintf(name, sizeof name, "tn_%s_kernel_%u", e->name, i);
    uintptr_t entry;
    memcpy(&entry, &e->exe->kernels[i].call, sizeof entry);
    add_symbol(o, name, TEXT, STT_FUNC, entry - (uintptr_t)e->exe->image, e->exe->kernels[i].size);
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

static tn_status *write_sections(object *o, const emitter *e, const char *path) {
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
                       .e_machine = device->arch == (uint32_t)TN__ARCH_X86_64 ? EM_X86_64 : EM_AARCH64,
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
  return tn__file_write_atomic(path, pieces, count, 0644);
}

static tn_status *write_object(const emitter *e, const char *path) {
  object o = {0};
  tn__strbuf_init(&o.symbols, NULL);
  tn__strbuf_init(&o.strings, NULL);
  tn__strbuf_init(&o.names, NULL);
  add_symbols(&o, e);
  tn_status *status = tn__strbuf_status(&o.symbols);
  if (status == NULL) status = tn__strbuf_status(&o.strings);
  if (status == NULL) status = write_sections(&o, e, path);
  tn__strbuf_release(&o.symbols);
  tn__strbuf_release(&o.strings);
  tn__strbuf_release(&o.names);
  return status;
}

static bool is_identifier(const char *name) {
  for (const char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '_') return false;
  return name[0] != '\0' && strlen(name) < 128;
}

tn_status *tn_module_emit_c(const tn_module *module, const char *name, const char *object_path,
                            const char *header_path) {
  if (!is_identifier(name))
    return tn_status_create(TN_INVALID_ARGUMENT, "\"%s\" cannot be a part of C's names: use letters, digits and _",
                            name);
  size_t size;
  const void *data = tn_module_data(module, &size);
  tn_executable *exe;
  TN_RETURN_IF_ERROR(tn__executable_look_into(data, size, &exe));
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  emitter e = {exe, name, &text};
  tn_status *status = write_header(&e, header_path);
  if (status == NULL) status = write_object(&e, object_path);
  tn__strbuf_release(&text);
  tn_executable_release(exe);
  return status;
}
