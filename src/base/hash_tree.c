#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"

enum { PIECE = 4 << 20, BATCH = 64, MOST_THREADS = 8 };

typedef struct tree { /* up to BATCH pieces */
  const uint8_t *data;
  size_t size;
  int count;
  _Atomic int next;
  tn__digest digests[BATCH];
} tree;

/* A pair of pieces at a time; the last may be alone, or shorter. */
static void *hash_pieces(void *user) {
  tree *t = user;
  for (;;) {
    int i = atomic_fetch_add(&t->next, 2);
    if (i >= t->count) return NULL;
    size_t from = (size_t)i * PIECE, left = t->size - from;
    if (left >= 2 * (size_t)PIECE) {
      tn__sha256_two((const void *const[2]){t->data + from, t->data + from + PIECE}, PIECE, &t->digests[i]);
      continue;
    }
    for (; i < t->count && left > 0; i++) {
      size_t size = left < PIECE ? left : PIECE;
      tn__sha256 hasher;
      tn__sha256_init(&hasher);
      tn__sha256_update(&hasher, t->data + (size_t)i * PIECE, size);
      t->digests[i] = tn__sha256_final(&hasher);
      left -= size;
    }
  }
}

static void hash_batch(tree *t, int threads) {
  pthread_t ids[MOST_THREADS];
  int started = 0;
  if (threads > (t->count + 1) / 2) threads = (t->count + 1) / 2;
  while (started < threads - 1 && pthread_create(&ids[started], NULL, hash_pieces, t) == 0) started++;
  hash_pieces(t); /* alone, when no other thread could be had */
  for (int i = 0; i < started; i++) pthread_join(ids[i], NULL);
}

tn__digest tn__sha256_tree(const void *data, size_t size, int threads) {
  const uint8_t *at = data;
  tn__sha256 all;
  tn__sha256_init(&all);
  tn__sha256_update_u64(&all, size);
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  while (size > 0) {
    tree t = {.data = at, .size = size < (size_t)PIECE * BATCH ? size : (size_t)PIECE * BATCH};
    t.count = (int)((t.size + PIECE - 1) / PIECE);
    hash_batch(&t, threads);
    tn__sha256_update(&all, t.digests, sizeof(t.digests[0]) * (size_t)t.count);
    at += t.size, size -= t.size;
  }
  return tn__sha256_final(&all);
}
