#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"

struct tn_status {
  tn_status_code code;
  char *message;
};

/* What is returned when there is no memory for a status; never freed and never written. It has no message, by which it
 * is known: a plug-in has one of its own (runtime/plugin/plugin.h). */
static const tn_status no_memory = {TN_OUT_OF_MEMORY, NULL};

static tn_status *no_memory_status(void) { return (tn_status *)(uintptr_t)&no_memory; }

tn_status *tn_status_create_v(tn_status_code code, const char *format, va_list args) {
  char *message =
      format == NULL ? strdup("unknown reason: the format of the message is NULL") : tn__shown_format(format, args, 0);
  tn_status *status = message == NULL ? NULL : malloc(sizeof(*status));
  if (status == NULL) {
    free(message);
    return no_memory_status();
  }
  status->code = code == TN_OK ? TN_INTERNAL : code;
  status->message = message;
  return status;
}

tn_status *tn_status_create(tn_status_code code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(code, format, args);
  va_end(args);
  return status;
}

tn_status *tn_status_prefix(tn_status *status, const char *format, ...) {
  if (status == NULL || status->message == NULL || format == NULL) return status;
  size_t old_length = strlen(status->message);
  va_list args;
  va_start(args, format);
  char *text = tn__shown_format(format, args, old_length + 2);
  va_end(args);
  if (text == NULL) return status;
  char *end = text + strlen(text);
  memcpy(end, ": ", 2);
  memcpy(end + 2, status->message, old_length + 1);
  free(status->message);
  status->message = text;
  return status;
}

tn_status_code tn_status_code_of(const tn_status *status) { return status == NULL ? TN_OK : status->code; }

const char *tn_status_message(const tn_status *status) {
  if (status == NULL) return "ok";
  return status->message == NULL ? "out of memory" : status->message;
}

const char *tn_status_code_name(tn_status_code code) {
  switch (code) {
    case TN_OK: return "ok";
    case TN_INVALID_ARGUMENT: return "invalid argument";
    case TN_NOT_FOUND: return "not found";
    case TN_UNSUPPORTED: return "unsupported";
    case TN_OUT_OF_MEMORY: return "out of memory";
    case TN_OUT_OF_RANGE: return "out of range";
    case TN_FAILED_PRECONDITION: return "failed precondition";
    case TN_DATA_LOSS: return "data loss";
    case TN_IO: return "input/output error";
    case TN_CANCELLED: return "cancelled";
    case TN_INTERNAL: return "internal error";
  }
  return "unknown status";
}

void tn_status_free(tn_status *status) {
  if (status == NULL || status->message == NULL) return;
  free(status->message);
  free(status);
}
