#include "runtime/format/source_unit.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

static tn_status *refuse(const char *what) {
  return tn_status_create(TN_INVALID_ARGUMENT, "the source of a device's kernels is damaged: %s", what);
}

/* Are `count` records of `record` bytes at the offset, before `end`? */
static bool holds(uint64_t offset, uint64_t count, uint64_t record, uint64_t end) {
  return offset % 8 == 0 && offset <= end && count <= (end - offset) / record;
}

static tn_status *check_launch(const tn__source_unit *unit, const tn__source_launch *launch) {
  const char *bytes = (const char *)unit;
  if (launch->name < unit->names || launch->name >= unit->text ||
      memchr(bytes + launch->name, '\0', unit->text - launch->name) == NULL)
    return refuse("a kernel's name is outside of the names");
  for (int a = 0; a < 3; a++)
    if (launch->block[a] == 0) return refuse("a block without threads");
  return NULL;
}

/* `*left`: of the launches, how many the kernels before left. All kernels together have no more than there are, and the
 * text names each parameter, so nothing that is made of a unit is larger than it, whatever its numbers say. */
static tn_status *check_kernel(const tn__source_unit *unit, const tn__source_kernel *kernel, uint32_t *left) {
  const tn__source_launch *launches = (const void *)((const char *)unit + unit->launches);
  if (kernel->has_workspace > 1 || kernel->text_scalar_count > kernel->scalar_count ||
      (uint64_t)kernel->buffer_count + kernel->text_scalar_count > unit->text_size)
    return refuse("a kernel's parameters");
  if (kernel->first_launch > unit->launch_count || kernel->launch_count > unit->launch_count - kernel->first_launch)
    return refuse("a kernel's launches are outside of the table");
  if (kernel->launch_count > *left) return refuse("two kernels have one launch");
  *left -= kernel->launch_count;
  for (uint32_t i = 0; i < kernel->launch_count; i++)
    for (int a = 0; a < 3; a++) {
      const tn__source_extent *extent = &launches[kernel->first_launch + i].grid[a];
      if (extent->symbolic > 1 || extent->value < 0 || (extent->symbolic == 1 && extent->value >= kernel->scalar_count))
        return refuse("a grid's extent");
    }
  return NULL;
}

tn_status *tn__source_unit_check(const void *unit, size_t size) {
  const tn__source_unit *u = unit;
  if (size < sizeof(*u) || memcmp(u->magic, TN__SOURCE_MAGIC, sizeof(u->magic)) != 0)
    return refuse("it does not begin as one");
  if (u->language < TN__SOURCE_OPENCL || u->language > TN__SOURCE_C99) return refuse("its language is not known");
  if (!holds(u->kernels, u->kernel_count, sizeof(tn__source_kernel), size) ||
      !holds(u->launches, u->launch_count, sizeof(tn__source_launch), size) || u->names > u->text || u->text >= size ||
      u->text_size >= size - u->text)
    return refuse("its tables are larger than it is");
  const char *text = (const char *)unit + u->text;
  if (memchr(text, '\0', u->text_size) != NULL || text[u->text_size] != '\0')
    return refuse("its text does not end where it should");
  const tn__source_launch *launches = (const void *)((const char *)unit + u->launches);
  for (uint32_t i = 0; i < u->launch_count; i++) TN_RETURN_IF_ERROR(check_launch(u, &launches[i]));
  const tn__source_kernel *kernels = (const void *)((const char *)unit + u->kernels);
  uint32_t left = u->launch_count;
  for (uint32_t i = 0; i < u->kernel_count; i++) TN_RETURN_IF_ERROR(check_kernel(u, &kernels[i], &left));
  return NULL;
}

const tn__source_kernel *tn__source_unit_kernel(const tn__source_unit *unit, uint64_t offset) {
  if (offset < unit->kernels || (offset - unit->kernels) % sizeof(tn__source_kernel) != 0) return NULL;
  uint64_t number = (offset - unit->kernels) / sizeof(tn__source_kernel);
  return number < unit->kernel_count ? (const tn__source_kernel *)((const char *)unit + unit->kernels) + number : NULL;
}
