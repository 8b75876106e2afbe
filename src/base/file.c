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

#include "base/trusted.h"

static tn_status *system_error(const char *path, const char *what, int error) {
  char text[128];
  const char *reason = strerror_r(error, text, sizeof(text));
  tn_status_code code = error == ENOENT ? TN_NOT_FOUND : error == ENOMEM ? TN_OUT_OF_MEMORY : TN_IO;
  return tn_status_create(code, "%s: %s: %s", path, what, reason);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static tn_status *map_descriptor(const char *path, int fd, bool trusted, tn__file_map *out) {
  static const uint8_t nothing[1] = {0};
  struct stat info;
  char why[64];
  if (fstat(fd, &info) != 0) return system_error(path, "cannot read", errno);
  if (S_ISDIR(info.st_mode)) return system_error(path, "cannot read", EISDIR);
  if (!S_ISREG(info.st_mode)) return tn_status_create(TN_IO, "%s: cannot read: it is not a regular file", path);
  if (trusted && tn__distrust(&info, why) != NULL)
    return tn_status_create(TN_FAILED_PRECONDITION, "%s: cannot trust the file: %s; it counts for nothing", path, why);
  if (info.st_size == 0) {
    out->data = nothing;
    return NULL;
  }
  void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return system_error(path, "cannot map into memory", errno);
  *out = (tn__file_map){.data = data, .size = (size_t)info.st_size, .handle = data};
  return NULL;
}

static tn_status *map_file(const char *path, bool trusted, tn__file_map *out) {
  *out = (tn__file_map){0};
  /* Non-blocking only matters for a named pipe without a writer, which is refused below instead of waited for. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, "cannot open", errno);
  tn_status *status = map_descriptor(path, fd, trusted, out);
  close(fd);
  return status;
}

tn_status *tn__file_map_open(const char *path, tn__file_map *out) { return map_file(path, false, out); }

tn_status *tn__file_map_trusted(const char *path, tn__file_map *out) { return map_file(path, true, out); }

void tn__file_map_close(tn__file_map *map) {
  if (map->handle != NULL) munmap(map->handle, map->size);
  *map = (tn__file_map){0};
}

void tn__file_map_forget(const tn__file_map *map) {
  if (map->handle != NULL) (void)madvise(map->handle, map->size, MADV_DONTNEED);
}

static tn_status *check_folder(const char *path) {
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

tn_status *tn__file_check_place(const char *path) {
  struct stat info;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return system_error(path, "cannot write", EISDIR);
  return check_folder(path);
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
  tn_status *status = error == ENOENT ? check_folder(path) : NULL;
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

/* A file that is to be replaced, step by step. */
typedef struct replacement {
  const tn__file_contents *contents;
  unsigned mode;         /* that the new file is made with */
  bool in_place;         /* a device or a pipe, which was written already: to rename over /dev/null would destroy it */
  bool old;              /* there is a file, whose mode the new one gets as it is */
  char target[PATH_MAX]; /* through a symbolic link, the file it points to is replaced, not the link */
  char name[PATH_MAX];   /* the temporary one; empty: none */
  int nameless;          /* all of the contents; -1: none */
} replacement;

static tn_status *find_target(replacement *r) {
  const char *path = r->contents->path;
  struct stat info;
  if (stat(path, &info) != 0) {
    size_t length = strlen(path);
    if (length >= sizeof(r->target)) return system_error(path, "cannot write", ENAMETOOLONG);
    memcpy(r->target, path, length + 1);
    return NULL;
  }
  if (S_ISDIR(info.st_mode)) return system_error(path, "cannot write", EISDIR);
  r->in_place = !S_ISREG(info.st_mode);
  r->old = !r->in_place;
  if (r->old) r->mode = info.st_mode & 0777;
  if (!r->in_place && realpath(path, r->target) == NULL) return system_error(path, "cannot write", errno);
  return NULL;
}

/* A file that is replaced keeps its mode: what was made private stays private. */
static tn_status *keep_mode(const replacement *r, int fd) {
  if (!r->old || (fd >= 0 && fchmod(fd, r->mode) == 0)) return NULL;
  return system_error(r->contents->path, "cannot write", errno);
}

/* What needs room on the disk, as far as that leaves nothing behind. */
static tn_status *write_nameless(replacement *r) {
  const tn__file_contents *c = r->contents;
  if (r->in_place) {
    int fd = open(c->path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? system_error(c->path, "cannot write", errno) : write_and_close(c->path, fd, c->pieces, c->count);
  }
  r->nameless = open_nameless(r->target, r->mode);
  if (r->nameless < 0) return NULL;
  tn_status *status = keep_mode(r, r->nameless);
  return status != NULL ? status : write_pieces(c->path, r->nameless, c->pieces, c->count);
}

static tn_status *name_file(replacement *r) {
  const tn__file_contents *c = r->contents;
  char name[PATH_MAX];
  int fd = r->nameless;
  if (r->in_place) return NULL;
  tn_status *status = make_temporary(r->target, r->mode, fd, name, &fd);
  if (status != NULL) return status;
  memcpy(r->name, name, sizeof(name));
  if (r->nameless < 0) {
    status = keep_mode(r, fd);
    if (status == NULL) status = write_pieces(c->path, fd, c->pieces, c->count);
    return close_after(c->path, fd, status);
  }
  r->nameless = -1;
  return close_after(c->path, fd, NULL);
}

static tn_status *rename_file(replacement *r) {
  if (r->in_place) return NULL;
  if (rename(r->name, r->target) != 0) return system_error(r->contents->path, "cannot write", errno);
  r->name[0] = '\0';
  return NULL;
}

/* While files have a temporary name, signals of this thread wait: one that ends the process would leave them behind,
 * and does when another thread takes it. Where files can be without a name that is a moment, elsewhere as long as it
 * takes to write them. */
static tn_status *name_and_rename(replacement *files, int count) {
  sigset_t all, old;
  tn_status *status = NULL;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (int i = 0; i < count && status == NULL; i++) status = name_file(&files[i]);
  for (int i = 0; i < count && status == NULL; i++) status = rename_file(&files[i]);
  for (int i = 0; i < count; i++)
    if (files[i].name[0] != '\0') unlink(files[i].name);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return status;
}

static tn_status *replace_files(replacement *files, int count, unsigned mode) {
  tn_status *status = NULL;
  for (int i = 0; i < count; i++) files[i].mode = mode;
  for (int i = 0; i < count && status == NULL; i++) status = find_target(&files[i]);
  for (int i = 0; i < count && status == NULL; i++) status = write_nameless(&files[i]);
  if (status == NULL) status = name_and_rename(files, count);
  for (int i = 0; i < count; i++)
    if (files[i].nameless >= 0) status = close_after(files[i].contents->path, files[i].nameless, status);
  return status;
}

tn_status *tn__file_write_atomic(const char *path, const tn__bytes *pieces, int count, unsigned mode) {
  tn__file_contents contents = {path, pieces, count};
  replacement file = {.contents = &contents, .nameless = -1};
  return replace_files(&file, 1, mode);
}

tn_status *tn__file_write_pair(const tn__file_contents *first, const tn__file_contents *second, unsigned mode) {
  replacement files[2] = {{.contents = first, .nameless = -1}, {.contents = second, .nameless = -1}};
  return replace_files(files, 2, mode);
}

bool tn__same_file(const char *a, const char *b) {
  struct stat x, y;
  return strcmp(a, b) == 0 || (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
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

/* ---- mappings without a file ------------------------------------------------------------------------------------- */

tn_status *tn__map_failed(const char *what, size_t size) {
  char text[128];
  const char *reason = strerror_r(errno, text, sizeof(text));
  return tn_status_create(errno == ENOMEM ? TN_OUT_OF_MEMORY : TN_FAILED_PRECONDITION, "cannot map %zu bytes of %s: %s",
                          size, what, reason);
}

tn_status *tn__map_copy(const void *data, size_t size, const char *what, void **out) {
  void *copy = mmap(NULL, size == 0 ? 1 : size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return tn__map_failed(what, size);
  if (size > 0) memcpy(copy, data, size);
  *out = copy;
  return NULL;
}
