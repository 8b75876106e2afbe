/* Where things are kept that can be made again, or are of use beyond one process: the compile cache's folder. */
#ifndef TENON_BASE_CACHE_FOLDER_H
#define TENON_BASE_CACHE_FOLDER_H

#include "tenon/base.h"

/* `directory`, or where that is NULL $TENON_CACHE_DIR, else $XDG_CACHE_HOME/tenon, else ~/.cache/tenon. False: there is
 * none, or its name does not fit. */
TN_MUST_USE bool tn__cache_folder_name(const char *directory, char *out, size_t size);

#endif
