/* Kernels and constants as one C file, of modules whose kernels are C99: the text that a code generator made, with the
 * names that the header calls, and the constants as words of their elements' size, so that they are right in either
 * order of bytes. */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "emit_c/emit_c.h"

/* ---- constants --------------------------------------------------------------------------------------------------- */

static bool same_words(const tn__constant_entry *a, const tn__constant_entry *b) {
  return a->data == b->data && a->size == b->size && tn__dtype_stored(a->dtype) == tn__dtype_stored(b->dtype);
}

/* The first constant of the same words. */
static uint32_t first_like(const tn_executable *exe, uint32_t number) {
  uint32_t first = 0;
  while (!same_words(&exe->constants[first], &exe->constants[number])) first++;
  return first;
}

/* Hexadecimal, but for single digits: numbers in source have the type that holds them. */
static void write_word(tn__strbuf *out, uint64_t word) {
  char digits[20];
  int at = sizeof digits;
  do digits[--at] = "0123456789abcdef"[word & 15];
  while ((word >>= 4) != 0);
  if (at < (int)sizeof digits - 1 || digits[at] > '9') digits[--at] = 'x', digits[--at] = '0';
  tn__strbuf_append_n(out, digits + at, sizeof digits - (size_t)at);
}

static void write_words(tn__strbuf *out, const uint8_t *data, size_t count, size_t size) {
  for (size_t i = 0; i < count; i++) {
    uint64_t word = 0;
    for (size_t k = size; k > 0; k--) word = word << 8 | data[i * size + k - 1];
    if (i > 0) tn__strbuf_append(out, i % 16 == 0 ? ",\n  " : ",");
    write_word(out, word);
  }
}

static void write_constant(const tn__c_emitter *e, uint32_t number) {
  const tn__constant_entry *constant = &e->exe->constants[number];
  size_t size = tn__dtype_stored(constant->dtype);
  if (constant->size == 0 || first_like(e->exe, number) != number) return;
  tn__strbuf_printf(e->out, "static const TN_ALIGNED uint%zu_t tni_%s_constant_%u[] = {\n  ", 8 * size, e->name,
                    number);
  write_words(e->out, constant->data, constant->size / size, size);
  tn__strbuf_append(e->out, "};\n");
}

static void write_constants(const tn__c_emitter *e) {
  tn__c_append_text(
      e,
      "\n/* Bits of the elements. They are never written, so nothing can come between them and what reads "
      "them as\n * another type. */\n");
  for (uint32_t i = 0; i < e->exe->constant_count; i++) write_constant(e, i);
  tn__c_append_text(e, "const void *const tni_@_constants[] = {\n");
  for (uint32_t i = 0; i < e->exe->constant_count; i++) {
    if (e->exe->constants[i].size == 0)
      tn__strbuf_append(e->out, "  \"\",\n"); /* an address, and nothing is read there */
    else
      tn__strbuf_printf(e->out, "  tni_%s_constant_%u,\n", e->name, first_like(e->exe, i));
  }
  tn__strbuf_append(e->out, "  0,\n};\n");
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

void tn__c_write_source(const tn__c_emitter *e, const char *header) {
  tn__strbuf_printf(e->out, "/* %s, compiled for %s by %s: kernels and constants of %s.\n", e->name, e->exe->targets[0],
                    e->exe->producer, header);
  tn__c_append_text(e,
                    " * C99 that needs nothing but the headers and memory functions that the header needs, for any "
                    "machine with\n"
                    " * bytes of 8 bits and floats of IEEE 754. Optimise it: compilers make vectors of its loops. */\n"
                    "#include ");
  tn__c_write_string(e->out, header);
  tn__c_append_text(e, "\n#define TENON_KERNEL_ABI_H\n#define tn_kernel_env tni_@_env\n");
  for (uint32_t i = 0; i < e->exe->kernel_count; i++)
    tn__strbuf_printf(e->out, "#define %s tni_%s_kernel_%u\n", e->exe->kernels[i].about.name, e->name, i);
  tn__strbuf_append_n(e->out, (const char *)e->source + e->source->text, e->source->text_size);
  write_constants(e);
}
