#include "kernels/tuned.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/shown.h"
#include "machine/identity.h"

typedef struct reader {
  tn__arena *arena;
  const char *path;
  const char *at, *line; /* what is read next; the line that was read, without its end */
  int number;            /* of that line */
  const tn__target *target;
  int threads;
  char machine[TN__MACHINE_IDENTITY_BYTES]; /* this machine */
  const char *foreign;                      /* another machine with measurements for this compilation */
  int foreign_count;
  TN__VEC(const char *) traces;
  TN__VEC(tn__variant) variants;
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

/* Parses "machine TEXT" after the target. Schedules measured elsewhere are used, with a note. */
static void read_machine(reader *r, const char *rest) {
  const char *word = " machine ", *machine = strstr(rest, word);
  if (machine == NULL || strcmp(machine + strlen(word), r->machine) == 0) return;
  r->foreign_count++;
  if (r->foreign == NULL) r->foreign = tn__arena_strdup(r->arena, machine + strlen(word));
}

/* "target NAME threads N ...": are the traces that follow for this compilation? */
static bool read_target(reader *r) {
  const char *name = r->line + strlen("target "), *threads = strstr(name, " threads ");
  if (threads == NULL) refuse(r, "a line \"target NAME threads N\" is meant, and this one lacks the threads");
  bool ours = strlen(r->target->name) == (size_t)(threads - name) &&
              strncmp(name, r->target->name, (size_t)(threads - name)) == 0 &&
              strtol(threads + strlen(" threads "), NULL, 10) == r->threads;
  if (ours) read_machine(r, threads);
  return ours;
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

/* "variant KIND DIGEST CHOICE" */
static void read_variant(reader *r, bool ours) {
  const char *kind = r->line + strlen("variant ");
  size_t kind_length = strcspn(kind, " ");
  const char *digest = kind + kind_length + (kind[kind_length] == ' ');
  size_t digest_length = strcspn(digest, " ");
  const char *number = digest + digest_length + (digest[digest_length] == ' ');
  char *end;
  long choice = strtol(number, &end, 10);
  if (kind_length == 0 || digest_length != TN__SITE_DIGEST - 1 || end == number || *end != 0 || choice < 0 ||
      choice > INT_MAX)
    refuse(r, "a line \"variant KIND DIGEST CHOICE\" is meant, with 16 digits and a number");
  const tn__variant v = {tn__arena_strndup(r->arena, kind, kind_length),
                         tn__arena_strndup(r->arena, digest, digest_length), (int)choice};
  if (ours) tn__vec_push(r->arena, &r->variants, v);
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
    } else if (begins(line, "variant ")) {
      read_variant(r, ours);
    } else if (begins(line, "trace ")) {
      const char *trace = read_trace(r);
      if (ours) tn__vec_push(r->arena, &r->traces, trace);
      ours = false;
    } else if (*line != 0 && *line != '#' && !begins(line, "task ") && !begins(line, "size ") &&
               strcmp(line, "results read") != 0) {
      refuse(r, "target, task, size, \"results read\", a variant or a trace is meant here");
    }
  }
  if (r->at != end) refuse(r, "there is a byte 0 behind this line, and the file is text");
}

static void close_map(void *map) { tn__file_map_close(map); }

int tn__kernels_variant(const tn__variant *variants, int count, const tn__site *site) {
  char digest[TN__SITE_DIGEST];
  if (count > 0) tn__site_digest(site, digest);
  for (int i = 0; i < count; i++)
    if (strcmp(variants[i].kind, site->kind) == 0 && strcmp(variants[i].digest, digest) == 0) return variants[i].choice;
  return site->usual;
}

/* The file's text, and how long it is. */
static const char *read_file(tn__arena *arena, const char *path, size_t *size) {
  tn__file_map *map = TN__NEW(arena, tn__file_map);
  tn__check(arena->escape, tn__file_map_open(path, map));
  tn__arena_defer(arena, close_map, map);
  *size = map->size;
  return tn__arena_strndup(arena, (const char *)map->data, map->size);
}

tn__tuned tn__kernels_tuned(tn__arena *arena, const char *path, const char *text, const tn__target *target, int threads,
                            const tn__chooser *otherwise, const tn_log_sink *log) {
  size_t size = text != NULL ? strlen(text) : 0;
  reader r = {.arena = arena, .path = path, .target = target, .threads = threads};
  tn__machine_identity("", r.machine);
  r.at = text != NULL ? text : read_file(arena, path, &size);
  read_all(&r, size);
  tn__tuned tuned = {.chooser = otherwise, .variants = r.variants.data, .variant_count = r.variants.count};
  if (r.traces.count == 0 && r.variants.count == 0)
    tn__log(log, TN_LOG_WARNING, "%s has no schedule for %s on %d thread%s, and all are chosen without it", path,
            target->name, threads, threads == 1 ? "" : "s");
  if (r.foreign != NULL) {
    tn__strbuf shown;
    tn__strbuf_init(&shown, NULL);
    tn__strbuf_shown(&shown, r.foreign);
    const char *machine = tn__arena_take(arena, &shown);
    tn__log(log, TN_LOG_WARNING,
            "%s: %d schedule%s %s measured on another machine, %s, and may be slower than the static choice on this "
            "one, %s; "
            "tune here",
            path, r.foreign_count, r.foreign_count == 1 ? "" : "s", r.foreign_count == 1 ? "was" : "were", machine,
            r.machine);
  }
  if (r.traces.count == 0) return tuned;
  tn__recorded *recorded = TN__NEW(arena, tn__recorded);
  *recorded = (tn__recorded){.traces = r.traces.data,
                             .count = r.traces.count,
                             .otherwise = otherwise,
                             .path = tn__arena_strdup(arena, path),
                             .log = log,
                             .told = TN__NEW_ARRAY(arena, r.traces.count, atomic_bool)};
  tn__chooser *chooser = TN__NEW(arena, tn__chooser);
  *chooser = tn__chooser_recorded(recorded);
  tuned.chooser = chooser;
  return tuned;
}
