#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#include "unit/check.h"

static void expect_digest(tn__sha256 *hasher, const char *hex) {
  tn__digest digest = tn__sha256_final(hasher);
  char text[65];
  tn__digest_hex(&digest, text);
  assert_string_equal(text, hex);
}

/* The vectors of FIPS 180-4's examples and of NIST's SHA256ShortMsg. */
static void sha256_vectors(void **state) {
  static const struct {
    const char *text, *hex;
  } vectors[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
       "u",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
  };
  for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
    tn__sha256 hasher;
    tn__sha256_init(&hasher);
    tn__sha256_update(&hasher, vectors[i].text, strlen(vectors[i].text));
    expect_digest(&hasher, vectors[i].hex);
  }
}

static void sha256_of_a_million_bytes(void **state) {
  char *a = malloc(1000000);
  assert_non_null(a);
  memset(a, 'a', 1000000);
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update(&hasher, a, 1000000);
  free(a);
  expect_digest(&hasher, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sha256_does_not_depend_on_the_pieces(void **state) {
  uint8_t data[300];
  for (int i = 0; i < 300; i++) data[i] = (uint8_t)(i * 7);
  for (size_t length = 0; length <= 300; length += 13) {
    tn__sha256 whole;
    tn__sha256_init(&whole);
    tn__sha256_update(&whole, data, length);
    tn__digest expected = tn__sha256_final(&whole);
    for (size_t piece = 1; piece < 140; piece += 3) {
      tn__sha256 hasher;
      tn__sha256_init(&hasher);
      for (size_t i = 0; i < length; i += piece)
        tn__sha256_update(&hasher, data + i, length - i < piece ? length - i : piece);
      tn__digest digest = tn__sha256_final(&hasher);
      assert_memory_equal(digest.bytes, expected.bytes, 32);
    }
  }
}

static tn__digest sha256_of(const void *data, size_t size) {
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update(&hasher, data, size);
  return tn__sha256_final(&hasher);
}

static void two_at_once_have_the_digests_that_they_have_alone(void **state) {
  uint8_t data[2][700];
  for (int i = 0; i < 1400; i++) data[i / 700][i % 700] = (uint8_t)(tn__hash_mix(5, (uint64_t)i) >> 9);
  for (size_t size = 0; size <= 700; size += 50) {
    tn__digest digests[2];
    tn__sha256_two((const void *const[2]){data[0], data[1]}, size, digests);
    for (int k = 0; k < 2; k++) {
      tn__digest expected = sha256_of(data[k], size);
      assert_memory_equal(digests[k].bytes, expected.bytes, 32);
    }
  }
}

/* SHA-256 of the size and of the digests of pieces of 4 MB: an odd number of them, and a shorter one. */
static void a_tree_is_made_of_pieces(void **state) {
  enum { PIECE = 4 << 20, MOST = 3 * PIECE + 100 };
  uint8_t *data = malloc(MOST);
  assert_non_null(data);
  for (int i = 0; i < MOST; i++) data[i] = (uint8_t)((unsigned)i * 2654435761u >> 19);
  static const size_t sizes[] = {0, 5, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 64, 3 * PIECE, MOST};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    tn__sha256 all;
    tn__sha256_init(&all);
    tn__sha256_update_u64(&all, sizes[i]);
    for (size_t at = 0; at < sizes[i]; at += PIECE) {
      tn__digest piece = sha256_of(data + at, sizes[i] - at < PIECE ? sizes[i] - at : PIECE);
      tn__sha256_update(&all, piece.bytes, sizeof(piece.bytes));
    }
    tn__digest expected = tn__sha256_final(&all);
    for (int threads = 1; threads <= 3; threads++) {
      tn__digest digest = tn__sha256_tree(data, sizes[i], threads);
      assert_memory_equal(digest.bytes, expected.bytes, 32);
    }
  }
  free(data);
}

/* Long inputs take the processor's SHA instructions where it has them, short ones never do. */
static void sha256_is_the_same_in_bulk_and_in_blocks(void **state) {
  enum { SIZE = 64 * 100 + 5 };
  uint8_t data[SIZE];
  for (int i = 0; i < SIZE; i++) data[i] = (uint8_t)(tn__hash_mix(1, (uint64_t)i) >> 13);
  for (size_t length = 0; length <= SIZE; length += 997) {
    tn__sha256 bulk, blocks;
    tn__sha256_init(&bulk);
    tn__sha256_init(&blocks);
    tn__sha256_update(&bulk, data, length);
    for (size_t i = 0; i < length; i += 64) tn__sha256_update(&blocks, data + i, length - i < 64 ? length - i : 64);
    tn__digest a = tn__sha256_final(&bulk), b = tn__sha256_final(&blocks);
    assert_memory_equal(a.bytes, b.bytes, 32);
  }
}

static void strings_keep_their_borders(void **state) {
  tn__sha256 a, b;
  tn__sha256_init(&a);
  tn__sha256_update_string(&a, "ab");
  tn__sha256_update_string(&a, "c");
  tn__sha256_init(&b);
  tn__sha256_update_string(&b, "a");
  tn__sha256_update_string(&b, "bc");
  tn__digest da = tn__sha256_final(&a), db = tn__sha256_final(&b);
  assert_memory_not_equal(da.bytes, db.bytes, 32);
}

static void numbers_are_little_endian(void **state) {
  tn__sha256 a, b;
  tn__sha256_init(&a);
  tn__sha256_update_u64(&a, 0x0807060504030201);
  tn__sha256_init(&b);
  tn__sha256_update(&b, "\1\2\3\4\5\6\7\10", 8);
  tn__digest da = tn__sha256_final(&a), db = tn__sha256_final(&b);
  assert_memory_equal(da.bytes, db.bytes, 32);
}

static int bit_count(uint64_t x) {
  int n = 0;
  for (; x != 0; x &= x - 1) n++;
  return n;
}

/* Flipping any one bit of either argument flips about half of the result. */
static void mix_avalanches(void **state) {
  for (int bit = 0; bit < 64; bit++) {
    int by_value = 0, by_seed = 0;
    for (uint64_t i = 0; i < 64; i++) {
      uint64_t h = tn__hash_mix(i * 31, i);
      by_value += bit_count(h ^ tn__hash_mix(i * 31, i ^ UINT64_C(1) << bit));
      by_seed += bit_count(h ^ tn__hash_mix((i * 31) ^ UINT64_C(1) << bit, i));
    }
    assert_in_range(by_value, 64 * 28, 64 * 36);
    assert_in_range(by_seed, 64 * 28, 64 * 36);
  }
  assert_true(tn__hash_mix(1, 2) != tn__hash_mix(2, 1));
  assert_true(tn__hash_mix(0, 0) != 0);
}

static void bytes_see_length_and_every_byte(void **state) {
  char zeros[32] = {0};
  for (size_t a = 0; a <= 32; a++)
    for (size_t b = 0; b < a; b++) assert_true(tn__hash_bytes(0, zeros, a) != tn__hash_bytes(0, zeros, b));
  uint64_t base = tn__hash_bytes(5, zeros, 32);
  for (int i = 0; i < 32; i++) {
    zeros[i] = 1;
    assert_true(tn__hash_bytes(5, zeros, 32) != base);
    zeros[i] = 0;
  }
  assert_true(tn__hash_string(0, "ab") == tn__hash_bytes(0, "ab", 2));
  assert_true(tn__hash_string(0, "ab") != tn__hash_string(1, "ab"));
}

/* Independent of how the bytes are cut, and dependent on every bit and on where it is. */
static void checksums_see_everything(void **state) {
  enum { SIZE = 1000 };
  uint8_t data[SIZE];
  for (int i = 0; i < SIZE; i++) data[i] = (uint8_t)(tn__hash_mix(1, (uint64_t)i) >> 13);
  tn__checksum sum;
  tn__checksum_init(&sum);
  tn__checksum_update(&sum, data, SIZE);
  uint64_t whole = tn__checksum_final(&sum);
  for (size_t step = 1; step < 200; step += 7) {
    tn__checksum_init(&sum);
    for (size_t at = 0; at < SIZE; at += step)
      tn__checksum_update(&sum, data + at, SIZE - at < step ? SIZE - at : step);
    assert_true(tn__checksum_final(&sum) == whole);
  }
  for (int bit = 0; bit < SIZE * 8; bit++) {
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    tn__checksum_init(&sum);
    tn__checksum_update(&sum, data, SIZE);
    assert_true(tn__checksum_final(&sum) != whole);
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  uint64_t seen[130];
  memset(data, 0, SIZE);
  for (size_t size = 0; size < 130; size++) {
    tn__checksum_init(&sum);
    tn__checksum_update(&sum, data, size);
    seen[size] = tn__checksum_final(&sum);
    for (size_t other = 0; other < size; other++) assert_true(seen[other] != seen[size]);
  }
}

/* Of nothing, less and more than a piece, and more pieces than are hashed at a time. */
static void tree_digests_do_not_depend_on_threads(void **state) {
  const size_t piece = 4 << 20, sizes[] = {0, 1, piece - 1, piece, piece + 1, 3 * piece + 5, 65 * piece + 3};
  uint8_t *data = calloc(65 * piece + 3, 1);
  assert_non_null(data);
  tn__digest before = {{0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    tn__digest one = tn__sha256_tree(data, sizes[i], 1), three = tn__sha256_tree(data, sizes[i], 3);
    assert_true(tn__digest_equal(&one, &three));
    assert_false(tn__digest_equal(&one, &before));
    before = one;
    if (sizes[i] == 0) continue;
    data[sizes[i] - 1] ^= 1;
    three = tn__sha256_tree(data, sizes[i], 3);
    assert_false(tn__digest_equal(&one, &three));
    data[sizes[i] - 1] ^= 1;
  }
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sha256_vectors),
      cmocka_unit_test(sha256_of_a_million_bytes),
      cmocka_unit_test(sha256_does_not_depend_on_the_pieces),
      cmocka_unit_test(sha256_is_the_same_in_bulk_and_in_blocks),
      cmocka_unit_test(two_at_once_have_the_digests_that_they_have_alone),
      cmocka_unit_test(a_tree_is_made_of_pieces),
      cmocka_unit_test(strings_keep_their_borders),
      cmocka_unit_test(numbers_are_little_endian),
      cmocka_unit_test(mix_avalanches),
      cmocka_unit_test(bytes_see_length_and_every_byte),
      cmocka_unit_test(checksums_see_everything),
      cmocka_unit_test(tree_digests_do_not_depend_on_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
