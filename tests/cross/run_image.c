/* usage: run_image FILE
 *
 * Runs one kernel of a flat image on the machine that this program is built for, under an emulator for example. FILE is
 * a header, the image and the buffers, as tests/unit/kernel.h lays it out; the buffers are changed in place. The exit
 * status is the kernel's result. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tenon/kernel_abi.h"

enum { MAX_BUFFERS = 128 };

/* All offsets in bytes from the start of the file; the image's is a multiple of 64 KiB. */
typedef struct header {
  uint64_t image, image_size, entry, buffer_count, scalar_count;
  uint64_t buffers[MAX_BUFFERS];
  int64_t scalars[8];
} header;

static int32_t parallel_for(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  for (int64_t begin = (count + 2) / 3 * 3 - 3; begin >= 0; begin -= 3) {
    int32_t result = task(env, closure, begin, begin + 3 < count ? begin + 3 : count);
    if (result != TN_KERNEL_OK) return result;
  }
  return TN_KERNEL_OK;
}

int main(int argc, char **argv) {
  int file = argc == 2 ? open(argv[1], O_RDWR) : -1;
  struct stat info;
  if (file < 0 || fstat(file, &info) != 0) return 100;
  char *data = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return 101;
  const header *h = (const header *)data;
  char *code = mmap(NULL, h->image_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, (off_t)h->image);
  if (code == MAP_FAILED) return 102;
  void *buffers[MAX_BUFFERS];
  for (uint64_t i = 0; i < h->buffer_count; i++) buffers[i] = data + h->buffers[i];
  union {
    void *data;
    tn_kernel code;
  } entry = {.data = code + h->entry};
  tn_kernel_env env = {
      .version = TN_KERNEL_ABI_VERSION, .size = sizeof(env), .parallel_for = parallel_for, .thread_count = 1};
  int32_t result = entry.code(&env, buffers, h->scalars);
  return munmap(data, (size_t)info.st_size) == 0 ? result : 103;
}
