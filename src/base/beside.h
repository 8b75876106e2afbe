/* Files of constants, which an executable looks for in its own folder. */
#ifndef TENON_BASE_BESIDE_H
#define TENON_BASE_BESIDE_H

#include "tenon/base.h"

/* Warns when the executable in the file `path` will look for its constants in `wanted`, which does not hold those of
 * the file `constants`. Such files tell what they hold in their first page. */
void tn__tell_of_constants(const tn_log_sink *log, const char *path, const char *wanted, const char *constants);

#endif
