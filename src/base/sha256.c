/* SHA-256 as FIPS 180-4 section 6.2 gives it. */
#include <string.h>

#include "base/hash.h"

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

static void compress(uint32_t state[8], const uint8_t *block) {
  uint32_t w[64];
  for (int t = 0; t < 16; t++, block += 4)
    w[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
  for (int t = 16; t < 64; t++) {
    uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ (w[t - 15] >> 3);
    uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int t = 0; t < 64; t++) {
    uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[t] + w[t];
    uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void tn__sha256_init(tn__sha256 *hasher) {
  *hasher = (tn__sha256){
      .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void tn__sha256_update(tn__sha256 *hasher, const void *data, size_t size) {
  const uint8_t *p = data;
  size_t held = hasher->length % 64;
  hasher->length += size;
  if (held > 0) {
    size_t take = size < 64 - held ? size : 64 - held;
    if (take > 0) memcpy(hasher->pending + held, p, take);
    if (held + take < 64) return;
    compress(hasher->state, hasher->pending);
    p += take, size -= take;
  }
  for (; size >= 64; p += 64, size -= 64) compress(hasher->state, p);
  if (size > 0) memcpy(hasher->pending, p, size);
}

void tn__sha256_update_u64(tn__sha256 *hasher, uint64_t value) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(value >> (8 * i));
  tn__sha256_update(hasher, bytes, sizeof(bytes));
}

void tn__sha256_update_string(tn__sha256 *hasher, const char *text) {
  size_t length = strlen(text);
  tn__sha256_update_u64(hasher, length);
  tn__sha256_update(hasher, text, length);
}

tn__digest tn__sha256_final(tn__sha256 *hasher) {
  static const uint8_t padding[64] = {0x80};
  uint64_t bits = hasher->length * 8;
  size_t held = hasher->length % 64;
  tn__sha256_update(hasher, padding, held < 56 ? 56 - held : 120 - held);
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  tn__sha256_update(hasher, length, sizeof(length));
  tn__digest digest;
  for (int i = 0; i < 32; i++) digest.bytes[i] = (uint8_t)(hasher->state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

void tn__digest_hex(const tn__digest *digest, char out[65]) {
  for (int i = 0; i < 32; i++) {
    out[2 * i] = "0123456789abcdef"[digest->bytes[i] >> 4];
    out[2 * i + 1] = "0123456789abcdef"[digest->bytes[i] & 15];
  }
  out[64] = '\0';
}
