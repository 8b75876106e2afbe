/* The runtime's and the compiler's structs do not meet in one file, so this is not in inspect.c. */
#include "inspect/devices.h"

#include "runtime/executable/executable.h"
#include "target/target.h"

static void put_name(tn__strbuf *json, DLDevice device, tn__memory_scope scope) {
  tn__strbuf_printf(json, "\"%s:%d%s\"", tn__target_type_name((int)device.device_type), (int)device.device_id,
                    tn__memory_scope_behind(scope));
}

/* By the program's numbers: callers reach the host as cpu:0, whichever CPU it was compiled for. */
static void put_device(tn__strbuf *json, const tn_executable *exe, uint32_t number) {
  DLDevice device = exe->devices[number];
  if (number == 0) device.device_id = exe->host_id;
  put_name(json, device, exe->scopes[number]);
}

void tn__inspect_value_device(tn__strbuf *json, const tn_value_info *value) {
  if (value->device.device_type == kDLCPU) return;
  tn__strbuf_append(json, ", \"device\": ");
  put_name(json, value->device, TN__MEMORY_GLOBAL);
}

void tn__inspect_devices(tn__strbuf *json, const tn_executable *exe) {
  if (exe->device_count == 1) return;
  tn__strbuf_append(json, ",\n\"devices\": [");
  for (uint32_t i = 0; i < exe->device_count; i++) {
    tn__strbuf_append(json, i ? ",\n {\"name\": " : "\n {\"name\": ");
    put_device(json, exe, i);
    tn__strbuf_append(json, ", \"target\": ");
    tn__strbuf_json_string(json, exe->targets[i]);
    const tn__device_bytes bytes = tn__executable_device_bytes(exe, i);
    tn__strbuf_printf(json, ", \"source_bytes\": %llu, \"constant_bytes\": %llu, \"workspace_bytes\": %lld}",
                      (unsigned long long)exe->sources[i].size, (unsigned long long)bytes.constants,
                      (long long)bytes.workspace);
  }
  tn__strbuf_append(json, "]");
}

void tn__inspect_kernel_device(tn__strbuf *json, const tn_executable *exe, int kernel) {
  if (exe->device_count == 1) return;
  tn__strbuf_append(json, ", \"device\": ");
  put_device(json, exe, exe->kernels[kernel].device);
}
