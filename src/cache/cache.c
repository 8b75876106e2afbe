#include "cache/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cache_folder.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/trusted.h"

struct tn__cache {
  const char *directory;
  uint64_t limit;
  tn_log_sink log;
  pthread_mutex_t lock; /* of wrote and warned */
  bool wrote, warned;
};

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Creates the folder if it is missing. Returns NULL if its contents may be read and no other user can have written
 * them. */
static tn_status *make_readable(const char *directory) {
  tn_status *status = tn__make_directories(directory);
  if (!status) status = tn__folder_check_trusted(directory, "TENON_CACHE_DIR");
  if (!status && access(directory, R_OK | X_OK) != 0) status = tn_status_create(TN_IO, "cannot read \"%s\"", directory);
  return status;
}

tn__cache_access tn__cache_folder(const char *directory, char *out, size_t size) {
  if (!tn__cache_folder_name(directory, out, size)) return TN__CACHE_NONE;
  tn_status *status = make_readable(out);
  tn_status_free(status);
  if (status != NULL) return TN__CACHE_NONE;
  return access(out, W_OK) == 0 ? TN__CACHE_WRITES : TN__CACHE_READS;
}

typedef struct cache_file {
  char name[80];
  uint64_t size;
  struct timespec used;
} cache_file;

static int older_first(const void *a, const void *b) {
  const cache_file *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Does nobody write to it any more? Only a process that was killed leaves a temporary file behind. */
static bool is_left_over(const char *name, const struct stat *info) {
  enum { SECONDS = 3600 };
  return strstr(name, ".tmp-") != NULL && info->st_mtim.tv_sec < time(NULL) - SECONDS;
}

static bool is_entry(const char *name) {
  static const char *const kinds[] = {"exe-", "obj-", "dev-"};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strncmp(name, kinds[i], strlen(kinds[i])) == 0) return true;
  return false;
}

/* Entries of the cache, and their total size. Only names that the cache itself makes count; of temporary ones those
 * that were left behind are removed. */
static cache_file *list_files(DIR *folder, int place, int *count, uint64_t *total) {
  cache_file *files = NULL;
  int capacity = 0;
  *count = 0;
  *total = 0;
  for (const struct dirent *e = readdir(folder); e; e = readdir(folder)) {
    struct stat info;
    bool ours = is_entry(e->d_name) && strlen(e->d_name) < 100;
    if (!ours || fstatat(place, e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    if (is_left_over(e->d_name, &info)) unlinkat(place, e->d_name, 0);
    if (strlen(e->d_name) >= 80) continue;
    if (*count == capacity) {
      capacity = capacity ? capacity * 2 : 256;
      cache_file *more = realloc(files, (size_t)capacity * sizeof *files);
      if (!more) break;
      files = more;
    }
    cache_file *f = &files[(*count)++];
    memset(f, 0, sizeof *f);
    memcpy(f->name, e->d_name, strlen(e->d_name) + 1);
    f->size = (uint64_t)info.st_size;
    f->used = info.st_mtim; /* a hit sets it */
    *total += f->size;
  }
  return files;
}

static void evict(const tn__cache *cache) {
  DIR *folder = opendir(cache->directory);
  if (!folder) return;
  int count = 0, place = dirfd(folder);
  uint64_t total = 0;
  cache_file *files = place < 0 ? NULL : list_files(folder, place, &count, &total);
  if (total > cache->limit && files) {
    qsort(files, (size_t)count, sizeof *files, older_first);
    for (int i = 0; i < count && total > cache->limit; i++)
      if (unlinkat(place, files[i].name, 0) == 0) total -= files[i].size;
  }
  free(files);
  closedir(folder);
}

static void close_cache(void *user) {
  tn__cache *cache = user;
  if (cache->wrote) evict(cache);
  pthread_mutex_destroy(&cache->lock);
}

tn__cache *tn__cache_open(tn__arena *arena, const char *directory, uint64_t limit_bytes, const tn_log_sink *log) {
  char folder[4096];
  if (!tn__cache_folder_name(directory, folder, sizeof folder)) return NULL;
  tn_status *status = make_readable(folder);
  if (status) {
    tn__log(log, TN_LOG_WARNING, "no compile cache: %s", tn_status_message(status));
    tn_status_free(status);
    return NULL;
  }
  tn__cache *cache = TN__NEW(arena, tn__cache);
  cache->directory = tn__arena_strdup(arena, folder);
  cache->limit = limit_bytes;
  if (log) cache->log = *log;
  pthread_mutex_init(&cache->lock, NULL);
  tn__arena_defer(arena, close_cache, cache);
  return cache;
}

/* ---- entries: the contents, then their seal ---------------------------------------------------------------------- */

/* Covers what the entry is for, too: a file that got another entry's name must not be taken for that entry. The
 * contents go in by a checksum: who can change the file may as well write a whole one. */
static tn__digest seal(const char *kind, const tn__digest *key, const tn__pieces *contents) {
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__sha256_update_string(&h, kind);
  tn__sha256_update(&h, key->bytes, sizeof key->bytes);
  tn__checksum sum;
  tn__checksum_init(&sum);
  for (int i = 0; i < contents->count; i++) tn__checksum_update(&sum, contents->list[i].data, contents->list[i].size);
  tn__sha256_update_u64(&h, contents->size);
  tn__sha256_update_u64(&h, tn__checksum_final(&sum));
  return tn__sha256_final(&h);
}

static void entry_path(const tn__cache *cache, const char *kind, const tn__digest *key, char *path, size_t size) {
  char hex[65];
  tn__digest_hex(key, hex);
  snprintf(path, size, "%s/%s-%s", cache->directory, kind, hex);
}

/* The file system's own idea of now moves in steps of milliseconds, too coarse to tell what was used last. */
static void mark_used(const char *path) {
  struct timespec now[2];
  clock_gettime(CLOCK_REALTIME, &now[0]);
  now[1] = now[0];
  utimensat(AT_FDCWD, path, now, 0);
}

bool tn__cache_map(tn__cache *cache, const char *kind, const tn__digest *key, tn__file_map *map, tn__bytes *out) {
  char path[4096];
  entry_path(cache, kind, key, path, sizeof path);
  tn_status *status = tn__file_map_trusted(path, map);
  if (status) {
    if (tn_status_code_of(status) == TN_FAILED_PRECONDITION) {
      tn__log(&cache->log, TN_LOG_WARNING, "compile cache: %s", tn_status_message(status));
      unlink(path); /* a new file gets the right mode */
    }
    tn_status_free(status);
    return false;
  }
  *out = (tn__bytes){map->data, map->size < sizeof(tn__digest) ? 0 : map->size - sizeof(tn__digest)};
  tn__digest digest = seal(kind, key, &(tn__pieces){out, 1, out->size});
  if (map->size < sizeof digest.bytes || memcmp(map->data + out->size, digest.bytes, sizeof digest.bytes) != 0) {
    tn__log(&cache->log, TN_LOG_WARNING, "compile cache: \"%s\" is damaged and was ignored", path);
    unlink(path);
    tn__file_map_close(map);
    return false;
  }
  mark_used(path);
  return true;
}

static void close_map(void *map) { tn__file_map_close(map); }

bool tn__cache_get(tn__cache *cache, tn__arena *arena, const char *kind, const tn__digest *key, tn__bytes *out) {
  tn__file_map *map = TN__NEW(arena, tn__file_map);
  tn__arena_defer(arena, close_map, map);
  return tn__cache_map(cache, kind, key, map, out);
}

void tn__cache_put(tn__cache *cache, tn__arena *arena, const char *kind, const tn__digest *key,
                   const tn__pieces *contents) {
  if (contents->size > cache->limit / 2) return; /* it would push out everything else */
  tn__digest digest = seal(kind, key, contents);
  tn__bytes *all = TN__NEW_ARRAY(arena, contents->count + 1, tn__bytes);
  tn__copy(all, contents->list, sizeof *all * (size_t)contents->count);
  all[contents->count] = (tn__bytes){digest.bytes, sizeof digest.bytes};
  char path[4096];
  entry_path(cache, kind, key, path, sizeof path);
  struct stat there;
  if (lstat(path, &there) == 0 && !S_ISREG(there.st_mode))
    unlink(path); /* a pipe would be written to, and waited for */
  tn_status *status = tn__file_write_atomic(path, all, contents->count + 1, 0600);
  if (!status) mark_used(path);
  pthread_mutex_lock(&cache->lock);
  cache->wrote = true;
  bool warn = status && !cache->warned;
  cache->warned = cache->warned || warn;
  pthread_mutex_unlock(&cache->lock);
  if (warn) tn__log(&cache->log, TN_LOG_WARNING, "compile cache: %s", tn_status_message(status));
  tn_status_free(status);
}
