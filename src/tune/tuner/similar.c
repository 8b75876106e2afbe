#include "tune/tuner/similar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

enum {
  SIZES = 64,  /* numbers of a declaration that are looked at */
  NEAREST = 4, /* tasks that are asked */
  EACH = 4     /* candidates of each */
};

typedef struct shape {
  uint64_t structure;
  int count;          /* of sizes */
  float sizes[SIZES]; /* logarithms */
} shape;

typedef struct known {
  char hash[TN_TASK_HASH_BYTES];
  char *target;
  int threads;
  shape shape;
} known;

struct tn__similar {
  tn_database *database;
  known *tasks;
  int count, capacity;
  bool no_memory;
};

static tn_status *no_memory(void) { return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for similar tasks"); }

/* ---- structure --------------------------------------------------------------------------------------------------- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Which of the names it is, in the order in which they come first. */
static uint64_t number_of(uint64_t *hashes, int *count, int most, uint64_t hash) {
  for (int i = 0; i < *count; i++)
    if (hashes[i] == hash) return (uint64_t)i;
  if (*count < most) hashes[(*count)++] = hash;
  return (uint64_t)(*count - 1);
}

/* A name is what number it has among the names; behind ":" and in front of "(" it stands for itself, as types and
 * functions do. */
static shape shape_of(const char *text) {
  enum { NAMES = 256 };
  uint64_t hashes[NAMES];
  int name_count = 0;
  char before = 0;
  shape s = {.structure = 1};
  while (*text != 0) {
    const char *from = text;
    if (is_digit(*text)) {
      char *end;
      double value = strtod(text, &end);
      text = end;
      if (s.count < SIZES) s.sizes[s.count++] = (float)log2(1 + fabs(value));
      s.structure = tn__hash_mix(s.structure, 1);
    } else if (is_letter(*text) || *text == '"') {
      if (*text == '"') {
        text += 1 + strcspn(text + 1, "\"");
        text += *text == '"';
      } else {
        while (is_letter(*text) || is_digit(*text) || *text == '.') text++;
      }
      uint64_t hash = tn__hash_bytes(2, from, (size_t)(text - from));
      bool itself = before == ':' || *text == '(';
      s.structure = tn__hash_mix(s.structure, itself ? hash : 16 + number_of(hashes, &name_count, NAMES, hash));
    } else {
      if (*text != ' ' && *text != '\n') s.structure = tn__hash_mix(s.structure, 1024 + (unsigned char)*text);
      text++;
    }
    if (*from != ' ') before = *from;
  }
  return s;
}

uint64_t tn__similar_structure(const char *declaration) { return shape_of(declaration).structure; }

/* ---- the tasks --------------------------------------------------------------------------------------------------- */

static bool add_task(void *user, const tn_task_records *task) {
  tn__similar *s = user;
  if (task->errors[TN_TRIAL_OK] == 0) return true;
  if (s->count == s->capacity) {
    int capacity = s->capacity > 0 ? 2 * s->capacity : 64;
    void *grown = realloc(s->tasks, (size_t)capacity * sizeof *s->tasks);
    s->no_memory = grown == NULL;
    if (grown == NULL) return false;
    s->tasks = grown;
    s->capacity = capacity;
  }
  known *k = &s->tasks[s->count];
  *k = (known){.threads = task->kernel->threads, .target = strdup(task->kernel->target)};
  snprintf(k->hash, sizeof k->hash, "%s", task->hash);
  k->shape = shape_of(task->kernel->declaration);
  s->no_memory = k->target == NULL;
  s->count += k->target != NULL;
  return !s->no_memory;
}

tn_status *tn__similar_open(tn_database *database, tn__similar **out) {
  void *memory;
  *out = NULL;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__similar), 0, &memory));
  tn__similar *s = memory;
  s->database = database;
  tn_status *status = tn_database_tasks(database, NULL, add_task, s);
  if (status == NULL && s->no_memory) status = no_memory();
  if (status != NULL)
    tn__similar_release(s);
  else
    *out = s;
  return status;
}

void tn__similar_release(tn__similar *s) {
  if (s == NULL) return;
  for (int i = 0; i < s->count; i++) free(s->tasks[i].target);
  free(s->tasks);
  tn__free(NULL, s, sizeof *s, 0);
}

/* ---- seeds ------------------------------------------------------------------------------------------------------- */

typedef struct candidate {
  char *rule, *decisions;
} candidate;

typedef struct asking {
  const char *own_machine; /* whose records are not wanted; NULL: all are */
  candidate found[EACH];
  int count;
  bool no_memory;
} asking;

static bool take_candidate(void *user, const tn_record *record) {
  asking *a = user;
  if (record->rule == NULL || record->rule[0] == 0 || record->median <= 0) return true;
  if (a->own_machine != NULL && record->proven && strcmp(record->machine, a->own_machine) == 0) return true;
  candidate *c = &a->found[a->count++];
  *c = (candidate){strdup(record->rule), strdup(record->decisions)};
  a->no_memory |= c->rule == NULL || c->decisions == NULL;
  return a->count < EACH && !a->no_memory;
}

/* How far apart the kernels are; INFINITY: they are not alike. */
static double distance(const known *k, const tn_tune_task *task, const shape *own, bool same) {
  const double other_target = 2, other_threads = 1;
  double sum = 0;
  if (k->shape.structure != own->structure || k->shape.count != own->count) return INFINITY;
  for (int i = 0; i < own->count; i++) sum += fabs((double)k->shape.sizes[i] - (double)own->sizes[i]);
  if (strcmp(k->target, task->target) != 0) sum += other_target;
  if (k->threads != task->threads) sum += other_threads;
  return same ? 0 : sum;
}

/* The nearest tasks, in their order; returns how many. */
TN_MUST_USE static int find_nearest(const tn__similar *s, const tn_tune_task *task, const char *hash,
                                    const known *out[NEAREST]) {
  const shape own = shape_of(task->declaration);
  double distances[NEAREST];
  int count = 0;
  for (int i = 0; i < s->count; i++) {
    const known *k = &s->tasks[i];
    double d = distance(k, task, &own, strcmp(k->hash, hash) == 0);
    if (!isfinite(d)) continue;
    int at = count < NEAREST ? count++ : NEAREST; /* the farthest may fall out */
    for (; at > 0 && distances[at - 1] > d; at--)
      if (at < NEAREST) out[at] = out[at - 1], distances[at] = distances[at - 1];
    if (at < NEAREST) out[at] = k, distances[at] = d;
  }
  return count;
}

/* The best of each task, then the second best of each. */
static void give(const asking *asked, int count, tn__search *search) {
  for (int n = 0; n < EACH; n++)
    for (int i = 0; i < count; i++)
      if (n < asked[i].count) tn__search_seed(search, asked[i].found[n].rule, asked[i].found[n].decisions);
}

tn_status *tn__similar_seed(const tn__similar *s, const tn_tune_task *task, const char *machine, tn__search *search) {
  char hash[TN_TASK_HASH_BYTES];
  const known *nearest[NEAREST];
  asking asked[NEAREST] = {{.count = 0}};
  TN_RETURN_IF_ERROR(tn_tune_task_hash(task, hash));
  int count = find_nearest(s, task, hash, nearest);
  tn_status *status = NULL;
  for (int i = 0; i < count && status == NULL; i++) {
    const tn_record_filter filter = {
        .size = sizeof filter, .task = nearest[i]->hash, .errors = 1u << TN_TRIAL_OK, .order = TN_ORDER_FASTEST};
    asked[i].own_machine = strcmp(nearest[i]->hash, hash) == 0 ? machine : NULL;
    status = tn_database_query(s->database, &filter, take_candidate, &asked[i], NULL);
    if (status == NULL && asked[i].no_memory) status = no_memory();
  }
  if (status == NULL) give(asked, count, search);
  for (int i = 0; i < count; i++)
    for (int n = 0; n < asked[i].count; n++) {
      free(asked[i].found[n].rule);
      free(asked[i].found[n].decisions);
    }
  return status;
}
