#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/message.h"

void tn__log(const tn_log_sink *sink, tn_log_level level, const char *format, ...) {
  if (sink == NULL || sink->write == NULL) return;
  char line[512];
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  char *whole = tn__shown_format(format, args, 0);
  if (whole == NULL) vsnprintf(line, sizeof(line), format, again); /* without memory: truncate */
  va_end(again);
  va_end(args);
  sink->write(sink->user, level, whole != NULL ? whole : line);
  free(whole);
}
