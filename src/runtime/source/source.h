/* What drivers share whose devices compile source units (runtime/format/source_unit.h): the records of a unit and of
 * its launches, limits, what a compiler's refusal says, and programs on disk. Statuses do not name the device: the
 * driver puts that in front. */
#ifndef TENON_RUNTIME_SOURCE_SOURCE_H
#define TENON_RUNTIME_SOURCE_SOURCE_H

#include "base/hash.h"
#include "runtime/device.h"
#include "runtime/format/source_unit.h"

/* ---- units --------------------------------------------------------------------------------------------------------*/

/* A copy of the unit, which was checked and is of the language; `out` is for tn__source_free. */
TN_MUST_USE tn_status *tn__source_copy(const tn__device *device, const void *bytes, size_t size,
                                       tn__source_language language, tn__source_unit **out);
void tn__source_free(const tn__device *device, tn__source_unit *unit, size_t size);

static inline const tn__source_kernel *tn__source_kernels(const tn__source_unit *unit) {
  return (const void *)((const char *)unit + unit->kernels);
}
static inline const tn__source_launch *tn__source_launches(const tn__source_unit *unit) {
  return (const void *)((const char *)unit + unit->launches);
}
static inline const char *tn__source_name(const tn__source_unit *unit, const tn__source_launch *launch) {
  return (const char *)unit + launch->name;
}
static inline const char *tn__source_text(const tn__source_unit *unit) { return (const char *)unit + unit->text; }
/* With the workspace. */
static inline uint32_t tn__source_buffers(const tn__source_kernel *kernel) {
  return kernel->buffer_count + kernel->has_workspace;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* The record of the kernel that is launched, with as many buffers and scalars as it says. */
TN_MUST_USE tn_status *tn__source_launched(const tn__source_unit *unit, const tn__device_launch *launch,
                                           const tn__source_kernel **out);

/* What blocks of a kernel may be like. */
typedef struct tn__source_limits {
  const char *kind;            /* of targets for the device: "opencl" */
  size_t threads, along[3];    /* of a block, in all and along each axis */
  size_t blocks[3];            /* of a grid, along each axis */
  size_t shared, shared_there; /* bytes that a block's threads share: the kernel's and the device's */
} tn__source_limits;

/* How many blocks there are along each axis, and whether there are any; an error that names the kernel where they are
 * beyond the limits. */
TN_MUST_USE tn_status *tn__source_grid(const char *name, const tn__source_launch *launch, const int64_t *scalars,
                                       const tn__source_limits *limits, size_t blocks[3], bool *any);

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* The error of a text that the device's compiler refuses, from what that says: with the line that it is about. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__source_refused(const char *text, const char *log);

/* What a compiler made, on disk: in a folder of the compile cache's, with a bound of its own. Trouble is no error, for
 * the compiler can do its work again, but for what it takes the device's log is warned. False: there is nothing under
 * the key, or it is damaged. `*out` is for free(). */
TN_MUST_USE bool tn__source_kept(const tn__digest *key, void **out, size_t *size);
void tn__source_keep(const tn__device *device, const tn__digest *key, const void *data, size_t size);

#endif
