/* A cache on disk: content-addressed blobs in one folder, of few kinds: whole executables and kernels' objects of the
 * compiler, programs of devices whose drivers compile them.
 *
 * Safe under concurrent use by threads and processes: entries appear by rename and are never changed; a reader that
 * loses a race sees a miss. Every entry ends with the SHA-256 of its key and contents, so one that is damaged or under
 * another's name is a miss, too. Trouble with the cache is never an error of what uses it: it is logged and the work
 * is done again. The folder's size is bounded: when a write passes the limit, the least recently used entries go. */
#ifndef TENON_CACHE_CACHE_H
#define TENON_CACHE_CACHE_H

#include "base/arena.h"
#include "base/file.h"
#include "base/hash.h"

typedef struct tn__cache tn__cache;

/* What may be done with what is kept. */
typedef enum tn__cache_access { TN__CACHE_NONE, TN__CACHE_READS, TN__CACHE_WRITES } tn__cache_access;

/* Writes the path of the cache, `directory` or the default, and creates the folder if it is missing. Returns NONE
 * without a usable location, or if others own the folder or can write to it; such a folder is neither read nor
 * written. */
tn__cache_access tn__cache_folder(const char *directory, char *out, size_t size);
/* Opens the cache at `directory`; NULL selects the default. Without a usable location (no home, unreadable, or
 * others own it or can write to it) logs the reason and returns NULL. A read-only cache is read, and its first
 * failed write is logged. */
tn__cache *tn__cache_open(tn__arena *arena, const char *directory, uint64_t limit_bytes, const tn_log_sink *log);
/* False: not there. The contents are a map that is closed when `arena` is released. `kind`: "exe", "obj" or "dev". */
TN_MUST_USE bool tn__cache_get(tn__cache *cache, tn__arena *arena, const char *kind, const tn__digest *key,
                               tn__bytes *out);
/* The same into the caller's map, which it closes when the contents are no longer needed. */
TN_MUST_USE bool tn__cache_map(tn__cache *cache, const char *kind, const tn__digest *key, tn__file_map *map,
                               tn__bytes *out);
/* `arena` is for scratch. May be called from several threads, each with an arena of its own. */
void tn__cache_put(tn__cache *cache, tn__arena *arena, const char *kind, const tn__digest *key,
                   const tn__pieces *contents);

#endif
