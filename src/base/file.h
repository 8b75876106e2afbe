/* Files: read or map whole, write atomically. Every error names the path and what the system said. */
#ifndef TENON_BASE_FILE_H
#define TENON_BASE_FILE_H

#include "tenon/base.h"

typedef struct tn__file_map {
  const uint8_t *data; /* read-only, page-aligned; a valid pointer even when size is 0 */
  size_t size;
  void *handle;
} tn__file_map;

TN_MUST_USE tn_status *tn__file_map_open(const char *path, tn__file_map *out);
void tn__file_map_close(tn__file_map *map);
/* The pages may leave memory until they are read again. */
void tn__file_map_forget(const tn__file_map *map);

typedef struct tn__bytes {
  const void *data;
  size_t size;
} tn__bytes;
typedef struct tn__pieces { /* bytes that follow on each other without lying together */
  const tn__bytes *list;
  int count;
  size_t size; /* their sum */
} tn__pieces;
void tn__pieces_join(const tn__pieces *pieces, void *out); /* `out`: pieces->size bytes */
/* Writes the pieces one after another to a temporary file beside `path`, syncs nothing, and renames it into place: a
 * reader sees the old file or the whole new one, and a failure or a signal leaves neither a half-written file nor a
 * temporary one. A file that was there gives the new one its mode; a new one gets `mode`, such as 0644. */
TN_MUST_USE tn_status *tn__file_write_atomic(const char *path, const tn__bytes *pieces, int count, unsigned mode);
typedef struct tn__file_contents {
  const char *path;
  const tn__bytes *pieces;
  int count;
} tn__file_contents;
/* The same for two files that belong together: both are written whole before either takes its place, the first first,
 * so a full disk leaves both old files. Only a rename that fails between them would leave one of each. */
TN_MUST_USE tn_status *tn__file_write_pair(const tn__file_contents *first, const tn__file_contents *second,
                                           unsigned mode);
/* A copy of the bytes in pages of their own, private to the process; munmap() gives them back. `what` stands in the
 * message. */
TN_MUST_USE tn_status *tn__map_copy(const void *data, size_t size, const char *what, void **out);
/* The status of a mapping of so many bytes that failed, by errno. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__map_failed(const char *what, size_t size);
bool tn__same_file(const char *a, const char *b); /* by name, or because both exist and are one */
/* Before the work, not after it: an error when no file can be at `path`, which is a folder, or in one that is not
 * there. */
TN_MUST_USE tn_status *tn__file_check_place(const char *path);
TN_MUST_USE tn_status *tn__make_directories(const char *path);

#endif
