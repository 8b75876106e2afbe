/* Files that another file names, which lie below its folder: links are followed, and may lead no further. */
#ifndef TENON_BASE_BELOW_H
#define TENON_BASE_BELOW_H

#include <limits.h>

#include "tenon/base.h"

typedef enum tn__below {
  TN__BELOW_THERE,
  TN__BELOW_OUTSIDE, /* a link leads out of the folder */
  TN__BELOW_FAILED   /* errno says why: there is no such file, links go in a circle */
} tn__below;

/* FOLDER/NAME without links, to be opened by that path; "" is the working folder. */
TN_MUST_USE tn__below tn__path_below(const char *folder, const char *name, char real[PATH_MAX]);

#endif
