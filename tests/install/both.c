/* A program over both libraries: what the compiler's makes, the runtime's reads and frees. */
#include <stdio.h>
#include <string.h>
#include <tenon/te.h>

int main(void) {
  tn_te *te = NULL;
  const char *text = "kernel f(A: f32[N]) -> C: f32[N] { C[i] = A[i] + }";
  tn_status *status = tn_te_parse("f.te", text, strlen(text), NULL, NULL, 0, NULL, &te);
  int ok = tn_status_code_of(status) == TN_INVALID_ARGUMENT && te == NULL;
  tn_status_free(status);
  tn_module *module = NULL;
  status = tn_compile("no.onnx", NULL, 0, NULL, &module);
  ok = ok && status != NULL && strstr(tn_status_message(status), "no.onnx") != NULL;
  tn_status_free(status);
  ok = ok && tn_version_number() == TN_VERSION;
  printf("%s\n", tn_version());
  return ok ? 0 : 1;
}
