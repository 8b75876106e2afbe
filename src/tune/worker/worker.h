/* What a worker process does: it builds or times the candidates that a tuner sends (tune/message). */
#ifndef TENON_TUNE_WORKER_WORKER_H
#define TENON_TUNE_WORKER_WORKER_H

#include "tenon/kernel_abi.h"
#include "tenon/tune.h"

/* For programs that test tuners: what befalls a candidate of a task. All may be NULL. */
typedef struct tn__worker_hooks {
  void (*starting)(void);
  void (*building)(const tn_tune_task *task);
  void (*running)(const tn_tune_task *task, tn_kernel *kernel); /* puts another kernel in its place */
} tn__worker_hooks;

/* Serves the tuner whose process is argv[1] until it closes the stream. Returns the program's exit status. */
int tn__worker_main(int argc, char **argv, const tn__worker_hooks *hooks);

#endif
