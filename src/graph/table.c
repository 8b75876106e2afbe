#include <string.h>

#include "graph/internal.h"

/* The table: one line a family, one row an operator inside it. */
static const tn__op_family *const families[] = {
    &tn__ops_elementwise, &tn__ops_shape,    &tn__ops_reduce, &tn__ops_contract, &tn__ops_composite, &tn__ops_quantized,
    &tn__ops_winograd,    &tn__ops_gather,   &tn__ops_sort,   &tn__ops_vision,   &tn__ops_recurrent, &tn__ops_math,
    &tn__ops_control,     &tn__ops_sequence, &tn__ops_string, &tn__ops_device,
};
enum { FAMILY_COUNT = sizeof(families) / sizeof(families[0]) };

const tn__op *tn__op_find(const char *name) {
  for (int f = 0; f < FAMILY_COUNT; f++)
    for (int i = 0; i < families[f]->count; i++)
      if (strcmp(families[f]->ops[i].name, name) == 0) return &families[f]->ops[i];
  return NULL;
}

int tn__op_count(void) {
  int count = 0;
  for (int f = 0; f < FAMILY_COUNT; f++) count += families[f]->count;
  return count;
}

const tn__op *tn__op_at(int index) {
  int f = 0;
  while (index >= families[f]->count) index -= families[f++]->count;
  return &families[f]->ops[index];
}
