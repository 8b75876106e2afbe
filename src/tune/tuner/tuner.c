#include "tune/tuner/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/copy.h"
#include "tune/tuner/compare.h"
#include "tune/tuner/proposer.h"

enum {
  WARM_UP = 6,    /* trials of each task before trials go to the most promising tasks */
  LOOK_BACK = 16, /* recent trials whose gain predicts that of the next ones */
  PACE = 64,      /* recent trials whose pace predicts that of the next ones */
  MOST_LOST = 2,  /* repetitions of a candidate whose worker was lost */
  HOPELESS = 24,  /* failed trials of a task, without success, after which it gets no more */
  USUAL_PATIENCE = 128
};
static const double grace_seconds = 2;  /* behind the budget's end, for what is in flight */
static const double seconds_ahead = 10; /* of trials that are in flight: nobody wants to wait longer for their end */

/* A task's best after each of its trials. */
typedef struct course {
  double *best;
  int count, capacity;
} course;

/* The tuner's own state of a proposal. */
typedef struct note {
  const tn__proposal *p; /* NULL: not requested yet */
  double median;         /* a copy of tn__proposal's, which the proposer owns during trials */
  int tries;             /* trials lost with their worker */
  bool judged;           /* it was compared with the static choice */
} note;

typedef struct task {
  const tn__task_item *item;
  tn__space *space;
  tn__search *search;
  course course;
  const tn__proposal *best; /* the fastest candidate; NULL: none works yet */
  note *notes;              /* of proposals, by index */
  int note_count, note_capacity;
  int64_t trials, in_flight, without_gain;
  int64_t errors[TN_TRIAL_ERRORS];
  int64_t judged;                                   /* number of compared candidates */
  int64_t timed;                                    /* of this tuning's trials */
  double run_seconds, build_seconds;                /* spent on these */
  double best_seconds, static_seconds, gained_from; /* the best time when `without_gain` started to count */
  bool exhausted, stopped, static_failed;
  bool compared, settled;                          /* a comparison has a result; the last comparison has ended */
  const tn__proposal *rivals[TN__COMPARISON_MOST]; /* the candidates being compared, the static choice first */
  int rival_count;
  const tn__proposal *rival;  /* the fastest candidate that was not compared; NULL: none */
  const tn__proposal *winner; /* the winner of comparisons with the static choice; NULL: none */
  double ratio, in_turns[2];  /* of the winner or last comparison: ratio to the static choice; seconds of both */
  int comparisons;            /* started comparisons */
  double comparing_seconds;   /* spent on them */
  char *first_error;
} task;

/* A candidate to measure again, or later. */
typedef struct postponed {
  int task;
  const tn__proposal *p;
  double since;
} postponed;

typedef struct postponed_list {
  postponed *data;
  int count, capacity;
} postponed_list;

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
  int compared;                             /* finished comparisons */
  double comparison_began, expected, taken; /* of the current comparison; of all: estimated and actual seconds */
  postponed_list lost;                      /* candidates whose worker was lost */
  postponed_list elsewhere;                 /* candidates that another tuner measures */
  int64_t asked, known, ended;
  double ends[PACE]; /* when the last trials ended, trial i at i % PACE, excluding the time of comparisons */
  double started, trials_end, done_at;
  double between_trials; /* seconds of comparisons before the trials ended */
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

/* Ensures that the proposal has a note. */
static tn_status *note_proposal(task *a, const tn__proposal *p) {
  if (p->index >= a->note_capacity) {
    int capacity = 2 * p->index + 64;
    void *grown = realloc(a->notes, (size_t)capacity * sizeof a->notes[0]);
    if (grown == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the candidates of a task");
    a->notes = grown;
    for (int i = a->note_capacity; i < capacity; i++) a->notes[i] = (note){.median = NAN};
    a->note_capacity = capacity;
  }
  if (p->index >= a->note_count) a->note_count = p->index + 1;
  a->notes[p->index].p = p;
  return NULL;
}

static note *note_of(const task *a, const tn__proposal *p) { return &a->notes[p->index]; }

/* Returns whether a comparison may include the candidate. */
static bool is_open(const note *n) { return n->p != NULL && n->p->index > 0 && isfinite(n->median) && !n->judged; }

static void find_rival(task *a) {
  a->rival = NULL;
  for (int i = 1; i < a->note_count; i++)
    if (is_open(&a->notes[i]) && (a->rival == NULL || a->notes[i].median < note_of(a, a->rival)->median))
      a->rival = a->notes[i].p;
}

/* Remembers what a proposal took. */
static void note_time(task *a, const tn__proposal *p, double median) {
  note *n = note_of(a, p);
  n->median = median;
  if (is_open(n) && (a->rival == NULL || median < note_of(a, a->rival)->median)) a->rival = p;
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
static void add_up(const tn__tuner *t, bool shown, double *before, double *after);

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
    add_up(t, !t->options.no_comparison, &before, &after);
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

static int64_t count_in_flight(const tn__tuner *t) {
  int64_t in_flight = 0;
  for (int i = 0; i < t->task_count; i++) in_flight += t->tasks[i].in_flight;
  return in_flight;
}

/* Is enough in flight? A window of candidates that take seconds each would be built long before they run, by what was
 * known then, and all of them would be waited for in the end. Rounds have the size that they were given. */
static bool is_far_ahead(const tn__tuner *t) {
  int64_t in_flight = count_in_flight(t);
  if (t->options.mode != TN_MEASURE_ASYNC) return false;
  double pace = t->ended > 0 ? (now(t) - t->started - t->between_trials) / (double)t->ended : (double)INFINITY;
  return in_flight >= tn_builder_slots(t->builder) + 2 * t->runner_count && (double)in_flight * pace > seconds_ahead;
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
    if (p != NULL) fail(t, note_proposal(a, p));
    *out = a;
    *waits = p == NULL && t->failure == NULL;
    return t->failure == NULL ? p : NULL;
  }
  return NULL;
}

static tn_status *note_course(task *a, double best);
static void note_gain(const tn__tuner *t, task *a);

/* ---- postponed candidates ---------------------------------------------------------------------------------------- */

static tn_status *postpone(tn__tuner *t, postponed_list *list, const task *a, const tn__proposal *p) {
  if (list->count == list->capacity) {
    int capacity = 2 * list->capacity + 16;
    void *grown = realloc(list->data, (size_t)capacity * sizeof list->data[0]);
    if (grown == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for candidates");
    list->data = grown;
    list->capacity = capacity;
  }
  list->data[list->count++] = (postponed){index_of(t, a), p, now(t)};
  return NULL;
}

static postponed take_first(postponed_list *list) {
  const postponed first = list->data[0];
  tn__copy_within(list->data, list->data + 1, (size_t)--list->count * sizeof list->data[0]);
  return first;
}

/* Records the result of another tuner. */
static void take_result(tn__tuner *t, task *a, const tn__proposal *p, double median) {
  a->trials++;
  t->known++;
  note_time(a, p, median);
  fail(t, tn__proposer_tell(t->proposer, index_of(t, a), p->index, median));
  fail(t, note_course(a, a->best_seconds));
  note_gain(t, a);
}

/* Claims the candidate. Returns false if another tuner is measuring it or has measured it. */
static bool claim(tn__tuner *t, task *a, const tn__proposal *p) {
  tn__tuner_claim answer = {.state = TN__TUNER_FREE};
  if (t->sink.claim == NULL) return true;
  double begin = now(t);
  fail(t, t->sink.claim(t->sink.user, &a->item->task, p, &answer));
  t->overhead.database += now(t) - begin;
  if (t->failure != NULL) return false;
  if (answer.state == TN__TUNER_MEASURED) take_result(t, a, p, answer.seconds);
  if (answer.state == TN__TUNER_TAKEN) fail(t, postpone(t, &t->elsewhere, a, p));
  return answer.state == TN__TUNER_FREE;
}

/* Returns a postponed candidate, or NULL. A candidate claimed by others is polled once a second, or at once if
 * nothing else is left to do. */
static const tn__proposal *take_postponed(tn__tuner *t, task **out) {
  if (t->lost.count > 0) {
    const postponed first = take_first(&t->lost);
    *out = &t->tasks[first.task];
    return first.p;
  }
  const double again = 1;
  for (int left = t->elsewhere.count; left > 0 && t->end == TN_TUNER_WORKS && t->failure == NULL; left--) {
    if (now(t) - t->elsewhere.data[0].since < again && count_in_flight(t) > 0) return NULL;
    const postponed first = take_first(&t->elsewhere);
    *out = &t->tasks[first.task];
    if (claim(t, *out, first.p)) return first.p;
  }
  return NULL;
}

/* ---- the source's functions -------------------------------------------------------------------------------------- */

static task *find_due(const tn__tuner *t);
static void start_comparison(tn__tuner *t, task *a);

/* Returns whether a comparison is active or due before more trials. It starts when no trial is in flight. */
static bool compares(tn__tuner *t) {
  task *due;
  while (t->in_comparison == NULL && !is_over(t) && (due = find_due(t)) != NULL) {
    if (count_in_flight(t) > 0) return true;
    start_comparison(t, due); /* which may end immediately */
  }
  return t->in_comparison != NULL;
}

static tn_source_answer give(tn__tuner *t, task *a, const tn__proposal *p, tn_build_input *input) {
  a->in_flight++;
  *input = (tn_build_input){.id = (uint64_t)index_of(t, a) << PROPOSAL_BITS | (uint64_t)p->index,
                            .task = &a->item->task,
                            .schedule = p->trace,
                            .slow_seconds = slow_seconds(a)};
  return TN_SOURCE_CANDIDATE;
}

/* Returns whether the trials ended by number or for lack of candidates, and not for time. In that case, candidates
 * in flight whose workers are lost are still repeated. */
static bool has_time(const tn__tuner *t) { return t->end == TN_TUNER_TRIALS || t->end == TN_TUNER_NOTHING_LEFT; }

static tn_source_answer next_candidate(tn__tuner *t, tn_build_input *input) {
  task *a = NULL;
  bool waits;
  t->stopping |= t->options.stopping != NULL && t->options.stopping(t->options.user);
  if (compares(t)) return TN_SOURCE_WAIT;
  if (!is_over(t) && is_far_ahead(t)) return TN_SOURCE_WAIT;
  const tn__proposal *p = is_over(t) && !has_time(t) ? NULL : take_postponed(t, &a);
  if (p != NULL) return give(t, a, p, input);
  do {
    p = take_proposal(t, &a, &waits);
    if (p == NULL && (waits || (t->elsewhere.count > 0 && !is_over(t)))) return TN_SOURCE_WAIT;
    if (p == NULL) {
      if (!is_over(t)) t->end = TN_TUNER_NOTHING_LEFT;
      return has_time(t) && count_in_flight(t) > 0 ? TN_SOURCE_WAIT : TN_SOURCE_END;
    }
  } while (!claim(t, a, p));
  t->asked++;
  return give(t, a, p, input);
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
  const tn__proposal *p = a->notes[input->id & UINT32_MAX].p;
  bool lost = result->error == TN_TRIAL_WORKER_LOST;
  a->in_flight--;
  if (result->error == TN_TRIAL_CANCELLED) return;                  /* counts as never requested */
  if (lost && note_of(a, p)->tries++ < MOST_LOST && !t->stopping) { /* no evidence about the candidate */
    fail(t, postpone(t, &t->lost, a, p));
    return;
  }
  t->ends[t->ended++ % PACE] = now(t) - t->between_trials;
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
  double begin = now(t);
  if (!lost) {
    note_time(a, p, median);
    fail(t, tn__proposer_tell(t->proposer, index_of(t, a), p->index, median));
  }
  t->overhead.search += now(t) - begin;
  fail(t, keep(t, a, p, result));
  fail(t, note_course(a, a->best_seconds));
  note_gain(t, a);
  if (t->stopping_now) tn_measurer_stop(t->measurer, true);
}

/* ---- comparisons with the static choice -------------------------------------------------------------------------- */

enum { SLOW_RIVALS = 2 }; /* of a task whose kernel takes long: the static choice and the best */
static bool is_slow(const task *a) { return a->static_seconds > 0.5; }

/* Returns the task's time with the proven winner, scaled to the measured time of the static choice. */
static double shown_seconds(const task *a) { return a->static_seconds * (a->winner != NULL ? a->ratio : 1); }

static bool is_worth_it(double seconds, double than) {
  enum { WORTH = 99 }; /* percent */
  return 100 * seconds < WORTH * than;
}

/* Returns the time that a run gains if the task's fastest candidate, not yet compared, wins. Returns 0 if that does
 * not justify a comparison. */
static double hoped_gain(const task *a) {
  if (a->rival == NULL || a->settled || !isfinite(a->static_seconds)) return 0;
  double best = note_of(a, a->rival)->median;
  return is_worth_it(best, shown_seconds(a)) ? a->item->weight * (shown_seconds(a) - best) : 0;
}

/* Returns whether the fastest measured candidate was not compared yet. */
static bool is_led(const task *a) {
  if (a->rival == NULL || a->rival != a->best || hoped_gain(a) == 0) return false;
  return a->winner == NULL || is_worth_it(a->best_seconds, note_of(a, a->winner)->median);
}

/* Each schedule is built once and run in each turn, which takes what the task's trials took; before there are any, what
 * a runner takes by default: warming up and repeats, or one long call. */
static double comparison_seconds(const task *a, int rivals) {
  const double usual = 0.055;
  double run = a->timed > 0 ? a->run_seconds / (double)a->timed : fmax(usual, a->static_seconds);
  double build = a->timed > 0 ? a->build_seconds / (double)a->timed : 0;
  return rivals * (build + TN__COMPARISON_TURNS * run);
}

/* Selects the static choice, the current winner, and the leader. After the trials: the best candidates that were not
 * compared. */
static int choose_rivals(task *a, bool last) {
  int most = is_slow(a) ? SLOW_RIVALS : TN__COMPARISON_MOST, count = 0;
  a->rivals[count++] = a->notes[0].p;
  if (a->winner != NULL && count + 1 < most) a->rivals[count++] = a->winner;
  int first = count;
  if (!last) most = first + 1;
  for (int i = 1; i < a->note_count; i++) {
    const note *n = &a->notes[i];
    if (!is_open(n) || !(n->median < shown_seconds(a))) continue;
    int at = count < most ? count++ : count; /* sorted by time; the slowest may be dropped */
    for (; at > first && note_of(a, a->rivals[at - 1])->median > n->median; at--)
      if (at < most) a->rivals[at] = a->rivals[at - 1];
    if (at < most) a->rivals[at] = n->p;
  }
  return a->rival_count = count;
}

/* Returns how many candidates a comparison after the trials would have. */
static int count_rivals(const task *a) {
  int most = is_slow(a) ? SLOW_RIVALS : TN__COMPARISON_MOST, count = 1 + (a->winner != NULL && most > SLOW_RIVALS);
  for (int i = 1; i < a->note_count && count < most; i++)
    count += is_open(&a->notes[i]) && a->notes[i].median < shown_seconds(a);
  return count;
}

/* After the first one, comparisons of a task take at most this share of its time. */
static const double share_of_task = 0.4;

static bool may_compare(const task *a) {
  double next = comparison_seconds(a, a->winner != NULL ? 3 : 2);
  double all = a->run_seconds + a->comparing_seconds + next;
  return a->comparisons == 0 || a->comparing_seconds + next <= share_of_task * all;
}

/* Returns the task whose leader is due for a comparison; among several, the one with the largest gain. */
static task *find_due(const tn__tuner *t) {
  task *due = NULL;
  for (int i = 0; i < t->task_count && !t->options.no_comparison; i++) {
    task *a = &t->tasks[i];
    if (is_led(a) && may_compare(a) && (due == NULL || hoped_gain(a) > hoped_gain(due))) due = a;
  }
  return due;
}

static void compare_next(tn__tuner *t);

static void keep_verdict(tn__tuner *t, const task *a, const tn__proposal *p, const tn__rival_result *r) {
  const tn__compared verdict = {.first = a->notes[0].p,
                                .best = p,
                                .medians = {r->medians[0], r->medians[1]},
                                .ratio = r->ratio,
                                .turns = r->turns,
                                .better = r->better};
  if (t->sink.compared != NULL && r->turns > 0) fail(t, t->sink.compared(t->sink.user, &a->item->task, &verdict));
}

/* Keeps the winner of an earlier comparison if the new one shows no difference, because the machine may have been
 * disturbed. */
static void take_verdicts(tn__tuner *t, task *a, const tn__comparison_result *result) {
  bool with_winner = false;
  for (int i = 1; i < a->rival_count; i++) {
    const tn__proposal *p = a->rivals[i];
    note *n = note_of(a, p);
    with_winner |= p == a->winner;
    if (p == a->winner && !result->better) continue;
    a->judged += !n->judged;
    n->judged = true;
    keep_verdict(t, a, p, &result->rivals[i]);
  }
  find_rival(a);
  a->compared |= result->turns > 0;
  bool takes = result->better && (a->winner == NULL || with_winner || result->ratio < a->ratio);
  if (takes) a->winner = a->rivals[result->best];
  if (!takes && (a->winner != NULL || result->turns == 0)) return;
  a->ratio = result->ratio;
  memcpy(a->in_turns, result->medians, sizeof a->in_turns);
}

static void compared(void *user, const tn__comparison_result *result) {
  tn__tuner *t = user;
  task *a = t->in_comparison;
  double seconds = now(t) - t->comparison_began;
  t->compared++;
  t->in_comparison = NULL;
  t->expected += comparison_seconds(a, a->rival_count);
  t->taken += seconds;
  a->comparing_seconds += seconds;
  take_verdicts(t, a, result);
  if (t->phase == TN__TUNER_TRIALS) {
    t->between_trials += seconds;
    tn_measurer_wake(t->measurer);
  } else {
    a->settled = true;
    compare_next(t);
  }
}

static void start_comparison(tn__tuner *t, task *a) {
  tn__comparison_release(t->comparison);
  t->comparison = NULL;
  tn__comparison_words words = {
      .builder = t->builder, .runner = t->runners[0], .task = &a->item->task, .done = compared, .user = t};
  words.count = choose_rivals(a, t->phase != TN__TUNER_TRIALS);
  for (int i = 0; i < words.count; i++) words.traces[i] = a->rivals[i]->trace;
  a->comparisons++;
  t->in_comparison = a;
  t->comparison_began = now(t);
  tn_status *status = tn__comparison_start(&words, &t->comparison);
  if (status != NULL) t->in_comparison = NULL;
  fail(t, status);
}

/* Seconds that the comparisons that there are now would take. */
static double time_to_compare(const tn__tuner *t) {
  double expected = 0;
  for (int i = 0; i < t->task_count && !t->options.no_comparison; i++) {
    const task *a = &t->tasks[i];
    if (hoped_gain(a) > 0) expected += comparison_seconds(a, count_rivals(a));
  }
  return t->expected > 0 ? expected * t->taken / t->expected : expected;
}

/* Starts the next comparison after the trials, for the largest gain. Starts none if the time is over. */
static void compare_next(tn__tuner *t) {
  task *a = NULL;
  for (int i = 0; i < t->task_count; i++)
    if (hoped_gain(&t->tasks[i]) > (a != NULL ? hoped_gain(a) : 0)) a = &t->tasks[i];
  bool over = t->stopping_now || comparisons_left(t) <= (t->compared > 0 ? 0 : -grace_seconds);
  if (a == NULL || over || t->options.no_comparison) {
    set_done(t);
    return;
  }
  start_comparison(t, a);
  if (t->failure != NULL) set_done(t);
}

/* Ends the tuning without further comparisons. */
static void abandon(tn__tuner *t) {
  tn__comparison_release(t->comparison);
  t->comparison = NULL;
  t->in_comparison = NULL;
  set_done(t);
}

static void trials_ended(void *user) {
  tn__tuner *t = user;
  if (t->phase != TN__TUNER_TRIALS) return;
  t->phase = TN__TUNER_COMPARING;
  t->trials_end = now(t);
  t->overhead.beside = tn__proposer_seconds(t->proposer);
  fail(t, tn__proposer_finish(t->proposer));
  if (t->sink.learned != NULL) fail(t, t->sink.learned(t->sink.user, &t->tasks[0].item->task, t->model));
  if (t->in_comparison == NULL) compare_next(t); /* otherwise the end of the current comparison does this */
}

/* ---- making and releasing ---------------------------------------------------------------------------------------- */

/* Loads a verdict of an earlier tuning. */
static void take_known_verdict(void *user, const tn__known_verdict *v) {
  task *a = user;
  int index = 1;
  while (index < a->note_count && (a->notes[index].p == NULL || strcmp(a->notes[index].p->trace, v->trace) != 0))
    index++;
  if (index >= a->note_count || !isfinite(a->notes[index].median)) return;
  a->judged += !a->notes[index].judged;
  a->notes[index].judged = a->compared = true;
  if (!v->better || (a->winner != NULL && v->ratio >= a->ratio)) return;
  a->winner = a->notes[index].p;
  a->ratio = v->ratio;
  a->in_turns[0] = a->static_seconds;
  a->in_turns[1] = a->static_seconds * v->ratio;
}

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
    if (isnan(p->median)) continue;
    a->trials++;
    TN_RETURN_IF_ERROR(note_proposal(a, p));
    note_time(a, p, p->median);
  }
  /* A verdict against a different static choice does not apply. */
  if (t->sink.verdicts != NULL && isfinite(a->static_seconds))
    TN_RETURN_IF_ERROR(t->sink.verdicts(t->sink.user, &item->task, take_known_verdict, a));
  find_rival(a);
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
    free(t->tasks[i].notes);
  }
  free(t->lost.data);
  free(t->elsewhere.data);
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
  if (t->phase == TN__TUNER_TRIALS) tn_measurer_stop(t->measurer, at_once);
  if (at_once && t->phase == TN__TUNER_COMPARING) abandon(t);
}

void tn__tuner_tick(tn__tuner *t) {
  if (t->elsewhere.count > 0) tn__tuner_wake(t);
  if (comparisons_left(t) >= -grace_seconds) return; /* no budget, or it is not passed */
  if (t->phase == TN__TUNER_TRIALS) {
    if (t->end == TN_TUNER_WORKS) t->end = TN_TUNER_BUDGET;
    tn_measurer_stop(t->measurer, true);
  }
  if (t->phase == TN__TUNER_COMPARING) abandon(t);
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

/* By a comparison if there was one. Otherwise by time, because a working candidate is better than a failing one. */
static bool is_better(const tn__tuner *t, const task *a) {
  if (a->winner != NULL) return true;
  if (t->phase == TN__TUNER_TRIALS || !isfinite(a->best_seconds)) return false;
  return a->static_failed || (t->options.no_comparison && a->best_seconds < a->static_seconds);
}

/* Returns the proven winner, or else the fastest measured candidate. */
static double last_time(const tn__tuner *t, const task *a, bool shown) {
  if (a->winner != NULL && (shown || a->rival == NULL || !is_led(a))) return a->in_turns[1];
  if (!shown || (is_better(t, a) && a->winner == NULL)) return fmin(a->best_seconds, first_time(a));
  return first_time(a);
}

tn__tuner_view tn__tuner_view_of(const tn__tuner *t, int index) {
  const task *a = &t->tasks[index];
  tn__tuner_view view = {.item = a->item,
                         .trials = a->trials,
                         .static_seconds = first_time(a),
                         .best_seconds = last_time(t, a, t->phase == TN__TUNER_DONE),
                         .stopped = !may_have_more(a),
                         .exhausted = a->exhausted,
                         .compared = a->compared,
                         .better = is_better(t, a),
                         .best = a->winner != NULL ? a->winner : a->best,
                         .ratio = a->ratio,
                         .error_counts = a->errors,
                         .first_error = a->first_error,
                         .search = a->search,
                         .space = a->space};
  memcpy(view.errors, a->errors, sizeof view.errors);
  return view;
}

static void add_up(const tn__tuner *t, bool shown, double *before, double *after) {
  int count = 0;
  *before = *after = 0;
  for (int i = 0; i < t->task_count; i++) {
    const task *a = &t->tasks[i];
    if (a->static_failed) continue;
    *before += a->item->weight * first_time(a);
    *after += a->item->weight * last_time(t, a, shown);
    count++;
  }
  if (count == 0) *before = *after = INFINITY;
}

/* After the end only proven gains count, because the best of many measurements may be luck. */
void tn__tuner_totals(const tn__tuner *t, double *before, double *after) {
  add_up(t, t->phase == TN__TUNER_DONE, before, after);
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
  for (int i = (measuring ? a->note_count : tn__search_count(a->search)) - 1; i >= 0; i--) {
    const tn__proposal *p = measuring ? a->notes[i].p : tn__search_at(a->search, i);
    if (p == NULL || (p->trace != candidate->schedule && strcmp(p->trace, candidate->schedule) != 0)) continue;
    if (p->point.rule < 0) return NAN;
    return tn__space_weigh(a->space, &p->point).cycles / (1e6 * a->space->target.cpu.machine.core.megahertz);
  }
  return NAN;
}

tn_status *tn__tuner_statistics(const tn__tuner *t, tn_measure_statistics *out) {
  TN_RETURN_IF_ERROR(tn_measurer_statistics(t->measurer, out));
  double all = out->seconds, of_trials = all;
  if (t->phase != TN__TUNER_TRIALS) of_trials = t->trials_end - t->started;
  of_trials -= t->between_trials;
  if (t->in_comparison != NULL && t->phase == TN__TUNER_TRIALS) of_trials -= now(t) - t->comparison_began;
  if (of_trials <= 0) return NULL;
  out->seconds = of_trials; /* no trial runs during a comparison */
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
