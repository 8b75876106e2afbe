/* The table of kinds, and what is the same for all of them. */
#include "target/target.h"

#include "base/alloc.h"
#include "target/kinds.h"

/* A text that no other kind takes is a CPU's, whose message lists names. */
static const tn__target_kind_row kinds[] = {
    [TN__TARGET_GPU] = {"gpu", tn__target_is_gpu, tn__target_parse_gpu, tn__target_print_gpu, NULL},
    [TN__TARGET_CPU] = {"cpu", NULL, tn__target_parse_cpu, tn__target_print_cpu, tn__target_hash_cpu},
};
enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

tn_status *tn__target_parse(const char *text, tn__target *out) {
  int kind = TN__TARGET_CPU;
  *out = (tn__target){0};
  if (text == NULL) text = "native";
  for (int k = 0; k < KIND_COUNT; k++)
    if (kinds[k].takes != NULL && kinds[k].takes(text)) kind = k;
  tn_status *status = kinds[kind].parse(text, out);
  if (status == NULL)
    kinds[kind].print(out, out->name, sizeof(out->name));
  else
    *out = (tn__target){0};
  return status;
}

const char *tn__target_kind_name(tn__target_kind kind) { return kinds[kind].name; }

void tn__target_hash(const tn__target *target, tn__sha256 *hash) {
  tn__sha256_update_string(hash, target->name);
  if (kinds[target->kind].hash != NULL) kinds[target->kind].hash(target, hash);
}
