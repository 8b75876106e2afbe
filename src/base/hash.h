/* Hashing: a fast 64-bit one for tables, and a 128-bit content hash for caches and file sections. */
#ifndef TENON_BASE_HASH_H
#define TENON_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Mixes `value` into `seed`; both arguments matter in every bit (the finaliser of MurmurHash3). */
uint64_t tn__hash_mix(uint64_t seed, uint64_t value);
uint64_t tn__hash_bytes(uint64_t seed, const void *data, size_t size);

/* A checksum of many bytes, given in pieces of any size, at the speed of memory: against damage, not against forgery.
 * Eight lanes of 64 bits, each multiplied by an odd number and rotated, so that no change of one word is ever lost. */
enum { TN__CHECKSUM_BLOCK = 64 };
typedef struct tn__checksum {
  uint64_t lanes[8], size;
  uint8_t rest[TN__CHECKSUM_BLOCK];
} tn__checksum;
void tn__checksum_init(tn__checksum *sum);
void tn__checksum_update(tn__checksum *sum, const void *data, size_t size);
uint64_t tn__checksum_final(tn__checksum *sum);
uint64_t tn__hash_string(uint64_t seed, const char *text);

/* Content hash: SHA-256 (FIPS 180-4). Deterministic over machines and versions; collision-resistant, because a cache
 * hit executes code. */
typedef struct tn__digest {
  uint8_t bytes[32];
} tn__digest;
typedef struct tn__sha256 {
  uint32_t state[8];
  uint64_t length;
  uint8_t pending[64];
} tn__sha256;
void tn__sha256_init(tn__sha256 *hasher);
void tn__sha256_update(tn__sha256 *hasher, const void *data, size_t size);
void tn__sha256_update_string(tn__sha256 *hasher, const char *text); /* length first, so that "ab","c" != "a","bc" */
void tn__sha256_update_u64(tn__sha256 *hasher, uint64_t value);      /* little-endian */
tn__digest tn__sha256_final(tn__sha256 *hasher);
/* Of two runs of bytes of one length, in hardly more time than one where the processor has instructions for it. */
void tn__sha256_two(const void *const *data, size_t size, tn__digest *out);
/* A digest of many bytes by several threads: SHA-256 of the digests of pieces of 4 MB. The same for any number of
 * them. */
tn__digest tn__sha256_tree(const void *data, size_t size, int threads);
/* HMAC-SHA-256 (RFC 2104, FIPS 198-1): the inner hash is begun with a key, fed like any other, and ended with it. */
void tn__hmac_begin(tn__sha256 *hasher, const void *key, size_t key_size);
tn__digest tn__hmac_end(tn__sha256 *hasher, const void *key, size_t key_size);
/* In time that does not depend on where they differ. */
bool tn__digest_equal(const void *a, const void *b);
void tn__digest_hex(const tn__digest *digest, char out[65]);

#endif
