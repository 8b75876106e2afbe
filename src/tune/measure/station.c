#include "tune/measure/station.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/options.h"

enum { MOST_SLOTS = 1024, MOST_WAITING = 65536, INDEX_BITS = 20 };

static tn_status *fill_options(const tn__station_kind *kind, tn_station_options *o) {
  if (o->slots < 0 || o->slots > MOST_SLOTS)
    return tn_status_create(TN_INVALID_ARGUMENT, "a %s has 1 to %d slots, not %d", kind->name, MOST_SLOTS, o->slots);
  if (o->waiting < -1 || o->waiting > MOST_WAITING)
    return tn_status_create(TN_INVALID_ARGUMENT, "0 to %d submissions may wait for a %s, not %d", MOST_WAITING,
                            kind->name, o->waiting);
  if (o->slots == 0) o->slots = 1;
  if (o->waiting == 0) o->waiting = o->slots;
  if (o->waiting == -1) o->waiting = 0;
  return NULL;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* All accesses to jobs use this function, so that tests can count them. */
static tn__job *at(tn__station *s, int index) {
  s->visits++;
  return &s->jobs[index];
}

static tn__job_link *link_of(tn__station *s, const tn__job_list *list, int index) {
  tn__job *job = at(s, index);
  return list == &s->age ? &job->in_age : &job->in_row;
}

static void append(tn__station *s, tn__job_list *list, int index) {
  *link_of(s, list, index) = (tn__job_link){.before = list->last, .next = -1};
  if (list->last >= 0)
    link_of(s, list, list->last)->next = index;
  else
    list->first = index;
  list->last = index;
}

static void remove_from(tn__station *s, tn__job_list *list, int index) {
  const tn__job_link link = *link_of(s, list, index);
  if (link.before >= 0)
    link_of(s, list, link.before)->next = link.next;
  else
    list->first = link.next;
  if (link.next >= 0)
    link_of(s, list, link.next)->before = link.before;
  else
    list->last = link.before;
}

static tn_status *create(const tn__station_kind *kind, const tn_station_options *options, tn__station **out) {
  static const tn__job_list empty = {-1, -1};
  tn_station_options filled;
  void *memory, *jobs;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_station_options, options, &filled));
  TN_RETURN_IF_ERROR(fill_options(kind, &filled));
  int capacity = filled.slots + filled.waiting;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, kind->bytes, 0, &memory));
  tn_status *status = tn__alloc(NULL, (size_t)capacity, sizeof(tn__job), 0, &jobs);
  if (status != NULL) {
    tn__free(NULL, memory, kind->bytes, 0);
    return status;
  }
  tn__station *s = memory;
  *s = (tn__station){.kind = kind, .options = filled, .jobs = jobs, .capacity = capacity};
  s->age = s->queue = s->answered = s->places = empty;
  for (int i = 0; i < capacity; i++) append(s, &s->places, i);
  *out = s;
  return NULL;
}

tn_status *tn__station_create(const tn__station_kind *kind, const tn__supplied *supplied,
                              const tn_station_options *options, tn__station **out) {
  *out = NULL;
  tn_status *status = create(kind, options, out);
  if (status == NULL)
    (*out)->supplied = *supplied;
  else if (supplied->release != NULL)
    supplied->release(supplied->self);
  return status;
}

static void end(tn__station *s) {
  if (s->supplied.release != NULL) s->supplied.release(s->supplied.self);
  tn__free(NULL, s->jobs, (size_t)s->capacity * sizeof(tn__job), 0);
  tn__free(NULL, s, s->kind->bytes, 0);
}

/* After each call out of the station: it may have been released within. False: it is gone. */
static bool returned(tn__station *s) {
  if (--s->inside > 0 || !s->dead) return !s->dead;
  end(s);
  return false;
}

static tn__job *job_of(tn__station *s, tn_trial_handle handle) {
  uint64_t index = handle & (((uint64_t)1 << INDEX_BITS) - 1);
  if (index >= (uint64_t)s->capacity) return NULL;
  tn__job *job = at(s, (int)index);
  return job->state != TN__JOB_FREE && job->handle == handle ? job : NULL;
}

static int index_of(const tn__station *s, const tn__job *job) { return (int)(job - s->jobs); }

/* Ends the job. */
static void set_free(tn__station *s, tn__job *job) {
  job->state = TN__JOB_FREE;
  append(s, &s->places, index_of(s, job));
  s->used--;
}

/* Starts what waits while there are slots. False: the station is gone. */
static bool start_waiting(tn__station *s) {
  if (s->starting) return true; /* whoever is in this loop goes on */
  s->starting = true;
  while (!s->releasing && s->paused == 0 && s->queue.first >= 0 && s->busy < s->options.slots) {
    tn__job *job = at(s, s->queue.first);
    remove_from(s, &s->queue, s->queue.first);
    job->state = TN__JOB_RUNS;
    s->busy++;
    const tn__job copy = *job; /* it may end within */
    s->inside++;
    s->kind->start(s, &copy);
    if (!returned(s)) return false;
  }
  s->starting = false;
  return true;
}

/* A place is free again. False: the station is gone. */
static bool tell_drained(tn__station *s) {
  if (!s->refused || s->releasing || s->used >= s->capacity) return true;
  s->refused = false;
  if (s->options.drained == NULL) return true;
  s->inside++;
  s->options.drained(s->options.user);
  return returned(s);
}

tn_status *tn__station_submit(tn__station *s, const tn__job *words, tn_trial_handle *handle) {
  if (handle != NULL) *handle = 0;
  if (s->releasing)
    return tn_status_create(TN_FAILED_PRECONDITION, "the %s is being released and takes nothing", s->kind->name);
  if (s->used == s->capacity) {
    s->refused = true;
    return tn_status_create(TN_OUT_OF_RANGE, "the %s has %d submissions, and takes no more until one has ended",
                            s->kind->name, s->capacity);
  }
  int index = s->places.first;
  tn__job *job = at(s, index);
  remove_from(s, &s->places, index);
  *job = *words;
  job->state = TN__JOB_WAITS;
  job->handle = ++s->submitted << INDEX_BITS | (uint64_t)index;
  if (handle != NULL) *handle = job->handle;
  s->used++;
  append(s, &s->age, index);
  append(s, &s->queue, index);
  s->submitting++;
  if (start_waiting(s)) s->submitting--;
  return NULL;
}

static bool tell(tn__station *s, const tn__job *job, const void *result) {
  s->inside++;
  s->kind->tell(job, result);
  return returned(s);
}

bool tn__station_cancel(tn__station *s, tn_trial_handle handle) {
  tn__job *job = job_of(s, handle);
  if (job == NULL || job->state == TN__JOB_LEAVES) return false;
  const tn__job copy = *job;
  remove_from(s, &s->age, index_of(s, job));
  if (job->state == TN__JOB_RUNS) {
    job->state = TN__JOB_LEAVES;
  } else {
    bool waits = job->state == TN__JOB_WAITS;
    remove_from(s, waits ? &s->queue : &s->answered, index_of(s, job));
    s->busy -= !waits;
    if (!waits) free(job->kept);
    set_free(s, job);
  }
  if (!tell(s, &copy, NULL)) return true;
  if (copy.state == TN__JOB_RUNS && s->supplied.cancel != NULL) {
    s->inside++;
    s->supplied.cancel(s->supplied.self, handle);
    if (!returned(s)) return true;
  }
  if (tell_drained(s)) (void)start_waiting(s);
  return true;
}

/* Frees the job's slot. Returns false if the station was released. */
static bool end_job(tn__station *s, tn__job *job, const void *result) {
  const tn__job copy = *job;
  if (copy.state != TN__JOB_LEAVES) remove_from(s, &s->age, index_of(s, job));
  set_free(s, job);
  s->busy--;
  if (copy.state != TN__JOB_LEAVES && !tell(s, &copy, result)) return false;
  return tell_drained(s) && start_waiting(s);
}

void tn__station_finish(tn__station *s, tn_trial_handle handle, const void *result) {
  tn__job *job = job_of(s, handle);
  if (job == NULL || job->state == TN__JOB_WAITS || job->state == TN__JOB_ANSWERED) return;
  if (s->submitting > 0 && job->state == TN__JOB_RUNS) { /* no callback runs within a submission */
    job->kept = s->kind->keep(result);
    job->state = TN__JOB_ANSWERED;
    append(s, &s->answered, index_of(s, job));
    return;
  }
  if (end_job(s, job, result)) (void)tn__station_poll(s);
}

int tn__station_poll(tn__station *s) {
  int count = 0;
  if (s->polling || s->submitting > 0) return 0; /* the active poll continues */
  s->polling = true;
  while (s->answered.first >= 0) {
    tn__job *job = at(s, s->answered.first);
    void *kept = job->kept;
    remove_from(s, &s->answered, s->answered.first);
    count++;
    bool there = end_job(s, job, kept != NULL ? kept : s->kind->not_kept);
    free(kept);
    if (!there) return count;
  }
  s->polling = false;
  return count;
}

void tn__station_pause(tn__station *s, bool pause) {
  if (!pause && s->paused == 0) return;
  s->paused += pause ? 1 : -1;
  if (s->paused == (pause ? 1 : 0) && s->kind->pause != NULL) {
    s->inside++;
    s->kind->pause(s, pause);
    if (!returned(s)) return;
  }
  if (!pause) (void)start_waiting(s);
}

void tn__station_release(tn__station *s) {
  if (s->releasing) return;
  s->releasing = true;
  s->inside++;
  while (s->age.first >= 0) (void)tn__station_cancel(s, at(s, s->age.first)->handle); /* oldest first */
  s->dead = true;
  (void)returned(s);
}

/* ---- what somebody supplied tells -------------------------------------------------------------------------------- */

void tn__station_check_words(tn_trial_error *error, const char **message) {
  if (*message == NULL) *message = "";
  if ((int)*error >= TN_TRIAL_OK && (int)*error < TN_TRIAL_ERRORS) return;
  *error = TN_TRIAL_WORKER_LOST;
  *message = "the trial was answered with an error that is none";
}

void tn__station_check_time(double *seconds, tn_trial_error *error, const char **message) {
  if (*seconds >= 0 && *seconds < (double)INFINITY) return;
  *seconds = 0;
  if (*error != TN_TRIAL_OK) return;
  *error = TN_TRIAL_WORKER_LOST;
  *message = "the trial was answered with a time that is none";
}
