#include "base/escape.h"

tn_status *tn__protect(tn__escape *esc, void (*body)(tn__escape *esc, void *arg), void *arg) {
  esc->status = NULL;
  if (setjmp(esc->env) == 0) body(esc, arg);
  return esc->status;
}

void tn__throw(tn__escape *esc, tn_status *status) {
  esc->status = status;
  longjmp(esc->env, 1);
}

void tn__throwf(tn__escape *esc, tn_status_code code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(code, format, args);
  va_end(args);
  tn__throw(esc, status);
}

void tn__check(tn__escape *esc, tn_status *status) {
  if (status != NULL) tn__throw(esc, status);
}
