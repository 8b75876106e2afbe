/* Memory against pages without access, for programs that attack what runs on it: a read or write outside of a block is
 * a fault, which ends the process with a line that says where the address lies. Bytes between a block and the page are
 * checked when it is freed. */
#ifndef TENON_TESTS_GUARDED_H
#define TENON_TESTS_GUARDED_H

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tenon/runtime.h>

enum { GUARDED_PAGE = 4096, GUARDED_BLOCKS = 1 << 14 };

typedef struct guarded_block {
  uint8_t *data; /* NULL: the entry is free */
  size_t size;
  uint8_t *pages; /* the whole mapping, with a page without access at both ends */
  size_t pages_size;
  uint8_t fill; /* of the bytes around it */
} guarded_block;

/* A process has one, which the handler of faults has to find. */
typedef struct guarded_heap {
  guarded_block blocks[GUARDED_BLOCKS];
  int block_count; /* entries that were ever used */
  size_t live_bytes;
  bool at_start; /* new blocks begin behind a guard page; otherwise they end at one */
  uint8_t fill;
  bool corrupted;          /* a freed block had other bytes around it than it was made with */
  const char *instruction; /* that ran last to its end */
  size_t limit;            /* of live_bytes; no more is given */
} guarded_heap;
static guarded_heap guarded_memory = {.limit = (size_t)512 << 20, .fill = 0xff};

static inline size_t guarded_round(size_t n, size_t to) { return (n + to - 1) / to * to; }

static inline void *guarded_alloc(size_t size, size_t align) {
  if (size > guarded_memory.limit - guarded_memory.live_bytes) return NULL;
  int index = 0;
  while (index < guarded_memory.block_count && guarded_memory.blocks[index].data != NULL) index++;
  if (index == GUARDED_BLOCKS) return NULL;
  size_t inner = guarded_round(size == 0 ? 1 : size, GUARDED_PAGE);
  uint8_t *pages = mmap(NULL, inner + 2 * GUARDED_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
  mprotect(pages, GUARDED_PAGE, PROT_NONE);
  mprotect(pages + GUARDED_PAGE + inner, GUARDED_PAGE, PROT_NONE);
  if (inner <= (size_t)16 << 20) memset(pages + GUARDED_PAGE, guarded_memory.fill, inner);
  uint8_t *data = pages + GUARDED_PAGE + (guarded_memory.at_start ? 0 : (inner - size) / align * align);
  guarded_memory.blocks[index] = (guarded_block){data, size, pages, inner + 2 * GUARDED_PAGE, guarded_memory.fill};
  if (index == guarded_memory.block_count) guarded_memory.block_count++;
  guarded_memory.live_bytes += size;
  return data;
}

static inline void guarded_check(const guarded_block *block) {
  const uint8_t *from = block->pages + GUARDED_PAGE, *to = block->pages + block->pages_size - GUARDED_PAGE;
  if (to - from > (ptrdiff_t)16 << 20) return;
  for (; from < to; from++)
    if ((from < block->data || from >= block->data + block->size) && *from != block->fill)
      guarded_memory.corrupted = true;
}

static inline void guarded_free(void *data) {
  for (int i = 0; i < guarded_memory.block_count && data != NULL; i++) {
    guarded_block *block = &guarded_memory.blocks[i];
    if (block->data != data) continue;
    guarded_check(block);
    guarded_memory.live_bytes -= block->size;
    munmap(block->pages, block->pages_size);
    *block = (guarded_block){0};
    return;
  }
}

static inline void *guarded_reallocate(void *user, void *pointer, size_t old_size, size_t new_size, size_t align) {
  (void)user;
  void *fresh = new_size == 0 ? NULL : guarded_alloc(new_size, align == 0 ? _Alignof(max_align_t) : align);
  if (new_size != 0 && fresh == NULL) return NULL;
  if (pointer != NULL && fresh != NULL) memcpy(fresh, pointer, old_size < new_size ? old_size : new_size);
  guarded_free(pointer);
  return fresh;
}
static const tn_allocator guarded_allocator = {guarded_reallocate, NULL};

/* Nobody writes to what the caller only lends. */
static inline void guarded_protect(const void *data) {
  for (int i = 0; i < guarded_memory.block_count; i++)
    if (guarded_memory.blocks[i].data == data)
      mprotect(guarded_memory.blocks[i].pages + GUARDED_PAGE, guarded_memory.blocks[i].pages_size - 2 * GUARDED_PAGE,
               PROT_READ);
}

/* The nearest block tells what was overrun. The process ends here, so that it need not matter what printf locks. */
static inline void guarded_fault(int number, siginfo_t *info, void *context) {
  (void)context;
  const uint8_t *address = info->si_addr;
  const guarded_block *nearest = NULL;
  for (int i = 0; i < guarded_memory.block_count; i++) {
    const guarded_block *block = &guarded_memory.blocks[i];
    if (block->data != NULL && address >= block->pages && address < block->pages + block->pages_size) nearest = block;
  }
  fprintf(stderr, "fault %d after %s: ", number,
          guarded_memory.instruction == NULL ? "the start" : guarded_memory.instruction);
  if (nearest == NULL)
    fprintf(stderr, "%p is in no block\n", (const void *)address);
  else
    fprintf(stderr, "byte %td of a block of %zu\n", address - nearest->data, nearest->size);
  fflush(stderr);
  _exit(99);
}

static inline void guarded_instruction(void *user, const char *kernel, uint64_t start, uint64_t end) {
  (void)user, (void)start, (void)end;
  guarded_memory.instruction = kernel;
}

/* Faults end the process with status 99. */
static inline void guarded_catch_faults(void) {
  static uint8_t stack[1 << 16]; /* a recursion without end leaves none of its own */
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  struct sigaction action = {.sa_sigaction = guarded_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) sigaction(signals[i], &action, NULL);
}

/* Frees all blocks but the first `kept`, which were made before all others; false: bytes around one were written. */
static inline bool guarded_sweep(int kept) {
  for (int i = kept; i < guarded_memory.block_count; i++) guarded_free(guarded_memory.blocks[i].data);
  guarded_memory.block_count = kept;
  bool whole = !guarded_memory.corrupted;
  guarded_memory.corrupted = false;
  return whole;
}

/* A copy of `data` (NULL: fresh bytes) in a block of its own; NULL without memory. */
static inline void *guarded_place(const void *data, size_t size, size_t align) {
  uint8_t *copy = guarded_alloc(size, align);
  if (copy != NULL && data != NULL && size > 0) memcpy(copy, data, size);
  return copy;
}

#endif
