/* The words of OpenCL's devices, which are CPUs or something else. */
#include <stdio.h>
#include <string.h>

#include "target/text/kinds.h"

const tn__target_attribute tn__target_attributes_opencl[] = {
    {"type", "cpu or gpu", TN__ATTRIBUTE_WORD | TN__ATTRIBUTE_CODE, TN__TARGET_AT(type), 0, 0},
    {"fp64", "1: it has numbers of type f64", 0, TN__TARGET_AT(gpu.fp64), 0, 1},
    TN__TARGET_CPU_WORDS,
    TN__TARGET_CPU_NUMBERS(TN__ATTRIBUTE_LOWERS),
    TN__TARGET_GPU_NUMBERS,
    TN__TARGET_NO_MORE};

/* Of CPUs everything is as `cpu` has it, this machine unless it is said. */
tn_status *tn__target_words_opencl(const char *text, tn__target *target) {
  if (strcmp(target->type, "cpu") == 0) {
    target->gpu.fp64 = 1;
    return tn__target_words_cpu(text, target);
  }
  if (target->type[0] != '\0' && strcmp(target->type, "gpu") != 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": the type of a device is cpu or gpu, not \"%s\"", text,
                            target->type);
  memset(target->type, 0, sizeof target->type);
  if (target->cpu.mcpu[0] != '\0' || target->mattr[0] != '\0')
    return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": mcpu and mattr are of CPUs: say -type=cpu, too", text);
  return tn__target_words_gpu(text, target);
}

tn_status *tn__target_check_opencl(const char *text, const tn__target *target) {
  const bool is_cpu = tn__target_is_cpu(target);
  const tn__target_attribute *a = tn__target_attributes_opencl;
  for (int i = 0; a[i].name != NULL; i++) {
    bool both = (a[i].flags & TN__ATTRIBUTE_WORD) || a[i].at == offsetof(tn__target, gpu.fp64);
    bool of_cpu = a[i].at < offsetof(tn__target, gpu);
    if (both || (target->given >> i & 1) == 0 || of_cpu == is_cpu) continue;
    return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": %s is nothing that devices of type %s have", text,
                            a[i].name, is_cpu ? "cpu" : "gpu");
  }
  return is_cpu ? NULL : tn__target_check_gpu(text, target);
}
