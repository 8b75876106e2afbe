#include "tune/tuner/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tune/tuner/compare.h"
#include "tune/tuner/proposer.h"

enum {
  WARM_UP = 6,    /* trials of each task before trials go to where they promise most */
  LOOK_BACK = 16, /* trials whose gain is what the next ones are expected to gain */
  PACE = 64,      /* trials whose pace is expected of the next ones */
  HOPELESS = 24,  /* trials of a task that all failed, after which it gets no more */
  USUAL_PATIENCE = 128
};
static const double grace_seconds = 2;  /* behind the budget's end, for what is in flight */
static const double seconds_ahead = 10; /* of trials that are in flight: nobody wants to wait longer for their end */

/* A task's best after each of its trials. */
typedef struct course {
  double *best;
  int count, capacity;
} course;

typedef struct task {
  const tn__task_item *item;
  tn__space *space;
  tn__search *search;
  course course;
  const tn__proposal *best;   /* that has the least time; NULL: none works yet */
  const tn__proposal **asked; /* by their index, as far as they were asked for; the rest is NULL */
  int asked_capacity;
  int64_t trials, in_flight, without_gain;
  int64_t errors[TN_TRIAL_ERRORS];
  int64_t faster;                                   /* candidates that were measured, than the static choice */
  int64_t timed;                                    /* of this tuning's trials */
  double run_seconds, build_seconds;                /* that these took */
  double best_seconds, static_seconds, gained_from; /* the best when `without_gain` began to count */
  bool exhausted, stopped, static_failed;
  bool tried, compared, better;                    /* a comparison was begun; it has a result; its best is better */
  const tn__proposal *rivals[TN__COMPARISON_MOST]; /* that are compared, the static choice first */
  const tn__proposal *chosen;                      /* of them, by the comparison */
  double ratio, in_turns[2]; /* of the comparison: the best over the static choice; seconds of both */
  char *first_error;
} task;

struct tn__tuner {
  tn__tuner_sink sink;
  tn__tuner_options options; /* filled in */
  task *tasks;
  int task_count;
  tn__cost_model *model;
  tn__proposer *proposer; /* has the searches while there are trials */
  tn_builder *builder;
  tn_runner *const *runners;
  int runner_count;
  tn_measurer *measurer;
  tn__comparison *comparison;
  task *in_comparison;
  int compared; /* tasks that are */
  int64_t asked, known, ended;
  double ends[PACE]; /* when the last trials ended, trial i at i % PACE */
  double started, trials_end, last_comparison, done_at;
  tn__tuner_overhead overhead;
  tn__tuner_phase phase;
  tn_tuner_end end;
  bool stopping, stopping_now;
  tn_status *failure;
};

/* A candidate's number: its task, and its proposal there. */
enum { PROPOSAL_BITS = 32 };

static double monotonic(void *user) { return tn__now(); }
static double now(const tn__tuner *t) { return t->options.clock(t->options.clock_user); }

/* The first failure ends the tuning, and is what is told of it. */
static void fail(tn__tuner *t, tn_status *status) {
  if (status == NULL) return;
  if (t->failure == NULL)
    t->failure = status;
  else
    tn_status_free(status);
  t->stopping = t->stopping_now = true;
}

/* ---- which task -------------------------------------------------------------------------------------------------- */

static int index_of(const tn__tuner *t, const task *a) { return (int)(a - t->tasks); }

/* Remembers what a proposal took. */
static void note_time(task *a, const tn__proposal *p, double median) {
  a->faster += p->index > 0 && median < a->static_seconds;
  if (p->index == 0) a->static_seconds = median;
  if (p->index == 0) a->static_failed = isinf(median);
  if (!(median < a->best_seconds)) return;
  a->best = p;
  a->best_seconds = median;
}

/* What the next trial of the task is expected to take off a run of all. */
static double expected_gain(const tn__tuner *t, const task *a) {
  double best = a->best_seconds;
  if (!isfinite(best)) return INFINITY; /* nothing of it works yet */
  int back = a->course.count < LOOK_BACK ? a->course.count : LOOK_BACK;
  double before = back > 0 ? a->course.best[a->course.count - back] : best;
  double gained = back > 0 && isfinite(before) ? (before - best) / back : 0;
  /* Trials gain less and less: so many of them have hardly gained more than a part like this each. */
  double hoped = best * fmin(1 - 0.5 * tn__proposer_promise(t->proposer, index_of(t, a)),
                             1.0 / (double)(a->trials + a->in_flight + 1));
  return a->item->weight * (0.5 * gained + 0.5 * hoped) / (1 + 0.25 * (double)a->in_flight);
}

static bool may_have_more(const task *a) { return !a->exhausted && !a->stopped; }

/* The task that gets the next trial; of those that have a proposal, unless none has. */
static task *choose_task(tn__tuner *t, bool ready) {
  task *best = NULL;
  double most = -1;
  for (int i = 0; i < t->task_count; i++) {
    task *a = &t->tasks[i];
    int64_t asked = a->trials + a->in_flight;
    if (!may_have_more(a)) continue;
    if (ready && tn__proposer_state_of(t->proposer, i) != TN__PROPOSER_READY) continue;
    double gain = asked < WARM_UP ? 1e30 / (double)(asked + 1) : fmin(expected_gain(t, a), 1e29);
    if (gain > most) best = a, most = gain;
  }
  return best;
}

/* ---- the source of the measurer ---------------------------------------------------------------------------------- */

static double time_to_compare(const tn__tuner *t);

/* The most of a budget that comparisons take; also of one that was spent before, so that what is known is compared. */
static const double share_of_comparisons = 0.4;

static double budget_left(const tn__tuner *t) {
  return t->options.budget_seconds - t->options.spent_before - (now(t) - t->started);
}

/* Seconds of the budget for trials: what comparisons will take is no time for them. */
static double trials_left(const tn__tuner *t) {
  return budget_left(t) - fmin(time_to_compare(t), share_of_comparisons * t->options.budget_seconds);
}

/* Until comparisons end; INFINITY: there is no budget. */
static double comparisons_left(const tn__tuner *t) {
  const tn__tuner_options *o = &t->options;
  if (o->budget_seconds <= 0) return INFINITY;
  double own = fmax(o->budget_seconds - o->spent_before, share_of_comparisons * o->budget_seconds);
  return own - (now(t) - t->started);
}

/* Why there are no more trials; TN_TUNER_WORKS: there are. */
static tn_tuner_end end_of(const tn__tuner *t) {
  if (t->failure != NULL) return TN_TUNER_FAILED;
  if (t->stopping) return t->stopping_now ? TN_TUNER_STOPPED_AT_ONCE : TN_TUNER_STOPPED;
  if (t->options.trials > 0 && t->asked + t->known >= t->options.trials) return TN_TUNER_TRIALS;
  if (t->options.budget_seconds > 0 && trials_left(t) <= 0) return TN_TUNER_BUDGET;
  if (t->options.target_speedup > 0) {
    double before, after;
    tn__tuner_totals(t, &before, &after);
    if (isfinite(before) && before >= t->options.target_speedup * after) return TN_TUNER_SPEEDUP;
  }
  return TN_TUNER_WORKS;
}

static bool is_over(tn__tuner *t) {
  if (t->end == TN_TUNER_WORKS) t->end = end_of(t);
  return t->end != TN_TUNER_WORKS;
}

static void set_done(tn__tuner *t) {
  if (t->phase == TN__TUNER_DONE) return;
  t->phase = TN__TUNER_DONE;
  t->done_at = now(t);
  if (t->options.done != NULL) t->options.done(t->options.user);
}

/* Beyond that a candidate will not be the best, whatever the noise. */
static double slow_seconds(const task *a) { return isfinite(a->best_seconds) ? 1.5 * a->best_seconds : 0; }

/* Is enough in flight? A window of candidates that take seconds each would be built long before they run, by what was
 * known then, and all of them would be waited for in the end. Rounds have the size that they were given. */
static bool is_far_ahead(const tn__tuner *t) {
  int64_t in_flight = 0;
  if (t->options.mode != TN_MEASURE_ASYNC) return false;
  for (int i = 0; i < t->task_count; i++) in_flight += t->tasks[i].in_flight;
  double pace = t->ended > 0 ? (now(t) - t->started) / (double)t->ended : (double)INFINITY;
  return in_flight >= tn_builder_slots(t->builder) + 2 * t->runner_count && (double)in_flight * pace > seconds_ahead;
}

static tn_status *note_asked(task *a, const tn__proposal *p) {
  if (p->index >= a->asked_capacity) {
    int capacity = 2 * p->index + 64;
    void *grown = realloc((void *)a->asked, (size_t)capacity * sizeof a->asked[0]);
    if (grown == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the candidates of a task");
    a->asked = grown;
    for (int i = a->asked_capacity; i < capacity; i++) a->asked[i] = NULL;
    a->asked_capacity = capacity;
  }
  a->asked[p->index] = p;
  return NULL;
}

/* A proposal of the task that deserves it most; where it has none, as they are made beside, of another. NULL: `waits`
 * tells whether there will be one. */
static const tn__proposal *take_proposal(tn__tuner *t, task **out, bool *waits) {
  *waits = false;
  for (task *a; !is_over(t) && (a = choose_task(t, false)) != NULL;) {
    int index = index_of(t, a);
    const tn__proposal *p = NULL;
    fail(t, tn__proposer_next(t->proposer, index, &p));
    if (p == NULL && tn__proposer_state_of(t->proposer, index) == TN__PROPOSER_EXHAUSTED) {
      a->exhausted = true;
      continue;
    }
    task *other = p == NULL ? choose_task(t, true) : NULL;
    if (other != NULL) fail(t, tn__proposer_next(t->proposer, index_of(t, a = other), &p));
    if (p != NULL) fail(t, note_asked(a, p));
    *out = a;
    *waits = p == NULL && t->failure == NULL;
    return t->failure == NULL ? p : NULL;
  }
  return NULL;
}

static tn_source_answer next_candidate(tn__tuner *t, tn_build_input *input) {
  task *a = NULL;
  bool waits;
  t->stopping |= t->options.stopping != NULL && t->options.stopping(t->options.user);
  if (!is_over(t) && is_far_ahead(t)) return TN_SOURCE_WAIT;
  const tn__proposal *p = take_proposal(t, &a, &waits);
  if (p == NULL && waits) return TN_SOURCE_WAIT;
  if (p == NULL) {
    if (!is_over(t)) t->end = TN_TUNER_NOTHING_LEFT;
    return TN_SOURCE_END;
  }
  a->in_flight++;
  t->asked++;
  *input = (tn_build_input){.id = (uint64_t)index_of(t, a) << PROPOSAL_BITS | (uint64_t)p->index,
                            .task = &a->item->task,
                            .schedule = p->trace,
                            .slow_seconds = slow_seconds(a)};
  return TN_SOURCE_CANDIDATE;
}

static tn_source_answer next(void *user, tn_build_input *input) {
  tn__tuner *t = user;
  double begin = now(t);
  tn_source_answer answer = next_candidate(t, input);
  t->overhead.search += now(t) - begin;
  return answer;
}

static tn_status *note_course(task *a, double best) {
  if (a->course.count == a->course.capacity) {
    int capacity = a->course.capacity > 0 ? 2 * a->course.capacity : 64;
    void *grown = realloc(a->course.best, (size_t)capacity * sizeof(double));
    if (grown == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the course of a task");
    a->course.best = grown;
    a->course.capacity = capacity;
  }
  a->course.best[a->course.count++] = best;
  return NULL;
}

static void note_gain(const tn__tuner *t, task *a) {
  enum { HUNDREDTH = 100 };
  double best = a->best_seconds;
  if (best < a->gained_from * (1 - 1.0 / HUNDREDTH)) {
    a->gained_from = best;
    a->without_gain = 0;
  } else if (++a->without_gain >= t->options.patience) {
    a->stopped = true;
  }
  if (t->options.kind != TN__SEARCH_ALL && !isfinite(best) && a->trials >= HOPELESS) a->stopped = true;
}

static tn_status *keep_record(tn__tuner *t, const task *a, const tn__proposal *p, const tn_measure_result *result) {
  const tn__tuner_record record = {.task = &a->item->task,
                                   .trial = p->index,
                                   .origin = p->index == 0 ? "static" : "search",
                                   .rule = p->rule,
                                   .decisions = p->decisions,
                                   .trace = p->trace,
                                   .predicted = p->predicted,
                                   .result = result};
  return t->sink.add != NULL ? t->sink.add(t->sink.user, &record) : NULL;
}

static tn_status *keep(tn__tuner *t, const task *a, const tn__proposal *p, const tn_measure_result *result) {
  double begin = now(t);
  tn_status *status = keep_record(t, a, p, result);
  t->overhead.database += now(t) - begin;
  return status;
}

static void done(void *user, const tn_build_input *input, const tn_measure_result *result) {
  tn__tuner *t = user;
  task *a = &t->tasks[input->id >> PROPOSAL_BITS];
  const tn__proposal *p = a->asked[input->id & UINT32_MAX];
  a->in_flight--;
  if (result->error == TN_TRIAL_CANCELLED) return; /* it is as if it had not been asked for */
  t->ends[t->ended++ % PACE] = now(t);
  if (result->error == TN_TRIAL_OK) {
    a->timed++;
    a->run_seconds += result->run.seconds;
    a->build_seconds += result->build.seconds;
  }
  a->trials++;
  a->errors[result->error]++;
  bool ok = result->error == TN_TRIAL_OK;
  if (!ok && a->first_error == NULL) a->first_error = strdup(result->message);
  double median = ok ? result->run.median : (double)INFINITY;
  note_time(a, p, median);
  double begin = now(t);
  fail(t, tn__proposer_tell(t->proposer, index_of(t, a), p->index, median));
  t->overhead.search += now(t) - begin;
  fail(t, keep(t, a, p, result));
  fail(t, note_course(a, a->best_seconds));
  note_gain(t, a);
  if (t->stopping_now) tn_measurer_stop(t->measurer, true);
}

/* ---- the comparison in the end ----------------------------------------------------------------------------------- */

static void compare_next(tn__tuner *t);

static void compared(void *user, const tn__comparison_result *result) {
  tn__tuner *t = user;
  task *a = t->in_comparison;
  t->compared++;
  t->in_comparison = NULL;
  t->last_comparison = now(t);
  a->compared = result->turns > 0;
  a->chosen = a->rivals[result->best];
  a->better = result->better;
  a->ratio = result->ratio;
  memcpy(a->in_turns, result->medians, sizeof a->in_turns);
  if (t->sink.compared != NULL && a->compared)
    fail(t, t->sink.compared(t->sink.user, &a->item->task,
                             &(tn__compared){.first = tn__search_at(a->search, 0),
                                             .best = a->chosen,
                                             .medians = {result->medians[0], result->medians[1]},
                                             .ratio = a->ratio,
                                             .better = a->better}));
  compare_next(t);
}

enum { SLOW_RIVALS = 2 }; /* of a task whose kernel takes long: the static choice and the best */
static bool is_slow(const task *a) { return a->static_seconds > 0.5; }

/* The static choice, and the best that were measured. */
static int choose_rivals(task *a) {
  int count = 1, most = is_slow(a) ? SLOW_RIVALS : TN__COMPARISON_MOST;
  a->rivals[0] = tn__search_at(a->search, 0);
  for (int i = 1; i < tn__search_count(a->search); i++) {
    const tn__proposal *p = tn__search_at(a->search, i);
    if (!(p->median < a->static_seconds)) continue;
    int at = count < most ? count++ : count; /* sorted by their times, the slowest may fall out */
    for (; at > 1 && a->rivals[at - 1]->median > p->median; at--)
      if (at < most) a->rivals[at] = a->rivals[at - 1];
    if (at < most) a->rivals[at] = p;
  }
  return count;
}

/* What a run of all gains by the task's best, as far as it is known: 0 where that is not worth a comparison. */
static double hoped_gain(const task *a) {
  enum { WORTH = 99 }; /* of a hundred parts of the static choice's time */
  double best = a->best_seconds;
  if (a->tried || !isfinite(a->static_seconds) || !(100 * best < WORTH * a->static_seconds)) return 0;
  return a->item->weight * (a->static_seconds - best);
}

/* As far as it is known: what was measured before the static choice was may be missing. */
static int count_rivals(const task *a) {
  int most = is_slow(a) ? SLOW_RIVALS : TN__COMPARISON_MOST;
  return a->faster + 1 < most ? (int)a->faster + 1 : most;
}

/* Each schedule is built once and run in each turn, which takes what the task's trials took; before there are any, what
 * a runner takes by default: warming up and repeats, or one long call. */
static double comparison_seconds(const task *a) {
  const double usual = 0.055;
  double run = a->timed > 0 ? a->run_seconds / (double)a->timed : fmax(usual, a->static_seconds);
  double build = a->timed > 0 ? a->build_seconds / (double)a->timed : 0;
  return count_rivals(a) * (build + TN__COMPARISON_TURNS * run);
}

/* Seconds that the comparisons that there are now would take. */
static double time_to_compare(const tn__tuner *t) {
  double expected = 0, behind = 0;
  for (int i = 0; i < t->task_count && !t->options.no_comparison; i++) {
    const task *a = &t->tasks[i];
    if (hoped_gain(a) > 0) expected += comparison_seconds(a);
    if (a->tried && a != t->in_comparison) behind += comparison_seconds(a);
  }
  return behind > 0 ? expected * (t->last_comparison - t->trials_end) / behind : expected;
}

/* The next comparison, where most is to be gained; none when the time is over. */
static void compare_next(tn__tuner *t) {
  task *a = NULL;
  for (int i = 0; i < t->task_count; i++)
    if (hoped_gain(&t->tasks[i]) > (a != NULL ? hoped_gain(a) : 0)) a = &t->tasks[i];
  bool over = t->stopping_now || comparisons_left(t) <= (t->compared > 0 ? 0 : -grace_seconds);
  if (a == NULL || over || t->options.no_comparison) {
    set_done(t);
    return;
  }
  tn__comparison_release(t->comparison);
  t->comparison = NULL;
  tn__comparison_words words = {
      .builder = t->builder, .runner = t->runners[0], .task = &a->item->task, .done = compared, .user = t};
  words.count = choose_rivals(a);
  for (int i = 0; i < words.count; i++) words.traces[i] = a->rivals[i]->trace;
  a->tried = true;
  t->in_comparison = a;
  fail(t, tn__comparison_start(&words, &t->comparison));
  if (t->failure != NULL) set_done(t);
}

static void trials_ended(void *user) {
  tn__tuner *t = user;
  if (t->phase != TN__TUNER_TRIALS) return;
  t->phase = TN__TUNER_COMPARING;
  t->trials_end = t->last_comparison = now(t);
  t->overhead.beside = tn__proposer_seconds(t->proposer);
  fail(t, tn__proposer_finish(t->proposer));
  if (t->sink.learned != NULL) fail(t, t->sink.learned(t->sink.user, &t->tasks[0].item->task, t->model));
  for (int i = 0; i < t->task_count; i++) /* whatever works is better than what fails */
    t->tasks[i].better = t->tasks[i].static_failed && isfinite(t->tasks[i].best_seconds);
  if (t->options.no_comparison) {
    for (int i = 0; i < t->task_count; i++) t->tasks[i].better = t->tasks[i].best_seconds < t->tasks[i].static_seconds;
  }
  compare_next(t);
}

/* ---- making and releasing ---------------------------------------------------------------------------------------- */

static tn_status *open_task(tn__tuner *t, int index, const tn__task_item *item) {
  task *a = &t->tasks[index];
  *a = (task){.item = item, .best_seconds = INFINITY, .static_seconds = INFINITY, .gained_from = INFINITY, .ratio = 1};
  TN_RETURN_IF_ERROR(tn__space_open(&item->task, &a->space));
  if (t->options.space > 0) TN_RETURN_IF_ERROR(tn__space_restrict(a->space, t->options.space));
  TN_RETURN_IF_ERROR(
      tn__search_create(a->space, t->model, t->options.kind, t->options.seed + (uint64_t)index, &a->search));
  if (t->sink.known == NULL) return NULL;
  TN_RETURN_IF_ERROR(t->sink.known(t->sink.user, &item->task, a->search));
  for (int i = 0; i < tn__search_count(a->search); i++) {
    const tn__proposal *p = tn__search_at(a->search, i);
    a->trials += !isnan(p->median);
    if (!isnan(p->median)) note_time(a, p, p->median);
  }
  t->known += a->trials;
  a->gained_from = a->best_seconds;
  return NULL;
}

static tn_status *open_tasks(tn__tuner *t, const tn__task_list *list) {
  TN_RETURN_IF_ERROR(tn__model_create(&t->model));
  for (int i = 0; i < t->task_count; i++) {
    tn_status *status = open_task(t, i, tn__tasks_at(list, i));
    if (status != NULL) return tn_status_prefix(status, "%s", tn__tasks_at(list, i)->task.name);
  }
  if (t->sink.learn == NULL || t->options.kind != TN__SEARCH_EVOLUTION) return NULL;
  TN_RETURN_IF_ERROR(t->sink.learn(t->sink.user, &tn__tasks_at(list, 0)->task, t->model));
  tn__model_begin(t->model);
  return NULL;
}

static tn_status *check(const tn__tuner_options *o) {
  if (!(o->budget_seconds >= 0) || !isfinite(o->budget_seconds) || o->trials < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "a budget is above zero, in seconds or trials");
  if (o->target_speedup != 0 && !(o->target_speedup > 1))
    return tn_status_create(TN_INVALID_ARGUMENT, "a speedup to reach is above 1, not %g", o->target_speedup);
  if (o->patience < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "patience is a number of trials, not %d", o->patience);
  return NULL;
}

tn_status *tn__tuner_create(const tn__task_list *list, const tn__tuner_sink *sink, const tn__tuner_options *options,
                            tn__tuner **out) {
  *out = NULL;
  void *memory, *tasks;
  TN_RETURN_IF_ERROR(check(options));
  int count = tn__tasks_count(list);
  if (count == 0) return tn_status_create(TN_INVALID_ARGUMENT, "there is nothing to tune: no kernel of known sizes");
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__tuner), 0, &memory));
  tn__tuner *t = memory;
  *t = (tn__tuner){.sink = *sink, .options = *options, .task_count = count};
  if (t->options.patience == 0) t->options.patience = USUAL_PATIENCE;
  if (t->options.clock == NULL) t->options.clock = monotonic;
  tn_status *status = tn__alloc(NULL, (size_t)count, sizeof(task), 0, &tasks);
  if (status == NULL) {
    t->tasks = tasks;
    status = open_tasks(t, list);
  }
  if (status != NULL) {
    tn__tuner_release(t);
    return status;
  }
  *out = t;
  return NULL;
}

void tn__tuner_release(tn__tuner *t) {
  if (t == NULL) return;
  t->stopping = t->stopping_now = true;
  tn__comparison_release(t->comparison);
  tn_measurer_release(t->measurer);
  tn__proposer_release(t->proposer);
  for (int i = 0; t->tasks != NULL && i < t->task_count; i++) {
    tn__search_release(t->tasks[i].search);
    tn__space_close(t->tasks[i].space);
    free(t->tasks[i].course.best);
    free(t->tasks[i].first_error);
    free((void *)t->tasks[i].asked);
  }
  tn__free(NULL, t->tasks, (size_t)t->task_count * sizeof(task), 0);
  tn__model_release(t->model);
  tn_status_free(t->failure);
  tn__free(NULL, t, sizeof *t, 0);
}

static tn_status *start_proposer(tn__tuner *t) {
  tn__search **searches = calloc((size_t)t->task_count, sizeof(tn__search *));
  if (searches == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %d tasks", t->task_count);
  for (int i = 0; i < t->task_count; i++) searches[i] = t->tasks[i].search;
  const tn__proposer_words words = {.searches = searches,
                                    .count = t->task_count,
                                    .ready = t->options.ready,
                                    .user = t->options.user,
                                    .cores = t->options.cores,
                                    .core_count = t->options.core_count};
  tn_status *status = tn__proposer_start(&words, &t->proposer);
  free(searches);
  return status;
}

void tn__tuner_wake(tn__tuner *t) {
  if (t->measurer != NULL && t->phase == TN__TUNER_TRIALS) tn_measurer_wake(t->measurer);
}

tn_status *tn__tuner_start(tn__tuner *t, tn_builder *builder, tn_runner *const *runners, int count) {
  const tn_measure_source source = {next, done, t};
  const tn_measure_options options = {.size = sizeof options,
                                      .mode = t->options.mode,
                                      .window = t->options.window,
                                      .round = t->options.round,
                                      .exclusive = t->options.exclusive,
                                      .clock = t->options.clock,
                                      .clock_user = t->options.clock_user,
                                      .idle = trials_ended,
                                      .user = t};
  t->builder = builder;
  t->runners = runners;
  t->runner_count = count;
  TN_RETURN_IF_ERROR(start_proposer(t));
  TN_RETURN_IF_ERROR(tn_measurer_create(builder, runners, count, &source, &options, &t->measurer));
  t->started = now(t);
  tn_measurer_start(t->measurer);
  return NULL;
}

void tn__tuner_stop(tn__tuner *t, bool at_once) {
  t->stopping = true;
  t->stopping_now |= at_once;
  if (t->phase == TN__TUNER_TRIALS)
    tn_measurer_stop(t->measurer, at_once);
  else if (at_once && t->phase == TN__TUNER_COMPARING) {
    tn__comparison_release(t->comparison);
    t->comparison = NULL;
    set_done(t);
  }
}

void tn__tuner_tick(tn__tuner *t) {
  if (comparisons_left(t) >= -grace_seconds) return; /* no budget, or it is not passed */
  if (t->phase == TN__TUNER_TRIALS) {
    if (t->end == TN_TUNER_WORKS) t->end = TN_TUNER_BUDGET;
    tn_measurer_stop(t->measurer, true);
  } else if (t->phase == TN__TUNER_COMPARING) {
    tn__comparison_release(t->comparison);
    t->comparison = NULL;
    set_done(t);
  }
}

/* ---- what there is to see ---------------------------------------------------------------------------------------- */

void tn__tuner_fail(tn__tuner *t, tn_status *status) {
  fail(t, status);
  tn__tuner_stop(t, true);
}

tn__tuner_phase tn__tuner_phase_of(const tn__tuner *t) { return t->phase; }

/* What stopped it later, in the comparisons, counts. */
tn_tuner_end tn__tuner_end_of(const tn__tuner *t) {
  if (t->failure != NULL) return TN_TUNER_FAILED;
  if (t->stopping_now) return TN_TUNER_STOPPED_AT_ONCE;
  return t->end == TN_TUNER_WORKS && t->stopping ? TN_TUNER_STOPPED : t->end;
}

bool tn__tuner_is_done(const tn__tuner *t) { return t->phase == TN__TUNER_DONE; }
const tn_status *tn__tuner_failure(const tn__tuner *t) { return t->failure; }
int tn__tuner_task_count(const tn__tuner *t) { return t->task_count; }

/* What both took in turns says more than what each took when it came. */
static double first_time(const task *a) { return a->compared ? a->in_turns[0] : a->static_seconds; }
static double last_time(const task *a) {
  if (!a->compared) return a->best_seconds;
  return a->in_turns[a->better ? 1 : 0];
}

tn__tuner_view tn__tuner_view_of(const tn__tuner *t, int index) {
  const task *a = &t->tasks[index];
  tn__tuner_view view = {.item = a->item,
                         .trials = a->trials,
                         .static_seconds = first_time(a),
                         .best_seconds = last_time(a),
                         .stopped = !may_have_more(a),
                         .compared = a->compared,
                         .better = a->better,
                         .best = a->chosen != NULL ? a->chosen : a->best,
                         .ratio = a->ratio,
                         .error_counts = a->errors,
                         .first_error = a->first_error,
                         .search = a->search,
                         .space = a->space};
  memcpy(view.errors, a->errors, sizeof view.errors);
  return view;
}

void tn__tuner_totals(const tn__tuner *t, double *before, double *after) {
  int count = 0;
  *before = *after = 0;
  for (int i = 0; i < t->task_count; i++) {
    const task *a = &t->tasks[i];
    if (a->static_failed) continue;
    *before += a->item->weight * first_time(a);
    /* In the end only what is taken counts: the best of many measurements may be luck. */
    *after += a->item->weight * (t->phase == TN__TUNER_DONE && !a->better ? first_time(a) : last_time(a));
    count++;
  }
  if (count == 0) *before = *after = INFINITY;
}

/* Seconds from one trial's end to the next one's. */
static double pace(const tn__tuner *t) {
  int64_t back = t->ended < PACE ? t->ended - 1 : PACE - 1;
  return (t->ends[(t->ended - 1) % PACE] - t->ends[(t->ended - 1 - back) % PACE]) / (double)back;
}

double tn__tuner_time_left(const tn__tuner *t) {
  if (t->phase == TN__TUNER_DONE) return 0;
  double left = INFINITY, comparing = time_to_compare(t);
  if (t->phase == TN__TUNER_COMPARING)
    left = comparing;
  else if (t->options.trials > 0 && t->ended > 1)
    left = (double)(t->options.trials - t->known - t->ended) * pace(t) + comparing;
  if (t->options.budget_seconds > 0)
    left = fmin(left, t->phase == TN__TUNER_COMPARING ? comparisons_left(t) : budget_left(t));
  return fmax(left, 0);
}

double tn__tuner_spent(const tn__tuner *t) { return (t->phase == TN__TUNER_DONE ? t->done_at : now(t)) - t->started; }

int64_t tn__tuner_known(const tn__tuner *t) { return t->known; }

double tn__tuner_cost(const tn__tuner *t, const tn_build_input *candidate) {
  const task *a = t->tasks;
  while (&a->item->task != candidate->task) a++;
  bool measuring = t->phase == TN__TUNER_TRIALS; /* others may be in the making then */
  for (int i = (measuring ? a->asked_capacity : tn__search_count(a->search)) - 1; i >= 0; i--) {
    const tn__proposal *p = measuring ? a->asked[i] : tn__search_at(a->search, i);
    if (p == NULL || (p->trace != candidate->schedule && strcmp(p->trace, candidate->schedule) != 0)) continue;
    if (p->point.rule < 0) return NAN;
    return tn__space_weigh(a->space, &p->point).cycles / (1e6 * a->space->target.cpu.machine.core.megahertz);
  }
  return NAN;
}

tn_status *tn__tuner_statistics(const tn__tuner *t, tn_measure_statistics *out) {
  TN_RETURN_IF_ERROR(tn_measurer_statistics(t->measurer, out));
  double all = out->seconds, of_trials = t->trials_end - t->started;
  if (t->phase == TN__TUNER_TRIALS || of_trials <= 0) return NULL;
  out->seconds = of_trials; /* while the best are compared nothing is measured */
  out->builder_share *= all / of_trials;
  out->runner_share *= all / of_trials;
  return NULL;
}

tn__tuner_overhead tn__tuner_overhead_of(const tn__tuner *t) {
  tn__tuner_overhead overhead = t->overhead;
  bool trials = t->phase == TN__TUNER_TRIALS;
  if (trials && t->proposer != NULL) overhead.beside = tn__proposer_seconds(t->proposer);
  overhead.wall = (trials ? now(t) : t->trials_end) - t->started;
  return overhead;
}

tn_status *tn__tuner_accuracy(const tn__tuner *t, int index, tn__accuracy *out) {
  const tn__search *search = t->tasks[index].search;
  size_t count = t->phase == TN__TUNER_TRIALS ? 0 : (size_t)tn__search_count(search);
  double *times = malloc((2 * count + 1) * sizeof *times);
  if (times == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory to compare %zu times", count);
  for (size_t i = 0; i < count; i++) {
    times[i] = tn__search_at(search, (int)i)->predicted;
    times[count + i] = tn__search_at(search, (int)i)->median;
  }
  tn_status *status = tn__accuracy_of(times, times + count, (int)count, out);
  free(times);
  return status;
}
