/* A program that knows Tenon only by what is installed. */
#include <stdio.h>
#include <string.h>
#include <tenon/base.h>

int main(void) {
  tn_status *status = tn_status_create(TN_NOT_FOUND, "no %s", "model");
  status = tn_status_prefix(status, "consumer");
  int ok = strcmp(tn_status_message(status), "consumer: no model") == 0 && tn_dtype_parse("bf16") == TN_BF16;
  tn_status_free(status);
  ok = ok && tn_version_number() == TN_VERSION;
  printf("%s\n", tn_version());
  return ok ? 0 : 1;
}
