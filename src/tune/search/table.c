#include "tune/search/table.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/copy.h"
#include "base/hash.h"
#include "tune/search/points.h"

typedef struct table_rule {
  const char *name;
  int decision_count;
  int counts[TN__MAX_DECISIONS];
  int64_t choices[TN__MAX_DECISIONS][TN__MAX_CHOICES];
} table_rule;

typedef struct table_point {
  tn__space_point point; /* of the table's rules */
  double seconds;        /* INFINITY: it failed */
} table_point;

struct tn__table {
  tn__arena arena;
  const char *path;
  tn_tune_task task;
  int rule_count;
  table_rule rules[TN__SPACE_RULES];
  TN__VEC(table_point) points;
  int *slots; /* by hash of a point: its index and one, open addressing */
  size_t slot_count;
  int static_point; /* -1: none */
  double best;
};

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void put_lines(tn__strbuf *out, const char *word, const char *text) {
  for (const char *at = text; *at != 0;) {
    int length = (int)strcspn(at, "\n");
    tn__strbuf_printf(out, "%s %.*s\n", word, length, at);
    at += length + (at[length] == '\n');
  }
}

static void put_space(tn__strbuf *out, const tn__space *space) {
  const tn_tune_task *task = space->task;
  tn__strbuf_printf(out, "tenon table 1\nname %s\ntarget %s\nthreads %d\n", task->name, task->target, task->threads);
  if (task->results_read) tn__strbuf_append(out, "results read\n");
  if (task->machine != NULL) put_lines(out, "machine", task->machine);
  put_lines(out, "declaration", task->declaration);
  for (int r = 0; r < space->rule_count; r++) {
    const tn__sketch *k = space->rules[r].sketch;
    tn__strbuf_printf(out, "rule %s\n", space->rules[r].name);
    for (int d = 0; d < k->decision_count; d++) {
      tn__strbuf_append(out, "choices");
      for (int v = 0; v < k->decisions[d].count; v++)
        tn__strbuf_printf(out, " %lld", (long long)k->decisions[d].choices[v]);
      tn__strbuf_append(out, "\n");
    }
  }
}

/* What was measured, in the order of traces. */
typedef struct measured {
  const tn__proposal **list;
  int count;
} measured;

static int by_trace(const void *a, const void *b) {
  const tn__proposal *const *x = a, *const *y = b;
  return strcmp((*x)->trace, (*y)->trace);
}

static int trace_of(const void *trace, const void *proposal) {
  const tn__proposal *const *p = proposal;
  return strcmp(trace, (*p)->trace);
}

static tn_status *find_measured(const tn__search *search, measured *out) {
  int count = tn__search_count(search);
  *out = (measured){.list = malloc((size_t)count * sizeof(tn__proposal *) + 1)};
  if (out->list == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a table of %d points", count);
  for (int i = 0; i < count; i++)
    if (!isnan(tn__search_at(search, i)->median)) out->list[out->count++] = tn__search_at(search, i);
  tn__sort(out->list, (size_t)out->count, sizeof out->list[0], by_trace);
  return NULL;
}

/* The measured proposal with these steps, or NULL. */
static const tn__proposal *with_trace(const measured *m, const char *trace) {
  if (m->count == 0) return NULL;
  const tn__proposal *const *found = bsearch(trace, m->list, (size_t)m->count, sizeof m->list[0], trace_of);
  return found != NULL ? *found : NULL;
}

static void put_point(tn__strbuf *out, const tn__space *space, const tn__space_point *point, double seconds) {
  tn__strbuf_printf(out, "point %d", point->rule);
  for (int d = 0; d < space->rules[point->rule].sketch->decision_count; d++)
    tn__strbuf_printf(out, " %lld", (long long)point->values[d]);
  if (isfinite(seconds))
    tn__strbuf_printf(out, " %.4g\n", seconds);
  else
    tn__strbuf_append(out, " failed\n");
}

/* The proposal that was measured with the point's steps; NULL: it cannot be, or there is none. */
static tn_status *find_point(tn__space *space, const measured *m, const tn__space_point *point,
                             const tn__proposal **out) {
  char *trace;
  *out = NULL;
  if (!isfinite(tn__space_weigh(space, point).cycles)) return NULL;
  tn_status *status = tn__space_trace(space, point, &trace);
  if (status != NULL) {
    if (tn_status_code_of(status) == TN_OUT_OF_MEMORY) return status;
    tn_status_free(status);
    return NULL;
  }
  *out = with_trace(m, trace);
  free(trace);
  return NULL;
}

static tn_status *put_points(tn__strbuf *out, tn__space *space, const measured *m) {
  int count = 0, static_point = -1;
  for (int r = 0; r < space->rule_count; r++)
    for (int64_t i = 0; i < space->rules[r].points; i++) {
      tn__space_point point;
      const tn__proposal *p;
      tn__space_at(space, r, i, &point);
      TN_RETURN_IF_ERROR(find_point(space, m, &point, &p));
      if (p == NULL) continue;
      put_point(out, space, &point, p->median);
      if (p->index == 0 && static_point < 0) static_point = count;
      count++;
    }
  if (static_point >= 0) tn__strbuf_printf(out, "static %d\n", static_point);
  tn__strbuf_append(out, "end\n");
  return tn__strbuf_status(out);
}

/* Whole or not at all. */
static tn_status *write_text(const char *path, const tn__strbuf *text) {
  char part[4096];
  size_t length = strlen(path);
  bool compressed = length > 3 && strcmp(path + length - 3, ".gz") == 0;
  if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part)
    return tn_status_create(TN_INVALID_ARGUMENT, "the path of a table is too long");
  gzFile file = gzopen(part, compressed ? "wb9" : "wbT");
  if (file == NULL) return tn_status_create(TN_IO, "cannot write %s", path);
  bool good = gzwrite(file, tn__strbuf_text(text), (unsigned)text->length) == (int)text->length;
  good &= gzclose(file) == Z_OK;
  if (good && rename(part, path) == 0) return NULL;
  remove(part);
  return tn_status_create(TN_IO, "cannot write all of %s", path);
}

tn_status *tn__table_write(tn__space *space, const tn__search *search, const char *path) {
  tn__strbuf text;
  measured m;
  TN_RETURN_IF_ERROR(find_measured(search, &m));
  tn__strbuf_init(&text, NULL);
  put_space(&text, space);
  tn_status *status = put_points(&text, space, &m);
  free(m.list);
  if (status == NULL) status = write_text(path, &text);
  tn__strbuf_release(&text);
  return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct reader {
  tn__table *table;
  const char *path, *at;
  int line;
  tn__strbuf declaration, machine;
} reader;

_Noreturn static void refuse(const reader *r, const char *why) {
  tn__throwf(r->table->arena.escape, TN_INVALID_ARGUMENT, "%s:%d: %s", r->path, r->line, why);
}

/* What stands behind the word, or NULL. */
static const char *behind(const char *line, const char *word) {
  size_t length = strlen(word);
  return strncmp(line, word, length) == 0 && line[length] == ' ' ? line + length + 1 : NULL;
}

TN_MUST_USE static int64_t number(const reader *r, const char **at) {
  char *end;
  int64_t value = strtoll(*at, &end, 10);
  if (end == *at) refuse(r, "a number is meant here");
  *at = end;
  return value;
}

static void read_choices(const reader *r, const char *at) {
  if (r->table->rule_count == 0) refuse(r, "choices are of a rule, which stands before");
  table_rule *rule = &r->table->rules[r->table->rule_count - 1];
  if (rule->decision_count == TN__MAX_DECISIONS) refuse(r, "a rule has no more decisions");
  int *count = &rule->counts[rule->decision_count];
  while (*at != 0) {
    if (*count == TN__MAX_CHOICES) refuse(r, "a decision has no more choices");
    rule->choices[rule->decision_count][(*count)++] = number(r, &at);
  }
  rule->decision_count++;
}

static void read_point(const reader *r, const char *at) {
  tn__table *t = r->table;
  table_point p = {.seconds = INFINITY};
  int64_t rule = number(r, &at);
  if (rule < 0 || rule >= t->rule_count) refuse(r, "there is no such rule");
  p.point.rule = (int)rule;
  for (int d = 0; d < t->rules[rule].decision_count; d++) p.point.values[d] = number(r, &at);
  if (strcmp(at, " failed") != 0) {
    char *end;
    p.seconds = strtod(at, &end);
    if (end == at || *end != 0 || !(p.seconds > 0)) refuse(r, "the seconds of a point, or \"failed\", are meant");
  }
  tn__vec_push(&t->arena, &t->points, p);
}

static void read_line(reader *r, const char *line) {
  tn__table *t = r->table;
  const char *rest;
  if ((rest = behind(line, "name")) != NULL) {
    t->task.name = rest;
  } else if ((rest = behind(line, "target")) != NULL) {
    t->task.target = rest;
  } else if ((rest = behind(line, "threads")) != NULL) {
    t->task.threads = (int)number(r, &rest);
  } else if (strcmp(line, "results read") == 0) {
    t->task.results_read = true;
  } else if ((rest = behind(line, "machine")) != NULL) {
    tn__strbuf_printf(&r->machine, "%s\n", rest);
  } else if ((rest = behind(line, "declaration")) != NULL) {
    tn__strbuf_printf(&r->declaration, "%s\n", rest);
  } else if ((rest = behind(line, "rule")) != NULL) {
    if (t->rule_count == TN__SPACE_RULES) refuse(r, "there are no more rules");
    t->rules[t->rule_count++] = (table_rule){.name = rest};
  } else if ((rest = behind(line, "choices")) != NULL) {
    read_choices(r, rest);
  } else if ((rest = behind(line, "point")) != NULL) {
    read_point(r, rest);
  } else if ((rest = behind(line, "static")) != NULL) {
    t->static_point = (int)number(r, &rest);
  } else {
    refuse(r, "this is no line of a table");
  }
}

static uint64_t hash_of(const table_rule *rule, const tn__space_point *point) {
  uint64_t hash = tn__hash_string(3, rule->name);
  for (int d = 0; d < rule->decision_count; d++) hash = tn__hash_mix(hash, (uint64_t)point->values[d]);
  return hash;
}

static void index_points(tn__table *t) {
  t->best = INFINITY;
  t->slot_count = 2 * (size_t)t->points.count + 1;
  t->slots = TN__NEW_ARRAY(&t->arena, t->slot_count, int);
  for (int i = 0; i < t->points.count; i++) {
    const table_point *p = &t->points.data[i];
    size_t at = hash_of(&t->rules[p->point.rule], &p->point) % t->slot_count;
    while (t->slots[at] != 0) at = (at + 1) % t->slot_count;
    t->slots[at] = i + 1;
    t->best = fmin(t->best, p->seconds);
  }
}

static void read_body(tn__escape *escape, void *user) {
  reader *r = user;
  tn__table *t = r->table;
  bool ended = false;
  t->arena.escape = escape;
  while (*r->at != 0 && !ended) {
    size_t length = strcspn(r->at, "\n");
    const char *line = tn__arena_strndup(&t->arena, r->at, length);
    r->at += length + (r->at[length] == '\n');
    if (r->line++ == 0) {
      if (strcmp(line, "tenon table 1") != 0) refuse(r, "this is no table, which begins with \"tenon table 1\"");
      continue;
    }
    ended = strcmp(line, "end") == 0;
    if (!ended) read_line(r, line);
  }
  if (!ended) refuse(r, "the table has no end");
  if (t->task.name == NULL || t->task.target == NULL || t->task.threads < 1 || t->points.count == 0)
    refuse(r, "a table has a name, a target, threads and points");
  if (t->static_point >= t->points.count) refuse(r, "the static choice is none of the points");
  t->task.declaration = tn__arena_strdup(&t->arena, tn__strbuf_text(&r->declaration));
  if (r->machine.length > 0) t->task.machine = tn__arena_strdup(&t->arena, tn__strbuf_text(&r->machine));
  index_points(t);
}

static tn_status *read_text(const char *path, tn__strbuf *text) {
  enum { MOST = 64 << 20 };
  char piece[8192];
  int size;
  gzFile file = gzopen(path, "rb"); /* also what is not compressed */
  if (file == NULL) return tn_status_create(TN_NOT_FOUND, "cannot read %s", path);
  while ((size = gzread(file, piece, sizeof piece)) > 0 && text->length < MOST)
    tn__strbuf_printf(text, "%.*s", size, piece);
  gzclose(file);
  if (size != 0) return tn_status_create(TN_DATA_LOSS, "%s: the table is damaged, or larger than 64 MiB", path);
  return tn__strbuf_status(text);
}

tn_status *tn__table_read(const char *path, tn__table **out) {
  *out = NULL;
  void *memory;
  tn__strbuf text;
  tn__escape escape;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__table), 0, &memory));
  tn__table *t = memory;
  tn__arena_init(&t->arena, NULL, NULL);
  t->static_point = -1;
  t->task.size = sizeof t->task;
  tn__strbuf_init(&text, NULL);
  reader r = {.table = t, .path = path};
  tn__strbuf_init(&r.declaration, NULL);
  tn__strbuf_init(&r.machine, NULL);
  tn_status *status = read_text(path, &text);
  r.at = tn__strbuf_text(&text);
  if (status == NULL) status = tn__protect(&escape, read_body, &r);
  tn__strbuf_release(&r.declaration);
  tn__strbuf_release(&r.machine);
  tn__strbuf_release(&text);
  if (status != NULL) {
    tn__table_release(t);
    return status;
  }
  *out = t;
  return NULL;
}

void tn__table_release(tn__table *table) {
  if (table == NULL) return;
  tn__arena_release(&table->arena);
  tn__free(NULL, table, sizeof *table, 0);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

const tn_tune_task *tn__table_task(const tn__table *table) { return &table->task; }
int tn__table_points(const tn__table *table) { return table->points.count; }
double tn__table_seconds(const tn__table *table, int point) { return table->points.data[point].seconds; }
double tn__table_best(const tn__table *table) { return table->best; }

double tn__table_static(const tn__table *table) {
  return table->static_point >= 0 ? table->points.data[table->static_point].seconds : (double)NAN;
}

static const table_rule *rule_named(const tn__table *t, const char *name) {
  for (int r = 0; r < t->rule_count; r++)
    if (strcmp(t->rules[r].name, name) == 0) return &t->rules[r];
  return NULL;
}

/* The rule's sketch with the table's choices; false: they are not among its own any more. */
static bool narrow(tn__space *space, int index, const table_rule *rule) {
  const tn__sketch *whole = space->rules[index].sketch;
  if (whole->decision_count != rule->decision_count) return false;
  tn__sketch *k = tn__arena_copy(&space->arena, whole, sizeof *whole);
  for (int d = 0; d < rule->decision_count; d++) {
    for (int v = 0; v < rule->counts[d]; v++) {
      bool known = false;
      for (int w = 0; w < whole->decisions[d].count; w++)
        known |= whole->decisions[d].choices[w] == rule->choices[d][v];
      if (!known) return false;
      k->decisions[d].choices[v] = rule->choices[d][v];
    }
    k->decisions[d].count = rule->counts[d];
  }
  space->rules[index].sketch = k;
  space->rules[index].points = tn__sketch_points(k);
  return true;
}

typedef struct narrowing {
  const tn__table *table;
  tn__space *space;
  bool fits;
} narrowing;

static void narrow_body(tn__escape *escape, void *user) {
  narrowing *n = user;
  tn__space *space = n->space;
  int kept = 0;
  space->arena.escape = escape;
  n->fits = true;
  space->parts_of = -1; /* a table knows of no parts */
  for (int i = 0; i < space->rule_count; i++) {
    const table_rule *rule = rule_named(n->table, space->rules[i].name);
    if (space->static_point.rule == i) space->static_point.rule = rule != NULL ? kept : -1;
    if (rule == NULL) continue;
    space->rules[kept] = space->rules[i];
    n->fits &= narrow(space, kept++, rule);
  }
  space->rule_count = kept;
  n->fits &= kept == n->table->rule_count;
}

tn_status *tn__table_space(const tn__table *table, tn__space **out) {
  tn__escape escape;
  TN_RETURN_IF_ERROR(tn__space_open(&table->task, out));
  narrowing n = {.table = table, .space = *out};
  tn_status *status = tn__protect(&escape, narrow_body, &n);
  if (status == NULL && !n.fits)
    status = tn_status_create(TN_FAILED_PRECONDITION, "%s: the rules have other decisions than when the table was made",
                              table->task.name);
  if (status == NULL) return NULL;
  tn__space_close(*out);
  *out = NULL;
  return status;
}

double tn__table_time(const tn__table *t, const tn__space *space, const tn__space_point *point) {
  if (point->rule < 0) return tn__table_static(t);
  const table_rule *rule = rule_named(t, space->rules[point->rule].name);
  if (rule == NULL) return NAN;
  for (size_t at = hash_of(rule, point) % t->slot_count; t->slots[at] != 0; at = (at + 1) % t->slot_count) {
    const table_point *p = &t->points.data[t->slots[at] - 1];
    bool same = &t->rules[p->point.rule] == rule;
    for (int d = 0; same && d < rule->decision_count; d++) same = p->point.values[d] == point->values[d];
    if (same) return p->seconds;
  }
  return NAN;
}
