#include "base/beside.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"

static bool same_first_page(const char *file, const char *other) {
  enum { PAGE = 4096 };
  tn__file_map a = {0}, b = {0};
  tn_status *first = tn__file_map_open(file, &a), *second = tn__file_map_open(other, &b);
  bool open = first == NULL && second == NULL, same = open && a.size >= PAGE && a.size == b.size;
  same = same && memcmp(a.data, b.data, PAGE) == 0;
  tn_status_free(first), tn_status_free(second);
  tn__file_map_close(&a), tn__file_map_close(&b);
  return same;
}

void tn__tell_of_constants(const tn_log_sink *log, const char *path, const char *wanted, const char *constants) {
  if (tn__same_file(wanted, constants) || same_first_page(wanted, constants)) return;
  tn__log(log, TN_LOG_WARNING, "%s looks for its constants in %s: copy %s there, or name it when loading (--constants)",
          path, wanted, constants);
}
