#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
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

tn_status *tn__file_check_folder(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - path);
  if (length == 0 || length >= sizeof(folder)) return NULL; /* here, the root, or refused when it is opened */
  memcpy(folder, path, length);
  folder[length] = '\0';
  struct stat info;
  if (stat(folder, &info) != 0 && errno == ENOENT)
    return tn_status_create(TN_NOT_FOUND, "%s: cannot write: there is no folder %s", path, folder);
  return NULL;
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

/* A failing close is an error too, because that is when some file systems notice a full disk. */
static tn_status *close_after(const char *path, int fd, tn_status *status) {
  if (close(fd) != 0 && status == NULL) status = system_error(path, "cannot write", errno);
  return status;
}

static tn_status *write_and_close(const char *path, int fd, const tn__bytes *pieces, int count) {
  return close_after(path, fd, write_pieces(path, fd, pieces, count));
}

static tn_status *write_error(const char *path, int error) {
  tn_status *status = error == ENOENT ? tn__file_check_folder(path) : NULL;
  return status != NULL ? status : system_error(path, "cannot write", error);
}

/* Makes a new file beside `path`, named PATH.tmp-HEX, and stores the name in `name` of PATH_MAX bytes: the file that is
 * open as `*nameless`, or, when that is negative, an empty one, which is then open as `*fd`. */
static tn_status *make_temporary(const char *path, unsigned mode, int nameless, char *name, int *fd) {
  for (int attempt = 0; attempt < 100; attempt++) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) continue;
    int length = snprintf(name, PATH_MAX, "%s.tmp-%016llx", path, (unsigned long long)number);
    if (length < 0 || length >= PATH_MAX) return system_error(path, "cannot write", ENAMETOOLONG);
    if (nameless >= 0) {
      char self[64];
      snprintf(self, sizeof(self), "/proc/self/fd/%d", nameless);
      if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) return NULL;
    } else {
      *fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      if (*fd >= 0) return NULL;
    }
    if (errno != EEXIST) return write_error(path, errno);
  }
  return tn_status_create(TN_IO, "%s: cannot write: no free name for a temporary file beside it", path);
}

/* A file without a name in the folder of `path`, which vanishes with the process; -1 where there are none. */
static int open_nameless(const char *path, unsigned mode) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
  if (length >= sizeof(folder) || access("/proc/self/fd", X_OK) != 0) return -1;
  memcpy(folder, length == 0 ? "." : path, length == 0 ? 1 : length);
  folder[length == 0 ? 1 : length] = '\0';
  return open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
}

/* While the file has a temporary name, signals wait: one that ends the process would leave it behind. Where files can
 * be without a name that is a moment, elsewhere as long as it takes to write it. */
static tn_status *name_file(const char *path, const char *target, const tn__bytes *pieces, int count, unsigned mode,
                            int nameless) {
  char name[PATH_MAX];
  int fd = nameless;
  tn_status *status = make_temporary(target, mode, nameless, name, &fd);
  if (status != NULL) return nameless < 0 ? status : close_after(path, nameless, status);
  status = nameless < 0 ? write_and_close(path, fd, pieces, count) : close_after(path, nameless, NULL);
  if (status == NULL && rename(name, target) != 0) status = system_error(path, "cannot write", errno);
  if (status != NULL) unlink(name);
  return status;
}

static tn_status *replace_file(const char *path, const char *target, const tn__bytes *pieces, int count,
                               unsigned mode) {
  int nameless = open_nameless(target, mode);
  tn_status *status = nameless < 0 ? NULL : write_pieces(path, nameless, pieces, count);
  if (status != NULL) return close_after(path, nameless, status);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  status = name_file(path, target, pieces, count, mode, nameless);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
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
