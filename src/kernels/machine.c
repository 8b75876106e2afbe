#include "kernels/machine.h"

#include "base/alloc.h"
#include "base/file.h"
#include "target/machine_file.h"

static tn_status *use_file(const char *path, tn__target *target) {
  tn__file_map map;
  tn__machine machine = target->row;
  TN_RETURN_IF_ERROR(tn__file_map_open(path, &map));
  tn_status *status = tn__machine_read(path, (const char *)map.data, map.size, target->arch, &machine);
  tn__file_map_close(&map);
  if (!status) tn__target_use(target, &machine);
  return status;
}

tn_status *tn__machine_target(const tn_compile_options *options, tn__target *out) {
  TN_RETURN_IF_ERROR(tn__target_parse(options->target, out));
  return options->machine ? use_file(options->machine, out) : NULL;
}
