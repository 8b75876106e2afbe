/* Reading traces: every primitive has one row that says which operands it takes and how to apply it from text. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/internal.h"

enum { MAX_NUMBERS = 3 * TN__MAX_RANK, MAX_LINES = 10000 };

typedef struct operands {
  const char *names[TN__MAX_LOOPS];
  int64_t numbers[MAX_NUMBERS];
  int name_count, number_count;
} operands;

typedef struct step {
  const char *name;
  int min_names, max_names, min_numbers, max_numbers;
  void (*apply)(tn__schedule *s, const operands *o);
} step;

static void apply_split(tn__schedule *s, const operands *o) {
  tn__sched_split(s, o->names[0], o->numbers, o->number_count);
}
static void apply_fuse(tn__schedule *s, const operands *o) { tn__sched_fuse(s, o->names[0], o->names[1]); }
static void apply_reorder(tn__schedule *s, const operands *o) { tn__sched_reorder(s, o->names, o->name_count); }
static void apply_parallel(tn__schedule *s, const operands *o) { tn__sched_parallel(s, o->names[0]); }
static void apply_vectorize(tn__schedule *s, const operands *o) { tn__sched_vectorize(s, o->names[0]); }
static void apply_unroll(tn__schedule *s, const operands *o) { tn__sched_unroll(s, o->names[0]); }
static void apply_compute_at(tn__schedule *s, const operands *o) { tn__sched_compute_at(s, o->names[0], o->names[1]); }
static void apply_reverse_compute_at(tn__schedule *s, const operands *o) {
  tn__sched_reverse_compute_at(s, o->names[0], o->names[1]);
}
static void apply_inline(tn__schedule *s, const operands *o) { tn__sched_inline(s, o->names[0]); }
static void apply_reverse_inline(tn__schedule *s, const operands *o) { tn__sched_reverse_inline(s, o->names[0]); }
static void apply_cache_write(tn__schedule *s, const operands *o) {
  tn__sched_cache_write(s, o->names[0], (int)o->numbers[0], (tn__scope)o->numbers[1]);
}
static void apply_cache_read(tn__schedule *s, const operands *o) {
  tn__sched_cache_read(s, o->names[0], (int)o->numbers[0], (tn__scope)o->numbers[1]);
}
static void apply_hoist(tn__schedule *s, const operands *o) {
  tn__sched_hoist(s, o->names[0], (int)o->numbers[0], (int)o->numbers[1]);
}
static void apply_cache_read_cast(tn__schedule *s, const operands *o) {
  tn__sched_cache_read_cast(s, o->names[0], (int)o->numbers[0], (tn__scope)o->numbers[1]);
}
static void apply_cache_read_in_order(tn__schedule *s, const operands *o) {
  int order[TN__MAX_RANK];
  for (int i = 2; i < o->number_count; i++) order[i - 2] = (int)o->numbers[i];
  tn__sched_cache_read_in_order(s, o->names[0], (int)o->numbers[0], (tn__scope)o->numbers[1], order,
                                o->number_count - 2);
}
static void apply_set_scope(tn__schedule *s, const operands *o) {
  tn__sched_set_scope(s, o->names[0], (int)o->numbers[0], (tn__scope)o->numbers[1]);
}
static void apply_set_memory(tn__schedule *s, const operands *o) {
  tn__sched_set_memory(s, o->names[0], (int)o->numbers[0]);
}
static void apply_rfactor(tn__schedule *s, const operands *o) { tn__sched_rfactor(s, o->names[0]); }
static void apply_rfactor_at(tn__schedule *s, const operands *o) { tn__sched_rfactor_at(s, o->names[0], o->names[1]); }
static void apply_privatize(tn__schedule *s, const operands *o) { tn__sched_privatize(s, o->names[0]); }
static void apply_peel(tn__schedule *s, const operands *o) { tn__sched_peel(s, o->names[0], o->numbers[0]); }
static void apply_decompose(tn__schedule *s, const operands *o) {
  tn__sched_decompose_reduction(s, o->names[0], o->names[1]);
}

static void apply_tile(tn__schedule *s, const operands *o) {
  if (o->name_count != o->number_count)
    tn__throwf(s->arena->escape, TN_INVALID_ARGUMENT, "tile takes as many sizes as loops, not %d for %d",
               o->number_count, o->name_count);
  tn__sched_tile(s, o->names, o->numbers, o->name_count);
}
static void apply_compute_root(tn__schedule *s, const operands *o) { tn__sched_compute_root(s, o->names[0]); }
static void apply_bind(tn__schedule *s, const operands *o) { tn__sched_bind(s, o->names[0], o->names[1]); }
static void apply_pragma(tn__schedule *s, const operands *o) {
  tn__sched_pragma(s, o->names[0], o->names[1], o->numbers[0]);
}
static void apply_prefetch_ahead(tn__schedule *s, const operands *o) {
  tn__sched_prefetch_ahead(s, o->names[0], (int)o->numbers[0], o->names[1], o->names[2], o->numbers[1]);
}
static void apply_prefetch_spread(tn__schedule *s, const operands *o) {
  tn__sched_prefetch_spread(s, o->names[0], (int)o->numbers[0], o->names[1], o->names[2], o->numbers[1]);
}
static void apply_prefetch(tn__schedule *s, const operands *o) {
  tn__sched_prefetch_block(s, o->names[0], (int)o->numbers[0], o->names[1], o->numbers[1]);
}
static void apply_stream(tn__schedule *s, const operands *o) { tn__sched_stream(s, o->names[0], (int)o->numbers[0]); }
static void apply_storage_align(tn__schedule *s, const operands *o) {
  tn__sched_storage_align(s, o->names[0], (int)o->numbers[0], (int)o->numbers[1], o->numbers[2], o->numbers[3]);
}
static void apply_fold_storage(tn__schedule *s, const operands *o) {
  tn__sched_fold_storage(s, o->names[0], (int)o->numbers[0], o->names[1]);
}
static void apply_fold_scan(tn__schedule *s, const operands *o) {
  tn__sched_fold_scan(s, o->names[0], (int)o->numbers[0], o->numbers[1]);
}
static void apply_slide(tn__schedule *s, const operands *o) { tn__sched_slide(s, o->names[0], o->names[1]); }
static void apply_store_over(tn__schedule *s, const operands *o) {
  tn__sched_store_over(s, o->names[0], (int)o->numbers[0]);
}
static void apply_declare_constant(tn__schedule *s, const operands *o) { tn__sched_declare_constant(s, o->names[0]); }
static void apply_transform_layout(tn__schedule *s, const operands *o) {
  tn__layout layout = {.rank = o->number_count / 3};
  if (o->number_count % 3 != 0)
    tn__throwf(s->arena->escape, TN_INVALID_ARGUMENT, "transform_layout takes three numbers for each part, not %d",
               o->number_count);
  for (int i = 0; i < layout.rank; i++)
    layout.parts[i] = (tn__layout_part){(int)o->numbers[3 * i], o->numbers[3 * i + 1], o->numbers[3 * i + 2]};
  tn__sched_transform_layout(s, o->names[0], &layout);
}
static void apply_tensorize(tn__schedule *s, const operands *o) { tn__sched_tensorize(s, o->names[0], o->names[1]); }

static void apply_transpose(tn__schedule *s, const operands *o) {
  tn__sched_transpose(s, o->names[0], o->names[1], o->names[2]);
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
    {"cache_read_cast", 1, 1, 2, 2, apply_cache_read_cast},
    {"cache_read_in_order", 1, 1, 2, 2 + TN__MAX_RANK, apply_cache_read_in_order},
    {"hoist", 1, 1, 2, 2, apply_hoist},
    {"set_scope", 1, 1, 2, 2, apply_set_scope},
    {"set_memory", 1, 1, 1, 1, apply_set_memory},
    {"rfactor", 1, 1, 0, 0, apply_rfactor},
    {"rfactor_at", 2, 2, 0, 0, apply_rfactor_at},
    {"privatize", 1, 1, 0, 0, apply_privatize},
    {"peel", 1, 1, 1, 1, apply_peel},
    {"decompose_reduction", 2, 2, 0, 0, apply_decompose},
    {"tile", 2, TN__MAX_FACTORS, 2, TN__MAX_FACTORS, apply_tile},
    {"compute_root", 1, 1, 0, 0, apply_compute_root},
    {"bind", 2, 2, 0, 0, apply_bind},
    {"pragma", 2, 2, 1, 1, apply_pragma},
    {"prefetch", 2, 2, 2, 2, apply_prefetch},
    {"stream", 1, 1, 1, 1, apply_stream},
    {"prefetch_ahead", 3, 3, 2, 2, apply_prefetch_ahead},
    {"prefetch_spread", 3, 3, 2, 2, apply_prefetch_spread},
    {"storage_align", 1, 1, 4, 4, apply_storage_align},
    {"fold_storage", 2, 2, 1, 1, apply_fold_storage},
    {"fold_scan", 1, 1, 2, 2, apply_fold_scan},
    {"slide", 2, 2, 0, 0, apply_slide},
    {"store_over", 1, 1, 1, 1, apply_store_over},
    {"declare_constant", 1, 1, 0, 0, apply_declare_constant},
    {"transform_layout", 1, 1, 3, MAX_NUMBERS, apply_transform_layout},
    {"tensorize", 2, 2, 0, 0, apply_tensorize},
    {"transpose", 3, 3, 0, 0, apply_transpose},
};

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
      if (end == p || o->number_count == MAX_NUMBERS || value < 0 || value > INT32_MAX)
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

static void apply_line(tn__schedule *s, char *line) {
  operands o = {0};
  const step *found = parse_step(s->arena, line, &o);
  found->apply(s, &o);
}

void tn__sched_trace_step(tn__schedule *s, const char *line) { apply_line(s, tn__arena_strdup(s->arena, line)); }

/* trace VERSION DIGEST */
static void check_head(tn__escape *escape, const char *line, const tn__te *te) {
  char digest[17];
  int version = 0, length = 0;
  if (sscanf(line, "trace %9d %n", &version, &length) != 1 || length == 0 || version < 1)
    tn__throwf(escape, TN_INVALID_ARGUMENT, "expected \"trace %d DIGEST\"", TN__TRACE_VERSION);
  if (version > TN__TRACE_VERSION)
    tn__throwf(escape, TN_INVALID_ARGUMENT,
               "the trace has version %d, and this Tenon reads version %d; use a newer one", version,
               TN__TRACE_VERSION);
  tn__sched_digest(te, digest);
  if (strcmp(line + length, digest) != 0)
    tn__throwf(escape, TN_INVALID_ARGUMENT, "the trace is of another declaration (%.16s) than %s (%s)", line + length,
               tn__te_name(te), digest);
}

static bool is_blank(const char *text) {
  while (isspace((unsigned char)*text)) text++;
  return *text == 0;
}

static void run_replay(tn__escape *escape, void *arg) {
  replay *r = arg;
  tn__arena *arena = tn__ir_arena(tn__te_ir(r->te));
  arena->escape = escape;
  r->result = tn__schedule_of(r->te, r->target);
  const char *p = r->text;
  bool ended = false;
  for (r->line = 1; *p != 0; r->line++) {
    const char *end = strchr(p, '\n');
    size_t length = end == NULL ? strlen(p) : (size_t)(end - p);
    char *line = tn__arena_strndup(arena, p, length);
    p = end == NULL ? p + length : end + 1;
    if (r->line > MAX_LINES) tn__throwf(escape, TN_INVALID_ARGUMENT, "more than %d lines", MAX_LINES);
    if (ended) {
      if (!is_blank(line)) tn__throwf(escape, TN_INVALID_ARGUMENT, "text behind the end of the trace");
      continue;
    }
    if (r->line == 1) {
      check_head(escape, line, r->te);
      continue;
    }
    ended = strncmp(line, "end", 3) == 0 && is_blank(line + 3); /* editors leave white space there */
    if (ended) continue;
    apply_line(r->result, line);
  }
  if (r->line == 1) check_head(escape, "", r->te);
  if (!ended) tn__throwf(escape, TN_INVALID_ARGUMENT, "the trace breaks off: \"end\" is missing");
}

tn_status *tn__sched_trace_replay(const tn__te *te, const tn__target *target, const char *text, tn__schedule **out) {
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
