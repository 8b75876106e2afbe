#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

void tn__log(const tn_log_sink *sink, tn_log_level level, const char *format, ...) {
  if (sink == NULL || sink->write == NULL) return;
  char line[512];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  if (length < 0) return;
  char *longer = (size_t)length < sizeof(line) ? NULL : malloc((size_t)length + 1);
  if (longer != NULL) {
    va_start(args, format);
    vsnprintf(longer, (size_t)length + 1, format, args);
    va_end(args);
  }
  sink->write(sink->user, level, longer != NULL ? longer : line); /* cut short rather than lost without memory */
  free(longer);
}
