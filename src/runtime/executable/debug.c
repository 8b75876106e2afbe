/* Names for kernels: in perf through its map file, in GDB through its JIT interface (GDB manual, "JIT Compilation
 * Interface"): a list of ELF images in memory, whose head GDB knows by name. That list is the one thing in Tenon that
 * belongs to the process; a mutex guards it. */
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trusted.h"
#include "runtime/executable/executable.h"

/* ---- perf ------------------------------------------------------------------------------------------------------- */

/* Any user can create a file with that name, so require a regular file owned by this user, and no link. */
static FILE *open_own(const char *path) {
  struct stat info;
  char why[64];
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (fd < 0) return NULL;
  bool own = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1 && tn__distrust(&info, why) == NULL;
  FILE *file = own ? fdopen(fd, "a") : NULL;
  if (file == NULL) close(fd);
  return file;
}

void tn__debug_write_perf_map(const tn_executable *exe) {
  char path[64];
  snprintf(path, sizeof(path), "/tmp/perf-%ld.map", (long)getpid());
  FILE *file = open_own(path);
  if (file == NULL) return;
  for (uint32_t i = 0; i < exe->kernel_count; i++) {
    const tn__kernel_entry *kernel = &exe->kernels[i];
    uintptr_t address;
    if (kernel->call == NULL) continue; /* source of a device */
    memcpy(&address, &kernel->call, sizeof(address));
    fprintf(file, "%llx %llx %s\n", (unsigned long long)address, (unsigned long long)kernel->about.code_bytes,
            kernel->about.name);
  }
  fclose(file);
}

/* ---- GDB: the names and layouts are its own --------------------------------------------------------------------- */

struct jit_code_entry {
  struct jit_code_entry *next_entry;
  struct jit_code_entry *prev_entry;
  const char *symfile_addr;
  uint64_t symfile_size;
};

struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag; /* enum jit_action */
  struct jit_code_entry *relevant_entry;
  struct jit_code_entry *first_entry;
};

enum jit_action { JIT_NOACTION, JIT_REGISTER, JIT_UNREGISTER };

/* The labels are GDB's names for the two; GDB stops at the function and reads the descriptor. */
TN_API void tn__debug_stop(void) __asm__("__jit_debug_register_code");
TN_API extern struct jit_descriptor tn__debug_list __asm__("__jit_debug_descriptor");

__attribute__((noinline)) void tn__debug_stop(void) { __asm__ volatile("" ::: "memory"); }
struct jit_descriptor tn__debug_list = {1, JIT_NOACTION, NULL, NULL};
static pthread_mutex_t jit_lock = PTHREAD_MUTEX_INITIALIZER;

struct tn__jit_entry {
  struct jit_code_entry entry;
  size_t size; /* of this with the ELF image behind it */
};

typedef struct elf_layout {
  size_t names, symbols, sections, total; /* offsets in the image */
  size_t names_size;
} elf_layout;

enum { SECTION_NULL, SECTION_TEXT, SECTION_SYMBOLS, SECTION_NAMES, SECTION_COUNT };
static const char section_names[] = "\0.text\0.symtab\0.strtab";

static elf_layout lay_out(const tn_executable *exe) {
  elf_layout at = {.names = sizeof(Elf64_Ehdr), .names_size = sizeof(section_names)};
  for (uint32_t i = 0; i < exe->kernel_count; i++) at.names_size += strlen(exe->kernels[i].about.name) + 1;
  at.symbols = (at.names + at.names_size + 7) / 8 * 8;
  at.sections = at.symbols + ((size_t)exe->kernel_count + 1) * sizeof(Elf64_Sym);
  at.total = at.sections + SECTION_COUNT * sizeof(Elf64_Shdr);
  return at;
}

static void write_symbols(const tn_executable *exe, uint8_t *image, const elf_layout *at) {
  char *names = (char *)image + at->names;
  Elf64_Sym *symbols = (void *)(image + at->symbols);
  memcpy(names, section_names, sizeof(section_names));
  size_t used = sizeof(section_names);
  for (uint32_t i = 0; i < exe->kernel_count; i++) {
    const tn__kernel_entry *kernel = &exe->kernels[i];
    uintptr_t address;
    memcpy(&address, &kernel->call, sizeof(address));
    symbols[i + 1] = (Elf64_Sym){.st_name = (Elf64_Word)used,
                                 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                 .st_shndx = SECTION_TEXT,
                                 .st_value = kernel->call == NULL ? 0 : address - (uintptr_t)exe->image,
                                 .st_size = kernel->about.code_bytes};
    memcpy(names + used, kernel->about.name, strlen(kernel->about.name) + 1);
    used += strlen(kernel->about.name) + 1;
  }
}

/* A relocatable object whose .text has no bytes in the file and lies at the image's address. */
static void write_elf(const tn_executable *exe, uint8_t *image, const elf_layout *at) {
  Elf64_Ehdr *header = (void *)image;
  memcpy(header->e_ident, ELFMAG, SELFMAG);
  header->e_ident[EI_CLASS] = ELFCLASS64, header->e_ident[EI_DATA] = ELFDATA2LSB;
  header->e_ident[EI_VERSION] = EV_CURRENT;
  header->e_type = ET_REL, header->e_version = EV_CURRENT;
  header->e_machine = tn__arch_elf_machine(tn__host_arch());
  header->e_ehsize = sizeof(Elf64_Ehdr), header->e_shoff = at->sections;
  header->e_shentsize = sizeof(Elf64_Shdr), header->e_shnum = SECTION_COUNT, header->e_shstrndx = SECTION_NAMES;
  Elf64_Shdr *sections = (void *)(image + at->sections);
  sections[SECTION_TEXT] = (Elf64_Shdr){.sh_name = 1,
                                        .sh_type = SHT_NOBITS,
                                        .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                        .sh_addr = (uintptr_t)exe->image,
                                        .sh_size = exe->image_size,
                                        .sh_addralign = 1};
  sections[SECTION_SYMBOLS] = (Elf64_Shdr){.sh_name = 7,
                                           .sh_type = SHT_SYMTAB,
                                           .sh_offset = at->symbols,
                                           .sh_size = at->sections - at->symbols,
                                           .sh_link = SECTION_NAMES,
                                           .sh_info = 1,
                                           .sh_addralign = 8,
                                           .sh_entsize = sizeof(Elf64_Sym)};
  sections[SECTION_NAMES] = (Elf64_Shdr){
      .sh_name = 15, .sh_type = SHT_STRTAB, .sh_offset = at->names, .sh_size = at->names_size, .sh_addralign = 1};
  write_symbols(exe, image, at);
}

tn__jit_entry *tn__debug_register(const tn_executable *exe) {
  if (exe->kernel_count == 0) return NULL;
  elf_layout at = lay_out(exe);
  void *memory;
  tn_status *status = tn__alloc(exe->region.allocator, 1, sizeof(tn__jit_entry) + at.total, 0, &memory);
  if (status != NULL) {
    tn_status_free(status);
    return NULL;
  }
  tn__jit_entry *jit = memory;
  jit->size = sizeof(tn__jit_entry) + at.total;
  uint8_t *image = (uint8_t *)(jit + 1);
  write_elf(exe, image, &at);
  jit->entry.symfile_addr = (const char *)image;
  jit->entry.symfile_size = at.total;
  pthread_mutex_lock(&jit_lock);
  jit->entry.next_entry = tn__debug_list.first_entry;
  if (jit->entry.next_entry != NULL) jit->entry.next_entry->prev_entry = &jit->entry;
  tn__debug_list.first_entry = &jit->entry;
  tn__debug_list.relevant_entry = &jit->entry;
  tn__debug_list.action_flag = JIT_REGISTER;
  tn__debug_stop();
  pthread_mutex_unlock(&jit_lock);
  return jit;
}

void tn__debug_unregister(const tn_executable *exe, tn__jit_entry *jit) {
  if (jit == NULL) return;
  pthread_mutex_lock(&jit_lock);
  if (jit->entry.prev_entry != NULL)
    jit->entry.prev_entry->next_entry = jit->entry.next_entry;
  else
    tn__debug_list.first_entry = jit->entry.next_entry;
  if (jit->entry.next_entry != NULL) jit->entry.next_entry->prev_entry = jit->entry.prev_entry;
  tn__debug_list.relevant_entry = &jit->entry;
  tn__debug_list.action_flag = JIT_UNREGISTER;
  tn__debug_stop();
  pthread_mutex_unlock(&jit_lock);
  tn__free(exe->region.allocator, jit, jit->size, 0);
}
