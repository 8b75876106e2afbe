/* Calls each public function with valid arguments, then with NULL for each pointer, and then in nonsensical ways,
 * each in its own process. A NULL where a pointer is required must yield a status that names the argument, and no
 * call may end with a signal. Objects are created in the process of the call, so that no object depends on threads
 * of another process. */
#ifndef TENON_TESTS_MISUSE_H
#define TENON_TESTS_MISUSE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/compile.h"
#include "tenon/te.h"

typedef tn_status *(*made_call)(int null); /* `null`: the index of the argument passed as NULL; -1: none */

typedef struct row {
  const char *function;
  made_call call;
  const char *argument; /* the argument passed as NULL; NULL: none */
  int null;
  int gives_status, may_be_refused, may_be_null;
} row;

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static char folder[64] = "/tmp/tenon-misuse-XXXXXX";

static void need(tn_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", tn_status_message(status));
  _exit(3);
}

/* Returns the path of a name in the folder, valid for the next 63 calls. */
static const char *place(const char *name) {
  static char paths[64][256];
  static unsigned count;
  char *path = paths[count++ % 64];
  snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
  return path;
}

static void write_file(const char *name, const char *contents) {
  FILE *f = fopen(place(name), "w");
  if (f == NULL || fputs(contents, f) < 0 || fclose(f) != 0) _exit(3);
}

static const char text[] = "kernel twice(X: f32[4]) -> Y: f32[4] {\n  Y[i] = X[i] + X[i]\n}\n";
static const char graph[] = "graph \"g\" {\n  input x: f32[3, 4]\n  y: f32[3, 4] = tanh(x)\n  output \"y\" = y\n}\n";
static _Alignas(64) float numbers_of_x[12];
static int64_t shape_of_x[2] = {3, 4};
static DLTensor x = {numbers_of_x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape_of_x, NULL, 0};
static const tn_compile_options quick = {
    .size = sizeof quick, .no_cache = true, .no_measure = true, .compile_threads = 1};

static const char *model(void) { return place("g.tng"); }
static const char *te_file(void) { return place("t.te"); }
static const char *tnx(void) { return place("g.tnx"); }

static void begin(void) {
  if (mkdtemp(folder) == NULL) _exit(3);
  setenv("TENON_CACHE_DIR", folder, 1);
  setenv("TENON_TUNE_DB", place("usual.db"), 1);
  write_file("g.tng", graph);
  write_file("t.te", text);
  tn_module *m;
  need(tn_compile(model(), NULL, 0, &quick, &m));
  need(tn_module_save(m, tnx()));
  tn_module_release(m);
  need(tn_tensor_write_npy(&x, place("x.npy")));
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

enum { WENT_WELL = 10, REFUSED, BADLY_REFUSED };

/* Ends the process with the outcome of the call. A rejected NULL counts as correct only if the message names it. */
static void leave(const row *r, tn_status *status) {
  if (status == NULL) _exit(WENT_WELL);
  const char *message = tn_status_message(status);
  bool named =
      r->argument == NULL || r->may_be_null || strstr(message, "NULL") != NULL || strstr(message, r->argument) != NULL;
  if (r->argument == NULL && !r->may_be_refused) fprintf(stderr, "%s: %s\n", r->function, message);
  if (!named) fprintf(stderr, "%s, %s NULL: the message does not name it: %s\n", r->function, r->argument, message);
  _exit(named ? REFUSED : BADLY_REFUSED);
}

/* Returns whether the outcome is what the row requires. */
static bool check_row(const row *r) {
  int state;
  pid_t child = fork();
  if (child == 0) leave(r, r->call(r->null));
  if (waitpid(child, &state, 0) != child) return false;
  const char *argument = r->argument == NULL ? "good arguments" : r->argument;
  if (!WIFEXITED(state)) {
    fprintf(stderr, "%s(%s%s): signal %d\n", r->function, argument, r->argument == NULL ? "" : " NULL",
            WTERMSIG(state));
    return false;
  }
  int code = WEXITSTATUS(state);
  bool good = code == WENT_WELL || (code == REFUSED && r->may_be_refused);
  if (r->argument != NULL && !r->may_be_null && r->gives_status) good = code == REFUSED;
  if (!good) fprintf(stderr, "%s(%s): ended with %d, which is not as it should be\n", r->function, argument, code);
  return good;
}

static int check_rows(const row *rows, size_t count) {
  int wrong = 0;
  for (size_t i = 0; i < count; i++) wrong += !check_row(&rows[i]);
  return wrong;
}

/* ---- misuse by hand ---------------------------------------------------------------------------------------------- */

static int misuses, misused_badly;

/* `call` must return an error whose message contains these words. */
#define REFUSES(call, words)                                                                             \
  do {                                                                                                   \
    int state;                                                                                           \
    pid_t child = fork();                                                                                \
    misuses++;                                                                                           \
    if (child == 0) {                                                                                    \
      tn_status *status = (call);                                                                        \
      if (status != NULL && strstr(tn_status_message(status), (words)) != NULL) _exit(REFUSED);          \
      fprintf(stderr, "%s\n  %s\n", #call, status == NULL ? "it went well" : tn_status_message(status)); \
      _exit(BADLY_REFUSED);                                                                              \
    }                                                                                                    \
    if (waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == REFUSED) break;  \
    misused_badly++;                                                                                     \
    if (WIFSIGNALED(state)) fprintf(stderr, "%s\n  signal %d\n", #call, WTERMSIG(state));                \
  } while (0)

/* `condition` must be true, and its evaluation must not end the process. */
#define HOLDS(condition)                                                                                  \
  do {                                                                                                    \
    int state;                                                                                            \
    pid_t child = fork();                                                                                 \
    misuses++;                                                                                            \
    if (child == 0) _exit((condition) ? WENT_WELL : BADLY_REFUSED);                                       \
    if (waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == WENT_WELL) break; \
    misused_badly++;                                                                                      \
    fprintf(stderr, "%s\n  %s\n", #condition, WIFSIGNALED(state) ? "a signal" : "is not so");             \
  } while (0)

static int finish(int wrong, size_t count) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command) != 0) wrong++;
  printf("%zu calls and %d misuses; %d are not refused as they should be\n", count, misuses, wrong + misused_badly);
  return wrong + misused_badly == 0 ? 0 : 1;
}

#endif
