/* Makes the hashes of an altered executable right again, so that what lies behind them is tested too. */
#ifndef TENON_TESTS_UNIT_REHASH_H
#define TENON_TESTS_UNIT_REHASH_H

#include <string.h>

#include "base/hash.h"
#include "runtime/format/format.h"

static inline void rehash(uint8_t *file, size_t size) {
  tn__file_header header;
  if (size < sizeof(header)) return;
  memcpy(&header, file, sizeof(header));
  if (header.header_size < sizeof(header) || header.header_size > size) return;
  if (header.section_record_size < sizeof(tn__file_section)) return;
  if (header.section_count > (size - header.header_size) / header.section_record_size) return;
  uint8_t *table = file + header.header_size;
  tn__digest digest;
  tn__sha256 hasher;
  for (uint32_t i = 0; i < header.section_count; i++) {
    tn__file_section section;
    uint8_t *record = table + (size_t)i * header.section_record_size;
    memcpy(&section, record, sizeof(section));
    if (section.offset > size || section.size > size - section.offset) continue;
    tn__sha256_init(&hasher);
    tn__sha256_update(&hasher, file + section.offset, section.size);
    digest = tn__sha256_final(&hasher);
    memcpy(record + offsetof(tn__file_section, hash), digest.bytes, sizeof(digest.bytes));
  }
  uint8_t *stored = file + offsetof(tn__file_header, content_hash);
  memset(stored, 0, sizeof(header.content_hash));
  tn__sha256_init(&hasher);
  tn__sha256_update(&hasher, file, header.header_size);
  tn__sha256_update(&hasher, table, (size_t)header.section_count * header.section_record_size);
  digest = tn__sha256_final(&hasher);
  memcpy(stored, digest.bytes, sizeof(digest.bytes));
}

#endif
