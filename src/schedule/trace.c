/* Traces: every primitive has one row that says which operands it takes and how to apply it from text. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "schedule/internal.h"

typedef struct operands {
  const char *names[TN__MAX_LOOPS];
  int64_t numbers[2 + TN__MAX_RANK];
  int name_count, number_count;
} operands;

typedef struct step {
  const char *name;
  int min_names, max_names, min_numbers, max_numbers;
  void (*apply)(tn__schedule *s, const operands *o);
} step;

static void apply_split(tn__schedule *s, const operands *o) { tn__split(s, o->names[0], o->numbers, o->number_count); }
static void apply_fuse(tn__schedule *s, const operands *o) { tn__fuse(s, o->names[0], o->names[1]); }
static void apply_reorder(tn__schedule *s, const operands *o) { tn__reorder(s, o->names, o->name_count); }
static void apply_parallel(tn__schedule *s, const operands *o) { tn__parallel(s, o->names[0]); }
static void apply_vectorize(tn__schedule *s, const operands *o) { tn__vectorize(s, o->names[0]); }
static void apply_unroll(tn__schedule *s, const operands *o) { tn__unroll(s, o->names[0]); }
static void apply_compute_at(tn__schedule *s, const operands *o) { tn__compute_at(s, o->names[0], o->names[1]); }
static void apply_reverse_compute_at(tn__schedule *s, const operands *o) {
  tn__reverse_compute_at(s, o->names[0], o->names[1]);
}
static void apply_inline(tn__schedule *s, const operands *o) { tn__inline(s, o->names[0]); }
static void apply_reverse_inline(tn__schedule *s, const operands *o) { tn__reverse_inline(s, o->names[0]); }
static void apply_cache_write(tn__schedule *s, const operands *o) {
  tn__cache_write(s, o->names[0], (int)o->numbers[0], (tn__scope)o->numbers[1]);
}
static void apply_cache_read(tn__schedule *s, const operands *o) {
  tn__cache_read(s, o->names[0], (int)o->numbers[0], (tn__scope)o->numbers[1]);
}
static void apply_cache_read_in_order(tn__schedule *s, const operands *o) {
  int order[TN__MAX_RANK];
  for (int i = 2; i < o->number_count; i++) order[i - 2] = (int)o->numbers[i];
  tn__cache_read_in_order(s, o->names[0], (int)o->numbers[0], (tn__scope)o->numbers[1], order, o->number_count - 2);
}
static void apply_set_scope(tn__schedule *s, const operands *o) {
  tn__set_scope(s, o->names[0], (int)o->numbers[0], (tn__scope)o->numbers[1]);
}
static void apply_rfactor(tn__schedule *s, const operands *o) { tn__rfactor(s, o->names[0]); }
static void apply_decompose(tn__schedule *s, const operands *o) {
  tn__decompose_reduction(s, o->names[0], o->names[1]);
}

static const step steps[] = {
    {"split", 1, 1, 2, 8, apply_split},
    {"fuse", 2, 2, 0, 0, apply_fuse},
    {"reorder", 1, TN__MAX_LOOPS, 0, 0, apply_reorder},
    {"parallel", 1, 1, 0, 0, apply_parallel},
    {"vectorize", 1, 1, 0, 0, apply_vectorize},
    {"unroll", 1, 1, 0, 0, apply_unroll},
    {"compute_at", 2, 2, 0, 0, apply_compute_at},
    {"reverse_compute_at", 2, 2, 0, 0, apply_reverse_compute_at},
    {"inline", 1, 1, 0, 0, apply_inline},
    {"reverse_inline", 1, 1, 0, 0, apply_reverse_inline},
    {"cache_write", 1, 1, 2, 2, apply_cache_write},
    {"cache_read", 1, 1, 2, 2, apply_cache_read},
    {"cache_read_in_order", 1, 1, 2, 2 + TN__MAX_RANK, apply_cache_read_in_order},
    {"set_scope", 1, 1, 2, 2, apply_set_scope},
    {"rfactor", 1, 1, 0, 0, apply_rfactor},
    {"decompose_reduction", 2, 2, 0, 0, apply_decompose},
};

void tn__sched_record(tn__schedule *s, const char *name, const char *const *names, int name_count,
                      const int64_t *numbers, int number_count) {
  const char *text = name;
  for (int i = 0; i < name_count; i++) text = tn__arena_printf(s->arena, "%s \"%s\"", text, names[i]);
  for (int i = 0; i < number_count; i++) text = tn__arena_printf(s->arena, "%s %" PRId64, text, numbers[i]);
  tn__vec_push(s->arena, &s->steps, text);
  s->func = NULL;
}

void tn__sched_digest(const tn__te *te, char out[17]) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__te_print(te, &text);
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update_string(&hasher, tn__strbuf_text(&text));
  tn__digest digest = tn__sha256_final(&hasher);
  tn__strbuf_release(&text);
  char hex[65];
  tn__digest_hex(&digest, hex);
  memcpy(out, hex, 16);
  out[16] = 0;
}

void tn__trace_print(const tn__schedule *s, tn__strbuf *out) {
  char digest[17];
  tn__sched_digest(s->te, digest);
  tn__strbuf_printf(out, "trace 1 %s\n", digest);
  for (int i = 0; i < s->steps.count; i++) tn__strbuf_printf(out, "%s\n", s->steps.data[i]);
}

/* ---- replay ------------------------------------------------------------------------------------------------------ */

typedef struct replay {
  const tn__te *te;
  const tn__target *target;
  const char *text;
  tn__schedule *result;
  int line;
} replay;

/* Cuts one line into a step and its operands, in place. */
static const step *parse_step(tn__arena *arena, char *line, operands *o) {
  char *p = line;
  while (*p != 0 && *p != ' ') p++;
  if (*p != 0) *p++ = 0;
  const step *found = NULL;
  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
    if (strcmp(steps[i].name, line) == 0) found = &steps[i];
  if (found == NULL) tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "there is no step \"%.40s\"", line);
  while (*p != 0) {
    if (*p == '"') {
      char *name = ++p;
      while (*p != 0 && *p != '"') p++;
      if (*p == 0) tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "a name lacks its closing quote");
      *p++ = 0;
      if (o->name_count == TN__MAX_LOOPS || o->number_count > 0)
        tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "%s has too many names, or one behind its numbers", found->name);
      o->names[o->name_count++] = name;
    } else {
      char *end;
      long long value = strtoll(p, &end, 10);
      if (end == p || o->number_count == 2 + TN__MAX_RANK || value < 0 || value > INT32_MAX)
        tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "expected a name in quotes or a number at \"%.20s\"", p);
      o->numbers[o->number_count++] = value;
      p = end;
    }
    if (*p == ' ') p++;
  }
  if (o->name_count < found->min_names || o->name_count > found->max_names || o->number_count < found->min_numbers ||
      o->number_count > found->max_numbers)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "%s takes %d to %d names and %d to %d numbers, not %d and %d",
               found->name, found->min_names, found->max_names, found->min_numbers, found->max_numbers, o->name_count,
               o->number_count);
  return found;
}

static void run_replay(tn__escape *escape, void *arg) {
  replay *r = arg;
  tn__arena *arena = tn__ir_arena(tn__te_ir(r->te));
  arena->escape = escape;
  char digest[17];
  tn__sched_digest(r->te, digest);
  r->result = tn__schedule_of(r->te, r->target);
  const char *p = r->text;
  for (r->line = 1; *p != 0; r->line++) {
    const char *end = strchr(p, '\n');
    size_t length = end == NULL ? strlen(p) : (size_t)(end - p);
    char *line = tn__arena_strndup(arena, p, length);
    p = end == NULL ? p + length : end + 1;
    if (r->line == 1) {
      if (strncmp(line, "trace 1 ", 8) != 0) tn__throwf(escape, TN_INVALID_ARGUMENT, "expected \"trace 1 DIGEST\"");
      if (strcmp(line + 8, digest) != 0)
        tn__throwf(escape, TN_INVALID_ARGUMENT, "the trace is of another declaration (%.16s) than %s (%s)", line + 8,
                   tn__te_name(r->te), digest);
      continue;
    }
    operands o = {0};
    const step *found = parse_step(arena, line, &o);
    found->apply(r->result, &o);
  }
  if (r->line == 1) tn__throwf(escape, TN_INVALID_ARGUMENT, "expected \"trace 1 DIGEST\"");
}

tn_status *tn__trace_replay(const tn__te *te, const tn__target *target, const char *text, tn__schedule **out) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(te));
  tn__escape *outer = arena->escape, escape;
  replay r = {.te = te, .target = target, .text = text};
  *out = NULL;
  tn_status *status = tn__protect(&escape, run_replay, &r);
  arena->escape = outer;
  if (status != NULL) return tn_status_prefix(status, "trace:%d", r.line);
  *out = r.result;
  return NULL;
}
