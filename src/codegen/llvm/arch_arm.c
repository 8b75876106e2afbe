/* AArch64 takes what is emitted for any architecture. */
#include "codegen/llvm/arch.h"

const tn__cg_arch tn__cg_arch_arm = {.tensor = NULL};
