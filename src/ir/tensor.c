/* Instructions on small tensors: what a code generator may put in the place of a few loops. A new one is a row here, a
 * declaration in schedule/tensorize.c and a case in codegen/llvm/emit_tensor.c, or, of GPUs, a row in
 * codegen/c/emit_matrix.c. */
#include <string.h>

#include "ir/context.h"

enum { MAX_OPERANDS = 4 };

typedef struct tensor_row {
  const char *name;
  int operand_count;
  tn_dtype dtypes[MAX_OPERANDS];
} tensor_row;

static const tensor_row rows[TN__TENSOR_COUNT] = {
    [TN__TENSOR_DPBF16PS] = {"x86.avx512bf16.dpbf16ps", 3, {TN_F32, TN_BF16, TN_BF16}},
    [TN__TENSOR_DPBUSD] = {"x86.avx512vnni.dpbusd", 3, {TN_I32, TN_U8, TN_I8}},
    [TN__TENSOR_MMA_F16] = {"cuda.mma.m16n8k16.f16", 3, {TN_F32, TN_F16, TN_F16}},
    [TN__TENSOR_MMA_BF16] = {"cuda.mma.m16n8k16.bf16", 3, {TN_F32, TN_BF16, TN_BF16}},
    [TN__TENSOR_MMA_I8_I8] = {"cuda.mma.m16n8k32.i8.i8", 3, {TN_I32, TN_I8, TN_I8}},
    [TN__TENSOR_MMA_I8_U8] = {"cuda.mma.m16n8k32.i8.u8", 3, {TN_I32, TN_I8, TN_U8}},
    [TN__TENSOR_MMA_U8_I8] = {"cuda.mma.m16n8k32.u8.i8", 3, {TN_I32, TN_U8, TN_I8}},
    [TN__TENSOR_MMA_U8_U8] = {"cuda.mma.m16n8k32.u8.u8", 3, {TN_I32, TN_U8, TN_U8}},
    [TN__TENSOR_MMA_F64] = {"cuda.mma.m8n8k4.f64", 3, {TN_F64, TN_F64, TN_F64}},
};

const char *tn__ir_tensor_name(tn__tensor_op op) { return rows[op].name; }
int tn__ir_tensor_operand_count(tn__tensor_op op) { return rows[op].operand_count; }
tn_dtype tn__ir_tensor_operand_dtype(tn__tensor_op op, int operand) { return rows[op].dtypes[operand]; }

int tn__ir_tensor_find(const char *name) {
  for (int i = 0; i < TN__TENSOR_COUNT; i++)
    if (strcmp(rows[i].name, name) == 0) return i;
  return -1;
}
