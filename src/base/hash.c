#include "base/hash.h"

#include <string.h>

/* fmix64 of MurmurHash3 (Austin Appleby, public domain). */
static uint64_t finalise(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

uint64_t tn__hash_mix(uint64_t seed, uint64_t value) {
  /* The constant keeps (0, 0) from being a fixed point; the rotation keeps seed and value from trading places. */
  return finalise(((seed << 31) | (seed >> 33)) * 0x9e3779b97f4a7c15ULL + finalise(value + 0x9e3779b97f4a7c15ULL));
}

static uint64_t load_u64(const uint8_t *p, size_t size) {
  uint64_t x = 0;
  for (size_t i = 0; i < size; i++) x |= (uint64_t)p[i] << (8 * i);
  return x;
}

uint64_t tn__hash_bytes(uint64_t seed, const void *data, size_t size) {
  const uint8_t *p = data;
  uint64_t h = tn__hash_mix(seed, size);
  size_t i = 0;
  for (; i + 8 <= size; i += 8) h = tn__hash_mix(h, load_u64(p + i, 8));
  if (i < size) h = tn__hash_mix(h, load_u64(p + i, size - i));
  return h;
}

uint64_t tn__hash_string(uint64_t seed, const char *text) { return tn__hash_bytes(seed, text, strlen(text)); }

/* ---- checksum --------------------------------------------------------------------------------------------------- */

void tn__checksum_init(tn__checksum *sum) {
  *sum = (tn__checksum){0};
  for (uint64_t i = 0; i < 8; i++) sum->lanes[i] = tn__hash_mix(0, i);
}

static void add_block(uint64_t lanes[8], const uint8_t *block) {
  for (size_t i = 0; i < 8; i++) {
    uint64_t word;
    memcpy(&word, block + 8 * i, sizeof(word));
    uint64_t x = (lanes[i] ^ word) * 0x9e3779b97f4a7c15ULL;
    lanes[i] = x << 29 | x >> 35;
  }
}

void tn__checksum_update(tn__checksum *sum, const void *data, size_t size) {
  const uint8_t *p = data;
  size_t held = sum->size % TN__CHECKSUM_BLOCK;
  sum->size += size;
  if (held > 0) {
    size_t more = TN__CHECKSUM_BLOCK - held < size ? TN__CHECKSUM_BLOCK - held : size;
    memcpy(sum->rest + held, p, more);
    p += more, size -= more;
    if (held + more < TN__CHECKSUM_BLOCK) return;
    add_block(sum->lanes, sum->rest);
  }
  uint64_t lanes[8];
  memcpy(lanes, sum->lanes, sizeof(lanes));
  for (; size >= TN__CHECKSUM_BLOCK; p += TN__CHECKSUM_BLOCK, size -= TN__CHECKSUM_BLOCK) add_block(lanes, p);
  memcpy(sum->lanes, lanes, sizeof(lanes));
  if (size > 0) memcpy(sum->rest, p, size);
}

uint64_t tn__checksum_final(tn__checksum *sum) {
  size_t held = sum->size % TN__CHECKSUM_BLOCK;
  memset(sum->rest + held, 0, TN__CHECKSUM_BLOCK - held);
  add_block(sum->lanes, sum->rest);
  uint64_t hash = sum->size;
  for (int i = 0; i < 8; i++) hash = tn__hash_mix(hash, sum->lanes[i]);
  return hash;
}

/* ---- HMAC ------------------------------------------------------------------------------------------------------- */

enum { BLOCK = 64 };

static void begin_padded(tn__sha256 *hasher, const void *key, size_t key_size, uint8_t pad) {
  uint8_t block[BLOCK] = {0};
  if (key_size > BLOCK) {
    tn__sha256_init(hasher);
    tn__sha256_update(hasher, key, key_size);
    tn__digest digest = tn__sha256_final(hasher);
    memcpy(block, digest.bytes, sizeof(digest.bytes));
  } else if (key_size > 0) {
    memcpy(block, key, key_size);
  }
  for (int i = 0; i < BLOCK; i++) block[i] ^= pad;
  tn__sha256_init(hasher);
  tn__sha256_update(hasher, block, sizeof(block));
}

void tn__hmac_begin(tn__sha256 *hasher, const void *key, size_t key_size) { begin_padded(hasher, key, key_size, 0x36); }

tn__digest tn__hmac_end(tn__sha256 *hasher, const void *key, size_t key_size) {
  tn__digest inner = tn__sha256_final(hasher);
  begin_padded(hasher, key, key_size, 0x5c);
  tn__sha256_update(hasher, inner.bytes, sizeof(inner.bytes));
  return tn__sha256_final(hasher);
}

bool tn__digest_equal(const void *a, const void *b) {
  const uint8_t *x = a, *y = b;
  unsigned different = 0;
  for (size_t i = 0; i < sizeof(tn__digest); i++) different |= (unsigned)(x[i] ^ y[i]);
  return different == 0;
}
