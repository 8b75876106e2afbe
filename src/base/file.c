#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static tn_status *system_error(const char *path, const char *what, int error) {
  char text[128];
  const char *reason = strerror_r(error, text, sizeof(text));
  tn_status_code code = error == ENOENT ? TN_NOT_FOUND : error == ENOMEM ? TN_OUT_OF_MEMORY : TN_IO;
  return tn_status_create(code, "%s: %s: %s", path, what, reason);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static tn_status *map_descriptor(const char *path, int fd, tn__file_map *out) {
  static const uint8_t nothing[1] = {0};
  struct stat info;
  if (fstat(fd, &info) != 0) return system_error(path, "cannot read", errno);
  if (S_ISDIR(info.st_mode)) return system_error(path, "cannot read", EISDIR);
  if (!S_ISREG(info.st_mode)) return tn_status_create(TN_IO, "%s: cannot read: it is not a regular file", path);
  if (info.st_size == 0) {
    out->data = nothing;
    return NULL;
  }
  void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return system_error(path, "cannot map into memory", errno);
  *out = (tn__file_map){.data = data, .size = (size_t)info.st_size, .handle = data};
  return NULL;
}

tn_status *tn__file_map_open(const char *path, tn__file_map *out) {
  *out = (tn__file_map){0};
  /* Non-blocking only matters for a named pipe without a writer, which is refused below instead of waited for. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, "cannot open", errno);
  tn_status *status = map_descriptor(path, fd, out);
  close(fd);
  return status;
}

void tn__file_map_close(tn__file_map *map) {
  if (map->handle != NULL) munmap(map->handle, map->size);
  *map = (tn__file_map){0};
}

void tn__file_map_forget(const tn__file_map *map) {
  if (map->handle != NULL) (void)madvise(map->handle, map->size, MADV_DONTNEED);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static tn_status *write_pieces(const char *path, int fd, const tn__bytes *pieces, int count) {
  for (int i = 0; i < count; i++) {
    const char *p = pieces[i].data;
    size_t left = pieces[i].size;
    while (left > 0) {
      ssize_t n = write(fd, p, left);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error(path, "cannot write", errno);
      p += n, left -= (size_t)n;
    }
  }
  return NULL;
}

void tn__pieces_join(const tn__pieces *pieces, void *out) {
  char *at = out;
  for (int i = 0; i < pieces->count; i++) {
    if (pieces->list[i].size > 0) memcpy(at, pieces->list[i].data, pieces->list[i].size);
    at += pieces->list[i].size;
  }
}

/* Writes and closes `fd`; a failing close is an error too, because that is when some file systems notice a full disk.
 */
static tn_status *write_and_close(const char *path, int fd, const tn__bytes *pieces, int count) {
  tn_status *status = write_pieces(path, fd, pieces, count);
  if (close(fd) != 0 && status == NULL) status = system_error(path, "cannot write", errno);
  return status;
}

/* Opens a new file beside `path` and stores its name, which is PATH.tmp-HEX, in `name` of PATH_MAX bytes. */
static tn_status *open_temporary(const char *path, unsigned mode, char *name, int *fd) {
  for (int attempt = 0; attempt < 100; attempt++) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) continue;
    int length = snprintf(name, PATH_MAX, "%s.tmp-%016llx", path, (unsigned long long)number);
    if (length < 0 || length >= PATH_MAX) return system_error(path, "cannot write", ENAMETOOLONG);
    *fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (*fd >= 0) return NULL;
    if (errno != EEXIST) return system_error(path, "cannot write", errno);
  }
  return tn_status_create(TN_IO, "%s: cannot write: no free name for a temporary file beside it", path);
}

static tn_status *replace_file(const char *path, const char *target, const tn__bytes *pieces, int count,
                               unsigned mode) {
  char name[PATH_MAX];
  int fd = -1;
  tn_status *status = open_temporary(target, mode, name, &fd);
  if (status != NULL) return status;
  status = write_and_close(path, fd, pieces, count);
  if (status == NULL && rename(name, target) != 0) status = system_error(path, "cannot write", errno);
  if (status != NULL) unlink(name);
  return status;
}

tn_status *tn__file_write_atomic(const char *path, const tn__bytes *pieces, int count, unsigned mode) {
  struct stat info;
  if (stat(path, &info) != 0) return replace_file(path, path, pieces, count, mode);
  if (S_ISDIR(info.st_mode)) return system_error(path, "cannot write", EISDIR);
  if (!S_ISREG(info.st_mode)) {
    /* A device or a pipe: to rename over /dev/null would destroy it. */
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return system_error(path, "cannot write", errno);
    return write_and_close(path, fd, pieces, count);
  }
  char target[PATH_MAX]; /* through a symbolic link, the file it points to is replaced, not the link */
  if (realpath(path, target) == NULL) return system_error(path, "cannot write", errno);
  return replace_file(path, target, pieces, count, mode);
}

tn_status *tn__make_directories(const char *path) {
  char part[PATH_MAX];
  size_t length = strlen(path);
  if (length == 0) return tn_status_create(TN_INVALID_ARGUMENT, "a folder's name is empty");
  if (length >= sizeof(part)) return system_error(path, "cannot make the folder", ENAMETOOLONG);
  memcpy(part, path, length + 1);
  for (size_t i = 1; i <= length; i++) {
    if (part[i] != '/' && part[i] != '\0') continue;
    char kept = part[i];
    part[i] = '\0';
    struct stat info;
    if (mkdir(part, 0777) != 0) {
      int error = errno;
      if (error != EEXIST || stat(part, &info) != 0 || !S_ISDIR(info.st_mode))
        return system_error(path, "cannot make the folder", error == EEXIST ? ENOTDIR : error);
    }
    part[i] = kept;
  }
  return NULL;
}
