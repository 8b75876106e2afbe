/* The flat image linker on objects made by hand: every relocation it knows, and what it refuses, word for word. */
#include <elf.h>

#include "unit/kernel.h"

/* ---- objects by hand: .text, .rodata, symbols, and relocations of .text ------------------------------------------ */

enum { NONE, TEXT, RODATA, RELA, SYMTAB, STRTAB, SECTIONS };

typedef struct hand {
  uint16_t machine;
  uint8_t text[64];
  uint8_t rodata[4096];
  Elf64_Rela relocations[4];
  int relocation_count;
  Elf64_Sym
      symbols[5]; /* 0: none, 1: "f" in .text, 2: "data" in .rodata at 0x120, 3: "outside", 4: "g" in .text at 32 */
  char names[24];
  uint64_t text_flags;
} hand;

static hand hand_of(uint16_t machine) {
  hand h = {.machine = machine, .names = "\0f\0data\0outside\0g", .text_flags = SHF_ALLOC | SHF_EXECINSTR};
  h.symbols[1] =
      (Elf64_Sym){.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = TEXT, .st_size = 32};
  h.symbols[2] =
      (Elf64_Sym){.st_name = 3, .st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), .st_shndx = RODATA, .st_value = 0x120};
  h.symbols[3] = (Elf64_Sym){.st_name = 8, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE)};
  h.symbols[4] = (Elf64_Sym){
      .st_name = 16, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = TEXT, .st_value = 32, .st_size = 32};
  memset(h.text, 0xcc, sizeof(h.text));
  return h;
}

static void relocate(hand *h, uint64_t offset, uint32_t type, uint32_t symbol, int64_t addend) {
  h->relocations[h->relocation_count++] = (Elf64_Rela){offset, ELF64_R_INFO((uint64_t)symbol, type), addend};
}

typedef struct file {
  Elf64_Ehdr header;
  Elf64_Shdr sections[SECTIONS];
  hand body;
} file;

static tn__code object_of(kernel_test *t, const hand *h) {
  file *f = TN__NEW(&t->arena, file);
  f->body = *h;
  f->header = (Elf64_Ehdr){.e_type = ET_REL,
                           .e_machine = h->machine,
                           .e_shoff = offsetof(file, sections),
                           .e_shnum = SECTIONS,
                           .e_shentsize = sizeof(Elf64_Shdr)};
  memcpy(f->header.e_ident, ELFMAG, SELFMAG);
  f->header.e_ident[EI_CLASS] = ELFCLASS64;
  f->header.e_ident[EI_DATA] = ELFDATA2LSB;
  uint64_t at = offsetof(file, body);
  f->sections[TEXT] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                                   .sh_flags = h->text_flags,
                                   .sh_offset = at + offsetof(hand, text),
                                   .sh_size = sizeof(h->text),
                                   .sh_addralign = 16};
  f->sections[RODATA] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                                     .sh_flags = SHF_ALLOC,
                                     .sh_offset = at + offsetof(hand, rodata),
                                     .sh_size = sizeof(h->rodata),
                                     .sh_addralign = 64};
  f->sections[RELA] = (Elf64_Shdr){.sh_type = SHT_RELA,
                                   .sh_offset = at + offsetof(hand, relocations),
                                   .sh_info = TEXT,
                                   .sh_size = (uint64_t)h->relocation_count * sizeof(Elf64_Rela),
                                   .sh_link = SYMTAB};
  f->sections[SYMTAB] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                     .sh_offset = at + offsetof(hand, symbols),
                                     .sh_size = sizeof(h->symbols),
                                     .sh_link = STRTAB};
  f->sections[STRTAB] =
      (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = at + offsetof(hand, names), .sh_size = sizeof(h->names)};
  return (tn__code){.data = f, .size = sizeof(file)};
}

static int64_t word_at(const tn__image *image, size_t offset, size_t size) {
  int32_t narrow;
  int64_t wide;
  memcpy(size == 4 ? (void *)&narrow : (void *)&wide, image->data + offset, size);
  return size == 4 ? narrow : wide;
}

/* ---- relocations ------------------------------------------------------------------------------------------------- */

/* .text is at 0, .rodata at 64: "data" at 0x160. */
static void x86_64(kernel_test *t, void *user) {
  hand h = hand_of(EM_X86_64);
  relocate(&h, 4, R_X86_64_PC32, 2, -4);
  relocate(&h, 8, R_X86_64_PLT32, 4, -4);
  relocate(&h, 16, R_X86_64_PC64, 2, 8);
  tn__code code = object_of(t, &h);
  tn__image image = tn__cg_link_image(&t->arena, &code, 1);
  assert_int_equal(image.size, 64 + 4096);
  assert_int_equal(word_at(&image, 4, 4), 0x160 - 4 - 4);
  assert_int_equal(word_at(&image, 8, 4), 32 - 4 - 8);
  assert_int_equal(word_at(&image, 16, 8), 0x160 + 8 - 16);
  assert_int_equal(image.symbol_count, 2);
  assert_string_equal(image.symbols[0].name, "f");
  assert_string_equal(image.symbols[1].name, "g");
  assert_int_equal(image.symbols[1].offset, 32);
  assert_int_equal(image.symbols[1].size, 32);
}

static void aarch64(kernel_test *t, void *user) {
  static const uint32_t code_words[] = {0x90000000 /* adrp x0 */, 0x91000000 /* add x0, x0 */,
                                        0x3dc00001 /* ldr q1, [x0] */, 0x94000000 /* bl */};
  hand h = hand_of(EM_AARCH64);
  memcpy(h.text, code_words, sizeof(code_words));
  relocate(&h, 0, R_AARCH64_ADR_PREL_PG_HI21, 2, 0xf00); /* 0x160 + 0xf00 is on the next page */
  relocate(&h, 4, R_AARCH64_ADD_ABS_LO12_NC, 2, 0xf00);
  relocate(&h, 8, R_AARCH64_LDST128_ABS_LO12_NC, 2, 0xf00);
  relocate(&h, 12, R_AARCH64_CALL26, 1, 0);
  tn__code code = object_of(t, &h);
  tn__image image = tn__cg_link_image(&t->arena, &code, 1);
  assert_int_equal((uint32_t)word_at(&image, 0, 4), 0xb0000000);
  assert_int_equal((uint32_t)word_at(&image, 4, 4), 0x91000000 | 0x060 << 10);
  assert_int_equal((uint32_t)word_at(&image, 8, 4), 0x3dc00001 | (0x060 >> 4) << 10);
  assert_int_equal((uint32_t)word_at(&image, 12, 4), 0x94000000 | (0x03ffffff & (uint32_t)-3));
}

/* One object calls what another defines. */
static void several(kernel_test *t, void *user) {
  hand a = hand_of(EM_X86_64), b = hand_of(EM_X86_64);
  relocate(&a, 8, R_X86_64_PLT32, 3, -4);
  memcpy(b.names, "\0p\0data\0nothing\0outside", 24);
  tn__code code[2] = {object_of(t, &a), object_of(t, &b)};
  tn__image image = tn__cg_link_image(&t->arena, code, 2);
  assert_int_equal(image.symbol_count, 4);
  assert_string_equal(image.symbols[2].name, "p");
  assert_string_equal(image.symbols[3].name, "outside");
  assert_int_equal(word_at(&image, 8, 4), 64 + 32 - 4 - 8);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

typedef struct refusal {
  const char *want;
  void (*spoil)(hand *h);
  size_t cut; /* bytes to leave; 0: all */
  bool twice;
} refusal;

static void import_something(hand *h) { relocate(h, 8, R_X86_64_PLT32, 3, -4); }
static void absolute(hand *h) { relocate(h, 8, R_X86_64_64, 2, 0); }
static void past_the_end(hand *h) { relocate(h, 62, R_X86_64_PC32, 2, 0); }
static void too_far(hand *h) { relocate(h, 8, R_X86_64_PC32, 2, INT64_C(1) << 40); }
static void no_symbol(hand *h) { relocate(h, 8, R_X86_64_PC32, 99, 0); }
static void writable(hand *h) { h->text_flags |= SHF_WRITE; }
static void other_machine(hand *h) { h->machine = EM_RISCV; }
static void nameless(hand *h) { h->symbols[1].st_name = 4000; }
static void nothing(hand *h) {}

static const refusal refusals[] = {
    {"linking object 0: \"outside\" is not defined, and an image imports nothing", import_something, 0, false},
    {"linking object 0: relocation type 1 at offset 8 is not one that an image can hold", absolute, 0, false},
    {"linking object 0: relocation type 2 at offset 62 lies outside of its section", past_the_end, 0, false},
    {"linking object 0: relocation type 2 at offset 8 does not reach its target", too_far, 0, false},
    {"linking object 0: a relocation names no symbol", no_symbol, 0, false},
    {"linking object 0: it has writable data, and an image is read-only", writable, 0, false},
    {"linking object 0: its machine is neither x86-64 nor AArch64", other_machine, 0, false},
    {"linking object 0: a name lies outside of its string table", nameless, 0, false},
    {"linking object 0: it is truncated", nothing, 300, false},
    {"linking object 0: it is truncated", nothing, 10, false},
    {"linking object 1: \"f\" is defined twice", nothing, 0, true},
};

static void link_spoiled(kernel_test *t, void *user) {
  const refusal *r = user;
  hand h = hand_of(EM_X86_64);
  r->spoil(&h);
  tn__code code[2] = {object_of(t, &h), object_of(t, &h)};
  if (r->cut != 0) code[0].size = r->cut;
  tn__cg_link_image(&t->arena, code, r->twice ? 2 : 1);
}

/* Any bytes must be refused or linked, never read past. */
static void link_mutated(kernel_test *t, void *user) {
  const uint64_t *seed = user;
  hand h = hand_of(EM_X86_64);
  relocate(&h, 4, R_X86_64_PC32, 2, -4);
  tn__code code = object_of(t, &h);
  uint8_t *bytes = malloc(code.size); /* exactly as large, for the sanitizers to see what is read */
  memcpy(bytes, code.data, code.size);
  uint64_t state = *seed;
  for (int i = 0; i < 3; i++) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    size_t at = (size_t)(state >> 33) % (offsetof(file, body) + 300);
    if (state >> 63) at = offsetof(file, body) + offsetof(hand, relocations) + (size_t)(state >> 33) % 300;
    if (at < code.size) bytes[at] = (uint8_t)(state >> 20);
  }
  code.data = bytes;
  tn__arena_defer(&t->arena, free, bytes);
  tn__cg_link_image(&t->arena, &code, 1);
}

static void links_x86_64(void **state) { kernel_with(NULL, x86_64, NULL); }
static void links_aarch64(void **state) { kernel_with(NULL, aarch64, NULL); }
static void links_several(void **state) { kernel_with(NULL, several, NULL); }

static void refuses(void **state) {
  for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
    refusal r = refusals[i];
    check_fails(kernel_try(NULL, link_spoiled, &r), TN_INTERNAL, r.want);
  }
}

static void survives_mutation(void **state) {
  int linked = 0, refused = 0;
  for (uint64_t seed = 0; seed < 3000; seed++) {
    tn_status *status = kernel_try(NULL, link_mutated, &seed);
    *(status == NULL ? &linked : &refused) += 1;
    tn_status_free(status);
  }
  assert_true(linked > 100 && refused > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(links_x86_64), cmocka_unit_test(links_aarch64),     cmocka_unit_test(links_several),
      cmocka_unit_test(refuses),      cmocka_unit_test(survives_mutation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
