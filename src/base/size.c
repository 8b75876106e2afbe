#include "base/size.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct unit {
  const char *name;
  uint64_t bytes;
} units[] = {{"", 1},
             {"B", 1},
             {"KB", 1000},
             {"MB", 1000000},
             {"GB", 1000000000},
             {"TB", 1000000000000},
             {"KiB", UINT64_C(1) << 10},
             {"MiB", UINT64_C(1) << 20},
             {"GiB", UINT64_C(1) << 30},
             {"TiB", UINT64_C(1) << 40}};

uint64_t tn__size_read(const char *text) {
  enum { DECIMAL = 10, MOST_DIGITS = 18 };
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > MOST_DIGITS) return 0;
  uint64_t number = strtoull(text, NULL, DECIMAL);
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (strcmp(units[i].name, text + digits) == 0)
      return number > UINT64_MAX / units[i].bytes ? 0 : number * units[i].bytes;
  return 0;
}
