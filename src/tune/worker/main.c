/* A worker's life: it reads messages, and answers them one by one. */
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tune/worker/internal.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_MISUSED = 2 };

/* ---- the stream -------------------------------------------------------------------------------------------------- */

typedef struct input {
  uint8_t *data;
  size_t size, capacity, at;
} input;

/* False: the tuner has closed its end. */
static bool read_more(input *in) {
  enum { LEAST = 1 << 16 };
  if (in->data != NULL) memmove(in->data, in->data + in->at, in->size - in->at);
  in->size -= in->at;
  in->at = 0;
  if (in->capacity - in->size < LEAST) {
    size_t capacity = in->capacity * 2 + LEAST;
    void *grown = tn__realloc(NULL, in->data, in->capacity, capacity, 0);
    if (grown == NULL) {
      fprintf(stderr, "out of memory for a message\n");
      abort();
    }
    in->data = grown;
    in->capacity = capacity;
  }
  ssize_t count;
  do count = read(TN__MESSAGE_FD, in->data + in->size, in->capacity - in->size);
  while (count < 0 && errno == EINTR);
  if (count <= 0) return false;
  in->size += (size_t)count;
  return true;
}

/* The next message, which lies in `in` until the one after it. */
static tn__message_state next_message(input *in, tn__message_frame *frame) {
  for (;;) {
    tn__message_state state = TN__MESSAGE_PART;
    if (in->size > in->at) state = tn__message_parse(in->data + in->at, in->size - in->at, frame);
    if (state == TN__MESSAGE_WHOLE) in->at += frame->size;
    if (state != TN__MESSAGE_PART || !read_more(in)) return state;
  }
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* Beyond what the process has now: libraries and their tables are not the candidate's. */
static void limit_memory(uint64_t bytes) {
  unsigned long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file != NULL) {
    if (fscanf(file, "%llu", &pages) != 1) pages = 0;
    fclose(file);
  }
  rlim_t most = (rlim_t)(pages * (unsigned long long)sysconf(_SC_PAGESIZE) + bytes);
  setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
}

static void pin(const tn__message_setup *setup) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < setup->core_count; i++)
    if (setup->cores[i] < CPU_SETSIZE) CPU_SET(setup->cores[i], &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    fprintf(stderr, "the worker cannot be kept on its cores: %s\n", strerror(errno));
}

static void set_up(const tn__message_setup *setup) {
  if (setup->core_count > 0) pin(setup);
  if (setup->nice > 0 && nice(setup->nice) == -1) fprintf(stderr, "the worker's nice value stays as it is\n");
  if (setup->memory_bytes > 0) limit_memory(setup->memory_bytes);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static bool take_task(tn__worker *w, tn__message_reader *r) {
  tn__message_task said;
  int64_t slot = tn__message_get_int(r, 0, TN__MESSAGE_SLOTS - 1);
  if (!tn__message_get_task(r, &said)) return false;
  tn__worker_operands_close(w->tasks[slot]);
  tn__worker_task_close(w->tasks[slot]);
  w->tasks[slot] = tn__worker_task_open(&said.task);
  if (w->tasks[slot] != NULL) return true;
  fprintf(stderr, "out of memory for a task\n");
  abort();
}

static tn__worker_task *task_of(tn__worker *w, tn__message_reader *r) {
  tn__worker_task *task = w->tasks[tn__message_get_int(r, 0, TN__MESSAGE_SLOTS - 1)];
  if (task == NULL || r->bad) return NULL;
  task->used = ++w->uses;
  return task;
}

static bool take_build(tn__worker *w, tn__message_reader *r) {
  tn__worker_task *task = task_of(w, r);
  uint64_t trial = tn__message_get_u64(r);
  const char *rule = tn__message_get_text(r), *schedule = tn__message_get_text(r);
  if (task == NULL || w->setup.runs || !tn__message_got_all(r)) return false;
  tn__worker_build(w, task, trial, rule, schedule);
  return true;
}

static bool take_run(tn__worker *w, tn__message_reader *r) {
  size_t size;
  tn__worker_task *task = task_of(w, r);
  uint64_t trial = tn__message_get_u64(r);
  double slow_seconds = tn__message_get_f64(r);
  const void *code = tn__message_get_bytes(r, &size);
  if (task == NULL || !w->setup.runs || !tn__message_got_all(r)) return false;
  tn__worker_run(w, task, trial, slow_seconds, code, size);
  return true;
}

/* False: it makes no sense. */
static bool take(tn__worker *w, tn__message_frame *frame) {
  bool good = false;
  switch (frame->kind) {
    case TN__MESSAGE_TASK: return take_task(w, &frame->fields);
    case TN__MESSAGE_BUILD: good = take_build(w, &frame->fields); break;
    case TN__MESSAGE_RUN: good = take_run(w, &frame->fields); break;
    default: break;
  }
  if (good) tn__worker_send(w);
  return good;
}

static int misunderstood(void) {
  fprintf(stderr, "the tuner's message cannot be understood\n");
  return EXIT_FAILED;
}

static int serve(tn__worker *w) {
  input in = {0};
  tn__message_frame frame;
  if (next_message(&in, &frame) != TN__MESSAGE_WHOLE || frame.kind != TN__MESSAGE_SETUP) return misunderstood();
  tn__message_reader peek = frame.fields;
  bool same = tn__message_get_u64(&peek) == TN__MESSAGE_PROTOCOL;
  if (same && !tn__message_get_setup(&frame.fields, &w->setup)) return misunderstood();
  if (same) set_up(&w->setup);
  tn__message_begin(&w->out, TN__MESSAGE_READY);
  tn__message_u64(&w->out, TN__MESSAGE_PROTOCOL);
  tn__message_text(&w->out, tn_version());
  tn__worker_send(w);
  tn__message_state state;
  while ((state = next_message(&in, &frame)) == TN__MESSAGE_WHOLE)
    if (!take(w, &frame)) return misunderstood();
  return state == TN__MESSAGE_PART ? EXIT_DONE : misunderstood();
}

/* It ends with its tuner, and not by what a terminal sends to both. */
static bool follow(const char *parent) {
  static const int ignored[] = {SIGINT, SIGQUIT, SIGHUP, SIGPIPE};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  mallopt(M_ARENA_MAX, 1); /* else each thread reserves much of the memory that a candidate may have */
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) signal(ignored[i], SIG_IGN);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  return (long long)getppid() == atoll(parent);
}

int tn__worker_main(int argc, char **argv, const tn__worker_hooks *hooks) {
  static const tn__worker_hooks none = {0};
  if (argc != 2) {
    fprintf(stderr, "tenon-tune worker is started by a tuner, and not by people\n");
    return EXIT_MISUSED;
  }
  if (!follow(argv[1])) return EXIT_FAILED;
  tn__worker *w = calloc(1, sizeof *w);
  if (w == NULL) return EXIT_FAILED;
  w->hooks = hooks != NULL ? hooks : &none;
  if (w->hooks->starting != NULL) w->hooks->starting();
  int result = serve(w);
  free(w);
  return result;
}
