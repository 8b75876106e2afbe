/* Code becomes a kernel that can be called, and gets threads. */
#include <string.h>
#include <sys/mman.h>

#include "base/file.h"
#include "tune/worker/internal.h"

tn_status *tn__worker_kernel_map(const void *code, size_t size, tn__worker_kernel *out) {
  *out = (tn__worker_kernel){0};
  const char *image = (const char *)code + TN__WORKER_CODE_ALIGN;
  tn__worker_code *head = &out->head;
  if (size < TN__WORKER_CODE_ALIGN)
    return tn_status_create(TN_DATA_LOSS, "the code is not what a builder of worker processes made");
  memcpy(head, code, sizeof *head);
  if (memcmp(head->mark, "tnxcode", sizeof head->mark) != 0 || head->size != size - TN__WORKER_CODE_ALIGN ||
      head->entry >= head->size || head->scalar_count < 0 || head->scalar_count > TN__WORKER_MOST_SCALARS ||
      head->workspace_bytes < 0)
    return tn_status_create(TN_DATA_LOSS, "the code is not what a builder of worker processes made");
  if (head->workspace_bytes > 0) {
    tn_status *status = tn__worker_memory_create("the workspace", (size_t)head->workspace_bytes, &out->workspace);
    if (status != NULL) return status;
  }
  tn_status *status = tn__map_copy(image, (size_t)head->size, "a kernel", &out->mapped);
  if (status != NULL) return status;
  out->mapped_bytes = (size_t)head->size;
  if (mprotect(out->mapped, out->mapped_bytes, PROT_READ | PROT_EXEC) != 0)
    return tn_status_create(TN_IO, "the memory of a kernel cannot be made executable");
  union {
    void *data;
    tn_kernel code;
  } entry = {.data = (char *)out->mapped + head->entry};
  out->code = entry.code;
  return NULL;
}

void tn__worker_kernel_release(tn__worker_kernel *kernel) {
  if (kernel->mapped != NULL) munmap(kernel->mapped, kernel->mapped_bytes);
  tn__worker_memory_release(&kernel->workspace);
  *kernel = (tn__worker_kernel){0};
}

tn_status *tn__worker_pool_for(tn__worker *w, int threads) {
  if (threads < 1) threads = 1;
  if (w->pool != NULL && w->pool_threads == threads) return NULL;
  tn_thread_pool_release(w->pool);
  w->pool = NULL;
  const tn_thread_pool_options options = {.size = sizeof options, .threads = threads};
  w->pool_threads = threads;
  return tn_thread_pool_create(&options, &w->pool);
}
