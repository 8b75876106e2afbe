/* The words of GPUs: how many threads, and what they share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "target/text/kinds.h"

const tn__target_attribute tn__target_attributes_gpu[] = {TN__TARGET_GPU_NUMBERS, TN__TARGET_NO_MORE};
const tn__target_attribute tn__target_attributes_cuda[] = {
    {"arch", "sm_75, sm_80, sm_90, ...", TN__ATTRIBUTE_WORD | TN__ATTRIBUTE_CODE, TN__TARGET_AT(gpu.arch), 0, 0},
    TN__TARGET_GPU_NUMBERS,
    TN__TARGET_NO_MORE};

/* What is usual: of shared memory what every CUDA device gives to whoever does not ask for more. */
tn_status *tn__target_words_gpu(const char *text, tn__target *target) {
  enum { WARP = 32, THREADS = 1024, REGISTERS = 1 << 16, SHARED = 48 << 10 };
  target->gpu.warp = WARP;
  target->gpu.threads = THREADS;
  target->gpu.registers = REGISTERS;
  target->gpu.shared_bytes = SHARED;
  return NULL;
}

/* Are there GPUs of that number? Newer ones than those that are known here may come. */
static bool is_architecture(long number) {
  static const short known[] = {50, 52, 53, 60, 61,  62,  70,  72,  75,  80, 86,
                                87, 88, 89, 90, 100, 101, 103, 110, 120, 121};
  enum { COUNT = sizeof known / sizeof known[0] };
  for (int i = 0; i < COUNT; i++)
    if (known[i] == number) return true;
  return number > known[COUNT - 1];
}

tn_status *tn__target_words_cuda(const char *text, tn__target *target) {
  char *arch = target->gpu.arch;
  if (arch[0] == '\0') snprintf(arch, sizeof target->gpu.arch, "sm_80");
  size_t digits = strncmp(arch, "sm_", 3) == 0 ? strspn(arch + 3, "0123456789") : 0;
  /* "sm_90a" is sm_90 with what no later one need have. */
  enum { FIRST_OWN = 90 };
  const char *end = arch + 3 + digits;
  const long number = digits > 0 && digits <= 3 ? strtol(arch + 3, NULL, 10) : 0;
  const bool own = strcmp(end, "a") == 0;
  if (!is_architecture(number) || arch[3] == '0' || (end[0] != '\0' && !own) || (own && number < FIRST_OWN))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "target \"%s\": \"%s\" is no architecture of NVIDIA's: they are named like sm_75, sm_80, "
                            "sm_86, sm_89, sm_90, sm_90a",
                            text, arch);
  return tn__target_words_gpu(text, target);
}

tn_status *tn__target_check_gpu(const char *text, const tn__target *target) {
  if (target->gpu.warp > target->gpu.threads)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "target \"%s\": a warp has %d threads and a block %d at the most: it has one warp or more",
                            text, target->gpu.warp, target->gpu.threads);
  return NULL;
}
