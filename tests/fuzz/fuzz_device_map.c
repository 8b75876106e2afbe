/* Device maps and memory limits, as options for loading an executable. Each line is a rule ("island:1=cpu:0") or,
 * after a '%', a limit ("island:0=64MiB"). The executable loads, or the error names the faulty line. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "fuzz/fuzz.h"
#include "tenon/runtime.h"

enum { MOST_LINES = 8 };

static tn__file_map map;

static void open_executable(void) {
  tn_status *status = tn__file_map_open(TN_FUZZ_EXECUTABLE, &map);
  if (status != NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *maps[MOST_LINES], *memory[MOST_LINES];
  tn_load_options options = {
      .size = sizeof(options), .device_map = maps, .memory = memory, .inspect_only = size % 2 == 1};
  tn_executable *exe;
  if (map.data == NULL) open_executable();
  char *text = malloc(size + 1), *at = text;
  memcpy(text, data, size);
  text[size] = '\0';
  for (int i = 0; i < MOST_LINES && at != NULL; i++) {
    char *end = strchr(at, '\n');
    if (end != NULL) *end++ = '\0';
    if (at[0] == '%')
      memory[options.memory_count++] = at + 1;
    else
      maps[options.device_map_count++] = at;
    at = end;
  }
  tn_status *status = tn_executable_load_memory(map.data, map.size, &options, &exe);
  tn_status_code code = tn_status_code_of(status);
  require(code == TN_OK || code == TN_INVALID_ARGUMENT || code == TN_NOT_FOUND || code == TN_UNSUPPORTED ||
          code == TN_FAILED_PRECONDITION);
  require((exe != NULL) == (status == NULL));
  for (int i = 0; exe != NULL && i < tn_executable_input_count(exe, NULL); i++)
    require(tn_executable_input(exe, NULL, i)->device.device_type != 0);
  tn_status_free(status);
  tn_executable_release(exe);
  free(text);
  return 0;
}
