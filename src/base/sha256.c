/* SHA-256 as FIPS 180-4 section 6.2 gives it. */
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "base/hash.h"

enum { BLOCK = 64 };

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

static void compress_portable(uint32_t state[8], const uint8_t *blocks, size_t count) {
  for (; count > 0; count--, blocks += BLOCK) compress(state, blocks);
}

#if defined(__x86_64__)

/* The instructions take the state as (a, b, e, f) and (c, d, g, h), each highest word first, and do two rounds at once;
 * four of them and two message instructions make sixteen rounds' worth of schedule. Intel, "SHA Extensions", 2013.
 * Each waits for the one before it, and half of the time nothing else is there to do: two streams at once take hardly
 * longer than one. */
typedef struct stream {
  __m128i abef, cdgh, abef_before, cdgh_before;
  __m128i w[4]; /* the last sixteen words of the schedule, as a ring */
} stream;

__attribute__((target("sha,sse4.1,ssse3"), always_inline)) static inline void unpack_state(stream *s,
                                                                                           const uint32_t *state) {
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)&state[0]), 0xb1);
  __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)&state[4]), 0x1b);
  s->abef = _mm_alignr_epi8(low, high, 8), s->cdgh = _mm_blend_epi16(high, low, 0xf0);
}

__attribute__((target("sha,sse4.1,ssse3"), always_inline)) static inline void pack_state(const stream *s,
                                                                                         uint32_t *state) {
  __m128i low = _mm_shuffle_epi32(s->abef, 0x1b), high = _mm_shuffle_epi32(s->cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)(void *)&state[0], _mm_blend_epi16(low, high, 0xf0));
  _mm_storeu_si128((__m128i *)(void *)&state[4], _mm_alignr_epi8(high, low, 8));
}

__attribute__((target("sha,sse4.1,ssse3"), always_inline)) static inline void do_four_rounds(stream *s, int i,
                                                                                             const uint8_t *block) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i *now = &s->w[i % 4];
  if (i < 4) {
    *now = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)block + i), swap);
  } else {
    __m128i before = s->w[(i + 3) % 4];
    __m128i t =
        _mm_add_epi32(_mm_sha256msg1_epu32(*now, s->w[(i + 1) % 4]), _mm_alignr_epi8(before, s->w[(i + 2) % 4], 4));
    *now = _mm_sha256msg2_epu32(t, before);
  }
  __m128i wk = _mm_add_epi32(*now, _mm_loadu_si128((const __m128i *)(const void *)&round_constants[4 * i]));
  s->cdgh = _mm_sha256rnds2_epu32(s->cdgh, s->abef, wk);
  s->abef = _mm_sha256rnds2_epu32(s->abef, s->cdgh, _mm_shuffle_epi32(wk, 0x0e));
}

__attribute__((target("sha,sse4.1,ssse3"), always_inline)) static inline void compress_streams(
    uint32_t *const *states, const uint8_t *const *blocks, int streams, size_t count) {
  stream s[2];
  for (int k = 0; k < streams; k++) unpack_state(&s[k], states[k]);
  for (size_t at = 0; at < count * BLOCK; at += BLOCK) {
    for (int k = 0; k < streams; k++) s[k].abef_before = s[k].abef, s[k].cdgh_before = s[k].cdgh;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
      for (int k = 0; k < streams; k++) do_four_rounds(&s[k], i, blocks[k] + at);
    for (int k = 0; k < streams; k++) {
      s[k].abef = _mm_add_epi32(s[k].abef, s[k].abef_before);
      s[k].cdgh = _mm_add_epi32(s[k].cdgh, s[k].cdgh_before);
    }
  }
  for (int k = 0; k < streams; k++) pack_state(&s[k], states[k]);
}

__attribute__((target("sha,sse4.1,ssse3"))) static void compress_sha_ni(uint32_t state[8], const uint8_t *blocks,
                                                                        size_t count) {
  compress_streams(&state, &blocks, 1, count);
}

__attribute__((target("sha,sse4.1,ssse3"))) static void compress_two_sha_ni(uint32_t *const *states,
                                                                            const uint8_t *const *blocks,
                                                                            size_t count) {
  compress_streams(states, blocks, 2, count);
}

static bool has_sha_ni(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
  bool has_sse = (c & bit_SSSE3) != 0 && (c & bit_SSE4_1) != 0;
  return has_sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) != 0;
}

#endif

static void compress_blocks(uint32_t state[8], const uint8_t *blocks, size_t count) {
#if defined(__x86_64__)
  enum { WORTH_ASKING = 16 }; /* a virtual machine takes its time to answer cpuid */
  if (count >= WORTH_ASKING && has_sha_ni()) {
    compress_sha_ni(state, blocks, count);
    return;
  }
#endif
  compress_portable(state, blocks, count);
}

static void compress_two(uint32_t *const *states, const uint8_t *const *blocks, size_t count) {
#if defined(__x86_64__)
  if (count > 0 && has_sha_ni()) {
    compress_two_sha_ni(states, blocks, count);
    return;
  }
#endif
  for (int k = 0; k < 2; k++) compress_blocks(states[k], blocks[k], count);
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
  compress_blocks(hasher->state, p, size / BLOCK);
  if (size % BLOCK > 0) memcpy(hasher->pending, p + size / BLOCK * BLOCK, size % BLOCK);
}

void tn__sha256_two(const void *const *data, size_t size, tn__digest *out) {
  tn__sha256 hashers[2];
  const uint8_t *blocks[2] = {data[0], data[1]};
  size_t whole = size / BLOCK * BLOCK;
  for (int k = 0; k < 2; k++) tn__sha256_init(&hashers[k]);
  compress_two((uint32_t *const[2]){hashers[0].state, hashers[1].state}, blocks, whole / BLOCK);
  for (int k = 0; k < 2; k++) {
    hashers[k].length = whole;
    tn__sha256_update(&hashers[k], blocks[k] + whole, size - whole);
    out[k] = tn__sha256_final(&hashers[k]);
  }
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
