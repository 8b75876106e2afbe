#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "tune/worker/internal.h"

enum { BESIDE = 0xa5, ALIGNMENT = 64 }; /* bytes that nobody may write; of vectors */

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

tn_status *tn__worker_memory_create(const char *name, size_t bytes, tn__worker_memory *out) {
  size_t page = page_size();
  *out = (tn__worker_memory){.name = name, .bytes = bytes};
  if (bytes > SIZE_MAX / 4) return tn__map_failed(name, bytes);
  size_t aligned = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  size_t inner = (aligned > 0 ? aligned + page - 1 : page) / page * page;
  char *pages = mmap(NULL, inner + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return tn__map_failed(name, bytes);
  out->pages = pages;
  out->pages_bytes = inner + 2 * page;
  out->data = pages + page + inner - aligned;
  memset(pages + page, BESIDE, inner - aligned);
  memset(out->data + bytes, BESIDE, aligned - bytes);
  if (mprotect(pages, page, PROT_NONE) == 0 && mprotect(pages + page + inner, page, PROT_NONE) == 0) return NULL;
  tn__worker_memory_release(out);
  return tn__map_failed(name, bytes);
}

void tn__worker_memory_release(tn__worker_memory *memory) {
  if (memory->pages != NULL) munmap(memory->pages, memory->pages_bytes);
  *memory = (tn__worker_memory){0};
}

void tn__worker_memory_seal(tn__worker_memory *memory, bool seal) {
  size_t page = page_size();
  if (memory->pages != NULL)
    (void)mprotect(memory->pages + page, memory->pages_bytes - 2 * page, seal ? PROT_READ : PROT_READ | PROT_WRITE);
}

static bool is_written(const char *from, const char *to) {
  while (from < to && (unsigned char)*from == BESIDE) from++;
  return from < to;
}

bool tn__worker_memory_overrun(const tn__worker_memory *memory) {
  size_t page = page_size();
  if (memory->pages == NULL) return false;
  return is_written(memory->pages + page, memory->data) ||
         is_written(memory->data + memory->bytes, memory->pages + memory->pages_bytes - page);
}
