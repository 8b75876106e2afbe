/* AArch64: what differs is that FMAX and FMIN do as the IR wants. */
#include "codegen/llvm/arch.h"

const tn__cg_arch tn__cg_arch_arm = {.min_max_keeps_nan = true};
