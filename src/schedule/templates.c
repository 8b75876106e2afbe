#include "schedule/templates.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"

enum { MOST_TEMPLATES = 512 }; /* kinds of kernels in one compilation; those that come later are analysed each time */

struct tn__templates {
  pthread_mutex_t lock;
  int count;
  int64_t reused;
  tn__digest keys[MOST_TEMPLATES];
  tn__template entries[MOST_TEMPLATES];
};

static void release(void *templates) { pthread_mutex_destroy(&((tn__templates *)templates)->lock); }

tn__templates *tn__templates_create(tn__arena *arena) {
  tn__templates *t = TN__NEW(arena, tn__templates);
  pthread_mutex_init(&t->lock, NULL);
  tn__arena_defer(arena, release, t);
  return t;
}

int64_t tn__templates_reused(tn__templates *t) {
  pthread_mutex_lock(&t->lock);
  int64_t reused = t->reused;
  pthread_mutex_unlock(&t->lock);
  return reused;
}

/* ---- structure ----------------------------------------------------------------------------------------------------
 */

typedef struct shape_hash {
  tn__sha256 hash;
  const tn__te_stage *stage;
} shape_hash;

static uint64_t place_of(const tn__te_axes *axes, const tn__var *var) {
  for (int i = 0; i < axes->count; i++)
    if (axes->var[i] == var) return (uint64_t)i + 1;
  return 0;
}

/* Numbers other than 0 and 1 follow from extents: they are left out. */
static void hash_node(const tn__expr *e, void *user) {
  shape_hash *h = user;
  uint64_t leaf = 0;
  if (e->kind == TN__EXPR_INT) leaf = e->value.i == 0 || e->value.i == 1 ? (uint64_t)e->value.i : 2;
  if (e->kind == TN__EXPR_VAR)
    leaf = place_of(&h->stage->axes, e->value.var) + 100 * place_of(&h->stage->reduce_axes, e->value.var);
  if (e->kind == TN__EXPR_LOAD) leaf = e->value.buffer->id;
  if (e->kind == TN__EXPR_CALL) leaf = (uint64_t)e->intrinsic;
  const uint64_t words[] = {(uint64_t)e->kind, (uint64_t)e->dtype, (uint64_t)e->arg_count, leaf};
  for (int i = 0; i < 4; i++) tn__sha256_update_u64(&h->hash, words[i]);
}

/* Extents of 1 and open ones are kinds of their own. */
static void hash_axes(tn__sha256 *hash, const tn__te_axes *axes) {
  tn__sha256_update_u64(hash, (uint64_t)axes->count);
  for (int i = 0; i < axes->count; i++) {
    int64_t extent;
    bool known = tn__as_int(axes->var[i]->extent, &extent);
    tn__sha256_update_u64(hash, !known ? 0 : extent == 1 ? 1 : 2);
  }
}

tn__digest tn__structure_of(const tn__te *te) {
  shape_hash h = {.stage = NULL};
  tn__sha256_init(&h.hash);
  tn__sha256_update_u64(&h.hash, (uint64_t)tn__te_output_count(te));
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    h.stage = stage;
    tn__sha256_update_u64(&h.hash, (uint64_t)stage->kind);
    hash_axes(&h.hash, &stage->axes);
    hash_axes(&h.hash, &stage->reduce_axes);
    if (stage->kind == TN__TE_EXTERN) continue;
    for (int t = 0; t < stage->tensor_count; t++) {
      tn__sha256_update_u64(&h.hash, stage->tensors[t]->id);
      tn__te_visit(tn__te_ir(te), stage->values[t], hash_node, &h);
    }
    if (stage->kind != TN__TE_REDUCE) continue;
    for (int t = 0; t < stage->combiner->count; t++)
      tn__te_visit(tn__te_ir(te), stage->combiner->result[t], hash_node, &h);
  }
  return tn__sha256_final(&h.hash);
}

/* ---- the table ----------------------------------------------------------------------------------------------------
 */

bool tn__templates_find(tn__templates *t, const tn__digest *key, tn__template *out) {
  bool found = false;
  pthread_mutex_lock(&t->lock);
  for (int i = 0; i < t->count && !found; i++) {
    found = memcmp(&t->keys[i], key, sizeof(*key)) == 0;
    if (found) *out = t->entries[i];
  }
  t->reused += found;
  pthread_mutex_unlock(&t->lock);
  return found;
}

void tn__templates_add(tn__templates *t, const tn__digest *key, const tn__template *entry) {
  pthread_mutex_lock(&t->lock);
  bool known = t->count == MOST_TEMPLATES;
  for (int i = 0; i < t->count && !known; i++) known = memcmp(&t->keys[i], key, sizeof(*key)) == 0;
  if (!known) {
    t->keys[t->count] = *key;
    t->entries[t->count++] = *entry;
  }
  pthread_mutex_unlock(&t->lock);
}
