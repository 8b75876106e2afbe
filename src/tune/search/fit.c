#include "tune/search/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "machine/machine_file.h"
#include "tune/search/points.h"

enum { APART = 4 /* one record in so many */, MOST_RECORDS = 4096, MOST_ROUNDS = 6 };
static const double linear_from = 0.3; /* logarithms: errors beyond count by their size */
static const double common_part = 0.25, drawn_back = 0.0005, least_gain = 1e-4;

/* What is fitted, the strongest first. */
static const char *const fitted[] = {"l2_rate", "l3_rate",     "memory_rate", "unhidden",      "crowded",
                                     "fewer",   "issue",       "broadcast",   "shuffle_bytes", "half_broadcast",
                                     "fill",    "shared_fill", "loop_entry",  "mispredicted",  "l2_wait",
                                     "l3_wait", "page_miss",   "page_walk",   "fork",          "chunk"};
enum { FITTED = sizeof fitted / sizeof fitted[0] };

typedef struct record {
  tn__space_point point;
  double seconds;
} record;

typedef struct task {
  tn_tune_task task; /* its texts are in the arena */
  tn__space *space;
  TN__VEC(record) records;
} task;

struct tn__fit {
  tn__arena arena;
  tn__target target;
  const char *machine; /* of the target, as a machine file */
  TN__VEC(task *) tasks;
  task *open; /* records are of it; NULL: they are passed over */
  int records;
  const tn__machine_row *rows[FITTED];
  int stride; /* one record in so many counts */
};

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void create_body(tn__escape *escape, void *user) {
  tn__fit *f = user;
  tn__strbuf text;
  f->arena.escape = escape;
  tn__strbuf_init(&text, NULL);
  tn__machine_print(&f->target.cpu.machine, f->target.cpu.arch, &text);
  f->machine = tn__arena_take(&f->arena, &text);
  for (int i = 0; i < FITTED; i++) f->rows[i] = tn__machine_row_named(fitted[i]);
}

tn_status *tn__fit_create(const tn__target *target, tn__fit **out) {
  *out = NULL;
  void *memory;
  tn__escape escape;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__fit), 0, &memory));
  tn__fit *f = memory;
  f->target = *target;
  tn__arena_init(&f->arena, NULL, NULL);
  tn_status *status = tn__protect(&escape, create_body, f);
  if (status != NULL) {
    tn__fit_release(f);
    return status;
  }
  *out = f;
  return NULL;
}

void tn__fit_release(tn__fit *f) {
  if (f == NULL) return;
  for (int i = 0; i < f->tasks.count; i++) tn__space_close(f->tasks.data[i]->space);
  tn__arena_release(&f->arena);
  tn__free(NULL, f, sizeof *f, 0);
}

typedef struct adding {
  tn__fit *fit;
  const tn_tune_task *task;
  const record *record;
} adding;

static void add_task(tn__escape *escape, void *user) {
  const adding *a = user;
  tn__arena *arena = &a->fit->arena;
  arena->escape = escape;
  task *t = TN__NEW(arena, task);
  t->task = (tn_tune_task){.size = sizeof t->task,
                           .name = tn__arena_strdup(arena, a->task->name),
                           .declaration = tn__arena_strdup(arena, a->task->declaration),
                           .target = tn__arena_strdup(arena, a->task->target),
                           .machine = a->fit->machine,
                           .threads = a->task->threads,
                           .results_read = a->task->results_read};
  tn__vec_push(arena, &a->fit->tasks, t);
  a->fit->open = t;
}

tn_status *tn__fit_task(tn__fit *f, const tn_tune_task *words) {
  adding a = {.fit = f, .task = words};
  tn__escape escape;
  f->open = NULL;
  TN_RETURN_IF_ERROR(tn__protect(&escape, add_task, &a));
  tn_status *status = tn__space_open(&f->open->task, &f->open->space);
  if (status == NULL) return NULL;
  f->open = NULL;
  if (tn_status_code_of(status) == TN_OUT_OF_MEMORY) return status;
  tn_status_free(status); /* a declaration of another version, say */
  return NULL;
}

static void add_record(tn__escape *escape, void *user) {
  const adding *a = user;
  a->fit->arena.escape = escape;
  tn__vec_push(&a->fit->arena, &a->fit->open->records, *a->record);
}

tn_status *tn__fit_record(tn__fit *f, const char *rule, const char *decisions, double seconds) {
  record r = {.seconds = seconds};
  adding a = {.fit = f, .record = &r};
  tn__escape escape;
  if (f->open == NULL || !(seconds > 0) || !isfinite(seconds)) return NULL;
  if (!tn__space_read(f->open->space, rule, decisions, &r.point)) return NULL;
  if (!isfinite(tn__space_weigh(f->open->space, &r.point).cycles)) return NULL;
  TN_RETURN_IF_ERROR(tn__protect(&escape, add_record, &a));
  f->records++;
  return NULL;
}

int tn__fit_records(const tn__fit *f) { return f->records; }

/* ---- how far predictions are off --------------------------------------------------------------------------------- */

static double predict(const task *t, const record *r, const tn__machine *machine) {
  tn__target_use(&t->space->target, machine);
  return tn__space_weigh(t->space, &r->point).cycles / (1e6 * machine->core.megahertz);
}

static bool counts(const tn__fit *f, int index) { return index % f->stride == 0; }
static bool is_apart(const tn__fit *f, int index) { return index / f->stride % APART == APART - 1; }

static double huber(double x) {
  x = fabs(x);
  return x <= linear_from ? 0.5 * x * x : linear_from * (x - 0.5 * linear_from);
}

/* The loss of a task by the records that are fitted to; `room` is for as many numbers. */
static double task_loss(const tn__fit *f, const task *t, const tn__machine *machine, double *room) {
  const double most = 4;
  double common = 0, sum = 0;
  int count = 0;
  for (int i = 0; i < t->records.count; i++) {
    const record *r = &t->records.data[i];
    if (!counts(f, i) || is_apart(f, i)) continue;
    double predicted = predict(t, r, machine);
    room[count] = isfinite(predicted) && predicted > 0 ? log(predicted / r->seconds) : most;
    common += room[count++];
  }
  if (count == 0) return 0;
  common /= count;
  for (int i = 0; i < count; i++) sum += huber(room[i] - common);
  return sum / count + common_part * huber(common);
}

static double loss(const tn__fit *f, const tn__machine *machine, double *room) {
  double sum = 0;
  for (int i = 0; i < f->tasks.count; i++)
    if (f->tasks.data[i]->space != NULL) sum += task_loss(f, f->tasks.data[i], machine, room);
  double mean = sum / f->tasks.count;
  for (int i = 0; i < FITTED; i++) {
    double first = tn__machine_get(&f->target.cpu.machine, f->rows[i]), own = tn__machine_get(machine, f->rows[i]);
    if (first > 0 && own > 0) mean += drawn_back * pow(log2(own / first), 2);
  }
  return mean;
}

/* ---- fitting ----------------------------------------------------------------------------------------------------- */

/* With three digits. */
static double rounded(double value) {
  double unit = pow(10, floor(log10(value)) - 2);
  return unit < 1 ? round(value / unit) / round(1 / unit) : round(value / unit) * unit;
}

/* One number at other values; true when one of them is better. */
TN_MUST_USE static bool improve(const tn__fit *f, int which, tn__machine *machine, double *least, double *room) {
  enum { PARTS = 4 /* of a factor of 2 */, FURTHEST = 3 * PARTS };
  static const int steps[] = {-4, -2, -1, 1, 2, 4};
  const tn__machine_row *row = f->rows[which];
  double first = tn__machine_get(&f->target.cpu.machine, row), now = tn__machine_get(machine, row);
  tn__machine best = *machine;
  double before = *least;
  if (!(first > 0)) return false;
  int at = (int)lround(PARTS * log2(now / first)); /* whole numbers were rounded */
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    tn__machine tried = *machine;
    int to = at + steps[i];
    double value = to == 0 ? first : rounded(first * exp2((double)to / PARTS));
    if (to > FURTHEST || to < -FURTHEST || value < row->low || value > row->high) continue;
    tn__machine_set(&tried, row, row->real ? value : floor(value + 0.5));
    if (tn__machine_get(&tried, row) == now) continue;
    double found = loss(f, &tried, room);
    if (found >= *least) continue;
    *least = found;
    best = tried;
  }
  if (before - *least < least_gain * before) {
    *least = before;
    return false;
  }
  *machine = best;
  return true;
}

static void fit_all(const tn__fit *f, tn__machine *machine, double *room) {
  double least = loss(f, machine, room);
  bool better = true;
  for (int round = 0; better && round < MOST_ROUNDS; round++) {
    better = false;
    for (int i = 0; i < FITTED; i++) better |= improve(f, i, machine, &least, room);
  }
}

/* Of the records that are kept apart. */
static tn_status *judge(const tn__fit *f, const tn__machine *machine, double *predicted, double *measured,
                        tn__fit_result *out, int when) {
  double correlations = 0;
  int all = 0, judged = 0;
  for (int t = 0; t < f->tasks.count; t++) {
    const task *a = f->tasks.data[t];
    int from = all;
    for (int i = 0; i < a->records.count; i++) {
      if (!counts(f, i) || !is_apart(f, i)) continue;
      predicted[all] = predict(a, &a->records.data[i], machine);
      measured[all++] = a->records.data[i].seconds;
    }
    tn__accuracy own;
    TN_RETURN_IF_ERROR(tn__accuracy_of(&predicted[from], &measured[from], all - from, &own));
    if (isnan(own.correlation)) continue;
    correlations += own.correlation;
    judged++;
  }
  tn__accuracy together;
  TN_RETURN_IF_ERROR(tn__accuracy_of(predicted, measured, all, &together));
  out->kept_apart = all;
  out->error[when] = together.error;
  out->correlation[when] = judged > 0 ? correlations / judged : (double)NAN;
  return NULL;
}

tn_status *tn__fit_run(tn__fit *f, tn__fit_result *out) {
  *out = (tn__fit_result){.machine = f->target.cpu.machine, .records = f->records};
  for (int i = 0; i < f->tasks.count; i++) out->tasks += f->tasks.data[i]->records.count > 0;
  if (f->records < TN__FIT_LEAST)
    return tn_status_create(TN_FAILED_PRECONDITION, "%d record%s too few to fit a machine to: %d are wanted at least",
                            f->records, f->records == 1 ? " is" : "s are", TN__FIT_LEAST);
  f->stride = (f->records + MOST_RECORDS - 1) / MOST_RECORDS;
  double *room = malloc((size_t)f->records * sizeof *room), *other = malloc((size_t)f->records * sizeof *other);
  tn_status *status =
      room != NULL && other != NULL ? NULL : tn_status_create(TN_OUT_OF_MEMORY, "out of memory to fit a machine");
  tn__machine machine = out->machine;
  if (status == NULL) status = judge(f, &machine, room, other, out, 0);
  if (status == NULL) {
    fit_all(f, &machine, room);
    status = judge(f, &machine, room, other, out, 1);
  }
  free(room);
  free(other);
  if (status != NULL) return status;
  /* The order is what choices go by; where it stays, nearer times are better. */
  const double same = 0.005;
  double gain = isnan(out->correlation[0]) ? 0 : out->correlation[1] - out->correlation[0];
  out->better = gain > same || (gain >= -same && out->error[1] < out->error[0]);
  if (out->better) out->machine = machine;
  return NULL;
}
