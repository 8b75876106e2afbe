/* Resolves paths named by another file, which must lie below that file's folder. Links are followed, but must not
 * leave the folder. */
#ifndef TENON_BASE_BELOW_H
#define TENON_BASE_BELOW_H

#include <limits.h>

#include "tenon/base.h"

typedef enum tn__below {
  TN__BELOW_THERE,
  TN__BELOW_OUTSIDE, /* a link leaves the folder */
  TN__BELOW_FAILED   /* errno has the reason, e.g. a missing file or a link cycle */
} tn__below;

/* Resolves FOLDER/NAME to a path without links, which the caller opens. "" is the working folder. */
TN_MUST_USE tn__below tn__path_below(const char *folder, const char *name, char real[PATH_MAX]);

#endif
