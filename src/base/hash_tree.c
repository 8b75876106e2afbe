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

static void *hash_pieces(void *user) {
  tree *t = user;
  for (;;) {
    int i = atomic_fetch_add(&t->next, 1);
    if (i >= t->count) return NULL;
    size_t from = (size_t)i * PIECE, left = t->size - from;
    tn__sha256 hasher;
    tn__sha256_init(&hasher);
    tn__sha256_update(&hasher, t->data + from, left < PIECE ? left : PIECE);
    t->digests[i] = tn__sha256_final(&hasher);
  }
}

static void hash_batch(tree *t, int threads) {
  pthread_t ids[MOST_THREADS];
  int started = 0;
  if (threads > t->count) threads = t->count;
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
