/* The measurer: candidates from a source, through a builder and runners, back to the source.
 *
 * Whatever happens (a result, a wake-up, a start) is noted first and acted upon by advance(), which is never entered
 * twice: callbacks that come while it works only make it go round once more. All calls out are made in it, so that it
 * is also where a measurer that was released meanwhile ends. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/clock.h"
#include "base/filled.h"
#include "base/options.h"
#include "tenon/tune.h"

enum { USUAL_WINDOW = 16, USUAL_ROUND = 64, MOST_RUNNERS = 1024, MOST_ROUND = 65536 };

typedef enum trial_state { ASKED, BUILDING, BUILT, RUNNING, ENDED } trial_state;

typedef struct trial trial;
struct trial {
  trial *next; /* in the measurer's list, in the order in which they were asked for */
  tn_measurer *measurer;
  trial_state state;
  tn_build_input input;
  tn_trial_handle handle; /* with the builder or the runner */
  tn_measure_result result;
  char *message; /* owned, as is result.build.code */
};

struct tn_measurer {
  tn_builder *builder;
  tn_runner **runners;
  int runner_count;
  tn_measure_source source;
  tn_measure_options options; /* filled in */
  trial *first, *last;        /* in flight, and those of a round that have ended and are not told yet */
  int counts[ENDED + 1];      /* of trials, by state */
  int round_left;             /* to be asked for in this round */
  bool started, waits, source_ended, stopped, cancelled, told_idle, releasing;
  bool advancing, again;
  bool paused; /* the builder */
  int slots;   /* of all runners */
  double start_time;
  tn_measure_statistics statistics;
};

static double monotonic(void *user) { return tn__now(); }

static double now(const tn_measurer *m) { return m->options.clock(m->options.clock_user); }

/* ---- making and releasing ---------------------------------------------------------------------------------------- */

static tn_status *check(const tn_measure_options *o) {
  if (o->mode < TN_MEASURE_ASYNC || o->mode > TN_MEASURE_BLOCKING)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "there is no mode of measuring %d: async, batched, blocking are 0 to 2", (int)o->mode);
  if (o->window < 0 || o->window > MOST_ROUND)
    return tn_status_create(TN_INVALID_ARGUMENT, "the window is of 1 to %d candidates, not %d", MOST_ROUND, o->window);
  if (o->round < 0 || o->round > MOST_ROUND)
    return tn_status_create(TN_INVALID_ARGUMENT, "a round has 1 to %d candidates, not %d", MOST_ROUND, o->round);
  return NULL;
}

tn_status *tn_measurer_create(tn_builder *builder, tn_runner *const *runners, int runner_count,
                              const tn_measure_source *source, const tn_measure_options *options, tn_measurer **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("builder", builder);
  TN__NEED("source", source);
  tn_measure_options filled;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_measure_options, options, &filled));
  TN_RETURN_IF_ERROR(check(&filled));
  if (source->next == NULL || source->done == NULL)
    return tn_status_create(TN_INVALID_ARGUMENT, "a measurer needs a builder, and a source that has both functions");
  if (runner_count < 1 || runner_count > MOST_RUNNERS)
    return tn_status_create(TN_INVALID_ARGUMENT, "a measurer has 1 to %d runners, not %d", MOST_RUNNERS, runner_count);
  TN__NEED_EACH("runners", runners, "runner_count", runner_count);
  void *memory, *list;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn_measurer), 0, &memory));
  tn_measurer *m = memory;
  tn_status *status = tn__alloc(NULL, (size_t)runner_count, sizeof(tn_runner *), 0, &list);
  if (status != NULL) {
    tn__free(NULL, m, sizeof *m, 0);
    return status;
  }
  *m = (tn_measurer){.builder = builder, .runners = list, .runner_count = runner_count, .source = *source};
  memcpy(m->runners, runners, (size_t)runner_count * sizeof(tn_runner *));
  for (int i = 0; i < runner_count; i++) m->slots += tn_runner_slots(runners[i]);
  if (filled.window == 0) filled.window = USUAL_WINDOW;
  int least = tn_builder_slots(builder) > m->slots ? tn_builder_slots(builder) : m->slots;
  if (filled.window < least) filled.window = least;
  if (filled.round == 0) filled.round = USUAL_ROUND;
  if (filled.clock == NULL) filled.clock = monotonic;
  m->options = filled;
  m->round_left = filled.round;
  *out = m;
  return NULL;
}

static void free_trial(trial *t) {
  free((void *)(uintptr_t)t->result.build.code);
  free(t->message);
  free(t);
}

static void destroy(tn_measurer *m) {
  while (m->first != NULL) {
    trial *t = m->first;
    m->first = t->next;
    free_trial(t);
  }
  tn__free(NULL, m->runners, (size_t)m->runner_count * sizeof(tn_runner *), 0);
  tn__free(NULL, m, sizeof *m, 0);
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

static void set_state(trial *t, trial_state state) {
  t->measurer->counts[t->state]--;
  t->measurer->counts[state]++;
  t->state = state;
}

static char *copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy != NULL ? memcpy(copy, text, size) : NULL;
}

static void end_trial(trial *t, tn_trial_error error, const char *message) {
  if (error != TN_TRIAL_OK && message != NULL) t->message = copy_text(message);
  t->result.error = error;
  t->result.message = t->message != NULL ? t->message : "";
  t->result.build.message = t->result.build.error != TN_TRIAL_OK ? t->result.message : "";
  t->result.run.message = t->result.run.error != TN_TRIAL_OK ? t->result.message : "";
  t->result.ended = now(t->measurer);
  free((void *)(uintptr_t)t->result.build.code); /* nobody runs it any more */
  t->result.build.code = NULL;
  set_state(t, ENDED);
  tn_measure_statistics *s = &t->measurer->statistics;
  s->ended++;
  s->errors[error]++;
  t->measurer->again = true;
}

static void advance(tn_measurer *m);

static void on_built(void *user, const tn_build_input *input, const tn_build_result *result) {
  trial *t = user;
  tn_measurer *m = t->measurer;
  t->result.built = now(m);
  t->result.build = *result;
  t->result.build.code = t->result.build.trace = NULL;
  m->statistics.build_seconds += t->result.built - t->result.build_start;
  m->statistics.built++;
  if (result->error != TN_TRIAL_OK) {
    end_trial(t, result->error, result->message);
  } else {
    void *code = malloc(result->code_size > 0 ? result->code_size : 1);
    if (code == NULL) {
      end_trial(t, TN_TRIAL_HOST_COMPILE, "there is no memory to keep the code until it runs");
    } else {
      if (result->code_size > 0) memcpy(code, result->code, result->code_size);
      t->result.build.code = code;
      set_state(t, BUILT);
    }
  }
  advance(m);
}

static void on_run(void *user, const tn_build_input *input, const tn_run_result *result) {
  trial *t = user;
  tn_measurer *m = t->measurer;
  t->result.run = *result;
  m->statistics.run_seconds += now(m) - t->result.run_start;
  end_trial(t, result->error, result->message);
  advance(m);
}

/* ---- what is done next ------------------------------------------------------------------------------------------- */

static trial *oldest(const tn_measurer *m, trial_state state) {
  trial *t = m->counts[state] > 0 ? m->first : NULL;
  while (t != NULL && t->state != state) t = t->next;
  return t;
}

static bool in_rounds(const tn_measurer *m) { return m->options.mode != TN_MEASURE_ASYNC; }

static int in_flight(const tn_measurer *m) {
  return m->counts[ASKED] + m->counts[BUILDING] + m->counts[BUILT] + m->counts[RUNNING];
}

/* Is there room for another candidate? */
static bool may_ask(const tn_measurer *m) {
  if (!m->started || m->stopped || m->source_ended || m->waits) return false;
  if (in_rounds(m)) return m->round_left > 0;
  int ahead = m->counts[ASKED] + m->counts[BUILDING] + m->counts[BUILT];
  return m->counts[ASKED] + m->counts[BUILDING] < tn_builder_slots(m->builder) && ahead < m->options.window;
}

static void ask(tn_measurer *m) {
  trial *t = calloc(1, sizeof *t);
  if (t == NULL) {
    m->stopped = true; /* what is in flight is told still */
    return;
  }
  tn_source_answer answer = m->source.next(m->source.user, &t->input);
  if (answer != TN_SOURCE_CANDIDATE) {
    free(t);
    m->waits = answer == TN_SOURCE_WAIT;
    m->source_ended = answer == TN_SOURCE_END;
    m->round_left = 0; /* what there is is the round */
    return;
  }
  t->measurer = m;
  t->state = ASKED;
  t->result.runner = -1;
  t->result.asked = now(m);
  m->counts[ASKED]++;
  m->statistics.asked++;
  if (in_rounds(m)) m->round_left--;
  if (m->last != NULL)
    m->last->next = t;
  else
    m->first = t;
  m->last = t;
}

/* True: there was no room, so it is tried again when something has ended. */
static bool is_refused(trial *t, tn_status *status, trial_state before) {
  bool full = false;
  if (status != NULL && t->state != ENDED) {
    full = tn_status_code_of(status) == TN_OUT_OF_RANGE;
    if (full)
      set_state(t, before);
    else
      end_trial(t, TN_TRIAL_WORKER_LOST, tn_status_message(status));
  }
  tn_status_free(status);
  return full;
}

static void build_more(tn_measurer *m) {
  while (!m->paused && m->counts[BUILDING] < tn_builder_slots(m->builder)) {
    trial *t = oldest(m, ASKED);
    if (t == NULL) break;
    set_state(t, BUILDING);
    t->result.build_start = now(m);
    if (is_refused(t, tn_builder_submit(m->builder, &t->input, on_built, t, &t->handle), ASKED)) break;
  }
}

/* The runner with the most free slots; -1: none has one. */
static int free_runner(const tn_measurer *m) {
  int best = -1, most = 0;
  for (int i = 0; i < m->runner_count; i++) {
    int room = tn_runner_slots(m->runners[i]) - tn_runner_busy(m->runners[i]);
    if (room > most) best = i, most = room;
  }
  return best;
}

static bool may_run(const tn_measurer *m) {
  return m->options.mode != TN_MEASURE_BLOCKING || m->counts[ASKED] + m->counts[BUILDING] == 0;
}

/* With cores that both use, builds stand still while something runs. */
static void keep_apart(tn_measurer *m) {
  bool pause = m->options.exclusive && may_run(m) && m->counts[RUNNING] + m->counts[BUILT] > 0;
  if (pause == m->paused) return;
  m->paused = pause;
  tn_builder_pause(m->builder, pause);
}

static void run_more(tn_measurer *m) {
  for (int runner; may_run(m) && (runner = free_runner(m)) >= 0;) {
    trial *t = oldest(m, BUILT);
    if (t == NULL) break;
    set_state(t, RUNNING);
    t->result.run_start = now(m);
    t->result.runner = runner;
    tn_status *status = tn_runner_submit(m->runners[runner], &t->input, &t->result.build, on_run, t, &t->handle);
    if (is_refused(t, status, BUILT)) break;
  }
}

/* Tells the source what has ended: at once, or a round as a whole, in the order in which it was asked for. */
static void tell(tn_measurer *m) {
  bool round_ended = in_flight(m) == 0 && (m->round_left == 0 || m->stopped);
  if (in_rounds(m) && !round_ended) return;
  trial *before = NULL;
  for (trial *t = m->first, *next; t != NULL; t = next) {
    next = t->next;
    if (t->state != ENDED) {
      before = t;
      continue;
    }
    if (before != NULL)
      before->next = next;
    else
      m->first = next;
    if (m->last == t) m->last = before;
    m->counts[ENDED]--;
    m->waits = false; /* it knows more now */
    m->source.done(m->source.user, &t->input, &t->result);
    free_trial(t);
  }
  m->round_left = m->options.round;
}

static void cancel_all(tn_measurer *m) {
  for (trial *t = m->first; t != NULL; t = t->next) {
    if (t->state == BUILDING)
      (void)tn_builder_cancel(m->builder, t->handle);
    else if (t->state == RUNNING)
      (void)tn_runner_cancel(m->runners[t->result.runner], t->handle);
    else if (t->state != ENDED)
      end_trial(t, TN_TRIAL_CANCELLED, "measuring was stopped before it was its turn");
  }
}

static void advance_once(tn_measurer *m) {
  if (m->cancelled) cancel_all(m);
  tell(m);
  keep_apart(m);
  run_more(m); /* the device first: nothing makes up for its time */
  while (may_ask(m)) ask(m);
  build_more(m);
  (void)tn_builder_poll(m->builder); /* delivers results of synchronous builders */
  for (int i = 0; i < m->runner_count; i++) (void)tn_runner_poll(m->runners[i]);
  keep_apart(m);
}

static void advance(tn_measurer *m) {
  m->again = true;
  if (m->advancing) return;
  m->advancing = true;
  while (m->again) {
    m->again = false;
    advance_once(m);
    if (m->again || m->told_idle || !m->started || !tn_measurer_is_idle(m)) continue;
    m->told_idle = true;
    if (m->options.idle != NULL && !m->releasing) m->options.idle(m->options.user);
  }
  m->advancing = false;
  if (m->releasing && m->first == NULL) destroy(m);
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

void tn_measurer_start(tn_measurer *m) {
  if (m == NULL) return;
  if (!m->started) m->start_time = now(m);
  m->started = true;
  advance(m);
}

void tn_measurer_wake(tn_measurer *m) {
  if (m == NULL) return;
  m->waits = false;
  advance(m);
}

void tn_measurer_stop(tn_measurer *m, bool at_once) {
  if (m == NULL) return;
  m->stopped = true;
  m->cancelled |= at_once;
  advance(m);
}

void tn_measurer_release(tn_measurer *m) {
  if (m == NULL) return;
  m->releasing = true;
  tn_measurer_stop(m, true);
}

bool tn_measurer_is_idle(const tn_measurer *m) {
  if (m == NULL) return false;
  return m->first == NULL && (m->stopped || m->source_ended);
}

tn_status *tn_measurer_statistics(const tn_measurer *m, tn_measure_statistics *out) {
  TN__NEED("measurer", m);
  TN__NEED("out", out);
  TN_RETURN_IF_ERROR(tn__filled_check("tn_measure_statistics", out, sizeof *out));
  tn_measure_statistics s = m->statistics;
  s.seconds = m->started ? now(m) - m->start_time : 0;
  for (const trial *t = m->first; t != NULL; t = t->next) {
    if (t->state == BUILDING) s.build_seconds += now(m) - t->result.build_start;
    if (t->state == RUNNING) s.run_seconds += now(m) - t->result.run_start;
  }
  if (s.seconds > 0) {
    s.builder_share = s.build_seconds / (s.seconds * tn_builder_slots(m->builder));
    s.runner_share = s.run_seconds / (s.seconds * m->slots);
  }
  tn__filled_write(out, &s, sizeof s);
  return NULL;
}
