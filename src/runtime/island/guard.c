#include "runtime/island/guard.h"

#include <sys/mman.h>

#include "tenon/base.h"

#ifdef PKEY_DISABLE_ACCESS /* the C library has them */

TN_MUST_USE static int take_key(char *memory, size_t bytes) {
  int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  if (key <= 0) return 0;
  if (pkey_mprotect(memory, bytes, PROT_READ | PROT_WRITE, key) == 0) return key;
  (void)pkey_free(key);
  return 0;
}

static void give_key(int key) { (void)pkey_free(key); }
static bool set_thread(int key, bool open) { return pkey_set(key, open ? 0 : PKEY_DISABLE_ACCESS) == 0; }
static bool set_pages(const tn__island_guard *g, size_t used, bool open) {
  if (g->key > 0) return pkey_mprotect(g->memory, used, PROT_READ | PROT_WRITE, open ? 0 : g->key) == 0;
  return mprotect(g->memory, used, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
}

#else

static int take_key(char *memory, size_t bytes) { return 0; }
static void give_key(int key) {}
static bool set_thread(int key, bool open) { return false; }
static bool set_pages(const tn__island_guard *g, size_t used, bool open) {
  return mprotect(g->memory, used, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
}

#endif

tn__island_guard tn__island_guard_begin(char *memory, size_t bytes) {
  return (tn__island_guard){memory, bytes, take_key(memory, bytes)};
}

void tn__island_guard_end(tn__island_guard *guard) {
  if (guard->key > 0) give_key(guard->key);
  guard->key = 0;
}

static bool set(const tn__island_guard *g, size_t used, bool alone, bool open) {
  if (g->key > 0 && alone) return set_thread(g->key, open);
  return used == 0 || set_pages(g, used, open);
}

bool tn__island_guard_open(const tn__island_guard *guard, size_t used, bool alone) {
  return set(guard, used, alone, true);
}

void tn__island_guard_close(const tn__island_guard *guard, size_t used, bool alone) {
  (void)set(guard, used, alone, false);
}
