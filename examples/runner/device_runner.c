/* A runner of one's own: candidates are built here and timed on a device at the other end of a pipe.
 *
 *   device_runner KERNEL.te RULE "DECISIONS" ["DECISIONS"...]
 *   device_runner gemm.te contraction "rows 6, ..." "rows 8, ..."
 *
 * The device of this example is a child process that takes code and answers with seconds; it makes them up from the
 * code's size. A real one would load the code, run it and tell how long that took: a phone behind a cable, a board with
 * a serial line. What a runner has to do stands in start_run() and on_answer(); docs/howto-runner.md tells more. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tune.h>
#include <unistd.h>
#include <uv.h>

/* ---- the device: reads "BYTES\n" and so many bytes of code, writes "SECONDS\n" ----------------------------------- */

static void device(FILE *in, FILE *out) {
  unsigned long bytes;
  while (fscanf(in, "%lu", &bytes) == 1 && fgetc(in) == '\n') {
    for (unsigned long i = 0; i < bytes; i++) fgetc(in);
    fprintf(out, "%.9f\n", 1e-9 * (double)bytes);
    fflush(out);
  }
}

/* ---- the runner -------------------------------------------------------------------------------------------------- */

typedef struct connection {
  FILE *to;
  int from;
  uv_poll_t readable;
  tn_runner *runner;
  tn_trial_handle handle; /* of what the device works on: it does one thing at a time */
} connection;

/* Called for one candidate at a time, as many as the runner has slots. It must not block: the answer comes later. */
static void start_run(void *self, tn_runner *runner, tn_trial_handle handle, const tn_build_input *input,
                      const tn_build_result *build) {
  connection *l = self;
  (void)input;
  l->runner = runner;
  l->handle = handle;
  fprintf(l->to, "%lu\n", (unsigned long)build->code_size);
  fwrite(build->code, 1, build->code_size, l->to);
  fflush(l->to);
}

/* The device has answered, or is gone. */
static void on_answer(uv_poll_t *poll, int status, int events) {
  connection *l = poll->data;
  char text[64];
  (void)events;
  ssize_t size = status == 0 ? read(l->from, text, sizeof text - 1) : 0;
  tn_run_result result = {.message = "", .calls = 1};
  if (size > 0) {
    text[size] = 0;
    result.median = result.seconds = strtod(text, NULL);
  } else {
    uv_poll_stop(poll);
    result.error = TN_TRIAL_WORKER_LOST;
    result.message = "the device does not answer any more";
  }
  tn_runner_finish(l->runner, l->handle, &result);
}

static void close_connection(void *self) {
  connection *l = self;
  uv_close((uv_handle_t *)&l->readable, NULL);
  fclose(l->to); /* which ends the device */
}

/* ---- the candidates ---------------------------------------------------------------------------------------------- */

typedef struct candidates {
  const tn_tune_task *task;
  const char *rule;
  char **decisions;
  int count, next;
} candidates;

static tn_source_answer next_candidate(void *user, tn_build_input *input) {
  candidates *c = user;
  if (c->next == c->count) return TN_SOURCE_END;
  *input =
      (tn_build_input){.id = (uint64_t)c->next, .task = c->task, .rule = c->rule, .schedule = c->decisions[c->next]};
  c->next++;
  return TN_SOURCE_CANDIDATE;
}

static void on_result(void *user, const tn_build_input *input, const tn_measure_result *result) {
  (void)user;
  if (result->error == TN_TRIAL_OK)
    printf("%s: %.0f ns\n", input->schedule, 1e9 * result->run.median);
  else
    printf("%s: %s: %s\n", input->schedule, tn_trial_error_name(result->error), result->message);
}

/* ---- all together ------------------------------------------------------------------------------------------------ */

static char *read_text(const char *path) {
  char *text = calloc(1, 65536);
  FILE *file = fopen(path, "r");
  if (file == NULL || text == NULL || fread(text, 1, 65535, file) == 0) {
    fprintf(stderr, "device_runner: cannot read %s\n", path);
    exit(1);
  }
  fclose(file);
  return text;
}

static int check(tn_status *status) {
  if (status == NULL) return 0;
  fprintf(stderr, "device_runner: %s\n", tn_status_message(status));
  exit(1);
}

int main(int argc, char **argv) {
  int there[2], back[2];
  if (argc < 4) {
    fprintf(stderr, "usage: device_runner KERNEL.te RULE DECISIONS...\n");
    return 2;
  }
  if (pipe(there) != 0 || pipe(back) != 0) return 1;
  if (fork() == 0) {
    close(there[1]);
    close(back[0]);
    device(fdopen(there[0], "r"), fdopen(back[1], "w"));
    _exit(0);
  }
  close(there[0]);
  close(back[1]);
  signal(SIGPIPE, SIG_IGN);

  uv_loop_t loop;
  connection l = {.to = fdopen(there[1], "w"), .from = back[0]};
  uv_loop_init(&loop);
  uv_poll_init(&loop, &l.readable, l.from);
  l.readable.data = &l;
  uv_poll_start(&l.readable, UV_READABLE, on_answer);

  tn_builder *builder;
  tn_runner *runner;
  tn_measurer *measurer;
  char *declaration = read_text(argv[1]);
  const tn_tune_task task = {
      .size = sizeof task, .name = argv[1], .declaration = declaration, .target = "x86-64-v3", .threads = 1};
  const tn_worker_options workers = {.size = sizeof workers, .loop = &loop};
  const tn_runner_functions functions = {.size = sizeof functions, .start = start_run, .release = close_connection};
  candidates c = {&task, argv[2], argv + 3, argc - 3, 0};
  const tn_measure_source source = {next_candidate, on_result, &c};
  check(tn_worker_builder_create(&workers, &builder));
  check(tn_runner_create(&functions, &l, NULL, &runner));
  check(tn_measurer_create(builder, &runner, 1, &source, NULL, &measurer));
  tn_measurer_start(measurer);
  while (!tn_measurer_is_idle(measurer)) uv_run(&loop, UV_RUN_ONCE);

  tn_measurer_release(measurer);
  tn_builder_release(builder);
  tn_runner_release(runner);
  uv_run(&loop, UV_RUN_DEFAULT); /* what was closed ends */
  uv_loop_close(&loop);
  free(declaration);
  return 0;
}
