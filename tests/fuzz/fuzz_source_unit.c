/* Source units, which contain code that drivers compile, and compiler logs of rejected source. All records of an
 * accepted unit can be read, its launches are within limits or rejected, and any log becomes an error. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "runtime/source/source.h"

enum { SCALARS = 16 };

static void launch_all(const tn__source_unit *unit) {
  static const int64_t scalars[SCALARS] = {0, 1, 2, 1000, INT64_MAX, -1, 7};
  static const tn__source_limits limits = {.kind = "opencl",
                                           .threads = 256,
                                           .along = {256, 256, 64},
                                           .blocks = {SIZE_MAX, 65535, 65535},
                                           .shared = 1 << 10,
                                           .shared_there = 1 << 15};
  const tn__source_kernel *kernels = tn__source_kernels(unit), *found;
  const tn__source_launch *launches = tn__source_launches(unit);
  for (uint32_t k = 0; k < unit->kernel_count; k++) {
    uint64_t offset = (uint64_t)((const char *)&kernels[k] - (const char *)unit);
    require(tn__source_unit_kernel(unit, offset) == &kernels[k]);
    require(tn__source_unit_kernel(unit, offset + 1) == NULL);
    const tn__device_launch wanted = {
        .offset = offset, .buffer_count = tn__source_buffers(&kernels[k]), .scalar_count = kernels[k].scalar_count};
    tn_status *status = tn__source_launched(unit, &wanted, &found);
    require(status == NULL && found == &kernels[k]);
    for (uint32_t l = 0; l < kernels[k].launch_count && kernels[k].scalar_count <= SCALARS; l++) {
      const tn__source_launch *launch = &launches[kernels[k].first_launch + l];
      size_t blocks[3];
      bool any;
      require(strlen(tn__source_name(unit, launch)) < unit->text);
      status = tn__source_grid(tn__source_name(unit, launch), launch, scalars, &limits, blocks, &any);
      require(tn_status_code_of(status) == TN_OK || tn_status_code_of(status) == TN_UNSUPPORTED);
      tn_status_free(status);
    }
  }
  require(strlen(tn__source_text(unit)) == unit->text_size);
}

/* The first half of the bytes is the source, the second half the compiler's log. */
static void refuse(const uint8_t *data, size_t size) {
  char *text = calloc(size + 2, 1), *log = text + size / 2 + 1;
  memcpy(text, data, size / 2);
  memcpy(log, data + size / 2, size - size / 2);
  tn_status *status = tn__source_refused(text, log);
  require(status != NULL && tn_status_message(status)[0] != '\0');
  tn_status_free(status);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const tn__device device = {.allocator = NULL};
  tn__source_unit *unit;
  if (size == 0) return 0;
  uint8_t *bytes = malloc(size); /* loaded units are aligned */
  memcpy(bytes, data, size);
  for (tn__source_language language = TN__SOURCE_OPENCL; language <= TN__SOURCE_CUDA; language++) {
    tn_status *status = tn__source_copy(&device, bytes, size, language, &unit);
    if (status == NULL) launch_all(unit);
    tn_status_free(status);
    tn__source_free(&device, unit, size);
  }
  refuse(data, size);
  free(bytes);
  return 0;
}
