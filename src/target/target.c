/* The table of kinds, and what is the same for all of them. */
#include "target/target.h"

static const struct {
  const char *name;
  int device_type; /* DLPack's */
  unsigned beside; /* scopes of memory beside global, a bit each */
} kinds[] = {
    /* A CPU has one memory: what is pinned of it is so for some other device, whose scope it is. */
    [TN__TARGET_CPU] = {"cpu", 1, 0},
    [TN__TARGET_GPU] = {"gpu", TN__DEVICE_OTHER, 0},
    [TN__TARGET_C99] = {"c99", 1, 0},
    [TN__TARGET_OPENCL] = {"opencl", 4, 1u << TN__MEMORY_HOST_PINNED},
    [TN__TARGET_CUDA] = {"cuda", 2, 1u << TN__MEMORY_HOST_PINNED},
    [TN__TARGET_ISLAND] = {"island", TN__DEVICE_ISLAND, 1u << TN__MEMORY_TEXTURE},
};
_Static_assert(sizeof kinds / sizeof kinds[0] == TN__TARGET_KINDS, "a row for each kind");

const char *tn__target_kind_name(tn__target_kind kind) { return kinds[kind].name; }
int tn__target_device_type(const tn__target *target) { return kinds[target->kind].device_type; }

const char *tn__target_type_name(int device_type) {
  for (int k = 0; k < TN__TARGET_KINDS; k++)
    if (kinds[k].device_type == device_type) return kinds[k].name;
  return NULL;
}

unsigned tn__target_memory_scopes(int device_type) {
  unsigned scopes = 1u << TN__MEMORY_GLOBAL;
  for (int k = 0; k < TN__TARGET_KINDS; k++)
    if (kinds[k].device_type == device_type) scopes |= kinds[k].beside;
  return scopes;
}
