/* Checks of folders and files from which Tenon reads code or numbers implicitly: caches and plug-ins. They are
 * trusted if only this user and root can modify them. */
#ifndef TENON_BASE_TRUSTED_H
#define TENON_BASE_TRUSTED_H

#include <sys/stat.h>

#include "base/file.h"

/* Returns why a file is not trusted, e.g. "user 1000 owns it" or "others may write to it (mode 777)", or NULL if it
 * is. The group with the user's own number counts as the user, because systems create one per user. */
const char *tn__distrust(const struct stat *info, char text[64]);
/* Returns TN_FAILED_PRECONDITION with the owner or mode of the folder, and a remedy that names `variable`, which
 * sets another folder. */
TN_MUST_USE tn_status *tn__folder_check_trusted(const char *path, const char *variable);
/* Like tn__file_map_open(), but rejects a file that another user can modify or could have created. */
TN_MUST_USE tn_status *tn__file_map_trusted(const char *path, tn__file_map *out);

#endif
