#include "codegen/llvm/arch.h"

static const tn__cg_arch *const rows[] = {
    [TN__ARCH_X86_64] = &tn__cg_arch_x86,
    [TN__ARCH_AARCH64] = &tn__cg_arch_arm,
};

const tn__cg_arch *tn__cg_arch_of(const tn__target *target) {
  return (size_t)target->cpu.arch < sizeof rows / sizeof rows[0] ? rows[target->cpu.arch] : NULL;
}
