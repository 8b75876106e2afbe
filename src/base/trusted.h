/* Folders and files that code or numbers are read from without being asked for: caches, plug-ins. They are trusted when
 * nobody but this user and root can change them. */
#ifndef TENON_BASE_TRUSTED_H
#define TENON_BASE_TRUSTED_H

#include <sys/stat.h>

#include "base/file.h"

/* "user 1000 owns it", "others may write to it (mode 777)"; NULL: neither. The group of the user's own number, which
 * systems give each user, is no other. */
const char *tn__distrust(const struct stat *info, char text[64]);
/* TN_FAILED_PRECONDITION says who may change the folder and what to do; `variable` names another folder. */
TN_MUST_USE tn_status *tn__folder_check_trusted(const char *path, const char *variable);
/* As tn__file_map_open(), of a file that nobody else can change, nor could have put there. */
TN_MUST_USE tn_status *tn__file_map_trusted(const char *path, tn__file_map *out);

#endif
