#include "tune/pool/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/copy.h"

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void on_close(uv_handle_t *handle) {
  tn__workers_process *p = handle->data;
  if (--p->open > 0) return;
  tn__free(NULL, p->in, p->in_capacity, 0);
  tn__free(NULL, p, sizeof *p, 0);
}

static void check_gone(tn__workers_process *p) {
  if (p->dropped || !p->exited || !p->messages_ended || !p->errors_ended) return;
  uv_timer_stop(&p->timer);
  p->events->gone(p->user);
}

/* Somebody else holds its ends of the pipes. */
static void on_rest(uv_timer_t *timer) {
  tn__workers_process *p = timer->data;
  p->messages_ended = p->errors_ended = true;
  check_gone(p);
}

static void on_exit_of(uv_process_t *child, int64_t status, int signal) {
  enum { MILLISECONDS_FOR_THE_REST = 500 };
  tn__workers_process *p = child->data;
  p->exited = true;
  p->exit_status = status;
  p->exit_signal = signal;
  if (!p->dropped) uv_timer_start(&p->timer, on_rest, MILLISECONDS_FOR_THE_REST, 0);
  check_gone(p);
}

void tn__workers_process_kill(tn__workers_process *p) {
  p->deaf = true;
  if (p->spawned && !p->exited) (void)uv_process_kill(&p->child, SIGKILL);
}

void tn__workers_process_drop(tn__workers_process *p) {
  if (p->dropped) return;
  p->dropped = true;
  if (p->spawned && !p->exited) {
    (void)uv_process_kill(&p->child, SIGKILL);
    while (waitpid(p->child.pid, NULL, 0) < 0 && errno == EINTR) continue;
  }
  uv_close((uv_handle_t *)&p->timer, on_close);
  uv_close((uv_handle_t *)&p->messages, on_close);
  uv_close((uv_handle_t *)&p->errors, on_close);
  uv_close((uv_handle_t *)&p->child, on_close);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out) {
  tn__workers_process *p = handle->data;
  enum { LEAST = 1 << 16 };
  (void)suggested;
  if (p->in_capacity - p->in_size < LEAST) {
    size_t capacity = p->in_capacity * 2 + LEAST;
    void *grown = tn__realloc(NULL, p->in, p->in_capacity, capacity, 0);
    if (grown != NULL) {
      p->in = grown;
      p->in_capacity = capacity;
    }
  }
  size_t room = p->in_capacity - p->in_size;
  *out = uv_buf_init(room > 0 ? (char *)p->in + p->in_size : NULL, (unsigned)room);
}

static void take_messages(tn__workers_process *p) {
  size_t at = 0;
  while (!p->deaf && !p->dropped) {
    tn__message_frame frame = {.kind = TN__MESSAGE_READY};
    tn__message_state state = tn__message_parse(p->in + at, p->in_size - at, &frame);
    if (state == TN__MESSAGE_PART) break;
    if (state == TN__MESSAGE_GARBLED) frame.fields.bad = true;
    at += frame.size;
    if (!p->events->message(p->user, &frame)) break;
  }
  if (p->deaf || p->dropped) return;
  p->in_size -= at;
  if (at > 0) memmove(p->in, p->in + at, p->in_size);
}

static void on_messages(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
  tn__workers_process *p = stream->data;
  (void)buffer;
  if (count > 0 && !p->deaf) {
    p->in_size += (size_t)count;
    take_messages(p);
  }
  if (count >= 0 || p->dropped) return;
  p->messages_ended = true;
  uv_read_stop(stream);
  if (count != UV_EOF && count != UV_ECONNRESET) tn__workers_process_kill(p); /* no memory to read into */
  check_gone(p);
}

static void give_tail(uv_handle_t *handle, size_t suggested, uv_buf_t *out) {
  tn__workers_process *p = handle->data;
  (void)suggested;
  if (p->tail_size > sizeof p->tail / 2) { /* what is older than that is let go */
    memmove(p->tail, p->tail + p->tail_size - sizeof p->tail / 2, sizeof p->tail / 2);
    p->tail_size = sizeof p->tail / 2;
  }
  *out = uv_buf_init(p->tail + p->tail_size, (unsigned)(sizeof p->tail - 1 - p->tail_size));
}

static void on_errors(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
  tn__workers_process *p = stream->data;
  (void)buffer;
  if (count > 0) p->tail_size += (size_t)count;
  p->tail[p->tail_size] = 0;
  if (count >= 0 || p->dropped) return;
  p->errors_ended = true;
  uv_read_stop(stream);
  check_gone(p);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct writing {
  uv_write_t request;
  size_t size;
  uint8_t bytes[];
} writing;

static void on_written(uv_write_t *request, int result) {
  writing *w = request->data;
  (void)result; /* a worker that reads nothing more has ended, which is told elsewhere */
  tn__free(NULL, w, sizeof *w + w->size, 0);
}

void tn__workers_process_send(tn__workers_process *p, const tn__message *message) {
  writing *w = tn__alloc_zeroed(NULL, sizeof *w + message->size, 0);
  if (w == NULL) {
    tn__workers_process_kill(p);
    return;
  }
  w->size = message->size;
  w->request.data = w;
  tn__copy(w->bytes, message->data, message->size);
  uv_buf_t buffer = uv_buf_init((char *)w->bytes, (unsigned)w->size);
  if (uv_write(&w->request, (uv_stream_t *)&p->messages, &buffer, 1, on_written) != 0) {
    on_written(&w->request, 0);
    tn__workers_process_kill(p);
  }
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void run_timer(tn__workers_process *p, double seconds);

/* The loop looks at the clock first and at the pipes then, and the tuner may have been at work for long: what came in
 * time is read before anything is ended. */
static void on_late(uv_timer_t *timer) {
  tn__workers_process *p = timer->data;
  const double moment = 0.02;
  if (!p->grace) {
    run_timer(p, moment);
    p->grace = true;
    return;
  }
  p->grace = false;
  p->events->late(p->user);
}

static void run_timer(tn__workers_process *p, double seconds) {
  const double longest = 1e9;
  uv_update_time(p->timer.loop);
  uv_timer_start(&p->timer, on_late, (uint64_t)((seconds < longest ? seconds : longest) * 1e3) + 1, 0);
}

void tn__workers_process_limit(tn__workers_process *p, double seconds) {
  if (p->exited || p->dropped) return;
  p->grace = false;
  p->remaining = 0;
  uv_timer_stop(&p->timer);
  if (seconds > 0 && p->stopped) p->remaining = seconds;
  if (seconds > 0 && !p->stopped) run_timer(p, seconds);
}

void tn__workers_process_stop(tn__workers_process *p, bool stop) {
  if (p->exited || p->dropped || p->stopped == stop) return;
  p->stopped = stop;
  (void)uv_process_kill(&p->child, stop ? SIGSTOP : SIGCONT);
  if (!stop) {
    if (p->remaining > 0) run_timer(p, p->remaining);
    p->remaining = 0;
  } else if (uv_is_active((uv_handle_t *)&p->timer)) {
    p->remaining = 1e-3 * (double)uv_timer_get_due_in(&p->timer) + 1e-3;
    uv_timer_stop(&p->timer);
  }
}

double tn__workers_process_seconds(const tn__workers_process *p) {
  enum { LINE = 1024 };
  char path[64], line[LINE];
  unsigned long long user = 0, system = 0;
  const double ticks = (double)sysconf(_SC_CLK_TCK);
  if (!p->spawned || p->exited) return -1;
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)p->child.pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return -1;
  const char *name_end = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
  fclose(file);
  /* After the name: the state, ten numbers, then the two wanted. */
  if (name_end == NULL || ticks <= 0 ||
      sscanf(name_end + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &user, &system) != 2)
    return -1;
  return (double)(user + system) / ticks;
}

/* ---- the start --------------------------------------------------------------------------------------------------- */

static void open_handles(tn__workers_process *p, uv_loop_t *loop) {
  uv_timer_init(loop, &p->timer);
  (void)uv_pipe_init(loop, &p->messages, 0);
  (void)uv_pipe_init(loop, &p->errors, 0);
  p->timer.data = p->messages.data = p->errors.data = p->child.data = p;
  p->open = 4;
}

tn_status *tn__workers_process_start(uv_loop_t *loop, char *program, const tn__workers_events *events, void *user,
                                     tn__workers_process **out) {
  void *memory;
  char command[] = "worker", parent[24];
  *out = NULL;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__workers_process), 0, &memory));
  tn__workers_process *p = memory;
  *p = (tn__workers_process){.events = events, .user = user};
  open_handles(p, loop);
  snprintf(parent, sizeof parent, "%lld", (long long)getpid());
  char *words[] = {program, command, parent, NULL};
  uv_stdio_container_t stdio[TN__MESSAGE_FD + 1] = {
      {.flags = UV_IGNORE},
      {.flags = UV_IGNORE},
      /* NOLINTBEGIN(clang-analyzer-optin.core.EnumCastOutOfRange): libuv's flags are bits */
      {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->errors},
      {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->messages}};
  /* NOLINTEND(clang-analyzer-optin.core.EnumCastOutOfRange) */
  const uv_process_options_t options = {
      .exit_cb = on_exit_of, .file = program, .args = words, .stdio = stdio, .stdio_count = TN__MESSAGE_FD + 1};
  int result = uv_spawn(loop, &p->child, &options);
  p->child.data = p;
  p->spawned = result == 0;
  if (result == 0) result = uv_read_start((uv_stream_t *)&p->messages, give_room, on_messages);
  if (result == 0) result = uv_read_start((uv_stream_t *)&p->errors, give_tail, on_errors);
  if (result == 0) {
    *out = p;
    return NULL;
  }
  tn__workers_process_drop(p);
  bool no_room = result == UV_EAGAIN || result == UV_ENOMEM || result == UV_EMFILE || result == UV_ENFILE;
  tn_status_code code = result == UV_ENOENT ? TN_NOT_FOUND : no_room ? TN_OUT_OF_MEMORY : TN_IO;
  return tn_status_create(code, "cannot start the worker program %s: %s", program, uv_strerror(result));
}
