/* One worker process: its stream of messages, what it last wrote to its standard error, and a time by which it must
 * have done something. */
#ifndef TENON_TUNE_POOL_PROCESS_H
#define TENON_TUNE_POOL_PROCESS_H

#include <uv.h>

#include "tune/message/message.h"

typedef struct tn__workers_process tn__workers_process;

typedef struct tn__workers_events {
  /* False: nothing more is to be read from it. It may have been dropped within. */
  bool (*message)(void *user, tn__message_frame *frame);
  void (*late)(void *user); /* the time has passed */
  void (*gone)(void *user); /* it has ended, and all that it had sent was told; it is to be dropped */
} tn__workers_events;

enum { TN__WORKERS_TAIL = 2048 };

struct tn__workers_process {
  const tn__workers_events *events;
  void *user;
  uv_process_t child;
  uv_pipe_t messages, errors;
  uv_timer_t timer;
  int open; /* handles that the loop knows of */
  bool spawned, exited, messages_ended, errors_ended, dropped, deaf, stopped, grace;
  int64_t exit_status;
  int exit_signal;
  double remaining; /* seconds, of the timer while it is stopped; 0: none runs */
  uint8_t *in;
  size_t in_size, in_capacity;
  char tail[TN__WORKERS_TAIL]; /* of standard error */
  size_t tail_size;
};

/* Returns TN_OUT_OF_MEMORY if the system cannot create a process now. A later attempt may succeed. */
TN_MUST_USE tn_status *tn__workers_process_start(uv_loop_t *loop, char *program, const tn__workers_events *events,
                                                 void *user, tn__workers_process **out);
void tn__workers_process_send(tn__workers_process *p, const tn__message *message); /* which is copied */
/* From now on it has so long; 0: as long as it likes. Time in which it is stopped does not count. */
void tn__workers_process_limit(tn__workers_process *p, double seconds);
void tn__workers_process_stop(tn__workers_process *p, bool stop);
void tn__workers_process_kill(tn__workers_process *p); /* `gone` follows */
/* Returns the CPU seconds used by all of its threads so far; negative: unknown. */
double tn__workers_process_seconds(const tn__workers_process *p);
/* Ends it, if it has not ended, and tells nothing more. Its memory is given back later. */
void tn__workers_process_drop(tn__workers_process *p);

/* The program that workers are, by what the options say, into `path`. TN_NOT_FOUND says where it was looked for. */
TN_MUST_USE tn_status *tn__workers_program(const char *given, char *path, size_t size);

#endif
