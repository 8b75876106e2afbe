/* A worker's answers, and the CPU time in which a candidate has to get one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "tune/worker/internal.h"

void tn__worker_send(tn__worker *w) {
  tn_status *status = tn__message_end(&w->out);
  if (status != NULL) {
    fprintf(stderr, "%s\n", tn_status_message(status));
    abort();
  }
  for (size_t at = 0; at < w->out.size;) {
    ssize_t written = write(TN__MESSAGE_FD, w->out.data + at, w->out.size - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) exit(EXIT_FAILURE); /* there is no tuner any more */
    at += (size_t)written;
  }
}

static void set_cpu_limit(double seconds) {
  struct itimerval timer = {
      .it_value = {.tv_sec = (time_t)seconds, .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};
  setitimer(ITIMER_PROF, &timer, NULL); /* SIGPROF ends the process */
}

void tn__worker_prepared(tn__worker *w, uint64_t trial) {
  tn__message_begin(&w->out, TN__MESSAGE_PREPARED);
  tn__message_u64(&w->out, trial);
  tn__worker_send(w);
  if (w->setup.cpu_seconds > 0) set_cpu_limit(w->setup.cpu_seconds);
}

void tn__worker_candidate_done(void) { set_cpu_limit(0); }
