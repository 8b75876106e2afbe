/* Invokes in flight: a thread of the session makes them, one at a time, from the first tn_session_start() on. The
 * session stays in use until tn_session_wait(). */
#include "runtime/session/flight.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"

/* `mutex` guards what follows it. */
struct tn__flight {
  tn_session *session;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  const tn__function *given; /* to be invoked; NULL: nothing */
  bool done, ending;
  tn_status *status; /* when it is done */
};

static void *thread_main(void *own) {
  tn__flight *flight = own;
  pthread_mutex_lock(&flight->mutex);
  for (;;) {
    while (flight->given == NULL && !flight->ending) pthread_cond_wait(&flight->changed, &flight->mutex);
    if (flight->given == NULL) break;
    pthread_mutex_unlock(&flight->mutex);
    tn_status *status = tn__session_invoke_bound(flight->session, flight->given);
    pthread_mutex_lock(&flight->mutex);
    flight->given = NULL;
    flight->done = true;
    flight->status = status;
    pthread_cond_broadcast(&flight->changed);
  }
  pthread_mutex_unlock(&flight->mutex);
  return NULL;
}

static tn_status *create_flight(tn_session *session) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(session->allocator, 1, sizeof(tn__flight), 0, &memory));
  tn__flight *flight = memory;
  flight->session = session;
  pthread_mutex_init(&flight->mutex, NULL);
  pthread_cond_init(&flight->changed, NULL);
  sigset_t signals, before; /* signals are for the program's own threads */
  sigfillset(&signals);
  pthread_sigmask(SIG_SETMASK, &signals, &before);
  int error = pthread_create(&flight->thread, NULL, thread_main, flight);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error == 0) {
    pthread_setname_np(flight->thread, "tenon-session");
    session->flight = flight;
    return NULL;
  }
  pthread_cond_destroy(&flight->changed);
  pthread_mutex_destroy(&flight->mutex);
  tn__free(session->allocator, flight, sizeof(*flight), 0);
  return tn_status_create(TN_FAILED_PRECONDITION, "the operating system refused a thread for the session: %s",
                          strerror(error));
}

/* The session is in use by this call, and stays so. */
static tn_status *start(tn_session *session, const char *function) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  if (session->flight == NULL) TN_RETURN_IF_ERROR(create_flight(session));
  atomic_store(&session->in_flight, true);
  tn__flight *flight = session->flight;
  pthread_mutex_lock(&flight->mutex);
  flight->given = f;
  pthread_cond_broadcast(&flight->changed);
  pthread_mutex_unlock(&flight->mutex);
  return NULL;
}

tn_status *tn_session_start(tn_session *session, const char *function) {
  TN__NEED("session", session);
  if (!tn__session_is_entered(session)) return tn__session_in_use(session);
  tn_status *status = start(session, function);
  return status == NULL ? NULL : tn__session_leave(session, status);
}

static tn_status *nothing_started(void) {
  return tn_status_create(TN_FAILED_PRECONDITION,
                          "there is nothing to wait for: tn_session_start() comes before tn_session_wait()");
}

static tn_status *await(tn__flight *flight) {
  pthread_mutex_lock(&flight->mutex);
  while (!flight->done) pthread_cond_wait(&flight->changed, &flight->mutex);
  tn_status *status = flight->status;
  flight->done = false;
  flight->status = NULL;
  pthread_mutex_unlock(&flight->mutex);
  return status;
}

/* A callback would wait for itself. */
static bool is_own_thread(tn_session *session) {
  return atomic_load(&session->in_flight) && pthread_equal(pthread_self(), session->flight->thread);
}

tn_status *tn_session_wait(tn_session *session) {
  TN__NEED("session", session);
  if (is_own_thread(session)) return tn__session_in_use(session);
  /* Of two threads that wait one gets the status. */
  if (!atomic_exchange(&session->in_flight, false)) return TN__IN_SESSION(session, nothing_started());
  return tn__session_leave(session, await(session->flight));
}

/* Ends what is in flight, and the thread. */
static void release_flight(tn_session *session) {
  tn__flight *flight = session->flight;
  if (flight == NULL) return;
  if (atomic_exchange(&session->in_flight, false)) {
    tn_session_cancel(session);
    tn_status_free(await(flight));
  }
  pthread_mutex_lock(&flight->mutex);
  flight->ending = true;
  pthread_cond_broadcast(&flight->changed);
  pthread_mutex_unlock(&flight->mutex);
  pthread_join(flight->thread, NULL);
  pthread_cond_destroy(&flight->changed);
  pthread_mutex_destroy(&flight->mutex);
  tn__free(session->allocator, flight, sizeof(*flight), 0);
  session->flight = NULL;
}

void tn_session_release(tn_session *session) {
  if (session == NULL) return;
  release_flight(session);
  tn__session_destroy(session);
}
