/* Source units (runtime/format/source_unit.h) for tests, of kernels that the test writes by hand. */
#ifndef TENON_TESTS_UNIT_SOURCE_MAKER_H
#define TENON_TESTS_UNIT_SOURCE_MAKER_H

#include "runtime/format/source_unit.h"
#include "unit/check.h"

enum { MADE_LAUNCHES = 2 };

typedef struct made_kernel {
  uint32_t buffers, workspace, text_scalars, scalars;
  struct {
    const char *name;
    uint32_t block[3], shared_bytes; /* zeros: 1 */
    tn__source_extent grid[3];       /* a value of 0 that is not symbolic: 1 */
  } launches[MADE_LAUNCHES];         /* up to the first without a name */
} made_kernel;

typedef struct made_unit {
  char *bytes;
  size_t size;
  uint64_t offsets[16]; /* of the kernels */
} made_unit;

static inline int made_launch_count(const made_kernel *kernel) {
  int count = 0;
  while (count < MADE_LAUNCHES && kernel->launches[count].name != NULL) count++;
  return count;
}

/* The names go into the unit at `names`, which is moved on. */
static inline void made_launches(char *bytes, const made_kernel *kernel, tn__source_launch *out, uint64_t *names) {
  for (int i = 0; i < made_launch_count(kernel); i++) {
    out[i] = (tn__source_launch){.name = *names, .shared_bytes = kernel->launches[i].shared_bytes};
    strcpy(bytes + *names, kernel->launches[i].name);
    *names += strlen(kernel->launches[i].name) + 1;
    for (int a = 0; a < 3; a++) {
      uint32_t block = kernel->launches[i].block[a];
      tn__source_extent grid = kernel->launches[i].grid[a];
      out[i].block[a] = block > 0 ? block : 1;
      if (!grid.symbolic && grid.value == 0) grid.value = 1;
      out[i].grid[a] = grid;
    }
  }
}

static inline made_unit make_unit(uint32_t language, const char *text, const made_kernel *kernels, int count) {
  made_unit made = {0};
  size_t launches = 0, names = 0;
  for (int i = 0; i < count; i++)
    for (int k = 0; k < made_launch_count(&kernels[i]); k++)
      launches++, names += strlen(kernels[i].launches[k].name) + 1;
  tn__source_unit unit = {.language = language, .kernel_count = (uint32_t)count, .launch_count = (uint32_t)launches};
  memcpy(unit.magic, TN__SOURCE_MAGIC, sizeof unit.magic);
  unit.kernels = sizeof unit;
  unit.launches = unit.kernels + (uint64_t)count * sizeof(tn__source_kernel);
  unit.names = unit.launches + launches * sizeof(tn__source_launch);
  unit.text = unit.names + names;
  unit.text_size = strlen(text);
  made.size = unit.text + unit.text_size + 1;
  made.bytes = calloc(1, made.size);
  memcpy(made.bytes, &unit, sizeof unit);
  strcpy(made.bytes + unit.text, text);
  uint64_t at = unit.names;
  uint32_t first = 0;
  for (int i = 0; i < count; i++) {
    made.offsets[i] = unit.kernels + (uint64_t)i * sizeof(tn__source_kernel);
    tn__source_kernel *kernel = (void *)(made.bytes + made.offsets[i]);
    *kernel = (tn__source_kernel){.first_launch = first,
                                  .launch_count = (uint32_t)made_launch_count(&kernels[i]),
                                  .buffer_count = kernels[i].buffers,
                                  .has_workspace = kernels[i].workspace,
                                  .text_scalar_count = kernels[i].text_scalars,
                                  .scalar_count = kernels[i].scalars};
    made_launches(made.bytes, &kernels[i], (tn__source_launch *)(void *)(made.bytes + unit.launches) + first, &at);
    first += kernel->launch_count;
  }
  check_ok(tn__source_unit_check(made.bytes, made.size));
  return made;
}

#endif
