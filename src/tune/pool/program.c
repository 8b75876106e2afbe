/* Which program workers are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/program.h"
#include "tune/pool/process.h"

static const char *const name = "tenon-tune";

TN_MUST_USE static bool in_path(char *path, size_t size) {
  const char *folder = secure_getenv("PATH");
  while (folder != NULL && *folder != 0) {
    int length = (int)strcspn(folder, ":");
    int written = snprintf(path, size, "%.*s/%s", length, folder, name);
    if (length > 0 && written > 0 && (size_t)written < size && access(path, X_OK) == 0) return true;
    folder += length;
    folder += *folder == ':';
  }
  return false;
}

tn_status *tn__workers_program(const char *given, char *path, size_t size) {
  if (given == NULL) given = secure_getenv("TENON_WORKER");
  if (given == NULL || *given == 0) {
    if (tn__program_beside(name, path, size) && access(path, X_OK) == 0) return NULL;
    if (in_path(path, size)) return NULL;
    return tn_status_create(TN_NOT_FOUND,
                            "there is no program %s beside the running one or in $PATH, and $TENON_WORKER names none: "
                            "install it, or say where it is (tn_worker_options.program)",
                            name);
  }
  if (strlen(given) >= size) return tn_status_create(TN_INVALID_ARGUMENT, "the worker program's path is too long");
  snprintf(path, size, "%s", given);
  if (access(path, X_OK) == 0) return NULL;
  return tn_status_create(TN_NOT_FOUND, "the worker program %s cannot be run: %s", path, strerror(errno));
}
