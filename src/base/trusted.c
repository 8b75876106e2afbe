#include "base/trusted.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *tn__distrust(const struct stat *info, char text[64]) {
  uid_t user = geteuid();
  if (info->st_uid != user && info->st_uid != 0) {
    snprintf(text, 64, "user %lld owns it", (long long)info->st_uid);
    return text;
  }
  bool group = (info->st_mode & S_IWGRP) != 0 && info->st_gid != (gid_t)user;
  if (!group && (info->st_mode & S_IWOTH) == 0) return NULL;
  snprintf(text, 64, "others may write to it (mode %03o)", (unsigned)info->st_mode & 0777);
  return text;
}

tn_status *tn__folder_check_trusted(const char *path, const char *variable) {
  struct stat info;
  char text[128], why[64];
  if (stat(path, &info) != 0)
    return tn_status_create(errno == ENOENT ? TN_NOT_FOUND : TN_IO, "%s: cannot use the folder: %s", path,
                            strerror_r(errno, text, sizeof(text)));
  if (tn__distrust(&info, why) == NULL) return NULL;
  return tn_status_create(
      TN_FAILED_PRECONDITION,
      "%s: cannot use the folder: %s; make it yours alone (chown, chmod go-w), or name another one in %s", path, why,
      variable);
}
