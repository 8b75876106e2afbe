#include <string.h>

#include "tenon/base.h"

static const struct {
  tn_dtype dtype;
  const char *name;
} names[] = {{TN_I8, "i8"},   {TN_I16, "i16"},   {TN_I32, "i32"},   {TN_I64, "i64"},      {TN_U8, "u8"},
             {TN_U16, "u16"}, {TN_U32, "u32"},   {TN_U64, "u64"},   {TN_F16, "f16"},      {TN_F32, "f32"},
             {TN_F64, "f64"}, {TN_BF16, "bf16"}, {TN_BOOL, "bool"}, {TN_STRING, "string"}};
enum { NAME_COUNT = sizeof(names) / sizeof(names[0]) };

const char *tn_dtype_name(tn_dtype dtype) {
  for (int i = 0; i < NAME_COUNT; i++)
    if (names[i].dtype == dtype) return names[i].name;
  return "invalid";
}

tn_dtype tn_dtype_parse(const char *name) {
  for (int i = 0; i < NAME_COUNT && name != NULL; i++)
    if (strcmp(names[i].name, name) == 0) return names[i].dtype;
  return TN_DTYPE_INVALID;
}

size_t tn_dtype_size(tn_dtype dtype) {
  for (int i = 0; i < NAME_COUNT; i++)
    if (names[i].dtype == dtype) return (size_t)(dtype & 0xff) / 8;
  return 0;
}
