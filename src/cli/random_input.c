#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "cli/cli.h"

/* SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Words of a few letters, some of them empty. */
static tn_status *random_strings(int rank, const int64_t *shape, uint64_t *state, tn_tensor **out) {
  static const char letters[] = "the quick brown fox jumps over the lazy dog";
  int64_t count = tn_element_count(rank, shape);
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, (size_t)count, sizeof(tn_string), 0, &memory));
  tn_string *strings = memory;
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits = next_random(state);
    strings[i] = (tn_string){letters + (bits >> 32) % (sizeof(letters) - 8), bits % 8};
  }
  tn_status *status = tn_tensor_create_strings(rank, shape, strings, NULL, out);
  tn__free(NULL, memory, (size_t)count * sizeof(tn_string), 0);
  return status;
}

tn_status *cli_random_input(const tn_executable *exe, const char *function, const cli_compile *setup, int index,
                            uint64_t *state, tn_tensor **out) {
  const tn_value_info *info = tn_executable_input(exe, function, index);
  int64_t shape[TN_MAX_RANK] = {CLI_LIST_TENSOR_SIZE};
  int rank = info->rank == TN_ANY_RANK ? 1 : info->rank;
  for (int i = 0; i < info->rank; i++) {
    shape[i] = info->kind == TN_VALUE_TENSOR ? info->dims[i]->size : CLI_LIST_TENSOR_SIZE;
    for (int d = 0; shape[i] < 0 && info->dims[i]->name && d < setup->options.dim_count; d++)
      if (strcmp(setup->options.dims[d].name, info->dims[i]->name) == 0) shape[i] = setup->options.dims[d].size;
    if (shape[i] < 0)
      return tn_status_create(TN_INVALID_ARGUMENT, "input \"%s\" has dimension \"%s\" of open size: give --dim %s=N%s",
                              info->name, info->dims[i]->name ? info->dims[i]->name : "?",
                              info->dims[i]->name ? info->dims[i]->name : "NAME",
                              strcmp(setup->command, "run") == 0 ? ", or the input with --input" : "");
  }
  if (info->dtype == TN_STRING) return random_strings(rank, shape, state, out);
  TN_RETURN_IF_ERROR(tn_tensor_create(info->dtype, rank, shape, NULL, out));
  void *data = tn_tensor_dl(*out)->data;
  int64_t count = tn_element_count(rank, shape);
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits = next_random(state);
    if (tn__dtype_is_float(info->dtype)) {
      tn__store_f64(info->dtype, data, i, (double)(bits >> 11) * 0x1p-52 - 1.0);
    } else {
      tn__store_i64(info->dtype, data, i, (int64_t)(bits >> 32) & 1);
    }
  }
  return NULL;
}
