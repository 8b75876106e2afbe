#include "kernels/tuned.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

typedef struct reader {
  tn__arena *arena;
  const char *path;
  const char *at, *line; /* what is read next; the line that was read, without its end */
  int number;            /* of that line */
  const tn__target *target;
  int threads;
  TN__VEC(const char *) traces;
} reader;

_Noreturn static void refuse(const reader *r, const char *why) {
  tn__throwf(r->arena->escape, TN_INVALID_ARGUMENT, "%s:%d: %s", r->path, r->number > 0 ? r->number : 1, why);
}

/* False at the end. */
static bool next_line(reader *r) {
  if (*r->at == 0) return false;
  size_t length = strcspn(r->at, "\n");
  r->line = tn__arena_strndup(r->arena, r->at, length);
  r->at += length + (r->at[length] == '\n');
  r->number++;
  return true;
}

static bool begins(const char *line, const char *word) { return strncmp(line, word, strlen(word)) == 0; }

static void read_head(reader *r) {
  char *end;
  if (!next_line(r) || !begins(r->line, "tenon schedules "))
    refuse(r, "this is no file of tuned schedules, which begins with \"tenon schedules 1\"");
  long version = strtol(r->line + strlen("tenon schedules "), &end, 10);
  if (*end != 0 || version < 1) refuse(r, "the version of the file is a number");
  if (version > 1)
    tn__throwf(r->arena->escape, TN_UNSUPPORTED,
               "%s: a newer Tenon wrote this file of tuned schedules (version %ld, and this one reads 1)", r->path,
               version);
}

/* "target NAME threads N ...": are the traces that follow for this compilation? */
static bool read_target(const reader *r) {
  const char *name = r->line + strlen("target "), *threads = strstr(name, " threads ");
  if (threads == NULL) refuse(r, "a line \"target NAME threads N\" is meant, and this one lacks the threads");
  return strlen(r->target->name) == (size_t)(threads - name) &&
         strncmp(name, r->target->name, (size_t)(threads - name)) == 0 &&
         strtol(threads + strlen(" threads "), NULL, 10) == r->threads;
}

/* From the line "trace ..." to "end". */
static const char *read_trace(reader *r) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  int first = r->number;
  bool ended = false;
  do {
    tn__strbuf_printf(&text, "%s\n", r->line);
    ended = strcmp(r->line, "end") == 0;
  } while (!ended && next_line(r));
  const char *trace = tn__arena_take(r->arena, &text);
  r->number = ended ? r->number : first;
  if (!ended) refuse(r, "the trace that begins here has no \"end\"");
  return trace;
}

/* All of the file, whose text ends at the first 0. */
static void read_all(reader *r, size_t size) {
  bool ours = false;
  const char *end = r->at + size;
  read_head(r);
  while (next_line(r)) {
    const char *line = r->line;
    if (begins(line, "target ")) {
      ours = read_target(r);
    } else if (begins(line, "trace ")) {
      const char *trace = read_trace(r);
      if (ours) tn__vec_push(r->arena, &r->traces, trace);
      ours = false;
    } else if (*line != 0 && *line != '#' && !begins(line, "task ") && !begins(line, "size ") &&
               strcmp(line, "results read") != 0) {
      refuse(r, "target, task, size, \"results read\" or a trace is meant here");
    }
  }
  if (r->at != end) refuse(r, "there is a byte 0 behind this line, and the file is text");
}

static void close_map(void *map) { tn__file_map_close(map); }

/* The file's text, and how long it is. */
static const char *read_file(tn__arena *arena, const char *path, size_t *size) {
  tn__file_map *map = TN__NEW(arena, tn__file_map);
  tn__check(arena->escape, tn__file_map_open(path, map));
  tn__arena_defer(arena, close_map, map);
  *size = map->size;
  return tn__arena_strndup(arena, (const char *)map->data, map->size);
}

const tn__chooser *tn__kernels_tuned(tn__arena *arena, const char *path, const char *text, const tn__target *target,
                                     int threads, const tn__chooser *otherwise, const tn_log_sink *log) {
  size_t size = text != NULL ? strlen(text) : 0;
  reader r = {.arena = arena, .path = path, .target = target, .threads = threads};
  r.at = text != NULL ? text : read_file(arena, path, &size);
  read_all(&r, size);
  if (r.traces.count == 0) {
    tn__log(log, TN_LOG_WARNING, "%s has no schedule for %s on %d thread%s, and all are chosen without it", path,
            target->name, threads, threads == 1 ? "" : "s");
    return otherwise;
  }
  tn__recorded *recorded = TN__NEW(arena, tn__recorded);
  *recorded = (tn__recorded){.traces = r.traces.data,
                             .count = r.traces.count,
                             .otherwise = otherwise,
                             .path = tn__arena_strdup(arena, path),
                             .log = log,
                             .told = TN__NEW_ARRAY(arena, r.traces.count, atomic_bool)};
  tn__chooser *chooser = TN__NEW(arena, tn__chooser);
  *chooser = tn__chooser_recorded(recorded);
  return chooser;
}
