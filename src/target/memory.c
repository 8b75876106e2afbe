#include "target/memory.h"

#include <string.h>

#include "target/target.h"

static const char *const names[TN__MEMORY_SCOPES] = {"/global", "/shared", "/texture", "/host-pinned", "/tile"};

const char *tn__memory_scope_name(tn__memory_scope scope) { return names[scope] + 1; }
const char *tn__memory_scope_behind(tn__memory_scope scope) { return scope == TN__MEMORY_GLOBAL ? "" : names[scope]; }

int tn__memory_scope_find(const char *name) {
  for (int i = 0; i < TN__MEMORY_SCOPES; i++)
    if (strcmp(names[i] + 1, name) == 0) return i;
  return -1;
}

void tn__memory_scope_list(unsigned scopes, char *text, size_t size) {
  text[0] = '\0';
  for (int i = 0; i < TN__MEMORY_SCOPES; i++) {
    if ((scopes >> i & 1) == 0) continue;
    bool last = scopes >> i == 1;
    tn__target_list(text, size, text[0] == '\0' ? "" : last ? " and " : ", ", names[i] + 1);
  }
}
