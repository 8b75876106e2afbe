/* The oracle of schedules: random (declaration, trace) pairs must compute what the declaration says, and a pair that
 * does not is made as small as it can be. Needs no cmocka: tests and fuzz targets share it. */
#ifndef TENON_TESTS_UNIT_SCHEDULE_ORACLE_H
#define TENON_TESTS_UNIT_SCHEDULE_ORACLE_H

#include <stdio.h>

#include "target/text/text.h"
#include "unit/schedule_steps.h"

enum { MOST_STEPS = 40 };

/* A declaration and the steps of a trace over it. */
typedef struct pair {
  recipe r;
  int count;
  char steps[MOST_STEPS][STEP_TEXT];
} pair;

/* NULL when the schedule is right; otherwise what is wrong with it. */
typedef tn_status *(*pair_check)(const tn__schedule *s, const pair *p, void *user);

/* The trace replays to the same function, which computes what the declaration says. */
static inline tn_status *check_pair(const tn__schedule *s, const pair *p, void *user) {
  tn__schedule *again;
  const char *trace = schedule_text(s, false);
  tn__target target = *s->target;
  TN_RETURN_IF_ERROR(tn__te_verify(s->te));
  TN_RETURN_IF_ERROR(tn__sched_trace_replay(s->te, &target, trace, &again));
  if (strcmp(trace, schedule_text(again, false)) != 0)
    return tn_status_create(TN_INTERNAL, "replay gives another trace");
  if (strcmp(schedule_text(s, true), schedule_text(again, true)) != 0)
    return tn_status_create(TN_INTERNAL, "replay gives another function");
  tn_status *status = compare_results(s, p->r.seed);
  if (tn_status_code_of(status) != TN_CANCELLED) return status;
  tn_status_free(status); /* guards in guards in guards: too slow to tell */
  return NULL;
}

/* An island is a CPU, with a second memory. */
static inline void oracle_target(tn__target *target) {
  tn_status *status = tn__target_parse("island -mcpu=x86-64-v4+avx512bf16+avx512vnni", target);
  if (status != NULL) abort();
  target->cpu.cores = 2;
}

/* ---- running something that may throw ---------------------------------------------------------------------------- */

typedef struct attempt {
  tn__schedule *s;
  const char *line;
  const pair *p;
  pair_check check;
  void *user;
} attempt;

static inline void attempt_step(tn__escape *escape, void *arg) {
  attempt *a = arg;
  a->s->arena->escape = escape;
  tn__sched_trace_step(a->s, a->line);
  tn__schedule_func(a->s);
}

static inline void attempt_check(tn__escape *escape, void *arg) {
  attempt *a = arg;
  a->s->arena->escape = escape;
  tn__check(escape, a->check(a->s, a->p, a->user));
}

/* Runs `body`, whose errors do not leave. */
static inline tn_status *attempted(attempt *a, void (*body)(tn__escape *escape, void *arg)) {
  tn__escape escape, *outer = a->s->arena->escape;
  tn_status *status = tn__protect(&escape, body, a);
  a->s->arena->escape = outer;
  return status;
}

/* ---- drawing traces ---------------------------------------------------------------------------------------------- */

/* What was proposed, and which primitive came before which in one trace. */
typedef struct tally {
  long accepted[PRIMITIVES], refused[PRIMITIVES], before[PRIMITIVES][PRIMITIVES];
} tally;

/* A kind of declaration, and two primitives that are wanted one after the other; -1: any. */
typedef struct wish {
  int kind, first, second;
} wish;

static const wish no_wish = {-1, -1, -1};

static inline int next_primitive(dice *d, const pair *p, const wish *w) {
  bool has_first = w->first < 0;
  for (int i = 0; i < p->count; i++) has_first |= primitive_of(p->steps[i]) == w->first;
  int wanted = has_first ? w->second : w->first;
  return wanted >= 0 && roll(d, 3) > 0 ? wanted : roll(d, PRIMITIVES);
}

/* Grows a trace over the pair's recipe by up to `tries` proposals; refused ones change nothing. What a primitive
 * refuses with must be an invalid argument. */
static inline tn__schedule *draw_steps(tn__ir *ir, tn__target *target, pair *p, dice *d, int tries, const wish *w,
                                       tally *t) {
  tn__te *te = make_recipe(ir, &p->r);
  tn__schedule *s = tn__schedule_of(te, target);
  const char *good = schedule_text(s, false);
  for (int i = 0; i < tries && p->count < MOST_STEPS; i++) {
    char line[STEP_TEXT];
    if (!propose(s, d, next_primitive(d, p, w), line)) continue;
    int which = primitive_of(line), steps = s->steps.count;
    attempt a = {.s = s, .line = line};
    tn_status *status = attempted(&a, attempt_step);
    if (status == NULL) {
      t->accepted[which]++;
      for (int j = 0; j < p->count; j++) t->before[primitive_of(p->steps[j])][which]++;
      memcpy(p->steps[p->count++], line, STEP_TEXT);
      good = schedule_text(s, false);
      continue;
    }
    t->refused[which]++;
    if (tn_status_code_of(status) != TN_INVALID_ARGUMENT)
      tn__throw(s->arena->escape, tn_status_prefix(status, "step %s", tn__arena_strdup(s->arena, line)));
    tn_status_free(status);
    /* The step itself was taken, but it leaves no function: a tensor that cannot be private. */
    if (s->steps.count != steps) tn__check(s->arena->escape, tn__sched_trace_replay(te, target, good, &s));
  }
  return s;
}

/* ---- shrinking --------------------------------------------------------------------------------------------------- */

typedef struct trial {
  tn__arena arena;
  const pair *p;
  pair_check check;
  void *user;
  bool fails;
  FILE *show; /* where to print the function, or NULL */
} trial;

static inline void run_trial(tn__escape *escape, void *arg) {
  trial *t = arg;
  tn__arena_init(&t->arena, NULL, escape);
  tn__target target;
  oracle_target(&target);
  attempt a = {.p = t->p, .check = t->check, .user = t->user};
  a.s = tn__schedule_of(make_recipe(tn__ir_create(&t->arena), &t->p->r), &target);
  for (int i = 0; i < t->p->count; i++) {
    a.line = t->p->steps[i];
    tn_status *status = attempted(&a, attempt_step);
    tn_status_free(status);
    if (status != NULL) return; /* no such trace */
  }
  if (t->show != NULL) fprintf(t->show, "%s", schedule_text(a.s, true));
  tn_status *status = attempted(&a, attempt_check);
  t->fails = status != NULL;
  tn_status_free(status);
}

static inline bool fails_again(const pair *p, pair_check check, void *user, FILE *show) {
  trial t = {.p = p, .check = check, .user = user, .show = show};
  tn__escape escape;
  tn_status *status = tn__protect(&escape, run_trial, &t);
  tn__arena_release(&t.arena);
  tn_status_free(status);
  return t.fails && status == NULL;
}

static inline bool still_fails(const pair *p, pair_check check, void *user) {
  return fails_again(p, check, user, NULL);
}

/* Takes `smaller` over when it fails, too. */
static inline bool take_over(pair *p, const pair *smaller, pair_check check, void *user) {
  if (!still_fails(smaller, check, user)) return false;
  *p = *smaller;
  return true;
}

static inline bool drop_steps(pair *p, pair_check check, void *user) {
  bool changed = false;
  for (int length = p->count; length >= 1; length /= 2)
    for (int at = 0; at + length <= p->count;) {
      pair smaller = *p;
      memmove(smaller.steps[at], smaller.steps[at + length], (size_t)(p->count - at - length) * STEP_TEXT);
      smaller.count -= length;
      if (take_over(p, &smaller, check, user))
        changed = true;
      else
        at++;
    }
  return changed;
}

static inline bool lower_number(pair *p, int *number, int least, pair_check check, void *user) {
  bool changed = false;
  for (int step = *number - least; step >= 1; step /= 2) {
    int before = *number;
    if (before - step < least) continue;
    pair old = *p;
    *number = before - step;
    if (still_fails(p, check, user))
      changed = true;
    else
      *p = old;
  }
  return changed;
}

static inline bool simplify_recipe(pair *p, pair_check check, void *user) {
  bool changed = false;
  for (int i = 0; i < 3; i++) changed |= lower_number(p, &p->r.dims[i], 1, check, user);
  changed |= lower_number(p, &p->r.stride, 1, check, user);
  for (int bit = 1; bit < 8; bit *= 2) {
    pair smaller = *p;
    smaller.r.variant &= ~bit;
    changed |= smaller.r.variant != p->r.variant && take_over(p, &smaller, check, user);
  }
  pair smaller = *p;
  smaller.r.open = false;
  changed |= p->r.open && take_over(p, &smaller, check, user);
  smaller = *p;
  smaller.r.dtype = TN_F32;
  changed |= p->r.dtype != TN_F32 && take_over(p, &smaller, check, user);
  smaller = *p;
  smaller.r.seed = 0;
  changed |= p->r.seed != 0 && take_over(p, &smaller, check, user);
  return changed;
}

/* Makes a failing pair as small as single changes can: no step can go and no number of the recipe be less without the
 * failure going away. */
static inline void shrink(pair *p, pair_check check, void *user) {
  while (drop_steps(p, check, user) || simplify_recipe(p, check, user)) {
  }
}

static inline void print_pair(const pair *p, FILE *out) {
  print_recipe(&p->r, out);
  for (int i = 0; i < p->count; i++) fprintf(out, "%s\n", p->steps[i]);
}

/* ---- one random pair --------------------------------------------------------------------------------------------- */

typedef struct oracle_job {
  tn__arena arena;
  pair p;
  dice d;
  int tries;
  const wish *w;
  tally *t;
  pair_check check;
  void *user;
} oracle_job;

static inline void run_oracle(tn__escape *escape, void *arg) {
  oracle_job *job = arg;
  tn__arena_init(&job->arena, NULL, escape);
  tn__target target;
  oracle_target(&target);
  tn__schedule *s = draw_steps(tn__ir_create(&job->arena), &target, &job->p, &job->d, job->tries, job->w, job->t);
  tn__check(escape, job->check(s, &job->p, job->user));
}

/* Draws a pair and checks it. What is wrong, after the pair was made small and printed on stderr; NULL when all is
 * well.
 */
static inline tn_status *oracle_pair(dice *d, int tries, const wish *w, tally *t, pair_check check, void *user) {
  oracle_job *job = calloc(1, sizeof(*job));
  tn__escape escape;
  if (job == NULL) abort();
  job->p.r = draw_recipe(d);
  if (w->kind >= 0) job->p.r.kind = w->kind;
  job->p.r.open &= recipe_kinds[job->p.r.kind].can_open;
  job->d = *d;
  job->tries = tries;
  job->w = w;
  job->t = t;
  job->check = check;
  job->user = user;
  tn_status *status = tn__protect(&escape, run_oracle, job);
  tn__arena_release(&job->arena);
  if (status != NULL) {
    fprintf(stderr, "%s\nfound with\n", tn_status_message(status));
    print_pair(&job->p, stderr);
    if (still_fails(&job->p, check, user)) {
      shrink(&job->p, check, user);
      fprintf(stderr, "smallest pair\n");
      print_pair(&job->p, stderr);
      fails_again(&job->p, check, user, stderr);
    }
  }
  free(job);
  return status;
}

#endif
